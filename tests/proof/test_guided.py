"""A fuzzer that sees which lines are reached finds no way for an undeclared error to get out.

It comes with the development tools where it exists (`requirements-dev.txt` says where); elsewhere
the same targets get blindly changed inputs, and the closing summary says so.
"""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import guided
import pytest
from packaging.requirements import Requirement

#: All but what is random here has an end of its own.
pytestmark = pytest.mark.proof(share=0)

TOOLS = Path(__file__).parent.parent.parent / "requirements-dev.txt"
#: One process goes on for as long at most; what it found is where the next begins.
ROUND_SECONDS = 60


def _expected() -> bool:
    """Whether the development tools for this Python have the fuzzer."""
    lines = [line for line in TOOLS.read_text().splitlines() if line.startswith("atheris")]
    marker = Requirement(lines[0]).marker
    return marker is None or marker.evaluate()


def _fuzz(target: str, seconds: float, seed: int, home: Path, *words: str) -> tuple[int, str]:
    """How many inputs were tried, and what was printed."""
    blind = () if _expected() else ("--blind",)
    line = [target, str(max(1, int(seconds))), str(seed % 2**31), str(home), *words, *blind]
    done = subprocess.run(
        [sys.executable, guided.__file__, *line],
        capture_output=True,
        timeout=seconds + 300,
        check=False,
        env={"PYTHONHASHSEED": "0", "HOME": "/nonexistent"},
    )
    told = (done.stdout + done.stderr).decode(errors="replace")
    counts = [line.split()[-1] for line in told.splitlines() if "executed_units" in line]
    return (int(counts[0]) if counts and done.returncode == 0 else 0), told


def test_the_fuzzer_is_there_wherever_the_tools_say_so():
    assert _expected() == (find_spec("atheris") is not None)


@pytest.mark.proof(share=2)
@pytest.mark.parametrize("target", guided.TARGETS)
def test_nothing_but_declared_errors_escapes(target, spell, tmp_path):
    tried = 0
    for seed in spell.seeds():
        count, told = _fuzz(target, min(spell.lasts(2), ROUND_SECONDS), seed, tmp_path)
        assert count, told
        tried += count
    how = "guided" if _expected() else "NOT guided: there is no atheris for this Python"
    spell.tell(f"{tried} inputs, {how}")


def test_a_fault_that_takes_three_things_at_once_is_found(tmp_path):
    """By way of two lines that one and two of them reach."""
    count, told = _fuzz("plan", 60, 3, tmp_path, "--planted")
    assert (count, "IndexError: list index out of range" in told) == (0, True), told


@pytest.mark.parametrize("target", guided.TARGETS)
def test_without_the_fuzzer_the_same_is_tried_blindly(target, tmp_path):
    count, told = _fuzz(target, 1, 1, tmp_path, "--blind")
    assert count, told
