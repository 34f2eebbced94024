"""The commands that tell how far a plan is; none of them changes anything."""

from __future__ import annotations

from tugtool.cli.grammar import Argument, Command
from tugtool.cli.table_state import ANY_PLAN, WORKTREE

COMMANDS = (
    Command(
        "state show",
        "state_look",
        "show how far a plan is",
        description="With --json everything that is recorded: steps, items, attempts, artifacts.",
        arguments=(
            Argument("plan", "the plan; all plans if left out", kind="plan", optional=True),
        ),
        options=(WORKTREE,),
        examples=(
            ("tugcode state show parser", "one plan"),
            ("tugcode state show --json", "everything there is"),
        ),
    ),
    Command(
        "state ready",
        "state_look",
        "list the steps by what can be done with them",
        description="Ready, claimed, expired, blocked, parked, completed. Changes nothing.",
        arguments=(ANY_PLAN,),
        options=(WORKTREE,),
        examples=(("tugcode state ready parser", "what could be claimed now"),),
    ),
)
