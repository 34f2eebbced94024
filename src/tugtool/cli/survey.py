"""What is going on, on one screen: the picture of `tugcode status`."""

from __future__ import annotations

import os

from tugtool import clock
from tugtool.cli import canvas as canvases
from tugtool.cli.canvas import FIRM, cells
from tugtool.cli.naming import short_name
from tugtool.cli.picture import bar, percent
from tugtool.spans import duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from tugtool.cli.canvas import Canvas, Span

    # Answers are plain JSON values; their shapes are the schemas of the package.
    Data = Mapping[str, Any]

_BAR = 12
#: Bars stand below each other, unless a name is longer than this.
_LONGEST_NAME = 30
#: On a terminal: of one plan, more claims or parked steps than these are only counted.
_MOST = 8

_NEEDS = {
    "deferred": ("1 deferred item waits", "{} deferred items wait", "for your judgement"),
    "parked": ("1 parked step waits", "{} parked steps wait", "for you"),
    "audit": ("it is done, and", "", "not approved as a whole"),
    "paused": ("paused,", "", "nothing new is handed out"),
    "file_changed": ("its file has changed", "", "since it was recorded"),
    "file_gone": ("its file is gone", "", "since it was recorded"),
    "worktree_gone": ("1 step is", "{} steps are", "held by a worktree that is gone"),
    "file_unreadable": ("its file", "", "cannot be read"),
}


def drawn(data: Data) -> str:
    """The picture, for standard output as it is."""
    canvas = canvases.for_output()
    draw(canvas, data)
    return canvas.text()


def draw(canvas: Canvas, data: Data) -> None:
    """Plans, worktrees, and what needs a person."""
    _head(canvas, data)
    names = [cells(canvas.said(plan["slug"])) for plan in data["plans"]]
    column = min(max(names, default=0), _LONGEST_NAME) if canvas.width > 50 else 0
    for plan in data["plans"]:
        canvas.write()
        _plan(canvas, plan, data, column)
    _dashes(canvas, data)
    _worktrees(canvas, data)
    _needs(canvas, data)


def _head(canvas: Canvas, data: Data) -> None:
    plans = data["plans"]
    held = sum(plan["steps"]["held"] for plan in plans)
    stale = sum(claim["stale"] is not None for plan in plans for claim in plan["claims"])
    facts = [_number(len(plans), "plan"), f"{held - stale} at work"]
    facts += [f"{stale} stale"] if stale else []
    facts += [_number(len(data["dashes"]), "dash", "dashes")] if data["dashes"] else []
    facts += [f"{len(data['needs_you'])} for you"] if data["needs_you"] else []
    facts += [f"{data['archived']} archived"] if data["archived"] else []
    name = canvas.said(os.path.basename(data["root"]) or data["root"])
    canvas.write(("bold", f"{name}  "), ("dim", _joined(canvas, facts)), hang=2)
    if not plans:
        archived = "every plan is archived. They are in: tugcode status --all"
        none = "there is no plan here. Next: tugcode plan new SLUG"
        canvas.write(("", archived if data["archived"] else none), hang=2)


def _plan(canvas: Canvas, plan: Data, data: Data, column: int) -> None:
    steps, items = plan["steps"], plan["items"]
    done, total, word = steps["completed"], steps["total"], "steps"
    if not plan["recorded"]:
        done, total, word = items["completed"], items["total"], "boxes"
    much = f" {done}/{total} {word} {percent(done, total)}%" if total else " no steps"
    full, part, empty = bar(canvas, done, 0, total, _BAR if canvas.width > 50 else 6)
    style = "done" if total and done == total else "work"
    name = canvas.said(plan["slug"])
    canvas.write(
        ("bold", f"{name}  {' ' * (column - cells(name))}"),
        (style, full + part),
        ("dim", empty),
        ("", much.replace(" ", FIRM)),
        *_standing(plan),
        hang=2,
    )
    if plan["title"]:
        canvas.write_cut(("dim", f"  {canvas.said(plan['title'])}"))
    _claims(canvas, plan, data)
    _parked(canvas, plan)
    _counts(canvas, plan)


def _standing(plan: Data) -> list[Span]:
    if plan["file"] == "unreadable" and not plan["recorded"]:
        return [("alarm", "  [unreadable]")]
    if not plan["recorded"]:
        return [("dim", "  [not begun]")]
    status = plan["status"] + (", paused" if plan["paused_at"] else "")
    style = {"active": "work", "done": "done"}.get(status, "warn")
    return [(style, f"  [{status}]")]


def _claims(canvas: Canvas, plan: Data, data: Data) -> None:
    # What is parked and left behind is told of below, as what waits for a person.
    parked = {step["anchor"] for step in plan["parked"]}
    claims = [claim for claim in plan["claims"] if claim["anchor"] not in parked]
    rows = _few(canvas, claims)
    for claim in rows:
        name = canvas.said(short_name(claim["claimed_by"], data["root"]))
        left = clock.seconds_between(data["as_of"], claim["lease_expires_at"])
        said = {
            None: f"{duration(left)} left",
            "expired": f"lease expired {duration(-left)} ago",
            "gone": "its process is gone",
        }[claim["stale"]]
        mark = canvas.glyphs.alarm if claim["stale"] else canvas.glyphs.work
        style = "alarm" if claim["stale"] else "working"
        _row(canvas, (style, mark), claim, (style if claim["stale"] else "", f"{name}, {said}"))
    _rest(canvas, claims, rows, "claims")


def _parked(canvas: Canvas, plan: Data) -> None:
    rows = _few(canvas, plan["parked"])
    for step in rows:
        _row(canvas, ("warning", canvas.glyphs.parked), step, ("warn", _why(canvas, step)))
    _rest(canvas, plan["parked"], rows, "parked steps")


def _why(canvas: Canvas, step: Data) -> str:
    return f"parked: {canvas.said(step['park_reason'] or 'no reason given')}"


def _row(canvas: Canvas, mark: Span, step: Data, tail: Span) -> None:
    """One step on one line: what is said of it is never cut, its title is."""
    lead = f"  {mark[1]} {canvas.said(step['anchor'])}  "
    room = canvas.width - cells(lead) - cells(tail[1]) - 2
    title = canvas.cut(canvas.said(step["title"]), room) if room >= 8 else ""
    gap = "  " if title else ""
    canvas.write((mark[0], lead), ("", title + gap), tail, hang=4)


def _few(canvas: Canvas, rows: Sequence[Data]) -> Sequence[Data]:
    return rows[:_MOST] if canvas.bounded and len(rows) > _MOST + 1 else rows


def _rest(canvas: Canvas, rows: Sequence[Data], shown: Sequence[Data], what: str) -> None:
    if len(shown) < len(rows):
        canvas.write(("dim", f"    and {len(rows) - len(shown)} more {what}"))


def _counts(canvas: Canvas, plan: Data) -> None:
    words = [("ready", "ready"), ("blocked", "blocked")]
    parts = [f"{plan['steps'][key]} {word}" for key, word in words if plan["steps"][key]]
    deferred = plan["items"]["deferred"]
    parts += [f"{_number(deferred, 'item')} deferred"] if deferred else []
    if parts:
        canvas.write(("dim", f"  {_joined(canvas, parts)}"), hang=2)


def _dashes(canvas: Canvas, data: Data) -> None:
    if not data["dashes"]:
        return
    canvas.write()
    canvas.write(("bold", "Dashes"))
    rows = _few(canvas, data["dashes"])
    for dash in rows:
        since = duration(clock.seconds_between(dash["updated_at"], data["as_of"]))
        facts = [_number(dash["rounds"], "round"), f"last {since} ago"]
        lead = f"  {canvas.said(dash['name'])}  "
        tail = _joined(canvas, facts)
        room = canvas.width - cells(lead) - cells(tail) - 2
        about = canvas.cut(canvas.said(dash["description"] or ""), room) if room >= 8 else ""
        canvas.write(("", lead + about + ("  " if about else "")), ("dim", tail), hang=4)
    _rest(canvas, data["dashes"], rows, "dashes")


def _worktrees(canvas: Canvas, data: Data) -> None:
    dashes = {dash["worktree_path"] for dash in data["dashes"]}
    rows = [row for row in data["worktrees"] if not row["main"] or row["holds"]]
    # A dash is told of above, unless it is not where it should be.
    rows = [row for row in rows if row["path"] not in dashes or row["holds"] or not row["exists"]]
    if not rows:
        return
    canvas.write()
    canvas.write(("bold", "Worktrees"))
    for row in rows:
        holds = ", ".join(each["anchor"] for each in row["holds"])
        gone = "  gone from the disk" if row["registered"] and not row["exists"] else ""
        canvas.write(
            ("", f"  {canvas.said(short_name(row['path'], data['root']))}"),
            ("dim", f"  {canvas.said(row['branch'])}" if row["branch"] else ""),
            ("working", f"  {canvas.said(holds)}" if holds else ""),
            ("alarm", gone),
            hang=4,
        )


def _needs(canvas: Canvas, data: Data) -> None:
    canvas.write()
    if not data["needs_you"]:
        canvas.write(("done", "Nothing needs you."))
        return
    canvas.write(("warning", "Needs you"))
    slugs = {plan["plan_path"]: plan["slug"] for plan in data["plans"]}
    after = [need["command"] for need in data["needs_you"][1:]] + [""]
    for need, following in zip(data["needs_you"], after, strict=True):
        one, many, rest = _NEEDS[need["what"]]
        said = one if need["count"] == 1 else many.format(need["count"])
        canvas.write(("", f"  {canvas.said(slugs[need['plan_path']])}: {said} {rest}"), hang=4)
        if need["command"] != following:
            canvas.write(("bold", f"    {canvas.said(need['command'])}"), hang=6)


def _joined(canvas: Canvas, facts: Sequence[str]) -> str:
    """Facts on one line, which is folded between them and nowhere else."""
    return canvas.glyphs.dot.join(fact.replace(" ", FIRM) for fact in facts)


def _number(count: int, word: str, many: str = "") -> str:
    return f"{count} {word}" if count == 1 else f"{count} {many or word + 's'}"
