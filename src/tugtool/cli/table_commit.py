"""The command that ties a step to its commit."""

from __future__ import annotations

from tugtool.cli.grammar import Command, Option
from tugtool.cli.table_state import ATTEMPT, WORKTREE

COMMANDS = (
    Command(
        "commit",
        "commit",
        "commit a step's work and complete the step",
        description="""\
Adds an entry to .tugtool/log.md, commits everything in the worktree with trailers that name
step, plan and claim, and completes the step with the commit. If git refuses, the log is as it
was. If the state cannot be updated, the commit stands: exit status 0, and
`state_update_failed` with the reason. Run it again, also after a crash: nothing is committed
twice. Only in a linked worktree.""",
        options=(
            Option(
                "--plan",
                "PLAN",
                "the plan; may be left out where exactly one is active",
                kind="plan",
            ),
            Option("--step", "ANCHOR", "the step that was done", kind="step"),
            Option("--message", "TEXT", "the commit's message, without trailers of ours"),
            Option("--summary", "TEXT", "for the log (default: the message's first line)"),
            ATTEMPT,
            WORKTREE,
        ),
        examples=(
            (
                'tugcode commit --plan parser --step step-3 --message "feat: read numbers"',
                "done, in git and in the state",
            ),
        ),
    ),
)
