"""The end of a join, whoever gets to it: the record, then the worktree and the branch."""

from __future__ import annotations

from tugtool import advancing, crash, mainline, tidying
from tugtool.dash import names
from tugtool.dash_errors import DashEnded, NotJoined
from tugtool.state import dashing
from tugtool.worktree import survey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tugtool.dash.ground import Ground
    from tugtool.repository import Repository
    from tugtool.store import Store

    Data = dict[str, Any]


def mend(repo: Repository, store: Store) -> dict[str, Data]:
    """Finish joins that were stopped after the base branch moved; forget those before that.

    The caller has the lock of worktrees, and a join keeps it to its end: whoever wrote what is
    found here is dead. What was finished, by name.
    """
    done: dict[str, Data] = {}
    for intent in dashing.intents(store, "join"):
        import json

        script: Data = json.loads(intent["detail"])
        _recover(repo, script)
        step = mainline.Step(script["base_branch"], script["head"], script["result"])
        if step.is_taken(repo):
            done[script["name"]] = conclude(repo, store, script)
        else:
            dashing.drop(store, "join", intent["worktree"])
    return done


def _recover(repo: Repository, script: Data) -> None:
    """What its git left in the main worktree, finished or undone; another's is not ours."""
    left = advancing.left_off(repo.root, repo.common_dir)
    if left is not None and left.result == script["result"]:
        name = script["name"]
        mainline.recover(repo, lambda reason, hint, **facts: NotJoined(name, reason, hint, **facts))


def conclude(repo: Repository, store: Store, script: Data) -> Data:
    """The base branch has it: say so, and take away what is left of it."""
    name = script["name"]
    path, branch = names.path(repo, name), names.branch(name)
    dashing.join(store, script["dash"], script["result"])
    crash.point("join.recorded")
    done = tidying.tidy(repo, store, [(branch, script["tip"])])
    crash.point("join.tidied")
    dashing.drop(store, "join", path)
    return {
        "name": name,
        "joined": True,
        "joined_commit": script["result"],
        "base_branch": script["base_branch"],
        "branch_name": branch,
        "worktree_path": path,
        "squash": script["squash"],
        "commits": script["commits"],
        "already_contained": script["contained"],
        "left": [str(each["reason"]) for each in done.left],
    }


def refuse_joining(ground: Ground) -> None:
    """E056 if a join that was stopped had moved the base branch; then it is finished first."""
    if not dashing.intents(ground.store, "join", ground.path):
        return
    queue = survey.lock(ground.repo)
    queue.enter()
    try:
        done = mend(ground.repo, ground.store).get(ground.name)
    finally:
        queue.leave()
    if done is not None:
        commit = done["joined_commit"]
        raise DashEnded(ground.name, what=f"it was joined as {commit}", joined_commit=commit)
