"""The words and actions of the page: the terminal's signs and words, actions with their commands.

The page has no rules of its own. Which action a step allows, what the action does, and the
command that does the same are told here.
"""

from __future__ import annotations

from typing import NamedTuple

from tugtool import __version__, errors
from tugtool.cli.draw.canvas import COUNTED, Glyphs
from tugtool.cli.draw.plan import sign_of
from tugtool.cli.draw.status import NEEDS
from tugtool.errors.server import RoleTooSmall
from tugtool.state import views
from tugtool.state.standings import STANDINGS
from tugtool.system import os, text
from tugtool.workflow.timeline import SIGNS_OF_LIFE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from tugtool.server.served import ServedWorkspace

    Values = Mapping[str, object]
    Event = Mapping[str, Any]


#: Standing of a step -> its word; those of the terminal, and two for completed steps.
WORDS = {"completed": "completed", "deferred": "for you"}
_HELD = ("at_work", "question", "stale")
#: Status of an item -> its box, as the terminal draws it.
BOXES = {"open": "[ ]", "in_progress": "[ ]", "completed": "[x]", "deferred": "[~]"}
#: The most events that a summary counts.
_MOST_COUNTED = 100_000


class Action(NamedTuple):
    """Something that an operator may do from the page."""

    name: str
    #: `plan`, `step`, `item` or `parked`: what it is done to.
    of: str
    #: The standings of a step, or `paused` or `running` of a plan, in which it is offered.
    when: tuple[str, ...]
    button: str
    title: str
    #: What will happen.
    what: str
    path: str
    #: `required`, `optional` or `none`.
    reason: str
    #: The command that does the same; names in braces are filled in.
    command: str
    #: Fixed fields of the request, and the field that takes the reason.
    fields: Mapping[str, object] = {}
    reason_field: str = "reason"
    #: True if it takes something away.
    severe: bool = False


ACTIONS = (
    Action(
        *("pause", "plan", ("running",), "Pause…", "Pause {plan}"),
        "Workers may finish the steps that they hold. No new step is handed out until the plan "
        "is resumed.",
        *("state/pause", "required", "tugcode pause {plan} --reason {reason}"),
    ),
    Action(
        *("resume", "plan", ("paused",), "Resume…", "Resume {plan}"),
        "Steps are handed out again.",
        *("state/resume", "optional", "tugcode resume {plan}"),
    ),
    Action(
        *("release", "step", _HELD, "Release…", "Release {step}"),
        "The step goes back to be claimed by any worker. Completed items stay completed, the "
        "others are open. Its present worker is told to stop; its uncommitted work is saved.",
        *("state/release", "required"),
        "tugcode release {plan} {step} --force --reason {reason}",
        fields={"force": True},
        severe=True,
    ),
    Action(
        *("reset", "step", (*_HELD, "parked"), "Reset…", "Reset {step}"),
        "The step is taken from its worker, or freed if it is parked, and can be claimed again. "
        "The count of attempts without progress begins again; uncommitted work is saved.",
        *("state/reset", "required", "tugcode reset {plan} {step} --reason {reason}"),
        severe=True,
    ),
    Action(
        *("park", "step", _HELD, "Park…", "Park {step}"),
        "The step is taken from its worker and waits for a person. No worker gets it before.",
        *("state/release", "required"),
        "tugcode release {plan} {step} --force --park --reason {reason}",
        fields={"force": True, "park": True},
        severe=True,
    ),
    Action(
        *("reopen", "step", ("completed", "deferred"), "Reopen…", "Reopen {step}"),
        "The completed step has to be done again, and its items are open. It is refused while a "
        "step that builds on it is claimed or completed.",
        *("state/reopen", "required", "tugcode reopen {plan} {step} --reason {reason}"),
        severe=True,
    ),
    Action(
        *("accept", "item", ("waiting",), "Accept", "Accept {kind} {ordinal} of {step}"),
        "The item counts as completed, in your name.",
        *("state/review", "optional"),
        "tugcode review {plan} --accept --step {step} --kind {kind} --ordinal {ordinal}",
        fields={"accept": True},
        reason_field="note",
    ),
    Action(
        *("reject", "item", ("waiting",), "Reject…", "Reject {kind} {ordinal} of {step}"),
        "The item is open again, and your note is for the next worker. A completed step is done "
        "again.",
        *("state/review", "required"),
        "tugcode review {plan} --reject --step {step} --kind {kind} --ordinal {ordinal} "
        "--note {reason}",
        fields={"reject": True},
        reason_field="note",
        severe=True,
    ),
    Action(
        *("retry", "parked", ("parked",), "Retry…", "Free {step}"),
        "The step, and all steps of the plan that were parked for the same reason, can be claimed "
        "again. Your note is for the next worker.",
        *("state/review", "optional"),
        "tugcode review {plan} --retry --step {step} --yes",
        fields={"retry": True, "yes": True},
        reason_field="note",
    ),
)
#: The option that a reason becomes, where an action may do without one.
_OPTIONAL_REASON = {"resume": " --reason {reason}", "accept": " --note {reason}"}
_OPTIONAL_REASON["retry"] = " --note {reason}"
#: How to get at the uncommitted work of an attempt.
_SALVAGE = (
    "tugcode worktree salvage show {ref} --patch",
    "tugcode worktree salvage apply {ref}",
)


def words(space: ServedWorkspace, _: Values) -> Mapping[str, object]:
    """All that the page says of its own accord."""
    return {
        "server": __version__,
        "you": space.caller.name or space.person(),
        "repository": os.path.basename(space.repo.root),
        "root": space.repo.root,
        "standings": {name: _shown(name) for name in STANDINGS},
        "boxes": BOXES,
        "needs": {name: list(said) for name, said in NEEDS.items()},
        "actions": [
            {**each._asdict(), "with_reason": _OPTIONAL_REASON.get(each.name, "")}
            for each in ACTIONS
        ],
        "salvage": list(_SALVAGE),
        "signs_of_life": list(SIGNS_OF_LIFE),
    }


def _shown(standing: str) -> Mapping[str, str]:
    """The sign and the word of a standing, as the terminal has them."""
    sign = sign_of(standing)
    return {"sign": getattr(Glyphs, sign), "word": WORDS.get(standing) or COUNTED[sign]}


def since(space: ServedWorkspace, values: Values) -> Mapping[str, object]:
    """Count the events after a given one, in numbers and words."""
    refuse_plan(space, None)
    epoch, seq = _word(values, "epoch") or "", _number(values, "seq") or 0
    found = views.moment(space.store, (), since=(epoch, seq), most=_MOST_COUNTED)
    events = [] if found["fresh"] else found["events"]
    counts = [(what, number) for what, number in _counted(events).items() if number]
    return {
        "known": not found["fresh"],
        "epoch": found["epoch"],
        "seq": found["seq"],
        "at": events[0]["at"] if events else None,
        "events": len(events),
        "counts": [
            {"what": what, "count": number, "words": _SINCE[what](number)}
            for what, number in counts
        ],
    }


_SINCE = {
    "completed": lambda n: f"{text.many(n, 'step')} completed",
    "taken_over": lambda n: f"{n} taken over",
    "failed": lambda n: f"{text.many(n, 'attempt')} failed",
    "parked": lambda n: f"{n} parked",
    "deferred": lambda n: f"{text.many(n, 'item')} deferred",
    "sent_back": lambda n: f"{n} sent back",
    "revised": lambda n: f"{text.many(n, 'plan')} revised",
    "merged": lambda n: f"{n} merged",
    "tokens": lambda n: f"{n:,} tokens",
    "cost": lambda n: f"${n / 1_000_000:.2f}",
}


def _counted(found: Iterable[Event]) -> dict[str, int]:
    counts = dict.fromkeys(_SINCE, 0)
    for event in found:
        kind, detail = event["kind"], event["detail"]
        counts["completed"] += kind == "complete"
        counts["taken_over"] += kind == "claim" and detail.get("outcome") in ("expired", "dead")
        counts["failed"] += kind == "release" and "failed" in detail
        counts["parked"] += kind in ("claim", "release") and bool(detail.get("parked"))
        if kind == "update":
            counts["deferred"] += sum(each[-1] == "deferred" for each in detail["items"])
        counts["sent_back"] += kind in ("reopen", "review_rejected")
        counts["revised"] += kind == "revise"
        counts["merged"] += kind == "merge"
        if kind == "agent":
            counts["tokens"] += detail["tokens"] or 0
            counts["cost"] += detail.get("cost_microdollars") or 0
    return counts


def marks(plan_text: str) -> list[dict[str, object]]:
    """The lines of a plan's text that have a state: those of steps and of items."""
    from tugtool.plan import parser

    found: list[dict[str, object]] = []
    for step in parser.parse(plan_text).every_step():
        none = {"kind": None, "ordinal": None}
        found.append({"line": step.line, "anchor": step.anchor, **none})
        for item in step.items:
            which = {"kind": item.kind, "ordinal": item.ordinal}
            found.append({"line": item.line, "anchor": step.anchor, **which})
    return found


def refuse_plan(space: ServedWorkspace, plan: str | None) -> None:
    """Refuse what is about other plans than that of the token."""
    if space.caller.plan is not None and plan != space.caller.plan:
        role = f"{space.caller.role} of {space.caller.plan}"
        raise RoleTooSmall("since", role=role, needs="a token for all plans")


def _word(values: Values, name: str) -> str | None:
    value = values.get(name)
    if value is not None and not isinstance(value, str):
        raise errors.Usage(f"{name} was sent twice")
    return value


def _number(values: Values, name: str) -> int | None:
    value = _word(values, name)
    if value is None:
        return None
    if not (value.isascii() and value.isdecimal() and len(value) <= 15):
        raise errors.Usage(f"{name} takes a number")
    return int(value)
