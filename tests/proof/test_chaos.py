"""Workers killed and stopped at any moment, and some that wake up late: every promise is kept.

`make proof MINUTES=20 ONLY=chaos` goes on with it for so long.
"""

import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest
from chaos_commands import Commands
from chaos_scene import Scene

from support.proving import Spell

#: All but what is random here has an end of its own.
pytestmark = pytest.mark.proof(share=0)

BOUTS, BOUT_SECONDS = 5, 3
#: Nothing is proven where nothing happened: it goes on for so long until something has.
MOST_BOUTS, MOST_KILLS = 60, 4000
#: What a planted fault is found by: one of these, among other things.
FAULTS = {
    "no fence": ("sent as attempt",),
    "early answer": ("in the database 0 times", "handed out twice"),
    "claim without a transaction": ("the last was", "a_held_step_has_one_owner", "'E047'"),
    "lost count": ("the_counts_are_what_the_rows_say",),
    "stopped is gone": ("taken for dead while it lived",),
    "the dead hold on": ("kept by the dead",),
}
MEMORY = Path("/dev/shm")


@pytest.fixture
def ground(tmp_path):
    """In memory where that can be had: no kill takes from a file what was written to it."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else tmp_path) as path:
        yield Path(path)


def _told(counts: Counter) -> str:
    return ", ".join(f"{number} {what}" for what, number in counts.items())


def _found(spell: Spell, counts: Counter, problems: list[str]) -> str:
    spent = time.monotonic() - spell.began
    return f"found after {spent:.1f} s and {_told(counts)}: {len(problems)} contradictions"


def _is_lively(counts: Counter) -> bool:
    wanted = ("claims", "refused as superseded", "claims with a process", "taken over as dead")
    return all(counts[what] for what in wanted)


@pytest.mark.proof(share=6)
def test_chaos_among_workers_breaks_no_promise(ground, spell):
    total = Counter()
    for seed in spell.seeds():
        scene = Scene(ground / str(seed), seed)
        for _ in range(BOUTS):
            scene.bout(BOUT_SECONDS)
            assert scene.problems()[:20] == []
        while not _is_lively(scene.counts()):
            assert scene.bouts < MOST_BOUTS
            scene.bout(BOUT_SECONDS)
        assert scene.problems()[:20] == []
        total += scene.counts()
    spell.tell(_told(total))


@pytest.mark.proof(share=3)
def test_chaos_among_commands_breaks_no_promise(repo, spell):
    commands = Commands(repo)
    for seed in spell.seeds():
        commands.run(seed, kills=40)
        while not (commands.claims and commands.counts()["refused as superseded"]):
            assert commands.kills < MOST_KILLS
            commands.run(seed + commands.kills, kills=10)
        assert commands.problems()[:20] == []
    spell.tell(_told(commands.counts()))


@pytest.mark.parametrize("fault", FAULTS)
def test_chaos_finds_a_planted_fault(ground, spell, fault):
    scene, found = Scene(ground / "scene", spell.seed, fault=fault), []
    while not any(sign in each for each in found for sign in FAULTS[fault]):
        assert scene.bouts < 60
        scene.bout(0.5)
        found = scene.problems()
    spell.tell(_found(spell, scene.counts(), found))


def test_chaos_among_commands_finds_that_nobody_is_fenced_off(repo, spell):
    commands, found = Commands(repo, fault="no fence"), []
    while not any("sent as attempt" in each for each in found):
        assert commands.kills < 400
        commands.run(spell.seed + commands.kills, kills=5)
        found = commands.problems()
    spell.tell(_found(spell, commands.counts(), found))
