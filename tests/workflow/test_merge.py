"""Merge: a done plan comes to its base branch, all of it or nothing."""

import copy
import json
import os
import shutil
from pathlib import Path

import pytest

from conftest import Repo, git
from support.proving import sampled
from support.racing import kill_all, stands_at, until
from support.state import KEY
from support.work import IDENTITY, Work
from support.worktree import claim_for_two_plans
from tugtool.state import proofs
from tugtool.system import crash

pytestmark = pytest.mark.usefixtures("named_writes")

PAIR = ("1 t", "2 t", "3 t < 1 2")


class Merging(Work):
    """The plan's steps are done as its lines say, one branch per step unless told otherwise."""

    def do(self, *homes: int, **files: dict[str, str]) -> dict[str, str]:
        """Carry the steps out in order, step n on branch `homes[n]`; step -> commit."""

        def made(repo: Repo) -> tuple[dict[str, str], int]:
            there = copy.copy(self)
            there.repo = repo
            return there._do(*homes, **files), there.made

        key = (self.text, homes, json.dumps(files), self.made)
        commits, self.made = self.repo.become("merging", *key, make=made)
        return dict(commits)

    def _do(self, *homes: int, **files: dict[str, str]) -> dict[str, str]:
        trees: dict[int, Path] = {}
        commits = {}
        for number, home in enumerate(homes, 1):
            tree = trees.get(home) or self.branch(home, row=True)
            trees[home] = tree
            anchor = f"step-{number}"
            commits[anchor] = self.commit(tree, anchor, files=files.get(anchor))
            self.finish(anchor, commits[anchor], tree)
        return commits

    def merge(self, *words: str) -> dict:
        done = self.run("merge", "work", *words, "--json")
        assert done.status == 0, done.out
        return done.data

    def refuses(self, *words: str) -> str:
        """The merge is refused and nothing is touched; what it says."""
        before = self.everything()
        done = self.run("merge", "work", *words, "--json")
        assert done.codes == ["E062"], done.out
        assert self.everything() == before
        return done.envelope()["issues"][0]["message"]

    def hint(self, *words: str) -> str:
        """What a refused merge suggests."""
        return self.run("merge", "work", *words, "--json").envelope()["issues"][0]["hint"]

    def everything(self) -> tuple:
        refs = self.repo.git("for-each-ref")
        status = self.repo.git("status", "--porcelain", "--ignored").splitlines()
        # A command that looks at the database leaves something beside it, or takes that away.
        status = [line for line in status if not line.startswith("!! .tugtool/state.db-")]
        trees = self.repo.git("worktree", "list", "--porcelain")
        tables = ("plans", "steps", "events", "worktrees", "intents")
        return refs, status, trees, [self.rows(f"select * from {each}") for each in tables]

    def branches(self) -> list[str]:
        return self.repo.git("branch", "--format=%(refname:short)").split()

    def is_on_main(self, commit: str) -> bool:
        return commit in self.repo.git("rev-list", "main").split()

    def ends_well(self) -> None:
        """Nothing is left over, everything is in order."""
        assert self.branches() == ["main"]
        assert self.repo.git("worktree", "list").count("\n") == 1
        assert self.repo.git("status", "--porcelain") == ""
        assert self.rows("select * from intents") == self.rows("select * from worktrees") == []
        assert self.rows("select merged_commit from plans") == [{"merged_commit": self.head()}]
        kinds = [row["kind"] for row in self.rows("select kind from events")]
        assert kinds.count("merge") == 1
        self.repo.git("fsck", "--strict")


@pytest.fixture
def done(repo, tugcode, monkeypatch):
    """Make a plan whose steps are all done: `done(("1", "2"), 1, 2)`."""
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)

    def make(lines, *homes: int, **files: dict[str, str]) -> Merging:
        work = Merging(repo, tugcode, *lines)
        work.commits = work.do(*homes, **files)
        return work

    return make


@pytest.mark.proof(share=0)
def test_all_branches_come_to_main_and_go(done):
    work = done(PAIR, 1, 2, 3)
    before = work.head()
    data = work.merge()
    assert all(work.is_on_main(commit) for commit in work.commits.values())
    assert data["merged_commit"] == work.head() != before
    assert [part["steps"] for part in data["branches"]] == [["step-1"], ["step-2"], ["step-3"]]
    assert len(data["removed_worktrees"]) == len(data["removed_branches"]) == 3
    assert data["left"] == data["conflicts"] == []
    work.ends_well()
    for number in (1, 3, 5):
        assert any((work.repo.path / f"file-{n}").exists() for n in (number, number + 1))


def test_a_merge_leaves_a_record_that_reconcile_agrees_with(done):
    work = done(PAIR, 1, 2, 1)
    work.merge()
    data = work.reconcile()
    assert (data["reconciled_count"], data["skipped_count"], data["ignored"]) == (0, 0, [])
    work.lose()
    work.reconcile()
    assert work.done() == work.commits


@pytest.mark.proof(share=0)
def test_a_squash_is_one_commit_that_speaks_for_every_step(done):
    work = done(("1 t", "1.1", "2 t", "3 t < 1 2"), 1, 2, 2)
    before = work.head()
    data = work.merge("--squash")
    assert work.repo.git("rev-list", "--parents", "-1", "main").split() == [work.head(), before]
    assert data["squash"]
    work.ends_well()
    everywhere = dict.fromkeys(work.commits, work.head())
    assert work.done() == everywhere
    assert work.reconcile()["skipped_count"] == 0
    work.lose()
    assert work.reconcile()["ignored"] == []
    assert work.done() == everywhere


def test_a_squash_keeps_the_attempts(done):
    work = done(("1", "2"), 1, 1)
    work.execute("update steps set attempt = 7 where anchor = 'step-1'")
    work.merge("--squash")
    work.lose()
    work.reconcile()
    rows = work.rows("select attempt from steps order by anchor")
    assert [row["attempt"] for row in rows] == [7, 1]


def test_a_second_merge_is_refused(done):
    work = done(("1",), 1)
    commit = work.merge()["merged_commit"]
    assert f"has been merged, as {commit}" in work.refuses()


def test_a_plan_that_is_reopened_and_done_again_can_be_merged_again(done):
    work = done(("1",), 1)
    work.merge()
    assert work.run("state", "reopen", "work", "step-1", "--reason", "bad").status == 0
    work.do(2)
    work.merge()
    assert work.branches() == ["main"]


@pytest.mark.parametrize("first", [["--squash"], []], ids=["squashed", "plain"])
def test_a_squash_after_a_reopening_speaks_for_the_step_as_it_is_now(done, first):
    """The base has a commit of the attempt that was rejected, which speaks for that one only."""
    work = done(PAIR, 1, 2, 1)
    work.merge(*first)
    before = work.done()
    assert work.run("state", "reopen", "work", "step-3", "--reason", "bad").status == 0
    tree = work.branch(3, row=True)
    work.finish("step-3", work.commit(tree, "step-3", attempt=2), tree)
    data = work.merge("--squash")
    assert work.set("step-3", 2) in work.repo.git("log", "-1", "--format=%B")
    assert "* step-3: " in work.repo.git("log", "-1", "--format=%b")
    expected = {**before, "step-3": data["merged_commit"]}
    assert work.done() == expected
    assert work.reconcile()["skipped_count"] == 0
    work.lose()
    work.reconcile()
    assert work.done() == expected


def test_a_second_attempt_that_changes_nothing_is_on_the_base_after_the_merge_too(done):
    work = done(("1",), 1)
    work.merge()
    assert work.run("state", "reopen", "work", "step-1", "--reason", "bad").status == 0
    tree = work.branch(2, row=True)
    again = work.record(tree, f"Nothing was bad\n\n{work.set('step-1', 2)}")
    work.finish("step-1", again, tree)
    work.merge()
    assert work.is_on_main(again)


def test_an_unfinished_plan_is_refused_with_the_reason(done):
    work = done(("1", "2"), 1)
    assert "only a done plan is merged; not completed: step-2" in work.refuses()
    assert "not completed" in work.refuses("--dry-run")


def test_a_plan_without_a_state_is_refused(repo, tugcode):
    repo.plan("work", "# W\n\n### Step 1: x\n")
    assert tugcode("-C", repo.path, "merge", "work", "--json").codes == ["E063"]


def test_a_linked_worktree_is_no_place_to_merge(done):
    work = done(("1",), 1)
    tree = work.repo.path / ".tugtree" / "tugplan__work-20260221"
    answer = work._tugcode("-C", tree, "merge", "work", "--json")
    assert answer.codes == ["E062"]
    assert str(work.repo.path) in answer.envelope()["issues"][0]["message"]


def test_another_branch_or_none_is_refused(done):
    work = done(("1",), 1)
    work.repo.git("checkout", "--quiet", "-b", "elsewhere")
    assert "it goes to main, and the main worktree is on elsewhere" in work.refuses()
    work.repo.git("checkout", "--quiet", "--detach")
    assert "the main worktree is on no branch" in work.refuses()
    work.execute("delete from worktrees")
    assert "no branch checked out" in work.refuses()


@pytest.mark.parametrize("staged", [True, False])
def test_uncommitted_changes_are_refused_and_named(done, staged):
    work = done(("1",), 1)
    work.repo.write({"code.py": "changed\n"})
    if staged:
        work.repo.git("add", "code.py")
    assert "uncommitted changes: code.py" in work.refuses()


def test_an_operation_under_way_is_refused(done):
    work = done(("1",), 1)
    (work.repo.path / ".git" / "CHERRY_PICK_HEAD").write_text(work.head() + "\n")
    assert "a cherry-pick is under way" in work.refuses()


def test_untracked_files_of_a_person_stay_and_stop_nothing(done):
    work = done(("1",), 1)
    work.repo.write({"notes": "mine\n"})
    work.merge()
    assert (work.repo.path / "notes").read_text() == "mine\n"


@pytest.mark.parametrize("mine", ["new/thing", "new"])
def test_an_untracked_file_in_the_way_is_refused(done, mine):
    work = done(("1",), 1, **{"step-1": {"new/thing": "theirs\n"}})
    work.repo.write({mine: "mine\n"})
    assert f"untracked files are in the way: {mine}" in work.refuses()
    assert (work.repo.path / mine).read_text() == "mine\n"


def test_an_ignored_file_in_the_way_is_refused(done):
    """Git itself would overwrite it."""
    work = done(("1",), 1, **{"step-1": {"cache": "theirs\n"}})
    with (work.repo.path / ".git" / "info" / "exclude").open("a") as file:
        file.write("cache\n")
    work.repo.write({"cache": "mine\n"})
    assert "in the way: cache" in work.refuses()


def test_a_directory_of_untracked_files_where_a_file_goes_is_refused(done):
    work = done(("1",), 1, **{"step-1": {"thing": "theirs\n"}})
    work.repo.write({"thing/mine": "mine\n"})
    assert "in the way: thing/mine" in work.refuses()


def test_a_file_that_becomes_a_directory_is_in_nobody_s_way(done):
    work = done(("1",), 1)
    tree = work.repo.path / ".tugtree" / "tugplan__work-20260221"
    (tree / "code.py").unlink()
    work.commit(tree, message="more", files={"code.py/inner": "x\n"})
    work.merge()
    work.ends_well()
    assert (work.repo.path / "code.py" / "inner").read_text() == "x\n"


@pytest.mark.proof(share=0)
def test_conflicts_are_found_before_anything_is_touched(done):
    files = {"step-1": {"code.py": "one\n"}, "step-2": {"code.py": "two\n", "b": "2\n"}}
    work = done(PAIR, 1, 2, 3, **files)
    said = work.refuses()
    assert "tugplan/work-20260222 in code.py (steps step-1, step-2)" in said
    work.commit(work.repo.path, message="main too", files={"b": "other\n"})
    answer = work.run("merge", "work", "--dry-run", "--json")
    assert answer.status == 1
    [conflict] = answer.data["conflicts"]
    assert conflict == {
        "branch_name": "tugplan/work-20260222",
        "files": ["b", "code.py"],
        "steps": ["step-1", "step-2"],
    }
    assert "cannot be merged" in work.run("merge", "work", "--dry-run").out


def test_a_conflict_is_resolved_on_the_branch_that_is_named(done):
    """As docs/reference/git.md says."""
    files = {"step-1": {"code.py": "one\n"}, "step-2": {"code.py": "two\n"}}
    work = done(("1", "2"), 1, 2, **files)
    assert "tugplan/work-20260222 in code.py" in work.refuses()
    tree = work.repo.path / ".tugtree" / "tugplan__work-20260222"
    work.git(tree, "merge", "--quiet", "--strategy=ours", "--no-edit", "tugplan/work-20260221")
    work.merge()
    work.ends_well()
    assert (work.repo.path / "code.py").read_text() == "two\n"


def test_a_dry_run_changes_nothing(done):
    work = done(PAIR, 1, 2, 3)
    before = work.everything()
    data = work.merge("--dry-run", "--squash")
    assert work.everything() == before
    assert (data["merged"], data["merged_commit"], data["conflicts"]) == (False, None, [])
    assert [part["commits"] for part in data["branches"]] == [1, 1, 1]
    assert (
        "would be merged to main, squashed"
        in work.run("merge", "work", "--dry-run", "--squash").out
    )
    assert work.everything() == before


def test_a_plan_that_was_not_approved_is_merged_with_a_warning(done):
    work = done(("1", "2"), 1, 2)
    [owner] = work.rows("select completed_by from steps where anchor = 'step-2'")
    which = ("work", "step-2", "--kind", "auditor_summary", "--worktree", owner["completed_by"])
    work.run("state", "artifact", *which, "--summary", "REVISE: it leaks")
    for words in (("--dry-run",), ()):
        told = work.run("merge", "work", *words, "--json")
        [issue] = told.envelope()["issues"]
        assert (told.status, issue["code"]) == (0, "W140")
        assert issue["message"].endswith("is done, and not approved as a whole: REVISE: it leaks")
    work.ends_well()


def test_the_text_says_where_it_is_and_what_is_left(done):
    work = done(("1", "2"), 1, 2)
    (work.repo.path / ".tugtree" / "tugplan__work-20260222" / "draft").write_text("x")
    assert "would leave tugplan/work-20260222: " in work.run("merge", "work", "--dry-run").out
    out = work.run("merge", "work").out
    assert "&& tugcode worktree clean (it saves" in out
    assert f"is merged to main as {work.head()}" in out
    assert "tugplan/work-20260221: 1 commit, step-1" in out
    assert "left tugplan/work-20260222: there is uncommitted work" in out


def test_branches_come_in_the_order_of_their_dependencies(done):
    """Step 1 depends on step 3, so its branch comes later."""
    work = done(("1 < 3", "2", "3"))
    one, two, three = (work.branch(n) for n in (1, 2, 3))
    work.finish("step-2", work.commit(two, "step-2"), two)
    work.finish("step-3", work.commit(three, "step-3"), three)
    work.finish("step-1", work.commit(one, "step-1"), one)
    order = [part["steps"] for part in work.merge()["branches"]]
    assert order == [["step-2"], ["step-3"], ["step-1"]]


@pytest.mark.proof(share=0)
def test_branches_that_need_each_other_come_in_the_plan_s_order(done):
    work = done(("1", "2 < 1", "3 < 2", "4 < 3"), 1, 2, 1, 2)
    order = [part["steps"] for part in work.merge()["branches"]]
    assert order == [["step-1", "step-3"], ["step-2", "step-4"]]
    work.ends_well()


def test_a_branch_without_steps_of_its_own_comes_last_and_makes_no_merge(done):
    """It took a commit of another in and then did nothing; that commit comes by itself."""
    # Each of the two with steps waits for the other, and the third waits for nobody.
    work = done(("1 t", "2 t < 1", "3 t < 2"), 1, 2, 1)
    work.branch(3, row=True, start=work.commits["step-1"])
    told = work.merge()["branches"]
    assert [each["steps"] for each in told] == [["step-1", "step-3"], ["step-2"], []]
    assert [each["already_contained"] for each in told] == [False, False, True]
    work.ends_well()


def test_branches_are_found_in_git_and_not_only_in_the_record(done):
    work = done(("1", "2"), 1, 2)
    work.execute("delete from worktrees")
    assert len(work.merge()["removed_branches"]) == 2
    work.ends_well()


def test_a_step_whose_commit_is_on_no_branch_of_the_plan_is_not_left_behind(done):
    work = done(("1", "2"), 1)
    tree = work.repo.linked(work.repo.path / ".tugtree" / "red", "red")
    stray = work.commit(tree, "step-2")
    work.finish("step-2", stray, tree)
    assert f"on none of its branches: step-2 ({stray[:12]})" in work.refuses()
    work.execute("update steps set commit_hash = :gone where anchor = 'step-2'", gone="ab" * 20)
    assert "step-2 (abababababab)" in work.refuses()


def test_a_stray_commit_that_was_saved_is_named_with_its_ref(done):
    work = done(("1", "2"), 1)
    tree = work.repo.linked(work.repo.path / ".tugtree" / "red", "red")
    stray = work.commit(tree, "step-2")
    work.finish("step-2", stray, tree)
    work.repo.git("update-ref", "refs/tug/salvage/work/x", stray)
    assert f"step-2 ({stray[:12]}, saved as refs/tug/salvage/work/x)" in work.refuses()
    hint = work.hint()
    assert hint == f"git for-each-ref --contains {stray}"
    assert "refs/tug/salvage/work/x" in work.repo.git(*hint.split()[1:])


@pytest.mark.parametrize("words", [[], ["--squash"]], ids=["plain", "squashed"])
def test_what_was_squashed_by_hand_and_cleaned_up_is_not_stray(done, words):
    """Nothing but its content says that it has landed."""
    work = done(("1", "2"), 1)
    work.git(work.repo.path, "merge", "--quiet", "--squash", "tugplan/work-20260221")
    work.record(work.repo.path, "By hand")
    assert work.run("worktree", "cleanup", "--json").data["removed"] != []
    tree = work.branch(2, row=True)
    work.finish("step-2", work.commit(tree, "step-2"), tree)
    work.merge(*words)
    work.ends_well()


def test_a_step_that_was_on_main_before_the_plan_s_base_is_not_stray(done):
    work = done(("1", "2"), 1)
    work.finish("step-2", work.repo.git("rev-list", "--max-parents=0", "HEAD").strip())
    work.merge()


def test_a_branch_without_commits_goes_too_even_reserved(done):
    work = done(("1",), 1)
    work.branch(2, row=True)
    work.execute("update worktrees set reserved_until = '2999-01-01T00:00:00.000Z'")
    data = work.merge()
    assert [part["already_contained"] for part in data["branches"]] == [False, True]
    work.ends_well()


def test_no_other_branch_or_worktree_goes(done):
    work = done(("1",), 1)
    work.repo.git("branch", "tugplan/work-more-20260221")
    work.repo.linked(work.repo.path / ".tugtree" / "mine", "mine")
    work.merge()
    assert work.branches() == ["main", "mine", "tugplan/work-more-20260221"]
    assert (work.repo.path / ".tugtree" / "mine").is_dir()


def test_a_worktree_with_uncommitted_work_is_left_and_reported(done):
    work = done(("1", "2"), 1, 2)
    tree = work.repo.path / ".tugtree" / "tugplan__work-20260221"
    (tree / "draft").write_text("x")
    [before] = work.merge("--dry-run")["left"]
    [left] = work.merge()["left"]
    assert before == left
    assert (left["worktree_path"], left["reason"]) == (str(tree), "there is uncommitted work")
    assert (tree / "draft").read_text() == "x"
    assert work.branches() == ["main", "tugplan/work-20260221"]
    assert [row["path"] for row in work.rows("select * from worktrees")] == [str(tree)]


@pytest.mark.parametrize("hidden", ["by a setting", "put aside by a merge"])
def test_uncommitted_work_that_status_does_not_show_keeps_a_worktree_too(done, hidden):
    work = done(("1", "2"), 1, 2)
    tree = work.repo.path / ".tugtree" / "tugplan__work-20260221"
    if hidden == "by a setting":
        (tree / "draft").write_text("x")
        work.repo.git("config", "status.showUntrackedFiles", "no")
    else:
        aside = work.repo.path / ".git" / "worktrees" / tree.name / "MERGE_AUTOSTASH"
        aside.write_text(f"{work.base}\n")
    [left] = work.merge()["left"]
    assert (left["worktree_path"], left["reason"]) == (str(tree), "there is uncommitted work")


def test_a_worktree_with_a_live_claim_is_left_and_reported(done):
    """A claim on a step of another plan."""
    work = done(("1",), 1)
    tree = work.repo.path / ".tugtree" / "tugplan__work-20260221"
    work.repo.plan("next", "# Next\n\n### Step 1: x\n")
    work.git(work.repo.path, "add", "--all")
    work.git(work.repo.path, "commit", "--quiet", "--message=next")
    assert work.run("state", "init", "next").status == 0
    claim_for_two_plans(work, "next", tree)
    [left] = work.merge()["left"]
    assert left["reason"] == "step-1 of .tugtool/tugplan-next.md is claimed there"
    assert tree.is_dir()


def test_a_locked_worktree_is_left_with_git_s_words(done):
    work = done(("1",), 1)
    work.repo.git("worktree", "lock", "--reason=mine", ".tugtree/tugplan__work-20260221")
    [left] = work.merge()["left"]
    assert "locked" in left["reason"]


def test_a_worktree_that_was_deleted_by_hand_is_no_obstacle(done):
    import shutil

    work = done(("1",), 1)
    shutil.rmtree(work.repo.path / ".tugtree" / "tugplan__work-20260221")
    work.merge()
    work.ends_well()


def test_what_a_hosting_site_has_squashed_already_is_not_merged_twice(done):
    work = done(("1", "2"), 1, 1)
    work.git(work.repo.path, "merge", "--quiet", "--squash", "tugplan/work-20260221")
    squashed = work.record(work.repo.path, f"All\n\n{work.set('step-1')}\n{work.set('step-2')}")
    data = work.merge()
    assert [part["already_contained"] for part in data["branches"]] == [True]
    assert data["merged_commit"] == work.head() == squashed
    work.ends_well()


def test_an_empty_commit_with_trailers_is_not_lost(done):
    work = done(("1",))
    tree = work.branch()
    first = work.record(tree, f"Only looked\n\n{work.set('step-1')}")
    work.finish("step-1", first, tree)
    work.merge()
    assert work.is_on_main(first)


def test_the_log_comes_together_without_conflict(done):
    log = ".tugtool/log.md"
    work = done(("1", "2"), 1, 2, **{"step-1": {log: "one\n"}, "step-2": {log: "two\n"}})
    work.merge()
    assert sorted((work.repo.path / log).read_text().split()) == ["one", "two"]


ODD = {
    "merge.ff": "false",
    "merge.autoStash": "true",
    "branch.main.mergeOptions": "--squash --no-commit",
    "rerere.enabled": "true",
    "core.autocrlf": "true",
    "alias.merge": "!false",
    "diff.external": "false",
    "merge.conflictStyle": "zdiff3",
    "status.showUntrackedFiles": "no",
    "status.relativePaths": "true",
    "core.quotePath": "true",
    "commit.cleanup": "strip",
    "diff.noprefix": "true",
    "merge.stat": "true",
    "core.fsmonitor": "false",
}


def test_odd_settings_change_nothing(done):
    work = done(PAIR, 1, 2, 3)
    for key, value in ODD.items():
        work.repo.git("config", key, value)
    work.repo.git("checkout", "--quiet", "HEAD", "--", ".")
    work.merge()
    work.ends_well()
    assert all(work.is_on_main(commit) for commit in work.commits.values())


def test_merge_ff_only_does_not_stop_a_merge(done):
    work = done(("1", "2"), 1, 2)
    work.repo.git("config", "merge.ff", "only")
    work.merge()
    work.ends_well()


def test_signatures_that_are_demanded_and_missing_are_a_clear_refusal(done):
    work = done(("1",), 1)
    work.repo.git("config", "merge.verifySignatures", "true")
    assert "does not have a GPG signature" in work.refuses()


def test_a_signature_that_cannot_be_made_is_a_clear_refusal(done):
    work = done(("1",), 1)
    work.repo.git("config", "commit.gpgSign", "true")
    work.repo.git("config", "gpg.program", "false")
    before = work.everything()
    assert work.run("merge", "work", "--json").codes == ["E076"]
    assert work.everything() == before


def test_a_locked_index_is_a_clear_refusal(done):
    work = done(("1",), 1)
    (work.repo.path / ".git" / "index.lock").write_text("")
    assert "index.lock" in work.refuses()


@pytest.mark.parametrize(
    "name", sampled(["pre-merge-commit", "commit-msg", "post-merge", "pre-commit"], 2)
)
def test_hooks_that_fail_or_print_do_not_tear_a_merge_apart(done, name):
    work = done(("1", "2"), 1, 2)
    hook = work.repo.path / ".git" / "hooks" / name
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho noise; echo more >&2\nexit 1\n")
    hook.chmod(0o755)
    work.merge()
    work.ends_well()


def test_a_hook_that_guards_branches_is_heard(done):
    work = done(("1",), 1)
    hook = work.repo.path / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\n[ "$1" != prepared ] || ! grep -q refs/heads/main\n')
    hook.chmod(0o755)
    assert "git does not move the main worktree" in work.refuses()
    hook.unlink()
    work.merge()
    work.ends_well()


def test_unrelated_histories_are_refused_by_name(done):
    work = done(("1",), 1)
    tree = work.repo.git("rev-parse", "HEAD^{tree}").strip()
    orphan = work.repo.git("commit-tree", "-m", "alone", tree).strip()
    work.repo.git("branch", "tugplan/work-20260229", orphan)
    said = work.refuses()
    assert "tugplan/work-20260229" in said
    assert "unrelated histories" in said


def test_a_shallow_clone_is_refused_or_right(done, tmp_path, tugcode):
    work = done(("1",), 1)
    git("clone", "--quiet", "--depth=1", "--no-single-branch", f"file://{work.repo.path}", "clone",
        cwd=tmp_path)  # fmt: skip
    clone = Repo(tmp_path / "clone")
    clone.git("branch", "tugplan/work-20260221", "origin/tugplan/work-20260221")
    assert tugcode("-C", clone.path, "state", "init", "work").status == 0
    assert tugcode("-C", clone.path, "state", "reconcile", "work").status == 0
    assert tugcode("-C", clone.path, "merge", "work", "--json").codes == ["E062"]


@pytest.mark.proof(share=0)
def test_a_sha_256_repository_is_no_different(tmp_path, tugcode, monkeypatch):
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    work = Merging(Repo.init(tmp_path / "long", "--object-format=sha256"), tugcode, *PAIR)
    work.do(1, 2, 3)
    work.merge("--squash")
    work.ends_well()


def test_branches_with_odd_names_come_along(done):
    work = done(("1",), 1)
    odd = "tugplan/käse'$(x);=.y\"-20260221"
    work.repo.git("branch", "-m", "tugplan/work-20260221", odd)
    work.execute("update worktrees set branch = :odd", odd=odd)
    work.repo.git("config", f"branch.{odd}.description", "x")
    work.merge()
    work.ends_well()


def test_the_base_branch_may_have_a_name_like_an_option(done):
    work = done(("1",), 1)
    work.repo.git("update-ref", "refs/heads/-D", "HEAD")
    work.repo.git("symbolic-ref", "HEAD", "refs/heads/-D")
    work.execute("update worktrees set base_branch = '-D'")
    assert work.merge()["base_branch"] == "-D"
    assert work.repo.git("symbolic-ref", "HEAD").strip() == "refs/heads/-D"


def test_a_git_that_is_too_old_is_refused(done, monkeypatch):
    work = done(("1",), 1)
    monkeypatch.setattr("tugtool.git.command.version", lambda: "2.37.9")
    before = work.everything()
    answer = work.run("merge", "work", "--json")
    assert answer.codes == ["E029"]
    assert "2.38" in answer.envelope()["issues"][0]["message"]
    assert work.everything() == before


def test_a_branch_that_moves_on_while_it_is_merged_is_left(done):
    """Its new commit is nowhere else."""
    work = done(("1",), 1)
    tree = work.repo.path / ".tugtree" / "tugplan__work-20260221"
    assert work.process("merge", "work", crash="merge.recorded").returncode == -9
    late = work.commit(tree, message="late")
    [left] = work.merge()["left"]
    assert left["reason"] == "it has moved on since it was merged"
    assert work.repo.git("rev-parse", "tugplan/work-20260221").strip() == late


def test_work_on_main_in_the_meantime_is_kept(done):
    work = done(("1", "2"), 1, 2)
    other = work.commit(work.repo.path, message="meanwhile", files={"other": "x\n"})
    work.merge()
    assert work.is_on_main(other)
    assert (work.repo.path / "other").read_text() == "x\n"


def test_a_branch_without_a_worktree_comes_along(done):
    work = done(("1",), 1)
    work.repo.git("worktree", "remove", ".tugtree/tugplan__work-20260221")
    data = work.merge()
    assert data["removed_branches"] == ["tugplan/work-20260221"]
    assert data["removed_worktrees"] == []
    work.ends_well()


def test_a_branch_that_git_does_not_let_go_is_left_with_git_s_words(done):
    work = done(("1",), 1)
    lock = work.repo.path / ".git" / "refs" / "heads" / "tugplan" / "work-20260221.lock"
    lock.write_text("")
    [left] = work.merge()["left"]
    assert "work-20260221" in left["reason"]
    assert work.rows("select * from worktrees") == []


def test_a_branch_that_the_main_worktree_has_now_is_left(done):
    work = done(("1",), 1)
    work.process("merge", "work", crash="merge.recorded")
    work.repo.git("worktree", "remove", ".tugtree/tugplan__work-20260221")
    work.repo.git("checkout", "--quiet", "tugplan/work-20260221")
    [left] = work.merge()["left"]
    assert left["reason"] == "the main worktree has it checked out"


def test_somebody_else_s_intent_is_not_ours_to_remove(done):
    work = done(("1",), 1)
    work.process("merge", "work", crash="merge.intent")
    store = work.store()
    proofs.give_up(store, KEY, str(work.repo.path), "another")
    assert len(work.rows("select * from intents")) == 1
    store.close()


# -- stopped and gone on with ---------------------------------------------------------------

#: While the merged result is checked, nothing is begun that would have to be finished.
CHECKING = ("merge.checking", "merge.checked")
POINTS = [n for n in crash.POINTS if n.startswith("merge.") and n not in CHECKING]


@pytest.mark.parametrize(
    ("point", "squash"),
    sampled([(point, squash) for squash in (False, True) for point in POINTS], 3),
)
def test_a_merge_killed_at_any_point_is_finished_by_the_next(done, point, squash):
    work = done(PAIR, 1, 2, 3)
    words = ["--squash"] if squash else []
    killed = work.process("merge", "work", *words, crash=point)
    assert (killed.returncode, killed.stdout) == (-9, "")
    data = work.merge(*words)
    assert data["resumed"]
    work.ends_well()
    assert data["squash"] == squash
    expected = dict.fromkeys(work.commits, work.head()) if squash else work.commits
    assert work.done() == expected
    work.lose()
    work.reconcile()
    assert work.done() == expected
    assert work.repo.git("rev-list", "--count", "--first-parent", "main").strip() == (
        "3" if squash else "5"
    )


@pytest.mark.proof(share=0)
def test_killed_at_one_point_after_the_other_it_is_still_finished(done):
    work = done(PAIR, 1, 2, 3)
    for point in ("merge.intent", *(each for each in POINTS if each != "merge.moved"), POINTS[-1]):
        assert work.process("merge", "work", crash=point).returncode == -9, point
    work.merge()
    work.ends_well()


def test_a_git_that_was_killed_while_it_deleted_a_worktree_is_gone_on_with(done):
    work = done(("1", "2"), 1, 2)
    work.process("merge", "work", crash="merge.recorded")
    trees = [work.repo.path / ".tugtree" / f"tugplan__work-2026022{n}" for n in (1, 2)]
    for tree in trees:
        (tree / ".git").unlink()
    (trees[0] / "code.py").unlink()
    (trees[1] / "mine").write_text("x\n")
    data = work.merge()
    assert data["removed_worktrees"] == [str(trees[0])]
    assert [each["worktree_path"] for each in data["left"]] == [str(trees[1])]
    assert (trees[1] / "mine").read_text() == "x\n"


def test_a_dry_run_after_a_crash_shows_what_is_left_and_does_nothing(done):
    work = done(("1",), 1)
    work.process("merge", "work", crash="merge.moved")
    before = work.everything()
    assert work.merge("--dry-run")["resumed"]
    assert work.everything() == before


@pytest.mark.parametrize("point", ["merge.advanced", "join.advanced"])
def test_a_dry_run_names_the_command_that_goes_on_with_what_was_stopped(done, point):
    work = done(("1",), 1)
    if point == "merge.advanced":
        words, again = ("merge", "work"), "tugcode merge work"
    else:
        words, again = ("dash", "join", "fix"), "tugcode dash join fix"
        assert work.run("dash", "create", "fix").status == 0
        (work.repo.path / ".tugtree" / "tugdash__fix" / "x").write_text("x")
        assert work.run("dash", "commit", "fix", "--message", "m").status == 0
    assert work.process(*words, crash=point).returncode == -9
    # The git that it had started may take a moment to end.
    until(lambda: work.hint("--dry-run") == again)
    assert "was stopped while it changed files" in work.refuses("--dry-run")
    assert work.run(*again.split()[1:]).status == 0
    assert work.run("merge", "work", "--dry-run").status == (1 if "merge" in point else 0)


def test_another_plan_s_merge_that_was_stopped_is_the_one_to_go_on_with(done):
    work = done(("1",), 1)
    work.repo.plan("next", "# Next\n\n### Step 1: x\n")
    assert work.run("state", "init", "next").status == 0
    assert work.process("merge", "work", crash="merge.advanced").returncode == -9

    def hint() -> str:
        answer = work.run("merge", "next", "--dry-run", "--json")
        return answer.envelope()["issues"][0]["hint"]

    # The git that it had started may take a moment to end.
    until(lambda: hint() == "tugcode merge work")


@pytest.mark.proof(share=0)
def test_a_merge_that_comes_while_another_is_at_work_waits_for_it(done):
    work = done(("1",), 1, **{"step-1": {"slow.txt": "x\n"}})
    inner = work.repo.path / ".git"
    (inner / "info" / "attributes").write_text("slow.txt filter=slow\n")
    for name in ("reached", "go"):
        os.mkfifo(inner / name)
    gate = f"echo > '{inner}/reached'; cat '{inner}/go' > /dev/null; cat"
    work.repo.git("config", "filter.slow.smudge", gate)
    first = work.start("merge", "work", "--json")
    (inner / "reached").read_text()
    second = work.start("merge", "work", "--json")
    lock = inner / "tugtool" / "worktrees.lock"
    until(lambda: second.poll() is not None or stands_at(second.pid, lock))
    (inner / "go").write_text("")
    (out, _), (late, _) = first.communicate(), second.communicate()
    assert (first.returncode, second.returncode) == (0, 1), out + late
    commit = json.loads(out)["data"]["merged_commit"]
    assert f"it has been merged, as {commit}" in json.loads(late)["issues"][0]["message"]
    work.ends_well()


SLOW = {f"step-{n}": {f"{n}-{i}.txt": f"{n} {i}\n" * 50 for i in range(9)} for n in (1, 2)}


@pytest.fixture
def stopped(done):
    """A merge that is killed with its git in the middle of a checkout, files half-written."""

    def make() -> Merging:
        work = done(("1", "2"), 1, 2, **SLOW)
        inner = work.repo.path / ".git"
        (inner / "info" / "attributes").write_text("1-5.txt filter=slow\n")
        os.mkfifo(inner / "reached")
        wait = f"mkdir {inner}/first 2>/dev/null && echo > {inner}/reached && tail -f /dev/null"
        work.repo.git("config", "filter.slow.smudge", f"{wait}; cat")
        busy = work.start("merge", "work", apart=True)
        (inner / "reached").read_text()
        # Whoever only looks does not wait for this one, and says that it is at work.
        assert f"is under way, process {busy.pid}" in work.refuses("--dry-run")
        kill_all(busy)
        return work

    return make


def half_way(work: Merging) -> list[str]:
    """The files that git got to."""
    return sorted(each.name for each in work.repo.path.glob("[12]-*.txt"))


@pytest.mark.proof(share=0)
def test_a_git_that_is_killed_while_it_changes_files_is_gone_on_with(stopped):
    work = stopped()
    assert 0 < len(half_way(work)) < 18
    (work.repo.path / half_way(work)[0]).write_text("1 0\n1 0\n1")
    assert "was stopped while it changed files" in work.refuses("--dry-run")
    assert work.hint("--dry-run") == "tugcode merge work"
    work.merge()
    work.ends_well()
    assert len(half_way(work)) == 18
    assert all(work.is_on_main(commit) for commit in work.commits.values())


@pytest.mark.proof(share=0)
def test_what_a_person_does_to_a_file_of_git_s_after_a_crash_is_not_taken_for_git_s(stopped):
    work = stopped()
    work.repo.write({"1-0.txt": "mine\n"})
    assert "1-0.txt" in work.refuses()
    assert (work.repo.path / "1-0.txt").read_text() == "mine\n"
    (work.repo.path / "1-0.txt").unlink()
    work.merge()
    work.ends_well()


def test_what_a_person_does_to_another_file_after_a_crash_is_left_alone(stopped):
    work = stopped()
    work.repo.write({"code.py": "mine\n"})
    answer = work.run("merge", "work", "--json")
    assert "uncommitted changes: code.py" in answer.out
    assert (half_way(work), (work.repo.path / "code.py").read_text()) == ([], "mine\n")
    work.repo.git("checkout-index", "--force", "code.py")
    work.merge()
    work.ends_well()


@pytest.mark.proof(share=0)
def test_a_person_s_directory_where_git_did_not_get_to_is_kept(stopped):
    work = stopped()
    work.repo.write({"2-8.txt/x": "mine\n"})
    answer = work.run("merge", "work", "--json")
    assert answer.codes == ["E062"]
    assert "untracked files are in the way: 2-8.txt/x" in answer.out
    assert half_way(work) == ["2-8.txt"]
    shutil.rmtree(work.repo.path / "2-8.txt")
    work.merge()
    work.ends_well()


@pytest.mark.proof(share=0)
def test_a_lock_of_somebody_else_s_is_left_after_a_crash_too(stopped):
    work = stopped()
    lock = work.repo.path / ".git" / "index.lock"
    facts = json.loads(lock.read_text())
    lock.write_text(
        json.dumps({**facts, "process": {**facts["process"], "pid_namespace": "other"}})
    )
    assert "index.lock" in work.refuses()
    lock.write_text(json.dumps({**facts, "process": {**facts["process"], "boot": "before"}}))
    work.merge()
    work.ends_well()


def test_a_refused_branch_puts_files_of_every_kind_back(done):
    """A file becomes a directory and the other way, one goes, a link comes; a hook says no."""
    work = done(("1",))
    work.commit(work.repo.path, message="kinds", files={"a": "a\n", "b/c": "c\n", "gone": "x\n"})
    tree = work.branch(1, row=True)
    for name in ("a", "gone", "b/c"):
        (tree / name).unlink()
    (tree / "b").rmdir()
    (tree / "link").symlink_to("code.py")
    made = work.commit(tree, "step-1", files={"a/deep/x": "x\n", "b": "b\n", "code.py": "new\n"})
    work.finish("step-1", made, tree)
    hook = work.repo.path / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\ngrep -q refs/heads/main && [ "$1" = prepared ] && exit 1; exit 0\n')
    hook.chmod(0o755)
    before = work.repo.git("ls-files", "--stage")
    assert "does not move the main worktree" in work.refuses()
    assert work.repo.git("ls-files", "--stage") == before
    assert sorted(os.listdir(work.repo.path)) == [
        *(".git", ".tugtool", ".tugtree", "a", "b", "code.py", "file", "gone"),
    ]
    hook.unlink()
    work.merge()
    work.ends_well()
    assert (work.repo.path / "a" / "deep" / "x").read_text() == "x\n"


@pytest.mark.parametrize("pruned", [True, False])
def test_a_merge_that_was_stopped_before_it_moved_starts_anew(done, pruned):
    work = done(("1", "2"), 1, 2)
    work.process("merge", "work", crash="merge.intent")
    other = work.commit(work.repo.path, message="meanwhile", files={"other": "x\n"})
    if pruned:
        work.repo.git("gc", "--quiet", "--prune=now")
    data = work.merge()
    assert (data["resumed"], work.is_on_main(other)) == (True, True)
    work.ends_well()


def test_main_may_go_on_between_a_crash_and_the_next_merge(done):
    work = done(("1", "2"), 1, 2)
    work.process("merge", "work", crash="merge.moved")
    moved = work.head()
    work.commit(work.repo.path, message="meanwhile", files={"other": "x\n"})
    assert work.merge()["merged_commit"] == moved
    assert work.branches() == ["main"]


def test_another_plan_s_stopped_merge_is_to_be_finished_first(done):
    work = done(("1",), 1)
    work.process("merge", "work", crash="merge.moved")
    work.repo.plan("next", "# Next\n\n### Step 1: x\n")
    work.git(work.repo.path, "add", "--all")
    work.git(work.repo.path, "commit", "--quiet", "--message=next")
    assert work.run("state", "init", "next").status == 0
    answer = work.run("merge", "next", "--json")
    assert answer.codes == ["E062"]
    assert "tugplan-work.md was interrupted" in answer.envelope()["issues"][0]["message"]
    work.merge()
    assert work.branches() == ["main"]


@pytest.mark.proof(share=0)
def test_a_step_reopened_after_a_stopped_merge_is_merged_with_the_next(done):
    work = done(("1",), 1)
    work.process("merge", "work", crash="merge.moved")
    assert work.run("state", "reopen", "work", "step-1", "--reason", "bad").status == 0
    assert work.merge()["resumed"]
    assert work.rows("select merged_commit from plans") == [{"merged_commit": None}]
    work.do(2)
    work.merge()
    work.ends_well()


def test_a_stopped_merge_of_another_plan_that_moved_nothing_is_in_nobody_s_way(done):
    work = done(("1",), 1)
    detail = {"base_branch": "main", "result": "ab" * 20}
    work.execute(
        "insert into intents values ('merge', :root, 'other', null, null, :head, :detail, :now)",
        root=str(work.repo.path),
        head=work.head(),
        detail=json.dumps(detail),
    )
    assert work.merge()["resumed"] is False
    work.ends_well()


@pytest.mark.proof(share=0)
def test_two_merges_at_once_merge_once(done):
    work = done(PAIR, 1, 2, 3)
    started = [work.start("merge", "work", "--json") for _ in range(4)]
    ended = [process.communicate()[0] for process in started]
    answers = [json.loads(out) for out in ended]
    assert any(answer["status"] == "ok" for answer in answers)
    codes = {issue["code"] for answer in answers for issue in answer["issues"]}
    assert codes <= {"E062", "E076"}, codes
    # Whoever came last may have been stopped by another; then this one tidies up.
    work.run("merge", "work")
    assert work.branches() == ["main"]
    assert all(work.is_on_main(commit) for commit in work.commits.values())
    assert work.repo.git("rev-list", "--count", "--first-parent", "main").strip() == "5"
    kinds = [row["kind"] for row in work.rows("select kind from events")]
    assert kinds.count("merge") == 1


# -- what is not proven, and what the merged result has to pass --------------------------

CHECKED = ("1 tcc | `true` passes | It looks right (person)", "2 t < 1")


def unjudged(repo, tugcode) -> Merging:
    """A done plan with a command that was never run, and an item that waits for a person."""
    work = Merging(repo, tugcode, *CHECKED)
    tree = work.branch(1, row=True)
    work.run("state", "claim", "work", "--step", "step-1", "--worktree", str(tree))
    words = ("--checkpoint", "1", "deferred", "--reason", "eyes")
    work.run("state", "update", "work", "step-1", *words, "--worktree", str(tree))
    work.commits = {}
    for anchor in ("step-1", "step-2"):
        work.commits[anchor] = work.commit(tree, anchor)
        work.finish(anchor, work.commits[anchor], tree)
    return work


@pytest.fixture
def unproven(repo, tugcode, monkeypatch):
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    return unjudged(repo, tugcode)


def test_what_waits_for_a_person_or_was_never_run_is_not_merged(unproven):
    said = unproven.refuses()
    assert "1 item waits for a person: step-1 checkpoint 1 (It looks right (person))" in said
    assert "1 checkpoint is not proven: step-1 checkpoint 0 (`true` passes)" in said
    assert unproven.hint() == "tugcode review work"
    dry = unproven.merge("--dry-run")
    assert [each["cause"] for each in dry["unsettled"]] == ["deferred", "unproven"]
    text = unproven.run("merge", "work", "--dry-run").out
    assert "  waits for a person: step-1 checkpoint 1: It looks right (person)\n" in text
    assert "  not proven: step-1 checkpoint 0: `true` passes\n" in text


def test_a_person_who_accepts_it_all_in_review_lets_it_be_merged(unproven):
    listed = unproven.run("state", "review", "work").out
    assert "~ step-1 checkpoint 1 of work waits for you\n" in listed
    assert "completed, but no passing run shows it" in listed
    for ordinal in ("0", "1"):
        words = ("--accept", "--step", "step-1", "--kind", "checkpoint", "--ordinal", ordinal)
        assert unproven.run("state", "review", "work", *words).status == 0
    assert unproven.merge()["unsettled"] == []
    unproven.ends_well()


def test_who_merges_without_proof_is_recorded(unproven, monkeypatch):
    monkeypatch.setenv("TUGCODE_ATTEMPT", "1")
    assert unproven.run("merge", "work", "--unproven", "--json").codes == ["E068"]
    monkeypatch.delenv("TUGCODE_ATTEMPT")
    data = unproven.merge("--unproven")
    assert (data["unproven_by"], len(data["unsettled"])) == ("Tug", 2)
    [event] = unproven.rows("select * from events where kind = 'merge'")
    items = [["step-1", "checkpoint", 1], ["step-1", "checkpoint", 0]]
    assert json.loads(event["detail"])["unproven"] == {"by": "Tug", "items": items}
    # Once it is merged, nobody is asked any more.
    assert unproven.run("state", "review", "work", "--json").data["unproven_items"] == []
    unproven.ends_well()


def checks(work: Merging, *lines: str) -> None:
    """Commit what has to pass on the merged result."""
    config = work.repo.path / ".tugtool" / "config.toml"
    config.write_text(f"[merge]\ncheck = {json.dumps(lines)}\n")
    work.repo.commit({})


def test_what_fails_on_the_merged_result_moves_nothing(done):
    work = done(("1 t", "2 t"), 1, 2)
    seen = work.repo.path.parent / "seen"
    checks(work, f"ls > {seen}", "echo it is broken; exit 4", "touch ../never")
    said = work.refuses()
    assert "`echo it is broken; exit 4` fails on the merged result (exit 4" in said
    assert said.endswith("the end of its output:\nit is broken")
    # Both branches were there, and nothing of the place is left.
    assert {"file-1", "file-3"} <= set(seen.read_text().split())
    assert not (work.repo.path / ".git" / "tugtool" / "merge-check").exists()


def test_what_passes_on_the_merged_result_is_merged(done):
    work = done(("1 t", "2 t"), 1, 2)
    checks(work, "test -e file-1", "test -e file-3 && touch trace")
    data = work.merge()
    assert [ran["exit_status"] for ran in data["checks"]] == [0, 0]
    assert not (work.repo.path / "trace").exists()
    work.ends_well()


@pytest.mark.parametrize("point", CHECKING)
def test_a_merge_that_is_killed_while_it_checks_leaves_nothing(done, point):
    work = done(("1 t", "2 t"), 1, 2)
    checks(work, "true")
    before = work.head()
    assert work.process("merge", "work", crash=point).returncode == -9
    assert work.head() == before
    work.merge()
    work.ends_well()
