"""The client of a server: what it makes of answers, good and broken, over real connections."""

import contextlib
import json
import os
import socket
import threading

import pytest

from tugtool.errors import TugError
from tugtool.errors.server import NoToken, ServerUnreachable, TooMany
from tugtool.state import operations
from tugtool.store import owners
from tugtool.store.remote import RemoteStore
from tugtool.system import process

MACHINE = owners.Machine("m", "m")
ONE = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n" + b'{"value": 1}'
TWO = ONE.replace(b"1}", b"2}")


def refused(status: int, code: str) -> bytes:
    body = b'{"issues": [{"code": "%b", "message": "no", "facts": {}}]}' % code.encode()
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


class Script:
    """A server that answers with these bytes, one after the other, and the last for ever.

    After an answer that is not whole it closes the connection.
    """

    def __init__(self, *answers: bytes, unix: str = "") -> None:
        self._answers, self.bodies = list(answers), []
        self._links: list[socket.socket] = []
        family = socket.AF_UNIX if unix else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.bind(unix or ("127.0.0.1", 0))
        self._socket.listen()
        self.url = f"http+unix://{unix}" if unix else f"http://localhost:{self.port}"
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def asked(self) -> int:
        return len(self.bodies)

    @property
    def port(self) -> int:
        return self._socket.getsockname()[1]

    def store(self, busy_seconds: float = 0) -> RemoteStore:
        return RemoteStore(f"{self.url}#t=tug_x", machine=MACHINE, busy_seconds=busy_seconds)

    def _run(self) -> None:
        while True:
            try:
                made, _ = self._socket.accept()
            except OSError:
                return
            self._links.append(made)
            with made:
                while self._is_asked(made):
                    answer = self._answers[0]
                    self._answers = self._answers[1:] or self._answers
                    made.sendall(answer)
                    if not answer.endswith((b"}", b"0\r\nX: y\r\n\r\n")):
                        break

    def _is_asked(self, made: socket.socket) -> bool:
        request = b""
        while not request.endswith(b"}"):
            part = made.recv(65536)
            request += part
            if not part:
                return False
        self.bodies.append(request.partition(b"\r\n\r\n")[2])
        return True

    def close(self) -> None:
        for each in (self._socket, *self._links):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()


@pytest.fixture
def script():
    made: list[Script] = []

    def make(*answers: bytes, **how: str) -> Script:
        made.append(Script(*answers, **how))
        return made[-1]

    yield make
    for each in made:
        each.close()


CHUNKS = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b'5;x=y\r\n{"val\r\n7\r\nue": 1}\r\n0\r\nX: y\r\n\r\n'
)


@pytest.mark.parametrize("answer", [ONE, CHUNKS])
def test_an_answer_is_read(script, answer):
    store = script(answer, ONE).store()
    assert [store.ask("store/exists", {}), store.ask("store/exists", {})] == [1, 1]
    store.close()
    store.close()


@pytest.mark.parametrize(
    "first",
    [
        b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 5\r\n\r\n<bad>",
        refused(429, "E104"),
        b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{",
        b"",
    ],
)
def test_what_passes_is_tried_again(script, first):
    there = script(first, TWO)
    assert there.store(busy_seconds=60).ask("store/exists", {}) == 2
    assert there.asked == 2


BROKEN = {
    "the answer is not http": [b"What?\r\n\r\n", b"HTTP/1.1 OK\r\n\r\n", b"HTTP/1.1\r\n\r\n"],
    "the answer's head is too long": [b"x" * 70_000],
    "does not say how long it is": [b"HTTP/1.1 200 OK\r\n\r\n"],
    "closed before the answer was complete": [CHUNKS[:60], ONE[:20]],
    "answers with the http status 503": [b"HTTP/1.1 503 X\r\nContent-Length: 3\r\n\r\nno!"],
    "and not as tugcode serve does": [
        ONE.replace(b'{"value": 1}', b"[1, 2, 3, 4}"),
        ONE.replace(b'{"value": 1}', b'["value",1 ]'),
    ],
}
BROKEN["the answer is not http"].append(CHUNKS.replace(b"7\r\n", b"q\r\n"))


@pytest.mark.parametrize(
    ("problem", "answer"), [(said, each) for said, every in BROKEN.items() for each in every]
)
def test_what_is_no_answer_of_ours_is_refused(script, problem, answer):
    with pytest.raises(ServerUnreachable) as caught:
        script(answer).store().ask("store/exists", {})
    assert problem in caught.value.message.lower()
    assert "may have been done" not in caught.value.message


@pytest.mark.parametrize(
    ("status", "code", "kind", "hint"),
    [
        (401, "E100", NoToken, "TUGCODE_TOKEN"),
        (429, "E104", TooMany, ""),
        (503, "E999", TugError, ""),
    ],
)
def test_refusals_keep_their_code(script, status, code, kind, hint):
    with pytest.raises(kind) as caught:
        script(refused(status, code)).store().ask("store/exists", {})
    assert caught.value.code == code
    assert hint in str(caught.value.hint)


def test_nobody_there_is_told_at_once(script):
    there = script(ONE)
    store = there.store()
    there.close()
    with pytest.raises(ServerUnreachable, match="refused"):
        store.ask("store/create", {}, writes=True)


def test_a_write_whose_answer_is_lost_is_asked_for_longer_than_others(script):
    there = script(b"", b"", b"", TWO)
    with pytest.raises(ServerUnreachable):
        there.store().ask("store/exists", {})
    assert there.store().ask("store/create", {}, writes=True) == 2
    assert there.asked >= 3


def test_the_server_makes_the_record_and_says_what_was_lost(script):
    none, lost = b'{"value": null}', b'{"value": {"x": 1}}'
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
    store = script(*(head % len(each) + each for each in (none, lost))).store()
    assert [store.create(), store.create()] == [None, {"x": 1}]


def test_a_socket_of_this_machine_is_used(script, tmp_path):
    assert script(ONE, unix=str(tmp_path / "s")).store().ask("store/exists", {}) == 1


def test_a_name_without_a_server_is_told():
    store = RemoteStore("http://127.0.0.1:1", machine=MACHINE, busy_seconds=0)
    with pytest.raises(ServerUnreachable, match="refused"):
        store.exists()


def test_transactions_are_the_server_s(script):
    store = script(ONE).store()
    for begin in (store.read, store.write):
        with pytest.raises(AssertionError, match="not an operation"):
            begin("plan")
    with store.group():
        assert store.exists()


def test_changes_are_counted_by_the_server(script):
    same = ONE.replace(b" 1}", b' "a"}').replace(b"12", b"14")
    other = same.replace(b'"a"', b'"b"')
    there = script(same, same, other, other)
    store = there.store()
    assert not store.wait_for_change(0)
    # It is looked at from memory for a moment.
    assert not store.wait_for_change(0)
    assert there.asked == 1
    assert store.wait_for_change(60)
    assert there.asked == 3
    assert not store.wait_for_change(0.1)
    assert there.asked > 3


def test_a_server_may_ask_about_a_process_of_the_client(script):
    parent = process.process(os.getppid())
    told = json.dumps([parent]).encode()

    def asks(which: str) -> bytes:
        body = b'{"ask": ["%b", %b]}' % (which.encode(), told)
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)

    done = ONE.replace(b"value", b"answer").replace(b"12", b"13")
    there = script(asks("running"), asks("is_gone"), done)
    assert operations._asked(there.store(), "leases/standing", [], {}, writes=False) == 1
    running, gone = (json.loads(each)["answers"][-1] for each in there.bodies[1:])
    assert running == ["running", [parent], os.getppid()]
    assert gone == ["is_gone", [parent], False]
