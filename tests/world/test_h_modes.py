"""H: what the state is made of has one mode, and `core.sharedRepository` is heeded."""

import os
from pathlib import Path

import pytest

FORCED = ("--force", "--reason", "x")


@pytest.fixture
def umask():
    """Set the umask as a person's shell does; it is put back."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def _modes(root: Path) -> dict[str, int]:
    """Name -> mode of every file of the state, and of the directory of backups."""
    home = root / ".git" / "tugtool"
    paths = [*(root / ".tugtool").glob("state.*"), home, *home.iterdir()]
    return {path.name: path.stat().st_mode & 0o777 for path in paths}


@pytest.mark.parametrize(
    ("usual", "setting", "file", "directory"),
    [
        (0o022, None, 0o644, 0o755),
        (0o002, None, 0o664, 0o775),
        (0o077, None, 0o600, 0o700),
        (0o022, "umask", 0o644, 0o755),
        (0o022, "group", 0o664, 0o775),
        (0o077, "true", 0o660, 0o770),
        (0o027, "all", 0o664, 0o775),
        (0o022, "0660", 0o660, 0o770),
        (0o002, "0640", 0o640, 0o750),
    ],
)
def test_the_files_of_the_state_have_one_mode(repo, desk, umask, usual, setting, file, directory):
    repo.live()
    work = desk("1 t", init=False)
    if setting is not None:
        repo.git("config", "core.sharedRepository", setting)
    umask(usual)
    for words in (("init", "work"), ("claim", "work"), ("complete", "work", "step-1", *FORCED)):
        # Each command is a process of its own.
        umask(usual)
        work.ok(*words)
    modes = _modes(repo.path)
    assert {"state.db", "state.db-wal", "state.lock", "backup.db", "mark"} <= set(modes)
    assert modes.pop("tugtool") == directory
    assert set(modes.values()) == {file}, modes
