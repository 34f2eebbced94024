"""The commands that agent clients call by themselves."""

from __future__ import annotations

from tugtool.cli.grammar import Command

COMMANDS = (
    Command(
        "hook pre-tool-use",
        "hook",
        "tell an agent client whether a tool call may be made",
        description="""\
Reads the call as JSON from standard input, as Claude Code and Codex give it to a PreToolUse hook,
and holds it against the rules of the agent's role, which `agent_type` or TUGCODE_ROLE names;
docs/guard.md has the rules. Exit status 0: it may be made; what is printed makes the role known
to the commands that it runs. Exit status 2: it may not, and standard error says why and what to
do instead. There is no other status: whatever cannot be read or judged is blocked.""",
        examples=(
            (
                'echo \'{"tool_name": "Read"}\' | tugcode hook pre-tool-use',
                "a session without a role may read",
            ),
        ),
        function="pre_tool_use",
    ),
)
