"""Commands that run what a confined coder wrote are confined like the coder."""

import os
from pathlib import Path

import pytest

from conftest import Repo, git

CONFINED = '[agents.coder]\ncommand = ["true"]\nconfine = "{0}"\nwritable = ["{1}"]\n'
PLAN = """\
## Work {#work}
#### Step 1: One {#step-1}
**Tasks:**
- [ ] do it
**Checkpoint:**
- [ ] `sh check.sh`
"""


class Ground:
    """A worktree with a script of the coder's, which its checkpoint and merge.check run."""

    def __init__(self, yard, tmp_path: Path) -> None:
        self.y, self.outside, self.cache = yard("1 t"), tmp_path / "outside", tmp_path / "cache"
        self.outside.mkdir()
        (self.y.root / ".git" / "hooks").mkdir()
        self.cache.mkdir()
        self.y.repo.commit({".tugtool/tugplan-work.md": PLAN})
        self.tree = self.y.create("--new")
        self.y.ok("state", "claim", "work", at=self.tree)

    def settle(self, confine: str, *more: str) -> None:
        text = CONFINED.format(confine, self.cache) + "".join(more)
        (self.y.root / ".tugtool" / "config.toml").write_text(text)

    def script(self, line: str) -> None:
        (self.tree / "check.sh").write_text(f"{line}\n")


@pytest.fixture
def ground(yard, tmp_path):
    return Ground(yard, tmp_path)


@pytest.mark.parametrize("line", ["state verify work step-1 --yes", "done --all"])
@pytest.mark.parametrize("confine", ["worktree", "none"])
def test_a_checkpoint_writes_where_the_coder_may(ground, line, confine):
    ground.settle(confine)
    ground.script(
        f'echo x >"{ground.outside}/x"; echo x >"{ground.y.root}/.git/hooks/x"; '
        f'echo x >"{ground.cache}/x" && echo x >"${{TMPDIR:-/tmp}}/tug-x" && echo x >built'
    )
    done = ground.y.run(*line.split(), at=ground.tree)
    assert done.status == 0, done.out
    assert os.listdir(ground.cache) == ["x"]
    got_out = [*os.listdir(ground.outside), *os.listdir(ground.y.root / ".git" / "hooks")]
    # The same without confinement, so that the test can fail.
    assert got_out == ([] if confine == "worktree" else ["x", "x"])


@pytest.mark.parametrize("confine", ["worktree", "none"])
def test_so_does_the_check_of_a_merge(ground, confine):
    ground.script("true")
    ground.y.ok("done", "--all", at=ground.tree)
    line = f"echo x >built && echo x >{ground.cache}/x; echo x >{ground.outside}/x; true"
    ground.settle(confine, f'[merge]\ncheck = ["{line}"]\n')
    ground.y.ok("merge", "work")
    assert os.listdir(ground.cache) == ["x"]
    assert os.listdir(ground.outside) == ([] if confine == "worktree" else ["x"])


def test_a_checkpoint_has_the_network_of_the_coder(ground):
    ground.script("python3 -c 'import socket; socket.socket()'")
    ground.settle("worktree", "network = false\n")
    assert ground.y.run("state", "verify", "work", "step-1", "--yes", at=ground.tree).status == 1
    ground.settle("worktree")
    assert ground.y.run("state", "verify", "work", "step-1", "--yes", at=ground.tree).status == 0


def test_a_checkpoint_that_replaces_the_git_directory_ends_the_command(ground, tmp_path):
    ground.settle("worktree")
    mark = ground.outside / "ran"
    ground.script(
        f"rm .git && git init --quiet . && git config core.fsmonitor 'echo x >{mark}; false'"
    )
    done = ground.y.run("done", "--all", at=ground.tree)
    assert done.codes == ["E030"]
    assert "replaced its .git" in done.envelope()["issues"][0]["message"]
    assert not mark.exists()


#: Lets git clone from a directory.
BY_PATH = ("-c", "protocol.file.allow=always")


@pytest.fixture
def hostile(ground, tmp_path):
    """A submodule whose .git the coder has replaced by one that names programs."""
    mark = tmp_path / "ran"
    library = Repo.init(tmp_path / "library")
    library.commit({"a.txt": "a\n"})
    git(*BY_PATH, "submodule", "--quiet", "add", library.path, "lib", cwd=ground.tree)
    inner = Repo(ground.tree / "lib")
    (inner.path / ".git").unlink()
    inner.git("init", "--quiet")
    inner.commit({".gitattributes": "* filter=x\n"})
    # Git looks into a submodule whose commit is the recorded one.
    ground.y.commit(ground.tree, {"new.txt": "x\n"})
    for name in ("filter.x.clean", "filter.x.smudge", "core.fsmonitor", "diff.external"):
        inner.git("config", name, f"echo {name} >>{mark}; cat")
    # Of the same size: git has to read it to know.
    (inner.path / "a.txt").write_text("b\n")
    return ground, mark


@pytest.mark.parametrize(
    "line", ["done --all", "worktree cleanup", "worktree remove", "worktree remove --force"]
)
def test_no_program_runs_that_a_submodule_of_the_coders_names(hostile, line):
    ground, mark = hostile
    ground.settle("worktree")
    ground.script("true")
    words = [*line.split(), *([ground.tree.name] if "remove" in line else [])]
    ground.y.run(*words, at=ground.tree if line == "done --all" else ground.y.root)
    assert not mark.exists()
    # The same by git alone, so that the test can fail.
    git("status", cwd=ground.tree)
    assert "filter.x.clean" in mark.read_text()
