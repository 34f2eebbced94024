"""The pictures of `tugcode status`, `worktree list` and `worktree salvage list`."""

from __future__ import annotations

from tugtool.cli.draw import canvas as canvases
from tugtool.cli.draw.canvas import COUNTED, STANDINGS, cells, local, percent, step_number
from tugtool.errors import plan_argument, plan_name
from tugtool.system import clock, os
from tugtool.system.clock import duration
from tugtool.system.files import short_name
from tugtool.system.text import many
from tugtool.workflow import sentences

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from tugtool.cli.draw.canvas import Canvas, Span
    from tugtool.schemas import (
        WorktreeList,
        WorktreeListWorktree,
        WorktreeSalvageList,
        WorktreeSalvageListSalvage,
    )

    # Answers are plain JSON values; their shapes are the schemas of the package.
    Data = Mapping[str, Any]


#: Bars are aligned, unless a name is longer than this.
_LONGEST_NAME = 30
#: A narrower terminal gets short bars and no titles of plans.
_NARROW = 60
#: On a terminal, the most claims or parked steps of a plan; others are counted.
_MOST = 8

#: What waits for a person: the words for one and for many.
NEEDS = {
    "run_died": ("the last run died; this goes on", ""),
    "question": ("1 question waits for you", "{} questions wait for you"),
    "parked": ("1 parked step waits for you", "{} parked steps wait for you"),
    "deferred": ("1 deferred item waits for you", "{} deferred items wait for you"),
    "audit": ("done, but not approved as a whole", ""),
    "changed_outside": ("1 change outside while agents ran", "{} changes outside while agents ran"),
    "unmerged": ("done, but not merged", ""),
    "unpushed": ("merged, but the remote does not have it", ""),
    "unpublished": ("1 commit is on one machine alone", "{} commits are on one machine alone"),
    "paused": ("paused, nothing new is begun", ""),
    "file_changed": ("the file is not the agreed text", ""),
    "file_gone": ("the file is gone", ""),
    "file_renamed": ("the file has another name now", ""),
    "file_unreadable": ("the file cannot be read", ""),
    "worktree_moved": ("1 step is in a moved worktree", "{} steps are in a moved worktree"),
    "worktree_gone": ("1 step is in a lost worktree", "{} steps are in a lost worktree"),
}


def draw_status(data: Data) -> str:
    """The picture for the current standard output."""
    canvas = canvases.for_output()
    draw(canvas, data)
    return canvas.text()


def draw(canvas: Canvas, data: Data) -> None:
    """Draw plans, dashes, lost worktrees, and what waits for a person."""
    _head(canvas, data)
    names = [cells(canvas.said(plan["slug"])) for plan in data["plans"]]
    short = [each for each in names if each <= _LONGEST_NAME and canvas.width >= _NARROW]
    column = max(short, default=0)
    for plan in data["plans"]:
        _plan(canvas, plan, data, column)
    _dashes(canvas, data)
    _worktrees(canvas, data)
    canvas.write()
    if "no_address" in data:
        canvas.write(("you", canvas.said(data["no_address"])), hang=2)
    if data["needs_you"]:
        slugs = {plan["plan_path"]: plan["slug"] for plan in data["plans"]}
        needs = [(need["what"], need["count"], need["command"]) for need in data["needs_you"]]
        write_needs(canvas, needs, [slugs[need["plan_path"]] for need in data["needs_you"]])
        return
    canvas.write(("done", "Nothing needs you."))
    command = _next(data["plans"])
    if command:
        canvas.next(canvas.said(command))


def write_needs(
    canvas: Canvas, found: Sequence[tuple[str, int, str]], names: Sequence[str] = ()
) -> None:
    """Write what waits for a person, a line each, with the command; `names` of plans."""
    rows: list[list[Span]] = []
    for place, (what, count, command) in enumerate(found):
        one, several = NEEDS[what]
        said = one if count == 1 else several.format(count)
        said = f"{canvas.said(names[place])}: {said}" if names else said
        # Group the lines with the same command.
        again = found[place + 1 : place + 2] and found[place + 1][2] == command
        rows.append([("you", said), ("bold", "" if again else canvas.said(command))])
    canvas.write(("bold you", "Needs you"))
    canvas.table(rows)


def write_stop(canvas: Canvas, run: Data, indent: int = 0) -> None:
    """Write when and why the last run ended."""
    why = canvas.said(run["reason"] or run["status"].replace("_", " "))
    at = local(run["ended_at"])
    ended = f"died about {at[:-3]}" if run["status"] == "died" else f"stopped at {at}"
    said = f"{' ' * indent}The last run {ended}: {why}"
    canvas.write(("you", said), hang=indent + 2)


def write_run(canvas: Canvas, since: str, indent: int = 0) -> None:
    """That a run is at work."""
    said = f"{' ' * indent}A run is at work since {local(since)}"
    canvas.write(("work", said), hang=indent + 2)


def write_stopped(canvas: Canvas, data: Data) -> None:
    """Runs that died and steps that are stale; they wait for a run, not for a person."""
    stale, died = data.get("stale_steps", []), data.get("died_runs", [])
    for plan in dict.fromkeys(each["plan_path"] for each in (*died, *stale)):
        name = plan_name(plan)
        canvas.write()
        for each in (e for e in died if e["plan_path"] == plan):
            at = local(each["ended_at"])[:-3]
            said = f"The last run of {canvas.said(name)} died about {at}: its process is gone."
            canvas.write(("wrong", said), hang=2)
        steps = [each["step_anchor"] for each in stale if each["plan_path"] == plan]
        if steps:
            said = f"Stale, because their worker is gone: {', '.join(steps)}."
            canvas.write(("wrong", canvas.said(said)), hang=2)
        command = canvas.said(f"tugcode implement {plan_argument(plan)}")
        canvas.write(("", "The next run goes on with what was done: "), ("bold", command), hang=2)


def _next(plans: Sequence[Data]) -> str | None:
    """The next command if nothing waits for a person."""
    if not plans:
        return "tugcode plan new SLUG"
    for plan in plans:
        live = [claim for claim in plan["claims"] if not claim["stale"]]
        if live:
            return f"tugcode show {plan_argument(plan['plan_path'])} --watch"
        if plan["status"] not in ("done", "archived") and plan["file"] != "unreadable":
            return f"tugcode implement {plan_argument(plan['plan_path'])}"
    return None


def _head(canvas: Canvas, data: Data) -> None:
    plans = data["plans"]
    held = [claim for plan in plans for claim in _held(plan)]
    stale = sum(claim["stale"] is not None for claim in held)
    facts: list[Span] = [("", many(len(plans), "plan")), ("work", f"{len(held) - stale} at work")]
    facts += [("wrong", f"{stale} stale")] if stale else []
    facts += [("", many(len(data["dashes"]), "dash", "dashes"))] if data["dashes"] else []
    needs = sum(need["count"] for need in data["needs_you"])
    facts += [("you", f"{needs} for you")] if needs else []
    facts += [("dim", f"{data['archived']} archived")] if data["archived"] else []
    facts += [("dim", f"state at {data['state_url']}")] if data.get("state_url") else []
    facts += [("dim", f"served at {data['server']['url']}")] if data["server"] else []
    name = canvas.said(os.path.basename(data["root"]) or data["root"])
    canvas.facts(*facts, lead=[("bold", f"{name}  ")])
    if not plans:
        none = "There is no plan here yet."
        none = "Every plan is archived: tugcode status --all" if data["archived"] else none
        canvas.write(("", none), hang=2)
    else:
        canvas.write()


def _plan(canvas: Canvas, plan: Data, data: Data, column: int) -> None:
    name, far = canvas.said(plan["slug"]), _progress(plan)
    steps = plan["steps"] if plan["recorded"] else plan["items"]
    bar = canvas.bar(steps["completed"], steps["total"], 12 if canvas.width >= _NARROW else 6)
    status = _status(canvas, plan)
    pad = " " * (column - cells(name))
    far = f"{far:<15}  " if column else f"{far}  "
    spans: list[Span] = [("bold", f"{name}  {pad}"), *bar, ("", f" {far}"), status]
    used = sum(cells(text) for _, text in spans)
    title = canvas.said(plan["title"] or "")
    room = canvas.width - used - 2
    if title and canvas.width >= _NARROW and room >= min(cells(title), 12):
        spans.append(
            ("dim", f"  {canvas.cut(title, room)}" if status[1] else canvas.cut(title, room))
        )
    canvas.write(*spans, hang=2)
    _rows(canvas, plan, data)
    _counts(canvas, plan)
    run, live = plan["last_run"], any(not claim["stale"] for claim in plan["claims"])
    if plan["run_since"]:
        write_run(canvas, plan["run_since"], 2)
    elif run is not None and plan["status"] == "active" and not live:
        write_stop(canvas, run, 2)


def _progress(plan: Data) -> str:
    steps, word = (plan["steps"], "steps") if plan["recorded"] else (plan["items"], "boxes")
    done, total = steps["completed"], steps["total"]
    return f"{done}/{total} {word} {percent(done, total)}%" if total else "no steps"


def paused(canvas: Canvas, plan: Data) -> str:
    """`paused`, with the reason if one was given."""
    return "paused" + (f": {canvas.said(plan['paused_reason'])}" if plan["paused_reason"] else "")


def _status(canvas: Canvas, plan: Data) -> Span:
    if plan["file"] == "unreadable" and not plan["recorded"]:
        return "wrong", "unreadable"
    if not plan["recorded"]:
        return "dim", "not begun"
    if plan["paused_at"]:
        return "you", paused(canvas, plan)
    if "unpushed_merge" in plan:
        return "you", canvas.said(sentences.unpushed(plan["unpushed_merge"]))
    if plan["status"] == "done":
        return "done", "merged" if plan["merged_commit"] else "done"
    return "dim", "archived" if plan["status"] == "archived" else ""


def _rows(canvas: Canvas, plan: Data, data: Data) -> None:
    """The steps at work, and those that wait for a person."""
    held = _held(plan)
    rows = [_claim(canvas, claim, data) for claim in _few(canvas, held)]
    rows += [_waiting(canvas, step) for step in _few(canvas, plan["parked"])]
    if rows:
        canvas.table(rows)
    for every, word in ((held, "at work"), (plan["parked"], "parked")):
        rest = len(every) - len(_few(canvas, every))
        if rest:
            canvas.write(("dim", f"  {canvas.glyphs.more} {rest} more {word}"))


def _held(plan: Data) -> list[Data]:
    """The claims of steps that are not parked: a parked step is shown once."""
    parked = {step["anchor"] for step in plan["parked"]}
    return [claim for claim in plan["claims"] if claim["anchor"] not in parked]


def _claim(canvas: Canvas, claim: Data, data: Data) -> list[Span]:
    standing = "stale" if claim["stale"] else "question" if claim["question"] else "work"
    said = ", ".join(
        (_claim_facts(claim, data["as_of"]), short_name(claim["claimed_by"], data["root"]))
    )
    return _row(canvas, claim, standing, said)


def _claim_facts(claim: Data, now: str) -> str:
    if claim["stale"] == "gone":
        return "stale: its process is gone"
    if claim["stale"]:
        ago = clock.seconds_between(claim["lease_expires_at"], now)
        return f"stale: its lease ended {duration(ago)} ago"
    if claim["question"]:
        return f"waits for you: {claim['question']}"
    since = duration(clock.seconds_between(claim["role_since"] or claim["claimed_at"], now))
    return f"{claim['role'] or 'at work'} {since}"


def _waiting(canvas: Canvas, step: Data) -> list[Span]:
    return _row(
        canvas, step, "parked", f"waits for you: {step['park_reason'] or 'no reason given'}"
    )


def _row(canvas: Canvas, step: Data, standing: str, said: str) -> list[Span]:
    _, sign = canvas.sign(standing)
    name = f"{sign} {canvas.said(step_number(step['anchor']))}"
    title = canvas.said(step["title"])
    short = canvas.cut(title, canvas.width // 3) if canvas.bounded else title
    style = STANDINGS[standing]
    tail = (style if standing != "work" else "", canvas.said(said))
    return [(f"bold {style}", name), ("", short), tail]


def _few(canvas: Canvas, rows: Sequence[Data]) -> Sequence[Data]:
    return rows[:_MOST] if canvas.bounded and len(rows) > _MOST + 1 else rows


def _counts(canvas: Canvas, plan: Data) -> None:
    facts: list[Span] = [
        (STANDINGS[key], f"{plan['steps'][name]} {COUNTED[key]}")
        for key, name in (("ready", "ready"), ("waits", "blocked"))
        if plan["steps"][name]
    ]
    deferred = plan["items"]["deferred"]
    facts += [("you", f"{many(deferred, 'item')} deferred")] if deferred else []
    if facts:
        canvas.facts(*facts, lead=[("", "  ")])


def _dashes(canvas: Canvas, data: Data) -> None:
    if not data["dashes"]:
        return
    canvas.write()
    canvas.write(("bold", "Dashes"))
    shown = _few(canvas, data["dashes"])
    canvas.table([_dash(canvas, dash, data["as_of"]) for dash in shown])
    if len(shown) < len(data["dashes"]):
        rest = len(data["dashes"]) - len(shown)
        canvas.write(("dim", f"  {canvas.glyphs.more} {rest} more dashes"))


def _dash(canvas: Canvas, dash: Data, now: str) -> list[Span]:
    since = duration(clock.seconds_between(dash["updated_at"], now))
    facts = ("dim", f"{many(dash['rounds'], 'round')}, last {since} ago")
    return [("", canvas.said(dash["name"])), facts, ("", canvas.said(dash["description"] or ""))]


def _worktrees(canvas: Canvas, data: Data) -> None:
    """Draw only worktrees that are not in their place; steps name the others."""
    lost = [row for row in data["worktrees"] if row["registered"] and not row["exists"]]
    if lost:
        canvas.write()
        canvas.write(("bold wrong", "Worktrees that are not there"))
        canvas.table([_lost(canvas, row, data["root"]) for row in lost])


def _lost(canvas: Canvas, row: Data, root: str) -> list[Span]:
    holds = ", ".join(step_number(each["anchor"]) for each in row["holds"])
    said = f"{row['branch'] or 'no branch'}{', holds ' + holds if holds else ''}"
    return [("", canvas.said(short_name(row["path"], root))), ("dim", canvas.said(said))]


def worktrees(data: WorktreeList, now: str) -> str:
    """The worktrees for the current standard output."""
    canvas = canvases.for_output()
    draw_worktrees(canvas, data, now)
    return canvas.text()


def draw_worktrees(canvas: Canvas, data: WorktreeList, now: str) -> None:
    """Draw each worktree with its branch and the steps that it holds."""
    for tree in data["worktrees"]:
        canvas.write(("bold", canvas.said(tree["name"])), hang=2)
        canvas.facts(*_tree_facts(canvas, tree, now), lead=[("", "  ")], hang=2)
        for step in tree["held_steps"]:
            stale = step["lease"] != "live"
            style, sign = canvas.sign("stale" if stale else "work")
            left = duration(clock.seconds_between(now, step["lease_expires_at"]))
            until = f"until {canvases.local(step['lease_expires_at'])} ({left} left)"
            name = f"{step['step_anchor']} of {plan_name(step['plan_path'])}"
            canvas.write(
                (style, f"  {sign} "),
                ("", canvas.said(name)),
                (style if stale else "", ", stale" if stale else f", at work {until}"),
                hang=4,
            )
    for each in data["branches"]:
        canvas.write(("", canvas.said(each["branch_name"])), ("dim", "  no worktree"), hang=2)
    if data["worktrees"] or data["branches"]:
        canvas.write()
        canvas.next("tugcode worktree cleanup --dry-run")
    else:
        canvas.write(("", "there is no worktree"))
        canvas.next("tugcode worktree create PLAN")


def _tree_facts(canvas: Canvas, tree: WorktreeListWorktree, now: str) -> Iterator[Span]:
    if tree["plan_path"]:
        yield "", canvas.said(f"plan {plan_name(tree['plan_path'])}")
    yield "dim", canvas.said(f"{tree['branch_name']} from {tree['base_branch']}")
    if tree["ahead"] is not None:
        yield "", f"{tree['ahead']} ahead, {tree['behind']} behind"
    if tree["machine"]:
        yield "dim", canvas.said(f"on {tree['machine']}")
    elif not tree["exists"]:
        yield "wrong", "its directory is gone"
    elif tree["clean"]:
        yield "done", "clean"
    else:
        yield "you", f"{many(tree['changed_files'], 'file')} not committed"
    if tree["reserved_until"]:
        yield "", f"reserved until {canvases.local(tree['reserved_until'])}"


def salvages(data: WorktreeSalvageList, root: str) -> str:
    """The saved work for the current standard output."""
    canvas = canvases.for_output()
    draw_salvages(canvas, data, root)
    return canvas.text()


def draw_salvages(canvas: Canvas, data: WorktreeSalvageList, root: str) -> None:
    """Draw the saved work, the newest first, and the command to look at it."""
    for each in data["salvages"]:
        canvas.write(("bold", canvas.said(each["name"])), hang=2)
        canvas.write(("", f"  {canvas.said(whose(each, root))}"), hang=4)
    if not data["salvages"]:
        canvas.write(("", "nothing was saved"))
    if data.get("more"):
        canvas.write(("", "what other machines saved comes with: "), ("bold", data["more"]))
    if not data["salvages"]:
        return
    canvas.write()
    canvas.next(f"tugcode worktree salvage show {canvas.said(data['salvages'][0]['name'])}")


def whose(each: WorktreeSalvageListSalvage, root: str) -> str:
    """The worker of saved work, in a line."""
    step = f"{each['step_anchor']} of " if each["step_anchor"] else ""
    plan = plan_name(each["plan_path"]) if each["plan_path"] else "no known plan"
    number = f", attempt {each['attempt']}" if each["attempt"] else ""
    place = f", in {short_name(each['worktree'], root)}" if each["worktree"] else ""
    return f"{step}{plan}{number}{place}, saved {canvases.local(each['saved_at'])}"
