"""Keeping the record: state archive, prune, export, import."""

from __future__ import annotations

import os
import sys

from tugtool import files, state
from tugtool.cli.output import Answer, Stream, clean
from tugtool.cli.place import Place, said
from tugtool.errors import Unwritable, Usage
from tugtool.state_errors import PlanNotInitialised

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

    from tugtool.cli.parse import Call

    Data = dict[str, object]

#: Lines are few bytes, and each write costs a call of the system.
AT_ONCE_BYTES = 1 << 16


def state_archive(call: Call) -> Answer:
    """Put a plan away, or bring it back."""
    place = Place(call)
    undo = call.flag("undo")
    data = state.archive(place.store, place.plan(), undo=undo, actor=place.owner)
    again = "again" if data["changed"] else "as it was"
    before = "" if data["changed"] else " already"
    word = f"is {data['plan_status']} {again}" if undo else f"is archived{before}"
    return said(data, f"{data['plan_path']} {word}")


def state_export(call: Call) -> Answer | Stream:
    """Write the state down as JSON lines."""
    place = Place(call)
    named = call.text("plan") is not None
    if not place.store.exists():
        raise PlanNotInitialised(place.plan() if named else None)
    lines = state.export(place.store, place.plan() if named else None)
    output = call.text("output")
    return Stream(_together(lines)) if output is None else _to_file(call, output, lines)


def _to_file(call: Call, output: str, lines: Iterator[str]) -> Answer:
    path = os.path.join(call.cwd, output)
    count = 0

    def counted() -> Iterator[bytes]:
        nonlocal count
        for line in lines:
            count += 1
            yield line.encode()

    if not output or not files.create(path, counted()):
        raise Unwritable(output or '""', reason="something is there already, and stays")
    files.sync_directory(os.path.dirname(path))
    # Neither the first line nor the last is a row.
    data = {"exported_to": path, "rows": count - 2}
    return said(data, f"exported {data['rows']} rows to {output}")


def _together(lines: Iterable[str]) -> Iterator[str]:
    parts: list[str] = []
    size = 0
    for line in lines:
        parts.append(line)
        size += len(line)
        if size >= AT_ONCE_BYTES:
            yield "".join(parts)
            parts, size = [], 0
    yield "".join(parts)


def state_import(call: Call) -> Answer:
    """Take what was exported."""
    from tugtool import init as setup

    place = Place(call)
    given = call.text("file")
    if given is None and (sys.stdin is None or sys.stdin.isatty()):
        raise Usage("nothing to import: name a FILE, or pipe one in", command="state import")
    name = "standard input" if given is None else given
    # A copy: what is found sound must be what is taken, whoever writes to the file meanwhile.
    directory = os.path.join(place.repo.common_dir, "tugtool")
    with _copied(call, given, directory, name) as copy:
        setup.ignore_state(place.repo)
        data = state.import_(place.store, copy, name=name)
    plans = data["plans"]
    assert isinstance(plans, list)
    text = "".join(f"imported {clean(plan)}\n" for plan in plans) or "nothing\n"
    return place.backed_up(said(data, lambda: text))


def _copied(call: Call, given: str | None, directory: str, name: str) -> BinaryIO:
    if given is None:
        return files.spooled(sys.stdin.buffer, directory, name=name)
    with files.opened(os.path.join(call.cwd, given), name=name) as file:
        return files.spooled(file, directory, name=name)


def state_prune(call: Call) -> Answer:
    """Drop records that nobody needs any more."""
    from tugtool import presence

    place = Place(call)
    if not place.store.exists():
        data: Data = {"pruned": [], "kept": [], "exported_to": None}
        data["dry_run"] = call.flag("dry_run")
    else:
        data = state.prune(
            place.store,
            where=lambda keys: presence.where(place.repo, keys),
            directory=os.path.join(place.repo.common_dir, "tugtool"),
            done=call.flag("done"),
            dry_run=call.flag("dry_run"),
        )
    return Answer(data, lambda: "".join(f"{clean(line)}\n" for line in _told(data)))


def _told(data: Data) -> Iterator[str]:
    pruned, kept = data["pruned"], data["kept"]
    assert isinstance(pruned, list)
    assert isinstance(kept, list)
    word = "would prune" if data["dry_run"] else "pruned"
    for each in pruned:
        yield f"{word} {each['plan_path']}: {each['reason']}"
    for each in kept:
        yield f"kept {each['plan_path']}: {each['reason']}"
    if data["exported_to"]:
        yield f"what was pruned is in {data['exported_to']}; tugcode state import takes it back"
    if not pruned and not kept:
        yield "no plan has a state"
