"""The files in which agent clients look for servers, and whether their entry starts ours.

Nothing is run here. A client says little about a server that it cannot start, so `doctor` and
`tugcode init --mcp` look before it.
"""

from __future__ import annotations

import json
import sys
from typing import NamedTuple

from tugtool.errors import TugError, quoted
from tugtool.errors.repository import BadClientSettings
from tugtool.system import config, files, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


NAME = "tugcode"
COMMAND = ["tugcode", "mcp"]
_SPLIT = {"command": COMMAND[0], "args": COMMAND[1:]}


class McpClient(NamedTuple):
    """Where a client looks for servers in a project, and how it names them."""

    #: Files in the project; the first is made if there is none.
    files: tuple[str, ...]
    #: The name of the table of servers.
    table: str
    entry: dict[str, Any]


CLIENTS = {
    "claude": McpClient((".mcp.json",), "mcpServers", _SPLIT),
    "codex": McpClient((".codex/config.toml",), "mcp_servers", _SPLIT),
    "gemini": McpClient((".gemini/settings.json",), "mcpServers", _SPLIT),
    "opencode": McpClient(
        ("opencode.json", "opencode.jsonc"),
        "mcp",
        {"type": "local", "command": COMMAND, "enabled": True},
    ),
    "vscode": McpClient((".vscode/mcp.json",), "servers", {"type": "stdio", **_SPLIT}),
}


#: All of these files.
FILES = tuple(file for about in CLIENTS.values() for file in about.files)


class EntryProblem(NamedTuple):
    """Why a client would not start the server, and the command that helps."""

    client: str
    file: str
    problem: str
    hint: str


def entry_problems(root: str, clients: tuple[str, ...] = tuple(CLIENTS)) -> Iterator[EntryProblem]:
    """Yield what is wrong with the entries of these clients in a repository."""
    for client in clients:
        about = CLIENTS[client]
        for file in about.files:
            if os.path.isfile(os.path.join(root, file)):
                yield from _of_file(root, client, file, about)


def _of_file(root: str, client: str, file: str, about: McpClient) -> Iterator[EntryProblem]:
    try:
        known = servers(root, file, about)
    except TugError as error:
        problem = error.message.removesuffix("; it is unchanged")
        yield EntryProblem(client, file, problem, error.hint or f"ls -l {quoted(file)}")
        return
    if NAME in known:
        found = _problem(root, known[NAME])
        if found is not None:
            problem, hint = found
            anew = hint or f"tugcode init --mcp {client}"
            said = f"{file}: the entry {NAME} {problem}"
            more = "" if hint else "; remove the entry, and let init write it anew"
            yield EntryProblem(client, file, f"{said}{more}", anew)


def _problem(root: str, entry: Any) -> tuple[str, str] | None:
    """Return what is wrong with an entry, and the command that helps if it is not a new entry."""
    words = _words(entry)
    if not words:
        return "names no command", ""
    if entry.get("enabled") is False:
        return "is switched off (enabled is false)", ""
    if not any(COMMAND[1] in word for word in words[1:]):
        return f"starts {' '.join(words)!r}, which is not `{' '.join(COMMAND)}`", ""
    return _missing(root, words[0])


def _words(entry: Any) -> list[str]:
    """The words of the command that an entry starts; empty if it is not whole."""
    command = entry.get("command") if isinstance(entry, dict) else None
    words = command if isinstance(command, list) else [command, *_list(entry, "args")]
    return words if all(isinstance(each, str) and each for each in words) else []


def _list(entry: Any, key: str) -> list[Any]:
    found = entry.get(key, []) if isinstance(entry, dict) else []
    return found if isinstance(found, list) else [None]


def _missing(root: str, program: str) -> tuple[str, str] | None:
    import shutil

    places = config.command_environment().get("PATH", os.defpath)
    if os.sep in program:
        found = shutil.which(os.path.join(root, program))
    else:
        found = shutil.which(program, path=places)
    if found is not None:
        return None
    where = "is not a program" if os.sep in program else "is not on the PATH"
    said = f"starts {program}, which {where}: the client cannot start it"
    here = os.path.dirname(sys.executable)
    if os.access(os.path.join(here, NAME), os.X_OK):
        said += f"; put {here} on the PATH that it starts with"
    return said, "tugcode version"


def servers(root: str, file: str, about: McpClient) -> dict[str, Any]:
    """Return the servers that a client's file has; raise if it cannot be read."""
    old = files.text(file, files.read(os.path.join(root, file)))
    if file.endswith(".toml"):
        found = toml(file, old).get(about.table, {})
        return found if isinstance(found, dict) else {}
    return table(file, old if old.strip() else "{}", about.table)


def toml(file: str, text: str) -> dict[str, Any]:
    """Return the tables of a TOML file; raise if it is not one."""
    import tomllib

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadClientSettings(file, f"is not TOML: {error}") from error


def table(file: str, text: str, name: str) -> dict[str, Any]:
    """Return the table of servers in a JSON file; raise if there is another thing there."""
    found = json_object(file, text).get(name, {})
    if not isinstance(found, dict):
        raise BadClientSettings(file, f"has {name} that is not an object")
    return found


def json_object(file: str, text: str) -> dict[str, Any]:
    """Return the object in a JSON file, which may have comments; raise if there is none."""
    try:
        value = json.loads(blanked(text), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadClientSettings(file, f"is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadClientSettings(file, "is not a JSON object")
    return value


def _refuse_constant(word: str) -> None:
    """Refuse NaN and its like, which only Python reads."""
    raise ValueError(f"{word} is not a value")


def blanked(text: str) -> str:
    """The text with blanks in place of comments and of commas before an end; as long as before."""
    made, at = list(text), 0
    last_comma: int | None = None
    while at < len(text):
        end = end_of_token(text, at)
        if text.startswith("//", at) or (text.startswith("/*", at) and end > at + 1):
            made[at:end] = [each if each in "\r\n" else " " for each in text[at:end]]
        elif text[at] in "}]" and last_comma is not None:
            made[last_comma] = " "
        if text[at] == ",":
            last_comma = at
        elif not text[at].isspace() and not text.startswith(("//", "/*"), at):
            last_comma = None
        at = end
    return "".join(made)


def end_of_token(text: str, at: int) -> int:
    """The end of the string, the comment or the character at this place."""
    if text.startswith("//", at):
        return at + len(text[at:].partition("\n")[0])
    if text.startswith("/*", at):
        end = text.find("*/", at + 2)
        # One that does not end is not a comment.
        return at + 1 if end < 0 else end + 2
    if text[at] != '"':
        return at + 1
    end = at + 1
    while end < len(text) and text[end] != '"':
        end += 2 if text[end] == "\\" else 1
    return min(end + 1, len(text))
