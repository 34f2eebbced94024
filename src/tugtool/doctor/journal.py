"""The implementation log of every worktree: its size, and what a bad merge left in it."""

from __future__ import annotations

import os

from tugtool import files, log
from tugtool.doctor.finding import note, warning
from tugtool.errors import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tugtool.doctor.finding import Finding
    from tugtool.doctor.patient import Patient

_MARKERS = (b"<<<<<<< ", b">>>>>>> ")


def logs(patient: Patient) -> Iterator[Finding]:
    """Every worktree has its own."""
    for facts in patient.worktrees():
        path = os.path.join(facts["worktree"], log.PATH)
        if os.path.lexists(path):
            yield from _judged(patient, path)


def _judged(patient: Patient, path: str) -> Iterator[Finding]:
    text = files.read(path, max_bytes=1 << 30)
    lines = text.count(b"\n")
    most_lines = patient.settings.number("log.max_lines")
    most_bytes = patient.settings.number("log.max_bytes")
    if lines > most_lines or len(text) > most_bytes:
        said = f"{path} has {lines} lines and {len(text)} bytes, over its limits"
        yield note(f"{said}; the next commit rotates it", hint="tugcode config")
    if any(line.startswith(_MARKERS) for line in text.split(b"\n")):
        said = f"{path} has conflict markers: some merge did not keep both sides"
        yield warning(said, hint=f"grep -nE '^(<<<<<<<|>>>>>>>) ' {quoted(path)}")
