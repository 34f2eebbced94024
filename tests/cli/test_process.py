"""The command as a process: exit statuses, closed pipes, full disks, interrupts."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tugtool

TUGCODE = Path(sys.executable).with_name("tugcode")


def run(*words: object, cwd: Path, **options) -> subprocess.CompletedProcess:
    command = [TUGCODE, *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, **options)


def probe(code: str, cwd: Path, **options) -> subprocess.CompletedProcess:
    """Run `main` in a process of its own after `code` has changed something."""
    program = f"import sys, os\nfrom tugtool.cli import main, parse\n{code}\nmain.run()\n"
    command = [sys.executable, "-c", program, "config", *options.pop("words", [])]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, **options)


def test_the_installed_command_and_the_module_are_the_same(repo):
    module = [sys.executable, "-m", "tugtool", "version"]
    by_module = subprocess.run(module, capture_output=True, text=True, check=True)
    assert run("version", cwd=repo.path).stdout == by_module.stdout


SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The launcher as an installer leaves it in a directory with a space in its name."""
    monkeypatch.setenv("PYTHONPATH", str(Path(tugtool.__file__).parent.parent))
    place = tmp_path / "a place" / "bin"
    place.mkdir(parents=True)
    (place / "python").symlink_to(sys.executable)
    for name in ("tugcode", "tugcode-python"):
        text = (SCRIPTS / name).read_text().replace("#!python\n", f"#!{place}/python\n")
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    return place


def _version(command: Path, cwd: Path) -> str:
    command = [command, "version", "--json", "-C", cwd / "a b"]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["data"]["tugtool"]


def test_the_launcher_starts_in_a_directory_with_a_space(installed, tmp_path):
    (tmp_path / "a b").mkdir()
    assert _version(installed / "tugcode", tmp_path) == tugtool.__version__


def test_the_launcher_starts_through_a_link_to_it_alone(installed, tmp_path):
    (tmp_path / "a b").mkdir()
    (tmp_path / "link").symlink_to(installed / "tugcode")
    assert _version(tmp_path / "link", tmp_path) == tugtool.__version__


def test_the_launcher_starts_what_an_installer_made_to_start_by_itself(installed, tmp_path):
    (tmp_path / "a b").mkdir()
    script = installed / "tugcode-python"
    line = f"#!{installed}/python\n"
    start = f"#!/bin/sh\n'''exec' '{installed}/python' \"$0\" \"$@\"\n' '''\n"
    script.write_text(script.read_text().replace(line, start))
    assert _version(installed / "tugcode", tmp_path) == tugtool.__version__


def test_results_go_to_standard_output_and_everything_else_to_standard_error(repo):
    good = run("list", cwd=repo.path)
    assert (good.returncode, good.stderr) == (0, "")
    bad = run("plan", "show", "x", cwd=repo.path)
    assert (bad.returncode, bad.stdout) == (1, "")
    assert bad.stderr.startswith("tugcode: E041: ")
    as_json = run("plan", "show", "x", "--json", cwd=repo.path)
    assert (as_json.returncode, as_json.stderr) == (1, "")
    assert json.loads(as_json.stdout)["status"] == "error"


def test_a_closed_pipe_is_no_error(repo):
    for number in range(300):
        repo.plan(f"plan-{number}", f"# {'long title ' * 20}\n")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [TUGCODE, "list"], cwd=repo.path, stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a full device")
@pytest.mark.parametrize("words", [["version"], ["version", "--json"]])
def test_an_answer_that_cannot_be_written_is_an_error(repo, words):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [TUGCODE, *words], cwd=repo.path, stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert b"E074: cannot write the answer" in done.stderr


BROKEN = """\
def show_config(call): raise KeyError('x')
parse.find('config').function = show_config
"""


def test_a_bug_of_ours_is_status_3_with_a_traceback(repo):
    broken = probe(BROKEN, repo.path)
    assert broken.returncode == 3
    assert "Traceback" in broken.stderr
    assert "E099: this is a bug in tugcode: KeyError: 'x'" in broken.stderr
    assert "report it" in broken.stderr
    as_json = probe(
        BROKEN,
        repo.path,
        words=["--json"],
    )
    assert json.loads(as_json.stdout)["issues"][0]["code"] == "E099"


def test_an_interrupt_is_status_130_and_one_document(repo):
    code = (
        "import signal\n"
        "def show_config(call): os.kill(os.getpid(), signal.SIGINT); return None\n"
        "parse.find('config').function = show_config"
    )
    stopped = probe(code, repo.path, words=["--json"])
    assert stopped.returncode == 130
    assert json.loads(stopped.stdout)["issues"][0]["code"] == "E098"
    assert "Traceback" not in stopped.stderr


def test_an_interrupt_from_outside_ends_a_waiting_command(repo, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    code = (
        f"def show_config(call): open({str(gate)!r}).read()\n"
        "parse.find('config').function = show_config"
    )
    program = f"from tugtool.cli import main, parse\n{code}\nmain.run()\n"
    child = subprocess.Popen(
        [sys.executable, "-c", program, "config"], cwd=repo.path, stderr=subprocess.PIPE, text=True
    )
    with open(gate, "w"):  # opens only once the child waits at the other end
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert err == "tugcode: E098: interrupted\n"


def test_another_platform_is_refused(repo):
    refused = probe("sys.platform = 'win32'", repo.path)
    assert refused.returncode == 1
    assert "E075: Tugtool runs on Linux and macOS, and this is win32" in refused.stderr


def test_debug_adds_a_traceback(repo):
    quiet = run("plan", "show", "x", cwd=repo.path)
    assert "Traceback" not in quiet.stderr
    loud = run("plan", "show", "x", cwd=repo.path, env={**os.environ, "TUGCODE_DEBUG": "1"})
    assert "Traceback" in loud.stderr
    assert "PlanNotFound" in loud.stderr
    assert loud.returncode == 1


def test_a_directory_that_is_gone_is_refused(repo):
    code = "os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')"
    refused = probe(code, repo.path)
    assert refused.returncode == 1
    assert "E030: . no longer exists" in refused.stderr


def test_an_encoding_without_our_characters_is_no_traceback(repo):
    repo.plan("wide", "# 漢字 and ✓\n")
    shown = run("list", cwd=repo.path, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert shown.returncode == 0
    assert "\\u6f22\\u5b57" in shown.stdout


def test_colours_only_on_a_terminal_that_wants_them(repo):
    repo.plan("plain", "# A title\n")
    assert "\x1b" not in run("list", cwd=repo.path).stdout
    assert "\x1b[" in on_a_terminal("list", cwd=repo.path, TERM="xterm")
    assert "\x1b" not in on_a_terminal("list", cwd=repo.path, TERM="xterm", NO_COLOR="1")
    assert "\x1b" not in on_a_terminal("list", cwd=repo.path, TERM="dumb")
    assert "\x1b[" in on_a_terminal("validate", cwd=repo.path, TERM="xterm")


def on_a_terminal(*words: str, cwd: Path, **variables: str) -> str:
    """What the command prints when standard output is a terminal."""
    ours, theirs = os.openpty()
    child = subprocess.Popen(
        [TUGCODE, *words], cwd=cwd, stdout=theirs, stderr=theirs, env={**os.environ, **variables}
    )
    os.close(theirs)
    shown = b""
    while part := _read(ours):
        shown += part
    os.close(ours)
    child.wait(timeout=60)
    return shown.decode()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # Linux reports the closed other end of a terminal as an error
        return b""


@pytest.mark.parametrize("words", [["list"], ["version"], ["list", "--json"], ["--help"]])
def test_a_closed_standard_output_is_an_error_and_no_bug(repo, words):
    line = " ".join(["exec", f"'{TUGCODE}'", *words, ">&-"])
    done = subprocess.run(["sh", "-c", line], cwd=repo.path, capture_output=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(b"tugcode: E074: cannot write the answer")


@pytest.mark.parametrize("redirect", ["2>&-", "2>/dev/full"])
def test_the_exit_status_stands_even_if_nobody_hears_the_error(repo, redirect):
    line = f"exec '{TUGCODE}' nope {redirect}"
    done = subprocess.run(["sh", "-c", line], cwd=repo.path, capture_output=True, check=False)
    assert done.returncode == 2
