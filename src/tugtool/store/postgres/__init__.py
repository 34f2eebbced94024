"""The engine of many machines: a PostgreSQL server, one schema per repository.

`write` takes an advisory lock per plan, in sorted order, and reads the server's clock after it, so
a lease never depends on how well the machines agree about the time. All settings are those of one
transaction: nothing is lost behind a pooler that gives each transaction another connection.

To add a schema change: `store.schema`; `create` has what PostgreSQL calls differently.
"""

from __future__ import annotations

import contextlib
import functools
import time

from tugtool.errors.state import QueryFailed
from tugtool.store import NO_PLAN
from tugtool.store.postgres import libpq, translate
from tugtool.store.postgres.address import Address
from tugtool.store.postgres.library import LibraryMissing
from tugtool.store.postgres.transaction import PostgresTransaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from typing import Any, ParamSpec, TypeVar

    from tugtool.store import Rescue
    from tugtool.store.owners import Owners
    from tugtool.store.postgres.libpq import PostgresRow
    from tugtool.store.postgres.listen import Listener
    from tugtool.store.postgres.round_trips import Statement

    P = ParamSpec("P")
    T = TypeVar("T")

#: The schema version in `schema`, which is loaded only to make or migrate.
CURRENT = 16

OLDEST_SERVER = 140000

#: Let the planner use the indexes with or without statistics: SQLite always does, and a claim must
#: not read a plan of ten thousand steps. Its estimates are then so high that it would compile every
#: statement (`jit`).
_PLANNER = (
    *("enable_seqscan", "enable_bitmapscan", "enable_sort"),
    *("enable_hashjoin", "enable_mergejoin", "enable_material", "jit"),
)

_SETTINGS = (
    "select set_config('search_path', $1, %s), set_config('lock_timeout', $2, %s),"
    " set_config('idle_in_transaction_session_timeout', $3, %s)"
    + "".join(f", set_config('{name}', 'off', %s)" for name in _PLANNER)
    + ", set_config('plan_cache_mode', 'force_generic_plan', %s)"
)
_LOCAL = _SETTINGS.replace("%s", "true").encode()
_LASTING = _SETTINGS.replace("%s", "false").encode()
_UNLIMITED = b"set local idle_in_transaction_session_timeout = 0"

#: The process that has held one of the locks longest, and for how many seconds.
_HOLDER = b"""
select a.pid, a.application_name, a.client_hostname, a.client_addr::text,
       extract(epoch from clock_timestamp() - a.xact_start)::double precision
  from pg_locks l join pg_stat_activity a on a.pid = l.pid
 where l.locktype = 'advisory' and l.granted and l.objsubid = 1
   and l.database = (select oid from pg_database where datname = current_database())
   and (l.classid::bigint << 32) | l.objid::bigint = hashtextextended($1, 0)
"""
_EXISTS = b"select to_regclass($1) is not null"

#: Errors of a server, or of a pooler before it, that will be ready in a moment.
_PASSING = (
    *("the database system is", "too many clients", "connection slots", "terminating"),
    *("server_login_retry", "pgbouncer", "no more connections", "query_wait_timeout"),
)
#: libpq says this itself, and would say it again.
_NO_PASSWORD = "no password supplied"

#: How often an operation that was overtaken is called again; each takes another lost connection.
_MOST_CALLS = 5
#: These read their input once, and cannot be called a second time.
_ONCE = ("import_", "export")


class PostgresStore:
    """A state database in a schema of a server, for one thread at a time."""

    def __init__(
        self,
        url: str,
        *,
        repository: str | None = None,
        clock: Callable[[], int] | None = None,
        busy_seconds: float = 5,
    ) -> None:
        self.address = Address(url, repository)
        #: The repository's name, as its schema has it; None accepts any.
        self.repository = repository
        #: Owners as the caller's machine sees them; without one a path alone is the owner.
        self.owners: Owners | None = None
        #: Whether the machine's name is in the database.
        self.is_known = False
        #: Set by tests; else the server's clock counts.
        self.clock = clock
        self.busy_seconds = min(busy_seconds, 2_000_000)
        #: The statement for the number of the last event, in any transaction.
        self.last_event = (
            f"select last_event from {self.address.quoted_schema()}.repository".encode()
        )
        self._idle: list[libpq.Connection] = []
        self._exists = False
        self._listener: Listener | None = None

    def exists(self) -> bool:
        """Return whether the repository has its tables."""
        if not self._exists:
            name = f"{self.address.quoted_schema()}.repository"
            self._exists = bool(self.ask(_EXISTS, name).rows[0][0])
        return self._exists

    def create(
        self, restore: Callable[[Rescue], Mapping[str, Any]] | None = None
    ) -> Mapping[str, Any] | None:
        """Refuse if there are no tables: only a person makes them, by `create.make`."""
        if not self.exists():
            raise translate.no_tables(self.address)
        return None

    def write(self, plan: str, *others: str, urgent: bool = False) -> PostgresTransaction:
        """Begin a transaction that may change the plans; it does not wait for other plans."""
        return PostgresTransaction(self, (plan, *others), writing=True)

    def read(self, plan: str | None = None) -> PostgresTransaction:
        """Begin a transaction that sees one moment, changes nothing and does not wait."""
        return PostgresTransaction(self, (plan or NO_PLAN,), writing=False)

    def group(self) -> AbstractContextManager[object]:
        """Begin a group: here every transaction is a commit of its own."""
        return contextlib.nullcontext()

    def wait_for_change(self, seconds: float) -> bool:
        """Wait for the notice of a commit, at most so long. Return whether one came."""
        if self._listener is None:
            from tugtool.store.postgres.listen import Listener

            self._listener = Listener(self)
        return self._listener.wait(seconds)

    def close(self) -> None:
        """Close the connections."""
        while self._idle:
            self._idle.pop().close()
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def roots(self) -> list[str]:
        """Return the root commits of the repository when its tables were made."""
        name = self.address.quoted_schema()
        return str(self.ask(f"select roots from {name}.repository".encode()).rows[0][0]).split()

    # -- for transactions --------------------------------------------------------------

    def settings(self, connection: libpq.Connection, *, writing: bool) -> list[Statement]:
        """The statements that set what holds for one transaction.

        On a connection that is nobody else's they are sent once, before its second transaction.
        """
        # A machine that dies or stops in a transaction loses its locks after this time. A reader
        # holds no locks, and may wait for a person who pages through an export.
        idle = int(max(10, self.busy_seconds * 2) * 1000)
        name, busy = self.address.quoted_schema(), int(self.busy_seconds * 1000)
        if not connection.is_direct:
            values = (name, busy, idle if writing else 0)
            return [(_LOCAL, [libpq.encoded(value) for value in values])]
        if not connection.is_set:
            connection.send(_LASTING, [libpq.encoded(value) for value in (name, busy, idle)])
            connection.flush()
            connection.is_set = True
        return [] if writing else [(_UNLIMITED, ())]

    def lock_key(self, plan: str) -> bytes | None:
        """Return the lock's key of a plan; no other repository has the same."""
        return libpq.encoded(f"{self.address.schema}\n{plan}")

    def take(self) -> libpq.Connection:
        """Return a connection without a transaction."""
        return self._idle.pop() if self._idle else self.connect()

    def give_back(self, connection: libpq.Connection) -> None:
        """Keep the connection for the next transaction."""
        self._idle.append(connection)

    def connect(self) -> libpq.Connection:
        """Make a new connection; wait for a server that is starting or briefly away."""
        deadline, pause = time.monotonic() + self.busy_seconds, 0.05
        while True:
            try:
                connection = libpq.Connection(self._parameters(), max(2, self.busy_seconds))
            except LibraryMissing as error:
                raise self._without_library(error) from error
            except libpq.ConnectionFailed as error:
                said = str(error)
                # A traceback shows the error too.
                error.args = (self.address.cleaned(said),)
                refused = "FATAL" in said or _NO_PASSWORD in said
                passing = not refused or any(words in said for words in _PASSING)
                if not passing or time.monotonic() + pause > deadline:
                    raise translate.unreachable(self.address, said) from error
                time.sleep(pause)
                pause = min(pause * 2, 1.0)
                continue
            if connection.server_version < OLDEST_SERVER:
                version = connection.server_version // 10000
                connection.close()
                said = f"it is PostgreSQL {version}, and 14 or newer is needed"
                raise translate.unreachable(self.address, said)
            return connection

    def _parameters(self) -> dict[str, str]:
        found = {
            "fallback_application_name": "tugcode",
            "keepalives_idle": "10",
            "keepalives_interval": "5",
            "keepalives_count": "3",
            "tcp_user_timeout": "20000",
        }
        if "," in self.address.libpq and "target_session_attrs" not in self.address.libpq:
            # Of several servers, take the one that accepts writes.
            found["target_session_attrs"] = "read-write"
        # Later parameters win: the address may change all but the last.
        return {**found, "dbname": self.address.libpq, "client_encoding": "UTF8"}

    def _without_library(self, error: Exception) -> Exception:
        from tugtool.errors.state import DatabaseUnavailable

        return DatabaseUnavailable(
            self.address.shown,
            reason=f"needs the library libpq: {error}",
            hint="pip install 'tugtool[postgres]'",
            engine="postgres",
        )

    def ask(self, statement: bytes, *values: object) -> libpq.Outcome:
        """Run one statement as a transaction that changes nothing."""
        deadline, pause = time.monotonic() + self.busy_seconds, 0.0
        while True:
            connection = self.take()
            try:
                connection.send(statement, [libpq.encoded(value) for value in values])
                connection.flush()
                outcome = connection.receive(1)[0]
                break
            except libpq.ConnectionLost as error:
                connection.close()
                if time.monotonic() + pause > deadline:
                    raise translate.lost(self.address, "nothing was written") from error
                time.sleep(pause)
                pause = min(pause * 2 or 0.05, 1.0)
        self.give_back(connection)
        if isinstance(outcome, libpq.StatementFailed):
            raise translate.refusal(self.address, outcome)
        return outcome

    def check(self, row: PostgresRow) -> None:
        """Refuse a schema of another version or another repository."""
        if row["version"] != CURRENT or self.repository not in (None, row["identity"]):
            from tugtool.store.postgres import create

            create.refuse(self, version=row["version"], identity=row["identity"])

    def refuse_other(self) -> None:
        """Refuse a schema of another version, whose tables have other columns."""
        name = self.address.quoted_schema()
        self.check(self.ask(f"select version, identity from {name}.repository".encode()).rows[0])

    def refuse_busy(self, plans: list[str]) -> None:
        """Refuse if one holder has kept the lock of one of the plans all the time."""
        for plan in plans:
            for row in self.ask(_HOLDER, self.lock_key(plan)).rows:
                pid, name, host, place, seconds = row
                if seconds is None or seconds >= self.busy_seconds:
                    at = host or place or "the server's machine"
                    holder = f"{name or 'a program'} at {at} (the server's process {pid})"
                    raise translate.busy(self.address, holder, self.busy_seconds)


@functools.cache
def persistent(operation: Callable[P, T]) -> Callable[P, T]:
    """Return an operation of one transaction that is called again if it was overtaken."""
    if isinstance(operation, type) or operation.__name__ in _ONCE:
        return operation

    # The operation's name, page and arguments are those of the operation itself.
    @functools.wraps(operation)
    def persisting(*words: P.args, **how: P.kwargs) -> T:
        for _ in range(_MOST_CALLS):
            try:
                return operation(*words, **how)
            except QueryFailed as error:
                if error.facts.get("postgres") != translate.OVERTAKEN:
                    raise
        return operation(*words, **how)

    return persisting
