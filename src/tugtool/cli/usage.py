"""The refusals of a command line: unknown words, missing and wrong values, the closest names."""

from __future__ import annotations

from tugtool import errors
from tugtool.cli import help, parse
from tugtool.system import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tugtool.cli.parse import Argument, Call, Option


def _unknown_command(call: Call, word: str) -> errors.Usage:
    problem = f'there is no command "{f"{call.path} {word}".strip()}"'
    close = _close_commands(call.path, word)
    return errors.Usage(problem, command=call.path, close=close)


def _close_commands(group: str, word: str) -> list[str]:
    """The commands of the group that are closest to an unknown word."""
    depth = len(group.split())
    prefix = f"{group} " if group else ""
    paths = [path.split() for path in parse.FAMILIES if path.startswith(prefix)]
    known = {path[depth]: None for path in paths} | (
        {} if group else dict.fromkeys(help.short_names())
    )
    if close := text.names(word, known):
        return close
    # `tugcode graph` means `tugcode plan graph`.
    lasts = {path.split()[-1]: None for path in parse.FAMILIES}
    (last,) = text.names(word, lasts, most=1) or [""]
    return [path for path in parse.FAMILIES if path.split()[-1] == last]


def _unknown_option(call: Call, name: str, options: Sequence[Option]) -> errors.Usage:
    close = text.names(name, (known.name for known in options))
    return errors.Usage(f'there is no option "{name}"', command=call.path, close=close)


def _wrong_choice(call: Call, what: str, value: str, choices: Sequence[str]) -> errors.Usage:
    problem = f'{what} takes {", ".join(choices)}, not "{value}"'
    close = text.names(value, choices, most=1)
    return errors.Usage(problem, command=call.path, close=close)


def _missing(call: Call, argument: Argument) -> errors.Usage:
    problem = f"{call.path} needs {help.argument_form(argument)}: {argument.help}"
    return errors.Usage(problem, command=call.path)


#: Each takes the call so far, and its facts.
REFUSALS: dict[str, Callable[..., errors.Usage]] = {
    "command": _unknown_command,
    "option": _unknown_option,
    "choice": _wrong_choice,
    "missing": _missing,
}
