"""The refusals about worktrees: what they say, and that their hints are harmless."""

import inspect
import shlex

import pytest

from tugtool import errors
from tugtool.cli import parse
from tugtool.errors import git

ODD = "odd 'path' ;\n$(x)"
EXAMPLES = [
    git.InTheWay(ODD, what="a file"),
    git.NoBaseBranch("there is none", branch=ODD, close=["main"]),
    git.NotMade(ODD, reason="no", left=["x"]),
    git.NotRemoved(ODD, reasons=["it is used", "it is full"]),
    git.MainWorktree(ODD, plan=ODD),
    git.WrongWorktree(ODD, plan="two.md", recorded="one.md", right=[]),
    git.WrongWorktree(ODD, plan="two.md", recorded="one.md", right=[ODD]),
    git.LeftWork(ODD, plan=ODD, anchor="step-1", attempt=1, salvage_ref="refs/tug/salvage/x"),
    git.PlanUncommitted(ODD, branch="main", known=False, command=None),
    git.PlanUncommitted(ODD, branch="main", known=True, command="git add -- x"),
    git.DependencyConflict(ODD, anchor="step-1", commit="a" * 40, reason="no", files=["a", "b"]),
    git.MergeRefused(ODD, reason="it is not done"),
    git.NoSuchSalvage(ODD, several=False, close=["a"]),
    git.NotApplied("refs/tug/salvage/x", ODD, reason="no", files=["a"]),
    git.CommitRefused(ODD, "is on no branch"),
    git.MessageRefused("the message is blank"),
]
#: What a hint may look at, and what it may do besides.
LOOKING = (
    *("worktree list", "branch --list", "ls -ld", "log --all", "diff HEAD..."),
    *("status", "commit --help", "tugcode show ", "salvage list", "salvage show"),
)
MAKING = ("cd ", "git add ", "tugcode worktree create ", "tugcode worktree clean ")


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_every_hint_is_one_command_that_exists_and_is_harmless(error):
    words = shlex.split(error.hint)
    assert words[0] in ("cd", "git", "ls", "tugcode")
    if words[0] == "tugcode":
        assert parse.parse(words[1:]).command is not None
    assert error.hint.startswith(MAKING) or any(each in error.hint for each in LOOKING)
    assert "force" not in error.hint


def test_the_examples_are_of_every_class():
    found = [each for _, each in inspect.getmembers(git, inspect.isclass)]
    # Those about dashes: tests/workflow/test_dash_record.py.
    classes = {each for each in found if issubclass(each, git.WorktreeError) and each.code}
    assert {type(error) for error in EXAMPLES} == classes


@pytest.mark.parametrize(
    ("words", "named"),
    [(("--literal-pathspecs", "add", "--all"), "git add"), (("--version",), "git --version")],
)
def test_a_git_that_failed_is_named_by_what_it_was_to_do(words, named):
    error = errors.GitFailed(words, status=128, said="no")
    assert error.message == f"{named} failed with status 128: no"
