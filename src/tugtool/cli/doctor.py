"""doctor: look at everything, say what is wrong, and what to do."""

from __future__ import annotations

from tugtool import repository
from tugtool.cli.output import Answer, clean
from tugtool.doctor import checks
from tugtool.doctor.patient import Patient
from tugtool.state.record import storable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from tugtool.cli.parse import Call

    Data = dict[str, Any]

#: For people, so many of one check; a program sees all.
MOST_SHOWN = 10


def doctor(call: Call) -> Answer:
    """Make every check, and with --fix the repairs."""
    repo = repository.discover(call.cwd)
    patient = Patient(repo, cwd=call.cwd, fix=call.flag("fix"), actor=storable(repo.worktree))
    try:
        data: Data = checks.told(patient, checks.examine(patient))
    finally:
        patient.close()
    issues = list(_issues(data))
    status = 0 if data["healthy"] else 1
    return Answer(data, lambda: "".join(_lines(data)), issues=issues, status=status)


def _issues(data: Mapping[str, Any]) -> Iterator[dict[str, object]]:
    """What is left to look at, where every command says such things."""
    for check in data["checks"]:
        for each in check["findings"]:
            if each["severity"] != "note" and not each["fixed"]:
                said = f"{check['name']}: {each['message']}"
                issue = {"code": "W150", "severity": "warning", "message": said}
                yield issue | ({"hint": each["hint"]} if each["hint"] else {})


def _lines(data: Mapping[str, Any]) -> Iterator[str]:
    for check in data["checks"]:
        for each in check["findings"][:MOST_SHOWN]:
            yield from _told(check["name"], each)
        rest = len(check["findings"]) - MOST_SHOWN
        if rest > 0:
            yield f"{check['name']}: and {rest} more (--json lists all)\n"
    yield f"{_summary(data)}\n"


def _told(name: str, finding: Mapping[str, Any]) -> Iterator[str]:
    kind = "fixed" if finding["fixed"] else finding["severity"]
    yield f"{kind} {name}: {clean(finding['message'])}\n"
    if finding["outcome"]:
        yield f"    {clean(finding['outcome'])}\n"
    if finding["hint"] and not finding["fixed"]:
        yield f"    next: {clean(finding['hint'])}\n"


def _summary(data: Mapping[str, Any]) -> str:
    counts = data["counts"]
    made = sum(counts.values()) - counts["skipped"]
    parts = [f"{counts[kind]} {kind}" for kind in ("error", "warning", "fixed") if counts[kind]]
    if counts["skipped"]:
        reasons = sorted({check["reason"] for check in data["checks"] if check["reason"]})
        parts.append(f"{counts['skipped']} skipped ({'; '.join(reasons)})")
    found = f": {', '.join(parts)}" if parts else ""
    verdict = "healthy" if data["healthy"] else "NOT healthy"
    return f"{verdict}, {made} checks{found}; {_versions(data)}"


def _versions(data: Mapping[str, Any]) -> str:
    versions = data["versions"]
    bug = " with the WAL-reset bug, kept clear of" if versions["sqlite_wal_reset_bug"] else ""
    return f"SQLite {versions['sqlite']}{bug}, git {versions['git'] or 'not found'}"
