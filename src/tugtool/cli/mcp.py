"""mcp: the MCP server on standard input and output."""

from __future__ import annotations

import sys

from tugtool import errors
from tugtool.cli import output
from tugtool.cli.output import Answer, Stream
from tugtool.cli.parse import Call, Command, Option
from tugtool.git import discover
from tugtool.server.mcp.session import ROLES, LocalSession, ToolSession
from tugtool.system import config, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tugtool.agents.mcp_clients import PlannedEntry
    from tugtool.git import Repository
    from tugtool.schemas import Issue
    from tugtool.system.config import Settings


def mcp(call: Call) -> Answer | Stream:
    """Serve the client that started this process; with --json only say what it would get."""
    # Without a repository there is nothing to serve, and the client sees the error at once.
    settings = config.load(discover(call.cwd).root)
    role = _role(call, settings)
    if (plan := call.text("plan")) is not None:
        # A client would see a wrong name only at its first call.
        call.workspace().plan(plan)
    return (
        Answer(_described(role), lambda: "") if call.json else Stream(_served(call, role, settings))
    )


def _described(role: str) -> dict[str, object]:
    from tugtool.server.mcp import protocol

    tools = protocol.McpProtocol(ToolSession(role)).defined["tools"]
    names = [each["name"] for each in tools]
    return {"role": role, "tools": names, "tool_bytes": len(protocol.encoded(tools)) - 1}


#: The defaults of `[mcp]`. Most repositories set nothing, and the table of all settings costs a
#: tenth of the start.
DEFAULTS = {"mcp.role": "worker", "mcp.idle_seconds": 3600}


def _setting(settings: Settings, key: str) -> Any:
    return DEFAULTS[key] if settings.file is None else settings.value(key)


def _role(call: Call, settings: Settings) -> str:
    """The caller's role; a worker cannot make itself a person."""
    asked = call.text("role") or str(_setting(settings, "mcp.role"))
    if asked == "operator" and _is_worker():
        from tugtool.errors.state import PeopleOnly

        raise PeopleOnly("mcp --role operator", hint="tugcode mcp")
    # What an agent with a role may run, the guard says; here it may only look.
    return "viewer" if config.variable(config.ROLE_VARIABLE) is not None else asked


def _is_worker() -> bool:
    from tugtool.workflow import workers

    told = (config.variable("TUGCODE_ATTEMPT"), config.variable(config.ROLE_VARIABLE))
    # The environment of this process is the worker's to change.
    return any(each is not None for each in told) or workers.is_below_worker(os.getppid())


def _served(call: Call, role: str, settings: Settings) -> Iterator[Answer]:
    from tugtool.server.mcp import held, stdio

    terms: Any = {
        "lease_seconds": settings.number("state.lease_seconds"),
        "idle_seconds": _setting(settings, "mcp.idle_seconds"),
    }
    claims = held.for_client(call.cwd, **terms)

    def open_session(**how: Any) -> LocalSession:
        about: Any = {"plan": call.text("plan"), "structured": call.flag("structured")}
        return LocalSession(call.cwd, role, held=claims, **about, **how)

    stdio.StdioServer(open_session, claims).serve()
    return
    yield


def client_entries(call: Call, repo: Repository) -> list[PlannedEntry]:
    """The entries that clients' settings lack, for `init --mcp`, once the user has agreed."""
    from tugtool.agents import mcp_clients

    clients = list(dict.fromkeys(call.words("mcp")))
    # All are read before the first question.
    entries = [mcp_clients.plan_entry(repo.root, client) for client in clients]
    missing = [each for each in entries if each.text is not None]
    again = " ".join(["tugcode init", *(f"--mcp {each.client}" for each in missing)])
    if missing and call.flag("check"):
        files = [each.file for each in missing]
        raise errors.NotInitialised(repo.root, missing=files, command=again)
    changed = [each.file for each in missing if not each.created]
    if changed and not call.flag("yes") and not output.on_terminal(sys.stdin, sys.stderr):
        refusal = errors.Usage(f"no terminal to ask on, and {errors.listing(changed)} would change")
        refusal.hint = f"{again} --yes"
        raise refusal
    return [_agreed(each, sure=call.flag("yes")) for each in entries]


def _agreed(entry: PlannedEntry, *, sure: bool) -> PlannedEntry:
    """The entry; without its text if the user does not want it."""
    if sure or entry.created or entry.text is None:
        return entry
    agreed = output.agreed(f"Add tugcode mcp to {entry.file}? Everything in it stays.")
    return entry if agreed else entry._replace(text=None, declined=True)


def entry_warnings(repo: Repository, entries: list[PlannedEntry]) -> list[Issue]:
    """W185: a client could not start the server as its file says."""
    if not entries:
        return []
    from tugtool.agents import mcp_entries

    clients = tuple(each.client for each in entries)
    return [
        {"code": "W185", "severity": "warning", "message": each.problem, "hint": each.hint}
        for each in mcp_entries.entry_problems(repo.root, clients)
    ]


def next_command(repo: Repository, *, starts_client: bool) -> str:
    """The command to type after `init`: a plan, and with one a worktree for the client."""
    from tugtool.plan import catalog

    plans = catalog.plans(repo)
    if not plans:
        return "tugcode plan new SLUG"
    if starts_client and len(plans) == 1:
        return f"tugcode worktree create {errors.plan_argument(plans[0].key)} --new"
    return "tugcode status"


COMMANDS = (
    Command(
        "mcp",
        mcp,
        """\
For agent clients, which start it: they send JSON-RPC on standard input and get the answers on
standard output, one message a line. Steps that are claimed through it are held by the client's
process and renewed while that lives; when it ends or closes standard input, they are free at once.
The tools review and steer are for people: only with --role operator, and never where
TUGCODE_ATTEMPT or TUGCODE_ROLE says that a worker runs it. With --json it says what a client would
get, and ends.""",
        (
            Option("--role ROLE", "what the client may do (default: mcp.role)", choices=ROLES),
            Option("--plan PLAN", "the plan that is meant if a call names none"),
            Option("--structured", "send the data as structuredContent too, for programs"),
        ),
        examples="""\
tugcode mcp  # as an entry of your client's settings; `tugcode init --mcp CLIENT` writes it
tugcode mcp --role operator  # for your own assistant, which may review for you""",
    ),
)
