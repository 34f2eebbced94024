"""The tools from npm: make a project, take, finish, look.

Each is called in the fastest way that its own help names for scripts, without git where it can
do without. The first task of a project is made by the tool itself; the others are copies of it
under other numbers, in the tool's own format.
"""

import json
import shutil
from pathlib import Path

from peers.processes import Caller, Done
from peers.tool import Task, after_noise, plain


class Backlog:
    """backlog.md: a Markdown file per task."""

    name = "backlog.md"
    hands_over = "a person sets the task back to To Do, and B edits it to In Progress"
    lacks = {  # noqa: RUF012
        "claim": "sets status and assignee, even of another's task; no lease, no fence, no fsync",
        "finish": "by any caller; no fence, no fsync",
    }

    def __init__(self, binaries: Path, environment: dict[str, str]) -> None:
        self._program = str(binaries / "backlog")
        self._environment = environment

    def caller(self, place: Path) -> Caller:
        return Caller(place, self._environment)

    def make(self, place: Path, count: int) -> None:
        place.mkdir()
        run = self.caller(place)
        words = "init bench --defaults --no-git --integration-mode none --auto-open-browser false"
        run.must([self._program, *words.split()])
        run.must([self._program, "task", "create", "Task 1", "--plain"])
        first = place / "backlog" / "tasks" / "task-1 - Task-1.md"
        text = first.read_text()
        for n in range(2, count + 1):
            other = text.replace("TASK-1\n", f"TASK-{n}\n").replace("Task 1\n", f"Task {n}\n")
            first.with_name(f"task-{n} - Task-{n}.md").write_text(
                other.replace("ordinal: 1000", f"ordinal: {n}000")
            )

    def _edit(self, n: int, *words: str) -> list[str]:
        return [self._program, "task", "edit", str(n), *words, "--plain"]

    def look(self) -> list[str]:
        words = "task list --ready --unassigned --limit 1 --json"
        return [self._program, *words.split()]

    def claim(self, n: int, who: str) -> list[str]:
        return self.take(n, who)

    def hold(self, n: int, who: str) -> list[list[str]]:
        # Any caller can finish any task.
        return []

    def take(self, n: int, who: str) -> list[str]:
        return self._edit(n, "-s", "In Progress", "-a", f"@{who}")

    def took(self, done: Done) -> bool:
        return done.status == 0

    def finish(self, n: int, who: str) -> list[str]:
        return self._edit(n, "-s", "Done")

    def show(self, n: int) -> list[str]:
        return [self._program, "task", "view", str(n), "--json"]

    def listing(self) -> list[str]:
        return [self._program, "task", "list", "--json"]

    def create(self, n: int) -> list[str]:
        return [self._program, "task", "create", f"New {n}", "--plain"]

    def tasks(self, said: str) -> list[Task]:
        found = after_noise(said)["tasks"]
        return [Task(each["id"], each["title"], plain(each["status"])) for each in found]

    def supersede(self, a: str, b: str) -> list[list[str]]:
        return [self.take(1, a), self._edit(1, "-s", "To Do", "-a", ""), self.take(1, b)]


class Dex:
    """dex: one JSON line per task in one file."""

    name = "dex"
    hands_over = "B starts the task with --force, its way to take one over"
    lacks = {  # noqa: RUF012
        "claim": "refuses what is started already; no owner, no lease, no fence, no fsync",
        "finish": "by any caller; no fence, no fsync",
    }

    def __init__(self, binaries: Path, environment: dict[str, str]) -> None:
        self._program = str(binaries / "dex")
        self._environment = environment

    def caller(self, place: Path) -> Caller:
        return Caller(place, self._environment)

    def make(self, place: Path, count: int) -> None:
        place.mkdir()
        run = self.caller(place)
        run.must(["git", "init", "--quiet", "--template=", "."])
        run.must([self._program, "create", "Task 1"])
        file = place / ".dex" / "tasks.jsonl"
        first = json.loads(file.read_text())
        rows = ({**first, "id": _dex(n), "name": f"Task {n}"} for n in range(1, count + 1))
        file.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))

    def look(self) -> list[str]:
        return [self._program, "list", "--ready", "--json"]

    def claim(self, n: int, who: str) -> list[str]:
        return self.take(n, who)

    def hold(self, n: int, who: str) -> list[list[str]]:
        # Any caller can finish any task.
        return []

    def take(self, n: int, who: str) -> list[str]:
        return [self._program, "start", _dex(n)]

    def took(self, done: Done) -> bool:
        return done.status == 0

    def finish(self, n: int, who: str) -> list[str]:
        return [self._program, "complete", _dex(n), "--result", "done", "--no-commit"]

    def show(self, n: int) -> list[str]:
        return [self._program, "show", _dex(n), "--json"]

    def listing(self) -> list[str]:
        return [self._program, "list", "--all", "--json"]

    def create(self, n: int) -> list[str]:
        return [self._program, "create", f"New {n}"]

    def tasks(self, said: str) -> list[Task]:
        return [Task(row["id"], row["name"], _of_dex(row)) for row in after_noise(said)]

    def supersede(self, a: str, b: str) -> list[list[str]]:
        return [self.take(1, a), [*self.take(1, b), "--force"]]


def _dex(n: int) -> str:
    return f"task{n:04}"


def _of_dex(row: dict[str, object]) -> str:
    return "done" if row["completed"] else "taken" if row["started_at"] else "free"


class Taskmaster:
    """task-master-ai: all tasks in one JSON file."""

    name = "task-master-ai"
    hands_over = "a person sets the task back to pending, and B sets it to in-progress"
    lacks = {  # noqa: RUF012
        "claim": "sets a status and tells the old one; no owner, no lease, no fence, no fsync",
        "finish": "by any caller; no fence, no fsync",
    }

    def __init__(self, binaries: Path, environment: dict[str, str]) -> None:
        self._program = str(binaries / "task-master")
        self._environment = environment
        self._sample: Path | None = None

    def caller(self, place: Path) -> Caller:
        return Caller(place, self._environment)

    def make(self, place: Path, count: int) -> None:
        self._sample = self._sample or self._made(place.with_name(f"{place.name}-sample"))
        shutil.copytree(self._sample, place)
        file = place / ".taskmaster" / "tasks" / "tasks.json"
        content = json.loads(file.read_text())
        first = content["master"]["tasks"][0]
        tasks = [{**first, "id": n, "title": f"Task {n}"} for n in range(1, count + 1)]
        content["master"]["tasks"] = tasks
        file.write_text(json.dumps(content, indent=2))

    def _made(self, place: Path) -> Path:
        place.mkdir()
        run = self.caller(place)
        words = "init -y --no-git --no-aliases --skip-install -n bench"
        run.must([self._program, *words.split()])
        settings = place / ".taskmaster" / "config.json"
        content = json.loads(settings.read_text())
        content["global"]["anonymousTelemetry"] = False
        settings.write_text(json.dumps(content, indent=2))
        # No command starts a list by hand: a model makes it.
        (place / ".taskmaster" / "tasks" / "tasks.json").write_text(
            '{"master": {"tasks": [], "metadata": {}}}'
        )
        run.must(self.create(1))
        return place

    def _set(self, n: int, status: str) -> list[str]:
        return [self._program, "set-status", str(n), status, "--format", "json"]

    def look(self) -> list[str]:
        return [self._program, "next", "--format", "json"]

    def claim(self, n: int, who: str) -> list[str]:
        return self.take(n, who)

    def hold(self, n: int, who: str) -> list[list[str]]:
        # Any caller can finish any task.
        return []

    def take(self, n: int, who: str) -> list[str]:
        return self._set(n, "in-progress")

    def took(self, done: Done) -> bool:
        # A generous reading: the message "in progress already" may tell the worker that it lost.
        if done.status:
            return False
        changed = after_noise(done.out).get("updatedTasks") or [{}]
        return bool(changed[0].get("oldStatus") != "in-progress")

    def finish(self, n: int, who: str) -> list[str]:
        return self._set(n, "done")

    def show(self, n: int) -> list[str]:
        return [self._program, "show", str(n), "--json"]

    def listing(self) -> list[str]:
        return [self._program, "list", "--json"]

    def create(self, n: int) -> list[str]:
        return [self._program, "add-task", f"--title=New {n}", "--description=new"]

    def tasks(self, said: str) -> list[Task]:
        found = after_noise(said)["tasks"]
        return [Task(str(each["id"]), each["title"], plain(each["status"])) for each in found]

    def supersede(self, a: str, b: str) -> list[list[str]]:
        return [self.take(1, a), self._set(1, "pending"), self.take(1, b)]
