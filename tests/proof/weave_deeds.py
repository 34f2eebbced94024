"""Every operation that writes to the state, and states of a plan in which two of them collide.

Red holds step 1 under its second attempt; somebody still acts under the first; blue is a
stranger. All clocks stand still, so that the same order of deeds gives the same rows.
"""

import ast
import io
from collections.abc import Callable, Iterator
from pathlib import Path

import tugtool.state
from support.state import KEY, NOON, Clock, Lab, entry, markdown
from tugtool import state
from tugtool.plan import fingerprint, parser
from tugtool.state import (
    attempts,
    dashes,
    intents,
    plans,
    proofs,
    publication,
    releases,
    requests,
    reviews,
    worktrees,
)
from tugtool.state.attempts import Note
from tugtool.state.completion import Finding
from tugtool.state.record import PlanCopy
from tugtool.state.revision_plan import Allowed
from tugtool.store import back_up, open_store
from tugtool.system import clock

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
#: The file that has the address of a state in PostgreSQL.
ADDRESS = "address"
#: A worktree of the plan.
TREE = "/tree"
#: As whoever is at work on it has read it.
DASH = {"id": 1, "name": "fix"}


class Hand(Lab):
    """Somebody at a database that is there already."""

    def __init__(self, directory: Path, now: int = LATER) -> None:
        self.clock = Clock(now)
        self.directory = directory
        # Where it lies elsewhere, a file beside it says so.
        address = directory / ADDRESS
        self.url = address.read_text() if address.exists() else f"sqlite://{directory}/state.db"
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
        assert back_up(self.store) is None
        dashes.add(self.store, "fix", path=FIX, base=("main", "c0"), description="small")
        intents.add(self.store, KEY, "merge", MAIN, head="c0", detail={"by": "an earlier run"})
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
    allowed = Allowed(revert=True, **dict.fromkeys(flags, True))
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


def _begin_role(hand: Hand, attempt: int) -> None:
    who = {"owner": "red", "attempt": attempt}
    attempts.begin_role(hand.store, KEY, STEP, **who, role="reviewer")


def _remember(hand: Hand, key: str) -> None:
    what = {"command": "state pause", "request_hash": "1a", "answer": "{}"}
    requests.remember(hand.store, "Ada", key, **what)


def _tried_again(hand: Hand) -> None:
    how = {"owner": "red", "attempt": 2, "role": "coder", "reason": "busy"}
    attempts.note_retry(hand.store, KEY, STEP, **how)


def _accept_all(hand: Hand) -> dict:
    """As listed beforehand: what was read in the same breath would not be one transaction."""
    listed = [
        {"step_anchor": anchor, "kind": "task", "ordinal": 0, "text": f"task 0 of {number}"}
        for anchor, number in ((STEP, "1"), ("step-1-1", "1.1"))
    ]
    accepted, rest = reviews.accept_all(hand.store, KEY, listed, by="Ada")
    return {"accepted": accepted, "rest": rest}


def _retry(hand: Hand) -> dict:
    listed = {STEP: clock.text(hand.clock())}
    freed, unsaved = releases.retry(hand.store, KEY, listed, by="Ada", note="again")
    return {"freed": freed, "unsaved": unsaved}


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
    made = dashes.Round(1, summary="done", commit="c1")
    dashes.record(hand.store, DASH, made, path=FIX)


def _dash(hand: Hand) -> None:
    if dashes.active(hand.store, "fix") is None:
        dashes.add(hand.store, "fix", path=FIX, base=("main", "c0"), description="again")


def _given_up(hand: Hand) -> None:
    _, row = proofs.merge_facts(hand.store, KEY, MAIN)
    proofs.give_up(hand.store, KEY, MAIN, row["detail"] if row else "")


def _landed(hand: Hand, commit: str) -> None:
    proofs.landed(hand.store, KEY, commit, branches=["b"], squashed=[STEP])


def _begin_commit(hand: Hand, attempt: int) -> bool:
    what = {"owner": "red", "attempt": attempt, "head": "c0"}
    how = {"detail": lambda now: (now, "begun"), "written": lambda: None}
    return intents.begin_commit(hand.store, KEY, STEP, **what, **how)


def _change_commit(hand: Hand, detail: str) -> bool:
    row = intents.find_intent(hand.store, "commit", "red")
    seen = {"created_at": row["created_at"], "seen": "begun"} if row else {}
    which = {"owner": "red", "created_at": "", "seen": "", **seen}
    return intents.change_commit(hand.store, KEY, **which, detail=detail)


def _end_commit(hand: Hand) -> None:
    row = intents.find_intent(hand.store, "commit", "red")
    at = row["created_at"] if row else ""
    intents.end_commit(hand.store, KEY, owner="red", created_at=at)


def _intend_creation(hand: Hand) -> None:
    def choose(branches: set[str], paths: list[str], date: str) -> list[tuple[str, str]]:
        return [(TREE, f"{date}-{len(branches)}-{len(paths)}")]

    base = {"base_branch": "main", "base_commit": "c0"}
    worktrees.intend_creation(hand.store, KEY, choose, **base)


def _add_worktree(hand: Hand) -> list[str]:
    base = {"base_branch": "main", "base_commit": "c0"}
    rows = worktrees.add(hand.store, KEY, [(TREE, "b", "red's")], **base)
    return [row["branch"] for row in rows]


def _forget_worktree(hand: Hand) -> None:
    detail = {"branch": "b"}
    worktrees.forget(hand.store, KEY, TREE, intents=["create", "remove"], detail=detail)


def _reserve(hand: Hand) -> str | None:
    if worktrees.find_worktree(hand.store, TREE) is None:
        return None
    return worktrees.reserve(hand.store, KEY, TREE, request="blue's")["reserved_for"]


def _take_over(hand: Hand) -> bool:
    how = {"request": "green's", "allowed": lambda request: request == "red's"}
    return worktrees.take_over(hand.store, KEY, TREE, **how)[1]


def _saved(hand: Hand) -> None:
    row = {"plan_path": KEY, "step_anchor": STEP, "number": 1, "worktree": "red"}
    attempts.mark_saved(hand.store, row, "refs/tug/saved")


#: Operation -> what it is called here -> how it is done.
#: A commit of step 1 as the remote has it, or not.
PUSHED = {"step_anchor": STEP, "commit_hash": "c-1", "branch": "b", "problem": None}
DEEDS: dict[str, dict[str, Callable[[Hand], object]]] = {
    "claims.claim": {
        "red claims": lambda h: h.claim("red"),
        "red claims again": lambda h: h.claim("red", request_id="the second"),
        "blue claims": lambda h: h.claim("blue"),
        "blue claims and begins": lambda h: h.claim("blue", begins=True),
        "blue claims step 1": lambda h: h.claim("blue", STEP),
        "blue forces step 1": lambda h: h.claim("blue", STEP, force=True),
        "blue asks by id": lambda h: h.claim("blue", request_id="blue-1"),
    },
    "leases.start": {
        "red starts": lambda h: h.start(STEP, attempt=2),
        "red starts late": lambda h: h.start(STEP, attempt=1),
        "red starts a part": lambda h: h.start("step-1-1"),
    },
    "leases.heartbeat": {
        "red lives": lambda h: h.beat(STEP, attempt=2, lease_seconds=900),
        "red lived": lambda h: h.beat(STEP, attempt=1),
        "blue lives": lambda h: h.beat(STEP, "blue"),
    },
    "checklists.update": {
        "red ticks": lambda h: h.tick(STEP, "c0", attempt=2),
        "red opens": lambda h: h.tick(STEP, "t0", status="in_progress"),
        "red closes": lambda h: h.close(STEP),
        "red ticks late": lambda h: h.tick(STEP, "c0", attempt=1),
    },
    "checklists.artifact": {
        "red notes": lambda h: h.artifact(STEP),
        "red notes late": lambda h: h.artifact(STEP, attempt=1),
    },
    "publication.published": {
        "red publishes": lambda h: publication.published(h.store, KEY, [PUSHED], actor="red"),
    },
    "publication.not_published": {
        "red cannot publish": lambda h: publication.not_published(h.store, KEY, [PUSHED], "away"),
    },
    "publication.lost": {
        "red's commit is lost": lambda h: publication.lost(h.store, KEY, {STEP: "c-1"}, "away"),
    },
    "completion.complete": {
        "red completes": lambda h: h.complete(STEP, attempt=2, commit="c1"),
        "red completes a part": lambda h: h.complete("step-1-1"),
        "red forces": lambda h: h.complete(STEP, force_reason="enough"),
        "red completes late": lambda h: h.complete(STEP, attempt=1),
        "blue completes": lambda h: h.complete(STEP, "blue"),
    },
    "releases.release": {
        "red releases": lambda h: h.release(STEP, attempt=2),
        "red fails": lambda h: h.release(STEP, failure="broken", leaving_work=True),
        "blue releases": lambda h: h.release(STEP, "blue", force=True, park_reason="stuck"),
    },
    "releases.reset": {
        "reset": lambda h: h.reset(STEP),
        "reset of a part": lambda h: h.reset("step-1-1"),
    },
    "releases.reopen": {
        "reopen": lambda h: h.reopen(STEP),
        "reopen by force": lambda h: h.reopen(STEP, force=True),
    },
    "reviews.accept": {"accept": lambda h: h.accept(STEP)},
    "reviews.accept_all": {"accept all": _accept_all},
    "releases.retry": {"retry": _retry},
    "reviews.reject": {"reject": lambda h: h.reject(STEP)},
    "releases.pause": {"pause": lambda h: h.pause()},
    "releases.resume": {"resume": lambda h: h.resume()},
    "upkeep.archive": {
        "archive": lambda h: h.archive(),
        "unarchive": lambda h: h.archive(undo=True),
    },
    "plans.init": {
        "init": lambda h: _init(h, KEY, h.text),
        "init of another": lambda h: _init(h, OTHER, markdown("1 t")),
    },
    "revisions.revise": {
        "revise": lambda h: _revise(h, REVISED, "drop_claimed", "drop_completed"),
        "revise step 1": lambda h: _revise(h, TWISTED, "reopen_changed", "drop_claimed"),
        "revise kindly": lambda h: _revise(h, TWISTED),
    },
    "proofs.reconcile": {
        "reconcile": lambda h: h.reconcile(STEP, attempt=2),
        "reconcile more": lambda h: h.reconcile(STEP, "step-2", attempt=3, force=True),
    },
    "attempts.report": {
        "red reports": lambda h: _report(h, 2),
        "red reports late": lambda h: _report(h, 1),
    },
    "attempts.begin_role": {
        "red's reviewer begins": lambda h: _begin_role(h, 2),
        "red's reviewer begins late": lambda h: _begin_role(h, 1),
    },
    "requests.remember": {
        "an answer is kept": lambda h: _remember(h, "k1"),
        "another answer is kept": lambda h: _remember(h, "k2"),
    },
    "plans.recount": {"recount": lambda h: state.recount(h.store, KEY)},
    "plans.move": {},
    "leases.judge_from_now": {"judge from now": lambda h: state.judge_from_now(h.store, KEY)},
    "completion.verify": {
        "red verifies": lambda h: _verify(h, 2),
        "red verifies late": lambda h: _verify(h, 1),
    },
    "leases.adopt": {"red adopts": lambda h: _adopt(h, 2)},
    "leases.let_go": {
        "red lets go": lambda h: state.let_go(h.store, KEY, STEP, owner="red", attempt=2)
    },
    "transfer.import_": {
        "import": lambda h: state.import_(h.store, io.BytesIO(h.other().file.read_bytes()))
    },
    "upkeep.prune": {
        "prune": lambda h: _prune(h, {}),
        "prune what is done": lambda h: _prune(h, {KEY: "on main"}),
    },
    "upkeep.drop": {},
    "upkeep.restore": {"restore": lambda h: state.restore(h.store)},
    "upkeep.put_back": {},
    "dashes.add": {"dash": _dash},
    "dashes.describe": {"describe": lambda h: dashes.describe(h.store, DASH, "new words")},
    "dashes.record": {"round": _round},
    "dashes.join": {"join": lambda h: dashes.join(h.store, 1, "c2")},
    "dashes.release": {
        "dash release": lambda h: dashes.release(h.store, DASH, FIX, salvage_ref="refs/tug/x")
    },
    "intents.add": {
        "intend": lambda h: intents.add(h.store, "", "dash", FIX, head="c0", detail={"n": 1}),
        "merge": lambda h: intents.add(h.store, KEY, "merge", MAIN, head="c3", detail={"by": "me"}),
    },
    "intents.drop": {"drop": lambda h: intents.drop(h.store, "", "dash", FIX)},
    "intents.begin_commit": {
        "red begins a commit": lambda h: _begin_commit(h, 2),
        "red begins a commit late": lambda h: _begin_commit(h, 1),
    },
    "intents.change_commit": {
        "red takes a commit over": lambda h: _change_commit(h, "mine"),
        "red leaves a commit": lambda h: _change_commit(h, "nobody's"),
    },
    "intents.end_commit": {"red ends a commit": _end_commit},
    "plans.set_base": {"set base": lambda h: plans.set_base(h.store, KEY, "c0")},
    "attempts.note_run": {
        "run ends": lambda h: attempts.note_run(h.store, KEY, "finished", status="budget")
    },
    "attempts.note_retry": {"red's agent is tried again": _tried_again},
    "attempts.mark_saved": {"saved": _saved},
    "attempts.close_worktree": {
        "red's is gone": lambda h: attempts.close_worktree(h.store, "red", "refs/tug/x")
    },
    "attempts.set_ref": {
        "set ref": lambda h: attempts.set_ref(h.store, KEY, STEP, 1, ref="refs/tug/saved")
    },
    "attempts.forget_ref": {
        "forget ref": lambda h: attempts.forget_ref(
            h.store, "refs/tug/saved", commit="c9", actor="person"
        )
    },
    "worktrees.intend_creation": {"intend a worktree": _intend_creation},
    "worktrees.add": {"add a worktree": _add_worktree},
    "worktrees.forget": {"forget a worktree": _forget_worktree},
    "worktrees.reserve": {"reserve": _reserve},
    "worktrees.keep": {
        "keep a worktree": lambda h: worktrees.keep(h.store, KEY, TREE, request="red's")
    },
    "worktrees.take_over": {"take over": _take_over},
    "worktrees.end_reservation": {
        "give up a worktree": lambda h: worktrees.end_reservation(
            h.store, KEY, TREE, request="red's"
        )
    },
    "proofs.give_up": {"give up": _given_up},
    "proofs.landed": {
        "landed": lambda h: _landed(h, "c4"),
        "landed otherwise": lambda h: _landed(h, "c5"),
    },
    "proofs.pushed": {
        "pushed": lambda h: proofs.pushed(h.store, KEY, "c4", branch="main", actor="red"),
    },
    "proofs.end": {"end": lambda h: proofs.end(h.store, KEY, MAIN, gone=["red"])},
}
#: What is only ever done by another of the operations, in whose deeds it is; and the move, after
#: which a plan has another name than all that looks at it here: tests/state/test_move.py has it.
INNER = {"upkeep.drop", "upkeep.put_back", "plans.move"}
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
