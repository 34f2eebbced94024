"""The SQLite module: loaded by itself where that works, and the ordinary way elsewhere."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tugtool

USE = """
from tugtool.store.sqlite import file
connection = file.connect(":memory:")
connection.row_factory = file.Row
rows = [connection.execute("select ? as x", (n,)).fetchone()["x"] for n in (1, 2)]
print(rows, "functools" in sys.modules, "sqlite3" in sys.modules)
"""


#: The package itself needs nothing else, and so any Python can load it from here.
SOURCE = str(Path(tugtool.__file__).parent.parent)


def _runs(python: str | None) -> bool:
    """Whether it is a Python that was built with SQLite, and not only a name for one."""
    argv = [python or "false", "-I", "-c", "import sqlite3"]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


#: This one, and whichever of the others that we support is installed.
PYTHONS = [sys.executable, *filter(_runs, map(shutil.which, ("python3.12", "python3.13")))]


@pytest.fixture(params=PYTHONS, ids=lambda path: Path(path).name)
def told(request):
    """What a fresh Python prints that loads the module between two pieces of code."""

    def run(before: str, after: str = "") -> str:
        path = f"sys.path.insert(0, {SOURCE!r})"
        argv = [request.param, "-I", "-c", f"import sys; {path}\n{before}\n{USE}\n{after}"]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout

    return run


#: A start may have loaded it, for a machine's own reasons; then there is nothing to save.
FRESH = "sys.modules.pop('functools', None)"


def test_the_c_module_is_loaded_alone(told):
    assert told(FRESH) == "[1, 2] False False\n"


def test_the_real_functools_and_the_whole_package_can_be_loaded_afterwards(told):
    after = "import functools, sqlite3\nprint(functools.reduce, sqlite3.Row is file.Row)"
    assert told(FRESH, after).endswith("<built-in function reduce> True\n")


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("import functools", "[1, 2] True False\n"),
        (f"{FRESH}; sys.modules['_functools'] = None", "[1, 2] True False\n"),
        (f"import _functools; {FRESH}; del _functools._lru_cache_wrapper", "[1, 2] True False\n"),
        ("import sqlite3; sys.modules['_sqlite3'] = None", "[1, 2] True True\n"),
    ],
)
def test_where_a_private_name_is_missing_the_ordinary_way_is_taken(told, before, said):
    assert told(before) == said
