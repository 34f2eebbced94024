"""A tool with every fault that must be caught, and the test that each is.

    python -m peers.faulty take|finish|create|list TITLE

It reads its one file, naps, and writes it anew: it gives one task to all, loses concurrent
writes, and lets every caller finish the task.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

from peers import contests, judging
from peers.judging import Findings, Speed
from peers.processes import Caller, Done
from peers.tool import Task

BENCH = str(Path(__file__).resolve().parent.parent)
NAP_SECONDS = 0.2
FILE = Path("tasks.json")


def act(verb: str, title: str) -> None:
    """Run one command."""
    tasks = json.loads(FILE.read_text()) if FILE.exists() else {}
    if verb == "list":
        print(json.dumps(tasks))
        return
    # Long enough for all that started together to read the same.
    time.sleep(NAP_SECONDS)
    tasks[title] = {"create": "free", "take": "taken", "finish": "done"}[verb]
    FILE.write_text(json.dumps(tasks))


class Faulty:
    """The parts of `tool.Tool` that a contest needs, under our name."""

    name = "tugcode"
    hands_over = "B takes it, too"

    def caller(self, place: Path) -> Caller:
        return Caller(place, {"PYTHONPATH": BENCH})

    def make(self, place: Path, count: int) -> None:
        place.mkdir()
        tasks = {f"Task {n}": "free" for n in range(1, count + 1)}
        (place / FILE).write_text(json.dumps(tasks))

    def _argv(self, verb: str, title: str) -> list[str]:
        return [sys.executable, "-m", "peers.faulty", verb, title]

    def claim(self, n: int, who: str) -> list[str]:
        return self.take(n, who)

    def take(self, n: int, who: str) -> list[str]:
        return self._argv("take", f"Task {n}")

    def took(self, done: Done) -> bool:
        return done.status == 0

    def finish(self, n: int, who: str) -> list[str]:
        return self._argv("finish", f"Task {n}")

    def listing(self) -> list[str]:
        return self._argv("list", "")

    def create(self, n: int) -> list[str]:
        return self._argv("create", f"New {n}")

    def tasks(self, said: str) -> list[Task]:
        return [Task(title, title, status) for title, status in json.loads(said).items()]

    def supersede(self, a: str, b: str) -> list[list[str]]:
        return [self.take(1, a), self.take(1, b)]


def self_test(contenders: int = 4) -> int:
    """Return 0 if every planted fault is caught and a sound tool is not blamed."""
    with tempfile.TemporaryDirectory(prefix="tugtool-peers-") as name:
        contest = contests.Contest(Path(name).resolve(), contenders, 2, 2, 60)
        tool = Faulty()
        found = Findings(
            [Speed("claim", tool.name, 1.0), Speed("claim", "a faster one", 0.5)],
            [contests.race(contest, tool)],
            [contests.created(contest, tool), contests.updated(contest, tool)],
            [contests.late(contest, tool).verdict],
        )
    empty = Findings([], [], [], [])
    missed = [
        field
        for field in Findings._fields
        if not judging.faults(empty._replace(**{field: getattr(found, field)}))
    ]
    print("\n".join(judging.faults(found)))
    print(f"self-test {'failed: not caught: ' + ', '.join(missed) if missed else 'passed'}")
    return 1 if missed else 0


if __name__ == "__main__":
    act(*sys.argv[1:])
