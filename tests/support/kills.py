"""Workers killed in the middle of their work, and everything that is then done to what they left.

Whatever lay uncommitted in a worktree when its worker died has to be reachable from a worktree
or from a ref, whatever happens next and in whatever order.
"""

import hashlib
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
from collections import Counter
from pathlib import Path

from conftest import git
from support.racing import until
from support.worktree import Yard, fsck, process
from tugtool.system import clock

SCRIPT = str(Path(__file__).with_name("kill_worker.py"))
STEPS = 12
#: At which an operation may be killed itself; the next one goes on.
POINTS = (
    *("salvage.taken", "salvage.saved", "salvage.recorded"),
    *("remove.intent", "remove.salvaged", "remove.worktree", "remove.branch", "remove.released"),
)
#: Made by the tool itself, and taken back by it.
OURS = (".tugtool/",)


class Lost(AssertionError):
    """Work that can be found nowhere."""


class Remains:
    """What lay in a worktree when its worker was killed."""

    def __init__(self, path: Path, step: str, attempt: int, *, named: bool) -> None:
        self.path, self.step, self.attempt = path, step, attempt
        #: Whether its process was known to be its holder; else it has its lease only.
        self.named = named
        self.files, self.blobs = _inventory(path)
        self.commit = git("rev-parse", "HEAD", cwd=path).strip()
        dirty = git("status", "--porcelain", "-z", "--untracked-files=all", cwd=path)
        self.dirty = bool(dirty)
        #: Whether its step was taken since, and whether the worktree is gone.
        self.taken = self.gone = False


def _inventory(path: Path) -> tuple[set[tuple], set[str]]:
    """Every file that is not ignored (path, mode, blob), and every blob, staged ones too."""
    names = git("ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=path)
    files = set()
    for name in set(names.split("\0")[:-1]):
        if (path / name).is_symlink() or (path / name).is_file():
            files.add((name, *_blob(path / name)))
    staged = git("ls-files", "-z", "--stage", cwd=path).split("\0")[:-1]
    blobs = {blob for _, _, blob in files} | {entry.split()[1] for entry in staged}
    return {each for each in files if not each[0].startswith(OURS)}, blobs


def _blob(path: Path) -> tuple[str, str]:
    if path.is_symlink():
        mode, data = "120000", os.fsencode(os.readlink(path))
    else:
        data = path.read_bytes()
        mode = "100755" if path.stat().st_mode & stat.S_IXUSR else "100644"
    return mode, hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Kills:
    """A repository, workers that die in it, and what is done about them."""

    def __init__(
        self, yard: Yard, seed: int, *, crashes: float = 0.3, points: tuple[str, ...] = POINTS
    ) -> None:
        self.yard, self.random = yard, random.Random(seed)
        #: How many of the commands are killed, and where.
        self.crashes, self.points = crashes, points
        self.killed = 0
        self.remains: list[Remains] = []
        self.told: dict[str, int] = {}
        #: How often the steps that others claimed had been held until then.
        self.ended: Counter = Counter()
        self.rescuers = self.late = 0
        #: What was done, for whoever has to find out why.
        self.story: list[str] = []

    @staticmethod
    def prepare(yard: Yard, kills: int) -> None:
        """A file to change and one to delete for every worker, and a branch to fall out with."""
        repo = yard.repo
        repo.write({".tugtool/config.toml": "[state]\nmax_attempts = 1000\n", "conflict": "base\n"})
        repo.write({f"tracked/{n}": f"tracked {n}\n" for n in range(kills)})
        repo.commit({f"gone/{n}": f"to be deleted {n}\n" for n in range(kills)})
        repo.git("checkout", "--quiet", "-b", "theirs")
        repo.commit({"conflict": "theirs\n"})
        repo.git("checkout", "--quiet", "main")

    def run(self, kills: int) -> None:
        taking = (*[self.reclaim] * 3, self.reset, self.release)
        deeds = (*taking, self.remove, self.cleanup, self.vanish)
        for _ in range(kills):
            self.kill()
            for _ in range(self.random.randint(1, 3)):
                deed = self.random.choice((*deeds, self.land, self.prune))
                if deed():
                    self.told[deed.__name__] = self.told.get(deed.__name__, 0) + 1
            self.check()
            for each in self.remains:
                each.gone = each.gone or not each.path.exists()
        self.yard.repo.git("worktree", "prune")
        for lock in (self.yard.root / ".git").rglob("*.lock"):
            # Of a git that was killed with its worker; git would have a person take it away.
            lock.unlink()
        self.yard.repo.git("gc", "--quiet", "--prune=now")
        self.check()
        fsck(self.yard.root)

    # -- death -------------------------------------------------------------------------

    def kill(self) -> None:
        """Let a worker begin, somewhere, and kill it and all it started at some moment."""
        words = ["--new"] if self.random.random() < 0.3 else []
        made = self.yard.ok("worktree", "create", "work", *words)
        path = Path(made["worktree_path"])
        if made["reused"]:
            self.goes_on(path)
        inner, outer = os.pipe()
        told = {"worktree": str(path), "number": self.killed, "life": outer, "steps": 40}
        told |= {"seed": self.random.getrandbits(32), "named": self.random.random() < 0.5}
        worker = subprocess.Popen(
            [sys.executable, SCRIPT, json.dumps(told)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[outer],
            start_new_session=True,
        )
        os.close(outer)
        first = worker.stdout.readline().split()
        assert first[:1] == [b"claimed"], worker.communicate()
        for _ in range(self.random.randint(0, 12)):
            if worker.stdout.readline() in (b"", b"idle\n"):
                break
        os.killpg(worker.pid, signal.SIGKILL)
        worker.communicate()
        # Its end comes when the last process has died that the worker started.
        assert os.read(inner, 1) == b""
        os.close(inner)
        self.killed += 1
        step = first[1].decode()
        self.story.append(f"killed {told} on {step}")
        row = self._step(step)
        if not told["named"]:
            # A millisecond after its last sign of life: that is over by now, or soon.
            lease = row["lease_expires_at"] or ""
            until(lambda: clock.text(clock.system_milliseconds()) > lease)
        self.remains.append(Remains(path, step, row["attempt"], named=told["named"]))

    def goes_on(self, path: Path) -> None:
        """A worker that goes on in a worktree may stage anew what was staged in it."""
        for each in self.remains:
            if each.path == path and not each.gone:
                each.blobs = {blob for _, _, blob in each.files}

    def _step(self, step: str) -> dict:
        return self.yard.rows(f"select * from steps where anchor = '{step}'")[0]

    # -- what is done about it ---------------------------------------------------------

    def do(self, *words: object, dead: Remains | None = None) -> dict | None:
        """Run a command; now and then it is killed first. Its data, or None if it refused.

        `dead` is who loses its step by it, and is not as dead as it seems now and then.
        """
        crash = self.random.random() < self.crashes
        if crash:
            likely = self.points[:3] if dead is not None else ()
            point = self.random.choice((*likely, *self.points))
            killed = process(self.yard.root, *words, TUGCODE_CRASH_AT=point)
            killed.communicate()
            self.story.append(f"{words} at {point}: {killed.returncode}")
            if dead is not None and self.random.random() < 0.7:
                self.works_on(dead)
        done = self.yard.run(*words)
        self.story.append(f"{words}: {done.out.strip()[:400]}")
        return None if done.status else {**done.data, "after_crash": crash}

    def works_on(self, dead: Remains) -> None:
        """Somebody still writes where it had to be saved, and was not, or not to the end."""
        where = f"step_anchor = '{dead.step}' and number = {dead.attempt}"
        if dead.path.exists() and self.yard.rows(f"select * from unsaved where {where}"):
            self.late += 1
            (dead.path / f"late {self.late}").write_text(f"later work {self.late}\n")
            files, blobs = _inventory(dead.path)
            dead.dirty, dead.files, dead.blobs = True, files, dead.blobs | blobs

    def held(self) -> Remains | None:
        """Some worktree whose dead worker still holds its step."""
        rows = self.yard.rows("select anchor, claimed_by, attempt from steps")
        held = {(row["anchor"], row["claimed_by"], row["attempt"]) for row in rows}
        found = [r for r in self.remains if (r.step, str(r.path), r.attempt) in held]
        return self.random.choice(found) if found else None

    def reclaim(self) -> bool:
        dead = self.held()
        if dead is None:
            return False
        self.rescuers += 1
        name = f".tugtree/rescuer-{self.rescuers}"
        words = ("state", "claim", "work", "--step", dead.step, "--worktree", name)
        answer = self.do(*words, dead=dead)
        assert answer is not None
        self.ended[self.end_of(dead)["outcome"]] += 1
        assert self.end_of(dead)["outcome"] == ("dead" if dead.named else "expired")
        self.was_taken(dead, answer)
        if not answer["after_crash"]:
            assert answer["salvage_ref"] == answer["previous_attempt"]["salvage_ref"]
        self.yard.ok("state", "release", "work", dead.step, "--worktree", name)
        return True

    def reset(self) -> bool:
        return self.taken_by("state", "reset", "work")

    def release(self) -> bool:
        return self.taken_by("state", "release", "work", "--force")

    def taken_by(self, *words: str) -> bool:
        dead = self.held()
        if dead is None:
            return False
        first, second, plan, *more = words
        answer = self.do(first, second, plan, dead.step, *more, dead=dead)
        if answer is None:
            # Killed after it had released the step: a claim saves what is left.
            answer = {**self.yard.ok("state", "claim", "work"), "after_crash": True}
            self.yard.ok("state", "release", "work", answer["anchor"])
        self.was_taken(dead, answer)
        return True

    def was_taken(self, dead: Remains, answer: dict) -> None:
        """Somebody has the step now: the work is under the ref that the attempt names."""
        dead.taken = True
        ref = self.end_of(dead)["salvage_ref"]
        if dead.dirty and ref is None:
            raise Lost(f"nothing was saved of {dead.path}")
        missing = dead.files - self.tree(ref) if dead.dirty else None
        if missing:
            raise Lost(f"{ref} lacks {sorted(missing)[:3]}")
        if not answer["after_crash"] and answer.get("anchor") == dead.step:
            assert answer["salvage_ref"] == ref

    def end_of(self, dead: Remains) -> dict:
        where = f"step_anchor = '{dead.step}' and number = {dead.attempt}"
        return self.yard.rows(f"select * from attempts where {where}")[0]

    def tree(self, ref: str) -> set[tuple]:
        if ref not in self.yard.refs():
            raise Lost(f"{ref} is named, and is not there")
        out = self.yard.repo.git("ls-tree", "-r", "-z", "--full-tree", ref)
        entries = (line.partition("\t") for line in out.split("\0")[:-1])
        return {(path, *facts.split()[::2]) for facts, _, path in entries}

    def remove(self) -> bool:
        found = [each for each in self.remains if each.path.exists()]
        if not found:
            return False
        dead = self.random.choice(found)
        answer = self.do("worktree", "remove", dead.path.name, "--force")
        assert answer is not None or not dead.path.exists(), dead.path
        return True

    def cleanup(self) -> bool:
        return self.do("worktree", "cleanup") is not None

    def prune(self) -> bool:
        return self.do("worktree", "salvage", "prune") is not None

    def land(self) -> bool:
        """Somebody merges what was committed; what was not stays where it is."""
        found = [each for each in self.remains if each.path.exists()]
        if not found:
            return False
        tip = git("rev-parse", "HEAD", cwd=self.random.choice(found).path).strip()
        done = subprocess.run(["git", "merge", "--quiet", tip], cwd=self.yard.root)
        if done.returncode:
            self.yard.repo.git("merge", "--abort")
        return done.returncode == 0

    def vanish(self) -> bool:
        """A person deletes a worktree of which everything was taken, and so saved."""
        by_path: dict[Path, list[Remains]] = {}
        for each in self.remains:
            by_path.setdefault(each.path, []).append(each)
        found = [path for path, all_ in by_path.items() if path.exists() and all_[-1].taken]
        if not found:
            return False
        path = self.random.choice(found)
        self.story.append(f"deleted {path}")
        shutil.rmtree(path)
        self.yard.repo.git("worktree", "prune")
        return True

    # -- the proof ---------------------------------------------------------------------

    def check(self) -> None:
        """Every byte is reachable from a worktree or a ref."""
        trees = [line[9:] for line in self._worktrees() if line.startswith("worktree ")]
        heads = [line[5:] for line in self._worktrees() if line.startswith("HEAD ")]
        words = ("rev-list", "--objects", "--no-object-names", "--all")
        there = set(self.yard.repo.git(*words, *heads).split())
        for tree in trees[1:]:
            if (Path(tree) / ".git").exists():
                there |= _inventory(Path(tree))[1]
        self.check_taken()
        for each in self.remains:
            missing = (each.blobs | {each.commit}) - there
            if missing:
                names = [name for name, _, blob in each.files if blob in missing]
                raise Lost(f"{each.path} ({each.step}, attempt {each.attempt}): {names or missing}")

    def check_taken(self) -> None:
        """Also the next worker, in a worktree of its own, may have taken a step from the dead."""
        rows = self.yard.rows("select * from attempts")
        known = {(row["step_anchor"], row["number"]): row for row in rows}
        for each in self.remains:
            row, then = (known.get((each.step, each.attempt + n)) for n in (0, 1))
            others = then is not None and then["worktree"] != str(each.path)
            if others and row["outcome"] in ("dead", "expired") and not each.taken:
                self.ended[row["outcome"]] += 1
                self.was_taken(each, {"after_crash": True})

    def _worktrees(self) -> list[str]:
        return self.yard.repo.git("worktree", "list", "--porcelain").splitlines()
