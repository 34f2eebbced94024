"""What a command costs beside a bare interpreter: CPU time of an installed, compiled package.

    python bench/startup.py [--rounds N] [--seed N] [--self-test]

Installs the project into a fresh virtual environment, makes a repository with one plan,
and measures as `harness.py` says; exit status 1 if a budget is broken. `--self-test` adds
a command that is slow on purpose and fails unless it is caught.
"""

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

import harness
from harness import Budget, Row

BUDGET = Budget(1.6, 2.0)

PLAN = """\
## Phase 1.0: Start-up {#phase-startup}

**Purpose:** Measure how long a command takes.

### Plan Metadata {#plan-metadata}

| Field | Value |
|-------|-------|
| Owner | bench |
| Status | active |
| Last updated | 2026-01-01 |

### Phase Overview {#phase-overview}

One step that needs nothing, and one that needs it.

### Execution Steps {#execution-steps}

#### Step 1: Measure {#step-1}

**Commit:** `feat: measure`

**References:** (#phase-overview)

**Tasks:**
- [ ] Run every command

**Tests:**
- [ ] The numbers are there

**Checkpoint:**
- [ ] `true`

#### Step 2: Compare {#step-2}

**Depends on:** #step-1

**Commit:** `feat: compare`

**References:** (#phase-overview)

**Tasks:**
- [ ] Divide by the bare interpreter

**Tests:**
- [ ] The ratios are there

**Checkpoint:**
- [ ] `true`
"""


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="tugtool-startup-") as name:
        place = Path(name).resolve()
        environment = harness.environment(place)
        binaries = harness.install(place / "venv", environment)
        repository = harness.repository(place / "repository", PLAN, environment)
        rows = _rows(binaries)
        if options.self_test:
            name = "tugcode --help, slow on purpose"
            rows.append(harness.planted(binaries, name, ["--help"], BUDGET))
        print(f"{options.rounds} rounds, seed {options.seed}, {harness.versions(binaries)}\n")
        times = harness.measure(rows, options.rounds, options.seed, repository, environment)
    results = harness.compare(rows, times)
    harness.show(results)
    return harness.judge(results)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=40, metavar="N")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), metavar="N")
    parser.add_argument("--self-test", action="store_true", help="plant a slow command")
    return parser.parse_args()


def _rows(binaries: Path) -> list[Row]:
    python, tugcode = str(binaries / "python"), str(binaries / "tugcode")
    git = shutil.which("git")
    assert git, "git is not installed"
    return [
        Row(harness.BARE, [python, "-c", "pass"]),
        Row("python -I -S -c pass", [python, "-I", "-S", "-c", "pass"]),
        Row("python -c 'import sqlite3'", [python, "-c", "import sqlite3"]),
        Row("git --version", [git, "--version"]),
        Row("tugcode --help", [tugcode, "--help"], BUDGET),
        Row("tugcode validate --help", [tugcode, "validate", "--help"], BUDGET),
        Row("tugcode version", [tugcode, "version"], BUDGET),
        Row("tugcode --version --json", [tugcode, "--version", "--json"], BUDGET),
        Row("tugcode config --json", [tugcode, "config", "--json"]),
        Row("tugcode list --json", [tugcode, "list", "--json"]),
        Row("tugcode validate --json", [tugcode, "validate", "--json"]),
    ]


if __name__ == "__main__":
    sys.exit(main())
