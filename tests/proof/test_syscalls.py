"""Every system call that touches the database may fail or be the last: answers stay true.

A command says done if and only if whoever looks next finds it done. Otherwise it gives an
error with a code, the database is sound and unchanged, and the same command succeeds once the
fault is gone. See `faulting.py` for what is judged, `notified.py` for how calls are failed.
"""

import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from faulting import DEAD, ERRORS, KILL, SCENES, Point, Server, Stage, Wrong, spread
from proving import Spell

#: Points by default; with time to spend, as many as there are.
FEW = 110
#: Where syncing costs nothing, if there is such a place: the faults are ours anyway.
MEMORY = "/dev/shm"


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A place for all scenes."""
    place = MEMORY if os.access(MEMORY, os.W_OK) else None
    server = Server()
    with tempfile.TemporaryDirectory(dir=place, prefix="tug-") as directory:
        yield Stage(Path(directory), server)
        server.end()


def _prove(spell: Spell, stage: Stage, faults: tuple[str, ...]) -> Counter[str]:
    """Strike as many points as there is time for; how often what came of it."""
    seed = next(spell.seeds())
    every = [point for name in SCENES for point in stage.prepare(name)]
    points = spread([point for point in every if point.fault in faults], seed)
    seen: Counter[str] = Counter()
    for point in points if spell.seconds else points[:FEW]:
        if spell.seconds and time.monotonic() > spell.began + spell.seconds:
            break
        seen[stage.strike(point)] += 1
    spell.tell(f"{seen.total()} of {len(points)} points: {dict(seen)}")
    return seen


@pytest.mark.proof(share=2)
def test_an_answer_is_true_whichever_system_call_fails(spell, stage):
    seen = _prove(spell, stage, (*ERRORS, DEAD))
    assert seen["done"]
    assert seen["refused"]


@pytest.mark.proof(share=1)
def test_a_command_killed_at_any_system_call_has_happened_or_not(spell, stage):
    assert set(_prove(spell, stage, (KILL,))) == {"killed"}


def _points(stage: Stage) -> dict[str, Point]:
    """Planted fault -> where it shows."""
    stage.prepare("start")
    log = stage.found("start", "pwrite64", "state.db-wal")
    sync = stage.found("start", "fdatasync", "state.db-wal")[-1]
    first = stage.found("start", "pread64", "state.db")[0]
    return {
        "untranslated": Point("start", "pread64", first, "EIO"),
        "deaf": Point("start", "pwrite64", log[-1], "ENOSPC"),
        "bit by bit": Point("start", "pwrite64", log[-1], KILL),
        "left as it is": Point("start", "fdatasync", sync, "EIO"),
        "early": Point("start", "pwrite64", log[-1], "EIO"),
    }


def test_the_proof_notices_a_fault(stage):
    for planted, point in _points(stage).items():
        stage.planted = ""
        assert stage.strike(point) in ("refused", "killed")
        stage.planted = planted
        with pytest.raises(Wrong):
            stage.strike(point)
