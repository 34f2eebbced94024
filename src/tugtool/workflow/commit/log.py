"""The implementation log: `.tugtool/log.md`, newest entry first, kept short by rotation.

Merged branches have both added entries at the top, and git's union merge works line by line:
it would mix entries that share lines. So an entry is one line.
"""

from __future__ import annotations

import stat

from tugtool.errors import OutsideRepository, Unwritable
from tugtool.system import files, os

DIRECTORY = ".tugtool"
PATH = f"{DIRECTORY}/log.md"
ARCHIVE = f"{DIRECTORY}/archive"
HEADING = "# Implementation log\n\n"
#: A longer text belongs in an artifact.
LONGEST = 2000
#: A person's own heading is searched for in so many bytes.
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
    """Return one entry: one unique line."""
    where = f"plan {one_line(plan)}, attempt {attempt}, worktree {one_line(worktree)}, {claim}"
    return f"- {now} **{anchor}: {one_line(title)}** {one_line(summary)} ({where})\n"


def one_line(text: str) -> str:
    """Return the text as one line that is harmless to show."""
    words = "".join(c if c.isprintable() else " " for c in text).split()
    whole = " ".join(words)
    return whole if len(whole) <= LONGEST else f"{whole[: LONGEST - 1]}…"


def once_each(text: bytes) -> bytes:
    """Return the log without repeated entries; all other text stays."""
    seen: set[bytes] = set()
    kept = []
    for each in text.splitlines(keepends=True):
        entry = each.rstrip(b"\r\n")
        if entry.startswith(b"- ") and entry in seen:
            continue
        seen.add(entry)
        kept.append(each)
    return b"".join(kept)


def repaired(top: str, tree: str, *sides: str) -> str:
    """Return the tree with a log that has each entry of both sides of a merge once.

    Branches that merged each other have the same entries in a different order. Git's union
    merge then keeps an entry twice. If the merge base has it twice, and each side kept another
    one of the two, git drops both.
    """
    from tugtool.git import merge_tree  # A commit merges nothing.

    return merge_tree.rewritten(top, tree, PATH, _merged, sides)


def _merged(text: bytes, *sides: bytes) -> bytes:
    """Return a merged log with each entry once; `sides` are the two logs, if both exist."""
    lines = once_each(text).split(b"\n")
    if len(sides) == 2:
        there = _entries(lines)
        ours, theirs = (_entries(side.split(b"\n")) for side in sides)
        for entry in sorted(ours.keys() & theirs.keys() - there.keys()):
            # Newest first: each entry begins with its time.
            older = (n for n, each in enumerate(lines) if each[:2] == b"- " and each < entry)
            lines.insert(next(older, len(lines) - 1), ours[entry])
    return b"\n".join(lines)


def _entries(lines: list[bytes]) -> dict[bytes, bytes]:
    """Return the entry lines, by their text without the line's end."""
    return {each.rstrip(b"\r"): each for each in lines if each.startswith(b"- ")}


class LogChange:
    """The change of the log for one commit, and what is needed to undo it."""

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
        #: The text before the first entry.
        self.head = head
        #: The log's new path in the archive, relative to the top; None if it is not rotated.
        self.archive = archive
        #: True if there was no log before.
        self.fresh = fresh
        self.entry = entry
        #: The former log, if it is not rotated; unknown after a crash.
        self.old = old

    @property
    def path(self) -> str:
        """The log's path."""
        return os.path.join(self.top, PATH)

    def detail(self) -> dict[str, object]:
        """Return what the intent has to record, so that another process can undo the change."""
        return {name: getattr(self, name) for name in ("head", "archive", "fresh", "entry")}

    def rotate(self) -> None:
        """Move the log to the archive, if that is due."""
        if self.archive is not None:
            target = os.path.join(self.top, self.archive)
            files.make_directory(os.path.dirname(target))
            _move(self.path, target)

    def write(self) -> None:
        """Write the entry above the others."""
        files.make_directory(os.path.dirname(self.path))
        head, rest = self.head.encode(), b""
        if self.old is not None:
            cut = len(_head(self.old))
            # Another merge may have repeated entries.
            head, rest = self.old[:cut], once_each(self.old[cut:])
        files.replace(self.path, head + self._bytes() + rest)

    def undo(self, *, at_once: bool = False) -> None:
        """Restore the log and the archive; later changes by others stay.

        With `at_once` only a hook can have written there, so undo that too.
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
        # Keep the file's line ends: git may refuse to mix them.
        crlf = self.head.endswith("\r\n")
        return (self.entry.replace("\n", "\r\n") if crlf else self.entry).encode()

    def _content(self) -> bytes | None:
        if not os.path.lexists(self.path):
            return None
        return files.read(self.path, max_bytes=files.WHOLE_BYTES)


def prepare(top: str, *, max_lines: int, max_bytes: int, now: str) -> LogChange:
    """Plan a commit's change of the log. Nothing is written yet."""
    directory, path = os.path.join(top, DIRECTORY), os.path.join(top, PATH)
    for each in (directory, os.path.join(top, ARCHIVE)):
        # Never write outside the worktree.
        if os.path.islink(each):
            raise OutsideRepository(each, root=top)
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return LogChange(top, fresh=True)
    except OSError as error:
        raise Unwritable(path, reason=files.reason(error)) from error
    if not stat.S_ISREG(status.st_mode):
        raise Unwritable(path, reason="it is not a regular file")
    old = files.read(path, max_bytes=max_bytes) if status.st_size <= max_bytes else None
    if old is None or old.count(b"\n") > max_lines:
        return LogChange(top, head=_heading(path), archive=_archive(top, now))
    return LogChange(top, head=_head(old).decode("utf-8", "replace"), old=old)


def _archive(top: str, now: str) -> str:
    """Return a free name; its time has no colons, for file names."""
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
    """Return the title of the log and the blank lines below it."""
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
