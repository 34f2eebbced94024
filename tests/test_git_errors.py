"""The refusals about worktrees: what they say, and that their hints are harmless."""

import inspect
import shlex

import pytest

from tugtool import errors, git_errors
from tugtool.cli import parse

ODD = "odd 'path' ;\n$(x)"
EXAMPLES = [
    git_errors.InTheWay(ODD, what="a file"),
    git_errors.NoBaseBranch("there is none", branch=ODD, close=["main"]),
    git_errors.NotMade(ODD, reason="no", left=["x"]),
    git_errors.NotRemoved(ODD, reasons=["it is used", "it is full"]),
    git_errors.MainWorktree(ODD, plan=ODD),
    git_errors.PlanUncommitted(ODD, branch="main", known=False, command=None),
    git_errors.PlanUncommitted(ODD, branch="main", known=True, command="git add -- x"),
    git_errors.DependencyConflict(
        ODD, anchor="step-1", commit="a" * 40, reason="no", files=["a", "b"]
    ),
    git_errors.MergeRefused(ODD, reason="it is not done"),
    git_errors.NoSuchSalvage(ODD, several=False, close=["a"]),
    git_errors.NotApplied("refs/tug/salvage/x", ODD, reason="no", files=["a"]),
    git_errors.CommitRefused(ODD, "is on no branch"),
    git_errors.MessageRefused("the message is blank"),
]
#: What a hint may look at, and what it may do besides.
LOOKING = (
    *("worktree list", "branch --list", "ls -ld", "log --all", "diff HEAD..."),
    *("status", "commit --help", "state show", "salvage list", "salvage show"),
)
MAKING = ("git add ", "tugcode worktree create ")


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_every_hint_is_one_command_that_exists_and_is_harmless(error):
    words = shlex.split(error.hint)
    assert words[0] in ("git", "ls", "tugcode")
    if words[0] == "tugcode":
        assert parse.parse(words[1:]).command is not None
    assert error.hint.startswith(MAKING) or any(each in error.hint for each in LOOKING)
    assert "force" not in error.hint


def test_the_examples_are_of_every_class():
    found = [each for _, each in inspect.getmembers(git_errors, inspect.isclass)]
    classes = {each for each in found if issubclass(each, errors.TugError) and each.code}
    ours = {each for each in classes if each.__module__ == git_errors.__name__}
    assert {type(error) for error in EXAMPLES} >= ours


@pytest.mark.parametrize(
    ("words", "named"),
    [(("--literal-pathspecs", "add", "--all"), "git add"), (("--version",), "git --version")],
)
def test_a_git_that_failed_is_named_by_what_it_was_to_do(words, named):
    error = errors.GitFailed(words, status=128, said="no")
    assert error.message == f"{named} failed with status 128: no"
