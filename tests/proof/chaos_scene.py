"""One plan that many workers carry out while they are killed, time and again."""

import json
import select
import subprocess
import sys
from collections import Counter
from pathlib import Path

from chaos_judge import judged
from chaos_worker import parsed

from support.racing import kill_all
from support.state import KEY, Clock, Lab
from tugtool.store import open_store, sql

SCRIPT = str(Path(__file__).with_name("chaos_worker.py"))
WORKERS = 7
#: Chains, a diamond, substeps that wait inside their step and outside of it, steps without items.
LINES = (
    *("1 tte", "2 tc < 1", "2.1 t", "2.2 te < 2.1", "3 t < 1", "4 tt < 2 3", "4.1 e < 3"),
    *("4.2 t < 4.1 2.2", "5 c < 4", "6 t < 4.1", "7", "8 < 7", "9 t < 7 8", "9.1 tt < 6", "10 t"),
)


class Found(Lab):
    """A plan's state that others have made and changed."""

    def __init__(self, url: str) -> None:
        self.url, self.clock, self.store = url, Clock(), open_store(url)


def lying_in(lab: Lab) -> tuple[dict[str, str], dict[str, list[tuple[str, int]]]]:
    """Of every step and substep the step it belongs to, and its items."""
    rows = lab.rows(sql.STEPS)
    home = {row["anchor"]: row["parent_anchor"] or row["anchor"] for row in rows}
    items: dict[str, list[tuple[str, int]]] = {anchor: [] for anchor in home}
    for item in lab.rows(sql.PLAN_ITEMS):
        items[item["step_anchor"]].append((item["kind"], item["ordinal"]))
    return home, items


class Scene:
    """A database, the logs of everybody who worked on it, and how often they were killed."""

    def __init__(self, directory: Path, seed: int, *, fault: str = "") -> None:
        self.seed, self.fault, self.logs = seed, fault, directory / "logs"
        self.logs.mkdir(parents=True)
        lab = Lab(directory, *LINES)
        self.home, self.items = lying_in(lab)
        tops = [anchor for anchor, home in self.home.items() if anchor == home]
        below = {top: [a for a, h in self.home.items() if top == h != a] for top in tops}
        self.words = {
            "url": lab.url,
            "plan": KEY,
            "hash": lab.hash,
            "copies": str(directory / "copies"),
            "steps": below,
            "items": self.items,
            "logs": str(self.logs),
            "seed": seed,
            "fault": fault,
            "workers": WORKERS,
        }
        lab.store.close()
        self.found = Found(lab.url)
        self.bouts = self.kills = self.stops = 0

    def bout(self, seconds: float) -> None:
        """Let them work and be killed for so long; then all are."""
        self.bouts += 1
        words = {**self.words, "bout": self.bouts, "seconds": seconds}
        killer = subprocess.Popen(
            [sys.executable, SCRIPT, json.dumps(words)],
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        try:
            assert select.select([killer.stdout], [], [], seconds + 120)[0], "it hangs"
            done = json.loads(killer.stdout.readline())
        finally:
            kill_all(killer)
        self.kills += done["kills"]
        self.stops += done["stops"]

    def entries(self) -> list[dict]:
        """All that the workers wrote; of a line that was cut short, nothing."""
        lines = (line for log in self.logs.iterdir() for line in log.read_bytes().splitlines())
        return [entry for line in lines if (entry := parsed(line))]

    def problems(self) -> list[str]:
        """Whatever contradicts a promise."""
        try:
            return list(judged(self.found, self.home, self.items, self.entries()))
        finally:
            # Nobody has it open while they are killed, so the first to come has to find its way.
            self.found.store.close()

    def counts(self) -> Counter:
        counts = Counter(kills=self.kills, stops=self.stops)
        for entry in self.entries():
            counts["claims"] += bool(entry.get("said", {}).get("claimed"))
            counts["answered"] += "said" in entry
            counts["refused as superseded"] += entry.get("refused") == "E060"
            counts["claims with a process"] += bool(
                entry.get("said", {}).get("claimed") and entry.get("named")
            )
        try:
            ends = self.found.rows("select outcome, count(*) as n from attempts group by outcome")
        finally:
            self.found.store.close()
        number = {row["outcome"]: row["n"] for row in ends}
        return counts + Counter(
            {"taken over as dead": number.get("dead", 0), "as expired": number.get("expired", 0)}
        )
