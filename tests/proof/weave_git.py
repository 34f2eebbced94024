"""Two commands at one repository, one of them held at a named point while the other runs.

The second does its work, waits for a lock, or is refused with a code; in the end, when the
first has gone on and whoever was refused has tried again, everything is sound and nothing is
lost.
"""

import os
import shutil
import sqlite3
from pathlib import Path
from typing import NamedTuple

from borders import Said, Zygote
from weave_deeds import Hand

from conftest import Repo
from racing import until
from state_fixtures import TABLES, markdown
from state_replay import INVARIANTS
from tugtool import crash
from worktree_fixtures import fsck

DAY = "20260223"
ONE = ".tugtool/tugplan-one.md"
#: What doctor says of work that lies where somebody left it, which is for a person to judge.
#: What is committed in a worktree while somebody takes that away stays on its branch.
CHOICES = ("uncommitted: ", "branches: ")
#: Not refusals: something went wrong.
FAILURES = ("E046", "E047", "E099")


class Deed(NamedTuple):
    """A command, where it is run, and the first part of the names of its points."""

    at: str
    words: tuple[str, ...]
    points: tuple[str, ...]


DEEDS = {
    "create": Deed("root", ("worktree", "create", "work", "--new"), ("create",)),
    "create any": Deed("root", ("worktree", "create", "work", "--claim"), ("create",)),
    "remove": Deed("root", ("worktree", "remove", f"tugplan__work-{DAY}", "--force"), ("remove",)),
    "remove the last": Deed(
        "root", ("worktree", "remove", f"tugplan__work-{DAY}-3", "--force"), ("remove",)
    ),
    "cleanup": Deed("root", ("worktree", "cleanup"), ("remove",)),
    "sync": Deed("two", ("worktree", "sync", "work"), ("sync",)),
    "commit": Deed("tree", ("commit", "--plan=work", "--step=step-3", "--message=x"), ("commit",)),
    "merge": Deed("root", ("merge", "one"), ("merge",)),
    "claim": Deed("two", ("state", "claim", "work", "--step=step-3", "--force"), ("salvage",)),
    "reset": Deed("root", ("state", "reset", "work", "step-3"), ("salvage",)),
    "release": Deed("two", ("state", "release", "work", "step-3", "--force"), ("salvage",)),
    "dash create": Deed("root", ("dash", "create", "more"), ("dash",)),
    "dash commit": Deed("root", ("dash", "commit", "fix", "--message=x"), ("round",)),
    "dash join": Deed("root", ("dash", "join", "fix"), ("join",)),
    "dash release": Deed("root", ("dash", "release", "fix", "--force"), ("remove",)),
}


def schedules() -> list[tuple[str, str, str]]:
    """Every deed, each of its points, every deed beside it."""
    return [
        (first, point, second)
        for first, deed in DEEDS.items()
        for point in crash.POINTS
        if point.partition(".")[0] in deed.points
        for second in DEEDS
    ]


class Field:
    """A repository in which much is under way, and two who run commands."""

    def __init__(self, directory: Path, *faults: str) -> None:
        directory.mkdir(exist_ok=True)
        self.directory, self.root = directory, directory / "repo"
        self.red = Zygote(directory / "red", *faults)
        self.blue = Zygote(directory / "blue", *faults)
        trees = self.root / ".tugtree"
        self.places = {
            "root": self.root,
            "tree": trees / f"tugplan__work-{DAY}",
            "two": trees / f"tugplan__work-{DAY}-2",
            "three": trees / f"tugplan__work-{DAY}-3",
            "one": trees / f"tugplan__one-{DAY}",
            "fix": trees / "tugdash__fix",
        }
        self.contents: set[str] = set()
        self.woven = self.waited = self.refused = self.missed = 0
        self._begin()

    def end(self) -> None:
        self.red.end()
        self.blue.end()

    # -- the scene -------------------------------------------------------------------------

    def _begin(self) -> None:
        self.repo = Repo.init(self.root)
        self.repo.plan("work", markdown("1", "2 < 1", "3", "4"))
        self.repo.plan("one", markdown("1"))
        self.do("root", "init")
        self.repo.commit({"code.txt": "code\n"})
        for _ in range(3):
            self.do("root", "worktree", "create", "work", "--new")
        self.do("root", "worktree", "create", "one")
        self._write("tree", "first.txt")
        self.do("tree", "state", "claim", "work", "--step", "step-1")
        self.do("tree", "commit", "--plan=work", "--step=step-1", "--message=first")
        self.do("tree", "state", "claim", "work", "--step", "step-3")
        self._write("tree", "third.txt")
        self.do("two", "state", "claim", "work", "--step", "step-2")
        self._write("three", "loose.txt")
        self._write("one", "only.txt")
        self.do("one", "state", "claim", "one")
        self.do("one", "commit", "--plan=one", "--step=step-1", "--message=only")
        self.do("root", "dash", "create", "fix")
        self._write("fix", "round.txt")
        self.do("root", "dash", "commit", "fix", "--message=round")
        self._write("fix", "more.txt")
        (self.root / ".git" / "tugtool" / "mark").unlink()
        shutil.copytree(self.root, self.directory / "kept", symlinks=True)

    def _write(self, place: str, name: str) -> None:
        Repo(self.places[place]).write({name: f"{name} of {place}\n"})
        self.contents.add(self.repo.git("hash-object", str(self.places[place] / name)).strip())

    def do(self, at: str, *words: str) -> Said:
        done = self.red.run(self.places[at], *words)
        assert done.status == 0, (words, done.envelope)
        return done

    def set_back(self) -> None:
        shutil.rmtree(self.root)
        shutil.copytree(self.directory / "kept", self.root, symlinks=True)

    # -- schedules -------------------------------------------------------------------------

    def weave(self, first: str, point: str, second: str) -> None:
        """Hold one at a point while the other runs; fail unless all is sound in the end."""
        self.set_back()
        try:
            self._weave(first, point, second)
        except BaseException as error:
            error.add_note(f"{first!r} was held at {point}; then {second!r}")
            raise

    def _weave(self, first: str, point: str, second: str) -> None:
        fifo = self.directory / "fifo"
        fifo.unlink(missing_ok=True)
        os.mkfifo(fifo)
        self._ask(self.red, first, TUGCODE_CRASH_AT=f"{point}@{fifo}")
        gate = self._held(fifo)
        fifo.unlink()
        self._ask(self.blue, second)
        two = self.blue.hear()
        self.woven, self.waited = self.woven + 1, self.waited + (two is None)
        if gate >= 0:
            os.close(gate)
        self.missed += gate < 0
        one = self.red.answer()
        two = two or self.blue.answer()
        for name, said in ((first, one), (second, two)):
            self._settle(name, said)
        # Who lost its step while it committed is told so, and the commit stands.
        beaten = any(said.envelope["data"].get("state_update_failed") for said in (one, two))
        if beaten:
            self.red.run(self.root, "doctor", "--fix")
        self.check()

    def _held(self, fifo: Path) -> int:
        """Wait until the first has come to its point, or to its end; what holds it there."""
        gate = [-1]

        def there() -> bool:
            try:
                gate[0] = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                # Nobody has it open to read.
                return self.red.has_said()
            return True

        until(there, 60)
        return gate[0]

    def _ask(self, who: Zygote, deed: str, **env: str) -> None:
        at, words, _ = DEEDS[deed]
        place = self.places[at]
        # Whoever's worktree was taken away stands somewhere else by now.
        who.ask(place if place.exists() else self.root, *words, env=env)

    def _settle(self, deed: str, said: Said) -> None:
        """Whoever was refused is told why, and may try again."""
        assert not set(said.codes) & set(FAILURES), said.envelope
        if said.status:
            self.refused += 1
            self._ask(self.red, deed)
            again = self.red.answer()
            assert not set(again.codes) & set(FAILURES), again.envelope

    # -- what must be true -----------------------------------------------------------------

    def check(self) -> None:
        """Git is whole, the record is right, nothing is lost, and nothing is left to mend."""
        fsck(self.root)
        self._nothing_is_lost()
        said = self.red.run(self.root, "doctor")
        found = [issue["message"] for issue in said.envelope["issues"]]
        assert all(each.startswith(CHOICES) for each in found), found
        self._record_is_right()

    def _nothing_is_lost(self) -> None:
        objects = self.repo.git("rev-list", "--all", "--objects", "--no-object-names")
        lying = self.repo.git(
            "hash-object", "--", *map(str, self.root.glob(".tugtree/*/*.txt")), "code.txt"
        )
        lost = self.contents - {*objects.split(), *lying.split()}
        assert not lost, [self.repo.git("cat-file", "blob", each) for each in lost]

    def _record_is_right(self) -> None:
        place = self.directory / "record"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        source = sqlite3.connect(self.root / ".tugtool" / "state.db")
        copy = sqlite3.connect(place / "state.db", isolation_level=None)
        source.backup(copy)
        source.close()
        (intents,) = copy.execute("select count(*) from intents").fetchone()
        assert not intents, copy.execute("select * from intents").fetchall()
        # Whoever judges knows of one plan.
        for table in (*TABLES, "worktrees"):
            copy.execute(f"delete from {table} where plan_path = ?", [ONE])
        copy.close()
        hand = Hand(place)
        for holds in INVARIANTS:
            holds(hand)
        hand.store.close()
