"""Command lines as commands are declared: right, nearly right, and hostile; and what must hold."""

import io
import json
import random
import sys
from pathlib import Path

from conftest import Result, hold_against_schemas
from tugtool.cli import parse
from tugtool.cli.main import main, wants_json

#: Command -> why no random line runs it.
LEFT_OUT = {
    "implement": "starts agents",
    "state exec": "starts whatever stands behind --",
    "plugin install": "starts other people's programs",
    "hook pre-tool-use": "answers its client in the client's way; it has proofs of its own",
    "serve": "runs until it is stopped",
    "open": "runs until it is stopped",
    "version": "takes nothing, and asks git each time",
}
#: Options that are never given: they wait for something that does not happen here.
WAITING = ("--watch", "--follow", "--wait", "--directory")
#: Commands that say by status 1 what they found, after they have done what they were asked.
FINDING = ("doctor", "state verify")
HOSTILE = [
    *(
        "",
        " ",
        "-",
        "--",
        "---",
        "-x",
        "--json=1",
        "--=",
        "--force",
        "--help=",
        "=",
        "a\nb",
        "..",
        ".",
    ),
    *(
        "\x1b[2J",
        "\x1b]0;x\x07",
        "\x9b31m",
        "\x7f",
        "\r",
        "\u202egnp",
        "a\u200bb",
        "\u2028",
        "\udcff",
    ),
    *("$(touch pwned)", "`touch pwned`", "; touch pwned", "%s{0}", "'\"", "@{u}", "HEAD", "*", "~"),
    *("x" * 5000, "../" * 30, "/dev/null", "/dev/stdin", "/", "ü漢\U0001f600", "1e9", "9" * 40),
]
PLAUSIBLE = {
    "plan": [
        "work",
        "work",
        "work",
        "wor",
        ".tugtool/tugplan-work.md",
        "tugplan-work",
        "odd",
        "none",
    ],
    "step": ["step-1", "#step-1", "step-1-1", "step-2", "step-3", "step-9"],
    "number": ["1", "2", "3", "0", "100", "-1", "999999999999999"],
    "seconds": ["1", "0.5", "60", "0", "1000000"],
    "directory": [".", ".tugtree/red", ".tugtree/blue", "nowhere", "sub"],
    "file": ["out.jsonl", "file", "sub", "missing"],
    "dash": ["fix", "odd", "other"],
    "maybe": ["because"],
    "command": ["true"],
    "text": [
        *("because", "task", "test", "checkpoint", "completed", "open", "deferred", "in_progress"),
        *(
            "0",
            "1",
            "note",
            "main",
            "red",
            "fix",
            "2026-01-01T00:00:00.000Z",
            "work",
            "strict",
            "dot",
        ),
    ],
}


def commands() -> list[parse.Command]:
    """Every command that random lines may run."""
    return [parse.find(path) for path in parse.FAMILIES if path not in LEFT_OUT]


def line(dice: random.Random) -> list[str]:
    """One command with arguments and options, some of them wrong."""
    command = dice.choice(commands())
    words = [_value(dice, each.kind, each.choices) for each in command.arguments]
    words = [word for word in words if dice.random() < 0.93]
    options = [option for option in command.options if option.name not in WAITING]
    for option in dice.sample(options, min(len(options), dice.choice([0, 1, 1, 2, 3]))):
        values = [_value(dice, option.kind, option.choices) for _ in option.metavar.split()]
        joined = [f"{option.name}={values[0] if values else 1}"]
        words += [option.name, *values] if dice.random() < 0.9 else joined
    if dice.random() < 0.15:
        words.insert(dice.randint(0, len(words)), dice.choice(HOSTILE))
    if dice.random() < 0.6:
        words.insert(dice.randint(0, len(words)), "--json")
    return [*command.path.split(), *words]


def _value(dice: random.Random, kind: str, choices: tuple[str, ...]) -> str:
    if choices and dice.random() < 0.8:
        return dice.choice(choices)
    return dice.choice(PLAUSIBLE[kind] if dice.random() < 0.8 else HOSTILE)


def run(words: list[str], capsys, monkeypatch) -> Result:
    """The line in this process, with nothing on standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    capsys.readouterr()
    return Result(main(words), *capsys.readouterr())


def hold(words: list[str], done: Result) -> None:
    """What must be true of every answer."""
    told = (words, done.status, done.out[-800:], done.err[-3000:])
    assert done.status in (0, 1, 2, 4), told
    assert "Traceback" not in done.out + done.err, told
    harmless(done.err, told)
    if not wants_json(words):
        # A tab between a word and what it means is how shells want it.
        harmless(done.out.replace("\t", " ") if words[0] == "complete-words" else done.out, told)
        assert done.status == 0 or done.err or done.out, told
        return
    assert done.out.isascii(), told
    for each in done.out.splitlines():
        envelope = json.loads(each)
        if "command" in envelope:
            hold_against_schemas(envelope)
            assert (envelope["status"] == "ok") == (done.status == 0), told
    assert done.out.count("\n") == 1 or words[:2] == ["state", "export"], told


def harmless(text: str, told: object = "") -> None:
    """Nothing in it could act on a terminal or turn its text around."""
    bad = {mark for mark in text if not (mark.isprintable() or mark in "\n\u200d")}
    assert not bad, (bad, told)


def places(root: Path) -> list[Path]:
    """Where a line may be typed."""
    return [root, root, root / ".tugtree" / "red", root / ".tugtree" / "blue", root / "sub"]
