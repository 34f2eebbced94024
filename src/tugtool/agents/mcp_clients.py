"""The entry of `tugcode mcp` in the settings of agent clients, each in its own format.

A client's file belongs to its user: nothing in it is changed but the one entry, comments stay, and
an entry that is there already is kept as it is.
"""

from __future__ import annotations

import codecs
import json
from json.decoder import JSONDecoder
from typing import NamedTuple

from tugtool.agents.mcp_entries import (
    CLIENTS,
    NAME,
    McpClient,
    blanked,
    end_of_token,
    json_object,
    table,
    toml,
)
from tugtool.errors import OutsideRepository, Unreadable, quoted
from tugtool.errors.repository import BadClientSettings
from tugtool.system import files, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tugtool.schemas import InitMcpItem


class PlannedEntry(NamedTuple):
    """The change of a client's file, if there is one."""

    client: str
    file: str
    path: str
    created: bool
    #: The new text of the file; None if it has the entry, or is not to have it.
    text: str | None
    #: True if the user did not want the entry.
    declined: bool = False

    def data(self) -> InitMcpItem:
        """Return its part of the answer."""
        added = self.text is not None
        return {"client": self.client, "file": self.file, "created": self.created, "added": added}

    @property
    def sentence(self) -> str:
        """Its line in the text of `init`."""
        if self.declined:
            return f"kept     {self.file}, without an entry {NAME}"
        if self.text is None:
            return f"kept     {self.file}, with its entry {NAME}"
        verb = "created " if self.created else "added to"
        return f"{verb} {self.file}: tugcode mcp; commit it, so that every worktree has it"

    def write(self) -> InitMcpItem:
        """Write the file. Return the part of the answer."""
        if self.text is not None:
            files.make_directory(os.path.dirname(self.path))
            files.replace(self.path, self.text.encode())
        return self.data()


def plan_entry(root: str, client: str) -> PlannedEntry:
    """Return what a client's file lacks; raise if the file cannot be read or extended."""
    about = CLIENTS[client]
    there = [name for name in about.files if os.path.lexists(os.path.join(root, name))]
    file = there[0] if there else about.files[0]
    path = os.path.join(root, file)
    for each in (os.path.dirname(path), path):
        # A link may lead to the settings of all of a person's projects.
        inside = os.path.join(root, "")
        if not os.path.join(os.path.realpath(each), "").startswith(inside):
            raise OutsideRepository(each, root=root, hint=f"ls -l {quoted(each)}")
    if os.path.isdir(path):
        raise Unreadable(file, "is a directory", hint=f"ls -ld {quoted(file)}")
    data = files.read(path) if os.path.exists(path) else None
    extend = _extended_toml if file.endswith(".toml") else _extended_json
    made = extend(file, files.text(file, data or b""), about)
    if made is not None and data is not None and data.startswith(codecs.BOM_UTF8):
        made = "\ufeff" + made
    return PlannedEntry(client, file, path, data is None, made)


def _extended_toml(file: str, old: str, about: McpClient) -> str | None:
    """The text with a table for the server at its end; None if there is one."""
    known = toml(file, old).get(about.table, {})
    if isinstance(known, dict) and NAME in known:
        return None
    lines = [f"[{about.table}.{NAME}]"]
    lines += [f"{key} = {json.dumps(value)}" for key, value in about.entry.items()]
    newline = "\r\n" if "\r\n" in old else "\n"
    gap = "" if not old else newline if old.endswith("\n") else newline * 2
    text = f"{old}{gap}{newline.join(lines)}{newline}"
    try:
        made = toml(file, text).get(about.table)
    except BadClientSettings:
        made = None
    if not isinstance(made, dict) or made.get(NAME) != about.entry:
        problem = f"has {about.table} in a form that no table can be added to"
        raise BadClientSettings(file, problem)
    return text


def _extended_json(file: str, old: str, about: McpClient) -> str | None:
    """The text with a member for the server; None if there is one."""
    text = old if old.strip() else "{}\n"
    if NAME in table(file, text, about.table):
        return None
    made = _with_member(text, (), about.table, {})
    made = _with_member(made, (about.table,), NAME, about.entry)
    # Written only if it says what it should, and nothing else has changed.
    before, after = json_object(file, text), json_object(file, made)
    if after[about.table].pop(NAME, None) != about.entry:
        raise BadClientSettings(file, f"has {about.table} twice")
    assert after == {about.table: {}, **before}
    return made


def _members(plain: str, at: int) -> Iterator[tuple[str, int, int]]:
    """The name, start and end of each value of the object at this place."""
    decoder = JSONDecoder()
    at = _skip(plain, at + 1)
    while plain[at] != "}":
        name, at = decoder.raw_decode(plain, at)
        at = _skip(plain, _skip(plain, at) + 1)
        _, end = decoder.raw_decode(plain, at)
        yield name, at, end
        at = _skip(plain, end)
        at = _skip(plain, at + 1) if plain[at] == "," else at


def _skip(plain: str, at: int) -> int:
    while plain[at].isspace():
        at += 1
    return at


def _with_member(text: str, path: tuple[str, ...], name: str, value: dict[str, Any]) -> str:
    """The text with a member more in the object that the path leads to."""
    plain = blanked(text)
    at = _skip(plain, 0)
    for each in path:
        at = next(start for key, start, _ in _members(plain, at) if key == each)
    known = list(_members(plain, at))
    if any(key == name for key, _, _ in known):
        return text
    if "\n" not in text.strip() and text.strip() != "{}":
        end = known[-1][2] if known else at
        gap = "" if not known else " " if _has_comma(text, plain, end) else ", "
        return _within_line(text, plain.index("}", end), gap, name, value)
    depth = len(path) + 1
    newline, step = "\r\n" if "\r\n" in text else "\n", _indent(text)
    lead = newline + step * depth
    added = f"{json.dumps(name)}: {_written(value, newline + step * depth, step)}"
    if not known:
        close = plain.index("}", at)
        inside = text[at + 1 : close].rstrip()
        return f"{text[: at + 1]}{inside}{lead}{added}{newline}{step * (depth - 1)}{text[close:]}"
    _, _, end = known[-1]
    # A comment behind the last member stays on its line.
    line = plain.find(newline, end)
    rest = len(plain) if line < 0 else line
    stay = rest if not plain[end:rest].strip() else end
    comma = "" if _has_comma(text, plain, end) else ","
    return f"{text[:end]}{comma}{text[end:stay].rstrip()}{lead}{added}{text[stay:]}"


def _within_line(text: str, close: int, gap: str, name: str, value: dict[str, Any]) -> str:
    """The text with a member more before the end of an object, all in one line."""
    before = text[:close].rstrip()
    blank = text[len(before) : close]
    return f"{before}{gap}{json.dumps(name)}: {json.dumps(value)}{blank}{text[close:]}"


def _has_comma(text: str, plain: str, end: int) -> bool:
    """True if a comma follows the last member, where blanks stand for it."""
    close = plain.index("}", end)
    return any(text[at] == "," and _is_outside(text, end, at) for at in range(end, close))


def _is_outside(text: str, start: int, place: int) -> bool:
    at = start
    while at < place:
        at = end_of_token(text, at)
    return at == place


def _written(value: dict[str, Any], lead: str, step: str) -> str:
    """The value with a line for each member."""
    if not value:
        return "{}"
    inner = [f"{lead}{step}{json.dumps(key)}: {json.dumps(each)}" for key, each in value.items()]
    return "{" + ",".join(inner) + lead + "}"


def _indent(text: str) -> str:
    for line in text.splitlines():
        blank = line[: len(line) - len(line.lstrip(" \t"))]
        if blank and line.strip():
            return blank
    return "  "
