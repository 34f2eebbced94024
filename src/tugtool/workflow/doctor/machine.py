"""Checks of git, SQLite, the file system, the clock and the start-up time.

And the preflight: what would keep a run from its end, found before an agent is started.
"""

from __future__ import annotations

import sys
from functools import partial
from itertools import chain, islice

from tugtool import __version__
from tugtool.agents import clis
from tugtool.agents import confinement as agent_confinement
from tugtool.errors import BadSetting, CannotRun, GitUnusable, TugError, Unwritable, quoted
from tugtool.errors.git import CommitRefused
from tugtool.git import command as git
from tugtool.git import refs, worktrees
from tugtool.state import history
from tugtool.store.sqlite import file
from tugtool.system import command as system_command
from tugtool.system import config, os, state_config
from tugtool.system.clock import seconds_between
from tugtool.system.command import Streams
from tugtool.workflow import plans, records, worktree
from tugtool.workflow.doctor import error, note, warning
from tugtool.workflow.worktree import branches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tugtool.git import Repository
    from tugtool.schemas import DoctorVersions
    from tugtool.store import Store
    from tugtool.system.agent_config import Agent
    from tugtool.system.config import Settings
    from tugtool.workflow.doctor import DoctorFinding, Subject
    from tugtool.workflow.worktree.create import WorktreeRequest


def milliseconds(*words: str, times: int = 3) -> float | None:
    """Return the least processor time of several runs of a command; None if it cannot run."""
    found = [_one(words) for _ in range(times)]
    return min((each for each in found if each is not None), default=None)


def _one(words: tuple[str, ...]) -> float | None:
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    try:
        child = os.posix_spawn(words[0], words, dict(config.environment()), file_actions=nowhere)
    except (OSError, ValueError):
        return None
    _, status, usage = os.wait4(child, 0)
    return None if status else (usage.ru_utime + usage.ru_stime) * 1000


def output(*words: str) -> str:
    """Return the output of a small system command; empty if it cannot run."""
    try:
        return system_command.run(words, cwd="/", streams=Streams.keep()).out.text()
    except CannotRun:
        return ""


#: On these file systems locks and shared memory do not work as a database needs.
NETWORK = (
    *("nfs", "cifs", "smb", "9p", "afs", "ceph", "gfs2", "glusterfs", "lustre", "ocfs2", "webdav"),
    *("afpfs", "acfs", "davfs", "ncpfs", "orangefs", "pvfs", "beegfs", "gpfs", "vboxsf"),
    "virtiofs",
    *("prl_fs", "vmhgfs", "fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.gcsfuse", "macfuse"),
    *("osxfuse", "fuse.glusterfs", "fuse.vmhgfs", "fuse.davfs", "fuse.ceph", "fuse.juicefs"),
    *("fuse.grpcfuse", "fuse.osxfs", "fuse.portal"),
)


def kind_at(path: str, table: str) -> str | None:
    """Return the type of the mount that holds the path, or None if the table lacks it."""
    entries = _linux(table) if " - " in table else _darwin(table)
    # The longest match wins; of two mounts at the same place, the later one.
    best, found = -1, None
    for place, kind in entries:
        inside = path == place or path.startswith(os.path.join(place, ""))
        if inside and len(place) >= best:
            best, found = len(place), kind
    return found


def is_network(kind: str) -> bool:
    """Return whether a database is unsafe on that type of file system."""
    return any(kind == name or (name in _VERSIONED and kind.startswith(name)) for name in NETWORK)


#: nfs4, smb3, smbfs and later versions.
_VERSIONED = ("nfs", "smb", "cifs", "webdav")


def _linux(table: str) -> list[tuple[str, str]]:
    """`36 35 98:0 /root /mount/point rw,noatime master:1 - ext4 /dev/root rw`."""
    found = []
    for line in table.splitlines():
        before, separator, after = line.partition(" - ")
        fields, rest = before.split(), after.split()
        if separator and len(fields) > 4 and rest:
            place = fields[4]
            # The kernel writes a blank as \040, and so on.
            for code in ("040", "011", "012", "134"):
                place = place.replace(f"\\{code}", chr(int(code, 8)))
            found.append((place, rest[0]))
    return found


def _darwin(table: str) -> list[tuple[str, str]]:
    """`//me@server/share on /Volumes/share (smbfs, nodev, nosuid)`."""
    found = []
    for line in table.splitlines():
        place, opened, options = line.partition(" on ")[2].rpartition(" (")
        if opened:
            found.append((place, options.partition(",")[0].rstrip(")")))
    return found


#: The tables are STRICT, which needs this version.
OLDEST_SQLITE = (3, 37, 0)
#: Machines that share a directory may differ by this much.
CLOCK_SECONDS = 60
#: The limits of site and .pth files: so many bare starts, and so many milliseconds more.
MOST_STARTS, MOST_MILLISECONDS = 3, 20


def versions(subject: Subject) -> DoctorVersions:
    """Return the versions of Python, SQLite and git, and what has the state if not a file."""
    found: DoctorVersions = {
        "tugtool": __version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "sqlite": file.VERSION,
        "sqlite_wal_reset_bug": file.has_wal_reset_bug(),
        "git": git.version(),
    }
    url = subject.settings.state_url()
    if url:
        found["state"] = "a server" if url.startswith("http") else "PostgreSQL"
        found["state_url"] = state_config.without_password(url)
    return found


def git_version(subject: Subject) -> Iterator[DoctorFinding]:
    """Check that git is there and new enough for worktrees."""
    try:
        worktree.require_git()
    except GitUnusable as unusable:
        # The other checks also work with an old git.
        severity = error if git.version() is None else warning
        yield severity(unusable.message, hint="git --version")


def sqlite(subject: Subject, version: str = file.VERSION) -> Iterator[DoctorFinding]:
    """Check that Python's SQLite, or the given version, is new enough."""
    if tuple(int(part) for part in version.split(".")) < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        said = f"Python is linked with SQLite {version}, and the state needs {oldest} or newer"
        yield error(said, hint="tugcode version")


def file_system(subject: Subject) -> Iterator[DoctorFinding]:
    """Check that the database is on a file system with reliable locks."""
    directory = os.path.dirname(subject.path)
    here = directory if os.path.isdir(directory) else subject.repo.root
    yield from on_network(os.path.realpath(here), _mount_table())


def on_network(path: str, table: str) -> Iterator[DoctorFinding]:
    """Check the path against a table of mounts."""
    kind = kind_at(path, table)
    if kind is not None and is_network(kind):
        said = (
            f"{path} is on a network file system ({kind}), whose locks cannot be relied on: "
            "the state may be damaged; keep the main worktree on a disk of this machine"
        )
        yield warning(said, hint=f"df {quoted(path)}")


def _mount_table() -> str:
    if sys.platform == "darwin":
        return output("/sbin/mount")
    try:
        with open("/proc/self/mountinfo", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def disk_space(subject: Subject) -> Iterator[DoctorFinding]:
    """Check the free space for the state and for git."""
    seen: set[int] = set()
    for path in (subject.repo.root, subject.repo.common_dir):
        device = os.stat(path).st_dev
        if device not in seen:
            seen.add(device)
            room = os.statvfs(path)
            yield from little_room(path, room.f_bavail * room.f_frsize)


def little_room(path: str, free_bytes: int) -> Iterator[DoctorFinding]:
    """Check a number of free bytes."""
    if free_bytes < LEAST_BYTES:
        said = f"only {free_bytes >> 20} MiB are free at {path}"
        yield warning(said, hint=f"df -h {quoted(path)}")


def clock(subject: Subject) -> Iterator[DoctorFinding]:
    """Check that the clock was not set back since the last change."""
    last, now = history.last_change(subject.store)
    if last is not None and last > now and seconds_between(now, last) > CLOCK_SECONDS:
        said = (
            f"the last change was at {last}, and it is {now}: the clock was set back, and leases "
            "last longer than they say"
        )
        yield warning(said, hint="date -u")


def start_up(subject: Subject) -> Iterator[DoctorFinding]:
    """Check the start-up time of every command."""
    yield from uncompiled(str(__spec__.cached), str(__spec__.origin))
    words = (sys.executable, "-I")
    bare = milliseconds(*words, "-S", "-c", "pass")
    usual = milliseconds(*words, "-c", "pass")
    subject.starts = (bare, usual)
    if bare is not None and usual is not None:
        yield from slow_start(bare, usual, sys.path)


def uncompiled(cached: str, source: str) -> Iterator[DoctorFinding]:
    """Find out whether Python compiles the package at every start."""
    directory = os.path.dirname(source)
    if not os.path.exists(cached) and os.path.exists(source):
        said = (
            f"no compiled code is kept for {directory}, so every command compiles what it loads "
            "(PYTHONDONTWRITEBYTECODE, or a directory that cannot be written)"
        )
        yield note(said, hint=f"python3 -m compileall -q {quoted(directory)}")


def slow_start(bare: float, usual: float, places: Sequence[str]) -> Iterator[DoctorFinding]:
    """Find imports that slow every start of Python here."""
    if usual < MOST_STARTS * bare or usual - bare < MOST_MILLISECONDS:
        return
    culprits = list(importing(places))
    named = f": {', '.join(culprits)}" if culprits else ""
    said = f"Python starts in {usual:.0f} ms here and in {bare:.0f} ms without its site{named}"
    yield note(said, hint="python3 -X importtime -c pass")


def importing(places: Sequence[str]) -> Iterator[str]:
    """Yield the .pth files that run code at every start."""
    for place in places:
        names = sorted(os.listdir(place)) if os.path.isdir(place) else []
        for name in names:
            path = os.path.join(place, name)
            if name.endswith(".pth") and os.path.isfile(path):
                with open(path, errors="replace") as file:
                    if any(line.startswith(("import ", "import\t")) for line in file):
                        yield path


#: Every step needs these roles.
NEEDED = ("coder", "reviewer")
#: With less space, a commit, a worktree or a backup may fail.
LEAST_BYTES = 100 << 20
#: The hooks that git runs for a commit.
HOOKS = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit")


def refuse(repo: Repository, problems: Iterable[TugError]) -> None:
    """Raise all problems at once."""
    found = list(problems)
    if len(found) == 1:
        raise found[0]
    if found:
        reason = f"is not ready: {len(found)} things are wrong, and no agent was started"
        raise CommitRefused(repo.root, reason, hint="tugcode doctor", problems=found)


def of_machine(repo: Repository) -> Iterator[TugError]:
    """Yield why no step could be committed here: git, identity, signature, hooks, disk space."""
    unusable = list(_tried(worktree.require_git))
    if unusable:
        # Every other check would say the same.
        yield from unusable
        return
    yield from of_commits(repo)
    yield from _tried(partial(_refuse_full_disk, repo))
    yield from _tried(partial(worktree.directory, repo))


def of_commits(repo: Repository) -> Iterator[TugError]:
    """Yield why git could not make a commit: identity, signature, hooks."""
    yield from _tried(partial(refs.refuse_commitless, repo.root))
    yield from _tried(partial(_refuse_hooks, repo))


def of_plan(repo: Repository, order: WorktreeRequest, *, agreed: bool) -> Iterator[TugError]:
    """Yield why no worktree could start with the plan: its target branch, or the plan there."""
    yield from _tried(partial(_refuse_branch, repo, order, agreed=agreed))


def of_record(repo: Repository, store: Store, order: WorktreeRequest) -> Iterator[TugError]:
    """Yield why the plan's text differs from the agreed one."""
    yield from _tried(partial(records.refuse_drift, repo, store, order))


def of_agents(settings: Settings, roles: Iterable[str]) -> Iterator[TugError]:
    """Yield missing roles, and agents whose program is missing."""
    missed = [role for role in NEEDED if settings.agent(role) is None]
    if missed:
        yield _no_agent(settings, missed)
    yield from of_programs(settings, roles)


def of_programs(settings: Settings, roles: Iterable[str]) -> Iterator[TugError]:
    """Yield agents whose program is missing, and the first that cannot be confined."""
    agents = [agent for agent in map(settings.agent, roles) if agent is not None]
    for agent in agents:
        yield from _missing(settings, agent)
    tries = (_tried(partial(agent_confinement.refuse_missing, agent)) for agent in agents)
    # The reason is the same for all.
    yield from islice(chain.from_iterable(tries), 1)


def _tried(check: Callable[[], object]) -> Iterator[TugError]:
    try:
        check()
    except TugError as error:
        yield error


def _refuse_branch(repo: Repository, order: WorktreeRequest, *, agreed: bool) -> None:
    onto = branches.branch(repo, asked=order.base, target=branches.target_branch(order.parsed))
    if agreed:
        # Only the agreed text has to be committed.
        plans.require_committed(repo, order, onto)


def _refuse_hooks(repo: Repository) -> None:
    """Raise E080 for a hook that cannot start because its interpreter is missing."""
    directory = worktrees.hooks_directory(repo.root)
    for name in HOOKS:
        path = os.path.join(directory, name)
        program = _interpreter(path) if os.access(path, os.X_OK) else None
        if program is not None and not os.access(program, os.X_OK):
            reason = f"has the hook {name}, which cannot be run: there is no {program}"
            raise CommitRefused(repo.root, reason, hint="git rev-parse --git-path hooks")


def _interpreter(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            first = file.readline(1000)
    except OSError:
        return None
    words = first[2:].split() if first.startswith(b"#!") else []
    return os.fsdecode(words[0]) if words else None


def _refuse_full_disk(repo: Repository) -> None:
    for path in dict.fromkeys((repo.root, repo.common_dir)):
        room = os.statvfs(path)
        free = room.f_bavail * room.f_frsize
        if free < LEAST_BYTES:
            needed = f"{LEAST_BYTES >> 20} MiB are needed"
            raise Unwritable(path, reason=f"only {free >> 20} MiB are free there, and {needed}")


def _no_agent(settings: Settings, missed: list[str]) -> BadSetting:
    key = f"agents.{missed[0]}"
    roles = " and the ".join(missed)
    problem = f"has no agent for the {roles}: [{key}] must name a preset or a command"
    if settings.file is None:
        problem = f"is not there, and {problem.removeprefix('has ')}"
    problem += '; for all roles at once: [agents.default] and below it preset = "claude"'
    return BadSetting(settings.file or config.CONFIG_PATH, problem, key=key)


def _missing(settings: Settings, agent: Agent) -> Iterator[BadSetting]:
    import shutil

    command = clis.command(agent)
    program = command.argv[0]
    if os.sep in program and not os.path.isabs(program):
        # A relative path may exist only in the worktree.
        return
    path = {**config.command_environment(), **command.env}.get("PATH", os.defpath)
    if shutil.which(program, path=path) is None:
        where = "is not a program" if os.sep in program else "is not a program on its PATH"
        problem = f"the {agent.role} cannot be started: {program!r} {where}"
        yield BadSetting(settings.file or config.CONFIG_PATH, problem, key=f"agents.{agent.role}")
