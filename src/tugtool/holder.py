"""Is the process that holds a claim provably gone?

Proof needs the same host, the same boot and the same PID namespace: only then does a
process id mean the same here as where it was written down. Without proof only the lease
counts.
"""

from __future__ import annotations

import os

from tugtool import jsontext

#: How a stamp begins; a caller's own request id may be anything else.
_STAMP = "process "

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def place() -> dict[str, str | None]:
    """Where process ids written down now will mean something."""
    return {"host": os.uname().nodename, "boot": _boot(), "pid_namespace": _namespace()}


def start_time(pid: int) -> str | None:
    """When a process started, in the kernel's own count; None if it does not run.

    A number is used again for another process sooner or later; with its start it is
    unique. Where there is no /proc, a running process has the start "" and is trusted.
    """
    if not os.path.exists("/proc/self/stat"):
        return "" if _answers(pid) else None
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name stands in parentheses and may hold anything, also parentheses.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()


def stamp(name: str) -> str:
    """This process, and which part of it, as a text that `lives` and `ended` understand."""
    pid = os.getpid()
    facts = {**place(), "holder_pid": pid, "holder_start": start_time(pid), "name": name}
    return _STAMP + jsontext.encode(facts)


def lives(text: str | None) -> bool:
    """Whether a stamp is that of a process that runs here, beyond doubt."""
    recorded = _stamped(text)
    return recorded is not None and _is_here(recorded) and not is_gone(recorded)


def ended(text: str | None) -> bool:
    """Whether a stamp is that of a process that is gone, beyond doubt."""
    recorded = _stamped(text)
    return recorded is not None and is_gone(recorded)


def is_own(text: str | None) -> bool:
    """Whether a stamp is that of this very process."""
    recorded = _stamped(text)
    return lives(text) and recorded is not None and recorded["holder_pid"] == os.getpid()


def _stamped(text: str | None) -> Mapping[str, object] | None:
    if text is None or not text.startswith(_STAMP):
        return None
    import json  # Only where an orchestrator was at work.

    facts: Mapping[str, object] = json.loads(text.removeprefix(_STAMP))
    return facts


def _is_here(recorded: Mapping[str, object]) -> bool:
    return all(recorded[key] == value for key, value in place().items())


def is_gone(recorded: Mapping[str, object]) -> bool:
    """Whether the holder that was recorded no longer runs, beyond doubt."""
    pid = recorded["holder_pid"]
    if not isinstance(pid, int):
        return False
    return _is_here(recorded) and start_time(pid) != recorded["holder_start"]


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _boot() -> str | None:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return None


def _namespace() -> str | None:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None
