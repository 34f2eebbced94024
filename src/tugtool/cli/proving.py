"""Evidence in words: what was run for an item, how it ended, and whether that still counts."""

from __future__ import annotations

from tugtool.state import proof

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from tugtool.cli.canvas import Span

    Data = Mapping[str, Any]

#: What of a hash people compare.
_SHOWN_OF_HASH = 7


def lines(evidence: Data) -> Iterator[Span]:
    """What was run and how it ended, and whether it is stale; each line with its style."""
    ran = "; ".join(f"`{each['command']}` {proof.ended(each)}" for each in evidence["commands"])
    verb, style = ("verified", "dim") if evidence["passed"] else ("failed", "alarm")
    yield style, f"{verb}: {ran}, at {_commit(evidence['commit'])}{_changes(evidence)}"
    if evidence["stale"]:
        now = _commit(evidence["worktree_commit"])
        yield "warn", f"stale: {verb} at {_commit(evidence['commit'])}, now at {now}"


def _commit(commit: str | None) -> str:
    return commit[:_SHOWN_OF_HASH] if commit else "no commit"


def _changes(evidence: Data) -> str:
    return " with uncommitted changes" if evidence["dirty"] else ""
