"""The commands of whoever holds a step, and the words that all state commands share."""

from __future__ import annotations

from tugtool.cli.grammar import Argument, Command, Option

PLAN = Argument("plan", "the plan: a path, a file name, a slug, or its beginning", kind="plan")
ANY_PLAN = Argument(
    "plan", "the plan; may be left out where exactly one is active", kind="plan", optional=True
)
STEP = Argument("step", "the anchor of a step or substep, with or without #", kind="step")
WORKTREE = Option(
    "--worktree",
    "PATH",
    "who you are (default: the worktree that contains the current directory)",
    kind="directory",
)
ATTEMPT = Option(
    "--attempt",
    "N",
    "the attempt that claim returned; refused if it is no longer the current one",
    kind="number",
)
LEASE = Option(
    "--lease-duration",
    "SECONDS",
    "how long the claim lasts without a sign of life (default: state.lease_seconds)",
    kind="seconds",
)
REASON = Option("--reason", "TEXT", "why; kept and shown")


def _one(kind: str) -> Option:
    help_ = f"set {kind} N to STATUS; may be given several times"
    return Option(f"--{kind}", "N STATUS", help_, repeat=True)


def _all(name: str, what: str) -> Option:
    statuses = ("open", "in_progress", "completed", "deferred")
    return Option(name, "STATUS", f"set {what} of the step itself", choices=statuses)


COMMANDS = (
    Command(
        "state claim",
        "state",
        "get the next step to work on, exactly once",
        description="""\
Your own unfinished step first, then the first in the plan that is ready, or whose lease has
run out, or whose holder is provably gone. Nothing to claim is no error: exit status 0 with
`claimed: false` and the reason.""",
        arguments=(ANY_PLAN,),
        options=(
            Option("--step", "ANCHOR", "only this step; a refusal says why", kind="step"),
            LEASE,
            Option("--force", "", "also take a step under a live lease, when nothing else is left"),
            Option("--wait", "SECONDS", "wait so long for something to be ready", kind="seconds"),
            Option(
                "--holder-pid",
                "PID",
                "the process that will do the work: if it dies, the step is free at once",
                kind="number",
            ),
            Option("--request-id", "ID", "the same id again returns the same claim"),
            WORKTREE,
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
        arguments=(PLAN, STEP),
        options=(ATTEMPT, WORKTREE),
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
        arguments=(PLAN, STEP),
        options=(LEASE, ATTEMPT, WORKTREE),
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
        arguments=(PLAN, STEP),
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
            REASON,
            Option("--batch", "", "read a JSON array from standard input"),
            Option("--complete-remaining", "", "with --batch: then close what is still open"),
            ATTEMPT,
            WORKTREE,
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
        arguments=(PLAN, STEP),
        options=(
            Option("--kind", "KIND", "what kind of note"),
            Option("--summary", "TEXT", "what it says, in short"),
            Option(
                "--content-file",
                "FILE",
                "the whole text, from a file; `-`: from standard input",
                kind="file",
            ),
            ATTEMPT,
            WORKTREE,
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
        arguments=(PLAN, STEP),
        options=(
            Option("--commit", "HASH", "the commit that holds the work"),
            Option(
                "--force",
                "REASON",
                "close what is open, for this reason; shown for ever",
                kind="maybe",
            ),
            Option("--reason", "TEXT", "the reason for --force"),
            ATTEMPT,
            WORKTREE,
        ),
        examples=(
            ("tugcode state complete parser step-3 --commit 1a2b3c4", "done, and here it is"),
        ),
    ),
)
