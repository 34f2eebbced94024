"""The texts of results: short, one fact a line, at most 8 kB, with the next call at the end."""

from __future__ import annotations

from tugtool import errors
from tugtool.errors import listing, plan_name
from tugtool.server.mcp.guide import spelled
from tugtool.system import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from tugtool.server.mcp.guide import Guide
    from tugtool.workflow.workspace import Workspace

    Data = Mapping[str, Any]
    Outcome = tuple[str, Mapping[str, object]]


#: Of a text as it is sent, so that the whole message stays below 8 kB.
MOST_BYTES = 7400
#: Room for the last line, which says how to get the rest.
ROOM = 400
LONGEST_LINE = 2000
_MOST_NAMED = 12
#: The words of `status` and `show`.
_STANDINGS = {
    "completed": "completed",
    "deferred": "completed, with deferred items",
    "at_work": "at work",
    "stale": "stale, free for the next claim",
    "question": "a question waits for a person",
    "parked": "parked, waits for a person",
    "ready": "ready",
    "blocked": "waits",
}
#: How an attempt ended.
ENDS = {
    "completed": "completed",
    "released": "given back",
    "reset": "reset by a person",
    "expired": "stale: its lease ran out",
    "superseded": "taken over by a newer attempt",
    "dead": "stale: its process ended",
    "failed": "failed",
}
_BOXES = {"completed": "[x]", "deferred": "[~]", "in_progress": "[>]"}


def size(said: str) -> int:
    """The bytes of a text as it is sent."""
    return len(text.encode(said)) - 2


def cut(said: str, most: int = MOST_BYTES) -> str:
    """The text, or as much of it as may be sent."""
    if size(said) <= most:
        return said
    low, high = 0, len(said)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if size(said[:middle]) <= most - 6 else (low, middle - 1)
    return said[:low] + "…"


def single_page(said: str, again: str) -> str:
    """A text that may be too long; the rest cannot be had in pages."""
    lines = said.splitlines()
    shown = fitting(lines, MOST_BYTES - ROOM)
    more = len(lines) - len(shown)
    return "\n".join([*shown, f"{more} more lines; {again} has them in parts"] if more else shown)


def page_of(
    lines: Sequence[str], again: str, *, after: int = 0, first: str = "", most_lines: int = 500
) -> str:
    """The lines after so many, as many as fit, and the call for the rest."""
    wanted = lines[max(0, after) :][:most_lines]
    shown = fitting(wanted, MOST_BYTES - ROOM - size(first))
    seen = max(0, after) + len(shown)
    head = [first] if first else []
    if seen >= len(lines):
        return "\n".join([*head, *shown])
    rest = f"{len(lines) - seen} more lines: {again[:-1]}, after={seen})"
    return "\n".join([*head, *shown, rest])


def fitting(lines: Iterable[str], room: int) -> list[str]:
    """The first lines that fit; a line that is very long is cut."""
    shown: list[str] = []
    for line in lines:
        line = cut(line, LONGEST_LINE)
        room -= size(line) + 2
        if room < 0:
            break
        shown.append(line)
    return shown


class StepPage:
    """A step: its text, its items with evidence, notes and attempts."""

    def __init__(self, space: Workspace, plan: str, word: str) -> None:
        from tugtool import state

        self._space, self.plan = space, plan
        self.anchor = anchor_of(space, plan, word)
        #: The step's part of `state show`.
        self.data: dict[str, Any] = state.show(space.store, plan, step=self.anchor)

    def lines(self) -> list[str]:
        """All of it."""
        return [*self.text(), "", *self.items(), *self._notes(), *self._attempts()]

    def text(self) -> list[str]:
        """The step's lines in the agreed text."""
        from tugtool.plan import parser
        from tugtool.state import revisions

        agreed, _ = revisions.agreed_text(self._space.store, self.plan)
        parsed = parser.parse(agreed)
        step = next(each for each in parsed.every_step() if each.anchor == self.anchor)
        return parser.section(agreed, parsed, step).split("\n")

    def items(self) -> Iterator[str]:
        """Each item with its kind and ordinal; for a step also those of its substeps."""
        found = self.checklist()
        yield "items:" if found else "it has no items"
        for item in found:
            own = item["step_anchor"] == self.anchor
            name = f"{'' if own else item['step_anchor'] + ' '}{item['kind']} {item['ordinal']}"
            why = f" ({item['reason']})" if item["reason"] else ""
            box = _BOXES.get(item["status"], "[ ]")
            yield f"{box} {name}: {item['text']}{why}{_evidence(item['evidence'])}"

    def checklist(self) -> list[dict[str, Any]]:
        """The items of the step, and of its substeps after them, each by kind."""
        from tugtool.state.checklists import KINDS

        (top,) = self.data["steps"]
        whole = top["anchor"] == self.anchor
        items = self.data["checklist_items"]
        found = [each for each in items if whole or each["step_anchor"] == self.anchor]
        order = [self.anchor, *(each["anchor"] for each in top["substeps"])]
        found.sort(key=lambda each: (order.index(each["step_anchor"]), KINDS.index(each["kind"])))
        return found

    def _notes(self) -> Iterator[str]:
        (top,) = self.data["steps"]
        for each in top["artifacts"]:
            yield f"{each['kind']}, {each['recorded_at']}: {each['summary']}"

    def _attempts(self) -> Iterator[str]:
        (top,) = self.data["steps"]
        held, waits = top["claimed_by"], listing(top["waiting_for"], 3)
        said = _STANDINGS[top["standing"]]
        said += f" for {waits}" if top["standing"] == "blocked" and waits else ""
        yield f"standing: {said}" + (f", held by {held}" if held else "")
        for each in top["attempts"]:
            ended = ENDS[each["outcome"]] if each["outcome"] else "still open"
            ref = f"; its files are saved as {each['salvage_ref']}" if each["salvage_ref"] else ""
            yield f"attempt {each['number']} by {each['worktree']}: {ended}{ref}"


def anchor_of(space: Workspace, plan: str, word: str) -> str:
    """The anchor that the word means; a number means the step with that number."""
    from tugtool.state import record

    bare = word.removeprefix("#")
    if record.find_step(space.store, plan, bare) is not None:
        return bare
    from tugtool.workflow import overview

    found = overview.anchor_of(space, plan, bare)
    if found is None or record.find_step(space.store, plan, found) is None:
        raise errors.NoSuchStep(bare, plan=plan)
    return found


def _evidence(found: Data | None) -> str:
    if not found:
        return ""
    ran = found.get("commands") or ()
    verdict = "passed" if found.get("passed") else "failed"
    return f" [{verdict}: {', '.join(each['command'] for each in ran)}]" if ran else ""


def progress(
    page: StepPage, said: str, attempt: int, guide: Guide, notes: Sequence[str] = ()
) -> str:
    """A sentence, what is still open, and the next call."""
    anchor = page.anchor
    left = [each for each in page.checklist() if each["status"] in ("open", "in_progress")]
    lines = said.split("\n")
    names = [_item(each, anchor) for each in left]
    lines[-1] += f"; {len(left)} open: {listing(names, _MOST_NAMED)}" if left else "; 0 open"
    lines += [f"plan: {plan_name(page.plan)}", *notes, *unproven(page, attempt, guide)]
    top = page.data["steps"][0]["anchor"]
    if not left and top == anchor:
        lines.append(f"next: {guide.complete(anchor, attempt)}")
    elif left:
        failed = any(each["evidence"] and not each["evidence"]["passed"] for each in left)
        lines += guide.for_open(left, anchor, attempt, has_failed=failed)
    return "\n".join(lines)


def _item(item: Data, anchor: str) -> str:
    own = "" if item["step_anchor"] == anchor else f"{item['step_anchor']} "
    return f"{own}{item['kind']} {item['ordinal']}"


def unproven(page: StepPage, attempt: int, guide: Guide) -> Iterator[str]:
    """Say which checkpoints are ticked although their command did not pass in a run of ours."""
    from tugtool.plan import checkpoints

    ticked = [
        _item(each, page.anchor)
        for each in page.checklist()
        if each["kind"] == "checkpoint"
        and each["status"] == "completed"
        and checkpoints.kind_of(each["text"]) == checkpoints.COMMAND
        and not (each["evidence"] or {}).get("passed")
    ]
    if ticked:
        call = guide.call("verify", step=page.anchor, attempt=attempt)
        prove = f"; to prove it: {call}" if "verify" in guide.tools else ""
        named = listing(ticked, _MOST_NAMED)
        yield f"not proven, so a person is asked before the merge: {named}{prove}"


def end_of_plan(plan: str) -> str:
    """The sentence about the end of a plan, which is not a worker's."""
    return (
        f"a person looks at what waits (tugcode review {plan}) and merges it (tugcode merge {plan})"
    )


def completed(data: Data, guide: Guide) -> str:
    """A completed step."""
    again = " already" if data["already_completed"] else ""
    commit = f" (commit {data['commit_hash'][:12]})" if data.get("commit_hash") else ""
    left, plan = data["remaining_steps"], plan_name(data["plan_path"])
    what = f"next: {guide.call('claim', plan=plan)}"
    if not left:
        what = f"the plan is done; {end_of_plan(plan)}"
    said = f"completed{again} {data['anchor']}{commit}; {left} remain{'s' * (left == 1)}; {what}"
    return "\n".join([said, f"plan: {plan}", *map(str, data.get("warnings", ()))])


def uncompleted(data: Data, given: Data, guide: Guide) -> str:
    """A commit whose step could not be completed: a race, which the record tells about."""
    commit, reason = data["commit_hash"], data["state_failure_reason"]
    if reason == "ownership":
        what = f"stop: true; the step is no longer yours. next: {guide.call('claim')}"
    elif reason == "open_items":
        how = {"step": given["step"], "attempt": given["attempt"]}
        then = guide.call("complete", **how, commit=commit)
        what = f"next: {guide.call('update', **how)}, then {then}"
    else:
        what = f"next: {spelled('show', plan=plan_name(data['plan_path']), view='diff')}"
    return f"committed {commit[:12]}, but {data['anchor']} is not completed ({reason}); {what}"


def log_page(space: Workspace, plan: str, given: Data) -> Outcome:
    """Events, newest last; `after` gives those after that number."""
    from tugtool import state
    from tugtool.workflow import sentences

    limit, after = given.get("limit", 50), given.get("after")
    step = given.get("step")
    anchor = None if step is None else anchor_of(space, plan, step)
    found = state.log(space.store, plan, step=anchor, limit=None if after is not None else limit)
    events = [each for each in found["events"] if each["seq"] > (after or 0)][:limit]
    lines = [f"plan: {plan_name(plan)}"]
    room, seen = MOST_BYTES - ROOM, after or 0
    for event in events:
        said = sentences.format_event(event, space.repo.root)
        anchor = event["step_anchor"]
        line = f"{event['seq']} {event['at']} {said if anchor is None else f'{anchor}: {said}'}"
        line = cut(line, LONGEST_LINE)
        room -= size(line) + 2
        if room < 0:
            break
        lines.append(line)
        seen = event["seq"]
    again = spelled("show", plan=plan_name(plan), step=step, view="log", after=seen)
    if events and seen < found["events"][-1]["seq"]:
        lines.append(f"more: {again}")
    return "\n".join(lines if events else [*lines, "nothing has happened"]), {"events": events}
