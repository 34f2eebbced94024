"""A merge rehearsed: all of a plan's branches put together in git's objects alone.

Nothing that anybody looks at is touched: no branch, no index, no file. What comes out is
the commit that the base branch can be moved to, or the conflicts that stand against it.
"""

from __future__ import annotations

from tugtool import blend, git
from tugtool.errors import GitFailed, GitUnusable
from tugtool.git_errors import MergeRefused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tugtool.branches import Branch
    from tugtool.evidence import Evidence
    from tugtool.state.reconciling import Facts

    Data = dict[str, object]

#: Older ones cannot merge without a working tree.
OLDEST_GIT = (2, 38)


class Part:
    """One branch of the plan: its steps, and whether the base branch has it already."""

    __slots__ = ("branch", "commits", "contained", "steps")

    def __init__(self, branch: Branch, steps: list[str], commits: int) -> None:
        self.branch = branch
        self.steps = steps
        self.commits = commits
        self.contained = False

    def told(self) -> Data:
        """For the answer, and for whoever has to go on."""
        return {
            "branch_name": self.branch.name,
            "worktree_path": self.branch.worktree,
            "tip": self.branch.tip,
            "commits": self.commits,
            "steps": self.steps,
            "already_contained": self.contained,
        }


class Rehearsal:
    """All branches in their order, one after the other onto the base branch."""

    def __init__(self, found: Evidence, start: str) -> None:
        _refuse_old_git()
        self.found, self.root, self.start = found, found.land.root, start
        self.steps_of = {step["anchor"]: step for step in found.facts.steps}
        self.parts = in_order(found.facts, _parts(found))
        self.conflicts: list[Data] = []
        self.result = start
        for part in self.parts:
            self._add(part)

    def tree(self, commit: str) -> str:
        """The tree of a commit."""
        return git.run("rev-parse", "--verify", f"{commit}^{{tree}}", cwd=self.root).strip()

    def _add(self, part: Part) -> None:
        tip = part.branch.tip
        if is_ancestor(self.root, tip, self.result):
            part.contained = True
            return
        tree, files = self._merged(part)
        if files:
            steps = self._steps_behind(tip, files)
            self.conflicts.append({"branch_name": part.branch.name, "files": files, "steps": steps})
        elif tree == self.tree(self.result) and self._all_on_base(part):
            # Squashed or rebased onto the base branch by somebody: it would bring nothing.
            part.contained = True
        else:
            self.result = commit(self.root, tree, [self.result, tip], self._message(part))

    def _merged(self, part: Part) -> tuple[str, list[str]]:
        """The tree that a merge gives, and the files in conflict."""
        done = blend.commits(self.root, self.result, part.branch.tip)
        if done.refusal:
            raise MergeRefused(
                self.found.facts.plan,
                reason=f"git cannot merge {part.branch.name}: {done.refusal}",
                hint="git log --oneline --graph --all",
                branch=part.branch.name,
            )
        return done.tree, done.files

    def _steps_behind(self, tip: str, files: Sequence[str]) -> list[str]:
        """The steps whose commits touch the files on either side."""
        out = git.run(
            *("--literal-pathspecs", "log", "-z", "--format=%H", f"{self.result}...{tip}", "--"),
            *files,
            cwd=self.root,
        )
        touched = set(out.split("\0"))
        return [
            anchor
            for anchor in self.steps_of
            if any(proof.commit in touched for proof in self.found.all_proofs.get(anchor, ()))
        ]

    def _all_on_base(self, part: Part) -> bool:
        return all(self.found.is_on_base(self.steps_of[anchor]) for anchor in part.steps)

    def _message(self, part: Part) -> str:
        what = f"Merge {part.branch.name}"
        titles = [f"* {anchor}: {self.steps_of[anchor]['title']}" for anchor in part.steps]
        return "\n".join([what, "", f"Of {self.found.facts.plan}:", *titles, ""])


def commit(root: str, tree: str, parents: Sequence[str], message: str) -> str:
    """A commit that no branch has yet; signed, if that is what the person has set."""
    named = [word for parent in parents for word in ("-p", parent)]
    wanted = git.attempt("config", "--type=bool", "--get", "commit.gpgSign", cwd=root)
    sign = ["-S"] if wanted.out.strip() == "true" else []
    return git.run("commit-tree", *sign, *named, "-F", "-", tree, cwd=root, given=message).strip()


def in_order(facts: Facts, parts: Iterable[Part]) -> list[Part]:
    """A branch after those whose steps its own depend on; otherwise as the plan has them."""
    place = {step["anchor"]: step["step_index"] for step in facts.steps}
    home = {anchor: parent or anchor for anchor, parent in facts.parents.items()}
    needs: dict[str, set[str]] = {}
    for anchor, need in facts.needs:
        needs.setdefault(home[anchor], set()).add(home[need])

    def first(part: Part) -> tuple[int, str]:
        return min((place[each] for each in part.steps), default=len(place)), part.branch.name

    waiting, ordered = sorted(parts, key=first), []
    while waiting:
        # What has no step of its own comes last: it may have come along with the others.
        free = [part for part in waiting if part.steps and not _waits(part, waiting, needs)]
        # Branches that wait for each other's steps have brought them in; then the plan decides.
        chosen = (free or waiting)[0]
        waiting.remove(chosen)
        ordered.append(chosen)
    return ordered


def _waits(part: Part, waiting: Sequence[Part], needs: dict[str, set[str]]) -> bool:
    wanted = {need for anchor in part.steps for need in needs.get(anchor, ())}
    return any(wanted.intersection(other.steps) for other in waiting if other is not part)


def _parts(found: Evidence) -> list[Part]:
    steps: dict[str, list[str]] = {branch.name: [] for branch in found.branches}
    for step in found.facts.steps:
        branch = _branch_of(found, step["anchor"], step["commit_hash"])
        if branch is not None and step["parent_anchor"] is None:
            steps[branch.name].append(step["anchor"])
    return [Part(each, steps[each.name], _ahead(found, each)) for each in found.branches]


def _branch_of(found: Evidence, anchor: str, recorded: str | None) -> Branch | None:
    """Where a step was committed: by the record, or else by what git proves."""
    commits = [recorded or "", *(proof.commit for proof in found.all_proofs.get(anchor, ()))]
    return next((found.home[each] for each in commits if each in found.home), None)


def _ahead(found: Evidence, branch: Branch) -> int:
    range_ = f"{found.base_tip}..{branch.tip}"
    return int(git.run("rev-list", "--count", range_, cwd=found.land.root))


def is_ancestor(root: str, older: str, newer: str) -> bool:
    """Whether one commit is behind another, or the same."""
    done = git.attempt("merge-base", "--is-ancestor", older, newer, cwd=root)
    if done.status not in (0, 1):
        raise GitFailed(("merge-base",), status=done.status, said=done.said.strip())
    return done.status == 0


def is_commit(root: str, name: str) -> bool:
    """Whether git has such a commit."""
    return git.attempt("cat-file", "-e", f"{name}^{{commit}}", cwd=root).status == 0


def _refuse_old_git() -> None:
    found = git.version() or ""
    numbers = tuple(int(part) for part in found.split(".")[:2] if part.isdecimal())
    if numbers < OLDEST_GIT:
        wanted = ".".join(map(str, OLDEST_GIT))
        raise GitUnusable(f"merging needs git {wanted} or newer, and this is {found}")
