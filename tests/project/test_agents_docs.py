"""docs/reference/agents.md names every role, field, preset and word of a script."""

import re
from pathlib import Path

import pytest

from tugtool.agents import clis, contracts
from tugtool.agents import scripted as script
from tugtool.system.agent_config import PRESETS, ROLES, SHELL_VARIABLE

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "agents.md").read_text()


def section(heading: str) -> str:
    """What stands under a heading, to the next of the same or a higher rank."""
    rank = heading.partition(" ")[0]
    body = PAGE.split(f"\n{heading}\n", 1)[1]
    return re.split(rf"^#{{2,{len(rank)}}} ", body, maxsplit=1, flags=re.MULTILINE)[0]


def rows(text: str) -> dict[str, list[str]]:
    """The cells of every table row by the first of them."""
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines}


def fields(schema: dict, prefix: str = ""):
    for name, inner in schema.get("properties", {}).items():
        path = f"{prefix}{name}{'' if name in schema['required'] else '?'}"
        yield path, inner
        deeper, mark = inner, ""
        while "items" in deeper:
            deeper, mark = deeper["items"], f"{mark}[]"
        yield from fields(deeper.get("anyOf", [deeper])[0], f"{path}{mark}.")


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("of_input", [True, False])
def test_every_field_of_a_contract_stands_in_its_table_and_nothing_else(role, of_input):
    gets, answers = section(f"### {role}").split("\nAnswers (")
    table = rows(gets if of_input else answers)
    named = dict(fields(contracts.schema(role, of_input=of_input)))
    assert {key.strip("`") for key in table if key.startswith("`")} == set(named)
    for path, schema in named.items():
        assert table[f"`{path}`"][1] == schema["description"]


@pytest.mark.parametrize("role", ROLES)
def test_every_role_is_told_with_what_it_may_do(role):
    words = {clis.LOOK: "look", clis.RUN: "run commands", clis.EDIT: "edit"}
    assert rows(PAGE.split("\n## ")[0])[role][1] == words[clis.ACCESS[role]]


def test_every_preset_is_told():
    told = rows(section("## Presets"))
    assert {f"`{name}`" for name in PRESETS} <= set(told)
    assert SHELL_VARIABLE in section("## Presets")


def test_every_word_of_a_script_is_told():
    text = section("## The scripted agent")
    beside = {word for words in script.BESIDE.values() for word in words}
    for word in {*script.ASKED, *script.SAID, *script.ACTS, *beside, *script.FORMS} - {"do"}:
        assert re.search(rf"^\|.*`{re.escape(word)}`", text, re.MULTILINE), word
    assert "`do`" in text


def test_the_script_in_the_page_can_be_played(tmp_path):
    blocks = re.findall(r"```toml\n(.*?)```", section("## The scripted agent"), re.DOTALL)
    (text,) = [block for block in blocks if "[[rule]]" in block]
    path = tmp_path / "script.toml"
    path.write_text(text)
    assert len(script.load(str(path))) == 3


def test_the_settings_in_the_page_are_taken(tmp_path):
    from system.test_config import load

    blocks = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    settings = [load(tmp_path, block) for block in blocks if "[agents" in block]
    assert len(settings) == 2
    assert settings[0].agent("coder").preset == "codex"
    reviewer = settings[1].agent("reviewer")
    assert reviewer.preset == "scripted"
    assert reviewer.env["TUGCODE_SCRIPT"] == "/runs/1/script.toml"
