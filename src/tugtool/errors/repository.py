"""Refusals about the command line, agent clients, the repository, its plans and its files.

TugError
├── Usage                 E070   the command line is not valid (exit status 2)
├── UnsupportedPlatform   E075   neither Linux nor macOS
├── Interrupted           E098   stopped by the user (exit status 130)
├── Bug                   E099   a bug in Tugtool (exit status 3)
├── CannotRun             E087   a command cannot be run (exit status 126 or 127)
├── RoleRefused           E088   the caller's role may not run the command, or is unknown
├── BadClientSettings     E089   a client's settings are not JSON or have the wrong form
├── PluginMissing         E090   this installation has no plugin
├── ClientMissing         E091   the agent client is not installed
├── ClientRefused         E092   the client did not take the plugin
├── HomeUnknown           E093   HOME is not set
├── RepositoryError
│   ├── NotInitialised    E009   the repository is not set up; `tugcode init` does it
│   ├── GitUnusable       E029   git is missing or too old
│   ├── NoRepository      E030   no git repository with a working tree
│   └── GitFailed         E076   a git command failed
├── PlanError
│   ├── PlanAmbiguous     E040   the name fits several plans
│   ├── PlanNotFound      E041   the name fits no plan
│   ├── PlanExists        E042   a new plan would overwrite a file
│   ├── PlanInvalid       E043   the plan has errors, which are listed with it
│   └── NoSuchStep        E059   the plan has no step with that anchor
└── FileError
    ├── BadSetting        E071   a configuration key or value is wrong
    ├── Unreadable        E072   a file is unreadable, not UTF-8 or too large
    ├── OutsideRepository E073   a path leaves the repository
    └── Unwritable        E074   something cannot be written
"""

from __future__ import annotations

from tugtool.errors import TugError, listing, place, plan_argument, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tugtool.schemas import Issue


def closest(names: Sequence[str]) -> str:
    """The names closest to an unknown one, as the end of a sentence."""
    return f"; closest: {listing(names)}" if names else ""


class Usage(TugError):
    """The words of the command line do not fit the command table."""

    code = "E070"
    exit_status = 2

    def __init__(self, problem: str, *, command: str = "", close: Sequence[str] = ()) -> None:
        message = f"{problem}; did you mean {' or '.join(close)}?" if close else problem
        #: The command whose words they were, as far as it was recognised.
        self.command = command
        short = command if command == "state init" else command.removeprefix("state ")
        words = ["tugcode", *short.split(), "--help"]
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
    """The user or the calling program sent an interrupt (Ctrl-C)."""

    code = "E098"
    exit_status = 130

    def __init__(self) -> None:
        super().__init__("interrupted")


class Bug(TugError):
    """An exception other than TugError reached the top."""

    code = "E099"
    exit_status = 3

    def __init__(self, error: BaseException) -> None:
        super().__init__(
            f"this is a bug in tugcode: {type(error).__name__}: {error}",
            hint="please report it with the traceback and the output of: tugcode version",
            exception=type(error).__name__,
        )


class CannotRun(TugError):
    """The command to run does not exist or does not start."""

    code = "E087"

    def __init__(self, command: str, *, reason: str, missing: bool) -> None:
        super().__init__(
            f"cannot run {command}: {reason}", hint=f"command -v {quoted(command)}", command=command
        )
        #: The same as a shell's.
        self.exit_status = 127 if missing else 126


class RepositoryError(TugError):
    """A refusal about the whole git repository."""


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
    """Git does not start, or is too old."""

    code = "E029"

    def __init__(self, reason: str) -> None:
        super().__init__(f"git cannot be used: {reason}", hint="git --version")


class GitFailed(RepositoryError):
    """Git ran and failed."""

    code = "E076"

    def __init__(self, arguments: Sequence[str], *, status: int, said: str) -> None:
        # Options of git may come before the name of its command.
        command = next((word for word in arguments if not word.startswith("-")), arguments[0])
        self.command, self.status, self.said = command, status, said
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
    """A refusal about a plan, or the name of a plan or step."""


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


#: The reason why commands may not see plans, and the command that shows them.
SPARSE = "the sparse checkout leaves .tugtool out"
SPARSE_HINT = "git sparse-checkout add .tugtool"


class PlanNotFound(PlanError):
    """A name that fits no plan."""

    code = "E041"

    def __init__(
        self, name: str | None, *, close: Sequence[str] = (), sparse: bool = False
    ) -> None:
        what = "there is no plan here" if name is None else f'no plan is called "{name}"'
        hint = "tugcode plan new SLUG" if name is None else "tugcode list"
        if sparse:
            what, hint = f"{what}, and {SPARSE}", SPARSE_HINT
        super().__init__(
            f"{what}{closest(close)}",
            hint=hint,
            name=name,
            close=list(close) or None,
        )


class PlanExists(PlanError):
    """`plan new` never overwrites."""

    code = "E042"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} already exists", hint=f"tugcode plan show {plan_argument(path)}", file=path
        )


class PlanInvalid(PlanError):
    """The plan has errors and cannot be carried out; the answer lists them."""

    code = "E043"

    def __init__(self, plan: str, *, diagnostics: Sequence[Issue]) -> None:
        super().__init__(
            f"{plan} has errors and cannot be carried out",
            hint=f"tugcode validate {plan_argument(plan)}",
            file=plan,
        )
        self.diagnostics = list(diagnostics)

    def issues(self) -> list[Issue]:
        """The errors of the plan, then the refusal."""
        return [*self.diagnostics, self.issue()]


class NoSuchStep(PlanError):
    """An anchor that no step of the plan has."""

    code = "E059"

    def __init__(self, anchor: str, *, plan: str, close: Sequence[str] = ()) -> None:
        super().__init__(
            f"{plan} has no step {anchor}{closest(close)}",
            hint=f"tugcode plan show {plan_argument(plan)}",
            anchor=anchor,
            plan=plan,
            close=list(close) or None,
        )


class FileError(TugError):
    """A refusal about one file."""


class BadSetting(FileError):
    """An unknown key, or a value that the key does not allow."""

    code = "E071"

    def __init__(
        self, path: str, problem: str, *, key: str | None = None, line: int | None = None
    ) -> None:
        super().__init__(
            f"{place(path, line)}: {problem}",
            hint="tugcode config --help",
            file=path,
            line=line,
            key=key,
        )


class Unreadable(FileError):
    """A file cannot be read as text: missing rights, wrong kind, size or encoding."""

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
        super().__init__(f"{place(path, line)} {reason}", hint=hint, file=path, line=line, **facts)


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


class PluginMissing(TugError):
    """Neither the package nor its source tree has the plugin."""

    code = "E090"

    def __init__(self, places: list[str]) -> None:
        super().__init__(
            f"this installation of Tugtool has no plugin; looked in {' and '.join(places)}",
            hint="tugcode version",
            places=places,
        )


class ClientMissing(TugError):
    """The command of the agent client is not on the PATH."""

    code = "E091"

    def __init__(self, client: str) -> None:
        super().__init__(
            f"there is no command {client} on the PATH: install it, and run this again; "
            "or run the commands of the dry run where it is installed",
            hint=f"tugcode plugin install --client {client} --dry-run",
            client=client,
        )


class ClientRefused(TugError):
    """The client failed, or did not end in time."""

    code = "E092"

    def __init__(
        self, client: str, command: str, *, status: int | None, said: str, mend: str | None = None
    ) -> None:
        how = "did not end in time" if status is None else f"ended with status {status}"
        again = f"tugcode plugin install --client {client}"
        super().__init__(
            f"`{command}` {how}: {said or 'it printed nothing'}",
            hint=f"{mend} && {again}" if mend else f"{again} --dry-run",
            client=client,
            command=command,
            status=status,
        )


class HomeUnknown(TugError):
    """Without HOME the plugin could go into another user's home."""

    code = "E093"

    def __init__(self, client: str, variable: str) -> None:
        super().__init__(
            f"HOME is not set, and neither is {variable}: {client} would install the plugin into "
            "the home that the system has for this user; set one of them, and run this again",
            hint=f"tugcode plugin install --client {client} --dry-run",
            client=client,
        )


class RoleRefused(TugError):
    """The role in TUGCODE_ROLE may not run the command."""

    code = "E088"

    def __init__(self, command: str, *, role: str, may: str, known: Sequence[str]) -> None:
        said = f'TUGCODE_ROLE is "{role}", which is not a role; the roles are {", ".join(known)}'
        if may:
            said = f"the {role} (TUGCODE_ROLE) may not run tugcode {command}; it may run {may}"
        super().__init__(said, hint="tugcode status", role=role, command=command)


class BadClientSettings(TugError):
    """The settings file of a client cannot be extended; it is unchanged."""

    code = "E089"

    def __init__(self, file: str, problem: str, *, line: int | None = None) -> None:
        super().__init__(
            f"{file} {problem}; it is unchanged",
            # The problem names lines, and a JSON file of a client may have comments.
            hint=f"cat -n {quoted(file)}",
            file=file,
            line=line,
        )
