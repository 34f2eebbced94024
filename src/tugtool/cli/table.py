"""The commands: the one source for parsing, help, completion and the reference.

To add a command, add it to the list of its family and write its function in the module
it names.
"""

from __future__ import annotations

from tugtool.cli import table_plan, table_repo, table_state
from tugtool.cli.grammar import Argument, Command, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "COMMANDS",
    "GLOBAL_OPTIONS",
    "GROUPS",
    "VERSION_OPTION",
    "Argument",
    "Command",
    "Option",
]

#: Taken anywhere on the command line before `--`.
GLOBAL_OPTIONS = (
    Option("--json", "", "print one JSON document instead of text"),
    Option("--directory", "DIR", "run as if started in DIR", kind="directory", short="-C"),
    Option("--help", "", "show help and exit", short="-h"),
)

#: Taken instead of a command.
VERSION_OPTION = Option("--version", "", "the same as `tugcode version`")

GROUPS = {
    "plan": "write plans and look at what they mean",
    "state": "carry a plan out, step by step",
}

_COMMANDS = (
    *table_repo.FIRST,
    *table_plan.COMMANDS,
    *table_state.COMMANDS,
    *table_repo.LAST,
)

COMMANDS = {command.path: command for command in _COMMANDS}


def visible() -> Iterator[Command]:
    """The commands that people should know about."""
    return (command for command in _COMMANDS if not command.hidden)
