"""Faults to plant in the engine for PostgreSQL, in the process that is to have them."""

from types import ModuleType

from tugtool.store import postgres
from tugtool.store.postgres import create, statements


def _rewrite(module: ModuleType, old: bytes, new: bytes) -> None:
    found = [n for n, value in vars(module).items() if isinstance(value, bytes) and old in value]
    assert found, f"no statement of {module.__name__} has {old!r}"
    for name in found:
        setattr(module, name, vars(module)[name].replace(old, new))


def no_lock() -> None:
    """Nobody asks for a plan's lock."""
    _rewrite(statements, statements.LOCK, b"$1::text")


def no_transaction() -> None:
    """Each statement is for itself, or all that are sent together; and nobody waits."""
    no_lock()
    _rewrite(statements, statements.BEGIN_WRITING, b"select 1")
    for module in (postgres, statements):
        # What holds for a transaction has to hold without one.
        _rewrite(module, b", true)", b", false)")


def no_lock_for_tables() -> None:
    """Whoever makes tables does not see to it that nobody else does."""
    create._locking = lambda store: "select 1"
