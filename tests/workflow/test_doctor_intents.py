"""Commands killed half-way: doctor names them, and --fix finishes or undoes what they began."""

import os
import subprocess
import sys

import pytest

from conftest import Repo, git
from support.commit import Bench
from support.doctor import Clinic, harmless
from support.proving import sampled
from support.racing import kill_all
from support.state import KEY
from support.worktree import crashed, fsck
from tugtool.system import crash
from workflow.test_commit_crash import COMMITTED, LIMITS, begun, ended, same
from workflow.test_commit_crash import UNFINISHED as COMMIT_POINTS

pytestmark = pytest.mark.usefixtures("named_writes")

CREATE_POINTS = [name for name in crash.POINTS if name.startswith("create.")][1:]
REMOVE_POINTS = [name for name in crash.POINTS if name.startswith("remove.")]
MERGE_POINTS = [
    *(n for n in crash.POINTS if n.startswith("merge.") and not n.startswith("merge.check"))
]


def intents(b: Bench, *words: str) -> list[dict]:
    """What doctor says of a bench's intents; its hints are harmless."""
    done = b._tugcode("-C", b.repo.path, "doctor", "--json", *words)
    found = {check["name"]: check["findings"] for check in done.data["checks"]}
    for finding in found["intents"]:
        harmless(finding["hint"])
    return found["intents"]


@pytest.mark.proof(share=0)
@pytest.mark.parametrize(
    ("point", "limits"),
    sampled([(point, limits) for limits in LIMITS for point in COMMIT_POINTS[::-1]], 3),
)
def test_a_commit_that_was_killed_is_finished_or_undone_as_git_says(bench, point, limits):
    b = begun(bench, limits)
    before = ended(b)
    entries = b.entries()
    b.crash(point, "step-2")
    held = b.intents()
    (finding,) = intents(b)
    assert finding["message"].startswith(f"a commit for step-2 of {KEY} in {b.red} is unfinished")
    assert (finding["severity"], finding["fixable"]) == ("warning", True)
    assert b.intents() == held
    (finding,) = intents(b, "--fix")
    assert finding["fixed"], finding
    after = ended(b)
    assert after["intents"] == []
    if point in COMMITTED:
        assert "finished: its step is completed" in finding["outcome"]
        assert b.step("step-2")["status"] == "completed"
        assert b.step("step-2")["commit_hash"] == b.head()
        assert after["status"] == ""
    else:
        assert "undone: git has no commit of it" in finding["outcome"]
        assert b.entries() == entries
        assert after == before
    assert not list((b.repo.path / ".git/worktrees/red").glob("tugtool-index*"))
    assert intents(b) == []


def test_a_commit_that_was_killed_once_its_step_was_completed_leaves_nothing_to_find(bench):
    b = begun(bench, "plain")
    b.crash("commit.completed", "step-2")
    assert intents(b) == []


@pytest.mark.parametrize("limits", LIMITS)
def test_undoing_a_commit_leaves_what_others_have_added_since_but_not_our_log(bench, limits):
    b = begun(bench, limits)
    b.git("add", "code.py")
    b.crash("commit.added", "step-2")
    b.write({"later": "x\n"})
    b.git("add", "later")
    intents(b, "--fix")
    status = b.git("status", "--porcelain").splitlines()
    assert status == ["M  code.py", "A  later", "A  two"]


def test_undoing_a_commit_puts_the_index_back_though_somebody_has_looked(bench):
    b = begun(bench, "plain")
    b.git("add", "code.py")
    before = b.git("status", "--porcelain")
    b.crash("commit.added", "step-2")
    os.utime(b.red / "two")
    b.git("update-index", "--refresh")
    intents(b, "--fix")
    assert b.git("status", "--porcelain") == before == "M  code.py\n?? two\n"


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("point", sampled(COMMIT_POINTS, 1))
def test_after_the_repair_the_same_commit_ends_as_without_the_crash(
    bench, point, tmp_path, tugcode, monkeypatch
):
    b = begun(bench, "plain")
    b.crash(point, "step-2")
    intents(b, "--fix")
    assert b.commit_json("step-2").status == 0
    repo = Repo.init(tmp_path / "uncrashed")
    repo.commit()
    other = Bench(repo, tugcode, monkeypatch, "1 t", "2 t", "3 t")
    other.ok("init", "work")
    begun(lambda *lines: other, "plain").done("step-2")
    same(ended(b), ended(other), str(b.repo.path), str(repo.path))


def test_a_commit_whose_step_cannot_be_completed_yet_stays_a_finding(bench):
    b = begun(bench, "plain")
    b.crash("commit.committed", "step-2")
    b.ok("update", "work", "step-2", "--task", "0", "open")
    (finding,) = intents(b, "--fix")
    assert not finding["fixed"]
    assert "not done: " in finding["outcome"]
    assert "whose step is not completed yet" in finding["outcome"]
    assert finding["hint"] == "tugcode show work"
    assert len(b.intents()) == 1
    b.close("step-2")
    (finding,) = intents(b, "--fix")
    assert finding["fixed"]
    assert b.step("step-2")["status"] == "completed"


def test_a_commit_that_is_under_way_is_nobody_s_business(bench):
    b = begun(bench, "plain")
    b.hook("pre-commit", "echo running; kill -STOP $$")
    at_it = subprocess.Popen(
        [sys.executable, "-m", "tugtool", *b.words("step-2")],
        cwd=b.red,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
    )
    try:
        while not b.intents():
            assert at_it.poll() is None
        assert intents(b) == intents(b, "--fix") == []
        assert len(b.intents()) == 1
    finally:
        kill_all(at_it)
    (finding,) = intents(b)
    assert finding["fixable"]


def test_a_commit_in_a_worktree_that_is_gone_is_named_and_left(bench):
    b = begun(bench, "plain")
    b.crash("commit.committed", "step-2")
    b.git("worktree", "remove", "--force", str(b.red), at=b.repo.path)
    (finding,) = intents(b, "--fix")
    assert "the worktree is gone" in finding["message"]
    assert not finding["fixable"]
    assert finding["hint"] == "tugcode reconcile work --dry-run"


# -- worktrees -------------------------------------------------------------------------


def after(c: Clinic) -> dict:
    """Git and the record, times aside."""
    return {
        "refs": {name: tip for name, tip in c.refs().items() if "salvage" not in name},
        "git": c.repo.git("worktree", "list", "--porcelain"),
        "files": sorted(os.listdir(c.root / ".tugtree")),
        "rows": c.rows("select path, branch from worktrees order by path"),
        "intents": c.rows("select * from intents"),
        "held": c.rows("select anchor, claimed_by from steps where claimed_by is not null"),
        "main": c.repo.git("status", "--porcelain"),
    }


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("point", sampled(CREATE_POINTS, 2))
def test_a_worktree_that_was_being_made_is_named_and_taken_away(clinic, point):
    c = clinic()
    before = after(c)
    crashed(c.root, point, "worktree", "create", "work", "--new")
    (finding,) = c.findings()["intents"]
    assert "was being made for" in finding["message"]
    (finding,) = c.findings("--fix")["intents"]
    assert finding["fixed"], finding
    assert after(c) == before
    assert c.findings() == {}
    fsck(c.root)


def test_a_worktree_that_somebody_has_worked_in_is_kept(clinic):
    c = clinic()
    crashed(c.root, "create.worktree", "worktree", "create", "work", "--new")
    (path,) = [p for p in (c.root / ".tugtree").iterdir() if p != c.tree]
    tip = c.commit(path, {"found": "it"})
    (finding,) = c.findings("--fix")["intents"]
    assert finding["fixed"]
    assert finding["outcome"] == "kept: it has work"
    assert git("rev-parse", "HEAD", cwd=path).strip() == tip


def test_a_worktree_that_is_being_made_just_now_is_nobody_s_business(clinic):
    c = clinic()
    crashed(c.root, "create.branch", "worktree", "create", "work", "--new")
    code = (
        "import fcntl, sys\n"
        "f = open(sys.argv[1], 'r+')\n"
        "fcntl.flock(f, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    held = subprocess.Popen(
        [sys.executable, "-c", code, str(c.copies / "worktrees.lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert held.stdout.readline() == "held\n"
    assert "intents" not in c.findings()
    held.communicate()
    assert "intents" in c.findings()


def landed(c: Clinic) -> None:
    """The worktree's work is on main, and so it may go."""
    c.do(c.tree, "step-1", {"one": "1"})
    c.repo.git("merge", "--quiet", git("rev-parse", "HEAD", cwd=c.tree).strip())
    c.ok("state", "claim", "work", "--lease-duration", "0.001", at=c.tree)


@pytest.mark.parametrize("point", sampled([p for p in REMOVE_POINTS if p != "remove.salvaged"], 2))
def test_a_removal_that_was_cut_short_is_named_and_finished(clinic, point):
    c = clinic()
    landed(c)
    crashed(c.root, point, "worktree", "remove", c.tree.name)
    (finding,) = c.findings()["intents"]
    assert finding["hint"] == f"tugcode worktree remove {c.tree.name}"
    (finding,) = c.findings("--fix")["intents"]
    assert finding["fixed"], finding
    found = after(c)
    assert found["rows"] == found["intents"] == found["files"] == found["held"] == []
    assert list(found["refs"]) == ["refs/heads/main"]
    assert "intents" not in c.findings()


@pytest.mark.parametrize("point", ["remove.intent", "remove.salvaged"])
def test_a_forced_removal_is_gone_on_with_by_nobody_but_a_person(clinic, point):
    c = clinic()
    c.ok("state", "claim", "work", at=c.tree)
    c.commit(c.tree, {"one": "1"})
    Repo(c.tree).write({"loose": "x"})
    crashed(c.root, point, "worktree", "remove", c.tree.name, "--force")
    before = after(c)
    (finding,) = c.findings("--fix")["intents"]
    assert not finding["fixed"]
    assert "not done: " in finding["outcome"]
    assert after(c) == before
    assert (c.tree / "loose").read_text() == "x"


def test_an_intent_of_a_removal_whose_row_is_gone_is_forgotten(clinic):
    c = clinic()
    landed(c)
    crashed(c.root, "remove.released", "worktree", "remove", c.tree.name)
    c.sql("delete from worktrees")
    (finding,) = c.findings("--fix")["intents"]
    assert finding["fixed"]
    assert c.rows("select * from intents") == []


# -- merge and others ------------------------------------------------------------------


def done_plan(c: Clinic) -> None:
    c.shared("done plan", make=_do_plan)


def _do_plan(c: Clinic) -> None:
    for number in (1, 2, 3):
        c.do(c.tree, f"step-{number}", {f"{number}": "x"})


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("point", sampled(MERGE_POINTS, 2))
def test_a_merge_that_was_stopped_is_named_and_finished_or_forgotten(clinic, point):
    c = clinic()
    done_plan(c)
    start = c.refs()
    crashed(c.root, point, "merge", "work")
    (finding,) = c.findings()["intents"]
    assert finding["message"].startswith(f"the merge of {KEY} is unfinished")
    assert finding["hint"] == "tugcode doctor --fix"
    (finding,) = c.findings("--fix")["intents"]
    assert finding["fixed"], finding
    assert c.rows("select * from intents") == []
    if point in ("merge.intent", "merge.locked"):
        assert finding["outcome"] == "forgotten: nothing had moved"
        assert c.refs() == start
        c.ok("merge", "work")
    assert c.findings() == {}
    assert list(c.refs()) == ["refs/heads/main"]
    assert c.rows("select merged_commit from plans")[0]["merged_commit"] is not None
    assert c.repo.git("status", "--porcelain") == ""
    fsck(c.root)


def test_a_merge_is_finished_only_from_the_main_worktree(clinic):
    c = clinic()
    done_plan(c)
    crashed(c.root, "merge.moved", "merge", "work")
    (finding,) = c.findings("--fix", at=c.tree)["intents"]
    assert not finding["fixed"]
    assert "the main worktree" in finding["outcome"]


def test_what_nobody_here_knows_how_to_finish_is_named_and_left(clinic):
    c = clinic()
    now = "'2026-01-01T00:00:00.000Z'"
    c.sql(
        "insert into intents (kind, worktree, plan_path, detail, created_at)"
        f" values ('sync', '{c.tree}', '{KEY}', '{{}}', {now})"
    )
    finding = c.one("intents")
    assert f"sync in {c.tree} is unfinished" in finding["message"]
    assert not finding["fixable"]
    c.doctor("--fix")
    assert len(c.rows("select * from intents")) == 1


# -- dashes ----------------------------------------------------------------------------


def dash(c: Clinic) -> Repo:
    c.ok("dash", "create", "fix")
    tree = Repo(c.root / ".tugtree" / "tugdash__fix")
    tree.write({"new.txt": "new\n"})
    return tree


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("point", sampled(["dash.intent", "dash.branch", "dash.worktree"], 1))
def test_a_dash_that_was_being_made_is_taken_away_again(clinic, point):
    c = clinic()
    before = c.refs()
    crashed(c.root, point, "dash", "create", "fix")
    assert c.one("intents")["hint"] == "tugcode doctor --fix"
    assert c.mends("intents") == "undone: it was removed"
    assert c.refs() == before
    assert not (c.root / ".tugtree" / "tugdash__fix").exists()


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("point", sampled(["round.added", "round.intent", "round.committed"], 2))
def test_a_round_that_was_being_committed_is_recorded_if_git_has_it(clinic, point):
    c = clinic()
    tree = dash(c)
    crashed(c.root, point, "dash", "commit", "fix", "--message", "x")
    finding = c.one("intents")
    assert finding["message"] == "dash commit of fix is unfinished"
    assert finding["hint"] == "tugcode doctor --fix"
    word = "finished: its round" if point == "round.committed" else "undone: git has no commit"
    assert c.mends("intents").startswith(word)
    assert tree.git("diff", "--cached", "--name-only") == ""
    rounds = c.rows("select commit_hash from dash_rounds")
    made = [{"commit_hash": tree.git("rev-parse", "HEAD").strip()}]
    assert rounds == (made if point == "round.committed" else [])
    c.ok("dash", "commit", "fix", "--message", "x")
    assert len(c.rows("select * from dash_rounds")) == 1


@pytest.mark.proof(share=0)
@pytest.mark.parametrize(
    "point", sampled([name for name in crash.POINTS if name.startswith("join.")], 2)
)
def test_a_join_that_was_stopped_is_finished_if_the_base_has_moved(clinic, point):
    c = clinic()
    dash(c)
    c.ok("dash", "commit", "fix", "--message", "x")
    crashed(c.root, point, "dash", "join", "fix")
    finding = c.one("intents")
    assert finding["message"] == "dash join of fix is unfinished"
    assert finding["hint"] == "tugcode doctor --fix"
    moved = point not in ("join.intent", "join.locked")
    word = "finished: it is joined as " if moved else "undone: its base branch had not moved"
    assert c.mends("intents").startswith(word)
    assert (c.root / "new.txt").exists() == moved
    assert c.rows("select status from dashes") == [{"status": "joined" if moved else "active"}]
    assert c.repo.git("status", "--porcelain") == ""


@pytest.mark.proof(share=0)
def test_the_release_of_a_dash_is_left_to_its_own_command(clinic):
    c = clinic()
    dash(c)
    crashed(c.root, "remove.salvaged", "dash", "release", "fix", "--force")
    finding = c.one("intents", "--fix")
    assert "dash release of fix is unfinished" in finding["message"]
    assert not finding["fixable"]
    c.ok("dash", "release", "fix", "--force")
    assert c.findings() == {}


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("point", ["remove.worktree", "remove.branch"])
def test_everybody_names_the_command_that_ends_an_interrupted_release(clinic, tugcode, point):
    c = clinic()
    dash(c)
    crashed(c.root, point, "dash", "release", "fix", "--force")
    command = "tugcode dash release fix"
    assert c.one("intents")["hint"] == command
    for words in (("show", "fix"), ("list",)):
        shown = tugcode("-C", c.root, "dash", *words).out
        assert f"a release was interrupted; {command} goes on with it" in shown
        assert "dash create" not in shown
    (issue,) = c.run("dash", "create", "fix").envelope()["issues"]
    assert (issue["code"], issue["hint"]) == ("E056", command)
    c.ok("dash", "release", "fix")
    assert c.findings() == {}
    assert c.ok("dash", "show", "fix")["releasing"] is None
