"""Ready-made commands for the usual agent CLIs, all of which read their prompt from standard input.

What a role may do there is one of three: look (architect), run commands but edit nothing
(reviewer), edit (coder). A CLI's own limits are a help and no proof: Tugtool holds its rules
itself.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

from tugtool.agent_settings import SCRIPT_VARIABLE, SHELL_VARIABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.agent_settings import Agent

LOOK, RUN, EDIT = "look", "run", "edit"
#: What each role may do. Auditors and reviewers must run the tests to judge.
ACCESS = {
    "clarifier": LOOK,
    "author": EDIT,
    "critic": LOOK,
    "architect": LOOK,
    "coder": EDIT,
    "reviewer": RUN,
    "committer": RUN,
    "auditor": RUN,
    "integrator": RUN,
}
#: Their work lies outside the worktree: in the repository's `.git`, on the remote.
BEYOND = ("committer", "integrator")


class Command(NamedTuple):
    """What to start for a role: words, and variables beside those of everybody."""

    argv: tuple[str, ...]
    env: dict[str, str]


def command(agent: Agent) -> Command:
    """How to start the agent that plays a role; its own variables go before the preset's."""
    if agent.command is not None:
        return Command(agent.command, dict(agent.env))
    if agent.preset == "shell":
        return Command(("sh", "-c", agent.env[SHELL_VARIABLE]), dict(agent.env))
    if agent.preset == "scripted":
        # By the Python that runs now: another one need not have this package.
        words = (sys.executable, "-P", "-m", "tugtool.agents.scripted")
        return Command((*words, agent.env[SCRIPT_VARIABLE]), dict(agent.env))
    made = _MAKERS[str(agent.preset)](agent.role)
    return Command(made.argv, {**made.env, **agent.env})


def _claude(role: str) -> Command:
    start = ("claude", "-p", "--output-format", "json", "--permission-mode")
    access = ACCESS[role]
    if access == LOOK:
        # Not the mode `plan`: it ends with a plan for a person to accept, not with an answer.
        tools = ("dontAsk", "--allowedTools", "Read,Grep,Glob")
        return Command((*start, *tools, "--disallowedTools", "Edit,Write,NotebookEdit,Bash"), {})
    if access == RUN:
        tools = ("dontAsk", "--allowedTools", "Read,Grep,Glob,Bash")
        return Command((*start, *tools, "--disallowedTools", "Edit,Write,NotebookEdit"), {})
    tools = ("acceptEdits", "--allowedTools", "Read,Grep,Glob,Edit,Write,Bash")
    # A coder neither commits nor writes down its own progress.
    denied = "Bash(git commit:*),Bash(git push:*),Bash(tugcode state:*),Bash(tugcode commit:*)"
    return Command((*start, *tools, *(["--disallowedTools", denied] * (role == "coder"))), {})


def _codex(role: str) -> Command:
    # Its sandbox for reading alone also keeps builds and tests from writing anything.
    sandbox = "read-only" if ACCESS[role] == LOOK else "workspace-write"
    if role in BEYOND:
        sandbox = "danger-full-access"
    return Command(("codex", "exec", "--json", "--sandbox", sandbox, "-"), {})


def _gemini(role: str) -> Command:
    # Without a terminal it asks nobody: what would need leave is refused.
    mode = {
        LOOK: ("plan",),
        RUN: ("default", "--allowed-tools", "run_shell_command"),
        EDIT: ("yolo",),
    }[ACCESS[role]]
    return Command(("gemini", "--output-format", "json", "--approval-mode", *mode), {})


def _opencode(role: str) -> Command:
    # The last rule that fits decides.
    rules = {
        LOOK: '{"*":"allow","edit":"deny","bash":"deny"}',
        RUN: '{"*":"allow","edit":"deny"}',
        EDIT: '{"*":"allow"}',
    }[ACCESS[role]]
    return Command(("opencode", "run", "--format", "json"), {"OPENCODE_PERMISSION": rules})


_MAKERS = {"claude": _claude, "codex": _codex, "gemini": _gemini, "opencode": _opencode}
