"""Check that the guard works in every client, and that agents can be confined."""

from __future__ import annotations

import contextlib
import sys
from typing import NamedTuple

from tugtool import __version__
from tugtool.agents import mcp_entries
from tugtool.errors import CannotRun, TugError, listing, quoted
from tugtool.errors.safety import Unconfined
from tugtool.plan import catalog, checkpoints
from tugtool.system import agent_config, config, confinement, files, os, text
from tugtool.system import command as system_command
from tugtool.system.command import Streams
from tugtool.workflow import plans, trust
from tugtool.workflow.doctor import error, note, warning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from tugtool.workflow.doctor import DoctorFinding, Subject


PLUGIN = "tugplug"


class ClientPlugin(NamedTuple):
    """A client's copy of the plugin."""

    client: str
    #: The client's name for it, with its marketplace.
    name: str
    path: str
    version: str | None
    #: The client's scope of the installation.
    scope: str | None = None

    @property
    def hooks(self) -> str:
        """The file with the command to run before a tool is used."""
        return os.path.join(self.path, "hooks", "hooks.json")

    def install(self) -> str:
        """Return the command that installs this version."""
        return f"tugcode plugin install --client {self.client}"

    def anew(self) -> str:
        """Return the command that replaces a broken copy."""
        if self.client == "codex":
            return self.install()
        # The client keeps its copy of a version even if that is broken.
        scope = "" if self.scope in (None, "user") else f" --scope {quoted(self.scope)}"
        return f"claude plugin uninstall {quoted(self.name)}{scope} && {self.install()}"


def copies(root: str) -> list[ClientPlugin]:
    """Return every copy that a client would use in this repository."""
    home = os.path.expanduser("~")
    claude = config.variable("CLAUDE_CONFIG_DIR") or os.path.join(home, ".claude")
    codex = config.variable("CODEX_HOME") or os.path.join(home, ".codex")
    found = {each.path: each for each in (*_of_claude(claude, root), *_of_codex(codex))}
    return [found[path] for path in sorted(found)]


def _of_claude(directory: str, root: str) -> Iterator[ClientPlugin]:
    file = os.path.join(directory, "plugins", "installed_plugins.json")
    recorded = _read(file, text.decode)
    for name, entries in _ours(recorded.get("plugins")):
        if not _is_enabled(name, directory, root):
            continue
        for entry in entries if isinstance(entries, list) else [entries]:
            path, project = (_text(entry, key) for key in ("installPath", "projectPath"))
            if path and (project is None or os.path.realpath(project) == root):
                version, scope = (_text(entry, key) for key in ("version", "scope"))
                yield ClientPlugin("claude", name, path, version, scope)


def _is_enabled(name: str, directory: str, root: str) -> bool:
    """Return whether the plugin is enabled; a setting nearer to the project counts more."""
    here = os.path.join(root, ".claude")
    for file in (
        os.path.join(here, "settings.local.json"),
        os.path.join(here, "settings.json"),
        os.path.join(directory, "settings.json"),
    ):
        said = dict(_ours(_read(file, text.decode).get("enabledPlugins"))).get(name)
        if said is not None:
            return bool(said)
    return True


def _of_codex(directory: str) -> Iterator[ClientPlugin]:
    import tomllib

    recorded = _read(os.path.join(directory, "config.toml"), tomllib.loads)
    for name, entry in _ours(recorded.get("plugins")):
        if isinstance(entry, dict) and entry.get("enabled") is False:
            continue
        market = name.partition("@")[2]
        above = os.path.join(directory, "plugins", "cache", market, PLUGIN)
        # The client keeps one version; report a recorded one that is missing.
        for version in _inside(above) or [""]:
            yield ClientPlugin("codex", name, os.path.join(above, version), version or None)


def _ours(value: object) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((name, value[name]) for name in value if name.startswith(f"{PLUGIN}@"))


def _text(entry: object, key: str) -> str | None:
    value = entry.get(key) if isinstance(entry, dict) else None
    return value if isinstance(value, str) else None


def _inside(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _read(path: str, decode: Callable[[str], Any]) -> dict[str, Any]:
    """Read a client's record; an unreadable one counts as none."""
    if not os.path.lexists(path):
        return {}
    try:
        value = decode(files.text(path, files.read(path)))
    except (TugError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


HOOK = ("hook", "pre-tool-use")
#: A client waits ten seconds; a slower guard is reported.
LIMIT_SECONDS = 10.0
_LOOK = "tugcode version"
_NOT_FOUND = (
    "cannot be run, since there is no tugcode on the PATH: put it there for the client; until then "
    "agents there are not guarded"
)
#: What must be blocked, what must not, and what a wrong answer means.
_PROBES = (
    ("Write", 2, "does not block a reviewer that writes a file", "agents are not guarded"),
    ("Read", 0, "blocks a reviewer that reads a file", "agents can do nothing"),
)


class Broken(Exception):
    """A file that a client's copy of the plugin needs is missing."""


def guard(subject: Subject) -> Iterator[DoctorFinding]:
    """Check the rules here and in every client that has the plugin."""
    own = (sys.executable, "-P", "-m", "tugtool", *HOOK)
    problem = _problem(own, subject.repo.root)
    if problem is not None:
        yield error(f"the guard of this installation {problem}", hint=_LOOK)
    found = copies(subject.repo.root)
    if found:
        yield from _found(subject.repo.root)
    for copy in found:
        yield from _of_client(copy, subject.repo.root)


#: A client starts it so, and wants its tools.
MCP = ("mcp",)
_ASKING = b"""\
{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}
{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
"""


def mcp_server(subject: Subject) -> Iterator[DoctorFinding]:
    """Start the MCP server and ask for its tools; then look at the entries of clients."""
    problem = _mcp_problem((sys.executable, "-P", "-m", "tugtool", *MCP), subject.repo.root)
    if problem is not None:
        yield error(f"tugcode mcp {problem}", hint="tugcode mcp --json")
    root = subject.repo.root
    if any(os.path.isfile(os.path.join(root, name)) for name in mcp_entries.FILES):
        for each in mcp_entries.entry_problems(root):
            yield warning(each.problem, hint=each.hint)


def _mcp_problem(argv: tuple[str, ...], cwd: str) -> str | None:
    """Say what is wrong with the server's answers, or None."""
    streams = Streams.keep(given=_ASKING)
    try:
        done = system_command.run(argv, cwd=cwd, streams=streams, limit_seconds=LIMIT_SECONDS)
    except CannotRun as missing:
        return f"cannot be run: {missing.message}"
    if done.timed_out:
        return f"does not answer within {LIMIT_SECONDS:.0f} s"
    try:
        answers: Any = [text.decode(line) for line in done.out.text().splitlines()]
        named = [each["name"] for each in answers[-1]["result"]["tools"]]
    except (ValueError, LookupError, TypeError):
        said = done.err.text().strip()[:500] or done.out.text()[:500]
        # Wrong settings are another check's finding.
        return None if "E071" in said else f"does not list its tools: {said}"
    return None if "status" in named else f"lists other tools: {', '.join(named)}"


#: Writes a file inside of its place, and tries one outside.
_ATTEMPT = "echo >inside/file; echo >outside/file"


def confinement_works(subject: Subject) -> Iterator[DoctorFinding]:
    """Try the confinement that the settings of agents ask for."""
    import tempfile

    agents = [each for each in map(subject.settings.agent, agent_config.ROLES) if each is not None]
    confined = [each for each in agents if each.confine == "worktree"]
    for agent in confined:
        reason = confinement.problem(network=agent.network)
        if reason is not None:
            said = f"the {agent.role} is to be confined, and that is not possible here: {reason}"
            yield error(said, hint="uname -r")
            return
    if confined:
        with tempfile.TemporaryDirectory(prefix="tugcode-doctor-") as place:
            yield from _tried_out(place)
        for limit in confinement.limits():
            yield note(f"confined agents can still {limit}", hint="uname -r")
    free = [each.role for each in agents if each.confine != "worktree"]
    if free:
        said = f"not confined, so these agents can write all that you can: {listing(free)}"
        yield note(said, hint="tugcode trust --list --json")


def trusted(subject: Subject) -> Iterator[DoctorFinding]:
    """Check that what the repository's files name would run."""
    if trust.by_environment():
        return
    root, settings, lines = subject.repo.root, subject.settings, []
    for file in catalog.plans(subject.repo):
        with contextlib.suppress(TugError, OSError):
            plan = plans.parse(subject.repo, file, settings.number("plan.max_bytes"))
            lines += checkpoints.commands_of(plan)
    if not lines and not trust.fingerprints(settings):
        return
    for each in trust.notices(root, settings, lines):
        yield warning(str(each["message"]), hint="tugcode trust")


def _tried_out(place: str) -> Iterator[DoctorFinding]:
    inside, outside = (os.path.join(place, name) for name in ("inside", "outside"))
    for each in (inside, outside):
        os.mkdir(each)
    how = confinement.Confinement("doctor", (inside,))
    streams = Streams.keep()
    words = ("/bin/sh", "-c", _ATTEMPT)
    try:
        running = system_command.start(words, cwd=place, streams=streams, confined=how)
    except Unconfined as problem:
        yield error(f"no command can be confined here: {problem.reason}", hint="uname -r")
        return
    with running:
        running.wait(LIMIT_SECONDS)
    if os.listdir(outside) or not os.listdir(inside):
        yield error("a confined command can write outside, or not inside, of its place")


def _of_client(copy: ClientPlugin, root: str) -> Iterator[DoctorFinding]:
    """Check that a client's copy is complete, that its hook works, and its version."""
    try:
        commands = _commands(copy)
    except Broken as broken:
        said = f"{copy.client} has the plugin, and {broken}: agents there are not guarded"
        yield error(said, hint=copy.anew())
        return
    for command in commands:
        problem = _problem(("/bin/sh", "-c", command), root)
        if problem is not None:
            # If the copy runs the right command, the `tugcode` on the path is at fault.
            hint = _LOOK if command == " ".join(("tugcode", *HOOK)) else copy.anew()
            yield error(f"the hook `{command}` of {copy.hooks} {problem}", hint=hint)
    if copy.version not in (None, __version__):
        said = f"{copy.client} has the plugin of version {copy.version}, and this is {__version__}"
        yield warning(said, hint=copy.install())


def _problem(argv: tuple[str, ...], cwd: str) -> str | None:
    """Return what is wrong with a hook, or None."""
    for tool, wanted, otherwise, so in _PROBES:
        call = {
            "hook_event_name": "PreToolUse",
            "session_id": "doctor",
            "cwd": cwd,
            "agent_type": f"{PLUGIN}:reviewer-agent",
            "tool_name": tool,
            "tool_input": {"file_path": os.path.join(cwd, "tugcode-doctor")},
        }
        status = _status(argv, cwd, text.encode(call).encode())
        if status == 127:
            return _NOT_FOUND
        if status != wanted:
            ended = "took too long" if status is None else f"ended with status {status}"
            return f"{otherwise}: it {ended}; {so}"
    return None


def _status(argv: tuple[str, ...], cwd: str, given: bytes) -> int | None:
    env = {key: value for key, value in config.environment().items() if key[:8] != "TUGCODE_"}
    how: Any = {"env": env, "streams": Streams.keep(given=given), "limit_seconds": LIMIT_SECONDS}
    try:
        done = system_command.run(argv, cwd=cwd, **how)
    except CannotRun as missing:
        return missing.exit_status
    return None if done.timed_out else done.status


def _found(cwd: str) -> Iterator[DoctorFinding]:
    """Check that clients find this `tugcode`."""
    streams = Streams.keep()
    words = ("/bin/sh", "-c", "tugcode version --json")
    done = system_command.run(words, cwd=cwd, streams=streams, limit_seconds=LIMIT_SECONDS)
    try:
        said = text.decode(done.out.text())
    except ValueError:
        # Then its hook fails too, which is reported.
        return
    data = said.get("data") if isinstance(said, dict) else None
    other = data.get("tugtool") if isinstance(data, dict) else None
    if other != __version__:
        told = f"clients run tugcode {other}, which is first on the PATH, and this is {__version__}"
        yield warning(told, hint=_LOOK)


def _commands(copy: ClientPlugin) -> list[str]:
    """Return the client's commands before a tool; raise `Broken` if it would run none."""
    file = copy.hooks
    if not os.path.lexists(file):
        raise Broken(f"{file} is not there")
    try:
        value = text.decode(files.text(file, files.read(file)))
    except (TugError, ValueError) as problem:
        raise Broken(f"{file} cannot be read as JSON") from problem
    every = value.get("hooks") if isinstance(value, dict) else None
    entries = every.get("PreToolUse") if isinstance(every, dict) else None
    found = [
        hook["command"]
        for entry in (entries if isinstance(entries, list) else [])
        for hook in (entry.get("hooks") if isinstance(entry, dict) else None) or []
        if isinstance(hook, dict) and isinstance(hook.get("command"), str)
    ]
    if not found:
        raise Broken(f"{file} names no command to run before a tool is used")
    return found
