"""One of two processes that work on one database, and can be held at any border of what it does.

A border is the moment before it asks for the writers' lock, before each statement, and before
it answers. Orders come as JSON lines, and so do answers.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import watching
from watching import INSTEAD
from weave_deeds import BY_NAME, Hand

from support import postgres_faults
from tugtool import state
from tugtool.errors import TugError
from tugtool.state import claims
from tugtool.store import sql
from tugtool.store.sqlite import file
from tugtool.system import lock


class Borders:
    """Counts the borders of one deed; at the one that was asked for, waits to be told."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.hold: int | None = None
        self.wrote = False
        self.hand: Hand | None = None

    def begin(self, hold: int | None) -> None:
        self.names, self.hold, self.wrote = [], hold, False

    def pass_(self, name: str) -> None:
        if self.hand is None:
            return
        self.wrote |= name.startswith("commit")
        self.names.append(name)
        if len(self.names) - 1 == self.hold:
            tell({"held": name})
            sys.stdin.readline()


BORDERS = Borders()


def tell(what: dict) -> None:
    sys.stdout.write(json.dumps(what, default=str) + "\n")
    sys.stdout.flush()


# -- faults ----------------------------------------------------------------------------------


def _no_lock() -> None:
    lock.FileLock.enter = lambda self, **how: BORDERS.pass_(watching.LOCK)


def no_queue() -> None:
    """Whoever comes goes in; and what began as reading turns into writing."""
    _no_lock()
    INSTEAD["begin immediate"] = "begin"
    postgres_faults.no_lock()
    opened = file.opened
    file.opened = lambda path, mode, busy_seconds: opened(path, mode, busy_seconds=0.01)


def no_transaction() -> None:
    """Each statement for itself."""
    _no_lock()
    watching.no_transaction()


def early_look() -> None:
    """A claim that has looked for its step before its transaction."""

    def claim(store, plan, request, *, copy, step=None) -> dict:
        with store.read(plan) as tx:
            claimable = tx.all(sql.CLAIMABLE_STEPS, owner=request.owner)
            found = claims._next(tx, request, claimable, [])
        with store.write(plan) as tx:
            row = tx.one(sql.PLAN_TO_CLAIM, owner=request.owner)
            if found is None:
                return claims._nothing(tx, row, "no_ready_steps")
            return claims._take(tx, row, found, request, set(), [])

    state.claim = claim


def early_answer_of_the_checklist() -> None:
    """A completion that has looked at the items before its transaction."""
    from tugtool.state import completion, record

    complete = completion.complete

    def completing(store, plan, anchor, **how) -> dict:
        with store.read(plan) as tx:
            open_ = record.open_items(tx, record.members(tx, tx.one(sql.STEP, anchor=anchor)))
        looked, record.open_items = record.open_items, lambda *words: open_
        try:
            return complete(store, plan, anchor, **how)
        finally:
            record.open_items = looked

    state.complete = completing


FAULTS: dict[str, Callable[[], None]] = {
    "no queue": no_queue,
    "no transaction": no_transaction,
    "claims what it saw before": early_look,
    "completes what it saw before": early_answer_of_the_checklist,
}


# -- work ------------------------------------------------------------------------------------


def do(directory: str, deed: str, hold: int | None) -> dict:
    """Do it; what came of it, which borders were passed, and whether anything was written."""
    hand = Hand(Path(directory))
    BORDERS.hand = hand
    BORDERS.begin(hold)
    try:
        came: object = BY_NAME[deed](hand)
    except TugError as error:
        came = {"refused": error.code, "message": error.message}
    BORDERS.pass_("answer")
    BORDERS.hand = None
    hand.store.close()
    return {"answer": came, "borders": BORDERS.names, "wrote": BORDERS.wrote}


def main() -> None:
    watching.watch(BORDERS.pass_, lambda: tell({"waiting": True}))
    for fault in sys.argv[1:]:
        FAULTS[fault]()
    for line in sys.stdin:
        order = json.loads(line)
        tell(do(order["directory"], order["deed"], order.get("hold")))


if __name__ == "__main__":
    main()
