"""Help texts, made from the command table."""

from __future__ import annotations

from tugtool.cli import table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from tugtool.cli.parse import Call
    from tugtool.cli.table import Command, Option

_WIDTH = 90


def text(call: Call) -> str:
    """Help for what the call names: a command, a group, or everything."""
    if call.command is not None:
        return for_command(call.command)
    return for_group(call.group)


def for_group(group: str) -> str:
    """The commands of a group, or all of them."""
    path = f"{group} " if group else ""
    lines = [f"usage: tugcode {path}COMMAND [...]", ""]
    if not group:
        lines += ["The shared record between coding agents that carry out one plan together.", ""]
    shown = [command for command in table.visible() if command.path.startswith(path)]
    lines += ["commands:", *_rows((command.path, command.summary) for command in shown)]
    options = table.GLOBAL_OPTIONS if group else (*table.GLOBAL_OPTIONS, table.VERSION_OPTION)
    lines += ["", "options:", *_rows(map(_option_row, options))]
    lines += ["", f"`tugcode {path}COMMAND --help` tells more, with examples."]
    return "\n".join(lines) + "\n"


def for_command(command: Command) -> str:
    """Everything the table says about one command."""
    lines = [f"usage: {usage(command)}", "", _sentence(command.summary)]
    if command.description:
        lines += ["", command.description]
    if command.arguments:
        rows = ((argument.metavar, argument.help) for argument in command.arguments)
        lines += ["", "arguments:", *_rows(rows)]
    options = (*command.options, *table.GLOBAL_OPTIONS)
    lines += ["", "options:", *_rows(map(_option_row, options))]
    lines += ["", "examples:"]
    for example, meaning in command.examples:
        lines += [f"  {example}", f"      {meaning}"]
    return "\n".join(lines) + "\n"


def usage(command: Command) -> str:
    """The usage line of a command."""
    words = ["tugcode", command.path, *(argument.metavar for argument in command.arguments)]
    words += [f"[{option_form(option)}]" for option in command.options]
    return " ".join(words)


def option_form(option: Option) -> str:
    """An option as one writes it."""
    value = "|".join(option.choices) or option.metavar
    return f"{option.name} {value}".strip()


def _option_row(option: Option) -> tuple[str, str]:
    form = option_form(option)
    return (f"{option.short}, {form}" if option.short else form), option.help


def _sentence(summary: str) -> str:
    return f"{summary[0].upper()}{summary[1:]}."


def _rows(rows: Iterable[tuple[str, str]]) -> list[str]:
    pairs = list(rows)
    indent = min(max(len(left) for left, _ in pairs), 30) + 4
    lines = []
    for left, right in pairs:
        first, *rest = _wrapped(right, _WIDTH - indent)
        if len(left) + 4 > indent:
            lines.append(f"  {left}")
            left = ""
        lines.append(f"  {left}".ljust(indent) + first)
        lines += [" " * indent + line for line in rest]
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    # textwrap would import `re`; help is measured against the bare interpreter.
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
