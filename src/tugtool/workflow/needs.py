"""Find what waits for a person in `status`, with the command for each, and what the remote lacks.

Commits of steps and merges that are on one machine alone are told only where commits travel by a
remote (`[remote]`).
"""

from __future__ import annotations

from tugtool.errors import merge_command, plan_argument, quoted
from tugtool.errors.state import move_command
from tugtool.store.owners import on_other_machine
from tugtool.system import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tugtool.workflow.doctor import Subject
    from tugtool.workflow.workspace import Workspace

    Data = dict[str, Any]


def of_plan(space: Workspace, plan: Data, trees: list[Data]) -> Iterator[Data]:
    """Everything about a plan that a person should look at; `trees` are all worktrees."""
    if plan["status"] != "archived":
        push, shared = space.settings.is_set("remote.name"), bool(space.settings.state_url())
        yield from recorded(plan, push=push, shared=shared)
        yield from _from_remote(plan)
    home = os.path.join(space.repo.root, ".tugtree", "")
    lost = [tree for tree in trees if not tree["exists"] and tree["path"].startswith(home)]
    yield from _lost(space, plan, lost)


def recorded(plan: Data, *, push: bool = False, shared: bool = False) -> Iterator[Data]:
    """Everything that the record of a plan says; `shared`: other clones have the state too."""
    name = plan_argument(plan["plan_path"])
    # The file of a done plan may be deleted; a changed one may mean more work.
    shown = {"active": ("changed", "gone", "unreadable"), "done": ("changed",)}
    if plan["renamed_to"]:
        yield _need(plan, "file_renamed", 1, move_command(plan["plan_path"], plan["renamed_to"]))
    run, live = plan["last_run"], any(not claim["stale"] for claim in plan["claims"])
    died = run and run["status"] == "died" and not live and not plan["run_since"]
    for what, count, command in (
        ("run_died", int(bool(died and plan["status"] == "active")), "implement"),
        ("deferred", plan["items"]["deferred"], "review"),
        ("parked", plan["steps"]["parked"], "review"),
        ("question", sum(bool(claim["question"]) for claim in plan["claims"]), "review"),
        ("audit", int(bool(plan["audit"])), "review"),
        ("changed_outside", plan["changed_outside"], "report"),
        ("paused", int(bool(plan["paused_at"])), "resume"),
        (f"file_{plan['file']}", int(plan["file"] in shown.get(plan["status"], ())), "diff"),
    ):
        # Another clone may have it: this one is old.
        pull = what == "file_gone" and shared
        if count:
            yield _need(plan, what, count, "git pull" if pull else f"tugcode {command} {name}")
    waits = plan["audit"] or plan["items"]["deferred"] or plan["file"] == "changed"
    if plan["status"] == "done" and plan["commits"] and not (plan["merged_commit"] or waits):
        yield _need(plan, "unmerged", 1, merge_command(plan["plan_path"], push=push))


def _lost(space: Workspace, plan: Data, lost: list[Data]) -> Iterator[Data]:
    """Deleted or moved worktrees that still hold steps of the plan."""
    for tree in lost:
        held = [each for each in tree["holds"] if each["plan_path"] == plan["plan_path"]]
        live = [each for each in held if not each["stale"]]
        if live:
            from tugtool.workflow import worktree  # Only if one is missing.

            what, command = worktree.found_again(space.repo, space.store, tree["path"])
            if not tree["registered"] and space.settings.state_url():
                # It may be the live worker of a machine with the same id.
                step = quoted(live[0]["anchor"])
                command = f"tugcode why {plan_argument(plan['plan_path'])} {step}"
            yield _need(plan, what, len(live), command)


def _from_remote(plan: Data) -> Iterator[Data]:
    late = plan.get("unpublished", ())
    if late:
        name, first = plan_argument(plan["plan_path"]), late[0]
        command = f"tugcode why {name} {quoted(first['step_anchor'])}"
        if not all(on_other_machine(each["worktree"]) for each in late):
            command = "tugcode worktree publish"
        yield _need(plan, "unpublished", len(late), command)
    if "unpushed_merge" in plan:
        yield _need(plan, "unpushed", 1, merge_command(plan["plan_path"], push=True))


def _need(plan: Data, what: str, count: int, command: str) -> Data:
    return {"plan_path": plan["plan_path"], "what": what, "count": count, "command": command}


def tell_remote(space: Workspace, rows: list[Data]) -> None:
    """Add to plans of `status` what the remote lacks, and count what waits for it."""
    for row in rows:
        settle_merge(space, row)
    if not space.settings.is_set("remote.name") or not space.store.exists():
        return
    from tugtool.state import publication, standings

    late: dict[str, list[Any]] = {}
    for each in publication.unpublished(space.store):
        late.setdefault(each["plan_path"], []).append(each)
    for row in rows:
        if row["plan_path"] not in late:
            continue
        waits: Any = standings.ready(space.store, row["plan_path"])
        waiting = len(waits.get("waiting_for", ()))
        row["steps"]["ready"] -= waiting
        row["steps"]["blocked"] += waiting
        needed = {each["step_anchor"] for each in waits.get("unpublished_steps", ())}
        # A step that was completed a moment ago is still being pushed.
        found = [e for e in late[row["plan_path"]] if e["problem"] or e["step_anchor"] in needed]
        if found:
            row["unpublished"] = [publication.entry(each) for each in found]


def settle_merge(space: Workspace | Subject, plan: Any) -> None:
    """Forget an unpushed merge that this clone has seen at the remote."""
    merge = plan.get("unpushed_merge")
    if merge is None:
        return
    from tugtool.git import refs
    from tugtool.git.remote import tracking

    there = refs.commit_of(space.repo.root, tracking(merge["remote"], merge["base_branch"]))
    if there is not None and refs.is_ancestor(space.repo.root, merge["commit"], there):
        del plan["unpushed_merge"]
