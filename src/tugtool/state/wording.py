"""The sentences of `why`: how it stands with a step, and what would free it.

Agents do what messages say: no sentence here names a forced or destructive command.
"""

from __future__ import annotations

from tugtool import clock
from tugtool.errors import listing, quoted
from tugtool.spans import duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Facts = Mapping[str, Any]

#: More causes than this are counted, not told.
MOST_TOLD = 3
LONGEST_REASON = 200


def past(at: str, now: str) -> str:
    """`2026-02-23T12:00:00.000Z (15m ago)`."""
    return f"{at} ({duration(clock.seconds_between(at, now))} ago)"


def until(at: str, now: str) -> str:
    """`2026-02-23T12:00:00.000Z (for another 1h 45m)`."""
    return f"{at} (for another {duration(clock.seconds_between(now, at))})"


def brief(text: str | None) -> str:
    """A reason as a sentence can hold it."""
    text = text or "no reason was given"
    return text if len(text) <= LONGEST_REASON else f"{text[: LONGEST_REASON - 1]}…"


def explained(data: Facts, now: str) -> list[str]:
    """How it stands with the step, the most important first."""
    sentences = [_standing(data, now)]
    if data["parent_anchor"] is not None and data["situation"] != "completed":
        sentences.append(f"It is a substep and is claimed with its step {data['parent_anchor']}.")
    sentences += _about_claim(data, now)
    sentences += _about_failure(data, now)
    sentences += _about_waiting(data, now)
    if data["reopened"]:
        sent_back = data["reopened"]
        by = f" by {sent_back['by']}" if sent_back["by"] else ""
        sentences.append(
            f"It was reopened{by} at {past(sent_back['at'], now)}: {brief(sent_back['reason'])}."
        )
    return [*sentences, *_about_plan(data, now)]


def _standing(data: Facts, now: str) -> str:
    situation = data["situation"]
    if situation == "completed":
        by = f" by {data['completed_by']}" if data["completed_by"] else ""
        commit = f", commit {data['commit_hash']}" if data["commit_hash"] else ""
        return f"{data['anchor']} was completed{by} at {past(data['completed_at'], now)}{commit}."
    return f"{told(data, now)}."


def told(data: Facts, now: str) -> str:
    """How it stands with an unfinished step, in one clause."""
    anchor, situation, end = data["anchor"], data["situation"], data["lease_expires_at"]
    owner = f"{data['owner']}{' (you)' if data.get('yours') else ''}"
    if situation == "held":
        return f"{anchor} is held by {owner} until {until(end, now)}"
    if situation == "expired":
        return f"{anchor} was claimed by {owner}, whose lease ran out at {past(end, now)}"
    if situation == "gone":
        return f"{anchor} is claimed by {owner}, whose process no longer runs"
    if situation == "parked":
        reason = brief(data["park_reason"])
        return f"{anchor} is parked since {past(data['parked_at'], now)}: {reason}"
    return {
        "blocked": f"{anchor} waits for other steps",
        "ready": f"{anchor} is ready, and nobody has claimed it",
        "paused": f"{anchor} could be claimed if the plan were not paused",
        "archived": f"{anchor} belongs to a plan that is archived",
    }[situation]


def _about_claim(data: Facts, now: str) -> list[str]:
    """Since when, which attempt, and when its holder was last heard of."""
    if data["status"] == "completed":
        return [f"It was forced: {brief(data['forced'])}."] if data["forced"] else []
    sentences = []
    if data["owner"] is not None:
        if data["situation"] in ("parked", "blocked", "archived", "paused"):
            end = data["lease_expires_at"]
            still = f"until {until(end, now)}" if end >= now else f"but the lease ran out at {end}"
            sentences.append(f"It is held by {data['owner']} {still}.")
        sentences.append(
            f"It is attempt {data['attempt']}, claimed at {past(data['claimed_at'], now)}; "
            f"the last sign of life was at {past(data['seen_at'], now)}."
        )
        if data["holder_gone"] and data["situation"] != "gone":
            sentences.append("The process that held it no longer runs.")
    claims, most = data["claims_without_progress"], data["max_attempts"]
    if claims > 1 and data["parked_at"] is None:
        sentences.append(f"It was claimed {claims} times of at most {most} without progress.")
    return sentences


def _about_failure(data: Facts, now: str) -> list[str]:
    failure = data["last_failure"]
    if failure is None or data["status"] == "completed":
        return []
    when = past(failure["at"], now)
    return [f"Attempt {failure['attempt']} failed at {when}: {brief(failure['reason'])}."]


def _about_waiting(data: Facts, now: str) -> list[str]:
    waiting = data["waiting_for"]
    sentences = [_wait(data, each) for each in waiting[:MOST_TOLD]]
    sentences += _more(waiting, "that it waits for")
    direct = {each["anchor"] for each in waiting}
    roots = data["root_causes"]
    if roots and not all(each["anchor"] in direct for each in roots):
        ends = [f"In the end: {told(each, now)}." for each in roots[:MOST_TOLD]]
        return sentences + ends + _more(roots, "that all this waits for")
    return sentences + [f"{told(each, now)}." for each in roots[:MOST_TOLD]]


def _wait(data: Facts, blocker: Facts) -> str:
    """Who needs what; and if that waits as well, for what."""
    needed_by = blocker["needed_by"]
    who = "It"
    if data["anchor"] not in needed_by:
        own = needed_by[0] == data["parent_anchor"]
        who = f"{'Its step' if own else 'The substep'} {needed_by[0]}"
    onward, parent = blocker["waiting_for"], blocker["parent_anchor"]
    itself = f", which itself waits for {listing(onward)}" if onward else ""
    if onward == [parent]:
        itself = f", whose step {parent} is not ready either"
    return f"{who} waits for {blocker['anchor']}{itself}."


def _more(listed: Sequence[object], what: str) -> list[str]:
    hidden = len(listed) - MOST_TOLD
    return [f"There are {hidden} more {what}."] if hidden > 0 else []


def _about_plan(data: Facts, now: str) -> list[str]:
    if data["status"] == "completed":
        return []
    sentences = []
    if data["paused_at"] is not None:
        by = f" by {data['paused_by']}" if data["paused_by"] else ""
        sentences.append(f"The plan is paused{by} since {past(data['paused_at'], now)}.")
    if data["drift"]:
        sentences.append("The plan file is not the one that was recorded, so claims are refused.")
    return sentences


def frees(data: Facts, now: str) -> list[str]:
    """What would let somebody claim the step, or go on with it."""
    if data["situation"] == "completed":
        return []
    plan = quoted(data["plan_path"])
    claim = f"tugcode state claim {plan} --step {quoted(data['parent_anchor'] or data['anchor'])}"
    ways = _own_ways(data, now, plan, claim)
    ways += _causes(data, plan)
    if data["paused_at"] is not None:
        ways.append("The plan goes on when a person resumes it.")
    if data["drift"]:
        ways.append(f"The plan file and the record have to agree again: tugcode state diff {plan}")
    return ways


def _own_ways(data: Facts, now: str, plan: str, claim: str) -> list[str]:
    situation = data["situation"]
    if situation == "held":
        end = data["lease_expires_at"]
        left = duration(clock.seconds_between(now, end))
        lapse = f"Without a sign of life of its holder it is free at {end}, in {left}."
        unless = [] if data["waiting_for"] else [lapse]
        if data["yours"]:
            return ["You hold it: go on, complete it or give it back.", *unless]
        wait = f"To wait for it: {claim} --wait 600"
        return ["Its holder completes it or gives it back.", *unless, wait]
    if situation == "parked":
        more = ["Or its holder completes one of its items."] if data["owner"] else []
        return [f"A person frees it, after looking at: tugcode state review {plan}", *more]
    if situation == "archived":
        return ["A person brings the plan back."]
    if data["waiting_for"]:
        names = [each["anchor"] for each in data["waiting_for"]]
        return [f"It is free when {listing(names)} {'is' if len(names) == 1 else 'are'} completed."]
    return [] if situation == "paused" or data["drift"] else [f"Anybody may claim it: {claim}"]


def _causes(data: Facts, plan: str) -> list[str]:
    """What can be done now about what it waits for."""
    ways = []
    for each in data["root_causes"][:MOST_TOLD]:
        step = each["parent_anchor"] or each["anchor"]
        if each["situation"] == "parked":
            ways.append(f"{step} waits for a person, who looks at: tugcode state review {plan}")
        elif each["situation"] in ("ready", "expired", "gone") and not data["drift"]:
            command = f"tugcode state claim {plan} --step {quoted(step)}"
            ways.append(f"{step} can be claimed now: {command}")
    return ways
