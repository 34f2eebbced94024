"""A request as the commands see it: who calls, from where, with which values; and its answer."""

from __future__ import annotations

import hashlib
import json
import os
from typing import NamedTuple

from tugtool import errors
from tugtool.cli.parse import Call
from tugtool.errors.server import RoleTooSmall
from tugtool.git import Repository, worktree_identity
from tugtool.server.routes import Route
from tugtool.server.tokens import Caller
from tugtool.state.record import PlanCopy, owner_of
from tugtool.workflow.workspace import Workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
        key = super().plan(own if name is None else name)
        if own is not None and key != own:
            what = f"a request about {key}"
            raise RoleTooSmall(what, role=f"{self.caller.role} of {own}", needs="another token")
        return key

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
        if self.plan_hash is None:
            return super().copy(plan)
        sent = self.plan_hash
        return PlanCopy(os.path.join(self.worktree, plan), read=lambda: sent)


class ServedCall(Call):
    """A request as the command's function reads it."""

    def __init__(self, open_workspace: Callable[[str | None], ServedWorkspace]) -> None:
        super().__init__()
        self._open = open_workspace
        self._space: ServedWorkspace | None = None

    def workspace(self) -> Workspace:
        """The workspace of this request."""
        if "" in (self.text("worktree"), self.text("request_id")):
            raise errors.Usage("worktree and request_id need a value", command=self.path)
        if self._space is None:
            self._space = self._open(self.text("worktree"))
        return self._space
