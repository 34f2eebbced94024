"""D: an agent hides files from git with ignore files; the work is committed, or a note names it."""

import pytest

from conftest import git
from support.implement_aftermath import aftermath
from support.proving import sampled

MADE = "out/made.txt"
CODER = {"role": "coder", "do": [{"write": MADE, "text": "work\n"}]}
#: What a reviewer leaves, and where.
HIDING = {
    "at the top": [{"write": ".gitignore", "text": "*\n"}],
    "in the directory": [{"write": "out/.gitignore", "text": "*\n"}],
    "with files of its own": [
        {"write": "out/.gitignore", "text": "*\n"},
        {"write": "out/report.xml", "text": "report\n"},
    ],
    "by a pattern": [{"write": ".gitignore", "text": "/.gitignore\nmade.*\n"}],
}


def committed(play, step: str = "step-1") -> list[str]:
    [commit] = play.commits(step)
    return git("ls-tree", "-r", "--name-only", commit, cwd=play.root).split()


@pytest.mark.parametrize("where", sampled(HIDING, 2))
def test_what_a_reviewer_hides_from_git_is_committed_all_the_same(play, where):
    play = play("1 t")
    play.rules(CODER, {"role": "reviewer", "do": HIDING[where]})
    status, told = play.run()
    assert status == 0
    assert MADE in committed(play)
    assert "out/report.xml" not in committed(play)
    aftermath(play, told)


def test_an_ignore_file_of_a_reviewer_is_taken_away_and_kept(play):
    play = play("1 t")
    play.rules(CODER, {"role": "reviewer", "do": HIDING["with files of its own"]})
    _, told = play.run()
    [tree] = play.trees()
    assert sorted(path.name for path in (tree / "out").iterdir()) == ["made.txt"]
    refs = git("for-each-ref", "--format=%(refname)", "refs/tug/salvage", cwd=play.root).split()
    kept = [git("ls-tree", "-r", "--name-only", ref, cwd=play.root).split() for ref in refs]
    assert any("out/.gitignore" in names for names in kept)
    assert any("out/report.xml" in names for names in kept)
    assert any("out/.gitignore" in each.get("message", "") for each in told)


def test_an_ignore_file_that_hides_no_work_stays(play):
    play = play("1 t")
    cache = [{"write": ".cache/.gitignore", "text": "*\n"}, {"write": ".cache/x", "text": "x\n"}]
    play.rules(CODER, {"role": "reviewer", "do": cache})
    status, told = play.run()
    assert (status, [each for each in told if each["event"] == "warning"]) == (0, [])
    assert (play.trees()[0] / ".cache" / "x").exists()


def test_what_a_coder_leaves_and_git_ignores_is_named_in_a_note(play):
    play = play("1 t", "2 t < 1")
    acts = [*CODER["do"], *HIDING["in the directory"], {"write": "seen.txt", "text": "seen\n"}]
    # It does not say what it made.
    answer = {"files_created": ["seen.txt"], "files_modified": []}
    play.rules({"role": "coder", "step": "step-1", "do": acts, "answer": answer})
    status, _ = play.run()
    assert status == 0
    said = [note for note in play.artifacts("note") if "git ignores it" in note["summary"]]
    assert [(note["step_anchor"], note["content"]) for note in said] == [("step-1", "out/")]


def hidden(play) -> str:
    """A plan that is done, whose coder has hidden its own work; the name of its worktree."""
    play.rules({"role": "coder", "do": [*CODER["do"], *HIDING["in the directory"]]})
    assert play.run()[0] == 0
    [tree] = play.trees()
    return tree.name


def test_merge_leaves_a_worktree_in_which_git_hides_work(play):
    play = play("1 t")
    name = hidden(play)
    [left] = play.ok("merge", "work")["left"]
    assert left["worktree_path"].endswith(name)
    assert left["reason"] == "git hides work there by ignore files that are not committed: out/"
    assert (play.trees()[0] / MADE).read_text() == "work\n"


def test_a_forced_removal_saves_what_git_hides(play):
    play = play("1 t")
    name = hidden(play)
    play.ok("merge", "work")
    refused = play.tugcode("worktree", "remove", name)
    assert refused.status == 1
    assert "git hides work there" in refused.out
    done = play.ok("worktree", "remove", name, "--force")
    assert git("show", f"{done['salvage_ref']}:{MADE}", cwd=play.root) == "work\n"
    assert play.trees() == []


@pytest.mark.parametrize("mark", ["CACHEDIR.TAG", "pyvenv.cfg"])
def test_a_cache_that_says_so_goes_with_the_worktree(play, mark):
    play = play("1 t")
    cache = [{"write": ".cache/.gitignore", "text": "*\n"}, {"write": f".cache/{mark}", "text": ""}]
    play.rules({"role": "coder", "do": [*CODER["do"], *cache]})
    assert play.run()[0] == 0
    assert play.ok("merge", "work")["left"] == []
    assert play.trees() == []


def test_what_a_committed_rule_ignores_goes_with_the_worktree(play):
    play = play("1 t")
    play.repo.commit({".gitignore": "*.pyc\n/build/\n"})
    built = [{"write": name, "text": "x"} for name in ("a.pyc", "cache/b.pyc", "build/c")]
    play.rules({"role": "coder", "do": [*CODER["do"], *built]})
    assert play.run()[0] == 0
    assert play.ok("merge", "work")["left"] == []
