"""The refusals about working trees, branches and commits; the rest is in `errors.py`.

TugError
└── WorktreeError
    ├── InTheWay            E028  something lies where worktrees go
    ├── NoBaseBranch        E031  the branch to start from does not exist
    ├── NotMade             E033  a worktree could not be made; nothing of it is left
    ├── NotRemoved          E034  a worktree stays, and why
    ├── MainWorktree        E035  this is done in a linked worktree, never in the main one
    ├── PlanUncommitted     E045  the plan is not committed on the base branch as it stands
    ├── DependencyConflict  E061  dependency commits cannot be brought in
    ├── MergeRefused        E062  the plan cannot be merged as things stand
    ├── NoSuchSalvage       E085  a name that means no saved work, or several
    ├── NotApplied          E086  saved work cannot be brought into a worktree
    ├── CommitRefused       E080  a step cannot be committed here, or not now
    └── MessageRefused      E081  a commit message that cannot be taken
"""

from __future__ import annotations

from tugtool.errors import TugError, listing, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class WorktreeError(TugError):
    """About a working tree and its branch."""


class InTheWay(WorktreeError):
    """What lies there is not ours to remove."""

    code = "E028"

    def __init__(self, path: str, *, what: str) -> None:
        super().__init__(
            f"worktrees go below {path}, and there is {what}",
            hint=f"ls -ld {quoted(path)}",
            file=path,
        )


class NoBaseBranch(WorktreeError):
    """Without a branch to start from, and to come back to, there is no worktree."""

    code = "E031"

    def __init__(self, problem: str, *, branch: str | None = None, close: Sequence[str] = ()):
        tail = f"; closest: {listing(close)}" if close else ""
        super().__init__(
            f"{problem}{tail}",
            hint="git branch --list",
            branch=branch,
            close=list(close) or None,
        )


class NotMade(WorktreeError):
    """Whatever there was of it has been taken away again."""

    code = "E033"

    def __init__(self, path: str, *, reason: str, left: Sequence[str] = ()) -> None:
        self.reason = reason
        tail = f"; could not be taken away again: {listing(left)}" if left else ""
        super().__init__(
            f"no worktree was made at {path}: {reason}{tail}",
            hint="tugcode worktree list",
            file=path,
            left=list(left) or None,
        )


class NotRemoved(WorktreeError):
    """It holds something, or git could not take it away."""

    code = "E034"

    def __init__(
        self, name: str, *, reasons: Sequence[str], hint: str = "tugcode worktree list"
    ) -> None:
        self.reasons = list(reasons)
        super().__init__(
            f"{name} stays: {'; '.join(reasons)}",
            hint=hint,
            worktree=name,
            reasons=list(reasons),
        )


class MainWorktree(WorktreeError):
    """The main worktree is where finished work arrives, not where it is done."""

    code = "E035"

    def __init__(self, path: str, *, plan: str | None) -> None:
        super().__init__(
            f"{path} is the main worktree, and steps are carried out in linked ones",
            hint=f"tugcode worktree create {quoted(plan)}" if plan else "tugcode worktree list",
            file=path,
            plan=plan,
        )


class PlanUncommitted(WorktreeError):
    """A worktree starts from what is committed, so the plan has to be."""

    code = "E045"

    def __init__(self, plan: str, *, branch: str, known: bool, command: str | None) -> None:
        what = "differs from what is committed" if known else "is not committed"
        super().__init__(
            f"{plan} {what} on {branch}",
            hint=command or f"git log --all --oneline -- {quoted(plan)}",
            file=plan,
            branch=branch,
        )


class DependencyConflict(WorktreeError):
    """Nothing was merged; the working tree is as it was."""

    code = "E061"

    def __init__(
        self,
        worktree: str,
        *,
        anchor: str,
        commit: str,
        reason: str,
        files: Sequence[str] = (),
    ) -> None:
        where = f": {listing(files)}" if files else ""
        super().__init__(
            f"commit {commit[:12]} of step {anchor} cannot be merged into {worktree}; "
            f"{reason}{where}",
            hint=f"git -C {quoted(worktree)} diff HEAD...{commit}",
            anchor=anchor,
            commit=commit,
            files=list(files) or None,
            worktree=worktree,
        )


class MergeRefused(WorktreeError):
    """Nothing was merged, and the main worktree is as it was."""

    code = "E062"

    def __init__(self, plan: str, *, reason: str, hint: str | None = None, **facts: object) -> None:
        super().__init__(
            f"{plan} cannot be merged: {reason}",
            hint=hint or f"tugcode state show {quoted(plan)}",
            plan=plan,
            **facts,
        )


class NoSuchSalvage(WorktreeError):
    """What was saved is named by its ref, its name, or the beginning of one."""

    code = "E085"

    def __init__(
        self,
        given: str,
        *,
        several: bool,
        close: Sequence[str] = (),
        foreign: bool = False,
        unlanded: str | None = None,
    ) -> None:
        if unlanded is not None:
            whole = f"is short for {listing(close)}, which is dropped only by its whole name"
            problem = f'"{given}" {whole}: {unlanded}'
        elif foreign:
            problem = f'"{given}" is no ref of saved work; those begin with refs/tug/salvage/'
        elif several:
            problem = f'"{given}" means several: {listing(close, most=5)}'
        else:
            tail = f"; closest: {listing(close)}" if close else ""
            problem = f'nothing was saved under the name "{given}"{tail}'
        super().__init__(
            problem,
            hint="tugcode worktree salvage list",
            salvage_ref=given,
            close=list(close) or None,
        )


class NotApplied(WorktreeError):
    """Nothing was changed: the worktree is as it was, and so is what was saved."""

    code = "E086"

    def __init__(self, ref: str, worktree: str, *, reason: str, files: Sequence[str] = ()) -> None:
        where = f": {listing(files)}" if files else ""
        super().__init__(
            f"{ref} cannot be applied in {worktree}; {reason}{where}",
            hint=f"tugcode worktree salvage show {quoted(ref)}",
            salvage_ref=ref,
            worktree=worktree,
            files=list(files) or None,
        )


class CommitRefused(WorktreeError):
    """Nothing was touched: the worktree is not one in which a step's work can be committed."""

    code = "E080"

    def __init__(self, worktree: str, reason: str, *, hint: str = "git status", **facts: object):
        super().__init__(f"{worktree} {reason}", hint=hint, file=worktree, **facts)


class MessageRefused(WorktreeError):
    """Nothing was touched: the words given for a commit cannot stand in one."""

    code = "E081"

    def __init__(self, reason: str, *, command: str = "commit") -> None:
        super().__init__(reason, hint=f"tugcode {command} --help")
