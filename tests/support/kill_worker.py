"""A worker that claims a step and makes a mess of its worktree until somebody kills it.

`python kill_worker.py '{"worktree": ..., "number": 7, "seed": 1, "life": 5, "steps": 40, "named":
true}'`: with its process id, or without and under a lease that is over at once. It
prints one line for each thing that it did. What it makes is its own: nothing that an earlier
worker left in the same worktree is written over.
"""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

from tugtool.cli.main import main

NAMES = ("plain", "two words", "ünï", "-option", "a\nb", "deep/er/one", 'quo"te', ".hidden", "*")
COMMIT_POINTS = ("intent", "rotated", "logged", "added")


class Worker:
    """One worktree, and everything that can be left lying in it."""

    def __init__(self, worktree: str, number: int, seed: int, life: int) -> None:
        self.top, self.number, self.life = Path(worktree), number, life
        self.random = random.Random(seed)
        self.made = 0

    def git(self, *words: str) -> None:
        # Whoever waits for the end of `life` waits for git's end too.
        command = ["git", "-c", "core.safecrlf=false", *words]
        subprocess.run(command, cwd=self.top, capture_output=True, pass_fds=[self.life])

    def fresh(self) -> Path:
        self.made += 1
        name = f"{self.random.choice(NAMES)}.{self.number}.{self.made}"
        path = self.top / "new" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def bytes(self) -> bytes:
        size = self.random.choice((0, 1, 50, 5000, 300_000))
        return f"{self.number}.{self.made}\n".encode() + self.random.randbytes(size)

    def untracked(self) -> None:
        self.fresh().write_bytes(self.bytes())

    def changed(self) -> None:
        with (self.top / "tracked" / str(self.number)).open("ab") as file:
            file.write(self.bytes())

    def deleted(self) -> None:
        (self.top / "gone" / str(self.number)).unlink(missing_ok=True)

    def linked(self) -> None:
        path = self.fresh()
        path.symlink_to(f"to nowhere {self.number}.{self.made}")

    def executable(self) -> None:
        path = self.fresh()
        path.write_bytes(self.bytes())
        path.chmod(0o755)

    def staged_twice(self) -> None:
        path = self.fresh()
        path.write_bytes(b"staged only " + self.bytes())
        self.git("add", "--", str(path))
        # As long as before, often: within one second git cannot tell it from outside.
        path.write_bytes(b"now changed " + self.bytes())

    def staged_and_deleted(self) -> None:
        path = self.fresh()
        path.write_bytes(b"staged, then deleted " + self.bytes())
        self.git("add", "--", str(path))
        path.unlink()

    def committed(self) -> None:
        self.untracked()
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=work")

    def detached(self) -> None:
        self.git("checkout", "--quiet", "--detach")
        self.committed()

    def conflicting(self) -> None:
        path = self.top / "conflict"
        if path.read_text() == "base\n":
            path.write_text(f"ours {self.number}\n")
            self.git("commit", "--quiet", "--message=ours", "--", "conflict")
            self.git("merge", "--quiet", "theirs")

    def step_committed(self) -> None:
        """Die in the middle of `tugcode commit`."""
        if self.random.random() < 0.2:
            point = self.random.choice(COMMIT_POINTS)
            os.environ["TUGCODE_CRASH_AT"] = f"commit.{point}"
            words = ("commit", "--plan", "work", "--step", self.step, "--message", "half")
            quiet(*words, "--json", "-C", str(self.top))

    def run(self, steps: int, *, named: bool) -> None:
        self.step = claimed(self.top, named=named)
        say("claimed", self.step)
        deeds = [
            *(self.untracked, self.changed, self.deleted, self.linked, self.executable),
            *(self.staged_twice, self.staged_and_deleted, self.committed, self.detached),
            *(self.conflicting, self.step_committed, self.untracked, self.changed),
        ]
        for _ in range(steps):
            deed = self.random.choice(deeds)
            deed()
            say(deed.__name__)


def quiet(*words: str) -> None:
    keep = sys.stdout
    with open(os.devnull, "w") as nowhere:
        sys.stdout = nowhere
        main(list(words))
    sys.stdout = keep


def claimed(top: Path, *, named: bool) -> str:
    from io import StringIO

    keep, sys.stdout = sys.stdout, StringIO()
    how = ["--holder-pid", str(os.getpid())] if named else ["--lease-duration", "0.001"]
    main(["state", "claim", "work", *how, "--json", "-C", str(top)])
    answer, sys.stdout = sys.stdout.getvalue(), keep
    return json.loads(answer)["data"]["anchor"]


def say(*words: str) -> None:
    print(*words, flush=True)


if __name__ == "__main__":
    told = json.loads(sys.argv[1])
    worker = Worker(told["worktree"], told["number"], told["seed"], told["life"])
    worker.run(told["steps"], named=told["named"])
    say("idle")
    sys.stdin.read()
