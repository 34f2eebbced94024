"""What somebody was about to do and did not get to the end of: finished, or undone.

Which of the two is for git to say, as the next command of that kind would decide it.
"""

from __future__ import annotations

import os

from tugtool import commit, intent, merge, repository
from tugtool.dash import mending, names, rounds
from tugtool.dash.ground import Alone, Ground
from tugtool.doctor.finding import warning
from tugtool.errors import quoted
from tugtool.intent import Site
from tugtool.state import dashing
from tugtool.store import sql_doctor
from tugtool.worktree import removing, survey, undoing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from tugtool.doctor.finding import Finding
    from tugtool.doctor.patient import Patient
    from tugtool.repository import Repository
    from tugtool.store import Row, Store


def open_intents(patient: Patient) -> Iterator[Finding]:
    """Every intent whose process is not there any more, as far as can be told."""
    with patient.store.read() as tx:
        rows = tx.all(sql_doctor.EVERY_INTENT)
    making = bool(rows) and patient.is_making()
    for row in rows:
        if not _is_under_way(row, making=making):
            dash = os.path.basename(row["worktree"]).startswith(survey.DASH_DIRECTORIES)
            told = _of_dash if dash else _KINDS.get(row["kind"], _other)
            yield told(patient, row)


def _is_under_way(row: Row, *, making: bool) -> bool:
    if row["kind"] == "commit":
        return intent.is_running(row)
    return making


def _commit(patient: Patient, row: Row) -> Finding:
    top = patient.top_of(row["worktree"])
    what = f"a commit for {row['step_anchor']} of {row['plan_path']} in {row['worktree']}"
    if top is None:
        said = f"{what} did not come to its end, and the worktree is gone"
        return warning(said, hint=f"tugcode state reconcile {quoted(row['plan_path'])} --dry-run")

    def mend() -> str:
        done = commit.settle(_site(patient, top, row["worktree"]))
        return str(done["message"]) if done is not None else "somebody else has"

    return warning(f"{what} did not come to its end", hint="tugcode doctor --fix", mend=mend)


def _site(patient: Patient, top: str, owner: str) -> Site:
    return Site(
        patient.live,
        top=top,
        git_dir=repository.git_dir(top),
        root=patient.repo.root,
        owner=owner,
        copy=lambda plan: patient.copy(top, plan),
    )


def _create(patient: Patient, row: Row) -> Finding:
    def mend() -> str:
        return _unmade(patient, row)

    said = f"the worktree {row['worktree']} was being made for {row['plan_path']}, not to the end"
    return warning(said, hint="tugcode doctor --fix", mend=mend)


def _unmade(patient: Patient, row: Row) -> str:
    _locked(patient, lambda: undoing.mend(patient.repo, patient.live))
    kept = os.path.lexists(row["worktree"])
    return "kept: somebody has worked there" if kept else "undone: it was taken away again"


def _remove(patient: Patient, row: Row) -> Finding:
    name = os.path.basename(row["worktree"])

    def mend() -> str:
        _locked(
            patient,
            lambda: removing.go_on(patient.repo, patient.live, row["worktree"], cwd=patient.cwd),
        )
        return "finished"

    said = f"the removal of {row['worktree']} did not come to its end"
    return warning(said, hint=f"tugcode worktree remove {quoted(name)}", mend=mend)


def _merge(patient: Patient, row: Row) -> Finding:
    plan = str(row["plan_path"])

    def mend() -> str:
        done = merge.settle(patient.repo, patient.live, plan, actor=patient.actor)
        return "finished" if done else "forgotten: nothing had moved"

    said = f"the merge of {plan} did not come to its end"
    return warning(said, hint="tugcode doctor --fix", mend=mend)


def _of_dash(patient: Patient, row: Row) -> Finding:
    """Its own commands finish it; what needs nobody's word is done here too."""
    name = os.path.basename(row["worktree"]).removeprefix(survey.DASH_DIRECTORIES)
    repo = patient.repo
    acts: dict[str, Callable[[], str]] = {
        "create": lambda: _unmade(patient, row),
        "dash": lambda: _settle_rounds(repo, patient.live, name),
        "join": lambda: _settle_join(patient, name),
    }
    act = acts.get(row["kind"])
    words = {"dash": "commit", "remove": "release"}.get(row["kind"], row["kind"])
    said = f"dash {words} of {name} did not come to its end"
    hint = f"tugcode dash release {quoted(name)}" if act is None else "tugcode doctor --fix"
    return warning(said, hint=hint, mend=act)


def _settle_rounds(repo: Repository, store: Store, name: str) -> str:
    with Alone(names.path(repo, name)):
        ground = Ground(repo, store, dashing.require(store, name))
        before = len(dashing.rounds(store, ground.row))
        rounds.settle(ground)
        made = len(dashing.rounds(store, ground.row)) > before
    return "finished: its round is recorded" if made else "undone: git has no commit of it"


def _settle_join(patient: Patient, name: str) -> str:
    done: dict[str, dict[str, Any]] = {}
    _locked(patient, lambda: done.update(mending.mend(patient.repo, patient.live)))
    if name in done:
        return f"finished: it is joined as {done[name]['joined_commit']}"
    return "undone: its base branch had not moved"


def _other(patient: Patient, row: Row) -> Finding:
    said = f"{row['kind']} in {row['worktree']} did not come to its end"
    return warning(f"{said}; the same command again finishes it", hint="tugcode worktree list")


def _locked(patient: Patient, act: Callable[[], object]) -> None:
    queue = survey.lock(patient.repo)
    queue.enter()
    try:
        act()
    finally:
        queue.leave()


#: Kind -> who knows about it.
_KINDS: dict[str, Callable[[Patient, Row], Finding]] = {
    "commit": _commit,
    "create": _create,
    "merge": _merge,
    "remove": _remove,
}
