"""The command that ends a plan: merge."""

from __future__ import annotations

from tugtool.cli.grammar import Argument, Command, Option
from tugtool.cli.table_state import WORKTREE

COMMANDS = (
    Command(
        "merge",
        "merge",
        "bring a done plan's branches to its base branch",
        description="""\
Run it in the main worktree, clean and on the base branch. All branches of the plan are put
together first, in the order of their steps' dependencies; if they are in conflict, nothing is
touched and the files and steps are named. Then the base branch moves once, and the worktrees
and branches that were merged are removed; one with uncommitted work or a live claim is left.
A merge that was stopped is finished by running it again.""",
        arguments=(
            Argument(
                "plan", "the plan: a path, a file name, a slug, or its beginning", kind="plan"
            ),
        ),
        options=(
            Option("--squash", "", "one commit for the plan, with the trailers of every step"),
            Option("--dry-run", "", "change nothing; show what would be merged, and conflicts"),
            WORKTREE,
        ),
        examples=(
            ("tugcode merge parser --dry-run", "will it go through?"),
            ("tugcode merge parser", "one merge commit per branch"),
            ("tugcode merge parser --squash", "one commit for all"),
        ),
    ),
)
