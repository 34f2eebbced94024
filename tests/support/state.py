"""A plan's state to try things on: in this process with a clock that obeys, or at the command line.

A plan is drawn as lines like `2.1 tte < 1 3.2`: step 2.1 with two tasks and a test, which
depends on steps 1 and 3.2. `t` is a task, `e` a test, `c` a checkpoint.
"""

import contextlib
import copy
import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from conftest import Repo, Result
from support import engines
from tugtool import state
from tugtool.errors import TugError
from tugtool.plan import fingerprint, parser
from tugtool.state.claims import Request
from tugtool.state.proofs import Proof
from tugtool.state.record import PlanCopy
from tugtool.state.revision_plan import Allowed
from tugtool.store import open_store

KEY = ".tugtool/tugplan-work.md"
NOON = 1_771_848_000_000  # 2026-02-23T12:00:00.000Z
LABELS = {"t": ("Tasks", "task"), "e": ("Tests", "test"), "c": ("Checkpoint", "checkpoint")}
TABLES = (
    *("plans", "plan_counts", "plan_revisions", "steps", "step_deps", "checklist_items"),
    *("step_artifacts", "attempts", "events"),
)


def anchor(number: str) -> str:
    return "step-" + number.replace(".", "-")


def markdown(*lines: str) -> str:
    """The plan that the lines draw; `1 tc | `make` passes` says what its first checkpoint is."""
    parts = ["# Work\n"]
    for line in lines:
        drawn, *texts = line.split(" | ")
        left, _, needs = drawn.partition("<")
        number, letters = [*left.split(), ""][:2]
        level = "####" if "." in number else "###"
        parts.append(f"\n{level} Step {number}: Part {number}\n")
        if needs:
            wanted = ", ".join(f"#{anchor(need)}" for need in needs.split())
            parts.append(f"\n**Depends on:** {wanted}\n")
        for letter, (label, kind) in LABELS.items():
            boxes = [f"{kind} {n} of {number}" for n in range(letters.count(letter))]
            if letter == "c":
                boxes[: len(texts)] = texts
            parts += [f"\n**{label}:**\n", *(f"- [ ] {box}\n" for box in boxes)] if boxes else []
    return "".join(parts)


class Clock:
    """Milliseconds since 1970, moved by hand."""

    def __init__(self, now: int = NOON) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += round(seconds * 1000)


class Lab:
    """One plan in a database of its own; `red` is whoever acts unless somebody is named."""

    def __init__(
        self, directory: Path, *lines: str, max_attempts: int = 5, text: str | None = None
    ) -> None:
        self.clock = Clock()
        self.url = engines.url_in(directory)
        self.store = engines.opened(self.url, self.clock)
        self.text = text or markdown(*lines)
        self.hash = fingerprint.of(self.text.encode())
        self.copy = PlanCopy("/the/plan.md", self.hash)
        self.max_attempts = max_attempts
        parsed = parser.parse(self.text)
        self.made = state.init(self.store, KEY, parsed, text=self.text, hash=self.hash)

    def claim(self, owner: str = "red", step: str | None = None, **how: object) -> dict:
        how.setdefault("max_attempts", self.max_attempts)
        # Most of these tests are about something else than how many steps red holds.
        how.setdefault("also", True)
        copy = how.pop("copy", self.copy)
        return state.claim(self.store, KEY, Request(owner, **how), copy=copy, step=step)

    def start(self, step: str, owner: str = "red", **how: object) -> dict:
        return state.start(self.store, KEY, step, owner=owner, **how)

    def beat(self, step: str, owner: str = "red", **how: object) -> dict:
        return state.heartbeat(self.store, KEY, step, owner=owner, **how)

    def update(self, step: str, *entries: dict, owner: str = "red", **how: object) -> dict:
        how.setdefault("copy", self.copy)
        answer, self.unexplained = state.update(self.store, KEY, step, entries, owner=owner, **how)
        return answer

    def tick(self, step: str, *items: str, status: str = "completed", **how: object) -> dict:
        """`tick("step-1", "t0", "c1")`."""
        return self.update(step, *(entry(item, status) for item in items), **how)

    def close(self, step: str, owner: str = "red", **how: object) -> dict:
        """Everything under the step is done."""
        return self.update(step, owner=owner, complete_remaining=True, **how)

    def artifact(self, step: str, owner: str = "red", **how: object) -> dict:
        what = {"kind": "note", "summary": "seen", **how}
        return state.artifact(self.store, KEY, step, owner=owner, **what)

    def complete(self, step: str, owner: str = "red", **how: object) -> dict:
        how.setdefault("copy", self.copy)
        return state.complete(self.store, KEY, step, owner=owner, **how)

    def finish(self, step: str, owner: str = "red") -> dict:
        """Claim the step, do everything, complete it."""
        self.claim(owner, step)
        self.close(step, owner)
        return self.complete(step, owner)

    def release(self, step: str, owner: str = "red", **how: object) -> dict:
        answer, self.unsaved = state.release(self.store, KEY, step, owner=owner, **how)
        return answer

    def reset(self, step: str, reason: str | None = None) -> dict:
        answer, self.unsaved = state.reset(self.store, KEY, step, actor="person", reason=reason)
        return answer

    def reopen(self, step: str, **how: object) -> dict:
        return state.reopen(self.store, KEY, step, **{"reason": "reverted", **how})

    def accept(self, step: str, item: str | None = None, **how: object) -> dict:
        return state.accept(self.store, KEY, step, **{"by": "Ada", **_which(item), **how})

    def reject(self, step: str, item: str | None = None, **how: object) -> dict:
        said = {"by": "Ada", "note": "not so", **_which(item)}
        return state.reject(self.store, KEY, step, **{**said, **how})

    def review(self, plan: str | None = KEY) -> dict:
        return state.review(self.store, plan)

    def archive(self, *, undo: bool = False) -> dict:
        return state.archive(self.store, KEY, undo=undo, actor="person")

    def reconcile(self, *steps: str, attempt: int = 0, **how: object) -> dict:
        """`reconcile("step-1")`: git has a commit for each, `c-step-1`."""
        proofs = {each: Proof(each, f"c-{each}", attempt) for each in steps}
        highest = dict.fromkeys(steps, attempt)
        seen = {(each, attempt) for each in steps}
        what = {"plan_hash": self.hash, "highest": highest, "seen": seen, **how}
        return state.reconcile(self.store, KEY, proofs, **what)

    def pause(self, **why: str) -> dict:
        return state.pause(self.store, KEY, **why)

    def resume(self, **why: str) -> dict:
        return state.resume(self.store, KEY, **why)

    def revise(self, text: str, *flags: str, dry_run: bool = False) -> dict:
        """Accept another text: `revise(text, "drop_claimed")`; the caller's copy is that then."""
        hash, allowed = (
            fingerprint.of(text.encode()),
            Allowed(**{"revert": True, **dict.fromkeys(flags, True)}),
        )
        new = {"text": text, "hash": hash, "allowed": allowed, "dry_run": dry_run}
        answer = state.revise(self.store, KEY, parser.parse(text), actor="person", **new)
        if not dry_run:
            self.text, self.hash, self.copy = text, hash, PlanCopy("/the/plan.md", hash)
        return answer

    def ready(self) -> dict:
        return state.ready(self.store, KEY)

    def show(self) -> dict:
        return state.show(self.store, KEY)

    def rows(self, statement: str, **values: object) -> list[dict]:
        with self.store.read(KEY) as tx:
            return [dict(row) for row in tx.all(statement, **values)]

    def dump(self) -> dict[str, list[dict]]:
        """Every row of every table, in an order that no engine chooses."""
        return {table: sorted_rows(self.rows(f"select * from {table}")) for table in TABLES}

    def plan(self) -> dict:
        return self.rows("select * from plans natural join plan_counts")[0]

    def row(self, step: str) -> dict:
        return self.rows("select * from steps where plan_path = :plan and anchor = :a", a=step)[0]

    def status(self, step: str) -> str:
        return self.row(step)["status"]

    def items(self, step: str) -> dict[str, str]:
        """`{"t0": "open", ...}`."""
        rows = self.rows("select * from checklist_items where step_anchor = :a", a=step)
        return {letter(row["kind"]) + str(row["ordinal"]): row["status"] for row in rows}

    def item(self, step: str, name: str) -> dict:
        where = "step_anchor = :a and kind = :k and ordinal = :o"
        wanted = {"a": step, "k": LABELS[name[0]][1], "o": int(name[1:])}
        return self.rows(f"select * from checklist_items where {where}", **wanted)[0]

    def attempts(self, step: str) -> list[dict]:
        return self.rows("select * from attempts where step_anchor = :a order by number", a=step)

    def events(self) -> list[str]:
        return [row["kind"] for row in self.rows("select kind from events order by seq")]

    @contextlib.contextmanager
    def refuses(self, code: str, *words: str) -> Iterator[pytest.ExceptionInfo]:
        """Inside, the code is raised; and nothing is changed, renewed or noted by it."""
        before = self.dump()
        with pytest.raises(TugError) as caught:
            yield caught
        assert caught.value.code == code, caught.value.message
        for word in words:
            assert word in caught.value.message
        assert self.dump() == before

    def holds_together(self) -> bool:
        """Whether every row refers to rows that are there; PostgreSQL takes no others."""
        return engines.is_postgres(self.url) or not self.rows("pragma foreign_key_check")

    @contextlib.contextmanager
    def unchanged(self) -> Iterator[None]:
        before = self.dump()
        yield
        assert self.dump() == before


def sorted_rows(rows: list[dict]) -> list[dict]:
    """Rows in the order of what they say."""
    return sorted(
        rows, key=lambda row: [(v is not None, 0 if v is None else v) for v in row.values()]
    )


def _which(item: str | None) -> dict:
    return {"kind": LABELS[item[0]][1], "ordinal": int(item[1:])} if item else {}


def letter(kind: str) -> str:
    return next(letter for letter, (_, name) in LABELS.items() if name == kind)


def entry(item: str, status: str = "completed", **more: object) -> dict:
    """`entry("t0")` -> `{"kind": "task", "ordinal": 0, "status": "completed"}`."""
    return {"kind": LABELS[item[0]][1], "ordinal": int(item[1:]), "status": status, **more}


class Desk:
    """A repository with the plan `work` and two linked worktrees, driven by commands."""

    def __init__(self, repo: Repo, tugcode, monkeypatch, *lines: str, init: bool = False) -> None:
        self.repo, self._tugcode, self._monkeypatch = repo, tugcode, monkeypatch
        self._lines, self._init = lines, init
        self.plan = repo.path / KEY
        self.repository = None
        if engines.current() == "postgres":
            self._init, self.repository = False, engines.REPOSITORY
        self.commit = repo.become("desk", *lines, self._init, make=self._made)
        self._locate(repo)
        if self.repository is not None:
            self._move_to_server()
            if init:
                self.ok("init", "work")
        elif engines.current() == "served":
            from support import served

            self.repo.live()
            self.setenv("TUGCODE_STATE_URL", served.repository(self.repo.path))

    def _move_to_server(self) -> None:
        """Have the state in PostgreSQL; nothing that is done from now on can be copied."""
        self.repo.live()
        self.repo.git("remote", "add", "origin", f"https://{self.repository}")
        self.setenv("TUGCODE_STATE_URL", self.url)

    def _locate(self, repo: Repo) -> None:
        self.repo, self.plan = repo, repo.path / KEY
        self.red, self.blue = (repo.path / ".tugtree" / name for name in ("red", "blue"))
        self.url = engines.url_in(repo.path / ".tugtool", self.repository)

    def shared(self, *key: object, make: Callable[[Self], object]) -> object:
        """Do what `make` does with a desk and return that, which has no paths; see `become`."""

        def made(repo: Repo) -> object:
            there = copy.copy(self)
            there._locate(repo)
            return make(there)

        return self.repo.become(*key, make=made)

    def _made(self, repo: Repo) -> str:
        """Commit the plan, make the worktrees and record the plan; the commit."""
        repo.plan("work", markdown(*self._lines))
        commit = repo.commit({"code.py": "pass\n"})
        for name in ("red", "blue"):
            repo.linked(repo.path / ".tugtree" / name, name)
        if self._init:
            self.red = repo.path / ".tugtree" / "red"
            self.ok("init", "work")
        return commit

    def text(self, command: str, *words: object, at: Path | None = None) -> Result:
        """`desk.text("claim", "work")`, as red unless `at` another worktree."""
        return self._tugcode("-C", at or self.red, "state", command, *words)

    def json(self, command: str, *words: object, at: Path | None = None) -> Result:
        return self.text(command, *words, "--json", at=at)

    def ok(self, command: str, *words: object, at: Path | None = None) -> dict:
        """The data of a command that succeeds."""
        done = self.json(command, *words, at=at)
        assert done.status == 0, done.out
        return done.data

    def feed(self, data: bytes) -> None:
        """What the next command finds on standard input."""
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    def setenv(self, name: str, value: str) -> None:
        self._monkeypatch.setenv(name, value)

    def batch(self, step: str, data: bytes, *words: object, at: Path | None = None) -> Result:
        self.feed(data)
        return self.json("update", "work", step, "--batch", *words, at=at)

    def rows(self, statement: str) -> list[dict]:
        store = self.opened()
        with store.read(KEY) as tx:
            rows = [dict(row) for row in tx.all(statement)]
        store.close()
        return rows

    def opened(self, **how: Any) -> Any:
        """The state that the commands use."""
        return open_store(self.url, repository=self.repository, **how)

    def dump(self) -> dict[str, list[dict]]:
        return {table: self.rows(f"select * from {table}") for table in TABLES}
