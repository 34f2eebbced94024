"""What an attempt left behind, so that work is resumed and not redone."""

from __future__ import annotations

from tugtool.store import sql, sql_git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.store import Row, Transaction

    Data = dict[str, object]

#: Older ones than these are listed by `worktree salvage list` alone.
MOST_REFS = 20


def left_behind(tx: Transaction, anchor: str, attempt: Row) -> Data:
    """All that the record says of it; what only git knows is None, for whoever can ask."""
    members = [anchor, *(row["anchor"] for row in tx.all(sql.SUBSTEPS, anchor=anchor))]
    saved = tx.all(sql_git.SALVAGES, anchor=anchor)
    return {
        "number": attempt["number"],
        "worktree": attempt["worktree"],
        "outcome": attempt["outcome"],
        "claimed_at": attempt["claimed_at"],
        "ended_at": attempt["ended_at"],
        "branch": None,
        "commits_ahead": None,
        "salvage_ref": attempt["salvage_ref"],
        # Whoever came in between may not have taken it up.
        "salvage_refs": [row["salvage_ref"] for row in saved[:MOST_REFS]],
        "recover": [],
        "completed_items": [
            {"step_anchor": member, "kind": item["kind"], "ordinal": item["ordinal"]}
            for member in members
            for item in tx.all(sql.ITEMS, anchor=member)
            if item["status"] == "completed"
        ],
        "artifacts": [
            {
                "step_anchor": member,
                "artifact_id": row["id"],
                "kind": row["kind"],
                "summary": row["summary"],
            }
            for member in members
            for row in tx.all(sql.ARTIFACTS, anchor=member)
        ],
    }
