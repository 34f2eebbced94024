"""Worktrees, directories and branches: each without the others it belongs to."""

from __future__ import annotations

import os

from tugtool import base, belonging, git, landed, trailers
from tugtool.doctor.finding import note, warning
from tugtool.errors import quoted
from tugtool.state import dashing
from tugtool.store import sql, sql_doctor
from tugtool.worktree import survey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tugtool.doctor.finding import Finding, Mend
    from tugtool.doctor.patient import Patient
    from tugtool.worktree.survey import Tree


def worktrees(patient: Patient) -> Iterator[Finding]:
    """What is recorded and not there, what git knows and is not there, and what is locked."""
    if patient.is_making():
        # Half-made and half-removed is what one of them must be.
        return
    recorded = [tree for tree in survey.trees(patient.repo, patient.store) if tree.row is not None]
    for tree in recorded:
        yield from _lost(patient, tree)
    known = {tree.path for tree in recorded}
    for facts in patient.worktrees()[1:]:
        yield from _odd(patient, facts, is_recorded=facts["worktree"] in known)


def _lost(patient: Patient, tree: Tree) -> Iterator[Finding]:
    hint = f"tugcode worktree remove {quoted(tree.name)}"
    if not os.path.lexists(tree.path):
        said = f"{tree.path} is recorded for {tree.plan}, and its directory is gone"
        yield warning(said, hint=hint)
    elif belonging.trouble(patient.repo.common_dir, tree.path) is not None:
        # What is there instead, `directories` says.
        said = f"{tree.path} is recorded for {tree.plan}, and is no worktree that git knows"
        yield warning(said, hint=f"ls -A {quoted(tree.path)}")


def _odd(patient: Patient, facts: Mapping[str, str], *, is_recorded: bool) -> Iterator[Finding]:
    path, locked = facts["worktree"], facts.get("locked")
    if locked == "initializing":
        said = f"git was stopped while it made the worktree {path}"
        yield warning(said, hint="git worktree list --verbose")
    elif locked is not None:
        why = f": {locked}" if locked else ""
        said = f"the worktree {path} is locked{why}; it is neither given out nor removed"
        yield note(said, hint="git worktree list --verbose")
    elif "prunable" in facts and not is_recorded:
        said = f"git knows a worktree {path} that is not there ({facts['prunable']})"
        hint = "git worktree prune --dry-run --verbose"
        yield warning(said, hint=hint, mend=_pruning(patient, facts))


def _pruning(patient: Patient, facts: Mapping[str, str]) -> Mend | None:
    """Let git forget one of ours, if its directory is gone and a branch has its commits."""
    path = facts["worktree"]
    ours = path.startswith(os.path.join(patient.repo.root, survey.DIRECTORY, ""))
    if not ours or "branch" not in facts or os.path.lexists(path):
        return None

    def mend() -> str:
        git.patiently("worktree", "remove", path, cwd=patient.repo.root)
        return f"git has forgotten it; its branch {facts['branch']} is there"

    return mend


def directories(patient: Patient) -> Iterator[Finding]:
    """What lies in `.tugtree/` and is no worktree: git would act on the repository around it."""
    if patient.is_making():
        return
    place = survey.directory(patient.repo)
    names = sorted(os.listdir(place)) if os.path.isdir(place) else []
    # In this order: git knows a worktree before there is a directory.
    patient.forget_worktrees()
    known = {facts["worktree"] for facts in patient.worktrees()}
    for path in (os.path.join(place, name) for name in names):
        if not os.path.isdir(path) or os.path.islink(path):
            continue
        if not os.listdir(path):
            said = f"{path} is an empty directory, and no worktree"
            yield warning(said, hint=f"rmdir {quoted(path)}", mend=_emptying(path))
        else:
            yield from _stray(patient, path, is_known=path in known)


def _stray(patient: Patient, path: str, *, is_known: bool) -> Iterator[Finding]:
    wrong = belonging.trouble(patient.repo.common_dir, path)
    marker = os.path.join(path, ".git")
    if is_known and wrong is None:
        return
    if os.path.isdir(marker):
        said = f"{path} has a repository of its own in it: its commits are on no branch of this one"
        yield warning(said, hint=f"git -C {quoted(path)} log --oneline --max-count=20")
    elif wrong == belonging.UNMARKED:
        said = f"{path} has lost its .git: git works on the main worktree from in there"
        yield warning(said, hint="git worktree repair")
    elif is_known:
        yield warning(f"{path}: {wrong}", hint=f"ls -A {quoted(path)}")
    else:
        what = "" if os.path.lexists(marker) else ": git works on the main worktree from in there"
        said = f"{path} is no worktree that git knows{what}"
        yield warning(said, hint=f"ls -A {quoted(path)}")


def _emptying(path: str) -> Mend:
    def mend() -> str:
        os.rmdir(path)
        return "removed"

    return mend


def branches(patient: Patient) -> Iterator[Finding]:
    """Branches of plans that no worktree or no record has, and worktrees whose branch is gone."""
    root = patient.repo.root
    trees = survey.trees(patient.repo, patient.store)
    checked_out = {facts.get("branch") for facts in patient.worktrees()}
    own = survey.branches(patient.repo)
    for name, tip in own.items():
        if name not in checked_out and name not in {tree.branch for tree in trees}:
            yield _lonely(root, name, tip)
    for tree in trees:
        if tree.row is not None and tree.exists and not _has(root, str(tree.branch)):
            said = f"the branch {tree.branch} of {tree.path} is gone"
            yield warning(said, hint=f"git -C {quoted(tree.path)} status")
    yield from _unrecorded(patient, own)


def _unrecorded(patient: Patient, own: Mapping[str, str]) -> Iterator[Finding]:
    """Plans that only the commits on their branches know of: the state was lost."""
    known: set[str] = set()
    if patient.recorded:
        with patient.store.read() as tx:
            known = {str(row["plan_path"]) for row in tx.all(sql.PLANS)}
    found: dict[str, str] = {}
    for name in own:
        for plan in _plans_on(patient.repo.root, name) - known:
            found.setdefault(plan, name)
    for plan, name in sorted(found.items()):
        said = (
            f"{name} has commits for steps of {plan}, of which nothing is recorded; after tugcode "
            f"state init {quoted(plan)}, tugcode state reconcile {quoted(plan)} --dry-run shows "
            "what they prove"
        )
        yield warning(said, hint=f"tugcode state init {quoted(plan)}")


def _plans_on(root: str, branch: str) -> set[str]:
    """The plans whose steps the commits of a branch were made for, as far as not landed."""
    form = f"--format=%(trailers:key={trailers.PLAN},valueonly,unfold)"
    words = ("log", "--max-count=1000", form, f"HEAD..refs/heads/{branch}", "--")
    done = git.attempt(*words, cwd=root, settings=trailers.SETTINGS)
    return {line for line in done.out.splitlines() if line} if not done.status else set()


def _has(root: str, branch: str) -> bool:
    return base.commit_of(root, f"refs/heads/{branch}") is not None


def _lonely(root: str, name: str, tip: str) -> Finding:
    if landed.has_landed(root, tip, "HEAD"):
        said = f"the branch {name} has landed, and no worktree has it"
        return note(said, hint="tugcode worktree cleanup --dry-run")
    said = f"the branch {name} has commits that have not landed, and no worktree has it"
    return warning(said, hint=f"git log --oneline HEAD..{quoted(name)}")


def dashes(patient: Patient) -> Iterator[Finding]:
    """Small work that is under way, and whose worktree or branch is gone."""
    with patient.store.read() as tx:
        rows = tx.all(sql_doctor.ACTIVE_DASHES)
    for row in rows:
        path = os.path.join(patient.repo.root, row["worktree"])
        if dashing.intents(patient.store, "remove", path):
            # On its way out, which `intents` tells of.
            continue
        if not os.path.isdir(path):
            said = f"the dash {row['name']} is under way, and its worktree {path} is gone"
            yield warning(said, hint=f"tugcode dash show {row['name']}")
        if not _has(patient.repo.root, row["branch"]):
            said = f"the dash {row['name']} is under way, and its branch {row['branch']} is gone"
            yield warning(said, hint=f"tugcode dash show {row['name']}")
