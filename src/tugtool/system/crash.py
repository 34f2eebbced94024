"""Named points at which a process can be made to die or wait, to test recovery.

Set TUGCODE_CRASH_AT to a name, and the process kills itself there as `kill -9` would: no
clean-up, no answer. With `NAME@FIFO` it waits there until the FIFO's writer has closed it.
Each name is listed in docs/internals/crash-points.md, and each is tested.
"""

from __future__ import annotations

from tugtool.system import config, os

#: Every point: what has happened when it is reached. A name is its command and a word.
POINTS: dict[str, str] = {
    "create.plan": "the plan is committed, as --commit-plan asked",
    "create.intent": "the intent is written down, with the names that were free",
    "create.branch": "the branch is there",
    "create.worktree": "the directory is there, and git knows it",
    "create.setup": "its files are copied, and its setup commands have run",
    "create.state": "the plan is recorded in the state",
    "create.recorded": "the worktree is recorded and reserved; the intent is still there",
    "remove.intent": "the intent is written down, and under which ref work will be saved",
    "remove.salvaged": "uncommitted work and unmerged commits are saved",
    "remove.worktree": "the directory is gone, and git no longer knows it",
    "remove.branch": "the branch is gone",
    "remove.released": "its claims are released; its row and the intent are still there",
    "salvage.taken": "a step is taken from another worktree; its work is not saved yet",
    "salvage.saved": "the work is saved under a ref that nothing names yet",
    "salvage.recorded": "the ref is recorded; the answer is not out",
    "sync.previewed": "the merges are prepared as commits that nothing leads to",
    "sync.locked": "the worktree's index is locked; nothing has moved",
    "sync.advanced": "the branch and the files have moved; the index has not",
    "sync.merged": "the worktree and its branch have them",
    "commit.intent": "the intent is recorded; nothing else was touched",
    "commit.rotated": "the log is in the archive, if it was over its limits",
    "commit.logged": "the entry is in the log",
    "commit.added": "everything is in the index",
    "commit.committed": "git has the commit; the state does not know",
    "commit.completed": "the step is completed, and the intent is gone; no answer is printed",
    "publish.begun": "a step is completed and counts as unpublished; nothing is pushed",
    "publish.pushed": "the remote has its commit; the record does not know",
    "publish.recorded": "the step is published, and the record knows; no answer is printed",
    "publish.saved": "the remote has work that was saved here; this clone does not know",
    "merge.checking": "the merged result has a worktree of its own; a command is about to check it",
    "merge.checked": "the commands passed; nothing has moved, and that worktree is still there",
    "merge.intent": "all is put together and written down; nothing has moved",
    "merge.locked": "the main worktree's index is locked; nothing has moved",
    "merge.advanced": "the base branch and the files have moved; the index has not",
    "merge.moved": "the base branch and the main worktree have moved; it is not recorded",
    "merge.recorded": "the merge is recorded; its worktrees and branches are still there",
    "merge.tidied": "a worktree and its branch are gone; others may be left",
    "push.merged": "the merge is complete here; the remote does not have it",
    "push.pushed": "the remote has it too; the answer is not printed",
    "implement.claimed": "a step is claimed; nothing has been done for it",
    "implement.synced": "the worktree has what the step depends on",
    "implement.conflict": "commits that a step needs conflict, and git has their merge under way",
    "implement.resolved": "the coder has merged them; the reviewer has not seen it",
    "implement.joined": "the reviewed merge is committed; git still calls it under way",
    "implement.moved": "a step is given back, to be done in another worktree",
    "implement.resumed": "the worktree has what was saved of an earlier attempt",
    "implement.started": "the step is started; no agent has run",
    "implement.cooling": "the run cools down; a step is claimed, and its agent waits to try again",
    "implement.architect": "the architect has answered, and its strategy is kept",
    "implement.coder": "the coder has answered; its work lies in the worktree",
    "implement.reviewer": "the reviewer has answered, and its verdict is kept",
    "implement.checking": "the command of a checkpoint is about to be run",
    "implement.checked": "the commands of checkpoints were run; that is not recorded",
    "implement.proven": "what they showed is recorded; nothing is committed",
    "implement.updated": "the checklist is closed; nothing is committed",
    "implement.committed": "the step is committed; if the state could be updated, completed",
    "implement.recovered": "a step whose state could not be updated at first is completed",
    "implement.finished": "a step is done, and the next one is not looked for yet",
    "implement.released": "a step is given back; its work is still to be saved",
    "implement.saved": "its work is saved; it still lies in the worktree as well",
    "implement.gathered": "everything is done, and together in one worktree",
    "implement.audited": "the auditor has answered, and its summary is kept",
    "implement.mended": "what the auditor asked for is done, and not committed",
    "implement.repaired": "what the auditor asked for is committed",
    "implement.shared": "the remote has that commit; the record does not know",
    "implement.integrated": "the integrator has answered, and that is kept",
    "dash.intent": "the intent to make a dash is written down",
    "dash.branch": "its branch is there",
    "dash.worktree": "its directory is there, and git knows it",
    "dash.recorded": "the dash is recorded, and the intent is gone; no answer is printed",
    "round.intent": "what the round was about is written down; nothing else was touched",
    "round.added": "everything is in the index",
    "round.committed": "git has the commit; the round is not recorded",
    "round.recorded": "the round is recorded, and the intent is gone; no answer is printed",
    "join.intent": "the commit is put together and written down; nothing has moved",
    "join.locked": "the main worktree's index is locked; nothing has moved",
    "join.advanced": "the base branch and the files have moved; the index has not",
    "join.moved": "the base branch and the main worktree have moved; it is not recorded",
    "join.recorded": "the dash is joined; its worktree and its branch are still there",
    "join.tidied": "they are gone; the intent is still there",
}


def point(name: str) -> None:
    """Die or wait here, if TUGCODE_CRASH_AT names this point."""
    asked = config.variable("TUGCODE_CRASH_AT")
    if asked is None:
        return
    at, _, fifo = asked.partition("@")
    if at == name and not fifo:
        os.kill(os.getpid(), 9)  # SIGKILL
    # The test removes the FIFO, so that no second process waits there.
    if at == name and os.path.exists(fifo):
        with open(fifo, "rb") as gate:
            gate.read()
