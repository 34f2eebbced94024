"""Two commands at one repository, one of them held while the other runs.

It is held at each named point that it comes to (docs/internals/crash-points.md), and before
each lock that it asks for, which is before every transaction in which it writes.

The second does its work, waits for a lock, or is refused with a code; in the end, when the
first has gone on and whoever was refused has tried again, everything is sound and nothing is
lost.
"""

import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any, NamedTuple

import watching
from borders import Said, Zygote
from weave_deeds import Hand

from conftest import Repo
from support.racing import until
from support.state import KEY, TABLES, markdown
from support.state_replay import INVARIANTS
from support.worktree import fsck

DAY = "20260223"
#: What is merged is checked first, and what is committed goes to a remote.
CONFIG = '[merge]\ncheck = ["test -e only.txt"]\n[remote]\nname = "origin"\n'
#: Where that remote lies: it is set back with the rest.
REMOTE = Path(".git", "remote.git")
#: What doctor says of work that lies where somebody left it, which is for a person to judge.
#: What is committed in a worktree while somebody takes that away stays on its branch.
CHOICES = ("uncommitted: ", "branches: ")
#: Another: `merge` without `--push` leaves that to a person.
UNPUSHED = "is merged here, not pushed"
#: What only the holder of a step writes.
OWNERS = ("artifact", "complete", "heartbeat", "start", "update", "verify")
#: Not refusals: something went wrong.
FAILURES = ("E046", "E047", "E099")


class Deed(NamedTuple):
    """A command, where it is run, and what has to happen before it."""

    at: str
    words: tuple[str, ...]
    #: Where, what, and at which point it dies, if it does.
    before: tuple[tuple[str, tuple[str, ...], str], ...] = ()


#: What was saved of step 4, and of the same step before that, which has come to the base branch.
SAVED = "20260223T120000000Z-step-4-attempt-2"
AGAIN = ("worktree", "create", "work", "--request-id=again")
COMMIT = ("commit", "--plan=work", "--step=step-3", "--message=x")
#: There is a commit of which the record knows nothing.
COMMITTED = (
    ("three", ("state", "claim", "work", "--step=step-4"), ""),
    ("three", ("commit", "--plan=work", "--step=step-4", "--message=x"), "commit.committed"),
)
#: There is a plan that git does not know.
NEW = (("root", ("plan", "new", "new"), ""),)
#: Somebody has died half-way.
HALF = (
    ("root", ("dash", "create", "half"), "dash.branch"),
    ("root", ("worktree", "create", "work", "--new"), "create.worktree"),
)

DEEDS = {
    "create": Deed("root", ("worktree", "create", "work", "--new")),
    "create any": Deed("root", ("worktree", "create", "work", "--claim")),
    "create again": Deed("root", AGAIN, (("root", AGAIN, ""),)),
    "create with its plan": Deed("root", ("worktree", "create", "new", "--commit-plan"), NEW),
    "remove": Deed("root", ("worktree", "remove", f"tugplan__work-{DAY}", "--force")),
    "remove the last": Deed("root", ("worktree", "remove", f"tugplan__work-{DAY}-3", "--force")),
    "cleanup": Deed("root", ("worktree", "cleanup")),
    "sync": Deed("two", ("worktree", "sync", "work")),
    "salvage apply": Deed("two", ("worktree", "salvage", "apply", SAVED)),
    "salvage prune": Deed("root", ("worktree", "salvage", "prune")),
    "commit": Deed("tree", COMMIT),
    "commit after a crash": Deed("tree", COMMIT, (("tree", COMMIT, "commit.added"),)),
    "merge": Deed("root", ("merge", "one")),
    "merge and push": Deed("root", ("merge", "one", "--push")),
    "clean": Deed("three", ("worktree", "clean")),
    "next": Deed("three", ("next", "work")),
    "done": Deed("tree", ("done", "--all")),
    "claim": Deed("two", ("state", "claim", "work", "--step=step-3", "--force", "--also")),
    "reset": Deed("root", ("state", "reset", "work", "step-3")),
    "release": Deed("two", ("state", "release", "work", "step-3", "--force")),
    "exec": Deed("three", ("state", "exec", "work", "--step=step-4", "--", "true")),
    "reconcile": Deed("root", ("state", "reconcile", "work"), COMMITTED),
    "dash create": Deed("root", ("dash", "create", "more")),
    "dash commit": Deed("root", ("dash", "commit", "fix", "--message=x")),
    "dash join": Deed("root", ("dash", "join", "fix")),
    "dash join of another": Deed("root", ("dash", "join", "whole")),
    "dash release": Deed("root", ("dash", "release", "fix", "--force")),
    "doctor": Deed("root", ("doctor", "--fix"), HALF),
}
#: Commands that are not woven, and why.
APART = {
    "init": "makes files that are not there yet, and has no transaction to be interrupted",
    "plan new": "makes one file, or refuses because there is one",
    "plan import": "makes one file, as plan new does",
    "report": "writes one file from what it has read in one transaction, or refuses",
    "state export": "writes one file from what it has read in one transaction",
    "implement": "runs the others, each a command here; killed at its own points elsewhere",
}
#: Borders before which nothing is about to last.
LOOKS = ("select", "with", "begin", "commit", "rollback", "answer", "end")
#: Where somebody is held: a named point, or the number of a border.
Hold = str | int


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
            "whole": trees / "tugdash__whole",
        }
        self.contents: set[str] = set()
        self._holds: dict[str, list[Hold]] = {}
        #: Deeds that are refused though nobody else is there, and why.
        self.refusals: set[tuple[str, str]] = set()
        #: Modules that have opened transactions in which to write.
        self.writers: set[str] = set()
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
        self.repo.git("init", "--quiet", "--bare", str(REMOTE))
        self.repo.git("remote", "add", "origin", str(self.root / REMOTE))
        self.do("root", "init")
        self.repo.commit({"code.txt": "code\n", ".tugtool/config.toml": CONFIG})
        for _ in range(3):
            self.do("root", "worktree", "create", "work", "--new")
        self.do("root", "worktree", "create", "one")
        self._write("tree", "first.txt")
        self.do("tree", "state", "claim", "work", "--step", "step-1")
        self.do("tree", "commit", "--plan=work", "--step=step-1", "--message=first")
        self.do("tree", "state", "claim", "work", "--step", "step-3")
        self._write("tree", "third.txt")
        self.do("two", "state", "claim", "work", "--step", "step-2")
        for name in ("landed.txt", "loose.txt"):
            self.do("three", "state", "claim", "work", "--step", "step-4")
            self._write("three", name)
            self.do("root", "state", "reset", "work", "step-4")
            (self.places["three"] / name).unlink()
        self.repo.commit({"landed.txt": "landed.txt of three\n"})
        self._write("three", "loose.txt")
        self._write("one", "only.txt")
        self.do("one", "state", "claim", "one")
        self.do("one", "commit", "--plan=one", "--step=step-1", "--message=only")
        self.do("root", "dash", "create", "fix")
        self._write("fix", "round.txt")
        self.do("root", "dash", "commit", "fix", "--message=round")
        self._write("fix", "more.txt")
        self.do("root", "dash", "create", "whole")
        self._write("whole", "whole.txt")
        self.do("root", "dash", "commit", "whole", "--message=all of it")
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

    def _prepare(self, *deeds: str) -> None:
        """The scene, with what has to happen before these deeds."""
        self.set_back()
        for at, words, dies in dict.fromkeys(each for d in deeds for each in DEEDS[d].before):
            env = {"TUGCODE_CRASH_AT": dies} if dies else {}
            done = self.red.run(self.places[at], *words, env=env)
            assert done.status == (-9 if dies else 0), (words, done.envelope)

    # -- schedules -------------------------------------------------------------------------

    def holds(self, deed: str) -> list[Hold]:
        """Where a deed can be held: what it passes when nobody else is there."""
        if deed not in self._holds:
            self._prepare(deed)
            self._ask(self.red, deed)
            alone = self.red.answer()
            self.refusals |= {(deed, code) for code in alone.codes if code.startswith("E")}
            self.writers |= set(alone.writers)
            borders = list(enumerate(alone.borders))
            locks = [number for number, name in borders if name == watching.LOCK]
            # Who asks for no lock and has no point does all it does by git and by new names.
            acts = [number for number, name in borders if not name.startswith(LOOKS)]
            self._holds[deed] = [*dict.fromkeys(alone.points), *locks] or acts
        return self._holds[deed]

    def schedules(self) -> list[tuple[str, Hold, str]]:
        """Every deed, wherever it can be held, every deed beside it."""
        return [
            (first, hold, second)
            for first in DEEDS
            for hold in self.holds(first)
            for second in DEEDS
        ]

    def weave(self, first: str, hold: Hold, second: str) -> None:
        """Hold one while the other runs; fail unless all is sound in the end."""
        self._prepare(first, second)
        try:
            self._weave(first, hold, second)
        except BaseException as error:
            error.add_note(f"{first!r} was held at {hold}; then {second!r}")
            raise

    def _weave(self, first: str, hold: Hold, second: str) -> None:
        fifo = self.directory / "fifo"
        fifo.unlink(missing_ok=True)
        os.mkfifo(fifo)
        if isinstance(hold, int):
            self._ask(self.red, first, hold=(hold, str(fifo)))
        else:
            self._ask(self.red, first, env={"TUGCODE_CRASH_AT": f"{hold}@{fifo}"})
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
        done = ((first, one), (second, two))
        for name, said in done:
            self._settle(name, said)
        # Who lost its step while it committed is told so, and the commit stands. Who lost it
        # before it could go on after a crash leaves what it had begun.
        beaten = any(_is_beaten(said.envelope["data"]) for _, said in done)
        if beaten or any(said.status and DEEDS[name].before for name, said in done):
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

    def _ask(self, who: Zygote, deed: str, **how: Any) -> None:
        at, words, _ = DEEDS[deed]
        place = self.places[at]
        # Whoever's worktree was taken away stands somewhere else by now.
        who.ask(place if place.exists() else self.root, *words, **how)

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
        left = [each for each in found if not each.endswith(UNPUSHED)]
        assert all(each.startswith(CHOICES) for each in left), found
        self._only_owners_have_written()
        self._record_is_right()

    def _only_owners_have_written(self) -> None:
        """Whoever was superseded has left no event since."""
        database = sqlite3.connect(self.root / ".tugtool" / "state.db")
        attempts: dict[tuple[str, str], int] = {}
        asked = "select plan_path, step_anchor, kind, attempt from events order by seq"
        for plan, anchor, kind, attempt in database.execute(asked).fetchall():
            if kind == "claim":
                attempts[plan, anchor] = attempt
            elif kind in OWNERS and (plan, anchor) in attempts:
                assert attempt in (None, attempts[plan, anchor]), (anchor, kind, attempt)
        database.close()

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
            copy.execute(f"delete from {table} where plan_path <> ?", [KEY])
        copy.close()
        hand = Hand(place)
        for holds in INVARIANTS:
            holds(hand)
        hand.store.close()


def _is_beaten(data: dict) -> bool:
    """Whether a commit stands of which the record knows nothing; `done` tells of it as a part."""
    told = data["commit"] if "checkpoints" in data else data
    return bool(told.get("state_update_failed"))
