"""Everything that can happen to a plan, in any order, on the product and on the model at once.

After every rule both must say the same: whether it was refused and with which code, what the
answer holds, and what every step, item and attempt looks like afterwards.
"""

import copy
import shutil
import sqlite3
import tempfile
from collections import Counter
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, note, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from model import Model, Refused, Room
from product import SHELF, Driver, found, wanted

from state.test_revise_property import EDITS, TEXTS, Editor
from support import engines, plan_drafts
from support.plan_drafts import Part
from support.state import TABLES, Lab
from support.state_replay import INVARIANTS
from tugtool.errors import TugError
from tugtool.store.sqlite import backup
from tugtool.system import process

OWNERS = ("red", "blue", "green")
OWNER = st.sampled_from(OWNERS)
#: Whoever acts: mostly whoever holds the step, sometimes somebody by name.
WHO = st.sampled_from((*["holder"] * 9, *OWNERS))
#: The attempt that is sent along: of the step as it stands, none, or one before or after.
FENCE = st.sampled_from((*["current"] * 8, "none", "before", "after"))
#: Which step or item; the last of them means one that is not meant as a rule.
AT = st.integers(0, 11)
TIMES = st.integers(0, 3)
LOST = st.sampled_from((False, False, True))
STATUS = st.sampled_from(("open", "in_progress", "completed", "completed", "deferred"))
REASON = st.sampled_from((None, None, "later"))
LEASES = st.sampled_from((1, 60.5, 7200))
PIDS = st.sampled_from((None, None, 1, 2, 3))
REQUESTS = st.sampled_from((None, None, "a", "b", "c"))
FLAGS = ("reopen_changed", "drop_completed", "drop_claimed")
#: What leaves a trace each time, by its nature.
LEAVES_A_TRACE = ("artifact", "report", "verify")
#: What happens first.
BEGINNINGS = ("finish", "claim", "start", "defer", "park", "retitle")
#: What a holder says of its step, apart from how far it is.
WORDS = ("artifact", "report", "verify", "verify", "adopt", "let_go")


@st.composite
def plans(draw) -> list[Part]:
    """One to three steps with substeps, which often wait for each other."""
    parts: list[Part] = []
    for _ in range(draw(st.integers(1, 3))):
        family: list[str] = []
        for place in range(draw(st.sampled_from((1, 1, 2, 3, 4)))):
            anchor, before = f"step-{len(parts)}", [each.anchor for each in parts]
            needs = draw(st.lists(st.sampled_from(before), max_size=2)) if before else []
            needs += [family[-1]] if place > 1 and draw(st.booleans()) else []
            kinds = draw(st.sampled_from(("", "t", "t", "tt", "tc", "ec")))
            items = tuple(
                (plan_drafts.KINDS[kind], text) for kind, text in zip(kinds, TEXTS, strict=False)
            )
            unique = tuple(dict.fromkeys(needs))
            parts.append(Part(anchor, f"Part {len(parts)}", place > 0, unique, items))
            family.append(anchor)
    return parts


def _now_and_then(self: "Machine") -> bool:
    """For what is always possible, so that it does not crowd out the rest."""
    return self.turn % 3 == 0


def _somebody_works(self: "Machine") -> bool:
    return any(step["owner"] or step["parked"] for step in self.model.steps.values())


def _there_is_work(self: "Machine") -> bool:
    """For what a holder does: see `caller`."""
    return _somebody_works(self) or bool(self.model.ready())


def _something_is_done(self: "Machine") -> bool:
    return any(map(self.model.is_done, self.model.steps))


def _something_is_put_aside(self: "Machine") -> bool:
    return any(map(self.model.is_put_aside, self.model.tops()))


def _something_is_deferred(self: "Machine") -> bool:
    return any(self.model.counts(anchor)["deferred"] for anchor in self.model.steps)


class Machine(RuleBasedStateMachine):
    """One plan, its product and its model."""

    #: (operation, "done" or the code) -> how often; each run has its own.
    tally: ClassVar[Counter] = Counter()

    @initialize(
        parts=plans(),
        most=st.sampled_from((2, 5, 5)),
        work=st.lists(st.sampled_from(BEGINNINGS), max_size=6),
    )
    def begin(self, parts, most, work):
        self.room, self.editor = Room(), Editor(parts)
        self.patch = pytest.MonkeyPatch()
        self._furnish()
        self.home = Path(tempfile.mkdtemp(dir=SHELF, prefix="tug-"))
        text = plan_drafts.text(parts)
        self.lab = Lab(self.home, text=text, max_attempts=most)
        self.room.now = self.lab.clock.now
        self.texts = [text]
        self.model = Model(parts, text, self.room, most)
        #: What was answered: operation, its words, and the step and attempt that it was for.
        self.sent: list[tuple[str, dict, str, int]] = []
        #: A copy of the database, and what it holds: the model, its text, its last event.
        self.spare = str(self.home / "spare.db")
        self.copied: tuple[Model, list[Part], int] | None = None
        #: Step -> attempts whose writes counted, in their order.
        self.counted: dict[str, list[int]] = {}
        self.before = self.dump()
        self.turn = 0
        self.tally["run", "done"] += 1
        note(text)
        for owner, what in zip((*OWNERS, *OWNERS), work, strict=False):
            self._some_work(owner, what)

    def _some_work(self, owner: str, what: str) -> None:
        """So that something is under way from the beginning."""
        if what == "retitle":
            self.accept([("retitle", self.turn, 0, 0)], FLAGS)
            return
        text = self.model.text
        got = self.claim_some(owner, request=f"first {self.turn}", pid=1)
        if not got or not got["claimed"]:
            return
        caller = {"anchor": got["anchor"], "owner": owner, "attempt": got["attempt"]}
        if what == "start":
            self.call("start", **caller)
        elif what in ("finish", "defer"):
            keys = [key for key in self.item_keys(got["anchor"]) if what == "defer"]
            some = [(None, key, "deferred", None) for key in keys]
            self.update(caller, entries=some, rest=True)
            if what == "finish":
                self.call("complete", **caller, text=text, force=None, commit=None)
        elif what == "park":
            how = {"force": False, "park": True, "failure": None, "interrupted": False}
            self.call("release", **caller, **how)

    def claim_some(self, owner: str, **how) -> dict | None:
        """The next step, whichever it is."""
        given = {"lease": 60, "force": False, "pid": None, "request": None, "begins": False}
        return self.call("claim", owner=owner, step=None, text=self.model.text, **(given | how))

    def _furnish(self) -> None:
        """The product sees the room's boot, container and processes instead of this machine's."""
        room = self.room
        self.patch.setattr(process, "_boot", lambda: f"boot {room.boot}")
        self.patch.setattr(process, "_namespace", lambda: f"container {room.namespace}")
        self.patch.setattr(process, "start_time", lambda pid: room.running.get(pid))

    def teardown(self):
        if not hasattr(self, "lab"):
            return
        try:
            for invariant in INVARIANTS:
                invariant(self.lab)
            if not engines.is_postgres(self.lab.url):
                assert self.lab.rows("pragma integrity_check") == [{"integrity_check": "ok"}]
                assert self.lab.rows("pragma foreign_key_check") == []
        finally:
            self.patch.undo()
            self.lab.store.close()
            engines.give_back(self.home)
            shutil.rmtree(self.home)

    # -- one call, on both -------------------------------------------------------------

    def call(self, name: str, *, lost: bool = False, **how) -> dict | None:
        """Do it on both and compare; if the answer is `lost`, do the same again."""
        answer = self._once(name, how)
        if not lost or answer is None or name in LEAVES_A_TRACE:
            return answer
        if name == "claim" and how["request"] is None:
            return answer
        before = self._essence()
        again = self._once(name, how)
        assert self._essence() == before, f"{name} again had a second effect"
        if name == "claim" and answer["claimed"]:
            same = [(each["anchor"], each["attempt"]) for each in (answer, again)]
            assert same[0] == same[1], "the same request got another claim"
        self.tally["lost reply", "done"] += 1
        return answer

    def _once(self, name: str, how: dict, refusal: str | None = None) -> dict | None:
        agreed = self.model.text
        try:
            expected = getattr(self.model, name)(**how)
            code = None
        except Refused as refused:
            expected, code = None, refused.code
        try:
            answer = getattr(Driver, name)(self.lab, **how)
            found = None
        except TugError as error:
            answer, found = None, error.code
        self.turn += 1
        said = {key: value for key, value in how.items() if key not in ("text", "parts")}
        drifted = " from another text" if how.get("text", agreed) != agreed else ""
        note(f"{name} {said}{drifted} -> {found or 'done'}")
        assert found == code, f"{name}: refused with {found}, not with {code}"
        # Also what the model says is held against what is known without it.
        assert refusal in (None, found), f"{name}: {found or 'done'}, and not {refusal}"
        self.tally[name, code or "done"] += 1
        if answer is not None:
            facts = {key: answer.get(key, "nothing") for key in expected}
            assert facts == expected, f"{name} answers otherwise"
            self._count_write(name, how, answer)
        self._compare(name, changed=answer is not None)
        return answer

    def _count_write(self, name: str, how: dict, answer: dict) -> None:
        """A write that says its attempt counts only while no later attempt's has."""
        if name == "claim" and how["request"] and answer["claimed"]:
            self.sent.append((name, how, answer["anchor"], answer["attempt"]))
        if how.get("attempt") is None or name == "reconcile":
            return
        top = self.model.top_of(how["anchor"])
        self.sent.append((name, how, top, how["attempt"]))
        counted = self.counted.setdefault(top, [])
        counted.append(how["attempt"])
        assert counted == sorted(counted), "an older attempt wrote after a newer one"

    def dump(self) -> dict[str, list[dict]]:
        """Every row, in the order of the keys: what was imported lies in another one."""
        every = "select * from {} order by 1, 2, 3"
        with self.lab.store.read() as tx:
            return {t: [dict(row) for row in tx.all(every.format(t))] for t in TABLES}

    def _compare(self, name: str, *, changed: bool) -> None:
        after = self.dump()
        if not changed:
            assert after == self.before, f"{name} was refused, and changed something"
        told = len(after["events"]) > len(self.before["events"])
        rest = [key for key in after if key != "events" and after[key] != self.before[key]]
        assert told or not rest, f"{name} changed {rest} and told nobody"
        self.before = after
        expected, there = wanted(self.model), found(after)
        for table, rows in expected.items():
            for key, row in rows.items():
                assert there[table].get(key) == row, f"{key} is otherwise after {name}"
            assert there[table].keys() == rows.keys(), f"other {table} after {name}"
        self._compare_lists()

    def _compare_lists(self) -> None:
        said, tops = self.lab.ready(), self.model.tops()
        parked = [a for a in tops if self.model.steps[a]["parked"]]
        assert said["ready_steps"] == self.model.ready()
        assert said["all_steps"] == tops
        assert said["parked_steps"] == parked
        live = [a for a in tops if self.model.is_live(a) and a not in parked]
        assert said["claimed_steps"] == live

    def _essence(self) -> dict:
        """All but how long leases run."""
        now = wanted(self.model)
        steps = {a: {**row, "until": None} for a, row in now["steps"].items()}
        return {**now, "steps": steps}

    # -- who, where, under which attempt -----------------------------------------------

    def anchor(self, at: int, *, done: bool | None = None) -> str:
        """Of held steps and their substeps, if there are any; or of `done` ones, or of others."""
        steps = self.model.steps
        if done is None:
            some = [a for a in steps if steps[self.model.top_of(a)]["owner"] is not None]
        else:
            some = [a for a in steps if self.model.is_done(self.model.top_of(a)) == done]
        found = some if some and at < 9 else list(steps)
        return found[at % len(found)]

    def item(self, anchor: str, at: int) -> tuple[str, int]:
        known = list(self.model.steps[anchor]["items"])
        return known[at % len(known)] if known and at < 11 else ("task", at)

    def caller(self, who: str, at: int, fence: str) -> dict:
        """Mostly who holds a step; if nobody does, one is claimed first, perhaps a parked one."""
        held = any(step["owner"] is not None for step in self.model.steps.values())
        if who == "holder" and at < 9 and not held:
            for aside in filter(self.model.is_put_aside, self.model.tops()):
                if not self.model.ready():
                    self.call("reset", anchor=aside)
            self.claim_some(OWNERS[at % len(OWNERS)])
        anchor = self.anchor(at)
        top = self.model.steps[self.model.top_of(anchor)]
        owner = (top["owner"] or top["by"] or "red") if who == "holder" else who
        number = top["attempt"]
        attempt = {"current": number, "none": None, "before": number - 1, "after": number + 1}
        return {"anchor": anchor, "owner": owner, "attempt": attempt[fence]}

    def copy(self, old: int) -> str:
        """The text that the caller works from: mostly the agreed one."""
        return self.texts[old % len(self.texts)] if old == 1 else self.model.text

    # -- what workers do ---------------------------------------------------------------

    @rule(
        who=OWNER,
        at=AT,
        lease=LEASES,
        force=st.sampled_from((False, False, False, True)),
        pid=PIDS,
        request=REQUESTS,
        begins=st.booleans(),
        old=TIMES,
        lost=LOST,
    )
    def claim_one(self, who, at, lease, force, pid, request, begins, old, lost):
        how = {"lease": lease, "force": force, "pid": pid, "request": request, "begins": begins}
        step = self.anchor(at, done=False)
        self.call("claim", owner=who, step=step, text=self.copy(old), lost=lost, **how)

    @rule(
        who=OWNER,
        lease=LEASES,
        force=st.sampled_from((False, False, False, True)),
        pid=PIDS,
        request=REQUESTS,
        lost=LOST,
    )
    def claim_next(self, who, lease, force, pid, request, lost):
        how = {"lease": lease, "force": force, "pid": pid, "request": request, "begins": False}
        self.call("claim", owner=who, step=None, text=self.model.text, lost=lost, **how)

    @precondition(_there_is_work)
    @rule(who=WHO, at=AT, fence=FENCE, lost=LOST)
    def start(self, who, at, fence, lost):
        self.call("start", lost=lost, **self.caller(who, at, fence))

    @precondition(_there_is_work)
    @rule(who=WHO, at=AT, fence=FENCE, lease=st.none() | LEASES, lost=LOST)
    def heartbeat(self, who, at, fence, lease, lost):
        self.call("heartbeat", lost=lost, lease=lease, **self.caller(who, at, fence))

    @precondition(_there_is_work)
    @rule(who=WHO, at=AT, fence=FENCE, which=AT, status=STATUS, why=REASON, old=TIMES, lost=LOST)
    def tick(self, who, at, fence, which, status, why, old, lost):
        caller = self.caller(who, at, fence)
        entry = (None, self.item(caller["anchor"], which), status, why)
        self.update(caller, entries=[entry], old=old, lost=lost)

    @precondition(_there_is_work)
    @rule(
        who=WHO,
        at=AT,
        fence=FENCE,
        entries=st.lists(st.tuples(AT, AT, STATUS, REASON), max_size=3),
        rest=st.booleans(),
        lost=LOST,
    )
    def batch(self, who, at, fence, entries, rest, lost):
        """Some items of the step and its substeps, and perhaps all that is left."""
        caller, named = self.caller(who, at, fence), []
        members = self.model.family(caller["anchor"])
        for place, which, *rest_of_it in entries:
            step = members[place % len(members)] if place < 11 else self.anchor(which)
            named.append((step, self.item(step, which), *rest_of_it))
        self.update(caller, entries=named, rest=rest, lost=lost)

    @precondition(_there_is_work)
    @rule(who=WHO, at=AT, fence=FENCE, kind=st.sampled_from((None, "task", "test")), status=STATUS)
    def sweep(self, who, at, fence, kind, status):
        self.update(self.caller(who, at, fence), every=[(kind, status)])

    @precondition(_there_is_work)
    @rule(who=WHO, at=AT, fence=FENCE, lost=LOST)
    def close(self, who, at, fence, lost):
        self.update(self.caller(who, at, fence), rest=True, lost=lost)

    def update(self, caller: dict, *, old: int = 0, lost: bool = False, **what) -> None:
        given = {"entries": [], "every": [], "rest": False, **what}
        self.call("update", lost=lost, text=self.copy(old), **caller, **given)

    @precondition(_there_is_work)
    @rule(
        what=st.sampled_from(WORDS),
        who=WHO,
        at=AT,
        fence=st.sampled_from(("current", "current", "current", "before")),
        number=st.integers(1, 3),
        passed=st.booleans(),
        old=TIMES,
    )
    def leave_word(self, what, who, at, fence, number, passed, old):
        """A note, what an agent used, what a command proved, or which process stands for it."""
        self.say(what, self.caller(who, at, fence), number, passed=passed, old=old)

    @precondition(_there_is_work)
    @rule(
        deeds=st.lists(st.sampled_from((*WORDS, "start", "heartbeat")), min_size=2, max_size=5),
        at=st.integers(0, 8),
        number=st.integers(1, 3),
    )
    def toil(self, deeds, at, number):
        """What somebody does who minds the own step: hardly any of it is refused."""
        for deed in deeds:
            caller = self.caller("holder", at, "current")
            if deed in WORDS:
                self.say(deed, caller, number, passed=True)
            else:
                self.call(deed, **caller, **({"lease": None} if deed == "heartbeat" else {}))

    def say(self, what: str, caller: dict, number: int, *, passed: bool, old: int = 0) -> None:
        if what == "verify" and number < 3:
            # Mostly of a part that has something to prove.
            family = self.model.family(self.model.top_of(caller["anchor"]))
            proved = [a for a in family if any(k == "checkpoint" for k, _ in self.item_keys(a))]
            caller |= {"anchor": (*proved, caller["anchor"])[0]}
        checkpoints = sum(kind == "checkpoint" for kind, _ in self.item_keys(caller["anchor"]))
        findings = [(n, passed) for n in range(checkpoints)] or [(number, passed)]
        given = {
            "artifact": {},
            "report": {"tokens": number},
            "verify": {"text": self.copy(old), "findings": findings},
            "adopt": {"pid": number},
            "let_go": {},
        }
        self.call(what, lost=True, **caller, **given[what])

    def item_keys(self, anchor: str) -> list[tuple[str, int]]:
        return list(self.model.steps[anchor]["items"])

    @precondition(_there_is_work)
    @rule(
        who=WHO,
        at=AT,
        fence=FENCE,
        force=st.sampled_from((None, None, "enough")),
        commit=st.sampled_from((None, "c1", "c2")),
        old=TIMES,
        lost=LOST,
    )
    def complete(self, who, at, fence, force, commit, old, lost):
        how = {"text": self.copy(old), "force": force, "commit": commit, "lost": lost}
        self.call("complete", **self.caller(who, at, fence), **how)

    @precondition(_now_and_then)
    @rule(who=OWNER, commit=st.sampled_from((None, "c1")), lost=LOST)
    def finish(self, who, commit, lost):
        """A whole step: claim the next, close all of it, complete it."""
        text = self.model.text
        got = self.claim_some(who, begins=True)
        if got and got["claimed"]:
            mine = {"anchor": got["anchor"], "owner": who, "attempt": got["attempt"], "text": text}
            self.call("update", **mine, entries=[], every=[], rest=True, lost=lost)
            self.call("complete", **mine, force=None, commit=commit, lost=lost)

    @precondition(_there_is_work)
    @rule(
        who=WHO,
        at=AT,
        fence=FENCE,
        force=st.booleans(),
        park=st.sampled_from((False, False, True)),
        failure=st.sampled_from((None, None, "broken")),
        interrupted=st.sampled_from((False, False, True)),
        lost=LOST,
    )
    def release(self, who, at, fence, force, park, failure, interrupted, lost):
        how = {"force": force, "park": park, "failure": failure, "interrupted": interrupted}
        self.call("release", **self.caller(who, at, fence), **how, lost=lost)

    # -- what goes wrong ---------------------------------------------------------------

    @precondition(lambda self: self.sent)
    @rule(which=st.integers(0, 99))
    def do_it_again(self, which):
        """A worker repeats what it did once."""
        self.repeat(*self.sent[which % len(self.sent)])

    @precondition(lambda self: self.outdated())
    @rule(which=st.integers(0, 99))
    def wake_up_late(self, which):
        """The same under an attempt that is over."""
        late = self.outdated()
        self.repeat(*late[which % len(late)])

    def outdated(self) -> list[tuple[str, dict, str, int]]:
        """What was sent under attempts that have ended, or were followed by others."""
        attempts, steps = self.model.attempts, self.model.steps
        found = []
        for each in self.sent:
            _, _, top, number = each
            last = attempts[top].get(number) if top in steps else None
            if last is None or last["outcome"] is not None or steps[top]["attempt"] != number:
                found.append(each)
        return found

    def repeat(self, name: str, how: dict, top: str, number: int) -> None:
        """Under an attempt that was followed by another it changes nothing, nor a claim that ended.

        Of an attempt that is the last one, and has ended, the model says what may still be done.
        """
        known = how.get("anchor", top) in self.model.steps
        if name == "claim":
            attempt = self.model.attempts.get(top, {}).get(number)
            stale = attempt is not None and attempt["outcome"] is not None
        else:
            at = self.model.steps[self.model.top_of(how["anchor"])]["attempt"] if known else None
            stale = number != at
        ended = (name, how, top, number) in self.outdated()
        self._once(name, how, refusal=("E060" if known else "E059") if stale else None)
        self.tally["late " + name, "stale" if stale else "ended" if ended else "not stale"] += 1

    @precondition(_now_and_then)
    @rule(seconds=st.sampled_from((0.001, 1, 61, 3600, 7201, 86400, -1, -3600, -86400)))
    def clock_jumps(self, seconds):
        self.lab.clock.advance(seconds)
        self.room.now = self.lab.clock.now
        self.tally["clock", "forward" if seconds > 0 else "back"] += 1
        self.turn += 1
        self._compare_lists()

    @precondition(_now_and_then)
    @rule(what=st.sampled_from(("ends", "starts", "reboot", "container")), number=st.integers(1, 3))
    def machine_changes(self, what, number):
        """A process ends or another has its number; a reboot; a look from another container.

        Of another boot or container nothing is proven, and only the lease counts.
        """
        if what == "reboot":
            self.room.boot += 1
            self.room.running.clear()
        elif what == "container":
            self.room.namespace = number
        else:
            self.room.running.pop(number, None)
            self.room.running |= {number: str(self.room.now)} if what == "starts" else {}
        self.tally["machine", what] += 1
        self.turn += 1
        self._compare_lists()

    # -- what people do ----------------------------------------------------------------

    @precondition(_somebody_works)
    @rule(at=AT, lost=LOST)
    def reset(self, at, lost):
        self.call("reset", anchor=self.anchor(at), lost=lost)

    @precondition(lambda self: _something_is_done(self) and _now_and_then(self))
    @rule(at=AT, force=st.booleans(), lost=LOST)
    def reopen(self, at, force, lost):
        self.call("reopen", anchor=self.anchor(at, done=True), force=force, lost=lost)

    @precondition(_something_is_deferred)
    @rule(what=st.sampled_from(("accept", "reject")), at=AT, which=AT, lost=LOST)
    def judge(self, what, at, which, lost):
        """Of a step with deferred items, if there is one: all of them, or one item."""
        steps = self.model.steps
        some = [a for a in steps if self.model.counts(a)["deferred"]]
        anchor = some[at % len(some)] if some and at < 9 else self.anchor(at)
        item = self.item(anchor, which) if which % 2 else None
        self.call(what, anchor=anchor, item=item, lost=lost)

    @precondition(_now_and_then)
    @rule(
        what=st.sampled_from(
            ("pause", "resume", "resume", "archive", "undo", "undo", "init", "recount")
        ),
        old=TIMES,
        lost=LOST,
    )
    def administer(self, what, old, lost):
        if what == "init":
            self.call("init", text=self.copy(old), lost=lost)
        elif what == "recount":
            self.call("recount")
        elif what in ("archive", "undo"):
            self.call("archive", undo=what == "undo", lost=lost)
        else:
            self.call("pause", paused=what == "pause", lost=lost)

    @precondition(lambda self: _now_and_then(self) and not engines.is_postgres(self.lab.url))
    @rule(back=st.sampled_from((True, True, False)))
    def copy_or_restore(self, back):
        """A copy of all there is; or it takes the place of all, and what came since is void.

        Copies of a state in PostgreSQL are the server's business.
        """
        if not back or self.copied is None:
            self.back_up()
            return
        kept, parts, reached = self.copied
        self.model, self.editor.parts = copy.deepcopy(kept), list(parts)
        self.model.room = self.room
        # So many events have come since, and so many claims at most.
        raised = ((self._reached() - reached) // 100 + 1) * 100
        self.before["events"] = []
        self.call("restore", source=self.spare, raised=raised)

    def back_up(self) -> None:
        source, target = (sqlite3.connect(path) for path in (self.lab.url[9:], self.spare))
        source.backup(target)
        source.close()
        target.close()
        self.model.room = None
        self.copied = copy.deepcopy(self.model), list(self.editor.parts), self._reached()
        self.model.room = self.room
        self.tally["copy", "done"] += 1
        self.turn += 1
        self._thin()

    def _thin(self) -> None:
        """As with every backup: old signs of life leave the log, and nothing else changes."""
        before = self.before
        backup.thin(self.lab.store)
        self.before = self.dump()
        lost = [event for event in before["events"] if event not in self.before["events"]]
        assert {event["kind"] for event in lost} <= {"heartbeat"}
        assert {**before, "events": []} == {**self.before, "events": []}

    def _reached(self) -> int:
        return self.lab.rows("select seq from sqlite_sequence where name = 'events'")[0]["seq"]

    @precondition(_now_and_then)
    @rule(here=st.sampled_from((False, False, True)), done=st.booleans())
    def put_away(self, here, done):
        """Records that nobody needs are dropped; what was written of them brings them back."""
        before = self.before
        answer = self.call("prune", here=here, done=done)
        if answer["pruned"]:
            assert self.before == before, "what was pruned came back otherwise"

    @precondition(_now_and_then)
    @rule(at=AT, attempt=TIMES, force=st.booleans(), lost=LOST)
    def reconcile(self, at, attempt, force, lost):
        anchor = self.model.top_of(self.anchor(at))
        self.call("reconcile", anchor=anchor, attempt=attempt, force=force, lost=lost)

    @precondition(_something_is_put_aside)
    @rule(at=AT, attempt=TIMES, lost=LOST)
    def reconcile_parked(self, at, attempt, lost):
        """Git has it, though nobody was to go on with it: about as often as of all others."""
        some = [a for a in self.model.tops() if self.model.is_put_aside(a)]
        # A substep that it completes is progress, and so no longer parked: mostly one without.
        plain = [a for a in some if self.model.unfinished(a) == [a]]
        some = plain if plain and at < 9 else some
        anchor = some[at % len(some)]
        self.call("reconcile", anchor=anchor, attempt=attempt, force=False, lost=lost)
        self.tally["reconcile", "of a parked step"] += 1

    @precondition(_now_and_then)
    @rule(edits=EDITS, flags=st.sampled_from((FLAGS, FLAGS, ())), lost=LOST)
    def revise(self, edits, flags, lost):
        self.accept(edits, flags, lost=lost)

    def accept(self, edits: list[tuple], flags: tuple[str, ...], *, lost: bool = False) -> None:
        """The text is edited, and accepted; if that is refused, the edits are undone."""
        before = list(self.editor.parts)
        for edit in edits:
            self.editor.edit(*edit)
        text = plan_drafts.text(self.editor.parts)
        parts = list(self.editor.parts)
        if self.call("revise", parts=parts, text=text, flags=flags, lost=lost) is None:
            self.editor.parts = before
        elif text not in self.texts:
            self.texts.append(text)


def run(number: int, *, runs: int, steps: int, shrink: bool = True) -> Counter:
    """So many random histories of so many steps from one seed; what happened in them."""

    class Run(Machine):
        tally: ClassVar[Counter] = Counter()

    how = settings(
        max_examples=runs,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        phases=[Phase.generate, *([Phase.shrink] if shrink else [])],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(seed(number)(Run), settings=how)
    return Run.tally
