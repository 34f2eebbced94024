"""The commands of whoever holds a step: claim, start, heartbeat, update, artifact, complete."""

from __future__ import annotations

import os
import sys

from tugtool import files, holder, state
from tugtool.cli.output import Answer, clean
from tugtool.cli.place import Place, said
from tugtool.errors import TugError, Unreadable, Usage, listing, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from tugtool.cli.parse import Call

    Data = dict[str, object]

#: Of a note's whole text: more than any agent says.
_MOST_CONTENT = 1 << 24


def state_claim(call: Call) -> Answer:
    """Get the next step, if need be after waiting for it."""
    pid = call.number("holder_pid")
    if pid is not None and holder.start_time(pid) is None:
        raise Usage(f"--holder-pid: there is no process {pid}", command="state claim")
    place = Place(call)
    data, issues = claimed(place, place.plan(), pid)
    answer = said(data, lambda: claim_text(data), issues)
    # Who finds nothing to do may be the last who comes by: what was completed within a minute
    # of the last backup is saved now, or never.
    return answer if data["claimed"] else place.backed_up(answer, pending=True)


def claimed(place: Place, plan: str, pid: int | None) -> tuple[Data, list[Data]]:
    """What a claim as the call asks for it brings, and issues; held by that process."""
    from tugtool.state.claiming import Request

    call = place.call
    request = Request(
        place.owner,
        lease_seconds=call.seconds("lease_duration")
        or place.settings.number("state.lease_seconds"),
        max_attempts=place.settings.number("state.max_attempts"),
        force=call.flag("force"),
        holder_pid=pid,
        request_id=call.text("request_id"),
    )
    step = place.step() or None
    wait = call.seconds("wait") or 0

    def attempt() -> Data:
        return state.claim(place.store, plan, request, copy=place.copy(plan), step=step)

    if not wait:
        data = attempt()
    else:
        from tugtool.cli import waiting

        data = waiting.claim(place.store, attempt, wait)
    return data, _settled(place, plan, data)


def _settled(place: Place, plan: str, data: Data) -> list[Data]:
    """What is left to do after a claim; all of it after the state's transaction.

    Nobody else has to wait for git, and nothing of it can undo the claim.
    """
    if data.get("missing_commits", data) is None:
        from tugtool.worktree import syncing

        held = str(data["anchor"])
        data["missing_commits"] = syncing.seen_missing(place.store, plan, held, at=place.worktree)
    issues = place.saved(plan, data)
    if data.get("previous_attempt") is not None:
        from tugtool import salvaging

        salvaging.trace(place.repo, place.store, data)
    return issues


def claim_text(data: Mapping[str, object]) -> str:
    """What a claim brought, for people."""
    if data["claimed"]:
        before = data["previous_attempt"]
        own = isinstance(before, dict) and before["worktree"] == data["worktree"]
        verb = "claimed again" if own else "took over" if data["reclaimed"] else "claimed"
        lines = [
            f"{verb} {data['anchor']}: {data['step_title']} "
            f"(attempt {data['attempt']}, until {data['lease_expires_at']})"
        ]
        lines += lacking(data)
        if isinstance(before, dict) and before["recover"]:
            lines += ["what the last attempt left, to go on with:"]
            lines += [f"  {command}" for command in before["recover"]]
        return "".join(clean(line) + "\n" for line in lines)
    words = {
        "paused": "the plan is paused",
        "all_completed": "every step is completed",
        "no_ready_steps": "no step is ready",
    }
    left = data["total_remaining"]
    line = f"nothing to claim: {words[str(data['reason'])]}; {left} remain{'s' * (left == 1)}"
    parked = data["parked_steps"]
    if isinstance(parked, list) and parked:
        look = f"tugcode state review {quoted(str(data['plan_path']))}"
        line += f"; parked: {listing(parked)} ({look})"
    return clean(line) + "\n"


def lacking(data: Mapping[str, object]) -> list[str]:
    """What to say of commits that a claimed step depends on, and that the branch lacks."""
    missing = data["missing_commits"]
    if not isinstance(missing, list) or not missing:
        return []
    steps = listing([str(each["step_anchor"]) for each in missing])
    return [
        f"it depends on commits that this branch lacks, of {steps}; to bring them in:",
        f"  tugcode worktree sync {quoted(str(data['plan_path']))}",
    ]


def state_start(call: Call) -> Answer:
    """Say that work begins."""
    place = Place(call)
    plan = place.plan()
    data = state.start(
        place.store, plan, place.step(), owner=place.owner, attempt=place.attempt(plan)
    )
    return said(data, f"started {data['anchor']}")


def state_heartbeat(call: Call) -> Answer:
    """Renew the lease."""
    place = Place(call)
    plan = place.plan()
    data = state.heartbeat(
        place.store,
        plan,
        place.step(),
        owner=place.owner,
        attempt=place.attempt(plan),
        lease_seconds=call.seconds("lease_duration"),
    )
    return said(data, f"renewed {data['anchor']} until {data['lease_expires_at']}")


def state_update(call: Call) -> Answer:
    """Set checklist items."""
    from tugtool.cli import batch

    entries, every = batch.asked(call)
    place = Place(call)
    plan = place.plan()
    data = state.update(
        place.store,
        plan,
        place.step(),
        entries,
        owner=place.owner,
        copy=place.copy(plan),
        attempt=place.attempt(plan),
        every=every,
        complete_remaining=call.flag("complete_remaining"),
    )
    issues = batch.warnings(data.pop("deferred_without_reason"))
    items = "1 item" if data["updated"] == 1 else f"{data['updated']} items"
    return said(data, f"updated {items} of {data['anchor']}", issues)


def state_artifact(call: Call) -> Answer:
    """Leave a note."""
    kind, summary = call.text("kind"), call.text("summary")
    if kind is None or summary is None:
        raise Usage("artifact needs --kind and --summary", command="state artifact")
    place = Place(call)
    plan = place.plan()
    content = _content(call)
    data = state.artifact(
        place.store,
        plan,
        place.step(),
        kind=kind,
        summary=summary,
        owner=place.owner,
        attempt=place.attempt(plan),
        content=content,
    )
    return said(data, f"recorded {data['kind']} for {data['anchor']}")


def _content(call: Call) -> str | None:
    """The whole text of a note: from a file, or from standard input (`-`)."""
    given = call.text("content_file")
    if given != "-":
        path = os.path.join(call.cwd, given or "")
        return files.text(path, files.read(path, max_bytes=_MOST_CONTENT)) if given else None
    name = "standard input"
    try:
        data = sys.stdin.buffer.read(_MOST_CONTENT + 1) if sys.stdin is not None else b""
    except OSError as error:
        raise Unreadable(name, f"cannot be read: {error.strerror}") from error
    if len(data) > _MOST_CONTENT:
        raise Unreadable(name, f"has more than {_MOST_CONTENT} bytes")
    return files.text(name, data)


def state_complete(call: Call) -> Answer:
    """Say that a step is done."""
    reason = _force_reason(call)
    place = Place(call)
    plan = place.plan()
    commit = call.text("commit")
    full = _full_hash(place, commit) if commit is not None else None
    written = _left_intent(place, plan, full)
    data = state.complete(
        place.store,
        plan,
        place.step(),
        owner=place.owner,
        copy=place.copy(plan),
        attempt=place.attempt(plan),
        commit=full,
        unknown_commit=commit if full is None else None,
        intent_at=written,
        force_reason=reason,
    )
    again = " already" if data["already_completed"] else ""
    left = data["remaining_steps"]
    remain = "1 step remains" if left == 1 else f"{left} steps remain"
    text = f"completed{again} {data['anchor']}; {remain}"
    return place.backed_up(said(data, text))


def _force_reason(call: Call) -> str | None:
    force, reason = call.text("force"), call.text("reason")
    if force is None:
        if reason is not None:
            raise Usage("--reason goes with --force", command="state complete")
        return None
    given = [text for text in (force, reason) if text and text.strip()]
    if len(given) != 1:
        raise Usage("--force needs one reason: --reason TEXT", command="state complete")
    return given[0]


def _left_intent(place: Place, plan: str, full: str | None) -> str | None:
    """When it was written down that the commit would be made that this completes, if it was."""
    if place.worktree == place.repo.root:
        return None
    from tugtool.store import sql_commit

    with place.store.read(plan) as tx:
        row = tx.first(sql_commit.COMMIT_INTENT, owner=place.owner)
    if row is None or (row["plan_path"], row["step_anchor"]) != (plan, place.step()):
        return None
    from tugtool import intent
    from tugtool.cli.commit import site

    try:
        ends = intent.ends_with(site(place, plan), row, full)
    except TugError:
        # Git cannot say, or the worktree is gone; the step is done all the same.
        return None
    return str(row["created_at"]) if ends else None


def _full_hash(place: Place, commit: str) -> str | None:
    """The commit's full hash, or None if git does not know it."""
    from tugtool import git
    from tugtool.errors import GitFailed

    top = place.worktree if os.path.isdir(place.worktree) else place.repo.root
    try:
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}")
        return git.run(*words, cwd=top).strip()
    except GitFailed:
        return None
