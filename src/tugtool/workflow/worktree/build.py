"""Make worktrees completely or not at all, and remove them."""

from __future__ import annotations

from typing import NamedTuple

from tugtool import state
from tugtool.errors import TugError, plan_argument
from tugtool.errors.git import NotMade
from tugtool.git import command as git
from tugtool.git import containing, refs
from tugtool.git.index import remove
from tugtool.git.worktrees import open_directories
from tugtool.plan import catalog
from tugtool.state import intents, plans, record, worktrees
from tugtool.state.record import owner_of
from tugtool.store import file_store
from tugtool.system import crash, files, os
from tugtool.workflow import worktree
from tugtool.workflow.worktree import branches as worktree_branches
from tugtool.workflow.worktree import setup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tugtool.git import Repository
    from tugtool.schemas import WorktreeCreate
    from tugtool.store import Row, Store
    from tugtool.workflow.worktree.create import WorktreeRequest
    from tugtool.workflow.worktree.setup import Preparation, Ready


def branch(repo: Repository, name: str, start: str, *, said: str) -> None:
    """Make the branch at the commit; refuse if it exists."""
    # The empty last word means: only if there is no such branch.
    words = ("update-ref", "-m", said, f"refs/heads/{name}", start, "")
    git.patiently(*words, cwd=repo.root)


def branches(repo: Repository, names: Sequence[str], start: str, *, said: str) -> None:
    """Make all branches at the commit, or none if one of them exists."""
    given = "".join(f"create refs/heads/{name}\0{start}\0" for name in names)
    git.patiently("update-ref", "-m", said, "-z", "--stdin", cwd=repo.root, given=given)


def directory(repo: Repository, path: str, branch: str) -> None:
    """Make the worktree for the branch."""
    # Git may outlive us, and would go on making what the next command removes.
    note = worktree.at_work(repo)
    words = ("worktree", "add", "--quiet", path, branch)
    git.patiently(*words, cwd=repo.root, started=note.write)
    note.drop()


def verify(repo: Repository, path: str, branch: str, start: str) -> None:
    """Check what git made: git in a half-made worktree acts on the repository around it."""
    asked = ("rev-parse", "--show-toplevel", "HEAD", "--symbolic-full-name", "HEAD")
    # Git fails if there is no .git at all.
    found = git.attempt(*asked, cwd=path).out
    marked = os.path.isfile(os.path.join(path, ".git"))
    if not marked or not found.startswith(f"{path}\n{start}\n"):
        raise NotMade(path, reason="git made something else than a worktree there")
    on = found.splitlines()[-1]
    if on != f"refs/heads/{branch}":
        raise NotMade(path, reason=f"it is on {on}")
    # Without the link back to the repository, no command would work there.
    if containing(path).root != repo.root:
        raise NotMade(path, reason="it leads to another main worktree")
    # Only deletions count: line endings make files look changed in some repositories.
    gone = [entry[3:] for entry in worktree.changes(path) if "D" in entry[:2]]
    if gone:
        raise NotMade(path, reason=f"files are missing from it, such as {gone[0]}")


#: How long a git may outlive the process that started it.
LINGER_SECONDS = 60.0


def own_intents(repo: Repository, store: Store, kind: str | None = None) -> list[Row]:
    """Return the intents of commands in this clone; clones with one state have those of all."""
    every = intents.list_intents(store, kind)
    if file_store(store) is not None:
        return every
    return [row for row in every if not worktree.is_in_other_clone(repo, row["worktree"])]


def repair_creations(repo: Repository, store: Store) -> None:
    """Remove what a dead process was making. The caller has the lock.

    No caller was told of it. If there is work in it nevertheless, it stays.
    """
    begun = own_intents(repo, store, "create")
    if begun:
        _wait(repo, begun[0]["worktree"])
    facts = {owner_of(f["worktree"]): f for f in git.worktree_facts(repo.root)} if begun else {}
    for intent in begun:
        found = facts.get(intent["worktree"])
        path = os.path.join(worktree.directory(repo), os.path.basename(intent["worktree"]))
        if found is not None and _was_used(path, found, intent["head"]):
            intents.drop(store, intent["plan_path"], "create", intent["worktree"])
            continue
        undo(repo, store, path, branch=intents.detail(intent)["branch"], start=intent["head"])


def _wait(repo: Repository, path: str) -> None:
    """Wait for a git that outlived its process: it still makes the worktree, or removes it."""
    from tugtool.system import clock

    note = worktree.at_work(repo)
    for last in clock.tries(LINGER_SECONDS):
        pid = note.running()
        if pid is None:
            return
        if last:
            reason = f"the git that was making it when its command died still runs, process {pid}"
            raise NotMade(path, reason=reason)


def _was_used(path: str, facts: dict[str, str], start: str) -> bool:
    if facts.get("locked") == "initializing" or not os.path.isfile(os.path.join(path, ".git")):
        # Git itself was killed while making it.
        return False
    # Files of an interrupted setup are not work.
    return facts["HEAD"] != start or (not setup.is_begun(path) and bool(worktree.changes(path)))


def undo(repo: Repository, store: Store, path: str, *, branch: str, start: str) -> list[str]:
    """Remove a worktree without work. Return what could not be removed."""
    import shutil

    root = repo.root
    for _ in range(2):
        words = ("worktree", "remove", "--force", "--force", path)
        git.attempt(*words, cwd=root, though_killed=True)
        if os.path.lexists(path):
            # It is half made, or has directories that git may not delete from.
            open_directories(path)
            shutil.rmtree(path, ignore_errors=True)
    ref = f"refs/heads/{branch}"
    held = any(name == branch for _, name in git.worktrees(root))
    if refs.commit_of(root, ref) is not None and not held:
        # Only if the branch has not moved: commits are never dropped here.
        git.attempt("update-ref", "-d", ref, start, cwd=root, though_killed=True)
    left = [path] if os.path.lexists(path) else []
    left += [branch] if refs.commit_of(root, ref) is not None else []
    plan = worktrees.plan_of(store, path)
    worktrees.forget(store, plan, path, intents=["create"], detail={"branch": branch})
    return left


def discard(repo: Repository, store: Store, made: WorktreeCreate) -> None:
    """Remove a new worktree whose claim was refused."""
    path = made["worktree_path"]
    row = worktrees.find_worktree(store, path)
    if row is None or worktree.changes(path):
        return
    with worktree.worktrees_lock(repo):
        undo(repo, store, path, branch=row["branch"], start=row["base_commit"])


def plan_differs(path: str, order: WorktreeRequest) -> bool:
    """Return whether a worktree has another text of the plan."""
    copy = os.path.join(path, order.file.key)
    return os.path.exists(copy) and catalog.file_fingerprint(copy) != order.hash


class _Site(NamedTuple):
    """A worktree to make, and its request."""

    order: WorktreeRequest
    branch: str
    path: str


class Building:
    """Makes one worktree for each request, from the intents to the rows."""

    def __init__(
        self,
        repo: Repository,
        store: Store,
        orders: Sequence[WorktreeRequest],
        place: str,
        onto: str,
        start: str,
        preparation: Preparation,
    ) -> None:
        self.repo, self.store, self.orders = repo, store, orders
        self.place, self.onto, self.start = place, onto, start
        #: The requests differ only in their request id.
        self.order, self.key = orders[0], orders[0].file.key
        self.sites: list[_Site] = []
        self.preparation = preparation
        #: The setup results, in the order of the requests.
        self.ready: list[Ready] = []

    def run(self) -> list[Row]:
        """Make them all, or leave nothing."""
        self._intend()
        crash.point("create.intent")
        try:
            rows = self._make()
        except BaseException as error:
            left = [each for site in self.sites for each in self._undone(site)]
            if isinstance(error, TugError):
                reason = error.reason if isinstance(error, NotMade) else error.message
                known = refs.in_the_way(self.repo.root, worktree.BRANCHES)
                of_setup = isinstance(error, NotMade) and error.of_setup
                path = self.sites[0].path
                raise NotMade(path, reason=known or reason, left=left, of_setup=of_setup) from error
            raise
        intents.drop(self.store, self.key, "create", *(site.path for site in self.sites))
        return rows

    def _undone(self, site: _Site) -> list[str]:
        how = {"branch": site.branch, "start": self.start}
        return undo(self.repo, self.store, site.path, **how)

    def _intend(self) -> None:
        files.make_directory(self.place)
        taken = {
            *refs.branches(self.repo.root, worktree.BRANCHES),
            *worktree_branches.branches_of(os.listdir(self.place)),
            # What the remote had when this clone last saw it.
            *worktree_branches.remote_branches(self.repo.root)[1],
        }

        def choose(branches: set[str], paths: list[str], date: str) -> list[tuple[str, str]]:
            # Work in a worktree that is gone would pass for the new one's own.
            worked_in = worktree_branches.branches_of([os.path.basename(path) for path in paths])
            # It is asked again if the record has changed meanwhile.
            used = {*taken, *branches, *worked_in}
            self.sites = []
            for order in self.orders:
                branch = worktree_branches.free(order.file.slug, date=date, taken=used)
                used.add(branch)
                path = os.path.join(self.place, worktree_branches.directory_of(branch))
                self.sites.append(_Site(order, branch, path))
            return [(site.path, site.branch) for site in self.sites]

        worktrees.intend_creation(self.store, self.key, choose, **self._base)

    @property
    def _base(self) -> dict[str, str]:
        return {"base_branch": self.onto, "base_commit": self.start}

    def _make(self) -> list[Row]:
        names = [site.branch for site in self.sites]
        branches(self.repo, names, self.start, said="tugcode: worktree create")
        crash.point("create.branch")
        for site in self.sites:
            directory(self.repo, site.path, site.branch)
            crash.point("create.worktree")
            self._verify(site)
        self.ready = self.preparation.run([site.path for site in self.sites])
        crash.point("create.setup")
        self._init()
        crash.point("create.state")
        made = [(site.path, site.branch, site.order.request_id) for site in self.sites]
        rows = worktrees.add(self.store, self.key, made, **self._base)
        crash.point("create.recorded")
        return rows

    def _verify(self, site: _Site) -> None:
        verify(self.repo, site.path, site.branch, self.start)
        if plan_differs(site.path, site.order):
            reason = (
                f"its copy of the plan, {self.key} from {self.onto}, differs from the agreed text; "
                f"to see the difference: tugcode diff {plan_argument(self.key)}; to agree to it: "
                f"tugcode state init {plan_argument(self.key)}"
            )
            raise NotMade(site.path, reason=reason)

    def _init(self) -> None:
        order, key = self.order, self.key
        plan = record.find_plan(self.store, key)
        if plan is not None and plan["base_commit"] is not None:
            # An earlier worktree of the plan has done all of it.
            return
        commit = worktree_branches.base_commit(self.repo, key, revision=self.start)
        state.init(
            self.store, key, order.parsed, text=order.text, hash=order.hash, base_commit=commit
        )
        plans.set_base(self.store, key, commit)


def clear(repo: Repository, path: str, commit: str) -> bool:
    """Delete the rest of a worktree if the commit has all of it; return whether it is gone.

    Git deletes files in any order, and without the .git file it does not know the directory.
    """
    if os.path.islink(path) or os.path.lexists(os.path.join(path, ".git")):
        return False
    if not os.path.isdir(path) or not _is_in(repo, path, commit):
        return False
    import shutil

    shutil.rmtree(path, ignore_errors=True)
    return not os.path.lexists(path)


def _is_in(repo: Repository, path: str, commit: str) -> bool:
    directory = os.path.join(repo.common_dir, "tugtool")
    files.make_directory(directory)
    index = os.path.join(directory, f"leftover-{os.urandom(6).hex()}")
    here = (f"--git-dir={repo.common_dir}", f"--work-tree={path}")
    try:
        git.run(*here, "read-tree", commit, cwd=path, index=index)
        words = ("--name-only", "-z", "--no-renames", "--no-ext-diff", "--diff-filter=d")
        changed = git.run(*here, "diff", *words, cwd=path, index=index)
        # As everywhere, ignored files go too.
        others = ("ls-files", "--others", "--exclude-standard", "-z")
        return not changed and not git.run(*here, *others, cwd=path, index=index)
    finally:
        remove(index)
