"""What must be true after every run, whatever happened in it: nothing lost, twice or held."""

import json
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from conftest import git
from support.implement import logged_calls
from support.state import KEY, Lab
from support.state_replay import INVARIANTS
from support.worktree import fsck
from tugtool.plan import fingerprint
from tugtool.store import open_store
from tugtool.system import clock, process
from tugtool.workflow.commit import log

#: How what was claimed ends, once for each claim.
ENDS = ("completed", "parked", "failed", "stopped", "moved", "lost")
#: A process that was killed ends when the system gets to it; on a busy machine that is not now.
PATIENCE_SECONDS = 60
TRAILERS = ("Tug-Step", "Tug-Plan", "Tug-Claim")


class Record(Lab):
    """The plan's state where it is, for the invariants that every state is held against."""

    def __init__(self, root: Path) -> None:
        self.store = open_store(f"sqlite://{root / '.tugtool' / 'state.db'}")


def aftermath(
    play,
    told: Sequence[dict] = (),
    *,
    done: Collection[str] | None = None,
    parked: Collection[str] = (),
    committed: Collection[str] = (),
    saved: Mapping[str, Collection[str]] | None = None,
    lying: Mapping[str, str] | None = None,
    uncommitted: Collection[str] = (),
    patience: float = PATIENCE_SECONDS,
) -> None:
    """Hold a run that has ended against all that must be true.

    `done`: the steps that are completed (all, unless they are named), each with one commit.
    `committed`: those that have their commit and are not completed. `saved`: step -> files
    that its newest salvage ref has. `lying`: step -> a file that could not be saved, and
    lies in a worktree. `uncommitted`: worktrees in which something may lie that is no step's.
    """
    record = Record(play.root)
    try:
        every = play.steps()
        done = set(every) if done is None else set(done)
        _steps(play, record, every, done, parked, committed)
        _commits(play, record, every, done, committed)
        _salvage(play, record, saved or {}, lying or {}, uncommitted)
        for invariant in INVARIANTS:
            invariant(record)
    finally:
        record.store.close()
    _ends(told)
    _nobody_is_left(play, patience)
    fsck(play.root)


def _steps(play, record: Record, every, done: set[str], parked, committed) -> None:
    assert every == {step: "completed" if step in done else "pending" for step in every}
    assert play.held() == []
    rows = record.rows("select * from steps where parked_at <> ''")
    why = {row["anchor"]: row["park_reason"] for row in rows}
    assert set(why) == set(parked), why
    assert record.rows("select * from attempts where outcome is null") == []
    if not parked and not committed:
        assert record.rows("select * from intents") == []


def _commits(play, record: Record, every, done: set[str], committed) -> None:
    rows = {row["anchor"]: row for row in record.rows("select * from steps")}
    plan_hash = fingerprint.of(play.text.encode())[:12]
    for step in every:
        found = play.commits(step)
        assert len(found) == (step in done or step in committed), (step, found)
        for commit in found:
            form = ",".join(f"key={key}" for key in TRAILERS)
            words = f"--format=%(trailers:only,{form})"
            block = git("log", "-1", words, commit, cwd=play.root).split("\n")
            attempts = [each["number"] for each in record.attempts(step)]
            claims = [f"Tug-Claim: {plan_hash}/{step}/{number}" for number in attempts]
            assert block[:2] == [f"Tug-Step: {step}", f"Tug-Plan: {KEY}"]
            assert block[2] in claims
        if step in done:
            assert rows[step]["commit_hash"] == found[0], step


def _salvage(play, record: Record, saved, lying, uncommitted) -> None:
    """What was not committed is under a ref, or lies where the record says that it does."""
    form = "--format=%(refname) %(trailers:key=Salvage-Role,valueonly,separator=%x2C)"
    told = git("for-each-ref", form, "refs/tug/salvage/", cwd=play.root)
    # What an agent did that may change nothing belongs to no attempt.
    refs = {line.strip() for line in told.splitlines() if len(line.split()) == 1}
    attempts = record.rows("select * from attempts where salvage_ref <> '' order by number")
    assert {row["salvage_ref"] for row in attempts} == refs
    newest = {row["step_anchor"]: row["salvage_ref"] for row in attempts}
    for step, names in saved.items():
        there = git("ls-tree", "-r", "--name-only", newest[step], cwd=play.root).split()
        assert set(names) <= set(there), (step, there)
    unsaved = {row["step_anchor"]: row["worktree"] for row in record.rows("select * from unsaved")}
    assert set(unsaved) == set(lying)
    for step, name in lying.items():
        assert (Path(unsaved[step]) / name).exists()
    dirty = {str(tree) for tree in play.trees() if git("status", "--porcelain", cwd=tree)}
    # A worktree whose claim was taken away stays as it is; its work is saved all the same.
    kept = {row["worktree"] for row in attempts if row["outcome"] == "reset"}
    left = dirty - kept - set(unsaved.values()) - set(uncommitted)
    lies = {tree: git("status", "--porcelain", cwd=Path(tree)) for tree in left}
    assert lies == {}, (lies, record.rows("select * from attempts order by step_anchor, number"))


def _ends(told: Sequence[dict]) -> None:
    """Whatever was claimed has ended in one way."""
    begun = [(e["step_anchor"], e["attempt"]) for e in told if e["event"] == "claimed"]
    ended = [(e["step_anchor"], e["attempt"]) for e in told if e["event"] in ENDS]
    assert Counter(begun) == Counter(ended)
    assert set(Counter(begun).values()) <= {1}


def _nobody_is_left(play, patience: float) -> None:
    left: list[int] = []
    for last in clock.tries(patience):
        left = _running(play)
        if last or not left:
            break
    assert left == []


def _running(play) -> list[int]:
    """Processes that work in the repository or beside it: agents, their children, and git."""
    if not os.path.isdir("/proc/self"):
        calls = logged_calls(str(play.log)) if play.log.exists() else []
        return [call["pid"] for call in calls if process.start_time(call["pid"]) is not None]
    home, found = str(play.root.parent), []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            place = os.readlink(f"/proc/{name}/cwd")
        except OSError:
            continue
        if place.startswith(home) and process.start_time(int(name)) is not None:
            found.append(int(name))
    return found


#: Evidence of checkpoints, and the commit of their step.
PROOFS = (
    "select i.step_anchor, i.ordinal, i.evidence, s.commit_hash from checklist_items i"
    " join steps s on s.plan_path = i.plan_path and s.anchor = i.step_anchor"
    " where i.evidence is not null order by 1, 2"
)


def _proof(row: dict) -> tuple:
    """What an item has to show: whether its command passed, and that it is about its commit."""
    found = json.loads(row["evidence"])
    ran = bool(found["commands"])
    about = found["commit"] == row["commit_hash"] if ran else found["judged"]["role"]
    return row["step_anchor"], row["ordinal"], found["passed"], about


def result(play) -> dict[str, object]:
    """What a plan came to, without what differs from run to run: times, attempts, the log."""
    record = Record(play.root)
    try:
        steps = "select anchor, status, parked_at from steps order by step_index"
        items = "select step_anchor, kind, ordinal, status, reason from checklist_items order by id"
        state = record.rows(steps), record.rows(items.replace("by id", "by 1, 2, 3"))
        evidence = [_proof(row) for row in record.rows(PROOFS)]
    finally:
        record.store.close()
    [tree] = play.trees()
    lines = git("diff-tree", "-r", "main", "HEAD", cwd=tree).splitlines()
    hashes = git("rev-list", "--reverse", "main..HEAD", cwd=tree).split()
    return {
        "state": state,
        "evidence": evidence,
        "tree": [line for line in lines if not line.endswith(log.PATH)],
        "commits": [_told_by(play, each) for each in hashes],
    }


def _told_by(play, commit: str) -> tuple[list[str], list[str]]:
    lines = git("log", "-1", "--format=%B", commit, cwd=play.root).splitlines()
    said = [line.rpartition("/")[0] if line.startswith("Tug-Claim:") else line for line in lines]
    changes = git("diff-tree", "-r", "--no-commit-id", commit, cwd=play.root).splitlines()
    return said, [line for line in changes if not line.endswith(log.PATH)]
