"""The command that runs somebody else's under a claim."""

from __future__ import annotations

from tugtool.cli.grammar import Argument, Command, Option
from tugtool.cli.table_state import ANY_PLAN, LEASE, WORKTREE

COMMANDS = (
    Command(
        "state exec",
        "state_exec",
        "claim a step and run a command for it, the lease renewed all the while",
        description="""\
The command runs in the worktree, with TUGCODE_PLAN, TUGCODE_STEP, TUGCODE_ATTEMPT and
TUGCODE_WORKTREE set, on the standard streams of its caller; signals are passed on to it, and
its exit status is the answer (128 and the number of the signal that killed it; 127 and 126 if
there is no such command or it cannot be run). If it fails, the step is given back. If it
succeeds, the step stays claimed for as long as the lease lasts, unless the command completed
it, or --complete does. A claim that is lost stops the command and all of its process group:
exit status 4. So does the death of this process, by whatever signal; the step is free then.
What the command leaves running when it ends is stopped too. Nothing to claim: the command is
not run, exit status 0 (1 with --step). With --json the answer is the only thing on standard
output, when the command has ended; what the command prints goes to standard error.""",
        arguments=(
            ANY_PLAN,
            Argument("cmd", "the command and its arguments", kind="command", many=True),
        ),
        options=(
            Option("--step", "ANCHOR", "only this step; a refusal says why", kind="step"),
            Option("--complete", "", "complete the step if the command succeeds"),
            LEASE,
            Option("--force", "", "also take a step under a live lease, when nothing else is left"),
            Option("--wait", "SECONDS", "wait so long for something to be ready", kind="seconds"),
            Option("--request-id", "ID", "the same id again goes on with the same claim"),
            WORKTREE,
        ),
        examples=(
            ("tugcode state exec parser -- ./agent --headless", "one step for one agent"),
            (
                "tugcode state exec parser --wait 600 --complete -- make step",
                "done if it succeeds and nothing is open",
            ),
            (
                "tugcode state exec --step step-3 --lease-duration 60 --json -- ./agent",
                "this step or none; what came of it as JSON",
            ),
        ),
    ),
)
