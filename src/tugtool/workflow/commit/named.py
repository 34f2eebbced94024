"""A commit that a worker names for its step: what speaks against it.

The record takes every commit that git knows. `complete --commit` warns of what is found here; a
worker over MCP, who may have no shell to look, is refused.
"""

from __future__ import annotations

from tugtool.errors import listing
from tugtool.git import command as git
from tugtool.git import refs
from tugtool.plan import catalog
from tugtool.state import record, worktrees
from tugtool.system import os
from tugtool.workflow.salvage import leftovers
from tugtool.workflow.worktree import BRANCHES, branches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tugtool.schemas import Issue, StateComplete
    from tugtool.workflow.workspace import Workspace


#: A list of files names so many.
_MOST_FILES = 8
#: A hash: as git abbreviates it, and a whole one of SHA-256.
_SHORTEST, _LONGEST = 7, 64


def warnings(space: Workspace, data: StateComplete, name: str) -> list[Issue]:
    """Return what is to be said about the commit that `complete` was given (W161, W162)."""
    if data["already_completed"]:
        told = list(_unrecorded(space, data, name))
        return [{"code": "W162", "severity": "warning", "message": each} for each in told]
    plan, anchor = data["plan_path"], data["anchor"]
    told = [*doubts(space, plan, anchor, str(data["commit_hash"])), *uncommitted(space)]
    hint = "git log --oneline --max-count=9"
    return [{"code": "W161", "severity": "warning", "message": each, "hint": hint} for each in told]


def _unrecorded(space: Workspace, data: StateComplete, name: str) -> Iterator[str]:
    """Say that a repetition records nothing, if it names another commit than the first call."""
    known, given = data["commit_hash"], refs.commit_of(_top(space), name)
    if given is None or given != known:
        before = f"with commit {known[:12]}" if known else "without a commit"
        yield f"{data['anchor']} was completed before, {before}; {name[:60]} is not recorded"


def doubts(space: Workspace, plan: str, anchor: str, name: str) -> Iterator[str]:
    """Yield why a commit cannot be the work on a step; nothing if git does not know it."""
    if not _is_here(space) and not is_hash(name):
        return  # The server refuses it.
    commit = refs.commit_of(_top(space), name)
    if commit is None:
        return
    if _is_here(space):
        if not refs.is_ancestor(space.worktree, commit, "HEAD"):
            yield f"commit {commit[:12]} is not on the branch of {space.worktree}"
    elif not _is_on_branch(space, plan, commit):
        slug = branches.safe(catalog.slug_of(os.path.basename(plan)))
        name = f"{BRANCHES}{slug}-YYYYMMDD-N"
        yield f"commit {commit[:12]} is on no branch of the plan, such as {name}"
    yield from _nothing_new(space, plan, anchor, commit)


def is_hash(name: str) -> bool:
    """Return whether a commit is named by its hash, which means the same in every clone."""
    return _SHORTEST <= len(name) <= _LONGEST and not set(name.lower()) - set("0123456789abcdef")


def uncommitted(space: Workspace) -> Iterator[str]:
    """Say which files the commit of the next step in this linked worktree would have."""
    named = listing(leftovers.uncommitted_files(space), _MOST_FILES)
    if named:
        yield f"{space.worktree} has uncommitted files ({named}), which the next step would commit"


def _is_here(space: Workspace) -> bool:
    return os.path.isdir(space.worktree)


def _top(space: Workspace) -> str:
    return space.worktree if _is_here(space) else space.repo.root


def _is_on_branch(space: Workspace, plan: str, commit: str) -> bool:
    """Return whether a branch has the commit that `merge` would look at."""
    slug = catalog.slug_of(os.path.basename(plan))
    rows = worktrees.of_plan(space.store, plan)
    recorded = {row[key] for row in rows for key in ("branch", "base_branch")}
    recorded.add(refs.current_branch(space.repo.root))
    words = ("for-each-ref", "--contains", commit, "--format=%(refname)")
    found = git.attempt(*words, "refs/heads/", "refs/remotes/", cwd=space.repo.root).out.split()
    # refs/heads/NAME, or refs/remotes/REMOTE/NAME
    names = [each.split("/", 2 if each.startswith("refs/heads/") else 3)[-1] for each in found]
    return any(each in recorded or branches.is_named_after(each, slug) for each in names)


def _nothing_new(space: Workspace, plan: str, anchor: str, commit: str) -> Iterator[str]:
    """Say that a commit has nothing but what was there before the step."""
    known = _other_commits(space, plan, anchor)
    if commit in known:
        yield f"commit {commit[:12]} is that of {known[commit]}"
        return
    before = [record.require_plan(space.store, plan)["base_commit"]]
    tree = worktrees.find_worktree(space.store, space.owner)
    before += [] if tree is None else [tree["base_commit"]]
    # A commit below that of another step may still be this one's: workers commit in any order.
    top = _top(space)
    if refs.newest_beyond(top, commit, [*before, *known]):
        return
    if refs.newest_beyond(top, commit, before) != commit:
        yield f"commit {commit[:12]} has no work on {anchor}: all of it was there before"


def _other_commits(space: Workspace, plan: str, anchor: str) -> dict[str, str]:
    """Return the recorded commits of other steps."""
    rows = worktrees.committed_steps(space.store, plan)
    row = record.find_step(space.store, plan, anchor)
    top = anchor if row is None else row["parent_anchor"] or anchor
    own = {each["anchor"] for each in rows if top in (each["anchor"], each["parent_anchor"])}
    return {row["commit_hash"]: row["anchor"] for row in rows if row["anchor"] not in own}
