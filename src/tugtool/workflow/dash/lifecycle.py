"""dash create, join and release: the begin and the end of a dash.

`create` does everything or leaves nothing. It restores a lost worktree or branch of a dash,
and records a dash anew that only git has.
"""

from __future__ import annotations

from tugtool.errors import TugError, listing, quoted
from tugtool.errors.git import BadDashName, CommitRefused, NotJoined, NotMade, NotRemoved
from tugtool.git import advance, git_dir, merge_tree, refs, status, trailers
from tugtool.git import command as git
from tugtool.state import dashes, intents
from tugtool.store import NO_PLAN
from tugtool.system import crash, os
from tugtool.workflow import dash, plans, worktree
from tugtool.workflow.commit import log
from tugtool.workflow.dash import Dash, facts, refuse_other_branch, rounds
from tugtool.workflow.worktree import branches, build, setup
from tugtool.workflow.worktree.remove import Removing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tugtool.git import Repository
    from tugtool.schemas import DashCreate, DashJoin, DashRelease
    from tugtool.store import Store
    from tugtool.workflow.workspace import Workspace
    from tugtool.workflow.worktree import Inspection


class DashRequest:
    """A request: the name, the base branch and the description."""

    __slots__ = ("base", "description", "name")

    def __init__(self, name: str, *, base: str | None, description: str | None) -> None:
        self.name = dash.checked(name)
        self.base = None if base is None else base.removeprefix("refs/heads/")
        self.description = description


def create(repo: Repository, store: Store, order: DashRequest) -> DashCreate:
    """Make a dash, or return the active one of that name, repaired if needed."""
    worktree.require_git()
    worktree.directory(repo)
    plans.ignore_state(repo)
    store.create()
    with worktree.worktrees_lock(repo):
        build.repair_creations(repo, store)
        dash.repair_join(repo, store)
        row = dashes.active(store, order.name)
        if row is not None:
            how = _existing(Dash(repo, store, row), order)
        else:
            how = _Making(repo, store, order).run()
    made = Dash(repo, store, dashes.require(store, order.name))
    return {
        "name": made.name,
        "worktree_path": made.path,
        "branch_name": made.branch,
        "base_branch": made.base,
        "base_commit": made.row["base_commit"],
        "description": made.row["description"],
        "rounds": made.row["rounds"],
        "created": how == "created",
        "repaired": how == "repaired",
        "adopted": how == "adopted",
    }


def _existing(ground: Dash, order: DashRequest) -> str:
    if order.base not in (None, ground.base):
        asked = branches.branch(ground.repo, asked=order.base, target=None)
        reason = f"it is active, and comes from {ground.base}, not from {asked}"
        raise BadDashName(ground.name, reason=reason, taken=True)
    ground.revive()
    how = _repair(ground)
    if order.description is not None and order.description != ground.row["description"]:
        dashes.describe(ground.store, ground.row, order.description)
    return how


def _repair(ground: Dash) -> str:
    """Restore the missing branch or worktree of a dash."""
    repo, how = ground.repo, "found"
    tip = ground.tip()
    if tip is None:
        tip, how = _last_commit(ground), "repaired"
        build.branch(repo, ground.branch, tip, said="tugcode: dash create")
    return "repaired" if _placed(repo, ground.name, tip) else how


def _placed(repo: Repository, name: str, tip: str) -> bool:
    """Return the worktree of an existing branch, and whether it had to be made."""
    path, branch = dash.directory_of(repo, name), dash.branch_of(name)
    known = facts(repo, path)
    if known is not None and os.path.isfile(os.path.join(path, ".git")):
        refuse_other_branch(name, path, known.get("branch"))
        return False
    if os.path.lexists(path):
        raise NotMade(path, reason="the path exists, and git does not know it as a worktree")
    if known is not None:
        # Git remembers a worktree whose directory is gone; it keeps a locked one.
        git.patiently("worktree", "remove", "--force", path, cwd=repo.root)
    _add(repo, path, branch, tip)
    return True


def _last_commit(ground: Dash) -> str:
    commits = [row["commit_hash"] for row in dashes.rounds(ground.store, ground.row)]
    last = [commit for commit in commits if commit is not None] or [ground.row["base_commit"]]
    found = refs.commit_of(ground.repo.root, last[-1])
    if found is None:
        reason = f"its branch {ground.branch} is gone, and git no longer has {last[-1]}"
        raise NotMade(ground.path, reason=reason)
    return found


def _add(repo: Repository, path: str, branch: str, tip: str) -> None:
    """Add the directory; the branch stays as it is."""
    try:
        build.directory(repo, path, branch)
        build.verify(repo, path, branch, tip)
    except TugError as error:
        words = ("worktree", "remove", "--force", "--force", path)
        git.attempt(*words, cwd=repo.root, though_killed=True)
        reason = error.reason if isinstance(error, NotMade) else error.message
        left = [path] if os.path.lexists(path) else []
        raise NotMade(path, reason=reason, left=left) from error


class _Making:
    """Makes one dash, from the intent to the row; undoes everything on an error."""

    def __init__(self, repo: Repository, store: Store, order: DashRequest) -> None:
        self.repo, self.store, self.order = repo, store, order
        self.branch, self.path = dash.branch_of(order.name), dash.directory_of(repo, order.name)
        self.onto = branches.branch(repo, asked=order.base, target=None)
        start = refs.branch_tip(repo.root, self.onto)
        assert start is not None, self.onto
        self.start = start

    def run(self) -> str:
        tip = refs.branch_tip(self.repo.root, self.branch)
        if tip is not None:
            return self._adopt(tip)
        if os.path.lexists(self.path):
            raise NotMade(self.path, reason="the path exists already")
        preparation = setup.Preparation(self.repo)
        detail: dict[str, object] = {"branch": self.branch, "base_branch": self.onto}
        intents.add(self.store, NO_PLAN, "create", self.path, head=self.start, detail=detail)
        crash.point("dash.intent")
        try:
            self._make(preparation)
        except BaseException as error:
            left = build.undo(
                self.repo, self.store, self.path, branch=self.branch, start=self.start
            )
            if isinstance(error, TugError) and not isinstance(error, BadDashName):
                reason = error.reason if isinstance(error, NotMade) else error.message
                known = refs.in_the_way(self.repo.root, worktree.DASH_BRANCHES)
                raise NotMade(self.path, reason=known or reason, left=left) from error
            raise
        return "created"

    def _make(self, preparation: setup.Preparation) -> None:
        build.branch(self.repo, self.branch, self.start, said="tugcode: dash create")
        crash.point("dash.branch")
        build.directory(self.repo, self.path, self.branch)
        crash.point("dash.worktree")
        build.verify(self.repo, self.path, self.branch, self.start)
        preparation.run([self.path])
        self._record(self.start)
        crash.point("dash.recorded")

    def _record(self, start: str, found: list[dashes.Round] | None = None) -> None:
        dashes.add(
            self.store,
            self.order.name,
            path=self.path,
            base=(self.onto, start),
            description=self.order.description,
            rounds=found or (),
        )

    def _adopt(self, tip: str) -> str:
        """Adopt a branch without a record: the state was lost, or a person made the branch."""
        start = refs.merge_base(self.repo.root, f"refs/heads/{self.onto}", tip)
        if start is None:
            reason = f"there is a branch {self.branch} that has nothing in common with {self.onto}"
            raise BadDashName(self.order.name, reason=reason)
        _placed(self.repo, self.order.name, tip)
        self._record(start, rounds.in_git(self.path, self.order.name, start))
        return "adopted"


#: A squash message only counts commits beyond this number.
_MOST = 50


def join(space: Workspace, name: str, *, words: str | None = None, squash: bool = True) -> DashJoin:
    """Merge a dash into its base branch, and remove its worktree and branch."""
    repo, store, cwd, name = space.repo, space.store, space.cwd, dash.bare(name)
    worktree.require_git()
    words = None if words is None else trailers.check_text(words)
    path = Dash(repo, store, dashes.find(store, name)).path
    if cwd == path or cwd.startswith(path + os.sep):
        reason = "you stand in its worktree, which goes with it"
        raise NotJoined(name, reason, f"cd {quoted(repo.root)}")
    with dash.alone(path), worktree.worktrees_lock(repo):
        finished = dash.repair_join(repo, store).get(name)
        if finished is not None:
            return finished
        ground = Dash(repo, store, dashes.require(store, name))
        ground.revive()
        with dash.refusals(name):
            return _run(ground, _Rehearsal(ground, words, squash=squash).script())


def _run(ground: Dash, script: dict[str, Any]) -> DashJoin:
    repo, store = ground.repo, ground.store
    intents.add(store, NO_PLAN, "join", ground.path, head=script["head"], detail=script)
    crash.point("join.intent")
    try:
        advance.move_main(repo, script, command="join")
    except advance.Blocked:
        intents.drop(store, NO_PLAN, "join", ground.path)
        raise
    crash.point("join.moved")
    return dash.conclude(repo, store, script, resumed=False)


class _Rehearsal:
    """Prepares a join without touching anything."""

    def __init__(self, ground: Dash, words: str | None, *, squash: bool) -> None:
        self.ground, self.repo = ground, ground.repo
        self.words, self.squash = words, squash

    def script(self) -> dict[str, Any]:
        """Return what `dash.conclude`, or the command that finishes a stopped join, needs."""
        ground, repo = self.ground, self.repo
        tip = self._tip()
        advance.refuse_other_branch(repo, ground.base)
        advance.refuse_unclean(repo)
        head = refs.head(repo.root)
        commits = self._commits(tip)
        result = self._result(head, tip, commits)
        advance.refuse_overwriting(repo, head, result)
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
        """Return the commit of its branch; refuse uncommitted work."""
        ground = self.ground
        name, path = ground.name, ground.path
        tip = ground.tip()
        if tip is None:
            hint = f"tugcode dash create {name}"
            raise self._refusal(f"its branch {ground.branch} is gone", hint)
        if not ground.tree().exists:
            if os.path.lexists(path):
                reason = f"git does not know {path} as its worktree"
                raise self._refusal(reason, f"ls -la {quoted(path)}")
            return tip
        ground.refuse_elsewhere()
        rounds.finish_interrupted(ground)
        try:
            status.inspect(path, git_dir(path)).refuse_unfit()
        except CommitRefused as error:
            raise self._refusal(error.message, f"git -C {quoted(path)} status") from error
        changed = [entry[3:] for entry in worktree.changes(path)]
        if changed:
            reason = f"work in {path} is not committed: {listing(changed)}"
            hint = f"tugcode dash commit {name} --message TEXT"
            raise self._refusal(reason, hint, files=changed)
        return tip

    def _commits(self, tip: str) -> list[str]:
        """Return the subjects of its commits, oldest first, without those from the base."""
        ground = self.ground
        range_ = (f"{ground.row['base_commit']}..{tip}", f"^refs/heads/{ground.base}", "--")
        words = ("log", "-z", "--reverse", "--no-merges", "--format=%s")
        out = git.run(*words, *range_, cwd=self.repo.root)
        return out.split("\0")[:-1]

    def _result(self, head: str, tip: str, commits: list[str]) -> str:
        """Return the commit that the base branch moves to; `head` if that has everything."""
        root, ground = self.repo.root, self.ground
        if tip == ground.row["base_commit"]:
            reason = "nothing was committed in it"
            raise self._refusal(reason, f"tugcode dash release {ground.name}")
        merged = self._merged(head, tip)
        if merged == refs.tree_of(root, head):
            # Its changes are on the base branch already, by a merge, squash or rebase.
            return head
        parents = [head] if self.squash else [head, tip]
        ours = f"{trailers.DASH}: {ground.name}\n"
        text = trailers.composed(self.words or self._default(commits), ours, cwd=root)
        return refs.commit_tree(root, merged, parents, text, signed=refs.is_signing(root))

    def _merged(self, head: str, tip: str) -> str:
        done = merge_tree.commits(self.repo.root, head, tip, log.repaired)
        base, branch = self.ground.base, self.ground.branch
        hint = f"git diff {quoted(base)}...{branch}"
        if done.refusal:
            raise self._refusal(f"git cannot merge {branch}: {done.refusal}", hint)
        if done.files:
            reason = f"it is in conflict with {base} in {listing(done.files)}"
            raise self._refusal(reason, hint, files=done.files)
        return done.tree

    def _default(self, commits: list[str]) -> str:
        """Return its description or its only commit's subject, followed by all subjects."""
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


def release_dash(space: Workspace, name: str, *, force: bool = False) -> DashRelease:
    """Remove a dash's worktree and branch; with `force` save its work first."""
    repo, store, name = space.repo, space.store, dash.bare(name)
    worktree.require_git()
    path = Dash(repo, store, dashes.find(store, name)).path
    with dash.alone(path), worktree.worktrees_lock(repo):
        dash.repair_join(repo, store)
        ground = Dash(repo, store, dashes.require(store, name))
        return _release(ground, cwd=space.cwd, force=force)


def _release(ground: Dash, *, cwd: str, force: bool) -> DashRelease:
    tree = ground.tree()
    if tree.exists and tree.facts is not None and tree.facts.get("branch") == ground.branch:
        rounds.finish_interrupted(ground)
    seen = worktree.inspect(ground.repo, ground.store, tree, cwd=cwd)
    reasons = seen.reasons(force=force)
    hint = f"tugcode dash show {ground.name}"
    if reasons:
        raise NotRemoved(ground.path, reasons=reasons, hint=hint)
    try:
        done = _Releasing(ground, seen, force=force).run()
    except NotRemoved as error:
        raise NotRemoved(ground.path, reasons=error.reasons, hint=hint) from error
    return {
        "name": ground.name,
        "status": "released",
        "worktree_path": done["worktree_path"],
        "branch_name": ground.branch,
        "branch_removed": done["branch_removed"],
        "released": done["released"],
        "salvage_ref": done["salvage_ref"],
    }


class _Releasing(Removing):
    """Removes a worktree like any other, and then ends the dash."""

    def __init__(self, ground: Dash, seen: Inspection, *, force: bool) -> None:
        super().__init__(ground.repo, ground.store, ground.tree(), seen, force=force)
        self.ground = ground

    def _slug(self) -> str:
        return f"dash-{self.ground.name}"

    def _forget(self) -> None:
        dashes.release(self.store, self.ground.row, self.ground.path, salvage_ref=self.ref)
