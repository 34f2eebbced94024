"""What was saved: which refs there are, what is in them, and how it comes back, or goes."""

from __future__ import annotations

import os

from tugtool import base, git, landed, salvage
from tugtool.errors import GitFailed, listing
from tugtool.git_errors import NoSuchSalvage, NotApplied
from tugtool.plan import catalog
from tugtool.state import record
from tugtool.store import sql, sql_git
from tugtool.worktree import naming, survey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tugtool.repository import Repository
    from tugtool.store import Store

    Data = dict[str, Any]

#: Of git's letters for what became of a path.
_STATUS = {"A": "added", "D": "deleted", "M": "modified", "T": "type_changed"}
#: Exactly what was changed: no renames guessed, no program of the person's own.
_EXACT = ("--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
#: Five fields of a ref, none of which can hold the separator.
_FORM = "%(refname)%00%(objectname)%00%(parent)%00%(committerdate:unix)%00%(contents)%00"


class Salvage:
    """One ref, its commit, and what its message says."""

    __slots__ = ("commit", "facts", "is_whole", "parents", "ref", "seconds")

    def __init__(self, ref: str, commit: str, parents: str, seconds: str, message: str) -> None:
        self.ref, self.commit, self.parents = ref, commit, parents.split()
        self.seconds = int(seconds or 0)
        #: Whether it holds a working tree; else it is just a branch that was kept.
        self.is_whole = message.startswith(salvage.TITLE)
        lines = message.split("\n") if self.is_whole else []
        pairs = (line.removeprefix(salvage.FACT).partition(": ") for line in lines)
        self.facts = {key: value for key, sep, value in pairs if sep}

    @property
    def name(self) -> str:
        """The ref without what all of them begin with."""
        return self.ref.removeprefix(f"{salvage.PREFIX}/")

    @property
    def base(self) -> str | None:
        """The commit that the work was done on; None where nothing was uncommitted."""
        return self.parents[0] if self.is_whole and self.parents else None

    def entry(self) -> Data:
        """All that is known without looking into it."""
        from tugtool import clock

        number = self.facts.get("Attempt", "")
        return {
            "salvage_ref": self.ref,
            "name": self.name,
            "commit": self.commit,
            "saved_at": clock.text(self.seconds * 1000),
            "plan_path": self.facts.get("Plan"),
            "step_anchor": self.facts.get("Step"),
            "attempt": int(number) if number.isdecimal() else None,
            "worktree": self.facts.get("Worktree"),
            "branch": self.facts.get("Branch"),
            "base_commit": self.base,
        }

    def is_of(self, plan: str) -> bool:
        """Whether it was saved from a worktree of the plan, as far as can be seen."""
        told = self.facts.get("Plan")
        if told is not None:
            return told == " ".join(plan.split())
        slug = naming.safe(catalog.slug_of(os.path.basename(plan)))
        return self.name.startswith(f"{slug}/")


def every(repo: Repository) -> list[Salvage]:
    """All there are, by name."""
    words = ("for-each-ref", f"--format={_FORM}", f"{salvage.PREFIX}/")
    fields = git.run(*words, cwd=repo.root).split("\0")[:-1]
    # Git ends each line, and so the next one's name begins with that.
    return [
        Salvage(fields[n].lstrip("\n"), *fields[n + 1 : n + 5]) for n in range(0, len(fields), 5)
    ]


def listed(repo: Repository, plan: str | None) -> Data:
    """What was saved, of one plan or of all, the newest first."""
    found = [each for each in every(repo) if plan is None or each.is_of(plan)]
    found.sort(key=lambda each: (each.seconds, each.ref), reverse=True)
    return {"plan_path": plan, "salvages": [each.entry() for each in found]}


def named(repo: Repository, given: str) -> Salvage:
    """The one that is meant: by its ref, its name, or the beginning of one."""
    known = every(repo)
    for fits in (_is_called, _begins):
        found = [each for each in known if fits(each, given)]
        if len(found) == 1:
            return found[0]
        if found:
            break
    from tugtool import nearest

    close = [each.name for each in found] or nearest.names(given, [each.name for each in known])
    raise NoSuchSalvage(given, several=bool(found), close=close, foreign=_is_foreign(given))


def _is_called(each: Salvage, given: str) -> bool:
    return given in (each.ref, each.name, each.name.rpartition("/")[2])


def _begins(each: Salvage, given: str) -> bool:
    names = (each.ref, each.name, each.name.rpartition("/")[2])
    return given != "" and any(name.startswith(given) for name in names)


def _is_foreign(given: str) -> bool:
    return given.startswith("refs/") and not given.startswith(f"{salvage.PREFIX}/")


def shown(repo: Repository, given: str, *, patch: bool = False) -> Data:
    """What is in it: which files it changed, and by how much."""
    found = named(repo, given)
    files = _files(repo, found)
    return {
        **found.entry(),
        "files": files,
        "insertions": sum(each["insertions"] or 0 for each in files),
        "deletions": sum(each["deletions"] or 0 for each in files),
        "patch": _patch(repo, found) if patch else None,
    }


def _start(repo: Repository, found: Salvage) -> str:
    if found.base is not None:
        return found.base
    # Saved before there was any commit, or no work at all.
    empty = git.run("hash-object", "-t", "tree", "-w", "--stdin", cwd=repo.root).strip()
    return empty if found.is_whole else found.commit


def _files(repo: Repository, found: Salvage) -> list[Data]:
    start = _start(repo, found)
    words = ("diff-tree", "-r", "-z", "--no-renames")
    told = git.run(*words, "--name-status", start, found.commit, cwd=repo.root)
    fields = told.split("\0")[:-1]
    numbers = git.run(*words, "--numstat", start, found.commit, cwd=repo.root).split("\0")[:-1]
    counts = {path: (more, less) for more, less, path in (n.split("\t", 2) for n in numbers)}
    pairs = zip(fields[::2], fields[1::2], strict=True)
    return [
        {
            "path": path,
            "status": _STATUS.get(letter, "modified"),
            # A dash for binary files.
            "insertions": _number(counts[path][0]),
            "deletions": _number(counts[path][1]),
        }
        for letter, path in pairs
    ]


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _patch(repo: Repository, found: Salvage) -> str:
    words = ("diff-tree", "-p", "--binary", *_EXACT, _start(repo, found), found.commit)
    return git.run(*words, cwd=repo.root)


def apply(repo: Repository, given: str, *, at: str) -> Data:
    """Bring the work into a worktree, uncommitted as it was; all of it, or nothing."""
    survey.require_git()
    found = named(repo, given)
    if not found.is_whole:
        raise NotApplied(found.ref, at, reason="it holds commits only, no uncommitted work")
    try:
        with salvage.Guard(at, seconds=PATIENCE_SECONDS), salvage.Copy(at) as copy:
            now = copy.whole()
            merged = _merged(at, found, now)
            _write(at, copy.path, now, merged, found)
    except salvage.Unsalvageable as error:
        raise NotApplied(found.ref, at, reason=str(error)) from error
    out = git.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", now, merged, cwd=at)
    paths = out.split("\0")[:-1]
    return {
        **found.entry(),
        "worktree_path": at,
        "files": paths,
        "already_there": not paths,
    }


#: For so long it waits while another process saves or removes the worktree.
PATIENCE_SECONDS = 60


def _merged(at: str, found: Salvage, now: str) -> str:
    """The tree of what lies there with the saved changes on top; nothing is touched for it."""
    start = found.base or _commit(at, git.run("mktree", cwd=at).strip())
    ours = _commit(at, now, start)
    theirs = _commit(at, f"{found.commit}^{{tree}}", start)
    words = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z")
    done = git.attempt(*words, ours, theirs, cwd=at)
    tree, *rest = done.out.split("\0")
    if done.status == 1:
        files = sorted(set(filter(None, rest)))
        raise NotApplied(found.ref, at, reason="both changed the same lines", files=files)
    if done.status:
        raise NotApplied(found.ref, at, reason=done.said.strip())
    return tree


def _commit(at: str, tree: str, *parents: str) -> str:
    """A commit that nothing leads to, for git to compare with."""
    full = git.run("rev-parse", "--verify", "--end-of-options", tree, cwd=at).split()[-1]
    words = [word for parent in parents for word in ("-p", parent)]
    author = ("user.name=Tugtool", "user.email=tugtool@localhost")
    return git.run("commit-tree", full, *words, cwd=at, given="-\n", settings=author).strip()


def _write(at: str, index: str, now: str, merged: str, found: Salvage) -> None:
    """Change the files, not the index; git looks at all of them before it writes one."""
    ignored = _in_the_way(at, index, now, merged)
    if ignored:
        reason = "ignored files are in the way, which it would overwrite"
        raise NotApplied(found.ref, at, reason=reason, files=ignored)
    # A sparse worktree gets what was saved also where it leaves files out.
    settings = ("core.sparseCheckout=false",)
    words = ("read-tree", "-m", "-u", now, merged)
    done = git.attempt(*words, cwd=at, index=index, settings=settings)
    if done.status:
        raise NotApplied(found.ref, at, reason=done.said.strip())


def _in_the_way(at: str, index: str, now: str, merged: str) -> list[str]:
    """Ignored files where new ones have to go: git would overwrite them without a word."""
    words = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--diff-filter=A")
    new = git.run(*words, now, merged, cwd=at).split("\0")[:-1]
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
    # Within an ignored directory.
    return os.path.lexists(place)


def prune(
    repo: Repository,
    store: Store,
    given: Sequence[str] = (),
    *,
    actor: str,
    dry_run: bool = False,
) -> Data:
    """Drop what was saved and has landed, or what a person names."""
    chosen = list({each.ref: each for each in map(lambda name: named(repo, name), given)}.values())
    for name, each in ((name, named(repo, name)) for name in given):
        if name not in (each.ref, each.name) and (why := _unlanded(repo, store, each)):
            raise NoSuchSalvage(name, several=False, close=[each.name], unlanded=why)
    pruned: list[Data] = []
    kept: list[Data] = []
    for each in chosen or ([] if given else every(repo)):
        reason = None if chosen else _unlanded(repo, store, each)
        if reason is None and not dry_run:
            reason = _dropped(repo, store, each, actor)
        (pruned if reason is None else kept).append({**each.entry(), "reason": reason})
    return {"dry_run": dry_run, "pruned": pruned, "kept": kept}


def _unlanded(repo: Repository, store: Store, each: Salvage) -> str | None:
    """Why it has to stay, if it has to; None if all of it is on a base branch, beyond doubt."""
    names = _bases(repo, store, each)
    tips = [tip for name in names if (tip := base.commit_of(repo.root, f"refs/heads/{name}"))]
    wanted = [each.commit, *each.parents]
    for tip in tips:
        if all(landed.has_landed(repo.root, commit, tip) for commit in wanted):
            return None
    return (
        f"its work is not proven to be on {listing(names)}" if tips else "there is no base branch"
    )


def _bases(repo: Repository, store: Store, each: Salvage) -> list[str]:
    plan, names = each.facts.get("Plan"), []
    if plan is not None and store.exists():
        with store.read(plan) as tx:
            names = [str(row["base_branch"]) for row in tx.all(sql_git.WORKTREES_OF)]
    done = git.attempt("symbolic-ref", "--quiet", "HEAD", cwd=repo.root)
    names += [] if done.status else [done.out.strip().removeprefix("refs/heads/")]
    return list(dict.fromkeys(names))


def _dropped(repo: Repository, store: Store, each: Salvage, actor: str) -> str | None:
    """Take the ref away, if it still is what was looked at; what git says if not."""
    try:
        git.patiently("update-ref", "-d", each.ref, each.commit, cwd=repo.root)
    except GitFailed as error:
        return error.message
    if not store.exists():
        return None
    with store.read() as tx:
        rows = tx.all(sql_git.SALVAGED_AS, salvage_ref=each.ref)
    for row in rows:
        key = {"anchor": row["step_anchor"], "number": row["number"]}
        with store.write(row["plan_path"]) as tx:
            if tx.run(sql_git.SET_SALVAGE, **key, salvage_ref=None) and tx.first(sql.PLAN):
                record.note(
                    tx,
                    row["plan_path"],
                    "salvage_prune",
                    anchor=row["step_anchor"],
                    actor=actor,
                    attempt=row["number"],
                    salvage_ref=each.ref,
                    commit=each.commit,
                )
    return None
