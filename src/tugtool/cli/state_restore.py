"""The command that brings a lost database back: restore."""

from __future__ import annotations

import os

from tugtool import state
from tugtool.cli.output import Answer, clean
from tugtool.cli.place import Place
from tugtool.errors import Usage, listing
from tugtool.people_errors import NothingLost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tugtool.cli.parse import Call

    Data = dict[str, object]


def state_restore(call: Call) -> Answer:
    """Put a sound copy in the database's place."""
    from tugtool import init as setup

    source = call.text("from")
    if source == "":
        raise Usage("--from needs a file", command="state restore")
    place = Place(call)
    if source is not None:
        source = os.path.join(call.cwd, source)
    dry_run = call.flag("dry_run")
    if source is None and not dry_run and place.store.is_sound():
        raise NothingLost(os.path.join(place.repo.root, ".tugtool", "state.db"))
    if not dry_run:
        # What `git clean` has taken may be more than the database.
        setup.ignore_state(place.repo)
    data = state.restore(place.store, source=source, dry_run=dry_run, actor=place.owner)
    return Answer(data, lambda: text(data))


def text(data: Data) -> str:
    """What was restored, what is missing, and what became of the rest; for people."""
    plans, lost, ended = (_rows(data, key) for key in ("plans", "lost_steps", "claims_ended"))
    verb = "restored" if data["restored"] else "would restore"
    lines = [
        f"{verb} the state from {data['source']}, which ends at {data['missing_since']}: "
        f"{_number(len(plans), 'plan')}, {_number(int(str(data['steps_completed'])), 'step')} "
        "completed"
    ]
    lines += [f"  {p['plan_path']}: {p['completed_steps']}/{p['total_steps']}" for p in plans]
    lines += [f"  missing: {_missing(data)}"]
    lines += [f"    {_completion(row)}" for row in lost]
    verb = "ended" if data["restored"] else "would end"
    lines += [f"  {verb} the claim of {e['step_anchor']} by {e['worktree']}" for e in ended]
    if data["set_aside"] is None:
        lines.append("  nothing was changed; without --dry-run it is done")
    else:
        lines.append(f"  what was there before is kept in {data['set_aside']}")
    return "".join(f"{clean(line)}\n" for line in lines)


def announced(done: Data) -> tuple[str, Data]:
    """What `init` has to say first of a database that was lost, as text and as a warning."""
    restored, forgotten = done.pop("restored", None), done.pop("forgotten", None)
    if isinstance(restored, dict):
        return text(restored), _warning(restored)
    warning = _started_over(forgotten)
    return f"{clean(str(warning['message']))}\n", warning


def _warning(data: Data) -> Data:
    """The same in one entry of `issues`."""
    lost = [_completion(row) for row in _rows(data, "lost_steps")]
    named = f": {listing(lost)}" if lost else ""
    message = (
        f"The database was lost and has been restored from {data['source']}. "
        f"Missing: {_missing(data)}{named}"
    )
    hint = "tugcode state show --json"
    return {"code": "W103", "severity": "warning", "message": message, "hint": hint}


def _started_over(forgotten: object) -> Data:
    """A warning that a database is gone for good, and what is known of it."""
    assert isinstance(forgotten, list)
    known = [_completion(row) for row in forgotten]
    named = f" Completed in it since its last backup: {listing(known)}." if known else ""
    message = (
        "The state that was here before is gone, and so is its backup; "
        f"the record is started over.{named}"
    )
    hint = "tugcode state show --json"
    return {"code": "W104", "severity": "warning", "message": message, "hint": hint}


def _missing(data: Data) -> str:
    lost = _rows(data, "lost_steps")
    steps = f"{_number(len(lost), 'completed step')}, and whatever else" if lost else "whatever"
    return f"{steps} was recorded after {data['missing_since']}"


def _completion(row: Data) -> str:
    commit = f", commit {row['commit_hash']}" if row["commit_hash"] else ""
    return f"{row['step_anchor']} of {row['plan_path']}, completed {row['completed_at']}{commit}"


def _rows(data: Data, key: str) -> Sequence[Data]:
    rows = data[key]
    assert isinstance(rows, list)
    return rows


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
