"""A connection: what is read without h11 is read as h11 reads it, and answered in its order."""

import json
import re

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.proving import examined
from support.server import Process, parsed, received
from tugtool.server.connection import PlainRequest, read_plain

BODY = b'{"plan": "work"}'
PLAIN = (
    b"POST /api/v1/state/claim?x=%41 HTTP/1.1\r\nHost: h:1\r\nAuthorization: Bearer tug_x\r\n"
    b"Content-Type: application/json\r\nContent-Length: 16\r\n\r\n" + BODY
)
#: Requests that could be read in two ways, or are not whole: they are left to h11.
ODD = {
    "no host": PLAIN.replace(b"Host: h:1\r\n", b""),
    "two hosts": PLAIN.replace(b"Host: h:1\r\n", b"Host: h:1\r\nhost: i\r\n"),
    "two lengths": PLAIN.replace(b"\r\n\r\n", b"\r\nContent-Length: 16\r\n\r\n"),
    "a length that is too small": PLAIN.replace(b": 16", b": 15"),
    "a length that is too large": PLAIN.replace(b": 16", b": 17"),
    "a length with a sign": PLAIN.replace(b": 16", b": +16"),
    "a length of other digits": PLAIN.replace(b": 16", ": ١٦".encode()),
    "two values of length": PLAIN.replace(b": 16", b": 16, 16"),
    "no length": PLAIN.replace(b"Content-Length: 16\r\n", b""),
    "chunks": PLAIN.replace(b"Content-Length: 16", b"Transfer-Encoding: chunked"),
    "both": PLAIN.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "a wish to be told to go on": PLAIN.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"),
    "an upgrade": PLAIN.replace(b"\r\n\r\n", b"\r\nUpgrade: websocket\r\n\r\n"),
    "another connection": PLAIN.replace(b"\r\n\r\n", b"\r\nConnection: close, x\r\n\r\n"),
    "two connections": PLAIN.replace(
        b"\r\n\r\n", b"\r\nConnection: close\r\nConnection: close\r\n\r\n"
    ),
    "HTTP 1.0": PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0"),
    "another method": PLAIN.replace(b"POST", b"PUT"),
    "an encoded path": PLAIN.replace(b"claim", b"cl%61im"),
    "a path with dots": PLAIN.replace(b"claim", b"../claim"),
    "another path": PLAIN.replace(b"/api/v1", b"/api/v2"),
    "a whole address": PLAIN.replace(b"POST /", b"POST http://h:1/"),
    "a folded line": PLAIN.replace(b"h:1\r\n", b"h:1\r\n and more\r\n"),
    "no space": PLAIN.replace(b"Host: ", b"Host:"),
    "a space before the colon": PLAIN.replace(b"Host:", b"Host :"),
    "a tab": PLAIN.replace(b"Host: h", b"Host: \th"),
    "a space at the end": PLAIN.replace(b"h:1", b"h:1 "),
    "no value": PLAIN.replace(b"h:1", b""),
    "a value beyond ASCII": PLAIN.replace(b"tug_x", b"tug_\xff"),
    "NUL": PLAIN.replace(b"tug_x", b"tug_\0"),
    "a bare line feed": PLAIN.replace(b"h:1\r\n", b"h:1\n"),
    "a bare carriage return": PLAIN.replace(b"tug_x", b"tug\rx"),
    "half a head": PLAIN.partition(b"\r\n\r\n")[0],
    "half a body": PLAIN[:-1],
    "two requests": PLAIN + PLAIN,
    "a long head": PLAIN.replace(b"tug_x", b"x" * 20_000),
    "a stream": PLAIN.replace(b"state/claim", b"live"),
    "nothing": b"",
}


def by_h11(data: bytes) -> PlainRequest | None:
    """The same by h11, if the bytes are one request that it takes, and no more."""
    connection = h11.Connection(h11.SERVER, 16384)
    connection.receive_data(data)
    try:
        events = [connection.next_event()]
        while events[-1] not in (h11.NEED_DATA, h11.PAUSED):
            events.append(connection.next_event())
    except h11.RemoteProtocolError:
        return None
    whole = any(type(each) is h11.EndOfMessage for each in events)
    if not whole or connection.trailing_data[0]:
        return None
    path, _, query = events[0].target.partition(b"?")
    headers = [(name.lower(), value) for name, value in events[0].headers]
    parts = [each.data for each in events if type(each) is h11.Data]
    return PlainRequest(events[0].method, path, query, headers, b"".join(parts))


def test_a_plain_request_is_read():
    assert read_plain(PLAIN) == by_h11(PLAIN)
    assert read_plain(PLAIN).path == b"/api/v1/state/claim"
    looking = b"GET /api/v1/status HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    assert read_plain(looking) == by_h11(looking) != None  # noqa: E711 (three are equal)


@pytest.mark.parametrize("name", ODD)
def test_what_could_be_read_in_two_ways_is_left_to_h11(name):
    assert read_plain(ODD[name]) is None


PIECES = st.sampled_from(
    [
        *(b"GET ", b"POST ", b"/api/v1/state/show", b"?plan=work", b" HTTP/1.1", b"\r\n", b"\n"),
        *(b"Host: h", b"host: i", b"Content-Length: 0", b"Content-Length: 2", b"content-length:2"),
        *(b"Transfer-Encoding: chunked", b"X: y", b"X:\ty", b"X: y z ", b" folded", b"\r\n\r\n"),
        *(
            b"{}",
            b"0\r\n\r\n",
            b"\0",
            b"\xff",
            b": ",
            b"Connection: close",
            b"Expect: 100-continue",
        ),
    ]
)
WHOLE = st.tuples(st.sampled_from([b"GET", b"POST"]), st.lists(PIECES, max_size=4)).map(
    lambda parts: (
        parts[0] + b" /api/v1/status HTTP/1.1\r\nHost: h\r\n" + b"\r\n".join(parts[1]) + b"\r\n\r\n"
    )
)


@examined(400)
@given(st.one_of(WHOLE, st.lists(PIECES, max_size=12).map(b"".join)))
def test_no_request_is_read_otherwise_than_by_h11(data):
    found = read_plain(data)
    assert found is None or found == by_h11(data)


def said(server: Process, body: bytes = BODY, *more: bytes, path: bytes = b"state/claim") -> bytes:
    """A request that is read without h11, unless `more` has a reason."""
    lines = [
        b"POST /api/v1/%b HTTP/1.1" % path,
        b"Host: 127.0.0.1:%d" % server.port,
        b"Authorization: Bearer %b" % server.token.encode(),
        b"Content-Type: application/json",
        b"Content-Length: %d" % len(body),
        *more,
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def claim(worktree: str) -> bytes:
    return json.dumps({"plan": "work", "worktree": worktree}).encode()


@pytest.fixture
def server(desk):
    with Process(desk("1 t", "2 t", "3 t", "4 t").repo.path) as made:
        yield made


def heads(answer: bytes) -> list[str]:
    """The names of all headers."""
    return sorted(re.findall(r"^([a-z-]+): ", answer.decode().lower(), re.MULTILINE))


def test_an_answer_has_what_an_answer_by_h11_has(server):
    last = b"Connection: close"
    plain = server.raw(said(server, claim("a"), last))
    slow = server.raw(said(server, claim("b"), b"X: \t", last))
    assert heads(plain) == heads(slow)
    assert [parsed(each).data["anchor"] for each in (plain, slow)] == ["step-1", "step-2"]
    assert parsed(plain).headers["connection"] == "close"
    refused = [server.raw(said(server, b"[]", *odd, last)) for odd in ((), (b"X: \t",))]
    assert heads(refused[0]) == heads(refused[1])
    assert [parsed(each).status for each in refused] == [400, 400]


@pytest.mark.parametrize("path", ["/healthz", "/metrics", "/api/v1/version", "/"])
def test_an_answer_to_head_is_that_to_get_without_its_body(server, path):
    told = {}
    for method in ("HEAD", "GET"):
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        head += f"Authorization: Bearer {server.token}\r\nConnection: close\r\n\r\n"
        told[method] = parsed(server.raw(head.encode()))
    assert (told["HEAD"].status, told["HEAD"].body) == (200, b"")
    assert told["GET"].body
    kept = ("content-type", "etag", "cache-control", "tug-exit-status")
    for name in kept if path == "/metrics" else (*kept, "content-length"):
        assert told["HEAD"].headers.get(name) == told["GET"].headers.get(name)


def test_requests_that_come_together_are_answered_in_their_order(server):
    odd = (b"X: \t",)
    for together in (
        [said(server, claim("a")), said(server, claim("b"), *odd)],
        [said(server, claim("c")), said(server, claim("d"), b"Connection: close")],
    ):
        with server.connect() as made:
            for each in together:
                made.sendall(each)
            anchors = re.findall(rb'"anchor": "(step-\d)"', taken(made, 2))
        assert len(anchors) == len(set(anchors)) == 2
        assert anchors == sorted(anchors)


def taken(made, answers: int) -> bytes:
    """What comes until so many answers are there."""
    found = b""
    while found.count(b'"schema_version"') < answers or not found.endswith(b"}\n"):
        part = made.recv(65536)
        assert part, found
        found += part
    return found


def test_a_request_in_parts_and_a_whole_one_share_a_connection(server):
    with server.connect() as made:
        for body, size in ((claim("a"), 10_000), (claim("b"), 37), (claim("c"), 10_000)):
            whole = said(server, body)
            for at in range(0, len(whole), size):
                made.sendall(whole[at : at + size])
            assert taken(made, 1).startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_refused_request_ends_its_connection(server):
    with server.connect() as made:
        made.sendall(said(server, b"[]"))
        assert parsed(received(made)).status == 400


def test_a_connection_that_is_not_used_is_closed(server):
    with server.connect() as made:
        made.sendall(said(server, claim("a")))
        assert parsed(received(made)).status == 200
