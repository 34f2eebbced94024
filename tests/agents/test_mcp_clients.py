"""`init --mcp`: the entry in each client's own format; everything else in the file stays."""

import json
import os
import sys
import tomllib
from pathlib import Path

import pytest

from support.terminals import Terminal
from support.terminals import tugcode as command_line
from tugtool.agents import mcp_clients, mcp_entries
from tugtool.agents.mcp_entries import CLIENTS, NAME
from tugtool.cli.parse import find
from tugtool.errors import TugError

ROOT = Path(mcp_clients.__file__).parents[3]
UNFIT = (
    *("[]", "7", "{", '{"mcpServers": []}', '{"mcpServers": null}', '{"a": 1 "b": 2}'),
    *('{"a": NaN}', '{"a": 1} /* no end', '{"a": 1} / ', '{"a": 1} /*/'),
    '{"mcpServers": {"a": {}}, "mcpServers": {"b": {}}}',
)
JSONC = """\
{
    // My servers.
    "theme": "dark", /* not too dark */
    "%s": {
        "other": {"command": "a // b", "args": ["}", ","]} // keep
    }, // and this
}
"""


def _entry(text: str, client: str) -> dict:
    about = CLIENTS[client]
    if about.files[0].endswith(".toml"):
        return tomllib.loads(text)[about.table][NAME]
    return json.loads(mcp_entries.blanked(text))[about.table][NAME]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_new_file_has_the_entry_and_the_second_time_nothing_changes(repo, tugcode, client):
    about = CLIENTS[client]
    done = tugcode("-C", repo.path, "init", "--mcp", client, "--json")
    said = {"client": client, "file": about.files[0], "created": True, "added": True}
    assert done.data["mcp"] == [said]
    path = repo.path / about.files[0]
    text = path.read_text()
    assert _entry(text, client) == about.entry
    again = tugcode("-C", repo.path, "init", "--mcp", client, "--json")
    assert again.data["mcp"] == [{**said, "created": False, "added": False}]
    assert path.read_text() == text
    assert tugcode("-C", repo.path, "init", "--mcp", client, "--check").status == 0


@pytest.mark.parametrize("client", [each for each in CLIENTS if each != "codex"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_comments_and_the_rest_of_json_stay(repo, client, newline):
    about = CLIENTS[client]
    path = repo.path / about.files[0]
    path.parent.mkdir(exist_ok=True)
    old = (JSONC % about.table).replace("\n", newline)
    path.write_bytes(old.encode())
    entry = mcp_clients.plan_entry(str(repo.path), client)
    assert entry.text is not None
    assert _entry(entry.text, client) == about.entry
    made = entry.text
    for line in old.split(newline):
        assert line.replace(",", "") in made.replace(",", "")
    assert "// keep" in made.split('"other"')[1].split(newline)[0]
    assert newline + '        "tugcode": {' in made
    assert made.count(newline) == made.count("\n")
    # With the entry taken out again, it is what it was.
    value = json.loads(mcp_entries.blanked(made))
    del value[about.table][NAME]
    assert value == json.loads(mcp_entries.blanked(old))


@pytest.mark.parametrize(
    "old",
    [
        "",
        "  \n",
        "{}",
        "{ }\n",
        "{\n}\n",
        "{ // nothing yet\n}\n",
        '{"mcpServers": {}}',
        '{"mcpServers": { /* none */ }}',
        '{"mcpServers": {"a": {"command": "b"}}}',
        '{\n\t"mcpServers": {\n\t\t"a": {\n\t\t\t"command": "b",\n\t\t},\n\t}\n}',
        '{"a": "\\"//\\\\", "mcpServers": {"b": {}, // , }\n}}',
        '{"mcpServers": {"a": {} /* , */ }, "z": [1, 2, 3,],}',
        *UNFIT,
        '{"mcpServers": {"tugcode": {"command": "mine"}}}',
    ],
)
def test_any_json_is_extended_kept_or_refused_and_never_spoilt(repo, old):
    path = repo.path / ".mcp.json"
    path.write_text(old)
    if old in UNFIT:
        with pytest.raises(TugError, match="it is unchanged"):
            mcp_clients.plan_entry(str(repo.path), "claude")
        return
    entry = mcp_clients.plan_entry(str(repo.path), "claude")
    if '"tugcode"' in old:
        assert entry.text is None
        return
    assert _entry(entry.text, "claude") == CLIENTS["claude"].entry
    before = json.loads(mcp_entries.blanked(old)) if old.strip() else {}
    after = json.loads(mcp_entries.blanked(entry.text))
    del after["mcpServers"][NAME]
    assert after == {"mcpServers": {}, **before}


@pytest.mark.parametrize(
    ("old", "works"),
    [
        ('# mine\nmodel = "x"', True),
        ('[mcp_servers.other]\ncommand = "a" # b\n\n[profiles.x]\ny = 1\n', True),
        ("mcp_servers = { other = { command = 'a' } }\n", False),
        ("mcp_servers = 7\n", False),
        ("[[mcp_servers]]\ncommand = 'a'\n", False),
        ("[", False),
    ],
)
def test_toml_gets_a_table_at_its_end_or_is_refused(repo, old, works):
    path = repo.path / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text(old)
    if not works:
        with pytest.raises(TugError) as refused:
            mcp_clients.plan_entry(str(repo.path), "codex")
        assert refused.value.code == "E089"
        return
    text = mcp_clients.plan_entry(str(repo.path), "codex").text
    assert text.startswith(old)
    assert tomllib.loads(text)["mcp_servers"][NAME] == CLIENTS["codex"].entry


@pytest.mark.parametrize(
    ("client", "old"),
    [
        ("claude", '\ufeff{\r\n  "a": 1\r\n}\r\n'),
        ("codex", '\ufeffmodel = "x"\r\n# mine'),
        ("codex", 'model = "x"\r\n'),
    ],
)
def test_a_byte_order_mark_a_mode_and_the_ends_of_lines_stay(repo, tugcode, client, old):
    path = repo.path / CLIENTS[client].files[0]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(old.encode())
    path.chmod(0o640)
    assert tugcode("-C", repo.path, "init", "--mcp", client, "--yes").status == 0
    made = path.read_bytes().decode()
    assert made.startswith("\ufeff") == old.startswith("\ufeff")
    assert made.count("\n") == made.count("\r\n") > old.count("\n")
    assert _entry(made.removeprefix("\ufeff"), client) == CLIENTS[client].entry
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_link_within_the_repository_stays_one(repo, tugcode):
    repo.write({"settings/servers.json": "{}\n"})
    os.symlink("settings/servers.json", repo.path / ".mcp.json")
    assert tugcode("-C", repo.path, "init", "--mcp", "claude", "--yes").status == 0
    assert (repo.path / ".mcp.json").is_symlink()
    assert NAME in json.loads((repo.path / "settings" / "servers.json").read_text())["mcpServers"]


def test_a_file_that_exists_is_changed_only_after_a_question(repo, tugcode):
    path = repo.path / ".mcp.json"
    path.write_text("{}\n")
    refused = tugcode("-C", repo.path, "init", "--mcp", "claude")
    assert (refused.status, path.read_text()) == (2, "{}\n")
    assert "next: tugcode init --mcp claude --yes" in refused.err
    assert tugcode("-C", repo.path, "init", "--mcp", "claude", "--check").status == 1
    assert tugcode("-C", repo.path, "init", "--mcp", "claude", "--yes").status == 0
    assert NAME in json.loads(path.read_text())["mcpServers"]


@pytest.mark.parametrize(("word", "written"), [("n", False), ("y", True)])
def test_on_a_terminal_the_user_is_asked(repo, word, written):
    path = repo.path / ".mcp.json"
    path.write_text("{}\n")
    terminal = Terminal(command_line("init", "--mcp", "claude", at=repo.path))
    terminal.until_text("Add tugcode mcp to .mcp.json?")
    terminal.press(f"{word}\n")
    terminal.until_text("added to .mcp.json" if written else "kept     .mcp.json, without an entry")
    assert terminal.end() == 0
    terminal.close()
    assert (NAME in path.read_text()) == written


def test_a_link_to_a_file_elsewhere_is_left_alone(repo, tmp_path, tugcode):
    outside = tmp_path / "home.json"
    outside.write_text("{}")
    os.symlink(outside, repo.path / ".mcp.json")
    refused = tugcode("-C", repo.path, "init", "--mcp", "claude", "--yes")
    assert refused.status == 1
    assert "E073" in refused.err
    assert outside.read_text() == "{}"


def test_the_clients_are_those_of_the_command_and_the_plugin_has_the_same_entry(repo):
    (option,) = (each for each in find("init").options if each.name == "--mcp")
    assert option.choices == tuple(CLIENTS)
    plugin = json.loads((ROOT / "tugplug" / ".mcp.json").read_text())
    assert plugin == {"mcpServers": {NAME: CLIENTS["claude"].entry}}


def test_two_clients_are_entered_in_one_call_or_neither(repo, tugcode):
    two = ("--mcp", "claude", "--mcp", "codex")
    (repo.path / ".mcp.json").write_text("{}")
    refused = tugcode("-C", repo.path, "init", *two)
    assert "next: tugcode init --mcp claude --mcp codex --yes" in refused.err
    assert not (repo.path / ".codex").exists()
    done = tugcode("-C", repo.path, "init", *two, "--yes", "--json")
    assert [each["file"] for each in done.data["mcp"]] == [".mcp.json", ".codex/config.toml"]
    assert NAME in json.loads((repo.path / ".mcp.json").read_text())["mcpServers"]
    assert tugcode("-C", repo.path, "init", *two, "--check").status == 0


def test_the_text_names_what_changed_and_the_next_command(repo, tugcode):
    tugcode("-C", repo.path, "init")
    repo.plan("greeter", "# Greet\n### Step 1: Say hello\n- [ ] x\n")
    first = tugcode("-C", repo.path, "init", "--mcp", "claude").out.splitlines()
    assert first == [
        "created  .mcp.json: tugcode mcp; commit it, so that every worktree has it",
        f"{repo.path} is set up. Next: tugcode worktree create greeter --new",
    ]
    second = tugcode("-C", repo.path, "init", "--mcp", "claude").out.splitlines()
    assert second[0] == "kept     .mcp.json, with its entry tugcode"
    assert tugcode("-C", repo.path, "init").out.endswith("Next: tugcode status\n")


@pytest.fixture
def on_path(tmp_path, monkeypatch):
    """A PATH with nothing but the programs that are named."""
    places = tmp_path / "bin"
    places.mkdir()
    monkeypatch.setenv("PATH", str(places))

    def make(*names: str) -> None:
        for name in names:
            (places / name).write_text("#!/bin/sh\n")
            (places / name).chmod(0o755)

    return make


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"command": "tugcode", "args": ["mcp"]}, None),
        ({"command": "tugcode", "args": ["mcp", "--role", "viewer"]}, None),
        ({"command": "uvx", "args": ["tugcode", "mcp"]}, "starts uvx, which is not on the PATH"),
        ({"command": "./no", "args": ["mcp"]}, "starts ./no, which is not a program"),
        ({"command": "tugcode"}, "starts 'tugcode', which is not `tugcode mcp`"),
        ({"command": "tugcode", "args": "mcp"}, "names no command"),
        ({"command": 7, "args": ["mcp"]}, "names no command"),
        ({"args": ["mcp"]}, "names no command"),
        ([], "names no command"),
        ({"command": ["tugcode", "mcp"], "enabled": False}, "is switched off"),
        ({"command": []}, "names no command"),
    ],
)
def test_an_entry_that_starts_no_server_is_found(repo, on_path, entry, words):
    on_path("tugcode")
    (repo.path / ".mcp.json").write_text(json.dumps({"mcpServers": {NAME: entry}}))
    found = list(mcp_entries.entry_problems(str(repo.path)))
    if words is None:
        assert found == []
        return
    (problem,) = found
    assert problem.problem.startswith(f".mcp.json: the entry tugcode {words}")
    if "PATH" not in words and "program" not in words:
        assert problem.hint == "tugcode init --mcp claude"


@pytest.mark.parametrize("client", CLIENTS)
def test_the_entry_of_every_client_is_read(repo, on_path, tugcode, client):
    assert tugcode("-C", repo.path, "init", "--mcp", client).status == 0
    (problem,) = mcp_entries.entry_problems(str(repo.path))
    assert problem.client == client
    assert "starts tugcode, which is not on the PATH" in problem.problem
    on_path("tugcode")
    assert list(mcp_entries.entry_problems(str(repo.path))) == []


@pytest.mark.parametrize(
    ("file", "text"), [(".mcp.json", "{"), (".codex/config.toml", "["), (".mcp.json", "[]")]
)
def test_a_file_that_no_client_can_read_is_found(repo, file, text):
    repo.write({file: text})
    (problem,) = mcp_entries.entry_problems(str(repo.path))
    assert problem.problem.startswith(f"{file} is not ")
    assert problem.hint == f"cat -n {file}"
    with pytest.raises(TugError) as refused:
        mcp_clients.plan_entry(str(repo.path), problem.client)
    assert refused.value.hint == problem.hint


def test_a_directory_in_place_of_the_file_is_refused_with_a_command(repo):
    (repo.path / ".mcp.json").mkdir()
    with pytest.raises(TugError, match="is a directory") as refused:
        mcp_clients.plan_entry(str(repo.path), "claude")
    assert (refused.value.code, refused.value.hint) == ("E072", "ls -ld .mcp.json")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            '{"mcpServers": {"other": {"command": "x"}}, "é": 1}\n',
            '{"mcpServers": {"other": {"command": "x"}, "tugcode": %s}, "é": 1}\n',
        ),
        ('{"mcpServers": { }, }', '{"mcpServers": {"tugcode": %s }, }'),
        ('{ "a": 1, }\n', '{ "a": 1, "mcpServers": {"tugcode": %s} }\n'),
    ],
)
def test_a_file_of_one_line_stays_one(repo, old, new):
    (repo.path / ".mcp.json").write_text(old)
    text = mcp_clients.plan_entry(str(repo.path), "claude").text
    assert text == new % json.dumps(CLIENTS["claude"].entry)


def test_files_without_our_entry_are_left_alone(repo):
    repo.write({".mcp.json": "", ".codex/config.toml": "mcp_servers = 7", "opencode.json": "{}"})
    assert list(mcp_entries.entry_problems(str(repo.path))) == []


def test_init_warns_if_the_client_would_not_find_the_command(repo, on_path, tugcode):
    done = tugcode("-C", repo.path, "init", "--mcp", "claude", "--json")
    assert (done.status, done.codes) == (0, ["W185"])
    (issue,) = done.envelope()["issues"]
    assert (
        "starts tugcode, which is not on the PATH: the client cannot start it" in (issue["message"])
    )
    assert issue["message"].endswith(
        f"; put {Path(sys.executable).parent} on the PATH that it starts with"
    )
    assert issue["hint"] == "tugcode version"
    said = tugcode("-C", repo.path, "init", "--mcp", "claude")
    assert "W185: .mcp.json: the entry tugcode starts tugcode" in said.err
