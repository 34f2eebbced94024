"""report: what an agent came back with, in one transaction; and what agents have cost so far."""

from __future__ import annotations

from tugtool.state import checklist, record
from tugtool.state_errors import InvalidEntry
from tugtool.store import sql, sql_implement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tugtool.store import Store

    Data = dict[str, object]


#: More than anybody ever used; no sum of what agents claim may be too large for a column.
MOST = 1 << 53


class Note:
    """An artifact to be: its kind, what it says in short, and all of it."""

    __slots__ = ("content", "kind", "summary")

    def __init__(self, kind: str, summary: str, content: str | None = None) -> None:
        if kind not in checklist.ARTIFACT_KINDS:
            raise InvalidEntry(f"there is no kind {kind!r:.60}", command="artifact")
        self.kind, self.summary, self.content = kind, summary, content


def report(
    store: Store,
    plan: str,
    anchor: str,
    *,
    owner: str,
    attempt: int,
    role: str,
    tokens: int | None = None,
    cost_microdollars: int | None = None,
    note: Note | None = None,
) -> Data:
    """An agent has ended: add what it used, keep what it left, renew the lease.

    Also on a step that the caller has completed: whoever judges the whole plan says it there.
    """
    with store.write(plan) as tx:
        top = checklist.may_note(tx, plan, anchor, owner, attempt)
        used: dict[str, Any] = {"tokens": tokens, "cost_microdollars": cost_microdollars}
        number = top["attempt"]
        key = {"anchor": top["anchor"], "number": number}
        # What git alone proves to be done was nobody's attempt.
        before = tx.first(sql.ATTEMPT, **key) or dict.fromkeys(used)
        now = {name: _sum(before[name], more) for name, more in used.items()}
        tx.run(sql_implement.SET_USAGE, **key, **now)
        by = {"actor": owner, "attempt": number}
        record.note(tx, plan, "agent", anchor=anchor, **by, role=role, **used)
        if note is not None:
            short = record.storable(checklist.cut(note.summary))
            kept = tx.value(
                sql.ADD_ARTIFACT,
                anchor=anchor,
                kind=note.kind,
                summary=short,
                content=note.content and record.storable(note.content),
            )
            what = {"artifact_kind": note.kind, "artifact_id": kept}
            record.note(tx, plan, "artifact", anchor=anchor, **by, **what)
    return {"plan_path": plan, **record.names(anchor), "attempt": number, "role": role, **now}


def spent_tokens(store: Store, plan: str) -> int:
    """How many tokens the plan has taken so far, as far as agents have said."""
    with store.read(plan) as tx:
        return int(tx.value(sql_implement.SPENT_TOKENS))


def _sum(before: int | None, more: int | None) -> int | None:
    """Null where nobody said anything, which is not the same as nothing."""
    return before if more is None else min((before or 0) + more, MOST)
