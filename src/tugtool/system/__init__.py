"""The machine, one outside thing per module: files, clock, processes, settings.

Room `system`: it imports errors; every room above may import it.

`os` comes from here: `from tugtool.system import os`. A command has the same functions without
loading `os`, which is an eighth of a bare start, because it makes all abstract classes of
collections. These are the functions of the system itself, and those of `os.path` that frequent
commands need, for plain paths. All else, and every other path, is left to `os`. A process that has
loaded `os` gets `os` itself.
"""

from __future__ import annotations

import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os as os
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

_KIND, _DIRECTORY, _FILE, _LINK = 0o170000, 0o040000, 0o100000, 0o120000


def _complete() -> Any:
    import os  # Only for what is unusual.

    return os


def _kind(status: posix.stat_result) -> int:
    return status.st_mode & _KIND


def _found(look: Callable[[str], posix.stat_result], name: str) -> int:
    """Return the kind of what a path leads to; 0 if it leads nowhere."""
    try:
        return _kind(look(name))
    except (OSError, ValueError):
        return 0


def _is_plain(name: str) -> bool:
    """Return whether the path is absolute, without empty parts, `.` and `..`."""
    first, *parts = name.split("/")
    return not first and bool(parts) and {"", ".", ".."}.isdisjoint(parts)


def _is_real(name: str) -> bool:
    """Return whether a plain path leads through no symbolic link."""
    end = 0
    while end < len(name):
        end = name.find("/", end + 1)
        end = len(name) if end < 0 else end
        try:
            if _kind(posix.lstat(name[:end])) == _LINK:
                return False
        except OSError:
            # Nothing is there, so nothing below it is.
            return True
    return True


class _Paths:
    """`os.path`, for text."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_complete().path, name)

    def join(self, first: str, *others: str) -> str:
        path = first
        for other in others:
            if other.startswith("/"):
                path = other
            else:
                path += other if not path or path.endswith("/") else f"/{other}"
        return path

    def dirname(self, name: str) -> str:
        head = name[: name.rfind("/") + 1]
        return head.rstrip("/") or head

    def basename(self, name: str) -> str:
        return name[name.rfind("/") + 1 :]

    def isabs(self, name: str) -> bool:
        return name.startswith("/")

    def exists(self, name: str) -> bool:
        return _found(posix.stat, name) != 0

    def lexists(self, name: str) -> bool:
        return _found(posix.lstat, name) != 0

    def isdir(self, name: str) -> bool:
        return _found(posix.stat, name) == _DIRECTORY

    def isfile(self, name: str) -> bool:
        return _found(posix.stat, name) == _FILE

    def islink(self, name: str) -> bool:
        return _found(posix.lstat, name) == _LINK

    def expanduser(self, name: str) -> str:
        found: str = _complete().path.expanduser(name) if name.startswith("~") else name
        return found

    def normpath(self, name: str) -> str:
        found: str = name if _is_plain(name) else _complete().path.normpath(name)
        return found

    def realpath(self, name: str) -> str:
        found = name.removesuffix("/.").removesuffix("/")
        if not (_is_plain(found) and _is_real(found)):
            found = _complete().path.realpath(name)
        return found


def _fsdecode(name: str | bytes) -> str:
    if isinstance(name, str):
        return name
    return name.decode(sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())


def _fsencode(name: str | bytes) -> bytes:
    if isinstance(name, bytes):
        return name
    return name.encode(sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())


def _stand_in() -> ModuleType:
    """Return a module with what `os` has; what it lacks is looked up in `os` itself."""
    found = type(sys)("os")
    vars(found).update(
        vars(posix),
        path=_Paths(),
        sep="/",
        devnull="/dev/null",
        fsdecode=_fsdecode,
        fsencode=_fsencode,
        environ={_fsdecode(name): _fsdecode(value) for name, value in posix.environ.items()},
        __getattr__=lambda name: getattr(_complete(), name),
    )
    return found


if not TYPE_CHECKING:
    # The real one, if it is there: tests and libraries change its functions and its environment.
    os = sys.modules.get("os") or _stand_in()
