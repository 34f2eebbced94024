"""The state as its events alone tell it, and what must be true of it at any time."""

import json

from support.state import Lab
from tugtool.plan import parser
from tugtool.store import sql
from tugtool.system import clock as clocks

CLOSED = ("completed", "deferred")


#: Kinds of events about work that was saved of an attempt.
LEFT = ("salvage", "salvage_prune")


class Replay:
    """The state as the events alone tell it."""

    def __init__(self, lab: Lab) -> None:
        texts = "select plan_hash, plan_text from {}"
        rows = [*lab.rows(texts.format("plans")), *lab.rows(texts.format("plan_revisions"))]
        self.texts = {row["plan_hash"]: row["plan_text"] for row in rows}
        self.parent: dict[str, str | None] = {}
        self.steps: dict[str, dict] = {}
        self.items: dict[tuple, str] = {}
        self.paused = self.archived = False
        #: Step -> attempts that only git knows of.
        self.skipped: dict[str, set[int]] = {}
        for event in lab.rows(sql.EVENTS):
            self.apply(event, json.loads(event["detail"]))

    def _init(self, anchor: str, event: dict, detail: dict) -> None:
        self._take_text(detail["hash"], over=set(), touched=set())

    def _take_text(self, hash: str, *, over: set[str], touched: set[str]) -> None:
        """Have the steps and items of a text; what was there before stays what it was."""
        steps, items = self.steps, self.items
        found = list(parser.parse(self.texts[hash]).every_step())
        self.parent = {step.anchor: step.parent for step in found}
        self.steps = {step.anchor: steps.get(step.anchor) or _fresh() for step in found}
        for anchor in over:
            self.steps[anchor] = {**_fresh(), "attempt": steps[anchor]["attempt"]}
        keys = [(step.anchor, item.kind, item.ordinal) for step in found for item in step.items]
        self.items = {k: "open" if k[0] in touched else items.get(k, "open") for k in keys}

    def _revise(self, anchor: str, event: dict, detail: dict) -> None:
        over = {row["anchor"] for row in detail["started_over"]}
        self._take_text(detail["hash"], over=over, touched=set(detail["items_touched"]))
        for *key, status in detail["items_now"]:
            self.items[tuple(key)] = status
        for each, number in detail["attempts"].items():
            self.steps[each]["attempt"] = number

    def apply(self, event: dict, detail: dict) -> None:
        for *key, status in detail.get("items") or [] if event["kind"] != "init" else []:
            assert self.items[tuple(key)] != status, f"{event['kind']} tells of no change"
            self.items[tuple(key)] = status
            # What a person accepts is no progress of whoever works on it.
            if status == "completed" and event["kind"] != "review_accepted":
                self.top(event["step_anchor"]).update(claims=0, parked=False)
        handler = getattr(self, f"_{event['kind']}", None)
        if handler is not None:
            handler(event["step_anchor"], event, detail)
        # An agent's failed try names the attempt that it was of, and changes nothing.
        if event["step_anchor"] in self.steps and event["kind"] != "agent_retry":
            # Also what people do, and what git proves: the step's own, not whose work it was.
            at, told = self.top(event["step_anchor"])["attempt"], event["attempt"]
            # What somebody left is told as of the attempt that left it.
            right = told <= at if event["kind"] in LEFT else told == at
            assert right, f"{event['kind']} is told as of attempt {told}, not {at}"

    def top(self, anchor: str) -> dict:
        return self.steps[self.parent[anchor] or anchor]

    def below(self, anchor: str) -> list[dict]:
        steps = [step for name, step in self.steps.items() if self.parent[name] == anchor]
        return [step for step in steps if step["status"] != "completed"]

    def _claim(self, anchor: str, event: dict, detail: dict) -> None:
        step = self.steps[anchor]
        assert detail["reclaimed_from"] == step["owner"]
        step.update(attempt=event["attempt"], claims=step["claims"] + 1, parked=detail["parked"])
        for each in (step, *self.below(anchor)):
            each.update(status="claimed", owner=event["actor"])

    def _start(self, anchor: str, event: dict, detail: dict) -> None:
        self.steps[anchor]["status"] = "in_progress"

    def _substep_completed(self, anchor: str, event: dict, detail: dict) -> None:
        by = detail["completed_by"]
        self.steps[anchor].update(status="completed", owner=None, completed_by=by)
        self.top(anchor).update(claims=0, parked=False)

    def _substep_reopened(self, anchor: str, event: dict, detail: dict) -> None:
        owner = self.top(anchor)["owner"]
        self.steps[anchor].update(status=detail["status"], owner=owner, completed_by=None)

    def _complete(self, anchor: str, event: dict, detail: dict) -> None:
        done = {"status": "completed", "owner": None, "completed_by": event["actor"]}
        self.steps[anchor].update(done, claims=0, parked=False)

    def _reconcile(self, anchor: str, event: dict, detail: dict) -> None:
        done = {"status": "completed", "owner": None, "completed_by": detail["completed_by"]}
        assert detail["was"] == self.steps[anchor]["status"]
        self.steps[anchor].update(done, claims=0, parked=False)

    def _raise_attempt(self, anchor: str, event: dict, detail: dict) -> None:
        step = self.steps[anchor]
        assert step["owner"] is None
        assert step["attempt"] == detail["before"] < event["attempt"]
        passed_over = range(detail["before"] + 1, event["attempt"] + 1)
        self.skipped.setdefault(anchor, set()).update(passed_over)
        step["attempt"] = event["attempt"]

    def _release(self, anchor: str, event: dict, detail: dict) -> None:
        for each in (self.steps[anchor], *self.below(anchor)):
            each.update(status="pending", owner=None)
        step = self.steps[anchor]
        if detail.get("interrupted"):
            step.update(claims=max(step["claims"] - 1, 0), parked=False)
        step["parked"] |= detail["parked"] is not None

    def _reset(self, anchor: str, event: dict, detail: dict) -> None:
        self._release(anchor, event, detail)
        self._unpark(anchor, event, detail)

    def _unpark(self, anchor: str, event: dict, detail: dict) -> None:
        self.steps[anchor].update(claims=0, parked=False)

    def _reset_substep(self, anchor: str, event: dict, detail: dict) -> None:
        self.steps[anchor]["status"] = "claimed"

    def _reopen(self, anchor: str, event: dict, detail: dict) -> None:
        for name, step in self.steps.items():
            if anchor in (name, self.parent[name]):
                step.update(status="pending", completed_by=None, claims=0)

    def _restore(self, anchor: None, event: dict, detail: dict) -> None:
        for name in detail["freed"]:
            for each in (self.steps[name], *self.below(name)):
                each.update(status="pending", owner=None)
        for name, step in self.steps.items():
            step["attempt"] += detail["raised"] if self.parent[name] is None else 0

    def _pause(self, anchor: str, event: dict, detail: dict) -> None:
        self.paused = True

    def _resume(self, anchor: str, event: dict, detail: dict) -> None:
        self.paused = False

    def _archive(self, anchor: str, event: dict, detail: dict) -> None:
        self.archived = True

    def _unarchive(self, anchor: str, event: dict, detail: dict) -> None:
        self.archived = False


def _fresh() -> dict:
    nobody = {"owner": None, "completed_by": None}
    return {"status": "pending", "attempt": 0, "claims": 0, "parked": False, **nobody}


def _key(item: dict) -> tuple[str, str, int]:
    return item["step_anchor"], item["kind"], item["ordinal"]


def the_events_tell_everything(lab: Lab) -> None:
    told = Replay(lab)
    for row in lab.rows(sql.STEPS):
        assert told.steps[row["anchor"]] == {
            "status": row["status"],
            "attempt": row["attempt"],
            "claims": row["claims_without_progress"],
            "parked": row["parked_at"] is not None,
            "owner": row["claimed_by"],
            "completed_by": row["completed_by"],
        }, row["anchor"]
    items = lab.rows("select * from checklist_items")
    assert told.items == {_key(item): item["status"] for item in items}
    plan = lab.plan()
    assert told.paused == (plan["paused_at"] is not None)
    tops = [step for name, step in told.steps.items() if told.parent[name] is None]
    done = sum(step["status"] == "completed" for step in tops)
    assert (plan["steps_done"], plan["steps_total"]) == (done, len(tops))
    counted = "done" if done == len(tops) else "active"
    assert plan["status"] == ("archived" if told.archived else counted)


def the_counts_are_what_the_rows_say(lab: Lab) -> None:
    steps = {row["anchor"]: row for row in lab.rows(sql.STEPS)}
    home = {anchor: row["parent_anchor"] or anchor for anchor, row in steps.items()}
    waiting = dict.fromkeys(steps, 0)
    for edge in lab.rows(sql.DEPS):
        needed = edge["depends_on"]
        outside = home[needed] != home[edge["step_anchor"]]
        waiting[home[edge["step_anchor"]]] += outside and steps[needed]["status"] != "completed"
    assert {anchor: row["open_deps"] for anchor, row in steps.items()} == waiting
    tops = [row for row in steps.values() if row["parent_anchor"] is None]
    ready = [
        row["anchor"]
        for row in tops
        if row["status"] == "pending" and not waiting[row["anchor"]] and row["parked_at"] is None
    ]
    assert lab.plan()["steps_ready"] == len(ready)
    assert set(ready) <= set(lab.ready()["ready_steps"])


def what_is_completed_has_nothing_open(lab: Lab) -> None:
    steps = {row["anchor"]: row for row in lab.rows(sql.STEPS)}
    items: dict[str, list[str]] = {anchor: [] for anchor in steps}
    for item in lab.rows("select * from checklist_items"):
        items[item["step_anchor"]].append(item["status"])
    needs = lab.rows(sql.DEPS)
    for anchor, row in steps.items():
        top = steps[row["parent_anchor"]] if row["parent_anchor"] else row
        if "completed" in (row["status"], top["status"]):
            assert set(items[anchor]) <= set(CLOSED), anchor
            assert row["status"] == "completed"
        elif top is not row and items[anchor] and set(items[anchor]) <= set(CLOSED):
            own = {e["depends_on"] for e in needs if e["step_anchor"] == anchor}
            open_ = [each for each in own if steps[each]["status"] != "completed"]
            assert set(open_) - {top["anchor"]}, f"{anchor} should be done by itself"


def a_held_step_has_one_owner_and_one_open_attempt(lab: Lab) -> None:
    steps = {row["anchor"]: row for row in lab.rows(sql.STEPS)}
    mirrored = ("claimed_by", "claimed_at", "lease_expires_at", "heartbeat_at")
    skipped, kinds = Replay(lab).skipped, set(lab.events())
    for anchor, row in steps.items():
        attempts = lab.attempts(anchor)
        numbers = [each["number"] for each in attempts]
        if not {"revise", "restore"} & kinds:
            given_out = set(range(1, row["attempt"] + 1)) - skipped.get(anchor, set())
            assert numbers == sorted(given_out)
        # What was restored, or dropped and brought back, goes on counting above where it was.
        assert numbers == sorted(set(numbers))
        assert max(numbers, default=0) <= row["attempt"]
        running = [each for each in attempts if each["ended_at"] is None]
        if row["parent_anchor"] is not None:
            top = steps[row["parent_anchor"]]
            if row["status"] != "completed":
                assert [row[key] for key in mirrored] == [top[key] for key in mirrored], anchor
        elif row["claimed_by"] is None:
            assert running == [], anchor
        else:
            assert [each["worktree"] for each in running] == [row["claimed_by"]]
            assert running[0]["number"] == row["attempt"]


INVARIANTS = (
    the_events_tell_everything,
    the_counts_are_what_the_rows_say,
    what_is_completed_has_nothing_open,
    a_held_step_has_one_owner_and_one_open_attempt,
)


def next_step(lab: Lab, owner: str, *, force: bool) -> str | None:
    """The step that a claim has to get, by the plainest reading of the rules."""
    if lab.plan()["paused_at"] is not None:
        return None
    now = clocks.text(lab.clock.now)
    tops = [row for row in lab.rows(sql.STEPS) if row["parent_anchor"] is None]
    open_ = [
        row
        for row in tops
        if row["status"] != "completed" and not row["open_deps"] and row["parked_at"] is None
    ]
    own = [row for row in open_ if row["claimed_by"] == owner]
    free = [row for row in open_ if row["claimed_by"] is None or row["lease_expires_at"] < now]
    candidates = own or free or (open_ if force else [])
    return candidates[0]["anchor"] if candidates else None
