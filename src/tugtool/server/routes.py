"""The served commands: group, method and role of each, and how a request becomes a Call.

A request names the options of its command by their long names, with `_`, and the arguments by
their own names. The parser of `cli` takes them as it takes the words of a command line.
"""

from __future__ import annotations

import functools
import json
from typing import NamedTuple

from tugtool import errors
from tugtool.cli import parse
from tugtool.cli.parse import Argument, Call, Command, Option
from tugtool.errors.server import BodyTooLarge, NotServed
from tugtool.system import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tugtool.errors import TugError

    Values = Mapping[str, object]


API = "/api/v1/"
#: The paths of what happens as it happens, and of the tools for agent clients.
LIVE, MCP = f"{API}live", "/mcp"


def _commands(*words: str) -> tuple[str, ...]:
    """The commands of which the table says one of these words."""
    return tuple(path for path in parse.FAMILIES if parse.access(path) in words)


#: Commands that show something, for every role: GET.
LOOK = _commands("look", "read")
#: Shows what agents got and printed, perhaps also what they should not have seen: for operators.
OPERATORS_LOOK = ("transcript",)
#: Commands of a step's holder, for workers: POST.
HOLD = _commands("hold")
#: Commands of people, for operators: POST. `state review` is one if it settles something.
STEER = (*_commands("steer"), "state review")
#: Commands that use git or read the plan's file: POST, for operators, if `serve.git` is on.
GIT = _commands("git")
#: Of these, `state verify` runs commands too: only if `serve.run_commands` is on.
RUNS = ("state verify",)
_FILES = "it writes files where it is typed"
_UPKEEP = "it replaces or removes parts of the record"
_DIRECTORY = "it works in the directory where it is typed"
_SET_UP = "it is about your own machine"
#: Why a command is not served, unless it works in the directory where it is typed.
_REASONS = {
    "init": _FILES,
    "trust": _SET_UP,
    "plan new": _FILES,
    "plan import": _FILES,
    "implement": "it starts agents",
    "state exec": "it runs a command",
    "state migrate": _UPKEEP,
    "state move": _UPKEEP,
    "state prune": _UPKEEP,
    "state import": _UPKEEP,
    "state restore": _UPKEEP,
    "plugin path": _SET_UP,
    "plugin install": _SET_UP,
    "hook pre-tool-use": _SET_UP,
    "serve": _SET_UP,
    "serve token add": _SET_UP,
    "serve token list": _SET_UP,
    "serve token revoke": _SET_UP,
    "open": _SET_UP,
    "mcp": "it serves the client that starts it; POST /mcp is its like here",
    "completion": _SET_UP,
    "complete-words": _SET_UP,
}
#: Commands that are not served, each with the reason.
NEVER = {path: _REASONS.get(path, _DIRECTORY) for path in _commands("", "aid")}
#: Options that name a file of the server's machine, or need a terminal.
LOCAL_OPTIONS = {
    "doctor": ("fix",),
    "report": ("format", "output"),
    "state export": ("output", "with_transcripts"),
    "state show": ("watch",),
    "state log": ("follow",),
    "transcript": ("follow",),
    "state artifact": ("content_file",),
    "state update": ("batch",),
    "state init": ("create_database",),
}
#: Plan files are read up to the server's own limit.
NEVER_OPTIONS = ("max_bytes",)
#: Settles something, so that `state review` needs an operator.
VERDICTS = ("accept", "reject", "accept_all", "retry")
#: Fields for what a command line reads from a file or from standard input.
ENTRIES, CONTENT = "entries", "content"
INPUTS = {"state update": ENTRIES, "state artifact": CONTENT}
PLAN_HASH = "plan_hash"
LONGEST_WAIT_SECONDS = 50
MOST_FIELDS = 200


class HttpRefusal(Exception):
    """A refusal with an HTTP status of its own."""

    def __init__(self, error: TugError, status: int, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(error.message)
        self.error, self.status, self.headers = error, status, headers


class Route(NamedTuple):
    """One method of one path: the command behind it, and who may call it."""

    method: str
    command: str
    group: str
    role: str

    @property
    def path(self) -> str:
        """The path under which it is served."""
        return API + self.command.replace(" ", "/")


def _table() -> dict[tuple[str, str], Route]:
    groups = (
        ("GET", LOOK, "look", "viewer"),
        ("POST", HOLD, "hold", "worker"),
        ("POST", STEER, "steer", "operator"),
        ("POST", GIT, "git", "operator"),
    )
    routes = [
        Route(method, command, group, "operator" if command in OPERATORS_LOOK else role)
        for method, commands, group, role in groups
        for command in commands
    ]
    return {(route.method, route.path): route for route in routes}


ROUTES = _table()

_STATUSES = {
    "E041": 404,
    "E046": 503,
    "E047": 503,
    "E054": 404,
    "E059": 404,
    "E063": 404,
    "E065": 503,
    "E066": 400,
    "E085": 404,
    "E100": 401,
    "E101": 403,
    "E102": 403,
    "E103": 413,
    "E104": 429,
    "E105": 404,
}
_BY_EXIT_STATUS = {2: 400, 3: 500}


def http_status(error: TugError) -> int:
    """The HTTP status of a refusal."""
    return _STATUSES.get(error.code) or _BY_EXIT_STATUS.get(error.exit_status, 409)


@functools.cache
def command_of(route: Route) -> Command:
    """The command behind a route."""
    command = parse.find(route.command)
    assert command is not None
    return command


def not_served(path: str) -> TugError:
    """The refusal of a path: a command to type on the machine, or an unknown path."""
    words = path.removeprefix(API).replace("/", " ")
    if path.startswith(API) and words in NEVER:
        return NotServed(words, reason=NEVER[words], hint=f"tugcode {words}")
    shown = path[:100] if path.isprintable() else "the path"
    return NotServed(shown, reason="there is no such path", hint=f"GET {API}openapi.json")


def switched_off(route: Route, setting: str) -> TugError:
    """The refusal of a command that a setting switches off."""
    needed = ["git", *(["run_commands"] if route.command in RUNS else [])]
    settings = " and ".join(f"serve.{each} = true" for each in needed)
    hint = f"tugcode {route.command} where the server runs; or set {settings} there"
    return NotServed(route.command, reason=f"the setting serve.{setting} is off", hint=hint)


@functools.cache
def fields(route: Route, *, on_this_machine: bool = False) -> Mapping[str, Option | Argument]:
    """The fields of a request, with what the parser knows of each."""
    command = command_of(route)
    away = {*LOCAL_OPTIONS.get(route.command, ()), *NEVER_OPTIONS}
    if not on_this_machine:
        away.add("holder_pid")
    if route.command == "state review" and route.method == "GET":
        away |= {*VERDICTS, "note", "yes"}
    known: dict[str, Option | Argument] = {each.name: each for each in command.arguments}
    known |= {each.key: each for each in command.options if each.key not in away}
    if route.command in INPUTS:
        name = INPUTS[route.command]
        known[name] = Option(f"--{name} JSON", _INPUT_HELP[name])
    if route.group == "hold":
        known[PLAN_HASH] = Option("--plan-hash HASH", "the hash of your copy of the plan's file")
    return known


_INPUT_HELP = {
    ENTRIES: "objects with kind, ordinal, status and optionally reason and step",
    CONTENT: "the whole text of the note",
}


def fill(route: Route, given: Values, call: Call, *, on_this_machine: bool = False) -> str | None:
    """Fill the call with the values of a request. Return the hash of the caller's plan, if any."""
    known = fields(route, on_this_machine=on_this_machine)
    command = command_of(route)
    refuse_unknown(route, command, given, known)
    values = {name: value for name, value in given.items() if value is not None}
    plan_hash = values.pop(PLAN_HASH, None)
    reader = parse.WordReader(())
    reader.call, call.command = call, command
    _take_input(route, values, reader)
    for name, value in values.items():
        _take(reader, known[name], name, value)
    reader.positionals = _positionals(command, values)
    reader.finish()
    call.json = True
    wait = call.seconds("wait") or 0
    if wait > LONGEST_WAIT_SECONDS:
        raise _usage(route, f"wait is at most {LONGEST_WAIT_SECONDS} seconds")
    return None if plan_hash is None else str(plan_hash)


def refuse_unknown(route: Route, command: Command, given: Values, known: Iterable[str]) -> None:
    """Refuse a field that the command does not have, and name the closest one."""
    known = list(known)
    for name in given:
        if name in known:
            continue
        if any(each.key == name for each in command.options):
            option = f"{route.command} --{name.replace('_', '-')}"
            reason = "it is for a terminal, or for files of the server's machine"
            raise HttpRefusal(NotServed(option, reason=reason, hint=f"tugcode {option}"), 422)
        close = text.names(name, known)
        problem = f'there is no field "{name[:100]}"'
        raise HttpRefusal(errors.Usage(problem, command=route.command, close=close), 422)


def _take_input(route: Route, values: dict[str, object], reader: parse.WordReader) -> None:
    """Take out what a command line would read from standard input, with the option for it."""
    name = INPUTS.get(route.command, "")
    if name not in values:
        return
    value = values.pop(name)
    if name == CONTENT:
        reader.call.given = _scalar(name, value).encode("utf-8", "surrogateescape")
        reader.call.values["content_file"] = ["-"]
    else:
        reader.call.given = text.encode(value).encode()
        reader.call.values["batch"] = []


def _positionals(command: Command, values: Values) -> list[str]:
    words: list[str] = []
    missing = None
    for argument in command.arguments:
        if argument.name not in values:
            missing = missing or argument
            continue
        value = values[argument.name]
        given = value if argument.many and isinstance(value, list) else [value]
        taken = [_scalar(argument.name, each) for each in given]
        # A step alone may be one of the only active plan; the parser decides.
        is_step = argument.name == "step" and taken[0].lstrip("#").startswith("step-")
        if missing is not None and not is_step:
            problem = f"{command.path} needs {missing.name}: {missing.help}"
            raise errors.Usage(problem, command=command.path)
        words += taken
    return words


def _take(reader: parse.WordReader, known: Option | Argument, name: str, value: object) -> None:
    """Take the value of an option, as from the words of a command line."""
    if isinstance(known, Argument):
        return
    if not known.metavar:
        if _flag(name, value):
            reader.store(known, [])
        return
    several = value if known.repeat and isinstance(value, list) else [value]
    for each in several:
        parts = each if isinstance(each, list) else [each]
        if len(parts) != len(known.metavar.split()):
            raise errors.Usage(f"{name} takes lists of {known.metavar}, such as [[0, ...]]")
        reader.store(known, [_scalar(name, part) for part in parts])


def _flag(name: str, value: object) -> bool:
    if value in (True, "true", "1", ""):
        return True
    if value in (False, "false", "0"):
        return False
    raise errors.Usage(f"{name} takes true or false")


def _scalar(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise errors.Usage(f"{name} takes a text or a number")
    word = str(value)
    if "\0" in word:
        raise errors.Usage(f"{name} has a NUL character")
    return word


def _usage(route: Route, problem: str) -> errors.Usage:
    return errors.Usage(problem, command=route.command)


def decoded(body: bytes, *, deepest: int) -> Values:
    """The object in a request's body; refuses duplicates, and more than it can need."""
    try:
        value = _DECODER.decode((body or b"{}").decode("utf-8", "surrogatepass"))
    except RecursionError:
        raise BodyTooLarge("levels", deepest) from None
    except ValueError as error:
        raise errors.Usage(f"the request is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise errors.Usage("the request is not a JSON object")
    if len(value) > MOST_FIELDS:
        raise BodyTooLarge("fields", MOST_FIELDS)
    if _depth(value, deepest) > deepest:
        raise BodyTooLarge("levels", deepest)
    return value


def _object(found: list[tuple[str, object]]) -> dict[str, object]:
    names = dict(found)
    if len(names) < len(found):
        raise ValueError("a name stands twice in one object")
    return names


def _constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)


def _depth(value: object, most: int) -> int:
    """How deep lists and objects are nested; stops counting beyond `most`."""
    level, depth = [value], 0
    while level and depth <= most:
        inner = [each for each in level if isinstance(each, dict | list)]
        level = [x for each in inner for x in (each.values() if isinstance(each, dict) else each)]
        depth += bool(inner)
    return depth
