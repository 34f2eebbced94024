"""A run from its beginning to its end: workers are started, waited for, and the plan concluded."""

from __future__ import annotations

import os
import threading

from tugtool import state
from tugtool.errors import TugError, quoted
from tugtool.git_errors import NotMade
from tugtool.implement import finale, leaving, outlook, settling
from tugtool.implement.ends import Stopped
from tugtool.implement.worker import Worker
from tugtool.store import sql
from tugtool.worktree import making, planfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.implement.run import Run
    from tugtool.store import Row, Store

    Data = dict[str, object]
#: About five thousand files: to check them out takes a moment, and not many.
SMALL_INDEX_BYTES = 1 << 19


def prepare(run: Run, store: Store) -> None:
    """Refuse what cannot be carried out, before anything is begun; the plan gets its state."""
    store.create()
    with store.read(run.plan) as tx:
        known = tx.first(sql.PLAN) is not None
    if known:
        planfile.refuse_drift(store, run.order)
        # First of all: where a step was only to be completed, no unfinished work lies.
        settling.settle(run, store, own="")
        leaving.finish(run, store)
    ready = len(outlook.look(store, run.plan).ready) if known else _ready_at_first(run)
    if ready:
        _make(run, store, min(ready, run.terms.workers))


def _ready_at_first(run: Run) -> int:
    # One at least: what a substep needs may be within its own step.
    return sum(not any(each.needs for each in step.family()) for step in run.steps.values()) or 1


def _make(run: Run, store: Store, number: int) -> None:
    """The worktrees that are needed at once; where each takes its time, only the first."""
    orders = [run.order_for(f"implement 0.{each}") for each in range(number)]
    quick = _is_small(os.path.join(run.repo.common_dir, "index"))
    try:
        made = making.create_all(run.repo, store, orders if quick else orders[:1])
    except NotMade:
        if number == 1 or not quick:
            raise
        # Perhaps there is room for one. Whoever needs another says why there is none.
        made = making.create_all(run.repo, store, orders[:1])
    stamps = [order.request_id for order in orders]
    run.made += zip(made, stamps, strict=False)


def _is_small(index: str) -> bool:
    try:
        return os.stat(index).st_size < SMALL_INDEX_BYTES
    except OSError:
        return False


def start(run: Run) -> threading.Thread:
    """Carry the plan out, in a thread that ends with the event `finished`."""
    thread = threading.Thread(target=_conduct, args=(run,), name="implement", daemon=True)
    thread.start()
    return thread


def _conduct(run: Run) -> None:
    result: Data = {"status": "failed", "reason": "the run ended in a way that nobody foresaw"}
    try:
        result = _conducted(run)
    except Exception as error:
        run.bugs.append(error)
    finally:
        run.tell("finished", **result)


def _conducted(run: Run) -> Data:
    store = run.open_store()
    try:
        _work(run, store)
        leaving.pay_debts(run, store)
        return _result(run, store)
    except TugError as error:
        return {"status": "failed", "reason": error.message, "left": []}
    finally:
        store.close()


def _work(run: Run, store: Store) -> None:
    if outlook.look(store, run.plan).done:
        return
    run.tell("started", workers=run.terms.workers, total_steps=len(run.steps))
    threads = [
        threading.Thread(target=_worker, args=(run, number), name=f"worker {number}", daemon=True)
        for number in range(1, run.terms.workers + 1)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _worker(run: Run, number: int) -> None:
    # In its own thread: a store is for the thread that uses it.
    Worker(run, number).work()


def _result(run: Run, store: Store) -> Data:
    """How it ended, and what is left."""
    seen = outlook.look(store, run.plan)
    if seen.done:
        try:
            why = finale.conclude(run, store)
        except (Stopped, TugError) as error:
            if isinstance(error, TugError) and not run.is_stopped_by(error):
                raise
            return _told(run, store, "stopped", "the run was stopped")
        status = "done" if why is None else "not_approved"
        return _told(run, store, status, why)
    left = outlook.left_over(seen, run.plan, run.left)
    status, reason = _ending(run, store, paused=seen.paused)
    return {**_told(run, store, status, reason), "left": left}


def _ending(run: Run, store: Store, *, paused: bool) -> tuple[str, str]:
    budget = run.terms.budget_tokens
    if run.stopping.is_set():
        return "stopped", "the run was stopped"
    if run.troubles:
        return "failed", run.troubles[0]
    if paused:
        return "paused", "the plan is paused; tugcode state resume lets it go on"
    if budget and state.spent_tokens(store, run.plan) >= budget:
        return "budget", f"the budget of {budget} tokens is used up"
    return "unfinished", "what is left waits for a person"


def _next(run: Run, row: Row) -> str | None:
    return None if row["merged_commit"] is not None else f"tugcode merge {quoted(run.plan)}"


def _told(run: Run, store: Store, status: str, reason: str | None) -> Data:
    trouble = store.back_up(pending=True)
    if trouble is not None:
        run.warn(trouble)
    with store.read(run.plan) as tx:
        row = tx.one(sql.PLAN)
    return {
        "status": status,
        "reason": reason,
        "completed_steps": row["steps_done"],
        "total_steps": row["steps_total"],
        # None where no agent has told any.
        "tokens": state.spent_tokens(store, run.plan) or None,
        "next": _next(run, row) if status == "done" else None,
        "left": [],
    }
