"""What must be true of a plan's state once everybody who worked on it stands still.

It is judged by the database, by the events in it, and by what the workers wrote down: an entry
when they were about to do something, and one with what was said when they had been answered.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate

from support.state import Lab
from support.state_replay import INVARIANTS
from tugtool.store import sql

#: What a refusal may say here: another has it, it is not at that point, it waits, it is too late.
EXPECTED = {"E049", "E050", "E051", "E052", "E053", "E060"}
#: Operation, or kind of an event -> the kind that both are counted under.
KINDS = {"close": "update", "force": "complete", "wrest": "release", "start": "heartbeat"}
#: What only the holder does, or the last one.
OWNERS = ("start", "heartbeat", "update", "artifact", "complete")
#: Of which there is an event exactly when somebody has asked for it.
ASKED_FOR = ("artifact", "complete", "release", "update")
PEOPLE = ("reset", "reset_substep", "reopen")
#: A claim that was never made.
NOBODY = {"named": False}


def judged(lab: Lab, home: dict, items: dict, entries: list[dict]) -> Iterator[str]:
    """Every promise, one after the other."""
    yield from (f"damaged: {row}" for row in damage(lab))
    number = lab.rows("select count(*) as n from checklist_items")[0]["n"]
    if number != sum(map(len, items.values())):
        yield f"there are {number} items"
    for holds in INVARIANTS:
        try:
            holds(lab)
        except Exception as error:
            yield f"{holds.__name__}: {error!r:.300}"
    events = lab.rows(sql.EVENTS)
    yield from History(lab, home).contradictions(events)
    yield from unexpected(entries)
    yield from unkept(events, entries, home)
    yield from unfenced(entries, home)
    yield from unlike(entries)
    ends = {(row["step_anchor"], row["number"]): row["outcome"] for row in lab.rows(sql.ATTEMPTS)}
    yield from taken_alive(ends, entries)
    free = {row["anchor"] for row in lab.rows(sql.STEPS)}
    free -= {home[edge["step_anchor"]] for edge in lab.rows(sql.DEPS)}
    yield from kept_by_the_dead(free, ends, entries)


def damage(lab: Lab) -> list[dict]:
    checked = [row for row in lab.rows("pragma integrity_check") if row["integrity_check"] != "ok"]
    return checked + lab.rows("pragma foreign_key_check")


class History:
    """Who had which step when, by the events; and what of it must not be."""

    def __init__(self, lab: Lab, home: dict[str, str]) -> None:
        self.home = home
        self.rows = {row["anchor"]: row for row in lab.rows(sql.STEPS)}
        self.needs: dict[str, set[str]] = {home[anchor]: set() for anchor in home}
        for edge in lab.rows(sql.DEPS):
            top, needed = home[edge["step_anchor"]], edge["depends_on"]
            self.needs[top] |= {needed} if home[needed] != top else set()
        #: Of each step the newest attempt, and who has or had it.
        self.attempt = dict.fromkeys(self.needs, 0)
        self.holder: dict[str, str | None] = dict.fromkeys(self.needs)
        self.done: set[str] = set()

    def contradictions(self, events: list[dict]) -> Iterator[str]:
        for event in events:
            if event["step_anchor"] is not None:
                for wrong in self.apply(event):
                    kind, step, by = event["kind"], event["step_anchor"], event["attempt"]
                    yield f"event {event['seq']}, {kind} of {step} by attempt {by}: {wrong}"
        for anchor, row in self.rows.items():
            if (row["status"] == "completed") != (anchor in self.done):
                yield f"{anchor} is {row['status']}, and its last event says otherwise"

    def apply(self, event: dict) -> Iterator[str]:
        kind, anchor = event["kind"], event["step_anchor"]
        top = self.home[anchor]
        if kind == "claim":
            yield from self.claim(top, event)
        elif event["attempt"] != self.attempt[top]:
            yield f"{self.attempt[top]} is the newest"
        if kind in OWNERS and event["actor"] != self.holder[top]:
            yield f"{event['actor']} does it, and {self.holder[top]} has it"
        if kind in ("complete", "substep_completed", "reopen", "substep_reopened"):
            yield from self.turn(anchor, done=kind.endswith(("complete", "completed")))
        if kind in ("release", "reset", "reopen"):
            self.holder[top] = None

    def turn(self, anchor: str, *, done: bool) -> Iterator[str]:
        """Something is completed, or no longer: each at most once after the other."""
        if done == (anchor in self.done):
            yield f"it was {'' if done else 'not '}completed already"
        if done:
            self.done.add(anchor)
        else:
            self.done -= {each for each in self.home if anchor in (each, self.home[each])}

    def claim(self, top: str, event: dict) -> Iterator[str]:
        if event["attempt"] != self.attempt[top] + 1:
            yield f"the last was {self.attempt[top]}"
        if top in self.done:
            yield "it is completed"
        if self.needs[top] - self.done:
            yield f"it waits for {sorted(self.needs[top] - self.done)}"
        self.attempt[top], self.holder[top] = event["attempt"], event["actor"]


def unexpected(entries: list[dict]) -> Iterator[str]:
    """Whatever was neither answered nor refused for a reason that there can be here."""
    for entry in entries:
        if "broken" in entry:
            yield f"broken: {entry['broken']}"
        elif entry.get("refused", "E060") not in EXPECTED:
            yield f"refused: {entry}"


def unkept(events: list[dict], entries: list[dict], home: dict[str, str]) -> Iterator[str]:
    """Answered operations that left no event, and events that nobody has asked for."""
    found = Counter(_trace(event["kind"], event["step_anchor"], event, home) for event in events)
    answered = Counter(_left(entry, home) for entry in entries if "said" in entry)
    asked = Counter(trace for entry in entries for trace in _wanted(entry, home))
    for trace, number in answered.items():
        if trace is not None and found[trace] < number:
            yield f"answered {number} times, in the database {found[trace]} times: {trace}"
    for trace, number in found.items():
        if trace[0] in ASKED_FOR and number > asked[trace]:
            yield f"asked for {asked[trace]} times, in the database {number} times: {trace}"
    claims = Counter(event["actor"] for event in events if event["kind"] == "claim")
    for owner, number in claims.items():
        if number > asked[owner]:
            yield f"{owner} claimed {asked[owner]} times, in the database {number} times"


def _trace(kind: str, anchor: str | None, by: dict, home: dict[str, str]) -> tuple:
    """What operations and events are counted by; people have no attempt, but a name each time."""
    attempt = None if kind in PEOPLE else by["attempt"]
    if kind in ("start", "heartbeat"):
        # Starting a substep that was under way before may start its step alone.
        anchor = home[anchor]
    return KINDS.get(kind, kind), anchor, attempt, by["actor"]


def _left(entry: dict, home: dict[str, str]) -> tuple | None:
    """The event that an answered operation must have left; None if it changed nothing."""
    op, said = entry["op"], entry["said"]
    anchor = said.get("anchor")
    changed = {
        "claim": said.get("claimed") and not said.get("replayed"),
        "reset": said.get("reset"),
    }
    if not changed.get(op, True) or said.get("already_completed"):
        return None
    kind = op
    if anchor != home[anchor] and op in ("complete", "force", "reset"):
        kind = "reset_substep" if op == "reset" else "substep_completed"
    actor = entry.get("actor", entry["owner"])
    return _trace(kind, anchor, {"attempt": said.get("attempt"), "actor": actor}, home)


def _wanted(entry: dict, home: dict[str, str]) -> Iterator[object]:
    """The events that somebody who was about to do something may leave."""
    if "op" not in entry or "ended" in entry:
        return
    op, step = entry["op"], entry["step"]
    if op == "claim":
        yield entry["owner"]
    else:
        # A substep that is forced has its items closed by an event of their own.
        kind = "update" if op == "force" and step != home[step] else op
        by = {"attempt": entry["attempt"], "actor": entry["owner"]}
        yield _trace(kind, step, by, home)


def unfenced(entries: list[dict], home: dict[str, str]) -> Iterator[str]:
    """Whoever was answered as another attempt, or after a newer one had been answered."""
    claims: dict[str, list[tuple[int, int]]] = {}
    answered = [entry for entry in entries if "said" in entry and "attempt" in entry["said"]]
    for entry in answered:
        if entry["op"] == "claim":
            said = entry["said"]
            claims.setdefault(said["anchor"], []).append((entry["ended"], said["attempt"]))
    known = {step: _newest(made) for step, made in claims.items()}
    for entry in answered:
        said, sent = entry["said"], entry["attempt"]
        if sent not in (None, said["attempt"]):
            yield f"sent as attempt {sent}, answered as {said['attempt']}: {entry}"
        times, numbers = known.get(home[said["anchor"]], ([], [0]))
        newest = numbers[bisect_left(times, entry["began"])]
        if newest > (sent or said["attempt"]):
            yield f"answered after attempt {newest} had been: {entry}"


def _newest(claims: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """When claims had been answered, and which attempt was the newest before each, and after."""
    claims.sort()
    times, numbers = zip(*claims, strict=True)
    return list(times), list(accumulate(numbers, max, initial=0))


def unlike(entries: list[dict]) -> Iterator[str]:
    """Requests that were answered with two claims, and claims that two were answered with."""
    answers: dict[tuple, tuple] = {}
    given: set[tuple] = set()
    for entry in entries:
        said = entry.get("said", {})
        if not said.get("claimed"):
            continue
        claim = said["anchor"], said["attempt"]
        request = entry["owner"], entry["request"]
        if entry["request"] and answers.setdefault(request, claim) != claim:
            yield f"{request} got {answers[request]} and {claim}"
        if not said["replayed"]:
            if claim in given:
                yield f"handed out twice: {claim}"
            given.add(claim)


def _claims(entries: list[dict]) -> dict[tuple[str, int], dict]:
    """Step and attempt -> the claim that was answered with it first."""
    answered = [entry for entry in entries if entry.get("said", {}).get("claimed")]
    first = [entry for entry in answered if not entry["said"]["replayed"] and "life" in entry]
    return {(entry["said"]["anchor"], entry["said"]["attempt"]): entry for entry in first}


def taken_alive(ends: dict[tuple, str | None], entries: list[dict]) -> Iterator[str]:
    """Whoever was taken for dead before somebody killed it: it may have been stopped."""
    claims = _claims(entries)
    struck = {entry["died"]: entry["struck"] for entry in entries if "died" in entry}
    for (step, number), outcome in ends.items():
        first, second = claims.get((step, number)), claims.get((step, number + 1))
        if outcome != "dead" or first is None:
            continue
        if not first["named"]:
            yield f"taken for dead, and nobody knew its process: {first}"
        elif second is not None and second["ended"] < struck[first["life"]]:
            yield f"taken for dead while it lived: {first}, by {second}"


def kept_by_the_dead(
    free: set[str], ends: dict[tuple, str | None], entries: list[dict]
) -> Iterator[str]:
    """Steps that nobody could have, because of somebody who was dead for sure by then.

    `free` are those that wait for nothing. Only where the attempt is known that was the newest
    all the time: it had been answered before somebody asked, and the next came later, if at all.
    """
    claims = _claims(entries)
    reaped = {entry["died"]: entry["reaped"] for entry in entries if "died" in entry}
    numbers: dict[str, list[int]] = {}
    for step, number in claims:
        numbers.setdefault(step, []).append(number)
    for entry in entries:
        for step in _denied(entry) & free & numbers.keys():
            before = [n for n in numbers[step] if claims[step, n]["ended"] < entry["began"]]
            number = max(before, default=0)
            holder, then = claims.get((step, number), NOBODY), claims.get((step, number + 1))
            later = then["began"] > entry["ended"] if then else (step, number + 1) not in ends
            if later and holder["named"] and reaped[holder["life"]] < entry["began"]:
                yield f"kept by the dead: {holder}, for {entry}"


def _denied(entry: dict) -> set[str]:
    """The steps that a claim did not get because others held them."""
    if entry.get("op") != "claim" or "ended" not in entry:
        return set()
    if entry.get("refused") == "E053" and entry["step"] is not None:
        return {entry["step"]}
    said = entry.get("said", {})
    return set(said["held"]) if said.get("reason") == "no_ready_steps" and "held" in said else set()
