"""Workspace: repository, settings, store and caller; claim and its follow-up."""

from __future__ import annotations

from tugtool import errors, state
from tugtool.errors import TugError
from tugtool.git import discover, worktree_identity
from tugtool.plan import catalog
from tugtool.state import record
from tugtool.state.record import PlanCopy, owner_of
from tugtool.store import back_up, locate, open_store
from tugtool.system import clock, config, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tugtool.schemas import Issue, StateClaim, StateComplete, StateRelease, StateReset
    from tugtool.state.claims import Claim, Request
    from tugtool.store import Store

#: The coarsest clock of a file system.
_UNSETTLED_NANOSECONDS = 2_000_000_000
#: A lease can run out, or a holder die, without any write.
_LONGEST_NAP_SECONDS = 1.0


class Workspace:
    """A repository with its settings and its record, as one caller sees them."""

    __slots__ = ("cwd", "owner", "repo", "settings", "store", "worktree")

    def __init__(self, cwd: str, worktree: str | None = None) -> None:
        """Open the repository around `cwd`; the caller is the named worktree, or that of `cwd`."""
        self.cwd = cwd
        self.repo = discover(cwd)
        self.settings = config.load(self.repo.root)
        self.store = self.open_store()
        #: The caller's worktree as a path, and as the name that owns steps.
        self.worktree = worktree_identity(self.repo, worktree, cwd=cwd)
        self.owner = owner_of(self.worktree)

    @property
    def copies(self) -> str:
        """The directory for copies of the record, out of reach of `git clean`."""
        return os.path.join(self.repo.common_dir, "tugtool")

    def open_store(self, busy_seconds: float | None = None) -> Store:
        """Open the record again, for another thread or with a shorter wait for writers."""
        busy_seconds = busy_seconds or self.settings.number("state.busy_seconds")
        if self.settings.state_url() or config.variable("TUGCODE_MACHINE"):
            from tugtool.workflow import shared_record

            return shared_record.open_shared(self.repo, self.settings, busy_seconds)
        url, copies, link = locate(self.repo.root, self.repo.common_dir)
        if link is not None:
            from tugtool.workflow import records

            records.refuse_link(self.repo, link)
        store = open_store(url, busy_seconds=busy_seconds, copies=copies)
        if self.settings.is_set("remote.name") or self.settings.is_set("state.repository"):
            from tugtool.workflow import shared_record

            shared_record.refuse_private(self.repo, self.settings, store)
        return store

    def plan(self, name: str | None) -> str:
        """Return the key of the recorded plan with that name, or of the only active one."""
        if name is None:
            return self._only_active()
        try:
            key = catalog.resolve(self.repo, name, cwd=self.cwd).key
            # By the beginning of its slug: a plan whose file is gone may have this very name.
            if key.startswith(f".tugtool/tugplan-{name}") and key != f".tugtool/tugplan-{name}.md":
                key = self.recorded(name) or key
        except (errors.PlanNotFound, errors.PlanAmbiguous) as error:
            recorded = self.recorded(name)
            if recorded is None:
                raise error
            key = recorded
        if not self.store.exists():
            raise errors.PlanNotInitialised(key)
        if os.path.lexists(os.path.join(self.repo.root, key)):
            return key
        from tugtool.state import proofs

        # After a rename in the main worktree, other worktrees keep the plan's old file.
        return proofs.every_name(self.store).get(key, key)

    def plan_or_all(self, name: str | None) -> str | None:
        """Return the key of the plan with that name; None, for all plans, without a name."""
        return None if name is None else self.plan(name)

    def person(self) -> str:
        """Return the person who calls, as git or else the system names them."""
        from tugtool.git import refs
        from tugtool.system import process

        return refs.user_name(self.repo.worktree) or process.login_name()

    def decider(self) -> str:
        """Return the actor of a decision: in the main worktree the person, else the worktree."""
        return self.owner if self.worktree != self.repo.root else self.person()

    def attempt(self, plan: str, anchor: str, given: int | None = None) -> int | None:
        """Return the caller's attempt: the given one, or the environment's."""
        if given is not None or config.variable("TUGCODE_ATTEMPT") is None:
            return given
        # The environment's attempt counts for its step and that step's substeps.
        row = record.find_step(self.store, plan, anchor)
        home = row["parent_anchor"] if row is not None else None
        own = config.attempt_for(plan, anchor)
        return own if own is not None or home is None else config.attempt_for(plan, home)

    def copy(self, plan: str) -> PlanCopy:
        """Return the caller's plan file: its worktree's, or the main one's."""
        return plan_copy(plan, worktree=self.worktree, root=self.repo.root)

    def back_up(self, *, pending: bool = False) -> str | None:
        """Back the record up after the answer is printed. Return the problem, or None.

        With `pending` only if steps were completed within a minute of the last backup.
        """
        try:
            return back_up(self.store, pending=pending)
        except KeyboardInterrupt:
            return "interrupted while making a backup; the one before is still there"
        except Exception as error:
            # The command itself has succeeded, so a failed backup is only reported.
            return f"no backup was made: {error!r}"

    def _only_active(self) -> str:
        known = record.plans(self.store) if self.store.exists() else {}
        active = [plan for plan, status in known.items() if status == "active"]
        if len(active) > 1 and self.worktree != self.repo.root:
            from tugtool.state import worktrees  # Most callers name the plan.

            row = worktrees.find_worktree(self.store, self.owner)
            active = active if row is None else [str(row["plan_path"])]
        if not active:
            raise errors.PlanNotInitialised(None)
        if len(active) > 1:
            raise errors.PlanAmbiguous("", candidates=active)
        return active[0]

    def recorded(self, name: str) -> str | None:
        """Return the recorded plan of a missing file, also by an earlier name."""
        if not self.store.exists():
            return None
        from tugtool.state import proofs  # Most plans have their file.

        names = proofs.every_name(self.store)
        slug = catalog.slug_of(os.path.basename(name))
        same = {now for key, now in names.items() if slug == catalog.slug_of(os.path.basename(key))}
        usual = names.get(f"{catalog.DIRECTORY}/{catalog.PREFIX}{name}{catalog.SUFFIX}")
        return names.get(name) or usual or (same.pop() if len(same) == 1 else None)


def claim(
    space: Workspace,
    plan: str,
    *,
    step: str | None = None,
    lease_seconds: float | None = None,
    wait_seconds: float = 0,
    force: bool = False,
    also: bool = False,
    holder_pid: int | None = None,
    request_id: str | None = None,
) -> tuple[StateClaim, list[Issue]]:
    """Claim a step for the caller, if needed after a wait. Return its facts, and warnings."""
    from tugtool.state import claims

    request = claims.Request(
        space.owner,
        lease_seconds=lease_seconds or space.settings.number("state.lease_seconds"),
        max_attempts=space.settings.number("state.max_attempts"),
        force=force,
        also=also,
        holder_pid=holder_pid,
        request_id=request_id,
        publish=space.settings.is_set("remote.name"),
    )

    data = _wait(space.store, plan, lambda: _ask(space, plan, request, step), wait_seconds)
    return data, _follow_up(space, plan, data)


def _ask(space: Workspace, plan: str, request: Request, step: str | None) -> Claim:
    # Most repositories have no note of a lost step, and need not ask git.
    if os.path.isdir(os.path.join(space.repo.common_dir, config.LOST_PATH)):
        from tugtool.workflow.salvage import catch_up

        return catch_up.claim_beside_work(space, plan, step, request)
    return state.claim(space.store, plan, request, copy=space.copy(plan), step=step)


def _follow_up(space: Workspace, plan: str, data: Claim) -> list[Issue]:
    """Follow up after the transaction: other workers need not wait for git."""
    if data.get("missing_commits", data) is None:
        from tugtool.workflow.worktree import sync

        held = data["anchor"]
        data["missing_commits"] = sync.seen_missing(space.store, plan, held, at=space.worktree)
    unsaved = data.pop("unsaved")
    warnings = save_displaced(space, plan, data) if unsaved else []
    if unsaved or data.get("previous_attempt") is not None:
        from tugtool.workflow.salvage import catch_up

        warnings += catch_up.follow_up(space, plan, data, unsaved=unsaved)
    if space.settings.is_set("remote.name"):
        from tugtool.workflow import remote

        warnings += remote.publish_left(space, plan)
    return warnings


def main_worktree_warning(space: Workspace) -> list[Issue]:
    """Return W160: a step that is claimed in the main worktree cannot be committed there."""
    if space.worktree != space.repo.root:
        return []
    said = f"{space.worktree} is the main worktree: tugcode commit will not work here"
    return [{"code": "W160", "severity": "warning", "message": said, "hint": "tugcode next"}]


def _judged_from_now(store: Store, plan: str, ask: Callable[[], Claim]) -> Claim:
    """Ask for a step; ask again if a claim from a clock ahead was in the way."""
    try:
        data = ask()
    except errors.NotReady as refusal:
        if "lease_expires_at" in refusal.facts and state.judge_from_now(store, plan):
            return ask()
        raise
    if data.get("held_steps") and state.judge_from_now(store, plan):
        return ask()
    return data


def _wait(store: Store, plan: str, ask: Callable[[], Claim], seconds: float) -> Claim:
    """Try until a step is claimed, everything is done, or the time is up."""
    deadline = clock.ticks() + seconds
    while True:
        left = deadline - clock.ticks()
        try:
            answer = _judged_from_now(store, plan, ask)
            if answer["claimed"] or answer["all_completed"] or left <= 0:
                return answer
        except errors.NotReady:
            # The requested step is held or blocked, which can change.
            if left <= 0:
                raise
        store.wait_for_change(min(left, _LONGEST_NAP_SECONDS))


def save_displaced(
    space: Workspace, plan: str, data: StateClaim | StateRelease | StateReset
) -> list[Issue]:
    """Save the work of workers that lost a step. Return a warning for each that is not saved."""
    from tugtool.workflow.salvage import catch_up

    done = catch_up.catch_up(space.repo, space.store, plan, most=catch_up.MOST_PER_CLAIM)
    own = [each for each in done if each["step_anchor"] == data.get("anchor")]
    if own and "salvage_ref" in data:
        data["salvage_ref"] = own[0]["salvage_ref"]
    return [catch_up.warning(each) for each in done if each["problem"] is not None]


def release(
    space: Workspace,
    plan: str,
    anchor: str,
    *,
    attempt: int | None = None,
    force: bool = False,
    park_reason: str | None = None,
    save: bool = False,
    actor: str | None = None,
    reason: str | None = None,
) -> tuple[StateRelease, list[Issue]]:
    """Release a claim, and save the work of another worker, with `save` also the caller's own."""
    how: Any = {"owner": space.owner, "attempt": attempt, "park_reason": park_reason}
    how |= {"force": force, "leaving_work": save, "actor": actor, "reason": reason}
    data, unsaved = state.release(space.store, plan, anchor, **how)
    return data, save_displaced(space, plan, data) if unsaved else []


def reset(
    space: Workspace, plan: str, anchor: str, *, actor: str, reason: str | None = None
) -> tuple[StateReset, list[Issue]]:
    """Take a step from its holder and save uncommitted work. Return its facts, and warnings."""
    data, unsaved = state.reset(space.store, plan, anchor, actor=actor, reason=reason)
    return data, save_displaced(space, plan, data) if unsaved else []


def complete(
    space: Workspace,
    plan: str,
    anchor: str,
    *,
    attempt: int | None = None,
    commit: str | None = None,
    force_reason: str | None = None,
) -> StateComplete:
    """Complete a step, with the commit of its work if one is named."""
    full = None
    if commit is not None:
        from tugtool.git import refs

        top = space.worktree if os.path.isdir(space.worktree) else space.repo.root
        full = refs.commit_of(top, commit)
    return state.complete(
        space.store,
        plan,
        anchor,
        owner=space.owner,
        copy=space.copy(plan),
        attempt=attempt,
        commit=full,
        unknown_commit=commit if full is None else None,
        intent_at=_intended_at(space, plan, anchor, full),
        force_reason=force_reason,
        publish=space.settings.is_set("remote.name"),
    )


def _intended_at(space: Workspace, plan: str, anchor: str, commit: str | None) -> str | None:
    """Return when `tugcode commit` recorded its intent to make this commit, or None."""
    if space.worktree == space.repo.root:
        return None
    from tugtool.state import intents

    row = intents.find_intent(space.store, "commit", space.owner)
    if row is None or (row["plan_path"], row["step_anchor"]) != (plan, anchor):
        return None
    from tugtool.workflow.commit import intent

    try:
        ends = intent.ends_with(intent.caller_commit_site(space, plan), row, commit)
    except TugError:
        # Git fails or the worktree is gone; the step is done all the same.
        return None
    return str(row["created_at"]) if ends else None


def plan_copy(plan: str, *, worktree: str, root: str, signed: bool = True) -> PlanCopy:
    """Return a plan file from a worktree, or else from the main one.

    With a signature it is read only if it changed since the record last saw it.
    """
    top = worktree if os.path.lexists(os.path.join(worktree, plan)) else root
    path = os.path.join(top, plan)
    if not os.path.lexists(path):
        copy = PlanCopy(path)
        files = catalog.plans_in
        copy.renamed = lambda row: catalog.by_text(files(worktree, root)).get(row["plan_hash"])
        return copy
    return PlanCopy(
        path,
        signature=_signature(path) if signed else None,
        read=lambda: catalog.file_fingerprint(path),
        worktree=top if top != root else None,
    )


def _signature(path: str) -> str | None:
    """Return the file system's facts of a file that has not just changed.

    As in git: a file may change twice within one tick of its clock, so recent times prove
    nothing.
    """
    try:
        status = os.stat(path)
    except OSError:
        return None
    newest = max(status.st_mtime_ns, status.st_ctime_ns)
    if abs(clock.nanoseconds() - newest) < _UNSETTLED_NANOSECONDS:
        return None
    facts = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return ".".join(map(str, facts))
