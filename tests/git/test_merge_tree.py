"""Whether a branch's work is on its base: merged, squashed, rebased or picked; and never else."""

import pytest

from conftest import Repo
from tugtool.git import merge_tree
from tugtool.workflow.commit import log

LINES = [f"line {n}\n" for n in range(30)]


def text(**changed: str) -> str:
    """Thirty lines, some of them changed: `text(l3="x")`."""
    lines = list(LINES)
    for name, line in changed.items():
        lines[int(name[1:])] = line + "\n"
    return "".join(lines)


@pytest.fixture
def fork(repo) -> Repo:
    """A branch `side` with two commits, and one commit on main since they parted."""
    repo.commit({"a.txt": text(), "b.txt": "b\n"})
    repo.git("checkout", "--quiet", "-b", "side")
    repo.commit({"a.txt": text(l3="side 1")})
    repo.commit({"a.txt": text(l3="side 1", l20="side 2"), "c.txt": "new\n"})
    repo.git("checkout", "--quiet", "main")
    repo.commit({"b.txt": "b on main\n"})
    return repo


def says(repo: Repo, tip: str = "side", base: str = "main") -> bool:
    tip, base = (repo.git("rev-parse", name).strip() for name in (tip, base))
    return merge_tree.has_landed(str(repo.path), tip, base, log.repaired, log.PATH)


def squash(repo: Repo) -> None:
    repo.git("merge", "--quiet", "--squash", "side")
    repo.git("commit", "--quiet", "--message=squashed")


def rebase(repo: Repo) -> None:
    repo.git("checkout", "--quiet", "-b", "rebased", "side")
    repo.git("rebase", "--quiet", "main")
    repo.git("checkout", "--quiet", "main")
    repo.git("merge", "--quiet", "--ff-only", "rebased")


def merge(repo: Repo) -> None:
    repo.git("merge", "--quiet", "--no-edit", "side")


def pick(repo: Repo) -> None:
    """One by one, and main changes the same place in between."""
    repo.git("cherry-pick", "side~1")
    repo.commit({"a.txt": text(l3="main went on")})
    repo.git("cherry-pick", "side")


LANDINGS = [merge, squash, rebase, pick]


@pytest.mark.parametrize("land", LANDINGS, ids=lambda land: land.__name__)
def test_what_was_brought_over_has_landed(fork, land):
    assert not says(fork)
    land(fork)
    assert says(fork)


@pytest.mark.parametrize("land", LANDINGS, ids=lambda land: land.__name__)
def test_it_has_landed_also_when_main_went_on_in_the_same_lines(fork, land):
    land(fork)
    fork.commit({"a.txt": text(l3="main went on", l20="main went on too"), "c.txt": "other\n"})
    assert says(fork)


@pytest.mark.parametrize("land", LANDINGS, ids=lambda land: land.__name__)
def test_one_commit_more_has_not_landed(fork, land):
    land(fork)
    fork.git("checkout", "--quiet", "side")
    fork.commit({"d.txt": "after the merge\n"})
    fork.git("checkout", "--quiet", "main")
    assert not says(fork)


def test_half_of_it_has_not_landed(fork):
    fork.git("cherry-pick", "side~1")
    assert not says(fork)


def test_the_same_but_for_blanks_has_not_landed(repo):
    """Patch ids leave blanks out, and in some languages those are the work."""
    repo.commit({"a.py": "if x:\n    one()\n    two()\n"})
    repo.git("checkout", "--quiet", "-b", "side")
    repo.commit({"a.py": "if x:\n    one()\n    two()\nthree()\n"})
    repo.git("checkout", "--quiet", "main")
    repo.commit({"a.py": "if x:\n    one()\n    two()\n    three()\n"})
    assert "- " in repo.git("cherry", "main", "side")
    assert not says(repo)


def test_only_a_mode_that_differs_has_not_landed(repo):
    repo.commit({"a.sh": "echo\n"})
    repo.git("checkout", "--quiet", "-b", "side")
    repo.git("update-index", "--chmod=+x", "a.sh")
    repo.git("commit", "--quiet", "--message=mode")
    repo.git("checkout", "--quiet", "--force", "main")
    repo.commit({"b.txt": "x"})
    assert not says(repo)


def test_commits_that_change_nothing_together_have_not_landed(fork):
    fork.git("checkout", "--quiet", "-b", "empty", "main")
    fork.git("commit", "--quiet", "--allow-empty", "--message=evidence")
    fork.git("checkout", "--quiet", "-b", "undone", "main")
    fork.commit({"idea.txt": "good\n"})
    fork.git("revert", "--no-edit", "HEAD")
    assert not says(fork, "empty")
    assert not says(fork, "undone")


def test_a_merge_that_holds_work_of_its_own_has_not_landed_with_its_parts(fork):
    fork.git("checkout", "--quiet", "-b", "evil", "side")
    fork.git("merge", "--quiet", "--no-commit", "main")
    fork.write({"evil.txt": "only in the merge\n"})
    fork.git("add", "--all")
    fork.git("commit", "--quiet", "--message=evil merge")
    fork.git("checkout", "--quiet", "main")
    pick(fork)
    assert says(fork)
    assert not says(fork, "evil")


def test_a_plain_merge_on_the_branch_is_no_obstacle_to_picked_commits(fork):
    fork.git("checkout", "--quiet", "side")
    fork.git("merge", "--quiet", "--no-edit", "main")
    fork.git("checkout", "--quiet", "main")
    fork.git("cherry-pick", "side^1~1")
    fork.commit({"a.txt": text(l3="main went on")})
    fork.git("cherry-pick", "side^1")
    assert says(fork)


def test_binary_files_count_by_their_bytes(repo):
    repo.commit({"a.bin": b"\0one"})
    repo.git("checkout", "--quiet", "-b", "side")
    repo.commit({"a.bin": b"\0two"})
    repo.git("checkout", "--quiet", "main")
    repo.commit({"a.bin": b"\0six"})
    assert not says(repo)
    repo.commit({"a.bin": b"\0two", "b.txt": "x"})
    assert says(repo)


def test_histories_without_a_common_commit_prove_nothing(repo):
    repo.git("checkout", "--quiet", "--orphan", "side")
    repo.commit({"file": "y\n"})
    assert not says(repo)


def test_many_paths_are_looked_for_without_a_filter(fork, monkeypatch):
    squash(fork)
    fork.commit({"a.txt": text(l3="main went on")})
    monkeypatch.setattr(merge_tree, "MOST_PATHS", 1)
    assert says(fork)


@pytest.mark.parametrize("name", [":(top)x", "[a]*", "-x", "ö \n\t'"])
def test_names_that_look_like_patterns_are_names(repo, name):
    repo.git("checkout", "--quiet", "-b", "side")
    repo.commit({name: "1\n"})
    repo.commit({name: "1\n2\n"})
    repo.git("checkout", "--quiet", "main")
    repo.commit({"b.txt": "x"})
    assert not says(repo)
    squash(repo)
    repo.commit({name: "changed later\n"})
    assert says(repo)
