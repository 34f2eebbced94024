"""Save the work in a worktree whose step was taken, before it can get lost.

The transaction that takes a step records the former holder. The taker then saves the holder's
work; after a crash the next claim does. Nothing here refuses: the step is taken already.
"""

from __future__ import annotations

from tugtool import state
from tugtool.errors import TugError, plan_argument, quoted
from tugtool.errors.git import LeftWork
from tugtool.errors.state import NotOwner, Superseded
from tugtool.git import command as git
from tugtool.git import git_dir, index, worktrees
from tugtool.git import refs as git_refs
from tugtool.state import attempts, record, standings
from tugtool.state import worktrees as state_worktrees
from tugtool.store.owners import machine_of
from tugtool.system import config, crash, files, os, text
from tugtool.workflow import salvage, worktree
from tugtool.workflow.worktree import branches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tugtool.git import Repository
    from tugtool.schemas import Issue, StateClaim
    from tugtool.state.claims import Claim, Request
    from tugtool.store import Row, Store
    from tugtool.workflow.workspace import Workspace

    Facts = Mapping[str, str]


#: How long to wait for another process that saves the same worktree.
PATIENCE_SECONDS = 20
#: A claim looks at so many worktrees; the others were reported before.
MOST_PER_CLAIM = 5


def catch_up(
    repo: Repository, store: Store, plan: str | None = None, *, most: int | None = None
) -> list[dict[str, Any]]:
    """Save the unsaved work of one plan or of all plans, and return the result for each.

    `salvage_ref` is None if there was no work, or if a `problem` prevented saving it. Then the
    work stays where it is, and the next call tries again.
    """
    every = attempts.list_unsaved(store, plan)
    # The next command of another clone saves what lies there.
    rows = [row for row in every if not worktree.is_in_other_clone(repo, row["worktree"])][:most]
    if not rows:
        return []
    crash.point("salvage.taken")
    try:
        known = _known(repo)
    except TugError as error:
        return [_outcome(row, None, error.message) for row in rows]
    done = [_mark_saved(repo, store, row, known.get(row["worktree"])) for row in rows]
    if any(each["salvage_ref"] for each in done):
        _publish(repo)
    return done


def _publish(repo: Repository) -> None:
    """Push saved work, if commits travel by a remote; `worktree publish` tries again."""
    if config.load(repo.root).is_set("remote.name"):
        from tugtool.workflow import remote

        remote.try_salvages(repo.root)


def warning(each: dict[str, Any]) -> Issue:
    """Return a warning about unsaved work."""
    where, anchor = each["worktree"], each["step_anchor"]
    return {
        "code": "W120",
        "severity": "warning",
        "message": f"the uncommitted work on {anchor} (attempt {each['attempt']}) is not saved "
        f"yet and is still in {where}: {each['problem']}",
        "hint": f"git -C {quoted(where)} status",
        "file": where,
    }


def _known(repo: Repository) -> Mapping[str, Facts]:
    """Return every worktree of the repository, by the name that owns steps."""
    every = git.worktree_facts(repo.root)
    real = {record.owner_of(os.path.realpath(facts["worktree"])): facts for facts in every}
    return real | {record.owner_of(facts["worktree"]): facts for facts in every}


def _outcome(row: Row, ref: str | None, problem: str | None) -> dict[str, Any]:
    return {
        "plan_path": row["plan_path"],
        "step_anchor": row["step_anchor"],
        "attempt": row["number"],
        "worktree": row["worktree"],
        "salvage_ref": ref,
        "problem": problem,
    }


def _mark_saved(repo: Repository, store: Store, row: Row, facts: Facts | None) -> dict[str, Any]:
    try:
        # A holder without a worktree here has no work to save.
        if facts is None or not os.path.isdir(facts["worktree"]):
            attempts.mark_saved(store, row, None)
            return _outcome(row, None, None)
        path = facts["worktree"]
        wrong = None if path == repo.root else worktrees.trouble(repo.common_dir, path)
        if wrong is not None:
            return _outcome(row, None, wrong)
        with salvage.WorktreeLock(path, seconds=PATIENCE_SECONDS):
            return _outcome(row, _saved(repo, store, row, facts), None)
    except (TugError, salvage.Unsalvageable, OSError) as error:
        return _outcome(row, None, str(error))


def _saved(repo: Repository, store: Store, row: Row, facts: Facts) -> str | None:
    """Save the work under the lock, and return its ref; None if there is no work."""
    waits, saved = attempts.salvage_status(
        store, row["plan_path"], row["step_anchor"], row["number"]
    )
    if not waits:
        # Another process has saved it.
        return saved
    has_work = _is_dirty(facts["worktree"]) or _is_nameless(repo, facts)
    ref = _keep(repo, store, row, facts) if has_work else None
    if ref is not None:
        crash.point("salvage.saved")
        _note_lost(repo, store, row, ref, path=facts["worktree"])
    attempts.mark_saved(store, row, ref)
    crash.point("salvage.recorded")
    return ref


def _note_lost(repo: Repository, store: Store, row: Row, ref: str, *, path: str) -> None:
    """Note that a linked worktree has work of a lost step, for its next claim."""
    if path == repo.root or not attempts.is_lost(store, row):
        return
    note = {**_outcome(row, ref, None), "worktree": row["worktree"]}
    place = lost_note(repo, path)
    files.make_directory(os.path.dirname(place))
    files.replace(place, text.encode(note).encode())


def lost_note(repo: Repository, path: str) -> str:
    """Return the file with the note that a worktree has work of a lost step."""
    # Git's name of the worktree is unique.
    return os.path.join(repo.common_dir, config.LOST_PATH, os.path.basename(git_dir(path)))


def forget_lost(repo: Repository, path: str) -> None:
    """Remove the note that the worktree has work of a lost step."""
    place = lost_note(repo, path)
    index.remove(place)
    try:
        os.rmdir(os.path.dirname(place))
    except OSError:
        # There was no note, or another worktree has one too.
        return


def left_work(repo: Repository, owner: str, path: str) -> dict[str, Any] | None:
    """Return the lost step whose uncommitted work is in a worktree. Git runs only for a note."""
    import json  # Few worktrees lose a step.

    try:
        found: dict[str, Any] = json.loads(files.read(lost_note(repo, path)))
    except (TugError, OSError, ValueError):
        return None
    if found["worktree"] != owner or not os.path.isdir(path):
        return None
    try:
        dirty = _is_dirty(path)
    except salvage.Unsalvageable:
        dirty = True
    if not dirty:
        forget_lost(repo, path)
    return found if dirty else None


def claim_beside_work(space: Workspace, plan: str, step: str | None, request: Request) -> Claim:
    """Claim in a worktree that may have work of a lost step: that step, or E037."""
    wanted, surely_none = _step_to_go_on_with(space, plan, step, request)
    data = state.claim(space.store, plan, request, copy=space.copy(plan), step=wanted)
    if surely_none:
        # A step may have become ready meanwhile.
        refuse_mixed(space, plan, data)
    return data


def _step_to_go_on_with(
    space: Workspace, plan: str, step: str | None, request: Request
) -> tuple[str | None, bool]:
    """Return the step to claim, and whether there is none to be had now."""
    store, owner = space.store, space.owner
    if attempts.is_requested(store, plan, request.request_id, owner=owner):
        return step, False
    left = left_work(space.repo, owner, space.worktree)
    if left is None or state_worktrees.claimed_steps(store, owner):
        # The work may belong to the step that the worktree holds.
        return step, False
    anchor = str(left["step_anchor"])
    row = record.find_step(store, plan, anchor) if left["plan_path"] == plan else None
    if row is not None and _is_free(row) and step in (None, anchor):
        return anchor, False
    if not request.force and not can_claim(space, plan, step):
        # The claim itself says why.
        return step, True
    raise _refusal(space, left)


def can_claim(space: Workspace, plan: str, step: str | None) -> bool:
    """Return whether the caller, who holds no step, could claim one now, or just this one."""
    if record.require_plan(space.store, plan)["paused_at"] is not None:
        return False
    ready = standings.ready(space.store, plan)["ready_steps"]
    return step in ready if step is not None else bool(ready)


def refuse_lost(space: Workspace, plan: str) -> None:
    """Raise E049 or E060 if the caller's worktree has lost a step of the plan; save its work."""
    rows = attempts.list_unsaved(space.store, plan)
    waits = any(row["worktree"] == space.owner for row in rows)
    done = catch_up(space.repo, space.store, plan) if waits else []
    own: list[Any] = [each for each in done if each["worktree"] == space.owner]
    own += [] if own else [left_work(space.repo, space.owner, space.worktree)]
    lost = own[0]
    row = record.find_step(space.store, plan, lost["step_anchor"]) if lost else None
    if row is None or row["claimed_by"] == space.owner:
        return
    raise _lost(space, plan, row, lost)


def _lost(space: Workspace, plan: str, row: Row, lost: Mapping[str, Any]) -> TugError:
    anchor, holder = row["anchor"], row["claimed_by"] or row["completed_by"]
    error: TugError = Superseded(plan, anchor, attempt=lost["attempt"], current=row["attempt"])
    if holder not in (None, space.owner):
        verb = "is held" if row["claimed_by"] else "was completed"
        error = NotOwner(plan, anchor, owner=holder, caller=space.owner, verb=verb)
    saved = f"your files are saved as {lost['salvage_ref']}" if lost["salvage_ref"] else ""
    stay = f"your files stay here: {lost['problem']}" if lost["problem"] else ""
    error.message += "".join(f"; {each}" for each in (saved, stay) if each)
    return error


def _is_free(row: Row) -> bool:
    waits = row["status"] == "pending" and row["open_deps"] == 0
    return waits and row["parked_at"] is None


def refuse_mixed(space: Workspace, plan: str, claim: Mapping[str, Any]) -> None:
    """Raise E037 after a claim if its worktree turns out to have lost another step."""
    if not claim["claimed"] or claim["reclaimed"] or claim["replayed"]:
        return
    left = left_work(space.repo, space.owner, space.worktree)
    if left is not None and (left["plan_path"], left["step_anchor"]) != (plan, claim["anchor"]):
        who: Any = {"owner": space.owner, "attempt": claim["attempt"], "interrupted": True}
        state.release(space.store, plan, claim["anchor"], **who)
        raise _refusal(space, left)


def _refusal(space: Workspace, left: Mapping[str, Any]) -> LeftWork:
    facts = {key: left[key] for key in ("attempt", "salvage_ref")}
    return LeftWork(space.worktree, plan=left["plan_path"], anchor=left["step_anchor"], **facts)


def _is_dirty(path: str) -> bool:
    if salvage.has_put_aside(path):
        return True
    try:
        changed = [entry[3:] for entry in worktree.changes(path)]
        within = sorted(set(changed) & set(git.submodules(path)))
    except TugError:
        # If git cannot read the index, assume that there is work.
        return True
    if within:
        what = f"its submodule {within[0]} has changes, which a commit of the worktree cannot hold"
        raise salvage.Unsalvageable(what)
    return bool(changed)


def _is_nameless(repo: Repository, facts: Facts) -> bool:
    """Return whether only the worktree's HEAD has its commits: no branch or other ref does."""
    if "branch" in facts or git_refs.commit_of(repo.root, facts["HEAD"]) is None:
        return False
    words = ("for-each-ref", "--count=1", "--format=%(refname)", "--contains", facts["HEAD"])
    return not git.run(*words, cwd=repo.root)


def _keep(repo: Repository, store: Store, row: Row, facts: Facts) -> str:
    """Save the worktree, unless a killed run saved it already."""
    slug = salvage.slug(row["plan_path"])
    name = branches.safe(f"{row['step_anchor']}-attempt-{row['number']}")
    ref = salvage.ref_name(slug, name, row["taken_at"])
    path = facts["worktree"]
    earlier = git_refs.commit_of(repo.root, ref)
    if earlier is not None:
        same = git_refs.tree_of(repo.root, ref) == salvage.tree_of(path)
        if same and git_refs.missing(repo.root, earlier, "--not", "--branches") is None:
            return ref
        ref = salvage.again(repo.root, ref)
    # An unfinished removal may have deleted files already.
    removal = worktree.intended(store, row["worktree"]).get("salvage_ref")
    removed = git_refs.commit_of(repo.root, removal) if removal else None
    told = {
        "Plan": row["plan_path"],
        "Step": row["step_anchor"],
        "Attempt": row["number"],
        "Worktree": row["worktree"],
        "Machine": salvage.machine_name(repo),
        "Branch": facts.get("branch"),
    }
    salvage.save(path, ref=ref, also=[earlier, removed], facts=told)
    return ref


def follow_up(space: Workspace, plan: str, claim: StateClaim, *, unsaved: bool) -> list[Issue]:
    """Refuse a claim that would mix work (E037), and add what the attempt before left.

    Return a warning if its work is on another machine only.
    """
    if unsaved:
        refuse_mixed(space, plan, claim)
    before = claim.get("previous_attempt")
    if before is None:
        return []
    why = trace(space.repo, space.store, claim)
    machine = machine_of(before["worktree"])
    if not machine or before["salvage_ref"] is not None or before["outcome"] == "completed":
        return []
    if not attempts.salvage_status(space.store, plan, claim["anchor"], before["number"])[0]:
        # That machine gave the step back itself, and had nothing to save.
        return []
    what = f"work of attempt {before['number']} at {claim['anchor']} that was not pushed"
    because = f"; its saved work could not be fetched: {why}" if why else ""
    message = f"{what} is only on {machine}, where the next command saves it{because}"
    hint = f"tugcode why {plan_argument(plan)} {quoted(claim['anchor'])}"
    return [{"code": "W171", "severity": "warning", "message": message, "hint": hint}]


def trace(repo: Repository, store: Store, claim: StateClaim) -> str:
    """Add what git knows of the attempt before a claim. Return why saved work is not here."""
    before, why = claim["previous_attempt"], ""
    if before is None:
        return ""
    plan, owner = claim["plan_path"], claim["worktree"]
    try:
        saved, other = attempts.salvages(
            store, plan, claim["anchor"], before=claim["attempt"], owner=owner
        )
        there = set(refs(repo))
        away = [row["salvage_ref"] for row in saved if row["salvage_ref"] not in there]
        if away and config.load(repo.root).is_set("remote.name"):
            from tugtool.workflow import remote

            why, there = remote.fetch_salvages(repo.root, away), set(refs(repo))
        saved = [row for row in saved if row["salvage_ref"] in there]
        own = [row["salvage_ref"] for row in saved if row["number"] == before["number"]]
        before["salvage_refs"] = [row["salvage_ref"] for row in saved[: attempts.MOST_REFS]]
        claim["salvage_ref"] = before["salvage_ref"] = own[0] if own else None
        before["branch"], before["commits_ahead"] = _branch(repo, store, before["worktree"])
        commands = _merges(repo, store, plan, other, owner) if other is not None else []
        emptied = bool(own) and _is_emptied(repo, owner)
    except (TugError, OSError):
        return why
    # The work that was saved from the caller's own worktree is still in it, unless it was cleaned.
    if saved and (saved[0]["worktree"] != owner or emptied):
        commands.append(f"tugcode worktree salvage apply {quoted(saved[0]['salvage_ref'])}")
    before["recover"] = commands
    return why


def _is_emptied(repo: Repository, owner: str) -> bool:
    """Return whether the caller's linked worktree has no uncommitted work any more."""
    facts = _known(repo).get(owner)
    if facts is None or facts["worktree"] == repo.root:
        return False
    try:
        return not _is_dirty(facts["worktree"])
    except salvage.Unsalvageable:
        return False


def _merges(repo: Repository, store: Store, plan: str, other: str, owner: str) -> list[str]:
    """Return the command that merges another worktree's commits; none if they are here."""
    branch, ahead = _branch(repo, store, other)
    if not branch or not ahead:
        return []
    tip = git_refs.branch_tip(repo.root, branch) or branch
    here, row = _known(repo).get(owner), state_worktrees.find_worktree(store, other)
    known = [row["commit_hash"] for row in state_worktrees.committed_steps(store, plan)]
    known += [row["base_commit"]] if row is not None else []
    known += [here["HEAD"]] if here is not None else []
    # Commits of completed steps come by `worktree sync`, where a step depends on them.
    return [f"git merge {quoted(branch)}"] if git_refs.newest_beyond(repo.root, tip, known) else []


def refs(repo: Repository) -> list[str]:
    """Return every salvage ref."""
    out = git.run("for-each-ref", "--format=%(refname)", f"{salvage.PREFIX}/", cwd=repo.root)
    return out.split("\n")[:-1]


def _branch(repo: Repository, store: Store, owner: str) -> tuple[str | None, int | None]:
    """Return the branch of a worktree, and its number of commits ahead of the base."""
    facts = _known(repo).get(owner)
    row = state_worktrees.find_worktree(store, owner)
    known: Mapping[str, Any] = facts or (dict(row) if row is not None else {})
    if not known:
        return None, None
    branch = known.get("branch")
    tip = git_refs.commit_of(repo.root, facts["HEAD"] if facts else f"refs/heads/{branch}")
    onto = worktree.base_branch(repo, worktree.Worktree(owner, row, facts))
    ahead, _ = git_refs.ahead_and_behind(repo.root, tip, git_refs.branch_tip(repo.root, onto))
    return branch, ahead
