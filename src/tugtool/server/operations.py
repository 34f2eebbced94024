"""Operations for commands on other machines, whose state is here: `/api/v1/operations/...`.

A command there calls an operation of `tugtool.state` as ever, and its name and arguments come in
one request. The paths are for tugcode itself; for scripts there is one path for each command.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from typing import NamedTuple

from tugtool import errors, state
from tugtool.errors import TugError
from tugtool.errors.server import NotServed, RoleTooSmall
from tugtool.server import one_plan, routes
from tugtool.server.routes import API, Route
from tugtool.server.served import Rendered
from tugtool.state import operations, requests, upkeep, views, wire
from tugtool.system import clock, process
from tugtool.workflow.shared_record import Serving

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from tugtool.server.tokens import Caller
    from tugtool.server.work import Service


#: Below `/api/v1/`: a module of `tugtool.state` and an operation of its, or one of the store.
PREFIX = f"{API}operations/"
#: The store's own: whether it is there, make it, wait for a change.
STORE = {
    "store/exists": "look",
    "store/roots": "look",
    "store/wait": "look",
    "store/create": "hold",
}
ROLES = {"look": "viewer", "hold": "worker", "steer": "operator"}
#: They make the database if there is none, which a group of operations cannot do.
ALONE = ("plans/init", "store/create")
#: Completed steps are backed up, as after the command.
BACKED_UP = ("completion/complete", "proofs/reconcile", "proofs/landed", "reviews/accept_all")
#: Plans and their checklists are nested deeper than the fields of a command.
DEEPEST = 40
LONGEST_WAIT_SECONDS = 20.0
#: Arguments that say who acts, or whose worktree it is.
ACTORS = ("owner", "actor", "path", "worktree", "paths")
#: Those that may name a person.
PEOPLE = ("by", "actor")
#: What a worker may begin with git; a merge, and what belongs to no plan, is for operators.
WORKERS_INTENTS = ("create", "remove")
#: The same in rows and in objects.
ACTING = ("worktree", "path", "owner", "file")

_ROUTES = {
    PREFIX + name: Route("POST", name, group, ROLES[group])
    for name, group in {**operations.GROUPS, **STORE}.items()
    if group in ROLES
}
_current = threading.local()


def route(path: str) -> Route | None:
    """The operation of a path, with its group and its role."""
    return _ROUTES.get(path)


def spoken(command: str) -> str:
    """The words that people use for a command or an operation."""
    return operations.command_name(command) if "/" in command else command


class OperationRequest(NamedTuple):
    """One request that has passed the guard."""

    route: Route
    body: Mapping[str, Any]
    caller: Caller
    request_id: str
    key: str | None

    @property
    def name(self) -> str:
        """The operation."""
        return self.route.command

    @property
    def digest(self) -> str:
        """The same for two requests that ask for the same."""
        said = json.dumps([self.name, dict(self.body)], sort_keys=True)
        return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()


async def answer(service: Service, request: OperationRequest) -> Rendered:
    """Carry an operation out in its thread. Return its answer."""
    _refuse_other_version(request)
    if request.name == "store/wait":
        return await _wait(service, request)
    if request.route.group == "look" or request.name in ALONE:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            service.others, lambda: _run(service, service.serving(), request)
        )
    task = service.writer.do(lambda own: _run(service, own, request), together=True)
    return await service.alone(request.caller, request.key, task)


def _refuse_other_version(request: OperationRequest) -> None:
    found, own = request.body.get("protocol"), operations.PROTOCOL
    if found != own:
        reason = f"the client speaks version {found!r:.20} of it, and this server {own}"
        raise NotServed("the operation", reason=reason, hint="tugcode version")


async def _wait(service: Service, request: OperationRequest) -> Rendered:
    """Answer with the count of changes, once it differs from the one that was seen."""
    seconds = request.body.get("seconds")
    seconds = min(float(seconds), LONGEST_WAIT_SECONDS) if isinstance(seconds, int | float) else 0.0
    await asyncio.get_running_loop().run_in_executor(service.looker, service.notice)
    if request.body.get("seen") == _count(service) and seconds > 0:
        await service.changed(service.changes, clock.ticks() + seconds)
    return _rendered({"value": _count(service)})


def _count(service: Service) -> str:
    # A server that was restarted begins to count anew.
    return f"{service.begun}.{service.changes}"


def _run(service: Service, serving: Serving, request: OperationRequest) -> Rendered:
    """Answer as before if the request came before, or else carry it out and keep the answer."""
    who, key, store = request.caller.name, request.key, serving.store
    if key is None or request.route.group == "look":
        return _perform(service, serving, request)
    what = {"command": request.name, "request_hash": request.digest}
    try:
        before = requests.recall(store, who, key, **what)
        if before is not None:
            return _rendered(json.loads(before))._replace(replayed=True)
        reply = _perform(service, serving, request)
        if reply.status == 200 and store.exists() and b'"ask"' not in reply.body[:8]:
            requests.remember(store, who, key, **what, answer=reply.body.decode())
    except TugError as error:
        return _refused(error)
    return reply


def _perform(service: Service, serving: Serving, request: OperationRequest) -> Rendered:
    """Carry an operation out for the machine of its caller."""
    caller = request.caller
    try:
        machine, name = _machine(request.body)
        serving.act_for(machine, name, token=caller.name if caller.role == "worker" else None)
        answers = _answers(request.body)
        _current.answers = wire.WireReader(answers)
        if request.name in STORE:
            found = _of_store(serving, request)
        else:
            body = _signed(caller, one_plan.narrow(caller, request.name, request.body))
            _refuse_stranger(serving, request)
            kept = one_plan.own_part(caller, request.name)
            done = operations.perform(serving.store, request.name, body, answers, kept)
            found = {"answer": done}
    except wire.Asked as asked:
        return _rendered({"ask": [asked.which, asked.words]})
    except TugError as error:
        return _refused(error)
    except Exception as error:
        return _unexpected(service, error, request.request_id)
    finally:
        _current.answers = None
        serving.act_at_home()
    after = serving.back_up if request.name in BACKED_UP else None
    return _rendered(found)._replace(after=after)


def _signed(caller: Caller, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the request with the token's name for the person who acts: a client may send any."""
    how: dict[str, Any] = body["with"]
    people = [name for name in PEOPLE if _is_person(how.get(name))]
    return {**body, "with": {**how, **dict.fromkeys(people, caller.name)}} if caller.name else body


def _is_person(value: object) -> bool:
    return isinstance(value, str) and not value.startswith("/")


def _of_store(serving: Serving, request: OperationRequest) -> dict[str, Any]:
    store = serving.store
    if request.name == "store/exists":
        return {"value": store.exists()}
    if request.name == "store/roots":
        return {"value": serving.roots()}
    if not store.exists() and not request.caller.may("operator"):
        raise RoleTooSmall(
            "making the record", role=request.caller.actual_role, needs="the role operator"
        )
    lost = store.create(upkeep.put_back)
    return {"value": None if lost is None else wire.written(lost, None)}


def _machine(body: Mapping[str, Any]) -> tuple[str, str]:
    found: Any = body.get("machine")
    plain = isinstance(found, list) and [type(each) for each in found] == [str, str]
    if not plain or not all(found):
        raise errors.Usage("machine takes the id and the name of the caller's machine")
    return found[0], found[1]


def _answers(body: Mapping[str, Any]) -> list[Any]:
    found = body.get("answers") or []
    whole = isinstance(body.get("words"), list) and isinstance(body.get("with"), dict)
    if not isinstance(found, list) or not (whole or "seen" in body or "words" not in body):
        raise errors.Usage("an operation takes words, with and answers")
    return found


def _witness(question: str, recorded: Mapping[str, object]) -> object:
    """Ask the caller about a process that is not on this machine: it may be on theirs."""
    reader = getattr(_current, "answers", None)
    return None if reader is None else reader.function(question)(recorded)


process.witness = _witness


def _refuse_stranger(serving: Serving, request: OperationRequest) -> None:
    """Refuse a worker that acts for others."""
    caller, name = request.caller, request.name
    words = [*request.body["words"]]
    how = dict(request.body["with"])
    if caller.role != "worker" or request.route.group != "hold":
        return
    for value in _acting(name, words, how, request.body.get("answers") or ()):
        if not (isinstance(value, str) and value.startswith("/")):
            what = f"acting for {str(value)[:200]}"
            raise RoleTooSmall(what, role=caller.role, needs="the role operator")
    beyond = _beyond_a_worker(serving, name, words, how)
    if beyond is not None:
        raise RoleTooSmall(beyond, role=caller.role, needs="the role operator")
    if name in ("attempts/mark_saved", "attempts/set_ref"):
        _refuse_other_attempt(serving, request, words)


def _beyond_a_worker(
    serving: Serving, name: str, words: list[Any], how: Mapping[str, Any]
) -> str | None:
    """The part of a worker's operation that is for people; None if it is for workers."""
    if name == "releases/release" and how.get("force"):
        return "state release with force"
    if name == "plans/init" and not state.is_recorded(serving.store, str(words[0])):
        return "state init"
    # Refused before git is touched: a merge or a dash could not be recorded afterwards.
    if name == "intents/add" and (not words[0] or words[1] not in WORKERS_INTENTS):
        return str(words[1])
    return None


def _refuse_other_attempt(serving: Serving, request: OperationRequest, words: list[Any]) -> None:
    """Refuse to say what became of the work in a worktree of another's."""
    row = wire.WireReader().value(words[0])
    named = ("plan_path", "step_anchor", "number")
    which = words[:3] if isinstance(row, str) else [row[each] for each in named]
    _, attempt = views.attempt(serving.store, *which)
    if attempt is None or not str(attempt["worktree"]).startswith("/"):
        what = "saving the work of another's attempt"
        raise RoleTooSmall(what, role=request.caller.role, needs="the role operator")


def _acting(
    name: str, words: list[Any], how: Mapping[str, Any], answers: Iterable[Any]
) -> Iterator[object]:
    """The owners that the arguments of an operation name."""
    yield from (how[each] for each in ACTORS if how.get(each) is not None)
    if name in _PLACES:
        yield from words[_PLACES[name]]
    if name == "worktrees/add":
        yield from (each[wire.TUPLE][0] if wire.TUPLE in each else None for each in words[1])
    if name == "worktrees/intend_creation":
        yield from (pair[wire.TUPLE][0] for *_, chosen in answers for pair in chosen)
    for each in (*words, *how.values()):
        if isinstance(each, dict):
            yield from _acting_in(each)


#: Positional arguments that name a worktree.
_PLACES = {
    "attempts/close_worktree": slice(0, 1),
    "intents/add": slice(2, 3),
    "intents/drop": slice(2, None),
    "worktrees/forget": slice(1, 2),
    "worktrees/reserve": slice(1, 2),
    "worktrees/keep": slice(1, 2),
    "worktrees/take_over": slice(1, 2),
    "worktrees/end_reservation": slice(1, 2),
}


def _acting_in(value: Mapping[str, Any]) -> Iterable[object]:
    if wire.OBJECT in value:
        inner = value[wire.OBJECT][1]
        return [inner[each] for each in ACTING if isinstance(inner, dict) and inner.get(each)]
    if wire.ROW in value:
        row = dict(zip(*value[wire.ROW], strict=False))
        return [row[each] for each in ACTING if row.get(each)]
    return []


def _rendered(found: Mapping[str, Any]) -> Rendered:
    return Rendered(200, 0, json.dumps(found).encode())


def _refused(error: TugError) -> Rendered:
    body = json.dumps({"error": wire.written_error(error)}).encode()
    status = routes.http_status(error)
    return Rendered(status, error.exit_status, body, code=error.code)


def _unexpected(service: Service, error: Exception, request_id: str) -> Rendered:
    """A bug: its traceback is for the log alone."""
    from tugtool.server import work

    return _refused(work.unexpected(error, service.base, request_id))
