"""The command that carries a plan out with agents."""

from __future__ import annotations

from tugtool.cli.grammar import Argument, Command, Option

COMMANDS = (
    Command(
        "implement",
        "implement",
        "carry a plan out with agents, several steps at a time",
        description="""\
Workers take the plan's steps one by one, each in its own worktree: architect, coder and
reviewer until the work is approved, then the commit; in the end the auditor and the
integrator. Who plays a role stands in .tugtool/config.toml. Stop it with Ctrl-C: claims are
released and work is saved, and the same command goes on where it stopped. What a person has
to decide is asked on a terminal; without one, that step is parked and the others go on.
Exit status 0: the plan is done. 1: it is not, and what is left is named.""",
        arguments=(
            Argument(
                "plan", "the plan: a path, a file name, a slug, or its beginning", kind="plan"
            ),
        ),
        options=(
            Option("--workers", "N", "steps at the same time", kind="number"),
            Option("--base", "BRANCH", "the branch that worktrees start from"),
            Option("--unattended", "", "ask nobody, also on a terminal; park instead"),
            Option("--dry-run", "", "change nothing; show which commands would be run, and where"),
        ),
        examples=(
            ("tugcode implement parser --dry-run", "who would do what?"),
            ("tugcode implement parser --workers 3", "three steps at a time"),
            ("tugcode implement parser --json", "one event per line, for programs"),
        ),
    ),
)
