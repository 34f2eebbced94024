"""Near misses: text that looks like structure, and is none, so nobody would notice.

Patterns look only at the first or last few hundred characters of a line: no text is so
odd that checking it takes long.
"""

from __future__ import annotations

import re

from tugtool.plan import markdown
from tugtool.plan.model import Diagnostic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tugtool.plan.markdown import Line

#: Also behind what people put before a title: emphasis, a tick, a picture.
_STEP = re.compile(
    r"(?:\[[ x]\])?[\W_]{0,8}(?:sub-?)?step"
    r"[ \t]{0,3}(?:[#:.]|-?[ \t]?[A-Za-z]?\d|[A-Za-z][ \t]?[:\u2013\u2014]|$)",
    re.IGNORECASE,
)
_DECISION = re.compile(r"\[?(?:(?:decision|question)[ \t]{1,3})?\[?[dq]\d{1,4}\b", re.IGNORECASE)
_PROPER_DECISION = re.compile(r"\[[DQ][A-Z]?\d+[a-z]?\]")
_ANCHOR_FORMS = re.compile(
    r"(?:\{[ \t]{0,3}#?[ \t]{0,3}[\w-]{1,80}[ \t]{0,3}\}|\[#[\w-]{1,80}\]|\(#[\w-]{1,80}\)"
    r"|\{#[\w-]{0,80})$"
)
_COMMIT = re.compile(
    r"(?:[-*+][ \t]{1,3})?[*_]{0,2}commit(?: message| line)?[*_]{0,2}[ \t]{0,3}:", re.IGNORECASE
)
_PLACEHOLDER = re.compile(r"(?<![\w<])<(?![A-Za-z][\w+.-]{0,20}:)([A-Za-z][^<>=@]{0,200})>")
#: HTML, which Markdown may hold; and components of a user interface: `<TugPopover>`.
_TAG = re.compile(
    r"(?:a|abbr|b|blockquote|br|center|code|d[dlt]|del|details|div|em|figure|h[1-6r]|i|img|input|ins"
    r"|kbd|li|mark|ol|p|picture|pre|q|s|samp|script|small|source|span|strike|strong|style|su[bp]"
    r"|summary|t(?:able|body|d|foot|h|head|r)|u|ul|var|video|[A-Z][a-z0-9]+[A-Z]\w*)[ \t]{0,3}/?\Z"
)


def short(text: str, longest: int = 60) -> str:
    """The text, cut for use in a message."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def heading(line: int, level: int, text: str, *, is_repeat: bool) -> Iterator[Diagnostic]:
    """P001, P002, P005: a heading that is almost a step, a decision, or has an anchor."""
    start = text[:200]
    if _STEP.match(start) and not is_repeat:
        yield Diagnostic(
            "P001",
            line,
            f'"{short(text)}" looks like a step and is none',
            "write a heading of level 3 to 5 like: #### Step 3: Title {#step-3}",
        )
    if _DECISION.match(start) and not (level == 4 and _PROPER_DECISION.match(start)):
        yield Diagnostic(
            "P002",
            line,
            f'"{short(text)}" looks like a decision or a question and is none',
            "write a heading of level 4 like: #### [D01] Title (DECIDED) {#d01-title}",
        )
    # A code span at the end of a heading talks about an anchor, it does not set one.
    form = _ANCHOR_FORMS.search(markdown.mask_code(text[-200:]))
    if form:
        yield Diagnostic(
            "P005",
            line,
            f'"{form[0]}" looks like an anchor and is none',
            "write it in braces with a number sign: {#kebab-case}",
        )


def repeats(text: str, number: str) -> bool:
    """Whether a heading inside a step just names the step again."""
    words = text.replace(":", " ").split(None, 2)
    return words[:2] == ["Step", number]


def phase(line: int, text: str) -> Iterator[Diagnostic]:
    """P003: a title that begins with a phase but not in its form."""
    if text.startswith("Phase") and text[5:6] in (" ", "\t", ""):
        yield Diagnostic(
            "P003",
            line,
            f'"{short(text)}" looks like a phase heading and is not taken apart',
            "write: ## Phase 1.0: Title {#anchor}",
        )


def in_fence(line: int, text: str) -> Diagnostic:
    """P006: a step inside a fenced code block does not count."""
    return Diagnostic(
        "P006",
        line,
        f'"{short(text)}" stands in a fenced code block and does not count',
        "close the fence above it if the step is meant",
    )


def commit(line: Line) -> Iterator[Diagnostic]:
    """P007: a commit line that is not one."""
    if line.body[:1] in "-*+_cC" and _COMMIT.match(line.body[:80]):
        yield Diagnostic(
            "P007",
            line.number,
            f'"{short(line.body)}" looks like a commit line and is none',
            "write: **Commit:** `feat: what it does`",
        )


def placeholders(line: Line) -> Iterator[Diagnostic]:
    """W006: `<something>` that the author was meant to replace."""
    found = placeholder(markdown.mask_code(line.body)) if "<" in line.body else None
    if found:
        yield Diagnostic(
            "W006",
            line.number,
            f"the placeholder {short(found)} is still there",
            "replace it, or put it between backticks if it is meant",
        )


def placeholder(text: str) -> str | None:
    """The first `<something>` in a text that is neither HTML nor an address."""
    found = (match for match in _PLACEHOLDER.finditer(text) if not _TAG.match(match[1]))
    first = next(found, None)
    return first[0] if first else None
