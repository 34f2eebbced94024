"""A repository with a committed plan, in which worktrees come and go."""

import contextlib
import copy
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Self

from conftest import Repo, Result, git, head, hold_against_schemas
from support.state import KEY, markdown
from tugtool.store import open_store

IDENTITY = {
    "GIT_AUTHOR_NAME": "Tug",
    "GIT_AUTHOR_EMAIL": "tug@example.invalid",
    "GIT_COMMITTER_NAME": "Tug",
    "GIT_COMMITTER_EMAIL": "tug@example.invalid",
}


def committed(repo: Repo, *lines: str) -> str:
    """Commit the plan `work` and some code."""
    repo.plan("work", markdown(*lines))
    return repo.commit({"code.txt": "".join(f"line {n}\n" for n in range(20))})


def claim_for_two_plans(yard, plan: str, owner: Path) -> None:
    """Let a worktree hold a step of another plan, too, as it could before that was refused."""
    yard.run("state", "claim", plan)
    with contextlib.closing(sqlite3.connect(yard.repo.path / ".tugtool" / "state.db")) as database:
        told = {"owner": str(owner), "root": str(yard.repo.path)}
        for table, column in (("steps", "claimed_by"), ("attempts", "worktree")):
            database.execute(f"update {table} set {column} = :owner where {column} = :root", told)
        database.commit()


class Yard:
    """The plan `work`, committed on main, and commands run from the main worktree."""

    def __init__(self, repo: Repo, tugcode, *lines: str) -> None:
        self.repo, self._tugcode = repo, tugcode
        self.root = repo.path
        self.plan = repo.path / KEY
        self.start = repo.become("yard", *lines, make=lambda repo: committed(repo, *lines))

    def at(self, repo: Repo) -> Self:
        """The same in another repository."""
        there = copy.copy(self)
        there.repo, there.root, there.plan = repo, repo.path, repo.path / KEY
        return there

    def shared(self, *key: object, make: Callable[[Self], object]) -> object:
        """Do what `make` does with a yard and return that, which has no paths; see `become`."""
        return self.repo.become(*key, make=lambda repo: make(self.at(repo)))

    def run(self, *words: object, at: Path | None = None) -> Result:
        return self._tugcode("-C", at or self.root, *words, "--json")

    def ok(self, *words: object, at: Path | None = None) -> dict:
        """The data of a command that succeeds."""
        done = self.run(*words, at=at)
        assert done.status == 0, done.out
        return done.data

    def said(self, *words: object) -> str:
        """What a command that succeeds tells people."""
        done = self._tugcode("-C", self.root, *words)
        assert done.status == 0, done.err
        return done.out

    def refused(self, code: str, *words: object, at: Path | None = None) -> str:
        """The message of a command that refuses, and leaves git as it was."""
        before = self.picture()
        done = self.run(*words, at=at)
        assert done.codes[-1] == code, done.out
        assert self.picture() == before
        return done.envelope()["issues"][-1]["message"]

    def create(self, *words: object, plan: str = "work") -> Path:
        return Path(self.ok("worktree", "create", plan, *words)["worktree_path"])

    def names(self) -> list[str]:
        return [tree["name"] for tree in self.ok("worktree", "list")["worktrees"]]

    def refs(self) -> dict[str, str]:
        out = self.repo.git("for-each-ref", "--format=%(refname) %(objectname)")
        return dict(line.split() for line in out.splitlines())

    def picture(self) -> tuple:
        """All that a refused command must leave alone: refs, worktrees, files, index."""
        place = self.root / ".tugtree"
        return (
            self.refs(),
            self.repo.git("worktree", "list", "--porcelain"),
            sorted(os.listdir(place)) if place.exists() else [],
            changed(self.root),
            self.rows("select * from worktrees") if self.has_state() else [],
            self.rows("select * from intents") if self.has_state() else [],
        )

    def has_state(self) -> bool:
        return (self.root / ".tugtool" / "state.db").exists()

    def rows(self, statement: str) -> list[dict]:
        store = open_store(f"sqlite://{self.root / '.tugtool' / 'state.db'}")
        with store.read(KEY) as tx:
            rows = [dict(row) for row in tx.all(statement)]
        store.close()
        return rows

    def commit(self, at: Path, files: dict[str, str | bytes], message: str = "work") -> str:
        """Commit in a worktree, as a worker would."""
        Repo(at).write(files)
        git("add", "--all", cwd=at)
        git("commit", "--quiet", f"--message={message}", cwd=at)
        return head(at)

    def do(self, at: Path, step: str, files: dict[str, str | bytes]) -> str:
        """Claim a step from a worktree, commit, complete it with the commit."""
        self.ok("state", "claim", "work", "--step", step, "--also", at=at)
        commit = self.commit(at, files, message=f"work on {step}")
        self.ok("state", "complete", "work", step, "--commit", commit, "--force", "r", at=at)
        return commit

    def free(self, at: Path) -> None:
        """End the reservation: claim a step and give it back."""
        step = self.ok("state", "claim", "work", at=at)["anchor"]
        self.ok("state", "release", "work", step, at=at)


def changed(at: Path) -> str:
    """All that differs between commit, index and files; the index with the names of its blobs."""
    return git("status", "--porcelain=v2", cwd=at)


def process(cwd: Path, *words: object, apart: bool = False, **environment: str) -> subprocess.Popen:
    """`tugcode --json` as a process of its own; `apart`: with a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "tugtool", *map(str, words), "--json"],
        cwd=cwd,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=apart,
    )


def crashed(cwd: Path, point: str, *words: object) -> None:
    """Run a command that dies at a crash point."""
    process_ = process(cwd, *words, TUGCODE_CRASH_AT=point)
    out, _ = process_.communicate()
    assert process_.returncode == -9, f"{point} was not reached: {out}"


def answered(process_: subprocess.Popen) -> dict:
    """The data that a process answered with."""
    out, err = process_.communicate()
    assert process_.returncode == 0, out + err
    envelope = json.loads(out)
    hold_against_schemas(envelope)
    return envelope["data"]


def fsck(path: Path) -> None:
    """Git finds nothing wrong with the repository."""
    done = subprocess.run(
        ["git", "fsck", "--full", "--no-dangling"], cwd=path, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
