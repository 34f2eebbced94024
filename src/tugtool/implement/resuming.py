"""Before a step is begun: what an earlier attempt left, and what other worktrees have done."""

from __future__ import annotations

from tugtool import base, crash, salvaged, salvaging
from tugtool.errors import TugError, listing, quoted
from tugtool.git_errors import DependencyConflict
from tugtool.implement.ends import Elsewhere, Escalation
from tugtool.store import sql
from tugtool.worktree import syncing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.implement.seat import Work


def save_others(work: Work) -> None:
    """Save what lies uncommitted with whoever has lost a step of the plan."""
    claim, run = work.claim, work.run
    if claim.pop("unsaved", False):
        for each in salvaging.catch_up(run.repo, work.store, run.plan):
            if each["problem"] is not None:
                where = f"{each['step_anchor']} in {each['worktree']}"
                run.warn(f"the work on {where} is not saved yet: {each['problem']}")


def take_up(work: Work) -> None:
    """Go on with what was saved last of this step, if anything was."""
    before = work.claim["previous_attempt"]
    if before is None:
        return
    salvaging.trace(work.run.repo, work.store, work.claim)
    ref = _last_saved(work)
    # What lies here uncommitted is newer than anything that was saved.
    if ref in before["salvage_refs"] and not work.desk.is_dirty():
        _apply(work, ref)


def _last_saved(work: Work) -> str:
    """The ref with the newest work on the step, if it is newer than what was last committed."""
    with work.store.read(work.run.plan) as tx:
        rows = [row for row in tx.all(sql.ATTEMPTS) if row["step_anchor"] == work.anchor]
    for row in sorted(rows, key=lambda row: -int(row["number"])):
        if row["outcome"] == "completed":
            break
        if row["salvage_ref"] is not None:
            return str(row["salvage_ref"])
    return ""


def _apply(work: Work, ref: str) -> None:
    try:
        done = salvaged.apply(work.run.repo, ref, at=work.desk.path)
    except TugError as error:
        # It stays where it is, and the agents are told of it.
        work.run.warn(error.message, step_anchor=work.anchor)
        return
    if done["files"]:
        work.tell("resumed", salvage_ref=ref, files=done["files"][:20])
        crash.point("implement.resumed")


def bring_in(work: Work) -> None:
    """Merge the commits that the step depends on and this worktree lacks."""
    if work.claim["missing_commits"] == []:
        return
    try:
        done = syncing.sync(work.store, work.run.plan, at=work.desk.path, by_resolutions=True)
    except DependencyConflict as error:
        if _fits_afresh(work):
            raise Elsewhere(error.message) from error
        reason = f"{error.message}; {_way_out(work)}"
        raise Escalation(reason, code=error.code, **_facts(error)) from error
    if not done["up_to_date"]:
        merged = done["merged"]
        assert isinstance(merged, list)
        work.tell("synced", steps=[each["step_anchor"] for each in merged])


def _fits_afresh(work: Work) -> bool:
    """Whether only this worktree is in the way; what a step needs may also conflict in itself."""
    root = work.run.repo.root
    start = base.commit_of(root, f"refs/heads/{work.desk.base_branch}")
    if start is None:
        return False
    return syncing.fits_afresh(work.store, work.run.plan, work.anchor, top=root, start=start)


def _way_out(work: Work) -> str:
    """How a person resolves it; the next run finds it wherever they have done so."""
    plan, path = work.run.plan, work.desk.path
    wanted = syncing.missing(work.store, plan, [work.anchor], at=path)
    merges = listing([f"git merge {str(each['commit'])[:12]}" for each in wanted])
    free = f"tugcode state reset {quoted(plan)} {quoted(work.anchor)}"
    return (
        f"to resolve it, run {merges} in a worktree of the plan, such as {path}, and commit that "
        f"(docs/git.md#conflicts); then {free}"
    )


def _facts(error: DependencyConflict) -> dict[str, object]:
    names = ("anchor", "commit", "files")
    told = {"anchor": "needs"}
    return {told.get(n, n): error.facts[n] for n in names if n in error.facts}
