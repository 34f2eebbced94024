"""state reconcile: what git proves to be done is done."""

from __future__ import annotations

from tugtool import reconcile
from tugtool.cli.output import Answer, clean
from tugtool.cli.place import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.cli.parse import Call

    Data = dict[str, object]

#: A person sees so many; a program sees all.
MOST_SHOWN = 20


def state_reconcile(call: Call) -> Answer:
    """Complete the steps whose commits git has."""
    place = Place(call)
    data = reconcile.reconcile(
        place.repo,
        place.store,
        place.plan(),
        force=call.flag("force"),
        dry_run=call.flag("dry_run"),
        actor=place.owner,
    )
    answer = Answer(data, lambda: "".join(f"{clean(line)}\n" for line in _lines(data)))
    return answer if data["dry_run"] else place.backed_up(answer)


def _lines(data: Data) -> list[str]:
    would = "would be " if data["dry_run"] else ""
    done = [
        f"  {each['step_anchor']}: {each['commit_hash']} (was {each['was']})"
        for each in _listed(data, "reconciled")
    ]
    kept = [
        f"  {each['step_anchor']}: recorded {each['db_hash']}, git has {each['git_hash']}"
        for each in _listed(data, "skipped_mismatches")
    ]
    passed = [
        f"  {str(each['commit_hash'])[:12]} {each['step_anchor'] or '-'}: {each['detail']}"
        for each in _listed(data, "ignored")
    ]
    read, steps = data["commits_read"], data["reconciled_count"]
    head = f"{data['plan_path']}: {read} commit{'s' * (read != 1)} read"
    return [
        f"{head}, {steps} step{'s' * (steps != 1)} {would}reconciled",
        *_some(done),
        *([f"{data['skipped_count']} kept as recorded", *_some(kept)] if kept else []),
        *([f"{len(passed)} passed over", *_some(passed)] if passed else []),
    ]


def _listed(data: Data, name: str) -> list[Data]:
    rows = data[name]
    assert isinstance(rows, list)
    return rows


def _some(lines: list[str]) -> list[str]:
    rest = len(lines) - MOST_SHOWN
    return [*lines[:MOST_SHOWN], *([f"  and {rest} more (--json lists all)"] if rest > 0 else [])]
