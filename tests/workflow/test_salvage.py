"""Work of somebody whose step was taken: saved before the answer, and found again by the next."""

import os
import subprocess
from pathlib import Path

import pytest

from conftest import Repo, git
from support.proving import sampled
from support.state import KEY
from support.worktree import Yard, answered, crashed, fsck, process
from tugtool import git as tugtool_git
from tugtool.store import open_store
from tugtool.system import crash
from tugtool.workflow.salvage import catch_up
from tugtool.workflow.worktree import create

pytestmark = pytest.mark.usefixtures("named_writes")

SHORT = ("--lease-duration", "0.001")
#: Some time in the past.
SECOND = 1_700_000_000


def held(yard: Yard, *words: object) -> Path:
    """A worktree that holds step-1 under a lease that has run out."""
    line = ("--new", "--claim", "--step", "step-1", *SHORT, *words)
    name = yard.shared("held", *line, make=lambda there: there.create(*line).name)
    return yard.root / ".tugtree" / name


def dirty(path: Path) -> None:
    """Changed, deleted, new, executable, linked, binary, oddly named, and staged before."""
    Repo(path).write({"code.txt": "changed\n", "new/deep.bin": bytes(range(256)), "a\nb": "odd"})
    (path / "run").write_text("#!/bin/sh\n")
    (path / "run").chmod(0o755)
    (path / "link").symlink_to("nowhere at all")
    (path / "-n").write_text("an option?")
    (path / "keep").unlink()
    (path / "twice").write_text("first")
    git("add", "twice", cwd=path)
    (path / "twice").write_text("second")


def tree(yard: Yard, ref: str) -> dict[str, str]:
    """Path -> mode and content."""
    out = yard.repo.git("ls-tree", "-r", "-z", ref)
    found = {}
    for line in out.split("\0")[:-1]:
        facts, _, path = line.partition("\t")
        mode, _, blob = facts.split()
        found[path] = mode + " " + repr(_bytes(yard, blob))
    return found


def _bytes(yard: Yard, blob: str) -> bytes:
    done = subprocess.run(["git", "cat-file", "blob", blob], cwd=yard.root, capture_output=True)
    return done.stdout


def unsaved(yard: Yard) -> list[tuple]:
    return [(row["step_anchor"], row["number"]) for row in yard.rows("select * from unsaved")]


def attempts(yard: Yard) -> list[str | None]:
    rows = yard.rows(
        "select salvage_ref from attempts where step_anchor = 'step-1' order by number"
    )
    return [row["salvage_ref"] for row in rows]


def salvages(yard: Yard) -> list[str]:
    return [ref for ref in yard.refs() if ref.startswith("refs/tug/salvage/")]


@pytest.fixture
def place(yard):
    """A yard whose code has a file to delete, too."""

    def make(*lines: str) -> Yard:
        made = yard(*lines)
        kept = {"keep": "until deleted\n"}
        made.start = made.repo.become("place", make=lambda repo: repo.commit(kept))
        return made

    return make


TAKERS = {
    "reclaim": ("state", "claim", "work", "--step", "step-1"),
    "reset": ("state", "reset", "work", "step-1"),
    "release": ("state", "release", "work", "step-1", "--force"),
}


@pytest.mark.parametrize("taker", TAKERS)
def test_whoever_takes_a_step_saves_what_lies_uncommitted(place, taker):
    yard = place()
    path = held(yard)
    dirty(path)
    before = git("status", "--porcelain", "-z", cwd=path)
    index = (repository_index(path)).read_bytes()
    data = yard.ok(*TAKERS[taker])
    ref = data["salvage_ref"]
    assert ref.startswith("refs/tug/salvage/work/")
    assert ref.endswith("-step-1-attempt-1")
    found = tree(yard, ref)
    assert found["code.txt"] == "100644 b'changed\\n'"
    assert found["new/deep.bin"] == f"100644 {bytes(range(256))!r}"
    assert found["run"] == "100755 b'#!/bin/sh\\n'"
    assert found["link"] == "120000 b'nowhere at all'"
    assert found["twice"] == "100644 b'second'"
    assert {"a\nb", "-n"} <= set(found)
    assert "keep" not in found
    # The parents: where it was done, and what was staged and is different.
    assert yard.repo.git("rev-parse", f"{ref}^1").strip() == yard.start
    assert yard.repo.git("show", f"{ref}^2:twice") == "first"
    # Neither the worktree nor its index was touched.
    assert git("status", "--porcelain", "-z", cwd=path) == before
    assert repository_index(path).read_bytes() == index
    assert attempts(yard)[0] == ref
    assert unsaved(yard) == []
    assert salvages(yard) == [ref]
    fsck(yard.root)


def repository_index(path: Path) -> Path:
    return Path(tugtool_git.git_dir(str(path))) / "index"


@pytest.mark.parametrize("taker", [*TAKERS.values(), ("worktree", "remove", "--force")])
def test_a_change_in_the_very_second_of_the_index_is_saved(place, taker):
    """As long as before, and as old as git's index: only the content tells that it changed."""
    yard = place()
    path = held(yard)
    # Git compares this as well, and nobody can set it.
    git("config", "core.trustctime", "false", cwd=path)
    in_one_second(path, {"code.txt": ("first", "other"), "new": ("stage", "after")})
    more = () if taker[0] == "state" else (path.name,)
    ref = yard.ok(*taker, *more)["salvage_ref"]
    assert yard.repo.git("show", f"{ref}:code.txt", f"{ref}:new") == "otherafter"


def in_one_second(path: Path, texts: dict[str, tuple[str, str]]) -> None:
    """Stage one text and write another of the same length, all in one second."""
    for name, (before, _) in texts.items():
        (path / name).write_text(before)
        os.utime(path / name, (SECOND, SECOND))
    git("add", *texts, cwd=path)
    os.utime(repository_index(path), (SECOND, SECOND))
    for name, (_, after) in texts.items():
        (path / name).write_text(after)
        os.utime(path / name, (SECOND, SECOND))


def test_a_clean_worktree_leaves_nothing_to_save(place):
    yard = place()
    held(yard)
    data = yard.ok(*TAKERS["reclaim"])
    assert (data["salvage_ref"], data["previous_attempt"]["salvage_ref"]) == (None, None)
    assert salvages(yard) == unsaved(yard) == []


def test_ignored_files_alone_are_no_work(place):
    yard = place()
    yard.repo.commit({".gitignore": "*.o\n"})
    path = held(yard)
    (path / "x.o").write_text("built")
    assert yard.ok(*TAKERS["reset"])["salvage_ref"] is None
    (path / "y").write_text("work")
    yard.ok("state", "claim", "work", at=path)
    assert "x.o" not in tree(yard, yard.ok(*TAKERS["reset"])["salvage_ref"])


def test_whoever_keeps_or_gives_back_a_step_displaces_nobody(place):
    yard = place()
    path = held(yard)
    dirty(path)
    again = yard.ok("state", "claim", "work", at=path)
    assert (again["reclaimed"], again["salvage_ref"]) == (True, None)
    assert again["previous_attempt"]["recover"] == []
    assert yard.ok("state", "release", "work", "step-1", at=path)["salvage_ref"] is None
    assert salvages(yard) == unsaved(yard) == []


def test_a_release_saves_the_caller_s_own_work_if_it_asks_for_that(place):
    yard = place()
    path = held(yard)
    dirty(path)
    ref = yard.ok("state", "release", "work", "step-1", "--save", at=path)["salvage_ref"]
    assert salvages(yard) == [ref]
    assert (path / "run").exists()


def test_what_was_saved_of_the_caller_s_own_worktree_need_not_be_brought_back(place):
    yard = place()
    path = held(yard)
    dirty(path)
    ref = yard.ok(*TAKERS["reset"])["salvage_ref"]
    data = yard.ok("state", "claim", "work", at=path)
    assert data["salvage_ref"] == ref
    assert data["previous_attempt"]["recover"] == []


def test_the_next_claim_tells_where_the_work_is_and_how_to_get_it_back(place):
    yard = place()
    path = held(yard)
    yard.commit(path, {"one": "1"})
    yard.commit(path, {"two": "2"})
    (path / "three").write_text("3")
    ref = yard.ok(*TAKERS["reset"])["salvage_ref"]
    other = yard.create("--new")
    data = yard.ok("state", "claim", "work", at=other)
    before = data["previous_attempt"]
    branch = git("branch", "--show-current", cwd=path).strip()
    assert (before["branch"], before["commits_ahead"]) == (branch, 2)
    assert data["salvage_ref"] == before["salvage_ref"] == ref
    assert before["salvage_refs"] == [ref]
    assert before["recover"] == [f"git merge {branch}", f"tugcode worktree salvage apply {ref}"]
    # Whoever claims again, because the answer was lost, is told the same.
    again = yard.ok("state", "claim", "work", at=other)["previous_attempt"]
    assert (again["worktree"], again["recover"]) == (str(other), before["recover"])
    # And so it comes back.
    git("merge", "--quiet", branch, cwd=other)
    again = yard.ok("state", "claim", "work", at=other)["previous_attempt"]
    assert again["recover"] == [f"tugcode worktree salvage apply {ref}"]
    yard.ok("worktree", "salvage", "apply", ref, at=other)
    assert sorted(each.name for each in other.iterdir()) == sorted(
        each.name for each in path.iterdir()
    )


def test_text_says_how_to_go_on(place, tugcode):
    yard = place()
    dirty(held(yard))
    said = yard.said(*TAKERS["reclaim"])
    assert said.startswith("took over step-1")
    assert f"\n  tugcode worktree salvage apply {salvages(yard)[0]}\n" in said
    yard.ok("state", "release", "work", "step-1")
    path = held(yard)
    (path / "x").write_text("x")
    assert "the work that was not committed is saved as refs/tug/" in yard.said(*TAKERS["reset"])


def test_work_that_nobody_took_up_is_told_of_again(place):
    yard = place()
    dirty(held(yard))
    first = yard.ok(*TAKERS["reclaim"])["salvage_ref"]
    yard.ok("state", "release", "work", "step-1")
    before = yard.ok("state", "claim", "work", at=yard.create("--new"))["previous_attempt"]
    assert (before["number"], before["salvage_ref"]) == (2, None)
    assert before["salvage_refs"] == [first]
    assert before["recover"] == [f"tugcode worktree salvage apply {first}"]


def test_a_ref_that_is_gone_is_not_named(place):
    yard = place()
    dirty(held(yard))
    ref = yard.ok(*TAKERS["reset"])["salvage_ref"]
    yard.repo.git("update-ref", "-d", ref)
    data = yard.ok("state", "claim", "work", at=yard.create("--new"))
    before = data["previous_attempt"]
    assert data["salvage_ref"] is before["salvage_ref"] is None
    assert before["salvage_refs"] == before["recover"] == []


def test_what_only_git_knows_of_a_worktree_that_is_gone_is_left_open(place):
    yard = place()
    path = held(yard)
    yard.commit(path, {"one": "1"})
    yard.ok("worktree", "remove", path.name, "--force")
    before = yard.ok("state", "claim", "work")["previous_attempt"]
    assert (before["branch"], before["commits_ahead"]) == (None, None)
    assert before["salvage_ref"] == salvages(yard)[0]


def test_a_directory_that_was_deleted_still_has_its_branch(place):
    yard = place()
    path = held(yard)
    yard.commit(path, {"one": "1"})
    branch = git("branch", "--show-current", cwd=path).strip()
    yard.repo.git("worktree", "remove", "--force", str(path))
    before = yard.ok("state", "claim", "work")["previous_attempt"]
    assert (before["branch"], before["commits_ahead"]) == (branch, 1)
    assert unsaved(yard) == []


def test_a_claim_stands_although_git_cannot_be_asked(place, tmp_path, monkeypatch):
    yard = place()
    path = held(yard)
    dirty(path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text("#!/bin/sh\necho broken >&2\nexit 128\n")
    (tmp_path / "bin" / "git").chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path / "bin"))
        done = yard.run(*TAKERS["reclaim"])
    assert (done.status, done.codes) == (0, ["W120", "W160"])
    assert done.data["claimed"] is True
    assert done.data["previous_attempt"]["branch"] is None
    assert unsaved(yard) == [("step-1", 1)]
    # The next claim of the plan saves it.
    assert yard.ok("state", "claim", "work", "--worktree", "other")["anchor"] == "step-2"
    assert attempts(yard)[0] == salvages(yard)[0]
    assert unsaved(yard) == []


def test_the_files_of_a_repository_inside_are_saved_and_it_stays(place):
    yard = place()
    path = held(yard)
    dirty(path)
    Repo.init(path / "inner").commit()
    done = yard.run(*TAKERS["reclaim"])
    assert (done.status, done.codes) == (0, ["W160"])
    found = tree(yard, attempts(yard)[0])
    assert found["inner/file"] == "100644 b'x\\n'"
    assert "new/deep.bin" in found
    assert str(path) in yard.refused("E034", "worktree", "remove", path.name, "--force")
    kept = yard.ok("worktree", "cleanup")["kept"]
    assert [each["worktree_path"] for each in kept] == [str(path)]
    assert (path / "inner" / ".git").exists()


def test_what_cannot_be_saved_stays_where_it_is_and_that_is_said(place, tugcode):
    yard = place()
    path = held(yard)
    dirty(path)
    hook = yard.root / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ncase $(cat) in *refs/tug/*) exit 1;; esac\n")
    hook.chmod(0o755)
    done = yard.run(*TAKERS["reclaim"])
    assert (done.status, done.codes) == (0, ["W120", "W160"])
    issue = done.envelope()["issues"][0]
    assert f"is still in {path}: git update-ref failed" in issue["message"]
    assert issue["hint"] == f"git -C {path} status"
    assert unsaved(yard) == [("step-1", 1)]
    assert salvages(yard) == []
    assert str(path) in yard.refused("E034", "worktree", "remove", path.name, "--force")
    # For people the warning is on standard error, and the claim in its place.
    text = tugcode("-C", yard.root, "state", "reset", "work", "step-1")
    assert text.out == "reset step-1\n"
    assert "W120" in text.err
    # Once it is gone, everything is saved.
    hook.unlink()
    yard.ok("state", "claim", "work", "--worktree", "other")
    assert unsaved(yard) == []
    assert "new/deep.bin" in tree(yard, attempts(yard)[0])


def test_changes_in_a_submodule_are_told_of(place, tmp_path):
    yard = place()
    inner = Repo.init(tmp_path / "inner")
    inner.commit()
    yard.repo.git("submodule", "--quiet", "add", str(inner.path), "sub")
    yard.repo.commit()
    path = held(yard)
    git("submodule", "--quiet", "update", "--init", cwd=path)
    assert yard.ok(*TAKERS["reset"])["salvage_ref"] is None
    yard.ok("state", "claim", "work", "--step", "step-1", *SHORT, at=path)
    (path / "sub" / "file").write_text("changed inside")
    done = yard.run(*TAKERS["reclaim"])
    assert (done.status, done.codes) == (0, ["W120", "W160"])
    assert "its submodule sub has changes" in done.out
    assert unsaved(yard) == [("step-1", 2)]


def test_an_index_that_git_cannot_read_does_not_keep_files_from_being_saved(place):
    yard = place()
    path = held(yard)
    dirty(path)
    repository_index(path).write_bytes(b"rubbish")
    found = tree(yard, yard.ok(*TAKERS["reclaim"])["salvage_ref"])
    assert found["code.txt"] == "100644 b'changed\\n'"
    assert "new/deep.bin" in found
    assert "keep" not in found
    assert repository_index(path).read_bytes() == b"rubbish"


def test_a_worktree_without_its_marker_is_told_of(place):
    yard = place()
    path = held(yard)
    dirty(path)
    (path / ".git").unlink()
    done = yard.run(*TAKERS["reclaim"])
    assert (done.status, done.codes) == (0, ["W120", "W160"])
    assert "it has no .git any more" in done.out
    assert unsaved(yard) == [("step-1", 1)]


@pytest.mark.parametrize("name", ["nobody", "../elsewhere"])
def test_whoever_has_no_worktree_here_has_nothing_to_save(place, tmp_path, name):
    yard = place()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("x")
    words = ("--step", "step-1", "--worktree", name)
    yard.ok("state", "init", "work")
    yard.ok("state", "claim", "work", *words, *SHORT)
    assert yard.ok(*TAKERS["reclaim"])["salvage_ref"] is None
    assert unsaved(yard) == []


def test_the_main_worktree_is_saved_as_any_other(place):
    yard = place()
    yard.ok("state", "init", "work")
    yard.ok("state", "claim", "work", *SHORT)
    (yard.root / "loose").write_text("x")
    data = yard.ok("state", "claim", "work", "--step", "step-1", "--worktree", "other")
    found = tree(yard, data["salvage_ref"])
    assert found["loose"] == "100644 b'x'"
    assert not [path for path in found if "state." in path]


def test_a_conflict_is_saved_as_it_stands_with_both_sides(place):
    yard = place()
    path = held(yard)
    theirs = yard.repo.commit({"code.txt": "theirs\n"})
    yard.commit(path, {"code.txt": "ours\n"})
    subprocess.run(["git", "merge", "--quiet", theirs], cwd=path, capture_output=True)
    (path / "staged").write_text("staged only")
    git("add", "staged", cwd=path)
    (path / "staged").unlink()
    assert "<<<<<<<" in (path / "code.txt").read_text()
    ref = yard.ok(*TAKERS["reclaim"])["salvage_ref"]
    assert "<<<<<<<" in yard.repo.git("show", f"{ref}:code.txt")
    parents = yard.repo.git("rev-parse", f"{ref}^@").split()
    assert theirs in parents
    assert "staged only" in [
        yard.repo.git("show", f"{parent}:staged")
        for parent in parents
        if "staged" in yard.repo.git("ls-tree", "--name-only", parent).split()
    ]


def test_what_a_rebase_has_put_aside_is_saved(place):
    yard = place()
    path = held(yard)
    onto = yard.repo.commit({"code.txt": "theirs\n"})
    yard.commit(path, {"code.txt": "ours\n"})
    (path / "keep").write_text("put aside\n")
    words = ["git", "-c", "user.name=T", "-c", "user.email=t@e", "rebase", "--autostash", onto]
    assert subprocess.run(words, cwd=path, capture_output=True).returncode != 0
    git("checkout", "--quiet", "--theirs", "code.txt", cwd=path)
    git("add", "code.txt", cwd=path)
    assert (path / "keep").read_text() == "until deleted\n"
    assert "put changes aside" in yard.refused("E034", "worktree", "remove", path.name)
    ref = yard.ok(*TAKERS["reclaim"])["salvage_ref"]
    kept = [
        yard.repo.git("show", f"{p}:keep") for p in yard.repo.git("rev-parse", f"{ref}^@").split()
    ]
    assert "put aside\n" in kept


def test_commits_on_no_branch_are_saved_too(place):
    yard = place()
    path = held(yard)
    git("checkout", "--quiet", "--detach", cwd=path)
    tip = yard.commit(path, {"one": "1"})
    assert git("status", "--porcelain", cwd=path) == ""
    ref = yard.ok(*TAKERS["reclaim"])["salvage_ref"]
    assert yard.repo.git("rev-parse", f"{ref}^").strip() == tip


def test_work_before_any_commit_is_saved(place):
    yard = place()
    path = held(yard)
    git("checkout", "--quiet", "--orphan", "fresh", cwd=path)
    git("rm", "--quiet", "-r", "--force", "code.txt", cwd=path)
    (path / "first").write_text("x")
    ref = yard.ok(*TAKERS["reclaim"])["salvage_ref"]
    assert tree(yard, ref)["first"] == "100644 b'x'"
    assert yard.repo.git("rev-list", "--count", "--max-parents=0", ref).strip() in ("1", "2")


def test_a_sparse_worktree_loses_nothing_and_saves_what_lies_outside_its_cone(place):
    yard = place()
    yard.repo.commit({"in/a": "a\n", "out/b": "b\n"})
    path = held(yard)
    git("sparse-checkout", "set", "in", cwd=path)
    assert not (path / "out").exists()
    (path / "in" / "a").write_text("changed\n")
    Repo(path).write({"out/new": "outside\n"})
    found = tree(yard, yard.ok(*TAKERS["reclaim"])["salvage_ref"])
    assert found["in/a"] == "100644 b'changed\\n'"
    assert found["out/b"] == "100644 b'b\\n'"
    assert found["out/new"] == "100644 b'outside\\n'"


@pytest.mark.parametrize(
    "settings", ["core.safecrlf=true core.autocrlf=input", "status.showUntrackedFiles=no"]
)
def test_a_person_s_settings_do_not_keep_work_from_being_saved(place, settings):
    yard = place()
    path = held(yard)
    for setting in settings.split():
        yard.repo.git("config", *setting.split("="))
    (path / "mixed").write_bytes(b"one\r\ntwo\n")
    assert "mixed" in tree(yard, yard.ok(*TAKERS["reclaim"])["salvage_ref"])


def test_an_interrupted_commit_is_saved_with_its_log_entry(place):
    yard = place()
    path = yard.create("--new", "--claim", "--step", "step-1")
    (path / "work").write_text("done")
    words = ("commit", "--plan", "work", "--step", "step-1", "--message", "m")
    crashed(path, "commit.added", *words)
    ref = yard.ok("state", "reset", "work", "step-1")["salvage_ref"]
    found = tree(yard, ref)
    assert found["work"] == "100644 b'done'"
    assert "step-1" in found[".tugtool/log.md"]


def test_a_plan_s_new_text_saves_the_work_on_a_claimed_step_that_it_changes(place):
    yard = place("1 t", "2 t")
    dirty(held(yard))
    text = yard.plan.read_text().replace("task 0 of 1", "something else")
    yard.plan.write_text(text)
    yard.ok("state", "init", "work", "--force", "--drop-claimed")
    assert unsaved(yard) == [("step-1", 1)]
    yard.ok("state", "claim", "work", "--worktree", "nobody")
    assert attempts(yard)[0] == salvages(yard)[0]


def test_a_restored_database_saves_the_work_on_the_claims_that_it_ends(place):
    yard = place()
    path = yard.create("--new", "--claim", "--step", "step-1")
    dirty(path)
    (copy,) = (yard.root / ".git" / "tugtool").glob("backup.db")
    yard.ok("state", "restore", "--from", copy)
    yard.ok("state", "claim", "work", "--worktree", "nobody", "--step", "step-2")
    (ref,) = salvages(yard)
    assert [attempt for attempt in attempts(yard) if attempt] == [ref]


def test_a_step_that_is_dropped_takes_its_attempts_along(place):
    yard = place("1 t", "2 t")
    path = held(yard)
    dirty(path)
    before = git("status", "--porcelain", cwd=path)
    yard.plan.write_text(yard.plan.read_text().partition("\n### Step 1")[0] + "\n### Step 2: Two\n")
    yard.ok("state", "init", "work", "--force", "--drop-claimed")
    assert unsaved(yard) == []
    assert git("status", "--porcelain", cwd=path) == before


def test_a_forced_removal_answers_for_what_a_crash_left_unsaved(place):
    yard = place()
    path = held(yard)
    dirty(path)
    crashed(yard.root, "salvage.taken", *TAKERS["reclaim"])
    assert unsaved(yard) == [("step-1", 1)]
    ref = yard.ok("worktree", "remove", path.name, "--force")["salvage_ref"]
    assert unsaved(yard) == []
    assert attempts(yard)[0] == ref


def test_a_removal_cut_short_and_then_a_claim_lead_to_everything(place):
    yard = place()
    path = held(yard)
    dirty(path)
    crashed(yard.root, "remove.salvaged", "worktree", "remove", path.name, "--force")
    whole = salvages(yard)[0]
    (path / "run").unlink()
    ref = yard.ok(*TAKERS["reclaim"])["salvage_ref"]
    assert "run" not in tree(yard, ref)
    yard.repo.git("merge-base", "--is-ancestor", whole, ref)


# -- crashes ---------------------------------------------------------------------------


def points() -> list[str]:
    return [name for name in crash.POINTS if name.startswith("salvage.")]


@pytest.mark.parametrize(
    ("point", "taker"), sampled([(point, taker) for point in points() for taker in TAKERS], 4)
)
def test_what_a_crash_left_unsaved_the_next_claim_of_the_plan_saves(place, point, taker):
    yard = place()
    path = held(yard)
    dirty(path)
    crashed(yard.root, point, *TAKERS[taker])
    assert bool(unsaved(yard)) == (point != "salvage.recorded")
    assert yard.ok("state", "claim", "work", "--worktree", "nobody")["claimed"] is True
    assert unsaved(yard) == []
    assert attempts(yard)[0] == salvages(yard)[0]
    assert len(salvages(yard)) == 1
    assert "new/deep.bin" in tree(yard, salvages(yard)[0])
    events = [event["kind"] for event in yard.rows("select kind from events")]
    assert events.count("salvage") == 1
    fsck(yard.root)


def test_work_done_between_a_crash_and_the_next_claim_is_saved_too(place):
    yard = place()
    path = held(yard)
    dirty(path)
    crashed(yard.root, "salvage.saved", *TAKERS["reset"])
    (path / "later").write_text("y")
    yard.ok("state", "claim", "work", "--worktree", "nobody")
    first, second = sorted(salvages(yard))
    assert attempts(yard)[0] == second == f"{first}-2"
    assert "later" in tree(yard, second)
    yard.repo.git("merge-base", "--is-ancestor", first, second)


def test_catching_up_covers_every_plan_and_says_what_became_of_each(place):
    yard = place()
    path = held(yard)
    dirty(path)
    crashed(yard.root, "salvage.taken", *TAKERS["reset"])
    repo = tugtool_git.discover(str(yard.root))
    store = open_store(f"sqlite://{yard.root / '.tugtool' / 'state.db'}")
    done = catch_up.catch_up(repo, store)
    assert catch_up.catch_up(repo, store) == []
    store.close()
    assert done == [
        {
            "plan_path": KEY,
            "step_anchor": "step-1",
            "attempt": 1,
            "worktree": str(path),
            "salvage_ref": salvages(yard)[0],
            "problem": None,
        }
    ]


def test_the_log_tells_of_it(place):
    yard = place()
    path = held(yard)
    dirty(path)
    yard.ok(*TAKERS["reset"])
    assert "step-1  uncommitted work of attempt 1 saved\n" in yard.said("state", "log", "work")
    told = yard.said("state", "log", "work", "--all")
    assert f"uncommitted work of {path.name} (attempt 1) saved as {salvages(yard)[0]}" in told


def test_three_that_come_at_once_save_it_once(place):
    yard = place("1", "2", "3")
    dirty(held(yard))
    crashed(yard.root, "salvage.taken", *TAKERS["reset"])
    words = ("state", "claim", "work", "--worktree")
    all_ = [process(yard.root, *words, name) for name in ("a", "b", "c")]
    for each in all_:
        assert answered(each)["claimed"] is True
    assert len(salvages(yard)) == 1
    assert attempts(yard)[0] == salvages(yard)[0]
    assert unsaved(yard) == []


# -- worktrees that are handed out again -----------------------------------------------


def test_a_worktree_with_work_is_handed_out_again_only_for_that_work(place):
    yard = place()
    path = held(yard)
    dirty(path)
    other = yard.ok("worktree", "create", "work", "--claim", "--step", "step-2", *SHORT)
    assert other["worktree_path"] != str(path)
    again = yard.ok("worktree", "create", "work", "--claim", "--step", "step-1")
    assert (again["worktree_path"], again["resumes"]) == (str(path), "step-1")
    assert again["claim"]["anchor"] == "step-1"


def test_a_claim_that_comes_with_a_worktree_is_for_the_step_whose_work_lies_there(place):
    yard = place()
    first = yard.create("--new", "--claim", "--step", "step-2", *SHORT)
    (first / "mine").write_text("of step-2")
    again = yard.ok("worktree", "create", "work", "--claim")
    assert (again["worktree_path"], again["resumes"]) == (str(first), "step-2")
    assert again["claim"]["anchor"] == "step-2"


def test_a_step_that_is_taken_before_the_claim_is_not_replaced_by_another(place, monkeypatch):
    yard = place()
    path = held(yard)
    dirty(path)
    look = create._resumed

    def taken_meanwhile(*words: object) -> str | None:
        found = look(*words)
        process(yard.root, *TAKERS["reclaim"]).communicate()
        return found

    monkeypatch.setattr(create, "_resumed", taken_meanwhile)
    done = yard.run("worktree", "create", "work", "--claim")
    assert done.codes == ["E053"]
    assert path.is_dir()
    held_now = yard.rows("select anchor, claimed_by from steps where claimed_by is not null")
    assert held_now == [{"anchor": "step-1", "claimed_by": str(yard.root)}]


def test_a_worktree_whose_step_cannot_be_given_out_is_not_either(place):
    yard = place()
    path = yard.create("--new")
    yard.repo.write({".tugtool/config.toml": "[state]\nmax_attempts = 1\n"})
    yard.ok("state", "claim", "work", "--step", "step-1", *SHORT, at=path)
    (path / "mine").write_text("x")
    assert yard.rows("select parked_at from steps where anchor = 'step-1'")[0]["parked_at"]
    assert yard.create() != path


def test_a_worktree_whose_step_was_taken_is_left_to_its_owner(place):
    yard = place()
    path = held(yard)
    dirty(path)
    yard.ok(*TAKERS["reset"])
    made = yard.ok("worktree", "create", "work", "--claim")
    assert made["worktree_path"] != str(path)
    assert made["resumes"] is None
    assert made["claim"]["salvage_ref"] == salvages(yard)[0]
