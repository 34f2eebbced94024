"""The interface of every command line tool, and the settings that keep it quiet."""

import json
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from peers.processes import Caller, Done

#: Without keys no tool can ask a model; with these none reports home.
QUIET = {
    "CI": "1",
    "DO_NOT_TRACK": "1",
    "NO_COLOR": "1",
    "NO_UPDATE_NOTIFIER": "1",
    "TASKMASTER_SKIP_AUTO_UPDATE": "1",
    "TASKMD_MACHINE_ID": "bench",
}
KEYS = ("_API_KEY", "_TOKEN", "_SECRET")


#: The tools' words for a task's state -> ours.
WORDS = {
    "free": ("To Do", "pending", "ready"),
    "taken": ("In Progress", "in-progress", "in_progress", "claimed"),
    "done": ("Done", "done", "completed"),
}


class Task(NamedTuple):
    """One task in the tool's own list; its status is free, taken or done."""

    id: str
    title: str
    status: str


class Tool(Protocol):
    """The interface of a tool. Tasks are numbered from 1 and called `Task N`; new ones `New N`.

    `claim` is how a worker gets a task, `take` how it gets this very one; `hold` has to come
    before `finish`. `supersede`: A has task 1, and the tool's own way gives it to B.
    """

    name: str
    #: How B gets A's task, in words.
    hands_over: str
    #: What a reader should know before comparing, by operation.
    lacks: dict[str, str]

    def caller(self, place: Path) -> Caller: ...
    def make(self, place: Path, count: int) -> None: ...
    def look(self) -> list[str]: ...
    def claim(self, n: int, who: str) -> list[str]: ...
    def take(self, n: int, who: str) -> list[str]: ...
    def took(self, done: Done) -> bool: ...
    def hold(self, n: int, who: str) -> list[list[str]]: ...
    def finish(self, n: int, who: str) -> list[str]: ...
    def show(self, n: int) -> list[str] | None: ...
    def listing(self) -> list[str]: ...
    def create(self, n: int) -> list[str]: ...
    def tasks(self, said: str) -> list[Task]: ...
    def supersede(self, a: str, b: str) -> list[list[str]]: ...


def after_noise(said: str) -> Any:
    """Return the JSON value in an answer; some print a line for people before it."""
    starts = [at for at in (said.find("{"), said.find("[")) if at >= 0]
    return json.JSONDecoder().raw_decode(said, min(starts))[0]


def plain(status: str) -> str:
    """Return free, taken or done."""
    return next(meaning for meaning, words in WORDS.items() if status in words)


def environment(base: dict[str, str]) -> dict[str, str]:
    """Return our environment without keys, and with all reports home turned off."""
    kept = {name: value for name, value in base.items() if not name.endswith(KEYS)}
    node = shutil.which("node")
    first = f"{os.path.dirname(node)}:" if node else ""
    return kept | QUIET | {"PATH": f"{first}{kept['PATH']}"}
