"""The client of the MCP SDK plays a worker's whole life: in each mode, over pipes and HTTP."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.server import Process
from tugtool.server.tokens import Tokens

WORKER = Path(__file__).parents[2] / "support" / "mcp_sdk_worker.py"


def played(mode: str, where: Path, *more: str) -> str:
    """What the SDK's client says after it has done the plan."""
    done = subprocess.run(
        [sys.executable, "-P", WORKER, mode, str(where), *more],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.proof
@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
def test_the_client_of_the_sdk_carries_out_a_plan(bench, mode):
    there = bench("1 tc | `test -e step-1` passes", "2 tc < 1 | `test -e step-2` passes", "3 t < 2")
    told = played(mode, there.red)
    era = "2025-11-25" if mode == "legacy" else "2026-07-28"
    assert told.splitlines()[-1] == f"{era}: 3 steps, 1 refusal, 1 stop"
    shown = there.ok("show", "work")
    assert [each["status"] for each in shown["steps"]] == ["completed"] * 3
    assert all(each["commit_hash"] for each in shown["steps"])


@pytest.mark.proof
@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
def test_the_client_of_the_sdk_carries_out_a_plan_over_http(bench, mode):
    there = bench("1 tc", "2 t < 1", "3 t < 2")
    (there.repo.path / ".git" / "tugtool").mkdir(exist_ok=True)
    token, _ = Tokens(str(there.repo.path / ".git" / "tugtool")).add("builder", "worker")
    with Process(there.repo.path) as server:
        told = played(mode, there.red, f"{server.url}mcp", token)
    era = "2025-11-25" if mode == "legacy" else "2026-07-28"
    assert told.splitlines()[-1] == f"{era}: 3 steps, 1 refusal, 1 stop"
    shown = there.ok("show", "work")
    assert [each["status"] for each in shown["steps"]] == ["completed"] * 3
    assert {each["completed_by"] for each in shown["steps"]} == {"builder:worker"}
