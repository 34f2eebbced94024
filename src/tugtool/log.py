"""The implementation log: `.tugtool/log.md`, newest entry first, kept short by rotation.

Branches that come together have both added entries at the top, and git's union merge works
line by line: it would mix entries that have lines in common. So an entry is one line.
"""

from __future__ import annotations

import os
import stat

from tugtool import files
from tugtool.errors import OutsideRepository, Unwritable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

DIRECTORY = ".tugtool"
PATH = f"{DIRECTORY}/log.md"
ARCHIVE = f"{DIRECTORY}/archive"
HEADING = "# Implementation log\n\n"
#: An entry is for reading; whoever has more to say leaves an artifact.
LONGEST = 2000
#: A heading of the person's own is looked for in so much of the file.
_HEAD_BYTES = 4096


def entry(
    *,
    anchor: str,
    title: str,
    summary: str,
    plan: str,
    attempt: int,
    worktree: str,
    claim: str,
    now: str,
) -> str:
    """One entry: one line, like no other."""
    where = f"plan {line(plan)}, attempt {attempt}, worktree {line(worktree)}, {claim}"
    return f"- {now} **{anchor}: {line(title)}** {line(summary)} ({where})\n"


def line(text: str) -> str:
    """The text as one line that is harmless wherever it is shown."""
    words = "".join(c if c.isprintable() else " " for c in text).split()
    whole = " ".join(words)
    return whole if len(whole) <= LONGEST else f"{whole[: LONGEST - 1]}…"


def told_once(text: bytes) -> bytes:
    """The log without entries that stand there already; whatever else it says stays."""
    seen: set[bytes] = set()
    kept = []
    for each in text.splitlines(keepends=True):
        entry = each.rstrip(b"\r\n")
        if entry.startswith(b"- ") and entry in seen:
            continue
        seen.add(entry)
        kept.append(each)
    return b"".join(kept)


class Change:
    """What is done to the log for one commit, and all that is needed to undo it."""

    __slots__ = ("archive", "entry", "fresh", "head", "old", "top")

    def __init__(
        self,
        top: str,
        *,
        head: str = HEADING,
        archive: str | None = None,
        fresh: bool = False,
        entry: str = "",
        old: bytes | None = None,
    ) -> None:
        self.top = top
        #: What stands before the first entry.
        self.head = head
        #: Where the log goes, relative to the top; None: it stays where it is.
        self.archive = archive
        #: Whether there was no log before.
        self.fresh = fresh
        self.entry = entry
        #: The log as it was, if it stays; not known any more after a crash.
        self.old = old

    @property
    def path(self) -> str:
        """The log's own path."""
        return os.path.join(self.top, PATH)

    def detail(self) -> dict[str, object]:
        """What has to be written down, so that somebody else can undo it."""
        return {
            "head": self.head,
            "archive": self.archive,
            "fresh": self.fresh,
            "entry": self.entry,
        }

    @classmethod
    def recorded(cls, top: str, detail: Mapping[str, object]) -> Change:
        """The change of somebody who wrote it down."""
        archive = detail["archive"]
        return cls(
            top,
            head=str(detail["head"]),
            archive=None if archive is None else str(archive),
            fresh=bool(detail["fresh"]),
            entry=str(detail["entry"]),
        )

    def rotate(self) -> None:
        """Put the log into the archive, if that is due."""
        if self.archive is not None:
            target = os.path.join(self.top, self.archive)
            files.make_directory(os.path.dirname(target))
            _move(self.path, target)

    def write(self) -> None:
        """Put the entry on top of the others."""
        files.make_directory(os.path.dirname(self.path))
        head, rest = self.head.encode(), b""
        if self.old is not None:
            cut = len(_head(self.old))
            # Somebody else's merge may have told entries twice.
            head, rest = self.old[:cut], told_once(self.old[cut:])
        files.replace(self.path, head + self._bytes() + rest)

    def undo(self, *, at_once: bool = False) -> None:
        """Make the log and the archive what they were; what others wrote since stays.

        If it is done `at_once`, only a hook can have written there: that is undone too.
        """
        found = self._content()
        rest = found.replace(self._bytes(), b"", 1) if found is not None and not at_once else None
        if self.old is not None:
            if found != self.old:
                files.replace(self.path, self.old)
        elif self.archive is not None:
            self._bring_back(os.path.join(self.top, self.archive), found, rest)
        elif found is not None and rest != found:
            self._put_back(rest)

    def _bring_back(self, archived: str, found: bytes | None, rest: bytes | None) -> None:
        if not os.path.lexists(archived):
            return  # It was not rotated yet.
        if rest in (None, self.head.encode()):
            _move(archived, self.path)
            _remove_if_empty(os.path.dirname(archived))
        elif rest is not None and rest != found:
            files.replace(self.path, rest)

    def _put_back(self, rest: bytes | None) -> None:
        if rest is None or (self.fresh and rest in (b"", self.head.encode())):
            os.unlink(self.path)
            _remove_if_empty(os.path.dirname(self.path))
        else:
            files.replace(self.path, rest)

    def _bytes(self) -> bytes:
        # As the rest of the file has it: git may refuse to mix them.
        crlf = self.head.endswith("\r\n")
        return (self.entry.replace("\n", "\r\n") if crlf else self.entry).encode()

    def _content(self) -> bytes | None:
        return files.read(self.path, max_bytes=1 << 30) if os.path.lexists(self.path) else None


def prepare(top: str, *, max_lines: int, max_bytes: int, now: str) -> Change:
    """Look at the log: what a commit will do to it. Nothing is changed."""
    directory, path = os.path.join(top, DIRECTORY), os.path.join(top, PATH)
    for each in (directory, os.path.join(top, ARCHIVE)):
        # Nothing is ever written outside.
        if os.path.islink(each):
            raise OutsideRepository(each, root=top)
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return Change(top, fresh=True)
    except OSError as error:
        raise Unwritable(path, reason=files.reason(error)) from error
    if not stat.S_ISREG(status.st_mode):
        raise Unwritable(path, reason="it is not a regular file")
    if status.st_size > max_bytes:
        return Change(top, head=_heading(path), archive=_archive(top, now))
    old = files.read(path, max_bytes=max_bytes)
    if old.count(b"\n") > max_lines:
        return Change(top, head=_heading(path), archive=_archive(top, now))
    return Change(top, head=_head(old).decode("utf-8", "replace"), old=old)


def _archive(top: str, now: str) -> str:
    """A name that is free: times as they stand in file names, without colons."""
    name = f"{ARCHIVE}/log-{now.replace(':', '-').replace('.', '-')}"
    number, found = 1, f"{name}.md"
    while os.path.lexists(os.path.join(top, found)):
        number += 1
        found = f"{name}-{number}.md"
    return found


def _heading(path: str) -> str:
    with open(path, "rb") as file:
        return _head(file.read(_HEAD_BYTES)).decode("utf-8", "replace") or HEADING


def _head(log: bytes) -> bytes:
    """The title of the log and the blank lines below it."""
    if not log.startswith(b"# "):
        return b""
    end = log.find(b"\n") + 1
    while log[end : end + 1] == b"\n" or log[end : end + 2] == b"\r\n":
        end = log.find(b"\n", end) + 1
    return log[:end]


def _move(source: str, target: str) -> None:
    try:
        os.rename(source, target)
    except OSError as error:
        raise Unwritable(target, reason=files.reason(error)) from error


def _remove_if_empty(directory: str) -> None:
    try:
        os.rmdir(directory)
    except OSError:
        return
