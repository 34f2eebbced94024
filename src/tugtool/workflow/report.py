"""The data of `report`: the history of a plan, from the record alone.

All of it is read in one transaction. `cli` makes text of it.
"""

from __future__ import annotations

from tugtool.errors import merge_command, plan_argument, quoted
from tugtool.plan import catalog, parser
from tugtool.state import proofs, record, reviews, standings, views
from tugtool.store.owners import machine_of
from tugtool.system import os
from tugtool.workflow import needs, review

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from tugtool.schemas import Report
    from tugtool.workflow.workspace import Workspace

    Data = dict[str, Any]


#: The standings of a checkpoint, from the strongest proof to none.
STANDINGS = (
    *("proved", "accepted", "judged", "ticked", "forced"),
    *("unproven", "deferred", "failed", "open"),
)
#: Events that the timeline leaves out: signs of life, and parts of a completion.
_MINOR = frozenset(
    (
        *("heartbeat", "start", "update", "artifact", "agent", "agent_retry", "role", "recount"),
        "raise_attempt",
        *("worktree_create", "worktree_reserve", "worktree_remove", "substep_completed"),
        "move",
    )
)
_OF_STEP = "title commit_hash completed_at completed_by claimed_by park_reason"
_OF_FIGURES = "attempts waiting_seconds working_seconds deferred tokens cost_microdollars"
_OF_PLAN = "plan_path status as_of created_at paused_at merged_commit"
_OF_COMMAND = ("command", "exit_status", "timed_out", "duration_seconds")


def gather(space: Workspace, plan: str) -> Report:
    """Read and compose the report of a plan."""
    verify = bool(space.settings.value("implement.verify"))
    found = views.everything(space.store, plan)
    needs.settle_merge(space, found["show"])
    return compose(found, verify=verify, push=space.settings.is_set("remote.name"))


def latest_done(space: Workspace) -> str | None:
    """The plan that changed last, if no plan is active."""
    if not space.store.exists():
        return None
    known = record.plans(space.store)
    if "active" in known.values():
        return None
    changed = {plan: record.require_plan(space.store, plan)["updated_at"] for plan in known}
    return max(changed, key=lambda plan: changed[plan], default=None)


def compose(found: Mapping[str, Any], *, verify: bool = True, push: bool = False) -> Report:
    """The report from the recorded data; `verify`: `implement.verify`; `push`: with a remote."""
    data: Report = _Story(found, verify=verify, push=push).report()
    return data


class _Story:
    """The recorded data of a plan, and the parts of its report."""

    def __init__(self, found: Mapping[str, Any], *, verify: bool, push: bool) -> None:
        self.plan: Data = found["show"]
        self.stats: Data = found["stats"]
        self.events: list[Data] = found["events"]
        self.review: Data = found["review"]
        self.text: str = found["text"]
        self.figures = {each["anchor"]: each for each in self.stats["steps"]}
        self.texts = {_key(item): item["text"] for item in self.plan["checklist_items"]}
        self.verify, self.push = verify, push
        self.name = plan_argument(self.plan["plan_path"])
        #: Step or substep -> the step it is a substep of, or itself.
        self.tops = {e["anchor"]: top for top in self.plan["steps"] for e in _family(top)}
        self.artifacts = {
            note["artifact_id"]: note for each in self.tops.values() for note in _notes(each)
        }

    def report(self) -> Any:
        steps = [self._step(row) for row in self.plan["steps"]]
        checkpoints = [self._checkpoint(item) for item in self._checkpoint_items()]
        waits = list(self._waits())
        purpose = parser.parse(self.text).purpose
        return {
            **_only(self.plan, _OF_PLAN),
            "slug": catalog.slug_of(os.path.basename(self.plan["plan_path"])),
            "title": self.plan["phase_title"],
            "purpose": purpose.text if purpose else None,
            "completed_at": self.stats["completed_at"],
            "summary": {
                "steps": len(steps),
                "steps_by_standing": _tally(standings.STANDINGS, (s["standing"] for s in steps)),
                "checkpoints": len(checkpoints),
                "checkpoints_by_standing": _tally(STANDINGS, (c["standing"] for c in checkpoints)),
                "waits": len(waits),
                "next": self._next(waits, steps),
            },
            "spent": {
                **_only(self.stats, "wall_seconds working_seconds waiting_seconds attempts"),
                **_only(self.stats, "tokens cost_microdollars"),
            },
            "items": self.stats["items"],
            "steps": steps,
            "checkpoints": checkpoints,
            "judgements": list(self._judgements()),
            "audit": self._audit(),
            "incidents": list(self._incidents()),
            "waits": waits,
            "merge": self._merge(),
            "last_run": self._last_run(),
            "run_since": self.plan["run_since"],
            "verify": self.verify,
            "timeline": [event for event in self.events if _is_major(event)],
        }

    def _step(self, row: Data) -> Any:
        figures = self.figures[row["anchor"]]
        rounds = [note for note in _notes(row) if note["kind"] == "reviewer_verdict"]
        return {
            "step_anchor": row["anchor"],
            "anchor": row["anchor"],
            **_only(row, _OF_STEP),
            "standing": row["standing"],
            "forced": row["complete_reason"],
            **_only(figures, _OF_FIGURES),
            "rounds": len(rounds),
            "waiting_for": row["waiting_for"],
            "substeps": len(row["substeps"]),
        }

    def _checkpoint_items(self) -> Iterator[Data]:
        return (each for each in self.plan["checklist_items"] if each["kind"] == "checkpoint")

    def _checkpoint(self, item: Data) -> Any:
        evidence = item["evidence"] or {}
        judged = evidence.get("judged") or {}
        standing = self._proof(item, evidence)
        ran = evidence.get("commands", []) if standing not in ("judged", "ticked") else []
        return {
            **_only(item, "step_anchor ordinal text checkpoint_kind status reason"),
            "standing": standing,
            "judged_by": judged.get("role") if standing == "judged" else None,
            "judged_because": judged.get("reason") if standing == "judged" else None,
            "commands": [_only(each, _OF_COMMAND) for each in ran],
            "commit": evidence.get("commit"),
            "dirty": evidence.get("dirty"),
            "at": evidence.get("at"),
        }

    def _proof(self, item: Data, evidence: Data) -> str:
        """The standing of a checkpoint."""
        ran = bool(evidence.get("commands"))
        passed = ran and evidence["passed"]
        if item["status"] == "deferred":
            return "deferred"
        if item["status"] != "completed":
            return "failed" if ran and not passed else "open"
        reason = item["reason"] or ""
        if reason.startswith(reviews.ACCEPTED):
            return "accepted"
        if passed:
            return "proved"
        if evidence.get("judged"):
            return "judged"
        if reason and reason == self.tops[item["step_anchor"]]["complete_reason"]:
            return "forced"
        return "ticked" if item["checkpoint_kind"] == "judgement" else "unproven"

    def _judgements(self) -> Iterator[Any]:
        """Deferred and unproven items with a person's verdict; then those that still wait."""
        for event in self.events:
            if event["kind"] not in ("review_accepted", "review_rejected"):
                continue
            verdict = event["kind"].removeprefix("review_")
            for anchor, kind, ordinal, reason in event["detail"].get("judged") or []:
                text = self.texts.get((anchor, kind, ordinal))
                said = {"by": event["actor"], "at": event["at"]}
                said |= {"note": event["detail"].get("note")}
                yield _judgement(anchor, kind, ordinal, text, reason, verdict, said)
        for each in self.review["deferred_items"]:
            said = {"by": None, "at": None, "note": None}
            yield _judgement(*_key(each), each["text"], each["reason"], "waits", said)

    def _audit(self) -> Any:
        """The auditor's last summary of the whole plan."""
        said = [n for n in self.artifacts.values() if n["kind"] == "auditor_summary"]
        if not said:
            return None
        last = max(said, key=lambda note: (note["recorded_at"], note["artifact_id"]))
        return {"summary": last["summary"], "at": last["recorded_at"]}

    def _incidents(self) -> Iterator[Any]:
        told: dict[Any, set[str]] = {}
        for event in self.events:
            for what, reason in self._wrong(event, event["detail"]):
                # A step is often parked for the reason of its escalation.
                before = told.setdefault((event["step_anchor"], event["attempt"], reason), set())
                if reason is not None and before and what in _REPEATED:
                    if what in before:
                        continue
                    reason = None
                before.add(what)
                actor, ref = event["actor"], event["detail"].get("salvage_ref")
                facts = {"what": what, "reason": reason, "actor": actor, "salvage_ref": ref}
                yield {**_only(event, "at step_anchor attempt"), **facts}

    def _wrong(self, event: Data, detail: Data) -> Iterator[tuple[str, str | None]]:
        """The problems and repairs that an event tells of."""
        kind = event["kind"]
        if kind == "claim":
            before, lost = detail["reclaimed_from"], detail["outcome"] in ("dead", "expired")
            if before is not None and (lost or before != event["actor"]):
                yield f"taken_over_{detail['outcome']}", before
            if detail["parked"]:
                yield "parked", "too many claims without progress"
        elif kind == "release":
            yield from _released(detail)
        elif kind == "artifact":
            yield from _told(self.artifacts.get(detail["artifact_id"]))
        elif kind == "verify":
            for anchor, _, ordinal in detail["failed"]:
                yield "checkpoint_failed", self.texts.get((anchor, "checkpoint", ordinal))
        else:
            yield from _plainly(kind, detail)

    def _waits(self) -> Iterator[Any]:
        """Everything that waits for a person, with its command; nothing if the plan is archived."""
        name = self.name
        if self.plan["status"] == "archived":
            return
        yield from self._outside()
        for what in ("deferred", "unproven"):
            for item in self.review[f"{what}_items"]:
                anchor, kind, ordinal = _key(item)
                which = f"--step {quoted(anchor)} --kind {kind} --ordinal {ordinal}"
                command = f"tugcode review {name} --accept {which}"
                told = (item["step_anchor"], item["text"], item["reason"])
                yield {**_wait(what, *told, command), "reject": review.reject_command(item)}
        for step in self.review["parked_steps"]:
            anchor = step["step_anchor"]
            command = f"tugcode review {name} --retry --step {quoted(anchor)}"
            yield _wait("parked", anchor, step["step_title"], step["reason"], command)
        for asked in self.review["questions"]:
            text, command = asked["step_title"], f"tugcode review {name}"
            yield _wait("question", asked["step_anchor"], text, asked["reason"], command)
        for audit in self.review["audits"]:
            yield _wait("audit", None, None, audit["summary"], f"tugcode implement {name}")
        if self.plan["paused_at"]:
            yield _wait("paused", None, None, None, f"tugcode resume {name}")
        yield from self._unpublished()

    def _unpublished(self) -> Iterator[Any]:
        """Commits that are on one machine alone, as far as other steps wait for them."""
        steps = self.plan["steps"]
        needed = {each for step in steps for each in step.get("waiting_for_publish", ())}
        for step in (step for step in steps if step["anchor"] in needed):
            reason = f"its commit is on {machine_of(step['completed_by'])} alone"
            reason += f": {step['unpublished']}; there: tugcode worktree publish"
            command = f"tugcode why {self.name} {quoted(step['anchor'])}"
            yield _wait("unpublished", step["anchor"], step["title"], reason, command)

    def _outside(self) -> Iterator[Any]:
        """Changes outside of the worktrees while agents ran, until the plan is merged."""
        merges = [at for at, each in enumerate(self.events) if each["kind"] == "merge"]
        since = merges[-1] if merges else 0
        for each in self.events[since:] if self.plan["merged_commit"] is None else ():
            if each["kind"] == "run" and each["detail"]["event"] == "changed_outside":
                reason, command = each["detail"]["reason"], f"tugcode log {self.name}"
                yield _wait("changed_outside", None, None, reason, command)

    def _next(self, waits: list[Any], steps: list[Data]) -> str | None:
        run = self._last_run()
        if run and run["status"] == "died" and not self.plan["run_since"]:
            # It goes on without a decision; `review` comes after it.
            return f"tugcode implement {self.name}"
        kinds = {each["what"] for each in waits} - {"changed_outside"}
        if kinds == {"unpublished"}:
            return next(str(each["command"]) for each in waits if each["what"] in kinds)
        if kinds:
            return f"tugcode {'resume' if kinds == {'paused'} else 'review'} {self.name}"
        if self.plan["status"] == "archived":
            return None
        if self.plan["merged_commit"] and "unpushed_merge" not in self.plan:
            return None
        if self.plan["status"] == "done":
            return merge_command(self.plan["plan_path"], push=self.push)
        if any(each["standing"] == "at_work" for each in steps):
            return f"tugcode show {self.name} --watch"
        return f"tugcode implement {self.name}"

    def _merge(self) -> Any:
        if self.plan["merged_commit"] is None:
            return None
        merges = [event for event in self.events if event["kind"] == "merge"]
        last: Data = merges[-1] if merges else {"at": None, "actor": None, "detail": {}}
        unproven = last["detail"].get("unproven") or {}
        facts = {"commit": self.plan["merged_commit"], "at": last["at"]}
        if "unpushed_merge" in self.plan:
            facts["unpushed_by"] = self.plan["unpushed_merge"]["by"]
        return {**facts, "unproven": len(unproven.get("items", ())), "by": unproven.get("by")}

    def _last_run(self) -> Any:
        """The end of the last `implement`; None if it still runs or a step was claimed since."""
        run = self.plan["last_run"]
        if run is None:
            return None
        turns = [e["kind"] for e in self.events if e["kind"] == "claim" or _is_end(e)]
        if run["status"] != "died" and turns[-1] == "claim":
            return None
        return {"at": run["ended_at"], **_only(run, "status reason")}


#: Incidents whose reason is told only once for each attempt.
_REPEATED = ("parked", "failed", "escalation")
_PLAINLY_WRONG = (
    *("reset", "unpark", "reopen", "restore", "reconcile", "clock_back", "salvage"),
    *("review_rejected", "salvage_prune"),
)


def _released(detail: Data) -> Iterator[tuple[str, str | None]]:
    what = "stopped" if "interrupted" in detail else "released"
    yield "failed" if "failed" in detail else what, detail.get("failed")
    if detail["parked"]:
        yield "parked", detail["parked"]


def _is_end(event: Data) -> bool:
    return bool(event["kind"] == "run" and event["detail"]["event"] == "finished")


def _is_major(event: Data) -> bool:
    passed = event["kind"] == "verify" and not event["detail"]["failed"]
    return event["kind"] not in _MINOR and not passed


def _plainly(kind: str, detail: Data) -> Iterator[tuple[str, str | None]]:
    if kind == "run" and detail["event"] not in ("started", "finished"):
        yield detail["event"], detail.get("reason")
    elif kind == "agent_retry":
        yield "agent_failed", f"{detail['role']}: {detail['reason']}"
    elif kind in _PLAINLY_WRONG:
        yield kind, detail.get("reason") or detail.get("note")


def _told(note: Data | None) -> Iterator[tuple[str, str | None]]:
    """The incident that an artifact tells of: a recovery, an escalation, or requested changes."""
    if note is None:
        return
    kind, summary = note["kind"], note["summary"]
    if kind in ("recovery", "escalation"):
        yield kind, summary
    elif kind == "reviewer_verdict" and not summary.startswith(proofs.APPROVE):
        wanted = "escalation" if summary.startswith("ESCALATE") else "revised"
        yield wanted, summary.partition(": ")[2] or summary


def _judgement(
    anchor: str,
    kind: str,
    ordinal: int,
    text: str | None,
    reason: str | None,
    verdict: str,
    said: Data,
) -> Data:
    which = {"step_anchor": anchor, "kind": kind, "ordinal": ordinal, "text": text}
    return {**which, "deferred_because": reason, "verdict": verdict, **said}


def _wait(
    what: str, anchor: str | None, text: str | None, reason: str | None, command: str
) -> Data:
    facts = {"what": what, "step_anchor": anchor, "text": text, "reason": reason}
    return {**facts, "command": command, "reject": None}


def _key(item: Data) -> tuple[str, str, int]:
    return item["step_anchor"], item["kind"], item["ordinal"]


def _family(step: Data) -> list[Data]:
    return [step, *step["substeps"]]


def _notes(step: Data) -> list[Data]:
    return [note for each in _family(step) for note in each["artifacts"]]


def _only(row: Mapping[str, Any], names: str | Iterable[str]) -> Any:
    return {name: row[name] for name in (names.split() if isinstance(names, str) else names)}


def _tally(names: Iterable[str], found: Iterable[str]) -> Any:
    counts = dict.fromkeys(names, 0)
    for each in found:
        counts[each] += 1
    return counts
