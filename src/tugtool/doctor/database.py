"""The database: whether it can be read, is whole, and agrees with itself."""

from __future__ import annotations

import os

from tugtool import state
from tugtool.doctor.finding import error, note, warning
from tugtool.doctor.patient import LOCK_SECONDS
from tugtool.errors import TugError, listing, quoted
from tugtool.state import recounting
from tugtool.store import backup as backups
from tugtool.store import checking, sql, sql_doctor, sql_records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tugtool.doctor.finding import Finding, Mend
    from tugtool.doctor.patient import Patient
    from tugtool.store import Transaction

_RESTORE = "tugcode state restore --dry-run"

#: What cannot be, although each row for itself could; the same that an import refuses.
_IMPOSSIBLE = {
    sql_records.NESTED_TOO_DEEP: "is a substep of a substep",
    sql_records.ATTEMPTS_ASTRAY: "and its attempts do not fit each other",
    sql_records.PARKED_UNTRIED: "is parked, and nobody tried or said why",
}


def opened(patient: Patient) -> Iterator[Finding]:
    """Whether there is a database of ours that this version reads."""
    broken = patient.unread
    if broken is None:
        return
    if broken.facts.get("sqlite") != "OLDER":
        busy = str(broken.facts.get("sqlite")).startswith("BUSY")
        yield error(broken.message, hint="tugcode doctor" if busy else broken.hint)
        return

    def mend() -> str:
        with patient.live.write(""):
            pass
        patient.open()
        return f"migrated; a copy from before is in {patient.copies}"

    yield warning(broken.message, hint="tugcode doctor --fix", mend=mend)


def lock(patient: Patient) -> Iterator[Finding]:
    """Whether somebody keeps all others from writing."""
    path = os.path.join(os.path.dirname(patient.path), "state.lock")
    holder = checking.holder(path, LOCK_SECONDS)
    if holder is not None:
        said = f"the database is locked by {holder} for over {LOCK_SECONDS} s; writers wait"
        words = holder.replace(",", " ").split()
        number = next((word for word in words if word.isdecimal()), "")
        yield warning(said, hint=f"ps -p {number} -o pid,stat,command" if number else "ps -e")


def integrity(patient: Patient) -> Iterator[Finding]:
    """SQLite's own check of every page and index."""
    for each in patient.store.damage():
        yield error(f"{patient.path} is damaged: {each}", hint=_RESTORE)


def references(patient: Patient) -> Iterator[Finding]:
    """Rows whose parent is gone."""
    for each in patient.store.dangling():
        yield error(f"{patient.path} has {each}", hint=_RESTORE)


def counts(patient: Patient) -> Iterator[Finding]:
    """What is kept twice to make answers cheap, counted anew."""
    for plan in _plans(patient):
        with patient.store.read(plan) as tx:
            if tx.first(sql.PLAN) is None:
                said = f"{plan} has no row of plan_counts, so no command finds it"
                yield error(said, hint=_RESTORE)
                continue
            found = recounting.astray(tx, plan)
        if found:
            said = f"{plan}: {'; '.join(_differences(found))}"
            yield error(said, hint="tugcode doctor --fix", mend=_recount(patient, plan))


def _plans(patient: Patient) -> list[str]:
    with patient.store.read() as tx:
        return [str(row["plan_path"]) for row in tx.all(sql.PLANS)]


def _recount(patient: Patient, plan: str) -> Mend:
    def mend() -> str:
        state.recount(patient.live, plan, actor=patient.actor)
        return "counted anew"

    return mend


def _differences(found: dict[str, object]) -> Iterator[str]:
    for name, pair in _pairs(found.get("counts")):
        yield f"{name} is {pair[0]} and should be {pair[1]}"
    deps = list(_pairs(found.get("open_deps")))
    if deps:
        anchor, pair = deps[0]
        more = f" and {len(deps) - 1} more" if len(deps) > 1 else ""
        yield f"{anchor}{more} waits for {pair[0]} steps and should wait for {pair[1]}"
    substeps = found.get("substeps")
    if isinstance(substeps, list):
        yield f"not held as their step is: {listing(substeps)}"
    status = found.get("status")
    if isinstance(status, list):
        yield f"it is {status[0]} and should be {status[1]}"


def _pairs(values: object) -> Iterator[tuple[str, list[object]]]:
    if isinstance(values, dict):
        yield from values.items()


def records(patient: Patient) -> Iterator[Finding]:
    """Rows that do not fit each other."""
    for plan in _plans(patient):
        hint = f"tugcode state show {quoted(plan)} --checklist"
        with patient.store.read(plan) as tx:
            for said in _misfits(tx):
                yield error(f"{plan}: {said}", hint=hint)


def _misfits(tx: Transaction) -> Iterator[str]:
    for statement, problem in _IMPOSSIBLE.items():
        found = tx.value(statement)
        if found is not None:
            yield f"{found} {problem}"
    for row in tx.all(sql_doctor.OPEN_THOUGH_COMPLETED):
        yield f"{row['anchor']} is completed, and {_number(row['items'], 'item')} of it open"
    for row in tx.all(sql_doctor.UNFINISHED_BELOW):
        unfinished = _number(row["substeps"], "substep")
        yield f"{row['anchor']} is completed, and {unfinished} of it not"


def _number(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"


def backup(patient: Patient) -> Iterator[Finding]:
    """Whether the copy that a loss would be mended from is there and sound."""
    path = os.path.join(patient.copies, "backup.db")
    if not _plans(patient):
        return

    def mend() -> str:
        trouble = patient.live.back_up()
        return trouble or f"made {path}"

    hint = "tugcode doctor --fix"
    if not os.path.lexists(path):
        yield note("there is no backup of the database yet", hint=hint, mend=mend)
        return
    try:
        sound = backups.is_sound(path)
    except TugError as newer:
        yield warning(f"the backup cannot be used: {newer.message}", hint=newer.hint)
        return
    if not sound:
        yield warning(f"the backup {path} is damaged", hint=hint, mend=mend)
