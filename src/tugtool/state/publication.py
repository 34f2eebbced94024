"""Completed steps whose commits the remote lacks, and the steps that wait for them.

Commits travel between machines by a git remote (`[remote]`). A step is unpublished from its
completion until its commit is pushed. Meanwhile its own machine goes on; other machines get no
step that depends on it, because they could not get the commit.
"""

from __future__ import annotations

from tugtool.errors import listing
from tugtool.errors.state import NotReady
from tugtool.state import record
from tugtool.store import sql
from tugtool.store.owners import machine_of, on_other_machine
from tugtool.store.sql import publication as sql_publication

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from tugtool.schemas import StateClaimUnpublishedStep
    from tugtool.store import Row, Store, Transaction

    #: Step -> the unpublished steps that it needs.
    Waits = Mapping[str, list[Row]]


#: What `waiting_for` says of a step that waits for the remote.
PUBLISH = "publish"
#: How a reason ends if the remote answered and has lost a commit.
LOST = "no longer has it on its branch"
#: Stands for any owner on this machine.
HERE = "/"
#: Stands for a step: all that could be claimed wait for the remote.
NONE = ""


def waits(tx: Transaction, owner: str) -> dict[str, list[Row]]:
    """Return the steps that an owner cannot get, because other machines have not published."""
    found: dict[str, list[Row]] = {}
    here = machine_of(owner)
    for row in tx.all(sql_publication.UNPUBLISHED):
        if machine_of(row["worktree"]) == here:
            continue
        for member in (row["step_anchor"], *record.substeps(tx, row["step_anchor"])):
            for each in tx.all(sql.DEPENDENTS, anchor=member):
                if each["top"] != row["step_anchor"]:
                    found.setdefault(each["top"], []).append(row)
    return found


def choice(tx: Transaction, plan: Row, owner: str, step: str | None) -> str | None:
    """Return the step to ask for: the given one, or the first that does not wait for a remote.

    None if any will do, NONE if all that could be claimed wait. E053 if the given one waits.
    """
    waiting = waits(tx, owner)
    if not waiting or plan["paused_at"] is not None:
        return step
    if step is not None:
        _refuse_waiting(tx, step, waiting, owner)
        return step
    claimable = tx.all(sql.CLAIMABLE_STEPS, owner=owner)
    if any(row["claimed_by"] == owner for row in claimable):
        return None
    gone = [record.step_row(tx, anchor) for anchor in record.gone(tx)]
    held = [row for row in (*claimable, *gone) if row["claimed_by"] is not None]
    found = [
        row for row in (*tx.all(sql_publication.READY_STEPS), *held) if row["anchor"] not in waiting
    ]
    found.sort(key=lambda row: int(row["step_index"]))
    if found:
        return str(found[0]["anchor"])
    return NONE if ready_but_waiting(tx, waiting) or held else None


def ready_but_waiting(tx: Transaction, waiting: Waits) -> list[str]:
    """Return the steps that are ready but for the remote."""
    return [
        str(row["anchor"])
        for row in tx.all(sql_publication.READY_STEPS)
        if row["anchor"] in waiting
    ]


def _refuse_waiting(tx: Transaction, anchor: str, waiting: Waits, owner: str) -> None:
    row = record.step_row(tx, anchor)
    free = row["status"] != "completed" and row["parked_at"] is None and row["open_deps"] == 0
    if free and anchor in waiting and row["claimed_by"] != owner:
        late = [f"{PUBLISH} of {each['step_anchor']} by {_place(each)}" for each in waiting[anchor]]
        raise NotReady(tx.plan, anchor, waiting_for=late)


def tell(tx: Transaction, claim: Any, owner: str) -> None:
    """Tell in the answer to a claim which steps wait for the remote."""
    waiting = waits(tx, owner)
    late = ready_but_waiting(tx, waiting)
    if claim["claimed"]:
        claim["remaining_ready"] -= len(late)
    elif late and claim["reason"] == "no_ready_steps":
        rows = {row["step_anchor"]: row for anchor in late for row in waiting[anchor]}
        claim["blocked_steps"] = [*late, *claim["blocked_steps"]]
        claim["waiting_for"] |= {anchor: [PUBLISH] for anchor in late}
        claim["unpublished_steps"] = [entry(row) for row in rows.values()]


def hold_back(tx: Transaction, found: Any) -> None:
    """Move steps that wait for a remote from the ready ones to the blocked ones, and say why."""
    waiting = waits(tx, HERE)
    late = [anchor for anchor in found["ready_steps"] if anchor in waiting]
    if not late:
        return
    rows = {row["step_anchor"]: row for anchor in late for row in waiting[anchor]}
    blocked = {*late, *found["blocked_steps"]}
    found["ready_steps"] = [anchor for anchor in found["ready_steps"] if anchor not in waiting]
    found["blocked_steps"] = [anchor for anchor in found["all_steps"] if anchor in blocked]
    found["waiting_for"] = {anchor: [PUBLISH] for anchor in late}
    found["unpublished_steps"] = [entry(row) for row in rows.values()]


def _place(row: Row) -> str:
    return machine_of(row["worktree"]) or "this machine"


def late(tx: Transaction, data: Any, owner: str) -> list[Row]:
    """Return the unpublished steps that `why` finds in a step's way; it is blocked by them."""
    if data["situation"] in ("completed", "held", "archived"):
        return []
    rows = waits(tx, owner).get(data["parent_anchor"] or data["anchor"], [])
    if rows:
        data["claimable"] = False
        data["situation"] = "blocked" if data["situation"] == "ready" else data["situation"]
    return rows


def explain(tx: Transaction, data: Any, late: Sequence[Row]) -> None:
    """Add to `why` that a step waits for the remote, or that others wait for its commit."""
    for row in tx.all(sql_publication.UNPUBLISHED):
        if row["step_anchor"] == data["anchor"]:
            said = f"The remote does not have its commit, which is on {_place(row)} alone"
            data["sentences"].append(f"{said}{_because(row)}.")
            data["frees"].append(
                f"Other machines can go on when it is pushed; on {_place(row)}: "
                "tugcode worktree publish"
            )
    data["sentences"] += [
        f"It waits for publish: the commit of {row['step_anchor']} is on {_place(row)} alone"
        f"{_because(row)}."
        for row in late
    ]
    if late:
        data["frees"] = [*_ways(data, late), *_rest(data)]


def _because(row: Row) -> str:
    return f", because {row['problem']}" if row["problem"] else ""


def _ways(data: Any, late: Sequence[Row]) -> list[str]:
    """Return what lets such a step go on."""
    names = [each["anchor"] for each in data["waiting_for"]]
    are = f"{listing(names)} {'is' if len(names) == 1 else 'are'} completed, and "
    first = f"It is free when {are if names else ''}"
    places = dict.fromkeys(_place(row) for row in late)
    return [
        f"{first}{place} has pushed that commit; there: tugcode worktree publish"
        for place in places
    ]


def _rest(data: Any) -> list[str]:
    """Return the other ways: not those that would be enough without the remote."""
    enough = ("It is free when", "Any worker may claim it")
    return [way for way in data["frees"] if not way.startswith(enough)]


def shown(rows: Mapping[str, list[Row]], step: Row, needs: Iterable[str]) -> dict[str, Any]:
    """Return what `show` says of a step beside unpublished ones (step -> its row)."""
    own = rows.get(step["anchor"])
    if own:
        return {"unpublished": own[0]["problem"] or "it is not pushed yet"}
    if step["status"] == "completed":
        return {}
    late = [each for each in dict.fromkeys(needs) if each in rows]
    late = [each for each in late if on_other_machine(rows[each][0]["worktree"])]
    return {"waiting_for_publish": late} if late else {}


def entry(row: Row) -> StateClaimUnpublishedStep:
    """Return an unpublished step as answers show it."""
    return {
        "step_anchor": row["step_anchor"],
        "commit": row["commit_hash"],
        "worktree": row["worktree"],
        "branch": row["branch"],
        "problem": row["problem"],
    }


def unpublished(store: Store, plan: str | None = None) -> list[Row]:
    """Return the unpublished steps of a plan, or of every plan, on all machines."""
    if not store.exists():
        return []
    with store.read(plan) as tx:
        return tx.all(
            sql_publication.EVERY_UNPUBLISHED if plan is None else sql_publication.UNPUBLISHED
        )


def own_unpublished(store: Store, plan: str | None = None) -> list[Row]:
    """Return the unpublished steps of this machine."""
    return [row for row in unpublished(store, plan) if not on_other_machine(row["worktree"])]


def published(store: Store, plan: str, rows: Iterable[Row], *, actor: str) -> None:
    """Record that the remote has the commits of these steps."""
    with store.write(plan) as tx:
        for row in rows:
            anchor, commit = row["step_anchor"], row["commit_hash"]
            if tx.run(sql_publication.DROP_UNPUBLISHED, anchor=anchor, commit=commit):
                by = {"actor": actor, "attempt": record.step_row(tx, anchor)["attempt"]}
                record.note(tx, "publish", anchor=anchor, **by, commit=commit, branch=row["branch"])


def lost(store: Store, plan: str, commits: Mapping[str, str], problem: str) -> None:
    """Record that the remote has lost the commits of steps (step -> commit) that it had."""
    with store.write(plan) as tx:
        for anchor, commit in commits.items():
            said = record.storable(problem)
            tx.run(sql_publication.ADD_LOST, anchor=anchor, commit=commit, problem=said)


def not_published(store: Store, plan: str, rows: Iterable[Row], problem: str) -> None:
    """Record why the last push of these steps failed."""
    with store.write(plan) as tx:
        for row in rows:
            if row["problem"] != problem:
                which = {"anchor": row["step_anchor"], "commit": row["commit_hash"]}
                tx.run(
                    sql_publication.SET_PUBLISH_PROBLEM, **which, problem=record.storable(problem)
                )
