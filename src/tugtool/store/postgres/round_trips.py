"""The round trips of a transaction: what is sent together, and again after a lost connection."""

from __future__ import annotations

import time

from tugtool.errors.state import QueryFailed
from tugtool.store.postgres import libpq, statements, translate
from tugtool.system import clock as clocks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tugtool.store.postgres import PostgresStore
    from tugtool.store.postgres.libpq import Outcome

    Statement = tuple[bytes, Sequence[bytes | None]]
    Question = tuple[object, ...]

NOTHING, PERHAPS = "nothing was written", "it may have been written"

#: Errors after which nothing is committed and another try may succeed.
#: The last is of a standby that has not yet taken over.
_AGAIN = ("40001", "40P01", "25006")
#: A prepared statement is not there, is there already, or has other columns since a migration.
_UNPREPARED = ("26000", "42P05", "0A000")
#: A table of an older schema lacks a column.
_NO_COLUMN = "42703"
#: A longer transaction is not sent again; only an import is so long.
_LONGEST_LOG = 2000
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0


class StatementRefused(libpq.ConnectionLost):
    """The server refused a statement, so the transaction did not happen; it may be tried again."""


class RoundTrips:
    """A transaction's connection: it is opened with the first statements, and made again."""

    def __init__(self, store: PostgresStore, plans: Sequence[str], *, writing: bool) -> None:
        self._store = store
        self._plans = sorted(set(plans))
        self._writing = writing
        self._connection: libpq.Connection | None = None
        self._is_open = False
        self._milliseconds: int | None = None
        self._now = ""
        self._log: list[tuple[Statement, Outcome]] | None = []
        self._changes: list[Statement] = []
        #: Questions that will be asked, and the answers to those that were sent.
        self._expected: dict[Question, Statement] = {}
        self._answers: dict[Question, Outcome] = {}
        self._failure: libpq.StatementFailed | None = None
        #: The last refusal after which another try may succeed.
        self._passing: libpq.StatementFailed | None = None
        #: Whether another process waits for a notice of the commit.
        self._is_awaited = False
        #: Up to where the server's log must be synced before the caller may rely on what it read.
        self._unsynced: bytes | None = None
        #: Whether a commit was sent that the server has not answered.
        self._is_doubtful = False

    def _run(self, *batch: Statement) -> list[Outcome]:
        """Run statements in one round trip, if needed on a new connection."""
        if self._failure is not None:
            raise translate.refusal(self._store.address, self._failure)
        changes, self._changes = self._changes, []
        expected, self._expected = self._expected, {}
        sent = [*changes, *batch, *expected.values()]
        try:
            outcomes = self._exchange(sent)
        except libpq.ConnectionLost:
            outcomes = self._again(sent)
        if self._log is not None:
            self._log += zip(sent, outcomes, strict=True)
            self._log = self._log if len(self._log) <= _LONGEST_LOG else None
        asked = len(changes) + len(batch)
        self._answers |= zip(expected, outcomes[asked:], strict=True)
        return outcomes[len(changes) : asked]

    def _exchange(self, batch: Sequence[Statement]) -> list[Outcome]:
        opening = [] if self._is_open else self._opening()
        connection = self._connection
        assert connection is not None
        self._is_open = True
        for statement, values in (*opening, *batch):
            connection.send(statement, values)
        connection.flush()
        done: list[Outcome] = []
        for outcome in connection.receive(len(opening) + len(batch)):
            if isinstance(outcome, libpq.StatementFailed):
                self._fail(outcome, opening=len(done) < len(opening))
            else:
                done.append(outcome)
        if not opening:
            return done
        self._opened(done[: len(opening)])
        return done[len(opening) :]

    def _opening(self) -> list[Statement]:
        if self._connection is None:
            self._connection = self._store.take()
        opening: list[Statement] = [
            (statements.BEGIN_WRITING if self._writing else statements.BEGIN_READING, ())
        ]
        opening += self._store.settings(self._connection, writing=self._writing)
        if self._writing:
            *keys, last = [self._store.lock_key(plan) for plan in self._plans]
            opening += [(b"select " + statements.LOCK, (key,)) for key in keys]
            opening.append((statements.LOCK_THEN_CLOCK, (last,)))
        else:
            opening.append((statements.READ_CLOCK, ()))
        if self._milliseconds is not None:
            # A repeated transaction keeps its time.
            opening.append((statements.SET_NOW, (self._now.encode(),)))
        return opening

    def _opened(self, outcomes: list[Outcome]) -> None:
        first = self._milliseconds is None
        found = outcomes[-1 if first else -2].rows[0]
        self._store.check(found)
        assert self._connection is not None
        self._connection.is_direct = found["process"] == self._connection.server_process
        self._unsynced = libpq.encoded(found["unsynced"])
        server = statements.milliseconds(found["moment"])
        noticed = found["noticed_at"]
        recently = server - 1000 * statements.NOTICE_SECONDS <= noticed <= server
        self._is_awaited = found["watched_until"] > server and not recently
        if first:
            # Read after the lock: later transactions have later times. Tests set their own.
            clock = self._store.clock
            self._milliseconds = clock() if clock else server
            self._now = clocks.text(self._milliseconds)

    def _fail(self, failure: libpq.StatementFailed, *, opening: bool) -> None:
        """Raise our error for a failed statement."""
        direct = self._connection is not None and self._connection.is_direct
        if failure.state in _AGAIN or (direct and failure.state in _UNPREPARED):
            self._passing = failure
            raise StatementRefused(str(failure))
        if failure.state == "55P03" and opening:
            self._roll_back()
            self._store.refuse_busy(self._plans)
            # The holder has changed meanwhile: many take turns.
            raise libpq.ConnectionLost(str(failure))
        if failure.state == _NO_COLUMN and opening:
            self._roll_back()
            self._store.refuse_other()
        # From now on the server accepts only a rollback.
        self._failure = failure
        raise translate.refusal(self._store.address, failure) from failure

    def _again(self, batch: Sequence[Statement]) -> list[Outcome]:
        """Repeat the whole transaction, as long as the results are the same; then go on."""
        for _ in self._tries():  # pragma: no branch (they end by refusing)
            try:
                self._repeat()
                return self._exchange(batch)
            except libpq.ConnectionLost:
                continue
        raise AssertionError  # pragma: no cover (the tries end with a refusal)

    def _tries(self) -> Iterator[None]:
        """Yield once per new connection, with back-off, as long as a command may wait."""
        deadline = time.monotonic() + min(self._store.busy_seconds, statements.KEPT_SECONDS / 2)
        pause = _FIRST_PAUSE
        while True:
            self._drop()
            yield
            if time.monotonic() + pause > deadline:
                if self._passing is not None and not self._is_doubtful:
                    raise translate.refusal(self._store.address, self._passing)
                outcome = PERHAPS if self._is_doubtful else NOTHING
                raise translate.lost(self._store.address, outcome)
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _repeat(self) -> None:
        if self._log is None:
            raise translate.lost(self._store.address, NOTHING)
        try:
            outcomes = self._exchange([statement for statement, _ in self._log])
        except QueryFailed:
            # It was not refused before: another process was there meanwhile.
            outcomes = []
        if outcomes != [outcome for _, outcome in self._log]:
            # Another process changed what the caller has read, or rows got other numbers: the
            # caller's decisions may be wrong.
            raise translate.overtaken(self._store.address)

    def _finish(
        self, batch: Sequence[Statement], until: bytes, notices: Sequence[Statement] = ()
    ) -> None:
        """End with these statements, and wait for the sync of the server's log: one round trip."""
        connection = self._connection
        assert connection is not None
        for statement, values in (*batch, (statements.SYNC, (until,))):
            connection.send(statement, values)
        connection.flush()
        for statement, values in notices:
            connection.send(statement, values)
            connection.flush()
        outcomes = connection.receive(len(batch) + 1 + len(notices))
        for outcome in outcomes[: len(batch)]:
            if isinstance(outcome, libpq.StatementFailed):
                self._fail(outcome, opening=False)
        self._is_open = False
        # A failed notice does not matter: waiting processes also look now and then.
        failure = outcomes[len(batch)]
        if isinstance(failure, libpq.StatementFailed):
            if failure.state == translate.NO_RIGHT:
                raise translate.refusal(self._store.address, failure)
            raise libpq.ConnectionLost(str(failure))

    def _roll_back(self) -> None:
        """Roll back without waiting for the answer."""
        self._is_open, self._failure = False, None
        assert self._connection is not None
        try:
            self._connection.send(b"rollback")
            self._connection.flush()
        except libpq.ConnectionLost:
            self._drop()

    def _drop(self) -> None:
        """Close a broken connection."""
        self._is_open, self._failure = False, None
        if self._connection is not None:
            self._connection.close()
            self._connection = None
