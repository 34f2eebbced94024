"""docs/reference/machines.md: its commands, run in their order by three machines."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import git
from support.server import Process
from support.worktree import IDENTITY
from workflow.test_shared_record import url

__all__ = ["url"]

pytestmark = pytest.mark.proof(share=0)

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "machines.md"
BLOCK = re.compile(r"```sh\n(.*?)^```", re.S | re.M)


class Reader:
    """A person at one machine, who types what the page says."""

    def __init__(self, name: str, directory: Path, remote: Path) -> None:
        self.place = directory / name
        self.place.mkdir()
        home = {"HOME": str(self.place), "TUGCODE_MACHINE": name, "REMOTE": str(remote)}
        home |= {"XDG_STATE_HOME": str(self.place / "state"), "TUGCODE_TRUST": "0"}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.env = {**os.environ, **IDENTITY, **home, "PATH": path}

    def types(self, script: str, at: str = "") -> str:
        argv = ["sh", "-euc", script]
        there = self.place / at
        done = subprocess.run(
            argv, cwd=there, env=self.env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def _block(number: int) -> str:
    """The blocks: repository, PostgreSQL, server, another machine, merge."""
    blocks = BLOCK.findall(PAGE.read_text())
    assert len(blocks) == 5
    return blocks[number]


def _team(directory: Path) -> tuple[Path, list[Reader]]:
    bare = directory / "shop.git"
    git("init", "--quiet", "--bare", "--initial-branch=main", str(bare), cwd=directory)
    return bare, [Reader(name, directory, bare) for name in ("till", "kiosk", "store")]


def _carried_out(first: Reader, others: list[Reader], bare: Path) -> None:
    """The other machines join, all do a step, and the first merges."""
    do = 'cd "$(ls -d .tugtree/*)" && echo done > "$TUGCODE_MACHINE.txt" && tugcode done --all'
    for reader in others:
        reader.types(_block(3))
        reader.types(do, "shop")
    first.types("tugcode trust --yes && tugcode next greeter", "shop")
    first.types(do, "shop")
    assert "pushed main" in first.types(_block(4))
    names = git("ls-tree", "--name-only", "main", cwd=bare).split()
    assert {"kiosk.txt", "store.txt", "till.txt"} <= set(names)
    for reader in others:
        reader.types("git pull --quiet && tugcode worktree cleanup", "shop")
        assert os.listdir(reader.place / "shop" / ".tugtree") == []


def test_three_machines_do_what_the_page_says(tmp_path, url):
    bare, (first, *others) = _team(tmp_path)
    first.env["OWNER_URL"] = url
    first.types(_block(0))
    first.types(_block(1))
    _carried_out(first, others, bare)


def test_the_same_with_a_server_as_the_page_says(tmp_path):
    bare, (first, *others) = _team(tmp_path)
    first.types(_block(0))
    tokens = [line for line in first.types(_block(2)).splitlines() if line.startswith("tug_")]
    with Process(first.place / "served") as server:
        for reader, token in zip((first, *others), tokens, strict=True):
            reader.env |= {"TUGCODE_SERVER": server.url, "TUGCODE_TOKEN": token}
        _carried_out(first, others, bare)
