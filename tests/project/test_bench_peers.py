"""What `make bench-peers` calls a fault of ours, and that it notices one; no peer is needed."""

import importlib
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def peers(monkeypatch):
    """Modules of `bench/peers` by name."""
    monkeypatch.syspath_prepend(str(BENCH))
    yield lambda name: importlib.import_module(f"peers.{name}")
    for name in [name for name in sys.modules if name.partition(".")[0] == "peers"]:
        del sys.modules[name]


@pytest.fixture
def judging(peers):
    return peers("judging")


def _found(judging, **rows):
    return judging.Findings([], [], [], [])._replace(**rows)


def test_one_owner_all_writes_and_a_refused_latecomer_are_no_fault(judging):
    found = _found(
        judging,
        speeds=[judging.Speed("claim", "peer", 3.0)],
        races=[judging.Race("tugcode", [1, 1])],
        writes=[judging.Writes("tugcode", [12, 12], [12, 12])],
        handovers=[judging.Handover("tugcode", False)],
    )
    assert judging.faults(found) == []


@pytest.mark.parametrize("winners", [0, 2, 12])
def test_any_number_of_owners_but_one_is_a_fault(judging, winners):
    found = _found(judging, races=[judging.Race("tugcode", [1, winners])])
    assert judging.faults(found) == [f"one task had {winners} owners"]


def test_an_acknowledged_write_that_is_not_there_is_a_fault_and_a_refused_one_is_not(judging):
    found = _found(judging, writes=[judging.Writes("tugcode", [12, 11], [11, 11])])
    assert judging.faults(found) == ["12 writes were acknowledged, 11 kept"]


@pytest.mark.parametrize(
    ("accepted", "said"),
    [(True, "a superseded worker's finish was accepted"), (None, "nothing was handed over")],
)
def test_a_superseded_finish_that_is_not_refused_is_a_fault(judging, accepted, said):
    found = _found(judging, handovers=[judging.Handover("tugcode", accepted)])
    assert judging.faults(found) == [said]


def test_what_of_ours_could_not_be_measured_is_a_fault(judging):
    measured = _found(
        judging,
        speeds=[judging.Speed("claim", "tugcode", 1.0)],
        races=[judging.Race("tugcode", [1])],
        writes=[judging.Writes("tugcode", [12], [12])],
        handovers=[judging.Handover("tugcode", False)],
    )
    assert judging.unmeasured(measured, {"claim"}) == []
    only_peers = _found(judging, races=[judging.Race("peer", [1])])
    assert judging.unmeasured(only_peers, {"claim"}) == [
        "ours was not measured: claim",
        "ours was not measured: races",
        "ours was not measured: writes",
        "ours was not measured: handovers",
    ]


def test_what_is_wrong_with_a_peer_is_told_and_not_held_against_us(judging):
    found = _found(
        judging,
        races=[judging.Race("peer", [12])],
        writes=[judging.Writes("peer", [12], [3])],
        handovers=[judging.Handover("peer", True)],
    )
    assert judging.faults(found) == []


def test_a_peer_may_be_ahead_only_where_the_row_says_why(judging):
    ahead = [judging.Speed(what, "huey", 0.5) for what in ("jobs", "claim")]
    found = _found(judging, speeds=[*ahead, judging.Speed("claim", "tugcode", 1.0)])
    assert judging.faults(found) == ["claim: huey takes 0.50 times ours, without a why"]
    assert "deleted when it is fetched" in ahead[0].why


def test_a_why_is_given_only_where_a_peer_is_ahead(judging):
    assert judging.Speed("jobs", "huey", 1.5).why == ""
    assert judging.Speed("jobs", "huey", 0.99).why == ""


@pytest.mark.proof(share=0)
def test_the_whole_way_from_processes_to_the_judgement_notices_every_planted_fault(peers, capfd):
    assert peers("faulty").self_test(contenders=3) == 0
    said = capfd.readouterr().out.splitlines()
    assert said[-1] == "self-test passed"
    assert "one task had 3 owners" in said
    assert "3 writes were acknowledged, 1 kept" in said
    assert "a superseded worker's finish was accepted" in said


@pytest.mark.proof(share=0)
def test_the_self_test_fails_if_the_judgement_overlooks_a_fault(peers, monkeypatch, capfd):
    monkeypatch.setattr(peers("judging"), "_shared", lambda races: [])
    assert peers("faulty").self_test(contenders=2) == 1
    assert capfd.readouterr().out.splitlines()[-1] == "self-test failed: not caught: races"


def test_processes_that_wait_at_the_gate_begin_once_all_are_ready(peers, tmp_path):
    processes = peers("processes")
    words = "import os; os.write(4, b'.'); os.close(4); print(os.read(3, 1))"
    argv = [sys.executable, "-c", words]
    done = processes.Caller(tmp_path, {}).together([argv, argv], waits=True)
    assert [(each.status, each.out) for each in done] == [(0, "b''\n")] * 2


def test_a_tool_that_is_not_there_is_told_with_the_command(peers, tmp_path):
    processes = peers("processes")
    with pytest.raises(processes.Refused, match="no-such-tool: exit status 127"):
        processes.Caller(tmp_path, {}).must(["/no-such-tool"])


def test_rows_have_as_many_cells_as_the_table_has_columns(peers):
    made = peers("tables").table("x", "X", "note", ["system", "a", "b"], [["peer", "not run"]])
    assert made["rows"] == [["peer", "not run", ""]]
