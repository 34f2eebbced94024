"""The commands about dashes: create, commit, join, release, list, show."""

from __future__ import annotations

from tugtool.cli.output import Answer, clean
from tugtool.cli.place import Place, said
from tugtool.dash import names
from tugtool.dash_errors import NoSuchDash
from tugtool.errors import Usage
from tugtool.git_errors import MessageRefused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from tugtool.cli.parse import Call

    Data = dict[str, Any]

#: Of one round, more files than these are only counted.
_MOST_FILES = 8


def dash_create(call: Call) -> Answer:
    """Make a dash, or find the active one of that name."""
    from tugtool.dash import making

    order = making.Order(
        call.text("name") or "", base=call.text("base"), description=call.text("description")
    )
    place = Place(call)
    data: Data = making.create(place.repo, place.store, order)
    verbs = {"created": "made", "repaired": "repaired", "adopted": "took up"}
    verb = next((word for key, word in verbs.items() if data[key]), "there is already")
    number = f", {_number(data['rounds'], 'round')} so far" if data["rounds"] else ""
    lines = [
        f"{verb} the dash {data['name']}: {data['worktree_path']}",
        f"branch {data['branch_name']} from {data['base_branch']}{number}",
    ]
    return place.backed_up(Answer(data, lambda: _text(lines)))


def dash_commit(call: Call) -> Answer:
    """Commit what was done in a dash, and record the round."""
    from tugtool.dash import rounds

    given = call.text("message")
    if given is None:
        raise Usage("dash commit needs --message", command=call.path)
    place = Place(call)
    try:
        words = rounds.Words(
            given, instruction=call.text("instruction"), summary=call.text("summary")
        )
        name = _name(call, place)
        data: Data = rounds.commit(place.repo, place.store, name, words, caller=place.worktree)
    except MessageRefused as error:
        raise _helped(call, error) from error
    return place.backed_up(said(data, _committed(data)))


def _helped(call: Call, error: MessageRefused) -> MessageRefused:
    """The refusal of a message, with the help of the command that was given it."""
    return MessageRefused(error.message, command=call.path)


def _committed(data: Data) -> str:
    number, name = data["round"]["number"], data["name"]
    if not data["committed"]:
        return f"round {number} of {name} is recorded; nothing was changed in it"
    verb = "found" if data["recovered"] else "committed"
    files = _number(len(data["round"]["files"]), "file")
    return f"{verb} {data['commit_hash'][:12]} as round {number} of {name}: {files}"


def dash_join(call: Call) -> Answer:
    """Bring a dash to its base branch."""
    from tugtool.dash import joining

    place = Place(call)
    try:
        data: Data = joining.join(
            place.repo,
            place.store,
            names.bare(call.text("name") or ""),
            cwd=call.cwd,
            words=call.text("message"),
            squash=not call.flag("no_squash"),
        )
    except MessageRefused as error:
        raise _helped(call, error) from error
    there = "was there already" if data["already_contained"] else "is joined"
    lines = [f"{data['name']} {there}: {data['base_branch']} is at {data['joined_commit']}"]
    lines += [f"  left {data['worktree_path']}: {reason}" for reason in data["left"]]
    return place.backed_up(Answer(data, lambda: _text(lines)))


def dash_release(call: Call) -> Answer:
    """Give a dash up."""
    from tugtool.dash import releasing

    place = Place(call)
    name = names.bare(call.text("name") or "")
    force = call.flag("force")
    data: Data = releasing.release(place.repo, place.store, name, cwd=call.cwd, force=force)
    saved = f"; its work is saved as {data['salvage_ref']}" if data["salvage_ref"] else ""
    return place.backed_up(said(data, f"released {data['name']}{saved}"))


def dash_list(call: Call) -> Answer:
    """Show the dashes."""
    from tugtool.dash import looking

    place = Place(call)
    data: Data = looking.listed(place.repo, place.store, every=call.flag("all"))
    return Answer(data, lambda: _text(list(_listing(data))))


def _listing(data: Mapping[str, Any]) -> Iterator[str]:
    for each in data["dashes"]:
        yield _title(each)
        yield from (f"    {fact}" for fact in _facts(each))
    for name in data["unrecorded"]:
        yield f"{names.branch(name)}: not recorded; tugcode dash create {name} takes it up"
    if not data["dashes"] and not data["unrecorded"]:
        yield "no dashes; tugcode dash create NAME makes one"


def _title(each: Mapping[str, Any]) -> str:
    ended = "" if each["status"] == "active" else f" ({each['status']})"
    about = f": {each['description']}" if each["description"] else ""
    return f"{each['name']}{ended}{about}"


def _facts(each: Mapping[str, Any]) -> Iterator[str]:
    rounds = _number(each["rounds"], "round")
    if each["status"] != "active":
        how = f" as {each['joined_commit']}" if each["joined_commit"] else ""
        how = f"; saved as {each['salvage_ref']}" if each["salvage_ref"] else how
        yield f"{each['status']} {each['ended_at']}{how}"
        yield f"{rounds}, from {each['base_branch']}"
        return
    parted = "" if each["ahead"] is None else f", {each['ahead']} ahead, {each['behind']} behind"
    yield f"{each['branch_name']} from {each['base_branch']}{parted}"
    yield f"{rounds}, last activity {each['updated_at']}"
    yield _work(each)


def _work(each: Mapping[str, Any]) -> str:
    if each["releasing"]:
        return f"a release was interrupted; tugcode dash release {each['name']} goes on with it"
    if each["tip"] is None:
        return f"its branch is gone; tugcode dash create {each['name']} brings it back"
    if not each["exists"]:
        return f"its directory is gone; tugcode dash create {each['name']} brings it back"
    where = "" if each["on_branch"] else ", and its worktree is on another branch"
    if not each["changed_files"]:
        return f"everything is committed{where}"
    return f"{_number(each['changed_files'], 'file')} not committed{where}"


def dash_show(call: Call) -> Answer:
    """Show one dash and its rounds."""
    from tugtool.dash import looking

    place = Place(call)
    data: Data = looking.shown(place.repo, place.store, _name(call, place))
    return Answer(data, lambda: _text([_title(data), *_story(data)]))


def _story(data: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"    {fact}" for fact in _facts(data))
    if data["status"] == "active":
        yield f"    {data['worktree_path']}"
    for each in data["history"]:
        commit = each["commit_hash"][:12] if each["commit_hash"] else "nothing changed"
        yield ""
        yield f"  round {each['number']}  {commit}  {each['recorded_at']}"
        if each["instruction"]:
            yield f"    asked: {each['instruction']}"
        if each["summary"]:
            yield f"    {each['summary']}"
        files = each["files"]
        yield from (f"      {file['status']:<12} {file['path']}" for file in files[:_MOST_FILES])
        if len(files) > _MOST_FILES:
            yield f"      and {len(files) - _MOST_FILES} more files"


def _name(call: Call, place: Place) -> str:
    """The dash that is named, or the one in whose worktree the caller is."""
    from tugtool.dash import ground

    given = call.text("name")
    if given is not None:
        return names.bare(given)
    row = ground.at(place.store, place.repo, place.worktree)
    if row is None:
        raise NoSuchDash("")
    return str(row["name"])


def _number(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _text(lines: list[str]) -> str:
    return "".join(clean(line) + "\n" for line in lines)
