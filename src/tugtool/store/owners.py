"""Machines and owners: which machine is this, and what is stored for its worktrees.

Only a record that several machines share needs this module.
"""

from __future__ import annotations

import os
import sys

#: Files with the host's own id: Linux (systemd, D-Bus), FreeBSD.
_ID_FILES = ("/etc/machine-id", "/var/lib/dbus/machine-id", "/etc/hostid")
_LONGEST_NAME = 64


class Machine:
    """A machine: its id in the record, and its host name."""

    __slots__ = ("id", "name")

    def __init__(self, id: str, name: str) -> None:
        self.id = id
        self.name = name


def this_machine(given: str | None = None) -> Machine:
    """Return this machine, or the one with the given name.

    Its id is made from the host's own, which is to be kept secret (machine-id(5)). A record in a
    file does not ask for it: the worktrees there are on the machine that has the file.
    """
    name = machine_name(given or "")
    if name:
        return Machine(name, name)
    name, own = machine_name(os.uname().nodename) or "machine", _host_id()
    return Machine(_digest(own) if own else name, name)


def machine_name(text: str) -> str:
    """Return a name that can stand before the colon of `machine:path`."""
    kept = "".join(each if each.isascii() and _is_kept(each) else "-" for each in text)
    return kept.strip("-.")[:_LONGEST_NAME]


def _is_kept(char: str) -> bool:
    return char.isalnum() or char in "._-"


def _host_id() -> bytes:
    """Return the host's own id; empty if it has none, as in many containers."""
    for path in _ID_FILES:
        try:
            with open(path, "rb", buffering=0) as file:
                found = file.read(100).strip()
        except OSError:
            continue
        # systemd writes this word until the first boot is over.
        if found and found != b"uninitialized":
            return found
    return _darwin_id() if sys.platform == "darwin" else b""


def _darwin_id() -> bytes:
    """Return the hardware's UUID on macOS, which has it in no file."""
    import ctypes

    class Wait(ctypes.Structure):
        _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))

    uuid = (ctypes.c_ubyte * 16)()
    try:
        failed = ctypes.CDLL(None).gethostuuid(uuid, ctypes.byref(Wait(1, 0)))
    except AttributeError:
        return b""
    return b"" if failed else bytes(uuid)


def _digest(own: bytes) -> str:
    try:
        from _blake2 import blake2s  # hashlib loads OpenSSL, a quarter of a bare start.
    except ImportError:
        from hashlib import blake2s
    return blake2s(own, key=b"tugtool", digest_size=6).hexdigest()
