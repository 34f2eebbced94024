"""The results of a benchmark, printed for people and saved for the page.

Every benchmark takes `--results FILE` and writes there what `run.py` gathers in
`bench/results/ours.json`: tables, plots, and the figures that `budgets.py` judges.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import budgets

#: A value in a table.
Cell = str | int | float | None


class Results:
    """Tables, plots and figures of one benchmark."""

    def __init__(self) -> None:
        self.tables: list[dict[str, Any]] = []
        self.plots: list[dict[str, Any]] = []
        self.figures: dict[str, float] = {}

    def table(
        self, id: str, title: str, note: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]
    ) -> None:
        """Add a table; `note` says what was measured and what it cannot be compared with."""
        assert all(len(row) == len(columns) for row in rows), id
        cells = [[_short(cell) for cell in row] for row in rows]
        self.tables.append(
            {"id": id, "title": title, "note": note, "columns": list(columns), "rows": cells}
        )

    def plot(
        self,
        id: str,
        title: str,
        axes: tuple[str, str],
        series: dict[str, tuple[Sequence[Cell], Sequence[float]]],
        *,
        kind: str = "line",
        log: bool = False,
    ) -> None:
        """Add a picture: the points for each name."""
        lines = [
            {"name": name, "x": [_short(x) for x in xs], "y": [_short(y) for y in ys]}
            for name, (xs, ys) in series.items()
        ]
        x, y = axes
        picture = {"id": id, "title": title, "kind": kind, "x": x, "y": y, "log": log}
        self.plots.append({**picture, "series": lines})

    def figure(self, id: str, value: float) -> int:
        """Print and keep the figure of a published budget. Return 1 if its gate is broken."""
        budget = budgets.PUBLISHED[id]
        self.figures[id] = round(value, 4)
        print(f"{budget.what}: {budget.shown(value)}, {budget.verdict(value)}", flush=True)
        return int(budget.is_broken(value))

    def save(self, path: str | None) -> None:
        """Write the results to a file, if one was asked for."""
        if path is not None:
            found = {"figures": self.figures, "tables": self.tables, "plots": self.plots}
            Path(path).write_text(json.dumps(found, indent=1) + "\n")


def _short(cell: Cell) -> Cell:
    """Return the cell without meaningless digits."""
    if not isinstance(cell, float):
        return cell
    return float(f"{cell:.3g}") if abs(cell) < 1000 else round(cell)
