"""Who plays which role, what they are given, and what is taken from what they print."""

from __future__ import annotations

import json

from tugtool import config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Data = dict[str, object]

#: In the order in which they come up.
ROLES = ("architect", "coder", "reviewer", "auditor", "integrator")
#: Without these nothing can be carried out.
NEEDED = ("coder", "reviewer")


class Unusable(Exception):
    """What an agent printed is no answer; why."""


class Part:
    """One role and the command that plays it."""

    __slots__ = ("argv", "env", "role", "timeout_seconds", "tries")

    def __init__(
        self,
        role: str,
        argv: Sequence[str],
        *,
        timeout_seconds: float = 3600,
        tries: int = 2,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.role, self.argv = role, list(argv)
        self.timeout_seconds, self.tries = timeout_seconds, tries
        self.env = dict(env or {})

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """What the agent's process gets: ours, its own, and who it is."""
        # Git's own variables would lead its git to another repository than its worktree's.
        drop = ("TUGCODE_", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX", "GIT_COMMON_DIR")
        kept = {n: v for n, v in config.environment().items() if not n.startswith(drop)}
        return {**kept, **self.env, "TUGCODE_ROLE": self.role, **given}


class Reply:
    """An answer that keeps its contract, and what it cost."""

    __slots__ = ("answer", "cost_microdollars", "tokens")

    def __init__(
        self, answer: Data, tokens: int | None = None, cost_microdollars: int | None = None
    ) -> None:
        self.answer, self.tokens, self.cost_microdollars = answer, tokens, cost_microdollars


def prompt(role: str, task: Mapping[str, object]) -> bytes:
    """What an agent reads: its role's prompt and, last, the JSON."""
    return json.dumps(task).encode()


def read(role: str, text: str) -> Reply:
    """The answer in what an agent printed; `Unusable` if there is none."""
    try:
        value = json.loads(text.strip().splitlines()[-1])
    except (ValueError, IndexError) as error:
        raise Unusable("there is no JSON object in its output") from error
    if not isinstance(value, dict):
        raise Unusable("there is no JSON object in its output")
    return Reply(value, value.get("tokens"))
