"""Landlock and seccomp by the kernel's own calls: a thread gives up rights for what it starts.

The rights belong to a thread, and a process inherits those of the thread that starts it. So a
thread of its own restricts itself, starts the command and ends; nothing runs between fork and
exec. Files can be read everywhere; they can be written only below the given paths.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

from tugtool.system import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: The numbers of the calls, which are the same on every machine.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION, _PATH_BENEATH = 1, 1
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2

#: Rights to change files that Landlock knows from its first version on.
_WRITE_FILE, _REMOVE_DIR, _REMOVE_FILE, _MAKE_REG = 1 << 1, 1 << 4, 1 << 5, 1 << 8
_MAKE = 1 << 6 | 1 << 7 | _MAKE_REG | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12
#: Moving between directories, and cutting off, came later.
_REFER, _TRUNCATE = 1 << 13, 1 << 14
#: The rights that make sense for a file that is not a directory.
_OF_FILE = _WRITE_FILE | _TRUNCATE
#: TCP: to listen and to connect.
_TCP = 1 << 0 | 1 << 1
#: Abstract sockets, and signals, of processes outside.
_SCOPES = 1 << 0 | 1 << 1
#: The first versions of Landlock with these.
OLDEST, WITH_TRUNCATE, WITH_TCP, WITH_SCOPES = 2, 3, 4, 6

#: Machine -> its number in seccomp, and those of `truncate`, `socket`, `ioctl` and `prlimit64`.
_MACHINES = {"x86_64": (0xC000003E, 76, 41, 16, 302), "aarch64": (0xC00000B7, 45, 198, 29, 261)}
_IO_URING_SETUP = 425
#: Requests to a terminal that type for its user: TIOCSTI and TIOCLINUX.
_TYPING = (0x5412, 0x541C)
_THIS_PROCESS = 0
#: Calls of the second kind on x86_64 have numbers from here on.
_X32 = 0x40000000
_LOCAL_SOCKETS = 1
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
#: Where a filter finds the number of the call, the machine, and the first argument.
_AT_CALL, _AT_MACHINE, _AT_ARGUMENTS = 0, 4, 16
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EACCES


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def version() -> int:
    """Return the version of Landlock in this kernel; 0 if there is none."""
    if platform.system() != "Linux":
        return 0
    return max(0, int(_libc().syscall(_CREATE_RULESET, None, 0, _VERSION)))


def can_filter() -> bool:
    """Return whether calls can be refused on this machine that Landlock does not know."""
    return platform.machine() in _MACHINES


def restrict(writable: Iterable[str], *, network: bool) -> None:
    """Give up this thread's rights: to write elsewhere, and without `network` to connect."""
    found = version()
    libc = _libc()
    _check(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    rules = _ruleset(libc, found, network=network)
    try:
        for path in writable:
            _allow(libc, rules, path, _rights(found))
        _check(libc.syscall(_RESTRICT_SELF, rules, 0))
    finally:
        os.close(rules)
    _filter(libc, truncate=found < WITH_TRUNCATE, sockets=not network)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _rights(found: int) -> int:
    rights = _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE | _REFER
    return rights | (_TRUNCATE if found >= WITH_TRUNCATE else 0)


def _ruleset(libc: ctypes.CDLL, found: int, *, network: bool) -> int:
    fields = [_rights(found)]
    if found >= WITH_TCP:
        fields.append(0 if network else _TCP)
    if found >= WITH_SCOPES:
        fields.append(_SCOPES)
    given = struct.pack(f"{len(fields)}Q", *fields)
    return _check(libc.syscall(_CREATE_RULESET, given, len(given), 0))


def _allow(libc: ctypes.CDLL, rules: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        # What is not there cannot be written, and its directory is not for the agent.
        return
    try:
        rights = rights if os.path.isdir(path) else rights & _OF_FILE
        given = struct.pack("=Qi", rights, place)
        _check(libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, given, 0))
    finally:
        os.close(place)


def _filter(libc: ctypes.CDLL, *, truncate: bool, sockets: bool) -> None:
    """Refuse calls that this Landlock cannot: `truncate`, and sockets of other machines.

    Always refuse to type into the user's terminal, and to limit other processes, which ends them.
    """
    if not can_filter():
        return
    machine, cut, socket, ioctl, limit = _MACHINES[platform.machine()]
    lines = [(_LOAD, 0, 0, _AT_MACHINE), (_EQUAL, 1, 0, machine), (_RETURN, 0, 0, _REFUSE)]
    lines += [(_LOAD, 0, 0, _AT_CALL), (_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _REFUSE)]
    for request in _TYPING:
        lines += _refused(ioctl, 1, request)
    lines += _refused(limit, 0, _THIS_PROCESS, unless=True)
    if truncate:
        lines += _refused(cut)
    if sockets:
        # A ring of requests can make sockets too.
        lines += _refused(_IO_URING_SETUP)
        lines += _refused(socket, 0, _LOCAL_SOCKETS, unless=True)
    lines.append((_RETURN, 0, 0, _ALLOW))
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
    program = _Program(len(lines), ctypes.addressof(text))
    _check(libc.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0))


def _refused(
    call: int, argument: int | None = None, value: int = 0, *, unless: bool = False
) -> list[tuple[int, int, int, int]]:
    """Lines that refuse a call, always or if an argument is this value (or is not)."""
    if argument is None:
        return [(_EQUAL, 0, 1, call), (_RETURN, 0, 0, _REFUSE)]
    return [
        (_EQUAL, 0, 4, call),
        (_LOAD, 0, 0, _AT_ARGUMENTS + 8 * argument),
        (_EQUAL, int(unless), int(not unless), value),
        (_RETURN, 0, 0, _REFUSE),
        (_LOAD, 0, 0, _AT_CALL),
    ]
