"""On which engine a test's state lies: a SQLite file, or a schema of a PostgreSQL server.

`url_in(directory)` is the address of the state that belongs to a directory. A test that is run on
both engines has the parameter `engine`; all others use a file.
"""

import contextlib
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import postgres_server
from tugtool.store import open_store, schema
from tugtool.store.postgres import PostgresStore, create
from tugtool.store.postgres.address import Address

ENGINES = ("sqlite", "postgres")
#: Of so many tests one is run on PostgreSQL each time; the others are proofs.
SAMPLE = 12

_current = "sqlite"
_server: str | None = None
#: Schemas that no test uses any more, and those that this one does.
_free: list[str] = []
_used: dict[str, str] = {}

_TABLES = [create._TABLE.search(each) for each in schema.TABLES]
_DELETE = [f"delete from {found[1]}" for found in reversed(_TABLES) if found]
_NUMBERED = [found[1] for each in schema.TABLES if (found := create._NUMBERED.search(each))]
_RESET = [f"alter sequence {name}_number restart" for name in _NUMBERED if name != "events"]
_CLEAN = (*_DELETE, *_RESET, "delete from receipts", "update repository set last_event = 0")


def url_in(directory: Path | str) -> str:
    """The address of the state in a directory, which is there from now on, or can be made."""
    if _current == "sqlite":
        return f"sqlite://{directory}/state.db"
    key = str(directory)
    if key not in _used:
        _used[key] = _free.pop() if _free else _made()
    return _used[key]


def _made() -> str:
    assert _server is not None
    name = f"test_{zlib.crc32(_server.encode()):x}_{os.getpid()}_{len(_used)}"
    while name in "".join((*_free, *_used.values())):
        name += "x"
    url = f"postgresql:///{postgres_server.DATABASE}?host={_server}&user=postgres&schema={name}"
    with contextlib.closing(open_store(url)) as store:
        assert isinstance(store, PostgresStore)
        create.make(store)
    return url


def _cleaned(url: str) -> None:
    """Take all rows away; schemas are made once, because that takes a while."""
    store = PostgresStore(url)
    connection = store.take()
    path = create._path(Address(url).quoted_schema())
    create._run(store, connection, ("begin", path, *_CLEAN, "commit"))
    connection.close()


@contextlib.contextmanager
def on(name: str, root: Path) -> Iterator[None]:
    """Inside, states lie there."""
    global _current, _server
    if name == "postgres":
        _server = postgres_server.shared(root)
    before, _current = _current, name
    try:
        yield
    finally:
        _current = before
        while _used:
            url = _used.popitem()[1]
            _cleaned(url)
            _free.append(url)


@contextlib.contextmanager
def at(directory: Path) -> Iterator[None]:
    """Inside, states lie in a server of the test's own."""
    global _current, _server
    before = _current, _server, [*_free], {**_used}
    _current, _server = "postgres", str(directory)
    _free.clear()
    _used.clear()
    try:
        yield
    finally:
        _current, _server, _free[:], used = before
        _used.clear()
        _used.update(used)


@contextlib.contextmanager
def in_file() -> Iterator[None]:
    """Inside, a state lies in a file all the same."""
    global _current
    before, _current = _current, "sqlite"
    yield
    _current = before


def session_root(factory: pytest.TempPathFactory) -> Path:
    """The directory that all workers of a session share."""
    root = factory.getbasetemp()
    return root.parent if "PYTEST_XDIST_WORKER" in os.environ else root


def is_postgres(url: str) -> bool:
    """Whether that is the address of a server, and not of a file."""
    return url.startswith("postgresql:")


def _is_sampled(item: str) -> bool:
    return zlib.crc32(item.encode()) % SAMPLE == 0


def parametrise(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for `engine` on both; on PostgreSQL as a proof, but for a sample."""
    if "engine" not in metafunc.fixturenames:
        return
    chosen = [pytest.param("sqlite", id=pytest.HIDDEN_PARAM)]
    if _has_record(metafunc) and not metafunc.definition.get_closest_marker("file"):
        where = f"{metafunc.module.__name__}::{metafunc.function.__name__}"
        marks = [] if _is_sampled(where) else [pytest.mark.proof(share=0)]
        chosen.append(pytest.param("postgres", marks=marks))
    metafunc.parametrize("engine", chosen, indirect=True)


def _has_record(metafunc: pytest.Metafunc) -> bool:
    """Whether a test makes a record of its own; commands use the file of their repository."""
    test = metafunc.function
    inner = getattr(getattr(test, "hypothesis", None), "inner_test", test)
    return "lab" in metafunc.fixturenames or "Lab" in inner.__code__.co_names
