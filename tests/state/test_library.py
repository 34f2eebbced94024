"""The library is a public interface: its page runs, and names every function with its arguments."""

import inspect
import re
from pathlib import Path

import pytest

from support.worktree import IDENTITY
from tugtool import state
from tugtool.workflow import held_step, library

HOMES = {name: home for home, names in state._HOMES.items() for name in names.split()}
#: What operations take or give; the page tells of them beside those.
CLASSES = [name for name in state.__all__ if name[0].isupper()]
OPERATIONS = [name for name in state.__all__ if name not in CLASSES]
PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "python.md").read_text()


def test_the_worked_examples_run_and_print_what_the_page_says(repo, capsys, monkeypatch):
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    repo.plan("greeter", "".join(_blocks("markdown")))
    monkeypatch.chdir(repo.path)
    # As its reader does: from the top to the end, in one program.
    program: dict[str, object] = {}
    for block in _blocks("python"):
        exec(compile(block, "docs/reference/python.md", "exec"), program)
    program["plan"].project.close()
    assert capsys.readouterr().out == "".join(_blocks("text"))
    assert (repo.path / "greet.txt").read_text() == "print a greeting\nprint bonjour\n"


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(
    ("kind", "word"),
    [(library.Project, "repo"), (library.ProjectPlan, "plan"), (held_step.HeldStep, "step")],
)
def test_every_method_is_on_the_page_with_arguments_that_exist(kind, word):
    public = {name: value for name, value in vars(kind).items() if not name.startswith("_")}
    for name, value in public.items():
        if isinstance(value, property):
            assert f"`{word}.{name}`" in PAGE
            continue
        call = re.search(rf"^\| .*`{word}\.{name}\((.*?)\)`.* \|", PAGE, re.MULTILINE)
        assert call, name
        _, *parameters = inspect.signature(value).parameters.values()
        named = re.findall(r"\w+", call[1])
        assert named == [each.name for each in parameters], name
        assert value.__doc__


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_is_on_the_page_with_arguments_that_exist(name):
    call = re.search(rf"`state\.{name}\((.*?)\)`", PAGE)
    assert call, name
    parameters = inspect.signature(getattr(state, name)).parameters
    for word in call[1].split(", "):
        known = parameters.get(word.removesuffix("="))
        assert known is not None or word in ("request", "parsed"), word
        assert not word.endswith("=") or known.kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_is_on_the_page(name):
    assert f"state.{name}" in PAGE


def test_every_operation_has_a_home_and_says_what_it_does():
    assert len(HOMES) == len(state.__all__)
    for name in state.__all__:
        operation = getattr(state, name)
        assert operation.__name__ == name
        assert operation.__doc__
        assert operation.__module__ == f"tugtool.state.{HOMES[name]}"


def test_what_is_no_operation_is_no_attribute():
    with pytest.raises(AttributeError, match="destroy"):
        _ = state.destroy
