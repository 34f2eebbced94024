"""Confined agents: what each role, and the client of each preset, has to write.

A client keeps sessions, caches and logs in directories of its own. Its settings, hooks and
plugins are not among them, except with Codex: an agent that can write those can have commands
run later, unconfined. Found out with the real clients (`make clients`). Commands that run what
a confined coder wrote, such as checkpoints, are confined like it.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile

from tugtool.agents import clis
from tugtool.system import confinement, os
from tugtool.system.confinement import Confinement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tugtool.system.agent_config import Agent

#: Preset -> the variable that names its client's home, where that is by default, and the
#: directories in it that the client writes.
CLIENT_HOMES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "claude": (
        "CLAUDE_CONFIG_DIR",
        "~/.claude",
        (
            *("projects", "todos", "shell-snapshots", "session-env", "statsig", "debug"),
            *("file-history", "plans", "tasks", "cache", "telemetry", "backups", "sessions"),
        ),
    ),
    # Codex keeps its databases beside its settings, so it needs the whole directory.
    "codex": ("CODEX_HOME", "~/.codex", ("",)),
    "gemini": ("", "~/.gemini", ("tmp", "history")),
    "opencode": (
        "",
        "~",
        (".local/share/opencode", ".local/state/opencode", ".cache/opencode"),
    ),
}
#: Variables by which programs find the place for temporary files.
_TEMPORARY = ("TMPDIR", "TMP", "TEMP")


class ConfinedPlace:
    """An agent's confinement, with a temporary directory that lasts as long as the agent."""

    def __init__(
        self, agent: Agent, worktree: str, env: Mapping[str, str], *, client: bool = True
    ) -> None:
        self._directory = tempfile.mkdtemp(prefix=f"tugcode-{agent.role}-")
        writable = [self._directory]
        if clis.ACCESS[agent.role] == clis.EDIT:
            writable.append(worktree)
        writable += client_directories(agent, env) if client else ()
        named = [expanded(path, worktree, env) for path in agent.writable]
        writable += [path for path in named if not _leads_out(path, worktree)]
        self.how = Confinement(agent.role, tuple(writable), agent.network)

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the agent's environment: its own temporary directory, and no locks for looking."""
        own = dict.fromkeys(_TEMPORARY, self._directory)
        return {**env, **own, "GIT_OPTIONAL_LOCKS": "0"}

    def close(self) -> None:
        """Remove the temporary directory."""
        shutil.rmtree(self._directory, ignore_errors=True)


class FreePlace:
    """An agent that is not confined."""

    how: Confinement | None = None

    def environment(self, env: Mapping[str, str]) -> Mapping[str, str]:
        """Return the environment as it is."""
        return env


@contextlib.contextmanager
def place_of(
    agent: Agent | None, worktree: str, env: Mapping[str, str], *, client: bool = True
) -> Iterator[ConfinedPlace | FreePlace]:
    """Give an agent its place: confined if its settings say so.

    Without `client` it is the place of a command that runs what the agent wrote.
    """
    if agent is None or agent.confine != "worktree":
        yield FreePlace()
        return
    place = ConfinedPlace(agent, worktree, env, client=client)
    try:
        yield place
    finally:
        place.close()


def client_directories(agent: Agent, env: Mapping[str, str]) -> Iterator[str]:
    """Yield the directories that the preset's client writes; those that are missing are made."""
    if agent.preset not in CLIENT_HOMES:
        return
    variable, usual, names = CLIENT_HOMES[agent.preset]
    home = env.get(variable) or expanded(usual, "/", env)
    for name in names:
        path = os.path.join(home, name)
        # The client could not make it: its home itself is read-only.
        os.makedirs(path, mode=0o700, exist_ok=True)
        yield path


def expanded(path: str, worktree: str, env: Mapping[str, str]) -> str:
    """Return a path of `writable`: of the home, of the worktree, or absolute."""
    if path == "~" or path.startswith("~/"):
        return os.path.join(env.get("HOME") or os.path.expanduser("~"), path[2:])
    return os.path.join(worktree, path)


def _leads_out(path: str, worktree: str) -> bool:
    """Return whether a path in the worktree goes through a link to a place outside of it.

    An agent that ran before may have made the link.
    """
    real = os.path.realpath(worktree)
    inside = os.path.commonpath([os.path.normpath(path), worktree]) == worktree
    return inside and os.path.commonpath([os.path.realpath(path), real]) != real


def described(agent: Agent) -> str:
    """Say in a few words what the agent may write, and whether it has a network."""
    if agent.confine != "worktree":
        return "not confined: it can write all that you can"
    tree = ["its worktree"] if clis.ACCESS[agent.role] == clis.EDIT else []
    client = ["its client's directories"] if agent.preset in CLIENT_HOMES else []
    places = ", ".join([*tree, "a temporary directory", *client, *agent.writable])
    wide = [each for each in agent.writable if _is_wide(each)]
    warned = f" (almost everything: {', '.join(wide)})" if wide else ""
    return f"confined: it can write {places}{warned}" + ("" if agent.network else "; no network")


def reaches(agent: Agent, place: str, worktree: str) -> bool:
    """Return whether an agent in a worktree can write at a place outside of it."""
    if agent.confine != "worktree":
        return True
    paths = [os.path.normpath(expanded(each, worktree, {})) for each in agent.writable]
    # A path within the worktree is within the place as well, and leads nowhere.
    outside = [each for each in paths if os.path.commonpath([each, worktree]) != worktree]
    return any(os.path.commonpath([each, place]) in (each, place) for each in outside)


def _is_wide(path: str) -> bool:
    """Return whether a path of `writable` contains the home."""
    home = os.path.expanduser("~")
    whole = os.path.normpath(expanded(path, "/worktree", {"HOME": home}))
    return os.path.commonpath([whole, home]) == whole


def refuse_missing(agent: Agent) -> None:
    """Refuse with E111 if this system cannot do what the role's settings ask."""
    if agent.confine == "worktree":
        confinement.refuse_missing(agent.role, network=agent.network)
