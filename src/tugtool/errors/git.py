"""Refusals about worktrees, branches, commits and dashes.

TugError
├── WorktreeError
│   ├── InTheWay            E028  something else is where worktrees go
│   ├── NoBaseBranch        E031  the branch to start from does not exist
│   ├── NotMade             E033  a worktree could not be made; nothing is left of it
│   ├── NotRemoved          E034  a worktree could not be removed
│   ├── MainWorktree        E035  the command works only in a linked worktree
│   ├── WrongWorktree       E036  the worktree belongs to another plan
│   ├── LeftWork            E037  the worktree has uncommitted work of a step that it lost
│   ├── PlanUncommitted     E045  the base branch does not have the plan's current text
│   ├── DependencyConflict  E061  commits of dependencies cannot be merged in
│   ├── MergeRefused        E062  the plan cannot be merged now
│   ├── NoSuchSalvage       E085  the name fits no saved work, or several
│   ├── NotApplied          E086  saved work cannot be applied to the worktree
│   ├── CommitRefused       E080  the step cannot be committed here or now
│   └── MessageRefused      E081  the commit message is not valid
└── DashError
    ├── NoSuchDash          E054  no dash has this name
    ├── BadDashName         E055  the name is not valid for a dash
    ├── DashEnded           E056  the dash is joined or released, or soon will be
    ├── NotJoined           E057  the dash cannot be joined now
    └── WrongBranch         E058  the dash's worktree or the caller's is on another branch
"""

from __future__ import annotations

from tugtool.errors import TugError, listing, plan_argument, quoted
from tugtool.errors.repository import closest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tugtool.schemas import Issue


class WorktreeError(TugError):
    """A refusal about a working tree and its branch."""


class InTheWay(WorktreeError):
    """Tugtool removes only what it made."""

    code = "E028"

    def __init__(self, path: str, *, what: str) -> None:
        super().__init__(
            f"{path} is for worktrees, but there is {what}",
            hint=f"ls -ld {quoted(path)}",
            file=path,
        )


class NoBaseBranch(WorktreeError):
    """A worktree starts from a base branch, which must exist."""

    code = "E031"

    def __init__(self, problem: str, *, branch: str | None = None, close: Sequence[str] = ()):
        message, look = f"{problem}{closest(close)}", "git branch --list"
        super().__init__(message, hint=look, branch=branch, close=list(close) or None)


class NotMade(WorktreeError):
    """The command has removed what it had made."""

    code = "E033"

    def __init__(
        self, path: str, *, reason: str, left: Sequence[str] = (), of_setup: bool = False
    ) -> None:
        #: True if a command of `worktree.setup` failed: another try would fail too.
        self.reason, self.of_setup = reason, of_setup
        tail = f"; could not be removed: {listing(left)}" if left else ""
        super().__init__(
            f"no worktree was made at {path}: {reason}{tail}",
            hint="tugcode config" if of_setup else "tugcode worktree list",
            file=path,
            left=list(left) or None,
        )


class NotRemoved(WorktreeError):
    """The worktree has work in it, or git could not remove it."""

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
    """Steps are done in linked worktrees; the main one gets finished work."""

    code = "E035"

    def __init__(self, path: str, *, plan: str | None) -> None:
        super().__init__(
            f"{path} is the main worktree; steps are done in linked worktrees",
            hint=f"tugcode worktree create {plan_argument(plan)}"
            if plan
            else "tugcode worktree list",
            file=path,
            plan=plan,
        )


class WrongWorktree(WorktreeError):
    """A merge brings all commits of a worktree, so it serves one plan only."""

    code = "E036"

    def __init__(self, path: str, *, plan: str, recorded: str, right: Sequence[str]) -> None:
        where = f"; {plan} is carried out in {listing(right)}" if right else ""
        super().__init__(
            f"{path} is a worktree of {recorded}{where}",
            hint=f"cd {quoted(right[0])}"
            if right
            else f"tugcode worktree create {plan_argument(plan)}",
            file=path,
            plan=plan,
            recorded=recorded,
            worktrees=list(right),
        )


class LeftWork(WorktreeError):
    """The next step's commit would include it."""

    code = "E037"

    def __init__(
        self, path: str, *, plan: str, anchor: str, attempt: int, salvage_ref: str | None
    ) -> None:
        saved = f" (saved as {salvage_ref})" if salvage_ref else ""
        super().__init__(
            f"{path} still has uncommitted work on {anchor} of {plan}, attempt {attempt}, which "
            f"it lost{saved}; clean it before you claim another step there",
            hint=f"tugcode worktree clean --worktree {quoted(path)}",
            file=path,
            plan=plan,
            anchor=anchor,
            attempt=attempt,
            salvage_ref=salvage_ref,
        )


class PlanUncommitted(WorktreeError):
    """A worktree starts from a commit, so the plan must be in one."""

    code = "E045"

    def __init__(
        self,
        plan: str,
        *,
        branch: str,
        known: bool,
        command: str | None,
        ignored: str | None = None,
    ) -> None:
        what = "differs from its committed text" if known else "is not committed"
        rule = f", and git ignores it ({ignored})" if ignored else ""
        look = f"git log --all --oneline -- {quoted(plan)}"
        if ignored:
            command = f"git check-ignore --verbose -- {quoted(plan)}"
        super().__init__(
            f"{plan} {what} on {branch}{rule}",
            hint=command or look,
            file=plan,
            branch=branch,
        )


class DependencyConflict(WorktreeError):
    """The command merged nothing; the working tree is unchanged."""

    code = "E061"

    def __init__(
        self,
        worktree: str,
        *,
        anchor: str,
        commit: str,
        reason: str,
        files: Sequence[str] = (),
        hint: str = "",
        absent: bool | None = None,
    ) -> None:
        where = f": {listing(files)}" if files else ""
        super().__init__(
            f"commit {commit[:12]} of step {anchor} cannot be merged into {worktree}; "
            f"{reason}{where}",
            hint=hint or f"git -C {quoted(worktree)} diff HEAD...{commit}",
            absent=absent,
            anchor=anchor,
            commit=commit,
            files=list(files) or None,
            worktree=worktree,
        )


class MergeRefused(WorktreeError):
    """The command merged nothing; the main worktree is unchanged."""

    code = "E062"

    def __init__(self, plan: str, *, reason: str, hint: str | None = None, **facts: object) -> None:
        super().__init__(
            f"{plan} cannot be merged: {reason}",
            hint=hint or f"tugcode show {plan_argument(plan)}",
            plan=plan,
            **facts,
        )


class NoSuchSalvage(WorktreeError):
    """Saved work is named by its ref, its name, or the beginning of one."""

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
            whole = f"is short for {listing(close)}, which needs its whole name"
            problem = f'"{given}" {whole}: {unlanded}'
        elif foreign:
            problem = f'"{given}" is not a ref of saved work; those begin with refs/tug/salvage/'
        elif several:
            problem = f'"{given}" fits several: {listing(close, most=5)}'
        else:
            problem = f'no saved work is called "{given}"{closest(close)}'
        super().__init__(
            problem,
            hint="tugcode worktree salvage list",
            salvage_ref=given,
            close=list(close) or None,
        )


class NotApplied(WorktreeError):
    """The command changed neither the worktree nor the saved work."""

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
    """The command touched nothing: a step cannot be committed in this worktree."""

    code = "E080"

    def __init__(
        self,
        worktree: str,
        reason: str,
        *,
        hint: str = "git status",
        problems: Sequence[TugError] = (),
        **facts: object,
    ) -> None:
        super().__init__(f"{worktree} {reason}", hint=hint, file=worktree, **facts)
        self._problems = problems

    def issues(self) -> list[Issue]:
        """Each problem with its remedy, then the refusal."""
        return [*(issue for each in self._problems for issue in each.issues()), self.issue()]


class MessageRefused(WorktreeError):
    """The command touched nothing: git would not keep this message as it is."""

    code = "E081"

    def __init__(self, reason: str, *, command: str = "commit") -> None:
        super().__init__(reason, hint=f"tugcode {command} --help")


class DashError(TugError):
    """A refusal about one dash."""

    def __init__(self, name: str, message: str, *, hint: str | None, **facts: object) -> None:
        look = f"tugcode dash show {quoted(name)}"
        super().__init__(message, hint=hint or look, dash=name, **facts)


class NoSuchDash(DashError):
    """No dash, active or ended, has the name."""

    code = "E054"

    def __init__(self, name: str, *, close: Sequence[str] = ()) -> None:
        here = "this is not a dash's worktree; name one"
        message = f'there is no dash "{name}"' if name else here
        tail = closest(close) if name else ""
        look = "tugcode dash list --all"
        super().__init__(name, f"{message}{tail}", hint=look, close=list(close) or None)


class BadDashName(DashError):
    """A name becomes part of a branch and of a path."""

    code = "E055"

    def __init__(
        self, name: str, *, reason: str, close: str | None = None, taken: bool = False
    ) -> None:
        tail = f'; "{close}" would do' if close else ""
        problem = f'no dash can be called "{name}" here: {reason}{tail}'
        super().__init__(
            name,
            f"there is a dash {name} already: {reason}" if taken else problem,
            hint=None if taken else "tugcode dash create --help",
            close=[close] if close else None,
        )


class DashEnded(DashError):
    """The dash has ended."""

    code = "E056"

    def __init__(self, name: str, *, what: str, hint: str | None = None, **facts: object) -> None:
        super().__init__(name, f"the dash {name} is not active: {what}", hint=hint, **facts)


class NotJoined(DashError):
    """The base branch, the main worktree and the dash are unchanged."""

    code = "E057"

    def __init__(self, name: str, reason: str, hint: str | None = None, **facts: object) -> None:
        super().__init__(name, f"the dash {name} cannot be joined: {reason}", hint=hint, **facts)


class WrongBranch(DashError):
    """A commit here would not hold the work of the dash."""

    code = "E058"

    def __init__(self, name: str, reason: str, *, worktree: str, hint: str = "") -> None:
        look = hint or f"git -C {quoted(worktree)} status"
        message = f"the dash {name} is not checked out here: {reason}"
        super().__init__(name, message, hint=look, file=worktree)
