"""The tools claim and release: how a worker gets a step, and how it gives one back.

A worker without a shell cannot clean its worktree. So a claim saves and clears what belongs to
another step, and a release saves the files for the next worker.
"""

from __future__ import annotations

from tugtool import errors
from tugtool.errors import TugError, listing
from tugtool.git import discover
from tugtool.server.mcp import claim_texts
from tugtool.server.mcp.commands import plan_key, run_command
from tugtool.server.mcp.texts import anchor_of
from tugtool.state import completion
from tugtool.system import clock, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from tugtool.cli.output import Answer
    from tugtool.server.mcp.held import HeldClaim
    from tugtool.server.mcp.session import ToolSession
    from tugtool.workflow.salvage.leftovers import Leftovers
    from tugtool.workflow.workspace import Workspace

    Data = dict[str, Any]
    Given = Mapping[str, Any]
    Outcome = tuple[str, Mapping[str, object]]


#: A claim can become possible without a write: a lease runs out, a process ends.
_LONGEST_NAP_SECONDS = 0.5
_MOST_FILES = 8


def claim_step(session: ToolSession, given: Given) -> Outcome:
    """The next step, with its text."""
    deadline = clock.ticks() + given.get("wait_seconds", 0)
    _refuse_missing_worktree(session, given)
    request = StepRequest(session, given)
    space, guide = session.space(given.get("worktree")), session.guide(given)
    while True:
        session.watch()
        left = deadline - clock.ticks()
        try:
            data = request.ask()
            if data["claimed"] or data["all_completed"] or left <= 0:
                break
        except errors.NotReady:
            # The step is held or blocked, which can change.
            if left <= 0:
                raise
        space.store.wait_for_change(min(left, _LONGEST_NAP_SECONDS))
    if not data["claimed"]:
        return claim_texts.nothing(space, data, guide, request.notes), data
    session.claimed(data, given.get("worktree"), request.request_id)
    notes = [*request.notes, *request.about_files(data)]
    notes += _synced(session, given, data) if data["missing_commits"] else []
    has_files = request.has_own_files(data)
    return claim_texts.claimed(space, data, notes, guide, has_files=has_files), data


def _refuse_missing_worktree(session: ToolSession, given: Given) -> None:
    """Refuse a worktree that does not exist on this machine: nobody could work in it."""
    named = given.get("worktree")
    if named is None or not session.is_local:
        return
    space = session.space(named)
    if _is_worktree(space):
        return
    from tugtool.workflow import worktree

    plan = plan_key(session, given)
    trees = worktree.trees(space.repo, space.store)
    there = [each.path for each in trees if each.plan == plan and each.exists]
    problem = f'claim: "{named[:200]}" is not a worktree of this repository'
    said = f"; those of the plan: {listing(there)}" if there else ""
    error = errors.Usage(f"{problem}{said}")
    error.facts |= {"plan": plan, "worktrees": there}
    raise error


def _is_worktree(space: Workspace) -> bool:
    if not os.path.isdir(space.worktree):
        return False
    try:
        found = discover(space.worktree)
    except TugError:
        return False
    return (found.common_dir, found.worktree) == (space.repo.common_dir, space.worktree)


class StepRequest:
    """One claim. It goes on with files of the worktree, or puts them out of the way first."""

    def __init__(self, session: ToolSession, given: Given) -> None:
        self._session, self._given = session, given
        self._plan = plan_key(session, given)
        self._space = session.space(given.get("worktree"))
        self._step = self._wanted()
        self._left = self._leftovers()
        #: What was done before the step could be claimed.
        self.notes: list[str] = []
        self.request_id: str | None = given.get("request_id") or self._known_id()

    def _known_id(self) -> str | None:
        """The id of the claim that this client has, or a new one; none where nobody keeps it."""
        if not self._session.is_local:
            return None
        held = self._held()
        again = held is not None and self._step in (None, held.anchor)
        return held.request_id if held is not None and again else _new_id()

    def _held(self) -> HeldClaim | None:
        return self._session.same_claim(self._plan, self._given.get("worktree"))

    def _is_ours(self) -> bool:
        """True if the id is that of an earlier claim, and not the client's own word."""
        return "request_id" not in self._given and self._held() is not None

    def _wanted(self) -> str | None:
        """The anchor of the step that was asked for; the word itself if it means none."""
        step: str | None = self._given.get("step")
        try:
            return None if step is None else anchor_of(self._space, self._plan, step)
        except TugError:
            return step

    def _leftovers(self) -> Leftovers | None:
        if not self._session.is_local:
            return None  # The worktree is on another machine.
        from tugtool.workflow.salvage import leftovers

        return leftovers.find_leftovers(self._space, self._plan)

    def ask(self) -> Data:
        """Claim a step, if there is one."""
        step, left, space, plan = self._step, self._left, self._space, self._plan
        own = left.go_on_with(space, plan, step) if left is not None else None
        if own is not None:
            try:
                return self._asked(own)
            except (errors.NotReady, errors.WrongStatus):
                pass  # Another worker was first.
        if left is not None and left.is_of_other_step and left.is_in_the_way(space, plan, step):
            self._clean(f"files of {left.anchor}, attempt {left.attempt}", left.files)
        return self._asked(step)

    def _asked(self, step: str | None) -> Data:
        try:
            answer = self._run(step)
        except TugError as error:
            if isinstance(error, errors.Superseded) and self._is_ours():
                # The claim that this client had is over.
                self._session.ended(self._plan, str(error.facts["anchor"]))
                self.request_id = _new_id()
            elif error.code == "E037":
                # It was lost a moment ago.
                self._clean(f"work of {error.facts['anchor']}", [])
            elif error.code == "E048" and error.facts["standing"] == "newer":
                # A newer text was agreed; the worktree can have it.
                run_command(self._session, "worktree sync", self._given, self._plan)
            else:
                raise
            answer = self._run(step)
        return {**answer.data, "notes": [str(each["message"]) for each in answer.issues]}

    def _run(self, step: str | None) -> Answer:
        options: Data = {"step": step, "request_id": self.request_id}
        options["holder_pid"] = self._session.holder_pid
        return run_command(self._session, "state claim", self._given, self._plan, **options)

    def _clean(self, what: str, files: list[str]) -> None:
        cleaned: Any = run_command(self._session, "worktree clean", self._given).data
        self._left = None
        if cleaned["cleaned"]:
            named = listing(files or cleaned["files"], _MOST_FILES)
            saved = f"they are saved as {cleaned['salvage_ref']}, and the worktree is clean"
            whose = "which it does not hold any more"
            self.notes.append(f"your worktree had {what}, {whose}: {named}; {saved}")

    def has_own_files(self, data: Data) -> bool:
        """True if the worktree has files of an earlier attempt of its own at this step."""
        before, left = data["previous_attempt"], self._left
        if left is None or before is None or before["worktree"] != data["worktree"]:
            return False
        return left.held or left.anchor == data["anchor"]

    def about_files(self, data: Data) -> Iterator[str]:
        """Say which files were there before the claim, and whose they are."""
        if self._left is None:
            return
        named = listing(self._left.files, _MOST_FILES)
        if self.has_own_files(data):
            number = data["previous_attempt"]["number"]
            yield f"your worktree still has the files of attempt {number}: {named}; go on with them"
        elif not self._left.held:
            yield (
                f"uncommitted files were in your worktree before: {named}; complete with a message "
                "commits them too"
            )


def _synced(session: ToolSession, given: Given, data: Data) -> list[str]:
    """Bring in the commits that the step depends on. Return the sentences about it."""
    try:
        done: Any = run_command(session, "worktree sync", given, data["plan_path"]).data
    except TugError as error:
        first = error.message.split("\n")[0]
        missing = [f"  git merge {each['commit']}" for each in data["missing_commits"]]
        held = {"step": data["anchor"], "attempt": data["attempt"], "park": True}
        back = session.guide(given).call(
            "release", **held, reason="its dependencies cannot be merged"
        )
        return [
            f"your branch lacks commits that it depends on ({first}); merge them in a shell:",
            *missing,
            f"without a shell: {back}, and a person merges them",
        ]
    steps = [each["step_anchor"] for each in done["merged"]]
    return [f"merged into your branch, because it depends on them: {listing(steps)}"]


def complete_as_it_is(session: ToolSession, given: Given, plan: str) -> Data:
    """Complete a step whose work is committed, or that needed no commit."""
    how = {"attempt": given["attempt"], "commit": given.get("commit")}
    try:
        _refuse_unfit(session, given, plan)
        answer = run_command(session, "state complete", given, plan, given["step"], **how)
    except (errors.InvalidEntry, errors.Usage) as error:
        error.facts["plan"] = plan
        raise
    return {**answer.data, "warnings": [str(each["message"]) for each in answer.issues]}


def _refuse_unfit(session: ToolSession, given: Given, plan: str) -> None:
    """Refuse to complete a step without its work: by another commit, or beside files of it."""
    from tugtool.workflow.commit import named

    space, commit = session.space(given.get("worktree")), given.get("commit")
    anchor = anchor_of(space, plan, given["step"])
    who: Any = {"owner": space.owner, "attempt": given["attempt"]}
    try:
        completion.refuse_open(space.store, plan, anchor, **who)
    except TugError:
        return  # The command itself says what is wrong.
    for doubt in named.doubts(space, plan, anchor, commit) if commit is not None else ():
        raise errors.InvalidEntry(f"complete: {doubt}", command="complete")
    for left in named.uncommitted(space) if session.is_local else ():
        raise errors.Usage(f"complete: {left}; give a message, or commit all of them first")
    if not session.is_local and commit is None and not (given.get("summary") or "").strip():
        problem = "name the commit that has the work; if there was nothing to commit, say so in"
        error = errors.Usage(f"complete: {problem} summary")
        error.facts["has_no_commit"] = True
        raise error


def _new_id() -> str:
    return f"mcp-{os.urandom(8).hex()}"


def release_step(session: ToolSession, given: Given) -> Outcome:
    """Give the step back; the reason stays as a note, and the files are saved."""
    plan, step, reason = plan_key(session, given), given["step"], given["reason"]
    how: Data = {"attempt": given["attempt"]}
    space = session.space(given.get("worktree"))
    saves = session.is_local and space.worktree != space.repo.root
    how |= {"park": given.get("park"), "reason": reason.strip() or None, "save": saves}
    answer = run_command(session, "state release", given, plan, step, **how)
    data: Any = answer.data
    session.ended(plan, data["anchor"])
    clean = bool(data["salvage_ref"]) and saves and _is_cleaned(session, given)
    warnings = [str(each["message"]) for each in answer.issues]
    return claim_texts.released(data, warnings, session.guide(given), clean=clean), data


def _is_cleaned(session: ToolSession, given: Given) -> bool:
    """Clear the worktree, whose files are saved. Return whether that was possible."""
    try:
        done: Any = run_command(session, "worktree clean", given).data
    except TugError:
        return False  # It holds another step, or has what no commit can hold.
    return bool(done["cleaned"])
