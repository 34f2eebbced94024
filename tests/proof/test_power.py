"""The power may be cut at any moment: what was acknowledged is on the disk, and the rest is whole.

For every write, sync and truncation of a row of commands, three images of what a disk could
hold are made and opened: nothing of what was not synced, all of it, and some sectors of it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("power.py")


def _played(directory: Path, seed: int, fault: str = "") -> dict:
    directory.mkdir()
    path = os.pathsep.join(str(each) for each in (SCRIPT.parent, SCRIPT.parent.parent))
    done = subprocess.run(
        [sys.executable, SCRIPT, directory, str(seed), fault],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.proof(share=1)
def test_a_power_cut_takes_nothing_that_was_acknowledged(spell, tmp_path):
    images = 0
    for seed in spell.seeds():
        found = _played(tmp_path / str(seed), seed)
        assert found["wrong"] == []
        images += found["images"]
    assert images > 500
    spell.tell(f"{images} images of the disk, all as before or after")


def test_a_commit_that_does_not_wait_for_the_disk_is_noticed(tmp_path):
    found = _played(tmp_path / "careless", 1, "careless")
    assert any(each.startswith("after state claim") for each in found["wrong"])
