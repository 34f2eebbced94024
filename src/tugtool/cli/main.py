"""The entry point: parse the command line, call one function, print, exit."""

from __future__ import annotations

import sys

from tugtool import errors
from tugtool.cli import output, parse
from tugtool.errors import TugError
from tugtool.system import config, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from tugtool.cli.output import Answer, Stream
    from tugtool.cli.parse import Call, Command


def run() -> NoReturn:
    """The `tugcode` command."""
    status = main(sys.argv[1:])
    # All output is flushed; a normal exit would cost 0.3 of a bare start.
    os._exit(status)


def main(words: Sequence[str]) -> int:
    """Run one command line, print its answer, return the exit status."""
    if list(words) == ["hook", "pre-tool-use"]:
        return _hook()
    as_json = wants_json(words)
    call = parse.parse([])
    try:
        call = _parsed(words)
        answer = _execute(call)
        if isinstance(answer, output.Stream):
            return _stream(answer, call, as_json)
        _say(answer, call, as_json)
        trouble = answer.after and answer.after()
        if trouble:
            output.mention(f"tugcode: {output.clean(trouble)}\n")
        return answer.status
    except TugError as error:
        return _refuse(error, call, as_json)
    except KeyboardInterrupt:
        return _refuse(errors.Interrupted(), call, as_json)
    except Exception as error:
        damage = _damage(call)
        if damage is None:
            _traceback()
        return _refuse(damage or errors.Bug(error), call, as_json)
    finally:
        config.mode.call = (False, {})


def wants_json(words: Sequence[str]) -> bool:
    """True if `--json` stands before `--`; errors in parsing need to know."""
    return "--json" in (words[: words.index("--")] if "--" in words else words)


def _hook() -> int:
    """Run the hook directly: it must end with 0 or 2 whatever fails."""
    try:
        from tugtool.cli import agents
    except BaseException as error:
        output.mention(f"tugcode guard: blocked, because the guard cannot be loaded: {error!r}\n")
        return 2
    return agents.run_hook()


def _parsed(words: Sequence[str]) -> Call:
    # Check the platform first: elsewhere the imports of a command may fail.
    if sys.platform not in ("linux", "darwin"):
        raise errors.UnsupportedPlatform(sys.platform)
    return parse.parse(words)


def _say(answer: Answer, call: Call, as_json: bool) -> bool:
    if not as_json:
        return output.say(answer.text())
    document = output.envelope(call.path, answer.status, answer.data, answer.issues)
    return output.say(document + "\n")


def _stream(stream: Stream, call: Call, as_json: bool) -> int:
    """Print one part after the other; most streams end when they are stopped.

    They also end when the reader has gone; otherwise they would write for ever.
    """
    try:
        for part in stream.parts:
            read = output.say(part) if isinstance(part, str) else _say(part, call, as_json)
            if not read:
                break
    except KeyboardInterrupt:
        return errors.Interrupted.exit_status
    return 0 if stream.ended is None else stream.ended()


def _execute(call: Call) -> Answer | Stream:
    call.cwd = _directory(call.cwd)
    if call.help or call.command is None:
        return _help(call)
    _refuse_role(call, config.variable(config.ROLE_VARIABLE))
    return perform(call.command, call)


def perform(command: Command, call: Call) -> Answer | Stream:
    """Run the command's function; the server calls it too."""
    looks = parse.access(command.path) in parse.CHANGING_NOTHING
    config.mode.call, config.mode.looking = (looks, call.values), None
    try:
        return command.function(call)
    except TugError as error:
        if error.code != "E059":
            raise
        from tugtool.cli import next as by_number

        # Nothing was changed. The word may be the number of a step: 3, Step 3.
        return by_number.run_by_number(call, error)


def _refuse_role(call: Call, role: str | None) -> None:
    """Refuse a command that the caller's role may not run."""
    if role is None or call.path in ("version", "hook pre-tool-use", "mcp"):
        return
    from tugtool.agents.guard import rules
    from tugtool.errors.repository import RoleRefused

    known = rules.ROLES.get(role)
    options = [f"--{key.replace('_', '-')}" for key in call.values]
    if known is None or not rules.may_run(known, call.path, options):
        may = "" if known is None else rules.wanted(known)
        raise RoleRefused(call.path, role=role, may=may, known=list(rules.ROLES))


def _help(call: Call) -> Answer:
    from tugtool.cli import help

    if call.json and not call.help:
        raise errors.Usage("there is no command to run", command=call.path)
    text = help.text(call)
    return output.Answer({"help": text}, lambda: text)


def _directory(name: str) -> str:
    try:
        path = os.path.join(os.getcwd(), name)
    except OSError as error:
        raise errors.NoRepository(
            ".", reason="no longer exists", hint="cd somewhere else"
        ) from error
    if not os.path.isdir(path):
        raise errors.Usage(f"-C: there is no directory {path}")
    return os.path.realpath(path)


def _damage(call: Call) -> TugError | None:
    """The refusal for impossible values in the database, which are not a bug in tugcode."""
    from tugtool.errors.state import DatabaseError
    from tugtool.workflow import records

    try:
        return records.damage(call.workspace())
    except DatabaseError as error:
        return error
    except Exception:
        return None


def _refuse(error: TugError, call: Call, as_json: bool) -> int:
    if config.debug() and error.exit_status != errors.Bug.exit_status:
        _traceback()
    try:
        if as_json:
            command = error.command if isinstance(error, errors.Usage) else call.path
            document = output.envelope(command, error.exit_status, {}, error.issues())
            output.say(document + "\n")
        else:
            output.complain(error)
    except TugError as unwritable:
        # The answer has no reader; say it on standard error.
        output.complain(unwritable)
    except TypeError as wrong:
        # It quotes bytes from the database that JSON cannot hold.
        return _refuse(_damage(call) or errors.Bug(wrong), call, as_json)
    return error.exit_status


def _traceback() -> None:
    import traceback

    # The text of an error may quote users.
    lines = traceback.format_exc().split("\n")
    output.mention("\n".join(output.clean(line) for line in lines))
