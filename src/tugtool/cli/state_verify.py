"""state verify: list what would be run, ask, run it, say what came of it."""

from __future__ import annotations

import os
import sys

from tugtool import repository, verify
from tugtool.cli import batch
from tugtool.cli.output import Answer, clean, mention
from tugtool.cli.place import Place
from tugtool.errors import NoRepository, Usage, quoted
from tugtool.plan import commands
from tugtool.state import proof

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from tugtool.cli.parse import Call

    Data = dict[str, Any]

#: A command that takes longer is stopped, unless --timeout says otherwise.
_LIMIT_SECONDS = 600.0
#: Lines of a failed command's output that people are shown; the evidence has more.
_SHOWN_LINES = 10
_LONGEST_COMMAND = 1 << 20


def state_verify(call: Call) -> Answer:
    """Run the commands of a step's checkpoints, once somebody has agreed to it."""
    place = Place(call)
    plan = place.plan()
    site = verify.Site(
        place.store,
        worktree=place.worktree,
        git_dir="",
        owner=place.owner,
        copy=place.copy,
    )
    ordinals = [batch.ordinal(word) for word in call.words("ordinal")]
    task = verify.agreed(site, plan, place.step(), attempt=place.attempt(plan), ordinals=ordinals)
    site.git_dir = _git_dir(place)
    dry_run = call.flag("dry_run")
    confirmed = not dry_run and bool(task.to_run) and _agreed_to(call, task, place.worktree)
    data = {**task.data(), "lease_expires_at": None, "artifact_id": None}
    if confirmed:
        limit = call.seconds("timeout") or _LIMIT_SECONDS
        data = verify.carry_out(site, task, limit_seconds=limit, hear=_teller(call))
    data = {**data, "dry_run": dry_run, "confirmed": confirmed}
    declined = not dry_run and bool(task.to_run) and not confirmed
    bad = declined or (not dry_run and bool(data["failed"] or data["refused"]))
    issues = [] if dry_run else list(_issues(data))
    return Answer(data, lambda: "".join(_lines(data, task)), issues=issues, status=int(bad))


def _git_dir(place: Place) -> str:
    """Git's directory of the caller's worktree, which must be one of this repository."""
    top = place.worktree
    found = repository.containing(top) if os.path.isdir(top) else None
    if found is None or (found.worktree, found.common_dir) != (top, place.repo.common_dir):
        reason = "is no worktree of this repository, and commands have to run in one"
        raise NoRepository(top, reason=reason, hint="git worktree list")
    return repository.git_dir(top)


def _agreed_to(call: Call, task: verify.Task, worktree: str) -> bool:
    """Whether somebody has said yes: on the command line, or now."""
    if call.flag("yes"):
        return True
    if sys.stdin is None or not sys.stdin.isatty() or not sys.stderr.isatty():
        problem = "nobody is here to ask: --yes runs the commands that --dry-run lists"
        raise Usage(problem, command="state verify")
    mention(f"In {clean(worktree)}, for {clean(task.anchor)}:\n" + "".join(_listed(task)))
    mention("Run this? [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _listed(task: verify.Task) -> Iterator[str]:
    for checkpoint in task.to_run:
        for command in checkpoint.reading.commands:
            # Exactly what will be run: what could not be shown as it is, is not run.
            yield f"  {_name(checkpoint.data(), task)}: {clean(command, _LONGEST_COMMAND)}\n"


def _teller(call: Call) -> Callable[[str], None]:
    """People see what is being run; programs get it all in the end."""

    def tell(command: str) -> None:
        if not call.json:
            mention(f"tugcode: running {clean(command)}\n")

    return tell


def _name(each: Data, task: verify.Task) -> str:
    own = "" if each["step_anchor"] == task.anchor else f"{clean(each['step_anchor'])} "
    return f"{own}checkpoint {each['ordinal']}"


def _issues(data: Data) -> Iterator[Data]:
    for each in data["checkpoints"]:
        if each["outcome"] not in ("failed", "refused"):
            continue
        yield {
            "code": "W130",
            "severity": "warning",
            "message": f"{each['step_anchor']} checkpoint {each['ordinal']}: {_said(each)}",
            "hint": f"tugcode state show {quoted(data['plan_path'])} --checklist",
            "anchor": each["step_anchor"],
        }


def _said(each: Data) -> str:
    """What came of one checkpoint, in words."""
    if each["evidence"] is None:
        return f"not run: {commands.REASONS[each['reason']]}"
    ran = [f"`{ran['command']}` {proof.ended(ran)}" for ran in each["evidence"]["commands"]]
    note = f"; {each['evidence']['note']}" if each["evidence"]["note"] else ""
    return "; ".join(ran) + note


def _lines(data: Data, task: verify.Task) -> Iterator[str]:
    for each in data["checkpoints"]:
        box = {"completed": "[x]", "deferred": "[~]"}.get(each["status"], "[ ]")
        name = f"{box} {_name(each, task)}"
        if each["evidence"] is None and each["reason"] is None:
            for command in each["commands"]:
                yield f"{name}: would run: {clean(command, _LONGEST_COMMAND)}\n"
            continue
        yield f"{name}: {clean(_said(each))}\n"
        if each["outcome"] == "failed":
            tail = each["evidence"]["commands"][-1]["output_tail"]
            lines = tail.splitlines()[-_SHOWN_LINES:]
            yield from (f"      {clean(line)}\n" for line in lines)
    yield _total(data, task)


def _total(data: Data, task: verify.Task) -> str:
    if not data["confirmed"]:
        if not task.to_run:
            return f"no checkpoint of {clean(task.anchor)} names a command that can be run\n"
        return "nothing was run\n"
    ran = data["passed"] + data["failed"]
    rest = data["refused"] + data["not_run"]
    left = f"; {rest} not run" if rest else ""
    ticked = f"{data['ticked']} ticked{left}"
    return f"verified {data['passed']} of {ran} of {clean(task.anchor)}, {ticked}\n"
