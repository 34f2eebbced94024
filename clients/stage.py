"""The stage: a real repository with a committed plan, and a transcript of what a client did there."""

import json
from pathlib import Path
from typing import Any

from running import Home

PLAN = "words"


class Repository:
    """A repository in which a person has agreed to a plan, and trusts the client."""

    def __init__(self, path: Path, home: Home) -> None:
        self.path, self.home = path, home
        path.mkdir()
        self.git("init", "--quiet", "--initial-branch=main", "--template=")
        self.git("config", "user.name", "Ada")
        self.git("config", "user.email", "ada@example.invalid")
        self.run("tugcode", "init", "--claude")
        text = (Path(__file__).parent / "plan.md").read_text()
        (path / ".tugtool" / f"tugplan-{PLAN}.md").write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=plan: hello and goodbye")

    def run(self, *command: str) -> str:
        return self.home.run(*command, cwd=self.path).expect()

    def git(self, *arguments: str) -> str:
        return self.run("git", *arguments)

    def state(self) -> dict[str, Any]:
        """The whole record of the plan."""
        told: dict[str, Any] = json.loads(self.run("tugcode", "state", "show", PLAN, "--json"))
        return told

    def trailers(self, commit: str) -> dict[str, str]:
        """What a commit says of the step that it is for."""
        lines = self.git("log", "-1", "--format=%(trailers:only,unfold)", commit).splitlines()
        return dict(line.split(": ", 1) for line in lines if line.startswith("Tug-"))
