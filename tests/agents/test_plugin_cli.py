"""plugin path and install: where the plugin is, and how a client gets to it."""

import ast
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tugtool.agents import plugin
from tugtool.errors.repository import PluginMissing

ROOT = Path(__file__).parents[2]


def test_a_checkout_is_a_marketplace_with_the_plugin_in_it(tugcode):
    told = tugcode("plugin", "path", "--json").data
    assert told == {"plugin_path": str(ROOT / "tugplug"), "marketplace_path": str(ROOT)}
    assert tugcode("plugin", "path").out == f"{ROOT / 'tugplug'}\n"
    assert (ROOT / ".claude-plugin" / "marketplace.json").is_file()


def test_it_is_told_outside_of_any_repository(tugcode, tmp_path):
    assert tugcode("-C", tmp_path, "plugin", "path").status == 0


def places_in_a_wheel() -> dict[str, str]:
    tree = ast.parse((ROOT / "scripts" / "wheel.py").read_text())
    [places] = [node.value for node in tree.body if isinstance(node, ast.Assign)]
    return ast.literal_eval(places)


def test_an_installed_package_finds_it_where_the_wheel_has_it(tmp_path, monkeypatch):
    for source, target in places_in_a_wheel().items():
        assert (ROOT / source).exists(), source
        (tmp_path / target).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / target).symlink_to(ROOT / source)
    monkeypatch.setattr(plugin, "__file__", str(tmp_path / "tugtool" / "agents" / "plugin.py"))
    assert plugin.marketplace() == str(tmp_path / "tugtool" / "marketplace")
    market = Path(plugin.marketplace()) / ".claude-plugin" / "marketplace.json"
    assert market.is_file()


def test_a_package_without_it_says_where_it_looked(tmp_path, monkeypatch):
    monkeypatch.setattr(plugin, "__file__", str(tmp_path / "a" / "b" / "agents" / "plugin.py"))
    with pytest.raises(PluginMissing, match="has no plugin; looked in") as refusal:
        plugin.plugin()
    assert refusal.value.facts["places"] == [
        str(tmp_path / "a" / "b" / "marketplace"),
        str(tmp_path),
    ]


#: A client that writes down how it was called, and says something with an escape in it.
CLIENT = """#!/bin/sh
(IFS='|'; echo "$0|$*") >>"{log}"
printf 'done \\033[31mwell\\033[0m\\n'
{more}
"""


@pytest.fixture
def client(tmp_path, monkeypatch):
    """Puts a client on the path, and nothing else; its calls so far."""
    log = tmp_path / "calls"

    def install(name: str, more: str = "") -> None:
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(CLIENT.format(log=log, more=more))
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}/usr/bin{os.pathsep}/bin")

    install.calls = lambda: [
        [os.path.basename(words[0]), *words[1:]]
        for words in (line.split("|") for line in log.read_text().splitlines())
    ]
    return install


COMMANDS = {
    "claude": [
        ["claude", "plugin", "marketplace", "add", str(ROOT)],
        ["claude", "plugin", "install", "tugplug@tugtool"],
        ["claude", "plugin", "update", "tugplug@tugtool"],
    ],
    "codex": [
        ["codex", "plugin", "marketplace", "add", str(ROOT)],
        ["codex", "plugin", "add", "tugplug@tugtool"],
    ],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_client_is_pointed_at_the_plugin(tugcode, client, name):
    client(name)
    done = tugcode("plugin", "install", "--client", name, "--json")
    assert done.status == 0
    assert client.calls() == COMMANDS[name]
    assert [shlex.split(line) for line in done.data["commands"]] == COMMANDS[name]
    assert done.data["installed"]
    assert len(done.data["said"]) == len(COMMANDS[name])


def test_claude_is_meant_unless_another_is_named_and_what_it_says_is_cleaned(tugcode, client):
    client("claude")
    said = tugcode("plugin", "install").out
    assert said.count("$ claude plugin ") == 3
    assert "\033" not in said
    assert said.endswith("Restart claude: it loads the plugin at its next start.\n")


def test_a_dry_run_shows_the_commands_and_needs_no_client(tugcode, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    done = tugcode("plugin", "install", "--client", "codex", "--dry-run", "--json")
    assert (done.status, done.data["installed"], done.data["said"]) == (0, False, [])
    lines = tugcode("plugin", "install", "--dry-run").out.splitlines()
    assert [shlex.split(line) for line in lines] == COMMANDS["claude"]


def test_a_client_that_is_not_there_is_said_to_be_missing_and_what_to_do(tugcode, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    done = tugcode("plugin", "install", "--client", "codex", "--json")
    assert (done.status, done.codes) == (1, ["E091"])
    [issue] = done.envelope()["issues"]
    assert "there is no command codex on the PATH: install it" in issue["message"]
    assert issue["hint"] == "tugcode plugin install --client codex --dry-run"


def test_a_client_that_refuses_is_quoted_and_nothing_more_is_run(tugcode, client):
    client("claude", "echo 'no room' >&2; exit 7")
    done = tugcode("plugin", "install", "--json")
    assert (done.status, done.codes) == (1, ["E092"])
    message = done.envelope()["issues"][0]["message"]
    assert "ended with status 7: done" in message
    assert "no room" in message
    assert len(client.calls()) == 1


MOVED = """
echo "Error: marketplace 'tugtool' is already added from a different source; remove it" >&2
printf '\\nStack backtrace:\\n   0: <unknown>\\n' >&2
exit 1
"""


def test_a_refusal_names_the_client_that_was_meant_and_no_backtrace(tugcode, client):
    client("codex", "printf 'no room\\n\\nStack backtrace:\\n   0: x\\n' >&2; exit 7")
    done = tugcode("plugin", "install", "--client", "codex", "--json")
    [issue] = done.envelope()["issues"]
    assert issue["hint"] == "tugcode plugin install --client codex --dry-run"
    assert issue["message"].endswith("no room")


def test_codex_that_knows_another_place_is_told_how_it_lets_go_of_it(tugcode, client):
    client("codex", MOVED)
    done = tugcode("plugin", "install", "--client", "codex", "--json")
    [issue] = done.envelope()["issues"]
    assert issue["code"] == "E092"
    assert issue["hint"] == (
        "codex plugin marketplace remove tugtool && tugcode plugin install --client codex"
    )


@pytest.mark.parametrize(
    ("name", "own"), [("claude", "CLAUDE_CONFIG_DIR"), ("codex", "CODEX_HOME")]
)
@pytest.mark.parametrize("home", [None, ""])
def test_without_a_home_nothing_is_installed_into_somebody_s(
    tugcode, client, monkeypatch, tmp_path, name, own, home
):
    client(name)
    for variable in ("HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(variable, raising=False)
    if home is not None:
        monkeypatch.setenv("HOME", home)
    done = tugcode("plugin", "install", "--client", name, "--json")
    assert (done.status, done.codes) == (1, ["E093"])
    [issue] = done.envelope()["issues"]
    assert f"HOME is not set, and neither is {own}" in issue["message"]
    assert not (tmp_path / "calls").exists()
    assert tugcode("plugin", "install", "--client", name, "--dry-run").status == 0
    monkeypatch.setenv(own, str(tmp_path))
    assert tugcode("plugin", "install", "--client", name, "--json").data["installed"]


def test_a_client_that_never_ends_is_stopped(tugcode, client, monkeypatch):
    monkeypatch.setattr(plugin, "LIMIT_SECONDS", 0.2)
    client("claude", "exec sleep 1000")
    done = tugcode("plugin", "install", "--json")
    assert done.codes == ["E092"]
    assert "did not end in time" in done.envelope()["issues"][0]["message"]


@pytest.mark.parametrize("last", range(len(COMMANDS["claude"])))
def test_an_installation_that_is_killed_at_any_command_is_made_whole_by_another(
    tugcode, client, tmp_path, last
):
    """What it changes is the client's own; it keeps nothing itself that could be half there."""
    home = tmp_path / "home"
    home.mkdir()
    count = f'[ "$(wc -l <"{tmp_path}/calls")" -le {last} ] || kill -9 "$PPID"'
    client("claude", count)
    words = [sys.executable, "-m", "tugtool", "plugin", "install"]
    dead = subprocess.run(words, cwd=home, capture_output=True, check=False)
    assert dead.returncode == -signal.SIGKILL
    assert (client.calls(), os.listdir(home)) == (COMMANDS["claude"][: last + 1], [])
    client("claude")
    assert tugcode("plugin", "install", "--json").data["installed"]
    assert client.calls()[last + 1 :] == COMMANDS["claude"]


def test_only_clients_that_we_know_are_taken(tugcode):
    assert tugcode("plugin", "install", "--client", "emacs").status == 2
