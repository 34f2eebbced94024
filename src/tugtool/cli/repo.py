"""init, status, doctor, config, version."""

from __future__ import annotations

import sys

from tugtool import __version__
from tugtool.cli import output
from tugtool.cli.output import Answer, answer, clean
from tugtool.cli.parse import Call, Command, Option
from tugtool.git import discover
from tugtool.system import config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tugtool.cli.draw.canvas import Canvas
    from tugtool.git import Repository
    from tugtool.schemas import Doctor, DoctorCheckFinding, InitClaude


def init(call: Call) -> Answer:
    """Set up a repository, or check that it is set up."""
    from tugtool.cli import mcp
    from tugtool.workflow import plans as operation

    repo = discover(call.cwd)
    claude, entries = _wants_rules(call, repo), mcp.client_entries(call, repo)
    data, parts = operation.set_up(repo, check=call.flag("check"), claude=claude)
    data["mcp"] = [each.write() for each in entries] if entries else None
    data["next"] = mcp.next_command(repo, starts_client=bool(entries))
    if not (call.json or call.flag("check")) and _is_person():
        from tugtool.cli import trust

        trust.ask_once(call.cwd)

    def text() -> str:
        created, added = data["created"], data["claude"]
        # With --mcp a user who is set up wants to know of the client's file.
        parts_shown = created if entries else parts
        lines = [f"{'created' if name in created else 'kept   '}  {name}" for name in parts_shown]
        lines += [] if added is None else _check_lines(added)
        lines += [each.sentence for each in entries]
        state = "is set up" if not created else "is ready"
        lines += [f"{clean(repo.root)} {state}. Next: {data['next']}"]
        return "\n".join(lines) + "\n"

    return answer(data, text, mcp.entry_warnings(repo, entries))


def _check_lines(added: InitClaude) -> list[str]:
    if not (added["allow"] or added["deny"]):
        return [f"kept     {added['file']}"]
    first = f"{'created' if added['created'] else 'added to'} {added['file']}:"
    rules = [f"  allow {rule}" for rule in added["allow"]]
    return [first, *rules, *(f"  deny {rule}" for rule in added["deny"])]


def _wants_rules(call: Call, repo: Repository) -> bool:
    """True if --claude was given or the user agrees to rules for Claude Code."""
    if call.flag("claude"):
        return True
    if call.json or call.flag("check") or not _is_person():
        return False
    from tugtool.agents import plugin

    if not plugin.would_add(repo.root):
        return False
    return output.agreed("Let Claude Code run tugcode here without asking (.claude/settings.json)?")


def _is_person() -> bool:
    return output.on_terminal(sys.stdin, sys.stdout, sys.stderr)


def show_config(call: Call) -> Answer:
    """Show every setting, its value and its source."""
    repo = discover(call.cwd)
    settings = config.load(repo.root)
    rows: list[dict[str, object]] = [
        {
            "key": key,
            "value": settings.value(key),
            "source": settings.file if settings.is_set(key) else "default",
            "default": setting.default,
            "meaning": setting.meaning,
        }
        for key, setting in config.all_settings().items()
    ]
    rows += settings.agent_rows()
    _add_variable(rows)

    def text() -> str:
        # Values in the table of an agent are user text and may be long.
        shown = []
        for row in rows:
            value = row["value"]
            if isinstance(value, list | tuple):
                # Separate several commands like a shell.
                parts = (" ".join(e) + ";" if isinstance(e, list) else str(e) for e in value)
                value = " ".join(parts) or "-"
            if isinstance(value, bool):
                value = config.format_settings(value)
            shown.append((row["key"], clean(str(value)), row["source"]))
        widths = [max(len(str(line[column])) for line in shown) for column in (0, 1)]
        width = min(widths[1], 40)
        lines = [f"{key:<{widths[0]}} {value:<{width}} {source}" for key, value, source in shown]
        return "\n".join(lines) + "\n"

    return Answer({"file": settings.file, "settings": rows}, text)


def _add_variable(rows: list[dict[str, object]]) -> None:
    """Add the address of the state from the environment, without its password."""
    url, source = config.variable("TUGCODE_STATE_URL"), "TUGCODE_STATE_URL"
    if url is None:
        url, source = config.variable("TUGCODE_SERVER"), "TUGCODE_SERVER"
    if url is not None:
        from tugtool.system import state_config

        (row,) = (each for each in rows if each["key"] == "state.url")
        row.update(value=state_config.without_password(url), source=source)


def version(call: Call) -> Answer:
    """Show the versions of Tugtool, Python, SQLite and git."""
    from tugtool.git import command as git
    from tugtool.store.sqlite import file

    python = ".".join(map(str, sys.version_info[:3]))
    data = {
        "tugtool": __version__,
        "python": python,
        "sqlite": file.VERSION,
        "sqlite_wal_reset_bug": file.has_wal_reset_bug(),
        "git": git.version(),
    }

    def text() -> str:
        return (
            f"tugtool {__version__}\npython  {python}\nsqlite  {file.VERSION}\n"
            f"git     {data['git'] or 'not found'}\n"
        )

    return Answer(data, text)


#: The most findings of one check in text; JSON has all.
MOST_SHOWN = 10


def doctor(call: Call) -> Answer:
    """Run every check, and with --fix the repairs."""
    from tugtool.workflow.doctor import checks

    repo = discover(call.cwd)
    data, issues = checks.diagnose(repo, cwd=call.cwd, fix=call.flag("fix"))
    status = 0 if data["healthy"] else 1

    def text() -> str:
        from tugtool.cli.draw import canvas as canvases

        canvas = canvases.for_output()
        draw_doctor(canvas, data, repo.root, every=call.flag("all"))
        return canvas.text()

    return Answer(data, text, issues=issues, status=status)


#: Severity of a finding -> its sign and its style.
_FINDINGS = {
    "error": ("!", "bold wrong"),
    "warning": ("!", "bold you"),
    "fixed": ("✓", "bold done"),
    "note": (" ", "dim"),
}


def draw_doctor(canvas: Canvas, data: Doctor, root: str, *, every: bool) -> None:
    """The findings; with `every` also the notes and the checks that passed."""
    for check in data["checks"]:
        found = [each for each in check["findings"] if every or each["severity"] != "note"]
        shown = found if every else found[:MOST_SHOWN]
        hints = [*(each["hint"] for each in shown[1:]), None]
        for each, following in zip(shown, hints, strict=False):
            # Print the same advice only once.
            _finding(canvas, check["name"], each, root, hint=each["hint"] != following)
        if len(found) > len(shown):
            more = f"  {check['name']}: and {len(found) - len(shown)} more (--all lists them)"
            canvas.write(("dim", more))
        if every and not found:
            style, sign = canvas.sign("waits" if check["reason"] else "completed")
            skipped = f"  not made: {check['reason']}" if check["reason"] else ""
            canvas.write((style, f"{sign} "), ("", check["name"]), ("dim", skipped), hang=2)
    _verdict(canvas, data, every=every)


def _finding(
    canvas: Canvas, name: str, finding: DoctorCheckFinding, root: str, *, hint: bool
) -> None:
    from tugtool.cli.draw import canvas as canvases

    kind = "fixed" if finding["fixed"] else finding["severity"]
    sign, style = _FINDINGS[kind]
    sign = canvas.glyphs.completed if kind == "fixed" else sign
    message = canvases.by_slug(canvases.in_local_time(finding["message"]))
    message = message.replace(f"{root}/", "")
    canvas.write((style, f"{sign} {kind} {name}"), ("", f": {canvas.said(message)}"), hang=4)
    if finding["outcome"]:
        canvas.write(("", f"    {canvas.said(finding['outcome'])}"), hang=4)
    if finding["hint"] and hint and not finding["fixed"]:
        command = canvas.said(canvases.by_slug(finding["hint"]))
        canvas.write(("dim", "    next: "), ("bold", command), hang=6)


def _verdict(canvas: Canvas, data: Doctor, *, every: bool) -> None:
    made, skipped = len(data["checks"]), data["counts"]["skipped"]
    facts = [f"{made} checks"]
    if skipped:
        reasons = sorted({check["reason"] for check in data["checks"] if check["reason"]})
        facts = [f"{made - skipped} of {made} checks made", f"skipped: {'; '.join(reasons)}"]
    facts += _found(data)
    notes = sum(each["severity"] == "note" for c in data["checks"] for each in c["findings"])
    facts += [f"{notes} note{'s' * (notes > 1)} (--all)"] if notes and not every else []
    has = data["versions"]
    shared = "state" in has
    facts += [f"{has['state']} at {has['state_url']}" if shared else f"SQLite {has['sqlite']}"]
    facts += [f"git {has['git'] or 'not found'}"]
    well = ("bold done", "all is well") if data["healthy"] else ("bold wrong", "not healthy")
    canvas.facts(*(("", canvas.said(fact)) for fact in facts), lead=[well, ("", ": ")])


def _found(data: Doctor) -> Iterator[str]:
    """The number of findings, not of checks."""
    findings = [each for check in data["checks"] for each in check["findings"]]
    kinds = ["fixed" if each["fixed"] else each["severity"] for each in findings]
    for kind in ("error", "warning", "fixed"):
        count = kinds.count(kind)
        if count:
            yield f"{count} {kind}{'' if count == 1 or kind == 'fixed' else 's'}"


def status(call: Call) -> Answer:
    """Show every plan, its progress, claims and worktrees, and what waits for you."""
    from tugtool.workflow import overview

    space = call.workspace()
    data = overview.status(space, archived=call.flag("all"))

    def text() -> str:
        from tugtool.cli.draw import status
        from tugtool.workflow import trust  # People are told; programs meet E110.

        if data["plans"]:
            output.print_issues(trust.notices(space.repo.root, space.settings))
        return status.draw_status(data)

    return Answer(data, text, issues=overview.status_issues(space, data))


_CLIENTS = ("claude", "codex", "gemini", "opencode", "vscode")
COMMANDS = (
    Command(
        "init",
        init,
        """\
Makes .tugtool/ with its ignore rules and the skeleton of a plan, and tells git to ignore
the state and the linked worktrees on every branch. Run it as often as you like: it keeps
existing files, also those that you have changed. Works before the first commit, and from a
linked worktree too; the files are made in the main one.

On a terminal it asks once whether you trust the repository (`tugcode trust`), unless you have
answered before.

--claude also adds rules to .claude/settings.json: Claude Code may run tugcode without asking,
and may never edit the state or the log. The other contents of that file stay. On a terminal,
`tugcode init` offers this if there is a .claude/.

--mcp enters `tugcode mcp` in the client's file for MCP servers; the rest of that file stays.
Give it once for each client. It warns if the client could not start the server.""",
        (
            Option("--check", "change nothing; exit 1 if anything is missing"),
            Option("--claude", "also write permission rules for Claude Code"),
            Option(
                "--mcp CLIENT",
                "enter tugcode mcp in a client's settings",
                choices=_CLIENTS,
                repeat=True,
            ),
            Option("--yes", "with --mcp: change a file of yours without asking"),
        ),
        examples="""\
tugcode init  # set up the repository of the current directory
tugcode init --claude  # and let Claude Code run tugcode
tugcode init --mcp codex  # let Codex work on plans, over MCP
tugcode init --mcp claude --mcp gemini --yes  # two clients, without a question
tugcode init --check  # in CI: is it set up?""",
    ),
    Command(
        "config",
        show_config,
        "Settings are in .tugtool/config.toml of the main worktree; all are optional.",
        examples="""\
tugcode config  # every setting, its value and its source
tugcode config --json  # the same for a program""",
    ),
    Command(
        "version",
        version,
        "Shows Tugtool, Python, the linked SQLite and git, for a bug report.",
        examples="""\
tugcode version  # four lines
tugcode --version  # the same""",
    ),
    Command(
        "doctor",
        doctor,
        """\
Checks the set-up and ignore rules, the database, plans, claims, unsaved work, interrupted
commands, worktrees and branches, the log, and the machine; docs/reference/doctor.md lists every
check. Changes nothing; --fix makes the repairs that can do no harm. Exit status 1 if there is
anything to look at.""",
        (
            Option("--fix", "make the repairs that can do no harm"),
            Option("--all", "show every check, also those that found nothing"),
        ),
        examples="""\
tugcode doctor  # are there problems?
tugcode doctor --fix  # repair what is safe
tugcode doctor --json  # every check, for a program""",
    ),
    Command(
        "status",
        status,
        """\
Shows every plan with its progress, its workers and stale claims, the worktrees, and what waits
for you, each with the command to look at it. For a plan without a state, the boxes in its text
count. `tugcode show PLAN` shows more of one plan.""",
        (Option("--all", "show archived plans too"),),
        examples="""\
tugcode status  # on one screen
tugcode status --json  # the same for a program""",
    ),
)
