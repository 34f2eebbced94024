"""next, done and state verify."""

from __future__ import annotations

import sys

from tugtool.cli import output
from tugtool.cli.output import Answer, agreed, answer, clean, mention, on_terminal
from tugtool.cli.parse import (
    ANY_PLAN,
    ATTEMPT,
    LEASE,
    PLAN,
    STEP,
    WORKTREE,
    Call,
    Command,
    Option,
)
from tugtool.errors import Usage, listing, plan_argument, plan_name, quoted
from tugtool.system import os
from tugtool.system.text import many
from tugtool.workflow import next_step, verify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from tugtool.cli.draw.canvas import Canvas
    from tugtool.cli.output import Stream
    from tugtool.errors import TugError
    from tugtool.schemas import Done, Next, NextHolder


_BOXES = {"completed": "[x]", "deferred": "[~]"}


def next_(call: Call) -> Answer:
    """Get a step to work on, with its text and checklist."""
    space = call.workspace()
    data, issues = next_step.next_step(
        space,
        call.text("plan"),
        step=call.anchor() or None,
        wait_seconds=call.seconds("wait") or 0,
        lease_seconds=call.seconds("lease_duration"),
        hear=lambda data: None if call.json else mention(output.lines(_waits(data, os.getcwd()))),
    )
    texts = [each["text"] for each in data["checklist"] if each["kind"] == "checkpoint"]
    issues += verify.notices(space, texts)
    return answer(data, lambda: _text(data), issues, after=space.back_up)


def _text(data: Next) -> str:
    if data["claimed"]:
        from tugtool.cli.draw.canvas import drawn

        return drawn(draw_next, data, os.getcwd())
    # Standard output stays empty: a shell loop sees by it that there is no step.
    mention(f"tugcode: {clean(_nothing(data, os.getcwd()))}\n")
    return ""


def draw_next(canvas: Canvas, data: Next, here: str) -> None:
    """Draw the directory, the step's text, its checklist, and the work of the last attempt."""
    path = str(data["worktree_path"])
    where = _near(path, here) if canvas.bounded else path
    canvas.write_whole(("bold", f"cd {quoted(_whole(where))}"))
    which = f"{data['anchor']} of {plan_name(data['plan_path'])}, attempt {data['attempt']}:"
    canvas.write(("", f"your step is {_whole(which)}"), hang=2)
    canvas.write()
    for line in str(data["text"]).split("\n"):
        indent = len(line) - len(line.lstrip(" "))
        canvas.write(("", _whole(line)), hang=indent + (6 if line.lstrip(" ")[:3] == "- [" else 2))
    _draw_checklist(canvas, data["checklist"])
    canvas.write()
    if data["merged"]:
        steps = listing([each["step_anchor"] for each in data["merged"]])
        canvas.write(("", f"merged, because it depends on them: {steps}"), hang=2)
    if data["previous_attempt"]:
        _draw_previous(canvas, data["previous_attempt"])
    canvas.write(("", "when it is done: "), ("bold", str(data["next"])), hang=2)


def _draw_checklist(canvas: Canvas, checklist: Sequence[Mapping[str, Any]]) -> None:
    if checklist:
        canvas.write()
        canvas.write(("", "the checklist as it stands:"))
    for item in checklist:
        name = f"{item['step_anchor']} {item['kind']} {item['ordinal']}"
        why = f" ({item['reason']})" if item["reason"] else ""
        lead = f"  {_BOXES.get(item['status'], '[ ]')} {name}"
        canvas.write(("", _whole(f"{lead}: {item['text']}{why}")), hang=6)


def _draw_previous(canvas: Canvas, before: Mapping[str, Any]) -> None:
    from tugtool.cli.draw import tables  # Only for a step that was tried before.

    canvas.write(("you", f"attempt {before['number']} ended: {before['outcome']}"), hang=2)
    said = [f"{each['kind']}: {each['summary']}" for each in before["artifacts"]]
    said += [f"to go on with what it left: {command}" for command in before["recover"]]
    for each in (*tables.reopening(before), *said):
        canvas.write(("", _whole(f"  {each}")), hang=4)


def _whole(text: str) -> str:
    """The whole text, made safe for a terminal: the worker needs all of it."""
    return clean(text, output.UNBOUNDED)


def _waits(data: Next, here: str) -> Iterator[str]:
    """Return what the caller waits for, and how to go on if a worker is gone."""
    paused = data["reason"] == "paused"
    yield f"tugcode: waiting for {'the plan to be resumed' if paused else 'a step that is ready'}"
    for each in data["holders"]:
        yield f"  {each['step_anchor']} is held {_held(each, here)}"
    yield from (f"  {each}" for each in _unpublished(data))
    # A worktree on another machine is not here.
    paths = {each["worktree"] for each in data["holders"] if os.path.isdir(each["worktree"])}
    again = "start its loop again there, and it goes on"
    if len(paths) == 1:
        yield f"  if that worker is gone, {again}: cd {quoted(_near(paths.pop(), here))}"
    elif paths:
        yield f"  if one of these workers is gone, {again}: cd WORKTREE"
    if data["parked_steps"]:
        review = f"tugcode review {plan_argument(data['plan_path'])}"
        yield f"  parked until a person looks: {listing(data['parked_steps'])}; {review}"


def _unpublished(data: Next) -> list[str]:
    if "unpublished_steps" not in data:
        return []
    from tugtool.workflow import sentences  # Only with a remote.

    return sentences.unpublished(data)


def _held(holder: NextHolder, here: str) -> str:
    from tugtool.cli.draw import canvas  # Only for a step that another worker holds.

    return f"until {canvas.local(holder['lease_expires_at'])} in {_near(holder['worktree'], here)}"


def _near(path: str, here: str) -> str:
    """Return the path for a shell in this directory, relative if that is shorter."""
    return min(path, os.path.relpath(path, here), key=len)


def _nothing(data: Next, here: str) -> str:
    words = {
        "paused": "the plan is paused",
        "all_completed": "every step is completed",
        "no_ready_steps": "no step is ready",
    }
    held = [f"{each['step_anchor']} ({_held(each, here)})" for each in data["holders"]]
    waiting, merged, parked = data["waiting_items"], data["merged_commit"], data["parked_steps"]
    said = f"nothing to do: {words[str(data['reason'])]}"
    said += f"; {output.remaining(data['total_remaining'])}" if data["total_remaining"] else ""
    said += f"; other workers hold {listing(held)}" if held else ""
    said += f"; {many(waiting, 'item')} wait{'s' * (waiting == 1)} for a person" if waiting else ""
    said += f"; it is merged as {merged[:12]}" if merged else ""
    said += f"; parked: {listing(parked)}" if parked else ""
    said += "".join(f"; {each}" for each in _unpublished(data))
    return f"{said}; next: {data['next']}"


def done(call: Call) -> Answer:
    """Check the step of the worktree, commit its work and complete it."""
    space = call.workspace()
    data, issues = next_step.done(
        space,
        call.text("plan"),
        step=call.anchor() or None,
        attempt=call.number("attempt"),
        message=call.text("message"),
        tick_all=call.flag("all"),
        limit_seconds=call.seconds("timeout") or next_step.LIMIT_SECONDS,
        hear=lambda command: None if call.json else mention(f"tugcode: running {clean(command)}\n"),
    )

    def text() -> str:
        from tugtool.cli.draw.canvas import drawn

        return drawn(draw_done, data)

    made = answer(data, text, issues, after=space.back_up)
    made.status = int(not data["completed"])
    return made


def draw_done(canvas: Canvas, data: Done) -> None:
    """Draw the result of the step and the next command."""
    committed, checked = data["commit"], data["checkpoints"]
    passed = sum(each["outcome"] == "passed" for each in checked)
    if passed:
        canvas.write(("done", f"passed: {many(passed, 'checkpoint')}"))
    verb = "found" if committed["recovered"] else "committed"
    said = f"{verb} {(committed['commit_hash'] or '')[:12]} for {canvas.said(data['anchor'])}"
    if not data["completed"]:
        why = committed["state_failure_reason"]
        said += f"; the step is NOT completed ({why}); next: "
        canvas.write(("wrong", said), ("bold", "tugcode done"), hang=2)
        return
    remain = output.remaining(committed.get("remaining_steps", 0))
    title = canvas.said(data["step_title"])
    canvas.write(("", f"{said}: {title}; it is completed, {remain}"), hang=2)
    if data["deferred"]:
        waits = "waits" if data["deferred"] == 1 else "wait"
        said = f"{many(data['deferred'], 'checkpoint')} {waits} for a person: "
        canvas.write(("you", said), ("bold", "tugcode review"), hang=2)
    canvas.write(("", "next: "), ("bold", clean(data["next"])), hang=6)


def run_by_number(call: Call, error: TugError) -> Answer | Stream:
    """Run a command whose step is named by its number, or refuse an unknown step."""
    word = call.anchor()
    if call.command is None or word != error.facts["anchor"]:
        raise error
    from tugtool.workflow import overview

    found = overview.anchor_of(call.workspace(), str(error.facts["plan"]), word)
    if found in (None, word):
        raise error
    call.values["step"] = [str(found)]
    return call.command.function(call)


#: Lines of a failed command's output in the answer; the evidence has more.
_SHOWN_LINES = 10
_LONGEST_COMMAND = 1 << 20


def state_verify(call: Call) -> Answer:
    """Run the commands of a step's checkpoints, after the user has agreed."""
    from tugtool.cli import checklist_input

    space, plan, anchor, attempt = call.held_step()
    dry_run, words = call.flag("dry_run"), call.words("ordinal")
    which: Any = {"ordinals": list(map(checklist_input.ordinal, words)), "runs": not dry_run}
    task = verify.prepare(space, plan, anchor, attempt=attempt, **which)
    confirmed = not dry_run and bool(task.to_run) and _agreed_to(call, task, space.worktree)
    data = {**task.data(), "lease_expires_at": None, "artifact_id": None}
    if confirmed:
        limit = call.seconds("timeout") or verify.LIMIT_SECONDS
        how: Any = {"hear": _progress_printer(call), "watch": call.watch, "limit_seconds": limit}
        data = verify.carry_out(space, task, **how)
    data = {**data, "dry_run": dry_run, "confirmed": confirmed}
    declined = task.to_run and not confirmed
    bad = not dry_run and bool(declined or data["failed"] or data["refused"])
    issues = [] if dry_run else list(_issues(data))
    return Answer(data, lambda: "".join(_lines(data, task)), issues=issues, status=int(bad))


def _agreed_to(call: Call, task: verify.Task, worktree: str) -> bool:
    """True if the user agrees, by --yes or at the terminal."""
    if call.flag("yes"):
        return True
    if not on_terminal(sys.stdin, sys.stderr):
        problem = "no terminal to ask on: --yes runs the commands that --dry-run lists"
        raise Usage(problem, command="state verify")
    mention(f"In {clean(worktree)}, for {clean(task.anchor)}:\n")
    for checkpoint in task.to_run:
        for command in checkpoint.reading.commands:
            # Show exactly what will run; commands that cannot be shown do not run.
            mention(f"  {_name(checkpoint.data(), task)}: {clean(command, _LONGEST_COMMAND)}\n")
    return agreed("Run this?")


def _progress_printer(call: Call) -> Callable[[str], None]:
    """A function that shows people which command runs; programs get all at the end."""

    def tell(command: str) -> None:
        if not call.json:
            mention(f"tugcode: running {clean(command)}\n")

    return tell


def _name(each: dict[str, Any], task: verify.Task) -> str:
    own = "" if each["step_anchor"] == task.anchor else f"{clean(each['step_anchor'])} "
    return f"{own}checkpoint {each['ordinal']}"


def _issues(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for each in data["checkpoints"]:
        if each["outcome"] not in ("failed", "refused"):
            continue
        yield {
            "code": "W130",
            "severity": "warning",
            "message": f"{each['step_anchor']} checkpoint {each['ordinal']}: {_result_lines(each)}",
            "hint": f"tugcode show {plan_argument(data['plan_path'])} --checklist",
            "anchor": each["step_anchor"],
        }


def _result_lines(each: dict[str, Any]) -> str:
    """The result of one checkpoint in words."""
    from tugtool.plan import checkpoints
    from tugtool.state import completion

    if each["evidence"] is None:
        return f"not run: {checkpoints.REASONS[each['reason']]}"
    ran = [f"`{ran['command']}` {completion.ended(ran)}" for ran in each["evidence"]["commands"]]
    note = f"; {each['evidence']['note']}" if each["evidence"]["note"] else ""
    return "; ".join(ran) + note


def _lines(data: dict[str, Any], task: verify.Task) -> Iterator[str]:
    for each in data["checkpoints"]:
        box = {"completed": "[x]", "deferred": "[~]"}.get(each["status"], "[ ]")
        name = f"{box} {_name(each, task)}"
        if each["evidence"] is None and each["reason"] is None:
            for command in each["commands"]:
                yield f"{name}: would run: {clean(command, _LONGEST_COMMAND)}\n"
            continue
        yield f"{name}: {clean(_result_lines(each))}\n"
        if each["outcome"] == "failed":
            tail = each["evidence"]["commands"][-1]["output_tail"]
            lines = tail.splitlines()[-_SHOWN_LINES:]
            yield from (f"      {clean(line)}\n" for line in lines)
    yield _total(data, task)


def _total(data: dict[str, Any], task: verify.Task) -> str:
    if not data["confirmed"]:
        if not task.to_run:
            return f"no checkpoint of {clean(task.anchor)} names a command that can be run\n"
        return "nothing was run\n"
    ran = data["passed"] + data["failed"]
    rest = data["refused"] + data["not_run"]
    left = f"; {rest} not run" if rest else ""
    ticked = f"{data['ticked']} ticked{left}"
    return f"verified {data['passed']} of {ran} of {clean(task.anchor)}, {ticked}\n"


COMMANDS = (
    Command(
        "next",
        next_,
        """\
In the main worktree: takes a free worktree of the plan or makes one, claims a step there,
merges the commits that the step depends on, and starts it. In a linked worktree: does the same
there; a step that the worktree holds already is shown again. Prints the directory to go to, the
step's text from the plan, its checklist, and the work that the last attempt left. If there is no
step, standard output is empty, and standard error says why. The plan is that of the worktree, or
the only one with open steps.""",
        (
            ANY_PLAN,
            Option("--step ANCHOR", "only this step; a refusal says why"),
            Option("--wait SECONDS", "wait this long for a step; standard error says for which"),
            LEASE,
            WORKTREE,
        ),
        examples="""\
tugcode next  # the next step
tugcode next parser --wait 600  # wait for the steps of other workers
eval "$(tugcode next | head -1)"  # in the main worktree: go where the step is to be done""",
    ),
    Command(
        "done",
        done,
        """\
Works on the step that this worktree holds. Runs the commands of its checkpoints and records the
results, like state verify. While an item is open, it commits nothing and refuses: the refusal
lists the open items, the output of each failed command, and the commands that settle the rest.
Otherwise it commits everything in the worktree and completes the step, like tugcode commit, with
the plan's Commit line as the message.""",
        (
            Option("--message TEXT", "the commit's message", short="-m"),
            Option("--all", "tick the step's tasks and tests, and those of its substeps"),
            Option("--timeout SECONDS", "for each command of a checkpoint (default: 600)"),
            Option("--plan PLAN", "the plan, where the worktree holds steps of several"),
            Option("--step ANCHOR", "the step, where the worktree holds several"),
            ATTEMPT,
            WORKTREE,
        ),
        examples="""\
tugcode done --all  # the tasks and tests are done; checkpoints prove themselves
tugcode done -m "feat: read numbers"  # with your own message""",
    ),
    Command(
        "state verify",
        state_verify,
        """\
For the holder of the step. Runs the commands in backticks that a checkpoint begins with (`make
test` passes; `lint` and `build` succeed), or that follow a colon at its end, as the agreed text
has them: with /bin/sh, in the worktree, without input. It lists the commands and asks first;
without a terminal it needs --yes. A checkpoint whose commands exit with 0 is ticked; one that
fails is not; both keep command, exit status, time, commit and the end of the output as evidence.
Checkpoints without a command are listed and never ticked. Substeps are verified with their step.
The lease is renewed meanwhile; if the claim is lost, the command is stopped and nothing is
recorded. Exit status 1 if anything failed.""",
        (
            PLAN,
            STEP,
            Option("--yes", "run without asking"),
            Option("--dry-run", "only list the commands"),
            Option("--timeout SECONDS", "for each command (default: 600)"),
            Option(
                "--ordinal N",
                "only this checkpoint of the step itself, from 0; may be given several times",
                repeat=True,
                kind="text",
            ),
            ATTEMPT,
            WORKTREE,
        ),
        examples="""\
tugcode verify parser step-3 --dry-run  # which commands would run?
tugcode verify parser step-3 --yes --json  # for an orchestrator
tugcode verify parser step-3 --ordinal 1 --timeout 60  # one, for a minute at most""",
    ),
)
