"""Checks of worktrees, branches and unsaved work."""

from __future__ import annotations

from functools import partial

from tugtool.errors import TugError, listing, plan_argument, quoted
from tugtool.git import command as git
from tugtool.git import git_dir, merge_tree, refs, trailers
from tugtool.git import worktrees as git_worktrees
from tugtool.state import attempts, intents, proofs, publication, record
from tugtool.state import dashes as state_dashes
from tugtool.state import worktrees as state_worktrees
from tugtool.store.sqlite import health
from tugtool.system import clock, os
from tugtool.workflow import salvage, worktree
from tugtool.workflow.commit import log
from tugtool.workflow.dash import is_elsewhere
from tugtool.workflow.doctor import note, warning
from tugtool.workflow.salvage import catch_up

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tugtool.store import Row
    from tugtool.workflow.doctor import DoctorFinding, Mend, Subject
    from tugtool.workflow.worktree import Worktree


def worktrees(subject: Subject) -> Iterator[DoctorFinding]:
    """Find worktrees that are recorded or known to git but missing, and locked ones."""
    if subject.is_making():
        # Another command creates or removes one, so it must look half done.
        return
    recorded = [
        tree for tree in worktree.trees(subject.repo, subject.store) if tree.row is not None
    ]
    for tree in recorded:
        yield from _lost(subject, tree)
    known = {path for tree in recorded for path in (tree.path, tree.elsewhere)}
    for facts in subject.worktrees()[1:]:
        yield from _odd(subject, facts, is_recorded=facts["worktree"] in known)


def _lost(subject: Subject, tree: Worktree) -> Iterator[DoctorFinding]:
    hint = f"tugcode worktree remove {quoted(tree.name)}"
    if not os.path.lexists(tree.path) and tree.elsewhere is not None:
        said = f"{tree.path} is recorded for {tree.plan}, and its branch is in {tree.elsewhere} now"
        said += "" if os.path.isdir(tree.elsewhere) else ", which is not there"
        yield warning(said, hint=worktree.way_back(subject.repo.root, tree.elsewhere, tree.path))
    elif not os.path.lexists(tree.path):
        said = f"{tree.path} is recorded for {tree.plan}, and its directory is gone"
        yield warning(f"{said}, unless it is on a disk that is not mounted", hint=hint)
    elif git_worktrees.trouble(subject.repo.common_dir, tree.path) is not None:
        # `directories` reports what is there instead.
        said = f"{tree.path} is recorded for {tree.plan}, and git does not know it as a worktree"
        yield warning(said, hint=f"ls -A {quoted(tree.path)}")


def _odd(
    subject: Subject, facts: Mapping[str, str], *, is_recorded: bool
) -> Iterator[DoctorFinding]:
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
        yield warning(said, hint=hint, repair=_pruning(subject, facts))


def _pruning(subject: Subject, facts: Mapping[str, str]) -> Mend | None:
    """Let git forget a worktree of ours whose directory is gone, if a branch has its commits."""
    path = facts["worktree"]
    ours = worktree.is_inside(subject.repo, path)
    if not ours or "branch" not in facts or os.path.lexists(path):
        return None

    def repair() -> str:
        git.patiently("worktree", "remove", path, cwd=subject.repo.root)
        return f"git has forgotten it; its branch {facts['branch']} is there"

    return repair


def directories(subject: Subject) -> Iterator[DoctorFinding]:
    """Find directories in `.tugtree/` that are not worktrees: git acts on the main one there."""
    if subject.is_making():
        return
    place = worktree.directory(subject.repo)
    names = sorted(os.listdir(place)) if os.path.isdir(place) else []
    # In this order: git knows a worktree before its directory exists.
    subject.forget_worktrees()
    known = {facts["worktree"] for facts in subject.worktrees()}
    for path in (os.path.join(place, name) for name in names):
        if not os.path.isdir(path) or os.path.islink(path):
            continue
        if not os.listdir(path):
            said = f"{path} is an empty directory, and no worktree"
            yield warning(said, hint=f"rmdir {quoted(path)}", repair=partial(_empty, path))
        else:
            yield from _stray(subject, path, is_known=path in known)


def _stray(subject: Subject, path: str, *, is_known: bool) -> Iterator[DoctorFinding]:
    wrong = git_worktrees.trouble(subject.repo.common_dir, path)
    marker = os.path.join(path, ".git")
    if is_known and wrong is None:
        return
    if os.path.isdir(marker):
        said = f"{path} has a repository of its own in it: its commits are on no branch of this one"
        yield warning(said, hint=f"git -C {quoted(path)} log --oneline --max-count=20")
    elif wrong == git_worktrees.UNMARKED:
        said = f"{path} has lost its .git: git works on the main worktree there"
        yield warning(said, hint="git worktree repair")
    elif is_known:
        yield warning(f"{path}: {wrong}", hint=f"ls -A {quoted(path)}")
    else:
        what = "" if os.path.lexists(marker) else ": git works on the main worktree there"
        said = f"git does not know {path} as a worktree{what}"
        yield warning(said, hint=f"ls -A {quoted(path)}")


def _empty(path: str) -> str:
    os.rmdir(path)
    return "removed"


def branches(subject: Subject) -> Iterator[DoctorFinding]:
    """Find plan branches without a worktree or record, and worktrees without their branch."""
    root = subject.repo.root
    trees = worktree.trees(subject.repo, subject.store)
    checked_out = {facts.get("branch") for facts in subject.worktrees()}
    away = state_worktrees.list_worktrees(subject.store, elsewhere=True)
    known = {tree.branch for tree in trees} | {row["branch"] for row in away}
    own = refs.branches(subject.repo.root, worktree.BRANCHES)
    for name, tip in own.items():
        if name not in checked_out | known:
            yield _lonely(root, name, tip)
    for tree in trees:
        if tree.row is not None and tree.exists and not refs.branch_tip(root, tree.branch):
            said = f"the branch {tree.branch} of {tree.path} is gone"
            yield warning(said, hint=f"git -C {quoted(tree.path)} status")
    for under in (worktree.BRANCHES, worktree.DASH_BRANCHES):
        taken = refs.in_the_way(root, under)
        if taken is not None:
            yield warning(taken, hint=f"git log --oneline --max-count=5 {under.rstrip('/')}")
    yield from _unrecorded(subject, own)


def _unrecorded(subject: Subject, own: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Find plans that only the commits on their branches name: the state was lost."""
    known = set(proofs.every_name(subject.store)) if subject.recorded else set()
    found: dict[str, str] = {}
    for name in own:
        for plan in _plans_on(subject.repo.root, name) - known:
            found.setdefault(plan, name)
    for plan, name in sorted(found.items()):
        word = plan_argument(plan)
        said = (
            f"{name} has commits for steps of {plan}, of which nothing is recorded; after tugcode "
            f"state init {word}, tugcode reconcile {word} --dry-run shows what they prove"
        )
        yield warning(said, hint=f"tugcode state init {word}")


def _plans_on(root: str, branch: str) -> set[str]:
    """Return the plans of a branch's commits that have not landed."""
    form = f"--format=%(trailers:key={trailers.PLAN},valueonly,unfold)"
    words = ("log", "--max-count=1000", form, f"HEAD..refs/heads/{branch}", "--")
    done = git.attempt(*words, cwd=root, settings=trailers.SETTINGS)
    return {line for line in done.out.splitlines() if line} if not done.status else set()


def _lonely(root: str, name: str, tip: str) -> DoctorFinding:
    if merge_tree.has_landed(root, tip, "HEAD", log.repaired, log.PATH):
        said = f"the branch {name} has landed, and no worktree has it"
        return note(said, hint="tugcode worktree cleanup --dry-run")
    said = f"the branch {name} has commits that have not landed, and no worktree has it"
    return warning(said, hint=f"git log --oneline HEAD..{quoted(name)}")


def dashes(subject: Subject) -> Iterator[DoctorFinding]:
    """Find active dashes whose worktree or branch is gone."""
    every = state_dashes.every(subject.store, ended=False)
    own = (row for row in every if not is_elsewhere(subject.repo, subject.store, row))
    for row in own:
        path = os.path.join(subject.repo.root, row["worktree"])
        if intents.find_intent(subject.store, "remove", path) is not None:
            # It is being released, which `intents` reports.
            continue
        gone = [] if os.path.isdir(path) else [f"worktree {path}"]
        if not refs.branch_tip(subject.repo.root, row["branch"]):
            gone.append(f"branch {row['branch']}")
        for what in gone:
            said = f"the dash {row['name']} is under way, and its {what} is gone"
            yield warning(said, hint=f"tugcode dash show {row['name']}")


#: A younger file may belong to a running process.
STALE_SECONDS = 3600
#: The index before `commit` added to it.
_INDEX = "tugtool-index"
_NOTHING = "there was nothing to save"


def unsaved(subject: Subject) -> Iterator[DoctorFinding]:
    """Find attempts whose step was taken and whose work is not saved yet."""
    for row in attempts.list_unsaved(subject.store):
        said = (
            f"what attempt {row['number']} at {row['step_anchor']} of {row['plan_path']} left in "
            f"{row['worktree']} was not saved yet"
        )
        hint = f"tugcode why {plan_argument(row['plan_path'])} {quoted(row['step_anchor'])}"
        yield warning(said, hint=hint, repair=partial(_catch_up, subject, row))


def unpublished(subject: Subject) -> Iterator[DoctorFinding]:
    """Find completed steps of this machine whose commits the remote lacks."""
    if not subject.settings.is_set("remote.name"):
        return
    name = subject.settings.word("remote.name")
    for row in publication.own_unpublished(subject.store):
        because = f": {row['problem']}" if row["problem"] else ""
        said = f"the commit of {row['step_anchor']} of {row['plan_path']} is not on {name}{because}"
        repair = partial(_publish, subject, row)
        yield warning(said, hint="tugcode worktree publish", repair=repair)


def _publish(subject: Subject, row: Row) -> str:
    from tugtool.workflow import remote

    to = remote.remote_of(subject.repo.root)
    assert to is not None
    done = remote.Publisher(to, subject.live, subject.repo.root, subject.actor).run([row])
    refused = next((each.refusal for each in done if each.refusal), None)
    if refused is not None:
        return f"not done: {remote.meaning(refused)}"
    return "pushed" if done else "not done: its branch is not in this clone"


def salvages(subject: Subject) -> Iterator[DoctorFinding]:
    """Find saved work whose objects git has lost."""
    root, known = subject.repo.root, ("--not", "--branches")
    every = refs.named(root, f"{salvage.PREFIX}/")
    if refs.missing(root, *every.values(), *known) is None:
        return
    for ref, commit in every.items():
        said = refs.missing(root, commit, *known)
        if said is not None:
            said = f"what was saved as {ref} is not whole ({said}); git update-ref -d drops the ref"
            yield warning(said, hint="git fsck --connectivity-only")


def _catch_up(subject: Subject, row: Row) -> str:
    wanted = (row["plan_path"], row["step_anchor"], row["number"])
    for done in catch_up.catch_up(subject.repo, subject.live):
        if (done["plan_path"], done["step_anchor"], done["attempt"]) == wanted:
            problem, ref = done["problem"], done["salvage_ref"]
            return f"not done: {problem}" if problem else f"saved as {ref}" if ref else _NOTHING
    return "saved already"


def uncommitted(subject: Subject) -> Iterator[DoctorFinding]:
    """Find worktrees of plans with changed files that belong to no held step."""
    now = record.now(subject.store)
    for tree in worktree.trees(subject.repo, subject.store):
        row = tree.row
        if row is None or not tree.exists or (row["reserved_until"] or "") >= now:
            continue
        if state_worktrees.claimed_steps(subject.store, tree.owner):
            continue
        changed = [entry[3:] for entry in worktree.changes(tree.path)]
        if changed:
            said = f"{tree.path} holds no step, and has uncommitted files: {listing(changed, 3)}"
            yield warning(said, hint=f"git -C {quoted(tree.path)} status")


def leftovers(subject: Subject) -> Iterator[DoctorFinding]:
    """Find temporary files of ours that a killed process left."""
    for path in _temporary(subject):
        if not clock.is_fresh(path, STALE_SECONDS):
            said = f"{path} was left by a process that was killed"
            hint = f"ls -ld {quoted(path)}"
            yield note(said, hint=hint, repair=partial(_delete, path))


def git_locks(subject: Subject) -> Iterator[DoctorFinding]:
    """Find git locks that are over an hour old: their git was killed."""
    for path in sorted(git_worktrees.locks(subject.repo.common_dir)):
        if clock.is_fresh(path, STALE_SECONDS):
            continue
        said = (
            f"{path} keeps git from working, and is over an hour old: its git was killed, it seems"
        )
        yield warning(said, hint=f"ls -l {quoted(path)}", repair=partial(_unlock, subject, path))


def _unlock(subject: Subject, path: str) -> str:
    every = (facts["worktree"] for facts in subject.worktrees())
    dropped = git_worktrees.drop([path], (subject.repo.common_dir, *every))
    return "removed" if dropped else "not done: a git is running, and may have made it"


def _temporary(subject: Subject) -> Iterator[str]:
    repo = subject.repo
    yield from health.leftovers(subject.copies)
    for directory in (subject.copies, os.path.join(repo.common_dir, "info")):
        yield from _named(directory, ".tug-", ".tmp")
    for top in (facts["worktree"] for facts in subject.worktrees()):
        yield from _named(os.path.join(top, ".tugtool"), ".tug-", ".tmp")
        inner = _git_dir(top)
        if inner is not None:
            yield from _named(inner, "index.tug-", "")
            if not _is_committing(subject, top):
                yield from _named(inner, _INDEX, "")


def _git_dir(top: str) -> str | None:
    try:
        return git_dir(top)
    except TugError:
        return None


def _is_committing(subject: Subject, top: str) -> bool:
    """Return whether a commit there is unfinished and needs the index."""
    if subject.unread is not None or not subject.recorded:
        return True
    return intents.find_intent(subject.store, "commit", top) is not None


def _named(directory: str, start: str, end: str) -> Iterator[str]:
    for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else ():
        if name.startswith(start) and name.endswith(end):
            yield os.path.join(directory, name)


def _delete(path: str) -> str:
    import shutil

    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)
    return "deleted"
