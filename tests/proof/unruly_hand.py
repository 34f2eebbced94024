"""What an agent's deeds are done with: its worktree, its git, and an account of what it wrote.

An agent that plays a role runs a list of deeds (`unruly_deeds.py`, `unruly_git.py`), then notes
which files of its worktree it has made or changed, with their content. The judge asks for those.
"""

import os
import random
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

IDENTITY = {
    "GIT_AUTHOR_NAME": "Unruly",
    "GIT_AUTHOR_EMAIL": "unruly@example.invalid",
    "GIT_COMMITTER_NAME": "Unruly",
    "GIT_COMMITTER_EMAIL": "unruly@example.invalid",
}
#: Names that programs trip over.
ODD = ("a b.txt", "ümlaut.txt", "-dash.txt", "tab\there.txt", "quote'\".txt", "star*.txt")
PLACES = ("", "src/", "out/", "src/deep/er/")
#: What is not work: the product's own, and what makes a directory a repository.
OWN = (".tugtool", ".tugtree", ".git")


class Impossible(Exception):
    """A deed that cannot be done here, such as a change where there is no file."""


class Entry(NamedTuple):
    """One file or link: its content or target, and whether it can be executed."""

    kind: str
    content: bytes
    executable: bool


def entry(path: Path) -> Entry | None:
    """What lies at the path, if it is a file or a link."""
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        return Entry("link", os.fsencode(os.readlink(path)), False)
    if stat.S_ISREG(found.st_mode):
        return Entry("file", path.read_bytes(), bool(found.st_mode & stat.S_IXUSR))
    return None


def contents(top: Path) -> dict[str, Entry]:
    """Every file and link below `top` but the product's own; no link is followed."""
    return dict(_walk(top, ""))


def _walk(directory: Path, prefix: str) -> Iterator[tuple[str, Entry]]:
    try:
        names = sorted(os.listdir(directory))
    except PermissionError:
        return
    for name in names:
        path = directory / name
        if name == ".git" or (not prefix and name in OWN):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path, f"{prefix}{name}/")
            continue
        try:
            found = entry(path)
        except PermissionError:
            continue
        if found is not None:
            yield f"{prefix}{name}", found


class Hand:
    """One call of an agent: where it works, and what it has written so far."""

    def __init__(self, top: Path, root: Path, chance: random.Random, mark: str) -> None:
        self.top, self.root, self.chance = top, root, chance
        self.outside = root.parent / "outside"
        #: In every content, so that none is like another's.
        self.mark = mark
        self._count = 0
        self.before = contents(top)
        #: Content that a deed took out of the worktree without destroying it.
        self.put_away: dict[str, Entry] = {}
        #: What would keep the agent itself from reading what it wrote.
        self.last: list[Callable[[], None]] = []
        self.in_main: list[str] = []

    def text(self) -> str:
        """Content that no other deed writes."""
        self._count += 1
        return f"{self.mark}, {self._count}\n"

    def name(self) -> str:
        """A path for a new file."""
        self._count += 1
        plain = f"new-{self.mark.replace(' ', '-')}-{self._count}.txt"
        base = self.chance.choice(ODD) if self.chance.random() < 0.2 else plain
        return self.chance.choice(PLACES) + base

    def write(self, name: str, text: str | None = None) -> Path:
        """Write a file of the worktree."""
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text() if text is None else text)
        return path

    def pick(self, *, mine: bool = False) -> str:
        """One of the files there are, or of those that this call has made."""
        now = contents(self.top)
        names = [n for n, each in now.items() if each.kind == "file"]
        names = [n for n in names if not mine or n not in self.before]
        names = [n for n in names if os.path.basename(n) != ".gitignore"]
        if not names:
            raise Impossible("there is no file")
        return self.chance.choice(sorted(names))

    def git(self, *words: str, at: Path | None = None, check: bool = True) -> str:
        """Git as an agent runs it; a refusal is none of our business unless it is checked."""
        done = subprocess.run(
            ["git", *words],
            cwd=at or self.top,
            env={**os.environ, **IDENTITY},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )
        if check and done.returncode:
            raise Impossible(f"git {words[0]}: {done.stderr.strip()[:200]}")
        return done.stdout.strip()

    def wrote(self) -> dict[str, Entry]:
        """What is there now and was not before this call."""
        now = contents(self.top)
        return {name: each for name, each in now.items() if self.before.get(name) != each}

    def note(self) -> None:
        """The next deed takes files out of the worktree: what was written so far must be found."""
        self.put_away.update(self.wrote())

    def made(self) -> dict[str, Entry]:
        """All that has to be found again: also what lies no longer in the worktree."""
        now = self.wrote()
        # What it wrote over or removed by itself afterwards is its own decision.
        away = {name: each for name, each in self.put_away.items() if name not in now}
        return {**away, **now}

    def forget(self, name: str) -> None:
        """The agent itself has destroyed what it wrote there."""
        for each in [n for n in self.put_away if n == name or n.startswith(f"{name}/")]:
            del self.put_away[each]
