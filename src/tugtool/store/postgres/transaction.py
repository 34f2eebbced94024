"""One transaction: its questions and changes, the owners in them, and its commit."""

from __future__ import annotations

from tugtool.errors import TugError
from tugtool.errors.state import DatabaseError
from tugtool.store import sql
from tugtool.store.owners import ADD_MACHINE, COLUMNS, MACHINES
from tugtool.store.postgres import libpq, statements, translate
from tugtool.store.postgres.round_trips import PERHAPS, RoundTrips, StatementRefused
from tugtool.system import clock as clocks
from tugtool.system import os, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any, Self

    from tugtool.store.postgres import PostgresStore
    from tugtool.store.postgres.libpq import Outcome, PostgresRow
    from tugtool.store.postgres.round_trips import Statement

#: How many rows are sent before their answers are read.
_AHEAD = 200


class PostgresTransaction(RoundTrips):
    """One transaction; see `tugtool.store.Transaction`.

    Nothing is sent before the first statement. One round trip has the begin, the lock of each
    plan, the server's clock, that statement and those that are expected after it. Changes wait
    for the next question, or for the commit. Events are sent with the commit, so their numbers
    are in the order of commits.

    A commit releases its locks before it is on the disk. So the next transaction does not wait for
    the disk, and several commits share one sync. The caller gets its answer after the sync, also if
    it has only read: others may not have synced yet what they have committed.
    """

    def __init__(self, store: PostgresStore, plans: Sequence[str], *, writing: bool) -> None:
        super().__init__(store, plans, writing=writing)
        #: The default plan of statements.
        self.plan = plans[0]
        self._notes: list[Statement] = []
        self._wrote = False
        self._cursors = 0
        self._owners = store.owners
        self._adds_machine = False
        self._token: tuple[bytes | None, bytes] = (None, b"")

    @property
    def now(self) -> str:
        """The time of the transaction, read once, as text."""
        if self._milliseconds is None:
            self._run()
        return self._now

    def after(self, seconds: float) -> str:
        """Return the time so many seconds from now."""
        assert self.now
        return clocks.text((self._milliseconds or 0) + max(1, round(seconds * 1000)))

    def first(self, statement: str, **values: object) -> PostgresRow | None:
        """Return the first row, or None."""
        rows = self._ask(statement, values).rows
        return rows[0] if rows else None

    def one(self, statement: str, **values: object) -> PostgresRow:
        """Return the row that must exist."""
        rows = self._ask(statement, values).rows
        assert rows, statement
        return rows[0]

    def all(self, statement: str, **values: object) -> list[PostgresRow]:
        """Return all rows."""
        return self._ask(statement, values).rows

    def each(self, statement: str, **values: object) -> Iterator[PostgresRow]:
        """Yield the rows through a cursor: other statements may come in between."""
        query, parameters = self._bound(statement, values)
        self._cursors += 1
        name = b"each_%d" % self._cursors
        self._run((b"declare %s no scroll cursor for %s" % (name, query), parameters))
        # Not to be sent again: the rows read so far are not kept.
        self._log = None
        while rows := self._run((b"fetch %d from %s" % (_AHEAD, name), ()))[-1].rows:
            yield from self._seen(rows)
        self._run((b"close %s" % name, ()))

    def value(self, statement: str, **values: object) -> Any:
        """Return the first column of the first row."""
        rows = self._ask(statement, values).rows
        return rows[0][0] if rows else None

    def run(self, statement: str, **values: object) -> int:
        """Run a statement and return the number of changed rows."""
        self._answers.clear()
        return self._ask(statement, values).changed

    def later(self, statement: str, **values: object) -> None:
        """Run a statement for its changes; its errors may show at the next one."""
        self._before(statement)
        self._answers.clear()
        self._changes += [*self._machine(statement), self._bound(statement, values)]

    def expect(self, statement: str, **values: object) -> None:
        """Announce a question: it goes with the next one, and is not asked again."""
        question = (statement, *values.values())
        self._expected[question] = self._bound(statement, values)

    def note(self, kind: str, detail: Mapping[str, object], **values: object) -> None:
        """Add an event to the log at the commit."""
        values |= {"now": self.now, "kind": kind, "detail": text.encode(detail)}
        self._notes.append(self._bound(sql.ADD_EVENT, values))

    def many(self, statement: str, rows: Iterable[Mapping[str, object]]) -> None:
        """Run a statement once per row."""
        query, names = translate.numbered(statement)
        self._before(statement)
        self._answers.clear()
        batch = self._machine(statement)
        for row in rows:
            batch.append((query, self._encoded(names, row)))
            if len(batch) >= _AHEAD:
                self._run(*batch)
                batch = []
        if batch:
            self._run(*batch)

    def _ask(self, statement: str, values: dict[str, object]) -> Outcome:
        self._before(statement)
        outcome = None
        if self._answers:
            outcome = self._answers.pop((statement, *values.values()), None)
        if outcome is None:
            outcome = self._run(*self._machine(statement), self._bound(statement, values))[-1]
        if self._owners is None:
            return outcome
        return libpq.Outcome(self._seen(outcome.rows), outcome.changed)

    def _before(self, statement: str) -> None:
        """Write the events that a statement about events must see."""
        if self._notes and "events" in statement:
            notes, self._notes = self._notes, []
            self._wrote = True
            self._run(*notes)
        self._wrote = self._wrote or not translate.only_reads(statement)

    # Called for every statement: it changes the dictionary that its caller's call has made.
    def _bound(self, statement: str, values: dict[str, object]) -> Statement:
        query, names = translate.numbered(statement)
        # Nearly every statement needs the plan and the time.
        if "plan" not in values:
            values["plan"] = self.plan
        if "now" not in values and "now" in names:
            if self._milliseconds is None and self._store.clock is None:
                # Not known here yet; the server has it when this arrives.
                query, names = translate.numbered(statement, now=statements.NOW)
            else:
                values["now"] = self.now
        return query, self._encoded(names, values)

    # -- owners ------------------------------------------------------------------------

    def _encoded(self, names: Sequence[str], named: Mapping[str, object]) -> list[bytes | None]:
        """Return the values of parameters, with owners as they are stored."""
        owners = self._owners
        if owners is None:
            return libpq.all_encoded(names, named)
        return [libpq.encoded(owners.stored(name, named[name], self._machines)) for name in names]

    def _seen(self, rows: list[PostgresRow]) -> list[PostgresRow]:
        """Return rows with owners as this machine sees them."""
        owners = self._owners
        if owners is None or not rows or COLUMNS.isdisjoint(rows[0].keys()):
            return rows
        columns = [*rows[0].keys()]
        seen = (owners.seen(columns, [*row], self._machines) for row in rows)
        return [libpq.PostgresRow(zip(columns, values, strict=True)) for values in seen]

    def _machine(self, statement: str) -> list[Statement]:
        """Return what adds this machine before the first statement that adds an owner of it."""
        owners, (_, names) = self._owners, translate.numbered(statement)
        known = self._adds_machine or self._store.is_known
        if owners is None or known or not owners.adds_owner(statement, names):
            return []
        self._adds_machine = True
        query, names = translate.numbered(ADD_MACHINE)
        here = {"machine": owners.machine.id, "name": owners.machine.name}
        return [(query, [libpq.encoded(here[name]) for name in names])]

    def _machines(self) -> list[tuple[str, str]]:
        rows = self._run((MACHINES.encode(), ()))[-1].rows
        return [(id, name) for id, name in rows]

    # -- the end -----------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        try:
            if kind is None and self._writing:
                self._commit()
            # A refusal is an answer too.
            is_answer = kind is None or (isinstance(kind, type) and issubclass(kind, TugError))
            if is_answer and self._is_open and self._failure is None:
                self._confirm()
        finally:
            if self._is_open:
                self._roll_back()
            if self._connection is not None:
                self._store.give_back(self._connection)

    def _commit(self) -> None:
        if self._failure is not None:
            raise translate.refusal(self._store.address, self._failure)
        if not (self._wrote or self._notes):
            return
        self._expected = {}
        if self._milliseconds is None:
            self._run()
        self._token = (libpq.encoded(self._milliseconds), os.urandom(12).hex().encode())
        try:
            self._end()
        except libpq.ConnectionLost as error:
            self._is_doubtful = not isinstance(error, StatementRefused)
            self._end_again()
        self._store.is_known = self._store.is_known or self._adds_machine

    def _end(self) -> None:
        """Write the receipt and the events, commit, notify waiting processes: one round trip."""
        store, receipt = self._store, (statements.RECEIPT, self._token)
        notices: list[Statement] = []
        # Not part of the merged changes, which are the same statements every time. And first:
        # the number of an event makes other plans wait.
        written = statements.clean_up(self._token[1], self._milliseconds or 0)
        written += translate.merged([*self._changes, receipt, *self._notes])
        if self._is_awaited:
            written.append((statements.NOTICED, ()))
            # The number of the last event lets a listener ignore a notice that it gets late.
            said = b"(%s)::text" % store.last_event if self._notes else b"''"
            notices.append((statements.NOTIFY % said, (store.address.schema.encode(),)))
        self._finish([*written, (b"commit", ())], statements.LAST, notices)

    def _end_again(self) -> None:
        """Find out whether an unanswered commit happened; if not, repeat it."""
        for _ in self._tries():  # pragma: no branch (they end by refusing)
            try:
                if self._is_doubtful and self._is_committed():
                    return
                self._repeat()
                return self._end()
            except libpq.ConnectionLost as error:
                self._is_doubtful = self._is_doubtful or not isinstance(error, StatementRefused)

    def _is_committed(self) -> bool:
        """Return whether the receipt exists; the locks prove that the lost transaction is over."""
        try:
            found = self._exchange([(statements.RECEIVED, self._token)])[0].changed
        except DatabaseError as error:
            # The server is away, or the lost transaction still holds its locks.
            raise translate.lost(self._store.address, PERHAPS) from error
        if not found:
            self._roll_back()
            return False
        self._finish([(b"commit", ())], statements.LAST)
        return True

    def _confirm(self) -> None:
        """End without a commit, after the sync of what was read."""
        try:
            self._let_go()
        except libpq.ConnectionLost:
            for _ in self._tries():  # pragma: no branch (they end by refusing)
                try:
                    # If the server has crashed, what was read may be gone.
                    self._repeat()
                    return self._let_go()
                except libpq.ConnectionLost:
                    continue

    def _let_go(self) -> None:
        if self._unsynced is None:
            self._roll_back()
        else:
            self._finish([(b"rollback", ())], self._unsynced)
