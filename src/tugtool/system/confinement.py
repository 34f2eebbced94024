"""Confinement: a command and all that it starts can write only where it may.

By the kernel and without root: Landlock on Linux, `sandbox-exec` on macOS. Where neither is
there, `refuse_missing` says so before anything is started.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

from tugtool.errors.safety import Unconfined
from tugtool.system import files, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeVar

    Result = TypeVar("Result")

#: Devices that every program may write to.
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts")
#: The program that confines a command on macOS.
SANDBOX = "/usr/bin/sandbox-exec"


class Confinement(NamedTuple):
    """The places that a command may write to, and whether it may use the network."""

    role: str
    writable: tuple[str, ...]
    network: bool = True


def problem(*, network: bool = True) -> str | None:
    """Return why this system cannot confine a command; None if it can."""
    if sys.platform == "darwin":
        return None if os.access(SANDBOX, os.X_OK) else f"there is no {SANDBOX}"
    from tugtool.system import landlock

    found = landlock.version()
    if found < landlock.OLDEST:
        have = f"this kernel has version {found}" if found else "this kernel has none"
        return f"it needs Landlock, version {landlock.OLDEST} or newer (Linux 5.19), and {have}"
    if landlock.can_filter():
        return None
    machine = os.uname().machine
    if found < landlock.WITH_TRUNCATE:
        return f"on {machine} it needs Landlock, version {landlock.WITH_TRUNCATE} (Linux 6.2)"
    return None if network else f"the network cannot be refused on {machine}"


def limits() -> list[str]:
    """Return what confinement does not stop on this kernel, beside what it never stops."""
    if sys.platform == "darwin":
        return []
    from tugtool.system import landlock

    found = []
    if landlock.version() < landlock.WITH_SCOPES:
        found.append("send signals to other processes of yours (Linux 6.12 stops them)")
        found.append("reach abstract sockets of other processes (Linux 6.12 stops that)")
    if not landlock.can_filter():
        found.append("type into your terminal, and limit other processes of yours")
    return found


def refuse_missing(role: str, *, network: bool = True) -> None:
    """Refuse with E111 if this system cannot confine the role's agent."""
    reason = problem(network=network)
    if reason is not None:
        raise Unconfined(role, reason=reason, setting="confine" if network else "network")


def begin_confined(
    how: Confinement, argv: Sequence[str], begin: Callable[[Sequence[str]], Result]
) -> Result:
    """Let `begin` start the command, confined; return what it returns, or raise what it raises."""
    refuse_missing(how.role, network=how.network)
    if sys.platform == "darwin":
        return begin([SANDBOX, "-p", profile(how), *argv])
    return _on_a_thread(how, argv, begin)


def _on_a_thread(
    how: Confinement, argv: Sequence[str], begin: Callable[[Sequence[str]], Result]
) -> Result:
    import threading

    from tugtool.system import landlock

    results: list[Result] = []
    problems: list[BaseException] = []

    def work() -> None:
        try:
            landlock.restrict((*DEVICES, *how.writable), network=how.network)
        except OSError as error:
            problems.append(Unconfined(how.role, reason=files.reason(error)))
            return
        try:
            results.append(begin(argv))
        except BaseException as error:
            problems.append(error)

    thread = threading.Thread(target=work, name=f"confined {how.role}")
    thread.start()
    thread.join()
    if problems:
        raise problems[0]
    return results[0]


def profile(how: Confinement) -> str:
    """Return the rules for macOS, in the language of `sandbox-exec`."""
    return "\n".join(_rules(how)) + "\n"


def _rules(how: Confinement) -> Iterator[str]:
    yield "(version 1)"
    yield "(allow default)"
    # A hard link to a file outside would be a way to write that file.
    yield "(deny file-write* file-link)"
    for path in (*DEVICES, *how.writable):
        # The rules are about real paths: /tmp is a link there.
        real = os.path.realpath(path)
        kind = "literal" if os.path.lexists(real) and not os.path.isdir(real) else "subpath"
        yield f"(allow file-write* file-link ({kind} {_quoted(real)}))"
    yield "(deny signal)"
    yield "(allow signal (target same-sandbox))"
    if not how.network:
        yield "(deny network*)"
        yield "(allow network* (local unix-socket) (remote unix-socket))"


def _quoted(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
