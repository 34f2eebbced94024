"""The report of a plan as a document; `document` writes it in each format."""

from __future__ import annotations

import time

from tugtool.cli.draw.canvas import local
from tugtool.cli.draw.document import Document, Listing, Section, Table, literal
from tugtool.errors import plan_argument
from tugtool.system import clock
from tugtool.system.clock import duration
from tugtool.system.files import short_name
from tugtool.system.text import many
from tugtool.workflow import sentences

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from tugtool.cli.draw.document import Line, Span
    from tugtool.schemas import Report, ReportCheckpoint, ReportIncident, ReportStep


#: Longer lists are counted in text; the other formats fold them away.
_MOST_LISTED = 24
_SHOWN_OF_HASH = 8

_SIGNS = {
    "completed": ("done", "✓"),
    "deferred": ("you", "~"),
    "at_work": ("work", "→"),
    "stale": ("wrong", "!"),
    "question": ("you", "?"),
    "parked": ("you", "‖"),
    "ready": ("", "○"),
    "blocked": ("dim", "·"),
}
_STEP_WORDS = {
    "at_work": "{} at work",
    "stale": "{} stale",
    "question": "{} with a question for you",
    "parked": "{} parked",
    "ready": "{} ready",
    "blocked": "{} waiting for other steps",
}
_PROOF_SIGNS = {
    "proved": ("done", "✓"),
    "accepted": ("done", "✓"),
    "judged": ("done", "✓"),
    "ticked": ("", "✓"),
    "forced": ("you", "!"),
    "unproven": ("you", "!"),
    "deferred": ("you", "~"),
    "failed": ("wrong", "!"),
    "open": ("dim", "·"),
}
_PROOF_WORDS = {
    "accepted": "{} accepted by a person",
    "judged": "{} judged by the reviewer",
    "ticked": "{} on the word of the worker alone",
    "forced": "{} forced",
    "unproven": "{} without proof",
    "deferred": "{} deferred",
    "failed": "{} failing",
    "open": "{} open",
}
_WAITS = {
    "changed_outside": ("change outside while agents ran", "changes outside while agents ran"),
    "deferred": ("deferred item", ""),
    "unproven": ("checkpoint without proof", "checkpoints without proof"),
    "parked": ("parked step", ""),
    "question": ("question", ""),
    "audit": ("plan that is not approved as a whole", ""),
    "paused": ("paused plan", ""),
    "unpublished": ("commit that is on one machine alone", "commits that are on one machine alone"),
}


class Story:
    """The report in words; `brief` counts long lists; `titled`: the format prints a title."""

    def __init__(self, data: Report, *, root: str, brief: bool, titled: bool = False) -> None:
        self.data, self.root, self.brief, self.titled = data, root, brief, titled
        self.name = plan_argument(data["plan_path"])

    def document(self) -> Document:
        """The whole document."""
        return Document(
            title=self.data["title"] or self.data["slug"],
            head=[self._standing(), self._proved(), *self._stopped(), self._waiting()],
            sections=[*self._sections()],
            foot=[*self._foot()],
        )

    def _sections(self) -> Iterator[Section]:
        data = self.data
        yield Section("What was asked", [*self._asked()])
        if data["waits"]:
            yield Section("What waits for you", [Listing([*self._waits()])])
        yield Section("What was done", [*self._done()])
        if data["checkpoints"] or data["audit"]:
            yield Section("What is proved, and by whose word otherwise", [*self._proofs()])
        if data["judgements"]:
            yield Section("What was deferred, and how it was judged", [self._judgements()])
        if data["incidents"]:
            yield Section("What went wrong, and how it was mended", [Listing([*self._wrong()])])
        events = many(len(data["timeline"]), "event")
        yield Section(f"Timeline ({events})", [*self._timeline()], folded=True)

    # -- the first lines ---------------------------------------------------------------

    def _standing(self) -> Line:
        data = self.data
        by: Mapping[str, Any] = data["summary"]["steps_by_standing"]
        total, done = data["summary"]["steps"], by["completed"] + by["deferred"]
        steps = f"all {many(total, 'step')}" if done == total else f"{done} of {total} steps"
        rest = [words.format(by[key]) for key, words in _STEP_WORDS.items() if by[key]]
        said = f"{steps} completed" + "".join(f", {each}" for each in rest)
        merge = data["merge"]
        if data["status"] == "archived":
            sign, word = ("dim", "·"), "is archived"
        elif data["status"] == "done":
            sign, word = _SIGNS["completed"], "is done"
        else:
            kind = next((k for k in ("question", "parked", "at_work", "stale") if by[k]), "ready")
            sign, word = _SIGNS[kind], "is not done yet"
        merged: list[Span] = [("", ", not merged yet")] if data["status"] == "done" else []
        if merge is not None:
            merged = [("", ", merged as "), ("hash", merge["commit"][:_SHOWN_OF_HASH])]
        if merge is not None and "unpushed_by" in merge:
            merged.append(("you", f" ({sentences.unpushed({'by': merge['unpushed_by']})})"))
        paused = [("you", ", paused")] if data["paused_at"] else []
        name = ("bold", f"{data['slug']} {word}")
        return [sign, ("", " "), name, ("", f": {said}"), *merged, *paused, ("", ".")]

    def _proved(self) -> Line:
        summary = self.data["summary"]
        by: Mapping[str, Any] = summary["checkpoints_by_standing"]
        total = summary["checkpoints"]
        if not total:
            return [("bold", "Proved"), ("", ": nothing, because the plan has no checkpoints.")]
        rest = [words.format(by[key]) for key, words in _PROOF_WORDS.items() if by[key]]
        ran = f"{by['proved']} of {many(total, 'checkpoint')} by a command that passed"
        said = f"{ran}; {', '.join(rest)}" if rest else ran
        return [("bold", "Proved"), ("", f": {said}.")]

    def _waiting(self) -> Line:
        waits, then = self.data["waits"], self.data["summary"]["next"]
        if self._has_died():
            # The line above has the command that goes on.
            then = f"tugcode review {self.name}" if waits else None
        counts = [(what, [w for w in waits if w["what"] == what]) for what in _WAITS]
        said = ", ".join(many(len(found), *_WAITS[what]) for what, found in counts if found)
        first = [("bold", "Waits for you"), ("you" if waits else "", f": {said or 'nothing'}.")]
        return [*first, ("", " Next: "), ("type", then)] if then else first

    def _has_died(self) -> bool:
        ended, since = self.data["last_run"], self.data["run_since"]
        return ended is not None and ended["status"] == "died" and not since

    def _stopped(self) -> Iterator[Line]:
        """That a run is at work, or when and why the last one ended."""
        ended, since = self.data["last_run"], self.data["run_since"]
        if self.data["status"] == "archived" or self.data["merge"]:
            return
        if since:
            yield [("bold", "At work"), ("work", f": a run, since {local(since)}.")]
        elif ended is not None and self._has_died():
            said = f": the run died about {local(ended['at'])[:-3]} (its process is gone)."
            go = f"tugcode implement {self.name}"
            yield [("bold", "Stopped"), ("wrong", said), ("", " Go on: "), ("type", go)]
        elif ended is not None and ended["status"] != "done":
            why = ended["reason"] or ended["status"].replace("_", " ")
            yield [("bold", "Stopped"), ("", f": {why}, {local(ended['at'])}.")]

    # -- the sections ------------------------------------------------------------------

    def _asked(self) -> Iterator[Line]:
        data = self.data
        if not self.titled:
            yield [("bold", data["title"] or data["slug"])]
        if data["purpose"]:
            yield [("", data["purpose"])]
        yield [("dim", f"{data['plan_path']}, recorded {local(data['created_at'])}")]

    def _waits(self) -> Iterator[tuple[Line, Sequence[Line]]]:
        for wait in self.data["waits"]:
            one = _WAITS[wait["what"]][0]
            where = f"{wait['step_anchor']}: " if wait["step_anchor"] else ""
            said = f"{where}{wait['text']}" if wait["text"] else f"the {one}"
            below: list[Line] = []
            if wait["text"] or wait["reason"]:
                reason = f": {wait['reason']}" if wait["reason"] else ""
                below.append([("you", one), ("", reason)])
            commands = [wait["command"], *([wait["reject"]] if wait["reject"] else [])]
            yield literal(said), [*below, *([("type", each)] for each in commands)]

    def _done(self) -> Iterator[Line | Table]:
        head = ("Step", "What", "Commit", "By", "Worked", "Rounds", "Used", "Remarks")
        rows = [self._step(step) for step in self.data["steps"]]
        # Leave out empty columns.
        kept = [n for n in range(len(head)) if n < 2 or any(_shown(row[n]) for row in rows)]
        yield Table([head[n] for n in kept], [[row[n] for n in kept] for row in rows], lead=2)
        spent = self.data["spent"]
        items: Mapping[str, Any] = self.data["items"]
        took = duration(spent["wall_seconds"])
        said = [
            f"took {took}" if self.data["completed_at"] else f"{took} so far",
            f"{duration(spent['working_seconds'])} of work in {many(spent['attempts'], 'attempt')}",
            f"{duration(spent['waiting_seconds'])} of waiting for a worker",
            _used(spent) or "no agent told what it used",
        ]
        yield [("", f"In all: {'; '.join(said)}.")]
        ticked = [
            f"{counts['completed']} of {many(sum(counts.values()), kind)}"
            for kind, counts in (("task", items["task"]), ("test", items["test"]))
            if sum(counts.values())
        ]
        if ticked:
            yield [("", f"Ticked by the workers: {' and '.join(ticked)}.")]
        yield [
            ("dim", "Worked: from claim to end, all attempts together; if a worker was lost, "),
            ("dim", "until its last sign of life."),
        ]

    def _step(self, step: ReportStep) -> list[Line]:
        by = step["completed_by"] or step["claimed_by"]
        worked = duration(step["working_seconds"]) if step["attempts"] else ""
        rounds = str(step["rounds"] or "")
        if self.brief:
            # Without columns, a number needs a label.
            worked = f"worked {worked}" if worked else ""
            rounds = many(step["rounds"], "round") if rounds else ""
        return [
            [_SIGNS[step["standing"]], ("", " "), ("bold", step["step_anchor"])],
            [("", step["title"])],
            [("hash", step["commit_hash"][:_SHOWN_OF_HASH])] if step["commit_hash"] else [],
            # The usual names of worktrees are long and begin alike.
            [("", short_name(by, self.root).replace("tugplan__", "", 1))] if by else [],
            [("", worked)],
            [("", rounds)],
            [("", _used(step))],
            [("you" if step["forced"] else "", "; ".join(self._remarks(step)))],
        ]

    def _remarks(self, step: ReportStep) -> Iterator[str]:
        if step["standing"] in ("at_work", "stale", "question", "parked"):
            yield step["standing"].replace("_", " ")
        if step["waiting_for"] and step["standing"] == "blocked":
            yield f"waits for {', '.join(step['waiting_for'])}"
        if step["attempts"] > 1:
            yield many(step["attempts"], "attempt")
        if step["substeps"]:
            yield f"with {many(step['substeps'], 'substep')}"
        if step["deferred"]:
            yield f"{many(step['deferred'], 'item')} deferred"
        if step["forced"] is not None:
            yield f"forced: {step['forced']}"

    def _proofs(self) -> Iterator[Line | Table]:
        shown = self.data["checkpoints"]
        if self.brief and len(shown) > _MOST_LISTED:
            shown = [each for each in shown if each["standing"] != "proved"]
        if shown:
            head = ("Step", "Checkpoint", "Rests on")
            yield Table(head, [self._checkpoint(each) for each in shown], lead=2)
        hidden = len(self.data["checkpoints"]) - len(shown)
        if hidden:
            yield [
                ("dim", f"{hidden} more are proved by a command that passed. All of them: "),
                ("type", f"tugcode report {self.name} --format md"),
            ]
        if self.data["audit"]:
            yield [
                ("bold", "The whole"),
                ("", f": the auditor said {self.data['audit']['summary']}"),
            ]

    def _checkpoint(self, each: ReportCheckpoint) -> list[Line]:
        return [
            [_PROOF_SIGNS[each["standing"]], ("", " "), ("bold", each["step_anchor"])],
            literal(each["text"]),
            [*self._basis(each)],
        ]

    def _basis(self, each: ReportCheckpoint) -> Iterator[Span]:
        standing, reason = each["standing"], each["reason"] or "no reason was given"
        if standing in ("proved", "failed") or (standing == "unproven" and each["commands"]):
            for number, ran in enumerate(each["commands"]):
                how = "timed out" if ran["timed_out"] else f"exit {ran['exit_status']}"
                yield ("", ", " if number else "")
                if len(each["commands"]) > 1 or ran["command"] not in each["text"]:
                    yield from (("code", ran["command"]), ("", " "))
                yield ("", f"{how} in {ran['duration_seconds']:.1f} s")
            commit = each["commit"]
            yield ("", ", at " if commit else ", at no commit")
            yield ("hash", commit[:_SHOWN_OF_HASH] if commit else "")
            yield ("you", " with uncommitted changes" if each["dirty"] else "")
        elif standing == "judged":
            yield ("", f"judged by the {each['judged_by']}: ")
            yield ("", each["judged_because"] or "no reason was given")
        elif standing in ("accepted", "deferred", "forced"):
            word = "" if standing == "accepted" else f"{standing}: "
            yield ("" if standing == "accepted" else "you", f"{word}{reason}")
        elif standing == "ticked":
            yield ("", "the word of the worker alone")
        elif standing == "unproven":
            lacks = {"person": "no person has accepted it"}
            lack = lacks.get(each["checkpoint_kind"], "no passing run shows it")
            because = f" ({each['reason']})" if each["reason"] else ""
            yield ("you", f"nothing: completed{because}, but {lack}")
        else:
            yield ("dim", "not done yet")

    def _judgements(self) -> Listing:
        entries: list[tuple[Line, Sequence[Line]]] = []
        for each in self.data["judgements"]:
            name = f"{each['step_anchor']} {each['kind']} {each['ordinal']}"
            item = [("bold", name), *literal(f": {each['text'] or 'no longer in the plan'}")]
            below: list[Line] = []
            if each["deferred_because"]:
                below.append([("", f"deferred: {each['deferred_because']}")])
            note = f": {each['note']}" if each["note"] else ""
            if each["verdict"] == "waits":
                below.append([("you", "not judged yet")])
            else:
                when = f" on {local(each['at'])}" if each["at"] else ""
                style = "done" if each["verdict"] == "accepted" else "wrong"
                below.append([(style, each["verdict"]), ("", f" by {each['by']}{when}{note}")])
            entries.append((item, below))
        return Listing(entries)

    def _wrong(self) -> Iterator[tuple[Line, Sequence[Line]]]:
        """Incidents by step, in the order of the first one."""
        groups: dict[str | None, list[ReportIncident]] = {}
        for each in self.data["incidents"]:
            groups.setdefault(each["step_anchor"], []).append(each)
        steps = {step["step_anchor"]: step for step in self.data["steps"]}
        for anchor, found in groups.items():
            below = [literal(said) for said in sentences.incidents(found, self.root)]
            if anchor is None:
                yield [("bold", "the run")], below
                continue
            step = steps.get(anchor)
            title = f"  {step['title']}" if step else ""
            yield [("bold", anchor), ("", title), *_outcome(step)], below

    def _timeline(self) -> Iterator[Line | Table]:
        shown = self.data["timeline"]
        hidden = len(shown) - _MOST_LISTED if self.brief else 0
        if hidden > 0:
            name = f"tugcode log {self.name}"
            yield [("dim", f"{hidden} earlier ones: "), ("type", name)]
            shown = shown[hidden:]
        rows = [
            [
                [("dim", local(event["at"]))],
                [("", event["step_anchor"] or "")],
                [("", sentences.format_event(event, self.root))],
            ]
            for event in shown
        ]
        yield Table(("When", "Step", "What"), rows, lead=3)

    def _foot(self) -> Iterator[Line]:
        data = self.data
        if data["merge"] and data["merge"]["unproven"]:
            items = many(data["merge"]["unproven"], "item")
            yield [("you", f"{data['merge']['by']} had it merged with {items} unproven.")]
        if not data["verify"]:
            yield [
                ("you", "implement does not run the commands of checkpoints"),
                ("", " ([implement] verify = false)."),
            ]
        zone = time.strftime("%z", time.localtime(clock.milliseconds(data["as_of"]) // 1000))
        yield [("dim", f"As of {local(data['as_of'])} (UTC{zone}), from the record of tugcode.")]
        if self.brief and data["summary"]["next"]:
            yield [("", "Next: "), ("type", data["summary"]["next"])]


def _outcome(step: ReportStep | None) -> Line:
    """The outcome of a step that had incidents."""
    if step is None:
        return [("dim", "  no longer a step of the plan")]
    standing, attempts = step["standing"], step["attempts"]
    if standing in ("completed", "deferred"):
        return [("done", f"  completed in attempt {attempts}" if attempts else "  completed")]
    sign = _SIGNS[standing]
    return [(sign[0], f"  {standing.replace('_', ' ')} now")]


def _shown(line: Line) -> bool:
    return any(words for _, words in line)


def _used(figures: Any) -> str:
    tokens, cost = figures["tokens"], figures["cost_microdollars"]
    said = [f"{tokens:,} tokens"] if tokens is not None else []
    said += [f"${cost / 1_000_000:.2f}"] if cost is not None else []
    return ", ".join(said)
