"""A repository that is put back as it was before each try, and commands that die in it."""

import json
import os
import re
import select
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from conftest import DATES, Repo, hold_against_schemas
from support import engines
from support.schema_copies import SchemaCopies
from support.state import markdown
from support.worktree import IDENTITY
from tugtool.cli.parse import FAMILIES
from tugtool.store.postgres import PostgresStore

SCRIPT = Path(__file__).with_name("border_zygote.py")
#: Longer than anything here takes; then something hangs.
BOUND_SECONDS = 60
PLAN = markdown("1 tc", "1.1 t", "2 t < 1", "3 t").replace("checkpoint 0 of 1", "`true` works")
#: What differs from run to run, and means nothing.
REAL = re.compile(
    r"20\d\d-?\d\d-?\d\dT\d\d[\d:.-]+Z?"
    r"|(?<=_ms\": )[\d.]+|(?<=seconds\": )[\d.]+|(?<=, )[\d.]+(?= s\b)"
)
#: A memory of files, by what a copy of them does not keep; and numbers that grow with each try.
FORGOTTEN = ("plan_copies", "sqlite_sequence", "events")
#: What a file and its log are called, for whoever removes them.
STATE_FILES = ".tugtool/state."
#: What happens once, however often it is tried; and signs of life, which happen any time.
ONCE = ("claim", "complete", "init", "merge", "reconcile", "release", "reopen", "reset")
LIFE = ("heartbeat",)
EVENTS = "select plan_path, step_anchor, kind, actor, attempt, detail from {} order by seq"


def _settled(text: str) -> str:
    return REAL.sub(lambda found: "TIME" if "T" in found[0] else "0", text)


class Said(NamedTuple):
    """What a run came to: its exit status, its envelope, what it passed, and who has written."""

    status: int
    envelope: dict
    borders: list[str]
    #: Named points; and modules that opened a transaction in which to write.
    points: list[str]
    writers: list[str]

    @property
    def codes(self) -> list[str]:
        return [issue["code"] for issue in self.envelope["issues"]]


class Zygote:
    """The process that runs commands."""

    def __init__(self, out: Path, *faults: str) -> None:
        self._out, self._read = out, b""
        paths = [str(SCRIPT.parent), str(SCRIPT.parent.parent)]
        self._process = subprocess.Popen(
            [sys.executable, str(SCRIPT), *faults],
            env={**os.environ, **IDENTITY, **DATES, "PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def ask(
        self,
        cwd: Path,
        *words: object,
        given: str = "",
        dies: int | None = None,
        hold: tuple[int, str] | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        """Have a command run; with `dies` until it comes to that border.

        With `hold`, a border and a FIFO, it waits there until somebody has opened and closed that.
        """
        order = {"cwd": str(cwd), "words": list(map(str, words)), "given": given, "dies": dies}
        order |= {"env": env or {}, "out": str(self._out), "hold": hold}
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()

    def run(self, cwd: Path, *words: object, **how: Any) -> Said:
        """Run a command to its end."""
        self.ask(cwd, *words, **how)
        return self.answer()

    def answer(self) -> Said:
        """What it came to; that it waited meanwhile is no news."""
        while (said := self.hear()) is None:
            pass
        return said

    def hear(self) -> Said | None:
        """What it came to, or nothing, if it waits for somebody."""
        done = json.loads(self._line())
        if "waiting" in done:
            return None
        if done["status"] == -9:
            return Said(-9, {}, [], [], [])
        assert done["status"] in (0, 1, 4), done["said"]
        *said, passed = filter(None, done["said"].split("\n"))
        # Whoever runs a command of somebody's has nothing to say when that succeeds.
        envelope = json.loads(_settled(said[-1])) if said else {"data": {}, "issues": []}
        if said:
            hold_against_schemas(json.loads(said[-1]))
        return Said(done["status"], envelope, *json.loads(passed))

    def has_said(self) -> bool:
        """Whether there is anything to hear."""
        return bool(b"\n" in self._read or select.select([self._process.stdout], [], [], 0)[0])

    def _line(self) -> bytes:
        while b"\n" not in self._read:
            assert select.select([self._process.stdout], [], [], BOUND_SECONDS)[0], "it hangs"
            part = os.read(self._process.stdout.fileno(), 1 << 20)
            assert part, "it has died"
            self._read += part
        line, _, self._read = self._read.partition(b"\n")
        return line

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


class Case(NamedTuple):
    """A command, what has to happen before it, and where it is run."""

    words: tuple[str, ...]
    before: tuple[tuple[object, ...], ...] = ()
    at: str = "root"
    given: str = ""
    #: What it says when it was done already: a code, or the fields of its answer that differ.
    again: frozenset[str] = frozenset()
    #: Tables in which a second run leaves a trace of its own.
    traces: frozenset[str] = frozenset()
    #: Tables that tell how often it was tried.
    apart: frozenset[str] = frozenset()
    #: Whether it is done in several parts, each whole: somebody may die between two.
    parts: bool = False
    #: Whether it leaves the rest to `doctor --fix`, or whatever comes next, once it is refused.
    mended: bool = False
    #: Whether it touches more than the state.
    git: bool = False

    @property
    def command(self) -> str:
        """Its path in the table of commands."""
        names = [" ".join(self.words[:n]) for n in (3, 2, 1)]
        return next(name for name in names if name in FAMILIES)


class Ground:
    """The repository; `root`, `red` and `blue` are its worktrees."""

    def __init__(self, directory: Path, *faults: str) -> None:
        self.directory, self.root = directory, directory / "repo"
        directory.mkdir(exist_ok=True)
        self.zygote = Zygote(directory / "out", *faults)
        #: The state, if it is in PostgreSQL.
        self.copies: SchemaCopies | None = None
        self.env: dict[str, str] = {}
        if engines.current() == "postgres":
            url = engines.url_in(directory, engines.REPOSITORY)
            self.env["TUGCODE_STATE_URL"] = url
            self.copies = SchemaCopies(PostgresStore(url, repository=engines.REPOSITORY))
        #: How many places are kept, and which of them was the last to be brought back.
        self._kept, self._last = 0, ""
        #: The epoch of each place that is kept, and of the one that was brought back.
        self._epochs: dict[str, list[tuple]] = {}
        self._epoch: list[tuple] = []
        self.places = {
            "root": self.root,
            "red": self.root / ".tugtree" / "red",
            "blue": self.root / ".tugtree" / "blue",
            # Made by a command, on the day on which the clock stands still.
            "one": self.root / ".tugtree" / "tugplan__one-20260223",
        }
        self._begin()

    def end(self) -> None:
        self.zygote.end()

    def _begin(self) -> None:
        repo = Repo.init(self.root)
        repo.plan("work", PLAN)
        if self.copies:
            repo.git("remote", "add", "origin", f"https://{engines.REPOSITORY}")
        self.do("root", "init")
        repo.commit({"code.txt": "code\n"})
        for name in ("red", "blue"):
            repo.linked(self.places[name], name)
        self.repo = repo
        shutil.copytree(self.root, self.directory / "base", symlinks=True)

    def do(self, at: str, *words: object, given: str = "", dies: int | None = None) -> Said:
        """Run a command; what follows `<` as its last word is its standard input."""
        *first, last = words
        if str(last).startswith("<"):
            words, given = tuple(first), str(last)[1:]
        return self.zygote.run(self.places[at], *words, given=given, dies=dies, env=self.env)

    def prepare(self, case: Case) -> str:
        """Do what has to happen before, and keep the place as it is then; where it is kept."""
        self._copy("base")
        if self.copies:
            self.copies.empty()
        for at, *words in case.before:
            if at == "write":
                Repo(self.places[words[0]]).write({words[1]: words[2]})
            elif at == "git":
                Repo(self.places[words[0]]).git(*words[1:])
            elif at == "remove":
                self._remove(*words)
            else:
                done = self.do(at, *words)
                assert done.status == 0, (words, done.envelope)
        (self.root / ".git" / "tugtool" / "mark").unlink(missing_ok=True)
        self._kept += 1
        kept = f"kept-{self._kept}"
        shutil.copytree(self.root, self.directory / kept, symlinks=True)
        if self.copies:
            self.copies.keep(kept)
        self._epoch = self._epochs[kept] = self._rows()[0].get("epoch", [])
        return kept

    def _remove(self, *names: object) -> None:
        for path in [path for name in names for path in self.root.glob(str(name))]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if self.copies and any(str(name).startswith(STATE_FILES) for name in names):
            self.copies.empty()

    def set_back(self, case: Case, kept: str) -> None:
        """Let the place be as it was before the command."""
        for part in ("",) if case.git or kept != self._last else (".tugtool", ".git/tugtool"):
            self._copy(kept, part)
        if self.copies:
            self.copies.bring_back(kept)
        self._last, self._epoch = kept, self._epochs[kept]

    def _copy(self, source: str, part: str = "") -> None:
        shutil.rmtree(self.root / part, ignore_errors=True)
        if (self.directory / source / part).exists():
            shutil.copytree(self.directory / source / part, self.root / part, symlinks=True)

    def run(self, case: Case, dies: int | None = None) -> Said:
        return self.do(case.at, *case.words, given=case.given, dies=dies)

    def picture(self, case: Case) -> dict[str, str]:
        """Everything that is there: rows, files, and what git has."""
        seen: dict[str, object] = self._tables(case)
        seen["files"] = sorted(
            str(path.relative_to(self.root))
            for part in (".tugtool", ".git/tugtool")
            for path in (self.root / part).rglob("*")
            if not path.name.startswith(("state.db", "backup", "mark", ".tug-"))
        )
        if case.git:
            seen |= self._git()
        for name in case.apart:
            seen.pop(name, None)
        return {name: _settled(str(value)) for name, value in seen.items()}

    def _tables(self, case: Case) -> dict[str, object]:
        is_told = ONCE.__contains__ if case.parts else lambda kind: kind not in LIFE
        tables, events = self._rows()
        # Drawn by lot: the one that was there before, or another.
        if "epoch" in tables:
            was = self._epoch
            tables["epoch"] = [("as before" if row in was else "new",) for row in tables["epoch"]]
        return {**tables, "events": [event for event in events if is_told(event[2])]}

    def _rows(self) -> tuple[dict[str, list[tuple]], list[tuple]]:
        return self._in_schema(self.copies) if self.copies else self._in_file()

    def _in_schema(self, copies: SchemaCopies) -> tuple[dict[str, list[tuple]], list[tuple]]:
        # A number that was given out in vain is not given out again.
        copies.renumber()
        events = copies.rows_of(EVENTS.format(f"{copies.here}.events"))
        return {**copies.rows(*FORGOTTEN, "repository")}, [tuple(event) for event in events]

    def _in_file(self) -> tuple[dict[str, list[tuple]], list[tuple]]:
        path = self.root / ".tugtool" / "state.db"
        if not path.exists() or not path.stat().st_size:
            return {}, []
        database = sqlite3.connect(path)
        try:
            assert database.execute("pragma integrity_check").fetchall() == [("ok",)]
            assert database.execute("pragma foreign_key_check").fetchall() == []
            names = database.execute("select name from sqlite_master where type = 'table'")
            tables: dict[str, list[tuple]] = {
                name: database.execute(f"select * from {name}").fetchall()
                for (name,) in names.fetchall()
                if name not in FORGOTTEN
            }
            # A file may be there before anything is in it.
            told = EVENTS.format("events")
            return tables, database.execute(told).fetchall() if "plans" in tables else []
        finally:
            database.close()

    def _git(self) -> dict[str, object]:
        git = self.repo.git
        trees = [
            Path(line[9:])
            for line in git("worktree", "list", "--porcelain").splitlines()
            if line.startswith("worktree ")
        ]
        locks = [str(path) for path in (self.root / ".git").rglob("*.lock")]
        # What was being written when somebody died has another name until it is whole.
        status = ["status", "--porcelain", "--untracked-files=all", "--", ".", ":!*.tug-*.tmp"]
        return {
            "refs": git("for-each-ref", "--format=%(refname) %(objectname)"),
            "trees": git("worktree", "list", "--porcelain"),
            "status": [Repo(tree).git(*status) for tree in trees if (tree / ".git").exists()],
            "locks": locks,
        }


class Broken(AssertionError):
    """It does not end as without the crash."""


class Try:
    """One command, run once, run twice, and killed at its borders."""

    def __init__(self, ground: Ground, case: Case) -> None:
        self.ground, self.case = ground, case
        self.kept = ground.prepare(case)
        self.before = ground.picture(case)
        self.once = ground.run(case)
        self.after = ground.picture(case)
        self.twice = ground.run(case)
        self.later = ground.picture(case)

    def differences(self) -> set[str]:
        """What a second run says otherwise: its code, or the fields of its answer."""
        first, second = self.once.envelope["data"], self.twice.envelope["data"]
        if self.twice.status:
            return set(self.twice.codes)
        every = {*first, *second} - {"start_up_ms"}
        return {key for key in every if first.get(key) != second.get(key)}

    def traces(self) -> set[str]:
        """What a second run has changed."""
        every = {*self.after, *self.later}
        return {name for name in every if self.after.get(name) != self.later.get(name)}

    def writing(self) -> list[int]:
        """The borders that are followed by anything that lasts."""
        names = self.once.borders
        return [n for n, name in enumerate(names) if not name.startswith(("select", "with"))]

    def kill(self, border: int) -> None:
        """Die there, run it again, and fail unless all is as if nobody had died."""
        self.ground.set_back(self.case, self.kept)
        where = f"{' '.join(self.case.words)}, killed before {self.once.borders[border]!r}"
        assert self.ground.run(self.case, dies=border).status == -9, where
        left = self.ground.picture(self.case)
        if not self.case.parts and left not in (self.before, self.after):
            raise Broken(f"{where}: half of it is there\n{_apart(left, self.before)}")
        again = self.ground.run(self.case)
        now = self.ground.picture(self.case)
        if now not in (self.after, self.later) and self.case.mended:
            self.ground.do("root", "doctor", "--fix")
            now = self.ground.picture(self.case)
        if now not in (self.after, self.later):
            raise Broken(f"{where}: it ends otherwise\n{_apart(now, self.after)}")
        if self._answer(again) not in map(self._answer, (self.once, self.twice)):
            raise Broken(f"{where}: it says {again.envelope}\nnot {self.once.envelope}")

    def _answer(self, said: Said) -> object:
        """What it says; whoever is more than a transaction also tells how far it had come."""
        errors = [code for code in said.codes if code.startswith("E")]
        return said.status, errors if self.case.git or self.case.apart else said.envelope


def _apart(one: dict[str, str], other: dict[str, str]) -> str:
    names = [name for name in {*one, *other} if one.get(name) != other.get(name)]
    return "\n".join(f"{name}: {one.get(name)}\n not: {other.get(name)}" for name in names)
