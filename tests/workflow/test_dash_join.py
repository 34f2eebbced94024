"""The end of a dash: joined to its base branch, or given up with its work saved."""

import shutil

import pytest

from conftest import Repo, git
from support.worktree import fsck


def ended(field, name: str = "fix") -> None:
    """Nothing is left of a dash but its record, and nothing is under way."""
    assert not field.place(name).exists()
    assert f"refs/heads/tugdash/{name}" not in field.refs()
    assert str(field.place(name)) not in field.repo.git("worktree", "list", "--porcelain")
    assert field.rows("select * from intents") == []
    assert field.repo.git("status", "--porcelain") == ""
    fsck(field.root)


# -- join ------------------------------------------------------------------------------


def test_a_dash_becomes_one_commit_on_its_base_branch(field):
    field.dash("fix", "--description", "Fix  the\nfront page")
    field.round("fix", {"a": "1"}, "--message", "First")
    field.round("fix", {"b": "2", "a": "3"}, "--message", "Second\n\nAt length.")
    field.repo.commit({"main": "m"})
    head = field.head()
    data = field.ok("dash", "join", "fix")
    assert data == {
        "name": "fix",
        "joined": True,
        "joined_commit": field.head("main"),
        "base_branch": "main",
        "branch_name": "tugdash/fix",
        "worktree_path": str(field.place()),
        "squash": True,
        "commits": 2,
        "already_contained": False,
        "left": [],
        "resumed": False,
    }
    assert field.log(form="%P").strip() == head
    assert field.log().strip() == "Fix the front page\n\n* First\n* Second\n\nTug-Dash: fix"
    content = field.content("main")
    assert (content["a"], content["b"], content["main"]) == ("3", "2", "m")
    assert (field.root / "a").read_text() == "3"
    ended(field)
    shown = field.show()
    assert (shown["status"], shown["joined_commit"]) == ("joined", data["joined_commit"])
    assert len(shown["history"]) == 2


@pytest.mark.proof(share=0)
def test_the_message_is_the_caller_s_or_what_the_only_commit_says(field):
    field.dash("one")
    field.round("one", {"a": "1"}, "--message", "Do one thing")
    field.ok("dash", "join", "one")
    assert field.log().strip() == "Do one thing\n\nTug-Dash: one"
    field.dash("two")
    field.round("two", {"b": "1"}, "--message", "m\n\nTug")
    words = "Title\n\n# no comment\n\nCo-authored-by: A <a@b>"
    field.ok("dash", "join", "two", "--message", words)
    assert field.log().strip() == f"{words}\nTug-Dash: two"
    field.dash("many")
    for n in range(53):
        field.commit(field.place("many"), {"n": str(n)}, message=f"Tug-Step: {n}")
    field.ok("dash", "join", "many")
    lines = field.log().strip().split("\n")
    assert lines[0] == "Join many"
    assert lines[2:4] == ["* Tug-Step: 0", "* Tug-Step: 1"]
    assert lines[-3:] == ["* and 3 more", "", "Tug-Dash: many"]


def test_a_merge_commit_keeps_the_commits(field):
    field.dash("fix")
    tip = field.round("fix")["commit_hash"]
    data = field.ok("dash", "join", "fix", "--no-squash")
    assert field.log(form="%P").split() == [field.start, tip]
    assert data["squash"] is False
    ended(field)


def test_what_is_not_committed_is_not_joined_and_not_lost(field):
    field.dash("fix")
    field.round("fix")
    for files in ({"loose": "x"}, {"new.txt": "changed"}):
        Repo(field.place()).write(files)
        message = field.refused("E057", "dash", "join", "fix")
        assert "is not committed" in message
        assert field.ok("dash", "commit", "fix", "--message", "rest")["committed"] is True
    field.ok("dash", "join", "fix")
    assert field.content("main")["new.txt"] == "changed"


def test_a_dash_without_commits_is_not_joined(field):
    field.dash("fix")
    field.ok("dash", "commit", "fix", "--message", "looked")
    field.repo.commit({"main": "m"})
    assert "nothing was committed" in field.refused("E057", "dash", "join", "fix")


def test_conflicts_are_named_before_anything_is_touched(field):
    path = field.dash("fix")
    field.round("fix", {"code.txt": "mine\n", "other": "o"})
    field.repo.commit({"code.txt": "theirs\n"})
    before = (field.root / "code.txt").read_text()
    done = field.run("dash", "join", "fix")
    issue = done.envelope()["issues"][0]
    assert (issue["code"], issue["facts"]["files"]) == ("E057", ["code.txt"])
    field.refused("E057", "dash", "join", "fix", "--no-squash")
    assert (field.root / "code.txt").read_text() == before
    with pytest.raises(Exception, match="merge"):
        git("merge", "main", cwd=path)
    Repo(path).write({"code.txt": "both\n"})
    git("commit", "--quiet", "--all", "--message=solve", cwd=path)
    field.ok("dash", "join", "fix")
    assert field.content("main")["code.txt"] == "both\n"
    ended(field)


@pytest.mark.parametrize(
    "how", ["other branch", "detached", "changed", "staged", "merge", "untracked", "ignored"]
)
def test_the_main_worktree_has_to_be_fit(field, how):
    field.dash("fix")
    field.round("fix", {"new.txt": "new\n"})
    if how == "other branch":
        field.repo.git("checkout", "--quiet", "-b", "other")
    elif how == "detached":
        field.repo.git("checkout", "--quiet", "--detach")
    elif how == "changed":
        field.repo.write({"code.txt": "changed"})
    elif how == "staged":
        field.repo.write({"staged": "x"})
        field.repo.git("add", "staged")
    elif how == "merge":
        (field.root / ".git" / "MERGE_HEAD").write_text(field.start)
    else:
        field.repo.write({"new.txt": "somebody's"})
        if how == "ignored":
            rules = field.root / ".git" / "info" / "exclude"
            rules.write_text(rules.read_text() + "/new.txt\n")
    done = field.run("dash", "join", "fix")
    assert done.codes == ["E057"]
    assert field.head("main") == field.start
    assert field.show()["status"] == "active"
    assert field.place().exists()
    if how in ("untracked", "ignored"):
        assert (field.root / "new.txt").read_text() == "somebody's"


def test_an_untracked_file_that_is_not_in_the_way_is_no_matter(field):
    field.repo.write({"mine": "x"})
    field.dash("fix")
    field.round("fix")
    field.ok("dash", "join", "fix")
    assert (field.root / "mine").read_text() == "x"


@pytest.mark.proof(share=0)
def test_whoever_stands_in_the_worktree_steps_out_first(field):
    path = field.dash("fix")
    field.round("fix", {"deep/x": "x"})
    for at in (path, path / "deep"):
        assert "you stand in" in field.refused("E057", "dash", "join", "fix", at=at)
        assert "you stand in" in field.refused("E034", "dash", "release", "fix", "--force", at=at)
    other = field.dash("other")
    assert field.ok("dash", "join", "fix", at=other)["joined"] is True


@pytest.mark.parametrize("how", ["merged", "squashed"])
def test_what_the_base_branch_has_already_is_not_joined_twice(field, how):
    field.dash("fix")
    field.round("fix", {"a": "1"})
    field.repo.git("merge", "--quiet", *(["--squash"] if how == "squashed" else []), "tugdash/fix")
    if how == "squashed":
        field.repo.git("commit", "--quiet", "--message=squashed")
    field.repo.commit({"later": "x"})
    head = field.head()
    data = field.ok("dash", "join", "fix")
    assert (data["already_contained"], data["joined_commit"], field.head()) == (True, head, head)
    ended(field)


def test_a_dash_without_its_directory_is_joined_from_its_branch(field):
    path = field.dash("fix")
    field.round("fix")
    shutil.rmtree(path)
    field.ok("dash", "join", "fix")
    ended(field)
    path = field.dash("fix")
    field.round("fix", {"again": "x"})
    shutil.rmtree(path)
    path.mkdir()
    assert "git does not know" in field.refused("E057", "dash", "join", "fix")
    path.rmdir()
    field.repo.git("worktree", "prune")
    field.repo.git("branch", "--quiet", "-D", "tugdash/fix")
    assert "is gone" in field.refused("E057", "dash", "join", "fix")


def test_a_hook_that_forbids_the_move_leaves_everything_as_it_was(field):
    field.dash("fix")
    field.round("fix")
    hook = field.root / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        '#!/bin/sh\n[ "$1" = prepared ] || exit 0\n'
        "while read old new ref; do [ $ref = refs/heads/main ] && exit 1; done\nexit 0\n"
    )
    hook.chmod(0o755)
    assert "git does not move" in field.refused("E057", "dash", "join", "fix")
    assert field.repo.git("status", "--porcelain") == ""
    hook.unlink()
    field.ok("dash", "join", "fix")
    ended(field)


def test_a_locked_worktree_is_left_and_can_be_taken_up_again(field):
    path = field.dash("fix")
    field.round("fix")
    field.repo.git("worktree", "lock", str(path))
    data = field.ok("dash", "join", "fix")
    assert len(data["left"]) == 1
    field.dash("two")
    field.round("two", {"two": "2"})
    assert field.said("dash", "join", "two") == f"two is joined: main is at {field.head()}\n"
    assert path.exists()
    assert field.show()["status"] == "joined"
    field.repo.git("worktree", "unlock", str(path))
    again = field.ok("dash", "create", "fix")
    assert (again["adopted"], again["created"]) == (True, False)
    assert field.ok("dash", "join", "fix")["already_contained"] is True
    ended(field)


@pytest.mark.proof(share=0)
def test_ended_is_ended(field):
    field.dash("fix")
    field.round("fix")
    commit = field.ok("dash", "join", "fix")["joined_commit"]
    for words in (("join",), ("release", "--force"), ("commit", "--message", "m")):
        assert commit in field.refused("E056", "dash", words[0], "fix", *words[1:])
        field.refused("E054", "dash", words[0], "unknown", *words[1:])
    field.dash("fix")
    field.ok("dash", "release", "fix")
    assert "it was released" in field.refused("E056", "dash", "join", "fix")
    shown = field.said("dash", "show", "fix")
    assert shown.startswith("✓ fix\n  0 rounds · from main · released "), shown


# -- release ---------------------------------------------------------------------------


def test_a_dash_that_holds_nothing_is_released(field):
    field.dash("fix")
    field.ok("dash", "commit", "fix", "--message", "looked")
    field.repo.commit({"main": "m"})
    data = field.ok("dash", "release", "fix")
    assert data == {
        "name": "fix",
        "status": "released",
        "worktree_path": str(field.place()),
        "branch_name": "tugdash/fix",
        "branch_removed": True,
        "released": [],
        "salvage_ref": None,
    }
    ended(field)
    assert (field.show()["status"], field.show()["rounds"]) == ("released", 1)


@pytest.mark.parametrize("work", ["committed", "changed", "untracked", "all"])
def test_work_is_released_only_by_force_and_saved_first(field, work):
    path = field.dash("fix")
    if work in ("committed", "all"):
        field.round("fix", {"done": "d"})
    tip = field.head("tugdash/fix")
    if work in ("changed", "all"):
        Repo(path).write({"code.txt": "changed"})
    if work in ("untracked", "all"):
        Repo(path).write({"loose/x": "l"})
    wanted = {
        name: (path / name).read_text()
        for name in ("done", "code.txt", "loose/x")
        if (path / name).exists()
    }
    assert "stays" in field.refused("E034", "dash", "release", "fix")
    data = field.ok("dash", "release", "fix", "--force")
    ref = data["salvage_ref"]
    assert ref.startswith("refs/tug/salvage/dash-fix/")
    assert field.saved() == [ref]
    content = field.content(ref)
    assert {name: content[name] for name in wanted} == wanted
    field.repo.git("merge-base", "--is-ancestor", tip, ref)
    ended(field)
    assert field.show()["salvage_ref"] == ref
    assert f"saved as {ref}" in field.said("dash", "list", "--all")


def test_work_on_a_detached_head_is_saved_too(field):
    path = field.dash("fix")
    tip = field.round("fix", {"a": "1"})["commit_hash"]
    git("checkout", "--quiet", "--detach", cwd=path)
    loose = field.commit(path, {"b": "2"})
    ref = field.ok("dash", "release", "fix", "--force")["salvage_ref"]
    for commit in (tip, loose):
        field.repo.git("merge-base", "--is-ancestor", commit, ref)
    ended(field)


@pytest.mark.parametrize("lost", ["directory", "branch", "both"])
def test_what_is_left_of_a_dash_is_released(field, lost):
    path = field.dash("fix")
    field.round("fix")
    if lost != "branch":
        shutil.rmtree(path)
    if lost == "both":
        field.repo.git("worktree", "prune")
    if lost != "directory":
        field.repo.git("update-ref", "-d", "refs/heads/tugdash/fix")
    words = () if lost == "both" else ("--force",)
    if lost == "branch":
        git("update-ref", "--no-deref", "HEAD", field.start, cwd=path)
        git("reset", "--quiet", "--hard", cwd=path)
    field.ok("dash", "release", "fix", *words)
    ended(field)


def test_force_does_not_help_against_a_lock_or_a_repository_inside(field):
    path = field.dash("fix")
    field.repo.git("worktree", "lock", "--reason=mine", str(path))
    assert "mine" in field.refused("E034", "dash", "release", "fix", "--force")
    field.repo.git("worktree", "unlock", str(path))
    Repo.init(path / "inner").commit()
    message = field.refused("E034", "dash", "release", "fix", "--force")
    assert "repository of its own" in message
    assert (path / "inner" / "file").exists()
    assert field.show()["status"] == "active"


def test_a_name_is_free_again_and_its_salvage_stays(field):
    for n in range(2):
        field.dash("fix")
        Repo(field.place()).write({"x": str(n)})
        field.ok("dash", "release", "fix", "--force")
    assert sorted(field.content(ref)["x"] for ref in field.saved()) == ["0", "1"]


def test_steps_claimed_from_a_dash_are_given_back(field):
    path = field.dash("fix")
    field.ok("state", "init", "work")
    field.ok("state", "claim", "work", at=path)
    assert "it holds step-1" in field.refused("E034", "dash", "release", "fix")
    data = field.ok("dash", "release", "fix", "--force")
    assert [each["step_anchor"] for each in data["released"]] == ["step-1"]
