"""A repository in good health, in which things are really broken and then looked at."""

import gc
import hashlib
import os
import shlex
import sqlite3
from pathlib import Path
from typing import Self

from conftest import Repo, Result
from support.state import KEY, TABLES
from support.worktree import Yard
from tugtool.cli import parse
from tugtool.store import open_store

#: What a hint may run: it looks, or it is the repair itself and can do no harm.
LOOKING = (
    *("state show", "state why", "state diff", "state review", "worktree list", "version"),
    *("config", "init", "doctor", "worktree remove", "state restore", "list", "dash show"),
    *("dash release", "state init", "plugin install"),
)
#: What comes back at once with the command behind it.
AGAIN = "claude plugin uninstall tugplug@tugtool"
DRY = ("state prune", "state reconcile", "merge", "worktree cleanup")
OTHERS = ("git", "ls", "grep", "ps", "df", "date", "rmdir", "python3", "cd")
#: Findings about the machine that the tests run on are no finding of a test.
MACHINE = ("start-up", "disk-space", "file-system")


class Clinic(Yard):
    """The plan `work`, set up, committed and recorded, with a worktree `self.tree`."""

    def __init__(self, repo: Repo, tugcode, *lines: str) -> None:
        super().__init__(repo, tugcode, *lines)
        name = repo.become("clinic", *lines, make=self._made)
        self._locate(name)

    def _locate(self, name: str) -> None:
        self.tree = self.root / ".tugtree" / name
        self.db = self.root / ".tugtool" / "state.db"
        self.copies = self.root / ".git" / "tugtool"

    def at(self, repo: Repo) -> Self:
        there = super().at(repo)
        there._locate(self.tree.name)
        return there

    def _made(self, repo: Repo) -> str:
        """Set the repository up and make a worktree; its name."""
        assert self._tugcode("-C", repo.path, "init").status == 0
        repo.git("add", "--all")
        repo.git("commit", "--quiet", "--message=set up")
        made = self.ok("worktree", "create", "work", at=repo.path)
        return Path(made["worktree_path"]).name

    def doctor(self, *words: str, at: Path | None = None) -> Result:
        done = self.run("doctor", *words, at=at)
        for check in done.data.get("checks", []):
            for finding in check["findings"]:
                harmless(finding["hint"])
        return done

    def text(self, *words: str) -> Result:
        return self._tugcode("-C", self.root, "doctor", *words)

    def findings(self, *words: str, at: Path | None = None) -> dict[str, list[dict]]:
        """Check -> what it found, the machine's own aside."""
        data = self.doctor(*words, at=at).data
        found = {check["name"]: check["findings"] for check in data["checks"]}
        return {name: each for name, each in found.items() if each and name not in MACHINE}

    def only(self, check: str, *words: str, **how: Path) -> list[dict]:
        """What this check found, where no other found anything."""
        found = self.findings(*words, **how)
        assert list(found) == [check], found
        return found[check]

    def one(self, check: str, *words: str, **how: Path) -> dict:
        (finding,) = self.only(check, *words, **how)
        return finding

    def mends(self, check: str, *words: str) -> str:
        """What is wrong is mended by --fix, and the next look finds nothing; what was done."""
        before = self.one(check)
        assert before["fixable"], before
        assert not before["fixed"]
        finding = self.one(check, "--fix", *words)
        assert finding["fixed"], finding
        assert finding["message"] == before["message"]
        assert self.findings() == {}
        return finding["outcome"]

    def status(self, check: str, *words: str) -> str:
        data = self.doctor(*words).data
        return next(each["status"] for each in data["checks"] if each["name"] == check)

    def sql(self, *statements: str) -> None:
        """Break rows as no command would: no foreign keys, no checks."""
        connection = sqlite3.connect(self.db, isolation_level=None)
        connection.execute("pragma foreign_keys = off")
        connection.execute("pragma ignore_check_constraints = on")
        for statement in statements:
            connection.execute(statement)
        connection.close()

    def rest(self) -> None:
        """Nobody has the database open, and so there is nothing beside it."""
        gc.collect()
        self.sql("select 1 from plans")
        assert not list(self.db.parent.glob("state.db-*"))

    def dump(self) -> dict[str, list[dict]]:
        store = open_store(f"sqlite://{self.db}")
        with store.read(KEY) as tx:
            names = (*TABLES, "worktrees", "intents", "unsaved", "dashes")
            found = {t: [dict(row) for row in tx.all(f"select * from {t}")] for t in names}
        store.close()
        return found

    def changed_tables(self, before: dict[str, list[dict]]) -> set[str]:
        after = self.dump()
        return {name for name in after if after[name] != before[name]}

    def snapshot(self) -> dict[str, tuple]:
        """Every file and directory, git's own too: what it is and when it was changed."""
        return dict(_snapshot(self.root))


def _snapshot(root: Path):
    for directory, names, files in os.walk(root):
        for name in (*names, *files):
            path = os.path.join(directory, name)
            status = os.lstat(path)
            # Being read may be noted, and a directory's own time is its entries'.
            facts = (status.st_mode, status.st_mtime_ns if name in files else 0)
            content = b""
            if os.path.isfile(path):
                content = Path(path).read_bytes()
            if name != "state.db-shm":
                # Locks of readers live in there.
                yield os.path.relpath(path, root), (*facts, hashlib.sha256(content).hexdigest())


def harmless(hint: str | None) -> None:
    """It is one command that exists, and looks, or repairs without harm."""
    if hint is None:
        return
    if hint.startswith(AGAIN):
        hint = hint.partition(" && ")[2]
    program, *words = shlex.split(hint)
    if program != "tugcode":
        assert program in OTHERS, hint
        assert not {"--force", "-f", "reset", "clean", "-D"} & set(words), hint
        return
    call = parse.parse(words)
    assert call.command is not None, hint
    assert "--force" not in words, hint
    assert call.path in LOOKING or (call.path in DRY and "--dry-run" in words), hint
