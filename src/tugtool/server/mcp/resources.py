"""Resources and prompts, for clients that have them; the tools alone are enough."""

from __future__ import annotations

from tugtool import errors
from tugtool.errors import TugError, plan_name
from tugtool.server.mcp import texts
from tugtool.server.mcp.protocol import INVALID_PARAMS, NO_RESOURCE, ProtocolError, encoded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tugtool.server.mcp.session import ToolSession


_SCHEME = "tug://"
_KIND = "text/plain"
_MOST_LISTED = 30
TEMPLATES = [
    {
        "uriTemplate": "tug://plan/{slug}",
        "name": "plan",
        "title": "A plan",
        "description": "How far a plan is.",
        "mimeType": _KIND,
    },
    {
        "uriTemplate": "tug://plan/{slug}/step/{anchor}",
        "name": "step",
        "title": "A step",
        "description": "A step's text, items, notes and attempts.",
        "mimeType": _KIND,
    },
]
PROMPTS: list[dict[str, Any]] = [
    {
        "name": "work",
        "title": "Work on a plan",
        "description": "Carry out steps of a plan until there is none left.",
        "arguments": [{"name": "plan", "description": "the plan; the active one if left out"}],
    },
    {
        "name": "morning",
        "title": "What happened, what needs me",
        "description": "How far every plan is, who works, and what waits for you.",
        "arguments": [],
    },
]
_WORK = """\
Carry out {plan} with the tools of tugcode, one step at a time:
1. claim({given}). It returns a step with its attempt, its text and its items.
2. Do what the text says, in your worktree. Report items with update(step, attempt, entries) as
   they get done, and send the attempt with every call.
3. {checks}
4. {end}
5. Then claim again, until claimed is false. With no_ready_steps, claim with wait_seconds=50.
If an answer says stop: true, the step is no longer yours: change nothing more and claim again.
What you cannot judge, set to deferred with a reason. Never tick what you have not done. A step
that you cannot finish, give back with release(step, attempt, reason)."""
_MORNING = """\
Tell me in a few sentences what happened in this repository and what needs me. This is the state:

{status}

For what is not clear from it, look with show(plan, view="log") and show(plan, step, view="why").
Begin with what waits for me. Decide nothing for me."""


def _resource(address: str, name: str, title: str) -> dict[str, str]:
    return {"uri": address, "name": name, "title": title, "mimeType": _KIND}


def listed(session: ToolSession) -> list[dict[str, str]]:
    """The status, and the plans that have one."""
    found = [_resource(f"{_SCHEME}status", "status", "What is going on")]
    if session.only_plan is not None:
        plans = [plan_name(session.only_plan)]
    else:
        try:
            data: Any = session.perform(["status"]).data
        except TugError:
            return found
        plans = [plan_name(each["plan_path"]) for each in data["plans"]][:_MOST_LISTED]
    room = texts.MOST_BYTES
    for each in plans:
        entry = _resource(f"{_SCHEME}plan/{each}", each, f"Plan {each}")
        room -= len(encoded(entry))
        found += [entry] if room > 0 else []
    return found


def read_resource(session: ToolSession, address: str) -> dict[str, str]:
    """The text of a resource."""
    try:
        said = _read(session, address)
    except TugError as error:
        said = f"{error.code}: {error.message}"
        raise ProtocolError(NO_RESOURCE, texts.cut(said, 1000), {"uri": address[:500]}) from error
    return {"uri": address, "mimeType": _KIND, "text": texts.cut(said)}


def _read(session: ToolSession, address: str) -> str:
    from tugtool.server.mcp import tools

    if address == f"{_SCHEME}status":
        return tools.RUNNERS["status"](session, {})[0]
    kind, _, rest = address.removeprefix(_SCHEME).partition("/")
    slug, step, anchor = rest.partition("/step/")
    if not address.startswith(_SCHEME) or kind != "plan" or not slug or bool(step) != bool(anchor):
        raise errors.Usage(f"there is no resource {address[:200]}")
    given = {"plan": slug, "view": "step", "step": anchor} if anchor else {"plan": slug}
    return tools.RUNNERS["show"](session, given)[0]


def _work(session: ToolSession) -> dict[str, str]:
    """The parts of the prompt that depend on where the worktree is."""
    checks = "verify(step, attempt) runs the commands of the checkpoints."
    if "verify" not in session.tools:
        checks = "Run the commands of the checkpoints in your worktree, and update what passed."
    end = "complete(step, attempt, message) commits everything in your worktree and completes the"
    if not session.commits:
        end = "Commit, push to the server's repository, then complete(step, attempt, commit) the"
    return {"checks": checks, "end": f"{end} step."}


def prompt(session: ToolSession, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The text of a prompt."""
    about = next((each for each in PROMPTS if each["name"] == name), None)
    if about is None:
        raise ProtocolError(INVALID_PARAMS, f"there is no prompt {name[:100]}: work, morning")
    if name == "work":
        plan = given.get("plan") or session.plan
        said = _WORK.format(
            plan=f"the plan {plan}" if plan else "the active plan",
            given=f'plan="{plan}"' if plan else "",
            **_work(session),
        )
    else:
        said = _MORNING.format(status=_status(session))
    message = {"role": "user", "content": {"type": "text", "text": texts.cut(said)}}
    return {"description": about["description"], "messages": [message]}


def _status(session: ToolSession) -> str:
    from tugtool.server.mcp import tools

    try:
        return texts.cut(
            tools.RUNNERS["status"](session, {})[0], texts.MOST_BYTES - len(_MORNING) - 100
        )
    except TugError as error:
        return error.message
