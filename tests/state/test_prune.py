"""Records of plans that are gone are dropped: never a live one, and never for good."""

import json
import os
from pathlib import Path

import pytest

from conftest import Repo
from state.test_transfer import add, body, killed
from support.racing import command
from support.state import KEY, markdown
from tugtool import git as tugtool_git
from tugtool import state
from tugtool.errors import TugError
from tugtool.git import command as git
from tugtool.git import worktrees
from tugtool.state import upkeep

pytestmark = [pytest.mark.usefixtures("named_writes"), pytest.mark.unserved("it never prunes")]

TEXT = markdown("1 t", "2 t < 1")


def prune(lab, tmp_path, here=(), **how) -> dict:
    def where(keys):
        return {key: "its file is here" for key in keys if key in here}

    return state.prune(lab.store, where=where, directory=str(tmp_path / "kept"), **how)


def names(rows: list[dict]) -> list[str]:
    return [row["plan_path"] for row in rows]


def _worktree_and_intent(lab, plan: str) -> None:
    """What is known of this machine's directories: nobody exports it, everybody may drop it."""
    with lab.store.write(plan) as tx:
        tx.run(
            "insert into worktrees (path, branch, base_branch, base_commit, plan_path, created_at)"
            " values (:path, 'b', 'main', 'c', :of, :now)",
            path=f"/{plan}",
            of=plan,
        )
        tx.run(
            "insert into intents (kind, worktree, plan_path, detail, created_at)"
            " values ('commit', :path, :of, '{}', :now)",
            path=f"/{plan}",
            of=plan,
        )


# -- which plans go --------------------------------------------------------------------


def test_a_plan_whose_file_is_nowhere_goes_and_the_others_stay(lab, tmp_path):
    lab = lab("1 t")
    add(lab, "b.md", "1 t", "1.1 tt", "2 t < 1")
    kept = body(lab.store, KEY)
    _worktree_and_intent(lab, "b.md")
    _worktree_and_intent(lab, KEY)
    answer = prune(lab, tmp_path, [KEY])
    assert (names(answer["pruned"]), names(answer["kept"])) == (["b.md"], [KEY])
    assert answer["pruned"][0]["reason"] == "its file is on no branch and in no worktree"
    assert answer["kept"][0]["reason"] == "its file is here"
    assert body(lab.store) == kept
    for table in (*lab.dump(), "worktrees", "intents"):
        assert lab.rows(f"select * from {table} where plan_path = 'b.md'") == []
    for table in ("worktrees", "intents"):
        assert len(lab.rows(f"select * from {table}")) == 1


def test_done_plans_go_only_when_asked_for(lab, tmp_path):
    lab = lab("1 t")
    add(lab, "b.md", "1 t")
    lab.finish("step-1")
    assert prune(lab, tmp_path, [KEY, "b.md"])["pruned"] == []
    assert names(prune(lab, tmp_path, [KEY, "b.md"], done=True)["pruned"]) == [KEY]


@pytest.mark.parametrize("finished", [True, False])
def test_an_archived_plan_goes_with_the_done_ones_if_it_is_done(lab, tmp_path, finished):
    lab = lab("1 t")
    if finished:
        lab.finish("step-1")
    lab.archive()
    assert names(prune(lab, tmp_path, [KEY], done=True)["pruned"]) == ([KEY] if finished else [])


def test_a_plan_with_a_live_claim_stays_and_says_so(lab, tmp_path):
    lab = lab("1 t")
    lab.claim("red", lease_seconds=10)
    answer = prune(lab, tmp_path, done=True)
    assert (answer["pruned"], answer["exported_to"]) == ([], None)
    assert answer["kept"][0]["reason"] == "step-1 is held by red"
    lab.clock.advance(11)
    assert names(prune(lab, tmp_path)["pruned"]) == [KEY]


def test_a_dry_run_only_tells(lab, tmp_path):
    lab = lab("1 t")
    with lab.unchanged():
        answer = prune(lab, tmp_path, dry_run=True)
    assert (names(answer["pruned"]), answer["exported_to"]) == ([KEY], None)
    assert not (tmp_path / "kept").exists()


# -- nothing is lost -------------------------------------------------------------------


def test_what_was_dropped_can_be_taken_back(lab, tmp_path):
    lab = lab("1 tt", "1.1 t", "2 t < 1")
    add(lab, "b.md", "1 t")
    lab.finish("step-1")
    lab.reopen("step-1")
    before = lab.dump(), body(lab.store)
    answer = prune(lab, tmp_path)
    assert os.path.basename(answer["exported_to"]) == "pruned-2026-02-23T120000.000Z.jsonl"
    assert all(rows == [] for rows in lab.dump().values())
    with open(answer["exported_to"], "rb") as file:
        assert state.import_(lab.store, file)["renumbered"] is False
    assert (lab.dump(), body(lab.store)) == before


def test_two_prunes_in_one_millisecond_keep_two_files(lab, tmp_path):
    lab = lab("1 t")
    first = prune(lab, tmp_path)["exported_to"]
    add(lab, "b.md", "1 t")
    second = prune(lab, tmp_path)["exported_to"]
    assert second == first.replace(".jsonl", "-2.jsonl")
    assert KEY in Path(first).read_text()
    assert "b.md" in Path(second).read_text()


def test_without_a_place_for_the_export_nothing_goes(lab, tmp_path):
    lab = lab("1 t")
    (tmp_path / "kept").write_text("in the way")
    with lab.refuses("E074"):
        prune(lab, tmp_path)


def test_a_plan_that_changed_since_it_was_written_down_is_not_dropped(lab):
    lab = lab("1 t")
    add(lab, "b.md", "1 t")
    seen = {KEY: 1, "b.md": 2}
    lab.claim()
    with lab.unchanged():
        assert upkeep.drop(lab.store, seen) is False


def test_a_claim_that_comes_in_between_keeps_the_plan(lab, tmp_path, monkeypatch):
    lab = lab("1 t")
    drop = upkeep.drop

    def claimed_first(store, seen):
        if lab.status("step-1") == "pending":
            lab.claim("red")
        return drop(store, seen)

    monkeypatch.setattr(upkeep, "drop", claimed_first)
    answer = prune(lab, tmp_path)
    assert (answer["pruned"], answer["kept"][0]["reason"]) == ([], "step-1 is held by red")
    assert os.listdir(tmp_path / "kept") == []


def test_who_never_gets_a_quiet_moment_is_told(lab, tmp_path, monkeypatch):
    lab = lab("1 t")
    drop = upkeep.drop

    def paused_first(store, seen):
        lab.pause()
        lab.resume()
        return drop(store, seen)

    monkeypatch.setattr(upkeep, "drop", paused_first)
    with pytest.raises(TugError, match="being changed all the time") as caught:
        prune(lab, tmp_path)
    assert caught.value.code == "E050"
    assert os.listdir(tmp_path / "kept") == []
    assert lab.plan()["status"] == "active"


def test_a_plan_that_vanishes_while_files_are_looked_for_is_nobody_s_business(lab, tmp_path):
    lab = lab("1 t")

    def where(keys):
        upkeep.drop(lab.store, {KEY: 1})
        return {}

    answer = state.prune(lab.store, where=where, directory=str(tmp_path / "kept"))
    assert (answer["pruned"], answer["kept"], answer["exported_to"]) == ([], [], None)


# -- where files are -------------------------------------------------------------------


def _where(repo: Repo, *keys: str) -> dict[str, str]:
    return worktrees.where(tugtool_git.discover(str(repo.path)), keys)


def test_a_file_is_looked_for_in_worktrees_and_on_branches(repo, tmp_path):
    repo.commit({"on-main.md": TEXT, "gone.md": TEXT})
    repo.git("checkout", "--quiet", "-b", "side")
    repo.commit({"on-side.md": TEXT})
    repo.git("checkout", "--quiet", "main")
    linked = repo.linked(tmp_path / "li\nnked", "third")
    (linked / "uncommitted.md").write_text(TEXT)
    os.unlink(repo.path / "on-main.md")
    repo.git("rm", "--quiet", "gone.md")
    repo.git("commit", "--quiet", "--message=gone")
    repo.git("branch", "--delete", "--force", "side")
    os.unlink(linked / "gone.md")
    repo.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "d"))
    found = _where(repo, "on-main.md", "on-side.md", "uncommitted.md", "gone.md", "never.md")
    assert found["uncommitted.md"] == f"its file is in {linked}"
    assert found["on-main.md"].startswith("its file is in")
    assert found["gone.md"] == "its file is on refs/heads/third"
    assert set(found) == {"on-main.md", "uncommitted.md", "gone.md"}


def test_a_branch_of_another_s_repository_counts(repo, tmp_path):
    theirs = Repo.init(tmp_path / "theirs")
    theirs.commit({"far.md": TEXT})
    repo.git("remote", "add", "them", str(theirs.path))
    repo.git("fetch", "--quiet", "them")
    assert _where(repo, "far.md") == {"far.md": "its file is on refs/remotes/them/main"}


ODD = (
    "a\nb.md",
    ":(glob)*.md",
    "*.md",
    "-x.md",
    "--.md",
    "ü/é.md",
    'q"\\t.md',
    "a\tb.md",
    "x y.md",
)


def test_names_that_look_like_something_else_are_only_names(repo):
    repo.commit({name: TEXT for name in ODD})
    for name in ODD:
        os.unlink(repo.path / name)
    assert set(_where(repo, *ODD)) == set(ODD)
    assert _where(repo, "?.md", "b.md", "a", ":/x y.md") == {}


def test_a_repository_without_a_commit_has_only_its_files(tmp_path):
    repo = Repo.init(tmp_path / "new")
    repo.write({"here.md": TEXT})
    assert set(_where(repo, "here.md", "gone.md")) == {"here.md"}


def test_more_names_than_one_command_line_takes(repo, monkeypatch):
    monkeypatch.setattr(worktrees, "AT_ONCE", 2)
    some = [f"{n}.md" for n in range(5)]
    repo.commit({name: TEXT for name in some})
    for name in some:
        os.unlink(repo.path / name)
    assert set(_where(repo, *some, "gone.md")) == set(some)


def test_a_worktree_that_is_half_removed_is_passed_over(repo):
    (repo.path / ".git" / "worktrees" / "broken").mkdir(parents=True)
    assert git.worktrees(str(repo.path)) == [(str(repo.path), "main")]
    assert _where(repo, "never.md") == {}


# -- the command -----------------------------------------------------------------------


def test_prune_says_what_it_did_and_import_takes_it_back(desk):
    desk = desk("1 t", "2 t")
    before = desk.dump()
    assert "kept .tugtool/tugplan-work.md: its file is in" in desk.text("prune").out
    for branch in ("red", "blue"):
        os.unlink(desk.repo.path / ".tugtree" / branch / KEY)
    os.unlink(desk.plan)
    text = desk.text("prune", "--dry-run").out
    assert "kept .tugtool/tugplan-work.md: its file is on refs/heads/" in text
    desk.repo.git("rm", "--quiet", "--cached", KEY)
    desk.repo.git("commit", "--quiet", "--amend", "--message=never was")
    for branch in ("red", "blue"):
        desk.repo.git("-C", str(getattr(desk, branch)), "reset", "--quiet", "--hard", "main")
    told = desk.text("prune", "--dry-run").out
    assert told.startswith("would prune .tugtool/tugplan-work.md: its file is on no branch")
    assert desk.dump() == before
    done = desk.ok("prune")
    assert names(done["pruned"]) == [KEY]
    assert done["exported_to"].startswith(str(desk.repo.path / ".git" / "tugtool" / "pruned-"))
    assert desk.text("prune").out == "no plan has a state\n"
    assert desk.text("import", done["exported_to"]).status == 0
    assert desk.dump() == before
    assert "what was pruned is in" in desk.text("prune").out


def test_an_uncommitted_plan_that_somebody_has_just_recorded_stays(repo, tugcode):
    repo.plan("fresh", TEXT)
    assert tugcode("-C", repo.path, "state", "init", "fresh").status == 0
    answer = tugcode("-C", repo.path, "state", "prune", "--done", "--json").data
    assert (answer["pruned"], len(answer["kept"])) == ([], 1)


def test_without_a_state_there_is_nothing_to_prune(repo, tugcode):
    assert tugcode("-C", repo.path, "state", "prune").out == "no plan has a state\n"
    assert tugcode("-C", repo.path, "state", "prune", "--json").data["pruned"] == []


def test_claims_and_a_prune_at_once_leave_the_plan_whole_or_gone(repo, tugcode):
    for n in range(3):
        repo.plan(f"p{n}", f"{TEXT}\nNumber {n}.\n")
        tugcode("-C", repo.path, "state", "init", f"p{n}")
        os.unlink(repo.path / ".tugtool" / f"tugplan-p{n}.md")
    words = [("pause", f"p{n}") for n in range(3)]
    racers = [command(repo.path, "state", *each) for each in words]
    racers.insert(1, command(repo.path, "state", "prune"))
    answers = [json.loads(racer.communicate()[0]) for racer in racers]
    pruned = {plan["plan_path"] for plan in answers.pop(1)["data"]["pruned"]}
    assert len(pruned) == 3
    for answer in answers:
        codes = [issue["code"] for issue in answer["issues"]]
        # Before it was written down, or after it was gone; never in between.
        assert codes in ([], ["E063"], ["E041"])
    path = next((repo.path / ".git" / "tugtool").glob("pruned-*"))
    paused = [
        json.loads(line) for line in path.read_text().splitlines() if '"kind": "pause"' in line
    ]
    assert len(paused) == sum(answer["status"] == "ok" for answer in answers)


@pytest.mark.proof(share=0)
def test_a_prune_killed_anywhere_has_dropped_all_or_nothing(repo, tugcode):
    repo.plan("p", TEXT)
    tugcode("-C", repo.path, "state", "init", "p")
    os.unlink(repo.path / ".tugtool" / "tugplan-p.md")
    before = tugcode("-C", repo.path, "state", "export").out.splitlines()[1:]
    for word, left in (("link", 0), ("delete", 0), ("delete", 4), ("delete", 8), ("commit", 0)):
        assert killed(repo.path, word, left, "state", "prune") == -9
        assert tugcode("-C", repo.path, "state", "export").out.splitlines()[1:] == before
    for path in (repo.path / ".git" / "tugtool").glob("pruned-*"):
        assert path.read_text().splitlines()[1:] == before
    assert killed(repo.path, "commit", 99, "state", "prune") == 0
