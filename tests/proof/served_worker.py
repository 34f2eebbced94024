"""A worker whose state is on a server: ADDRESS, MACHINE, PLAN and its HASH, which START this is.

It carries out steps until none is left. Before it writes a note and after it has heard that the
note is stored, it says so in a line of its own: whoever kills it knows what it knew.
"""

import sys

from tugtool import state
from tugtool.state import operations
from tugtool.state.claims import Request
from tugtool.state.record import PlanCopy
from tugtool.store import owners
from tugtool.store.remote import RemoteStore

NOTES, TREE = 3, "/the/tree"
#: Longer than a server takes to start on a busy machine.
PATIENCE = 60
#: Planted by the first word: requests have no key.
FORGETFUL = "--forgetful"


def say(*words: str) -> None:
    """One line, written at once."""
    print(*words, flush=True)


def work(store: RemoteStore, plan: str, copy: PlanCopy, name: str) -> None:
    """Carry out steps until none is left."""
    wanted = Request(TREE, max_attempts=50)
    while (claim := state.claim(store, plan, wanted, copy=copy))["claimed"]:
        step, who = claim["anchor"], {"owner": TREE, "attempt": claim["attempt"]}
        state.start(store, plan, step, **who)
        for number in range(NOTES):
            summary = f"{name} {step} {number}"
            say("tries", summary)
            state.artifact(store, plan, step, **who, kind="note", summary=summary)
            say("noted", summary)
        state.update(store, plan, step, [], **who, copy=copy, complete_remaining=True)
        state.complete(store, plan, step, **who, copy=copy)
        say("completed", step)
    assert claim["reason"] in ("all_completed", "no_ready_steps"), claim


def main(address: str, machine: str, plan: str, plan_hash: str, start: str) -> None:
    """Be that worker."""
    operations.install()
    own = owners.Machine(machine, machine)
    store = RemoteStore(address, machine=own, busy_seconds=PATIENCE)
    work(store, plan, PlanCopy("/the/plan.md", plan_hash), f"{machine}.{start}")
    store.close()


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[0] == FORGETFUL:
        head = RemoteStore._head
        RemoteStore._head = lambda self, name, size, _: head(self, name, size, "")
        words = words[1:]
    main(*words)
