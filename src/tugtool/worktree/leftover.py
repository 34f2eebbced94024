"""What a removal that was killed has left of a directory: told from what somebody put there."""

from __future__ import annotations

import os

from tugtool import files, git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.repository import Repository


def clear(repo: Repository, path: str, commit: str) -> bool:
    """Delete what is left of a worktree, if all of it is in the commit; whether it is gone.

    Git deletes files in any order: once the marker is gone, it no longer knows the directory.
    """
    if os.path.islink(path) or os.path.lexists(os.path.join(path, ".git")):
        return False
    if not os.path.isdir(path) or not _is_in(repo, path, commit):
        return False
    import shutil

    shutil.rmtree(path, ignore_errors=True)
    return not os.path.lexists(path)


def _is_in(repo: Repository, path: str, commit: str) -> bool:
    directory = os.path.join(repo.common_dir, "tugtool")
    files.make_directory(directory)
    index = os.path.join(directory, f"leftover-{os.urandom(6).hex()}")
    here = (f"--git-dir={repo.common_dir}", f"--work-tree={path}")
    try:
        git.run(*here, "read-tree", commit, cwd=path, index=index)
        words = ("--name-only", "-z", "--no-renames", "--no-ext-diff", "--diff-filter=d")
        changed = git.run(*here, "diff", *words, cwd=path, index=index)
        # As everywhere, what is ignored goes along.
        others = ("ls-files", "--others", "--exclude-standard", "-z")
        return not changed and not git.run(*here, *others, cwd=path, index=index)
    finally:
        if os.path.lexists(index):
            os.unlink(index)
