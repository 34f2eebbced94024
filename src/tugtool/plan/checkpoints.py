"""The kind of a checkpoint, the commands that it names, and their expected outcome.

Real plans put the command first (`make test` passes), and mention files, names and commands
for other reasons everywhere else. So only these commands count: at the start of the text,
after a leading "Run", and at the end of the text after a colon.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from tugtool.plan.model import Plan

#: The proof of a checkpoint: a command that passes, the reviewer's verdict, or a person.
COMMAND, JUDGEMENT, PERSON = "command", "judgement", "person"
#: The expected outcomes of commands; each includes exit status 0.
SUCCESS, NO_OUTPUT, FAILURE = "success", "no_output", "failure"

#: The reasons why a checkpoint is not run, in words.
REASONS = {
    "no_command": "it names no command",
    "person": "only a person may complete it",
    "manual": "it says that it is done by hand",
    "placeholder": "a command has a placeholder in it",
    "elsewhere": "its words name another directory to run in (`cd DIR && ...` would do it)",
    "alternatives": "it names alternatives",
    "unprintable": "a command has a control character or an invisible one in it",
}

_PERSON_MARKS = ("(person)", "(manual)")
_LEADS = ("", "run", "running", "execute")
#: The words between commands that all have to succeed.
_JOINTS = ("", "and", "then", "and then", "plus")
_MARKUP = " \t*_"
#: The marks between a command and its expected outcome; dashes of all lengths.
_LINK = "*_,:)-\u2013\u2014 "

_TICKS = re.compile("`+")
_PLACEHOLDER = re.compile(r"<[A-Za-z][\w .-]{0,60}>")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_MANUAL = re.compile(r"\bmanual(?:ly)?\b|\bby hand\b", re.IGNORECASE)
_FILLER = r"(?:(?:now|still|all|both|each|also|then|must|should|will) )*"
_STATUS = r"exits? (?:with )?(?:status |code )?"
_SUCCEEDS = (
    rf"{_FILLER}(?:pass(?:es|ed)?|succeed(?:s|ed)?|{_STATUS}0|(?:is |are )?(?:clean|green|ok)"
    r"|works?|runs?|completes?|builds?|compiles?)\b"
)
_SUCCESS = re.compile(rf"{_SUCCEEDS}|$")
_FAILURE = re.compile(
    rf"{_FILLER}(?:fail(?:s|ed)?|errors?|is refused|{_STATUS}(?:[1-9]\d*|non-?zero))\b"
)
_NO_OUTPUT = re.compile(
    r"\b(?:no|zero|0) (?:match(?:es)?|results?|hits?|output|occurrences?|references?|lines?)\b"
    r"|\bnothing\b|\bempty\b(?! \w)|\bno such file\b"
)
_ELSEWHERE = re.compile(rf"(?:{_SUCCEEDS} )?(?:in|from|inside) (?:the )?`?[\w.-][\w./-]*/(?![\w])")
_CLAUSE_END = re.compile(r"[(;—]|\. | -- ")


class Reading(NamedTuple):
    """The commands of a checkpoint, or the reason why it is not run."""

    commands: list[str]
    expects: str = SUCCESS
    #: A key of `REASONS`; None if the commands are to be run.
    reason: str | None = None


def kind_of(text: str) -> str:
    """The kind of a checkpoint: a command, the reviewer or a person completes it."""
    if is_for_person(text):
        return PERSON
    found = read(text)
    # Exit status 0 cannot prove that something fails, so the reviewer judges it.
    is_provable = found.reason is None and found.expects != FAILURE
    return COMMAND if is_provable else JUDGEMENT


def is_for_person(text: str) -> bool:
    """True if a checkpoint ends in `(person)` or `(manual)`."""
    return text.rstrip(_MARKUP + ".!").lower().endswith(_PERSON_MARKS)


def read(text: str) -> Reading:
    """The commands that a checkpoint asks for."""
    if is_for_person(text):
        return Reading([], reason="person")
    pieces, tail = spans(text)
    commands, after = _leading(pieces, tail)
    if not commands:
        commands, after = _trailing(pieces, tail)
    words = " ".join(after.lower().split()).lstrip(_LINK).rstrip("*_.! ")
    if not commands or not _are_commands(commands, words):
        return Reading([], reason="no_command")
    prose = " ".join([before for before, _ in pieces] + [tail])
    return Reading(commands, expects=_expected(words), reason=_obstacle(commands, words, prose))


def commands_of(plan: Plan) -> list[str]:
    """The commands that a plan's checkpoints run, each once."""
    items = (item for step in plan.every_step() for item in step.items)
    return commands_in(item.text for item in items if item.kind == "checkpoint")


def commands_in(texts: Iterable[str]) -> list[str]:
    """The commands that checkpoints with these texts run, each once."""
    readings = [each for each in map(read, texts) if each.reason is None]
    return list(dict.fromkeys(line for each in readings for line in each.commands))


def spans(text: str) -> tuple[list[tuple[str, str]], str]:
    """The code spans, each with the prose before it, and the prose after the last.

    As in CommonMark, the next run of the same length closes a run of backticks. A backslash
    escapes the first backtick, but not inside a span.
    """
    runs = [match.span() for match in _TICKS.finditer(text)]
    lengths: dict[int, list[int]] = {}
    for number, (start, end) in enumerate(runs):
        lengths.setdefault(end - start, []).append(number)
    found: list[tuple[str, str]] = []
    place = number = 0
    while number < len(runs):
        start, end = runs[number]
        start += _is_escaped(text, start, place)
        same = lengths.get(end - start, [])
        closing = bisect_right(same, number)
        if closing == len(same):
            number += 1
            continue
        number = same[closing] + 1
        closed, after = runs[number - 1]
        code = text[end:closed].replace("\n", " ")
        padded = len(code) > 2 and code[0] == code[-1] == " " and code.strip(" ")
        found.append((text[place:start], code[1:-1] if padded else code))
        place = after
    return found, text[place:]


def _is_escaped(text: str, start: int, place: int) -> bool:
    first = start
    while first > place and text[first - 1] == "\\":
        first -= 1
    return (start - first) % 2 == 1


def _leading(pieces: list[tuple[str, str]], tail: str) -> tuple[list[str], str]:
    """The commands at the start of the text, and the text after them."""
    if not pieces or pieces[0][0].strip(_MARKUP + ":").lower() not in _LEADS:
        return [], ""
    commands = [pieces[0][1]]
    for joint, code in pieces[1:]:
        if not _is_joint(joint):
            break
        commands.append(code)
    rest = "".join(f"{before}`{code}`" for before, code in pieces[len(commands) :])
    return commands, rest + tail


def _trailing(pieces: list[tuple[str, str]], tail: str) -> tuple[list[str], str]:
    """The commands at the end of the text after a colon: "all tests pass: `make test`"."""
    if tail.strip(_MARKUP + ".)"):
        return [], ""
    for number in range(len(pieces) - 1, -1, -1):
        before = pieces[number][0]
        if before.rstrip(_MARKUP).endswith(":"):
            codes = [code for _, code in pieces[number:]]
            # A single word there is usually a name: "the field is called: `name`".
            return (codes if all(len(code.split()) > 1 for code in codes) else []), ""
        if not _is_joint(before):
            break
    return [], ""


def _is_joint(prose: str) -> bool:
    return prose.lower().strip(_MARKUP + ",;+&") in _JOINTS


def _are_commands(commands: list[str], words: str) -> bool:
    """True if all are commands; a single word, such as `make`, only if the text expects success."""
    succeeds = _SUCCESS.match(words) or _FAILURE.match(words)
    return all(_may_run(code) and (succeeds or len(code.split()) > 1) for code in commands)


def _may_run(code: str) -> bool:
    # A comment or an assignment does nothing, and its exit status is 0.
    return (
        code.strip() != ""
        and code.lstrip()[0] not in "#-<>"
        and not all(_ASSIGNMENT.match(word) for word in code.split())
    )


def _expected(words: str) -> str:
    if _FAILURE.match(words):
        return FAILURE
    clause = _CLAUSE_END.split(words, maxsplit=1)[0]
    return NO_OUTPUT if _NO_OUTPUT.search(clause) else SUCCESS


def _obstacle(commands: list[str], words: str, prose: str) -> str | None:
    if not all(code.isprintable() for code in commands):
        return "unprintable"
    if any(_PLACEHOLDER.search(code) for code in commands):
        return "placeholder"
    if _MANUAL.search(prose):
        return "manual"
    if words.startswith(("or ", "/")):
        return "alternatives"
    return "elsewhere" if _ELSEWHERE.match(words) else None
