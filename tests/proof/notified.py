"""Watching another process's system calls with what the kernel itself offers, and failing some.

A filter in the process holds each call of the listed kinds until we have answered: go on, or
this error. Needs Linux 5.9 or newer and neither root nor any other program.
"""

import ctypes
import fcntl
import os
import platform
import select
import socket
import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

#: Number on x86_64 and on aarch64 (-1: not there), and the argument that says which file: its
#: descriptor, or where its name lies.
CALLS: dict[str, tuple[int, int, str, int]] = {
    "read": (0, 63, "fd", 0),
    "write": (1, 64, "fd", 0),
    "pread64": (17, 67, "fd", 0),
    "pwrite64": (18, 68, "fd", 0),
    "ftruncate": (77, 46, "fd", 0),
    "fallocate": (285, 47, "fd", 0),
    "fsync": (74, 82, "fd", 0),
    "fdatasync": (75, 83, "fd", 0),
    "fcntl": (72, 25, "fd", 0),
    "flock": (73, 32, "fd", 0),
    "mmap": (9, 222, "fd", 4),
    "fstat": (5, 80, "fd", 0),
    "fchmod": (91, 52, "fd", 0),
    "openat": (257, 56, "name", 1),
    "newfstatat": (262, 79, "name", 1),
    "stat": (4, -1, "name", 0),
    "lstat": (6, -1, "name", 0),
    "unlink": (87, -1, "name", 0),
    "unlinkat": (263, 35, "name", 1),
    "rename": (82, -1, "name", 0),
    "renameat": (264, 38, "name", 1),
    "mkdir": (83, -1, "name", 0),
    "mkdirat": (258, 34, "name", 1),
    "chmod": (90, -1, "name", 0),
    "fchmodat": (268, 53, "name", 1),
    "link": (86, -1, "name", 0),
    "linkat": (265, 37, "name", 1),
    "execve": (59, 221, "name", 0),
    "execveat": (322, 281, "name", 1),
    "open": (2, -1, "name", 0),
    "creat": (85, -1, "name", 0),
    "renameat2": (316, 276, "name", 1),
    "symlink": (88, -1, "name", 1),
    "symlinkat": (266, 36, "name", 2),
    "truncate": (76, 45, "name", 0),
    "mknod": (133, -1, "name", 0),
    "mknodat": (259, 33, "name", 1),
    "connect": (42, 203, "fd", 0),
    # Its first argument is where the rights lie.
    "landlock_create_ruleset": (444, 444, "fd", 0),
}
#: Where the second name lies.
_SECOND = {"rename": 1, "link": 1, "renameat": 3, "linkat": 3}
#: Stands for the directory that one is in.
_HERE = 0xFFFFFF9C
_NUMBER = {"x86_64": 0, "aarch64": 1}.get(platform.machine(), 0)
_SECCOMP = (317, 277)[_NUMBER]
_NAMES = {row[_NUMBER]: name for name, row in CALLS.items() if row[_NUMBER] >= 0}
_RECEIVE, _ANSWER, _SET = 0xC0502100, 0xC0182101, 0x40082104


class Call(NamedTuple):
    """A system call that waits for our answer."""

    id: int
    pid: int
    name: str
    path: str
    #: Its six arguments, as they stand in the registers.
    words: tuple[int, ...] = ()


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def hold(talk: socket.socket, names: Iterable[str]) -> None:
    """Let the other end of `talk` decide from now on about these calls of this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    numbers = [CALLS[name][_NUMBER] for name in names if CALLS[name][_NUMBER] >= 0]
    parts = [(0x20, 0, 0)]  # load the number
    for n, number in enumerate(numbers):
        parts.append((0x15, len(numbers) - n, number))  # to the last line, if it is this one
    parts += [(0x06, 0, 0x7FFF0000), (0x06, 0, 0x7FC00000)]  # go on; ask
    lines = [struct.pack("HBBI", code, jump, 0, value) for code, jump, value in parts]
    text = ctypes.create_string_buffer(b"".join(lines))
    program = _Program(len(lines), ctypes.addressof(text))
    # No new privileges, which is what allows anybody to do this.
    libc.prctl(38, 1, 0, 0, 0)
    listener = libc.syscall(_SECCOMP, 1, 8, ctypes.byref(program))
    if listener < 0:
        raise OSError(ctypes.get_errno(), "this kernel lets nobody watch system calls")
    # Neither of these is held.
    socket.send_fds(talk, [b"."], [listener])
    os.close(listener)


def quicken(listener: int) -> None:
    """Let the two take turns on one processor, where the kernel can (6.6)."""
    with suppress(OSError):
        fcntl.ioctl(listener, _SET, 1)


def received(listener: int) -> Call | None:
    """The next call; None if its process is gone."""
    held = bytearray(80)
    try:
        fcntl.ioctl(listener, _RECEIVE, held)
    except OSError:
        return None
    id, pid, _, number, _, _, *words = struct.unpack("QIIiIQ6Q", held)
    name = _NAMES[number]
    return Call(id, pid, name, _path(pid, CALLS[name], words), tuple(words))


def answer(listener: int, call: Call, error: int = 0, *, value: int | None = None) -> None:
    """Let it go on, fail, or return a value that is not the kernel's."""
    goes_on = not error and value is None
    text = struct.pack("QqiI", call.id, value or 0, -error, int(goes_on))
    # It may have been killed meanwhile.
    with suppress(OSError):
        fcntl.ioctl(listener, _ANSWER, bytearray(text))


def supervise(
    argv: Sequence[str],
    names: Iterable[str],
    decide: Callable[[int, Call], None],
    *,
    cwd: Path,
    given: Path | None = None,
    out: Path | None = None,
) -> int:
    """Run a program to its end, and that of all it starts; `decide` answers each listed call.

    Returns its exit status; `given` is a file with its input, `out` one for what it prints.
    """
    nowhere = Path(os.devnull)
    here, there = socket.socketpair()
    child = os.fork()
    if child == 0:
        _become(argv, names, there, cwd, given or nowhere, out or nowhere)
    with here, there:
        there.close()
        _, (listener, *_), *_ = socket.recv_fds(here, 1, 1)
        poll = select.poll()
        poll.register(listener, select.POLLIN | select.POLLHUP)
        while any(event & select.POLLIN for _, event in poll.poll()):
            call = received(listener)
            if call is not None:
                decide(listener, call)
        os.close(listener)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _become(
    argv: Sequence[str],
    names: Iterable[str],
    talk: socket.socket,
    cwd: Path,
    given: Path,
    out: Path,
) -> None:
    try:
        os.chdir(cwd)
        os.dup2(os.open(given, os.O_RDONLY), 0)
        told = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for descriptor in (1, 2):
            os.dup2(told, descriptor)
        hold(talk, names)
        os.execvp(argv[0], argv)
    finally:
        os._exit(127)


def _path(pid: int, row: tuple[int, int, str, int], words: list[int]) -> str:
    try:
        if row[2] == "name":
            name = _text(pid, words[row[3]])
            if name:
                return os.path.join(_base(pid, words[row[3] - 1] if row[3] else _HERE), name)
        at = 0 if row[2] == "name" else row[3]
        return os.readlink(f"/proc/{pid}/fd/{words[at] & 0xFFFFFFFF}")
    except OSError:
        return ""


def second(call: Call) -> str:
    """The other name of a call that has two."""
    at = _SECOND[call.name]
    base = _base(call.pid, call.words[at - 1] if at == 3 else _HERE)
    return os.path.join(base, _text(call.pid, call.words[at]))


def _base(pid: int, directory: int) -> str:
    """Where a name is looked up: in the directory that stands before it, or where one is."""
    inner = directory & 0xFFFFFFFF
    return os.readlink(f"/proc/{pid}/cwd" if inner == _HERE else f"/proc/{pid}/fd/{inner}")


def memory(pid: int, address: int, length: int) -> bytes:
    """What a call is about to write, from its process's memory."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        return memory.read(length)


def _text(pid: int, address: int) -> str:
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        # Up to the end of its page, beyond which there may be none.
        text = memory.read(4096 - address % 4096)
        if b"\0" not in text:
            text += memory.read(4096)
    return os.fsdecode(text.partition(b"\0")[0])
