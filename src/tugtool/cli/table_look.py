"""The commands that tell how far a plan is; none of them changes anything."""

from __future__ import annotations

from tugtool.cli.grammar import Argument, Command, Option
from tugtool.cli.table_state import ANY_PLAN, PLAN, STEP, WORKTREE

COMMANDS = (
    Command(
        "state show",
        "state_look",
        "show how far a plan is",
        description="Every step with its checklists; who holds it and for how much longer; what it "
        "waits for. With --json everything that is recorded: steps, items, attempts, artifacts.",
        arguments=(
            Argument(
                "plan", "the plan; all but archived ones if left out", kind="plan", optional=True
            ),
        ),
        options=(
            Option("--summary", "", "bars, and the unfinished items of steps at work; the default"),
            Option("--checklist", "", "every item"),
            Option("--step", "ANCHOR", "only this step, with its substeps and items", kind="step"),
            Option("--watch", "", "keep the picture up to date until q or Ctrl-C"),
            Option("--all", "", "archived plans too"),
            WORKTREE,
        ),
        examples=(
            ("tugcode state show parser", "one plan"),
            ("tugcode state show parser --watch", "live, for as long as you look"),
            ("tugcode state show parser --checklist", "what is done, left, and put off"),
            ("tugcode state show parser --step step-3 --json", "one step, for an agent's context"),
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
    Command(
        "state why",
        "state_history",
        "explain why a step is not ready, who holds it, and what would free it",
        description="""\
In sentences, and as data with --json: who holds the step, since when and until when; what it
waits for, and where that chain ends; that it is parked, paused or completed. Changes nothing.""",
        arguments=(PLAN, STEP),
        options=(WORKTREE,),
        examples=(
            ("tugcode state why parser step-3", "why can I not have it?"),
            ("tugcode state why parser step-3 --json", "as data"),
        ),
    ),
    Command(
        "state log",
        "state_history",
        "tell what happened, oldest first",
        description="""\
One line for each change. --since takes a time in UTC as it is printed, its beginning, or an
age: 90s, 30m, 2h, 3d. With --follow it goes on as things happen, until it is stopped; with
--json that is one document per line. The log of a step is also that of its substeps.""",
        arguments=(
            Argument("plan", "the plan; all plans if left out", kind="plan", optional=True),
        ),
        options=(
            Option("--step", "ANCHOR", "only what happened to this step", kind="step"),
            Option("--since", "TIME", "only what happened since then"),
            Option("--limit", "N", "only the last N of them", kind="number"),
            Option("--follow", "", "go on with what happens from now on"),
            WORKTREE,
        ),
        examples=(
            ("tugcode state log parser", "the whole story"),
            ("tugcode state log parser --step step-3 --since 2h", "of one step, lately"),
            ("tugcode state log --follow --limit 10", "everything, as it happens"),
        ),
    ),
    Command(
        "state stats",
        "state_history",
        "count and time what happened to each step",
        description="""\
Waited: ready, but nobody held it; being parked or paused is waiting, being blocked is not.
Worked: from claim to end; of a holder that was lost, until its last sign of life.""",
        arguments=(
            Argument("plan", "the plan; all plans if left out", kind="plan", optional=True),
        ),
        options=(Option("--all", "", "archived plans too"), WORKTREE),
        examples=(
            ("tugcode state stats parser", "where did the time go?"),
            ("tugcode state stats --json", "all plans, in seconds"),
        ),
    ),
    Command(
        "state diff",
        "state_revise",
        "compare the plan file with what was agreed",
        description="""\
The text that was recorded against the file that you work from: your worktree's copy, or else
the main one's. First what the difference means for steps, items and claims, then the lines.
Changes nothing. CRLF counts as LF.""",
        arguments=(ANY_PLAN,),
        options=(
            Option("--exit-code", "", "exit status 1 if they differ"),
            Option("--max-bytes", "N", "accept plan files up to N bytes", kind="number"),
            WORKTREE,
        ),
        examples=(("tugcode state diff parser", "what has been edited since"),),
    ),
)
