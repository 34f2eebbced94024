"""The script: rules, which of them fits a call, and what is wrong with them."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase

from tugtool import files
from tugtool.agents import objects
from tugtool.errors import FileError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from tugtool.agents.scripted.ledger import Ledger

    Rule = dict[str, object]

#: What a rule may ask about the call.
ASKED = ("role", "step", "attempt", "round", "try", "call")
#: What else a rule may have.
SAID = (
    *("times", "do", "answer", "omit", "verdicts", "under_report"),
    *("as", "usage", "prose", "rubbish", "status"),
)
#: What can be done; each entry of `do` has one of them.
ACTS = (
    *("write", "append", "delete", "touch", "run", "spawn", "edit_plan", "commit"),
    *("noise", "noise_bytes", "noise_hex", "complain", "take_ms", "wait_for"),
    *("tell", "hear", "ignore", "hang", "exit", "die"),
)
#: What may stand beside it.
BESIDE = {"write": ("text",), "append": ("text",), "run": ("may_fail",), "spawn": ("own_group",)}
FORMS = (
    *("plain", "pretty", "fenced", "tilde", "prose"),
    *("claude", "claude-stream", "codex", "gemini", "gemini-stream", "opencode"),
)


class BadScript(Exception):
    """The script or the input makes no sense; says why."""


class Call:
    """One call of the agent: what it was given, and the how-manieth call it is."""

    __slots__ = ("facts", "given")

    def __init__(self, given: dict[str, object]) -> None:
        self.given = given
        #: What rules ask about, by their names for it.
        self.facts: dict[str, object] = {
            "role": given.get("role"),
            "step": given.get("step_anchor"),
            "attempt": given.get("attempt"),
            "round": given.get("round", 1),
        }

    def filled(self, text: str) -> str:
        """`text` with `{step}` and its like replaced; other braces stay as they are."""
        for name, value in self.facts.items():
            text = text.replace("{" + name + "}", "" if value is None else str(value))
        return text


def load(path: str) -> list[Rule]:
    """The rules of the script at `path`, TOML or JSON by its name."""
    try:
        text = files.text(path, files.read(path))
    except FileError as error:
        raise BadScript(str(error)) from error
    document = _document(path, text)
    if not isinstance(document, dict) or set(document) - {"rule"}:
        raise BadScript(f"{path} must hold rules and nothing else: [[rule]]")
    rules = document.get("rule", [])
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise BadScript(f"{path}: rule must be a list of tables, [[rule]]")
    for number, rule in enumerate(rules, 1):
        _check(f"{path}: rule {number}", rule)
    return rules


def call(text: str) -> Call:
    """What the agent was given: the JSON on the last line, or the last object there is."""
    last = text.rstrip().rpartition("\n")[2]
    try:
        given = objects.load(last) if last.startswith("{") else objects.last(text)
    except objects.NotUsable as error:
        raise BadScript(f"the input is no JSON: {error}") from error
    if given is None or not isinstance(given.get("role"), str):
        raise BadScript("standard input must end with a JSON object that has a role")
    return Call(given)


def chosen(rules: list[Rule], call: Call, book: Ledger) -> tuple[int | None, Rule]:
    """The first rule that fits and has not been played often enough; its number from 1."""
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
        return isinstance(fact, str) and fnmatchcase(fact, wanted)
    return wanted == fact


def _document(path: str, text: str) -> object:
    try:
        if path.endswith(".toml"):
            import tomllib

            return tomllib.loads(text)
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadScript(f"{path} cannot be read: {error}") from error


def _check(where: str, rule: Rule) -> None:
    for name in rule:
        if name not in (*ASKED, *SAID):
            close = _close(name, (*ASKED, *SAID))
            raise BadScript(f"{where} has {name}, which means nothing{close}")
    if rule.get("as", "plain") not in FORMS:
        raise BadScript(f"{where}: as must be one of {', '.join(FORMS)}")
    acts = rule.get("do", [])
    if not isinstance(acts, list):
        raise BadScript(f"{where}: do must be a list")
    for act in acts:
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
    from tugtool import nearest

    close = nearest.names(name, known)
    return f"; did you mean {close[0]}?" if close else ""
