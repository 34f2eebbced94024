"""The live picture of a plan."""

from __future__ import annotations

import sys
import time

from tugtool.cli import output
from tugtool.cli.draw import canvas as canvases
from tugtool.cli.draw import plan as draw_plan
from tugtool.cli.draw.canvas import Fold
from tugtool.cli.draw.plan import stand
from tugtool.cli.output import Answer, Stream
from tugtool.errors import TugError
from tugtool.system import config, os
from tugtool.system.text import many

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tugtool.cli.draw.canvas import Canvas
    from tugtool.cli.draw.plan import Data, View
    from tugtool.cli.draw.screen import Screen
    from tugtool.cli.state_show import PlanView
    from tugtool.workflow.overview import Snapshot

    #: A plan and its warnings.
    Plans = Sequence[tuple[Data, Sequence[str]]]


def draw_frame(
    new: Callable[[], Canvas],
    plans: Plans,
    look: View,
    *,
    rows: int,
    trouble: str = "",
    nothing: str = "",
) -> list[str]:
    """Draw at most `rows` lines: errors first, then the plans, or `nothing` without plans."""
    top = new()
    if trouble:
        warning = f"! {top.said(trouble.rstrip('.'))}; watching on"
        top.write(("bold you", warning), hang=2)
    if not plans:
        top.write(("", nothing), hang=2)
    room = rows - len(top.lines)
    lines = _fitted(new, plans, look, room) if plans else []
    return (top.lines + lines)[: max(rows, 1)]


def _fitted(new: Callable[[], Canvas], plans: Plans, look: View, rows: int) -> list[str]:
    """The plans with as many steps and details as fit."""
    for level in range(len(Fold.LEVELS)):
        fold = Fold(level)
        # With more steps than rows it cannot fit, so do not draw it.
        if sum(sum(_shown(plan["steps"], fold)) for plan, _ in plans) > rows:
            continue
        canvas = new()
        for place, (plan, warning) in enumerate(plans):
            if place:
                canvas.write()
            draw_plan.draw(canvas, plan, look, warning, fold)
        if len(canvas.lines) <= rows:
            return canvas.lines
    return _names(new(), plans, rows) if len(plans) > 1 else _urgent(new, plans[0], look, rows)


def _urgent(
    new: Callable[[], Canvas], plan: tuple[Data, Sequence[str]], look: View, rows: int
) -> list[str]:
    """A plan with more urgent steps than rows: as many as fit."""
    canvas, fold = new(), Fold(len(Fold.LEVELS) - 1)
    steps = plan[0]["steps"]
    shown = [step for step, is_shown in zip(steps, _shown(steps, fold), strict=True) if is_shown]
    draw_plan.head(canvas, plan[0], look, plan[1])
    drawer = draw_plan.Drawer(canvas, plan[0], look)
    for place, step in enumerate(shown):
        before = len(canvas.lines)
        drawer.step(step, 2, stand(step), detailed=False)
        if len(canvas.lines) >= rows:
            more = f"  {canvas.glyphs.more} {many(len(steps) - place, 'more step')}"
            del canvas.lines[before:]
            canvas.write_cut(("dim", more))
            break
    return canvas.lines


def _shown(steps: Sequence[Data], fold: Fold) -> list[bool]:
    return fold.shown([stand(step) for step in steps])


def _names(canvas: Canvas, plans: Plans, rows: int) -> list[str]:
    """One line for each plan, if their headers do not fit."""
    most = rows if len(plans) <= rows else rows - 1
    for plan, _ in plans[:most]:
        draw_plan.one_line(canvas, plan)
    rest = len(plans) - most
    if rest > 0:
        canvas.write_cut(("dim", f"{canvas.glyphs.more} {rest} more plans"))
    return canvas.lines


#: Seconds between two looks for changes.
LOOK_SECONDS = 0.25
#: The least time between two readings, and the most: leases run out without a change.
REST_SECONDS, STALE_SECONDS = 1.0, 5.0
#: It uses at most 1 / this of one core.
SHARE = 50
#: The least time between two pictures.
DRAW_SECONDS = 0.1


def stream(sight: PlanView, seen: Snapshot, *, as_json: bool) -> Stream:
    """The output of --watch, part by part."""
    # Workers have priority.
    os.nice(19)
    live = Live(sight, seen)
    if as_json or not sys.stdout.isatty() or config.variable("TERM") in (None, "", "dumb"):
        return Stream(_documents(live) if as_json else _pictures(live))
    return Stream(_frames(live))


class Live:
    """The last good reading, the error since, and the time of the next one."""

    def __init__(self, sight: PlanView, seen: Snapshot) -> None:
        self.sight, self.seen = sight, seen
        self.trouble: TugError | None = None
        self._looked, self._cost = time.monotonic(), 0.0
        # Changes are noticed from here on; look once more for those before.
        self._changed()
        self._due = True
        self._drawn = -DRAW_SECONDS

    def refreshed(self) -> bool:
        """Read again if something may be new and enough time has passed."""
        age = time.monotonic() - self._looked
        self._due = self._due or self._changed() or age >= STALE_SECONDS
        if not self._due or age < max(REST_SECONDS, self._cost * SHARE):
            return False
        self._due, self._cost = False, 0.0
        started = time.process_time()
        try:
            self.seen, self.trouble = self.sight.viewer.read(), None
        except TugError as error:
            self.trouble = error
        self._looked = time.monotonic()
        self.spent(time.process_time() - started)
        return True

    def may_draw(self) -> bool:
        """True if enough time has passed since the last picture; counts this as the next."""
        now = time.monotonic()
        if now - self._drawn < DRAW_SECONDS:
            return False
        self._drawn = now
        return True

    def spent(self, seconds: float) -> None:
        """Make the pause before the next reading longer if this one took longer."""
        self._cost += seconds

    def _changed(self) -> bool:
        try:
            return self.sight.viewer.space.store.wait_for_change(0)
        except TugError:
            return True


def _frames(live: Live) -> Iterator[str]:
    """Draw on a screen of its own; the stream itself gets nothing."""
    from tugtool.cli.draw.screen import Screen

    with Screen() as screen:
        told = _watched(live, screen)
    if told == "interrupt":
        raise KeyboardInterrupt
    yield from ()


def _watched(live: Live, screen: Screen) -> str:
    """Draw until the user ends it; return how."""
    due = True
    while True:
        if due and live.may_draw():
            show(live, screen, lambda _: [], "q leaves")
            due = False
        told = screen.wait(DRAW_SECONDS if due else LOOK_SECONDS)
        if told in ("quit", "interrupt", "end"):
            return told
        due = live.refreshed() or told == "resized" or due


def show(live: Live, screen: Screen, below: Callable[[Canvas], object], keys: str) -> None:
    """Draw the last reading, then what `below` writes, then the time and the keys."""
    from tugtool.cli import state_show

    started = time.process_time()
    columns, lines = screen.size()
    # Leave the last column free: some terminals wrap there.
    columns = max(columns - 1, 2)
    foot = canvases.for_output(columns)
    below(foot)
    times = [canvases.local(plan["as_of"], day=False) for plan in live.seen.plans[:1]]
    foot.write_cut(("dim", foot.glyphs.dot.join([*times, keys])))
    rest = foot.lines[-max(lines // 2, 1) :]
    frame = draw_frame(
        lambda: canvases.for_output(columns),
        [(plan, state_show.warning(live.seen, plan)) for plan in live.seen.plans],
        live.sight.wanted(live=True),
        rows=lines - len(rest),
        trouble=live.trouble.message if live.trouble else "",
        nothing="" if live.seen.plans or live.trouble else live.sight.nothing(),
    )
    screen.show([*frame, *rest])
    live.spent(time.process_time() - started)


def _pictures(live: Live) -> Iterator[str]:
    """For a file or a pipe: the time and the whole picture after each change."""
    before = ""
    for trouble in _changes(live):
        # Compare without durations.
        plain = canvases.for_output()
        live.sight.draw(plain, live.seen, live.sight.wanted(times=False))
        if trouble:
            yield f"! {output.clean(trouble)}\n"
        elif plain.text() != before:
            before = plain.text()
            at = time.strftime("%Y-%m-%d %H:%M:%S")
            yield f"--- {at} ---\n{live.sight.text(live.seen)}"


def _documents(live: Live) -> Iterator[Answer]:
    """For programs: one envelope per change; an error makes the last one invalid."""
    before: object = None
    for _ in _changes(live):
        now = (
            [{**plan, "as_of": "", "elapsed_seconds": 0} for plan in live.seen.plans],
            live.seen.changed,
        )
        if live.trouble is not None:
            before, error = None, live.trouble
            yield output.Answer({}, str, issues=error.issues(), status=error.exit_status)
        elif now != before:
            before = now
            yield live.sight.answer(live.seen)


def _changes(live: Live) -> Iterator[str]:
    """Yield the error, or nothing, after each reading that may have found changes."""
    yield ""
    trouble = ""
    while output.listening(LOOK_SECONDS):
        if live.refreshed():
            now = live.trouble.message if live.trouble else ""
            if not now or now != trouble:
                yield now
            trouble = now
