"""Which tests are followed line by line.

Following costs half as much time again, so only those pay for it that have to cover the rooms in
which every line and branch is covered. A line that nobody else reaches is named by `make test`.
"""

import importlib
import pkgutil
from collections.abc import Generator
from typing import Any

import pytest

#: These rooms, and the tests of other rooms that help with them.
COVERED = ("tests/plan/", "tests/state/", "tests/store/")
COVERING = (
    "tests/cli/test_plan.py",
    "tests/cli/test_report.py",
    "tests/cli/test_revise_cli.py",
    "tests/cli/test_state_cli.py",
    "tests/server/test_client.py",
    "tests/workflow/test_commit.py",
    "tests/workflow/test_commit_crash.py",
    "tests/workflow/test_dash.py",
    "tests/workflow/test_dash_record.py",
    "tests/workflow/test_doctor_database.py",
    "tests/workflow/test_intent.py",
    "tests/workflow/test_merge.py",
    "tests/workflow/test_shared_record.py",
    "tests/world/test_h_links.py",
    "tests/world/test_n_backups.py",
    "tests/world/test_u_migrations.py",
)


#: What a covered room is made of: it is loaded while lines are followed, before all tests.
ROOMS = ("tugtool.plan", "tugtool.state", "tugtool.store")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Who hands tests out to workers runs none. A worker starts twice; the first must not stay."""
    shared = hasattr(session.config, "workerinput") or session.config.getoption("tx", None)
    if shared and (control := _control(session.config)):
        control.cov.stop()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Load the rooms, then follow nothing: collecting thousands of tests takes twice as long."""
    if control := _control(session.config):
        for room in ROOMS:
            path = importlib.import_module(room).__path__
            for each in pkgutil.walk_packages(path, f"{room}."):
                importlib.import_module(each.name)
        control.pause()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Follow the test with its set-up, and what comes after it if that covers too."""
    control = _control(item.config)
    if control and covers(item) and not control.started:
        control.resume()
    try:
        return (yield)
    finally:
        if control and control.started and not (nextitem and covers(nextitem)):
            control.pause()


def covers(item: pytest.Item) -> bool:
    """Whether a test is followed. No proof is: a short round tries only some cases of it."""
    file = file_of(item)
    return file.startswith((*COVERED, *COVERING)) and not item.get_closest_marker("proof")


def file_of(item: pytest.Item) -> str:
    """The test's file, as the lists here name files."""
    return item.nodeid.partition("::")[0]


def _control(config: pytest.Config) -> Any:
    """What starts and stops coverage; None if nobody asked for it."""
    plugin = config.pluginmanager.getplugin("_cov")
    return plugin and plugin.cov_controller
