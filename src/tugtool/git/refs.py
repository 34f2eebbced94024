"""Git's names: commits, trees, branches, ancestry."""

from __future__ import annotations

from tugtool import errors
from tugtool.errors import TugError
from tugtool.git import command as git
from tugtool.git import containing, git_dir
from tugtool.system import files, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from tugtool.git.safe_view import SafeView


#: A ref may name another ref; git follows so many.
_LONGEST_CHAIN = 5
_MOST_BYTES = 1 << 26
#: Git's letters for the change of a path.
_CHANGES = {"A": "added", "D": "deleted", "M": "modified", "T": "type_changed"}


def commit_of(top: str, revision: str) -> str | None:
    """The full hash of the commit that a revision names; None if there is none."""
    return object_of(top, f"{revision}^{{commit}}")


def head(top: str) -> str:
    """The commit that HEAD names; refuses with git's message if there is none."""
    return git.run("rev-parse", "--verify", "HEAD^{commit}", cwd=top).strip()


def tree_of(top: str, revision: str) -> str | None:
    """The full hash of the tree that a revision names; None if there is none."""
    return object_of(top, f"{revision}^{{tree}}")


def object_of(top: str, name: str) -> str | None:
    """The full hash of the object that a name stands for; None if there is none."""
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", name)
    done = git.attempt(*words, cwd=top)
    return None if done.status else done.out.strip()


def branch_tip(top: str, branch: str | None) -> str | None:
    """The commit at the tip of a branch; None if there is no such branch."""
    return commit_of(top, f"refs/heads/{branch}") if branch else None


def current_branch(top: str) -> str | None:
    """The branch that is checked out there; None where HEAD is detached."""
    words = ("symbolic-ref", "--quiet", "HEAD")
    done = git.attempt(*words, cwd=top)
    if done.status not in (0, 1):
        # Git did not answer that there is no branch; it refused to look.
        done.require(words)
    return None if done.status else done.out.removesuffix("\n").removeprefix("refs/heads/")


def branches(top: str, *under: str) -> dict[str, str]:
    """Branch -> its tip; only the branches named in `under`, or below a name with a slash."""
    form = "--format=%(objectname) %(refname:lstrip=2)"
    refs = [f"refs/heads/{name}" for name in under or ("",)]
    # Not splitlines: a name may contain other characters that end a line in Python.
    lines = git.run("for-each-ref", form, *refs, cwd=top).split("\n")[:-1]
    return {name: tip for tip, _, name in (line.partition(" ") for line in lines)}


def named(top: str, under: str) -> dict[str, str]:
    """Ref -> object, for every ref below a name, even if git lacks the object."""
    words = ("for-each-ref", "--format=%(refname) %(objectname)", under)
    return dict(line.split(" ") for line in git.run(*words, cwd=top).split("\n")[:-1])


def unknown(top: str, commits: Iterable[str]) -> set[str]:
    """The commits that this clone does not have."""
    asked = "".join(f"{commit}\n" for commit in commits)
    listed = git.run("cat-file", "--batch-check=%(objectname)", cwd=top, given=asked)
    return {line.split()[0] for line in listed.splitlines() if line.endswith(" missing")}


def missing(top: str, *revisions: str) -> str | None:
    """Git's message if objects of the revisions are missing; None if it has all of them."""
    done = git.attempt("rev-list", "--objects", "--quiet", *revisions, "--", cwd=top)
    return done.said.strip() if done.status else None


def in_the_way(top: str, under: str) -> str | None:
    """The problem if a branch has the name below which others are to be; None otherwise."""
    name = under.rstrip("/")
    if branch_tip(top, name) is None:
        return None
    return f"a branch is called {name}, so git makes none below it: git branch -m {name} NEW-NAME"


def delete_branch(top: str, name: str, tip: str) -> git.Done:
    """Delete a branch, if its tip is still `tip`: a new commit must not be lost.

    A branch that a worktree has checked out stays: its next commit would have no history.
    """
    holder = next((path for path, branch in git.worktrees(top) if branch == name), None)
    if holder is not None:
        return git.Done(1, "", f"it is checked out in {holder}")
    done = git.attempt("update-ref", "-d", f"refs/heads/{name}", tip, cwd=top)
    if not done.status:
        # Remove the branch's settings, if there are any.
        git.attempt("config", "--remove-section", f"branch.{name}", cwd=top)
    return done


def newest_beyond(top: str, commit: str, known: Iterable[str | None]) -> str:
    """The newest commit, merges aside, that the known ones do not have; empty if there is none.

    Where git cannot tell, the commit itself.
    """
    given = "".join(f"{each}\n" for each in (commit, *(f"^{each}" for each in known if each)))
    words = ("rev-list", "--no-merges", "--max-count=1", "--ignore-missing", "--stdin")
    done = git.attempt(*words, cwd=top, given=given)
    return commit if done.status else done.out.strip()


def is_ancestor(top: str, commit: str, of: str) -> bool:
    """True if `of` is the commit or a descendant of it; False if git lacks one of them."""
    words = ("merge-base", "--is-ancestor", commit, of)
    done = git.attempt(*words, cwd=top)
    if done.status not in (0, 1) and commit_of(top, commit) and commit_of(top, of):
        done.require(words)
    return done.status == 0


def merge_base(top: str, one: str, other: str) -> str | None:
    """The newest common commit; None if there is none."""
    done = git.attempt("merge-base", one, other, cwd=top)
    return None if done.status else done.out.strip()


def ahead_and_behind(
    top: str, tip: str | None, base: str | None
) -> tuple[int, int] | tuple[None, None]:
    """The number of commits that only `tip` has, and the number that only `base` has."""
    if not tip or not base:
        return None, None
    done = git.attempt("rev-list", "--left-right", "--count", f"{tip}...{base}", "--", cwd=top)
    if done.status:
        return None, None
    ahead, behind = done.out.split()
    return int(ahead), int(behind)


def changed_paths(top: str, one: str, other: str, *, only_added: bool = False) -> list[str]:
    """The files in which two commits or trees differ; `only_added`, those that only `other` has."""
    words = ["diff-tree", "-r", "-z", "--name-only", "--no-renames"]
    words += ["--diff-filter=A"] if only_added else []
    return git.run(*words, one, other, cwd=top).split("\0")[:-1]


def changes(top: str, *words: str) -> dict[str, str]:
    """File -> its change, from `diff-tree` with these words."""
    listing = ("diff-tree", "-r", "-z", "--name-status", "--no-renames")
    fields = git.run(*listing, *words, cwd=top).split("\0")
    pairs = zip(fields[::2], fields[1::2], strict=False)
    return {path: _CHANGES.get(letter, "modified") for letter, path in pairs}


def commit_tree(
    top: str,
    tree: str,
    parents: Iterable[str],
    message: str,
    *,
    signed: bool = False,
    settings: Iterable[str] = (),
    date: str | None = None,
) -> str:
    """Make a commit that no branch has yet; its hash."""
    # A rehearsal keeps nothing, so it needs no signature.
    sign = signed and not git.is_looking()
    words = ["commit-tree", *(["-S"] if sign else [])]
    words += [word for parent in parents for word in ("-p", parent)]
    made = git.run(*words, "-F", "-", tree, cwd=top, given=message, settings=settings, date=date)
    return made.strip()


def is_signing(top: str) -> bool:
    """True if git's settings ask for signed commits."""
    found = git.attempt("config", "--type=bool", "--get", "commit.gpgSign", cwd=top)
    return found.out.strip() == "true"


def head_commit(worktree: str) -> str | None:
    """The commit of a worktree's HEAD; None before the first commit, or if it cannot be read."""
    if not os.path.isabs(worktree) or not os.path.lexists(os.path.join(worktree, ".git")):
        return None
    try:
        found = containing(worktree)
        if found.worktree != os.path.realpath(worktree):
            return None
        return _Refs(git_dir(worktree), found.common_dir).commit()
    except (errors.NoRepository, errors.Unreadable):
        pass
    try:
        return commit_of(worktree, "HEAD")
    except TugError:
        return None


def read_head(git_dir: str, common_dir: str) -> tuple[str | None, str | None]:
    """The branch that HEAD names (None if it is on none), and its commit.

    It reads git's files at the given places; `Unreadable` if they do not tell.
    """
    refs = _Refs(git_dir, common_dir)
    return refs.branch(), refs.commit()


def head_branch(worktree: str) -> str | None:
    """As `current_branch`, but from git's files if possible; None if it cannot be read."""
    try:
        return _Refs(git_dir(worktree), "").branch()
    except errors.Unreadable:
        pass
    try:
        return current_branch(worktree)
    except errors.GitFailed:
        return None


class _Refs:
    """The refs of one worktree."""

    def __init__(self, own: str, shared: str) -> None:
        self.own, self.shared = own, shared

    def branch(self) -> str | None:
        line = self._loose("HEAD") or ""
        if line == "ref: refs/heads/.invalid":
            raise errors.Unreadable(self.own, "keeps its refs in a form that only git reads")
        named = line.removeprefix("ref:").strip().removeprefix("refs/heads/")
        return named if line.startswith("ref:") else None

    def commit(self) -> str | None:
        if os.path.isdir(os.path.join(self.shared, "reftable")):
            raise errors.Unreadable(self.shared, "keeps its refs in a form that only git reads")
        text = self._loose("HEAD")
        for _ in range(_LONGEST_CHAIN):
            if text is None or not text.startswith("ref:"):
                return text
            name = text.removeprefix("ref:").strip()
            text = self._loose(name) or self._packed(name)
        return None

    def _loose(self, name: str) -> str | None:
        # A worktree's own refs come before the shared ones.
        for home in (self.own, self.shared):
            path = os.path.join(home, name)
            if os.path.isfile(path):
                return os.fsdecode(files.read(path)).strip()
        return None

    def _packed(self, name: str) -> str | None:
        path = os.path.join(self.shared, "packed-refs")
        if not os.path.isfile(path):
            return None
        ending = b" " + os.fsencode(name)
        lines = files.read(path, max_bytes=_MOST_BYTES).split(b"\n")
        found = (line for line in lines if line.endswith(ending) and not line.startswith(b"#"))
        return next((os.fsdecode(line.split(b" ", 1)[0]) for line in found), None)


def user_name(cwd: str) -> str | None:
    """The name that commits made in `cwd` would carry."""
    try:
        told = git.attempt("var", "GIT_AUTHOR_IDENT", cwd=cwd)
        if not told.status:
            return told.out.rpartition(" <")[0].strip() or None
        # Without an address git has no identity, but there may be a name.
        return git.run("config", "user.name", cwd=cwd).strip() or None
    except (errors.GitFailed, errors.GitUnusable):
        return None


def refuse_commitless(top: str) -> None:
    """Refuse with E080 if git cannot commit: without an identity, or without a signature."""
    from tugtool.errors.git import CommitRefused

    for who in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
        told = git.attempt("var", who, cwd=top)
        if told.status:
            reason = (
                f"has no commit identity; git config sets user.name and user.email: {told.said}"
            )
            raise CommitRefused(top, reason.strip(), hint=f"git var {who}")
    if is_signing(top) and not _is_signer_foreign(top):
        # No branch has this commit, so git deletes it later.
        words = ("commit-tree", "--gpg-sign", "-m", "tugcode: can it be signed?", "HEAD^{tree}")
        signed = git.attempt(*words, cwd=top)
        if signed.status:
            reason = f"signs its commits (commit.gpgSign), and that fails: {signed.said.strip()}"
            raise CommitRefused(top, reason, hint="git config --get-regexp gpg")


def _is_signer_foreign(top: str) -> bool:
    """True if a command that only looks would run a signer that the repository names."""
    if not git.is_looking():
        return False
    from tugtool.git import safe_view

    return safe_view.is_signed_by_repository(top)


def status_with_submodules(path: str, *words: str) -> str:
    """The output of `git status`, which also looks into submodules."""
    every = ("status", *words, "--ignore-submodules=none")
    if git.is_looking() or not git.submodules(path):
        return git.run(*every, cwd=path)
    with within_submodules():
        return git.run(*every, cwd=path)


def within_submodules() -> SafeView:
    """Git runs no program that a submodule names: a confined agent can replace its `.git`."""
    from tugtool.git.safe_view import SafeView  # Few repositories have submodules.

    return SafeView()
