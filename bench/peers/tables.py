"""The findings as tables and plots, for `bench/results/peers.json`."""

from peers.contests import Late
from peers.judging import OURS, Handover, Race, Speed, Writes
from peers.speed import DOES, Cost, Rate

Table = dict[str, object]
Row = list[object]

COMMANDS = (
    "Whole processes of the nearest commands of each tool in projects of {size} tasks, each called "
    "the fastest way its own help names for scripts; medians of rounds in random order (seed "
    "{seed}). A worker of another tool has to look first and then to take, two commands; ours "
    "takes the next with one, leased and fenced. None of the others syncs to the disk. "
    "taskmd has no command that shows one task: that is a file to be read."
)
JOBS = (
    "{jobs} jobs that do nothing, fetched and finished by one worker in one process; medians of "
    "rounds in random order (seed {seed}). More jobs a second are better; the ratio is to ours."
)
GUARANTEES = {
    "tugtool": "synchronous=FULL; lease, fence, attempts, events, dependencies",
    "huey": "synchronous=FULL (fsync on); at most once: gone when fetched",
    "litequeue": "synchronous=NORMAL, its only setting: the last jobs may be lost in a power cut; "
    "no lease, no fence",
    "litequeue, synchronous=FULL": "set by hand to be as durable as ours; no lease, no fence",
    "persist-queue": "synchronous=FULL (SQLite's default); acknowledgement, no lease, no fence; "
    "for threads of one process",
}
RACE = (
    "{contenders} processes are released at one moment and ask for the only task there is, each "
    "with the tool's own command or call for it. A winner is told that it has the task: exit "
    "status 0, and where the answer tells that another has it already, not even then."
)
WRITES = (
    "{contenders} processes released at one moment each create a task of their own, or each take "
    "another one (queues: each puts in a job). Afterwards the tool's own list is counted."
)
LATE = (
    "A takes a task, the system's own way hands it to B, then A says that it is done. Crash: "
    "the worker that took it is killed; is the task there for another?"
)


def commands(costs: list[Cost], lacks: dict[str, dict[str, str]]) -> list[Row]:
    """Return rows by operation, ours first; a bare start has no ratio."""
    ours = {cost.what: cost.cpu for cost in costs if cost.system == OURS}
    rows = []
    for what, words in DOES.items():
        for cost in (cost for cost in costs if cost.what == what):
            known = lacks.get(cost.system, {})
            ratio = cost.cpu / ours[what] if what in ours else None
            rows.append(
                [
                    words,
                    cost.system,
                    f"`{cost.command}`",
                    round(cost.wall, 1),
                    round(cost.cpu, 1),
                    cost.runs,
                    "" if ratio is None else round(ratio, 2),
                    "" if ratio is None else Speed(what, cost.system, ratio).why,
                    known.get(what, ""),
                ]
            )
    return rows


COMMAND_COLUMNS = [
    "what",
    "system",
    "command",
    "wall ms",
    "CPU ms",
    "runs",
    "CPU, x ours (more is slower)",
    "why",
    "not comparable",
]


def speeds(costs: list[Cost]) -> list[Speed]:
    """Return every command beside ours, by CPU time."""
    ours = {cost.what: cost for cost in costs if cost.system == OURS}
    return [
        Speed(cost.what, cost.system, cost.cpu / ours[cost.what].cpu)
        for cost in costs
        if cost.what in ours
    ]


def jobs(rates: list[Rate]) -> tuple[list[Row], list[Speed]]:
    """Return rows of the queues, and their ratios to ours."""
    ours = next(rate.jobs for rate in rates if rate.system == "tugtool")
    found = [
        Speed("jobs", OURS if rate.system == "tugtool" else rate.system, ours / rate.jobs)
        for rate in rates
    ]
    rows: list[Row] = [
        [
            rate.system,
            round(rate.jobs),
            round(rate.cpu),
            rate.runs,
            round(rate.jobs / ours, 2),
            speed.why,
            GUARANTEES[rate.system],
        ]
        for rate, speed in zip(rates, found, strict=True)
    ]
    return rows, found


JOB_COLUMNS = [
    "system",
    "jobs/s",
    "CPU us per job",
    "runs",
    "jobs/s, x ours (more is faster)",
    "why",
    "what it guarantees",
]


def race(found: Race) -> list[object]:
    """Return one row: how many owners the task had."""
    alone = sum(count == 1 for count in found.winners)
    return [found.system, len(found.winners), _span(found.winners), f"{alone}/{len(found.winners)}"]


RACE_COLUMNS = ["system", "rounds", "winners of 12", "rounds with one owner"]


def writes(what: str, found: Writes) -> list[object]:
    """Return one row: the acknowledged writes, and those that are there."""
    pairs = zip(found.told, found.kept, strict=True)
    lost = sum(max(0, told - kept) for told, kept in pairs)
    return [found.system, what, len(found.kept), _span(found.told), _span(found.kept), lost]


WRITE_COLUMNS = ["system", "each", "rounds", "acknowledged of 12", "there afterwards", "lost"]


def late(found: Late, after_crash: str) -> list[object]:
    """Return one row: whether a late finish is accepted."""
    return [found.verdict.system, found.how, _accepted(found.verdict), found.what, after_crash]


LATE_COLUMNS = [
    "system",
    "how B got it",
    "A's finish",
    "what happened",
    "crash after taking",
]


def _accepted(verdict: Handover) -> str:
    return {True: "accepted", False: "refused", None: "-"}[verdict.is_accepted]


def table(name: str, title: str, note: str, columns: list[str], rows: list[Row]) -> Table:
    """Return a table as `bench/report.py` reads it; a short row says why it has no figures."""
    full = [[*row, *[""] * (len(columns) - len(row))] for row in rows]
    return {"id": name, "title": title, "note": note, "columns": columns, "rows": full}


def bars(name: str, title: str, label: str, pairs: list[tuple[str, float]], *, log: bool) -> Table:
    """Return a plot of one bar per system."""
    series = [{"name": label, "x": [who for who, _ in pairs], "y": [much for _, much in pairs]}]
    axes = {"kind": "bar", "x": "system", "y": label, "log": log}
    return {"id": name, "title": title, **axes, "series": series}


def _span(counts: list[int]) -> str:
    least, most = min(counts), max(counts)
    return str(least) if least == most else f"{least} to {most}"
