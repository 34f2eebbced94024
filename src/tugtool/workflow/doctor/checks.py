"""All checks in their order, and how to run them."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import NamedTuple

from tugtool.errors import TugError
from tugtool.git.safe_view import SafeView
from tugtool.workflow.doctor import (
    DoctorFinding,
    Subject,
    error,
    guard,
    machine,
    plans,
    record,
    worktrees,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from tugtool.git import Repository
    from tugtool.schemas import Doctor, DoctorCheck, Issue


class Check(NamedTuple):
    """One check: its name, its function, and what it needs.

    Other commands change a `moving` subject, so only a finding that appears twice counts.
    """

    name: str
    examine: Callable[[Subject], Iterable[DoctorFinding]]
    needs: tuple[str, ...] = ()
    moving: bool = False


_GIT = ("git",)
_STATE = ("database",)
_BOTH = ("git", "database")
#: Git suffices to look, but the record must be readable.
_TREES = ("git", "readable")

CHECKS = (
    Check("git", machine.git_version),
    Check("set-up", plans.files),
    Check("ignored", plans.ignored, needs=_GIT),
    Check("tracked", plans.tracked, needs=_GIT),
    Check("settings", plans.settings),
    Check("runs", plans.runs, needs=_GIT),
    Check("log-merging", plans.log_merging, needs=_GIT),
    Check("database", record.opened),
    Check("server", record.server),
    Check("serve", record.served),
    Check("lock", record.lock),
    Check("integrity", record.integrity, needs=_STATE),
    Check("references", record.references, needs=_STATE),
    Check("counts", record.counts, needs=_STATE),
    Check("records", record.records, needs=_STATE),
    Check("backup", record.backup, needs=_STATE),
    Check("leftovers", worktrees.leftovers, needs=_GIT),
    Check("git-locks", worktrees.git_locks, needs=_GIT),
    Check("intents", record.open_intents, needs=_BOTH, moving=True),
    Check("plan-files", plans.gone, needs=_BOTH, moving=True),
    Check("plan-texts", plans.changed, needs=_BOTH, moving=True),
    Check("targets", plans.targets, needs=_BOTH),
    Check("merging", plans.merging, needs=_BOTH, moving=True),
    Check("claims", plans.claims, needs=_BOTH, moving=True),
    Check("parked", plans.parked, needs=_STATE),
    Check("unsaved", worktrees.unsaved, needs=_STATE),
    Check("unpublished", worktrees.unpublished, needs=_STATE),
    Check("salvages", worktrees.salvages, needs=_GIT, moving=True),
    Check("uncommitted", worktrees.uncommitted, needs=_BOTH, moving=True),
    Check("worktrees", worktrees.worktrees, needs=_TREES, moving=True),
    Check("directories", worktrees.directories, needs=_GIT, moving=True),
    Check("branches", worktrees.branches, needs=_TREES, moving=True),
    Check("dashes", worktrees.dashes, needs=_BOTH, moving=True),
    Check("log", plans.logs, needs=_GIT, moving=True),
    Check("guard", guard.guard),
    Check("mcp", guard.mcp_server),
    Check("confinement", guard.confinement_works),
    Check("trust", guard.trusted),
    Check("sqlite", machine.sqlite),
    Check("file-system", machine.file_system),
    Check("disk-space", machine.disk_space),
    Check("clock", machine.clock, needs=_STATE),
    Check("start-up", machine.start_up),
)


@dataclass
class Report:
    """The result of a check."""

    name: str
    #: Why the check was skipped.
    skipped: str | None = None
    #: Open findings, and repaired ones.
    findings: list[DoctorFinding] = field(default_factory=list)
    mended: list[DoctorFinding] = field(default_factory=list)

    @property
    def status(self) -> Any:
        """The worst finding: error, warning, fixed, ok; or skipped."""
        if self.skipped is not None:
            return "skipped"
        found = {finding.severity for finding in self.findings}
        for severity in ("error", "warning"):
            if severity in found:
                return severity
        return "fixed" if self.mended else "ok"


def diagnose(repo: Repository, *, cwd: str, fix: bool = False) -> tuple[Doctor, list[Issue]]:
    """Run all checks, and with `fix` the repairs. Return the report, and a warning for the rest."""
    subject = Subject(repo, cwd=cwd, fix=fix)
    try:
        with nullcontext() if fix else SafeView():
            data = _report(subject, examine(subject))
    finally:
        subject.close()
    return data, list(_issues(data["checks"]))


def _issues(checks: Iterable[DoctorCheck]) -> Iterator[Issue]:
    for check in checks:
        for each in check["findings"]:
            if each["severity"] != "note" and not each["fixed"]:
                said = f"{check['name']}: {each['message']}"
                issue: Issue = {"code": "W150", "severity": "warning", "message": said}
                yield {**issue, "hint": each["hint"]} if each["hint"] else issue


def examine(subject: Subject, checks: Iterable[Check] = CHECKS) -> list[Report]:
    """Run all checks; one that fails does not stop the others."""
    lacking: dict[str, str] = {}
    reports = []
    for check in checks:
        report = _examined(subject, check, lacking)
        reports.append(report)
        if check.name == "git" and report.status == "error":
            lacking["git"] = "git cannot be used"
        if check.name == "database" and subject.unread is not None:
            lacking["database"] = lacking["readable"] = "the database cannot be read"
        elif check.name == "database" and not subject.recorded:
            lacking["database"] = "nothing is recorded yet"
    return reports


def _examined(subject: Subject, check: Check, lacking: dict[str, str]) -> Report:
    without = next((lacking[need] for need in check.needs if need in lacking), None)
    report = Report(check.name, without)
    if without is not None:
        return report
    report.findings = _findings(subject, check)
    if check.moving and report.findings:
        subject.forget_worktrees()
        again = {finding.message for finding in _findings(subject, check)}
        report.findings = [each for each in report.findings if each.message in again]
    mendable = [finding for finding in report.findings if finding.repair is not None]
    if not subject.fix or not mendable:
        return report
    for finding in mendable:
        _repair(finding)
    subject.forget_worktrees()
    # A repair counts only if the check then passes.
    tried = {finding.message: finding for finding in mendable}
    report.findings = [tried.get(each.message, each) for each in _findings(subject, check)]
    report.mended = [finding for finding in mendable if finding not in report.findings]
    return report


def _findings(subject: Subject, check: Check) -> list[DoctorFinding]:
    found: list[DoctorFinding] = []
    try:
        # One by one: keep the findings from before an error.
        for finding in check.examine(subject):
            found.append(finding)  # noqa: PERF402
    except TugError as broken:
        found.append(error(f"cannot be looked at: {broken.message}", hint=broken.hint))
    except Exception as broken:
        # Report any error: a person runs the doctor because something is broken.
        found.append(error(f"cannot be looked at: {broken!r}"))
    return found


def _repair(finding: DoctorFinding) -> None:
    assert finding.repair is not None
    try:
        finding.outcome = finding.repair()
    except TugError as refused:
        finding.outcome = f"not done: {refused.message}"
        finding.hint = refused.hint or finding.hint
    except OSError as refused:
        finding.outcome = f"not done: {refused.strerror or refused}"
    except Exception as broken:
        # This repair failed; go on with the others.
        finding.outcome = f"not done: {broken!r}"


def _report(subject: Subject, reports: list[Report]) -> Doctor:
    statuses = [report.status for report in reports]
    kinds = ("ok", "fixed", "warning", "error", "skipped")
    counts: Any = {kind: statuses.count(kind) for kind in kinds}
    bare, usual = subject.starts
    return {
        "healthy": not {"warning", "error"} & set(statuses),
        "fix": subject.fix,
        "counts": counts,
        "checks": [_check(report) for report in reports],
        "versions": machine.versions(subject),
        "start_up_ms": {"bare": bare, "usual": usual},
    }


def _check(report: Report) -> DoctorCheck:
    return {
        "name": report.name,
        "status": report.status,
        "reason": report.skipped,
        "findings": [
            {
                "severity": finding.severity,
                "message": finding.message,
                "hint": finding.hint,
                "fixable": finding.repair is not None,
                "fixed": finding in report.mended,
                "outcome": finding.outcome,
            }
            for finding in (*report.mended, *report.findings)
        ],
    }
