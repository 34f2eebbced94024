"""How the work on a step can end before its time. None of these is an error of ours."""

from __future__ import annotations


class End(Exception):
    """The step is not worked on any further, now and by this worker."""


class Lost(End):
    """The claim is somebody else's now, or nobody's: nothing more is touched."""


class Stopped(End):
    """The whole run is asked to end."""


class Failed(End):
    """An agent did not come to an answer, however often it was tried."""

    def __init__(self, role: str, reason: str) -> None:
        super().__init__(f"the {role} failed: {reason}")
        self.role, self.reason = role, reason


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
