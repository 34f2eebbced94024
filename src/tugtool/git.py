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
    from collections.abc import Iterable


def run(*arguments: str, cwd: str, located_by_environment: bool = False) -> str:
    """Standard output of `git -C cwd arguments...`; refuses with what git said.

    The environment's GIT_* variables are dropped, so that a hook or a shell of somebody
    else cannot redirect us, unless `located_by_environment` asks for just that.
    """
    status, out, said = _spawn(["git", "-C", cwd, *arguments], _environment(located_by_environment))
    if status:
        raise GitFailed(arguments, status=status, said=said.strip())
    return out


def worktrees(cwd: str) -> list[tuple[str, str | None]]:
    """Every working tree's path and branch, the main one first; None where HEAD is detached."""
    found: list[tuple[str, str | None]] = []
    # -z: a path may hold anything but NUL.
    for entry in run("worktree", "list", "--porcelain", "-z", cwd=cwd).split("\0\0"):
        facts = dict(line.partition(" ")[::2] for line in entry.split("\0") if line)
        if "worktree" in facts and "bare" not in facts:
            branch = facts.get("branch")
            found.append((facts["worktree"], branch and branch.removeprefix("refs/heads/")))
    return found


def version() -> str | None:
    """Git's version, or None where there is no git."""
    try:
        out = run("--version", cwd="/")
    except GitUnusable:
        return None
    return out.removeprefix("git version ").strip()


def user_name(cwd: str) -> str | None:
    """The name that commits made in `cwd` would carry, as configured."""
    try:
        return run("config", "user.name", cwd=cwd).strip() or None
    except (GitFailed, GitUnusable):
        return None


def _environment(keep_location: bool) -> dict[str, str]:
    kept = config.GIT_LOCATION_VARIABLES if keep_location else ()
    clean = {
        name: value
        for name, value in config.environment().items()
        if not name.startswith("GIT_") or name in kept
    }
    # One language for messages, no questions, no locks taken for mere looking.
    clean.update(LC_ALL="C", GIT_TERMINAL_PROMPT="0", GIT_OPTIONAL_LOCKS="0")
    return clean


def _spawn(argv: list[str], env: dict[str, str]) -> tuple[int, str, str]:
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    try:
        child = os.posix_spawnp(
            argv[0],
            argv,
            env,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, out_write, 1),
                (os.POSIX_SPAWN_DUP2, err_write, 2),
            ],
        )
    except OSError as error:
        os.close(out_read)
        os.close(err_read)
        raise GitUnusable(f"it could not be started ({error.strerror})") from error
    finally:
        os.close(out_write)
        os.close(err_write)
    out, err = _drain((out_read, err_read))
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), out, err


def _drain(descriptors: Iterable[int]) -> list[str]:
    # Not at the top: most commands load this module and never start git.
    import select

    # Both at once: whoever waits for one pipe lets the other fill up and stop git.
    parts: dict[int, list[bytes]] = {descriptor: [] for descriptor in descriptors}
    poll = select.poll()
    for descriptor in parts:
        poll.register(descriptor, select.POLLIN)
    still_open = len(parts)
    while still_open:
        for descriptor, _ in poll.poll():
            part = os.read(descriptor, 65536)
            parts[descriptor].append(part)
            if not part:
                poll.unregister(descriptor)
                os.close(descriptor)
                still_open -= 1
    return [os.fsdecode(b"".join(part)) for part in parts.values()]
