"""The git remote by which commits travel between machines (`[remote]`): publish what is here.

A push never changes what a commit or a completion did. If it fails, the step stays unpublished,
and the next command that publishes tries again.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple, Protocol

from tugtool.errors import TugError, listing, quoted
from tugtool.errors.server import NotPublished
from tugtool.git import command as git
from tugtool.git import refs, remote
from tugtool.plan import catalog
from tugtool.state import publication, worktrees
from tugtool.store.owners import on_other_machine
from tugtool.system import config, crash
from tugtool.workflow.worktree import BRANCHES
from tugtool.workflow.worktree.branches import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tugtool.git.remote import Refusal
    from tugtool.schemas import Issue, WorktreePublish, WorktreePublishBranch
    from tugtool.schemas import StateClaimMissingCommit as Wanted
    from tugtool.store import Row, Store
    from tugtool.workflow.workspace import Workspace


#: Kind of a refusal -> what it means.
_MEANING = {
    "timeout": "it does not answer",
    "unreachable": "it cannot be reached",
    "denied": "it does not let this user in",
    "missing": "there is no such repository",
    "behind": "it has other commits on that branch, which are not here",
    "hook": "a hook refused it",
    "refused": "it refused",
    "gone": "it has no such branch",
    "lost": "the commit is not on its branch here",
    "untrusted": "it is not asked",
}
#: Where copies of what the remote has saved are known, so that nothing is pushed twice.
_SALVAGES, _KNOWN = "refs/tug/salvage/", "refs/tug/published/"


_UNTRUSTED = remote.Refusal("untrusted", "you do not trust this repository: tugcode trust")


class Remote(NamedTuple):
    """A remote of this clone, and how long an exchange with it may take."""

    name: str
    seconds: float
    #: Whether this user lets the repository's settings name a remote.
    is_trusted: bool

    def push(self, top: str, specs: Mapping[str, str]) -> dict[str, Refusal]:
        """Push commits to refs (ref -> commit). Return the refs that it did not take."""
        if not self.is_trusted:
            return dict.fromkeys(specs, _UNTRUSTED)
        return remote.push(top, self.name, specs, self.seconds) if specs else {}

    def fetch(self, top: str, specs: Sequence[str]) -> Refusal | None:
        """Fetch refs. Return why not, or None."""
        if specs and not self.is_trusted:
            return _UNTRUSTED
        return remote.fetch(top, self.name, specs, self.seconds) if specs else None


def remote_of(root: str) -> Remote | None:
    """Return the remote that the settings of the repository at a root name, or None."""
    settings = config.load(root)
    if not settings.is_set("remote.name"):
        return None
    from tugtool.workflow import trust

    trusted = trust.is_trusted(root, settings)
    return Remote(settings.word("remote.name"), settings.number("remote.seconds"), trusted)


def meaning(refusal: Refusal) -> str:
    """Return why the remote refused: in our words, and in git's."""
    return f"{_MEANING[refusal.kind]} ({refusal.said})"


def hint_for(refusal: Refusal, name: str, branch: str, top: str) -> str:
    """Return the command that comes next after a refused push."""
    if refusal.kind == "behind":
        return f"git -C {quoted(top)} pull --no-rebase {name} {quoted(branch)}"
    if refusal.kind in ("denied", "missing"):
        return f"git ls-remote {name}"
    if refusal.kind == "untrusted":
        return "tugcode trust"
    return "tugcode worktree publish"


class Published(NamedTuple):
    """A branch after a push: its commit, the steps that came with it, and the refusal if any."""

    branch: str
    commit: str
    steps: list[str]
    refusal: Refusal | None


class Publisher:
    """Pushes branches of this clone, and records which steps are published with them."""

    def __init__(self, to: Remote, store: Store, root: str, actor: str) -> None:
        self.to, self.store, self.root, self.actor = to, store, root, actor

    def run(self, rows: Sequence[Row], branches: Iterable[str] = ()) -> list[Published]:
        """Push the branches of unpublished steps, and others. Return the result for each."""
        named = dict.fromkeys([*(row["branch"] for row in rows if row["branch"]), *branches])
        tips = refs.branches(self.root, *named) if named else {}
        # By the commit: a worker may add another to the branch meanwhile.
        specs = {f"refs/heads/{name}": tips[name] for name in named if name in tips}
        crash.point("publish.begun")
        refused = self.to.push(self.root, specs)
        crash.point("publish.pushed")
        found = []
        for name in (name for name in named if name in tips):
            refusal = refused.get(f"refs/heads/{name}")
            steps = self._note(rows, name, tips[name], refusal)
            found.append(Published(name, tips[name], steps, refusal))
        crash.point("publish.recorded")
        return found

    def _note(self, rows: Sequence[Row], name: str, tip: str, refusal: Refusal | None) -> list[str]:
        """Record the steps that the remote has now, or why it has not."""
        if refusal is None:
            ours = [row for row in rows if refs.is_ancestor(self.root, row["commit_hash"], tip)]
        else:
            ours = [row for row in rows if row["branch"] == name]
        for plan in dict.fromkeys(row["plan_path"] for row in ours):
            here = [row for row in ours if row["plan_path"] == plan]
            if refusal is None:
                publication.published(self.store, plan, here, actor=self.actor)
            else:
                publication.not_published(self.store, plan, here, meaning(refusal))
        return [str(row["step_anchor"]) for row in ours]


class Place(Protocol):
    """A worktree of this clone, its store, and the name under which it owns steps."""

    store: Store
    top: str
    root: str
    owner: str


class _Caller:
    """The caller's worktree as such a place."""

    def __init__(self, space: Workspace) -> None:
        self.store, self.root, self.owner = space.store, space.repo.root, space.owner
        self.top = space.worktree


def publish_left(space: Workspace, plan: str) -> list[Issue]:
    """Push what the caller's worktree completed and the remote lacks. Return warnings."""
    return publish_after(_Caller(space), plan)[1]


def publish_after(at: Place, plan: str) -> tuple[dict[str, bool], list[Issue]]:
    """Push what a worktree has completed. Return the answer's `published`, and warnings.

    Nothing here refuses: the step is completed already.
    """
    to = remote_of(at.root)
    assert to is not None, at.root
    try:
        own = publication.own_unpublished(at.store, plan)
        rows = [row for row in own if row["worktree"] == at.owner]
        done = Publisher(to, at.store, at.root, at.owner).run(rows) if rows else []
    except TugError as error:
        return {"published": False}, [_warning(to, [], error.message, "tugcode worktree publish")]
    there = {step for each in done if each.refusal is None for step in each.steps}
    issues = [
        _warning(to, each.steps, meaning(refusal), hint_for(refusal, to.name, each.branch, at.top))
        for each in done
        if (refusal := each.refusal) is not None
    ]
    return {"published": all(row["step_anchor"] in there for row in rows)}, issues


def _warning(to: Remote, steps: Sequence[str], reason: str, hint: str) -> Issue:
    what = f"the commit of {listing(steps)} is" if steps else "commits are"
    message = (
        f"{what} here and not on {to.name}: {reason}; other machines wait for it, and the next "
        "command in this worktree pushes it again"
    )
    return {"code": "W170", "severity": "warning", "message": message, "hint": hint}


def publish(space: Workspace, name: str | None) -> tuple[WorktreePublish, list[Issue]]:
    """Push the branches of this clone's worktrees, of one plan or of all, and saved work."""
    to = remote_of(space.repo.root)
    plan = space.plan_or_all(name)
    if to is None:
        none: WorktreePublish = {
            "remote": None,
            "plan_path": plan,
            "branches": [],
            "salvage_refs": [],
            "unpublished_steps": [],
        }
        return none, []
    fresh, unsaved = _save(space, plan)
    rows = publication.own_unpublished(space.store, plan)
    done = Publisher(to, space.store, space.repo.root, space.owner).run(rows, _own(space, plan))
    saved, unpushed = publish_salvages(to, space.repo.root)
    data: WorktreePublish = {
        "remote": to.name,
        "plan_path": plan,
        "branches": [_entry(each) for each in done],
        "salvage_refs": [*fresh, *saved],
        "unpublished_steps": [
            publication.entry(row) for row in publication.own_unpublished(space.store, plan)
        ],
    }
    refused = [(each.branch, each.refusal) for each in done if each.refusal is not None]
    refused += [(f"{_SALVAGES}*", unpushed)] if unpushed is not None else []
    return data, [*unsaved, *(_refused(space, to, *each) for each in refused)]


def _save(space: Workspace, plan: str | None) -> tuple[list[str], list[Issue]]:
    """Save and push the work of steps that worktrees here have lost. Return refs, and warnings."""
    if not space.store.exists():
        return [], []
    from tugtool.workflow.salvage import catch_up

    done = catch_up.catch_up(space.repo, space.store, plan)
    known = refs.named(space.repo.root, _KNOWN)
    pushed = {ref.partition("/")[2] for ref in (name.removeprefix(_KNOWN) for name in known)}
    saved = [str(each["salvage_ref"]) for each in done if each["salvage_ref"]]
    there = [ref for ref in saved if ref.removeprefix(_SALVAGES) in pushed]
    return there, [catch_up.warning(each) for each in done if each["problem"] is not None]


def _refused(space: Workspace, to: Remote, branch: str, refusal: Refusal) -> Issue:
    hint = hint_for(refusal, to.name, branch, _worktree_of(space, branch))
    return NotPublished(to.name, branch, reason=meaning(refusal), hint=hint).issue()


def _own(space: Workspace, plan: str | None) -> list[str]:
    """Return the branches of this clone's worktrees that have commits of their own."""
    rows = worktrees.list_worktrees(space.store) if space.store.exists() else []
    tips = refs.branches(space.repo.root)
    return [
        str(row["branch"])
        for row in rows
        if plan in (None, row["plan_path"])
        and not on_other_machine(row["path"])
        and tips.get(row["branch"], row["base_commit"]) != row["base_commit"]
    ]


def _worktree_of(space: Workspace, branch: str) -> str:
    found = (path for path, name in git.worktrees(space.repo.root) if name == branch)
    return next(found, space.repo.root)


def _entry(each: Published) -> WorktreePublishBranch:
    return {
        "branch_name": each.branch,
        "commit": each.commit,
        "steps": each.steps,
        "problem": meaning(each.refusal) if each.refusal else None,
    }


def fetch_commits(root: str, plan: str, wanted: Sequence[Wanted]) -> tuple[bool, str]:
    """Fetch the branches of commits that this clone lacks. Return whether any came, and why not."""
    to = remote_of(root)
    assert to is not None, root
    lacking = refs.unknown(root, [each["commit"] for each in wanted])
    if not lacking:
        return False, ""
    named = [each["branch"] for each in wanted if each["commit"] in lacking]
    specs = [remote.branch_spec(to.name, name) for name in dict.fromkeys(named) if name]
    if None in named:
        # Its worktree is removed, so the record no longer has its branch.
        specs.append(_spec_of_plan(to, plan))
    refusal = _fetch(to, root, specs)
    left = refs.unknown(root, lacking)
    if left and (refusal is None or refusal.kind == "gone"):
        return left != lacking, f"{to.name} {publication.LOST}"
    return left != lacking, meaning(refusal) if refusal is not None and left else ""


def _fetch(to: Remote, root: str, specs: Sequence[str]) -> Refusal | None:
    """Fetch refs; if the remote lacks one of several, the others all the same."""
    refusal = to.fetch(root, specs)
    if refusal is None or refusal.kind != "gone" or len(specs) == 1:
        return refusal
    refused = [each for spec in specs if (each := to.fetch(root, [spec])) is not None]
    return refused[0] if refused else None


def _spec_of_plan(to: Remote, plan: str) -> str:
    names = f"{BRANCHES}{safe(catalog.slug_of(plan.rpartition('/')[2]))}-*"
    return remote.branch_spec(to.name, names)


def fetch_plan(root: str, plans: Iterable[str], recorded: Iterable[str]) -> Refusal | None:
    """Fetch all branches of a plan, by its names and as recorded. Return why not, or None."""
    to = remote_of(root)
    if to is None:
        return None
    refusal = to.fetch(root, [_spec_of_plan(to, plan) for plan in plans])
    if refusal is not None:
        return refusal
    there = refs.named(root, f"refs/remotes/{to.name}/")
    named = [name for name in recorded if remote.tracking(to.name, name) not in there]
    local = refs.branches(root)
    # One by one: the remote need not have all of them.
    for name in (name for name in dict.fromkeys(named) if name not in local):
        to.fetch(root, [remote.branch_spec(to.name, name)])
    return None


def fetch_salvages(root: str, names: Sequence[str]) -> str:
    """Fetch saved work of other machines. Return why not all of it came."""
    to = remote_of(root)
    if to is None or not names:
        return ""
    refusal = _fetch(to, root, [f"+{ref}:{ref}" for ref in names])
    here = refs.named(root, _SALVAGES)
    note_salvages(to, root, {ref: here[ref] for ref in names if ref in here})
    return meaning(refusal) if refusal is not None else ""


def publish_salvages(to: Remote, root: str) -> tuple[list[str], Refusal | None]:
    """Push saved work that the remote lacks. Return the refs that it has now, and why not all."""
    here = refs.named(root, _SALVAGES)
    known = refs.named(root, f"{_KNOWN}{to.name}/") if here else {}
    specs = {ref: commit for ref, commit in here.items() if known.get(_known(to, ref)) != commit}
    refused = to.push(root, specs)
    crash.point("publish.saved")
    pushed = [ref for ref in specs if ref not in refused]
    note_salvages(to, root, {ref: specs[ref] for ref in pushed})
    return pushed, next(iter(refused.values()), None)


def try_salvages(root: str) -> None:
    """Push saved work if that is possible now."""
    to = remote_of(root)
    with contextlib.suppress(TugError):
        if to is not None:
            publish_salvages(to, root)


def note_salvages(to: Remote, root: str, pushed: Mapping[str, str]) -> None:
    """Remember which saved work the remote has."""
    given = "".join(f"update {_known(to, ref)}\0{commit}\0\0" for ref, commit in pushed.items())
    if given:
        git.attempt("update-ref", "-z", "--stdin", cwd=root, given=given)


def _known(to: Remote, ref: str) -> str:
    return f"{_KNOWN}{to.name}/{ref.removeprefix(_SALVAGES)}"
