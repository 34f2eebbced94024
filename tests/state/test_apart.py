"""Two plans in one database, with the same anchors and the same workers, never touch each other."""

import pytest

from support import engines
from support.proving import sampled
from support.state import KEY, Clock, Lab, entry, markdown
from support.state_walk import NOBODY
from tugtool import state
from tugtool.errors import TugError
from tugtool.plan import fingerprint, parser
from tugtool.state.claims import Request
from tugtool.state.completion import Finding
from tugtool.state.record import PlanCopy
from tugtool.store import open_store

pytestmark = pytest.mark.usefixtures("named_writes")

LINES = ("1 tt", "1.1 t", "1.2 t < 1.1", "2 t < 1.2", "3 tc < 1.1 1.2", "4 t", "5 c < 4", "6 t")
#: One of them comes before the plan in question, the other after it.
OTHERS = (".tugtool/tugplan-a.md", ".tugtool/tugplan-z.md")
TABLES = (
    "plans",
    "plan_counts",
    "steps",
    "step_deps",
    "checklist_items",
    "step_artifacts",
    "attempts",
    "events",
)


class Other:
    """The other plan: the same text, but further along, or held by the same people."""

    def __init__(self, store, key: str) -> None:
        self.store, self.key = store, key
        self.text = markdown(*LINES) + "\nAnother plan.\n"
        self.hash = fingerprint.of(self.text.encode())
        parsed = parser.parse(self.text)
        state.init(store, key, parsed, text=self.text, hash=self.hash)

    def claim(self, owner: str, step: str, **how: object) -> None:
        copy = PlanCopy("/another.md", self.hash)
        request = Request(owner, also=True, **how)
        state.claim(self.store, self.key, request, copy=copy, step=step)

    def held(self) -> None:
        """Every step that can be had is held: one's lease has run out, one's holder is gone."""
        self.claim("red", "step-1", lease_seconds=1, request_id="first")
        state.start(self.store, self.key, "step-1-1", owner="red")
        self.claim("blue", "step-4", holder_pid=NOBODY)
        self.claim("red", "step-6", max_attempts=1)
        # What lies in a worktree is to be saved.
        self.claim("green", "step-4", force=True)
        state.pause(self.store, self.key)

    def begun(self) -> None:
        """Other steps are ready than in the plan in question."""
        self.claim("green", "step-1")
        copy = PlanCopy("/another.md", self.hash)
        how = {"owner": "green", "copy": copy, "force_reason": "enough"}
        state.complete(self.store, self.key, "step-1", **how)

    def done(self) -> None:
        copy = PlanCopy("/another.md", self.hash)
        for step in ("step-1", "step-2", "step-3", "step-4", "step-5", "step-6"):
            self.claim("green", step, request_id="again" if step == "step-1" else None)
            how = {"owner": "green", "copy": copy, "force_reason": "enough", "commit": "c9"}
            state.complete(self.store, self.key, step, **how)

    def parked(self) -> None:
        for step in ("step-1", "step-4", "step-6"):
            self.claim("blue", step)
            how = {"owner": "blue", "attempt": 1, "park_reason": "look"}
            state.release(self.store, self.key, step, **how)

    def rows(self) -> dict[str, list[dict]]:
        where = "where plan_path = :key"
        with self.store.read(self.key) as tx:
            return {
                t: list(map(dict, tx.all(f"select * from {t} {where}", key=self.key)))
                for t in TABLES
            }


def story(lab: Lab):
    """Everything that a plan goes through; each part gives what was answered."""
    yield lambda: lab.claim("red", request_id="first", lease_seconds=100)
    yield lambda: lab.claim("red", request_id="first")
    yield lambda: lab.release("step-1")
    yield lambda: lab.claim("red", lease_seconds=100)
    yield lambda: lab.claim("blue")
    yield lambda: lab.claim("green", holder_pid=NOBODY)
    yield lambda: lab.claim("blue", "step-6", holder_pid=NOBODY)
    yield lambda: lab.claim("green")
    yield lambda: lab.start("step-1-1", attempt=2)
    yield lambda: lab.start("step-1-2")
    yield lambda: lab.tick("step-1", "t0", status="in_progress")
    yield lambda: lab.artifact("step-1")
    yield lambda: state.standing(lab.store, KEY, "step-1", owner="red", attempt=2)
    yield lambda: lab.reset("step-1-1")
    yield lambda: lab.release("step-4", "blue")
    yield lambda: lab.release("step-6", "blue", park_reason="look", force=True)
    yield lambda: lab.release("step-6", "green", park_reason="look", force=True)
    yield lambda: state.standing(lab.store, KEY, "step-4", owner="blue", attempt=1)
    yield lambda: lab.reset("step-6")
    yield lambda: lab.claim("blue", force=True)
    yield lambda: lab.clock.advance(200)
    yield lambda: lab.ready()
    yield lambda: lab.claim("green", "step-1", lease_seconds=100)
    yield lambda: lab.update("step-1", entry("t0", "deferred"), owner="green")
    yield lambda: lab.beat("step-1-1", "green")
    yield lambda: state.adopt(lab.store, KEY, "step-1", owner="green", attempt=3, pid=NOBODY)
    yield lambda: state.let_go(lab.store, KEY, "step-1", owner="green", attempt=3)
    yield lambda: lab.complete("step-1-1", "green", force_reason="enough")
    yield lambda: lab.tick("step-1-1", "t0", status="open", owner="green")
    yield lambda: lab.claim("red", "step-2")
    yield lambda: lab.close("step-1", "green")
    yield lambda: lab.complete("step-1", "green", commit="c1")
    yield lambda: lab.claim("red", "step-3")
    yield lambda: verify(lab, "step-3")
    yield lambda: lab.reopen("step-1")
    yield lambda: lab.reset("step-3")
    yield lambda: lab.reopen("step-1")
    yield lambda: lab.claim("red")
    yield lambda: lab.pause()
    yield lambda: lab.claim("green", "step-6")
    yield lambda: lab.resume()
    yield lambda: lab.claim("green", "step-6", max_attempts=1)
    yield lambda: lab.claim("violet")
    yield lambda: lab.claim("violet", force=True)
    yield lambda: lab.claim("violet", request_id="again")
    for step in ("step-1", "step-2", "step-3", "step-4", "step-5", "step-6"):
        yield lambda step=step: lab.claim("red", step, force=True)
        yield lambda step=step: lab.complete(step, force_reason="enough")
    yield lambda: lab.claim("red")
    yield lambda: lab.accept("step-1")
    yield lambda: lab.reopen("step-6")
    yield lambda: lab.reconcile("step-6", attempt=99)
    yield lambda: lab.reconcile("step-1", "step-4", attempt=99, force=True)
    yield lambda: lab.show()


def verify(lab: Lab, step: str) -> dict:
    findings = [Finding(step, 0, passed=True, evidence={})]
    how = {"owner": "red", "attempt": 1, "copy": lab.copy, "plan_hash": lab.hash, "summary": "x"}
    return state.verify(lab.store, KEY, step, findings, **how)


def told(part) -> object:
    """The answer, or the refusal; bar numbers that all plans share."""
    try:
        return _plain(part())
    except TugError as error:
        if error.code in ("E046", "E047"):
            raise  # no refusal of ours: the schema caught a fault
        return error.code, error.message


def _plain(answer: object) -> object:
    if isinstance(answer, dict):
        return {key: _plain(each) for key, each in answer.items() if key != "artifact_id"}
    return [_plain(each) for each in answer] if isinstance(answer, list) else answer


@pytest.mark.parametrize("key", OTHERS)
@pytest.mark.parametrize("how", sampled(["held", "begun", "done", "parked"], 2))
def test_a_plan_goes_its_way_whatever_another_one_does(tmp_path, key, how):
    for name in ("alone", "both"):
        (tmp_path / name).mkdir()
    alone = Lab(tmp_path / "alone", *LINES)
    store = open_store(engines.url_in(tmp_path / "both"), clock=Clock())
    other = Other(store, key)
    both = Lab(tmp_path / "both", *LINES)
    getattr(other, how)()
    for each in (alone, both):
        each.clock.advance(10)
    before = other.rows()
    for number, parts in enumerate(zip(story(alone), story(both), strict=True)):
        expected, found = map(told, parts)
        assert found == expected, number
        assert other.rows() == before, number
    for each in (alone.store, both.store, store):
        each.close()
