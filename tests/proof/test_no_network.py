"""Without `[remote]` no command pushes, fetches or opens a connection; system calls are watched."""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from proof.test_many_machines import DIAMOND, STEPS, WORKER
from support.machines import CONFIG
from support.state import markdown
from support.worktree import IDENTITY

pytestmark = pytest.mark.proof(share=0)

TESTS = Path(__file__).parents[1]
#: A connection to anything but a socket of this machine's own processes.
CONNECTION = re.compile(r"connect\(\d+, \{sa_family=AF_INET6?")
#: Git as the product starts it, with settings first.
EXCHANGE = re.compile(r'execve\("[^"]*git", \["git", "-c", .*"(push|fetch|pull|ls-remote)"')
#: Tests that start most of what the product starts: git, agents, checkpoints.
PARTS = ("workflow/test_worktree_sync.py", "implement/test_run.py")
WORKERS = 3
MOST_SECONDS = 600


def _watched(trace: Path, *words: str, cwd: Path | None = None) -> subprocess.Popen:
    """Start Python under strace, which writes down connections and programs."""
    strace = shutil.which("strace") or "strace"
    watch = ("--seccomp-bpf", "-f", "-qq", "-e", "trace=connect,execve", "-s", "999", "-o")
    path = os.pathsep.join(map(str, (TESTS / "proof", TESTS)))
    env = {**os.environ, **IDENTITY, "TUGCODE_MACHINE": "till", "PYTHONPATH": path}
    argv = [strace, *watch, str(trace), sys.executable, *words]
    return subprocess.Popen(
        argv, env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _seen(started: dict[Path, subprocess.Popen]) -> str:
    """What they did; each must end well."""
    for process in started.values():
        out, err = process.communicate(timeout=MOST_SECONDS)
        assert process.returncode == 0, out + err
    return "".join(trace.read_text() for trace in started)


def _carried_out(tugcode, root: Path, place: Path) -> str:
    """Three workers carry out the plan in worktrees of one clone; then it is merged."""
    tugcode("-C", root, "state", "init", "work")
    traces = [place / f"trace-{number}" for number in range(WORKERS)]
    seen = _seen({each: _watched(each, WORKER, "0", str(root), "0") for each in traces})
    for number, words in enumerate(
        (["worktree", "publish"], ["doctor", "--fix"], ["merge", "work"])
    ):
        trace = place / f"after-{number}"
        seen += _seen({trace: _watched(trace, "-m", "tugtool", "-C", str(root), *words)})
    return seen


@pytest.fixture
def cloned(repo, tmp_path):
    """A clone whose origin is a directory: with a remote, its commits would go there."""
    repo.plan("work", markdown(*DIAMOND))
    repo.commit()
    bare = tmp_path / "shop.git"
    repo.git("clone", "--quiet", "--bare", str(repo.path), str(bare))
    repo.git("remote", "add", "origin", str(bare))
    return repo


def test_without_a_remote_no_command_pushes_fetches_or_connects(cloned, tugcode, tmp_path):
    seen = _carried_out(tugcode, cloned.path, tmp_path)
    assert seen.count("execve(") > 100
    assert not EXCHANGE.search(seen)
    assert not CONNECTION.search(seen)
    assert "tugplan/" not in cloned.git("ls-remote", "origin")
    log = cloned.git("log", "--format=%(trailers:key=Tug-Step,valueonly,separator=%x2C)", "main")
    assert Counter(line for line in log.split("\n") if line) == Counter(STEPS)


def test_the_watch_sees_a_push(cloned, tugcode, tmp_path):
    cloned.write({CONFIG: '[remote]\nname = "origin"\n'})
    cloned.commit()
    seen = _carried_out(tugcode, cloned.path, tmp_path)
    assert {found.group(1) for found in EXCHANGE.finditer(seen)} == {"push", "fetch"}


def _tests(trace: Path, *words: str) -> str:
    options = ("-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", "not proof")
    return _seen({trace: _watched(trace, *options, *words, cwd=TESTS.parent)})


@pytest.mark.parametrize("part", PARTS)
def test_no_test_of_one_machine_makes_the_product_connect(part, tmp_path):
    seen = _tests(tmp_path / "trace", str(TESTS / part))
    assert not EXCHANGE.search(seen)
    assert not CONNECTION.search(seen)


def test_the_watch_over_tests_sees_a_connection(tmp_path):
    planted = tmp_path / "test_planted.py"
    planted.write_text(
        "import socket\n\n\ndef test_it():\n"
        "    with socket.socket() as near:\n"
        '        assert near.connect_ex(("127.0.0.1", 9)) != 0\n'
    )
    seen = _tests(tmp_path / "trace", "-c", os.devnull, str(planted))
    assert CONNECTION.search(seen)
