"""Claude Code accepts the plugin, installs it, and finds everything that is in it."""

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import PLUGIN
from endpoint import Endpoint
from running import ROOT, Home


def names(place: Path, pattern: str) -> list[str]:
    return sorted(path.stem for path in (place / PLUGIN).glob(pattern))


def changed(path: Path, **fields: Any) -> None:
    """A JSON file with other values; those that are None are taken out."""
    value = {**json.loads(path.read_text()), **fields}
    kept = {key: each for key, each in value.items() if each is not None}
    path.write_text(json.dumps(kept))


def validate(home: Home, path: Path) -> int:
    return home.run("claude", "plugin", "validate", "--strict", str(path)).status


def install(home: Home, marketplace: Path) -> None:
    home.run("claude", "plugin", "marketplace", "add", str(marketplace)).expect()
    home.run("claude", "plugin", "install", f"{PLUGIN}@tugtool").expect()


def details(home: Home) -> dict[str, str]:
    """What the client has found in the plugin, by kind."""
    told = home.run("claude", "plugin", "details", PLUGIN).expect()
    lines = [line.split("  ") for line in told.splitlines() if line.startswith("  ")]
    return {line[1].split(" (")[0]: "  ".join(line[2:]) for line in lines if len(line) > 2}


@pytest.mark.parametrize("path", [ROOT, ROOT / PLUGIN], ids=["marketplace", "plugin"])
def test_it_is_valid_to_the_letter(home: Home, path: Path) -> None:
    home.run("claude", "plugin", "validate", "--strict", str(path)).expect()


def test_a_plugin_without_a_name_is_not_valid(home: Home, marketplace: Path) -> None:
    changed(marketplace / PLUGIN / ".claude-plugin" / "plugin.json", name=None)
    assert validate(home, marketplace / PLUGIN) != 0


def test_a_plugin_that_tells_no_author_is_not_valid(home: Home, marketplace: Path) -> None:
    changed(marketplace / PLUGIN / ".claude-plugin" / "plugin.json", author=None)
    assert validate(home, marketplace / PLUGIN) != 0


def test_a_marketplace_that_offers_nothing_is_not_valid(home: Home, marketplace: Path) -> None:
    changed(marketplace / ".claude-plugin" / "marketplace.json", plugins=None)
    assert validate(home, marketplace) != 0


def test_it_is_installed_from_the_marketplace(home: Home) -> None:
    install(home, ROOT)
    (told,) = json.loads(home.run("claude", "plugin", "list", "--json").expect())
    version = json.loads((ROOT / PLUGIN / ".claude-plugin" / "plugin.json").read_text())["version"]
    assert (told["id"], told["version"], told["enabled"]) == (f"{PLUGIN}@tugtool", version, True)


def test_an_installed_package_brings_it_along(home: Home) -> None:
    home.run("tugcode", "plugin", "install").expect()
    assert "implement" in details(home)["Skills"]


def test_every_skill_agent_and_hook_is_found(home: Home) -> None:
    install(home, ROOT)
    told = details(home)
    assert told["Skills"].split(", ") == sorted(
        path.name for path in (ROOT / PLUGIN / "skills").iterdir()
    )
    assert sorted(told["Agents"].split(", ")) == names(ROOT, "agents/*.md")
    assert told["Hooks"].startswith("PreToolUse")


def test_a_skill_that_is_gone_is_missed(home: Home, marketplace: Path) -> None:
    (marketplace / PLUGIN / "skills" / "implement" / "SKILL.md").unlink()
    install(home, marketplace)
    assert "implement" not in details(home)["Skills"]


def test_a_plugin_that_the_marketplace_does_not_offer_is_not_installed(
    home: Home, marketplace: Path
) -> None:
    home.run("claude", "plugin", "marketplace", "add", str(marketplace)).expect()
    assert home.run("claude", "plugin", "install", "another@tugtool").status != 0


def test_a_client_that_wants_out_is_heard_at_the_door(home: Home, door: Endpoint) -> None:
    source = "https://example.invalid/nobody/nothing.git"
    assert home.run("claude", "plugin", "marketplace", "add", source).status != 0
    assert door.knocks == ["example.invalid:443"]
    door.knocks.clear()
