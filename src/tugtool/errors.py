"""Every refusal Tugtool can give: what is the case, its code, and what to look at next.

    TugError
    ├── Usage                 E070   the command line makes no sense (exit status 2)
    ├── UnsupportedPlatform   E075   neither Linux nor macOS
    ├── Interrupted           E098   stopped by the person (exit status 130)
    ├── Bug                   E099   a fault of ours (exit status 3)
    ├── CannotRun             E087   a command that was to be run cannot be (126, 127)
    ├── RepositoryError
    │   ├── NotInitialised    E009   `tugcode init` has something to do
    │   ├── GitUnusable       E029   git is missing or too old
    │   ├── NoRepository      E030   no git repository with a working tree
    │   └── GitFailed         E076   git refused what we asked of it
    ├── PlanError
    │   ├── PlanAmbiguous     E040   the name fits several plans
    │   ├── PlanNotFound      E041   the name fits no plan
    │   ├── PlanExists        E042   a new plan would overwrite a file
    │   ├── PlanInvalid       E043   the plan has errors; they come with it
    │   └── NoSuchStep        E059   the plan has no step with that anchor
    └── FileError
        ├── BadSetting        E071   a configuration key or value is wrong
        ├── Unreadable        E072   a file is unreadable, not UTF-8 or too large
        ├── OutsideRepository E073   a path leaves the repository
        └── Unwritable        E074   something cannot be written

One class, one code, for ever. Classes take facts and make the sentence themselves, so
text and JSON cannot disagree. A hint is harmless to follow: agents do what messages say.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: The facts that stand directly in an entry of `issues`; all others go under `facts`.
ISSUE_KEYS = ("file", "line", "anchor")


class TugError(Exception):
    """A refusal: nothing was changed, and the message says what is the case."""

    code = ""
    exit_status = 1

    def __init__(self, message: str, *, hint: str | None = None, **facts: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.facts = {key: value for key, value in facts.items() if value is not None}

    def issues(self) -> list[dict[str, object]]:
        """All there is to say, for the envelope."""
        return [self.issue()]

    def issue(self) -> dict[str, object]:
        """This error as an entry of the envelope's `issues`."""
        issue: dict[str, object] = {
            "code": self.code,
            "severity": "error",
            "message": self.message,
        }
        if self.hint:
            issue["hint"] = self.hint
        issue.update((key, self.facts[key]) for key in ISSUE_KEYS if key in self.facts)
        rest = {key: value for key, value in self.facts.items() if key not in ISSUE_KEYS}
        if rest:
            issue["facts"] = rest
        return issue


class Usage(TugError):
    """The words of the command line do not fit the command table."""

    code = "E070"
    exit_status = 2

    def __init__(self, problem: str, *, command: str = "", close: Sequence[str] = ()) -> None:
        message = f"{problem}; did you mean {_either(close)}?" if close else problem
        #: The command whose words they were, as far as it was recognised.
        self.command = command
        words = ["tugcode", *command.split(), "--help"]
        super().__init__(message, hint=" ".join(words), close=list(close) or None)


class UnsupportedPlatform(TugError):
    """Tugtool relies on POSIX locks and processes as Linux and macOS have them."""

    code = "E075"

    def __init__(self, platform: str) -> None:
        super().__init__(
            f"Tugtool runs on Linux and macOS, and this is {platform}",
            hint="on Windows, use it inside WSL",
            platform=platform,
        )


class Interrupted(TugError):
    """Ctrl-C, or an interrupt from whoever started the command."""

    code = "E098"
    exit_status = 130

    def __init__(self) -> None:
        super().__init__("interrupted")


class Bug(TugError):
    """Anything that is not a TugError and still reached the top."""

    code = "E099"
    exit_status = 3

    def __init__(self, error: BaseException) -> None:
        super().__init__(
            f"this is a bug in tugcode: {type(error).__name__}: {error}",
            hint="please report it with the traceback and the output of: tugcode version",
            exception=type(error).__name__,
        )


class CannotRun(TugError):
    """A command that somebody asked us to run: there is none, or it cannot be started."""

    code = "E087"

    def __init__(self, command: str, *, reason: str, missing: bool) -> None:
        super().__init__(
            f"cannot run {command}: {reason}", hint=f"command -v {quoted(command)}", command=command
        )
        #: As shells have it.
        self.exit_status = 127 if missing else 126


class RepositoryError(TugError):
    """About the git repository as a whole."""


class NotInitialised(RepositoryError):
    """`tugcode init --check` found something that `tugcode init` would do."""

    code = "E009"

    def __init__(self, root: str, *, missing: Sequence[str], command: str = "tugcode init") -> None:
        super().__init__(
            f"{root} is not set up for Tugtool; missing: {', '.join(missing)}",
            hint=command,
            missing=list(missing),
        )


class GitUnusable(RepositoryError):
    """Git could not be started at all."""

    code = "E029"

    def __init__(self, reason: str) -> None:
        super().__init__(f"git cannot be used: {reason}", hint="git --version")


class GitFailed(RepositoryError):
    """Git ran and said no."""

    code = "E076"

    def __init__(self, arguments: Sequence[str], *, status: int, said: str) -> None:
        # Options of git's own may stand before what it was asked to do.
        command = next((word for word in arguments if not word.startswith("-")), arguments[0])
        super().__init__(
            f"git {command} failed with status {status}: {said or 'it said nothing'}",
            hint="git status",
            arguments=list(arguments),
            status=status,
        )


class NoRepository(RepositoryError):
    """No repository, or one without a main working tree."""

    code = "E030"

    def __init__(self, path: str, *, reason: str, hint: str = "git status") -> None:
        super().__init__(f"{path} {reason}", hint=hint, file=path)


class PlanError(TugError):
    """About which plan, or which step of it, is meant."""


class PlanAmbiguous(PlanError):
    """A name that fits several plans."""

    code = "E040"

    def __init__(self, name: str, *, candidates: Sequence[str]) -> None:
        what = f'"{name}" fits' if name else "no plan was named, and there are"
        super().__init__(
            f"{what} {len(candidates)} plans: {listing(candidates)}",
            hint="give more of the name, or the path" if name else "name one of them",
            name=name,
            candidates=list(candidates),
        )


class PlanNotFound(PlanError):
    """A name that fits no plan."""

    code = "E041"

    def __init__(self, name: str | None, *, close: Sequence[str] = ()) -> None:
        message = "there is no plan here" if name is None else f'no plan is called "{name}"'
        if close:
            message += f"; closest: {listing(close)}"
        super().__init__(
            message,
            hint="tugcode plan new SLUG" if name is None else "tugcode list",
            name=name,
            close=list(close) or None,
        )


class PlanExists(PlanError):
    """`plan new` never overwrites."""

    code = "E042"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} already exists", hint=f"tugcode plan show {quoted(path)}", file=path
        )


class PlanInvalid(PlanError):
    """A plan that cannot be carried out as it stands; its errors come along."""

    code = "E043"

    def __init__(self, plan: str, *, diagnostics: Sequence[dict[str, object]]) -> None:
        super().__init__(
            f"{plan} cannot be carried out as it stands",
            hint=f"tugcode validate {quoted(plan)}",
            file=plan,
        )
        self.diagnostics = list(diagnostics)

    def issues(self) -> list[dict[str, object]]:
        """The errors of the plan, then the refusal."""
        return [*self.diagnostics, self.issue()]


class NoSuchStep(PlanError):
    """An anchor that no step of the plan has."""

    code = "E059"

    def __init__(self, anchor: str, *, plan: str, close: Sequence[str] = ()) -> None:
        tail = f"; closest: {listing(close)}" if close else ""
        super().__init__(
            f"{plan} has no step {anchor}{tail}",
            hint=f"tugcode plan show {quoted(plan)}",
            anchor=anchor,
            plan=plan,
            close=list(close) or None,
        )


class FileError(TugError):
    """About one file."""


class BadSetting(FileError):
    """A key that does not exist, or a value it does not take."""

    code = "E071"

    def __init__(
        self, path: str, problem: str, *, key: str | None = None, line: int | None = None
    ) -> None:
        where = f"{path}:{line}" if line else path
        super().__init__(
            f"{where}: {problem}", hint="tugcode config --help", file=path, line=line, key=key
        )


class Unreadable(FileError):
    """A file that cannot be taken as text: missing rights, wrong kind, size or encoding."""

    code = "E072"

    def __init__(
        self,
        path: str,
        reason: str,
        *,
        line: int | None = None,
        hint: str | None = None,
        **facts: object,
    ) -> None:
        where = f"{path}:{line}" if line else path
        super().__init__(f"{where} {reason}", hint=hint, file=path, line=line, **facts)


class OutsideRepository(FileError):
    """A path that leaves the repository, also through a symbolic link."""

    code = "E073"

    def __init__(self, path: str, *, root: str, hint: str = "tugcode list") -> None:
        super().__init__(
            f"{path} is outside the repository {root}", hint=hint, file=path, root=root
        )


class Unwritable(FileError):
    """A file or an answer that could not be written; nothing half-written is left."""

    code = "E074"

    def __init__(self, path: str, *, reason: str) -> None:
        super().__init__(f"cannot write {path}: {reason}", hint="df -h .; ls -ld .", file=path)


def quoted(word: str) -> str:
    """The word as a reader may paste it into a shell."""
    if word and all(c.isalnum() or c in "._/-+@%=:," for c in word) and word.isascii():
        return word
    return "'" + word.replace("'", "'\\''") + "'"


def listing(names: Sequence[str], most: int = 8) -> str:
    """The first few names of a list, and how many there are besides."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def _either(names: Iterable[str]) -> str:
    return " or ".join(names)
