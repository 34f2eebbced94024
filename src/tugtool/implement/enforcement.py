"""Undo what an agent may not do."""

from __future__ import annotations

import contextlib
import shutil

from tugtool.agents import answers
from tugtool.agents.confinement import reaches
from tugtool.agents.guard import rules
from tugtool.errors import TugError, listing
from tugtool.git import command as git
from tugtool.git import refs, status
from tugtool.git.index import identity
from tugtool.git.worktrees import open_directories
from tugtool.implement.run import Astray, Lost
from tugtool.implement.snapshot import Untouched
from tugtool.state import record
from tugtool.system import files, os
from tugtool.workflow import salvage
from tugtool.workflow.commit import log
from tugtool.workflow.worktree import branches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tugtool.implement.attempt import AgentContext, Attempt
    from tugtool.implement.snapshot import Changes


#: Directories of a rebase or the like under way, which `reset` leaves.
_UNDER_WAY = ("rebase-merge", "rebase-apply", "sequencer")
#: The reflog message of our changes.
_SAID = ("-m", "tugcode: implement")
#: Cleaning takes several rounds: removing one .gitignore can reveal more files.
_ROUNDS = 3

#: At most so much of a plan that an agent changed is kept for people.
_MOST_KEPT = 1 << 20
#: A message names at most so many files.
_MOST_NAMED = 5


class Enforcement:
    """The state of the worktree before an agent runs."""

    def __init__(self, context: AgentContext, role: str, *, looks: bool | None = None) -> None:
        self.context, self.checkout, self.role = context, context.checkout, role
        context.checkout.require()
        self.branch, self.head = context.checkout.head()
        self.plan = context.checkout.read_plan(context.run.plan)
        self._plan_path = self._real_plan()
        #: True if the agent must not change anything.
        self.looks = rules.ROLES[role].edits == rules.NOTHING if looks is None else looks
        # The files are known if no agent has worked yet or the last one was read-only.
        known = not self.looks and (context.is_fresh or context.held is not None)
        self.files = context.held if known else Untouched(context.checkout)
        self._tell_opened()
        context.held, context.is_fresh = None, context.is_fresh and self.looks
        self._index = identity(os.path.join(context.checkout.git_dir, "index"))
        self._was_under_way = status.under_way(context.checkout.git_dir) is not None
        context.run.surroundings.begin()

    def _tell_opened(self) -> None:
        if self.files is not None and self.files.opened:
            named = listing(self.files.opened, most=_MOST_NAMED)
            said = f"{named} could not be read or written; its mode was changed"
            self.context.keep_text(said, "\n".join(self.files.opened))
            self.files.opened = []

    def look_around(self) -> None:
        """Restore the shared git directory, and report changes there and in the main checkout."""
        for said, content in self.context.run.surroundings.end():
            told = answers.storable(f"while the {self.role} ran, {said}")
            self.context.keep_text(told, answers.storable(content[:_MOST_KEPT]))
            # Shown until the plan is merged. Agents that cannot write there did not do it.
            run, tree = self.context.run, self.checkout.path
            if any(reaches(part.agent, run.repo.root, tree) for part in run.parts.values()):
                run.keep("changed_outside", {"reason": told})

    def restore(self) -> str | None:
        """Restore what the agent must not change. Return the complaint for the agent, or None."""
        # This comes first: the agent's git settings would affect every git command below.
        self.look_around()
        unmarked = self._put_marker_back()
        moved = self._put_head_back()
        plan = self._put_plan_back()
        if not self.looks or self.files is None:
            return unmarked or moved or plan or self._inside()
        files = self._put_files_back(self.files)
        self.context.held = self.files
        return unmarked or plan or files or moved

    def _put_marker_back(self) -> str | None:
        if not self.checkout.require():
            return None
        said = f"the {self.role} removed the worktree's .git; it was restored"
        self.context.keep_text(said, f"{self.checkout.path}\n")
        return "it removed the worktree's .git, which no agent may; it has been restored"

    def _put_head_back(self) -> str | None:
        branch, head = self.checkout.head()
        left = self._left()
        if (branch, head, left) == (self.branch, self.head, None):
            return None
        if not self.context.still_holds():
            # The agent's commit may be the one that completed the step.
            raise Lost
        if left is not None or not self._is_next(branch, head):
            return self._rewind(branch, head, left)
        # Keep the files: they are the agent's work.
        git.patiently("reset", "--quiet", "--soft", self.head, cwd=self.checkout.path)
        if not self.looks:
            said = f"the {self.role} committed {head}; its changes are part of the step's commit"
            self.context.keep_text(f"{said} instead", f"{branch} {head}\n")
            return None
        self.context.keep_text(
            f"the {self.role} committed {head}; that was taken back", f"{head}\n"
        )
        return f"it moved HEAD, which the {self.role} may not; it has been put back"

    def _is_next(self, branch: str | None, head: str) -> bool:
        """Return whether the agent only added commits to the branch."""
        if branch != self.branch or not head:
            return False
        return refs.is_ancestor(self.checkout.path, self.head, head)

    def _left(self) -> str | None:
        """Name the git operation that the agent began and did not end, or return None."""
        under_way = status.under_way(self.checkout.git_dir)
        if under_way is not None:
            return None if self._was_under_way else f"a {under_way} under way"
        if identity(os.path.join(self.checkout.git_dir, "index")) == self._index:
            return None
        words = ("ls-files", "--unmerged", "-z")
        # If git fails here, the next command that needs the index reports it.
        return "unmerged files" if git.attempt(*words, cwd=self.checkout.path).out else None

    def _rewind(self, branch: str | None, head: str, left: str | None) -> str:
        """Save what the agent left, and restore the state before it."""
        at = f"{branch or 'a detached HEAD'} at {head[:12] or 'no commit'}"
        stayed = (branch, head) == (self.branch, self.head)
        did = f"left {left}" if stayed else f"moved HEAD to {at}"
        open_directories(self.checkout.path)
        ref, root = self._free_ref(), self.checkout.repo.root
        tip = refs.commit_of(root, f"refs/heads/{self.branch}")
        try:
            self._keep(ref, branch=branch, tip=tip)
        except (salvage.Unsalvageable, TugError, OSError) as error:
            # Keep at least the agent's commits.
            with contextlib.suppress(TugError):
                salvage.keep(root, ref=ref, commit=tip or head)
            if self.branch is not None:
                self._put_branch_back(self.branch)
            wrong = f"the {self.role} {did}, and that cannot be put back: {error}"
            raise Astray(self.checkout.path, wrong) from error
        self._put_all_back()
        said = f"the {self.role} {did}; everything was put back as it was before it"
        self.context.keep_text(f"{said}, and what it left is kept in {ref}", f"{at}\n{ref}\n")
        return (
            f"it {did}, and no agent may reset, switch, merge or rewrite a branch; everything "
            f"is as it was before it ran, and what it left is kept in {ref}"
        )

    def _free_ref(self) -> str:
        """Return a free ref name for the agent's work."""
        slug = salvage.slug(self.context.run.plan)
        name = branches.safe(f"{os.path.basename(self.checkout.path)}-{self.role}")
        now = record.now(self.context.store)
        return salvage.ref_for(slug, name, now, top=self.checkout.repo.root)

    def _keep(self, ref: str, *, branch: str | None, tip: str | None = None) -> None:
        """Save the worktree and the agent's commits under the ref."""
        facts = {
            "Plan": self.context.run.plan,
            "Step": self.context.anchor,
            "Role": self.role,
            "Worktree": self.checkout.owner,
            "Branch": branch,
        }
        # After a rebase or reset, ORIG_HEAD is the branch's former commit.
        last = refs.commit_of(self.checkout.path, "ORIG_HEAD") if tip else None
        salvage.save(self.checkout.path, ref=ref, also=[tip, last], facts=facts)

    def _put_branch_back(self, branch: str) -> None:
        """Move the branch back, so that earlier commits are not lost."""
        words = ("update-ref", *_SAID, f"refs/heads/{branch}", self.head)
        git.patiently(*words, cwd=self.checkout.repo.root)

    def _put_all_back(self) -> None:
        """Restore branch, index and files; the caller has saved them."""
        path = self.checkout.path
        if self.branch is not None:
            git.run("symbolic-ref", *_SAID, "HEAD", f"refs/heads/{self.branch}", cwd=path)
            self._put_branch_back(self.branch)
        else:
            git.patiently("update-ref", *_SAID, "--no-deref", "HEAD", self.head, cwd=path)
        # This also ends a merge under way.
        git.patiently("reset", "--quiet", "--hard", cwd=path)
        for name in _UNDER_WAY:
            shutil.rmtree(os.path.join(self.checkout.git_dir, name), ignore_errors=True)
        if self.files is None:
            # Before the agent ran, the worktree equalled its commit.
            for kept in self.checkout.clear():
                self._tell_set_aside(f"{os.path.basename(kept)}/", kept)
            return
        for _ in range(_ROUNDS):
            changes = self.files.changes()
            self._set_aside(changes)
            self.files.put_back(changes)

    def _put_plan_back(self) -> str | None:
        key = self.context.run.plan
        now = self.checkout.read_plan(key)
        is_linked = self._real_plan() != self._plan_path
        if self.plan is None or (now == self.plan and not is_linked):
            return None
        path = os.path.join(self.checkout.path, key)
        if is_linked:
            self._unlink_plan(key)
        files.make_directory(os.path.dirname(path))
        files.replace(path, self.plan)
        said = f"an agent changed {key}; it was put back as it was agreed"
        wrote = (now or b"")[:_MOST_KEPT].decode(errors="replace")
        self.context.keep_text(said, answers.storable(wrote))
        return f"it changed the plan, {key}, which no agent may change; it has been restored"

    def _inside(self) -> str | None:
        """Return the complaint about an inner repository: a commit cannot hold its files."""
        found = status.inspect(self.checkout.path, self.checkout.git_dir).nested
        if not found:
            return None
        added = [path for path in found if not path.endswith("/")]
        if added:
            # Git would keep the submodule entry even without the inner .git.
            words = ("rm", "--quiet", "--cached", "--force", "--", *added)
            git.patiently("--literal-pathspecs", *words, cwd=self.checkout.path)
        return (
            f"it left a repository of its own inside, {listing(found, most=_MOST_NAMED)}, whose "
            "files a commit cannot hold; remove its .git, or ignore the directory if it is not "
            "part of the work"
        )

    def _real_plan(self) -> str:
        """Return the real path of the plan's file: a copy outside has the same text."""
        return os.path.realpath(os.path.join(self.checkout.path, self.context.run.plan))

    def _unlink_plan(self, key: str) -> None:
        """Remove the link that replaced the plan's file or a directory above it."""
        parts = key.split("/")
        for end in range(1, len(parts) + 1):
            name = "/".join(parts[:end])
            path = os.path.join(self.checkout.path, name)
            if os.path.islink(path):
                os.unlink(path)
                # For a directory, this restores all its committed files.
                words = ("checkout", "--quiet", "HEAD", "--", f":(literal){name}")
                git.attempt(*words, cwd=self.checkout.path)

    def _put_files_back(self, before: Untouched) -> str | None:
        told = None
        for _ in range(_ROUNDS):
            changes = before.changes()
            self._set_aside(changes)
            if not changes:
                break
            if changes.touched or changes.made:
                problem = self._save(changes)
                if problem is not None:
                    return f"it changed files, and they cannot be put back: {problem}"
            before.put_back(changes)
            told = told or self._breach(changes)
        return told

    def _set_aside(self, changes: Changes) -> None:
        """Move new inner repositories out of the worktree, and keep them."""
        for path in [path for path in changes.made if path.endswith("/")]:
            changes.made.remove(path)
            self._tell_set_aside(path, self.checkout.set_aside(path))

    def _tell_set_aside(self, path: str, kept: str) -> None:
        said = f"the {self.role} made a repository of its own, {path}; it is kept in {kept}"
        self.context.keep_text(said, path)

    def _breach(self, changes: Changes) -> str | None:
        """Return the complaint about the changes, or None if the agent kept its contract."""
        if changes.touched:
            named = listing(changes.touched, most=_MOST_NAMED)
            return (
                f"it changed {named}, and the {self.role} may change nothing; that has been put "
                "back (what only tests or builds write belongs into .gitignore)"
            )
        if changes.staged:
            return f"it changed git's index, which the {self.role} may not; that has been put back"
        # Tests leave such files, so they do not cost the agent another try.
        return None

    def _save(self, changes: Changes) -> str | None:
        """Save the agent's work under a ref and report it. Return why that failed, or None."""
        ref = self._free_ref()
        try:
            self._keep(ref, branch=self.branch)
        except (salvage.Unsalvageable, TugError, OSError) as error:
            return str(error)
        named = listing([*changes.touched, *changes.made], most=_MOST_NAMED)
        said = f"the {self.role} changed {named}; it was put back, and is kept in {ref}"
        self.context.keep_text(said, "\n".join([*changes.touched, *changes.made])[:_MOST_KEPT])
        return None


def tell_left_out(work: Attempt, report: dict[str, Any], committed: list[str]) -> None:
    """Warn of files that the coder reported and the commit lacks, and of ignored ones."""
    missing, outside = _unfound(report, work.checkout.path, committed)
    own = [name for name in committed if not name.startswith((log.PATH, log.ARCHIVE))]
    if missing:
        nothing = "" if own else ", which has nothing but the log"
        said = f"reported by the coder, and not in the commit{nothing}: {listing(missing, 5)}"
        work.keep_text(f"{work.anchor}: {said}", "\n".join(missing))
    if outside:
        said = f"reported by the coder, and outside its worktree: {listing(outside, 5)}"
        work.keep_text(f"{work.anchor}: {said}", "\n".join(outside))
    ignored = work.checkout.newly_ignored()
    if ignored:
        said = f"not committed, because git ignores it: {listing(ignored, 5)}"
        work.leave_note("note", said, "\n".join(ignored))


def _unfound(
    report: Mapping[str, Any], top: str, committed: list[str]
) -> tuple[list[str], list[str]]:
    """Return the reported files that the commit lacks, and those outside the worktree."""
    told = [str(name) for kind in ("created", "modified") for name in report[f"files_{kind}"]]
    missing, outside = [], []
    for name in dict.fromkeys(told):
        path = os.path.join(top, name)
        # Resolve only the directory: the file itself may be a link.
        real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        inside = os.path.relpath(os.path.normpath(real), os.path.realpath(top))
        if inside == os.pardir or inside.startswith(os.pardir + os.sep):
            outside.append(name)
        elif not any(each == inside or each.startswith(f"{inside}/") for each in committed):
            missing.append(name)
    return missing, outside
