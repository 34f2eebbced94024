"""What agents got and printed is kept, for each call, while it happens and until the plan goes."""

import json
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import git
from support.implement import events
from support.state import KEY
from tugtool.cli.main import main
from tugtool.workflow import transcripts

SECRET = "s3cret-of-the-environment"
#: What a reviewer leaves to a person.
DEFERRED = [{"kind": "checkpoint", "ordinal": 0, "verdict": "UNVERIFIED"}]


def kept(play) -> list[Path]:
    return sorted((play.root / ".git" / "tugtool" / "transcripts").glob("*/*/*.txt"))


def names(play) -> list[str]:
    return ["/".join(path.parts[-2:]) for path in kept(play)]


@pytest.mark.proof(share=0)
def test_every_call_of_an_agent_leaves_what_it_got_and_what_it_printed(play):
    play = play("1 t", "2 t < 1")
    more = f'env = {{ TOKEN = "{SECRET}" }}'
    play.cast("coder", "reviewer", more=more)
    play.rules(
        {"role": "coder", "step": "step-1", "times": 1, "rubbish": "what is this", "status": 1},
        {"role": "reviewer", "step": "step-2", "times": 1, "answer": {"recommendation": "REVISE"}},
    )
    status, told = play.run()
    assert status == 0, told[-1]
    assert names(play) == [
        "step-1/001-001-coder.txt",
        "step-1/001-002-coder.txt",
        "step-1/001-003-reviewer.txt",
        "step-2/001-001-coder.txt",
        "step-2/001-002-reviewer.txt",
        "step-2/001-003-coder.txt",
        "step-2/001-004-reviewer.txt",
    ]
    texts = [path.read_text() for path in kept(play)]
    assert "# Coder\n" in texts[0]
    assert "what is this" in texts[0]
    assert texts[0].endswith("\n--- the end: it ended with exit status 1\n")
    assert '"success": true' in texts[1]
    assert all("TOKEN" in text and SECRET not in text for text in texts)
    for path in kept(play):
        modes = [stat.S_IMODE(place.stat().st_mode) for place in (path, *list(path.parents)[:3])]
        assert modes == [0o600, 0o700, 0o700, 0o700]
    # The answers name them.
    named = [each["transcript"] for each in told if each["event"] == "agent_started"]
    assert named == [str(path) for path in kept(play)]
    [failed] = [each for each in told if each["event"] == "agent_failed"]
    assert failed["transcript"] == named[0]


@pytest.mark.proof(share=0)
def test_why_review_and_log_name_them_and_transcript_shows_them(play):
    play = play("1 tc", "2 t < 1")
    play.cast("coder", "reviewer")
    play.rules(
        {"role": "coder", "step": "step-1", "prose": "before \x1b[31mred"},
        {"role": "reviewer", "step": "step-1", "verdicts": DEFERRED},
        {"role": "coder", "step": "step-2", "answer": {"success": False}},
    )
    assert play.run("--unattended")[0] == 1
    paths = [str(path) for path in kept(play)]
    first = [path for path in paths if "/step-1/" in path]
    assert play.ok("state", "why", "work", "step-1")["transcripts"] == first
    text = play._tugcode("-C", play.root, "state", "why", "work", "step-1").out
    assert "tugcode transcript work step-1" in text
    waiting = play.ok("state", "review", "work")
    [item], [parked] = waiting["deferred_items"], waiting["parked_steps"]
    assert item["transcripts"] == first
    assert parked["transcripts"] == [path for path in paths if "/step-2/002-" in path]
    assert "tugcode transcript work step-2" in play._tugcode("-C", play.root, "state", "review").out
    logged = play.ok("state", "log", "work", "--step", "step-1")["events"]
    [coder] = [e for e in logged if e["kind"] == "agent" and e["detail"]["role"] == "coder"]
    assert coder["detail"]["transcripts"] == first[:1]
    shown = play.ok("transcript", "work", "step-1", "--role", "coder")
    [call] = shown["transcripts"]
    facts = {"path": first[0], "role": "coder", "attempt": 1, "call": 1}
    assert {name: call[name] for name in facts} == facts
    assert call["text"] == Path(first[0]).read_text()
    text = play._tugcode("-C", play.root, "transcript", "work", "step-1").out
    assert "before \x1b" not in text
    assert "before red" in text
    assert text.index("coder of step-1") < text.index("reviewer of step-1")
    followed = ["-C", str(play.root), "transcript", "work", "step-1", "--follow", "--json"]
    assert main(followed) == 0
    parts = [data["transcripts"] for data in events(play._capsys.readouterr().out)]
    told = "".join(each["text"] for part in parts for each in part)
    assert told == "".join(Path(path).read_text() for path in first)
    older = play.ok("transcript", "work", "step-2", "--attempt", 1)["transcripts"]
    assert {each["attempt"] for each in older} == {1}
    assert {e["attempt"] for e in play.ok("transcript", "work", "step-2")["transcripts"]} == {2}


def test_the_auditors_are_those_of_the_plan(play):
    play = play("1 t")
    play.cast("coder", "reviewer", "auditor")
    assert play.run()[0] == 0
    [call] = play.ok("transcript", "work")["transcripts"]
    assert (call["role"], call["attempt"], call["step_anchor"]) == ("auditor", None, None)


def test_a_transcript_that_cannot_be_written_is_told_once_and_costs_nothing_else(play):
    play = play("1 t")
    play.cast("coder", "reviewer")
    (play.root / ".git" / "tugtool").mkdir(exist_ok=True)
    (play.root / ".git" / "tugtool" / "transcripts").write_text("in the way")
    status, told = play.run()
    assert status == 0
    said = [each["message"] for each in told if each["event"] == "warning"]
    assert [message for message in said if "no transcripts are kept" in message] == said
    assert len(said) == 1


def test_none_is_kept_where_none_is_wanted(play):
    play = play("1 t")
    play.cast("coder", "reviewer", transcript_bytes=0)
    status, told = play.run()
    assert (status, kept(play)) == (0, [])
    assert not any("transcript" in each for each in told)


def test_they_move_with_the_plan_and_are_pruned_with_it(play):
    play = play("1 t")
    play.cast("coder", "reviewer")
    assert play.run()[0] == 0
    before = [path.read_text() for path in kept(play)]
    new = KEY.replace("work", "labour")
    git("mv", KEY, new, cwd=play.root)
    play.ok("state", "move", "work", new)
    calls = play.ok("transcript", "labour", "step-1")["transcripts"]
    assert [call["text"] for call in calls] == before
    play.ok("state", "prune", "--done", "--dry-run")
    assert len(kept(play)) == 2
    play.ok("state", "prune", "--done")
    assert kept(play) == []
    assert list((play.root / ".git" / "tugtool" / "transcripts").iterdir()) == []


def test_a_recording_keeps_the_beginning_and_the_end(tmp_path):
    most = 4096
    place = tmp_path / "kept"
    recording = transcripts.Recording(str(place), most)
    recording.write(b"BEGIN\n")
    for number in range(2000):
        recording.write(b"line %05d\n" % number)
        assert place.stat().st_size <= most
    recording.close("ended")
    text = place.read_bytes()
    assert len(text) <= most
    assert text.startswith(b"BEGIN\nline 00000\n")
    assert b" bytes left out]\n" in text
    assert text.endswith(b"line 01999\n\n--- the end: ended\n")
    assert len(text) > most // 2
    head, _, tail = text.partition(b"\n[")
    count, _, rest = tail.partition(b" bytes left out]\n")
    assert len(head) + int(count) + len(rest) == 6 + 2000 * 11 + len(b"\n--- the end: ended\n")
    assert stat.S_IMODE(place.stat().st_mode) == 0o600


@pytest.mark.proof(share=0)
def test_an_answer_of_200_megabytes_keeps_the_cap_with_flat_memory(tmp_path):
    most, part = 1 << 20, bytes(range(256)) * 256
    recording = transcripts.Recording(str(tmp_path / "kept"), most)
    recording.write(part * 16)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(3200):
        recording.write(part)
    recording.close("ended")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    size = (tmp_path / "kept").stat().st_size
    assert most // 2 < size <= most
    assert grown < 8 << 10


@pytest.mark.proof(share=0)
def test_an_agent_that_prints_200_megabytes_keeps_the_cap(play):
    play = play("1 t")
    noise = [{"noise_bytes": 200_000_000}, {"write": "made.txt", "text": "x"}]
    play.rules({"role": "coder", "times": 1, "do": noise})
    status, told = play.run()
    assert status == 0, told[-1]
    sizes = {path.name: path.stat().st_size for path in kept(play)}
    coder = sizes["001-002-coder.txt"]
    assert 1 << 19 < coder <= 1 << 20
    assert "made.txt" in git("show", "--name-only", play.commits("step-1")[0], cwd=play.root)


def test_what_lies_between_is_not_shown_twice_to_a_reader_who_follows(tmp_path):
    place = tmp_path / "kept"
    recording = transcripts.Recording(str(place), 4096)
    recording.write(b"line 00000\n")
    reader, seen = transcripts.Follower(str(place)), b""
    for number in range(1, 2000):
        recording.write(b"line %05d\n" % number)
        if number % 7 == 0:
            seen += reader.more()
    recording.close("ended")
    seen += reader.more()
    reader.close()
    lines = b"".join(b"line %05d\n" % number for number in range(2000))
    assert seen == lines + b"\n--- the end: ended\n"
    slow = transcripts.Follower(str(place))
    assert slow.more() == place.read_bytes()
    assert slow.more() == b""
    slow.close()


@pytest.mark.proof(share=0)
def test_a_transcript_is_followed_while_its_agent_runs(play, tmp_path):
    play = play("1 t")
    play.cast("coder", "reviewer")
    os.mkfifo(tmp_path / "gate")
    wait = [{"run": f"cat {tmp_path / 'gate'}"}]
    play.rules({"role": "coder", "do": wait, "prose": "after the gate"})
    run = play.start()
    until(run, "agent_started")
    words = ["-C", play.root, "transcript", "work", "step-1", "--follow"]
    command = [sys.executable, "-m", "tugtool", *map(str, words)]
    env = {**os.environ, "PYTHONPATH": str(Path(transcripts.__file__).parents[2])}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as follower:
        seen = ""
        while '"role": "coder"' not in seen:
            seen += follower.stdout.readline()
        assert "after the gate" not in seen
        (tmp_path / "gate").write_text("open\n")
        rest = follower.stdout.read()
    run.communicate(timeout=60)
    assert (run.returncode, follower.returncode) == (0, 0)
    # To the end of the attempt, whose next call is the reviewer's.
    assert rest.index("after the gate") < rest.index("reviewer of step-1")


def until(process, event: str) -> None:
    for line in process.stdout:
        if json.loads(line)["data"]["event"] == event:
            return


def test_a_step_that_the_plan_does_not_have_is_refused_and_one_without_calls_is_empty(play):
    play = play("1 t")
    play.ok("state", "init", "work")
    refused = play.tugcode("transcript", "work", "step-9")
    assert (refused.status, refused.codes) == (1, ["E059"])
    assert play.ok("transcript", "work", "step-1")["transcripts"] == []
    text = play._tugcode("-C", play.root, "transcript", "work", "step-1")
    assert text.out == "no agent has been called for this\n"
