"""worktree salvage list, show, apply, prune: saved work is looked at, had back, dropped."""

import os
import subprocess
from pathlib import Path

import pytest

from conftest import Repo, git
from support.proving import sampled
from support.worktree import Yard, fsck
from workflow.test_salvage import SHORT, TAKERS, dirty, held, salvages, tree


@pytest.fixture
def saved(yard):
    """A yard in which the work of `dirty` was saved; its worktree, and the ref."""

    def make(*lines: str) -> tuple[Yard, Path, str]:
        made = yard(*lines)
        kept = {"keep": "until deleted\n"}
        made.start = made.repo.become("place", make=lambda repo: repo.commit(kept))
        path = held(made)
        dirty(path)
        return made, path, made.ok(*TAKERS["reset"])["salvage_ref"]

    return make


def salvage(yard: Yard, *words: object, at: Path | None = None) -> dict:
    return yard.ok("worktree", "salvage", *words, at=at)


def everything(path: Path) -> dict[str, object]:
    """Every file below, with what git keeps of it."""
    found = {}
    for directory, _, names in os.walk(path):
        for name in names:
            file = Path(directory) / name
            key = str(file.relative_to(path))
            if file.is_symlink():
                found[key] = os.readlink(file)
            elif key != ".git":
                found[key] = (file.read_bytes(), bool(file.stat().st_mode & 0o100))
    return found


# -- list and show ---------------------------------------------------------------------


def test_list_tells_whose_work_it_was(saved):
    yard, path, ref = saved()
    (entry,) = salvage(yard, "list")["salvages"]
    assert entry == {
        "salvage_ref": ref,
        "name": ref.removeprefix("refs/tug/salvage/"),
        "commit": yard.repo.git("rev-parse", ref).strip(),
        "saved_at": entry["saved_at"],
        "plan_path": ".tugtool/tugplan-work.md",
        "step_anchor": "step-1",
        "attempt": 1,
        "worktree": str(path),
        "branch": git("branch", "--show-current", cwd=path).strip(),
        "base_commit": yard.start,
    }
    said = yard.said("worktree", "salvage", "list")
    assert said.startswith(
        f"{entry['name']}\n  step-1 of work, attempt 1, in {path.name}, saved 20"
    )


def test_list_is_for_one_plan_or_all_the_newest_first(saved):
    yard, _, first = saved()
    yard.repo.commit({".tugtool/tugplan-other.md": "# Other\n\n### Step 1: Only\n"})
    other = yard.create("--claim", *SHORT, plan="other")
    (other / "x").write_text("x")
    second = yard.ok("state", "reset", "other", "step-1")["salvage_ref"]
    refs = [each["salvage_ref"] for each in salvage(yard, "list")["salvages"]]
    assert sorted(refs) == sorted([first, second])
    (only,) = salvage(yard, "list", "other")["salvages"]
    assert only["salvage_ref"] == second
    assert salvage(yard, "list", "work")["salvages"][0]["salvage_ref"] == first


def test_nothing_saved_is_no_error(yard):
    yard = yard()
    assert yard.said("worktree", "salvage", "list") == "nothing was saved\n"
    assert yard.said("worktree", "salvage", "prune") == "nothing was saved\n"


def test_show_lists_every_file_and_how_much_of_it_changed(saved):
    yard, _, ref = saved()
    data = salvage(yard, "show", ref)
    files = {each["path"]: each for each in data["files"]}
    assert {path: each["status"] for path, each in files.items()} == {
        "-n": "added",
        "a\nb": "added",
        "code.txt": "modified",
        "keep": "deleted",
        "link": "added",
        "new/deep.bin": "added",
        "run": "added",
        "twice": "added",
    }
    assert (files["code.txt"]["insertions"], files["code.txt"]["deletions"]) == (1, 20)
    assert files["new/deep.bin"]["insertions"] is None
    assert data["deletions"] == 21
    assert data["patch"] is None
    said = yard.said("worktree", "salvage", "show", ref)
    assert "  modified: code.txt (+1 -20)\n" in said
    assert "  added: new/deep.bin (binary)\n" in said
    assert said.endswith(f"  8 files, +{data['insertions']} -21\n")


def test_the_patch_can_be_applied_by_git(saved):
    yard, _path, ref = saved()
    patch = salvage(yard, "show", ref, "--patch")["patch"]
    subprocess.run(["git", "apply", "-"], cwd=yard.root, input=patch.encode(), check=True)
    assert (yard.root / "new" / "deep.bin").read_bytes() == bytes(range(256))
    assert not (yard.root / "keep").exists()


def test_a_patch_cannot_disturb_a_terminal(saved):
    yard, path, _ = saved()
    yard.ok("state", "claim", "work", at=path)
    (path / "evil").write_text("\x1b]0;title\x07\x1b[31mred\n\ttab\n")
    ref = yard.ok(*TAKERS["reset"])["salvage_ref"]
    said = yard.said("worktree", "salvage", "show", ref, "--patch")
    assert "+red\n" in said
    assert "\x1b" not in said


def test_any_name_that_means_one_will_do(saved):
    yard, _, ref = saved()
    name = ref.removeprefix("refs/tug/salvage/")
    last = name.rpartition("/")[2]
    for word in (ref, name, last, "work/2", last[:6], "work"):
        assert salvage(yard, "show", word)["salvage_ref"] == ref


def test_a_name_that_means_several_or_none_is_refused(saved):
    yard, path, _ref = saved()
    yard.ok("state", "claim", "work", *SHORT, at=path)
    second = yard.ok(*TAKERS["reset"])["salvage_ref"]
    assert "fits several" in yard.refused("E085", "worktree", "salvage", "show", "work/")
    last = second.rpartition("/")[2]
    assert last in yard.refused("E085", "worktree", "salvage", "show", f"x{last}")


HOSTILE = [
    "refs/heads/main",
    "HEAD",
    "",
    "--upload-pack=x",
    "a\x1b[31m\nb",
    "../../heads/main",
    "*",
    "^",
]


@pytest.mark.parametrize(
    ("hostile", "command"),
    sampled([(each, command) for command in ("show", "apply", "prune") for each in HOSTILE], 7),
)
def test_what_names_no_saved_work_is_refused_and_reaches_no_git(saved, command, hostile, tugcode):
    yard, path, _ = saved()
    words = ("worktree", "salvage", command, "--json", "--", hostile)
    before = yard.picture()
    done = tugcode("-C", path, *words)
    assert done.codes == ["E085"]
    assert yard.picture() == before
    text = tugcode("-C", path, *(word for word in words if word != "--json"))
    assert "\x1b" not in text.err
    if hostile == "refs/heads/main":
        assert "begin with refs/tug/salvage/" in text.err


def test_a_ref_that_somebody_else_put_there_is_harmless(saved):
    yard, _, _ = saved()
    yard.repo.git("update-ref", "refs/tug/salvage/work/foreign", yard.start)
    blob = yard.repo.git("hash-object", "-w", "code.txt").strip()
    yard.repo.git("update-ref", "refs/tug/salvage/work/blob", blob)
    names = [each["name"] for each in salvage(yard, "list")["salvages"]]
    assert {"work/foreign", "work/blob"} <= set(names)
    shown = salvage(yard, "show", "foreign")
    assert (shown["files"], shown["base_commit"], shown["plan_path"]) == ([], None, None)
    other = yard.create("--new")
    message = yard.refused("E086", "worktree", "salvage", "apply", "foreign", at=other)
    assert "commits only" in message
    yard.ok("worktree", "salvage", "prune")
    assert "refs/tug/salvage/work/blob" in salvages(yard)


# -- apply -----------------------------------------------------------------------------


def test_apply_brings_everything_into_a_clean_worktree_uncommitted(saved):
    yard, path, ref = saved()
    other = yard.create("--new")
    data = salvage(yard, "apply", ref, at=other)
    assert data["worktree_path"] == str(other)
    assert len(data["files"]) == 8
    assert everything(other) == everything(path)
    assert git("diff", "--cached", "--name-only", cwd=other) == ""
    assert git("rev-parse", "HEAD", cwd=other).strip() == yard.start
    assert ref in salvages(yard)


def test_apply_again_changes_nothing(saved):
    yard, path, ref = saved()
    other = yard.create("--new")
    salvage(yard, "apply", ref, at=other)
    before = everything(other)
    assert salvage(yard, "apply", ref, at=other)["already_there"] is True
    assert everything(other) == before
    # So it is where it came from.
    before = everything(path)
    assert salvage(yard, "apply", ref, at=path)["files"] == []
    assert everything(path) == before


def test_apply_merges_with_what_lies_there_committed_or_not(saved):
    yard, _, ref = saved()
    other = yard.create("--new")
    yard.commit(other, {"elsewhere": "committed\n"})
    (other / "loose").write_text("mine")
    (other / "staged").write_text("mine too")
    git("add", "staged", cwd=other)
    salvage(yard, "apply", ref, at=other)
    found = everything(other)
    assert found["loose"] == (b"mine", False)
    assert found["code.txt"] == (b"changed\n", False)
    assert git("diff", "--cached", "--name-only", cwd=other) == "staged\n"


def test_a_conflict_leaves_the_worktree_as_it_was_and_names_the_files(saved):
    yard, _, ref = saved()
    other = yard.create("--new")
    (other / "code.txt").write_text("something else\n")
    (other / "twice").write_text("mine")
    before, index = everything(other), git("ls-files", "--stage", cwd=other)
    message = yard.refused("E086", "worktree", "salvage", "apply", ref, at=other)
    assert message.endswith("both changed the same lines: code.txt, twice")
    assert everything(other) == before
    assert git("ls-files", "--stage", cwd=other) == index


IN_THE_WAY = {
    "the file itself": ({"twice": "ignored"}, "twice"),
    "a file in an ignored directory": ({"new/deep.bin": "ignored"}, "new/deep.bin"),
    "a file in the place of the directory": ({"new": "ignored"}, "new/deep.bin"),
    "a directory in the place of the file": ({"twice/x": "ignored", "twice/y": "z"}, "twice"),
}


@pytest.mark.parametrize("what", IN_THE_WAY)
def test_an_ignored_file_in_the_way_is_not_overwritten(saved, what):
    yard, _, ref = saved()
    other = yard.create("--new")
    (yard.root / ".git" / "info" / "exclude").write_text("twice\nnew\n/.tugtree/\nother.o\n")
    files, named = IN_THE_WAY[what]
    Repo(other).write(files)
    before = everything(other)
    message = yard.refused("E086", "worktree", "salvage", "apply", ref, at=other)
    assert message.endswith(f"ignored files are in the way, which it would overwrite: {named}")
    assert everything(other) == before


def test_ignored_files_elsewhere_are_no_matter(saved):
    yard, _, ref = saved()
    other = yard.create("--new")
    (yard.root / ".git" / "info" / "exclude").write_text("*.o\n/.tugtree/\n")
    Repo(other).write({"new/x.o": "built", "y.o": "built"})
    salvage(yard, "apply", ref, at=other)
    assert everything(other)["new/x.o"] == (b"built", False)


def test_a_sparse_worktree_gets_what_lies_outside_its_cone(yard):
    yard = yard()
    yard.repo.commit({"in/a": "a\n", "out/b": "b\n"})
    path = held(yard)
    Repo(path).write({"out/b": "changed\n", "out/new": "new\n", "in/a": "also\n"})
    ref = yard.ok(*TAKERS["reset"])["salvage_ref"]
    other = yard.create("--new")
    git("sparse-checkout", "set", "in", cwd=other)
    salvage(yard, "apply", ref, at=other)
    assert (other / "out" / "b").read_text() == "changed\n"
    assert (other / "out" / "new").read_text() == "new\n"
    assert (other / "in" / "a").read_text() == "also\n"


def test_a_file_may_become_a_directory_and_a_link_a_file(yard):
    yard = yard()
    (yard.root / "l").symlink_to("code.txt")
    yard.repo.commit({"thing": "a file\n", "d/inner": "x\n"})
    path = held(yard)
    (path / "thing").unlink()
    (path / "l").unlink()
    subprocess.run(["rm", "-r", str(path / "d")], check=True)
    Repo(path).write({"thing/inside": "y\n", "l": "a file now\n", "d": "a file now too\n"})
    ref = yard.ok(*TAKERS["reset"])["salvage_ref"]
    other = yard.create("--new")
    salvage(yard, "apply", ref, at=other)
    assert everything(other) == everything(path)


def test_apply_is_for_linked_worktrees(saved):
    yard, _, ref = saved()
    message = yard.refused("E035", "worktree", "salvage", "apply", ref)
    assert "is the main worktree" in message
    # Also for work of which no plan is known.
    yard.repo.git("update-ref", "refs/tug/salvage/work/foreign", yard.start)
    yard.refused("E035", "worktree", "salvage", "apply", "foreign")


def test_a_repository_inside_stays_as_it_is(saved):
    yard, _, ref = saved()
    other = yard.create("--new")
    inner = Repo.init(other / "inner")
    head = inner.commit()
    salvage(yard, "apply", ref, at=other)
    assert inner.git("rev-parse", "HEAD").strip() == head
    assert inner.git("status", "--porcelain") == ""
    assert (other / "inner" / "file").read_text() == "x\n"
    for each in salvage(yard, "show", ref)["files"]:
        assert os.path.lexists(other / each["path"]) == (each["status"] != "deleted")


def test_work_saved_before_any_commit_comes_back_too(yard):
    yard = yard()
    path = held(yard)
    git("checkout", "--quiet", "--orphan", "fresh", cwd=path)
    git("rm", "--quiet", "-r", "--cached", ".", cwd=path)
    (path / "first").write_text("x")
    ref = yard.ok(*TAKERS["reclaim"])["salvage_ref"]
    assert {each["path"] for each in salvage(yard, "show", ref)["files"]} == set(tree(yard, ref))
    other = yard.create("--new")
    salvage(yard, "apply", ref, at=other)
    assert (other / "first").read_text() == "x"


# -- prune -----------------------------------------------------------------------------


def land(yard: Yard, path: Path) -> None:
    """Commit what lies there, and merge it."""
    git("add", "--all", cwd=path)
    git("commit", "--quiet", "--message=all of it", cwd=path)
    yard.repo.git("merge", "--quiet", git("rev-parse", "HEAD", cwd=path).strip())


def test_only_what_has_landed_is_dropped(yard):
    yard = yard()
    first = held(yard)
    (first / "one").write_text("1")
    landed = yard.ok(*TAKERS["reset"])["salvage_ref"]
    second = yard.create("--new", "--claim", "--step", "step-2", *SHORT)
    (second / "two").write_text("2")
    kept = yard.ok("state", "reset", "work", "step-2")["salvage_ref"]
    dry = salvage(yard, "prune", "--dry-run")
    assert (dry["pruned"], len(dry["kept"])) == ([], 2)
    land(yard, first)
    dry = salvage(yard, "prune", "--dry-run")
    assert [each["salvage_ref"] for each in dry["pruned"]] == [landed]
    assert set(salvages(yard)) == {landed, kept}
    done = salvage(yard, "prune")
    assert [each["salvage_ref"] for each in done["kept"]] == [kept]
    assert done["kept"][0]["reason"] == "its work is not proven to be on main"
    assert salvages(yard) == [kept]
    refs = {row["salvage_ref"] for row in yard.rows("select salvage_ref from attempts")}
    assert refs == {None, kept}
    assert f"saved work dropped by the main worktree: {landed}" in yard.said("state", "log", "work")
    fsck(yard.root)


def test_what_was_staged_and_is_nowhere_else_keeps_it(yard):
    yard = yard()
    path = held(yard)
    (path / "one").write_text("staged")
    git("add", "one", cwd=path)
    (path / "one").write_text("final")
    ref = yard.ok(*TAKERS["reset"])["salvage_ref"]
    land(yard, path)
    assert salvage(yard, "prune")["pruned"] == []
    assert salvages(yard) == [ref]


def test_a_person_may_drop_what_has_not_landed_by_its_name(saved):
    yard, _, ref = saved()
    commit = yard.repo.git("rev-parse", ref).strip()
    assert salvage(yard, "prune", ref, "--dry-run")["pruned"][0]["salvage_ref"] == ref
    assert salvages(yard) == [ref]
    said = yard.said("worktree", "salvage", "prune", ref)
    assert f"(commit {commit})" in said
    assert salvages(yard) == []


@pytest.mark.proof(share=0)
def test_what_has_not_landed_is_dropped_only_by_its_whole_name(saved):
    yard, _, ref = saved()
    name = ref.removeprefix("refs/tug/salvage/")
    for short in ("work", name[:-1], ref[:-1], name.rpartition("/")[2]):
        for words in ([], ["--dry-run"]):
            said = yard.refused("E085", "worktree", "salvage", "prune", short, *words)
            assert f'"{short}" is short for {name}, which' in said
    assert salvages(yard) == [ref]
    assert salvage(yard, "prune", name)["pruned"][0]["salvage_ref"] == ref


def test_what_has_landed_is_dropped_by_any_name_of_its(yard):
    yard = yard()
    path = held(yard)
    (path / "one").write_text("1")
    ref = yard.ok(*TAKERS["reset"])["salvage_ref"]
    land(yard, path)
    assert salvage(yard, "prune", "work")["pruned"][0]["salvage_ref"] == ref


def test_a_worker_may_not(saved, monkeypatch):
    yard, _, ref = saved()
    monkeypatch.setenv("TUGCODE_ATTEMPT", "1")
    yard.refused("E068", "worktree", "salvage", "prune", ref)
    assert salvages(yard) == [ref]
    assert salvage(yard, "prune")["pruned"] == []


def test_one_wrong_name_and_nothing_is_dropped(saved):
    yard, _, ref = saved()
    yard.refused("E085", "worktree", "salvage", "prune", ref, "nothing-such")


def test_cleanup_and_removal_leave_saved_work_alone(saved):
    yard, path, ref = saved()
    yard.ok("worktree", "remove", path.name, "--force")
    yard.ok("worktree", "cleanup")
    assert ref in salvages(yard)
