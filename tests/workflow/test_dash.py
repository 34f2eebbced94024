"""Dashes: made, committed round by round, looked at; and left alone by all other commands."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from conftest import Repo, git, hold_against_schemas
from support.racing import stands_at
from support.worktree import IDENTITY, answered, fsck, process

# -- create ----------------------------------------------------------------------------


def test_a_dash_has_a_branch_and_a_directory_from_the_main_worktree_s_branch(field):
    data = field.ok("dash", "create", "fix-typo", "--description", "Fix the typo")
    path = field.place("fix-typo")
    assert data == {
        "name": "fix-typo",
        "worktree_path": str(path),
        "branch_name": "tugdash/fix-typo",
        "base_branch": "main",
        "base_commit": field.start,
        "description": "Fix the typo",
        "rounds": 0,
        "created": True,
        "repaired": False,
        "adopted": False,
    }
    assert git("symbolic-ref", "HEAD", cwd=path) == "refs/heads/tugdash/fix-typo\n"
    assert git("status", "--porcelain", cwd=path) == ""
    assert field.repo.git("status", "--porcelain") == ""
    assert field.rows("select * from intents") == []


def test_a_dash_needs_neither_a_plan_nor_a_state(tmp_path, tugcode, monkeypatch):
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    repo = Repo.init(tmp_path / "a place" / "with blanks", "--object-format=sha256")
    repo.commit()
    place = ("-C", repo.path)
    assert tugcode(*place, "dash", "list", "--json").data == {"dashes": [], "unrecorded": []}
    assert tugcode(*place, "dash", "show", "fix", "--json").codes == ["E054"]
    assert tugcode(*place, "dash", "join", "fix", "--json").codes == ["E054"]
    assert not (repo.path / ".tugtool").exists()
    made = tugcode(*place, "dash", "create", "fix", "--json").data
    Repo(Path(made["worktree_path"])).write({"a file": "x"})
    done = tugcode(*place, "dash", "commit", "fix", "--message", "m", "--json").data
    assert len(done["commit_hash"]) == 64
    joined = tugcode(*place, "dash", "join", "fix", "--json").data
    assert repo.git("rev-parse", "HEAD").strip() == joined["joined_commit"]
    assert (repo.path / "a file").read_text() == "x"
    assert repo.git("status", "--porcelain") == ""


def test_the_same_name_again_is_the_same_dash(field):
    field.dash("fix")
    field.round("fix")
    again = field.ok("dash", "create", "fix", "--description", "about it")
    assert (again["created"], again["rounds"], again["description"]) == (False, 1, "about it")
    assert field.ok("dash", "create", "fix", "--base", "main")["description"] == "about it"
    assert len(field.rows("select * from dashes")) == 1
    field.repo.git("branch", "other")
    words = ("dash", "create", "fix", "--base")
    said = "there is a dash fix already: it is active, and comes from main, not from other"
    assert field.refused("E055", *words, "other") == said
    assert "nope" in field.refused("E031", *words, "nope")


def test_another_base_is_where_it_begins(field):
    field.repo.git("branch", "old", "HEAD~1")
    data = field.ok("dash", "create", "fix", "--base", "refs/heads/old")
    assert (data["base_branch"], data["base_commit"]) == ("old", field.head("HEAD~1"))
    field.refused("E031", "dash", "create", "next", "--base", "none")
    field.repo.git("checkout", "--quiet", "--detach")
    field.refused("E031", "dash", "create", "next")
    assert field.ok("dash", "create", "next", "--base", "main")["created"] is True
    assert field.ok("dash", "create", "fix")["created"] is False


@pytest.mark.parametrize(
    ("name", "close"),
    [
        ("Fix Typo", "fix-typo"),
        ("fix_typo", "fix-typo"),
        ("../../etc", "etc"),
        ("--", None),
        ("", None),
        ("-x", "x"),
        ("x-", "x"),
        ("a--b", "a-b"),
        ("x.lock", "x-lock"),
        ("a/b", "a-b"),
        ("größe", "gr-e"),
        ("x\x1b[31m\n", "x-31m"),
        ("a" * 51, "a" * 50),
        ("x" * 100_000, "x" * 50),
        ("@{-1}", "1"),
    ],
)
def test_a_name_that_could_do_harm_is_refused_and_a_better_one_offered(field, tugcode, name, close):
    done = tugcode("-C", field.root, "--json", "dash", "create", "--", name)
    assert done.codes == ["E055"]
    facts = done.envelope()["issues"][0]["facts"]
    assert facts.get("close") == (close and [close])
    assert not (field.root / ".tugtree").exists()
    assert not field.has_state()


def test_names_of_every_allowed_kind_are_taken(field):
    for name in ("a", "7", "404-page", "a" * 50, "x-1-y"):
        assert field.ok("dash", "create", name)["created"] is True


def test_nothing_is_left_when_git_refuses(field):
    hook = field.root / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nrm -f code.txt\n")
    hook.chmod(0o755)
    before = field.refs()
    done = field.run("dash", "create", "fix")
    assert done.codes == ["E033"]
    assert "files are missing" in done.envelope()["issues"][0]["message"]
    assert field.refs() == before
    assert os.listdir(field.root / ".tugtree") == []
    assert (field.rows("select * from dashes"), field.rows("select * from intents")) == ([], [])
    hook.unlink()
    assert field.ok("dash", "create", "fix")["created"] is True


def test_what_lies_in_the_way_stays_as_it_is(field):
    field.place().mkdir(parents=True)
    (field.place() / "mine").write_text("x")
    assert field.run("dash", "create", "fix").codes == ["E033"]
    assert (field.place() / "mine").read_text() == "x"
    assert "refs/heads/tugdash/fix" not in field.refs()
    field.repo.git("branch", "tugdash")
    assert field.run("dash", "create", "other").codes == ["E033"]
    assert not field.place("other").exists()


@pytest.mark.parametrize("lost", ["directory", "directory and metadata", "branch", "all"])
def test_a_dash_that_lost_something_gets_it_back(field, lost):
    path = field.dash("fix")
    tip = field.round("fix")["commit_hash"]
    if lost != "branch":
        shutil.rmtree(path)
    if lost in ("directory and metadata", "all"):
        field.repo.git("worktree", "prune")
    if lost in ("branch", "all"):
        field.repo.git("update-ref", "-d", "refs/heads/tugdash/fix")
    data = field.ok("dash", "create", "fix")
    assert (data["created"], data["repaired"], data["rounds"]) == (False, True, 1)
    assert field.head("tugdash/fix") == tip
    assert (path / "new.txt").read_text() == "new\n"
    assert git("status", "--porcelain", cwd=path) == ""
    assert field.round("fix", {"more": "x"})["round"]["number"] == 2


def test_what_cannot_be_brought_back_is_refused(field):
    path = field.dash("fix")
    shutil.rmtree(path)
    path.mkdir()
    (path / "mine").write_text("x")
    assert "the path exists" in field.refused("E033", "dash", "create", "fix")
    (path / "mine").unlink()
    path.rmdir()
    field.repo.git("worktree", "prune")
    field.repo.git("worktree", "add", "--quiet", str(field.root.parent / "far"), "tugdash/fix")
    assert "far" in field.refused("E033", "dash", "create", "fix")
    assert not path.exists()


def test_a_branch_whose_commits_are_gone_is_refused(field):
    path = field.dash("fix")
    field.round("fix")
    shutil.rmtree(path)
    field.repo.git("worktree", "prune")
    field.repo.git("update-ref", "-d", "refs/heads/tugdash/fix")
    field.repo.git("reflog", "expire", "--expire=now", "--all")
    field.repo.git("gc", "--quiet", "--prune=now")
    assert "git no longer has" in field.refused("E033", "dash", "create", "fix")


def test_a_dash_whose_record_is_lost_is_taken_up_with_its_rounds(field):
    path = field.dash("fix", "--description", "gone with the state")
    field.round("fix", {"a": "1"}, "--message", "First", "--summary", "lost")
    (path / "code.txt").unlink()
    field.round("fix", {"b": "2"}, "--message", "Second")
    field.commit(path, {"c": "3"}, message="by hand")
    shutil.rmtree(field.root / ".tugtool")
    field.repo.git("checkout", "--quiet", "--", ".tugtool")
    shutil.rmtree(field.root / ".git" / "tugtool")
    assert field.ok("dash", "list") == {"dashes": [], "unrecorded": ["fix"]}
    assert "not recorded: tugcode dash create fix\n" in field.said("dash", "list")
    data = field.ok("dash", "create", "fix")
    assert (data["created"], data["adopted"], data["rounds"]) == (False, True, 2)
    assert data["base_commit"] == field.start
    history = field.show()["history"]
    assert [(each["number"], each["summary"]) for each in history] == [(1, "First"), (2, "Second")]
    assert history[1]["files"] == [
        {"path": "b", "status": "added"},
        {"path": "code.txt", "status": "deleted"},
    ]
    joined = field.ok("dash", "join", "fix")["joined_commit"]
    assert {"a", "b", "c"} <= set(field.content(joined))


def test_a_branch_that_somebody_made_is_taken_up_too(field):
    field.repo.git("branch", "tugdash/mine")
    data = field.ok("dash", "create", "mine")
    assert (data["adopted"], data["rounds"]) == (True, 0)
    assert field.place("mine").is_dir()
    field.repo.git("checkout", "--quiet", "--orphan", "strange")
    field.repo.commit({"s": "s"})
    field.repo.git("branch", "tugdash/strange")
    field.repo.git("checkout", "--quiet", "main")
    message = field.refused("E055", "dash", "create", "strange")
    assert "nothing in common with main" in message


# -- commit ----------------------------------------------------------------------------


def test_a_round_is_committed_and_recorded(field):
    path = field.dash("fix")
    Repo(path).write({"sub/new ☃": "x", "code.txt": "changed\n"})
    data = field.ok(
        *("dash", "commit", "fix", "--message", "Do it\n\nWith care."),
        *("--instruction", "please do it", "--summary", "did it"),
    )
    commit = field.head("tugdash/fix")
    (row,) = field.rows("select * from dash_rounds")
    assert data == {
        "name": "fix",
        "branch_name": "tugdash/fix",
        "worktree_path": str(path),
        "committed": True,
        "commit_hash": commit,
        "recovered": False,
        "round": {
            "number": 1,
            "instruction": "please do it",
            "summary": "did it",
            "commit_hash": commit,
            "recorded_at": row["recorded_at"],
            "files": [
                {"path": "code.txt", "status": "modified"},
                {"path": "sub/new ☃", "status": "added"},
            ],
        },
    }
    number = field.rows("select id from dashes")[0]["id"]
    trailers = f"Tug-Dash: fix\nTug-Round: {number}/1"
    assert field.log("tugdash/fix").strip() == f"Do it\n\nWith care.\n\n{trailers}"
    assert git("status", "--porcelain", cwd=path) == ""
    assert field.head() == field.start
    assert field.rows("select * from intents") == []


def test_a_round_without_changes_is_recorded_without_a_commit(field):
    field.dash("fix")
    data = field.ok("dash", "commit", "fix", "--message", "Looked, all fine")
    assert (data["committed"], data["commit_hash"]) == (False, None)
    assert (data["round"]["number"], data["round"]["files"]) == (1, [])
    assert data["round"]["summary"] == "Looked, all fine"
    assert field.head("tugdash/fix") == field.start
    assert field.round("fix")["round"]["number"] == 2
    assert "nothing was changed in it" in field.said("dash", "commit", "fix", "--message", "again")


def test_the_same_words_with_nothing_changed_since_are_the_same_round(field):
    field.dash("fix")
    first = field.round("fix", None, "--message", "Do", "--instruction", "i")
    again = field.ok("dash", "commit", "fix", "--message", "Do", "--instruction", "i")
    assert again == {**first, "recovered": True}
    other = field.ok("dash", "commit", "fix", "--message", "Do", "--instruction", "j")
    assert (other["round"]["number"], other["recovered"]) == (2, False)
    empty = field.ok("dash", "commit", "fix", "--message", "Do", "--instruction", "j")
    assert (empty["round"]["number"], empty["recovered"]) == (2, True)
    changed = field.round("fix", {"z": "z"}, "--message", "Do", "--instruction", "j")
    assert (changed["round"]["number"], changed["recovered"]) == (3, False)


def test_in_its_worktree_a_dash_need_not_be_named(field):
    path = field.dash("fix")
    (path / "deep").mkdir()
    Repo(path).write({"deep/x": "x"})
    assert field.ok("dash", "commit", "--message", "m", at=path / "deep")["name"] == "fix"
    assert field.ok("dash", "show", at=path / "deep")["rounds"] == 1
    assert field.ok("dash", "show", "tugdash/fix")["name"] == "fix"
    assert field.ok("dash", "show", f"{path}/")["name"] == "fix"
    assert "name one" in field.refused("E054", "dash", "commit", "--message", "m")
    assert "name one" in field.refused("E054", "dash", "show")


def test_work_is_committed_from_its_own_worktree_or_the_main_one(field):
    path, other = field.dash("fix"), field.dash("other")
    Repo(path).write({"x": "x"})
    message = field.refused("E058", "dash", "commit", "fix", "--message", "m", at=other)
    assert str(other) in message
    assert field.ok("dash", "commit", "fix", "--message", "m", at=path)["committed"] is True
    Repo(path).write({"y": "y"})
    words = ("--message", "m", "--worktree", str(path))
    assert field.ok("dash", "commit", "fix", *words, at=other)["committed"] is True


@pytest.mark.parametrize("how", ["other", "detached", "gone"])
def test_a_worktree_that_is_not_on_its_branch_is_not_committed(field, how):
    path = field.dash("fix")
    if how == "other":
        git("checkout", "--quiet", "-b", "mine", cwd=path)
    elif how == "detached":
        git("checkout", "--quiet", "--detach", cwd=path)
    else:
        shutil.rmtree(path)
    if how != "gone":
        Repo(path).write({"x": "x"})
        assert field.show()["on_branch"] is False
        assert "on another branch" in field.said("dash", "list")
        field.refused("E058", "dash", "create", "fix")
        field.refused("E058", "dash", "join", "fix")
    field.refused("E058", "dash", "commit", "fix", "--message", "m")


def test_the_state_itself_is_never_committed(field):
    path = field.dash("fix")
    (field.root / ".git" / "info" / "exclude").write_text("/.tugtree/\n")
    Repo(path).write({".tugtool/state.db": "x"})
    message = field.refused("E080", "dash", "commit", "fix", "--message", "m")
    assert ".tugtool/state.db" in message


def test_a_merge_under_way_has_to_end_first(field):
    path = field.dash("fix")
    field.round("fix", {"code.txt": "mine\n"})
    field.repo.commit({"code.txt": "theirs\n"})
    with pytest.raises(Exception, match="merge"):
        git("merge", "main", cwd=path)
    message = field.refused("E080", "dash", "commit", "fix", "--message", "m")
    assert "git commit ends it, once its conflicts are solved" in message
    (issue,) = field.run("dash", "commit", "fix", "--message", "m").envelope()["issues"]
    assert issue["hint"] == f"git -C {path} status"
    field.refused("E057", "dash", "join", "fix")


@pytest.mark.parametrize(
    "words",
    ["Tug-Dash: x", "title\n\nTug-Round: 1/1", "title\n\ntug-step : x", " ", "a\0b"],
)
def test_a_message_that_forges_our_trailers_is_refused(field, words):
    field.dash("fix")
    Repo(field.place()).write({"x": "x"})
    field.refused("E081", "dash", "commit", "fix", "--message", words)
    field.refused("E081", "dash", "commit", "fix", "--message", "m", "--summary", words)
    field.refused("E081", "dash", "join", "fix", "--message", words)
    for command in ("commit", "join"):
        (issue,) = field.run("dash", command, "fix", "--message", words).envelope()["issues"]
        assert issue["hint"] == f"tugcode dash {command} --help"
    field.refused("E070", "dash", "commit", "fix")


def test_a_hook_that_refuses_leaves_everything_as_it_was(field):
    path = field.dash("fix")
    Repo(path).write({"x": "x", "code.txt": "changed\n"})
    git("add", "x", cwd=path)
    hook = field.root / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho not today >&2\nexit 1\n")
    hook.chmod(0o755)
    assert "not today" in field.refused("E076", "dash", "commit", "fix", "--message", "m")
    hook.write_text("#!/bin/sh\necho checked > hooked\ngit add hooked\n")
    data = field.ok("dash", "commit", "fix", "--message", "m")
    assert {"path": "hooked", "status": "added"} in data["round"]["files"]


def test_a_hook_that_takes_our_trailers_away_does_not_take_the_round_away(field):
    field.dash("fix")
    hook = field.root / ".git" / "hooks" / "commit-msg"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\necho other > "$1"\n')
    hook.chmod(0o755)
    data = field.round("fix")
    assert (data["commit_hash"], data["recovered"]) == (field.head("tugdash/fix"), False)
    assert field.show()["rounds"] == 1


def test_rounds_that_an_older_copy_of_the_state_lacks_are_found_in_git(field):
    field.dash("fix")
    # The backup is at most a minute old, and knows nothing of these.
    field.round("fix", {"a": "1"}, "--instruction", "first")
    field.round("fix", {"b": "2"}, "--message", "Second")
    for name in os.listdir(field.root / ".tugtool"):
        if name.startswith("state.db"):
            (field.root / ".tugtool" / name).unlink()
    assert field.run("dash", "commit", "fix", "--message", "m").codes == ["E046"]
    field.ok("state", "restore")
    assert field.show()["history"] == []
    assert field.round("fix", {"c": "3"})["round"]["number"] == 3
    assert [each["summary"] for each in field.show()["history"]] == [
        "Work on fix",
        "Second",
        "Work on fix",
    ]


@pytest.mark.parametrize("number", ["0", "-1", "9" * 5000, "9" * 12, "x", "1 2", ""])
def test_a_commit_that_claims_to_be_an_impossible_round_is_none(field, number):
    path = field.dash("fix")
    owner = field.rows("select id from dashes")[0]["id"]
    words = f"by hand\n\nTug-Dash: fix\nTug-Round: {owner}/{number}"
    field.commit(path, {"x": "x"}, message=words)
    assert field.round("fix")["round"]["number"] == 1


def test_rounds_of_a_dash_that_was_taken_up_are_not_recorded_twice(field):
    field.dash("fix")
    for n in range(2):
        field.ok("dash", "commit", "fix", "--message", f"looked {n}")
        field.round("fix", {"f": str(n)}, "--message", f"m{n}")
    shutil.rmtree(field.root / ".tugtool")
    field.repo.git("checkout", "--quiet", "--", ".tugtool")
    shutil.rmtree(field.root / ".git" / "tugtool")
    assert field.ok("dash", "create", "fix")["rounds"] == 2
    assert field.round("fix", {"f": "last"})["round"]["number"] == 3


def test_a_rebased_round_is_the_same_round(field):
    path = field.dash("fix")
    field.round("fix", {"f": "1"})
    field.repo.commit({"main": "m"})
    git("rebase", "--quiet", "main", cwd=path)
    assert field.round("fix", {"g": "1"})["round"]["number"] == 2
    field.ok("dash", "join", "fix")
    assert {"f", "g", "main"} <= set(field.content("main"))


# -- list and show ---------------------------------------------------------------------


def test_the_list_says_how_each_dash_stands(field):
    field.dash("one", "--description", "About \x1b[31mone")
    field.dash("two")
    field.round("two")
    Repo(field.place("two")).write({"loose": "x"})
    field.repo.commit({"main": "m"})
    one, two = field.ok("dash", "list")["dashes"]
    assert (one["name"], one["rounds"], one["changed_files"]) == ("one", 0, 0)
    assert (one["ahead"], one["behind"], one["status"]) == (0, 1, "active")
    assert (two["rounds"], two["changed_files"], two["ahead"], two["behind"]) == (1, 1, 1, 1)
    text = field.said("dash", "list")
    head = "→ one  About one\n  0 rounds · tugdash/one from main · 0 ahead, 1 behind · "
    assert head in text
    assert " · 1 file not committed\n" in text
    shutil.rmtree(field.place("one"))
    assert "its directory is gone; tugcode dash create one brings it back" in field.said(
        "dash", "list"
    )
    shutil.rmtree(field.place("two"))
    field.repo.git("worktree", "prune")
    field.repo.git("branch", "--quiet", "-D", "tugdash/two")
    assert "its branch is gone" in field.said("dash", "show", "two")


def test_those_that_have_ended_are_listed_when_asked_for(field):
    field.dash("gone")
    field.ok("dash", "release", "gone")
    field.dash("in")
    field.round("in")
    commit = field.ok("dash", "join", "in")["joined_commit"]
    assert field.ok("dash", "list")["dashes"] == []
    gone, joined = field.ok("dash", "list", "--all")["dashes"]
    assert (gone["status"], gone["exists"], gone["ahead"]) == ("released", None, None)
    assert (joined["status"], joined["joined_commit"]) == ("joined", commit)
    assert joined["ended_at"] is not None
    text = field.said("dash", "list", "--all")
    assert "✓ gone\n  0 rounds · from main · released " in text
    assert f" as {commit[:10]}\n" in text


def test_show_tells_the_rounds(field):
    field.dash("fix")
    files = {f"f{n}": "x" for n in range(12)}
    field.round("fix", files, "--message", "Many", "--instruction", "do\nmany")
    text = field.said("dash", "show", "fix")
    assert "  asked  do many\n  done   Many\n  added    f0\n" in text
    assert "  and 4 more files\n" in text
    assert text.endswith("\nNext: tugcode dash join fix\n")
    message = field.refused("E054", "dash", "show", "fxi")
    assert "closest: fix" in message


def test_a_name_used_again_means_the_active_dash_or_else_the_last(field):
    for n in range(2):
        field.dash("fix", "--description", f"number {n}")
        field.round("fix", {f"f{n}": "x"})
        field.ok("dash", "join", "fix")
    assert field.show()["description"] == "number 1"
    field.dash("fix")
    assert (field.show()["status"], field.show()["rounds"]) == ("active", 0)
    assert len(field.ok("dash", "list", "--all")["dashes"]) == 3


def test_the_shell_completes_the_names_of_active_dashes(field, tugcode):
    def offered(*words: str) -> dict[str, str]:
        done = tugcode("-C", field.root, "--json", "complete-words", "--", "dash", *words)
        return {each["value"]: each["description"] for each in done.data["candidates"]}

    assert offered("show", "") == {}
    assert not field.has_state()
    field.dash("fix", "--description", "Fix it")
    field.dash("gone")
    field.ok("dash", "release", "gone")
    assert offered("join", "") == {"fix": "Fix it"}
    assert set(offered("cr")) == {"create"}


# -- what others make of it ------------------------------------------------------------


@pytest.mark.proof(share=0)
def test_commands_about_worktrees_of_plans_leave_dashes_alone(field):
    path, odd = field.dash("fix"), field.dash("odd")
    field.round("fix")
    field.repo.git("merge", "--quiet", "tugdash/fix")
    git("checkout", "--quiet", "--detach", cwd=odd)
    assert field.ok("worktree", "list") == {"worktrees": [], "branches": []}
    assert field.ok("worktree", "cleanup") == {"dry_run": False, "removed": [], "kept": []}
    names = ("tugdash__fix", path, "tugdash/fix", odd)
    for name in names:
        for force in ((), ("--force",)):
            message = field.refused("E034", "worktree", "remove", name, *force)
            assert "`dash release`" in message
    assert path.is_dir()
    assert odd.is_dir()
    assert field.create().name.startswith("tugplan__work")
    assert field.ok("dash", "list")["unrecorded"] == []


@pytest.mark.proof(share=0)
def test_a_plan_is_carried_out_and_merged_beside_a_dash(field):
    field.dash("fix")
    field.round("fix", {"dash.txt": "d"})
    tree = field.create()
    for step in ("step-1", "step-2"):
        field.do(tree, step, {step: "x"})
    field.ok("dash", "join", "fix")
    field.ok("state", "reconcile", "work")
    field.dash("next")
    merged = field.ok("merge", "work")
    assert [Path(each).name for each in merged["removed_worktrees"]] == [tree.name]
    assert {"dash.txt", "step-1", "step-2"} <= set(field.content("main"))
    assert field.ok("dash", "list")["dashes"][0]["name"] == "next"
    assert field.round("next")["committed"] is True


def test_status_tells_of_the_active_dashes(field):
    assert field.ok("status")["dashes"] == []
    field.dash("fix", "--description", "Fix it")
    field.dash("gone")
    field.ok("dash", "release", "gone")
    field.round("fix")
    (dash,) = field.ok("status")["dashes"]
    assert (dash["name"], dash["rounds"], dash["worktree_path"]) == ("fix", 1, str(field.place()))
    text = field.said("status")
    assert "1 dash\n" in text.replace(" · ", "\n")
    assert re.search(r"\nDashes\n  fix  1 round, last \d+s ago  Fix it\n\n", text), text
    assert "Worktrees" not in text


# -- at once ---------------------------------------------------------------------------


@pytest.mark.proof(share=0)
def test_of_two_who_create_one_dash_one_makes_it_and_the_other_gets_it(field):
    running = [process(field.root, "dash", "create", "fix") for _ in range(4)]
    made = [answered(each) for each in running]
    assert sorted(each["created"] for each in made) == [False, False, False, True]
    assert len({each["worktree_path"] for each in made}) == 1
    fsck(field.root)


@pytest.mark.proof(share=0)
def test_eight_at_once_all_get_their_own(field):
    running = [process(field.root, "dash", "create", f"d{n}") for n in range(8)]
    assert all(answered(each)["created"] for each in running)
    rows = field.ok("dash", "list")["dashes"]
    assert [row["name"] for row in rows] == [f"d{n}" for n in range(8)]
    running = [process(field.root, "dash", "commit", f"d{n}", "--message", "m") for n in range(8)]
    assert all(answered(each)["round"]["number"] == 1 for each in running)
    fsck(field.root)


def _gate(field, name: str) -> tuple[Path, Path]:
    """A pre-commit hook that says when it runs, and waits to be let go."""
    said, wait = field.root.parent / f"{name}-said", field.root.parent / f"{name}-wait"
    os.mkfifo(said)
    os.mkfifo(wait)
    hook = field.root / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\necho here > '{said}'\ncat '{wait}' > /dev/null\n")
    hook.chmod(0o755)
    return said, wait


@pytest.mark.parametrize("command", ["commit", "join", "release"])
def test_who_comes_while_a_commit_runs_waits_for_it(field, command):
    field.dash("fix")
    Repo(field.place()).write({"slow": "x"})
    said, wait = _gate(field, "gate")
    first = process(field.root, "dash", "commit", "fix", "--message", "slow")
    assert said.read_text() == "here\n"
    words = {"commit": ("--message", "second"), "join": (), "release": ("--force",)}[command]
    second = process(field.root, "dash", command, "fix", *words)
    (field.root / ".git" / "hooks" / "pre-commit").unlink()
    while second.poll() is None and not stands_at(second.pid, field.place()):
        pass
    assert second.poll() is None
    wait.write_text("go")
    commit = answered(first)["commit_hash"]
    data = answered(second)
    if command == "commit":
        assert (data["round"]["number"], data["committed"]) == (2, False)
    elif command == "join":
        assert field.content(data["joined_commit"])["slow"] == "x"
    else:
        assert field.head(f"{data['salvage_ref']}^") == commit
    assert field.show()["history"][0]["commit_hash"] == commit


def test_of_two_who_join_one_does_and_the_other_is_refused(field):
    field.dash("fix")
    field.round("fix")
    running = [process(field.root, "dash", "join", "fix") for _ in range(2)]
    outs = [json.loads(each.communicate()[0]) for each in running]
    for each in outs:
        hold_against_schemas(each)
    codes = sorted([issue["code"] for issue in each["issues"]] for each in outs)
    assert codes == [[], ["E056"]]
    assert field.repo.git("rev-list", "--count", f"{field.start}..main").strip() == "1"
