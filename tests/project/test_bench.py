"""The benchmarks still run, and the page about speed says what they found. No time is asserted."""

import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.proving import sampled

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
PAGE = ROOT / "docs" / "internals" / "performance.md"
#: Run by others, with words of their own.
INNER = {"claims", "crowd", "floor", "jobs", "served", "tabs", "writers"}
#: Not benchmarks: what they share, and what makes the page.
TOOLS = {"budgets", "harness", "plots", "report", "results", "run", "server", "shapes"}
NAMES = sorted({path.stem for path in BENCH.glob("*.py")} - INNER - TOOLS)
#: So short that they can be run for real; the others are started.
SHORT = {"commit": 1, "endurance": 300, "hook": 1}


def loaded(name):
    """A module of `bench/`, under a name that hides nobody's."""
    spec = importlib.util.spec_from_file_location(f"bench_{name}", BENCH / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def results():
    return {path.stem: json.loads(path.read_text()) for path in BENCH.glob("results/*.json")}


def run(*words, **environment):
    return subprocess.run(
        [sys.executable, *map(str, words)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", sampled(NAMES, 4))
def test_every_benchmark_starts_and_has_the_usual_options(name):
    said = run(BENCH / f"{name}.py", "--help")
    assert said.returncode == 0, said.stderr
    for option in ("--quick", "--self-test", "--results"):
        assert option in said.stdout


def test_every_benchmark_is_part_of_make_bench():
    listed = re.search(r"BENCHES = \((.*?)\n\)", (BENCH / "run.py").read_text(), re.DOTALL)[1]
    assert sorted(re.findall(r'"(\w+)"', listed)) == NAMES
    assert "bench/run.py" in (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("name", SHORT)
def test_a_short_run_writes_what_it_found(name, tmp_path):
    found = tmp_path / "found.json"
    words = ("--quick", "--rounds", SHORT[name], "--results", found)
    home = str(Path(sys.executable).parent)
    said = run(BENCH / f"{name}.py", *words, TUG_BENCH_INSTALLED=home)
    # A budget may break here: one round on a busy machine says nothing.
    assert said.returncode in (0, 1)
    assert "Traceback" not in said.stderr, said.stderr
    tables = json.loads(found.read_text())["tables"]
    assert tables
    assert all(len(row) == len(table["columns"]) for table in tables for row in table["rows"])


def test_the_page_says_what_the_results_say():
    said = run(BENCH / "report.py", "--check")
    assert (said.returncode, said.stderr) == (0, "")


def test_a_page_that_differs_from_the_results_is_noticed(tmp_path):
    shutil.copytree(BENCH, tmp_path / "bench", ignore=shutil.ignore_patterns("__pycache__"))
    stale = tmp_path / PAGE.relative_to(ROOT)
    stale.parent.mkdir(parents=True)
    stale.write_text(PAGE.read_text().replace("on target", "met", 1))
    said = run(tmp_path / "bench" / "report.py", "--check")
    assert said.returncode == 1
    assert "make report" in said.stderr


def test_the_page_has_every_picture_that_was_made_and_shows_no_other():
    shown = set(re.findall(r"\]\((plots/[\w-]+\.svg)\)", PAGE.read_text()))
    there = {f"plots/{path.name}" for path in PAGE.parent.glob("plots/*")}
    made = {f"plots/{plot['id']}.svg" for each in results().values() for plot in each["plots"]}
    assert shown == there == made
    assert shown


def test_every_budget_has_its_figure_or_says_why_not():
    published, figures = loaded("budgets").PUBLISHED, results()["ours"]["figures"]
    assert set(figures) <= set(published)
    for id, budget in published.items():
        assert id in figures, f"{id} was not measured"
        if not budget.is_on_target(figures[id]):
            assert budget.why, f"{id} does not say why"
        assert f"| {budget.what} |" in PAGE.read_text()


def test_a_gate_is_broken_on_its_wrong_side_only():
    budgets = loaded("budgets").PUBLISHED
    assert budgets["growth"].is_broken(2.01)
    assert not budgets["growth"].is_broken(1.99)
    assert budgets["writers-share"].is_broken(0.24)
    assert not budgets["writers-share"].is_broken(0.26)
    assert "misses the target" in budgets["writers-share"].verdict(0.3)


def test_results_name_no_machine_and_no_path_of_one():
    for path in BENCH.glob("results/*.json"):
        text = path.read_text()
        assert not re.search(r"/(tmp|home|root|work|Users|var)/", text), path.name
        assert len(platform.node()) < 4 or platform.node() not in text
        assert {"made_by", "date", "versions", "tables", "plots"} <= set(json.loads(text))
