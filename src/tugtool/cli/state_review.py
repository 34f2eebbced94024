"""What waits for a person, and what the person says to it: state review."""

from __future__ import annotations

from tugtool import config, git, state
from tugtool.cli.naming import short_name
from tugtool.cli.output import Answer, clean
from tugtool.cli.place import Place, said
from tugtool.errors import Usage, quoted
from tugtool.people_errors import PeopleOnly

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tugtool.cli.parse import Call

    Data = dict[str, object]

_JUDGING = ("step", "kind", "ordinal", "note")


def state_review(call: Call) -> Answer:
    """List what waits for a person, or settle some of it."""
    accept, reject = call.flag("accept"), call.flag("reject")
    _refuse_odd(call, accept, reject)
    if accept or reject:
        return _judged(call, accepting=accept)
    place = Place(call)
    named = call.text("plan") is not None
    if not named and not place.store.exists():
        data: Data = {"deferred_items": [], "parked_steps": [], "audits": []}
        data |= {"deferred_count": 0, "parked_count": 0}
    else:
        data = state.review(place.store, place.plan() if named else None)
    return Answer(data, lambda: "".join(f"{line}\n" for line in _listed(data, place.repo.root)))


def _refuse_odd(call: Call, accept: bool, reject: bool) -> None:
    given = [f"--{key}" for key in _JUDGING if key in call.values]
    problem = None
    if accept and reject:
        problem = "--accept and --reject exclude each other"
    elif not (accept or reject):
        problem = f"{given[0]} goes with --accept or --reject" if given else None
    elif "--step" not in given:
        problem = "--accept and --reject need --step ANCHOR"
    elif ("--kind" in given) != ("--ordinal" in given):
        problem = "--kind and --ordinal go together"
    elif reject and not (call.text("note") or "").strip():
        problem = "--reject needs --note TEXT: whoever does it again should know why"
    if problem:
        raise Usage(problem, command="state review")


def _judged(call: Call, *, accepting: bool) -> Answer:
    from tugtool.cli import batch

    # A gate for people must ask who calls: a worker would judge its own work.
    if config.has_attempt():
        raise PeopleOnly(f"review --{'accept' if accepting else 'reject'}")
    place = Place(call)
    kind, word, note = call.text("kind"), call.text("ordinal"), call.text("note")
    ordinal = None if word is None else batch.ordinal(word)
    which = (place.store, place.plan(), place.step())
    by = git.user_name(place.repo.worktree) or config.login_name()
    if accepting:
        data = state.accept(*which, by=by, kind=kind, ordinal=ordinal, note=note)
        word = "accepted before:" if data["already"] else "accepted"
    else:
        data = state.reject(*which, by=by, kind=kind, ordinal=ordinal, note=note or "")
        word = "rejected"
    items = data["items"]
    assert isinstance(items, list)
    names = ", ".join(f"{each['step_anchor']} {each['kind']} {each['ordinal']}" for each in items)
    again = "; the step is to be done again" if data["reopened"] else ""
    return said(data, f"{word} {names}{again}")


def _listed(data: Data, root: str) -> Iterator[str]:
    items, parked, audits = data["deferred_items"], data["parked_steps"], data["audits"]
    assert isinstance(items, list)
    assert isinstance(parked, list)
    assert isinstance(audits, list)
    plans = dict.fromkeys(each["plan_path"] for each in (*items, *parked, *audits))
    for plan in sorted(plans):
        yield clean(plan)
        yield from _items(plan, [each for each in items if each["plan_path"] == plan], root)
        for each in parked:
            if each["plan_path"] == plan:
                yield from _parked(plan, each, root)
        for each in audits:
            if each["plan_path"] == plan:
                yield from _audit(plan, each)
    yield _in_all(len(items), len(parked), len(audits))


def _in_all(items: int, parked: int, audits: int) -> str:
    """How much waits, in a line."""
    counted = {"deferred item": items, "parked step": parked, "plan that was not approved": audits}
    waiting = [
        f"{number} {word if number == 1 else _plural(word)}"
        for word, number in counted.items()
        if number
    ]
    if not waiting:
        return "nothing waits for a person"
    return f"{' and '.join(waiting)} wait{'s' if sum(counted.values()) == 1 else ''} for you"


def _plural(word: str) -> str:
    return "plans that were not approved" if word.startswith("plan ") else f"{word}s"


def _audit(plan: str, said: Data) -> Iterator[str]:
    yield clean(f"  every step is done, and the whole is not approved: {said['summary']}")
    yield clean(f"    said {said['recorded_at']}, kept with {said['step_anchor']}")
    yield clean(f"    once that is settled: tugcode implement {quoted(plan)}")


def _items(plan: str, items: list[Data], root: str) -> Iterator[str]:
    step = None
    for each in items:
        anchor = str(each["step_anchor"])
        if anchor != step:
            step = anchor
            yield clean(f"  {anchor}: {each['step_title']} [{each['step_status']}]")
        yield clean(f"    {each['kind']} {each['ordinal']}: {each['text']}")
        by = f" by {short_name(str(each['deferred_by']), root)}" if each["deferred_by"] else ""
        because = each["reason"] or "no reason was given"
        yield clean(f"      deferred {each['deferred_at']}{by}: {because}")
        which = f"--step {quoted(anchor)} --kind {each['kind']} --ordinal {each['ordinal']}"
        yield clean(f"      tugcode state review {quoted(plan)} --accept {which}")


def _parked(plan: str, step: Data, root: str) -> Iterator[str]:
    anchor, last = str(step["step_anchor"]), step["last_attempt"]
    assert isinstance(last, dict)
    yield clean(f"  {anchor}: {step['step_title']} [parked]")
    yield clean(f"    parked {step['parked_at']}: {step['reason']}")
    lost = {"gone": "is over: its process is gone", "expired": "is over: its lease ran out"}
    ended = f"ended as {last['outcome']}" if last["outcome"] else lost[str(last["stale"])]
    times = f"{step['attempts']} attempt{'s' if step['attempts'] != 1 else ''}"
    yield clean(f"    {times}; the last, by {short_name(last['worktree'], root)}, {ended}")
    failure = step["last_failure"]
    if isinstance(failure, dict):
        yield clean(f"    attempt {failure['attempt']} failed: {failure['reason']}")
    for each in last["left"]:
        yield clean(f"    {each['kind']}: {each['summary']}")
    yield clean(f"    tugcode state reset {quoted(plan)} {quoted(anchor)}")
