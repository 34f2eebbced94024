"""The library: open a repository, read its plans, hold a step during a block.

`tugtool.open(".")` leads here. Every answer has the fields of its schema in `tugtool.schemas`,
every refusal is a `tugtool.errors.TugError`, and every warning goes to the logger `tugtool`.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from importlib.machinery import ModuleSpec

from tugtool import state
from tugtool.errors.state import PlanNotInitialised
from tugtool.state.history import Reader
from tugtool.system import clock, os
from tugtool.workflow import workspace
from tugtool.workflow.held_step import HeldStep, NothingToClaim, mention, warn
from tugtool.workflow.workspace import Workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType
    from typing import Any, Self

    from tugtool import schemas
    from tugtool.store import Store

#: Module names before 0.2 -> their present names.
OLD_PATHS = {
    "tugtool.reconcile": "tugtool.workflow.merge.reconcile",
    "tugtool.repository": "tugtool.git",
    "tugtool.salvaging": "tugtool.workflow.salvage.catch_up",
    "tugtool.state.claiming": "tugtool.state.claims",
    "tugtool.state.reporting": "tugtool.state.attempts",
    "tugtool.state.revision": "tugtool.state.revision_plan",
    "tugtool.state.verifying": "tugtool.state.completion",
    "tugtool.verify": "tugtool.workflow.verify",
}
#: A watcher looks again after this time at most: the database may come and go.
_LONGEST_NAP_SECONDS = 1.0


def open(path: str | os.PathLike[str] = ".", *, worktree: str | None = None) -> Project:
    """Open the repository around a directory; its worktree claims the steps.

    `worktree` names another worktree of the repository to claim for.
    """
    return Project(Workspace(os.path.abspath(path), worktree))


class Project:
    """A repository as one worktree sees it; for one thread at a time."""

    def __init__(self, space: Workspace) -> None:
        self._space = space

    @property
    def root(self) -> str:
        """The main worktree."""
        return self._space.repo.root

    @property
    def worktree(self) -> str:
        """The worktree that claims steps."""
        return self._space.worktree

    def plan(self, name: str | None = None) -> ProjectPlan:
        """Return the plan with that name, recorded or not; without a name the only active one."""
        space = self._space
        try:
            return ProjectPlan(self, space.plan(name))
        except PlanNotInitialised:
            if name is None:
                raise
        from tugtool.plan import catalog

        return ProjectPlan(self, catalog.resolve(space.repo, name, cwd=space.cwd).key)

    def status(self, *, archived: bool = False) -> schemas.Status:
        """Return every plan with its progress, claims, and what waits for a person."""
        from tugtool.workflow import overview

        data: schemas.Status = overview.status(self._space, archived=archived)
        return data

    def watch(
        self, *, since: str | float | None = None, idle_seconds: float | None = None
    ) -> Iterator[schemas.StateLogEvent]:
        """Yield events of all plans from now on; see `ProjectPlan.watch`."""
        return _watch(self._space, None, None, since, idle_seconds)

    def close(self) -> None:
        """Close the database."""
        self._space.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ProjectPlan:
    """One plan of a repository, as one worktree sees it."""

    def __init__(self, project: Project, key: str) -> None:
        self.project, self._space = project, project._space
        #: The plan's path from the repository's root, which identifies it.
        self.key = key

    def init(self) -> schemas.StateInit:
        """Record the plan as it is in its file; do nothing if it is recorded already."""
        from tugtool.workflow import records

        done = records.init(self._space, self.key)
        warn(done.issues)
        data: schemas.StateInit = done.data
        return data

    def create_worktree(
        self, *, new: bool = False, base: str | None = None, commit_plan: bool = False
    ) -> ProjectPlan:
        """Return this plan, recorded, in a linked worktree: a free one, or else a new one.

        The plan must be committed on its base branch; `commit_plan` does that.
        """
        from tugtool.workflow import plans
        from tugtool.workflow.worktree import create

        plan = plans.load(self._space, self.key)
        order = create.WorktreeRequest(plan, new=new, base=base, commit_plan=commit_plan)
        made, issues = create.create_and_claim(self._space, order)
        warn(issues)
        return ProjectPlan(open(made["worktree_path"]), self.key)

    def claim(
        self,
        *,
        step: str | None = None,
        wait_seconds: float = 0,
        lease_seconds: float | None = None,
        force: bool = False,
        also: bool = False,
        request_id: str | None = None,
    ) -> HeldStep | NothingToClaim:
        """Claim a step for a `with` block; a false value gives the reason if there is none."""
        space = self._space
        facts, issues = workspace.claim(
            space,
            self.key,
            step=step,
            wait_seconds=wait_seconds,
            lease_seconds=lease_seconds,
            force=force,
            also=also,
            holder_pid=os.getpid(),
            request_id=request_id,
        )
        warn(issues)
        if facts["claimed"]:
            return HeldStep(space, facts, lease_seconds)
        mention(space.back_up(pending=True))
        return NothingToClaim(facts)

    def show(self) -> schemas.StateShowPlan:
        """Return the whole record of the plan: steps, items, attempts, notes."""
        data: schemas.StateShowPlan = state.show(self._space.store, self.key)
        return data

    def ready(self) -> schemas.StateReady:
        """Return the ready, blocked, held and completed steps."""
        return state.ready(self._space.store, self.key)

    def why(self, step: str) -> schemas.StateWhy:
        """Return the state of a step, and what would free it."""
        from tugtool.workflow import overview

        return overview.why(self._space, self.key, step)

    def log(
        self, *, step: str | None = None, since: str | float | None = None, limit: int | None = None
    ) -> list[schemas.StateLogEvent]:
        """Return the events, oldest first; `limit` keeps the last ones."""
        store = self._space.store
        found = state.log(store, self.key, step=step, since=since, limit=limit)
        return found["events"]

    def watch(
        self,
        *,
        step: str | None = None,
        since: str | float | None = None,
        idle_seconds: float | None = None,
    ) -> Iterator[schemas.StateLogEvent]:
        """Yield events from now on; wait for each.

        `since` begins earlier, at a time or so many seconds ago. With `idle_seconds` the iterator
        ends after so long without an event.
        """
        return _watch(self._space, self.key, step, since, idle_seconds)

    def pause(self, reason: str | None = None) -> schemas.StatePause:
        """Give out no more steps; holders may finish theirs."""
        by = self._space.decider()
        return state.pause(self._space.store, self.key, actor=by, reason=reason)

    def resume(self, reason: str | None = None) -> schemas.StateResume:
        """Give out steps again."""
        by = self._space.decider()
        return state.resume(self._space.store, self.key, actor=by, reason=reason)

    def merge(
        self, *, squash: bool = False, dry_run: bool = False, unproven: bool = False
    ) -> schemas.Merge:
        """Merge a done plan's branches into its base branch; only from the main worktree."""
        from tugtool.workflow import merge

        how = {"squash": squash, "dry_run": dry_run, "unproven": unproven}
        data, issues = merge.merge(self._space, self.key, **how)
        warn(issues)
        return data


def _watch(
    space: Workspace,
    plan: str | None,
    step: str | None,
    since: str | float | None,
    idle_seconds: float | None,
) -> Iterator[schemas.StateLogEvent]:
    """Yield events from this moment on, even if the first is asked for later."""
    store, known = space.open_store(), space.store.exists()
    reader = Reader(plan, step=step, since=0.0 if since is None and known else since)
    first = reader.page(store) if known else []
    return _events(store, reader, first if since is not None else [], idle_seconds)


def _events(
    store: Store, reader: Reader, page: list[Any], idle_seconds: float | None
) -> Iterator[schemas.StateLogEvent]:
    try:
        last = clock.ticks()
        while True:
            yield from page
            last = clock.ticks() if page else last
            nap = _LONGEST_NAP_SECONDS
            if idle_seconds is not None:
                nap = min(nap, last + idle_seconds - clock.ticks())
            if nap <= 0:
                return
            if not page:
                store.wait_for_change(nap)
            page = reader.page(store) if store.exists() else []
    finally:
        store.close()


class _OldPath:
    """Loads a module by its old name, with the contents of the present one."""

    def create_module(self, spec: ModuleSpec) -> None:
        """Use the default."""

    def exec_module(self, module: ModuleType) -> None:
        new = OLD_PATHS[module.__name__]
        # The package itself has the public names of the state.
        instead = "tugtool.state" if new.startswith("tugtool.state.") else new
        message = f"{module.__name__} goes with tugtool 0.3; use {instead}"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        there = import_module(new)
        module.__dict__["__getattr__"] = lambda name: getattr(there, name)


def find_spec(name: str) -> ModuleSpec | None:
    """Return how to load a module by its old name; None for other names."""
    if name not in OLD_PATHS:
        return None
    return ModuleSpec(name, _OldPath())  # type: ignore[arg-type]  # it has both methods
