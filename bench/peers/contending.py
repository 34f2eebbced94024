"""The tables of races, lost writes and late finishers."""

from collections.abc import Callable

from peers import contests, tables
from peers.contests import Queues
from peers.ground import CONTENDERS, Ground
from peers.judging import Writes
from peers.tool import Tool

#: How a job goes from A to B, and the jobs left after a crash (0 or 1).
WAYS = {
    "huey": ("never: a fetched job is deleted", {"0": "lost: it was deleted when it was fetched"}),
    "litequeue": (
        "B calls retry() for the message that A has locked, and pops it",
        {"0": "locked until a person calls retry() for it: there is no lease"},
    ),
    "persist-queue": (
        "B opens the queue, which hands out all that is not acknowledged, also what A works on",
        {"1": "there again when the queue is opened next, which also takes it from live workers"},
    ),
}


def races(ground: Ground) -> None:
    """Return how many workers own the only task."""
    inside, rows = _inside(ground), []
    contest = ground.contest
    cases = {tool.name: lambda tool=tool: contests.race(contest, tool) for tool in ground.tools}
    cases |= {name: lambda name=name: inside.race(name) for name in _distinct(ground)}
    for name, once in cases.items():
        race, why = ground.tried(name, once)
        rows.append([name, why] if race is None else tables.race(race))
        ground.found.races.extend([race] if race else [])
    note = tables.RACE.format(contenders=CONTENDERS)
    ground.add("peers-race", "Who gets the only task?", note, tables.RACE_COLUMNS, rows)
    pairs = [(race.system, float(max(race.winners))) for race in ground.found.races]
    title = "Owners of one task, 12 processes at once (worst round)"
    ground.plots.append(tables.bars("peers-race", title, "owners", pairs, log=False))


def writes(ground: Ground) -> None:
    """Return what is left of concurrent writes."""
    inside, rows = _inside(ground), []
    kinds = (("creates a task", contests.created), ("takes another", contests.updated))
    cases: list[tuple[str, str, Callable[[], Writes]]] = [
        (tool.name, what, lambda tool=tool, do=do: do(ground.contest, tool))
        for what, do in kinds
        for tool in ground.tools
    ]
    cases += [
        (name, "puts in a job", lambda name=name: inside.written(name))
        for name in _distinct(ground)
    ]
    for name, what, once in cases:
        found, why = ground.tried(name, once)
        rows.append([name, what, why] if found is None else tables.writes(what, found))
        ground.found.writes.extend([found] if found else [])
    note = tables.WRITES.format(contenders=CONTENDERS)
    ground.add("peers-writes", "Writes at one moment", note, tables.WRITE_COLUMNS, rows)


def late(ground: Ground) -> None:
    """Return which tools accept a late finish from a superseded worker, and what a crash leaves."""
    inside, rows = _inside(ground), []
    cases = {tool.name: lambda tool=tool: _late(ground, tool) for tool in ground.tools}
    cases |= {name: lambda name=name: _late_job(ground, inside, name) for name in _distinct(ground)}
    for name, once in cases.items():
        row, why = ground.tried(name, once)
        rows.append([name, why] if row is None else row)
    title = "A finish that comes too late"
    ground.add("peers-late", title, tables.LATE, tables.LATE_COLUMNS, rows)


def _late(ground: Ground, tool: Tool) -> list[object]:
    found = contests.late(ground.contest, tool)
    ground.found.handovers.append(found.verdict)
    return tables.late(found, contests.crashed(ground.contest, tool))


def _late_job(ground: Ground, inside: Queues, name: str) -> list[object]:
    how, known = WAYS[name]
    found = inside.late(name, how)
    ground.found.handovers.append(found.verdict)
    left = inside.crashed(name)
    return tables.late(found, known.get(left, f"{left} jobs are there, which was not expected"))


def _inside(ground: Ground) -> Queues:
    return Queues(ground.contest, ground.caller(), ground.python)


def _distinct(ground: Ground) -> list[str]:
    """Return each queue once: durability does not affect who gets a job."""
    return [name for name in ground.queues if name in WAYS]
