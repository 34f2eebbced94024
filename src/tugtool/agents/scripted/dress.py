"""An answer as agents and their CLIs print it: bare, fenced, or in the JSON of each CLI."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    Values = dict[str, object]

#: Forms without a CLI around them; what the work cost then stands in the answer itself.
BARE = ("plain", "pretty", "fenced", "tilde", "prose")


def dressed(form: str, values: Values, prose: str, usage: Values | None) -> str:
    """The answer `values` in the given form, after some prose."""
    compact, pretty = json.dumps(values), json.dumps(values, indent=2)
    if form == "plain":
        return f"{prose}{compact}\n"
    if form == "pretty":
        return f"{prose}{pretty}\n"
    if form == "tilde":
        return f"{prose}~~~ json title=answer\n{pretty}\n~~~\n"
    if form == "prose":
        return f'{prose}I used "{{" once, 5" wide.\n\n{pretty}\n\nThat is all; {{}} stays empty.\n'
    fenced = f"{prose}Here is my report.\n\n```json\n{pretty}\n```\n"
    return fenced if form == "fenced" else spoken(form, fenced, usage)


def spoken(form: str, words: str, usage: Values | None) -> str:
    """What an agent says, as its CLI prints it."""
    if form in BARE:
        return f"{words}\n"
    return _CLIS[form](words, _Figures(usage or {}))


class _Figures:
    """What the work cost, under one set of names."""

    def __init__(self, usage: Values) -> None:
        tokens = _whole(usage.get("tokens"))
        self.output = _whole(usage.get("output_tokens"))
        self.input = _whole(usage.get("input_tokens"), tokens - self.output if tokens else 0)
        self.cached = _whole(usage.get("cached_tokens"))
        self.cost = usage.get("cost_usd", 0)


def _whole(value: object, otherwise: int = 0) -> int:
    return value if isinstance(value, int) else otherwise


def _lines(*events: Values) -> str:
    return "".join(json.dumps(event) + "\n" for event in events)


def _claude_result(words: str, figures: _Figures) -> Values:
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


def _claude(words: str, figures: _Figures) -> str:
    return _lines(_claude_result(words, figures))


def _claude_stream(words: str, figures: _Figures) -> str:
    start: Values = {"type": "system", "subtype": "init", "session_id": "scripted"}
    content = [{"type": "text", "text": words}]
    said: Values = {"type": "assistant", "message": {"role": "assistant", "content": content}}
    return _lines(start, said, _claude_result(words, figures))


def _codex(words: str, figures: _Figures) -> str:
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


def _gemini(words: str, figures: _Figures) -> str:
    tokens = {
        "prompt": figures.input,
        "candidates": figures.output,
        "total": figures.input + figures.output,
        "cached": figures.cached,
        "thoughts": 0,
        "tool": 0,
    }
    stats = {"models": {"scripted": {"tokens": tokens}}, "tools": {"totalCalls": 0}}
    whole = {"session_id": "scripted", "response": words, "stats": stats}
    return json.dumps(whole, indent=2) + "\n"


def _gemini_stream(words: str, figures: _Figures) -> str:
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


def _opencode(words: str, figures: _Figures) -> str:
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


_CLIS = {
    "claude": _claude,
    "claude-stream": _claude_stream,
    "codex": _codex,
    "gemini": _gemini,
    "gemini-stream": _gemini_stream,
    "opencode": _opencode,
}
