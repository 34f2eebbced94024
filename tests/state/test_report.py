"""What agents report goes to their attempt; an attempt that failed says so."""

import pytest

from support.state import KEY
from tugtool import state
from tugtool.errors.state import InvalidEntry, NotOwner, Superseded
from tugtool.state.attempts import Note


def report(lab, step="step-1", *, owner="red", attempt=1, **how):
    how.setdefault("role", "coder")
    return state.report(lab.store, KEY, step, owner=owner, attempt=attempt, **how)


def attempts(lab) -> list[dict]:
    return lab.rows("select * from attempts order by step_anchor, number")


def test_what_agents_used_adds_up_and_what_nobody_told_stays_unknown(lab):
    lab = lab("1 t")
    lab.claim()
    report(lab)
    [row] = attempts(lab)
    assert (row["tokens"], row["cost_microdollars"]) == (None, None)
    report(lab, tokens=5)
    told = report(lab, tokens=7, cost_microdollars=3)
    assert (told["tokens"], told["cost_microdollars"]) == (12, 3)
    report(lab)
    [row] = attempts(lab)
    assert (row["tokens"], row["cost_microdollars"]) == (12, 3)
    assert state.spent_tokens(lab.store, KEY) == 12
    assert state.spent_microdollars(lab.store, KEY) == 3


def test_a_report_is_a_sign_of_life(lab):
    lab = lab("1 t")
    until = lab.claim(lease_seconds=60)["lease_expires_at"]
    lab.clock.advance(30)
    report(lab)
    assert lab.rows("select * from steps")[0]["lease_expires_at"] > until


def test_a_report_may_leave_a_note(lab):
    lab = lab("1 t")
    lab.claim()
    report(lab, role="reviewer", note=Note("reviewer_verdict", "fine", "{}"))
    [note] = lab.rows("select * from step_artifacts")
    assert (note["kind"], note["summary"], note["content"]) == ("reviewer_verdict", "fine", "{}")
    kinds = [row["kind"] for row in lab.rows("select * from events order by seq")]
    assert kinds[-2:] == ["agent", "artifact"]


def test_a_note_without_a_known_kind_is_refused():
    with pytest.raises(InvalidEntry, match="no kind"):
        Note("opinion", "x")


def test_whoever_completed_a_step_may_still_report_and_no_one_else(lab):
    lab = lab("1 t")
    lab.finish("step-1")
    report(lab, role="auditor", tokens=4)
    assert attempts(lab)[0]["tokens"] == 4
    with pytest.raises(NotOwner):
        report(lab, owner="blue")


def test_a_superseded_attempt_reports_nothing(lab):
    lab = lab("1 t")
    lab.claim()
    lab.claim("blue", force=True)
    with pytest.raises(Superseded):
        report(lab, tokens=1)
    assert all(row["tokens"] is None for row in attempts(lab))


def test_a_step_that_nobody_attempted_takes_a_report_too(lab):
    lab = lab("1 t")
    lab.claim()
    lab.close("step-1")
    lab.complete("step-1")
    with lab.store.write(KEY) as tx:
        tx.run("update steps set attempt = 9 where plan_path = :plan")
    told = report(lab, attempt=9, tokens=3)
    assert told["tokens"] == 3
    assert state.spent_tokens(lab.store, KEY) == 0


def test_an_attempt_that_failed_says_why_and_frees_its_step(lab):
    lab = lab("1 t")
    lab.claim()
    how = {"owner": "red", "attempt": 1, "failure": "the coder hung", "leaving_work": True}
    _, unsaved = state.release(lab.store, KEY, "step-1", **how)
    assert unsaved is True
    assert attempts(lab)[0]["outcome"] == "failed"
    assert lab.rows("select * from steps")[0]["status"] == "pending"
    [event] = [row for row in lab.rows("select * from events") if row["kind"] == "release"]
    assert '"failed": "the coder hung"' in event["detail"]
