"""Workers that carry a plan out for ever, and somebody who kills them. A script: `... JSON`.

Each worker is forked, so that the next is there at once, and opens the database itself. It
writes down what it is about to do and, once that was answered, what was said: one line each,
written at once, in a log that it inherits with its place from whoever had that before.
"""

import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable

from chaos_faults import FAULTS

from tugtool import state
from tugtool.errors import TugError
from tugtool.state.claims import Request
from tugtool.state.record import PlanCopy
from tugtool.store import open_store

LEASE_SECONDS = 0.04
#: Of whoever says which process it is: only its death ends that, or somebody who forces it.
LONG_LEASE_SECONDS = 3600
#: Fewer than workers: where two share a worktree, only the attempt says who may write.
WORKTREES = 3
APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND
#: What a log's end is looked through for, by whoever takes a place over.
TAIL_BYTES = 1 << 14
STATUSES = ("open", "in_progress", "completed", "completed", "completed", "deferred")
#: How often each thing is done, of a hundred.
DEEDS = {"carry_out": 55, "wake_up_late": 18, "ask_again": 7, "be_a_person": 15, "oversleep": 5}
WORK = ("start", "heartbeat", "update", "update", "artifact")
#: Everything that somebody with an attempt can try to change.
CHANGES = (
    *("start", "heartbeat", "update", "close", "artifact", "complete", "force", "release"),
    "wrest",
)
ENDS = ("finish", "finish", "finish", "complete", "force", "release", "wrest", "leave", "leave")


class Worker:
    """One process: does things at random until it is killed."""

    def __init__(self, told: dict, place: int, life: int) -> None:
        self.told, self.plan, self.steps = told, told["plan"], told["steps"]
        self.name = _name(told, place, life)
        self.random = random.Random(f"{told['seed']} {self.name}")
        self.owner = f"wt-{place % WORKTREES}"
        self.store = open_store(told["url"], busy_seconds=60, copies=told["copies"])
        self.copy = PlanCopy("the plan", told["hash"])
        self.count = 0
        log = os.path.join(told["logs"], str(place))
        #: Claims and requests of this place, from before this life too.
        self.claims, self.requests = _remembered(log)
        self.log = os.open(log, APPEND)
        # Whoever was killed while writing has left half a line.
        os.write(self.log, b"\n")

    def run(self) -> None:
        try:
            while True:
                deed = self.random.choices(list(DEEDS), list(DEEDS.values()))[0]
                getattr(self, deed)()
        except BaseException:
            self.write(broken=traceback.format_exc())

    def write(self, **entry: object) -> None:
        os.write(self.log, f"{json.dumps(entry)}\n".encode())

    def do(self, op: str, step: str | None, attempt: int | None = None, **how: object) -> dict:
        """Carry one operation out; its answer, empty if it was refused."""
        act = OPERATIONS[op]
        entry = {"op": op, "step": step, "attempt": attempt, "owner": self.owner, **how}
        entry["life"] = self.name
        entry["began"] = time.monotonic_ns()
        self.write(**entry)
        answer: dict = {}
        try:
            answer = act(self, step, attempt, **how)
            entry["said"] = {name: answer[name] for name in SAID if name in answer}
        except TugError as refusal:
            entry["refused"] = refusal.code
        except Exception:
            entry["broken"] = traceback.format_exc()
        self.write(**entry, ended=time.monotonic_ns())
        return answer

    def chance(self, of_hundred: int) -> bool:
        return self.random.randrange(100) < of_hundred

    def fresh(self) -> str:
        self.count += 1
        return f"{self.name}.{self.count}"

    # -- what it does ------------------------------------------------------------------

    def carry_out(self) -> None:
        """Claim a step and work on it; now and then the answer is taken for lost."""
        request = self.fresh() if self.chance(40) else None
        step = self.random.choice(list(self.steps)) if self.chance(30) else None
        how = {"request": request, "force": self.chance(10), "named": self.chance(45)}
        answer = self.do("claim", step, **how)
        while request is not None and self.chance(40):
            answer = self.do("claim", step, **how)
        if answer.get("claimed"):
            self.claims.append((answer["anchor"], answer["attempt"]))
            self.requests += [request] if request else []
            self.work(answer["anchor"], answer["attempt"])
        elif answer:
            self.be_a_person()

    def work(self, step: str, attempt: int) -> None:
        for op in self.random.choices(WORK, k=self.random.randint(0, 4)):
            if not self.do(op, self.part(step), attempt):
                return
        end = self.random.choice(ENDS)
        if end == "finish":
            self.do("close", step, attempt)
            self.do("complete", step, attempt)
        elif end != "leave":
            self.do(end, step, attempt)

    def part(self, step: str) -> str:
        """The step or one of its substeps."""
        return self.random.choice([step, *self.steps[step]])

    def wake_up_late(self) -> None:
        """Go on with some earlier claim, as if nothing had happened: everything is tried."""
        if self.claims:
            step, attempt = self.random.choice(self.claims[-20:])
            for op in self.random.sample(CHANGES, len(CHANGES)):
                whole = op in ("release", "wrest")
                self.do(op, step if whole else self.part(step), attempt)

    def ask_again(self) -> None:
        """Repeat a request of this place, perhaps one whose answer a dead worker never got."""
        if self.requests:
            request = self.random.choice(self.requests[-5:])
            self.do("claim", None, request=request, force=False, named=False)

    def be_a_person(self) -> None:
        """Take a step from whoever has it, or undo one that is done: so it never runs dry."""
        step = self.random.choice(list(self.steps))
        if self.chance(30):
            self.do("reset", self.part(step), actor=self.fresh())
        else:
            self.do("reopen", step, actor=self.fresh(), force=self.chance(70))

    def oversleep(self) -> None:
        # Its lease runs out meanwhile; nothing depends on whether it does.
        time.sleep(LEASE_SECONDS * 2 * self.random.random())

    def doze(self) -> None:
        """Take all that can be had, and stop: nobody is in the middle of anything meanwhile."""
        self.owner = "sleeper"
        for step in self.steps:
            self.do("claim", step, request=None, force=True, named=True)
        with self.store.read(self.plan):
            # Also who commits later than it answers, for which it is looked here, has done so.
            pass
        os.kill(os.getpid(), signal.SIGSTOP)

    def inherit(self) -> None:
        """Ask for every step, as somebody who never had any."""
        self.owner = "heir"
        for step in self.steps:
            self.do("claim", step, request=None, force=False, named=False)

    # -- the operations ----------------------------------------------------------------

    def claim(
        self, step: str | None, attempt: None, *, request: str | None, force: bool, named: bool
    ) -> dict:
        how = {"lease_seconds": LONG_LEASE_SECONDS if named else LEASE_SECONDS}
        how |= {"holder_pid": os.getpid() if named else None, "max_attempts": 10**6}
        asked = Request(self.owner, request_id=request, force=force, also=True, **how)
        answer = state.claim(self.store, self.plan, asked, copy=self.copy, step=step)
        return {**answer, "held": [each["anchor"] for each in answer.get("held_steps", ())]}

    def start(self, step: str, attempt: int) -> dict:
        return state.start(self.store, self.plan, step, owner=self.owner, attempt=attempt)

    def heartbeat(self, step: str, attempt: int) -> dict:
        return state.heartbeat(self.store, self.plan, step, owner=self.owner, attempt=attempt)

    def update(self, step: str, attempt: int, *, close: bool = False) -> dict:
        items = self.told["items"][step]
        chosen = self.random.sample(items, self.random.randint(0, len(items)))
        entries = [
            {"kind": kind, "ordinal": n, "status": self.random.choice(STATUSES), "reason": "so"}
            for kind, n in ([] if close else chosen or items[:1])
        ]
        how = {"owner": self.owner, "attempt": attempt, "copy": self.copy}
        close = close or not entries
        how |= {"complete_remaining": close}
        return state.update(self.store, self.plan, step, entries, **how)[0]

    def close(self, step: str, attempt: int) -> dict:
        return self.update(step, attempt, close=True)

    def artifact(self, step: str, attempt: int) -> dict:
        by = {"owner": self.owner, "attempt": attempt}
        return state.artifact(self.store, self.plan, step, kind="note", summary="seen", **by)

    def complete(self, step: str, attempt: int, *, reason: str | None = None) -> dict:
        how = {"owner": self.owner, "attempt": attempt, "copy": self.copy}
        return state.complete(self.store, self.plan, step, force_reason=reason, **how)

    def force(self, step: str, attempt: int) -> dict:
        return self.complete(step, attempt, reason="enough of it")

    def release(self, step: str, attempt: int, *, force: bool = False) -> dict:
        by = {"owner": self.owner, "attempt": attempt}
        return state.release(self.store, self.plan, step, force=force, **by)[0]

    def wrest(self, step: str, attempt: int) -> dict:
        return self.release(step, attempt, force=True)

    def reset(self, step: str, attempt: None, *, actor: str) -> dict:
        return state.reset(self.store, self.plan, step, actor=actor)[0]

    def reopen(self, step: str, attempt: None, *, actor: str, force: bool) -> dict:
        how = {"actor": actor, "force": force}
        return state.reopen(self.store, self.plan, step, reason="again", **how)


OPERATIONS: dict[str, Callable[..., dict]] = {
    name: getattr(Worker, name) for name in ("claim", *CHANGES, "reset", "reopen")
}
#: What is written down of an answer.
SAID = (
    *("anchor", "attempt", "claimed", "replayed", "reclaimed", "already_completed", "reset"),
    *("reason", "held"),
)


def _remembered(log: str) -> tuple[list[tuple[str, int]], list[str]]:
    """The claims that the end of a log tells of, and the requests that were made."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.stat(log).st_size - TAIL_BYTES))
            lines = file.read().splitlines()[1:]
    except FileNotFoundError:
        return [], []
    entries = [entry for line in lines if (entry := parsed(line)).get("op") == "claim"]
    answers = [entry["said"] for entry in entries if "said" in entry]
    claims = [(said["anchor"], said["attempt"]) for said in answers if said.get("claimed")]
    return claims, [entry["request"] for entry in entries if entry["request"]]


def parsed(line: bytes) -> dict:
    """A line of a log; nothing, if whoever wrote it was killed over it."""
    try:
        entry = json.loads(line)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}


def _name(told: dict, place: int, life: int) -> str:
    """What a worker is called in the logs: no other ever is."""
    return f"{told['bout']}.{place}.{life}"


# -- the killer ------------------------------------------------------------------------


class Killer:
    """Keeps so many workers going, and kills and stops them at random moments."""

    def __init__(self, told: dict) -> None:
        self.told, self.random = told, random.Random(f"{told['seed']} {told['bout']}")
        self.lives = self.kills = self.stops = 0
        #: Place -> the process that has it, and its name.
        self.crew: dict[int, tuple[int, str]] = {}
        #: Place -> when its worker, which is stopped, may go on.
        self.stopped: dict[int, float] = {}
        self.log = os.open(os.path.join(told["logs"], "deaths"), APPEND)

    def run(self) -> None:
        try:
            for place in range(self.told["workers"]):
                self.fork(place)
            end = time.monotonic() + self.told["seconds"]
            while time.monotonic() < end:
                # A random moment is what is tried here.
                time.sleep(self.random.uniform(0.001, 0.020))
                self.wake()
                self.strike(self.random.randrange(len(self.crew)))
        finally:
            for place in list(self.crew):
                self.end(place)
        self.bequeath()

    def bequeath(self) -> None:
        """Who is stopped has no heirs, and who is killed has them at once."""
        last = self.told["workers"]
        self.fork(last, Worker.doze)
        assert os.WIFSTOPPED(os.waitpid(self.crew[last][0], os.WUNTRACED)[1])
        for _ in range(2):
            self.fork(last + 1, Worker.inherit)
            os.waitpid(self.crew.pop(last + 1)[0], 0)
            if last in self.crew:
                self.end(last)

    def strike(self, place: int) -> None:
        roll = self.random.random()
        if roll < 0.5:
            self.end(place)
            self.kills += 1
            self.fork(place)
        elif roll < 0.7:
            os.kill(self.crew[place][0], signal.SIGSTOP)
            self.stops += 1
            self.stopped[place] = time.monotonic() + self.random.uniform(0.02, 0.2)

    def wake(self) -> None:
        for place, until in list(self.stopped.items()):
            if until < time.monotonic():
                os.kill(self.crew[place][0], signal.SIGCONT)
                del self.stopped[place]

    def end(self, place: int) -> None:
        pid, life = self.crew.pop(place)
        self.stopped.pop(place, None)
        entry = {"died": life, "struck": time.monotonic_ns()}
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        entry["reaped"] = time.monotonic_ns()
        os.write(self.log, f"{json.dumps(entry)}\n".encode())

    def fork(self, place: int, deed: Callable[[Worker], None] = Worker.run) -> None:
        self.lives += 1
        pid = os.fork()
        if pid == 0:
            try:
                deed(Worker(self.told, place, self.lives))
            finally:
                # No destructor closes anything, as nobody's does who is killed.
                os._exit(1)
        self.crew[place] = pid, _name(self.told, place, self.lives)


if __name__ == "__main__":
    told = json.loads(sys.argv[1])
    if told["fault"]:
        FAULTS[told["fault"]]()
    for name in ("claim", "start", "update", "complete", "release"):
        # Loaded when they are first used: once for all, not in every worker again.
        getattr(state, name)
    killer = Killer(told)
    killer.run()
    print(json.dumps({"kills": killer.kills, "stops": killer.stops}), flush=True)
