"""dash commit, list and show."""

from __future__ import annotations

from tugtool import git as tugtool_git
from tugtool.errors import GitFailed, TugError, quoted
from tugtool.errors.git import WrongBranch
from tugtool.git import command as git
from tugtool.git import history, index, refs, status, trailers
from tugtool.git.safe_view import SafeView
from tugtool.state import dashes, intents
from tugtool.state.dashes import Round
from tugtool.store import NO_PLAN
from tugtool.system import crash
from tugtool.workflow import dash, worktree
from tugtool.workflow.dash import Dash, named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tugtool.git import Repository
    from tugtool.git.history import WorkCommit
    from tugtool.schemas import DashCommit, DashList, DashListDash, DashShow
    from tugtool.store import Row, Store
    from tugtool.workflow.workspace import Workspace


_KEYS = (trailers.ROUND, trailers.DASH)


class RoundText:
    """The message and summary of a round."""

    __slots__ = ("instruction", "message", "summary")

    def __init__(
        self, words: str, *, instruction: str | None = None, summary: str | None = None
    ) -> None:
        self.message = trailers.check_text(words)
        self.instruction = instruction
        subject = self.message.partition("\n")[0]
        self.summary = trailers.check_text(summary, "summary") if summary is not None else subject

    def are_of(self, row: Row | None) -> bool:
        """Return whether a recorded round has the same texts."""
        ours = Round(0, instruction=self.instruction, summary=self.summary)
        fields = ("instruction", "summary")
        return row is not None and all(row[field] == getattr(ours, field) for field in fields)


def commit(
    space: Workspace,
    name: str | None,
    text: str,
    *,
    instruction: str | None = None,
    summary: str | None = None,
) -> DashCommit:
    """Commit everything in the dash's worktree, and record the round."""
    words = RoundText(text, instruction=instruction, summary=summary)
    repo, store, name = space.repo, space.store, named(space, name)
    ground = Dash(repo, store, dashes.find(store, name))
    with dash.alone(ground.path):
        # The former holder of the lock may have ended the dash.
        dash.refuse_joining(ground)
        ground = Dash(repo, store, dashes.require(store, name))
        _refuse_stranger(ground, space.worktree)
        ground.revive()
        ground.refuse_elsewhere()
        finish_interrupted(ground)
        return _commit(ground, words)


def _refuse_stranger(ground: Dash, caller: str) -> None:
    """Raise E058 for a caller in another worktree: it does not know these files."""
    if caller not in (ground.repo.root, ground.path):
        reason = f"you are in {caller}, and its work is in {ground.path}"
        hint = f"cd {quoted(ground.path)}"
        raise WrongBranch(ground.name, reason, worktree=ground.path, hint=hint)


def _commit(ground: Dash, words: RoundText) -> DashCommit:
    git_dir = tugtool_git.git_dir(ground.path)
    found = status.inspect(ground.path, git_dir)
    found.refuse_unfit()
    last = _last(ground)
    if not found.dirty and words.are_of(last) and last["commit_hash"] in (None, found.head):
        # Same texts and no change since: it was recorded, but the answer got lost.
        return answer(ground, last, recovered=True)
    number = (last["number"] if last else 0) + 1
    said: Any = {"instruction": words.instruction, "summary": words.summary}
    ended = Round(number, **said)
    if found.dirty:
        made = _made(ground, words, number, found.head, git_dir)
        crash.point("round.committed")
        ended = _round(ground.path, number, made, **said)
    dashes.record(ground.store, ground.row, ended, path=ground.path)
    crash.point("round.recorded")
    return answer(ground, _last(ground), recovered=False)


def _made(
    ground: Dash, words: RoundText, number: int, head: str | None, git_dir: str
) -> WorkCommit:
    """Add and commit. If git refuses, restore the index and drop the intent."""
    ours = f"{trailers.DASH}: {ground.name}\n{trailers.ROUND}: {_mark(ground, number)}\n"
    text = trailers.composed(words.message, ours, cwd=ground.path)
    detail = {"number": number, "instruction": words.instruction, "summary": words.summary}
    intents.add(ground.store, NO_PLAN, "dash", ground.path, head=head, detail=detail)
    crash.point("round.intent")
    saved = index.save_index(git_dir)
    try:
        index.add_all(ground.path, git_dir)
        crash.point("round.added")
        made = _committed(ground, number, head, text)
    except TugError:
        if saved:
            index.restore_index(git_dir)
        intents.drop(ground.store, NO_PLAN, "dash", ground.path)
        raise
    index.forget_index(git_dir)
    return made


def _committed(ground: Dash, number: int, head: str | None, text: str) -> WorkCommit:
    # Verbatim: lines that begin with # belong to the caller's message.
    words = ("commit", "--quiet", "--cleanup=verbatim", "--file=-")
    encoding = ("i18n.commitEncoding=UTF-8",)
    done = git.attempt(*words, cwd=ground.path, given=text, settings=encoding, though_killed=True)
    since = history.commits(ground.path, head, keys=_KEYS)
    made = history.carrying(since, ground.name, _mark(ground, number))
    if made is None and not done.status and since:
        # A hook removed the trailers, but the commit exists.
        made = since[-1]
    # Git also fails after the commit if it cannot write the index.
    if made is None:
        said = done.said.strip() or done.out.strip()
        raise GitFailed(words, status=done.status, said=said)
    return made


def _mark(ground: Dash, number: int) -> str:
    return f"{ground.row['id']}/{number}"


def finish_interrupted(ground: Dash) -> None:
    """Record rounds whose commits only git has; forget intents without a commit."""
    intent = intents.find_intent(ground.store, "dash", ground.path)
    if intent is not None:
        _finish_interrupted(ground, intent)
    for found in _unrecorded(ground):
        dashes.record(ground.store, ground.row, found, path=ground.path)


def _finish_interrupted(ground: Dash, intent: Row) -> None:
    detail = intents.detail(intent)
    since = history.commits(ground.path, intent["head"], keys=_KEYS)
    made = history.carrying(since, ground.name, _mark(ground, detail["number"]))
    if made is None:
        git_dir = tugtool_git.git_dir(ground.path)
        staging = index.staging(git_dir)
        if staging.is_left():
            staging.end()
        index.undo_index(ground.path, git_dir)
        intents.drop(ground.store, NO_PLAN, "dash", ground.path)
    else:
        ended = _round(ground.path, made=made, **detail)
        dashes.record(ground.store, ground.row, ended, path=ground.path)


def _unrecorded(ground: Dash) -> list[Round]:
    """Return rounds that only git has: the record was restored from an earlier copy."""
    rows = dashes.rounds(ground.store, ground.row)
    numbers, hashes = ({row[field] for row in rows} for field in ("number", "commit_hash"))
    found: dict[int, Round] = {}
    for made in reversed(history.commits(ground.path, ground.row["base_commit"], keys=_KEYS)):
        number = _number(ground, made)
        if number is not None and number not in numbers and made.hash not in hashes:
            found[number] = _round(ground.path, number, made)
    return list(found.values())


def _number(ground: Dash, made: WorkCommit) -> int | None:
    """Return the round number in a commit; None if it is not usable."""
    owner, _, number = made.claims[0].partition("/")
    plain = number.isascii() and number.isdecimal() and 0 < len(number) < 10
    mine = owner == str(ground.row["id"]) and made.is_for(ground.name, made.claims[0])
    return int(number) or None if plain and mine else None


def in_git(path: str, name: str, since: str) -> list[Round]:
    """Return all rounds in git of a dash whose record is lost, numbered from 1."""
    found = reversed(history.commits(path, since, keys=_KEYS))
    mine = [made for made in found if made.plans == [name]]
    return [_round(path, number, made) for number, made in enumerate(mine, 1)]


def _round(path: str, number: int, made: WorkCommit, **said: Any) -> Round:
    """Return a round that has a commit; its subject stands in for a lost text."""
    if not said:
        said = {"summary": git.run("log", "-1", "--format=%s", made.hash, cwd=path).strip()}
    # Compare with its first parent.
    changed = refs.changes(path, "--root", "--no-commit-id", *made.parents[:1], made.hash, "--")
    files = [{"path": name, "status": how} for name, how in changed.items()]
    return Round(number, files=files, commit=made.hash, **said)


def _last(ground: Dash) -> Row:
    rows = dashes.rounds(ground.store, ground.row)
    return rows[-1] if rows else None


def round_data(row: Row) -> Any:
    """Return a round as answers show it."""
    import json

    fields = ("number", "instruction", "summary", "commit_hash", "recorded_at")
    return {**{field: row[field] for field in fields}, "files": json.loads(row["files"])}


def answer(ground: Dash, row: Row, *, recovered: bool) -> DashCommit:
    """Return the answer of `dash commit`."""
    return {
        "name": ground.name,
        "branch_name": ground.branch,
        "worktree_path": ground.path,
        "committed": row["commit_hash"] is not None,
        "commit_hash": row["commit_hash"],
        "recovered": recovered,
        "round": round_data(row),
    }


_RECORDED = (
    *("name", "description", "status", "base_branch", "base_commit", "rounds"),
    *("created_at", "updated_at", "ended_at", "joined_commit", "salvage_ref"),
)


def list_dashes(repo: Repository, store: Store, *, every: bool = False) -> DashList:
    """Return the active dashes, or all; and unrecorded branches that look like a dash's."""
    rows = dashes.every(store, ended=every)
    known = {row["name"] for row in rows if row["status"] == "active"}
    named = [dash.bare(name) for name in refs.branches(repo.root, worktree.DASH_BRANCHES)]
    return {
        "dashes": [facts(repo, store, row) for row in rows],
        "unrecorded": [name for name in named if name not in known],
    }


def show_dash(space: Workspace, name: str | None) -> DashShow:
    """Return the active dash of that name, or else the last one, with its rounds."""
    repo, store = space.repo, space.store
    row = dashes.find(store, named(space, name))
    told = [round_data(each) for each in dashes.rounds(store, row)]
    return {**facts(repo, store, row), "history": told}


def facts(repo: Repository, store: Store, row: Row) -> DashListDash:
    """Return the record of a dash; for an active one also git's facts."""
    ground = Dash(repo, store, row, to_look=True)
    here = row["status"] == "active" and not ground.is_away
    found: Any = {field: row[field] for field in _RECORDED}
    found |= {"branch_name": ground.branch, "worktree_path": ground.path}
    fields = ("exists", "on_branch", "changed_files", "ahead", "behind", "tip", "releasing")
    with SafeView():
        seen = _seen(ground) if here else dict.fromkeys(fields)
    data: DashListDash = found | seen
    return data


def _seen(ground: Dash) -> dict[str, Any]:
    root, tree, tip = ground.repo.root, ground.tree(), ground.tip()
    ahead, behind = refs.ahead_and_behind(root, tip, refs.branch_tip(root, ground.base))
    found = tree.facts.get("branch") if tree.facts is not None else None
    return {
        "exists": tree.exists,
        "on_branch": tree.exists and found == ground.branch,
        "changed_files": len(worktree.changes(ground.path)) if tree.exists else None,
        "ahead": ahead,
        "behind": behind,
        "tip": tip,
        "releasing": ground.is_being_released(),
    }
