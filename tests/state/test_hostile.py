"""Hostile input: never a traceback, never half a change, never anything that acts on a terminal."""

import io
import json
import os
import subprocess
import sys

import pytest

NASTY = {
    "escapes": "\x1b[2J\x1b]0;owned\x07 \r\n\ttext\x9b31m",
    "right to left": "abc\u202edef\u2066",
    "huge": "x" * 100_000,
    "quotes": "'; drop table steps; -- \" % _ :plan \\",
    "wide": "日本語 \U0001f600 \u0301",
    "braces": "{plan} {0} %s %(plan)s",
}


@pytest.fixture
def claimed(desk):
    made = desk("1 tttt", "1.1 t", "2 t")
    made.ok("claim", "work")
    return made


@pytest.mark.parametrize("nasty", NASTY)
def test_any_text_is_kept_as_it_is_and_printed_harmlessly(claimed, nasty):
    text = NASTY[nasty]
    claimed.ok("update", "work", "step-1", "--task", 0, "deferred", f"--reason={text}")
    claimed.ok("artifact", "work", "step-1", "--kind", "note", f"--summary={text}")
    claimed.ok("complete", "work", "step-1", f"--force={text}")
    shown = claimed.ok("show", "work")
    assert shown["checklist_items"][0]["reason"] == text
    assert shown["steps"][0]["artifacts"][0]["summary"] == text[:500]
    assert shown["steps"][0]["complete_reason"] == text
    assert claimed.ok("reopen", "work", "step-1", f"--reason={text}")["reason"] == text
    claimed.ok("claim", "work", "--step", "step-2", f"--request-id={text}")
    again = claimed.ok("claim", "work", f"--request-id={text}")
    assert (again["anchor"], again["replayed"]) == ("step-2", True)
    claimed.ok("release", "work", "step-2", "--park", f"--reason={text}")
    refused = claimed.text("claim", "work", "--step", "step-2")
    assert refused.err.startswith("tugcode: E067: ")
    assert refused.err.replace("\n", "").isprintable()


@pytest.mark.parametrize("nasty", NASTY)
def test_any_text_where_a_name_is_expected_is_refused_plainly(claimed, nasty):
    text = NASTY[nasty]
    before, first = claimed.dump(), ("work", "step-1")
    for words, code in (
        (("start", "work", f"s{text}"), "E059"),
        (("update", *first, "--kind", f"k{text}", "--ordinal", 0, "--status", "open"), "E066"),
        (("update", "work", "step-1", "--task", f"o{text}", "open"), "E066"),
        (("update", "work", "step-1", "--task", 0, f"s{text}"), "E066"),
        (("artifact", "work", "step-1", f"--kind={text}", "--summary=x"), "E066"),
        (("complete", "work", "step-1", f"--commit={text[:1000]}"), "E066"),
    ):
        refused = claimed.json(*words)
        assert (refused.status, refused.codes) == (1, [code])
        said = claimed.text(*words).err
        assert said.replace("\n", "").isprintable()
        assert len(said) < 5000
    assert claimed.dump() == before


BATCHES = {
    "empty": b"",
    "blank": b" \n\t ",
    "no json": b"task 0 completed",
    "half": b'[{"kind": "task"',
    "two": b"[] []",
    "an object": b'{"kind": "task", "ordinal": 0, "status": "open"}',
    "null": b"null",
    "a number": b"5",
    "a string": b'"[]"',
    "an array of numbers": b"[1, 2]",
    "an array of arrays": b"[[]]",
    "an empty entry": b"[{}]",
    "not UTF-8": b'[{"kind": "\xff"}]',
    "a bool": b'[{"kind": "task", "ordinal": false, "status": "open"}]',
    "a fraction": b'[{"kind": "task", "ordinal": 0.0, "status": "open"}]',
    "not a number": b'[{"kind": "task", "ordinal": NaN, "status": "open"}]',
    "infinity": b'[{"kind": "task", "ordinal": -Infinity, "status": "open"}]',
    "large": b'[{"kind": "task", "ordinal": 99999999999999999999, "status": "open"}]',
    "4000 digits": b'[{"kind": "task", "ordinal": ' + b"9" * 4000 + b', "status": "open"}]',
    "5000 digits": b'[{"kind": "task", "ordinal": ' + b"9" * 5000 + b', "status": "open"}]',
    "twice": b"[%b, %b]" % ((b'{"kind": "task", "ordinal": 0, "status": "open"}',) * 2),
    "a key twice": b'[{"kind": "task", "ordinal": 0, "ordinal": 1, "status": "open"}]',
    "unknown key": b'[{"kind": "task", "ordinal": 0, "status": "open", "\\u001b[2J": 1}]',
    "deep": b'[{"kind": "task", "ordinal": ' + b"[" * 900 + b"]" * 900 + b', "status": "open"}]',
    "deeper": b"[" * 100_000 + b"]" * 100_000,
    "no ordinal": b'[{"kind": "task", "status": "completed"}]',
    "only a status": b'[{"status": "completed"}]',
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_that_makes_no_sense_is_refused_and_changes_nothing(claimed, name):
    before = claimed.dump()
    refused = claimed.batch("step-1", BATCHES[name])
    assert (refused.status, refused.codes) == (1, ["E066"])
    assert len(refused.out) < 6000
    assert json.loads(refused.out)
    assert claimed.dump() == before


def test_a_batch_that_is_too_large_is_refused(claimed):
    assert claimed.batch("step-1", b"[" + b" " * (1 << 24) + b"]").codes == ["E066"]


@pytest.mark.parametrize("data", [b"", b"  \n", b"[]", b"\xef\xbb\xbf[]"])
def test_empty_input_with_complete_remaining_means_no_entries(claimed, data):
    assert claimed.batch("step-1", data, "--complete-remaining").data["updated"] == 5


def test_a_terminal_with_complete_remaining_means_no_entries_and_is_not_read(claimed, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    words = ("update", "work", "step-1", "--batch", "--complete-remaining")
    assert claimed.ok(*words)["updated"] == 5


def tugcode(*words: object, cwd, **how: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "tugtool", *(os.fsencode(str(word)) for word in words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, check=False, **how)


def test_standard_input_that_is_closed_or_a_directory_is_no_bug(claimed):
    words = ("state", "update", "work", "step-1", "--batch", "--json")
    closed = ["sh", "-c", 'exec "$0" "$@" <&-', sys.executable, "-m", "tugtool", *words]
    done = subprocess.run(closed, cwd=claimed.red, capture_output=True, check=False)
    assert (done.returncode, b"at least one entry" in done.stdout) == (1, True)
    with open(os.devnull) as nothing:
        done = tugcode(*words, cwd=claimed.red, stdin=nothing)
    assert (done.returncode, b"at least one entry" in done.stdout) == (1, True)
    directory = os.open(claimed.red, os.O_RDONLY)
    try:
        done = tugcode(*words, cwd=claimed.red, stdin=directory)
    finally:
        os.close(directory)
    # Python itself may refuse such a standard input before we are asked.
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr


def test_bytes_that_are_no_utf_8_are_stored_readably_and_mean_the_same_again(claimed):
    raw = b"caf\xe9"
    command = [sys.executable, "-m", "tugtool", "state"]

    def run(*words: bytes) -> dict:
        line = [*(os.fsencode(word) for word in command), *words, b"--json"]
        done = subprocess.run(line, cwd=claimed.blue, capture_output=True, check=False)
        assert done.returncode == 0, done
        return json.loads(done.stdout)["data"]

    got = run(b"claim", b"work", b"--request-id", raw, b"--worktree", b"/nowhere/" + raw)
    assert got["worktree"] == "/nowhere/caf\\udce9"
    again = run(b"claim", b"work", b"--request-id", raw, b"--worktree", b"/nowhere/" + raw)
    assert again["replayed"] is True
    where = (b"work", b"step-2", b"--worktree", b"/nowhere/" + raw)
    run(b"update", *where, b"--task", b"0", b"deferred", b"--reason", raw)
    run(b"artifact", *where, b"--kind", b"note", b"--summary", raw)
    run(b"complete", *where, b"--force", raw)
    shown = claimed.ok("show", "work")
    assert shown["steps"][1]["artifacts"][0]["summary"] == "caf\\udce9"
    assert shown["checklist_items"][-1]["reason"] == "caf\\udce9"


def test_a_step_whose_name_is_no_utf_8_does_not_exist(claimed):
    before = claimed.dump()
    for words in (
        ("start",),
        ("why",),
        ("reset",),
        ("reopen", "--reason=x"),
        ("update", "--all=open"),
    ):
        refused = claimed.json(words[0], "work", "caf\udce9", *words[1:])
        assert (refused.status, refused.codes) == (1, ["E059"])
    assert claimed.dump() == before


def test_a_plan_whose_path_is_no_utf_8_is_not_recorded(claimed):
    path = os.fsencode(claimed.red) + b"/caf\xe9.md"
    with open(path, "w") as file:
        file.write("# A\n\n### Step 1: a\n")
    before = claimed.dump()
    refused = claimed.json("init", os.fsdecode(path))
    assert (refused.status, refused.codes) == (1, ["E072"])
    assert claimed.json("show", os.fsdecode(path)).codes == ["E063"]
    assert claimed.dump() == before


def test_a_lone_surrogate_in_json_is_stored_readably(claimed):
    entry = b'[{"kind": "task", "ordinal": 0, "status": "deferred", "reason": "\\ud800"}]'
    assert claimed.batch("step-1", entry).status == 0
    assert claimed.ok("show", "work")["checklist_items"][0]["reason"] == "\\ud800"


def test_nul_in_json_is_kept_as_its_picture(claimed):
    entry = b'[{"kind": "task", "ordinal": 0, "status": "deferred", "reason": "a\\u0000b"}]'
    assert claimed.batch("step-1", entry).status == 0
    assert claimed.ok("show", "work")["checklist_items"][0]["reason"] == "a\u2400b"
