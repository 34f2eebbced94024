"""Transcripts in exports: only if a person asks, and back again."""

import json
import os
import stat
from pathlib import Path

import pytest

from conftest import Repo
from support.state import KEY
from tugtool.git import discover
from tugtool.workflow import exports, transcripts


def _record(repo: Path, anchor: str | None, attempt: int | None, role: str, said: bytes) -> None:
    recording = transcripts.begin(discover(str(repo)), KEY, anchor, attempt, role, most=10_000)
    recording.write(said)
    recording.close("it ended")


def _files(repo: Path) -> dict[str, bytes]:
    home = repo / ".git" / "tugtool" / "transcripts"
    return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*.txt")}


@pytest.fixture
def told(yard):
    """A plan whose agents have said something, also something that is not UTF-8."""
    y = yard("1 t")
    y.ok("state", "init", "work")
    _record(y.root, "step-1", 1, "coder", b"one \xff")
    _record(y.root, "step-1", 1, "reviewer", b"two\n")
    _record(y.root, None, None, "auditor", b"three")
    return y


def _exported(y, *words: str) -> list[dict]:
    return [json.loads(line) for line in y._tugcode("-C", y.root, *words).out.splitlines()]


def test_an_export_has_no_transcripts_unless_asked(told):
    plain = _exported(told, "export", "work")
    assert plain[-1] == {"end": True, "rows": len(plain) - 2}
    assert not [each for each in plain if "transcript" in each]
    every = _exported(told, "export", "--with-transcripts")
    assert every[-1] == {"end": True, "transcripts": 3}
    found = [each["transcript"] for each in every if "transcript" in each]
    assert {(each["step_anchor"], each["attempt"], each["role"]) for each in found} == {
        *((None, None, "auditor"), ("step-1", 1, "coder"), ("step-1", 1, "reviewer")),
    }
    assert "one \ufffd" in str(found)


def test_a_file_comes_back_whole(told, tmp_path):
    file = tmp_path / "state.jsonl"
    words = ("export", "--with-transcripts", "--output", str(file))
    data = told.ok(*words)
    assert data["transcripts"] == 3
    said = told._tugcode("-C", told.root, *words[:-1], f"{file}2").out
    assert said.startswith(f"exported {data['rows']} rows and 3 transcripts to ")
    other = Repo.init(tmp_path / "other")
    other.commit({"x": "x"})
    back = told._tugcode("-C", other.path, "import", str(file), "--json").data
    assert (back["transcripts"], back["rows"]) == (3, data["rows"])
    new, old = _files(other.path), _files(told.root)
    assert new == {name: data.replace(b"\xff", "\ufffd".encode()) for name, data in old.items()}
    home = other.path / ".git" / "tugtool" / "transcripts"
    for path in home.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    shown = told._tugcode("-C", other.path, "transcript", "work", "step-1").out
    assert "two" in shown
    # None is overwritten.
    entry = {"plan_path": KEY, "step_anchor": "step-1", "attempt": 1, "call": 1, "role": "coder"}
    exports.write_back(discover(str(other.path)), [{**entry, "text": "other"}])
    assert _files(other.path) == new


SOUND = {
    "plan_path": KEY,
    "step_anchor": "step-1",
    "attempt": 1,
    "call": 1,
    "role": "coder",
    "text": "x",
}
#: What a stranger could put into the file; step and role are names of files.
BAD = {
    "a way out": {"step_anchor": "../../../hooks"},
    "a hidden step": {"step_anchor": ".git"},
    "a role with a way out": {"role": "../../coder"},
    "another plan": {"plan_path": ".tugtool/tugplan-other.md"},
    "no number": {"call": "1"},
    "a number below": {"attempt": -1},
    "no text": {"text": None},
    "a step without an attempt": {"attempt": None},
    "a further field": {"more": 1},
}


@pytest.mark.parametrize("bad", BAD)
def test_a_transcript_that_cannot_be_is_refused_before_anything_is_written(told, tmp_path, bad):
    lines = told._tugcode("-C", told.root, "export").out
    entry = json.dumps({"transcript": {**SOUND, **BAD[bad]}})
    _refused(told, tmp_path, f'{lines}{entry}\n{{"end": true, "transcripts": 1}}\n')


@pytest.mark.parametrize(
    "end",
    [
        *("", '{"end": true, "transcripts": 2}\n', "no JSON\n", "[]\n"),
        '{"end": true, "transcripts": 1}\n{"end": true, "transcripts": 1}\n',
    ],
)
def test_a_file_that_is_cut_off_or_goes_on_is_refused(told, tmp_path, end):
    lines = told._tugcode("-C", told.root, "export").out
    _refused(told, tmp_path, lines + json.dumps({"transcript": SOUND}) + "\n" + end)


def _refused(told, tmp_path: Path, text: str) -> None:
    (tmp_path / "file").write_text(text)
    other = Repo.init(tmp_path / "other")
    other.commit({"x": "x"})
    done = told._tugcode("-C", other.path, "import", str(tmp_path / "file"), "--json")
    assert done.codes == ["E069"]
    assert "nothing was imported" in done.out
    assert not os.path.exists(other.path / ".git" / "tugtool" / "transcripts")
    assert not (other.path / ".tugtool" / "state.db").exists()
