"""Dependency commits: claim lists what a branch lacks, sync brings it in or changes nothing."""

import os
import subprocess
from pathlib import Path

import pytest

from conftest import Repo, git
from support.proving import sampled
from support.racing import kill_all
from support.state import KEY
from support.worktree import Yard, crashed, fsck, process
from tugtool.git import command as our_git
from tugtool.state import worktrees


def head(path: Path) -> str:
    return git("rev-parse", "HEAD", cwd=path).strip()


def state_of(path: Path) -> tuple:
    """Everything that a refused sync must leave alone."""
    where = Path(git("rev-parse", "--absolute-git-dir", cwd=path).strip())
    files = {p.name: p.read_bytes() for p in path.iterdir() if p.is_file()}
    return (
        head(path),
        git("status", "--porcelain", cwd=path),
        files,
        (where / "MERGE_HEAD").exists(),
    )


def has(path: Path, commit: str) -> bool:
    words = ["git", "merge-base", "--is-ancestor", commit, "HEAD"]
    return subprocess.run(words, cwd=path, check=False).returncode == 0


@pytest.fixture
def spread(yard):
    """Steps 1 and 2 done in two worktrees; a third that is to do step 3, which needs both."""

    def make(one: dict, two: dict) -> tuple[Yard, list[Path], list[str]]:
        made = yard("1", "2", "3 < 1 2")
        names, commits = made.shared(
            "spread", repr(one), repr(two), make=lambda there: _spread(there, one, two)
        )
        return made, [made.root / ".tugtree" / name for name in names], list(commits)

    return make


def _spread(yard: Yard, one: dict, two: dict) -> tuple[list[str], list[str]]:
    """The names of the worktrees, and the commits."""
    paths = [yard.create("--new") for _ in range(3)]
    commits = [yard.do(paths[0], "step-1", one), yard.do(paths[1], "step-2", two)]
    return [path.name for path in paths], commits


def test_claim_lists_the_commits_that_the_branch_lacks(spread):
    yard, paths, commits = spread({"one": "1"}, {"two": "2"})
    claim = yard.ok("state", "claim", "work", at=paths[2])
    branches = [git("rev-parse", "--abbrev-ref", "HEAD", cwd=path).strip() for path in paths]
    found = {each["step_anchor"]: each for each in claim["missing_commits"]}
    assert found == {
        f"step-{n + 1}": {
            "step_anchor": f"step-{n + 1}",
            "commit": commits[n],
            "worktree": str(paths[n]),
            "branch": branches[n],
        }
        for n in range(2)
    }


def test_create_with_claim_lists_them_too(spread):
    yard, _, commits = spread({"one": "1"}, {"two": "2"})
    claim = yard.ok("worktree", "create", "work", "--new", "--claim")["claim"]
    assert sorted(each["commit"] for each in claim["missing_commits"]) == sorted(commits)


def test_own_commits_and_those_of_no_hash_are_not_looked_for(yard, tmp_path, monkeypatch):
    """Git is not even started: there is none to be found."""
    yard = yard("1", "2", "3 < 1 2")
    path = yard.create()
    yard.do(path, "step-1", {"one": "1"})
    other = yard.create("--new")
    yard.ok("state", "claim", "work", at=other)
    yard.ok("state", "complete", "work", "step-2", "--force", "r", at=other)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert yard.ok("state", "claim", "work", at=path)["missing_commits"] == []


def test_a_claim_is_answered_also_where_git_cannot_be_asked(spread, tmp_path, monkeypatch):
    """The step is the caller's by then, and it has to know."""
    yard, paths, _ = spread({"one": "1"}, {"two": "2"})
    monkeypatch.setenv("PATH", str(tmp_path))
    claim = yard.ok("state", "claim", "work", at=paths[2])
    assert (claim["anchor"], claim["missing_commits"]) == ("step-3", None)


def test_a_worktree_that_is_gone_is_not_taken_for_the_one_made_after_it(yard):
    """What was committed there is missing here: the new one has another name."""
    yard = yard("1", "2", "3 < 1 2")
    first = yard.create("--claim")
    commit = yard.do(first, "step-1", {"one": "1"})
    yard.ok("worktree", "remove", first.name, "--force")
    second = yard.create("--claim")
    assert second.name == f"{first.name}-2"
    yard.do(second, "step-2", {"two": "2"})
    claim = yard.ok("state", "claim", "work", at=second)
    assert [each["commit"] for each in claim["missing_commits"]] == [commit]
    assert [each["commit"] for each in yard.ok("worktree", "sync", at=second)["merged"]] == [commit]


@pytest.mark.parametrize("end", ["released", "completed", "reset"])
def test_a_name_under_which_somebody_worked_is_not_given_out_again(yard, end):
    yard = yard("1")
    first = yard.create("--claim")
    if end == "released":
        yard.ok("state", "release", "work", "step-1", at=first)
    elif end == "completed":
        yard.ok("state", "complete", "work", "step-1", "--force", "r", at=first)
    else:
        yard.ok("state", "reset", "work", "step-1")
    yard.ok("worktree", "remove", first.name, "--force")
    assert yard.create().name == f"{first.name}-2"


def test_nothing_is_missing_once_the_commits_are_on_the_branch(spread):
    yard, _, commits = spread({"one": "1"}, {"two": "2"})
    for commit in commits:
        yard.repo.git("merge", "--quiet", "--no-edit", commit)
    fresh = yard.create("--new")
    assert yard.ok("state", "claim", "work", at=fresh)["missing_commits"] == []


def test_a_worktree_that_is_gone_cannot_be_looked_at(spread):
    yard, _, _ = spread({"one": "1"}, {"two": "2"})
    claim = yard.ok("state", "claim", "work", "--worktree", "/nowhere/at/all")
    assert claim["missing_commits"] is None


def test_a_dependency_on_a_substep_counts_by_its_step_s_commit(yard):
    yard = yard("1", "1.1", "2", "2.1 < 1.1")
    one, two = yard.create("--new"), yard.create("--new")
    commit = yard.do(one, "step-1", {"one": "1"})
    claim = yard.ok("state", "claim", "work", at=two)
    assert claim["anchor"] == "step-2"
    assert [each["commit"] for each in claim["missing_commits"]] == [commit]


def test_sync_of_everything_brings_in_what_no_step_here_depends_on(spread):
    yard, paths, commits = spread({"one": "1"}, {"two": "2"})
    assert yard.ok("worktree", "sync", "work", at=paths[2])["up_to_date"]
    done = yard.ok("worktree", "sync", "work", "--all", at=paths[2])
    assert {each["commit"] for each in done["merged"]} == set(commits)
    assert {each["worktree"] for each in done["merged"]} == {str(path) for path in paths[:2]}
    assert all(has(paths[2], commit) for commit in commits)
    assert yard.ok("worktree", "sync", "work", "--all", at=paths[2])["up_to_date"]


def test_sync_merges_what_is_missing_once(spread, tugcode):
    yard, paths, commits = spread({"one": "1"}, {"two": "2"})
    third = paths[2]
    yard.commit(third, {"own": "x"})
    yard.ok("state", "claim", "work", at=third)
    data = yard.ok("worktree", "sync", "work", at=third)
    assert sorted(each["commit"] for each in data["merged"]) == sorted(commits)
    assert (data["plan_path"], data["steps"]) == (KEY, ["step-3"])
    assert (data["worktree_path"], data["up_to_date"]) == (str(third), False)
    assert data["head"] == head(third)
    assert all(has(third, commit) for commit in commits)
    assert {"one", "two", "own"} <= set(os.listdir(third))
    assert git("status", "--porcelain", cwd=third) == ""
    messages = git("log", "--format=%s", "--merges", cwd=third)
    assert f"Merge step-1 of {KEY}" in messages
    assert "Tug-" not in git("log", "-3", "--format=%B", cwd=third)
    before = head(third)
    again = yard.ok("worktree", "sync", "work", at=third)
    assert (again["merged"], again["up_to_date"], head(third)) == ([], True, before)
    assert tugcode("-C", third, "worktree", "sync").out == "nothing to merge\n"
    fsck(yard.root)


def test_without_commits_of_its_own_the_branch_just_moves_on(yard):
    yard = yard("1", "2 < 1")
    one, two = yard.create("--new"), yard.create("--new")
    commit = yard.do(one, "step-1", {"one": "1"})
    yard.ok("state", "claim", "work", at=two)
    assert yard.ok("worktree", "sync", at=two)["head"] == commit == head(two)


def test_what_a_dependency_was_built_on_comes_along(yard):
    """Step 2 was done without step 1's commit; step 3 still gets both."""
    yard = yard("1", "2 < 1", "3 < 2")
    paths = [yard.create("--new") for _ in range(3)]
    commits = [yard.do(paths[n], f"step-{n + 1}", {f"{n}": "x"}) for n in range(2)]
    claim = yard.ok("state", "claim", "work", at=paths[2])
    assert sorted(each["commit"] for each in claim["missing_commits"]) == sorted(commits)
    yard.ok("worktree", "sync", at=paths[2])
    assert all(has(paths[2], commit) for commit in commits)


def test_a_commit_that_another_brings_along_gets_no_merge_of_its_own(yard):
    yard = yard("1", "2 < 1", "3", "4 < 1 2 3")
    first, second = (yard.create("--new") for _ in range(2))
    done = [yard.do(first, "step-1", {"one": "1"}), yard.do(first, "step-2", {"two": "2"})]
    yard.do(second, "step-3", {"three": "3"})
    yard.ok("state", "claim", "work", at=second)
    merged = yard.ok("worktree", "sync", "work", at=second)["merged"]
    assert [each["commit"] for each in merged] == done
    assert git("log", "--merges", "--format=%s", cwd=second) == f"Merge step-2 of {KEY}\n"
    assert all(has(second, commit) for commit in done)


@pytest.mark.proof(share=0)
def test_worktrees_that_need_the_same_have_the_same_merge(yard):
    """Else every later merge would have to merge all of their merges first."""
    yard = yard("1", "2", "3", "4 < 1 2 3", "5 < 1 2 3", "6 < 1 2 3")
    paths = [yard.create("--new") for _ in range(3)]
    for number, path in enumerate(paths, 1):
        yard.do(path, f"step-{number}", {str(number): "x"})
    for number, path in enumerate(paths, 4):
        yard.ok("state", "claim", "work", "--step", f"step-{number}", at=path)
    ends = {yard.ok("worktree", "sync", at=path)["head"] for path in paths}
    assert len(ends) == 1
    messages = git("log", "--merges", "--format=%s", cwd=paths[0]).splitlines()
    assert messages == [f"Merge step-3 of {KEY}", f"Merge step-2 of {KEY}"]
    assert {"1", "2", "3"} <= set(os.listdir(paths[0]))
    fsck(yard.root)


def carry_out(yard: Yard, path: Path, step: str) -> None:
    """Claim, sync and commit, so that the log has an entry."""
    yard.ok("state", "claim", "work", "--step", step, at=path)
    yard.ok("worktree", "sync", at=path)
    Repo(path).write({step: "x"})
    yard.ok("state", "update", "work", step, "--all", "completed", at=path)
    yard.ok("commit", "--plan", "work", "--step", step, "--message", step, at=path)


@pytest.mark.proof(share=0)
def test_every_merge_of_a_sync_has_each_entry_of_the_log_once(yard):
    """Also a merge on the way to another: it may become the base of later ones."""
    yard = yard("1 t", "2 t", "3 t < 1 2", "4 t < 1 2", "5 t", "6 t < 3 4 5")
    red, blue, green = (yard.create("--new") for _ in range(3))
    for number, path in enumerate((red, blue, red, blue, green, green), 1):
        carry_out(yard, path, f"step-{number}")
    told = []
    for merge in git("rev-list", "--merges", "HEAD", cwd=green).split():
        lines = git("show", f"{merge}:.tugtool/log.md", cwd=green).splitlines()
        told.append(sorted(line.split("**")[1][5] for line in lines if line.startswith("- ")))
    assert sorted(map("".join, told)) == ["12", "12", "1234", "12345"]


def test_a_sync_of_two_commits_starts_a_dozen_gits_at_most(spread, tmp_path, monkeypatch):
    """Each is a process; what a plan with many dependencies costs is the number of them."""
    yard, paths, commits = spread({"one": "1"}, {"two": "2"})
    yard.commit(paths[2], {"own": "x"})
    yard.ok("state", "claim", "work", at=paths[2])
    gits = []
    spawn = our_git._spawn
    monkeypatch.setattr(
        our_git, "_spawn", lambda argv, *rest: gits.append(argv) or spawn(argv, *rest)
    )
    assert len(yard.ok("worktree", "sync", at=paths[2])["merged"]) == len(commits)
    assert len(gits) <= 12, gits


def test_steps_far_behind_others_are_found_missing_too(yard, monkeypatch):
    """Git is asked about a good many steps at once; beyond those it is asked again."""
    monkeypatch.setattr(worktrees, "_MOST_AHEAD", 1)
    yard = yard("1", "2 < 1", "3 < 2", "4 < 3", "5 < 4")
    first, second = (yard.create("--new") for _ in range(2))
    commits = [yard.do(first, f"step-{n}", {str(n): "x"}) for n in range(1, 5)]
    claim = yard.ok("state", "claim", "work", at=second)
    assert [each["commit"] for each in claim["missing_commits"]] == commits
    assert yard.ok("worktree", "sync", at=second)["head"] == commits[-1]


def test_a_conflict_names_the_files_and_the_step_and_changes_nothing(spread):
    yard, paths, commits = spread({"one": "1", "same\nö": "1\n"}, {"same\nö": "2\n", "b": "2"})
    yard.ok("state", "claim", "work", at=paths[2])
    (paths[2] / "untracked").write_text("x")
    before = state_of(paths[2])
    done = yard.run("worktree", "sync", "work", at=paths[2])
    assert (done.status, done.codes) == (1, ["E061"])
    issue = done.envelope()["issues"][0]
    assert issue["facts"]["files"] == ["same\nö"]
    assert issue["anchor"] in ("step-1", "step-2")
    assert issue["facts"]["commit"] in commits
    assert state_of(paths[2]) == before


def test_uncommitted_files_in_the_way_are_named_and_others_do_not_matter(spread):
    yard, paths, _ = spread({"one": "1"}, {"code.txt": "changed in two\n"})
    third = paths[2]
    yard.ok("state", "claim", "work", at=third)
    for name in ("code.txt", "one"):
        (third / name).write_text("mine\n")
        before = state_of(third)
        done = yard.run("worktree", "sync", at=third)
        assert done.codes == ["E061"]
        assert done.envelope()["issues"][0]["facts"]["files"] == [name]
        assert state_of(third) == before
        git("clean", "--quiet", "--force", "one", cwd=third)
        git("checkout", "--quiet", "code.txt", cwd=third)
    (third / "elsewhere").write_text("mine\n")
    assert yard.ok("worktree", "sync", at=third)["up_to_date"] is False
    assert (third / "elsewhere").read_text() == "mine\n"


def test_a_commit_that_git_does_not_have_is_refused(spread):
    yard, paths, _ = spread({"one": "1"}, {"two": "2"})
    store_write(yard, f"update steps set commit_hash = '{'0' * 39}1' where anchor = 'step-1'")
    claim = yard.ok("state", "claim", "work", at=paths[2])
    assert f"{'0' * 39}1" in [each["commit"] for each in claim["missing_commits"]]
    before = state_of(paths[2])
    assert yard.run("worktree", "sync", at=paths[2]).codes == ["E061"]
    assert state_of(paths[2]) == before


def store_write(yard: Yard, statement: str) -> None:
    from tugtool.store import open_store

    store = open_store(f"sqlite://{yard.root / '.tugtool' / 'state.db'}")
    with store.write(KEY) as tx:
        tx.run(statement)
    store.close()


def test_never_in_the_main_worktree(yard):
    yard = yard()
    yard.ok("state", "init", "work")
    yard.refused("E035", "worktree", "sync", "work")


def test_with_no_step_held_there_is_nothing_to_merge(spread):
    yard, paths, _ = spread({"one": "1"}, {"two": "2"})
    assert yard.ok("worktree", "sync", at=paths[2])["up_to_date"] is True


def test_the_plan_is_the_worktree_s_own_where_several_are_active(spread):
    yard, paths, _ = spread({"one": "1"}, {"two": "2"})
    yard.repo.plan("other", "### Step 1: Other\n")
    yard.ok("state", "init", "other")
    assert yard.ok("worktree", "sync", at=paths[2])["plan_path"] == KEY


ODD_CONFIG = [
    ("merge.ff", "only"),
    ("merge.ff", "false"),
    ("merge.autoStash", "true"),
    ("merge.conflictStyle", "diff3"),
    ("pull.rebase", "true"),
    ("merge.stat", "true"),
    ("merge.log", "true"),
    ("core.hooksPath", "nowhere"),
    ("diff.renames", "copies"),
]


@pytest.mark.parametrize(("name", "value"), sampled(ODD_CONFIG, 3))
def test_odd_configuration_does_not_matter(spread, name, value):
    yard, paths, commits = spread({"one": "1"}, {"two": "2"})
    yard.ok("state", "claim", "work", at=paths[2])
    yard.commit(paths[2], {"own": "x"})
    yard.repo.git("config", name, value)
    yard.ok("worktree", "sync", at=paths[2])
    assert all(has(paths[2], commit) for commit in commits)


def test_where_commits_are_signed_and_there_is_no_key_it_is_refused_before_anything(spread):
    yard, paths, _ = spread({"one": "1"}, {"two": "2"})
    yard.ok("state", "claim", "work", at=paths[2])
    yard.commit(paths[2], {"own": "x"})
    yard.repo.git("config", "commit.gpgSign", "true")
    yard.repo.git("config", "gpg.program", "/nonexistent/gpg")
    before = state_of(paths[2])
    done = yard.run("worktree", "sync", at=paths[2])
    assert done.codes == ["E076"]
    assert "gpg" in done.out
    assert state_of(paths[2]) == before


def test_the_index_s_lock_is_waited_for_and_then_named(spread):
    yard, paths, _ = spread({"one": "1"}, {"two": "2"})
    yard.ok("state", "claim", "work", at=paths[2])
    lock = Path(git("rev-parse", "--absolute-git-dir", cwd=paths[2]).strip()) / "index.lock"
    lock.touch()
    done = yard.run("worktree", "sync", at=paths[2])
    assert done.codes == ["E076"]
    assert "index.lock" in done.out
    lock.unlink()
    assert yard.ok("worktree", "sync", at=paths[2])["up_to_date"] is False


def test_a_merge_that_somebody_has_begun_is_left_alone(spread):
    yard, paths, _ = spread({"one": "1"}, {"two": "2"})
    third = paths[2]
    yard.ok("state", "claim", "work", at=third)
    yard.repo.commit({"on-main": "x"})
    yard.commit(third, {"own": "x"})
    git("merge", "--quiet", "--no-commit", "main", cwd=third)
    before = state_of(third)
    assert yard.run("worktree", "sync", at=third).codes == ["E076"]
    assert state_of(third) == before
    assert Repo(third).git("rev-parse", "MERGE_HEAD")


@pytest.mark.proof(share=0)
def test_a_git_that_is_killed_while_it_changes_files_is_gone_on_with(spread):
    """With its command; what lies there uncommitted stays through all of it."""
    yard, paths, commits = spread({f"one-{n}.txt": "1\n" for n in range(9)}, {"two": "2"})
    third = paths[2]
    yard.ok("state", "claim", "work", at=third)
    (third / "loose").write_text("mine\n")
    (third / "code.txt").write_text("mine\n")
    inner = yard.root / ".git"
    (inner / "info").mkdir(exist_ok=True)
    (inner / "info" / "attributes").write_text("one-5.txt filter=slow\n")
    os.mkfifo(inner / "reached")
    wait = f"mkdir {inner}/first 2>/dev/null && echo > {inner}/reached && tail -f /dev/null"
    yard.repo.git("config", "filter.slow.smudge", f"{wait}; cat")
    busy = process(third, "worktree", "sync", apart=True)
    (inner / "reached").read_text()
    assert "sync under way" in yard.run("worktree", "sync", at=third).out
    kill_all(busy)
    got = sorted(path.name for path in third.glob("one-*.txt"))
    assert 0 < len(got) < 9
    (third / got[0]).write_text("theirs\n")
    assert "changed since: one-" in yard.run("worktree", "sync", at=third).out
    assert (third / got[0]).read_text() == "theirs\n"
    (third / got[0]).write_text("")
    yard.ok("worktree", "sync", at=third)
    assert all(has(third, commit) for commit in commits)
    assert len(list(third.glob("one-*.txt"))) == 9
    assert git("status", "--porcelain", cwd=third) == " M code.txt\n?? loose\n"
    assert (third / "code.txt").read_text() == (third / "loose").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("begun", "point"),
    sampled(
        [
            *((True, "sync.locked"), (False, "sync.locked")),
            *((False, "sync.advanced"), (True, "sync.advanced")),
        ],
        2,
    ),
)
def test_a_commit_after_a_sync_that_was_killed_puts_it_right_first(spread, point, begun):
    yard, paths, commits = spread({"one": "1"}, {"two": "2"})
    third = paths[2]
    yard.ok("state", "claim", "work", "--step", "step-3", at=third)
    words = ("commit", "--plan=work", "--step=step-3", "--message=x")
    if begun:
        crashed(third, "commit.added", *words)
    crashed(third, point, "worktree", "sync")
    (third / "own").write_text("x")
    done = yard.ok(*words, at=third)
    assert (done["completed"], "own" in done["files_staged"]) == (True, True)
    assert {"one", "two"}.isdisjoint(done["files_staged"])
    assert all(has(third, commit) == (point == "sync.advanced") for commit in commits)
    assert git("status", "--porcelain", cwd=third) == ""
    fsck(yard.root)
