"""worktree remove, clean and cleanup."""

from __future__ import annotations

from contextlib import nullcontext

from tugtool import state
from tugtool.errors import GitFailed, TugError, listing, quoted
from tugtool.errors.git import NotRemoved
from tugtool.errors.state import StateError, WrongStatus
from tugtool.git import command as git
from tugtool.git import index, merge_tree, refs
from tugtool.git import worktrees as git_worktrees
from tugtool.git.safe_view import SafeView
from tugtool.plan import catalog
from tugtool.state import attempts, intents, record, worktrees
from tugtool.store import NO_PLAN
from tugtool.system import crash, os
from tugtool.workflow import salvage, worktree
from tugtool.workflow.commit import log
from tugtool.workflow.commit.intent import caller_commit_site
from tugtool.workflow.salvage import catch_up
from tugtool.workflow.worktree import BRANCHES, Worktree, branches, build

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool import schemas
    from tugtool.git import Repository
    from tugtool.store import Store
    from tugtool.workflow.workspace import Workspace
    from tugtool.workflow.worktree import Inspection

    Outcomes = list[schemas.WorktreeCleanupKeptItem]


def remove(
    repo: Repository, store: Store, name: str, *, cwd: str, force: bool = False
) -> schemas.WorktreeRemove:
    """Remove a worktree and its branch; with `force` save its work first."""
    worktree.require_git()
    with worktree.worktrees_lock(repo):
        tree = _named(repo, store, name, cwd)
        finish_deletion(repo, store, tree)
        return _remove(repo, store, tree, cwd=cwd, force=force)


def _remove(
    repo: Repository, store: Store, tree: Worktree, *, cwd: str, force: bool
) -> schemas.WorktreeRemove:
    seen = worktree.inspect(repo, store, tree, cwd=cwd)
    reasons = seen.reasons(force=force)
    if reasons:
        there = f"cd {quoted(tree.path)} && tugcode worktree clean"
        cleans = seen.files and not (seen.final or seen.claims)
        hint = f"{there} (it saves the work first)" if cleans else "tugcode worktree list"
        raise NotRemoved(tree.path, reasons=reasons, hint=hint)
    return Removing(repo, store, tree, seen, force=force).run()


def finish_deletion(repo: Repository, store: Store, tree: Worktree) -> None:
    """Finish the removal after git was killed while it deleted checked or saved files."""
    intended = worktree.intended(store, tree.owner)
    if not intended or tree.facts is None or tree.exists:
        return
    ref = str(intended["salvage_ref"] or tree.facts.get("HEAD", ""))
    commit = refs.commit_of(repo.root, ref)
    if commit is not None:
        build.clear(repo, tree.path, commit)


def go_on(repo: Repository, store: Store, owner: str, *, cwd: str) -> None:
    """Finish a stopped removal, unless something blocks it. Needs the lock."""
    tree = next((tree for tree in _every(repo, store) if tree.owner == owner), None)
    # Else another process has finished it.
    if tree is not None:
        _remove(repo, store, tree, cwd=cwd, force=False)


def _every(repo: Repository, store: Store) -> list[Worktree]:
    """Return every worktree, also those of which only the intent to remove them is left."""
    known = worktree.trees(repo, store)
    owners = {tree.owner for tree in known}
    paths = [str(row["worktree"]) for row in build.own_intents(repo, store, "remove")]
    gone = [path for path in paths if path not in owners and not worktree.is_dash(path, None)]
    return [*known, *(Worktree(path, None, None) for path in gone)]


def _named(repo: Repository, store: Store, name: str, cwd: str) -> Worktree:
    """Return the worktree that a path, a directory's name or a branch means."""
    path = os.path.realpath(os.path.join(cwd, name))
    if path == repo.root:
        raise NotRemoved(path, reasons=["it is the main worktree"])
    _refuse_dash(repo, name, path)
    known = _every(repo, store)
    by_path = [tree for tree in known if path == tree.path]
    found = by_path or [tree for tree in known if name in (tree.name, tree.branch, tree.owner)]
    if len(found) == 1:
        return found[0]
    from tugtool.system import text

    for row in worktrees.list_worktrees(store, elsewhere=True):
        if name in (row["path"], row["branch"], os.path.basename(row["path"])):
            where = str(row["path"]).partition(":")[0]
            raise NotRemoved(row["path"], reasons=[f"it is on {where}: remove it there"])
    names = [tree.name for tree in known]
    close = text.names(name, names)
    reason = f"closest: {listing(close)}" if close else f"there are {len(names)}"
    raise NotRemoved(name, reasons=[f"no worktree of a plan is called so; {reason}"])


#: How long to wait while another process saves the worktree.
PATIENCE_SECONDS = 60


def _refuse_dash(repo: Repository, name: str, path: str) -> None:
    """Refuse a dash: its own commands know its rounds."""
    for facts in git.worktree_facts(repo.root)[1:]:
        found, branch = facts["worktree"], facts.get("branch")
        if worktree.is_dash(found, branch) and (
            path == found or name in (os.path.basename(found), branch)
        ):
            own = os.path.basename(found).removeprefix(worktree.DASH_DIRECTORIES)
            reasons = ["it is a dash's, and goes with `dash join` or `dash release`"]
            raise NotRemoved(found, reasons=reasons, hint=f"tugcode dash show {quoted(own)}")


class Removing:
    """Removes one worktree, from the intent to the end; a second run goes on."""

    def __init__(
        self, repo: Repository, store: Store, tree: Worktree, seen: Inspection, *, force: bool
    ) -> None:
        self.repo, self.store, self.tree, self.seen, self.force = repo, store, tree, seen, force
        self.recorded = store.exists()
        self.ref: str | None = None

    def run(self) -> schemas.WorktreeRemove:
        self._intend()
        crash.point("remove.intent")
        try:
            lock = salvage.WorktreeLock(self.tree.path, seconds=PATIENCE_SECONDS)
            with lock if self.tree.exists else nullcontext():
                self._take_away()
        except salvage.Unsalvageable as error:
            raise self._stays(str(error)) from error
        crash.point("remove.worktree")
        gone = self._remove_branch()
        crash.point("remove.branch")
        released = self._release()
        crash.point("remove.released")
        self._forget()
        return {
            "worktree_path": self.tree.path,
            "branch_name": self.tree.branch,
            "plan_path": self.tree.plan,
            "branch_removed": gone,
            "released": released,
            "salvage_ref": self.ref,
        }

    def _take_away(self) -> None:
        if self.ref is not None:
            self._save(self.ref)
            crash.point("remove.salvaged")
        self._remove_worktree()

    def _intend(self) -> None:
        earlier = worktree.intended(self.store, self.tree.owner).get("salvage_ref")
        now = record.now(self.store) if self.recorded else ""
        if self.seen.files or self.seen.unproven or earlier:
            slug, name = branches.safe(self._slug()), branches.safe(self.tree.name)
            self.ref = str(earlier or salvage.ref_for(slug, name, now, top=self.repo.root))
        if self.recorded:
            plan, owner = self.tree.plan or NO_PLAN, self.tree.owner
            detail = {"branch": self.tree.branch, "salvage_ref": self.ref}
            head = self.seen.tip
            intents.add(self.store, plan, "remove", owner, head=head, detail=detail)

    def _slug(self) -> str:
        return catalog.slug_of(os.path.basename(self.tree.plan)) if self.tree.plan else "none"

    def _save(self, ref: str) -> None:
        """Save uncommitted work and the branch's commits under one ref; earlier saves stay."""
        tree, root = self.tree, self.repo.root
        saved = refs.tree_of(root, ref)
        try:
            if not tree.exists:
                if saved is None and self.seen.tip is not None:
                    salvage.keep(root, ref=ref, commit=self.seen.tip)
            elif saved is None:
                salvage.save(tree.path, ref=ref, also=[self.seen.tip], facts=self._facts())
            elif saved != salvage.tree_of(tree.path):
                # The worktree changed after an earlier run saved it, or that run was killed while
                # it deleted files: the new ref leads to both.
                earlier = refs.commit_of(root, ref)
                self.ref = salvage.again(root, ref)
                also = [self.seen.tip, earlier]
                salvage.save(tree.path, ref=self.ref, also=also, facts=self._facts())
        except (salvage.Unsalvageable, TugError) as error:
            raise self._stays(str(error)) from error

    def _facts(self) -> dict[str, object]:
        step = self.seen.held[0] if len(self.seen.held) == 1 else None
        return {
            "Plan": self.tree.plan,
            "Step": step and step["step_anchor"],
            "Attempt": step and step["attempt"],
            "Worktree": self.tree.owner,
            "Branch": self.tree.branch,
        }

    def _stays(self, reason: str) -> NotRemoved:
        if self.recorded:
            intents.drop(self.store, self.tree.plan or NO_PLAN, "remove", self.tree.owner)
        return NotRemoved(self.tree.path, reasons=[reason])

    def _remove_worktree(self) -> None:
        if self.tree.facts is None:
            return
        # Without --force git itself checks again for unsaved changes; but it refuses any
        # submodule, and we have checked those.
        saved = self.force and self.ref is not None
        forced = saved or (self.tree.exists and git.submodules(self.tree.path))
        words = ["worktree", "remove", *(["--force"] if forced else []), self.tree.path]
        # Otherwise git would stop halfway at a read-only directory.
        git_worktrees.open_directories(self.tree.path)
        try:
            git.patiently(*words, cwd=self.repo.root, settings=worktree.SEES_ALL)
        except GitFailed as error:
            raise self._stays(error.message) from error

    def _remove_branch(self) -> bool:
        """Remove its branch, if it has not moved since it was proven to have landed."""
        branch, tip = self.tree.branch, self.seen.tip
        if branch is None or tip is None or not self.tree.is_plans:
            return False
        return refs.delete_branch(self.repo.root, branch, tip).status == 0

    def _release(self) -> list[schemas.WorktreeRemoveReleasedItem]:
        released: list[schemas.WorktreeRemoveReleasedItem] = []
        # Also release later claims: the worktree is gone.
        every = [*self.seen.held, *worktrees.claimed_steps(self.store, self.tree.owner)]
        held = {(step["plan_path"], step["step_anchor"], step["attempt"]): step for step in every}
        for step in held.values():
            plan, anchor = step["plan_path"], step["step_anchor"]
            if self.ref is not None:
                attempts.set_ref(self.store, plan, anchor, step["attempt"], ref=self.ref)
            try:
                state.release(self.store, plan, anchor, owner=self.tree.owner)
            except StateError:
                # Another process has taken it or given it back.
                continue
            released.append({"plan_path": plan, "step_anchor": anchor})
        return released

    def _forget(self) -> None:
        if not self.recorded:
            return
        tree = self.tree
        # Unsaved work from here is saved now, or there was none.
        attempts.close_worktree(self.store, tree.owner, self.ref)
        # Other interrupted commands in it can be neither finished nor undone.
        kinds = ("remove", "commit", "sync")
        detail = {"branch": tree.branch, "salvage_ref": self.ref}
        worktrees.forget(self.store, tree.plan or NO_PLAN, tree.owner, intents=kinds, detail=detail)


def clean(space: Workspace) -> schemas.WorktreeClean:
    """Save all files of the caller's worktree under a ref, and reset it to HEAD."""
    repo, store, path = space.repo, space.store, space.worktree
    plan = worktrees.plan_of(store, space.owner) if store.exists() else ""
    caller_commit_site(space, plan)
    _refuse_held(space)
    # Work that another worker took from here may still be unsaved.
    catch_up.catch_up(repo, store, plan or None)
    with salvage.WorktreeLock(path, seconds=catch_up.PATIENCE_SECONDS):
        changed = [entry[3:] for entry in worktree.changes(path)]
        hidden = git_worktrees.hidden_work(path)
        ref = _saved_as(space, plan) if changed or hidden or salvage.has_put_aside(path) else None
        kept_in = os.path.join(repo.common_dir, "tugtool", "kept")
        kept = index.clear(path, kept_in=kept_in) if ref is not None else []
        # A note about work lost later must stay.
        catch_up.forget_lost(repo, path)
    return {
        "worktree_path": path,
        "cleaned": ref is not None,
        "files": [*changed, *hidden],
        "salvage_ref": ref,
        "kept": kept,
    }


def _refuse_held(space: Workspace) -> None:
    """Refuse if the worktree holds a step: its files are the work on that step."""
    for held in worktrees.claimed_steps(space.store, space.owner):
        needed = "the files here are its work: complete or release it first"
        plan, anchor = held["plan_path"], held["step_anchor"]
        raise WrongStatus(plan, anchor, status="held by you", needed=needed)


def _saved_as(space: Workspace, plan: str) -> str:
    """Return a ref with all files as they are and the index; make one if there is none."""
    path, root = space.worktree, space.repo.root
    tree, plain = salvage.tree_of(path), not salvage.has_more(path)
    for ref in attempts.refs_from(space.store, space.owner) if plain else ():
        same = refs.tree_of(root, ref) == tree
        if same and refs.missing(root, ref, "--not", "--branches") is None:
            return ref
    now, name = record.now(space.store), branches.safe(os.path.basename(path))
    ref = salvage.ref_for(salvage.slug(plan or path), name, now, top=path)
    told = {"Plan": plan or None, "Worktree": space.owner, "Branch": refs.head_branch(path)}
    salvage.save(path, ref=ref, facts=told)
    return ref


def cleanup(
    repo: Repository, store: Store, *, cwd: str, dry_run: bool = False
) -> schemas.WorktreeCleanup:
    """Remove every worktree and branch whose work has landed; report why others stay."""
    worktree.require_git()
    removed: Outcomes = []
    kept: Outcomes = []
    # A dry run takes no lock; it may miss concurrent changes.
    with SafeView() if dry_run else worktree.worktrees_lock(repo):
        trees = [tree for tree in worktree.trees(repo, store) if tree.is_plans]
        tips = refs.branches(repo.root)
        for tree in trees:
            if not dry_run:
                finish_deletion(repo, store, tree)
            try:
                seen = worktree.inspect(repo, store, tree, cwd=cwd, tips=tips)
            except GitFailed:
                if dry_run and not os.path.isdir(tree.path):
                    continue
                raise
            reasons = [*seen.reasons(force=False), *_unmerged(store, tree, seen)]
            if not reasons and not dry_run:
                reasons = _removed(repo, store, tree, seen)
            done = _outcome(tree.path, tree.branch, tree.plan, reasons)
            (kept if reasons else removed).append(done)
        away = {row["branch"] for row in worktrees.list_worktrees(store, elsewhere=True)}
        used = {tree.branch for tree in trees} | away
        _clean_branches(repo, used, removed, kept, dry_run=dry_run)
    return {"dry_run": dry_run, "removed": removed, "kept": kept}


def _removed(repo: Repository, store: Store, tree: Worktree, seen: Inspection) -> list[str]:
    try:
        Removing(repo, store, tree, seen, force=False).run()
    except NotRemoved as error:
        return error.reasons
    return []


def _unmerged(store: Store, tree: Worktree, seen: Inspection) -> list[str]:
    """Return why an empty branch keeps its worktree until the plan is merged."""
    if tree.row is None or seen.tip is None or seen.tip != tree.row["base_commit"]:
        return []
    plan = record.find_plan(store, str(tree.plan))
    if plan is None or plan["status"] != "active" or plan["merged_commit"] is not None:
        return []
    return ["nothing was committed in it yet, and the plan is not done"]


def _outcome(
    path: str | None, branch: str | None, plan: str | None, reasons: list[str]
) -> schemas.WorktreeCleanupKeptItem:
    return {
        "worktree_path": path,
        "branch_name": branch,
        "plan_path": plan,
        "reasons": reasons,
    }


def _clean_branches(
    repo: Repository, used: set[str | None], removed: Outcomes, kept: Outcomes, *, dry_run: bool
) -> None:
    """Remove plan branches without a worktree that have landed."""
    onto = refs.current_branch(repo.root)
    target = refs.branch_tip(repo.root, onto) if onto else refs.commit_of(repo.root, "HEAD")
    checked_out = {facts.get("branch") for facts in git.worktree_facts(repo.root)}
    for name, tip in refs.branches(repo.root, BRANCHES).items():
        if name in used:
            continue
        reasons = [f"its commits are not on {onto or 'HEAD'}"]
        if name in checked_out:
            reasons = ["it is checked out"]
        elif target is not None and merge_tree.has_landed(
            repo.root, tip, target, log.repaired, log.PATH
        ):
            reasons = [] if dry_run else _branch_removed(repo, name, tip)
        (kept if reasons else removed).append(_outcome(None, name, None, reasons))


def _branch_removed(repo: Repository, name: str, tip: str) -> list[str]:
    """Delete the branch; return why that failed, or None: it moved, or a hook refused."""
    done = refs.delete_branch(repo.root, name, tip)
    return [done.said.strip() or "git does not let it go"] if done.status else []
