"""When a plan's text changes: diff, and what `init --force` does and says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tugtool import files, state
from tugtool.cli import output
from tugtool.cli.output import Answer, clean
from tugtool.cli.place import Place
from tugtool.cli.plan import issues_of
from tugtool.errors import Unreadable, Usage, listing, quoted
from tugtool.plan import fingerprint, parser
from tugtool.state.revision import FLAGS, Allowed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tugtool.cli.parse import Call
    from tugtool.plan.model import Plan

    Data = dict[str, Any]

#: Steps and items that a list of a text answer names; JSON has them all.
MOST_NAMED = 12


def state_diff(call: Call) -> Answer:
    """Compare the plan file with what was agreed."""
    place = Place(call)
    plan = place.plan()
    copy = place.copy(plan)
    text, hash, problem = None, None, None
    try:
        data = files.read(copy.file, max_bytes=_limit(call, place), raise_with="--max-bytes N")
        hash = fingerprint.of(data)
        text = files.text(copy.file, data)
    except Unreadable as error:
        gone = copy.read is None
        problem = f"{copy.file} is gone" if gone else error.message
    parsed, issues = _judged(place, plan, text)
    told: Data = state.diff(place.store, plan, file=copy.file, text=text, hash=hash, parsed=parsed)
    told["problem"] = problem
    status = 1 if told["changed"] and call.flag("exit_code") else 0
    return Answer(told, lambda: _diff_text(told, issues), issues=issues, status=status)


def _limit(call: Call, place: Place) -> int:
    return call.number("max_bytes") or place.settings.number("plan.max_bytes")


def _judged(place: Place, plan: str, text: str | None) -> tuple[Plan | None, list[Data]]:
    """The text as a plan, if `init` would take it; and what it says about it."""
    if text is None:
        return None, []
    parsed = parser.parse(text)
    issues = issues_of(parsed, plan, place.settings.word("plan.validation_level"))
    sound = not any(issue["severity"] == "error" for issue in issues)
    return parsed if sound else None, issues


def refuse_loose(call: Call) -> None:
    """Options that say how to force mean nothing without it."""
    if not call.flag("force"):
        loose = [name for key, name in _FORCING.items() if call.flag(key)]
        if loose:
            raise Usage(f"{loose[0]} goes with --force", command="state init")


_FORCING = {**FLAGS, "dry_run": "--dry-run"}


def forced(
    call: Call,
    place: Place,
    plan: str,
    parsed: Plan,
    *,
    new: Data,
    issues: Sequence[Data],
) -> Answer:
    """Accept the `new` text of a plan (text, hash, base_commit), or only say what that would do."""
    allowed = Allowed(**{flag: call.flag(flag) for flag in FLAGS})
    dry_run = call.flag("dry_run")
    told: Data = {} if dry_run else state.init(place.store, plan, parsed, **new)
    before = ""
    if "restored" in told or "forgotten" in told:
        from tugtool.cli import state_restore

        before, warning = state_restore.announced(told)
        issues = [*issues, warning]
    if told.get("already_initialized", True):
        restored = told.get("restored_from_backup", False)
        how: Data = {"allowed": allowed, "dry_run": dry_run, "actor": place.owner}
        told = state.revise(place.store, plan, parsed, **new, **how)
        told["restored_from_backup"] = restored
    answer = Answer(told, lambda: before + _forced_text(told), issues=issues)
    return answer if dry_run else place.backed_up(answer)


def _forced_text(told: Data) -> str:
    plan = told["plan_path"]
    if "kept" not in told:
        what = "would be recorded" if told["dry_run"] else "is recorded"
        return _line(f"{plan} {what}: {_number(told['steps_created'], 'step')}")
    if not told["drift"] and not told["revised"]:
        return _line(f"{plan} is what was agreed; nothing is changed")
    if told["revised"]:
        first = f"{plan}: the new text is what is carried out from now on"
    elif told["refusals"]:
        first = f"{plan}: the new text would be refused; nothing is changed"
    else:
        first = f"{plan}: the new text would be accepted; nothing is changed"
    return _line(first) + _summary(told)


def _diff_text(told: Data, issues: Sequence[Data]) -> str:
    plan = told["plan_path"]
    if told["problem"]:
        first = _line(f"{told['problem']}; this was agreed:")
        return f"{first}\n{_coloured(told['diff'])}"
    if not told["changed"]:
        return _line(f"{told['file']} is what was agreed")
    first = _line(f"{told['file']} is not what was agreed")
    if told["valid"]:
        look = f"tugcode state init {quoted(plan)} --force --dry-run"
        means = _summary(told["revision"]) + _line(f"what accepting it would do: {look}")
    else:
        errors = [issue for issue in issues if issue["severity"] == "error"]
        means = _line("it would not be accepted, because it is not a sound plan:")
        means += "".join(f"  {output.finding(issue)}" for issue in errors[:MOST_NAMED])
    return f"{first}{means}\n{_coloured(told['diff'])}"


def _line(text: str) -> str:
    return f"{clean(text)}\n"


_LISTS = {
    "added": "added",
    "removed": "removed",
    "changed": "changed",
    "reopened": "to be done again",
    "retitled": "new title",
    "moved": "moved",
    "needs_changed": "new dependencies",
    "items_reordered": "items reordered",
    "kept_claims": "claims kept",
    "dropped_claims": "claims ended",
    "completed_substeps": "completed by this",
    "ahead_of_needs": "ahead of what it needs",
}


def _summary(told: Data) -> str:
    rows = [(name, listing(_marked(told, told[key]), MOST_NAMED)) for key, name in _LISTS.items()]
    rows = [(name, names) for name, names in rows if names]
    rows.append(("kept", _kept(told)))
    for key, name in (("dropped_items", "items lost"), ("reset_items", "items begun again")):
        rows += [(name, _item(item)) for item in told[key][:MOST_NAMED]]
        more = len(told[key]) - MOST_NAMED
        rows += [(name, f"and {more} more")] if more > 0 else []
    text = "".join(_line(f"  {name:<22} {names}") for name, names in rows)
    return text + "".join(_refusals(told["refusals"]))


def _refusals(refusals: Sequence[Data]) -> Iterator[str]:
    if refusals:
        yield _line("in the way (tugcode state init --help tells what allows it):")
    for refusal in refusals[:MOST_NAMED]:
        yield _line(f"  {refusal['step']}: {refusal['why']}")
    if len(refusals) > MOST_NAMED:
        yield _line(f"  and {len(refusals) - MOST_NAMED} more")


def _marked(told: Data, anchors: Sequence[str]) -> list[str]:
    """Anchors with what a person must not overlook about them."""
    marks = dict.fromkeys((*told["kept_claims"], *told["dropped_claims"]), " (claimed)")
    marks |= dict.fromkeys(told["was_completed"], " (completed)")
    return [f"{anchor}{marks.get(anchor, '')}" for anchor in anchors]


def _kept(told: Data) -> str:
    completed = len(set(told["kept"]) & set(told["was_completed"]))
    steps, items = _number(len(told["kept"]), "step"), told["kept_items"]
    return f"{steps}, {completed} completed; {_number(items, 'completed or deferred item')}"


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _item(item: Data) -> str:
    because = f" ({item['reason']})" if item["reason"] else ""
    name = f"{item['step_anchor']} {item['kind']} {item['ordinal']}"
    return f"{name}, {item['status']}{because}: {item['text']}"


_COLOURS = {"+": "\x1b[32m", "-": "\x1b[31m", "@": "\x1b[36m"}


def _coloured(diff: str) -> str:
    """The diff as git shows it; the first two lines name the texts."""
    lines = [clean(line, output.UNBOUNDED) for line in diff.split("\n")[:-1]]
    if not output.colour():
        return "".join(f"{line}\n" for line in lines)
    heads = [f"\x1b[1m{line}\x1b[m\n" for line in lines[:2]]
    body = [
        f"{_COLOURS[line[0]]}{line}\x1b[m\n" if line[:1] in _COLOURS else f"{line}\n"
        for line in lines[2:]
    ]
    return "".join(heads + body)
