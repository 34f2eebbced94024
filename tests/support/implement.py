"""A repository with a committed plan and scripted agents, in which whole runs are played."""

import ctypes
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import tugtool
from conftest import Repo, Result, git, hold_against_schemas
from support.state import KEY, markdown
from support.worktree import committed
from tugtool.cli.main import main
from tugtool.implement.cooling import Timer
from tugtool.store import open_store

IDENTITY = {
    "GIT_AUTHOR_NAME": "Tug",
    "GIT_AUTHOR_EMAIL": "tug@example.invalid",
    "GIT_COMMITTER_NAME": "Tug",
    "GIT_COMMITTER_EMAIL": "tug@example.invalid",
}
#: What plays a script: a scripted agent that starts faster.
ACTOR = (sys.executable, "-I", "-S", str(Path(__file__).with_name("actor.py")))
ROLES = ("architect", "coder", "reviewer")


def logged_calls(log: str) -> list[dict]:
    """Every call of a scripted agent that its log tells of, in order."""
    with open(log, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


#: Of `linux/capability.h`: what lets root write and read in spite of modes.
_OVERRIDES, _DROP = (1, 2), 24


def unprivileged() -> None:
    """Let modes of directories hold for root as well."""
    if os.geteuid() == 0 and sys.platform == "linux":
        for capability in _OVERRIDES:
            ctypes.CDLL(None).prctl(_DROP, capability, 0, 0, 0)


class FastTimer(Timer):
    """Time that passes whenever a run waits for it; `at` has what comes to pass, and when."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.at: list[tuple[float, Callable[[], object]]] = []
        self._lock = threading.Lock()

    def now(self) -> float:
        return self.passed

    def milliseconds(self) -> int:
        return super().milliseconds() + round(self.passed * 1000)

    def wait(self, seconds: float, event: threading.Event) -> None:
        with self._lock:
            self.passed += seconds
            due = [act for when, act in self.at if when <= self.passed]
            self.at = [(when, act) for when, act in self.at if when > self.passed]
        for act in due:
            act()


class Play:
    """The plan `work`, committed on main, and the script that its agents play."""

    def __init__(self, repo: Repo, tugcode, capsys, *lines: str) -> None:
        self.repo, self._tugcode, self._capsys = repo, tugcode, capsys
        self.root = repo.path
        self._started: list[subprocess.Popen] = []
        #: The time of runs in this process.
        self.timer = FastTimer()
        self.text = markdown(*lines)
        repo.become("yard", *lines, make=lambda repo: committed(repo, *lines))
        self.script = repo.path.parent / "script.json"
        self.log = repo.path.parent / "script.json.log"
        self.rules()
        self.cast()

    def rules(self, *rules: dict) -> None:
        """What the agents do; whatever no rule is about goes well."""
        self.script.write_text(json.dumps({"rule": list(rules)}))

    def cast(self, *roles: str, more: str = "", **implement: object) -> None:
        """Who plays; the settings beside it."""
        command = json.dumps([*ACTOR, str(self.script)])
        terms = {"retry_seconds": [0], **implement}
        lines = ["[implement]", *(f"{name} = {value}" for name, value in terms.items())]
        for role in roles or ROLES:
            lines += [f"[agents.{role}]", f"command = {command}", more]
        (self.root / ".tugtool" / "config.toml").write_text("\n".join(lines) + "\n")

    def run(self, *words: object, plan: str = "work") -> tuple[int, list[dict]]:
        """Carry the plan out in this process: its exit status and its events."""
        self._capsys.readouterr()
        line = ["-C", self.root, "implement", plan, *words, "--json"]
        status = main([str(word) for word in line])
        return status, events(self._capsys.readouterr().out)

    def start(self, *words: object, as_root: bool = True, **env: str) -> subprocess.Popen:
        """The same as a process of its own."""
        path = str(Path(tugtool.__file__).parent.parent)
        command = [sys.executable, "-m", "tugtool", "-C", str(self.root), "implement", "work"]
        process = subprocess.Popen(
            [*command, *map(str, words), "--json"],
            env={**os.environ, **IDENTITY, "PYTHONPATH": path, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=None if as_root else unprivileged,
            # As on a terminal: what is sent to the group reaches all that it starts.
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def end(self) -> None:
        """A test that failed leaves no run behind."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def tugcode(self, *words: object, at: Path | None = None) -> Result:
        return self._tugcode("-C", at or self.root, *words, "--json")

    def ok(self, *words: object, at: Path | None = None) -> dict:
        done = self.tugcode(*words, at=at)
        assert done.status == 0, done.out
        return done.data

    def calls(self, role: str = "") -> list[str]:
        """`coder step-1 1` for every call of an agent, in order: role, step, round."""
        found = logged_calls(str(self.log)) if self.log.exists() else []
        told = [call for call in found if role in ("", call["role"])]
        return [f"{call['role']} {call['step']} {call['round']}" for call in told]

    def rows(self, statement: str) -> list[dict]:
        store = open_store(f"sqlite://{self.root / '.tugtool' / 'state.db'}")
        with store.read(KEY) as tx:
            rows = [dict(row) for row in tx.all(statement)]
        store.close()
        return rows

    def steps(self) -> dict[str, str]:
        rows = self.rows("select * from steps where parent_anchor is null order by step_index")
        return {row["anchor"]: row["status"] for row in rows}

    def held(self) -> list[str]:
        return [row["anchor"] for row in self.rows("select * from steps where claimed_by <> ''")]

    def outcomes(self, step: str) -> list[str]:
        rows = self.rows("select * from attempts order by step_anchor, number")
        return [row["outcome"] for row in rows if row["step_anchor"] == step]

    def artifacts(self, kind: str) -> list[dict]:
        rows = self.rows("select * from step_artifacts order by id")
        return [row for row in rows if row["kind"] == kind]

    def trees(self) -> list[Path]:
        return sorted((self.root / ".tugtree").glob("tugplan__*"))

    def commits(self, step: str) -> list[str]:
        """Every commit on any branch that carries the step's trailer."""
        form = "--format=%H %(trailers:key=Tug-Step,valueonly,separator=%x20)"
        lines = git("log", "--all", form, cwd=self.root).splitlines()
        return [line.split()[0] for line in lines if line.split()[1:] == [step]]

    def finished(self, told: Sequence[dict] = ()) -> None:
        """The plan is done: every step once, nothing held, nothing lying about."""
        from support.implement_aftermath import aftermath

        aftermath(self, told)


def events(out: str) -> list[dict]:
    """What a run told, each held against its schema."""
    found = [json.loads(line) for line in out.splitlines()]
    for envelope in found:
        hold_against_schemas(envelope)
    return [envelope["data"] for envelope in found]


def kinds(told: list[dict]) -> list[str]:
    return [event["event"] for event in told]
