"""What people are told of commits and merges that are on one machine alone."""

import os
from pathlib import Path

from conftest import git
from support.machines import SETTINGS, Machine
from workflow.test_remote import fleet
from workflow.test_shared_record import url

__all__ = ["fleet", "url"]


def _away(team) -> None:
    os.rename(team.bare, f"{team.bare}.away")


def _back(team) -> None:
    os.rename(f"{team.bare}.away", team.bare)


def test_a_plan_that_waits_for_an_unpublished_commit_says_so_everywhere(fleet):
    team = fleet("1 t", "2 t", "3 t < 1 2")
    till, kiosk = team.start("till", "kiosk")
    _away(team)
    till.step()
    _back(team)
    # While another step is open too, only both together free the third.
    frees = kiosk.data("why", "work", "step-3")["frees"]
    assert frees[0] == (
        "It is free when step-2 is completed, and till has pushed that commit; "
        "there: tugcode worktree publish"
    )
    kiosk.step()
    alone = "the commit of step-1 is on till alone; there: tugcode worktree publish"
    told = kiosk.run("next", "work")
    assert (told.status, told.out) == (0, "")
    assert alone in told.err
    assert "next: tugcode why work step-1" in told.err
    assert alone in kiosk.run("claim", "work", "--worktree", "/elsewhere").out
    assert alone in kiosk.run("next", "work", "--wait", "1").err
    seen = kiosk.run("status")
    assert "1 waiting" in seen.out
    assert "ready" not in seen.out
    assert "1 commit is on one machine alone  tugcode why work step-1" in seen.out
    (plan,) = kiosk.data("status")["plans"]
    assert [each["step_anchor"] for each in plan["unpublished"]] == ["step-1"]
    assert (plan["steps"]["ready"], plan["steps"]["blocked"]) == (0, 1)
    shown = kiosk.run("show", "work").out
    assert "1 waiting" in shown
    assert "waits for publish of 1" in shown
    report = kiosk.run("report", "work").out
    assert "Waits for you: 1 commit that is on one machine alone. Next: tugcode why work" in report
    assert "its commit is on till alone" in report
    why = kiosk.data("why", "work", "step-3")
    assert why["situation"] == "blocked"
    assert "Any worker may claim it" not in str(why["frees"])
    culprit = kiosk.data("why", "work", "step-1")
    assert "The remote does not have its commit, which is on till alone" in str(culprit)
    assert "on till: tugcode worktree publish" in str(culprit["frees"])
    # Where the commit is, the command is the one that publishes it.
    assert "tugcode worktree publish" in till.run("status").out
    till.data("worktree", "publish")
    assert "1 ready" in kiosk.run("status").out


def _merged(team, *names: str):
    first, *others = team.start(*names)
    first.step()
    return first, *others


def test_a_merge_that_is_not_pushed_is_told_until_the_remote_has_it(fleet):
    team = fleet("1 t")
    till, kiosk = _merged(team, "till", "kiosk")
    push = "tugcode merge work --push"
    for said in ("status", "show work", "report work", "next work"):
        done = till.run(*said.split())
        assert push in done.out + done.err, said
    merged = till.run("merge", "work")
    assert f"origin does not have it; next: {push}" in merged.out
    assert "merged here, not pushed" in till.run("status").out
    for said in ("status", "show work", "report work"):
        told = kiosk.run(*said.split()).out
        assert "merged on till, not pushed" in told, said
        assert push in told, said
    checks = {each["name"]: each for each in kiosk.run("doctor", "--json").data["checks"]}
    assert "merged on till, not pushed" in str(checks["merging"])
    assert "pushed main" in till.run("merge", "work", "--push").out
    assert "pushed main by till:" in kiosk.run("log", "work").out
    for said in ("status", "show work", "report work"):
        assert "not pushed" not in kiosk.run(*said.split()).out, said
    assert "the remote has main already" in till.run("merge", "work", "--push").out


def test_a_merge_that_a_person_pushed_is_known_where_it_was_seen(fleet):
    team = fleet("1 t")
    (till,) = _merged(team, "till")
    till.data("merge", "work")
    till.git("push", "--quiet", "origin", "main")
    assert "not pushed" not in till.run("status").out


def test_another_machine_merges_anew_what_a_lost_machine_never_pushed(fleet):
    team = fleet("1 t")
    till, kiosk = _merged(team, "till", "kiosk")
    till.data("merge", "work")
    refused = kiosk.run("merge", "work", "--json")
    assert refused.codes == ["E062"]
    (issue,) = refused.envelope()["issues"]
    assert "on till, and origin does not have that" in issue["message"]
    assert issue["hint"] == "tugcode merge work --push"
    # In the same second it would be the same commit.
    later = {"GIT_COMMITTER_DATE": "2030-01-01T00:00:00Z"}
    done = kiosk.run("merge", "work", "--push", "--json", **later)
    assert (done.status, done.codes) == (0, ["W173"])
    assert team.tip("main") == done.data["merged_commit"]
    # The other one comes back: its own merge is in the way of nothing.
    refused = till.run("merge", "work", "--push", "--json")
    assert refused.codes == ["E062"]
    (issue,) = refused.envelope()["issues"]
    assert issue["hint"] == "git pull --no-rebase origin main"
    till.git("pull", "--quiet", "--no-rebase", "--no-edit", "origin", "main")
    assert till.data("merge", "work", "--push")["pushed"] is True


def test_a_base_branch_that_moved_after_a_plain_merge_has_a_hint_that_works(fleet):
    team = fleet("1 t")
    till, kiosk = _merged(team, "till", "kiosk")
    (kiosk.path / "other.txt").write_text("of a person\n")
    kiosk.git("add", "other.txt")
    kiosk.git("commit", "--quiet", "--message", "a person's")
    kiosk.git("push", "--quiet", "origin", "main")
    tried = till.run("merge", "work", "--dry-run", "--json")
    assert (tried.status, tried.codes) == (0, ["W174"])
    assert tried.envelope()["issues"][0]["hint"] == "git pull --ff-only origin main"
    till.data("merge", "work")
    refused = till.run("merge", "work", "--push", "--json")
    assert refused.codes == ["E062"]
    till.git("pull", "--quiet", "--no-edit", *refused.envelope()["issues"][0]["hint"].split()[2:])
    assert till.data("merge", "work", "--push")["pushed"] is True
    assert team.tip("main") == till.git("rev-parse", "main").strip()


def test_a_protected_branch_is_reached_by_a_pull_request(fleet):
    team = fleet("1 t")
    (till,) = _merged(team, "till")
    said = "main is protected: open a pull request"
    hook = 'while read old new ref; do [ "$ref" != refs/heads/main ] || exec false; done'
    team.hook(f"echo {said} >&2; {hook}; exit 0")
    done = till.run("merge", "work", "--push")
    assert done.status == 1
    assert "next: git push origin main:refs/heads/merge-work" in done.err
    assert "merged here, not pushed" in till.run("status").out
    till.git("push", "--quiet", "origin", "main:refs/heads/merge-work")
    # A person merges the request there.
    (team.bare / "hooks" / "pre-receive").unlink()
    till.git("push", "--quiet", "origin", "main")
    assert "the remote has main already" in till.run("merge", "work", "--push").out
    assert "merged" in till.run("status").out


def test_a_squashed_pull_request_is_recorded_by_a_clone_that_has_it(fleet):
    team = fleet("1 t")
    till, kiosk = _merged(team, "till", "kiosk")
    till.data("merge", "work")
    till.git("push", "--quiet", "origin", "main:refs/heads/merge-work")
    kiosk.git("fetch", "--quiet", "origin")
    kiosk.git("merge", "--quiet", "--squash", "origin/merge-work")
    # Hosting sites keep the messages, and with them the trailers.
    said = kiosk.git("log", "-1", "--format=%B", "--grep", "Tug-Step", "origin/merge-work")
    kiosk.git("commit", "--quiet", "--message", said)
    kiosk.git("push", "--quiet", "origin", "main")
    assert "merged on till, not pushed" in kiosk.run("status").out
    done = kiosk.data("merge", "work", "--push")
    assert (done["pushed"], done["pushed_before"]) == (True, True)
    assert "not pushed" not in till.run("status").out


def test_a_branch_that_was_force_pushed_is_unpublished_again_and_the_claim_given_back(fleet):
    team = fleet("1 t", "2 t < 1")
    till, kiosk = team.start("till", "kiosk")
    path, _, _ = till.step()
    branch = till.git("branch", "--show-current", at=path).strip()
    till.git("push", "--quiet", "--force", "origin", f"main:{branch}")
    refused = kiosk.run("next", "work", "--json")
    assert (refused.status, refused.codes) == (1, ["E061"])
    (issue,) = refused.envelope()["issues"]
    assert "origin no longer has it on its branch; on till: tugcode worktree publish" in refused.out
    assert "the step is given back" in issue["message"]
    assert issue["hint"] == "tugcode why work step-1"
    steps = {step["anchor"]: step for step in kiosk.data("state", "show", "work")["steps"]}
    assert (steps["step-2"]["status"], steps["step-2"]["claimed_by"]) == ("pending", None)
    assert steps["step-1"]["unpublished"] == "origin no longer has it on its branch"
    assert "is on till alone" in str(kiosk.data("why", "work", "step-1"))
    assert "1 commit is on one machine alone" in kiosk.run("status").out
    # The machine that has the commit is not held up.
    assert till.data("next", "work", at=path)["anchor"] == "step-2"
    till.data("worktree", "publish")
    assert "unpublished" not in str(kiosk.data("state", "show", "work")["steps"][0])


def test_a_superseded_attempt_in_conflict_is_left_out_of_the_merge(fleet):
    team = fleet("1 t")
    till, kiosk = team.start("till", "kiosk")
    _away(team)
    path, _, _ = till.step()
    _back(team)
    till.data("reopen", "work", "step-1", "--reason", "wrong")
    kiosk.step()
    till.data("worktree", "publish")
    tried = kiosk.run("merge", "work", "--dry-run", "--json")
    assert (tried.status, tried.codes) == (0, ["W116"])
    assert "its steps were done again elsewhere" in tried.out
    done = kiosk.data("merge", "work", "--push")
    assert done["pushed"] is True
    assert (kiosk.path / "step-1.txt").read_text() == "step-1 by kiosk\n"
    branch = till.git("branch", "--show-current", at=path).strip()
    assert team.tip(branch)


def test_settings_without_a_remote_hint_at_a_plain_merge(fleet):
    team = fleet("1 t", settings=SETTINGS.partition("[remote]")[0])
    (till,) = _merged(team, "till")
    assert "tugcode merge work\n" in till.run("status").out.replace("  ", " ").replace(" \n", "\n")
    assert "unpushed_to" not in till.data("merge", "work")


def test_a_machine_that_lost_its_step_is_told_and_its_files_are_saved_and_published(fleet):
    team = fleet("1 t", "2 t")
    till, kiosk = team.start("till", "kiosk")
    made = till.data("next", "work")
    path = made["worktree_path"]
    (Path(path) / "half.txt").write_text("half done\n")
    kiosk.data("state", "reset", "work", "step-1")
    assert kiosk.data("next", "work")["anchor"] == "step-1"
    lost = till.run("done", "--all", "--json", at=path)
    assert (lost.status, lost.codes) == (4, ["E049"])
    (issue,) = lost.envelope()["issues"]
    assert "step step-1 is held by kiosk:" in issue["message"]
    assert "your files are saved as refs/tug/salvage/" in issue["message"]
    # Told again, as long as the files lie there; and the remote has them.
    assert till.run("done", "--all", "--json", at=path).status == 4
    (ref,) = git("for-each-ref", "--format=%(refname)", "refs/tug/", cwd=team.bare).split()
    assert kiosk.run("worktree", "salvage", "show", ref, "--json").codes == ["E085"]
    listed = kiosk.run("worktree", "salvage", "list").out
    fetch = "git fetch origin '+refs/tug/salvage/*:refs/tug/salvage/*'"
    assert listed == f"nothing was saved\nwhat other machines saved comes with: {fetch}\n"
    kiosk.git("fetch", "--quiet", "origin", "+refs/tug/salvage/*:refs/tug/salvage/*")
    assert "in till:" in kiosk.run("worktree", "salvage", "list").out
    assert "till:" not in till.run("worktree", "salvage", "list").out


def test_a_step_that_its_machine_could_not_begin_left_nothing_there(fleet):
    team = fleet("1 t", "2 t < 1")
    till, kiosk = team.start("till", "kiosk")
    kiosk.step()
    till.git("remote", "set-url", "origin", "/nowhere/shop.git")
    assert till.run("next", "work", "--json").codes == ["E061"]
    taken = kiosk.run("next", "work", "--json")
    assert (taken.codes, taken.data["anchor"], taken.data["attempt"]) == ([], "step-2", 2)


def test_worktree_publish_saves_what_a_lost_step_left(fleet):
    team = fleet("1 t")
    till, kiosk = team.start("till", "kiosk")
    path = till.data("next", "work")["worktree_path"]
    (Path(path) / "half.txt").write_text("half done\n")
    kiosk.data("state", "reset", "work", "step-1")
    (ref,) = till.data("worktree", "publish")["salvage_refs"]
    assert ref in git("for-each-ref", "--format=%(refname)", "refs/tug/", cwd=team.bare).split()


def test_an_old_clone_is_told_to_pull(fleet):
    team = fleet("1 t")
    till, kiosk = team.start("till", "kiosk")
    kiosk.git("rm", "--quiet", ".tugtool/tugplan-work.md")
    refused = kiosk.run("next", "work", "--json")
    assert refused.codes == ["E041"]
    (issue,) = refused.envelope()["issues"]
    assert "the file of work is not here, and its state is" in issue["message"]
    assert issue["hint"] == "git pull"
    assert "the file is gone  git pull" in kiosk.run("status").out
    assert till.run("next", "work").status == 0


def test_a_container_with_the_same_id_does_not_take_a_live_worker_s_step(fleet):
    team = fleet("1 t")
    till, other = team.start("till", "other")
    path = till.data("next", "work")["worktree_path"]
    # The other container has the same id, and its clone the same path.
    os.rename(till.path, f"{till.path}.hidden")
    os.rename(other.path, till.path)
    twin = Machine(team, "till", till.path)
    seen = twin.run("status").out
    assert "worktree remove" not in seen
    assert "tugcode why work step-1" in seen
    refused = twin.run("worktree", "remove", Path(path).name, "--json")
    assert refused.codes == ["E034"]
    assert "need a TUGCODE_MACHINE each" in refused.out
    assert twin.data("state", "show", "work")["steps"][0]["status"] == "in_progress"


def test_doctor_names_what_has_the_state(fleet):
    team = fleet("1 t")
    (till,) = team.start("till")
    seen = till.run("doctor").out
    assert ("PostgreSQL" in seen, "SQLite" in seen) == (True, False)


def test_a_dry_run_in_a_fresh_clone_sees_no_conflict_in_the_log(fleet):
    team = fleet("1 t", "2 t")
    till, kiosk = team.start("till", "kiosk")
    till.step()
    kiosk.step()
    fresh = team.join("store")
    tried = fresh.run("merge", "work", "--dry-run", "--json")
    assert (tried.status, tried.data["conflicts"]) == (0, [])
    assert fresh.git("status", "--porcelain") == ""
