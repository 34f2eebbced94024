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
    every, skipped = len(data["checks"]), data["counts"]["skipped"]
    made = f"{every} checks"
    if skipped:
        reasons = sorted({check["reason"] for check in data["checks"] if check["reason"]})
        made = f"{every - skipped} of {made} made, {skipped} skipped ({'; '.join(reasons)})"
    found = ", ".join(_found(data))
    verdict = "healthy" if data["healthy"] else "NOT healthy"
    versions = data["versions"]
    using = f"SQLite {versions['sqlite']}, git {versions['git'] or 'not found'}"
    return f"{verdict}, {made}{f': {found}' if found else ''}; {using}"


def _found(data: Mapping[str, Any]) -> Iterator[str]:
    """How much was found, not by how many checks."""
    findings = [each for check in data["checks"] for each in check["findings"]]
    kinds = ["fixed" if each["fixed"] else each["severity"] for each in findings]
    for kind in ("error", "warning", "fixed"):
        count = kinds.count(kind)
        if count:
            yield f"{count} {kind}{'' if count == 1 or kind == 'fixed' else 's'}"
