"""`[agents.ROLE]` of the configuration: who plays a role, what is refused, what is shown."""

import subprocess
import sys
from pathlib import Path

import pytest

from system.test_config import load, refusal
from tugtool.system import agent_config, config
from tugtool.system.agent_config import KEYS, PRESETS, ROLES

EVERYTHING = """
[agents.default]
preset = "claude"
tries = 5
env = { A = "shared", B = "shared" }

[agents.coder]
command = ["my-agent", "--headless"]
timeout_seconds = 60
env = { B = "own", C = "own" }

[agents.reviewer]
preset = "codex"
"""


def facts(agent: agent_config.Agent) -> tuple:
    return (agent.preset, agent.command, agent.timeout_seconds, agent.tries, agent.env)


def test_without_a_word_about_it_nobody_plays_any_role(tmp_path):
    for settings in (config.load(str(tmp_path)), load(tmp_path, ""), load(tmp_path, "[agents]\n")):
        assert [settings.agent(role) for role in ROLES] == [None] * 9
        assert list(settings.agent_rows()) == []


@pytest.mark.parametrize("role", ROLES)
def test_each_role_can_be_given_to_somebody_alone(tmp_path, role):
    settings = load(tmp_path, f'[agents.{role}]\ncommand = ["x"]\n')
    assert facts(settings.agent(role)) == (None, ("x",), 3600, 2, {})
    assert settings.agent(role).role == role
    assert [other for other in ROLES if settings.agent(other)] == [role]


def test_what_a_role_leaves_out_is_filled_from_the_default(tmp_path):
    settings = load(tmp_path, EVERYTHING)
    shared = {"A": "shared", "B": "shared"}
    assert facts(settings.agent("auditor")) == ("claude", None, 3600, 5, shared)
    assert facts(settings.agent("reviewer")) == ("codex", None, 3600, 5, shared)
    assert facts(settings.agent("coder")) == (
        None,
        ("my-agent", "--headless"),
        60,
        5,
        {"A": "shared", "B": "own", "C": "own"},
    )


def test_a_preset_of_a_role_s_own_replaces_the_command_of_all(tmp_path):
    text = '[agents.default]\ncommand = ["x"]\n[agents.coder]\npreset = "gemini"\n'
    settings = load(tmp_path, text)
    assert facts(settings.agent("coder"))[:2] == ("gemini", None)
    assert facts(settings.agent("critic"))[:2] == (None, ("x",))


def test_a_table_that_names_no_command_makes_no_agent(tmp_path):
    settings = load(tmp_path, "[agents.coder]\ntries = 1\n[agents.default]\ntimeout_seconds = 9\n")
    assert [role for role in ROLES if settings.agent(role)] == []


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_can_be_named(tmp_path, preset):
    names = {"shell": agent_config.SHELL_VARIABLE, "scripted": agent_config.SCRIPT_VARIABLE}
    env = f'env = {{ {names[preset]} = "cat" }}\n' if preset in names else ""
    settings = load(tmp_path, f'[agents.coder]\npreset = "{preset}"\n{env}')
    assert settings.agent("coder").preset == preset


def test_a_role_can_be_left_out_and_only_its_own_table_hires_the_integrator(tmp_path):
    text = '[agents.default]\npreset = "claude"\n[agents.architect]\npreset = "none"\n'
    settings = load(tmp_path, text)
    left_out = [role for role in ROLES if settings.agent(role) is None]
    assert left_out == ["architect", "integrator"]
    own = '[agents.integrator]\npreset = "codex"\n'
    assert load(tmp_path, text + own).agent("integrator").preset == "codex"
    assert load(tmp_path, text + own.replace("codex", "none")).agent("integrator") is None


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        (
            '[agents.default]\npreset = "claude"\n[agents.integrator]\ntries = 1\n',
            "agents.integrator",
            "agents.integrator must name its own preset or command: [agents.default] does not",
        ),
        ("agents = 3\n", "agents", "agents is 3, and must be a section"),
        ("[[agents]]\n", "agents", "agents is a list, and must be a section"),
        ("[agent]\n", "agent", "there is no section agent; did you mean agents?"),
        (
            "[agents.codr]\n",
            "agents.codr",
            "there is no role agents.codr; did you mean agents.coder?",
        ),
        ("[agents.cook]\n", "agents.cook", "there is no role agents.cook"),
        ("agents.coder = 3\n", "agents.coder", "is 3, and must be a section, [agents.coder]"),
        (
            "[agents.coder]\ntimeout = 3\n",
            "agents.coder.timeout",
            "there is no setting agents.coder.timeout; did you mean agents.coder.timeout_seconds?",
        ),
        (
            '[agents.coder]\npreset = "cloude"\n',
            "agents.coder.preset",
            'agents.coder.preset is "cloude", and must be one of "claude", "codex", "gemini", '
            '"opencode", "scripted", "shell"',
        ),
        ("[agents.coder]\npreset = 1\n", "agents.coder.preset", "must be one of"),
        ("[agents.coder]\npreset = []\n", "agents.coder.preset", "must be one of"),
        (
            '[agents.coder]\npreset = "claude"\ncommand = ["x"]\n',
            "agents.coder.command",
            "agents.coder has both preset and command, and must have one of them",
        ),
        ("[agents.coder]\ncommand = []\n", "agents.coder.command", "is an empty list, and"),
        (
            '[agents]\npreset = "claude"\n',
            "agents.preset",
            "must stand in a section: of one role, as [agents.coder], or of all, [agents.default]",
        ),
        (
            '[agents.coder]\npreset = "scripted"\n',
            "agents.coder.env",
            'has the preset "scripted", and env.TUGCODE_SCRIPT must say which script it plays',
        ),
        ('[agents.coder]\ncommand = [""]\n', "agents.coder.command", "must be a list of words"),
        ('[agents.coder]\ncommand = "x"\n', "agents.coder.command", "must be a list of words"),
        ('[agents.coder]\ncommand = ["x", 1]\n', "agents.coder.command", "a list of words"),
        ('[agents.coder]\ncommand = ["x\\u0000"]\n', "agents.coder.command", "a list of words"),
        ("[agents.coder]\ntries = 0\n", "agents.coder.tries", "is 0, and must be a whole number"),
        ("[agents.coder]\ntries = 101\n", "agents.coder.tries", "at least 1 and at most 100"),
        ("[agents.coder]\ntries = true\n", "agents.coder.tries", "is true, and must be a whole"),
        ("[agents.coder]\ntimeout_seconds = 1.5\n", "agents.coder.timeout_seconds", "is 1.5, and"),
        ("[agents.coder]\ntimeout_seconds = 604801\n", "agents.coder.timeout_seconds", "604800"),
        ("[agents.coder]\nenv = []\n", "agents.coder.env", "is an empty list, and must be a table"),
        ("[agents.coder]\nenv = { A = 1 }\n", "agents.coder.env", "must be a table of text"),
        ('[agents.coder]\nenv = { "A=B" = "" }\n', "agents.coder.env", "must be a table of text"),
        ('[agents.coder]\nenv = { "" = "" }\n', "agents.coder.env", "must be a table of text"),
        ('[agents.coder]\nenv = { A = "\\u0000" }\n', "agents.coder.env", "a table of text"),
        (
            '[agents.default]\npreset = "shell"\n',
            "agents.default.env",
            'agents.default has the preset "shell", and env.TUGCODE_AGENT_SHELL must say what line',
        ),
        (
            '[agents.coder]\npreset = "shell"\nenv = { A = "b" }\n',
            "agents.coder.env",
            "must say what line it runs",
        ),
    ],
)
def test_what_is_wrong_is_refused_by_its_name(tmp_path, text, key, message):
    error = refusal(tmp_path, text)
    assert error.facts["key"] == key
    assert message in error.message


def test_the_line_of_the_shell_preset_may_stand_in_either_table(tmp_path):
    line = '{ TUGCODE_AGENT_SHELL = "cat" }'
    for first, second in (("default", "coder"), ("coder", "coder")):
        text = f'[agents.coder]\npreset = "shell"\n[agents.{first}]\nenv = {line}\n'
        if first == second:
            text = f'[agents.coder]\npreset = "shell"\nenv = {line}\n'
        assert load(tmp_path, text).agent("coder").env == {"TUGCODE_AGENT_SHELL": "cat"}


def test_the_settings_are_shown_with_where_they_come_from_and_without_secrets(repo, tugcode):
    load(repo.path, EVERYTHING.replace('"own"', '"s3cret"'))
    shown = tugcode("-C", repo.path, "config", "--json")
    rows = {row["key"]: (row["value"], row["source"]) for row in shown.data["settings"]}
    file, shared = ".tugtool/config.toml", ".tugtool/config.toml [agents.default]"
    assert rows["agents.coder.command"] == (["my-agent", "--headless"], file)
    assert rows["agents.coder.timeout_seconds"] == (60, file)
    assert rows["agents.coder.tries"] == (5, shared)
    assert rows["agents.coder.env"] == (["A", "B", "C"], file)
    assert rows["agents.reviewer.preset"] == ("codex", file)
    assert rows["agents.auditor.preset"] == ("claude", shared)
    assert rows["agents.auditor.timeout_seconds"] == (3600, "default")
    assert "agents.coder.preset" not in rows
    assert "agents.auditor.command" not in rows
    assert "s3cret" not in shown.out
    text = tugcode("-C", repo.path, "config").out
    assert "s3cret" not in text
    assert any(
        line.split() == ["agents.coder.command", "my-agent", "--headless", file]
        for line in text.splitlines()
    )


def test_a_command_that_could_disturb_a_terminal_is_shown_harmlessly(repo, tugcode):
    load(repo.path, '[agents.coder]\ncommand = ["x\\u001b[31m", "a\\nb"]\n')
    text = tugcode("-C", repo.path, "config").out
    assert "\x1b" not in text
    assert "a\nb" not in text


def test_every_key_is_one_that_is_checked():
    assert set(KEYS) == set(agent_config._TAKES)


@pytest.mark.parametrize(("text", "loads"), [("", False), ("[agents.coder]\n", True)])
def test_what_knows_agents_is_loaded_only_if_the_file_speaks_of_them(tmp_path, text, loads):
    path = tmp_path / ".tugtool" / "config.toml"
    path.parent.mkdir()
    Path(path).write_text(text)
    probe = (
        "import sys; from tugtool.system import config\n"
        "config.load(sys.argv[1]); print(*sys.modules)"
    )
    words = [sys.executable, "-c", probe, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert ("tugtool.system.agent_config" in done.stdout.split()) == loads
    assert "jsonschema" not in done.stdout.split()
