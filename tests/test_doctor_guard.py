"""The guard is proved alive: its hook is run as clients run it, and broken for real."""

import json
import os
import sys

import pytest

import tugtool
from tugtool.doctor import guard
from tugtool.doctor.checks import CHECKS

SOURCES = os.path.dirname(os.path.dirname(tugtool.__file__))


@pytest.fixture
def client(clinic, tmp_path, monkeypatch):
    """A healthy repository, and a client that has the plugin: `client("command")`."""
    home = tmp_path / "client"
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home))
    binaries = tmp_path / "bin"
    binaries.mkdir()
    monkeypatch.setenv("PATH", f"{binaries}:/usr/bin:/bin")
    monkeypatch.setenv("PYTHONPATH", SOURCES)
    c = clinic()

    def make(command: str | None = "tugcode hook pre-tool-use", tugcode: str = ""):
        place = home / "plugins" / "cache" / "tugtool" / "tugplug" / "0.1.0"
        (place / "hooks").mkdir(parents=True)
        entry = {"matcher": "*", "hooks": [{"type": "command", "command": command}]}
        text = json.dumps({"hooks": {"PreToolUse": [entry]}}) if command else "rubbish"
        (place / "hooks" / "hooks.json").write_text(text)
        if tugcode:
            (binaries / "tugcode").write_text(f"#!/bin/sh\n{tugcode}\n")
            (binaries / "tugcode").chmod(0o755)
        return c

    return make


OURS = f'exec {sys.executable} -m tugtool "$@"'


def test_where_no_client_has_the_plugin_there_is_nothing_to_say(clinic):
    assert clinic().status("guard") == "ok"


def test_a_client_whose_hook_answers_as_it_must_is_well(client):
    c = client(tugcode=OURS)
    assert c.findings() == {}


def test_a_client_that_does_not_find_tugcode_is_told_of(client):
    finding = client().one("guard")
    assert finding["severity"] == "error"
    assert "there is no tugcode on the PATH" in finding["message"]
    assert "agents there are not guarded" in finding["message"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("exit 0", "does not block a reviewer that writes a file: it ended with status 0"),
        ("exit 1", "does not block a reviewer that writes a file: it ended with status 1"),
        ("exit 2", "blocks a reviewer that reads a file: it ended with status 2"),
        ("kill -9 $$", "does not block"),
    ],
)
def test_a_hook_that_answers_otherwise_is_told_of(client, line, said):
    c = client(tugcode=f'test "$1" = hook || {OURS}\n{line}')
    assert said in c.one("guard")["message"]


def test_a_hook_that_runs_something_else_or_cannot_be_read_is_told_of(client):
    c = client("true", tugcode=OURS)
    assert "the hook `true` of " in c.one("guard")["message"]


def test_a_hooks_file_that_is_no_json_is_told_of(client):
    c = client(None, tugcode=OURS)
    assert "does not block" in c.one("guard")["message"]


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


def test_only_a_plugin_of_our_name_is_looked_at(tmp_path):
    for name in ("other", "tugplug"):
        place = tmp_path / "cache" / name / "1" / "hooks"
        place.mkdir(parents=True)
        text = {"hooks": {"PreToolUse": [{"hooks": [{"command": name}]}]}}
        (place / "hooks.json").write_text(json.dumps(text))
    found = list(guard.hooks([str(tmp_path), str(tmp_path / "none")]))
    assert [command for _, command in found] == ["tugplug"]
