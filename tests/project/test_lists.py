"""The lists that follow from the table of commands are current, and the scripts notice if not."""

import importlib.util
import shutil
from pathlib import Path

import pytest

from tugtool.cli import parse
from tugtool.state import operations

ROOT = Path(__file__).parents[2]


@pytest.fixture
def lists():
    spec = importlib.util.spec_from_file_location("lists", ROOT / "scripts" / "lists.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def copied(lists, tmp_path, monkeypatch):
    """The script, with copies of the files that it writes."""
    for name in ("state/operations.py", "agents/guard/rules.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        shutil.copy(lists.PACKAGE / name, tmp_path / name)
    shutil.copy(ROOT / "CHANGELOG.md", tmp_path)
    files = {tmp_path / path.relative_to(_top(lists, path)): f for path, f in lists.FILES.items()}
    monkeypatch.setattr(lists, "PACKAGE", tmp_path)
    monkeypatch.setattr(lists, "ROOT", tmp_path)
    monkeypatch.setattr(lists, "FILES", files)
    return lists


def _top(lists, path: Path) -> Path:
    return lists.PACKAGE if path.is_relative_to(lists.PACKAGE) else lists.ROOT


def test_every_list_is_current(lists):
    assert lists.main(["--check"]) == 0


def test_a_new_command_is_known_to_the_guard_and_told_in_the_changelog(copied, monkeypatch, capsys):
    line = ("plan look", "show the step that is open for the shortest time")
    monkeypatch.setattr(parse, "FAMILIES", parse.FAMILIES | {"state youngest": line})
    assert copied.main(["--check"]) == 1
    assert "rules.py is out of date; run: make docs" in capsys.readouterr().err
    assert copied.main([]) == 0
    assert copied.main(["--check"]) == 0
    rules = (copied.PACKAGE / "agents" / "guard" / "rules.py").read_text()
    assert rules.count('"state youngest"') == rules.count('"youngest"') == 1
    said = "### Added\n\n- `tugcode youngest`: show the step that is open for the shortest time.\n"
    assert said in (copied.ROOT / "CHANGELOG.md").read_text()


def test_an_operation_that_writes_belongs_to_its_command_or_is_listed_by_hand(
    copied, monkeypatch, capsys
):
    def nudge(store, plan):
        with store.write(plan):
            pass

    def peek(store, plan):
        with store.read(plan):
            pass

    real = list(copied.all_operations())
    more = [("leases", "nudge", nudge), ("leases", "peek", peek)]
    monkeypatch.setattr(copied, "all_operations", lambda: [*real, *more])
    with pytest.raises(SystemExit, match=r"state/leases\.py: nudge writes, and no command of that"):
        copied.served()
    line = ("state_admin steer", "send a sign to a worker")
    monkeypatch.setattr(parse, "FAMILIES", parse.FAMILIES | {"state nudge": line})
    written = copied.served()
    assert '"leases": "standing peek",' in written
    assert '"leases": "nudge",' in written
    monkeypatch.setattr(copied, "all_operations", lambda: [*real, *more, ("dashes", *more[0][1:])])
    with pytest.raises(SystemExit, match="two operations are called nudge"):
        copied.served()


def test_what_is_listed_by_hand_exists_and_is_not_also_derived(lists):
    found = {f"{home}/{name}" for home, name, _ in lists.all_operations()}
    assert found == set(operations.GROUPS)
    places = [
        f"{home}/{name}"
        for table in (operations.BY_HAND, operations.DERIVED)
        for homes in table.values()
        for home, names in homes.items()
        for name in names.split()
    ]
    assert len(places) == len(set(places))
