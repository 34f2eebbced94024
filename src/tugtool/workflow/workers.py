"""The processes of workers: a worker neither reviews nor steers, whatever it says.

A process can clear its own environment, but not that of the processes above it, and it cannot
leave its confinement. An unconfined process that has left its parents looks like its user's own.
"""

from __future__ import annotations

from tugtool.state import reviews, views
from tugtool.system import os, process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from tugtool.store import Store


#: What a worker's environment has.
_MARKS = (b"TUGCODE_ATTEMPT=", b"TUGCODE_ROLE=")
_LARGEST_ENVIRONMENT = 4 << 20


def is_worker(pid: int) -> bool:
    """True if a process here is a worker's, or has ended, so that nobody can tell any more."""
    if not os.path.exists("/proc/self/stat"):
        return False  # Elsewhere only the worker's own environment tells.
    return _parent(pid) is None or _is_confined(pid) or is_below_worker(pid)


def is_below_worker(pid: int) -> bool:
    """True if a process, or one above it, was started for a worker."""
    return any(
        part.startswith(_MARKS)
        for each in lineage(pid)
        for part in _proc(each, "environ").split(b"\0")
    )


def lineage(pid: int) -> list[int]:
    """The process, its parent, and so on up to the first one."""
    found: list[int] = []
    while pid and pid not in found:
        found.append(pid)
        pid = _parent(pid) or 0
    return found


def held_above(store: Store, is_own: Callable[[str, str], bool]) -> tuple[str, str] | None:
    """A step, with its plan, that a process above this one holds; `is_own` leaves some out."""
    above = lineage(os.getppid())
    for step, lost in reviews.claims(store):
        plan, anchor = step["plan_path"], step["anchor"]
        if lost is None and not is_own(plan, anchor):
            _, attempt = views.attempt(store, plan, anchor, step["attempt"])
            if process.running(attempt) in above:
                return plan, anchor
    return None


def _is_confined(pid: int) -> bool:
    """True if the process may gain no privileges and this one may: so it is with a confinement."""
    return _is_barred(pid) and not _is_barred(os.getpid())


def _is_barred(pid: int) -> bool:
    return b"\nNoNewPrivs:\t1" in _proc(pid, "status")


def _parent(pid: int) -> int | None:
    """The parent of a process, 0 for the first one; None if the process does not run."""
    # The name is in parentheses and may itself contain parentheses.
    fields = _proc(pid, "stat").rpartition(b")")[2].split()
    return int(fields[1]) if fields and fields[0] not in (b"Z", b"X") else None


def _proc(pid: int, name: str) -> bytes:
    """A file of the kernel about a process; empty if this user may not read it."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read(_LARGEST_ENVIRONMENT)
    except OSError:
        return b""
