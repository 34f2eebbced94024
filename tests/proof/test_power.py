"""The power may be cut at any moment: what was acknowledged is on the disk, and the rest is whole.

For every sync, truncation and renaming of a row of commands and of a process that stays, and for
some of the writes, images of what a disk could hold are made and opened: nothing of what was not
synced, all of it, some sectors of it; each name alone, all but one, names without contents.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from faulting import in_memory

#: All but what is random here has an end of its own.
pytestmark = pytest.mark.proof(share=0)

SCRIPT = Path(__file__).with_name("power.py")


def _played(seed: int, fault: str = "") -> dict:
    path = os.pathsep.join(str(each) for each in (SCRIPT.parent, SCRIPT.parent.parent))
    with in_memory() as directory:
        done = subprocess.run(
            [sys.executable, SCRIPT, directory, str(seed), fault],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.proof(share=1)
def test_a_power_cut_takes_nothing_that_was_acknowledged(spell):
    images = 0
    for seed in spell.seeds():
        found = _played(seed)
        assert found["wrong"] == []
        images += found["images"]
    assert images > 2000
    spell.tell(f"{images} images of the disk, all as before or after")


#: Planted fault -> the first that is wrong then.
FAULTS = {
    "careless": "in state claim work --worktree red: something is lost",
    "tired": "in staying: something is lost",
    "unsynced": "in state init work: the backup",
    "unnamed": "in state init work: the backup: it is an older one, or none",
    "unfound": "in state init work: the backup: it is an older one, or none",
    "unkept": "in state prune --done: what was dropped is nowhere",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_does_not_wait_for_the_disk_is_noticed(fault):
    assert any(FAULTS[fault] in each for each in _played(1, fault)["wrong"])


def test_every_sync_of_a_restore_is_needed():
    wrong = _played(1, "each")["wrong"]
    # The first comes after commits to that very file; the other is followed by a sync of the
    # directory that the file was moved from, and a file is never in neither of the two.
    assert [number for number, each in enumerate(wrong) if not each] == [0, 5]
