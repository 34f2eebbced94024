"""Agent CLIs: the command line of each, its output, and its costs."""

from __future__ import annotations

import re
import sys
from typing import NamedTuple

from tugtool.system import clock
from tugtool.system.agent_config import SCRIPT_VARIABLE, SHELL_VARIABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tugtool.agents.answers import AgentAnswer
    from tugtool.system.agent_config import Agent

    Event = dict[str, object]


LOOK, RUN, EDIT = "look", "run", "edit"
#: The access of each role. Auditors and reviewers must run the tests to judge.
ACCESS = {
    "clarifier": LOOK,
    "author": EDIT,
    "critic": LOOK,
    "architect": LOOK,
    "coder": EDIT,
    "reviewer": RUN,
    "committer": RUN,
    "auditor": RUN,
    "integrator": RUN,
}
#: Roles that work outside the worktree: in the repository's `.git`, on the remote.
BEYOND = ("committer", "integrator")


class ClientCommand(NamedTuple):
    """The command for a role: its words, and its additional variables."""

    argv: tuple[str, ...]
    env: dict[str, str]


def command(agent: Agent) -> ClientCommand:
    """The command that starts the agent of a role; its variables override the preset's."""
    if agent.command is not None:
        return ClientCommand(agent.command, dict(agent.env))
    if agent.preset == "shell":
        return ClientCommand(("sh", "-c", agent.env[SHELL_VARIABLE]), dict(agent.env))
    if agent.preset == "scripted":
        # Use the Python that runs now: another one may not have this package.
        words = (sys.executable, "-P", "-m", "tugtool.agents.scripted")
        return ClientCommand((*words, agent.env[SCRIPT_VARIABLE]), dict(agent.env))
    made = _MAKERS[str(agent.preset)](agent.role)
    argv = _unboxed(made.argv) if agent.confine != "none" else made.argv
    return ClientCommand(argv, {**made.env, **agent.env})


def _unboxed(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The words without Codex's own sandbox, which mounts, and so cannot start in another one."""
    at = argv.index("--sandbox") + 1 if "--sandbox" in argv else 0
    return (*argv[:at], "danger-full-access", *argv[at + 1 :]) if at else argv


def _claude(role: str) -> ClientCommand:
    # Not the mode `plan`, which ends with a plan for a person instead of an answer.
    mode, tools, denied = {
        LOOK: ("dontAsk", "Read,Grep,Glob", "Edit,Write,NotebookEdit,Bash"),
        RUN: ("dontAsk", "Read,Grep,Glob,Bash", "Edit,Write,NotebookEdit"),
        EDIT: ("acceptEdits", "Read,Grep,Glob,Edit,Write,Bash", ""),
    }[ACCESS[role]]
    if role == "coder":
        # The coder neither commits nor records its own progress.
        denied = "commit next done state claim start update complete release reset exec"
        own = [f"tugcode {word}" for word in denied.split()]
        denied = ",".join(f"Bash({each}:*)" for each in ("git commit", "git push", *own))
    words = ("claude", "-p", "--output-format", "json", "--permission-mode", mode)
    without = ("--disallowedTools", denied) if denied else ()
    return ClientCommand((*words, "--allowedTools", tools, *without), {})


def _codex(role: str) -> ClientCommand:
    # In the sandbox `read-only` builds and tests cannot write either.
    sandbox = "read-only" if ACCESS[role] == LOOK else "workspace-write"
    if role in BEYOND:
        sandbox = "danger-full-access"
    return ClientCommand(("codex", "exec", "--json", "--sandbox", sandbox, "-"), {})


def _gemini(role: str) -> ClientCommand:
    # Without a terminal it cannot ask, and refuses tools that need permission.
    mode = {
        LOOK: ("plan",),
        RUN: ("default", "--allowed-tools", "run_shell_command"),
        EDIT: ("yolo",),
    }[ACCESS[role]]
    return ClientCommand(("gemini", "--output-format", "json", "--approval-mode", *mode), {})


def _opencode(role: str) -> ClientCommand:
    # The last matching rule decides.
    rules = {
        LOOK: '{"*":"allow","edit":"deny","bash":"deny"}',
        RUN: '{"*":"allow","edit":"deny"}',
        EDIT: '{"*":"allow"}',
    }[ACCESS[role]]
    return ClientCommand(("opencode", "run", "--format", "json"), {"OPENCODE_PERMISSION": rules})


_MAKERS = {"claude": _claude, "codex": _codex, "gemini": _gemini, "opencode": _opencode}
#: The presets' programs, whose output is understood.
CLIENTS = tuple(_MAKERS)


#: Larger numbers do not fit into a column, and are mistakes.
MOST = 1 << 53


class AgentUsage(NamedTuple):
    """Tokens and money; None for a value that is not reported."""

    #: Tokens read and written, cached ones included.
    tokens: int | None = None
    #: The part of them that came from a cache.
    cached_tokens: int | None = None
    cost_microdollars: int | None = None


NOTHING = AgentUsage()


def of(answer: AgentAnswer) -> AgentUsage:
    """The usage that the CLI reports, or else the field `usage` of the answer."""
    told = [usage for event in answer.events for usage in _of_event(event)]
    wrapped = total(told)
    if wrapped != NOTHING:
        return wrapped
    own = answer.value.get("usage") if answer.value else None
    return _plain(own) if isinstance(own, dict) else NOTHING


def total(many: Iterable[AgentUsage]) -> AgentUsage:
    """The sum; a value that no agent reports stays None."""
    return AgentUsage(*map(_sum, zip(*many, strict=True)))


def _of_event(event: Event) -> Iterator[AgentUsage]:
    kind = event.get("type")
    if kind == "result" and ("usage" in event or "total_cost_usd" in event):
        yield _claude_usage(event)
    elif kind == "turn.completed":
        yield _codex_usage(event.get("usage"))
    elif kind == "step_finish":
        yield _opencode_usage(_table(event.get("part")))
    elif kind == "result" or (kind is None and "stats" in event):
        yield _gemini_usage(event)


def _claude_usage(event: Event) -> AgentUsage:
    # Here `input_tokens` does not include cached tokens.
    names = ("input_tokens", "output_tokens", "cache_creation_input_tokens")
    *counts, cached = _counts(event.get("usage"), *names, "cache_read_input_tokens")
    return AgentUsage(_sum([*counts, cached]), cached, _microdollars(event.get("total_cost_usd")))


def _codex_usage(value: object) -> AgentUsage:
    # Here `input_tokens` includes the cached tokens.
    *counts, cached = _counts(value, "input_tokens", "output_tokens", "cached_input_tokens")
    return AgentUsage(_sum(counts), cached)


def _gemini_usage(event: Event) -> AgentUsage:
    stats = _table(event.get("stats"))
    models = [_table(_table(each).get("tokens")) for each in _table(stats.get("models")).values()]
    if any(models):
        counts = [_counts(tokens, "total", "cached") for tokens in models]
        return AgentUsage(*map(_sum, zip(*counts, strict=True)))
    return AgentUsage(*_counts(stats, "total_tokens", "cached"))


def _opencode_usage(part: Event) -> AgentUsage:
    tokens = _table(part.get("tokens"))
    read, written = _counts(tokens.get("cache"), "read", "write")
    counts = _counts(tokens, "input", "output", "reasoning")
    return AgentUsage(_sum([*counts, read, written]), read, _microdollars(part.get("cost")))


def _plain(use: Event) -> AgentUsage:
    tokens, cached, *parts = _counts(
        use, "tokens", "cached_tokens", "input_tokens", "output_tokens"
    )
    if tokens is None:
        tokens = _sum(parts)
    return AgentUsage(tokens, cached, _microdollars(use.get("cost_usd")))


def _table(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _sum(counts: Iterable[int | None]) -> int | None:
    told = [count for count in counts if count is not None]
    return min(MOST, sum(told)) if told else None


def _counts(value: object, *names: str) -> list[int | None]:
    return [_count(_table(value).get(name)) for name in names]


def _count(value: object) -> int | None:
    if isinstance(value, float) and value.is_integer():
        # 1e9 is a whole number in JSON.
        value = int(value)
    return value if type(value) is int and 0 <= value <= MOST else None


def _microdollars(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # An integer of any size compares with a float; NaN compares with nothing.
    return round(value * 1_000_000) if 0 <= value <= MOST // 1_000_000 else None


#: The `type` of each event -> a field that it has; no agent's answer has such types.
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
    """True if the object is an event of an agent CLI, not an agent's answer."""
    kind = value.get("type")
    if kind == "result":
        return any(name in value for name in ("subtype", "is_error", "stats", "session_id"))
    if kind == "error":
        return "message" in value or "error" in value
    if isinstance(kind, str) and kind in _TYPES:
        return not _TYPES[kind] or _TYPES[kind] in value
    failed = "session_id" in value and isinstance(value.get("error"), dict)
    return failed or ("response" in value and ("stats" in value or "session_id" in value))


def parse_output(events: Iterable[Event]) -> str:
    """Everything the agent said, in order, a blank line between messages."""
    text = ""
    for event in events:
        part, goes_on = _parse_text(event)
        text += part if goes_on or not text else f"\n\n{part}" if part else ""
    return text


def structured(events: list[Event]) -> Event | None:
    """The answer as its own object, if the CLI was asked for one."""
    for event in reversed(events):
        answer = event.get("structured_output")
        if event.get("type") == "result" and isinstance(answer, dict):
            return answer
    return None


def failure(events: Iterable[Event]) -> str | None:
    """The last error that the CLI itself reports."""
    told = [complaint for event in events for complaint in _complaints(event)]
    return told[-1] if told else None


#: Clients' messages about a service that is limited for a time.
_LIMITED = re.compile(
    r"\b(?:429|529)\b|rate.?limit|usage.?limit|hit your limit|limit reached|too many requests|"
    r"overloaded|resource.{1,10}exhausted|exhausted your|quota",
    re.IGNORECASE,
)
_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
#: `try again in 2 hours 30 minutes`, `Retrying in 2892 seconds`, `will reset after 1h5m3s`.
_SPAN = re.compile(
    r"(?:again|retry|retrying|reset|resets) (?:in|after):? ((?:\d+(?:\.\d+)? ?[dhms][a-z]*,? ?)+)",
    re.IGNORECASE,
)
_PART = re.compile(r"(\d+(?:\.\d+)?) ?([dhms])", re.IGNORECASE)
#: `usage limit reached|1762952400`: a time in seconds since 1970.
_MOMENT = re.compile(r"\|(\d{10})\b")
#: Fields of errors: how long to wait, until when to wait, and the status of the response.
_SPAN_FIELDS, _MOMENT_FIELDS = ("retry-after", "resets_in_seconds"), ("resetsAt", "resets_at")
_STATUS_FIELDS = ("statusCode", "status_code", "code", "api_error_status")


def seconds(value: object) -> float | None:
    """The value as seconds; None if it is not a number of seconds."""
    if isinstance(value, str) and value.replace(".", "", 1).isdecimal() and len(value) < 10:
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= MOST else None


def retry_after(words: str) -> float | None:
    """The seconds until the client's service works again; 0 if the client does not say."""
    if not _LIMITED.search(words):
        return None
    moment, span = _MOMENT.search(words), _SPAN.search(words)
    if moment is not None:
        return _until(float(moment[1]))
    parts = _PART.findall(span[1]) if span is not None else []
    return sum(float(number) * _UNITS[unit.lower()] for number, unit in parts)


def limit(events: Iterable[Event]) -> float | None:
    """The seconds that a client's events ask to wait; None if no limit made it fail."""
    failed = [event for event in events if list(_complaints(event)) or _is_rejection(event)]
    told = [field for event in failed for field in _fields(event)]
    spans = [seconds(value) for name, value in told if name in _SPAN_FIELDS]
    spans += [_until(seconds(value)) for name, value in told if name in _MOMENT_FIELDS]
    said = [retry_after(words) for event in failed for words in _complaints(event)]
    known = [each for each in (*spans, *said) if each is not None]
    if any(name in _STATUS_FIELDS and value in (429, 529) for name, value in told):
        known.append(0)
    return max(known, default=None)


def _is_rejection(event: Event) -> bool:
    told = _table(event.get("rate_limit_info"))
    return event.get("type") == "rate_limit_event" and told.get("status") == "rejected"


def _until(moment: float | None) -> float | None:
    return None if moment is None else max(0.0, moment - clock.system_milliseconds() / 1000)


def _fields(value: object, depth: int = 8) -> Iterator[tuple[str, object]]:
    """Every field of an error, down to the depth that clients use."""
    for name, each in _table(value).items() if depth else ():
        yield (name, each)
        yield from _fields(each, depth - 1)


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


def _parse_text(event: Event) -> tuple[str, bool]:
    """The agent's text in one event, and True if it continues the previous text."""
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
        item = _table(event.get("item"))
        spoken = item.get("type", item.get("item_type")) in ("agent_message", "assistant_message")
        return _field(item, "text") if spoken else "", False
    return _string(event.get("response")) if kind is None else "", False


def _content(message: object) -> str:
    parts = _table(message).get("content")
    if not isinstance(parts, list):
        return _string(parts)
    texts = [_field(part, "text") for part in parts if _field(part, "type") == "text"]
    return "\n\n".join(texts)


def _field(value: object, name: str) -> str:
    return _string(_table(value).get(name))


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""
