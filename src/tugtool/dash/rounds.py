"""dash commit: what was done in a dash goes into git, and what it was about into the record.

What is about to happen is written down first. Whoever comes next looks at git: if the commit
is there, its round is recorded; if not, everything starts over.
"""

from __future__ import annotations

from tugtool import crash, git, message, repository, trailers, tree
from tugtool.dash import mending
from tugtool.dash.ground import Alone, Ground
from tugtool.dash_errors import WrongBranch
from tugtool.errors import GitFailed, TugError, quoted
from tugtool.state import dashing
from tugtool.state.dashing import Round

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tugtool.repository import Repository
    from tugtool.store import Row, Store
    from tugtool.tree import Commit

    Data = dict[str, object]

_KEYS = (trailers.ROUND, trailers.DASH)
_CHANGES = {"A": "added", "D": "deleted", "M": "modified", "T": "type_changed"}


class Words:
    """What is said of a round."""

    __slots__ = ("instruction", "message", "summary")

    def __init__(
        self, words: str, *, instruction: str | None = None, summary: str | None = None
    ) -> None:
        self.message = message.checked(words)
        self.instruction = instruction
        subject = self.message.partition("\n")[0]
        self.summary = message.checked(summary, "summary") if summary is not None else subject

    def are_of(self, row: Row | None) -> bool:
        """Whether a round was recorded with them."""
        ours = Round(0, instruction=self.instruction, summary=self.summary)
        return row is not None and (row["instruction"], row["summary"]) == (
            ours.instruction,
            ours.summary,
        )


def commit(repo: Repository, store: Store, name: str, words: Words, *, caller: str) -> Data:
    """Commit everything in the dash's worktree, and record the round."""
    ground = Ground(repo, store, dashing.find(store, name))
    with Alone(ground.path):
        # Whoever held it may have ended it.
        mending.refuse_joining(ground)
        ground = Ground(repo, store, dashing.require(store, name))
        _refuse_stranger(ground, caller)
        ground.revive()
        ground.refuse_elsewhere()
        settle(ground)
        return _commit(ground, words)


def _refuse_stranger(ground: Ground, caller: str) -> None:
    """E058: whoever works in another worktree knows nothing of what lies in this one."""
    if caller not in (ground.repo.root, ground.path):
        reason = f"you are in {caller}, and its work is in {ground.path}"
        hint = f"cd {quoted(ground.path)}"
        raise WrongBranch(ground.name, reason, worktree=ground.path, hint=hint)


def _commit(ground: Ground, words: Words) -> Data:
    git_dir = repository.git_dir(ground.path)
    found = tree.look(ground.path, git_dir)
    found.refuse_unfit()
    last = _last(ground)
    if not found.dirty and words.are_of(last) and last["commit_hash"] in (None, found.head):
        # The same words, and nothing was changed since: it was recorded, and nobody was told.
        return answer(ground, last, recovered=True)
    number = (last["number"] if last else 0) + 1
    if found.dirty:
        made = _made(ground, words, number, found.head, git_dir)
        crash.point("round.committed")
        files, hash_ = changes(ground.path, made.parents, made.hash), made.hash
    else:
        files, hash_ = [], None
    ended = Round(
        number, instruction=words.instruction, summary=words.summary, files=files, commit=hash_
    )
    dashing.record(ground.store, ground.row, ended, path=ground.path)
    crash.point("round.recorded")
    return answer(ground, _last(ground), recovered=False)


def _made(ground: Ground, words: Words, number: int, head: str | None, git_dir: str) -> Commit:
    """Add, commit. If git refuses, the index is as it was, and the intent is gone."""
    ours = f"{trailers.DASH}: {ground.name}\n{trailers.ROUND}: {_mark(ground, number)}\n"
    text = message.composed(words.message, ours, cwd=ground.path)
    detail: Data = {
        "number": number,
        "instruction": words.instruction,
        "summary": words.summary,
    }
    dashing.intend(ground.store, "dash", ground.path, head=head, detail=detail)
    crash.point("round.intent")
    saved = tree.save_index(git_dir)
    try:
        tree.add_all(ground.path, git_dir)
        crash.point("round.added")
        made = _committed(ground, number, head, text)
    except TugError:
        if saved:
            tree.restore_index(git_dir)
        dashing.drop(ground.store, "dash", ground.path)
        raise
    tree.forget_index(git_dir)
    return made


def _committed(ground: Ground, number: int, head: str | None, text: str) -> Commit:
    # Verbatim: lines that begin with # are the caller's, and no comments.
    words = ("commit", "--quiet", "--cleanup=verbatim", "--file=-")
    encoding = ("i18n.commitEncoding=UTF-8",)
    done = git.attempt(*words, cwd=ground.path, given=text, settings=encoding, though_killed=True)
    since = tree.commits(ground.path, head, keys=_KEYS)
    made = tree.carrying(since, ground.name, _mark(ground, number))
    if made is None and not done.status and since:
        # A hook took the trailers away. The commit is there all the same.
        made = since[-1]
    # Git also fails after the commit, when only the index could not be written.
    if made is None:
        said = done.said.strip() or done.out.strip()
        raise GitFailed(words, status=done.status, said=said)
    return made


def _mark(ground: Ground, number: int) -> str:
    return f"{ground.row['id']}/{number}"


def settle(ground: Ground) -> None:
    """Record the rounds whose commits are in git and not in the record; forget what never was."""
    for intent in dashing.intents(ground.store, "dash", ground.path):
        import json

        detail = json.loads(intent["detail"])
        since = tree.commits(ground.path, intent["head"], keys=_KEYS)
        made = tree.carrying(since, ground.name, _mark(ground, detail["number"]))
        if made is None:
            git_dir = repository.git_dir(ground.path)
            staging = tree.staging(git_dir)
            if staging.is_left():
                staging.end()
            tree.undo_index(ground.path, git_dir)
            dashing.drop(ground.store, "dash", ground.path)
        else:
            files = changes(ground.path, made.parents, made.hash)
            ended = Round(**detail, files=files, commit=made.hash)
            dashing.record(ground.store, ground.row, ended, path=ground.path)
    for found in _unrecorded(ground):
        dashing.record(ground.store, ground.row, found, path=ground.path)


def _unrecorded(ground: Ground) -> list[Round]:
    """Rounds of this dash that only git knows: the record was restored from an earlier copy."""
    rows = dashing.rounds(ground.store, ground.row)
    numbers, hashes = ({row[field] for row in rows} for field in ("number", "commit_hash"))
    found: dict[int, Round] = {}
    for made in reversed(tree.commits(ground.path, ground.row["base_commit"], keys=_KEYS)):
        number = _number(ground, made)
        if number is not None and number not in numbers and made.hash not in hashes:
            found[number] = _round(ground.path, number, made)
    return list(found.values())


def _number(ground: Ground, made: Commit) -> int | None:
    """Which round of this dash a commit says it is; anybody can write anything into one."""
    owner, _, number = made.claims[0].partition("/")
    plain = number.isascii() and number.isdecimal() and 0 < len(number) < 10
    mine = owner == str(ground.row["id"]) and made.is_for(ground.name, made.claims[0])
    return int(number) or None if plain and mine else None


def in_git(path: str, name: str, since: str) -> list[Round]:
    """Every round that git knows of a dash whose record is lost, numbered anew."""
    found = reversed(tree.commits(path, since, keys=_KEYS))
    mine = [made for made in found if made.plans == [name]]
    return [_round(path, number, made) for number, made in enumerate(mine, 1)]


def _round(path: str, number: int, made: Commit) -> Round:
    subject = git.run("log", "-1", "--format=%s", made.hash, cwd=path).strip()
    files = changes(path, made.parents, made.hash)
    return Round(number, summary=subject, files=files, commit=made.hash)


def changes(top: str, parents: Sequence[str], commit: str) -> list[dict[str, str]]:
    """The files that a commit changes against its first parent, and how."""
    words = ("diff-tree", "-r", "-z", "--root", "--no-commit-id", "--name-status", "--no-renames")
    out = git.run(*words, *parents[:1], commit, "--", cwd=top)
    fields = out.split("\0")
    pairs = zip(fields[::2], fields[1::2], strict=False)
    return [{"path": path, "status": _CHANGES.get(how, "modified")} for how, path in pairs]


def _last(ground: Ground) -> Row:
    rows = dashing.rounds(ground.store, ground.row)
    return rows[-1] if rows else None


def told(row: Row) -> Data:
    """A round, for answers."""
    import json

    fields = ("number", "instruction", "summary", "commit_hash", "recorded_at")
    return {**{field: row[field] for field in fields}, "files": json.loads(row["files"])}


def answer(ground: Ground, row: Row, *, recovered: bool) -> Data:
    """What `dash commit` answers."""
    return {
        "name": ground.name,
        "branch_name": ground.branch,
        "worktree_path": ground.path,
        "committed": row["commit_hash"] is not None,
        "commit_hash": row["commit_hash"],
        "recovered": recovered,
        "round": told(row),
    }
