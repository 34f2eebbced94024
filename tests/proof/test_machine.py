"""The state against a plain model of it: any history of operations, crashes of all kinds included.

Random plans and histories; `machine.py` has the rules, `model.py` what has to come of them.
The harness is shown to notice planted faults.
"""

from collections import Counter

import machine
import pytest

from support import leaks
from tugtool.errors import TugError
from tugtool.state import attempts, checklists, claims, leases, proofs, record
from tugtool.store import sql

#: All but what is random here has an end of its own.
pytestmark = pytest.mark.proof(share=0)

RUNS, STEPS = 60, 40
#: A history takes several times as long on a server.
SHARE_ON_SERVER = 5


@pytest.mark.proof(share=4)
def test_the_state_is_what_the_model_says(engine, spell):
    tally: Counter = Counter()
    runs = RUNS if engine == "sqlite" else RUNS // SHARE_ON_SERVER
    for number in spell.seeds():
        tally += machine.run(number, runs=runs, steps=STEPS)
    done = {name for name, how in tally if how == "done"}
    assert done >= {"claim", "start", "update", "complete", "release", "reset", "revise"}
    assert done >= {"heartbeat", "artifact", "report", "adopt", "let_go"}
    spell.tell(_told(tally))


@pytest.mark.parametrize("number", range(4))
def test_the_same_histories_every_time(engine, number):
    """Nothing random: for faults that take many steps, as mutants.json knows them."""
    runs = 12 if engine == "sqlite" else 3
    assert machine.run(number, runs=runs, steps=40, shrink=False)["claim", "done"]


def _told(tally: Counter) -> str:
    """`claim 520 (E050 31, E053 8); start ...`: how often each succeeded, and was refused."""
    words = [f"{tally['run', 'done']} histories, {sum(tally.values())} calls"]
    for name in sorted({name for name, _ in tally} - {"run"}):
        others = {how: n for (its, how), n in sorted(tally.items()) if its == name}
        done = others.pop("done", 0)
        refused = ", ".join(f"{how} {n}" for how, n in others.items())
        words.append(f"{name} {done}" + (f" ({refused})" if refused else ""))
    return "; ".join(words)


REOPEN = record.reopen_unfinished
#: What is wrong -> where, and what stands there instead.
FAULTS = {
    "the fence is gone": (record, "refuse_stale", lambda plan, top, attempt: None),
    "anybody is the owner": (record, "refuse_stranger", lambda plan, top, owner: None),
    "the own step is not first": (
        *(sql, "CLAIMABLE_STEPS"),
        sql.CLAIMABLE_STEPS.replace("claimed_by = :owner", "claimed_by = ''"),
    ),
    "the lease is compared the wrong way round": (
        *(sql, "CLAIMABLE_STEPS"),
        sql.CLAIMABLE_STEPS.replace("lease_expires_at < :now", "lease_expires_at > :now"),
    ),
    "a claim loses what was deferred": (
        *(record, "reopen_unfinished"),
        lambda tx, row, *statuses: REOPEN(tx, row, *statuses, "deferred"),
    ),
    "who waits is not told": (record, "_dependents", lambda tx, step, by: ([], 0)),
    "a request id means nothing": (claims, "_replay", lambda tx, row, request: None),
    "the next worker does not hear of a reopening": (attempts, "reopened", lambda tx, anchor: None),
    "progress does not count": (record, "progress", lambda tx, anchor: None),
    "a write is no sign of life": (checklists.record, "renew", lambda tx, top, s=None: tx.now),
    "substeps do not wait": (leases, "refuse_early", lambda tx, substep: None),
    "reset leaves the substeps held": (
        *(sql, "FREE_SUBSTEPS"),
        sql.FREE_SUBSTEPS.replace("<> 'completed'", "= ''"),
    ),
    "dead processes hold on": (record, "gone", lambda tx, plan=None: set()),
    "a request is answered again when its claim has ended": (
        *(sql, "REQUESTED"),
        sql.REQUESTED.replace("select *", "select step_anchor, number, null as ended_at"),
    ),
    "a restore gives numbers out again": (
        *(sql, "RAISE_ATTEMPTS"),
        sql.RAISE_ATTEMPTS.replace("attempt + :by", "attempt + 0 * :by"),
    ),
    "a parked step was ready when git completes it": (
        *(proofs, "_complete"),
        leaks.rewritten(proofs._complete, ' and now["parked_at"] is None'),
    ),
}


#: Where a search comes upon the fault soon; elsewhere it takes longer.
SEEDS = {"substeps do not wait": 8}
#: On a server too: one of a statement, one of what is written, one of who may write.
SERVER_FAULTS = [
    "the lease is compared the wrong way round",
    "reset leaves the substeps held",
    "a request id means nothing",
    "the fence is gone",
]


@pytest.mark.parametrize("fault", FAULTS)
def test_the_machine_notices_a_planted_fault(monkeypatch, fault):
    leaks.replace(monkeypatch, *FAULTS[fault])
    with pytest.raises((AssertionError, TugError)):
        machine.run(SEEDS.get(fault, 1), runs=400, steps=40, shrink=False)


@pytest.mark.parametrize("fault", SERVER_FAULTS)
def test_so_it_does_on_both_engines(engine, monkeypatch, fault):
    leaks.replace(monkeypatch, *FAULTS[fault])
    with pytest.raises((AssertionError, TugError)):
        machine.run(SEEDS.get(fault, 1), runs=400, steps=40, shrink=False)


def test_a_failure_says_the_way_there(monkeypatch):
    leaks.replace(monkeypatch, record, "refuse_stale", lambda plan, top, attempt: None)
    with pytest.raises(AssertionError) as caught:
        machine.run(1, runs=100, steps=20, shrink=False)
    script = "\n".join(caught.value.__notes__)
    assert "state = Run()" in script
    assert "state.teardown()" in script
