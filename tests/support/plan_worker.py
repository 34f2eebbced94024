"""A process that carries a plan out: `plan_worker.py ROOT PLAN`, with nothing but commands.

It makes itself a worktree, says so, waits for a line, and goes on until all is done. What it
prints last is its worktree, the steps it did, and what it had to bring in for them.
"""

import json
import subprocess
import sys
from pathlib import Path


def tugcode(cwd: str, *words: str) -> dict:
    """The data of a command that succeeds."""
    command = [sys.executable, "-m", "tugtool", *words, "--json"]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return json.loads(done.stdout)["data"]


def carry_out(here: str, plan: str, claim: dict) -> list[str]:
    """Do the step that was claimed; the steps whose commits had to be brought in."""
    step, attempt = claim["anchor"], str(claim["attempt"])
    missing = [each["step_anchor"] for each in claim["missing_commits"]]
    if missing:
        merged = tugcode(here, "worktree", "sync", plan)["merged"]
        assert [each["step_anchor"] for each in merged] == missing
    rows = tugcode(here, "plan", "show", plan)["steps"]
    needs = next(row["depends_on"] or "" for row in rows if row["anchor"] == step)
    for need in needs.replace("#", "").replace(",", " ").split():
        assert Path(here, f"{need}.txt").exists(), f"{step} has to do without {need}"
    Path(here, f"{step}.txt").write_text(f"{step}\n")
    mine = (plan, step, "--attempt", attempt)
    tugcode(here, "state", "update", *mine, "--all", "completed")
    words = ("--plan", plan, "--step", step, "--attempt", attempt)
    done = tugcode(here, "commit", *words, "--message", f"Carry out {step}")
    assert (done["completed"], done["warnings"]) == (True, []), done
    return missing


def main(root: str, plan: str) -> None:
    made = tugcode(root, "worktree", "create", plan, "--new", "--claim")
    here, claim = made["worktree_path"], made["claim"]
    print("ready", flush=True)
    sys.stdin.readline()
    steps, brought = [], []
    while claim["claimed"] or not claim["all_completed"]:
        if claim["claimed"]:
            brought += carry_out(here, plan, claim)
            steps.append(claim["anchor"])
        claim = tugcode(here, "state", "claim", plan, "--wait", "20")
        assert claim["claimed"] or claim["all_completed"], f"nobody goes on: {claim}"
    print(json.dumps({"worktree": here, "steps": steps, "brought": brought}), flush=True)


main(*sys.argv[1:])
