"""Pictures for people; the only user of rich. Fed with the same data that JSON prints."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from tugtool.cli import output

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    # Answers are plain JSON values; their shapes are the schemas of the package.
    Data = Mapping[str, Any]

_SEVERITY_STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}
_KIND_NAMES = {"task": "tasks", "test": "tests", "checkpoint": "checkpoints"}


def drawn(*parts: Text) -> str:
    """The parts as text, as wide and as colourful as standard output takes it."""
    colour = output.colour()
    console = Console(
        file=io.StringIO(),
        width=output.width(),
        force_terminal=colour,
        color_system="standard" if colour else None,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )
    for part in parts:
        # Given again, because rich forgets what a Text says of itself.
        console.print(part, no_wrap=part.no_wrap, overflow=part.overflow, crop=False)
    assert isinstance(console.file, io.StringIO)
    return "".join(f"{line.rstrip()}\n" for line in console.file.getvalue().splitlines())


def plain(text: object, style: str = "") -> Text:
    """User text, harmless, on one line."""
    return Text(output.clean(str(text)), style=style, no_wrap=True, overflow="ellipsis")


def folded(text: str, style: str = "") -> Text:
    """User text of any length, on as many lines as it takes."""
    return Text(output.clean(text, 1 << 20), style=style, overflow="fold")


def findings(data: Data, issues: Sequence[Data]) -> str:
    """What `validate` found, the way compilers say it."""
    parts = []
    hint = None
    for issue in issues:
        # The same advice for every line would drown what differs.
        shown = issue if issue.get("hint") != hint else {**issue, "hint": ""}
        hint = issue.get("hint")
        line = output.finding(shown).rstrip("\n")
        if output.colour():
            before, after = line.split(f": {issue['severity']} ", 1)
            style = _SEVERITY_STYLES[issue["severity"]]
            marked = Text.assemble(before, ": ", (f"{issue['severity']} ", style), after)
            line = drawn_whole(marked)
        parts.append(line)
    parts += [f"{output.clean(row['plan_path'])}: {_verdict(row)}" for row in data["plans"]]
    if not data["plans"]:
        parts.append("there is no plan here. Next: tugcode plan new SLUG")
    return "\n".join(parts) + "\n"


def drawn_whole(text: Text) -> str:
    """Coloured text that is never cut or wrapped."""
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard")
    console.print(text, soft_wrap=True, end="")
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def _verdict(row: Data) -> str:
    counts = [(row["errors"], "error"), (row["warnings"], "warning"), (row["infos"], "note")]
    said = ", ".join(number(count, word) for count, word in counts if count)
    steps = "" if row["steps"] is None else f", {number(row['steps'], 'step')}"
    more = f" ({row['left_out']} of them not listed)" if row["left_out"] else ""
    return f"{'ok' if row['valid'] else 'not valid'}{steps}{'; ' + said if said else ''}{more}"


def number(count: int, word: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def plans(data: Data) -> str:
    """The plans of a repository, one line each."""
    if not data["plans"]:
        return "there is no plan here. Next: tugcode plan new SLUG\n"
    longest = max(cell_len(output.clean(row["slug"])) for row in data["plans"])
    broad = min(max(longest, 4), output.width() // 2)
    parts = [_columns(broad, ("plan", "status", "steps", "items", "title"), "bold")]
    parts += [_columns(broad, _plan_row(row)) for row in data["plans"]]
    return drawn(*parts)


def _plan_row(row: Data) -> tuple[str, str, str, str, str]:
    counts = row["counts"]
    if counts is None:
        return row["slug"], "unreadable", "-", "-", row["error"]
    items = sum(counts[kind] for kind in _KIND_NAMES)
    # Some people write a whole story there; the first word is the status.
    status = (row["status"] or "-").split(" ", 1)[0].strip("*_")
    return row["slug"], status, str(counts["steps"]), str(items), row["title"] or "-"


def _columns(broad: int, cells: Sequence[str], style: str = "") -> Text:
    slug, status, steps, items, title = cells
    line = plain(slug, style or "cyan")
    line.truncate(broad, overflow="ellipsis", pad=True)
    word = plain(status, style)
    word.truncate(10, overflow="ellipsis", pad=True)
    line = Text.assemble(line, "  ", word, (f"  {steps:>5}  {items:>5}  ", style))
    return Text.assemble(line, plain(title, style), no_wrap=True, overflow="ellipsis")


def plan(data: Data, issues: Sequence[Data]) -> str:
    """Everything the parser understood."""
    parts = [plain(data["title"] or "(no title)", "bold"), plain(_overview(data), "dim")]
    meta = " · ".join(f"{field} {value}" for field, value in data["metadata"].items())
    parts += [plain(meta, "dim")] if meta else []
    parts += [plain(f"Purpose: {data['purpose']}")] if data["purpose"] else []
    for decision in data["decisions"]:
        said = f"{decision['name']:<5} {decision['status'] or '?':<9} {decision['title']}"
        parts.append(_line(said, decision["line"]))
    for step_ in data["steps"]:
        parts += [Text(""), *_step_lines(step_, indent=0)]
    if issues:
        told = f"{number(len(issues), 'thing')} to look at: tugcode validate {data['slug']}"
        parts += [Text(""), plain(told, "yellow")]
    return drawn(*parts)


def step(data: Data) -> str:
    """One step with its full texts."""
    one = data["steps"][0]
    lines = [f"{one['title']}", f"{data['plan_path']}:{one['line']}  {one['anchor']}"]
    for label, key in (
        ("Depends on", "depends_on"),
        ("Commit", "commit"),
        ("References", "references"),
        ("Artifacts", "artifacts"),
        ("Rollback", "rollback"),
    ):
        lines += [f"{label}: {one[key]}"] if one[key] else []
    for each in (one, *one["substeps"]):
        lines += ["", f"{each['anchor']}  {each['title']}"] if each is not one else [""]
        lines += [_item(item) for item in each["items"]]
    return "".join(f"{output.clean(line, len(line) + 1)}\n" for line in lines)


def _overview(data: Data) -> str:
    counts = data["counts"]
    parts = [data["plan_path"], number(counts["steps"], "step")]
    parts += [number(counts["substeps"], "substep")] if counts["substeps"] else []
    parts += [number(counts[kind], kind) for kind in _KIND_NAMES]
    return " · ".join(parts)


def _step_lines(each: Data, indent: int) -> list[Text]:
    pad = " " * indent
    lines = [_line(f"{pad}{each['anchor']}  {each['title']}", each["line"], "bold")]
    notes = []
    if each["needs"]:
        notes.append("waits for " + ", ".join(need["anchor"] for need in each["needs"]))
    if each["verification_only"]:
        notes.append("verification only")
    lines += [plain(f"{pad}           {' · '.join(notes)}", "cyan")] if notes else []
    lines += [_line(f"{pad}    {_item(item)}", item["line"]) for item in each["items"]]
    for substep in each["substeps"]:
        lines += _step_lines(substep, indent + 4)
    return lines


def _item(item: Data) -> str:
    return f"[{'x' if item['ticked'] else ' '}] {item['kind']} {item['ordinal']}: {item['text']}"


def _line(said: str, line: int, style: str = "") -> Text:
    """The line number in front, as grep does, and the text behind it."""
    return Text.assemble(
        (f"{line:>5}  ", "dim"), plain(said, style), no_wrap=True, overflow="ellipsis"
    )
