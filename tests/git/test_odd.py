"""A plan from its worktrees to its merge, and found again, wherever git is set up oddly."""

import os
import shutil
from pathlib import Path

import pytest

from conftest import Repo, git
from support.proving import sampled
from support.worktree import IDENTITY, Yard, fsck

pytestmark = pytest.mark.proof(share=0)

STEPS = ("1 t", "2 t", "3 t < 1 2")

#: Each is to change nothing.
SETTINGS = {
    "merge.ff": "only",
    "pull.rebase": "true",
    "pull.ff": "only",
    "commit.cleanup": "scissors",
    "commit.template": "nowhere",
    "commit.verbose": "true",
    "commit.status": "false",
    "status.showUntrackedFiles": "no",
    "status.short": "true",
    "status.branch": "true",
    "status.relativePaths": "true",
    "diff.noprefix": "true",
    "diff.external": "false",
    "diff.renames": "copies",
    "diff.ignoreSubmodules": "all",
    "diff.context": "0",
    "core.quotePath": "true",
    "core.autocrlf": "true",
    "core.eol": "crlf",
    "core.fsmonitor": "true",
    "core.untrackedCache": "true",
    "core.splitIndex": "true",
    "core.hooksPath": "nowhere",
    "core.abbrev": "4",
    "core.commentChar": "T",
    "core.logAllRefUpdates": "false",
    "core.ignoreCase": "true",
    "core.fileMode": "false",
    "core.pager": "false",
    "core.editor": "false",
    "core.attributesFile": "nowhere",
    "core.excludesFile": "nowhere",
    "init.defaultBranch": "odd",
    "push.default": "nothing",
    "push.autoSetupRemote": "true",
    "log.showSignature": "true",
    "log.date": "relative",
    "log.decorate": "full",
    "log.follow": "true",
    "log.showRoot": "false",
    "log.mailmap": "true",
    "format.pretty": "oneline",
    "i18n.commitEncoding": "ISO-8859-1",
    "i18n.logOutputEncoding": "UTF-16",
    "color.ui": "always",
    "column.ui": "always",
    "trailer.separators": "=",
    "trailer.ifexists": "replace",
    "rerere.enabled": "true",
    "rerere.autoUpdate": "true",
    "merge.renames": "false",
    "merge.directoryRenames": "true",
    "merge.conflictStyle": "zdiff3",
    "merge.autoStash": "true",
    "merge.log": "true",
    "merge.branchdesc": "true",
    "merge.verifySignatures": "false",
    "branch.main.mergeOptions": "--squash --no-commit",
    "checkout.guess": "false",
    "submodule.recurse": "true",
    "fetch.prune": "true",
    "gc.auto": "1",
    "feature.experimental": "true",
    "feature.manyFiles": "true",
    "index.sparse": "true",
    "safe.directory": "/nowhere",
    "safe.bareRepository": "explicit",
    "extensions.worktreeConfig": "true",
    "worktree.guessRemote": "true",
    "user.useConfigOnly": "true",
    "tag.gpgSign": "true",
    "push.gpgSign": "true",
    "uploadpack.hideRefs": "refs/heads/tugplan",
    "log.excludeDecoration": "refs/heads/*",
    "transfer.hideRefs": "refs/heads/tugplan",
    "apply.whitespace": "fix",
    "core.whitespace": "blank-at-eol",
    "grep.patternType": "perl",
    "notes.displayRef": "refs/notes/*",
}
#: A person's own words for what we call.
ALIASES = (
    *("add", "commit", "status", "log", "worktree", "merge", "merge-tree", "update-ref"),
    *("rev-parse", "rev-list", "for-each-ref", "diff", "cat-file", "symbolic-ref", "config"),
)


class Journey(Yard):
    """Two worktrees do a step each, one of them the third, which needs both."""

    def begin(self) -> None:
        self.ok("init")
        self.repo.commit({})
        self.trees = [self.create("--new") for _ in range(2)]

    def carry_out(self) -> dict[str, str]:
        """All three steps; step -> commit."""
        one, two = self.trees
        for step, tree in (("step-1", one), ("step-2", two), ("step-3", one)):
            claim = self.ok("state", "claim", "work", "--step", step, at=tree)
            if step == "step-3":
                assert [each["step_anchor"] for each in claim["missing_commits"]] == ["step-2"]
                (tree / "loose").write_text("not committed yet\n")
                self.ok("worktree", "sync", at=tree)
            (tree / f"{step} ü").write_text(f"{step}\n")
            self.ok("state", "update", "work", step, "--all", "completed", at=tree)
            words = ("--plan", "work", "--step", step, f"--message=feat: {step}\n\n# wörds")
            done = self.ok("commit", *words, at=tree)
            assert (done["completed"], done["warnings"]) == (True, []), done
            assert f"{step} ü" in done["files_staged"]
        rows = self.rows("select anchor, commit_hash from steps")
        return {row["anchor"]: row["commit_hash"] for row in rows}

    def lose(self) -> None:
        for path in (self.root / ".tugtool").glob("state.*"):
            path.unlink()
        shutil.rmtree(self.root / ".git" / "tugtool")
        self.ok("state", "init", "work")

    def found_again(self) -> dict[str, str]:
        self.lose()
        assert self.ok("state", "reconcile", "work")["reconciled_count"] == 3
        rows = self.rows("select anchor, commit_hash from steps")
        return {row["anchor"]: row["commit_hash"] for row in rows}


@pytest.fixture
def journey(repo, tugcode, monkeypatch):
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    return Journey(repo, tugcode, *STEPS)


def ends_well(journey: Journey) -> None:
    """From the first claim to the merge, and everything found again before and after it."""
    commits = journey.carry_out()
    left = journey.trees[1] / "left here"
    left.write_text("nobody has committed it\n")
    told = journey.ok("merge", "work")
    assert [each["reason"] for each in told["left"]] == ["there is uncommitted work"]
    assert left.read_text() == "nobody has committed it\n"
    left.unlink()
    assert [each["branch_name"] for each in journey.ok("worktree", "cleanup")["removed"]] == [
        told["left"][0]["branch_name"]
    ]
    on_main = journey.repo.git("rev-list", "main").split()
    assert set(commits.values()) <= set(on_main)
    assert list(journey.refs()) == ["refs/heads/main"]
    assert journey.found_again() == commits
    fsck(journey.root)


@pytest.mark.parametrize("name", sampled(SETTINGS, 3))
def test_a_setting_of_a_person_s_own_changes_nothing(journey, name):
    journey.begin()
    journey.repo.git("config", name, SETTINGS[name])
    ends_well(journey)


@pytest.mark.parametrize("name", sampled(ALIASES, 2))
def test_an_alias_of_a_person_s_own_changes_nothing(journey, name):
    journey.begin()
    journey.repo.git("config", f"alias.{name}", "!false")
    ends_well(journey)


HOOKS = (
    *("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-merge"),
    *("pre-merge-commit", "post-checkout", "post-rewrite", "post-index-change"),
    *("reference-transaction", "pre-auto-gc", "fsmonitor-watchman"),
)


def test_hooks_that_print_change_nothing(journey):
    for name in HOOKS:
        hook = journey.root / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text('#!/bin/sh\nyes "Tug-Step: step-9" | head -n 2000\necho error: no >&2\n')
        hook.chmod(0o755)
    journey.begin()
    ends_well(journey)


def everything(journey: Journey) -> tuple:
    """What a refusal must leave as it is."""
    trees = [(git("status", "--porcelain", cwd=tree), sorted(os.listdir(tree)))
             for tree in (journey.root, *journey.trees)]  # fmt: skip
    tables = [journey.rows(f"select * from {name}") for name in ("steps", "worktrees", "intents")]
    for step in tables[0]:
        # A commit that git refuses was a sign of life all the same.
        step.update(heartbeat_at=None, lease_expires_at=None)
    return journey.picture()[:-2], trees, tables


COMMIT = ("commit", "--plan", "work", "--step", "step-3", "--message=x")


def before_each(journey: Journey) -> dict[str, tuple[tuple[str, ...], Path]]:
    """Step 3 is claimed and needs a merge: a commit, a sync and a removal could be done now."""
    journey.begin()
    one, two = journey.trees
    journey.do(one, "step-1", {"one": "1\n"})
    journey.do(two, "step-2", {"two": "2\n"})
    journey.ok("state", "claim", "work", "--step", "step-3", at=one)
    journey.ok("state", "update", "work", "step-3", "--all", "completed", at=one)
    return {
        "create": (("worktree", "create", "work", "--new"), journey.root),
        "sync": (("worktree", "sync"), one),
        "commit": (COMMIT, one),
        "remove": (("worktree", "remove", str(two), "--force"), journey.root),
        "cleanup": (("worktree", "cleanup"), journey.root),
        "list": (("worktree", "list"), journey.root),
        "reconcile": (("state", "reconcile", "work"), journey.root),
    }


def refused(journey: Journey, said: str, words: tuple[str, ...], at: Path) -> None:
    before = everything(journey)
    done = journey.run(*words, at=at)
    assert done.status == 1, done.out
    message = done.envelope()["issues"][-1]["message"]
    assert said in message, message
    assert everything(journey) == before


def done_but_for_the_merge(journey: Journey) -> None:
    journey.begin()
    journey.carry_out()


def test_with_a_signer_that_is_broken_whatever_commits_is_refused(journey):
    lines = before_each(journey)
    signer = {"commit.gpgSign": "true", "gpg.program": "/nonexistent/gpg"}
    for name, value in signer.items():
        journey.repo.git("config", name, value)
    for name in ("sync", "commit"):
        refused(journey, "gpg", *lines[name])
    for name in ("create", "list", "reconcile", "cleanup", "remove"):
        assert journey.run(*lines[name][0], at=lines[name][1]).status == 0, name


def test_with_a_signer_that_is_broken_a_merge_is_refused(journey):
    done_but_for_the_merge(journey)
    journey.repo.git("config", "commit.gpgSign", "true")
    journey.repo.git("config", "gpg.program", "/nonexistent/gpg")
    refused(journey, "gpg", ("merge", "work", "--squash"), journey.root)


@pytest.fixture
def nobody(monkeypatch):
    """Nobody has said who they are, and git must not guess."""

    def leave(journey: Journey) -> None:
        for name in IDENTITY:
            monkeypatch.delenv(name)
        journey.repo.git("config", "user.useConfigOnly", "true")

    return leave


def test_without_an_identity_whatever_commits_is_refused(journey, nobody):
    lines = before_each(journey)
    nobody(journey)
    for name in ("sync", "commit"):
        refused(journey, "auto-detection is disabled", *lines[name])
    for name in ("create", "list", "reconcile", "cleanup", "remove"):
        done = journey.run(*lines[name][0], at=lines[name][1])
        assert done.status == 0, (name, done.out)


def test_without_an_identity_a_merge_is_refused(journey, nobody):
    done_but_for_the_merge(journey)
    nobody(journey)
    refused(journey, "auto-detection is disabled", ("merge", "work"), journey.root)


def test_a_repository_that_git_takes_for_somebody_else_s_is_refused(journey, tmp_path, monkeypatch):
    lines = before_each(journey)
    done = tmp_path / "bin" / "git"
    done.parent.mkdir()
    real = shutil.which("git")
    done.write_text(f'#!/bin/sh\nGIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec {real} "$@"\n')
    done.chmod(0o755)
    before = everything(journey)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{done.parent}:{os.environ['PATH']}")
        for name, (words, at) in lines.items():
            said = journey.run(*words, at=at)
            assert said.status == 1, (name, said.out)
            assert "dubious ownership" in said.out, (name, said.out)
    assert everything(journey) == before


@pytest.fixture
def elsewhere(tmp_path, tugcode, monkeypatch):
    """A journey in a repository that is made by other words, or lies in an odd place."""
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)

    def make(place: str, *words: str) -> Journey:
        path = tmp_path / place
        path.mkdir(parents=True)
        git("init", "--quiet", "--initial-branch=main", *words, cwd=path)
        return Journey(Repo(path), tugcode, *STEPS)

    return make


PLACES = ("a b", "-x", "q'u\"o`te$(x)", "new\nline", "ünï-名", "a:b", "%s*?[x]", "x" * 200)


@pytest.mark.parametrize("place", sampled(PLACES, 2), ids=ascii)
def test_a_repository_may_lie_anywhere(elsewhere, place):
    journey = elsewhere(place)
    journey.begin()
    ends_well(journey)


def test_a_sha_256_repository_is_no_different(elsewhere):
    journey = elsewhere("repo", "--object-format=sha256")
    journey.begin()
    ends_well(journey)


def test_a_worktree_from_which_the_main_one_cannot_be_found_is_not_made(elsewhere, tmp_path):
    """Git keeps no path from a git directory that lies elsewhere to the main worktree."""
    journey = elsewhere("repo", f"--separate-git-dir={tmp_path / 'apart'}")
    journey.ok("init")
    journey.repo.commit({})
    said = journey.refused("E033", "worktree", "create", "work")
    assert "names no main working tree" in said
    assert list(journey.refs()) == ["refs/heads/main"]


def test_a_shallow_clone_is_no_different(repo, tmp_path, tugcode, monkeypatch):
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    for number in range(5):
        repo.commit({"old": f"{number}\n"})
    git("clone", "--quiet", "--depth=1", f"file://{repo.path}", "here", cwd=tmp_path)
    journey = Journey(Repo(tmp_path / "here"), tugcode, *STEPS)
    journey.begin()
    commits = journey.carry_out()
    assert journey.ok("merge", "work")["left"] == []
    assert set(commits.values()) <= set(journey.repo.git("rev-list", "main").split())
    assert journey.found_again() == commits


def test_a_detached_head_of_the_main_worktree_is_named_where_it_matters(journey):
    done_but_for_the_merge(journey)
    journey.repo.git("checkout", "--quiet", "--detach")
    refused(journey, "is on no branch", ("worktree", "create", "work", "--new"), journey.root)
    refused(journey, "the main worktree is on no branch", ("merge", "work"), journey.root)
    assert journey.ok("state", "reconcile", "work")["reconciled_count"] == 0
    assert journey.ok("worktree", "cleanup")["removed"] == []
