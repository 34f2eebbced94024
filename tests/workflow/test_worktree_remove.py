"""worktree list, remove and cleanup: nothing goes that is not elsewhere or saved."""

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import Repo, git
from support.proving import sampled
from support.state import KEY, markdown
from support.worktree import Yard, claim_for_two_plans, fsck
from tugtool.errors.git import NotRemoved
from tugtool.git import discover
from tugtool.store import open_store
from tugtool.workflow import worktree
from tugtool.workflow.worktree import remove

pytestmark = pytest.mark.usefixtures("named_writes")


def by_name(yard: Yard) -> dict[str, dict]:
    return {tree["name"]: tree for tree in yard.ok("worktree", "list")["worktrees"]}


def merged(yard: Yard, path: Path) -> None:
    yard.repo.git("merge", "--quiet", "--no-edit", git("rev-parse", "HEAD", cwd=path).strip())


# -- list ------------------------------------------------------------------------------


@pytest.mark.proof(share=0)
def test_list_tells_of_every_worktree_what_it_holds_and_how_far_it_is(yard, tugcode):
    yard = yard()
    assert yard.ok("worktree", "list") == {"worktrees": [], "branches": []}
    fresh, busy, gone = (yard.create("--new") for _ in range(3))
    yard.ok("state", "claim", "work", at=busy)
    yard.commit(busy, {"one": "1"})
    yard.repo.commit({"on-main": "x"})
    (busy / "two").write_text("2")
    (busy / "code.txt").write_text("changed\n")
    subprocess.run(["rm", "-rf", gone], check=True)
    yard.repo.git("branch", "tugplan/lonely")
    listed = by_name(yard)
    assert listed[fresh.name]["reserved_until"] is not None
    assert (listed[fresh.name]["clean"], listed[fresh.name]["changed_files"]) == (True, 0)
    tree = listed[busy.name]
    assert (tree["clean"], tree["changed_files"]) == (False, 2)
    assert (tree["ahead"], tree["behind"]) == (1, 1)
    assert (tree["base_branch"], tree["plan_path"]) == ("main", KEY)
    held = tree["held_steps"][0]
    assert (held["step_anchor"], held["lease"], held["attempt"]) == ("step-1", "live", 1)
    assert tree["reserved_until"] is None
    assert (listed[gone.name]["exists"], listed[gone.name]["clean"]) == (False, None)
    branches = yard.ok("worktree", "list")["branches"]
    assert [each["branch_name"] for each in branches] == ["tugplan/lonely"]
    text = tugcode("-C", yard.root, "worktree", "list").out
    assert "2 files not committed" in text
    assert "its directory is gone" in text
    assert f"{busy.name}\n  plan work · tugplan/" in text
    assert "\n  → step-1 of work, at work until " in text
    assert "\ntugplan/lonely  no worktree\n" in text
    assert "reserved until" in text


def test_one_file_is_no_files(yard):
    yard = yard()
    (yard.create() / "one").write_text("1")
    assert "1 file not committed" in yard.said("worktree", "list")


def test_list_shows_a_lease_that_ran_out_and_a_holder_that_is_gone(yard):
    yard = yard()
    late, dead = yard.create(), yard.create()
    yard.ok("state", "claim", "work", "--lease-duration", "0.001", at=late)
    child = subprocess.Popen(["sleep", "60"])
    yard.ok("state", "claim", "work", "--step", "step-2", "--holder-pid", child.pid, at=dead)
    child.kill()
    child.wait()
    listed = by_name(yard)
    assert [listed[path.name]["held_steps"][0]["lease"] for path in (late, dead)] == [
        "expired",
        "gone",
    ]


def test_a_worktree_that_the_state_does_not_know_is_listed_too(yard):
    yard = yard()
    yard.repo.linked(yard.root / ".tugtree" / "mine", "mine")
    yard.repo.linked(yard.root / ".tugtree" / "tugdash__x", "tugdash/x")
    yard.repo.linked(yard.root.parent / "elsewhere", "elsewhere")
    listed = by_name(yard)
    assert set(listed) == {"mine"}
    assert (listed["mine"]["recorded"], listed["mine"]["plan_path"]) == (False, None)


# -- remove ----------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["path", "relative", "name", "branch"])
def test_a_worktree_goes_with_its_branch_once_its_work_is_merged(yard, by):
    yard = yard()
    path = yard.create()
    branch = git("rev-parse", "--abbrev-ref", "HEAD", cwd=path).strip()
    yard.do(path, "step-1", {"one": "1"})
    merged(yard, path)
    names = {"path": path, "relative": f".tugtree/{path.name}", "name": path.name, "branch": branch}
    data = yard.ok("worktree", "remove", names[by])
    assert data == {
        "worktree_path": str(path),
        "branch_name": branch,
        "plan_path": KEY,
        "branch_removed": True,
        "released": [],
        "salvage_ref": None,
    }
    assert not path.exists()
    assert set(yard.refs()) == {"refs/heads/main"}
    assert yard.rows("select * from worktrees") == []
    assert yard.rows("select * from intents") == []
    assert yard.rows("select kind from events")[-1]["kind"] == "worktree_remove"
    assert yard.repo.git("worktree", "list", "--porcelain").count("worktree ") == 1


def test_what_was_to_be_committed_in_it_is_forgotten_with_it(yard):
    yard = yard("1 t", "2")
    path = yard.create("--claim")
    (path / "one").write_text("1")
    words = ("--plan", "work", "--step", "step-1", "--message", "one")
    assert yard.ok("commit", *words, at=path)["state_failure_reason"] == "open_items"
    assert [row["kind"] for row in yard.rows("select kind from intents")] == ["commit"]
    yard.ok("worktree", "remove", path.name, "--force")
    assert yard.rows("select * from intents") == []


def test_an_empty_worktree_may_be_removed_although_it_is_reserved(yard):
    yard = yard()
    assert yard.ok("worktree", "remove", yard.create())["branch_removed"] is True


def test_uncommitted_work_names_the_command_that_saves_it(yard, tugcode):
    yard = yard()
    path = yard.create()
    (path / "untracked").write_text("x")
    refused = tugcode("-C", yard.repo.path, "worktree", "remove", path)
    assert f"next: cd {path} && tugcode worktree clean" in refused.err
    assert tugcode("-C", path, "worktree", "clean").status == 0
    assert tugcode("-C", yard.repo.path, "worktree", "remove", path).status == 0


def test_what_is_in_the_way_is_said_all_at_once(yard):
    yard = yard()
    path = yard.create("--claim")
    yard.commit(path, {"one": "1"})
    (path / "untracked").write_text("x")
    message = yard.refused("E034", "worktree", "remove", path)
    assert "it holds step-1 of" in message
    assert "1 file not committed: untracked" in message
    assert "1 commit of tugplan/work-" in message
    assert path.is_dir()


def test_force_saves_files_and_commits_and_releases_the_claim(yard):
    yard = yard()
    path = yard.create("--claim")
    tip = yard.commit(path, {"one": "1", "gone": "x", ".gitignore": "ignored\n"})
    (path / "code.txt").write_text("changed\n")
    (path / "untracked \n'ö").write_text("new\n")
    (path / "ignored").write_text("no\n")
    (path / "gone").unlink()
    git("add", "code.txt", cwd=path)
    (path / "code.txt").write_text("changed again\n")
    data = yard.ok("worktree", "remove", path, "--force")
    ref = data["salvage_ref"]
    assert ref.split("/")[:4] == ["refs", "tug", "salvage", "work"]
    assert ref.endswith(f"Z-{path.name}")
    assert yard.repo.git("rev-parse", f"{ref}^").strip() == tip
    names = yard.repo.git("ls-tree", "-z", "--name-only", ref).split("\0")
    assert {"untracked \n'ö", "one", "code.txt", ".gitignore"} <= set(names)
    assert not {"ignored", "gone"} & set(names)
    assert yard.repo.git("show", f"{ref}:code.txt") == "changed again\n"
    assert data["released"] == [{"plan_path": KEY, "step_anchor": "step-1"}]
    assert data["branch_removed"] is True
    steps = yard.rows("select status, claimed_by from steps where anchor = 'step-1'")
    assert steps == [{"status": "pending", "claimed_by": None}]
    assert yard.rows("select outcome, salvage_ref from attempts") == [
        {"outcome": "released", "salvage_ref": ref}
    ]
    other = yard.create()
    claim = yard.ok("state", "claim", "work", at=other)
    assert claim["previous_attempt"]["salvage_ref"] == ref
    fsck(yard.root)


def test_the_index_of_a_saved_worktree_is_not_touched(yard):
    """Saving works on a copy: if the removal then fails, everything is as it was."""
    yard = yard()
    path = yard.create()
    (path / "new").write_text("x")
    (path / "code.txt").write_text("staged\n")
    git("add", "code.txt", cwd=path)
    Repo.init(path / "inner").commit()
    before = git("status", "--porcelain", cwd=path)
    message = yard.refused("E034", "worktree", "remove", path, "--force")
    assert "inner is a repository of its own" in message
    assert git("status", "--porcelain", cwd=path) == before
    assert not [
        name for name in os.listdir(yard.root / ".git" / "worktrees" / path.name) if "tug" in name
    ]


def test_a_detached_head_s_commits_are_saved_beside_the_branch_s(yard):
    yard = yard()
    path = yard.create()
    on_branch = yard.commit(path, {"one": "1"})
    git("checkout", "--quiet", "--detach", "HEAD~1", cwd=path)
    loose = yard.commit(path, {"two": "2"})
    assert yard.refused("E034", "worktree", "remove", path).count("not on main") == 2
    ref = yard.ok("worktree", "remove", path, "--force")["salvage_ref"]
    parents = yard.repo.git("log", "-1", "--format=%P", ref).split()
    assert parents == [loose, on_branch]


def test_a_conflict_that_is_being_resolved_is_saved_as_it_stands(yard):
    yard = yard()
    path = yard.create()
    yard.commit(path, {"code.txt": "ours\n"})
    yard.repo.commit({"code.txt": "theirs\n"})
    subprocess.run(["git", "merge", "main"], cwd=path, capture_output=True, check=False)
    ref = yard.ok("worktree", "remove", path, "--force")["salvage_ref"]
    assert "<<<<<<<" in yard.repo.git("show", f"{ref}:code.txt")


def test_a_claim_whose_lease_ran_out_is_released_without_force(yard):
    yard = yard()
    path = yard.create()
    yard.ok("state", "claim", "work", "--lease-duration", "0.001", at=path)
    data = yard.ok("worktree", "remove", path)
    assert data["released"] == [{"plan_path": KEY, "step_anchor": "step-1"}]
    assert data["salvage_ref"] is None


def test_claims_of_several_plans_are_released(yard):
    yard = yard()
    yard.repo.commit({".tugtool/tugplan-other.md": markdown("1")})
    yard.ok("state", "init", "other")
    path = yard.create("--claim")
    claim_for_two_plans(yard, "other", path)
    data = yard.ok("worktree", "remove", path, "--force")
    assert len(data["released"]) == 2
    assert yard.rows("select 1 from steps where claimed_by is not null") == []


def test_never_the_main_worktree_nor_one_from_elsewhere(yard, tugcode):
    yard = yard()
    other = yard.repo.linked(yard.root.parent / "elsewhere", "elsewhere")
    assert "it is the main worktree" in yard.refused("E034", "worktree", "remove", ".", "--force")
    assert "no worktree of a plan" in yard.refused("E034", "worktree", "remove", other, "--force")
    done = tugcode("-C", yard.root, "--json", "worktree", "remove", "--", "--force")
    assert done.codes == ["E034"]


def test_an_unknown_name_gets_the_closest(yard):
    yard = yard()
    path = yard.create()
    name = path.name.replace("work", "wrok")
    assert f"closest: {path.name}" in yard.refused("E034", "worktree", "remove", name)


def test_one_cannot_remove_the_ground_one_stands_on(yard):
    yard = yard()
    path = yard.create()
    inside = path / "deep"
    inside.mkdir()
    for at in (path, inside):
        message = yard.refused("E034", "worktree", "remove", path, "--force", at=at)
        assert "you stand in it" in message


def test_a_locked_worktree_stays_even_forced(yard):
    yard = yard()
    path = yard.create()
    yard.repo.git("worktree", "lock", "--reason=on a stick", str(path))
    assert "it is locked (on a stick)" in yard.refused("E034", "worktree", "remove", path)
    assert "it is locked" in yard.refused("E034", "worktree", "remove", path, "--force")


def test_a_directory_that_is_gone_takes_its_row_and_its_landed_branch_along(yard):
    yard = yard()
    path = yard.create()
    subprocess.run(["rm", "-rf", path], check=True)
    assert yard.ok("worktree", "remove", path.name)["branch_removed"] is True
    assert yard.names() == []
    assert yard.repo.git("worktree", "list", "--porcelain").count("worktree ") == 1


def test_a_directory_that_is_gone_keeps_commits_that_are_nowhere_else(yard):
    yard = yard()
    path = yard.create()
    tip = yard.commit(path, {"one": "1"})
    subprocess.run(["rm", "-rf", path], check=True)
    yard.repo.git("worktree", "prune")
    assert "1 commit of" in yard.refused("E034", "worktree", "remove", path.name)
    ref = yard.ok("worktree", "remove", path.name, "--force")["salvage_ref"]
    assert yard.refs() == {"refs/heads/main": yard.start, ref: tip}


def test_a_directory_without_its_git_marker_is_left_to_a_person(yard):
    """Git would act on the repository around it."""
    yard = yard()
    path = yard.create()
    (path / ".git").unlink()
    message = yard.refused("E034", "worktree", "remove", path, "--force")
    assert "git does not know" in message
    assert (path / "code.txt").exists()
    assert by_name(yard)[path.name]["exists"] is False


def test_without_its_base_branch_nothing_is_proven(yard):
    yard = yard()
    yard.repo.git("branch", "develop")
    path = yard.create("--base", "develop")
    yard.repo.git("branch", "-D", "develop")
    assert "its base branch develop is gone" in yard.refused("E034", "worktree", "remove", path)
    assert yard.ok("worktree", "cleanup")["removed"] == []


def test_what_cannot_be_saved_is_not_removed(yard):
    yard = yard()
    path = yard.create("--claim")
    yard.commit(path, {"one": "1"})
    hook = yard.root / "reference-transaction"
    hook.write_text("#!/bin/sh\ncase $(cat) in *refs/tug/*) exit 1;; esac\n")
    hook.chmod(0o755)
    hooks = yard.root / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    hook.rename(hooks / "reference-transaction")
    assert "aborted by hook" in yard.refused("E034", "worktree", "remove", path, "--force")
    assert yard.rows("select status from steps where anchor = 'step-1'") == [{"status": "claimed"}]


def with_submodule(yard: Yard, tmp_path: Path) -> tuple[Path, Path]:
    part = Repo.init(tmp_path / "part")
    part.commit()
    yard.repo.git("submodule", "--quiet", "add", str(part.path), "part")
    yard.repo.commit({"with": "part"})
    path = yard.create()
    git("submodule", "--quiet", "update", "--init", cwd=path)
    return path, path / "part"


def test_a_submodule_with_nothing_of_its_own_goes_along(yard, tmp_path):
    yard = yard()
    path, _ = with_submodule(yard, tmp_path)
    assert yard.ok("worktree", "remove", path)["branch_removed"] is True
    assert not path.exists()


@pytest.mark.parametrize("how", ["commit", "file", "branch"])
def test_work_in_a_submodule_keeps_the_worktree_even_forced(yard, tmp_path, how):
    yard = yard()
    path, part = with_submodule(yard, tmp_path)
    Repo(part).write({"mine": "x"})
    if how != "file":
        Repo(part).commit({"mine": "x"})
    if how == "branch":
        git("branch", "kept", cwd=part)
        git("reset", "--quiet", "--hard", "HEAD~1", cwd=part)
    assert "its submodule part holds work" in yard.refused(
        "E034", "worktree", "remove", path, "--force"
    )


def test_an_unrecorded_worktree_is_removed_by_the_same_rules_and_its_branch_stays(yard):
    yard = yard()
    path = yard.repo.linked(yard.root / ".tugtree" / "mine", "mine")
    yard.commit(path, {"one": "1"})
    assert "1 commit of mine not on main" in yard.refused("E034", "worktree", "remove", "mine")
    merged(yard, path)
    assert yard.ok("worktree", "remove", "mine")["branch_removed"] is False
    assert "refs/heads/mine" in yard.refs()


def test_what_git_cannot_remove_stays_whole(yard, tmp_path, monkeypatch):
    yard = yard()
    path = yard.create()
    yard.commit(path, {"one": "1"})
    merged(yard, path)
    yard.ok("state", "claim", "work", "--lease-duration", "0.001", at=path)
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    refusal = "echo 'fatal: the disk says no' >&2; exit 128"
    real = shutil.which("git")
    fake.write_text(
        f'#!/bin/sh\ncase "$*" in *"worktree remove"*) {refusal};; esac\nexec {real} "$@"\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    assert "the disk says no" in yard.refused("E034", "worktree", "remove", path)
    kept = yard.ok("worktree", "cleanup")["kept"]
    assert "the disk says no" in kept[0]["reasons"][0]
    steps = yard.rows("select status from steps where anchor = 'step-1'")
    assert steps == [{"status": "claimed"}]


def test_a_claim_that_another_took_meanwhile_is_not_released(yard):
    yard = yard()
    path, other = yard.create("--new"), yard.create("--new")
    yard.ok("state", "claim", "work", "--lease-duration", "0.001", at=path)
    repo = discover(str(yard.root))
    store = open_store(f"sqlite://{yard.root / '.tugtool' / 'state.db'}")
    tree = worktree.trees(repo, store)[0]
    seen = worktree.inspect(repo, store, tree, cwd=str(yard.root))
    yard.ok("state", "claim", "work", "--step", "step-1", at=other)
    data = remove.Removing(repo, store, tree, seen, force=False).run()
    store.close()
    assert (data["worktree_path"], data["released"]) == (str(path), [])
    held = yard.rows("select claimed_by from steps where anchor = 'step-1'")
    assert held == [{"claimed_by": str(other)}]


def test_a_step_that_was_claimed_since_it_was_looked_at_is_released(yard):
    yard = yard()
    path = yard.create()
    repo = discover(str(yard.root))
    store = open_store(f"sqlite://{yard.root / '.tugtool' / 'state.db'}")
    tree = worktree.trees(repo, store)[0]
    seen = worktree.inspect(repo, store, tree, cwd=str(yard.root))
    yard.ok("state", "claim", "work", at=path)
    data = remove.Removing(repo, store, tree, seen, force=True).run()
    store.close()
    assert [each["step_anchor"] for each in data["released"]] == ["step-1"]
    steps = yard.rows("select status, claimed_by from steps where anchor = 'step-1'")
    assert steps == [{"status": "pending", "claimed_by": None}]


def test_a_branch_that_moved_since_it_was_looked_at_stays(yard):
    yard = yard()
    path = yard.create()
    repo = discover(str(yard.root))
    store = open_store(f"sqlite://{yard.root / '.tugtool' / 'state.db'}")
    tree = worktree.trees(repo, store)[0]
    seen = worktree.inspect(repo, store, tree, cwd=str(yard.root))
    late = yard.commit(path, {"late": "x"})
    data = remove.Removing(repo, store, tree, seen, force=False).run()
    store.close()
    assert data["branch_removed"] is False
    assert yard.refs()[f"refs/heads/{data['branch_name']}"] == late


@pytest.mark.parametrize("force", [False, True])
def test_a_file_that_was_written_since_it_was_looked_at_stays_whatever_the_settings(yard, force):
    """Git looks once more, and a person may have told it to overlook new files."""
    yard = yard()
    path = yard.create()
    yard.repo.git("config", "status.showUntrackedFiles", "no")
    repo = discover(str(yard.root))
    store = open_store(f"sqlite://{yard.root / '.tugtool' / 'state.db'}")
    tree = worktree.trees(repo, store)[0]
    seen = worktree.inspect(repo, store, tree, cwd=str(yard.root))
    (path / "late").write_text("x")
    with pytest.raises(NotRemoved, match="untracked"):
        remove.Removing(repo, store, tree, seen, force=force).run()
    store.close()
    assert (path / "late").read_text() == "x"
    assert yard.rows("select * from intents") == []


# -- cleanup ---------------------------------------------------------------------------


def squash(yard: Yard, path: Path) -> None:
    yard.repo.git("merge", "--quiet", "--squash", git("rev-parse", "HEAD", cwd=path).strip())
    yard.repo.git("commit", "--quiet", "--message=squashed")


def rebase(yard: Yard, path: Path) -> None:
    tip = git("rev-parse", "HEAD", cwd=path).strip()
    yard.repo.git("cherry-pick", f"{yard.start}..{tip}")


@pytest.mark.proof(share=0)
@pytest.mark.parametrize(
    "land", sampled([squash, merged, rebase], 1), ids=lambda land: land.__name__
)
def test_cleanup_removes_what_has_landed_and_says_why_the_rest_stays(yard, land, tugcode):
    yard = yard()
    done, open_, dirty, fresh = (yard.create("--new") for _ in range(4))
    for number, path in enumerate((done, open_, dirty)):
        yard.commit(path, {f"{number}": "x"})
    for path in (done, dirty):
        yard.repo.commit({f"other-{path.name}": "x"})
        land(yard, path)
    (dirty / "loose").write_text("x")
    before = yard.picture()
    dry = yard.ok("worktree", "cleanup", "--dry-run")
    assert yard.picture() == before
    data = yard.ok("worktree", "cleanup")
    assert (dry.pop("dry_run"), data.pop("dry_run")) == (True, False)
    assert dry == data
    assert [each["worktree_path"] for each in data["removed"]] == [str(done)]
    reasons = {each["worktree_path"]: " ".join(each["reasons"]) for each in data["kept"]}
    assert "1 commit of" in reasons[str(open_)]
    assert "1 file not committed: loose" in reasons[str(dirty)]
    assert "nothing was committed in it yet" in reasons[str(fresh)]
    assert not done.exists()
    text = tugcode("-C", yard.root, "worktree", "cleanup").out
    assert f"kept {open_}: 1 commit" in text
    fsck(yard.root)


def test_once_the_plan_is_done_a_reservation_keeps_no_empty_branch(yard):
    yard = yard("1")
    path, spare = yard.create("--new"), yard.create("--new")
    yard.do(path, "step-1", {"one": "1"})
    merged(yard, path)
    removed = yard.ok("worktree", "cleanup")["removed"]
    assert {each["worktree_path"] for each in removed} == {str(path), str(spare)}
    assert set(yard.refs()) == {"refs/heads/main"}


def test_cleanup_takes_branches_without_a_worktree_only_when_they_have_landed(yard):
    yard = yard()
    yard.repo.git("branch", "tugplan/landed")
    yard.repo.git("branch", "other/landed")
    yard.repo.git("checkout", "--quiet", "-b", "tugplan/open")
    yard.repo.commit({"x": "x"})
    yard.repo.git("checkout", "--quiet", "main")
    data = yard.ok("worktree", "cleanup")
    assert [each["branch_name"] for each in data["removed"]] == ["tugplan/landed"]
    assert [each["branch_name"] for each in data["kept"]] == ["tugplan/open"]
    assert {"refs/heads/tugplan/open", "refs/heads/other/landed"} < set(yard.refs())


def test_a_branch_that_a_hook_guards_is_kept_with_git_s_words(yard):
    yard = yard()
    yard.repo.git("branch", "tugplan/old-20260101")
    hook = yard.root / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\n[ "$1" != prepared ]\n')
    hook.chmod(0o755)
    data = yard.ok("worktree", "cleanup")
    assert data["removed"] == []
    assert "hook" in data["kept"][0]["reasons"][0]
    hook.unlink()
    assert len(yard.ok("worktree", "cleanup")["removed"]) == 1


def test_what_is_only_on_a_remote_branch_has_not_landed_here(yard):
    """The record is found again from the local branches alone: they have to have it first."""
    yard = yard()
    path = yard.create()
    tip = yard.commit(path, {"one": "1"})
    yard.repo.git("config", "branch.main.remote", "origin")
    yard.repo.git("config", "branch.main.merge", "refs/heads/main")
    yard.repo.git("config", "remote.origin.url", "/nowhere")
    yard.repo.git("config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
    yard.repo.git("update-ref", "refs/remotes/origin/main", tip)
    assert "1 commit of" in yard.refused("E034", "worktree", "remove", path)
    assert yard.ok("worktree", "cleanup")["removed"] == []
    yard.repo.git("merge", "--quiet", "--ff-only", "origin/main")
    yard.ok("worktree", "remove", path)


def test_cleanup_leaves_live_claims_and_where_one_stands(yard):
    yard = yard()
    held, here = yard.create("--new"), yard.create("--new")
    for path in (held, here):
        yard.commit(path, {path.name: "x"})
        merged(yard, path)
    yard.ok("state", "claim", "work", at=held)
    kept = yard.ok("worktree", "cleanup", at=here)["kept"]
    reasons = {each["worktree_path"]: each["reasons"] for each in kept}
    assert reasons[str(here)] == ["you stand in it"]
    assert [reason[:18] for reason in reasons[str(held)]] == ["it holds step-1 of"]


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("seed", sampled(range(6), 1))
def test_whatever_cleanup_deletes_is_elsewhere(yard, seed):
    """Random worktrees in random states: every commit and file that went is still to be had."""
    yard = yard("1", "2", "3", "4", "5", "6")
    chance = random.Random(seed)
    paths = [yard.create("--new") for _ in range(6)]
    work = {path: _work(yard, chance, path) for path in paths}
    for path in paths:
        _land(yard, chance, path)
    yard.ok("worktree", "cleanup")
    for path, (contents, committed) in work.items():
        if path.exists():
            continue
        assert contents == {}, "uncommitted work went"
        for name, text in committed.items():
            assert _ever_on_main(yard, name, text), f"{name} of {path.name} is nowhere"
    fsck(yard.root)


def _work(yard: Yard, chance: random.Random, path: Path) -> tuple[dict, dict]:
    committed = {}
    for _ in range(chance.randrange(4)):
        name = chance.choice(["shared.txt", f"{path.name}.txt", "code.txt"])
        committed[name] = f"{chance.random()} of {path.name}\n"
        yard.commit(path, {name: committed[name]})
    loose = {"loose.txt": "x"} if chance.random() < 0.3 else {}
    Repo(path).write(loose)
    if chance.random() < 0.2:
        yard.ok("state", "claim", "work", at=path)
    return loose, committed


def _land(yard: Yard, chance: random.Random, path: Path) -> None:
    tip = git("rev-parse", "HEAD", cwd=path).strip()
    how = chance.choice(["merge", "squash", "pick", "partly", "nothing", "nothing"])
    words = {
        "merge": ["merge", "--quiet", "--no-edit", tip],
        "squash": ["merge", "--quiet", "--squash", tip],
        "pick": ["cherry-pick", f"{yard.start}..{tip}"],
        "partly": ["cherry-pick", tip],
    }.get(how)
    if words is None:
        return
    if subprocess.run(["git", *words], cwd=yard.root, capture_output=True, check=False).returncode:
        yard.repo.git("reset", "--quiet", "--hard")
        subprocess.run(["git", "cherry-pick", "--quit"], cwd=yard.root, check=False)
    elif how == "squash" and yard.repo.git("status", "--porcelain", "--untracked-files=no"):
        yard.repo.git("commit", "--quiet", "--message=squashed")


def _ever_on_main(yard: Yard, name: str, text: str) -> bool:
    commits = yard.repo.git("rev-list", "main", "--", name).split()
    found = (yard.repo.git("show", f"{each}:{name}") for each in commits)
    return text in found


def test_a_state_of_another_repository_s_making_is_not_needed(yard):
    """Without a database, git alone is asked."""
    yard = yard()
    yard.repo.linked(yard.root / ".tugtree" / "mine", "mine")
    assert yard.names() == ["mine"]
    assert yard.ok("worktree", "cleanup") == {"dry_run": False, "removed": [], "kept": []}
    (yard.root / ".tugtree" / "mine" / "new").write_text("x")
    ref = yard.ok("worktree", "remove", "mine", "--force")["salvage_ref"]
    assert ref in yard.refs()
    assert not yard.has_state()


def test_events_tell_of_worktrees_and_the_reservation(yard):
    yard = yard()
    path = yard.create()
    yard.free(path)
    yard.create()
    yard.ok("worktree", "remove", path)
    store = open_store(f"sqlite://{yard.root / '.tugtool' / 'state.db'}")
    with store.read(KEY) as tx:
        kinds = [row["kind"] for row in tx.all("select kind from events order by seq")]
    store.close()
    assert [kind for kind in kinds if kind.startswith("worktree")] == [
        "worktree_create",
        "worktree_reserve",
        "worktree_remove",
    ]
