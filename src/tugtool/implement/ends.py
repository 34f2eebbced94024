"""How the work on a step can end before its time. None of these is an error of ours."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.implement.casting import Reply


class End(Exception):
    """The step is not worked on any further, now and by this worker."""


class Lost(End):
    """The claim is somebody else's now, or nobody's: nothing more is touched."""


class Stopped(End):
    """The whole run is asked to end."""


class Elsewhere(End):
    """The step can be done, but not in this worktree: what was done here is in its way."""


class Astray(Exception):
    """The worktree is not the one any more that it was: nothing of git's is run there."""

    def __init__(self, path: str, wrong: str) -> None:
        super().__init__(f"{path} cannot be worked in: {wrong}; what lies there is left as it is")
        #: What the agent that ran there has used.
        self.reply: Reply | None = None


class Failed(End):
    """An agent did not come to an answer, however often it was tried."""

    def __init__(self, role: str, reason: str, reply: Reply) -> None:
        super().__init__(f"the {role} failed: {reason}")
        #: What all of its tries have cost.
        self.role, self.reason, self.reply = role, reason, reply


class Parked(End):
    """The step waits for a person."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Escalation(Exception):
    """Something that a person has to decide; they may also say: once more."""

    def __init__(self, reason: str, **facts: object) -> None:
        super().__init__(reason)
        self.reason = reason
        self.facts = facts
