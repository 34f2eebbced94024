"""Run an agent, retry it, and read its answer."""

from __future__ import annotations

import contextlib
import shlex
from itertools import count
from typing import NamedTuple

from tugtool.agents import answers, clis, contracts
from tugtool.agents.confinement import described, place_of
from tugtool.errors import CannotRun, TugError
from tugtool.implement.cooling import Failure, Retries
from tugtool.implement.enforcement import Enforcement
from tugtool.implement.run import Astray, Failed, Lost
from tugtool.state import leases
from tugtool.system import clock, config, os, secrets
from tugtool.system.command import Streams
from tugtool.system.secrets import MaskedStream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from tugtool.agents.clis import AgentUsage
    from tugtool.implement.attempt import AgentContext
    from tugtool.plan.model import Step
    from tugtool.system.agent_config import Agent
    from tugtool.system.command import Child
    from tugtool.system.config import Settings
    from tugtool.system.secrets import Mask

    Data = dict[str, Any]

    Judge = Callable[[Data], object]


#: In the order of a step: plan, write, review, audit, integrate.
ROLES = ("architect", "coder", "reviewer", "auditor", "integrator")
#: Variables of ours that would give the agent a false identity.
_DROPPED = (
    *("TUGCODE_PLAN", "TUGCODE_STEP", "TUGCODE_ATTEMPT", "TUGCODE_WORKTREE", "TUGCODE_ROLE"),
    *("TUGCODE_CRASH_AT", "GIT_CEILING_DIRECTORIES"),
)


class Unusable(Exception):
    """The agent's output is not an answer. `output` is None if the agent ended normally."""

    def __init__(
        self, reason: str, output: bytes | None = None, *, later: float | None = None
    ) -> None:
        super().__init__(reason)
        #: Seconds until the agent asks to be tried again; 0 if it names no time.
        self.output, self.later = output, later


class AgentCommand(NamedTuple):
    """A role and the command that runs its agent."""

    role: str
    argv: list[str]
    env: Mapping[str, str]
    timeout_seconds: float
    tries: int
    #: The settings that it was made from.
    agent: Agent

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of the agent's process: ours, its own settings, its role."""
        kept = {n: v for n, v in config.command_environment().items() if n not in _DROPPED}
        return {**kept, **self.env, "TUGCODE_ROLE": self.role, **given}


def parts(settings: Settings) -> dict[str, AgentCommand]:
    """Return the command of each role that has one."""
    found = {role: agent for role in ROLES if (agent := settings.agent(role)) is not None}
    return {role: _command(agent) for role, agent in found.items()}


def _command(agent: Agent) -> AgentCommand:
    made = clis.command(agent)
    limits = (agent.timeout_seconds, agent.tries)
    return AgentCommand(agent.role, list(made.argv), made.env, *limits, agent)


class Reply(NamedTuple):
    """An answer that fits the role's schema, and its cost."""

    answer: Data
    usage: AgentUsage = clis.NOTHING


#: An agent has this long to exit after it is asked to.
GRACE_SECONDS = 2.0
#: An error message shows at most so many characters of an agent's stderr.
MOST_SAID = 400


def call(
    context: AgentContext, role: str, more: Mapping[str, object], judge: Judge | None = None
) -> Reply:
    """Return the answer of the agent for `role`, within its tries; `judge` may refuse an answer."""
    run, part = context.run, context.run.parts[role]
    retries = Retries(run, part.tries)
    failure: Failure | None = None
    used: list[AgentUsage] = []
    for number in count(1):
        with run.cooling.turn(context):
            context.check()
            context.follow()
            kept = context.record(role)
            told = {"role": role, "transcript": kept, "try": number}
            context.tell("agent_started", **told)
            begun = clock.ticks()
            last = failure and failure.reason
            task = context.task(role, {**more, "try": number, "last_problem": last})
            try:
                reply, failure = _tried(context, part, task, judge)
            except Astray as end:
                raise Failed(role, str(end), clis.total([*used, end.usage])) from end
            except OSError as error:
                # The system ran out of something, such as descriptors. A later attempt may succeed.
                raise Failed(role, str(error), clis.total(used)) from error
        used.append(reply.usage)
        seconds = round(clock.ticks() - begun, 3)
        if failure is None:
            run.cooling.succeeded(context)
            said = {"seconds": seconds, "tokens": reply.usage.tokens, "transcript": kept}
            context.tell("agent_ended", role=role, **said)
            break
        pause = run.cooling.failed(context, failure, retries)
        reason = failure.reason if failure.later is None else f"it asks for time: {failure.reason}"
        context.tell("agent_failed", **told, seconds=seconds, reason=reason, retry_seconds=pause)
        if pause is None:
            raise Failed(role, failure.reason, clis.total(used))
        context.keep_failure(role, reason)
        run.cooling.pause(context, pause)
    return Reply(reply.answer, clis.total(used))


def _tried(
    context: AgentContext, part: AgentCommand, task: Data, judge: Judge | None
) -> tuple[Reply, Failure | None]:
    """Run the agent once. Return its answer and, if the answer cannot be used, the failure."""
    guard = Enforcement(context, part.role)
    reply, failure = Reply({}), None
    try:
        answer = answers.checked(part.role, _output(context, part, task))
        reply = Reply(answer.value or {}, clis.of(answer))
        if answer.problem is not None:
            failure = Failure(answer.problem, answer.answered, answer.later)
        elif judge is not None:
            judge(reply.answer)
    except Unusable as error:
        failure = Failure(str(error), error.output is None, error.later)
        # After a refusal by the judge, the usage is known already.
        if error.output:
            reply = Reply({}, clis.of(answers.read_answer(error.output)))
    except Lost:
        # Another process owns the worktree now, but the shared git directory still needs repair.
        with contextlib.suppress(TugError):
            guard.look_around()
        raise
    except BaseException:
        with contextlib.suppress(Astray, Lost):
            guard.restore()
        raise
    try:
        breach = guard.restore()
    except Astray as end:
        end.usage = reply.usage
        raise
    return reply, Failure(breach, True) if breach else failure


def _output(context: AgentContext, part: AgentCommand, task: Data) -> bytes:
    """Return what the agent printed. Raise `Unusable` if it failed or ran out of time."""
    context.begin_role(part.role)
    env = part.environment(context.variables())
    mask = secrets.Mask(env)
    given = contracts.given(part.role, task)
    own = place_of(part.agent, context.checkout.path, env)
    with _recorded(context, part, given, mask) as heard, own as place:
        streams = Streams.keep(head=0, tail=answers.MOST_BYTES, given=given, heard=heard)
        how: Data = {"cwd": context.checkout.path, "env": place.environment(env), "marks": True}
        try:
            running = context.run.permit.start(
                part.argv, **how, streams=streams, confined=place.how
            )
        except CannotRun as error:
            raise Unusable(error.message, b"") from error
        try:
            _wait(context, part, running)
        finally:
            running.stop(GRACE_SECONDS)
            # The agent's processes have ended, so its git locks are stale.
            context.checkout.drop_locks(context.run.warn)
        if running.status:
            later = _later(part, running)
            said = mask.text(f"it {_end(running)}")
            raise Unusable(said, mask.data(running.out.tail), later=later)
    return mask.data(running.out.tail)


def _later(part: AgentCommand, running: Child) -> float | None:
    """Return the seconds that a failed agent asks to wait; None if it does not ask."""
    answer = answers.read_answer(running.out.tail)
    later = clis.limit(answer.events) if answer.later is None else answer.later
    if later is None and os.path.basename(part.argv[0]) in clis.CLIENTS:
        # Some clients report the error on stderr only.
        later = clis.retry_after(running.err.text())
    return 0 if later is None and running.status == os.EX_TEMPFAIL else later


@contextlib.contextmanager
def _recorded(
    context: AgentContext, part: AgentCommand, given: bytes, mask: Mask
) -> Iterator[Callable[[bytes], object] | None]:
    """Write the agent's input, and at the end its outcome, to the transcript, without secrets."""
    recording, said = context.recording, "it ended with exit status 0"
    if recording is None:
        yield None
        return
    head = _heading(context, part).encode(errors="replace") + given + b"\n--- printed ---\n"
    recording.write(mask.data(head))
    stream = MaskedStream(mask, recording.write)
    try:
        yield stream.write
    except BaseException as error:
        said = str(error) or f"it was stopped: {type(error).__name__.lower()}"
        raise
    finally:
        stream.flush()
        recording.close(mask.text(said))
        if recording.problem is not None:
            context.run.warn(f"{recording.path} is not complete: {recording.problem}")


def _heading(context: AgentContext, part: AgentCommand) -> str:
    """Describe the call. Only names of variables are written: values may be secrets."""
    of = f"{part.role} of {context.anchor or 'the whole plan'}"
    attempt = f", attempt {context.attempt}" if context.attempt is not None else ""
    at = clock.text(clock.system_milliseconds())
    return (
        f"{of}{attempt}, {at}\ncommand: {shlex.join(part.argv)}\n"
        f"in: {context.checkout.path}, {described(part.agent)}\n"
        f"with: {', '.join(sorted(part.env)) or 'no variables of its own'}\n--- given ---\n"
    )


def _wait(context: AgentContext, part: AgentCommand, running: Child) -> None:
    deadline = clock.ticks() + part.timeout_seconds
    while not running.wait(min(leases.LOOK_SECONDS, max(0.0, deadline - clock.ticks()))):
        context.check()
        if clock.ticks() >= deadline:
            reason = f"it took longer than {part.timeout_seconds:g} s and was stopped"
            raise Unusable(reason, running.out.tail)


def _end(running: Child) -> str:
    end = f"ended with exit status {running.status}"
    if running.killed_by is not None:
        end = f"was killed by signal {running.killed_by}"
    said = " ".join(answers.storable(running.err.text()).split())
    return f"{end}: {said[-MOST_SAID:]}" if said else end


_MOST_ISSUES = 5


def coder_summary(step: Step, report: Mapping[str, Any]) -> str:
    """Return the coder's own count of done items. It is shown, and never stored as state."""
    return f"Coder reported: {_counted(step, report, 'task')}, {_counted(step, report, 'test')}"


def _counted(step: Step, report: Mapping[str, Any], kind: str) -> str:
    told = report.get("checklist_status", {}).get(f"{kind}s", [])
    done = sum(entry.get("status") == "completed" for entry in told)
    total = sum(item.kind == kind for each in step.family() for item in each.items)
    return f"{done}/{total} {kind}s"


def in_short(verdict: Mapping[str, Any], issues: str = "issues") -> str:
    """Return a reviewer's or auditor's answer in one line."""
    said = str(verdict.get("summary") or "").strip()
    found = [issue(each) for each in verdict.get(issues) or []]
    more = f" (and {len(found) - _MOST_ISSUES} more)" if len(found) > _MOST_ISSUES else ""
    parts = [str(verdict["recommendation"]), said, "; ".join(found[:_MOST_ISSUES]) + more]
    return ": ".join(part for part in parts if part)


def issue(each: object) -> str:
    return str((each.get("description") if isinstance(each, dict) else None) or each)
