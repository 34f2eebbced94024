"""The stage: a repository with a committed plan, and what became of it when a client was there."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from running import Home
from script import PLAN

#: A person who lets everything pass, so that nobody but the guard is in an agent's way.
LENIENT = {"permissions": {"allow": ["Bash", "Edit(/.tugtree/**)"]}}
#: A person who lets agents edit, and for the rest has what `tugcode init --claude` wrote.
CAREFUL = {"permissions": {"defaultMode": "acceptEdits"}}


class Repository:
    """A repository in which a person has agreed to a plan, and trusts the client."""

    def __init__(self, path: Path, home: Home, *, settings: dict[str, Any], rules: bool) -> None:
        self.path, self.home = path, home
        path.mkdir()
        self.git("init", "--quiet", "--initial-branch=main", "--template=")
        self.git("config", "user.name", "Ada")
        self.git("config", "user.email", "ada@example.invalid")
        self.run("tugcode", "init", *(["--claude"] if rules else []))
        text = (Path(__file__).parent / "plan.md").read_text()
        (path / ".tugtool" / f"tugplan-{PLAN}.md").write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=plan: hello and goodbye")
        (path / ".claude").mkdir(exist_ok=True)
        (path / ".claude" / "settings.local.json").write_text(json.dumps(settings))
        # What is written when a person answers the client's question about a new directory.
        trusted = {"projects": {str(path): {"hasTrustDialogAccepted": True}}}
        (home.path / ".claude.json").write_text(json.dumps(trusted))

    def run(self, *command: str) -> str:
        return self.home.run(*command, cwd=self.path).expect()

    def git(self, *arguments: str) -> str:
        return self.run("git", *arguments)

    def state(self) -> dict[str, Any]:
        """The whole record of the plan."""
        told: dict[str, Any] = json.loads(self.run("tugcode", "state", "show", PLAN, "--json"))
        data: dict[str, Any] = told["data"]
        return data

    def trailers(self, commit: str) -> dict[str, str]:
        """What a commit says of the step that it is for."""
        lines = self.git("log", "-1", "--format=%(trailers:only,unfold)", commit).splitlines()
        return dict(line.split(": ", 1) for line in lines if line.startswith("Tug-"))

    def contains(self, text: str) -> bool:
        """Whether a file is named so or has it in it, or a commit's message, or the record."""
        found = [self.git("log", "--all", "--reflog", "--format=%B"), json.dumps(self.state())]
        for path in self.path.rglob("*"):
            found += [path.name, path.read_text(errors="replace") if path.is_file() else ""]
        return any(text in each for each in found)


class Used(NamedTuple):
    """One use of a tool: by which agent (None: the conductor), and what it was told."""

    agent: str | None
    tool: str
    arguments: dict[str, Any]
    told: str = ""
    failed: bool = True

    @property
    def refused(self) -> bool:
        """Whether a hook was in the way, and not the client's own rules or the command itself."""
        return self.failed and self.told.startswith("PreToolUse:")


def transcript(events: list[dict[str, Any]]) -> list[Used]:
    """Every use of a tool, in order, from the client's stream of events."""
    used: dict[str, Used] = {}
    for event in events:
        if event["type"] not in ("assistant", "user"):
            continue
        for block in event["message"]["content"]:
            _take(used, event.get("subagent_type"), block)
    return list(used.values())


def _take(used: dict[str, Used], agent: str | None, block: Any) -> None:
    if block["type"] == "tool_use":
        used[block["id"]] = Used(agent, block["name"], block["input"])
    if block["type"] == "tool_result":
        known = used[block["tool_use_id"]]
        told = block["content"] if isinstance(block["content"], str) else str(block["content"])
        failed = bool(block.get("is_error"))
        used[block["tool_use_id"]] = known._replace(told=told, failed=failed)
