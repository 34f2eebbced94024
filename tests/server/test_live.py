"""Live: a snapshot, then what changed, over WebSocket and as a stream; and where to go on."""

import json
import socket as sockets

import pytest
from websockets.exceptions import ConnectionClosed

from support import live
from support.live import Mirror, steady
from support.server import Process
from support.state import KEY

PLAN = f"plan:{KEY}"


@pytest.fixture
def there(desk):
    """A repository with a plan, and its server."""
    there = desk("1 tt", "2 t < 1", "3 t")
    with Process(there.repo.path) as server:
        yield there, server


def joined(server: Process, mirror: Mirror):
    return live.socket(server.host, server.port, server.token, mirror.query)


def until(connection, mirror: Mirror, done) -> None:
    """Take messages until the mirror shows what is waited for."""
    while not done():
        mirror.take(connection.recv(timeout=60))


def test_a_watcher_has_what_show_has_and_goes_on_where_it_stopped(there):
    desk, server = there
    mirror = Mirror(PLAN, "events", "overview", "review")
    with joined(server, mirror) as connection:
        assert connection.subprotocol == "tug.v1"
        until(connection, mirror, lambda: mirror.since is not None)
        assert mirror.kinds[0] == "hello"
        assert steady(mirror.topics[PLAN]) == steady(desk.ok("show", "work"))
        desk.ok("claim", "work")
        until(connection, mirror, lambda: mirror.topics[PLAN]["steps"][0]["claimed_by"])
    desk.ok("update", "work", "step-1", "--all", "completed")
    desk.ok("complete", "work", "step-1")
    before = len(mirror.kinds)
    with joined(server, mirror) as connection:
        until(connection, mirror, lambda: mirror.topics[PLAN]["completed_steps"] == 1)
        until(connection, mirror, lambda: mirror.topics["overview"]["plans"][0]["claims"] == [])
    assert steady(mirror.topics[PLAN]) == steady(desk.ok("show", "work"))
    # The dependent step is told too.
    assert mirror.topics[PLAN]["steps"][1]["waiting_for"] == []
    assert "snapshot" not in mirror.kinds[before:]
    assert mirror.resets == []
    events = desk.ok("log", "work")["events"]
    assert [e["seq"] for e in mirror.events] == [e["seq"] for e in events if e["kind"] != "init"]
    assert mirror.events[0]["words"] == "claimed by red (attempt 1)"


def test_topics_come_and_go_and_what_is_not_there_is_refused(there):
    desk, server = there
    mirror = Mirror()
    with joined(server, mirror) as connection:
        for topic in ("plan:nowhere", "plan", "star"):
            connection.send(json.dumps({"type": "watch", "topics": [topic]}))
            said = json.loads(connection.recv())
            while said["type"] in ("hello", "ping"):
                said = json.loads(connection.recv())
            assert (said["type"], said["topic"]) == ("refused", topic)
        connection.send("no JSON")
        connection.send(json.dumps({"type": "watch", "topics": [f"events:{KEY}", PLAN]}))
        until(connection, mirror, lambda: PLAN in mirror.topics)
        connection.send(json.dumps({"type": "unwatch", "topics": [PLAN]}))
        connection.send(json.dumps({"type": "watch", "topics": ["review"]}))
        until(connection, mirror, lambda: "review" in mirror.topics)
        desk.ok("claim", "work")
        until(connection, mirror, lambda: mirror.events)
    assert mirror.events[0]["kind"] == "claim"


def test_another_epoch_and_a_number_from_the_future_begin_again(there):
    _, server = there
    for since, reason in (("other.0", "restored"), (None, "behind")):
        mirror = Mirror("events")
        with joined(server, mirror) as connection:
            until(connection, mirror, lambda: mirror.since is not None)
        since = since or f"{mirror.epoch}.{mirror.since + 1}"
        with live.socket(
            server.host, server.port, server.token, f"topics=events&since={since}"
        ) as c:
            until(c, mirror, lambda: mirror.resets)
        assert mirror.resets == [("events", reason)]


def test_wrong_queries_are_refused(there):
    _, server = there
    for query in ("since=x", "topics=star"):
        with live.socket(server.host, server.port, server.token, query) as connection:
            assert json.loads(connection.recv())["type"] == "refused"
            with pytest.raises(ConnectionClosed):
                connection.recv()
            assert connection.close_code == 4003
        assert server.request("GET", f"/api/v1/live?{query}").code == "E070"


def streamed(
    server: Process, mirror: Mirror, query: str, **headers: str
) -> tuple[sockets.socket, str]:
    """Begin a stream; return its socket and its head."""
    made = server.connect()
    given = {"Host": f"{server.host}:{server.port}", "Authorization": f"Bearer {server.token}"}
    lines = [f"{name}: {value}" for name, value in {**given, **headers}.items()]
    made.sendall("\r\n".join([f"GET /api/v1/live?{query} HTTP/1.1", *lines, "", ""]).encode())
    return made, ""


def test_a_stream_has_the_same_messages_and_an_id_to_go_on_from(there):
    desk, server = there
    mirror, last = Mirror(PLAN, "events"), ""
    for turn in range(2):
        headers = {"Last-Event-ID": last} if last else {}
        made, body = streamed(server, mirror, mirror.query.partition("&")[0], **headers)
        desk.ok("claim", "work")
        with made:
            while '"kind": "claim"' not in body or not body.endswith("\n\n\r\n"):
                body += made.recv(65536).decode()
        assert "text/event-stream" in body
        text = "".join(body.partition("\r\n\r\n")[2].split("\r\n")[1::2])
        found = list(live.frames(text))
        for number, data in found:
            mirror.take(data)
            last = number or last
        assert last.rpartition(".")[0] == mirror.epoch
        assert len(mirror.events) == turn + 1
        desk.ok("release", "work", "step-1") if turn == 0 else None
        if turn == 0:
            mirror.events.append({"seq": mirror.events[-1]["seq"] + 1})
            mirror.events.pop()


def test_a_server_that_stops_says_so(there):
    _, server = there
    mirror = Mirror("events")
    with joined(server, mirror) as connection:
        until(connection, mirror, lambda: mirror.since is not None)
        server.running.terminate()
        until(connection, mirror, lambda: mirror.kinds[-1] == "bye")
        with pytest.raises(ConnectionClosed):
            connection.recv(timeout=60)
        assert connection.close_code == 1012
    assert server.end()[0] == 0
