"""What a scripted agent says: a sensible answer from its input, changed as the rule says."""

from __future__ import annotations

import json

from tugtool.agents.scripted import dress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.agents.scripted.acts import Played
    from tugtool.agents.scripted.script import Call, Rule

    Values = dict[str, object]

#: What it says where the rule wants something that is no answer.
RUBBISH = "I have done everything that was asked."


def answer(rule: Rule, call: Call, played: Played) -> bytes:
    """All of its standard output, but the noise it made before."""
    form, usage = str(rule.get("as", "plain")), rule.get("usage")
    told = usage if isinstance(usage, dict) else None
    prose = call.filled(str(rule.get("prose", "")))
    if rule.get("rubbish"):
        words = RUBBISH if rule["rubbish"] is True else call.filled(str(rule["rubbish"]))
        return dress.spoken(form, prose + words, told).encode()
    values = _changed(_default(call, played, rule), {**rule, "answer": _filled(call, rule)})
    if told and form in dress.BARE:
        values["usage"] = told
    return dress.dressed(form, values, prose, told).encode()


def _filled(call: Call, rule: Rule) -> object:
    def fill(value: object) -> object:
        if isinstance(value, dict):
            return {name: fill(each) for name, each in value.items()}
        if isinstance(value, list):
            return [fill(each) for each in value]
        return call.filled(value) if isinstance(value, str) else value

    return fill(rule.get("answer"))


def _changed(values: Values, rule: Rule) -> Values:
    change, left_out = rule.get("answer"), rule.get("omit", [])
    merged = _merged(values, change) if isinstance(change, dict) else values
    names = left_out if isinstance(left_out, list) else [left_out]
    return {name: value for name, value in merged.items() if name not in names}


def _merged(values: Values, change: Values) -> Values:
    """`change` laid over `values`: tables field by field, everything else as a whole."""
    made = dict(values)
    for name, value in change.items():
        old = made.get(name)
        both = isinstance(old, dict) and isinstance(value, dict)
        made[name] = _merged(old, value) if both else value  # type: ignore[arg-type] # both
    return made


def _default(call: Call, played: Played, rule: Rule) -> Values:
    role = str(call.facts["role"])
    if role == "coder":
        return _coder(call, played, rule)
    if role == "reviewer":
        return _reviewer(call, rule)
    text: Values = json.loads(json.dumps(_FIXED.get(role, {})))
    if role == "author" and call.given.get("plan_path"):
        text["plan_path"] = call.given["plan_path"]
    return text


def _coder(call: Call, played: Played, rule: Rule) -> Values:
    most = rule.get("under_report")
    lists: dict[str, list[Values]] = {"task": [], "test": [], "checkpoint": []}
    for item in _checklist(call):
        entry: Values = {"ordinal": item["ordinal"], "status": "completed"}
        if item.get("step_anchor") != call.facts["step"]:
            entry["step_anchor"] = item["step_anchor"]
        lists[str(item["kind"])].append(entry)
    if isinstance(most, int):
        # It did more than it tells.
        lists = {kind: entries[:most] for kind, entries in lists.items()}
    return {
        "success": True,
        "summary": call.filled("{step}: done as scripted"),
        "files_created": played.created,
        "files_modified": played.modified,
        "tests_passed": True,
        "build_passed": True,
        "checklist_status": {f"{kind}s": entries for kind, entries in lists.items()},
        "drift_assessment": {"drift_severity": "none"},
    }


def _reviewer(call: Call, rule: Rule) -> Values:
    verdicts: dict[str, list[Values]] = {"task": [], "checkpoint": []}
    for item in _checklist(call):
        if item["kind"] in verdicts:
            verdicts[str(item["kind"])].append(_verdict(item, rule))
    return {
        "plan_conformance": {f"{kind}s": entries for kind, entries in verdicts.items()},
        "issues": [],
        "recommendation": "APPROVE",
    }


def _verdict(item: Values, rule: Rule) -> Values:
    made: Values = {
        "step_anchor": item["step_anchor"],
        "ordinal": item["ordinal"],
        "verdict": "PASS",
    }
    given = rule.get("verdicts", [])
    for own in given if isinstance(given, list) else []:
        asked = {name: own[name] for name in ("step_anchor", "kind", "ordinal") if name in own}
        if all(item.get(name) == value for name, value in asked.items()):
            made.update({name: own[name] for name in ("verdict", "reason") if name in own})
    return made


def _checklist(call: Call) -> list[Values]:
    items = call.given.get("checklist")
    named = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    known = ("task", "test", "checkpoint")
    return [item for item in named if item.get("kind") in known and "ordinal" in item]


_FIXED: dict[str, Values] = {
    "clarifier": {"questions": [], "assumptions": ["as scripted"]},
    "author": {"plan_path": ".tugtool/tugplan-scripted.md", "validation_status": "valid"},
    "critic": {"findings": [], "recommendation": "APPROVE"},
    "architect": {
        "approach": "as scripted",
        "expected_touch_set": [],
        "implementation_steps": ["do it"],
        "test_plan": "run the checkpoints",
        "risks": [],
    },
    "committer": {
        "completed": True,
        "committed": True,
        "commit_hash": None,
        "state_update_failed": False,
    },
    "auditor": {
        "build_passed": True,
        "tests_passed": True,
        "cross_step_issues": [],
        "recommendation": "APPROVE",
    },
    "integrator": {
        "pushed": True,
        "pull_request": None,
        "checks": [],
        "recommendation": "APPROVE",
    },
}
