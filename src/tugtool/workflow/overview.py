"""The data of status and show: drift, stale evidence, what needs a person."""

from __future__ import annotations

from tugtool import state
from tugtool.errors import (
    SPARSE,
    SPARSE_HINT,
    NoSuchStep,
    PlanInvalid,
    TugError,
    Unreadable,
    plan_argument,
)
from tugtool.git import command as git
from tugtool.plan import catalog
from tugtool.state import record
from tugtool.store.owners import on_other_machine
from tugtool.system import os
from tugtool.workflow import needs, plans, records, server_note
from tugtool.workflow.workspace import plan_copy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tugtool.git import Repository
    from tugtool.plan.catalog import PlanFile
    from tugtool.plan.model import Item, Plan, Step
    from tugtool.schemas import Issue, StateShow, StateShowPlan, StateWhy
    from tugtool.state.record import PlanCopy
    from tugtool.workflow.workspace import Workspace

    Data = dict[str, Any]


def list_plans(repo: Repository, *, max_bytes: int | None = None) -> tuple[Data, list[Issue]]:
    """Every plan file, with its counts or the reason why it cannot be read, and its state."""
    most = plans.limit(repo, max_bytes)
    rows: list[Data] = []
    known, issues = records.states(repo.root)
    for file in catalog.plans(repo):
        row: Data = {"plan_path": file.key, "slug": file.slug, "state": known.get(file.key)}
        try:
            plan = plans.parse(repo, file, most)
        except TugError as error:
            issues.append({**error.issue(), "file": file.key})
            reason = error.message.removeprefix(f"{file.key} ")
            row |= {"title": None, "status": None, "counts": None, "error": reason}
        else:
            status = plan.metadata.get("status")
            row |= {
                "title": plan.title,
                "status": status.text if status else None,
                "counts": _counts(plan),
                "error": None,
            }
        rows.append(row)
    return {"plans": rows}, [*issues, *hidden(repo, rows)]


def hidden(repo: Repository, rows: list[Data]) -> list[Issue]:
    """A warning if no plan is visible because the checkout is sparse."""
    if rows or not catalog.is_sparse(repo):
        return []
    return [{"code": "W117", "severity": "warning", "message": SPARSE, "hint": SPARSE_HINT}]


def show_plan(
    repo: Repository,
    name: str | None,
    *,
    cwd: str,
    step: str | None = None,
    max_bytes: int | None = None,
) -> tuple[Data, list[Issue]]:
    """A plan or one of its steps as the parser reads it, and the parser's diagnostics."""
    file, plan = plans.read(repo, name, cwd=cwd, max_bytes=max_bytes)
    steps = plan.steps if step is None else (_step(plan, step, file.key),)
    data: Data = {
        "plan_path": file.key,
        "slug": file.slug,
        "title": plan.title,
        **_passages(plan, "purpose"),
        "metadata": {field: value.text for field, value in plan.metadata.items()},
        "lines": plan.line_count,
        "counts": _counts(plan),
        "decisions": [
            {
                "name": decision.name,
                "kind": "question" if decision.is_question else "decision",
                **_fields(decision, "title", "status", "anchor", "line"),
            }
            for decision in plan.decisions
        ],
        "steps": [_step_data(step) for step in steps],
    }
    return data, [plans.issue_of(each, file.key, "normal") for each in plan.diagnostics]


def plan_graph(
    repo: Repository, name: str | None, *, cwd: str, max_bytes: int | None = None
) -> Data:
    """The waves of a plan, the widest one, and the critical path."""
    from tugtool.plan import model

    file, plan = plans.read(repo, name, cwd=cwd, max_bytes=max_bytes)
    found = plans.issues_of(plan, file.key, "lenient")
    if found:
        raise PlanInvalid(file.key, diagnostics=found)
    made = model.build_graph(plan)
    return {
        "plan_path": file.key,
        "waves": [list(wave) for wave in made.waves],
        "widest_wave": {"wave": made.widest + 1, "steps": len(made.waves[made.widest])},
        "critical_path": list(made.critical_path),
        "steps": [
            {
                **_fields(step, "anchor", "title", "line"),
                "needs": list(made.needs[step.anchor]),
                "substeps": len(step.substeps),
                "verification_only": step.verification_only,
            }
            for step in made.steps
        ],
    }


def _counts(plan: Plan) -> Data:
    from tugtool.plan.model import KINDS

    every = list(plan.every_step())
    kinds = [item.kind for step in every for item in step.items]
    return {
        "steps": len(plan.steps),
        "substeps": len(every) - len(plan.steps),
        **{kind: kinds.count(kind) for kind in KINDS},
        "dependencies": sum(len(step.needs) for step in every),
    }


def _fields(found: object, *names: str) -> Data:
    return {name: getattr(found, name) for name in names}


def _passages(found: Plan | Step, *names: str) -> Data:
    passages = {name: getattr(found, name) for name in names}
    return {name: passage.text if passage else None for name, passage in passages.items()}


def _step_data(step: Step) -> Data:
    return {
        **_fields(step, "anchor", "number", "title", "line", "step_index", "parent"),
        "needs": [_fields(need, "anchor", "line") for need in step.needs],
        **_passages(step, "depends_on", "commit", "references", "artifacts", "rollback"),
        "verification_only": step.verification_only,
        "items": [_item_data(item) for item in step.items],
        "substeps": [_step_data(substep) for substep in step.substeps],
    }


def _item_data(item: Item) -> Data:
    from tugtool.plan.checkpoints import kind_of

    kind = kind_of(item.text) if item.kind == "checkpoint" else None
    return {**_fields(item, "kind", "ordinal", "text", "line", "ticked"), "checkpoint_kind": kind}


def _step(plan: Plan, anchor: str, key: str) -> Step:
    known = {step.anchor: step for step in plan.every_step()}
    if anchor in known:
        return known[anchor]
    from tugtool.system import text

    close = text.names(anchor, known) or text.names(f"step-{anchor}", known)
    raise NoSuchStep(anchor, plan=key, close=close)


def anchor_of(space: Workspace, plan: str, word: str) -> str | None:
    """Return the anchor of a step given by its number: 3, Step 3, step-3."""
    number = word.strip().removeprefix("#").lower().removeprefix("step").strip(" -")
    number = number.replace("-", ".")
    if not number.replace(".", "").isalnum():
        return None
    from tugtool.plan import parser
    from tugtool.state import revisions, standings

    if standings.is_recorded(space.store, plan):
        parsed = parser.parse(revisions.agreed_text(space.store, plan)[0])
    else:
        parsed = plans.read(space.repo, plan, cwd=space.repo.root)[1]
    known = [step.anchor for step in parsed.every_step()]
    bare = word.strip().removeprefix("#").lower()
    if bare.startswith("step-") and any(each.startswith("step-") for each in known):
        # It has the form of an anchor, perhaps of a removed step: never take it as a number.
        return bare if bare in known else None
    return next((s.anchor for s in parsed.every_step() if s.number.lower() == number), None)


def status(space: Workspace, *, archived: bool = False) -> Any:
    """Every plan, its progress, its claims and worktrees, and what waits for a person."""
    repo, store, max_bytes = space.repo, space.store, space.settings.number("plan.max_bytes")
    recorded: Data = state.status(store) if store.exists() else {"plans": [], "dashes": []}
    shown = [plan for plan in recorded["plans"] if archived or plan["status"] != "archived"]
    files = records.unrecorded(repo, (plan["plan_path"] for plan in recorded["plans"]))
    texts = catalog.by_text(files)
    rows = [_from_record(_copy(space, plan), plan, texts) for plan in shown]
    for row in rows:
        _name_roles(repo, row["plan_path"], row["claims"])
    now = {row["renamed_to"] for row in rows}
    rows += [_from_boxes(repo, file, max_bytes) for file in files if file.key not in now]
    _tell_apart(rows)
    trees = _worktrees(repo.root, rows)
    needs.tell_remote(space, rows)
    more = [("no_address", each["message"]) for each in records.lacking_address(space)]
    if space.settings.state_url():
        from tugtool.system import state_config  # Only for a state that is not a file.

        more.append(("state_url", state_config.without_password(space.settings.state_url())))
    return {
        "root": repo.root,
        "as_of": recorded.get("as_of"),
        "plans": rows,
        "dashes": [
            {**dash, "worktree_path": os.path.join(repo.root, dash["worktree_path"])}
            for dash in recorded["dashes"]
        ],
        "worktrees": trees,
        "needs_you": [need for plan in rows for need in needs.of_plan(space, plan, trees)],
        "archived": len(recorded["plans"]) - len(shown),
        "server": server_note.running(repo),
        **dict(more),
    }


def status_issues(space: Workspace, data: Data) -> list[Issue]:
    """Warnings of `status`: no plan is visible, or no state where others may share one."""
    return [*hidden(space.repo, data["plans"]), *records.lacking_address(space)]


def _tell_apart(rows: list[Data]) -> None:
    """Name plans by their paths if two plans in different directories have the same slug."""
    known: dict[str, int] = {}
    for row in rows:
        known[row["slug"]] = known.get(row["slug"], 0) + 1
    for row in rows:
        row["slug"] = row["slug"] if known[row["slug"]] == 1 else row["plan_path"]


def _copy(space: Workspace, plan: Data) -> PlanCopy:
    """The plan file in the caller's worktree; for a done plan, in the main worktree."""
    key, root = plan["plan_path"], space.repo.root
    return plan_copy(key, worktree=root, root=root) if plan["status"] == "done" else space.copy(key)


def _from_record(copy: PlanCopy, plan: Data, texts: Mapping[str, str]) -> Data:
    """The row of a recorded plan; `texts` maps a text's hash to an unrecorded plan file."""
    agreed, now = plan.pop("plan_hash"), None
    try:
        found = copy.now()
        file = "present" if found == agreed else "changed" if found else "gone"
        if found is None and agreed in texts:
            file, now = "renamed", texts[agreed]
    except Unreadable:
        file = "unreadable"
    names = {**_names(plan["plan_path"]), "recorded": True}
    return {**names, "file": file, "renamed_to": now, **plan}


def _from_boxes(repo: Repository, file: PlanFile, max_bytes: int) -> Data:
    """The row of a plan without a state: its progress is the boxes in its text."""
    plan: Data = {**_names(file.key), "recorded": False, "status": None, "paused_at": None}
    plan |= {"renamed_to": None, "merged_commit": None, "commits": 0, "last_run": None}
    plan |= {"run_since": None, "paused_by": None, "paused_reason": None, "changed_outside": 0}
    steps = dict.fromkeys(("total", "completed", "held", "ready", "blocked", "parked"), 0)
    items = dict.fromkeys(("total", "completed", "deferred"), 0)
    rest: Data = {"steps": steps, "items": items, "claims": [], "parked": [], "audit": None}
    try:
        parsed = plans.parse(repo, file, max_bytes, allow_empty=True)
    except TugError:
        return {**plan, "file": "unreadable", "title": None, **rest}
    ticked = [
        [item.ticked for each in step.family() for item in each.items] for step in parsed.steps
    ]
    steps["total"] = len(parsed.steps)
    steps["completed"] = sum(bool(boxes) and all(boxes) for boxes in ticked)
    items["total"] = sum(map(len, ticked))
    items["completed"] = sum(map(sum, ticked))
    return {**plan, "file": "present", "title": parsed.title, **rest}


def _names(key: str) -> Data:
    return {"plan_path": key, "slug": catalog.slug_of(os.path.basename(key))}


def _worktrees(root: str, rows: list[Data]) -> list[Data]:
    """Every worktree of the repository with the steps it holds; also a missing one."""
    held: dict[str, list[Data]] = {}
    for plan in rows:
        for claim in plan["claims"]:
            what = {"plan_path": plan["plan_path"], "anchor": claim["anchor"]}
            held.setdefault(claim["claimed_by"], []).append({**what, "stale": claim["stale"]})
    registered = dict(git.worktrees(root))
    return [
        {
            "path": path,
            "branch": registered.get(path),
            "main": path == root,
            "registered": path in registered,
            "exists": os.path.isdir(path),
            "holds": held.get(path, []),
        }
        for path in {**registered, **held}
    ]


class Snapshot:
    """Plans at one moment, with the hashes of plan files that differ from the agreed text."""

    __slots__ = ("changed", "data")

    def __init__(self, data: Any, changed: dict[str, str | None]) -> None:
        self.data: StateShow = data
        #: Plan -> the hash of its file, which differs from the agreed one; None without a file.
        self.changed = changed

    @property
    def plans(self) -> list[StateShowPlan]:
        """The plans as a list, also if one was asked for."""
        one: Any = self.data
        return self.data.get("plans", [one])

    def issues(self) -> list[Issue]:
        """A warning for each plan whose file differs from the agreed text."""
        from tugtool.workflow.sentences import drift

        return [
            {
                "code": "W102",
                "severity": "warning",
                "message": "\n".join(drift(plan["plan_hash"], self.changed[plan["plan_path"]])),
                "hint": f"tugcode diff {plan_argument(plan['plan_path'])}",
                "file": plan["plan_path"],
            }
            for plan in self.plans
            if plan["plan_path"] in self.changed
        ]


class Viewer:
    """Reads one plan or all plans, again and again."""

    def __init__(
        self, space: Workspace, plan: str | None = None, *, archived: bool = False, **how: Any
    ) -> None:
        self.space, self.plan, self.archived = space, plan, archived
        #: The options of `state.show`.
        self._how: dict[str, Any] = {"archived": archived, **how}
        #: File -> its signature and hash: an unchanged file is not read again.
        self._hashes: dict[str, tuple[str, str | None]] = {}

    def read(self) -> Snapshot:
        """Read the current state of the plans."""
        store = self.space.store
        if self.plan is None and not store.exists():
            return Snapshot({"plans": []}, {})
        return self.completed(state.show(store, self.plan, **self._how))

    def completed(self, data: Data) -> Snapshot:
        """Add what only files and git know to the answer of `state.show`."""
        seen = Snapshot(data, {})
        for plan in seen.plans:
            _mark_stale(plan)
            needs.settle_merge(self.space, plan)
            _name_roles(self.space.repo, plan["plan_path"], plan["steps"])
            found = self._hash(plan["plan_path"])
            if found != plan["plan_hash"]:
                seen.changed[plan["plan_path"]] = found
        return seen

    def _hash(self, plan: str) -> str | None:
        copy = self.space.copy(plan)
        signature, found = self._hashes.get(copy.file, ("", None))
        if copy.signature is not None and copy.signature == signature:
            return found
        found = _hash_now(self.space, plan)
        self._hashes[copy.file] = (copy.signature or "", found)
        return found


def _hash_now(space: Workspace, plan: str) -> str | None:
    try:
        return space.copy(plan).now()
    except Unreadable:
        return None


def _name_roles(repo: Repository, plan: str, steps: list[Any]) -> None:
    """Add the running role to each held step of which the record does not know it."""
    if any(each["claimed_by"] and not each["role"] for each in steps):
        from tugtool.workflow import transcripts  # Most steps are not held.

        transcripts.name_roles(repo, plan, steps)


def _mark_stale(plan: StateShowPlan) -> None:
    """Add the current commit of the step's worktree to evidence, and whether it is stale."""
    items = [(each["step_anchor"], each["evidence"]) for each in plan["checklist_items"]]
    if not any(evidence for _, evidence in items):
        return
    # Imported here because most plans have no evidence.
    from tugtool.git import refs

    tops = {each["anchor"]: top for top in plan["steps"] for each in (top, *top["substeps"])}
    commits: dict[str, str | None] = {}
    for anchor, evidence in items:
        if evidence is None or evidence["judged"] is not None:
            continue
        # A released step has no worker, but its evidence names a worktree.
        top = tops[anchor]
        home = top["claimed_by"] or top["completed_by"] or evidence["worktree"]
        if home not in commits:
            commits[home] = None if on_other_machine(home) else refs.head_commit(home)
        evidence["worktree_commit"] = commits[home]
        if commits[home] is not None:  # Evidence for the step's own commit stays valid.
            evidence["stale"] = evidence["commit"] not in (commits[home], top["commit_hash"] or "")


def why(space: Workspace, plan: str, anchor: str) -> StateWhy:
    """Explain the situation of a step, and name the commands that free it."""
    drifted = _hash_now(space, plan) != record.require_plan(space.store, plan)["plan_hash"]
    most = space.settings.number("state.max_attempts")
    how = {"owner": space.owner, "max_attempts": most, "drift": drifted}
    from tugtool.workflow import transcripts

    return transcripts.name_in_why(space.repo, state.why(space.store, plan, anchor, **how))
