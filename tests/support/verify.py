"""A repository with a plan whose checkpoints name commands, held by a linked worktree."""

import os
import select
import shlex
import subprocess
import sys
from pathlib import Path

from conftest import Repo, Result
from support.state import KEY, TABLES
from support.terminals import tugcode as command_line
from tugtool.store import open_store


def plan(*checkpoints: str, below: tuple[str, ...] = ()) -> str:
    """A step with these checkpoints; a substep with those `below`."""
    parts = ["# Work\n\n### Step 1: First\n\n**Checkpoint:**\n"]
    parts += [f"- [ ] {text}\n" for text in checkpoints]
    if below:
        parts.append("\n#### Step 1.1: Below\n\n**Checkpoint:**\n")
        parts += [f"- [ ] {text}\n" for text in below]
    return "".join(parts)


class Stand:
    """The plan `work`, its step 1 claimed by the worktree red; blue is somebody else."""

    def __init__(self, repo: Repo, tugcode, text: str, *claim: object) -> None:
        self.repo, self._tugcode = repo, tugcode
        self.plan = repo.path / KEY
        self.red, self.blue = (repo.path / ".tugtree" / name for name in ("red", "blue"))
        repo.become("stand", text, make=lambda repo: self._made(repo, text))
        self.ok("claim", "work", *claim)

    def _made(self, repo: Repo, text: str) -> None:
        """Commit the plan, make the worktrees and record the plan."""
        repo.plan("work", text)
        repo.commit({"code.py": "pass\n", ".gitignore": "*.out\n*.fifo\n"})
        red, _ = (repo.linked(repo.path / ".tugtree" / name, name) for name in ("red", "blue"))
        self.ok("init", "work", at=red)

    def run(self, command: str, *words: object, at: Path | None = None) -> Result:
        return self._tugcode("-C", at or self.red, "state", command, *words)

    def json(self, command: str, *words: object, at: Path | None = None) -> Result:
        return self.run(command, *words, "--json", at=at)

    def ok(self, command: str, *words: object, at: Path | None = None) -> dict:
        done = self.json(command, *words, at=at)
        assert done.status == 0, done.out
        return done.data

    def verify(self, *words: object, step: str = "step-1") -> Result:
        return self.json("verify", "work", step, "--yes", *words)

    def outcomes(self, *words: object, step: str = "step-1") -> list[str]:
        return [each["outcome"] for each in self.verify(*words, step=step).data["checkpoints"]]

    def line(self, *words: object) -> list[str]:
        """`state verify` as a process of its own."""
        return command_line("state", "verify", "work", "step-1", *words, at=self.red)

    def process(self, *words: object, **how: object) -> subprocess.Popen:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(
            self.line("--yes", "--json", *words),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            **{**pipes, **how},
        )

    def rows(self, statement: str) -> list[dict]:
        store = open_store(f"sqlite://{self.repo.path / '.tugtool' / 'state.db'}")
        with store.read(KEY) as tx:
            rows = [dict(row) for row in tx.all(statement)]
        store.close()
        return rows

    def dump(self) -> dict[str, list[dict]]:
        return {table: self.rows(f"select * from {table}") for table in TABLES}

    def statuses(self) -> list[str]:
        rows = self.rows("select status from checklist_items order by step_anchor, ordinal")
        return [row["status"] for row in rows]

    def evidence(self) -> list[dict | None]:
        return [item["evidence"] for item in self.ok("show", "work")["checklist_items"]]

    def pictured(self) -> str:
        return self.run("show", "work", "--checklist").out


class Fifo:
    """A named pipe that commands hold open: its end shows that all of them are gone."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def until_written(self) -> None:
        """Wait until a command has written a line."""
        assert select.select([self.descriptor], [], [], 60)[0]
        assert os.read(self.descriptor, 1) != b""

    def until_ended(self) -> None:
        """Wait until nobody holds it open any more."""
        while True:
            assert select.select([self.descriptor], [], [], 60)[0], "somebody still runs"
            if os.read(self.descriptor, 4096) == b"":
                return


PYTHON = shlex.quote(sys.executable)
