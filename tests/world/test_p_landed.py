"""P: whether work has landed costs the same however far the base is ahead, and blocks nothing."""

import json
import os
import shutil

import pytest

from conftest import Repo
from support.worktree import answered, process
from tugtool.git import discover
from tugtool.workflow import worktree

LOG = ".tugtool/log.md"
#: No answer needs so long; a dry run that waits for the lock never ends here.
PATIENCE_SECONDS = 60


def prepared(yard, trees: int = 3):
    """Worktrees with a commit each, of which the log has an entry as well."""
    for number in range(trees):
        tree = yard.create("--new")
        yard.free(tree)
        yard.commit(tree, {f"new-{number}.txt": "work\n", LOG: f"## step-{number}\n"})
    return yard


def go_on(yard, number: int) -> None:
    """So many plans are merged meanwhile, each with an entry of the log."""
    for _ in range(number):
        log = yard.root / LOG
        text = log.read_text() if log.exists() else ""
        yard.repo.commit({LOG: f"{text}## more\n", f"other-{len(text)}.txt": "x\n"})


def gits(yard, place, *words: str) -> int:
    """How many gits a command runs: each is written down on its way."""
    calls, shim = place / "calls", place / "git"
    calls.write_text("")
    shim.write_text(f'#!/bin/sh\necho >> {calls}\nexec {shutil.which("git")} "$@"\n')
    shim.chmod(0o755)
    answered(process(yard.root, *words, PATH=f"{place}:{os.environ['PATH']}"))
    return len(calls.read_text())


@pytest.mark.proof(share=0)
@pytest.mark.parametrize(
    "words", [("worktree", "cleanup", "--dry-run"), ("implement", "work", "--dry-run")]
)
def test_a_dry_run_costs_the_same_however_far_the_base_is_ahead(yard, tmp_path, words):
    place = tmp_path / "shim"
    place.mkdir()
    yard = prepared(yard())
    yard.repo.write({".tugtool/config.toml": '[agents.default]\ncommand = ["sh"]\n'})
    go_on(yard, 2)
    few = gits(yard, place, *words)
    go_on(yard, 20)
    assert gits(yard, place, *words) == few > 0


def test_what_has_landed_is_found_among_many_commits_of_the_log(yard):
    yard = prepared(yard())
    go_on(yard, 3)
    branch = yard.ok("worktree", "list")["worktrees"][1]["branch_name"]
    yard.repo.git("merge", "--quiet", "--squash", "-Xours", branch)
    yard.repo.git("commit", "--quiet", "--message=squashed")
    go_on(yard, 3)
    done = yard.ok("worktree", "cleanup", "--dry-run")
    assert [each["branch_name"] for each in done["removed"]] == [branch]
    assert len(done["kept"]) == 2


def test_a_dry_run_holds_no_lock_and_waits_for_none(yard):
    yard = prepared(yard(), 1)
    with worktree.worktrees_lock(discover(str(yard.root))):
        looking = process(yard.root, "worktree", "cleanup", "--dry-run")
        try:
            out, _ = looking.communicate(timeout=PATIENCE_SECONDS)
        finally:
            looking.kill()
    assert json.loads(out)["data"]["dry_run"] is True


def test_a_branch_with_nothing_but_its_log_is_judged_by_that(yard):
    yard = yard()
    tree = yard.create()
    yard.free(tree)
    yard.commit(tree, {LOG: "## step-1\n"})
    assert yard.ok("worktree", "cleanup", "--dry-run")["removed"] == []
    Repo(yard.root).commit({LOG: "## step-1\n"})
    go_on(yard, 1)
    assert len(yard.ok("worktree", "cleanup", "--dry-run")["removed"]) == 1
    assert os.path.isdir(tree)
