"""Operations on a state in PostgreSQL whose connection is lost: the answer and every row.

A scene is what lies there before an operation. After one lost connection, wherever it was lost,
the operation must answer what it answers undisturbed, and every row must be what it is then.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from pg_proxy import TO_CLIENT, TO_SERVER, Proxy

from support.state import Lab
from tugtool import state
from tugtool.plan import parser
from tugtool.store import open_store, schema
from tugtool.store.postgres import PostgresStore, create

LINES = ("1 tt", "1.1 t", "2 t < 1", "3 e")
OTHER = ".tugtool/tugplan-other.md"
_TABLES = [found[1] for each in schema.TABLES if (found := create._TABLE.search(each))]
#: Sequences do not roll back, so another try gets other numbers.
_NUMBER = re.compile(r'\\?"(id|artifact_id)\\?": ?\d+')


class Point(NamedTuple):
    """Which operation, in which direction, after how many bytes, and how many times."""

    scene: str
    direction: str
    at: int
    times: int = 1


class Wrong(AssertionError):
    """An answer or a row that is not as undisturbed."""


def _init(lab: Lab) -> dict:
    parsed = parser.parse(lab.text)
    return state.init(lab.store, OTHER, parsed, text=lab.text, hash=lab.hash)


def _held(lab: Lab) -> None:
    lab.claim()
    lab.artifact("step-1")


def _done(lab: Lab) -> None:
    lab.finish("step-1")


def _lapsed(lab: Lab) -> None:
    lab.claim("blue", lease_seconds=60)
    lab.clock.advance(61)


def _nothing(lab: Lab) -> None:
    pass


#: What was done before, and the operation.
SCENES: dict[str, tuple[Callable[[Lab], object], Callable[[Lab], object]]] = {
    "claim": (_nothing, lambda lab: lab.claim()),
    "claim with a request": (_nothing, lambda lab: lab.claim(request_id="r")),
    "claim of a lapsed step": (_lapsed, lambda lab: lab.claim()),
    "claim of nothing": (lambda lab: lab.pause(), lambda lab: lab.claim()),
    "start": (_held, lambda lab: lab.start("step-1")),
    "heartbeat": (_held, lambda lab: lab.beat("step-1")),
    "update": (_held, lambda lab: lab.tick("step-1", "t0", "t1")),
    # An equal one is there already, of the same moment.
    "artifact": (_held, lambda lab: lab.artifact("step-1")),
    "complete": (
        lambda lab: (_held(lab), lab.close("step-1")),
        lambda lab: lab.complete("step-1"),
    ),
    "release": (_held, lambda lab: lab.release("step-1")),
    "reset": (_held, lambda lab: lab.reset("step-1")),
    "reopen": (_done, lambda lab: lab.reopen("step-1")),
    "pause": (_nothing, lambda lab: lab.pause()),
    "init": (_nothing, _init),
    "show": (_held, lambda lab: lab.show()),
}


class Stage:
    """A plan in PostgreSQL, reached through a proxy, that can be set back to any scene."""

    def __init__(self, directory: Path, proxy: Proxy) -> None:
        self.proxy = proxy
        self.lab = Lab(directory, *LINES)
        store = self.lab.store
        assert isinstance(store, PostgresStore)
        self._direct, self._began = store, self.lab.clock.now
        self._through = re.sub(r"host=[^&]*", f"host={proxy.directory}", self.lab.url)
        self._name = store.address.quoted_schema()
        self._kept: dict[str, int] = {}
        #: Per scene: the undisturbed answer and rows, and the bytes of either direction.
        self.expected: dict[str, tuple[object, object]] = {}
        self.lengths: dict[str, dict[str, int]] = {}
        self._keep("")

    def _run(self, *texts: str) -> None:
        connection = self._direct.take()
        path, loose = create._path(self._name), "set local session_replication_role = replica"
        create._run(self._direct, connection, ("begin", path, loose, *texts, "commit"))
        self._direct.give_back(connection)

    def _keep(self, scene: str) -> None:
        """Remember every row and the time."""
        self._kept[scene] = self.lab.clock.now
        copies = [f'create table "{scene} {name}" as table {name}' for name in _all()]
        self._run(*copies)

    def set(self, scene: str) -> None:
        """Everything is again as it was."""
        self.lab.clock.now = self._kept[scene]
        self._run(
            *(f"delete from {name}" for name in _all()),
            *(f'insert into {name} select * from "{scene} {name}"' for name in _all()),
        )

    def prepare(self, scene: str) -> None:
        """Carry the operation out undisturbed."""
        before, _ = SCENES[scene]
        self.set("")
        before(self.lab)
        self._keep(scene)
        self.set(scene)
        self.proxy.strike(TO_SERVER, -1)
        answer = self._act(scene)
        self.lengths[scene] = self.proxy.counted()
        self.expected[scene] = answer, self._rows()

    def points(self, scene: str) -> Iterator[Point]:
        """After every byte of the conversation, in both directions."""
        for direction in (TO_SERVER, TO_CLIENT):
            for at in range(self.lengths[scene][direction] + 1):
                yield Point(scene, direction, at)

    def strike(self, point: Point, action: Callable[[], object] | None = None) -> bool:
        """Cut there, and judge what came of it; whether it was cut at all."""
        self.set(point.scene)
        self.proxy.strike(point.direction, point.at, action, point.times)
        answer = self._act(point.scene)
        cuts = self.proxy.cuts
        self.proxy.strike(TO_SERVER, -1)
        self.judge(point, answer)
        return bool(cuts)

    def judge(self, point: Point, answer: object) -> None:
        expected, rows = self.expected[point.scene]
        if answer != expected:
            raise Wrong(f"{point} answered {answer}, not {expected}")
        found = self._rows()
        if found != rows:
            raise Wrong(f"{point} left {_difference(found, rows)}")

    def _act(self, scene: str) -> object:
        """Run the operation on a connection of its own, as a command does."""
        store = open_store(self._through, clock=self.lab.clock, busy_seconds=20)
        self.lab.store = store
        try:
            return _plain(SCENES[scene][1](self.lab))
        finally:
            store.close()
            self.lab.store = self._direct

    def _rows(self) -> list[str]:
        """Every row of every table, without what a sequence gave out."""
        parts = (f"select '{n}' || to_jsonb(x)::text from {self._name}.{n} x" for n in _all())
        found = self._direct.ask(" union all ".join(parts).encode()).rows
        return sorted(_NUMBER.sub("", row[0]) for row in found)

    def close(self) -> None:
        self._run(*(f'drop table "{scene} {name}"' for scene in self._kept for name in _all()))
        self._direct.close()


def _all() -> list[str]:
    return [*_TABLES, "repository"]


def _plain(answer: object) -> str:
    return _NUMBER.sub("", json.dumps(answer, sort_keys=True, default=str))


def _difference(found: list[str], wanted: list[str]) -> str:
    more = [
        f"+ {row}" for row in found if row not in wanted or found.count(row) > wanted.count(row)
    ]
    less = [f"- {row}" for row in wanted if row not in found]
    return "\n".join(itertools.chain(more, less))
