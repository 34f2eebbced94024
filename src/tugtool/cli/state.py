"""The commands of a worker: claim, start, heartbeat, update, artifact, complete."""

from __future__ import annotations

import sys

from tugtool import errors, state
from tugtool.cli import output
from tugtool.cli.output import Answer, answer, clean
from tugtool.cli.parse import (
    ANY_PLAN,
    ATTEMPT,
    LEASE,
    PLAN,
    REASON,
    STEP,
    WORKTREE,
    Call,
    Command,
    Option,
)
from tugtool.errors import listing, plan_argument
from tugtool.system import files, os
from tugtool.system.text import many
from tugtool.workflow import workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tugtool.schemas import StateClaim


#: The most bytes of a note: more than any agent writes.
_MOST_CONTENT = 1 << 24


def state_claim(call: Call) -> Answer:
    """Claim the next step; --wait waits for one."""
    pid = holder_pid(call)
    space = call.workspace()
    plan = space.plan(call.text("plan"))
    data, issues = workspace.claim(space, plan, **claim_terms(call), holder_pid=pid)
    if data["claimed"]:
        issues = [*issues, *workspace.main_worktree_warning(space)]
    # This may be the run's last command: back up what the last backup has not covered.
    after = None if data["claimed"] else lambda: space.back_up(pending=True)
    return answer(data, lambda: claim_text(data), issues, after=after)


def holder_pid(call: Call) -> int | None:
    """The process that holds the claim; it must be running."""
    pid = call.number("holder_pid")
    if pid is not None:
        from tugtool.system import process

        if process.start_time(pid) is None:
            raise errors.Usage(f"--holder-pid: there is no process {pid}", command="state claim")
    return pid


def claim_terms(call: Call) -> dict[str, Any]:
    """The terms of the claim that the call asks for."""
    return {
        "step": call.anchor() or None,
        "lease_seconds": call.seconds("lease_duration"),
        "wait_seconds": call.seconds("wait") or 0,
        "force": call.flag("force"),
        "also": call.flag("also"),
        "request_id": call.text("request_id"),
    }


def claim_text(data: StateClaim) -> str:
    """The result of a claim in words."""
    if data["claimed"]:
        before = data["previous_attempt"]
        own = before is not None and before["worktree"] == data["worktree"]
        verb = "claimed again" if own else "took over" if data["reclaimed"] else "claimed"
        lines = [
            f"{verb} {data['anchor']}: {data['step_title']} "
            f"(attempt {data['attempt']}, until {data['lease_expires_at']})"
        ]
        return output.lines(lines + claim_notes(data))
    words = {
        "paused": "the plan is paused",
        "all_completed": "every step is completed",
        "no_ready_steps": "no step is ready",
    }
    left = data["total_remaining"]
    line = f"nothing to claim: {words[data['reason']]}; {left} remain{'s' * (left == 1)}"
    parked = data["parked_steps"]
    if parked:
        look = f"tugcode review {plan_argument(data['plan_path'])}"
        line += f"; parked: {listing(parked)} ({look})"
    line += "".join(f"; {each}" for each in _unpublished(data))
    return clean(line) + "\n"


def _unpublished(data: StateClaim) -> list[str]:
    if "unpublished_steps" not in data:
        return []
    from tugtool.workflow import sentences  # Only with a remote.

    return sentences.unpublished(data)


def claim_notes(data: StateClaim) -> list[str]:
    """Why a person reopened it, missing commits of dependencies, and what the last attempt left."""
    lines = []
    if data["previous_attempt"]:
        from tugtool.cli.draw.tables import reopening

        lines += [f"it was {each}" for each in reopening(data["previous_attempt"])]
    if data["missing_commits"]:
        steps = listing([each["step_anchor"] for each in data["missing_commits"]])
        lines += [f"it depends on commits that this branch lacks, of {steps}; to bring them in:"]
        lines += [f"  tugcode worktree sync {plan_argument(data['plan_path'])}"]
    if recover := recovery_commands(data):
        lines += ["what the last attempt left, to go on with:", *(f"  {each}" for each in recover)]
    return lines


def recovery_commands(data: StateClaim) -> list[str]:
    """The commands that bring back the work of the last attempt."""
    before = data["previous_attempt"]
    return [] if before is None else before["recover"]


def state_start(call: Call) -> Answer:
    """Record that work begins."""
    space, plan, anchor, attempt = call.held_step()
    data = state.start(space.store, plan, anchor, owner=space.owner, attempt=attempt)
    return answer(data, f"started {data['anchor']}")


def state_heartbeat(call: Call) -> Answer:
    """Renew the lease."""
    space, plan, anchor, attempt = call.held_step()
    lease = call.seconds("lease_duration")
    data = state.heartbeat(
        space.store, plan, anchor, owner=space.owner, attempt=attempt, lease_seconds=lease
    )
    return answer(data, f"renewed {data['anchor']} until {data['lease_expires_at']}")


def state_update(call: Call) -> Answer:
    """Set checklist items."""
    from tugtool.cli import checklist_input

    entries, every = checklist_input.asked(call)
    space, plan, anchor, attempt = call.held_step()
    data, unexplained = state.update(
        space.store,
        plan,
        anchor,
        entries,
        owner=space.owner,
        copy=space.copy(plan),
        attempt=attempt,
        every=every,
        complete_remaining=call.flag("complete_remaining"),
        with_substeps=call.flag("with_substeps"),
    )
    issues = checklist_input.warnings(unexplained)
    said = f"updated {many(data['updated'], 'item')} of {data['anchor']}"
    return answer(data, said + checklist_input.left(data), issues)


def state_artifact(call: Call) -> Answer:
    """Leave a note."""
    kind, summary = call.text("kind"), call.text("summary")
    if kind is None or summary is None:
        raise errors.Usage("artifact needs --kind and --summary", command="state artifact")
    from tugtool.system import config, secrets

    space, plan, anchor, attempt = call.held_step()
    # Notes quote what commands printed.
    mask, content = secrets.Mask(config.environment()), _content(call)
    data = state.artifact(
        space.store,
        plan,
        anchor,
        kind=kind,
        summary=mask.text(summary),
        owner=space.owner,
        attempt=attempt,
        content=None if content is None else mask.text(content),
    )
    return answer(data, f"recorded {data['kind']} for {data['anchor']}")


def _content(call: Call) -> str | None:
    """The whole text of a note: from a file, or from standard input (`-`)."""
    given = call.text("content_file")
    if given != "-":
        path = os.path.join(call.cwd, given or "")
        return files.text(path, files.read(path, max_bytes=_MOST_CONTENT)) if given else None
    name = "standard input"
    if call.given is not None:
        return files.text("content", call.given)
    try:
        data = sys.stdin.buffer.read(_MOST_CONTENT + 1) if sys.stdin is not None else b""
    except OSError as error:
        raise errors.Unreadable(name, f"cannot be read: {error.strerror}") from error
    if len(data) > _MOST_CONTENT:
        raise errors.Unreadable(name, f"has more than {_MOST_CONTENT} bytes")
    return files.text(name, data)


def state_complete(call: Call) -> Answer:
    """Record that a step is done."""
    reason = _force_reason(call)
    space, plan, anchor, attempt = call.held_step()
    commit = call.text("commit")
    data = workspace.complete(
        space, plan, anchor, attempt=attempt, commit=commit, force_reason=reason
    )
    again = " already" if data["already_completed"] else ""
    text = f"completed{again} {data['anchor']}; {output.remaining(data['remaining_steps'])}"
    if commit is None:
        return answer(data, text, after=space.back_up)
    from tugtool.workflow.commit import named

    return answer(data, text, named.warnings(space, data, commit), after=space.back_up)


def _force_reason(call: Call) -> str | None:
    force, reason = call.text("force"), call.text("reason")
    if force is None:
        if reason is not None:
            raise errors.Usage("--reason goes with --force", command="state complete")
        return None
    given = [text for text in (force, reason) if text and text.strip()]
    if len(given) != 1:
        raise errors.Usage("--force needs one reason: --reason TEXT", command="state complete")
    return given[0]


def _one(kind: str) -> Option:
    help_ = f"set {kind} N to STATUS; may be given several times"
    return Option(f"--{kind} N STATUS", help_, repeat=True)


def _all(name: str, what: str) -> Option:
    statuses = ("open", "in_progress", "completed", "deferred")
    return Option(f"{name} STATUS", f"set {what} of the step itself", choices=statuses)


COMMANDS = (
    Command(
        "state claim",
        state_claim,
        """\
Returns your own unfinished step first, then the first in the plan that is ready or stale (its
lease has run out, or its process has ended). Nothing to claim is not an error: exit status 0
with `claimed: false` and the reason.""",
        (
            ANY_PLAN,
            Option("--step ANCHOR", "only this step; a refusal says why"),
            Option("--also", "with --step: although you hold another step"),
            LEASE,
            Option("--force", "also take a step under a live lease, when nothing else is left"),
            Option("--wait SECONDS", "wait this long for a step to be ready"),
            Option(
                "--holder-pid PID",
                "the process that will do the work: if it dies, the step is free at once",
            ),
            Option("--request-id ID", "the same id again returns the same claim"),
            WORKTREE,
        ),
        examples="""\
tugcode claim parser --json  # the next step, with its attempt
tugcode claim --wait 600 --holder-pid 4711  # free the step if 4711 dies
tugcode claim parser --step step-3  # this one or none""",
    ),
    Command(
        "state start",
        state_start,
        "Starting a substep starts its step. Starting again is not an error.",
        (PLAN, STEP, ATTEMPT, WORKTREE),
        examples="""\
tugcode start parser step-3 --attempt 1  # with the attempt from claim""",
    ),
    Command(
        "state heartbeat",
        state_heartbeat,
        """\
Every other write of the owner renews the lease too. A substep renews the lease of its step.""",
        (PLAN, STEP, LEASE, ATTEMPT, WORKTREE),
        examples="""\
tugcode heartbeat parser step-3  # the worker is alive
tugcode heartbeat parser step-3 --lease-duration 600  # and from now on 600 s""",
    ),
    Command(
        "state update",
        state_update,
        """\
Statuses are open, in_progress, completed and deferred. One call makes all its changes or none.
--all and --all-KINDS mean the step's own items, with --with-substeps also those of its substeps.
--batch reads a JSON array of objects with kind, ordinal, status and optionally reason and step
(a substep of this step). --complete-remaining then closes every item of the step and its
substeps that is still open; deferred ones stay deferred. Only `state review` completes a
checkpoint that ends in (person) or (manual) (E066); --complete-remaining defers it.""",
        (
            PLAN,
            STEP,
            _one("task"),
            _one("test"),
            _one("checkpoint"),
            Option("--kind KIND", "with --ordinal and --status: one item"),
            Option("--ordinal N", "its number within its kind, from 0", kind="text"),
            Option("--status STATUS", "its new status"),
            _all("--all-tasks", "all tasks"),
            _all("--all-tests", "all tests"),
            _all("--all-checkpoints", "all checkpoints"),
            _all("--all", "all items"),
            Option("--with-substeps", "with --all or --all-KINDS: also the items of substeps"),
            REASON,
            Option("--batch", "read a JSON array from standard input"),
            Option("--complete-remaining", "with --batch: then close what is still open"),
            ATTEMPT,
            WORKTREE,
        ),
        examples="""\
tugcode update parser step-3 --task 0 completed  # one task is done
tugcode update parser step-3 --checkpoint 1 deferred --reason "needs eyes"\
  # for a person to look at
tugcode update parser step-3 --batch --complete-remaining\
  # entries on standard input, the rest is done""",
    ),
    Command(
        "state artifact",
        state_artifact,
        """\
Kinds: architect_strategy, reviewer_verdict, auditor_summary, verification, recovery,
escalation, note. The summary is cut at 500 characters; the content is not cut.""",
        (
            PLAN,
            STEP,
            Option("--kind KIND", "the kind of the note"),
            Option("--summary TEXT", "the note in short"),
            Option("--content-file FILE", "the whole text, from a file; `-`: from standard input"),
            ATTEMPT,
            WORKTREE,
        ),
        examples="""\
tugcode artifact parser step-3 --kind note --summary "uses the old lexer"  # a breadcrumb""",
    ),
    Command(
        "state complete",
        state_complete,
        """\
Refuses while an item of the step or of its substeps is open, and lists the open items.
Deferred items do not matter. Completing again is not an error.""",
        (
            PLAN,
            STEP,
            Option("--commit HASH", "the commit that holds the work"),
            Option(
                "--force REASON",
                "close open items, for this reason, which is always shown",
                kind="maybe",
            ),
            Option("--reason TEXT", "the reason for --force"),
            ATTEMPT,
            WORKTREE,
        ),
        examples="""\
tugcode complete parser step-3 --commit 1a2b3c4  # the step is done with this commit""",
    ),
)
