"""Answers that go on: one document per line, and what is done once an answer is out."""

import json
import subprocess
import sys

import pytest

from tugtool.cli import main as main_module
from tugtool.cli.output import Answer, Stream


@pytest.fixture
def answering(monkeypatch, capsys):
    """Let the command `version` answer what a test wants; its status and its lines."""

    def run(answer, *words):
        monkeypatch.setattr(main_module, "_execute", lambda call: answer)
        return main_module.main(["version", *words]), capsys.readouterr().out

    return run


def test_each_part_of_a_stream_is_a_document_of_its_own(answering):
    parts = [Answer({"n": n}, lambda n=n: f"number {n}\n") for n in range(2)]
    assert answering(Stream(parts)) == (0, "number 0\nnumber 1\n")
    status, out = answering(Stream(parts), "--json")
    assert status == 0
    assert [json.loads(line)["data"] for line in out.splitlines()] == [{"n": 0}, {"n": 1}]


def test_text_in_a_stream_goes_out_as_it_is(answering):
    assert answering(Stream(["{}\n"]), "--json") == (0, "{}\n")


def test_a_stream_ends_when_nobody_reads_it_any_more(tmp_path):
    endless = (
        "from tugtool.cli import main, output\n"
        "import itertools\n"
        "main._execute = lambda call: output.Stream(f'{n}\\n' for n in itertools.count())\n"
        "main.run()\n"
    )
    command = [sys.executable, "-c", endless, "version"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "0\n"
        process.stdout.close()
        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.stderr.close()


def test_a_stream_that_is_stopped_says_nothing_more(answering):
    def parts():
        yield "one\n"
        raise KeyboardInterrupt

    assert answering(Stream(parts())) == (130, "one\n")


def test_what_is_left_to_do_is_done_when_the_answer_is_out(answering, capsys):
    seen = []
    answer = Answer({}, lambda: "done\n", after=lambda: seen.append(capsys.readouterr().out))
    status, _ = answering(answer)
    assert (status, seen) == (0, ["done\n"])
