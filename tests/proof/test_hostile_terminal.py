"""Whatever people and agents write, no command lets it act on a terminal.

One repository whose every text is an attack; every command of the table prints from it, plainly,
in colour, and as JSON. A new command fails here until it has a line.
"""

import io
import json
import re
import sys

import pytest
import wordings

from conftest import Repo
from support import leaks
from support.commands import plainest
from support.worktree import IDENTITY
from tugtool.cli import output, parse
from tugtool.cli.main import main

pytestmark = pytest.mark.proof(share=0)

#: Attack -> what it would do to whoever prints it.
ATTACKS = {
    "clear the screen": "\x1b[2J\x1b[1;1H",
    "colour for ever": "\x1b[31m",
    "set the title": "\x1b]0;owned\x07",
    "a link to elsewhere": "\x1b]8;;http://example.invalid\x1b\\here\x1b]8;;\x1b\\",
    "write the clipboard": "\x1b]52;c;cm0gLXJm\x07",
    "answer back": "\x1b[6n\x1b[c\x1bP$qm\x1b\\",
    "the same in C1": "\x9b2J\x9d0;owned\x9c\x90q\x9c",
    "ring and delete": "\x07\x7f\x08\x08",
    "print over it": "harmless\rrm -rf /",
    "turn it around": "\u202egnp.exe\u202c \u2066x\u2069",
    "hide in it": "a\u200bb\u2060c\ufeffd\u00ade",
    "more lines": "a\u2028b\u2029c\x85d\x0be\x0cf",
    "columns": "a\tb",
    "a private shift": "\x0e\x0f\x1b(0\x1bc",
    "half a sequence": "\x1b[31",
    "letters that are none": "\U000e0041\U000e007f\ufff9",
}
ALL = " ".join(f"<{attack}>" for attack in ATTACKS.values())
LONG = "x" * (1 << 20)
#: Where git and the file system take them too.
NAME = "tree \x1b[2J\u202e\x07\x7f\n\tx"
BRANCH = "odd\u202egnp\u200bx"


def plan() -> str:
    """A step for each attack, and one with a line of a megabyte; a command that prints them."""
    parts = [f"# {ALL}\n", f"\n**Purpose:** {ALL}\n"]
    for number, attack in enumerate(ATTACKS.values(), 1):
        parts.append(f"\n### Step {number}: a {attack} z\n\n**Tasks:**\n- [ ] b {attack} y\n")
        parts.append(f"\n**Commit:** c {attack} x\n\n**References:** {attack}\n")
    parts.append(f"\n### Step 90: {LONG}\n\n- [ ] {LONG}\n")
    parts.append("\n### Step 91: Prints\n\n**Checkpoint:**\n- [ ] `cat attack` runs\n")
    return "".join(parts)


#: What is typed, in this order; `T` is all attacks in one text. Several lines of one command show
#: different things.
LINES = """
init
list
validate evil
validate evil --level strict
validate wrong
state init wrong
plan show evil
plan show evil --step step-4
plan graph evil
plan graph evil --format mermaid
plan graph evil --format dot
plan graph evil --format json
plan new fresh --title T
plan new fresh
state init evil
state claim evil
state start evil step-1
state heartbeat evil step-1
state update evil step-1 --all deferred --reason T
state artifact evil step-1 --kind note --summary T
state artifact evil step-1 --kind note --summary T --content-file attack
state show evil
state show evil --checklist
state show evil --step step-1
state show
state review
state review evil --accept --step step-1 --note T
state ready evil
state complete evil step-1 --force T
state reopen evil step-1 --reason T
state claim evil --step step-2 --request-id T
state release evil step-2 --park --reason T
state why evil step-2
state claim evil --step step-2
state claim evil --step step-91
state verify evil step-91 --dry-run
state verify evil step-91 --yes
state claim evil --step step-3
state release evil step-91
state claim evil --step step-3
state reset evil step-3
worktree salvage list
worktree salvage show evil
worktree salvage show evil --patch
state claim evil --step step-4
worktree clean
worktree salvage apply evil
worktree salvage prune
state pause evil
state resume evil
state stats evil
report evil
report evil --format md
report evil --format html
state log evil
state reconcile evil
state export --output out.jsonl
state import out.jsonl
state archive evil --undo
state archive evil
state archive evil --undo
state prune --dry-run
state restore --dry-run
status
status --all
state exec evil --step step-5 -- cat attack
state claim evil --step step-6 --also
state update evil step-6 --all completed
commit --plan evil --step step-6 --message T --summary T
next evil
done --message T
done --all
worktree create evil --base T
worktree create evil --new
worktree list
worktree sync evil
worktree remove T
worktree cleanup --dry-run
merge evil
implement evil --dry-run
dash create fix --description T
dash create T
dash commit fix --message T --instruction T --summary T
dash list
dash show fix
dash join fix --message T
dash release fix
doctor
config
version
completion bash
complete-words -- plan show ev
complete-words -- state start evil step-
plugin path
plugin install --dry-run
state diff evil
state init evil
state init evil --force --dry-run
plan accept evil
plan accept evil --drop-completed --drop-claimed --reopen-changed --yes
plan import --from beads tasks.jsonl --dry-run
"""
#: Commands that are not run, and why.
SILENT = {
    "hook pre-tool-use": "reads a client's call, and has proofs of its own",
    "serve": "runs until it is stopped, and shows no text of a plan",
    "open": "runs until it is stopped, and shows no text of a plan",
    "serve token add": "shows no text of a plan",
    "serve token revoke": "shows no text of a plan",
}
#: Refused here, or with something to find.
REFUSED = {
    *("validate", "doctor", "state import", "merge", "implement", "worktree remove", "state move"),
    *("dash commit", "dash join"),
}
#: What it prints is the other program's own, and goes past us.
RAW = "state exec"


def lines() -> list[list[str]]:
    """Those above, and the plainest of every other command."""
    told = [line.split() for line in LINES.strip().splitlines()]
    others = set(parse.FAMILIES) - SILENT.keys() - {command_of(words) for words in told}
    return [*told, *(plainest(path, plan="evil") for path in sorted(others))]


def command_of(words: list[str]) -> str:
    """The longest beginning that is a command."""
    known = set(parse.FAMILIES)
    found = [" ".join(words[:n]) for n in (3, 2, 1) if " ".join(words[:n]) in known]
    return found[0]


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """A repository with the plan `evil`; where commands are typed: a worktree with a bad name."""
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COLUMNS", "100")
    repo = Repo.init(tmp_path / "repo")
    repo.plan("evil", plan())
    repo.plan("wrong", f"# {ALL}\n\n### Step 1: {ALL} {{#No {ALL}}}\n\n**Depends on:** {ALL} all\n")
    repo.commit({"attack": ALL})
    tree = repo.linked(repo.path / ".tugtree" / NAME, BRANCH)
    (tree / f"loose {NAME}".replace("\n", "")).write_text(ALL)
    task = {"id": ALL, "title": ALL, "description": ALL, "acceptance_criteria": ALL, ALL: ALL}
    (tree / "tasks.jsonl").write_text(json.dumps({**task, "dependencies": [ALL, "x"]}))
    return repo, tree


def say(words: list[str], capsys, monkeypatch) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    capsys.readouterr()
    return main(words), *capsys.readouterr()


def rounds(hostile, capsys, monkeypatch, *more: str):
    """Every line, one after the other: its words, what became of it."""
    repo, tree = hostile
    for words in lines():
        if words[:2] == ["state", "diff"]:
            repo.plan("evil", plan() + f"\n### Step 99: New {ALL}\n\n- [ ] {ALL}\n")
            (tree / ".tugtool" / "tugplan-evil.md").write_text(f"# {ALL}\n\n### Step 1: {ALL}\n")
        given = [ALL if word == "T" else word for word in words]
        end = given.index("--") if "--" in given else len(given)
        line = ["-C", str(tree), *given[:end], *more, *given[end:]]
        status, out, err = say(line, capsys, monkeypatch)
        if words[0] == "complete-words":
            # A word and what it means, for shells: the first tab of a line is ours.
            out = "\n".join(each.replace("\t", " ", 1) for each in out.split("\n"))
        yield command_of(words), words, (status, out, err)


def check(text: str, told: object) -> None:
    wordings.harmless(text, told)
    # What is JSON is for programs, and whole.
    assert text.startswith("{") or max(map(len, text.split("\n"))) <= output.UNBOUNDED, told


def test_text_is_printed_harmlessly_by_every_command(hostile, capfd, monkeypatch):
    done = set()
    for command, words, (status, out, err) in rounds(hostile, capfd, monkeypatch):
        assert status in (0, 1, 2), (words, out, err)
        if command != RAW:
            check(out, (words, out[:3000]))
            check(err, (words, err[:3000]))
        done |= {command} if status == 0 else set()
    # Whatever is refused every time prints no more than its refusal.
    assert {command_of(words) for words in lines()} - done <= REFUSED


def test_colours_are_all_that_is_added_on_a_terminal(hostile, capfd, monkeypatch):
    monkeypatch.setattr(output, "colour", lambda: True)
    coloured = 0
    for command, words, (_, out, err) in rounds(hostile, capfd, monkeypatch):
        plain = re.sub(r"\x1b\[[0-9;]*m", "", out)
        coloured += plain != out
        if command != RAW:
            check(plain, (words, out[:3000]))
            check(err, (words, err[:3000]))
    assert coloured


def test_json_is_plain_ascii_of_every_command(hostile, capfd, monkeypatch):
    for command, words, (_, out, err) in rounds(hostile, capfd, monkeypatch, "--json"):
        if command != RAW:
            assert out.isascii(), words
            assert all(mark.isprintable() for mark in out.rstrip("\n")), words
            check(err, (words, err[:3000]))


def test_what_goes_wrong_inside_is_told_harmlessly_too(hostile, capfd, monkeypatch):
    monkeypatch.setenv("TUGCODE_DEBUG", "1")
    _, tree = hostile
    for words in (["plan", "show", ALL], ["state", "start", "evil", ALL], [ALL], ["list", ALL]):
        status, out, err = say(["-C", str(tree), *words], capfd, monkeypatch)
        assert status in (1, 2)
        assert "Traceback" in err
        check(out + err, words)


FAULTS = {
    "text goes out as it is": (output, "clean", lambda text, longest=0: text),
    "only escapes are taken out": (
        *(output, "clean"),
        lambda text, longest=1000: text.replace("\x1b", "").replace("\n", " ")[:longest],
    ),
    "refusals are not cleaned": (output, "_block", lambda text: text),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_text_that_got_through_is_noticed(hostile, capfd, monkeypatch, fault):
    leaks.replace(monkeypatch, *FAULTS[fault])
    with pytest.raises(AssertionError):
        test_text_is_printed_harmlessly_by_every_command(hostile, capfd, monkeypatch)
