"""W: in a sparse checkout a step commits what lies outside its cone, and a hidden plan is named."""

import pytest

from conftest import Repo, git

OUTSIDE = {"role": "coder", "do": [{"write": "docs/new.md", "text": "x\n"}]}


def test_a_step_whose_files_lie_outside_the_cone_is_done(play):
    play = play("1 t", "2 t < 1")
    play.repo.commit({"src/a": "1\n", "docs/b": "2\n"})
    play.repo.git("sparse-checkout", "set", ".tugtool", "src")
    play.rules(OUTSIDE)
    status, told = play.run()
    assert (status, play.outcomes("step-1")) == (0, ["completed"]), told[-1]
    names = git("ls-tree", "-r", "--name-only", play.commits("step-1")[0], cwd=play.root)
    assert {"docs/new.md", "docs/b"} <= set(names.split())
    play.finished()


def test_a_commit_by_hand_takes_what_lies_outside_the_cone(bench):
    desk = bench("1 t")
    desk.repo.commit({"src/a": "1\n", "docs/b": "2\n"})
    desk.git("merge", "--quiet", "main")
    desk.git("sparse-checkout", "set", ".tugtool", "src")
    desk.hold("step-1")
    desk.write({"docs/new.md": "x\n"})
    assert set(desk.done("step-1")["files_staged"]) == {"docs/new.md", ".tugtool/log.md"}


@pytest.mark.parametrize("state", [False, True])
def test_a_cone_without_the_plans_is_named(yard, state):
    place = yard("1")
    place.repo.commit({"src/a": "1\n"})
    if state:
        place.ok("init")
        place.repo.commit()
    place.repo.git("sparse-checkout", "set", "src")
    for words in (("list",), ("status",)):
        done = place.run(*words)
        assert (done.status, done.codes) == (0, ["W117"])
        (issue,) = done.envelope()["issues"]
        assert issue["hint"] == "git sparse-checkout add .tugtool"
    for words in (("plan", "show"), ("plan", "show", "work"), ("state", "claim", "work")):
        done = place.run(*words)
        assert done.codes == ["E041"], done.out
        (issue,) = done.envelope()["issues"]
        assert issue["hint"] == "git sparse-checkout add .tugtool"
        assert "sparse" in issue["message"]
    place.repo.git("sparse-checkout", "add", ".tugtool")
    assert place.run("list").codes == []
    place.ok("plan", "show", "work")


def test_without_a_cone_nothing_is_said_of_one(yard):
    place = yard("1")
    Repo(place.root).git("sparse-checkout", "set", "src")
    Repo(place.root).git("sparse-checkout", "disable")
    place.plan.unlink()
    assert place.run("list").codes == []
