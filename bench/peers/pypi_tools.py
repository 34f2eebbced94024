"""The tool from PyPI; `npm_tools.py` has the others."""

from pathlib import Path

from peers.processes import Caller, Done
from peers.tool import Task, after_noise, plain


class Taskmd:
    """taskmd: a file per task, with all facts in its name."""

    name = "taskmd"
    hands_over = "a person sets the task back to ready, and B sets it to in-progress"
    lacks = {  # noqa: RUF012
        "look": "knows no dependencies",
        "claim": "renames a file; no owner, no lease, no fence, no fsync",
        "finish": "renames a file, for any caller; no fence, no fsync",
    }

    def __init__(self, binaries: Path, environment: dict[str, str]) -> None:
        self._program = str(binaries / "taskmd")
        self._environment = environment

    def caller(self, place: Path) -> Caller:
        body = place.parent / "body.md"
        body.write_text("What is to be done.\n")
        return Caller(place, self._environment, str(body))

    def make(self, place: Path, count: int) -> None:
        place.mkdir()
        run = self.caller(place)
        run.must([self._program, "init"])
        run.must([self._program, "new", "--slug", "task-1"])
        first = next((place / "tasks").glob("*--task-1.md"))
        # The first two digits come from the directory's name; here they are always the same.
        for n in range(1, count + 1):
            name = f"{_taskmd(n)}{first.name[5:]}".replace("task-1", f"task-{n}")
            first.with_name(name).write_text(first.read_text())
        first.unlink()

    def _set(self, n: int, status: str) -> list[str]:
        return [self._program, "--output", "json", "status", _taskmd(n), status]

    def look(self) -> list[str]:
        return [self._program, "--output", "json", "list", "--status", "ready"]

    def claim(self, n: int, who: str) -> list[str]:
        return self.take(n, who)

    def hold(self, n: int, who: str) -> list[list[str]]:
        # Any caller can finish any task.
        return []

    def take(self, n: int, who: str) -> list[str]:
        return self._set(n, "in-progress")

    def took(self, done: Done) -> bool:
        if done.status:
            return False
        data = after_noise(done.out)["data"]
        return bool(data["old_status"] != data["new_status"])

    def finish(self, n: int, who: str) -> list[str]:
        return self._set(n, "done")

    def show(self, n: int) -> None:
        # A task is a file to read; there is no command for it.
        return None

    def listing(self) -> list[str]:
        return [self._program, "--output", "json", "list"]

    def create(self, n: int) -> list[str]:
        return [self._program, "new", "--slug", f"new-{n}"]

    def tasks(self, said: str) -> list[Task]:
        found = after_noise(said)["data"]
        return [Task(row["id"], _title(row["slug"]), plain(row["status"])) for row in found]

    def supersede(self, a: str, b: str) -> list[list[str]]:
        return [self.take(1, a), self._set(1, "ready"), self.take(1, b)]


def _taskmd(n: int) -> str:
    return f"00{n:03}"


def _title(slug: str) -> str:
    return slug.replace("-", " ").capitalize()
