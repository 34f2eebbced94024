"""A repository in which dashes come and go."""

import json
from pathlib import Path

from conftest import Repo, git
from support.worktree import Yard


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
        rows = [self.rows(f"select * from {table}") for table in ("dashes", "dash_rounds")]
        trees = [
            (line, git("status", "--porcelain", cwd=path), git("diff", "--cached", cwd=path))
            for line in self.repo.git("worktree", "list", "--porcelain").splitlines()
            if line.startswith("worktree ") and (path := Path(line[9:])).exists()
        ]
        return (*super().picture(), json.dumps(rows), trees) if self.has_state() else ()
