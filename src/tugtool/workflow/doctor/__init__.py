"""doctor: find faults, name the command for each, and make the repairs that are safe.

Each check is a function that yields findings, listed in `checks.CHECKS` and in
docs/reference/doctor.md. To add one, write the function in the module of its subject and list it.
This module has what all checks share: the subject and the findings.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tugtool.errors import TugError
from tugtool.git import command as git
from tugtool.state import record as state_record
from tugtool.state.record import owner_of
from tugtool.store import file_store, locate, open_store
from tugtool.store.sqlite import SqliteStore, health
from tugtool.system import config, os
from tugtool.workflow import records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from tugtool.git import Repository
    from tugtool.store import Store

    #: A note needs no repair: it settles itself, or is a person's choice.
    Severity = Literal["error", "warning", "note"]
    #: Makes one repair and returns what it did; raises as every operation does.
    Mend = Callable[[], str]


#: Commands hold a lock for less time; after this the doctor names the holder.
LOCK_SECONDS = 1
#: SQLite's errors if it cannot write beside the database.
_UNWRITABLE = ("CANTOPEN", "READONLY", "IOERR")


class Subject:
    """One repository. It can be examined even if everything in it is broken."""

    def __init__(self, repo: Repository, *, cwd: str, fix: bool = False) -> None:
        self.repo, self.cwd, self.fix = repo, cwd, fix
        self.settings = config.Settings({}, None)
        self.unset: TugError | None = None
        try:
            self.settings = config.load(repo.root)
        except TugError as error:
            self.unset = error
        #: The directory of backups and unfinished ones.
        url, self.copies, self._link = locate(repo.root, repo.common_dir)
        self._busy = self.settings.number("state.busy_seconds") if fix else LOCK_SECONDS
        file = file_store(open_store(url, busy_seconds=self._busy, copies=self.copies))
        assert file is not None, url
        self.path = file.path
        #: Whether the record is on a server, where other machines have their worktrees in it.
        self.is_shared = bool(self.settings.state_url())
        #: The database itself, for repairs.
        self.live: Store = file
        #: The database or a copy, for reading; and why it cannot be read, if so.
        self.store: Store = file
        self.unread: TugError | None = None
        self.recorded = False
        #: The measured start time of Python without and with its site.
        self.starts: tuple[float | None, float | None] = (None, None)
        self._aside: str | None = None
        self._facts: list[dict[str, str]] | None = None
        self.open()

    @property
    def actor(self) -> str:
        """The name under which repairs are recorded."""
        return owner_of(self.repo.worktree)

    def open(self) -> None:
        """Find out whether there is a database and whether it can be read."""
        self.unread = None
        try:
            if self.is_shared:
                self.live = self._open_shared()
            elif self._link is not None:
                records.refuse_link(self.repo, self._link)
            self.recorded = self.live.exists()
            if self.recorded:
                self._try(self.live) if self.is_shared else self._read()
        except TugError as error:
            self.unread = error

    def _open_shared(self) -> Store:
        from tugtool.workflow import shared_record

        return shared_record.open_shared(self.repo, self.settings, self._busy)

    def _read(self) -> None:
        if not self.fix and not health.is_open(self.path) and self._look_aside():
            return
        try:
            self._try(self.live)
        except TugError as error:
            # On a read-only file system, a copy can be read.
            name = str(error.facts.get("sqlite"))
            if not name.startswith(_UNWRITABLE) or not self._look_aside():
                raise

    def _try(self, store: Store) -> None:
        state_record.plans(store)
        self.store = store

    def _look_aside(self) -> bool:
        """Read a copy, which changes nothing."""
        import tempfile

        try:
            directory = self._aside = self._aside or tempfile.mkdtemp(prefix="tugcode-doctor-")
            copy = health.copied(self.path, directory)
        except OSError:
            return False
        if copy is None:
            return False
        try:
            self._try(SqliteStore(copy, busy_seconds=self._busy, copies=self.copies))
        except TugError as error:
            # Name the database, not the copy.
            error.message = error.message.replace(copy, self.path)
            raise
        return True

    def close(self) -> None:
        """Close the database and remove the copy."""
        import shutil

        self.store.close()
        self.live.close()
        if self._aside is not None:
            shutil.rmtree(self._aside, ignore_errors=True)

    def worktrees(self) -> list[dict[str, str]]:
        """Return git's facts about every worktree, the main one first; ask git once."""
        if self._facts is None:
            self._facts = git.worktree_facts(self.repo.root)
        return self._facts

    def forget_worktrees(self) -> None:
        """Ask git again after a repair."""
        self._facts = None

    def is_making(self) -> bool:
        """Return whether another command creates or removes worktrees now."""
        return health.holder(os.path.join(self.copies, "worktrees.lock"), 0) is not None

    def top_of(self, owner: str) -> str | None:
        """Return the worktree of an owner, or None if it is missing."""
        for facts in self.worktrees():
            path = facts["worktree"]
            if owner_of(path) == owner and os.path.lexists(os.path.join(path, ".git")):
                return path
        return None


@dataclass(eq=False)
class DoctorFinding:
    """A fault, or a fact worth knowing."""

    severity: Severity
    message: str
    #: A harmless command that shows more, or the one that repairs it.
    hint: str | None = None
    repair: Mend | None = None
    #: What the repair did, or why it failed.
    outcome: str | None = None


#: Work cannot go on, or the record is wrong.
error = partial(DoctorFinding, "error")
#: A person should look at it.
warning = partial(DoctorFinding, "warning")
#: Good to know; nothing has to be done.
note = partial(DoctorFinding, "note")
