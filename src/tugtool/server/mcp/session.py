"""Where tools are carried out: who calls, for which worktree, in which repository."""

from __future__ import annotations

from tugtool.cli import main, parse
from tugtool.cli.parse import Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from tugtool.cli.output import Answer
    from tugtool.server.mcp.guide import Guide
    from tugtool.server.mcp.held import HeldClaim, HeldSteps
    from tugtool.workflow.workspace import Workspace


ROLES = ("viewer", "worker", "operator")
_LOOK = ("status", "show")
_WORK = ("claim", "update", "verify", "complete", "release", "note")
#: Each role has the tools of the roles before it.
TOOLS = {
    "viewer": _LOOK,
    "worker": (*_LOOK, *_WORK),
    "operator": (*_LOOK, *_WORK, "review", "steer"),
}


class Cancelled(Exception):
    """The client does not want the answer any more."""


class ToolSession:
    """The caller of one request, and what it may do."""

    #: True if the caller's worktrees are on this machine.
    is_local = False

    def __init__(self, role: str, *, plan: str | None = None, structured: bool = False) -> None:
        self.role, self.plan, self.structured = role, plan, structured
        #: The process that holds what is claimed, if it is on this machine.
        self.holder_pid: int | None = None
        #: Done once the answer is written.
        self.after: list[Callable[[], str | None]] = []

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools of the caller's role."""
        return TOOLS[self.role]

    @property
    def commits(self) -> bool:
        """True if `complete` can commit in the caller's worktree."""
        return True

    @property
    def only_plan(self) -> str | None:
        """The key of the one plan that the caller may see, if there is such a limit."""
        return None

    def guide(self, given: Mapping[str, Any]) -> Guide:
        """The writer of calls for the caller, in the worktree that it named."""
        from tugtool.server.mcp.guide import Guide  # Not needed to list the tools.

        how: Any = {"commits": self.commits, "only_plan": self.only_plan}
        return Guide(self.tools, worktree=given.get("worktree"), **how)

    def held(self, given: Mapping[str, Any]) -> HeldClaim | None:
        """The claim that a call is about, if this server knows it."""
        return None

    def watch(self) -> None:
        """Raise if the caller does not want the answer any more."""

    def refuse_worker(self, tool: str) -> None:
        """Raise if a tool for people is called by a worker."""

    def space(self, worktree: str | None = None) -> Workspace:
        """The repository as that worktree sees it."""
        raise NotImplementedError

    def plan_key(self, name: str | None, worktree: str | None) -> str:
        """The key of the plan with that name, or of the active one."""
        return self.space(worktree).plan(name)

    def perform(
        self, words: list[str], *, worktree: str | None = None, given: bytes | None = None
    ) -> Answer:
        """Run the command that the words mean."""
        raise NotImplementedError

    def same_claim(self, plan: str, worktree: str | None) -> HeldClaim | None:
        """The claim that the caller has in that worktree, which it gets again."""
        return None

    def claimed(
        self, data: Mapping[str, Any], worktree: str | None, request_id: str | None
    ) -> None:
        """Note a claim, which is renewed from now on."""

    def ended(self, plan: str, anchor: str, attempt: int | None = None) -> None:
        """Note that a claim has ended, or only that attempt."""

    def close(self) -> None:
        """Close what was opened for the request."""


class SessionCall(Call):
    """A call whose workspace comes from the session."""

    def __init__(self, session: ToolSession) -> None:
        super().__init__()
        self._session = session
        self.watch = session.watch

    def workspace(self) -> Workspace:
        """The workspace of the named worktree."""
        return self._session.space(self.text("worktree"))


def filled(call: Call, words: list[str], *, given: bytes | None) -> Call:
    """The call, filled with what the words mean, for an answer as data."""
    reader = parse.WordReader(words)
    reader.call = call
    reader.read()
    reader.finish()
    call.json, call.given = True, given
    return call


class LocalSession(ToolSession):
    """The session of a server that runs in its caller's worktree."""

    is_local = True

    def __init__(
        self,
        cwd: str,
        role: str,
        *,
        plan: str | None = None,
        structured: bool = False,
        held: HeldSteps | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(role, plan=plan, structured=structured)
        self.cwd, self._held, self._is_cancelled = cwd, held, is_cancelled
        self.holder_pid = None if held is None else held.holder_pid
        self._spaces: dict[str | None, Workspace] = {}

    def watch(self) -> None:
        """Raise if the client has cancelled the request."""
        if self._is_cancelled():
            raise Cancelled

    def refuse_worker(self, tool: str) -> None:
        """Raise if the client, or a process above it, holds a step by other means."""
        from tugtool.workflow import workers

        def is_own(plan: str, anchor: str) -> bool:
            return self._held is not None and self._held.find(plan=plan, anchor=anchor) is not None

        store = self.space().store
        found = workers.held_above(store, is_own) if store.exists() else None
        if found is not None:
            from tugtool.errors import plan_name
            from tugtool.errors.state import PeopleOnly

            plan, anchor = found
            reason = f"your client works on {anchor} of {plan_name(plan)}, through another server"
            raise PeopleOnly(tool, reason=reason, hint="tugcode status")

    def space(self, worktree: str | None = None) -> Workspace:
        """The repository around the server's directory."""
        if worktree not in self._spaces:
            from tugtool.workflow.workspace import Workspace

            self._spaces[worktree] = Workspace(self.cwd, worktree)
        return self._spaces[worktree]

    def perform(
        self, words: list[str], *, worktree: str | None = None, given: bytes | None = None
    ) -> Answer:
        """Run the command as the command line would, and return its answer."""
        if worktree is not None:
            words = [words[0], *words[1:]]
            words.insert(_end_of_options(words), f"--worktree={worktree}")
        call = filled(SessionCall(self), words, given=given)
        call.cwd = self.cwd
        assert call.command is not None
        answer: Any = main.perform(call.command, call)
        if answer.after is not None:
            self.after.append(answer.after)
        found: Answer = answer
        return found

    def held(self, given: Mapping[str, Any]) -> HeldClaim | None:
        """The claim by its step and attempt; a client that sends neither right has only one."""
        if self._held is None:
            return None
        step, attempt = given.get("step"), given.get("attempt")
        bare = step.removeprefix("#") if isinstance(step, str) else None
        find = self._held.find
        return find(anchor=bare, attempt=attempt) or find(anchor=bare) or find()

    def same_claim(self, plan: str, worktree: str | None) -> HeldClaim | None:
        """The claim for that worktree: a client that claims twice has lost nothing."""
        return None if self._held is None else self._held.in_worktree(plan, worktree)

    def claimed(
        self, data: Mapping[str, Any], worktree: str | None, request_id: str | None
    ) -> None:
        """Renew the claim while the client lives."""
        if self._held is not None:
            self._held.add(data, worktree, request_id)

    def ended(self, plan: str, anchor: str, attempt: int | None = None) -> None:
        """Renew the claim no more."""
        if self._held is not None:
            self._held.drop(plan, anchor, attempt)

    def close(self) -> None:
        """Close the stores, each of which belongs to the thread that opened it."""
        for space in self._spaces.values():
            space.store.close()
        self._spaces.clear()


def _end_of_options(words: list[str]) -> int:
    return words.index("--") if "--" in words else len(words)
