"""`tugcode status`: what is going on here, and what needs a person."""

from __future__ import annotations

import os

from tugtool import git, state
from tugtool.cli.output import Answer
from tugtool.cli.place import Place
from tugtool.errors import TugError, Unreadable, quoted
from tugtool.plan import catalog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tugtool.cli.parse import Call
    from tugtool.plan.catalog import PlanFile

    Data = dict[str, Any]


def status(call: Call) -> Answer:
    """Every plan, its progress, its claims and worktrees, and what waits for a person."""
    place = Place(call)
    none: Data = {"plans": [], "dashes": []}
    recorded: Data = state.status(place.store) if place.store.exists() else none
    shown = [plan for plan in recorded["plans"] if call.flag("all") or plan["status"] != "archived"]
    plans = [_from_record(place, plan) for plan in shown]
    known = {plan["plan_path"] for plan in recorded["plans"]}
    files = [file for file in catalog.plans(place.repo) if file.key not in known]
    plans += [_from_boxes(place, file) for file in files]
    trees = _worktrees(place, plans)
    home = os.path.join(place.repo.root, ".tugtree", "")
    lost = [tree for tree in trees if not tree["exists"] and tree["path"].startswith(home)]
    data = {
        "root": place.repo.root,
        "as_of": recorded.get("as_of"),
        "plans": plans,
        "dashes": [_dash(place, dash) for dash in recorded["dashes"]],
        "worktrees": trees,
        "needs_you": [need for plan in plans for need in (*_needs(plan), *_lost(plan, lost))],
        "archived": len(recorded["plans"]) - len(shown),
    }

    def text() -> str:
        from tugtool.cli import survey

        return survey.drawn(data)

    return Answer(data, text)


def _from_record(place: Place, plan: Data) -> Data:
    agreed = plan.pop("plan_hash")
    try:
        found = place.copy(plan["plan_path"]).now()
        file = "present" if found == agreed else "changed" if found else "gone"
    except Unreadable:
        file = "unreadable"
    return {**_names(plan["plan_path"]), "recorded": True, "file": file, **plan}


def _from_boxes(place: Place, file: PlanFile) -> Data:
    """A plan that nobody has begun to carry out: all there is are the boxes in its text."""
    from tugtool.plan import parser

    plan: Data = {**_names(file.key), "recorded": False, "status": None, "paused_at": None}
    steps = dict.fromkeys(("total", "completed", "held", "ready", "blocked", "parked"), 0)
    items = dict.fromkeys(("total", "completed", "deferred"), 0)
    rest: Data = {"steps": steps, "items": items, "claims": [], "parked": [], "audit": None}
    try:
        limit = place.settings.number("plan.max_bytes")
        parsed = parser.parse(catalog.text(catalog.inside(place.repo, file), max_bytes=limit))
    except TugError:
        return {**plan, "file": "unreadable", "title": None, **rest}
    ticked = [
        [item.ticked for each in step.family() for item in each.items] for step in parsed.steps
    ]
    steps["total"] = len(parsed.steps)
    steps["completed"] = sum(bool(boxes) and all(boxes) for boxes in ticked)
    items["total"] = sum(map(len, ticked))
    items["completed"] = sum(map(sum, ticked))
    return {**plan, "file": "present", "title": parsed.title, **rest}


def _names(key: str) -> Data:
    return {"plan_path": key, "slug": catalog.slug_of(os.path.basename(key))}


def _worktrees(place: Place, plans: list[Data]) -> list[Data]:
    """Every working tree of the repository, and what it holds; also one that is gone."""
    held: dict[str, list[Data]] = {}
    for plan in plans:
        for claim in plan["claims"]:
            what = {"plan_path": plan["plan_path"], "anchor": claim["anchor"]}
            held.setdefault(claim["claimed_by"], []).append({**what, "stale": claim["stale"]})
    found = [
        {
            "path": path,
            "branch": branch,
            "main": path == place.repo.root,
            "registered": True,
            "exists": os.path.isdir(path),
            "holds": held.pop(path, []),
        }
        for path, branch in git.worktrees(place.repo.root)
    ]
    stranger: Data = {"branch": None, "main": False, "registered": False}
    return found + [
        {"path": path, **stranger, "exists": os.path.isdir(path), "holds": holds}
        for path, holds in held.items()
    ]


def _dash(place: Place, dash: Data) -> Data:
    return {**dash, "worktree_path": os.path.join(place.repo.root, dash["worktree_path"])}


def _needs(plan: Data) -> Iterator[Data]:
    """What a person should look at, and with which command."""
    usual = f"{catalog.DIRECTORY}/{catalog.PREFIX}{plan['slug']}{catalog.SUFFIX}"
    if plan["status"] == "archived":
        return
    name = quoted(plan["slug"] if plan["plan_path"] == usual else plan["plan_path"])
    deferred, parked = plan["items"]["deferred"], plan["steps"]["parked"]
    if deferred:
        yield _need(plan, "deferred", deferred, f"tugcode state review {name}")
    if parked:
        yield _need(plan, "parked", parked, f"tugcode state review {name}")
    if plan["audit"]:
        yield _need(plan, "audit", 1, f"tugcode state review {name}")
    if plan["paused_at"]:
        yield _need(plan, "paused", 1, f"tugcode state resume {name}")
    if plan["recorded"] and plan["file"] != "present" and plan["status"] == "active":
        yield _need(plan, f"file_{plan['file']}", 1, f"tugcode state diff {name}")


def _lost(plan: Data, lost: list[Data]) -> Iterator[Data]:
    """Worktrees that were deleted by hand, and keep steps of a plan from all others."""
    for tree in lost:
        held = [each for each in tree["holds"] if each["plan_path"] == plan["plan_path"]]
        live = [each for each in held if not each["stale"]]
        if live:
            name = quoted(os.path.basename(tree["path"]))
            yield _need(plan, "worktree_gone", len(live), f"tugcode worktree remove {name}")


def _need(plan: Data, what: str, count: int, command: str) -> Data:
    return {"plan_path": plan["plan_path"], "what": what, "count": count, "command": command}
