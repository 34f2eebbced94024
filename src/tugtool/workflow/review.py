"""review: show what waits for a person, with all that a decision needs; record the decision."""

from __future__ import annotations

from tugtool import state
from tugtool.errors import plan_argument, quoted
from tugtool.errors.state import InvalidEntry
from tugtool.state import attempts, releases, reviews, views
from tugtool.store import owners
from tugtool.workflow import transcripts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from tugtool.git.history import CommitChange
    from tugtool.schemas import (
        Issue,
        StateReview,
        StateReviewDeferredItemDiffstat,
        StateReviewParkedStep,
    )
    from tugtool.workflow.workspace import Workspace

    #: Shows what would be done, and returns whether the person agrees.
    Ask = Callable[[list[Any]], bool]


#: The lists of an answer, in the order in which people see them.
LISTS = ("questions", "parked_steps", "deferred_items", "unproven_items", "audits")
_FIELDS_OF_ITEM = ("plan_path", "step_anchor", "kind", "ordinal", "text")


def review(
    space: Workspace,
    plan: str | None,
    *,
    step: str = "",
    kind: str | None = None,
    ordinal: int | None = None,
) -> StateReview:
    """Return what waits for a person in one plan or in all, or at the named step or item."""
    data: Any = {name: [] for name in LISTS}
    if plan is not None or space.store.exists():
        data = state.review(space.store, plan)
    transcripts.name_in_review(space.repo, space.store, data)
    describe(data)
    _add_stopped(space, plan, data)
    if step:
        views.attempt(space.store, plan or "", step, 0)  # Refused if there is no such step.
        _keep(data, step, kind, ordinal)
    data |= {f"{name}_count": len(data[f"{name}_items"]) for name in ("deferred", "unproven")}
    data["parked_count"] = len(data["parked_steps"])
    _add_changes(space, data)
    return data  # type: ignore[no-any-return]


def _add_stopped(space: Workspace, plan: str | None, data: Any) -> None:
    """Steps that lost their worker, and runs that died: the next run goes on with them."""
    data["stale_steps"], data["died_runs"] = [], []
    if not space.store.exists():
        return
    for row, lost in reviews.claims(space.store):
        if lost is not None and plan in (None, row["plan_path"]):
            names = {"plan_path": row["plan_path"], "step_anchor": row["anchor"]}
            facts = {"step_title": row["title"], "claimed_by": row["claimed_by"], "stale": lost}
            data["stale_steps"].append({**names, **facts})
    data["died_runs"] = attempts.died(space.store, plan)
    for each in (*data["stale_steps"], *data["died_runs"]):
        name = plan_argument(each["plan_path"])
        each["implement_command"] = f"tugcode implement {name}"


def describe(data: Any) -> None:
    """Add the commands for each thing that waits, and the steps with the same cause."""
    _add_causes(data["parked_steps"])
    for name in LISTS:
        for each in data[name]:
            _add_commands(name, each)


def _keep(data: Any, step: str, kind: str | None, ordinal: int | None) -> None:
    """Keep only what belongs to the step or its substeps."""
    for name in LISTS:
        homes = ("step_anchor", "parent_anchor")
        data[name] = [e for e in data[name] if step in [e.get(home) for home in homes]]
        if kind is not None:
            wanted = (kind, ordinal)
            data[name] = [e for e in data[name] if (e.get("kind"), e.get("ordinal")) == wanted]


def _add_changes(space: Workspace, data: Any) -> None:
    """Add the title and the changes of each item's commit."""
    items = [*data["deferred_items"], *data["unproven_items"]]
    hashes = [each["commit"] for each in items if each["commit"]]
    if hashes:
        from tugtool.git import history

        found = history.changes(space.repo.root, hashes)
    for each in items:
        change = found.get(each["commit"]) if each["commit"] else None
        each["commit_title"] = change and change.title
        each["diffstat"] = change and _diffstat(change)


def where_commit(item: Mapping[str, Any]) -> str:
    """Say where the commit of an item is, if it is not in this clone."""
    machine = owners.machine_of(item.get("deferred_by") or "")
    return f"is on {machine}, not in this clone" if machine else "is not in this clone"


def _diffstat(change: CommitChange) -> StateReviewDeferredItemDiffstat:
    files = [{"path": path, "insertions": new, "deletions": old} for path, new, old in change.files]
    return {
        "files": files,  # type: ignore[typeddict-item]
        "insertions": sum(each[1] or 0 for each in change.files),
        "deletions": sum(each[2] or 0 for each in change.files),
    }


def _add_commands(name: str, each: Any) -> None:
    """Add the commands that show it, and those for yes and for no."""
    plan, anchor = plan_argument(each["plan_path"]), each["step_anchor"]
    look = f"tugcode review {plan}"
    this = f"--step {quoted(anchor)}"
    if "kind" in each:
        this += f" --kind {each['kind']} --ordinal {each['ordinal']}"
        each["accept_command"] = f"{look} --accept {this}"
        each["reject_command"] = reject_command(each)
    if name == "parked_steps":
        asked = _ASKS in each["reason"]
        each["retry_command"] = f"{look} --retry {this}" + (_ANSWER if asked else "")
    if name == "audits":
        each["implement_command"] = f"tugcode implement {plan}"
    each["show_command"] = f"{look} {this}"
    top = each.get("parent_anchor") or anchor
    each["transcript_command"] = None
    if each.get("transcripts") or name == "questions":
        each["transcript_command"] = transcripts.command(each["plan_path"], top)


def reject_command(item: Mapping[str, Any]) -> str:
    """The command that sends a waiting item back: `review` refuses if steps are built on it."""
    plan, anchor = plan_argument(item["plan_path"]), item["step_anchor"]
    if item["built_on"]:
        step = quoted(item["parent_anchor"] or anchor)
        return f'tugcode reopen {plan} {step} --force --reason "WHY"'
    which = f"--step {quoted(anchor)} --kind {item['kind']} --ordinal {item['ordinal']}"
    return f'tugcode review {plan} --reject {which} --note "WHY"'


#: In the reason of a step whose agent has asked something; behind the command that frees it.
_ASKS = "asks for a person"
_ANSWER = ' --note "YOUR ANSWER"'


def _add_causes(parked: list[Any]) -> None:
    """Add the steps of the plan that are parked for the same reason, itself included."""
    for each in parked:
        key = (each["plan_path"], each["cause"])
        same = [e["step_anchor"] for e in parked if (e["plan_path"], e["cause"]) == key]
        each["same_cause"] = same


def plans_waiting(space: Workspace) -> list[str]:
    """The plans of which something waits for a person."""
    if not space.store.exists():
        return []
    found = state.review(space.store, None)
    every = (each for name in LISTS for each in found[name])  # type: ignore[literal-required]
    return sorted({each["plan_path"] for each in every})


def accept_all(space: Workspace, plans: list[str], note: str | None, ask: Ask) -> StateReview:
    """Accept every item of these plans that waits for a person, once the person has agreed."""
    found = [state.review(space.store, plan) for plan in plans]
    listed: list[Any] = [i for each in found for i in each["deferred_items"]]
    listed += [i for each in found for i in each["unproven_items"]]
    by = space.person()
    confirmed = bool(listed) and ask(listed)
    accepted: list[Any] = []
    rest: list[Any] = []
    for plan in plans if confirmed else ():
        own = [each for each in listed if each["plan_path"] == plan]
        done, passed = reviews.accept_all(space.store, plan, own, by=by, note=note)
        accepted, rest = [*accepted, *done], [*rest, *passed]
    return {
        "plan_path": plans[0] if len(plans) == 1 else None,
        "accepted_all": True,
        "confirmed": confirmed,
        "by": by,
        "note": note,
        "items": [_short(each) for each in (accepted if confirmed else listed)],
        "passed_over": [_short(each) for each in rest],
    }


def _short(item: Any) -> Any:
    return {name: item[name] for name in _FIELDS_OF_ITEM}


def retry(
    space: Workspace, plan: str, step: str, note: str | None, ask: Ask
) -> tuple[StateReview, list[Issue]]:
    """Free the steps that were parked for one reason, after the person agreed. Add warnings."""
    parked = state.review(space.store, plan)["parked_steps"]
    chosen = _of_one_cause(plan, parked, step)
    by = space.person()
    confirmed = bool(chosen) and ask(chosen)
    freed, issues = [each["step_anchor"] for each in chosen], []
    if confirmed:
        listed = {each["step_anchor"]: each["parked_at"] for each in chosen}
        freed, unsaved = releases.retry(space.store, plan, listed, by=by, note=note)
        issues = _save(space, plan) if unsaved else []
    steps = [_parked(each) for each in chosen]
    data: StateReview = {
        "plan_path": plan,
        "retried": True,
        "confirmed": confirmed,
        "by": by,
        "note": note,
        "steps": [each for each in steps if each["step_anchor"] in freed],
        "passed_over": [each for each in steps if each["step_anchor"] not in freed],
    }
    return data, issues


def _of_one_cause(
    plan: str, parked: list[StateReviewParkedStep], step: str
) -> list[StateReviewParkedStep]:
    """Return the steps parked for the reason of `step`, or all if there is one reason."""
    causes = {each["cause"]: each["step_anchor"] for each in reversed(parked)}
    if step:
        wanted = [each["cause"] for each in parked if each["step_anchor"] == step]
        if not wanted:
            raise InvalidEntry(f"{step} is not parked", command="review")
        return [each for each in parked if each["cause"] in wanted]
    if len(causes) > 1:
        name = plan_argument(plan)
        ways = [f"tugcode review {name} --retry --step {quoted(each)}" for each in causes.values()]
        problem = f"steps are parked for {len(causes)} reasons; choose one by one of its steps"
        raise InvalidEntry("\n".join([problem, *reversed(ways)]), command="review")
    return parked


def _parked(step: StateReviewParkedStep) -> Any:
    names = ("step_anchor", "step_title", "reason", "parked_at")
    return {name: step[name] for name in names}  # type: ignore[literal-required]


def _save(space: Workspace, plan: str) -> list[Issue]:
    """Save the work of workers that lost a step. Return a warning for each that is not saved."""
    from tugtool.workflow.salvage import catch_up

    done = catch_up.catch_up(space.repo, space.store, plan, most=catch_up.MOST_PER_CLAIM)
    return [catch_up.warning(each) for each in done if each["problem"] is not None]


#: The most of a diff that is shown.
_MOST_DIFF, _MOST_DIFF_LINES = 400_000, 5_000


def recorded_change(space: Workspace, hash: str) -> dict[str, object]:
    """Return the diff of a commit that the record names; refuse any other commit."""
    from tugtool.git import command as git
    from tugtool.git import history, refs

    if not hash or hash not in _recorded(space):
        raise InvalidEntry(f'the record names no commit "{hash[:64]}"', hint="tugcode log")
    whole = git.attempt(
        *("show", "--no-ext-diff", "--no-textconv", "--no-color", "--format=", "--first-parent"),
        *("-m", "--patch", hash, "--"),
        cwd=space.repo.root,
        most_bytes=_MOST_DIFF,
        though_killed=True,
    )
    if whole.status > 0 and hash in refs.unknown(space.repo.root, [hash]):
        problem = f"commit {hash[:10]} is not in this clone: the machine that made it has it"
        raise InvalidEntry(problem, hint="git fetch --all")
    if whole.status > 0:
        whole.require(("show", hash))
    lines = whole.out[:_MOST_DIFF].split("\n")
    shown = "\n".join(lines[:_MOST_DIFF_LINES])
    title = history.changes(space.repo.root, [hash])[hash].title
    return {"hash": hash, "title": title, "diff": shown, "cut": shown != whole.out}


def _recorded(space: Workspace) -> set[object]:
    """The commits of steps, evidence, merges and saved work."""
    from tugtool.workflow.salvage import saved

    plans = state.show(space.store, archived=True)["plans"] if space.store.exists() else []
    known: set[object] = {plan["merged_commit"] for plan in plans}
    known |= {step["commit_hash"] for plan in plans for step in plan["steps"]}
    found = (item["evidence"] for plan in plans for item in plan["checklist_items"])
    known |= {evidence["commit"] for evidence in found if evidence}
    return known | {each["commit"] for each in saved.list_salvages(space.repo, None)["salvages"]}
