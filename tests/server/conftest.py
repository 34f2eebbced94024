"""A repository with the plan `work`, and its server in this process."""

import pytest

from support.server import App


@pytest.fixture
def served(desk):
    """Make the repository and its server: `served("1 t", git=True)`."""
    made: list[App] = []

    def make(*lines: str, **terms: object) -> App:
        there = desk(*(lines or ("1 tc", "2 t < 1", "3 t")))
        made.append(App(there.repo.path, **terms))
        made[-1].desk = there
        return made[-1]

    yield make
    for each in made:
        each.close()
