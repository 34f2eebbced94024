"""trust: see what the files of a repository would run, and say whether they may."""

from __future__ import annotations

import sys

from tugtool.cli import output
from tugtool.cli.output import Answer, clean
from tugtool.cli.parse import Argument, Call, Command, Option
from tugtool.errors import TugError, Usage
from tugtool.errors.state import PeopleOnly
from tugtool.git import discover
from tugtool.system import config, os
from tugtool.workflow import trust as operation
from tugtool.workflow.trust_question import TrustQuestion, no_question

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeVar

    from tugtool.schemas import Trust, TrustCommand

    T = TypeVar("T")

#: More commands than a person reads at once.
_MOST_SHOWN = 60
#: Of several roles with the same command, so many are named if there are that many others.
_NAMED, _FEWEST_OTHERS = 2, 2
_QUESTION = "Trust this repository: may its files do this here, as you?"
_NOTHING = "Its files name no command yet. If its settings do later, you are asked again."


def trust(call: Call) -> Answer:
    """Show what would run; record, revoke or list this user's answers."""
    if config.variable("TUGCODE_ATTEMPT") is not None:
        raise PeopleOnly("trust", hint="tugcode status")
    if sum(map(call.flag, ("yes", "revoke", "list"))) > 1:
        raise Usage("--yes, --revoke and --list exclude each other", command=call.path)
    if call.text("path") is not None and not call.flag("revoke"):
        raise Usage("a path goes with --revoke", command=call.path)
    if call.flag("revoke"):
        return _revoked(call)
    if call.flag("list"):
        return _listing(call)
    question = TrustQuestion(call.cwd)
    data = question.describe()
    if data["trusted"] and not call.flag("yes"):
        return Answer(data, lambda: output.lines([*_commands(data), _state(data)]))
    _agree(call, question, data)
    data = TrustQuestion(call.cwd).describe()
    if data["changed"]:
        # The plans of a shared record can be read only now.
        question = TrustQuestion(call.cwd)
        _agree(call, question, data)
        data = question.describe()
    # What --yes has agreed to; the others have seen it already.
    shown = [*_commands(data)] if call.flag("yes") else []
    said = [*shown, _state(data)]
    return Answer(data, lambda: output.lines(said), status=int(not data["trusted"]))


def _revoked(call: Call) -> Answer:
    """Forget the answer for a repository, also for one that is gone or whose settings are wrong."""
    named = os.path.join(call.cwd, call.text("path") or "")
    root = discover(named).root if os.path.isdir(named) else os.path.abspath(named)
    gone = operation.revoke(root)
    said = f"{root} {'is not trusted any more' if gone else 'was not trusted'}"
    return Answer(no_question(root), lambda: output.lines([said]))


def _listing(call: Call) -> Answer:
    """List the answers, also outside of a repository and in one whose settings are wrong."""
    try:
        data = TrustQuestion(call.cwd).describe()
    except TugError:
        data = no_question(None)
    data["repositories"] = operation.listed()
    return Answer(data, lambda: output.lines(_listed(data)))


def _agree(call: Call, question: TrustQuestion, data: Trust) -> None:
    """Record the answer: by --yes, or of the person at the terminal."""
    if call.flag("yes"):
        question.answer(trusted=True)
        return
    if not call.json:
        output.mention(output.lines(_commands(data)))
    if call.json or not output.on_terminal(sys.stdin, sys.stderr):
        problem = "no terminal to ask on; --list --json shows what would run, and --yes agrees"
        raise Usage(problem, command=call.path)
    question.answer(trusted=output.agreed(_QUESTION))


def ask_once(cwd: str) -> None:
    """Ask the person at the terminal, unless the answer for these settings is known."""
    question = TrustQuestion(cwd)
    if not (question.is_trusted() or question.is_answered()):
        output.mention(output.lines(_commands(question.describe())))
        question.answer(trusted=output.agreed(_QUESTION))


def _state(data: Trust) -> str:
    if data["trusted"]:
        return f"{data['root']} is trusted"
    return f"{data['root']} is not trusted: nothing of it runs"


def _listed(data: Trust) -> Iterator[str]:
    if operation.by_environment():
        yield "TUGCODE_TRUST=1 trusts every repository"
    elif not data["repositories"]:
        yield "you trust no repository"
    for each in data["repositories"]:
        if each["reason"]:
            yield f"changed  {clean(each['root'])}: {clean(each['reason'])}"
        else:
            yield f"{'trusted' if each['trusted'] else 'refused'}  {clean(each['root'])}"


def _commands(data: Trust) -> Iterator[str]:
    """Every command with its source, the program that is found, and its variables."""
    yield f"The files of {clean(str(data['root']))} can run:"
    if not data["commands"]:
        yield f"  nothing. {_NOTHING}"
    same = _together((each["source"], tuple(_command(each))) for each in data["commands"])
    for source, (line, *more) in same[:_MOST_SHOWN]:
        yield f"  {source}: {line}"
        yield from more
    rest = len(same) - _MOST_SHOWN
    if rest > 0:
        yield f"  and {rest} more, which --json lists"
    if data["settings"]:
        yield "Its settings also decide:"
    for source, value in _together((each["source"], each["value"]) for each in data["settings"]):
        yield f"  {source}: {clean(value, 400)}"
    if data["changed"]:
        yield f"Changed since you trusted it: {clean(', '.join(data['changed']), 400)}"


def _command(each: TrustCommand) -> Iterator[str]:
    found = f"  ({clean(each['program'])})" if each["program"] else ""
    yield f"{clean(each['command'], 400)}{found}"
    for name, value in each["variables"].items():
        yield f"      {clean(name)}={clean(value, 200)}"


def _together(pairs: Iterable[tuple[str, T]]) -> list[tuple[str, T]]:
    """Join the sources that say the same, such as all roles of `[agents.default]`."""
    found: dict[T, list[str]] = {}
    for source, said in pairs:
        found.setdefault(said, []).append(clean(source))
    return [(_named(sources), said) for said, sources in found.items()]


def _named(sources: list[str]) -> str:
    rest = len(sources) - _NAMED
    if rest < _FEWEST_OTHERS:
        return ", ".join(sources)
    return f"{', '.join(sources[:_NAMED])} and {rest} other roles"


COMMANDS = (
    Command(
        "trust",
        trust,
        """\
A repository is its authors' text until you say otherwise. Commands that its files name run only
after you have trusted it: agents, worktree.setup, merge.check, notify.command, and the commands of
checkpoints. The same goes for addresses: state.url, remote.name, and how `serve` listens.
`tugcode trust` shows all of them and asks. The answer is yours alone and is kept outside of the
repository (docs/use/trust.md). It holds for this repository until one of these settings changes or
a plan has other commands; those of a plan that you record yourself (state init, plan accept) are
taken as seen. Commands that only look need it if the settings name another place for the state,
and for nothing else. In a script or a container, TUGCODE_TRUST=1 trusts every repository.""",
        (
            Argument("[path]", "with --revoke: the repository, if it is not this one"),
            Option("--yes", "trust it without a question"),
            Option("--revoke", "do not trust it any more"),
            Option("--list", "list the repositories that you have answered for"),
        ),
        examples="""\
tugcode trust  # see what would run, and say yes or no
tugcode trust --yes  # in a script, for a repository that you wrote
tugcode trust --revoke  # nothing of it runs any more
tugcode trust --revoke ~/old  # also if that directory is gone
tugcode trust --list  # which repositories do you trust?""",
    ),
)
