"""How far a plan is, as lines for people; from the data of `state show` and nothing else."""

from __future__ import annotations

from tugtool import clock
from tugtool.cli.canvas import FIRM, cells
from tugtool.cli.naming import short_name
from tugtool.spans import duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from tugtool.cli.canvas import Canvas, Span

    # Answers are plain JSON values; their shapes are the schemas of the package.
    Data = Mapping[str, Any]

_KINDS = {"task": "Tasks:", "test": "Tests:", "checkpoint": "Checkpoints:"}
_LABEL = max(map(len, _KINDS.values())) + 1
_LONGEST_BAR, _SHORTEST_BAR = 12, 4
#: On a terminal: what a step waits for beyond these is only counted.
_MOST_NAMES = 6

#: How a step stands -> style of its mark, of its title, of its status and bars.
_LOOKS = {
    "done": ("done", "dim", "faded"),
    "work": ("working", "bold", "work"),
    "gone": ("alarming", "bold", "alarm"),
    "expired": ("alarming", "bold", "alarm"),
    "parked": ("warning", "bold", "warn"),
    "ready": ("bold", "", ""),
    "blocked": ("dim", "dim", "dim"),
}
#: The order and the words in which they are counted.
_WORDS = {
    "work": "at work",
    "gone": "abandoned",
    "expired": "expired",
    "parked": "parked",
    "ready": "ready",
    "blocked": "blocked",
}
_BOXES = {"completed": "[x]", "deferred": "[~]"}
_BOX_STYLES = {"completed": "done", "deferred": "warn", "in_progress": "working", "open": ""}


class Look:
    """What is wanted of a picture."""

    __slots__ = ("every_item", "leases", "root")

    def __init__(self, *, root: str = "", every_item: bool = False, leases: bool = True) -> None:
        #: The repository, to name worktrees shortly.
        self.root = root
        self.every_item = every_item
        #: Whether to say for how long claims still last, which changes by itself.
        self.leases = leases


def draw(canvas: Canvas, plan: Data, look: Look, warning: Sequence[str] = ()) -> None:
    """One plan: what to beware of, every step, and how far it is overall."""
    head(canvas, plan, warning)
    drawer = Drawer(canvas, plan, look)
    for step in plan["steps"]:
        canvas.write()
        drawer.step(step)
    canvas.write()
    overall(canvas, plan)


def head(canvas: Canvas, plan: Data, warning: Sequence[str] = ()) -> None:
    """Which plan this is, and what a person must know before reading on."""
    status = plan["status"] + (", paused" if plan["paused_at"] else "")
    style = {"active": "work", "done": "done"}.get(status, "warn")
    path = canvas.said(plan["plan_path"])
    canvas.write(("bold", f"Plan: {path} "), (style, f"[{status}]"), hang=6)
    if plan["phase_title"]:
        canvas.write(("", f"      {canvas.said(plan['phase_title'])}"), hang=6)
    if plan["paused_at"]:
        ago = duration(clock.seconds_between(plan["paused_at"], plan["as_of"]))
        canvas.write(("warn", f"      Paused {ago} ago: nothing new is claimed."), hang=6)
    mark = f"{canvas.glyphs.warning} "
    for number, line in enumerate(warning):
        lead = mark if number == 0 else " " * len(mark)
        canvas.write(("warning" if number == 0 else "warn", lead + line), hang=len(mark))


def overall(canvas: Canvas, plan: Data) -> None:
    """How many steps are complete, and how the others stand."""
    done, total = plan["completed_steps"], plan["total_steps"]
    full, _, empty = bar(canvas, done, 0, total, _LONGEST_BAR)
    said = f"Overall: {done}/{total} steps complete ({percent(done, total)}%)"
    style = "done" if done == total else "work"
    canvas.write(("bold", said), ("", "  "), (style, full), ("dim", empty), hang=9)
    numbers = _numbers(plan)
    parts: list[Span] = [("", " " * 9)]
    for number, word, look in numbers:
        parts += [("dim", canvas.glyphs.dot)] if len(parts) > 1 else []
        parts.append((look, f"{number} {word}".replace(" ", FIRM)))
    if numbers:
        canvas.write(*parts, hang=9)


def one_line(canvas: Canvas, plan: Data) -> None:
    """A plan of many: its name and how far it is."""
    done, total = plan["completed_steps"], plan["total_steps"]
    style = "done" if done == total else "work"
    far = f"{done}/{total} ({percent(done, total)}%) "
    canvas.write_cut((style, far), ("", f"{canvas.said(plan['plan_path'])} [{plan['status']}]"))


def _numbers(plan: Data) -> list[tuple[int, str, str]]:
    counts: dict[str, int] = {}
    deferred = 0
    for step in plan["steps"]:
        counts[stand(step)] = counts.get(stand(step), 0) + 1
        deferred += sum(count["deferred"] for count in step["rolled_up"].values())
    found = [(counts[key], word, _LOOKS[key][2]) for key, word in _WORDS.items() if key in counts]
    items = "item deferred" if deferred == 1 else "items deferred"
    return [*found, (deferred, items, "warn")] if deferred else found


def stand(step: Data) -> str:
    """How a step stands, in one word: a key of the table of looks."""
    if step["status"] == "completed":
        return "done"
    lost = "gone" if step["holder_gone"] else "expired" if step["lease_expired"] else ""
    if step["claimed_by"] and not lost:
        # Also on the last attempt before it would be handed out no more.
        return "work"
    if step["parked_at"]:
        return "parked"
    return lost or ("blocked" if step["waiting_for"] else "ready")


class Drawer:
    """Draws the steps of one plan, so that their bars stand below each other."""

    def __init__(self, canvas: Canvas, plan: Data, look: Look) -> None:
        self.canvas, self.look, self.now = canvas, look, plan["as_of"]
        self.items: dict[tuple[str, str], list[Data]] = {}
        for item in plan["checklist_items"]:
            self.items.setdefault((item["step_anchor"], item["kind"]), []).append(item)
        self.mark = max(cells(canvas.glyphs.work), 1)
        steps = [each for step in plan["steps"] for each in (step, *step["substeps"])]
        numbers = [_fraction(count) for step in steps for count in step["rolled_up"].values()]
        self.column = max(map(len, numbers), default=0)
        #: What is left for a bar beside everything else; no bar is better than a stump.
        used = self.mark + 1 + _LABEL + self.column + 2 + len(" 100%")
        self.room = canvas.width - used - (self.mark + 1 if any(plan["steps"]) else 0)

    def _length(self, taken: int) -> int:
        """How long a bar can be on a line where so much more is said."""
        room = min(self.room - taken, _LONGEST_BAR)
        return room if room >= _SHORTEST_BAR else 0

    def step(self, step: Data, indent: int = 0, standing: str = "", *, brief: bool = False) -> None:
        """A step with all that belongs to it; in brief, without its items and substeps."""
        standing = standing or stand(step)
        self.title(step, indent, standing)
        inner = indent + self.mark + 1
        for kind, counts in step["rolled_up"].items():
            if sum(counts.values()):
                self._bars(kind, counts, inner, standing)
                if not brief:
                    self._items(step, kind, inner + 2, standing)
        for style, text in self._details(step):
            self.canvas.write((style, " " * inner + text), hang=inner + 2)
        for substep in step["substeps"] if not brief else ():
            self.canvas.write()
            self.step(substep, inner, _standing_below(substep, standing))

    def title(self, step: Data, indent: int, standing: str, *, cut: bool = False) -> None:
        """The line that names a step: mark, anchor, title, status, what is special."""
        canvas = self.canvas
        mark = f"{' ' * indent}{getattr(canvas.glyphs, _MARKS[standing]):<{self.mark}} "
        of_mark, of_title, of_status = _LOOKS[standing]
        name = f"{canvas.said(step['anchor'])} - {canvas.said(step['title'])} "
        spans = [(of_mark, mark), (of_title, name), (of_status, f"[{step['status']}]")]
        remarks = self._remarks(step, of_status)
        for number, (style, remark) in enumerate(remarks):
            spans += [(style, f"{'; ' if number else ' ('}{remark}")]
        spans += [(remarks[-1][0], ")")] if remarks else []
        if cut:
            canvas.write_cut(*spans)
        else:
            canvas.write(*spans, hang=len(mark))

    def _remarks(self, step: Data, style: str) -> list[Span]:
        said = self.canvas.said
        remarks: list[Span] = []
        if step["claimed_by"] and step["parent_anchor"] is None:
            again = f", attempt {step['attempt']}" if step["attempt"] > 1 else ""
            holder = said(short_name(step["claimed_by"], self.look.root))
            remarks.append((style, f"claimed{FIRM}by{FIRM}{holder}{again}"))
        if step["parked_at"]:
            remarks.append(("warn", f'parked: "{said(step["park_reason"])}"'))
        if step["waiting_for"]:
            remarks.append((style, f"blocked{FIRM}by:{FIRM}{self._names(step['waiting_for'])}"))
        if step["complete_reason"]:
            # Nobody should overlook it, however long ago it was.
            remarks.append(("warn", f'forced: "{said(step["complete_reason"])}"'))
        return remarks

    def _names(self, anchors: Sequence[str]) -> str:
        most = _MOST_NAMES if self.canvas.bounded else len(anchors)
        rest = len(anchors) - most
        # One more is named as easily as it is counted.
        shown = anchors if rest <= 1 else anchors[:most]
        more = f" and {rest} more" if rest > 1 else ""
        return ", ".join(map(self.canvas.said, shown)) + more

    def _bars(self, kind: str, counts: Data, inner: int, standing: str) -> None:
        number, put_off = _fraction(counts), counts["deferred"]
        deferred = f" +{put_off} deferred" if put_off else ""
        done, total = counts["completed"], sum(counts.values())
        style = "dim" if standing in ("blocked", "done") else ""
        length = self._length(len(deferred))
        full, part, empty = bar(self.canvas, done, put_off, total, length)
        gap = max(self.column - len(number + deferred), 0) + (2 if length else 0)
        self.canvas.write(
            (style, f"{' ' * inner}{_KINDS[kind]:<{_LABEL}}{number}"),
            ("warn", deferred.replace(" ", FIRM)),
            ("", " " * gap),
            ("faded" if standing == "done" else "done" if done == total else "work", full),
            ("warn", part),
            ("dim", empty),
            (style, f" {percent(done, total):>3}%"),
            hang=inner + 2,
        )

    def _items(self, step: Data, kind: str, inner: int, standing: str) -> None:
        working = step["claimed_by"] and standing != "done"
        for item in self.items.get((step["anchor"], kind), ()):
            if self.look.every_item or (working and item["status"] != "completed"):
                self._item(step, item, inner)

    def _item(self, step: Data, item: Data, inner: int) -> None:
        canvas, status = self.canvas, item["status"]
        lead = f"{' ' * inner}{_BOXES.get(status, '[ ]')} "
        text, tail = canvas.said(item["text"]), _tail(canvas, step, item)
        if not self.look.every_item and canvas.bounded:
            # At a glance two rows of each will do; the checklist has all of it.
            rows = 2 * (canvas.width - len(lead))
            text, tail = canvas.cut(text, rows - 14), canvas.cut(tail, rows)
        style = _BOX_STYLES[status]
        words = "bold" if status == "in_progress" else "dim" if status == "completed" else ""
        canvas.write((style, lead), (words, text), (style, tail), hang=len(lead))
        if self.look.every_item and item["evidence"]:
            from tugtool.cli import proving

            for look, line in proving.lines(item["evidence"]):
                canvas.write((look, f"{' ' * len(lead)}{canvas.said(line)}"), hang=len(lead) + 2)

    def _details(self, step: Data) -> list[Span]:
        lines: list[Span] = []
        if step["parent_anchor"] is None and step["claimed_by"]:
            lines += self._claim(step)
        if step["commit_hash"]:
            lines.append(("dim", f"Commit: {self.canvas.said(step['commit_hash'][:7])}"))
        return lines

    def _claim(self, step: Data) -> list[Span]:
        lines: list[Span] = []
        if step["holder_gone"]:
            pid = step["attempts"][-1]["holder_pid"]
            lines.append(("alarm", f"Holder: its process {pid} is gone"))
        left = clock.seconds_between(self.now, step["lease_expires_at"])
        if step["lease_expired"]:
            lines.append(("alarm", f"Lease: expired {duration(-left)} ago"))
        elif self.look.leases:
            lines.append(("", f"Lease: expires in {duration(left)}"))
        return lines


_MARKS = {
    "done": "done",
    "work": "work",
    "gone": "alarm",
    "expired": "alarm",
    "parked": "parked",
    "ready": "ready",
    "blocked": "blocked",
}


def _standing_below(substep: Data, standing: str) -> str:
    """A substep is held with its step, but stands out only once it is at work itself."""
    if substep["status"] == "completed":
        return "done"
    if substep["status"] == "in_progress":
        return standing
    return "blocked" if substep["waiting_for"] or standing == "blocked" else "ready"


def _tail(canvas: Canvas, step: Data, item: Data) -> str:
    """What stands behind an item: that it is being done, or why it was put off or closed."""
    if item["status"] == "in_progress":
        return f"    {canvas.glyphs.back}{FIRM}in_progress"
    reason = item["reason"] if item["reason"] != step["complete_reason"] else None
    quoted = f' "{canvas.said(reason)}"' if reason else ""
    if item["status"] == "deferred":
        return f"    (deferred){quoted}"
    return f"   {quoted}" if quoted else ""


def _fraction(counts: Data) -> str:
    return f"{counts['completed']}/{sum(counts.values())}"


def bar(canvas: Canvas, done: int, part: int, total: int, length: int) -> tuple[str, str, str]:
    """What is done, put off and left; the least of each still shows."""
    glyphs = canvas.glyphs
    full = max(done * length // total, min(done, 1)) if total and length else 0
    some = max(part * length // total, min(part, 1)) if total and length else 0
    some = min(some, length - full)
    return glyphs.full * full, glyphs.part * some, glyphs.empty * (length - full - some)


def percent(done: int, total: int) -> int:
    """How much of it, rounded down: 100 means all."""
    return done * 100 // total if total else 100
