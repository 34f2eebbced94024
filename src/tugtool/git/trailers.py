"""The Tug-* trailers of a commit, and the message around them."""

from __future__ import annotations

from tugtool.git import command as git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tugtool.errors.git import MessageRefused


STEP, PLAN, CLAIM = "Tug-Step", "Tug-Plan", "Tug-Claim"
DASH, ROUND = "Tug-Dash", "Tug-Round"
#: Marks changes that an audit made, which belong to no step.
AUDIT = "Tug-Audit"
#: The number of characters of the plan's hash in a claim's trailer.
HASH_LENGTH = 12
#: A person's own settings could hide our trailers from git, so these replace them.
SETTINGS = ("core.commentChar=#", "trailer.separators=:")


class Trailers:
    """One set: the step, the plan's key, the hash of the plan's text, and the attempt."""

    __slots__ = ("anchor", "attempt", "plan", "plan_hash")

    def __init__(self, anchor: str, plan: str, plan_hash: str | None, attempt: int | None) -> None:
        self.anchor = anchor
        self.plan = plan
        #: The first characters of the plan's hash; None where there was no Tug-Claim.
        self.plan_hash = plan_hash
        self.attempt = attempt


def written(plan: str, anchor: str, *, plan_hash: str, attempt: int) -> str:
    """The set as the last paragraph of a message."""
    named = claim(anchor, plan_hash=plan_hash, attempt=attempt)
    return f"{STEP}: {anchor}\n{PLAN}: {plan}\n{CLAIM}: {named}\n"


def claim(anchor: str, *, plan_hash: str, attempt: int) -> str:
    """The value of a Tug-Claim: the hash of the plan's text, the step and the attempt."""
    return f"{plan_hash[:HASH_LENGTH]}/{anchor}/{attempt}"


def claim_of(value: str, anchor: str) -> tuple[str, int] | None:
    """The plan's hash and the attempt in a Tug-Claim; None if it is not for that step."""
    plan_hash, _, rest = value.partition("/")
    named, _, attempt = rest.rpartition("/")
    hexadecimal = len(plan_hash) == HASH_LENGTH and set(plan_hash) <= set("0123456789abcdef")
    number = attempt.isascii() and attempt.isdecimal() and len(attempt) < 10
    return (plan_hash, int(attempt)) if hexadecimal and number and named == anchor else None


class Malformed:
    """A set that is not valid, and the reason."""

    __slots__ = ("anchor", "reason")

    def __init__(self, anchor: str | None, reason: str) -> None:
        self.anchor = anchor
        self.reason = reason


def read_sets(
    block: str, message: str, *, plans: Sequence[str], plan_hash: str
) -> list[Trailers | Malformed]:
    """Every set of a commit: those in the trailers that git reads, and whole paragraphs.

    `block` has the trailers that git reads, one `Key: value` per line. A paragraph of the
    message counts if it is exactly one full set of this plan, under one of its names: sites
    that squash join messages in this way.
    """
    found = list(_sets(block))
    known = {(each.anchor, each.attempt) for each in found if isinstance(each, Trailers)}
    for each in _paragraphs(message, plans, plan_hash[:HASH_LENGTH]):
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


def _paragraphs(message: str, plans: Sequence[str], plan_hash: str) -> Iterator[Trailers]:
    """The paragraphs that have exactly the form of `written`, for this plan's text."""
    if STEP not in message:
        return
    lines: list[str] = []
    # Messages written in a browser come with CRLF; an empty line ends the last paragraph too.
    for line in (*(each.rstrip() for each in message.split("\n")), ""):
        if line:
            lines.append(line)
            continue
        found = _full(lines, plans, plan_hash)
        if found is not None:
            yield found
        lines = []


def _full(lines: list[str], plans: Sequence[str], plan_hash: str) -> Trailers | None:
    if len(lines) != 3 or not lines[0].startswith(f"{STEP}: "):
        return None
    plan = lines[1].removeprefix(f"{PLAN}: ")
    if plan == lines[1] or plan not in plans:
        return None
    anchor = lines[0].removeprefix(f"{STEP}: ")
    key, _, value = lines[2].partition(": ")
    claim = claim_of(value, anchor) if key == CLAIM else None
    return Trailers(anchor, plan, *claim) if claim and claim[0] == plan_hash else None


_NAMES = (STEP, PLAN, CLAIM, DASH, ROUND, AUDIT)
_OURS = tuple(name.lower() for name in _NAMES)


def check_text(text: str, what: str = "message") -> str:
    """The text with plain line ends; refuses a text that a commit message cannot have."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise _refusal(f"the {what} is not UTF-8") from error
    if "\0" in text:
        raise _refusal(f"the {what} has a NUL character in it")
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip("\n").rstrip()
    if not text.strip():
        raise _refusal(f"the {what} is blank")
    # Every kind of line break counts, although git has only one.
    for number, line in enumerate(text.splitlines(), 1):
        if _is_ours(line):
            raise _refusal(f"line {number} of the {what} would be read as one of our trailers")
    return text


def composed(words: str, ours: str, *, cwd: str) -> str:
    """The whole message; refuses unless git reads exactly our trailers in it."""
    between = "\n" if _ends_in_trailers(words) else "\n\n"
    text = f"{words}{between}{ours}"
    if between == "\n\n" and _is_plain(words, ours):
        return text
    # Without --no-divider a line of three hyphens would end the message.
    line = ("interpret-trailers", "--parse", "--no-divider")
    found = git.run(*line, cwd=cwd, given=text, settings=SETTINGS).split("\n")
    if [line for line in found if _is_ours(line)] != ours.splitlines():
        raise _refusal("with this message git would not read our trailers as they are")
    return text


def _refusal(reason: str) -> MessageRefused:
    from tugtool.errors.git import MessageRefused  # Most messages are taken.

    return MessageRefused(reason)


def _is_plain(words: str, ours: str) -> bool:
    """True if git certainly reads our paragraph as it is, and need not be asked.

    Git reads from the end, past possible comments, up to a blank line.
    """
    values = [line.partition(": ")[2] for line in ours.splitlines()]
    kept = all(value and value == value.strip() and value.isprintable() for value in values)
    return kept and ours.isascii() and not any(line[:1] == "#" for line in words.split("\n"))


def _is_ours(line: str) -> bool:
    name, colon, _ = line.partition(":")
    return bool(colon) and name.strip().lower() in _OURS


def _ends_in_trailers(words: str) -> bool:
    """True if the last paragraph has only trailers; the first paragraph is the title."""
    _, blank, last = words.rpartition("\n\n")
    lines = last.split("\n")
    return bool(blank) and not lines[0][:1].isspace() and all(map(_is_trailer, lines))


def _is_trailer(line: str) -> bool:
    name, colon, _ = line.partition(":")
    named = name.isascii() and name.replace("-", "").isalnum()
    return line[:1].isspace() or bool(colon and named)
