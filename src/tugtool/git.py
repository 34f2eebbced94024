"""The only module that starts git: arguments in, what it printed out.

`posix_spawn` instead of `subprocess`, whose import alone costs as much as a bare
interpreter start; commands that need git would pay it every time.
"""

from __future__ import annotations

import os

from tugtool import config
from tugtool.errors import GitFailed, GitUnusable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


#: Of the environment's GIT_* variables, what says who the person is and how they reach others.
#: All else is dropped: a hook or a shell of somebody else must not redirect us.
KEPT = ("GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_CONFIG_", "GIT_SSH", "GIT_ASKPASS", "GIT_EXEC_PATH")
#: These would carry the settings of whoever started us into the repositories that we work on.
NEVER_KEPT = ("GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_")

#: What a person may have set for their own eyes, and would change what we read.
PLAIN = (
    *("-c", "color.ui=never", "-c", "log.showSignature=false"),
    *("-c", "i18n.logOutputEncoding=UTF-8"),
)

#: Python ignores it, and a child would inherit that. (The module `signal` would import `enum`.)
_SIGPIPE = 13


class Done:
    """What git did: its exit status and what it printed."""

    __slots__ = ("out", "said", "status")

    def __init__(self, status: int, out: str, said: str) -> None:
        self.status = status
        self.out = out
        self.said = said


def run(
    *arguments: str,
    cwd: str,
    given: str | None = None,
    index: str | None = None,
    settings: Iterable[str] = (),
    date: str | None = None,
    located_by_environment: bool = False,
) -> str:
    """Standard output of `git -C cwd arguments...`; refuses with what git said.

    `given` is its standard input, `index` a file to use in place of the working tree's index,
    `settings` (`name=value`) hold for this run, `date` is that of what it commits. The
    environment's location variables count only where `located_by_environment` asks for them.
    """
    done = attempt(
        *arguments,
        cwd=cwd,
        given=given,
        index=index,
        settings=settings,
        date=date,
        located_by_environment=located_by_environment,
    )
    if done.status:
        raise GitFailed(arguments, status=done.status, said=done.said.strip())
    return done.out


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
) -> Done:
    """The same, where a refusal is an answer too; to be killed is none, unless `though_killed`.

    `started` hears of the process before that is given anything.
    """
    environment = _environment(located_by_environment)
    if not located_by_environment:
        environment.update(_ceiling(cwd))
    if index is not None:
        environment["GIT_INDEX_FILE"] = index
    if date is not None:
        environment.update(GIT_AUTHOR_DATE=date, GIT_COMMITTER_DATE=date)
    more = [word for setting in settings for word in ("-c", setting)]
    done = _spawn(["git", *PLAIN, *more, "-C", cwd, *arguments], environment, given, started)
    if done.status < 0 and not though_killed:
        # By Ctrl-C, say: what it would have said is not known, least of all that it is no.
        raise GitFailed(arguments, status=done.status, said=done.said.strip())
    return done


def patiently(
    *arguments: str,
    cwd: str,
    given: str | None = None,
    seconds: float = 5,
    settings: Iterable[str] = (),
    started: Callable[[int], None] | None = None,
) -> str:
    """As `run`; while another git holds a lock file, it is tried again for so many seconds."""
    # Not at the top: most commands load this module and never start git.
    from tugtool import clock

    for last in clock.tries(seconds):
        done = attempt(*arguments, cwd=cwd, given=given, settings=settings, started=started)
        if last or not (done.status and _is_locked(done.said)):
            break
    if done.status:
        raise GitFailed(arguments, status=done.status, said=done.said.strip())
    return done.out


def _is_locked(said: str) -> bool:
    # "Unable to create '.../index.lock': File exists.", "could not lock config file ..."
    return "File exists" in said and "lock" in said


def worktrees(cwd: str) -> list[tuple[str, str | None]]:
    """Every working tree's path and branch, the main one first; None where HEAD is detached."""
    return [(facts["worktree"], facts.get("branch")) for facts in worktree_facts(cwd)]


def worktree_facts(cwd: str) -> list[dict[str, str]]:
    """What git says of every working tree: worktree, HEAD, branch, locked, prunable, ..."""
    found: list[dict[str, str]] = []
    # -z: a path may hold anything but NUL.
    for entry in run("worktree", "list", "--porcelain", "-z", cwd=cwd).split("\0\0"):
        facts = dict(line.partition(" ")[::2] for line in entry.split("\0") if line)
        if "worktree" in facts and "bare" not in facts:
            if "branch" in facts:
                facts["branch"] = facts["branch"].removeprefix("refs/heads/")
            found.append(facts)
    return found


def version() -> str | None:
    """Git's version, or None where there is no git."""
    try:
        out = run("--version", cwd="/")
    except GitUnusable:
        return None
    return out.removeprefix("git version ").strip()


def user_name(cwd: str) -> str | None:
    """The name that commits made in `cwd` would carry."""
    try:
        told = attempt("var", "GIT_AUTHOR_IDENT", cwd=cwd)
        if not told.status:
            return told.out.rpartition(" <")[0].strip() or None
        # Without an address git has no identity, and yet there may be a name.
        return run("config", "user.name", cwd=cwd).strip() or None
    except (GitFailed, GitUnusable):
        return None


def _environment(keep_location: bool) -> dict[str, str]:
    located = config.GIT_LOCATION_VARIABLES if keep_location else ()
    clean = {
        name: value
        for name, value in config.environment().items()
        if not name.startswith("GIT_") or name in located or _is_kept(name)
    }
    # One language for messages, no questions, no locks taken for mere looking, no editor.
    clean.update(LC_ALL="C", GIT_TERMINAL_PROMPT="0", GIT_OPTIONAL_LOCKS="0", GIT_EDITOR=":")
    return clean


def _ceiling(cwd: str) -> dict[str, str]:
    """For git in a worktree of ours: one that has lost its `.git` is not the main worktree."""
    place, inside, _ = f"{cwd}/".rpartition(f"/{config.TREES_PATH}/")
    return {"GIT_CEILING_DIRECTORIES": f"{place}/{config.TREES_PATH}"} if inside else {}


def _is_kept(name: str) -> bool:
    return name.startswith(KEPT) and not name.startswith(NEVER_KEPT)


def _spawn(
    argv: list[str],
    env: dict[str, str],
    given: str | None,
    started: Callable[[int], None] | None,
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
            ],
            setsigdef=(_SIGPIPE,),
        )
    except (OSError, ValueError) as error:
        for descriptor in (in_write, out_read, err_read):
            os.close(descriptor)
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise GitUnusable(f"it could not be started ({reason})") from error
    finally:
        for descriptor in (in_read, out_write, err_write):
            os.close(descriptor)
    if started is not None:
        started(child)
    out, err = _drain((out_read, err_read), in_write, memoryview(os.fsencode(given or "")))
    _, status = os.waitpid(child, 0)
    return Done(os.waitstatus_to_exitcode(status), out, err)


def _drain(descriptors: Iterable[int], sink: int, given: memoryview) -> list[str]:
    # Not at the top: most commands load this module and never start git.
    import select

    # All at once: whoever waits for one pipe lets the other fill up and stop git.
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
                given = _fed(sink, given)
                ended = not given
            else:
                parts[descriptor].append(os.read(descriptor, 65536))
                ended = not parts[descriptor][-1]
            if ended:
                poll.unregister(descriptor)
                os.close(descriptor)
                still_open.remove(descriptor)
    return [os.fsdecode(b"".join(part)) for part in parts.values()]


def _fed(sink: int, given: memoryview) -> memoryview:
    """What is left to write; nothing, if nobody reads it."""
    try:
        return given[os.write(sink, given[:65536]) :] if given else given
    except BlockingIOError:
        return given
    except BrokenPipeError:
        return given[:0]
