"""Checks of the database and of interrupted commands."""

from __future__ import annotations

from functools import partial

from tugtool import state
from tugtool.errors import TugError, listing, plan_argument, quoted
from tugtool.state import dashes, plans, record
from tugtool.store import NO_PLAN, file_store
from tugtool.store.sqlite import health
from tugtool.system import os
from tugtool.system.text import many
from tugtool.workflow import commit, dash, merge, server_note, shared_record, worktree
from tugtool.workflow.commit import intent
from tugtool.workflow.commit.intent import CommitSite
from tugtool.workflow.dash import Dash, rounds
from tugtool.workflow.doctor import LOCK_SECONDS, error, note, warning
from tugtool.workflow.workspace import plan_copy
from tugtool.workflow.worktree import build, remove

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tugtool.store import Row
    from tugtool.workflow.doctor import DoctorFinding, Mend, Subject


_RESTORE = "tugcode restore --dry-run"

#: Messages about contradictory rows, by the keys of `recounting.contradictions`.
_PROBLEMS = {
    "nested": "is a substep of a substep",
    "attempts": "and its attempts do not fit each other",
    "parked": "is parked without an attempt or a reason",
    "items": "is completed, and {} of it open",
    "substeps": "is completed, and {} of it not",
}


def opened(subject: Subject) -> Iterator[DoctorFinding]:
    """Check that there is a database of ours that this version can read."""
    broken = subject.unread
    if broken is None:
        yield from _unknown_address(subject)
        return
    if broken.facts.get("sqlite") != "OLDER":
        busy = str(broken.facts.get("sqlite")).startswith("BUSY")
        yield error(broken.message, hint="tugcode doctor" if busy else broken.hint)
        return

    def repair() -> str:
        with subject.live.write(NO_PLAN):
            pass
        subject.open()
        return f"migrated; a copy from before is in {subject.copies}"

    yield warning(broken.message, hint="tugcode doctor --fix", repair=repair)


def _unknown_address(subject: Subject) -> Iterator[DoctorFinding]:
    """Find a clone without a state where others share one."""
    if subject.recorded or subject.settings.file is None:
        return
    from tugtool.workflow import shared_record

    for each in shared_record.lacking_address(subject.repo, subject.settings):
        yield warning(each["message"], hint=each["hint"])


def lock(subject: Subject) -> Iterator[DoctorFinding]:
    """Check that no process blocks all writers, or on a server those of a plan."""
    if subject.is_shared:
        yield from _server_locks(subject)
        return
    path = os.path.join(os.path.dirname(subject.path), "state.lock")
    holder = health.holder(path, LOCK_SECONDS)
    if holder is not None:
        said = f"the database is locked by {holder} for over {LOCK_SECONDS} s; writers wait"
        words = holder.replace(",", " ").split()
        number = next((word for word in words if word.isdecimal()), "")
        yield warning(said, hint=f"ps -p {number} -o pid,stat,command" if number else "ps -e")


def _server_locks(subject: Subject) -> Iterator[DoctorFinding]:
    from tugtool.store.postgres import health as server_health

    store = shared_record.shared(subject.store)
    for plan, holder in server_health.kept_locks(store, LOCK_SECONDS) if store else ():
        what = plan or "what belongs to no plan"
        said = f"{what} is locked by {holder} for over {LOCK_SECONDS} s; writers wait"
        yield warning(said, hint="tugcode log --limit 5")


def server(subject: Subject) -> Iterator[DoctorFinding]:
    """Check what a server lets this role do, its clock, and its standbys."""
    store = shared_record.shared(subject.live)
    if store is None:
        return
    from tugtool.store.postgres import health as server_health

    where = store.address.shown
    if server_health.is_standby(store):
        said = f"{where} is a standby and takes no changes"
        yield error(said, hint="tugcode config")
        return
    missing = server_health.missing_rights(store)
    if missing:
        yield error(f"the role of {where} lacks {listing(missing)}", hint="tugcode config")
    ahead = server_health.clock_ahead(store)
    if abs(ahead) > server_health.CLOCK_SECONDS:
        how = f"{abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} this machine's"
        said = f"the server's clock is {how}; leases use the server's, times that people read too"
        yield warning(said, hint="date -u")
    for name, size in server_health.standbys_behind(store):
        said = f"the standby {name} lacks {size >> 20} MB that are committed"
        yield warning(f"{said}: they would be lost if it took over now", hint="tugcode config")


def served(subject: Subject) -> Iterator[DoctorFinding]:
    """Name the `tugcode serve` that runs for this repository."""
    running = server_note.running(subject.repo)
    if running is not None:
        said = f"tugcode serve runs at {running['url']} (process {running['pid']})"
        yield note(said, hint="tugcode serve token list")


def integrity(subject: Subject) -> Iterator[DoctorFinding]:
    """Run SQLite's own check of every page and index."""
    file = file_store(subject.store)
    for each in health.damage_of(file) if file is not None else ():
        yield error(f"{subject.path} is damaged: {each}", hint=_RESTORE)


def references(subject: Subject) -> Iterator[DoctorFinding]:
    """Find rows whose parent is gone."""
    file = file_store(subject.store)
    for each in health.dangling(file) if file is not None else ():
        yield error(f"{subject.path} has {each}", hint=_RESTORE)


def counts(subject: Subject) -> Iterator[DoctorFinding]:
    """Compare the stored counts with counted rows."""
    for plan in record.plans(subject.store):
        found = plans.check(subject.store, plan)
        if found is None:
            said = f"{plan} has no row of plan_counts, so no command finds it"
            yield error(said, hint=_RESTORE)
        elif found:
            said = f"{plan}: {'; '.join(_differences(found))}"
            repair = partial(_recount, subject, plan)
            yield error(said, hint="tugcode doctor --fix", repair=repair)


def _recount(subject: Subject, plan: str) -> str:
    state.recount(subject.live, plan, actor=subject.actor)
    return "counted anew"


def _differences(found: dict[str, object]) -> Iterator[str]:
    for name, pair in _pairs(found.get("counts")):
        yield f"{name} is {pair[0]} and should be {pair[1]}"
    deps = list(_pairs(found.get("open_deps")))
    if deps:
        anchor, pair = deps[0]
        more = f" and {len(deps) - 1} more" if len(deps) > 1 else ""
        yield f"{anchor}{more} waits for {pair[0]} steps and should wait for {pair[1]}"
    substeps = found.get("substeps")
    if isinstance(substeps, list):
        yield f"not held as their step is: {listing(substeps)}"
    status = found.get("status")
    if isinstance(status, list):
        yield f"it is {status[0]} and should be {status[1]}"


def _pairs(values: object) -> Iterator[tuple[str, list[object]]]:
    if isinstance(values, dict):
        yield from values.items()


def records(subject: Subject) -> Iterator[DoctorFinding]:
    """Find rows that contradict each other."""
    for plan in record.plans(subject.store):
        hint = f"tugcode show {plan_argument(plan)} --checklist"
        for kind, anchor, count in plans.contradictions(subject.store, plan):
            number = many(count, kind.removesuffix("s"))
            yield error(f"{plan}: {anchor} {_PROBLEMS[kind].format(number)}", hint=hint)


def backup(subject: Subject) -> Iterator[DoctorFinding]:
    """Check that the backup is there and sound."""
    path = os.path.join(subject.copies, "backup.db")
    file = file_store(subject.live)
    if file is None or not record.plans(subject.store):
        return

    def repair() -> str:
        trouble = file.back_up()
        return trouble or f"made {path}"

    hint = "tugcode doctor --fix"
    if not os.path.lexists(path):
        yield note("there is no backup of the database yet", hint=hint, repair=repair)
        return
    try:
        sound = health.is_sound(path)
    except TugError as newer:
        yield warning(f"the backup cannot be used: {newer.message}", hint=newer.hint)
        return
    if not sound:
        yield warning(f"the backup {path} is damaged", hint=hint, repair=repair)


def open_intents(subject: Subject) -> Iterator[DoctorFinding]:
    """Find intents whose process has ended."""
    rows = build.own_intents(subject.repo, subject.store)
    making = bool(rows) and subject.is_making()
    for row in rows:
        if not (intent.is_running(row) if row["kind"] == "commit" else making):
            dash = os.path.basename(row["worktree"]).startswith(worktree.DASH_DIRECTORIES)
            told = _of_dash if dash else _KINDS.get(row["kind"], _other)
            yield told(subject, row)


def _commit(subject: Subject, row: Row) -> DoctorFinding:
    top = subject.top_of(row["worktree"])
    what = f"a commit for {row['step_anchor']} of {row['plan_path']} in {row['worktree']}"
    if top is None:
        said = f"{what} is unfinished, and the worktree is gone"
        return warning(said, hint=f"tugcode reconcile {plan_argument(row['plan_path'])} --dry-run")

    def repair() -> str:
        root = subject.repo.root
        site = CommitSite(
            subject.live,
            top=top,
            root=root,
            owner=row["worktree"],
            copy=lambda plan: plan_copy(plan, worktree=top, root=root, signed=False),
        )
        done = commit.finish_interrupted(site)
        return str(done["message"]) if done is not None else "another process has finished it"

    return warning(f"{what} is unfinished", hint="tugcode doctor --fix", repair=repair)


def _create(subject: Subject, row: Row) -> DoctorFinding:
    said = f"the worktree {row['worktree']} was being made for {row['plan_path']}, not to the end"
    return warning(said, hint="tugcode doctor --fix", repair=partial(_unmade, subject, row))


def _unmade(subject: Subject, row: Row) -> str:
    with worktree.worktrees_lock(subject.repo):
        build.repair_creations(subject.repo, subject.live)
    kept = os.path.lexists(row["worktree"])
    return "kept: it has work" if kept else "undone: it was removed"


def _remove(subject: Subject, row: Row) -> DoctorFinding:
    name = os.path.basename(row["worktree"])

    def repair() -> str:
        with worktree.worktrees_lock(subject.repo):
            remove.go_on(subject.repo, subject.live, row["worktree"], cwd=subject.cwd)
        return "finished"

    said = f"the removal of {row['worktree']} is unfinished"
    return warning(said, hint=f"tugcode worktree remove {quoted(name)}", repair=repair)


def _merge(subject: Subject, row: Row) -> DoctorFinding:
    plan = str(row["plan_path"])

    def repair() -> str:
        done = merge.finish_interrupted(subject.repo, subject.live, plan, actor=subject.actor)
        return "finished" if done else "forgotten: nothing had moved"

    said = f"the merge of {plan} is unfinished"
    return warning(said, hint="tugcode doctor --fix", repair=repair)


def _of_dash(subject: Subject, row: Row) -> DoctorFinding:
    """Find an unfinished command of a dash. What needs no decision is repaired here."""
    name = os.path.basename(row["worktree"]).removeprefix(worktree.DASH_DIRECTORIES)
    acts: dict[str, Mend] = {
        "create": partial(_unmade, subject, row),
        "dash": partial(_finish_rounds, subject, name),
        "join": partial(_finish_join, subject, name),
    }
    act = acts.get(row["kind"])
    words = {"dash": "commit", "remove": "release"}.get(row["kind"], row["kind"])
    said = f"dash {words} of {name} is unfinished"
    hint = f"tugcode dash release {quoted(name)}" if act is None else "tugcode doctor --fix"
    return warning(said, hint=hint, repair=act)


def _finish_rounds(subject: Subject, name: str) -> str:
    repo, store = subject.repo, subject.live
    with dash.alone(dash.directory_of(repo, name)):
        ground = Dash(repo, store, dashes.require(store, name))
        before = len(dashes.rounds(store, ground.row))
        rounds.finish_interrupted(ground)
        made = len(dashes.rounds(store, ground.row)) > before
    return "finished: its round is recorded" if made else "undone: git has no commit of it"


def _finish_join(subject: Subject, name: str) -> str:
    with worktree.worktrees_lock(subject.repo):
        done = dash.repair_join(subject.repo, subject.live)
    if name in done:
        return f"finished: it is joined as {done[name]['joined_commit']}"
    return "undone: its base branch had not moved"


def _other(subject: Subject, row: Row) -> DoctorFinding:
    said = f"{row['kind']} in {row['worktree']} is unfinished"
    return warning(f"{said}; the same command again finishes it", hint="tugcode worktree list")


#: Kind of intent -> its check.
_KINDS: dict[str, Callable[[Subject, Row], DoctorFinding]] = {
    "commit": _commit,
    "create": _create,
    "merge": _merge,
    "remove": _remove,
}
