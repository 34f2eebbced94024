"""Races for one task, writes at the same moment, late finishers and crashes."""

import contextlib
import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from peers.judging import Handover, Race, Writes
from peers.ours import Tugcode
from peers.processes import Caller, Done, Refused
from peers.tool import Tool, after_noise


class Contest(NamedTuple):
    """The number of contenders, and the time for all rounds."""

    place: Path
    contenders: int
    rounds: int
    least: int
    seconds: float

    def repeated(self, tool_name: str, what: str, once: Callable[[Path], object]) -> list:
        """Return the result of each round, which runs in its own directory."""
        found: list[object] = []
        begun = time.monotonic()
        spent = 0.0
        while len(found) < self.rounds and (len(found) < self.least or spent < self.seconds):
            found.append(once(self.place / f"{what}-{tool_name}-{len(found)}"))
            spent = (time.monotonic() - begun) * (len(found) + 1) / len(found)
        return found


def race(contest: Contest, tool: Tool) -> Race:
    """Let all contenders ask for the only task."""

    def once(place: Path) -> int:
        tool.make(place, 1)
        asked = [tool.claim(1, f"w{k}") for k in range(contest.contenders)]
        return sum(tool.took(done) for done in tool.caller(place).together(asked))

    return Race(tool.name, contest.repeated(tool.name, "race", once))


def created(contest: Contest, tool: Tool) -> Writes:
    """Let each contender create a task."""

    def once(place: Path) -> tuple[int, int]:
        tool.make(place, 1)
        numbers = range(1, contest.contenders + 1)
        done = tool.caller(place).together([tool.create(n) for n in numbers])
        titles = {task.title for task in tool.tasks(tool.caller(place).must(tool.listing()))}
        kept = sum(f"New {n}" in titles for n in numbers)
        return sum(each.status == 0 for each in done), kept

    return _writes(tool.name, contest.repeated(tool.name, "create", once))


def updated(contest: Contest, tool: Tool) -> Writes:
    """Let each contender take another task."""

    def once(place: Path) -> tuple[int, int]:
        tool.make(place, contest.contenders)
        asked = [tool.take(n, f"w{n}") for n in range(1, contest.contenders + 1)]
        done = tool.caller(place).together(asked)
        tasks = tool.tasks(tool.caller(place).must(tool.listing()))
        return sum(map(tool.took, done)), sum(task.status == "taken" for task in tasks)

    return _writes(tool.name, contest.repeated(tool.name, "update", once))


def _writes(name: str, pairs: list[tuple[int, int]]) -> Writes:
    return Writes(name, [told for told, _ in pairs], [kept for _, kept in pairs])


class Late(NamedTuple):
    """The results of the finish by A, which lost the task, and of B's after it."""

    verdict: Handover
    how: str
    what: str


def late(contest: Contest, tool: Tool) -> Late:
    """Let A take the task, hand it to B in the tool's own way, and let A and then B finish."""
    place = contest.place / f"late-{tool.name}"
    tool.make(place, 1)
    run = tool.caller(place)
    for argv in tool.supersede("a", "b"):
        run.must(argv)
    finish = run.run(tool.finish(1, "a"))
    done = [task.status for task in tool.tasks(run.must(tool.listing()))] == ["done"]
    second = run.run(tool.finish(1, "b"))
    verdict = Handover(tool.name, finish.status == 0 and done)
    b = "accepted" if second.status == 0 else f"refused (exit status {second.status})"
    a = "accepted: the task is done" if verdict.is_accepted else f"refused: {_said(finish)}"
    return Late(verdict, tool.hands_over, f"{a}; B's finish {b}")


def _said(done: Done) -> str:
    """Return a refused command's own words."""
    with contextlib.suppress(ValueError, LookupError, TypeError):
        issue = after_noise(done.out)["issues"][0]
        return f"{issue['code']}, {issue['message']}, exit status {done.status}"
    first = (done.err or done.out).strip().partition("\n")[0]
    return f"{first}, exit status {done.status}"


def crashed(contest: Contest, tool: Tool) -> str:
    """Return whether the task of a dead worker is offered again."""
    place = contest.place / f"crash-{tool.name}"
    tool.make(place, 1)
    if isinstance(tool, Tugcode):
        return _recovered(tool, tool.caller(place))
    run = tool.caller(place)
    run.must(tool.take(1, "a"))
    statuses = [task.status for task in tool.tasks(run.must(tool.listing()))]
    if statuses != ["taken"]:
        raise Refused(f"{tool.name}: the task that was taken is {statuses}")
    return "stays in progress until a person puts it back: there is no lease"


def _recovered(tool: Tugcode, run: Caller) -> str:
    worker = subprocess.Popen(["sleep", "600"])
    try:
        run.must(tool.claim_for(worker.pid, "a"))
        live = run.run(tool.claim(1, "b"))
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    begun = time.perf_counter()
    taken = tool.took(run.run(tool.claim(1, "b")))
    spent = (time.perf_counter() - begun) * 1000
    if tool.took(live) or not taken:
        raise Refused("tugcode: a dead holder's step was not handed on")
    return (
        f"free at once: the next claim had it {spent:.0f} ms after kill -9 of the process that "
        "--holder-pid named; without one, when the lease runs out"
    )


class Queues(NamedTuple):
    """The queues of a Python program, each operation in its own process."""

    contest: Contest
    caller: Caller
    python: str

    def argv(self, verb: str, name: str, number: object, place: Path) -> list[str]:
        place.mkdir(exist_ok=True)
        return [self.python, "-m", "peers.queues", verb, name, str(number), str(place)]

    def race(self, name: str) -> Race:
        """Let all contenders open the queue and ask for the only job."""

        def once(place: Path) -> int:
            self._filled(name, place, 1)
            numbers = range(self.contest.contenders)
            asked = [self.argv("take", name, k, place) for k in numbers]
            done = self.caller.together(asked, waits=True)
            return sum(each.out.strip() == "true" for each in done)

        return Race(name, self.contest.repeated(name, "race", once))

    def written(self, name: str) -> Writes:
        """Let each contender put in a job."""

        def once(place: Path) -> tuple[int, int]:
            self.caller.must(self.argv("left", name, "-", place))
            done = self._filled(name, place, self.contest.contenders)
            left = self.caller.must(self.argv("left", name, "-", place))
            return done, int(left)

        return _writes(name, self.contest.repeated(name, "put", once))

    def _filled(self, name: str, place: Path, count: int) -> int:
        asked = [self.argv("put", name, k, place) for k in range(count)]
        done = self.caller.together(asked, waits=True)
        return sum(each.out.strip() == "true" for each in done)

    def late(self, name: str, how: str) -> Late:
        """Do as for commands, with two processes that have the queue open."""
        place = self.contest.place / f"late-{name}"
        said = json.loads(self.caller.must(self.argv("superseded", name, "-", place)))
        if not said["handed_over"]:
            return Late(Handover(name, None), how, "cannot happen: nothing is ever handed over")
        verdict = Handover(name, said["accepted"])
        return Late(verdict, how, "accepted: the job is done" if verdict.is_accepted else "refused")

    def crashed(self, name: str) -> str:
        """Kill a process that took the only job; let another open the queue and ask."""
        place = self.contest.place / f"crash-{name}"
        self._filled(name, place, 1)
        killed = self.caller.run(self.argv("keep", name, "-", place)).status
        if killed != -signal.SIGKILL:
            raise Refused(f"{name}: exit status {killed} where it was to be killed")
        return self.caller.must(self.argv("left", name, "-", place)).strip()
