"""Confinement by the kernel: what a confined command can write, and that it costs no rights."""

import os
import subprocess
import sys
import threading

import pytest

from tugtool.errors.safety import Unconfined
from tugtool.system import command
from tugtool.system.command import Streams
from tugtool.system.confinement import Confinement

LINUX = sys.platform == "linux"


def run(how: Confinement | None, line: str, cwd) -> str:
    """What a shell line prints, confined or not."""
    streams = Streams.keep(merged=True)
    with command.start(
        ["/bin/sh", "-c", line], cwd=str(cwd), streams=streams, confined=how
    ) as child:
        child.wait()
    return child.out.text()


def test_a_confined_command_writes_where_it_may_and_nowhere_else(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    how = Confinement("coder", (str(inside),))
    line = f"echo a >{inside}/a; echo b >{outside}/b; echo c >/dev/null; cat {inside}/a"
    assert run(how, line, inside).endswith("a\n")
    assert os.listdir(inside) == ["a"]
    assert os.listdir(outside) == []
    # The same without confinement, so that the test can fail.
    run(None, line, inside)
    assert os.listdir(outside) == ["b"]


def test_this_process_keeps_its_rights(tmp_path):
    how = Confinement("coder", ())
    run(how, "true", tmp_path)
    (tmp_path / "mine").write_text("x")
    thread = threading.Thread(target=(tmp_path / "thread").write_text, args=("x",))
    thread.start()
    thread.join()
    assert sorted(os.listdir(tmp_path)) == ["mine", "thread"]


def test_without_a_network_no_socket_reaches_another_process(tmp_path):
    line = (
        f"{sys.executable} -c 'import socket; socket.socket()' 2>&1 | tail -n 1; "
        f"{sys.executable} -c 'import socket; socket.socket(type=socket.SOCK_DGRAM)' 2>&1 "
        f"| tail -n 1; {sys.executable} -c 'import socket; socket.socketpair(); print(1)'"
    )
    free = run(Confinement("coder", ()), line, tmp_path)
    assert free == "1\n"
    kept = run(Confinement("coder", (), network=False), line, tmp_path)
    assert kept.count("PermissionError") == 2
    assert kept.endswith("1\n")


def test_where_the_kernel_has_no_means_nothing_is_started(tmp_path, monkeypatch):
    from tugtool.system import landlock

    monkeypatch.setattr(landlock, "version", lambda: 0)
    with pytest.raises(Unconfined, match="Landlock"):
        run(Confinement("coder", ()), f"touch {tmp_path}/ran", tmp_path)
    assert not (tmp_path / "ran").exists()


def test_a_missing_program_is_told_as_without_confinement(tmp_path):
    from tugtool.errors import CannotRun

    with pytest.raises(CannotRun, match="no-such-program"):
        command.start(["no-such-program"], cwd=str(tmp_path), confined=Confinement("coder", ()))


def test_truncation_is_refused_by_a_filter_where_landlock_is_too_old(tmp_path):
    """On such a kernel the rest would be writable by `truncate` alone."""
    from tugtool.system import landlock

    file = tmp_path / "file"
    file.write_text("x")
    code = f"import os; os.truncate({str(file)!r}, 0)"

    def limited() -> None:
        landlock._check(landlock._libc().prctl(38, 1, 0, 0, 0))
        landlock._filter(landlock._libc(), truncate=True, sockets=False)
        done.append(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True))

    done: list[subprocess.CompletedProcess[str]] = []
    thread = threading.Thread(target=limited)
    thread.start()
    thread.join()
    assert "PermissionError" in done[0].stderr
    assert file.read_text() == "x"
