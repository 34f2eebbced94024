"""The commands about worktrees, branches and commits."""

from __future__ import annotations

from tugtool.cli.grammar import Argument, Command, Option
from tugtool.cli.table_state import ANY_PLAN, LEASE, PLAN, WORKTREE

COMMANDS = (
    Command(
        "worktree create",
        "worktree",
        "make a worktree to carry a plan out in",
        description="""\
Checks the plan and records it, as state init does. Makes the branch tugplan/<slug>-<date>
and the directory .tugtree/tugplan__<slug>-<date>, with -2, -3 where that is taken; or takes
a worktree of the plan that is free: no live claim, not reserved. It is reserved for you for
10 minutes, or until the first claim from it. The plan has to be committed on the base
branch. If anything fails, nothing is left behind.""",
        arguments=(PLAN,),
        options=(
            Option(
                "--base",
                "BRANCH",
                "start from it (default: the plan's Target branch, else the main worktree's)",
            ),
            Option("--new", "", "make one, also if another is free"),
            Option("--commit-plan", "", "commit the plan first, that file alone"),
            Option("--claim", "", "also claim a step from it; takes the options below"),
            Option("--step", "ANCHOR", "with --claim: only this step", kind="step"),
            LEASE,
            Option("--wait", "SECONDS", "with --claim: wait so long for a step", kind="seconds"),
            Option(
                "--holder-pid",
                "PID",
                "with --claim: the process that will do the work",
                kind="number",
            ),
            Option("--request-id", "ID", "the same id again returns the same worktree and claim"),
            Option("--max-bytes", "N", "accept plan files up to N bytes", kind="number"),
            WORKTREE,
        ),
        examples=(
            ("tugcode worktree create parser", "a place to work in"),
            ("tugcode worktree create parser --claim --json", "and the first step"),
            ("tugcode worktree create parser --base develop --new", "another, from develop"),
        ),
    ),
    Command(
        "worktree list",
        "worktree",
        "list the worktrees of plans, and branches that have none",
        description="""\
Each with its branch, its base and how far they have parted, whether it is clean, the steps
it holds and for how long it is reserved. Changes nothing.""",
        options=(WORKTREE,),
        examples=(("tugcode worktree list", "where work is going on"),),
    ),
    Command(
        "worktree remove",
        "worktree",
        "remove a worktree and its branch",
        description="""\
Refused while it holds a live claim, uncommitted or untracked files, or commits that are not
on its base branch (merged, squashed or rebased). With --force its claims are released, and
its files and commits are saved first under the ref that the answer names.""",
        arguments=(
            Argument("name", "the worktree: its path, its directory's name, or its branch"),
        ),
        options=(
            Option("--force", "", "save its work under a salvage ref, then remove it"),
            WORKTREE,
        ),
        examples=(
            ("tugcode worktree remove tugplan__parser-20260223", "it is merged"),
            ("tugcode worktree remove tugplan/parser-20260223", "the same, by its branch"),
        ),
    ),
    Command(
        "worktree cleanup",
        "worktree",
        "remove the worktrees and branches whose work has landed",
        description="""\
Only what is proven to be on the base branch, by its commits or by their content, is removed;
for each other one it says what is in the way.""",
        options=(Option("--dry-run", "", "only say what would be removed"), WORKTREE),
        examples=(
            ("tugcode worktree cleanup --dry-run", "what could go"),
            ("tugcode worktree cleanup", "after a merge"),
        ),
    ),
    Command(
        "worktree sync",
        "worktree",
        "merge the commits that your step depends on",
        description="""\
Brings the commits of dependencies that were done in other worktrees (`missing_commits` of
state claim) into the branch of this one: all of them, or none if one is in conflict.""",
        arguments=(ANY_PLAN,),
        options=(WORKTREE,),
        examples=(("tugcode worktree sync parser", "after claim listed missing commits"),),
    ),
)
