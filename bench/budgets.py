"""The published budgets: for each row a target, and a gate that must not be broken.

Ratios within one run on one machine where possible. `why` is the page's reason for a missed
target or a missing measurement.
"""

from typing import NamedTuple


def verdict(
    value: float, gate: float | None, target: float | None = None, *, at_least: bool = False
) -> str:
    """Return the words for a budget's result, for every table and printed line."""

    def keeps(limit: float) -> bool:
        return value >= limit if at_least else value <= limit

    if gate is not None and not keeps(gate):
        return f"{'UNDER' if at_least else 'OVER'} the gate of {gate:g}"
    if target is None:
        return "in the gate"
    return "on target" if keeps(target) else f"in the gate, misses the target of {target:g}"


#: What was measured, its value, its gate, and the words for it.
Row = tuple[str, float, float, str]


def judged(what: str, value: float, gate: float, *, at_least: bool = False) -> Row:
    """Print and return a measured value beside its gate."""
    said = verdict(value, gate, at_least=at_least)
    print(f"{what}: {value:.2f}, {said}", flush=True)
    return what, value, gate, said


def concluded(rows: list[Row], *, planted: bool) -> int:
    """Print what came of all rows. Return 1 if a gate is broken, or a planted fault is missed."""
    broken = [row for row in rows if "the gate of" in row[3]]
    if planted:
        missed = [row[0] for row in rows if row not in broken]
        print(f"self-test: {len(broken)} planted are caught; not caught: {missed or 'none'}")
        return int(bool(missed))
    print(f"\n{len(broken)} budgets broken" if broken else "\nevery budget is kept")
    return int(bool(broken))


class Published(NamedTuple):
    """One row of the table of budgets. `at_least`: more is better."""

    what: str
    target: float | None
    gate: float | None
    unit: str = ""
    at_least: bool = False
    why: str = ""

    def is_broken(self, value: float) -> bool:
        return self.gate is not None and not self._keeps(value, self.gate)

    def is_on_target(self, value: float) -> bool:
        return self.target is None or self._keeps(value, self.target)

    def _keeps(self, value: float, limit: float) -> bool:
        return value >= limit if self.at_least else value <= limit

    def shown(self, value: float | None) -> str:
        """Return a figure with its unit."""
        if value is None:
            return "-"
        number = f"{value:.0f}" if value == int(value) else f"{value:.2f}"
        return f"{number}{self.unit}"

    def verdict(self, value: float) -> str:
        return verdict(value, self.gate, self.target, at_least=self.at_least)


_PARTS = (
    "The table of what a state command is made of has the parts: more than half is the interpreter "
    "and SQLite's C module, a third our own modules, each of which is found, read and unmarshalled "
    "at every start, and the rest the synced transaction. `complete`, the worst, also looks for a "
    "commit that was left half done."
)
_ROUNDS = (
    "Everybody waits for 31 others, each of which holds the lock for 2 ms and then for as long "
    "as the disk takes to sync; who is woken late waits for another round."
)
_ONE_PLAN = (
    "Steps of one plan are given out in the order of the plan, so its transactions come one after "
    "the other, and each hand-over waits for a processor; a queue's workers skip what others hold. "
    "The table has all numbers of workers."
)

#: In the order of the page.
PUBLISHED = {
    "process-bare": Published(
        "claim, heartbeat, complete as a process / `python -c pass`, CPU, the worst of them",
        *(1.85, 1.9, " x"),
        why=_PARTS,
    ),
    "process-sqlite3": Published(
        "the same / `python -c 'import sqlite3'`",
        *(1.1, 1.3, " x"),
        why="Our own modules and the synced transaction come on top of SQLite; not all of that is "
        "won back by loading SQLite's C module without the package around it.",
    ),
    "process-served": Published(
        "claim with the state on a server, over loopback, as a process / `python -c pass`, CPU",
        *(2.5, 4.0, " x"),
        why="The client reads the address, connects, sends and reads JSON; the server's work "
        "is not counted.",
    ),
    "help-version": Published(
        "`--help`, `--version` / `python -c pass`, CPU, the worse of them",
        *(1.2, 1.6, " x"),
        why="Version asks SQLite and git for theirs: a module and a process that other commands do "
        "without.",
    ),
    "confine": Published(
        "an agent's start when it is confined, beyond a free one, median",
        *(2, 5, " ms"),
        why="One rule is added for each directory; measured beside other work.",
    ),
    "growth": Published(
        "a claim at 10,000 steps / at 100 steps, CPU, the worst shape",
        *(1.2, 2.0, " x"),
    ),
    "writers-errors": Published("32 writers that hold 2 ms: refused for contention", 0, 0),
    "writers-share": Published(
        "32 writers that hold 2 ms: smallest / largest share", 0.4, 0.25, at_least=True, why=_ROUNDS
    ),
    "writers-wait": Published(
        "32 writers that hold 2 ms: longest wait", *(1.5, 3, " s"), why=_ROUNDS
    ),
    "wal": Published("log (WAL) under 32 saturating writers", *(5, 16, " MB")),
    "stampede": Published(
        "64 claim processes at once, wall / (64 x one alone), on two cores",
        *(0.55, 0.75, " x"),
        why="The commits come one after the other, so a claim that waits long for the disk gains "
        "nothing from a second core; the table has the floor of that moment beside it.",
    ),
    "postgres-refused": Published(
        "PostgreSQL, 200 processes on one plan: refused, or a step done twice", 0, 0
    ),
    "postgres-share": Published(
        "PostgreSQL, 200 processes on one plan: smallest / largest share",
        *(0.4, 0.25),
        at_least=True,
        why="Those who start first have the plan for themselves.",
    ),
    "postgres-one": Published(
        "PostgreSQL, 32 workers on one plan: pairs/s / procrastinate's jobs/s",
        *(1.0, 0.4, " x"),
        at_least=True,
        why=_ONE_PLAN,
    ),
    "postgres-many": Published(
        "PostgreSQL, 32 workers on 20 plans: pairs/s / procrastinate's jobs/s",
        *(1.5, 1.0, " x"),
        at_least=True,
        why="Both are limited by the processors, which server and workers share.",
    ),
    "postgres-plans": Published(
        "PostgreSQL, 32 workers: 20 plans / one plan",
        *(1.7, 1.2, " x"),
        at_least=True,
        why="The faster the disk and the freer the machine, the less one plan has to wait.",
    ),
    "postgres-trips": Published(
        "PostgreSQL: round trips of a claim or a completion, the worst", *(3, 3)
    ),
    "postgres-growth": Published(
        "PostgreSQL: a claim at 10,000 steps / at 100 steps, CPU", *(1.2, 2.0, " x")
    ),
    "postgres-claim": Published(
        "PostgreSQL claim process, Unix socket / SQLite claim process", *(2, 2.5, " x")
    ),
    "postgres-tls": Published(
        "PostgreSQL claim process, TLS and SCRAM / SQLite claim process", *(2.5, 3, " x")
    ),
    "agents-errors": Published(
        "1,000 agents on one PostgreSQL server: refused, or a step done twice", 0, 0
    ),
    "watchers-delay": Published(
        "PostgreSQL, 50 watchers: a notice arrives after, the slowest of them",
        *(200, 1000, " ms"),
        why="50 processes wake up at once for every event, and share two processors.",
    ),
    "watchers-claims": Published(
        "PostgreSQL: CPU of a claim beside 50 watchers / beside none, here and in its server",
        *(1.05, 1.3, " x"),
        why="The claim's server process wakes every watcher's.",
    ),
    "recovery": Published(
        "kill -9 of a holder whose process is known: claims until the step is taken over",
        *(1, 1),
    ),
    "recovery-lease": Published(
        "kill -9 of a holder without a known process: taken over after, of its lease",
        *(1.5, 2.0, " x"),
    ),
}
