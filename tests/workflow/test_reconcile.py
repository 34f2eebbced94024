"""Reconcile: what git proves to be done is done, and nothing else."""

import shutil
import subprocess

import pytest

from conftest import Repo, git
from support.state import KEY, markdown
from support.work import IDENTITY
from tugtool.store import open_store

pytestmark = pytest.mark.usefixtures("named_writes")

THREE = ("1 t", "2 t < 1", "3 t < 2")


def test_a_commit_on_a_branch_of_the_plan_completes_its_step(work):
    work = work(*THREE)
    tree = work.branch()
    first = work.commit(tree, "step-1")
    data = work.reconcile()
    assert work.done() == {"step-1": first}
    assert data["reconciled"] == [
        {
            "step_anchor": "step-1",
            "commit_hash": first,
            "attempt": 1,
            "was": "pending",
            "previous_hash": None,
            "items_closed": 1,
        }
    ]
    assert (data["reconciled_count"], data["skipped_count"], data["ignored"]) == (1, 0, [])
    assert (data["commits_read"], data["base_commit"]) == (1, work.base)
    assert (data["base_branch"], data["branches"]) == ("main", ["tugplan/work-20260221"])


def test_a_second_reconcile_changes_nothing(work):
    work = work(*THREE)
    work.commit(work.branch(), "step-1")
    work.reconcile()
    before = work.rows("select * from events"), work.rows("select * from steps")
    assert work.reconcile()["reconciled_count"] == 0
    assert (work.rows("select * from events"), work.rows("select * from steps")) == before


def test_a_dry_run_lists_and_changes_nothing(work):
    work = work(*THREE)
    work.commit(work.branch(), "step-1")
    before = work.rows("select * from events")
    data = work.reconcile("--dry-run")
    assert [each["step_anchor"] for each in data["reconciled"]] == ["step-1"]
    assert data["dry_run"]
    assert work.done() == {}
    assert work.rows("select * from events") == before


def _three_branches(work) -> tuple[dict[str, str], list]:
    trees = [work.branch(n) for n in (1, 2, 3)]
    return {f"step-{n}": work.commit(tree, f"step-{n}") for n, tree in enumerate(trees, 1)}, trees


def test_everything_comes_back_before_a_merge(work):
    work = work("1 tt", "2 t", "3 te")
    commits, _ = _three_branches(work)
    work.lose()
    work.reconcile()
    assert work.done() == commits
    assert work.rows("select status from plans") == [{"status": "done"}]


def test_who_records_a_plan_anew_that_has_branches_is_told_of_them(work, tugcode):
    work = work("1 tt", "2 t", "3 te")
    _three_branches(work)
    for path in (work.repo.path / ".tugtool").glob("state.*"):
        path.unlink()
    shutil.rmtree(work.repo.path / ".git" / "tugtool")
    hint = "tugcode reconcile work --dry-run"
    done = tugcode("-C", work.repo.path, "state", "init", "work", "--json")
    (issue,) = [each for each in done.envelope()["issues"] if each["code"] == "W106"]
    assert issue["hint"] == hint
    assert "tugplan/work-20260221" in issue["message"]
    done = tugcode("-C", work.repo.path, "state", "init", "work", "--json")
    assert done.envelope()["issues"] == []


def test_everything_comes_back_after_a_plain_merge(work):
    work = work("1 t", "2 t", "3 t")
    commits, trees = _three_branches(work)
    for n, tree in enumerate(trees, 1):
        work.git(
            work.repo.path, "merge", "--quiet", "--no-ff", "--no-edit", f"tugplan/work-2026022{n}"
        )
        work.repo.git("worktree", "remove", str(tree))
        work.repo.git("branch", "-D", f"tugplan/work-2026022{n}")
    work.lose()
    work.reconcile()
    assert work.done() == commits


def test_everything_comes_back_after_a_squash_merge_of_a_hosting_site(work):
    work = work("1 t", "2 t", "3 t")
    tree = work.branch()
    for n in (1, 2, 3):
        work.commit(tree, f"step-{n}")
    work.git(work.repo.path, "merge", "--quiet", "--squash", "tugplan/work-20260221")
    bodies = "".join(f"* Work {n}\r\n\r\n{_crlf(work.set(f'step-{n}'))}\r\n" for n in (1, 2, 3))
    squashed = work.record(work.repo.path, f"All of it (#12)\r\n\r\n{bodies}\r\n---------\r\n")
    work.repo.git("worktree", "remove", str(tree))
    work.repo.git("branch", "-D", "tugplan/work-20260221")
    work.lose()
    work.reconcile()
    assert work.done() == dict.fromkeys(("step-1", "step-2", "step-3"), squashed)


def _crlf(text: str) -> str:
    return text.replace("\n", "\r\n")


def test_everything_comes_back_after_a_rebase_merge(work):
    work = work("1 t", "2 t", "3 t")
    commits, trees = _three_branches(work)
    work.commit(work.repo.path, message="Something else", files={"other": "x\n"})
    for n, tree in enumerate(trees, 1):
        work.git(tree, "rebase", "--quiet", "main")
        work.git(work.repo.path, "merge", "--quiet", "--ff-only", f"tugplan/work-2026022{n}")
    work.lose()
    work.reconcile()
    on_main = work.git(work.repo.path, "log", "-3", "--reverse", "--format=%H").split()
    assert work.done() == dict(zip(commits, on_main, strict=True))


def test_a_reverted_commit_does_not_count(work):
    work = work(*THREE)
    tree = work.branch()
    first = work.commit(tree, "step-1")
    second = work.commit(tree, "step-2")
    work.revert(tree, first)
    data = work.reconcile()
    assert work.done() == {"step-2": second}
    assert work.ignored(data) == [("step-1", "reverted")]


def test_a_revert_of_a_revert_counts_again_and_so_on(work):
    work = work(*THREE)
    tree = work.branch()
    first = work.commit(tree, "step-1")
    undone = work.revert(tree, first)
    again = work.revert(tree, undone)
    work.reconcile()
    assert work.done() == {"step-1": first}
    work.lose()
    work.revert(tree, again)
    work.reconcile()
    assert work.done() == {}


def test_a_revert_after_the_merge_counts_on_the_base_branch(work):
    work = work(*THREE)
    tree = work.branch()
    first = work.commit(tree, "step-1")
    work.git(work.repo.path, "merge", "--quiet", "--no-ff", "--no-edit", "tugplan/work-20260221")
    work.revert(work.repo.path, first)
    assert work.ignored(work.reconcile()) == [("step-1", "reverted")]
    assert work.done() == {}


def test_a_revert_of_a_whole_merge_undoes_what_it_brought(work):
    work = work(*THREE)
    tree = work.branch()
    kept = work.commit(work.repo.path, "step-1")
    work.commit(tree, "step-2")
    work.commit(tree, "step-3")
    work.git(work.repo.path, "merge", "--quiet", "--no-ff", "--no-edit", "tugplan/work-20260221")
    work.revert(work.repo.path, "HEAD", "--mainline", "1")
    assert work.ignored(work.reconcile()) == [("step-2", "reverted"), ("step-3", "reverted")]
    assert work.done() == {"step-1": kept}


def test_a_revert_elsewhere_that_is_no_descendant_undoes_nothing(work):
    work = work(*THREE)
    first = work.commit(work.branch(1), "step-1")
    text = f'Revert "Work"\n\nThis reverts commit {first}.\n'
    work.commit(work.branch(2), message=text)
    work.reconcile()
    assert work.done() == {"step-1": first}


@pytest.mark.parametrize(
    "text",
    [
        "> This reverts commit {hash}.",
        "As said: This reverts commit {hash}.",
        "This reverts commit {short}.",
        "This reverts commit {hash}f.",
        "This reverts commit {upper}.",
    ],
)
def test_whatever_does_not_say_so_in_git_s_words_reverts_nothing(work, text):
    work = work(*THREE)
    tree = work.branch()
    first = work.commit(tree, "step-1")
    words = text.format(hash=first, short=first[:12], upper=first.upper())
    work.commit(tree, message=f"About it\n\n{words}\n")
    work.reconcile()
    assert work.done() == {"step-1": first}


def test_of_a_cherry_pick_the_one_on_the_base_branch_wins(work):
    work = work(*THREE)
    first = work.commit(work.branch(), "step-1")
    work.commit(work.repo.path, message="In between", files={"other": "x\n"})
    work.git(work.repo.path, "cherry-pick", first)
    picked = work.head()
    data = work.reconcile()
    assert work.done() == {"step-1": picked}
    assert work.ignored(data) == [("step-1", "another_commit")]


def test_of_copies_on_branches_the_last_attempt_wins_and_then_the_first_commit(work):
    work = work(*THREE)
    one, two = work.branch(1), work.branch(2)
    work.commit(one, "step-1", attempt=1)
    second = work.commit(two, "step-1", attempt=2)
    third = work.commit(one, "step-2", attempt=1)
    work.commit(two, "step-2", attempt=1)
    work.reconcile()
    assert work.done() == {"step-1": second, "step-2": third}


def test_a_cherry_pick_survives_the_revert_of_what_it_was_picked_from(work):
    work = work(*THREE)
    tree = work.branch()
    first = work.commit(tree, "step-1")
    work.commit(work.repo.path, message="In between", files={"other": "x\n"})
    work.git(work.repo.path, "cherry-pick", first)
    picked = work.head()
    work.revert(tree, first)
    work.reconcile()
    assert work.done() == {"step-1": picked}


FORGED = {
    "quoted": "Talk\n\n> {one}> {two}> {three}",
    "indented": "Talk\n\n    {one}    {two}    {three}",
    "in the middle of a paragraph": "Talk\n\nas in\n{one}{two}{three}\nMore.\n",
    "followed by text": "Talk\n\n{one}{two}{three}and more\n\nMore.\n",
    "a paragraph without its claim": "Talk\n\n{one}{two}\nMore.\n",
    "a paragraph in another order": "Talk\n\n{two}{one}{three}\nMore.\n",
    "in a fence": "Talk\n\n```\n{one}{two}{three}```\n",
    "in the title": "Tug-Step: step-1 Tug-Plan: .tugtool/tugplan-work.md\n",
}


@pytest.mark.parametrize("form", FORGED)
def test_a_forged_or_quoted_set_does_not_count(work, form):
    work = work(*THREE)
    one, two, three = work.set("step-1").splitlines(keepends=True)
    work.commit(work.branch(), message=FORGED[form].format(one=one, two=two, three=three))
    work.reconcile()
    assert work.done() == {}


def test_two_sets_in_one_commit_complete_two_steps(work):
    work = work(*THREE)
    both = work.commit(work.branch(), message=f"Two\n\n{work.set('step-1')}{work.set('step-2', 4)}")
    work.reconcile()
    assert work.done() == {"step-1": both, "step-2": both}
    attempts = work.rows("select anchor, attempt from steps order by anchor")
    assert [row["attempt"] for row in attempts] == [1, 4, 0]


def test_an_older_run_of_the_same_plan_name_is_reported_and_counts_only_by_force(work):
    work = work(*THREE)
    old = work.set("step-1", plan_hash="ab" * 32)
    first = work.commit(work.branch(), message=f"Old\n\n{old}")
    data = work.reconcile()
    assert work.done() == {}
    assert work.ignored(data) == [("step-1", "other_plan_hash")]
    assert "abababababab" in data["ignored"][0]["detail"]
    assert work.ignored(work.reconcile("--force")) == []
    assert work.done() == {"step-1": first}


def test_an_older_run_before_the_plan_s_base_is_not_even_read(repo, work):
    git("commit", "--quiet", "--allow-empty", f"--message=Old\n\nTug-Step: step-1\nTug-Plan: {KEY}",
        cwd=repo.path)  # fmt: skip
    work = work(*THREE)
    data = work.reconcile()
    assert (data["commits_read"], data["ignored"], work.done()) == (0, [], {})


def test_without_a_claim_the_other_two_suffice(work):
    work = work(*THREE)
    first = work.commit(work.branch(), message=f"x\n\nTug-Step: step-1\nTug-Plan: {KEY}\n")
    assert work.reconcile()["reconciled"][0]["attempt"] is None
    assert work.done() == {"step-1": first}


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("Tug-Step: step-9\nTug-Plan: {key}\n", "unknown_step"),
        ("Tug-Step: step-1-1\nTug-Plan: {key}\n", "substep"),
        ("Tug-Step: step-1\nTug-Plan: .tugtool/tugplan-other.md\n", "other_plan"),
        ("Tug-Step: step-1\n", "malformed"),
        ("Tug-Plan: {key}\n", "malformed"),
        ("Tug-Step: step-1\nTug-Plan: {key}\nTug-Plan: {key}\n", "malformed"),
        ("Tug-Step: step-1\nTug-Plan: {key}\nTug-Claim: nonsense\n", "malformed"),
        ("Tug-Step: step-1\nTug-Plan: {key}\nTug-Claim: {hash}/step-2/1\n", "malformed"),
    ],
)
def test_a_set_that_fits_nothing_is_passed_over_with_the_reason(work, lines, reason):
    work = work("1 t", "1.1 t")
    text = lines.format(key=KEY, hash=work.hash[:12])
    work.commit(work.branch(), message=f"x\n\n{text}")
    data = work.reconcile()
    assert [each["reason"] for each in data["ignored"]] == [reason]
    assert work.done() == {}


def test_trailers_are_read_as_git_reads_them(work):
    """Between others, in any case, folded, with an anchor's sign; whatever the settings say."""
    work = work(*THREE)
    text = f"x\n\nSigned-off-by: A <a@b>\ntug-step: #step-1\nReviewed-by: B\nTug-Plan:\n {KEY}\n"
    first = work.commit(work.branch(), message=text)
    work.repo.git("config", "trailer.separators", "=")
    work.repo.git("config", "i18n.logOutputEncoding", "UTF-16")
    work.repo.git("config", "log.showSignature", "true")
    work.repo.git("config", "core.commentChar", ";")
    work.reconcile()
    assert work.done() == {"step-1": first}


def test_deferred_items_stay_deferred_and_open_ones_are_closed_with_the_reason(work):
    work = work("1 tt", "1.1 te")
    tree = work.branch()
    for words in (
        ("claim", "work"),
        ("update", "work", "step-1", "--task", "0", "deferred", "--reason", "later"),
        ("update", "work", "step-1-1", "--test", "0", "in_progress"),
    ):
        assert work._tugcode("-C", tree, "state", *words).status == 0
    first = work.commit(tree, "step-1")
    entry = work.reconcile()["reconciled"][0]
    assert (entry["was"], entry["items_closed"]) == ("claimed", 3)
    items = work.rows("select * from checklist_items order by step_anchor, kind, ordinal")
    assert [(item["status"], item["reason"]) for item in items] == [
        ("deferred", "later"),
        ("completed", "reconciled"),
        ("completed", "reconciled"),
        ("completed", "reconciled"),
    ]
    [attempt] = work.rows("select * from attempts")
    assert (attempt["outcome"], attempt["ended_at"] is not None) == ("completed", True)
    steps = work.rows("select * from steps order by step_index")
    assert [step["status"] for step in steps] == ["completed", "completed"]
    assert (steps[0]["completed_by"], steps[0]["commit_hash"]) == (str(tree), first)


def test_the_record_wins_a_conflict_unless_forced(work):
    work = work(*THREE)
    tree = work.branch()
    first = work.commit(tree, "step-1")
    work.finish("step-1", work.base, tree)
    data = work.reconcile()
    mismatch = {"step_anchor": "step-1", "db_hash": work.base, "git_hash": first}
    assert (data["skipped_count"], data["skipped_mismatches"]) == (1, [mismatch])
    assert work.done() == {"step-1": work.base}
    data = work.reconcile("--force")
    assert data["skipped_mismatches"] == []
    assert data["reconciled"][0]["previous_hash"] == work.base
    assert work.done() == {"step-1": first}


def test_a_completed_step_without_a_commit_gets_the_one_that_git_has(work):
    work = work(*THREE)
    tree = work.branch()
    work.finish("step-1", None, tree)
    first = work.commit(tree, "step-1")
    assert work.reconcile()["reconciled"][0]["was"] == "completed"
    assert work.done() == {"step-1": first}


def test_a_number_that_git_knows_is_not_given_out_again(work):
    work = work(*THREE)
    tree = work.branch()
    work.commit(tree, "step-1", attempt=3)
    work.revert(tree, work.commit(tree, "step-2", attempt=7))
    work.reconcile()
    got = work.run("state", "claim", "work", "--json").data
    assert (got["anchor"], got["attempt"], got["previous_attempt"]) == ("step-2", 8, None)
    work.run("state", "release", "work", "step-2")
    again = work.run("state", "claim", "work", "--request-id", "x", "--json").data
    assert (again["attempt"], again["previous_attempt"]["number"]) == (9, 8)
    replayed = work.run("state", "claim", "work", "--request-id", "x", "--json").data
    assert (replayed["replayed"], replayed["previous_attempt"]["number"]) == (True, 8)


def test_a_holder_keeps_its_number(work):
    work = work(*THREE)
    tree = work.branch()
    claim = work.run("state", "claim", "work", "--json").data
    work.revert(tree, work.commit(tree, "step-1", attempt=7))
    work.reconcile()
    assert work.run("state", "start", "work", "step-1", "--attempt", claim["attempt"]).status == 0


def test_an_interrupted_commit_is_finished(work):
    """Also in a working tree whose branch is not one of the plan's."""
    work = work(*THREE)
    tree = work.repo.linked(work.repo.path / ".tugtree" / "red", "red")
    assert work._tugcode("-C", tree, "state", "claim", "work").status == 0
    first = work.commit(tree, "step-1", attempt=1)
    work.execute(
        "insert into intents values ('commit', :tree, :plan, 'step-1', 1, :head, '{}', :now)",
        tree=str(tree), head=work.base,
    )  # fmt: skip
    assert work.reconcile()["commits_finished"] == ["step-1"]
    assert work.done() == {"step-1": first}
    assert work.rows("select * from intents") == []


def test_a_commit_that_never_happened_is_left_to_commit(work):
    work = work(*THREE)
    tree = work.branch()
    assert work._tugcode("-C", tree, "state", "claim", "work").status == 0
    work.execute(
        "insert into intents values ('commit', '/gone', :plan, 'step-1', 1, :head, '{}', :now)",
        head=work.base,
    )
    assert work.reconcile()["commits_finished"] == []
    assert len(work.rows("select * from intents")) == 1


def test_a_later_attempt_s_commit_is_not_finished_by_an_earlier_one(work):
    work = work(*THREE)
    first = work.commit(work.branch(), "step-1", attempt=1)
    work.execute(
        "insert into intents values ('commit', '/gone', :plan, 'step-1', 2, :head, '{}', :now)",
        head=first,
    )
    assert work.reconcile()["commits_finished"] == []
    assert work.done() == {"step-1": first}
    assert len(work.rows("select * from intents")) == 1


def test_the_base_branch_is_the_worktrees_else_the_plan_s_else_the_main_one_s(work):
    work = work(*THREE, target="`release`")
    assert work.reconcile()["base_branch"] == "main"
    work.repo.git("branch", "release")
    assert work.reconcile()["base_branch"] == "release"
    work.branch(row=True)
    assert work.reconcile()["base_branch"] == "main"


def test_a_detached_main_worktree_is_read_as_it_stands(work):
    work = work(*THREE)
    work.repo.git("checkout", "--quiet", "--detach")
    first = work.commit(work.repo.path, "step-1")
    assert work.reconcile()["base_branch"] is None
    assert work.done() == {"step-1": first}


def test_branches_of_other_plans_are_not_the_plan_s(work):
    work = work(*THREE)
    for name in ("tugplan/work-more-20260221", "tugplan/work-2026", "tugplan/work-20260221-x", "x"):
        work.repo.git("branch", name)
    work.repo.git("branch", "tugplan/work-20260221-2")
    assert work.reconcile()["branches"] == ["tugplan/work-20260221-2"]


def test_a_recorded_branch_is_read_whatever_it_is_called(work):
    work = work(*THREE)
    tree = work.branch(row=True)
    first = work.commit(tree, "step-1")
    odd = "tugplan/käse 'x' $(y)-20260221".replace(" ", "_")
    work.git(tree, "branch", "-m", odd)
    work.execute("update worktrees set branch = :odd", odd=odd)
    assert work.reconcile()["branches"] == [odd]
    assert work.done() == {"step-1": first}


def test_a_recorded_base_that_git_no_longer_has_is_found_anew(work):
    work = work(*THREE)
    first = work.commit(work.branch(), "step-1")
    work.execute("update plans set base_commit = :gone", gone="ab" * 20)
    assert work.reconcile()["base_commit"] == work.base
    assert work.done() == {"step-1": first}


def test_a_recorded_base_bounds_the_range(work):
    work = work(*THREE)
    tree = work.branch()
    first = work.commit(tree, "step-1")
    second = work.commit(tree, "step-2")
    work.execute("update plans set base_commit = :first", first=first)
    assert work.reconcile()["commits_read"] == 1
    assert work.done() == {"step-2": second}


def test_an_uncommitted_plan_begins_at_head(repo, tugcode):
    repo.plan("work", "# W\n\n### Step 1: x\n")
    assert tugcode("-C", repo.path, "state", "init", "work").status == 0
    data = tugcode("-C", repo.path, "state", "reconcile", "work", "--json").data
    assert data["base_commit"] == repo.git("rev-parse", "HEAD").strip()


def test_a_plan_that_git_never_saw_and_whose_file_is_gone_begins_at_head(repo, tugcode):
    file = repo.plan("work", "# W\n\n### Step 1: x\n")
    assert tugcode("-C", repo.path, "state", "init", "work").status == 0
    file.unlink()
    data = tugcode("-C", repo.path, "state", "reconcile", "work", "--json").data
    assert data["base_commit"] == repo.git("rev-parse", "HEAD").strip()


def test_before_the_first_commit_there_is_nothing_to_read(tmp_path, tugcode):
    repo = Repo.init(tmp_path / "new")
    repo.plan("work", "# W\n\n### Step 1: x\n")
    assert tugcode("-C", repo.path, "state", "init", "work").status == 0
    data = tugcode("-C", repo.path, "state", "reconcile", "work", "--json").data
    assert (data["base_commit"], data["commits_read"]) == (None, 0)


def test_a_sha_256_repository_is_no_different(tmp_path, tugcode, monkeypatch):
    from support.work import IDENTITY, Work

    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    repo = Repo.init(tmp_path / "long", "--object-format=sha256")
    work = Work(repo, tugcode, *THREE)
    tree = work.branch()
    first, second = work.commit(tree, "step-1"), work.commit(tree, "step-2")
    work.revert(tree, second)
    work.reconcile()
    assert work.done() == {"step-1": first}
    assert len(first) == 64


def test_a_shallow_clone_reads_what_it_has(work, tmp_path, tugcode):
    work = work(*THREE)
    first = work.commit(work.repo.path, "step-1")
    git("clone", "--quiet", "--depth=2", f"file://{work.repo.path}", "clone", cwd=tmp_path)
    clone = tmp_path / "clone"
    assert tugcode("-C", clone, "state", "init", "work").status == 0
    data = tugcode("-C", clone, "state", "reconcile", "work", "--json").data
    assert [each["commit_hash"] for each in data["reconciled"]] == [first]


def test_only_the_range_is_read_however_long_the_history_is(repo, work):
    """What lies before it can be missing altogether: nobody asks for it."""
    old = [repo.git("rev-parse", "HEAD").strip()]
    for number in range(40):
        parent, tree = old[-1], f"{old[-1]}^{{tree}}"
        old.append(repo.git("commit-tree", "-p", parent, "-m", f"old {number}", tree).strip())
    repo.git("reset", "--quiet", "--hard", old[-1])
    work = work(*THREE)
    first = work.commit(work.branch(), "step-1")
    # Git itself looks a few commits further than it has to, in case dates lie.
    for name in old[:30]:
        (repo.path / ".git" / "objects" / name[:2] / name[2:]).unlink()
    assert work.reconcile()["commits_read"] == 1
    assert work.done() == {"step-1": first}
    with pytest.raises(subprocess.CalledProcessError):
        repo.git("rev-list", "HEAD")


def test_the_text_says_what_was_done_and_passed_over(work):
    work = work(*THREE)
    tree = work.branch()
    first = work.commit(tree, "step-1")
    work.revert(tree, work.commit(tree, "step-2"))
    out = work.run("state", "reconcile", "work", "--dry-run").out
    assert "3 commits read, 1 step would be reconciled" in out
    assert f"step-1: {first} (was pending)" in out
    assert "1 passed over" in out
    work.finish("step-1", work.base, tree)
    out = work.run("state", "reconcile", "work").out
    assert "1 kept as recorded" in out
    assert f"recorded {work.base}, git has {first}" in out


def test_a_person_is_not_shown_a_thousand_lines(work):
    work = work(*THREE)
    tree = work.branch()
    for _ in range(25):
        work.commit(tree, message="x\n\nTug-Step: step-9\nTug-Plan: \x1b[31mred\n")
    out = work.run("state", "reconcile", "work").out
    assert "and 5 more (--json lists all)" in out
    assert "\x1b" not in out


def test_a_plan_without_a_state_is_refused(repo, tugcode):
    repo.plan("work", "# W\n\n### Step 1: x\n")
    assert tugcode("-C", repo.path, "state", "reconcile", "work", "--json").codes == ["E063"]


def test_a_branch_that_was_made_for_another_plan_is_not_this_ones(work):
    w = work("1")
    w.branch(row=True)
    w.execute("update worktrees set plan_path = 'other.md'")
    assert w.reconcile()["branches"] == []
    w.execute("update worktrees set plan_path = :plan")
    assert w.reconcile()["branches"] == ["tugplan/work-20260221"]


def test_the_branch_of_a_plan_whose_name_git_would_not_take_is_found(repo, tugcode, monkeypatch):
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    repo.plan("a..b c", markdown("1"))
    repo.commit({})
    made = tugcode("-C", repo.path, "worktree", "create", "a..b c", "--json").data
    rows = open_store(f"sqlite://{repo.path / '.tugtool' / 'state.db'}")
    with rows.write(made["plan_path"]) as tx:
        tx.run("delete from worktrees")
    told = tugcode("-C", repo.path, "state", "reconcile", "a..b c", "--json").data
    assert told["branches"] == [made["branch_name"]]
