"""Import an export; warn of held steps; and transcripts in an export, if a person asks for them.

Their lines follow those of the record: `{"transcript": {...}}` for each call of an agent, then
`{"end": true, "transcripts": N}`.
"""

from __future__ import annotations

from tugtool import state
from tugtool.errors import listing, plan_argument
from tugtool.errors.state import BadImport
from tugtool.state import upkeep
from tugtool.system import agent_config, files, os, text
from tugtool.workflow import plans, transcripts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, BinaryIO

    from tugtool.git import Repository
    from tugtool.schemas import Issue, StateImport
    from tugtool.workflow.transcripts import AgentCall
    from tugtool.workflow.workspace import Workspace

    Data = dict[str, Any]

_FIELDS = {"plan_path", "step_anchor", "attempt", "call", "role", "text"}
_LONGEST_NAME = 200
_MOST_CALLS = 1_000_000
#: The beginnings of the last line of the record, and of a line with a plan.
_END, _PLAN = b'{"end":', b'{"table": "plans",'


def import_(space: Workspace, source: BinaryIO, *, name: str) -> tuple[StateImport, list[Issue]]:
    """Import an export; warn of steps that are held. `name` is the source's name in messages."""
    # Copy first: the file may change between the check and the import.
    with files.spooled(source, space.copies, name=name) as copy:
        plans.ignore_state(space.repo)
        found = taken(copy, name)
        data = state.import_(space.store, copy, name=name)
        data["transcripts"] = len(found)
    write_back(space.repo, found)
    what = "These steps are held in the state that the export is from, and in this one"
    end = "A worker that goes on there is not seen here, and its step is free here after that"
    return data, _held(space, data["plans"], what, end, "tugcode status")


def held_in_export(space: Workspace, plan: str | None) -> list[Issue]:
    """Warn of steps that are held while they are exported."""
    what, end = "These steps are held", "What their workers do from now on is not in the export"
    hint = f"tugcode pause {plan_argument(plan) if plan else 'PLAN'}"
    return _held(space, None if plan is None else [plan], what, end, hint)


def _held(space: Workspace, keys: list[str] | None, what: str, end: str, hint: str) -> list[Issue]:

    named = [
        f"{row['anchor']} of {plan} by {row['claimed_by']} until {row['lease_expires_at']}"
        for plan, row in upkeep.live_claims(space.store, keys)
    ]
    if not named:
        return []
    message = f"{what}: {listing(named)}. {end}"
    return [{"code": "W107", "severity": "warning", "message": message, "hint": hint}]


def written(repo: Repository, keys: Iterable[str]) -> Iterator[str]:
    """Yield a line for each transcript of the plans, and one with their number."""
    count = 0
    for plan in keys:
        for call in every(repo, plan):
            data = files.read(call.path, max_bytes=files.WHOLE_BYTES)
            entry = {
                "plan_path": plan,
                "step_anchor": call.anchor,
                "attempt": call.attempt,
                "call": call.number,
                "role": call.role,
                "text": data.decode(errors="replace"),
            }
            yield text.encode({"transcript": entry}) + "\n"
            count += 1
    yield text.encode({"end": True, "transcripts": count}) + "\n"


def every(repo: Repository, plan: str) -> list[AgentCall]:
    """Return all calls of agents for a plan that have a transcript, by step."""
    place = transcripts.directory(repo, plan)
    steps = sorted(os.listdir(place)) if os.path.isdir(place) else []
    return [
        call
        for step in steps
        for call in transcripts.calls(repo, plan, None if step == transcripts.WHOLE_PLAN else step)
    ]


def taken(source: BinaryIO, name: str) -> list[Data]:
    """Take the transcripts off an export and return them; refuse what cannot be one."""
    source.seek(0)
    number = 0
    keys: set[object] = set()
    for line in iter(source.readline, b""):
        number += 1
        if line.startswith(_PLAN):
            keys.add(_plan(line))
        if line.startswith(_END):
            break
    end = source.tell()
    found = list(_read(source, name, number, keys))
    source.truncate(end)
    source.seek(0)
    return found


def _plan(line: bytes) -> object:
    """Return the plan of a row; the import itself refuses a row that is not one."""
    try:
        found: Any = text.decode(line.decode())
        return found["row"]["plan_path"]
    except (ValueError, LookupError, TypeError):
        return None


def _read(source: BinaryIO, name: str, number: int, keys: set[object]) -> Iterator[Data]:
    count, ended = 0, None
    for line in iter(source.readline, b""):
        number += 1
        try:
            found = text.decode(line.decode())
        except (ValueError, RecursionError) as error:
            raise BadImport(name, f"is not JSON: {error!s:.200}", line=number) from error
        if ended is not None or not isinstance(found, dict):
            raise BadImport(name, "goes on after its end", line=number)
        if "end" in found:
            ended = found.get("transcripts")
            continue
        if not _is_sound(found.get("transcript"), keys):
            raise BadImport(name, "is not a transcript of one of its plans", line=number)
        count += 1
        yield found["transcript"]
    if (count or ended is not None) and ended != count:
        problem = f"ends after {count} transcripts, and says {ended!r:.40}"
        raise BadImport(name, problem, line=number)


def _is_sound(found: object, keys: set[object]) -> bool:
    """True for a call of an agent; its step and role become names of files."""
    if not isinstance(found, dict) or set(found) != _FIELDS or found["plan_path"] not in keys:
        return False
    anchor, attempt = found["step_anchor"], found["attempt"]
    whole = anchor is None and attempt is None
    numbers = (found["call"], 0 if whole else attempt)
    return (
        (whole or _is_name(anchor))
        and all(type(each) is int and 0 <= each < _MOST_CALLS for each in numbers)
        and found["role"] in agent_config.ROLES
        and isinstance(found["text"], str)
    )


def _is_name(anchor: object) -> bool:
    plain = isinstance(anchor, str) and anchor[:1].isalnum() and anchor.isprintable()
    return plain and "/" not in str(anchor) and len(str(anchor).encode()) <= _LONGEST_NAME


def write_back(repo: Repository, found: Iterable[Data]) -> None:
    """Write imported transcripts where those of this repository are; none is overwritten."""
    for each in found:
        names = ("plan_path", "step_anchor", "attempt", "role", "call")
        path = transcripts.made_path(repo, *(each[name] for name in names))
        # Its directory is already its user's alone.
        if files.create(path, each["text"].encode(errors="replace")):
            os.chmod(path, 0o600)
