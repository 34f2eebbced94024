"""A throw-away home behind a door that leads nowhere, and copies of the plugin to be spoilt."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from endpoint import Endpoint, serving
from player import Cast
from running import ROOT, Home

PLUGIN = "tugplug"


@pytest.fixture
def door() -> Iterator[Endpoint]:
    """The only way out; nothing that a client does by itself may knock at it."""
    with serving(Cast({}, {})) as endpoint:
        yield endpoint


@pytest.fixture
def home(tmp_path: Path, door: Endpoint) -> Iterator[Home]:
    """A home in which nobody was before, left without a process and without a knock."""
    place = Home(tmp_path / "home", door.url)
    yield place
    left = place.lasting()
    place.end()
    assert left == []
    assert door.knocks == []


@pytest.fixture
def marketplace(tmp_path: Path) -> Path:
    """A copy of what the repository offers to clients, to be spoilt."""
    place = tmp_path / "marketplace"
    for name in (".claude-plugin", PLUGIN):
        shutil.copytree(ROOT / name, place / name)
    return place
