"""The table of `state stats`: what happened to each step, in as many columns as there are."""

from __future__ import annotations

from tugtool.cli import output
from tugtool.cli.output import clean
from tugtool.spans import duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Figures = Mapping[str, Any]

HEAD = ("STEP", "STATUS", "TRIES", "WAITED", "WORKED", "REMARKS")
GAP = "  "


def table(plans: Sequence[Figures], width: int | None = None) -> str:
    """Everything there is to say about the plans, for so many columns or for the output's."""
    if not plans:
        return "no plan has a state yet\n"
    width = width or output.width()
    return "\n".join(_plan(plan, width) for plan in plans)


def _plan(plan: Figures, width: int) -> str:
    lines = [*_summary(plan, width), *_steps(plan["steps"], width)]
    return "".join(f"{line}\n" for line in lines)


def _summary(plan: Figures, width: int) -> list[str]:
    steps, items = plan["steps_by_status"], plan["items"]
    closed = sum(counts["completed"] for counts in items.values())
    every = sum(sum(counts.values()) for counts in items.values())
    outcomes = [f"{n} {name}" for name, n in plan["attempts_by_outcome"].items() if n]
    wall = duration(plan["wall_seconds"])
    facts = [
        f"{steps['completed']}/{sum(steps.values())} steps",
        f"{closed}/{every} items completed",
        *([f"{plan['deferred']} deferred"] if plan["deferred"] else []),
        f"took {wall}" if plan["completed_at"] else f"{wall} so far",
        f"{duration(plan['working_seconds'])} of work",
        *([f"parallelism {plan['parallelism']:.1f}"] if plan["parallelism"] is not None else []),
        f"attempts: {', '.join(outcomes) or 'none'}",
        *_spent(plan),
    ]
    return [clean(f"{plan['plan_path']} [{plan['status']}]"), *_folded(facts, width)]


def _spent(figures: Figures) -> list[str]:
    tokens, cost = figures["tokens"], figures["cost_microdollars"]
    said = [f"{tokens} tokens"] if tokens is not None else []
    return said + ([f"${cost / 1_000_000:.2f}"] if cost is not None else [])


def _folded(facts: Sequence[str], width: int) -> list[str]:
    """The facts one after the other, on as many lines as it takes."""
    lines = [GAP]
    for word in "; ".join(facts).split(" "):
        if len(lines[-1]) + 1 + len(word) > min(width, 80) and lines[-1] != GAP:
            lines.append(GAP)
        lines[-1] += word if lines[-1] == GAP else f" {word}"
    return lines


def _steps(steps: Sequence[Figures], width: int) -> list[str]:
    rows = [_row(step) for step in steps]
    sizes = [max(len(row[place]) for row in (HEAD, *rows)) for place in range(len(HEAD) - 1)]
    if sum(sizes) + len(GAP) * len(HEAD) > min(width, 80):
        return [line for row in rows for line in _block(row, width)]
    return [line for row in (HEAD, *rows) for line in _line(row, sizes, width)]


def _row(step: Figures) -> tuple[str, ...]:
    return (
        clean(step["anchor"], 60),
        step["status"],
        str(step["attempts"]),
        duration(step["waiting_seconds"]),
        duration(step["working_seconds"]),
        ", ".join(_remarks(step)),
    )


def _remarks(step: Figures) -> list[str]:
    names = ("deferred", "reclaims", "recoveries", "escalations")
    remarks = ["forced"] if step["forced"] else []
    remarks += [_counted(step[name], name) for name in names if step[name]]
    return remarks + _spent(step)


def _counted(number: int, name: str) -> str:
    singular = {"recoveries": "recovery", "reclaims": "reclaim", "escalations": "escalation"}
    return f"{number} {singular.get(name, name) if number == 1 else name}"


def _line(row: Sequence[str], sizes: Sequence[int], width: int) -> list[str]:
    left = [f"{row[place]:<{sizes[place]}}" for place in (0, 1)]
    right = [f"{row[place]:>{sizes[place]}}" for place in (2, 3, 4)]
    numbers = GAP + GAP.join(left + right)
    if len(numbers) + len(GAP) + len(row[5]) <= width:
        return [f"{numbers}{GAP}{row[5]}".rstrip()]
    return [numbers, f"{GAP * 2}{row[5]}"]


def _block(row: Sequence[str], width: int) -> list[str]:
    """One step without columns, for a narrow terminal."""
    anchor, status, tries, waited, worked, remarks = row
    facts = [f"{tries} {'try' if tries == '1' else 'tries'}", f"waited {waited}"]
    facts += [f"worked {worked}", *filter(None, remarks.split(", "))]
    return [f"  {anchor} [{status}]", *(f"  {line}" for line in _folded(facts, width - 2))]
