"""Worktrees that were being made, or are made for nothing, are taken away again."""

from __future__ import annotations

import os

from tugtool import base, git
from tugtool.git_errors import NotMade
from tugtool.state import record
from tugtool.state.record import storable
from tugtool.store import sql, sql_git
from tugtool.worktree import survey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from tugtool.repository import Repository
    from tugtool.store import Row, Store

    Data = dict[str, object]


#: So long a git may go on after whoever started it.
LINGER_SECONDS = 60.0


def mend(repo: Repository, store: Store) -> None:
    """Take away what was being made when somebody died; the caller has the lock.

    Nobody was told of it. If somebody has worked there all the same, it is kept.
    """
    with store.read() as tx:
        intents = tx.all(sql_git.INTENTS, kind="create")
    if intents:
        _wait(repo, intents[0]["worktree"])
    facts = {storable(f["worktree"]): f for f in git.worktree_facts(repo.root)} if intents else {}
    for intent in intents:
        found = facts.get(intent["worktree"])
        path = os.path.join(survey.directory(repo), os.path.basename(intent["worktree"]))
        if found is not None and _was_used(path, found, intent["head"]):
            with store.write(intent["plan_path"]) as tx:
                tx.run(sql_git.DROP_INTENT, kind="create", path=intent["worktree"])
            continue
        undo(repo, store, path, branch=_branch_in(intent), start=intent["head"])


def _wait(repo: Repository, path: str) -> None:
    """A git that was not killed along is still making it, and may take it away if it fails."""
    from tugtool import clock

    note = survey.at_work(repo)
    for last in clock.tries(LINGER_SECONDS):
        pid = note.running()
        if pid is None:
            return
        if last:
            reason = f"the git that was making it when its command died still runs, process {pid}"
            raise NotMade(path, reason=reason)


def _was_used(path: str, facts: dict[str, str], start: str) -> bool:
    if facts.get("locked") == "initializing" or not os.path.isfile(os.path.join(path, ".git")):
        # Git itself was killed in the middle of making it.
        return False
    return facts["HEAD"] != start or bool(survey.changes(path))


def _branch_in(intent: Row) -> str:
    import json

    return str(json.loads(intent["detail"])["branch"])


def undo(repo: Repository, store: Store, path: str, *, branch: str, start: str) -> list[str]:
    """Take a worktree away that nobody has worked in; what could not be taken away."""
    root, name = repo.root, storable(path)
    for _ in range(2):
        words = ("worktree", "remove", "--force", "--force", path)
        git.attempt(*words, cwd=root, though_killed=True)
        if os.path.lexists(path):
            # Half-made: git knows nothing of it, or only half.
            _delete(path)
    ref = f"refs/heads/{branch}"
    if base.commit_of(root, ref) is not None:
        # Only if it is still where it was put: commits are never dropped here.
        git.attempt("update-ref", "-d", ref, start, cwd=root, though_killed=True)
    left = [path] if os.path.lexists(path) else []
    left += [branch] if base.commit_of(root, ref) is not None else []
    with store.read() as tx:
        intent = tx.first(sql_git.INTENT, kind="create", path=name)
        row = tx.first(sql_git.WORKTREE, path=name)
    plan = (row or intent or {"plan_path": ""})["plan_path"]
    with store.write(plan) as tx:
        if tx.run(sql_git.DROP_WORKTREE, path=name) and tx.first(sql.PLAN):
            record.note(tx, plan, "worktree_remove", actor=name, branch=branch)
        tx.run(sql_git.DROP_INTENT, kind="create", path=name)
    return left


def discard(repo: Repository, store: Store, made: Mapping[str, object]) -> None:
    """Take a worktree away that was made just now, and whose claim was refused."""
    path = str(made["worktree_path"])
    with store.read() as tx:
        row = tx.first(sql_git.WORKTREE, path=storable(path))
    if row is None or survey.changes(path):
        return
    queue = survey.lock(repo)
    queue.enter()
    try:
        undo(repo, store, path, branch=row["branch"], start=row["base_commit"])
    finally:
        queue.leave()


def _delete(path: str) -> None:
    import shutil

    shutil.rmtree(path, ignore_errors=True)
