"""What a run would do, found out without changing anything."""

from __future__ import annotations

from tugtool import base, state
from tugtool.implement import casting
from tugtool.implement import outlook as outlooks
from tugtool.store import sql
from tugtool.worktree import making, planfile, survey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from tugtool.implement.casting import Part
    from tugtool.implement.run import Terms
    from tugtool.repository import Repository
    from tugtool.store import Store
    from tugtool.worktree.making import Order

    Data = dict[str, object]


def agents(parts: Mapping[str, Part]) -> list[Data]:
    """Per role, what would be run; of its variables only the names, which are no secrets."""
    found: list[Data] = []
    for role in casting.ROLES:
        part = parts.get(role)
        found.append(
            {
                "role": role,
                "command": part and part.argv,
                "timeout_seconds": part and part.timeout_seconds,
                "tries": part and part.tries,
                "env": sorted(part.env) if part else [],
            }
        )
    return found


def refuse(repo: Repository, store: Store, order: Order) -> None:
    """What `fleet.prepare` would refuse, refused in the same words."""
    plan = order.file.key
    known = _is_recorded(store, plan)
    if known:
        planfile.refuse_drift(store, order)
    if not known or outlooks.look(store, plan).ready:
        survey.require_git()
        survey.directory(repo)
        onto = base.branch(repo, asked=order.base, target=base.target_branch(order.parsed))
        planfile.settle(repo, order, onto)


def standing(store: Store, order: Order) -> Data:
    """Whether the plan is done or paused, and what it has used so far."""
    plan = order.file.key
    if not _is_recorded(store, plan):
        return {"done": False, "paused": False, "tokens": 0}
    seen = outlooks.look(store, plan)
    tokens = state.spent_tokens(store, plan)
    return {"done": seen.done, "paused": seen.paused, "tokens": tokens}


def outlook(repo: Repository, store: Store, order: Order, terms: Terms) -> Data:
    """Steps in their order, and the worktrees that they would be done in."""
    if not _is_recorded(store, order.file.key):
        todo = [_step(step.anchor, step.title, "pending") for step in order.parsed.steps]
        return {
            "todo": todo,
            "reused_worktrees": [],
            "new_worktrees": min(terms.workers, len(todo)),
        }
    seen = outlooks.look(store, order.file.key)
    rows = [row for row in seen.rows if row["status"] != "completed"]
    todo = [_step(row["anchor"], row["title"], _standing(seen, row["anchor"])) for row in rows]
    most = min(terms.workers, len(todo))
    reused = [tree.path for tree in making.free(repo, store, order)][:most]
    return {"todo": todo, "reused_worktrees": reused, "new_worktrees": most - len(reused)}


def _is_recorded(store: Store, plan: str) -> bool:
    if not store.exists():
        return False
    with store.read(plan) as tx:
        return tx.first(sql.PLAN) is not None


def _step(anchor: str, title: str, status: str) -> Data:
    return {"step_anchor": anchor, "title": title, "status": status}


def _standing(seen: outlooks.Outlook, anchor: str) -> str:
    kinds = {"ready": seen.ready, "held": seen.live, "parked": seen.parked}
    return next((name for name, those in kinds.items() if anchor in those), "blocked")
