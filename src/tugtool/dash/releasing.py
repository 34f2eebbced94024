"""dash release: a dash is given up; what was done in it is saved before it goes."""

from __future__ import annotations

from tugtool.dash import mending, rounds
from tugtool.dash.ground import Alone, Ground
from tugtool.git_errors import NotRemoved
from tugtool.state import dashing
from tugtool.worktree import proof, survey
from tugtool.worktree.removing import Removing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.repository import Repository
    from tugtool.store import Store
    from tugtool.worktree.proof import Look

    Data = dict[str, object]


def release(repo: Repository, store: Store, name: str, *, cwd: str, force: bool = False) -> Data:
    """Take a dash's worktree and branch away; forced, its work is saved before."""
    survey.require_git()
    with Alone(Ground(repo, store, dashing.find(store, name)).path):
        queue = survey.lock(repo)
        queue.enter()
        try:
            mending.mend(repo, store)
            ground = Ground(repo, store, dashing.require(store, name))
            return _release(ground, cwd=cwd, force=force)
        finally:
            queue.leave()


def _release(ground: Ground, *, cwd: str, force: bool) -> Data:
    tree = ground.tree()
    if tree.exists and tree.facts is not None and tree.facts.get("branch") == ground.branch:
        rounds.settle(ground)
    seen = proof.look(ground.repo, ground.store, tree, cwd=cwd)
    reasons = seen.reasons(force=force)
    hint = f"tugcode dash show {ground.name}"
    if reasons:
        raise NotRemoved(ground.path, reasons=reasons, hint=hint)
    try:
        done = _Releasing(ground, seen, force=force).run()
    except NotRemoved as error:
        raise NotRemoved(ground.path, reasons=error.reasons, hint=hint) from error
    del done["plan_path"]
    return {"name": ground.name, "status": "released", **done}


class _Releasing(Removing):
    """As any worktree is removed; in the end it is the dash that is ended."""

    def __init__(self, ground: Ground, seen: Look, *, force: bool) -> None:
        super().__init__(ground.repo, ground.store, ground.tree(), seen, force=force)
        self.ground = ground

    def _slug(self) -> str:
        return f"dash-{self.ground.name}"

    def _forget(self) -> None:
        dashing.release(self.store, self.ground.row, self.ground.path, salvage_ref=self.ref)
