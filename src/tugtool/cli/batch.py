"""What `state update` was asked to set: from options, or from JSON on standard input."""

from __future__ import annotations

import sys

from tugtool.errors import Usage
from tugtool.state.checklist import KINDS
from tugtool.state_errors import InvalidEntry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.cli.parse import Call

    Entry = dict[str, object]

#: More than any plan's items, less than what would hurt.
MOST_BYTES = 1 << 24


def asked(call: Call) -> tuple[list[Entry] | InvalidEntry, list[Entry]]:
    """The entries of one update, and those that mean all items of a kind."""
    if call.flag("batch"):
        named = [key for key in _KEYS if key in call.values]
        if named:
            option = "--" + named[0].replace("_", "-")
            raise _usage(f"--batch and {option} exclude each other")
        return _read(may_be_empty=call.flag("complete_remaining")), []
    if call.flag("complete_remaining"):
        raise _usage("--complete-remaining goes with --batch")
    reason = {"reason": call.text("reason")}
    one = [{**entry, **reason} for entry in (*_each(call), *_single(call))]
    every = [{**entry, **reason} for entry in _all(call)]
    if not one and not every:
        raise _usage("nothing to set: name an item and its status, or use --batch")
    return one, every


def warnings(items: object) -> list[Entry]:
    """A deferral is for a person to judge, who should know why."""
    assert isinstance(items, list)
    return [
        {
            "code": "W101",
            "severity": "warning",
            "message": f"{item['step_anchor']} {item['kind']} {item['ordinal']} "
            "is deferred without a reason",
            "hint": "say why with --reason TEXT, or a reason in the entry",
            "anchor": item["step_anchor"],
        }
        for item in items
    ]


_KEYS = (
    *KINDS,
    "kind",
    "ordinal",
    "status",
    "all",
    "all_tasks",
    "all_tests",
    "all_checkpoints",
    "reason",
)


def _each(call: Call) -> list[Entry]:
    found: list[Entry] = []
    for kind in KINDS:
        words = call.words(kind)
        pairs = zip(words[::2], words[1::2], strict=True)
        found += [{"kind": kind, "ordinal": ordinal(n), "status": s} for n, s in pairs]
    return found


def _single(call: Call) -> list[Entry]:
    given = [call.text(key) for key in ("kind", "ordinal", "status")]
    if not any(word is not None for word in given):
        return []
    if any(word is None for word in given):
        raise _usage("--kind, --ordinal and --status go together")
    return [{"kind": given[0], "ordinal": ordinal(given[1] or ""), "status": given[2]}]


def _all(call: Call) -> list[Entry]:
    found: list[Entry] = []
    for kind in KINDS:
        status = call.text(f"all_{kind}s")
        found += [{"kind": kind, "status": status}] if status is not None else []
    status = call.text("all")
    return [*found, {"status": status}] if status is not None else found


def ordinal(word: str) -> object:
    """The number that a word is, if it is one."""
    # Anything else stays as it is, and is refused where the valid range is known.
    return int(word) if word.isascii() and word.isdecimal() and len(word) < 10 else word


def _read(*, may_be_empty: bool) -> list[Entry] | InvalidEntry:
    """The batch, or what is wrong with it: other refusals may come before this one."""
    if sys.stdin is None or (may_be_empty and sys.stdin.isatty()):
        return []
    try:
        data = sys.stdin.buffer.read(MOST_BYTES + 1)
        found = _loaded(data) if data.strip() and len(data) <= MOST_BYTES else []
    except OSError as error:
        return InvalidEntry(f"standard input cannot be read: {error.strerror}")
    except (ValueError, RecursionError) as error:
        return InvalidEntry(f"the batch is not JSON: {error}")
    if len(data) > MOST_BYTES:
        return InvalidEntry(f"the batch is larger than {MOST_BYTES} bytes")
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        return InvalidEntry("the batch is not a JSON array of objects")
    return found


def _loaded(data: bytes) -> object:
    import json

    return json.loads(data, object_pairs_hook=_without_twins)


def _without_twins(pairs: list[tuple[str, object]]) -> Entry:
    found: Entry = {}
    for name, value in pairs:
        if name in found:
            # Which of the two is meant nobody can know.
            raise ValueError(f'"{name:.50}" stands twice in one object')
        found[name] = value
    return found


def _usage(problem: str) -> Usage:
    return Usage(problem, command="state update")
