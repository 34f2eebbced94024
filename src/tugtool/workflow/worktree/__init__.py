"""The worktrees, their contents, and the reasons to keep them."""

from __future__ import annotations

from tugtool import errors
from tugtool.errors import listing, quoted
from tugtool.git import command as git
from tugtool.git import containing, refs
from tugtool.git import worktrees as git_worktrees
from tugtool.git.safe_view import SafeView
from tugtool.state import record, worktrees
from tugtool.state.record import owner_of
from tugtool.store.owners import on_other_machine
from tugtool.system import config, os
from tugtool.system.lock import FileLock
from tugtool.system.text import many

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from tugtool.git import Repository
    from tugtool.schemas import WorktreeList, WorktreeListWorktree, WorktreeListWorktreeHeldStep
    from tugtool.store import Row, Store
    from tugtool.system.process import ProcessNote


DIRECTORY = config.TREES_PATH
#: Branches of plans.
BRANCHES = "tugplan/"
#: Branches and directories of dashes, which have their own commands.
DASH_BRANCHES = "tugdash/"
DASH_DIRECTORIES = "tugdash__"
#: The first version with `git merge-tree --write-tree`.
OLDEST_GIT = "2.38"
#: Settings for git when it removes a worktree: it checks that the worktree is clean, and
#: a person's own settings may hide files from that check.
SEES_ALL = ("status.showUntrackedFiles=normal", "diff.ignoreSubmodules=none")
#: Worktrees of large repositories take seconds each, and many may be asked for at once.
LOCK_SECONDS = 300


class Worktree:
    """One worktree: its row, git's facts, or both."""

    __slots__ = ("elsewhere", "facts", "path", "row")

    def __init__(
        self,
        path: str,
        row: Row | None,
        facts: Mapping[str, str] | None,
        every: Iterable[Mapping[str, str]] = (),
    ) -> None:
        self.path = path
        self.row = row
        self.facts = facts
        #: Another worktree that has its branch checked out: it was moved, or a person uses it.
        self.elsewhere = next(
            (
                other["worktree"]
                for other in every
                if other["worktree"] != path and other.get("branch", "") == self.branch
            ),
            None,
        )

    @property
    def name(self) -> str:
        """The last part of its path."""
        return os.path.basename(self.path)

    @property
    def owner(self) -> str:
        """The name under which it owns steps."""
        return owner_of(self.path)

    @property
    def branch(self) -> str | None:
        """Its own branch; without a row, the one checked out."""
        if self.row is not None:
            return str(self.row["branch"])
        return self.facts.get("branch") if self.facts else None

    @property
    def plan(self) -> str | None:
        """The key of its plan, if recorded."""
        return None if self.row is None else str(self.row["plan_path"])

    @property
    def exists(self) -> bool:
        """True if it is there as git knows it.

        Without its own .git, git would act on the repository around it.
        """
        return self.facts is not None and git_worktrees.is_linked(self.path)

    @property
    def is_plans(self) -> bool:
        """True if it seems to be made for a plan."""
        return self.row is not None or (self.branch or "").startswith(BRANCHES)


def worktrees_lock(repo: Repository, seconds: float = LOCK_SECONDS) -> FileLock:
    """Take the lock: worktrees are made and removed one at a time."""
    from tugtool.system import files

    directory = os.path.join(repo.common_dir, "tugtool")
    files.make_directory(directory)
    return FileLock(os.path.join(directory, "worktrees.lock"), busy_seconds=seconds)


def at_work(repo: Repository) -> ProcessNote:
    """Return the file that records the git process that makes a worktree. Needs the lock."""
    from tugtool.system.process import ProcessNote

    return ProcessNote(os.path.join(repo.common_dir, "tugtool", "worktrees.git"))


#: The gits that were found new enough; each is asked once.
_fit: set[str] = set()


def require_git() -> None:
    """Raise E029 if git is too old for worktrees."""
    where = config.environment().get("PATH", "")
    if where in _fit:
        return
    version = git.version()
    if version is None:
        raise errors.GitUnusable("it cannot be found")
    if is_old(version):
        raise errors.GitUnusable(
            f"it is version {version}, and worktrees need {OLDEST_GIT} or newer"
        )
    _fit.add(where)


def is_old(version: str) -> bool:
    """Return whether a version of git is too old for worktrees."""
    found, oldest = (
        [int(part) for part in each.partition(" ")[0].split(".")[:2] if part.isdecimal()]
        for each in (version, OLDEST_GIT)
    )
    return found < oldest


def directory(repo: Repository) -> str:
    """Return the directory of worktrees; refuse if it is something else."""
    path = os.path.join(repo.root, DIRECTORY)
    if os.path.islink(path):
        raise errors.InTheWay(path, what="a symbolic link")
    if os.path.lexists(path) and not os.path.isdir(path):
        raise errors.InTheWay(path, what="something that is not a directory")
    return path


#: Why a directory stays that a person made elsewhere.
OUTSIDE = f"it is outside {DIRECTORY}/"


def is_inside(repo: Repository, path: str) -> bool:
    """Return whether a path is below `.tugtree/`: nothing else is removed."""
    return path.startswith(os.path.join(repo.root, DIRECTORY, ""))


def trees(repo: Repository, store: Store) -> list[Worktree]:
    """Return this machine's worktrees of plans, and every other below `.tugtree/`, by path."""
    rows = {row["path"]: row for row in worktrees.list_worktrees(store)}
    found: dict[str, Worktree] = {}
    every = git.worktree_facts(repo.root)
    for facts in every[1:]:
        path = facts["worktree"]
        row = rows.pop(owner_of(path), None)
        own = is_inside(repo, path) and not is_dash(path, facts.get("branch"))
        if row is not None or own:
            found[path] = Worktree(path, row, facts, every)
    for row in rows.values():
        if not is_in_other_clone(repo, row["path"]):
            found[row["path"]] = Worktree(row["path"], row, None, every)
    return [found[path] for path in sorted(found)]


def is_in_other_clone(repo: Repository, path: str) -> bool:
    """Return whether a path of this machine is, or was, a worktree of another clone."""
    own = path.startswith(os.path.join(repo.root, "")) or not os.path.isabs(path)
    while not own and not os.path.lexists(path):
        path = os.path.dirname(path)
    try:
        return not own and containing(path).common_dir != repo.common_dir
    except errors.NoRepository:
        return False


def is_dash(path: str, branch: str | None) -> bool:
    """Return whether a worktree belongs to a dash, by its place or its branch."""
    own = os.path.basename(path).startswith(DASH_DIRECTORIES)
    return own or (branch or "").startswith(DASH_BRANCHES)


def found_again(repo: Repository, store: Store, path: str) -> tuple[str, str]:
    """Return whether a worktree is gone or was moved, and the command that repairs it."""
    for tree in trees(repo, store):
        if tree.owner == path and tree.elsewhere is not None:
            return "worktree_moved", way_back(repo.root, tree.elsewhere, tree.path)
    return "worktree_gone", f"tugcode worktree remove {quoted(os.path.basename(path))}"


def way_back(root: str, found: str, recorded: str) -> str:
    """Return the command that helps if a worktree's branch is in another directory."""
    if found == root:
        # A person has switched the main worktree to it.
        return f"git -C {quoted(root)} status"
    if not os.path.isdir(found):
        # Its disk may not be mounted.
        return "git worktree list --verbose"
    return f"git worktree move {quoted(found)} {quoted(recorded)}"


def changes(path: str) -> list[str]:
    """Return uncommitted changes, untracked files included: git's two letters and the path."""
    words = ("--porcelain", "--no-renames", "--untracked-files=all", "-z")
    out = refs.status_with_submodules(path, *words)
    return [field for field in out.split("\0") if field]


def hidden_work(path: str) -> list[str]:
    """Return why a worktree that looks clean has to stay; empty if git hides no work there."""
    return _said_of_hidden(git_worktrees.hidden_work(path))


def _said_of_hidden(found: list[str]) -> list[str]:
    said = "git hides work there by ignore files that are not committed"
    return [f"{said}: {listing(found, most=3)}"] if found else []


def base_branch(repo: Repository, tree: Worktree) -> str | None:
    """Return the branch that its work lands on: its own base, or the main worktree's branch."""
    recorded = None if tree.row is None else str(tree.row["base_branch"])
    return recorded or refs.current_branch(repo.root)


def list_worktrees(repo: Repository, store: Store) -> WorktreeList:
    """Return all facts about every worktree, and the branches without one."""
    every = trees(repo, store)
    own = refs.branches(repo.root, BRANCHES)
    others = worktrees.list_worktrees(store, elsewhere=True)
    others += [r for r in worktrees.list_worktrees(store) if is_in_other_clone(repo, r["path"])]
    every += [Worktree(row["path"], row, None) for row in others]
    for tree in every:
        own.pop(tree.branch or "", None)
    with SafeView():
        entries = [_entry(repo, store, tree) for tree in every]
    return {
        "worktrees": entries,
        "branches": [{"branch_name": name, "commit": commit} for name, commit in own.items()],
    }


def _entry(repo: Repository, store: Store, tree: Worktree) -> WorktreeListWorktree:
    row, onto = tree.row, base_branch(repo, tree)
    tip, target = (refs.branch_tip(repo.root, name) for name in (tree.branch, onto))
    ahead, behind = refs.ahead_and_behind(repo.root, tip, target)
    files = changes(tree.path) if tree.exists else None
    until = None if row is None else row["reserved_until"]
    return {
        "worktree_path": tree.path,
        "name": tree.name,
        "machine": tree.path.partition(":")[0] if on_other_machine(tree.path) else None,
        "branch_name": tree.branch,
        "base_branch": onto,
        "plan_path": tree.plan,
        "recorded": row is not None,
        "exists": tree.exists,
        "locked": tree.facts is not None and "locked" in tree.facts,
        "clean": None if files is None else not files,
        "changed_files": None if files is None else len(files),
        "ahead": ahead,
        "behind": behind,
        "held_steps": worktrees.claimed_steps(store, tree.owner),
        "reserved_until": until if until is not None and until >= record.now(store) else None,
    }


class Inspection:
    """The contents of a worktree, and the reasons against its removal."""

    __slots__ = ("claims", "files", "final", "head", "held", "tip", "unproven")

    def __init__(self) -> None:
        #: Reasons that only a person can settle.
        self.final: list[str] = []
        #: Reasons that --force overrides: it releases claims and saves work first.
        self.claims: list[str] = []
        self.files: list[str] = []
        self.unproven: list[str] = []
        self.held: list[WorktreeListWorktreeHeldStep] = []
        #: The commits of HEAD and of its branch; None if there is none.
        self.head: str | None = None
        self.tip: str | None = None

    def reasons(self, *, force: bool) -> list[str]:
        """Return the reasons to keep it."""
        return [*self.final, *([] if force else [*self.claims, *self.files, *self.unproven])]


def _live_claims(repo: Repository, tree: Worktree, held: list[Any]) -> list[str]:
    # A missing directory has no worker, unless a machine with this one's id may have it.
    foreign = tree.facts is None and bool(config.load(repo.root).state_url())
    live = held if foreign or os.path.lexists(tree.path) else []
    more = "; git does not know it here: machines with one id need a TUGCODE_MACHINE each"
    said = "it holds {step_anchor} of {plan_path} until {lease_expires_at}" + more * foreign
    return [said.format(**step) for step in live if step["lease"] == "live"]


def inspect(
    repo: Repository,
    store: Store,
    tree: Worktree,
    *,
    cwd: str,
    tips: Mapping[str, str] | None = None,
) -> Inspection:
    """Find out all that a removal has to know; `tips` are the branches' commits, if known."""
    tips = refs.branches(repo.root) if tips is None else tips
    seen = Inspection()
    seen.held = worktrees.claimed_steps(store, tree.owner)
    seen.claims = _live_claims(repo, tree, seen.held)
    seen.final = list(_final(repo, tree, cwd))
    seen.tip = tips.get(tree.branch or "")
    if tree.exists:
        seen.head = refs.head_commit(tree.path)
        changed = [entry[3:] for entry in changes(tree.path)]
        if changed:
            seen.files = [f"{many(len(changed), 'file')} not committed: {listing(changed, most=3)}"]
        from tugtool.workflow import salvage  # A list of worktrees need not load it.

        if salvage.has_put_aside(tree.path):
            seen.files.append("a rebase or merge is under way that has put changes aside")
        hidden = git_worktrees.hidden_work(tree.path)
        seen.files += _said_of_hidden(hidden)
        inside = [path for path in changed if path.endswith("/")]
        inside += git_worktrees.hidden_repositories(tree.path, hidden)
        seen.final += [
            f"{path[:-1]} is a repository of its own, which is nowhere else" for path in inside
        ]
        seen.final += git_worktrees.work(tree.path)
    seen.unproven = list(_unproven(repo, store, tree, (seen.tip, seen.head), tips))
    return seen


def _final(repo: Repository, tree: Worktree, cwd: str) -> Iterable[str]:
    if tree.elsewhere is not None:
        yield f"its branch is checked out in {tree.elsewhere}"
    if tree.exists and not is_inside(repo, tree.path):
        yield OUTSIDE
    if cwd == tree.path or cwd.startswith(tree.path + os.sep):
        yield "you stand in it"
    if tree.facts is not None and "locked" in tree.facts:
        why = tree.facts["locked"]
        yield f"it is locked ({why})" if why else "it is locked"
    if os.path.lexists(tree.path) and not tree.exists:
        yield "a directory is there that git does not know as a worktree"


def _unproven(
    repo: Repository,
    store: Store,
    tree: Worktree,
    own: tuple[str | None, ...],
    tips: Mapping[str, str],
) -> Iterable[str]:
    from tugtool.git import merge_tree
    from tugtool.workflow.commit import log

    onto = base_branch(repo, tree)
    target = tips.get(onto or "")
    # An earlier, unfinished removal saved this commit.
    ref = intended(store, tree.owner).get("salvage_ref")
    saved = refs.commit_of(repo.root, str(ref)) if ref else None
    for tip in dict.fromkeys(tip for tip in own if tip is not None):
        if saved and refs.is_ancestor(repo.root, tip, saved):
            continue
        if not target:
            gone = f"its base branch {onto} is gone" if onto else "the main worktree has no branch"
            yield f"{gone}, so nothing proves that its commits have landed"
        elif not merge_tree.has_landed(repo.root, tip, target, log.repaired, log.PATH):
            ahead, _ = refs.ahead_and_behind(repo.root, tip, target)
            yield f"{many(ahead or 0, 'commit')} of {tree.branch or 'its HEAD'} not on {onto}"


def intended(store: Store, owner: str) -> dict[str, Any]:
    """Return what an unfinished removal recorded."""
    from tugtool.state import intents

    intent = intents.find_intent(store, "remove", owner) if store.exists() else None
    return intents.detail(intent) if intent is not None else {}
