"""What a worktree holds, and whether all of it is elsewhere, beyond doubt."""

from __future__ import annotations

import os

from tugtool import base, landed, salvage
from tugtool.errors import listing
from tugtool.store import sql_git
from tugtool.worktree import submodules, survey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from tugtool.repository import Repository
    from tugtool.store import Store
    from tugtool.worktree.survey import Tree

    Data = dict[str, object]


class Look:
    """What a worktree holds, and what stands in the way of removing it."""

    __slots__ = ("claims", "files", "final", "head", "held", "tip", "unproven")

    def __init__(self) -> None:
        #: Nothing helps against these but a person.
        self.final: list[str] = []
        #: Force helps against these: claims are released, work is saved first.
        self.claims: list[str] = []
        self.files: list[str] = []
        self.unproven: list[str] = []
        self.held: list[Data] = []
        #: Where its HEAD is, and its branch; None where there is none.
        self.head: str | None = None
        self.tip: str | None = None

    def reasons(self, *, force: bool) -> list[str]:
        """What keeps it."""
        return [*self.final, *([] if force else [*self.claims, *self.files, *self.unproven])]


def look(repo: Repository, store: Store, tree: Tree, *, cwd: str) -> Look:
    """Everything that has to be known before a worktree may go."""
    seen = Look()
    seen.held = survey.held(store, tree.owner)
    seen.claims = [
        f"it holds {step['step_anchor']} of {step['plan_path']} until {step['lease_expires_at']}"
        for step in seen.held
        # Nobody works in a directory that is gone, however long the lease runs.
        if step["lease"] == "live" and os.path.lexists(tree.path)
    ]
    seen.final = list(_final(tree, cwd))
    if tree.branch is not None:
        seen.tip = base.commit_of(repo.root, f"refs/heads/{tree.branch}")
    if tree.exists:
        seen.head = base.commit_of(tree.path, "HEAD")
        changed = [entry[3:] for entry in survey.changes(tree.path)]
        if changed:
            number = "1 file" if len(changed) == 1 else f"{len(changed)} files"
            seen.files = [f"{number} not committed: {listing(changed, most=3)}"]
        if salvage.has_put_aside(tree.path):
            seen.files.append("a rebase or merge is under way that has put changes aside")
        seen.final += submodules.work(tree.path)
    seen.unproven = list(_unproven(repo, store, tree, (seen.tip, seen.head)))
    return seen


def _final(tree: Tree, cwd: str) -> Iterable[str]:
    if cwd == tree.path or cwd.startswith(tree.path + os.sep):
        yield "you stand in it"
    if tree.facts is not None and "locked" in tree.facts:
        why = tree.facts["locked"]
        yield f"it is locked ({why})" if why else "it is locked"
    if os.path.lexists(tree.path) and not tree.exists:
        yield "a directory is there that git does not know as a worktree"


def _unproven(
    repo: Repository, store: Store, tree: Tree, tips: tuple[str | None, ...]
) -> Iterable[str]:
    onto = survey.base_branch(repo, tree)
    target = onto and base.commit_of(repo.root, f"refs/heads/{onto}")
    saved = _saved_before(repo, store, tree)
    for tip in dict.fromkeys(tip for tip in tips if tip is not None):
        if any(landed.is_ancestor(repo.root, tip, ref) for ref in saved):
            continue
        if not target:
            gone = f"its base branch {onto} is gone" if onto else "the main worktree has no branch"
            yield f"{gone}, so nothing proves that its commits have landed"
        elif not landed.has_landed(repo.root, tip, target):
            counts = landed.ahead_and_behind(repo.root, tip, target) or (0, 0)
            number = f"{counts[0]} commit" if counts[0] == 1 else f"{counts[0]} commits"
            yield f"{number} of {tree.branch or 'its HEAD'} not on {onto}"


def _saved_before(repo: Repository, store: Store, tree: Tree) -> list[str]:
    """The commit that an earlier run, which did not get to its end, has saved."""
    ref = intended(store, tree).get("salvage_ref")
    commit = base.commit_of(repo.root, str(ref)) if ref else None
    return [commit] if commit else []


def intended(store: Store, tree: Tree) -> Data:
    """What a removal that did not get to its end had written down."""
    import json

    if not store.exists():
        return {}
    with store.read() as tx:
        intent = tx.first(sql_git.INTENT, kind="remove", path=tree.owner)
    return dict(json.loads(intent["detail"])) if intent is not None else {}
