"""Claude Code and Codex carry out a step under `tugcode implement`, confined by the kernel.

The clients are real, the model is a script: the coder writes its file, and then tries to leave
its worktree. Confined, its attempts fail and the step is done all the same; free, they succeed.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from endpoint import Endpoint, serving
from player import CONDUCTOR, Cast, Unscripted
from running import Home
from script import Part
from skill import last_object
from wire import Call

PLAN = """\
## Words {#words}

#### Step 1: Say hello {#step-1}

**Commit:** `feat: say hello`

**Tasks:**
- [ ] write hello.txt
**Checkpoint:**
- [ ] `grep -q hello hello.txt`
"""
CONFIG = """\
[agents.default]
preset = "{preset}"
confine = "{confine}"
timeout_seconds = 240
tries = 1
[agents.architect]
preset = "none"
[agents.auditor]
preset = "none"
[agents.integrator]
preset = "none"
"""
#: How Codex finds the scripted model.
CODEX = """\
model = "scripted"
model_provider = "script"
[model_providers.script]
name = "script"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
"""
#: The coder's commands: its work, and then a script with ways out of its worktree.
SCRIPT = (
    "echo x > ../../escaped",
    "echo x > ../../.git/escaped",
    "touch ../../../escaped",
    "echo x >> ../../.tugtool/state.db",
    "git update-ref refs/heads/escaped HEAD",
    "rm try.sh",
    "echo tried",
)
LINES = " ".join(f"'{line}'" for line in SCRIPT)
WORK = (
    f"echo hello > hello.txt && printf '%s\\n' {LINES} > try.sh && git status --short "
    "&& git diff --stat"
)
ESCAPES = "sh try.sh"


def play(prompt: str) -> Part:
    """The coder or the reviewer, whoever is asked."""
    task = last_object(prompt)
    if task["role"] == "coder":
        yield Call("Bash", {"command": WORK, "description": "write the file"})
        yield Call("Bash", {"command": ESCAPES, "description": "try to leave"})
        return json.dumps(_report())
    if task["role"] == "reviewer":
        yield Call("Bash", {"command": "cat hello.txt", "description": "look at it"})
        return json.dumps(_verdict())
    raise Unscripted(f"nobody plays the {task['role']}")


def _report() -> dict[str, Any]:
    done = [{"ordinal": 0, "status": "completed"}]
    return {
        "success": True,
        "summary": "hello.txt says hello",
        "files_created": ["hello.txt"],
        "files_modified": [],
        "tests_passed": True,
        "build_passed": True,
        "checklist_status": {"tasks": done, "tests": [], "checkpoints": done},
        "drift_assessment": {"drift_severity": "none"},
    }


def _verdict() -> dict[str, Any]:
    passed = [{"step_anchor": "step-1", "ordinal": 0, "verdict": "PASS"}]
    return {
        "plan_conformance": {"tasks": passed, "checkpoints": passed},
        "issues": [],
        "recommendation": "APPROVE",
        "summary": "as planned",
    }


class Played(NamedTuple):
    """A run, and the repository that it was in."""

    path: Path
    home: Home
    events: list[dict[str, Any]]
    endpoint: Endpoint

    def escaped(self) -> list[str]:
        """What lies outside of the worktree that the coder wanted to leave there."""
        places = (self.path, self.path / ".git", self.path.parent)
        found = [str(each / "escaped") for each in places if (each / "escaped").exists()]
        refs = self.home.run("git", "for-each-ref", "refs/heads/escaped", cwd=self.path).expect()
        return found + refs.split()


def run(place: Path, preset: str, confine: str) -> Iterator[Played]:
    with serving(Cast({CONDUCTOR: play}, {})) as endpoint:
        home = Home(place / "home", endpoint.url)
        (home.path / ".codex" / "config.toml").write_text(CODEX.format(url=endpoint.url))
        path = place / "work" / "repository"
        path.mkdir(parents=True)
        for words in (
            ("git", "init", "--quiet", "--initial-branch=main", "--template="),
            ("git", "config", "user.name", "Ada"),
            ("git", "config", "user.email", "ada@example.invalid"),
            ("tugcode", "init"),
        ):
            home.run(*words, cwd=path).expect()
        (path / ".tugtool" / "tugplan-words.md").write_text(PLAN)
        settings = CONFIG.format(preset=preset, confine=confine)
        (path / ".tugtool" / "config.toml").write_text(settings)
        home.run("git", "add", "--all", cwd=path).expect()
        home.run("git", "commit", "--quiet", "--message=plan", cwd=path).expect()
        home.run("tugcode", "trust", "--yes", cwd=path).expect()
        told = home.run(
            *("tugcode", "implement", "words", "--json"),
            cwd=path,
            ANTHROPIC_BASE_URL=endpoint.url,
            ANTHROPIC_API_KEY="placeholder",
            OPENAI_API_KEY="placeholder",
        )
        events = [json.loads(line) for line in told.out.splitlines()]
        yield Played(path, home, events, endpoint)
        assert home.lasting() == []


@pytest.fixture(params=["claude", "codex"])
def preset(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_confined_client_does_its_step_and_leaves_nothing_outside(
    tmp_path: Path, preset: str
) -> None:
    for played in run(tmp_path, preset, "worktree"):
        assert played.endpoint.lost == [], played.endpoint.lost
        asked = [ask for _, ask in played.endpoint.asked if len(ask.results) == 2]
        assert "tried" in asked[0].results[1].text
        assert "hello.txt" in asked[0].results[0].text
        shown = played.home.run("tugcode", "show", "words", "--json", cwd=played.path).expect()
        (step,) = json.loads(shown)["data"]["steps"]
        assert step["status"] == "completed", played.events[-3:]
        assert played.escaped() == []


def test_a_free_client_leaves_its_worktree(tmp_path: Path) -> None:
    """So the test above can fail."""
    for played in run(tmp_path, "claude", "none"):
        assert any("escaped" in json.dumps(each) for each in played.events) or played.escaped()
