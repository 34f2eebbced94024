"""What a test puts in the place of a name must not outlive it.

A module that is first loaded while a name is replaced copies the replacement with its
`from ... import`, and keeps it for whichever test comes next in that process. Every test that
loads a module of ours is looked at, once its own changes are undone.
"""

import ast
import importlib
import inspect
import sys
from collections.abc import Generator
from types import ModuleType

import pytest

_seen: set[str] = set()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown() -> Generator[None]:
    yield
    fresh = [name for name in sys.modules if name.startswith("tugtool.") and name not in _seen]
    _seen.update(fresh)
    kept = [each for name in fresh for each in outlived(sys.modules[name])]
    assert not kept, f"loaded while it was replaced, so it stays replaced: {', '.join(kept)}"


def outlived(module: ModuleType) -> list[str]:
    """The names that `module` took from another, which that one has as something else."""
    found = []
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tugtool"):
            home = importlib.import_module(str(node.module))
            for each in node.names:
                ours, theirs = vars(module).get(each.asname or each.name), getattr(home, each.name)
                if ours is not theirs:
                    found.append(f"{module.__name__}.{each.name} of {node.module}")
    return found
