"""Agents whose output is meant to do harm: the run goes on, and what they say stays bounded."""

import json
import sys

import pytest

from support.agents import ANSWERS
from support.implement import kinds
from support.implement_aftermath import aftermath
from support.proving import sampled
from support.state import KEY

ANSWER = json.dumps(ANSWERS["coder"])


@pytest.fixture
def play(play):
    """One step; its coder is a program of its own, in Python."""

    def make(*lines: str, tries: int = 1):
        made = play("1 t")
        made.cast("reviewer")
        program = made.root.parent / "agent.py"
        start = f"import json, os, sys\nsys.stdin.read()\nopen('made', 'w')\nANSWER = {ANSWER!r}\n"
        program.write_text(start + "\n".join(lines) + "\n")
        config = made.root / ".tugtool" / "config.toml"
        command = json.dumps([sys.executable, str(program)])
        coder = f"[agents.coder]\ncommand = {command}\ntries = {tries}\n"
        config.write_text(config.read_text() + coder + "[state]\nmax_attempts = 1\n")
        return made

    return make


WELL = {
    "a hundred megabytes before its answer": (
        "for _ in range(100): sys.stdout.write('x' * 1_000_000)",
        "print(); print(ANSWER)",
    ),
    "a hundred megabytes of complaints": (
        "for _ in range(100): sys.stderr.write('x' * 1_000_000)",
        "print(ANSWER)",
    ),
    "bytes that are no text": (
        "sys.stdout.buffer.write(bytes(range(256)) * 4 + b'\\xff\\xfe\\n' + ANSWER.encode())",
    ),
    "no input read and no end of line": ("sys.stdout.write(ANSWER)",),
    "a summary of two megabytes": (
        "print(json.dumps({**json.loads(ANSWER), 'summary': 'x' * 2_000_000}))",
    ),
    "a summary that would act on a terminal": (
        "print(json.dumps({**json.loads(ANSWER), 'summary': '\\x1b[2J\\x00\\r\\u202e\\ud800 x'}))",
    ),
    "a summary of nothing but line breaks": (
        "print(json.dumps({**json.loads(ANSWER), 'summary': '\\n' * 1000}))",
    ),
}


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("how", sampled(WELL, 2))
def test_a_good_answer_is_taken_whatever_stands_around_it(play, how):
    play = play(*WELL[how])
    status, told = play.run()
    assert status == 0, told
    aftermath(play, told)
    assert max(len(json.dumps(event)) for event in told) < 20_000


BADLY = {
    "a hundred megabytes without an end": (
        ("for _ in range(100): sys.stdout.write('x' * 1_000_000)",),
        "there is no JSON object",
    ),
    "nesting without an end": (("print('{\"a\":' * 1_000_000)",), "there is no JSON object"),
    "nested too deep": (
        ("print('{\"a\":' * 5000 + '1' + '}' * 5000)",),
        "nested deeper than 100",
    ),
    "a closed output": (("os.close(1); open('more', 'w')",), "it printed nothing"),
    "complaints that are no text": (
        ("sys.stderr.buffer.write(b'\\x00\\xff\\x1b[2J' * 1_000_000); sys.exit(3)",),
        "it ended with exit status 3",
    ),
    "numbers that are none": (
        ("print(ANSWER.replace('\"ordinal\": 0', '\"ordinal\": 1e999', 1))",),
        "out of range",
    ),
}


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("how", sampled(BADLY, 2))
def test_what_is_no_answer_ends_the_attempt_in_words_that_fit_on_a_line(play, how):
    lines, said = BADLY[how]
    play = play(*lines)
    status, told = play.run()
    assert (status, told[-1]["status"]) == (1, "unfinished")
    assert kinds(told)[-4:] == ["agent_failed", "saved", "failed", "finished"]
    [failed] = [event["reason"] for event in told if event["event"] == "agent_failed"]
    assert said in failed
    assert len(failed) < 2000
    assert "\\u0000" not in json.dumps(told)
    assert "\0" not in play.rows("select * from steps")[0]["park_reason"]
    aftermath(play, told, done=[], parked=["step-1"], saved={"step-1": ["made"]})
    shown = play._tugcode("-C", play.root, "state", "review", "work").out
    assert all(c.isprintable() or c == "\n" for c in shown)


@pytest.mark.parametrize(
    ("usage", "tokens", "cost"),
    [
        ({"tokens": 1_000_000_000, "cost_usd": 1e6}, 1_000_000_000, 10**12),
        ({"tokens": 10**400, "cost_usd": 10**400}, None, None),
        ({"tokens": 1e9}, 1_000_000_000, None),
    ],
)
def test_what_an_agent_says_to_have_used_is_believed_as_far_as_it_can_be(play, usage, tokens, cost):
    play = play(f"print(json.dumps({{**json.loads(ANSWER), 'usage': {usage!r}}}))")
    status, told = play.run()
    assert status == 0, told
    [attempt] = play.rows("select * from attempts")
    assert (attempt["tokens"], attempt["cost_microdollars"]) == (tokens, cost)
    [plan] = play.ok("state", "stats", "work")["plans"]
    assert (plan["tokens"], plan["cost_microdollars"]) == (tokens, cost)
    aftermath(play, told)


@pytest.mark.parametrize("tokens", [-5, "many", True, 1.5, [1], {}])
def test_an_agent_that_cannot_have_used_what_it_says_breaks_its_contract(play, tokens):
    play = play(f"print(json.dumps({{**json.loads(ANSWER), 'usage': {{'tokens': {tokens!r}}}}}))")
    status, told = play.run()
    assert (status, "tokens" in told[-1]) == (1, False)
    [failed] = [event["reason"] for event in told if event["event"] == "agent_failed"]
    assert "it breaks its contract: usage.tokens" in failed


@pytest.mark.parametrize("end", ["sys.exit(1)", "os.kill(os.getpid(), 9)", "time.sleep(1000)"])
def test_what_an_agent_has_used_counts_also_if_it_did_not_come_to_its_end(play, end):
    wrapped = {"type": "result", "is_error": True, "usage": {"input_tokens": 70}, "result": "x"}
    play = play(f"import time; print(json.dumps({wrapped!r}), flush=True); {end}")
    config = play.root / ".tugtool" / "config.toml"
    limit = "[agents.coder]\ntimeout_seconds = 2\n"
    config.write_text(config.read_text().replace("[agents.coder]\n", limit))
    status, told = play.run()
    assert status == 1
    assert told[-1]["tokens"] == 70
    assert play.outcomes("step-1") == ["failed"]


def test_a_plan_into_which_an_agent_writes_bytes_is_put_back_and_they_are_kept_as_text(play):
    # Outside of the repository, so that no command warns of it.
    once = "if not os.path.exists('../../../once'):"
    write = "open(os.environ['TUGCODE_PLAN'], 'ab').write(b'\\x00\\xff\\x1b[2J')"
    play = play(f"{once} open('../../../once', 'w'); {write}", "print(ANSWER)", tries=2)
    status, told = play.run()
    assert status == 0, told
    aftermath(play, told)
    note, reported = play.artifacts("note")
    assert reported["summary"] == "step-1: reported by the coder, and not in the commit: a.py"
    assert note["content"].endswith("\ufffd\ufffd\x1b[2J")
    [tree] = play.trees()
    assert (tree / KEY).read_text() == play.text
