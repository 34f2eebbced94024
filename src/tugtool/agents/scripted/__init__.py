"""An agent that plays a script: reproducible runs without a model.

`python -m tugtool.agents.scripted SCRIPT`. It is a separate program, like any agent: nothing
else imports it, and docs/reference/agents.md describes the script.
This module reads the rules of a script, and counts the calls.
"""

from __future__ import annotations

import os

from tugtool.agents.scripted import acts, replies
from tugtool.errors import FileError
from tugtool.system import config, files, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    Rule = dict[str, object]


#: Facts about the call that a rule may require.
ASKED = ("role", "step", "attempt", "round", "try", "call", "conflict")
#: Other fields of a rule.
SAID = (
    *("times", "do", "answer", "omit", "verdicts", "under_report"),
    *("as", "usage", "prose", "rubbish", "status"),
)
#: The actions; each entry of `do` has one of them.
ACTS = tuple(acts.VERBS)
#: The options of each action.
BESIDE = {"write": ("text",), "append": ("text",), "run": ("may_fail",), "spawn": ("own_group",)}
FORMS = (*replies.BARE, *replies.CLIS)


class BadScript(Exception):
    """The script or the input is invalid; the message says why."""


class ScriptCall:
    """One call of the agent: its input, and its number."""

    __slots__ = ("facts", "given")

    def __init__(self, given: dict[str, object]) -> None:
        self.given = given
        #: The facts that rules require, by the names that rules use.
        self.facts: dict[str, object] = {
            "role": given.get("role"),
            "step": given.get("step_anchor"),
            "attempt": given.get("attempt"),
            "round": given.get("round", 1),
            "conflict": given.get("conflict") is not None,
        }

    def filled(self, text: str) -> str:
        """`text` with the facts in place of `{step}`, `{round}` ...; other braces stay."""
        for name, value in self.facts.items():
            text = text.replace("{" + name + "}", "" if value is None else str(value))
        return text


def load(path: str) -> list[Rule]:
    """The rules of the script at `path`, TOML or JSON by its name."""
    try:
        document = _document(path, files.text(path, files.read(path)))
    except FileError as error:
        raise BadScript(str(error)) from error
    if not isinstance(document, dict) or set(document) - {"rule"}:
        raise BadScript(f"{path} must hold rules and nothing else: [[rule]]")
    rules = document.get("rule", [])
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise BadScript(f"{path}: rule must be a list of tables, [[rule]]")
    for number, rule in enumerate(rules, 1):
        _check(f"{path}: rule {number}", rule)
    return rules


def call(prompt: str) -> ScriptCall:
    """The agent's input: the JSON on the last line, or the last object in the prompt."""
    last = prompt.rstrip().rpartition("\n")[2]
    try:
        given = text.decode(last) if last.startswith("{") else _last(prompt)
    except (ValueError, RecursionError) as error:
        raise BadScript(f"the input is not JSON: {error}") from error
    if not isinstance(given, dict) or not isinstance(given.get("role"), str):
        raise BadScript("standard input must end with a JSON object that has a role")
    return ScriptCall(given)


def _last(prompt: str) -> dict[str, object] | None:
    from tugtool.agents import answers

    return answers.last(prompt)


def chosen(rules: list[Rule], call: ScriptCall, book: Ledger) -> tuple[int | None, Rule]:
    """The first rule that fits and may still be played, and its number from 1."""
    for number, rule in enumerate(rules, 1):
        if _fits(rule, call.facts) and book.may_play(number, rule.get("times")):
            return number, rule
    return None, {}


def _fits(rule: Rule, facts: Mapping[str, object]) -> bool:
    return all(_is(rule[name], facts.get(name)) for name in ASKED if name in rule)


def _is(wanted: object, fact: object) -> bool:
    if isinstance(wanted, list):
        return any(_is(each, fact) for each in wanted)
    if isinstance(wanted, str):
        return isinstance(fact, str) and _matches(fact, wanted)
    return wanted == fact


def _matches(fact: str, wanted: str) -> bool:
    if not any(each in wanted for each in "*?["):
        return fact == wanted
    from fnmatch import fnmatchcase

    return fnmatchcase(fact, wanted)


def _document(path: str, content: str) -> object:
    try:
        if path.endswith(".toml"):
            import tomllib

            return tomllib.loads(content)
        return _from_json(content)
    except (ValueError, RecursionError) as error:
        raise BadScript(f"{path} cannot be read: {error}") from error


def _from_json(content: str) -> object:
    try:
        return text.decode(content)
    except ValueError:
        import json  # Its error names the position.

        return json.loads(content)


def _check(where: str, rule: Rule) -> None:
    for name in rule:
        if name not in (*ASKED, *SAID):
            close = _close(name, (*ASKED, *SAID))
            raise BadScript(f"{where} has {name}, which means nothing{close}")
    if rule.get("as", "plain") not in FORMS:
        raise BadScript(f"{where}: as must be one of {', '.join(FORMS)}")
    todo = rule.get("do", [])
    if not isinstance(todo, list):
        raise BadScript(f"{where}: do must be a list")
    for act in todo:
        _check_act(where, act)


def _check_act(where: str, act: object) -> None:
    names = list(act) if isinstance(act, dict) else []
    verbs = [name for name in names if name in ACTS]
    if len(verbs) != 1:
        close = _close(str(names[0]), ACTS) if names else ""
        raise BadScript(f"{where}: each entry of do must have one of {', '.join(ACTS)}{close}")
    for name in names:
        if name not in (verbs[0], *BESIDE.get(verbs[0], ())):
            raise BadScript(f"{where}: {name} means nothing beside {verbs[0]}")


def _close(name: str, known: tuple[str, ...]) -> str:
    close = text.names(name, known)
    return f"; did you mean {close[0]}?" if close else ""


class Ledger:
    """The counts and the log; they are beside the script, or where TUGCODE_SCRIPT_LOG says."""

    def __init__(self, script: str) -> None:
        self.log = config.variable("TUGCODE_SCRIPT_LOG") or f"{os.path.abspath(script)}.log"
        self.directory = f"{self.log}.counts"
        os.makedirs(self.directory, exist_ok=True)

    def count(self, call: ScriptCall) -> None:
        """Set the call's facts `try` (per piece of work) and `call` (per step)."""
        role, step, attempt, number, *_ = call.facts.values()
        call.facts["try"] = self._next(f"try-{role}-{step}-{attempt}-{number}")
        call.facts["call"] = self._next(f"call-{role}-{step}")

    def may_play(self, number: int, times: object) -> bool:
        """True if rule `number` may be played again; counts it as played."""
        if not isinstance(times, int):
            return True
        return any(self._take(f"rule-{number}", place) for place in range(1, times + 1))

    def write(self, call: ScriptCall, rule: int | None) -> None:
        """Log one line for this call, by one write: many processes share the log."""
        line = text.encode({**call.facts, "rule": rule, "pid": os.getpid()}) + "\n"
        log = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            os.write(log, line.encode())
        finally:
            os.close(log)

    def _next(self, key: str) -> int:
        place = 1
        while not self._take(key, place):
            place += 1
        return place

    def _take(self, key: str, place: int) -> bool:
        name = "".join(c if c.isalnum() or c in "-_" else f"%{ord(c):x}" for c in key)
        path = os.path.join(self.directory, f"{name}.{place}")
        try:
            # The system lets only one process create the file.
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
        except FileExistsError:
            return False
        return True
