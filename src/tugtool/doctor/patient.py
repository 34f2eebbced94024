"""What is examined: a repository with its settings, its database and its worktrees."""

from __future__ import annotations

import os

from tugtool import config, files, git
from tugtool.errors import TugError
from tugtool.plan import fingerprint
from tugtool.state.record import PlanCopy, storable
from tugtool.store import checking, open_store, sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.repository import Repository
    from tugtool.store import Store

#: Nobody holds a lock for so long: then it is said who does.
LOCK_SECONDS = 1
#: What SQLite calls it when it may not write beside the file that it is to read.
_UNWRITABLE = ("CANTOPEN", "READONLY", "IOERR")


class Patient:
    """One repository; whatever is broken in it, this can be made and asked."""

    def __init__(
        self, repo: Repository, *, cwd: str, fix: bool = False, actor: str | None = None
    ) -> None:
        self.repo, self.cwd, self.fix, self.actor = repo, cwd, fix, actor
        self.settings = config.Settings({}, None)
        self.unset: TugError | None = None
        try:
            self.settings = config.load(repo.root)
        except TugError as error:
            self.unset = error
        self.path = os.path.join(repo.root, ".tugtool", "state.db")
        #: Where backups are kept, and what is unfinished of them.
        self.copies = os.path.join(repo.common_dir, "tugtool")
        #: The database itself, for repairs.
        self.live = self._store(self.path)
        #: The database or a copy of it, for looking; and why that cannot be, if it cannot.
        self.store = self.live
        self.unread: TugError | None = None
        self.recorded = False
        #: What starting Python costs without its site and with it, once it was measured.
        self.starts: tuple[float | None, float | None] = (None, None)
        self._aside: str | None = None
        self._facts: list[dict[str, str]] | None = None
        self.open()

    def _store(self, path: str) -> Store:
        busy = self.settings.number("state.busy_seconds") if self.fix else LOCK_SECONDS
        return open_store(f"sqlite://{path}", busy_seconds=busy, copies=self.copies)

    def open(self) -> None:
        """Look whether there is a database, and whether it can be read."""
        self.unread = None
        try:
            self.recorded = self.live.exists()
            if self.recorded:
                self._read()
        except TugError as error:
            self.unread = error

    def _read(self) -> None:
        if not self.fix and not checking.is_open(self.path) and self._look_aside():
            return
        try:
            self._try(self.live)
        except TugError as error:
            # On a file system that may only be read, a copy can be.
            name = str(error.facts.get("sqlite"))
            if not name.startswith(_UNWRITABLE) or not self._look_aside():
                raise

    def _try(self, store: Store) -> None:
        with store.read() as tx:
            tx.all(sql.PLANS)
        self.store = store

    def _look_aside(self) -> bool:
        """Read a copy: nothing at all is changed by looking at that."""
        import tempfile

        try:
            directory = self._aside = self._aside or tempfile.mkdtemp(prefix="tugcode-doctor-")
            copy = checking.copied(self.path, directory)
        except OSError:
            return False
        if copy is None:
            return False
        try:
            self._try(self._store(copy))
        except TugError as error:
            # It is the database that is meant, wherever it was read.
            error.message = error.message.replace(copy, self.path)
            raise
        return True

    def close(self) -> None:
        """Let go of everything."""
        import shutil

        self.store.close()
        self.live.close()
        if self._aside is not None:
            shutil.rmtree(self._aside, ignore_errors=True)

    def worktrees(self) -> list[dict[str, str]]:
        """What git says of every working tree, the main one first; asked once."""
        if self._facts is None:
            self._facts = git.worktree_facts(self.repo.root)
        return self._facts

    def forget_worktrees(self) -> None:
        """Something was repaired: ask again."""
        self._facts = None

    def is_making(self) -> bool:
        """Whether somebody is making or removing worktrees just now."""
        return checking.holder(os.path.join(self.copies, "worktrees.lock"), 0) is not None

    def top_of(self, owner: str) -> str | None:
        """The working tree that is recorded under a name, if it is there."""
        for facts in self.worktrees():
            path = facts["worktree"]
            if storable(path) == owner and os.path.lexists(os.path.join(path, ".git")):
                return path
        return None

    def copy(self, top: str, plan: str) -> PlanCopy:
        """The plan file as whoever works in a worktree has it, or else the main one's."""
        paths = [os.path.join(each, plan) for each in (top, self.repo.root)]
        path = next((each for each in paths if os.path.lexists(each)), None)
        if path is None:
            return PlanCopy(paths[0])
        return PlanCopy(
            path,
            read=lambda: fingerprint.of(files.read(path, max_bytes=1 << 30)),
            worktree=top if path == paths[0] and top != self.repo.root else None,
        )
