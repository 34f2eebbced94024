"""why: the facts about a step, and sentences about them."""

from __future__ import annotations

from tugtool.errors import listing, plan_argument, quoted
from tugtool.state import attempts, publication, record
from tugtool.store import sql
from tugtool.store.owners import on_other_machine
from tugtool.system import clock
from tugtool.system.clock import duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from tugtool import schemas
    from tugtool.store import Row, Store, Transaction

    Facts = Mapping[str, Any]


#: Further causes are only counted.
MOST_TOLD = 3
LONGEST_REASON = 200


def past(at: str, now: str) -> str:
    """`2026-02-23T12:00:00.000Z (15m ago)`."""
    return f"{at} ({duration(clock.seconds_between(at, now))} ago)"


def until(at: str, now: str) -> str:
    """`2026-02-23T12:00:00.000Z (for another 1h 45m)`."""
    return f"{at} (for another {duration(clock.seconds_between(now, at))})"


def brief(text: str | None) -> str:
    """Shorten a reason for a sentence."""
    text = text or "no reason was given"
    if len(text) <= LONGEST_REASON:
        return text
    # Keep both ends: git's advice comes last.
    half = (LONGEST_REASON - 3) // 2
    return f"{text[:half]} … {text[-half:]}"


def explained(data: Facts, now: str) -> list[str]:
    """Return sentences about the step, the most important first."""
    sentences = [_condition(data, now)]
    if data["parent_anchor"] is not None and data["situation"] != "completed":
        sentences.append(f"It is a substep and is claimed with its step {data['parent_anchor']}.")
    sentences += _about_claim(data, now)
    sentences += _about_failure(data, now)
    sentences += _about_waiting(data, now)
    sentences += _sent_back("reopened", data["reopened"], now)
    sentences += _sent_back("reset", data["reset"], now)
    return [*sentences, *_about_plan(data, now)]


def _sent_back(verb: str, event: Facts | None, now: str) -> list[str]:
    if event is None:
        return []
    by = f" by {event['by']}" if event["by"] else ""
    return [f"It was {verb}{by} at {past(event['at'], now)}: {brief(event['reason'])}."]


def _condition(data: Facts, now: str) -> str:
    situation = data["situation"]
    if situation == "completed":
        by = f" by {data['completed_by']}" if data["completed_by"] else ""
        commit = f", commit {data['commit_hash']}" if data["commit_hash"] else ""
        return f"{data['anchor']} was completed{by} at {past(data['completed_at'], now)}{commit}."
    return f"{as_data(data, now)}."


def as_data(data: Facts, now: str) -> str:
    """Return one clause about an unfinished step."""
    anchor, situation, end = data["anchor"], data["situation"], data["lease_expires_at"]
    owner = f"{data['owner']}{' (you)' if data.get('yours') else ''}"
    if situation == "held":
        return f"{anchor} is at work: {owner} holds it until {until(end, now)}"
    if situation == "expired":
        return f"{anchor} is stale: claimed by {owner}, whose lease ran out at {past(end, now)}"
    if situation == "gone":
        return f"{anchor} is stale: claimed by {owner}, whose process no longer runs"
    if situation == "parked":
        reason = brief(data["park_reason"])
        return f"{anchor} is parked since {past(data['parked_at'], now)}: {reason}"
    return {
        "blocked": f"{anchor} waits for other steps",
        "ready": f"{anchor} is ready, and no worker has claimed it",
        "paused": f"{anchor} could be claimed if the plan were not paused",
        "archived": f"{anchor} belongs to a plan that is archived",
    }[situation]


def _about_claim(data: Facts, now: str) -> list[str]:
    """Return the time of the claim, its attempt, and its holder's last heartbeat."""
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
    if failure["reason"] in (data["park_reason"] or ""):
        return []  # It was said why it is parked.
    when = past(failure["at"], now)
    return [f"Attempt {failure['attempt']} failed at {when}: {brief(failure['reason'])}."]


def _about_waiting(data: Facts, now: str) -> list[str]:
    waiting = data["waiting_for"]
    sentences = [_wait(data, each) for each in waiting[:MOST_TOLD]]
    sentences += _more(waiting, "that it waits for")
    direct = {each["anchor"] for each in waiting}
    roots = data["root_causes"]
    if roots and not all(each["anchor"] in direct for each in roots):
        ends = [f"In the end: {as_data(each, now)}." for each in roots[:MOST_TOLD]]
        return sentences + ends + _more(roots, "that all this waits for")
    return sentences + [f"{as_data(each, now)}." for each in roots[:MOST_TOLD]]


def _wait(data: Facts, blocker: Facts) -> str:
    """Say which step needs which, and what that one waits for."""
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
        why = f": {brief(data['paused_reason'])}" if data["paused_reason"] else ""
        sentences.append(f"The plan is paused{by} since {past(data['paused_at'], now)}{why}.")
    if data["drift"]:
        sentences.append("The plan file is not the one that was recorded, so claims are refused.")
    return sentences


def what_frees(data: Facts, now: str) -> list[str]:
    """Return what would let a worker claim the step or continue it."""
    if data["situation"] == "completed":
        return []
    plan = plan_argument(data["plan_path"])
    claim = f"tugcode claim {plan} --step {quoted(data['parent_anchor'] or data['anchor'])}"
    ways = _own_ways(data, now, plan, claim)
    ways += _causes(data, plan)
    if data["paused_at"] is not None:
        ways.append("The plan goes on when a person resumes it.")
    if data["drift"]:
        ways.append(f"The plan file and the record have to agree again: tugcode diff {plan}")
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
        step = quoted(data["parent_anchor"] or data["anchor"])
        return [
            "Its holder completes it or gives it back.",
            *unless,
            f"To wait for it: {claim} --wait 600",
            f"If that worker is gone, {_reset(data['owner'])}: tugcode reset {plan} {step}",
        ]
    if situation == "parked":
        more = ["Or its holder completes one of its items."] if data["owner"] else []
        return [f"A person frees it, after looking at: tugcode review {plan}", *more]
    if situation == "archived":
        return ["A person brings the plan back."]
    if data["waiting_for"]:
        names = [each["anchor"] for each in data["waiting_for"]]
        return [f"It is free when {listing(names)} {'is' if len(names) == 1 else 'are'} completed."]
    return [] if situation == "paused" or data["drift"] else [f"Any worker may claim it: {claim}"]


def _reset(owner: str) -> str:
    """Say what a reset does with the uncommitted work of the step's holder."""
    if on_other_machine(owner):
        machine = owner.partition(":")[0]
        return f"this frees it; its work stays on {machine}, and the next command there saves it"
    return "this frees it and saves its uncommitted work first"


def _causes(data: Facts, plan: str) -> list[str]:
    """Return what can be done now about its causes."""
    ways = []
    for each in data["root_causes"][:MOST_TOLD]:
        step = each["parent_anchor"] or each["anchor"]
        if each["situation"] == "parked":
            ways.append(f"{step} waits for a person, who looks at: tugcode review {plan}")
        elif each["situation"] in ("ready", "expired", "gone") and not data["drift"]:
            command = f"tugcode claim {plan} --step {quoted(step)}"
            ways.append(f"{step} can be claimed now: {command}")
    return ways


def why(
    store: Store,
    plan: str,
    anchor: str,
    *,
    owner: str | None = None,
    max_attempts: int = 5,
    drift: bool = False,
) -> schemas.StateWhy:
    """Explain a step or substep, in facts and in sentences.

    `drift`: the plan file that a claim would use differs from the agreed text.
    """
    with store.read(plan) as tx:
        scene = _Scene(tx, record.plan_row(tx))
        record.step_row(tx, anchor)
        data = _facts(tx, scene, anchor, owner, max_attempts, drift=drift)
        late = publication.late(tx, data, owner or "")
        data["sentences"], data["frees"] = explained(data, tx.now), what_frees(data, tx.now)
        publication.explain(tx, data, late)
    return data


def _facts(
    tx: Transaction,
    scene: _Scene,
    anchor: str,
    owner: str | None,
    max_attempts: int,
    *,
    drift: bool,
) -> schemas.StateWhy:
    row, top = scene.rows[anchor], scene.rows[scene.home(anchor)]
    return {
        "plan_path": tx.plan,
        **record.names(anchor),
        **scene.about(anchor),
        "yours": owner is not None and row["claimed_by"] == owner,
        "claimed_at": row["claimed_at"],
        "seen_at": row["heartbeat_at"],
        "holder_gone": row["claimed_by"] is not None and top["anchor"] in scene.gone,
        "claims_without_progress": top["claims_without_progress"],
        "max_attempts": max_attempts,
        "completed_at": row["completed_at"],
        "completed_by": row["completed_by"],
        "commit_hash": row["commit_hash"],
        "forced": row["complete_reason"],
        "claimable": scene.is_claimable(anchor) and not drift,
        "drift": drift,
        "reopened": attempts.reopened(tx, top["anchor"]),
        "reset": attempts.taken_back(tx, top),
        "last_failure": attempts.last_failure(tx, tx.plan, top["anchor"]),
        "failed_checkpoints": attempts.failed_checkpoints(tx, tx.plan, anchor),
        "plan_status": scene.plan["status"],
        "paused_at": scene.plan["paused_at"],
        **attempts.pause(tx, scene.plan),  # type: ignore[typeddict-item]
        "waiting_for": scene.blockers(anchor),
        "root_causes": scene.root_causes(anchor),
        # These are files, which `workflow` adds.
        "transcripts": [],
        "sentences": [],
        "frees": [],
    }


class _Scene:
    """A plan's steps at one moment: their holders and dependencies."""

    def __init__(self, tx: Transaction, plan: Row) -> None:
        self.plan, self.now = plan, tx.now
        self.rows = {row["anchor"]: row for row in tx.all(sql.STEPS)}
        self.gone = record.gone(tx)
        self.children: dict[str, list[str]] = {}
        self.edges: dict[str, list[str]] = {}
        for anchor, row in self.rows.items():
            if row["parent_anchor"] is not None:
                self.children.setdefault(row["parent_anchor"], []).append(anchor)
        for edge in tx.all(sql.DEPS):
            if self.rows[edge["depends_on"]]["status"] != "completed":
                self.edges.setdefault(edge["step_anchor"], []).append(edge["depends_on"])
        for open_ in self.edges.values():
            open_.sort(key=lambda anchor: int(self.rows[anchor]["step_index"]))

    def home(self, anchor: str) -> str:
        return self.rows[anchor]["parent_anchor"] or anchor

    def is_lapsed(self, top: Row) -> bool:
        return top["lease_expires_at"] is not None and top["lease_expires_at"] < self.now

    def is_free(self, top: Row) -> bool:
        """Return whether no claim blocks another worker's claim."""
        return top["claimed_by"] is None or self.is_lapsed(top) or top["anchor"] in self.gone

    def is_claimable(self, anchor: str) -> bool:
        """Return whether another worker could claim it, by the rules of `claim`."""
        row = self.rows[anchor]
        return (
            self.plan["status"] != "archived"
            and self.plan["paused_at"] is None
            and row["parent_anchor"] is None
            and row["status"] != "completed"
            and row["parked_at"] is None
            and row["open_deps"] == 0
            and self.is_free(row)
        )

    def situation(self, anchor: str) -> Any:
        """Return one word for the state of a step or substep."""
        row, top = self.rows[anchor], self.rows[self.home(anchor)]
        if row["status"] == "completed":
            return "completed"
        if self.plan["status"] == "archived":
            return "archived"
        if top["parked_at"] is not None:
            return "parked"
        if row is not top and self.own_needs(anchor):
            return "blocked"
        return self.claim_situation(top)

    def claim_situation(self, top: Row) -> str:
        if not self.is_free(top):
            return "held"
        if top["open_deps"] == 0 and self.plan["paused_at"] is not None:
            return "paused"
        if top["claimed_by"] is None:
            return "blocked" if top["open_deps"] else "ready"
        return "expired" if self.is_lapsed(top) else "gone"

    def own_needs(self, substep: str) -> list[str]:
        """Return what a substep itself waits for; its own step does not count."""
        return [need for need in self.edges.get(substep, []) if need != self.home(substep)]

    def needs(self, anchor: str) -> dict[str, list[str]]:
        """Return open step or substep -> the members of this step that need it."""
        top = self.home(anchor)
        found: dict[str, list[str]] = {}
        if anchor != top:
            found = {need: [anchor] for need in self.own_needs(anchor)}
            if not self.is_free(self.rows[top]):
                return found
        for member in (top, *self.children.get(top, ())):
            for need in self.edges.get(member, ()):
                if self.home(need) != top and member not in found.get(need, ()):
                    found.setdefault(need, []).append(member)
        return found

    def about(self, anchor: str) -> schemas.StateWhyRootCause:
        """Return the facts about a step that every list has."""
        row, top = self.rows[anchor], self.rows[self.home(anchor)]
        return {
            "anchor": anchor,
            "parent_anchor": row["parent_anchor"],
            "title": row["title"],
            "status": row["status"],
            "situation": self.situation(anchor),
            "owner": row["claimed_by"],
            "lease_expires_at": row["lease_expires_at"],
            "attempt": top["attempt"],
            "parked_at": top["parked_at"] if row["status"] != "completed" else None,
            "park_reason": top["park_reason"] if row["status"] != "completed" else None,
        }

    def blockers(self, anchor: str) -> list[schemas.StateWhyWaitingForItem]:
        """Return what the step waits for, each with its own state."""
        if self.rows[anchor]["status"] == "completed":
            return []
        return [
            {**self.about(need), "needed_by": members, "waiting_for": self.onward(need)}
            for need, members in self.needs(anchor).items()
        ]

    def onward(self, anchor: str) -> list[str]:
        """Return what has to happen before a step can go on; a substep waits with its step.

        Only the edges of the given step are followed, so chains take linear time.
        """
        if self.situation(anchor) not in ("blocked", "expired", "gone"):
            return []
        if anchor == self.home(anchor):
            return list(self.needs(anchor))
        top = self.rows[self.home(anchor)]
        with_its_step = [top["anchor"]] if self.is_free(top) and top["open_deps"] else []
        return self.own_needs(anchor) + with_its_step

    def root_causes(self, anchor: str) -> list[schemas.StateWhyRootCause]:
        """Return the ends of the chains of dependencies; visit each step once."""
        if self.rows[anchor]["status"] == "completed":
            return []
        seen = dict.fromkeys(self.needs(anchor))
        pending, roots = list(seen), []
        for each in pending:  # grows meanwhile
            onward = self.onward(each)
            if not onward:
                roots.append(each)
            fresh = [need for need in onward if need not in seen]
            seen.update(dict.fromkeys(fresh))
            pending += fresh
        roots.sort(key=lambda each: int(self.rows[each]["step_index"]))
        return [self.about(each) for each in roots]
