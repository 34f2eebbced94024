"""A watcher of the live messages, which keeps what it was told and knows no rule of its own."""

import json
from collections.abc import Iterator

from websockets.sync.client import ClientConnection, connect

#: The lists whose objects come one by one, and what identifies an object.
KEYS = {
    "steps": ("anchor",),
    "checklist_items": ("step_anchor", "kind", "ordinal"),
    "plans": ("plan_path",),
    "dashes": ("name",),
    "worktrees": ("path",),
}
#: What changes with the clock alone.
RUNNING = ("as_of", "elapsed_seconds")


class Mirror:
    """The topics as the messages leave them, and the events."""

    def __init__(self, *topics: str) -> None:
        self.asked = topics
        self.epoch = ""
        self.topics: dict[str, dict] = {}
        self.seqs: dict[str, int] = {}
        self.events: list[dict] = []
        self.collapsed = 0
        self.kinds: list[str] = []
        self.resets: list[tuple[str, str]] = []
        #: Where to go on from; None before all that was missed is there.
        self.since: int | None = None
        self._settled = False

    @property
    def query(self) -> str:
        """The query with which to come (back)."""
        topics = f"topics={','.join(self.asked)}"
        whole = all(each in self.topics for each in self.asked if not each.startswith("events"))
        known = self.since is not None and whole
        return f"{topics}&since={self.epoch}.{self.since}" if known else topics

    def take(self, text: str) -> str:
        """Apply one message; return its kind."""
        said = json.loads(text)
        kind = said["type"]
        self.kinds.append(kind)
        getattr(self, f"_{kind}", lambda _: None)(said)
        return kind

    def _hello(self, said: dict) -> None:
        if said["epoch"] != self.epoch:
            self.since = None
        self.epoch, self._settled = said["epoch"], False

    def _snapshot(self, said: dict) -> None:
        self.topics[said["topic"]] = said["data"]
        self.seqs[said["topic"]] = said["seq"]

    def _reset(self, said: dict) -> None:
        self.resets.append((said["topic"], said["reason"]))
        self._settled = False
        if said["topic"].startswith("events"):
            self.forget_events()

    def forget_events(self) -> None:
        """Begin to collect anew."""
        self.events.clear()
        self.collapsed = 0

    def _delta(self, said: dict) -> None:
        data = self.topics[said["topic"]] = {**self.topics[said["topic"]]}
        for name, objects in said["set"].items():
            if name in KEYS:
                data[name] = _replaced(data[name], objects, KEYS[name])
            else:
                data |= objects
        for name, keys in said["gone"].items():
            data[name] = [e for e in data[name] if [e[k] for k in KEYS[name]] not in keys]
        self.seqs[said["topic"]] = said["seq"]
        self._go_on(said)

    def _events(self, said: dict) -> None:
        last = self.events[-1]["seq"] if self.events else 0
        # Before the ping it may be told again what it was told before the connection was lost.
        self.events += [e for e in said["events"] if self._settled or e["seq"] > last]
        self.collapsed += said["collapsed"]
        self._go_on(said)

    def _ping(self, said: dict) -> None:
        self._settled = True
        self._go_on(said)

    def _go_on(self, said: dict) -> None:
        if self._settled:
            self.since = said["seq"]


def _replaced(old: list[dict], new: list[dict], key: tuple[str, ...]) -> list[dict]:
    by_key = {tuple(each[name] for name in key): each for each in (*old, *new)}
    return list(by_key.values())


def steady(data: dict) -> dict:
    """The data without what changes with the clock alone."""
    return {name: value for name, value in data.items() if name not in RUNNING}


def socket(host: str, port: int, token: str, query: str) -> ClientConnection:
    """A WebSocket of a real server."""
    return connect(
        f"ws://{host}:{port}/api/v1/live?{query}",
        subprotocols=["tug.v1", f"tug.bearer.{token}"],
        compression=None,
        max_size=None,
        proxy=None,
    )


def frames(body: str) -> Iterator[tuple[str, str]]:
    """The id and the data of each event in a stream."""
    for part in body.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in part.splitlines())
        if "data" in fields:
            yield fields.get("id", ""), fields["data"]
