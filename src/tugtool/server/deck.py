"""Paths that only the page needs: who I am, the agreed text, a note's text, a commit's diff."""

from __future__ import annotations

import asyncio

from tugtool import errors, state
from tugtool.cli import output
from tugtool.errors.server import RoleTooSmall
from tugtool.server.routes import API
from tugtool.server.served import Rendered
from tugtool.server.work import Service
from tugtool.state import views
from tugtool.system import text
from tugtool.workflow import review

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tugtool.server.served import ServedWorkspace
    from tugtool.server.tokens import Caller

    Values = Mapping[str, object]
    Answering = Callable[[ServedWorkspace, Values], Mapping[str, object]]


def whoami(space: ServedWorkspace, _: Values) -> Mapping[str, object]:
    """The name and role of the token."""
    caller = space.caller
    return {
        "name": caller.name or space.person(),
        "role": caller.role,
        "plan": caller.plan,
        "expires_at": caller.expires_at,
        "acts_as": space.owner,
    }


def plan_text(space: ServedWorkspace, values: Values) -> Mapping[str, object]:
    """The text that was agreed, or an earlier one."""
    plan = space.plan(_text(values, "plan"))
    given = _text(values, "revision")
    if given is not None and not (given.isascii() and given.isdecimal() and len(given) < 10):
        raise errors.Usage("revision takes a number", command="plan text")
    number = None if given is None else int(given)
    agreed = state.agreed_texts(space.store, plan, number)
    if number is None:
        number = len(agreed["revisions"])
        agreed = state.agreed_texts(space.store, plan, number)
    (row,) = (each for each in agreed["revisions"] if each["revision"] == number)
    return {"plan_path": plan, **row, "text": agreed["text"]}


def plan_revisions(space: ServedWorkspace, values: Values) -> Mapping[str, object]:
    """The agreed texts, without the texts themselves."""
    return dict(state.agreed_texts(space.store, space.plan(_text(values, "plan"))))


def artifact(space: ServedWorkspace, values: Values) -> Mapping[str, object]:
    """A note with its whole text."""
    plan, number = space.plan(_text(values, "plan")), _text(values, "id") or ""
    for step in views.show(space.store, plan, full=True)["steps"]:
        for each in step["artifacts"]:
            if str(each["artifact_id"]) == number:
                return {"plan_path": plan, "step_anchor": step["anchor"], **each}
    raise errors.InvalidEntry(f"{plan} has no note {number[:20]}")


def git_commit(space: ServedWorkspace, values: Values) -> Mapping[str, object]:
    """The change of a commit that the record names."""
    if space.caller.plan is not None:
        role = f"{space.caller.role} of {space.caller.plan}"
        raise RoleTooSmall("git commit", role=role, needs="a token for all plans")
    return review.recorded_change(space, _text(values, "hash") or "")


#: Path -> its function, and the fields that it takes.
PATHS: dict[str, tuple[Answering, tuple[str, ...], str]] = {
    f"{API}whoami": (whoami, (), "the name and role of the token"),
    f"{API}plan/text": (plan_text, ("plan", "revision"), "an agreed text of a plan"),
    f"{API}plan/revisions": (plan_revisions, ("plan",), "the agreed texts, as a list"),
    f"{API}artifact": (artifact, ("plan", "id"), "a note with its whole text"),
    f"{API}git/commit": (git_commit, ("hash",), "the change of a commit that the record names"),
}


async def answer(service: Service, path: str, values: Values, caller: Caller) -> Rendered:
    """Answer one of these paths."""
    function, fields, _ = PATHS[path]
    command = path.removeprefix(API).replace("/", " ")
    for name in values:
        if name not in fields:
            close = text.names(name, fields)
            raise errors.Usage(f'there is no field "{name[:100]}"', command=command, close=close)

    def run() -> Rendered:
        data = function(service.space(caller), values)
        return Rendered(200, 0, output.envelope(command, 0, data, []).encode() + b"\n")

    return await asyncio.get_running_loop().run_in_executor(service.others, run)


def _text(values: Values, name: str) -> str | None:
    value = values.get(name)
    if value is not None and not isinstance(value, str):
        raise errors.Usage(f"{name} was sent twice")
    return value
