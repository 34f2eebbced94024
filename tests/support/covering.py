"""Which tests are followed line by line.

Following costs half as much time again, so only those pay for it that have to cover the rooms in
which every line and branch is covered. A line that nobody else reaches is named by `make test`.
"""

import os

import pytest

#: These rooms, and the tests of other rooms that help with them.
COVERED = ("tests/plan/", "tests/state/", "tests/store/")
COVERING = (
    "tests/cli/test_plan.py",
    "tests/cli/test_report.py",
    "tests/cli/test_revise_cli.py",
    "tests/cli/test_state_cli.py",
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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The others are run as they are; so are proofs, of which a short round tries only some."""
    for item in items:
        file = os.path.relpath(item.path, config.rootpath)
        if item.get_closest_marker("proof") or not file.startswith((*COVERED, *COVERING)):
            item.add_marker("no_cover")
