"""A worktree whose steps are committed: in this process, or in one that is made to die."""

import os
import subprocess
import sys
from pathlib import Path

from conftest import Result
from support.state import KEY, Desk

IDENTITY = {
    "GIT_AUTHOR_NAME": "Tug",
    "GIT_AUTHOR_EMAIL": "tug@example.invalid",
    "GIT_COMMITTER_NAME": "Tug",
    "GIT_COMMITTER_EMAIL": "tug@example.invalid",
}
LOG = ".tugtool/log.md"


class Bench(Desk):
    """A desk whose holder, red, commits."""

    @property
    def log(self) -> Path:
        return self.red / LOG

    @property
    def hooks(self) -> Path:
        return self.repo.path / ".git" / "hooks"

    def git(self, *words: str, at: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *words], cwd=at or self.red, check=True, capture_output=True, text=True
        )
        return done.stdout

    def write(self, files: dict[str, str], at: Path | None = None) -> None:
        for name, text in files.items():
            path = (at or self.red) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def hold(self, *steps: str, at: Path | None = None) -> None:
        """Claim each step and close its items, so that only the commit is left."""
        for step in steps:
            self.ok("claim", "work", "--step", step, "--also", at=at)
            self.close(step, at=at)

    def close(self, step: str, at: Path | None = None) -> None:
        self.batch(step, b"[]", "--complete-remaining", at=at)

    def words(self, step: str, *more: str, message: str = "feat: work") -> list[str]:
        return ["commit", "--plan", "work", "--step", step, f"--message={message}", *more]

    def commit_text(self, step: str, *more: str, at: Path | None = None, **how: str) -> Result:
        return self._tugcode("-C", at or self.red, *self.words(step, *more, **how))

    def commit_json(self, step: str, *more: str, at: Path | None = None, **how: str) -> Result:
        return self.commit_text(step, "--json", *more, at=at, **how)

    def done(self, step: str, *more: str, at: Path | None = None, **how: str) -> dict:
        """The data of a commit that succeeds, also in the state."""
        result = self.commit_json(step, *more, at=at, **how)
        assert result.status == 0, result.out
        assert not result.data["state_update_failed"], result.out
        return result.data

    def process(
        self, *words: str, at: Path | None = None, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """The same as a process of its own."""
        return subprocess.run(
            [sys.executable, "-m", "tugtool", *words],
            cwd=at or self.red,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            check=False,
        )

    def crash(self, point: str, step: str, *more: str) -> None:
        """A commit that dies at the point."""
        dead = self.process(*self.words(step, *more), TUGCODE_CRASH_AT=point)
        assert dead.returncode == -9, (dead.returncode, dead.stdout, dead.stderr)

    def hook(self, name: str, script: str) -> None:
        self.hooks.mkdir(exist_ok=True)
        path = self.hooks / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def head(self, at: Path | None = None) -> str:
        return self.git("rev-parse", "HEAD", at=at).strip()

    def commits(self, at: Path | None = None) -> list[str]:
        """Hashes since the worktree was made, newest first."""
        return self.git("rev-list", f"{self.commit}..HEAD", at=at).split()

    def message(self, commit: str = "HEAD") -> str:
        return self.git("log", "-1", "--format=%B", commit)

    def trailers(self, commit: str = "HEAD") -> list[str]:
        out = self.git("log", "-1", "--format=%(trailers:only,unfold)", commit)
        return [line for line in out.splitlines() if line]

    def entries(self, at: Path | None = None) -> list[str]:
        """Step and title of the log's entries, newest first."""
        path = (at or self.red) / LOG
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.split("**")[1] for line in lines if line.startswith("- ")]

    def intents(self) -> list[dict]:
        return self.rows("select * from intents")

    def step(self, anchor: str) -> dict:
        return self.rows(f"select * from steps where anchor = '{anchor}'")[0]

    def claim_of(self, anchor: str) -> str:
        hash_ = self.rows("select plan_hash from plans")[0]["plan_hash"]
        return f"{hash_[:12]}/{anchor}/{self.step(anchor)['attempt']}"

    def set_of(self, anchor: str) -> list[str]:
        """The trailers that its commit must have."""
        return [f"Tug-Step: {anchor}", f"Tug-Plan: {KEY}", f"Tug-Claim: {self.claim_of(anchor)}"]
