"""state exec: run a command under a claim; it gets our signals and the terminal."""

from __future__ import annotations

import signal
import termios

from tugtool.cli import output
from tugtool.cli.output import Answer, clean, mention, print_issues
from tugtool.cli.parse import ANY_PLAN, LEASE, WORKTREE, Argument, Call, Command, Option
from tugtool.cli.state import claim_notes, claim_terms, claim_text, recovery_commands
from tugtool.errors import CannotRun, TugError
from tugtool.errors.state import NotOwner, Superseded
from tugtool.system import command, config, os
from tugtool.system.command import Streams
from tugtool.workflow import held_step, workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType
    from typing import Any

    from tugtool.schemas import StateClaim, StateExec
    from tugtool.state.leases import Keeper
    from tugtool.system.command import Child
    from tugtool.workflow.workspace import Workspace


#: Signals that we pass on to the command. If we ignore one, so does the command.
PASSED_ON = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
    signal.SIGTSTP,
)
#: Signals by which a terminal suspends a process: on Ctrl-Z, or in the background.
_WANTS_TERMINAL = (signal.SIGTTIN, signal.SIGTTOU)
_BY_TERMINAL = (signal.SIGTSTP, *_WANTS_TERMINAL)


class Foreground:
    """Passes signals and the terminal to a command while it runs."""

    def __init__(self) -> None:
        self._running: Child | None = None
        self._early: list[int] = []
        self._continued = False
        self._before: dict[int, object] = {}
        self._terminal = _terminal()
        self._settings: list[Any] = []
        #: The process group that has the terminal, and whether the command may have it.
        self._lent, self._wanted = 0, False

    def __enter__(self) -> Foreground:
        # If SIGCHLD is ignored, the exit status of the command is lost.
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._before[signal.SIGCONT] = signal.signal(signal.SIGCONT, self._continue)
        for number in PASSED_ON:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._pass_on)
        return self

    def __exit__(self, *_: object) -> None:
        self._take_back()
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # it was one
        if self._terminal is not None:
            os.close(self._terminal)

    def lend(self, group: int) -> None:
        """Before the command runs: lend it the terminal that we read and write."""
        # Not with our output in a pipe: a pager needs the terminal until the
        # command asks for it.
        self._wanted = os.isatty(0) and os.isatty(1)
        self._lend(group)

    def watch(self, running: Child) -> None:
        """Send signals to the command from now on, and those that came before."""
        self._running = running
        for number in self._early:
            running.send(number)

    def follow(self) -> None:
        """Suspend ourselves with the command, and continue it when we continue."""
        running = self._running
        if running is None:
            return
        if self._continued:
            self._continued = False
            self._lend(running.group)
            running.resume()
        elif running.suspended_by in _BY_TERMINAL and self._terminal is not None:
            asks = running.suspended_by in _WANTS_TERMINAL
            self._wanted = self._wanted or asks
            if not (asks and self._is_in_front()):
                _suspend_job()
            # Not at once: if the claim was lost meanwhile, the command must not continue.
            self._continued = True
            running.wake()

    def _pass_on(self, number: int, _: FrameType | None) -> None:
        if self._running is None:
            self._early.append(number)
        else:
            self._running.send(number)

    def _continue(self, _number: int, _: FrameType | None) -> None:
        self._continued = True
        if self._running is not None:
            self._running.wake()

    def _is_in_front(self) -> bool:
        if self._terminal is None:
            return False
        try:
            return os.tcgetpgrp(self._terminal) == os.getpgrp()
        except OSError:
            return False

    def _lend(self, group: int) -> None:
        if self._terminal is not None and self._wanted and self._is_in_front():
            self._settings = self._settings or termios.tcgetattr(self._terminal)
            _put_in_front(self._terminal, group)
            self._lent = group

    def _take_back(self) -> None:
        if self._terminal is None or not self._lent:
            return
        try:
            if os.tcgetpgrp(self._terminal) != self._lent:
                return  # another process has it by now
            _put_in_front(self._terminal, os.getpgrp())
            if self._running is not None and self._running.killed_by is not None:
                # A killed command may have left the terminal changed.
                termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._settings)
        except (OSError, termios.error):
            return  # the terminal is gone
        finally:
            self._lent = 0


def _terminal() -> int | None:
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None


def _put_in_front(terminal: int, group: int) -> None:
    # A background process that takes the terminal would be suspended.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        os.tcsetpgrp(terminal, group)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _suspend_job() -> None:
    """Suspend the whole job, as the shell expects."""
    before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    # Without a job-control shell nothing happens, and we continue at once.
    os.killpg(0, signal.SIGTSTP)
    signal.signal(signal.SIGTSTP, before)


def renew_until_end(claim: Keeper, running: Child, front: Foreground) -> TugError | None:
    """Renew the lease until the command ends; stop the command if the claim is lost."""
    told = ""
    while not running.wait(claim.nap()):
        # Continue a suspended command only if the claim still holds.
        lost = claim.look(closely=running.suspended_by is not None)
        if lost is not None:
            running.stop()
            return lost
        told = _report_once(claim.trouble, told)
        front.follow()
    lost = claim.read()
    # If the database is unavailable, the claim may still hold.
    return lost if isinstance(lost, NotOwner | Superseded) else None


def _report_once(trouble: TugError | None, told: str) -> str:
    """Report once why the claim cannot be renewed; return the reported text."""
    said = "" if trouble is None else f"{trouble.code}: {trouble.message}"
    if said and said != told:
        mention(f"tugcode: {clean(said)}; trying again while the command runs\n")
    return said


def state_exec(call: Call) -> Answer:
    """Claim a step and run a command under the claim."""
    space = call.workspace()
    plan = space.plan(call.text("plan"))
    words = call.words("cmd")
    if not os.path.isdir(space.worktree):
        reason = f"its directory would be {space.worktree}, which does not exist"
        raise CannotRun(words[0], reason=reason, missing=False)
    _refuse_unrunnable(words[0], space.worktree)
    data, issues = workspace.claim(space, plan, **claim_terms(call), holder_pid=os.getpid())
    print_issues(issues)
    if not data["claimed"]:
        return _nothing(call, space, data)
    claim = held_step.begin(space, plan, data, lease_seconds=call.seconds("lease_duration"))
    mention("".join(f"tugcode: {clean(line)}\n" for line in claim_notes(data)))
    about = held_step.variables(space.worktree, plan, data["anchor"], data["attempt"])
    with Foreground() as front:
        try:
            running = command.start(
                words,
                cwd=space.worktree,
                env={**config.command_environment(), **about},
                # With --json, standard output holds only our one document.
                streams=Streams(stdout=2 if call.json else None),
                before=front.lend,
            )
        except CannotRun:
            _release(space, claim)
            raise
        front.watch(running)
        with running:
            lost = renew_until_end(claim, running, front)
        # Keep the signal handlers: a signal must not prevent the release.
        completing = call.flag("complete") and not running.status
        return _ended(space, claim, running, _facts(data, running), lost, completing=completing)


def _facts(data: StateClaim, running: Child) -> StateExec:
    names = "plan_path step_anchor anchor step_title worktree attempt lease_expires_at"
    facts = _answer_data(data, *names.split(), "missing_commits", "total_remaining", ran=True)
    facts["recover"] = recovery_commands(data)
    facts["exit_status"], facts["signal"] = running.status or 0, running.killed_by
    return facts


def _answer_data(data: Mapping[str, Any], *names: str, ran: bool) -> StateExec:
    facts: Any = {"ran": ran, **{name: data[name] for name in names}}
    return facts  # type: ignore[no-any-return]


def _nothing(call: Call, space: Workspace, data: StateClaim) -> Answer:
    """The answer if nothing was claimed; exit status 1 with --step."""
    text = claim_text(data)

    def say() -> str:
        # Standard output belongs to the command.
        mention(f"tugcode: {text}")
        return ""

    kept = ("plan_path", "reason", "all_completed", "total_remaining", "parked_steps")
    facts = _answer_data(data, *kept, ran=False)
    status = 1 if call.text("step") else 0
    return Answer(facts, say, status=status, after=lambda: space.back_up(pending=True))


def _refuse_unrunnable(command: str, cwd: str) -> None:
    """Refuse a command that cannot run, before the claim: a typo is not an attempt."""
    if os.sep in command:
        paths = [os.path.join(cwd, command)]
    else:
        paths = [os.path.join(each, command) for each in os.get_exec_path(config.environment())]
    there = [path for path in paths if os.path.isfile(path)]
    if not there:
        raise CannotRun(command, reason="there is no such command", missing=True)
    if not any(os.access(path, os.X_OK) for path in there):
        raise CannotRun(command, reason="it is not executable", missing=False)


def _ended(
    space: Workspace,
    claim: Keeper,
    running: Child,
    data: StateExec,
    lost: TugError | None,
    *,
    completing: bool,
) -> Answer:
    """Complete, keep or release the step, and return the answer."""
    status = running.status or 0
    error = held_step.end(space, claim, status, data, lost=lost, completing=completing)
    refused = error is not None and (claim.standing == "lost" or completing)
    return Answer(
        data,
        lambda: _say(data, error),
        issues=error.issues() if error else (),
        status=error.exit_status if error and refused else status,
        after=space.back_up if claim.standing == "completed" else None,
    )


def _release(space: Workspace, claim: Keeper) -> None:
    try:
        held_step.release_claim(space, claim)
    except TugError as error:
        # Our end also ends the claim.
        output.complain(error)


def _say(data: StateExec, error: TugError | None) -> str:
    """Print on standard error; standard output belongs to the command."""
    if error is not None:
        output.complain(error)
    if data["outcome"] == "released":
        mention(f"tugcode: {clean(data['anchor'])} was given back\n")
    return ""


COMMANDS = (
    Command(
        "state exec",
        state_exec,
        """\
The command runs in the worktree, with TUGCODE_PLAN, TUGCODE_STEP, TUGCODE_ATTEMPT and
TUGCODE_WORKTREE set, on the standard streams of its caller. It gets the signals of this process,
which ends with its exit status (128 and the number of the signal that killed it; 127 and 126 if
there is no such command or it cannot run). If it fails, the step is given back. If it succeeds,
the step stays claimed for as long as the lease lasts, unless the command or --complete completes
it. If the claim is lost, the command and its process group are stopped: exit status 4. If this
process is killed, they are stopped too, and the step is free. Processes that the command leaves
running are stopped as well. If there is nothing to claim, the command does not run: exit status
0 (1 with --step). With --json, standard output has only the answer, after the command has ended;
the output of the command goes to standard error.""",
        (
            ANY_PLAN,
            Argument("cmd...", "the command and its arguments", kind="command"),
            Option("--step ANCHOR", "only this step; a refusal says why"),
            Option("--also", "with --step: although you hold another step"),
            Option("--complete", "complete the step if the command succeeds"),
            LEASE,
            Option("--force", "also take a step under a live lease, when nothing else is left"),
            Option("--wait SECONDS", "wait this long for a step to be ready"),
            Option("--request-id ID", "the same id again continues with the same claim"),
            WORKTREE,
        ),
        examples="""\
tugcode exec parser -- ./agent --headless  # one step for one agent
tugcode exec parser --wait 600 --complete -- make step\
  # done if it succeeds and nothing is open
tugcode exec --step step-3 --lease-duration 60 --json -- ./agent\
  # this step or none; what came of it as JSON""",
    ),
)
