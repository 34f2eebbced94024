"""A worker with nothing but the tools of `tugcode mcp`: it is refused, and loses one claim."""

import re
from collections.abc import Callable, Generator

from player import Actor, Unscripted
from wire import Call, Result

Part = Generator[Call, Result, str]
PLAN = "three"
#: How Claude Code and Codex name the tools of the server `tugcode`.
PREFIX = "mcp__tugcode__"
TEXT = """\
## Phase 1.0: Three {{#phase-three}}

### Plan Metadata {{#plan-metadata}}

| Field | Value |
|-------|-------|
| Owner | Ada |
| Status | active |
| Last updated | 2026-01-01 |

### Phase Overview {{#phase-overview}}

### Execution Steps {{#execution-steps}}
{steps}"""
STEP = """
#### Step {number}: Part {number} {{#step-{number}}}

**Depends on:** {needs}

**References:** (#phase-overview)

**Tasks:**
- [ ] Think about {number}

**Checkpoint:**
- [ ] `test "$TUGCODE_STEP" = step-{number}`
"""


def plan_text() -> str:
    """A plan of three steps, one after the other, whose checkpoints name commands."""
    steps = [
        STEP.format(number=number, needs=f"#step-{number - 1}" if number > 1 else "none")
        for number in (1, 2, 3)
    ]
    return TEXT.format(steps="".join(steps))


def tool(name: str, **arguments: object) -> Call:
    return Call(PREFIX + name, arguments)


def worker(intrude: Callable[[str], object]) -> Actor:
    """The actor; `intrude` takes its first step from it, once."""
    done: set[str] = set()

    def act(prompt: str) -> Part:
        steps = 0
        while True:
            claim = yield tool("claim", plan=PLAN)
            found = re.search(r"claimed (step-\d) \(attempt (\d+)\)", claim.text)
            if not found:
                return f"{steps} steps: {claim.text}"
            held = {"step": found[1], "attempt": int(found[2])}
            # The play begins anew with each request, and this happens only once.
            if not done:
                done.add(found[1])
                intrude(found[1])
            finished = yield from _step(held)
            steps += finished

    return act


def _step(held: dict[str, object]) -> Generator[Call, Result, bool]:
    entry = {"kind": "task", "ordinal": 0, "status": "completed"}
    told = yield tool("update", **held, entries=[entry])
    if "stop: true" in told.text:
        return False
    early = yield tool("complete", **held, message="feat: too early")
    if "refused, E051" not in early.text or "verify(" not in early.text:
        raise Unscripted(f"it should have been refused: {early.text}")
    passed = yield tool("verify", **held)
    if "0 open" not in passed.text:
        raise Unscripted(f"the checkpoint should have passed: {passed.text}")
    yield tool("note", **held, summary="it was easy")
    ended = yield tool("complete", **held, message=f"feat: {held['step']}")
    if f"completed {held['step']} (commit " not in ended.text:
        raise Unscripted(f"it should be completed: {ended.text}")
    return True
