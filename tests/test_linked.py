"""The SQLite module: loaded by itself where that works, and the ordinary way elsewhere."""

import subprocess
import sys

import pytest

USE = """
from tugtool.store import linked
connection = linked.connect(":memory:")
connection.row_factory = linked.Row
rows = [connection.execute("select ? as x", (n,)).fetchone()["x"] for n in (1, 2)]
print(rows, "functools" in sys.modules, "sqlite3" in sys.modules)
"""


def _told(before: str, after: str = "") -> str:
    argv = [sys.executable, "-I", "-c", f"import sys\n{before}\n{USE}\n{after}"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


#: A start may have loaded it, for a machine's own reasons; then there is nothing to save.
FRESH = "sys.modules.pop('functools', None)"


def test_the_c_module_is_loaded_alone():
    assert _told(FRESH) == "[1, 2] False False\n"


def test_the_real_functools_and_the_whole_package_can_be_loaded_afterwards():
    after = "import functools, sqlite3\nprint(functools.reduce, sqlite3.Row is linked.Row)"
    assert _told(FRESH, after).endswith("<built-in function reduce> True\n")


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ("import functools", "[1, 2] True False\n"),
        (f"{FRESH}; sys.modules['_functools'] = None", "[1, 2] True False\n"),
        (f"import _functools; {FRESH}; del _functools._lru_cache_wrapper", "[1, 2] True False\n"),
        ("import sqlite3; sys.modules['_sqlite3'] = None", "[1, 2] True True\n"),
    ],
)
def test_where_a_private_name_is_missing_the_ordinary_way_is_taken(before, told):
    assert _told(before) == told
