"""The rules of docs/reference/state.md once more, in plain dicts: the expected state of a plan.

Nothing here is shared with the product, nothing is stored twice, and nothing is fast. Every
operation says what its answer must hold, or raises `Refused` with the code; it refuses
before it changes anything.
"""

from model_text import blank, family, revise, steps_of

from support.plan_drafts import Part

CLOSED = ("completed", "deferred")
UNFINISHED = ("open", "in_progress")
ACCEPTED = "accepted by "


class Refused(Exception):
    """The operation is refused with this code, and changes nothing."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Room:
    """The machine on which everybody works: its boot, its containers, its processes."""

    def __init__(self) -> None:
        self.now = 0
        self.boot, self.namespace = 1, 1
        #: Process -> when it started.
        self.running: dict[int, str] = {}

    def holder(self, pid: int | None) -> tuple | None:
        """What is written down about a process; one that does not run has no start."""
        if pid is None:
            return None
        return self.boot, self.namespace, pid, self.running.get(pid, "")

    def is_gone(self, holder: tuple | None) -> bool:
        """Beyond doubt: of this boot and this container, and it no longer runs."""
        if holder is None or holder[:2] != (self.boot, self.namespace):
            return False
        return self.running.get(holder[2]) != holder[3]


class Model:
    """One plan: its steps and substeps in order, with their items and their attempts."""

    def __init__(self, parts: list[Part], text: str, room: Room, most: int) -> None:
        self.room, self.text, self.most = room, text, most
        self.steps: dict[str, dict] = steps_of(parts)
        #: Step -> number -> attempt; and of steps that were dropped the highest number.
        self.attempts: dict[str, dict[int, dict]] = {anchor: {} for anchor in self.steps}
        self.fences: dict[str, int] = {}
        #: What a step that nothing is known of begins after.
        self.least = 0
        self.artifacts = dict.fromkeys(self.steps, 0)
        self.reopened: set[str] = set()
        self.paused = self.archived = False

    # -- questions ---------------------------------------------------------------------

    def tops(self) -> list[str]:
        return [anchor for anchor, step in self.steps.items() if step["parent"] is None]

    def top_of(self, anchor: str) -> str:
        return self.steps[anchor]["parent"] or anchor

    def family(self, anchor: str) -> list[str]:
        return family(self.steps, anchor)

    def unfinished(self, anchor: str) -> list[str]:
        """The step, and those of its substeps that are not completed."""
        rest = [a for a in self.family(anchor)[1:] if self.steps[a]["status"] != "completed"]
        return [anchor, *rest]

    def is_done(self, anchor: str) -> bool:
        return self.steps[anchor]["status"] == "completed"

    def waits_for(self, top: str) -> list[str]:
        """What is not completed of what the step or a substep of it needs, itself aside."""
        needs = [need for each in self.family(top) for need in self.steps[each]["needs"]]
        return [n for n in dict.fromkeys(needs) if self.top_of(n) != top and not self.is_done(n)]

    def own_needs(self, substep: str) -> list[str]:
        step = self.steps[substep]
        return [n for n in step["needs"] if n != step["parent"] and not self.is_done(n)]

    def is_lapsed(self, top: str) -> bool:
        step = self.steps[top]
        return step["owner"] is not None and step["until"] < self.room.now

    def is_gone(self, top: str) -> bool:
        step = self.steps[top]
        if step["owner"] is None:
            return False
        return self.room.is_gone(self.attempts[top][step["attempt"]]["holder"])

    def is_live(self, top: str) -> bool:
        held = self.steps[top]["owner"] is not None
        return held and not self.is_lapsed(top) and not self.is_gone(top)

    def is_put_aside(self, top: str) -> bool:
        """Parked, and nobody's."""
        return self.steps[top]["parked"] and self.steps[top]["owner"] is None

    def may_be_had(self, top: str) -> bool:
        """Whatever else is asked: neither completed, nor parked, nor blocked."""
        return not (self.is_done(top) or self.steps[top]["parked"] or self.waits_for(top))

    def ready(self) -> list[str]:
        """What somebody who holds nothing could claim."""
        return [a for a in self.tops() if self.may_be_had(a) and not self.is_live(a)]

    def status(self) -> str:
        if self.archived:
            return "archived"
        return "done" if all(map(self.is_done, self.tops())) else "active"

    def open_items(self, anchors: list[str]) -> list[tuple[str, dict]]:
        found = [(a, item) for a in anchors for item in self.steps[a]["items"].values()]
        return [(a, item) for a, item in found if item["status"] in UNFINISHED]

    def remaining(self) -> int:
        return sum(not self.is_done(anchor) for anchor in self.tops())

    # -- what the operations share -----------------------------------------------------

    def _known(self, anchor: str) -> dict:
        if anchor not in self.steps:
            raise Refused("E059")
        return self.steps[anchor]

    def _fenced(self, anchor: str, attempt: int | None) -> tuple[dict, dict]:
        step = self._known(anchor)
        top = self.steps[self.top_of(anchor)]
        if attempt is not None and attempt != top["attempt"]:
            raise Refused("E060")
        return step, top

    def _owned(self, top: dict, owner: str) -> None:
        if top["owner"] != owner:
            raise Refused("E050" if top["owner"] is None else "E049")

    def _held(
        self, anchor: str, owner: str, attempt: int | None, text: str | None = None
    ) -> tuple[dict, dict]:
        step, top = self._fenced(anchor, attempt)
        if top["status"] == "completed":
            raise Refused("E050")
        self._owned(top, owner)
        if text is not None and text != self.text:
            raise Refused("E048")
        return step, top

    def _sign_of_life(self, top: str, lease: float | None = None) -> None:
        step = self.steps[top]
        attempt = self.attempts[top][step["attempt"]]
        attempt["lease"] = lease or attempt["lease"]
        step["until"] = self.room.now + max(1, round(attempt["lease"] * 1000))

    def _progress(self, top: str) -> None:
        self.steps[top].update(claims=0, parked=False)

    def _complete(self, anchor: str, by: str | None, commit: str | None = None) -> None:
        done = {"status": "completed", "owner": None, "until": None, "by": by, "commit": commit}
        self.steps[anchor].update(done)

    def _complete_substep(self, anchor: str, commit: str | None = None) -> None:
        top = self.top_of(anchor)
        last = self.attempts[top].get(self.steps[top]["attempt"])
        self._complete(anchor, last and last["worktree"], commit)
        self._progress(top)

    def _revive(self) -> None:
        """A completed substep of which something is open is its step's holder's again."""
        for anchor, step in self.steps.items():
            if step["parent"] and self.is_done(anchor) and self.open_items([anchor]):
                owner = self.steps[step["parent"]]["owner"]
                if owner is None:
                    step.update(status="pending", started=False)
                else:
                    step["status"] = "in_progress" if step["started"] else "claimed"
                step.update(owner=owner, by=None, commit=None)

    def settle(self) -> None:
        """Substeps follow their items, and whatever waited only for them follows in turn."""
        self._revive()
        due = [anchor for anchor in self.steps if self._is_due(anchor)]
        while due:
            self._complete_substep(due[0])
            due = [anchor for anchor in self.steps if self._is_due(anchor)]

    def _is_due(self, anchor: str) -> bool:
        step = self.steps[anchor]
        if step["parent"] is None or self.is_done(anchor) or not step["items"]:
            return False
        return not self.open_items([anchor]) and not self.own_needs(anchor)

    def end_attempt(self, top: str, outcome: str) -> None:
        attempt = self.attempts[top].get(self.steps[top]["attempt"])
        if attempt and attempt["outcome"] is None:
            attempt["outcome"] = outcome

    # -- claim -------------------------------------------------------------------------

    def claim(self, owner: str, step: str | None, text: str, **how) -> dict:
        if step is not None:
            self._known(step)
        answer = self._replayed(owner, how["request"])
        if answer is None:
            answer = self._claim_anew(owner, step, text, how)
        if how["begins"]:
            first = answer["claimed"] and answer["previous_attempt"] is None
            answer["started"] = bool(first and answer["missing_commits"] == [])
            if answer["started"]:
                self.start(answer["anchor"], owner, None)
        return answer

    def _replayed(self, owner: str, request: str | None) -> dict | None:
        for top, attempts in self.attempts.items():
            for number, attempt in sorted(attempts.items()):
                if request and (owner, request) == (attempt["worktree"], attempt["request"]):
                    if attempt["outcome"] is not None:
                        raise Refused("E060")
                    before = self._before(top, number)
                    taken = before[1] if before else None
                    reclaimed = taken in ("expired", "dead", "superseded")
                    return self._claimed(top, reclaimed, taken == "expired", replayed=True)
        return None

    def _claim_anew(self, owner: str, step: str | None, text: str, how: dict) -> dict:
        if self.archived:
            raise Refused("E050")
        if text != self.text:
            raise Refused("E048")
        if self.paused:
            return self._nothing("paused")
        if self.remaining() == 0:
            return self._nothing("all_completed")
        force = how["force"]
        found = self._next(owner, force) if step is None else self._asked(step, owner, force)
        return self._nothing("no_ready_steps") if found is None else self._take(found, owner, how)

    def _next(self, owner: str, force: bool) -> str | None:
        open_ = [anchor for anchor in self.tops() if self.may_be_had(anchor)]
        own = [anchor for anchor in open_ if self.steps[anchor]["owner"] == owner]
        found = own or self.ready() or (open_ if force else [])
        return found[0] if found else None

    def _asked(self, anchor: str, owner: str, force: bool) -> str:
        step = self.steps[anchor]
        if step["parent"] is not None or self.is_done(anchor):
            raise Refused("E050")
        if step["parked"]:
            raise Refused("E067")
        if self.is_live(anchor) and step["owner"] != owner and not force:
            raise Refused("E053")
        if self.waits_for(anchor):
            raise Refused("E053")
        return anchor

    def _take(self, top: str, owner: str, how: dict) -> dict:
        step = self.steps[top]
        reclaimed, expired, dead = step["owner"] is not None, self.is_lapsed(top), self.is_gone(top)
        if reclaimed:
            self.end_attempt(top, "expired" if expired else "dead" if dead else "superseded")
            for _, item in self.open_items(self.unfinished(top)):
                if item["status"] == "in_progress":
                    item.update(blank(item["text"]))
        step["attempt"] += 1
        step["claims"] += 1
        step["parked"] = step["claims"] >= self.most
        self.attempts[top][step["attempt"]] = {
            "worktree": owner,
            "request": how["request"],
            "holder": self.room.holder(how["pid"]),
            "lease": how["lease"],
            "outcome": None,
            "tokens": None,
        }
        for each in self.unfinished(top):
            self.steps[each].update(status="claimed", owner=owner, started=False)
        self._sign_of_life(top)
        return self._claimed(top, reclaimed, expired)

    def _before(self, top: str, number: int) -> tuple[int, str, bool] | None:
        """The attempt before: its number and its end; whether a person has reopened the step."""
        numbers = [each for each in self.attempts[top] if each < number]
        if not numbers:
            return None
        last = max(numbers)
        return (last, self.attempts[top][last]["outcome"], top in self.reopened)

    def _claimed(self, top: str, reclaimed: bool, expired: bool, replayed: bool = False) -> dict:
        step = self.steps[top]
        homes = [self.top_of(n) for each in self.family(top) for n in self.steps[each]["needs"]]
        others = [self.steps[home] for home in homes if home != top]
        elsewhere = any(each["commit"] and each["by"] != step["owner"] for each in others)
        return {
            "claimed": True,
            "anchor": top,
            "worktree": step["owner"],
            "attempt": step["attempt"],
            "reclaimed": reclaimed,
            "reclaimed_from_expired": expired,
            "replayed": replayed,
            "remaining_ready": len([each for each in self.ready() if each != top]),
            "total_remaining": self.remaining(),
            "substeps": {each: self.steps[each]["status"] for each in self.family(top)[1:]},
            "missing_commits": None if elsewhere else [],
            "previous_attempt": self._before(top, step["attempt"]),
        }

    def _nothing(self, reason: str) -> dict:
        tops = [anchor for anchor in self.tops() if not self.is_done(anchor)]
        idle = [anchor for anchor in tops if self.steps[anchor]["owner"] is None]
        waiting = {a: self.waits_for(a) for a in idle if not self.steps[a]["parked"]}
        blocked = {anchor: set(needs) for anchor, needs in waiting.items() if needs}
        return {
            "claimed": False,
            "reason": reason,
            "all_completed": not tops,
            "total_remaining": len(tops),
            "blocked_steps": list(blocked),
            "waiting_for": blocked,
            "held_steps": [anchor for anchor in tops if anchor not in idle],
            "parked_steps": [anchor for anchor in tops if self.steps[anchor]["parked"]],
        }

    # -- what a holder does ------------------------------------------------------------

    def start(self, anchor: str, owner: str, attempt: int | None) -> dict:
        step, top = self._fenced(anchor, attempt)
        if step["status"] == "completed":
            raise Refused("E050")
        self._owned(top, owner)
        if step is not top and step["status"] != "in_progress" and self.own_needs(anchor):
            raise Refused("E053")
        for each in (step, top):
            each.update(status="in_progress", started=True)
        self._sign_of_life(self.top_of(anchor))
        return {"started": True, "status": "in_progress", "attempt": top["attempt"]}

    def heartbeat(self, anchor: str, owner: str, attempt: int | None, lease: float | None) -> dict:
        _, top = self._held(anchor, owner, attempt)
        self._sign_of_life(self.top_of(anchor), lease)
        return {"renewed": True, "attempt": top["attempt"]}

    def update(self, anchor: str, owner: str, attempt: int | None, text: str, **what) -> dict:
        _, top = self._held(anchor, owner, attempt, text)
        wanted = self._wanted(anchor, what["entries"], what["every"], what["rest"])
        changed = 0
        for (each, key), (status, reason) in wanted.items():
            item = self.steps[each]["items"][key]
            changed += item["status"] != status
            self._set(self.top_of(anchor), item, status, reason)
        self._sign_of_life(self.top_of(anchor))
        self.settle()
        return {"updated": changed, "attempt": top["attempt"], "tasks": self.counts(anchor, "task")}

    def _set(self, top: str, item: dict, status: str, reason: str | None) -> None:
        reason = reason if status in CLOSED else None
        if item["status"] == status:
            item["reason"] = reason or item["reason"]
            return
        if status == "completed":
            self._progress(top)
        if item["status"] in CLOSED and status in UNFINISHED:
            item["evidence"] = None
        item.update(status=status, reason=reason)

    def counts(self, anchor: str, kind: str | None = None) -> dict[str, int]:
        items = self.steps[anchor]["items"].items()
        found = [item["status"] for (its, _), item in items if kind in (None, its)]
        return {status: found.count(status) for status in (*UNFINISHED, *CLOSED)}

    def _wanted(self, anchor: str, entries: list, every: list, rest: bool) -> dict:
        """Item -> the status and reason that it is to have; what fits no item is refused."""
        if not entries and not every and not rest:
            raise Refused("E066")
        members = self.family(anchor)
        wanted: dict[tuple, tuple] = {}
        named = [((step or anchor, key), status, why) for step, key, status, why in entries]
        for kind, status in every:
            own = self.steps[anchor]["items"]
            named += [((anchor, key), status, None) for key in own if kind in (None, key[0])]
        for where, status, why in named:
            fits = where[0] in members and where[1] in self.steps[where[0]]["items"]
            if not fits or where in wanted:
                raise Refused("E066")
            wanted[where] = status, why
        for each in members if rest else ():
            for key, item in self.steps[each]["items"].items():
                if wanted.get((each, key), (item["status"],))[0] in UNFINISHED:
                    wanted[each, key] = "completed", None
        return wanted

    def artifact(self, anchor: str, owner: str, attempt: int | None) -> dict:
        top = self._may_note(anchor, owner, attempt)
        self.artifacts[anchor] += 1
        return {"recorded": True, "attempt": top["attempt"]}

    def report(self, anchor: str, owner: str, attempt: int, tokens: int) -> dict:
        top = self._may_note(anchor, owner, attempt)
        last = self.attempts[self.top_of(anchor)].get(top["attempt"])
        if last is None:
            return {"tokens": tokens}
        last["tokens"] = (last["tokens"] or 0) + tokens
        return {"tokens": last["tokens"]}

    def _may_note(self, anchor: str, owner: str, attempt: int | None) -> dict:
        _, top = self._fenced(anchor, attempt)
        if top["status"] == "completed":
            if top["by"] != owner:
                raise Refused("E049")
        else:
            self._owned(top, owner)
            self._sign_of_life(self.top_of(anchor))
        return top

    def verify(self, anchor: str, owner: str, attempt: int, text: str, **what) -> dict:
        self._held(anchor, owner, attempt, text)
        items = self.steps[anchor]["items"]
        keys = [("checkpoint", ordinal) for ordinal, _ in what["findings"]]
        if not items.keys() >= set(keys):
            raise Refused("E066")
        for key, (_, passed) in zip(keys, what["findings"], strict=True):
            item = items[key]
            if passed and item["status"] != "completed":
                item.update(status="completed", reason=None)
                self._progress(self.top_of(anchor))
            item["evidence"] = passed
        self.artifacts[anchor] += 1
        self._sign_of_life(self.top_of(anchor))
        self.settle()
        return {}

    def adopt(self, anchor: str, owner: str, attempt: int, pid: int) -> dict:
        self._held(anchor, owner, attempt)
        held = self.attempts[self.top_of(anchor)][attempt]
        other = held["holder"] is not None and held["holder"][2] != pid
        if other and not self.room.is_gone(held["holder"]):
            raise Refused("E053")
        held["holder"] = self.room.holder(pid)
        self._sign_of_life(self.top_of(anchor))
        return {"holder_pid": pid}

    def let_go(self, anchor: str, owner: str, attempt: int) -> dict:
        self._held(anchor, owner, attempt)
        self.attempts[self.top_of(anchor)][attempt]["holder"] = None
        self._sign_of_life(self.top_of(anchor))
        return {"holder_pid": None}

    def complete(self, anchor: str, owner: str, attempt: int | None, text: str, **how) -> dict:
        step, top = self._fenced(anchor, attempt)
        if step["status"] == "completed":
            return self._completed(anchor, again=True)
        self._owned(top, owner)
        if text != self.text:
            raise Refused("E048")
        if step is not top and self.own_needs(anchor):
            raise Refused("E053")
        open_ = self.open_items(self.family(anchor))
        if open_ and how["force"] is None:
            raise Refused("E051" if anchor in [each for each, _ in open_] else "E052")
        for _, item in open_:
            item.update(status="completed", reason=how["force"])
        if step is top:
            self.finish(anchor, owner, how["commit"])
        else:
            self._complete_substep(anchor, how["commit"])
            self._sign_of_life(self.top_of(anchor))
        self.settle()
        return self._completed(anchor, again=False, closed=len(open_))

    def finish(self, top: str, by: str | None, commit: str | None) -> None:
        """The step is done, and what was left of its substeps with it."""
        for each in self.unfinished(top)[1:]:
            self._complete_substep(each)
        self.end_attempt(top, "completed")
        self._complete(top, by, commit)
        self._progress(top)

    def _completed(self, anchor: str, again: bool, closed: int = 0) -> dict:
        return {
            "completed": True,
            "already_completed": again,
            "forced": closed > 0,
            "incomplete_items_auto_completed": closed,
            "commit_hash": self.steps[anchor]["commit"],
            "attempt": self.steps[self.top_of(anchor)]["attempt"],
            "plan_completed": self.status() == "done",
            "remaining_steps": self.remaining(),
        }

    def release(self, anchor: str, owner: str, attempt: int | None, **how) -> dict:
        step, _ = self._fenced(anchor, attempt)
        if step["parent"] is not None or step["status"] == "completed" or step["owner"] is None:
            raise Refused("E050")
        if not how["force"]:
            self._owned(step, owner)
        facts = {"released": True, "was_claimed_by": step["owner"], "attempt": step["attempt"]}
        self.end_attempt(anchor, "failed" if how["failure"] else "released")
        self.free(anchor)
        if how["interrupted"]:
            step.update(claims=max(0, step["claims"] - 1), parked=False)
        step["parked"] |= how["park"]
        return facts

    def free(self, top: str) -> None:
        """Nobody's: what is not completed starts over."""
        for each in self.unfinished(top):
            self._open(each)
            self.steps[each].update(status="pending", owner=None, until=None, started=False)

    def _open(self, anchor: str, *, all_: bool = False) -> None:
        for item in self.steps[anchor]["items"].values():
            if all_ or item["status"] in ("in_progress", "deferred"):
                item.update(blank(item["text"]))

    # -- what people do ----------------------------------------------------------------

    def reset(self, anchor: str) -> dict:
        step = self._known(anchor)
        if step["status"] == "completed":
            raise Refused("E050")
        top, owner = self.steps[self.top_of(anchor)], step["owner"]
        facts = {"reset": top["owner"] is not None, "was_claimed_by": owner}
        if step is not top:
            if owner is not None:
                self._open(anchor)
                step.update(status="claimed", started=False)
            return facts
        facts["unparked"] = step["parked"]
        if owner is not None:
            self.end_attempt(anchor, "reset")
            self.free(anchor)
        self._progress(anchor)
        return facts

    def reopen(self, anchor: str, force: bool) -> dict:
        step = self._known(anchor)
        if step["parent"] is not None or step["status"] != "completed":
            raise Refused("E050")
        dependents = [
            top
            for top in self.tops()
            if top != anchor and self.steps[top]["status"] != "pending" and self._needs(top, anchor)
        ]
        if dependents and not force:
            raise Refused("E053")
        self.reopened.add(anchor)
        for each in self.family(anchor):
            self._open(each, all_=True)
            self.steps[each].update(status="pending", started=False, by=None, commit=None)
        self._progress(anchor)
        return {"reopened": True, "dependents": set(dependents), "plan_status": self.status()}

    def _needs(self, top: str, anchor: str) -> bool:
        needs = [need for each in self.family(top) for need in self.steps[each]["needs"]]
        return anchor in map(self.top_of, needs)

    def _deferred(self, anchor: str, item: tuple | None, again: bool) -> list[tuple[str, dict]]:
        """The items that a person judges; or those that were accepted before."""
        self._known(anchor)
        if item is not None and item not in self.steps[anchor]["items"]:
            raise Refused("E066")
        if item is not None:
            found = [(anchor, self.steps[anchor]["items"][item])]
        else:
            family_ = self.family(anchor)
            found = [(a, each) for a in family_ for each in self.steps[a]["items"].values()]
        deferred = [(a, each) for a, each in found if each["status"] == "deferred"]
        accepted = [(a, each) for a, each in found if again and _is_accepted(each)]
        if not deferred and not accepted:
            raise Refused("E066")
        return deferred or accepted

    def accept(self, anchor: str, item: tuple | None) -> dict:
        found = self._deferred(anchor, item, again=True)
        already = found[0][1]["status"] == "completed"
        for _, each in found:
            each.update({} if already else {"status": "completed", "reason": f"{ACCEPTED}Ada"})
        return {"accepted": True, "already": already}

    def reject(self, anchor: str, item: tuple | None) -> dict:
        found = self._deferred(anchor, item, again=False)
        top = self.top_of(anchor)
        done = self.is_done(top)
        if done:
            self.reopen(top, force=False)
        for _, each in found:
            each.update(blank(each["text"]))
        self.artifacts[anchor] += 1
        self._revive()
        return {"rejected": True, "reopened": done}

    def pause(self, paused: bool) -> dict:
        if self.archived or (paused and self.status() == "done"):
            raise Refused("E050")
        changed, self.paused = paused != self.paused, paused
        return {"paused": paused, "changed": changed}

    def archive(self, undo: bool) -> dict:
        if not undo and not self.archived and any(map(self.is_live, self.tops())):
            raise Refused("E050")
        changed, self.archived = undo == self.archived, not undo
        return {"changed": changed, "plan_status": self.status()}

    def prune(self, here: bool, done: bool) -> dict:
        """What is dropped is brought back at once, so that nothing changes but the answer."""
        unwanted = not here or (done and all(map(self.is_done, self.tops())))
        return {"pruned": unwanted and not any(map(self.is_live, self.tops()))}

    def recount(self) -> dict:
        """No operation leaves a count that is wrong."""
        return {"recounted": False}

    def restore(self, source: str, raised: int) -> dict:
        """This is what the copy holds: nobody has anything, and no number comes again."""
        held = [top for top in self.tops() if self.steps[top]["owner"] is not None]
        for top in held:
            self.end_attempt(top, "reset")
            for each in self.unfinished(top):
                for item in self.steps[each]["items"].values():
                    if item["status"] == "in_progress":
                        item.update(blank(item["text"]))
                self.steps[each].update(status="pending", owner=None, until=None, started=False)
        for top in self.tops():
            self.steps[top]["attempt"] += raised
        self.fences = {anchor: number + raised for anchor, number in self.fences.items()}
        self.least += raised
        return {"restored": True, "ended": held}

    def init(self, text: str) -> dict:
        return {"already_initialized": True, "drift": text != self.text}

    def revise(self, parts: list[Part], text: str, flags: tuple[str, ...]) -> dict:
        if text == self.text:
            return {"revised": False}
        if revise(self, parts, text, set(flags)):
            raise Refused("E044")
        return {"revised": True}

    def reconcile(self, anchor: str, attempt: int, force: bool) -> dict:
        step = self._known(anchor)
        commit, number = f"c-{anchor}", step["attempt"]
        differs = step["status"] != "completed" or step["commit"] != commit
        todo = differs and (force or step["status"] != "completed" or step["commit"] is None)
        if todo and step["status"] == "completed":
            step["commit"] = commit
        elif todo:
            for _, item in self.open_items(self.family(anchor)):
                item.update(status="completed", reason="reconciled")
            known = self.attempts[anchor].get(attempt)
            by = known["worktree"] if known else None if attempt else step["owner"]
            self.finish(anchor, by, commit)
            self.settle()
        if attempt > number and step["owner"] is None:
            step["attempt"] = attempt
        return {"reconciled_count": int(todo), "plan_status": self.status()}


def _is_accepted(item: dict) -> bool:
    return item["status"] == "completed" and (item["reason"] or "").startswith(ACCEPTED)
