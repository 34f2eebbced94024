"""Who plays which role, what they are given, and what is taken from what they print."""

from __future__ import annotations

import os

from tugtool import config
from tugtool.agents import answers, presets, prompts, usage
from tugtool.errors import BadSetting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from tugtool.agents.answers import Answer
    from tugtool.config import Settings

    Data = dict[str, Any]

#: In the order in which they come up.
ROLES = ("architect", "coder", "reviewer", "auditor", "integrator")
#: Without these nothing can be carried out.
NEEDED = ("coder", "reviewer")
#: Of ours, what would make an agent another than it is, or its git work elsewhere.
_DROPPED = (
    *("TUGCODE_PLAN", "TUGCODE_STEP", "TUGCODE_ATTEMPT", "TUGCODE_WORKTREE", "TUGCODE_ROLE"),
    *("TUGCODE_CRASH_AT", "GIT_INDEX_FILE", *config.GIT_LOCATION_VARIABLES),
)


class Unusable(Exception):
    """What an agent printed is no answer; why, and what it was."""

    def __init__(self, reason: str, output: bytes = b"") -> None:
        super().__init__(reason)
        self.output = output


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
        kept = {n: v for n, v in config.environment().items() if n not in _DROPPED}
        return {**kept, **self.env, "TUGCODE_ROLE": self.role, **given}


def parts(settings: Settings) -> dict[str, Part]:
    """Everybody who is set to play; refuses if somebody is missing that nobody can do without."""
    found = {role: agent for role in ROLES if (agent := settings.agent(role)) is not None}
    for role in NEEDED:
        if role not in found:
            raise _nobody(settings, role)
    cast = {
        role: Part(
            role,
            made.argv,
            timeout_seconds=agent.timeout_seconds,
            tries=agent.tries,
            env=made.env,
        )
        for role, agent in found.items()
        for made in [presets.command(agent)]
    }
    for part in cast.values():
        _refuse_missing(settings, part)
    return cast


def _nobody(settings: Settings, role: str) -> BadSetting:
    key = f"agents.{role}"
    problem = f"has no agent for the {role}: [{key}] must name a preset or a command"
    if settings.file is None:
        problem = f"is not there, and {problem.removeprefix('has ')}"
    problem += '; for all roles at once: [agents.default] and below it preset = "claude"'
    return BadSetting(settings.file or config.CONFIG_PATH, problem, key=key)


def _refuse_missing(settings: Settings, part: Part) -> None:
    """A program that is nowhere is told before anything is claimed for it."""
    import shutil

    program = part.argv[0]
    if os.sep in program and not os.path.isabs(program):
        # In the worktree, where it may only be once that is there.
        return
    if shutil.which(program, path=part.environment({}).get("PATH", os.defpath)) is None:
        key = f"agents.{part.role}"
        where = "is not a program" if os.sep in program else "is no program on its PATH"
        problem = f"the {part.role} cannot be started: {program!r} {where}"
        raise BadSetting(settings.file or config.CONFIG_PATH, problem, key=key)


class Reply:
    """An answer that keeps its contract, and what it cost."""

    __slots__ = ("answer", "cost_microdollars", "tokens")

    def __init__(
        self, answer: Data, tokens: int | None = None, cost_microdollars: int | None = None
    ) -> None:
        self.answer, self.tokens, self.cost_microdollars = answer, tokens, cost_microdollars


def prompt(role: str, task: Mapping[str, object]) -> bytes:
    """What an agent reads: its role's prompt and, last, the JSON."""
    return prompts.given(role, task)


def read(role: str, output: bytes) -> tuple[Reply, str | None]:
    """The answer in what an agent printed, and what is wrong with it, if anything is."""
    answer = answers.checked(role, output)
    return Reply(answer.value or {}, *_used(answer)), answer.problem


def spent(output: bytes) -> Reply | None:
    """What an agent has used that came to no answer, as far as its program tells."""
    used = _used(answers.read(output))
    return None if used == (None, None) else Reply({}, *used)


def _used(answer: Answer) -> tuple[int | None, int | None]:
    cost = usage.of(answer)
    return cost.tokens, cost.cost_microdollars
