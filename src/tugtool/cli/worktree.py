"""The commands about worktrees: create, list, remove, cleanup, sync."""

from __future__ import annotations

from tugtool import files
from tugtool.cli.output import Answer, clean
from tugtool.cli.place import Place, earlier_work, said
from tugtool.errors import PlanInvalid, Usage
from tugtool.plan import catalog, fingerprint
from tugtool.state_errors import DatabaseError
from tugtool.store import sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tugtool.cli.parse import Call
    from tugtool.worktree.making import Order

    Data = dict[str, Any]

#: Options that only mean something with --claim.
_OF_CLAIM = ("step", "lease_duration", "wait", "holder_pid")


def worktree_create(call: Call) -> Answer:
    """Make a worktree, or take a free one; perhaps claim a step from it."""
    from tugtool.worktree import making

    extra = [key for key in _OF_CLAIM if key in call.values and not call.flag("claim")]
    if extra:
        raise Usage(f"--{extra[0].replace('_', '-')} goes with --claim", command=call.path)
    place = Place(call)
    order, issues = order_of(call, place)
    known = _is_recorded(place, order.file.key)
    data = making.create(place.repo, place.store, order)
    if not known:
        issues += earlier_work(place, order.file.key, but=str(data["branch_name"]))
    if call.flag("claim"):
        claim = _claim(call, place, data)
        data["claim"] = claim.data
        issues = [*issues, *map(dict, claim.issues)]
        if claim.data["claimed"]:
            data["reserved_until"] = None
    return place.backed_up(said(data, lambda: _created(data), issues))


def _is_recorded(place: Place, plan: str) -> bool:
    try:
        if not place.store.exists():
            return False
        with place.store.read(plan) as tx:
            return tx.first(sql.PLAN) is not None
    except DatabaseError:
        # Somebody is just making it; or it is broken, which whoever writes will say.
        return True


def order_of(call: Call, place: Place) -> tuple[Order, list[dict[str, object]]]:
    """What is to be made for the plan that was named; an invalid one is refused."""
    from tugtool.cli.plan import issues_of
    from tugtool.plan import parser
    from tugtool.worktree.making import Order

    file = catalog.resolve(place.repo, call.text("plan") or "", cwd=call.cwd)
    limit = call.number("max_bytes") or place.settings.number("plan.max_bytes")
    data = files.read(file.path, max_bytes=limit, raise_with="--max-bytes N")
    text = files.text(file.path, data)
    parsed = parser.parse(text)
    issues = issues_of(parsed, file.key, place.settings.word("plan.validation_level"))
    if any(issue["severity"] == "error" for issue in issues):
        raise PlanInvalid(file.key, diagnostics=issues)
    order = Order(
        file,
        parsed,
        text=text,
        hash=fingerprint.of(data),
        base=call.text("base"),
        new=call.flag("new"),
        commit_plan=call.flag("commit_plan"),
        request_id=call.text("request_id"),
        step=(call.text("step") or "").removeprefix("#") or None,
    )
    return order, issues


def _claim(call: Call, place: Place, made: Mapping[str, Any]) -> Answer:
    """The answer of `state claim` from the new worktree; a refusal takes that away again."""
    from tugtool.cli import parse, state
    from tugtool.worktree import undoing

    asked = parse.Call()
    asked.command, asked.cwd = call.command, call.cwd
    keys = (*_OF_CLAIM, "request_id")
    asked.values = {key: call.values[key] for key in keys if key in call.values}
    asked.values |= {"plan": [made["plan_path"]], "worktree": [made["worktree_path"]]}
    if made["resumes"] is not None:
        # That one or none: another step's work must not be mixed with what lies there.
        asked.values.setdefault("step", [made["resumes"]])
    try:
        return state.state_claim(asked)
    except BaseException:
        if not made["reused"]:
            undoing.discard(place.repo, place.store, made)
        raise


def _created(data: Mapping[str, Any]) -> str:
    verb = "reuses" if data["reused"] else "made"
    lines = [
        f"{verb} {data['worktree_path']}",
        f"branch {data['branch_name']} from {data['base_branch']}",
        f"{len(data['completed_steps'])} of {data['total_steps']} steps completed, "
        f"{len(data['ready_steps'])} ready",
    ]
    if data["resumes"] is not None:
        lines.append(f"uncommitted work on {data['resumes']} lies there, to go on with")
    text = "".join(clean(line) + "\n" for line in lines)
    if data["claim"] is not None:
        from tugtool.cli.state import claim_text

        text += claim_text(data["claim"])
    return text


def worktree_list(call: Call) -> Answer:
    """Show every worktree."""
    from tugtool.worktree import survey

    place = Place(call)
    data = survey.listed(place.repo, place.store)
    return Answer(data, lambda: _listing(data))


def _listing(data: Mapping[str, Any]) -> str:
    lines = []
    for tree in data["worktrees"]:
        lines += [str(tree["name"]), *(f"    {fact}" for fact in _facts(tree))]
    lines += [f"{each['branch_name']}: a branch without a worktree" for each in data["branches"]]
    if not lines:
        return "no worktrees; tugcode worktree create PLAN makes one\n"
    return "".join(clean(line) + "\n" for line in lines)


def _facts(tree: Mapping[str, Any]) -> list[str]:
    parted = "" if tree["ahead"] is None else f", {tree['ahead']} ahead, {tree['behind']} behind"
    lines = [f"{tree['branch_name']} from {tree['base_branch']}{parted}"]
    if tree["plan_path"]:
        lines.append(f"plan {tree['plan_path']}")
    if not tree["exists"]:
        lines.append("its directory is gone")
    elif tree["clean"]:
        lines.append("clean")
    else:
        number = tree["changed_files"]
        lines.append(f"{number} file{'s' * (number != 1)} not committed")
    for step in tree["held_steps"]:
        until = f"until {step['lease_expires_at']}" if step["lease"] == "live" else step["lease"]
        lines.append(f"holds {step['step_anchor']} of {step['plan_path']}, {until}")
    if tree["reserved_until"]:
        lines.append(f"reserved until {tree['reserved_until']}")
    return lines


def worktree_remove(call: Call) -> Answer:
    """Remove a worktree."""
    from tugtool.worktree import removing

    place = Place(call)
    name, force = call.text("name") or "", call.flag("force")
    data: Data = removing.remove(place.repo, place.store, name, cwd=call.cwd, force=force)
    saved = f"; its work is saved as {data['salvage_ref']}" if data["salvage_ref"] else ""
    return said(data, f"removed {data['worktree_path']}{saved}")


def worktree_cleanup(call: Call) -> Answer:
    """Remove what has landed."""
    from tugtool.worktree import cleaning

    place = Place(call)
    dry_run = call.flag("dry_run")
    data: Data = cleaning.cleanup(place.repo, place.store, cwd=call.cwd, dry_run=dry_run)
    return Answer(data, lambda: _cleaned(data))


def _cleaned(data: Mapping[str, Any]) -> str:
    verb = "would remove" if data["dry_run"] else "removed"
    lines = [f"{verb} {_title(each)}" for each in data["removed"]]
    lines += [f"kept {_title(each)}: {'; '.join(each['reasons'])}" for each in data["kept"]]
    return "".join(clean(line) + "\n" for line in lines) or "nothing to clean up\n"


def _title(each: Mapping[str, Any]) -> str:
    return str(each["worktree_path"] or f"the branch {each['branch_name']}")


def worktree_sync(call: Call) -> Answer:
    """Merge what the caller's steps depend on."""
    from tugtool.git_errors import MainWorktree
    from tugtool.worktree import survey, syncing

    place = Place(call)
    plan = survey.plan_at(place.store, place.owner) if call.text("plan") is None else None
    plan = plan or place.plan()
    if place.worktree == place.repo.root:
        raise MainWorktree(place.worktree, plan=plan)
    data: Data = syncing.sync(place.store, plan, at=place.worktree, everything=call.flag("all"))
    if data["up_to_date"]:
        return said(data, "nothing to merge")
    names = ", ".join(str(each["step_anchor"]) for each in data["merged"])
    return said(data, f"merged {names} into {data['branch_name']}")
