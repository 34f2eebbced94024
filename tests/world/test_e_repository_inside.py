"""E: a repository inside a worktree is no number in a commit, and no work is lost for it."""

import shutil

import pytest

from conftest import Repo, git
from support.implement import Play
from support.proving import sampled

#: As tools that set up a project do it, with a commit inside and without.
BARE = "git init -q app && echo x > app/x"
MADE = f"{BARE} && git -C app add x && git -C app commit -q -m x"
KINDS = {"with a commit": MADE, "without": BARE, "staged": f"{MADE} && git add app"}


def files(play: Play, commit: str) -> dict[str, str]:
    """Path -> mode, of a commit."""
    lines = git("ls-tree", "-r", commit, cwd=play.root).splitlines()
    return {line.partition("\t")[2]: line.split()[0] for line in lines}


def reasons(told: list[dict]) -> list[str]:
    return [each["reason"] for each in told if each["event"] == "agent_failed"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_person_is_refused(bench, kind):
    desk = bench("1 t")
    desk.hold("step-1")
    if kind == "without":
        Repo.init(desk.red / "app")
        (desk.red / "app" / "x").write_text("x\n")
    else:
        Repo.init(desk.red / "app").commit()
    if kind == "staged":
        desk.git("add", "app")
    before = desk.head()
    done = desk.commit_json("step-1")
    assert done.codes == ["E080"], done.out
    assert "app" in done.envelope()["issues"][0]["message"]
    assert desk.head() == before
    shutil.rmtree(desk.red / "app" / ".git")
    if kind == "staged":
        desk.git("rm", "--quiet", "--cached", "--force", "app")
    assert [name for name in desk.done("step-1")["files_staged"] if "app" in name]


def test_a_submodule_is_none(bench, tmp_path):
    part = Repo.init(tmp_path / "part")
    part.commit()
    desk = bench("1 t")
    desk.hold("step-1")
    desk.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(part.path), "p")
    assert set(desk.done("step-1")["files_staged"]) >= {".gitmodules", "p"}


@pytest.mark.parametrize("kind", sampled(KINDS, 1))
def test_a_coder_is_told_and_run_again(play, kind):
    play = play("1 t")
    play.rules(
        {"role": "coder", "try": 1, "do": [{"run": KINDS[kind]}]},
        {"role": "coder", "try": 2, "do": [{"run": "rm -rf app/.git"}]},
    )
    status, told = play.run()
    assert (status, len(reasons(told))) == (0, 1), told[-1]
    assert "app" in reasons(told)[0]
    assert files(play, play.commits("step-1")[0])["app/x"] == "100644"
    play.finished()


@pytest.mark.parametrize("kind", sampled(KINDS, 1))
def test_the_work_of_a_coder_that_does_not_mend_it_is_saved(play, kind):
    play = play("1 t")
    acts = [{"write": "own.txt", "text": "hours"}, {"run": f"test -e app || ({KINDS[kind]})"}]
    play.cast(more="tries = 1")
    play.rules(
        {"role": "coder", "attempt": 1, "do": acts},
        {"role": "coder", "attempt": 2, "do": [{"run": "test -e own.txt -a -e app/x"}]},
    )
    status, told = play.run()
    assert status == 0, told[-1]
    assert files(play, play.commits("step-1")[0]).keys() >= {"own.txt", "app/x"}
    # What no commit can hold, the repository itself, is kept beside.
    (kept,) = (play.root / ".git" / "tugtool" / "kept").glob("*/app")
    assert (kept / ".git").is_dir()
    assert str(kept) in str([each["message"] for each in told if each["event"] == "warning"])


@pytest.mark.parametrize("kind", sampled(KINDS, 1))
def test_what_a_reviewer_makes_is_taken_away_and_kept(play, kind):
    play = play("1 t")
    play.rules(
        {"role": "coder", "do": [{"write": "own.txt", "text": "hours"}]},
        {"role": "reviewer", "try": 1, "do": [{"run": KINDS[kind]}]},
    )
    status, told = play.run()
    assert status == 0, told[-1]
    found = files(play, play.commits("step-1")[0])
    assert "own.txt" in found
    assert not [name for name in found if name.startswith("app")]
    (kept,) = (play.root / ".git" / "tugtool" / "kept").glob("*/app")
    assert (kept / "x").read_text() == "x\n"
    assert play.outcomes("step-1") == ["completed"]


def test_a_salvage_has_the_files_of_a_repository_in_a_repository(yard):
    place = yard("1")
    tree = place.create("--claim", "--step", "step-1")
    Repo.init(tree / "app").commit({"one": "1\n"})
    Repo.init(tree / "app" / "inner").write({"two": "2\n"})
    ref = place.ok("state", "reset", "work", "step-1")["salvage_ref"]
    assert place.repo.git("show", f"{ref}:app/one") == "1\n"
    assert place.repo.git("show", f"{ref}:app/inner/two") == "2\n"
    # The commits inside are nowhere else.
    assert "repository of its own" in place.refused(
        "E034", "worktree", "remove", tree.name, "--force"
    )


#: Where an ignore file that is not committed hides the repository, and its path.
HIDING = {
    "at the top": ("echo '*' > .gitignore", "app"),
    "in a directory": ("mkdir out; echo '*' > out/.gitignore; cd out", "out/app"),
}


@pytest.mark.parametrize("kind", ["with a commit", "without"])
@pytest.mark.parametrize("where", HIDING)
def test_a_salvage_has_the_files_of_a_repository_that_git_ignores(play, where, kind):
    play = play("1 t")
    hide, app = HIDING[where]
    acts = [
        {"write": "own.txt", "text": "hours\n"},
        {"run": f"({hide}; echo y > beside; {KINDS[kind]})"},
        {"run": "git -c user.name=x -c user.email=x@x revert --no-commit HEAD"},
    ]
    play.repo.commit({"other.txt": "so that the last commit can be reverted\n"})
    play.rules({"role": "coder", "try": 1, "do": acts})
    status, told = play.run()
    assert (status, play.outcomes("step-1")) == (0, ["completed"]), told[-1]
    [ref] = git("for-each-ref", "--format=%(refname)", "refs/tug/salvage", cwd=play.root).split()
    found = files(play, ref)
    assert ref in reasons(told)[0]
    assert {f"{app}/x", app.replace("app", "beside"), "own.txt"} <= found.keys()
    assert "160000" not in found.values()


def test_a_worktree_stays_in_which_git_ignores_a_repository(play):
    play = play("1 t")
    play.rules({"role": "coder", "do": [{"run": f"echo '*' > .gitignore; {MADE}"}]})
    assert play.run()[0] == 0
    [tree] = play.trees()
    refused = play.tugcode("worktree", "remove", tree.name, "--force")
    assert refused.status == 1
    assert "app is a repository of its own" in refused.out
    assert (tree / "app" / "x").exists()
