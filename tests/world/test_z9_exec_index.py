"""Z9: commands that are run for a step get no GIT_INDEX_FILE and the like of their caller."""

import json
import os

from conftest import git

KEY = ".tugtool/tugplan-work.md"


def test_the_command_of_exec_stages_in_its_own_worktree(play, monkeypatch):
    play = play("1 t")
    tree = play.ok("worktree", "create", "work")["worktree_path"]
    index = play.root / ".git" / "index"
    before = index.read_bytes()
    # As a hook of the main worktree has them.
    monkeypatch.setenv("GIT_INDEX_FILE", str(index))
    monkeypatch.setenv("GIT_DIR", str(play.root / ".git"))
    monkeypatch.setenv("GIT_PREFIX", "")
    line = "echo x > new && git add new && env | grep ^GIT_ > told || true"
    done = play.tugcode("-C", tree, "state", "exec", "work", "--", "sh", "-c", line)
    assert done.status == 0, done.err
    for name in ("GIT_INDEX_FILE", "GIT_DIR", "GIT_PREFIX"):
        monkeypatch.delenv(name)
        assert name not in (play.root / ".tugtree" / os.path.basename(tree) / "told").read_text()
    assert index.read_bytes() == before
    assert git("diff", "--cached", "--name-only", cwd=tree) == "new\n"


def test_so_does_a_checkpoint_of_verify(play, monkeypatch):
    play = play("1 t")
    play.text += '\n**Checkpoint:**\n\n- [ ] `git add --all && test -z "$GIT_INDEX_FILE"`\n'
    play.repo.commit({KEY: play.text})
    tree = play.ok("worktree", "create", "work", "--claim")["worktree_path"]
    index = play.root / ".git" / "index"
    before = index.read_bytes()
    monkeypatch.setenv("GIT_INDEX_FILE", str(index))
    done = play.tugcode("state", "verify", "work", "step-1", "--yes", at=tree)
    assert done.status == 0, done.out
    assert json.loads(done.out)["data"]["failed"] == 0
    assert index.read_bytes() == before
