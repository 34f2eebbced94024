"""What is set: the environment, and `.tugtool/config.toml`.

No other module reads the environment. Without a configuration file nothing is paid for
one: the TOML reader is imported only when the file exists.
"""

from __future__ import annotations

import os

from tugtool import files
from tugtool.errors import BadSetting, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tugtool.agent_settings import Agent, Tables

CONFIG_PATH = ".tugtool/config.toml"
#: Where worktrees lie, at the root of the main one.
TREES_PATH = ".tugtree"
LEVELS = ("lenient", "normal", "strict")
#: Thirty years in seconds, a gigabyte in bytes: beyond it dates and integers overflow.
MOST = 1_000_000_000

#: Set by git for its hooks, or by people with unusual set-ups: then only git knows.
GIT_LOCATION_VARIABLES = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_CEILING_DIRECTORIES",
)

#: By which an agent's processes are found when it has ended; it means nothing else.
MARKS_VARIABLE = "TUGCODE_MARKS"
ROLE_VARIABLE = "TUGCODE_ROLE"

#: Every variable that changes what Tugtool does.
VARIABLES = {
    "NO_COLOR": "not empty: no colours, also on a terminal",
    "TERM": "`dumb`: no colours, pictures in ASCII, `--watch` prints one below the other; `linux`: "
    "pictures in ASCII",
    "COLUMNS": "how wide to write, instead of the terminal's width",
    "TUGCODE_DEBUG": "set to 1: errors show where in the code they arose",
    "TUGCODE_ATTEMPT": "the attempt a worker runs under, as `--attempt`; counts only for the step "
    "that TUGCODE_STEP names",
    "TUGCODE_STEP": "the step that TUGCODE_ATTEMPT belongs to",
    "TUGCODE_PLAN": "the plan that TUGCODE_ATTEMPT belongs to; any if not set",
    "TUGCODE_ROLE": "the role that whoever calls plays; it may run only what docs/guard.md says",
    "TUGCODE_CRASH_AT": "for tests: the name of a point (docs/crash-points.md) at which the "
    "process kills itself, as `kill -9` would, or waits",
    "TUGCODE_SCRIPT_LOG": "for tests: where the scripted agent writes down how often it was called",
    "CLAUDE_CONFIG_DIR": "as for Claude Code: `doctor` looks there for the plugin",
    "CODEX_HOME": "as for Codex: `doctor` looks there for the plugin",
    "GIT_DIR": "as for git; then git itself is asked where the repository is",
    "GIT_WORK_TREE": "as for git",
    "GIT_COMMON_DIR": "as for git",
    "GIT_CEILING_DIRECTORIES": "as for git",
}


class Setting:
    """One key: its default, the values it takes, and what it means."""

    __slots__ = ("choices", "default", "least", "meaning")

    def __init__(
        self, default: int | str, meaning: str, *, least: int = 1, choices: tuple[str, ...] = ()
    ) -> None:
        self.default = default
        self.meaning = meaning
        self.least = least
        self.choices = choices

    def expects(self) -> str:
        """What a value must be, in words."""
        if self.choices:
            return "one of " + ", ".join(f'"{choice}"' for choice in self.choices)
        return f"a whole number, at least {self.least} and at most {MOST}"

    def takes(self, value: object) -> bool:
        """Whether `value` is of the right type and in range."""
        if self.choices:
            return value in self.choices
        return type(value) is int and self.least <= value <= MOST


SETTINGS = {
    "plan.validation_level": Setting(
        "lenient",
        "how strictly a plan is judged before it is carried out; `validate` has its own option",
        choices=LEVELS,
    ),
    "plan.max_bytes": Setting(8388608, "larger plan files are refused"),
    "state.lease_seconds": Setting(7200, "how long a claim lasts without a sign of life"),
    "state.max_attempts": Setting(5, "claims without progress before a step is parked"),
    "state.busy_seconds": Setting(5, "how long a command waits for one that keeps the database"),
    "log.max_lines": Setting(500, "the implementation log is rotated beyond this length"),
    "log.max_bytes": Setting(102400, "the implementation log is rotated beyond this size"),
    "implement.workers": Setting(1, "how many steps `implement` works on at the same time"),
    "implement.lease_seconds": Setting(600, "how long its claims last without a sign of life"),
    "implement.review_rounds": Setting(3, "how often a reviewer may ask for changes to a step"),
    "implement.budget_tokens": Setting(
        0, "no step is begun once the agents have used as many tokens; 0 sets no limit", least=0
    ),
}
#: Has a table per role, which `agent_settings` knows.
AGENTS = "agents"
SECTIONS = (*dict.fromkeys(key.partition(".")[0] for key in SETTINGS), AGENTS)


class Settings:
    """The settings in force and where each came from."""

    __slots__ = ("_agents", "_values", "file")

    def __init__(
        self, values: dict[str, object], file: str | None, agents: Tables | None = None
    ) -> None:
        self._values = values
        self._agents = agents
        self.file = file

    def value(self, key: str) -> object:
        """What is in force for `key`."""
        return self._values.get(key, SETTINGS[key].default)

    def number(self, key: str) -> int:
        """The whole number in force for `key`."""
        value = self.value(key)
        assert isinstance(value, int)
        return value

    def word(self, key: str) -> str:
        """The word in force for `key`."""
        return str(self.value(key))

    def is_set(self, key: str) -> bool:
        """Whether the file, and not the default, decides about `key`."""
        return key in self._values

    def agent(self, role: str) -> Agent | None:
        """Who plays `role`, if the file says so."""
        if not self._agents:
            return None
        from tugtool import agent_settings

        return agent_settings.agent(self._agents, role)

    def agent_rows(self) -> Iterator[dict[str, object]]:
        """What is set for the roles that somebody plays, for people to look at."""
        if not self._agents:
            return iter(())
        from tugtool import agent_settings

        return agent_settings.rows(self._agents, CONFIG_PATH)


def environment() -> Mapping[str, str]:
    """The environment, for whoever starts another program."""
    return os.environ


def marked(given: Mapping[str, str] | None, mark: str) -> dict[str, str]:
    """An environment whose processes can be told by the mark; those of others stay in it."""
    env = dict(environment() if given is None else given)
    env[MARKS_VARIABLE] = f"{env.get(MARKS_VARIABLE, '')} {mark}".strip()
    return env


def git_location_is_forced() -> bool:
    """Whether the environment tells git where its repository is."""
    names = [name for name in GIT_LOCATION_VARIABLES if name in os.environ]
    # As agents have it from us: only that what lies among worktrees is not the main one.
    ours = os.environ.get("GIT_CEILING_DIRECTORIES", "").endswith(f"/{TREES_PATH}")
    return bool(names) and not (ours and names == ["GIT_CEILING_DIRECTORIES"])


def has_attempt() -> bool:
    """Whether the environment names an attempt at all (TUGCODE_ATTEMPT)."""
    return "TUGCODE_ATTEMPT" in os.environ


def attempt_for(plan: str, anchor: str) -> int | None:
    """The attempt the caller runs under, if the environment speaks of this very step."""
    value = os.environ.get("TUGCODE_ATTEMPT", "")
    file = plan.rpartition("/")[2]
    slug = file.removesuffix(".md").removeprefix("tugplan-")
    same_step = os.environ.get("TUGCODE_STEP", "").removeprefix("#") == anchor
    same_plan = os.environ.get("TUGCODE_PLAN", plan) in (plan, file, slug)
    if not (same_step and same_plan):
        return None
    if not value.isdecimal():
        # To ignore it would be to work without the fence that somebody relies on.
        raise Usage(f'TUGCODE_ATTEMPT is "{value}", and must be the number that claim returned')
    return int(value)


def role() -> str | None:
    """The role that the caller plays, if any (TUGCODE_ROLE); empty is one that nobody knows."""
    return os.environ.get("TUGCODE_ROLE")


def client_directories() -> tuple[str, str]:
    """Where Claude Code and Codex keep what is theirs."""
    home = os.path.expanduser("~")
    claude = os.environ.get("CLAUDE_CONFIG_DIR", "") or os.path.join(home, ".claude")
    codex = os.environ.get("CODEX_HOME", "") or os.path.join(home, ".codex")
    return claude, codex


def has_home(variable: str) -> bool:
    """Whether somebody has said where a client keeps what is its own, by that name or by HOME."""
    return any(os.environ.get(name) for name in ("HOME", variable))


def plan_of_worker() -> str:
    """The plan that the caller works on (TUGCODE_PLAN), or nothing."""
    return os.environ.get("TUGCODE_PLAN", "")


def login_name() -> str:
    """Who the system says the person is; no variable can claim to be another."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        # A container may run under a number that nobody has.
        return f"user {os.getuid()}"


def crash_point() -> str | None:
    """Where the process is to kill itself or to wait (TUGCODE_CRASH_AT)."""
    return os.environ.get("TUGCODE_CRASH_AT")


def script_log() -> str | None:
    """Where the scripted agent writes down its calls (TUGCODE_SCRIPT_LOG)."""
    return os.environ.get("TUGCODE_SCRIPT_LOG")


def debug() -> bool:
    """Whether refusals show where in the code they arose (TUGCODE_DEBUG)."""
    return os.environ.get("TUGCODE_DEBUG", "") not in ("", "0")


def colour_wanted() -> bool:
    """Whether the environment allows colours on a terminal (NO_COLOR, TERM)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def terminal() -> str:
    """The kind of terminal (TERM), or nothing."""
    return os.environ.get("TERM", "")


def columns() -> int | None:
    """The width a person asked for (COLUMNS), if any."""
    value = os.environ.get("COLUMNS", "")
    return int(value) if value.isdecimal() and len(value) < 6 and int(value) > 0 else None


def load(root: str) -> Settings:
    """The settings of the repository at `root`."""
    path = os.path.join(root, CONFIG_PATH)
    if not os.path.lexists(path):
        return Settings({}, None)
    document = _toml(path)
    agents = document.pop(AGENTS, None)
    return Settings(_checked(document), CONFIG_PATH, _checked_agents(agents))


def _toml(path: str) -> dict[str, object]:
    # 15 to 20 % of a bare start, so only where there is a file to read.
    import tomllib

    text = files.text(CONFIG_PATH, files.read(path))
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        # Beside its own error: an integer of 5000 digits, a thousand nested lists.
        line = _line_in(str(error))
        raise BadSetting(CONFIG_PATH, f"is not TOML: {error}", line=line) from error


def _line_in(message: str) -> int | None:
    # "Expected '=' after a key (at line 3, column 5)"; newer Pythons only add attributes.
    number = message.rpartition("(at line ")[2].partition(",")[0]
    return int(number) if number.isdecimal() else None


def _checked(document: dict[str, object]) -> dict[str, object]:
    values: dict[str, object] = {}
    for section, table in document.items():
        if section not in SECTIONS:
            raise _unknown(section, SECTIONS, kind="section")
        if not isinstance(table, dict):
            problem = f"{section} is {shown(table)}, and must be a section, [{section}]"
            raise BadSetting(CONFIG_PATH, problem, key=section)
        for name, value in table.items():
            key = f"{section}.{name}"
            setting = SETTINGS.get(key)
            if setting is None:
                raise _unknown(key, SETTINGS, kind="setting")
            if not setting.takes(value):
                problem = f"{key} is {shown(value)}, and must be {setting.expects()}"
                raise BadSetting(CONFIG_PATH, problem, key=key)
            values[key] = value
    return values


def _checked_agents(document: object) -> Tables | None:
    if document is None:
        return None
    from tugtool import agent_settings

    return agent_settings.checked(document, CONFIG_PATH)


def shown(value: object) -> str:
    """The value as the file has it, not as Python would print it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, int) and abs(value) > MOST:
        return "out of range"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, dict):
        return "a section"
    return "a list" if isinstance(value, list) else "a date or time"


def _unknown(key: str, known: Iterable[str], *, kind: str) -> BadSetting:
    from tugtool import nearest

    close = nearest.names(key, known)
    tail = f"; did you mean {close[0]}?" if close else ""
    return BadSetting(CONFIG_PATH, f"there is no {kind} {key}{tail}", key=key)
