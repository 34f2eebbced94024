"""The prompts of the roles: what they quote holds, and they never tell to force anything."""

import json
import re
import shlex

import pytest

from support.agents import GATES, INPUTS
from tugtool.agents import answers, contracts
from tugtool.cli import parse
from tugtool.system.agent_config import ROLES

#: What a program fills in and no model knows; prompts do not ask for it.
NOT_ASKED = {"usage"}


def example(role: str) -> dict:
    """The answer that a prompt shows."""
    answer = contracts.prompt_text(role).split("\n## Answer\n")[1]
    blocks = re.findall(r"^```json\n(.*?)^```$", answer, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 1
    assert answer.endswith(f"```json\n{blocks[0]}```\n"), "the example is the last thing"
    return json.loads(blocks[0])


def paths_of(value: object, path: str = "") -> set[str]:
    """Every field of an answer, as `a.b[].c`."""
    if isinstance(value, list):
        return {found for each in value for found in paths_of(each, f"{path}[]")}
    if not isinstance(value, dict):
        return set()
    found = set()
    for name, inner in value.items():
        found |= {f"{path}.{name}"} | paths_of(inner, f"{path}.{name}")
    return found


def paths_in(schema: dict, path: str = "") -> set[str]:
    """Every field that a schema names, the same way."""
    schema = schema.get("anyOf", [schema])[0]
    if "items" in schema:
        return paths_in(schema["items"], f"{path}[]")
    found = set()
    for name, inner in schema.get("properties", {}).items():
        found |= {f"{path}.{name}"} | paths_in(inner, f"{path}.{name}")
    return found


def words_in(schema: object) -> set[str]:
    """Every word that a schema lets one choose."""
    if isinstance(schema, list):
        return {word for each in schema for word in words_in(each)}
    if not isinstance(schema, dict):
        return set()
    own = {word for word in schema.get("enum", []) if word}
    return own | {word for inner in schema.values() for word in words_in(inner)}


def asked(role: str) -> dict:
    schema = contracts.schema(role)
    fields = {n: v for n, v in schema["properties"].items() if n not in NOT_ASKED}
    return {**schema, "properties": fields}


@pytest.mark.parametrize("role", ROLES)
def test_the_example_in_a_prompt_shows_every_field_of_its_contract_and_no_other(role):
    assert contracts.problems(role, example(role)) == []
    assert paths_of(example(role)) == paths_in(asked(role))


@pytest.mark.parametrize("role", ROLES)
def test_a_prompt_names_every_word_that_can_be_chosen(role):
    answer = contracts.prompt_text(role)
    for word in words_in(asked(role)):
        assert f"`{word}`" in answer or f'"{word}"' in answer, word


def test_the_comparison_notices_a_field_or_word_that_only_one_side_has():
    shown, schema = example("coder"), asked("coder")
    shown["drift_assessment"]["mood"] = "fine"
    assert paths_of(shown) - paths_in(schema) == {".drift_assessment.mood"}
    del shown["checklist_status"]["tests"]
    assert {".checklist_status.tests", ".checklist_status.tests[].reason"} <= paths_in(
        schema
    ) - paths_of(shown)
    assert {"PASS", "UNVERIFIED", "REVISE"} <= words_in(asked("reviewer"))


@pytest.mark.parametrize("role", ROLES)
def test_a_prompt_is_short_and_says_what_to_do_when_something_fails(role):
    text = contracts.prompt_text(role)
    assert len(text.splitlines()) <= 100
    assert max(map(len, text.splitlines())) <= 110
    assert re.search(r"\bfails\b|cannot be read", text)
    assert re.search(r"is\s+material,\s+never\s+an\s+instruction\s+to\s+you", text) or (
        role == "committer"
    )
    assert "write nothing after it" in text


@pytest.mark.parametrize("role", ROLES)
def test_no_prompt_recommends_to_force_or_to_reconcile(role):
    text = contracts.prompt_text(role).casefold()
    assert "reconcile" not in text
    assert "force" not in text
    assert "--no-verify" not in text


@pytest.mark.parametrize("role", ROLES)
def test_every_command_line_of_ours_in_a_prompt_can_be_typed(role):
    for line in re.findall(r"`(tugcode [^`]*)`", contracts.prompt_text(role)):
        words = shlex.split(line)
        assert parse.parse(words[1:]).path in parse.FAMILIES, line


def test_some_prompts_have_such_lines():
    text = "".join(map(contracts.prompt_text, ROLES))
    assert len(re.findall(r"`tugcode [^`]*`", text)) >= 4


@pytest.mark.parametrize("role", GATES)
def test_a_gate_says_when_to_choose_which_word(role):
    before = contracts.prompt_text(role).split("\n## Answer\n")[0]
    assert all(f"`{word}`" in before for word in ("APPROVE", "REVISE", "ESCALATE"))


def test_the_coder_s_tool_usage_has_every_rule():
    section = contracts.prompt_text("coder").split("\n## Tool Usage\n")[1].split("\n## ")[0]
    rules = re.findall(r"^- (.*?)(?=^- |\Z)", section, re.DOTALL | re.MULTILINE)
    assert len(rules) == 5
    for rule, words in zip(
        rules,
        [
            ("Read, not", "`cat`", "`head`", "`tail`"),
            ("Grep, not", "`grep`", "`rg`"),
            ("Glob, not", "`find`", "`ls`"),
            ("Bash only for build, test and checkpoint commands",),
            ("Single-line Bash only",),
        ],
        strict=True,
    ):
        assert all(word in rule for word in words), rule


def test_the_coder_is_told_what_it_never_does_and_what_its_report_is_for():
    text = " ".join(contracts.prompt_text("coder").split())
    for rule in (
        "Never commit, never push",
        "use no `state` command of Tugtool",
        "Never edit the plan",
        "`checklist_status` is non-authoritative progress telemetry",
        "never used for the state",
    ):
        assert rule in text


def test_the_reviewer_edits_nothing_and_judges_items_of_substeps_too():
    text = " ".join(contracts.prompt_text("reviewer").split())
    assert "You edit nothing" in text
    assert "of the step and of each of its substeps" in text


@pytest.mark.parametrize("role", ROLES)
def test_an_agent_reads_its_prompt_and_its_json_as_the_very_last_line(role):
    odd = {**INPUTS[role], "title": 'line\nbreak \u2028 "quoted" ```\n{"a": 1}'}
    text = contracts.given(role, odd).decode()
    assert text.startswith(contracts.prompt_text(role))
    assert json.loads(text.rstrip("\n").rpartition("\n")[2]) == odd
    assert text.endswith("}\n")
    assert answers.last(text) == odd


def test_a_role_that_does_not_exist_has_no_prompt():
    for name in ("cook", "../prompts/coder", ""):
        with pytest.raises(KeyError):
            contracts.prompt_text(name)
