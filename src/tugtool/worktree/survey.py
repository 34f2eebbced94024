"""Which worktrees there are: what the record says of them, and what git says."""

from __future__ import annotations

import os

from tugtool import base, belonging, config, git, holder, landed
from tugtool.errors import GitUnusable
from tugtool.git_errors import InTheWay
from tugtool.lingering import Note
from tugtool.state.record import storable
from tugtool.store import sql, sql_git
from tugtool.store.queue import Queue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from tugtool.repository import Repository
    from tugtool.store import Row, Store

    Data = dict[str, object]

DIRECTORY = config.TREES_PATH
BRANCHES = "tugplan/"
#: Another command's: small work without a plan, its branches and its directories.
DASH_BRANCHES = "tugdash/"
DASH_DIRECTORIES = "tugdash__"
#: `git merge-tree --write-tree` came with this one.
OLDEST_GIT = (2, 38)
#: For git, whenever it is to remove a worktree: it looks for itself whether it is clean, and
#: a person's own settings may hide from it what is there.
SEES_ALL = ("status.showUntrackedFiles=normal", "diff.ignoreSubmodules=none")
#: Worktrees of large repositories take seconds each, and many may be asked for at once.
LOCK_SECONDS = 300


class Tree:
    """One worktree: its row, what git knows of it, or both."""

    __slots__ = ("facts", "path", "row")

    def __init__(self, path: str, row: Row | None, facts: Mapping[str, str] | None) -> None:
        self.path = path
        self.row = row
        self.facts = facts

    @property
    def name(self) -> str:
        """The last part of its path."""
        return os.path.basename(self.path)

    @property
    def owner(self) -> str:
        """The name under which it holds steps."""
        return storable(self.path)

    @property
    def branch(self) -> str | None:
        """The branch that is its own; where there is no row, the one checked out."""
        if self.row is not None:
            return str(self.row["branch"])
        return self.facts.get("branch") if self.facts else None

    @property
    def plan(self) -> str | None:
        """The key of its plan, where that is recorded."""
        return None if self.row is None else str(self.row["plan_path"])

    @property
    def exists(self) -> bool:
        """Whether it is there, and is what git takes it for.

        Without a .git of its own, git would act on the repository around it.
        """
        return self.facts is not None and belonging.is_linked(self.path)

    @property
    def is_plans(self) -> bool:
        """Whether it was made for a plan, as far as can be seen."""
        return self.row is not None or (self.branch or "").startswith(BRANCHES)


def lock(repo: Repository) -> Queue:
    """Worktrees are made and removed one at a time."""
    from tugtool import files

    directory = os.path.join(repo.common_dir, "tugtool")
    files.make_directory(directory)
    return Queue(os.path.join(directory, "worktrees.lock"), busy_seconds=LOCK_SECONDS)


def at_work(repo: Repository) -> Note:
    """Where it is written down which git is making a worktree; the caller has the lock."""
    return Note(os.path.join(repo.common_dir, "tugtool", "worktrees.git"))


#: Where git was found to be new enough: asked once, by however many worktrees.
_fit: set[str] = set()


def require_git() -> None:
    """E029: what is done here needs a git that is not too old."""
    where = config.environment().get("PATH", "")
    if where in _fit:
        return
    version = git.version()
    if version is None:
        raise GitUnusable("it cannot be found")
    numbers = [int(part) for part in version.split()[0].split(".")[:2] if part.isdecimal()]
    if tuple(numbers) < OLDEST_GIT:
        oldest = ".".join(map(str, OLDEST_GIT))
        raise GitUnusable(f"it is version {version}, and worktrees need {oldest} or newer")
    _fit.add(where)


def directory(repo: Repository) -> str:
    """Where worktrees lie; refused if something else does."""
    path = os.path.join(repo.root, DIRECTORY)
    if os.path.islink(path):
        raise InTheWay(path, what="a symbolic link")
    if os.path.lexists(path) and not os.path.isdir(path):
        raise InTheWay(path, what="something that is not a directory")
    return path


def trees(repo: Repository, store: Store) -> list[Tree]:
    """Every worktree of a plan, and every other below `.tugtree/`, by path."""
    rows = {row["path"]: row for row in _rows(store)}
    inside = os.path.join(repo.root, DIRECTORY) + os.sep
    found: dict[str, Tree] = {}
    for facts in git.worktree_facts(repo.root)[1:]:
        path = facts["worktree"]
        row = rows.pop(storable(path), None)
        if row is not None or (path.startswith(inside) and not is_dash(path, facts.get("branch"))):
            found[path] = Tree(path, row, facts)
    for row in rows.values():
        found[row["path"]] = Tree(row["path"], row, None)
    return [found[path] for path in sorted(found)]


def is_dash(path: str, branch: str | None) -> bool:
    """Whether a worktree is a dash's, by its place or by what it has checked out."""
    own = os.path.basename(path).startswith(DASH_DIRECTORIES)
    return own or (branch or "").startswith(DASH_BRANCHES)


def _rows(store: Store) -> list[Row]:
    if not store.exists():
        return []
    with store.read() as tx:
        return tx.all(sql_git.WORKTREES)


def plan_at(store: Store, owner: str) -> str | None:
    """The plan that a worktree was made for, if it is recorded."""
    return next((str(row["plan_path"]) for row in _rows(store) if row["path"] == owner), None)


def held(store: Store, owner: str) -> list[Data]:
    """The steps that a worktree holds, of any plan; `live`, `expired` or `gone`."""
    if not store.exists():
        return []
    with store.read() as tx:
        return [
            {
                "plan_path": plan["plan_path"],
                "step_anchor": step["anchor"],
                "attempt": step["attempt"],
                "lease_expires_at": step["lease_expires_at"],
                "lease": _lease(tx.now, step, tx.all(sql.HOLDERS, plan=plan["plan_path"])),
            }
            for plan in tx.all(sql.PLANS)
            for step in tx.all(sql_git.HELD_BY, plan=plan["plan_path"], owner=owner)
        ]


def _lease(now: str, step: Row, holders: list[Row]) -> str:
    if step["lease_expires_at"] < now:
        return "expired"
    gone = any(row["step_anchor"] == step["anchor"] and holder.is_gone(row) for row in holders)
    return "gone" if gone else "live"


def changes(path: str) -> list[str]:
    """What is not committed there, untracked files included: git's two letters and the path."""
    words = ("--porcelain", "--no-renames", "--untracked-files=all", "--ignore-submodules=none")
    out = git.run("status", *words, "-z", cwd=path)
    return [field for field in out.split("\0") if field]


def base_branch(repo: Repository, tree: Tree) -> str | None:
    """The branch that its work has to land on: its own base, or the main worktree's branch."""
    if tree.row is not None:
        return str(tree.row["base_branch"])
    done = git.attempt("symbolic-ref", "--quiet", "HEAD", cwd=repo.root)
    return None if done.status else done.out.strip().removeprefix("refs/heads/")


def branches(repo: Repository) -> dict[str, str]:
    """Every branch under `tugplan/`, with its commit."""
    form = "--format=%(objectname) %(refname:lstrip=2)"
    out = git.run("for-each-ref", form, f"refs/heads/{BRANCHES}", cwd=repo.root)
    return {line.partition(" ")[2]: line.partition(" ")[0] for line in out.splitlines()}


def listed(repo: Repository, store: Store) -> Data:
    """Everything about every worktree, and the branches that have none."""
    every = trees(repo, store)
    own = branches(repo)
    for tree in every:
        own.pop(tree.branch or "", None)
    return {
        "worktrees": [_entry(repo, store, tree) for tree in every],
        "branches": [{"branch_name": name, "commit": commit} for name, commit in own.items()],
    }


def _entry(repo: Repository, store: Store, tree: Tree) -> Data:
    row, onto = tree.row, base_branch(repo, tree)
    counts = _counts(repo, tree.branch, onto)
    files = changes(tree.path) if tree.exists else None
    return {
        "worktree_path": tree.path,
        "name": tree.name,
        "branch_name": tree.branch,
        "base_branch": onto,
        "plan_path": tree.plan,
        "recorded": row is not None,
        "exists": tree.exists,
        "locked": tree.facts is not None and "locked" in tree.facts,
        "clean": None if files is None else not files,
        "changed_files": None if files is None else len(files),
        "ahead": counts and counts[0],
        "behind": counts and counts[1],
        "held_steps": held(store, tree.owner),
        "reserved_until": None if row is None else _reserved(store, row),
    }


def _reserved(store: Store, row: Row) -> str | None:
    with store.read() as tx:
        until = row["reserved_until"]
        return until if until is not None and until >= tx.now else None


def _counts(repo: Repository, branch: str | None, onto: str | None) -> tuple[int, int] | None:
    if branch is None or onto is None:
        return None
    tip, target = (base.commit_of(repo.root, f"refs/heads/{name}") for name in (branch, onto))
    return landed.ahead_and_behind(repo.root, tip, target) if tip and target else None
