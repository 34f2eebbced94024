"""List, show, apply and prune saved work."""

from __future__ import annotations

from tugtool.errors import GitFailed, listing, quoted
from tugtool.errors.git import MainWorktree, NoSuchSalvage, NotApplied
from tugtool.errors.state import PeopleOnly
from tugtool.git import command as git
from tugtool.git import merge_tree, refs
from tugtool.state import attempts, worktrees
from tugtool.system import config, os
from tugtool.workflow import salvage, worktree
from tugtool.workflow.commit import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tugtool import schemas
    from tugtool.git import Repository
    from tugtool.store import Store
    from tugtool.workflow.workspace import Workspace


#: Exact changes: no guessed renames, no diff program of the person's own.
_EXACT = ("--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
#: Five fields of a ref; none can contain the separator.
_FORM = "%(refname)%00%(objectname)%00%(parent)%00%(committerdate:unix)%00%(contents)%00"


class Salvage:
    """A salvage ref, its commit, and the facts in its message."""

    __slots__ = ("commit", "facts", "is_whole", "parents", "ref", "seconds")

    def __init__(self, ref: str, commit: str, parents: str, seconds: str, message: str) -> None:
        self.ref, self.commit, self.parents = ref, commit, parents.split()
        self.seconds = int(seconds or 0)
        #: True if it holds a working tree; else it only keeps a branch.
        self.is_whole = message.startswith(salvage.TITLE)
        lines = message.split("\n") if self.is_whole else []
        pairs = (line.removeprefix(salvage.FACT).partition(": ") for line in lines)
        self.facts = {key: value for key, sep, value in pairs if sep}

    @property
    def name(self) -> str:
        """The ref without the common prefix."""
        return self.ref.removeprefix(f"{salvage.PREFIX}/")

    @property
    def base(self) -> str | None:
        """The commit that the work is based on; None if nothing was uncommitted."""
        return self.parents[0] if self.is_whole and self.parents else None

    def entry(self) -> schemas.WorktreeSalvageListSalvage:
        """Return the facts that need no look into the commit."""
        from tugtool.system import clock

        number = self.facts.get("Attempt", "")
        return {
            "salvage_ref": self.ref,
            "name": self.name,
            "commit": self.commit,
            "saved_at": clock.text(self.seconds * 1000),
            "plan_path": self.facts.get("Plan"),
            "step_anchor": self.facts.get("Step"),
            "attempt": int(number) if number.isdecimal() else None,
            "worktree": self._worktree(),
            "branch": self.facts.get("Branch"),
            "base_commit": self.base,
        }

    def _worktree(self) -> str | None:
        """The worktree it was saved from; on another machine `machine:path`."""
        path, machine = self.facts.get("Worktree"), self.facts.get("Machine")
        if path is None or machine in (None, salvage.own_name()):
            return path
        return f"{machine}:{path}"

    def is_of(self, plan: str) -> bool:
        """Return whether it seems to be saved from a worktree of the plan."""
        told = self.facts.get("Plan")
        if told is not None:
            return told == " ".join(plan.split())
        return self.name.startswith(f"{salvage.slug(plan)}/")


def every(repo: Repository) -> list[Salvage]:
    """Return all saved work by name, except where git has lost the commit."""
    done = git.attempt("for-each-ref", f"--format={_FORM}", f"{salvage.PREFIX}/", cwd=repo.root)
    if not done.status:
        return _parsed(done.out)
    # One broken ref makes the command fail for all, so leave broken ones out.
    lost = {issue["file"] for issue in broken(repo)}
    names = [ref for ref in salvage.commits(repo.root) if ref not in lost]
    words = ("for-each-ref", f"--format={_FORM}", *names)
    return _parsed(git.run(*words, cwd=repo.root)) if names else []


def broken(repo: Repository) -> list[schemas.Issue]:
    """Return a warning for each ref whose commit git has lost."""
    every = salvage.commits(repo.root)
    given = "".join(f"{commit}\n" for commit in every.values())
    # <object> <type> <size>, or <object> missing.
    known = git.run("cat-file", "--batch-check", cwd=repo.root, given=given).split("\n")
    return [
        {
            "code": "W114",
            "severity": "warning",
            "message": f"git has lost the commit {commit} of {ref}, and with it what was saved",
            "hint": f"git update-ref -d {quoted(ref)}",
            "file": ref,
        }
        for ref, commit in every.items()
        if f"{commit} missing" in known
    ]


def _parsed(out: str) -> list[Salvage]:
    fields = out.split("\0")[:-1]
    # Git ends each line, so the next name begins with a newline.
    return [
        Salvage(fields[n].lstrip("\n"), *fields[n + 1 : n + 5]) for n in range(0, len(fields), 5)
    ]


def list_salvages(repo: Repository, plan: str | None) -> schemas.WorktreeSalvageList:
    """Return the saved work of one plan or of all, the newest first."""
    found = [each for each in every(repo) if plan is None or each.is_of(plan)]
    found.sort(key=lambda each: (each.seconds, each.ref), reverse=True)
    data: schemas.WorktreeSalvageList = {
        "plan_path": plan,
        "salvages": [each.entry() for each in found],
    }
    settings = config.load(repo.root)
    if settings.is_set("remote.name"):
        data["more"] = salvage.fetch_command(settings.word("remote.name"))
    return data


def find_salvage(repo: Repository, given: str) -> Salvage:
    """Find saved work by its ref, its name, or the beginning of one."""
    known = {each: (each.ref, each.name, each.name.rpartition("/")[2]) for each in every(repo)}
    found = [each for each, names in known.items() if given in names]
    if given and not found:
        found = [each for each in known if any(name.startswith(given) for name in known[each])]
    if len(found) == 1:
        return found[0]
    from tugtool.system import text

    close = [each.name for each in found] or text.names(given, [each.name for each in known])
    foreign = given.startswith("refs/") and not given.startswith(f"{salvage.PREFIX}/")
    error = NoSuchSalvage(given, several=bool(found), close=close, foreign=foreign)
    settings = config.load(repo.root)
    if not found and not foreign and settings.is_set("remote.name"):
        # Another machine may have saved it.
        error.hint = salvage.fetch_command(settings.word("remote.name"))
    raise error


def show_salvage(
    repo: Repository, given: str, *, patch: bool = False
) -> schemas.WorktreeSalvageShow:
    """Return the files that it changed, and the size of each change."""
    found = find_salvage(repo, given)
    files = _files(repo, found)
    words = ("diff-tree", "-p", "--binary", *_EXACT, _start(repo, found), found.commit)
    return {
        **found.entry(),
        "files": files,
        "insertions": sum(each["insertions"] or 0 for each in files),
        "deletions": sum(each["deletions"] or 0 for each in files),
        "patch": git.run(*words, cwd=repo.root) if patch else None,
    }


def _start(repo: Repository, found: Salvage) -> str:
    if found.base is not None:
        return found.base
    # It was saved before the first commit, or it has no work.
    return salvage.empty_tree(repo.root) if found.is_whole else found.commit


def _files(repo: Repository, found: Salvage) -> list[Any]:
    ends = (_start(repo, found), found.commit)
    words = ("diff-tree", "-r", "-z", "--no-renames", "--numstat", *ends)
    counts: dict[str, list[int | None]] = {}
    for line in git.run(*words, cwd=repo.root).split("\0")[:-1]:
        *numbers, path = line.split("\t", 2)
        # Binary files have a dash.
        counts[path] = [int(number) if number.isdecimal() else None for number in numbers]
    return [
        {
            "path": path,
            "status": status,
            "insertions": counts[path][0],
            "deletions": counts[path][1],
        }
        for path, status in refs.changes(repo.root, *ends).items()
    ]


def apply_for_caller(space: Workspace, given: str) -> schemas.WorktreeSalvageApply:
    """Apply the work to the caller's worktree, which must not be the main one."""
    if space.worktree == space.repo.root:
        raise MainWorktree(space.worktree, plan=find_salvage(space.repo, given).facts.get("Plan"))
    return apply(space.repo, given, at=space.worktree)


def apply(repo: Repository, given: str, *, at: str) -> schemas.WorktreeSalvageApply:
    """Apply the work to a worktree, uncommitted; all of it or nothing."""
    worktree.require_git()
    found = find_salvage(repo, given)
    if not found.is_whole:
        raise NotApplied(found.ref, at, reason="it holds commits only, no uncommitted work")
    try:
        with salvage.WorktreeLock(at, seconds=PATIENCE_SECONDS), salvage.IndexCopy(at) as copy:
            now = copy.whole()
            merged = _merged(at, found, now)
            _write(at, copy.path, now, merged, found)
    except salvage.Unsalvageable as error:
        raise NotApplied(found.ref, at, reason=str(error)) from error
    paths = refs.changed_paths(at, now, merged)
    return {
        **found.entry(),
        "worktree_path": at,
        "files": paths,
        "already_there": not paths,
    }


#: How long to wait while another process saves or removes the worktree.
PATIENCE_SECONDS = 60


def _merged(at: str, found: Salvage, now: str) -> str:
    """Return the tree of the worktree's files with the saved changes; touch no file."""

    def commit(tree: str, *parents: str) -> str:
        return refs.commit_tree(at, tree, parents, "-\n", settings=salvage.AUTHOR)

    start = found.base or commit(salvage.empty_tree(at))
    done = merge_tree.commits(at, commit(now, start), commit(f"{found.commit}^{{tree}}", start))
    if done.files:
        reason = "both changed the same lines"
        raise NotApplied(found.ref, at, reason=reason, files=done.files)
    if done.refusal:
        raise NotApplied(found.ref, at, reason=done.refusal)
    return done.tree


def _write(at: str, index: str, now: str, merged: str, found: Salvage) -> None:
    """Change the files, not the index. Git checks all of them before it writes one."""
    ignored = _in_the_way(at, index, now, merged)
    if ignored:
        reason = "ignored files are in the way, which it would overwrite"
        raise NotApplied(found.ref, at, reason=reason, files=ignored)
    # In a sparse worktree, also write files that it leaves out.
    settings = ("core.sparseCheckout=false",)
    words = ("read-tree", "-m", "-u", now, merged)
    done = git.attempt(*words, cwd=at, index=index, settings=settings)
    if done.status:
        raise NotApplied(found.ref, at, reason=done.said.strip())


def _in_the_way(at: str, index: str, now: str, merged: str) -> list[str]:
    """Return ignored files that git would overwrite without a warning."""
    new = refs.changed_paths(at, now, merged, only_added=True)
    kinds = ("--others", "--ignored", "--exclude-standard", "--directory")
    ignored = git.run("ls-files", "-z", *kinds, cwd=at, index=index).split("\0")[:-1]
    files = {path for path in ignored if not path.endswith("/")}
    return sorted(path for path in new if _is_taken(at, path, files, ignored))


def _is_taken(at: str, path: str, files: set[str], ignored: list[str]) -> bool:
    parts = path.split("/")
    if any("/".join(parts[:n]) in files for n in range(1, len(parts) + 1)):
        return True
    place = os.path.join(at, path)
    if os.path.isdir(place) and not os.path.islink(place):
        return any(each.startswith(f"{path}/") for each in ignored)
    # It is inside an ignored directory.
    return os.path.lexists(place)


def prune(
    repo: Repository,
    store: Store,
    given: Sequence[str] = (),
    *,
    actor: str,
    dry_run: bool = False,
) -> schemas.WorktreeSalvagePrune:
    """Remove saved work that has landed, or that a person names."""
    if given and config.variable("TUGCODE_ATTEMPT") is not None:
        # Only a person may remove work that has not landed.
        hint = "tugcode worktree salvage list"
        raise PeopleOnly("worktree salvage prune with a name", hint=hint)
    named = [(name, find_salvage(repo, name)) for name in given]
    for name, each in named:
        if name not in (each.ref, each.name) and (why := _unlanded(repo, store, each)):
            raise NoSuchSalvage(name, several=False, close=[each.name], unlanded=why)
    data: schemas.WorktreeSalvagePrune = {"dry_run": dry_run, "pruned": [], "kept": []}
    for each in {each.ref: each for _, each in named}.values() if given else every(repo):
        reason = None if given else _unlanded(repo, store, each)
        if reason is None and not dry_run:
            reason = _dropped(repo, store, each, actor)
        data["pruned" if reason is None else "kept"].append({**each.entry(), "reason": reason})
    return data


def _unlanded(repo: Repository, store: Store, each: Salvage) -> str | None:
    """Return why it has to stay; None if a base branch surely has all of it."""
    names = _bases(repo, store, each)
    tips = [tip for name in names if (tip := refs.branch_tip(repo.root, name))]
    wanted = [each.commit, *each.parents]
    try:
        for tip in tips:
            if all(
                merge_tree.has_landed(repo.root, each, tip, log.repaired, log.PATH)
                for each in wanted
            ):
                return None
    except GitFailed as error:
        return error.message
    return (
        f"its work is not proven to be on {listing(names)}" if tips else "there is no base branch"
    )


def _bases(repo: Repository, store: Store, each: Salvage) -> list[str]:
    plan, names = each.facts.get("Plan"), []
    if plan is not None and store.exists():
        names = [str(row["base_branch"]) for row in worktrees.of_plan(store, plan)]
    current = refs.current_branch(repo.root)
    return list(dict.fromkeys([*names, *([current] if current else [])]))


def _dropped(repo: Repository, store: Store, each: Salvage, actor: str) -> str | None:
    """Delete the ref if it has not changed since; return git's message if that fails."""
    try:
        git.patiently("update-ref", "-d", each.ref, each.commit, cwd=repo.root)
    except GitFailed as error:
        return error.message
    if store.exists():
        attempts.forget_ref(store, each.ref, commit=each.commit, actor=actor)
    return None
