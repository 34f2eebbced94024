"""A plan is carried out by scripted agents: what goes well."""

import pytest


@pytest.mark.parametrize("workers", [1, 4])
def test_a_plan_is_carried_out_to_its_end(play, workers):
    play = play("1 tec", "2 t < 1", "3 t < 1", "4 tc", "5 t < 2 3 4")
    status, told = play.run("--workers", workers)
    assert (status, told[-1]["status"], told[-1]["left"]) == (0, "done", [])
    play.finished()
