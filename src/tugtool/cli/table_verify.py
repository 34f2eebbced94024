"""The command that runs what a step's checkpoints name."""

from __future__ import annotations

from tugtool.cli.grammar import Command, Option
from tugtool.cli.table_state import ATTEMPT, PLAN, STEP, WORKTREE

COMMANDS = (
    Command(
        "state verify",
        "state_verify",
        "run the commands that a step's checkpoints name, and tick what passes",
        description="""\
For whoever holds the step. Runs what a checkpoint begins with in backticks (`make test`
passes; `lint` and `build` succeed), or names behind a colon at its end, as it stands in the
agreed text: with /bin/sh, in the worktree, without input. It asks first and lists all of it;
without a terminal it needs --yes. What exits with 0 is ticked; what fails stays as it is; both
keep command, exit status, time, commit and the end of the output as evidence. Checkpoints
without a command are listed and never ticked. A step's substeps are verified with it. The lease
is renewed meanwhile; if the claim is lost, the command is stopped and nothing is recorded. Exit
status 1 if anything failed.""",
        arguments=(PLAN, STEP),
        options=(
            Option("--yes", "", "run without asking"),
            Option("--dry-run", "", "only list what would be run"),
            Option("--timeout", "SECONDS", "for each command (default: 600)", kind="seconds"),
            Option(
                "--ordinal",
                "N",
                "only this checkpoint of the step itself, from 0; may be given several times",
                repeat=True,
            ),
            ATTEMPT,
            WORKTREE,
        ),
        examples=(
            ("tugcode state verify parser step-3 --dry-run", "what would be run?"),
            ("tugcode state verify parser step-3 --yes --json", "for an orchestrator"),
            ("tugcode state verify parser step-3 --ordinal 1 --timeout 60", "one of them, quickly"),
        ),
    ),
)
