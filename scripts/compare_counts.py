"""Compare the parser's counts for a directory of plans with the counts beside them.

    python scripts/compare_counts.py DIR

DIR holds Markdown files and COUNTS.jsonl, one object per file: `file`, `steps`,
`substeps`, `task`, `test`, `checkpoint`, `deps`. Exit status 1 if any differs.
"""

import json
import sys
from collections import Counter
from pathlib import Path

from tugtool.plan.parser import parse


def count(path: Path) -> dict[str, int]:
    """Return the parser's counts for one file."""
    plan = parse(path.read_text(encoding="utf-8"))
    every = list(plan.every_step())
    kinds = Counter(item.kind for step in every for item in step.items)
    return {
        "steps": len(plan.steps),
        "substeps": len(every) - len(plan.steps),
        "task": kinds["task"],
        "test": kinds["test"],
        "checkpoint": kinds["checkpoint"],
        "deps": sum(len(step.needs) for step in every),
    }


def main(directory: Path) -> int:
    """Print every difference, and return the exit status."""
    wrong = 0
    rows = [json.loads(row) for row in (directory / "COUNTS.jsonl").read_text().splitlines()]
    for row in rows:
        name = row.pop("file")
        found = count(directory / name)
        differing = {key: (found[key], row[key]) for key in row if found[key] != row[key]}
        if differing:
            wrong += 1
            print(f"{name}: found, expected: {differing}")
    print(f"{len(rows) - wrong} passed, {wrong} failed")
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1])))
