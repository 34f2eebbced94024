"""show and status: read-only views of a plan."""

from __future__ import annotations

from tugtool.state import attempts as state_attempts
from tugtool.state import completion, proofs, record, reviews
from tugtool.state.checklists import KINDS, STATUSES
from tugtool.state.standings import add_standings
from tugtool.store import sql
from tugtool.store.sql import publication as sql_publication
from tugtool.store.sql import records as sql_records
from tugtool.store.sql import views as sql_views
from tugtool.system import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from tugtool.schemas import StateClaimPreviousAttempt, StateShowPlan
    from tugtool.store import Row, Store, Transaction


_NOTHING: dict[str, Any] = {"events": [], "shows": {}}
#: Columns that answers show as they are.
_OF_PLAN = (
    "plan_path plan_hash phase_title status created_at updated_at paused_at base_commit"
    " merged_commit"
)
_OF_STEP = (
    "parent_anchor step_index title status claimed_by claimed_at lease_expires_at heartbeat_at"
    " started_at completed_at completed_by commit_hash complete_reason attempt"
    " claims_without_progress parked_at park_reason"
)
_OF_ITEM = "step_anchor kind ordinal text status reason updated_at"
_OF_ATTEMPT = (
    "number worktree holder_pid lease_seconds claimed_at seen_at ended_at outcome salvage_ref"
    " tokens cost_microdollars role role_since"
)
_OF_CLAIM = "anchor title status claimed_by claimed_at attempt lease_expires_at heartbeat_at"


def previous_attempt(store: Store, plan: str, anchor: str) -> StateClaimPreviousAttempt | None:
    """Return the record of the attempt before the present one of a step."""
    with store.read(plan) as tx:
        number = record.step_row(tx, anchor)["attempt"]
        last = tx.first(sql.ATTEMPT_BEFORE, anchor=anchor, number=number)
        return None if last is None else state_attempts.left_behind(tx, anchor, last)


def show(
    store: Store,
    plan: str | None = None,
    *,
    archived: bool = False,
    step: str = "",
    full: bool = False,
) -> Any:
    """Return a plan with its steps and items, or all plans; archived ones on request.

    With `step` return only that step, its substeps and their items; with `full` also the contents
    of artifacts.
    """
    with store.read(plan) as tx:
        if plan is not None:
            picture = _Picture(tx, record.plan_row(tx), full=full).plan()
            return _only(picture, record.family(tx, step)[1]["anchor"]) if step else picture
        wanted = [row for row in tx.all(sql.PLANS) if archived or row["status"] != "archived"]
        rows = [tx.one(sql.PLAN, plan=row["plan_path"]) for row in wanted]
        return {"plans": [_Picture(tx, row, full=full).plan() for row in rows]}


def everything(store: Store, plan: str) -> dict[str, Any]:
    """Return the whole record of a plan at one moment, for `report`."""
    from tugtool.state import history  # Other views do without it.

    with store.read(plan) as tx:
        row = record.plan_row(tx)
        return {
            "show": _Picture(tx, row).plan(),
            "stats": history.figures(tx, row),
            "events": history.Reader(plan).read(tx, most=1 << 62),
            "review": reviews.waiting_for_person(tx, [plan]),
            "text": str(tx.value(sql_records.AGREED_TEXT)),
        }


def epoch(store: Store) -> str:
    """Return the text that changes when the database is replaced."""
    with store.read() as tx:
        return str(tx.value(sql_views.EPOCH))


def moment(
    store: Store, plans: Iterable[str], *, since: tuple[str, int] | None, most: int
) -> dict[str, Any]:
    """Return plans as `show` does, and the events after `since`, all as of one moment.

    `since` is an epoch and the number of an event. If the database was replaced, or there are more
    events than `most`, the events are the last ones of the log, and `fresh` is true.
    """
    from tugtool.state import history

    if not store.exists():
        return {"epoch": "", "seq": 0, "as_of": "", "fresh": since != ("", 0)} | _NOTHING
    with store.read() as tx:
        now, newest = str(tx.value(sql_views.EPOCH)), tx.first(sql_views.NEWEST_EVENT)
        seq = 0 if newest is None else int(newest["seq"])
        known = since is not None and since[0] == now and since[1] <= seq <= since[1] + most
        after = since[1] if known and since else seq - most
        rows = {plan: tx.first(sql.PLAN, plan=plan) for plan in plans}
        events = tx.all(sql_views.ALL_EVENTS, after=after, since="", most=most)
        return {
            "epoch": now,
            "seq": seq,
            "as_of": tx.now,
            "fresh": not known,
            "events": list(history.decoded(events)),
            "shows": {plan: row and _Picture(tx, row).plan() for plan, row in rows.items()},
        }


def _only(picture: StateShowPlan, anchor: str) -> StateShowPlan:
    """Keep only one step's steps and items."""
    steps = [step for step in picture["steps"] if step["anchor"] == anchor]
    names = {each["anchor"] for step in steps for each in (step, *step["substeps"])}
    items = [item for item in picture["checklist_items"] if item["step_anchor"] in names]
    return {**picture, "steps": steps, "checklist_items": items}


class _Picture:
    """Everything about one plan, read once."""

    def __init__(self, tx: Transaction, row: Row, *, full: bool = False) -> None:
        plan = row["plan_path"]
        self.row, self.now = row, tx.now
        self.steps = tx.all(sql.STEPS, plan=plan)
        self.items = _grouped(tx.all(sql.PLAN_ITEMS, plan=plan))
        self.attempts = _grouped(tx.all(sql.ATTEMPTS, plan=plan))
        statement = sql_views.FULL_ARTIFACTS if full else sql_views.PLAN_ARTIFACTS
        self.artifacts = _grouped(tx.all(statement, plan=plan))
        self.of_artifact = f"kind summary{' content' * full} recorded_at"
        self.needs = _grouped(tx.all(sql.DEPS, plan=plan))
        self.unpublished = _grouped(tx.all(sql_publication.UNPUBLISHED, plan=plan))
        self.gone = record.gone(tx, plan)
        self.paused = {**state_attempts.pause(tx, row), **proofs.unpushed(tx, row)}
        self.runs = state_attempts.runs(tx, plan)
        held = [step for step in self.steps if step["claimed_by"] and not step["parent_anchor"]]
        self.questions = {step["anchor"]: self._question(tx, step) for step in held}
        #: The position of each unfinished step in the document.
        self.open = {s["anchor"]: s["step_index"] for s in self.steps if s["status"] != "completed"}
        self.children: dict[str | None, list[Row]] = {}
        for step in self.steps:
            self.children.setdefault(step["parent_anchor"], []).append(step)

    def plan(self) -> Any:
        row = self.row
        return {
            **record.columns(row, _OF_PLAN),
            "total_steps": row["steps_total"],
            "completed_steps": row["steps_done"],
            "as_of": self.now,
            **self._spent(),
            **self.paused,
            **self.runs,
            "steps": [add_standings(self.step(row)) for row in self.children.get(None, [])],
            "checklist_items": [
                {
                    **record.columns(item, _OF_ITEM),
                    "checkpoint_kind": _checkpoint_kind(item),
                    "evidence": completion.read_evidence(item["evidence"]),
                }
                for step in self.steps
                for item in self.items.get(step["anchor"], [])
            ],
        }

    def _question(self, tx: Transaction, step: Row) -> str | None:
        lost = step["lease_expires_at"] < self.now or step["anchor"] in self.gone
        asked = state_attempts.question(tx, step, "gone" if lost else None)
        return asked["reason"] if asked else None

    def _spent(self) -> dict[str, Any]:
        """Return the plan's time so far, and its agents' usage."""
        attempts = [each for group in self.attempts.values() for each in group]
        begun = min((each["claimed_at"] for each in attempts), default=None)
        ends = [step["completed_at"] for step in self.children.get(None, [])]
        end = max(ends) if all(ends) else self.now
        spent: dict[str, Any] = {"elapsed_seconds": None}
        if begun is not None:
            spent["elapsed_seconds"] = max(0.0, clock.seconds_between(begun, end))
        for name in ("tokens", "cost_microdollars"):
            told = [each[name] for each in attempts if each[name] is not None]
            spent[name] = sum(told) if told else None
        return spent

    def step(self, row: Row) -> Any:
        anchor, until = row["anchor"], row["lease_expires_at"]
        below = self.children.get(anchor, [])
        own = self.items.get(anchor, [])
        whole = own + [item for each in below for item in self.items.get(each["anchor"], [])]
        return {
            **record.names(anchor),
            **record.columns(row, _OF_STEP),
            **self._unpublished(row, below),
            "lease_expired": until is not None and until < self.now,
            "holder_gone": anchor in self.gone,
            "question": self.questions.get(anchor),
            **self._role(row),
            "needs": [edge["depends_on"] for edge in self.needs.get(anchor, [])],
            "waiting_for": self.waiting_for(row, [each["anchor"] for each in below]),
            "counts": _counts(own),
            "rolled_up": _counts(whole),
            "attempts": [
                record.columns(each, _OF_ATTEMPT) for each in self.attempts.get(anchor, [])
            ],
            "artifacts": [self._artifact(each) for each in self.artifacts.get(anchor, [])],
            "substeps": [self.step(each) for each in below],
        }

    def _unpublished(self, row: Row, below: list[Row]) -> dict[str, Any]:
        """Return what the remote lacks: the step's commit, or those that the step needs."""
        if not self.unpublished:
            return {}
        from tugtool.state import publication  # Only with `[remote]`.

        needs = [e["depends_on"] for s in (row, *below) for e in self.needs.get(s["anchor"], [])]
        return publication.shown(self.unpublished, row, needs)

    def _role(self, row: Row) -> dict[str, str | None]:
        """Return the role that is at work on a held step, and since when."""
        anchor, until = row["anchor"], row["lease_expires_at"]
        live = row["claimed_by"] and until >= self.now and anchor not in self.gone
        last = self.attempts.get(anchor, [])[-1:] if live else []
        return _role_of(last[0] if last else None)

    def _artifact(self, row: Row) -> Any:
        return {"artifact_id": row["id"], **record.columns(row, self.of_artifact)}

    def waiting_for(self, row: Row, below: list[str]) -> list[str]:
        """Return the open dependencies of the step and its substeps, except themselves."""
        anchor = row["anchor"]
        if anchor not in self.open:
            return []
        members = [anchor, *below]
        if row["claimed_by"] is not None:
            # A held step ignores what its done substeps needed; a claim would not.
            members = [each for each in members if each in self.open]
        needed = {edge["depends_on"] for each in members for edge in self.needs.get(each, [])}
        # A substep's dependency on its own step does not count.
        needed -= {anchor, *below, row["parent_anchor"]}
        return sorted(needed & self.open.keys(), key=self.open.__getitem__)


def _role_of(attempt: Row | None) -> dict[str, str | None]:
    return {name: attempt and attempt[name] for name in ("role", "role_since")}


def _grouped(rows: Iterable[Row], by: str = "step_anchor") -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[by], []).append(row)
    return groups


def _checkpoint_kind(item: Row) -> str | None:
    if item["kind"] != "checkpoint":
        return None
    from tugtool.plan import checkpoints  # Other items do without `re`.

    return checkpoints.kind_of(item["text"])


def _counts(items: list[Row]) -> Any:
    counts = {kind: dict.fromkeys(STATUSES, 0) for kind in KINDS}
    for item in items:
        counts[item["kind"]][item["status"]] += 1
    return counts


# -- rows for `implement` --------------------------------------------------------------


def steps_at_work(store: Store, plan: str) -> tuple[Row, list[Row], set[str]]:
    """Return the plan, its steps without substeps, and those that a live worker has claimed."""
    with store.read(plan) as tx:
        row = record.plan_row(tx)
        gone = record.gone(tx)
        steps = [step for step in tx.all(sql.STEPS) if step["parent_anchor"] is None]
        claimed = [step for step in steps if step["claimed_by"] is not None]
        live = {step["anchor"] for step in claimed if step["lease_expires_at"] >= tx.now}
    return row, steps, live - gone


def attempts(store: Store, plan: str, anchor: str) -> list[Row]:
    """Return every attempt at a step, in order."""
    with store.read(plan) as tx:
        return [row for row in tx.all(sql.ATTEMPTS) if row["step_anchor"] == anchor]


def attempt(store: Store, plan: str, anchor: str, number: int) -> tuple[Row, Row | None]:
    """Return the step, and one attempt at it, or None."""
    with store.read(plan) as tx:
        step = record.step_row(tx, anchor)
        return step, tx.first(sql.ATTEMPT, anchor=anchor, number=number)


def items(store: Store, plan: str, anchors: Iterable[str]) -> list[Row]:
    """Return the items of some steps and substeps, in order."""
    with store.read(plan) as tx:
        return [row for anchor in anchors for row in tx.all(sql.ITEMS, anchor=anchor)]


def status(store: Store) -> dict[str, Any]:
    """Return the record of every plan at one moment."""
    with store.read() as tx:
        lost = reviews.stale(tx)
        claims: dict[str, list[Any]] = {}
        for row in tx.all(sql_views.EVERY_HELD_STEP):
            claim = _claim(tx, row, lost[row["plan_path"], row["anchor"]])
            claims.setdefault(row["plan_path"], []).append(claim)
        parked = _grouped(reviews.waiting(tx), "plan_path")
        blocked = {row["plan_path"]: row["steps"] for row in tx.all(sql_views.BLOCKED_COUNTS)}
        items = _grouped(tx.all(sql_views.ITEM_COUNTS), "plan_path")
        plans = [
            {
                **_plan(row, claims, parked, blocked.get(row["plan_path"], 0), items),
                "audit": proofs.audit(tx, row["plan_path"]) if row["status"] == "done" else None,
                **state_attempts.pause(tx, row),
                **proofs.unpushed(tx, row),
                **state_attempts.runs(tx, row["plan_path"]),
                "changed_outside": len(state_attempts.changed_outside(tx, row)),
            }
            for row in tx.all(sql_views.EVERY_PLAN)
        ]
        dashes = [_dash(row) for row in tx.all(sql_views.ACTIVE_DASHES)]
        return {"as_of": tx.now, "plans": plans, "dashes": dashes}


def _dash(row: Row) -> Any:
    names = {"branch_name": row["branch"], "worktree_path": row["worktree"]}
    return {**record.columns(row, "name description base_branch rounds updated_at"), **names}


def _claim(tx: Transaction, row: Row, lost: reviews.Lost) -> Any:
    asked = state_attempts.question(tx, row, lost)
    # Why its holder has lost it, if so: such a claim is stale.
    facts = {"stale": lost, "question": asked and asked["reason"]}
    key = {"plan": row["plan_path"], "anchor": row["anchor"], "number": row["attempt"]}
    role = _role_of(None if lost else tx.first(sql.ATTEMPT, **key))
    return {**record.columns(row, _OF_CLAIM), **facts, **role}


def _plan(
    row: Row,
    claims: dict[str, list[Any]],
    parked: dict[str, list[Row]],
    blocked: int,
    items: dict[str, list[Row]],
) -> dict[str, Any]:
    plan = row["plan_path"]
    counts = {each["status"]: each["items"] for each in items.get(plan, [])}
    waiting = [
        record.columns(each, "anchor title parked_at park_reason") for each in parked.get(plan, [])
    ]
    held = claims.get(plan, [])
    return {
        "plan_path": plan,
        "plan_hash": row["plan_hash"],
        "title": row["phase_title"],
        "status": row["status"],
        "paused_at": row["paused_at"],
        "merged_commit": row["merged_commit"],
        "commits": row["commits"],
        "steps": {
            "total": row["steps_total"],
            "completed": row["steps_done"],
            "held": len(held),
            "ready": row["steps_ready"],
            "blocked": blocked,
            "parked": len(waiting),
        },
        "items": {
            "total": sum(counts.values()),
            "completed": counts.get("completed", 0),
            "deferred": counts.get("deferred", 0),
        },
        "claims": held,
        "parked": waiting,
    }
