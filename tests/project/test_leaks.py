"""The watch over replaced names sees one that stays; so does that over ignored signals."""

import importlib
import signal
import sys

import pytest

from conftest import heed_signals
from support import leaks
from tugtool import cli
from tugtool.cli import output

LAZY = "tugtool.cli.state_exec"


@pytest.fixture
def unloaded(monkeypatch):
    """The module as it is before its first use, and as it was when the test is over."""
    module = importlib.import_module(LAZY)
    monkeypatch.delitem(sys.modules, LAZY)
    # The package has it too, and would go on with the one that the test loads.
    monkeypatch.setattr(cli, "state_exec", module)


def test_a_module_loaded_while_a_name_is_replaced_is_noticed(unloaded):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output, "clean", lambda text, longest=0: text)
        module = importlib.import_module(LAZY)
    assert leaks.outlived(module) == [f"{LAZY}.clean of tugtool.cli.output"]


def test_a_module_loaded_otherwise_is_not(unloaded):
    assert leaks.outlived(importlib.import_module(LAZY)) == []


def test_a_name_is_replaced_wherever_it_was_taken_and_put_back():
    right, lazy = output.clean, importlib.import_module(LAZY)
    with pytest.MonkeyPatch.context() as patch:
        leaks.replace(patch, output, "clean", str.upper)
        assert (output.clean, lazy.clean) == (str.upper, str.upper)
    assert (output.clean, lazy.clean) == (right, right)


def test_signals_that_stay_ignored_or_blocked_are_noticed_and_heeded_again():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
    assert heed_signals() == ["SIGTERM", "SIGHUP"]
    assert heed_signals() == []
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
