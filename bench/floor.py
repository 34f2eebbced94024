"""The machine's floor: a plan's agents and bare git commands, and nothing else.

    python bench/floor.py SHAPE STEPS WORKERS AGENT

Threads, each with a worktree, take the steps in order as soon as their dependencies are done:
they merge those, run both agents, `git add`, `git commit`. There is no state, lease, log or
recovery; all notes are lost with the process. Prints the seconds it took.
"""

import os
import subprocess
import sys
import threading
import time

import shapes

ROLES = ("coder", "reviewer")


class Plan:
    """The done steps and their commits; one thread at a time looks."""

    def __init__(self, shape: str, steps: int) -> None:
        self.needs = {n: set(shapes.SHAPES[shape](n, steps)) for n in range(steps)}
        self.waiting = list(self.needs)
        self.commits: dict[int, str] = {}
        self.news = threading.Condition()

    def take(self) -> int | None:
        """Wait for the next step and return it; None if none is left."""
        with self.news:
            while self.waiting:
                for n in self.waiting:
                    if self.needs[n] <= self.commits.keys():
                        self.waiting.remove(n)
                        return n
                self.news.wait()
        return None

    def done(self, n: int, commit: str) -> None:
        """Record a step's commit."""
        with self.news:
            self.commits[n] = commit
            self.news.notify_all()


def git(*words: str, cwd: str) -> str:
    done = subprocess.run(["git", *words], cwd=cwd, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def work(plan: Plan, number: int, agent: str) -> None:
    path = os.path.join(os.getcwd(), ".floor", str(number))
    git("worktree", "add", "--quiet", "-b", f"floor-{number}", path, cwd=".")
    own: set[int] = set()
    while (n := plan.take()) is not None:
        others = [plan.commits[need] for need in sorted(plan.needs[n] - own)]
        for commit in others:
            git("merge", "--quiet", "--no-edit", commit, cwd=path)
        for role in ROLES:
            environment = {**os.environ, "TUGCODE_STEP": f"step-{n}", "TUGCODE_ROLE": role}
            subprocess.run(["sh", agent], cwd=path, env=environment, check=True, stdout=-3)
        git("add", "--all", cwd=path)
        git("commit", "--quiet", "--message", f"step-{n}", cwd=path)
        plan.done(n, git("rev-parse", "HEAD", cwd=path))
        own.add(n)


def main() -> None:
    shape, steps, workers, agent = sys.argv[1:]
    begun = time.monotonic()
    plan = Plan(shape, int(steps))
    threads = [
        threading.Thread(target=work, args=(plan, number, agent)) for number in range(int(workers))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(plan.commits) == int(steps)
    print(time.monotonic() - begun)


if __name__ == "__main__":
    main()
