"""tugcode commit: what it commits, what it says, what it refuses, and when it is run again."""

import os
import shlex
import shutil
import subprocess
import sys

import pytest

from support.commit import LOG
from support.state import KEY
from tugtool import errors
from tugtool.errors import state
from tugtool.errors.state import StateError
from tugtool.git import status
from tugtool.system import process
from tugtool.workflow import commit

PLAN = "1 tte", "2 c < 1", "3 < 2"
#: A process that runs as long as any of this does.
INIT_PROCESS = 1
TUGCODE = f"{shlex.quote(sys.executable)} -m tugtool"


def test_a_step_s_work_is_committed_with_its_trailers_and_the_step_completed(bench):
    b = bench(*PLAN)
    b.hold("step-1")
    b.write({"new.py": "x\n", "code.py": "changed\n"})
    data = b.done("step-1", "--summary", "read numbers")
    assert data["commit_hash"] == b.head()
    assert b.trailers() == b.set_of("step-1")
    assert b.message().startswith("feat: work\n\nTug-Step: step-1\n")
    assert sorted(data["files_staged"]) == [LOG, "code.py", "new.py"]
    assert b.git("status", "--porcelain") == ""
    assert (b.step("step-1")["status"], b.step("step-1")["commit_hash"]) == ("completed", b.head())
    assert (data["committed"], data["completed"], data["recovered"]) == (True, True, False)
    assert (data["log_updated"], data["log_rotated"], data["archived_path"]) == (True, False, None)
    assert (data["warnings"], data["remaining_steps"], data["attempt"]) == ([], 2, 1)
    assert "state_failure_reason" not in data
    assert b.intents() == []
    assert b.entries() == ["step-1: Part 1"]
    assert "** read numbers (plan" in b.log.read_text()
    assert sorted(path.name for path in b.red.iterdir()) == [
        ".git",
        ".tugtool",
        "code.py",
        "file",
        "new.py",
    ]


def test_a_plan_is_carried_out_by_commits_alone(bench):
    b = bench(*PLAN)
    for step in ("step-1", "step-2", "step-3"):
        b.hold(step)
        data = b.done(step)
    assert data["plan_completed"]
    assert b.entries() == ["step-3: Part 3", "step-2: Part 2", "step-1: Part 1"]
    assert [b.trailers(commit)[0] for commit in b.commits()] == [
        "Tug-Step: step-3",
        "Tug-Step: step-2",
        "Tug-Step: step-1",
    ]


def test_a_step_that_only_verifies_commits_its_entry(bench):
    b = bench("1")
    b.hold("step-1")
    data = b.done("step-1")
    assert data["files_staged"] == [LOG]
    assert "** feat: work (plan" in b.log.read_text()


def test_a_log_that_git_ignores_is_written_and_not_committed(bench):
    b = bench("1", "2")
    b.write({".gitignore": "log.md\n"})
    b.hold("step-1", "step-2")
    data = b.done("step-1")
    assert (data["files_staged"], data["log_updated"]) == ([".gitignore"], False)
    # Then there may be nothing at all to commit; the step has its commit all the same.
    data = b.done("step-2")
    assert (data["files_staged"], data["commit_hash"]) == ([], b.head())
    assert b.entries() == ["step-2: Part 2", "step-1: Part 1"]


def test_text_says_what_json_says(bench):
    b = bench("1", "2 t")
    b.hold("step-1")
    done = b.commit_text("step-1")
    assert done.out == f"committed {b.head()[:12]} for step-1, which is completed; 1 step remains\n"
    assert b.commit_text("step-1").out == "completed already step-1; 1 step remains\n"
    b.ok("claim", "work")
    failed = b.commit_text("step-2")
    assert failed.status == 0
    assert "for step-2; the step is NOT completed (open_items)\n  open: step-2 " in failed.out
    assert "E051: step step-2 has 1 open item" in failed.err


def test_the_plan_may_be_left_out_where_one_is_active_and_the_anchor_may_have_its_sign(bench):
    b = bench("1")
    b.hold("step-1")
    done = b._tugcode("-C", b.red, "commit", "--step", "#step-1", "--message", "x", "--json")
    assert done.data["completed"]
    assert b.trailers()[0] == "Tug-Step: step-1"


def test_the_plan_is_found_by_every_name_and_recorded_under_one(bench):
    b = bench("1", "2", "3", "4")
    names = ("work", "tugplan-work.md", KEY, str(b.red / KEY))
    for number, name in enumerate(names, 1):
        b.hold(f"step-{number}")
        words = ["commit", "--plan", name, "--step", f"step-{number}", "--message=x", "--json"]
        assert b._tugcode("-C", b.red, *words).data["completed"]
        assert b.trailers()[1] == f"Tug-Plan: {KEY}"


# -- refusals: nothing is touched ------------------------------------------------------


def picture(b):
    """Everything that a refused commit must leave alone."""
    files = {
        str(path.relative_to(b.red)): path.read_bytes()
        for path in sorted(b.red.rglob("*"))
        if path.is_file() and path.name != ".git"
    }
    git = b.git("rev-parse", "HEAD"), b.git("status", "--porcelain"), b.git("ls-files", "--stage")
    return files, git, b.dump(), b.intents()


def refuse(b, code, *words, step="step-1", status=1, **how):
    before = picture(b)
    refused = b.commit_json(step, *words, **how)
    assert (refused.status, refused.codes) == (status, [code]), refused.out
    assert picture(b) == before
    return refused.envelope()["issues"][0]


def test_a_stranger_s_step_is_refused_before_anything_is_touched(bench):
    b = bench("1 t")
    b.hold("step-1", at=b.blue)
    b.write({"new": "x"})
    assert str(b.blue) in refuse(b, "E049", status=4)["message"]
    b.git("checkout", "--quiet", "--detach")
    refuse(b, "E049", status=4)


def test_a_superseded_attempt_is_refused_before_anything_is_touched(bench):
    b = bench("1 t")
    b.hold("step-1")
    b.ok("reset", "work", "step-1")
    b.hold("step-1")
    refuse(b, "E060", "--attempt", "1", status=4)
    assert b.done("step-1", "--attempt", "2")["attempt"] == 2


def test_a_step_that_is_taken_while_the_work_is_looked_at_is_not_committed(bench, monkeypatch):
    """After the first look at the state, before the one under which it is written down."""
    b = bench("1 t")
    b.hold("step-1")
    b.write({"new": "x"})
    look, then = status.inspect, []

    def taking(top, git_dir):
        if not then:
            b.ok("claim", "work", "--step", "step-1", "--force", at=b.blue)
            then.append(picture(b))
        return look(top, git_dir)

    monkeypatch.setattr(status, "inspect", taking)
    refused = b.commit_json("step-1")
    assert (refused.status, refused.codes) == (4, ["E060"]), refused.out
    # No event, no renewed lease of whoever holds it now, nothing written down, no commit.
    assert [picture(b)] == then
    assert (b.step("step-1")["claimed_by"], b.commits()) == (str(b.blue), [])


def test_the_environment_s_attempt_counts(bench, monkeypatch):
    b = bench("1 t")
    b.hold("step-1")
    b.ok("reset", "work", "step-1")
    b.hold("step-1")
    monkeypatch.setenv("TUGCODE_STEP", "step-1")
    monkeypatch.setenv("TUGCODE_ATTEMPT", "1")
    refuse(b, "E060", status=4)


def test_an_unclaimed_or_unknown_step_is_refused(bench):
    b = bench("1 t")
    b.write({"new": "x"})
    refuse(b, "E050")
    assert "closest: step-1" in refuse(b, "E059", step="step-l")["message"]


def test_a_substep_is_committed_with_its_step(bench):
    b = bench("1 t", "1.1 t")
    b.hold("step-1")
    assert "step-1 is committed as a whole" in refuse(b, "E050", step="step-1-1")["message"]
    assert b.done("step-1")["completed"]
    assert b.step("step-1-1")["status"] == "completed"


def test_the_main_worktree_is_refused_and_the_way_to_a_linked_one_named(bench):
    b = bench("1 t")
    b.hold("step-1", at=b.repo.path)
    issue = refuse(b, "E035", at=b.repo.path)
    assert "is the main worktree" in issue["message"]
    assert issue["hint"] == "tugcode worktree create work"


@pytest.mark.parametrize("where", ["nowhere", "/", "."])
def test_what_is_no_worktree_of_the_repository_is_refused(bench, where, tmp_path):
    b = bench("1 t")
    path = tmp_path if where == "." else where
    b.ok("claim", "work", "--worktree", path)
    issue = refuse(b, "E080", "--worktree", str(path))
    assert "is not a worktree of this repository" in issue["message"]


def test_another_repository_is_no_worktree_of_this_one(bench, tmp_path):
    from conftest import Repo

    b = bench("1 t")
    other = Repo.init(tmp_path / "other")
    other.commit()
    b.ok("claim", "work", "--worktree", other.path)
    refuse(b, "E080", "--worktree", str(other.path))


def test_without_a_step_or_a_message_it_is_a_usage_error(bench):
    b = bench("1")
    for words in (["--message", "x"], ["--step", "step-1"], ["--step=", "--message=x"]):
        assert b._tugcode("-C", b.red, "commit", *words, "--json").codes == ["E070"]


def test_a_detached_head_is_refused(bench):
    b = bench("1")
    b.hold("step-1")
    b.git("checkout", "--quiet", "--detach")
    assert "is on no branch" in refuse(b, "E080")["message"]


def conflict(b):
    b.write({"code.py": "ours\n"})
    b.git("commit", "--quiet", "--all", "--message=ours")
    b.write({"code.py": "theirs\n"}, at=b.blue)
    b.git("commit", "--quiet", "--all", "--message=theirs", at=b.blue)


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["merge", "blue"], "merge"),
        (["rebase", "blue"], "rebase"),
        (["cherry-pick", "blue"], "cherry-pick"),
        (["revert", "--no-commit", "HEAD"], "revert"),
    ],
)
def test_what_is_under_way_has_to_end_first(bench, words, what):
    b = bench("1")
    b.hold("step-1")
    conflict(b)
    subprocess.run(["git", *words], cwd=b.red, capture_output=True, check=False)
    assert f"has a {what} under way" in refuse(b, "E080")["message"]


def test_unmerged_files_are_refused_though_nothing_is_under_way(bench):
    b = bench("1")
    b.hold("step-1")
    conflict(b)
    b.git("checkout", "--quiet", "HEAD~1")
    b.write({"code.py": "stashed\n"})
    b.git("stash")
    b.git("checkout", "--quiet", "red")
    subprocess.run(["git", "stash", "pop"], cwd=b.red, capture_output=True, check=False)
    issue = refuse(b, "E080")
    assert "has unmerged files: code.py" in issue["message"]


@pytest.mark.parametrize("name", ["state.db", "state.db-wal", "state.lock", "state.db-journal"])
def test_the_state_is_never_committed_even_where_nothing_ignores_it(bench, name):
    b = bench("1")
    b.hold("step-1")
    (b.repo.path / ".git" / "info" / "exclude").unlink()
    b.write({f".tugtool/{name}": "x"})
    issue = refuse(b, "E080")
    assert f".tugtool/{name}" in issue["message"]
    assert issue["hint"] == "tugcode init"


def test_a_state_file_that_git_already_tracks_is_refused_until_it_is_taken_out(bench):
    b = bench("1")
    b.hold("step-1")
    b.write({".tugtool/state.db": "x"})
    b.git("add", "--force", ".tugtool/state.db")
    b.git("commit", "--quiet", "--message=oops")
    b.write({".tugtool/state.db": "y"})
    refuse(b, "E080")
    b.git("rm", "--cached", "--quiet", ".tugtool/state.db")
    assert ".tugtool/state.db" in b.done("step-1")["files_staged"]
    assert ".tugtool/state.db" not in b.git("ls-tree", "-r", "--name-only", "HEAD")


@pytest.mark.parametrize("link", [".tugtool", ".tugtool/archive", ".tugtool/log.md"])
def test_a_link_never_leads_the_log_out_of_the_worktree(bench, link, tmp_path):
    b = bench("1")
    b.hold("step-1")
    outside = tmp_path / "outside"
    outside.mkdir()
    if link == ".tugtool":
        b.git("mv", ".tugtool", "elsewhere")
    (b.red / link).symlink_to(outside)
    refuse(b, "E074" if link == LOG else "E073")
    assert list(outside.iterdir()) == []


# -- completed, repeated, left over ----------------------------------------------------


def test_a_completed_step_is_success_and_nothing_is_committed(bench):
    b = bench("1", "2")
    b.hold("step-1")
    first = b.done("step-1")
    b.write({"more": "x"})
    before = picture(b)
    again = b.done("step-1")
    assert picture(b) == before
    assert (again["committed"], again["already_completed"]) == (False, True)
    assert again["commit_hash"] == first["commit_hash"]


def test_a_step_that_another_worktree_has_completed_is_not_the_caller_s(bench):
    b = bench("1", "2")
    b.hold("step-1")
    b.done("step-1")
    b.write({"mine": "x"}, at=b.blue)
    before = picture(b)
    for words in ([], ["--attempt", "1"]):
        done = b.commit_json("step-1", *words, at=b.blue)
        assert (done.status, done.codes) == (4, ["E049"])
        message = done.envelope()["issues"][0]["message"]
        assert message == f"step step-1 was completed by {b.red}, not by {b.blue}"
    assert b.commit_json("step-1", "--attempt", "7", at=b.blue).codes == ["E060"]
    assert picture(b) == before
    assert (b.blue / "mine").exists()
    assert b.done("step-1", "--attempt", "1")["already_completed"]


def test_where_nobody_knows_who_completed_a_step_it_is_success_for_anyone(bench):
    b = bench("1", "2")
    b.hold("step-1")
    b.done("step-1")
    store_rows(b, "update steps set completed_by = null where anchor = 'step-1'")
    assert b.done("step-1", at=b.blue)["already_completed"]


def test_a_commit_whose_step_stays_open_is_used_when_it_is_run_again(bench):
    b = bench("1 t")
    b.ok("claim", "work")
    b.write({"new": "x"})
    failed = b.commit_json("step-1")
    data = failed.data
    assert failed.status == 0
    assert (data["state_update_failed"], data["state_failure_reason"]) == (True, "open_items")
    assert (data["committed"], data["completed"], data["commit_hash"]) == (True, False, b.head())
    assert failed.codes == ["E051"]
    assert failed.envelope()["issues"][0]["severity"] == "warning"
    assert data["warnings"] == [failed.envelope()["issues"][0]["message"]]
    b.close("step-1")
    again = b.done("step-1")
    assert (again["recovered"], again["commit_hash"]) == (True, data["commit_hash"])
    assert again["warnings"] == []
    assert again["files_staged"] == data["files_staged"]
    assert len(b.commits()) == 1
    assert b.entries() == ["step-1: Part 1"]
    assert b.intents() == []


def test_another_process_may_go_on_though_the_first_one_lives(bench):
    b = bench("1 t")
    b.ok("claim", "work")
    assert b.commit_json("step-1").data["state_update_failed"]
    b.close("step-1")
    done = b.process(*b.words("step-1"))
    assert (done.returncode, done.stdout[:6]) == (0, "found "), done.stderr
    assert (len(b.commits()), b.intents()) == (1, [])


def test_what_was_changed_after_the_commit_is_told_of_and_not_committed(bench):
    b = bench("1 t")
    b.ok("claim", "work")
    b.commit_json("step-1")
    b.close("step-1")
    b.write({"late": "x"})
    again = b.commit_json("step-1")
    assert again.codes == ["W112"]
    assert "the commit of the next step here takes it along" in again.data["warnings"][0]
    assert again.data["completed"]
    assert b.git("status", "--porcelain") == "?? late\n"


def test_a_step_claimed_again_gets_a_commit_of_its_own(bench):
    b = bench("1 t")
    b.ok("claim", "work")
    b.commit_json("step-1")
    b.ok("reset", "work", "step-1")
    b.hold("step-1")
    again = b.commit_json("step-1")
    assert again.codes == ["W113"]
    assert "was left: its claim is over" in again.data["warnings"][0]
    assert len(b.commits()) == 2
    assert b.step("step-1")["commit_hash"] == b.head()


@pytest.mark.parametrize("named", [True, False], ids=["by its hash", "unnamed"])
def test_completing_the_step_by_hand_ends_what_its_commit_had_written_down(bench, named):
    b = bench("1 t", "2")
    b.ok("claim", "work")
    made = b.commit_json("step-1").data["commit_hash"]
    b.close("step-1")
    b.ok("complete", "work", "step-1", *(["--commit", made] if named else []))
    assert b.intents() == []
    b.hold("step-2")
    assert b.commit_json("step-2").codes == [], "no word of the earlier one"


def test_a_lock_that_a_killed_git_left_keeps_what_was_written_down(bench):
    b = bench("1 t")
    b.ok("claim", "work")
    made = b.commit_json("step-1").data["commit_hash"]
    b.close("step-1")
    lock = os.path.join(b.git("rev-parse", "--absolute-git-dir").strip(), "index.lock")
    open(lock, "x").close()
    b.ok("complete", "work", "step-1", "--commit", made)
    assert len(b.intents()) == 1


def test_a_git_that_still_commits_keeps_what_was_written_down(bench):
    b = bench("1 t")
    b.ok("claim", "work")
    made = b.commit_json("step-1").data["commit_hash"]
    b.close("step-1")
    directory = b.git("rev-parse", "--absolute-git-dir").strip()
    process.ProcessNote(os.path.join(directory, "tugtool-git")).write(INIT_PROCESS)
    b.ok("complete", "work", "step-1", "--commit", made)
    assert len(b.intents()) == 1


def test_a_step_is_completed_though_its_worktree_is_gone_with_what_was_written_down(bench):
    b = bench("1 t")
    b.ok("claim", "work")
    b.commit_json("step-1")
    b.close("step-1")
    shutil.rmtree(b.red)
    b.ok("complete", "work", "step-1", "--worktree", b.red, at=b.repo.path)
    assert len(b.intents()) == 1


def test_completing_with_another_commit_leaves_what_was_written_down(bench):
    b = bench("1 t")
    b.ok("claim", "work")
    b.commit_json("step-1")
    b.close("step-1")
    b.ok("complete", "work", "step-1", "--commit", "main")
    assert len(b.intents()) == 1


def test_a_step_completed_with_another_commit_has_none_to_be_found_again(bench):
    b = bench("1 t")
    b.ok("claim", "work")
    made = failed(b, "open_items", "E051")["commit_hash"]
    b.close("step-1")
    b.ok("complete", "work", "step-1", "--commit", f"{made}~1")
    again = b.commit_json("step-1")
    assert (again.data["committed"], again.data["recovered"]) == (False, False)
    assert (b.intents(), len(b.commits())) == ([], 1)


def test_a_completion_that_is_refused_leaves_what_was_written_down(bench):
    b = bench("1 t")
    b.ok("claim", "work")
    made = b.commit_json("step-1").data["commit_hash"]
    assert b.json("complete", "work", "step-1", "--commit", made).codes == ["E051"]
    assert len(b.intents()) == 1
    b.close("step-1")
    assert b.done("step-1")["commit_hash"] == made


def test_another_step_waits_until_the_earlier_one_is_completed(bench):
    b = bench("1 t", "2")
    b.ok("claim", "work")
    made = b.commit_json("step-1").data["commit_hash"]
    b.hold("step-2")
    issue = refuse(b, "E080", step="step-2")
    assert f"{made} for step-1: step step-1 has 1 open item" in issue["message"]
    assert issue["facts"]["cause"] == "E051"
    b.close("step-1")
    done = b.commit_json("step-2")
    assert done.codes == ["W113"]
    assert "an earlier commit for step-1 was finished" in done.data["warnings"][0]
    assert b.step("step-1")["commit_hash"] == made
    assert b.step("step-2")["commit_hash"] == b.head()
    assert len(b.commits()) == 2


def test_a_step_completed_by_hand_since_lets_the_next_one_go_on(bench):
    b = bench("1 t", "2")
    b.ok("claim", "work")
    made = b.commit_json("step-1").data["commit_hash"]
    b.close("step-1")
    b.ok("complete", "work", "step-1", "--commit", made)
    b.hold("step-2")
    b.done("step-2")
    assert b.intents() == []


def test_without_its_intent_a_commit_is_still_found_before_an_empty_one_is_made(bench):
    b = bench("1 t")
    b.ok("claim", "work")
    made = b.commit_json("step-1").data["commit_hash"]
    store_rows(b, "delete from intents")
    b.close("step-1")
    again = b.done("step-1")
    assert (again["recovered"], again["commit_hash"]) == (True, made)
    assert len(b.commits()) == 1


def store_rows(b, statement):
    from tugtool.store import open_store

    store = open_store(b.url)
    with store.write(KEY) as tx:
        tx.run(statement)
    store.close()


def test_two_commits_in_one_worktree_do_not_mix(bench):
    """The second comes while the first one's hook runs, and is refused."""
    b = bench("1", "2")
    b.hold("step-1", "step-2")
    said = b.repo.path / "said"
    second = " ".join(b.words("step-2", "--json", message="x"))
    b.hook("pre-commit", f'[ -n "$INNER" ] || INNER=1 {TUGCODE} {second} >{said} || true')
    b.done("step-1")
    assert '"E080"' in said.read_text()
    assert "another commit under way, for step-1" in said.read_text()
    assert len(b.commits()) == 1
    (b.hooks / "pre-commit").unlink()
    b.done("step-2")


def test_a_head_that_moves_meanwhile_is_noticed(bench):
    b = bench("1")
    b.hold("step-1")
    # `git add` runs a filter, after our look and before our commit.
    b.write({".gitattributes": "*.x filter=late\n", "a.x": "x\n"})
    stranger = "git commit-tree HEAD^{tree} -p HEAD -m stranger"
    once = f"[ -e {b.repo.path}/seen ] || git update-ref HEAD $({stranger})"
    (b.repo.path / "late").write_text(f"{once}\ntouch {b.repo.path}/seen\ncat\n")
    b.git("config", "filter.late.clean", f"sh {b.repo.path}/late")
    done = b.commit_json("step-1")
    assert done.codes == ["W110"], done.out
    assert done.data["completed"]
    assert done.data["commit_hash"] == b.head()


# -- why the state was not updated, each from a real cause -----------------------------


def failed(b, reason, code):
    done = b.commit_json("step-1")
    data = done.data
    assert done.status == 0
    assert (data["state_update_failed"], data["state_failure_reason"]) == (True, reason)
    assert (data["committed"], data["commit_hash"]) == (True, b.head())
    assert done.codes == [code]
    assert len(b.commits()) == 1
    return data


def test_open_items_are_the_reason(bench):
    b = bench("1 t")
    b.ok("claim", "work")
    failed(b, "open_items", "E051")


def test_open_items_of_substeps_are_the_reason(bench):
    b = bench("1 t", "1.1 t")
    b.ok("claim", "work")
    b.ok("update", "work", "step-1", "--all", "completed")
    failed(b, "open_items", "E052")


def test_a_plan_changed_by_the_step_is_the_reason(bench):
    b = bench("1")
    b.hold("step-1")
    with (b.red / KEY).open("a") as plan:
        plan.write("\n### Step 9: More\n")
    failed(b, "drift", "E048")
    b.git("checkout", "--quiet", "HEAD~1", "--", KEY)
    assert b.commit_json("step-1").data["completed"]
    assert len(b.commits()) == 1


def test_a_plan_changed_by_a_hook_is_the_reason(bench):
    b = bench("1")
    b.hold("step-1")
    b.hook("post-commit", f"echo more >> {KEY}")
    failed(b, "drift", "E048")


def test_a_step_taken_by_somebody_else_meanwhile_is_the_reason(bench):
    b = bench("1")
    b.hold("step-1")
    taken = f"{TUGCODE} state reset work step-1 && {TUGCODE} state claim work --worktree {b.blue}"
    b.hook("post-commit", f"({taken}) >/dev/null")
    failed(b, "ownership", "E060")
    assert b.step("step-1")["claimed_by"] == str(b.blue)


def test_a_step_reset_meanwhile_is_the_reason(bench):
    b = bench("1")
    b.hold("step-1")
    b.hook("post-commit", f"{TUGCODE} state reset work step-1 >/dev/null")
    failed(b, "ownership", "E050")


def test_a_database_that_breaks_meanwhile_is_the_reason(bench):
    b = bench("1")
    b.hold("step-1")
    home, away = b.repo.path / ".tugtool", b.repo.path / "away"
    away.mkdir()
    b.hook("post-commit", f"mv {home}/state.db* {away}; cp $0 {home}/state.db")
    data = failed(b, "db_error", "E046")
    for path in away.iterdir():
        os.replace(path, home / path.name)
    again = b.done("step-1")
    assert (again["recovered"], again["commit_hash"]) == (True, data["commit_hash"])
    assert len(b.commits()) == 1


def test_a_reason_is_decided_by_the_error_s_type_and_never_by_its_words():
    classes = {each.code: each for each in subclasses(errors.TugError) if each.code}
    expected = {
        state.ItemsOpen: "open_items",
        state.SubstepItemsOpen: "open_items",
        state.PlanChanged: "drift",
        state.NotOwner: "ownership",
        state.WrongStatus: "ownership",
        state.Superseded: "ownership",
    }
    found = {classes[code]: reason for code, reason in commit.REASONS.items()}
    assert found == expected
    others = set(classes.values()) - set(expected)
    assert {commit.REASONS.get(each.code, "db_error") for each in others} == {"db_error"}
    assert all(issubclass(each, StateError) for each in found)


def subclasses(base):
    for each in base.__subclasses__():
        yield each
        yield from subclasses(each)


def test_the_answer_s_schema_knows_the_four_reasons_and_no_other():
    from conftest import schema

    answer = {
        "committed": True,
        "commit_hash": "0" * 40,
        "recovered": False,
        "files_staged": [],
        "log_updated": True,
        "log_rotated": False,
        "archived_path": None,
        "state_update_failed": True,
        "warnings": [],
        "completed": False,
        "plan_path": KEY,
        "step_anchor": "step-1",
        "anchor": "step-1",
        "attempt": 1,
        "already_completed": False,
    }
    for reason in ("open_items", "drift", "ownership", "db_error"):
        assert schema("commit").is_valid({**answer, "state_failure_reason": reason})
    assert not schema("commit").is_valid({**answer, "state_failure_reason": "other"})
    assert not schema("commit").is_valid(answer)


# -- what is open, and what shows that it is done ----------------------------------------

OPEN = ("1 tcc | `test -e good` passes | It looks right (person)",)


def test_a_commit_says_what_is_still_open_and_what_settles_it(bench):
    b = bench(*OPEN)
    b.ok("claim", "work")
    b.write({"new.py": "x\n"})
    said = b.commit_text("step-1").out.splitlines()
    assert said[0].endswith("for step-1; the step is NOT completed (open_items)")
    step = "work step-1"
    assert said[1:] == [
        "  open: step-1 checkpoint 0: `test -e good` passes",
        "  open: step-1 checkpoint 1: It looks right (person)",
        "  open: step-1 task 0: task 0 of 1",
        f"  next: tugcode verify {step} --yes",
        f'  next: tugcode update {step} --checkpoint 1 deferred --reason "it waits for a person"',
        f"  next: tugcode update {step} --task 0 completed",
        f"  then: tugcode complete {step} --commit {b.head()}",
    ]


def test_a_strict_commit_is_refused_while_items_are_open_and_nothing_is_touched(bench):
    b = bench(*OPEN)
    b.ok("claim", "work")
    b.write({"new.py": "x\n"})
    before = b.head(), b.dump(), b.git("status", "--porcelain")
    refused = b.commit_json("step-1", "--strict")
    assert (refused.status, refused.codes) == (1, ["E051"])
    assert (b.head(), b.dump(), b.git("status", "--porcelain")) == before
    assert not b.log.exists()


def test_a_commit_that_verifies_has_its_evidence_at_the_commit(bench):
    b = bench(*OPEN)
    b.ok("claim", "work")
    b.write({"new.py": "x\n"})
    b.close("step-1")
    b.ok("update", "work", "step-1", "--checkpoint", 0, "open")
    refused = b.commit_json("step-1", "--verify", "--strict")
    assert (refused.status, refused.codes) == (1, ["E051"])
    b.write({"good": ""})
    data = b.done("step-1", "--verify", "--strict")
    [item] = [i for i in b.ok("show", "work")["checklist_items"] if i["evidence"]]
    evidence = item["evidence"]
    assert (evidence["commit"], evidence["dirty"], evidence["stale"]) == (b.head(), False, False)
    assert data["commit_hash"] == b.head()
    # Once more changes nothing, and runs nothing.
    assert b.done("step-1", "--verify", "--strict")["already_completed"]


def test_what_fails_is_refused_by_a_strict_commit_also_if_it_is_ticked(bench):
    b = bench(*OPEN)
    b.hold("step-1")
    refused = b.commit_json("step-1", "--verify", "--strict")
    assert refused.codes == ["E051"]
    assert "step-1 checkpoint 0" in refused.envelope()["issues"][0]["message"]


def test_work_that_its_own_check_changes_keeps_the_evidence_at_the_commit_before(bench):
    b = bench("1 c | `touch made` passes")
    b.ok("claim", "work")
    before = b.head()
    b.done("step-1", "--verify")
    [item] = b.ok("show", "work")["checklist_items"]
    assert (item["evidence"]["commit"], item["evidence"]["stale"]) == (before, True)
