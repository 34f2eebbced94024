"""The commands: the one source for parsing, help, completion and the reference.

To add a command, add it to the list of its family and write its function in the module
it names. A command that runs loads the lists it is searched in, and no others.
"""

from __future__ import annotations

from tugtool.cli.grammar import Argument, Command, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    COMMANDS: dict[str, Command]

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
    "worktree": "where a plan is carried out: a branch and a directory each",
    "worktree salvage": "work that nobody committed, saved when its step was taken",
    "dash": "small work without a plan",
    "hook": "what agent clients ask by themselves",
    "plugin": "skills and agents for the clients that people use",
}


def find(path: str) -> Command | None:
    """The command with that path, if there is one."""
    if path.startswith("state "):
        # What workers call, hundreds of times an hour.
        from tugtool.cli import table_state

        for command in table_state.COMMANDS:
            if command.path == path:
                return command
    elif path == "commit":
        from tugtool.cli import table_commit

        return table_commit.COMMANDS[0]
    elif " " not in path:
        from tugtool.cli import table_repo

        for command in (*table_repo.FIRST, *table_repo.LAST):
            if command.path == path:
                return command
    return next((command for command in _every() if command.path == path), None)


def visible() -> Iterator[Command]:
    """The commands that people should know about."""
    return (command for command in _every() if not command.hidden)


def _every() -> tuple[Command, ...]:
    """All of them, in the order in which people meet them."""
    from tugtool.cli import (
        table_commit,
        table_dash,
        table_git,
        table_hook,
        table_implement,
        table_look,
        table_merge,
        table_people,
        table_plan,
        table_plugin,
        table_repo,
        table_run,
        table_state,
        table_verify,
    )

    return (
        *table_repo.FIRST,
        *table_plan.COMMANDS,
        *table_look.COMMANDS,
        *table_people.COMMANDS,
        *table_state.COMMANDS,
        *table_verify.COMMANDS,
        *table_run.COMMANDS,
        *table_git.COMMANDS,
        *table_commit.COMMANDS,
        *table_implement.COMMANDS,
        *table_merge.COMMANDS,
        *table_dash.COMMANDS,
        *table_hook.COMMANDS,
        *table_plugin.COMMANDS,
        *table_repo.LAST,
    )


def __getattr__(name: str) -> object:
    if name == "COMMANDS":
        return {command.path: command for command in _every()}
    raise AttributeError(name)
