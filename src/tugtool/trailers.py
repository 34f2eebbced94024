"""What ties a commit to a step, or to a dash: trailers at the end of its message."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

STEP, PLAN, CLAIM = "Tug-Step", "Tug-Plan", "Tug-Claim"
DASH, ROUND = "Tug-Dash", "Tug-Round"
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


class Malformed:
    """A set that cannot be taken for one, and why not."""

    __slots__ = ("anchor", "reason")

    def __init__(self, anchor: str | None, reason: str) -> None:
        self.anchor = anchor
        self.reason = reason


def read(block: str, message: str, *, plan: str, plan_hash: str) -> list[Trailers | Malformed]:
    """Every set of a commit: those in git's own reading of its end, and whole paragraphs.

    `block` is what git takes for trailers, one `Key: value` per line. A paragraph of the
    message counts if it is nothing but one full set of this very plan: so do sites that
    squash put together what they squashed.
    """
    found = list(_sets(block))
    known = {(each.anchor, each.attempt) for each in found if isinstance(each, Trailers)}
    for each in _paragraphs(message, plan, plan_hash[:HASH_LENGTH]):
        if (each.anchor, each.attempt) not in known:
            known.add((each.anchor, each.attempt))
            found.append(each)
    return found


def _sets(block: str) -> Iterator[Trailers | Malformed]:
    pairs = [line.partition(":")[::2] for line in block.split("\n") if line]
    sets: list[list[tuple[str, str]]] = []
    for key, value in pairs:
        name = key.strip().lower()
        if name == STEP.lower() or not sets:
            sets.append([])
        sets[-1].append((name, value.strip()))
    return (_set(each) for each in sets)


def _set(pairs: list[tuple[str, str]]) -> Trailers | Malformed:
    values = dict(pairs)
    anchor = values.get(STEP.lower(), "").removeprefix("#")
    plan, claim = values.get(PLAN.lower()), values.get(CLAIM.lower())
    if not anchor:
        return Malformed(None, f"there is no {STEP}")
    if len(values) < len(pairs):
        return Malformed(anchor, "one of its trailers is there twice")
    if not plan:
        return Malformed(anchor, f"there is no {PLAN}")
    if claim is None:
        return Trailers(anchor, plan, None, None)
    read = claim_of(claim, anchor)
    if read is None:
        return Malformed(anchor, f"its {CLAIM} is not one for that step")
    return Trailers(anchor, plan, *read)


def _paragraphs(message: str, plan: str, plan_hash: str) -> Iterator[Trailers]:
    """The paragraphs that are exactly what `written` writes, for this plan's text."""
    if STEP not in message:
        return
    lines: list[str] = []
    # Messages written in a browser come with CRLF; an empty line ends the last paragraph too.
    for line in (*(each.rstrip() for each in message.split("\n")), ""):
        if line:
            lines.append(line)
            continue
        found = _full(lines, plan, plan_hash)
        if found is not None:
            yield found
        lines = []


def _full(lines: list[str], plan: str, plan_hash: str) -> Trailers | None:
    if len(lines) != 3 or lines[1] != f"{PLAN}: {plan}" or not lines[0].startswith(f"{STEP}: "):
        return None
    anchor = lines[0].removeprefix(f"{STEP}: ")
    key, _, value = lines[2].partition(": ")
    claim = claim_of(value, anchor) if key == CLAIM else None
    return Trailers(anchor, plan, *claim) if claim and claim[0] == plan_hash else None
