"""How requests are carried out: one thread that writes, one that shows, others for git.

A store is for one thread at a time, so each thread has its own. What is shown of the record is
rendered once per change and kept as bytes.
"""

from __future__ import annotations

import asyncio
import functools
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from weakref import WeakValueDictionary

from tugtool import errors, state
from tugtool.cli import main, output
from tugtool.cli.parse import Call
from tugtool.errors import TugError
from tugtool.errors.server import ChangedMeanwhile, NotServed, RoleTooSmall, TooMany
from tugtool.server import routes
from tugtool.server.routes import HttpRefusal, Route
from tugtool.server.served import (
    LINES,
    Rendered,
    ServedCall,
    ServedRequest,
    ServedWorkspace,
    refuse_names,
)
from tugtool.server.tokens import Caller
from tugtool.server.writer import Writer
from tugtool.state import requests
from tugtool.system import clock, config, os
from tugtool.workflow import records
from tugtool.workflow.shared_record import Serving
from tugtool.workflow.workspace import Workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tugtool.cli.output import Answer, Stream
    from tugtool.server.hub import Hub
    from tugtool.store import Store


#: Kept as bytes until the record or a plan file changes, or so many seconds: leases run out and
#: processes end without a write.
CACHED = {path for path in routes.LOOK if path.startswith("state ")}
#: These print much, or read more than the record.
CACHED -= {"state diff", "state revisions", "state export"}
_FRESH_SECONDS = 1.0
_MOST_CACHED = 500
_LOOK_SECONDS = 0.05
#: For commands that read files or ask git.
_OTHER_THREADS = 4
#: That write at the same time to a state in PostgreSQL.
_SERVER_THREADS = 8
LONGEST_WORKTREE = 500


class Service:
    """The repository, and the threads that carry requests out."""

    def __init__(self, base: Workspace, *, batch: int) -> None:
        self.base = base
        self.changes = 0
        #: Tells the counts of this server from those of the next one.
        self.begun = os.urandom(4).hex()
        on_server = bool(base.settings.state_url())
        many = {"batch": 1, "threads": _SERVER_THREADS} if on_server else {"batch": batch}
        self.writer = Writer(base, **many)
        self.looker = ThreadPoolExecutor(1, "look")
        self.others = ThreadPoolExecutor(_OTHER_THREADS, "other")
        self._own = threading.local()
        self._on_server = on_server
        self._cache: dict[object, tuple[object, float, Rendered]] = {}
        self._counting = threading.Lock()
        self._locks: dict[str, asyncio.Lock] = {}
        #: By idempotency key, while a request has it.
        self._keys: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.hits = self.misses = 0
        #: Whether a caller's token still counts.
        self.is_valid: Callable[[Caller], bool] = lambda _: True
        #: Made by `tugtool.server.live` for the first watcher.
        self.hub: Hub | None = None

    async def carry_out(self, request: ServedRequest) -> Rendered:
        """Carry a request out in its thread. Return its answer."""
        group, loop = request.route.group, asyncio.get_running_loop()
        if group == "look" and request.route.command not in CACHED:
            return await loop.run_in_executor(self.others, self._run_here, request)
        if group == "look" and self._on_server:
            return await loop.run_in_executor(self.looker, self._look, request)
        if group == "look":
            # Of a file, one question tells whether it has changed: no thread has to be woken.
            kept = self._kept(request)
            if kept is not None:
                return kept
            return await loop.run_in_executor(self.looker, self._rendered_now, request)
        if group == "git":
            return await self._with_git(request)
        if "wait" in request.values:
            return await self._claim_later(request)
        return await self._write(request)

    async def _write(self, request: ServedRequest) -> Rendered:
        # The key is kept, and what was seen is compared, in the commit of the change itself.
        several = request.key is not None or request.if_seq is not None
        task = self.writer.do(lambda own: self._run(own.store, request), together=several)
        return await self.alone(request.caller, request.key, task)

    async def alone(self, caller: Caller, key: str | None, task: Awaitable[Rendered]) -> Rendered:
        """Wait for the writer: where several threads write, two requests of one key do not meet."""
        if key is None or not self._on_server:
            return await task
        lock = self._keys.setdefault(f"{caller.name} {key}", asyncio.Lock())
        async with lock:
            return await task

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
            await self.changed(seen, min(deadline, clock.ticks() + _FRESH_SECONDS))

    async def changed(self, seen: int, deadline: float) -> None:
        """Wait until something has changed since that count of changes, or until the deadline."""
        loop = asyncio.get_running_loop()
        while self.changes == seen and clock.ticks() < deadline:
            await asyncio.sleep(_LOOK_SECONDS)
            await loop.run_in_executor(self.looker, self.notice)

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

    def serving(self) -> Serving:
        """The store of the current thread, with those for whom it can act."""
        if not hasattr(self._own, "serving"):
            self._own.serving = Serving(self.base)
        serving: Serving = self._own.serving
        return serving

    def _store(self) -> Store:
        """The store of the current thread."""
        return self.serving().store

    def space(self, caller: Caller, worktree: str | None = None) -> ServedWorkspace:
        """The repository as the caller sees it, in the current thread."""
        return self.space_of(self._store(), caller, worktree)

    def space_of(
        self, store: Store, caller: Caller, worktree: str | None, *, git: bool = False
    ) -> ServedWorkspace:
        """The repository as the caller sees it; for git it has to be a worktree of ours."""
        if worktree is not None and (len(worktree) > LONGEST_WORKTREE or "\n" in worktree):
            raise errors.Usage("worktree is too long, or has a line break")
        space = ServedWorkspace(self.base, store, caller, worktree)
        if git and not _is_ours(space):
            raise NotServed(f"git in {worktree}", reason="it is not a worktree in .tugtree")
        return space

    async def write(self, work: Callable[[Store], Rendered]) -> Rendered:
        """Let the thread that writes do it."""
        return await self.writer.do(lambda serving: work(serving.store))

    def _run_here(self, request: ServedRequest) -> Rendered:
        reply = self._run(self._store(), request)
        if reply.after is not None:
            reply.after()
        return reply

    def notice(self) -> None:
        """Count a change, if there was one."""
        store = self._store()
        if not store.exists() or store.wait_for_change(0):
            with self._counting:
                self.changes += 1

    def _look(self, request: ServedRequest) -> Rendered:
        """Render what is shown of the record, unless nothing has changed since the last time."""
        return self._kept(request) or self._rendered_now(request)

    def _kept(self, request: ServedRequest) -> Rendered | None:
        """Return the answer that was rendered before, unless something has changed since."""
        self.notice()
        seen, until, reply = self._cache.get(_name(request), (None, 0.0, None))
        if reply is None or seen != self._seen() or clock.ticks() >= until:
            return None
        self.hits += 1
        return reply

    def _seen(self) -> tuple[int, object]:
        """The state of the record and of the plan files, as far as it is known."""
        return self.changes, _plan_files(self.base.repo.root)

    def _rendered_now(self, request: ServedRequest) -> Rendered:
        """Render it, and keep it for the state of before: a change meanwhile makes it old."""
        self.misses += 1
        seen, begun = self._seen(), clock.ticks()
        reply = self._run(self._store(), request)
        if reply.status == 200:
            if len(self._cache) >= _MOST_CACHED:
                self._cache.clear()
            self._cache[_name(request)] = (seen, begun + _FRESH_SECONDS, reply)
        return reply

    def _space(self, store: Store, request: ServedRequest, worktree: str | None) -> ServedWorkspace:
        git = request.route.group == "git"
        return self.space_of(store, request.caller, worktree, git=git)

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
            refuse_small_role(route, call, request.caller)
            space = call.workspace()
            assert isinstance(space, ServedWorkspace)
            space.plan_hash = plan_hash
            refuse_paths(call, space)
            _refuse_changed(call, space, request.if_seq)
            answer = main.perform(routes.command_of(route), call)
            return _rendered(answer, route, space, store)
        except HttpRefusal:
            raise
        except TugError as error:
            return refusal(error, route.command)
        except Exception as error:
            found = unexpected(error, call.workspace(), request.request_id)
            return refusal(found, call.path)

    def end_streams(self) -> None:
        """Tell watchers to come back later, so that open streams end."""
        if self.hub is not None:
            self.hub.close()

    def close(self) -> None:
        """Finish what was begun, and end the threads."""
        if self.hub is not None:
            self.hub.end()
        self.writer.close()
        self.looker.shutdown()
        self.others.shutdown(cancel_futures=True)


def _name(request: ServedRequest) -> object:
    """The same for two requests that get the same answer."""
    values = tuple(sorted((name, repr(value)) for name, value in request.values.items()))
    return request.route.command, values, request.caller.plan, request.caller.role


def _is_worth_waiting(reply: Rendered) -> bool:
    if reply.code == "E053":
        return True
    waits = b'"claimed": false' in reply.body and b'"all_completed": false' in reply.body
    return reply.status == 200 and waits


def refusal(error: TugError, command: str, status: int | None = None) -> Rendered:
    """The envelope of a refusal, as `--json` prints it."""
    if isinstance(error, errors.Usage) and not error.command:
        # It is about the request, of which the help of no command tells.
        error.hint = f"GET {routes.API}openapi.json"
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


def unexpected(error: Exception, space: Workspace, request_id: str) -> TugError:
    """The refusal for a damaged database, or a bug: its traceback is for the log alone."""
    try:
        damage: TugError | None = records.damage(space)
    except TugError as found:
        damage = found
    except Exception:
        damage = None
    if damage is not None:
        return damage
    import traceback

    output.mention("".join(traceback.format_exception(error)))
    bug = errors.Bug(error)
    bug.message = f"this is a bug in tugcode; the server's log has request {request_id}"
    return bug


def refuse_small_role(route: Route, call: Call, caller: Caller) -> None:
    """Refuse the options that only an operator may use."""
    forced = route.command == "state release" and call.flag("force")
    if forced and not caller.may("operator"):
        raise RoleTooSmall(
            "state release with force", role=caller.actual_role, needs="the role operator"
        )
    if caller.plan is not None and not route.command.startswith("state "):
        what = f"{route.command}, which is about all plans,"
        raise RoleTooSmall(what, role=f"{caller.role} of {caller.plan}", needs="another token")
    verdict = any(call.flag(each) for each in routes.VERDICTS)
    if route.method == "POST" and route.command == "state review" and not verdict:
        problem = "it needs accept, reject, accept_all or retry; to look, use GET"
        raise errors.Usage(problem, command=route.command)


def refuse_paths(call: Call, space: ServedWorkspace) -> None:
    """Refuse a plan that is named by the path of a file: it could be any file."""
    refuse_names(call, space)
    for name in call.words("plan"):
        space.once(("path", name), functools.partial(_refuse_path, name, space))


def _refuse_path(name: str, space: ServedWorkspace) -> None:
    file = name.removeprefix(".tugtool/")
    if file.startswith("tugplan-") and file.endswith(".md") and "/" not in file:
        return
    plain = name.replace("-", "").replace("_", "").isalnum()
    here = os.path.lexists(os.path.join(space.repo.root, name))
    if (here or not plain) and space.recorded(name) != name:
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
