"""The commands about work that nobody committed: list, show, apply, prune."""

from __future__ import annotations

from tugtool import config, salvaged
from tugtool.cli.output import Answer, clean
from tugtool.cli.place import Place, said

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from tugtool.cli.parse import Call

    Data = dict[str, Any]

#: Lines of a diff are not cut: nobody could use one.
_LONGEST_LINE = 1 << 24


def worktree_salvage_list(call: Call) -> Answer:
    """Show what was saved."""
    place = Place(call)
    data = salvaged.listed(place.repo, place.plan() if call.text("plan") is not None else None)
    return Answer(data, lambda: _lines(_listing(data)))


def _lines(lines: Iterator[str]) -> str:
    return "".join(clean(line) + "\n" for line in lines)


def _listing(data: Mapping[str, Any]) -> Iterator[str]:
    for each in data["salvages"]:
        yield str(each["name"])
        yield f"    {_whose(each)}"
    if not data["salvages"]:
        yield "nothing was saved"


def _whose(each: Mapping[str, Any]) -> str:
    step = f"{each['step_anchor']} of " if each["step_anchor"] else ""
    number = f", attempt {each['attempt']}" if each["attempt"] else ""
    place = f", in {each['worktree']}" if each["worktree"] else ""
    return f"{step}{each['plan_path'] or 'no known plan'}{number}{place}, {each['saved_at']}"


def worktree_salvage_show(call: Call) -> Answer:
    """Show what is in one."""
    place = Place(call)
    data = salvaged.shown(place.repo, call.text("ref") or "", patch=call.flag("patch"))
    return Answer(data, lambda: _lines(_told(data)) + _patch(data))


def _told(data: Mapping[str, Any]) -> Iterator[str]:
    yield str(data["salvage_ref"])
    yield f"  {_whose(data)}"
    if data["base_commit"] is not None:
        yield f"  on top of {data['base_commit']}"
    for each in data["files"]:
        binary = each["insertions"] is None
        size = "binary" if binary else f"+{each['insertions']} -{each['deletions']}"
        yield f"  {each['status'].replace('_', ' ')}: {each['path']} ({size})"
    number = len(data["files"])
    files = "1 file" if number == 1 else f"{number} files"
    yield f"  {files}, +{data['insertions']} -{data['deletions']}"


def _patch(data: Mapping[str, Any]) -> str:
    lines = (data["patch"] or "").splitlines()
    return "".join(clean(line.expandtabs(), _LONGEST_LINE) + "\n" for line in lines)


def worktree_salvage_apply(call: Call) -> Answer:
    """Bring it into the caller's worktree."""
    from tugtool.git_errors import MainWorktree

    place = Place(call)
    ref = call.text("ref") or ""
    if place.worktree == place.repo.root:
        plan = salvaged.named(place.repo, ref).facts.get("Plan")
        raise MainWorktree(place.worktree, plan=plan)
    data: Data = salvaged.apply(place.repo, ref, at=place.worktree)
    if data["already_there"]:
        return said(data, f"all of {data['name']} is there already")
    number = len(data["files"])
    files = "1 file" if number == 1 else f"{number} files"
    return said(data, f"applied {data['name']}: {files} changed, nothing committed")


def worktree_salvage_prune(call: Call) -> Answer:
    """Drop what has landed, or what is named."""
    from tugtool.people_errors import PeopleOnly

    names = call.words("ref")
    # Work that has not landed is nobody's to drop but a person's.
    if names and config.has_attempt():
        command, hint = "worktree salvage prune", "tugcode worktree salvage list"
        raise PeopleOnly(f"{command} with a name", hint=hint)
    place = Place(call)
    dry_run = call.flag("dry_run")
    data = salvaged.prune(place.repo, place.store, names, actor=place.owner, dry_run=dry_run)
    return Answer(data, lambda: _lines(_pruned(data)))


def _pruned(data: Mapping[str, Any]) -> Iterator[str]:
    verb = "would drop" if data["dry_run"] else "dropped"
    for each in data["pruned"]:
        yield f"{verb} {each['name']} (commit {each['commit']})"
    for each in data["kept"]:
        yield f"kept {each['name']}: {each['reason']}"
    if not data["pruned"] and not data["kept"]:
        yield "nothing was saved"
