"""Commands of somebody else's: what they print is kept, and nothing of them stays behind.

Whether a process is gone is seen at a FIFO that it holds open: its end is the end of all.
"""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.lines import FAMILY, PATIENCE_SECONDS, Line, sh
from support.racing import until
from tugtool.errors import CannotRun
from tugtool.system import command as system_command
from tugtool.system import process_group
from tugtool.system.command import Flow, Kept, Streams


@pytest.fixture
def line(tmp_path):
    made = Line(tmp_path / "line")
    yield made
    os.close(made.reader)


def kept(script: str, *words: object, cwd: Path, **how) -> system_command.Child:
    limits = {key: how.pop(key) for key in ("limit_seconds", "grace_seconds") if key in how}
    return system_command.run(
        sh(script, *words), cwd=str(cwd), streams=Streams.keep(**how), **limits
    )


def test_what_a_command_prints_is_kept_apart_and_its_status_is_told(tmp_path):
    done = kept("echo out; echo err >&2; exit 3", cwd=tmp_path)
    assert (done.status, done.out.text(), done.err.text()) == (3, "out\n", "err\n")
    assert not done.timed_out


def test_merged_streams_keep_their_order(tmp_path):
    done = kept("echo 1; echo 2 >&2; echo 3", cwd=tmp_path, merged=True)
    assert (done.out.text(), done.err.text()) == ("1\n2\n3\n", "")


def test_it_runs_where_and_with_what_it_is_told(tmp_path):
    (tmp_path / "there").mkdir()
    env = {"PATH": os.environ["PATH"], "COLOUR": "red"}
    words = sh("pwd; echo $COLOUR; echo ${HOME-none}")
    done = system_command.run(words, cwd=str(tmp_path / "there"), env=env, streams=Streams.keep())
    assert done.out.text() == f"{tmp_path}/there\nred\nnone\n"


def test_all_that_is_given_is_read_and_then_there_is_an_end(tmp_path):
    given = bytes(range(256)) * 8192  # more than any pipe holds, both ways
    done = system_command.run(
        ["cat"], cwd=str(tmp_path), streams=Streams.keep(given=given, head=1 << 22)
    )
    assert done.out.head == given


def test_what_nobody_reads_does_not_stop_anything(tmp_path):
    done = kept("exec <&-; echo fine", cwd=tmp_path, given=b"x" * 1_000_000)
    assert (done.status, done.out.text()) == (0, "fine\n")


def test_a_flood_is_kept_within_bounds_and_its_size_is_told(tmp_path):
    flood = "i=0; while [ $i -lt 20000 ]; do echo $i; i=$((i+1)); done"
    done = kept(flood, cwd=tmp_path, head=10, tail=12)
    assert (done.out.head, done.out.tail) == (b"0\n1\n2\n3\n4\n", b"19998\n19999\n")
    assert done.out.total == sum(len(f"{n}\n") for n in range(20000))
    assert done.out.text() == f"0\n1\n2\n3\n4\n\n[{done.out.total - 22} bytes left out]\n" + (
        "19998\n19999\n"
    )


def test_memory_is_bounded_whatever_comes():
    much = Kept(10, 100)
    for _ in range(1000):
        much.add(b"x" * 10_000)
        assert len(much._tail) <= 100_000
    assert (len(much.head), len(much.tail), much.dropped) == (10, 100, 10_000_000 - 110)
    nothing = Kept(0, 0)
    nothing.add(b"x" * 100_000)
    assert (nothing.head, nothing.tail, nothing.dropped) == (b"", b"", 100_000)


def test_a_command_that_was_killed_is_told_as_shells_tell_it(tmp_path):
    done = kept("kill -9 $$", cwd=tmp_path)
    assert (done.status, done.killed_by) == (137, 9)


def test_a_command_that_is_missing_or_cannot_be_run_is_refused(tmp_path):
    (tmp_path / "plain").write_text("no program\n")
    (tmp_path / "odd").write_bytes(b"\x00\x01")
    (tmp_path / "odd").chmod(0o755)
    for command, status in (("no-such-command", 127), ("./plain", 126), ("./odd", 126)):
        with pytest.raises(CannotRun, match=command) as refused:
            system_command.start([command], cwd=str(tmp_path))
        assert refused.value.exit_status == status
    with pytest.raises(CannotRun, match="gone"):
        system_command.start(["true"], cwd=str(tmp_path / "gone"))
    with pytest.raises(CannotRun, match="null"):
        system_command.start(["a\0b"], cwd=str(tmp_path))


def test_a_refused_command_leaves_no_guardian_behind(tmp_path):
    groups = []
    with pytest.raises(CannotRun):
        system_command.start(["no-such-command"], cwd=str(tmp_path), before=groups.append)
    assert process_group.members(groups[0]) == set()


def test_when_its_time_is_up_it_is_stopped(tmp_path):
    done = kept("exec sleep 1000", cwd=tmp_path, limit_seconds=0.1)
    assert (done.timed_out, done.status, done.killed_by) == (True, 143, signal.SIGTERM)


def test_a_command_is_stopped_with_its_family(tmp_path, line):
    with system_command.start(sh(FAMILY, line.path), cwd=str(tmp_path)) as running:
        line.said()
    assert running.killed_by == signal.SIGTERM
    line.ended()


def test_what_ignores_being_asked_is_killed_after_a_while(tmp_path, line):
    deaf = sh("trap '' TERM; " + FAMILY, line.path)
    with system_command.start(deaf, cwd=str(tmp_path)) as running:
        line.said()
        running.stop(grace_seconds=0.2)
    assert running.killed_by == signal.SIGKILL
    line.ended()


def test_a_deaf_grandchild_of_a_command_that_listens_is_killed_too(tmp_path, line):
    script = """exec 9>"$1"; (trap '' TERM; echo ready >&9; exec sleep 1000) & exec sleep 1000"""
    with system_command.start(sh(script, line.path), cwd=str(tmp_path)) as running:
        line.said()
        running.stop(grace_seconds=0.3)
    assert running.killed_by == signal.SIGTERM
    line.ended()


def test_a_suspended_command_is_stopped_all_the_same(tmp_path, line):
    script = 'exec 9>"$1"; trap "echo bye >&9; exit 7" TERM; echo ready >&9; kill -STOP $$; :'
    with system_command.start(sh(script, line.path), cwd=str(tmp_path)) as running:
        line.said()
        assert not running.wait(PATIENCE_SECONDS)
        assert running.suspended_by == signal.SIGSTOP
    assert running.status == 7
    line.said(b"bye")


def test_a_suspended_command_goes_on_when_it_is_resumed(tmp_path):
    with system_command.start(sh("kill -STOP $$; exit 5"), cwd=str(tmp_path)) as running:
        assert not running.wait(PATIENCE_SECONDS)
        running.resume()
        assert running.suspended_by is None
        assert running.wait(PATIENCE_SECONDS)
    assert running.status == 5


def test_a_command_that_closes_its_streams_is_waited_for(tmp_path, line):
    script = 'exec 9>"$1" >&- 2>&-; read -r _ <"$2"; echo ready >&9; exit 4'
    os.mkfifo(tmp_path / "gate")
    words = sh(script, line.path, tmp_path / "gate")
    with system_command.start(words, cwd=str(tmp_path), streams=Streams.keep()) as running:
        (tmp_path / "gate").write_text("go\n")
        assert running.wait()
    assert running.status == 4
    line.said()


def test_what_a_command_leaves_behind_is_stopped_and_does_not_hold_us_up(tmp_path, line):
    script = 'exec 9>"$1"; echo before; sleep 1000 & echo ready >&9'
    done = kept(script, line.path, cwd=tmp_path)
    assert (done.status, done.out.text()) == (0, "before\n")
    line.ended()


def test_what_a_command_leaves_behind_may_still_write_what_it_has(tmp_path, monkeypatch):
    monkeypatch.setattr(system_command, "LINGER_SECONDS", PATIENCE_SECONDS)
    done = kept(
        "(read -r _ <$1; echo late) & echo soon; (: >$1) & exit 0", _fifo(tmp_path), cwd=tmp_path
    )
    assert done.out.text() == "soon\nlate\n"


def _fifo(at: Path) -> Path:
    os.mkfifo(at / "gate")
    return at / "gate"


#: Leaves the group, then lets its parent know.
LEAVE = "import os; os.setsid(); open('left', 'w').close(); os.execvp('sleep', ['sleep', '1000'])"


def test_who_left_the_group_does_not_hold_us_up_either(tmp_path, line):
    script = 'exec 9>"$1"; "$2" -c "$3" & echo $! >&9; until [ -e left ]; do sleep 0.05; done'
    done = kept(script, line.path, sys.executable, LEAVE, cwd=tmp_path)
    line.said(b"\n")
    assert done.status == 0
    os.kill(int(line.heard), signal.SIGKILL)
    line.ended()


def test_a_signal_reaches_the_whole_group_and_not_its_guardian(tmp_path, line):
    script = (
        'exec 9>"$1"; (trap "echo inner >&9" USR1; echo ready >&9; while :; do sleep 0.1; done) &'
    )
    script += ' trap "echo outer >&9" USR1; echo steady >&9; while :; do sleep 0.1; done'
    with system_command.start(sh(script, line.path), cwd=str(tmp_path)) as running:
        for word in (b"ready", b"steady"):
            line.said(word)
        running.send(signal.SIGUSR1)
        for word in (b"inner", b"outer"):
            line.said(word)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            os.kill(running.group, number)
        assert running.group in process_group.members(running.group)
    line.ended()


PARENT = """
import sys
from tugtool.system import command
running = command.start(sys.argv[1:], cwd="/")
running.wait()
"""


def test_kill_9_of_the_parent_takes_the_command_and_its_family(tmp_path, line):
    parent = subprocess.Popen([sys.executable, "-c", PARENT, *sh(FAMILY, line.path)])
    line.said()
    parent.kill()
    parent.wait()
    line.ended()


def test_kill_9_takes_also_those_who_hear_nothing(tmp_path, line):
    deaf = "trap '' TERM HUP INT; " + FAMILY
    parent = subprocess.Popen([sys.executable, "-c", PARENT, *sh(deaf, line.path)])
    line.said()
    parent.kill()
    parent.wait()
    line.ended()


def test_killing_the_parents_whole_group_takes_the_command_too(line):
    # As `timeout -s KILL` does.
    words = [sys.executable, "-c", PARENT, *sh(FAMILY, line.path)]
    parent = subprocess.Popen(words, process_group=0)
    line.said()
    os.killpg(parent.pid, signal.SIGKILL)
    parent.wait()
    line.ended()


SEVERAL = """
import sys
from tugtool.system import command
words = ["/bin/sh", "-c", sys.argv[1], "sh"]
running = [command.start([*words, each], cwd="/") for each in sys.argv[2:]]
running[0].wait()
"""


def test_one_parent_of_several_commands_takes_all_of_them(tmp_path):
    lines = [Line(tmp_path / name) for name in "abc"]
    words = [sys.executable, "-c", SEVERAL, FAMILY, *(str(each.path) for each in lines)]
    parent = subprocess.Popen(words)
    for each in lines:
        each.said()
    parent.kill()
    parent.wait()
    for each in lines:
        each.ended()
        os.close(each.reader)


def test_the_line_to_the_guardian_is_not_in_the_commands_hands(tmp_path):
    with system_command.start(sh("exec sleep 1000"), cwd=str(tmp_path)) as running:
        pipe = os.fstat(running._guard._line).st_ino
        # Whoever is being loaded has files open for a moment.
        until(lambda: Path(f"/proc/{running.pid}/comm").read_text() == "sleep\n")
        until(lambda: _open_in(running.group) == {pipe, os.stat(os.devnull).st_ino})
        assert pipe not in _open_in(running.pid)


def _open_in(pid: int) -> set[int]:
    """What a process has open; what it closes just now is not."""
    found = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.add(os.stat(f"/proc/{pid}/fd/{name}").st_ino)
    return found


def test_an_exception_in_between_stops_the_command(tmp_path, line):
    def fail() -> None:
        with system_command.start(sh(FAMILY, line.path), cwd=str(tmp_path)):
            line.said()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    line.ended()


def test_nobody_rings_any_more_once_a_command_has_ended(tmp_path, monkeypatch):
    # Whoever did would write into a file of somebody else's that has got the same number.
    ring, groups, rung = Flow.ring, [], []

    def late(flow):
        while process_group.members(groups[0]):
            pass
        ring(flow)
        rung.append(flow)

    monkeypatch.setattr(Flow, "ring", late)
    streams = Streams.keep()
    running = system_command.start(
        ["true"], cwd=str(tmp_path), streams=streams, before=groups.append
    )
    while running._raw is None:
        pass
    assert running.wait()
    assert len(rung) == 1


def test_nothing_stays_open_after_a_command(tmp_path, uncollected):
    kept("true", cwd=tmp_path)  # whatever is opened once for all
    before = set(os.listdir("/proc/self/fd"))
    for _ in range(3):
        kept("echo x", cwd=tmp_path, given=b"x")
        with pytest.raises(CannotRun):
            system_command.start(["no-such-command"], cwd=str(tmp_path))
    assert set(os.listdir("/proc/self/fd")) == before


def test_where_there_is_no_proc_the_members_of_a_group_are_the_same(tmp_path):
    with system_command.start(sh("sleep 1000 & sleep 1000 & wait"), cwd=str(tmp_path)) as running:
        while len(found := process_group.members(running.group)) < 4:
            pass
        assert process_group._members_by_ps(running.group) == found
    assert process_group._members_by_ps(running.group) == set()


def test_a_parent_that_ignores_its_children_takes_no_unknown_end_for_success(tmp_path):
    script = """
import signal
from tugtool.system import command
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print(command.run(["true"], cwd="/").status)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("255\n", "")
