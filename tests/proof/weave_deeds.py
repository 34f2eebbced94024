"""Every operation that writes to the state, and states of a plan in which two of them collide.

Red holds step 1 under its second attempt; somebody still acts under the first; blue is a
stranger. All clocks stand still, so that the same order of deeds gives the same rows.
"""

import ast
import io
from collections.abc import Callable, Iterator
from pathlib import Path

import tugtool.state
from state_fixtures import KEY, NOON, Clock, Lab, entry, markdown
from tugtool import state
from tugtool.plan import fingerprint, parser
from tugtool.state import dashing, merging
from tugtool.state.record import PlanCopy
from tugtool.state.reporting import Note
from tugtool.state.revision import Allowed
from tugtool.state.verifying import Finding
from tugtool.store import open_store

LINES = ("1 tc", "1.1 t", "2 t < 1", "3 t")
REVISED = markdown("1 tc", "1.1 t", "2 tt < 1", "4 t")
TWISTED = markdown("1 ttc", "1.1 t", "2 t < 1", "3 t")
OTHER = ".tugtool/tugplan-other.md"
#: When everything is done to a plan that was begun at noon.
LATER = NOON + 3_600_000
#: A process that runs as long as any of this does.
INIT_PROCESS = 1
#: Work that goes from one worktree to another.
MAIN, FIX = "/main", "/fix"
STEP = "step-1"
#: As whoever is at work on it has read it.
DASH = {"id": 1, "name": "fix"}


class Hand(Lab):
    """Somebody at a database that is there already."""

    def __init__(self, directory: Path, now: int = LATER) -> None:
        self.clock = Clock(now)
        self.directory = directory
        self.url = f"sqlite://{directory / 'state.db'}"
        copies = str(directory / "copies")
        self.store = open_store(self.url, clock=self.clock, busy_seconds=20, copies=copies)
        self.text = markdown(*LINES)
        self.hash = fingerprint.of(self.text.encode())
        self.copy = PlanCopy("/the/plan.md", self.hash)
        self.max_attempts = 5

    def begin(self) -> None:
        """Record the plan, with a backup of it, and a dash."""
        state.init(self.store, KEY, parser.parse(self.text), text=self.text, hash=self.hash)
        (self.directory / "copies").mkdir(exist_ok=True)
        assert self.store.back_up() is None
        dashing.add(self.store, "fix", path=FIX, base=("main", "c0"), description="small")
        merging.begin(self.store, KEY, MAIN, head="c0", detail={"by": "an earlier run"})
        self.other().begin_other()

    def other(self) -> "Elsewhere":
        """A database of its own, from which a plan can be brought."""
        return Elsewhere(self.directory)


class Elsewhere:
    """Another plan as an export has it."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "other.jsonl"
        self.directory = directory

    def begin_other(self) -> None:
        store = open_store(f"sqlite://{self.directory / 'other.db'}", clock=Clock())
        text = markdown("1 t")
        hash = fingerprint.of(text.encode())
        state.init(store, OTHER, parser.parse(text), text=text, hash=hash)
        self.file.write_text("".join(state.export(store)))
        store.close()
        for each in self.directory.glob("other.db*"):
            each.unlink()


# -- scenes ----------------------------------------------------------------------------------


def fresh(lab: Hand) -> None:
    """Nobody has begun."""


def held(lab: Hand, lease: float = 7200) -> None:
    """Red is at work on step 1, for the second time; some of it is done."""
    lab.claim("red", STEP, lease_seconds=lease)
    lab.tick(STEP, "t0")
    lab.claim("red", STEP, lease_seconds=lease, request_id="the second")
    lab.start(STEP, attempt=2)
    lab.update(STEP, entry("c0", "deferred", reason="later"), attempt=2)


def closed(lab: Hand) -> None:
    """Red has only to say that step 1 is completed."""
    held(lab)
    lab.close(STEP, attempt=2)


def lapsed(lab: Hand) -> None:
    """The same, and red's lease has run out."""
    held(lab, lease=60)
    lab.close(STEP, attempt=2)


def done(lab: Hand) -> None:
    """Step 1 is completed, with something deferred."""
    closed(lab)
    lab.complete(STEP, attempt=2)


def finished(lab: Hand) -> None:
    """The whole plan is."""
    done(lab)
    lab.finish("step-2", "blue")
    lab.finish("step-3", "blue")


SCENES: dict[str, Callable[[Hand], None]] = {
    scene.__name__: scene for scene in (fresh, held, closed, lapsed, done, finished)
}


# -- deeds -----------------------------------------------------------------------------------


def _revise(hand: Hand, text: str, *flags: str) -> dict:
    allowed = Allowed(**dict.fromkeys(flags, True))
    hash = fingerprint.of(text.encode())
    plan = parser.parse(text)
    return state.revise(hand.store, KEY, plan, text=text, hash=hash, allowed=allowed)


def _verify(hand: Hand, attempt: int) -> dict:
    finding = Finding(STEP, 0, passed=True, evidence={"command": "true"})
    said = {"plan_hash": hand.hash, "summary": "all passed", "copy": hand.copy}
    who = {"owner": "red", "attempt": attempt}
    return state.verify(hand.store, KEY, STEP, [finding], **who, **said)


def _report(hand: Hand, attempt: int) -> dict:
    who = {"owner": "red", "attempt": attempt}
    note = Note("reviewer_verdict", "fine")
    return state.report(hand.store, KEY, STEP, **who, role="reviewer", tokens=7, note=note)


def _init(hand: Hand, key: str, text: str) -> dict:
    hash = fingerprint.of(text.encode())
    return state.init(hand.store, key, parser.parse(text), text=text, hash=hash)


def _prune(hand: Hand, places: dict[str, str]) -> dict:
    directory = str(hand.directory / "pruned")
    return state.prune(hand.store, where=lambda keys: places, directory=directory, done=True)


def _adopt(hand: Hand, attempt: int) -> dict:
    who = {"owner": "red", "attempt": attempt}
    return state.adopt(hand.store, KEY, STEP, **who, pid=INIT_PROCESS)


def _round(hand: Hand) -> None:
    made = dashing.Round(1, summary="done", commit="c1")
    dashing.record(hand.store, DASH, made, path=FIX)


def _dash(hand: Hand) -> None:
    if dashing.active(hand.store, "fix") is None:
        dashing.add(hand.store, "fix", path=FIX, base=("main", "c0"), description="again")


def _given_up(hand: Hand) -> None:
    _, row = merging.facts(hand.store, KEY, MAIN)
    merging.give_up(hand.store, KEY, MAIN, row["detail"] if row else "")


def _landed(hand: Hand, commit: str) -> None:
    merging.landed(hand.store, KEY, commit, branches=["b"], squashed=[STEP])


#: Operation -> what it is called here -> how it is done.
DEEDS: dict[str, dict[str, Callable[[Hand], object]]] = {
    "claiming.claim": {
        "red claims": lambda h: h.claim("red"),
        "red claims again": lambda h: h.claim("red", request_id="the second"),
        "blue claims": lambda h: h.claim("blue"),
        "blue claims and begins": lambda h: h.claim("blue", begins=True),
        "blue claims step 1": lambda h: h.claim("blue", STEP),
        "blue forces step 1": lambda h: h.claim("blue", STEP, force=True),
        "blue asks by id": lambda h: h.claim("blue", request_id="blue-1"),
    },
    "holding.start": {
        "red starts": lambda h: h.start(STEP, attempt=2),
        "red starts late": lambda h: h.start(STEP, attempt=1),
        "red starts a part": lambda h: h.start("step-1-1"),
    },
    "holding.heartbeat": {
        "red lives": lambda h: h.beat(STEP, attempt=2, lease_seconds=900),
        "red lived": lambda h: h.beat(STEP, attempt=1),
        "blue lives": lambda h: h.beat(STEP, "blue"),
    },
    "checklist.update": {
        "red ticks": lambda h: h.tick(STEP, "c0", attempt=2),
        "red opens": lambda h: h.tick(STEP, "t0", status="in_progress"),
        "red closes": lambda h: h.close(STEP),
        "red ticks late": lambda h: h.tick(STEP, "c0", attempt=1),
    },
    "checklist.artifact": {
        "red notes": lambda h: h.artifact(STEP),
        "red notes late": lambda h: h.artifact(STEP, attempt=1),
    },
    "finishing.complete": {
        "red completes": lambda h: h.complete(STEP, attempt=2, commit="c1"),
        "red completes a part": lambda h: h.complete("step-1-1"),
        "red forces": lambda h: h.complete(STEP, force_reason="enough"),
        "red completes late": lambda h: h.complete(STEP, attempt=1),
        "blue completes": lambda h: h.complete(STEP, "blue"),
    },
    "freeing.release": {
        "red releases": lambda h: h.release(STEP, attempt=2),
        "red fails": lambda h: h.release(STEP, failure="broken", leaving_work=True),
        "blue releases": lambda h: h.release(STEP, "blue", force=True, park_reason="stuck"),
    },
    "freeing.reset": {
        "reset": lambda h: h.reset(STEP),
        "reset of a part": lambda h: h.reset("step-1-1"),
    },
    "freeing.reopen": {
        "reopen": lambda h: h.reopen(STEP),
        "reopen by force": lambda h: h.reopen(STEP, force=True),
    },
    "reviewing.accept": {"accept": lambda h: h.accept(STEP)},
    "reviewing.reject": {"reject": lambda h: h.reject(STEP)},
    "flow.pause": {"pause": lambda h: h.pause()},
    "flow.resume": {"resume": lambda h: h.resume()},
    "upkeep.archive": {
        "archive": lambda h: h.archive(),
        "unarchive": lambda h: h.archive(undo=True),
    },
    "setup.init": {
        "init": lambda h: _init(h, KEY, h.text),
        "init of another": lambda h: _init(h, OTHER, markdown("1 t")),
    },
    "revising.revise": {
        "revise": lambda h: _revise(h, REVISED, "drop_claimed", "drop_completed"),
        "revise step 1": lambda h: _revise(h, TWISTED, "reopen_changed", "drop_claimed"),
        "revise kindly": lambda h: _revise(h, TWISTED),
    },
    "reconciling.reconcile": {
        "reconcile": lambda h: h.reconcile(STEP, attempt=2),
        "reconcile more": lambda h: h.reconcile(STEP, "step-2", attempt=3, force=True),
    },
    "reporting.report": {
        "red reports": lambda h: _report(h, 2),
        "red reports late": lambda h: _report(h, 1),
    },
    "recounting.recount": {"recount": lambda h: state.recount(h.store, KEY)},
    "verifying.verify": {
        "red verifies": lambda h: _verify(h, 2),
        "red verifies late": lambda h: _verify(h, 1),
    },
    "hosting.adopt": {"red adopts": lambda h: _adopt(h, 2)},
    "hosting.let_go": {
        "red lets go": lambda h: state.let_go(h.store, KEY, STEP, owner="red", attempt=2)
    },
    "importing.import_": {
        "import": lambda h: state.import_(h.store, io.BytesIO(h.other().file.read_bytes()))
    },
    "pruning.prune": {
        "prune": lambda h: _prune(h, {}),
        "prune what is done": lambda h: _prune(h, {KEY: "on main"}),
    },
    "pruning.drop": {},
    "restoring.restore": {"restore": lambda h: state.restore(h.store)},
    "restoring.restore_lost": {},
    "dashing.add": {"dash": _dash},
    "dashing.describe": {"describe": lambda h: dashing.describe(h.store, DASH, "new words")},
    "dashing.intend": {
        "intend": lambda h: dashing.intend(h.store, "dash", FIX, head="c0", detail={"n": 1})
    },
    "dashing.drop": {"drop": lambda h: dashing.drop(h.store, "dash", FIX)},
    "dashing.record": {"round": _round},
    "dashing.join": {"join": lambda h: dashing.join(h.store, 1, "c2")},
    "dashing.release": {
        "dash release": lambda h: dashing.release(h.store, DASH, FIX, salvage_ref="refs/tug/x")
    },
    "merging.begin": {
        "merge": lambda h: merging.begin(h.store, KEY, MAIN, head="c3", detail={"by": "me"})
    },
    "merging.give_up": {"give up": _given_up},
    "merging.landed": {
        "landed": lambda h: _landed(h, "c4"),
        "landed otherwise": lambda h: _landed(h, "c5"),
    },
    "merging.end": {"end": lambda h: merging.end(h.store, KEY, MAIN, gone=["red"])},
}
#: What is only ever done by another of the operations, in whose deeds it is.
INNER = {"pruning.drop", "restoring.restore_lost"}
#: Deed -> how it is done.
BY_NAME = {name: deed for deeds in DEEDS.values() for name, deed in deeds.items()}


def writing_operations(source: Path | None = None) -> set[str]:
    """`module.function` of all in `tugtool.state` that open a transaction in which to write."""
    source = source or Path(tugtool.state.__file__).parent
    return {
        f"{path.stem}.{name}"
        for path in sorted(source.glob("*.py"))
        for name in _writers(ast.parse(path.read_text()))
        if not name.startswith("_")
    }


def _writers(module: ast.Module) -> set[str]:
    """Functions that write themselves, or call one of the same module that does."""
    functions = {each.name: each for each in module.body if isinstance(each, ast.FunctionDef)}
    found = {name for name, each in functions.items() if any(map(_writes, _calls(each)))}
    while True:
        more = {
            name
            for name, each in functions.items()
            if any(isinstance(c.func, ast.Name) and c.func.id in found for c in _calls(each))
        }
        if more <= found:
            return found
        found |= more


def _calls(function: ast.AST) -> Iterator[ast.Call]:
    return (each for each in ast.walk(function) if isinstance(each, ast.Call))


def _writes(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and (
        call.func.attr == "rescue"
        or (call.func.attr == "write" and ast.unparse(call.func.value) in ("store", "copy"))
    )
