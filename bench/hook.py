"""Measure the guard's cost before every tool call, beside a bare interpreter.

    python bench/hook.py [--quick] [--rounds N] [--seed N] [--self-test] [--results FILE]

Installs the project into a fresh virtual environment and gives the hook the most frequent calls
of agents: a file to read, one to edit, a test to run, and one that is blocked. Measures as
`harness.py` says; exit status 1 if a budget is broken. `--self-test` adds a slow hook and fails
unless it is caught.
"""

import json
import sys
from pathlib import Path

import harness
from harness import Budget, Row

BUDGET = Budget(2.0, 2.5)
NOTE = "CPU time of the guard's process for one call of a tool, beside a bare start."
HOOK = ["hook", "pre-tool-use"]
#: The call, its agent, and the hook's expected exit status.
CALLS = {
    "no role, Read": (None, "Read", {"file_path": "src/a.py"}, 0),
    "coder, Edit": ("coder", "Edit", {"file_path": "src/a.py", "new_string": "x" * 20_000}, 0),
    "coder, Bash": ("coder", "Bash", {"command": "cd sub && make test 2>&1 | tail -n 40"}, 0),
    "coder, Bash, tugcode": ("coder", "Bash", {"command": "tugcode state show plan --json"}, 0),
    "coder, Bash, blocked": ("coder", "Bash", {"command": "sh -c 'make && git commit -am x'"}, 2),
    "reviewer, Write, blocked": ("reviewer", "Write", {"file_path": "/a", "content": "x"}, 2),
}


def main() -> int:
    with harness.bench(__doc__, rounds=40, quick=5) as bench:
        rows = _rows(bench.binaries, bench.place)
        if bench.options.self_test:
            rows.append(_planted(bench.binaries, rows[-1]))
        rounds, seed = bench.options.rounds, bench.options.seed
        times = harness.measure(rows, rounds, seed, bench.place, bench.environment)
        results = harness.compare(rows, times)
        harness.show(results)
        harness.tell(bench.results, "hook", "The guard before a tool call", NOTE, results)
    return harness.judge(results)


def _rows(binaries: Path, place: Path) -> list[Row]:
    python, tugcode = str(binaries / "python"), str(binaries / "tugcode")
    rows = [Row(harness.BARE, [python, "-c", "pass"])]
    # A coder edits in a worktree only.
    tree = place / ".tugtree" / "work"
    tree.mkdir(parents=True, exist_ok=True)
    (tree / ".git").write_text(f"gitdir: {place}/.git/worktrees/work\n")
    for number, (name, (role, tool, given, ends)) in enumerate(CALLS.items()):
        file = place / f"call-{number}.json"
        facts = {"session_id": "s", "cwd": str(tree), "hook_event_name": "PreToolUse"}
        facts |= {"agent_type": f"tugplug:{role}-agent"} if role else {}
        file.write_text(json.dumps({**facts, "tool_name": tool, "tool_input": given}))
        rows.append(Row(name, [tugcode, *HOOK], BUDGET, given=str(file), ends=ends))
    return rows


def _planted(binaries: Path, like: Row) -> Row:
    slow = harness.planted(binaries, "slow on purpose", HOOK, BUDGET)
    return slow._replace(given=like.given, ends=like.ends)


if __name__ == "__main__":
    sys.exit(main())
