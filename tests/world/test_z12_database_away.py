"""Z12: the database goes away during a run (`git clean -fdx`): workers say so, and what to do."""

import pytest

from support.proving import sampled


@pytest.mark.parametrize("gone", sampled(["state.db*", "state.db* state.lock"], 1))
def test_workers_say_that_the_database_is_gone_and_what_brings_it_back(play, gone):
    play = play("1 t", "2 t", "3 t < 1 2")
    away = f"cd {play.root}/.tugtool && rm -f {gone}"
    play.rules({"role": "coder", "step": "step-2", "do": [{"run": away}]})
    status, told = play.run("--workers", 1)
    assert (status, told[-1]["status"]) == (1, "failed")
    [said] = [each["reason"] for each in told if each["event"] == "worker_failed"]
    assert "state.db is gone" in said
    assert said.endswith("next: tugcode restore --dry-run")
    # The same as the next command says, and one command brings it back.
    assert "state.db is gone" in play.tugcode("state", "show", "work").out
    play.ok("state", "restore")
    play.rules()
    assert play.run()[0] == 0
    play.finished()
