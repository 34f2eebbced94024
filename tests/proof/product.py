"""The product as the machine drives it, and what its tables say in the model's words."""

import os
import tempfile
from collections import Counter

from model import Model

from support.state import KEY, Lab
from tugtool import state
from tugtool.plan import fingerprint, parser
from tugtool.state.completion import Finding
from tugtool.state.record import PlanCopy
from tugtool.store import open_store
from tugtool.system import clock as clocks

#: Memory, if there is any to write files to: nothing here is about disks.
SHELF = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Driver:
    """The operations of the model under the same names, with the same arguments."""

    @staticmethod
    def claim(lab: Lab, owner: str, step: str | None, text: str, **how) -> dict:
        given = {
            "lease_seconds": how["lease"],
            "force": how["force"],
            "holder_pid": how["pid"],
            "request_id": how["request"],
            "begins": how["begins"],
        }
        answer = lab.claim(owner, step, copy=_copy(text), **given)
        if not answer["claimed"]:
            answer["held_steps"] = [each["anchor"] for each in answer["held_steps"]]
            waiting = answer["waiting_for"].items()
            return {**answer, "waiting_for": {a: set(needs) for a, needs in waiting}}
        before = answer["previous_attempt"]
        if before is not None:
            told = before["reopened"] is not None
            answer["previous_attempt"] = (before["number"], before["outcome"], told)
        answer["substeps"] = {each["anchor"]: each["status"] for each in answer["substeps"]}
        return answer

    @staticmethod
    def start(lab: Lab, anchor: str, **who) -> dict:
        return lab.start(anchor, **who)

    @staticmethod
    def heartbeat(lab: Lab, anchor: str, lease: float | None, **who) -> dict:
        return lab.beat(anchor, lease_seconds=lease, **who)

    @staticmethod
    def update(lab: Lab, anchor: str, text: str, entries, every, rest: bool, **who) -> dict:
        some = [
            {"step": step, "kind": kind, "ordinal": ordinal, "status": status, "reason": why}
            for step, (kind, ordinal), status, why in entries
        ]
        all_ = [{"kind": kind, "status": status} for kind, status in every]
        how = {"complete_remaining": rest, "copy": _copy(text)}
        return lab.update(anchor, *some, every=all_, **how, **who)

    @staticmethod
    def artifact(lab: Lab, anchor: str, **who) -> dict:
        return lab.artifact(anchor, **who)

    @staticmethod
    def report(lab: Lab, anchor: str, tokens: int, **who) -> dict:
        return state.report(lab.store, KEY, anchor, role="coder", tokens=tokens, **who)

    @staticmethod
    def verify(lab: Lab, anchor: str, text: str, findings, **who) -> dict:
        said = [Finding(anchor, n, passed=p, evidence={"passed": p}) for n, p in findings]
        copy = _copy(text)
        how = {"copy": copy, "plan_hash": copy.hash, "summary": "seen"}
        return state.verify(lab.store, KEY, anchor, said, **how, **who)

    @staticmethod
    def adopt(lab: Lab, anchor: str, pid: int, **who) -> dict:
        return state.adopt(lab.store, KEY, anchor, pid=pid, **who)

    @staticmethod
    def let_go(lab: Lab, anchor: str, **who) -> dict:
        return state.let_go(lab.store, KEY, anchor, **who)

    @staticmethod
    def complete(lab: Lab, anchor: str, text: str, force, commit, **who) -> dict:
        return lab.complete(anchor, copy=_copy(text), force_reason=force, commit=commit, **who)

    @staticmethod
    def release(lab: Lab, anchor: str, park: bool, **how) -> dict:
        return lab.release(anchor, park_reason="look" if park else None, **how)

    @staticmethod
    def reset(lab: Lab, anchor: str) -> dict:
        return lab.reset(anchor)

    @staticmethod
    def reopen(lab: Lab, anchor: str, force: bool) -> dict:
        answer = lab.reopen(anchor, force=force)
        return {**answer, "dependents": set(answer["dependents"])}

    @staticmethod
    def accept(lab: Lab, anchor: str, item: tuple | None) -> dict:
        return state.accept(lab.store, KEY, anchor, by="Ada", **_which(item))

    @staticmethod
    def reject(lab: Lab, anchor: str, item: tuple | None) -> dict:
        return state.reject(lab.store, KEY, anchor, by="Ada", note="no", **_which(item))

    @staticmethod
    def pause(lab: Lab, paused: bool) -> dict:
        return lab.pause() if paused else lab.resume()

    @staticmethod
    def archive(lab: Lab, undo: bool) -> dict:
        return lab.archive(undo=undo)

    @staticmethod
    def reconcile(lab: Lab, anchor: str, attempt: int, force: bool) -> dict:
        return lab.reconcile(anchor, attempt=attempt, force=force)

    @staticmethod
    def prune(lab: Lab, here: bool, done: bool) -> dict:
        """Drop the plan, if it may be; then take it back from what was written of it."""
        with tempfile.TemporaryDirectory(dir=SHELF) as kept:
            how = {"directory": kept, "done": done}
            places = {KEY: "its file is here"} if here else {}
            answer = state.prune(lab.store, where=lambda keys: places, **how)
            if answer["pruned"]:
                assert not any(lab.dump().values()), "something is left of what was pruned"
                with open(answer["exported_to"], "rb") as file:
                    back = state.import_(lab.store, file)
                assert (back["recounted"], back["renumbered"]) == ([], False)
        return {**answer, "pruned": bool(answer["pruned"])}

    @staticmethod
    def restore(lab: Lab, source: str, raised: int) -> dict:
        lab.store.close()
        store = open_store(lab.url, clock=lab.clock, copies=f"{source}.copies")
        answer = state.restore(store, source=source)
        store.close()
        # Whoever reconciles from now on works from the text of the copy.
        lab.hash = lab.plan()["plan_hash"]
        ended = [each["step_anchor"] for each in answer["claims_ended"]]
        return {**answer, "ended": ended}

    @staticmethod
    def recount(lab: Lab) -> dict:
        return state.recount(lab.store, KEY)

    @staticmethod
    def init(lab: Lab, text: str) -> dict:
        parsed, hash = parser.parse(text), fingerprint.of(text.encode())
        return state.init(lab.store, KEY, parsed, text=text, hash=hash)

    @staticmethod
    def revise(lab: Lab, parts: list, text: str, flags: tuple[str, ...]) -> dict:
        return lab.revise(text, *flags)


def _copy(text: str) -> PlanCopy:
    return PlanCopy("/the/plan.md", fingerprint.of(text.encode()))


def _which(item: tuple | None) -> dict:
    return {} if item is None else {"kind": item[0], "ordinal": item[1]}


def wanted(model: Model) -> dict[str, dict]:
    """The model's plan, steps, items and attempts, as `found` has the product's."""
    tops = model.tops()
    pending = [a for a in model.ready() if model.steps[a]["owner"] is None]
    plan = {
        "status": model.status(),
        "paused": model.paused,
        "total": len(tops),
        "done": sum(map(model.is_done, tops)),
        "ready": len(pending),
    }
    keys = ("parent", "status", "owner", "attempt", "claims", "parked", "by", "commit")
    steps = {}
    for anchor, step in model.steps.items():
        until = model.steps[model.top_of(anchor)]["until"] if step["owner"] else None
        waits = sum(
            model.top_of(need) != anchor and not model.is_done(need)
            for each in (model.family(anchor) if step["parent"] is None else ())
            for need in model.steps[each]["needs"]
        )
        steps[anchor] = {key: step[key] for key in keys} | {
            "until": until and clocks.text(until),
            "waits": waits,
            "artifacts": model.artifacts[anchor],
        }
    items = {
        (anchor, *key): item
        for anchor, step in model.steps.items()
        for key, item in step["items"].items()
    }
    attempts = {
        (anchor, number): {key: each[key] for key in ("worktree", "outcome", "lease", "tokens")}
        | {"holder": each["holder"] and each["holder"][2]}
        for anchor, numbers in model.attempts.items()
        for number, each in numbers.items()
    }
    return {"plan": {"plan": plan}, "steps": steps, "items": items, "attempts": attempts}


def found(tables: dict[str, list[dict]]) -> dict[str, dict]:
    (plan,), (counts,) = tables["plans"], tables["plan_counts"]
    left = Counter(row["step_anchor"] for row in tables["step_artifacts"])
    return {
        "plan": {
            "plan": {
                "status": plan["status"],
                "paused": plan["paused_at"] is not None,
                "total": counts["steps_total"],
                "done": counts["steps_done"],
                "ready": counts["steps_ready"],
            }
        },
        "steps": {row["anchor"]: _step(row, left[row["anchor"]]) for row in tables["steps"]},
        "items": {
            (row["step_anchor"], row["kind"], row["ordinal"]): {
                "text": row["text"],
                "status": row["status"],
                "reason": row["reason"],
                "evidence": row["evidence"] and '"passed":true' in row["evidence"].replace(" ", ""),
            }
            for row in tables["checklist_items"]
        },
        "attempts": {
            (row["step_anchor"], row["number"]): {
                "worktree": row["worktree"],
                "outcome": row["outcome"],
                "lease": row["lease_seconds"],
                "tokens": row["tokens"],
                "holder": row["holder_pid"],
            }
            for row in tables["attempts"]
        },
    }


def _step(row: dict, artifacts: int) -> dict:
    return {
        "parent": row["parent_anchor"],
        "status": row["status"],
        "owner": row["claimed_by"],
        "attempt": row["attempt"],
        "claims": row["claims_without_progress"],
        "parked": row["parked_at"] is not None,
        "by": row["completed_by"],
        "commit": row["commit_hash"],
        "until": row["lease_expires_at"],
        "waits": row["open_deps"],
        "artifacts": artifacts,
    }
