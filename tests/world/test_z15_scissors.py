"""Z15: a Commit line that git would cut off is refused before anybody is paid."""

import pytest

from support.implement import Play
from support.proving import sampled

SCISSORS = "# ------------------------ >8 ------------------------"


def with_commit_line(play: Play, line: str) -> None:
    """The last step has that Commit line."""
    play.text += f"\n**Commit:** `{line}`\n"
    play.repo.commit({".tugtool/tugplan-work.md": play.text})


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_a_commit_line_that_git_would_cut_off_is_refused_before_anybody_is_paid(play, words):
    play = play("1 t", "2 t")
    with_commit_line(play, SCISSORS)
    refused = play.tugcode("implement", "work", *words)
    assert (refused.status, play.calls(), play.trees()) == (1, [], [])
    assert refused.codes == ["E081"]
    assert "step-2" in refused.envelope()["issues"][0]["message"]


@pytest.mark.parametrize(
    "line", sampled(["# 1: a number", "Fixes: #12", "---", "feat: `x` done"], 1)
)
def test_others_are_not(play, line):
    play = play("1 t")
    with_commit_line(play, line)
    assert play.run()[0] == 0
    play.finished()
