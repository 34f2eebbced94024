"""A worker on one machine: CLOCK (seconds ahead), CLONE, and at which claim it dies (0: never).

It claims steps of `work` until all are completed, each in its one worktree, and prints what it did.
"""

import contextlib
import io
import json
import os
import signal
import sys
from pathlib import Path

from pg_clock import shift


class Commands:
    """Commands of this machine, in this process."""

    def __init__(self, clone: str) -> None:
        from tugtool.cli.main import main

        self.main, self.clone = main, clone

    def run(self, *words: str, at: str = "") -> dict:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = self.main(["-C", at or self.clone, *words, "--json"])
        envelope = json.loads(out.getvalue())
        assert status == 0, envelope["issues"]
        return envelope["data"]


def work(commands: Commands, dies_at: int) -> None:
    """Do one step after the other until none is left."""
    path = commands.run("worktree", "create", "work", "--new")["worktree_path"]
    claims = 0
    while True:
        # Long enough for a step on a busy machine; the others wait as long for a worker that dies.
        claim = commands.run("claim", "work", "--wait", "2", "--lease-duration", "15", at=path)
        if claim.get("all_completed"):
            return
        if not claim["claimed"]:
            continue
        anchor, claims = claim["anchor"], claims + 1
        if claim["missing_commits"]:
            commands.run("worktree", "sync", "work", at=path)
        (Path(path) / f"{anchor}.txt").write_text(f"{anchor} by {os.environ['TUGCODE_MACHINE']}\n")
        if claims == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        commands.run("state", "update", "work", anchor, "--all", "completed", at=path)
        words = ("commit", "--plan", "work", "--step", anchor, "--message", f"feat: {anchor}")
        done = commands.run(*words, at=path)
        print(json.dumps({"step": anchor, "published": done.get("published")}), flush=True)


if __name__ == "__main__":
    shift(float(sys.argv[1]))
    work(Commands(sys.argv[2]), int(sys.argv[3]))
