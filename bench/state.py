"""What a state command costs, and that its cost does not grow with the plan.

    python bench/state.py [--quick] [--rounds N] [--seed N] [--self-test]

Whole processes of an installed, compiled package beside a bare interpreter, as `harness.py`
says, each on a fresh step; claims at 10,000 steps beside claims at 100, for plans of every
shape; draining a long chain; other queues on the same machine. Exit status 1 if a budget
is broken. `--self-test` plants a slow import and a claim that reads the whole plan, and
fails unless both are caught.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import claims
import harness
import shapes
from harness import Budget, Row

from tugtool.store import open_store

HERE = Path(__file__).resolve().parent
BUDGET = Budget(2.0, 2.5)
MOST_GROWTH = 1.5
#: Ten times the steps may cost little more than ten times the work.
MOST_DRAIN_GROWTH = 12
PEERS = ("huey", "litequeue", "persist-queue")
#: The native floor: as little as possible, with the tool that is meant for it.
SHELL = """
pragma foreign_keys = on; begin immediate;
update steps set status = 'claimed', claimed_by = 'w', claimed_at = '2026-01-01T00:00:00.000Z',
  heartbeat_at = '2026-01-01T00:00:00.000Z', lease_expires_at = '2099-01-01T00:00:00.000Z'
 where plan_path = '{plan}' and anchor = (select anchor from steps where plan_path = '{plan}'
   and parent_anchor is null and status = 'pending' and open_deps = 0 and parked_at is null
   order by step_index limit 1); commit;
"""


class Bench(NamedTuple):
    """Where everything lies."""

    place: Path
    binaries: Path
    environment: dict[str, str]
    rounds: int
    seed: int

    def claims(self, *words: str) -> object:
        """What `claims.py` says, run with the installed package."""
        argv = [str(self.binaries / "python"), str(HERE / "claims.py"), *words]
        return json.loads(harness.run(argv, self.environment))

    def tugcode(self, *words: str) -> list[str]:
        return [str(self.binaries / "tugcode"), "state", *words, "--json"]

    def repository(self, name: str, shape: str, total: int) -> Path:
        """A repository whose plan is recorded."""
        plan = shapes.plan(shape, total)
        path = harness.repository(self.place / name, plan, self.environment)
        harness.run(self.tugcode("init", "bench"), self.environment, path)
        return path


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="tugtool-state-") as name:
        place = Path(name).resolve()
        environment = harness.environment(place)
        binaries = harness.install(place / "venv", environment)
        rounds = options.rounds or (15 if options.quick else 40)
        bench = Bench(place, binaries, environment, rounds, options.seed)
        print(f"{rounds} rounds, seed {bench.seed}, {harness.versions(binaries)}\n")
        broken = _processes(bench, plant=options.self_test)
        broken += _growth(bench, big=2000 if options.quick else 10_000, plant=options.self_test)
        broken += _draining(bench, 1000 if options.quick else 10_000)
        _peers(bench, 300 if options.quick else 2000)
    print(f"\n{broken} budgets broken" if broken else "\nevery budget is kept")
    return 1 if broken else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds, smaller plans")
    parser.add_argument("--rounds", type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), metavar="N")
    parser.add_argument("--self-test", action="store_true", help="plant what must be caught")
    return parser.parse_args()


def _processes(bench: Bench, *, plant: bool) -> int:
    each = bench.rounds + 1
    repository = bench.repository("processes", "free", 8 * each)
    bench.claims("prepare", str(repository), str(each))
    rows = [*_floor(bench), *_commands(bench, each)]
    if plant:
        name, words = "state ready --json, slow on purpose", ["state", "ready", "bench", "--json"]
        rows.append(harness.planted(bench.binaries, name, words, BUDGET))
    times = harness.measure(rows, bench.rounds, bench.seed, repository, bench.environment)
    results = harness.compare(rows, times)
    harness.show(results)
    return harness.judge(results)


def _floor(bench: Bench) -> list[Row]:
    python = str(bench.binaries / "python")
    database = str(bench.repository("floor", "free", 3 * bench.rounds) / ".tugtool" / "state.db")
    rows = [
        Row(harness.BARE, [python, "-c", "pass"]),
        Row("python -c 'import sqlite3'", [python, "-c", "import sqlite3"]),
    ]
    native = _compiled(bench.place)
    if native:
        rows.append(Row("claim in C", [native, database, claims.PLAN, "w"]))
    shell = shutil.which("sqlite3")
    if shell:
        statements = SHELL.format(plan=claims.PLAN)
        rows.append(Row("claim by the sqlite3 shell", [shell, database, statements]))
    else:
        print("no sqlite3 shell here")
    return rows


def _compiled(place: Path) -> str | None:
    target = str(place / "claim")
    compiler = shutil.which("cc")
    words = ["-O2", "-o", target, str(HERE / "claim.c"), "-lsqlite3"]
    if compiler is None or subprocess.run([compiler, *words], capture_output=True).returncode:
        print("no C compiler with sqlite3.h here: the claim in C is left out")
        return None
    return target


def _commands(bench: Bench, each: int) -> list[Row]:
    def claim(n: int) -> list[str]:
        return bench.tugcode("claim", "bench", "--worktree", f"claimer-{n}")

    rows = [Row("state claim --json", claim, BUDGET)]
    for at, name in enumerate(claims.HOLDERS):

        def argv(n: int, at: int = at, name: str = name) -> list[str]:
            more = ["--all-tasks", "completed"] if name == "update" else []
            step = f"step-{at * each + n}"
            return bench.tugcode(name, "bench", step, "--worktree", claims.WORKTREE, *more)

        rows.append(Row(f"state {name} --json", argv, BUDGET))
    return rows


def _growth(bench: Bench, *, big: int, plant: bool) -> int:
    print(f"\nclaim at {big:,} steps / at 100 steps   in process   whole process")
    broken = 0
    for shape in shapes.SHAPES:
        inside = float(str(bench.claims("flat", shape, "100", str(big))))
        whole = _whole(bench, shape, big)
        over = max(inside, whole) > MOST_GROWTH
        broken += over
        verdict = f"OVER the budget of {MOST_GROWTH}" if over else "in budget"
        print(f"{shape:<37}{inside:>10.2f}{whole:>16.2f}  {verdict}")
    if plant:
        linear = float(str(bench.claims("flat", "chain", "100", str(big), "--linear")))
        print(f"{'chain, without its index':<37}{linear:>10.2f}")
        caught = linear > MOST_GROWTH
        print(f"self-test {'passed' if caught else 'failed'}: the linear claim")
        broken += not caught
    return broken


def _whole(bench: Bench, shape: str, big: int) -> float:
    """The same of whole processes, on plans that were not written just now."""
    rows = [Row(harness.BARE, [str(bench.binaries / "python"), "-c", "pass"])]
    for total in (100, big):
        where = str(bench.repository(f"{shape}-{total}", shape, total))
        rows.append(Row(str(total), _claim_in(bench, where)))
    # A file that was touched within two seconds is read and hashed for every claim; the
    # plans that people carry out are older.
    time.sleep(2.5)
    rounds = min(bench.rounds, 20)
    times = harness.measure(rows, rounds, bench.seed, bench.place, bench.environment)
    ratios = {result.row.name: result.by_median for result in harness.compare(rows, times)}
    return ratios[str(big)] / ratios["100"]


def _claim_in(bench: Bench, where: str) -> Callable[[int], list[str]]:
    store = open_store(f"sqlite://{where}/.tugtool/state.db")
    copy = claims.copy_of(where)

    def argv(n: int) -> list[str]:
        claims.finish(store, copy)
        return bench.tugcode("claim", "bench", "-C", where, "--worktree", f"claimer-{n}")

    return argv


def _draining(bench: Bench, count: int) -> int:
    few, many = (float(str(bench.claims("drain", str(n)))) for n in (count // 10, count))
    growth = many / few
    over = growth > MOST_DRAIN_GROWTH
    verdict = f"OVER the budget of {MOST_DRAIN_GROWTH}" if over else "in budget"
    print(f"\ndraining a chain of {count:,} / of {count // 10:,}: {growth:.1f} times  {verdict}")
    return int(over)


def _peers(bench: Bench, count: int) -> None:
    install = [*harness.pip(bench.binaries / "python"), *PEERS]
    if subprocess.run(install, env=bench.environment, capture_output=True).returncode:
        print("\nother queues cannot be installed here")
    rates = bench.claims("peers", str(count))
    assert isinstance(rates, dict)
    print(f"\n{'fetch and finish, one worker':<37}{'jobs/s':>10}{'x tugtool':>12}")
    for name, rate in rates.items():
        if rate is None:
            print(f"{name:<37}{'not here':>10}")
        else:
            print(f"{name:<37}{rate:>10.0f}{rate / rates['tugtool']:>12.2f}")


if __name__ == "__main__":
    sys.exit(main())
