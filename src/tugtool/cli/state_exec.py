"""`state exec`: a step for a command, and the claim tended while it runs."""

from __future__ import annotations

import os

from tugtool import child, config, state
from tugtool.cli import output
from tugtool.cli.foreground import Foreground
from tugtool.cli.output import Answer, clean, mention
from tugtool.cli.place import Place, tell
from tugtool.cli.state import claim_text, claimed, lacking
from tugtool.cli.tending import BUSY_SECONDS, tend
from tugtool.errors import CannotRun, TugError
from tugtool.keeping import Keeper
from tugtool.state_errors import NotOwner, Superseded, WrongStatus
from tugtool.streams import Streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from tugtool.child import Child
    from tugtool.cli.parse import Call

    Data = dict[str, object]


def state_exec(call: Call) -> Answer:
    """Claim a step and run a command under the claim."""
    place = Place(call)
    plan = place.plan()
    words = call.words("cmd")
    if not os.path.isdir(place.worktree):
        reason = f"its directory would be {place.worktree}, which does not exist"
        raise CannotRun(words[0], reason=reason, missing=False)
    _refuse_unrunnable(words[0], place.worktree)
    data, issues = claimed(place, plan, os.getpid())
    tell(issues)
    if not data["claimed"]:
        return _nothing(place, data)
    claim = _begun(place, plan, data)
    _mention(data)
    with Foreground() as front:
        try:
            running = child.start(
                words,
                cwd=place.worktree,
                env={**config.environment(), **_variables(place, data)},
                # With --json our standard output holds one document and nothing else.
                streams=Streams(stdout=2 if call.json else None),
                before=front.lend,
            )
        except CannotRun:
            _release(place, claim)
            raise
        front.watch(running)
        with running:
            lost = tend(claim, running, front)
        # Under the same handlers: a signal must not keep the step from being given back.
        return _ended(place, claim, running, _facts(data, running), lost)


def _begun(place: Place, plan: str, data: Data) -> Keeper:
    """The claim, its step started; if an earlier call had made it, it is ours from here on."""
    anchor, attempt = str(data["anchor"]), int(str(data["attempt"]))
    lease = place.call.seconds("lease_duration")
    seconds = lease or place.settings.number("state.lease_seconds")
    store, owner = place.store, place.owner
    if data["replayed"]:
        state.adopt(store, plan, anchor, owner=owner, attempt=attempt, pid=os.getpid())
        state.heartbeat(store, plan, anchor, owner=owner, attempt=attempt, lease_seconds=lease)
    state.start(store, plan, anchor, owner=owner, attempt=attempt)
    opened = place.opened(BUSY_SECONDS)
    return Keeper(opened, plan, anchor, owner=owner, attempt=attempt, lease_seconds=seconds)


def _variables(place: Place, data: Data) -> dict[str, str]:
    return {
        "TUGCODE_PLAN": str(data["plan_path"]),
        "TUGCODE_STEP": str(data["anchor"]),
        "TUGCODE_ATTEMPT": str(data["attempt"]),
        "TUGCODE_WORKTREE": place.worktree,
    }


def _facts(data: Data, running: Child) -> Data:
    names = "plan_path step_anchor anchor step_title worktree attempt lease_expires_at"
    kept = (*names.split(), "missing_commits", "total_remaining")
    facts = {name: data[name] for name in kept}
    facts["recover"] = _recover(data)
    return {"ran": True, **facts, "exit_status": running.status, "signal": running.killed_by}


def _nothing(place: Place, data: Data) -> Answer:
    """The command is not run; whoever asked for one step did not get what they asked for."""
    text = claim_text(data)

    def say() -> str:
        # Standard output is the command's.
        mention(f"tugcode: {text}")
        return ""

    kept = ("plan_path", "reason", "all_completed", "total_remaining", "parked_steps")
    facts = {"ran": False, **{name: data[name] for name in kept}}
    status = 1 if place.call.text("step") else 0
    return place.backed_up(Answer(facts, say, status=status), pending=True)


def _mention(data: Data) -> None:
    """What the command should know first: commits that it lacks, work that others left."""
    lines = lacking(data)
    if recover := _recover(data):
        lines += ["what the last attempt left, to go on with:", *(f"  {each}" for each in recover)]
    mention("".join(f"tugcode: {clean(line)}\n" for line in lines))


def _recover(data: Data) -> list[str]:
    before = data["previous_attempt"]
    return [str(each) for each in before["recover"]] if isinstance(before, dict) else []


def _refuse_unrunnable(command: str, cwd: str) -> None:
    """Before anything is claimed: a slip of the keyboard is no attempt at a step."""
    if os.sep in command:
        places = [os.path.join(cwd, command)]
    else:
        places = [os.path.join(each, command) for each in os.get_exec_path(config.environment())]
    there = [place for place in places if os.path.isfile(place)]
    if not there:
        raise CannotRun(command, reason="there is no such command", missing=True)
    if not any(os.access(place, os.X_OK) for place in there):
        raise CannotRun(command, reason="it is not executable", missing=False)


def _ended(
    place: Place, claim: Keeper, running: Child, data: Data, lost: TugError | None
) -> Answer:
    """What becomes of the step, and the answer."""
    status, error = running.status or 0, lost
    if lost is None and claim.standing == "held":
        error = _settle(place, claim, status, data)
    if isinstance(error, NotOwner | Superseded):
        claim.standing = "lost"
    data["outcome"] = "kept" if claim.standing == "held" else claim.standing
    refused = error is not None and (claim.standing == "lost" or _completes(place, status))
    answer = Answer(
        data,
        lambda: _say(data, error),
        issues=error.issues() if error else (),
        status=error.exit_status if error and refused else status,
    )
    return place.backed_up(answer) if claim.standing == "completed" else answer


def _completes(place: Place, status: int) -> bool:
    return status == 0 and place.call.flag("complete")


def _settle(place: Place, claim: Keeper, status: int, data: Data) -> TugError | None:
    """A command that failed gives its step back; after one that did not, only the lease counts."""
    try:
        if status:
            state.release(
                place.store, claim.plan, claim.anchor, owner=claim.owner, attempt=claim.attempt
            )
            claim.standing = "released"
            return None
        refused = _completed(place, claim) if _completes(place, status) else None
        if claim.standing == "held":
            now = state.let_go(
                place.store, claim.plan, claim.anchor, owner=claim.owner, attempt=claim.attempt
            )
            data["lease_expires_at"] = now["lease_expires_at"]
        return refused
    except WrongStatus:
        # It ended a moment before the command did; how, the record tells.
        return claim.read()
    except TugError as error:
        return error


def _completed(place: Place, claim: Keeper) -> TugError | None:
    """Complete the step; if that is refused, it stays with the worktree."""
    copy = place.copy(claim.plan)
    try:
        state.complete(
            place.store,
            claim.plan,
            claim.anchor,
            owner=claim.owner,
            attempt=claim.attempt,
            copy=copy,
        )
    except (NotOwner, Superseded, WrongStatus):
        raise
    except TugError as error:
        return error
    claim.standing = "completed"
    return None


def _release(place: Place, claim: Keeper) -> None:
    try:
        state.release(
            place.store, claim.plan, claim.anchor, owner=claim.owner, attempt=claim.attempt
        )
    except TugError as error:
        # We end now, and with us the claim.
        output.complain(error)


def _say(data: Mapping[str, object], error: TugError | None) -> str:
    """Nothing on standard output, which is the command's."""
    if error is not None:
        output.complain(error)
    if data["outcome"] == "released":
        mention(f"tugcode: {clean(str(data['anchor']))} was given back\n")
    return ""
