"""The server as a process, and clients that speak to it, for the benchmarks.

    python bench/served.py pairs PORT TOKEN CLIENTS
    python bench/served.py library REPOSITORY OWNER
    python bench/served.py write REPOSITORY SECONDS EVENTS
    python bench/served.py spread REPOSITORY SECONDS EVENTS

`pairs`: so many clients claim and complete steps until none is left. `library`: one process does
the same on the file, once it gets a line. Both do one pair before, which is not timed: the first
loads modules. `write`: claim and give back one step, so many events a second. `spread`: hold
every step, and tick and untick their tasks by turns.
"""

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import claims

import tugtool
from tugtool import state
from tugtool.state.claims import Request
from tugtool.store import open_store

#: No limit of the settings counts here.
SETTINGS = """\
[serve]
port = 0
batch = {batch}
writes_per_second = 1000000
max_streams = 10000
max_streams_per_token = 10000
"""
#: Runs a change of the server first: what a self-test plants.
PLANTED = "import sys\n{change}\nfrom tugtool.cli.main import main\nsys.exit(main(sys.argv[1:]))"


class Served:
    """`tugcode serve` for one repository."""

    def __init__(self, path: Path, *, batch: int = 64, change: str = "") -> None:
        (path / ".tugtool" / "config.toml").write_text(SETTINGS.format(batch=batch))
        raise_limit()
        program = ["-c", PLANTED.format(change=change)] if change else ["-m", "tugtool"]
        source = str(Path(tugtool.__file__).parents[1])
        self.process = subprocess.Popen(
            [sys.executable, *program, "-C", str(path), "serve", "--json"],
            env={**os.environ, "PYTHONPATH": source},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        data = json.loads(self.process.stdout.readline())["data"]
        address, _, self.token = data["url"].partition("#t=")
        self.port = int(address.rstrip("/").rpartition(":")[2])

    def __enter__(self) -> "Served":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def stop(self, most: float) -> float:
        """Send SIGTERM. Return the seconds until it has ended, at most so many."""
        begun = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(most)
        except subprocess.TimeoutExpired:
            return most
        return time.monotonic() - begun

    def cpu(self) -> float:
        """Return its processor time in seconds."""
        return sum(map(int, self._stat()[11:13])) / os.sysconf("SC_CLK_TCK")

    def resident(self) -> float:
        """Return its memory in kilobytes."""
        return int(self._stat()[21]) * os.sysconf("SC_PAGE_SIZE") / 1024

    def _stat(self) -> list[str]:
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(") ")[2].split()

    def run(self, *words: object) -> str:
        """Run one of the commands of this file against it. Return what it prints."""
        argv = [sys.executable, __file__, *map(str, words)]
        return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout


def raise_limit() -> None:
    """Let this process and its children open as many sockets as the system allows."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Client(asyncio.Protocol):
    """One connection, kept open. It does as little as it can: it shares the processors."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._came = port, b""
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[bytes] = self._loop.create_future()
        self._transport: asyncio.Transport
        about = f" HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
        self._get = f"{about}Accept-Encoding: gzip\r\n\r\n".encode()
        self._post = f"{about}Content-Type: application/json\r\nContent-Length: ".encode()

    async def open(self) -> None:
        found = await self._loop.create_connection(lambda: self, "127.0.0.1", self._port)
        self._transport = found[0]

    def close(self) -> None:
        self._transport.close()

    def ask(self, path: str, body: object = None) -> asyncio.Future[bytes]:
        """Send a request. The body of its answer comes; what is shown comes compressed."""
        place = b" /api/v1/" + path.encode()
        if body is None:
            self._transport.write(b"GET" + place + self._get)
        else:
            data = json.dumps(body).encode()
            head = b"POST" + place + self._post + str(len(data)).encode()
            self._transport.write(head + b"\r\n\r\n" + data)
        self._answer = self._loop.create_future()
        return self._answer

    def data_received(self, data: bytes) -> None:
        self._came += data
        head, mark, body = self._came.partition(b"\r\n\r\n")
        if not mark:
            return
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return
        self._came = b""
        if b" 200 " in head[:20]:
            self._answer.set_result(body)
        else:
            self._answer.set_exception(AssertionError(head + body))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._answer.done():
            self._answer.set_exception(exc or ConnectionError("the server closed the connection"))


async def _pairs(port: int, token: str, clients: int) -> dict[str, Any]:
    waits: list[float] = []
    done: list[str] = []
    every = [Client(port, token) for _ in range(clients)]
    for each in every:
        await each.open()

    async def timed(client: Client, path: str, body: object) -> Any:
        begun = time.perf_counter()
        answer = await client.ask(path, body)
        waits.append(time.perf_counter() - begun)
        return json.loads(answer)["data"]

    async def pair(number: int, worktree: str) -> bool:
        client = every[number]
        claim = await timed(client, "state/claim", {"plan": "bench", "worktree": worktree})
        if claim["claimed"]:
            step = {"plan": "bench", "step": claim["anchor"], "worktree": worktree}
            await timed(client, "state/complete", {**step, "force": "measured"})
            done.append(claim["anchor"])
        return bool(claim["claimed"])

    async def work(number: int) -> None:
        while await pair(number, f"w{number}"):
            pass

    await pair(0, "first")
    waits.clear()
    done.clear()
    begun = time.perf_counter()
    await asyncio.gather(*map(work, range(clients)))
    seconds = time.perf_counter() - begun
    assert len(done) == len(set(done)), "a step was done twice"
    waits.sort()
    p99 = waits[int(len(waits) * 0.99)] * 1000
    return {"pairs": len(done), "per_second": len(done) / seconds, "p99_ms": p99}


def library(path: str, owner: str) -> int:
    """Claim and complete on the file until no step is left; return how many."""
    store, copy = open_store(f"sqlite://{path}/.tugtool/state.db"), claims.copy_of(path)

    def pair() -> bool:
        claim = state.claim(store, claims.PLAN, Request(owner), copy=copy)
        if claim["claimed"]:
            by = {"owner": owner, "copy": copy}
            state.complete(store, claims.PLAN, claim["anchor"], **by, force_reason="measured")
        return bool(claim["claimed"])

    pair()
    print("ready", flush=True)
    sys.stdin.readline()
    count = 0
    while pair():
        count += 1
    store.close()
    return count


def write(path: str, seconds: float, events: float) -> dict[str, Any]:
    """Claim and give back a step; return the events, and what a pair took."""
    store, copy = open_store(f"sqlite://{path}/.tugtool/state.db"), claims.copy_of(path)
    begun, count, wall, cpu = time.monotonic(), 0, [], []
    while time.monotonic() < begun + seconds:
        before, spent = time.perf_counter(), time.process_time()
        state.claim(store, claims.PLAN, Request("one", max_attempts=10**9), copy=copy)
        state.release(store, claims.PLAN, "step-0", owner="one")
        wall.append(time.perf_counter() - before)
        cpu.append(time.process_time() - spent)
        count += 2
        # The load itself: so many events a second.
        time.sleep(max(0.0, begun + count / events - time.monotonic()))
    store.close()
    return {"events": count, "wall": sorted(wall), "cpu": sorted(cpu)}


def spread(path: str, seconds: float, events: float) -> dict[str, Any]:
    """Hold every step that is ready, and tick and untick their first tasks; return the events."""
    store, copy = open_store(f"sqlite://{path}/.tugtool/state.db"), claims.copy_of(path)
    claims.unsynced(store)
    by = {"owner": "one", "copy": copy}
    for step in state.ready(store, claims.PLAN)["ready_steps"]:
        request = Request("one", also=True, lease_seconds=10**6)
        state.claim(store, claims.PLAN, request, copy=copy, step=step)
    steps = state.ready(store, claims.PLAN)["claimed_steps"]
    begun, count = time.monotonic(), 0
    while time.monotonic() < begun + seconds:
        status = ("completed", "open")[count // len(steps) % 2]
        entries = [{"kind": "task", "ordinal": 0, "status": status}]
        state.update(store, claims.PLAN, steps[count % len(steps)], entries, **by)
        count += 1
        # The load itself, here too.
        time.sleep(max(0.0, begun + count / events - time.monotonic()))
    store.close()
    return {"events": count}


def main() -> int:
    match sys.argv[1:]:
        case ["pairs", port, token, clients]:
            print(json.dumps(asyncio.run(_pairs(int(port), token, int(clients)))))
        case ["library", path, owner]:
            print(library(path, owner))
        case ["write", path, seconds, events]:
            print(json.dumps(write(path, float(seconds), float(events))))
        case ["spread", path, seconds, events]:
            print(json.dumps(spread(path, float(seconds), float(events))))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
