"""docs/reference/server-exchanges.md: one exchange for each path, recorded from a fixed history.

`TUG_EXCHANGES=write` with the proof writes the page anew, and `missing`, as `make docs` says it,
only the exchanges of new paths. Read the difference.
"""

import json
import os
import re
from pathlib import Path

import pytest

from conftest import Repo
from server.test_routes import _prepared, _words
from support.server import App, fields, masked
from support.worktree import IDENTITY
from tugtool.server import deck, routes
from tugtool.workflow import transcripts
from tugtool.workflow.workspace import Workspace

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "server-exchanges.md"
#: Longer answers are cut.
MOST = 900
#: In the names of worktrees and branches.
DAY = re.compile(r"(?<=small-)20\d{6}\b")
#: Their answers are about the machine.
OF_THE_MACHINE = ("version", "doctor", "config")
HEAD = """\
<!-- Written by `make docs` with tests/server/test_exchanges.py; do not edit. -->

# One exchange for each path

Recorded from a plan with one step. Every request also has `Authorization: Bearer TOKEN`, and every
answer the headers that [server.md](server.md#requests) lists. Times, commits and seconds are
replaced, and long answers are cut.
"""
DECK = {
    "whoami": {},
    "plan/text": {"plan": "small"},
    "plan/revisions": {"plan": "small"},
    "plan/attempts": {"plan": "small"},
    "events": {"plan": "small", "limit": "2"},
    "words": {},
    "since": {"seq": "0"},
    "transcript/calls": {"plan": "small", "step": "step-1"},
    "transcript/part": {"plan": "small", "step": "step-1", "attempt": "1", "call": "1"},
    "artifact": {"plan": "small", "id": "1"},
    "git/commit": {"hash": "COMMIT"},
}


def every_path() -> list[tuple[str, str]]:
    return [*sorted(routes.ROUTES), *(("GET", path) for path in deck.PATHS)]


def test_every_path_has_an_exchange():
    headings = re.findall(r"^## (\w+) (\S+)$", PAGE.read_text(), re.MULTILINE)
    assert sorted(headings) == sorted(every_path())


def on_the_page() -> dict[str, str]:
    """The exchanges that the page has, by their headings."""
    found = re.split(r"^(?=## )", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return {each.partition("\n")[0]: f"\n{each.rstrip()}\n" for each in found}


def exchange(method: str, path: str, values: dict, got, root: Path) -> str:
    """One exchange as the page has it."""
    # A word that no page of ours has.
    body = masked(got.body.decode(), root).strip().replace("somebody", "anna")
    body = re.sub(r'"epoch": "[0-9a-f]{32}"', '"epoch": "EPOCH"', body)
    body = re.sub(r'"file": "\d+"', '"file": "N"', body)
    body = DAY.sub("YYYYMMDD", body)
    if path.removeprefix(routes.API) in OF_THE_MACHINE:
        body = re.sub(r'"data": .*', '"data": {...}, "issues": [...]}', body)
    if len(body) > MOST:
        body = f"{body[:MOST]}..."
    said = DAY.sub("YYYYMMDD", masked(json.dumps(values), root))
    lines = [f"{method} {path}"]
    if method == "POST":
        lines += ["Content-Type: application/json", "", said]
    elif values:
        query = "&".join(f"{name}={value}" for name, value in json.loads(said).items())
        lines = [f"{method} {path}?{query.replace('True', 'true')}"]
    answer = [f"HTTP/1.1 {got.status}", f"Tug-Exit-Status: {got.headers['tug-exit-status']}"]
    answer += [f"Tug-Seq: {got.headers['tug-seq']}"] if "tug-seq" in got.headers else []
    text = "\n".join([*lines, "", *answer, "", body])
    return f"\n## {method} {path}\n\n```http\n{text}\n```\n"


def recorded(repo: Repo, tugcode, method: str, path: str) -> str:
    """Prepare a repository, ask, and write down what came."""
    command = path.removeprefix(routes.API).replace("/", " ")
    name = path.removeprefix(routes.API)
    if name in DECK:
        _prepared(repo, tugcode, "state start")
        note = ("--kind", "note", "--summary", "x", "--attempt", "1")
        tugcode("-C", repo.path, "artifact", "small", "step-1", *note)
        force = ("--force", "--reason", "x", "--commit", "HEAD")
        tugcode("-C", repo.path, "complete", "small", "step-1", *force)
        values = dict(DECK[name])
        _keep_transcript(repo)
        if "hash" in values:
            values["hash"] = repo.git("rev-parse", "HEAD").strip()
    else:
        _prepared(repo, tugcode, command)
        words = _words(command, repo.path)
        if (method, command) == ("POST", "state review"):
            words = ["state", "review", "small", "--accept-all", "--yes"]
        values = fields(words)[1]
    app = App(repo.path, git=True, run_commands=True)
    try:
        got = (app.get if method == "GET" else app.post)(path, values)
    finally:
        app.close()
    assert got.status == 200, got.body
    got.headers.setdefault("tug-exit-status", "0")
    return exchange(method, path, values, got, repo.path)


def _keep_transcript(repo: Repo) -> None:
    """As an agent leaves it."""
    there = Workspace(str(repo.path)).repo
    kept = transcripts.begin(there, ".tugtool/tugplan-small.md", "step-1", 1, "coder", most=4096)
    kept.write(b"Read the step.\n")
    kept.close("done")


@pytest.mark.proof(share=0)
def test_the_page_of_exchanges_is_up_to_date(templates, tmp_path, tugcode, monkeypatch):
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    writing = os.environ.get("TUG_EXCHANGES")
    parts, known = [HEAD], on_the_page() if writing == "missing" else {}
    for number, (method, path) in enumerate(every_path()):
        if f"## {method} {path}" in known:
            parts.append(known[f"## {method} {path}"])
            continue
        repo = Repo.of(templates, tmp_path / str(number) / "repo")
        parts.append(recorded(repo, tugcode, method, path))
    if writing in ("write", "missing"):
        PAGE.write_text("".join(parts))
    assert PAGE.read_text() == "".join(parts)
