"""Where every command starts and ends: parse, call one function, print, exit status."""

from __future__ import annotations

import os
import sys

from tugtool.cli import output, parse
from tugtool.errors import Bug, Interrupted, NoRepository, TugError, UnsupportedPlatform, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from tugtool.cli.output import Answer
    from tugtool.cli.parse import Call


def run() -> NoReturn:
    """The `tugcode` command."""
    status = main(sys.argv[1:])
    # Everything is flushed, and taking the interpreter apart costs 0.3 of a bare start.
    os._exit(status)


def main(words: Sequence[str]) -> int:
    """Run one command line and print its answer; the exit status."""
    as_json = parse.wants_json(words)
    call = parse.parse([])
    try:
        call = parse.parse(words)
        answer = _execute(call)
        if as_json:
            output.say(output.envelope(call.path, answer.status, answer.data, answer.issues) + "\n")
        else:
            output.say(answer.text())
        return answer.status
    except TugError as error:
        return _refuse(error, call, as_json)
    except KeyboardInterrupt:
        return _refuse(Interrupted(), call, as_json)
    except Exception as error:
        _traceback()
        return _refuse(Bug(error), call, as_json)


def _execute(call: Call) -> Answer:
    if sys.platform not in ("linux", "darwin"):
        raise UnsupportedPlatform(sys.platform)
    call.cwd = _directory(call.cwd)
    if call.help or call.command is None:
        return _help(call)
    # Only the module of the command that runs; importlib itself would cost more.
    module = __import__(f"tugtool.cli.{call.command.module}", fromlist=[call.command.function])
    answer: Answer = getattr(module, call.command.function)(call)
    return answer


def _help(call: Call) -> Answer:
    from tugtool.cli import help

    if call.json and not call.help:
        raise Usage("there is no command to run", command=call.path)
    text = help.text(call)
    return output.Answer({"help": text}, lambda: text)


def _directory(name: str) -> str:
    try:
        path = os.path.join(os.getcwd(), name)
    except OSError as error:
        raise NoRepository(".", reason="no longer exists", hint="cd somewhere else") from error
    if not os.path.isdir(path):
        raise Usage(f"-C: there is no directory {path}")
    return os.path.realpath(path)


def _refuse(error: TugError, call: Call, as_json: bool) -> int:
    from tugtool import config

    if config.debug() and error.exit_status != Bug.exit_status:
        _traceback()
    try:
        if as_json:
            command = error.command if isinstance(error, Usage) else call.path
            document = output.envelope(command, error.exit_status, {}, error.issues())
            output.say(document + "\n")
        else:
            output.complain(error)
    except TugError as unwritable:
        # Nobody reads the answer; whoever reads standard error should know.
        output.complain(unwritable)
    return error.exit_status


def _traceback() -> None:
    import traceback

    output.mention(traceback.format_exc())
