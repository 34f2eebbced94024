"""The proofs' own clockwork: shares of the time, seeds taken back, a line for each at the end."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.proof(share=0)

PROOF = """
import pytest

@pytest.mark.proof(share=3)
def test_long(spell):
    seeds = list(spell.seeds(least=2))
    spell.tell(f"{spell.seconds:.3f} seconds, {seeds[:2]}")

@pytest.mark.proof(share=1)
def test_short(spell):
    spell.tell(f"{spell.seconds:.3f} seconds")
    spell.list("what was tried")
    next(spell.seeds())

@pytest.mark.proof(share=1)
def test_wrong(spell):
    for seed in spell.seeds(least=3):
        assert seed != 43

def test_ordinary():
    pass
"""
PROPERTIES = """
from hypothesis import given, strategies as st
from support.proving import examined

TRIED = []

@examined(short=20)
@given(st.integers(0, 10**6))
def test_property(number):
    TRIED.append(number)

def test_tried():
    print("tried", len(TRIED), TRIED)

@examined(short=300)
@given(st.integers(0, 10**6))
def test_false(number):
    assert number < 5000
"""

TABLE = """
import pytest
from support.proving import sampled

@pytest.mark.parametrize("case", sampled("abcdef", 2))
def test_table(case):
    print("case", case)

@pytest.mark.proof
def test_random(spell):
    spell.tell(f"{spell.seconds:.3f} seconds")
"""

WITHIN = """
import os

def test_it(tmp_path_factory):
    from support import engines

    assert engines.session_root(tmp_path_factory) == tmp_path_factory.getbasetemp()
    assert "PYTEST_XDIST_WORKER_COUNT" not in os.environ
"""


def _run(tmp_path: Path, *words: str, text: str = PROOF, **env: str) -> str:
    (tmp_path / "test_these.py").write_text(text)
    path = str(Path(__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "support.proving", "-p", "no:cacheprovider", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "TUG_MINUTES": "", "TUG_SEED": "", **env},
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr


def test_a_proof_is_short_by_default(tmp_path):
    out = _run(tmp_path, TUG_SEED="7")
    assert re.search(r"test_long: TUG_SEED=7, 2 rounds, \d+ s; 0.000 seconds, \[7, 8\]", out)
    assert re.search(r"test_short: TUG_SEED=7, 1 rounds, \d+ s; 0.000 seconds", out)
    assert "what was tried" not in out


def test_the_minutes_are_shared_out_among_the_chosen_proofs(tmp_path):
    assert "; 0.300 seconds, [" in _run(tmp_path, TUG_MINUTES="0.00833333")
    assert "; 0.500 seconds, [" in _run(tmp_path, "-k", "long", TUG_MINUTES="0.00833333")
    # Two workers have twice the time, but no proof has more than all of it.
    both = _run(tmp_path, "-n2", "-k", "long or short", TUG_MINUTES="0.00833333")
    assert "; 0.500 seconds, [" in both
    assert "; 0.250 seconds\n    what was tried\n" in both


def test_a_session_that_a_worker_started_shares_nothing_with_that_workers_session(tmp_path):
    env = {"PYTEST_XDIST_WORKER": "gw0", "PYTEST_XDIST_WORKER_COUNT": "4"}
    assert "1 passed" in _run(tmp_path, text=WITHIN, **env)
    # Its own workers do share a server.
    assert "1 failed" in _run(tmp_path, "-n1", text=WITHIN)


def test_a_failure_says_its_seed_and_gets_there_again(tmp_path):
    out = _run(tmp_path, "-k", "wrong", TUG_SEED="41")
    assert "TUG_SEED=43\n" in out
    again = _run(tmp_path, "-k", "wrong", TUG_SEED="43")
    assert "1 failed" in again
    assert "test_wrong: TUG_SEED=43, 1 rounds" in again
    assert "1 passed" in _run(tmp_path, "-k", "wrong", TUG_SEED="44")


def test_without_a_seed_each_proof_makes_one_up(tmp_path):
    def seeds() -> set[str]:
        lines = [line for line in _run(tmp_path, "-k", "short").splitlines() if ";" in line]
        return {line.split("TUG_SEED=")[1].split(",")[0] for line in lines}

    first, second = seeds(), seeds()
    assert first
    assert second
    assert first != second


def test_a_property_is_tried_on_the_same_examples_from_the_same_seed(tmp_path):
    def tried(seed: str) -> str:
        out = _run(tmp_path, "-s", "-k", "property or tried", text=PROPERTIES, TUG_SEED=seed)
        assert "test_property: TUG_SEED=" + seed in out
        return next(line for line in out.splitlines() if "tried 20 [" in line)

    assert tried("5") == tried("5")
    assert tried("5") != tried("6")


def test_a_property_that_is_false_is_told_with_a_small_example_and_its_seed(tmp_path):
    out = _run(tmp_path, "-k", "false", text=PROPERTIES, TUG_SEED="3")
    assert "number=5000" in out
    assert "TUG_SEED=3\n" in out


def test_of_a_table_a_few_cases_are_no_proofs_and_none_takes_of_the_time(tmp_path):
    out = _run(tmp_path, "-s", "-m", "not proof", text=TABLE)
    assert re.findall(r"case (\w)", out) == ["a", "d"]
    out = _run(tmp_path, "-s", "-m", "proof", text=TABLE, TUG_MINUTES="0.01")
    assert re.findall(r"case (\w)", out) == ["b", "c", "e", "f"]
    assert "; 0.600 seconds" in out
    assert "4 passed" in _run(tmp_path, "-m", "proof", "-k", "table", text=TABLE, TUG_MINUTES="1")
