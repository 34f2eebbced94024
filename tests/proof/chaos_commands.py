"""Whole `tugcode` commands at one repository, killed and stopped at any moment of their lives."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from chaos_judge import judged
from chaos_scene import LINES, Found, lying_in

from conftest import Repo
from support.racing import command, kill_all
from support.state import markdown

#: A command in which a fault is planted.
FAULTY = """
import sys
from chaos_faults import FAULTS
from tugtool.cli.main import main
FAULTS[sys.argv[1]]()
sys.exit(main(sys.argv[2:]))
"""
AT_ONCE = 4
WORKTREES = 2
#: Operation -> words of the command, after the plan and the step.
COMMANDS = {
    "start": ["start"],
    "heartbeat": ["heartbeat"],
    "update": ["update", "--all", "deferred", "--reason", "later"],
    "close": ["update", "--batch", "--complete-remaining"],
    "artifact": ["artifact", "--kind", "note", "--summary", "seen"],
    "complete": ["complete"],
    "force": ["complete", "--force", "enough of it"],
    "release": ["release"],
    "reset": ["reset"],
    "reopen": ["reopen", "--force", "--reason", "again"],
}
PEOPLE = ("reset", "reopen")
WORK = ("start", "heartbeat", "update", "close", "close", "artifact", "force", "force", "release")


class Running:
    """One command: what was asked, and when something is to happen to it."""

    def __init__(self, entry: dict, process: subprocess.Popen, fate: str, after: float) -> None:
        self.entry, self.process, self.fate = entry, process, fate
        self.strikes_at = time.monotonic() + after


class Commands:
    """Runs commands, some at once, and keeps what was asked and answered."""

    def __init__(self, repo: Repo, *, fault: str = "") -> None:
        self.repo, self.fault = repo, fault
        self.entries: list[dict] = []
        self.running: list[Running] = []
        self.claims: list[tuple[str, str, int]] = []
        self.requests: list[tuple[str, str]] = []
        self.kills = self.stops = self.done = 0
        #: About as long as a command takes: moments are chosen from all of that.
        self.lasts = 0.2
        repo.plan("work", markdown(*LINES))
        repo.commit({".tugtool/config.toml": "[state]\nmax_attempts = 100000\n"})
        command(repo.path, "state", "init", "work").communicate()
        self.found = Found(f"sqlite://{repo.path / '.tugtool' / 'state.db'}")
        self.home, self.items = lying_in(self.found)

    def run(self, seed: int, *, kills: int) -> None:
        """Until so many have been killed; then whatever still runs is, too."""
        self.random, wanted = random.Random(seed), self.kills + kills
        try:
            while self.kills < wanted:
                while len(self.running) < AT_ONCE:
                    self.begin()
                for each in list(self.running):
                    self.look_at(each)
                time.sleep(0.002)  # between two looks; nothing depends on how long it is
        finally:
            while self.running:
                self.kill(self.running[0])

    def begin(self) -> None:
        op, owner, step, attempt, more = self.next()
        words = ["claim", "work"] if op == "claim" else [COMMANDS[op][0], "work", step]
        words += more if op == "claim" else COMMANDS[op][1:]
        words += ["--attempt", str(attempt)] if attempt is not None else []
        request = more[-1] if more else None
        entry = {"op": op, "step": step, "attempt": attempt, "owner": owner, "request": request}
        entry["began"] = time.monotonic_ns()
        self.entries.append(dict(entry))
        process = self.command("state", *words, "--worktree", owner)
        fate = self.random.choices(("kill", "stop", "live"), (50, 20, 30))[0]
        after = self.random.uniform(0, 1.3 * self.lasts)
        self.running.append(Running(entry, process, fate, after))

    def command(self, *words: str) -> subprocess.Popen[str]:
        # Each leads a group of its own: what it starts dies with it.
        alone = {"stdin": subprocess.DEVNULL, "start_new_session": True}
        if not self.fault:
            return command(self.repo.path, *words, **alone)
        argv = [sys.executable, "-c", FAULTY, self.fault, *words, "--json"]
        path = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
        where = {"cwd": self.repo.path, "env": path, "stdout": subprocess.PIPE}
        return subprocess.Popen(argv, text=True, **where, **alone)

    def next(self) -> tuple[str, str, str | None, int | None, list[str]]:
        """What to do, as whom, to which step, as which attempt."""
        roll, owner = self.random.random(), self.worktree()
        if roll < 0.1 and self.requests:
            request, owner = self.random.choice(self.requests[-3:])
            return "claim", owner, None, None, ["--request-id", request]
        if roll < 0.4 or not self.claims:
            request = f"request-{len(self.entries)}"
            self.requests.append((request, owner))
            lease = ["--lease-duration", f"{self.lasts:.3f}"]
            return "claim", owner, None, None, [*lease, "--request-id", request]
        if roll < 0.5:
            tops = [anchor for anchor, home in self.home.items() if anchor == home]
            return self.random.choice(PEOPLE), owner, self.random.choice(tops), None, []
        # The last is the one that is most likely still to hold its step.
        owner, step, attempt = self.random.choice([*self.claims[-6:], self.claims[-1]])
        return self.random.choice(WORK), owner, step, attempt, []

    def worktree(self) -> str:
        return str(self.repo.path / f"wt-{self.random.randrange(WORKTREES)}")

    def look_at(self, each: Running) -> None:
        if each.process.poll() is not None:
            self.settle(each, killed=False)
        elif each.fate != "live" and time.monotonic() >= each.strikes_at:
            if each.fate == "kill":
                self.kill(each)
            elif each.fate == "stop":
                self.stops += 1
                each.fate, each.strikes_at = "continue", time.monotonic() + self.pause()
                os.killpg(each.process.pid, signal.SIGSTOP)
            else:
                each.fate = "live"
                os.killpg(each.process.pid, signal.SIGCONT)

    def pause(self) -> float:
        return self.random.uniform(0.02, 0.2)

    def kill(self, each: Running) -> None:
        self.kills += 1
        self.settle(each, killed=True)

    def settle(self, each: Running, *, killed: bool) -> None:
        """Note the answer: whatever was printed in full has been acknowledged."""
        self.running.remove(each)
        out = kill_all(each.process) if killed else each.process.communicate()[0]
        entry = {**each.entry, "ended": time.monotonic_ns()}
        try:
            envelope = json.loads(out)
        except ValueError:
            if not killed:
                self.entries.append({**entry, "broken": out})
            return
        if not killed:
            spent = (entry["ended"] - entry["began"]) / 10**9
            self.lasts += 0.1 * (spent - self.lasts)
        if envelope["status"] == "ok":
            self.remember(entry, envelope["data"])
        else:
            entry["refused"] = envelope["issues"][-1]["code"]
        self.done += 1
        self.entries.append(entry)

    def remember(self, entry: dict, data: dict) -> None:
        entry["said"] = data
        if data.get("claimed"):
            self.claims.append((entry["owner"], data["anchor"], data["attempt"]))

    def problems(self) -> list[str]:
        return list(judged(self.found, self.home, self.items, self.entries))

    def counts(self) -> Counter:
        codes = Counter(entry.get("refused") for entry in self.entries)
        superseded = {"answered": self.done, "refused as superseded": codes["E060"]}
        done = {"kills": self.kills, "stops": self.stops, "claims": len(self.claims)}
        return Counter({**done, **superseded})
