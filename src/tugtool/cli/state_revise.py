"""state diff, state revisions, plan accept, state init --force and plan import."""

from __future__ import annotations

import sys
from typing import Any

from tugtool import state
from tugtool.cli import output
from tugtool.cli.output import Answer, clean
from tugtool.cli.parse import ANY_PLAN, MAX_BYTES, PLAN, WORKTREE, Argument, Call, Command, Option
from tugtool.errors import Unreadable, Usage, listing, plan_argument
from tugtool.errors.state import PeopleOnly
from tugtool.git import discover
from tugtool.state.revision_plan import FLAGS, Allowed
from tugtool.system import config
from tugtool.system.text import many
from tugtool.workflow import records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tugtool.plan.conversion import Conversion
    from tugtool.schemas import Issue, PlanImport, StateRevisionsRevision


#: The most steps and items that a text answer lists; JSON has all.
MOST_NAMED = 12


def state_diff(call: Call) -> Answer:
    """Compare the plan file with the agreed text."""
    space = call.workspace()
    plan = space.plan(call.text("plan"))
    told, issues = records.diff(space, plan, max_bytes=call.number("max_bytes"))
    status = 1 if told["changed"] and call.flag("exit_code") else 0
    return Answer(told, lambda: _diff_text(told, issues), issues=issues, status=status)


def state_revisions(call: Call) -> Answer:
    """List the agreed texts of a plan, or print one."""
    space = call.workspace()
    plan = space.plan(call.text("plan"))
    told = state.agreed_texts(space.store, plan, call.number("revision"))

    def text() -> str:
        if told["text"] is not None:
            return output.lines(told["text"].splitlines())
        return output.lines(map(_revision_line, told["revisions"]))

    return Answer(told, text)


def _revision_line(each: StateRevisionsRevision) -> str:
    from tugtool.cli.draw.canvas import local

    end = f"until {local(each['replaced_at'])}" if each["replaced_at"] else "the agreed text"
    since = local(each["agreed_at"])
    return f"{each['revision']:>3}  {each['plan_hash'][:12]}  agreed {since}, {end}"


def forced(call: Call) -> Answer:
    """Accept the new text of a plan, or only show the effect."""
    if not call.flag("force"):
        # These options need --force.
        loose = [name for key, name in _FORCING.items() if call.flag(key)]
        raise Usage(f"{loose[0]} goes with --force", command="state init")
    space, dry_run = call.workspace(), call.flag("dry_run")
    done = records.revise(
        space,
        call.text("plan") or "",
        Allowed(**{flag: call.flag(flag) for flag in FLAGS}),
        dry_run=dry_run,
        max_bytes=call.number("max_bytes"),
        own=not call.served,
    )

    def text() -> str:
        from tugtool.cli.state_admin import announced

        return announced(done) + _forced_text(done.data)

    return Answer(done.data, text, issues=done.issues, after=None if dry_run else space.back_up)


def plan_accept(call: Call) -> Answer:
    """Show the effect of a plan's new text, ask, and accept it."""
    if config.variable("TUGCODE_ATTEMPT") is not None:
        # A worker must not change the text that its work is checked against.
        raise PeopleOnly("plan accept", hint="tugcode diff")
    space, name = call.workspace(), call.text("plan") or ""
    allowed = Allowed(**{flag: call.flag(flag) for flag in FLAGS})
    most = call.number("max_bytes")
    done = records.revise(space, name, allowed, dry_run=True, max_bytes=most)
    accepts = not call.flag("dry_run") and _is_meant(call, done.data)
    if accepts:
        done = records.revise(space, name, allowed, max_bytes=most, own=not call.served)
    said = _forced_text(done.data)
    if accepts and done.data.get("revised"):
        look = f"tugcode worktree sync {plan_argument(done.data['plan_path'])}"
        said += _line(f"worktrees that are held take it by themselves, or with {look}")
    declined = not accepts and not call.flag("dry_run")
    after = space.back_up if accepts else None
    return Answer(done.data, lambda: said, issues=done.issues, status=int(declined), after=after)


def _is_meant(call: Call, told: dict[str, Any]) -> bool:
    """True if the user at the terminal agrees; programs are not asked."""
    if call.json or call.flag("yes") or not output.on_terminal(sys.stdin, sys.stderr):
        return True
    output.mention(_forced_text(told))
    return not told.get("drift", True) or output.agreed("Accept this text?")


_FORCING = {**FLAGS, "dry_run": "--dry-run"}


def _forced_text(told: dict[str, Any]) -> str:
    plan = told["plan_path"]
    if "kept" not in told:
        what = "would be recorded" if told["dry_run"] else "is recorded"
        return _line(f"{plan} {what}: {many(told['steps_created'], 'step')}")
    if not told["drift"] and not told["revised"]:
        return _line(f"{plan} is what was agreed; nothing is changed")
    if told["revised"]:
        first = f"{plan}: the new text is what is carried out from now on"
    elif told["refusals"]:
        first = f"{plan}: the new text would be refused; nothing is changed"
    else:
        first = f"{plan}: the new text would be accepted; nothing is changed"
    return _line(first) + _summary(told)


def _diff_text(told: dict[str, Any], issues: Sequence[Issue]) -> str:
    plan = told["plan_path"]
    if told["problem"]:
        first = _line(f"{told['problem']}; this was agreed:")
        return f"{first}\n{_coloured(told['diff'])}"
    if not told["changed"]:
        return _line(f"{told['file']} is what was agreed")
    first = _line(f"{told['file']} is not what was agreed")
    if told["valid"]:
        look = f"tugcode plan accept {plan_argument(plan)} --dry-run"
        means = _summary(told["revision"]) + _line(f"what accepting it would do: {look}")
    else:
        errors = [issue for issue in issues if issue["severity"] == "error"]
        means = _line("it would not be accepted, because it is not a sound plan:")
        means += "".join(f"  {output.finding(issue)}" for issue in errors[:MOST_NAMED])
    return f"{first}{means}\n{_coloured(told['diff'])}"


def _line(text: str) -> str:
    return f"{clean(text)}\n"


_LISTS = {
    "added": "added",
    "removed": "removed",
    "changed": "changed",
    "reopened": "to be done again",
    "retitled": "new title",
    "moved": "moved",
    "needs_changed": "new dependencies",
    "items_reordered": "items reordered",
    "kept_claims": "claims kept",
    "dropped_claims": "claims ended",
    "completed_substeps": "completed by this",
    "ahead_of_needs": "ahead of what it needs",
}


def _summary(told: dict[str, Any]) -> str:
    rows = [(name, listing(_marked(told, told[key]), MOST_NAMED)) for key, name in _LISTS.items()]
    rows = [(name, names) for name, names in rows if names]
    rows.append(("kept", _kept(told)))
    for key, name in (("dropped_items", "items lost"), ("reset_items", "items begun again")):
        rows += [(name, _item(item)) for item in told[key][:MOST_NAMED]]
        more = len(told[key]) - MOST_NAMED
        rows += [(name, f"and {more} more")] if more > 0 else []
    text = "".join(_line(f"  {name:<22} {names}") for name, names in rows)
    return text + "".join(_refusals(told["refusals"]))


def _refusals(refusals: Sequence[dict[str, Any]]) -> Iterator[str]:
    if refusals:
        yield _line("in the way (tugcode state init --help lists what allows it):")
    for refusal in refusals[:MOST_NAMED]:
        yield _line(f"  {refusal['step']}: {refusal['why']}")
    if len(refusals) > MOST_NAMED:
        yield _line(f"  and {len(refusals) - MOST_NAMED} more")


def _marked(told: dict[str, Any], anchors: Sequence[str]) -> list[str]:
    """Anchors, each with its warning."""
    marks = dict.fromkeys((*told["kept_claims"], *told["dropped_claims"]), " (claimed)")
    marks |= dict.fromkeys(told["was_completed"], " (completed)")
    return [f"{anchor}{marks.get(anchor, '')}" for anchor in anchors]


def _kept(told: dict[str, Any]) -> str:
    completed = len(set(told["kept"]) & set(told["was_completed"]))
    steps, items = many(len(told["kept"]), "step"), told["kept_items"]
    return f"{steps}, {completed} completed; {many(items, 'completed or deferred item')}"


def _item(item: dict[str, Any]) -> str:
    because = f" ({item['reason']})" if item["reason"] else ""
    name = f"{item['step_anchor']} {item['kind']} {item['ordinal']}"
    return f"{name}, {item['status']}{because}: {item['text']}"


_COLOURS = {"+": "\x1b[32m", "-": "\x1b[31m", "@": "\x1b[36m"}


def _coloured(diff: str) -> str:
    """The diff in git's colours; the first two lines name the texts."""
    lines = [clean(line, output.UNBOUNDED) for line in diff.split("\n")[:-1]]
    if not output.colour():
        return "".join(f"{line}\n" for line in lines)
    heads = [f"\x1b[1m{line}\x1b[m\n" for line in lines[:2]]
    body = [
        f"{_COLOURS[line[0]]}{line}\x1b[m\n" if line[:1] in _COLOURS else f"{line}\n"
        for line in lines[2:]
    ]
    return "".join(heads + body)


def plan_import(call: Call) -> Answer:
    """Write a plan from another tool's tasks."""
    import time

    from tugtool.plan import catalog, conversion, exports
    from tugtool.system import os
    from tugtool.workflow import plans

    repo, tool = discover(call.cwd), call.text("from")
    if tool is None:
        raise Usage(f"plan import needs --from: {_TOOLS}", command=call.path)
    slug = call.text("name") or tool
    catalog.refuse_bad_slug(slug, call.path)
    most = plans.limit(repo, call.number("max_bytes"))
    source = os.path.join(call.cwd, call.text("source") or "")
    found = exports.exported(tool, source, max_bytes=most)
    today = time.strftime("%Y-%m-%d")
    made = conversion.convert(tool, found, today=today, only_open=call.flag("open"))
    size = len(made.text.encode())
    if size > most:
        problem = f"would make a plan of {size} bytes, and the limit is {most}"
        raise Unreadable(source, problem, hint="--max-bytes N raises the limit")
    dry = call.flag("dry_run")
    file = None if dry else catalog.write_plan(repo, slug, made.text)
    data: PlanImport = {
        "plan_path": f"{catalog.DIRECTORY}/{catalog.PREFIX}{slug}{catalog.SUFFIX}",
        "file": file.path if file else None,
        "slug": slug,
        "steps": made.steps,
        "substeps": made.substeps,
        "done": made.done,
        "text": made.text if dry else None,
        "next": f"tugcode validate {slug}",
    }
    return output.answer(data, lambda: _imported(data), _warnings(made))


def _imported(data: PlanImport) -> str:
    if data["text"] is not None:
        return data["text"]
    parts = f" with {many(data['substeps'], 'substep')}" if data["substeps"] else ""
    said = f"created {data['plan_path']}: {many(data['steps'], 'step')}{parts}"
    return f"{said}. Read it, then: {data['next']}\n"


def _warnings(made: Conversion) -> list[Issue]:
    issues: list[Issue] = [
        {"code": "W180", "severity": "warning", "message": f"not carried over as it was: {each}"}
        for each in made.lost
    ]
    if made.done:
        message = (
            f"{many(made.done, 'task')} done there: ticked here, and done again if you carry "
            "the plan out, because its execution has its own record; --open leaves them out"
        )
        issues.append({"code": "W181", "severity": "warning", "message": message})
    if made.commands:
        message = f"Tugtool will run these checkpoints; read them first: {listing(made.commands)}"
        issues.append({"code": "W182", "severity": "warning", "message": message})
    return issues


_TOOLS = "beads, taskmaster, backlog, github"

COMMANDS = (
    Command(
        "state diff",
        state_diff,
        """\
Compares the agreed text with your plan file: your worktree's copy, or else the main one's. Shows
first the effect on steps, items and claims, then the lines. Changes nothing. CRLF counts as LF.""",
        (ANY_PLAN, Option("--exit-code", "exit status 1 if they differ"), MAX_BYTES, WORKTREE),
        examples="tugcode diff parser  # what was edited?",
    ),
    Command(
        "state revisions",
        state_revisions,
        """\
Lists every text that was agreed for the plan, oldest first: when it was agreed, and until when it
was in force. The last one is the present text. With --revision prints that text.""",
        (ANY_PLAN, Option("--revision N", "print this text")),
        examples="""\
tugcode revisions parser  # which texts were agreed, and when?
tugcode revisions parser --revision 1  # the first one""",
    ),
    Command(
        "plan accept",
        plan_accept,
        """\
Makes the plan's file the agreed text, like state init --force. Shows the effect and, on a
terminal, asks first. Completed and claimed work is protected, unless an option says otherwise. A
text that was agreed before is refused: most often it is an old copy, and accepting it would undo
an amendment. A worker (TUGCODE_ATTEMPT is set) is refused.""",
        (
            PLAN,
            Option("--reopen-changed", "reopen completed steps whose checklist changed"),
            Option("--drop-completed", "drop completed steps and items"),
            Option("--drop-claimed", "end the claims of changed and removed steps; work is saved"),
            Option("--revert", "go back to a text that was agreed before"),
            Option("--dry-run", "change nothing; show the effect"),
            Option("--yes", "do not ask"),
            MAX_BYTES,
            WORKTREE,
        ),
        examples="""\
tugcode plan accept parser --dry-run  # what would the new text change?
tugcode plan accept parser --drop-claimed  # even if workers hold changed steps""",
    ),
    Command(
        "plan import",
        plan_import,
        """\
Each task becomes a step and each subtask a substep, with title, text, dependencies and
acceptance criteria (as checkpoints). The answer names what a plan cannot hold. If anything
fails, nothing is written; an existing plan is never overwritten.

beads: .beads/issues.jsonl. taskmaster: .taskmaster/tasks/tasks.json. backlog: the
directory backlog/. For these, SOURCE may also be the directory of the project. github:
the output of gh issue list --state all --json number,title,body,state,labels.""",
        (
            Argument("source", "the file or the directory that the tool wrote"),
            Option("--from TOOL", "the tool", choices=tuple(_TOOLS.split(", "))),
            Option("--name SLUG", "the new plan's slug (default: the name of the tool)"),
            Option("--open", "leave out the tasks that are done"),
            Option("--dry-run", "write nothing; print the plan"),
            MAX_BYTES,
        ),
        examples="""\
tugcode plan import --from backlog .  # the tasks of Backlog.md in this project
tugcode plan import --from beads .beads/issues.jsonl --open  # only open tasks
tugcode plan import --from github issues.json --name bugs --dry-run  # write nothing""",
    ),
)
