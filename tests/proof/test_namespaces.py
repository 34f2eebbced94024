"""Machines that reach each other by addresses alone: each in a network namespace of its own."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from test_many_machines import CLOCKS, DIAMOND, STEPS, WORKER, _ended

from support.machines import Fleet, Machine
from workflow.test_shared_record import url

__all__ = ["url"]

pytestmark = pytest.mark.proof(share=0)

HUB = "10.77.0.1"
FORWARDER = str(Path(__file__).with_name("forwarder.py"))


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Network:
    """A hub with a bridge, and machines that are linked to it; all go with it."""

    def __init__(self, ends: contextlib.ExitStack) -> None:
        self.ends, self.mark = ends, f"tug{os.getpid()}"
        self.hub = self._space("hub")
        self._inside("hub", "link", "add", "bridge", "type", "bridge")
        self._inside("hub", "addr", "add", f"{HUB}/24", "dev", "bridge")
        self._inside("hub", "link", "set", "bridge", "up")

    def _space(self, name: str) -> str:
        space = f"{self.mark}{name}"
        _ip("netns", "add", space)
        self.ends.callback(_ip, "netns", "del", space)
        self._inside(name, "link", "set", "lo", "up")
        return space

    def _inside(self, name: str, *words: str) -> None:
        _ip("-n", f"{self.mark}{name}", *words)

    def add(self, name: str, number: int) -> None:
        """Link a machine to the hub, with an address of its own."""
        space, port = self._space(name), f"p{number}"
        _ip(
            "link",
            "add",
            port,
            "netns",
            self.hub,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            space,
        )
        self._inside("hub", "link", "set", port, "master", "bridge", "up")
        self._inside(name, "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
        self._inside(name, "link", "set", "eth0", "up")

    def argv(self, name: str, *words: str) -> list[str]:
        return ["ip", "netns", "exec", f"{self.mark}{name}", *words]

    def serve(self, *words: str, ready: bool = False) -> None:
        """Start a server on the hub; it ends with the network."""
        # A group of its own: git runs its daemon as another process.
        server = subprocess.Popen(
            self.argv("hub", *words), stdout=subprocess.PIPE, text=True, process_group=0
        )
        self.ends.callback(server.wait)
        self.ends.callback(os.killpg, server.pid, signal.SIGKILL)
        self.ends.callback(server.stdout.close)
        if ready:
            assert server.stdout.readline() == "listening\n"


@pytest.fixture
def network() -> Iterator[Network]:
    with contextlib.ExitStack() as ends:
        yield Network(ends)


def _inside(
    network: Network, machine: Machine, env: dict[str, str], *words: str
) -> subprocess.Popen:
    whole = {**os.environ, **machine.environment, **env}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(network.argv(machine.name, *words), env=whole, text=True, **pipes)


def test_three_machines_with_addresses_of_their_own_carry_out_a_plan(
    network, repo, url, tugcode, monkeypatch, tmp_path
):
    team = Fleet(tmp_path, repo, tugcode, monkeypatch, *DIAMOND)
    machines = team.start(*CLOCKS)
    words = parse_qs(urlsplit(url).query)
    network.serve(
        sys.executable, FORWARDER, f"{words['host'][0]}/.s.PGSQL.5432", HUB, "5432", ready=True
    )
    network.serve(
        *("git", "daemon", "--reuseaddr", "--export-all", "--enable=receive-pack"),
        *(f"--base-path={team.directory}", f"--listen={HUB}", "--port=9418"),
    )
    name = urlsplit(url).path.strip("/")
    there = f"postgresql://postgres@{HUB}:5432/{name}?schema={words['schema'][0]}"
    path = os.pathsep.join(str(Path(__file__).parents[n]) for n in (0, 1))
    env = {"TUGCODE_STATE_URL": there, "PYTHONPATH": path}
    workers = {}
    for number, machine in enumerate(machines, start=2):
        network.add(machine.name, number)
        machine.git("remote", "set-url", "origin", f"git://{HUB}/shop.git")
        argv = [sys.executable, WORKER, str(CLOCKS[machine.name]), str(machine.path), "0"]
        workers[machine.name] = _inside(network, machine, env, *argv)
    did = _ended(workers)
    assert sorted(step for steps in did.values() for step in steps) == sorted(STEPS)
    argv = [sys.executable, "-m", "tugtool", "-C", str(machines[2].path), "merge", "work", "--push"]
    merge = _inside(network, machines[2], env, *argv)
    out, err = merge.communicate()
    assert merge.returncode == 0, err
    assert "pushed main" in out
    assert team.tip("main") == machines[2].git("rev-parse", "main").strip()
    # A machine that is cut off says so, and loses nothing.
    network._inside("till", "link", "set", "eth0", "down")
    argv = [sys.executable, "-m", "tugtool", "-C", str(machines[0].path), "worktree", "publish"]
    cut = _inside(network, machines[0], {"TUGCODE_STATE_URL": url}, *argv)
    _, err = cut.communicate()
    assert cut.returncode == 1
    assert "it cannot be reached" in err
