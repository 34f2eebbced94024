"""dash join: a dash's work comes to its base branch, as one commit, and the dash goes.

It is put together beforehand in git's objects alone, as a merge is; what is about to happen
is written down, and a join that was stopped is finished by the next.
"""

from __future__ import annotations

import os

from tugtool import blend, crash, git, mainline, message, rehearsal, repository, trailers, tree
from tugtool.dash import mending, rounds
from tugtool.dash.ground import Alone, Ground
from tugtool.dash_errors import NotJoined
from tugtool.errors import listing, quoted
from tugtool.git_errors import CommitRefused
from tugtool.state import dashing
from tugtool.worktree import survey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tugtool.repository import Repository
    from tugtool.store import Store

    Data = dict[str, Any]

#: In the message of a squash, more commits than these are only counted.
_MOST = 50


def join(
    repo: Repository,
    store: Store,
    name: str,
    *,
    cwd: str,
    words: str | None = None,
    squash: bool = True,
) -> Data:
    """Bring a dash's commits to its base branch, and take its worktree and branch away."""
    survey.require_git()
    words = None if words is None else message.checked(words)
    path = Ground(repo, store, dashing.find(store, name)).path
    if cwd == path or cwd.startswith(path + os.sep):
        reason = "you stand in its worktree, which goes with it"
        raise NotJoined(name, reason, f"cd {quoted(repo.root)}")
    with Alone(path):
        queue = survey.lock(repo)
        queue.enter()
        try:
            finished = mending.mend(repo, store).get(name)
            if finished is not None:
                return {**finished, "resumed": True}
            ground = Ground(repo, store, dashing.require(store, name))
            ground.revive()
            script = _Rehearsal(ground, words, squash=squash).script()
            return {**_run(ground, script), "resumed": False}
        finally:
            queue.leave()


def _run(ground: Ground, script: Data) -> Data:
    repo, store = ground.repo, ground.store
    dashing.intend(store, "join", ground.path, head=script["head"], detail=script)
    crash.point("join.intent")
    step = mainline.Step(script["base_branch"], script["head"], script["result"])
    said = step.take(
        repo,
        locked=lambda: crash.point("join.locked"),
        advanced=lambda: crash.point("join.advanced"),
    )
    if said is not None:
        dashing.drop(store, "join", ground.path)
        reason = f"git does not move the main worktree: {said}"
        raise NotJoined(ground.name, reason, "git status")
    crash.point("join.moved")
    return mending.conclude(repo, store, script)


class _Rehearsal:
    """Everything that is to happen, found out without touching anything."""

    def __init__(self, ground: Ground, words: str | None, *, squash: bool) -> None:
        self.ground, self.repo = ground, ground.repo
        self.words, self.squash = words, squash

    def script(self) -> Data:
        """What `mending.conclude` and whoever has to go on need to know."""
        ground, repo = self.ground, self.repo
        tip = self._tip()
        mainline.refuse_other_branch(repo, ground.base, self._refusal)
        mainline.refuse_unclean(repo, self._refusal)
        head = mainline.head(repo)
        commits = self._commits(tip)
        result = self._result(head, tip, commits)
        mainline.refuse_overwriting(repo, head, result, self._refusal)
        return {
            "name": ground.name,
            "dash": ground.row["id"],
            "base_branch": ground.base,
            "head": head,
            "tip": tip,
            "result": result,
            "squash": self.squash,
            "commits": len(commits),
            "contained": result == head,
        }

    def _refusal(self, reason: str, hint: str, **facts: object) -> NotJoined:
        return NotJoined(self.ground.name, reason, hint, **facts)

    def _tip(self) -> str:
        """Where its branch stands, once all that was done in the worktree is on it."""
        ground = self.ground
        name, path = ground.name, ground.path
        tip = ground.tip()
        if tip is None:
            hint = f"tugcode dash create {name}"
            raise self._refusal(f"its branch {ground.branch} is gone", hint)
        if not ground.tree().exists:
            if os.path.lexists(path):
                reason = f"git does not know what lies at {path} as its worktree"
                raise self._refusal(reason, f"ls -la {quoted(path)}")
            return tip
        ground.refuse_elsewhere()
        rounds.settle(ground)
        try:
            tree.look(path, repository.git_dir(path)).refuse_unfit()
        except CommitRefused as error:
            raise self._refusal(error.message, f"git -C {quoted(path)} status") from error
        changed = [entry[3:] for entry in survey.changes(path)]
        if changed:
            reason = f"work in {path} is not committed: {listing(changed)}"
            hint = f"tugcode dash commit {name} --message TEXT"
            raise self._refusal(reason, hint, files=changed)
        return tip

    def _commits(self, tip: str) -> list[str]:
        """The subjects of its commits, oldest first; those that came from the base aside."""
        ground = self.ground
        range_ = (f"{ground.row['base_commit']}..{tip}", f"^refs/heads/{ground.base}", "--")
        words = ("log", "-z", "--reverse", "--no-merges", "--format=%s")
        out = git.run(*words, *range_, cwd=self.repo.root)
        return out.split("\0")[:-1]

    def _result(self, head: str, tip: str, commits: list[str]) -> str:
        """The commit that the base branch is to move to; `head` if that has all of it."""
        root, ground = self.repo.root, self.ground
        if tip == ground.row["base_commit"]:
            reason = "nothing was committed in it"
            raise self._refusal(reason, f"tugcode dash release {ground.name}")
        merged = self._merged(head, tip)
        if merged == _tree_of(root, head):
            # Merged, squashed or rebased by somebody: it would bring nothing.
            return head
        parents = [head] if self.squash else [head, tip]
        return rehearsal.commit(root, merged, parents, self._message(commits))

    def _merged(self, head: str, tip: str) -> str:
        done = blend.commits(self.repo.root, head, tip)
        base, branch = self.ground.base, self.ground.branch
        hint = f"git diff {quoted(base)}...{branch}"
        if done.refusal:
            raise self._refusal(f"git cannot merge {branch}: {done.refusal}", hint)
        if done.files:
            reason = f"it is in conflict with {base} in {listing(done.files)}"
            raise self._refusal(reason, hint, files=done.files)
        return done.tree

    def _message(self, commits: list[str]) -> str:
        ours = f"{trailers.DASH}: {self.ground.name}\n"
        return message.composed(self.words or self._default(commits), ours, cwd=self.repo.root)

    def _default(self, commits: list[str]) -> str:
        """Its description, or what its only commit says; below, what its commits say."""
        lines = [" ".join(subject.split()) for subject in commits]
        said = " ".join((self.ground.row["description"] or "").split())
        if len(lines) == 1 and not said:
            title, lines = lines[0], []
        else:
            title = said or f"Join {self.ground.name}"
        more = len(lines) - _MOST
        lines = [f"* {line}" for line in lines[:_MOST]]
        lines += [f"* and {more} more"] if more > 0 else []
        return "\n".join([title or f"Join {self.ground.name}", *([""] if lines else []), *lines])


def _tree_of(root: str, commit: str) -> str:
    return git.run("rev-parse", "--verify", f"{commit}^{{tree}}", cwd=root).strip()
