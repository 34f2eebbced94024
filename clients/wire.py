"""The Messages API on the wire: what a client asks of a model, and how an answer is streamed."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple


class Result(NamedTuple):
    """What came back from one tool call."""

    text: str
    failed: bool


class Ask(NamedTuple):
    """One request: who is asked, what for, and what became of every call so far."""

    system: str
    prompt: str
    tools: frozenset[str]
    results: tuple[Result, ...]


class Call(NamedTuple):
    """An answer that wants a tool to be used."""

    tool: str
    arguments: dict[str, Any]


Answer = Call | str


def read(body: dict[str, Any]) -> Ask:
    """The request as a script needs it."""
    said = [each for each in body["messages"] if each["role"] == "user"]
    blocks = [block for each in said for block in _blocks(each["content"])]
    return Ask(
        system=_text(body.get("system", "")),
        prompt="\n".join(block["text"] for block in blocks if block["type"] == "text"),
        tools=frozenset(tool["name"] for tool in body.get("tools", [])),
        results=tuple(
            Result(_text(block.get("content", "")), bool(block.get("is_error")))
            for block in blocks
            if block["type"] == "tool_result"
        ),
    )


def stream(answer: Answer, number: int) -> Iterator[bytes]:
    """The answer as server-sent events; `number` tells it from every other."""
    for event in _events(answer, number):
        yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def message(answer: Answer, number: int) -> dict[str, Any]:
    """The answer as one object, for a client that does not want a stream."""
    block = _block(answer, number)
    if isinstance(answer, Call):
        block["input"] = answer.arguments
    else:
        block["text"] = answer
    return {**_envelope(number), "content": [block], "stop_reason": _reason(answer)}


def _events(answer: Answer, number: int) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": _envelope(number)}
    yield {"type": "content_block_start", "index": 0, "content_block": _block(answer, number)}
    if isinstance(answer, Call):
        delta = {"type": "input_json_delta", "partial_json": json.dumps(answer.arguments)}
    else:
        delta = {"type": "text_delta", "text": answer}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    reason = {"stop_reason": _reason(answer), "stop_sequence": None}
    yield {"type": "message_delta", "delta": reason, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}


def _envelope(number: int) -> dict[str, Any]:
    return {
        "id": f"msg_{number:06}",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _block(answer: Answer, number: int) -> dict[str, Any]:
    if isinstance(answer, Call):
        return {"type": "tool_use", "id": f"toolu_{number:06}", "name": answer.tool, "input": {}}
    return {"type": "text", "text": ""}


def _reason(answer: Answer) -> str:
    return "tool_use" if isinstance(answer, Call) else "end_turn"


def _blocks(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _text(content: str | list[dict[str, Any]]) -> str:
    return "\n".join(block["text"] for block in _blocks(content) if block["type"] == "text")
