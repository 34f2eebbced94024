"""Tugtool's commands for `make bench-peers`."""

from pathlib import Path

import harness
import shapes

from peers.processes import Caller, Done
from peers.tool import Task, after_noise, plain

PLAN = "bench"


class Tugcode:
    """Ours: steps of a plan; a new task is a plan of its own."""

    name = "tugcode"
    hands_over = "A's lease of one second runs out, and B, who waits for it, claims the step"
    lacks = {  # noqa: RUF012
        "claim": "finds the next, leases it, fenced, on the disk before it answers",
        "finish": "only its owner and attempt, on the disk before it answers",
        "create": "no single tasks: a plan is recorded at once, with as many steps as the project",
    }

    def __init__(self, binaries: Path, environment: dict[str, str]) -> None:
        self._program = str(binaries / "tugcode")
        self._environment = environment

    def caller(self, place: Path) -> Caller:
        return Caller(place, self._environment)

    def make(self, place: Path, count: int, *, new: int = 16) -> None:
        """Make a recorded plan with so many steps, and so many plans to record later."""
        text = plan(count, "Task {n}")
        harness.repository(place, text, self._environment)
        for n in range(new):
            file = place / ".tugtool" / f"tugplan-new-{n:02}.md"
            file.write_text(plan(count, f"New {n}" if count == 1 else f"New {n}, {{n}}"))
        self.caller(place).must(self._state("init", PLAN))

    def _state(self, *words: str) -> list[str]:
        return [self._program, "state", *words, "--json"]

    def look(self) -> list[str]:
        return self._state("ready", PLAN)

    def claim(self, n: int, who: str) -> list[str]:
        """Return the command for the next step; no look is needed first."""
        return self._state("claim", PLAN, "--worktree", who)

    def take(self, n: int, who: str) -> list[str]:
        return self._state("claim", PLAN, "--step", f"step-{n}", "--worktree", who)

    def hold(self, n: int, who: str) -> list[list[str]]:
        return [self.take(n, who)]

    def took(self, done: Done) -> bool:
        return done.status == 0 and bool(after_noise(done.out)["data"]["claimed"])

    def finish(self, n: int, who: str) -> list[str]:
        """Return the command for the first attempt, or B's."""
        words = ["--worktree", who, "--attempt", "2" if who == "b" else "1"]
        return self._state("complete", PLAN, f"step-{n}", *words)

    def show(self, n: int) -> list[str]:
        return self._state("show", PLAN, "--step", f"step-{n}")

    def listing(self) -> list[str]:
        return self._state("show")

    def create(self, n: int) -> list[str]:
        return self._state("init", f"new-{n:02}")

    def tasks(self, said: str) -> list[Task]:
        return [
            Task(f"{each['plan_path']} {step['anchor']}", step["title"], plain(step["status"]))
            for each in after_noise(said)["data"]["plans"]
            for step in each["steps"]
        ]

    def supersede(self, a: str, b: str) -> list[list[str]]:
        return [
            [*self.claim(1, a), "--lease-duration", "1"],
            [*self.claim(1, b), "--wait", "60"],
        ]

    def claim_for(self, pid: int, who: str) -> list[str]:
        """Return the command for the next step, for a process whose death frees it."""
        return [*self.claim(1, who), "--holder-pid", str(pid)]


def plan(count: int, title: str) -> str:
    """Return a plan of steps without boxes, numbered from 1."""
    steps = (
        f"\n#### Step {n}: {title.format(n=n)} {{#step-{n}}}\n\n**References:** (#phase-overview)\n"
        for n in range(1, count + 1)
    )
    return shapes.HEAD + "".join(steps)
