"""report; state archive, move, prune, export, import, reconcile."""

from __future__ import annotations

import sys
from itertools import chain

from tugtool import state
from tugtool.cli import output
from tugtool.cli.output import Answer, Stream, answer, clean
from tugtool.cli.parse import ANY_PLAN, EVERY_PLAN, WORKTREE, Argument, Call, Command, Option
from tugtool.errors import Unwritable, Usage, plan_argument
from tugtool.errors.state import DatabaseUnavailable, PlanNotInitialised
from tugtool.state import record
from tugtool.system import files, os, text
from tugtool.system.text import many
from tugtool.workflow import exports, records
from tugtool.workflow.merge import reconcile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, BinaryIO

    from tugtool.schemas import Issue, Report, StateImport, StatePrune, StateReconcile
    from tugtool.workflow.workspace import Workspace


#: Lines are short, and each write costs a system call.
AT_ONCE_BYTES = 1 << 16


def state_archive(call: Call) -> Answer:
    """Archive a plan, or bring it back."""
    space = call.workspace()
    undo, plan = call.flag("undo"), space.plan(call.text("plan"))
    data = state.archive(space.store, plan, undo=undo, actor=space.decider())
    again = "again" if data["changed"] else "as it was"
    before = "" if data["changed"] else " already"
    word = f"is {data['plan_status']} {again}" if undo else f"is archived{before}"
    return answer(data, f"{data['plan_path']} {word}")


def state_move(call: Call) -> Answer:
    """Move the record of a plan to the new name of its file."""
    space = call.workspace()
    data = records.move(space, call.text("plan") or "", call.text("to") or "")
    word = f"is {data['plan_path']} now" if data["changed"] else "has that name already"
    look = f"; its text has changed too: tugcode diff {plan_argument(data['plan_path'])}"
    said = f"{data['moved_from']} {word}{look if data['drift'] else ''}"
    return Answer(data, lambda: output.lines([said]), after=space.back_up)


def state_export(call: Call) -> Answer | Stream:
    """Write the state as JSON lines."""
    space = call.workspace()
    plan = space.plan_or_all(call.text("plan"))
    if not space.store.exists():
        raise PlanNotInitialised(None)
    lines, held = state.export(space.store, plan), exports.held_in_export(space, plan)
    more = _transcripts(space, plan) if call.flag("with_transcripts") else iter(())
    given = call.text("output")
    if given is not None:
        return _to_file(call, given, lines, more, held)

    def ended() -> int:
        output.print_issues(held)
        return 0

    return Stream(_together(chain(lines, more)), ended)


def _transcripts(space: Workspace, plan: str | None) -> Iterator[str]:
    plans = list(record.plans(space.store)) if plan is None else [plan]
    return exports.written(space.repo, plans)


#: The formats of a report, by the ending of the file.
FORMATS = ("text", "md", "html", "json")
_ENDINGS = {".txt": "text", ".md": "md", ".html": "html", ".htm": "html", ".json": "json"}
#: The width of a text in a file.
_FILE_WIDTH = 80


def report(call: Call) -> Answer:
    """Report on a plan, on standard output or in a new file."""
    from tugtool.workflow import report as reports

    output = call.text("output")
    format = call.text("format") or _ENDINGS.get(os.path.splitext(output or "")[1], "text")
    if call.json and call.text("format") not in (None, "json") and output is None:
        problem = f"--json prints the data; --format {format} goes with --output FILE then"
        raise Usage(problem, command="report")
    space = call.workspace()
    name = call.text("plan")
    latest = reports.latest_done(space) if name is None else None
    data = reports.gather(space, latest or space.plan(name))
    root = space.repo.root
    if output is None:
        return Answer(data, lambda: render(data, format, root=root))
    path = os.path.join(call.cwd, output)
    whole = render(data, format, root=root, width=_FILE_WIDTH).encode(errors="replace")
    if not output or not files.create(path, [whole]):
        raise Unwritable(output or '""', reason="something is there already, and stays")
    written: Any = {**data, "written_to": path}
    return answer(written, f"wrote the report of {data['slug']} to {output}")


def render(data: Report, format: str, *, root: str, width: int | None = None) -> str:
    """The report in one of the formats; text for standard output or a given width."""
    if format == "json":
        return text.encode(data) + "\n"
    from tugtool.cli.draw import canvas as canvases
    from tugtool.cli.draw import document
    from tugtool.cli.draw.report import Story

    story = Story(data, root=root, brief=format == "text", titled=format == "html")
    if format == "md":
        return document.write_markdown(story.document())
    if format == "html":
        return document.write_html(story.document())
    canvas = canvases.for_output() if width is None else canvases.Canvas(width)
    document.write_text(canvas, story.document())
    return canvas.text()


def _to_file(
    call: Call, output: str, lines: Iterator[str], more: Iterator[str], issues: list[Issue]
) -> Answer:
    path = os.path.join(call.cwd, output)
    counts = [0, 0]

    def counted() -> Iterator[bytes]:
        for place, part in enumerate((lines, more)):
            for line in part:
                counts[place] += 1
                yield line.encode()

    if not output or not files.create(path, counted()):
        raise Unwritable(output or '""', reason="something is there already, and stays")
    files.sync_directory(os.path.dirname(path))
    # The first and the last line are not rows, and the last not a transcript.
    data = {"exported_to": path, "rows": counts[0] - 2, "transcripts": max(0, counts[1] - 1)}
    with_them = f" and {many(data['transcripts'], 'transcript')}" if counts[1] else ""
    return answer(data, f"exported {data['rows']} rows{with_them} to {output}", issues)


def _together(lines: Iterable[str]) -> Iterator[str]:
    parts: list[str] = []
    size = 0
    for line in lines:
        parts.append(line)
        size += len(line)
        if size >= AT_ONCE_BYTES:
            yield "".join(parts)
            parts, size = [], 0
    yield "".join(parts)


def state_import(call: Call) -> Answer:
    """Read an export into the state."""
    space = call.workspace()
    given = call.text("file")
    if given is None:
        if sys.stdin is None or sys.stdin.isatty():
            raise Usage("nothing to import: name a FILE, or pipe one in", command="state import")
        data, held = _imported(call, space, sys.stdin.buffer, name="standard input")
    else:
        with files.opened(os.path.join(call.cwd, given), name=given) as file:
            data, held = _imported(call, space, file, name=given)
    text = "".join(f"imported {clean(plan)}\n" for plan in data["plans"]) or "nothing\n"
    return answer(data, lambda: text, held, after=space.back_up)


def _imported(
    call: Call, space: Workspace, source: BinaryIO, *, name: str
) -> tuple[StateImport, list[Issue]]:
    if call.flag("create_database"):
        from tugtool.workflow import shared_record

        shared_record.make_tables(space)
    try:
        return exports.import_(space, source, name=name)
    except DatabaseUnavailable as error:
        if (error.hint or "").endswith("--create-database"):
            # A plan that `state init` recorded there would be in the way.
            error.hint = "tugcode state import FILE --create-database"
        raise


def state_prune(call: Call) -> Answer:
    """Drop the records of plans without a file."""
    data = records.prune(call.workspace(), done=call.flag("done"), dry_run=call.flag("dry_run"))
    return Answer(data, lambda: output.lines(_format_prune(data)))


def _format_prune(data: StatePrune) -> Iterator[str]:
    word = "would prune" if data["dry_run"] else "pruned"
    for each in data["pruned"]:
        yield f"{word} {each['plan_path']}: {each['reason']}"
    for each in data["kept"]:
        yield f"kept {each['plan_path']}: {each['reason']}"
    if data["exported_to"]:
        yield f"what was pruned is in {data['exported_to']}; tugcode import takes it back"
    if not data["pruned"] and not data["kept"]:
        yield "no plan has a state"


#: The most entries in text; JSON has all.
MOST_SHOWN = 20


def state_reconcile(call: Call) -> Answer:
    """Complete the steps whose commits git has."""
    space = call.workspace()
    data = reconcile.reconcile(
        space.repo,
        space.store,
        space.plan(call.text("plan")),
        force=call.flag("force"),
        dry_run=call.flag("dry_run"),
        actor=space.owner,
    )
    after = None if data["dry_run"] else space.back_up
    return Answer(data, lambda: output.lines(_lines(data)), after=after)


def _lines(data: StateReconcile) -> list[str]:
    would = "would be " if data["dry_run"] else ""
    done = [
        f"  {each['step_anchor']}: {each['commit_hash']} (was {each['was']})"
        for each in data["reconciled"]
    ]
    kept = [
        f"  {each['step_anchor']}: recorded {each['db_hash']}, git has {each['git_hash']}"
        for each in data["skipped_mismatches"]
    ]
    passed = [
        f"  {each['commit_hash'][:12]} {each['step_anchor'] or '-'}: {each['detail']}"
        for each in data["ignored"]
    ]
    read, steps = data["commits_read"], data["reconciled_count"]
    head = f"{data['plan_path']}: {many(read, 'commit')} read"
    return [
        f"{head}, {many(steps, 'step')} {would}reconciled",
        *_first_lines(done),
        *([f"{data['skipped_count']} kept as recorded", *_first_lines(kept)] if kept else []),
        *([f"{len(passed)} passed over", *_first_lines(passed)] if passed else []),
    ]


def _first_lines(lines: list[str]) -> list[str]:
    rest = len(lines) - MOST_SHOWN
    return [*lines[:MOST_SHOWN], *([f"  and {rest} more (--json lists all)"] if rest > 0 else [])]


COMMANDS = (
    Command(
        "report",
        report,
        """\
Shows the purpose and the result of each step; the proof of each checkpoint; deferred items and
their judgement; failures and repairs; what waits for you; a timeline. It reads only the record,
at one moment, and works for a plan that is active, done, merged or archived. The first three
lines say whether it is done, how much is proved, and what waits. `text` is for a terminal, `md`
for a pull request, `html` is one file without scripts, `json` is the data; --json puts the data
into the envelope. Changes nothing.""",
        (
            ANY_PLAN,
            Option(
                "--format FORMAT",
                "text, md, html or json (default: by the ending of --output, else text)",
                choices=FORMATS,
            ),
            Option("--output FILE", "write to a new file instead"),
            WORKTREE,
        ),
        examples="""\
tugcode report parser  # for the terminal
tugcode report parser --format md | gh pr create --body-file -  # into a pull request
tugcode report parser --output report.html  # one file to forward
tugcode report parser --json  # for a program""",
    ),
    Command(
        "state archive",
        state_archive,
        """\
Lists of all plans leave it out, and workers get no steps of it. A plan with a live claim is
refused.""",
        (ANY_PLAN, Option("--undo", "bring it back"), WORKTREE),
        examples="""\
tugcode archive parser  # hide it
tugcode archive parser --undo  # show it again""",
    ),
    Command(
        "state move",
        state_move,
        """\
For use after `git mv`. Steps, claims, worktrees and the log stay as they are, and commits under
both names count. Refuses while a process carries the plan out. Does not touch files.""",
        (
            Argument("plan", "the recorded plan: its old path or name"),
            Argument("to", "the new plan file"),
            WORKTREE,
        ),
        examples="tugcode move parser lexer  # after git mv",
    ),
    Command(
        "state prune",
        state_prune,
        """\
Drops plans whose file is on no branch, local or remote-tracking, and in no worktree. It keeps
plans with a live claim, or with a worktree on another machine. It first exports the records to a
file in git's directory, from which `state import` brings them back.""",
        (
            Option("--done", "also plans whose steps are all completed"),
            Option("--dry-run", "change nothing; list the plans"),
            WORKTREE,
        ),
        examples="""\
tugcode prune --dry-run  # which plans?
tugcode prune --done  # tidy up""",
    ),
    Command(
        "state export",
        state_export,
        """\
Writes the whole record at one moment: a header, one line per row, and a last line with the
number of rows. The same with --json. `state import` reads it back. A warning names the steps that
are held: their workers go on, and that is not in the export. What agents were given and printed is
not in it, unless you ask: read it before you pass it on.""",
        (
            EVERY_PLAN,
            Option("--output FILE", "write to a new file instead"),
            Option("--with-transcripts", "also what agents here were given and printed"),
            WORKTREE,
        ),
        examples="""\
tugcode export --output state.jsonl  # keep everything
tugcode export parser  # one plan, to standard output""",
    ),
    Command(
        "state import",
        state_import,
        """\
Imports all of it or nothing: a file that is cut off or has an impossible row is refused with
its line, and so is a plan that has a state here already. A warning names the steps that are held:
their workers go on in the state that the export is from.""",
        (
            Argument("[file]", "the export (default: standard input)"),
            Option("--create-database", "first make the tables of this repository in PostgreSQL"),
            WORKTREE,
        ),
        examples="""\
tugcode import state.jsonl  # bring it back
tugcode import state.jsonl --create-database  # move it into a new database""",
    ),
    Command(
        "state reconcile",
        state_reconcile,
        """\
Reads the trailers of the commits on the plan's branches and the base branch since the plan's
base, and completes their steps with the commit's hash. Reverted commits do not count; open items
are closed with the reason `reconciled`, deferred ones stay deferred. If the record names another
commit, it stays and is listed. Use it after you lost the database, or after a crash between a
commit and its step.""",
        (
            ANY_PLAN,
            Option(
                "--force",
                "git wins: replace recorded commits, and count work done for another text",
            ),
            Option("--dry-run", "change nothing; list the steps"),
            WORKTREE,
        ),
        examples="""\
tugcode reconcile parser --dry-run  # which steps?
tugcode reconcile parser  # complete it""",
    ),
)
