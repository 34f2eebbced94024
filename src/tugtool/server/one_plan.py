"""A token for one plan: what its operations see of the record, and how others are refused.

An operation that is about every plan is answered for the one plan; one that names another plan is
refused. A worker's commands so work as with a token for all plans, and know of no other.
"""

from __future__ import annotations

from tugtool.errors import plan_name
from tugtool.errors.server import RoleTooSmall
from tugtool.plan import catalog
from tugtool.state import wire
from tugtool.workflow.worktree import BRANCHES
from tugtool.workflow.worktree.branches import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from tugtool.server.tokens import Caller

    #: An answer and the plan -> the part of the answer that is about the plan.
    Keep = Callable[[Any, str], Any]

#: Without a plan they are about all of them: they get the token's.
_NARROWED = frozenset(
    (
        *("attempts/died", "attempts/list_unsaved", "history/log", "history/stats"),
        *("publication/own_unpublished", "publication/unpublished", "reviews/review"),
        "upkeep/export",
    )
)
#: They tell a time or a number.
_OPEN = frozenset(("history/last_change", "history/last_seq", "record/now", "views/epoch"))
#: They are about a worktree of the caller's.
_OF_PATHS = frozenset(("attempts/close_worktree", "attempts/refs_from"))
#: It gets a reader, which may name a plan.
_PAGE = "history/page"
#: They get a row, which names its plan.
_OF_ROWS = frozenset(("attempts/is_lost", "attempts/mark_saved"))


def _rows(found: Iterable[Any], plan: str) -> list[Any]:
    return [each for each in found if each["plan_path"] == plan]


def _row(found: Any, plan: str) -> Any:
    return found if found is not None and found["plan_path"] == plan else None


def _headed(found: Iterable[Any], plan: str) -> list[Any]:
    return [each for each in found if each[0]["plan_path"] == plan]


def _named(found: Iterable[Any], plan: str) -> list[Any]:
    return [each for each in found if each[0] == plan]


def _every(found: Any, plan: str) -> Any:
    if "plans" not in found:
        return found
    dashes: dict[str, Any] = {"dashes": []} if "dashes" in found else {}
    return {**found, "plans": _rows(found["plans"], plan), **dashes}


def _branches(found: Iterable[str], plan: str) -> set[str]:
    begin = f"{BRANCHES}{safe(catalog.slug_of(plan.rpartition('/')[2]))}-"
    return {each for each in found if each.startswith(begin)}


#: Operations about every plan -> the part of their answers that is kept.
_KEPT: dict[str, Keep] = {
    "dashes/active": lambda _, __: None,
    "dashes/every": lambda _, __: [],
    "dashes/named": lambda _, __: [],
    "intents/find_intent": _row,
    "intents/list_intents": _rows,
    "intents/other_plans": _rows,
    "proofs/claim_in": lambda found, plan: found if found and found[0] == plan else None,
    "proofs/every_name": lambda found, plan: {n: p for n, p in found.items() if p == plan},
    "record/plans": lambda found, plan: {p: each for p, each in found.items() if p == plan},
    "reviews/claims": _headed,
    "reviews/parked": _rows,
    "upkeep/live_claims": _named,
    "views/show": _every,
    "views/status": _every,
    "standings/with_text": lambda found, plan: [each for each in found if each == plan],
    "worktrees/claimed_steps": _rows,
    "worktrees/find_worktree": _row,
    "worktrees/known_branches": _branches,
    "worktrees/list_worktrees": _rows,
    "worktrees/of_every_plan": _headed,
    "worktrees/plan_of": lambda found, plan: found if found == plan else "",
}


def narrow(caller: Caller, name: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the request as it is about the token's plan; refuse one about another."""
    own = caller.plan
    words, how = [*body["words"]], dict(body["with"])
    if own is None or _is_open(name, words):
        return body
    named = _plan_in(name, words, how)
    if named is None and name in _KEPT:
        return body
    if named is None and name == _PAGE:
        kind, reader = words[0][wire.OBJECT]
        return {**body, "words": [{wire.OBJECT: [kind, {**reader, "plan": own}]}]}
    if named is None and name in _NARROWED:
        rest = {each: value for each, value in how.items() if each != "plan"}
        return {**body, "words": [own, *words[1:]], "with": rest}
    if named != own:
        raise _refusal(caller, named)
    return body


def _is_open(name: str, words: list[Any]) -> bool:
    return name in _OPEN or (name in _OF_PATHS and str(words[0]).startswith("/"))


def _plan_in(name: str, words: list[Any], how: Mapping[str, Any]) -> object:
    """The plan that the arguments name; None if they name none."""
    if name == _PAGE:
        return words[0][wire.OBJECT][1]["plan"]
    if name in _OF_ROWS:
        return dict(zip(*words[0][wire.ROW], strict=False))["plan_path"]
    if name in _KEPT and name != "views/show":
        return None
    return words[0] if words else how.get("plan")


def own_part(caller: Caller, name: str) -> Callable[[Any], Any] | None:
    """Return what takes other plans out of an operation's answer; None if all of it is shown."""
    plan, kept = caller.plan, _KEPT.get(name)
    return None if plan is None or kept is None else lambda found: kept(found, plan)


def _refusal(caller: Caller, plan: object) -> RoleTooSmall:
    named = isinstance(plan, str) and plan.endswith(".md")
    what = f"the plan {plan_name(str(plan))}" if named else "what belongs to no plan, or to all,"
    role = f"{caller.role} of {plan_name(str(caller.plan))}"
    return RoleTooSmall(what, role=role, needs="another token")
