"""Workers killed with dirty worktrees, and nothing of their work is lost.

Twenty by default; `make proof MINUTES=10 ONLY=killed_workers` goes on with it for so long.
"""

from pathlib import Path

import pytest

from conftest import Repo
from support import leaks
from support.kills import Kills, Lost
from support.worktree import IDENTITY, Yard
from tugtool.git import command as git_module
from tugtool.state import claims
from tugtool.workflow import salvage
from tugtool.workflow.salvage import catch_up

#: In one repository; so many only where there is the time for it.
KILLS, MANY_KILLS, LONG_SECONDS = 20, 200, 300


def _yard(path: Path, tugcode, kills: int) -> Yard:
    repo = Repo.init(path)
    repo.commit()
    made = Yard(repo, tugcode, *(str(n) for n in range(1, 13)))
    Kills.prepare(made, kills)
    return made


@pytest.fixture(autouse=True)
def _somebody(monkeypatch):
    """Git takes commits from somebody who has a name."""
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)


@pytest.mark.proof(share=2)
def test_whatever_killed_workers_left_is_reachable_whatever_is_done_next(tugcode, tmp_path, spell):
    number = MANY_KILLS if spell.seconds >= LONG_SECONDS else KILLS
    for seed in spell.seeds():
        kills = Kills(_yard(tmp_path / str(seed), tugcode, number), seed)
        try:
            kills.run(number)
        except BaseException as error:
            error.add_note("\n".join(kills.story[-12:]))
            error.add_note(f"after {kills.killed} kills of {number}: TUG_SEED={seed}")
            raise
        dirty = sum(each.dirty for each in kills.remains)
        blobs = len(set().union(*(each.blobs for each in kills.remains)))
        saved = len([ref for ref in kills.yard.refs() if "salvage" in ref])
        ends = ", ".join(f"{number} {how}" for how, number in kills.ended.items())
        told = f"{kills.killed} killed, {dirty} dirty, {blobs} blobs, {saved} salvage refs"
        spell.tell(f"{told}; claimed from {ends or 'nobody'}; worked on {kills.late} times")
        assert dirty


def _without_untracked(copy: salvage.IndexCopy) -> str:
    git_module.run("add", "--update", cwd=copy.worktree, index=copy.path)
    return git_module.run("write-tree", cwd=copy.worktree, index=copy.path).strip()


OTHERS = 'if step["claimed_by"] != request.owner'
SAME = "same = git_refs.tree_of(repo.root, ref) == salvage.tree_of(path)"
FAULTS = {
    "untracked files left out": (salvage.IndexCopy, "whole", _without_untracked),
    "saving skipped": (catch_up, "_is_dirty", lambda path: False),
    "what was staged left out": (salvage.IndexCopy, "staged", lambda copy: None),
    "removed without saving": (salvage, "save", lambda worktree, **how: None),
    "nothing saved of whose lease ran out": (
        *(claims, "_end_attempt"),
        leaks.rewritten(claims._end_attempt, OTHERS, f'{OTHERS} and outcome != "expired"'),
    ),
    "what was begun to be saved counts as saved": (
        *(catch_up, "_keep"),
        leaks.rewritten(catch_up._keep, SAME, "same = True"),
    ),
}


#: What only comes of a command that was killed, and where.
KILLED_AT = {"what was begun to be saved counts as saved": ("salvage.saved",)}


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_proof_notices_a_fault(tugcode, tmp_path, monkeypatch, fault):
    monkeypatch.setattr(*FAULTS[fault])
    points = KILLED_AT.get(fault, ())
    yard = _yard(tmp_path / "repo", tugcode, 40)
    kills = Kills(yard, 1, crashes=1 if points else 0, points=points)
    with pytest.raises(Lost):
        kills.run(40)
