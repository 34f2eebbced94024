"""Add, compare, revise, move, import, prune and restore plans of the record.

Also check the record's files: links in their place, and their permissions.
"""

from __future__ import annotations

from tugtool import state
from tugtool.errors import (
    OutsideRepository,
    TugError,
    Unreadable,
    listing,
    plan_argument,
    quoted,
)
from tugtool.errors.state import (
    DatabaseError,
    DatabaseUnavailable,
    PlanChanged,
    PlanRenamed,
    WrongStatus,
    move_command,
)
from tugtool.git import command as git
from tugtool.plan import catalog
from tugtool.state import record, standings
from tugtool.store import file_store
from tugtool.system import config, files, os
from tugtool.system.text import many
from tugtool.workflow import plans

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from tugtool.git import Repository
    from tugtool.plan.catalog import PlanFile
    from tugtool.schemas import (
        Issue,
        StateMove,
        StatePrune,
        StateRestore,
        StateRestoreLostStep,
    )
    from tugtool.state.revision_plan import Allowed
    from tugtool.store import Store
    from tugtool.workflow.plans import LoadedPlan
    from tugtool.workflow.workspace import Workspace
    from tugtool.workflow.worktree.create import WorktreeRequest

    Data = dict[str, Any]


class RecordedPlan:
    """The result of recording a plan: the answer, warnings, and a restore if one was needed."""

    __slots__ = ("data", "issues", "restored")

    def __init__(self, issues: list[Issue]) -> None:
        self.data: Any = {}
        self.issues = issues
        #: The restore of a lost database; None if it was not lost.
        self.restored: StateRestore | None = None

    def add_loss(self, loss: Any) -> None:
        """Add a warning about a lost database, and its restore."""
        if loss["restored"]:
            self.restored = loss
            self.issues.append(_restored_warning(loss))
        else:
            self.issues.append(_forgotten_warning(loss["lost_steps"]))


def init(
    space: Workspace, name: str, *, max_bytes: int | None = None, own: bool = True
) -> RecordedPlan:
    """Record a plan; do nothing if it is recorded already.

    `own`: this user asks for it, so its commands count as seen where the repository is trusted.
    """
    from tugtool.workflow.worktree import branches

    plan = plans.load(space, name, max_bytes=max_bytes)
    done = RecordedPlan(plan.issues)
    losses = _init(space, plan, _new(space, plan), done)
    if not done.data["already_initialized"]:
        plan.issues += branches.earlier_branches(space, plan.file.key)
    for loss in losses:
        done.add_loss(loss)
    if own and not done.data["drift"]:
        _see(space, plan)
    return done


def _see(space: Workspace, plan: LoadedPlan) -> None:
    from tugtool.plan import checkpoints
    from tugtool.workflow import trust  # Not for every command that reads the record.

    trust.see(space.repo.root, plan.file.key, checkpoints.commands_of(plan.parsed))


def _init(space: Workspace, plan: LoadedPlan, new: Data, done: RecordedPlan) -> list[Data]:
    """Record the plan. Return the loss of an earlier database, or None."""
    refuse_renamed(space.repo, space.store, plan)
    plans.ignore_state(space.repo)
    losses: list[Data] = []
    how: Data = {**new, "on_loss": losses.append}
    done.data = state.init(space.store, plan.file.key, plan.parsed, **how)
    return losses


def _new(space: Workspace, plan: LoadedPlan) -> Data:
    from tugtool.workflow.worktree import branches

    commit = branches.base_commit(space.repo, plan.file.key)
    return {"text": plan.text, "hash": plan.hash, "base_commit": commit}


def revise(
    space: Workspace,
    name: str,
    allowed: Allowed,
    *,
    dry_run: bool = False,
    max_bytes: int | None = None,
    own: bool = True,
) -> RecordedPlan:
    """Take the text of a plan file as the agreed text, or only show the effect; see `init`."""
    plan = plans.load(space, name, max_bytes=max_bytes)
    new = _new(space, plan)
    done = RecordedPlan(plan.issues)
    for loss in [] if dry_run else _init(space, plan, new, done):
        done.add_loss(loss)
    if done.data.get("already_initialized", True):
        restored = done.data.get("restored_from_backup", False)
        how: Data = {"allowed": allowed, "dry_run": dry_run, "actor": space.owner}
        done.data = state.revise(space.store, plan.file.key, plan.parsed, **new, **how)
        done.data["restored_from_backup"] = restored
    if own and not dry_run:
        _see(space, plan)
    return done


def diff(space: Workspace, plan: str, *, max_bytes: int | None = None) -> tuple[Data, list[Issue]]:
    """Compare the caller's plan file with the agreed text; include its diagnostics."""
    from tugtool.plan import parser

    copy = space.copy(plan)
    text, hash, problem = None, None, None
    most = max_bytes or space.settings.number("plan.max_bytes")
    try:
        data = files.read(copy.file, max_bytes=most, raise_with="--max-bytes N")
        hash = catalog.fingerprint(data)
        text = files.text(copy.file, data)
    except Unreadable as error:
        problem = f"{copy.file} is gone" if copy.read is None else error.message
    parsed = None if text is None else parser.parse(text)
    level = space.settings.word("plan.validation_level")
    issues = [] if parsed is None else plans.issues_of(parsed, plan, level)
    sound = parsed if plans.is_sound(issues) else None
    found: Data = state.diff(space.store, plan, file=copy.file, text=text, hash=hash, parsed=sound)
    found["problem"] = problem
    return found, issues


def move(space: Workspace, name: str, to: str) -> StateMove:
    """Give the record of a plan the new name of its file."""
    old = space.recorded(name) or space.plan(name)
    from tugtool.workflow import transcripts

    file = catalog.resolve(space.repo, to, cwd=space.cwd)
    row = record.require_plan(space.store, old)
    if old != file.key and os.path.lexists(os.path.join(space.repo.root, old)):
        needed = f"only a plan whose file has another name is moved: git mv {quoted(old)} NEW"
        raise WrongStatus(old, None, status="still there", needed=needed)
    drift = catalog.file_fingerprint(file.path) != row["plan_hash"]
    moved = state.move(space.store, old, file.key, drift=drift, actor=space.owner)
    transcripts.move(space.repo, moved["moved_from"], moved["plan_path"])
    return moved


def renamed(repo: Repository, store: Store, recorded: Iterable[str]) -> dict[str, str]:
    """Return recorded plans whose text is in a file of another name, with that name."""
    keys = list(recorded)
    files = catalog.by_text(unrecorded(repo, keys))
    rows = [record.find_plan(store, key) for key in keys if is_gone(repo, key)]
    return {
        row["plan_path"]: files[row["plan_hash"]]
        for row in rows
        if row and row["plan_hash"] in files
    }


def refuse_drift(repo: Repository, store: Store, order: WorktreeRequest) -> None:
    """Raise E048 if the plan's file differs from the agreed text."""
    refuse_renamed(repo, store, order.plan)
    row = record.find_plan(store, order.file.key) if store.exists() else None
    if row is not None and row["plan_hash"] != order.hash:
        from tugtool.state import revisions

        key, agreed = order.file.key, row["plan_hash"]
        earlier = revisions.is_earlier(store, key, order.hash)
        facts = {"agreed": agreed, "found": order.hash, "earlier": earlier}
        raise PlanChanged(key, file=order.file.path, **facts)


def refuse_renamed(repo: Repository, store: Store, plan: LoadedPlan) -> None:
    """Raise E094 if the text is recorded under another name that has no file any more."""
    try:
        known = standings.with_text(store, plan.hash) if store.exists() else []
    except DatabaseError:
        # The database is half made or broken; the command that writes repairs or reports it.
        return
    for key in known if plan.file.key not in known else ():
        if is_gone(repo, key):
            raise PlanRenamed(plan.file.key, recorded=key)


def is_gone(repo: Repository, key: str) -> bool:
    """Return whether neither the main worktree nor the caller's has the plan's file."""
    return not any(os.path.lexists(os.path.join(top, key)) for top in (repo.root, repo.worktree))


def states(cwd: str) -> tuple[dict[str, str], list[Issue]]:
    """Return plan -> active, paused, done, merged or archived; why the record is unreadable."""
    from tugtool.workflow.workspace import Workspace

    try:
        store = Workspace(cwd).store
        known = record.plans(store) if store.exists() else {}
        return {plan: _state(record.require_plan(store, plan)) for plan in known}, []
    except TugError as error:
        return {}, [error.issue()]


def _state(row: Mapping[str, Any]) -> str:
    if row["status"] == "active":
        return "paused" if row["paused_at"] else "active"
    return "merged" if row["status"] == "done" and row["merged_commit"] else str(row["status"])


def unrecorded(repo: Repository, recorded: Iterable[str]) -> list[PlanFile]:
    """Return the plan files without a record; a renamed plan is among them."""
    known = set(recorded)
    return [file for file in catalog.plans(repo) if file.key not in known]


def prune(space: Workspace, *, done: bool = False, dry_run: bool = False) -> StatePrune:
    """Remove the records of plans without a file; with `done` also finished ones."""
    from tugtool.git import worktrees
    from tugtool.workflow import transcripts

    if not space.store.exists():
        return {"pruned": [], "kept": [], "exported_to": None, "dry_run": dry_run}

    def where(keys: Iterable[str]) -> Mapping[str, str]:
        now = renamed(space.repo, space.store, keys).items()
        moved = {key: f"its file is {new} now: {move_command(key, new)}" for key, new in now}
        return {**worktrees.where(space.repo, keys), **moved}

    data = state.prune(space.store, where=where, directory=space.copies, done=done, dry_run=dry_run)
    if not dry_run:
        transcripts.drop_unrecorded(space.repo, space.store)
    return data


def restore(
    space: Workspace, *, source: str | None = None, dry_run: bool = False
) -> tuple[StateRestore, bool]:
    """Replace the database with a sound copy. Return whether the present one was sound.

    A sound database is replaced only if `source` is given. With `dry_run` change nothing.
    """
    from tugtool.errors.state import NothingLost
    from tugtool.store.sqlite import health

    file = file_store(space.store)
    if file is None:
        return state.restore(space.store), False
    sound = source is None and health.is_whole(file)
    if sound and not dry_run:
        raise NothingLost(file.path)
    if not dry_run:
        # `git clean` may have removed more than the database.
        plans.ignore_state(space.repo)
    data = state.restore(space.store, source=source, dry_run=dry_run, actor=space.owner)
    return data, sound


def damage(space: Workspace) -> DatabaseUnavailable | None:
    """Return the error of a damaged database; None if it is sound."""
    from tugtool.store.sqlite import health

    file = file_store(space.store)
    found = health.damage_of(file) if file is not None and file.exists() else []
    if file is None or not found:
        return None
    reason, hint = f"is damaged: {found[0]}", "tugcode restore --dry-run"
    return DatabaseUnavailable(file.path, reason=reason, name="CORRUPT", hint=hint)


def _restored_warning(data: StateRestore) -> Issue:
    lost = [completion(row) for row in data["lost_steps"]]
    named = f": {listing(lost)}" if lost else ""
    message = (
        f"The database was lost and has been restored from {data['source']}. "
        f"Missing: {missing(data)}{named}"
    )
    lost_by = lost_plans(data)
    hint = reconcile_command(lost_by[0]) if lost_by else "tugcode show --json"
    return {"code": "W103", "severity": "warning", "message": message, "hint": hint}


def _forgotten_warning(forgotten: Sequence[StateRestoreLostStep]) -> Issue:
    known = [completion(row) for row in forgotten]
    named = f" Completed in it since its last backup: {listing(known)}." if known else ""
    message = (
        "The state that was here before is gone, and so is its backup; "
        f"the record is started over.{named}"
    )
    hint = "tugcode show --json"
    return {"code": "W104", "severity": "warning", "message": message, "hint": hint}


def missing(restored: StateRestore) -> str:
    """Say what a restored record lacks."""
    lost = len(restored["lost_steps"])
    steps = f"{many(lost, 'completed step')}, and everything else" if lost else "everything"
    return f"{steps} recorded after {restored['missing_since']}"


def completion(row: StateRestoreLostStep) -> str:
    """Describe a completed step that the record lost."""
    commit = f", commit {row['commit_hash']}" if row["commit_hash"] else ""
    return f"{row['step_anchor']} of {row['plan_path']}, completed {row['completed_at']}{commit}"


def lost_plans(restored: StateRestore) -> list[str]:
    """Return the plans of the steps that the record lost."""
    return list(dict.fromkeys(row["plan_path"] for row in restored["lost_steps"]))


def reconcile_command(plan: str) -> str:
    """Return the command that shows a plan's steps in git."""
    return f"tugcode reconcile {plan_argument(plan)} --dry-run"


def lacking_address(space: Workspace) -> list[Issue]:
    """Warn if no state is here, and other clones may share one whose address is not known."""
    if space.settings.file is None or space.store.exists():
        return []
    from tugtool.workflow import shared_record

    return shared_record.lacking_address(space.repo, space.settings)


def heed_sharing(sharing: str) -> None:
    """Make this process create files with the modes of git's `core.sharedRepository`."""
    os.umask(_shared_umask(sharing, os.umask(0o077)))


def _shared_umask(sharing: str, usual: int) -> int:
    if sharing.lower() in ("group", "1", "true", "yes", "on"):
        return usual & ~0o070
    if sharing.lower() in ("all", "world", "everybody", "2"):
        return usual & ~0o075
    if len(sharing) > 1 and set(sharing) <= set("01234567"):
        bits = int(sharing, 8) & 0o666
        # A user who may read a directory also has to enter it.
        return 0o777 & ~(bits | (bits & 0o444) >> 2)
    return usual


def refuse_link(repo: Repository, link: str) -> None:
    """Refuse a link in place of the state, unless a person linked the database; also a FIFO.

    A link from git is in the index, so a link that is not there is a person's own.
    """
    name = os.path.relpath(link, repo.root)
    if name == catalog.DIRECTORY:
        raise OutsideRepository(link, root=repo.root, hint=f"ls -l {quoted(link)}")
    if not os.path.islink(link):
        raise DatabaseUnavailable(link, reason="is not a regular file", hint=f"ls -l {name}")
    if git.run("--literal-pathspecs", "ls-files", "--", name, cwd=repo.root):
        reason = f"is a link to {os.path.realpath(link)}, and git tracks it: it is not followed"
        raise DatabaseUnavailable(link, reason=reason, hint=f"git rm -- {name}")
    from tugtool.workflow import trust

    # In a repository from an archive, a stranger may have made it.
    if not trust.is_trusted(repo.root, config.load(repo.root)):
        reason = f"is a link to {os.path.realpath(link)}, which is followed only if you trust this"
        raise DatabaseUnavailable(link, reason=f"{reason} repository", hint="tugcode trust")
