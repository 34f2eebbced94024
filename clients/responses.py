"""The Responses API on the wire, as Codex speaks it: the same asks and answers as in `wire`."""

import json
from collections.abc import Iterator
from typing import Any

from wire import Answer, Ask, Call, Result

#: The tool that runs a command, under the names that the client has had for it -> its argument.
SHELLS = {"exec_command": "cmd", "shell_command": "command", "shell": "command"}
#: Between the name of a server and the name of its tool.
BETWEEN = "__"


def read(body: dict[str, Any]) -> Ask:
    """The request as a script needs it."""
    said = [each for each in body["input"] if each.get("type") == "message"]
    outputs = [each for each in body["input"] if each.get("type") == "function_call_output"]
    return Ask(
        system="\n".join(_text(each["content"]) for each in said if each["role"] == "developer"),
        prompt="\n".join(_text(each["content"]) for each in said if each["role"] == "user"),
        tools=frozenset(_names(body.get("tools", []))),
        results=tuple(Result(_text(each["output"]), False) for each in outputs),
    )


def _names(tools: list[dict[str, Any]]) -> Iterator[str]:
    for tool in tools:
        if tool["type"] == "namespace":
            yield from (f"{tool['name']}{BETWEEN}{each['name']}" for each in tool["tools"])
        elif "name" in tool:
            yield tool["name"]


def _text(content: str | list[dict[str, Any]]) -> str:
    return content if isinstance(content, str) else "\n".join(each["text"] for each in content)


def stream(answer: Answer, ask: Ask, number: int) -> Iterator[bytes]:
    """The answer as server-sent events; `number` tells it from every other."""
    whole = {"id": f"resp_{number:06}", "object": "response", "output": []}
    item = _item(answer, ask, number)
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    for event in (
        {"type": "response.created", "response": whole},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {**whole, "output": [item], "usage": usage}},
    ):
        yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def _item(answer: Answer, ask: Ask, number: int) -> dict[str, Any]:
    if isinstance(answer, Call):
        call = {"id": f"fc_{number:06}", "call_id": f"call_{number:06}"}
        return {"type": "function_call", **call, **_called(answer, ask)}
    text = {"type": "output_text", "text": answer, "annotations": []}
    return {
        "type": "message",
        "id": f"msg_{number:06}",
        "role": "assistant",
        "status": "completed",
        "content": [text],
    }


def _called(call: Call, ask: Ask) -> dict[str, str]:
    """The tool of a server by its namespace; any other call is a command for the shell."""
    server, between, tool = call.tool.rpartition(BETWEEN)
    if between:
        return {"namespace": server, "name": tool, "arguments": json.dumps(call.arguments)}
    (tool,) = [name for name in SHELLS if name in ask.tools][:1]
    line = call.arguments["command"]
    value = ["bash", "-c", line] if tool == "shell" else line
    return {"name": tool, "arguments": json.dumps({SHELLS[tool]: value})}
