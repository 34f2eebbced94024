"""What the guard costs a client before every tool call, beside a bare interpreter.

    python bench/hook.py [--rounds N] [--seed N] [--self-test]

Installs the project into a fresh virtual environment and gives the hook the calls that agents
make most: a file to read, one to edit, a test to run, and one that is blocked. Measures as
`harness.py` says; exit status 1 if a budget is broken. `--self-test` adds a hook that is slow on
purpose and fails unless it is caught.
"""

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path

import harness
from harness import Budget, Row

BUDGET = Budget(2.0, 2.5)
HOOK = ["hook", "pre-tool-use"]
#: What is called, by whom, and how the hook must end.
CALLS = {
    "no role, Read": (None, "Read", {"file_path": "src/a.py"}, 0),
    "coder, Edit": ("coder", "Edit", {"file_path": "src/a.py", "new_string": "x" * 20_000}, 0),
    "coder, Bash": ("coder", "Bash", {"command": "cd sub && make test 2>&1 | tail -n 40"}, 0),
    "coder, Bash, tugcode": ("coder", "Bash", {"command": "tugcode state show plan --json"}, 0),
    "coder, Bash, blocked": ("coder", "Bash", {"command": "sh -c 'make && git commit -am x'"}, 2),
    "reviewer, Write, blocked": ("reviewer", "Write", {"file_path": "/a", "content": "x"}, 2),
}


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="tugtool-hook-") as name:
        place = Path(name).resolve()
        environment = harness.environment(place)
        binaries = harness.install(place / "venv", environment)
        rows = _rows(binaries, place)
        if options.self_test:
            rows.append(_planted(binaries, rows[-1]))
        print(f"{options.rounds} rounds, seed {options.seed}, {harness.versions(binaries)}\n")
        times = harness.measure(rows, options.rounds, options.seed, place, environment)
    results = harness.compare(rows, times)
    harness.show(results)
    return harness.judge(results)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=40, metavar="N")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), metavar="N")
    parser.add_argument("--self-test", action="store_true", help="plant a slow hook")
    return parser.parse_args()


def _rows(binaries: Path, place: Path) -> list[Row]:
    python, tugcode = str(binaries / "python"), str(binaries / "tugcode")
    rows = [Row(harness.BARE, [python, "-c", "pass"])]
    for number, (name, (role, tool, given, ends)) in enumerate(CALLS.items()):
        file = place / f"call-{number}.json"
        facts = {"session_id": "s", "cwd": str(place), "hook_event_name": "PreToolUse"}
        facts |= {"agent_type": f"tugplug:{role}-agent"} if role else {}
        file.write_text(json.dumps({**facts, "tool_name": tool, "tool_input": given}))
        rows.append(Row(name, [tugcode, *HOOK], BUDGET, given=str(file), ends=ends))
    return rows


def _planted(binaries: Path, like: Row) -> Row:
    slow = harness.planted(binaries, "slow on purpose", HOOK, BUDGET)
    return slow._replace(given=like.given, ends=like.ends)


if __name__ == "__main__":
    sys.exit(main())
