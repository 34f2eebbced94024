"""The plugin keeps every rule, and every rule is shown to catch what it is about."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support import plugin_lint as lint
from support.agents import INPUTS
from tugtool.agents import contracts

ROOT = Path(__file__).parents[2]
WRITER = ROOT / "scripts" / "plugin.py"
HOOKS = "tugplug/hooks/hooks.json"
MARKET = ".claude-plugin/marketplace.json"
CODER = "tugplug/agents/coder-agent.md"
CRITIC = "tugplug/agents/critic-agent.md"
IMPLEMENT = "tugplug/skills/implement/SKILL.md"
PLAN = "tugplug/skills/plan/SKILL.md"
QUOTED = "tugplug/skills/plan/references/contracts.md"


@pytest.mark.parametrize("rule", lint.RULES, ids=lambda rule: rule.__name__)
def test_the_plugin_keeps_the_rule(rule):
    assert "\n".join(rule(ROOT)) == ""


#: A rule, the file to spoil, what to put in the place of what, and the complaint.
PLANTED = [
    (lint.manifests_say_only_what_is_read, "tugplug/plugin.json", '"license"', '"licence"', "lic"),
    (lint.manifests_say_only_what_is_read, "tugplug/plugin.json", "1.0.0/p", "2.0.0/p", "specif"),
    (lint.manifests_say_only_what_is_read, MARKET, '"owner"', '"owners"', "nobody reads owners"),
    (lint.names_agree, MARKET, '"name": "tugplug"', '"name": "tugplugs"', "other plugins"),
    (lint.names_agree, MARKET, "./tugplug", "./plug", "./plug is no plugin"),
    (lint.names_agree, "tugplug/plugin.json", '"tugplug"', '"tug"', "than its folder"),
    (
        lint.names_are_those_of_files,
        PLAN,
        "name: plan",
        "name: plans",
        "another name than its folder",
    ),
    (
        lint.names_are_those_of_files,
        CODER,
        "name: coder-agent",
        "name: coder",
        "another name than its file",
    ),
    (lint.everybody_is_there, "tugplug/agents/cook-agent.md", "", "", "agents/cook-agent.md"),
    (lint.everybody_is_there, "tugplug/skills/cook/SKILL.md", "", "", "skills/cook"),
    (lint.versions_are_the_package_s, MARKET, '"version": "', '"version": "9', "has version 9"),
    (lint.versions_are_the_package_s, "tugplug/plugin.json", '"version": "', '"v": "', "None"),
    (lint.hooks_can_be_run, HOOKS, "tugcode hook", "tugcod hook", "tugcod is no command"),
    (lint.hooks_can_be_run, HOOKS, "pre-tool-use", "before-tool-use", "before-tool-use"),
    (lint.hooks_can_be_run, HOOKS, "PreToolUse", "PreToolUses", "nobody reads PreToolUses"),
    (lint.hooks_can_be_run, HOOKS, '"timeout"', '"time"', "nobody reads time"),
    (lint.hooks_can_be_run, HOOKS, '"matcher"', '"match"', "nobody reads match"),
    (lint.front_matter_is_read_as_it_stands, PLAN, "an idea,", "an idea: x", "something else"),
    (lint.front_matter_is_read_as_it_stands, CODER, "model: inherit", "model: *x", "something"),
    (lint.agents_name_what_exists, CODER, "tools: Read", "tools: Reed", "no tool Reed"),
    (lint.agents_name_what_exists, CODER, "model: inherit", "model: gpt", "no model gpt"),
    (lint.agents_name_what_exists, CODER, "model: inherit", "permissionMode: plan", "ignored"),
    (lint.agents_name_what_exists, CODER, "model:", "hooks: x\nmodel:", "hooks is ignored"),
    (lint.agents_name_what_exists, CODER, "model:", "mcpServers: x\nmodel:", "mcpServers is ign"),
    (lint.agents_name_what_exists, CODER, "model:", "modle:", "modle is ignored in a plugin, or"),
    (lint.agents_name_what_exists, CODER, "description: ", "description: " + "x" * 1024, "long"),
    (lint.agents_may_do_what_they_are_told, CRITIC, "tools: Read", "tools: Edit, Read", "Edit to"),
    (
        lint.agents_may_do_what_they_are_told,
        CRITIC,
        "# Critic",
        "`tugcode state reset a b`",
        "reset",
    ),
    (lint.skills_keep_the_specification, PLAN, "license:", "model:", "model is no key"),
    (
        lint.skills_keep_the_specification,
        PLAN,
        "description: ",
        "description: " + "x" * 999,
        "1024",
    ),
    (lint.skills_keep_the_specification, PLAN, "name: plan", "name: Plan", "Plan is no name"),
    (lint.skills_keep_the_specification, PLAN, "Read Agent", "Read Agents", "no tool Agents"),
    (lint.skills_keep_the_specification, PLAN, "# Plan\n", "# Plan\n" * 500, "lines"),
    (lint.links_lead_somewhere, PLAN, "references/contracts.md)", "references/c.md)", "c.md is"),
    (lint.links_lead_somewhere, IMPLEMENT, "(#resuming)", "(#resume)", "heading for #resume"),
    (lint.commands_can_be_typed, PLAN, "tugcode validate", "tugcode validat", "validat"),
    (lint.commands_can_be_typed, CRITIC, "--level strict", "--levels strict", "--levels"),
    (
        lint.commands_can_be_typed,
        IMPLEMENT,
        "--complete-remaining --json",
        "--complete-rest",
        "rest",
    ),
    (lint.commands_can_be_typed, CODER, "# Coder", "`tugcode state`", "`tugcode state`"),
    (lint.skills_run_single_lines_for_programs, PLAN, "tugcode list --json", "tugcode list", "no"),
    (lint.skills_run_single_lines_for_programs, PLAN, "init --json", "init --json \\", "one line"),
    (lint.skills_run_single_lines_for_programs, PLAN, "init --json", "init --json > x", "a file"),
    (lint.skills_run_single_lines_for_programs, PLAN, "tugcode init --json", "ls --json", "`ls"),
    (
        lint.skills_may_run_what_they_run,
        IMPLEMENT,
        " Bash(git -C:*)",
        "",
        "`git -C {worktree_path}",
    ),
    (lint.skills_may_run_what_they_run, IMPLEMENT, " Bash(echo:*)", "", "`echo '[]'` is not among"),
    (lint.skills_may_run_what_they_run, PLAN, "tugcode list", "git log", "`git log --json`"),
    (
        lint.skills_read_answers_for_programs,
        PLAN,
        "diff {plan_path} --json",
        "diff x",
        "diff x` is",
    ),
    (
        lint.drift_is_looked_for_where_it_is,
        IMPLEMENT,
        "state diff {plan_path} --worktree {worktree_path}",
        "state diff {plan_path}",
        "compares another copy",
    ),
    (lint.holders_say_who_they_are, IMPLEMENT, " --attempt {attempt}", "", "which attempt"),
    (lint.nothing_is_forced, CODER, "# Coder", "Then `tugcode merge x --force`.", "forces"),
    (lint.nothing_is_forced, CODER, "# Coder", "Then use --force.", "not forbidden"),
    (lint.nothing_is_forced, PLAN, "tugcode list", "tugcode state reconcile x", "forces"),
    (lint.codes_exist, PLAN, "E041", "E941", "no code E941"),
    (lint.contracts_are_the_schemas, CODER, '"tests_passed": true,', "", "another answer"),
    (lint.contracts_are_the_schemas, CODER, '"success": true', '"success": "yes"', "breaks its"),
    (lint.skills_know_the_contracts, QUOTED, "| `questions` |", "| `question` |", "question is"),
    (lint.skills_know_the_contracts, PLAN, "`idea`", "`ideas`", "never gives clarifier its idea"),
    (lint.sections_are_there, IMPLEMENT, "## State lifecycle", "## State", "State lifecycle"),
    (lint.sections_are_there, CODER, "## Tool Usage", "## Tools", "Tool Usage"),
]


@pytest.fixture
def copy(tmp_path) -> Path:
    """The plugin and its marketplace, to be spoiled."""
    for name in (".claude-plugin", "tugplug"):
        shutil.copytree(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize(("rule", "file", "old", "new", "complaint"), PLANTED)
def test_a_planted_fault_is_caught(copy, rule, file, old, new, complaint):
    path = copy / file
    path.parent.mkdir(exist_ok=True)
    text = path.read_text() if path.exists() else ""
    assert old in text
    path.write_text(text.replace(old, new))
    assert complaint in "\n".join(rule(copy))


def test_every_rule_is_shown_to_bite():
    assert {rule for rule, *_ in PLANTED} == set(lint.RULES)


def test_the_agents_are_the_prompts_and_what_is_written_is_up_to_date():
    done = subprocess.run(
        [sys.executable, WRITER, "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_prompt_that_was_edited_in_the_plugin_alone_is_noticed(copy):
    (copy / CODER).write_text((copy / CODER).read_text() + "\nAnd be kind.\n")
    program = WRITER.read_text().replace(
        "ROOT = Path(__file__).resolve().parent.parent", f"ROOT = Path({str(copy)!r})"
    )
    command = [sys.executable, "-c", program, "--check"]
    done = subprocess.run(command, cwd=WRITER.parent, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"{CODER} is out of date; run: make docs\n")


def test_there_are_enough_command_lines_for_the_rules_to_mean_something():
    lines = [line for path in lint.written(ROOT) for line in lint.command_lines(path.read_text())]
    assert len(lines) > 50


def test_the_commit_is_judged_by_completed_and_every_refusal_has_its_row():
    text = (ROOT / IMPLEMENT).read_text()
    table = text.split("\n## 6. Commit\n")[1].split("\n### ")[0]
    rows = re.findall(r"^\| (.*?) \|", table, re.MULTILINE)
    assert rows == [
        *("answer", "`completed: true`"),
        "`completed: false` and `state_update_failed: true`",
        *("E076", "E081", "E080", "exit status 4, E049, E060"),
    ]
    assert "begins with `N/A`, anchor and\ntitle" in table


def test_what_the_implement_skill_sends_is_what_the_contracts_take():
    text = (ROOT / IMPLEMENT).read_text()
    [found] = re.findall(r"`findings` set to `(\{.*?\})` and", text)
    given = {**INPUTS["coder"], "findings": json.loads(found)}
    assert contracts.problems("coder", given, of_input=True) == []
    # The auditor's and the integrator's contracts say: none, it is about the whole plan.
    last = text.split("\n## 7. When every step is completed\n")[1].split("\n## ")[0]
    assert last.count("`step_anchor` and `attempt` as `null`") == 2
    for role in ("auditor", "integrator"):
        fields = contracts.schema(role, of_input=True)["properties"]
        assert fields["step_anchor"]["description"].startswith("none: ")
    assert "the coder, with the `step_anchor` and `attempt` of 2" in last
    assert "`cross_step_issues`" in (ROOT / CODER).read_text()


def test_a_refused_commit_is_an_answer_that_the_committer_s_contract_takes():
    text = (ROOT / "tugplug/agents/committer-agent.md").read_text()
    refused = {"completed": False, "committed": False, "commit_hash": None}
    refused |= {"state_update_failed": False, "error_code": "E076", "warnings": ["no"]}
    assert contracts.problems("committer", refused) == []
    for name in ("completed", "commit_hash", "state_update_failed", "error_code", "warnings"):
        assert f"`{name}`" in text.split("\n## When it fails\n")[1].split("\n## ")[0]


def test_the_implement_skill_recovers_by_reason_and_closes_only_what_was_approved():
    text = (ROOT / IMPLEMENT).read_text()
    assert "> Coder reported: N/M tasks, P/Q tests\n" in text
    approved = text.split("\n### After APPROVE\n")[1].split("\n## ")[0]
    assert approved.count("--batch --complete-remaining") == 2
    assert "`checklist_status`" not in approved
    loop = text.split("\n### When the state could not be updated\n")[1].split("\n## ")[0]
    for reason in ("drift", "ownership", "db_error"):
        assert f"| `{reason}` | escalate at once: " in loop
    assert "| `open_items`, or none | the loop below |" in loop
    assert "At most 3 times:" in loop
    order = [loop.index(part) for part in ("1. `tugcode state show", "2. The same", "3. Read the")]
    assert sorted(order) == order
    assert loop.index("Only if nothing is open:") < loop.index("tugcode state complete")
    assert "echo '[]' | tugcode state update {plan_path} {step_anchor}" in loop
