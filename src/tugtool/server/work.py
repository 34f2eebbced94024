"""How requests are carried out: one thread that writes, one that shows, others for git.

A store is for one thread at a time, so each thread has its own. What is shown of the record is
rendered once per change and kept as bytes.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from tugtool import errors, state
from tugtool.cli import main, output
from tugtool.cli.parse import Call
from tugtool.errors import TugError
from tugtool.errors.server import ChangedMeanwhile, NotServed, RoleTooSmall, TooMany
from tugtool.git import Repository, worktree_identity
from tugtool.server import routes
from tugtool.server.routes import HttpRefusal, Route
from tugtool.server.tokens import Caller
from tugtool.server.writer import Writer
from tugtool.state import requests
from tugtool.state.record import PlanCopy, owner_of
from tugtool.system import clock, config
from tugtool.workflow import records
from tugtool.workflow.workspace import Workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tugtool.cli.output import Answer, Stream
    from tugtool.server.hub import Hub
    from tugtool.store import Store


#: Kept as bytes until the record or a plan file changes, or so many seconds: leases run out and
#: processes end without a write.
CACHED = ("state show", "state ready", "state why", "state stats", "state log", "state review")
_FRESH_SECONDS = 1.0
_MOST_CACHED = 500
_LOOK_SECONDS = 0.05
#: For commands that read files or ask git.
_OTHER_THREADS = 4
LONGEST_WORKTREE = 500
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


class Service:
    """The repository, and the threads that carry requests out."""

    def __init__(self, base: Workspace, *, batch: int) -> None:
        self.base = base
        self.changes = 0
        self._writer = Writer(base, batch=batch)
        self._looker = ThreadPoolExecutor(1, "look")
        self.others = ThreadPoolExecutor(_OTHER_THREADS, "other")
        self._own = threading.local()
        self._cache: dict[object, tuple[object, float, Rendered]] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self.hits = self.misses = 0
        #: Made by `tugtool.server.live` for the first watcher.
        self.hub: Hub | None = None

    async def carry_out(self, request: ServedRequest) -> Rendered:
        """Carry a request out in its thread. Return its answer."""
        group = request.route.group
        if group == "look":
            cached = request.route.command in CACHED
            thread = self._looker if cached else self.others
            work = self._look if cached else self._run_here
            return await asyncio.get_running_loop().run_in_executor(thread, work, request)
        if group == "git":
            return await self._with_git(request)
        if "wait" in request.values:
            return await self._claim_later(request)
        return await self._write(request)

    async def _write(self, request: ServedRequest) -> Rendered:
        keyed = request.key is not None
        return await self._writer.do(lambda store: self._run(store, request), together=keyed)

    async def _claim_later(self, request: ServedRequest) -> Rendered:
        """Claim, again after each change, until the time is up: the writer never waits."""
        call = ServedCall(lambda _: self._space(self.base.store, request, None))
        routes.fill(request.route, request.values, call)
        deadline = clock.ticks() + (call.seconds("wait") or 0)
        values = {name: value for name, value in request.values.items() if name != "wait"}
        once = request._replace(values=values)
        while True:
            seen = self.changes
            reply = await self._write(once)
            if clock.ticks() >= deadline or not _is_worth_waiting(reply):
                return reply
            await self._changed(seen, min(deadline, clock.ticks() + _FRESH_SECONDS))

    async def _changed(self, seen: int, deadline: float) -> None:
        loop = asyncio.get_running_loop()
        while self.changes == seen and clock.ticks() < deadline:
            await asyncio.sleep(_LOOK_SECONDS)
            await loop.run_in_executor(self._looker, self._notice)

    async def _with_git(self, request: ServedRequest) -> Rendered:
        """Run git in a thread of its own, one at a time in each worktree."""
        where = str(request.values.get("worktree") or "")
        lock = self._locks.setdefault(where, asyncio.Lock())
        seconds = self.base.settings.number("serve.git_seconds")

        async def alone() -> Rendered:
            async with lock:
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self.others, self._run_here, request)

        task = asyncio.ensure_future(alone())
        try:
            return await asyncio.wait_for(asyncio.shield(task), seconds)
        except TimeoutError:
            busy = TooMany("git is still at work on this or an earlier request", retry_seconds=10)
            raise HttpRefusal(busy, 503) from None

    def _store(self) -> Store:
        """The store of the current thread."""
        if not hasattr(self._own, "store"):
            self._own.store = self.base.open_store()
        store: Store = self._own.store
        return store

    def space(self, caller: Caller) -> ServedWorkspace:
        """The repository as the caller sees it, in the current thread."""
        return ServedWorkspace(self.base, self._store(), caller, None)

    def _run_here(self, request: ServedRequest) -> Rendered:
        reply = self._run(self._store(), request)
        if reply.after is not None:
            reply.after()
        return reply

    def _notice(self) -> None:
        store = self._store()
        if not store.exists() or store.wait_for_change(0):
            self.changes += 1
            self._cache.clear()

    def _look(self, request: ServedRequest) -> Rendered:
        """Render what is shown of the record, unless nothing has changed since the last time."""
        self._notice()
        values = tuple(sorted((name, repr(value)) for name, value in request.values.items()))
        key = (request.route.command, values, request.caller.plan, request.caller.role)
        plans = _plan_files(self.base.repo.root)
        signature, until, reply = self._cache.get(key, (None, 0.0, None))
        if reply is not None and signature == plans and clock.ticks() < until:
            self.hits += 1
            return reply
        self.misses += 1
        begun = clock.ticks()
        reply = self._run(self._store(), request)
        if reply.status == 200:
            if len(self._cache) >= _MOST_CACHED:
                self._cache.clear()
            self._cache[key] = (plans, begun + _FRESH_SECONDS, reply)
        return reply

    def _space(self, store: Store, request: ServedRequest, worktree: str | None) -> ServedWorkspace:
        if worktree is not None and (len(worktree) > LONGEST_WORKTREE or "\n" in worktree):
            raise errors.Usage("worktree is too long, or has a line break")
        space = ServedWorkspace(self.base, store, request.caller, worktree)
        if request.route.group == "git" and not _is_ours(space):
            raise NotServed(f"git in {worktree}", reason="it is not a worktree in .tugtree")
        return space

    def _run(self, store: Store, request: ServedRequest) -> Rendered:
        """Answer as before if the request came before, or else run it and keep the answer."""
        if request.key is None:
            return self._perform(store, request)
        what = {"command": request.route.command, "request_hash": request.digest}
        try:
            before = requests.recall(store, request.caller.name, request.key, **what)
        except TugError as error:
            return refusal(error, request.route.command)
        if before is not None:
            exit_status, seq, body = json.loads(before)
            return Rendered(200, exit_status, body.encode(), seq=seq, replayed=True)
        reply = self._perform(store, request)
        # A request that changed nothing is judged anew.
        if reply.status == 200 and not _is_worth_waiting(reply):
            answer = json.dumps([reply.exit_status, reply.seq, reply.body.decode()])
            requests.remember(store, request.caller.name, request.key, **what, answer=answer)
        return reply

    def _perform(self, store: Store, request: ServedRequest) -> Rendered:
        """Run the command's function and render its answer."""
        route = request.route
        call = ServedCall(lambda worktree: self._space(store, request, worktree))
        call.cwd = self.base.repo.root
        try:
            on_this_machine = request.caller.pid is not None
            plan_hash = routes.fill(route, request.values, call, on_this_machine=on_this_machine)
            _refuse_small_role(route, call, request.caller)
            space = call.workspace()
            assert isinstance(space, ServedWorkspace)
            space.plan_hash = plan_hash
            _refuse_paths(call, space)
            _refuse_changed(call, space, request.if_seq)
            answer = main.perform(routes.command_of(route), call)
            return _rendered(answer, route, space, store)
        except HttpRefusal:
            raise
        except TugError as error:
            return refusal(error, route.command)
        except Exception as error:
            return _unexpected(error, call, request.request_id)

    def end_streams(self) -> None:
        """Tell watchers to come back later, so that open streams end."""
        if self.hub is not None:
            self.hub.close()

    def close(self) -> None:
        """Finish what was begun, and end the threads."""
        if self.hub is not None:
            self.hub.end()
        self._writer.close()
        self._looker.shutdown()
        self.others.shutdown(cancel_futures=True)


def _is_worth_waiting(reply: Rendered) -> bool:
    if reply.code == "E053":
        return True
    waits = b'"claimed": false' in reply.body and b'"all_completed": false' in reply.body
    return reply.status == 200 and waits


def refusal(error: TugError, command: str, status: int | None = None) -> Rendered:
    """The envelope of a refusal, as `--json` prints it."""
    named = error.command if isinstance(error, errors.Usage) and error.command else command
    document = output.envelope(named, error.exit_status, {}, error.issues())
    body = document.encode() + b"\n"
    return Rendered(status or routes.http_status(error), error.exit_status, body, code=error.code)


def _rendered(answer: Answer | Stream, route: Route, space: Workspace, store: Store) -> Rendered:
    if isinstance(answer, output.Stream):
        parts = [part for part in answer.parts if isinstance(part, str)]
        return Rendered(200, 0, "".join(parts).encode(), LINES)
    document = output.envelope(route.command, answer.status, answer.data, answer.issues)
    changing = route.method == "POST" and store.exists()
    seq = state.last_seq(store) if changing else None
    body = document.encode() + b"\n"
    return Rendered(200, answer.status, body, seq=seq, after=answer.after)


def _unexpected(error: Exception, call: Call, request_id: str) -> Rendered:
    """A damaged database, or a bug: its traceback is for the log alone."""
    try:
        damage: TugError | None = records.damage(call.workspace())
    except TugError as found:
        damage = found
    except Exception:
        damage = None
    if damage is not None:
        return refusal(damage, call.path)
    import traceback

    output.mention("".join(traceback.format_exception(error)))
    bug = errors.Bug(error)
    bug.message = f"this is a bug in tugcode; the server's log has request {request_id}"
    return refusal(bug, call.path)


def _refuse_small_role(route: Route, call: Call, caller: Caller) -> None:
    """Refuse the options that only an operator may use."""
    forced = route.command == "state release" and call.flag("force")
    if forced and not caller.may("operator"):
        raise RoleTooSmall("state release with force", role=caller.role, needs="operator")
    if caller.plan is not None and not route.command.startswith("state "):
        what = f"{route.command}, which is about all plans,"
        raise RoleTooSmall(what, role=f"{caller.role} of {caller.plan}", needs="another token")
    verdict = any(call.flag(each) for each in routes.VERDICTS)
    if route.method == "POST" and route.command == "state review" and not verdict:
        problem = "it needs accept, reject, accept_all or retry; to look, use GET"
        raise errors.Usage(problem, command=route.command)


def _refuse_paths(call: Call, space: Workspace) -> None:
    """Refuse a plan that is named by the path of a file: it could be any file."""
    for name in call.words("plan"):
        file = name.removeprefix(".tugtool/")
        usual = file.startswith("tugplan-") and file.endswith(".md") and "/" not in file
        plain = name.replace("-", "").replace("_", "").isalnum()
        here = os.path.lexists(os.path.join(space.repo.root, name)) and not usual
        if (usual or plain) and not here:
            continue
        if not usual and space.recorded(name) != name:
            raise errors.PlanNotFound(name)


def _refuse_changed(call: Call, space: Workspace, seen: int | None) -> None:
    """Refuse a write if the plan, or the step, has changed since the event that was seen."""
    if seen is None:
        return
    plan = space.plan(call.text("plan"))
    events = state.log(space.store, plan, step=call.anchor() or None, limit=1)["events"]
    last = events[-1]["seq"] if events else 0
    if last > seen:
        raise ChangedMeanwhile(plan, seen=seen, last=last)


def _is_ours(space: Workspace) -> bool:
    """True for the main worktree and for those below .tugtree."""
    root = space.repo.root
    trees = os.path.join(root, config.TREES_PATH, "")
    return space.worktree == root or space.worktree.startswith(trees)


def _plan_files(root: str) -> object:
    """Facts of the plan files that change when one is edited."""
    try:
        with os.scandir(os.path.join(root, ".tugtool")) as entries:
            found = [e for e in entries if e.name.startswith("tugplan-")]
            return sorted((e.name, e.stat().st_mtime_ns, e.stat().st_size) for e in found)
    except OSError:
        return None
