"""What agent CLIs wrap an answer in: whose event is this, what did the agent say in it?

| CLI | standard output |
|---|---|
| claude | one `result`, or with stream-json a line per message and the `result` last |
| codex | a line per event: `item.completed` with `agent_message`, `turn.completed` |
| gemini | one object with `response` and `stats`, or a line per `message` and a `result` |
| opencode | a line per event: `text`, `step_finish`, `error` |
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Event = dict[str, object]

#: Events by the way their type is written; none of ours or of an agent's answer looks so.
_TYPES = {
    "assistant": "message",
    "user": "message",
    "system": "session_id",
    "stream_event": "event",
    "message": "role",
    "init": "session_id",
    "tool_use": "",
    "tool_result": "",
    "text": "part",
    "reasoning": "part",
    "step_start": "part",
    "step_finish": "part",
    "tool": "part",
    "item.started": "item",
    "item.updated": "item",
    "item.completed": "item",
    "thread.started": "thread_id",
    "turn.started": "",
    "turn.completed": "",
    "turn.failed": "error",
    "rate_limit_event": "",
}


def is_event(value: Event) -> bool:
    """Whether an agent CLI wrote this object around what its agent said."""
    kind = value.get("type")
    if kind == "result":
        return any(name in value for name in ("subtype", "is_error", "stats", "session_id"))
    if kind == "error":
        return "message" in value or "error" in value
    if isinstance(kind, str) and kind in _TYPES:
        return not _TYPES[kind] or _TYPES[kind] in value
    failed = "session_id" in value and isinstance(value.get("error"), dict)
    return failed or ("response" in value and ("stats" in value or "session_id" in value))


def said(events: Iterable[Event]) -> str:
    """Everything the agent said, in order, a blank line between messages."""
    text = ""
    for event in events:
        part, goes_on = _said(event)
        text += part if goes_on or not text else f"\n\n{part}" if part else ""
    return text


def structured(events: list[Event]) -> Event | None:
    """The answer as an object of its own, where the CLI was asked for one."""
    for event in reversed(events):
        answer = event.get("structured_output")
        if event.get("type") == "result" and isinstance(answer, dict):
            return answer
    return None


def failure(events: Iterable[Event]) -> str | None:
    """What the CLI itself says went wrong, the last of it."""
    told = None
    for event in events:
        told = next(_complaints(event), told)
    return told


def _complaints(event: Event) -> Iterator[str]:
    kind = event.get("type")
    if kind == "result" and (event.get("is_error") or event.get("status") == "error"):
        words = event.get("result") or event.get("errors") or event.get("error")
        yield _message(words or event.get("subtype"))
    elif kind in ("error", "turn.failed") or (kind is None and event.get("error")):
        yield _message(event.get("error") or event.get("message"))


def _message(value: object) -> str:
    while isinstance(value, dict | list) and value:
        if isinstance(value, list):
            value = value[0]
        else:
            value = value.get("message") or value.get("data") or value.get("name") or "no reason"
    return str(value or "no reason")


def _said(event: Event) -> tuple[str, bool]:
    """The agent's words in one event, and whether they go on where the last ones stopped."""
    kind = event.get("type")
    if kind == "result":
        return _string(event.get("result")), False
    if kind == "assistant":
        return _content(event.get("message")), False
    if kind == "message" and event.get("role") == "assistant":
        return _string(event.get("content")), bool(event.get("delta"))
    if kind == "text":
        return _field(event.get("part"), "text"), False
    if kind == "item.completed":
        item = event.get("item")
        spoken = isinstance(item, dict) and item.get("type", item.get("item_type")) in (
            "agent_message",
            "assistant_message",
        )
        return _field(item, "text") if spoken else "", False
    return _string(event.get("response")) if kind is None else "", False


def _content(message: object) -> str:
    parts = message.get("content") if isinstance(message, dict) else None
    if not isinstance(parts, list):
        return _string(parts)
    texts = [_field(part, "text") for part in parts if _field(part, "type") == "text"]
    return "\n\n".join(texts)


def _field(value: object, name: str) -> str:
    return _string(value.get(name)) if isinstance(value, dict) else ""


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""
