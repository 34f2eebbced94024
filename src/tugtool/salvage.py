"""Work that nobody has committed, kept under a ref of its own."""

from __future__ import annotations

import os

from tugtool import clock, files, git, repository
from tugtool.errors import TugError
from tugtool.index import put

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

PREFIX = "refs/tug/salvage"
#: How every message begins; below it stand the facts, as trailers.
TITLE = "Salvaged from "
FACT = "Salvage-"
#: The commit is ours and not the person's, and must not fail for want of a name.
_AUTHOR = ("user.name=Tugtool", "user.email=tugtool@localhost", "i18n.commitEncoding=UTF-8")
#: What a person is told about files must not keep them from being saved.
_LENIENT = ("core.safecrlf=false", "advice.addEmbeddedRepo=false")
#: Where git keeps commits while a merge, a rebase or the like is under way in a worktree: the
#: changes that it has put aside are nowhere else.
_UNDER_WAY = (
    *("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "MERGE_AUTOSTASH"),
    *("rebase-merge/autostash", "rebase-merge/orig-head", "rebase-merge/stopped-sha"),
    *("rebase-apply/autostash", "rebase-apply/orig-head"),
)


class Unsalvageable(Exception):
    """Something in a working tree that no commit can hold."""


class Guard:
    """Only one process at a time saves or removes a worktree."""

    def __init__(self, worktree: str, *, seconds: float) -> None:
        self.worktree, self.seconds = worktree, seconds
        self._descriptor = -1

    def __enter__(self) -> Guard:
        import fcntl

        try:
            # Git's own directory of the worktree: nothing has to be made for it, or cleaned up.
            self._descriptor = os.open(repository.git_dir(self.worktree), os.O_RDONLY)
        except (OSError, TugError) as error:
            raise Unsalvageable(f"git's directory of it cannot be opened ({error})") from error
        for last in clock.tries(self.seconds):
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return self
            except OSError as error:
                if last:
                    os.close(self._descriptor)
                    raise Unsalvageable("another process is saving or removing it") from error
        raise AssertionError  # There is a last try.

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._descriptor)


def save(
    worktree: str,
    *,
    ref: str,
    also: Sequence[str | None] = (),
    facts: Mapping[str, object] | None = None,
) -> str:
    """Keep the whole worktree, ignored files aside, as one commit; its hash.

    HEAD is the commit's first parent. Further ones are the commits of `also`, what was staged
    and is different, and what git had put aside. The worktree and its index stay as they are.
    """
    head = _commit_of(worktree, "HEAD")
    tree, staged = _trees(worktree)
    name = os.path.basename(worktree)
    if staged is not None:
        also = [*also, _commit(worktree, staged, [head], f"Staged in {name}\n")]
    parents = [head, *also, *_under_way(worktree)]
    commit = _commit(worktree, tree, parents, _message(name, facts or {}))
    keep(worktree, ref=ref, commit=commit)
    return commit


def keep(top: str, *, ref: str, commit: str) -> None:
    """Let the ref name the commit; an older one is never written over."""
    git.patiently("update-ref", "-m", "tugcode: salvage", ref, commit, "", cwd=top)


def ref_for(slug: str, name: str, now: str, *, top: str) -> str:
    """A ref that is free: refs/tug/salvage/<plan slug>/<time>-<name>."""
    return again(top, named(slug, name, now))


def named(slug: str, name: str, now: str) -> str:
    """The ref's name, free or not."""
    time = now.replace("-", "").replace(":", "").replace(".", "")
    return f"{PREFIX}/{slug}/{time}-{name}"


def again(top: str, first: str) -> str:
    """The ref itself, or with -2, -3 where that is taken."""
    ref, number = first, 1
    while git.attempt("show-ref", "--verify", "--quiet", ref, cwd=top).status == 0:
        number += 1
        ref = f"{first}-{number}"
    return ref


def saved_tree(top: str, ref: str) -> str | None:
    """The tree that was saved under a ref, if there is one."""
    done = git.attempt("rev-parse", "--verify", "--quiet", f"{ref}^{{tree}}", cwd=top)
    return None if done.status else done.out.strip()


def tree_of(worktree: str) -> str:
    """The tree that `save` would keep."""
    return _trees(worktree)[0]


class Copy:
    """A copy of a worktree's index in which everything is added; taken away in the end."""

    def __init__(self, worktree: str, *, anew: bool = False) -> None:
        self.worktree, self.anew = worktree, anew
        where = git.run("rev-parse", "--git-path", "index", cwd=worktree).removesuffix("\n")
        self.index = os.path.join(worktree, where)
        self.path = f"{self.index}.tug-{os.urandom(6).hex()}"

    def __enter__(self) -> Copy:
        try:
            if self.anew:
                git.run("read-tree", _start(self.worktree), cwd=self.worktree, index=self.path)
            elif os.path.exists(self.index):
                # Sparse paths and what is known about unchanged files come along.
                put(self.index, self.path)
        except (OSError, TugError) as error:
            self.__exit__(None, None, None)
            raise Unsalvageable(str(error)) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if os.path.lexists(self.path):
            os.unlink(self.path)

    def staged(self) -> str | None:
        """The tree of what is staged, files in conflict aside: theirs are in commits."""
        done = git.attempt("write-tree", cwd=self.worktree, index=self.path)
        if not done.status:
            return done.out.strip()
        with Copy(self.worktree) as other:
            out = git.run("ls-files", "-z", "--unmerged", cwd=self.worktree, index=other.path)
            # <mode> <object> <stage>TAB<path>; mode 0 takes a path out.
            entries = [line.partition("\t") for line in out.split("\0")[:-1]]
            given = "".join(f"0 {'0' * len(e.split()[1])}\t{path}\0" for e, _, path in entries)
            words = ("update-index", "-z", "--index-info")
            git.run(*words, cwd=self.worktree, index=other.path, given=given)
            done = git.attempt("write-tree", cwd=self.worktree, index=other.path)
        return None if done.status else done.out.strip()

    def whole(self) -> str:
        """The tree of everything that lies there, ignored files aside."""
        try:
            words = ("add", "--all", "--sparse")
            git.run(*words, cwd=self.worktree, index=self.path, settings=_LENIENT)
            _refuse_nested(self.worktree, self.path)
            return git.run("write-tree", cwd=self.worktree, index=self.path).strip()
        except TugError as error:
            raise Unsalvageable(error.message) from error


def _trees(worktree: str) -> tuple[str, str | None]:
    """The tree of the whole worktree, and that of the index if it has something else."""
    try:
        readable = git.attempt("ls-files", "-z", "--unmerged", cwd=worktree).status == 0
        with Copy(worktree, anew=not readable) as copy:
            staged = copy.staged()
            tree = copy.whole()
    except TugError as error:
        raise Unsalvageable(error.message) from error
    known = (tree, saved_tree(worktree, "HEAD"), None)
    return tree, None if staged in known or staged == _empty(worktree) else staged


def _refuse_nested(worktree: str, index: str) -> None:
    """A repository inside would be kept as a bare number, and its work would be lost."""
    words = ("diff-index", "--cached", "-z", "--no-renames", _start(worktree))
    fields = git.run(*words, cwd=worktree, index=index).split("\0")
    # :<old mode> <new mode> <old> <new> <status>, then the path.
    pairs = zip(fields[::2], fields[1::2], strict=False)
    nested = [path for facts, path in pairs if facts.split()[1] == "160000"]
    if nested:
        raise Unsalvageable(f"{nested[0]} is a repository of its own, which no commit can hold")


def _start(worktree: str) -> str:
    """What the worktree is compared with: HEAD, or nothing where there is no commit yet."""
    return _commit_of(worktree, "HEAD") or _empty(worktree)


def _empty(worktree: str) -> str:
    return git.run("hash-object", "-t", "tree", "-w", "--stdin", cwd=worktree).strip()


def _commit_of(worktree: str, revision: str) -> str | None:
    words = ("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    done = git.attempt(*words, cwd=worktree)
    return None if done.status else done.out.strip()


def has_put_aside(worktree: str) -> bool:
    """Whether a rebase or merge is under way that put changes aside: status shows none of them."""
    directory = repository.git_dir(worktree)
    aside = (name for name in _UNDER_WAY if "autostash" in name.lower())
    return any(os.path.isfile(os.path.join(directory, name)) for name in aside)


def _under_way(worktree: str) -> Iterator[str | None]:
    directory = repository.git_dir(worktree)
    for name in _UNDER_WAY:
        path = os.path.join(directory, name)
        if os.path.isfile(path):
            words = files.read(path).decode("ascii", "replace").split()
            hashes = (word for word in words if len(word) >= 40 and word.isalnum())
            yield from (_commit_of(worktree, word) for word in hashes)


def _commit(worktree: str, tree: str, parents: Sequence[str | None], message: str) -> str:
    known = dict.fromkeys(parent for parent in parents if parent is not None)
    words = [word for parent in known for word in ("-p", parent)]
    made = git.run("commit-tree", tree, *words, cwd=worktree, given=message, settings=_AUTHOR)
    return made.strip()


def _message(name: str, facts: Mapping[str, object]) -> str:
    # One line each, whatever is in them: nothing can pass for another fact.
    lines = [
        f"{FACT}{key}: {' '.join(str(value).split())}\n"
        for key, value in facts.items()
        if value is not None
    ]
    title = f"{TITLE}{' '.join(name.split())}\n"
    return "\n".join([title, "".join(lines)]) if lines else title
