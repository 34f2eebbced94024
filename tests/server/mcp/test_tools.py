"""A worker's life through the tools alone, and what they refuse."""

import pytest

from support.mcp import TASK
from tugtool.errors import TugError
from tugtool.server.mcp import commands, refusals, texts
from tugtool.server.mcp.guide import Guide
from tugtool.server.mcp.session import TOOLS

CHECKED = "1 tc | `test -e made` passes"


@pytest.fixture
def there(bench):
    return bench("1 tc", "2 t < 1", "3 t")


@pytest.fixture
def worker(there, inside):
    return inside(there.red)


def _settled(worker, step: str, attempt: int) -> None:
    worker.said("update", step=step, attempt=attempt, complete_remaining=True)


def test_a_step_from_its_claim_to_its_commit(there, worker):
    claimed = worker.said("claim")
    first, second, *_ = claimed.splitlines()
    assert first.startswith("claimed step-1 (attempt 1): ")
    assert second == f"plan: work; worktree: {there.red}"
    assert "text of the step, from the plan:\n#" in claimed
    assert "[ ] task 0: " in claimed
    (there.red / "made").write_text("x")
    refused = worker.refused("complete", step="step-1", attempt=1, message="feat: it")
    assert refused.startswith("refused, E051: ")
    assert 'update(step="step-1", attempt=1, entries=[{"kind": "task"' in refused
    said = worker.said("update", step="step-1", attempt=1, entries=[TASK])
    assert said.startswith("updated 1 item of step-1; 1 open: checkpoint 0\nplan: work")
    _settled(worker, "step-1", 1)
    done = worker.said("complete", step="step-1", attempt=1, message="feat: it", summary="it is")
    assert done.startswith("completed step-1 (commit ")
    assert done.splitlines()[0].endswith('; 2 remain; next: claim(plan="work")')
    assert "made" in there.git("show", "--stat", "HEAD", at=there.red)
    again = worker.said("complete", step="step-1", attempt=1, message="feat: it")
    assert again.startswith("completed already step-1")


def test_a_plan_ends_with_stop(worker):
    for _ in range(3):
        claimed = worker.tool("claim")
        step = claimed.text.split()[1]
        _settled(worker, step, claimed.attempt)
        done = worker.said("complete", step=step, attempt=claimed.attempt, summary="by hand")
    assert "the plan is done" in done
    assert worker.said("claim").splitlines()[0].startswith("claimed: false, all_completed")
    assert "by hand" in worker.said("show", step="step-3", view="step")


def test_nothing_to_claim_says_who_holds_what_and_to_wait(there, inside, worker):
    other = inside(there.blue)
    worker.said("claim")
    other.said("claim")
    text = inside(there.repo.path).said("claim")
    assert text.startswith("claimed: false, no_ready_steps")
    assert f"held: step-1 by {there.red}, step-3 by {there.blue}" in text
    assert "waiting: step-2 for step-1" in text
    assert text.endswith('next: claim(plan="work", wait_seconds=50)')


def test_the_older_of_two_clients_in_one_worktree_is_told_to_stop(there, inside, worker):
    worker.said("claim")
    assert "(attempt 2)" in inside(there.red).said("claim")
    for name, more in (("update", {}), ("note", {"summary": "x"}), ("release", {"reason": "x"})):
        text = worker.refused(name, step="step-1", attempt=1, **more)
        assert text.startswith("refused, E060: ")
        assert "stop: true; the step is no longer yours. Change nothing more; claim again." in text
        assert text.endswith('next: claim(plan="work")')
    text = worker.refused("complete", step="step-1", attempt=1, message="x")
    assert "stop: true" in text
    stranger = inside(there.blue).refused("update", step="step-1", attempt=2)
    assert stranger.startswith("refused, E049: ")
    assert "stop: true" in stranger


def test_a_worker_whose_step_was_sent_back_is_told_to_stop(there, worker):
    worker.said("claim")
    there.ok("reset", "work", "step-1")
    text = worker.refused("update", step="step-1", attempt=1, entries=[TASK])
    assert text.startswith("refused, E050: ")
    assert "stop: true" in text
    assert text.endswith('next: claim(plan="work")')


def test_work_of_a_lost_step_is_saved_and_the_worker_goes_on(there, inside, worker):
    worker.said("claim")
    (there.red / "half").write_text("x")
    there.ok("reset", "work", "step-1")
    assert "claimed step-1" in inside(there.blue).said("claim")
    text = worker.said("claim")
    assert text.startswith("claimed step-3 (attempt 1)")
    assert "your worktree had files of step-1, attempt 1, which it does not hold" in text
    assert "any more: half; they are saved as refs/tug/" in text
    assert not (there.red / "half").exists()


def test_the_same_request_id_returns_the_same_claim(worker):
    claims = [worker.tool("claim", request_id="a").attempt for _ in range(3)]
    assert claims == [1, 1, 1]


def test_an_update_without_entries_is_a_sign_of_life(worker):
    worker.said("claim")
    assert worker.said("update", step="step-1", attempt=1).startswith("renewed step-1 until ")


def test_notes_and_releases_keep_their_words(there, inside, worker):
    worker.said("claim")
    worker.said("note", step="step-1", attempt=1, summary="the lexer is old", content="x" * 9000)
    text = worker.said("release", step="step-1", attempt=1, reason="no compiler here")
    assert text.startswith('released step-1; next: claim(plan="work")')
    taken = inside(there.blue).said("claim")
    assert "attempt 1 by" in taken
    assert "note: the lexer is old" in taken
    assert "note: given back: no compiler here" in taken
    parked = inside(there.blue).said("release", step="step-1", attempt=2, reason="x", park=True)
    assert parked.startswith("parked step-1")
    assert "parked until a person looks: step-1" in _nothing_left(there, inside)


def _nothing_left(there, inside) -> str:
    inside(there.red).said("claim", step="step-3")
    return inside(there.blue).said("claim")


def test_verify_runs_the_commands_and_a_failure_is_told(bench, inside):
    there = bench(CHECKED)
    worker = inside(there.red)
    worker.said("claim")
    listed = worker.said("verify", step="step-1", attempt=1, dry_run=True)
    assert "would run: test -e made" in listed
    failed = worker.said("verify", step="step-1", attempt=1)
    assert "exit 1" in failed
    assert "next, for checkpoints that name commands: mend what failed, then verify(" in failed
    (there.red / "made").write_text("x")
    passed = worker.said("verify", step="step-1", attempt=1, ordinals=[0], timeout_seconds=60)
    assert "[x] checkpoint 0" in passed


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("clame", {}, "there is no tool clame; did you mean claim?\nnext: claim()"),
        ("update", {"step": "step-1"}, '"attempt" is missing'),
        ("update", {"step": "step-1", "attempt": "1"}, "attempt is a whole number"),
        ("update", {"step": "step-1", "attempt": True}, "attempt is a whole number"),
        ("update", {"step": "step-1", "attempt": 1 << 70}, "attempt is at most"),
        ("update", {"step": "step-1", "attempt": 1, "entris": []}, "did you mean entries?"),
        ("claim", {"wiat": 3}, 'no argument "wiat"; did you mean wait_seconds?'),
        ("claim", {"zzz": 3}, "known: plan, step, worktree, wait_seconds, request_id"),
        ("update", {"step": "step-1", "attempt": 1, "entries": [7]}, "entries[0] is an object"),
        (
            "update",
            {"step": "step-1", "attempt": 1, "entries": [{**TASK, "status": "done"}]},
            "entries[0].status is one of open, in_progress",
        ),
        ("claim", {"wait_seconds": 51}, "wait_seconds is at most 50"),
        ("show", {"view": "all"}, "view is one of"),
        ("show", {"view": "why"}, 'view "why" needs a step'),
        ("show", {"plan": "nothing"}, "refused, E041: "),
        ("show", {"plan": "work", "step": "step-9", "view": "step"}, "refused, E059: "),
        ("claim", {"step": "step-2"}, "refused, E053: "),
        ("note", {"step": "step-1", "attempt": 1, "summary": "x" * 501}, "at most 500"),
    ],
)
def test_a_wrong_call_is_told_what_is_wrong_and_what_is_next(worker, name, given, words):
    text = worker.refused(name, **given)
    assert words in text
    assert "next: " in text
    assert "tugcode " not in text


def test_what_only_a_person_can_allow_is_said_with_the_command_for_them():
    error = TugError("not trusted", hint="tugcode trust")
    error.code = "E110"
    given = {"step": "step-1", "attempt": 1}
    text = refusals.told(error, "verify", given, guide=Guide(TOOLS["worker"]))
    assert "a person has to allow it: tugcode trust" in text
    assert text.endswith('release(step="step-1", attempt=1, reason="E110", park=true)')


def test_a_message_and_a_commit_exclude_each_other(worker):
    worker.said("claim")
    text = worker.refused("complete", step="step-1", attempt=1, message="x", commit="y")
    assert "message or commit, not both" in text


@pytest.mark.parametrize("view", ["summary", "step", "why", "log", "graph", "stats", "diff"])
def test_every_view_names_the_plan(worker, view):
    worker.said("claim")
    assert worker.said("show", step="step-1", view=view).startswith("plan: work\n")


def test_the_log_goes_on_where_it_stopped(worker):
    worker.said("claim")
    for _ in range(5):
        worker.said("update", step="step-1", attempt=1)
    every = worker.said("show", view="log").splitlines()[1:]
    assert any("Z step-1: claimed by " in line for line in every)
    first = worker.said("show", view="log", after=0, limit=2).splitlines()
    assert first[1:3] == every[:2]
    after = int(every[1].split()[0])
    assert first[3] == f'more: show(plan="work", view="log", after={after})'
    assert worker.said("show", view="log", after=after).splitlines()[1:] == every[2:]


def test_a_dependency_from_another_worktree_is_merged_by_the_claim(there, inside, worker):
    worker.said("claim")
    (there.red / "made").write_text("x")
    _settled(worker, "step-1", 1)
    worker.said("complete", step="step-1", attempt=1, message="feat: it")
    claimed = inside(there.blue).said("claim", step="step-2")
    assert "merged into your branch, because it depends on them: step-1" in claimed
    assert (there.blue / "made").exists()


def test_in_the_main_worktree_a_claim_says_how_to_commit(there, inside):
    worker = inside(there.repo.path)
    text = worker.said("claim")
    assert "this is the main worktree, where nothing is committed for you" in text
    assert "tugcode worktree create work --new, then claim(" in text
    # The last line asks for nothing that is refused here.
    assert text.endswith('then complete(step="step-1", attempt=1)')
    refused = worker.refused("complete", step="step-1", attempt=1, message="x")
    assert refused.startswith("refused, E035: ")
    assert 'next: complete(step="step-1", attempt=1), without a message' in refused
    _settled(worker, "step-1", 1)
    assert "completed step-1; 2 remain" in worker.said("complete", step="step-1", attempt=1)


def test_data_is_sent_only_if_it_is_asked_for(there, inside, worker):
    assert "structuredContent" not in worker.tool("status").result
    other = inside(there.blue, structured=True)
    assert other.tool("claim").result["structuredContent"]["anchor"] == "step-1"
    failed = other.tool("claim", step="step-2").result
    assert failed["structuredContent"]["issues"][0]["code"] in ("E050", "E053")


def test_a_plan_can_be_given_once_for_all(there, inside):
    there.repo.plan("other", there.plan.read_text())
    there.ok("init", "other")
    assert "refused, E040" in inside(there.repo.path).refused("show")
    assert inside(there.repo.path, plan="work").said("show").startswith("plan: work")


def test_strings_that_no_text_can_hold_are_mended(worker):
    worker.said("claim")
    worker.said("note", step="step-1", attempt=1, summary="a\0b\ud800c")
    assert "a\u2400b?c" in worker.said("show", step="step-1", view="step")


def test_every_role_has_its_tools_and_no_other(there, inside):
    for role, names in TOOLS.items():
        listed = inside(there.red, role).rpc("tools/list")["result"]["tools"]
        assert [each["name"] for each in listed] == list(names)


def test_an_operator_reviews_and_steers_and_a_worker_does_not(there, inside, worker):
    worker.said("claim")
    entry = {"kind": "checkpoint", "ordinal": 0, "status": "deferred", "reason": "needs eyes"}
    worker.said("update", step="step-1", attempt=1, entries=[TASK, entry])
    for name, given in (
        ("review", {"step": "step-1", "verdict": "accept"}),
        ("steer", {"plan": "work", "action": "reset", "step": "step-1", "reason": "x"}),
    ):
        refused = worker.refused(name, **given)
        assert f"there is no tool {name} for a worker: it belongs to people" in refused
        assert refused.endswith("next: status()")
    person = inside(there.repo.path, "operator")
    assert "needs eyes" in person.said("review", plan="work")
    which = {"step": "step-1", "kind": "checkpoint", "ordinal": 0, "note": "I looked"}
    assert person.said("review", verdict="accept", **which).startswith("accepted step-1")
    for action, words in (("pause", "is paused"), ("resume", "goes on")):
        told = person.said("steer", plan="work", action=action, reason="lunch")
        assert words in told
    parked = person.said("steer", plan="work", action="park", step="step-1", reason="wrong")
    assert parked.startswith("parked step-1")
    freed = person.said("steer", plan="work", action="reset", step="step-1", reason="right")
    assert freed.startswith("unparked step-1")
    assert "pause takes no step" in person.refused(
        "steer", plan="work", action="pause", step="step-1", reason="x"
    )


def test_a_viewer_is_told_that_a_tool_belongs_to_workers(there, inside):
    text = inside(there.red, "viewer").refused("claim")
    assert "there is no tool claim for a viewer: it belongs to workers" in text
    assert text.endswith("next: status()")


def test_the_plan_that_was_given_at_the_start_counts_for_every_tool(there, inside):
    person = inside(there.repo.path, "operator", plan="work")
    assert "is paused" in person.said("steer", action="pause", reason="lunch")
    without = inside(there.repo.path, "operator")
    assert '"plan" is missing' in without.refused("steer", action="resume", reason="x")


def test_an_attempt_that_never_was_is_a_wrong_number_and_nothing_is_lost(worker):
    worker.said("claim")
    text = worker.refused("update", step="step-1", attempt=99)
    assert "there was none; attempt 1 is current" in text
    assert "stop" not in text
    last = 'next: update(step="step-1", attempt=N) with the attempt that your claim returned'
    assert text.endswith(last)
    assert not worker.tool("update", step="step-1", attempt=1).failed


def test_a_paused_plan_says_who_paused_it_and_what_to_do(there, inside, worker):
    person = inside(there.repo.path, "operator")
    person.said("steer", plan="work", action="pause", reason="the build is red")
    text = worker.said("claim", wait_seconds=1)
    assert text.startswith("claimed: false, paused: the plan is paused\n")
    assert "paused by Tug since 2" in text
    assert "Z: the build is red\n" in text
    assert "a person lets it go on: tugcode resume work\nnext: stop, and tell the person" in text
    assert 'next: steer(plan="work", action="resume", reason="...")' in person.said("claim")


def test_only_parked_steps_are_left_so_a_worker_stops(bench, inside):
    worker = inside(bench("1 t").red)
    worker.said("claim")
    worker.said("release", step="step-1", attempt=1, reason="no key", park=True)
    assert worker.said("claim").endswith(
        "next: stop, and tell the person; until then no step becomes ready"
    )


def test_a_deferral_without_a_reason_is_told_how_to_say_it(worker):
    worker.said("claim")
    entry = {"kind": "checkpoint", "ordinal": 0, "status": "deferred"}
    lines = worker.said("update", step="step-1", attempt=1, entries=[entry]).splitlines()
    assert lines[2] == "step-1 checkpoint 0 is deferred without a reason"
    assert lines[3].startswith('to say why: update(step="step-1", attempt=1, entries=[{"kind": ')
    assert '"reason": "..."' in lines[3]
    assert lines[4].startswith("next, for what is done: ")
    # What is wrong is said before what is missing.
    wrong = {**entry, "ordinal": 7}
    assert "E066" in worker.refused("update", step="step-1", attempt=1, entries=[wrong])


def test_another_step_is_claimed_after_the_held_one(worker):
    worker.said("claim")
    text = worker.refused("claim", step="step-3")
    assert text.startswith("refused, E050: step step-1 is held by you")
    assert 'next: release(step="step-1", attempt=N, reason="...")' in text


def test_a_blank_message_is_told_with_the_call(worker):
    worker.said("claim")
    _settled(worker, "step-1", 1)
    text = worker.refused("complete", step="step-1", attempt=1, message=" ")
    assert text.startswith("refused, E081: ")
    assert text.endswith('next: complete(step="step-1", attempt=1, message="...")')


def test_options_of_the_command_line_are_not_named(there, inside, worker):
    person = inside(there.repo.path, "operator")
    for given in ({"verdict": "reject"}, {"verdict": "accept", "kind": "task"}, {"ordinal": 1}):
        text = person.refused("review", plan="work", **given)
        assert "refused, E070: " in text
        assert "--" not in text
    worker.said("claim")
    assert "--" not in worker.refused("claim", step="step-3")


def test_to_park_a_step_that_nobody_holds_the_plan_is_paused(there, inside):
    person = inside(there.repo.path, "operator")
    text = person.refused("steer", plan="work", action="park", step="step-3", reason="x")
    assert "only a step that a worker holds can be parked" in text
    assert 'next: steer(plan="work", action="pause", reason="...")' in text


def test_the_words_for_a_step_are_those_of_the_picture(there, worker):
    worker.said("claim")
    page = worker.said("show", step="step-1", view="step")
    assert f"standing: at work, held by {there.red}" in page
    assert "attempt 1 by" in page
    there.ok("claim", "work", "--step", "step-1", "--force", at=there.blue)
    assert "taken over by a newer attempt" in worker.said("show", step="step-1", view="step")
    waiting = worker.said("show", step="step-2", view="step")
    assert "standing: waits for step-1" in waiting


@pytest.mark.parametrize("role", ["worker", "operator"])
def test_no_answer_names_a_command_where_a_tool_does_it(there, inside, role):
    worker = inside(there.red)
    worker.said("claim")
    entry = {"kind": "checkpoint", "ordinal": 0, "status": "deferred", "reason": "needs eyes"}
    worker.said("update", step="step-1", attempt=1, entries=[TASK, entry])
    there.ok("pause", "work")
    caller = inside(there.repo.path, role)
    said = [caller.said("status"), caller.said("show"), caller.said("show", view="graph")]
    said += [caller.said("show", step=each, view="why") for each in ("step-1", "step-2", "step-3")]
    said += (
        [caller.said("review"), caller.said("review", step="step-1")] if role != "worker" else []
    )
    text = "\n".join(said)
    commands = [line for line in text.splitlines() if "tugcode " in line]
    assert all("a person: tugcode " in line for line in commands)
    if role == "worker":
        assert "a person: tugcode resume work" in text
        assert "a person: tugcode review work" in text
    else:
        assert 'steer(plan="work", action="resume", reason="...")' in text
        accept = 'verdict="accept", kind="checkpoint", ordinal=0)'
        assert f'review(plan="work", step="step-1", {accept}' in text
        assert commands == []


@pytest.mark.parametrize(
    ("command", "call"),
    [
        ("tugcode status --all", "status(all=true)"),
        ("tugcode show work --watch", 'show(plan="work")'),
        ("tugcode show work --step step-1", 'show(plan="work", step="step-1", view="step")'),
        ("tugcode why .tugtool/tugplan-work.md 1", 'show(plan="work", step="1", view="why")'),
        ("tugcode log work", 'show(plan="work", view="log")'),
        ("tugcode implement work", 'claim(plan="work")'),
        ("tugcode claim work --force", None),
        ("tugcode review work", 'review(plan="work")'),
        ("tugcode review work --accept-all", None),
        ("tugcode review work --retry", None),
        (
            "tugcode review work --retry --step step-1",
            'steer(plan="work", action="reset", step="step-1", reason="...")',
        ),
        ('tugcode reopen work step-1 --force --reason "WHY"', None),
        ("tugcode merge work", None),
        ("tugcode worktree list", None),
        ("tugcode 'open", None),
        ("tugcode state", None),
        ("git merge x", None),
    ],
)
def test_a_command_is_the_call_that_does_the_same(command, call):
    assert commands.call_for(command, TOOLS["operator"]) == call


def test_words_of_plans_are_not_taken_for_commands():
    for line in ("  `tugcode status` works", "Let tugcode status be fast", "  tugcode nothing"):
        assert commands.in_calls(line, TOOLS["operator"]) == line
    assert commands.in_calls("Next: tugcode status", TOOLS["viewer"]) == "Next: status()"


def test_a_cut_text_is_no_longer_than_it_may_be():
    for text in ("x" * 20_000, "ü" * 20_000, "\n" * 20_000, "\U0001f600" * 9000):
        assert texts.size(texts.cut(text)) <= texts.MOST_BYTES
    assert texts.cut("short") == "short"
