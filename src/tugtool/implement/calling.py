"""An agent is run: watched while it works, stopped when it must, tried again when it fails."""

from __future__ import annotations

import contextlib

from tugtool import child, clock, keeping
from tugtool.agents import answers, objects
from tugtool.errors import CannotRun
from tugtool.implement import casting
from tugtool.implement.casting import Reply, Unusable
from tugtool.implement.ends import Astray, Failed, Lost
from tugtool.implement.guarding import Guard
from tugtool.streams import Streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tugtool.child import Child
    from tugtool.implement.casting import Part
    from tugtool.implement.seat import Seat

    Data = dict[str, object]
    Judge = Callable[[Data], None]

#: An agent has so long to end by itself once it is asked to.
GRACE_SECONDS = 2.0
#: Of what an agent complained about, so many characters are told.
MOST_SAID = 400


def call(seat: Seat, role: str, more: Mapping[str, object], judge: Judge | None = None) -> Reply:
    """The answer of whoever plays `role`, after as many tries as it has; `judge` may refuse it."""
    part = seat.run.parts[role]
    problem: str | None = None
    tokens: int | None = None
    cost: int | None = None
    for number in range(1, part.tries + 1):
        seat.check()
        seat.tell("agent_started", role=role, **{"try": number})
        begun = clock.ticks()
        task = seat.task(role, {**more, "try": number, "last_problem": problem})
        try:
            reply, problem = _tried(seat, part, task, judge)
        except Astray as end:
            used = end.reply or Reply({})
            tokens, cost = _sum(tokens, used.tokens), _sum(cost, used.cost_microdollars)
            raise Failed(role, str(end), Reply({}, tokens, cost)) from end
        seconds = round(clock.ticks() - begun, 3)
        if reply is not None:
            tokens, cost = _sum(tokens, reply.tokens), _sum(cost, reply.cost_microdollars)
            if problem is None:
                seat.tell("agent_ended", role=role, seconds=seconds, tokens=reply.tokens)
                return Reply(reply.answer, tokens, cost)
        seat.tell("agent_failed", role=role, seconds=seconds, reason=problem, **{"try": number})
    raise Failed(role, problem or "it was not tried", Reply({}, tokens, cost))


def _sum(before: int | None, more: int | None) -> int | None:
    return before if more is None else (before or 0) + more


def _tried(
    seat: Seat, part: Part, task: Data, judge: Judge | None
) -> tuple[Reply | None, str | None]:
    """One run of an agent: its answer, if it gave one, and what is wrong with that."""
    guard = Guard(seat, part.role)
    reply: Reply | None = None
    problem: str | None = None
    try:
        reply, problem = casting.read(part.role, _output(seat, part, task))
        if judge is not None and problem is None:
            judge(reply.answer)
    except Unusable as error:
        problem = str(error)
        # Of one that the judge refuses, what it has used is known already.
        reply = reply or casting.spent(error.output)
    except Lost:
        # Whatever lies there is somebody else's business now.
        raise
    except BaseException:
        with contextlib.suppress(Astray, Lost):
            guard.restore()
        raise
    try:
        breach = guard.restore()
    except Astray as end:
        end.reply = reply
        raise
    return reply, breach or problem


def _output(seat: Seat, part: Part, task: Data) -> bytes:
    """What the agent printed; `Unusable` if it did not come to its end."""
    env = part.environment(seat.variables())
    streams = Streams.keep(head=0, tail=answers.MOST_BYTES, given=casting.prompt(part.role, task))
    try:
        running = child.start(part.argv, cwd=seat.desk.path, env=env, streams=streams, marks=True)
    except CannotRun as error:
        raise Unusable(error.message) from error
    try:
        _wait(seat, part, running)
    finally:
        running.stop(GRACE_SECONDS)
    if running.status:
        raise Unusable(f"it {_end(running)}{_said(running)}", running.out.tail)
    return running.out.tail


def _wait(seat: Seat, part: Part, running: Child) -> None:
    deadline = clock.ticks() + part.timeout_seconds
    while not running.wait(min(keeping.LOOK_SECONDS, max(0.0, deadline - clock.ticks()))):
        seat.check()
        if clock.ticks() >= deadline:
            reason = f"it took longer than {part.timeout_seconds:g} s and was stopped"
            raise Unusable(reason, running.out.tail)


def _end(running: Child) -> str:
    if running.killed_by is not None:
        return f"was killed by signal {running.killed_by}"
    return f"ended with exit status {running.status}"


def _said(running: Child) -> str:
    said = " ".join(objects.storable(running.err.text()).split())
    return f": {said[-MOST_SAID:]}" if said else ""
