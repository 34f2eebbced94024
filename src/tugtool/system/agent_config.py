"""Settings of `.tugtool/config.toml` that few commands need: runs of agents.

Loaded only if the file has one of them, or by a command that starts agents.
"""

from __future__ import annotations

from tugtool import errors
from tugtool.system.config import MOST, Setting, format_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any


class SumSetting(Setting):
    """A sum of money: a number, whole or not."""

    __slots__ = ()

    def expects(self) -> str:
        """The values that are allowed, in words."""
        return f"a number, at least {self.least} and at most {MOST}"

    def takes(self, value: object) -> bool:
        """True if `value` is of the right type and in range."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return self.least <= value <= MOST


class ListSetting(Setting):
    """A list of whole numbers; of words, where the default has none; or of the choices."""

    __slots__ = ()

    def expects(self) -> str:
        """The values that are allowed, in words."""
        if self.choices:
            return "a list of " + ", ".join(f'"{choice}"' for choice in self.choices)
        return "a list of whole numbers" if self.default else 'a list of texts: ["one", "two"]'

    def takes(self, value: object) -> bool:
        """True if `value` is of the right type and in range."""
        return isinstance(value, list) and all(map(self._takes_one, value))

    def _takes_one(self, value: object) -> bool:
        if self.choices or self.default:
            return super().takes(value)
        return isinstance(value, str) and "\0" not in value


class CommandsSetting(Setting):
    """A list of commands, each a list of words whose first is the program."""

    __slots__ = ()

    def expects(self) -> str:
        """The values that are allowed, in words."""
        return 'a list of commands, each a list of words, such as [["npm", "ci"]]'

    def takes(self, value: object) -> bool:
        """True if every command names a program."""
        return isinstance(value, list) and all(map(_is_command, value))


class SwitchSetting(Setting):
    """True or false."""

    __slots__ = ()

    def expects(self) -> str:
        """The values that are allowed, in words."""
        return "true or false"

    def takes(self, value: object) -> bool:
        """True if `value` is of the right type."""
        return type(value) is bool


class TextSetting(Setting):
    """A text; empty if it is not set."""

    __slots__ = ()

    def expects(self) -> str:
        """The values that are allowed, in words."""
        return "a text without line breaks"

    def takes(self, value: object) -> bool:
        """True if `value` is a text on one line."""
        return isinstance(value, str) and value.isprintable()


#: The events that `[notify]` can send.
NOTICES = ("needs_person", "done", "stopped", "cooling_down")

SETTINGS = {
    "implement.workers": Setting(1, "how many steps `implement` works on at the same time"),
    "implement.lease_seconds": Setting(600, "how long its claims last without a sign of life"),
    "implement.review_rounds": Setting(3, "how often a reviewer may ask for changes to a step"),
    "implement.verify": SwitchSetting(
        True, "whether `implement` runs the command checkpoints of a step before it commits it"
    ),
    "implement.budget_tokens": Setting(
        0,
        "`implement` starts no step after the agents have used so many tokens; 0: no limit",
        least=0,
    ),
    "implement.budget_cost": SumSetting(
        0.0,
        "`implement` starts no step after the agents have cost so many US dollars; 0: no limit",
        least=0,
    ),
    "implement.retry_seconds": ListSetting(
        [5, 30, 120],
        "how long to wait before an agent that failed is tried again; the last one repeats",
        least=0,
    ),
    "implement.patience_seconds": Setting(
        28800,
        "how long to wait for agents that ask for time or fail in the same way; 0: not at all",
        least=0,
    ),
    "implement.question_seconds": Setting(
        600, "how long a question on the terminal waits before its step is parked"
    ),
    "implement.transcript_bytes": Setting(
        1048576, "how much of an agent's input and output each call keeps", least=0
    ),
    "worktree.setup": CommandsSetting([], "commands that run once in each new worktree"),
    "worktree.setup_seconds": Setting(600, "a command of `worktree.setup` that takes longer fails"),
    "worktree.copy": ListSetting(
        [], "files or directories that git ignores, copied to each new worktree"
    ),
    "merge.check": ListSetting(
        [], "lines for a shell that must pass on the merged result before the base branch moves"
    ),
    "notify.command": ListSetting(
        [], "a command that gets events of `implement` as JSON on its standard input"
    ),
    "notify.on": ListSetting(
        list(NOTICES), "the events that `notify.command` gets", choices=NOTICES
    ),
}


ROLES = (
    "clarifier",
    "author",
    "critic",
    "architect",
    "coder",
    "reviewer",
    "committer",
    "auditor",
    "integrator",
)
#: The table that completes the table of each role.
DEFAULT = "default"
#: The preset that leaves a role out, also where `[agents.default]` names an agent.
NONE = "none"
PRESETS = ("claude", "codex", "gemini", "opencode", "scripted", "shell")
#: Its work leaves the machine, so `[agents.default]` does not fill this role.
OUTWARD = ("integrator",)
#: The line that the preset `shell` runs; it stands in `env`.
SHELL_VARIABLE = "TUGCODE_AGENT_SHELL"
#: The script that the preset `scripted` plays; it stands in `env` too.
SCRIPT_VARIABLE = "TUGCODE_SCRIPT"
#: A week, and more tries than are useful.
MOST_SECONDS, MOST_TRIES = 604_800, 100

#: Every key of such a table: its default, what it takes, and what it means.
KEYS: dict[str, tuple[Any, str, str]] = {
    "preset": (
        None,
        "one of " + ", ".join(f'"{name}"' for name in (*PRESETS, NONE)),
        'a ready-made command; "none" leaves the role out',
    ),
    "command": (
        None,
        "a list of words, the first of them the program",
        "the command itself, instead of a preset",
    ),
    "timeout_seconds": (
        3600,
        f"a whole number, at least 1 and at most {MOST_SECONDS}",
        "an agent that takes longer is stopped",
    ),
    "tries": (
        2,
        f"a whole number, at least 1 and at most {MOST_TRIES}",
        "how often an agent is run that dies, hangs or breaks its contract",
    ),
    "env": (
        {},
        "a table of text",
        "variables for the agent, beside those that Tugtool sets",
    ),
    "confine": (
        "none",
        'one of "none", "worktree"',
        '"worktree": the agent can write only its worktree and a temporary directory',
    ),
    "writable": ([], "a list of paths", "what else a confined agent can write, such as caches"),
    "network": (True, "true or false", "false: a confined agent cannot use the network"),
}


class Agent:
    """The agent for a role: a preset or a command, with its settings."""

    def __init__(self, role: str, values: Mapping[str, Any]) -> None:
        self.role = role
        known = {name: values.get(name, default) for name, (default, *_) in KEYS.items()}
        self.preset: str | None = known["preset"]
        self.command = None if known["command"] is None else tuple(known["command"])
        self.timeout_seconds: int = known["timeout_seconds"]
        self.tries: int = known["tries"]
        self.env: dict[str, str] = dict(known["env"])
        self.confine: str = known["confine"]
        self.writable: list[str] = known["writable"]
        self.network: bool = known["network"]


Tables = dict[str, dict[str, object]]


def check_tables(document: object, file: str) -> Tables:
    """The tables of `[agents]`, by role; refuses the first error in them."""
    if not isinstance(document, dict):
        raise errors.BadSetting(
            file, f"agents is {_kind(document)}, and must be a section", key="agents"
        )
    for role, table in document.items():
        _check_role(file, role)
        if not isinstance(table, dict):
            problem = f"agents.{role} is {_kind(table)}, and must be a section, [agents.{role}]"
            raise errors.BadSetting(file, problem, key=f"agents.{role}")
        for name, value in table.items():
            _check(file, role, name, value)
        if "preset" in table and "command" in table:
            problem = f"agents.{role} has both preset and command, and must have one of them"
            raise errors.BadSetting(file, problem, key=f"agents.{role}.command")
    tables: Tables = {role: document[role] for role in (DEFAULT, *ROLES) if role in document}
    for role in tables:
        _refuse_missing_line(file, tables, role)
    for role in OUTWARD:
        _refuse_unasked(file, tables, role)
    return tables


def _refuse_unasked(file: str, tables: Tables, role: str) -> None:
    """Refuse a table that only seems to take its agent from `[agents.default]`."""
    if (
        role in tables
        and agent(tables, role) is None
        and merged(tables, role).get("preset") != NONE
    ):
        problem = f"agents.{role} must name its own preset or command: [agents.{DEFAULT}] does not "
        raise errors.BadSetting(file, f"{problem}play it, because it pushes", key=f"agents.{role}")


def _check_role(file: str, role: str) -> None:
    key = f"agents.{role}"
    if role in KEYS:
        problem = f"{key} must stand in a section: of one role, as [agents.coder], or of all, "
        raise errors.BadSetting(file, f"{problem}[agents.default]", key=key)
    if role not in (*ROLES, DEFAULT):
        raise _unknown(file, "role", key, (*ROLES, DEFAULT))


def agent(tables: Tables, role: str) -> Agent | None:
    """The agent for `role`, if there is one."""
    values = merged(tables, role)
    named = values.get("preset", NONE) != NONE or "command" in values
    return Agent(role, values) if named else None


def merged(tables: Tables, role: str) -> dict[str, object]:
    """The settings of a role: its own table, completed from `[agents.default]`."""
    own, shared = tables.get(role, {}), dict(tables.get(DEFAULT, {}))
    if "preset" in own or "command" in own or role in OUTWARD:
        # Preset and command exclude each other: a role's own command replaces the default preset.
        shared.pop("preset", None)
        shared.pop("command", None)
    values = {**shared, **own}
    envs = [table["env"] for table in (shared, own) if "env" in table]
    env = {name: value for each in envs if isinstance(each, dict) for name, value in each.items()}
    return {**values, "env": env} if env else values


def rows(tables: Tables, file: str) -> Iterator[dict[str, object]]:
    """Every setting of every role that has an agent, as `tugcode config` shows them."""
    for role in ROLES:
        values, own = merged(tables, role), tables.get(role, {})
        left_out = own.get("preset") == NONE
        if agent(tables, role) is None and not left_out:
            continue
        for name, (default, _, meaning) in KEYS.items():
            if name not in values if name in ("preset", "command") else left_out:
                continue
            shared = f"{file} [agents.{DEFAULT}]" if name in values else "default"
            value = values.get(name, default)
            yield {
                "key": f"agents.{role}.{name}",
                # The values of such variables are often secret, and output ends up in logs.
                "value": sorted(value) if isinstance(value, dict) else value,
                "source": file if name in own else shared,
                "default": sorted(default) if isinstance(default, dict) else default,
                "meaning": meaning,
            }


def _check(file: str, role: str, name: str, value: object) -> None:
    key = f"agents.{role}.{name}"
    if name not in KEYS:
        raise _unknown(file, "setting", key, KEYS)
    if not _TAKES[name](value):
        problem = f"{key} is {_kind(value)}, and must be {KEYS[name][1]}"
        raise errors.BadSetting(file, problem, key=key)


def _refuse_missing_line(file: str, tables: Tables, role: str) -> None:
    values = merged(tables, role)
    env = values.get("env", {})
    preset = str(values.get("preset"))
    variable, what = _NEEDED.get(preset, ("", ""))
    if variable and isinstance(env, dict) and variable not in env:
        problem = f'agents.{role} has the preset "{preset}", and env.{variable} must say {what}'
        raise errors.BadSetting(file, problem, key=f"agents.{role}.env")


#: Preset -> the variable that it needs, and what that variable says.
_NEEDED = {
    "shell": (SHELL_VARIABLE, "what line it runs"),
    "scripted": (SCRIPT_VARIABLE, "which script it plays"),
}


def _is_command(value: object) -> bool:
    if not isinstance(value, list) or not value or not value[0]:
        return False
    return all(isinstance(word, str) and "\0" not in word for word in value)


def _is_env(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(text, str) and name and "=" not in name and "\0" not in name + text
        for name, text in value.items()
    )


def _is_number(most: int, value: object) -> bool:
    return type(value) is int and 1 <= value <= most


_TAKES: dict[str, Callable[[object], bool]] = {
    "preset": lambda value: value in (*PRESETS, NONE),
    "command": _is_command,
    "timeout_seconds": lambda value: _is_number(MOST_SECONDS, value),
    "tries": lambda value: _is_number(MOST_TRIES, value),
    "env": _is_env,
    "confine": lambda value: value in ("none", "worktree"),
    "writable": lambda value: value == [] or _is_command(value),
    "network": lambda value: type(value) is bool,
}


def _kind(value: object) -> str:
    return "an empty list" if value == [] else format_settings(value)


def _unknown(file: str, kind: str, key: str, known: Iterable[str]) -> errors.BadSetting:
    from tugtool.system import text

    # Compare the names without the beginning that all of them share.
    start, _, name = key.rpartition(".")
    close = text.names(name, known)
    tail = f"; did you mean {start}.{close[0]}?" if close else ""
    return errors.BadSetting(file, f"there is no {kind} {key}{tail}", key=key)
