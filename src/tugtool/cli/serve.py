"""serve, open; serve token add, list, revoke."""

from __future__ import annotations

from tugtool import errors
from tugtool.cli import output
from tugtool.cli.output import Answer, Stream
from tugtool.cli.parse import Argument, Call, Command, Option
from tugtool.errors.state import PeopleOnly
from tugtool.system import config, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tugtool.server.process import Server
    from tugtool.server.tokens import Tokens
    from tugtool.workflow.workspace import Workspace


def serve(call: Call) -> Stream:
    """Serve until a signal comes."""
    _refuse_workers(call)
    server = _server(call)
    return Stream(_served(server, opens=call.flag("open") or call.path == "open"))


def _refuse_workers(call: Call) -> None:
    from tugtool.workflow import workers

    if config.variable("TUGCODE_ATTEMPT") is not None or workers.is_below_worker(os.getppid()):
        # The server's own token is an operator's, who may review.
        raise PeopleOnly(call.path, hint="tugcode status")
    if config.git_location_is_forced():
        # The variables would decide where each request looks.
        raise errors.Usage("GIT_DIR and its like are set; unset them", command=call.path)


def _server(call: Call) -> Server:
    try:
        from tugtool.server.process import Listening, Server
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "tugtool":
            raise
        raise errors.ExtraMissing("serve", missing=missing) from error
    from tugtool.workflow import trust

    space = _workspace(call)
    trust.refuse_serving(space.repo, space.settings)
    port = call.text("port")
    if port is not None and not (port.isascii() and port.isdecimal() and int(port) < 1 << 16):
        raise errors.Usage(f'--port takes 0 to 65535, not "{port}"', command=call.path)
    descriptor = call.number("fd")
    unix = call.text("unix")
    listening = Listening(
        space.settings,
        space.repo.root,
        space.copies,
        port=None if port is None else int(port),
        unix=unix if unix in (None, "auto") else os.path.join(call.cwd, unix or ""),
        descriptor=descriptor,
    )
    listening.behind_proxy |= call.flag("behind_proxy")
    read_only, log_all = call.flag("read_only"), call.flag("access_log")
    return Server(space, listening, read_only=read_only, log_all=log_all)


def _workspace(call: Call) -> Workspace:
    """The workspace; refuses a state that another server has."""
    space = call.workspace()
    if space.settings.state_url().startswith("http"):
        from tugtool.system import state_config

        at = state_config.without_password(space.settings.state_url())
        refusal = errors.Usage(f"{at} serves the state of this repository", command=call.path)
        looks = call.path in ("serve", "open") and not at.startswith("http+unix")
        there = f"open {at}#t=TOKEN" if looks else f"on its machine: tugcode {call.path}"
        here = f"for a state in a file here: TUGCODE_STATE_URL= tugcode {call.path}"
        refusal.hint = f"{there}; {here}"
        raise refusal
    return space


def _served(server: Server, *, opens: bool) -> Iterator[Answer]:
    data = server.data()
    lines = [f"serving {server.space.repo.root} at {data['url']}"]
    if data["socket"]:
        lines.append(f"and, for your own processes, at {data['socket']}")
    yield Answer(data, lambda: output.lines([*lines, "Ctrl-C stops it"]))
    page = _open_page(server) if opens else None
    try:
        server.run()
    finally:
        if page is not None and os.path.exists(page):
            os.unlink(page)


def _open_page(server: Server) -> str:
    """Open the browser at a file that leads to the page.

    The token is not on a command line, where every user of the machine could read it.
    """
    import threading
    import webbrowser

    path = os.path.join(server.directory, "open.html")
    if os.path.lexists(path):
        os.unlink(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    url = str(server.data()["url"])
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={url}">\n')
    # A browser in a terminal ends only when its user leaves it.
    threading.Thread(target=webbrowser.open, args=(f"file://{path}",), daemon=True).start()
    return path


def token_add(call: Call) -> Answer:
    """Make a token."""
    _refuse_workers(call)
    role = call.text("role")
    if role is None:
        raise errors.Usage("it needs --role viewer, worker or operator", command=call.path)
    space, tokens = _tokens(call)
    plan = space.plan(call.text("plan")) if call.text("plan") else None
    name = call.text("name") or ""
    token, row = tokens.add(name, role, plan=plan, expires=call.text("expires"))
    data = {**_shown(row), "token": token}
    return Answer(data, lambda: output.lines([token]), issues=())


def token_list(call: Call) -> Answer:
    """List the tokens."""
    rows = [_shown(row) for row in _tokens(call)[1].rows()]

    def lines() -> Iterator[str]:
        for row in rows:
            only = f", only {row['plan_path']}" if row["plan_path"] else ""
            until = f", until {row['expires_at']}" if row["expires_at"] else ""
            yield f"{row['name']}: {row['role']}{only}{until}"

    return Answer({"tokens": rows}, lambda: output.lines(lines()) or "there is no token\n")


def token_revoke(call: Call) -> Answer:
    """Make a token invalid."""
    _refuse_workers(call)
    name = call.text("name") or ""
    revoked = _tokens(call)[1].revoke(name)
    said = f"revoked {name}" if revoked else f"there is no token {name}: tugcode serve token list"
    data = {"name": name, "revoked": revoked}
    return Answer(data, lambda: output.lines([said]), status=0 if revoked else 1)


def _tokens(call: Call) -> tuple[Any, Tokens]:
    from tugtool.server.tokens import Tokens

    space = _workspace(call)
    os.makedirs(space.copies, exist_ok=True)
    return space, Tokens(space.copies)


def _shown(row: Any) -> dict[str, object]:
    """The facts of a token, without its hash."""
    return {
        "name": row["name"],
        "role": row["role"],
        "plan_path": row["plan"],
        "created_at": row["created_at"],
        "expires_at": row["expires_at"],
    }


_OPTIONS = (
    Option("--port N", "the port (default: serve.port); 0: any free one", kind="text"),
    Option("--unix PATH", "also listen at this Unix socket; auto: in git's directory", kind="text"),
    Option("--fd N", "take a listening socket from the caller, such as systemd's 3"),
    Option("--behind-proxy", "a proxy adds TLS, as serve.behind_proxy"),
    Option("--read-only", "every token may only look"),
    Option("--access-log", "log every request, not only those that are refused"),
)
_NAME = Argument("name", "the name that the record shows")

COMMANDS = (
    Command(
        "serve",
        serve,
        """\
Serves the commands of tugcode over HTTP, for a page, for scripts, and for workers on other
machines. It listens at 127.0.0.1 and prints its address with a token, which ends with it. Every
request needs a token. What is refused is logged as JSON lines on standard error. SIGTERM stops it
within five seconds. It needs the extra `serve`: pip install '.[serve]' in the directory of its
source. `tugcode serve token add` makes tokens for people and machines.""",
        (Option("--open", "open it in the browser"), *_OPTIONS),
        examples="""\
tugcode serve  # for yourself, on this machine
tugcode serve --read-only --port 0  # only to look
tugcode serve --unix auto  # also for scripts of yours, without a token""",
    ),
    Command(
        "serve token add",
        token_add,
        """\
Prints the token once; the file has only its hash. A viewer may look; a worker may also claim and
complete steps under its own name; an operator may do everything that is served.""",
        (
            _NAME,
            Option("--role ROLE", "what it may do", choices=("viewer", "worker", "operator")),
            Option("--plan PLAN", "only for this plan"),
            Option("--expires TIME", "not longer than this: 90m, 12h, 30d"),
        ),
        examples="""\
tugcode serve token add anna --role operator  # for a person
tugcode serve token add builder --role worker --expires 30d  # for a machine""",
    ),
    Command(
        "serve token list",
        token_list,
        examples="tugcode serve token list  # who may use the server",
    ),
    Command(
        "serve token revoke",
        token_revoke,
        "A running server refuses it from now on. Exit status 1 if there is no token of that name.",
        (_NAME,),
        examples="tugcode serve token revoke builder  # the machine is gone",
    ),
    Command(
        "open",
        serve,
        "The same as `tugcode serve --open`.",
        _OPTIONS,
        examples="tugcode open  # look at the plans in the browser",
    ),
)
