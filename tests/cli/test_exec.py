"""`state exec` with real processes: who holds the step, what becomes of the command.

Nothing here sleeps: what is waited for is observed, in the record, in a file, or on a FIFO that
is at its end when the last process that holds it is gone.
"""

import contextlib
import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import hold_against_schemas
from support.lines import FAMILY, PATIENCE_SECONDS, Line, sh

TUGCODE = (sys.executable, "-m", "tugtool")
#: Says that it is there, and goes on when somebody writes into the gate.
GATED = 'exec 9>"$1"; echo ready >&9; read -r word <"$2"; exit ${word:-0}'


@pytest.fixture
def line(tmp_path):
    made = Line(tmp_path / "line")
    yield made
    os.close(made.reader)


@pytest.fixture
def gate(tmp_path) -> Path:
    os.mkfifo(tmp_path / "gate")
    return tmp_path / "gate"


@pytest.fixture
def begun(tmp_path):
    """Start `state exec work ... -- CMD` in red's worktree: `begun(desk, "--json", cmd=[...])`."""
    processes: list[subprocess.Popen] = []

    def begin(desk, *options: object, cmd: list[str], at=None, **how) -> subprocess.Popen:
        words = [*TUGCODE, "state", "exec", "work", *map(str, options), "--", *cmd]
        how = {
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "stdin": subprocess.DEVNULL,
        } | how
        processes.append(subprocess.Popen(words, cwd=at or desk.red, **how))
        return processes[-1]

    yield begin
    for each in processes:
        each.kill()
        each.wait()
        # Not read to their end: a command that is left over would hold them.
        for stream in (each.stdin, each.stdout, each.stderr):
            if stream is not None:
                stream.close()


def done(process: subprocess.Popen, given: bytes | None = None) -> tuple[int, bytes, str]:
    out, err = process.communicate(given, timeout=PATIENCE_SECONDS)
    return process.returncode, out, err.decode()


def ran(desk, *options: object, cmd: list[str], begun, **how) -> tuple[int, bytes, str]:
    return done(begun(desk, *options, cmd=cmd, **how))


def until(seen: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not seen():
        assert time.monotonic() < deadline, "not seen in time"


def opened(gate: Path, word: str) -> None:
    """Let the command behind the gate go on; not for ever, if there is none."""
    found: list[int] = []

    def is_there() -> bool:
        with contextlib.suppress(OSError):  # nobody reads
            found.append(os.open(gate, os.O_WRONLY | os.O_NONBLOCK))
        return bool(found)

    until(is_there)
    os.write(found[0], word.encode())
    os.close(found[0])


def attempts(desk) -> list[dict]:
    return desk.rows("select * from attempts order by step_anchor, number")


def outcomes(desk) -> list[str | None]:
    return [each["outcome"] for each in attempts(desk)]


def status(desk, step: str = "step-1") -> str:
    return desk.rows(f"select status from steps where anchor = '{step}'")[0]["status"]


# -- the command ends ------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 2, 3, 4, 130, 255])
def test_a_command_that_fails_is_told_by_its_own_status_and_gives_the_step_back(
    desk, begun, number
):
    desk = desk("1 t")
    assert ran(desk, cmd=sh(f"exit {number}"), begun=begun) == (
        number,
        b"",
        "tugcode: step-1 was given back\n",
    )
    assert (status(desk), outcomes(desk)) == ("pending", ["released"])
    assert desk.ok("claim", "work", at=desk.blue)["attempt"] == 2


def test_a_command_that_succeeds_leaves_the_step_to_the_lease(desk, begun):
    desk = desk("1 t")
    assert ran(desk, cmd=["true"], begun=begun) == (0, b"", "")
    (only,) = attempts(desk)
    assert (status(desk), only["outcome"]) == ("in_progress", None)
    assert [only[name] for name in ("host", "boot", "pid_namespace", "holder_pid")] == [None] * 4
    assert desk.ok("claim", "work", at=desk.blue)["claimed"] is False


def test_a_command_killed_by_a_signal_is_told_as_shells_tell_it(desk, begun):
    desk = desk("1 t")
    assert ran(desk, cmd=sh("kill -9 $$"), begun=begun)[0] == 137
    assert outcomes(desk) == ["released"]


def test_a_command_that_does_not_exist_or_is_not_executable_is_no_attempt(desk, begun):
    desk = desk("1 t")
    (desk.red / "plain").write_text("no program\n")
    for command, number in (("no-such-command", 127), ("./none", 127), ("./plain", 126)):
        code, out, err = ran(desk, cmd=[command], begun=begun)
        assert (code, out) == (number, b"")
        assert f"E087: cannot run {command}" in err
    assert attempts(desk) == []


def test_a_command_that_cannot_be_started_gives_the_step_back(desk, begun):
    desk = desk("1 t")
    (desk.red / "plain").write_bytes(b"\x00no program\n")
    (desk.red / "plain").chmod(0o755)
    code, out, err = ran(desk, cmd=["./plain"], begun=begun)
    assert (code, out) == (126, b"")
    assert "E087: cannot run ./plain" in err
    assert (status(desk), outcomes(desk)) == ("pending", ["released"])


def test_what_others_left_is_mentioned_and_in_the_answer(desk, begun):
    desk = desk("1 t")
    desk.ok("claim", "work", at=desk.blue)
    (desk.blue / "draft").write_text("x")
    code, out, err = ran(desk, "--force", "--json", cmd=["true"], begun=begun)
    assert code == 0
    (apply,) = json.loads(out)["data"]["recover"]
    assert apply.startswith("tugcode worktree salvage apply refs/tug/salvage/work/")
    assert f"tugcode: what the last attempt left, to go on with:\ntugcode:   {apply}\n" in err


def test_nothing_to_run_for_says_what_is_parked(desk, begun):
    desk = desk("1 t")
    desk.ok("claim", "work")
    desk.ok("release", "work", "step-1", "--park", "--reason", "no")
    code, out, err = ran(desk, "--json", cmd=["true"], begun=begun)
    assert (code, json.loads(out)["data"]["parked_steps"]) == (0, ["step-1"])
    err = ran(desk, cmd=["true"], begun=begun)[2]
    assert "parked: step-1 (tugcode review work)" in err


def test_a_worktree_that_does_not_exist_claims_nothing(desk, begun):
    desk = desk("1 t")
    code, _, err = ran(desk, "--worktree", "/no/where", cmd=["true"], begun=begun)
    assert code == 126
    assert "/no/where" in err
    assert attempts(desk) == []


def test_what_a_command_leaves_running_is_stopped(desk, begun, line):
    desk = desk("1 t")
    script = 'exec 9>"$1"; (sleep 1000 &) ; echo ready >&9'
    assert ran(desk, cmd=sh(script, line.path), begun=begun)[0] == 0
    line.said()
    line.ended()


# -- what the command does with its step -----------------------------------------------

OURS = shlex.join(TUGCODE)


def test_a_command_that_completes_its_step_is_left_alone(desk, begun):
    desk = desk("1 t")
    script = f"{OURS} state update work step-1 --all completed && {OURS} state complete work step-1"
    assert ran(desk, cmd=sh(script), begun=begun)[0::2] == (0, "")
    assert outcomes(desk) == ["completed"]


def test_a_command_that_fails_after_it_has_completed_its_step_undoes_nothing(desk, begun):
    desk = desk("1")
    assert ran(desk, cmd=sh(f"{OURS} state complete work step-1; exit 9"), begun=begun)[::2] == (
        9,
        "",
    )
    assert outcomes(desk) == ["completed"]


def test_a_command_that_goes_on_after_it_has_completed_its_step_may(desk, begun, line, gate):
    desk = desk("1", "2 < 1")
    script = f"{OURS} state complete work step-1; {GATED}"
    running = begun(desk, cmd=sh(script, line.path, gate))
    line.said()
    assert desk.ok("claim", "work", at=desk.blue)["anchor"] == "step-2"
    opened(gate, "0\n")
    assert done(running)[::2] == (0, "")


def test_a_command_that_gives_its_step_back_is_no_failure(desk, begun, line, gate):
    desk = desk("1 t")
    script = f"{OURS} state release work step-1; {GATED}"
    running = begun(desk, "--complete", cmd=sh(script, line.path, gate))
    line.said()
    assert desk.ok("claim", "work", at=desk.blue)["anchor"] == "step-1"
    opened(gate, "0\n")
    assert done(running)[0] == 0
    assert outcomes(desk) == ["released", None]


def test_complete_completes_the_step_of_a_command_that_succeeds(desk, begun):
    desk = desk("1 t")
    script = f"{OURS} state update work step-1 --all completed"
    assert ran(desk, "--complete", cmd=sh(script), begun=begun)[::2] == (0, "")
    assert outcomes(desk) == ["completed"]


def test_complete_keeps_the_step_while_items_are_open_and_lists_them(desk, begun):
    desk = desk("1 tt")
    code, out, err = ran(desk, "--complete", cmd=["true"], begun=begun)
    assert (code, out) == (1, b"")
    assert "E051: step step-1 has 2 open items" in err
    (only,) = attempts(desk)
    assert (status(desk), only["holder_pid"], only["outcome"]) == ("in_progress", None, None)


def test_complete_does_nothing_for_a_command_that_fails(desk, begun):
    desk = desk("1")
    assert ran(desk, "--complete", cmd=["false"], begun=begun)[0] == 1
    assert outcomes(desk) == ["released"]


def test_complete_keeps_the_step_if_the_plan_was_changed_meanwhile(desk, begun):
    desk = desk("1")
    script = 'echo "more" >>.tugtool/tugplan-work.md'
    code, _, err = ran(desk, "--complete", cmd=sh(script), begun=begun, at=desk.repo.path)
    assert code == 1
    assert "E048" in err
    assert outcomes(desk) == [None]


def test_what_a_failed_command_left_uncommitted_stays_in_the_worktree(desk, begun):
    desk = desk("1 t")
    ran(desk, cmd=sh("echo half >half.txt; exit 1"), begun=begun)
    assert (desk.red / "half.txt").read_text() == "half\n"


# -- nothing to run it for -------------------------------------------------------------


def test_without_a_step_the_command_is_not_run(desk, begun):
    desk = desk("1 t", "2 t < 1")
    desk.ok("claim", "work", at=desk.blue)
    words = ["touch", "ran"]
    code, out, err = ran(desk, cmd=words, begun=begun)
    assert (code, out) == (0, b"")
    assert err == "tugcode: nothing to claim: no step is ready; 2 remain\n"
    code, out, err = ran(desk, "--step", "step-2", cmd=words, begun=begun)
    assert (code, out, err.partition(":")[2][:5]) == (1, b"", " E053")
    desk.ok("pause", "work")
    code, out, err = ran(desk, "--step", "step-1", cmd=words, begun=begun)
    assert (code, out) == (1, b"")
    assert err == "tugcode: nothing to claim: the plan is paused; 2 remain\n"
    assert not (desk.red / "ran").exists()


def test_a_command_line_without_a_command_is_refused(desk, tugcode):
    desk = desk("1 t")
    for words in (("work",), ("work", "--"), ("work", "true", "--"), ("work", "true", "--", "x")):
        refused = tugcode("-C", desk.red, "state", "exec", *words)
        assert refused.status == 2
        assert refused.err.startswith("tugcode: E070: state exec ")
    assert attempts(desk) == []


def test_it_waits_for_a_step_if_it_is_told_to(desk, begun):
    desk = desk("1", "2 < 1")
    desk.ok("claim", "work", at=desk.blue)
    waiting = begun(desk, "--wait", "60", cmd=sh("echo $TUGCODE_STEP"))
    desk.ok("complete", "work", "step-1", at=desk.blue)
    assert done(waiting)[:2] == (0, b"step-2\n")


# -- its surroundings ------------------------------------------------------------------


def test_the_command_runs_at_the_top_of_the_worktree_and_knows_its_step(desk, begun):
    desk = desk("1 t")
    (desk.red / "deep").mkdir()
    script = "pwd; echo $TUGCODE_PLAN $TUGCODE_STEP $TUGCODE_ATTEMPT $TUGCODE_WORKTREE $MINE"
    env = {**os.environ, "MINE": "too", "TUGCODE_ATTEMPT": "77", "TUGCODE_STEP": "step-9"}
    code, out, _ = ran(desk, cmd=sh(script), begun=begun, at=desk.red / "deep", env=env)
    assert (code, out.decode()) == (
        0,
        f"{desk.red}\n.tugtool/tugplan-work.md step-1 1 {desk.red} too\n",
    )


def test_the_plan_may_be_left_out_and_words_of_the_command_stay_its_own(desk, begun, tugcode):
    desk = desk("1 t")
    words = [*TUGCODE, "state", "exec", "--", "printf", "%s|", "--json", "--step", "--", "-x", ""]
    told = subprocess.run(words, cwd=desk.red, capture_output=True, check=True)
    assert told.stdout == b"--json|--step|--|-x||"
    assert ran(desk, cmd=["--no-such-command"], begun=begun)[0] == 127


def test_bytes_go_through_as_they_are(desk, begun):
    desk = desk("1 t")
    given = bytes(range(256)) * 4096
    running = begun(desk, cmd=sh("cat; printf '\\377\\000' >&2"), stdin=subprocess.PIPE)
    out, err = running.communicate(given, timeout=PATIENCE_SECONDS)
    assert (running.returncode, out == given, err) == (0, True, b"\xff\x00")


def test_closed_streams_are_no_trouble(desk):
    desk = desk("1 t")
    script = f"{OURS} state exec work -- sh -c 'read -r word || echo closed' <&-"
    told = subprocess.run(["sh", "-c", script], cwd=desk.red, capture_output=True, check=False)
    assert (told.returncode, told.stdout, told.stderr) == (0, b"closed\n", b"")
    script = f"{OURS} state exec work -- true <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", script], cwd=desk.red, check=False).returncode == 0


def test_descriptors_that_we_were_given_are_the_commands_too(desk, begun):
    desk = desk("1 t")
    reader, writer = os.pipe()
    words = [sys.executable, "-c", f"import os; os.write({writer}, b'through')"]
    running = begun(desk, cmd=words, pass_fds=[writer])
    os.close(writer)
    assert done(running)[0] == 0
    assert os.read(reader, 100) == b"through"
    assert os.read(reader, 100) == b""
    os.close(reader)


def test_json_is_one_document_and_the_commands_output_is_on_standard_error(desk, begun):
    desk = desk("1 t")
    code, out, err = ran(desk, "--json", cmd=sh("echo hello; exit 5"), begun=begun)
    answer = json.loads(out)
    hold_against_schemas(answer)
    told = answer["data"]
    assert (code, err, answer["status"], answer["issues"]) == (5, "hello\n", "error", [])
    assert (told["ran"], told["exit_status"], told["signal"]) == (True, 5, None)
    assert (told["anchor"], told["attempt"], told["outcome"]) == ("step-1", 1, "released")


@pytest.mark.parametrize(
    ("options", "script", "outcome"),
    [((), ":", "kept"), (("--complete",), ":", "completed"), ((), "kill -TERM $$", "released")],
)
def test_json_tells_what_became_of_the_step(desk, begun, options, script, outcome):
    desk = desk("1")
    answer = json.loads(ran(desk, "--json", *options, cmd=sh(script), begun=begun)[1])
    hold_against_schemas(answer)
    assert answer["data"]["outcome"] == outcome
    assert answer["data"]["signal"] == (15 if "kill" in script else None)


def test_json_tells_that_nothing_was_run_and_why(desk, begun):
    desk = desk("1")
    desk.ok("claim", "work")
    desk.ok("complete", "work", "step-1")
    answer = json.loads(ran(desk, "--json", cmd=["true"], begun=begun)[1])
    hold_against_schemas(answer)
    assert (answer["data"]["ran"], answer["data"]["reason"]) == (False, "all_completed")


def test_commits_that_the_branch_lacks_are_mentioned(desk, begun):
    desk = desk("1", "2 < 1")
    desk.ok("claim", "work", at=desk.blue)
    identity = ("-c", "user.name=Tug", "-c", "user.email=tug@example.invalid")
    words = ["git", *identity, "commit", "--quiet", "--allow-empty", "--message=work"]
    subprocess.run(words, cwd=desk.blue, check=True)
    desk.ok("complete", "work", "step-1", "--commit", "HEAD", at=desk.blue)
    code, _, err = ran(desk, cmd=["true"], begun=begun)
    assert code == 0
    assert err == (
        "tugcode: it depends on commits that this branch lacks, of step-1; to bring them in:\n"
        "tugcode:   tugcode worktree sync work\n"
    )


# -- the claim while it runs -----------------------------------------------------------


def test_kill_9_frees_the_step_at_once_and_takes_the_command_along(desk, begun, line):
    desk = desk("1 t")
    running = begun(desk, cmd=sh(FAMILY, line.path))
    line.said()
    assert desk.ok("claim", "work", at=desk.blue)["claimed"] is False
    running.kill()
    running.wait()
    got = desk.ok("claim", "work", at=desk.blue)
    assert (got["claimed"], got["previous_attempt"]["outcome"]) == (True, "dead")
    line.ended()


def test_killing_the_whole_job_takes_the_command_along(desk, begun, line):
    desk = desk("1 t")
    running = begun(desk, cmd=sh(FAMILY, line.path), process_group=0)
    line.said()
    os.killpg(running.pid, signal.SIGKILL)
    line.ended()


def taken_by_force(desk) -> None:
    assert desk.ok("claim", "work", "--force", at=desk.blue)["attempt"] == 2


def reset(desk) -> None:
    desk.ok("reset", "work", "step-1", at=desk.blue)


def released_by_force(desk) -> None:
    desk.ok("release", "work", "step-1", "--force", at=desk.blue)


def dropped(desk) -> None:
    desk.plan.write_text(desk.plan.read_text().replace("tep 1", "tep 9").replace("-1}", "-9}"))
    revised = desk.ok("init", "work", "--force", "--drop-claimed", at=desk.repo.path)
    assert revised["removed"]


@pytest.mark.parametrize("lose", [taken_by_force, reset, released_by_force, dropped])
def test_a_claim_that_is_lost_stops_the_command_with_its_family(desk, begun, line, lose):
    desk = desk("1 t")
    running = begun(desk, "--json", cmd=sh(FAMILY, line.path))
    line.said()
    lose(desk)
    code, out, _ = done(running)
    answer = json.loads(out)
    hold_against_schemas(answer)
    assert (code, [each["code"] for each in answer["issues"]]) == (4, ["E060"])
    assert (answer["data"]["outcome"], answer["data"]["signal"]) == ("lost", 15)
    line.ended()


def test_a_lost_claim_is_told_in_words_and_nothing_of_the_other_s_is_touched(desk, begun, line):
    desk = desk("1 t")
    running = begun(desk, cmd=sh(FAMILY, line.path))
    line.said()
    taken_by_force(desk)
    before = desk.dump()
    code, out, err = done(running)
    assert (code, out) == (4, b"")
    assert "E060: attempt 1 at step step-1 does not count: attempt 2 is current" in err
    assert desk.dump() == before


def test_a_command_that_does_not_listen_is_killed_when_the_claim_is_lost(desk, begun, line):
    desk = desk("1 t")
    running = begun(desk, "--json", cmd=sh("trap '' TERM; " + FAMILY, line.path))
    line.said()
    taken_by_force(desk)
    code, out, _ = done(running)
    assert (code, json.loads(out)["data"]["signal"]) == (4, signal.SIGKILL)
    line.ended()


def test_one_that_was_stopped_and_wakes_up_when_its_step_is_taken_stops_the_command(
    desk, begun, line
):
    desk = desk("1 t")
    running = begun(desk, "--lease-duration", "1", cmd=sh(FAMILY, line.path))
    line.said()
    running.send_signal(signal.SIGSTOP)
    got = desk.ok("claim", "work", "--wait", "60", at=desk.blue)
    assert (got["attempt"], got["reclaimed_from_expired"]) == (2, True)
    running.send_signal(signal.SIGCONT)
    code, _, err = done(running)
    assert (code, "E060" in err) == (4, True)
    line.ended()
    assert outcomes(desk) == ["expired", None]


def test_one_that_was_stopped_and_finds_its_step_untouched_goes_on(desk, begun, line, gate):
    desk = desk("1 t")
    running = begun(desk, "--lease-duration", "0.5", cmd=sh(GATED, line.path, gate))
    line.said()
    running.send_signal(signal.SIGSTOP)
    until(lambda: desk.ok("ready", "work")["expired_claims"] == ["step-1"])
    running.send_signal(signal.SIGCONT)
    until(lambda: desk.ok("ready", "work")["expired_claims"] == [])
    opened(gate, "0\n")
    assert done(running)[0] == 0


def test_the_lease_is_renewed_while_the_command_runs(desk, begun, line, gate):
    desk = desk("1 t")
    running = begun(desk, "--lease-duration", "1", cmd=sh(GATED, line.path, gate))
    line.said()
    ends: set[str] = set()

    def renewed_often() -> bool:
        ends.add(desk.rows("select lease_expires_at as l from steps")[0]["l"])
        return len(ends) >= 5

    until(renewed_often)
    assert outcomes(desk) == [None]
    opened(gate, "0\n")
    assert done(running)[::2] == (0, "")


def test_a_lease_that_the_command_shortens_is_renewed_in_its_time(desk, begun, line, gate):
    desk = desk("1 t")
    script = f"{OURS} state heartbeat work step-1 --lease-duration 1; {GATED}"
    running = begun(desk, cmd=sh(script, line.path, gate))
    line.said()
    until(lambda: len(desk.rows("select seq from events where kind = 'heartbeat'")) >= 4)
    opened(gate, "0\n")
    assert done(running)[::2] == (0, "")


@contextlib.contextmanager
def locked(desk) -> Iterator[None]:
    """Somebody writes into the database, and takes their time."""
    connection = sqlite3.connect(desk.repo.path / ".tugtool" / "state.db", isolation_level=None)
    connection.execute("begin immediate")
    yield
    connection.execute("rollback")
    connection.close()


@contextlib.contextmanager
def away(desk) -> Iterator[None]:
    """The database is somewhere else for a while."""
    home = desk.repo.path / ".tugtool"
    (home / "state.db").rename(home / "elsewhere")
    yield
    (home / "elsewhere").rename(home / "state.db")


@pytest.mark.parametrize("trouble", [locked, away])
def test_a_database_that_is_busy_or_away_for_a_while_does_no_harm(
    desk, begun, line, gate, tmp_path, trouble
):
    desk = desk("1 t")
    with open(tmp_path / "err", "wb") as err:
        words = sh(GATED, line.path, gate)
        running = begun(desk, "--lease-duration", "1", cmd=words, stderr=err)
    line.said()
    with trouble(desk):
        until(lambda: (tmp_path / "err").read_text())
        assert "trying again while the command runs" in (tmp_path / "err").read_text()
    before = len(desk.rows("select seq from events where kind = 'heartbeat'"))
    until(lambda: len(desk.rows("select seq from events where kind = 'heartbeat'")) > before + 1)
    opened(gate, "0\n")
    assert running.wait(PATIENCE_SECONDS) == 0
    assert status(desk) == "in_progress"


@pytest.mark.parametrize(("number", "options"), [(0, ()), (7, ()), (1, ("--complete",))])
def test_a_database_that_stays_away_leaves_the_command_its_status(
    desk, begun, line, gate, number, options
):
    desk = desk("1 t")
    running = begun(desk, *options, cmd=sh(GATED, line.path, gate))
    line.said()
    with away(desk):
        opened(gate, "7\n" if number == 7 else "0\n")
        code, out, err = done(running)
    assert (code, out) == (number, b"")
    assert "E046" in err or "E063" in err
    # Whoever held it is gone, and so the step is free.
    assert desk.ok("claim", "work", at=desk.blue)["previous_attempt"]["outcome"] == "dead"


# -- the same request again ------------------------------------------------------------


def test_the_same_request_goes_on_with_the_claim_of_one_that_was_killed(desk, begun, line):
    desk = desk("1 t")
    first = begun(desk, "--request-id", "r1", cmd=sh(FAMILY, line.path))
    line.said()
    first.kill()
    first.wait()
    line.ended()
    again = sh("echo $TUGCODE_ATTEMPT; exit 1")
    options = ("--request-id", "r1", "--lease-duration", "5")
    assert ran(desk, *options, cmd=again, begun=begun)[:2] == (1, b"1\n")
    (only,) = attempts(desk)
    assert (only["outcome"], only["lease_seconds"]) == ("released", 5)
    code, _, err = ran(desk, "--request-id", "r1", cmd=["true"], begun=begun)
    assert (code, "E060" in err) == (4, True)


def test_the_same_request_does_not_run_a_second_command_beside_the_first(desk, begun, line, gate):
    desk = desk("1 t")
    first = begun(desk, "--request-id", "r1", cmd=sh(GATED, line.path, gate))
    line.said()
    code, out, err = ran(desk, "--request-id", "r1", cmd=["echo", "twice"], begun=begun)
    assert (code, out) == (1, b"")
    assert f"E053: step step-1 is held by process {first.pid}" in err
    opened(gate, "0\n")
    assert done(first)[::2] == (0, "")


# -- signals ---------------------------------------------------------------------------

PASSED_ON = ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "WINCH")


@pytest.mark.parametrize("name", PASSED_ON)
def test_a_signal_is_passed_on_to_the_command(desk, begun, line, name):
    desk = desk("1 t")
    script = f'exec 9>"$1"; trap "exit 42" {name}; echo ready >&9; while :; do sleep 0.05; done'
    running = begun(desk, cmd=sh(script, line.path))
    line.said()
    running.send_signal(getattr(signal, f"SIG{name}"))
    assert done(running)[0] == 42
    assert outcomes(desk) == ["released"]


def test_a_command_that_dies_of_a_signal_gives_the_step_back(desk, begun, line):
    desk = desk("1 t")
    running = begun(desk, cmd=sh(FAMILY, line.path))
    line.said()
    running.terminate()
    assert done(running)[0] == 143
    line.ended()
    assert (status(desk), outcomes(desk)) == ("pending", ["released"])


def test_what_was_ignored_stays_ignored(desk, begun, line, gate):
    desk = desk("1 t")
    # As `nohup` does.
    running = begun(
        desk,
        cmd=sh(GATED, line.path, gate),
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    line.said()
    running.send_signal(signal.SIGHUP)
    opened(gate, "6\n")
    assert done(running)[0] == 6


def test_who_ignores_the_end_of_children_learns_the_status_all_the_same(desk, begun):
    desk = desk("1 t")
    deaf = {"preexec_fn": lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)}
    assert ran(desk, cmd=sh("exit 6"), begun=begun, **deaf)[0] == 6


# -- the pages -------------------------------------------------------------------------

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "orchestrators.md").read_text()
AGENT = "#!/bin/sh\nexec tugcode state update $TUGCODE_PLAN $TUGCODE_STEP --all completed >&2\n"


@pytest.mark.parametrize(("language", "words"), [("sh", ["sh"]), ("python", [sys.executable])])
def test_the_loops_of_the_page_carry_out_a_plan(desk, tmp_path, language, words):
    desk = desk("1 t", "2 t < 1", "3 tc < 2")
    blocks = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    (loop,) = [block for block in blocks if block.startswith(("while", "import"))]
    (tmp_path / "loop").write_text(loop.replace("bookshelf", "work"))
    (desk.red / "agent").write_text(AGENT)
    (desk.red / "agent").chmod(0o755)
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    told = subprocess.run(
        [*words, tmp_path / "loop"], cwd=desk.red, env=env, capture_output=True, text=True
    )
    assert told.returncode == 0, told.stderr
    assert outcomes(desk) == ["completed"] * 3
    if language == "python":
        assert told.stdout == "".join(f"step-{n} 1 completed 0\n" for n in (1, 2, 3))
