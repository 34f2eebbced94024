"""The settings: the environment, and `.tugtool/config.toml`.

No other module reads the environment. The TOML reader is imported only if there is a
configuration file.
"""

from __future__ import annotations

import _thread

from tugtool import errors
from tugtool.system import files, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tugtool.system.agent_config import Agent, Tables

CONFIG_PATH = ".tugtool/config.toml"
#: The directory of worktrees, in the main worktree.
TREES_PATH = ".tugtree"
#: In git's directory: a note for each worktree that holds work of a step it lost.
LOST_PATH = "tugtool/lost"
LEVELS = ("lenient", "normal", "strict")
#: Thirty years in seconds, a gigabyte in bytes: beyond it dates and integers overflow.
MOST = 1_000_000_000

#: Git sets these for hooks, and people for unusual set-ups: then only git knows the location.
GIT_LOCATION_VARIABLES = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_CEILING_DIRECTORIES",
)

#: A command that inherits these from a hook would run git on the wrong repository.
_OF_ONE_REPOSITORY = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_PREFIX"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE"),
)

#: Its value finds the processes that an agent has left running.
MARKS_VARIABLE = "TUGCODE_MARKS"
ROLE_VARIABLE = "TUGCODE_ROLE"

#: Per thread: the command at work; `git.command` asks whether it only looks.
mode = _thread._local()


class Setting:
    """One key: its default, the values it takes, and what it means."""

    __slots__ = ("choices", "default", "least", "meaning")

    def __init__(
        self, default: object, meaning: str, *, least: int = 1, choices: tuple[str, ...] = ()
    ) -> None:
        self.default = default
        self.meaning = meaning
        self.least = least
        self.choices = choices

    def expects(self) -> str:
        """The values that are allowed, in words."""
        if self.choices:
            return "one of " + ", ".join(f'"{choice}"' for choice in self.choices)
        return f"a whole number, at least {self.least} and at most {MOST}"

    def takes(self, value: object) -> bool:
        """True if `value` is of the right type and in range."""
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
    "state.busy_seconds": Setting(5, "how long a command waits for one that holds the database"),
    "log.max_lines": Setting(500, "the implementation log is rotated beyond this length"),
    "log.max_bytes": Setting(102400, "the implementation log is rotated beyond this size"),
}
AGENTS = "agents"  # Has a table per role.
SECTIONS = "plan state log implement worktree merge notify serve mcp remote".split()  # noqa: SIM905


def all_settings() -> dict[str, Setting]:
    """Every key; those of runs are loaded only for a run, or for a file that sets them."""
    from tugtool.system import agent_config as runs
    from tugtool.system import serve_config, state_config

    return SETTINGS | state_config.SETTINGS | runs.SETTINGS | serve_config.SETTINGS


class Settings:
    """The settings in force and where each came from."""

    __slots__ = ("_values", "agents", "file")

    def __init__(
        self, values: dict[str, object], file: str | None, agents: Tables | None = None
    ) -> None:
        self._values = values
        self.agents = agents
        self.file = file

    def value(self, key: str) -> object:
        """The value in force for `key`."""
        return self._values.get(key, (SETTINGS.get(key) or all_settings()[key]).default)

    def number(self, key: str) -> int:
        """The whole number in force for `key`."""
        value = self.value(key)
        assert isinstance(value, int)
        return value

    def words(self, key: str) -> list[str]:
        """The list of words in force for `key`."""
        value = self.value(key)
        assert isinstance(value, list)
        return [str(word) for word in value]

    def word(self, key: str) -> str:
        """The word in force for `key`."""
        return str(self.value(key))

    def state_url(self) -> str:
        """The address of a remote state; empty if the state is a file in the repository."""
        at = os.environ.get("TUGCODE_STATE_URL", os.environ.get("TUGCODE_SERVER"))
        return str(self._values.get("state.url", "")) if at is None else at

    def is_set(self, key: str) -> bool:
        """True if the file sets `key`."""
        return key in self._values

    def agent(self, role: str) -> Agent | None:
        """The agent for `role`, if the file names one."""
        if not self.agents:
            return None
        from tugtool.system import agent_config

        return agent_config.agent(self.agents, role)

    def agent_rows(self) -> Iterator[dict[str, object]]:
        """The settings of every role that has an agent, for people to read."""
        if not self.agents:
            return iter(())
        from tugtool.system import agent_config

        return agent_config.rows(self.agents, CONFIG_PATH)


def variable(name: str) -> str | None:
    """The value of a variable that `system.variables` lists."""
    return os.environ.get(name)


def environment() -> Mapping[str, str]:
    """The environment, for starting another program."""
    return os.environ


def command_environment() -> dict[str, str]:
    """The environment of a command in a worktree, without git's location variables."""
    return {name: value for name, value in os.environ.items() if name not in _OF_ONE_REPOSITORY}


def git_location_is_forced() -> bool:
    """True if the environment tells git where its repository is."""
    names = [name for name in GIT_LOCATION_VARIABLES if name in os.environ]
    # Agents get this one from us: it keeps git from finding the main worktree.
    ours = os.environ.get("GIT_CEILING_DIRECTORIES", "").endswith(f"/{TREES_PATH}")
    return bool(names) and not (ours and names == ["GIT_CEILING_DIRECTORIES"])


def attempt_for(plan: str, anchor: str) -> int | None:
    """The caller's attempt, if the environment names this step."""
    value = os.environ.get("TUGCODE_ATTEMPT", "")
    file = plan.rpartition("/")[2]
    slug = file.removesuffix(".md").removeprefix("tugplan-")
    same_step = os.environ.get("TUGCODE_STEP", "").removeprefix("#") == anchor
    same_plan = os.environ.get("TUGCODE_PLAN", plan) in (plan, file, slug)
    if not (same_step and same_plan):
        return None
    if not value.isdecimal():
        # The caller relies on this check, so a bad value is an error.
        raise errors.Usage(
            f'TUGCODE_ATTEMPT is "{value}", and must be the number that claim returned'
        )
    return int(value)


def debug() -> bool:
    """True if refusals show where in the code they arose (TUGCODE_DEBUG)."""
    return os.environ.get("TUGCODE_DEBUG", "") not in ("", "0")


def colour_wanted() -> bool:
    """True if the environment allows colours on a terminal (NO_COLOR, TERM)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


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
    from tugtool.system import toml  # Only to read a file.

    return toml.document_of(CONFIG_PATH, files.text(CONFIG_PATH, files.read(path)))


def _checked(document: dict[str, object]) -> dict[str, object]:
    values: dict[str, object] = {}
    for section, table in document.items():
        if section not in SECTIONS:
            raise _unknown(section, (*SECTIONS, AGENTS), kind="section")
        if not isinstance(table, dict):
            problem = f"{section} is {format_settings(table)}, and must be a section, [{section}]"
            raise errors.BadSetting(CONFIG_PATH, problem, key=section)
        for name, value in table.items():
            key = f"{section}.{name}"
            setting = SETTINGS.get(key) or all_settings().get(key)
            if setting is None:
                raise _unknown(key, all_settings(), kind="setting")
            if not setting.takes(value):
                problem = f"{key} is {format_settings(value)}, and must be {setting.expects()}"
                raise errors.BadSetting(CONFIG_PATH, problem, key=key)
            values[key] = value
    return values


def _checked_agents(document: object) -> Tables | None:
    if document is None:
        return None
    from tugtool.system import agent_config

    return agent_config.check_tables(document, CONFIG_PATH)


def format_settings(value: object) -> str:
    """The value as the file writes it, not as Python prints it."""
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


def _unknown(key: str, known: Iterable[str], *, kind: str) -> errors.BadSetting:
    from tugtool.system import text

    close = text.names(key, known)
    tail = f"; did you mean {close[0]}?" if close else ""
    return errors.BadSetting(CONFIG_PATH, f"there is no {kind} {key}{tail}", key=key)
