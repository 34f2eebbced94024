"""The guard is proved alive: its hook is run as clients run it, and broken for real."""

import json
import os
import shlex
import shutil
import sys

import pytest

import tugtool
from tugtool.workflow.doctor import guard
from tugtool.workflow.doctor.checks import CHECKS

SOURCES = os.path.dirname(os.path.dirname(tugtool.__file__))


@pytest.fixture(autouse=True)
def _ask(monkeypatch):
    """Here nobody knows what the guard said to somebody else."""
    monkeypatch.setattr(guard, "_problem", guard._problem.__wrapped__)


NAME = "tugplug@tugtool"
HOOK = "tugcode hook pre-tool-use"


class Client:
    """An agent client that has the plugin, with its records as the real one writes them."""

    def __init__(self, home):
        self.home, self.version = home, tugtool.__version__
        self.place = home / "plugins" / "cache" / "tugtool" / "tugplug" / self.version
        self.hooks = self.place / "hooks" / "hooks.json"

    def has(self, command: str | None = HOOK) -> None:
        self.hooks.parent.mkdir(parents=True)
        entry = {"matcher": "*", "hooks": [{"type": "command", "command": command}]}
        text = json.dumps({"hooks": {"PreToolUse": [entry]}}) if command else "rubbish"
        self.hooks.write_text(text)
        self.record()


class Claude(Client):
    again = f"claude plugin uninstall {NAME} && tugcode plugin install --client claude"

    def record(self, **more: object) -> None:
        entry = {"scope": "user", "installPath": str(self.place), "version": self.version, **more}
        plugins = {"version": 2, "plugins": {"other@tugtool": [{}], NAME: [entry]}}
        (self.home / "plugins" / "installed_plugins.json").write_text(json.dumps(plugins))
        self.enable(self.home / "settings.json", True)

    def enable(self, settings, whether: bool) -> None:
        settings.parent.mkdir(exist_ok=True)
        settings.write_text(json.dumps({"enabledPlugins": {NAME: whether}}))

    def switch_off(self) -> None:
        self.enable(self.home / "settings.json", False)

    def uninstall(self) -> None:
        empty = {"version": 2, "plugins": {}}
        (self.home / "plugins" / "installed_plugins.json").write_text(json.dumps(empty))


class Codex(Client):
    again = "tugcode plugin install --client codex"

    def record(self, enabled: str = "true") -> None:
        text = f'[plugins."other@x"]\nenabled = true\n[plugins."{NAME}"]\nenabled = {enabled}\n'
        (self.home / "config.toml").write_text(text)

    def switch_off(self) -> None:
        self.record("false")

    def uninstall(self) -> None:
        (self.home / "config.toml").write_text("")


@pytest.fixture
def homes(tmp_path, monkeypatch):
    """Where the clients keep what is theirs, and a path with nothing of ours on it."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("PYTHONPATH", SOURCES)
    return tmp_path


@pytest.fixture
def client(clinic, homes):
    """A healthy repository, and a client that has the plugin: `client("command")`."""
    c = clinic()

    def make(command: str | None = HOOK, tugcode: str = ""):
        Claude(homes / "claude").has(command)
        put(homes, tugcode)
        return c

    return make


@pytest.fixture(params=[Claude, Codex], ids=["claude", "codex"])
def pair(request, clinic, homes):
    """A healthy repository, and one client or the other that has the plugin."""
    c = clinic()
    found = request.param(homes / request.param.__name__.lower())
    found.has()
    put(homes, OURS)
    return c, found


def put(homes, tugcode: str) -> None:
    if tugcode:
        (homes / "bin" / "tugcode").write_text(f"#!/bin/sh\n{tugcode}\n")
        (homes / "bin" / "tugcode").chmod(0o755)


OURS = f'exec {shlex.quote(sys.executable)} -m tugtool "$@"'


def test_where_no_client_has_the_plugin_there_is_nothing_to_say(clinic):
    assert clinic().status("guard") == "ok"


def test_a_client_whose_hook_answers_as_it_must_is_well(client):
    c = client(tugcode=OURS)
    assert c.findings() == {}


def test_a_client_that_does_not_find_tugcode_is_told_of(client):
    finding = client().one("guard")
    assert finding["severity"] == "error"
    assert "there is no tugcode on the PATH: put it there for the client" in finding["message"]
    assert finding["hint"] == "tugcode version"
    assert "agents there are not guarded" in finding["message"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("exit 0", "that writes a file: it ended with status 0; agents are not guarded"),
        ("exit 1", "does not block a reviewer that writes a file: it ended with status 1"),
        ("exit 2", "that reads a file: it ended with status 2; agents can do nothing"),
        ("kill -9 $$", "does not block"),
    ],
)
def test_a_hook_that_answers_otherwise_is_told_of(client, line, said):
    c = client(tugcode=f'test "$1" = hook || {OURS}\n{line}')
    assert said in c.one("guard")["message"]


def test_a_hook_that_runs_something_else_is_told_of(client):
    c = client("true", tugcode=OURS)
    finding = c.one("guard")
    assert "the hook `true` of " in finding["message"]
    assert finding["hint"] == Claude.again


def test_a_hooks_file_that_is_no_json_is_told_of(client):
    c = client(None, tugcode=OURS)
    assert "hooks.json cannot be read as JSON: agents there are" in c.one("guard")["message"]


def test_another_version_on_the_path_is_told_of(client):
    other = '{"data": {"tugtool": "0.0.7"}}'
    c = client(tugcode=f"test \"$1\" = version && echo '{other}' && exit\n{OURS}")
    finding = c.one("guard")
    assert finding["severity"] == "warning"
    assert finding["message"].startswith("clients run tugcode 0.0.7, which is first on the PATH")


def test_a_guard_of_our_own_that_does_not_hold_is_an_error(clinic, monkeypatch):
    c = clinic()
    monkeypatch.setattr(guard, "HOOK", ("version",))
    finding = c.one("guard")
    assert finding["severity"] == "error"
    assert finding["message"].startswith("the guard of this installation does not block a reviewer")


def test_the_guard_is_one_of_the_checks():
    assert "guard" in [check.name for check in CHECKS]


def test_a_copy_that_is_whole_and_of_this_version_is_well(pair):
    assert pair[0].findings() == {}


def test_a_copy_that_nobody_has_installed_any_more_is_not_judged(pair):
    c, client = pair
    client.hooks.write_text("rubbish")
    client.uninstall()
    assert c.findings() == {}


def test_a_plugin_that_was_switched_off_is_not_judged(pair):
    c, client = pair
    client.hooks.write_text("rubbish")
    client.switch_off()
    assert c.findings() == {}


def test_hooks_that_are_gone_leave_agents_unguarded(pair):
    c, client = pair
    shutil.rmtree(client.hooks.parent)
    finding = c.one("guard")
    assert (finding["severity"], finding["hint"]) == ("error", client.again)
    assert f"{client.hooks} is not there: agents there are not guarded" in finding["message"]


def test_a_copy_that_is_gone_altogether_is_told_of(pair):
    c, client = pair
    shutil.rmtree(client.place)
    assert "hooks.json is not there: agents there are not guarded" in c.one("guard")["message"]


@pytest.mark.parametrize(
    "text", ['{"hooks": {}}', "[]", '{"hooks": {"PreToolUse": [1, {"hooks": [2, {}]}, {}]}}']
)
def test_a_hooks_file_without_a_hook_is_told_of(pair, text):
    c, client = pair
    client.hooks.write_text(text)
    finding = c.one("guard")
    assert "names no command to run before a tool is used" in finding["message"]
    assert finding["hint"] == client.again


def test_a_plugin_of_another_version_is_told_of(pair):
    c, client = pair
    older = client.place.with_name("0.0.9")
    client.place.rename(older)
    client.place, client.version = older, "0.0.9"
    client.record()
    finding = c.one("guard")
    name = type(client).__name__.lower()
    assert finding["severity"] == "warning"
    assert finding["message"].startswith(f"{name} has the plugin of version 0.0.9, and this is ")
    assert finding["hint"] == f"tugcode plugin install --client {name}"


@pytest.mark.parametrize(
    ("project", "where", "judged"),
    [("here", None, True), ("elsewhere", None, False), ("here", "settings.local.json", False)],
)
def test_a_plugin_of_a_project_is_judged_there(clinic, homes, project, where, judged):
    c, client = clinic(), Claude(homes / "claude")
    client.has("true")
    put(homes, OURS)
    client.record(scope="project", projectPath=str(c.root if project == "here" else homes))
    if where:
        client.enable(c.root / ".claude" / where, False)
    assert (c.status("guard") == "error") == judged


def test_records_that_cannot_be_read_are_no_records(clinic, homes):
    (homes / "claude" / "plugins").mkdir(parents=True)
    (homes / "claude" / "plugins" / "installed_plugins.json").write_text("[")
    (homes / "codex").mkdir()
    (homes / "codex" / "config.toml").write_text("=")
    assert clinic().status("guard") == "ok"


def test_the_mcp_server_lists_its_tools(clinic):
    assert clinic().status("mcp") == "ok"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("print(1)", "does not list its tools"),
        ("raise SystemExit('no')", "does not list its tools: no"),
        ('print(\'{"result": {"tools": [{"name": "x"}]}}\')', "lists other tools: x"),
        ("raise SystemExit('E071: wrong')", None),
    ],
)
def test_a_server_that_lists_no_tools_is_found(tmp_path, code, words):
    problem = guard._mcp_problem(("python3", "-c", code), str(tmp_path))
    assert problem is None if words is None else words in problem


def test_an_entry_of_a_client_that_starts_nothing_is_found(clinic):
    there = clinic()
    entry = '{"mcpServers": {"tugcode": {"command": "tugcode-that-is-not-there", "args": ["mcp"]}}}'
    (there.root / ".mcp.json").write_text(entry)
    finding = there.one("mcp")
    assert finding["severity"] == "warning"
    assert "starts tugcode-that-is-not-there, which is not on the PATH" in finding["message"]
    assert finding["hint"] == "tugcode version"


def test_a_server_that_cannot_be_run_is_found(tmp_path):
    assert "cannot be run" in guard._mcp_problem((str(tmp_path / "no"),), str(tmp_path))
