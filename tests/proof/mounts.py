"""Small file systems in memory, in a namespace that only one process and its children see.

With Python alone, and as anybody where the kernel lets anybody have namespaces.
"""

import ctypes
import os
import subprocess
import sys

_NEW_MOUNTS, _NEW_USER = 0x20000, 0x10000000
_READ_ONLY, _REMOUNT, _PRIVATE, _EVERYWHERE = 1, 32, 1 << 18, 1 << 14


def possible() -> bool:
    """Whether we may: some containers allow nobody to."""
    argv = [sys.executable, "-c", "import mounts; mounts.enter('/tmp', 4096)"]
    place = os.path.dirname(__file__)
    return subprocess.run(argv, cwd=place, stderr=subprocess.DEVNULL).returncode == 0


def enter(directory: str, size: int) -> None:
    """Have a file system of so many bytes at a directory, which nobody else sees."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(_NEW_MOUNTS | (_NEW_USER if user else 0)):
        raise OSError(ctypes.get_errno(), "nobody may mount anything here")
    if user:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"0 {user} 1"),
            ("gid_map", f"0 {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    _mount(None, "/", None, _PRIVATE | _EVERYWHERE, None)
    _mount("tmpfs", directory, "tmpfs", 0, f"size={size}")


def change(directory: str, *, size: int | None = None, read_only: bool = False) -> None:
    """Another size, or nothing may be written any more."""
    options = None if size is None else f"size={size}"
    _mount("tmpfs", directory, "tmpfs", _REMOUNT | (_READ_ONLY if read_only else 0), options)


def _mount(what: str | None, where: str, kind: str | None, flags: int, options: str | None) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    texts = [None if text is None else os.fsencode(text) for text in (what, where, kind, options)]
    if libc.mount(*texts[:3], ctypes.c_ulong(flags), texts[3]):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), where)
