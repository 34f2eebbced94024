"""Z8: a coder leaves a directory that cannot be read: its work is committed, and it is told."""

import json
import os
import subprocess
import sys

from conftest import git
from support.implement import events, unprivileged
from support.implement_aftermath import aftermath

CLOSED = "mkdir closed; echo x > closed/file.txt; chmod 000 closed"


def test_a_directory_of_mode_000_is_opened_committed_and_told(play):
    play = play("1 t")
    play.rules({"role": "coder", "do": [{"run": CLOSED}]})
    run = play.start(as_root=False)
    out, err = run.communicate()
    assert run.returncode == 0, out + err
    [commit] = play.commits("step-1")
    assert git("show", f"{commit}:closed/file.txt", cwd=play.root) == "x\n"
    told = events(out)
    said = [each["message"] for each in told if each["event"] == "warning"]
    assert said == ["closed could not be read or written; its mode was changed"]
    aftermath(play, told)


def closed(play, *words: str) -> dict:
    """A command by a user whom modes of directories hold back."""
    command = [sys.executable, "-m", "tugtool", *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=unprivileged)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_commit_by_hand_names_a_directory_that_it_could_not_read(play):
    play = play("1")
    made = play.ok("worktree", "create", "work", "--claim")
    tree = play.root / made["worktree_path"]
    (tree / "seen.txt").write_text("seen\n")
    (tree / "shut").mkdir()
    (tree / "shut" / "file.txt").write_text("x\n")
    os.chmod(tree / "shut", 0)
    done = closed(play, "-C", str(tree), "commit", "--step", "step-1", "--message", "x")
    os.chmod(tree / "shut", 0o700)
    assert [each["code"] for each in done["issues"]] == ["W131"]
    assert done["issues"][0]["message"].startswith("git could not read shut/; its files are")
    assert "seen.txt" in done["data"]["files_staged"]


def test_a_worktree_with_a_read_only_directory_goes_with_the_merge(play):
    play = play("1 t")
    line = "mkdir cache; echo x > cache/file.txt; chmod 555 cache"
    play.rules({"role": "coder", "do": [{"run": line}]})
    assert play.run()[0] == 0
    done = closed(play, "-C", str(play.root), "merge", "work")
    assert done["data"]["left"] == []
    assert play.trees() == []
