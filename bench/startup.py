"""Measure commands as processes, beside a bare interpreter and the machine's floor.

    python bench/startup.py [--quick] [--rounds N] [--seed N] [--self-test] [--results FILE]

CPU time of whole processes of an installed, compiled package, as `harness.py` says: the most
frequent commands of agents, each time on a fresh step; the same claim in C and in SQLite's own
shell; and the parts of a claim. Exit status 1 if a budget is broken. `--self-test` adds slow
commands and fails unless they are caught.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import claims
import harness
import shapes
from harness import Bench, Budget, Result, Row

HERE = Path(__file__).resolve().parent
WORDS = Budget(1.2, 1.6)
STATE = Budget(1.85, 1.9)
SERVED = Budget(2.5, 4.0)
WORKTREES = Budget(2.2, 2.3)
#: For people, and rarely: it may read every plan.
LOOK = Budget(2.5, 3.5)
SQLITE = "python -c 'import sqlite3'"
CLAIM_IN_C = "claim in C"
#: The native floor: as little work as possible, with the tool made for it.
SHELL = """
pragma foreign_keys = on; begin immediate;
update steps set status = 'claimed', claimed_by = 'w', claimed_at = '2026-01-01T00:00:00.000Z',
  heartbeat_at = '2026-01-01T00:00:00.000Z', lease_expires_at = '2099-01-01T00:00:00.000Z'
 where plan_path = '{plan}' and anchor = (select anchor from steps where plan_path = '{plan}'
   and parent_anchor is null and status = 'pending' and open_deps = 0 and parked_at is null
   order by step_index limit 1); commit;
"""
NOTE = (
    "CPU time of whole processes, user and system, as a multiple of `python -c pass` (x) and of "
    "`python -c 'import sqlite3'`; medians of interleaved rounds. The claims in C and by SQLite's "
    "shell do only the transaction: no plan file, no lock queue, no answer. What is over its "
    "target is so for the reasons given with the budgets; `status` reads every plan, and `release` "
    "also looks whether work is to be saved."
)
PARTS = (
    "Each row does what the one before does, and one thing more; the last one is the command. "
    "A module is found, read and unmarshalled at every start: nothing stays between two commands."
)


def main() -> int:
    with harness.bench(__doc__, rounds=40, quick=8) as bench:
        rows = [*_floor(bench), *_plain(bench), *_holders(bench)]
        if bench.options.self_test:
            rows += _planted(bench)
        times = harness.measure(
            rows, bench.options.rounds, bench.options.seed, bench.place, bench.environment
        )
        results = harness.compare(rows, times)
        harness.show(results)
        broken = harness.judge(results)
        _tell(bench, results)
        broken += _published(bench, results) * (not bench.options.self_test)
        broken += _served(bench)
        _parts(bench)
    return 1 if broken else 0


def _floor(bench: Bench) -> list[Row]:
    count = 3 * bench.options.rounds
    database = bench.repository("floor", shapes.plan("free", count)) / ".tugtool" / "state.db"
    git = shutil.which("git")
    assert git, "git is not installed"
    rows = [
        Row(harness.BARE, [bench.python, "-c", "pass"]),
        Row("python -I -S -c pass", [bench.python, "-I", "-S", "-c", "pass"]),
        Row(SQLITE, [bench.python, "-c", "import sqlite3"]),
        Row("git --version", [git, "--version"]),
    ]
    if native := _compiled(bench.place):
        rows.append(Row(CLAIM_IN_C, [native, str(database), claims.PLAN, "w"]))
    if shell := shutil.which("sqlite3"):
        rows.append(Row("claim by SQLite's shell", [shell, str(database), _by_shell()]))
    return rows


def _by_shell() -> str:
    return SHELL.format(plan=claims.PLAN)


def _compiled(place: Path) -> str | None:
    target = str(place / "claim")
    compiler = shutil.which("cc")
    words = ["-O2", "-o", target, str(HERE / "claim.c"), "-lsqlite3"]
    if compiler is None or subprocess.run([compiler, *words], capture_output=True).returncode:
        print("no C compiler with sqlite3.h here: the claim in C is left out")
        return None
    return target


def _plain(bench: Bench) -> list[Row]:
    """Return commands that can run again and again, in a repository with one small plan."""
    where = ["-C", str(bench.repository("plain", shapes.plan("diamonds", 12)))]
    lines = {
        "--help": WORDS,
        "validate --help": WORDS,
        "--version": WORDS,
        "config --json": None,
        "list --json": None,
        "validate --json": None,
        "state show bench --json": LOOK,
        "state show bench": None,
        "status --json": LOOK,
        "worktree list --json": WORKTREES,
    }
    return [
        Row(f"tugcode {line}", bench.tugcode(*where, *line.split()), budget)
        for line, budget in lines.items()
    ]


def _holders(bench: Bench) -> list[Row]:
    """Return the commands of a step's holder."""
    each = bench.options.rounds + 1
    # A claim of a released step also looks for earlier work, so each gets a fresh one.
    paths = {name: _held(bench, name, each) for name in ("holders", "released")}

    def state(*words: str, where: str, who: str) -> list[str]:
        return bench.tugcode("state", *words, "--json", "-C", paths[where], "--worktree", who)

    def claim(n: int) -> list[str]:
        return state("claim", "bench", where="holders", who=f"claimer-{n}")

    rows = [Row("tugcode state claim --json", claim, STATE)]
    for at, name in enumerate(claims.HOLDERS):

        def argv(n: int, at: int = at, name: str = name) -> list[str]:
            more = ["--all-tasks", "completed"] if name == "update" else []
            where = "released" if name == "release" else "holders"
            step = f"step-{at * each + n}"
            return state(name, "bench", step, *more, where=where, who=claims.WORKTREE)

        rows.append(Row(f"tugcode state {name} --json", argv, STATE))
    return rows


def _held(bench: Bench, name: str, each: int) -> str:
    path = str(bench.repository(name, shapes.plan("free", 8 * each)))
    bench.inside("claims.py", "prepare", path, str(each))
    return path


def _planted(bench: Bench) -> list[Row]:
    where = str(bench.place / "plain")
    state = ["state", "ready", "bench", "--json", "-C", where]
    return [
        harness.planted(bench.binaries, "tugcode --help, slow on purpose", ["--help"], WORDS),
        harness.planted(bench.binaries, "state ready --json, slow on purpose", state, STATE),
    ]


def _tell(bench: Bench, results: list[Result]) -> None:
    medians = {each.row.name: each.median for each in results}
    floor = medians.get(CLAIM_IN_C)
    rows = []
    for each in results:
        if each.row.is_planted:
            continue
        ratios = (each.by_median, each.median / medians[SQLITE], floor and each.median / floor)
        target, gate = each.row.budget or (None, None)
        rows.append((each.row.name, *ratios, target, gate, each.verdict))
    columns = ("what", "x bare", "x import sqlite3", "x claim in C", "target", "gate", "verdict")
    bench.results.table("startup", "A command as a process", NOTE, columns, rows)
    shown = [row for row in rows if row[0] not in ("python -I -S -c pass", "git --version")]
    bars = ([str(row[0]) for row in shown], [float(row[1] or 0) for row in shown])
    bench.results.plot(
        "startup",
        "CPU time of a process beside a bare interpreter",
        ("", "x python -c pass"),
        {"x bare": bars},
        kind="bar",
    )


def _published(bench: Bench, results: list[Result]) -> int:
    by = {each.row.name: each for each in results}
    held = [by[f"tugcode state {name} --json"] for name in ("claim", "heartbeat", "complete")]
    worst = max(each.median for each in held)
    words = max(by["tugcode --help"].by_median, by["tugcode --version"].by_median)
    print()
    return (
        bench.results.figure("process-bare", worst / by[harness.BARE].median)
        + bench.results.figure("process-sqlite3", worst / by[SQLITE].median)
        + bench.results.figure("help-version", words)
    )


def _served(bench: Bench) -> int:
    """Measure a claim whose state a server on this machine has."""
    number = 2 * bench.options.rounds + 4
    path = str(bench.repository("served", shapes.plan("free", number)))
    with _serving(bench, path) as where:

        def claim(n: int) -> list[str]:
            words = ["state", "claim", "bench", "--json", "-C", path, "--worktree", f"claimer-{n}"]
            return bench.tugcode(*words)

        name = "tugcode state claim --json, state on a server"
        rows = [Row(harness.BARE, [bench.python, "-c", "pass"]), Row(name, claim, SERVED)]
        rounds, seed = bench.options.rounds, bench.options.seed
        times = harness.measure(rows, rounds, seed, bench.place, bench.environment | where)
    results = harness.compare(rows, times)
    print()
    harness.show(results)
    return bench.results.figure("process-served", results[1].by_median)


@contextmanager
def _serving(bench: Bench, path: str) -> Iterator[dict[str, str]]:
    """Serve a repository, with the packages of the tests' environment. Yield the variables."""
    words = [sys.executable, "-P", "-m", "tugtool", "-C", path, "serve", "--port", "0", "--json"]
    env = bench.environment | {"PYTHONPATH": str(harness.PROJECT / "src")}
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url, _, token = json.loads(server.stdout.readline())["data"]["url"].partition("#t=")
        yield {"TUGCODE_SERVER": url, "TUGCODE_TOKEN": token}
        server.terminate()


def _parts(bench: Bench) -> None:
    """Measure the parts of a claim: the same process with more and more of it."""
    where = str(bench.place / "holders")
    total = 8 * (bench.options.rounds + 1)
    words = bench.tugcode("state", "heartbeat", "bench", f"step-{total // 8}", "--json")
    words += ["-C", where, "--worktree", claims.WORKTREE]
    modules = _loaded(bench, words)
    lean = "import gc; gc.set_threshold(100_000)"
    end = "import os; os._exit(0)"
    loaded = "; ".join(f"import {name}" for name in modules)
    rows = [
        Row(harness.BARE, [bench.python, "-c", "pass"]),
        Row("without taking the interpreter apart", [bench.python, "-c", end]),
        Row(
            "+ SQLite's C module",
            [bench.python, "-c", f"{lean}; import tugtool.store.sqlite.file; {end}"],
        ),
        Row(f"+ our {len(modules)} modules", [bench.python, "-c", f"{lean}; {loaded}; {end}"]),
        Row("+ the work: `state heartbeat --json`", words),
    ]
    rounds = bench.options.rounds
    times = harness.measure(rows, rounds, bench.options.seed, bench.place, bench.environment)
    results = harness.compare(rows, times)
    print()
    harness.show(results)
    parts, before = [], 0.0
    for each in results:
        parts.append((each.row.name, each.by_median, each.by_median - before))
        before = each.by_median
    title = "What a state command is made of"
    bench.results.table("startup-parts", title, PARTS, ("up to here", "x bare", "more"), parts)


def _loaded(bench: Bench, words: list[str]) -> list[str]:
    """Return our modules that a command loads, in order."""
    # `tugcode` itself is a shell script, which starts this one.
    launcher = str(bench.binaries / "tugcode-python")
    argv = [bench.python, "-X", "importtime", launcher, *words[1:]]
    done = subprocess.run(argv, env=bench.environment, capture_output=True, text=True, check=True)
    names = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines()]
    return [name for name in names if name.startswith("tugtool")]


if __name__ == "__main__":
    sys.exit(main())
