"""Converts the tasks of other tools into the text of a plan.

For any tasks the text parses, and its steps have the titles and dependencies of the tasks. The
result lists the parts of tasks that a plan cannot have.
"""

from __future__ import annotations

from typing import NamedTuple

from tugtool.plan import checkpoints, exports
from tugtool.plan.exports import ForeignTask, Notes, no_export, one_line, safe
from tugtool.system import text as system_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tugtool.plan.exports import Source


LONGEST_TITLE = 200
LONGEST_ITEM = 500
_LONGEST_ID = 60
_SEPARATORS = ":-\u2010\u2011\u2012\u2013\u2014\u2015 "
_DROPPED = ("cancelled", "canceled", "not_planned", "tombstone")
_OPEN = ("", "open", "pending", "reopened", "to_do", "todo")


class Conversion(NamedTuple):
    """A plan's text, and facts about it for a person."""

    text: str
    steps: int
    substeps: int
    done: int
    #: The parts of tasks that the plan does not have, in words.
    lost: list[str]
    #: Checkpoints from the export whose commands Tugtool would run.
    commands: list[str]


def convert(tool: str, sources: list[Source], *, today: str, only_open: bool = False) -> Conversion:
    """Convert the tasks of an export into a plan."""
    notes = Notes()
    label, read = exports.READERS[tool]
    every = _unique(read(sources, notes), notes)
    kept = {each.id: each for each in every.values() if not _is_dropped(each, only_open, notes)}
    if not kept:
        raise no_export(sources[0][0] if sources else "it", f"has no tasks of {label} to carry out")
    steps = _placed(kept, set(every), notes)
    needs = _needs(kept, set(every), notes)
    lines = [*_head(label, len(kept), today)]
    for step in steps:
        for task in (step, *step.below):
            lines += _step(task, needs[task.id], label, notes)
    text = "\n".join(lines) + "\n"
    done = sum(task.done for task in kept.values())
    parts = len(kept) - len(steps)
    return Conversion(text, len(steps), parts, done, notes.sentences(), _commands(kept.values()))


def _commands(tasks: Iterable[ForeignTask]) -> list[str]:
    """The checkpoints whose commands Tugtool would run."""
    items = [one_line(text, LONGEST_ITEM) for task in tasks for _, text in task.criteria]
    return [text for text in items if checkpoints.kind_of(text) == checkpoints.COMMAND]


def _unique(tasks: Iterable[ForeignTask], notes: Notes) -> dict[str, ForeignTask]:
    found: dict[str, ForeignTask] = {}
    for task in tasks:
        if task.id in found:
            notes.add("ids that two tasks have: the second gets another", task.id)
            task.id = f"{task.id} ({len(found)})"
        while task.id in found:
            task.id += "'"
        found[task.id] = task
    return found


def _is_dropped(task: ForeignTask, only_open: bool, notes: Notes) -> bool:
    if task.status in _DROPPED:
        notes.add("tasks that are cancelled, or no work", task.id)
    elif not task.done and task.status not in _OPEN:
        what = "tasks that are neither open nor done, and open here"
        notes.add(what, f"{task.id} ({task.status})")
    return task.status in _DROPPED or (only_open and task.done)


def _placed(tasks: dict[str, ForeignTask], every: set[str], notes: Notes) -> list[ForeignTask]:
    """The tasks that become steps, numbered, with the others below them."""
    tops = _tops(tasks)
    for task in tasks.values():
        task.home = tops[task.id]
        if task.home is not task:
            task.home.below.append(task)
        if task.home.id not in (task.id, task.parent):
            notes.add("tasks below tasks below tasks: one level is kept", task.id)
        elif (
            task.home is task and task.parent and (task.parent in tasks or task.parent not in every)
        ):
            notes.add("parents that the export does not have, or that are below", task.id)
    steps = [task for task in tasks.values() if task.home is task]
    for number, step in enumerate(steps, 1):
        for inner, task in enumerate((step, *step.below)):
            task.number = f"{number}.{inner}" if inner else str(number)
    return steps


def _tops(tasks: dict[str, ForeignTask]) -> dict[str, ForeignTask]:
    """ForeignTask -> its topmost parent; in a cycle, the first."""
    tops: dict[str, ForeignTask] = {}
    for task in tasks.values():
        path: dict[str, None] = {}
        at = task
        while at.id not in tops and at.id not in path:
            path[at.id] = None
            at = at if at.parent is None else tasks.get(at.parent, at)
        tops.update(dict.fromkeys(path, tops.get(at.id, at)))
    return tops


def _needs(
    tasks: dict[str, ForeignTask], every: set[str], notes: Notes
) -> dict[str, list[ForeignTask]]:
    """ForeignTask -> the tasks that it waits for, without cycles."""
    needs: dict[str, list[ForeignTask]] = {}
    for task in tasks.values():
        for name in task.needs:
            if name not in every:
                notes.add("dependencies on tasks it does not have", f"{task.id} on {name}")
        known = dict.fromkeys(name for name in task.needs if name in tasks)
        needs[task.id] = [tasks[name] for name in known]
    graph: dict[str, dict[str, None]] = {}
    for task in tasks.values():
        for other in needs[task.id]:
            graph.setdefault(_edge(task, other)[0], {})[_edge(task, other)[1]] = None
    circles = set(_back_edges(graph))
    for task in tasks.values():
        for other in [each for each in needs[task.id] if _edge(task, each) in circles]:
            what = "dependencies that would let tasks wait for each other"
            notes.add(what, f"{task.id} on {other.id}")
            needs[task.id].remove(other)
    return needs


def _edge(task: ForeignTask, other: ForeignTask) -> tuple[str, str]:
    """The two ends of a dependency: two steps, or two parts of one step."""
    if task.home is not other.home:
        return f"step {task.home.id}", f"step {other.home.id}"
    # A dependency between a step and its own part has no meaning.
    means = task is other or task.home not in (task, other)
    return f"part {task.id}", f"part {other.id}" if means else "nothing"


def _back_edges(needs: dict[str, dict[str, None]]) -> Iterator[tuple[str, str]]:
    """The edges to remove so that no cycle is left."""
    on_path: dict[str, bool] = {}
    for start in needs:
        path = [(start, iter(needs[start]))] if start not in on_path else []
        on_path.setdefault(start, True)
        while path:
            at, targets = path[-1]
            target = next(targets, None)
            if target is None:
                on_path[at] = False
                path.pop()
            elif target not in on_path:
                on_path[target] = True
                path.append((target, iter(needs.get(target, ()))))
            elif on_path[target]:
                yield at, target


def _head(label: str, count: int, today: str) -> Iterator[str]:
    yield from (f"## {system_text.many(count, 'task')} from {label}", "")
    yield from ("### Plan Metadata {#plan-metadata}", "", "| Field | Value |", "|---|---|")
    yield from ("| Owner | <who answers questions about this plan> |", "| Status | draft |")
    yield from (f"| Last updated | {today} |", "", "### Phase Overview {#phase-overview}", "")
    yield f"Made by `tugcode plan import` from {label}. Read it before you carry it out."
    yield from ("", "### Execution Steps {#execution-steps}", "")


def _step(task: ForeignTask, needs: list[ForeignTask], label: str, notes: Notes) -> Iterator[str]:
    title = title_of(task.title)
    if len(title) < len(one_line(task.title, 1 << 30)):
        notes.add(f"ends of titles longer than {LONGEST_TITLE} characters", task.id)
    level = "####" if task.home is task else "#####"
    yield from (f"{level} Step {task.number}: {title} {{#{task.anchor}}}", "")
    if needs or task.home is task:
        yield f"**Depends on:** {', '.join(f'#{each.anchor}' for each in needs) or 'none'}"
        yield ""
    if task.home is task:
        yield from (f"**Commit:** `{title.replace('`', chr(39))[:72].strip()}`", "")
    cited = "".join(c for c in task.id if c.isalnum() or c in "._-")[:_LONGEST_ID]
    yield from (f"**References:** (#phase-overview), {label} {cited}".rstrip(), "")
    if task.prose:
        yield from (*(f"> {safe(line)}".rstrip() for line in task.prose), "")
    lists = {"Tasks": task.tasks, "Tests": task.tests, "Checkpoint": task.criteria}
    lists["Tasks"] = lists["Tasks"] or [(task.done, title)]
    for name, boxes in lists.items():
        items = [(ticked or task.done, one_line(text, LONGEST_ITEM)) for ticked, text in boxes]
        if any(text for _, text in items):
            yield f"**{name}:**"
            yield from (f"- [{'x' if ticked else ' '}] {text}" for ticked, text in items if text)
            yield ""


def title_of(text: str) -> str:
    """The title in a form that a heading can have."""
    title = one_line(text, LONGEST_TITLE)
    # A title that begins like the skeleton's is refused.
    title = f"&lt;{title[1:]}" if title[:1] == "<" else title
    return title if title.strip(_SEPARATORS) else "(no title)"
