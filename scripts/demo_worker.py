"""One worker of the demo: claims steps of a plan and carries them out until all are done.

    python demo_worker.py PLAN WORKTREE [--hang] [--pace SECONDS]

A real orchestrator would call coding agents where this one only writes a line and ticks the
boxes, one every so many seconds. What says "by hand" it cannot judge, and leaves to a person.
With `--hang` it takes one step and then does nothing, like a worker that has died on its feet.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def tugcode(*words: str, given: str | None = None) -> dict:
    """Run one command and return its data."""
    command = ["tugcode", *words, "--json"]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout)
    if answer["status"] != "ok":
        sys.exit(f"{words}: {answer['issues']}")
    return answer["data"]


def work(plan: str, worktree: str, *, hang: bool, pace: float) -> None:
    """Claim, fetch what it needs, start, do, commit; and again."""
    me, name = ["--worktree", worktree], os.path.basename(worktree)
    while True:
        got = tugcode("state", "claim", plan, *me, "--wait", "60", "--holder-pid", str(os.getpid()))
        if not got["claimed"]:
            print(f"  {name}: nothing left ({got['reason']})", flush=True)
            return
        step, attempt = got["anchor"], ["--attempt", str(got["attempt"])]
        print(f"  {name}: claimed {step}{after(got['previous_attempt'])}", flush=True)
        if got["missing_commits"]:
            merged = tugcode("worktree", "sync", plan, *me)["merged"]
            brought = ", ".join(each["step_anchor"] for each in merged)
            print(f"  {name}: {step} needs {brought} from elsewhere: merged", flush=True)
        tugcode("state", "start", plan, step, *me, *attempt)
        if hang:
            signal.pause()
        do(plan, step, [*me, *attempt], pace)
        write(worktree, step)
        words = ["--plan", plan, "--step", step, *me, *attempt]
        done = tugcode("commit", *words, "--message", f"feat: {got['step_title']}")
        print(f"  {name}: committed {step} as {done['commit_hash'][:10]}", flush=True)


def after(previous: dict | None) -> str:
    """How the last attempt at the step ended, if there was one."""
    if previous is None:
        return ""
    return f", after {os.path.basename(previous['worktree'])} ({previous['outcome']})"


def write(worktree: str, step: str) -> None:
    """What an agent would have programmed."""
    path = Path(worktree, "shelf", f"{step.replace('-', '_')}.py")
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'"""What {step} asks for."""\n')


def do(plan: str, step: str, who: list[str], pace: float) -> None:
    """Tick the items of the step and its substeps, one by one."""
    shown = tugcode("state", "show", plan)
    family = {row["anchor"]: [row, *row["substeps"]] for row in shown["steps"]}[step]
    anchors = [row["anchor"] for row in family]
    order = ["task", "test", "checkpoint"]
    for item in sorted(shown["checklist_items"], key=lambda item: order.index(item["kind"])):
        if item["step_anchor"] not in anchors or item["status"] == "completed":
            continue
        # As if an agent were at work, for whoever watches; nothing waits for it to be so long.
        time.sleep(pace)
        manual = "by hand" in item["text"].lower()
        entry = {
            "kind": item["kind"],
            "ordinal": item["ordinal"],
            "step": item["step_anchor"],
            "status": "deferred" if manual else "completed",
            **({"reason": "an agent has no eyes"} if manual else {}),
        }
        if entry["step"] == step:
            del entry["step"]
        tugcode("state", "update", plan, step, *who, "--batch", given=json.dumps([entry]))


if __name__ == "__main__":
    options = sys.argv[3:]
    seconds = float(options[options.index("--pace") + 1]) if "--pace" in options else 0
    work(sys.argv[1], sys.argv[2], hang="--hang" in options, pace=seconds)
