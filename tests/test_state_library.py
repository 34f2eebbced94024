"""The library is a public interface: its page runs, and names every function with its arguments."""

import inspect
import re
from pathlib import Path

import pytest

from tugtool import state

PAGE = (Path(__file__).parent.parent / "docs" / "python.md").read_text()


def test_the_worked_example_runs_and_prints_what_the_page_says(tmp_path, capsys):
    program = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
    expected = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)[1]
    exec(compile(program, "docs/python.md", "exec"), {"directory": tmp_path})
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize("name", state.__all__)
def test_every_operation_is_on_the_page_with_arguments_that_exist(name):
    call = re.search(rf"`state\.{name}\((.*?)\)`", PAGE)
    assert call, name
    parameters = inspect.signature(getattr(state, name)).parameters
    for word in call[1].split(", "):
        known = parameters.get(word.removesuffix("="))
        assert known is not None or word in ("request", "parsed"), word
        assert not word.endswith("=") or known.kind is inspect.Parameter.KEYWORD_ONLY


def test_every_operation_has_a_home_and_says_what_it_does():
    assert set(state._HOMES) == set(state.__all__)
    for name in state.__all__:
        operation = getattr(state, name)
        assert operation.__name__ == name
        assert operation.__doc__
        assert operation.__module__ == f"tugtool.state.{state._HOMES[name]}"


def test_what_is_no_operation_is_no_attribute():
    with pytest.raises(AttributeError, match="destroy"):
        _ = state.destroy
