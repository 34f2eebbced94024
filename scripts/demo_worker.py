"""One worker of the demo: claims steps of a plan and carries them out until all are done.

    python demo_worker.py PLAN NAME [--hang]

A real orchestrator would call coding agents where this one only ticks the boxes. With
`--hang` it takes one step and then does nothing, like a worker that has died on its feet.
"""

import json
import os
import signal
import subprocess
import sys


def tugcode(*words: str, given: str | None = None) -> dict:
    """Run one command and return its data."""
    command = ["tugcode", "state", *words, "--json"]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout)
    if answer["status"] != "ok":
        sys.exit(f"{words}: {answer['issues']}")
    return answer["data"]


def work(plan: str, name: str, *, hang: bool) -> None:
    """Claim, start, do, complete; and again."""
    me = ["--worktree", name]
    while True:
        got = tugcode("claim", plan, *me, "--wait", "60", "--holder-pid", str(os.getpid()))
        if not got["claimed"]:
            print(f"  {name}: nothing left ({got['reason']})", flush=True)
            return
        step, attempt = got["anchor"], ["--attempt", str(got["attempt"])]
        previous = got["previous_attempt"]
        after = ""
        if previous:
            after = f", after {os.path.basename(previous['worktree'])} ({previous['outcome']})"
        print(f"  {name}: claimed {step}{after}", flush=True)
        tugcode("start", plan, step, *me, *attempt)
        if hang:
            signal.pause()
        words = ("update", plan, step, *me, *attempt, "--batch", "--complete-remaining")
        tugcode(*words, given="[]")
        left = tugcode("complete", plan, step, *me, *attempt)["remaining_steps"]
        print(f"  {name}: completed {step}, {left} left", flush=True)


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], hang="--hang" in sys.argv[3:])
