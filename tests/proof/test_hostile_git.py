"""Git set up by somebody hostile, and names that git would read as something else.

Where people's own odd but honest settings change nothing, tests/git/test_odd.py has them.
"""

import io
import sys
from pathlib import Path

import pytest

from support.state import markdown
from support.worktree import Yard
from tugtool.git import command as git
from tugtool.workflow.worktree import branches

pytestmark = pytest.mark.proof(share=0)

#: Setting -> whether its program has a reason to run when worktrees are made and steps committed.
PROGRAMS = {
    "core.fsmonitor": False,
    "core.pager": False,
    "core.editor": False,
    "sequence.editor": False,
    "core.askPass": False,
    "core.sshCommand": False,
    "core.gitProxy": False,
    "credential.helper": False,
    "diff.external": False,
    "diff.tool": False,
    "difftool.x.cmd": False,
    "mergetool.x.cmd": False,
    "diff.x.textconv": False,
    "diff.x.command": False,
    "interactive.diffFilter": False,
    "gpg.program": False,
    "gpg.ssh.program": False,
    "help.browser": False,
    "browser.x.cmd": False,
    "man.x.cmd": False,
    "alias.status": False,
    "alias.commit": False,
    "alias.worktree": False,
    "alias.for-each-ref": False,
    "trailer.x.command": False,
    "trailer.x.cmd": False,
    "sendemail.sendmailCmd": False,
    "uploadpack.packObjectsHook": False,
    "remote.origin.uploadpack": False,
    "remote.origin.vcs": False,
    "core.alternateRefsCommand": False,
}
#: Names for a branch, a step, a plan, a dash, a salvage; none is one, and none may do anything.
NAMES = {
    "an option": "--upload-pack=touch pwned",
    "a short option": "-x",
    "the rest are names": "--",
    "a range": "a..b",
    "what was before": "main@{1}",
    "an upstream": "@{u}",
    "the stash": "stash@{0}",
    "a search": ":/work",
    "a file of a commit": "HEAD:file",
    "a parent": "main^",
    "a pattern": "refs/heads/*",
    "a command": "$(touch pwned)",
    "another": "`touch pwned`;touch pwned|touch pwned",
    "a lock": "a.lock",
    "control characters": "a\x1b[2J\x07\nb",
    "turned around": "a\u202eb",
    "300 bytes": "x" * 300,
    "no UTF-8": "caf\udce9",
    "dots": "../../x",
    "all refs": "refs/heads/main",
}
LINES = {
    "branch": ("worktree", "create", "work", "--base", "{}"),
    "step": ("worktree", "create", "work", "--claim", "--step", "{}"),
    "plan": ("worktree", "create", "{}"),
    "commit": ("state", "complete", "work", "step-1", "--commit", "{}"),
    "worktree": ("worktree", "remove", "{}"),
    "dash": ("dash", "create", "{}"),
    "base of a dash": ("dash", "create", "fix", "--base", "{}"),
    "salvage": ("worktree", "salvage", "show", "{}"),
    "salvage to apply": ("worktree", "salvage", "apply", "{}"),
    "salvage to prune": ("worktree", "salvage", "prune", "{}"),
}
#: Where a name of that kind does exist, or means one that does.
RIGHT = {("branch", "all refs"), ("base of a dash", "all refs")}


@pytest.fixture
def yard(yard, monkeypatch):
    """Nothing to read, no terminal: whoever asks gets no answer and may not wait for one."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    return yard("1 t", "2 t < 1")


def canary(yard: Yard) -> tuple[Path, Path]:
    """A program that leaves a mark, and the mark."""
    program, mark = yard.root.parent / "program", yard.root.parent / "ran"
    program.write_text(f'#!/bin/sh\necho "$0 $@" >>"{mark}"\ncat\n')
    program.chmod(0o755)
    return program, mark


def through(yard: Yard) -> None:
    """A worktree, a step's commit, all that looks at git, and the removal."""
    tree = yard.create("--new")
    yard.ok("state", "claim", "work", "--step", "step-1", at=tree)
    (tree / "new").write_text("new\n")
    yard.ok("state", "update", "work", "step-1", "--all", "completed", at=tree)
    yard.ok("commit", "--plan", "work", "--step", "step-1", "--message", "x", at=tree)
    for words in (
        "worktree list",
        "state reconcile work",
        "status",
        "doctor",
        "worktree sync work",
    ):
        yard.run(*words.split(), at=tree)
    yard.run("worktree", "remove", str(tree), "--force", at=yard.root)


def test_no_program_that_a_setting_names_is_run(yard):
    """All of them at once; whichever runs says its name."""
    program, mark = canary(yard)
    for name in PROGRAMS:
        value = f"!{program} {name}" if name.startswith("alias.") else f"{program} {name}"
        yard.repo.git("config", name, value)
    yard.repo.git("config", "remote.origin.url", f"ext::{program} remote")
    yard.repo.git("config", "pager.log", "true")
    (yard.root / ".git" / "info").mkdir(exist_ok=True)
    (yard.root / ".git" / "info" / "attributes").write_text("* diff=x merge=y\n")
    through(yard)
    assert not mark.exists(), mark.read_text()


def test_a_program_that_is_run_would_be_noticed(yard):
    program, mark = canary(yard)
    yard.repo.git("config", "alias.odd", f"!{program} alias")
    git.run("odd", cwd=str(yard.root))
    assert "alias" in mark.read_text()


def test_no_name_is_an_option_a_revision_or_a_command(yard):
    before = yard.refs()
    for what, words in LINES.items():
        for name, text in NAMES.items():
            line = [word.format(text) for word in words]
            done = yard.run(*line, at=yard.root)
            told = (what, name, done.out[:800], done.err[-1500:])
            assert done.status in (0, 1, 2), told
            assert not list(yard.root.parent.rglob("pwned")), told
            if (what, name) not in RIGHT:
                assert done.status in (1, 2), told
                assert yard.refs() == before, told
            before = yard.refs()


def test_a_revision_that_is_taken_for_a_branch_is_noticed(yard, monkeypatch):
    monkeypatch.setattr(branches, "_IN_NO_NAME", ())
    yard.repo.git("commit", "--quiet", "--allow-empty", "--message=x")
    with pytest.raises(AssertionError, match="what was before"):
        test_no_name_is_an_option_a_revision_or_a_command(yard)


def test_a_plan_may_have_any_of_these_names(yard):
    """Those that a file can have: the branch and the directory get a name that git takes."""
    for name in ("-x", "a..b", "@{u}", "$(touch pwned)", "a.lock", "x y", "~^:?*["):
        path = yard.root / ".tugtool" / f"tugplan-{name}.md"
        path.write_text(markdown("1 t"))
        yard.repo.commit({})
        done = yard.run("worktree", "create", f".tugtool/{path.name}", "--new", at=yard.root)
        assert done.status in (0, 1), done.out
        assert not list(yard.root.parent.rglob("pwned"))
    assert all(" " not in ref and ".." not in ref for ref in yard.refs())
