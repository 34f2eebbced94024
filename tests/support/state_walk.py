"""Random histories that keep their own account of time and numbers while they happen."""

from support.state import Lab, entry
from tugtool.errors import TugError
from tugtool.store import sql
from tugtool.system import clock as clocks

#: No process has a number so high: a holder that is gone from the start.
NOBODY = (1 << 22) + 1
ITEMS = ("t0", "t1", "e0", "c0")
STATUSES = ("open", "in_progress", "completed", "completed", "deferred")
OPERATIONS = (
    *("claim", "claim", "claim", "batch", "complete", "complete", "complete", "finish", "finish"),
    *("tick", "untick", "start", "reopen", "reopen", "release", "reset", "note", "pause"),
    *("wait", "wait", "wait", "beat", "force"),
)
OWNERS = ("holder", "holder", "holder", "red", "blue")
COUNTED = ("attempts", "reclaims", "times_forced", "recoveries", "escalations")


class Walk:
    """Carries operations out; all that it accounts for, it saw happen."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        rows = lab.rows(sql.STEPS)
        self.anchors = [row["anchor"] for row in rows]
        self.home = {row["anchor"]: row["parent_anchor"] or row["anchor"] for row in rows}
        self.tops = sorted(set(self.home.values()), key=self.anchors.index)
        self.began = lab.clock.now
        self.waited = dict.fromkeys(self.tops, 0)
        self.worked = dict.fromkeys(self.tops, 0)
        self.numbers = {top: dict.fromkeys(COUNTED, 0) for top in self.tops}
        self.outcomes: dict[str, int] = {}
        #: Step -> its running attempt: claimed, seen, until, idle since the lease ran out.
        self.running: dict[str, dict] = {}

    def act(self, operation: str, owner: str, place: int, aux: int) -> None:
        anchor = self.anchors[place % len(self.anchors)]
        if owner == "holder":
            owner = self.lab.row(self.home[anchor])["claimed_by"] or "red"
        try:
            getattr(self, operation)(anchor, owner, aux)
        except TugError as error:
            if error.code in ("E046", "E047"):
                raise  # no refusal of ours: the schema caught a fault

    def wait(self, anchor: str, owner: str, aux: int) -> None:
        spent = (7, 1000, 60_000, 3_600_000, 8_000_000)[aux]
        for top in self.tops:
            row = self.lab.row(top)
            if row["status"] == "completed" or row["open_deps"]:
                continue
            if top not in self.running:
                self.waited[top] += spent
            else:
                late = self.lab.clock.now + spent - self.running[top]["until"]
                self.running[top]["idle"] += max(0, min(spent, late))
        self.lab.clock.now += spent

    def claim(self, anchor: str, owner: str, aux: int) -> None:
        lease = (5, 100.5, 7200)[aux % 3]
        pid = NOBODY if aux == 1 else None
        how = {"lease_seconds": lease, "force": aux == 3, "holder_pid": pid}
        got = self.lab.claim(owner, None if aux % 2 else self.home[anchor], **how)
        if not got["claimed"]:
            return
        top, now = got["anchor"], self.lab.clock.now
        if top in self.running:
            before = self.running[top]
            lapsed, dead = before["until"] < now, before["dead"]
            self.lost(top, "expired" if lapsed else "dead" if dead else "superseded")
            self.numbers[top]["reclaims"] += 1
        self.numbers[top]["attempts"] += 1
        self.running[top] = {"claimed": now, "idle": 0, "dead": pid is not None, "lease": lease}
        self.alive(top)

    def alive(self, anchor: str, lease: float | None = None) -> None:
        """A sign of life: the lease begins again, and what looked like idling was none."""
        attempt, now = self.running[self.home[anchor]], self.lab.clock.now
        attempt["lease"] = lease or attempt["lease"]
        attempt.update(seen=now, until=now + round(attempt["lease"] * 1000), idle=0)

    def lost(self, top: str, outcome: str) -> None:
        attempt = self.running.pop(top)
        self.worked[top] += attempt["seen"] - attempt["claimed"]
        self.waited[top] += attempt["idle"]
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1

    def ended(self, top: str, outcome: str) -> None:
        self.worked[top] += self.lab.clock.now - self.running.pop(top)["claimed"]
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1

    def start(self, anchor: str, owner: str, aux: int) -> None:
        self.lab.start(anchor, owner)
        self.alive(anchor)

    def beat(self, anchor: str, owner: str, aux: int) -> None:
        lease = 50 * aux or None
        self.lab.beat(anchor, owner, lease_seconds=lease)
        self.alive(anchor, lease)

    def tick(self, anchor: str, owner: str, aux: int) -> None:
        self.lab.tick(anchor, ITEMS[aux % 4], status=STATUSES[aux % 5], owner=owner)
        self.alive(anchor)

    def untick(self, anchor: str, owner: str, aux: int) -> None:
        self.lab.tick(anchor, ITEMS[aux % 2], status="open", owner=owner)
        self.alive(anchor)

    def batch(self, anchor: str, owner: str, aux: int) -> None:
        entries = [entry(ITEMS[aux % 4], "deferred", reason="later")] if aux else []
        self.lab.update(anchor, *entries, owner=owner, complete_remaining=True)
        self.alive(anchor)

    def note(self, anchor: str, owner: str, aux: int) -> None:
        kind = ("note", "recovery", "escalation")[aux % 3]
        self.lab.artifact(anchor, owner, kind=kind)
        name = {"recovery": "recoveries", "escalation": "escalations"}.get(kind)
        if name:
            self.numbers[self.home[anchor]][name] += 1
        if self.home[anchor] in self.running:
            self.alive(anchor)

    def complete(self, anchor: str, owner: str, aux: int) -> None:
        done = self.lab.complete(anchor, owner, force_reason="enough" if aux == 4 else None)
        top = self.home[anchor]
        self.numbers[top]["times_forced"] += done["forced"]
        if not done["already_completed"]:
            self.ended(top, "completed") if anchor == top else self.alive(anchor)

    def finish(self, anchor: str, owner: str, aux: int) -> None:
        top = self.home[anchor]
        self.claim(top, owner, 0)
        self.batch(top, owner, 0)
        self.complete(top, owner, 0)

    def force(self, anchor: str, owner: str, aux: int) -> None:
        self.claim(self.home[anchor], owner, 0)
        self.complete(anchor, owner, 4)

    def release(self, anchor: str, owner: str, aux: int) -> None:
        self.lab.release(anchor, owner, force=aux == 1, park_reason="p" if aux == 2 else None)
        self.ended(anchor, "released")

    def reset(self, anchor: str, owner: str, aux: int) -> None:
        done = self.lab.reset(anchor)
        if done["reset"] and anchor in self.running:
            self.lost(anchor, "reset")

    def reopen(self, anchor: str, owner: str, aux: int) -> None:
        self.lab.reopen(anchor, force=aux > 2)

    def pause(self, anchor: str, owner: str, aux: int) -> None:
        self.lab.pause() if aux == 0 else self.lab.resume()

    def account(self) -> dict[str, dict]:
        """Step -> what `stats` has to say about it now."""
        steps = {top: self.lab.row(top) for top in self.tops}
        now, told = self.lab.clock.now, {}
        for top, numbers in self.numbers.items():
            waited, worked = self.waited[top], self.worked[top]
            if top in self.running:
                attempt = self.running[top]
                lapsed = attempt["until"] < now
                lost = lapsed or attempt["dead"]
                worked += (attempt["seen"] if lost else now) - attempt["claimed"]
                waited += attempt["idle"]
            told[top] = {
                **numbers,
                "waiting_seconds": waited / 1000,
                "working_seconds": worked / 1000,
                "deferred": self._deferred(top),
                "forced": self._forced(top),
                "status": steps[top]["status"],
                "completed_at": steps[top]["completed_at"],
            }
        return told

    def family(self, top: str) -> list[str]:
        return [anchor for anchor in self.anchors if self.home[anchor] == top]

    def _deferred(self, top: str) -> int:
        found = [status for each in self.family(top) for status in self.lab.items(each).values()]
        return found.count("deferred")

    def _forced(self, top: str) -> bool:
        return any(self.lab.row(each)["complete_reason"] for each in self.family(top))

    def wall_seconds(self) -> float:
        ends = [self.lab.row(top)["completed_at"] for top in self.tops]
        end = max(ends) if all(ends) else clocks.text(self.lab.clock.now)
        return clocks.seconds_between(clocks.text(self.began), end)
