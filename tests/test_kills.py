"""200 workers killed with dirty worktrees, and nothing of their work is lost.

Short by default; `TUG_KILLS=200` runs the whole proof, `TUG_SEED=N` the same one again.
"""

import os
import random

import pytest

from kills import Kills, Lost
from tugtool import git as git_module
from tugtool import salvage, salvaging
from worktree_fixtures import Yard

KILLS = int(os.environ.get("TUG_KILLS", "20"))
SEED = int(os.environ.get("TUG_SEED", "0")) or random.SystemRandom().getrandbits(32)


def _yard(yard, kills: int) -> Yard:
    made = yard(*(str(n) for n in range(1, 13)))
    Kills.prepare(made, kills)
    return made


def test_whatever_killed_workers_left_is_reachable_whatever_is_done_next(yard, capsys):
    kills = Kills(_yard(yard, KILLS), SEED)
    try:
        kills.run(KILLS)
    except BaseException as error:
        error.add_note("\n".join(kills.story[-12:]))
        error.add_note(f"after {kills.killed} kills: TUG_KILLS={KILLS} TUG_SEED={SEED}")
        raise
    dirty = sum(each.dirty for each in kills.remains)
    blobs = len(set().union(*(each.blobs for each in kills.remains)))
    saved = len([ref for ref in kills.yard.refs() if "salvage" in ref])
    with capsys.disabled():
        print(f"\nTUG_KILLS={KILLS} TUG_SEED={SEED}")
        print(f"{kills.killed} killed, {dirty} with dirty worktrees, {blobs} blobs all there")
        print(f"{saved} salvage refs; then: {kills.told}")
    assert dirty


def _without_untracked(copy: salvage.Copy) -> str:
    git_module.run("add", "--update", cwd=copy.worktree, index=copy.path)
    return git_module.run("write-tree", cwd=copy.worktree, index=copy.path).strip()


FAULTS = {
    "untracked files left out": (salvage.Copy, "whole", _without_untracked),
    "saving skipped": (salvaging, "_is_dirty", lambda path: False),
    "what was staged left out": (salvage.Copy, "staged", lambda copy: None),
    "removed without saving": (salvage, "save", lambda worktree, **how: None),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_proof_notices_a_fault(yard, monkeypatch, fault):
    monkeypatch.setattr(*FAULTS[fault])
    kills = Kills(_yard(yard, 40), 1, crashes=False)
    with pytest.raises(Lost):
        kills.run(40)
