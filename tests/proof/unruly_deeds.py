"""What random agents do to files: their own worktree's, and those of the main checkout.

Each deed is a function of a `Hand`. Its one line says what it does; what becomes of it is the
judge's business (`unruly_judge.py`).
"""

import os
import shutil
from collections.abc import Callable

from unruly_hand import Hand, Impossible

Deed = Callable[[Hand], None]


def write(hand: Hand) -> None:
    """New files, some below new directories."""
    for _ in range(hand.chance.randint(1, 3)):
        hand.write(hand.name())


def write_out(hand: Hand) -> None:
    """One new file in `out/`."""
    hand.write(f"out/made-{hand.mark.replace(' ', '-')}.txt")


def change(hand: Hand) -> None:
    """A file gets more content."""
    name = hand.pick()
    with open(hand.top / name, "a") as file:
        file.write(hand.text())


def replace(hand: Hand) -> None:
    """A file is replaced by another, by a directory or by a link."""
    name, how = hand.pick(), hand.chance.choice(("file", "directory", "link"))
    (hand.top / name).unlink()
    hand.forget(name)
    if how == "file":
        hand.write(name)
    elif how == "directory":
        hand.write(f"{name}/inside.txt")
    else:
        (hand.top / name).symlink_to(hand.text().strip())


def directory_by_file(hand: Hand) -> None:
    """A directory is replaced by a file."""
    name = hand.pick().partition("/")[0]
    if not (hand.top / name).is_dir():
        raise Impossible("there is no directory")
    shutil.rmtree(hand.top / name)
    hand.forget(name)
    hand.write(name)


def delete(hand: Hand) -> None:
    """A file is deleted."""
    name = hand.pick()
    (hand.top / name).unlink()
    hand.forget(name)


def move(hand: Hand) -> None:
    """A file gets another name."""
    name, to = hand.pick(), hand.name()
    (hand.top / to).parent.mkdir(parents=True, exist_ok=True)
    (hand.top / name).rename(hand.top / to)
    hand.forget(name)


def chmod(hand: Hand) -> None:
    """A file becomes executable."""
    path = hand.top / hand.pick()
    path.chmod(path.stat().st_mode | 0o111)


def link(hand: Hand) -> None:
    """A link to a file, to a directory, out of the repository or to nothing."""
    hand.outside.mkdir(exist_ok=True)
    (hand.outside / "foreign.txt").write_text("foreign\n")
    to = hand.chance.choice(("code.txt", "src", str(hand.outside), "/", "nowhere", "."))
    path = hand.top / f"{hand.name()}.link"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(to)


def ignore_top(hand: Hand) -> None:
    """A `.gitignore` of `*` at the top."""
    hand.write(".gitignore", "*\n")


def ignore_out(hand: Hand) -> None:
    """A `.gitignore` of `*` in `out/`, as tools write it into their own directories."""
    hand.write("out/.gitignore", "*\n")


def ignore_shared(hand: Hand) -> None:
    """The same in the shared `info/exclude`."""
    path = hand.root / ".git" / "info" / "exclude"
    path.parent.mkdir(exist_ok=True)
    with open(path, "a") as file:
        file.write("*\n")


def nested(hand: Hand) -> None:
    """A repository inside, with a commit, as scaffolding tools make it."""
    hand.write("app/main.txt")
    hand.git("init", "--quiet", "app")
    hand.git("add", "--all", at=hand.top / "app")
    hand.git("commit", "--quiet", "-m", "scaffold", at=hand.top / "app")


def nested_empty(hand: Hand) -> None:
    """A repository inside in which nothing is committed."""
    hand.write("lib/main.txt")
    hand.git("init", "--quiet", "lib")


def read_only(hand: Hand) -> None:
    """A directory with files in which no user may write, as module caches are."""
    hand.write("cache/module/file.txt")
    hand.last.append(lambda: os.chmod(hand.top / "cache" / "module", 0o555))


def unreadable(hand: Hand) -> None:
    """A directory with files that no user may list."""
    hand.write("closed/file.txt")
    hand.last.append(lambda: os.chmod(hand.top / "closed", 0))


def main_write(hand: Hand) -> None:
    """A new file in the main checkout."""
    name = f"stray-{hand.mark.replace(' ', '-')}.txt"
    (hand.root / name).write_text(hand.text())
    hand.in_main.append(name)


def main_change(hand: Hand) -> None:
    """A committed file of the main checkout is changed."""
    (hand.root / "code.txt").write_text(hand.text())
    hand.in_main.append("code.txt")


def main_delete(hand: Hand) -> None:
    """A committed file of the main checkout is deleted."""
    (hand.root / "code.txt").unlink(missing_ok=True)
    hand.in_main.append("code.txt")


def main_restore(hand: Hand) -> None:
    """What a person has not committed in the main checkout is thrown away."""
    hand.git("restore", ".", at=hand.root)
    hand.in_main.append("draft.txt")


FILES: dict[str, Deed] = {
    deed.__name__: deed
    for deed in (
        *(write, write_out, change, replace, directory_by_file, delete, move, chmod, link),
        *(ignore_top, ignore_out, ignore_shared, nested, nested_empty, read_only, unreadable),
        *(main_write, main_change, main_delete, main_restore),
    )
}
