"""`tugcode hook pre-tool-use`: what a client asks before every tool call of an agent.

Clients let a call through whenever a hook ends with anything but 0 or 2, so nothing that goes
wrong in here may end otherwise than with 2.
"""

from __future__ import annotations

import os
import select

from tugtool import config, jsontext
from tugtool.cli.output import Answer
from tugtool.guard import judge, rules
from tugtool.guard.place import Place
from tugtool.guard.refused import Refused, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.cli.parse import Call

    Data = dict[str, object]

ALLOWED, BLOCKED = 0, 2
#: What a client tells of one call; a file that is written is in it as a whole.
MOST_BYTES = 64 << 20
#: A client has it at hand, and waits for ten seconds at most before it goes on without us.
PATIENCE_SECONDS = 5
_CHUNK = 1 << 20


class Verdict:
    """What came of it: who called what, why not if so, and what to run in its place."""

    __slots__ = ("harmless", "role", "said", "tool", "updated")

    def __init__(self) -> None:
        #: Nothing but commands of tugcode's that the role may run.
        self.harmless = False
        self.role: str | None = None
        self.tool = ""
        self.said: str | None = None
        self.updated: Data | None = None

    def block(self, said: str) -> Verdict:
        """Refuse it."""
        self.said = said
        return self


def run() -> int:
    """Read a call from standard input and answer as clients understand it; the exit status."""
    try:
        verdict = decide()
        status = ALLOWED if verdict.said is None else BLOCKED
        _write(1, _for_client(verdict))
        _write(2, "" if verdict.said is None else f"tugcode guard: {verdict.said}\n")
        return status
    except BaseException as error:
        # Interrupts too: an answer that never came would let the call through.
        _write(2, f"tugcode guard: blocked, because the guard itself failed: {error!r}\n")
        return BLOCKED


def pre_tool_use(call: Call) -> Answer:
    """The same, where the answer goes through the envelope."""
    verdict = decide()
    data = {
        "allowed": verdict.said is None,
        "role": verdict.role,
        "tool": verdict.tool,
        "reason": verdict.said,
        "updated_input": verdict.updated,
    }
    status = ALLOWED if verdict.said is None else BLOCKED
    return Answer(data, lambda: _for_client(verdict), status=status)


def decide() -> Verdict:
    """Whether the call on standard input may be made."""
    verdict = Verdict()
    try:
        given = _given()
        return _decided(verdict, given)
    except Refused as refused:
        who = f"the {verdict.role} may not do this: " if verdict.role else ""
        return verdict.block(f"{who}{refused}")
    except (ValueError, RecursionError, OSError) as error:
        # Who called is not known, so it may be an agent of ours.
        return verdict.block(f"the tool call could not be read, so nothing may run: {error}")


def _decided(verdict: Verdict, given: Data) -> Verdict:
    verdict.tool = str(given.get("tool_name") or "")
    tool_input = given.get("tool_input")
    place = Place(_text(given, "cwd") or os.getcwd(), config.plan_of_worker())
    roles = _roles(given)
    for name in roles:
        verdict.role = name
        if name not in rules.ROLES:
            known = ", ".join(rules.ROLES)
            return verdict.block(f"there is no role {shown(name)}; there are {known}")
    facts = tool_input if isinstance(tool_input, dict) else {}
    for name in roles:
        judge.refuse_tool(rules.ROLES[name], verdict.tool, facts, place)
    if not roles:
        judge.refuse_tool(None, verdict.tool, facts, place)
    elif verdict.tool in rules.RUNNING:
        _make_known(verdict, facts, given)
    return verdict


def _make_known(verdict: Verdict, facts: Data, given: Data) -> None:
    """Let the command know its role, so that tugcode holds the rules wherever it is called."""
    from tugtool.guard import line

    command = str(facts["command"])
    verdict.harmless = line.only_tugcode(command)
    # Codex, which tells of turns, takes a changed command only together with leave to run it.
    if config.role() is None and (verdict.harmless or "turn_id" not in given):
        made = f"export {config.ROLE_VARIABLE}={verdict.role}; {command}"
        verdict.updated = {**facts, "command": made}


def _roles(given: Data) -> list[str]:
    """Who calls: an agent of ours by its type, or whoever runs under a role; one or both."""
    agent = given.get("agent_type")
    if agent is not None and not isinstance(agent, str):
        raise ValueError("its `agent_type` is no text")
    own, above = rules.role_of(agent or ""), config.role()
    return list(dict.fromkeys(name for name in (own, above) if name is not None))


def _text(given: Data, key: str) -> str:
    value = given.get(key)
    return value if isinstance(value, str) else ""


def _for_client(verdict: Verdict) -> str:
    if verdict.said is not None or verdict.updated is None:
        return ""
    inner: Data = {"hookEventName": "PreToolUse", "updatedInput": verdict.updated}
    if verdict.harmless:
        inner["permissionDecision"] = "allow"
        inner["permissionDecisionReason"] = (
            f"a command of tugcode's that the {verdict.role} may run"
        )
    # Of all else nothing is decided: the person's own permissions count as they always do.
    return jsontext.encode({"hookSpecificOutput": inner}) + "\n"


def _given() -> Data:
    data = _read()
    value = jsontext.decode(data.decode("utf-8", "surrogateescape"))
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    return value


def _read() -> bytes:
    """All of standard input, within bounds."""
    chunks: list[bytes] = []
    size = 0
    waiting = select.poll()
    waiting.register(0, select.POLLIN)
    while True:
        if not waiting.poll(PATIENCE_SECONDS * 1000):
            raise ValueError(f"nothing came for {PATIENCE_SECONDS} seconds")
        chunk = os.read(0, _CHUNK)
        if not chunk:
            return b"".join(chunks)
        size += len(chunk)
        if size > MOST_BYTES:
            raise ValueError(f"it is larger than {MOST_BYTES >> 20} MB")
        chunks.append(chunk)


def _write(descriptor: int, text: str) -> None:
    rest = text.encode("utf-8", "backslashreplace")
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        # The exit status says it all the same.
        return
