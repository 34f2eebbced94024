"""Looks at plans and steps: validate, list, plan show, plan graph, state ready, why and stats.

And plan new, which makes one.
"""

from __future__ import annotations

from tugtool.cli import output
from tugtool.cli.output import Answer
from tugtool.cli.parse import (
    ANY_PLAN,
    EVERY_PLAN,
    PLAN,
    STEP,
    WORKTREE,
    Argument,
    Call,
    Command,
    Option,
)
from tugtool.git import discover
from tugtool.system import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from tugtool.schemas import StateStats


def validate(call: Call) -> Answer:
    """Check the named plans, or all of them."""
    from tugtool.workflow import plans

    level: Any = call.text("level") or "normal"
    repo, names = discover(call.cwd), call.words("plan")
    how: Any = {"cwd": call.cwd, "max_bytes": call.number("max_bytes")}
    data, issues = plans.validate(repo, names, level=level, **how)

    def text() -> str:
        from tugtool.cli.draw import canvas, tables

        sound: set[str] = set()
        if level == "normal" and not data["valid"]:
            rows = plans.validate(repo, names, level="lenient", **how)[0]["plans"]
            sound = {row["plan_path"] for row in rows if row["valid"]}
        return canvas.drawn(tables.draw_findings, data, issues, sound)

    return Answer(data, text, issues=issues, status=0 if data["valid"] else 1)


def list_plans(call: Call) -> Answer:
    """List the plans, unreadable ones too."""
    from tugtool.workflow import overview

    repo = discover(call.cwd)
    data, issues = overview.list_plans(repo, max_bytes=call.number("max_bytes"))

    def text() -> str:
        from tugtool.cli.draw import canvas, tables

        # A plan that cannot be read has its reason in its row.
        told = {row["plan_path"] for row in data["plans"] if row["error"]}
        output.print_issues([each for each in issues if each.get("file") not in told])
        return canvas.drawn(tables.draw_plans, data)

    return Answer(data, text, issues=issues)


def plan_new(call: Call) -> Answer:
    """Start a plan from the skeleton."""
    import time

    from tugtool.workflow import plans

    repo = discover(call.cwd)
    today = time.strftime("%Y-%m-%d")
    data = plans.new(repo, call.text("slug") or "", title=call.text("title"), today=today)
    said = f"created {data['plan_path']}. Fill it in, then: {data['next']}\n"
    return Answer(data, lambda: said)


def plan_show(call: Call) -> Answer:
    """Show a plan as the parser reads it."""
    from tugtool.workflow import overview

    anchor = call.anchor()
    data, issues = overview.show_plan(
        discover(call.cwd),
        call.text("plan"),
        cwd=call.cwd,
        step=anchor or None,
        max_bytes=call.number("max_bytes"),
    )

    def text() -> str:
        from tugtool.cli.draw import canvas, tables

        if anchor:
            return canvas.drawn(tables.draw_step, data)
        return canvas.drawn(tables.draw_plan, data, issues)

    return Answer(data, text, issues=issues)


def plan_graph(call: Call) -> Answer:
    """Show waves, widest wave and critical path."""
    from tugtool.workflow import overview

    shape = call.text("format") or "text"
    data = overview.plan_graph(
        discover(call.cwd),
        call.text("plan"),
        cwd=call.cwd,
        max_bytes=call.number("max_bytes"),
    )

    if call.json and shape in ("mermaid", "dot"):
        data["diagram"] = draw(data, shape)
    return Answer(data, lambda: draw(data, shape))


def state_ready(call: Call) -> Answer:
    """List the steps by what you can do with them."""
    from tugtool import state

    space = call.workspace()
    data = state.ready(space.store, space.plan(call.text("plan")))

    def text() -> str:
        from tugtool.cli.draw import canvas, tables

        return canvas.drawn(tables.draw_ready, data)

    return Answer(data, text)


def state_why(call: Call) -> Answer:
    """Explain the situation of a step."""
    from tugtool.workflow import overview

    space = call.workspace()
    data = overview.why(space, space.plan(call.text("plan")), call.anchor())

    def text() -> str:
        from tugtool.cli.draw import canvas, tables

        page = canvas.for_output()
        tables.draw_why(page, data, space.repo.root)
        return page.text()

    return Answer(data, text)


def state_stats(call: Call) -> Answer:
    """Show times and counts."""
    from tugtool import state

    space = call.workspace()
    plan = space.plan_or_all(call.text("plan"))
    data: StateStats = {"plans": []}
    if plan is not None or space.store.exists():
        data = state.stats(space.store, plan, archived=call.flag("all"))

    def text() -> str:
        from tugtool.cli.draw import tables

        return tables.table(data["plans"])

    return Answer(data, text)


_PLAN = Argument(
    "[plan]",
    "a path, a file name, a slug, or the beginning of one; may be left out where there is only one",
)
_MAX_BYTES = Option(
    "--max-bytes N",
    "accept plan files up to N bytes (default: plan.max_bytes of the configuration)",
)

COMMANDS = (
    Command(
        "validate",
        validate,
        """\
Without PLAN, checks all plans. `lenient` reports only errors that would break the execution,
`normal` reports everything, and `strict` makes warnings errors. Exit status 1 if there is an
error.""",
        (
            Argument("[plan...]", "plans to check"),
            Option(
                "--level LEVEL",
                "how strict the check is (default: normal)",
                choices=("lenient", "normal", "strict"),
            ),
            _MAX_BYTES,
        ),
        examples="""\
tugcode validate  # all plans, at the normal level
tugcode validate parser --level strict  # one plan, warnings are errors
tugcode validate --json  # for a program: every finding with its line""",
    ),
    Command(
        "list",
        list_plans,
        """\
Shows each plan with its slug, title, status, and numbers of steps and checklist items. The status
is that of its execution (active, paused, done, merged or archived), or the Status that its text
names. An unreadable plan is listed with the reason.""",
        (_MAX_BYTES,),
        examples="""\
tugcode list  # all plans
tugcode list --json  # the same for a program""",
    ),
    Command(
        "plan new",
        plan_new,
        """\
Writes .tugtool/tugplan-SLUG.md in the current worktree, from .tugtool/tugplan-skeleton.md
if the repository has one and from the built-in skeleton otherwise. Never overwrites.""",
        (
            Argument("slug", "lower-case letters, digits and hyphens, e.g. parser-rewrite"),
            Option("--title TITLE", "put this title in"),
        ),
        examples="""\
tugcode plan new parser-rewrite  # a new plan for you to fill in
tugcode plan new login --title "Log in with a passkey"  # with its title""",
    ),
    Command(
        "plan show",
        plan_show,
        """\
Shows title, metadata, decisions, and every step with its dependencies, substeps and checklist
items, each with its line. If something is missing here, Tugtool does not know it.""",
        (_PLAN, Option("--step ANCHOR", "only this step, with its full texts"), _MAX_BYTES),
        examples="""\
tugcode plan show parser  # the whole plan
tugcode plan show parser --step step-3  # one step in full
tugcode plan show parser --json  # all of it as data""",
    ),
    Command(
        "plan graph",
        plan_graph,
        """\
A wave is the steps that can run at the same time once the wave before is done; the widest wave
is the number of workers that can be at work at once; the critical path is the longest chain.
Substeps count with their step. A plan with an unknown dependency or a cycle is refused with the
diagnostics of `tugcode validate`.""",
        (
            _PLAN,
            Option(
                "--format FORMAT",
                "the format (default: text)",
                choices=("text", "mermaid", "dot", "json"),
            ),
            _MAX_BYTES,
        ),
        examples="""\
tugcode plan graph parser  # waves and critical path
tugcode plan graph parser --format mermaid  # for a Markdown page
tugcode plan graph parser --format dot | dot -Tsvg > plan.svg  # a picture""",
    ),
    Command(
        "state ready",
        state_ready,
        "Lists ready, claimed, stale, blocked, parked and completed steps. Changes nothing.",
        (ANY_PLAN, WORKTREE),
        examples="tugcode ready parser  # which steps can I claim?",
    ),
    Command(
        "state why",
        state_why,
        """\
Says in sentences, or as data with --json: the holder of the step and the times of its claim; the
steps that it waits for, and where that chain ends; whether it is parked, paused or completed.
Changes nothing.""",
        (PLAN, STEP, WORKTREE),
        examples="""\
tugcode why parser step-3  # why can I not claim it?
tugcode why parser step-3 --json  # as data""",
    ),
    Command(
        "state stats",
        state_stats,
        """\
Waited: the time in which the step was ready and no worker held it; parked and paused time counts,
blocked time does not. Worked: from claim to end; if the worker was lost, until its last sign of
life.""",
        (EVERY_PLAN, Option("--all", "show archived plans too"), WORKTREE),
        examples="""\
tugcode stats parser  # where did the time go?
tugcode stats --json  # all plans, in seconds""",
    ),
)


_LONGEST_TITLE = 60


def draw(data: Mapping[str, Any], shape: str) -> str:
    """The graph in one of the formats text, mermaid, dot, json."""
    if shape == "json":
        return text.encode(data) + "\n"
    if shape == "text":
        from tugtool.cli.draw import canvas, tables

        return canvas.drawn(tables.draw_graph, data)
    lines = _mermaid(data) if shape == "mermaid" else _dot(data)
    return "".join(f"{line}\n" for line in lines)


def _mermaid(data: Mapping[str, Any]) -> Iterator[str]:
    yield "flowchart TD"
    critical = data["critical_path"]
    # An anchor may be a keyword of mermaid; n0, n1 ... are safe.
    names = {step["anchor"]: f"n{index}" for index, step in enumerate(data["steps"])}
    for step in data["steps"]:
        title = output.clean(f"{step['anchor']}: {step['title']}", _LONGEST_TITLE)
        # Mermaid reads #...; as an entity, and HTML and Markdown as markup.
        safe = (c if c.isalnum() or c in " .,:-_()/" else f"#{ord(c)};" for c in title)
        yield f'  {names[step["anchor"]]}["{"".join(safe)}"]'
    for step in data["steps"]:
        for need in step["needs"]:
            yield f"  {names[need]} --> {names[step['anchor']]}"
    yield "  classDef critical stroke-width:3px"
    yield f"  class {','.join(names[anchor] for anchor in critical)} critical"


def _dot(data: Mapping[str, Any]) -> Iterator[str]:
    yield "digraph plan {"
    yield "  rankdir=TB;"
    yield "  node [shape=box, style=rounded];"
    critical = set(data["critical_path"])
    for step in data["steps"]:
        label = output.clean(f"{step['anchor']}: {step['title']}", _LONGEST_TITLE)
        label = label.replace("\\", "\\\\").replace('"', '\\"')
        wide = ", penwidth=3" if step["anchor"] in critical else ""
        yield f'  "{step["anchor"]}" [label="{label}"{wide}];'
    for step in data["steps"]:
        for need in step["needs"]:
            yield f'  "{need}" -> "{step["anchor"]}";'
    yield "}"
