"""What happened, in words: one line for each event of the log."""

from __future__ import annotations

import os

from tugtool.cli.naming import short_name
from tugtool.cli.output import clean
from tugtool.errors import listing
from tugtool.plan import catalog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Event = Mapping[str, Any]

#: Why a claim could be taken over, by how the attempt before it ended.
_TAKEN = {
    "expired": "the lease had run out",
    "dead": "its process was gone",
    "superseded": "under a live lease",
}


def line(event: Event, *, root: str, several: bool = False) -> str:
    """`2026-02-23T12:00:00Z step-1 claimed by red (attempt 1)`."""
    at = f"{event['at'][:19]}Z"
    plan = [catalog.slug_of(os.path.basename(event["plan_path"]))] if several else []
    step = [event["step_anchor"]] if event["step_anchor"] else []
    return clean("  ".join([at, *plan, *step, words(event, root)]), 1 << 12) + "\n"


def words(event: Event, root: str) -> str:
    """What happened, in words; also of a kind that this version does not know."""
    kind = event["kind"]
    return (WORDS.get(kind) or _plain(kind.replace("_", " ")))(event, root)


def _by(event: Event, root: str) -> str:
    return f" by {short_name(event['actor'], root)}" if event["actor"] else ""


def _because(text: object) -> str:
    return f": {text}" if text else ""


def _plain(verb: str) -> Callable[[Event, str], str]:
    def told(event: Event, root: str) -> str:
        detail = event["detail"]
        why = detail.get("reason") or detail.get("note")
        return f"{verb}{_by(event, root)}{_because(why)}"

    return told


def _init(event: Event, root: str) -> str:
    return f"recorded: {event['detail']['steps']} steps, {event['detail']['items']} items"


def _claim(event: Event, root: str) -> str:
    detail = event["detail"]
    text = f"claimed{_by(event, root)} (attempt {event['attempt']})"
    before = detail["reclaimed_from"]
    if before == event["actor"] and detail["outcome"] == "superseded":
        text += ", who held it already"
    elif before is not None:
        text += f", taken over from {short_name(before, root)}: {_TAKEN[detail['outcome']]}"
    return text + (", and parked: too many claims without progress" if detail["parked"] else "")


def _heartbeat(event: Event, root: str) -> str:
    return f"sign of life{_by(event, root).replace(' by ', ' from ', 1)}"


def _update(event: Event, root: str) -> str:
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
    return f"{'note' if kind == 'note' else kind.replace('_', ' ')} left{_by(event, root)}"


def _complete(event: Event, root: str) -> str:
    detail = event["detail"]
    forced = f"; forced{_because(detail['forced'])}" if detail["forced"] else ""
    return f"completed{_by(event, root)}{_commit(detail)}{forced}"


def _commit(detail: Event) -> str:
    return f", commit {detail['commit'][:10]}" if detail["commit"] else ""


def _substep_completed(event: Event, root: str) -> str:
    detail = event["detail"]
    forced = f"; forced{_because(detail['reason'])}" if detail["reason"] else ""
    return f"completed, because {detail['because']}{_commit(detail)}{forced}"


def _release(event: Event, root: str) -> str:
    detail = event["detail"]
    parked = detail["parked"]
    verb = "failed and released" if "failed" in detail else "released"
    verb = "stopped and released" if "interrupted" in detail else verb
    why = _because(detail.get("failed"))
    return f"{verb}{_by(event, root)}{why}" + (f" and parked{_because(parked)}" if parked else "")


def _agent(event: Event, root: str) -> str:
    detail = event["detail"]
    tokens = "" if detail["tokens"] is None else f", {detail['tokens']} tokens"
    return f"{detail['role']} has answered{_by(event, root).replace(' by ', ' in ', 1)}{tokens}"


def _restore(event: Event, root: str) -> str:
    lost = event["detail"].get("lost") or []
    missing = f"; completed since and missing: {listing(lost)}" if lost else ""
    return f"restored from a backup{_by(event, root)}{missing}"


def _revise(event: Event, root: str) -> str:
    detail = event["detail"]
    kinds = ("added", "removed", "changed", "reopened")
    parts = [f"{listing(detail[kind])} {kind}" for kind in kinds if detail.get(kind)]
    return f"plan revised{_by(event, root)}{_because('; '.join(parts))}"


def _judged(verb: str) -> Callable[[Event, str], str]:
    def told(event: Event, root: str) -> str:
        detail, own = event["detail"], event["step_anchor"]
        items = listing([_item(list(each[:3]), own) for each in detail.get("judged") or []])
        return f"{items} {verb}{_by(event, root)}{_because(detail.get('note'))}".lstrip()

    return told


def _verify(event: Event, root: str) -> str:
    detail, own = event["detail"], event["step_anchor"]
    parts = [
        f"{listing([_item(list(each), own) for each in detail[outcome]])} {outcome}"
        for outcome in ("passed", "failed")
        if detail[outcome]
    ]
    return f"verified{_by(event, root)}: {'; '.join(parts)}"


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


def _salvage_prune(event: Event, root: str) -> str:
    return f"saved work dropped{_by(event, root)}: {event['detail']['salvage_ref']}"


def _reconcile(event: Event, root: str) -> str:
    detail = event["detail"]
    if detail["was"] == "completed":
        before = f" instead of {detail['previous'][:10]}" if detail["previous"] else ""
        return f"recorded as git shows{_commit(detail)}{before}"
    by = f" by {short_name(detail['completed_by'], root)}" if detail["completed_by"] else ""
    return f"completed{by}, as git shows{_commit(detail)}"


def _raise_attempt(event: Event, root: str) -> str:
    return f"attempts go on after {event['attempt']}, which git knows"


def _merge(event: Event, root: str) -> str:
    detail = event["detail"]
    squashed = " and squashed" if detail["squashed"] else ""
    return f"merged{squashed}{_by(event, root)}{_commit(detail)}: {listing(detail['branches'])}"


WORDS: dict[str, Callable[[Event, str], str]] = {
    "init": _init,
    "claim": _claim,
    "start": _plain("started"),
    "heartbeat": _heartbeat,
    "update": _update,
    "artifact": _artifact,
    "complete": _complete,
    "substep_completed": _substep_completed,
    "substep_reopened": _plain("no longer completed: an item was reopened"),
    "agent": _agent,
    "release": _release,
    "reset": _plain("reset"),
    "reset_substep": _plain("reset to not started"),
    "unpark": _plain("unparked"),
    "reopen": _plain("reopened"),
    "pause": _plain("paused"),
    "resume": _plain("resumed"),
    "revise": _revise,
    "restore": _restore,
    "review_accepted": _judged("accepted"),
    "review_rejected": _judged("rejected"),
    "verify": _verify,
    "archive": _plain("archived"),
    "unarchive": _plain("brought back from the archive"),
    "import": _plain("imported"),
    "reconcile": _reconcile,
    "raise_attempt": _raise_attempt,
    "recount": _plain("counts put right"),
    "merge": _merge,
    "salvage": _salvage,
    "salvage_prune": _salvage_prune,
    "worktree_create": _worktree("worktree made"),
    "worktree_reserve": _worktree("worktree handed out again"),
    "worktree_remove": _worktree("worktree removed"),
}
