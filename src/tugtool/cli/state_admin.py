"""state init, migrate, release, reset, reopen, pause, resume, restore."""

from __future__ import annotations

from tugtool import errors, state
from tugtool.cli import output
from tugtool.cli.output import Answer, answer
from tugtool.cli.parse import (
    ANY_PLAN,
    ATTEMPT,
    MAX_BYTES,
    PLAN,
    REASON,
    STEP,
    WORKTREE,
    Call,
    Command,
    Option,
)
from tugtool.errors import plan_argument
from tugtool.system import os
from tugtool.system.text import many
from tugtool.workflow import workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tugtool.schemas import StateRelease, StateReopen, StateReset, StateRestore
    from tugtool.workflow.records import RecordedPlan


#: The next worker is told why the step has to be done again.
NEEDED_REASON = Option("--reason TEXT", "the reason, which the next worker is told; required")
_FORCING = ("force", "reopen_changed", "drop_completed", "drop_claimed", "revert", "dry_run")


def state_init(call: Call) -> Answer:
    """Record a plan."""
    from tugtool.workflow import records

    if any(call.flag(flag) for flag in _FORCING):
        from tugtool.cli import state_revise

        return state_revise.forced(call)
    space, name = call.workspace(), call.text("plan") or ""
    if call.flag("create_database"):
        from tugtool.workflow import shared_record

        shared_record.make_tables(space)
    how: Any = {"max_bytes": call.number("max_bytes"), "own": not call.served}
    done = records.init(space, name, **how)
    after = None if done.data["already_initialized"] else space.back_up
    return Answer(done.data, lambda: _recorded(done), issues=done.issues, after=after)


def _recorded(done: RecordedPlan) -> str:
    data = done.data
    file, steps = str(data["plan_path"]), data["steps_created"] - data["substeps_created"]
    new = f"is recorded: {many(steps, 'step')}"
    what = "was recorded before" if data["already_initialized"] else new
    look = f"; its file has changed since (tugcode diff {plan_argument(file)})"
    changed = look if data["drift"] else ""
    told = [str(each["message"]) for each in done.issues if each["code"] == "W106"]
    lines = [f"{file} {what}{changed}", *told]
    return announced(done) + output.lines(lines)


def announced(done: RecordedPlan) -> str:
    """The notice about a lost database, which comes first."""
    if done.restored is not None:
        return restored_text(done.restored)
    told = [str(each["message"]) for each in done.issues if each["code"] == "W104"]
    return output.lines(told)


def state_migrate(call: Call) -> Answer:
    """Bring the tables in PostgreSQL up to date."""
    from tugtool.workflow import shared_record

    data = shared_record.migrate(call.workspace())
    said = "migrated to" if data["migrated"] else "nothing to do: the tables have"
    return answer(data, f"{said} schema {data['version']}")


def state_release(call: Call) -> Answer:
    """Give a claim back."""
    if call.flag("force") and call.text("worktree") is not None:
        problem = "--force and --worktree exclude each other: force asks for no owner"
        raise errors.Usage(problem, command="state release")
    reason = (call.text("reason") or "").strip() or None
    park = call.flag("park")
    if park and reason is None:
        raise errors.Usage("--park needs --reason TEXT", command="state release")
    space, plan, anchor, attempt = call.held_step()
    force = call.flag("force")
    how: Any = {"force": force, "save": call.flag("save")}
    how |= {"park_reason": reason} if park else {"reason": reason}
    how |= {"actor": space.decider()} if force else {}
    data, issues = workspace.release(space, plan, anchor, attempt=attempt, **how)
    verb = "parked" if park else "released"
    return answer(data, f"{verb} {data['anchor']}{_kept(data)}", issues)


def _kept(data: StateRelease | StateReset) -> str:
    ref = data["salvage_ref"]
    return f"; the work that was not committed is saved as {ref}" if ref else ""


def state_reset(call: Call) -> Answer:
    """Take a step from its holder."""
    space = call.workspace()
    plan, reason = space.plan(call.text("plan")), call.text("reason")
    data, issues = workspace.reset(space, plan, call.anchor(), actor=space.decider(), reason=reason)
    word = "reset" if data["reset"] else "unparked" if data["unparked"] else "nothing to reset:"
    return answer(data, f"{word} {data['anchor']}{_kept(data)}", issues)


def state_reopen(call: Call) -> Answer:
    """Send a completed step back."""
    reason = call.text("reason") or ""
    if not reason.strip():
        raise errors.Usage("reopen needs --reason TEXT", command="state reopen")
    space = call.workspace()
    data = state.reopen(
        space.store,
        space.plan(call.text("plan")),
        call.anchor(),
        reason=reason,
        force=call.flag("force"),
        actor=space.decider(),
    )
    return answer(data, lambda: _reopened(data))


def _reopened(data: StateReopen) -> str:
    lines = [f"reopened {data['anchor']}; the next worker is told the reason"]
    if data["was_commit"]:
        lines += [
            f"its commit {data['was_commit'][:12]} stays on its branch, and is merged with it, "
            "unless it conflicts with what is done instead"
        ]
    if data["dependents"]:
        lines += [f"built on it, and left alone: {errors.listing(data['dependents'])}"]
    return output.lines([*lines, f"next: tugcode implement {plan_argument(data['plan_path'])}"])


def state_pause(call: Call) -> Answer:
    """Stop new claims."""
    space = call.workspace()
    why = {"actor": space.decider(), "reason": call.text("reason")}
    data = state.pause(space.store, space.plan(call.text("plan")), **why)
    return answer(data, f"{data['plan_path']} is paused")


def state_resume(call: Call) -> Answer:
    """Allow claims again."""
    space = call.workspace()
    why = {"actor": space.decider(), "reason": call.text("reason")}
    data = state.resume(space.store, space.plan(call.text("plan")), **why)
    said = "goes on" if data["changed"] else "was not paused"
    return answer(data, f"{data['plan_path']} {said}")


def state_restore(call: Call) -> Answer:
    """Replace the database with a sound copy."""
    from tugtool.workflow import records

    source = call.text("from")
    if source == "":
        raise errors.Usage("--from needs a file", command="state restore")
    space, path = call.workspace(), source and os.path.join(call.cwd, source)
    data, sound = records.restore(space, source=path, dry_run=call.flag("dry_run"))
    return Answer(data, lambda: restored_text(data, sound=sound))


def restored_text(data: StateRestore, *, sound: bool = False) -> str:
    """The result of a restore in words."""
    from tugtool.workflow import records

    plans, lost, ended = data["plans"], data["lost_steps"], data["claims_ended"]
    verb = "restored" if data["restored"] else "would restore"
    lines = [
        f"{verb} the state from {data['source']}, which ends at {data['missing_since']}: "
        f"{many(len(plans), 'plan')}, {many(data['steps_completed'], 'step')} "
        "completed"
    ]
    lines += [f"  {p['plan_path']}: {p['completed_steps']}/{p['total_steps']}" for p in plans]
    lines += [f"  missing: {records.missing(data)}"]
    lines += [f"    {records.completion(row)}" for row in lost]
    lines += [
        f"    git may have it: {records.reconcile_command(plan)}"
        for plan in records.lost_plans(data)
    ]
    verb = "ended" if data["restored"] else "would end"
    lines += [f"  {verb} the claim of {e['step_anchor']} by {e['worktree']}" for e in ended]
    if data["set_aside"] is None:
        refused = "the database is sound, so without --dry-run it is refused; --from FILE insists"
        what = refused if sound else "without --dry-run it is done"
        lines.append(f"  nothing was changed; {what}")
    else:
        lines.append(f"  what was there before is kept in {data['set_aside']}")
    return output.lines(lines)


COMMANDS = (
    Command(
        "state init",
        state_init,
        """\
Checks the plan at the level plan.validation_level and records its steps, dependencies and
items. Running it again changes nothing; if the file has changed since, it says so.

With --force the changed text becomes the agreed text. Steps with the same anchor and the same
items keep everything, also under another title, in another place or with other dependencies (the
items of a claimed step must be in the same order too, because its holder names them by number).
In the other steps, completed and deferred items of the same kind and text keep their state, and
the rest starts over. The answer lists what is lost.

Completed and claimed work is protected: unless an option below says so, nothing completed is
reopened or dropped, and no claimed step is touched.""",
        (
            PLAN,
            Option("--force", "accept the changed text"),
            Option(
                "--reopen-changed",
                "with --force: reopen completed steps whose checklist changed",
            ),
            Option(
                "--drop-completed",
                "with --force: drop completed steps, and completed or deferred items",
            ),
            Option("--drop-claimed", "with --force: end the claims of changed and removed steps"),
            Option("--revert", "with --force: go back to a text that was agreed before"),
            Option("--dry-run", "with --force: change nothing; show the effect"),
            Option("--create-database", "first make the tables of this repository in PostgreSQL"),
            MAX_BYTES,
            WORKTREE,
        ),
        examples="""\
tugcode state init parser  # record the plan
tugcode state init parser --json  # for an orchestrator
tugcode state init parser --force --dry-run  # what a changed text would mean""",
    ),
    Command(
        "state release",
        state_release,
        """\
The step is pending again; completed items stay completed, the others are open. With --park
it waits for a person, and no worker gets it. Your uncommitted files stay in your worktree;
--save also keeps them under a salvage ref, which the next claim of the step names.""",
        (
            PLAN,
            STEP,
            Option("--force", "also if another worker holds it"),
            Option("--park", "make it wait for a person"),
            Option("--save", "save your uncommitted work for the next worker"),
            REASON,
            ATTEMPT,
            WORKTREE,
        ),
        examples="""\
tugcode release parser step-3  # I stop here
tugcode release parser step-3 --save  # and another worktree can go on with my files
tugcode release parser step-3 --force --reason "it hangs"  # of another worker
tugcode release parser step-3 --park --reason "no access"  # a person has to look""",
    ),
    Command(
        "state reset",
        state_reset,
        """\
For people: it works for every holder. Also sets the count of claims without progress to zero.
For a completed step, use `tugcode reopen`.""",
        (PLAN, STEP, REASON, WORKTREE),
        examples="""\
tugcode reset parser step-3  # its worker is stale
tugcode reset parser step-3 --reason "the key is there now"  # `why` and `log` show it""",
    ),
    Command(
        "state reopen",
        state_reopen,
        """\
For people. Its items are open again. Refuses while a step that depends on it is claimed or
completed; --force reopens it anyway.""",
        (PLAN, STEP, NEEDED_REASON, Option("--force", "also if other steps build on it"), WORKTREE),
        examples="""\
tugcode reopen parser step-3 --reason "reverted"  # it has to be done again""",
    ),
    Command(
        "state pause",
        state_pause,
        "Workers may finish the steps that they hold.",
        (ANY_PLAN, REASON, WORKTREE),
        examples="""\
tugcode pause parser  # no new claims
tugcode pause parser --reason "the server is down"  # `status`, `why` and `log` show it""",
    ),
    Command(
        "state resume",
        state_resume,
        takes=(ANY_PLAN, REASON, WORKTREE),
        examples="tugcode resume parser  # claims again",
    ),
    Command(
        "state migrate",
        state_migrate,
        """\
Brings the tables in PostgreSQL to the version that this Tugtool needs, in one transaction under a
lock. The role must own the tables. Afterwards a worker with an older Tugtool is refused (E065). A
state in a file does not need this command: the first write migrates it.""",
        examples="""\
tugcode migrate  # after an update of Tugtool""",
    ),
    Command(
        "state restore",
        state_restore,
        """\
Checks the copy first. The damaged database is moved away and never deleted. A sound database is
not replaced, unless --from names a copy. Every claim ends, because claims after the backup are
unknown. The answer says what is missing.""",
        (
            Option("--from FILE", "restore this copy instead of the backup"),
            Option("--dry-run", "change nothing; show the effect"),
        ),
        examples="""\
tugcode restore --dry-run  # what would be missing
tugcode restore  # the database is lost
tugcode restore --from .tugtool/state.db  # the older copy is the right one""",
    ),
)
