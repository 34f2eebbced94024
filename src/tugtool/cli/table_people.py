"""The commands with which people set a plan going, steer it, and keep its record."""

from __future__ import annotations

from tugtool.cli.grammar import Command, Option
from tugtool.cli.table_state import ANY_PLAN, ATTEMPT, PLAN, REASON, STEP, WORKTREE

COMMANDS = (
    Command(
        "state init",
        "state_admin",
        "record a plan, so that it can be carried out",
        description="""\
Checks the plan at the level plan.validation_level and records its steps, dependencies and
items. Running it again changes nothing; if the file has changed since, it says so.""",
        arguments=(PLAN,),
        options=(
            Option("--max-bytes", "N", "accept plan files up to N bytes", kind="number"),
            WORKTREE,
        ),
        examples=(
            ("tugcode state init parser", "record the plan"),
            ("tugcode state init parser --json", "for an orchestrator"),
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
The copy is checked first. What lies in the database's place is moved away, never opened and
never deleted. Every claim ends, because nobody knows what was claimed since the backup. The
answer says what is missing.""",
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
)
