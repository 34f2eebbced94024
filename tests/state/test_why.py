"""why: the truth about a step, in words and as data. It agrees with claim and with ready."""

import shlex
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import Phase, given, settings

from state.test_events import QUIET, plans
from state.test_stats import WALKS
from support.proving import examined
from support.state import KEY, NOON, Lab
from support.state_walk import NOBODY, Walk
from tugtool import state
from tugtool.cli import parse
from tugtool.cli.draw.canvas import local
from tugtool.errors import TugError
from tugtool.errors.state import NotReady
from tugtool.state import explanation, record
from tugtool.system import clock

AT = clock.text(NOON)

LISTS = {
    "completed": {"completed_steps"},
    "parked": {"parked_steps"},
    "blocked": {"blocked_steps"},
    "held": {"claimed_steps"},
    "ready": {"ready_steps"},
    "expired": {"expired_claims", "ready_steps"},
    "gone": {"expired_claims", "ready_steps"},
    "paused": {"expired_claims", "ready_steps"},
}


def why(lab: Lab, step: str, **how: object) -> dict:
    return state.why(lab.store, KEY, step, **how)


def said(lab: Lab, step: str, **how: object) -> str:
    data = why(lab, step, **how)
    return "\n".join([*data["sentences"], *data["frees"]])


def the_answers_agree_with_ready(lab: Lab, walk: Walk) -> None:
    ready, paused = lab.ready(), lab.plan()["paused_at"] is not None
    for top in walk.tops:
        data = why(lab, top)
        lists = {name for name in set().union(*LISTS.values()) if top in ready[name]}
        assert lists, top
        assert lists <= LISTS[data["situation"]], (top, data["situation"])
        assert data["claimable"] == ("ready_steps" in lists and not paused)
        assert (data["situation"] == "paused") == (paused and "ready_steps" in lists)
        the_causes_are_the_ends_of_the_chains(lab, data)


def the_causes_are_the_ends_of_the_chains(lab: Lab, data: dict) -> None:
    """By the plainest reading: go on from whatever cannot be worked on by itself."""
    ends: set[str] = set()

    def follow(anchor: str) -> None:
        about = why(lab, anchor)
        stuck = about["situation"] in ("blocked", "expired", "gone") and about["waiting_for"]
        for each in about["waiting_for"] if stuck else []:
            follow(each["anchor"])
        ends.update([] if stuck else [anchor])

    for each in data["waiting_for"]:
        follow(each["anchor"])
    assert {each["anchor"] for each in data["root_causes"]} == ends


def a_stranger_gets_what_is_claimable(lab: Lab, walk: Walk) -> None:
    for number, anchor in enumerate(walk.anchors):
        data = why(lab, anchor)
        try:
            got = lab.claim(f"stranger {number}", anchor)["claimed"]
        except TugError as error:
            got = False
            waits = isinstance(error, NotReady) and error.facts.get("waiting_for")
            if waits:
                assert [each["anchor"] for each in data["waiting_for"]] == waits
                assert data["situation"] in ("blocked", "expired", "gone")
        assert data["claimable"] == got, (anchor, data["situation"])


def hold(lines: list[str], operations: list[tuple[str, str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        lab = Lab(Path(directory), *lines, max_attempts=3)
        walk = Walk(lab)
        for operation in operations:
            walk.act(*operation)
            the_answers_agree_with_ready(lab, walk)
        a_stranger_gets_what_is_claimable(lab, walk)
        lab.store.close()


@examined(short=30)
@given(plans(), WALKS)
def test_why_agrees_with_claim_and_ready_after_any_history(lines, operations):
    hold(lines, operations)


#: For `why` alone: claim and ready know better.
NOBODY_DIES = SimpleNamespace(**{**vars(record), "gone": lambda tx: set()})
FAULTS = {
    "every claim is free": (explanation._Scene, "is_free", lambda self, top: True),
    "dead holders hold": (explanation, "record", NOBODY_DIES),
    "substeps can be claimed": (explanation._Scene, "is_claimable", lambda self, anchor: True),
    "nobody needs anything": (explanation._Scene, "needs", lambda self, anchor: {}),
    "chains end at once": (explanation._Scene, "onward", lambda self, anchor: []),
}


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_harness_notices_a_planted_fault(monkeypatch, fault):
    monkeypatch.setattr(*FAULTS[fault])
    search = settings(
        max_examples=200,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=QUIET,
    )
    with pytest.raises(AssertionError):
        search(given(plans(), WALKS)(hold))()


def test_a_ready_step_can_be_claimed_by_anybody(lab):
    lab = lab("1 t")
    data = why(lab, "step-1")
    assert (data["situation"], data["claimable"], data["owner"]) == ("ready", True, None)
    assert data["sentences"] == ["step-1 is ready, and no worker has claimed it."]
    assert data["frees"] == ["Any worker may claim it: tugcode claim work --step step-1"]


def test_a_held_step_says_by_whom_until_when_and_when_its_holder_was_last_heard_of(lab):
    lab = lab("1 t")
    lab.claim()
    lab.clock.advance(900)
    lab.beat("step-1")
    lab.clock.advance(900)
    data = why(lab, "step-1", owner="red")
    assert (data["situation"], data["yours"], data["claimable"]) == ("held", True, False)
    assert data["sentences"] == [
        "step-1 is at work: red (you) holds it until 2026-02-23T14:15:00.000Z "
        "(for another 1h 45m).",
        "It is attempt 1, claimed at 2026-02-23T12:00:00.000Z (30m ago); "
        "the last sign of life was at 2026-02-23T12:15:00.000Z (15m ago).",
    ]
    lapse = (
        "Without a sign of life of its holder it is free at 2026-02-23T14:15:00.000Z, in 1h 45m."
    )
    assert data["frees"] == ["You hold it: go on, complete it or give it back.", lapse]
    assert why(lab, "step-1", owner="blue")["frees"] == [
        "Its holder completes it or gives it back.",
        lapse,
        "To wait for it: tugcode claim work --step step-1 --wait 600",
        "If that worker is gone, this frees it and saves its uncommitted work first: "
        "tugcode reset work step-1",
    ]
    assert why(lab, "step-1", owner="blue")["yours"] is False
    assert why(lab, "step-1")["yours"] is False


def test_an_expired_lease_says_so(lab):
    lab = lab("1 t")
    lab.claim(lease_seconds=60)
    lab.clock.advance(120)
    data = why(lab, "step-1")
    assert (data["situation"], data["claimable"]) == ("expired", True)
    assert "whose lease ran out at 2026-02-23T12:01:00.000Z (1m ago)" in data["sentences"][0]


def test_a_holder_whose_process_is_gone_is_not_taken_for_a_worker(lab):
    lab = lab("1 t")
    lab.claim(holder_pid=NOBODY, lease_seconds=60)
    data = why(lab, "step-1")
    assert (data["situation"], data["claimable"], data["holder_gone"]) == ("gone", True, True)
    assert "red, whose process no longer runs" in data["sentences"][0]
    lab.clock.advance(120)
    data = why(lab, "step-1")
    assert data["situation"] == "expired"
    assert "The process that held it no longer runs." in data["sentences"]


def test_a_parked_step_waits_for_a_person(lab):
    lab = lab("1 t")
    lab.claim()
    lab.release("step-1", park_reason="no access")
    lab.clock.advance(60)
    data = why(lab, "step-1")
    assert (data["situation"], data["claimable"]) == ("parked", False)
    assert data["sentences"][0].endswith("(1m ago): no access.")
    assert data["frees"] == ["A person frees it, after looking at: tugcode review work"]


def test_claims_without_progress_are_counted_and_the_last_one_parks(lab):
    lab = lab("1 t", max_attempts=3)
    for _ in range(2):
        lab.claim()
    counted = "It was claimed 2 times of at most 3 without progress."
    assert counted in why(lab, "step-1", max_attempts=3)["sentences"]
    lab.claim()
    data = why(lab, "step-1", max_attempts=3)
    assert (data["situation"], data["owner"]) == ("parked", "red")
    assert "3 claims without progress" in data["sentences"][0]
    assert "It is held by red until" in data["sentences"][1]
    assert "Or its holder completes one of its items." in data["frees"]
    lab.clock.advance(7201)
    assert "but the lease ran out at 2026-" in said(lab, "step-1")


def test_a_blocked_step_names_what_it_waits_for_and_where_the_chain_ends(lab):
    lab = lab("1 t", "2 t < 1", "3 t < 2", "4 t", "4.1 t < 3", "5 t")
    lab.claim("red")
    data = why(lab, "step-4")
    assert (data["situation"], data["claimable"]) == ("blocked", False)
    assert [
        (each["anchor"], each["needed_by"], each["situation"], each["waiting_for"])
        for each in data["waiting_for"]
    ] == [("step-3", ["step-4-1"], "blocked", ["step-2"])]
    assert [(e["anchor"], e["situation"], e["owner"]) for e in data["root_causes"]] == [
        ("step-1", "held", "red")
    ]
    assert data["sentences"] == [
        "step-4 waits for other steps.",
        "The substep step-4-1 waits for step-3, which itself waits for step-2.",
        "In the end: step-1 is at work: red holds it until 2026-02-23T14:00:00.000Z "
        "(for another 2h).",
    ]
    assert data["frees"] == ["It is free when step-3 is completed."]


def test_what_can_be_done_about_the_cause_is_said(lab):
    lab = lab("1 t", "2 t", "3 t < 1 2")
    lab.claim("red", "step-2")
    lab.release("step-2", park_reason="p")
    assert why(lab, "step-3")["frees"] == [
        "It is free when step-1, step-2 are completed.",
        "step-1 can be claimed now: tugcode claim work --step step-1",
        "step-2 waits for a person, who looks at: tugcode review work",
    ]


def test_many_causes_are_counted_and_not_all_told(lab):
    wide = [f"{n} t" for n in range(1, 21)]
    lab = lab(*wide, f"21 t < {' '.join(str(n) for n in range(1, 21))}", "22 t < 21")
    data = why(lab, "step-21")
    assert len(data["waiting_for"]) == len(data["root_causes"]) == 20
    assert "There are 17 more that it waits for." in data["sentences"]
    assert "There are 17 more that all this waits for." in why(lab, "step-22")["sentences"]
    for step in ("step-21", "step-22"):
        assert len(said(lab, step).splitlines()) <= 15


def test_every_step_of_a_tower_of_diamonds_is_looked_at_once(lab, monkeypatch):
    lines = ["1 t"]
    for n in range(2, 60, 2):
        before = f"{n - 1} {n - 2}" if n > 2 else "1"
        lines += [f"{n} t < {before}", f"{n + 1} t < {before}"]
    lab = lab(*lines)
    looked = []
    needs = explanation._Scene.needs
    monkeypatch.setattr(
        explanation._Scene,
        "needs",
        lambda self, anchor: looked.append(anchor) or needs(self, anchor),
    )
    assert [each["anchor"] for each in why(lab, "step-59")["root_causes"]] == ["step-1"]
    assert len(looked) < 3 * len(lines)


def test_a_substep_stands_with_its_step_unless_it_waits_itself(lab):
    lab = lab("1 t", "1.1 t", "1.2 t < 1.1 1", "2 t", "3 t", "3.1 t", "3.2 < 2")
    data = why(lab, "step-1-1")
    assert (data["situation"], data["claimable"]) == ("ready", False)
    assert data["frees"] == ["Any worker may claim it: tugcode claim work --step step-1"]
    assert "It is a substep and is claimed with its step step-1." in data["sentences"]
    lab.claim("red", "step-1")
    assert why(lab, "step-1-1")["situation"] == "held"
    data = why(lab, "step-1-2")
    assert (data["situation"], data["owner"]) == ("blocked", "red")
    assert "It waits for step-1-1." in data["sentences"]
    assert (
        "It is held by red until 2026-02-23T14:00:00.000Z (for another 2h)." in (data["sentences"])
    )
    data = why(lab, "step-3-1")
    assert data["situation"] == "blocked"
    assert "The substep step-3-2 waits for step-2." in data["sentences"]


def test_a_step_that_its_substep_waits_with_is_named(lab):
    lab = lab("1 t", "2 t < 1", "2.1 t", "3 t < 2.1")
    (blocker,) = why(lab, "step-3")["waiting_for"]
    assert (blocker["anchor"], blocker["waiting_for"]) == ("step-2-1", ["step-2"])
    text = said(lab, "step-3")
    assert "It waits for step-2-1, whose step step-2 is not ready either." in text
    assert "Its step step-2 waits for step-1." in said(lab, "step-2-1")
    assert [each["anchor"] for each in why(lab, "step-3")["root_causes"]] == ["step-1"]


def test_a_holder_may_finish_although_a_dependency_was_reopened(lab):
    lab = lab("1 t", "2 t < 1")
    lab.finish("step-1")
    lab.claim("red")
    lab.reopen("step-1", force=True)
    data = why(lab, "step-2")
    assert data["situation"] == "held"
    assert [each["anchor"] for each in data["waiting_for"]] == ["step-1"]
    assert not [way for way in data["frees"] if "it is free at" in way]
    lab.clock.advance(7201)
    data = why(lab, "step-2")
    assert (data["situation"], data["claimable"]) == ("expired", False)
    assert "It is free when step-1 is completed." in data["frees"]


def test_a_paused_plan_is_the_reason_where_nothing_else_is(lab):
    lab = lab("1 t", "2 t < 1", "3 t")
    lab.claim("red", "step-3")
    state.pause(lab.store, KEY, actor="ada")
    lab.clock.advance(60)
    data = why(lab, "step-1")
    assert (data["situation"], data["claimable"], data["paused_by"]) == ("paused", False, "ada")
    assert "The plan is paused by ada since 2026-02-23T12:00:00.000Z (1m ago)." in data["sentences"]
    assert data["frees"] == ["The plan goes on when a person resumes it."]
    assert why(lab, "step-2")["situation"] == "blocked"
    assert why(lab, "step-3")["situation"] == "held"
    lab.clock.advance(8000)
    assert why(lab, "step-3")["situation"] == "paused"
    assert (
        "It is held by red but the lease ran out at 2026-02-23T14:00:00.000Z."
        in (why(lab, "step-3")["sentences"])
    )


def test_somebody_paused_it_also_where_nobody_said_who(lab):
    lab = lab("1 t")
    lab.pause()
    assert "The plan is paused since" in said(lab, "step-1")
    with lab.store.write(KEY) as tx:
        tx.run("delete from events")
    assert why(lab, "step-1")["paused_by"] is None


def test_nothing_of_an_archived_plan_can_be_claimed(lab):
    lab = lab("1 t", "2 t < 1")
    lab.finish("step-1")
    with lab.store.write(KEY) as tx:
        tx.run("update plans set status = 'archived'")
    data = why(lab, "step-2")
    assert (data["situation"], data["claimable"]) == ("archived", False)
    assert data["frees"] == ["A person brings the plan back."]
    assert why(lab, "step-1")["situation"] == "completed"


def test_a_completed_step_says_when_by_whom_and_that_it_was_forced(lab):
    lab = lab("1 t", "2 t", "2.1", "3 t < 2")
    lab.claim()
    lab.complete("step-1", force_reason="enough", commit="1a2b")
    lab.clock.advance(60)
    data = why(lab, "step-1", drift=True)
    assert (data["situation"], data["claimable"], data["frees"]) == ("completed", False, [])
    assert (data["waiting_for"], data["root_causes"]) == ([], [])
    assert data["sentences"] == [
        "step-1 was completed by red at 2026-02-23T12:00:00.000Z (1m ago), commit 1a2b.",
        "It was forced: enough.",
    ]
    with lab.store.write(KEY) as tx:
        tx.run("update steps set completed_by = null, commit_hash = null, complete_reason = null")
    assert why(lab, "step-1")["sentences"] == [
        "step-1 was completed at 2026-02-23T12:00:00.000Z (1m ago)."
    ]


def test_a_reopened_step_says_when_and_why(lab):
    lab = lab("1 t", "1.1 t")
    lab.finish("step-1")
    lab.clock.advance(60)
    lab.reopen("step-1", reason="x" * 500, actor="ada")
    for step in ("step-1", "step-1-1"):
        data = why(lab, step)
        assert data["reopened"]["at"] == "2026-02-23T12:01:00.000Z"
        told = [each for each in data["sentences"] if "reopened by ada" in each]
        assert told == [
            f"It was reopened by ada at 2026-02-23T12:01:00.000Z (0s ago): {'x' * 98} … {'x' * 98}."
        ]


def test_a_plan_that_changed_cannot_be_claimed_from(lab):
    lab = lab("1 t", "2 t < 1")
    data = why(lab, "step-1", drift=True)
    assert (data["situation"], data["claimable"]) == ("ready", False)
    assert data["frees"] == ["The plan file and the record have to agree again: tugcode diff work"]
    assert "claim" not in "".join(why(lab, "step-2", drift=True)["frees"])


def test_a_step_that_does_not_exist_is_refused(lab):
    lab = lab("1 t")
    with lab.refuses("E059", "step-7"):
        why(lab, "step-7")


def test_no_sentence_suggests_a_forced_or_destructive_command(lab):
    source = Path(explanation.__file__).read_text() + Path(explanation.__file__).read_text()
    for word in ("--force", "state reset", "state reopen", "state release", "reconcile", "resume "):
        assert word not in source
    lab = lab("1 t", "2 t < 1", "3 t")
    lab.claim("red", "step-3")
    ways = [way for step in ("step-1", "step-2", "step-3") for way in why(lab, step)["frees"]]
    commands = [shlex.split(way.partition("tugcode ")[2]) for way in ways if "tugcode" in way]
    assert [parse.parse(words).path for words in commands] == [*["state claim"] * 3, "state reset"]
    # It says for which case it is, and what becomes of the work.
    assert ways[-1].startswith(
        "If that worker is gone, this frees it and saves its uncommitted work"
    )


def test_the_command_says_the_same_in_text_and_in_json(desk):
    desk = desk("1 t", "2 t < 1")
    desk.ok("claim", "work", at=desk.blue)
    data = desk.ok("why", "work", "#step-2")
    assert (data["situation"], data["drift"], data["max_attempts"]) == ("blocked", False, 5)
    held = desk.text("why", "work", "step-1").out
    assert "step-1 is at work: blue holds it until" in held
    assert "\nNext\n  Its holder completes it or gives it back.\n" in held
    assert f"until {local(data['root_causes'][0]['lease_expires_at'])} (for another" in held
    assert "(you)" in desk.text("why", "work", "step-1", at=desk.blue).out


def test_the_command_notices_that_the_plan_file_changed_or_is_gone(desk):
    desk = desk("1 t")
    assert desk.ok("why", "work", "step-1")["claimable"] is True
    desk.plan.write_text(desk.plan.read_text() + "\nmore\n")
    (desk.red / ".tugtool" / "tugplan-work.md").unlink(missing_ok=True)
    assert desk.ok("why", "work", "step-1")["drift"] is True
    desk.plan.unlink()
    assert desk.ok("why", "work", "step-1")["claimable"] is False
    desk.plan.mkdir()
    assert desk.ok("why", "work", "step-1")["drift"] is True


def test_hostile_text_in_a_reason_is_harmless(desk):
    desk = desk("1 t")
    desk.ok("claim", "work")
    reason = "\x1b[31mred\nalert" + "x" * 5000
    desk.ok("release", "work", "step-1", "--park", "--reason", reason)
    text = desk.text("why", "work", "step-1").out
    assert "\x1b" not in text
    assert "redalert" in text.replace(" ", "")
    assert max(map(len, text.splitlines())) < 500


def test_the_last_attempt_that_failed_is_told_until_the_step_is_done(lab):
    lab = lab("1")
    assert "failed" not in said(lab, "step-1")
    lab.claim("red")
    lab.release("step-1", "red", failure="the tests do not run")
    assert "(0s ago): the tests do not run." in said(lab, "step-1")
    lab.claim("red")
    lab.complete("step-1", "red")
    assert "failed" not in said(lab, "step-1")


def test_a_failure_that_the_reason_for_parking_has_is_told_once(lab):
    lab = lab("1", max_attempts=1)
    lab.claim("red")
    lab.release("step-1", "red", failure="the tests do not run")
    assert said(lab, "step-1").count("the tests do not run") == 1


def test_the_reason_of_a_pause_is_kept_and_shown(lab):
    lab = lab("1 t", "2 t")
    assert lab.pause(actor="ada", reason="no key")["reason"] == "no key"
    assert lab.pause(reason="again")["reason"] is None  # Nothing changed.
    assert lab.show()["paused_reason"] == state.status(lab.store)["plans"][0]["paused_reason"]
    data = why(lab, "step-1")
    assert (data["paused_by"], data["paused_reason"]) == ("ada", "no key")
    assert f"The plan is paused by ada since {AT} (0s ago): no key." in data["sentences"]
    lab.resume(reason="key found")
    assert lab.show()["paused_reason"] is None
    reasons = [each["detail"] for each in state.log(lab.store, KEY)["events"][-2:]]
    assert reasons == [{"reason": "no key"}, {"reason": "key found"}]


def test_the_reason_of_a_reset_is_shown_until_the_next_claim(lab):
    lab = lab("1 t", "1.1 t")
    lab.claim()
    assert lab.reset("step-1-1", "begin again")["reason"] == "begin again"
    lab.reset("step-1", " ")
    assert why(lab, "step-1")["reset"] is None
    lab.claim()
    lab.release("step-1", park_reason="no key")
    lab.reset("step-1", "the key is there")
    assert why(lab, "step-1")["reset"] == {"at": AT, "by": "person", "reason": "the key is there"}
    said = f"It was reset by person at {AT} (0s ago): the key is there."
    assert said in why(lab, "step-1")["sentences"]
    lab.claim()
    assert why(lab, "step-1")["reset"] is None


def test_pause_reset_and_resume_take_a_reason(desk, tugcode):
    desk = desk("1 t")
    desk.ok("pause", "work", "--reason", "no key")
    assert "paused: no key" in tugcode("-C", desk.red, "status").out
    assert "paused: no key" in desk.text("show", "work").out
    desk.ok("resume", "work", "--reason", "key found")
    desk.ok("claim", "work")
    desk.ok("reset", "work", "step-1", "--reason", "too slow")
    log = desk.text("log", "work", "--all").out
    assert "resumed by red: key found" in log
    assert "reset by red: too slow" in log


def test_a_reset_does_not_promise_to_save_work_that_lies_on_another_machine():
    said = explanation._reset("till:/w")
    assert said.endswith("stays on till, and the next command there saves it")
    assert explanation._reset("/w").endswith("saves its uncommitted work first")
