"""A request as the commands see it: who calls, from where, with which values; and its answer."""

from __future__ import annotations

import functools
import hashlib
import json
import stat
from typing import NamedTuple

from tugtool import errors
from tugtool.cli.parse import Call
from tugtool.errors.server import RoleTooSmall
from tugtool.git import Repository, worktree_identity
from tugtool.server.routes import Route
from tugtool.server.tokens import Caller
from tugtool.state.record import PlanCopy, owner_of
from tugtool.state.requests import SharedCopy
from tugtool.system import os
from tugtool.workflow.workspace import Workspace, plan_copy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from tugtool.store import Store


JSON, LINES = "application/json", "application/jsonl"


class Rendered(NamedTuple):
    """The answer to a request, rendered."""

    status: int
    exit_status: int
    body: bytes
    kind: str = JSON
    code: str = ""
    seq: int | None = None
    #: Done once the answer is on its way; returns the problem, if there was one.
    after: Callable[[], str | None] | None = None
    #: True if the same request got this answer before.
    replayed: bool = False


class ServedRequest(NamedTuple):
    """A request that passed the guard."""

    route: Route
    values: Mapping[str, object]
    caller: Caller
    request_id: str = ""
    if_seq: int | None = None
    #: The sender's own name for this request: again, it gets the same answer.
    key: str | None = None

    @property
    def digest(self) -> str:
        """The same for two requests that ask for the same."""
        said = json.dumps([self.route.command, dict(self.values)], sort_keys=True)
        return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()


class ServedWorkspace(Workspace):
    """The repository as the sender of a request sees it: no environment, no current directory."""

    __slots__ = ("caller", "plan_hash")

    def __init__(self, base: Workspace, store: Store, caller: Caller, worktree: str | None) -> None:
        """Open nothing: the server has the repository, the settings and the store."""
        root = base.repo.root
        self.cwd = root
        self.repo = Repository(root, root, base.repo.common_dir, base.repo.sharing)
        self.settings, self.store, self.caller = base.settings, store, caller
        self.plan_hash: str | None = None
        self.worktree = root
        if caller.role == "worker":
            # Its worktree is on its own machine, and no other token has this name.
            self.owner = owner_of(f"{caller.name}:{worktree or 'worker'}")
            self.worktree = self.owner
        elif worktree is not None and caller.role == "operator":
            self.worktree = worktree_identity(self.repo, worktree, cwd=root)
            self.owner = owner_of(self.worktree)
        else:
            self.owner = owner_of(caller.name or root)

    def plan(self, name: str | None) -> str:
        """Return the key of the plan; refuse another one than the token is for."""
        own = self.caller.plan
        name = own if name is None else name
        key = self.once(("plan", name), lambda: self._usual(name)) or super().plan(name)
        if own is not None and key != own:
            what = f"a request about {key}"
            raise RoleTooSmall(what, role=f"{self.caller.role} of {own}", needs="another token")
        return key

    def _usual(self, name: str | None) -> str | None:
        """Return the key of a plan at its usual place that is named by its slug or its key.

        Most requests name one so, and then no directory has to be listed.
        """
        slug = (name or "").removeprefix(".tugtool/tugplan-").removesuffix(".md")
        if not slug.replace("-", "").replace("_", "").isalnum() or not self.store.exists():
            return None
        key = f".tugtool/tugplan-{slug}.md"
        # Of a link, or below one, the file that it leads to counts.
        return key if name in (slug, key) and _is_plain(self.repo.root, key) else None

    def plan_or_all(self, name: str | None) -> str | None:
        """Return the key of the plan; None, for all plans, unless the token is for one."""
        return super().plan_or_all(self.caller.plan if name is None else name)

    def person(self) -> str:
        """Return the name of the token, or the person at this machine."""
        return self.caller.name or super().person()

    def attempt(self, plan: str, anchor: str, given: int | None = None) -> int | None:
        """Return the attempt that was sent, and no other."""
        return given

    def copy(self, plan: str) -> PlanCopy:
        """Return the caller's copy of the plan's file, by its hash if that was sent."""
        if self.plan_hash is not None:
            sent = self.plan_hash
            return PlanCopy(os.path.join(self.worktree, plan), read=lambda: sent)
        root = self.repo.root
        if self.worktree != root and os.path.lexists(os.path.join(self.worktree, plan)):
            return super().copy(plan)
        shared: PlanCopy | None = self.once(("copy", plan), lambda: _shared_copy(plan, root))
        return shared or super().copy(plan)

    def once(self, what: object, look: Callable[[], Any]) -> Any:
        """Look at files once for all requests that are stored together."""
        group = getattr(self.store, "grouped", None)
        if group is None:
            return look()
        if what not in group.seen:
            group.seen[what] = look()
        return group.seen[what]


def _shared_copy(plan: str, root: str) -> PlanCopy | None:
    if not os.path.lexists(os.path.join(root, plan)):
        return None
    return SharedCopy(plan_copy(plan, worktree=root, root=root))


def _is_plain(root: str, key: str) -> bool:
    """True for a file that is not reached by a link."""
    path = os.path.join(root, key)
    try:
        modes = os.lstat(os.path.dirname(path)).st_mode, os.lstat(path).st_mode
    except OSError:
        return False
    return stat.S_ISDIR(modes[0]) and stat.S_ISREG(modes[1]) and _is_real(root)


@functools.cache
def _is_real(root: str) -> bool:
    return os.path.realpath(root) == root


class ServedCall(Call):
    """A request as the command's function reads it."""

    def __init__(self, open_workspace: Callable[[str | None], ServedWorkspace]) -> None:
        super().__init__()
        #: Another user asks for it.
        self.served = True
        self._open = open_workspace
        self._space: ServedWorkspace | None = None

    def workspace(self) -> Workspace:
        """The workspace of this request."""
        if "" in (self.text("worktree"), self.text("request_id")):
            raise errors.Usage("worktree and request_id need a value", command=self.path)
        if self._space is None:
            self._space = self._open(self.text("worktree"))
        return self._space


def refuse_names(call: Call, space: Workspace) -> None:
    """Refuse a commit that a worker elsewhere names as HEAD or a branch: those are the server's."""
    commit = call.text("commit") if call.path == "state complete" else None
    if commit is None or os.path.isdir(space.worktree):
        return
    from tugtool.workflow.commit import named  # Few requests name a commit.

    if not named.is_hash(commit):
        problem = f'"{commit[:60]}" is not the hash of a commit; names mean the server\'s own'
        raise errors.InvalidEntry(problem, command="complete")
