"""Every check, in the order in which they are made, and how they are made."""

from __future__ import annotations

from tugtool.doctor import (
    claims,
    database,
    guard,
    intents,
    journal,
    machine,
    plans,
    setup,
    trees,
    work,
)
from tugtool.doctor.finding import Finding, error
from tugtool.errors import TugError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tugtool.doctor.patient import Patient

    Data = dict[str, object]


class Check:
    """One subject: its name, what it needs before anybody can look, and who looks.

    What is `moving` is just what others are changing: there, only what is found twice counts.
    """

    __slots__ = ("examine", "moving", "name", "needs")

    def __init__(
        self,
        name: str,
        examine: Callable[[Patient], Iterable[Finding]],
        *,
        needs: tuple[str, ...] = (),
        moving: bool = False,
    ) -> None:
        self.name = name
        self.examine = examine
        self.needs = needs
        self.moving = moving


_GIT = ("git",)
_STATE = ("database",)
_BOTH = ("git", "database")
#: Git alone has something to tell, but what is recorded must not be unknown.
_TREES = ("git", "readable")

CHECKS = (
    Check("git", machine.git_version),
    Check("set-up", setup.files),
    Check("ignored", setup.ignored, needs=_GIT),
    Check("tracked", setup.tracked, needs=_GIT),
    Check("settings", setup.settings),
    Check("log-merging", setup.log_merging, needs=_GIT),
    Check("database", database.opened),
    Check("lock", database.lock),
    Check("integrity", database.integrity, needs=_STATE),
    Check("references", database.references, needs=_STATE),
    Check("counts", database.counts, needs=_STATE),
    Check("records", database.records, needs=_STATE),
    Check("backup", database.backup, needs=_STATE),
    Check("leftovers", work.leftovers),
    Check("intents", intents.open_intents, needs=_BOTH, moving=True),
    Check("plan-files", plans.gone, needs=_BOTH, moving=True),
    Check("plan-texts", plans.changed, needs=_BOTH, moving=True),
    Check("merging", plans.merging, needs=_BOTH, moving=True),
    Check("claims", claims.claims, needs=_BOTH, moving=True),
    Check("parked", claims.parked, needs=_STATE),
    Check("unsaved", work.unsaved, needs=_STATE),
    Check("uncommitted", work.uncommitted, needs=_BOTH, moving=True),
    Check("worktrees", trees.worktrees, needs=_TREES, moving=True),
    Check("directories", trees.directories, needs=_GIT, moving=True),
    Check("branches", trees.branches, needs=_TREES, moving=True),
    Check("dashes", trees.dashes, needs=_BOTH, moving=True),
    Check("log", journal.logs, needs=_GIT, moving=True),
    Check("guard", guard.guard),
    Check("sqlite", machine.sqlite),
    Check("file-system", machine.file_system),
    Check("disk-space", machine.disk_space),
    Check("clock", machine.clock, needs=_STATE),
    Check("start-up", machine.start_up),
)


class Report:
    """What came of one check."""

    __slots__ = ("findings", "mended", "name", "skipped")

    def __init__(self, name: str, skipped: str | None = None) -> None:
        self.name = name
        #: Why nobody could look.
        self.skipped = skipped
        #: What is wrong, and what was and is so no longer.
        self.findings: list[Finding] = []
        self.mended: list[Finding] = []

    @property
    def status(self) -> str:
        """The worst of it: error, warning, fixed, ok; or skipped."""
        if self.skipped is not None:
            return "skipped"
        found = {finding.severity for finding in self.findings}
        for severity in ("error", "warning"):
            if severity in found:
                return severity
        return "fixed" if self.mended else "ok"


def examine(patient: Patient, checks: Iterable[Check] = CHECKS) -> list[Report]:
    """Make every check; one that cannot be made stops no other."""
    lacking: dict[str, str] = {}
    reports = []
    for check in checks:
        report = _examined(patient, check, lacking)
        reports.append(report)
        if check.name == "git" and report.status == "error":
            lacking["git"] = "git cannot be used"
        if check.name == "database" and patient.unread is not None:
            lacking["database"] = lacking["readable"] = "the database cannot be read"
        elif check.name == "database" and not patient.recorded:
            lacking["database"] = "nothing is recorded yet"
    return reports


def _examined(patient: Patient, check: Check, lacking: dict[str, str]) -> Report:
    without = next((lacking[need] for need in check.needs if need in lacking), None)
    report = Report(check.name, without)
    if without is not None:
        return report
    report.findings = _findings(patient, check)
    if check.moving and report.findings:
        patient.forget_worktrees()
        again = {finding.message for finding in _findings(patient, check)}
        report.findings = [each for each in report.findings if each.message in again]
    mendable = [finding for finding in report.findings if finding.mend is not None]
    if not patient.fix or not mendable:
        return report
    for finding in mendable:
        _mend(finding)
    patient.forget_worktrees()
    # Believed is only what a second look no longer finds.
    tried = {finding.message: finding for finding in mendable}
    report.findings = [tried.get(each.message, each) for each in _findings(patient, check)]
    report.mended = [finding for finding in mendable if finding not in report.findings]
    return report


def _findings(patient: Patient, check: Check) -> list[Finding]:
    found: list[Finding] = []
    try:
        # One by one: what was found before it broke off is not lost.
        for finding in check.examine(patient):
            found.append(finding)  # noqa: PERF402
    except TugError as broken:
        found.append(error(f"cannot be looked at: {broken.message}", hint=broken.hint))
    except Exception as broken:
        # Whatever it is: somebody asks because something is broken.
        found.append(error(f"cannot be looked at: {broken!r}"))
    return found


def _mend(finding: Finding) -> None:
    assert finding.mend is not None
    try:
        finding.outcome = finding.mend()
    except TugError as refused:
        finding.outcome = f"not done: {refused.message}"
        finding.hint = refused.hint or finding.hint
    except OSError as refused:
        finding.outcome = f"not done: {refused.strerror or refused}"
    except Exception as broken:
        # It is left as it was found, and so are the others that wait to be mended.
        finding.outcome = f"not done: {broken!r}"


def told(patient: Patient, reports: list[Report]) -> Data:
    """Everything, for programs."""
    statuses = [report.status for report in reports]
    kinds = ("ok", "fixed", "warning", "error", "skipped")
    return {
        "healthy": not {"warning", "error"} & set(statuses),
        "fix": patient.fix,
        "counts": {kind: statuses.count(kind) for kind in kinds},
        "checks": [_check(report) for report in reports],
        "versions": machine.versions(),
        "start_up_ms": dict(zip(("bare", "usual"), patient.starts, strict=True)),
    }


def _check(report: Report) -> Data:
    return {
        "name": report.name,
        "status": report.status,
        "reason": report.skipped,
        "findings": [
            *(_finding(each, fixed=True) for each in report.mended),
            *(_finding(each, fixed=False) for each in report.findings),
        ],
    }


def _finding(finding: Finding, *, fixed: bool) -> Data:
    return {
        "severity": finding.severity,
        "message": finding.message,
        "hint": finding.hint,
        "fixable": finding.mend is not None,
        "fixed": fixed,
        "outcome": finding.outcome,
    }
