"""The tables of costs: commands, and jobs in one process."""

import shutil

from peers import speed, tables
from peers.ground import PEERS, Ground
from peers.processes import Caller
from peers.speed import Unit, Worker
from peers.tool import Tool

SIZES = (10, 200)


def commands(ground: Ground, size: int) -> None:
    """Measure every command of every tool, in projects of so many tasks."""
    rounds = 1 if ground.quick else 6
    units, missing = _floors(ground) if size == SIZES[0] else [], []
    for tool in ground.tools:
        made, why = ground.tried(tool.name, lambda tool=tool: _units(ground, tool, size, rounds))
        units += made or []
        missing += [["-", tool.name, why]] if why else []
    speed.measured(units, rounds, ground.seed, least=ground.least, seconds=90)
    costs = [unit.cost() for unit in units if not unit.refusal]
    broken = (unit for unit in units if unit.refusal)
    missing += [[speed.DOES[unit.what], unit.system, unit.refusal] for unit in broken]
    rows = [*tables.commands(costs, {tool.name: tool.lacks for tool in ground.tools}), *missing]
    note = tables.COMMANDS.format(size=size, seed=ground.seed)
    name = f"peers-commands-{size}"
    ground.add(name, f"Commands, {size} tasks", note, tables.COMMAND_COLUMNS, rows)
    ground.found.speeds.extend(tables.speeds(costs))
    pairs = [(cost.system, round(cost.cpu, 1)) for cost in costs if cost.what == "claim"]
    title = f"Taking a task, {size} tasks: CPU time"
    ground.plots.append(tables.bars(name, title, "CPU ms", pairs, log=True))


def _units(ground: Ground, tool: Tool, size: int, rounds: int) -> list[Unit]:
    return speed.units(tool, ground.place, size, rounds)


def _floors(ground: Ground) -> list[Unit]:
    """Measure a program that does nothing, in the same rounds."""
    argvs = {
        "python": [str(ground.ours / "python"), "-c", "pass"],
        "node": ["node", "-e", "0"],
    }
    for native in (PEERS / "node_modules").glob("backlog.md-*/backlog"):
        argvs["backlog.md without its launcher"] = [str(native), "--version"]
    run, path = Caller(ground.place, ground.environment), ground.environment["PATH"]
    return [
        Unit("start", name, lambda n, argv=argv: argv, run, speed.succeeded)
        for name, argv in argvs.items()
        if shutil.which(argv[0], path=path)
    ]


def jobs(ground: Ground) -> None:
    """Measure jobs through one worker of each queue."""
    workers = [Worker("tugtool", str(ground.ours / "python"))]
    missing: list[list[object]] = []
    for name in ground.queues:
        _, why = ground.tried(name, lambda name=name: _opened(ground, name))
        if why:
            missing.append([name, why])
        else:
            workers.append(Worker(name, ground.python))
    count, rounds = (200, 1) if ground.quick else (2000, 5)
    found = speed.rates(
        workers, ground.place, ground.caller(), jobs=count, rounds=rounds, seed=ground.seed
    )
    rows, speeds = tables.jobs(found)
    ground.found.speeds.extend(speeds)
    note = tables.JOBS.format(jobs=f"{count:,}", seed=ground.seed)
    title = "Claim and finish in one process"
    ground.add("peers-jobs", title, note, tables.JOB_COLUMNS, [*rows, *missing])
    pairs = [(rate.system, float(round(rate.jobs))) for rate in found]
    ground.plots.append(tables.bars("peers-jobs", title, "jobs/s", pairs, log=False))


def _opened(ground: Ground, name: str) -> str:
    directory = ground.place / f"try-{name}"
    directory.mkdir()
    argv = [ground.python, "-m", "peers.queues", "left", name, "-", str(directory)]
    return ground.caller().must(argv)
