"""Every refusal: its code, its sentence and the next command.

    TugError         a refusal; every other class is in one of these modules
    ├── repository   the command line, agent clients, the repository, its plans and its files
    ├── state        the record and its database
    ├── git          worktrees, branches, commits, dashes
    ├── server       requests over HTTP, and the start of the server
    └── safety       what may run here, and what an agent may touch

One class, one code, for ever. A class takes facts and writes the sentence, so text and JSON agree.
Agents do what messages say, so a hint is always harmless.

`errors.Usage` loads the class on first use: most commands refuse nothing, and fifty classes
cost a sixth of a bare start. So modules of frequent commands do not import them by name.

Room `errors`: the vocabulary. It imports nothing of ours; every room may import it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tugtool.errors.git import InTheWay, NoBaseBranch
    from tugtool.errors.repository import (
        SPARSE,
        SPARSE_HINT,
        BadSetting,
        Bug,
        CannotRun,
        GitFailed,
        GitUnusable,
        Interrupted,
        NoRepository,
        NoSuchStep,
        NotInitialised,
        OutsideRepository,
        PlanAmbiguous,
        PlanError,
        PlanExists,
        PlanInvalid,
        PlanNotFound,
        RepositoryError,
        Unreadable,
        UnsupportedPlatform,
        Unwritable,
        Usage,
    )
    from tugtool.errors.state import (
        DatabaseUnavailable,
        InvalidEntry,
        ItemsOpen,
        NotOwner,
        NotReady,
        PlanChanged,
        PlanNotInitialised,
        StepParked,
        SubstepItemsOpen,
        Superseded,
        WrongStatus,
    )
    from tugtool.schemas import Issue


def __getattr__(name: str) -> Any:
    """Find a class in the modules beside this one."""
    if name[0].isupper():
        for home in ("repository", "state", "git", "server", "safety"):
            module = __import__(f"tugtool.errors.{home}", fromlist=[name])
            if name in module.__dict__:
                return module.__dict__[name]
    raise AttributeError(f"module 'tugtool.errors' has no attribute {name!r}")


#: The facts that stand directly in an entry of `issues`; all others go under `facts`.
ISSUE_KEYS = ("file", "line", "anchor")


class TugError(Exception):
    """A refusal: the command changed nothing, and the message gives the reason."""

    code = ""
    exit_status = 1

    def __init__(self, message: str, *, hint: str | None = None, **facts: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.facts = {key: value for key, value in facts.items() if value is not None}

    def issues(self) -> list[Issue]:
        """The entries of this error in the envelope's `issues`."""
        return [self.issue()]

    def issue(self) -> Issue:
        """The entry of this error itself."""
        issue: Issue = {"code": self.code, "severity": "error", "message": self.message}
        if self.hint:
            issue["hint"] = self.hint
        known: Any = {key: self.facts[key] for key in ISSUE_KEYS if key in self.facts}
        issue.update(known)
        rest = {key: value for key, value in self.facts.items() if key not in ISSUE_KEYS}
        if rest:
            issue["facts"] = rest
        return issue


def quoted(word: str) -> str:
    """The word, quoted for a shell where that is needed."""
    if word and all(c.isalnum() or c in "._/-+@%=:," for c in word) and word.isascii():
        return word
    return "'" + word.replace("'", "'\\''") + "'"


def plan_name(key: str) -> str:
    """The name of a plan: its slug, or its path if the slug could mean another plan."""
    slug = key.removeprefix(".tugtool/tugplan-").removesuffix(".md")
    is_odd = not slug or slug.startswith(("-", "tugplan-")) or slug.endswith(".md") or "/" in slug
    return key if is_odd or key != f".tugtool/tugplan-{slug}.md" else slug


def plan_argument(key: str) -> str:
    """The plan's name as a reader may paste it behind a command."""
    return quoted(plan_name(key))


def merge_command(key: str, *, push: bool) -> str:
    """The command that merges a plan; where commits travel by a remote, it pushes as well."""
    return f"tugcode merge {plan_argument(key)}{' --push' * push}"


def listing(names: Sequence[str], most: int = 8) -> str:
    """The first names of a list and the number of the others."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def place(file: str, line: int | None) -> str:
    """A file, or FILE:LINE as compilers write it."""
    return f"{file}:{line}" if line else file
