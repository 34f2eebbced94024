"""What ties a commit to a step: three trailers at the end of its message."""

from __future__ import annotations

STEP, PLAN, CLAIM = "Tug-Step", "Tug-Plan", "Tug-Claim"
#: Of the plan's hash, as many characters as a claim's trailer carries.
HASH_LENGTH = 12
#: For git, whenever it looks for trailers: a person's own settings would hide ours from it.
SETTINGS = ("core.commentChar=#", "trailer.separators=:")


class Trailers:
    """One set: the step, the plan's key, and under which text and attempt it was done."""

    __slots__ = ("anchor", "attempt", "plan", "plan_hash")

    def __init__(self, anchor: str, plan: str, plan_hash: str | None, attempt: int | None) -> None:
        self.anchor = anchor
        self.plan = plan
        #: The first characters of the plan's hash; None where there was no Tug-Claim.
        self.plan_hash = plan_hash
        self.attempt = attempt


def written(plan: str, anchor: str, *, plan_hash: str, attempt: int) -> str:
    """The set as a paragraph, for the end of a message."""
    named = claim(anchor, plan_hash=plan_hash, attempt=attempt)
    return f"{STEP}: {anchor}\n{PLAN}: {plan}\n{CLAIM}: {named}\n"


def claim(anchor: str, *, plan_hash: str, attempt: int) -> str:
    """What a Tug-Claim says: under which text and attempt the step was done."""
    return f"{plan_hash[:HASH_LENGTH]}/{anchor}/{attempt}"


def claim_of(value: str, anchor: str) -> tuple[str, int] | None:
    """The plan's hash and the attempt that a Tug-Claim names, if it is one for that step."""
    plan_hash, _, rest = value.partition("/")
    named, _, attempt = rest.rpartition("/")
    hexadecimal = len(plan_hash) == HASH_LENGTH and set(plan_hash) <= set("0123456789abcdef")
    number = attempt.isascii() and attempt.isdecimal() and len(attempt) < 10
    return (plan_hash, int(attempt)) if hexadecimal and number and named == anchor else None
