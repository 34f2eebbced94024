"""Every refusal names a call that its caller can make, with the arguments that are known."""

import pytest

from support.mcp import TASK

HELD = {"step": "step-1", "attempt": 1}
UPDATE = 'next: update(step="step-1", attempt=1, entries=[{'


@pytest.fixture
def there(bench):
    return bench("1 tc", "2 t < 1", "3 t")


@pytest.fixture
def worker(there, inside):
    return inside(there.red)


@pytest.mark.parametrize(
    ("name", "given", "last"),
    [
        ("update", {**HELD, "entries": [{**TASK, "status": "done"}]}, f'{UPDATE}"kind": "task", '),
        ("update", {**HELD, "entries": [{**TASK, "kind": "Tasks"}]}, f'{UPDATE}"kind": "task", '),
        (
            "update",
            {**HELD, "entries": [{"kind": "task", "number": 0, "status": "Completed"}]},
            f'{UPDATE}"kind": "task", "ordinal": 0, "status": "completed"}}])',
        ),
        ("update", {**HELD, "attempt": "1"}, 'next: update(step="step-1", attempt=1)'),
        ("update", {**HELD, "entries": "task 0 done"}, f'{UPDATE}"kind": "task", "ordinal": 0'),
        (
            "complete",
            {"step": "step-1", "message": "x"},
            'next: complete(step="step-1", attempt=N, message="..."), with the attempt that your '
            "claim returned",
        ),
        ("release", HELD, 'next: release(step="step-1", attempt=1, reason="...")'),
        ("note", {**HELD, "text": "hi"}, 'next: note(step="step-1", attempt=1, summary="...")'),
        ("claim", {"wiat": 3}, "next: claim(wait_seconds=3)"),
        ("claim", {"wait_seconds": 120}, "next: claim()"),
        ("show", {"view": "step"}, "next: show(), which lists the steps"),
        ("show", {"view": "Log"}, 'next: show(view="log")'),
        ("show", {"plan": "wrok"}, 'next: show(plan="work")'),
        ("show", {"plan": "work", "step": "step-9", "view": "why"}, 'next: show(plan="work"'),
        ("update", {"step": "step-1", "attempt": 1}, 'next: claim(plan="work", step="step-1")'),
        ("merge", {}, "there is no tool merge: status, show, claim, update, verify, complete"),
        ("clame", {}, "next: claim()"),
    ],
)
def test_a_wrong_call_is_told_the_right_one(worker, name, given, last):
    text = worker.refused(name, **given)
    assert last in text
    assert "(...)" not in text
    assert "stop" not in text


def test_a_call_that_was_mended_works(worker):
    worker.said("claim")
    entry = {"kind": "Task", "number": "0", "status": "done"}
    text = worker.refused("update", **HELD, entries=[entry])
    assert "did you mean task?" in text or "did you mean ordinal?" in text
    assert '"ordinal": 0' in text
    assert "updated 1 item" in worker.said("update", **HELD, entries=[TASK])


def test_the_title_of_a_step_leads_to_its_anchor(there, worker):
    title = there.ok("show", "work")["steps"][1]["title"]
    text = worker.refused("show", step=title.upper(), view="why")
    assert "closest: step-2" in text
    assert 'next: show(step="step-2", view="why")' in text


def test_a_completed_step_leads_to_the_next_claim(worker):
    worker.said("claim", step="step-3")
    held = {"step": "step-3", "attempt": 1}
    worker.said("update", **held, complete_remaining=True)
    worker.said("complete", **held)
    for name, more in (
        ("update", {"entries": [TASK]}),
        ("verify", {}),
        ("release", {"reason": "x"}),
    ):
        text = worker.refused(name, **held, **more)
        assert text.startswith("refused, E050: ")
        assert text.endswith('next: claim(plan="work")')
    assert worker.refused("claim", step="step-3").endswith('next: claim(plan="work")')


def test_a_commit_that_git_does_not_know_leads_to_a_message(worker):
    worker.said("claim")
    worker.said("update", **HELD, complete_remaining=True)
    text = worker.refused("complete", **HELD, commit="deadbeef")
    assert text.startswith("refused, E066: ")
    assert 'next: complete(step="step-1", attempt=1, message="...")' in text


def test_a_step_alone_is_shown_as_a_step(worker):
    assert worker.said("show", step="step-1") == worker.said("show", step="step-1", view="step")


def test_the_picture_of_a_plan_has_anchors_and_leads_on(there, inside, worker):
    assert "anchors: step-1, step-2, step-3" in worker.said("show")
    worker.said("claim")
    mine = worker.said("show")
    assert 'Next: show(plan="work", step="step-1", view="step")' in mine
    for text in (mine, inside(there.blue).said("show"), inside(there.blue, "viewer").said("show")):
        assert 'Next: show(plan="work")\n' not in text
    resource = worker.rpc("resources/read", uri="tug://plan/work")["result"]["contents"][0]
    assert 'Next: show(plan="work", step="step-1", view="step")' in resource["text"]


def test_a_role_is_named_as_it_is_typed(there, inside, worker):
    text = worker.refused("review")
    assert "`tugcode mcp --role operator`; tell the person" in text
    assert "`tugcode mcp --role worker`" in inside(there.red, "viewer").refused("claim")


def test_what_nobody_can_run_may_be_deferred(worker):
    worker.said("claim")
    text = worker.said("update", **HELD, entries=[TASK])
    assert 'what you cannot judge: status="deferred", with a reason' in text


def test_a_plan_that_was_not_paused_is_not_said_to_go_on(there, inside, tugcode):
    person = inside(there.repo.path, "operator")
    said = person.said("steer", plan="work", action="resume", reason="x")
    assert "was not paused" in said
    assert "was not paused" in tugcode("-C", there.repo.path, "resume", "work").out
