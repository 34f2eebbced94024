"""implement with its events in words, and transcript."""

from __future__ import annotations

import shlex
import sys
import time
from functools import partial

from tugtool.cli import output
from tugtool.cli.output import Answer, Stream, clean
from tugtool.cli.parse import PLAN, Argument, Call, Command, Option
from tugtool.errors import Usage, plan_argument
from tugtool.implement import agent as implement_agent
from tugtool.implement.run import MOST_WORKERS, Run, Terms
from tugtool.system import clock, os
from tugtool.system.text import many
from tugtool.workflow import plans, transcripts
from tugtool.workflow.worktree.create import WorktreeRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from tugtool.implement.agent import AgentCommand
    from tugtool.schemas import Transcript
    from tugtool.workflow.workspace import Workspace

    Event = Mapping[str, Any]


def implement(call: Call) -> Answer | Stream:
    """Carry a plan out, or show how it would be done."""
    workers = call.number("workers")
    if workers is not None and not 0 < workers <= MOST_WORKERS:
        raise Usage(f"--workers must be from 1 to {MOST_WORKERS}", command="implement")
    space = call.workspace()
    plan = plans.load(space, call.text("plan") or "")
    plans.refuse_unfilled(plan)
    told = None if call.json else lambda said: output.mention(f"{clean(said)}\n")
    order = WorktreeRequest(plan, base=call.text("base"), announce=told)
    parts = implement_agent.parts(space.settings)
    attended = output.on_terminal(sys.stdin, sys.stdout)
    unattended = call.json or call.flag("unattended") or not attended
    until = _until(call.text("until"))
    terms = Terms(space.settings, workers=workers, unattended=unattended, until_milliseconds=until)
    if not call.flag("dry_run"):
        return _conducted(call, space, order, parts, terms)
    from tugtool.implement import loop

    data = loop.rehearse(space, order, parts, terms)
    return Answer(data, lambda: _format_result(data))


def _until(word: str | None) -> int | None:
    """The next time of this hour and minute, local time, in milliseconds since 1970."""
    if word is None:
        return None
    hour, colon, minute = word.partition(":")
    numbers = hour.isdecimal() and minute.isdecimal() and len(minute) == 2
    if not (colon and numbers and int(hour) < 24 and int(minute) < 60):
        raise Usage(f"--until must be a time such as 07:00, and is {word!r}", command="implement")
    now = time.localtime()
    for days in (0, 1):
        day = (now.tm_year, now.tm_mon, now.tm_mday + days)
        then = time.mktime((*day, int(hour), int(minute), 0, 0, 0, -1))
        if then > time.time():
            break
    return round(then * 1000)


def _conducted(
    call: Call,
    space: Workspace,
    order: WorktreeRequest,
    parts: Mapping[str, AgentCommand],
    terms: Terms,
) -> Stream:
    from tugtool.cli import implement_live
    from tugtool.implement import loop

    conductor = implement_live.Conductor(call.json)
    run = Run(space, order, parts, terms, tell=conductor.tell, ask=conductor.ask)
    loop.prepare(run, space.store)
    return conductor.stream(run, call)


def _format_result(data: Mapping[str, Any]) -> str:
    limits = f"{many(data['workers'], 'worker')}, leases of {data['lease_seconds']} s"
    rounds = many(data["review_rounds"], "review round")
    lines = [f"{data['plan_path']}: {limits}, {rounds}{_budget(data)}"]
    lines += [data["untrusted"]] if data["untrusted"] else []
    if not data["verify"]:
        lines.append("the commands of checkpoints are not run: [implement] verify = false")
    if data["paused"]:
        plan = plan_argument(data["plan_path"])
        lines.append(f"it is paused, and nothing is begun before: tugcode resume {plan}")
    if data["done"]:
        lines.append("every step is done; what is left are the auditor and the integrator, if any")
    for agent in data["agents"]:
        lines += _agent_lines(agent)
    lines += [f"{each['source']}: {each['command']}" for each in data["commands"]]
    if data["push_remote"] is not None:
        lines.append(f"integrator: will push to {data['push_remote']}")
    lines += [f"worktree {os.path.basename(path)}, reused" for path in data["reused_worktrees"]]
    if data["new_worktrees"]:
        lines.append(f"up to {many(data['new_worktrees'], 'new worktree')}")
    lines += [f"{each['step_anchor']}: {each['title']} ({each['status']})" for each in data["todo"]]
    return output.lines(lines)


def _agent_lines(agent: Mapping[str, Any]) -> list[str]:
    if agent["command"] is None:
        return [f"{agent['role']}: no agent, left out"]
    env = f", with {', '.join(agent['env'])}" if agent["env"] else ""
    tries = many(agent["tries"], "try", "tries")
    how = f"    {agent['timeout_seconds']} s, {tries}{env}, {agent['confinement']}"
    return [f"{agent['role']}: {' '.join(agent['command'])}", how]


def _budget(data: Mapping[str, Any]) -> str:
    budget, used = data["budget_tokens"], data["tokens"]
    said = ""
    if budget:
        spent = f"used up: {used:,}" if used >= budget else f"of which {used:,} are used"
        said = f", a budget of {budget:,} tokens" + (f", {spent}" if used else "")
    if data["budget_cost"]:
        said += f", a budget of ${data['budget_cost']:.2f}, ${data['cost']:.2f} of it used"
    return said + (f", until {_local(data['until'])}" if data["until"] else "")


def _local(moment: str) -> str:
    seconds = clock.milliseconds(moment) / 1000
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


#: How often --follow looks for more.
LOOK_SECONDS = 0.25
#: Lines are not cut: an answer is often a single line.
_LONGEST_LINE = 1 << 30


def transcript(call: Call) -> Answer | Stream:
    """Show the input and output of agents, once or while they run."""
    space = call.workspace()
    plan, attempt = space.plan(call.text("plan")), call.number("attempt")
    chosen = transcripts.Selection(
        space, plan, call.anchor(), attempt=attempt, role=call.text("role")
    )
    if call.flag("follow"):
        return Stream(_followed(chosen))
    data = chosen.whole()
    return Answer(data, lambda: _printed(data) or "no agent has been called for this\n")


def _followed(chosen: transcripts.Selection) -> Iterator[Answer]:
    goes_on = True
    try:
        while goes_on:
            # Ask before reading, so that no output is missed.
            goes_on = chosen.is_at_work()
            for data in chosen.news(last=not goes_on):
                yield Answer(data, partial(_printed, data))
            goes_on = goes_on and output.listening(LOOK_SECONDS)
    finally:
        chosen.close()


def _printed(data: Transcript) -> str:
    whole = "".join(each["text"] for each in data["transcripts"])
    return "".join(f"{clean(line, _LONGEST_LINE)}\n" for line in whole.splitlines())


COMMANDS = (
    Command(
        "implement",
        implement,
        """\
Workers take the plan's steps one by one, each in its own worktree: architect, coder and
reviewer until the work is approved, then the commit; at the end the auditor and the
integrator. .tugtool/config.toml names the agent of each role. Stop the run with Ctrl-C: it
releases its claims and saves the work, and the same command continues it. On a terminal it asks
you for decisions; without one, it parks that step and continues with the others. Exit status 0:
the plan is done. 1: it is not, and the answer names what is left.""",
        (
            PLAN,
            Option("--workers N", "the number of steps at the same time"),
            Option("--base BRANCH", "the branch that worktrees start from"),
            Option("--until TIME", "stop cleanly at this local time, such as 07:00"),
            Option("--unattended", "ask no questions, also on a terminal; park instead"),
            Option("--dry-run", "change nothing; show which commands it would run, and where"),
        ),
        examples="""\
tugcode implement parser --dry-run  # which agents would run?
tugcode implement parser --workers 3  # three steps at a time
tugcode implement parser --json  # one event per line, for programs""",
    ),
    Command(
        "transcript",
        transcript,
        """\
Shows the input of each agent, its output on both streams, and how it ended: all calls of an
attempt, oldest first. The files are in git's directory until the plan is pruned; only you can
read them, and each has at most implement.transcript_bytes. --follow continues until the attempt
has ended. Without a step: the agents for the whole plan, such as the auditor.""",
        (
            PLAN,
            Argument("[step]", "the anchor of a step or substep, with or without #"),
            Option("--role ROLE", "only calls of this role", choices=implement_agent.ROLES),
            Option("--attempt N", "calls of this attempt (default: the last)"),
            Option("--follow", "continue while agents run"),
        ),
        examples="""\
tugcode transcript parser step-3  # what did the agents print?
tugcode transcript parser step-3 --role coder --follow  # and while it runs
tugcode transcript parser step-3 --json  # with the paths of the files""",
    ),
)


def line(event: Event, *, brief: bool = False) -> str:
    """`   1.2s  step-1  worker 1: coder started`; brief: without the open steps."""
    said = clean(f"{event['elapsed_seconds']:7.1f}s  {format_run_event(event)}", 1 << 12)
    return f"{said}\n" if brief else f"{said}\n{more(event)}"


def format_run_event(event: Event) -> str:
    """The event in words, with its step and worker."""
    step = f"{event['step_anchor']}  " if "step_anchor" in event else ""
    worker = f"worker {event['worker']}: " if event.get("worker") else ""
    return f"{step}{worker}{WORDS[event['event']](event)}"


def more(event: Event) -> str:
    """The open steps at the end of a run, a line each."""
    lines = [line for each in event.get("left", ()) for line in _left(each)]
    return "".join(clean(f"          {line}", 1 << 12) + "\n" for line in lines)


def _left(each: Event) -> list[str]:
    parked = "parked: " if each["parked"] else ""
    frees = [f"    once it is settled: {each['frees']}"] if each["frees"] else []
    return [f"{each['step_anchor']}: {parked}{each['reason']}", *frees]


def _commit(event: Event) -> str:
    return str(event["commit"])[:12]


def _try(event: Event) -> str:
    return f", try {event['try']}" if event.get("try", 1) > 1 else ""


def _span(event: Event) -> str:
    return clock.duration(event["seconds"])


def _again(event: Event) -> str:
    pause = event.get("retry_seconds")
    return f"; tried again in {clock.duration(pause)}" if pause else ""


def _finished(event: Event) -> str:
    reason = event.get("reason")
    steps = many(event.get("total_steps", 0), "step")
    done = f"{event['completed_steps']} of {steps}" if "total_steps" in event else ""
    then = f"next: {event['next']}" if "next" in event else ""
    parts = (event["status"].replace("_", " "), done, reason, then)
    return ": ".join(part for part in parts if part)


def _worktree(event: Event) -> str:
    new = "" if event["reused"] else ", in a new worktree,"
    done = [f"{shlex.join(e['command'])} took {e['seconds']:.1f} s" for e in event.get("setup", ())]
    return f"works{new} in {event['worktree_path']}" + "".join(f"; {each}" for each in done)


#: Kind of event -> its words.
WORDS: dict[str, Callable[[Event], str]] = {
    "started": lambda e: f"{many(e['total_steps'], 'step')}, {many(e['workers'], 'worker')}",
    "worktree": _worktree,
    "claimed": lambda e: f"{'took over' if e.get('reclaimed') else 'begins'}: {e['title']}",
    "waiting": lambda e: f"waits: {e['reason']}",
    "conflict": lambda e: f"asks the coder to merge {e['needs']}: {', '.join(e['files'])}",
    "synced": lambda e: f"has taken in {', '.join(e['steps'])}",
    "amended": lambda e: "goes on by the plan's new text, which left this step as it was",
    "resumed": lambda e: f"goes on with what was saved as {e['salvage_ref']}",
    "agent_started": lambda e: f"{e['role']} starts{_try(e)}",
    "agent_ended": lambda e: (
        f"{e['role']} is done after {e['seconds']:.1f} s"
        + (f", {e['tokens']:,} tokens" if "tokens" in e else "")
    ),
    "agent_failed": lambda e: f"{e['role']} failed: {e['reason']}{_again(e)}",
    "cooling_down": lambda e: (
        f"agents of several steps fail alike, so the run cools down: {e['reason']}; "
        f"one agent tries again in {clock.duration(e['retry_seconds'])}"
    ),
    "cooled_down": lambda e: f"an agent works again, so the run goes on after {_span(e)}",
    "coder_reported": lambda e: str(e["message"]),
    "verifying": lambda e: f"checkpoint: running {e['command']}",
    "verified": lambda e: (
        f"{many(e['passed'], 'checkpoint')} passed"
        + (f", {e['failed']} failed" if e["failed"] else "")
    ),
    "revise": lambda e: f"round {e['round']}: {e['reason']}",
    "deferred": lambda e: f"{e['item']} is left to a person: {e['reason']}",
    "recovered": lambda e: f"completed after all, with {_commit(e)}",
    "escalated": lambda e: f"a person has to decide: {e['reason']}",
    "unanswered": lambda e: f"no answer for {_span(e)}: {e['choice']}",
    "completed": lambda e: f"done, {_commit(e)}: {e['title']}",
    "parked": lambda e: f"parked: {e['reason']}",
    "failed": lambda e: f"given back: {e['reason']}",
    "stopped": lambda e: "given back",
    "saved": lambda e: f"its work is saved as {e['salvage_ref']}",
    "moved": lambda e: f"goes on in another worktree: {e['reason']}",
    "lost": lambda e: f"nothing more is done for it: {e['reason']}",
    "gathered": lambda e: f"all work is together, with {', '.join(e['steps'])}",
    "audited": lambda e: f"the auditor, round {e['round']}: {e['recommendation']}",
    "integrated": lambda e: f"the integrator: {e['recommendation']}",
    "warning": lambda e: str(e["message"]),
    "worker_failed": lambda e: f"cannot go on: {e['reason']}",
    "stopping": lambda e: "stopping: work is saved and steps are given back; again ends it at once",
    "finished": _finished,
}
