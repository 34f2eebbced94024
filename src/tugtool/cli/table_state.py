"""The commands about a plan's execution."""

from __future__ import annotations

from tugtool.cli.grammar import Argument, Command, Option

_PLAN = Argument("plan", "the plan: a path, a file name, a slug, or its beginning", kind="plan")
_ANY_PLAN = Argument(
    "plan", "the plan; may be left out where exactly one is active", kind="plan", optional=True
)
_STEP = Argument("step", "the anchor of a step or substep, with or without #", kind="step")
_WORKTREE = Option(
    "--worktree",
    "PATH",
    "who you are (default: the worktree that contains the current directory)",
    kind="directory",
)
_ATTEMPT = Option(
    "--attempt",
    "N",
    "the attempt that claim returned; refused if it is no longer the current one",
    kind="number",
)
_LEASE = Option(
    "--lease-duration",
    "SECONDS",
    "how long the claim lasts without a sign of life (default: state.lease_seconds)",
    kind="seconds",
)
_REASON = Option("--reason", "TEXT", "why; kept and shown")


def _one(kind: str) -> Option:
    help_ = f"set {kind} N to STATUS; may be given several times"
    return Option(f"--{kind}", "N STATUS", help_, repeat=True)


def _all(name: str, what: str) -> Option:
    statuses = ("open", "in_progress", "completed", "deferred")
    return Option(name, "STATUS", f"set {what} of the step itself", choices=statuses)


COMMANDS = (
    Command(
        "state init",
        "state_admin",
        "record a plan, so that it can be carried out",
        description="""\
Checks the plan at the level plan.validation_level and records its steps, dependencies and
items. Running it again changes nothing; if the file has changed since, it says so.""",
        arguments=(_PLAN,),
        options=(
            Option("--max-bytes", "N", "accept plan files up to N bytes", kind="number"),
            _WORKTREE,
        ),
        examples=(
            ("tugcode state init parser", "record the plan"),
            ("tugcode state init parser --json", "for an orchestrator"),
        ),
    ),
    Command(
        "state claim",
        "state",
        "get the next step to work on, exactly once",
        description="""\
Your own unfinished step first, then the first in the plan that is ready, or whose lease has
run out, or whose holder is provably gone. Nothing to claim is no error: exit status 0 with
`claimed: false` and the reason.""",
        arguments=(_ANY_PLAN,),
        options=(
            Option("--step", "ANCHOR", "only this step; a refusal says why", kind="step"),
            _LEASE,
            Option("--force", "", "also take a step under a live lease, when nothing else is left"),
            Option("--wait", "SECONDS", "wait so long for something to be ready", kind="seconds"),
            Option(
                "--holder-pid",
                "PID",
                "the process that will do the work: if it dies, the step is free at once",
                kind="number",
            ),
            Option("--request-id", "ID", "the same id again returns the same claim"),
            _WORKTREE,
        ),
        examples=(
            ("tugcode state claim parser --json", "the next step, with its attempt"),
            (
                "tugcode state claim --wait 600 --holder-pid 4711",
                "free the step if 4711 dies",
            ),
            ("tugcode state claim parser --step step-3", "this one or none"),
        ),
    ),
    Command(
        "state start",
        "state",
        "say that work on a step begins",
        description="Starting a substep starts its step. Starting again is no error.",
        arguments=(_PLAN, _STEP),
        options=(_ATTEMPT, _WORKTREE),
        examples=(
            ("tugcode state start parser step-3 --attempt 1", "with the attempt from claim"),
        ),
    ),
    Command(
        "state heartbeat",
        "state",
        "renew the lease on a step",
        description="""\
Every other write of the owner renews it too. Works on a substep as on its step.""",
        arguments=(_PLAN, _STEP),
        options=(_LEASE, _ATTEMPT, _WORKTREE),
        examples=(
            ("tugcode state heartbeat parser step-3", "still here"),
            ("tugcode state heartbeat parser step-3 --lease-duration 600", "and from now on 600 s"),
        ),
    ),
    Command(
        "state update",
        "state",
        "set checklist items of a step",
        description="""\
Statuses are open, in_progress, completed and deferred. All changes of one call happen, or
none. --batch reads a JSON array of objects with kind, ordinal, status and, if you like,
reason and step (a substep of this step). --complete-remaining then closes every item of the
step and its substeps that is still open; deferred ones stay deferred.""",
        arguments=(_PLAN, _STEP),
        options=(
            _one("task"),
            _one("test"),
            _one("checkpoint"),
            Option("--kind", "KIND", "with --ordinal and --status: one item"),
            Option("--ordinal", "N", "which of its kind, from 0"),
            Option("--status", "STATUS", "what it becomes"),
            _all("--all-tasks", "all tasks"),
            _all("--all-tests", "all tests"),
            _all("--all-checkpoints", "all checkpoints"),
            _all("--all", "all items"),
            _REASON,
            Option("--batch", "", "read a JSON array from standard input"),
            Option("--complete-remaining", "", "with --batch: then close what is still open"),
            _ATTEMPT,
            _WORKTREE,
        ),
        examples=(
            ("tugcode state update parser step-3 --task 0 completed", "one task is done"),
            (
                'tugcode state update parser step-3 --checkpoint 1 deferred --reason "needs eyes"',
                "for a person to look at",
            ),
            (
                "tugcode state update parser step-3 --batch --complete-remaining",
                "entries on standard input, the rest is done",
            ),
        ),
    ),
    Command(
        "state artifact",
        "state",
        "leave a note about a step for whoever comes after",
        description="""\
Kinds: architect_strategy, reviewer_verdict, auditor_summary, verification, recovery,
escalation, note. The summary is cut at 500 characters; the content is kept whole.""",
        arguments=(_PLAN, _STEP),
        options=(
            Option("--kind", "KIND", "what kind of note"),
            Option("--summary", "TEXT", "what it says, in short"),
            Option("--content-file", "FILE", "the whole text, from a file", kind="file"),
            _ATTEMPT,
            _WORKTREE,
        ),
        examples=(
            (
                'tugcode state artifact parser step-3 --kind note --summary "uses the old lexer"',
                "a breadcrumb",
            ),
        ),
    ),
    Command(
        "state complete",
        "state",
        "say that a step is done",
        description="""\
Refused while an item of the step or of its substeps is open; the refusal lists them.
Deferred items do not stand in the way. Completing again is no error.""",
        arguments=(_PLAN, _STEP),
        options=(
            Option("--commit", "HASH", "the commit that holds the work"),
            Option(
                "--force",
                "REASON",
                "close what is open, for this reason; shown for ever",
                kind="maybe",
            ),
            Option("--reason", "TEXT", "the reason for --force"),
            _ATTEMPT,
            _WORKTREE,
        ),
        examples=(
            ("tugcode state complete parser step-3 --commit 1a2b3c4", "done, and here it is"),
        ),
    ),
    Command(
        "state ready",
        "state_admin",
        "list the steps by what can be done with them",
        description="Ready, claimed, expired, blocked, parked, completed. Changes nothing.",
        arguments=(_ANY_PLAN,),
        options=(_WORKTREE,),
        examples=(("tugcode state ready parser", "what could be claimed now"),),
    ),
    Command(
        "state show",
        "state_admin",
        "show how far a plan is",
        description="With --json everything that is recorded: steps, items, attempts, artifacts.",
        arguments=(
            Argument("plan", "the plan; all plans if left out", kind="plan", optional=True),
        ),
        options=(_WORKTREE,),
        examples=(
            ("tugcode state show parser", "one plan"),
            ("tugcode state show --json", "everything there is"),
        ),
    ),
    Command(
        "state release",
        "state_admin",
        "give a claimed step back",
        description="""\
The step is pending again; completed items stay completed, the others are open. With --park
it waits for a person and is not handed out.""",
        arguments=(_PLAN, _STEP),
        options=(
            Option("--force", "", "also if somebody else holds it"),
            Option("--park", "", "let it wait for a person"),
            _REASON,
            _ATTEMPT,
            _WORKTREE,
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
        arguments=(_PLAN, _STEP),
        options=(_WORKTREE,),
        examples=(("tugcode state reset parser step-3", "its worker is gone"),),
    ),
    Command(
        "state reopen",
        "state_admin",
        "send a completed step back to be done again",
        description="""\
For people. Its items are open again. Refused while a step that depends on it is claimed or
completed, unless forced.""",
        arguments=(_PLAN, _STEP),
        options=(
            _REASON,
            Option("--force", "", "also if others were built on it"),
            _WORKTREE,
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
        arguments=(_ANY_PLAN,),
        options=(_WORKTREE,),
        examples=(("tugcode state pause parser", "hold on"),),
    ),
    Command(
        "state resume",
        "state_admin",
        "let steps be claimed again",
        arguments=(_ANY_PLAN,),
        options=(_WORKTREE,),
        examples=(("tugcode state resume parser", "go on"),),
    ),
)
