"""The guard of roles: whether it holds, and whether clients with the plugin can ask it.

Clients let every tool call through when a hook cannot be run, and say nothing: so it is run here
just as they would.
"""

from __future__ import annotations

import os
import sys

from tugtool import __version__, child, config, files, jsontext
from tugtool.doctor.finding import error, warning
from tugtool.errors import CannotRun, TugError, quoted
from tugtool.streams import Streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tugtool.doctor.finding import Finding
    from tugtool.doctor.patient import Patient

PLUGIN = "tugplug"
HOOK = ("hook", "pre-tool-use")
#: A client waits for ten; and whoever has to wait so long may as well be told.
LIMIT_SECONDS = 10.0
#: Clients keep plugins a few directories below their own.
_DEEPEST = 6
_LOOK = "tugcode version"
#: What must be blocked, and what must not.
_PROBES = (
    ("Write", 2, "does not block a reviewer that writes a file"),
    ("Read", 0, "blocks a reviewer that reads a file"),
)


def guard(patient: Patient) -> Iterator[Finding]:
    """Whether the rules hold here, and in every client that has the plugin."""
    own = (sys.executable, "-P", "-m", "tugtool", *HOOK)
    problem = _problem(own, patient.repo.root)
    if problem is not None:
        yield error(f"the guard of this installation {problem}", hint=_LOOK)
    installed = sorted(set(hooks(config.client_directories())))
    if not installed:
        return
    yield from _found(patient.repo.root)
    for file, command in installed:
        problem = _problem(("/bin/sh", "-c", command), patient.repo.root)
        if problem is not None:
            said = f"the hook `{command}` of {file} {problem}: agents there are not guarded"
            yield error(said, hint=f"ls -l {quoted(file)}")


def _problem(argv: tuple[str, ...], cwd: str) -> str | None:
    """What is wrong with a hook, if anything is."""
    for tool, wanted, otherwise in _PROBES:
        call = {
            "hook_event_name": "PreToolUse",
            "session_id": "doctor",
            "cwd": cwd,
            "agent_type": f"{PLUGIN}:reviewer-agent",
            "tool_name": tool,
            "tool_input": {"file_path": os.path.join(cwd, "tugcode-doctor")},
        }
        status = _status(argv, cwd, jsontext.encode(call).encode())
        if status == 127:
            return "cannot be run: there is no tugcode on the PATH"
        if status != wanted:
            ended = "took too long" if status is None else f"ended with status {status}"
            return f"{otherwise}: it {ended}"
    return None


def _status(argv: tuple[str, ...], cwd: str, given: bytes) -> int | None:
    env = {key: value for key, value in config.environment().items() if key[:8] != "TUGCODE_"}
    streams = Streams.keep(given=given)
    try:
        done = child.run(argv, cwd=cwd, env=env, streams=streams, limit_seconds=LIMIT_SECONDS)
    except CannotRun as missing:
        return missing.exit_status
    return None if done.timed_out else done.status


def _found(cwd: str) -> Iterator[Finding]:
    """Whether the `tugcode` that clients find is this one."""
    streams = Streams.keep()
    words = ("/bin/sh", "-c", "tugcode version --json")
    done = child.run(words, cwd=cwd, streams=streams, limit_seconds=LIMIT_SECONDS)
    try:
        said = jsontext.decode(done.out.text())
    except ValueError:
        # Then its hook will not answer either, which is told.
        return
    data = said.get("data") if isinstance(said, dict) else None
    other = data.get("tugtool") if isinstance(data, dict) else None
    if other != __version__:
        told = f"clients run tugcode {other}, which is first on the PATH, and this is {__version__}"
        yield warning(told, hint=_LOOK)


def hooks(directories: list[str]) -> Iterator[tuple[str, str]]:
    """Every hook of the plugin's that a client has: its file, and its command."""
    for directory in directories:
        for place in _plugins(directory, 0):
            file = os.path.join(place, "hooks", "hooks.json")
            yield from ((file, command) for command in _commands(file))


def _plugins(directory: str, depth: int) -> Iterator[str]:
    """Where a plugin of our name is, below a directory of a client's."""
    try:
        with os.scandir(directory) as entries:
            inside = [entry.path for entry in entries if entry.is_dir()]
    except OSError:
        return
    if os.path.isfile(os.path.join(directory, "hooks", "hooks.json")):
        if PLUGIN in directory.split("/"):
            yield directory
    elif depth < _DEEPEST:
        for path in inside:
            yield from _plugins(path, depth + 1)


def _commands(file: str) -> Iterator[str]:
    try:
        value = jsontext.decode(files.text(file, files.read(file)))
    except (TugError, ValueError):
        value = None
    every = value.get("hooks") if isinstance(value, dict) else None
    before = every.get("PreToolUse") if isinstance(every, dict) else None
    for entry in before if isinstance(before, list) else [{"hooks": [{"command": "false"}]}]:
        for hook in entry.get("hooks", []):
            yield str(hook.get("command"))
