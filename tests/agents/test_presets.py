"""The ready-made commands: words, permissions, and that the prompt goes by standard input."""

import json
import subprocess
import sys

import pytest

from tugtool.agents import clis
from tugtool.system import agent_config
from tugtool.system.agent_config import PRESETS, ROLES, SCRIPT_VARIABLE, SHELL_VARIABLE

CLIS = [name for name in PRESETS if name not in ("shell", "scripted")]


def made(role: str, **table: object) -> clis.ClientCommand:
    agent = agent_config.agent({role: table}, role)
    assert agent is not None
    return clis.command(agent)


def test_every_role_has_its_rights_and_every_preset_a_command():
    assert tuple(clis.ACCESS) == ROLES
    assert {role for role, access in clis.ACCESS.items() if access == clis.EDIT} == {
        "author",
        "coder",
    }
    assert set(clis._MAKERS) == set(CLIS)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("preset", CLIS)
def test_a_preset_starts_its_program_unattended_and_asks_for_json(preset, role):
    argv, _ = made(role, preset=preset)
    assert argv[0] == preset
    assert "json" in argv or "--json" in argv
    assert all(isinstance(word, str) and word for word in argv)


@pytest.mark.parametrize(
    ("preset", "role", "words"),
    [
        ("claude", "coder", ["--permission-mode", "acceptEdits"]),
        ("claude", "reviewer", ["--permission-mode", "dontAsk"]),
        ("claude", "reviewer", ["--disallowedTools", "Edit,Write,NotebookEdit"]),
        ("claude", "architect", ["--disallowedTools", "Edit,Write,NotebookEdit,Bash"]),
        ("codex", "coder", ["--sandbox", "workspace-write"]),
        ("codex", "architect", ["--sandbox", "read-only"]),
        ("codex", "integrator", ["--sandbox", "danger-full-access"]),
        ("codex", "coder", ["exec", "--json"]),
        ("gemini", "coder", ["--approval-mode", "yolo"]),
        ("gemini", "architect", ["--approval-mode", "plan"]),
        ("gemini", "reviewer", ["--approval-mode", "default", "--allowed-tools"]),
        ("opencode", "coder", ["run", "--format", "json"]),
    ],
)
def test_a_role_gets_the_mode_that_fits_it(preset, role, words):
    argv = list(made(role, preset=preset).argv)
    at = argv.index(words[0])
    assert argv[at : at + len(words)] == words


def test_codex_reads_its_prompt_from_standard_input():
    assert made("coder", preset="codex").argv[-1] == "-"


#: What moves a step, by the short names too.
COMMANDS_OF_WORKERS = (
    *("claim", "start", "update", "complete", "release", "reset", "exec"),
    *("commit", "next", "done"),
)


def test_claude_s_coder_cannot_commit_or_write_down_progress_and_others_are_not_told_so():
    denied = made("coder", preset="claude").argv[-1].split(",")
    assert {"Bash(git commit:*)", "Bash(git push:*)", "Bash(tugcode state:*)"} <= set(denied)
    refused = [line for line in COMMANDS_OF_WORKERS if f"Bash(tugcode {line}:*)" not in denied]
    assert refused == []
    assert "--disallowedTools" not in made("author", preset="claude").argv


@pytest.mark.parametrize(
    ("role", "denied"), [("coder", set()), ("reviewer", {"edit"}), ("architect", {"edit", "bash"})]
)
def test_opencode_is_limited_by_a_variable(role, denied):
    rules = json.loads(made(role, preset="opencode").env["OPENCODE_PERMISSION"])
    assert next(iter(rules.items())) == ("*", "allow")
    assert {name for name, rule in rules.items() if rule == "deny"} == denied


def test_a_role_s_own_variables_go_before_those_of_the_preset():
    command = made("coder", preset="opencode", env={"OPENCODE_PERMISSION": "{}", "A": "b"})
    assert command.env == {"OPENCODE_PERMISSION": "{}", "A": "b"}


def test_a_command_is_taken_as_it_is():
    command = made("coder", command=["my agent", "--x", "$HOME"], env={"A": "b"})
    assert command == (("my agent", "--x", "$HOME"), {"A": "b"})


def test_the_shell_preset_runs_a_line_of_one_s_own(tmp_path):
    line = 'read first; echo "$first" | tr a-z A-Z; echo "$WHO"'
    argv, env = made("coder", preset="shell", env={SHELL_VARIABLE: line, "WHO": "me"})
    done = subprocess.run(
        argv, env={"PATH": "/usr/bin:/bin", **env}, input="hello\n", capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "HELLO\nme\n")


def test_the_scripted_agent_is_started_by_the_python_that_has_it():
    env = {SCRIPT_VARIABLE: "/runs/1/script.toml"}
    command = made("coder", preset="scripted", env=env)
    words = [sys.executable, "-P", "-m", "tugtool.agents.scripted", "/runs/1/script.toml"]
    assert (list(command.argv), command.env) == (words, env)
