"""The machine: git, SQLite, the file system, its free space, the clock, and how Python starts."""

from __future__ import annotations

import os
import sys

from tugtool import __version__, git, start
from tugtool.clock import seconds_between
from tugtool.doctor import mounts
from tugtool.doctor.finding import error, note, warning
from tugtool.errors import GitUnusable, quoted
from tugtool.store import linked, sql
from tugtool.worktree import survey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tugtool.doctor.finding import Finding
    from tugtool.doctor.patient import Patient

#: What the tables need: STRICT came with this one.
OLDEST_SQLITE = (3, 37, 0)
#: Below this, a commit or a backup may not find room.
LEAST_BYTES = 100 << 20
#: Clocks of one machine differ by nothing; of those that share a directory, by this at most.
CLOCK_SECONDS = 60
#: What site and .pth files may cost: so many bare starts, and so many milliseconds more.
MOST_STARTS, MOST_MILLISECONDS = 3, 20


def versions() -> dict[str, object]:
    """What all of it stands on."""
    try:
        found = git.version()
    except GitUnusable:
        found = None
    return {
        "tugtool": __version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "sqlite": linked.VERSION,
        "sqlite_wal_reset_bug": linked.has_wal_reset_bug(),
        "git": found,
    }


def git_version(patient: Patient) -> Iterator[Finding]:
    """Whether git is there, and new enough for worktrees."""
    try:
        survey.require_git()
    except GitUnusable as unusable:
        # An old one answers the questions of the other checks all the same.
        severity = error if git.version() is None else warning
        yield severity(unusable.message, hint="git --version")


def sqlite(patient: Patient) -> Iterator[Finding]:
    """Whether the SQLite that Python is linked with is new enough."""
    yield from old_sqlite(linked.VERSION)


def old_sqlite(version: str) -> Iterator[Finding]:
    """The same for any version."""
    if tuple(int(part) for part in version.split(".")) < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        said = f"Python is linked with SQLite {version}, and the state needs {oldest} or newer"
        yield error(said, hint="tugcode version")


def file_system(patient: Patient) -> Iterator[Finding]:
    """Whether the database lies where locks can be relied on."""
    directory = os.path.dirname(patient.path)
    here = directory if os.path.isdir(directory) else patient.repo.root
    yield from on_network(os.path.realpath(here), _mount_table())


def on_network(path: str, table: str) -> Iterator[Finding]:
    """The same for any path and table of mounts."""
    kind = mounts.kind_at(path, table)
    if kind is not None and mounts.is_network(kind):
        said = (
            f"{path} is on a network file system ({kind}), whose locks cannot be relied on: "
            "the state may be damaged; keep the main worktree on a disk of this machine"
        )
        yield warning(said, hint=f"df {quoted(path)}")


def _mount_table() -> str:
    if sys.platform == "darwin":
        return start.output("/sbin/mount")
    try:
        with open("/proc/self/mountinfo", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def disk_space(patient: Patient) -> Iterator[Finding]:
    """Whether there is room to go on, for the state and for git."""
    seen: set[int] = set()
    for path in (patient.repo.root, patient.repo.common_dir):
        device = os.stat(path).st_dev
        if device not in seen:
            seen.add(device)
            room = os.statvfs(path)
            yield from little_room(path, room.f_bavail * room.f_frsize)


def little_room(path: str, free_bytes: int) -> Iterator[Finding]:
    """The same for any number of bytes."""
    if free_bytes < LEAST_BYTES:
        said = f"only {free_bytes >> 20} MiB are free at {path}"
        yield warning(said, hint=f"df -h {quoted(path)}")


def clock(patient: Patient) -> Iterator[Finding]:
    """Whether the clock was set back since the last change."""
    with patient.store.read() as tx:
        last, now = tx.value(sql.LAST_CHANGE), tx.now
    if last is not None and last > now and seconds_between(now, last) > CLOCK_SECONDS:
        said = (
            f"the last change was at {last}, and it is {now}: the clock was set back, and leases "
            "last longer than they say"
        )
        yield warning(said, hint="date -u")


def start_up(patient: Patient) -> Iterator[Finding]:
    """What every command pays before it begins."""
    yield from uncompiled(str(start.__spec__.cached), str(start.__spec__.origin))
    words = (sys.executable, "-I")
    bare = start.milliseconds(*words, "-S", "-c", "pass")
    usual = start.milliseconds(*words, "-c", "pass")
    patient.starts = (bare, usual)
    if bare is not None and usual is not None:
        yield from slow_start(bare, usual, sys.path)


def uncompiled(cached: str, source: str) -> Iterator[Finding]:
    """Whether Python has to compile the package at every start."""
    directory = os.path.dirname(source)
    if not os.path.exists(cached) and os.path.exists(source):
        said = (
            f"no compiled code is kept for {directory}, so every command compiles what it loads "
            "(PYTHONDONTWRITEBYTECODE, or a directory that cannot be written)"
        )
        yield note(said, hint=f"python3 -m compileall -q {quoted(directory)}")


def slow_start(bare: float, usual: float, places: Sequence[str]) -> Iterator[Finding]:
    """Whether something is imported at the start of every Python here, and what."""
    if usual < MOST_STARTS * bare or usual - bare < MOST_MILLISECONDS:
        return
    culprits = list(importing(places))
    named = f": {', '.join(culprits)}" if culprits else ""
    said = f"Python starts in {usual:.0f} ms here and in {bare:.0f} ms without its site{named}"
    yield note(said, hint="python3 -X importtime -c pass")


def importing(places: Sequence[str]) -> Iterator[str]:
    """The .pth files that run code at every start."""
    for place in places:
        names = sorted(os.listdir(place)) if os.path.isdir(place) else []
        for name in names:
            path = os.path.join(place, name)
            if name.endswith(".pth") and os.path.isfile(path):
                with open(path, errors="replace") as file:
                    if any(line.startswith(("import ", "import\t")) for line in file):
                        yield path
