"""The commands with which people set a plan going, steer it, and keep its record."""

from __future__ import annotations

from tugtool.cli.grammar import Argument, Command, Option
from tugtool.cli.table_state import ANY_PLAN, ATTEMPT, PLAN, REASON, STEP, WORKTREE

COMMANDS = (
    Command(
        "state init",
        "state_admin",
        "record a plan, so that it can be carried out",
        description="""\
Checks the plan at the level plan.validation_level and records its steps, dependencies and
items. Running it again changes nothing; if the file has changed since, it says so.

With --force the changed text is what is carried out from then on. What is still in it stays:
steps with the same anchor and the same items keep everything, also under another title, in
another place or with other dependencies (the items of a claimed step must be in the same order
too, because its holder names them by number). In the others, completed and deferred items of
the same kind and text keep their state, and the rest starts over. What is lost is listed.

Work that is finished or under way is protected: unless an option below says so, nothing
completed is reopened or dropped, and no claimed step is touched.""",
        arguments=(PLAN,),
        options=(
            Option("--force", "", "accept a changed text"),
            Option(
                "--reopen-changed",
                "",
                "with --force: completed steps whose checklist changed are to be done again",
            ),
            Option(
                "--drop-completed",
                "",
                "with --force: what is gone may be completed, or have completed or deferred items",
            ),
            Option(
                "--drop-claimed",
                "",
                "with --force: claims of steps that changed or are gone end",
            ),
            Option("--dry-run", "", "with --force: only tell what would happen"),
            Option("--max-bytes", "N", "accept plan files up to N bytes", kind="number"),
            WORKTREE,
        ),
        examples=(
            ("tugcode state init parser", "record the plan"),
            ("tugcode state init parser --json", "for an orchestrator"),
            ("tugcode state init parser --force --dry-run", "what a changed text would mean"),
        ),
    ),
    Command(
        "state release",
        "state_admin",
        "give a claimed step back",
        description="""\
The step is pending again; completed items stay completed, the others are open. With --park
it waits for a person and is not handed out.""",
        arguments=(PLAN, STEP),
        options=(
            Option("--force", "", "also if somebody else holds it"),
            Option("--park", "", "let it wait for a person"),
            REASON,
            ATTEMPT,
            WORKTREE,
        ),
        examples=(
            ("tugcode state release parser step-3", "I stop here"),
            ('tugcode state release parser step-3 --park --reason "no access"', "and nobody else"),
        ),
    ),
    Command(
        "state reset",
        "state_admin",
        "take a step from whoever holds it, or free a parked one",
        description="""\
For people: nobody's ownership is asked for. Also sets the count of claims without progress
to zero. A completed step is not reset but reopened.""",
        arguments=(PLAN, STEP),
        options=(WORKTREE,),
        examples=(("tugcode state reset parser step-3", "its worker is gone"),),
    ),
    Command(
        "state reopen",
        "state_admin",
        "send a completed step back to be done again",
        description="""\
For people. Its items are open again. Refused while a step that depends on it is claimed or
completed, unless forced.""",
        arguments=(PLAN, STEP),
        options=(
            REASON,
            Option("--force", "", "also if others were built on it"),
            WORKTREE,
        ),
        examples=(
            ('tugcode state reopen parser step-3 --reason "reverted"', "it has to be done again"),
        ),
    ),
    Command(
        "state pause",
        "state_admin",
        "let nothing new be claimed",
        description="Holders may finish what they have.",
        arguments=(ANY_PLAN,),
        options=(WORKTREE,),
        examples=(("tugcode state pause parser", "hold on"),),
    ),
    Command(
        "state resume",
        "state_admin",
        "let steps be claimed again",
        arguments=(ANY_PLAN,),
        options=(WORKTREE,),
        examples=(("tugcode state resume parser", "go on"),),
    ),
    Command(
        "state restore",
        "state_restore",
        "put the backup in the place of a lost or damaged database",
        description="""\
The copy is checked first. What lies in the database's place is moved away and never deleted;
it need not be readable, but one that is sound is left alone, unless --from names a copy. Every
claim ends, because nobody knows what was claimed since the backup. The answer says what is
missing.""",
        options=(
            Option("--from", "FILE", "take this copy instead of the backup", kind="file"),
            Option("--dry-run", "", "only say what would happen"),
        ),
        examples=(
            ("tugcode state restore --dry-run", "what would be missing"),
            ("tugcode state restore", "the database is lost"),
            ("tugcode state restore --from .tugtool/state.db", "the older copy is the right one"),
        ),
    ),
    Command(
        "state review",
        "state_review",
        "what waits for a person, and what the person says to it",
        description="""\
Lists deferred items and parked steps, of one plan or of all that are not archived. --accept
makes deferred items completed, with your name; --reject sends them back to be done, and a
completed step with them. With --step alone all deferred items of the step and its substeps
are meant. Both are refused to a worker (TUGCODE_ATTEMPT is set).""",
        arguments=(
            Argument("plan", "the plan; all plans if left out", kind="plan", optional=True),
        ),
        options=(
            Option("--accept", "", "the items are good as they are"),
            Option("--reject", "", "the items have to be done; needs --note"),
            Option("--step", "ANCHOR", "the step or substep that is judged", kind="step"),
            Option("--kind", "KIND", "one item: its kind", choices=("task", "test", "checkpoint")),
            Option("--ordinal", "N", "one item: its number within its kind"),
            Option("--note", "TEXT", "why; kept and shown"),
            WORKTREE,
        ),
        examples=(
            ("tugcode state review", "what waits for me"),
            (
                "tugcode state review parser --accept --step step-3 --kind checkpoint --ordinal 0",
                "I have looked: it is good",
            ),
            (
                'tugcode state review parser --reject --step step-3 --note "too slow"',
                "all that was deferred there has to be done",
            ),
        ),
    ),
    Command(
        "state archive",
        "state_records",
        "put a done or abandoned plan out of the way",
        description="""\
It leaves the views that show all plans, and hands out nothing. Never one with a live claim.""",
        arguments=(ANY_PLAN,),
        options=(Option("--undo", "", "bring it back"), WORKTREE),
        examples=(
            ("tugcode state archive parser", "we are through with it"),
            ("tugcode state archive parser --undo", "or not"),
        ),
    ),
    Command(
        "state prune",
        "state_records",
        "drop the records of plans that are gone",
        description="""\
Plans whose file is on no branch, local or remote-tracking, and in no worktree. Never one with
a live claim. What is dropped is first exported to a file under git's own directory, from
which `state import` takes it back.""",
        options=(
            Option("--done", "", "also plans whose steps are all completed"),
            Option("--dry-run", "", "only say what would be dropped"),
            WORKTREE,
        ),
        examples=(
            ("tugcode state prune --dry-run", "what could go"),
            ("tugcode state prune --done", "tidy up"),
        ),
    ),
    Command(
        "state export",
        "state_records",
        "write the state down as JSON lines",
        description="""\
Everything that is recorded, at one moment: a header, one line per row, and a last line that
says how many. The same with --json. `state import` reads it back.""",
        arguments=(
            Argument("plan", "the plan; all plans if left out", kind="plan", optional=True),
        ),
        options=(
            Option("--output", "FILE", "write to a new file instead", kind="file"),
            WORKTREE,
        ),
        examples=(
            ("tugcode state export --output state.jsonl", "keep everything"),
            ("tugcode state export parser", "one plan, to standard output"),
        ),
    ),
    Command(
        "state import",
        "state_records",
        "take what was exported",
        description="""\
All of it or nothing: a file that is cut off, or has a row that cannot be, is refused with its
line. So is a plan that has a state here already.""",
        arguments=(
            Argument("file", "the export; standard input if left out", kind="file", optional=True),
        ),
        options=(WORKTREE,),
        examples=(("tugcode state import state.jsonl", "bring it back"),),
    ),
    Command(
        "state reconcile",
        "state_reconcile",
        "record as completed what git proves to be done",
        description="""\
Reads the trailers of the commits that the plan's branches and the base branch have and the
plan's base has not, and completes those steps with the commit's hash. Reverted commits do not
count; items still open are closed with the reason `reconciled`, deferred ones stay deferred.
Where the record names another commit it is kept and listed. For after a lost database, or a
crash between a commit and its step.""",
        arguments=(ANY_PLAN,),
        options=(
            Option(
                "--force",
                "",
                "git wins: replace recorded commits, and count work done for another text",
            ),
            Option("--dry-run", "", "change nothing; only list"),
            WORKTREE,
        ),
        examples=(
            ("tugcode state reconcile parser --dry-run", "what would be completed?"),
            ("tugcode state reconcile parser", "complete it"),
        ),
    ),
)
