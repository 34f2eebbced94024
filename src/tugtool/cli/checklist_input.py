"""The items that `state update` sets, from options or from JSON on standard input."""

from __future__ import annotations

import sys

from tugtool import errors
from tugtool.errors import listing, plan_argument
from tugtool.state.checklists import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tugtool.cli.parse import Call
    from tugtool.schemas import Issue, StateUpdate
    from tugtool.state.checklists import Items

    Entry = dict[str, object]


#: The most bytes of a batch: more than the items of any plan.
MOST_BYTES = 1 << 24


def asked(call: Call) -> tuple[Iterable[Entry], list[Entry]]:
    """The entries of one update: single items, and all items of a kind."""
    if call.flag("batch"):
        named = [key for key in _KEYS if key in call.values]
        if named:
            option = "--" + named[0].replace("_", "-")
            raise _usage(f"--batch and {option} exclude each other")
        return _read(call.given, may_be_empty=call.flag("complete_remaining")), []
    if call.flag("complete_remaining"):
        raise _usage("--complete-remaining goes with --batch")
    reason = {"reason": call.text("reason")}
    one = [{**entry, **reason} for entry in (*_each(call), *_single(call))]
    every = [{**entry, **reason} for entry in _all(call)]
    if not one and not every:
        raise _usage("nothing to set: name an item and its status, or use --batch")
    if call.flag("with_substeps") and not every:
        raise _usage("--with-substeps goes with --all or --all-KINDS")
    return one, every


def warnings(items: Items) -> list[Issue]:
    """A warning for each item that is deferred without a reason."""
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


def left(data: StateUpdate) -> str:
    """The items that an update did not change, and the next command."""
    said = ""
    over, waiting = data["passed_over"], data["left_to_person"]
    if over:
        said += f"; passed over {_names(over)}, which are open: --with-substeps includes substeps"
    if waiting:
        review = f"tugcode review {plan_argument(data['plan_path'])}"
        said += f"; {_names(waiting)} waits for a person: {review}"
    return said


def _names(items: Items) -> str:
    return listing([f"{i['step_anchor']} {i['kind']} {i['ordinal']}" for i in items], 5)


_KEYS = (
    *KINDS,
    "kind",
    "ordinal",
    "status",
    "all",
    "all_tasks",
    "all_tests",
    "all_checkpoints",
    "with_substeps",
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
    """The word as a number, if it is one."""
    # Later code, which knows the valid range, refuses other words.
    return int(word) if word.isascii() and word.isdecimal() and len(word) < 10 else word


def _read(given: bytes | None, *, may_be_empty: bool) -> Iterable[Entry]:
    """The batch; the refusal of a bad one comes when its entries are read."""
    if given is None and (sys.stdin is None or (may_be_empty and sys.stdin.isatty())):
        return []
    try:
        data = sys.stdin.buffer.read(MOST_BYTES + 1) if given is None else given
        found = _loaded(data) if data.strip() and len(data) <= MOST_BYTES else []
    except OSError as error:
        return _refused(f"standard input cannot be read: {error.strerror}")
    except (ValueError, RecursionError) as error:
        return _refused(f"the batch is not JSON: {error}")
    if len(data) > MOST_BYTES:
        return _refused(f"the batch is larger than {MOST_BYTES} bytes")
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        return _refused("the batch is not a JSON array of objects")
    return found


def _refused(problem: str) -> Iterator[Entry]:
    raise errors.InvalidEntry(problem)
    yield {}


def _loaded(data: bytes) -> object:
    import json

    return json.loads(data, object_pairs_hook=_without_duplicates)


def _without_duplicates(pairs: list[tuple[str, object]]) -> Entry:
    found: Entry = {}
    for name, value in pairs:
        if name in found:
            # It is not clear which of the two is meant.
            raise ValueError(f'"{name:.50}" stands twice in one object')
        found[name] = value
    return found


def _usage(problem: str) -> errors.Usage:
    return errors.Usage(problem, command="state update")
