"""What a reviewer's answer means for the checklist, and what a coder's means for people."""

from __future__ import annotations

from tugtool.errors import listing
from tugtool.implement.casting import Unusable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from tugtool.plan.model import Step

    Data = dict[str, Any]
    Key = tuple[str, int]

PASS = "PASS"
_MOST_ISSUES = 5


def deferred(step: Step, verdict: Mapping[str, Any]) -> list[Data]:
    """The entries for `update --batch`: what the reviewer could not pass is left to a person.

    Refuses a verdict on a checkpoint that the step and its substeps do not have.
    """
    found: dict[Key, Data] = {}
    for each in verdict["plan_conformance"]["checkpoints"]:
        key = _key(step, each)
        if each["verdict"] == PASS:
            continue
        reason = str(each.get("reason") or "").strip() or f"the reviewer says {each['verdict']}"
        entry: Data = {
            "kind": "checkpoint",
            "ordinal": key[1],
            "status": "deferred",
            "reason": reason,
        }
        found.setdefault(key, entry if key[0] == step.anchor else {**entry, "step": key[0]})
    return list(found.values())


def doubts(step: Step, verdict: Mapping[str, Any]) -> list[str]:
    """What stands beside an approval and does not go with it, in sentences."""
    conformance = verdict["plan_conformance"]
    judged = {_key(step, each) for each in conformance["checkpoints"]}
    every = {(each.anchor, n) for each in step.family() for n in range(_number(each))}
    silent = sorted(every - judged)
    failed = [each for each in conformance["tasks"] if each["verdict"] == "FAIL"]
    critical = [each for each in verdict["issues"] if str(each["severity"]).lower() == "critical"]
    said = {
        "approved without a verdict on": [f"{anchor} checkpoint {n}" for anchor, n in silent],
        "approved although it says FAIL of": [_task(step, each) for each in failed],
        "approved although it calls critical": [_issue(each) for each in critical],
    }
    return [f"{what} {listing(names, 5)}" for what, names in said.items() if names]


def _task(step: Step, each: Mapping[str, Any]) -> str:
    anchor = str(each.get("step_anchor") or step.anchor).removeprefix("#")
    reason = str(each.get("reason") or "").strip()
    return f"{anchor} task {each['ordinal']}" + (f" ({reason})" if reason else "")


def _number(member: Step) -> int:
    return sum(item.kind == "checkpoint" for item in member.items)


def _key(step: Step, each: Mapping[str, Any]) -> Key:
    anchor = str(each.get("step_anchor") or step.anchor).removeprefix("#")
    member = next((one for one in step.family() if one.anchor == anchor), None)
    if member is None:
        known = ", ".join(one.anchor for one in step.family())
        raise Unusable(f"it judged a checkpoint of {anchor}; the step has {known}")
    number = _number(member)
    if each["ordinal"] not in range(number):
        raise Unusable(f"it judged checkpoint {each['ordinal']} of {anchor}, which has {number}")
    return anchor, each["ordinal"]


def told_by_coder(step: Step, report: Mapping[str, Any]) -> str:
    """How far the coder says to be; shown, and never used for the state."""
    return f"Coder reported: {_of(step, report, 'task')}, {_of(step, report, 'test')}"


def _of(step: Step, report: Mapping[str, Any], kind: str) -> str:
    told = report.get("checklist_status", {}).get(f"{kind}s", [])
    done = sum(entry.get("status") == "completed" for entry in told)
    total = sum(item.kind == kind for each in step.family() for item in each.items)
    return f"{done}/{total} {kind}s"


def in_short(verdict: Mapping[str, Any], issues: str = "issues") -> str:
    """A gate's answer in a line."""
    said = str(verdict.get("summary") or "").strip()
    found = [_issue(each) for each in verdict.get(issues) or []]
    more = f" (and {len(found) - _MOST_ISSUES} more)" if len(found) > _MOST_ISSUES else ""
    parts = [str(verdict["recommendation"]), said, "; ".join(found[:_MOST_ISSUES]) + more]
    return ": ".join(part for part in parts if part)


def _issue(each: object) -> str:
    if isinstance(each, dict):
        return str(each.get("description") or each)
    return str(each)


def listed(items: Sequence[Mapping[str, Any]]) -> str:
    """Items as people name them."""
    return ", ".join(f"{i['step_anchor']} {i['kind']} {i['ordinal']}" for i in items)
