"""The server on standard input and output: one message a line, for one client.

The main thread reads, renews leases and answers what needs no record. Two other threads carry out
calls, one those that look and one those that write, so that a long call keeps nobody from looking.
"""

from __future__ import annotations

import select

from tugtool.server.mcp import protocol
from tugtool.server.mcp.protocol import LONG_METHODS, McpProtocol, ProtocolError
from tugtool.server.mcp.session import Cancelled, LocalSession
from tugtool.system import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    from tugtool.server.mcp.calls import Calls
    from tugtool.server.mcp.held import HeldSteps

    Message = dict[str, Any]
else:
    # `signal` loads `enum`, which costs a fifth of a bare start.
    import _signal as signal


#: More than the longest note, each character of which may be sent as six.
LONGEST_MESSAGE = 4 << 20
_READ_BYTES = 1 << 16
#: How often to look whether the client still lives, if nothing else is to be done.
_LOOK_SECONDS = 15.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class _Stopped(BaseException):
    """A signal asked the server to end."""


class Lines:
    """Splits what comes into lines; one that is too long is dropped, and None stands for it."""

    def __init__(self, longest: int = LONGEST_MESSAGE) -> None:
        self._longest, self._rest, self._is_dropping = longest, bytearray(), False

    def add(self, data: bytes) -> list[bytes | None]:
        """The lines that are whole now."""
        *whole, rest = data.split(b"\n")
        found: list[bytes | None] = []
        for part in whole:
            found += self._end(part)
        self._take(rest)
        return found

    def _end(self, part: bytes) -> list[bytes | None]:
        self._take(part)
        line: bytes | None = None if self._is_dropping else bytes(self._rest)
        self._rest, self._is_dropping = bytearray(), False
        return [line] if line is None or line.strip() else []

    def _take(self, part: bytes) -> None:
        if self._is_dropping or len(self._rest) + len(part) > self._longest:
            self._is_dropping, self._rest = True, bytearray()
        else:
            self._rest += part


class StdioServer:
    """Serves one client until it closes standard input, ends, or a signal comes."""

    def __init__(self, open_session: Callable[..., LocalSession], held: HeldSteps) -> None:
        self._open_session, self._held = open_session, held
        self._lines = Lines()
        self._source, self._sink = _take_streams()
        #: For messages that need no record.
        self._protocol = McpProtocol(open_session())
        self._calls: Calls | None = None

    def serve(self) -> None:
        """Answer messages until the client is gone; then free its steps."""
        before = {each: signal.signal(each, _stop) for each in _SIGNALS}
        try:
            self._serve()
        except _Stopped:
            pass
        finally:
            for each in _SIGNALS:
                signal.signal(each, signal.SIG_IGN)
            if self._calls is not None:
                self._calls.end()
            self._held.release()
            for each, handler in before.items():
                signal.signal(each, handler)

    def _serve(self) -> None:
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        while not self._held.is_orphaned:
            if poll.poll(1000 * self._nap()):
                data = os.read(self._source, _READ_BYTES)
                if not data:
                    return
                for line in self._lines.add(data):
                    self._take(line)
            self._held.renew()
            if self._calls is not None:
                self._calls.tell_progress()

    def _nap(self) -> float:
        most = _LOOK_SECONDS if self._calls is None else self._calls.wait_seconds(_LOOK_SECONDS)
        return self._held.wait_seconds(most)

    def _take(self, line: bytes | None) -> None:
        """Answer a message, or hand it to the thread that will."""
        try:
            if line is None:
                problem = f"a message has at most {LONGEST_MESSAGE} bytes"
                raise ProtocolError(protocol.INVALID_REQUEST, problem)
            message = protocol.decoded(line)
        except ProtocolError as error:
            self.write(protocol.error_answer(error))
            return
        method = message.get("method") if isinstance(message, dict) else None
        if method == "notifications/cancelled":
            self._cancel(message)
        elif method in LONG_METHODS and protocol.is_request(message):
            self._held.touch()
            assert isinstance(message, dict)
            self._begun().add(message)
        else:
            self.write(self._protocol.respond(message))

    def _begun(self) -> Calls:
        if self._calls is None:
            from tugtool.server.mcp.calls import Calls

            self._calls = Calls(self.carry_out, self.write)
        return self._calls

    def _cancel(self, message: Any) -> None:
        params = message.get("params")
        if self._calls is not None and isinstance(params, dict):
            self._calls.cancel(params.get("requestId"))

    def carry_out(self, message: Message, is_cancelled: Callable[[], bool]) -> None:
        """Answer a message that needs the record, in a thread for such."""
        session = self._open_session(is_cancelled=is_cancelled)
        try:
            answer = self._answer(session, message)
            if not is_cancelled():
                self.write(answer)
            for each in session.after:
                each()
        except Cancelled:
            return
        finally:
            session.close()

    def _answer(self, session: LocalSession, message: Message) -> Message | None:
        try:
            return McpProtocol(session).respond(message)
        except Cancelled:
            raise
        except Exception as error:
            from tugtool.server.mcp import refusals

            problem = ProtocolError(protocol.INTERNAL_ERROR, refusals.told_bug(error))
            return protocol.error_answer(problem, message.get("id"))

    def write(self, message: Message | None) -> None:
        """Send a message, whole."""
        rest = b"" if message is None else protocol.encoded(message)
        if self._calls is None:
            _write(self._sink, rest)
            return
        with self._calls.lock:
            _write(self._sink, rest)


def _write(sink: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(sink, data) :]
    except OSError:
        # The client reads no more; standard input will say that it is gone.
        return


def _stop(number: int, frame: FrameType | None) -> None:
    raise _Stopped


def _take_streams() -> tuple[int, int]:
    """Take standard input and output, so that nothing else reads or writes the messages."""
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    return source, sink
