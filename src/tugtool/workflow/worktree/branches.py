"""The base branch and the branches of a plan; names of branches and directories."""

from __future__ import annotations

from tugtool import errors
from tugtool.errors import GitFailed, listing, plan_argument
from tugtool.git import command as git
from tugtool.git import refs
from tugtool.git.refs import branches, commit_of, current_branch
from tugtool.plan import catalog
from tugtool.state import worktrees as state_worktrees
from tugtool.system import config, os
from tugtool.workflow.worktree import BRANCHES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from tugtool.git import Repository
    from tugtool.plan.model import Plan
    from tugtool.schemas import Issue
    from tugtool.state.proofs import Facts
    from tugtool.store import Row
    from tugtool.workflow.workspace import Workspace


#: Parts of revisions that a branch name cannot have.
_IN_NO_NAME = ("..", "@{", "~", "^", ":")
#: Metadata values that mean "not decided".
_UNDECIDED = ("", "-", "--", "\u2013", "\u2014", "n/a", "none", "tbd", "?")


def branch(repo: Repository, *, asked: str | None, target: str | None) -> str:
    """Return the base branch: the one asked for, else the plan's target, else the main branch."""
    wanted = asked if asked is not None else target
    if wanted is None:
        return checked_out(repo.root)
    name = wanted.removeprefix("refs/heads/")
    # `main~2` and `main@{1}` are commits, not branches to merge into.
    is_name = not any(mark in name for mark in _IN_NO_NAME)
    if not is_name or refs.branch_tip(repo.root, name) is None:
        from tugtool.system import text

        source = "--base" if asked is not None else "the plan's Target branch"
        close = text.names(name, list(branches(repo.root)))
        raise errors.NoBaseBranch(
            f'there is no branch "{name}" ({source})', branch=name, close=close
        )
    return name


def target_branch(plan: Plan) -> str | None:
    """Return the branch in the plan's metadata, or None."""
    passage = plan.metadata.get("target branch")
    text = passage.text.strip().strip("`*_").strip() if passage else ""
    is_name = text.lower() not in _UNDECIDED and not set(text) & set(" \t<>{}()[]")
    return text if is_name else None


def checked_out(top: str) -> str:
    """Return the branch that is checked out there and has a commit, or raise."""
    found = current_branch(top)
    if found is None:
        raise errors.NoBaseBranch(
            f"{top} is on no branch (its HEAD is detached); name one with --base"
        )
    if commit_of(top, "HEAD") is None:
        raise errors.NoBaseBranch(f"{top} has no commit yet, and a worktree starts from one")
    return found


def base_commit(repo: Repository, plan: str, *, revision: str = "HEAD") -> str | None:
    """Return the commit that added the plan file's present text; HEAD if it is uncommitted.

    Return None before the first commit.
    """
    there = os.path.lexists(os.path.join(repo.root, plan))
    top = repo.root if there else repo.worktree
    head = commit_of(top, revision)
    if head is None:
        return None
    words = ("--literal-pathspecs", "log", "-1", "--format=%H", head, "--", plan)
    brought = git.attempt(*words, cwd=top).out.strip()
    if not brought or (revision == "HEAD" and _is_changed(top, plan)):
        return head
    return brought


def _is_changed(top: str, plan: str) -> bool:
    """Return whether the plan file differs from HEAD after git's conversions."""
    # Not `git diff`: its time grows with the square of the files in the index.
    now = git.attempt("hash-object", "--path", plan, "--", plan, cwd=top)
    return now.out.strip() != refs.object_of(top, f"HEAD:{plan}")


def outgrown(repo: Repository, facts: Facts) -> str | None:
    """Return the base branch if its text of the plan differs from the agreed one."""
    base = BranchMap(repo).base(facts.worktrees, facts.text)
    there = refs.object_of(repo.root, f"refs/heads/{base}:{facts.plan}")
    if base is None or there is None:
        return None
    text = git.run("cat-file", "blob", there, cwd=repo.root)
    return base if catalog.fingerprint(os.fsencode(text)) != facts.plan_hash else None


def outgrown_text(facts: Facts, base: str) -> tuple[str, str]:
    """Return the message about such a done plan, and the command that shows more."""
    said = f"{facts.plan} on {base} has another text than the one that was carried out"
    return said, f"tugcode diff {plan_argument(facts.plan)}"


_DIRECTORIES = "tugplan__"
#: With date, number and git's suffix for lock files it stays below 255 bytes.
LONGEST_BYTES = 100


def free(slug: str, *, date: str, taken: Collection[str]) -> str:
    """Return `tugplan/<slug>-<date>`, with -2, -3 if that is taken; case does not count."""
    first = name = f"{BRANCHES}{safe(slug)}-{date.replace('-', '')}"
    folded = {each.casefold() for each in taken}
    number = 1
    while name.casefold() in folded:
        number += 1
        name = f"{first}-{number}"
    return name


def directory_of(branch: str) -> str:
    """Return `tugplan__<slug>-<date>`."""
    return _DIRECTORIES + branch.removeprefix(BRANCHES)


def branches_of(directories: Iterable[str]) -> list[str]:
    """Return the branches of such directories."""
    return [
        BRANCHES + name.removeprefix(_DIRECTORIES)
        for name in directories
        if name.startswith(_DIRECTORIES)
    ]


def safe(slug: str) -> str:
    """Return the slug in a form that git refs and all file systems accept."""
    kept = "".join(char if _is_kept(char) else "-" for char in slug)
    while "--" in kept or ".." in kept:
        kept = kept.replace("--", "-").replace("..", ".")
    cut = kept.encode()[:LONGEST_BYTES].decode(errors="ignore")
    # A ref part must not begin with a dot or look like an option, nor end in a dot or .lock.
    while cut != (short := cut.strip(".-").removesuffix(".lock")):
        cut = short
    return cut or "plan"


def _is_kept(char: str) -> bool:
    return (char.isalnum() and char.isprintable()) or char in "._-"


class Branch:
    """A branch, its commit, and the worktree that has it checked out; or a remote's branch."""

    __slots__ = ("name", "tip", "worktree")

    def __init__(self, name: str, tip: str, worktree: str | None) -> None:
        self.name, self.tip, self.worktree = name, tip, worktree


def remote_branches(root: str) -> tuple[str, dict[str, str]]:
    """The remote by which commits travel, and its branches as this clone last saw them."""
    settings = config.load(root)
    remote = settings.word("remote.name") if settings.is_set("remote.name") else ""
    away = refs.named(root, f"refs/remotes/{remote}/") if remote else {}
    return remote, {name.split("/", 3)[3]: tip for name, tip in away.items()}


class BranchMap:
    """A repository's branches and worktrees, read once."""

    def __init__(self, repo: Repository) -> None:
        self.root = repo.root
        self.tips = refs.branches(repo.root)
        self.worktrees = git.worktrees(repo.root)
        #: The main worktree's branch; None if HEAD is detached.
        self.current = self.worktrees[0][1] if self.worktrees else None
        self.remote, self.away = remote_branches(repo.root)

    def branch(self, name: str) -> Branch:
        """Return an existing branch."""
        path = next((path for path, branch in self.worktrees if branch == name), None)
        return Branch(name, self.tips[name], path)

    def of_plan(
        self,
        names: Iterable[str],
        rows: Iterable[Row],
        base: str | None,
        *,
        others: Collection[str] = (),
    ) -> list[Branch]:
        """Return a plan's branches: those with one of its names, and those recorded for it.

        `others` are recorded for other plans: two names may look alike as branches.
        """
        slugs = [catalog.slug_of(os.path.basename(name)) for name in names]
        recorded = {row["branch"] for row in rows}
        named = {tip for tip in self.tips for slug in slugs if is_named_after(tip, slug)}
        kept = recorded | (named - set(others))
        here = [self.branch(tip) for tip in self.tips if tip in kept and tip != base]
        named = {name for name in self.away for slug in slugs if is_named_after(name, slug)}
        kept = recorded | (named - set(others))
        away = (self._away(name, base) for name in self.away if name in kept and name != base)
        return [*here, *(branch for branch in away if branch is not None)]

    def _away(self, name: str, base: str | None) -> Branch | None:
        """Return a remote's branch that has commits which no branch here has."""
        tip = self.away[name]
        own = [self.tips[each] for each in (name, base) if each in self.tips]
        if any(refs.is_ancestor(self.root, tip, each) for each in own):
            return None
        return Branch(f"{self.remote}/{name}" if name in self.tips else name, tip, None)

    def head(self, worktree: str) -> str | None:
        """Return a worktree's HEAD commit; None if it is not of this repository."""
        if all(path != worktree for path, _ in self.worktrees):
            return None
        return refs.commit_of(worktree, "HEAD")

    def base(self, rows: Sequence[Row], text: str) -> str | None:
        """Return the base branch: the worktrees', else the plan's Target branch, else HEAD's."""
        known = next((row["base_branch"] for row in rows if row["base_branch"] in self.tips), None)
        if known is None:
            from tugtool.plan import parser  # Only if no worktree says it.

            known = target_branch(parser.parse(text))
        return str(known) if known in self.tips else self.current


def named_after(repo: Repository, plan: str, *, remote: str = "") -> list[str]:
    """Return the branches that are named after the plan; as `origin/...` those of a remote."""
    slug = catalog.slug_of(os.path.basename(plan))
    found = [name for name in refs.branches(repo.root, BRANCHES) if is_named_after(name, slug)]
    place = f"refs/remotes/{remote}/"
    there = refs.named(repo.root, f"{place}{BRANCHES}") if remote else {}
    names = [ref.removeprefix(place) for ref in there]
    own = set(found)
    return found + [
        f"{remote}/{name}" for name in names if is_named_after(name, slug) and name not in own
    ]


def is_named_after(name: str, slug: str) -> bool:
    """Return whether a branch is `tugplan/<slug>-<date>`, with or without a number."""
    start = f"{BRANCHES}{safe(slug)}-"
    date, _, number = name.removeprefix(start).partition("-")
    own = name.startswith(start) and len(date) == 8 and date.isascii() and date.isdecimal()
    counted = number.isascii() and number.isdecimal()
    return own and (counted or name == f"{start}{date}")


def earlier_branches(space: Workspace, plan: str, *, but: str | None = None) -> list[Issue]:
    """Warn if a newly recorded plan has branches: steps may be done on them."""
    settings = space.settings
    remote = settings.word("remote.name") if settings.is_set("remote.name") else ""
    try:
        found = named_after(space.repo, plan, remote=remote)
        # Read after them: leave out what other workers make now, and another plan of this name.
        known = state_worktrees.known_branches(space.store) | {but}
        found = [name for name in found if name.removeprefix(f"{remote}/") not in known]
    except GitFailed:
        # Other processes make and remove branches, so an error of git here is not a problem.
        return []
    hint = f"tugcode reconcile {plan_argument(plan)} --dry-run"
    message = f"{plan} has branches of an earlier run: {listing(found)}; what they prove: {hint}"
    issue: Issue = {"code": "W106", "severity": "warning", "message": message, "hint": hint}
    return [*([issue] if found else []), *_alone(space, remote)]


def _alone(space: Workspace, remote: str) -> list[Issue]:
    """Warn of a new private state where commits travel to other machines."""
    if not remote:
        return []
    from tugtool.workflow import shared_record

    return shared_record.lacking_address(space.repo, space.settings)
