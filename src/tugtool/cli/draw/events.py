"""The lines of the log, in full or in brief, and of evidence."""

from __future__ import annotations

from tugtool.cli.draw import canvas as canvases
from tugtool.errors import plan_name
from tugtool.state import completion
from tugtool.system.text import many
from tugtool.workflow import sentences

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from tugtool.cli.draw.canvas import Canvas, Span

    Event = Mapping[str, Any]


#: In a narrower terminal, folded lines begin further left.
_WIDE = 60
#: Event -> the sign for the step after it.
_SIGNS = {"claim": "work", "complete": "completed", "unpark": "ready", "reset": "ready"}
_SIGNS |= {"reopen": "ready", "reconcile": "completed"}
#: What every attempt is full of: told in the line of what came of it.
_SMALL = (
    *("start", "heartbeat", "agent", "agent_retry", "role", "artifact", "update", "verify"),
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
            self._line(event, sentences.format_event(event, self._root), "")
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
                return sentences.update_sentence(
                    {**event, "detail": {**detail, "items": items}}, self._root
                )
        if kind == "verify" and detail["failed"]:
            return sentences.verify_sentence(
                {**event, "detail": {**detail, "passed": []}}, self._root
            )
        if kind == "salvage":
            return f"uncommitted work of attempt {event['attempt']} saved"
        if kind in _SMALL:
            return ""
        text = sentences.format_event(event, self._root)
        holder = self._holders.get((event["plan_path"], event["step_anchor"]))
        if kind in _ENDS and event["actor"] == holder:
            # The line of the claim names the worker.
            text = text.replace(sentences.by(event, self._root), "", 1)
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
