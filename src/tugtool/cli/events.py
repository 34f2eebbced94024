"""What happens in a run, in words: one line for each event."""

from __future__ import annotations

from tugtool.cli.output import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Event = Mapping[str, Any]


def line(event: Event) -> str:
    """`   1.2s  step-1  worker 1: coder started`."""
    return clean(f"{event['elapsed_seconds']:7.1f}s  {words(event)}", 1 << 12) + "\n" + more(event)


def words(event: Event) -> str:
    """What happened, and to which step by which worker."""
    step = f"{event['step_anchor']}  " if "step_anchor" in event else ""
    worker = f"worker {event['worker']}: " if event.get("worker") else ""
    return f"{step}{worker}{WORDS[event['event']](event)}"


def more(event: Event) -> str:
    """What is left when a run ends, a line each."""
    lines = [line for each in event.get("left", ()) for line in _left(each)]
    return "".join(clean(f"          {line}", 1 << 12) + "\n" for line in lines)


def _left(each: Event) -> list[str]:
    parked = "parked: " if each["parked"] else ""
    frees = [f"    once it is settled: {each['frees']}"] if each["frees"] else []
    return [f"{each['step_anchor']}: {parked}{each['reason']}", *frees]


def _commit(event: Event) -> str:
    return str(event["commit"])[:12]


def _try(event: Event) -> str:
    return f", try {event['try']}" if event.get("try", 1) > 1 else ""


def _finished(event: Event) -> str:
    reason = event.get("reason")
    many = _many(event.get("total_steps", 0), "step")
    done = f"{event['completed_steps']} of {many}" if _counted(event) else ""
    then = f"next: {event['next']}" if "next" in event else ""
    parts = (event["status"].replace("_", " "), done, reason, then)
    return ": ".join(part for part in parts if part)


def _many(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _counted(event: Event) -> bool:
    return "total_steps" in event


def _worktree(event: Event) -> str:
    return (
        f"{'works' if event['reused'] else 'works, in a new worktree,'} in {event['worktree_path']}"
    )


def _tokens(event: Event) -> str:
    return f", {event['tokens']} tokens" if "tokens" in event else ""


#: Kind of event -> how it is told.
WORDS: dict[str, Callable[[Event], str]] = {
    "started": lambda e: f"{_many(e['total_steps'], 'step')}, {_many(e['workers'], 'worker')}",
    "worktree": _worktree,
    "claimed": lambda e: f"{'took over' if e.get('reclaimed') else 'begins'}: {e['title']}",
    "waiting": lambda e: f"waits: {e['reason']}",
    "synced": lambda e: f"has taken in {', '.join(e['steps'])}",
    "resumed": lambda e: f"goes on with what was saved as {e['salvage_ref']}",
    "agent_started": lambda e: f"{e['role']} starts{_try(e)}",
    "agent_ended": lambda e: f"{e['role']} is done after {e['seconds']:.1f} s{_tokens(e)}",
    "agent_failed": lambda e: f"{e['role']} failed: {e['reason']}",
    "coder_reported": lambda e: str(e["message"]),
    "revise": lambda e: f"round {e['round']}: {e['reason']}",
    "deferred": lambda e: f"{e['item']} is left to a person: {e['reason']}",
    "recovered": lambda e: f"completed after all, with {_commit(e)}",
    "escalated": lambda e: f"a person has to decide: {e['reason']}",
    "completed": lambda e: f"done, {_commit(e)}: {e['title']}",
    "parked": lambda e: f"parked: {e['reason']}",
    "failed": lambda e: f"given back: {e['reason']}",
    "stopped": lambda e: "given back",
    "saved": lambda e: f"its work is saved as {e['salvage_ref']}",
    "moved": lambda e: f"goes on in another worktree: {e['reason']}",
    "lost": lambda e: f"nothing more is done for it: {e['reason']}",
    "gathered": lambda e: f"all work is together, with {', '.join(e['steps'])}",
    "audited": lambda e: f"the auditor, round {e['round']}: {e['recommendation']}",
    "integrated": lambda e: f"the integrator: {e['recommendation']}",
    "warning": lambda e: str(e["message"]),
    "worker_failed": lambda e: f"cannot go on: {e['reason']}",
    "stopping": lambda e: "stopping: work is saved and steps are given back; again ends it at once",
    "finished": _finished,
}
