"""A plan is committed before it is carried out: is it, and as it stands?"""

from __future__ import annotations

import os

from tugtool import base, crash, git
from tugtool.errors import quoted
from tugtool.git_errors import PlanUncommitted
from tugtool.plan import fingerprint
from tugtool.state_errors import PlanChanged
from tugtool.store import sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.repository import Repository
    from tugtool.store import Store
    from tugtool.worktree.making import Order

#: A file name may look like a pattern, and is none.
_LITERAL = "--literal-pathspecs"


def settle(repo: Repository, order: Order, branch: str) -> bool:
    """Refuse an uncommitted plan, or commit it if that was asked for; whether it was done."""
    known = _committed(repo, order, branch)
    if known is True:
        return False
    at_home = _is_at_home(repo, order, branch)
    if order.commit_plan and at_home:
        _commit(repo.root, order.file.key, slug=order.file.slug)
        crash.point("create.plan")
        if _committed(repo, order, branch) is True:
            return True
    raise PlanUncommitted(
        order.file.key,
        branch=branch,
        known=known is False,
        command=command(repo, order) if at_home else None,
    )


def refuse_drift(store: Store, order: Order) -> None:
    """E048: a worktree of another text than the agreed one could not be worked in."""
    with store.read(order.file.key) as tx:
        row = tx.first(sql.PLAN)
    if row is not None and row["plan_hash"] != order.hash:
        agreed = row["plan_hash"]
        raise PlanChanged(order.file.key, file=order.file.path, agreed=agreed, found=order.hash)


def command(repo: Repository, order: Order) -> str:
    """What a person types to commit the plan, that file alone."""
    git_, path = f"git -C {quoted(repo.root)}", quoted(order.file.key)
    message = quoted(_message(order.file.slug))
    return f"{git_} add -- {path} && {git_} commit -m {message} -- {path}"


def _message(slug: str) -> str:
    return f"Plan {' '.join(slug.split())}"


def _committed(repo: Repository, order: Order, branch: str) -> bool | None:
    """Whether the branch has the plan as it stands; None if it has none at all."""
    blob = f"refs/heads/{branch}:{order.file.key}"
    found = git.attempt("rev-parse", "--verify", "--quiet", "--end-of-options", blob, cwd=repo.root)
    if found.status:
        return None
    there = found.out.strip()
    text = git.run("cat-file", "blob", there, cwd=repo.root)
    if fingerprint.of(os.fsencode(text)) == order.hash:
        return True
    # Or it is the same once git has done to it what it does to files before they are kept.
    words = ("hash-object", "--path", order.file.key, "--", order.file.path)
    return git.attempt(*words, cwd=repo.root).out.strip() == there


def _is_at_home(repo: Repository, order: Order, branch: str) -> bool:
    """Whether a commit in the main worktree would bring the plan to the branch."""
    here = order.file.path == os.path.join(repo.root, order.file.key)
    return here and base.current_branch(repo.root) == branch


def _commit(root: str, key: str, *, slug: str) -> None:
    known = git.run(_LITERAL, "ls-files", "-z", "--", key, cwd=root)
    if not known:
        # Just its name: what else is staged, and what was staged of it, stays as it is.
        git.patiently(_LITERAL, "add", "--intent-to-add", "--", key, cwd=root)
    try:
        words = ("commit", "--quiet", "--only", "-m", _message(slug), "--", key)
        git.patiently(_LITERAL, *words, cwd=root)
    except BaseException:
        if not known:
            git.attempt(_LITERAL, "reset", "--quiet", "--", key, cwd=root, though_killed=True)
        raise
