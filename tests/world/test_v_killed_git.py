"""V: a git of ours that is killed, as by the system when memory is short, is run again."""

import os
import shutil
from pathlib import Path

import pytest

from support.proving import sampled
from tugtool.errors import GitFailed
from tugtool.git import command

#: Kills itself the first time that it is asked for that; notes all that it is asked for.
FAKE = """#!/bin/sh
for word; do
    case $word in
        -C|-c) skip=1; continue;;
        --version) break;;
        -*) continue;;
    esac
    test -z "$skip" || {{ skip=; continue; }}
    break
done
echo "$word" >> {log}
if test "$word" = "{word}" && mkdir {flag} 2> /dev/null; then kill -{signal} $$; fi
exec {git} "$@"
"""


@pytest.fixture
def killed(tmp_path, monkeypatch):
    """The first git that does this is killed by that signal."""

    def plant(word: str, signal: str = "KILL") -> Path:
        place, log = tmp_path / "bin", tmp_path / "asked"
        place.mkdir()
        fake = place / "git"
        facts = {"word": word, "signal": signal, "log": log, "flag": tmp_path / "was-killed"}
        fake.write_text(FAKE.format(git=shutil.which("git"), **facts))
        fake.chmod(0o755)
        monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")
        return tmp_path / "was-killed"

    return plant


#: All that a run asks git for; `worktree` is the making of one, and a merge that of a sync.
ASKED = (
    *("status", "add", "rev-parse", "log", "interpret-trailers", "commit", "var", "config"),
    *("cat-file", "worktree", "merge-base", "--version", "symbolic-ref", "for-each-ref"),
    *("update-ref", "rev-list", "merge-tree", "commit-tree", "merge"),
)


def made(step: str, other: str) -> dict:
    """A coder that is not done before the other one began: each works in a worktree of its own."""
    acts = [
        {"write": f"scripted/{step}.txt", "text": "{step}\n"},
        {"touch": f"../../../{step}-here"},
    ]
    return {"role": "coder", "step": step, "do": [*acts, {"wait_for": f"../../../{other}-here"}]}


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("word", sampled(ASKED, 3))
def test_a_run_whose_git_is_killed_once_comes_to_its_end_and_asks_no_person(play, killed, word):
    play = play("1 t", "2 t", "3 t < 1 2")
    play.rules(made("step-1", "step-2"), made("step-2", "step-1"))
    was_killed = killed(word)
    status, told = play.run("--workers", 2)
    assert was_killed.exists()
    assert status == 0, told[-1]
    play.finished(told)


def test_a_git_that_a_person_stops_is_not_run_again(repo, killed):
    killed("status", "TERM")
    with pytest.raises(GitFailed, match="status -15"):
        command.run("status", cwd=str(repo.path))


def test_a_git_that_is_killed_each_time_is_given_up(repo, killed):
    flag = killed("status")
    fake = flag.parent / "bin" / "git"
    fake.write_text(fake.read_text().replace(" && mkdir", " && : mkdir"))
    with pytest.raises(GitFailed, match="status -9"):
        command.run("status", cwd=str(repo.path))
    assert (flag.parent / "asked").read_text().split() == ["status"] * 3
