"""Clients of the MCP server, which end with their test."""

import pytest

from support.mcp import Client, Inside


@pytest.fixture
def inside():
    """Make a server in this process: `inside(there.red)`."""
    made: list[Inside] = []

    def make(*where: object, **how: object) -> Inside:
        made.append(Inside(*where, **how))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def client():
    """Start a server as a process: `client(there.red)`."""
    made: list[Client] = []

    def make(*where: object, **env: str) -> Client:
        made.append(Client(*where, **env))
        return made[-1]

    yield make
    for each in made:
        each.process.kill()
        each.process.communicate()
