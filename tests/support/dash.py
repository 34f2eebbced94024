"""A repository in which dashes come and go."""

import json
from pathlib import Path

from conftest import Repo
from support.worktree import Yard, changed


class Field(Yard):
    """Commands about dashes, run from the main worktree unless said otherwise."""

    def dash(self, name: str = "fix", *words: object) -> Path:
        return Path(self.ok("dash", "create", name, *words)["worktree_path"])

    def round(self, name: str = "fix", files: dict | None = None, *words: object) -> dict:
        """Write files in a dash's worktree, and commit them."""
        Repo(self.place(name)).write(files or {"new.txt": "new\n"})
        said = () if "--message" in words else ("--message", f"Work on {name}")
        return self.ok("dash", "commit", name, *said, *words)

    def place(self, name: str = "fix") -> Path:
        return self.root / ".tugtree" / f"tugdash__{name}"

    def show(self, name: str = "fix") -> dict:
        return self.ok("dash", "show", name)

    def log(self, revision: str = "HEAD", form: str = "%B") -> str:
        return self.repo.git("log", "-1", f"--format={form}", revision)

    def head(self, revision: str = "HEAD") -> str:
        return self.repo.git("rev-parse", "--verify", revision).strip()

    def content(self, revision: str) -> dict[str, str]:
        """Every file of a commit."""
        names = self.repo.git("ls-tree", "-r", "--name-only", revision).splitlines()
        return {name: self.repo.git("show", f"{revision}:{name}") for name in names}

    def saved(self) -> list[str]:
        return [name for name in self.refs() if name.startswith("refs/tug/salvage/")]

    def picture(self) -> tuple:
        if not self.has_state():
            return ()
        rows = [self.rows(f"select * from {table}") for table in ("dashes", "dash_rounds")]
        seen = super().picture()
        paths = [line[9:] for line in seen[1].splitlines() if line.startswith("worktree ")]
        trees = [changed(path) for each in paths[1:] if (path := Path(each)).exists()]
        return (*seen, json.dumps(rows), trees)
