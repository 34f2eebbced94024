"""On which engine a test's state lies: a SQLite file, a schema of a PostgreSQL server, or a file
behind `tugcode serve`, whose client the test is then.

`url_in(directory)` is the address of the state that belongs to a directory. A test that names the
fixture `engine`, and every test of `state` that makes a record, is run on all engines; all others
use a file.
"""

import contextlib
import itertools
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from support import postgres_server
from tugtool.store import open_store, schema
from tugtool.store.postgres import PostgresStore, create

ENGINES = ("sqlite", "postgres")
#: Of so many tests one is run on each other engine each time; there the others are proofs.
SAMPLE = 12

_current = "sqlite"
_server: str | None = None
_numbers = itertools.count()
#: The name of a repository whose commands have their state there.
REPOSITORY = "example.invalid/team/work"
#: Stores that no test uses any more, and by directory those that this one does.
_free: list[PostgresStore] = []
_used: dict[str, PostgresStore] = {}
#: Those of these directories that were there.
_there: set[str] = set()

TABLES = [found[1] for each in schema.TABLES if (found := create._TABLE.search(each))]
#: Those whose first column is a number that the engine gives out.
NUMBERED = [found[1] for each in schema.TABLES if (found := create._NUMBERED.search(each))]
_DELETE = [f"delete from {name}" for name in reversed(TABLES) if name != "epoch"]
_RESET = [f"alter sequence {name}_number restart" for name in NUMBERED if name != "events"]
_FIRST = (
    "update repository set last_event = 0, watched_until = 0, noticed_at = 0,"
    f" version = {schema.VERSION}"
)
_CLEAN = (*_DELETE, *_RESET, "delete from receipts", _FIRST)


def url_in(directory: Path | str, repository: str | None = None) -> str:
    """The address of the state in a directory, which is there from now on, or can be made."""
    if _current in ("sqlite", "served"):
        return f"sqlite://{directory}/state.db"
    if str(directory) not in _used:
        # A property makes many, each in a directory that is gone with its example.
        for other in [each for each in _there if not os.path.exists(each)]:
            give_back(other)
        _there.update({str(directory)} if os.path.exists(directory) else ())
        free = [each for each in _free if each.repository == repository]
        for each in free[-1:]:
            _free.remove(each)
        _used[str(directory)] = free[-1] if free else _made(repository)
    store = _used[str(directory)]
    return f"{store.address.libpq}&schema={store.address.base}"


def opened(url: str, clock: Callable[[], int] | None = None) -> Any:
    """The store at an address, as the client of its server if the test's engine is that."""
    if _current != "served":
        return open_store(url, clock=clock)
    from support import served

    return served.opened(url, clock)


def _made(repository: str | None) -> PostgresStore:
    assert _server is not None
    name = f"test_{zlib.crc32(_server.encode()):x}_{os.getpid()}_{next(_numbers)}"
    url = f"postgresql:///{postgres_server.DATABASE}?host={_server}&user=postgres&schema={name}"
    store = PostgresStore(url, repository=repository)
    create.make(store)
    store.close()
    return store


def cleaned(store: PostgresStore) -> None:
    """Take all rows away; schemas are made once, because that takes a while."""
    connection = store.take()
    path = create._path(store.address.quoted_schema())
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
        for directory in list(_used):
            give_back(directory)
        if name == "served":
            from support import served

            served.thread().end()


def current() -> str:
    """The engine of the test that runs."""
    return _current


def forget() -> None:
    """In a child process: make states of its own."""
    _free.clear()
    _used.clear()
    _there.clear()


def give_back(directory: Path | str) -> None:
    """Have the state of a directory forgotten before the test ends; for those that make many."""
    _there.discard(str(directory))
    store = _used.pop(str(directory), None)
    if store is not None:
        cleaned(store)
        _free.append(store)


def drop(url: str) -> None:
    """Do not use the tables at this address again: a test has changed them."""
    for directory, store in list(_used.items()):
        if url.endswith(f"schema={store.address.base}"):
            store.ask(f"drop schema {store.address.quoted_schema()} cascade".encode())
            store.close()
            del _used[directory]


@contextlib.contextmanager
def on_server(directory: Path) -> Iterator[None]:
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
    """Run a test that asks for `engine` on all; beside a file as a proof, but for a sample."""
    if "engine" not in metafunc.fixturenames:
        return
    test = metafunc.definition
    chosen = [pytest.param("sqlite", id=pytest.HIDDEN_PARAM)]
    if _has_record(metafunc) and not test.get_closest_marker("file"):
        where = f"{metafunc.module.__name__}::{metafunc.function.__name__}"
        once = not (test.get_closest_marker("proof") or _is_sampled(where))
        chosen.append(pytest.param("postgres", marks=[pytest.mark.proof(share=0)] * once))
        if not (test.get_closest_marker("unserved") or test.get_closest_marker("proof")):
            often = os.environ.get("TUG_SERVED") or _is_sampled(f"{where} served")
            chosen.append(
                pytest.param("served", marks=[] if often else [pytest.mark.proof(share=0)])
            )
    metafunc.parametrize("engine", chosen, indirect=True)


def _has_record(metafunc: pytest.Metafunc) -> bool:
    """Whether a test names the engine, or makes a record; see `state/conftest.py`."""
    asked = {"lab", "desk"} & set(metafunc.fixturenames)
    named = "engine" in metafunc.definition._fixtureinfo.argnames
    return bool(asked) or named or _comes_to("Lab", metafunc.function)


def _comes_to(name: str, function: object) -> bool:
    """Whether a function uses a name, or calls one of its module that does."""
    seen, left = set(), [getattr(function, "property", function)]
    while left:
        found = left.pop()
        found = getattr(getattr(found, "hypothesis", None), "inner_test", found)
        code = getattr(found, "__code__", None)
        if code is None or found in seen:
            continue
        seen.add(found)
        names = _names(code)
        if name in names:
            return True
        home = found.__globals__
        left += [
            home[each]
            for each in names
            if getattr(home.get(each), "__module__", "") == home["__name__"]
        ]
    return False


def _names(code: CodeType) -> set[str]:
    """All names that a function uses, those of functions inside it too."""
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return {*code.co_names}.union(*map(_names, inner))
