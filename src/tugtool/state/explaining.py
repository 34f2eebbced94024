"""why: what keeps a step from being claimed, and what would free it. Nothing is changed."""

from __future__ import annotations

from tugtool import holder
from tugtool.state import hindsight, record, wording
from tugtool.store import sql, sql_history

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.store import Row, Store, Transaction

    Data = dict[str, object]


def why(
    store: Store,
    plan: str,
    anchor: str,
    *,
    owner: str | None = None,
    max_attempts: int = 5,
    drift: bool = False,
) -> Data:
    """How it stands with a step or substep, in facts and in sentences.

    `drift`: the plan file that claims would be compared with is not the recorded one.
    """
    with store.read(plan) as tx:
        scene = _Scene(tx, record.plan_row(tx, plan))
        record.step_row(tx, plan, anchor)
        data = {
            "plan_path": plan,
            **record.names(anchor),
            **scene.about(anchor),
            **scene.claim_of(anchor, owner, max_attempts),
            "claimable": scene.is_claimable(anchor) and not drift,
            "drift": drift,
            "reopened": _reopened(tx, scene.rows[anchor]),
            "last_failure": hindsight.last_failure(tx, plan, scene.home(anchor)),
            "plan_status": scene.plan["status"],
            "paused_at": scene.plan["paused_at"],
            "paused_by": _paused_by(tx, scene.plan),
            "waiting_for": scene.blockers(anchor),
            "root_causes": scene.root_causes(anchor),
        }
        sentences, frees = wording.explained(data, tx.now), wording.frees(data, tx.now)
    return {**data, "sentences": sentences, "frees": frees}


def _paused_by(tx: Transaction, plan: Row) -> str | None:
    if plan["paused_at"] is None:
        return None
    event = tx.first(sql_history.LAST_PAUSE)
    return event["actor"] if event is not None else None


def _reopened(tx: Transaction, row: Row) -> Data | None:
    """When the step was last sent back, and why."""
    event = tx.first(sql_history.LAST_REOPENED, anchor=row["parent_anchor"] or row["anchor"])
    if event is None:
        return None
    import json

    reason = json.loads(event["detail"])["reason"]
    return {"at": event["at"], "by": event["actor"], "reason": reason}


class _Scene:
    """A plan's steps at one moment: who holds what, and who waits for whom."""

    def __init__(self, tx: Transaction, plan: Row) -> None:
        self.plan, self.now = plan, tx.now
        self.rows = {row["anchor"]: row for row in tx.all(sql.STEPS)}
        self.gone = {row["step_anchor"] for row in tx.all(sql.HOLDERS) if holder.is_gone(row)}
        self.children: dict[str, list[str]] = {}
        self.edges: dict[str, list[str]] = {}
        for anchor, row in self.rows.items():
            if row["parent_anchor"] is not None:
                self.children.setdefault(row["parent_anchor"], []).append(anchor)
        for edge in tx.all(sql.DEPS):
            if self.rows[edge["depends_on"]]["status"] != "completed":
                self.edges.setdefault(edge["step_anchor"], []).append(edge["depends_on"])
        for open_ in self.edges.values():
            open_.sort(key=lambda anchor: int(self.rows[anchor]["step_index"]))

    def home(self, anchor: str) -> str:
        return self.rows[anchor]["parent_anchor"] or anchor

    def is_lapsed(self, top: Row) -> bool:
        return top["lease_expires_at"] is not None and top["lease_expires_at"] < self.now

    def is_free(self, top: Row) -> bool:
        """Whether no claim stands in the way of a stranger's."""
        return top["claimed_by"] is None or self.is_lapsed(top) or top["anchor"] in self.gone

    def is_claimable(self, anchor: str) -> bool:
        """Whether a stranger's claim could get it: just what `claim` asks for."""
        row = self.rows[anchor]
        return (
            self.plan["status"] != "archived"
            and self.plan["paused_at"] is None
            and row["parent_anchor"] is None
            and row["status"] != "completed"
            and row["parked_at"] is None
            and row["open_deps"] == 0
            and self.is_free(row)
        )

    def situation(self, anchor: str) -> str:
        """One word for how it stands with a step or substep."""
        row, top = self.rows[anchor], self.rows[self.home(anchor)]
        if row["status"] == "completed":
            return "completed"
        if self.plan["status"] == "archived":
            return "archived"
        if top["parked_at"] is not None:
            return "parked"
        if row is not top and self.own_needs(anchor):
            return "blocked"
        return self.claim_situation(top)

    def claim_situation(self, top: Row) -> str:
        if not self.is_free(top):
            return "held"
        if top["open_deps"] == 0 and self.plan["paused_at"] is not None:
            return "paused"
        if top["claimed_by"] is None:
            return "blocked" if top["open_deps"] else "ready"
        return "expired" if self.is_lapsed(top) else "gone"

    def own_needs(self, substep: str) -> list[str]:
        """What a substep itself waits for; that it belongs to its step is no waiting."""
        return [need for need in self.edges.get(substep, []) if need != self.home(substep)]

    def needs(self, anchor: str) -> dict[str, list[str]]:
        """Open step or substep -> who of this one's family needs it."""
        top = self.home(anchor)
        found: dict[str, list[str]] = {}
        if anchor != top:
            found = {need: [anchor] for need in self.own_needs(anchor)}
            if not self.is_free(self.rows[top]):
                return found
        for member in (top, *self.children.get(top, ())):
            for need in self.edges.get(member, ()):
                if self.home(need) != top and member not in found.get(need, ()):
                    found.setdefault(need, []).append(member)
        return found

    def about(self, anchor: str) -> Data:
        """The facts about a step that stand in every list."""
        row, top = self.rows[anchor], self.rows[self.home(anchor)]
        return {
            "anchor": anchor,
            "parent_anchor": row["parent_anchor"],
            "title": row["title"],
            "status": row["status"],
            "situation": self.situation(anchor),
            "owner": row["claimed_by"],
            "lease_expires_at": row["lease_expires_at"],
            "attempt": top["attempt"],
            "parked_at": top["parked_at"] if row["status"] != "completed" else None,
            "park_reason": top["park_reason"] if row["status"] != "completed" else None,
        }

    def claim_of(self, anchor: str, owner: str | None, max_attempts: int) -> Data:
        """What else is known of the claim, and of how the step ended."""
        row, top = self.rows[anchor], self.rows[self.home(anchor)]
        return {
            "yours": owner is not None and row["claimed_by"] == owner,
            "claimed_at": row["claimed_at"],
            "seen_at": row["heartbeat_at"],
            "holder_gone": row["claimed_by"] is not None and top["anchor"] in self.gone,
            "claims_without_progress": top["claims_without_progress"],
            "max_attempts": max_attempts,
            "completed_at": row["completed_at"],
            "completed_by": row["completed_by"],
            "commit_hash": row["commit_hash"],
            "forced": row["complete_reason"],
        }

    def blockers(self, anchor: str) -> list[Data]:
        """What the step waits for, each with its own situation."""
        if self.rows[anchor]["status"] == "completed":
            return []
        return [
            {**self.about(need), "needed_by": members, "waiting_for": self.onward(need)}
            for need, members in self.needs(anchor).items()
        ]

    def onward(self, anchor: str) -> list[str]:
        """What has to happen before anything can happen to a step; a substep waits with its step.

        Never more than the edges of the one that is asked about: chains stay linear.
        """
        if self.situation(anchor) not in ("blocked", "expired", "gone"):
            return []
        if anchor == self.home(anchor):
            return list(self.needs(anchor))
        top = self.rows[self.home(anchor)]
        with_its_step = [top["anchor"]] if self.is_free(top) and top["open_deps"] else []
        return self.own_needs(anchor) + with_its_step

    def root_causes(self, anchor: str) -> list[Data]:
        """Where the chains of waiting end; each step is looked at once, whatever the shape."""
        if self.rows[anchor]["status"] == "completed":
            return []
        seen = dict.fromkeys(self.needs(anchor))
        pending, roots = list(seen), []
        for each in pending:  # grows meanwhile
            onward = self.onward(each)
            if not onward:
                roots.append(each)
            fresh = [need for need in onward if need not in seen]
            seen.update(dict.fromkeys(fresh))
            pending += fresh
        roots.sort(key=lambda each: int(self.rows[each]["step_index"]))
        return [self.about(each) for each in roots]
