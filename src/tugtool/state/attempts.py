"""The traces of attempts: notes, questions, failures, usage, and refs of uncommitted work."""

from __future__ import annotations

from tugtool.errors.state import InvalidEntry
from tugtool.state import record
from tugtool.store import sql
from tugtool.store.owners import on_other_machine
from tugtool.store.sql import git as sql_git
from tugtool.store.sql import views as sql_views
from tugtool.system import process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tugtool import schemas
    from tugtool.store import Row, Store, Transaction


#: A limit, so that no sum of reported numbers is too large for a column.
MOST = 1 << 53


#: The field of an escalation's content with the attempt whose worker waits for the answer.
ASKED = "asked_in_attempt"


class Note:
    """A new artifact: its kind, its summary and its whole text."""

    __slots__ = ("content", "kind", "summary")

    def __init__(self, kind: str, summary: str, content: str | None = None) -> None:
        from tugtool.state.checklists import ARTIFACT_KINDS  # A claim need not load it.

        if kind not in ARTIFACT_KINDS:
            raise InvalidEntry(f"there is no kind {kind!r:.60}", command="artifact")
        self.kind, self.summary, self.content = kind, summary, content


def report(
    store: Store,
    plan: str,
    anchor: str,
    *,
    owner: str,
    attempt: int,
    role: str,
    tokens: int | None = None,
    cost_microdollars: int | None = None,
    note: Note | None = None,
) -> dict[str, object]:
    """Add an agent's usage, store its note, and renew the lease.

    The step may be completed already: the auditor of the whole plan reports there.
    """
    from tugtool.state import checklists

    with store.write(plan) as tx:
        top = checklists.may_note(tx, anchor, owner, attempt)
        used: dict[str, Any] = {"tokens": tokens, "cost_microdollars": cost_microdollars}
        number = top["attempt"]
        key = {"anchor": top["anchor"], "number": number}
        # A step that only git proves has no attempt.
        before = tx.first(sql.ATTEMPT, **key) or dict.fromkeys(used)
        now = {name: _sum(before[name], more) for name, more in used.items()}
        tx.run(sql_git.SET_USAGE, **key, **now)
        by = {"actor": owner, "attempt": number}
        record.note(tx, "agent", anchor=anchor, **by, role=role, **used)
        if note is not None:
            content = note.content and record.storable(note.content)
            checklists.leave_artifact(tx, anchor, note.kind, note.summary, content, **by)
    return {"plan_path": plan, **record.names(anchor), "attempt": number, "role": role, **now}


def begin_role(
    store: Store, plan: str, anchor: str, *, owner: str, attempt: int, role: str
) -> None:
    """Record which role's agent begins to work on the step; `report` ends that."""
    with store.write(plan) as tx:
        _, top = record.held(tx, anchor, owner=owner, attempt=attempt)
        tx.run(sql_git.SET_ROLE, anchor=top["anchor"], number=top["attempt"], role=role)
        record.renew(tx, top)
        record.note(tx, "role", anchor=anchor, actor=owner, attempt=attempt, role=role)


def note_run(store: Store, plan: str, event: str, **facts: Any) -> None:
    """Record an event of a whole run: why it waited, or why it ended."""
    with store.write(plan) as tx:
        record.plan_row(tx)
        record.note(tx, "run", event=event, **facts)


def note_retry(
    store: Store, plan: str, anchor: str, *, owner: str, attempt: int, role: str, reason: str
) -> None:
    """Record that an agent failed within an attempt and is tried again."""
    with store.write(plan) as tx:
        how = {"role": role, "reason": record.storable(reason)}
        record.note(tx, "agent_retry", anchor=anchor, actor=owner, attempt=attempt, **how)


def runs(tx: Transaction, plan: str) -> dict[str, Any]:
    """Return how the last run of a plan ended or died, and since when another process runs one."""
    ended, last, since, unknown = [], None, None, False
    for row in tx.all(sql_views.LATE_RUNS, plan=plan):
        import json  # Most plans have no run, and a claim need not load it.

        detail = json.loads(row["detail"])
        worker = detail.get("process")
        if detail["event"] == "finished":
            ended.append(worker)
            how = {"status": detail["status"], "reason": detail.get("reason")}
            last = last or {"ended_at": row["at"], **how}
        elif detail["event"] == "started" and worker not in ended:
            since = row["at"] if process.running(worker) else since
            if last is None and not unknown and process.is_gone(worker):
                last = {"ended_at": _last_seen(tx, plan, worker, row["at"]), **_DIED}
            # The process of another machine may still run.
            unknown = unknown or last is None
    return {"last_run": last, "run_since": since}


def outside(store: Store, plan: str) -> list[str]:
    """Return what changed outside of the worktrees while agents of a plan ran, before its merge."""
    with store.read(plan) as tx:
        return changed_outside(tx, record.plan_row(tx))


def changed_outside(tx: Transaction, row: Row) -> list[str]:
    """Do the same in an open transaction."""
    which = {"plan": row["plan_path"], "what": "%changed_outside%"}
    found = [] if row["merged_commit"] else tx.all(sql_views.CHANGED_OUTSIDE, **which)
    if not found:
        return []
    import json

    from tugtool.store.sql import publication

    # An earlier merge has settled what came before it.
    last = tx.first(publication.LAST_MERGE, plan=row["plan_path"])
    since = 0 if last is None else last["seq"]
    late = sorted((each["seq"], each["detail"]) for each in found if each["seq"] > since)
    details = [json.loads(detail) for _, detail in late]
    return [each["reason"] for each in details if each["event"] == "changed_outside"]


_DIED = {"status": "died", "reason": "its process is gone"}


def _last_seen(tx: Transaction, plan: str, worker: Any, since: str) -> str:
    """Return the last sign of life of a run that began at `since`."""
    which = {"pid": worker["holder_pid"], "since": since}
    return str(tx.value(sql_views.LAST_SEEN, plan=plan, **which) or since)


def died(store: Store, plan: str | None) -> list[dict[str, Any]]:
    """Return the active plans, or the one if it is active, whose last run has died."""
    with store.read() as tx:
        active = [row["plan_path"] for row in tx.all(sql.PLANS) if row["status"] == "active"]
        found = [(each, runs(tx, each)) for each in active if plan in (None, each)]
    return [
        {"plan_path": each, "ended_at": how["last_run"]["ended_at"]}
        for each, how in found
        if how["last_run"] and how["last_run"]["status"] == "died" and not how["run_since"]
    ]


def question(tx: Transaction, held: Row, lost: str | None) -> schemas.StateReviewQuestion | None:
    """The question that the worker of a step waits on, if any."""
    plan, anchor, attempt = held["plan_path"], held["anchor"], held["attempt"]
    said = tx.first(sql_views.LAST_WORD, plan=plan, anchor=anchor) if lost is None else None
    if said is None or _asked_in(said) != attempt:
        return None
    return {
        "plan_path": plan,
        "step_anchor": anchor,
        "step_title": held["title"],
        "reason": said["summary"],
        "asked_at": said["recorded_at"],
        "claimed_by": held["claimed_by"],
        "attempt": attempt,
    }


def _asked_in(said: Row) -> object:
    """The attempt in which a worker asked the artifact's question; None if it is not a question."""
    import json

    try:
        content = json.loads(said["content"] or "null")
    except ValueError:
        return None
    return content.get(ASKED) if isinstance(content, dict) else None


def last_failure(tx: Transaction, plan: str, anchor: str) -> schemas.StateWhyLastFailure | None:
    """The last failed attempt at a step, and its reason."""
    row = tx.first(sql_views.LAST_FAILURE, plan=plan, anchor=anchor)
    if row is None:
        return None
    import json

    reason = json.loads(row["detail"])["failed"]
    return {"attempt": row["attempt"], "at": row["at"], "reason": reason}


#: Older refs are listed only by `worktree salvage list`.
MOST_REFS = 20


def left_behind(tx: Transaction, anchor: str, attempt: Row) -> schemas.StateClaimPreviousAttempt:
    """Return the record of the last attempt; facts that only git has are None."""
    members = [anchor, *record.substeps(tx, anchor)]
    saved = tx.all(sql_git.SALVAGES, anchor=anchor)
    return {
        "number": attempt["number"],
        "worktree": attempt["worktree"],
        "outcome": attempt["outcome"],
        "claimed_at": attempt["claimed_at"],
        "ended_at": attempt["ended_at"],
        "reopened": reopened(tx, anchor),
        "branch": None,
        "commits_ahead": None,
        "salvage_ref": attempt["salvage_ref"],
        # Later workers may not have used it.
        "salvage_refs": [row["salvage_ref"] for row in saved[:MOST_REFS]],
        "recover": [],
        "completed_items": [
            {"step_anchor": member, "kind": item["kind"], "ordinal": item["ordinal"]}
            for member in members
            for item in tx.all(sql.ITEMS, anchor=member)
            if item["status"] == "completed"
        ],
        "artifacts": [
            {
                "step_anchor": member,
                "artifact_id": row["id"],
                "kind": row["kind"],
                "summary": row["summary"],
            }
            for member in members
            for row in tx.all(sql.ARTIFACTS, anchor=member)
        ],
    }


def reopened(tx: Transaction, anchor: str) -> schemas.StateWhyReopened | None:
    """Return when a step was last sent back, by which person and for what reason."""
    event = tx.first(sql_views.LAST_REOPENED, anchor=anchor)
    if event is None:
        return None
    return {"at": event["at"], "by": event["actor"], "reason": _detail(event)["reason"]}


def taken_back(tx: Transaction, step: Row) -> schemas.StateWhyReopened | None:
    """Return who took the step back since its last claim, when and why; None without a reason."""
    event = tx.first(sql_views.LAST_RESET, anchor=step["anchor"], number=step["attempt"])
    if event is None or "reason" not in _detail(event):
        return None
    return {"at": event["at"], "by": event["actor"], "reason": _detail(event)["reason"]}


def pause(tx: Transaction, plan: Row) -> dict[str, str | None]:
    """Return who paused the plan and why; nothing if it is not paused."""
    event = None
    if plan["paused_at"] is not None:
        event = tx.first(sql_views.LAST_PAUSE, plan=plan["plan_path"])
    if event is None:
        return {"paused_by": None, "paused_reason": None}
    return {"paused_by": event["actor"], "paused_reason": _detail(event).get("reason")}


def _detail(event: Row) -> Any:
    import json

    return json.loads(event["detail"])


def failed_checkpoints(tx: Transaction, plan: str, anchor: str) -> list[Any]:
    """Return the checkpoints of a step and its substeps whose last run failed."""
    from tugtool.state import completion

    below = tx.all(sql.SUBSTEPS, plan=plan, anchor=anchor)
    members = [anchor, *(row["anchor"] for row in below)]
    failed = []
    for item in (row for each in members for row in tx.all(sql.ITEMS, plan=plan, anchor=each)):
        evidence = completion.read_evidence(item["evidence"])
        if evidence is not None and evidence["commands"] and not evidence["passed"]:
            ran = {name: evidence["commands"][-1][name] for name in ("command", "output_tail")}
            failed.append({**record.columns(item, "step_anchor kind ordinal text"), **ran})
    return failed


def spent_tokens(store: Store, plan: str) -> int:
    """Return the plan's tokens so far, as reported by agents."""
    with store.read(plan) as tx:
        return int(tx.value(sql_git.SPENT_TOKENS))


def spent_microdollars(store: Store, plan: str) -> int:
    """Return the plan's cost so far, as reported by agents."""
    with store.read(plan) as tx:
        return int(tx.value(sql_git.SPENT_MICRODOLLARS))


def _sum(before: int | None, more: int | None) -> int | None:
    """Add two numbers; None if no agent reported any, which differs from 0."""
    return before if more is None else min((before or 0) + more, MOST)


def list_unsaved(store: Store, plan: str | None = None) -> list[Row]:
    """Return attempts with unsaved work here: oldest first, or newest first of one plan."""
    with store.read(plan) as tx:
        every = tx.all(sql_git.EVERY_UNSAVED if plan is None else sql_git.UNSAVED)
    return [row for row in every if not on_other_machine(row["worktree"])]


def salvage_status(store: Store, plan: str, anchor: str, number: int) -> tuple[bool, str | None]:
    """Return whether an attempt's work is unsaved, and the ref of saved work."""
    key = {"anchor": anchor, "number": number}
    with store.read(plan) as tx:
        attempt = tx.first(sql.ATTEMPT, **key)
        waits = tx.first(sql_git.IS_UNSAVED, **key) is not None
        return waits, None if attempt is None else attempt["salvage_ref"]


def is_lost(store: Store, row: Row) -> bool:
    """Return whether another worker took an attempt's step from its worktree."""
    key = {"anchor": row["step_anchor"], "number": row["number"]}
    with store.read(row["plan_path"]) as tx:
        return tx.one(sql.ATTEMPT, **key)["outcome"] not in ("released", "failed")


def is_requested(store: Store, plan: str, request_id: str | None, *, owner: str) -> bool:
    """Return whether a request was answered before with a claim."""
    if request_id is None:
        return False
    which = {"owner": owner, "request_id": record.storable(request_id)}
    with store.read(plan) as tx:
        return tx.first(sql.REQUESTED, **which) is not None


def mark_saved(store: Store, row: Row, ref: str | None) -> None:
    """Record the ref of an attempt's work; None if there was no work."""
    plan, anchor, number = row["plan_path"], row["step_anchor"], row["number"]
    with store.write(plan) as tx:
        if _end_unsaved(tx, row, ref):
            actor = row["worktree"]
            note = {"anchor": anchor, "actor": actor, "attempt": number, "salvage_ref": ref}
            record.note(tx, "salvage", **note)


def close_worktree(store: Store, path: str, ref: str | None) -> None:
    """Record that a worktree is gone, with the ref of its unsaved work, if there was any."""
    with store.read() as tx:
        rows = tx.all(sql_git.UNSAVED_IN, path=path)
    for row in rows:
        with store.write(row["plan_path"]) as tx:
            _end_unsaved(tx, row, ref)


def _end_unsaved(tx: Transaction, row: Row, ref: str | None) -> bool:
    """End the wait for saving; return whether a ref was recorded."""
    key = {"anchor": row["step_anchor"], "number": row["number"]}
    if not tx.run(sql_git.DROP_UNSAVED, **key) or ref is None:
        return False
    return bool(tx.run(sql_git.SET_SALVAGE, **key, salvage_ref=ref))


def set_ref(store: Store, plan: str, anchor: str, number: int, *, ref: str) -> None:
    """Record the ref of an attempt's work."""
    with store.write(plan) as tx:
        tx.run(sql_git.SET_SALVAGE, anchor=anchor, number=number, salvage_ref=ref)


def salvages(
    store: Store, plan: str, anchor: str, *, before: int, owner: str
) -> tuple[list[Row], str | None]:
    """Return the step's saved work, newest first, and the last other worktree that worked on it."""
    with store.read(plan) as tx:
        refs = tx.all(sql_git.SALVAGES, anchor=anchor)
        which = {"anchor": anchor, "number": before, "owner": owner}
        other = tx.first(sql_git.ATTEMPT_ELSEWHERE, **which)
        return refs, None if other is None else other["worktree"]


def refs_from(store: Store, path: str) -> list[str]:
    """Return the refs of work saved from a worktree, newest first."""
    with store.read() as tx:
        return [row["salvage_ref"] for row in tx.all(sql_git.SAVED_FROM, path=path)]


def forget_ref(store: Store, ref: str, *, commit: str, actor: str) -> None:
    """Remove a deleted ref from its attempts."""
    with store.read() as tx:
        rows = tx.all(sql_git.SALVAGED_AS, salvage_ref=ref)
    for row in rows:
        key = {"anchor": row["step_anchor"], "number": row["number"]}
        with store.write(row["plan_path"]) as tx:
            if tx.run(sql_git.SET_SALVAGE, **key, salvage_ref=None) and tx.first(sql.PLAN):
                what = {"anchor": row["step_anchor"], "attempt": row["number"], "actor": actor}
                what |= {"salvage_ref": ref, "commit": commit}
                record.note(tx, "salvage_prune", **what)
