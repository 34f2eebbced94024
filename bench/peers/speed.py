"""The cost of commands, and jobs per second through one worker, in rounds of new order."""

import json
import random
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from peers.processes import Caller, Done, Refused, shown
from peers.tool import Tool

#: The operations, in the order of the table.
DOES = {
    "start": "start and do nothing",
    "look": "see what could be done next",
    "claim": "take a task",
    "finish": "finish it",
    "show": "show one task",
    "list": "show all",
    "create": "record a new one",
}
READING = ("look", "show", "list")


class Cost(NamedTuple):
    """Medians of one command in milliseconds, and the number of runs."""

    what: str
    system: str
    command: str
    wall: float
    cpu: float
    runs: int


class Unit:
    """One command of one system in one project, run once per round."""

    def __init__(
        self,
        what: str,
        system: str,
        argv: Callable[[int], list[str]],
        run: Caller,
        is_right: Callable[[Done], bool],
    ) -> None:
        self.what, self.system = what, system
        self._argv, self._run, self._is_right = argv, run, is_right
        self._done: list[Done] = []
        self.refusal = ""

    def once(self, number: int, *, counts: bool) -> float:
        """Return its seconds; a command that fails is left out from then on."""
        done = self._run.run(self._argv(number))
        if not self._is_right(done):
            self.refusal = f"{shown(self._argv(number))}: exit status {done.status}"
        elif counts:
            self._done.append(done)
        return done.wall / 1000

    def cost(self) -> Cost:
        """Return the cost over the rounds so far."""
        command, median = shown(self._argv(1)), statistics.median
        wall = median(each.wall for each in self._done)
        cpu = median(each.cpu for each in self._done)
        return Cost(self.what, self.system, command, wall, cpu, len(self._done))


def succeeded(done: Done) -> bool:
    return done.status == 0


def units(tool: Tool, place: Path, size: int, rounds: int) -> list[Unit]:
    """Return every command of a tool in a project of so many tasks; writers have their own."""
    made: dict[str, Caller] = {}

    def run(project: str) -> Caller:
        if project not in made:
            path = place / f"{tool.name}-{size}-{project}"
            tool.make(path, size)
            made[project] = tool.caller(path)
        return made[project]

    argv: dict[str, Callable[[int], list[str] | None]] = {
        "look": lambda n: tool.look(),
        "claim": lambda n: tool.claim(n, f"w{n}"),
        "finish": lambda n: tool.finish(n, "a"),
        "show": tool.show,
        "list": lambda n: tool.listing(),
        "create": tool.create,
    }
    found = [
        Unit(
            what,
            tool.name,
            words,
            run("read" if what in READING else what),
            tool.took if what == "claim" else succeeded,
        )
        for what, words in argv.items()
        if words(1) is not None
    ]
    for n in range(1, rounds + 2):
        for words in tool.hold(n, "a"):
            run("finish").must(words)
    tasks = tool.tasks(run("read").must(tool.listing()))
    if len(tasks) != size:
        raise Refused(f"{tool.name} sees {len(tasks)} of {size} tasks")
    return found


def measured(units: list[Unit], rounds: int, seed: int, *, least: int, seconds: float) -> None:
    """Run rounds in a new order each; a slow tool gets fewer.

    The first is a warm-up that shows how long one takes, unless there is only one.
    """
    spent: dict[str, float] = {}
    shuffle = random.Random(seed).shuffle
    for done in range(0 if rounds > 1 else 1, rounds + 1):
        order = [
            unit
            for unit in units
            if not unit.refusal
            and (done <= least or spent[unit.system] * (done + 1) / done < seconds)
        ]
        shuffle(order)
        for unit in order:
            took = unit.once(done + 1, counts=done > 0)
            spent[unit.system] = spent.get(unit.system, 0) + took


class Rate(NamedTuple):
    """Medians of one queue: jobs per second, CPU microseconds per job."""

    system: str
    jobs: float
    cpu: float
    runs: int


class Worker(NamedTuple):
    """A queue and the interpreter that has it."""

    name: str
    python: str


def rates(
    workers: list[Worker], place: Path, run: Caller, *, jobs: int, rounds: int, seed: int
) -> list[Rate]:
    """Measure so many empty jobs through one worker of each queue, in rounds of new order."""
    found: dict[str, list[dict[str, float]]] = {worker.name: [] for worker in workers}
    shuffle = random.Random(seed).shuffle
    for number in range(rounds):
        order = list(workers)
        shuffle(order)
        for name, python in order:
            directory = place / f"rate-{name}-{number}"
            directory.mkdir()
            words = ["-m", "peers.queues", "rate", name, str(jobs), str(directory)]
            found[name].append(json.loads(run.must([python, *words])))
    median = statistics.median
    return [
        Rate(name, median(row["rate"] for row in rows), median(row["cpu"] for row in rows), rounds)
        for name, rows in found.items()
    ]
