"""T: the machine gets another name, as laptops do; the boot and the PID namespace prove as much."""

import os
import subprocess
import sys

import pytest

from implement.test_stop import Bell
from tugtool.system import process

#: Runs under another name, in a namespace of its own for names alone.
RENAMED = ["unshare", "--uts", "sh", "-c", 'hostname elsewhere && exec "$@"', "sh"]


def can_be_renamed() -> bool:
    done = subprocess.run([*RENAMED, "true"], capture_output=True)
    return done.returncode == 0


@pytest.mark.proof(share=0)
@pytest.mark.skipif(not can_be_renamed(), reason="a name of one's own needs privileges")
def test_a_run_that_was_killed_under_another_name_is_taken_over_at_once(play):
    play = play("1 t")
    bell = Bell(play)
    play.rules({"role": "coder", "attempt": 1, "do": [bell.ring(), {"hang": True}]})
    run = play.start()
    bell.heard()
    run.kill()
    run.communicate()
    words = [sys.executable, "-m", "tugtool", "-C", str(play.root), "implement", "work", "--json"]
    done = subprocess.run([*RENAMED, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert play.outcomes("step-1") == ["dead", "completed"]


@pytest.mark.parametrize("key", ["boot", "pid_namespace"])
def test_what_another_boot_or_namespace_wrote_down_proves_nothing(key):
    gone = {**process.process(os.getpid()), "holder_start": "1", "host": "elsewhere"}
    assert process.is_gone(gone)
    assert not process.is_gone({**gone, key: "elsewhere"})


def test_where_the_system_tells_no_boot_the_name_counts(monkeypatch):
    monkeypatch.setattr(process, "_boot", lambda: None)
    gone = {**process.process(os.getpid()), "holder_start": "1"}
    assert process.is_gone(gone)
    assert not process.is_gone({**gone, "host": "elsewhere"})
