"""The only module that starts git: arguments in, output out.

It uses `posix_spawn` instead of `subprocess`, because the import of `subprocess` costs as
much as a bare interpreter start.
"""

from __future__ import annotations

from tugtool import errors
from tugtool.system import config, files, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypedDict, Unpack

    class Options(TypedDict, total=False):
        """The options of `attempt` beside the words and the directory."""

        given: str | None
        index: str | None
        settings: Iterable[str]
        date: str | None
        located_by_environment: bool
        started: Callable[[int], None] | None
        though_killed: bool
        most_bytes: int | None


#: The GIT_* variables that git keeps: the person's identity, and access to remotes.
#: The others are dropped: the variables of a hook or a shell must not redirect us.
KEPT = ("GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_CONFIG_", "GIT_SSH", "GIT_ASKPASS", "GIT_EXEC_PATH")
#: These would carry the caller's settings into the repositories that we work on.
NEVER_KEPT = ("GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_")

#: Overrides settings that change git's output, and the file monitor: git would start it to look.
PLAIN = (
    *("-c", "color.ui=never", "-c", "log.showSignature=false"),
    *("-c", "i18n.logOutputEncoding=UTF-8", "-c", "core.fsmonitor=false"),
)

#: Commands that show differences: never by a program that a setting names.
_SHOWING = ("diff", "diff-files", "diff-index", "diff-tree", "log", "show")
_BY_GIT = ("--no-ext-diff", "--no-textconv")
#: The number under which git finds a copy of the index among its open files.
_COPY = 9

#: Python ignores SIGPIPE, and a child would inherit that. (`signal` would import `enum`.)
_SIGPIPE = 13


#: How often a killed git is run again; the system may kill it for lack of memory.
_TIMES_AGAIN = 2
#: Signals of people and of ending sessions: SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM.
_BY_PEOPLE = (1, 2, 3, 13, 15)
#: Commands that change no ref, index or file. Run again, they write the same objects.
_READING = frozenset(
    (
        *("status", "log", "diff", "diff-tree", "rev-parse", "rev-list", "merge-base", "show-ref"),
        *("for-each-ref", "ls-files", "ls-tree", "cat-file", "check-attr", "check-ignore", "var"),
        *("config", "remote", "interpret-trailers", "merge-tree", "commit-tree", "hash-object"),
    )
)


class Done:
    """The result of a git command: its exit status and its output."""

    __slots__ = ("_said", "out", "status")

    def __init__(self, status: int, out: str, said: str) -> None:
        self.status = status
        self.out = out
        self._said = said

    @property
    def said(self) -> str:
        """Its standard error; without secrets if git failed, because hooks write there too."""
        if self.status and self._said:
            from tugtool.system import secrets  # Git rarely fails with a message.

            return secrets.Mask(config.environment()).text(self._said)
        return self._said

    def require(self, arguments: Sequence[str]) -> str:
        """Its standard output; refuses with git's message if git failed."""
        if self.status:
            raise errors.GitFailed(arguments, status=self.status, said=self.said.strip())
        return self.out


def run(*arguments: str, cwd: str, **options: Unpack[Options]) -> str:
    """The standard output of `git -C cwd arguments...`; refuses with git's message."""
    return attempt(*arguments, cwd=cwd, **options).require(arguments)


def attempt(
    *arguments: str,
    cwd: str,
    given: str | None = None,
    index: str | None = None,
    settings: Iterable[str] = (),
    date: str | None = None,
    located_by_environment: bool = False,
    started: Callable[[int], None] | None = None,
    though_killed: bool = False,
    most_bytes: int | None = None,
) -> Done:
    """Run git and return its result, failed or not; refuse if it is killed, unless `though_killed`.

    `given` is its standard input, `index` a file to use in place of the working tree's index,
    `settings` (`name=value`) hold for this run, `date` is the date of its commits. The
    environment's location variables count only with `located_by_environment`.
    `started` gets the process id before git gets its input. After `most_bytes` of output git is
    not read any more, which may kill it.
    """
    env = environment(located_by_environment)
    if not located_by_environment:
        env.update(_ceiling(cwd))
    if date is not None:
        env.update(GIT_AUTHOR_DATE=date, GIT_COMMITTER_DATE=date)
    with _Armour(arguments, env, cwd, index) as armour:
        argv = words(*arguments, cwd=cwd, settings=settings, options=armour.options)
        done = _spawn(argv, env, given, started, most_bytes, armour.copy)
        for _ in range(_TIMES_AGAIN if done.status < 0 and not though_killed else 0):
            if _is_repeatable(done.status, arguments, index):
                done = _spawn(argv, env, given, started, most_bytes, armour.copy)
    if done.status < 0 and not though_killed:
        # A git killed by Ctrl-C has not answered, so its status must not count as "no".
        done.require(arguments)
    return done


def words(
    *arguments: str, cwd: str, settings: Iterable[str] = (), options: Sequence[str] = ()
) -> list[str]:
    """The whole command line of git."""
    more = [word for setting in settings for word in ("-c", setting)]
    return ["git", *PLAIN, *more, *options, "-C", cwd, *_by_git(arguments)]


class _Armour:
    """While a command only looks: what keeps git from running the repository's programs."""

    __slots__ = ("copy", "options")

    def __init__(
        self, arguments: Sequence[str], environment: dict[str, str], cwd: str, index: str | None
    ) -> None:
        self.options: tuple[str, ...] = ()
        #: An open copy of the index.
        self.copy: int | None = None
        if is_looking() and arguments != ("--version",):
            from tugtool.git import safe_view  # Few commands that only look need git.

            self.options = safe_view.options(arguments)
            environment.update(safe_view.variables(arguments, cwd))
            self.copy = None if index else safe_view.index_copy(environment, cwd)
        if index or self.copy is not None:
            environment["GIT_INDEX_FILE"] = index or f"/dev/fd/{_COPY}"

    def __enter__(self) -> _Armour:
        return self

    def __exit__(self, *_: object) -> None:
        if self.copy is not None:
            os.close(self.copy)


def is_looking() -> bool:
    """True if this thread's command only looks, so that git runs nothing of the repository's.

    Commands do so that change nothing, unless `doctor` also repairs, and all with --dry-run or
    --check; see `safe_view`.
    """
    looks, values = getattr(config.mode, "call", (False, {}))
    tries = "dry_run" in values or "check" in values
    only = tries or (looks and "fix" not in values)
    return only or getattr(config.mode, "looking", None) is not None


def _by_git(arguments: Sequence[str]) -> list[str]:
    """The arguments, with options that keep git from showing differences by other programs."""
    words = list(arguments)
    at = next((at for at, word in enumerate(words) if not word.startswith("-")), 0)
    if words[at : at + 1] and words[at] in _SHOWING:
        words[at + 1 : at + 1] = _BY_GIT
    return words


def _is_repeatable(status: int, arguments: Sequence[str], index: str | None) -> bool:
    """True if no person killed git, and git only reads or writes an index of the caller."""
    if status >= 0 or -status in _BY_PEOPLE:
        return False
    if index is not None:
        # Only this command locks that index.
        if os.path.lexists(f"{index}.lock"):
            os.unlink(f"{index}.lock")
        return True
    words = [word for word in arguments if not word.startswith("-")]
    reads = words[:2] == ["worktree", "list"] or words == ["symbolic-ref", "HEAD"]
    return reads or not words or words[0] in _READING


def patiently(*arguments: str, cwd: str, seconds: float = 5, **options: Unpack[Options]) -> str:
    """As `run`, but retry for so many seconds while another git holds a lock file."""
    # Not at the top: most commands load this module and never start git.
    from tugtool.system import clock

    for last in clock.tries(seconds):
        done = attempt(*arguments, cwd=cwd, **options)
        # "Unable to create '.../index.lock': File exists.", "could not lock config file ..."
        locked = done.status and "File exists" in done.said and "lock" in done.said
        if last or not locked:
            break
    return done.require(arguments)


def worktrees(cwd: str) -> list[tuple[str, str | None]]:
    """Every working tree's path and branch, the main one first; None where HEAD is detached."""
    return [(facts["worktree"], facts.get("branch")) for facts in worktree_facts(cwd)]


def worktree_facts(cwd: str) -> list[dict[str, str]]:
    """Git's facts about every working tree: worktree, HEAD, branch, locked, prunable, ..."""
    found: list[dict[str, str]] = []
    # -z: a path may hold anything but NUL.
    for entry in run("worktree", "list", "--porcelain", "-z", cwd=cwd).split("\0\0"):
        facts = dict(line.partition(" ")[::2] for line in entry.split("\0") if line)
        if "worktree" in facts and "bare" not in facts:
            if "branch" in facts:
                facts["branch"] = facts["branch"].removeprefix("refs/heads/")
            found.append(facts)
    if found and not os.path.lexists(os.path.join(found[0]["worktree"], ".git")):
        found[0]["worktree"] = _submodule_worktree(found[0]["worktree"])
    return found


def submodules(path: str) -> list[str]:
    """The submodules that are checked out in this worktree."""
    if not _may_have_submodules(path):
        return []
    out = run("ls-files", "--stage", "-z", cwd=path)
    # <mode> <object> <stage>TAB<path>; only submodules have this mode.
    names = [line.partition("\t")[2] for line in out.split("\0") if line.startswith("160000 ")]
    return [name for name in names if os.path.lexists(os.path.join(path, name, ".git"))]


def _may_have_submodules(path: str) -> bool:
    """Ask the index itself: every commit asks, and few repositories have submodules."""
    from tugtool.git import git_dir

    index = os.path.join(git_dir(path), "index")
    try:
        with files.opened(index) as file:
            data = file.read()
    except errors.TugError:
        return os.path.lexists(index)
    # The mode of a submodule; or the mark of an index whose entries are in another file.
    return b"\0\0\xe0\0" in data or b"link\0" in data


def _submodule_worktree(path: str) -> str:
    """The working tree of a submodule, for which git lists its git directory instead."""
    told = attempt("config", "--path", "core.worktree", cwd=path).out.removesuffix("\n")
    return os.path.realpath(os.path.join(path, told)) if told else path


def version() -> str | None:
    """Git's version, or None where there is no git."""
    try:
        out = run("--version", cwd="/")
    except errors.GitUnusable:
        return None
    return out.removeprefix("git version ").strip()


def environment(keep_location: bool = False) -> dict[str, str]:
    """The cleaned environment of every git."""
    located = config.GIT_LOCATION_VARIABLES if keep_location else ()
    clean = {
        name: value
        for name, value in config.environment().items()
        if not name.startswith("GIT_")
        or name in located
        or (name.startswith(KEPT) and not name.startswith(NEVER_KEPT))
    }
    # English messages, no questions, no locks for reading, no editor.
    clean.update(LC_ALL="C", GIT_TERMINAL_PROMPT="0", GIT_OPTIONAL_LOCKS="0", GIT_EDITOR=":")
    return clean


def _ceiling(cwd: str) -> dict[str, str]:
    """Keeps git in a worktree that has lost its `.git` from using the main worktree."""
    place, inside, _ = f"{cwd}/".rpartition(f"/{config.TREES_PATH}/")
    return {"GIT_CEILING_DIRECTORIES": f"{place}/{config.TREES_PATH}"} if inside else {}


def _spawn(
    argv: list[str],
    env: dict[str, str],
    given: str | None,
    started: Callable[[int], None] | None,
    most: int | None,
    copy: int | None,
) -> Done:
    pipes = [os.pipe() for _ in range(3)]
    (in_read, in_write), (out_read, out_write), (err_read, err_write) = pipes
    try:
        child = os.posix_spawnp(
            argv[0],
            argv,
            env,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, in_read, 0),
                (os.POSIX_SPAWN_DUP2, out_write, 1),
                (os.POSIX_SPAWN_DUP2, err_write, 2),
                *([] if copy is None else [(os.POSIX_SPAWN_DUP2, copy, _COPY)]),
            ],
            setsigdef=(_SIGPIPE,),
        )
    except (OSError, ValueError) as error:
        for descriptor in (in_write, out_read, err_read):
            os.close(descriptor)
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise errors.GitUnusable(f"it could not be started ({reason})") from error
    finally:
        for descriptor in (in_read, out_write, err_write):
            os.close(descriptor)
    if started is not None:
        started(child)
    given_bytes = memoryview(os.fsencode(given or ""))
    out, err = _drain((out_read, err_read), in_write, given_bytes, most)
    _, status = os.waitpid(child, 0)
    return Done(os.waitstatus_to_exitcode(status), out, err)


def _drain(descriptors: Iterable[int], sink: int, given: memoryview, most: int | None) -> list[str]:
    # Not at the top: most commands load this module and never start git.
    import select

    # Read all pipes at once: git stops when one that is not read is full.
    parts: dict[int, list[bytes]] = {descriptor: [] for descriptor in descriptors}
    poll = select.poll()
    for descriptor in parts:
        poll.register(descriptor, select.POLLIN)
    os.set_blocking(sink, False)
    poll.register(sink, select.POLLOUT)
    still_open = {*parts, sink}
    while still_open:
        for descriptor, _ in poll.poll():
            if descriptor == sink:
                given = _feed(sink, given)
                ended = not given
            else:
                parts[descriptor].append(os.read(descriptor, 65536))
                ended = not parts[descriptor][-1]
                ended |= most is not None and sum(map(len, parts[descriptor])) > most
            if ended:
                poll.unregister(descriptor)
                os.close(descriptor)
                still_open.remove(descriptor)
    return [os.fsdecode(b"".join(part)) for part in parts.values()]


def _feed(sink: int, given: memoryview) -> memoryview:
    """Write a part; the rest, or nothing if git does not read its input."""
    try:
        return given[os.write(sink, given[:65536]) :] if given else given
    except BlockingIOError:
        return given
    except BrokenPipeError:
        return given[:0]
