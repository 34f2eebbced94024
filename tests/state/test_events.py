"""Whatever happens to a plan, its events tell it, and its counts are right.

Random histories over random plans; then the events are replayed into plain dicts, which
must look like the tables. The harness is shown to notice planted faults.
"""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, example, given, seed, settings
from hypothesis import strategies as st

from support.proving import examined
from support.state import KEY, Lab, entry
from support.state_replay import INVARIANTS, next_step
from tugtool import state
from tugtool.errors import TugError
from tugtool.state import record, reviews
from tugtool.state.completion import Finding
from tugtool.store import sql
from tugtool.store.sqlite import backup

ITEMS = ("t0", "t1", "e0", "c0")
STATUSES = ("open", "in_progress", "completed", "completed", "deferred")


@st.composite
def plans(draw) -> list[str]:
    """Lines for `state_fixtures.markdown`: some steps with substeps, and acyclic dependencies."""
    order = draw(st.permutations(range(1, draw(st.integers(1, 4)) + 1)))
    lines: dict[str, str] = {}
    before: list[str] = []  # what later steps may depend on
    for number in order:
        family = [str(number), *(f"{number}.{n + 1}" for n in range(draw(st.integers(0, 3))))]
        for place, each in enumerate(family):
            siblings = family[1:place] + ([family[0]] if place else [])
            others = before + siblings
            some = st.lists(st.sampled_from(others), max_size=2, unique=True) if others else None
            needs = draw(some) if some is not None else []
            letters = draw(st.sampled_from(("", "t", "t", "tt", "te", "tc")))
            lines[each] = f"{each} {letters}" + (f" < {' '.join(needs)}" if needs else "")
        before += family
    return [lines[each] for each in sorted(lines, key=_place)]


def _place(number: str) -> list[int]:
    return [int(part) for part in number.split(".")]


class History:
    """Carries operations out, and sees to it that a refused one leaves no trace."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.anchors = [row["anchor"] for row in lab.rows(sql.STEPS)]

    def act(self, operation: str, owner: str, place: int, aux: int) -> None:
        anchor = self.anchors[place % len(self.anchors)]
        before = self.lab.dump()
        try:
            getattr(self, operation)(anchor, self._owner(owner, anchor), aux)
        except TugError as error:
            if error.code in ("E046", "E047"):
                raise  # no refusal of ours: the schema caught a fault
            assert self.lab.dump() == before, f"refused {operation} changed something"
            return
        self._every_change_has_an_event(before, operation)

    def _every_change_has_an_event(self, before: dict, operation: str) -> None:
        after = self.lab.dump()
        changed = [name for name in after if name != "events" and after[name] != before[name]]
        told = len(after["events"]) - len(before["events"])
        assert bool(changed) <= bool(told), f"{operation} changed {changed} and told nobody"

    def _owner(self, owner: str, anchor: str) -> str:
        if owner != "holder":
            return owner
        row = self.lab.row(anchor)
        return self.lab.row(row["parent_anchor"] or anchor)["claimed_by"] or "red"

    def claim(self, anchor: str, owner: str, aux: int) -> None:
        how = {"lease_seconds": (5, 100, 7200)[aux % 3], "force": aux == 3}
        top = self.lab.row(anchor)["parent_anchor"] or anchor
        expected = next_step(self.lab, owner, force=aux == 3) if aux % 2 else top
        got = self.lab.claim(owner, None if aux % 2 else top, **how)
        if got["claimed"] or aux % 2:
            assert got.get("anchor") == expected
        if got["claimed"]:
            assert got["remaining_ready"] == len(self.lab.ready()["ready_steps"])

    def wait(self, anchor: str, owner: str, aux: int) -> None:
        self.lab.clock.advance((1, 60, 8000, -3600)[aux % 4])

    def start(self, anchor: str, owner: str, aux: int) -> None:
        self.lab.start(anchor, owner, attempt=aux if aux > 2 else None)

    def beat(self, anchor: str, owner: str, aux: int) -> None:
        self.lab.beat(anchor, owner, lease_seconds=50 * aux or None)

    def tick(self, anchor: str, owner: str, aux: int) -> None:
        self.lab.tick(anchor, ITEMS[aux % 4], status=STATUSES[aux % 5], owner=owner)

    def untick(self, anchor: str, owner: str, aux: int) -> None:
        self.lab.tick(anchor, ITEMS[aux % 2], status="open", owner=owner)

    def batch(self, anchor: str, owner: str, aux: int) -> None:
        entries = [entry(ITEMS[aux % 4], "deferred", reason="later")] if aux else []
        self.lab.update(anchor, *entries, owner=owner, complete_remaining=True)

    def sweep(self, anchor: str, owner: str, aux: int) -> None:
        self.lab.update(anchor, owner=owner, every=[{"status": STATUSES[aux % 5]}])

    def note(self, anchor: str, owner: str, aux: int) -> None:
        self.lab.artifact(anchor, owner)

    def complete(self, anchor: str, owner: str, aux: int) -> None:
        self.lab.complete(anchor, owner, force_reason="enough" if aux == 4 else None)

    def release(self, anchor: str, owner: str, aux: int) -> None:
        how = {"force": aux == 1, "park_reason": "p" if aux == 2 else None}
        self.lab.release(anchor, owner, **how, interrupted=aux == 0)

    def reset(self, anchor: str, owner: str, aux: int) -> None:
        self.lab.reset(anchor)

    def reopen(self, anchor: str, owner: str, aux: int) -> None:
        self.lab.reopen(anchor, force=aux > 2)

    def reconcile(self, anchor: str, owner: str, aux: int) -> None:
        top = self.lab.row(anchor)["parent_anchor"] or anchor
        self.lab.reconcile(top, attempt=aux, force=aux == 3, dry_run=aux == 4)

    def pause(self, anchor: str, owner: str, aux: int) -> None:
        self.lab.pause() if aux == 0 else self.lab.resume()

    def defer(self, anchor: str, owner: str, aux: int) -> None:
        self.lab.tick(anchor, ITEMS[aux % 2], status="deferred", owner=owner)

    def accept(self, anchor: str, owner: str, aux: int) -> None:
        self.lab.accept(anchor, ITEMS[aux] if aux < 3 else None)

    def reject(self, anchor: str, owner: str, aux: int) -> None:
        self.lab.reject(anchor, ITEMS[aux] if aux < 3 else None)

    def archive(self, anchor: str, owner: str, aux: int) -> None:
        self.lab.archive(undo=aux != 0)

    def verify(self, anchor: str, owner: str, aux: int) -> None:
        top = self.lab.row(anchor)["parent_anchor"] or anchor
        if "c0" in self.lab.items(anchor):
            how = {"owner": owner, "attempt": self.lab.row(top)["attempt"] - (aux == 4)}
            found = [Finding(anchor, 0, passed=aux != 1, evidence={"aux": aux})]
            text = {"copy": self.lab.copy, "plan_hash": self.lab.hash, "summary": "ran"}
            state.verify(self.lab.store, KEY, anchor, found, **how, **text)


ALWAYS = ("claim", "claim", "claim", "batch", "batch", "complete", "complete", "complete")
OPERATIONS = (
    *ALWAYS,
    *("tick", "tick", "untick", "start", "sweep", "reopen", "release", "reset"),
    *("wait", "beat", "note", "pause", "reconcile"),
    *("defer", "accept", "reject", "archive", "verify"),
)
OWNERS = ("holder", "holder", "holder", "red", "blue")
HISTORIES = st.lists(
    st.tuples(
        st.sampled_from(OPERATIONS), st.sampled_from(OWNERS), st.integers(0, 9), st.integers(0, 4)
    ),
    min_size=25,
    max_size=60,
)


def hold(lines: list[str], operations: list[tuple[str, str, int, int]]) -> None:
    """Carry a history out, and look after each step of it at what it led to."""
    with tempfile.TemporaryDirectory() as directory:
        lab = Lab(Path(directory), *lines, max_attempts=3)
        history = History(lab)
        for operation in operations:
            history.act(*operation)
            for invariant in INVARIANTS:
                invariant(lab)
        _stays_the_same_when_the_log_is_thinned(lab)
        lab.store.close()


def _stays_the_same_when_the_log_is_thinned(lab: Lab) -> None:
    lab.clock.advance(backup.FULL_LOG_SECONDS + 1)
    before = lab.dump(), state.stats(lab.store, KEY)
    backup.thin(lab.store)
    after = lab.dump(), state.stats(lab.store, KEY)
    lost = [event for event in before[0].pop("events") if event not in after[0]["events"]]
    assert {event["kind"] for event in lost} <= {"heartbeat"}
    del after[0]["events"]
    assert after == before
    for invariant in INVARIANTS:
        invariant(lab)


QUIET = (HealthCheck.too_slow, HealthCheck.data_too_large)


@examined(short=40)
@given(plans(), HISTORIES)
@example(["1 t", "1.1 t", "2 t < 1.1"], [("claim", "red", 0, 0), ("batch", "holder", 0, 0)])
def test_every_history_can_be_told_from_its_events(lines, operations):
    hold(lines, operations)


def _forgetting(kind: str):
    note = record.note

    def note_all_but(tx, told, **facts):
        if told != kind:
            note(tx, told, **facts)

    return note_all_but


def _counting(**forced: int):
    count = record.count

    def count_wrongly(tx, **by):
        return count(tx, **{**by, **forced})

    return count_wrongly


FAULTS = {
    "ready is not counted": (record, "count", _counting(ready=0)),
    "done is not counted": (record, "count", _counting(done=0)),
    "a reopened step blocks nobody": (record, "reopened", lambda tx, step: None),
    "dependents hear nothing": (record, "completed", lambda tx, step, actor: 0),
    "progress is not noticed": (record, "progress", lambda tx, anchor: None),
    "updates are not told": (record, "note", _forgetting("update")),
    "starts are not told": (record, "note", _forgetting("start")),
    "releases are not told": (record, "note", _forgetting("release")),
    "heartbeats are not told": (record, "note", _forgetting("heartbeat")),
    "a judgement is not told": (record, "note", _forgetting("review_accepted")),
    "a rejection is not told": (record, "note", _forgetting("review_rejected")),
    "an archive is not told": (record, "note", _forgetting("archive")),
    "a rejected item leaves its substep done": (
        reviews,
        "_revive",
        lambda tx, items, actor: None,
    ),
    "substeps keep their owner": (sql, "FREE_SUBSTEPS", "select :anchor where :plan <> ''"),
    "attempts do not end": (sql, "END_ATTEMPT", "select :anchor where :number + 0 = :outcome"),
    "leases of substeps lag": (
        sql,
        "RENEW",
        "update steps set lease_expires_at = :until, heartbeat_at = :now"
        " where plan_path = :plan and anchor = :anchor",
    ),
}


#: Where a search comes upon the fault soon; elsewhere it takes minutes.
SEEDS = {
    "a judgement is not told": 7,
    "releases are not told": 1,
    "heartbeats are not told": 5,
}


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_harness_notices_a_planted_fault(monkeypatch, fault):
    home, name, wrong = FAULTS[fault]
    monkeypatch.setattr(home, name, wrong)
    search = settings(
        max_examples=300,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=QUIET,
    )
    attempt = search(given(plans(), HISTORIES)(hold))
    if fault in SEEDS:
        attempt = seed(SEEDS[fault])(attempt)
    with pytest.raises((AssertionError, TugError)):
        attempt()
