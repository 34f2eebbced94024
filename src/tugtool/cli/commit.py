"""commit: parse, one call, show."""

from __future__ import annotations

from tugtool import commit as operation
from tugtool import repository
from tugtool.cli.output import Answer
from tugtool.cli.place import Place, said
from tugtool.errors import NoRepository, Usage
from tugtool.git_errors import CommitRefused, MainWorktree
from tugtool.intent import Site

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tugtool.cli.parse import Call

    Data = dict[str, object]


def commit(call: Call) -> Answer:
    """Commit a step's work and complete the step."""
    words, anchor = call.text("message"), call.text("step")
    if words is None or not anchor:
        raise Usage("commit needs --step and --message", command="commit")
    place = Place(call)
    work = operation.Work(
        words,
        call.text("summary"),
        max_lines=place.settings.number("log.max_lines"),
        max_bytes=place.settings.number("log.max_bytes"),
    )
    plan = place.plan()
    attempt = place.attempt(plan)
    data = operation.commit(site(place, plan), plan, place.step(), work, attempt=attempt)
    issues: Sequence[Data] = data.pop("issues")  # type: ignore[assignment]  # of that type
    answer = said(data, _text(data), issues)
    return answer if data["state_update_failed"] else place.backed_up(answer)


def site(place: Place, plan: str) -> Site:
    """The linked worktree whose work it is."""
    top = place.worktree
    if top == place.repo.root:
        raise MainWorktree(top, plan=plan)
    try:
        found = repository.containing(top)
    except NoRepository:
        found = None
    if found is None or (found.worktree, found.common_dir) != (top, place.repo.common_dir):
        raise CommitRefused(top, "is no worktree of this repository", hint="git worktree list")
    return Site(
        place.store,
        top=top,
        git_dir=repository.git_dir(top),
        root=place.repo.root,
        owner=place.owner,
        copy=place.copy,
    )


def _text(data: Data) -> str:
    left = data.get("remaining_steps")
    remain = "1 step remains" if left == 1 else f"{left} steps remain"
    if not data["committed"]:
        return f"completed already {data['anchor']}; {remain}"
    verb = "found" if data["recovered"] else "committed"
    text = f"{verb} {str(data['commit_hash'])[:12]} for {data['anchor']}"
    if data["state_update_failed"]:
        return f"{text}; the step is NOT completed ({data['state_failure_reason']})"
    return f"{text}, which is completed; {remain}"
