"""state show and log."""

from __future__ import annotations

import time

from tugtool import state
from tugtool.cli import output
from tugtool.cli.output import Answer, Stream, answer
from tugtool.cli.parse import EVERY_PLAN, WORKTREE, Argument, Call, Command, Option
from tugtool.errors import Usage, plan_argument, quoted
from tugtool.errors.state import DatabaseUnavailable, PlanNotInitialised, QueryFailed
from tugtool.system import clock
from tugtool.workflow.overview import Viewer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tugtool.cli.draw.canvas import Canvas
    from tugtool.cli.draw.events import Log
    from tugtool.cli.draw.plan import View
    from tugtool.schemas import Issue, StateLog, StateLogEvent, StateShowPlan
    from tugtool.state.history import Reader
    from tugtool.workflow.overview import Snapshot
    from tugtool.workflow.workspace import Workspace


def state_show(call: Call) -> Answer | Stream:
    """Show the progress of a plan, once or live."""

    try:
        sight = PlanView(call)
        seen = sight.viewer.read()
    except PlanNotInitialised as error:
        if call.flag("watch") and call.text("plan"):
            # A person who wants to watch wants a run.
            error.hint = f"tugcode implement {quoted(call.text('plan') or '')}"
        raise
    if not call.flag("watch"):
        return sight.answer(seen)
    from tugtool.cli.draw import live

    return live.stream(sight, seen, as_json=call.json)


#: The length of a hash in text.
_SHOWN_OF_HASH = 12


class PlanView:
    """One plan or all of them, and the requested picture."""

    def __init__(self, call: Call) -> None:
        if call.flag("summary") and call.flag("checklist"):
            raise Usage("--summary and --checklist exclude each other", command=call.path)
        if call.text("step") is not None and call.text("plan") is None:
            raise Usage("--step goes with a plan", command=call.path)
        space = call.workspace()
        plan = space.plan_or_all(call.text("plan"))
        how = {"archived": call.flag("all"), "full": call.flag("full")}
        self.viewer = Viewer(space, plan, step=call.anchor(), **how)
        self.every_item, self.every_step = call.flag("checklist"), call.flag("all")

    def answer(self, seen: Snapshot) -> Answer:
        """The answer: data for programs, a picture for people."""
        return Answer(seen.data, lambda: self.text(seen), issues=seen.issues())

    def text(self, seen: Snapshot) -> str:
        """The picture for the current standard output."""
        from tugtool.cli.draw import canvas as canvases
        from tugtool.workflow import trust  # People are told; programs meet E110.

        space = self.viewer.space
        if any(plan["status"] == "active" for plan in seen.plans):
            output.print_issues(trust.notices(space.repo.root, space.settings))
        canvas = canvases.for_output()
        self.draw(canvas, seen, self.wanted())
        return canvas.text()

    def draw(self, canvas: Canvas, seen: Snapshot, look: View) -> None:
        """Draw all plans, one below the other; on a terminal, fold long ones."""
        from tugtool.cli.draw import plan as draw_plan

        for place, plan in enumerate(seen.plans):
            if place:
                canvas.write()
            fold = draw_plan.folded(canvas, plan, look, every_step=self.every_step)
            draw_plan.draw(canvas, plan, look, warning(seen, plan), fold)
        if not seen.plans:
            canvas.write(("", self.nothing()), hang=2)

    def nothing(self) -> str:
        """The text if there is no plan to show."""
        if self.viewer.archived or not self.viewer.space.store.exists():
            return "no plan has a state yet"
        return "no plan to show; archived ones: tugcode show --all"

    def wanted(self, *, times: bool = True, live: bool = False) -> View:
        """The requested picture."""
        from tugtool.cli.draw.plan import View

        root = self.viewer.space.repo.root
        view = View(root=root, every_item=self.every_item, times=times, live=live)
        view.push = self.viewer.space.settings.is_set("remote.name")
        return view


def warning(seen: Snapshot, plan: StateShowPlan) -> list[str]:
    """The warning about a changed plan file, with short hashes."""
    if plan["plan_path"] not in seen.changed:
        return []
    now = seen.changed[plan["plan_path"]]
    look = f"What differs: tugcode diff {plan_argument(plan['plan_path'])}"
    from tugtool.workflow.sentences import drift

    return [*drift(_shortened(plan["plan_hash"]), now and _shortened(now)), look]


def _shortened(hash: str) -> str:
    return f"{hash[:_SHOWN_OF_HASH]}..."


#: The longest sleep of --follow between two looks; its sleep while there is no database; and the
#: number of looks at a file that is not a database.
LONGEST_NAP_SECONDS = 1.0
RETRY_SECONDS = 0.25
MOST_TRIES = 4

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
#: A time may end after the year, month, day, hour, minute or second.
_EARLIEST = "0001-01-01T00:00:00.000"
_UNFINISHED = (4, 7, 10, 13, 16, 19, 23)


def state_log(call: Call) -> Answer | Stream:
    """List events; with --follow also new ones."""
    from tugtool.state.history import Reader

    since, limit = _since(call.text("since")), call.number("limit")
    space = call.workspace()
    step = call.anchor() or None
    find = space.plan_or_all if step is None else space.plan
    plan = find(call.text("plan"))
    reader = Reader(plan, step=step, since=since, limit=limit)
    if call.flag("follow"):
        return Stream(_followed(space, reader))
    if not call.json:
        return Stream(_lines(space, reader, every=call.flag("all")))
    if not space.store.exists():
        return Answer(_events(reader, []), lambda: "")
    data = state.log(space.store, plan, step=step, since=since, limit=limit)
    _name_transcripts(space, data["events"])
    return Answer(data, lambda: "")


def _since(text: str | None) -> str | float | None:
    """A time in the form of the state, or an age in seconds."""
    if text is None:
        return None
    number, unit = text[:-1], text[-1:]
    if unit in _UNITS and number.isascii() and number.isdecimal() and len(number) <= 12:
        return float(int(number) * _UNITS[unit])
    given = text.removesuffix("Z")
    if text.isascii() and len(given) in _UNFINISHED:
        whole = f"{given}{_EARLIEST[len(given) :]}Z"
        try:
            # datetime accepts more forms than the state writes.
            if clock.text(clock.milliseconds(whole)) == whole:
                return whole
        except ValueError:
            pass
    forms = (
        "2026-02-23T12:00:00.000Z, its beginning such as 2026-02-23, or an age: 90s, 30m, 2h, 3d"
    )
    raise Usage(f'--since takes a time in UTC like {forms}; not "{text}"', command="state log")


def _events(reader: Reader, events: list[StateLogEvent]) -> StateLog:
    return {
        "plan_path": reader.plan,
        "step_anchor": reader.step,
        "since": reader.since if isinstance(reader.since, str) else None,
        "events": events,
    }


def _lines(space: Workspace, reader: Reader, *, every: bool) -> Iterator[str]:
    """The log in text, page by page, because it may be long."""
    if not space.store.exists():
        yield "nothing has happened yet\n"
        return
    log = _log(space, reader, every=every)
    events = reader.page(space.store)
    if not events:
        yield "nothing has happened\n"
    while events:
        _name_transcripts(space, events)
        for event in events:
            log.add(event)
        yield _taken(log)
        events = reader.page(space.store)
    log.end()
    yield _taken(log)


def _name_transcripts(space: Workspace, events: list[StateLogEvent]) -> None:
    from tugtool.workflow import transcripts

    transcripts.name_in_log(space.repo, events)


def _log(space: Workspace, reader: Reader, *, every: bool) -> Log:
    from tugtool.cli.draw import canvas, events

    several = reader.plan is None
    return events.Log(canvas.for_output(), root=space.repo.root, several=several, every=every)


def _taken(log: Log) -> str:
    """The lines written since the last call."""
    text = log.canvas.text()
    log.canvas.lines.clear()
    return text


def _followed(space: Workspace, reader: Reader) -> Iterator[Answer]:
    """One answer for each event while there is a reader. The database may come and go."""
    lost = known = not space.store.exists()
    tries = 0
    log = _log(space, reader, every=True)
    while output.listening():
        try:
            events = reader.page(space.store)
            lost, known = False, True
            if reader.went_back:
                yield _warning(reader, "events that were told are gone from the log: it goes on")
            _name_transcripts(space, events)
            for event in events:
                yield _event_lines(log, reader, event)
            if not events:
                space.store.wait_for_change(LONGEST_NAP_SECONDS)
        except (DatabaseUnavailable, QueryFailed) as error:
            tries += 1
            if not known and tries > MOST_TRIES:
                raise  # the file is there, is not just being made, and is not our database
            if known and not lost:
                yield _warning(reader, f"{error.message}; waiting for it")
            lost = known
            # A missing file sends no notice when it comes, so look again later.
            time.sleep(RETRY_SECONDS)


def _event_lines(log: Log, reader: Reader, event: StateLogEvent) -> Answer:
    def text() -> str:
        log.add(event)
        return _taken(log)

    return Answer(_events(reader, [event]), text)


def _warning(reader: Reader, message: str) -> Answer:
    issue: Issue = {"code": "W105", "severity": "warning", "message": message}
    return answer(_events(reader, []), lambda: "", [issue])


COMMANDS = (
    Command(
        "state show",
        state_show,
        "Shows a line for each step: its worker and time, its commit, or the reason why it waits; "
        "what waits for you, and the next command. --json has the whole record: steps, items, "
        "attempts, artifacts.",
        (
            Argument("[plan]", "the plan; all but archived ones if left out"),
            Option("--summary", "a line for each step, and open items of steps at work; default"),
            Option("--checklist", "every item with its evidence, and the notes of every step"),
            Option("--step ANCHOR", "only this step, with its substeps and items"),
            Option("--watch", "keep the picture up to date until q or Ctrl-C"),
            Option("--all", "every step of a long plan; archived plans too"),
            Option("--full", "with --json: the whole texts of artifacts too"),
            WORKTREE,
        ),
        examples="""\
tugcode show parser  # one plan
tugcode show parser --watch  # live, until you stop it
tugcode show parser --checklist  # completed, open and deferred items
tugcode show parser --step step-3 --json  # one step, for an agent's context
tugcode show --json  # everything""",
    ),
    Command(
        "state log",
        state_log,
        """\
Shows the important events of each day, in local time: claims, their results, and decisions of
people. The line of a result sums up the small events of its attempt (agents' answers, items).
--all has a line for each event, and so has --follow, which continues until it is stopped. --json
has every event; with --follow, one document per line. --since takes a time in UTC, its beginning,
or an age: 90s, 30m, 2h, 3d. The log of a step includes its substeps.""",
        (
            EVERY_PLAN,
            Option("--step ANCHOR", "only events of this step"),
            Option("--since TIME", "only events since then"),
            Option("--limit N", "only the last N events"),
            Option("--follow", "continue with new events"),
            Option("--all", "a line for each event"),
            WORKTREE,
        ),
        examples="""\
tugcode log parser  # all events
tugcode log parser --step step-3 --since 2h  # one step, the last two hours
tugcode log --follow --limit 10  # everything, as it happens""",
    ),
)
