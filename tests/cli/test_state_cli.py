"""The state commands as commands: options, answers in text, whose copy counts, who calls."""

import hashlib
import io
import json
import os

import pytest

from support.state import KEY
from tugtool.workflow.workspace import Workspace


def test_a_plan_is_carried_out_from_init_to_done(desk):
    desk = desk("1 t", "2 t < 1", init=False)
    assert desk.text("init", "work").out == f"{KEY} is recorded: 2 steps\n"
    assert desk.text("init", "work").out == f"{KEY} was recorded before\n"
    assert "claimed step-1: Part 1 (attempt 1, until 2" in desk.text("claim", "work").out
    assert "claimed again step-1: Part 1 (attempt 2" in desk.text("claim", "work").out
    assert desk.text("start", "work", "step-1").out == "started step-1\n"
    assert desk.text("heartbeat", "work", "#step-1").out.startswith("renewed step-1 until 2")
    done = desk.text("update", "work", "step-1", "--task", 0, "completed")
    assert done.out == "updated 1 item of step-1\n"
    note = ("--kind", "note", "--summary", "ok")
    assert desk.text("artifact", "work", "step-1", *note).out == "recorded note for step-1\n"
    done = desk.text("complete", "work", "step-1", "--commit", "HEAD")
    assert done.out == "completed step-1; 1 step remains\n"
    assert desk.text("complete", "work", "step-1").out == (
        "completed already step-1; 1 step remains\n"
    )
    assert "  ○ ready      1  2\n" in desk.text("ready", "work").out
    assert "  ✓ 1  Part 1  " in desk.text("show", "work").out
    desk.ok("claim", "work")
    assert desk.text("release", "work", "step-2").out == "released step-2\n"
    assert desk.text("reset", "work", "step-2").out == "nothing to reset: step-2\n"
    assert desk.text("pause").out == f"{KEY} is paused\n"
    assert desk.text("claim").out == "nothing to claim: the plan is paused; 1 remains\n"
    assert desk.text("resume").out == f"{KEY} goes on\n"
    commit = desk.rows("select commit_hash from steps where anchor = 'step-1'")[0]["commit_hash"]
    reopened = desk.text("reopen", "work", "step-1", "--reason", "reverted")
    first, second, last = reopened.out.splitlines()
    assert first == "reopened step-1; the next worker is told the reason"
    kept = (
        "stays on its branch, and is merged with it, unless it conflicts with what is done instead"
    )
    assert second == f"its commit {commit[:12]} {kept}"
    assert last == "next: tugcode implement work"


def test_every_answer_names_its_step_twice(desk):
    desk = desk("1 t", "1.1 t")
    answers = [
        desk.ok("claim", "work"),
        desk.ok("start", "work", "step-1"),
        desk.ok("heartbeat", "work", "step-1"),
        desk.ok("update", "work", "step-1", "--all", "completed"),
        desk.ok("artifact", "work", "step-1", "--kind", "note", "--summary", "s"),
        desk.ok("release", "work", "step-1"),
        desk.ok("reset", "work", "step-1"),
    ]
    desk.ok("claim", "work")
    answers.append(desk.ok("complete", "work", "step-1", "--force", "--reason", "x"))
    answers.append(desk.ok("reopen", "work", "step-1", "--reason", "x"))
    assert {(each["step_anchor"], each["anchor"]) for each in answers} == {("step-1", "step-1")}


def test_update_says_what_it_passed_over_and_what_waits_for_a_person(desk):
    desk = desk("1 tc | It looks right (person)", "1.1 tt")
    desk.ok("claim", "work")
    said = desk.text("update", "work", "step-1", "--all-tasks", "completed").out
    passed = "step-1-1 task 0, step-1-1 task 1"
    assert said == (
        f"updated 1 item of step-1; passed over {passed}, which are open:"
        " --with-substeps includes substeps\n"
    )
    words = ("--all-tasks", "completed", "--with-substeps")
    assert desk.text("update", "work", "step-1", *words).out == "updated 2 items of step-1\n"
    refused = desk.json("update", "work", "step-1", "--checkpoint", 0, "completed")
    assert (refused.status, refused.codes) == (1, ["E066"])
    assert refused.envelope()["issues"][0]["hint"] == "tugcode review work"
    desk.feed(b"[]")
    said = desk.text("update", "work", "step-1", "--batch", "--complete-remaining").out
    waits = "step-1 checkpoint 0 waits for a person: tugcode review work"
    assert said == f"updated 1 item of step-1; {waits}\n"
    [item] = desk.ok("review", "work")["deferred_items"]
    assert item["reason"] == "it waits for a person"


def test_update_takes_items_by_name_by_number_and_all_of_a_kind(desk):
    desk = desk("1 ttteec")
    desk.ok("claim", "work")
    words = ("--task", 0, "completed", "--task", 2, "deferred", "--test", 1, "completed")
    got = desk.ok("update", "work", "step-1", *words, "--reason", "why")
    assert (got["updated"], got["tasks"]["deferred"], got["tests"]["completed"]) == (3, 1, 1)
    words = ("--kind", "checkpoint", "--ordinal", 0, "--status", "in_progress")
    assert desk.ok("update", "work", "step-1", *words)["checkpoints"]["in_progress"] == 1
    for option, count in (("--all-tasks", 2), ("--all-tests", 1), ("--all-checkpoints", 1)):
        assert desk.ok("update", "work", "step-1", option, "completed")["updated"] == count
    assert desk.ok("update", "work", "step-1", "--all", "open")["updated"] == 6


USAGE = [
    (("update", "work", "step-1"), "nothing to set"),
    (("update", "work", "step-1", "--task", "0"), "needs a value"),
    (("update", "work", "step-1", "--kind", "task"), "go together"),
    (
        ("update", "work", "step-1", "--complete-remaining"),
        "--complete-remaining goes with --batch",
    ),
    (("update", "work", "step-1", "--batch", "--all", "open"), "exclude each other"),
    (("update", "work", "step-1", "--task", "0", "open", "--with-substeps"), "goes with --all"),
    (("update", "work", "step-1", "--batch", "--reason", "x"), "exclude each other"),
    (("update", "work", "step-1", "--all", "done"), "takes open, in_progress"),
    (("complete", "work", "step-1", "--force"), "--force needs one reason"),
    (("complete", "work", "step-1", "--force", "--reason", " "), "--force needs one reason"),
    (("complete", "work", "step-1", "--force=a", "--reason", "b"), "--force needs one reason"),
    (("complete", "work", "step-1", "--reason", "x"), "--reason goes with --force"),
    (("release", "work", "step-1", "--force", "--worktree", "."), "exclude each other"),
    (("release", "work", "step-1", "--park"), "--park needs --reason"),
    (("release", "work", "step-1", "--park", "--reason", " "), "--park needs --reason"),
    (("reopen", "work", "step-1"), "reopen needs --reason"),
    (("reopen", "work", "step-1", "--reason", " "), "reopen needs --reason"),
    (("artifact", "work", "step-1", "--kind", "note"), "needs --kind and --summary"),
    (("claim", "work", "--lease-duration", "0"), "takes seconds above 0"),
    (("claim", "work", "--lease-duration", "-5"), "takes seconds above 0"),
    (("claim", "work", "--lease-duration", "nan"), "takes seconds above 0"),
    (("claim", "work", "--lease-duration", "3153600001"), "takes seconds above 0"),
    (("claim", "work", "--wait", "0"), "takes seconds above 0"),
    (("claim", "work", "--holder-pid", "0"), "whole number above 0"),
    (("claim", "work", "--holder-pid", "999999999"), "there is no process 999999999"),
    (("heartbeat", "work", "step-1", "--lease-duration", "0"), "takes seconds above 0"),
    (("start", "work", "step-1", "--attempt", "x"), "whole number above 0"),
    (("start", "work"), "needs STEP"),
]


@pytest.mark.parametrize(("words", "said"), USAGE)
def test_usage_is_refused_first_with_exit_status_2(desk, words, said):
    """Before the plan is even looked for: none is recorded here."""
    desk = desk("1 t", init=False)
    desk.feed(b"[]")
    refused = desk.json(*words)
    assert (refused.status, refused.codes) == (2, ["E070"])
    assert said in refused.envelope()["issues"][0]["message"]
    assert desk.text(*words).err.startswith("tugcode: E070: ")


def test_a_deferral_without_a_reason_warns_in_text_and_in_json(desk):
    desk = desk("1 tt")
    desk.ok("claim", "work")
    answer = desk.json("update", "work", "step-1", "--task", 0, "deferred")
    assert (answer.status, answer.codes) == (0, ["W101"])
    assert answer.envelope()["issues"][0]["anchor"] == "step-1"
    said = desk.text("update", "work", "step-1", "--task", 1, "deferred")
    assert said.out == "updated 1 item of step-1\n"
    assert said.err == (
        "tugcode: W101: step-1 task 1 is deferred without a reason\n"
        "  next: say why with --reason TEXT, or a reason in the entry\n"
    )
    assert (
        desk.json("update", "work", "step-1", "--task", 0, "deferred", "--reason", "r").codes == []
    )


def test_force_takes_its_reason_as_its_own_word_or_apart(desk):
    desk = desk("1 t", "2 t", "3 t")
    for step, words in (
        ("step-1", ("--force", "looked at it")),
        ("step-2", ("--force", "--reason", "looked at it")),
        ("step-3", ("--force=looked at it",)),
    ):
        desk.ok("claim", "work", "--step", step)
        done = desk.ok("complete", "work", step, *words)
        assert (done["forced"], done["force_reason"]) == (True, "looked at it")


def test_the_commit_must_be_one_that_git_knows_and_is_stored_in_full(desk):
    desk = desk("1")
    desk.ok("claim", "work")
    for wrong in ("beef", "0" * 40, "--help", "HEAD:code.py", "main^{tree}"):
        refused = desk.json("complete", "work", "step-1", f"--commit={wrong}")
        assert (refused.status, refused.codes) == (1, ["E066"]), wrong
    done = desk.ok("complete", "work", "step-1", "--commit", desk.commit[:8])
    assert done["commit_hash"] == desk.commit


def test_an_artifact_s_content_comes_from_a_file(desk):
    desk = desk("1 t")
    desk.ok("claim", "work")
    desk.repo.write({".tugtree/red/notes.txt": "für später\n"})
    words = ("--kind", "note", "--summary", "s", "--content-file", "notes.txt")
    desk.ok("artifact", "work", "step-1", *words)
    assert (
        desk.ok("show", "work", "--full")["steps"][0]["artifacts"][0]["content"] == "für später\n"
    )
    missing = (*words[:-1], "nothing.txt")
    assert desk.json("artifact", "work", "step-1", *missing).codes == ["E072"]


def test_an_artifact_s_content_comes_from_standard_input(desk, monkeypatch):
    desk = desk("1 t")
    desk.ok("claim", "work")
    words = ("--kind", "note", "--summary", "s", "--content-file", "-")
    for given, kept in (("für später".encode(), "für später"), (b"", "")):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
        desk.ok("artifact", "work", "step-1", *words)
        assert desk.ok("show", "work", "--full")["steps"][0]["artifacts"][-1]["content"] == kept
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff")))
    refused = desk.json("artifact", "work", "step-1", *words)
    assert (refused.codes, len(desk.ok("show", "work")["steps"][0]["artifacts"])) == (["E072"], 2)
    monkeypatch.setattr("tugtool.cli.state._MOST_CONTENT", 3)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"four")))
    assert desk.json("artifact", "work", "step-1", *words).codes == ["E072"]


def test_show_of_one_step_has_its_substeps_and_its_items_and_nobody_else_s(desk):
    desk = desk("1 t", "2 tt", "2.1 c", "3 t")
    whole = desk.ok("show", "work")
    for anchor in ("step-2", "#step-2", "step-2-1"):
        one = desk.ok("show", "work", "--step", anchor)
        assert one["steps"] == [whole["steps"][1]]
        assert {item["step_anchor"] for item in one["checklist_items"]} == {"step-2", "step-2-1"}
        assert len(one["checklist_items"]) == 3
        assert one["total_steps"] == 3
    assert desk.json("show", "work", "--step", "step-9").codes == ["E059"]
    assert desk.json("show", "--step", "step-2").codes == ["E070"]


def test_crlf_is_no_drift_and_the_worktree_s_own_copy_counts(desk):
    desk = desk("1 tt", "2 t")
    copy = desk.red / KEY
    copy.write_bytes(copy.read_bytes().replace(b"\n", b"\r\n"))
    desk.ok("claim", "work")
    copy.write_text(copy.read_text() + "\nmore\n")
    refused = desk.json("update", "work", "step-1", "--task", 0, "completed")
    assert refused.codes == ["E048"]
    assert refused.envelope()["issues"][0]["file"] == str(copy)
    # The other worktree has its own copy, and it is as agreed.
    assert desk.ok("claim", "work", at=desk.blue)["anchor"] == "step-2"
    # Without a copy of its own, a worktree works from the one at the root.
    copy.unlink()
    desk.ok("update", "work", "step-1", "--task", 0, "completed")
    desk.plan.write_text("changed\n")
    assert desk.json("complete", "work", "step-1").codes == ["E048"]
    desk.plan.unlink()
    gone = desk.json("update", "work", "step-1", "--task", 1, "completed")
    assert gone.codes == ["E048"]
    assert "is gone since" in gone.envelope()["issues"][0]["message"]


def test_show_warns_about_drift_in_these_words_and_goes_on(desk):
    desk = desk("1 t")
    agreed = desk.ok("show", "work")["plan_hash"]
    desk.plan.write_text("### Step 1: Other\n")
    found = hashlib.sha256(b"### Step 1: Other\n").hexdigest()
    for words in (("work",), ()):
        said = desk.text("show", *words, at=desk.repo.path)
        assert said.status == 0
        assert "  ○ 1  Part 1  ready\n" in said.out
        assert (
            "! Plan file has been modified since state was initialized.\n"
            f"  State tracks execution of the original plan (hash: {agreed[:12]}...).\n"
            f"  Current file hash: {found[:12]}...\n"
        ) in said.out
        assert said.err == ""
        shown = desk.json("show", *words, at=desk.repo.path)
        assert shown.codes == ["W102"]
        (issue,) = shown.envelope()["issues"]
        assert issue["message"] == (
            "Plan file has been modified since state was initialized.\n"
            f"State tracks execution of the original plan (hash: {agreed}).\n"
            f"Current file hash: {found}"
        )
        assert issue["file"] == KEY
    desk.plan.unlink()
    gone = desk.text("show", "work", at=desk.repo.path).out
    assert "! Plan file has gone since state was initialized.\n" in gone
    assert "  Current file hash: none, it cannot be read\n" in gone
    desk.plan.mkdir()
    assert desk.json("show", "work", at=desk.repo.path).codes == ["W102"]


def test_a_whole_slug_means_the_recorded_plan_before_the_beginning_of_another(desk):
    """Hints name plans by slug, also a plan whose file is gone."""
    desk = desk("1 t")
    text = desk.plan.read_text()
    desk.plan.unlink()
    for number in (2, 3):
        (desk.plan.parent / f"tugplan-work-{number}.md").write_text(text + "\n" * number)
        assert desk.ok("show", "work", at=desk.repo.path)["plan_path"] == KEY
        part = desk.json("show", "wor", at=desk.repo.path)
        assert part.codes == {2: ["E063"], 3: ["E040"]}[number]


def test_a_plan_is_known_by_its_record_when_its_file_is_gone(desk):
    desk = desk("1 t")
    desk.ok("claim", "work")
    desk.plan.unlink()
    (desk.red / KEY).unlink()
    for name in ("work", KEY, "tugplan-work.md"):
        assert desk.ok("heartbeat", name, "step-1")["plan_path"] == KEY
    assert desk.ok("release", "work", "step-1")["released"] is True
    assert desk.json("show", "nowhere").codes == ["E041"]


def test_the_only_active_plan_is_meant_when_none_is_named(desk):
    desk = desk("1", "2")
    assert desk.ok("claim")["plan_path"] == KEY
    desk.repo.plan("more", "### Step 1: More\n")
    desk.ok("init", "more", at=desk.repo.path)
    refused = desk.json("claim")
    assert (refused.status, refused.codes) == (1, ["E040"])
    desk.ok("complete", "work", "step-1")
    desk.ok("claim", "work")
    desk.ok("complete", "work", "step-2")
    assert desk.ok("ready")["plan_path"] == ".tugtool/tugplan-more.md"  # the other one is done
    assert [plan["plan_path"] for plan in desk.ok("show")["plans"]] == [
        ".tugtool/tugplan-more.md",
        KEY,
    ]


def test_who_calls_is_the_worktree_s_real_top_wherever_the_caller_stands(desk, tmp_path):
    desk = desk("1 t")
    inside = desk.red / "deep" / "down"
    inside.mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(desk.red)
    top = os.path.realpath(desk.red)
    assert desk.ok("claim", "work", at=inside)["worktree"] == top
    for path in (inside, link, link / "deep", "deep/..", f"{desk.red}/./deep/"):
        desk.ok("heartbeat", "work", "step-1", "--worktree", path)
    assert desk.json("heartbeat", "work", "step-1", at=desk.blue).codes == ["E049"]
    assert desk.ok("heartbeat", "work", "step-1", "--worktree", desk.red, at=desk.blue)


def test_a_path_that_does_not_exist_is_its_own_identity_and_can_release(desk):
    desk = desk("1 t")
    name = ".tugtree/gone/../lost"
    assert desk.ok("claim", "work", "--worktree", name)["worktree"] == os.path.join(
        os.path.realpath(desk.repo.path), ".tugtree", "lost"
    )
    # Not mapped to the worktree that contains the current directory, nor to the main one.
    assert desk.json("release", "work", "step-1").codes == ["E049"]
    assert desk.json("release", "work", "step-1", at=desk.repo.path).codes == ["E049"]
    assert desk.ok("release", "work", "step-1", "--worktree", ".tugtree/lost")["released"]


def test_an_existing_path_outside_any_worktree_is_itself(desk, tmp_path):
    desk = desk("1 t")
    outside = tmp_path / "outside"
    outside.mkdir()
    got = desk.ok("claim", "work", "--worktree", outside)
    assert got["worktree"] == os.path.realpath(outside)


def test_every_command_takes_worktree_also_where_it_changes_nothing(desk):
    desk = desk("1 t")
    for command in ("show", "ready", "pause", "resume"):
        desk.ok(command, "work", "--worktree", "anywhere")
    desk.ok("reset", "work", "step-1", "--worktree", "anywhere")
    assert json.loads(desk.json("show", "work").out)["command"] == "state show"


def test_the_environment_s_attempt_counts_for_its_step_and_its_substeps_only(desk, monkeypatch):
    desk = desk("1 tt", "1.1 tt", "2 t")
    for step in ("step-1", "step-1", "step-2"):
        desk.ok("claim", "work", "--step", step, "--also")
    monkeypatch.setenv("TUGCODE_ATTEMPT", "1")
    desk.ok("heartbeat", "work", "step-1")  # no TUGCODE_STEP: it is about no step
    monkeypatch.setenv("TUGCODE_STEP", "#step-1")
    for step in ("step-1", "step-1-1", "#step-1-1"):
        refused = desk.json("update", "work", step, "--task", 0, "completed")
        assert (refused.status, refused.codes) == (4, ["E060"])
    desk.ok("heartbeat", "work", "step-2")
    desk.ok("heartbeat", "work", "step-1", "--attempt", 2)  # the option wins
    monkeypatch.setenv("TUGCODE_PLAN", "another.md")
    desk.ok("heartbeat", "work", "step-1")
    monkeypatch.setenv("TUGCODE_PLAN", KEY)
    assert desk.json("complete", "work", "step-1").codes == ["E060"]
    monkeypatch.setenv("TUGCODE_ATTEMPT", "2")
    desk.ok("heartbeat", "work", "step-1-1")
    assert desk.json("heartbeat", "work", "step-9").codes == ["E059"]


def test_configured_leases_and_attempts_are_in_force(desk):
    desk = desk("1 t", "2 t")
    desk.repo.write({".tugtool/config.toml": "[state]\nlease_seconds = 60\nmax_attempts = 1\n"})
    desk.ok("claim", "work")
    step = desk.ok("show", "work")["steps"][0]
    assert step["attempts"][0]["lease_seconds"] == 60
    assert step["park_reason"] == "1 claim without progress"
    longer = desk.ok("heartbeat", "work", "step-1", "--lease-duration", "315360000")
    assert longer["lease_expires_at"] > "2035"


def test_without_a_database_commands_say_so_and_make_none(desk):
    desk = desk("1 t", init=False)
    assert desk.ok("show") == {"plans": []}
    assert desk.text("show").out == "no plan has a state yet\n"
    for words in (("claim",), ("claim", "work"), ("show", "work"), ("ready",), ("pause",)):
        assert desk.json(*words).codes == ["E063"]
    assert desk.json("claim", "elsewhere").codes == ["E041"]
    assert not os.path.exists(desk.url.removeprefix("sqlite://"))


def test_when_every_plan_is_done_none_is_meant(desk):
    desk = desk("1")
    desk.ok("claim")
    desk.ok("complete", "work", "step-1")
    assert desk.json("claim").codes == ["E063"]
    assert desk.ok("claim", "work")["reason"] == "all_completed"


def test_a_person_is_recorded_for_what_is_decided_in_the_main_worktree(desk):
    """And the worktree for what is decided in one: an agent may be at work there."""
    desk = desk("1 t", "2 t", "3 t")
    for number in (1, 2, 3):
        desk.ok("claim", "work", "--step", f"step-{number}", "--also")
    main = desk.repo.path
    desk.ok("release", "work", "step-1", "--force", "--reason", "it hangs", at=main)
    desk.ok("reset", "work", "step-2", at=main)
    desk.ok("pause", "work", at=main)
    desk.ok("resume", "work")
    desk.ok("release", "work", "step-3")
    events = desk.ok("log", "work")["events"]
    found = {each["step_anchor"] or each["kind"]: each["actor"] for each in events}
    person = Workspace(str(main)).person()
    assert {found["step-1"], found["step-2"], found["pause"]} == {person}
    assert {found["resume"], found["step-3"]} == {str(desk.red)}
    assert f"released by {person}: it hangs" in desk.text("log", "work").out


def test_show_tells_people_what_is_parked_forced_and_paused(repo, tugcode):
    repo.plan("told", "# Told\n### Step 1: a\n- [ ] one\n### Step 2: b\n- [ ] two\n")
    state = ["-C", repo.path, "state"]
    for words in (
        ["init", "told"],
        ["claim", "told"],
        ["complete", "told", "step-1", "--force", "nobody cares"],
        ["claim", "told"],
        ["release", "told", "step-2", "--park", "--reason", "no access"],
        ["pause", "told"],
    ):
        assert tugcode(*state, *words).status == 0
    shown = tugcode(*state, "show", "told").out
    assert shown.startswith("told  Told  paused\n")
    assert "  ✓ 1  a  0s · forced: nobody cares\n" in shown
    assert "  ‖ 2  b  waits for you\n       no access\n" in shown
