"""Tables of plans, findings and figures, and the picture of `state why`."""

from __future__ import annotations

from tugtool.cli import output
from tugtool.cli.draw import canvas as canvases
from tugtool.cli.draw.canvas import COUNTED, step_number
from tugtool.cli.output import clean
from tugtool.errors import plan_argument, plan_name, quoted
from tugtool.system.clock import duration
from tugtool.system.text import many

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from typing import Any

    from tugtool.cli.draw.canvas import Canvas, Span
    from tugtool.schemas import StateWhy

    # Answers are plain JSON values; their shapes are the schemas of the package.
    Data = Mapping[str, Any]

    Figures = Mapping[str, Any]


_SEVERITY_STYLES = {"error": "bold wrong", "warning": "you", "info": "work"}
_KIND_NAMES = {"task": "tasks", "test": "tests", "checkpoint": "checkpoints"}


def draw_findings(
    canvas: Canvas, data: Data, issues: Sequence[Data], sound: Collection[str] = ()
) -> None:
    """The findings of `validate` in the form of compilers, then the verdict on each plan.

    `sound`: the plans that have no error at the lenient level.
    """
    hint = None
    for issue in issues:
        # Print the same advice only once.
        shown = issue if issue.get("hint") != hint else {**issue, "hint": ""}
        hint = issue.get("hint")
        _finding(canvas, shown)
    for row in data["plans"]:
        name = canvas.said(plan_name(row["plan_path"]))
        canvas.facts(*_verdict(row), lead=[("bold", name), ("", "  ")])
        if row["plan_path"] in sound and not row["valid"]:
            look = f"tugcode validate {plan_argument(row['plan_path'])} --level lenient"
            said = f"It can be carried out as it is ({canvas.said(look)}); "
            canvas.write(("", said), ("", "the errors are about what reviewers need."), hang=2)
    if not data["plans"]:
        canvas.write(("", "there is no plan here"))
        canvas.next("tugcode plan new SLUG")
    elif len(data["plans"]) == 1 and data["valid"]:
        canvas.next(f"tugcode plan graph {plan_argument(data['plans'][0]['plan_path'])}")


def _finding(canvas: Canvas, issue: Data) -> None:
    first, *rest = output.finding(issue).rstrip("\n").split("\n")
    before, after = first.split(f": {issue['severity']} ", 1)
    severity = (_SEVERITY_STYLES[issue["severity"]], f"{issue['severity']} ")
    canvas.write(("", f"{canvas.said(before)}: "), severity, ("", canvas.said(after)), hang=4)
    for line in rest:
        canvas.write(("dim", f"    {canvas.said(line.strip())}"), hang=4)


def _verdict(row: Data) -> Iterator[Span]:
    yield ("done", "ok") if row["valid"] else ("bold wrong", "not valid")
    if row["steps"] is not None:
        yield "", many(row["steps"], "step")
    for key, word, style in (
        ("errors", "error", "wrong"),
        ("warnings", "warning", "you"),
        ("infos", "note", ""),
    ):
        if row[key]:
            yield style, many(row[key], word)
    if row["left_out"]:
        yield "dim", f"{row['left_out']} of them not listed"


def draw_plans(canvas: Canvas, data: Data) -> None:
    """The plans of a repository, one line each."""
    if not data["plans"]:
        canvas.write(("", "there is no plan here"))
        canvas.next("tugcode plan new SLUG")
        return
    rows = [_plan_row(canvas, row) for row in data["plans"]]
    head = ("PLAN", "STATUS", "STEPS", "ITEMS", "TITLE")
    canvas.table(rows, head=head, indent=0, right=(2, 3), cut=canvas.bounded)


def _plan_row(canvas: Canvas, row: Data) -> list[Span]:
    counts, name = row["counts"], ("bold", canvas.said(row["slug"]))
    if counts is None:
        why = ("wrong", canvas.said(row["error"]))
        return [name, ("wrong", "unreadable"), ("", "-"), ("", "-"), why]
    items = sum(counts[kind] for kind in _KIND_NAMES)
    # Some plans have a whole sentence there; the first word is the status.
    named = (row["status"] or "-").split(" ", 1)[0].strip("*_")
    status = canvas.cut(canvas.said(row["state"] or named), 12)
    style = "done" if row["state"] in ("done", "merged") else ""
    numbers: list[Span] = [("", str(counts["steps"])), ("", str(items))]
    return [name, (style, status), *numbers, ("", canvas.said(row["title"] or "-"))]


def draw_plan(canvas: Canvas, data: Data, issues: Sequence[Data]) -> None:
    """A plan as the parser reads it."""
    title = canvas.said(data["title"] or "(no title)")
    canvas.write(("bold", f"{canvas.said(data['slug'])}  "), ("", title), hang=2)
    canvas.facts(*_overview(canvas, data), lead=[("", "  ")])
    fields = [("dim", canvas.said(f"{name} {value}")) for name, value in data["metadata"].items()]
    if fields:
        canvas.facts(*fields, lead=[("", "  ")])
    if data["purpose"]:
        canvas.write(("dim", "  Purpose: "), ("", canvas.said(data["purpose"])), hang=11)
    for decision in data["decisions"]:
        said = f"{decision['name']:<5} {decision['status'] or '?':<9} {decision['title']}"
        _numbered(canvas, decision["line"], 0, ("", canvas.said(said)), 16)
    for each in data["steps"]:
        canvas.write()
        _step(canvas, each, indent=0)
    canvas.write()
    if issues:
        canvas.write(("you", f"{many(len(issues), 'thing')} to look at."), hang=2)
    name = plan_argument(data["plan_path"])
    canvas.next(f"tugcode validate {name}" if issues else f"tugcode plan graph {name}")


def draw_step(canvas: Canvas, data: Data) -> None:
    """One step with its full texts."""
    one = data["steps"][0]
    said = canvas.said
    canvas.write(
        ("bold", f"{said(step_number(one['anchor']))}  "), ("", said(one["title"])), hang=2
    )
    canvas.write(
        ("dim", f"  {said(data['plan_path'])}:{one['line']}  {said(one['anchor'])}"), hang=2
    )
    for label, key in (
        ("Depends on", "depends_on"),
        ("Commit", "commit"),
        ("References", "references"),
        ("Artifacts", "artifacts"),
        ("Rollback", "rollback"),
    ):
        if one[key]:
            canvas.write(("dim", f"  {label}: "), ("", output.clean(one[key], 1 << 20)), hang=4)
    for each in (one, *one["substeps"]):
        canvas.write()
        if each is not one:
            name = f"  {said(step_number(each['anchor']))}  {said(each['title'])}"
            canvas.write(("bold", name), hang=4)
        for item in each["items"]:
            canvas.write(("", f"  {output.clean(_item(item), 1 << 20)}"), hang=6)


def _overview(canvas: Canvas, data: Data) -> list[Span]:
    counts = data["counts"]
    parts = [canvas.said(data["plan_path"]), many(counts["steps"], "step")]
    parts += [many(counts["substeps"], "substep")] if counts["substeps"] else []
    parts += [many(counts[kind], kind) for kind in _KIND_NAMES]
    return [("dim", part) for part in parts]


def _step(canvas: Canvas, each: Data, indent: int) -> None:
    name = canvas.said(step_number(each["anchor"]))
    title = ("bold", f"{name}  {canvas.said(each['title'])}")
    _numbered(canvas, each["line"], indent, title, len(name) + 2)
    notes = []
    if each["needs"]:
        names = ", ".join(step_number(need["anchor"]) for need in each["needs"])
        notes.append(f"after {canvas.said(names)}")
    notes += ["verification only"] if each["verification_only"] else []
    inner = indent + len(name) + 2
    if notes:
        lead = [("", " " * (_LINES + inner))]
        canvas.facts(*[("work", note) for note in notes], lead=lead, hang=_LINES + inner)
    for item in each["items"]:
        _numbered(canvas, item["line"], inner, ("", canvas.said(_item(item))), 4)
    for substep in each["substeps"]:
        _step(canvas, substep, inner)


def _item(item: Data) -> str:
    kind = f" ({item['checkpoint_kind']})" if item["checkpoint_kind"] else ""
    box = "x" if item["ticked"] else " "
    return f"[{box}] {item['kind']} {item['ordinal']}{kind}: {item['text']}"


#: A narrower terminal has no room for four columns.
_NARROW = 60
#: Columns for a line number.
_LINES = 7


def _numbered(canvas: Canvas, line: int, indent: int, said: Span, hang: int) -> None:
    """Write the line number, like grep, and the text."""
    lead = ("dim", f"{line:>{_LINES - 2}}  {' ' * indent}")
    canvas.write(lead, said, hang=_LINES + indent + hang)


def draw_graph(canvas: Canvas, data: Data) -> None:
    """The waves of a plan and its critical path."""
    steps = {step["anchor"]: step for step in data["steps"]}
    widest = data["widest_wave"]
    at_once = f"at most {widest['steps']} at once, in wave {widest['wave']}"
    facts = [
        f"{many(len(steps), 'step')} in {many(len(data['waves']), 'wave')}",
        at_once if widest["steps"] > 1 else "one after the other",
        "* is on the critical path",
    ]
    name = canvas.said(plan_name(data["plan_path"]))
    canvas.facts(*[("dim", fact) for fact in facts], lead=[("bold", f"{name}  ")])
    critical = set(data["critical_path"])
    rows = [
        _node(canvas, steps[anchor], f"wave {index}" if not place else "", anchor in critical)
        for index, wave in enumerate(data["waves"], 1)
        for place, anchor in enumerate(wave)
    ]
    canvas.table(rows)
    path = f" {canvas.glyphs.work} ".join(map(step_number, data["critical_path"]))
    canvas.write(("dim", "critical path: "), ("bold", canvas.said(path)), hang=15)


def _node(canvas: Canvas, step: Data, wave: str, critical: bool) -> list[Span]:
    name = canvas.said(step_number(step["anchor"]))
    style = "bold" if critical else ""
    remarks = [many(step["substeps"], "substep")] if step["substeps"] else []
    remarks += ["verification only"] if step["verification_only"] else []
    remarks += [f"after {', '.join(map(step_number, step['needs']))}"] if step["needs"] else []
    title, after = canvas.said(step["title"]), canvas.said("; ".join(remarks))
    number = f"{'*' if critical else ' '} {name}"
    if canvas.width < _NARROW:
        return [("dim", wave), (style, number), (style, f"{title}{after and f' ({after})'}")]
    title = canvas.cut(title, canvas.width // 2) if canvas.bounded else title
    return [("dim", wave), (style, number), (style, title), ("dim", after)]


#: List of `state ready` -> the standing of its steps.
_LISTS = {
    "ready_steps": "ready",
    "claimed_steps": "work",
    "expired_claims": "stale",
    "parked_steps": "parked",
    "blocked_steps": "waits",
    "completed_steps": "completed",
}


def draw_ready(canvas: Canvas, data: Data) -> None:
    """The steps of a plan by their standing."""
    name = plan_name(data["plan_path"])
    canvas.write(("bold", canvas.said(name)), ("", f"  {many(len(data['all_steps']), 'step')}"))
    rows: list[list[Span]] = []
    for key, standing in _LISTS.items():
        if data[key] or key == "ready_steps":
            style, sign = canvas.sign(standing)
            word = COUNTED.get(standing, "completed")
            names = ", ".join(canvas.said(step_number(each)) for each in data[key]) or "none"
            count: Span = ("", str(len(data[key])))
            rows.append([(style, f"{sign} {word}"), count, ("", names)])
    canvas.table(rows, right=(1,))
    late = ", ".join(canvas.said(step_number(each)) for each in data.get("waiting_for", ()))
    for row in data.get("unpublished_steps", ()):
        machine, step = row["worktree"].partition(":")[0], step_number(row["step_anchor"])
        waits = "waits" if len(data["waiting_for"]) == 1 else "wait"
        said = f"{waits} for publish: the commit of step {step} is on {machine} alone"
        canvas.write(("you", canvas.said(f"  {late} {said}")), hang=4)
    if data["ready_steps"]:
        canvas.next(f"tugcode next {quoted(name)}")


HEAD = ("STEP", "STATUS", "TRIES", "WAITED", "WORKED", "REMARKS")
#: Status -> its word in text.
_AT_WORK = {"claimed": "at work", "in_progress": "at work"}


def table(plans: Sequence[Figures], width: int | None = None) -> str:
    """The figures of the plans, for a given width or that of the output."""
    canvas = canvases.for_output(width)
    draw_stats(canvas, plans)
    return canvas.text()


def draw_stats(canvas: Canvas, plans: Sequence[Figures]) -> None:
    """Draw each plan with its sums, and its steps in a table."""
    for number, plan in enumerate(plans):
        if number:
            canvas.write()
        _plan(canvas, plan)
    if not plans:
        canvas.write(("", "no plan has a state yet"))


def _plan(canvas: Canvas, plan: Figures) -> None:
    said = canvas.said
    title = f"  {said(plan['phase_title'])}" if plan["phase_title"] else ""
    name = said(plan_name(plan["plan_path"]))
    canvas.write(("bold", name), ("", title), ("dim", f"  [{plan['status']}]"), hang=2)
    canvas.facts(*(("", fact) for fact in _summary(plan)), lead=[("", "  ")], hang=2)
    if plan["steps"]:
        canvas.write()
        rows = [[("", said(text)) for text in _row(step)] for step in plan["steps"]]
        canvas.table(rows, head=HEAD, right=(2, 3, 4))


def _summary(plan: Figures) -> list[str]:
    steps, items = plan["steps_by_status"], plan["items"]
    closed = sum(counts["completed"] for counts in items.values())
    every = sum(sum(counts.values()) for counts in items.values())
    outcomes = [f"{n} {name}" for name, n in plan["attempts_by_outcome"].items() if n]
    wall = duration(plan["wall_seconds"])
    return [
        f"{steps['completed']}/{sum(steps.values())} steps",
        f"{closed}/{every} items completed",
        *([f"{plan['deferred']} deferred"] if plan["deferred"] else []),
        f"took {wall}" if plan["completed_at"] else f"{wall} so far",
        f"{duration(plan['working_seconds'])} of work",
        *([f"parallelism {plan['parallelism']:.1f}"] if plan["parallelism"] is not None else []),
        f"attempts: {', '.join(outcomes) or 'none'}",
        *_spent(plan),
    ]


def _spent(figures: Figures) -> list[str]:
    tokens, cost = figures["tokens"], figures["cost_microdollars"]
    said = [f"{tokens:,} tokens"] if tokens is not None else []
    return said + ([f"${cost / 1_000_000:.2f}"] if cost is not None else [])


def _row(step: Figures) -> tuple[str, ...]:
    return (
        clean(step["anchor"], 60),
        "parked" if step["parked"] else str(_AT_WORK.get(step["status"], step["status"])),
        str(step["attempts"]),
        duration(step["waiting_seconds"]),
        duration(step["working_seconds"]),
        ", ".join(_remarks(step)),
    )


def _remarks(step: Figures) -> list[str]:
    names = {"deferred": "deferred", "reclaims": "reclaim"}
    names |= {"recoveries": "recovery", "escalations": "escalation"}
    remarks = ["forced"] if step["forced"] else []
    remarks += [many(step[name], one, name) for name, one in names.items() if step[name]]
    return remarks + _spent(step)


#: Situation of a step -> its sign.
_STANDINGS = {
    "completed": "completed",
    "held": "work",
    "expired": "stale",
    "gone": "stale",
    "parked": "parked",
    "ready": "ready",
    "blocked": "waits",
    "paused": "waits",
    "archived": "waits",
}


def draw_why(canvas: Canvas, data: StateWhy, root: str) -> None:
    """Draw the situation of the step in a line, the reasons, and the commands."""
    style, sign = canvas.sign(_STANDINGS[data["situation"]])
    name = f"{data['anchor']} of {plan_name(data['plan_path'])}"
    title = ("", f"  {canvas.said(data['title'])}")
    canvas.write((style, f"{sign} "), ("bold", canvas.said(name)), title, hang=2)
    for sentence in data["sentences"]:
        said = canvases.in_local_time(canvases.shortened(sentence, root))
        canvas.write(("", f"  {canvas.said(said)}"), hang=4)
    if data["situation"] != "completed":
        for failed in data["failed_checkpoints"]:
            which = f"checkpoint {failed['ordinal']} of {failed['step_anchor']}"
            said = f"  `{failed['command']}` failed ({which}); the end of its output:"
            canvas.write(("", canvas.said(said)), hang=4)
            for line in canvas.last_lines(failed["output_tail"]):
                canvas.write(("dim", f"    {line}"), hang=6)
    if data["frees"]:
        canvas.write()
        canvas.write(("bold", "Next"))
    for way in data["frees"]:
        said, command, rest = canvases.in_local_time(way).partition("tugcode ")
        ways = (("", canvas.said(f"  {said}")), ("bold", canvas.said(command + rest)))
        canvas.write(*ways, hang=4)


def reopening(before: Data) -> Iterator[str]:
    """The reason why a person reopened the step, unless a note of the last attempt has it."""
    reopened = before["reopened"]
    notes = [each["summary"] for each in before["artifacts"]]
    if reopened and not any(note.startswith(reopened["reason"]) for note in notes):
        yield f"reopened: {reopened['reason']}"
