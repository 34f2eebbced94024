"""The guard of roles: whether it holds, and whether clients with the plugin can ask it.

Clients let every tool call through when a hook cannot be run, and say nothing: so it is run here
just as they would.
"""

from __future__ import annotations

import os
import sys

from tugtool import __version__, child, config, files, jsontext
from tugtool.doctor.finding import error, warning
from tugtool.doctor.installed import PLUGIN, copies
from tugtool.errors import CannotRun, TugError
from tugtool.streams import Streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tugtool.doctor.finding import Finding
    from tugtool.doctor.installed import Copy
    from tugtool.doctor.patient import Patient

HOOK = ("hook", "pre-tool-use")
#: A client waits for ten; and whoever has to wait so long may as well be told.
LIMIT_SECONDS = 10.0
_LOOK = "tugcode version"
_NOT_FOUND = (
    "cannot be run, since there is no tugcode on the PATH: put it there for the client; until then "
    "agents there are not guarded"
)
#: What must be blocked, and what must not; and what that means.
_PROBES = (
    ("Write", 2, "does not block a reviewer that writes a file", "agents are not guarded"),
    ("Read", 0, "blocks a reviewer that reads a file", "agents can do nothing"),
)


class Broken(Exception):
    """Of a client's copy of the plugin, what a client would have to run is not there."""


def guard(patient: Patient) -> Iterator[Finding]:
    """Whether the rules hold here, and in every client that has the plugin."""
    own = (sys.executable, "-P", "-m", "tugtool", *HOOK)
    problem = _problem(own, patient.repo.root)
    if problem is not None:
        yield error(f"the guard of this installation {problem}", hint=_LOOK)
    found = copies(patient.repo.root)
    if not found:
        return
    yield from _found(patient.repo.root)
    for copy in found:
        yield from _of_client(copy, patient.repo.root)


def _of_client(copy: Copy, root: str) -> Iterator[Finding]:
    """Whether a client's copy of the plugin is whole, its hook holds, and it is of this version."""
    try:
        commands = _commands(copy)
    except Broken as broken:
        said = f"{copy.client} has the plugin, and {broken}: agents there are not guarded"
        yield error(said, hint=copy.anew())
        return
    for command in commands:
        problem = _problem(("/bin/sh", "-c", command), root)
        if problem is not None:
            # If it runs what it should, not the copy is at fault, but the command that is found.
            hint = _LOOK if command == " ".join(("tugcode", *HOOK)) else copy.anew()
            yield error(f"the hook `{command}` of {copy.hooks} {problem}", hint=hint)
    if copy.version not in (None, __version__):
        said = f"{copy.client} has the plugin of version {copy.version}, and this is {__version__}"
        yield warning(said, hint=copy.install())


def _problem(argv: tuple[str, ...], cwd: str) -> str | None:
    """What is wrong with a hook, if anything is."""
    for tool, wanted, otherwise, so in _PROBES:
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
            return _NOT_FOUND
        if status != wanted:
            ended = "took too long" if status is None else f"ended with status {status}"
            return f"{otherwise}: it {ended}; {so}"
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


def _commands(copy: Copy) -> list[str]:
    """What the client runs before it uses a tool; or the refusal that says why it runs nothing."""
    file = copy.hooks
    if not os.path.lexists(file):
        raise Broken(f"{file} is not there")
    try:
        value = jsontext.decode(files.text(file, files.read(file)))
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
