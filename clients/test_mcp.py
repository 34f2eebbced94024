"""Real clients with nothing but the tools of `tugcode mcp`, against scripted models.

Claude Code and Codex carry out a plan of three steps; they lose a claim and are refused. Gemini
CLI and opencode connect and list. The Inspector has nothing to complain about.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from endpoint import Endpoint, serving
from player import CONDUCTOR, Cast, Unscripted
from running import INSTALLED, Home, Ran
from worker import PLAN, PREFIX, Part, plan_text, tool, worker

CLIENTS = ("claude", "codex", "gemini", "opencode", "vscode")
TOOLS = ("status", "show", "claim", "update", "verify", "complete", "release", "note")
#: The person has agreed to the server and its tools.
SETTINGS = {"permissions": {"allow": ["mcp__tugcode"]}, "enableAllProjectMcpServers": True}
CODEX = """\
[projects."{place}"]
trust_level = "trusted"

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
"""
STARTS, LOADS = 10, 4


class Place:
    """A repository whose plan is agreed, with the entry of each client, and a worktree."""

    def __init__(self, path: Path, home: Home) -> None:
        self.root, self.home = path, home
        path.mkdir()
        self.run("git", "init", "--quiet", "--initial-branch=main", "--template=")
        self.run("git", "config", "user.name", "Ada")
        self.run("git", "config", "user.email", "ada@example.invalid")
        for client in CLIENTS:
            self.run("tugcode", "init", "--mcp", client)
        (path / ".tugtool" / f"tugplan-{PLAN}.md").write_text(plan_text())
        self.run("git", "add", "--all")
        self.run("git", "commit", "--quiet", "--message=plan: three")
        # Where tugcode asks whether the repository's commands may run, the person says yes.
        home.run("tugcode", "trust", "--yes", cwd=path)
        made = json.loads(self.run("tugcode", "worktree", "create", PLAN, "--json"))
        self.worktree = Path(made["data"]["worktree_path"])

    def run(self, *command: str) -> str:
        return self.home.run(*command, cwd=self.root).expect()

    def state(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.run("tugcode", "show", PLAN, "--json"))
        data: dict[str, Any] = told["data"]
        return data

    def is_done(self) -> None:
        """Each step has a commit of its own, evidence, and the attempts that it took."""
        shown = self.state()
        assert [each["status"] for each in shown["steps"]] == ["completed"] * 3
        assert len({each["commit_hash"] for each in shown["steps"]}) == 3
        assert [len(each["attempts"]) for each in shown["steps"]] == [2, 1, 1]
        proved = [each for each in shown["checklist_items"] if each["kind"] == "checkpoint"]
        assert [each["evidence"]["passed"] for each in proved] == [True] * 3
        assert shown["steps"][0]["attempts"][0]["outcome"] == "reset"


@pytest.fixture
def place(tmp_path: Path, home: Home) -> Place:
    return Place(tmp_path / "repository", home)


@contextmanager
def played(place: Place) -> Iterator[Endpoint]:
    """The scripted model of a worker whose first step is taken from it."""

    def intrude(step: str) -> None:
        place.run("tugcode", "reset", PLAN, step)

    with serving(Cast({CONDUCTOR: worker(intrude)}, {})) as endpoint:
        yield endpoint
        assert endpoint.lost == []
        assert endpoint.knocks == []


def claude(place: Place, endpoint: Endpoint) -> Ran:
    """Run Claude Code in the worktree."""
    settings = place.worktree / ".claude" / "settings.local.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(json.dumps(SETTINGS))
    trusted = {"projects": {str(place.worktree): {"hasTrustDialogAccepted": True}}}
    (place.home.path / ".claude.json").write_text(json.dumps(trusted))
    return place.home.run(
        *("claude", "--print", "Carry out the plan."),
        cwd=place.worktree,
        ANTHROPIC_BASE_URL=endpoint.url,
        ANTHROPIC_API_KEY="placeholder",
    )


def codex(place: Place, endpoint: Endpoint) -> Ran:
    """Run Codex in the worktree."""
    text = CODEX.format(place=place.worktree, url=endpoint.url)
    (place.home.path / ".codex" / "config.toml").write_text(text)
    return place.home.run(
        *("codex", "exec", "--json", "--dangerously-bypass-approvals-and-sandbox"),
        *("--config", "model_provider=scripted", "--config", "model=scripted"),
        "Carry out the plan.",
        cwd=place.worktree,
    )


def test_claude_code_carries_out_a_plan(place: Place) -> None:
    with played(place) as endpoint:
        told = claude(place, endpoint).expect()
        assert told.startswith("3 steps: claimed: false, all_completed")
        (first, *_) = (ask for _, ask in endpoint.asked)
        assert {PREFIX + name for name in TOOLS} <= first.tools
    place.is_done()


def test_codex_carries_out_a_plan(place: Place, door: Endpoint) -> None:
    with played(place) as endpoint:
        told = codex(place, endpoint).expect()
        assert "3 steps: " in told, told
        (first, *_) = (ask for _, ask in endpoint.asked)
        assert {PREFIX + name for name in TOOLS} <= first.tools
    place.is_done()
    # It looks for news of its own, and nobody lets it out.
    door.knocks.clear()


@pytest.mark.parametrize("run", [claude, codex])
def test_a_client_that_is_killed_frees_its_step_at_once(
    place: Place, door: Endpoint, run: Callable[[Place, Endpoint], Ran]
) -> None:
    def die(prompt: str) -> Part:
        claim = yield tool("claim", plan=PLAN)
        if "claimed step-1 (attempt 1)" not in claim.text:
            raise Unscripted(f"it should be claimed: {claim.text}")
        (attempt,) = place.state()["steps"][0]["attempts"]
        killed.append(attempt["holder_pid"])
        os.kill(attempt["holder_pid"], signal.SIGKILL)
        return "too late"

    killed: list[int] = []
    with serving(Cast({CONDUCTOR: die}, {})) as endpoint:
        run(place, endpoint).refused()
        assert endpoint.lost == []
    assert len(killed) == 1
    # The lease has two hours left.
    claimed = json.loads(place.run("tugcode", "claim", PLAN, "--json"))["data"]
    assert (claimed["anchor"], claimed["attempt"]) == ("step-1", 2)
    assert claimed["previous_attempt"]["outcome"] in ("dead", "released")
    door.knocks.clear()


@contextmanager
def recorded(place: Place, first: str = "") -> Iterator[Path]:
    """Write down what a client sends to `tugcode`, which does something else first."""
    shim = place.home.path / "shim"
    shim.mkdir()
    real = INSTALLED / "python" / "bin" / "tugcode"
    text = f'#!/bin/sh\n{first}\ntee -a "{shim}/sent" | exec "{real}" "$@"\n'
    (shim / "tugcode").write_text(text)
    (shim / "tugcode").chmod(0o755)
    before = place.home.environment["PATH"]
    place.home.environment["PATH"] = os.pathsep.join([str(shim), before])
    yield shim / "sent"
    place.home.environment["PATH"] = before


def test_opencode_connects_and_lists(place: Place, door: Endpoint) -> None:
    with recorded(place) as sent:
        told = place.home.run("opencode", "mcp", "list", cwd=place.worktree).expect()
        assert re.search(r"✓ tugcode\W.*connected", told)
        assert '"tools/list"' in sent.read_text()
    door.knocks.clear()


def gemini_key(place: Place, door: Endpoint, where: Path) -> dict[str, str]:
    """The person has agreed to the folder; the key opens nothing."""
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    directory = place.home.path / ".gemini"
    directory.mkdir()
    (directory / "trustedFolders.json").write_text(json.dumps({str(where): "TRUST_FOLDER"}))
    (directory / "settings.json").write_text(json.dumps(settings))
    return {"GEMINI_API_KEY": "placeholder", "GOOGLE_GEMINI_BASE_URL": door.url}


def test_gemini_connects_and_lists(place: Place, door: Endpoint) -> None:
    key = gemini_key(place, door, place.worktree)
    with recorded(place) as sent:
        told = place.home.run("gemini", "mcp", "list", cwd=place.worktree, **key)
        assert "tugcode: tugcode mcp (stdio) - Connected" in told.out + told.err
        # Its model does not answer, but it has asked for the tools by then.
        place.home.run("gemini", "--prompt", "hello", cwd=place.worktree, **key)
        assert '"tools/list"' in sent.read_text()
    door.knocks.clear()


#: What a person has in the file of a client, and how that client lists its servers.
KEPT = {
    "claude": (
        ".mcp.json",
        '{"mcpServers": {"mine": {"command": "true"}}}\n',
        ("claude", "mcp", "get", "tugcode"),
        r"^tugcode:",
    ),
    "codex": (
        ".codex/config.toml",
        '# Mine.\r\nmodel = "x" # keep\r\n[mcp_servers.mine]\r\ncommand = "true"\r\n',
        ("codex", "mcp", "list"),
        r"^tugcode +tugcode +mcp .*enabled",
    ),
    "gemini": (
        ".gemini/settings.json",
        '{\n  // Mine.\n  "ui": {"hideTips": true} // keep\n}\n',
        ("gemini", "mcp", "list"),
        r"tugcode: tugcode mcp \(stdio\) - Connected",
    ),
    "opencode": (
        "opencode.jsonc",
        '{\n  /* Mine. */\n  "share": "disabled", // keep\n}\n',
        ("opencode", "mcp", "list"),
        r"✓ tugcode\W.*connected",
    ),
}


@pytest.mark.parametrize("client", KEPT)
def test_each_client_reads_its_file_with_what_was_in_it(
    place: Place, door: Endpoint, client: str
) -> None:
    file, text, command, listed = KEPT[client]
    for name in (".mcp.json", ".codex/config.toml", ".gemini/settings.json", "opencode.json"):
        (place.root / name).unlink()
    (place.root / file).write_bytes(text.encode())
    place.run("tugcode", "init", "--mcp", client, "--yes")
    made = (place.root / file).read_bytes().decode().replace(",", "")
    for line in text.replace(",", "").splitlines():
        assert line.strip("{}\n ") in made
    trusted = f'[projects."{place.root}"]\ntrust_level = "trusted"\n'
    (place.home.path / ".codex" / "config.toml").write_text(trusted)
    key = gemini_key(place, door, place.root) if client == "gemini" else {}
    told = place.home.run(*command, cwd=place.root, **key)
    assert re.search(listed, told.out + told.err, re.MULTILINE), told
    door.knocks.clear()


def inspect(place: Place, *words: str) -> dict[str, Any]:
    """Run the Inspector's command line, which needs a newer Node than the clients."""
    programs = INSTALLED / "inspector" / "node_modules" / ".bin"
    path = os.pathsep.join([str(programs), place.home.environment["PATH"]])
    command = ("mcp-inspector", "--cli", "tugcode", "mcp", "--role", "operator", *words)
    told = place.home.run(*command, cwd=place.worktree, PATH=path)
    assert told.err == ""
    found: dict[str, Any] = json.loads(told.expect())
    return found


def test_the_inspector_finds_nothing_in_strict_mode(place: Place) -> None:
    listed = inspect(place, "--method", "tools/list", "--strict")
    assert len(listed["tools"]) == 10
    called = inspect(place, "--method", "tools/call", "--tool-name", "claim")
    assert called["content"][0]["text"].startswith("claimed step-1 (attempt 1)")
    read = inspect(place, "--method", "resources/read", "--uri", "tug://status")
    assert PLAN in read["contents"][0]["text"]
    prompt = inspect(place, "--method", "prompts/get", "--prompt-name", "morning")
    assert PLAN in prompt["messages"][0]["content"]["text"]
    # Its process is gone, so its step is free.
    assert place.state()["steps"][0]["status"] == "pending"


@contextmanager
def loaded(times: int) -> Iterator[None]:
    """Keep every core busy, so many times over."""
    count = times * (os.cpu_count() or 1)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for each in busy:
            each.kill()
            each.wait()


def test_under_load_the_first_request_has_the_tools_at_every_start(place: Place) -> None:
    """Claude Code does not wait for slow servers: their tools are missing, silently."""
    seen = []
    with loaded(LOADS):
        for _ in range(STARTS):
            with serving(Cast({CONDUCTOR: _silent}, {})) as endpoint:
                claude(place, endpoint).expect()
                (first, *_) = (ask for _, ask in endpoint.asked)
                seen.append({PREFIX + name for name in TOOLS} <= first.tools)
    assert seen == [True] * STARTS


def _silent(prompt: str) -> Any:
    return "nothing to do"
    yield


def test_a_slow_server_is_missed_by_the_first_request(place: Place) -> None:
    """The test under load would notice."""
    with recorded(place, "sleep 20"), serving(Cast({CONDUCTOR: _silent}, {})) as endpoint:
        claude(place, endpoint).expect()
        (first, *_) = (ask for _, ask in endpoint.asked)
        assert not any(name.startswith(PREFIX) for name in first.tools)


def test_a_client_without_the_entry_has_no_tools(place: Place) -> None:
    """The tests would notice."""
    for top in (place.root, place.worktree):
        (top / ".mcp.json").unlink()
    with serving(Cast({CONDUCTOR: _silent}, {})) as endpoint:
        claude(place, endpoint).expect()
        assert not any(name.startswith(PREFIX) for _, ask in endpoint.asked for name in ask.tools)
