"""The exports of other task tools: beads, Task Master, Backlog.md, GitHub."""

from __future__ import annotations

import json
import re

from tugtool.errors import Unreadable, listing
from tugtool.plan import markdown
from tugtool.system import files, os
from tugtool.system import text as system_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    #: A file's name and its text.
    Source = tuple[str, str]
    #: True if an item is ticked; its text.
    Box = tuple[bool, str]


#: The places where the tools of `plan import` keep their tasks, in the named directory.
PLACES = {
    "beads": (".beads/issues.jsonl", "issues.jsonl"),
    "taskmaster": (".taskmaster/tasks/tasks.json", "tasks/tasks.json", "tasks.json"),
    "backlog": ("backlog/tasks", "tasks", ""),
    "github": (),
}
_LONGEST_NAME = 60
_CRITERIA = ("acceptance criteria", "definition of done")
_DONE = ("closed", "completed", "done")
#: Records of beads that are not work: its agents, and their messages.
_NO_WORK = ("agent", "event", "gate", "message", "rig", "role", "slot")
_BLOCKS = ("blocks", "waits-for")
_WAITS = re.compile(
    r"(?:depends on|blocked by)[: \t]{1,3}(#\d{1,12}(?:(?:, and|,| and) #\d{1,12}){0,50})",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"#\d{1,6} ")
_FIELDS = "fields that have no place in a plan"


def exported(tool: str, path: str, *, max_bytes: int) -> list[Source]:
    """The files of another tool's export at a path: the name and the text of each."""
    if os.path.isdir(path):
        inside = (os.path.join(path, name) for name in PLACES[tool])
        path = next((each for each in inside if os.path.exists(each)), path)
    names = [path]
    if tool == "backlog" and os.path.isdir(path):
        try:
            found = [os.path.join(path, each) for each in sorted(os.listdir(path))]
        except OSError as error:
            raise Unreadable(path, f"cannot be read: {files.reason(error)}") from error
        # A link could lead anywhere.
        names = [each for each in found if each.endswith(".md") and not os.path.islink(each)]
    sources: list[Source] = []
    for name in names:
        data = files.read(name, max_bytes=max_bytes, raise_with="--max-bytes N")
        max_bytes -= len(data)
        sources.append((name, files.text(name, data)))
    return sources


class ForeignTask:
    """A task, with the fields that all tools have."""

    def __init__(self, id: object, title: object, *, status: object = "", text: str = "") -> None:
        self.id, self.title = _id(id), _words(title)
        self.status = str(status).casefold().replace(" ", "_").replace("-", "_")
        self.prose, self.tasks, self.criteria = _body(text)
        self.tests: list[Box] = []
        self.needs: list[str] = []
        self.parent: str | None = None
        self.done = self.status in _DONE
        #: Its number as a step or substep, and its step; set later.
        self.number, self.home = "", self
        self.below: list[ForeignTask] = []

    @property
    def anchor(self) -> str:
        return "step-" + self.number.replace(".", "-")


class Notes(dict[str, dict[str, None]]):
    """A kind of loss -> the tasks or fields that it affects, each once."""

    def add(self, what: str, name: object) -> None:
        self.setdefault(what, {})[one_line(str(name), _LONGEST_NAME)] = None

    def fields(self, row: dict[str, Any], *known: str) -> None:
        for key in row:
            if key not in known and row[key]:
                self.add(_FIELDS, key)

    def sentences(self) -> list[str]:
        return [f"{what}: {listing(list(self[what]))}" for what in self]


def one_line(text: str, longest: int) -> str:
    """Safe text on one line, cut if it is long."""
    line = " ".join(safe(text).split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def safe(line: str) -> str:
    """A line without characters that Markdown or a terminal would interpret."""
    plain = line if line.isprintable() else system_text.strip(line)
    return plain.replace("{#", "{ #").replace("<!--", "&lt;!--")


def _body(text: str) -> tuple[list[str], list[Box], list[Box]]:
    """The prose of a Markdown text, its boxes, and its acceptance criteria."""
    prose: list[str] = []
    boxes: list[Box] = []
    criteria: list[Box] = []
    fence = proving = False
    for line in _lines(text):
        body = line.strip()
        is_fence = body.startswith(("```", "~~~"))
        fence ^= is_fence
        plain = not (fence or is_fence)
        head = markdown.heading(body) if plain and body[:1] == "#" else None
        if head:
            name = head[1].strip("*:_ ").casefold()
            proving = name in _CRITERIA
            plain = not proving and (name != "description" or any(prose))
        item = _item(body, any_list=proving) if plain and not head else None
        if item:
            (criteria if proving else boxes).append(item)
        elif (plain or fence or is_fence) and not (body[:4] == "<!--" and body[-3:] == "-->"):
            prose += [line] if body or (prose and prose[-1].strip()) else []
    return (prose if not prose or prose[-1].strip() else prose[:-1]), boxes, criteria


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _item(body: str, *, any_list: bool) -> Box | None:
    """A box, or any list item if that is enough, without its number."""
    listed = markdown.without_marker(body)
    found = markdown.box(body) or ((False, listed) if any_list and listed else None)
    number = _NUMBER.match(found[1]) if found and any_list else None
    return (found[0], found[1][number.end() :]) if found and number else found


def _criteria(text: str) -> list[Box]:
    """Acceptance criteria from a separate field: one on each line."""
    lines = [line.strip() for line in _lines(text) if line.strip("-+* []")]
    return [_item(line, any_list=True) or (False, line) for line in lines]


def no_export(file: str, problem: str, line: int | None = None) -> Unreadable:
    """The refusal of a file that a tool did not write."""
    return Unreadable(file, problem, line=line, hint="tugcode plan import --help")


def _json(file: str, text: str, line: int | None = None) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise no_export(file, f"is not JSON: {str(error)[:200]}", line) from error


def _rows(file: str, found: object) -> list[dict[str, Any]]:
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise no_export(file, "has no list of tasks")
    return found


def _words(value: object) -> str:
    return value if isinstance(value, str) else ""


def _list(value: object) -> list[Any]:
    value = value.get("nodes") if isinstance(value, dict) else value
    return value if isinstance(value, list) else []


def _numbered(text: str) -> Iterator[tuple[int, str]]:
    return ((at, line) for at, line in enumerate(text.split("\n"), 1) if line.strip())


def _beads(sources: list[Source], notes: Notes) -> Iterator[ForeignTask]:
    """A line of JSON for each issue."""
    lines = [(file, *each) for file, text in sources for each in _numbered(text)]
    rows = [row for file, at, line in lines for row in _rows(file, [_json(file, line, at)])]
    rows.sort(key=lambda row: (str(row.get("priority", "")), str(row.get("created_at", ""))))
    tasks = [_bead(row, notes) for row in rows]
    epics = {_id(row.get("id")) for row in rows if row.get("issue_type") == "epic"}
    waits = {task.id: list(task.needs) for task in tasks}
    known = {task.id: task for task in tasks}
    for task in tasks:
        epic = None if task.parent is None else known.get(task.parent)
        if epic and epic.id in epics and epic is not task and epic.status != "cancelled":
            # The tasks of an epic run in parallel, and the epic is done when they are.
            notes.add("epics, which become steps that wait for their tasks", epic.id)
            task.needs += waits[epic.id]
            epic.needs.append(task.id)
            task.parent = None
    return iter(tasks)


def _bead(row: dict[str, Any], notes: Notes) -> ForeignTask:
    no_work = row.get("issue_type") in _NO_WORK or row.get("ephemeral") is True
    more = [f"{key.capitalize()}: {row[key]}" for key in ("design", "notes") if row.get(key)]
    text = "\n\n".join([_words(row.get("description")), *more])
    status = "cancelled" if no_work else row.get("status", "")
    task = ForeignTask(row.get("id"), row.get("title"), status=status, text=text)
    task.criteria += _criteria(_words(row.get("acceptance_criteria")))
    for link in _list(row.get("dependencies")):
        link = link if isinstance(link, dict) else {"depends_on_id": link}
        kind, target = link.get("type", "blocks"), _id(link.get("depends_on_id"))
        task.needs += [target] if kind in _BLOCKS else []
        task.parent = target if kind == "parent-child" else task.parent
        if kind not in (*_BLOCKS, "parent-child"):
            notes.add("links of other kinds", kind)
    notes.fields(row, *_OF_BEADS)
    return task


def _taskmaster(sources: list[Source], notes: Notes) -> Iterator[ForeignTask]:
    """One document; newer versions have a list of tasks for each tag."""
    for file, text in sources:
        found = _json(file, text)
        if isinstance(found, dict) and "tasks" not in found:
            tags = [tag for tag in found if isinstance(found[tag], dict) and "tasks" in found[tag]]
            chosen = "master" if "master" in tags else next(iter(tags), "")
            for tag in tags:
                if tag != chosen and found[tag]["tasks"]:
                    notes.add("tags", tag)
            found = found.get(chosen)
        rows = _rows(file, found.get("tasks") if isinstance(found, dict) else found)
        pending = [(row, "", rows) for row in reversed(rows)]
        while pending:
            row, parent, beside = pending.pop()
            task = _mastered(row, parent, beside, notes)
            yield task
            below = _rows(file, _list(row.get("subtasks")))
            pending += [(each, task.id, below) for each in reversed(below)]


def _mastered(row: dict[str, Any], parent: str, beside: list[Any], notes: Notes) -> ForeignTask:
    prefix = f"{parent}." if parent else ""
    texts = [_words(row.get(key)) for key in ("description", "details")]
    text = "\n\n".join(filter(None, texts))
    own = _id(row.get("id"))
    task = ForeignTask(prefix + own, row.get("title"), status=row.get("status", ""), text=text)
    task.parent = parent or None
    task.tests = [(False, _words(row.get("testStrategy")))]
    siblings = {_id(each.get("id")) for each in beside}
    needs = [_id(each) for each in _list(row.get("dependencies"))]
    # Subtasks name their siblings by the last part of the id.
    task.needs = [prefix + each if each in siblings else each for each in needs]
    notes.fields(row, *_OF_TASKMASTER)
    return task


def _backlog(sources: list[Source], notes: Notes) -> Iterator[ForeignTask]:
    """Read a Markdown file for each task, with YAML at its start."""
    found = [(file, *_front(text)) for file, text in sources]
    found = [(file, row, body) for file, row, body in found if row.get("id")]
    found.sort(key=lambda each: [part.zfill(12) for part in _id(each[1]["id"]).split(".")])
    for _, row, body in found:
        task = ForeignTask(row["id"], row.get("title"), status=row.get("status", ""), text=body)
        task.needs = [_id(each) for each in _list(row.get("dependencies"))]
        task.parent = _id(row["parent_task_id"]) if row.get("parent_task_id") else None
        notes.fields(row, *_OF_BACKLOG)
        yield task


def _front(text: str) -> tuple[dict[str, Any], str]:
    """The fields before a text, in the YAML that the tool writes, and the text."""
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].strip() != "---" or "---" not in lines[1:]:
        return {}, text
    end = lines.index("---", 1)
    row: dict[str, Any] = {}
    key = ""
    for line in lines[1:end]:
        item = line.strip()
        if line[:1] not in (" ", "-") and ":" in line:
            key, _, value = line.partition(":")
            value = value.strip()
            inside = value[1:-1].split(",") if value[:1] == "[" else []
            listed = [_scalar(each) for each in inside if each.strip()]
            row[key] = listed if value[:1] == "[" else _scalar(value)
        elif item.startswith("- "):
            row[key] = [*_list(row.get(key)), _scalar(item[2:])]
        elif key and item:
            before = row.get(key)
            before = before if isinstance(before, str) and before[:1] not in (">", "|") else ""
            row[key] = f"{before} {item}".strip()
    return row, "\n".join(lines[end + 1 :])


def _scalar(value: str) -> str:
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] == "'":
        return value[1:-1].replace("''", "'")
    if len(value) > 1 and value[0] == value[-1] == '"':
        return value[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    return value


def _github(sources: list[Source], notes: Notes) -> Iterator[ForeignTask]:
    """Read the output of `gh issue list --json`."""
    for file, text in sources:
        rows = _rows(file, _json(file, text))
        rows.sort(key=lambda row: _id(row.get("number")).zfill(12))
        for row in rows:
            body = _words(row.get("body"))
            state = row.get("stateReason") or row.get("state", "")
            task = ForeignTask(row.get("number"), row.get("title"), status=state, text=body)
            blocks = [*_list(row.get("blockedBy"))]
            task.needs = [_id(each.get("number")) for each in blocks if isinstance(each, dict)]
            for match in _WAITS.finditer(body):
                task.needs += re.findall(r"\d+", match[1])
            parent = row.get("parent")
            task.parent = _id(parent.get("number")) if isinstance(parent, dict) else None
            notes.fields(row, *_OF_GITHUB)
            yield task


def _id(value: object) -> str:
    return "" if value is None else str(value)


_OF_BEADS = (
    *("id", "title", "description", "design", "notes", "acceptance_criteria", "status"),
    *("priority", "issue_type", "dependencies", "parent", "created_at", "updated_at"),
    *("closed_at", "started_at", "dependency_count", "dependent_count", "comment_count"),
)
_OF_TASKMASTER = (
    *("id", "title", "description", "details", "testStrategy", "status", "dependencies"),
    *("subtasks", "updatedAt", "parentTaskId", "parentId"),
)
_OF_BACKLOG = (
    *("id", "title", "status", "dependencies", "parent_task_id", "created_date"),
    *("updated_date", "ordinal"),
)
_OF_GITHUB = ("number", "title", "body", "state", "stateReason", "blockedBy", "parent", "closed")
#: The name of a tool's option -> the tool's name for people, and the reader of its export.
READERS: dict[str, tuple[str, Callable[[list[Source], Notes], Iterator[ForeignTask]]]] = {
    "beads": ("beads", _beads),
    "taskmaster": ("Task Master", _taskmaster),
    "backlog": ("Backlog.md", _backlog),
    "github": ("GitHub", _github),
}
