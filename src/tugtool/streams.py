"""What goes between us and a command that we run: its input, and what is kept of its output."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

    Pipe = IO[bytes] | None


class Kept:
    """The beginning and the end of what a command wrote; what lies between is only counted."""

    __slots__ = ("_tail", "head", "most_head", "most_tail", "total")

    def __init__(self, head: int, tail: int) -> None:
        self.most_head, self.most_tail = head, tail
        self.head, self._tail, self.total = b"", bytearray(), 0

    def add(self, data: bytes) -> None:
        """Take what came next."""
        self.total += len(data)
        room = self.most_head - len(self.head)
        self.head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self.most_tail + 65536:
            del self._tail[: -self.most_tail or None]

    @property
    def tail(self) -> bytes:
        """The last bytes, as far as they are not in the head."""
        return bytes(self._tail[-self.most_tail :] if self.most_tail else b"")

    @property
    def dropped(self) -> int:
        """How many bytes between head and tail were not kept."""
        return self.total - len(self.head) - len(self.tail)

    def text(self) -> str:
        """All that was kept, with a line about what was not."""
        head, tail = (part.decode(errors="replace") for part in (self.head, self.tail))
        return f"{head}\n[{self.dropped} bytes left out]\n{tail}" if self.dropped else head + tail


class Streams:
    """Where a command reads and writes: where we do, unless its output is kept."""

    __slots__ = ("given", "head", "kept", "merged", "stdout", "tail")

    def __init__(self, *, stdout: int | None = None) -> None:
        #: A descriptor for its standard output in place of ours.
        self.stdout = stdout
        self.kept = False
        self.merged = False
        self.given = b""
        self.head = self.tail = 0

    @classmethod
    def keep(
        cls, *, head: int = 65536, tail: int = 65536, given: bytes = b"", merged: bool = False
    ) -> Streams:
        """So many bytes of each stream are kept; `given` is all that it can read.

        With `merged` both streams are one, in the order in which they were written.
        """
        made = cls()
        made.kept, made.merged, made.given, made.head, made.tail = True, merged, given, head, tail
        return made


class Flow:
    """What goes between us and a command: its input, its output, and the bell of its end."""

    def __init__(
        self, pipes: tuple[Pipe, Pipe, Pipe], streams: Streams, out: Kept, err: Kept
    ) -> None:
        import select

        self._poll = select.poll()
        self._bell, self._button = os.pipe()
        self._poll.register(self._bell, select.POLLIN)
        #: Its standard input, output and error; they own their descriptors.
        self._pipes = pipes
        self._sources = {
            pipe.fileno(): kept
            for pipe, kept in zip(pipes[1:], (out, err), strict=True)
            if pipe is not None
        }
        self._given = memoryview(streams.given)
        self._sink = None if pipes[0] is None else pipes[0].fileno()
        for source in self._sources:
            os.set_blocking(source, False)
            self._poll.register(source, select.POLLIN)
        if self._sink is not None:
            os.set_blocking(self._sink, False)
            self._poll.register(self._sink, select.POLLOUT)

    def ring(self) -> None:
        """Something happened to the command itself."""
        os.write(self._button, b"!")

    def move(self, seconds: float | None) -> bool:
        """Wait for something and move it on; whether the bell rang, or nothing came in time."""
        ready = self._poll.poll(None if seconds is None else max(0, seconds) * 1000)
        for descriptor, _ in ready:
            if descriptor == self._bell:
                os.read(descriptor, 64)
                return True
            self._move(descriptor)
        return not ready and seconds is not None

    def drain(self) -> None:
        """Move what can be moved without waiting."""
        for source in list(self._sources):
            while source in self._sources and self._read(source):
                pass

    def close(self) -> None:
        """Let go of everything."""
        for pipe in self._pipes:
            if pipe is not None:
                pipe.close()
        for descriptor in (self._bell, self._button):
            os.close(descriptor)

    def _move(self, descriptor: int) -> None:
        if descriptor == self._sink:
            self._feed(descriptor)
        else:
            self._read(descriptor)

    def _read(self, source: int) -> bool:
        try:
            data = os.read(source, 65536)
        except BlockingIOError:
            return False
        self._sources[source].add(data)
        if not data:
            self._poll.unregister(source)
            del self._sources[source]
        return bool(data)

    def _feed(self, sink: int) -> None:
        try:
            self._given = self._given[os.write(sink, self._given[:65536]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            # It does not read what it was given; its own affair.
            self._given = self._given[:0]
        if not self._given and self._pipes[0] is not None:
            self._poll.unregister(sink)
            self._sink = None
            self._pipes[0].close()
