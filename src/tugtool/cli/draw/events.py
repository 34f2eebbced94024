"""Events in words: the log, in full or in brief; evidence; incidents of a report."""

from __future__ import annotations

import os

from tugtool.cli.draw import canvas as canvases
from tugtool.cli.output import short_name
from tugtool.errors import listing, plan_name
from tugtool.state import completion
from tugtool.system.text import many

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from tugtool.cli.draw.canvas import Canvas, Span
    from tugtool.schemas import ReportIncident

    Event = Mapping[str, Any]


#: Outcome of the attempt before -> why its claim was taken over.
_TAKEN = {
    "expired": "the lease had run out",
    "dead": "its process was gone",
    "superseded": "under a live lease",
}


#: In a narrower terminal, folded lines begin further left.
_WIDE = 60
#: Event -> the sign for the step after it.
_SIGNS = {"claim": "work", "complete": "completed", "unpark": "ready", "reset": "ready"}
_SIGNS |= {"reopen": "ready", "reconcile": "completed"}
#: What every attempt is full of: told in the line of what came of it.
_SMALL = (
    *("start", "heartbeat", "agent", "agent_retry", "artifact", "update", "verify"),
    "substep_completed",
)
#: What comes of an attempt.
_ENDS = ("complete", "release", "reset", "reopen", "reconcile")


class Log:
    """Events, oldest first, as lines below their day."""

    def __init__(self, canvas: Canvas, *, root: str, several: bool, every: bool) -> None:
        self.canvas, self._root, self._several, self._every = canvas, root, several, every
        self._day = ""
        #: Plan and step -> the small events that no line has summed up yet.
        self._small: dict[tuple[str, str], list[Event]] = {}
        self._holders: dict[tuple[str, str], str] = {}

    def add(self, event: Event) -> None:
        """Write the event's line, or keep a small event for the line of the result."""
        anchor, kind = event["step_anchor"], event["kind"]
        if self._every or not anchor:
            self._line(event, format_event(event, self._root), "")
            return
        key = (event["plan_path"], anchor)
        if kind in _SMALL:
            self._small.setdefault(key, []).append(event)
        text = self._short(event)
        if kind == "claim":
            self._holders[key] = event["actor"]
        if text:
            before = brief(self._before(*key)) if kind in (*_ENDS, "claim") else ""
            # What was left of the attempt before is not of this one.
            lead = "until then: " if before and kind == "claim" else ""
            self._line(event, text, lead + before)

    def _short(self, event: Event) -> str:
        """The event in brief; empty if it is not important."""
        detail, kind = event["detail"], event["kind"]
        if kind == "update":
            items = [each for each in detail["items"] if each[-1] == "deferred"]
            if items or detail.get("forced"):
                return _update({**event, "detail": {**detail, "items": items}}, self._root)
        if kind == "verify" and detail["failed"]:
            return _verify({**event, "detail": {**detail, "passed": []}}, self._root)
        if kind == "salvage":
            return f"uncommitted work of attempt {event['attempt']} saved"
        if kind in _SMALL:
            return ""
        text = format_event(event, self._root)
        holder = self._holders.get((event["plan_path"], event["step_anchor"]))
        if kind in _ENDS and event["actor"] == holder:
            # The line of the claim names the worker.
            text = text.replace(_by(event, self._root), "", 1)
        return text

    def end(self) -> None:
        """Write the remaining small events, most likely of steps at work."""
        groups = sorted(self._small.values(), key=lambda group: str(group[-1]["at"]))
        for group in groups:
            self._write_rest(group)
        self._small.clear()

    def _write_rest(self, group: list[Event]) -> None:
        """Other lines may be later than these events, so this line has no time."""
        said = brief(group)
        if said:
            self._line(group[-1], f"so far: {said}", "", timed=False)

    def _before(self, plan: str, anchor: str) -> list[Event]:
        """The small events of the step and of its substeps."""
        own = [key for key in self._small if key[0] == plan and _is_of(key[1], anchor)]
        found = [event for key in own for event in self._small.pop(key)]
        return sorted(found, key=lambda event: str(event["at"]))

    def _line(self, event: Event, text: str, before: str, *, timed: bool = True) -> None:
        canvas, said = self.canvas, self.canvas.said
        day, time = canvases.local(event["at"]).split(" ") if timed else (self._day, " " * 8)
        if day != self._day:
            self._day = day
            canvas.write(("bold", day))
        standing = _SIGNS.get(event["kind"], "")
        if event["kind"] == "release" and event["detail"]["parked"]:
            standing = "parked"
        style, sign = canvas.sign(standing) if standing else ("", " ")
        names = [plan_name(event["plan_path"])] if self._several else []
        names += [event["step_anchor"]] if event["step_anchor"] else []
        lead = said("  ".join(names))
        canvas.write(
            ("dim", f"  {time} "),
            (style, sign),
            ("bold", f" {lead}{'  ' if lead else ''}"),
            ("", said(text)),
            ("dim", f" ({before})" if before else ""),
            hang=13 if canvas.width >= _WIDE else 4,
        )


def _is_of(anchor: str, step: str) -> bool:
    return anchor == step or anchor.startswith(f"{step}-")


def brief(events: Sequence[Event]) -> str:
    """Small events in a few words: `architect, 2x coder, 3,600 tokens, 4 items completed`."""
    of = {kind: [e["detail"] for e in events if e["kind"] == kind] for kind in _SMALL}
    roles = [detail["role"] for detail in of["agent"]]
    counted = [(role, roles.count(role)) for role in dict.fromkeys(roles)]
    parts = [role if times == 1 else f"{times}x {role}" for role, times in counted]
    parts += [many(len(of["agent_retry"]), "failed try", "failed tries")] * bool(of["agent_retry"])
    tokens = sum(detail["tokens"] or 0 for detail in of["agent"])
    parts += [f"{tokens:,} tokens"] if tokens else []
    items = {tuple(e[:3]) for d in of["update"] for e in d["items"] if e[-1] == "completed"}
    items |= {tuple(each) for detail in of["verify"] for each in detail["passed"]}
    parts += [f"{many(len(items), 'item')} completed"] if items else []
    return ", ".join(parts) or ("started" if of["start"] else "")


def format_event(event: Event, root: str) -> str:
    """The event in words; works for unknown kinds too."""
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
    steps, items = event["detail"]["steps"], event["detail"]["items"]
    return f"recorded: {many(steps, 'step')}, {many(items, 'item')}"


def _claim(event: Event, root: str) -> str:
    detail = event["detail"]
    text = f"claimed{_by(event, root)} (attempt {event['attempt']})"
    before = detail["reclaimed_from"]
    if before == event["actor"] and detail["outcome"] == "superseded":
        text += ", who held it already"
    elif before is not None:
        text += f", taken over from {short_name(before, root)}: {_TAKEN[detail['outcome']]}"
    return text + (", and parked: too many claims without progress" if detail["parked"] else "")


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
    parked, failed = detail["parked"], detail.get("failed")
    verb = "failed and released" if "failed" in detail else "released"
    verb = "stopped and released" if "interrupted" in detail else verb
    if failed and parked and failed in parked:
        return f"failed and parked{_by(event, root)}{_because(parked)}"
    why = _because(failed)
    return f"{verb}{_by(event, root)}{why}" + (f" and parked{_because(parked)}" if parked else "")


def _agent(event: Event, root: str) -> str:
    detail = event["detail"]
    tokens = "" if detail["tokens"] is None else f", {detail['tokens']:,} tokens"
    where = _by(event, root).replace(" by ", " in ", 1)
    names = [os.path.basename(path) for path in detail.get("transcripts", ())]
    kept = f"; transcript {listing(names)}" if names else ""
    return f"{detail['role']} has answered{where}{tokens}{kept}"


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


def _reconcile(event: Event, root: str) -> str:
    detail = event["detail"]
    if detail["was"] == "completed":
        before = f" instead of {detail['previous'][:10]}" if detail["previous"] else ""
        return f"recorded as git shows{_commit(detail)}{before}"
    by = f" by {short_name(detail['completed_by'], root)}" if detail["completed_by"] else ""
    return f"completed{by}, as git shows{_commit(detail)}"


def _merge(event: Event, root: str) -> str:
    detail = event["detail"]
    squashed = " and squashed" if detail["squashed"] else ""
    return f"merged{squashed}{_by(event, root)}{_commit(detail)}: {listing(detail['branches'])}"


def _run(event: Event, root: str) -> str:
    detail = event["detail"]
    said = {
        "started": "a run began",
        "cooling_down": "the agents failed alike, and the run waits",
        "cooled_down": "the agents answer again, and the run goes on",
    }
    ended = f"the run ended: {str(detail.get('status')).replace('_', ' ')}"
    return f"{said.get(detail['event'], ended)}{_because(detail.get('reason'))}"


#: The length of a hash in text.
_SHOWN_OF_HASH = 7


def evidence_lines(evidence: Event) -> Iterator[Span]:
    """The commands and their results, marked if stale; each line with its style."""
    judged = evidence["judged"]
    if judged is not None:
        reason = f": {judged['reason']}" if judged["reason"] else ""
        yield "dim", f"judged by the {judged['role']}{reason}"
        return
    ran = "; ".join(
        f"`{each['command']}` {completion.ended(each)}" for each in evidence["commands"]
    )
    verb, style = ("verified", "dim") if evidence["passed"] else ("failed", "wrong")
    changes = " with uncommitted changes" if evidence["dirty"] else ""
    yield style, f"{verb}: {ran}, at {short_commit(evidence['commit'])}{changes}"
    if evidence["stale"]:
        now = short_commit(evidence["worktree_commit"])
        yield "you", f"stale: {verb} at {short_commit(evidence['commit'])}, now at {now}"


def short_commit(commit: str | None) -> str:
    """The short form of a hash."""
    return commit[:_SHOWN_OF_HASH] if commit else "no commit"


WORDS: dict[str, Callable[[Event, str], str]] = {
    "init": _init,
    "claim": _claim,
    "start": _plain("started"),
    "heartbeat": lambda e, root: f"sign of life{_by(e, root).replace(' by ', ' from ', 1)}",
    "clock_back": _plain("claimed by a clock that was ahead: its lease lasts from now on"),
    "move": lambda e, root: f"moved from {e['detail']['name']}{_by(e, root)}",
    "update": _update,
    "artifact": _artifact,
    "complete": _complete,
    "substep_completed": _substep_completed,
    "substep_reopened": _plain("no longer completed: an item was reopened"),
    "agent": _agent,
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
    "verify": _verify,
    "archive": _plain("archived"),
    "unarchive": _plain("brought back from the archive"),
    "import": _plain("imported"),
    "reconcile": _reconcile,
    "raise_attempt": lambda e, root: f"attempts go on after {e['attempt']}, which git knows",
    "recount": _plain("counts put right"),
    "merge": _merge,
    "salvage": _salvage,
    "salvage_prune": lambda e, root: (
        f"saved work dropped{_by(e, root)}: {e['detail']['salvage_ref']}"
    ),
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
