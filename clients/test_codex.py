"""Codex installs the plugin from the same marketplace and knows its skills."""

import json
import re
from pathlib import Path

from conftest import PLUGIN
from running import ROOT, Home


def install(home: Home, marketplace: Path) -> None:
    home.run("codex", "plugin", "marketplace", "add", str(marketplace)).expect()
    home.run("codex", "plugin", "add", f"{PLUGIN}@tugtool").expect()


def skills(home: Home) -> list[str]:
    """The plugin's skills that Codex puts before its model."""
    door = f'openai_base_url="{home.door}"'
    told = home.run("codex", "debug", "prompt-input", "-c", door, "hello").expect()
    return sorted(re.findall(rf"- ({PLUGIN}:\w+): ", told))


def test_the_marketplace_offers_the_plugin(home: Home) -> None:
    home.run("codex", "plugin", "marketplace", "add", str(ROOT)).expect()
    told = json.loads(home.run("codex", "plugin", "list", "--json", "--available").expect())
    assert [each["pluginId"] for each in told["available"]] == [f"{PLUGIN}@tugtool"]


def test_it_is_installed(home: Home) -> None:
    install(home, ROOT)
    told = json.loads(home.run("codex", "plugin", "list", "--json").expect())
    assert [(each["pluginId"], each["enabled"]) for each in told["installed"]] == [
        (f"{PLUGIN}@tugtool", True)
    ]


def test_every_skill_is_listed(home: Home) -> None:
    install(home, ROOT)
    folders = sorted(path.name for path in (ROOT / PLUGIN / "skills").iterdir())
    assert skills(home) == [f"{PLUGIN}:{name}" for name in folders]


def test_an_installed_package_brings_it_along(home: Home) -> None:
    home.run("tugcode", "plugin", "install", "--client", "codex").expect()
    assert f"{PLUGIN}:implement" in skills(home)


def test_a_skill_without_a_description_is_missed(home: Home, marketplace: Path) -> None:
    (marketplace / PLUGIN / "skills" / "merge" / "SKILL.md").write_text("---\nname: merge\n---\n")
    install(home, marketplace)
    assert f"{PLUGIN}:merge" not in skills(home)


def test_a_marketplace_that_cannot_be_read_is_refused(home: Home, marketplace: Path) -> None:
    (marketplace / ".claude-plugin" / "marketplace.json").write_text("{")
    assert home.run("codex", "plugin", "marketplace", "add", str(marketplace)).status != 0
