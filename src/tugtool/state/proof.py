"""Evidence as it is stored with an item, and as views show it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Data = Mapping[str, Any]

#: Field -> the types it may have. What has another shape was not written by us.
_FIELDS: dict[str, tuple[type, ...]] = {
    "passed": (bool,),
    "commands": (list,),
    "commit": (str, type(None)),
    "dirty": (bool, type(None)),
    "worktree": (str,),
    "attempt": (int,),
    "at": (str,),
    "note": (str, type(None)),
}
_COMMAND_FIELDS: dict[str, tuple[type, ...]] = {
    "command": (str,),
    "exit_status": (int,),
    "timed_out": (bool,),
    "duration_seconds": (int, float),
    "output_tail": (str,),
    "output_bytes": (int,),
}


def read(text: str | None) -> dict[str, object] | None:
    """What was run and what came of it; None if nothing was, or nobody can tell any more."""
    if text is None:
        return None
    # Few items have evidence, and most who look have none before them.
    import json

    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not _has(found, _FIELDS) or not all(map(_is_command, found["commands"])):
        return None
    evidence = {field: found[field] for field in _FIELDS}
    evidence["commands"] = [
        {field: each[field] for field in _COMMAND_FIELDS} for each in found["commands"]
    ]
    # Whoever can look at the worktree fills these in.
    return {**evidence, "stale": None, "worktree_commit": None}


def ended(ran: Data) -> str:
    """How a command ended, in words."""
    how = "timed out" if ran["timed_out"] else f"exit {ran['exit_status']}"
    return f"{how}, {ran['duration_seconds']:.1f} s"


def _is_command(found: Any) -> bool:
    # What is no number to JSON has no place in an answer.
    return _has(found, _COMMAND_FIELDS) and 0 <= found["duration_seconds"] < 1e9


def _has(found: Any, fields: dict[str, tuple[type, ...]]) -> bool:
    return isinstance(found, dict) and all(
        isinstance(found.get(field), types) for field, types in fields.items()
    )
