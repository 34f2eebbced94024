"""Which git runs on after whoever started it: what is written down, and what it proves."""

import subprocess

from tugtool.system.process import ProcessNote


def test_a_process_that_runs_is_told_until_it_has_ended(tmp_path):
    note = ProcessNote(str(tmp_path / "note"))
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as running:
        note.write(running.pid)
        assert note.running() == running.pid
    assert (note.running(), note.is_there()) == (None, True)


def test_one_that_had_ended_before_it_was_written_down_is_not_taken_for_running(tmp_path):
    ended = subprocess.Popen(["true"])
    ended.wait()
    note = ProcessNote(str(tmp_path / "note"))
    note.write(ended.pid)
    assert note.running() is None
