"""What a test puts in the place of a name must not outlive it.

A module that is first loaded while a name is replaced copies the replacement with its
`from ... import`, and keeps it for whichever test comes next in that process. Every test that
loads a module of ours is looked at, once its own changes are undone; `replace` does it rightly.
"""

import __future__

import ast
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Generator
from types import FunctionType, ModuleType

import pytest

import tugtool

_seen: set[str] = set()
_loaded = 0


def pytest_collection_finish() -> None:
    """What is loaded by now was loaded before the first test replaced anything."""
    _seen.update(name for name in sys.modules if name.startswith("tugtool."))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown() -> Generator[None]:
    global _loaded
    yield
    if len(sys.modules) == _loaded:
        return
    _loaded = len(sys.modules)
    fresh = [name for name in sys.modules if name.startswith("tugtool.") and name not in _seen]
    _seen.update(fresh)
    kept = [each for name in fresh for each in outlived(sys.modules[name])]
    assert not kept, f"loaded while it was replaced, so it stays replaced: {', '.join(kept)}"


def replace(patch: pytest.MonkeyPatch, home: object, name: str, wrong: object) -> None:
    """Put `wrong` in the place of a name, and wherever a module has taken it from there."""
    right = getattr(home, name)
    names = [each.name for each in pkgutil.walk_packages(tugtool.__path__, "tugtool.")]
    # All are loaded before the first is changed: one that is loaded later would keep the wrong one.
    modules = [importlib.import_module(each) for each in names if not each.endswith("__main__")]
    for module in modules:
        if vars(module).get(name) is right:
            patch.setattr(module, name, wrong)
    patch.setattr(home, name, wrong)


def rewritten(function: FunctionType, was: str, now: str = "") -> FunctionType:
    """The function as if `now` stood in it where `was` does; for what `replace` puts in place."""
    source = inspect.getsource(function)
    assert source.count(was) == 1
    space = dict(vars(importlib.import_module(function.__module__)))
    lazy = __future__.annotations.compiler_flag
    exec(compile(source.replace(was, now), "<a fault>", "exec", flags=lazy), space)
    return space[function.__name__]


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
