"""G: commands that only look run no program that the repository's own git settings name."""

import io
import os
import sys
from pathlib import Path

import pytest

from conftest import Repo, git
from support.commands import looking

LOOKING = (
    *looking("work", "step-2", dash_show="fix", worktree_salvage_show="work"),
    *("state show work --checklist", "worktree cleanup --dry-run", "merge work --dry-run"),
    *("worktree salvage prune --dry-run", "state verify work step-2 --dry-run"),
    *("state reconcile work --dry-run", "state prune --dry-run", "state restore --dry-run"),
)
#: Setting -> value; {} is the program, which says its name.
SETTINGS = {
    "core.fsmonitor": "{}",
    "filter.x.clean": "{}",
    "filter.x.smudge": "{}",
    "filter.x.process": "{}",
    "filter.x.required": "true",
    "merge.x.driver": "{} %A",
    "diff.x.textconv": "{}",
    "diff.x.command": "{}",
    "diff.external": "{}",
}
HOOKS = ("post-index-change", "reference-transaction", "post-checkout", "pre-auto-gc")


@pytest.fixture
def hostile(yard, monkeypatch):
    """A repository with work to look at, and settings whose programs leave a mark; the mark."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    y = yard("1 t", "2 t < 1")
    tree, dash = y.create("--new"), y.root / ".tugtree" / "tugdash__fix"
    y.ok("dash", "create", "fix")
    y.do(tree, "step-1", {"code.txt": "ours\n"})
    y.repo.commit({"code.txt": "theirs\n"})
    for each in (y.root, tree, dash):
        # Touched: git has to read it, and so would filter it.
        os.utime(each / "code.txt", (0, 0))
    mark, program = y.root.parent / "ran", y.root.parent / "program"
    program.write_text(f'#!/bin/sh\necho "$1" >>"{mark}"\ncat\n')
    program.chmod(0o755)
    for name, value in SETTINGS.items():
        y.repo.git("config", name, value.format(f"{program} {name}"))
    (y.root / ".git" / "info" / "attributes").write_text("* filter=x diff=x merge=x\n")
    (y.root / ".git" / "hooks").mkdir(exist_ok=True)
    for name in HOOKS:
        (y.root / ".git" / "hooks" / name).write_text(f'#!/bin/sh\necho {name} >>"{mark}"\n')
        (y.root / ".git" / "hooks" / name).chmod(0o755)
    return y, mark


def test_a_command_that_looks_runs_nothing(hostile):
    y, mark = hostile
    ran = {}
    for words in LOOKING:
        done = y._tugcode("-C", y.root, *words.split())
        assert done.status in (0, 1), (words, done.err)
        if mark.exists():
            ran[words] = sorted(set(mark.read_text().split()))
            mark.unlink()
    assert ran == {}


def test_nor_what_a_submodule_or_a_worktree_has_in_settings_of_its_own(yard, tmp_path):
    y = yard("1 t")
    inner = Repo.init(tmp_path / "inner")
    inner.commit({"code.txt": "one\n"})
    y.repo.git("submodule", "--quiet", "add", str(inner.path), "sub")
    y.repo.commit({})
    tree = y.create("--new")
    git("submodule", "--quiet", "update", "--init", cwd=tree)
    mark = tmp_path / "ran"
    y.repo.git("config", "extensions.worktreeConfig", "true")
    for place, name, scope in ((tree / "sub", "inner", "--local"), (tree, "own", "--worktree")):
        os.utime(place / "code.txt", (0, 0))
        git("config", scope, f"filter.{name}.clean", f"echo {name} >>{mark}; cat", cwd=place)
        attributes = Path(git("rev-parse", "--git-path", "info/attributes", cwd=place).strip())
        (place / attributes).parent.mkdir(exist_ok=True)
        (place / attributes).write_text(f"* filter={name}\n")
    git("status", cwd=tree)
    assert set(mark.read_text().split()) == {"inner", "own"}
    mark.unlink()
    for place in (tree / "sub", tree):
        os.utime(place / "code.txt", (1, 1))
    for words in ("doctor", "worktree list", "worktree cleanup --dry-run"):
        y.run(*words.split())
        assert not mark.exists(), words


def test_an_honest_filter_of_the_repository_leaves_a_new_worktree_clean(yard):
    """Git would filter what was written in the same second as the index."""
    y = yard("1 t")
    y.repo.git("config", "filter.up.clean", "tr a-z A-Z")
    y.repo.git("config", "filter.up.smudge", "tr A-Z a-z")
    y.repo.commit({".gitattributes": "*.up filter=up\n", "name.up": "name\n"})
    tree = y.create("--new")
    index = git("rev-parse", "--git-path", "index", cwd=tree).strip()
    os.utime(tree / index, (1, 1))
    (seen,) = y.ok("worktree", "list")["worktrees"]
    assert seen["clean"]
    (tree / "name.up").write_text("another\n")
    (seen,) = y.ok("worktree", "list")["worktrees"]
    assert seen["changed_files"] == 1


def test_a_filter_that_the_person_set_up_for_all_repositories_is_run(yard, tmp_path, monkeypatch):
    y = yard("1 t")
    mark = tmp_path / "ran"
    settings = tmp_path / "gitconfig"
    settings.write_text(f'[filter "x"]\nclean = "echo x >>{mark}; cat"\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    y.repo.commit({".gitattributes": "*.txt filter=x\n"})
    tree = y.create("--new")
    os.utime(tree / "code.txt", (0, 0))
    mark.unlink(missing_ok=True)
    (seen,) = y.ok("worktree", "list")["worktrees"]
    assert seen["clean"]
    assert mark.exists()
