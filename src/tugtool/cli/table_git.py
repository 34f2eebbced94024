"""The commands about worktrees, branches and commits."""

from __future__ import annotations

from tugtool.cli.grammar import Argument, Command, Option
from tugtool.cli.table_state import ANY_PLAN, LEASE, PLAN, WORKTREE

SALVAGE = Argument("ref", "what was saved: its ref, its name, or the beginning of one")

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
state claim) into the branch of this one: all of them, or none if one is in conflict. With
--all what every completed step has committed, so that the whole can be looked at.""",
        arguments=(ANY_PLAN,),
        options=(Option("--all", "", "every completed step, not only dependencies"), WORKTREE),
        examples=(
            ("tugcode worktree sync parser", "after claim listed missing commits"),
            ("tugcode worktree sync parser --all", "all that was done, before an audit"),
        ),
    ),
    Command(
        "worktree salvage list",
        "salvage",
        "list the uncommitted work that was saved",
        description="""\
When a step is taken from a worktree (claimed by another, reset, released by force, or the
worktree is removed by force), what is not committed there is saved under a ref below
refs/tug/salvage/. Lists those refs, the newest first. Changes nothing.""",
        arguments=(Argument("plan", "only what was saved for it", kind="plan", optional=True),),
        options=(WORKTREE,),
        examples=(
            ("tugcode worktree salvage list", "everything that was saved"),
            ("tugcode worktree salvage list parser --json", "of one plan, for a program"),
        ),
    ),
    Command(
        "worktree salvage show",
        "salvage",
        "show what is in saved work",
        description="""\
Whose work it was, which commit it was done on, and every file that it changes, untracked ones
included. Changes nothing. For the exact bytes of a diff, git itself: git diff REF^ REF.""",
        arguments=(SALVAGE,),
        options=(Option("--patch", "", "also print the changes"), WORKTREE),
        examples=(
            ("tugcode worktree salvage show 20260223T120000000Z-step-3-attempt-1", "by its name"),
            ("tugcode worktree salvage show parser/2026 --patch", "by the beginning of it"),
        ),
    ),
    Command(
        "worktree salvage apply",
        "salvage",
        "bring saved work into this worktree, uncommitted",
        description="""\
Merges the saved changes into what lies in the worktree, committed or not, as uncommitted
changes: new, changed and deleted files, modes and symbolic links. All of it, or nothing: on
a conflict the worktree stays as it was, and the files are named. The index and the ref are
not touched. Running it again changes nothing.""",
        arguments=(SALVAGE,),
        options=(WORKTREE,),
        examples=(
            (
                "tugcode worktree salvage apply 20260223T120000000Z-step-3-attempt-1",
                "as previous_attempt of state claim says",
            ),
        ),
    ),
    Command(
        "worktree salvage prune",
        "salvage",
        "drop saved work that has landed, or that you name",
        description="""\
Without names: only what is proven to be on a base branch, with all that it was built on. What
is named goes also if it has not landed; that is for people, and refused where TUGCODE_ATTEMPT
is set. Until git collects its garbage, the commit that the answer names can be had again.""",
        arguments=(
            Argument("ref", "what was saved: its ref, name or beginning", optional=True, many=True),
        ),
        options=(Option("--dry-run", "", "only say what would be dropped"), WORKTREE),
        examples=(
            ("tugcode worktree salvage prune --dry-run", "what has landed"),
            ("tugcode worktree salvage prune", "drop it"),
        ),
    ),
)
