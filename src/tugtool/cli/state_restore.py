"""The command that brings a lost database back: restore."""

from __future__ import annotations

import os

from tugtool import state
from tugtool.cli.output import Answer, clean
from tugtool.cli.place import Place
from tugtool.errors import Usage, listing, quoted
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
    sound = dry_run and source is None and place.store.is_sound()
    return Answer(data, lambda: text(data, sound=sound))


def text(data: Data, *, sound: bool = False) -> str:
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
    lines += [f"    git may have it: {_reconcile(plan)}" for plan in _plans(lost)]
    verb = "ended" if data["restored"] else "would end"
    lines += [f"  {verb} the claim of {e['step_anchor']} by {e['worktree']}" for e in ended]
    if data["set_aside"] is None:
        refused = "the database is sound, so without --dry-run it is refused; --from FILE insists"
        what = refused if sound else "without --dry-run it is done"
        lines.append(f"  nothing was changed; {what}")
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
    lost_plans = _plans(_rows(data, "lost_steps"))
    hint = _reconcile(lost_plans[0]) if lost_plans else "tugcode state show --json"
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


def _plans(lost: Sequence[Data]) -> list[str]:
    return list(dict.fromkeys(str(row["plan_path"]) for row in lost))


def _reconcile(plan: str) -> str:
    return f"tugcode state reconcile {quoted(plan)} --dry-run"


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
