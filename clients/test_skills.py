"""The skills keep to the format that every client reads."""

from pathlib import Path

import pytest

from conftest import PLUGIN
from running import ROOT, Home

SKILLS = sorted((ROOT / PLUGIN / "skills").iterdir())


@pytest.mark.parametrize("skill", SKILLS, ids=lambda path: path.name)
def test_it_is_a_skill_for_any_client(home: Home, skill: Path) -> None:
    home.run("agentskills", "validate", str(skill)).expect()


def test_a_skill_whose_name_is_not_its_folder_is_none(home: Home, marketplace: Path) -> None:
    skill = (marketplace / PLUGIN / "skills" / "dash").rename(marketplace / "another")
    assert "must match" in home.run("agentskills", "validate", str(skill)).refused()
