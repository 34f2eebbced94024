"""What every worker would compile by itself is compiled once, before the first of them starts.

Pytest writes the assertions of each test file anew, which takes longer than to load them all. It
keeps the outcome, so this is of use where the tests have not run before, as in a fresh clone.
"""

import compileall
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

import tugtool
from support import proving

TEST_FILES = "test_*.py"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Share the files out among as many processes as there are cores."""
    # The largest first, so that no process gets them all.
    files = sorted(_missing(config), key=lambda each: each.stat().st_size, reverse=True)
    cores = os.cpu_count() or 1
    children = [_child(config, files[number::cores]) for number in range(cores) if files]
    for each in children:
        os.waitpid(each, 0)


def _missing(config: pytest.Config) -> Iterator[Path]:
    """Files that were not compiled before; who changes one has it compiled by the workers."""
    for directory in (Path(tugtool.__file__).parent, Path(__file__).parent):
        for each in directory.rglob("*.py"):
            if not os.path.exists(importlib.util.cache_from_source(each)):
                yield each
    for word in config.args:
        place = config.invocation_params.dir / word.partition("::")[0]
        for each in place.rglob(TEST_FILES) if place.is_dir() else (place,):
            if not (_rewritten(each).exists() or proving.pytest_ignore_collect(each, config)):
                yield each


def _child(config: pytest.Config, files: list[Path]) -> int:
    """Start a process that compiles the files. What is wrong with one a worker says."""
    child = os.fork()
    if not child:
        try:
            # To follow its lines for the sake of coverage would take longer.
            sys.settrace(None)
            for each in files:
                _compile(config, each)
        finally:
            os._exit(0)
    return child


def _compile(config: pytest.Config, path: Path) -> None:
    if not path.match(TEST_FILES):
        compileall.compile_file(path, quiet=2)
        return
    goal = _rewritten(path)
    source, code = rewrite._rewrite_test(path, config)
    rewrite.try_makedirs(goal.parent)
    rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source, goal)


def _rewritten(path: Path) -> Path:
    return rewrite.get_cache_dir(path) / (path.stem + rewrite.PYC_TAIL)
