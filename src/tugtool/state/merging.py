"""merge, as far as the record goes: what is about to happen, that it has, and what is left."""

from __future__ import annotations

from tugtool import jsontext
from tugtool.state import record
from tugtool.state.reconciling import Facts
from tugtool.store import sql, sql_git, sql_merge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tugtool.store import Row, Store

KIND = "merge"


def facts(store: Store, plan: str, worktree: str) -> tuple[Facts, Row | None]:
    """The plan as recorded, and the merge that was begun in that worktree and not ended."""
    with store.read(plan) as tx:
        return Facts(tx, plan), tx.first(sql_git.INTENT, kind=KIND, path=record.storable(worktree))


def begin(
    store: Store, plan: str, worktree: str, *, head: str, detail: Mapping[str, object]
) -> str:
    """Write down what is about to happen, before it does; the text that was kept."""
    kept = record.storable(jsontext.encode(detail))
    with store.write(plan) as tx:
        tx.run(
            sql_git.ADD_INTENT,
            kind=KIND,
            path=record.storable(worktree),
            head=head,
            detail=kept,
        )
    return kept


def give_up(store: Store, plan: str, worktree: str, detail: str) -> None:
    """It did not happen after all. Somebody else's intent is not ours to remove."""
    where = record.storable(worktree)
    with store.write(plan) as tx:
        row = tx.first(sql_git.INTENT, kind=KIND, path=where)
        if row is not None and row["detail"] == detail:
            tx.run(sql_git.DROP_INTENT, kind=KIND, path=where)


def landed(
    store: Store,
    plan: str,
    commit: str,
    *,
    branches: Sequence[str],
    squashed: Iterable[str] = (),
    actor: str | None = None,
) -> None:
    """The plan is on its base branch; squashed steps are in that one commit now."""
    with store.write(plan) as tx:
        known = record.plan_row(tx, plan)["merged_commit"] == commit
        if known or not tx.run(sql_merge.SET_MERGED, commit=commit):
            return
        moved = []
        for anchor in squashed:
            before = record.step_row(tx, plan, anchor)["commit_hash"]
            tx.run(sql_merge.SET_COMMIT, anchor=anchor, commit=commit)
            moved.append([anchor, before])
        named = list(branches)
        record.note(tx, plan, "merge", actor=actor, commit=commit, branches=named, squashed=moved)


def claim_in(store: Store, worktree: str) -> tuple[str, str] | None:
    """A plan and a step of it that somebody in that worktree is at work on."""
    owner = record.storable(worktree)
    with store.read() as tx:
        for row in tx.all(sql.PLANS):
            plan = row["plan_path"]
            step = tx.first(sql_merge.LIVE_CLAIM, plan=plan, owner=owner)
            if step is not None:
                return str(plan), str(step["anchor"])
    return None


def end(store: Store, plan: str, worktree: str, *, gone: Iterable[str]) -> None:
    """All is done: forget the intent, and the worktrees that went."""
    with store.write(plan) as tx:
        for path in gone:
            tx.run(sql_git.DROP_WORKTREE, path=path)
            for kind in ("commit", "sync"):
                tx.run(sql_git.DROP_INTENT, kind=kind, path=path)
        tx.run(sql_git.DROP_INTENT, kind=KIND, path=record.storable(worktree))
