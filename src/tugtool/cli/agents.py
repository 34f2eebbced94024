"""plugin path, plugin install, and the hook for agent clients."""

from __future__ import annotations

import select

from tugtool.agents.guard import judge
from tugtool.cli import output
from tugtool.cli.output import Answer, answer, clean
from tugtool.cli.parse import Call, Command, Option
from tugtool.system import os, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.agents.guard.judge import Verdict


def plugin_path(call: Call) -> Answer:
    """Show the directory of the plugin."""
    from tugtool.agents import plugin

    data: dict[str, object] = {
        "plugin_path": plugin.plugin(),
        "marketplace_path": plugin.marketplace(),
    }
    return answer(data, plugin.plugin())


def plugin_install(call: Call) -> Answer:
    """Install the plugin in a client, or show the commands for it."""
    from tugtool.agents import plugin

    client, dry_run = call.text("client") or "claude", call.flag("dry_run")
    data = plugin.install(client, cwd=call.cwd, dry_run=dry_run)

    def text() -> str:
        if dry_run:
            return output.lines(data["commands"])
        pairs = zip(data["commands"], data["said"], strict=True)
        shown = "".join(f"$ {clean(line)}\n{clean(words)}\n" for line, words in pairs)
        return f"{shown}Restart {client}: it loads the plugin at its next start.\n"

    return Answer(data, text)


ALLOWED, BLOCKED = 0, 2
#: The most that a client sends for one call; it may hold a whole file.
MOST_BYTES = 64 << 20
#: Clients send the input at once and wait at most ten seconds for the answer.
PATIENCE_SECONDS = 5
_CHUNK = 1 << 20


def run_hook() -> int:
    """Read a call from standard input and answer the client; return the exit status."""
    try:
        verdict = judge.decide(_read)
        status = ALLOWED if verdict.said is None else BLOCKED
        _write(1, _for_client(verdict))
        _write(2, "" if verdict.said is None else f"tugcode guard: {verdict.said}\n")
        return status
    except BaseException as error:
        # Catch interrupts too: without an answer the client makes the call.
        _write(2, f"tugcode guard: blocked, because the guard itself failed: {error!r}\n")
        return BLOCKED


def pre_tool_use(call: Call) -> Answer:
    """Answer the same question in the envelope."""
    verdict = judge.decide(_read)
    data = {
        "allowed": verdict.said is None,
        "role": verdict.role,
        "tool": verdict.tool,
        "reason": verdict.said,
        "updated_input": verdict.updated,
    }
    status = ALLOWED if verdict.said is None else BLOCKED
    return Answer(data, lambda: _for_client(verdict), status=status)


def _for_client(verdict: Verdict) -> str:
    if verdict.said is not None or verdict.updated is None:
        return ""
    inner: dict[str, object] = {"hookEventName": "PreToolUse", "updatedInput": verdict.updated}
    if verdict.harmless:
        inner["permissionDecision"] = "allow"
        inner["permissionDecisionReason"] = (
            f"a command of tugcode's that the {verdict.role} may run"
        )
    # Leave all else to the permissions of the user.
    return text.encode({"hookSpecificOutput": inner}) + "\n"


def _read() -> bytes:
    """Read standard input up to the limits of size and time."""
    chunks: list[bytes] = []
    size = 0
    waiting = select.poll()
    waiting.register(0, select.POLLIN)
    while True:
        if not waiting.poll(PATIENCE_SECONDS * 1000):
            raise ValueError(f"nothing came for {PATIENCE_SECONDS} seconds")
        chunk = os.read(0, _CHUNK)
        if not chunk:
            return b"".join(chunks)
        size += len(chunk)
        if size > MOST_BYTES:
            raise ValueError(f"it is larger than {MOST_BYTES >> 20} MB")
        chunks.append(chunk)


def _write(descriptor: int, text: str) -> None:
    rest = text.encode("utf-8", "backslashreplace")
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        # The exit status still says it.
        return


COMMANDS = (
    Command(
        "plugin path",
        plugin_path,
        """\
The directory with the skills, the agents and the hooks. Its parent directory is a marketplace
that clients can add; --json names both.""",
        examples="""\
tugcode plugin path  # its directory
claude --plugin-dir "$(tugcode plugin path)"  # for one session, nothing installed""",
    ),
    Command(
        "plugin install",
        plugin_install,
        """\
Runs the client's own commands: they add the marketplace of this installation and install the
plugin from it for your user. Run it again after an update of Tugtool. --dry-run only shows the
commands.""",
        (
            Option("--client CLIENT", "the client (default: claude)", choices=("claude", "codex")),
            Option("--dry-run", "change nothing; show the commands"),
        ),
        examples="""\
tugcode plugin install --dry-run  # which commands would run?
tugcode plugin install  # Claude Code has the skills
tugcode plugin install --client codex  # and so has Codex""",
    ),
    Command(
        "hook pre-tool-use",
        pre_tool_use,
        """\
Reads a call as JSON from standard input, as Claude Code and Codex give it to a PreToolUse hook,
and checks it against the rules of the agent's role, which `agent_type` or TUGCODE_ROLE names;
docs/internals/guard.md has the rules. Exit status 0: the call is allowed; the output passes the
role on to the commands that it runs. Exit status 2: the call is blocked; standard error says why
and what to do instead. There is no other status: the guard blocks a call that it cannot judge.""",
        examples="""\
echo '{"tool_name": "Read"}' | tugcode hook pre-tool-use  # a session without a role may read""",
    ),
)
