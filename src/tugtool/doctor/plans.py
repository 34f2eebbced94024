"""Plans: whether their files are where and what they were, and whether they have landed."""

from __future__ import annotations

import os

from tugtool import base, files, git, landed, presence
from tugtool.doctor.finding import note, warning
from tugtool.errors import quoted
from tugtool.plan import fingerprint
from tugtool.state import hindsight
from tugtool.store import sql, sql_git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tugtool.doctor.finding import Finding
    from tugtool.doctor.patient import Patient
    from tugtool.store import Row


def gone(patient: Patient) -> Iterator[Finding]:
    """Plans whose file is nowhere, or not where the next claim looks for it."""
    with patient.store.read() as tx:
        keys = [str(row["plan_path"]) for row in tx.all(sql.PLANS)]
    places = presence.where(patient.repo, keys)
    for key in keys:
        if key not in places:
            said = f"{key} is recorded, and its file is on no branch and in no worktree"
            yield warning(said, hint="tugcode state prune --dry-run")
        elif not os.path.lexists(os.path.join(patient.repo.root, key)):
            yield from _not_in_main(patient, key)


def _not_in_main(patient: Patient, key: str) -> Iterator[Finding]:
    with patient.store.read(key) as tx:
        plan = tx.first(sql.PLAN)
    if plan is None or plan["status"] != "active":
        return
    root = patient.repo.root
    said = f"{key} is being carried out, and its file is not in {root}; claims from there fail"
    known = git.attempt("cat-file", "-e", f"HEAD:{key}", cwd=root).status == 0
    if known:
        # Somebody deleted it, by mistake more likely than not.
        said += "; git restore brings it back"
        yield warning(said, hint=f"git -C {quoted(root)} status --short -- {quoted(key)}")
    else:
        yield note(said, hint=f"git log --all --oneline -- {quoted(key)}")


def changed(patient: Patient) -> Iterator[Finding]:
    """Plans that are being carried out and whose text is another than was agreed."""
    for plan, trees in _with_trees(patient):
        if plan["status"] != "active":
            continue
        key = str(plan["plan_path"])
        tops = [patient.repo.root, *(patient.top_of(row["path"]) for row in trees)]
        for top in tops:
            path = os.path.join(top, key) if top else ""
            if top and os.path.lexists(path) and _hash(path) != plan["plan_hash"]:
                where = "" if top == patient.repo.root else f" in {top}"
                said = f"{key}{where} was changed since its execution began; claims are refused"
                at = "" if top == patient.repo.root else f" --worktree {quoted(top)}"
                yield warning(said, hint=f"tugcode state diff {quoted(key)}{at}")


def _hash(path: str) -> str:
    # Read whole, whatever its size: a plan that grew has changed, not broken.
    return fingerprint.of(files.read(path, max_bytes=1 << 30))


def _with_trees(patient: Patient) -> list[tuple[Row, list[Row]]]:
    """Every plan with the worktrees that are recorded for it."""
    with patient.store.read() as tx:
        keys = [row["plan_path"] for row in tx.all(sql.PLANS)]
        plans = [tx.first(sql.PLAN, plan=key) for key in keys]
        return [
            (plan, tx.all(sql_git.WORKTREES_OF, plan=plan["plan_path"]))
            for plan in plans
            if plan is not None
        ]


def merging(patient: Patient) -> Iterator[Finding]:
    """Plans that are done and have not landed, and work that has landed before its plan is done."""
    for plan, trees in _with_trees(patient):
        key = str(plan["plan_path"])
        if plan["status"] == "done" and plan["merged_commit"] is None and trees:
            hint = f"tugcode merge {quoted(key)} --dry-run"
            audit = hindsight.audit_of(patient.store, key)
            if audit is not None:
                hint = f"tugcode state review {quoted(key)}"
            but = "" if audit is None else f", nor approved: {audit['summary']}"
            yield note(f"{key} is done, and not merged{but}", hint=hint)
        if plan["status"] == "active":
            for tree in trees:
                if _landed(patient, tree):
                    said = f"{tree['branch']} is on {tree['base_branch']}, and {key} is not done"
                    hint = f"tugcode state reconcile {quoted(key)} --dry-run"
                    yield note(said, hint=hint)


def _landed(patient: Patient, tree: Row) -> bool:
    root = patient.repo.root
    tip, onto = (
        base.commit_of(root, f"refs/heads/{name}") for name in (tree["branch"], tree["base_branch"])
    )
    if tip is None or onto is None or tip == tree["base_commit"]:
        return False
    return landed.is_ancestor(root, tip, onto)
