"""Where every command starts and ends: parse, call one function, print, exit status."""

from __future__ import annotations

import os
import sys

from tugtool import config
from tugtool.cli import output, parse
from tugtool.errors import Bug, Interrupted, NoRepository, TugError, UnsupportedPlatform, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from tugtool.cli.output import Answer, Stream
    from tugtool.cli.parse import Call


def run() -> NoReturn:
    """The `tugcode` command."""
    status = main(sys.argv[1:])
    # Everything is flushed, and taking the interpreter apart costs 0.3 of a bare start.
    os._exit(status)


def main(words: Sequence[str]) -> int:
    """Run one command line and print its answer; the exit status."""
    if list(words) == ["hook", "pre-tool-use"]:
        return _hook()
    as_json = parse.wants_json(words)
    call = parse.parse([])
    try:
        call = parse.parse(words)
        answer = _execute(call)
        if isinstance(answer, output.Stream):
            return _stream(answer, call, as_json)
        _say(answer, call, as_json)
        if answer.after is not None:
            answer.after()
        return answer.status
    except TugError as error:
        return _refuse(error, call, as_json)
    except KeyboardInterrupt:
        return _refuse(Interrupted(), call, as_json)
    except Exception as error:
        damage = _damage(call)
        if damage is None:
            _traceback()
        return _refuse(damage or Bug(error), call, as_json)


def _hook() -> int:
    """For clients, past everything that could end otherwise than with leave or a refusal."""
    try:
        from tugtool.cli import hook
    except BaseException as error:
        output.mention(f"tugcode guard: blocked, because the guard cannot be loaded: {error!r}\n")
        return 2
    return hook.run()


def _say(answer: Answer, call: Call, as_json: bool) -> bool:
    if not as_json:
        return output.say(answer.text())
    document = output.envelope(call.path, answer.status, answer.data, answer.issues)
    return output.say(document + "\n")


def _stream(stream: Stream, call: Call, as_json: bool) -> int:
    """Say one part after the other; being stopped is how most streams end.

    Or that nobody reads any more: without this, one would write to nobody for ever.
    """
    try:
        for part in stream.parts:
            read = output.say(part) if isinstance(part, str) else _say(part, call, as_json)
            if not read:
                break
    except KeyboardInterrupt:
        return Interrupted.exit_status
    return 0 if stream.ended is None else stream.ended()


def _execute(call: Call) -> Answer | Stream:
    if sys.platform not in ("linux", "darwin"):
        raise UnsupportedPlatform(sys.platform)
    call.cwd = _directory(call.cwd)
    if call.help or call.command is None:
        return _help(call)
    _refuse_role(call, config.role())
    # Only the module of the command that runs; importlib itself would cost more.
    module = __import__(f"tugtool.cli.{call.command.module}", fromlist=[call.command.function])
    answer: Answer | Stream = getattr(module, call.command.function)(call)
    return answer


def _refuse_role(call: Call, role: str | None) -> None:
    """Before anything happens: whoever runs under a role may run only what that may."""
    if role is None or call.path in ("version", "hook pre-tool-use"):
        return
    from tugtool.guard import rules
    from tugtool.role_errors import RoleRefused

    known = rules.ROLES.get(role)
    options = [f"--{key.replace('_', '-')}" for key in call.values]
    if known is None or not rules.may_run(known, call.path, options):
        may = "" if known is None else rules.wanted(known)
        raise RoleRefused(call.path, role=role, may=may, known=list(rules.ROLES))


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


def _damage(call: Call) -> TugError | None:
    """What is wrong with the database: values that cannot be there are no bug of ours."""
    from tugtool.cli.place import Place
    from tugtool.state_errors import DatabaseError, DatabaseUnavailable

    try:
        place = Place(call)
        found = place.store.damage() if place.store.exists() else []
    except DatabaseError as error:
        return error
    except Exception:
        return None
    if not found:
        return None
    path = os.path.join(place.repo.root, ".tugtool", "state.db")
    hint = "tugcode state restore --dry-run"
    return DatabaseUnavailable(path, reason=f"is damaged: {found[0]}", name="CORRUPT", hint=hint)


def _refuse(error: TugError, call: Call, as_json: bool) -> int:
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
    except TypeError as wrong:
        # It quotes from the database what cannot be in it, and there is no JSON for that.
        return _refuse(_damage(call) or Bug(wrong), call, as_json)
    return error.exit_status


def _traceback() -> None:
    import traceback

    # An error quotes what people wrote.
    lines = traceback.format_exc().split("\n")
    output.mention("\n".join(output.clean(line) for line in lines))
