"""The plugin: its location, and its installation into a client."""

from __future__ import annotations

import codecs
import json
from json.decoder import JSONDecodeError, JSONDecoder

from tugtool.agents.guard import rules
from tugtool.errors import CannotRun, OutsideRepository, quoted
from tugtool.errors.repository import (
    BadClientSettings,
    ClientMissing,
    ClientRefused,
    HomeUnknown,
    PluginMissing,
)
from tugtool.system import command, config, files, os, secrets
from tugtool.system.command import Streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tugtool.schemas import InitClaude


PLUGIN = "tugplug"
MARKETPLACE = "tugtool"
#: `{}` is the marketplace's directory. Each of them may be repeated.
COMMANDS = {
    "claude": (
        ("claude", "plugin", "marketplace", "add", "{}"),
        ("claude", "plugin", "install", f"{PLUGIN}@{MARKETPLACE}"),
        # `install` does not replace an older version, so update it.
        ("claude", "plugin", "update", f"{PLUGIN}@{MARKETPLACE}"),
    ),
    "codex": (
        ("codex", "plugin", "marketplace", "add", "{}"),
        ("codex", "plugin", "add", f"{PLUGIN}@{MARKETPLACE}"),
    ),
}
#: The variable that replaces HOME for each client.
HOMES = {"claude": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME"}
#: Codex's message if it has the marketplace from another directory.
_ELSEWHERE = "already added from a different source"
_LET_GO = f"codex plugin marketplace remove {MARKETPLACE}"
_BACKTRACE = "Stack backtrace:"
#: Clients start slowly, and some look for updates first.
LIMIT_SECONDS = 120.0
#: How much of a client's output a message quotes.
_TOLD = 2000


def marketplace() -> str:
    """The directory that clients add, with the plugin and the file that names it."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    places = [os.path.join(package, "marketplace"), os.path.dirname(os.path.dirname(package))]
    for place in places:
        if os.path.isfile(os.path.join(place, PLUGIN, "plugin.json")):
            return place
    raise PluginMissing(places)


def plugin() -> str:
    """The plugin's own directory."""
    return os.path.join(marketplace(), PLUGIN)


def install(client: str, *, cwd: str, dry_run: bool = False) -> dict[str, Any]:
    """Install the plugin into a client, or with `dry_run` only list the commands."""
    place = marketplace()
    commands = [[place if word == "{}" else word for word in each] for each in COMMANDS[client]]
    return {
        "client": client,
        "installed": not dry_run,
        "marketplace_path": place,
        "commands": [" ".join(map(quoted, words)) for words in commands],
        "said": [] if dry_run else list(_run(client, commands, cwd=cwd)),
    }


def _run(client: str, commands: list[list[str]], *, cwd: str) -> Iterator[str]:
    """Run the commands one after the other; yield the client's output of each."""
    if not any(config.environment().get(name) for name in ("HOME", HOMES[client])):
        raise HomeUnknown(client, HOMES[client])
    for words in commands:
        line = " ".join(map(quoted, words))
        try:
            done = command.run(
                words,
                cwd=cwd,
                streams=Streams.keep(head=_TOLD, tail=_TOLD, merged=True),
                limit_seconds=LIMIT_SECONDS,
            )
        except CannotRun as error:
            raise ClientMissing(client) from error
        said = done.out.text().partition(_BACKTRACE)[0].strip()
        said = secrets.Mask(config.environment()).text(said)
        if done.timed_out or done.status:
            status = None if done.timed_out else done.status
            mend = _LET_GO if _ELSEWHERE in said else None
            raise ClientRefused(client, line, status=status, said=said, mend=mend)
        yield said


FILE = ".claude/settings.json"
#: tugcode checks its own rules, so it needs no permission; the guard exports the role to
#: commands, which must not need permission either.
ALLOW = ("Bash(tugcode:*)", *(f"Bash(export TUGCODE_ROLE={role})" for role in rules.ROLES))
#: The state, and the log that commits write.
DENY = (
    "Edit(**/.tugtool/state.db*)",
    "Edit(**/.tugtool/state.lock)",
    "Edit(**/.tugtool/log.md)",
    "Edit(**/.tugtool/archive/**)",
)
_BLANK = " \t\r\n"


def add_rules(root: str, *, check: bool = False) -> InitClaude:
    """Add the rules that are missing (or, with `check`, only look)."""
    path = os.path.join(root, FILE)
    above = os.path.dirname(path)
    for each in (above, path):
        # A link may lead to the settings of all of a person's projects.
        if not os.path.realpath(each).startswith(os.path.join(root, "")):
            raise OutsideRepository(each, root=root, hint=f"ls -l {quoted(each)}")
    mark, text = _text(path)
    missing = _missing(_value("{}" if text is None else text))
    if any(missing.values()) and not check:
        files.make_directory(above)
        made = _joined("{}\n" if text is None else text, missing)
        # Write only if the new text has all rules.
        assert not any(_missing(_value(made)).values())
        files.replace(path, mark + made.encode())
    allow, deny = missing["allow"], missing["deny"]
    return {"file": FILE, "created": text is None, "allow": allow, "deny": deny}


def would_add(root: str) -> bool:
    """True if the project uses Claude Code, and lacks some of our rules."""
    if not os.path.isdir(os.path.join(root, ".claude")):
        return False
    added = add_rules(root, check=True)
    return bool(added["allow"] or added["deny"])


def _text(path: str) -> tuple[bytes, str | None]:
    """The file's byte order mark, and its text; None if there is no text."""
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
        raise BadClientSettings(FILE, f"is not JSON: {error}", line=line) from error
    if not isinstance(value, dict):
        raise BadClientSettings(FILE, "is not a JSON object")
    permissions = value.get("permissions", {})
    if not isinstance(permissions, dict):
        raise BadClientSettings(FILE, "has permissions that are not an object")
    for kind in ("allow", "ask", "deny"):
        if not isinstance(permissions.get(kind, []), list):
            raise BadClientSettings(FILE, f"has permissions.{kind} that is not a list")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name stands twice in the same object")
    return made


def _no_number(word: str) -> None:
    # Python reads NaN and Infinity; JSON does not have them.
    raise ValueError(f"{word} is not a number")


def _missing(value: dict[str, Any]) -> dict[str, list[str]]:
    """The rules that no list has: a person may have moved a rule to another list."""
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
    """The position of the value that the names lead to."""
    at = _skip(text, 0)
    for name in names:
        at = next(start for key, start, _ in _values(text, at) if key == name)
    return at


def _skip(text: str, at: int) -> int:
    while text[at] in _BLANK:
        at += 1
    return at


def _values(text: str, at: int) -> Iterator[tuple[object, int, int]]:
    """The name, start and end of every value of the object at `at`; a list has no names."""
    named = text[at] == "{"
    at = _skip(text, at + 1)
    while text[at] not in "}]":
        name = None
        if named:
            name, at = JSONDecoder().raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        _, end = JSONDecoder().raw_decode(text, at)
        yield name, at, end
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at


def _with_member(text: str, at: int, name: str, value: str, *, depth: int) -> str:
    known = list(_values(text, at))
    if any(key == name for key, _, _ in known):
        return text
    added = f"{json.dumps(name)}: {value}"
    if not known:
        return _into_empty(text, at, added, depth)
    _, start, end = known[-1]
    return f"{text[:end]},{_before(text, start, depth)}{added}{text[end:]}"


def _with_item(text: str, at: int, value: str) -> str:
    known = list(_values(text, at))
    if not known:
        return _into_empty(text, at, value, 3)
    _, start, end = known[-1]
    before = text[:start]
    blank = before[len(before.rstrip(_BLANK)) :]
    lead = blank if "\n" in blank else " "
    return f"{text[:end]},{lead}{value}{text[end:]}"


def _before(text: str, start: int, depth: int) -> str:
    """The indentation of a member's line, or the one that its depth needs."""
    line = text.rfind("\n", 0, start)
    lead = text[line + 1 : start]
    blank = lead[: len(lead) - len(lead.lstrip(_BLANK))]
    own_line = line >= 0 and lead.lstrip(_BLANK).startswith('"')
    return _newline(text) + (blank if own_line else _indent(text) * depth) if line >= 0 else " "


def _into_empty(text: str, at: int, added: str, depth: int) -> str:
    end = text.index("}" if text[at] == "{" else "]", at)
    line, step = _newline(text), _indent(text)
    return f"{text[: at + 1]}{line}{step * depth}{added}{line}{step * (depth - 1)}{text[end:]}"


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _indent(text: str) -> str:
    """The indentation of the person's own lines."""
    for line in text.splitlines():
        blank = line[: len(line) - len(line.lstrip(" \t"))]
        if blank:
            return blank
    return "  "
