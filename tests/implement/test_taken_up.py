"""A run that was killed left work in worktrees: whoever takes its steps, no other step gets it."""

import threading

import pytest

from conftest import git
from implement.test_stop import Bell
from support.implement import Play
from tugtool.implement import recovery, worker

WRITE = {"write": "{step}.txt", "text": "{step}\n"}
WHOLE = {"role": "coder", "do": [WRITE]}


def meets(step: str, other: str) -> dict:
    """A coder that waits for another step's coder."""
    acts = [WRITE, {"touch": f"../../{step}-here"}, {"wait_for": f"../../{other}-here"}]
    return {"role": "coder", "step": step, "do": acts}


FOUR = ("1 t", "2 t", "3 t", "4 t")
#: Each of the last two waits for the other, so each worker has one of them.
MEETING = (meets("step-3", "step-4"), meets("step-4", "step-3"), WHOLE)


class Late:
    """The second worker starts only when the first has completed two steps."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.done, self.may_start = [], threading.Event()
        self._work, self._finished = worker.Worker.work, worker.Worker._finished
        patch.setattr(worker.Worker, "work", lambda one: self._start(one))
        patch.setattr(worker.Worker, "_finished", lambda one, *how: self._end(one, *how))

    def _start(self, one: worker.Worker) -> None:
        if one.number > 1:
            assert self.may_start.wait(60)
        self._work(one)

    def _end(self, one: worker.Worker, work, commit: str) -> None:
        self._finished(one, work, commit)
        self.done.append(work.anchor)
        if len(self.done) == 2:
            self.may_start.set()


@pytest.fixture
def killed(play):
    """A plan whose run was killed while two coders were at work, each with a file half done."""

    def make(*lines: str) -> Play:
        made = play(*lines)
        made.cast("coder", "reviewer", workers=2)
        bell = Bell(made)
        half = {"write": "half-{step}.txt", "text": "half\n"}
        made.rules({"role": "coder", "do": [half, bell.ring(), {"wait_for": "../../go"}]})
        process = made.start()
        bell.heard(2)
        process.kill()
        process.communicate(timeout=60)
        (made.root / "go").touch()
        made.rules(WHOLE)
        return made

    return make


def files_of(play: Play, step: str) -> set[str]:
    """The files of a step's commit, without those of the project."""
    [commit] = play.commits(step)
    words = ("diff-tree", "-r", "--name-only", "--no-commit-id", commit)
    return {name for name in git(*words, cwd=play.root).split() if name.endswith(".txt")}


def whole(step: str) -> set[str]:
    return {f"half-{step}.txt", f"{step}.txt"}


@pytest.mark.proof(share=0)
def test_a_worktree_whose_step_another_worker_took_is_clean_in_the_end(killed, monkeypatch):
    play = killed("1 t", "2 t")
    Late(monkeypatch)
    status, told = play.run()
    assert status == 0
    play.finished(told)
    assert [files_of(play, step) for step in play.steps()] == [whole("step-1"), whole("step-2")]


@pytest.mark.proof(share=0)
def test_another_step_never_gets_the_work_that_lies_in_its_worktree(killed, monkeypatch):
    play = killed(*FOUR)
    late = Late(monkeypatch)
    play.rules(*MEETING)
    status, told = play.run()
    assert status == 0
    play.finished(told)
    assert sorted(late.done[:2]) == ["step-1", "step-2"]
    found = {step: files_of(play, step) for step in play.steps()}
    assert found == {
        "step-1": whole("step-1"),
        "step-2": whole("step-2"),
        "step-3": {"step-3.txt"},
        "step-4": {"step-4.txt"},
    }


@pytest.mark.proof(share=0)
def test_a_worktree_whose_work_no_ref_holds_is_left_as_it_is(killed, monkeypatch):
    play = killed(*FOUR)
    late = Late(monkeypatch)
    play.rules(*MEETING)
    monkeypatch.setattr(recovery, "_is_saved", lambda *_: False)
    status, _ = play.run()
    assert status == 0
    [left] = [tree for tree in play.trees() if git("status", "--porcelain", cwd=tree)]
    name = f"half-{late.done[1]}.txt"
    assert git("status", "--porcelain", cwd=left) == f"?? {name}\n"
    assert (left / name).read_text() == "half\n"
    assert [files_of(play, step) for step in ("step-3", "step-4")] == [
        {"step-3.txt"},
        {"step-4.txt"},
    ]
