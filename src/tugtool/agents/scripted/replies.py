"""The answer of a scripted agent, in the form of a CLI."""

from __future__ import annotations

from tugtool.system import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.agents.scripted import Rule, ScriptCall
    from tugtool.agents.scripted.acts import Played

    Values = dict[str, object]


#: Forms without a CLI's events; the usage is then in the answer itself.
BARE = ("plain", "pretty", "fenced", "tilde", "prose")


def dressed(form: str, values: Values, prose: str, usage: Values | None) -> str:
    """The answer `values` in the given form, after some prose."""
    if form == "plain":
        return f"{prose}{text.encode(values)}\n"
    pretty = _indented(values)
    forms = {
        "pretty": f"{prose}{pretty}\n",
        "fenced": f"{prose}Here is my report.\n\n```json\n{pretty}\n```\n",
        "tilde": f"{prose}~~~ json title=answer\n{pretty}\n~~~\n",
        "prose": prose
        + f'I used "{{" once, 5" wide.\n\n{pretty}\n\nThat is all; {{}} stays empty.\n',
    }
    return forms[form] if form in forms else spoken(form, forms["fenced"], usage)


def spoken(form: str, words: str, usage: Values | None) -> str:
    """The agent's text as its CLI prints it."""
    if form in BARE:
        return f"{words}\n"
    return CLIS[form](words, _ReplyFigures(usage or {}))


def _indented(values: object) -> str:
    import json

    return json.dumps(values, indent=2)


class _ReplyFigures:
    """The usage figures, under one set of names."""

    def __init__(self, usage: Values) -> None:
        tokens = _whole(usage.get("tokens"))
        self.output = _whole(usage.get("output_tokens"))
        self.input = _whole(usage.get("input_tokens"), tokens - self.output if tokens else 0)
        self.cached = _whole(usage.get("cached_tokens"))
        self.cost = usage.get("cost_usd", 0)


def _whole(value: object, otherwise: int = 0) -> int:
    return value if isinstance(value, int) else otherwise


def _lines(*events: Values) -> str:
    return "".join(text.encode(event) + "\n" for event in events)


def _claude_result(words: str, figures: _ReplyFigures) -> Values:
    return {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "duration_ms": 1,
        "num_turns": 1,
        "result": words,
        "session_id": "scripted",
        "total_cost_usd": figures.cost,
        "usage": {
            "input_tokens": figures.input - figures.cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": figures.cached,
            "output_tokens": figures.output,
        },
    }


def _claude_stream(words: str, figures: _ReplyFigures) -> str:
    start: Values = {"type": "system", "subtype": "init", "session_id": "scripted"}
    content = [{"type": "text", "text": words}]
    said: Values = {"type": "assistant", "message": {"role": "assistant", "content": content}}
    return _lines(start, said, _claude_result(words, figures))


def _codex(words: str, figures: _ReplyFigures) -> str:
    return _lines(
        {"type": "thread.started", "thread_id": "scripted"},
        {"type": "turn.started"},
        {
            "type": "item.completed",
            "item": {"id": "0", "type": "reasoning", "text": 'It may be {"a": 1}.'},
        },
        {"type": "item.completed", "item": {"id": "1", "type": "agent_message", "text": words}},
        {
            "type": "turn.completed",
            "usage": {
                "input_tokens": figures.input,
                "cached_input_tokens": figures.cached,
                "output_tokens": figures.output,
            },
        },
    )


def _gemini(words: str, figures: _ReplyFigures) -> str:
    tokens = {
        "prompt": figures.input,
        "candidates": figures.output,
        "total": figures.input + figures.output,
        "cached": figures.cached,
        "thoughts": 0,
        "tool": 0,
    }
    stats = {"models": {"scripted": {"tokens": tokens}}, "tools": {"totalCalls": 0}}
    whole: Values = {"session_id": "scripted", "response": words, "stats": stats}
    return _indented(whole) + "\n"


def _gemini_stream(words: str, figures: _ReplyFigures) -> str:
    middle = len(words) // 2
    parts: list[Values] = [
        {"type": "message", "role": "assistant", "content": part, "delta": True}
        for part in (words[:middle], words[middle:])
    ]
    total = figures.input + figures.output
    return _lines(
        {"type": "init", "session_id": "scripted", "model": "scripted"},
        {"type": "message", "role": "user", "content": 'Answer {"like": "this"}.'},
        *parts,
        {"type": "result", "status": "success", "stats": {"total_tokens": total}},
    )


def _opencode(words: str, figures: _ReplyFigures) -> str:
    tokens = {
        "input": figures.input - figures.cached,
        "output": figures.output,
        "reasoning": 0,
        "cache": {"read": figures.cached, "write": 0},
    }
    step = {"type": "step-finish", "reason": "stop", "cost": figures.cost, "tokens": tokens}
    return _lines(
        {"type": "step_start", "sessionID": "scripted", "part": {"type": "step-start"}},
        {"type": "text", "sessionID": "scripted", "part": {"type": "text", "text": words}},
        {"type": "step_finish", "sessionID": "scripted", "part": step},
    )


CLIS = {
    "claude": lambda words, figures: _lines(_claude_result(words, figures)),
    "claude-stream": _claude_stream,
    "codex": _codex,
    "gemini": _gemini,
    "gemini-stream": _gemini_stream,
    "opencode": _opencode,
}


_KINDS = ("task", "test", "checkpoint")
#: The default text for a rule that wants output without an answer.
RUBBISH = "I have done everything that was asked."


def answer(rule: Rule, call: ScriptCall, played: Played) -> bytes:
    """The agent's standard output, without the noise before it."""
    form, usage = str(rule.get("as", "plain")), rule.get("usage")
    told = usage if isinstance(usage, dict) else None
    prose = call.filled(str(rule.get("prose", "")))
    if rule.get("rubbish"):
        words = RUBBISH if rule["rubbish"] is True else call.filled(str(rule["rubbish"]))
        return spoken(form, prose + words, told).encode()
    change, omit = _filled(call, rule.get("answer")), rule.get("omit", [])
    values = _default(call, played, rule)
    if isinstance(change, dict):
        values = _merged(values, change)
    names = omit if isinstance(omit, list) else [omit]
    values = {name: value for name, value in values.items() if name not in names}
    if told and form in BARE:
        values["usage"] = told
    return dressed(form, values, prose, told).encode()


def _filled(call: ScriptCall, value: object) -> object:
    if isinstance(value, dict):
        return {name: _filled(call, each) for name, each in value.items()}
    if isinstance(value, list):
        return [_filled(call, each) for each in value]
    return call.filled(value) if isinstance(value, str) else value


def _merged(values: Values, change: Values) -> Values:
    """`values` with `change` applied: tables field by field, everything else as a whole."""
    made = dict(values)
    for name, value in change.items():
        old = made.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            value = _merged(old, value)
        made[name] = value
    return made


def _default(call: ScriptCall, played: Played, rule: Rule) -> Values:
    role = str(call.facts["role"])
    if role == "coder":
        return _coder(call, played, rule)
    if role == "reviewer":
        return _reviewer(call, rule)
    plan = call.given.get("plan_path") if role == "author" else None
    return {**_FIXED.get(role, {}), **({"plan_path": plan} if plan else {})}


def _coder(call: ScriptCall, played: Played, rule: Rule) -> Values:
    under = rule.get("under_report")
    # The coder reports fewer items than it did.
    most = under if isinstance(under, int) else None
    items = _checklist(call)
    return {
        "success": True,
        "summary": call.filled("{step}: done as scripted"),
        "files_created": played.created,
        "files_modified": played.modified,
        "tests_passed": True,
        "build_passed": True,
        "checklist_status": {
            f"{kind}s": [_entry(call, item) for item in items if item["kind"] == kind][:most]
            for kind in _KINDS
        },
        "drift_assessment": {"drift_severity": "none"},
    }


def _entry(call: ScriptCall, item: Values) -> Values:
    entry: Values = {"ordinal": item["ordinal"], "status": "completed"}
    if item.get("step_anchor") != call.facts["step"]:
        entry["step_anchor"] = item["step_anchor"]
    return entry


def _reviewer(call: ScriptCall, rule: Rule) -> Values:
    items = _checklist(call)
    verdicts = {
        f"{kind}s": [_verdict(item, rule) for item in items if item["kind"] == kind]
        for kind in ("task", "checkpoint")
    }
    return {"plan_conformance": verdicts, "issues": [], "recommendation": "APPROVE"}


def _verdict(item: Values, rule: Rule) -> Values:
    made: Values = {name: item[name] for name in ("step_anchor", "ordinal")}
    made["verdict"] = "PASS"
    given = rule.get("verdicts", [])
    for own in given if isinstance(given, list) else []:
        asked = [name for name in ("step_anchor", "kind", "ordinal") if name in own]
        if all(item.get(name) == own[name] for name in asked):
            made.update({name: own[name] for name in ("verdict", "reason") if name in own})
    return made


def _checklist(call: ScriptCall) -> list[Values]:
    items = call.given.get("checklist")
    named = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    return [item for item in named if item.get("kind") in _KINDS and "ordinal" in item]


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
