"""Several machines: clones with a name of their own, one state, one bare remote."""

import os
import subprocess
import sys
from pathlib import Path

from conftest import Repo, Result, git, hold_against_schemas
from support.state import markdown
from support.worktree import IDENTITY

CONFIG = ".tugtool/config.toml"
SETTINGS = '[state]\nrepository = "team/shop"\n[remote]\nname = "origin"\nseconds = 20\n'


class Machine:
    """One clone. Its commands run as on a machine of that name."""

    def __init__(self, fleet: "Fleet", name: str, path: Path) -> None:
        self.fleet, self.name, self.path = fleet, name, path

    @property
    def environment(self) -> dict[str, str]:
        home = self.path.parent / f"home-{self.name}"
        return {"TUGCODE_MACHINE": self.name, "HOME": str(home), **IDENTITY}

    def run(self, *words: object, at: object = None, **env: str) -> Result:
        """Run a command in this process."""
        with self.fleet.monkeypatch.context() as patch:
            for key, value in {**self.environment, **env}.items():
                patch.setenv(key, value)
            return self.fleet.tugcode("-C", at or self.path, *words)

    def data(self, *words: object, at: object = None, **env: str) -> dict:
        done = self.run(*words, "--json", at=at, **env)
        assert done.status == 0, done.out + done.err
        return done.data

    def spawn(self, *words: object, at: object = None, **env: str) -> subprocess.CompletedProcess:
        """Run a command in a process of its own."""
        argv = [sys.executable, "-m", "tugtool", "-C", str(at or self.path), *map(str, words)]
        whole = {**os.environ, **self.environment, **env}
        return subprocess.run(argv, env=whole, capture_output=True, text=True, check=False)

    def ask(self, *words: object, at: object = None, **env: str) -> dict:
        """Run a command in a process of its own, and return its data."""
        done = self.spawn(*words, "--json", at=at, **env)
        assert done.returncode == 0, done.stdout + done.stderr
        import json

        envelope = json.loads(done.stdout)
        hold_against_schemas(envelope)
        return envelope["data"]

    def git(self, *words: str, at: object = None) -> str:
        return git(*words, cwd=at or self.path)

    def work(self, path: object, anchor: str, *more: str) -> Result:
        """Do a claimed step: a file, its items, the commit."""
        (Path(path) / f"{anchor}.txt").write_text(f"{anchor} by {self.name}\n")
        self.data("state", "update", "work", anchor, "--all", "completed", at=path)
        words = ("commit", "--plan", "work", "--step", anchor, "--message", f"feat: {anchor}")
        return self.run(*words, *more, "--json", at=path)

    def step(self, **how: object) -> tuple[Path, str, Result]:
        """Claim a step in a worktree of its own, and do it."""
        made = self.data("worktree", "create", "work", "--new", "--claim", **how)
        path, anchor = Path(made["worktree_path"]), made["claim"]["anchor"]
        if made["claim"]["missing_commits"]:
            self.data("worktree", "sync", "work", at=path)
        return path, anchor, self.work(path, anchor)


class Fleet:
    """The machines of a team, and the remote that all of them know as `origin`."""

    def __init__(
        self, directory: Path, first: Repo, tugcode, monkeypatch, *lines: str, settings=SETTINGS
    ) -> None:
        self.tugcode, self.monkeypatch, self.directory = tugcode, monkeypatch, directory
        self.bare = directory / "shop.git"
        first.plan("work", markdown(*lines))
        first.write({CONFIG: settings})
        first.commit()
        git("clone", "--quiet", "--bare", str(first.path), str(self.bare), cwd=directory)
        self.machines: dict[str, Machine] = {}

    def join(self, name: str, path: Path | None = None) -> Machine:
        """A new machine with a fresh clone."""
        path = path or self.directory / name / "shop"
        path.parent.mkdir(parents=True, exist_ok=True)
        git("clone", "--quiet", str(self.bare), str(path), cwd=self.directory)
        self.machines[name] = Machine(self, name, path)
        return self.machines[name]

    def start(self, *names: str) -> list[Machine]:
        """Clones for all; the first makes the tables and records the plan."""
        every = [self.join(name) for name in names]
        every[0].data("state", "init", "work", "--create-database")
        return every

    def tip(self, branch: str) -> str:
        """The commit of a branch at the remote; empty if there is none."""
        done = subprocess.run(
            ["git", "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}"],
            cwd=self.bare,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.strip()

    def hook(self, text: str, name: str = "pre-receive") -> Path:
        """Put a hook in the remote."""
        path = self.bare / "hooks" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path
