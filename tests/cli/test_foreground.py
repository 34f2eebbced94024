"""`state exec` on a terminal: the command has it, Ctrl-C and Ctrl-Z are for the command."""

import os
import shlex
import shutil
import signal
import sys

import pytest

from support.lines import Line, sh
from support.racing import until
from support.terminals import Terminal, tugcode
from tugtool.cli.state_exec import Foreground
from tugtool.system import command

EXEC = ("state", "exec", "work")


@pytest.fixture
def terminal():
    opened: list[Terminal] = []

    def open_(words: list[str], **env: str) -> Terminal:
        opened.append(Terminal(words, columns=400, lines=100, **env))
        return opened[-1]

    yield open_
    for each in opened:
        each.close()


def on(desk, terminal, script: str, *options: object) -> Terminal:
    return terminal(tugcode(*EXEC, *options, "--", *sh(script), at=desk.red))


def test_the_command_reads_from_the_terminal(desk, terminal):
    desk = desk("1 t")
    seen = on(desk, terminal, 'printf "name? "; read -r name; echo "hello $name"; exit 3')
    seen.until_text("name?")
    seen.press("harbour\n")
    seen.until_text("hello harbour")
    assert seen.end() == 3
    assert seen.is_as_it_was()


def test_the_command_is_in_front_from_its_first_instant(desk, terminal):
    desk = desk("1 t")
    script = "import os; print('front', os.tcgetpgrp(0) == os.getpgrp())"
    seen = terminal(tugcode(*EXEC, "--", sys.executable, "-c", script, at=desk.red))
    seen.until_text("front True")
    assert seen.end() == 0


def test_an_interrupt_is_for_the_command(desk, terminal):
    desk = desk("1 t")
    seen = on(
        desk, terminal, 'trap "echo caught; exit 9" INT; echo ready; while :; do sleep 0.05; done'
    )
    seen.until_text("ready")
    seen.press("\x03")
    seen.until_text("caught")
    assert seen.end() == 9


def test_a_command_that_dies_of_an_interrupt_gives_the_step_back(desk, terminal):
    desk = desk("1 t")
    seen = on(desk, terminal, "echo ready; exec sleep 1000")
    seen.until_text("ready")
    seen.press("\x03")
    seen.until_text("step-1 was given back")
    assert seen.end() == 130


def test_a_killed_command_leaves_the_terminal_as_it_was(desk, terminal):
    desk = desk("1 t")
    seen = on(desk, terminal, "stty raw -echo; echo raw; kill -9 $$")
    assert seen.end() == 137
    assert "raw" in seen.display.text
    assert seen.is_as_it_was()


def test_who_waits_in_a_pipe_keeps_the_terminal_until_the_command_asks_for_it(desk, terminal):
    desk = desk("1 t")
    # What the command reads comes from the terminal, and its output goes into a pipe.
    ours = shlex.join(tugcode(*EXEC, at=desk.red))
    ask = "import os; print('front', os.tcgetpgrp(0) == os.getpgrp()); print('got', input())"
    seen = terminal(["sh", "-c", f'{ours} -- {shlex.quote(sys.executable)} -u -c "{ask}" | cat'])
    seen.until_text("front False")
    seen.press("harbour\n")
    seen.until_text("got harbour")
    assert seen.end() == 0


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_command_is_suspended_and_goes_on_with_its_job(desk, terminal, shell):
    desk = desk("1 t")
    seen = shell_on(terminal, shell)
    ours = shlex.join(tugcode(*EXEC, at=desk.red))
    seen.press(f"{ours} -- sh -c 'echo at''work; read -r word; echo got $word; exit 5'\n")
    seen.until_text("atwork")
    seen.press("\x1a")
    seen.until_text("Stopped")
    bring_to_front(seen)
    seen.press("harbour\n")
    seen.until_text("got harbour")
    seen.press("echo status $?\n")
    seen.until_text("status 5")


def test_a_command_in_the_background_that_wants_the_terminal_waits_for_it(desk, terminal):
    desk = desk("1 t")
    seen = shell_on(terminal, "bash")
    ours = shlex.join(tugcode(*EXEC, at=desk.red))
    seen.press(f"{ours} -- sh -c 'read -r word; echo got $word' &\n")
    until(lambda: "Stopped" in poke(seen), seconds=60)
    bring_to_front(seen)
    seen.press("harbour\n")
    seen.until_text("got harbour")
    seen.press("echo status $?\n")
    seen.until_text("status 0")


def bring_to_front(seen: Terminal) -> None:
    """What is typed from here on is for the job: the shell has said which one it brings back."""
    seen.press("echo ca''lm\n")
    seen.until_text("calm")
    before = seen.display.text.count("tugtool")
    seen.press("fg\n")
    seen.until(lambda each: each.display.text.count("tugtool") > before)


def poke(seen: Terminal) -> str:
    """A shell tells about its jobs when it is asked for something."""
    seen.press("jobs\n")
    seen._read(1)
    return seen.display.text


def test_one_whose_step_was_taken_while_it_was_suspended_does_not_go_on(desk, terminal, tmp_path):
    desk = desk("1 t")
    line = Line(tmp_path / "line")
    seen = shell_on(terminal, "bash")
    ours = shlex.join(tugcode(*EXEC, at=desk.red))
    script = f'exec 9>{line.path}; trap "echo went on >&9" CONT; echo at""work; read -r word'
    seen.press(f"{ours} -- sh -c '{script}'\n")
    seen.until_text("atwork")
    seen.press("\x1a")
    seen.until_text("Stopped")
    assert desk.ok("claim", "work", "--force", at=desk.blue)["attempt"] == 2
    seen.press("fg\n")
    seen.until_text("E060")
    line.ended()
    assert line.heard == b""
    os.close(line.reader)
    seen.press("echo status $?\n")
    seen.until_text("status 4")


def shell_on(terminal, shell: str) -> Terminal:
    words = [shutil.which(shell), *(("--norc", "--noprofile") if shell == "bash" else ()), "-i"]
    seen = terminal(words, PS1="> ", ENV="/dev/null")
    seen.until_text(">")
    return seen


def test_a_signal_that_comes_before_the_command_runs_is_not_lost(tmp_path):
    script = 'trap "exit 42" USR1; : >armed; while :; do sleep 0.05; done'
    with Foreground() as front:
        os.kill(os.getpid(), signal.SIGUSR1)
        with command.start(sh(script), cwd=str(tmp_path)) as running:
            while not (tmp_path / "armed").exists():
                pass
            front.watch(running)
            assert running.wait(60)
    assert running.status == 42


def test_handlers_are_as_they_were_afterwards(tmp_path):
    before = [signal.getsignal(number) for number in range(1, 32)]
    with Foreground() as front:
        front.follow()
        with command.start(["true"], cwd=str(tmp_path), before=front.lend) as running:
            front.watch(running)
            running.wait()
    assert [signal.getsignal(number) for number in range(1, 32)] == before


def test_without_a_terminal_a_suspended_command_waits_to_be_continued(tmp_path):
    with Foreground() as front:
        front._terminal = _closed(front._terminal)
        with command.start(sh("kill -TSTP $$; exit 6"), cwd=str(tmp_path)) as running:
            front.watch(running)
            assert not running.wait(60)
            front.follow()
            assert running.suspended_by == signal.SIGTSTP
            os.kill(os.getpid(), signal.SIGCONT)
            while not running.wait(60):
                front.follow()
    assert running.status == 6


def _closed(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)
