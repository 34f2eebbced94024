"""The driver: PostgreSQL's own C library, called through `ctypes`.

Why not a Python driver: a command is a process, and importing libpq this way costs 0.2 of a bare
interpreter start (psycopg2 3.3, psycopg 3 about 13). TLS, SCRAM and all files are as in `psql`.

`library` finds the library.
"""

from __future__ import annotations

import ctypes
import select

from tugtool.store.postgres import library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    Decoder = Callable[[bytes], object]
    #: The columns of a result: their numbers and names, and how to read their values.
    Shape = list[tuple[int, str, Decoder]]

_CONNECTION_OK = 0
_COMMAND_OK, _TUPLES_OK = 1, 2
_SQLSTATE = ord("C")
_PRIMARY = ord("M")

#: SQLSTATEs of a server that ends the connection, or (08) of a pooler that has lost the server.
_ENDED = ("08", "57P01", "57P02", "57P03", "57P05", "25P03", "25P04")

#: A function that is called for what it does.
_UNREAD = "set_config"

_BOOL, _INTS, _FLOATS, _NUMERIC = 16, (20, 21, 23, 26), (700, 701), 1700


class ConnectionFailed(Exception):
    """The connection failed."""


class ConnectionLost(Exception):
    """The connection ended before all answers came."""


class StatementFailed(Exception):
    """The server refused a statement; its transaction can only be rolled back."""

    def __init__(self, state: str, message: str) -> None:
        super().__init__(message)
        self.state = state


# A dictionary, so that its values are looked up at the speed of one.
class PostgresRow(dict):  # type: ignore[type-arg]
    """A row by column name or number, like `sqlite3.Row`."""

    __slots__ = ()

    def __missing__(self, key: str | int) -> Any:
        if isinstance(key, str):
            raise IndexError(f"No item with that key: {key}")
        return [*self.values()][key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values())

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.values()))

    def keys(self) -> list[str]:  # type: ignore[override]
        """Return the names of the columns."""
        return [*super().keys()]


class Outcome:
    """The result of a statement: its rows, and the number of changed rows."""

    __slots__ = ("changed", "rows")

    def __init__(self, rows: list[PostgresRow], changed: int) -> None:
        self.rows = rows
        self.changed = changed

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Outcome) and self.changed == other.changed
        return same and self.rows == other.rows  # type: ignore[attr-defined]

    __hash__ = None  # type: ignore[assignment]


#: The server's warnings must not go to standard error.
_RECEIVER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_unheard = _RECEIVER(lambda argument, result: None)


class _Notice(ctypes.Structure):
    _fields_ = (
        ("relname", ctypes.c_char_p),
        ("be_pid", ctypes.c_int),
        ("extra", ctypes.c_char_p),
        ("next", ctypes.c_void_p),
    )


def _number(value: bytes) -> float:
    return float(value) if b"." in value else int(value)


#: As SQLite returns them; all other types are text.
_DECODERS: dict[int, Decoder] = {
    _BOOL: lambda value: int(value == b"t"),
    **dict.fromkeys(_INTS, int),
    **dict.fromkeys(_FLOATS, float),
    _NUMERIC: _number,
}


def encoded(value: object) -> bytes | None:
    """Return a value for the server; NUL, which it cannot store, becomes its symbol."""
    if type(value) is str:
        if "\0" in value:
            value = value.replace("\0", "\u2400")
        # Bytes that are not UTF-8 are escaped; no stored name has them.
        return value.encode("utf-8", "backslashreplace")
    if value is None or isinstance(value, bytes):
        return value
    return (repr(value) if isinstance(value, float) else str(int(value))).encode()  # type: ignore[call-overload]


def all_encoded(names: Iterable[str], values: Mapping[str, object]) -> list[bytes | None]:
    """Return named values for the server; of those of every statement, most are texts."""
    found: list[bytes | None] = []
    for name in names:
        value = values[name]
        if type(value) is str and "\0" not in value:
            found.append(value.encode("utf-8", "backslashreplace"))
        else:
            found.append(encoded(value))
    return found


#: Number of parameters -> the type of their array.
_arrays: dict[int, Any] = {}


def _array(values: Sequence[bytes | None]) -> Any:
    count = len(values)
    kind = _arrays.get(count)
    if kind is None:
        kind = _arrays[count] = ctypes.c_char_p * count
    return kind(*values)


#: An answer is owed to a statement, to its preparation, or to the end of a batch.
_ANSWER, _PREPARED, _SYNC = range(3)
#: There are fewer statements; but one may be put together from parts.
_MOST_PREPARED = 400


class Connection:
    """One connection in pipeline mode, for one thread at a time."""

    def __init__(self, parameters: Mapping[str, str], seconds: float) -> None:
        """Connect, or raise ConnectionFailed; `dbname` may be an address in any form of libpq."""
        self._handle = None
        self._pq = library.loaded()
        self._handle = self._connect(parameters, seconds)
        #: What the server has not answered yet, and the statements.
        self._owed: list[tuple[int, bytes]] = []
        #: Statement -> its name on the server; None if it was sent once.
        self._names: dict[bytes, bytes | None] = {}
        #: Those of prepared statements.
        self._shapes: dict[bytes, Shape] = {}
        #: Whether the server itself is at the other end, not a pooler: statements stay prepared.
        self.is_direct = False
        #: Whether the store's settings hold for all its transactions.
        self.is_set = False
        self._pq.PQenterPipelineMode(self._handle)
        self._arrival = select.poll()
        self._arrival.register(self._pq.PQsocket(self._handle), select.POLLIN)

    def _connect(self, parameters: Mapping[str, str], seconds: float) -> Any:
        count = len(parameters)
        names = (ctypes.c_char_p * (count + 1))(*(name.encode() for name in parameters), None)
        values = (ctypes.c_char_p * (count + 1))(
            *(value.encode("utf-8", "surrogateescape") for value in parameters.values()), None
        )
        handle = self._pq.PQconnectStartParams(names, values, 1)
        self._pq.PQsetNoticeReceiver(handle, _unheard, None)
        try:
            self._poll(handle, seconds)
        except BaseException:
            self._pq.PQfinish(handle)
            raise
        return handle

    def _poll(self, handle: Any, seconds: float) -> None:
        """Wait until the connection is made; signals are handled meanwhile."""
        waiting = 2  # As PQconnectPoll says: 0 failed, 1 for reading, 2 for writing, 3 done.
        if self._pq.PQstatus(handle) == 1:
            waiting = 0
        while waiting in (1, 2):
            poll = select.poll()
            poll.register(
                self._pq.PQsocket(handle), select.POLLIN if waiting == 1 else select.POLLOUT
            )
            if not poll.poll(seconds * 1000):
                raise ConnectionFailed(f"no answer within {seconds:g} s")
            waiting = self._pq.PQconnectPoll(handle)
        if waiting == 0:
            raise ConnectionFailed(self._said(handle))

    def _said(self, handle: Any) -> str:
        words: bytes = self._pq.PQerrorMessage(handle)
        return words.decode("utf-8", "replace").strip()

    @property
    def server_version(self) -> int:
        """The version as a number: 160002 for 16.2."""
        version: int = self._pq.PQserverVersion(self._handle)
        return version

    def close(self) -> None:
        """Close the connection; an uncommitted transaction is rolled back."""
        if self._handle:
            self._pq.PQfinish(self._handle)
            self._handle = None

    __del__ = close

    @property
    def server_process(self) -> int:
        """The process id that the other end has told; a pooler tells one of its own."""
        number: int = self._pq.PQbackendPID(self._handle)
        return number

    def send(self, statement: bytes, values: Sequence[bytes | None] = ()) -> None:
        """Queue a statement."""
        count, array = len(values), _array(values) if values else None
        name = self._names.get(statement) or self._prepared(statement)
        if name is None:
            sent = self._pq.PQsendQueryParams(
                self._handle, statement, count, None, array, None, None, 0
            )
        else:
            sent = self._pq.PQsendQueryPrepared(self._handle, name, count, array, None, None, 0)
        if not sent:
            raise ConnectionLost(self._said(self._handle))
        self._owed.append((_ANSWER, statement))

    def _prepared(self, statement: bytes) -> bytes | None:
        """Have a statement prepared that is sent for the second time; return its name."""
        # The next cursor of the same name has other columns.
        is_cursor = statement.startswith(b"fetch")
        if is_cursor or not self.is_direct or len(self._names) > _MOST_PREPARED:
            return None
        if statement not in self._names:
            self._names[statement] = None
            return None
        # Imported here: a command sends each statement once.
        import hashlib

        # The name tells the text: on whatever server it is known, it is the same statement.
        name = b"tug_" + hashlib.sha256(statement).hexdigest()[:24].encode()
        sent = self._pq.PQsendPrepare(self._handle, name, statement, 0, None)
        self._sent(sent, _PREPARED, statement)
        self._names[statement] = name
        return name

    def flush(self) -> None:
        """Send the queued statements without waiting for the answers."""
        self._sent(self._pq.PQpipelineSync(self._handle), _SYNC)

    def _sent(self, is_queued: int, kind: int, statement: bytes = b"") -> None:
        if not is_queued:
            raise ConnectionLost(self._said(self._handle))
        self._owed.append((kind, statement))

    def receive(self, wanted: int) -> list[Outcome | StatementFailed]:
        """Return the results of the last `wanted` statements; read all earlier ones first."""
        pq, handle = self._pq, self._handle
        is_busy, next_result, clear = pq.PQisBusy, pq.PQgetResult, pq.PQclear
        outcomes: list[Outcome | StatementFailed] = []
        refused: StatementFailed | None = None
        for kind, statement in self._owed:
            while is_busy(handle):
                self._read(None)
            result = next_result(handle)
            if not result:
                raise ConnectionLost(self._said(handle))
            if kind != _SYNC:
                outcome = self._outcome(result, statement)
                # No more results of this statement.
                next_result(handle)
                if kind == _ANSWER:
                    # A statement that cannot be prepared has failed.
                    outcomes.append(refused or outcome)
                    refused = None
                elif isinstance(outcome, StatementFailed):
                    refused, self._names[statement] = outcome, None
            clear(result)
        self._owed = []
        return outcomes[len(outcomes) - wanted :]

    def _read(self, seconds: float | None) -> None:
        """Take in what has arrived, after at most so many seconds of waiting for it."""
        self._arrival.poll(None if seconds is None else max(0, seconds) * 1000)
        if not self._pq.PQconsumeInput(self._handle):
            raise ConnectionLost(self._said(self._handle))

    def _outcome(self, result: Any, statement: bytes) -> Outcome | StatementFailed:
        pq = self._pq
        status = pq.PQresultStatus(result)
        if status == _COMMAND_OK:
            return Outcome([], int(pq.PQcmdTuples(result) or 0))
        if status != _TUPLES_OK:
            return self._failed(result)
        count = pq.PQntuples(result)
        if not count:
            return Outcome([], 0)
        columns = self._shapes.get(statement) or self._shape(result, statement)
        value, is_null = pq.PQgetvalue, pq.PQgetisnull
        rows = []
        for number in range(count):
            row = PostgresRow()
            for n, name, decode in columns:
                found = value(result, number, n)
                # Null looks as an empty text does.
                row[name] = decode(found) if found or not is_null(result, number, n) else None
            rows.append(row)
        return Outcome(rows, count)

    def _shape(self, result: Any, statement: bytes) -> Shape:
        """Return the columns, and how to read them; known of a prepared statement."""
        pq, names = self._pq, set()
        shape: Shape = []
        for n in range(pq.PQnfields(result)):
            name = pq.PQfname(result, n).decode()
            if name == _UNREAD:
                continue
            # A column without a name of its own can be asked for by its number.
            name = f"{name} {n}" if name in names else name
            names.add(name)
            shape.append((n, name, _DECODERS.get(pq.PQftype(result, n), bytes.decode)))
        if self._names.get(statement):
            self._shapes[statement] = shape
        return shape

    def _failed(self, result: Any) -> StatementFailed:
        pq = self._pq
        state = (pq.PQresultErrorField(result, _SQLSTATE) or b"").decode()
        words = pq.PQresultErrorField(result, _PRIMARY) or b"it was not carried out"
        message = words.decode("utf-8", "replace")
        if state.startswith(_ENDED) or (not state and pq.PQstatus(self._handle) != _CONNECTION_OK):
            raise ConnectionLost(message)
        return StatementFailed(state, message)

    def notices(self, seconds: float) -> list[str]:
        """Return the notices that arrive within so many seconds."""
        found = self._noticed()
        if not found:
            self._read(seconds)
            found = self._noticed()
        return found

    def _noticed(self) -> list[str]:
        found = []
        while notice := self._pq.PQnotifies(self._handle):
            extra = ctypes.cast(notice, ctypes.POINTER(_Notice)).contents.extra
            found.append((extra or b"").decode("utf-8", "replace"))
            self._pq.PQfreemem(notice)
        return found
