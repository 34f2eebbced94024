"""A database with a known history, damaged in every way, and what commands make of it.

They may refuse, and then a restore works; they may not notice, where nobody could. They must
neither fail as if they were at fault themselves nor say what the next who looks does not find.
"""

import json
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import jsonschema
from faulting import CLAIM, INIT, REASON, Server, Wrong

from conftest import Repo, hold_against_schemas
from support.state import markdown
from tugtool.store import schema
from tugtool.store.sqlite import file

OTHER = ("--worktree", "other")
#: What is in the backup; then what is only in the database, and what is only in its log.
KEPT = (INIT, CLAIM, ("state", "complete", "work", "step-1", *REASON))
MOVED = (CLAIM, ("state", "update", "work", "step-2", "--task", "0", "completed"))
LOGGED = (
    ("state", "start", "work", "step-2"),
    ("state", "artifact", "work", "step-2", "--kind", "note", "--summary", "seen"),
    ("state", "complete", "work", "step-2", *REASON),
    CLAIM,
    ("state", "update", "work", "step-3", "--task", "0", "completed"),
)
State = dict[str, list[tuple]]


class Wreck:
    """A repository whose database can be put back, and damaged, any number of times."""

    def __init__(self, path: Path, server: Server) -> None:
        self.server, self.planted = server, ""
        self.repo = Repo.init(path / "repo")
        self.repo.plan("work", markdown("1 t", "2 tt < 1", "3 tt", "4 t < 2", "5 t"))
        self.repo.write({".tugtool/config.toml": "[state]\nbusy_seconds = 1\n"})
        self.database = self.repo.path / ".tugtool" / "state.db"
        self.log = Path(f"{self.database}-wal")
        self.copies = self.repo.path / ".git" / "tugtool"
        #: What there was, and was shown, after each acknowledged command since the log begins.
        self.states: list[State] = []
        self.shows: list[list[dict]] = []
        self._act()
        self.whole = {each: each.read_bytes() for each in self._files()}
        self.kept = tables(self.copies / "backup.db")

    def _act(self) -> None:
        for words in KEPT:
            # So that each completion makes the backup anew.
            if (self.copies / "backup.db").exists():
                os.utime(self.copies / "backup.db", (0, 0))
            self.ok(*words)
        for words in MOVED:
            self.ok(*words)
        connection = sqlite3.connect(self.database)
        connection.execute("pragma wal_checkpoint(truncate)")
        connection.close()
        self._note()
        for words in LOGGED:
            self.ok(*words)
            self._note()

    def _note(self) -> None:
        self.states.append(tables(self.database))
        self.shows.append(self.ok("state", "show", "work")["steps"])

    def _files(self) -> list[Path]:
        return [self.database, self.log, *self.copies.iterdir()]

    def command(self, *words: str) -> dict:
        about = {"cwd": str(self.repo.path), "planted": self.planted}
        return self.server.run(words=[*words, "--json"], **about)

    def ok(self, *words: str) -> dict:
        done = self.command(*words)
        assert done["status"] == 0, done
        return json.loads(done["out"])["data"]

    def put(self) -> None:
        """Everything is whole again; nobody has it open, so nothing is shared in memory."""
        for path in (*self.database.parent.glob("state.*"), *self.copies.iterdir()):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for path, content in self.whole.items():
            path.write_bytes(content)
        file.sign(str(self.copies / "mark"), str(self.database))

    def move(self) -> None:
        """Everything into the database itself."""
        connection = sqlite3.connect(self.database)
        connection.execute("pragma wal_checkpoint(truncate)")
        connection.close()
        self.log.write_bytes(b"")
        file.sign(str(self.copies / "mark"), str(self.database))

    def forget(self) -> None:
        """Without its mark, nobody knows how far the database had got."""
        (self.copies / "mark").unlink(missing_ok=True)

    # -- how it is damaged -------------------------------------------------------------

    def flip(self, path: Path, chance: random.Random) -> str:
        """Turn one bit over, of what is not empty."""
        content = bytearray(path.read_bytes())
        at, bit = chance.choice([n for n, byte in enumerate(content) if byte]), chance.randrange(8)
        content[at] ^= 1 << bit
        path.write_bytes(content)
        return f"bit {bit} of byte {at} of {path.name}"

    def scribble(self, path: Path, chance: random.Random) -> str:
        """Overwrite one page, with anything or nothing."""
        content = bytearray(path.read_bytes())
        page = chance.randrange(len(content) // 4096) * 4096
        new = chance.choice((bytes(4096), b"\xff" * 4096, chance.randbytes(4096)))
        content[page : page + 4096] = new
        path.write_bytes(content)
        return f"page at {page} of {path.name}"

    def cut(self, path: Path, length: int) -> str:
        """Keep the beginning."""
        os.truncate(path, length)
        return f"{path.name} cut to {length}"

    def as_if_untouched(self) -> None:
        """As a failing disk does it: nobody has written to the file, as far as anybody sees."""
        file.sign(str(self.copies / "mark"), str(self.database))

    # -- what is made of it ------------------------------------------------------------

    def examine(self, damage: str) -> str:
        """Let commands loose on it; whether they noticed, in a word."""
        broken = self.database.read_bytes() if self.database.exists() else None
        shown = self._proper(damage, self.command("state", "show", "work"))
        answer = self._proper(damage, self.command(*CLAIM, *OTHER))
        if answer is not None:
            self._is_so(damage, answer)
        if shown is not None and answer is not None:
            return "unnoticed" if shown["steps"] == self.shows[-1] else self._changed(damage, shown)
        self._restore(damage, broken if answer is None else None)
        return "refused"

    def _changed(self, damage: str, shown: dict) -> str:
        """Whether less is there than was acknowledged, or something that never was."""
        if shown["steps"] in self.shows:
            return "behind"
        if self.log.name in damage:
            raise Wrong(f"{damage}: no prefix of what was acknowledged: {shown['steps']}")
        return "changed"

    def _proper(self, damage: str, done: dict) -> dict | None:
        """The data of an answer that has its form; None if it is a refusal."""
        if done["status"] not in (0, 1) or "Traceback" in done["err"]:
            raise Wrong(f"{damage}: {done}")
        envelope = json.loads(done["out"])
        try:
            hold_against_schemas(envelope)
        except jsonschema.ValidationError as error:
            # A letter of a word changed where nothing guards it; in the log, checksums do.
            if self.log.name in damage:
                raise Wrong(f"{damage}: {error.message}") from error
        if done["status"] == 0:
            return envelope["data"]
        if not all(issue["code"] and issue.get("hint") for issue in envelope["issues"]):
            raise Wrong(f"{damage}: {envelope}")
        return None

    def _is_so(self, damage: str, answer: dict) -> None:
        """What was answered is what the next who looks finds, unless that is refused."""
        later = self._proper(damage, self.command("state", "show", "work"))
        if later is None or not answer["claimed"]:
            return
        steps = [step for step in later["steps"] if step["anchor"] == answer["anchor"]]
        found = [(os.path.basename(str(step["claimed_by"])), step["attempt"]) for step in steps]
        # Whoever reads through an index that a failing disk has changed may pass over a row.
        if found != [("other", answer["attempt"])] and not self.is_named(damage):
            raise Wrong(f"{damage}: claimed {answer['anchor']}, and there is {found}")

    def is_named(self, damage: str) -> bool:
        """Whether the doctor says that the database itself is damaged."""
        told = self.command("doctor")
        if self.log.name in damage or (told["status"], told["err"]) != (1, ""):
            return False
        issues = json.loads(told["out"])["issues"]
        return any(f"{self.database} is damaged" in each["message"] for each in issues)

    def _restore(self, damage: str, broken: bytes | None) -> None:
        """The way back works, and what was there is kept as it was."""
        done = self.command("state", "restore")
        data = self._proper(damage, done)
        if data is None:
            self._rightly(damage, done, broken)
            return
        if broken is not None and (Path(data["set_aside"]) / "state.db").read_bytes() != broken:
            raise Wrong(f"{damage}: what was there was touched")
        found = tables(self.database)
        if not completed(self.kept) <= completed(found):
            raise Wrong(f"{damage}: restored without {completed(self.kept) - completed(found)}")
        if self._proper(damage, self.command(*CLAIM, *OTHER)) is None:
            raise Wrong(f"{damage}: nothing can be claimed after a restore")

    def _rightly(self, damage: str, done: dict, broken: bytes | None) -> None:
        """A restore is refused where nothing is wrong, or where a later version may have written.

        Nobody can tell that from a bit of the number turned over; then nothing is touched.
        """
        found = self.database.read_bytes()
        later = int.from_bytes(found[60:64], "big", signed=True) > schema.VERSION
        if later and '"E065"' in done["out"] and found == broken:
            return
        if "is sound and complete" not in done["out"]:
            raise Wrong(f"{damage}: {done}")


def tables(path: Path) -> State:
    """Every row of every table, in a copy, so that nothing beside the file is touched."""
    copy = path.parent / "looked-at"
    for end in ("", "-wal"):
        if Path(f"{path}{end}").exists():
            shutil.copyfile(f"{path}{end}", f"{copy}{end}")
    connection = sqlite3.connect(copy)
    try:
        names = connection.execute("select name from sqlite_master where type = 'table'").fetchall()
        rows = {name: connection.execute(f"select * from {name}").fetchall() for (name,) in names}
        return {name: sorted(rows[name], key=repr) for name in sorted(rows)}
    finally:
        connection.close()
        for each in path.parent.glob("looked-at*"):
            each.unlink()


def completed(state: State) -> set[object]:
    """The anchors of completed steps."""
    return {row[1] for row in state["steps"] if "completed" in row}


Damage = Callable[[Wreck, random.Random], str]
