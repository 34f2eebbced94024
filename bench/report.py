"""Make docs/internals/performance.md from the results of the benchmarks.

    python bench/report.py [--check]

Reads `bench/results/ours.json` and `peers.json` (`make bench`, `make bench-peers`). Needs only
Python; `plots.py` draws the pictures of the page. With `--check` nothing is written, and the exit
status is 1 if the page differs from the results.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import budgets

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "internals" / "performance.md"
RESULTS = {"ours": HERE / "results" / "ours.json", "peers": HERE / "results" / "peers.json"}
INTRODUCTION = """\
# How fast it is

Made by `{made_by}` on {date}; this page is written by `bench/report.py` from what was found, and
a test fails when the two differ. {versions}.

Read ratios, not seconds: every figure is set beside something else that was measured in the same
run, turn by turn, on the same machine, a bare interpreter, SQLite itself, git, a smaller plan. What
else the machine did meanwhile hits both alike. CPU times are those of whole processes, user and
system, of an installed and compiled package; medians unless it says otherwise. A *gate* is a
promise: `make bench` fails when it is broken. A *target* is what we want.
"""
PEERS = """\
## Beside other tools

Made by `{made_by}` on {date}. {versions}.

"""
NO_PEERS = """\
## Beside other tools

`make bench-peers` has not been run for this page.
"""


def load(name: str) -> dict[str, Any]:
    """Return the results in a file; empty if there is none."""
    path = RESULTS[name]
    return json.loads(path.read_text()) if path.exists() else {}


def page(ours: dict[str, Any], peers: dict[str, Any]) -> str:
    """Return the whole page."""
    parts = [_headed(INTRODUCTION, ours), "## The budgets", _budgets(ours["figures"])]
    parts += ["## What was measured", *_tables(ours)]
    parts += [_headed(PEERS, peers), *_tables(peers)] if peers else [NO_PEERS]
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def _headed(text: str, found: dict[str, Any]) -> str:
    listed = ", ".join(f"{name} {value}" for name, value in found["versions"].items())
    return text.format(made_by=found["made_by"], date=found["date"], versions=f"With {listed}")


def _budgets(figures: dict[str, float]) -> str:
    columns = ("what", "target", "gate", "measured", "verdict")
    rows = []
    for id, budget in budgets.PUBLISHED.items():
        value = figures.get(id)
        limits = (budget.shown(budget.target), budget.shown(budget.gate))
        sign = "at least " if budget.at_least else ""
        rows.append((budget.what, *(f"{sign}{limit}" for limit in limits),
                     budget.shown(value), verdict(budget, value)))  # fmt: skip
    return _table(columns, rows)


def verdict(budget: budgets.Published, value: float | None) -> str:
    """Return whether a budget is kept, and if not, why."""
    if value is None:
        return f"not measured. {budget.why}"
    said = budget.verdict(value)
    return said if budget.is_on_target(value) else f"{said}. {budget.why}".rstrip()


def _tables(found: dict[str, Any]) -> Iterator[str]:
    plots = {plot["id"]: plot for plot in found.get("plots", [])}
    for table in found["tables"]:
        yield f"### {table['title']}\n\n{table['note']}"
        yield _table(table["columns"], table["rows"])
        if better := table.get("better"):
            yield str(better)
        if plot := plots.pop(table["id"], None):
            yield _picture(plot)
    yield from map(_picture, plots.values())


def _picture(plot: dict[str, Any]) -> str:
    return f"![{plot['title']}](plots/{plot['id']}.svg)"


def _table(columns: Any, rows: Any) -> str:
    lines = ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in (columns, *rows)]
    lines.insert(1, "|" + "---|" * len(columns))
    return "\n".join(line.replace("  ", " ") for line in lines)


def _cell(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int | float):
        return f"{cell:,}" if abs(cell) >= 10_000 else f"{cell:g}"
    return str(cell).replace("|", "\\|").replace("\n", " ")


def main() -> int:
    text = page(load("ours"), load("peers"))
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text)
        return 0
    if PAGE.read_text() == text:
        return 0
    print("docs/internals/performance.md is not what the results say: make report", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
