"""A run that is stopped, killed or asked: nothing stays claimed, and the next one goes on."""

import ctypes
import os
import select
import signal
import subprocess

import pytest

from conftest import git
from support.implement import events, kinds
from support.proving import sampled
from support.terminals import PATIENCE_SECONDS, Terminal, tugcode
from tugtool.system import clock, crash

#: Of the system; knows how to signal one thread of a process.
LIBRARY = ctypes.CDLL(None)


@pytest.fixture
def play(play):
    def make(*lines: str):
        made = play(*(lines or ("1 t", "2 t < 1")))
        made.cast("coder", "reviewer")
        return made

    return make


def until(process, event: str) -> list[dict]:
    """Read a run's events until one of that kind has come."""
    told: list[dict] = []
    while not told or told[-1]["event"] != event:
        line = process.stdout.readline()
        assert line, (told, process.stderr.read())
        told += events(line)
    return told


class Bell:
    """A FIFO that agents ring; whoever listens waits, and not for ever."""

    def __init__(self, play) -> None:
        self.path = play.root.parent / "bell"
        os.mkfifo(self.path)
        # To write as well: so it has no end between two that ring.
        self.end = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)

    def ring(self) -> dict:
        return {"tell": str(self.path)}

    def heard(self, times: int = 1) -> None:
        """Until it has rung as often."""
        rung = b""
        while rung.count(b"\n") < times:
            assert select.select([self.end], [], [], PATIENCE_SECONDS)[0], "nobody has rung"
            rung += os.read(self.end, 4096)


class Gate:
    """A point at which a run waits until it is let go on."""

    def __init__(self, play, point: str) -> None:
        self.path = play.root.parent / "gate"
        os.mkfifo(self.path)
        #: For the environment of the run.
        self.asked = f"{point}@{self.path}"
        self._end: int | None = None

    def reached(self, process) -> None:
        """Until the run has come there."""
        for last in clock.tries(PATIENCE_SECONDS):
            try:
                # Refused for as long as nobody reads.
                self._end = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
                return
            except OSError:
                ended = process.poll()
                assert ended is None, (ended, process.communicate())
                assert not last, "it was not reached"

    def let_go(self) -> None:
        """It goes on; whoever comes there later does not wait."""
        self.path.unlink()
        os.close(self._end)


@pytest.fixture
def hanging():
    """A run whose coder has written something and does not come back."""
    started: list[subprocess.Popen] = []

    def start(play, *before: dict) -> subprocess.Popen:
        bell = Bell(play)
        acts = [*before, {"write": "half", "text": "x"}, bell.ring(), {"hang": True}]
        play.rules({"role": "coder", "step": "step-1", "attempt": 1, "do": acts})
        started.append(play.start())
        bell.heard()
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.proof(share=0)
@pytest.mark.parametrize(
    ("number", "status"),
    sampled([(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], 2),
)
def test_a_signal_ends_a_run_cleanly_and_the_next_goes_on_where_it_stopped(
    play, hanging, number, status
):
    play = play()
    process = hanging(play)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (status, "")
    told = events(out)
    assert told[-1]["status"] == "stopped"
    assert play.held() == []
    assert play.outcomes("step-1") == ["released"]
    [tree] = play.trees()
    assert git("status", "--porcelain", cwd=tree) == ""
    code, told = play.run()
    assert (code, "resumed" in kinds(told)) == (0, True)
    play.finished()
    [commit] = play.commits("step-1")
    assert "half" in git("show", "--name-only", "--format=", commit, cwd=play.root).split()
    assert len(play.trees()) == 1


@pytest.mark.proof(share=0)
def test_a_second_signal_ends_it_at_once(play, hanging):
    play = play()
    process = hanging(play, {"ignore": ["TERM"]})
    process.send_signal(signal.SIGINT)
    until(process, "stopping")
    # Its agent takes no notice and is waited for; the second does not wait.
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert play.held() == ["step-1"]
    assert play.run()[0] == 0
    play.finished()


@pytest.mark.proof(share=0)
def test_a_run_that_is_killed_leaves_its_agents_no_life_and_its_work_to_the_next(play, hanging):
    play = play()
    process = hanging(play)
    process.kill()
    process.communicate()
    [tree] = play.trees()
    assert (tree / "half").exists()
    play.rules()
    code, told = play.run()
    assert code == 0
    [claim, *_] = [each for each in told if each["event"] == "claimed"]
    assert (claim["reclaimed"], claim["worktree_path"]) == (True, str(tree))
    assert play.outcomes("step-1") == ["dead", "completed"]
    play.finished()
    [commit] = play.commits("step-1")
    assert "half" in git("show", "--name-only", "--format=", commit, cwd=play.root).split()


#: Those of `implement` itself: tests/implement/test_again.py. No log is long enough for one.
POINTS = [p for p in crash.POINTS if p.startswith("commit.") and p != "commit.rotated"]


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("point", sampled(POINTS, 2))
def test_a_run_that_dies_while_it_commits_is_finished_by_the_next(play, point):
    play = play("1 tc", "2 t < 1")
    process = play.start(TUGCODE_CRASH_AT=point)
    process.communicate(timeout=60)
    assert process.returncode == -9
    code, told = play.run()
    assert code == 0
    play.finished(told)
    assert len(play.trees()) == 1


@pytest.mark.proof(share=0)
def test_fewer_workers_finish_what_more_had_begun(play):
    play = play("1 t", "2 t", "3 t < 1 2")
    bell = Bell(play)
    act = [{"write": "half-{step}", "text": "x"}, bell.ring(), {"hang": True}]
    play.rules({"role": "coder", "attempt": 1, "step": ["step-1", "step-2"], "do": act})
    process = play.start("--workers", 2)
    bell.heard(2)
    process.kill()
    process.communicate()
    code, _ = play.run()
    assert code == 0
    assert set(play.steps().values()) == {"completed"}
    for step in ("step-1", "step-2"):
        [commit] = play.commits(step)
        names = git("show", "--name-only", "--format=", commit, cwd=play.root).split()
        assert f"half-{step}" in names


@pytest.mark.proof(share=0)
def test_a_worktree_with_unfinished_work_is_taken_before_one_without(play):
    play = play("1 t", "2 t")
    bell = Bell(play)
    line = f"case $TUGCODE_WORKTREE in *-2) echo > half; echo > {bell.path}; exec sleep 1000;; esac"
    play.rules({"role": "coder", "attempt": 1, "do": [{"run": line}]})
    process = play.start("--workers", 2)
    until(process, "completed")
    bell.heard()
    process.kill()
    process.communicate()
    status, told = play.run()
    assert status == 0
    [claim] = [each for each in told if each["event"] == "claimed"]
    assert claim["worktree_path"].endswith("-2")
    play.finished()


@pytest.mark.proof(share=0)
def test_a_run_waits_for_a_step_that_another_process_holds(play):
    play = play("1 t", "2 t < 1")
    play.ok("state", "init", "work")
    claim = play.ok("state", "claim", "work", "--worktree", "elsewhere")
    process = play.start()
    until(process, "started")
    words = ("--worktree", "elsewhere", "--attempt", claim["attempt"])
    play.ok("state", "complete", "work", "step-1", "--force", "by hand", *words)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert play.calls("coder") == ["coder step-2 1"]


@pytest.fixture
def terminal(play):
    made: list[Terminal] = []

    def start(play) -> Terminal:
        made.append(Terminal(tugcode("implement", "work", at=play.root), lines=40))
        return made[-1]

    yield start
    for each in made:
        each.close()


@pytest.mark.proof(share=0)
def test_on_a_terminal_a_person_is_asked_and_answers(play, terminal):
    play = play("1 t")
    play.rules({"role": "reviewer", "times": 1, "answer": {"recommendation": "ESCALATE"}})
    shown = terminal(play)
    shown.until_text("what now? [retry/park/stop]")
    shown.press("retry\n")
    assert shown.end() == 0
    play.finished()
    assert len(play.calls("coder")) == 2


@pytest.mark.proof(share=0)
def test_an_answer_on_the_terminal_is_handed_to_the_agent(play, terminal):
    play = play("1 t")
    play.rules({"role": "reviewer", "times": 1, "answer": {"recommendation": "ESCALATE"}})
    shown = terminal(play)
    shown.until_text("what now? [retry/park/stop]")
    shown.press("retry use port 80\n")
    assert shown.end() == 0
    notes = [note["summary"] for note in play.artifacts("note")]
    assert "a person answered: retry: use port 80" in notes
    given = play._tugcode("-C", play.root, "transcript", "work", "step-1", "--role", "coder").out
    assert "a person answered: use port 80" in given


@pytest.mark.proof(share=0)
def test_a_question_that_nobody_answers_parks_its_step_and_is_seen_everywhere_until_then(
    play, terminal
):
    play = play("1 t")
    play.rules({"role": "reviewer", "times": 1, "answer": {"recommendation": "ESCALATE"}})
    play.cast(question_seconds=4)
    shown = terminal(play)
    shown.until_text("what now? [retry/park/stop]")
    [asked] = play.ok("state", "review")["questions"]
    assert asked["reason"].startswith("the reviewer asks for a person")
    shown_page = play._tugcode("-C", play.root, "state", "review").out
    assert shown_page.startswith("? step-1 of work waits for you\n")
    [need] = play.ok("status")["needs_you"]
    assert (need["what"], need["command"]) == ("question", "tugcode review work")
    assert shown.end() == 1
    assert play.ok("state", "review")["questions"] == []
    assert play.ok("state", "review")["parked_count"] == 1


@pytest.mark.proof(share=0)
def test_what_a_person_does_while_asked_is_not_undone_with_what_an_agent_did(play, terminal):
    play = play("1 t")
    play.rules(
        {"role": "reviewer", "times": 1, "answer": {"recommendation": "ESCALATE"}},
        {"role": "coder", "times": 1, "do": [{"write": "one.txt", "text": ""}]},
        {"role": "coder", "times": 1, "do": [{"run": "git checkout --quiet -b other"}]},
    )
    shown = terminal(play)
    shown.until_text("what now? [retry/park/stop]")
    (play.trees()[0] / "person.txt").write_text("by hand\n")
    shown.press("retry\n")
    assert shown.end() == 0
    assert len(play.calls("coder")) == 3
    [commit] = play.commits("step-1")
    assert git("show", f"{commit}:person.txt", cwd=play.root) == "by hand\n"


@pytest.mark.proof(share=0)
def test_on_a_terminal_the_picture_shows_what_each_worker_is_at(play, terminal):
    play = play("1 t")
    play.rules({"role": "coder", "do": [{"wait_for": "../../go"}]})
    shown = terminal(play)
    shown.until_text("→ 1  Part 1  coder ")
    (play.root / "go").touch()
    assert shown.end() == 0
    assert "done: 1 of 1 step" in shown.display.text


@pytest.mark.proof(share=0)
def test_two_runs_share_a_plan_and_one_of_them_concludes_it(play):
    play = play("1 t", "2 t", "3 t", "4 t < 1 2 3")
    play.cast("coder", "reviewer", "auditor")
    both = [play.start("--workers", 2) for _ in range(2)]
    ends = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0], ends
    play.finished()
    assert len(play.calls("coder")) == len(play.calls("reviewer")) == 4
    assert len(play.calls("auditor")) == 1
    [note] = play.artifacts("auditor_summary")
    assert note["step_anchor"] == "step-4"


@pytest.mark.proof(share=0)
def test_a_run_goes_on_when_nobody_reads_of_it(play):
    play = play("1 t", "2 t < 1")
    process = play.start()
    until(process, "started")
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert process.stderr.read() == ""
    process.stderr.close()
    play.finished()


@pytest.mark.skipif(not hasattr(LIBRARY, "tgkill"), reason="only Linux lets us choose a thread")
def test_an_interrupt_that_another_thread_gets_is_heard_too(play):
    """As one that comes a moment before the first thread begins to wait: it wakes nobody."""
    play = play("1 t")
    bell = Bell(play)
    play.rules({"role": "coder", "try": 1, "do": [bell.ring(), {"hang": True}]})
    process = play.start()
    bell.heard()
    other = next(n for n in os.listdir(f"/proc/{process.pid}/task") if int(n) != process.pid)
    LIBRARY.tgkill(process.pid, int(other), signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    assert events(out)[-1]["status"] == "stopped"
    assert play.held() == []


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("hook", ["pre-commit", "post-commit"])
def test_an_interrupt_that_also_reaches_git_stops_the_run_and_parks_nothing(play, hook):
    play = play("1 t", "2 t < 1")
    bell = Bell(play)
    hooks = play.root / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / hook).write_text(f"#!/bin/sh\necho here > {bell.path}\nexec sleep 1000\n")
    (hooks / hook).chmod(0o755)
    process = play.start()
    bell.heard()
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    assert events(out)[-1]["status"] == "stopped"
    assert play.held() == []
    assert play.rows("select * from steps where parked_at <> ''") == []
    (hooks / hook).unlink()
    assert play.run()[0] == 0
    play.finished()


@pytest.mark.proof(share=0)
def test_a_run_that_is_killed_together_with_its_git_is_finished_by_the_next(play):
    play = play("1 t", "2 t < 1")
    hook = play.root / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    # As in a power cut: git had locked the index, and a file was half-written.
    leave = "cp $GIT_DIR/index $GIT_DIR/index.lock; echo x > .tugtool/.tug-0123456789ab.tmp"
    hook.write_text(f"#!/bin/sh\n{leave}\nkill -9 0\n")
    hook.chmod(0o755)
    process = play.start()
    process.communicate(timeout=60)
    assert process.returncode == -9
    [tree] = play.trees()
    assert (play.root / ".git" / "worktrees" / tree.name / "index.lock").exists()
    hook.unlink()
    code, told = play.run()
    assert code == 0, told
    play.finished(told)
    [commit] = play.commits("step-1")
    assert "tmp" not in git("ls-tree", "-r", "--name-only", commit, cwd=play.root)


def test_a_run_that_is_to_outlive_its_terminal_does_so(play, hanging, monkeypatch):
    play = play("1 t")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = hanging(play)
    finally:
        signal.signal(signal.SIGHUP, before)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    [stopping] = [each for each in events(out) if each["event"] == "stopping"]
    assert (stopping["signal"], process.returncode) == (signal.SIGTERM, 143)


def test_on_a_terminal_the_picture_says_that_it_is_stopping(play, terminal):
    play = play("1 t")
    bell = Bell(play)
    acts = [{"ignore": ["TERM"]}, bell.ring(), {"hang": True}]
    play.rules({"role": "coder", "attempt": 1, "do": acts})
    shown = terminal(play)
    bell.heard()
    shown.until_text("→ 1  Part 1  coder ")
    shown.press("\x03")
    shown.until_text("again ends it at once")
    assert shown.end() == 130


@pytest.mark.proof(share=0)
def test_on_a_terminal_a_person_is_asked_when_an_agent_fails_twice(play, terminal):
    play = play("1 t")
    play.cast("coder", "reviewer", more="tries = 1")
    play.rules({"role": "coder", "times": 2, "rubbish": True})
    shown = terminal(play)
    shown.until_text("(in a second attempt as well)")
    shown.until_text("what now? [retry/park/stop]")
    shown.press("retry\n")
    assert shown.end() == 0
    assert play.outcomes("step-1") == ["failed", "completed"]
    play.finished()
