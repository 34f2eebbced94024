"""Two processes at one database, one of them held at a border while the other does its deed.

Whatever comes of it, answers and rows, must come of one of the two orders in which they could
have done it one after the other.
"""

import json
import os
import re
import select
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

from watching import kept, locked
from weave_deeds import ADDRESS, OTHER, SCENES, Hand

from support import engines
from support.schema_copies import SchemaCopies
from support.state import NOON, TABLES
from support.state_replay import INVARIANTS
from tugtool.store.postgres import PostgresStore

SCRIPT = Path(__file__).with_name("weaver.py")
#: Longer than anything here takes; then something hangs.
BOUND_SECONDS = 60
#: The files of a database.
KEPT = ("state.db", "copies/backup.db", "other.jsonl")
#: Tables whose rows begin with a number that means nothing; their order does.
NUMBERED = ("events", "checklist_items", "step_artifacts")
#: When a copy was made, as files and their names have it.
REAL_TIME = re.compile(r"20\d\d-?\d\d-?\d\dT\d\d[\d:.-]+Z?")


class Stuck(AssertionError):
    """Somebody does not answer."""


class NoOrder(AssertionError):
    """Two deeds have come to what neither order gives."""


class Weaver:
    """One of the two processes."""

    def __init__(self, *faults: str) -> None:
        paths = [str(SCRIPT.parent), str(SCRIPT.parent.parent)]
        self._process = subprocess.Popen(
            [sys.executable, str(SCRIPT), *faults],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._read = b""

    def ask(self, directory: Path, deed: str, hold: int | None = None) -> None:
        order = {"directory": str(directory), "deed": deed, "hold": hold}
        self._say(json.dumps(order))

    def go_on(self) -> None:
        self._say("")

    def _say(self, line: str) -> None:
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def hear(self) -> dict:
        """What it says next."""
        while b"\n" not in self._read:
            if not select.select([self._process.stdout], [], [], BOUND_SECONDS)[0]:
                raise Stuck("no answer")
            part = os.read(self._process.stdout.fileno(), 1 << 20)
            assert part, "it has died"
            self._read += part
        line, _, self._read = self._read.partition(b"\n")
        return json.loads(line)

    def answer(self) -> dict:
        """What came of the deed; that it waited meanwhile is no news."""
        while "answer" not in (said := self.hear()):
            pass
        return said

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


class Files:
    """The databases that the two are set before, as files."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.here = directory, directory / "here"

    def set_up(self, scene: str) -> None:
        """The database of a scene, as if nobody had touched it."""
        kept = self.directory / scene
        if not kept.exists():
            _furnish(kept, scene)
            # It knows the file by what a copy of it does not keep.
            (kept / "copies" / "mark").unlink()
        if not self.here.exists():
            shutil.copytree(kept, self.here)
        for path in self.here.rglob("*"):
            if path.is_dir() and not (kept / path.relative_to(self.here)).exists():
                shutil.rmtree(path)
            elif path.is_file():
                path.unlink()
        for name in KEPT:
            shutil.copyfile(kept / name, self.here / name)

    def rows(self) -> dict[str, list[str]]:
        """Every row of every table."""
        database = sqlite3.connect(self.here / "state.db")
        try:
            names = database.execute("select name from sqlite_master where type = 'table'")
            return {
                name: [repr(row[name in NUMBERED :]) for row in rows]
                for (name,) in names.fetchall()
                if name != "sqlite_sequence"
                for rows in [database.execute(f"select * from {name}")]
            }
        finally:
            database.close()

    def is_whole_without(self, plan: str) -> bool:
        """Look whether the file is whole; without another plan's rows, whether there is one."""
        database = sqlite3.connect(self.here / "state.db", isolation_level=None)
        assert database.execute("pragma integrity_check").fetchall() == [("ok",)]
        assert database.execute("pragma foreign_key_check").fetchall() == []
        for table in (*TABLES, "worktrees"):
            database.execute(f"delete from {table} where plan_path = ?", [plan])
        (recorded,) = database.execute("select count(*) from plans").fetchone()
        database.close()
        return bool(recorded)


class Schemas:
    """The same, as one schema of PostgreSQL."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.here = directory, directory / "here"
        self.here.mkdir(parents=True)
        address = engines.url_in(self.here)
        (self.here / ADDRESS).write_text(address)
        self.copies = SchemaCopies(PostgresStore(address))
        self._known: set[str] = set()

    def set_up(self, scene: str) -> None:
        """The rows of a scene, as if nobody had touched them."""
        if scene not in self._known:
            self.copies.empty()
            _furnish(self.here, scene)
            self.copies.keep(scene)
            self._known.add(scene)
        for path in self.here.rglob("*.jsonl"):
            path.unlink() if path.name != "other.jsonl" else None
        self.copies.bring_back(scene)

    def rows(self) -> dict[str, list[str]]:
        """Every row of every table."""
        found = self.copies.rows("repository")
        return {
            name: [repr(row[name in NUMBERED :]) for row in rows] for name, rows in found.items()
        }

    def is_whole_without(self, plan: str) -> bool:
        """Whether there is a plan but for another one's rows, which go."""
        name = self.copies.here
        for table in reversed((*TABLES, "worktrees")):
            self.copies.rows_of(f"delete from {name}.{table} where plan_path = '{plan}'")
        return bool(self.copies.rows_of(f"select 1 from {name}.plans"))


def _furnish(directory: Path, scene: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    hand = Hand(directory, NOON)
    hand.begin()
    SCENES[scene](hand)
    hand.store.close()


class Loom:
    """The two processes, and the databases they are set before."""

    def __init__(self, directory: Path, *faults: str) -> None:
        place = Files if engines.current() == "sqlite" else Schemas
        self.place = place(directory)
        self.here = self.place.here
        self.red, self.blue = Weaver(*faults), Weaver(*faults)
        #: Scene -> its row of a number that is drawn.
        self._epochs: dict[str, list[str]] = {}
        self._epoch: list[str] = []
        self._alone: dict[tuple[str, str], dict] = {}
        self._right: list[dict] = []
        self._serial: dict[tuple[str, str, str], dict] = {}
        #: How often the first was held, the second waited, and the order made a difference.
        self.woven = self.waited = self.mattered = 0

    def end(self) -> None:
        self.red.end()
        self.blue.end()

    # -- databases -------------------------------------------------------------------------

    def set_up(self, scene: str) -> None:
        """The database of a scene, as if nobody had touched it."""
        self.place.set_up(scene)
        if scene not in self._epochs:
            self._epochs[scene] = self.place.rows()["epoch"]
        self._epoch = self._epochs[scene]

    def _rows(self) -> dict[str, list[str]]:
        """Every row of every table, and every other file that is there."""
        rows = self.place.rows()
        # It is drawn anew each time: only whether it was drawn can be compared.
        epoch = ["as it was" if row in self._epoch else "drawn anew" for row in rows["epoch"]]
        files = [path.name for path in self.here.rglob("*.jsonl")]
        return {**rows, "epoch": epoch, "files": sorted(files)}

    def _outcome(self, first: dict, second: dict) -> dict:
        came = {"first": first["answer"], "second": second["answer"], "rows": self._rows()}
        for answer in (came["first"], came["second"]):
            # Whether numbers were free is nobody's business.
            if isinstance(answer, dict):
                answer.pop("renumbered", None)
        return json.loads(REAL_TIME.sub(_settled, json.dumps(came)))

    def _check(self) -> None:
        """What must be true of any state; and the file is whole."""
        # Whoever judges knows of one plan.
        recorded = self.place.is_whole_without(OTHER)
        hand = Hand(self.here)
        for holds in INVARIANTS if recorded else ():
            holds(hand)
        hand.store.close()

    # -- deeds -----------------------------------------------------------------------------

    def alone(self, scene: str, deed: str) -> dict:
        """What a deed does when nobody else is there: its answer, its borders."""
        key = scene, deed
        if key not in self._alone:
            self.set_up(scene)
            self.red.ask(self.here, deed)
            self._alone[key] = self.red.answer()
        return self._alone[key]

    def serial(self, scene: str, first: str, second: str) -> dict:
        """What comes of one after the other."""
        key = scene, first, second
        if key not in self._serial:
            self.set_up(scene)
            self.red.ask(self.here, first)
            one = self.red.answer()
            self.blue.ask(self.here, second)
            came = self._serial[key] = self._outcome(one, self.blue.answer())
            # What was found to be right need not be looked at again.
            if came["rows"] not in self._right:
                self._check()
                self._right.append(came["rows"])
        return self._serial[key]

    def weave(self, scene: str, first: str, second: str, hold: int) -> None:
        """Hold the first at a border while the second acts; fail unless it came as in an order."""
        self.set_up(scene)
        self.red.ask(self.here, first, hold)
        border = self.red.hear()
        assert "held" in border, f"{first} never came to border {hold}"
        self.blue.ask(self.here, second)
        said = self.blue.hear()
        waited = "waiting" in said
        self.red.go_on()
        one = self.red.answer()
        two = self.blue.answer() if waited else said
        self.woven, self.waited = self.woven + 1, self.waited + waited
        where = f"{scene}: {first!r} held before {border['held']!r}, {second!r}"
        where += " waited" if waited else " went on"
        self._judge(where, self._outcome(one, two), scene, first, second)
        alone = locked(self.alone(scene, first)["borders"][:hold])
        if alone & kept(two["borders"]) and not waited:
            raise NoOrder(f"{where}, though it writes too")

    def _judge(self, where: str, came: dict, scene: str, first: str, second: str) -> None:
        orders = [self.serial(scene, first, second), _turned(self.serial(scene, second, first))]
        self.mattered += orders[0] != orders[1]
        if came not in orders:
            raise NoOrder(f"{where}\n{_apart(came, orders)}")

    def is_inside(self, scene: str, deed: str, hold: int) -> bool:
        """Whether the deed is in a transaction in which it writes."""
        return bool(locked(self.alone(scene, deed)["borders"][:hold]))


def _settled(found: re.Match) -> str:
    """Times of the clock that stands still are told apart; real ones are not."""
    return found[0] if found[0].startswith("2026-02-23T1") else "TIME"


def _turned(came: dict) -> dict:
    return {**came, "first": came["second"], "second": came["first"]}


def _apart(came: dict, orders: list[dict]) -> str:
    """Where it differs from either order."""
    lines = []
    for number, order in enumerate(orders):
        lines.append(f"not as in order {number + 1}:")
        parts = [part for part in ("first", "second") if came[part] != order[part]]
        lines += [f"  {part}: {came[part]}\n   not: {order[part]}" for part in parts]
        for table, rows in came["rows"].items():
            other = order["rows"].get(table, [])
            if rows != other:
                lines.append(f"  {table}: {sorted(set(rows) - set(other))}")
                lines.append(f"   not: {sorted(set(other) - set(rows))}")
    return "\n".join(lines)
