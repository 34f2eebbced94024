"""`tugcode init --claude`: what Claude Code may do in a project without asking, and what never.

Its `.claude/settings.json` is a person's file: what stands there stays, byte for byte and in its
order, and rules are added where they belong.
"""

from __future__ import annotations

import codecs
import json
import os
from json.decoder import JSONDecodeError, JSONDecoder

from tugtool import files
from tugtool.errors import OutsideRepository, quoted
from tugtool.guard import rules
from tugtool.role_errors import BadClientSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tugtool.repository import Repository

FILE = ".claude/settings.json"
#: tugcode holds its own rules, so it need not be asked about; the guard tells commands who runs
#: them, and that must not need leave of its own.
ALLOW = ("Bash(tugcode:*)", *(f"Bash(export TUGCODE_ROLE={role})" for role in rules.ROLES))
#: The state, and the log that commits write.
DENY = (
    "Edit(**/.tugtool/state.db*)",
    "Edit(**/.tugtool/state.lock)",
    "Edit(**/.tugtool/log.md)",
    "Edit(**/.tugtool/archive/**)",
)
_BLANK = " \t\r\n"


class Added:
    """What was missing, and whether the file was too."""

    __slots__ = ("created", "rules")

    def __init__(self, created: bool, missing: dict[str, list[str]]) -> None:
        self.created = created
        self.rules = missing

    def __bool__(self) -> bool:
        return any(self.rules.values())


def init(repo: Repository, *, check: bool = False) -> Added:
    """Add the rules that are missing (or, with `check`, only look)."""
    path = os.path.join(repo.root, FILE)
    above = os.path.dirname(path)
    for each in (above, path):
        # What a link leads to may be somebody's for all of their projects.
        if not os.path.realpath(each).startswith(os.path.join(repo.root, "")):
            raise OutsideRepository(each, root=repo.root, hint=f"ls -l {quoted(each)}")
    mark, text = _text(path)
    missing = _missing(_value("{}" if text is None else text))
    added = Added(text is None, missing)
    if added and not check:
        files.make_directory(above)
        made = _joined("{}\n" if text is None else text, missing)
        # What was read again is what was meant, or nothing is written.
        assert not any(_missing(_value(made)).values())
        files.replace(path, mark + made.encode())
    return added


def _text(path: str) -> tuple[bytes, str | None]:
    """What stands in the file, if anything does, and the byte order mark before it."""
    if not os.path.exists(path):
        return b"", None
    data = files.read(path)
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    return mark, files.text(FILE, data) or None


def _value(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        line = error.lineno if isinstance(error, JSONDecodeError) else None
        raise BadClientSettings(FILE, f"is no JSON: {error}", line=line) from error
    if not isinstance(value, dict):
        raise BadClientSettings(FILE, "is no JSON object")
    permissions = value.get("permissions", {})
    if not isinstance(permissions, dict):
        raise BadClientSettings(FILE, "has permissions that are no object")
    for kind in ("allow", "ask", "deny"):
        if not isinstance(permissions.get(kind, []), list):
            raise BadClientSettings(FILE, f"has permissions.{kind} that is no list")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name stands twice in the same object")
    return made


def _no_number(word: str) -> None:
    # Python reads them; JSON has none.
    raise ValueError(f"{word} is no number")


def _missing(value: dict[str, Any]) -> dict[str, list[str]]:
    """The rules that stand in none of the lists: a person may have put one into another."""
    permissions = value.get("permissions", {})
    known = [rule for kind in ("allow", "ask", "deny") for rule in permissions.get(kind, [])]
    wanted = {"allow": ALLOW, "deny": DENY}
    return {kind: [r for r in each if r not in known] for kind, each in wanted.items()}


def _joined(text: str, missing: dict[str, list[str]]) -> str:
    for kind, wanted in missing.items():
        if wanted:
            text = _with_member(text, _start(text, ()), "permissions", "{}", depth=1)
            text = _with_member(text, _start(text, ("permissions",)), kind, "[]", depth=2)
            for rule in wanted:
                text = _with_item(text, _start(text, ("permissions", kind)), json.dumps(rule))
    return text


def _start(text: str, names: tuple[str, ...]) -> int:
    """Where the value begins that the names lead to."""
    at = _skip(text, 0)
    for name in names:
        at = next(start for key, start, _ in _members(text, at) if key == name)
    return at


def _skip(text: str, at: int) -> int:
    while text[at] in _BLANK:
        at += 1
    return at


def _members(text: str, at: int) -> Iterator[tuple[str, int, int]]:
    """Name, begin and end of every value of the object that begins there."""
    at = _skip(text, at + 1)
    while text[at] != "}":
        name, at = JSONDecoder().raw_decode(text, at)
        start = _skip(text, _skip(text, at) + 1)
        _, end = JSONDecoder().raw_decode(text, start)
        yield name, start, end
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at


def _items(text: str, at: int) -> Iterator[tuple[int, int]]:
    """Begin and end of every value of the list that begins there."""
    at = _skip(text, at + 1)
    while text[at] != "]":
        _, end = JSONDecoder().raw_decode(text, at)
        yield at, end
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at


def _with_member(text: str, at: int, name: str, value: str, *, depth: int) -> str:
    known = list(_members(text, at))
    if any(key == name for key, _, _ in known):
        return text
    added = f"{json.dumps(name)}: {value}"
    if known:
        return _behind(text, known[-1][2], _before(text, known[-1][1], depth), added)
    return _into_empty(text, at, "}", added, depth)


def _with_item(text: str, at: int, value: str) -> str:
    known = list(_items(text, at))
    if known:
        start, end = known[-1]
        lead = text[:start]
        blank = lead[len(lead.rstrip(_BLANK)) :]
        return _behind(text, end, blank if "\n" in blank else " ", value)
    return _into_empty(text, at, "]", value, 3)


def _before(text: str, start: int, depth: int) -> str:
    """What stands in front of a member's line, to be repeated; or a line of our own."""
    line = text.rfind("\n", 0, start)
    lead = text[line + 1 : start]
    blank = lead[: len(lead) - len(lead.lstrip(_BLANK))]
    own_line = line >= 0 and lead.lstrip(_BLANK).startswith('"')
    return _newline(text) + (blank if own_line else _indent(text) * depth) if line >= 0 else " "


def _behind(text: str, at: int, lead: str, added: str) -> str:
    return f"{text[:at]},{lead}{added}{text[at:]}"


def _into_empty(text: str, at: int, closing: str, added: str, depth: int) -> str:
    end = text.index(closing, at)
    line, step = _newline(text), _indent(text)
    return f"{text[: at + 1]}{line}{step * depth}{added}{line}{step * (depth - 1)}{text[end:]}"


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _indent(text: str) -> str:
    """What the person's own lines begin with."""
    for line in text.splitlines():
        blank = line[: len(line) - len(line.lstrip(" \t"))]
        if blank:
            return blank
    return "  "
