"""worktree remove: what is proven to be elsewhere goes, and what was saved before."""

from __future__ import annotations

import os

from tugtool import base, crash, git, salvage, state
from tugtool.errors import GitFailed, TugError, listing, quoted
from tugtool.git_errors import NotRemoved
from tugtool.plan import catalog
from tugtool.state import record
from tugtool.state_errors import StateError
from tugtool.store import sql, sql_git
from tugtool.worktree import leftover, naming, proof, submodules, survey
from tugtool.worktree.survey import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.repository import Repository
    from tugtool.store import Store
    from tugtool.worktree.proof import Look

    Data = dict[str, object]


def remove(repo: Repository, store: Store, name: str, *, cwd: str, force: bool = False) -> Data:
    """Remove one worktree with its branch; forced, its work is saved before."""
    survey.require_git()
    queue = survey.lock(repo)
    queue.enter()
    try:
        tree = _named(repo, store, name, cwd)
        finish_deletion(repo, store, tree)
        seen = proof.look(repo, store, tree, cwd=cwd)
        reasons = seen.reasons(force=force)
        if reasons:
            raise NotRemoved(tree.path, reasons=reasons)
        return Removing(repo, store, tree, seen, force=force).run()
    finally:
        queue.leave()


def finish_deletion(repo: Repository, store: Store, tree: Tree) -> None:
    """Git was killed while it deleted the files of a worktree that was proven, or saved."""
    intended = proof.intended(store, tree)
    if not intended or tree.facts is None or tree.exists:
        return
    ref = str(intended["salvage_ref"] or tree.facts.get("HEAD", ""))
    commit = base.commit_of(repo.root, ref)
    if commit is not None:
        leftover.clear(repo, tree.path, commit)


def go_on(repo: Repository, store: Store, owner: str, *, cwd: str) -> None:
    """Finish a removal that was stopped, unless something is in the way; under the lock."""
    tree = next((tree for tree in _every(repo, store) if tree.owner == owner), None)
    if tree is None:
        # Somebody else has finished it.
        return
    seen = proof.look(repo, store, tree, cwd=cwd)
    reasons = seen.reasons(force=False)
    if reasons:
        raise NotRemoved(tree.path, reasons=reasons)
    Removing(repo, store, tree, seen, force=False).run()


def _every(repo: Repository, store: Store) -> list[Tree]:
    """Every worktree; also where nothing but the intent to remove it is left to tell of it."""
    known = survey.trees(repo, store)
    owners = {tree.owner for tree in known}
    if not store.exists():
        return known
    with store.read() as tx:
        paths = [str(row["worktree"]) for row in tx.all(sql_git.INTENTS, kind="remove")]
    gone = [path for path in paths if path not in owners and not survey.is_dash(path, None)]
    return [*known, *(Tree(path, None, None) for path in gone)]


def _named(repo: Repository, store: Store, name: str, cwd: str) -> Tree:
    """The worktree that a path, a directory's name or a branch means."""
    path = os.path.realpath(os.path.join(cwd, name))
    if path == repo.root:
        raise NotRemoved(path, reasons=["it is the main worktree"])
    _refuse_dash(repo, name, path)
    known = _every(repo, store)
    by_path = [tree for tree in known if path == tree.path]
    found = by_path or [tree for tree in known if name in (tree.name, tree.branch, tree.owner)]
    if len(found) == 1:
        return found[0]
    from tugtool import nearest

    names = [tree.name for tree in known]
    close = nearest.names(name, names)
    reason = f"closest: {listing(close)}" if close else f"there are {len(names)}"
    raise NotRemoved(name, reasons=[f"no worktree of a plan is called so; {reason}"])


#: For so long it waits while another process saves what lies there.
PATIENCE_SECONDS = 60


def _refuse_dash(repo: Repository, name: str, path: str) -> None:
    """A dash ends by its own commands, which know its rounds."""
    for facts in git.worktree_facts(repo.root)[1:]:
        found, branch = facts["worktree"], facts.get("branch")
        if survey.is_dash(found, branch) and (
            path == found or name in (os.path.basename(found), branch)
        ):
            own = os.path.basename(found).removeprefix(survey.DASH_DIRECTORIES)
            reasons = ["it is a dash's, and goes with `dash join` or `dash release`"]
            raise NotRemoved(found, reasons=reasons, hint=f"tugcode dash show {quoted(own)}")


class Removing:
    """One worktree, from the intent to the end; whoever runs it again goes on."""

    def __init__(
        self, repo: Repository, store: Store, tree: Tree, seen: Look, *, force: bool
    ) -> None:
        self.repo, self.store, self.tree, self.seen, self.force = repo, store, tree, seen, force
        self.recorded = store.exists()
        self.ref: str | None = None

    def run(self) -> Data:
        self._intend()
        crash.point("remove.intent")
        if self.tree.exists:
            self._alone()
        else:
            self._take_away()
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

    def _alone(self) -> None:
        try:
            with salvage.Guard(self.tree.path, seconds=PATIENCE_SECONDS):
                self._take_away()
        except salvage.Unsalvageable as error:
            raise self._stays(str(error)) from error

    def _take_away(self) -> None:
        if self.ref is not None:
            self._save(self.ref)
            crash.point("remove.salvaged")
        self._remove_worktree()

    def _intend(self) -> None:
        from tugtool import jsontext

        earlier = proof.intended(self.store, self.tree).get("salvage_ref")
        now = ""
        if self.recorded:
            with self.store.read() as tx:
                now = tx.now
        if self.seen.files or self.seen.unproven or earlier:
            self.ref = str(earlier) if earlier else self._new_ref(now)
        if not self.recorded:
            return
        with self.store.write(self.tree.plan or "") as tx:
            tx.run(
                sql_git.ADD_INTENT,
                kind="remove",
                path=self.tree.owner,
                plan=self.tree.plan or "",
                head=self.seen.tip,
                detail=jsontext.encode({"branch": self.tree.branch, "salvage_ref": self.ref}),
            )

    def _new_ref(self, now: str) -> str:
        return salvage.ref_for(
            naming.safe(self._slug()), naming.safe(self.tree.name), now, top=self.repo.root
        )

    def _slug(self) -> str:
        return catalog.slug_of(os.path.basename(self.tree.plan)) if self.tree.plan else "none"

    def _save(self, ref: str) -> None:
        """Uncommitted work and the branch's commits, under one ref; what was saved stays."""
        tree, root = self.tree, self.repo.root
        saved = salvage.saved_tree(root, ref)
        try:
            if not tree.exists:
                if saved is None and self.seen.tip is not None:
                    salvage.keep(root, ref=ref, commit=self.seen.tip)
            elif saved is None:
                salvage.save(tree.path, ref=ref, also=[self.seen.tip], facts=self._facts())
            elif saved != salvage.tree_of(tree.path):
                # Somebody went on working there since an earlier run saved it, or that run
                # was killed while the files went: the new ref leads to both.
                earlier = base.commit_of(root, ref)
                self.ref = salvage.again(root, ref)
                also = [self.seen.tip, earlier]
                salvage.save(tree.path, ref=self.ref, also=also, facts=self._facts())
        except (salvage.Unsalvageable, TugError) as error:
            raise self._stays(str(error)) from error

    def _facts(self) -> Data:
        step = self.seen.held[0] if len(self.seen.held) == 1 else {}
        return {
            "Plan": self.tree.plan,
            "Step": step.get("step_anchor"),
            "Attempt": step.get("attempt"),
            "Worktree": self.tree.owner,
            "Branch": self.tree.branch,
        }

    def _stays(self, reason: str) -> NotRemoved:
        if self.recorded:
            with self.store.write(self.tree.plan or "") as tx:
                tx.run(sql_git.DROP_INTENT, kind="remove", path=self.tree.owner)
        return NotRemoved(self.tree.path, reasons=[reason])

    def _remove_worktree(self) -> None:
        if self.tree.facts is None:
            return
        # Unforced, git itself looks once more whether anything has changed there, which nobody
        # has saved; but it refuses any submodule, and ours have been looked at.
        saved = self.force and self.ref is not None
        forced = saved or (self.tree.exists and submodules.any_in(self.tree.path))
        words = ["worktree", "remove", *(["--force"] if forced else []), self.tree.path]
        try:
            git.patiently(*words, cwd=self.repo.root, settings=survey.SEES_ALL)
        except GitFailed as error:
            raise self._stays(error.message) from error

    def _remove_branch(self) -> bool:
        """Its own branch, if it is still where it was when it was proven to have landed."""
        branch, tip = self.tree.branch, self.seen.tip
        if branch is None or tip is None or not self.tree.is_plans:
            return False
        ref = f"refs/heads/{branch}"
        gone = git.attempt("update-ref", "-d", ref, tip, cwd=self.repo.root).status == 0
        if gone:
            git.attempt("config", "--remove-section", f"branch.{branch}", cwd=self.repo.root)
        return gone

    def _release(self) -> list[Data]:
        released: list[Data] = []
        # Also what was claimed there since: nobody can work in it any more.
        every = [*self.seen.held, *survey.held(self.store, self.tree.owner)]
        held = {(step["plan_path"], step["step_anchor"], step["attempt"]): step for step in every}
        for step in held.values():
            plan, anchor = str(step["plan_path"]), str(step["step_anchor"])
            if self.ref is not None:
                with self.store.write(plan) as tx:
                    number = step["attempt"]
                    tx.run(sql_git.SET_SALVAGE, anchor=anchor, number=number, salvage_ref=self.ref)
            try:
                state.release(self.store, plan, anchor, owner=self.tree.owner)
            except StateError:
                # Somebody has taken it, or given it back, in the meantime.
                continue
            released.append({"plan_path": plan, "step_anchor": anchor})
        return released

    def _settle(self) -> None:
        """Attempts whose work was still to be saved from here: it is, or there was none."""
        with self.store.read() as tx:
            rows = tx.all(sql_git.UNSAVED_IN, path=self.tree.owner)
        for row in rows:
            key = {"anchor": row["step_anchor"], "number": row["number"]}
            with self.store.write(row["plan_path"]) as tx:
                if tx.run(sql_git.DROP_UNSAVED, **key) and self.ref is not None:
                    tx.run(sql_git.SET_SALVAGE, **key, salvage_ref=self.ref)

    def _forget(self) -> None:
        if not self.recorded:
            return
        self._settle()
        plan = self.tree.plan or ""
        with self.store.write(plan) as tx:
            # What else was under way in it can neither be finished there nor undone.
            for kind in ("remove", "commit", "sync"):
                tx.run(sql_git.DROP_INTENT, kind=kind, path=self.tree.owner)
            if tx.run(sql_git.DROP_WORKTREE, path=self.tree.owner) and tx.first(sql.PLAN):
                who, branch, ref = self.tree.owner, self.tree.branch, self.ref
                record.note(tx, plan, "worktree_remove", actor=who, branch=branch, salvage_ref=ref)
