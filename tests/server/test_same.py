"""Random histories by command lines, over HTTP, and by command lines whose state is on a server.

Answers, exit statuses and rows are equal.
"""

import json
import os
import random
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from conftest import Repo
from support import served
from support.server import App, fields, masked
from support.state import markdown
from tugtool.server import routes, work
from tugtool.workflow import shared_record

pytestmark = pytest.mark.proof(share=0)

#: For `make proof ONLY=same MINUTES=...`, and for whoever asks for a number.
SHORT = int(os.environ.get("TUG_HISTORIES") or 12)
CALLS = 25
#: In sentences: `4s`, `1h 05m`.
DURATION = re.compile(r"\b\d+[smhd](?: \d+[mh])?\b")
STEPS = ("step-1", "step-2", "step-2-1", "step-3", "step-4", "2", "step-9")
STATUSES = ("open", "in_progress", "completed", "completed", "deferred", "wrong")


def words(dice: random.Random) -> list[str]:
    """A random command line about the plan `work`, right or wrong."""
    step, number = dice.choice(STEPS), str(dice.randrange(3))
    held = ["work", step, "--worktree", dice.choice(("red", "blue"))]
    held += ["--attempt", str(dice.choice((1, 1, 2)))] if dice.random() < 0.4 else []
    status, kind = dice.choice(STATUSES), dice.choice(("task", "test", "checkpoint"))
    claim = ["claim", "work", "--worktree", dice.choice(("red", "blue", "green"))]
    return dice.choice(
        (
            ["state", *claim],
            ["state", *claim],
            ["state", *claim, "--request-id", number],
            ["state", *claim, "--step", step, "--also"],
            ["state", *claim, "--force", "--lease-duration", "60"],
            ["state", "start", *held],
            ["state", "heartbeat", *held],
            ["state", "update", *held, f"--{kind}", number, status],
            ["state", "update", *held, "--all", "completed"],
            ["state", "update", *held, "--all", "deferred", "--reason", "later"],
            ["state", "artifact", *held, "--kind", "note", "--summary", f"note {number}"],
            ["state", "complete", *held],
            ["state", "complete", *held, "--force", "enough"],
            ["state", "release", *held],
            ["state", "release", *held, "--park", "--reason", "no access"],
            ["state", "release", "work", step, "--force"],
            ["state", "reset", "work", step],
            ["state", "reopen", "work", step, "--reason", "wrong", "--force"],
            ["state", "pause", "work"],
            ["state", "resume", "work"],
            ["state", "archive", "work"],
            ["state", "archive", "work", "--undo"],
            ["state", "review", "work", "--accept", "--step", step],
            ["state", "review", "work", "--reject", "--step", step, "--note", "no"],
            ["state", "review", "work", "--accept-all", "--yes"],
            ["state", "review", "work"],
            ["state", "show", "work"],
            ["state", "ready"],
            ["state", "why", "work", step],
            ["state", "log", "work", "--limit", "5"],
            ["status"],
        )
    )


def timeless(text: str, root: Path) -> str:
    """The text without what tells how long something took or takes: one of three comes first."""
    return DURATION.sub("N", masked(text, root))


class Three:
    """One repository for command lines, one for requests, one whose state a server has."""

    def __init__(self, templates, directory: Path, tugcode) -> None:
        self.tugcode = tugcode
        self.roots = [directory / "line", directory / "http", directory / "client"]
        for root in self.roots:
            repo = Repo.of(templates, root)
            repo.plan("work", markdown("1 ttc", "2 t", "2.1 t", "3 tc < 1", "4 t < 2 3"))
            assert tugcode("-C", root, "state", "init", "work").status == 0
        self.app = App(self.roots[1])
        self.url = served.repository(self.roots[2])

    def close(self) -> None:
        self.app.close()
        served.thread().end()

    def by_client(self, line: list[str]) -> tuple[str, int]:
        """The answer and the exit status with the state on the server."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TUGCODE_STATE_URL", self.url)
            told = self.tugcode("-C", self.roots[2], "--json", *line)
        # Where the state is, only this one has to say.
        said = f', "state_url": "{self.url.partition("#")[0]}"'
        assert (said in told.out) == (line == ["status"])
        return timeless(told.out.replace(said, ""), self.roots[2]), told.status

    def each_way(self, line: list[str]) -> str:
        """Do it each way and compare; the code of the refusal, or `done`."""
        told = self.tugcode("-C", self.roots[0], "--json", *line)
        path, values = fields(line)
        method = "GET" if path.replace("/", " ") in routes.LOOK else "POST"
        if "review" in line and len(line) > 3:
            method = "POST"
        got = (self.app.get if method == "GET" else self.app.post)(path, values)
        own = timeless(told.out, self.roots[0]), told.status
        other = timeless(got.body.decode(), self.roots[1]), int(got.headers["tug-exit-status"])
        assert own == other, line
        assert own == self.by_client(line), line
        codes = [issue["code"] for issue in json.loads(told.out)["issues"]]
        return codes[-1] if told.status else "done"

    def rows(self) -> list[str]:
        """The whole record of each, as `export` writes it."""
        return [
            masked(self.tugcode("-C", root, "state", "export").out, root) for root in self.roots
        ]


def history(templates, directory: Path, tugcode, seed: int) -> Counter:
    dice, tally = random.Random(seed), Counter()
    ways = Three(templates, directory / str(seed), tugcode)
    try:
        for _ in range(CALLS):
            line = words(dice)
            tally[ways.each_way(line)] += 1
        own, *others = ways.rows()
        assert others == [own, own]
    finally:
        ways.close()
    shutil.rmtree(directory / str(seed))
    return tally


@pytest.mark.proof(share=1)
def test_requests_and_command_lines_make_the_same_history(templates, tmp_path, tugcode, spell):
    tally: Counter = Counter()
    for number in spell.seeds(SHORT):
        tally += history(templates, tmp_path, tugcode, number)
        tally["histories"] += 1
    assert {"done", "E049", "E050", "E059"} <= set(tally)
    spell.tell(", ".join(f"{name} {n}" for name, n in sorted(tally.items())))


def test_a_difference_is_noticed(templates, tmp_path, tugcode, monkeypatch):
    class Wrong(work.ServedWorkspace):
        """The worktree that a request names does not count."""

        def __init__(self, base, store, caller, worktree) -> None:
            super().__init__(base, store, caller, None)

    monkeypatch.setattr(work, "ServedWorkspace", Wrong)

    def several() -> None:
        for number in range(5):
            history(templates, tmp_path, tugcode, number)

    with pytest.raises(AssertionError):
        several()


def test_a_difference_of_the_client_is_noticed(templates, tmp_path, tugcode, monkeypatch):
    """Rows of the caller's machine are stored as those of another one."""
    act_for = shared_record.Serving.act_for

    def wrong(self, id: str, name: str, *, token: str | None = None) -> None:
        act_for(self, "elsewhere", "elsewhere", token=token)

    monkeypatch.setattr(shared_record.Serving, "act_for", wrong)
    with pytest.raises(AssertionError):
        history(templates, tmp_path, tugcode, 0)
