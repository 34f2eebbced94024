"""Machines and owners: which machine is this, and what is stored for its worktrees.

An owner is a machine and the path of a worktree. Stored is `ID:PATH`; in a file a path alone is
on the machine that has the file. The engines translate on the way in and out, so the rooms above
see their own machine's owners as paths, as if there were no other, and others as `NAME:PATH`.

Only a record that several machines share loads this module.
"""

from __future__ import annotations

import sys

from tugtool.system import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    #: Reads the machines' ids and names.
    Asked = Callable[[], Iterable[tuple[str, str]]]

#: Columns that have an owner, and `detail`: the events' JSON, which may name one.
COLUMNS = frozenset(("claimed_by", "completed_by", "worktree", "path", "actor", "detail"))
#: Parameters that have one; `file` is a path too, and each machine has its own files.
PARAMETERS = COLUMNS | {"owner", "file"}
IN_DETAIL = ('"reclaimed_from": "', '"completed_by": "')

MACHINES = "select id, name from machines"
# Mostly it is there: then nothing is locked. Names are unique.
ADD_MACHINE = """
insert into machines (id, name)
select cast(:machine as text),
       case when exists (select 1 from machines where name = :name)
            then cast(:name as text) || '-' || substr(cast(:machine as text), 1, 6)
            else cast(:name as text) end
 where not exists (select 1 from machines where id = :machine)
on conflict do nothing
"""
#: The id of the machine that has the file.
HOME = ""
#: Files with the host's own id: Linux (systemd, D-Bus), FreeBSD.
_ID_FILES = ("/etc/machine-id", "/var/lib/dbus/machine-id", "/etc/hostid")
_LONGEST_NAME = 64


class Machine:
    """A machine: its id in the record, and its host name."""

    __slots__ = ("id", "name")

    def __init__(self, id: str, name: str) -> None:
        self.id = id
        self.name = name


def this_machine(given: str | None = None) -> Machine:
    """Return this machine, or the one with the given name.

    Its id is made from the host's own, which is to be kept secret (machine-id(5)). A record in a
    file does not ask for it: the worktrees there are on the machine that has the file.
    """
    name = machine_name(given or "")
    if name:
        return Machine(name, name)
    name, own = _host_name(), _host_id()
    return Machine(_digest(own) if own else name, name)


def machine_name(text: str) -> str:
    """Return a name that can stand before the colon of `machine:path`."""
    kept = "".join(each if each.isascii() and _is_kept(each) else "-" for each in text)
    return kept.strip("-.")[:_LONGEST_NAME]


def told_apart(id: str, name: str, *, token: str | None = None) -> Machine:
    """Return a machine whose id is a name for people; no token's name has an @."""
    id, name = machine_name(id), machine_name(name)
    shown = name if id == name else f"{name}-{id[:6]}"
    shown = shown if token is None else f"{token}@{shown}"
    return Machine(shown, shown)


def _host_name() -> str:
    return machine_name(os.uname().nodename) or "machine"


def _is_kept(char: str) -> bool:
    return char.isalnum() or char in "._-"


def _host_id() -> bytes:
    """Return the host's own id; empty if it has none, as in many containers."""
    for path in _ID_FILES:
        try:
            with open(path, "rb", buffering=0) as file:
                found = file.read(100).strip()
        except OSError:
            continue
        # systemd writes this word until the first boot is over.
        if found and found != b"uninitialized":
            return found
    return _darwin_id() if sys.platform == "darwin" else b""


def _darwin_id() -> bytes:
    """Return the hardware's UUID on macOS, which has it in no file."""
    import ctypes

    class Wait(ctypes.Structure):
        _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))

    uuid = (ctypes.c_ubyte * 16)()
    try:
        failed = ctypes.CDLL(None).gethostuuid(uuid, ctypes.byref(Wait(1, 0)))
    except AttributeError:
        return b""
    return b"" if failed else bytes(uuid)


def _digest(own: bytes) -> str:
    try:
        from _blake2 import blake2s  # hashlib loads OpenSSL, a quarter of a bare start.
    except ImportError:
        from hashlib import blake2s
    return blake2s(own, key=b"tugtool", digest_size=6).hexdigest()


class Owners:
    """Translates the owners of one store, whose machine is this one."""

    __slots__ = ("_names", "_own", "machine")

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._own = f"{machine.id}:" if machine.id else ""
        #: Id -> name.
        self._names: dict[str, str] = {}

    def stored(self, name: str, value: object, ask: Asked) -> object:
        """Return the value of a parameter as the database has it."""
        if type(value) is not str or name not in PARAMETERS:
            return value
        if name == "detail":
            return _in_detail(value, lambda text: self._stored(text, ask))
        return self._stored(value, ask)

    def seen(self, columns: Sequence[str], values: Sequence[Any], ask: Asked) -> tuple[Any, ...]:
        """Return a row's values as this machine sees them."""
        return tuple(
            self._seen_in(column, value, ask) if column in COLUMNS and type(value) is str else value
            for column, value in zip(columns, values, strict=True)
        )

    def adds_owner(self, statement: str, names: Iterable[str]) -> bool:
        """Return whether the machine has to be known for a statement: it adds an owner."""
        return statement.lstrip().startswith("insert") and not PARAMETERS.isdisjoint(names)

    def _stored(self, value: str, ask: Asked) -> str:
        if _is_path(value):
            return self._own + value
        name, mark, path = value.partition(":")
        if not mark or not _is_path(path):
            return value
        found = self._id_of(name) or (self._read(ask) and self._id_of(name))
        return path if found == (HOME,) else f"{found[0] if found else name}:{path}"

    def _id_of(self, name: str) -> tuple[str] | None:
        return next(((id,) for id, known in self._names.items() if known == name), None)

    def _seen_in(self, column: str, value: str, ask: Asked) -> str:
        if column == "detail":
            return _in_detail(value, lambda text: self._seen(text, ask))
        return self._seen(value, ask)

    def _seen(self, value: str, ask: Asked) -> str:
        if self._own and value.startswith(self._own):
            return value.removeprefix(self._own)
        if not self._own and _is_path(value):
            return value
        id, _, path = (HOME, ":", value) if _is_path(value) else value.partition(":")
        if not _is_path(path):
            return value
        if id not in self._names:
            self._read(ask)
        return f"{self._names.setdefault(id, id)}:{path}"

    def _read(self, ask: Asked) -> bool:
        self._names |= dict(ask())
        self._names.setdefault(HOME, _host_name())
        return True


class FileConnection:
    """A connection to a file that several machines share."""

    def __init__(self, connection: Any, owners: Owners | None) -> None:
        self._connection, self._kind = connection, connection.row_factory
        self.owners: Owners | None = None
        self.act_for(owners)

    def act_for(self, owners: Owners | None) -> None:
        """From now on see the owners as that machine does; None: as they are stored."""
        self.owners = owners
        self._connection.row_factory = self._kind if owners is None else self._row

    def _row(self, cursor: Any, values: tuple[Any, ...]) -> Any:
        assert self.owners is not None
        columns = [each[0] for each in cursor.description]
        return self._kind(cursor, self.owners.seen(columns, values, self._machines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, values: Any = ()) -> Any:
        """Run a statement; its owners are stored as they have to be."""
        return self._connection.execute(statement, self._stored(statement, values))

    def executemany(self, statement: str, rows: Iterable[Any]) -> Any:
        """Run a statement once per row."""
        return self._connection.executemany(statement, (self._stored(statement, r) for r in rows))

    def _stored(self, statement: str, values: Any) -> Any:
        if not isinstance(values, dict) or self.owners is None:
            return values
        if self.owners.adds_owner(statement, values):
            # This process is on the machine that has the file.
            for each in (Machine(HOME, _host_name()), self.owners.machine):
                named = {"machine": each.id, "name": each.name}
                self._connection.execute(ADD_MACHINE, named)
        stored = self.owners.stored
        return {name: stored(name, value, self._machines) for name, value in values.items()}

    def _machines(self) -> list[tuple[str, str]]:
        return [(id, name) for id, name in self._connection.execute(MACHINES)]


def share(store: Any, machine: Machine) -> None:
    """Let a store tell owners apart by their machines; the caller's worktrees are on this one."""
    owners = Owners(machine)
    if not hasattr(store, "connect_file"):
        store.owners = owners
        return
    opened = store.connect_file
    store.connect_file = lambda *words, **how: FileConnection(opened(*words, **how), owners)


class Stage:
    """Lets a server's store act for one machine after the other."""

    def __init__(self, store: Any) -> None:
        """Take a store that has not been opened yet."""
        self._store = store
        self._connections: list[FileConnection] = []
        self._now: Owners | None = None
        if hasattr(store, "connect_file"):
            self._opened, store.connect_file = store.connect_file, self._connect
        else:  # pragma: no cover (a server whose state is in PostgreSQL: tests/server)
            self._now = store.owners
        self._own = self._now

    def act_for(self, machine: Machine | None) -> None:
        """From now on act for a machine; None: for the server's own."""
        self._now = self._own if machine is None else Owners(machine)
        if hasattr(self._store, "connect_file"):
            for each in self._connections:
                each.act_for(self._now)
        else:  # pragma: no cover (a server whose state is in PostgreSQL: tests/server)
            self._store.owners, self._store.is_known = self._now, False

    def _connect(self, *words: Any, **how: Any) -> FileConnection:
        made = self._opened(*words, **how)
        if isinstance(made, FileConnection):  # pragma: no cover (a file that others share too)
            # The server has a name of its own in a file that others share too.
            self._own = made.owners
            self._now = self._now or self._own
            made.act_for(self._now)
        else:
            made = FileConnection(made, self._now)
        self._connections.append(made)
        return made


def on_other_machine(owner: str) -> bool:
    """Return whether an owner's worktree is on another machine: `machine:path`."""
    machine, _, path = owner.partition(":")
    return "/" not in machine and _is_path(path)


def machine_of(owner: str) -> str:
    """Return the name of an owner's machine; empty for the machine of the store."""
    return owner.partition(":")[0] if on_other_machine(owner) else ""


def _is_path(text: str) -> bool:
    return text.startswith(("/", "."))


def _in_detail(text: str, change: Callable[[str], str]) -> str:
    """Return an event's JSON with its owners changed; only their beginnings are."""
    for mark in IN_DETAIL:
        head, found, tail = text.partition(mark)
        text = head + found + change(tail) if found else text
    return text
