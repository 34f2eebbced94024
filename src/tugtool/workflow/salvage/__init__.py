"""Save uncommitted work under a ref of its own."""

from __future__ import annotations

from tugtool.errors import GitFailed, TugError, Unreadable
from tugtool.git import command as git
from tugtool.git import git_dir, index, refs, worktrees
from tugtool.git.index import put, remove
from tugtool.plan import catalog
from tugtool.system import clock, config, files, lock, os, process
from tugtool.workflow.worktree import branches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tugtool.git import Repository


PREFIX = "refs/tug/salvage"
#: Each message begins with this; the facts follow as trailers.
TITLE = "Salvaged from "
FACT = "Salvage-"
#: The commit is ours, and must not fail because the person has no name set.
AUTHOR = ("user.name=Tugtool", "user.email=tugtool@localhost", "i18n.commitEncoding=UTF-8")
#: How often a save is tried before we report that git deletes it.
_TRIES = 3
#: How long to wait for the end of a `git gc`.
GC_SECONDS = 10
#: Refs of a merge, rebase or the like under way in a worktree: only they hold the changes
#: that git has put aside.
_UNDER_WAY = (
    *("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "MERGE_AUTOSTASH"),
    *("rebase-merge/autostash", "rebase-merge/orig-head", "rebase-merge/stopped-sha"),
    *("rebase-apply/autostash", "rebase-apply/orig-head"),
)


class Unsalvageable(Exception):
    """A working tree has something that a commit cannot hold."""


def own_name() -> str:
    """Return the name of this machine, as others see it in a shared state."""
    from tugtool.store import owners  # Only with such a state.

    return owners.this_machine(config.variable("TUGCODE_MACHINE")).name


def machine_name(repo: Repository) -> str | None:
    """Return the machine to name in saved work; None where only one has the state."""
    return own_name() if config.load(repo.root).state_url() else None


def fetch_command(remote: str) -> str:
    """Return the command that brings the saved work of other machines here."""
    return f"git fetch {remote} '+{PREFIX}/*:{PREFIX}/*'"


class WorktreeLock:
    """A lock: one process at a time saves or removes a worktree."""

    def __init__(self, worktree: str, *, seconds: float) -> None:
        self.worktree, self.seconds = worktree, seconds

    def __enter__(self) -> None:
        try:
            # Git's own directory of the worktree exists already and needs no clean-up.
            directory = git_dir(self.worktree)
            os.stat(directory)
        except (OSError, TugError) as error:
            raise Unsalvageable(f"git's directory of it cannot be opened ({error})") from error
        self._descriptor = lock.passed(directory, self.seconds)
        if self._descriptor < 0:
            raise Unsalvageable("another process is saving or removing it")

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def save(
    worktree: str,
    *,
    ref: str,
    also: Sequence[str | None] = (),
    facts: Mapping[str, object] | None = None,
) -> str:
    """Save the whole worktree, except known rubbish, as one commit. Return its hash.

    HEAD is the commit's first parent. Further parents are the commits of `also`, the index if
    it differs, and what git has put aside. The worktree and its index stay as they are.
    """
    head = refs.commit_of(worktree, "HEAD")
    for _ in range(_TRIES):
        tree, staged = _trees(worktree)
        name = os.path.basename(worktree)
        aside = [_commit(worktree, staged, [head], f"Staged in {name}\n")] if staged else []
        parents = [head, *also, *aside, *_under_way(worktree)]
        commit = _commit(worktree, tree, parents, _message(name, facts or {}))
        keep(worktree, ref=ref, commit=commit)
        _wait_for_gc(worktree)
        if refs.missing(worktree, commit, *([f"^{head}"] if head else [])) is None:
            return commit
        # The files are still there, so git can write lost objects again.
        git.patiently("update-ref", "-d", ref, commit, cwd=worktree)
    raise Unsalvageable("git deletes it while it is being saved, as `git gc --prune=now` does")


def keep(top: str, *, ref: str, commit: str) -> None:
    """Point the ref at the commit. Only a broken ref is overwritten."""
    words = ("update-ref", "-m", "tugcode: salvage", ref, commit)
    try:
        git.patiently(*words, "", cwd=top)
    except GitFailed:
        old = git.run("for-each-ref", "--format=%(objectname)", ref, cwd=top).strip()
        if not old or refs.object_of(top, f"{old}^{{commit}}") is not None:
            raise
        git.patiently(*words, old, cwd=top)


def slug(plan: str) -> str:
    """Return the prefix of a plan's refs, below the prefix of all."""
    return branches.safe(catalog.slug_of(os.path.basename(plan)))


def commits(top: str, slug: str = "") -> dict[str, str]:
    """Return every ref, or those of one plan, with its commit, even if git has lost that."""
    return refs.named(top, f"{PREFIX}/{slug}/" if slug else f"{PREFIX}/")


def _wait_for_gc(worktree: str) -> None:
    """Wait for a `git gc`: it may not have seen our ref and delete its objects."""
    where = git.run("rev-parse", "--git-path", "gc.pid", cwd=worktree).removesuffix("\n")
    path = os.path.join(worktree, where)
    for last in clock.tries(GC_SECONDS):
        if last or not _is_at_work(path):
            return


def _is_at_work(path: str) -> bool:
    """Return whether the process in a gc.pid file (its number and host) runs here."""
    try:
        pid, host = files.read(path, max_bytes=4096).split()
        return os.fsdecode(host) == os.uname().nodename and bool(process.start_time(int(pid)))
    except (Unreadable, ValueError):
        return False


def ref_for(slug: str, name: str, now: str, *, top: str) -> str:
    """Return a free ref: refs/tug/salvage/<plan slug>/<time>-<name>."""
    return again(top, ref_name(slug, name, now))


def ref_name(slug: str, name: str, now: str) -> str:
    """Return the ref's name, even if it is taken."""
    time = now.replace("-", "").replace(":", "").replace(".", "")
    return f"{PREFIX}/{slug}/{time}-{name}"


def again(top: str, first: str) -> str:
    """Return the ref, or the first free one with -2, -3 and so on."""
    ref, number = first, 1
    while git.attempt("show-ref", "--verify", "--quiet", ref, cwd=top).status == 0:
        number += 1
        ref = f"{first}-{number}"
    return ref


def tree_of(worktree: str) -> str:
    """Return the tree that `save` would keep."""
    return _trees(worktree)[0]


def has_more(worktree: str) -> bool:
    """Return whether that tree alone would lose staged changes or changes put aside."""
    return _trees(worktree)[1] is not None or has_put_aside(worktree)


class IndexCopy:
    """A temporary copy of a worktree's index to which everything is added."""

    def __init__(self, worktree: str, *, anew: bool = False) -> None:
        self.worktree, self.anew = worktree, anew
        where = git.run("rev-parse", "--git-path", "index", cwd=worktree).removesuffix("\n")
        self.index = os.path.join(worktree, where)
        self.path = f"{self.index}.tug-{os.urandom(6).hex()}"

    def __enter__(self) -> IndexCopy:
        try:
            if self.anew:
                git.run("read-tree", _start(self.worktree), cwd=self.worktree, index=self.path)
            elif os.path.exists(self.index):
                # The copy keeps sparse paths and the cached file times.
                put(self.index, self.path)
        except (OSError, TugError) as error:
            self.__exit__(None, None, None)
            raise Unsalvageable(str(error)) from error
        return self

    def __exit__(self, *_: object) -> None:
        remove(self.path)

    def staged(self) -> str | None:
        """Return the tree of the index without files in conflict, whose versions are in commits."""
        done = git.attempt("write-tree", cwd=self.worktree, index=self.path)
        if not done.status:
            return done.out.strip()
        with IndexCopy(self.worktree) as other:
            out = git.run("ls-files", "-z", "--unmerged", cwd=self.worktree, index=other.path)
            # <mode> <object> <stage>TAB<path>; mode 0 removes a path.
            entries = [line.partition("\t") for line in out.split("\0")[:-1]]
            given = "".join(f"0 {'0' * len(e.split()[1])}\t{path}\0" for e, _, path in entries)
            words = ("update-index", "-z", "--index-info")
            git.run(*words, cwd=self.worktree, index=other.path, given=given)
            done = git.attempt("write-tree", cwd=self.worktree, index=other.path)
        return None if done.status else done.out.strip()

    def whole(self) -> str:
        """Return the tree of all files; of ignored files only hidden work."""
        try:
            home, top = git_dir(self.worktree), self.worktree
            found = index.add_around(top, self.path, *index.place(home, top))
            inside = [path for path in found if path.endswith("/")]
            for path in [*inside, *_numbers(top, self.path)]:
                _take_in(home, top, self.path, path)
            self._add_hidden(home)
            return git.run("write-tree", cwd=self.worktree, index=self.path).strip()
        except TugError as error:
            raise Unsalvageable(error.message) from error

    def _add_hidden(self, home: str) -> None:
        """Add work that git ignores; from an inner repository add its files."""
        top = self.worktree
        hidden = worktrees.hidden_work(top, index=self.path)
        inside = worktrees.hidden_repositories(top, hidden)
        named = [f":(top,literal){path}" for path in hidden if path not in inside]
        if named:
            besides = [f":(exclude,top,literal){path[:-1]}" for path in inside]
            given = "".join(f"{path}\0" for path in (*named, *besides))
            words = ("add", "--force", "--sparse", "--pathspec-from-file=-", "--pathspec-file-nul")
            git.run(*words, cwd=top, index=self.path, given=given)
        for path in inside:
            _take_in(home, top, self.path, path)


def _trees(worktree: str) -> tuple[str, str | None]:
    """Return the tree of the whole worktree, and the index's tree if it has more."""
    try:
        readable = git.attempt("ls-files", "-z", "--unmerged", cwd=worktree).status == 0
        with IndexCopy(worktree, anew=not readable) as copy:
            staged = copy.staged()
            tree = copy.whole()
    except TugError as error:
        raise Unsalvageable(error.message) from error
    known = (tree, refs.tree_of(worktree, "HEAD"), None)
    return tree, None if staged in known or staged == empty_tree(worktree) else staged


def _take_in(home: str, top: str, into: str, path: str) -> None:
    """Replace an inner repository's entry by its files; its own commits stay in it.

    `home` is git's directory of the worktree, `into` the index for `top`.
    """
    inner, own = os.path.join(top, path.rstrip("/")), f"{into}.inside"
    here = index.place(home, inner)
    try:
        found = index.add_around(inner, own, *here)
        for each in [path for path in found if path.endswith("/")]:
            _take_in(home, inner, own, each)
        tree = git.run(*here, "write-tree", cwd=inner, index=own).strip()
    finally:
        remove(own)
    here = index.place(home, top)
    git.run(*here, "update-index", "--force-remove", "--", path.rstrip("/"), cwd=top, index=into)
    words = ("read-tree", f"--prefix={path.rstrip('/')}/", tree)
    git.run(*here, *words, cwd=top, index=into)


def _numbers(worktree: str, index: str) -> list[str]:
    """Return inner repositories that the index has as a commit number instead of files."""
    words = ("diff-index", "--cached", "-z", "--no-renames", _start(worktree))
    fields = git.run(*words, cwd=worktree, index=index).split("\0")
    # :<old mode> <new mode> <old> <new> <status>, then the path.
    pairs = zip(fields[::2], fields[1::2], strict=False)
    return [path for facts, path in pairs if facts.split()[1] == "160000"]


def _start(worktree: str) -> str:
    """Return the base for comparison: HEAD, or the empty tree before the first commit."""
    return refs.commit_of(worktree, "HEAD") or empty_tree(worktree)


def empty_tree(worktree: str) -> str:
    """Return the tree without any file."""
    return git.run("hash-object", "-t", "tree", "-w", "--stdin", cwd=worktree).strip()


def has_put_aside(worktree: str) -> bool:
    """Return whether a rebase or merge has put changes aside, which status does not show."""
    directory = git_dir(worktree)
    aside = (name for name in _UNDER_WAY if "autostash" in name.lower())
    return any(os.path.isfile(os.path.join(directory, name)) for name in aside)


def _under_way(worktree: str) -> Iterator[str | None]:
    directory = git_dir(worktree)
    for name in _UNDER_WAY:
        path = os.path.join(directory, name)
        if os.path.isfile(path):
            words = files.read(path).decode("ascii", "replace").split()
            hashes = (word for word in words if len(word) >= 40 and word.isalnum())
            yield from (refs.commit_of(worktree, word) for word in hashes)


def _commit(worktree: str, tree: str, parents: Sequence[str | None], message: str) -> str:
    known = dict.fromkeys(parent for parent in parents if parent is not None)
    return refs.commit_tree(worktree, tree, known, message, settings=AUTHOR)


def _message(name: str, facts: Mapping[str, object]) -> str:
    # Each fact is one line, so that no value can pass for another fact.
    lines = [
        f"{FACT}{key}: {' '.join(str(value).split())}\n"
        for key, value in facts.items()
        if value is not None
    ]
    title = f"{TITLE}{' '.join(name.split())}\n"
    return "\n".join([title, "".join(lines)]) if lines else title
