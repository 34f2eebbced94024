"""The past of a plan, for the page: events in words, attempts with roles, transcripts in parts.

Only the server loads this. It reads no path that a request names: transcripts are found by plan,
step, attempt and call.
"""

from __future__ import annotations

from tugtool import errors, state
from tugtool.state import views
from tugtool.system import os
from tugtool.workflow import sentences, transcripts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from tugtool.workflow.transcripts import AgentCall
    from tugtool.workflow.workspace import Workspace


#: The most events, and the most bytes of a transcript, in one answer.
MOST_EVENTS, PART_BYTES = 5000, 1 << 18
#: Events that only say that a worker lives.
SIGNS_OF_LIFE = ("heartbeat",)
#: No character of UTF-8 is longer.
_LONGEST_CHARACTER = 4


def events(
    space: Workspace,
    plan: str | None,
    *,
    step: str | None,
    kinds: Sequence[str] = ("",),
    limit: int,
    before: int | None = None,
    quiet: bool = False,
) -> dict[str, object]:
    """Return the last events of these kinds before a number, each with its sentence.

    `quiet` leaves out signs of life, unless they were asked for.
    """
    found: list[Any] = []
    wanted = {*kinds} - {""}
    chosen = bool(wanted or quiet or before)
    most = min(limit, MOST_EVENTS)
    if plan is not None or space.store.exists():
        # One more shows whether there are more.
        first = None if chosen else most + 1
        found = [*state.log(space.store, plan, step=step, limit=first)["events"]]
    if before is not None:
        found = [event for event in found if event["seq"] < before]
    if wanted:
        found = [event for event in found if event["kind"] in wanted]
    elif quiet:
        found = [event for event in found if event["kind"] not in SIGNS_OF_LIFE]
    more, found = len(found) > most, found[-most:]
    transcripts.name_in_log(space.repo, found)
    for event in found:
        event["words"] = sentences.format_event(event, space.repo.root)
    return {"plan_path": plan, "step_anchor": step, "events": found, "more": more}


def attempts(space: Workspace, plan: str) -> dict[str, object]:
    """Return every attempt of a plan, oldest first, with the roles that worked in it."""
    shown = views.show(space.store, plan)
    spans = _role_spans(state.log(space.store, plan)["events"])
    found = [
        {
            "step_anchor": step["anchor"],
            **each,
            "roles": spans.get((step["anchor"], each["number"])),
        }
        for step in shown["steps"]
        for each in step["attempts"]
    ]
    for each in found:
        each["roles"] = _ended(each["roles"] or [], each["ended_at"])
    found.sort(key=lambda each: (each["claimed_at"], each["step_anchor"], each["number"]))
    return {"plan_path": plan, "as_of": shown["as_of"], "attempts": found}


def _role_spans(events: Iterable[Any]) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """Step and attempt -> its roles, each from its beginning to its answer or the next role."""
    spans: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for event in events:
        if event["kind"] not in ("role", "agent"):
            continue
        own = spans.setdefault((event["step_anchor"], event["attempt"]), [])
        if own and own[-1]["until"] is None:
            own[-1]["until"] = event["at"]
        if event["kind"] == "role":
            own.append({"role": event["detail"]["role"], "since": event["at"], "until": None})
    return spans


def _ended(roles: list[dict[str, Any]], ended_at: str | None) -> list[dict[str, Any]]:
    """The roles of an attempt; with the attempt its last role ends."""
    return [{**each, "until": each["until"] or ended_at} for each in roles]


def agent_calls(space: Workspace, plan: str, step: str) -> dict[str, object]:
    """Return the calls of agents for a step, or without a step for the whole plan."""
    anchor = _top(space, plan, step)
    found = [_about(call) for call in transcripts.calls(space.repo, plan, anchor)]
    return {"plan_path": plan, "step_anchor": anchor, "calls": [each for each in found if each]}


def _top(space: Workspace, plan: str, step: str) -> str | None:
    """The step that has the attempts; refuses one that the plan does not have."""
    if not step:
        return None
    row, _ = views.attempt(space.store, plan, step, 0)
    return str(row["parent_anchor"] or row["anchor"])


def _about(call: AgentCall) -> Mapping[str, object] | None:
    """The facts of a call without its text; None if it was removed meanwhile."""
    try:
        with open(call.path, "rb") as file:
            size, ended = os.fstat(file.fileno()).st_size, transcripts.has_ended(file)
    except OSError:
        return None
    names = {"attempt": call.attempt, "call": call.number, "role": call.role}
    return {**names, "size_bytes": size, "ended": ended}


def part(
    space: Workspace, plan: str, step: str, *, attempt: int | None, number: int, file: str, at: int
) -> dict[str, object]:
    """Return a transcript from an offset on, and where the next part begins.

    A transcript that grew too large has its middle removed, in a new file: then `file` differs
    from the one that was sent, and the part begins at 0 again.
    """
    anchor = _top(space, plan, step)
    found = transcripts.calls(space.repo, plan, anchor, attempt=attempt)
    call = next((each for each in found if each.number == number), None)
    try:
        if call is None:
            raise FileNotFoundError
        with open(call.path, "rb") as opened:
            name = str(os.fstat(opened.fileno()).st_ino)
            begin = at if file == name else 0
            ended = transcripts.has_ended(opened)
            opened.seek(begin)
            data = opened.read(PART_BYTES)
            more = bool(opened.read(1))
    except OSError:
        problem = f"there is no call {number} of an agent in attempt {attempt or 0}"
        raise errors.InvalidEntry(problem) from None
    data = _whole(data) if more or not ended else data
    about = {"attempt": call.attempt, "call": number, "role": call.role}
    place = {"file": name, "from": begin, "offset": begin + len(data)}
    over = ended and not more
    text = data.decode(errors="replace")
    return {"plan_path": plan, "step_anchor": anchor, **about, **place, "ended": over, "text": text}


def _whole(data: bytes) -> bytes:
    """The data without a character at its end that is not complete."""
    for length in range(1, min(_LONGEST_CHARACTER, len(data)) + 1):
        first = data[-length]
        if first < 0x80:
            return data
        if first >= 0xC0:
            needed = 2 + (first >= 0xE0) + (first >= 0xF0)
            return data if length >= needed else data[:-length]
    return data
