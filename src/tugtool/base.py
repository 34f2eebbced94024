"""What a plan's work starts from: the base branch, and the commit that brought the plan."""

from __future__ import annotations

import os

from tugtool import git
from tugtool.errors import GitFailed
from tugtool.git_errors import NoBaseBranch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.plan.model import Plan
    from tugtool.repository import Repository

#: What git has in revisions, and in no branch's name.
_IN_NO_NAME = ("..", "@{", "~", "^", ":")
#: What people write into the table of metadata when they mean: not decided.
_UNDECIDED = ("", "-", "--", "\u2013", "\u2014", "n/a", "none", "tbd", "?")


def branch(repo: Repository, *, asked: str | None, target: str | None) -> str:
    """The base branch: the one asked for, else the plan's target, else the main worktree's."""
    wanted = asked if asked is not None else target
    if wanted is None:
        return current_branch(repo.root)
    name = wanted.removeprefix("refs/heads/")
    # `main~2` and `main@{1}` are commits, and no branch that anything could be merged to.
    is_name = not any(mark in name for mark in _IN_NO_NAME)
    if not is_name or commit_of(repo.root, f"refs/heads/{name}") is None:
        raise _missing(repo, name, "--base" if asked is not None else "the plan's Target branch")
    return name


def target_branch(plan: Plan) -> str | None:
    """The branch that the plan's metadata name, if they name one."""
    passage = plan.metadata.get("target branch")
    text = passage.text.strip().strip("`*_").strip() if passage else ""
    is_name = text.lower() not in _UNDECIDED and not set(text) & set(" \t<>{}()[]")
    return text if is_name else None


def current_branch(top: str) -> str:
    """The branch that is checked out there and has a commit, or the refusal that there is none."""
    words = ("symbolic-ref", "--quiet", "HEAD")
    done = git.attempt(*words, cwd=top)
    if done.status not in (0, 1):
        # Git does not say that there is no branch, but that it does not look.
        raise GitFailed(words, status=done.status, said=done.said.strip())
    if done.status:
        raise NoBaseBranch(f"{top} is on no branch (its HEAD is detached); name one with --base")
    if commit_of(top, "HEAD") is None:
        raise NoBaseBranch(f"{top} has no commit yet, and a worktree starts from one")
    return done.out.removesuffix("\n").removeprefix("refs/heads/")


def commit_of(top: str, revision: str) -> str | None:
    """The full hash of the commit that a revision names; None if there is none."""
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    done = git.attempt(*words, cwd=top)
    return None if done.status else done.out.strip()


def base_commit(repo: Repository, plan: str, *, revision: str = "HEAD") -> str | None:
    """The commit that brought the plan file's present text; HEAD if it is not committed.

    None before the first commit.
    """
    there = os.path.lexists(os.path.join(repo.root, plan))
    top = repo.root if there else repo.worktree
    head = commit_of(top, revision)
    if head is None:
        return None
    literal = ("--literal-pathspecs",)
    brought = git.attempt(*literal, "log", "-1", "--format=%H", head, "--", plan, cwd=top)
    if not brought.out.strip():
        return head
    changed = git.attempt(*literal, "diff", "--quiet", head, "--", plan, cwd=top).status
    return head if changed and revision == "HEAD" else brought.out.strip()


def _missing(repo: Repository, name: str, source: str) -> NoBaseBranch:
    from tugtool import nearest

    out = git.run("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/", cwd=repo.root)
    return NoBaseBranch(
        f'there is no branch "{name}" ({source})',
        branch=name,
        close=nearest.names(name, out.splitlines()),
    )
