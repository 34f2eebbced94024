"""The commands of people: init, release, reset, reopen, pause, resume."""

from __future__ import annotations

from tugtool import files, state
from tugtool.cli.output import Answer, clean
from tugtool.cli.place import Place, earlier_work, said
from tugtool.errors import Usage, quoted
from tugtool.plan import catalog, fingerprint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tugtool.cli.parse import Call

    Data = dict[str, object]


_FORCING = ("force", "reopen_changed", "drop_completed", "drop_claimed", "dry_run")


def state_init(call: Call) -> Answer:
    """Record a plan."""
    from tugtool import base
    from tugtool import init as setup
    from tugtool.cli.plan import issues_of
    from tugtool.errors import PlanInvalid
    from tugtool.plan import parser

    if any(call.flag(flag) for flag in _FORCING):
        from tugtool.cli import state_revise

        state_revise.refuse_loose(call)
    place = Place(call)
    file = catalog.resolve(place.repo, call.text("plan") or "", cwd=call.cwd)
    limit = call.number("max_bytes") or place.settings.number("plan.max_bytes")
    data = files.read(file.path, max_bytes=limit, raise_with="--max-bytes N")
    text = files.text(file.path, data)
    parsed = parser.parse(text)
    level = place.settings.word("plan.validation_level")
    issues = issues_of(parsed, file.key, level)
    if any(issue["severity"] == "error" for issue in issues):
        raise PlanInvalid(file.key, diagnostics=issues)
    commit = base.base_commit(place.repo, file.key)
    new: dict[str, Any] = {"text": text, "hash": fingerprint.of(data), "base_commit": commit}
    if not call.flag("dry_run"):
        setup.ignore_state(place.repo)
    if call.flag("force"):
        return state_revise.forced(call, place, file.key, parsed, new=new, issues=issues)
    done = state.init(place.store, file.key, parsed, **new)
    if done["already_initialized"]:
        return _recorded(done, len(parsed.steps), issues)
    issues += earlier_work(place, file.key)
    return place.backed_up(_recorded(done, len(parsed.steps), issues))


def _recorded(done: Data, steps: int, issues: list[Data]) -> Answer:
    file = str(done["plan_path"])
    new = f"is recorded: {steps} step{'s' * (steps != 1)}"
    what = "was recorded before" if done["already_initialized"] else new
    look = f"; its file has changed since (tugcode state diff {quoted(file)})"
    changed = look if done["drift"] else ""
    text = clean(f"{file} {what}{changed}") + "\n"
    told = [each for each in issues if each["code"] == "W106"]
    text += "".join(clean(str(each["message"])) + "\n" for each in told)
    if "restored" in done or "forgotten" in done:
        from tugtool.cli import state_restore

        before, warning = state_restore.announced(done)
        text, issues = before + text, [*issues, warning]
    return Answer(done, lambda: text, issues=issues)


def state_release(call: Call) -> Answer:
    """Give a claim back."""
    if call.flag("force") and call.text("worktree") is not None:
        problem = "--force and --worktree exclude each other: force asks for no owner"
        raise Usage(problem, command="state release")
    reason = (call.text("reason") or "").strip() or None
    if call.flag("park") != (reason is not None):
        raise Usage("--park and --reason TEXT go together", command="state release")
    place = Place(call)
    plan = place.plan()
    data = state.release(
        place.store,
        plan,
        place.step(),
        owner=place.owner,
        attempt=place.attempt(plan),
        force=call.flag("force"),
        park_reason=reason,
    )
    issues = place.saved(plan, data)
    return said(data, f"{'parked' if reason else 'released'} {data['anchor']}{_kept(data)}", issues)


def _kept(data: Data) -> str:
    ref = data["salvage_ref"]
    return f"; the work that was not committed is saved as {ref}" if ref else ""


def state_reset(call: Call) -> Answer:
    """Take a step from whoever holds it."""
    place = Place(call)
    plan = place.plan()
    data = state.reset(place.store, plan, place.step(), actor=place.owner)
    issues = place.saved(plan, data)
    word = "reset" if data["reset"] else "unparked" if data["unparked"] else "nothing to reset:"
    return said(data, f"{word} {data['anchor']}{_kept(data)}", issues)


def state_reopen(call: Call) -> Answer:
    """Send a completed step back."""
    reason = call.text("reason") or ""
    if not reason.strip():
        raise Usage("reopen needs --reason TEXT", command="state reopen")
    place = Place(call)
    data = state.reopen(
        place.store,
        place.plan(),
        place.step(),
        reason=reason,
        force=call.flag("force"),
        actor=place.owner,
    )
    return said(data, f"reopened {data['anchor']}")


def state_pause(call: Call) -> Answer:
    """Let nothing new be claimed."""
    place = Place(call)
    data = state.pause(place.store, place.plan(), actor=place.owner)
    return said(data, f"{data['plan_path']} is paused")


def state_resume(call: Call) -> Answer:
    """Let steps be claimed again."""
    place = Place(call)
    data = state.resume(place.store, place.plan(), actor=place.owner)
    return said(data, f"{data['plan_path']} goes on")
