"""The state in PostgreSQL: many processes on one plan and on twenty, beside a job queue; a claim.

    python bench/postgres.py [--quick] [--rounds N] [--seed N] [--self-test] [--results FILE]

One server for all, with fsync and synchronous commits. 200 processes claim and complete steps of
one plan: every step once, nobody refused, fair shares. Then 1, 8 and 32 workers on one plan, on
twenty plans, and as workers of procrastinate, by turns. Round trips of every operation, the cost of
a claim by the size of the plan, and a claim as a process beside one in a file. Exit status 1 if a
budget is broken. `--self-test` takes the lock away that makes a plan's workers wait for each
other, and fails unless that is caught. procrastinate has to be in `.bench` (`make bench`).
"""

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import harness
import shapes
from harness import Bench, Row

import server as servers

MANY, CROWD, PLANS = 32, 200, 20
PEER = harness.PROJECT / ".bench" / "bin" / "python"
CROWD_NOTE = (
    "Processes with a connection each, which claim and complete steps of one plan as fast as they "
    "can, every commit synced. Twice: steps that two completed, or that the record and the workers "
    "tell differently."
)
RATE_NOTE = (
    "Pairs of a claim and a completion per second, and jobs per second of procrastinate's own "
    "worker with an empty task: two synced commits each, on the same server, by turns; medians of "
    "the rounds. The first two seconds do not count on either side: new connections read the "
    "catalog and plan their statements. Server and workers share the machine's cores. The commits "
    "of one plan come one after the other, and those of twenty plans wait for each other from the "
    "number of their event to the end of the commit. Neither holds a lock while it waits for the "
    "disk, so they share these waits, as the queue's commits do. On a machine that does much else, "
    "every hand-over of a plan waits for a processor, so one plan falls behind more than the "
    "others."
)
TRIPS_NOTE = (
    "A process that keeps its connection, as `implement` does; medians. Begin, lock, clock and the "
    "first questions are one round trip; changes, events, the commit and the wait for its sync are "
    "another. The notice to waiting commands is a statement of its own after that, which is sent "
    "along."
)
SIZES_NOTE = "CPU time of one claim, here and in its server process, medians."
PROCESS_NOTE = (
    "`state claim --json` as a process: its own CPU time, without the server's, beside the same "
    "with a file. TLS with a certificate that is verified, and a password by SCRAM. The connection "
    "is new every time."
)


def main() -> int:
    with harness.bench(__doc__, rounds=5, quick=1) as bench, servers.running() as server:
        if bench.options.self_test:
            broken = _self_test(bench, server)
        else:
            broken = _crowd(bench, server.url()) + _rates(bench, server) + _trips(bench, server)
            broken += _sizes(bench, server) + _processes(bench, server)
    print(f"\n{broken} budgets broken" if broken else "\nevery budget is kept")
    return 1 if broken else 0


def _inside(bench: Bench, *words: object) -> Any:
    return json.loads(bench.inside("crowd.py", *map(str, words)))


def _crowd(bench: Bench, url: str) -> int:
    count, seconds = (20, 3) if bench.options.quick else (CROWD, 12)
    found = _inside(bench, "work", url, count, 1, seconds)
    least, most = found["shares"][0], found["shares"][-1]
    row = (count, found["refused"], found["twice"], least, most, least / max(1, most))
    columns = ("processes", "refused", "twice", "least steps", "most steps", "least / most",
               "longest claim, s", "pairs/s")  # fmt: skip
    row = (*row, found["longest"], found["rate"])
    print("  ".join(f"{name} {cell:.4g}" for name, cell in zip(columns, row, strict=True)))
    title = "Many processes on one plan in PostgreSQL"
    bench.results.table("postgres-crowd", title, CROWD_NOTE, columns, [row])
    bad = bench.results.figure("postgres-refused", found["refused"] + found["twice"])
    return bad + bench.results.figure("postgres-share", least / max(1, most))


def _rates(bench: Bench, server: servers.Server) -> int:
    seconds = 2 if bench.options.quick else 6
    url, rows, ratios = server.url(), [], {}
    server.ask("create database jobs", "postgres")
    queue = [str(PEER), str(Path(__file__).with_name("jobs.py")), server.url("jobs")]
    print(f"\n{'workers':>8}{'queue':>8}{'1 plan':>8}{'20':>8}  jobs or pairs/s; shares of 1 plan")
    for workers in (1, 8, MANY):
        found: dict[str, list[float]] = {"queue": [], "one": [], "many": []}
        for _ in range(bench.options.rounds):
            said = harness.run([*queue, str(workers), str(seconds)], bench.environment)
            found["queue"].append(json.loads(said)["rate"])
            one = _inside(bench, "work", url, workers, 1, seconds)
            many = _inside(bench, "work", url, workers, PLANS, seconds)
            found["one"].append(one["rate"])
            found["many"].append(many["rate"])
        queued, alone, together = (statistics.median(each) for each in found.values())
        ratios[workers] = {
            "postgres-one": _ratio(found["one"], found["queue"]),
            "postgres-many": _ratio(found["many"], found["queue"]),
            "postgres-plans": _ratio(found["many"], found["one"]),
        }
        rows.append((workers, queued, alone, together, *ratios[workers].values()))
        shares = f"{one['shares'][0]} to {one['shares'][-1]}"
        print(f"{workers:>8}{queued:>8.0f}{alone:>8.0f}{together:>8.0f}  {shares}", flush=True)
    columns = ("workers", "procrastinate, jobs/s", "one plan, pairs/s", "20 plans, pairs/s",
               "one plan / jobs", "20 plans / jobs", "20 plans / one")  # fmt: skip
    title = "Claim and complete in PostgreSQL, beside a job queue"
    bench.results.table("postgres-rates", title, RATE_NOTE, columns, rows)
    return sum(bench.results.figure(id, value) for id, value in ratios[MANY].items())


def _ratio(ours: list[float], theirs: list[float]) -> float:
    """Return the median of the rounds' ratios: what else the machine does changes with time."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def _trips(bench: Bench, server: servers.Server) -> int:
    found = _inside(bench, "operations", server.url(), 30 if bench.options.quick else 150)
    columns = ("operation", "round trips", "statements", "CPU us, here", "CPU us, server")
    rows = [(name, *figures) for name, figures in found.items()]
    print(f"\n{columns[0]:<28}" + "".join(f"{name:>16}" for name in columns[1:]))
    for name, *figures in rows:
        print(f"{name:<28}" + "".join(f"{figure:>16.0f}" for figure in figures))
    title = "Round trips of an operation in PostgreSQL"
    bench.results.table("postgres-trips", title, TRIPS_NOTE, columns, rows)
    worst = max(row[1] for row in rows if row[0].startswith(("claim", "complete")))
    return bench.results.figure("postgres-trips", worst)


def _sizes(bench: Bench, server: servers.Server) -> int:
    sizes = ("100", "1000") if bench.options.quick else ("100", "1000", "10000")
    found = _inside(bench, "sizes", server.url(), ",".join(sizes), 80)
    columns = ("steps in the plan", "CPU us, here", "CPU us, server")
    rows = [(int(size), *found[size][2:]) for size in sizes]
    print()
    for row in rows:
        print(f"a claim in a plan of {row[0]:>6} steps: {row[1]:.0f} us here, {row[2]:.0f} there")
    title = "A claim in PostgreSQL by the size of the plan"
    bench.results.table("postgres-sizes", title, SIZES_NOTE, columns, rows)
    costs = [sum(row[1:]) for row in rows]
    return bench.results.figure("postgres-growth", costs[-1] / costs[0])


def _processes(bench: Bench, server: servers.Server) -> int:
    rounds = bench.options.rounds * 8
    plan = shapes.plan("free", rounds + 10)
    # The password is where libpq looks for it: in the home directory.
    with servers.tls(server, bench.place) as secure:
        urls = {"a file": "", "PostgreSQL, Unix socket": server.url(), "TLS and SCRAM": secure}
        rows = [Row(harness.BARE, [bench.python, "-c", "pass"])]
        for n, (name, url) in enumerate(urls.items()):
            path = bench.repository(f"process-{n}", plan, recorded=not url)
            if url:
                lines = f'[state]\nurl = "{url}"\nrepository = "bench/{n}"\n'
                (path / ".tugtool" / "config.toml").write_text(lines)
                words = bench.tugcode("state", "init", "bench", "--create-database")
                harness.run(words, bench.environment, path)

            def argv(turn: int, path: Path = path) -> list[str]:
                where = ["--json", "-C", str(path), "--worktree", f"claimer-{turn}"]
                return bench.tugcode("state", "claim", "bench", *where)

            rows.append(Row(f"state claim, {name}", argv))
        seed = bench.options.seed
        times = harness.measure(rows, rounds, seed, bench.place, bench.environment)
    results = harness.compare(rows, times, beside="state claim, a file")
    print()
    harness.show(results)
    told = [(each.row.name, each.by_median) for each in results]
    columns = ("what", "x `state claim` with a file")
    bench.results.table("postgres-process", "A claim as a process", PROCESS_NOTE, columns, told)
    _, _, plain, safe = results
    figure = bench.results.figure
    return figure("postgres-claim", plain.by_median) + figure("postgres-tls", safe.by_median)


def _self_test(bench: Bench, server: servers.Server) -> int:
    """Let nobody wait for the plan's lock: steps must be seen to be given out twice."""
    server.ask("alter database tugtool set search_path = public")
    server.ask(
        "create function public.hashtextextended(text, bigint) returns bigint volatile"
        " language sql as 'select (random() * 1e15)::bigint'"
    )
    found = _inside(bench, "work", f"{server.url()}&options=-csearch_path%3Dpublic", 8, 1, 3)
    caught = bool(found["refused"] or found["twice"])
    print(f"self-test: workers without a lock are {'caught' if caught else 'NOT caught'}")
    return int(not caught)


if __name__ == "__main__":
    sys.exit(main())
