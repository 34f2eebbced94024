"""Live: a snapshot, then what changed, over WebSocket and as a stream; and where to go on."""

import asyncio
import json
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from support import live
from support.live import Mirror, steady
from support.server import Process
from support.state import KEY
from tugtool import state
from tugtool.server.hub import Hub, collapsed
from tugtool.server.tokens import Caller, Tokens
from tugtool.server.watcher import MOST_WAITING, SLOW
from tugtool.store import open_store
from tugtool.system import clock
from tugtool.workflow.workspace import Workspace

PLAN = f"plan:{KEY}"
END_OF_BODY = "\r\n0\r\n\r\n"


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
    mirror = Mirror(PLAN, "plan:work", "events", "overview", "review")
    with joined(server, mirror) as connection:
        assert connection.subprotocol == "tug.v1"
        until(connection, mirror, lambda: mirror.since is not None)
        assert mirror.kinds[0] == "hello"
        shown = steady(desk.ok("show", "work"))
        assert steady(mirror.topics[PLAN]) == steady(mirror.topics["plan:work"]) == shown
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
        said = json.loads(connection.recv())
        while said["type"] == "ping":
            said = json.loads(connection.recv())
        assert (said["type"], said["code"]) == ("refused", "E070")
        assert '{"type": "watch", "topics": ["overview"]}' in said["message"]
        connection.send(json.dumps({"type": "watch", "topics": [f"events:{KEY}", PLAN]}))
        until(connection, mirror, lambda: PLAN in mirror.topics)
        connection.send(json.dumps({"type": "unwatch", "topics": [PLAN]}))
        connection.send(json.dumps({"type": "watch", "topics": ["review"]}))
        until(connection, mirror, lambda: "review" in mirror.topics)
        desk.ok("claim", "work")
        until(connection, mirror, lambda: mirror.events)
    assert mirror.events[0]["kind"] == "claim"


def begun_again(server: Process, since: str) -> Mirror:
    """What is told to a watcher who wants to go on from there."""
    mirror = Mirror("events")
    query = f"topics=events&since={since}"
    with live.socket(server.host, server.port, server.token, query) as connection:
        until(connection, mirror, lambda: mirror.resets)
    return mirror


def test_what_cannot_be_gone_on_from_begins_again_and_wrong_queries_are_refused(there):
    _, server = there
    mirror = begun_again(server, "other.0")
    assert mirror.resets == [("events", "restored")]
    mirror = begun_again(server, f"{mirror.epoch}.999")
    assert mirror.resets == [("events", "behind")]
    for query in ("since=x", "topics=star"):
        with live.socket(server.host, server.port, server.token, query) as connection:
            assert json.loads(connection.recv())["type"] == "refused"
            with pytest.raises(ConnectionClosed):
                connection.recv()
            assert connection.close_code == 4003
        assert server.request("GET", f"/api/v1/live?{query}").code == "E070"


def test_a_watcher_that_does_not_read_is_reset_and_then_left(desk):
    space = Workspace(str(desk("1 t").repo.path))

    async def slow() -> tuple[list[str], int | None]:
        hub = Hub(space)
        watcher = await hub.join(Caller("", "viewer"), ["events", PLAN], None)
        for _ in range(2 * MOST_WAITING):
            watcher.push("x" * 10)
        told = [await watcher.next()]
        while PLAN not in told[-1][-1] and len(told) < 9:
            told.append(await watcher.next())
        for _ in range(3 * MOST_WAITING):
            watcher.push("x")
        hub.leave(watcher)
        hub.end()
        return [said for each in told for said in each], watcher.ends

    told, ends = asyncio.run(slow())
    assert json.loads(told[0]) == {"type": "reset", "topic": "events", "reason": "slow"}
    assert ends == SLOW


def test_a_topic_that_nobody_watched_for_a_minute_begins_anew(desk, monkeypatch):
    space = Workspace(str(desk("1 t").repo.path))
    passed, ticks = [0.0], clock.ticks
    monkeypatch.setattr(clock, "ticks", lambda: ticks() + passed[0])

    async def seen(hub: Hub) -> list[str]:
        mirror = Mirror("overview", "review", PLAN)
        watcher = await hub.join(Caller("", "viewer"), mirror.asked, None)
        while mirror.topics.keys() != {*mirror.asked}:
            mirror.take((await watcher.next())[-1])
        hub.leave(watcher)
        return mirror.kinds

    async def come_and_go() -> list[list[str]]:
        hub = Hub(space)
        told = [await asyncio.wait_for(seen(hub), 60)]
        passed[0] += 62
        told.append(await asyncio.wait_for(seen(hub), 60))
        hub.end()
        return told

    first, second = asyncio.run(come_and_go())
    assert first == second == ["hello", "snapshot", "snapshot", "snapshot"]


def test_a_message_goes_out_at_once_only_if_none_waits_before_it(desk):
    space = Workspace(str(desk("1 t").repo.path))

    async def watched() -> list[str]:
        hub, told, takes = Hub(space), [], [False]
        watcher = await hub.join(Caller("", "viewer"), ["events"], None)

        async def pump() -> None:
            while found := await watcher.next():
                told.extend(found)

        def send_now(said: str) -> bool:
            told.extend([f"at once {said}"] * takes[0])
            return takes[0]

        watcher.send_now = send_now
        task = asyncio.ensure_future(pump())
        while not told or '"ping"' not in told[-1]:
            await asyncio.sleep(0)
        told.clear()
        # The connection does not take the first; so the second waits behind it.
        watcher.push("1")
        takes[0] = True
        watcher.push("2")
        watcher.push("of an old version", "events", -1)
        while told != ["1", "2"]:
            await asyncio.sleep(0)
        watcher.push("3")
        watcher.push("of an old version", "events", -1)
        watcher.end(1000, "so")
        watcher.push("4")
        await task
        hub.leave(watcher)
        hub.end()
        return told

    *told, bye, last = asyncio.run(watched())
    assert told == ["1", "2", "at once 3"]
    assert (json.loads(bye)["type"], last) == ("bye", "4")


def test_many_events_are_collapsed_to_what_matters():
    def event(seq: int, kind: str, step: str) -> dict:
        return {"seq": seq, "kind": kind, "plan_path": KEY, "step_anchor": step}

    kinds = ["claim", "heartbeat", "update", "update", "complete"]
    events = [event(seq, kind, "step-1") for seq, kind in enumerate(kinds)]
    new = [(each["seq"], KEY, "") for each in events]
    assert [seq for seq, *_ in collapsed(events, new)] == [0, 3, 4]


class Streamed:
    """The live messages as server-sent events."""

    def __init__(self, server: Process, query: str, **headers: str) -> None:
        self.made, self.body, self.last = server.connect(), "", headers.get("Last-Event-ID", "")
        given = {"Host": f"{server.host}:{server.port}", "Authorization": f"Bearer {server.token}"}
        lines = [f"{name}: {value}" for name, value in {**given, **headers}.items()]
        request = [f"GET /api/v1/live?{query} HTTP/1.1", *lines, "", ""]
        self.made.sendall("\r\n".join(request).encode())
        self._given = 0

    def recv(self, timeout: float) -> str:
        """The next message; the place to go on from is kept."""
        while True:
            chunks = self.body.partition("\r\n\r\n")[2].split("\r\n")
            found = list(live.frames("".join(chunks[1:-1:2])))
            if len(found) > self._given:
                self._given += 1
                self.last = found[self._given - 1][0] or self.last
                return found[self._given - 1][1]
            assert not self.body.endswith(END_OF_BODY), self.body[-500:]
            self.body += self.made.recv(65536).decode()

    def ended(self) -> bool:
        """Read to the end of the answer, or of the connection."""
        more = "."
        while more and not self.body.endswith(END_OF_BODY):
            more = self.made.recv(65536).decode()
            self.body += more
        return self.body.endswith(END_OF_BODY)


def test_a_stream_has_the_same_messages_and_an_id_to_go_on_from(there):
    desk, server = there
    mirror = Mirror(PLAN, "events")
    stream = Streamed(server, mirror.query)
    with stream.made:
        until(stream, mirror, lambda: mirror.since is not None)
        assert "text/event-stream" in stream.body
        desk.ok("claim", "work")
        until(stream, mirror, lambda: mirror.topics[PLAN]["steps"][0]["claimed_by"])
    assert stream.last == f"{mirror.epoch}.{mirror.since}"
    desk.ok("release", "work", "step-1")
    again = Streamed(server, mirror.query.partition("&")[0], **{"Last-Event-ID": stream.last})
    with again.made:
        until(again, mirror, lambda: not mirror.topics[PLAN]["steps"][0]["claimed_by"])
    assert [event["kind"] for event in mirror.events] == ["claim", "release"]
    assert mirror.resets == []


def test_the_streams_of_a_token_end_when_it_is_revoked(there):
    """And no event that comes after it is sent, whether the watcher reads or not."""
    desk, server = there
    tokens = Tokens(str(desk.repo.path / ".git" / "tugtool"))
    viewer = tokens.add("vera", "viewer")[0]
    ours, theirs, silent = Mirror("events"), Mirror("events"), Mirror("events")
    stream = Streamed(server, theirs.query, Authorization=f"Bearer {viewer}")
    with (
        joined(server, ours) as own,
        live.socket(server.host, server.port, viewer, silent.query) as other,
        stream.made,
    ):
        for connection, mirror in ((own, ours), (other, silent), (stream, theirs)):
            until(connection, mirror, lambda mirror=mirror: mirror.since is not None)
        assert tokens.revoke("vera")
        # Another one of the same name does not bring them back.
        tokens.add("vera", "viewer")
        desk.ok("claim", "work")
        until(own, ours, lambda: ours.events)
        until(stream, theirs, lambda: theirs.kinds[-1] == "bye")
        until(other, silent, lambda: silent.kinds[-1] == "bye")
        with pytest.raises(ConnectionClosed):
            other.recv(timeout=60)
        assert other.close_code == 4001
        assert stream.ended()
    assert (theirs.events, silent.events) == ([], [])


def test_the_streams_of_a_token_end_when_it_expires(desk, monkeypatch):
    space, now = Workspace(str(desk("1 t").repo.path)), [0.0]
    tokens = Tokens(space.copies)
    real = clock.system_milliseconds
    caller = tokens.find(tokens.add("vera", "viewer", expires="1m")[0])
    kept = Path(tokens.path).read_text()

    async def story() -> list[str]:
        hub = Hub(space, is_valid=tokens.is_valid)
        watcher = await hub.join(caller, ["events"], None)
        at_socket = await hub.join(Caller("", "operator", pid=1), ["events"], None)
        hub._end_invalid()
        assert watcher.ends is None
        Path(tokens.path).write_text("damaged")
        assert not tokens.is_valid(caller)
        Path(tokens.path).write_text(kept)
        now[0] = 61_000
        monkeypatch.setattr(clock, "system_milliseconds", lambda: real() + int(now[0]))
        # The hub looks by itself.
        while watcher.ends is None:
            await asyncio.sleep(0.01)
        assert hub.watchers == {at_socket}
        said = [each for _ in range(3) for each in await watcher.next()]
        hub.end()
        return [json.loads(each)["type"] for each in said]

    assert asyncio.run(story()) == ["bye"]


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


def test_a_restored_or_imported_record_has_another_epoch(desk, tmp_path):
    desk = desk("1 t")
    epochs = [state.epoch(Workspace(str(desk.repo.path)).open_store())]
    desk.ok("export", "--output", tmp_path / "all")
    desk.ok("claim", "work")
    assert epochs == [state.epoch(Workspace(str(desk.repo.path)).open_store())]
    desk.ok("restore", "--from", desk.repo.path / ".git" / "tugtool" / "backup.db")
    epochs.append(state.epoch(Workspace(str(desk.repo.path)).open_store()))
    other = open_store(f"sqlite://{tmp_path}/other.db")
    other.create()
    epochs.append(state.epoch(other))
    with open(tmp_path / "all", "rb") as source:
        state.import_(other, source)
    epochs.append(state.epoch(other))
    assert len(set(epochs)) == 4
