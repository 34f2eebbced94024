"""Faults to plant in a process that works on a plan: each breaks a promise now and then."""

from tugtool import state
from tugtool.state import record
from tugtool.store import sql
from tugtool.store.sqlite import SqliteStore, SqliteTransaction
from tugtool.system import process


def no_fence() -> None:
    """No attempt is compared with the present one; the worktree's name is all that counts."""
    record.refuse_stale = lambda plan, top, attempt: None


def early_answer() -> None:
    """What was done is answered for at once, and committed when the next thing is begun."""
    begin, end = SqliteStore.begin, SqliteStore.end
    owed: list[tuple] = []

    def begin_after(self: SqliteStore, *, writing: bool, urgent: bool = False) -> object:
        while owed:
            end(*owed.pop(), writing=True, commit=True)
        return begin(self, writing=writing, urgent=urgent)

    def end_later(
        self: SqliteStore, connection: object, *, writing: bool, commit: bool, **how: object
    ) -> None:
        if writing and commit:
            owed.append((self, connection))
        else:
            end(self, connection, writing=writing, commit=commit, **how)

    SqliteStore.begin, SqliteStore.end = begin_after, end_later


def claim_without_transaction() -> None:
    """A claim's statements are each a transaction of their own, and nobody waits for others."""
    claim = state.claim

    class Loose(SqliteTransaction):
        def __enter__(self) -> "Loose":
            super().__enter__()
            self._store.end(self._connection, writing=True, commit=True)
            return self

        def __exit__(self, *error: object) -> None:
            pass

    class Unlocked:
        def __init__(self, store: SqliteStore) -> None:
            self.store = store

        def write(self, plan: str, *, urgent: bool = False) -> Loose:
            return Loose(self.store, plan, writing=True)

    state.claim = lambda store, *words, **how: claim(Unlocked(store), *words, **how)


def lost_count() -> None:
    """Whoever waits for a step is not told that it is done, or no longer."""
    sql.SHIFT_OPEN_DEPS = sql.SHIFT_OPEN_DEPS.replace("open_deps + :by", "open_deps + 0 * :by")


def stopped_is_gone() -> None:
    """A process that is stopped for a while is taken for dead."""
    start_time = process.start_time

    def of_running(pid: int) -> str | None:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                stopped = file.read().rpartition(b")")[2].split()[0] == b"T"
        except OSError:
            return None
        return None if stopped else start_time(pid)

    process.start_time = of_running


def dead_hold_on() -> None:
    """Whoever was killed keeps its step until its lease has run out."""
    record.gone = lambda tx, plan=None: set()


FAULTS = {
    "no fence": no_fence,
    "early answer": early_answer,
    "claim without a transaction": claim_without_transaction,
    "lost count": lost_count,
    "stopped is gone": stopped_is_gone,
    "the dead hold on": dead_hold_on,
}
