"""The picture of a plan: a header, one line for each step, and what needs a person."""

from __future__ import annotations

from tugtool.cli.draw.canvas import (
    COUNTED,
    FIRM,
    STANDINGS,
    Fold,
    cells,
    local,
    percent,
    step_number,
)
from tugtool.cli.draw.events import evidence_lines, short_commit
from tugtool.cli.draw.status import paused, write_needs, write_run, write_stop
from tugtool.errors import merge_command, plan_argument, plan_name
from tugtool.state.standings import standing_below, standing_of
from tugtool.system import clock
from tugtool.system.clock import duration
from tugtool.system.files import short_name
from tugtool.system.text import many
from tugtool.workflow import sentences

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from tugtool.cli.draw.canvas import Canvas, Span

    # Answers are plain JSON values; their shapes are the schemas of the package.
    Data = Mapping[str, Any]


_BAR = 12
#: On a terminal, the most dependencies or open items that are named; others are counted.
_MOST_NAMES, _MOST_ITEMS = 4, 5
#: A plan with more steps is folded; an item with a longer text is cut.
_LONG, _LONG_TEXT = 24, 100
#: Columns for the facts about a step.
_TOLD = 34
#: A narrower terminal gets no columns.
_NARROW = 60
#: Standing -> the name of its sign, if that is another.
_SIGNS = {"at_work": "work", "blocked": "waits"}
_KINDS = {"task": "tasks", "test": "tests", "checkpoint": "checkpoints"}
_BOXES = {"completed": "[x]", "deferred": "[~]"}
_BOX_STYLES = {"completed": "done", "deferred": "you", "in_progress": "work", "open": ""}


class View:
    """The options of a picture."""

    def __init__(
        self, *, root: str = "", every_item: bool = False, times: bool = True, live: bool = False
    ) -> None:
        #: The repository, for short names of worktrees.
        self.root = root
        self.every_item = every_item
        #: Show durations or not; the picture stays on a screen or not.
        self.times, self.live = times, live
        #: Whether a merge has to be pushed.
        self.push = False


def stand(step: Data) -> str:
    """The name of the sign for a step."""
    return sign_of(standing_of(step))


def sign_of(standing: str) -> str:
    """The name of the sign for a standing."""
    return _SIGNS.get(standing, standing)


def draw(
    canvas: Canvas, plan: Data, look: View, warning: Sequence[str] = (), fold: Fold | None = None
) -> None:
    """Draw one plan: progress, steps, what waits for you, and the next command."""
    head(canvas, plan, look, warning)
    canvas.write()
    drawer = Drawer(canvas, plan, look)
    fold = fold or Fold(0)
    for entry in fold.entries(plan["steps"], [stand(step) for step in plan["steps"]]):
        if isinstance(entry, str):
            canvas.write(("dim", f"  {canvas.glyphs.more} {entry}"), hang=4)
        else:
            drawer.step(entry, 2, stand(entry), detailed=fold.details)
    _foot(canvas, plan, look)


def folded(canvas: Canvas, plan: Data, look: View, *, every_step: bool = False) -> Fold | None:
    """The fold for a long plan on a terminal; a file has every step."""
    if not canvas.bounded or every_step or look.every_item or len(plan["steps"]) <= _LONG:
        return None
    standings = [stand(step) for step in plan["steps"]]
    folds = [Fold(level, " (--all shows them)") for level in range(1, 5)]
    return next((fold for fold in folds if sum(fold.shown(standings)) <= _LONG), folds[-1])


def head(canvas: Canvas, plan: Data, look: View, warning: Sequence[str] = ()) -> None:
    """Draw the header: name, progress and warnings."""
    said = ("dim", "  archived") if plan["status"] == "archived" else None
    said = ("you", f"  {paused(canvas, plan)}") if plan["paused_at"] else said
    if "unpushed_merge" in plan:
        said = ("you", f"  {canvas.said(sentences.unpushed(plan['unpushed_merge']))}")
    title = canvas.said(plan["phase_title"] or "")
    name = canvas.said(plan_name(plan["plan_path"]))
    canvas.write(("bold", name), ("", f"  {title}"), *([said] if said else []), hang=2)
    done, total = plan["completed_steps"], plan["total_steps"]
    far = f" {done}/{total} {'step' if total == 1 else 'steps'} {percent(done, total)}%"
    bar = canvas.bar(done, total, _BAR)
    canvas.facts(*_spent(plan, look), *_counts(plan), lead=[*bar, ("bold", far), ("", "  ")])
    for line in warning:
        lead = "! " if line is warning[0] else "  "
        canvas.write(("you", lead + line), hang=2)


def _spent(plan: Data, look: View) -> Iterator[Span]:
    if plan["elapsed_seconds"] is not None and look.times:
        yield "", duration(plan["elapsed_seconds"])
    if plan["tokens"] is not None:
        yield "", f"{plan['tokens']:,} tokens"
    if plan["cost_microdollars"] is not None:
        yield "", f"${plan['cost_microdollars'] / 1_000_000:.2f}"


def _counts(plan: Data) -> Iterator[Span]:
    """The numbers of open steps by standing, and of deferred items."""
    counts: dict[str, int] = {}
    put_off = 0
    for step in plan["steps"]:
        counts[stand(step)] = counts.get(stand(step), 0) + 1
        put_off += sum(each["deferred"] for each in step["rolled_up"].values())
    for standing, word in COUNTED.items():
        if standing in counts:
            yield STANDINGS[standing], f"{counts[standing]} {word}"
    if put_off:
        yield "you", f"{many(put_off, 'item')} deferred"


def one_line(canvas: Canvas, plan: Data) -> None:
    """One plan in a line: its progress and name."""
    done, total = plan["completed_steps"], plan["total_steps"]
    far = f"{done}/{total} {percent(done, total)}%  "
    style = "done" if done == total else "work"
    canvas.write_cut((style, far), ("", canvas.said(plan_name(plan["plan_path"]))))


class Drawer:
    """Draws the steps of one plan in aligned columns."""

    def __init__(self, canvas: Canvas, plan: Data, look: View) -> None:
        self.canvas, self.look, self.now = canvas, look, plan["as_of"]
        #: Step -> kind -> its items.
        self.items: dict[str, dict[str, list[Data]]] = {}
        for item in plan["checklist_items"]:
            kinds = self.items.setdefault(item["step_anchor"], {})
            kinds.setdefault(item["kind"], []).append(item)
        self.numbers = max((len(step_number(step["anchor"])) for step in plan["steps"]), default=1)
        titles = max((cells(canvas.said(step["title"])) for step in plan["steps"]), default=0)
        #: The width of titles; none: the facts of a step go on their own line.
        most = min(canvas.width * 2 // 3, canvas.width - _TOLD) - self.numbers - 8
        most = _NARROW if not canvas.bounded else most if canvas.width >= _NARROW else 0
        self.titles = min(titles, most)
        #: True if nothing is cut.
        self.whole = look.every_item or not canvas.bounded

    def step(self, step: Data, indent: int, standing: str, *, detailed: bool = True) -> None:
        """Draw the line of a step; below it the open items, if it is at work."""
        canvas = self.canvas
        name = canvas.said(step_number(step["anchor"]))
        lead = f"{name:<{self.numbers}}  "
        inner = indent + 2 + cells(lead)
        told = list(self._facts(step, standing))
        spans = [("", " " * indent), canvas.sign(standing), ("dim", f" {lead}")]
        style = "bold" if standing in ("work", "question", "stale", "parked") else ""
        self._line(spans, (style, canvas.said(step["title"])), told, inner)
        if self.look.every_item or detailed:
            self._details(step, inner, standing)

    def _line(self, lead: list[Span], title: Span, told: list[Span], inner: int) -> None:
        canvas, (style, text) = self.canvas, title
        if not self.titles:
            broad = sum(cells(each) for _, each in told) + 3 * len(told)
            beside, column = inner + cells(text) + broad <= canvas.width, 0
        else:
            room = self.titles if told else canvas.width - inner
            text = text if self.whole else canvas.cut(text, room)
            beside, column = cells(text) <= self.titles or not canvas.bounded, self.titles
        if told and beside:
            gap = " " * (column - cells(text)) + "  "
            hang = inner + column + 2
            canvas.facts(*told, lead=[*lead, (style, text), ("", gap)], hang=hang)
            return
        room = canvas.width - inner
        canvas.write(*lead, (style, text if self.whole else canvas.cut(text, room)), hang=inner)
        if told:
            canvas.facts(*told, lead=[("", " " * inner)], hang=inner)

    def _facts(self, step: Data, standing: str) -> Iterator[Span]:
        """The facts of a step: commit, role, worker, reason, or the steps it waits for."""
        style = STANDINGS[standing]
        if standing in ("completed", "deferred"):
            yield from self._result(step)
        elif standing in ("work", "question", "stale"):
            if step["parent_anchor"] is None:
                yield from self._holder(step, standing)
        elif standing == "parked":
            yield style, "waits for you"
        elif standing == "waits":
            yield from self._waits(step)
        elif standing == "ready" and step["parent_anchor"] is None:
            yield style, "ready"

    def _waits(self, step: Data) -> Iterator[Span]:
        if step["waiting_for"]:
            yield STANDINGS["waits"], f"waits for {self._names(step['waiting_for'])}"
        if "waiting_for_publish" in step:
            yield "you", f"waits for publish of {self._names(step['waiting_for_publish'])}"

    def _result(self, step: Data) -> Iterator[Span]:
        if step["commit_hash"]:
            yield "dim", short_commit(self.canvas.said(step["commit_hash"]))
        if "unpublished" in step:
            yield "you", "unpublished"
        machine, elsewhere, _ = (step["completed_by"] or "").partition(":/")
        if elsewhere and "/" not in machine and step["parent_anchor"] is None:
            yield "dim", f"on {self.canvas.said(machine)}"
        if step["attempts"] and step["completed_at"]:
            begun = step["attempts"][-1]["claimed_at"]
            yield "dim", duration(clock.seconds_between(begun, step["completed_at"]))
        put_off = sum(counts["deferred"] for counts in step["rolled_up"].values())
        if put_off and step["parent_anchor"] is None:
            yield "you", f"{many(put_off, 'item')} deferred"
        if step["complete_reason"]:
            # Show it however old it is.
            yield "you", f"forced: {self.canvas.said(step['complete_reason'])}"

    def _holder(self, step: Data, standing: str) -> Iterator[Span]:
        style = STANDINGS[standing]
        if standing == "stale":
            yield style, self._stale(step)
        elif standing == "question":
            yield style, "a question waits for you"
        else:
            since = step["role_since"] or step["claimed_at"]
            ago = f" {duration(clock.seconds_between(since, self.now))}" if self.look.times else ""
            yield style, f"{self.canvas.said(step['role'] or 'at work')}{ago}"
        yield "", self.canvas.said(short_name(step["claimed_by"], self.look.root))
        if step["attempt"] > 1:
            yield "", f"attempt {step['attempt']}"
        if step["parked_at"]:
            yield "you", "last attempt"

    def _stale(self, step: Data) -> str:
        if step["holder_gone"]:
            return f"stale: its process {step['attempts'][-1]['holder_pid']} is gone"
        ago = clock.seconds_between(step["lease_expires_at"], self.now)
        return f"stale: its lease ended {duration(ago)} ago" if self.look.times else "stale"

    def _names(self, anchors: Sequence[str]) -> str:
        most = _MOST_NAMES if self.canvas.bounded else len(anchors)
        rest = len(anchors) - most
        # Naming one more takes no more room than counting it.
        shown = anchors if rest <= 1 else anchors[:most]
        more = f" and {rest} more" if rest > 1 else ""
        return ", ".join(self.canvas.said(step_number(each)) for each in shown) + more

    def _details(self, step: Data, inner: int, standing: str) -> None:
        at_work = standing in ("work", "question")
        why = {"parked": step["park_reason"] or "no reason was given", "question": step["question"]}
        if standing in why:
            self.canvas.write(("you", " " * inner + self.canvas.said(why[standing])), hang=inner)
        if at_work and step["parent_anchor"] is None:
            self._progress(step, inner)
        if self.look.every_item:
            self._checklist(step, inner)
        else:
            self._items(step, inner, at_work=at_work)
        if at_work or self.look.every_item:
            for substep in step["substeps"]:
                below = standing_below(substep, standing_of(step))
                self.step(substep, inner, sign_of(below))
        if self.look.every_item:
            self._notes(step, inner)

    def _progress(self, step: Data, inner: int) -> None:
        """The completed items, kind by kind, and the end of the lease."""
        every = [(kind, each) for kind, each in step["rolled_up"].items() if sum(each.values())]
        facts: list[Span] = [("dim", _progress(kind, counts)) for kind, counts in every]
        if self.look.times and step["role"] is None:
            left = clock.seconds_between(self.now, step["lease_expires_at"])
            facts.append(("dim", f"lease {duration(left)}"))
        self.canvas.facts(*facts, lead=[("", " " * inner)], hang=inner)

    def _items(self, step: Data, inner: int, *, at_work: bool) -> None:
        """Draw the open items of a step at work, or the items that wait for a person."""
        wanted = ("open", "in_progress", "deferred") if at_work else ("deferred",)
        # Only a step at work has lines for its substeps.
        below = () if at_work else step["substeps"]
        family = [self.items.get(each["anchor"], {}) for each in (step, *below)]
        every = [item for kinds in family for kind in _KINDS for item in kinds.get(kind, ())]
        found = [item for item in every if item["status"] in wanted]
        most = _MOST_ITEMS if self.canvas.bounded else len(found)
        shown = found if len(found) <= most + 1 else found[:most]
        for item in shown:
            self._item(step, item, inner)
        if len(shown) < len(found):
            more = f"{self.canvas.glyphs.more} {len(found) - len(shown)} more (--checklist)"
            self.canvas.write(("dim", " " * inner + more), hang=inner)

    def _checklist(self, step: Data, inner: int) -> None:
        """Draw every item, kind by kind."""
        every = self.items.get(step["anchor"], {})
        for kind, counts in step["counts"].items():
            if kind in every:
                self.canvas.write(("dim", f"{' ' * inner}{_progress(kind, counts)}"))
                for item in every[kind]:
                    self._item(step, item, inner + 2)

    def _item(self, step: Data, item: Data, inner: int) -> None:
        canvas, status = self.canvas, item["status"]
        lead = f"{' ' * inner}{_BOXES.get(status, '[ ]')} "
        text, tail = canvas.said(item["text"]), _tail(canvas, step, item)
        if not self.whole:
            # Cut long texts here; --checklist has all of them.
            most = max(2 * (canvas.width - len(lead)), _LONG_TEXT)
            text, tail = canvas.cut(text, most), canvas.cut(tail, most)
        style = _BOX_STYLES[status]
        words = "bold" if status == "in_progress" else "dim" if status == "completed" else ""
        canvas.write((style, lead), (words, text), (style, tail), hang=len(lead))
        if self.look.every_item and item["evidence"]:
            for look, line in evidence_lines(item["evidence"]):
                canvas.write((look, f"{' ' * len(lead)}{canvas.said(line)}"), hang=len(lead) + 2)

    def _notes(self, step: Data, inner: int) -> None:
        """Draw the notes about a step; results of verification stand with the items."""
        for note in [each for each in step["artifacts"] if each["kind"] != "verification"]:
            kind, at = note["kind"].replace("_", " "), local(note["recorded_at"])
            said = f"{kind}, {at}: {self.canvas.said(note['summary'])}"
            self.canvas.write(("dim", " " * inner + said), hang=inner + 2)


def _tail(canvas: Canvas, step: Data, item: Data) -> str:
    """The text behind an item: at work, or the reason why it was deferred or closed."""
    if item["status"] == "in_progress":
        return f"  {canvas.glyphs.back}{FIRM}in_progress"
    reason = item["reason"] if item["reason"] != step["complete_reason"] else None
    return f"  ({canvas.said(reason)})" if reason else ""


def _progress(kind: str, counts: Data) -> str:
    """`3/7 tasks`, and the number of deferred ones."""
    put_off = f" +{counts['deferred']} deferred" if counts["deferred"] else ""
    return f"{counts['completed']}/{sum(counts.values())} {_KINDS[kind]}{put_off}"


def needs(plan: Data) -> Iterator[tuple[str, int, str]]:
    """The things that wait for a person: a key of NEEDS, a number and the command."""
    name = plan_argument(plan["plan_path"])
    standings = [stand(step) for step in plan["steps"]]
    put_off = sum(item["status"] == "deferred" for item in plan["checklist_items"])
    died = plan["status"] == "active" and (plan["last_run"] or {}).get("status") == "died"
    live = plan["run_since"] or not {"work", "question"}.isdisjoint(standings)
    for what, count, command in (
        ("run_died", int(died and not live), "implement"),
        ("question", standings.count("question"), "review"),
        ("parked", standings.count("parked"), "review"),
        ("deferred", put_off, "review"),
        ("paused", int(plan["paused_at"] is not None), "resume"),
    ):
        if count and plan["status"] != "archived":
            yield what, count, f"tugcode {command} {name}"


def next_command(plan: Data, *, push: bool = False) -> str | None:
    """The next command if nothing waits for a person; `push`: commits travel by a remote."""
    name = plan_argument(plan["plan_path"])
    standings = {stand(step) for step in plan["steps"]}
    if plan["status"] == "archived":
        return None
    if plan["status"] == "done":
        work = any(step["commit_hash"] for step in plan["steps"])
        merged = plan["merged_commit"] and "unpushed_merge" not in plan
        return merge_command(plan["plan_path"], push=push) if work and not merged else None
    return f"tugcode show {name} --watch" if "work" in standings else f"tugcode implement {name}"


def _foot(canvas: Canvas, plan: Data, look: View) -> None:
    canvas.write()
    found = list(needs(plan))
    if found:
        write_needs(canvas, found)
    run = plan["last_run"]
    at_work = any(stand(step) in ("work", "question") for step in plan["steps"])
    if plan["run_since"]:
        write_run(canvas, plan["run_since"])
    elif run is not None and plan["status"] == "active" and not at_work:
        write_stop(canvas, run)
    then = next_command(plan, push=look.push)
    if then and not found and not look.live:
        canvas.next(then)
    if look.times and not look.live:
        canvas.write(("dim", f"As of {local(plan['as_of'])}"))
