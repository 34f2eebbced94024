"""`[agents.ROLE]` of `.tugtool/config.toml`: which command plays which role, and for how long.

Loaded only if the file has such a section, or by whoever starts agents.
"""

from __future__ import annotations

from tugtool.errors import BadSetting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

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
#: Fills what the table of a role leaves out.
DEFAULT = "default"
PRESETS = ("claude", "codex", "gemini", "opencode", "scripted", "shell")
#: The line that the preset `shell` runs; it stands in `env`.
SHELL_VARIABLE = "TUGCODE_AGENT_SHELL"
#: The script that the preset `scripted` plays; it stands in `env` too.
SCRIPT_VARIABLE = "TUGCODE_SCRIPT"
#: A week, and more tries than anybody has patience for.
MOST_SECONDS, MOST_TRIES = 604_800, 100

#: Every key of such a table: its default, what it takes, and what it means.
KEYS: dict[str, tuple[object, str, str]] = {
    "preset": (
        None,
        "one of " + ", ".join(f'"{name}"' for name in PRESETS),
        "a ready-made command",
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
}


class Agent:
    """Who plays a role: a preset or a command, with everything that goes with it."""

    __slots__ = ("command", "env", "preset", "role", "timeout_seconds", "tries")

    def __init__(self, role: str, values: Mapping[str, object]) -> None:
        self.role = role
        self.preset: str | None = _text(values.get("preset"))
        command = values.get("command")
        self.command = tuple(map(str, command)) if isinstance(command, list) else None
        self.timeout_seconds = _number(values, "timeout_seconds")
        self.tries = _number(values, "tries")
        env = values.get("env", {})
        assert isinstance(env, dict)
        self.env: dict[str, str] = dict(env)


Tables = dict[str, dict[str, object]]


def checked(document: object, file: str) -> Tables:
    """The tables of `[agents]`, by role, or the refusal of the first thing wrong in them."""
    if not isinstance(document, dict):
        raise BadSetting(file, f"agents is {_kind(document)}, and must be a section", key="agents")
    for role, table in document.items():
        _check_role(file, role)
        if not isinstance(table, dict):
            problem = f"agents.{role} is {_kind(table)}, and must be a section, [agents.{role}]"
            raise BadSetting(file, problem, key=f"agents.{role}")
        for name, value in table.items():
            _check(file, role, name, value)
        if "preset" in table and "command" in table:
            problem = f"agents.{role} has both preset and command, and must have one of them"
            raise BadSetting(file, problem, key=f"agents.{role}.command")
    tables: Tables = {role: document[role] for role in (DEFAULT, *ROLES) if role in document}
    for role in tables:
        _refuse_missing_line(file, tables, role)
    return tables


def _check_role(file: str, role: str) -> None:
    key = f"agents.{role}"
    if role in KEYS:
        problem = f"{key} must stand in a section: of one role, as [agents.coder], or of all, "
        raise BadSetting(file, f"{problem}[agents.default]", key=key)
    if role not in (*ROLES, DEFAULT):
        raise _unknown(file, "role", key, (*ROLES, DEFAULT))


def agent(tables: Tables, role: str) -> Agent | None:
    """Who plays `role`, if anybody does."""
    values = merged(tables, role)
    return Agent(role, values) if "preset" in values or "command" in values else None


def merged(tables: Tables, role: str) -> dict[str, object]:
    """What holds for a role: its own table, and what it leaves out from that of all."""
    own, shared = tables.get(role, {}), dict(tables.get(DEFAULT, {}))
    if "preset" in own or "command" in own:
        # They are two ways to say one thing: a role's own command replaces everybody's preset.
        shared.pop("preset", None)
        shared.pop("command", None)
    values = {**shared, **own}
    envs = [table["env"] for table in (shared, own) if "env" in table]
    env = {name: value for each in envs if isinstance(each, dict) for name, value in each.items()}
    return {**values, "env": env} if env else values


def rows(tables: Tables, file: str) -> Iterator[dict[str, object]]:
    """Every setting of every role that somebody plays, as `tugcode config` shows them."""
    for role in ROLES:
        values, own = merged(tables, role), tables.get(role, {})
        if agent(tables, role) is None:
            continue
        for name, (default, _, meaning) in KEYS.items():
            if name in ("preset", "command") and name not in values:
                continue
            shared = f"{file} [agents.{DEFAULT}]" if name in values else "default"
            value = values.get(name, default)
            yield {
                "key": f"agents.{role}.{name}",
                # What is in such variables is often secret, and output ends up in logs.
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
        raise BadSetting(file, problem, key=key)


def _refuse_missing_line(file: str, tables: Tables, role: str) -> None:
    values = merged(tables, role)
    env = values.get("env", {})
    preset = str(values.get("preset"))
    variable, what = _NEEDED.get(preset, ("", ""))
    if variable and isinstance(env, dict) and variable not in env:
        problem = f'agents.{role} has the preset "{preset}", and env.{variable} must say {what}'
        raise BadSetting(file, problem, key=f"agents.{role}.env")


#: Preset -> the variable that it cannot do without, and what that says.
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


_TAKES = {
    "preset": lambda value: value in PRESETS,
    "command": _is_command,
    "timeout_seconds": lambda value: _is_number(MOST_SECONDS, value),
    "tries": lambda value: _is_number(MOST_TRIES, value),
    "env": _is_env,
}


def _number(values: Mapping[str, object], name: str) -> int:
    value = values.get(name, KEYS[name][0])
    assert isinstance(value, int)
    return value


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _kind(value: object) -> str:
    # Here, so that the settings of everybody else need not load this module.
    from tugtool.config import shown

    return "an empty list" if value == [] else shown(value)


def _unknown(file: str, kind: str, key: str, known: Iterable[str]) -> BadSetting:
    from tugtool import nearest

    # What all of them begin with would make any two of them look alike.
    start, _, name = key.rpartition(".")
    close = nearest.names(name, known)
    tail = f"; did you mean {start}.{close[0]}?" if close else ""
    return BadSetting(file, f"there is no {kind} {key}{tail}", key=key)
