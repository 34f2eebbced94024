"""Claims inside one process: their cost by the size of the plan, and what many of them leave.

Run by `startup.py` and `growth.py` with the installed interpreter; prints one JSON value.

    python bench/claims.py prepare REPOSITORY COUNT
    python bench/claims.py sizes SHAPE SIZE,SIZE,... ROUNDS [--linear]
    python bench/claims.py drain COUNT
    python bench/claims.py beat REPOSITORY COUNT
    python bench/claims.py wear COUNT [--reader]
"""

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import shapes

from tugtool import state
from tugtool.plan import fingerprint, parser
from tugtool.state.claims import Request
from tugtool.state.record import PlanCopy
from tugtool.store import open_store, sql
from tugtool.store.sqlite import SqliteStore, health

PLAN = ".tugtool/tugplan-bench.md"
COPY = PlanCopy(PLAN, "hash")
#: Commands of a step's holder; each is measured on its own steps.
HOLDERS = ("start", "heartbeat", "update", "complete", "release")
WORKTREE = "bench-worktree"
#: The number of steps in the plan of `wear`.
WORN = 1000


def prepare(repository: str, count: str) -> int:
    """Claim the steps for each command: `count` per command."""
    copy = copy_of(repository)
    store = open_store(f"sqlite://{repository}/.tugtool/state.db")
    owner = os.path.join(repository, WORKTREE)
    for n in range(len(HOLDERS) * int(count)):
        state.claim(store, PLAN, Request(owner, also=True), copy=copy, step=f"step-{n}")
        if HOLDERS[n // int(count)] == "complete":
            done = [{"kind": "task", "ordinal": 0, "status": "completed"}]
            state.update(store, PLAN, f"step-{n}", done, owner=owner, copy=copy)
    # Not closed: commands leave the log as it is, too.
    return n


def beat(repository: str, count: str) -> dict[str, float]:
    """Claim a step and give it back `count` times, three events each. Return begin and end."""
    copy = copy_of(repository)
    store = open_store(f"sqlite://{repository}/.tugtool/state.db")
    unsynced(store)
    request = Request("beater", max_attempts=10**9)
    begun = time.perf_counter()
    for _ in range(int(count)):
        anchor = str(state.claim(store, PLAN, request, copy=copy)["anchor"])
        state.start(store, PLAN, anchor, owner="beater")
        state.release(store, PLAN, anchor, owner="beater")
    return {"begun": begun, "ended": time.perf_counter()}


def wear(count: str, fault: str = "") -> dict[str, object]:
    """Return sizes and costs over so many operations on one plan, and what is left."""
    with tempfile.TemporaryDirectory(prefix="tugtool-claims-") as name:
        place = Path(name)
        (place / "copies").mkdir()
        store = _store(place / "worn", "free", WORN, copies=str(place / "copies"))
        reader = store._opened("ro") if fault else None
        if reader is not None:
            # A reader that never ends keeps the log from being truncated.
            reader.execute("begin").execute("select * from plans").fetchone()
        unsynced(store)
        total, samples, costs = int(count), [_sizes(store, 0)], list[float]()
        for part in range(20):
            begun = time.process_time()
            for n in range(total // 100):
                _round(store, f"step-{(part * total // 100 + n) % WORN}")
            costs.append((time.process_time() - begun) / (total // 20) * 1e6)
            samples.append(_sizes(store, (part + 1) * total // 20))
        early, late = statistics.median(costs[:2]), statistics.median(costs[-2:])
        return {"samples": samples, "early": early, "late": late, **_left(store, place)}


def _round(store: SqliteStore, anchor: str) -> None:
    """Run five operations on a step; it has few attempts, as a step that parks after five."""
    owner, copy = "wearer", COPY
    state.claim(store, PLAN, Request(owner, max_attempts=10**9, also=True), copy=copy, step=anchor)
    state.start(store, PLAN, anchor, owner=owner)
    state.heartbeat(store, PLAN, anchor, owner=owner)
    begun = [{"kind": "task", "ordinal": 0, "status": "in_progress"}]
    state.update(store, PLAN, anchor, begun, owner=owner, copy=copy)
    state.release(store, PLAN, anchor, owner=owner)


def _sizes(store: SqliteStore, operations: int) -> dict[str, int]:
    log = Path(f"{store.path}-wal")
    return {
        "operations": operations,
        "database": store.size(),
        "log": log.stat().st_size if log.exists() else 0,
    }


def _left(store: SqliteStore, place: Path) -> dict[str, object]:
    """Return whether it is sound, the size of its backups, and what pruning leaves."""
    backup = Path(str(store.backup))
    found: dict[str, object] = {"sound": health.is_whole(store)}
    for key in ("backup", "backup_after_prune"):
        if backup.exists():
            backup.unlink()
        assert store.back_up() is None
        found[key] = backup.stat().st_size
        if key == "backup":
            found["backup_sound"] = health.is_whole(open_store(f"sqlite://{backup}"))
            pruned = state.prune(store, where=lambda keys: {}, directory=str(place))
            found["export"] = Path(str(pruned["exported_to"])).stat().st_size
    with store.read() as tx:
        pages, free = tx.value("pragma page_count"), tx.value("pragma freelist_count")
        found["used_after_prune"] = (pages - free) * tx.value("pragma page_size")
    return found


def finish(store: SqliteStore, copy: PlanCopy) -> None:
    """Complete the held step, so that the next claim finds the next one."""
    with store.read(PLAN) as tx:
        held = [(row["anchor"], row["claimed_by"]) for row in tx.all(sql.HELD_STEPS, most=9)]
    for anchor, owner in held:
        state.complete(store, PLAN, anchor, owner=owner, copy=copy, force_reason="bench")


def copy_of(repository: str) -> PlanCopy:
    """Return the plan's file as the commands see it."""
    path = Path(repository) / PLAN
    return PlanCopy(str(path), fingerprint.of(path.read_bytes()))


def sizes(shape: str, listed: str, rounds: str, fault: str = "") -> dict[str, object]:
    """Return for each size the CPU microseconds of a claim and the pairs per second."""
    with tempfile.TemporaryDirectory(prefix="tugtool-claims-") as name:
        fields = {int(size): _Field(Path(name), shape, int(size)) for size in listed.split(",")}
        for _ in range(int(rounds)):
            for field in fields.values():
                field.turn(fault)
        return {str(size): field.found() for size, field in fields.items()}


class _Field:
    """Plans of one size, carried out one after the other."""

    def __init__(self, place: Path, shape: str, size: int) -> None:
        self._place, self._shape, self._size = place, shape, size
        self._store: SqliteStore | None = None
        self._done = self._plans = 0
        self._costs: list[float] = []
        self._wall: list[float] = []

    def turn(self, fault: str) -> None:
        if self._store is None or self._done == self._size:
            directory = self._place / f"{self._size}-{self._plans}"
            self._store, self._done = _store(directory, self._shape, self._size), 0
            self._plans += 1
            if fault:
                _make_linear(self._store)
            if self._size > 1:
                # First reads in a process cost once, not at every claim.
                _pair(self._store, self._done)
                self._done += 1
        begun = time.perf_counter()
        self._costs.append(_pair(self._store, self._done))
        self._wall.append(time.perf_counter() - begun)
        self._done += 1

    def found(self) -> dict[str, float]:
        rate = 1 / statistics.median(self._wall)
        return {"claim": statistics.median(self._costs), "rate": rate}


def _store(directory: Path, shape: str, total: int, copies: str | None = None) -> SqliteStore:
    directory.mkdir()
    store = open_store(f"sqlite://{directory}/state.db", copies=copies)
    parsed = parser.parse(shapes.plan(shape, total))
    state.init(store, PLAN, parsed, text="", hash="hash")
    return store


def unsynced(store: SqliteStore) -> None:
    """Turn off syncing in this process."""
    if store._writer is None:
        with store.write(PLAN) as tx:
            tx.all(sql.PLANS)
    assert store._writer is not None
    store._writer.execute("pragma synchronous = off")


def _make_linear(store: SqliteStore) -> None:
    """Plant a fault: without its index, a claim reads every step of the plan."""
    with store.write(PLAN) as tx:
        tx.run("drop index steps_ready")


def _pair(store: SqliteStore, n: int) -> float:
    """Claim and complete the next step. Return the CPU microseconds of the claim."""
    begun = time.process_time_ns()
    got = state.claim(store, PLAN, Request(f"w{n}"), copy=COPY)
    spent = time.process_time_ns() - begun
    anchor = str(got["anchor"])
    state.complete(store, PLAN, anchor, owner=f"w{n}", copy=COPY, force_reason="bench")
    return spent / 1000


def drain(count: str) -> float:
    """Return the CPU seconds for claiming and completing a whole chain."""
    with tempfile.TemporaryDirectory(prefix="tugtool-claims-") as name:
        store = _store(Path(name) / "chain", "chain", int(count))
        # Only the work counts; syncing so often would take long.
        unsynced(store)
        begun = time.process_time()
        for n in range(int(count)):
            _pair(store, n)
        return time.process_time() - begun


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
