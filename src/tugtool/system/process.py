"""Is the process that was recorded still running? By pid, start, boot and namespace."""

from __future__ import annotations

from tugtool.system import os, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


#: How a stamp begins; a caller's own request id may be anything else.
_STAMP = "process "

#: What never changes while this process lives: its start, its boot and its namespace.
_own: dict[str, str] = {}
#: For a server: asks the machine of a caller about a process that is not on this one, by the name
#: of the function here.
witness: Callable[[str, Mapping[str, object]], object] | None = None
os.register_at_fork(after_in_child=_own.clear)


def machine_identity() -> dict[str, str | None]:
    """The machine, boot and namespace in which this process's ids are valid."""
    return {"host": os.uname().nodename, "boot": _boot(), "pid_namespace": _namespace()}


def start_time(pid: int) -> str | None:
    """When a process started, in the kernel's own count; None if it does not run.

    The system reuses process ids; id and start together are unique. Without /proc a running
    process has the start "" and is trusted.
    """
    if pid == os.getpid() and "start" in _own:
        return _own["start"]
    if not os.path.exists("/proc/self/stat"):
        return "" if _answers(pid) else None
    fields = _stat(pid)
    if not fields or fields[0] in (b"Z", b"X"):
        return None
    start = fields[19].decode()
    if pid == os.getpid():
        _own["start"] = start
    return start


def _stat(pid: int) -> list[bytes]:
    """The kernel's facts about a process, its state first; empty if it does not run."""
    try:
        # The name is in parentheses and may itself contain parentheses.
        return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    except OSError:
        return []


def stamp(name: str) -> str:
    """This process, and which part of it, as a text that `lives` and `ended` understand."""
    return _STAMP + text.encode({**process(os.getpid()), "name": name})


def lives(text: str | None) -> bool:
    """True if a stamp names a process that provably runs here."""
    recorded = _stamped(text)
    return recorded is not None and _is_here(recorded) and not is_gone(recorded)


def ended(text: str | None) -> bool:
    """True if a stamp names a process that has provably ended."""
    recorded = _stamped(text)
    return recorded is not None and is_gone(recorded)


def is_own(text: str | None) -> bool:
    """True if a stamp names this process."""
    recorded = _stamped(text)
    return lives(text) and recorded is not None and recorded["holder_pid"] == os.getpid()


def _stamped(text: str | None) -> Mapping[str, object] | None:
    if text is None or not text.startswith(_STAMP):
        return None
    import json  # Only after an orchestrator has run.

    facts: Mapping[str, object] = json.loads(text.removeprefix(_STAMP))
    return facts


def _is_here(recorded: Mapping[str, object]) -> bool:
    here = machine_identity()
    # The boot id belongs to this machine alone, even if its name has changed.
    keys = ("boot", "pid_namespace") if here["boot"] and here["pid_namespace"] else tuple(here)
    return all(recorded[key] == here[key] for key in keys)


def is_gone(recorded: Mapping[str, object]) -> bool:
    """True if the recorded holder has provably ended."""
    pid = recorded["holder_pid"]
    if not isinstance(pid, int):
        return False
    if not _is_here(recorded):
        return witness is not None and bool(witness("is_gone", recorded))
    return start_time(pid) != recorded["holder_start"]


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


def _boot() -> str | None:
    try:
        if "boot" not in _own:
            _own["boot"] = _read("/proc/sys/kernel/random/boot_id").strip().decode()
        return _own["boot"]
    except OSError:
        return None


def _read(path: str) -> bytes:
    """A short kernel file, by one read: Python's file objects cost four times as much."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def _namespace() -> str | None:
    try:
        if "namespace" not in _own:
            _own["namespace"] = os.readlink("/proc/self/ns/pid")
        return _own["namespace"]
    except OSError:
        return None


def lock_holder(descriptor: int) -> str:
    """The process that wrote its id into a lock file, in words."""
    try:
        return describe(int(os.pread(descriptor, 24, 0)))
    except (OSError, ValueError):
        return "another process"


def describe(pid: int) -> str:
    """A process in words: its id, and whether it is stopped."""
    stopped = _stat(pid)[:1] in ([b"T"], [b"t"])
    return f"process {pid}{', which is stopped' if stopped else ''}"


class ProcessNote:
    """A small file in git's directory that names the process at work there."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def write(self, pid: int) -> None:
        """Record a running process. Not synced: after a power cut the process is gone too."""
        try:
            with open(self.path, "w", encoding="utf-8") as file:
                file.write(text.encode(process(pid)))
        except OSError:
            # The disk is full: git will say so itself.
            return

    def drop(self) -> None:
        """Delete the note: the process has ended, and its parent has seen that."""
        if self.is_there():
            os.unlink(self.path)

    def is_there(self) -> bool:
        """True if the note is there, whether its process runs or not."""
        return os.path.lexists(self.path)

    def running(self) -> int | None:
        """The process, if it provably still runs."""
        import json  # Only after a crash.

        try:
            with open(self.path, encoding="utf-8") as file:
                return running(json.load(file))
        except (OSError, ValueError):
            return None


def holder_place(pid: int) -> dict[str, str | None]:
    """The start of a process, and its machine; a process that has ended has the start ""."""
    return {"holder_start": start_time(pid) or "", **machine_identity()}


def process(pid: int) -> dict[str, object]:
    """The facts that identify a process later."""
    return {**machine_identity(), "holder_pid": pid, "holder_start": start_time(pid)}


def running(recorded: Mapping[str, object] | None) -> int | None:
    """The recorded process's id, if it is another process and provably still runs."""
    if recorded is None:
        return None
    if not _is_here(recorded):
        found = None if witness is None else witness("running", recorded)
        return found if isinstance(found, int) else None
    pid, start = recorded["holder_pid"], recorded["holder_start"]
    # A process without a start had ended before it was recorded.
    runs = isinstance(pid, int) and start is not None and start_time(pid) == start
    return pid if runs and isinstance(pid, int) and pid != os.getpid() else None


def login_name() -> str:
    """The user's name by the system's records; the environment cannot change it."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        # A container may run under a user id that has no name.
        return f"user {os.getuid()}"
