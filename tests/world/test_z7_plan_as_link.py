"""Z7: an agent replaces the plan by a link to a copy outside: it is put back, and told."""

import pytest

from conftest import git
from support.implement_aftermath import aftermath
from support.state import KEY

LINKS = {
    "the plan": f"cp {KEY} ../copy.md && ln -sf ../../copy.md {KEY}",
    "its directory": "cp -r .tugtool ../copy && rm -r .tugtool && ln -s ../copy .tugtool",
}


@pytest.mark.parametrize("what", LINKS)
def test_a_plan_that_became_a_link_is_put_back(play, what):
    play = play("1 t")
    play.rules({"role": "coder", "try": 1, "do": [{"run": LINKS[what]}]})
    status, told = play.run()
    [reason] = [each["reason"] for each in told if each["event"] == "agent_failed"]
    assert "it changed the plan" in reason
    assert status == 0
    [commit] = play.commits("step-1")
    assert git("ls-tree", commit, KEY, cwd=play.root).startswith("100644 blob")
    assert git("show", f"{commit}:{KEY}", cwd=play.root) == play.text
    aftermath(play, told)
