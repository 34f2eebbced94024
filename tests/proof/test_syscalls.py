"""Every system call that touches the database may fail or be the last: answers stay true.

A command says done if and only if whoever looks next finds it done. Otherwise it gives an
error with a code, the database is sound and unchanged, and the same command succeeds once the
fault is gone. See `faulting.py` for what is judged, `notified.py` for how calls are failed.
"""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from faulting import DEAD, ERRORS, KILL, SCENES, Point, Server, Stage, Wrong, in_memory, spread

from support.proving import Spell

#: All but what is random here has an end of its own.
pytestmark = pytest.mark.proof(share=0)

#: Points by default; with time to spend, as many as there are.
FEW = 80


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A place for all scenes."""
    server = Server()
    with in_memory() as directory:
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


def test_what_is_written_is_not_denied_because_nobody_can_look_at_it(stage):
    stage.prepare("complete")
    looks = stage.found("complete", "newfstatat", "state.db")
    seen = [stage.strike(Point("complete", "newfstatat", at, "EIO")) for at in looks[-4:]]
    assert seen.count("done") >= 2


def test_a_restore_that_cannot_tidy_up_has_happened_all_the_same(stage):
    stage.prepare("restore")
    last = stage.found("restore", "openat", "restoring")[-1]
    assert stage.strike(Point("restore", "openat", last, "EIO")) == "done"


def _points(stage: Stage) -> dict[str, Point]:
    """Planted fault -> where it shows."""
    stage.prepare("complete")
    log = stage.found("complete", "pwrite64", "state.db-wal")
    sync = stage.found("complete", "fdatasync", "state.db-wal")[-1]
    first = stage.found("complete", "pread64", "state.db")[0]
    return {
        "untranslated": Point("complete", "pread64", first, "EIO"),
        "deaf": Point("complete", "pwrite64", log[-1], "ENOSPC"),
        "bit by bit": Point("complete", "pwrite64", log[-1], KILL),
        "left as it is": Point("complete", "fdatasync", sync, "EIO"),
        "early": Point("complete", "pwrite64", log[-1], "EIO"),
    }


def test_the_proof_notices_a_fault(stage):
    for planted, point in _points(stage).items():
        stage.planted = ""
        assert stage.strike(point) in ("refused", "killed")
        stage.planted = planted
        with pytest.raises(Wrong):
            stage.strike(point)
