"""Events and incidents in sentences: for the log, the report and the server."""

from __future__ import annotations

from tugtool.errors import listing, plan_argument
from tugtool.system import os
from tugtool.system.files import short_name
from tugtool.system.text import many

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from tugtool.schemas import ReportIncident

    Event = Mapping[str, Any]


#: Outcome of the attempt before -> why its claim was taken over.
_TAKEN = {
    "expired": "the lease had run out",
    "dead": "its process was gone",
    "superseded": "under a live lease",
}


def format_event(event: Event, root: str) -> str:
    """The event in words; works for unknown kinds too."""
    kind = event["kind"]
    return (WORDS.get(kind) or _plain(kind.replace("_", " ")))(event, root)


def by(event: Event, root: str) -> str:
    """` by red`; empty if the event names no actor."""
    return f" by {short_name(event['actor'], root)}" if event["actor"] else ""


def _because(text: object) -> str:
    return f": {text}" if text else ""


def _plain(verb: str) -> Callable[[Event, str], str]:
    def told(event: Event, root: str) -> str:
        detail = event["detail"]
        why = detail.get("reason") or detail.get("note")
        return f"{verb}{by(event, root)}{_because(why)}"

    return told


def _init(event: Event, root: str) -> str:
    steps, items = event["detail"]["steps"], event["detail"]["items"]
    return f"recorded: {many(steps, 'step')}, {many(items, 'item')}"


def _claim(event: Event, root: str) -> str:
    detail = event["detail"]
    text = f"claimed{by(event, root)} (attempt {event['attempt']})"
    before = detail["reclaimed_from"]
    if before == event["actor"] and detail["outcome"] == "superseded":
        text += ", who held it already"
    elif before is not None:
        text += f", taken over from {short_name(before, root)}: {_TAKEN[detail['outcome']]}"
    return text + (", and parked: too many claims without progress" if detail["parked"] else "")


def update_sentence(event: Event, root: str) -> str:
    """The changed items, with their reasons."""
    detail, own = event["detail"], event["step_anchor"]
    reasons = {tuple(key): why for *key, why in detail.get("reasons") or []}
    groups: dict[str, list[str]] = {}
    for *key, status in detail["items"]:
        why = reasons.pop(tuple(key), None)
        groups.setdefault(f"{status}{_because(why)}", []).append(_item(key, own))
    parts = [f"{listing(names)} {status}" for status, names in groups.items()]
    parts += [f"reason of {_item(list(key), own)}{_because(why)}" for key, why in reasons.items()]
    forced = f"; forced{_because(detail['forced'])}" if detail.get("forced") else ""
    return ("; ".join(parts) or "update without a change") + forced


def _item(key: list[Any], own: str) -> str:
    step, kind, ordinal = key
    return f"{kind} {ordinal}" if step == own else f"{step} {kind} {ordinal}"


def _artifact(event: Event, root: str) -> str:
    kind = event["detail"]["artifact_kind"]
    return f"{'note' if kind == 'note' else kind.replace('_', ' ')} left{by(event, root)}"


def _complete(event: Event, root: str) -> str:
    detail = event["detail"]
    forced = f"; forced{_because(detail['forced'])}" if detail["forced"] else ""
    return f"completed{by(event, root)}{_commit(detail)}{forced}"


def _commit(detail: Event) -> str:
    return f", commit {detail['commit'][:10]}" if detail["commit"] else ""


def _substep_completed(event: Event, root: str) -> str:
    detail = event["detail"]
    forced = f"; forced{_because(detail['reason'])}" if detail["reason"] else ""
    return f"completed, because {detail['because']}{_commit(detail)}{forced}"


def _release(event: Event, root: str) -> str:
    detail = event["detail"]
    parked, failed = detail["parked"], detail.get("failed")
    verb = "failed and released" if "failed" in detail else "released"
    verb = "stopped and released" if "interrupted" in detail else verb
    if failed and parked and failed in parked:
        return f"failed and parked{by(event, root)}{_because(parked)}"
    why = _because(failed or detail.get("reason"))
    return f"{verb}{by(event, root)}{why}" + (f" and parked{_because(parked)}" if parked else "")


def _agent(event: Event, root: str) -> str:
    detail = event["detail"]
    tokens = "" if detail["tokens"] is None else f", {detail['tokens']:,} tokens"
    where = by(event, root).replace(" by ", " in ", 1)
    names = [os.path.basename(path) for path in detail.get("transcripts", ())]
    kept = f"; transcript {listing(names)}" if names else ""
    return f"{detail['role']} has answered{where}{tokens}{kept}"


def _restore(event: Event, root: str) -> str:
    lost = event["detail"].get("lost") or []
    missing = f"; completed since and missing: {listing(lost)}" if lost else ""
    return f"restored from a backup{by(event, root)}{missing}"


def _revise(event: Event, root: str) -> str:
    detail = event["detail"]
    kinds = ("added", "removed", "changed", "reopened")
    parts = [f"{listing(detail[kind])} {kind}" for kind in kinds if detail.get(kind)]
    return f"plan revised{by(event, root)}{_because('; '.join(parts))}"


def _judged(verb: str) -> Callable[[Event, str], str]:
    def told(event: Event, root: str) -> str:
        detail, own = event["detail"], event["step_anchor"]
        items = listing([_item(list(each[:3]), own) for each in detail.get("judged") or []])
        return f"{items} {verb}{by(event, root)}{_because(detail.get('note'))}".lstrip()

    return told


def verify_sentence(event: Event, root: str) -> str:
    """The checkpoints that passed and failed."""
    detail, own = event["detail"], event["step_anchor"]
    parts = [
        f"{listing([_item(list(each), own) for each in detail[outcome]])} {outcome}"
        for outcome in ("passed", "failed")
        if detail[outcome]
    ]
    return f"verified{by(event, root)}: {'; '.join(parts)}"


def _worktree(verb: str) -> Callable[[Event, str], str]:
    def told(event: Event, root: str) -> str:
        detail = event["detail"]
        branch = f", branch {detail['branch']}" if detail.get("branch") else ""
        base = f" from {detail['base']}" if detail.get("base") else ""
        saved = f"; saved as {detail['salvage_ref']}" if detail.get("salvage_ref") else ""
        return f"{verb}{_because(short_name(event['actor'], root))}{branch}{base}{saved}"

    return told


def _salvage(event: Event, root: str) -> str:
    ref = event["detail"]["salvage_ref"]
    whose = f"uncommitted work of {short_name(event['actor'], root)}"
    return f"{whose} (attempt {event['attempt']}) saved as {ref}"


def _reconcile(event: Event, root: str) -> str:
    detail = event["detail"]
    if detail["was"] == "completed":
        before = f" instead of {detail['previous'][:10]}" if detail["previous"] else ""
        return f"recorded as git shows{_commit(detail)}{before}"
    by = f" by {short_name(detail['completed_by'], root)}" if detail["completed_by"] else ""
    return f"completed{by}, as git shows{_commit(detail)}"


def unpublished(data: Mapping[str, Any]) -> list[str]:
    """Sentences about steps that other machines have completed and not pushed."""
    return [
        f"the commit of {each['step_anchor']} is on {each['worktree'].partition(':')[0]} alone; "
        "there: tugcode worktree publish"
        for each in data.get("unpublished_steps", ())
    ]


def of_push(data: Mapping[str, Any]) -> list[str]:
    """The line of `merge` about the remote: it has the merge, or does not."""
    base = data["base_branch"]
    if data.get("pushed"):
        has = f"the remote has {base} already"
        return [has if data.get("pushed_before") else f"pushed {base}"]
    if "unpushed_to" not in data:
        return []
    then = f"tugcode merge {plan_argument(data['plan_path'])} --push"
    return [f"{data['unpushed_to']} does not have it; next: {then}"]


def unpushed(merge: Mapping[str, Any]) -> str:
    """A merge that is on one machine alone, which is named unless it is this one."""
    from tugtool.store.owners import machine_of  # Only where commits travel by a remote.

    machine = machine_of(merge["by"] or "")
    return f"merged {f'on {machine}' if machine else 'here'}, not pushed"


def _published(event: Event) -> str:
    return "published" if event["step_anchor"] else f"pushed {event['detail']['branch']}"


def _merge(event: Event, root: str) -> str:
    detail = event["detail"]
    squashed = " and squashed" if detail["squashed"] else ""
    return f"merged{squashed}{by(event, root)}{_commit(detail)}: {listing(detail['branches'])}"


def _run(event: Event, root: str) -> str:
    detail = event["detail"]
    said = {
        "started": "a run began",
        "cooling_down": "the agents failed alike, and the run waits",
        "cooled_down": "the agents answer again, and the run goes on",
        "changed_outside": "something outside of the worktrees was changed",
    }
    ended = f"the run ended: {str(detail.get('status')).replace('_', ' ')}"
    return f"{said.get(detail['event'], ended)}{_because(detail.get('reason'))}"


WORDS: dict[str, Callable[[Event, str], str]] = {
    "init": _init,
    "claim": _claim,
    "start": _plain("started"),
    "heartbeat": lambda e, root: f"sign of life{by(e, root).replace(' by ', ' from ', 1)}",
    "clock_back": _plain("claimed by a clock that was ahead: its lease lasts from now on"),
    "move": lambda e, root: f"moved from {e['detail']['name']}{by(e, root)}",
    "update": update_sentence,
    "artifact": _artifact,
    "complete": _complete,
    "substep_completed": _substep_completed,
    "substep_reopened": _plain("no longer completed: an item was reopened"),
    "agent": _agent,
    "role": lambda e, root: (
        f"{e['detail']['role']} at work{by(e, root).replace(' by ', ' in ', 1)}"
    ),
    "agent_retry": lambda e, root: (
        f"{e['detail']['role']} failed and is tried again{_because(e['detail']['reason'])}"
    ),
    "release": _release,
    "reset": _plain("reset"),
    "reset_substep": _plain("reset to not started"),
    "unpark": _plain("unparked"),
    "reopen": _plain("reopened"),
    "pause": _plain("paused"),
    "resume": _plain("resumed"),
    "revise": _revise,
    "restore": _restore,
    "run": _run,
    "review_accepted": _judged("accepted"),
    "review_rejected": _judged("rejected"),
    "verify": verify_sentence,
    "archive": _plain("archived"),
    "unarchive": _plain("brought back from the archive"),
    "import": _plain("imported"),
    "reconcile": _reconcile,
    "raise_attempt": lambda e, root: f"attempts go on after {e['attempt']}, which git knows",
    "recount": _plain("counts put right"),
    "merge": _merge,
    "salvage": _salvage,
    "salvage_prune": lambda e, root: (
        f"saved work dropped{by(e, root)}: {e['detail']['salvage_ref']}"
    ),
    "publish": lambda e, root: f"{_published(e)}{by(e, root)}{_commit(e['detail'])}",
    "worktree_create": _worktree("worktree made"),
    "worktree_reserve": _worktree("worktree handed out again"),
    "worktree_remove": _worktree("worktree removed"),
}


def incidents(found: Sequence[ReportIncident], root: str) -> list[str]:
    """The incidents of a step and their repairs, in words; the same sentence only once."""
    same: dict[str, list[int | None]] = {}
    for each in found:
        same.setdefault(_incident(each, root), []).append(each["attempt"])
    return [_counted(said, numbers) for said, numbers in same.items()]


def _counted(said: str, numbers: Sequence[int | None]) -> str:
    known = [str(each) for each in dict.fromkeys(numbers) if each]
    which = f"attempt{'s' * (len(known) > 1)} {listing(known)}: " if known else ""
    return f"{which}{said}" + (f" ({len(numbers)} times)" if len(numbers) > 1 else "")


def _incident(each: ReportIncident, root: str) -> str:
    who = short_name(each["actor"], root) if each["actor"] else "nobody"
    what, reason = each["what"], each["reason"]
    if what.startswith("taken_over_"):
        why = _TAKEN[what.removeprefix("taken_over_")]
        if reason == each["actor"]:
            return f"a later run went on with it in {who}: {why}"
        return f"{who} took it over from {short_name(reason or '', root)}: {why}"
    if what == "checkpoint_failed":
        return f"a checkpoint failed: {reason or 'one that the plan no longer has'}"
    if what == "salvage":
        return f"uncommitted work of {who} is saved as {each['salvage_ref']}"
    return _INCIDENTS[what].format(who=who) + _because(reason)


_INCIDENTS = {
    "failed": "failed in {who}",
    "agent_failed": "an agent failed in {who} and was tried again",
    "stopped": "{who} was stopped, and gave the step back",
    "released": "{who} gave the step back",
    "parked": "parked",
    "recovery": "recovered",
    "escalation": "put to a person",
    "revised": "the reviewer wanted changes",
    "cooling_down": "the agents failed alike, and the run waited",
    "changed_outside": "something outside of the worktrees was changed",
    "cooled_down": "the agents answered again, and the run went on",
    "reset": "{who} took the step back, to be done again",
    "unpark": "{who} let it be tried again",
    "reopen": "{who} sent it back to be done again",
    "restore": "the record was restored from a backup by {who}",
    "reconcile": "completed as git shows, by {who}",
    "clock_back": "claimed by a clock that was ahead; its lease was judged anew",
    "review_rejected": "{who} rejected it",
    "salvage_prune": "{who} dropped its saved work",
}


def drift(agreed: str, now: str | None) -> list[str]:
    """The sentences about a plan file that differs from the agreed text."""
    return [
        f"Plan file has {'been modified' if now else 'gone'} since state was initialized.",
        f"State tracks execution of the original plan (hash: {agreed}).",
        f"Current file hash: {now or 'none, it cannot be read'}",
    ]
