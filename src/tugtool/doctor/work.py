"""Work that nobody has committed or saved, and files that nobody will finish."""

from __future__ import annotations

import os

from tugtool import clock, repository, salvaging
from tugtool.doctor.finding import note, warning
from tugtool.errors import TugError, listing, quoted
from tugtool.presence import worktrees
from tugtool.state.record import storable
from tugtool.store import checking, sql_doctor, sql_git
from tugtool.worktree import survey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tugtool.doctor.finding import Finding, Mend
    from tugtool.doctor.patient import Patient
    from tugtool.store import Row

#: What is younger may be somebody's who is just at it.
STALE_SECONDS = 3600
#: The index as it was before `commit` added to it.
_INDEX = "tugtool-index"
_NOTHING = "there was nothing to save"


def unsaved(patient: Patient) -> Iterator[Finding]:
    """Attempts whose step was taken away, and whose work was not looked at since."""
    with patient.store.read() as tx:
        rows = tx.all(sql_git.EVERY_UNSAVED)
    for row in rows:
        said = (
            f"what attempt {row['number']} at {row['step_anchor']} of {row['plan_path']} left in "
            f"{row['worktree']} was not saved yet"
        )
        hint = f"tugcode state why {quoted(row['plan_path'])} {quoted(row['step_anchor'])}"
        yield warning(said, hint=hint, mend=_catching_up(patient, row))


def _catching_up(patient: Patient, row: Row) -> Mend:
    wanted = (row["plan_path"], row["step_anchor"], row["number"])

    def mend() -> str:
        for done in salvaging.catch_up(patient.repo, patient.live):
            if (done["plan_path"], done["step_anchor"], done["attempt"]) == wanted:
                problem, ref = done["problem"], done["salvage_ref"]
                return f"not done: {problem}" if problem else f"saved as {ref}" if ref else _NOTHING
        return "saved already"

    return mend


def uncommitted(patient: Patient) -> Iterator[Finding]:
    """Worktrees of plans with changed files, and no step that they could belong to."""
    with patient.store.read() as tx:
        now = tx.now
    for tree in survey.trees(patient.repo, patient.store):
        row = tree.row
        if row is None or not tree.exists or (row["reserved_until"] or "") >= now:
            continue
        if survey.held(patient.store, tree.owner):
            continue
        changed = [entry[3:] for entry in survey.changes(tree.path)]
        if changed:
            said = f"{tree.path} holds no step, and has uncommitted files: {listing(changed, 3)}"
            yield warning(said, hint=f"git -C {quoted(tree.path)} status")


def leftovers(patient: Patient) -> Iterator[Finding]:
    """Temporary files of ours that a process left when it was killed."""
    for path in _temporary(patient):
        if not clock.is_fresh(path, STALE_SECONDS):
            said = f"{path} was left by a process that was killed"
            hint = f"ls -ld {quoted(path)}"
            yield note(said, hint=hint, mend=_deleting(path))


def _temporary(patient: Patient) -> Iterator[str]:
    repo = patient.repo
    yield from checking.leftovers(patient.copies)
    tops = worktrees(repo)
    for directory in (patient.copies, os.path.join(repo.common_dir, "info")):
        yield from _named(directory, ".tug-", ".tmp")
    for top in tops:
        yield from _named(os.path.join(top, ".tugtool"), ".tug-", ".tmp")
        inner = _git_dir(top)
        if inner is not None:
            yield from _named(inner, "index.tug-", "")
            if not _is_committing(patient, top):
                yield from _named(inner, _INDEX, "")


def _git_dir(top: str) -> str | None:
    try:
        return repository.git_dir(top)
    except TugError:
        return None


def _is_committing(patient: Patient, top: str) -> bool:
    """Whether a commit there has yet to come to its end: the index belongs to that."""
    if patient.unread is not None or not patient.recorded:
        return True
    with patient.store.read() as tx:
        intents = tx.all(sql_doctor.EVERY_INTENT)
    return any(row["kind"] == "commit" and row["worktree"] == storable(top) for row in intents)


def _named(directory: str, start: str, end: str) -> Iterator[str]:
    for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else ():
        if name.startswith(start) and name.endswith(end):
            yield os.path.join(directory, name)


def _deleting(path: str) -> Mend:
    def mend() -> str:
        import shutil

        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
        return "deleted"

    return mend
