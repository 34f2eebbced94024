"""Reading and writing single files: never blocked, never half-written.

Any path a person can name arrives here: directories, FIFOs, devices, huge files.
"""

from __future__ import annotations

import stat

from tugtool import errors
from tugtool.system import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import BinaryIO


#: The limit for our own small files.
SMALL_BYTES = 1 << 20
#: For files that are read whole, whatever their size.
WHOLE_BYTES = 1 << 30


def read(
    path: str,
    *,
    max_bytes: int = SMALL_BYTES,
    raise_with: str | None = None,
    name: str | None = None,
) -> bytes:
    """The bytes of the regular file at `path`; refuses a large file before it reads any.

    `raise_with` names the setting that raises the limit, `name` is the file's name in
    refusals.
    """
    shown = name or path
    descriptor = _opened(path, shown)
    try:
        size = os.fstat(descriptor).st_size
        if size > max_bytes:
            raise _too_large(shown, size, max_bytes, raise_with)
        data = _read_all(descriptor, max_bytes)
    except OSError as error:
        raise errors.Unreadable(shown, f"cannot be read: {reason(error)}") from error
    finally:
        os.close(descriptor)
    if len(data) > max_bytes:
        raise _too_large(shown, len(data), max_bytes, raise_with)
    return data


def opened(path: str, *, name: str | None = None) -> BinaryIO:
    """The regular file at `path`, however large, to be read from its beginning."""
    return open(_opened(path, name or path), "rb")


def spooled(source: BinaryIO, directory: str, *, name: str) -> BinaryIO:
    """A copy of `source` in a file without a name, so that it can be read twice."""
    path = os.path.join(directory, f".tug-{os.urandom(6).hex()}.tmp")
    try:
        os.makedirs(directory, exist_ok=True)
        copy = open(path, "x+b")  # noqa: SIM115 (the caller closes it)
        os.unlink(path)
    except OSError as error:
        raise errors.Unwritable(path, reason=reason(error)) from error
    try:
        while part := source.read(SMALL_BYTES):
            copy.write(part)
        copy.seek(0)
    except OSError as error:
        copy.close()
        raise errors.Unreadable(name, f"cannot be copied: {reason(error)}") from error
    return copy


def text(path: str, data: bytes) -> str:
    """`data` as UTF-8 text, a byte order mark dropped, or a refusal that names the line."""
    # Not the codec "utf-8-sig": after a mark it counts positions without the mark.
    body = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        guess = " (it looks like UTF-16)" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
        raise errors.Unreadable(
            path,
            f"is not UTF-8: byte 0x{body[error.start]:02x} on line {line}{guess}",
            line=line,
            hint="save the file as UTF-8",
        ) from error


def create(path: str, data: bytes | Iterable[bytes]) -> bool:
    """Write a new file, complete or not at all; False if there is one already."""

    def place(temporary: str) -> bool:
        try:
            # A link, unlike a rename, refuses to replace what is there.
            os.link(temporary, path)
        except FileExistsError:
            return False
        return True

    return not os.path.lexists(path) and bool(_through_temporary(path, data, place))


def replace(path: str, data: bytes) -> None:
    """Write the file anew; readers see the old text or the new one, nothing between.

    A symbolic link stays one: what it leads to is replaced. The file keeps its mode.
    """
    path = os.path.realpath(path)
    mode = _replaceable_mode(path)
    _through_temporary(path, data, lambda temporary: os.rename(temporary, path), mode=mode)


def make_directory(path: str) -> bool:
    """Make the directory; False if it is there already."""
    try:
        os.mkdir(path)
    except FileExistsError:
        if os.path.isdir(path):
            return False
        raise errors.Unwritable(
            path, reason="something that is not a directory is in the way"
        ) from None
    except OSError as error:
        raise errors.Unwritable(path, reason=reason(error)) from error
    return True


def sync_directory(path: str) -> None:
    """Sync a directory, so that its names survive a power cut."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise errors.Unwritable(path, reason=reason(error)) from error


def reason(error: OSError | ValueError) -> str:
    """The system's message, without Python's additions."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error)


def _through_temporary(
    path: str,
    data: bytes | Iterable[bytes],
    place: Callable[[str], object],
    *,
    mode: int | None = None,
) -> object:
    # Not made from the process id: a crashed process leaves its file behind, and in a
    # container the next one has the same id. Not from the name: it may be full length.
    temporary = os.path.join(os.path.dirname(path), f".tug-{os.urandom(6).hex()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            with open(descriptor, "wb") as file:
                if mode is not None:
                    os.fchmod(descriptor, mode)
                file.writelines([data] if isinstance(data, bytes) else data)
                file.flush()
                os.fsync(file.fileno())
            return place(temporary)
        finally:
            if os.path.lexists(temporary):
                os.unlink(temporary)
    except OSError as error:
        raise errors.Unwritable(path, reason=reason(error)) from error


def _replaceable_mode(path: str) -> int | None:
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return None
    except OSError as error:
        raise errors.Unwritable(path, reason=reason(error)) from error
    # If a link leads to /dev/null, a rename would replace it with a plain file.
    if not stat.S_ISREG(mode):
        raise errors.Unwritable(path, reason=f"it is {_kind(mode)}, not a regular file")
    return stat.S_IMODE(mode)


def _opened(path: str, shown: str) -> int:
    try:
        # Opening a FIFO would wait for a writer for ever; O_NONBLOCK never waits.
        # O_NOCTTY: an opened terminal must not become our controlling one.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        hint = "ls -l" if isinstance(error, PermissionError) else None
        raise errors.Unreadable(shown, _why_closed(path, error), hint=hint) from error
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise errors.Unreadable(shown, f"is {_kind(mode)}, not a regular file")
    return descriptor


def _read_all(descriptor: int, max_bytes: int) -> bytes:
    # One byte more than allowed: a file may grow between fstat and read.
    parts, left = [], max_bytes + 1
    while left and (part := os.read(descriptor, min(left, SMALL_BYTES))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _too_large(path: str, size: int, limit: int, raise_with: str | None) -> errors.Unreadable:
    return errors.Unreadable(
        path,
        f"is too large: {size} bytes, and the limit is {limit}",
        hint=f"{raise_with} raises the limit" if raise_with else None,
        size_bytes=size,
        limit_bytes=limit,
    )


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    )
    return next((name for test, name in kinds if test(mode)), "something else")


def _why_closed(path: str, error: OSError | ValueError) -> str:
    # A socket cannot be opened, and the system's message for that is unclear.
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        mode = 0
    if stat.S_ISSOCK(mode):
        return f"is {_kind(mode)}, not a regular file"
    return f"cannot be read: {reason(error)}"


def short_name(worktree: str, root: str) -> str:
    """The short name of a worktree: its directory's name if it is in the usual place."""
    if worktree == root:
        return "the main worktree"
    place, usual, name = worktree.partition("/.tugtree/")
    if usual and (place == root or not os.path.isabs(place)):
        return name if place == root else f"{place.partition(':')[0]}:{name}"
    near = os.path.relpath(worktree, root) if root and os.path.isabs(worktree) else worktree
    return worktree if near.startswith("../..") else near
