"""next and done: one step from its claim to its commit, for callers that name nothing."""

from __future__ import annotations

from tugtool import state
from tugtool.errors import PlanAmbiguous, Usage, merge_command, plan_argument, quoted
from tugtool.errors.state import ItemsOpen, PlanNotInitialised, SubstepItemsOpen, WrongStatus
from tugtool.git import refs
from tugtool.plan import catalog, checkpoints, parser
from tugtool.state import completion, record, reviews, revisions, standings, views, worktrees
from tugtool.state.checklists import KINDS, WAITS_FOR_PERSON
from tugtool.system import clock, process
from tugtool.workflow import commit, plans, records, verify, workspace
from tugtool.workflow.commit.intent import caller_commit_site
from tugtool.workflow.salvage import catch_up
from tugtool.workflow.worktree import build, create, sync

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, NotRequired, TypedDict

    from tugtool.plan.model import Step
    from tugtool.schemas import (
        Done,
        Issue,
        Next,
        NextHolder,
        StateClaim,
        WorktreeCreate,
        WorktreeListWorktreeHeldStep,
    )
    from tugtool.store import Row
    from tugtool.workflow.workspace import Workspace

    Data = dict[str, Any]

    class _OfPlan(TypedDict):
        total_remaining: int
        held_steps: list[str]
        holders: list[NextHolder]
        parked_steps: list[str]
        waiting_items: int
        merged_commit: str | None
        unpublished_steps: NotRequired[list[Any]]


#: A longer command of a checkpoint is stopped.
LIMIT_SECONDS = 600.0
#: A lease may run out without a write to the database.
_LONGEST_NAP_SECONDS = 1.0
#: Lines of a failed command's output in an error; the evidence has more.
_SHOWN_LINES = 20


def next_step(
    space: Workspace,
    name: str | None,
    *,
    step: str | None = None,
    wait_seconds: float = 0,
    lease_seconds: float | None = None,
    hear: Callable[[Next], None] = lambda data: None,
) -> tuple[Next, list[Issue]]:
    """Give the caller a step and everything to know about it. Return it and warnings.

    `hear` is told why there is no step yet, once, before the wait for one.
    """
    plan = _plan(space, name)
    terms: Data = {"step": step, "wait_seconds": wait_seconds, "lease_seconds": lease_seconds}
    if space.worktree == space.repo.root:
        return _next_from_main(space, plan, terms, hear)
    held = _held(space, plan)
    if held and step in (None, held[0]["step_anchor"]):
        return _begun(space, plan, held[0]["step_anchor"], held[0]["attempt"]), []
    # A claim is refused if the worktree has an earlier text of the plan.
    sync.bring_agreed_text(space.store, plan, at=space.worktree)
    # Reserve this worktree, so that `next` in the main worktree does not give it away.
    worktrees.keep(space.store, plan, space.owner, request=process.stamp("next"))
    _tell_wait(space, plan, terms, hear)
    claim, issues = workspace.claim(space, plan, **terms)
    if not claim["claimed"]:
        return _nothing(space, plan), issues
    return _begun(space, plan, claim["anchor"], claim["attempt"], claim=claim), issues


def _plan(space: Workspace, name: str | None) -> str:
    """Return the plan with that name; else the worktree's, or the only one with work."""
    if name is not None:
        try:
            return space.plan(name)
        except PlanNotInitialised:
            # The first worktree of a plan records it.
            return catalog.resolve(space.repo, name, cwd=space.cwd).key
    known = record.plans(space.store) if space.store.exists() else {}
    row = worktrees.find_worktree(space.store, space.owner) if known else None
    if row is not None:
        return str(row["plan_path"])
    found = [plan for plan, status in known.items() if status == "active"]
    if len(found) > 1:
        some = [each for each in found if standings.ready(space.store, each)["ready_steps"]]
        found = some or found
    found = found or [file.key for file in records.unrecorded(space.repo, known)]
    done = [plan for plan, status in known.items() if status == "done"]
    if not found and len(done) == 1:
        return done[0]
    if not found:
        raise PlanNotInitialised(None)
    if len(found) > 1:
        raise PlanAmbiguous("", candidates=found)
    return found[0]


def _held(space: Workspace, plan: str) -> list[WorktreeListWorktreeHeldStep]:
    """Return the plan's steps that the caller holds; renew the claim of a dead process."""
    found = worktrees.claimed_steps(space.store, space.owner)
    return [each for each in found if each["plan_path"] == plan and each["lease"] == "live"]


def _next_from_main(
    space: Workspace, plan: str, terms: Data, hear: Callable[[Next], None]
) -> tuple[Next, list[Issue]]:
    """Do the same in a free worktree, or in a new one."""
    if standings.is_recorded(space.store, plan):
        _tell_wait(space, plan, terms, hear)
        if not _wait(space, plan, terms["wait_seconds"]):
            return _nothing(space, plan), []
    order = create.WorktreeRequest(plans.load(space, plan), step=terms["step"])
    made, issues = create.create_and_claim(space, order, terms)
    claim = made["claim"]
    assert claim is not None
    if not claim["claimed"]:
        # Another worker was first.
        if not made["reused"]:
            build.discard(space.repo, space.store, made)
        return _nothing(space, plan), issues
    there = workspace.Workspace(made["worktree_path"])
    return _begun(there, plan, claim["anchor"], claim["attempt"], claim=claim, made=made), issues


def _tell_wait(space: Workspace, plan: str, terms: Data, hear: Callable[[Next], None]) -> None:
    """Tell the caller what it waits for, if it has to wait."""
    if not terms["wait_seconds"]:
        return
    ready, data = standings.ready(space.store, plan)["ready_steps"], _nothing(space, plan)
    is_ready = terms["step"] in ready if terms["step"] else bool(ready)
    if data["reason"] == "paused" or (data["reason"] == "no_ready_steps" and not is_ready):
        hear(data)


def _wait(space: Workspace, plan: str, seconds: float) -> bool:
    """Return whether a step is ready, if needed after waiting for one."""
    deadline = clock.ticks() + seconds
    while True:
        seen, left = standings.ready(space.store, plan), deadline - clock.ticks()
        paused = record.require_plan(space.store, plan)["paused_at"] is not None
        if (seen["ready_steps"] and not paused) or left <= 0 or _is_done(seen):
            return bool(seen["ready_steps"]) and not paused
        space.store.wait_for_change(min(left, _LONGEST_NAP_SECONDS))


def _is_done(seen: Any) -> bool:
    return len(seen["completed_steps"]) == len(seen["all_steps"])


def _begun(
    space: Workspace,
    plan: str,
    anchor: str,
    attempt: int,
    *,
    claim: StateClaim | None = None,
    made: WorktreeCreate | None = None,
) -> Next:
    """Merge the step's dependencies, start it, and return all about it."""
    sync.bring_agreed_text(space.store, plan, at=space.worktree)
    merged = _synced(space, plan, anchor, attempt, claim)
    started = state.start(space.store, plan, anchor, owner=space.owner, attempt=attempt)
    text, found = _agreed_step(space, plan, anchor)
    before = _previous(space, plan, anchor, attempt) if claim is None else claim["previous_attempt"]
    return {
        "claimed": True,
        "plan_path": plan,
        "worktree_path": space.worktree,
        "branch_name": refs.head_branch(space.worktree),
        "made": made is not None and not made["reused"],
        "resumed": claim is None,
        **record.names(anchor),
        "step_title": found.title,
        "attempt": attempt,
        "lease_expires_at": started["lease_expires_at"],
        "text": text,
        "checklist": [_item(item) for item in _items(space, plan, found)],
        "commit_message": found.commit_message,
        "merged": merged,
        "previous_attempt": before,
        "reason": None,
        **_of_plan(space, plan, standings.ready(space.store, plan)),
        "next": "tugcode done",
    }


def _previous(space: Workspace, plan: str, anchor: str, attempt: int) -> Any:
    """Return what the last attempt left, as the claim of this one told it."""
    before = views.previous_attempt(space.store, plan, anchor)
    data: Any = {"plan_path": plan, "worktree": space.owner, "anchor": anchor, "attempt": attempt}
    data["previous_attempt"] = before
    catch_up.trace(space.repo, space.store, data)
    return before


def _of_plan(space: Workspace, plan: str, seen: Any) -> _OfPlan:
    """Return what is left of a plan, its holders, and what its last command waits for."""
    found: _OfPlan = {
        "total_remaining": len(seen["all_steps"]) - len(seen["completed_steps"]),
        "held_steps": seen["claimed_steps"],
        "holders": standings.holders(space.store, plan),
        "parked_steps": seen["parked_steps"],
        "waiting_items": len(reviews.unsettled(space.store, plan)) if _is_done(seen) else 0,
        "merged_commit": record.require_plan(space.store, plan)["merged_commit"],
    }
    if "unpublished_steps" in seen:
        found["unpublished_steps"] = seen["unpublished_steps"]
    return found


def _synced(
    space: Workspace, plan: str, anchor: str, attempt: int, claim: StateClaim | None
) -> Any:
    """Return the merged commits; a step that still waits for commits is not started."""
    row = record.find_step(space.store, plan, anchor)
    if row is None or row["status"] != "claimed" or (claim and claim["missing_commits"] == []):
        return []
    return sync.sync_claimed(space.store, plan, anchor, attempt, at=space.worktree)


def _items(space: Workspace, plan: str, step: Step) -> list[Row]:
    """Return the items of a step and its substeps, in the plan's order."""
    family = [each.anchor for each in step.family()]
    rows = views.items(space.store, plan, family)
    order = {anchor: number for number, anchor in enumerate(family)}
    return sorted(rows, key=lambda row: (order[row["step_anchor"]], KINDS.index(row["kind"])))


def _item(row: Row) -> Any:
    return record.columns(row, "step_anchor kind ordinal text status reason")


def _agreed_step(space: Workspace, plan: str, anchor: str) -> tuple[str, Step]:
    """Return the step's lines in the agreed text, and the parsed step."""
    text, _ = revisions.agreed_text(space.store, plan)
    parsed = parser.parse(text)
    step = next(each for each in parsed.steps if each.anchor == anchor)
    return parser.section(text, parsed, step), step


def _nothing(space: Workspace, plan: str) -> Next:
    """Return why there is no step for the caller now."""
    seen, row = standings.ready(space.store, plan), record.require_plan(space.store, plan)
    paused = row["paused_at"] is not None
    return {
        "claimed": False,
        "plan_path": plan,
        "worktree_path": None,
        "branch_name": None,
        "made": False,
        "resumed": False,
        "step_anchor": None,
        "anchor": None,
        "step_title": None,
        "attempt": None,
        "lease_expires_at": None,
        "text": None,
        "checklist": [],
        "commit_message": None,
        "merged": [],
        "previous_attempt": None,
        "reason": "all_completed" if _is_done(seen) else "paused" if paused else "no_ready_steps",
        **_of_plan(space, plan, seen),
        "next": _command_after(space, plan, seen),
    }


def _command_after(space: Workspace, plan: str, seen: Any) -> str:
    """Return the caller's next command if no step is held."""
    name = plan_argument(plan)
    if _is_done(seen):
        of_plan, here = _of_plan(space, plan, seen), space.worktree == space.repo.root
        if of_plan["waiting_items"]:
            return f"tugcode review {name}"
        if of_plan["merged_commit"]:
            return f"tugcode report {name}"
        merge = merge_command(plan, push=space.settings.is_set("remote.name"))
        return merge if here else f"cd {quoted(space.repo.root)} && {merge}"
    if seen["ready_steps"]:
        return "tugcode next"
    if seen["parked_steps"] and not seen["claimed_steps"]:
        return f"tugcode review {name}"
    if seen.get("unpublished_steps"):
        return f"tugcode why {name} {quoted(seen['unpublished_steps'][0]['step_anchor'])}"
    return f"tugcode show {name}"


def done(
    space: Workspace,
    name: str | None = None,
    *,
    step: str | None = None,
    attempt: int | None = None,
    message: str | None = None,
    tick_all: bool = False,  # Its tasks and tests.
    limit_seconds: float = LIMIT_SECONDS,
    hear: Callable[[str], None] = lambda command: None,
) -> tuple[Done, list[Issue]]:
    """Check the step that the caller holds, commit its work and complete it; add warnings."""
    plan, anchor = _held_step(space, name, step)
    site, (_, found) = caller_commit_site(space, plan), _agreed_step(space, plan, anchor)
    task = verify.prepare(space, plan, anchor, attempt=space.attempt(plan, anchor, attempt))
    work = _commit_text(space, message or found.commit_message)
    checked = _checked(space, task, limit_seconds, hear)
    open_ = [row for row in _items(space, plan, found) if row["status"] not in record.CLOSED]
    if left := [row for row in open_ if not _is_settled(row, tick_all=tick_all)]:
        raise _refusal(plan, anchor, left, checked)
    _tick(space, plan, anchor, task.attempt, open_)
    # The step holds the worktree now, so its reservation ends.
    worktrees.keep(space.store, plan, space.owner, request=None)
    how: Data = {"attempt": task.attempt, "tested": task.tree}
    data, issues = commit.commit(site, plan, anchor, work, **how)
    deferred = sum(row["kind"] == "checkpoint" for row in open_)
    return {
        "plan_path": plan,
        **record.names(anchor),
        "step_title": found.title,
        "attempt": task.attempt,
        "completed": not data["state_update_failed"],
        "ticked": len(open_) - deferred,
        "deferred": deferred,
        "checkpoints": checked,
        "commit": data,
        "next": _command_after(space, plan, standings.ready(space.store, plan)),
    }, issues


def _checked(
    space: Workspace, task: verify.Task, limit_seconds: float, hear: Callable[[str], None]
) -> list[Any]:
    """Return the results of the command checkpoints."""
    how: Data = {"limit_seconds": limit_seconds, "hear": hear, "committing": True}
    ran = verify.carry_out(space, task, **how) if task.to_run else {"checkpoints": []}
    checked: list[Any] = ran["checkpoints"]
    return checked


def _commit_text(space: Workspace, words: str) -> commit.CommitText:
    number = space.settings.number
    limits: Data = {"max_lines": number("log.max_lines"), "max_bytes": number("log.max_bytes")}
    return commit.CommitText(words, **limits)


def _held_step(space: Workspace, name: str | None, step: str | None) -> tuple[str, str]:
    """Return the one step that the caller's worktree holds, unless it is named."""
    wanted = None if name is None else space.plan(name)
    found = [
        each
        for each in worktrees.claimed_steps(space.store, space.owner)
        if wanted in (None, each["plan_path"]) and step in (None, each["step_anchor"])
    ]
    if len(found) > 1:
        names = ", ".join(each["step_anchor"] for each in found)
        raise Usage(f"{space.worktree} holds {names}: name one with --step", command="done")
    if found:
        return found[0]["plan_path"], found[0]["step_anchor"]
    plan = wanted or _plan(space, None)
    if step is not None:
        # The record names the holder.
        completion.refuse_lost(space.store, plan, step, owner=space.owner, attempt=None)
    catch_up.refuse_lost(space, plan)
    needed = f"{space.worktree} holds no step of it"
    status = str(record.require_plan(space.store, plan)["status"])
    raise WrongStatus(plan, None, status=status, needed=needed, hint="tugcode next")


def _is_settled(row: Row, *, tick_all: bool) -> bool:
    """Return whether an open item can be passed: `--all` ticks it, or only a person can."""
    if row["kind"] != "checkpoint":
        return tick_all
    return checkpoints.kind_of(row["text"]) == checkpoints.PERSON


def _tick(space: Workspace, plan: str, anchor: str, attempt: int, rows: Iterable[Row]) -> None:
    entries = [
        {
            "kind": row["kind"],
            "ordinal": row["ordinal"],
            **_closed(row),
            **({"step": row["step_anchor"]} if row["step_anchor"] != anchor else {}),
        }
        for row in rows
    ]
    who: Data = {"owner": space.owner, "attempt": attempt, "copy": space.copy(plan)}
    if entries:
        state.update(space.store, plan, anchor, entries, **who)


def _closed(row: Row) -> Data:
    if row["kind"] != "checkpoint":
        return {"status": "completed"}
    return {"status": "deferred", "reason": WAITS_FOR_PERSON}


def _refusal(plan: str, anchor: str, left: Sequence[Row], checked: list[Data]) -> ItemsOpen:
    """Return E051 or E052 with the open items, the failures, and the commands for them."""
    items = [record.columns(row, "step_anchor kind ordinal status text") for row in left]
    failed = [each for each in checked if each["outcome"] == "failed"]
    lines = [line for each in failed for line in _failure(each)]
    commands = {(each["step_anchor"], each["ordinal"]) for each in failed}
    if any(item["kind"] != "checkpoint" for item in items):
        lines.append("tasks and tests, once they are done: tugcode done --all")
    for item in items:
        key = (item["step_anchor"], item["ordinal"])
        if item["kind"] == "checkpoint" and key not in commands:
            which = f"{plan_argument(plan)} {quoted(key[0])} --checkpoint {key[1]}"
            lines.append(f"checkpoint {key[1]} of {key[0]} names no command that passed; judge it:")
            lines.append(f"  tugcode update {which} completed")
            lines.append(f'  tugcode update {which} deferred --reason "for a person"')
    own = any(item["step_anchor"] == anchor for item in items)
    kind = ItemsOpen if own else SubstepItemsOpen
    return kind(plan, anchor, items=items, lines=lines, failed=failed, hint="tugcode next")


def _failure(each: Data) -> list[str]:
    """Describe a failed checkpoint: its last command and the end of its output."""
    ran = each["evidence"]["commands"][-1]
    note = f"; {each['evidence']['note']}" if each["evidence"]["note"] else ""
    shown = ran["output_tail"].splitlines()[-_SHOWN_LINES:]
    name = f"checkpoint {each['ordinal']} of {each['step_anchor']}"
    first = f"{name} fails: `{ran['command']}` {completion.ended(ran)}{note}"
    return [first, *(f"    {line}" for line in shown)]
