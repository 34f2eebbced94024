"""state review: show what waits for a person, a page each, and settle it."""

from __future__ import annotations

import sys

from tugtool import state
from tugtool.cli import checklist_input
from tugtool.cli.output import Answer, agreed, answer, clean, mention, on_terminal
from tugtool.cli.parse import EVERY_PLAN, WORKTREE, Call, Command, Option
from tugtool.errors import PlanAmbiguous, Usage, plan_argument, plan_name, quoted
from tugtool.errors.state import PeopleOnly
from tugtool.state import completion
from tugtool.system import clock, config
from tugtool.system.files import short_name
from tugtool.system.text import many
from tugtool.workflow import review

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from tugtool import schemas
    from tugtool.cli.draw.canvas import Canvas, Span
    from tugtool.workflow.workspace import Workspace


#: The options that settle something; a call has at most one.
_VERBS = ("accept", "reject", "accept_all", "retry")
#: If more things wait, each gets one line instead of a page.
MOST_PAGES = 3
#: In fewer columns a text is folded, not cut.
_SHORTEST = 30
#: Of one commit, so many files are named.
_MOST_FILES = 6
_LABEL = 14
#: List of the answer -> its sign, and the words to count its entries.
_KINDS = {
    "questions": ("question", "question", "questions"),
    "parked_steps": ("parked", "parked step", "parked steps"),
    "deferred_items": ("deferred", "deferred item", "deferred items"),
    "unproven_items": ("deferred", "unproven checkpoint", "unproven checkpoints"),
    "audits": ("question", "plan that was not approved", "plans that were not approved"),
}


def state_review(call: Call) -> Answer:
    """Show what waits for a person, or settle it."""
    verb = _verb(call)
    if verb is not None and config.variable("TUGCODE_ATTEMPT") is not None:
        # Refuse workers: a worker would judge its own work.
        raise PeopleOnly(f"review --{verb.replace('_', '-')}")
    if verb in ("accept", "reject"):
        return _judged(call, accepting=verb == "accept")
    if verb == "accept_all":
        return _accepted(call)
    if verb == "retry":
        return _retried(call)
    space, step = call.workspace(), call.anchor()
    plan = _plan(call, space) if step else space.plan_or_all(call.text("plan"))
    data = review.review(space, plan, step=step, kind=call.text("kind"), ordinal=_ordinal(call))
    return Answer(data, lambda: _picture(data, space.repo.root, alone=bool(step)))


def _ordinal(call: Call) -> Any:
    word = call.text("ordinal")
    return None if word is None else checklist_input.ordinal(word)


def _verb(call: Call) -> str | None:
    """The option that settles something, if any; refuses options that exclude each other."""
    verbs = [verb for verb in _VERBS if call.flag(verb)]
    given = {key for key in ("step", "kind", "ordinal", "note", "yes") if key in call.values}
    verb = verbs[0] if verbs else None
    names = [f"--{each.replace('_', '-')}" for each in verbs]
    rules = (
        (len(verbs) > 1, f"{' and '.join(names[:2])} exclude each other"),
        ("note" in given and not verbs, "--note goes with what settles something: --accept ..."),
        (
            "yes" in given and verb not in ("accept_all", "retry"),
            "--yes goes with --accept-all or --retry",
        ),
        (
            verb in ("accept", "reject") and "step" not in given,
            "--accept and --reject need --step ANCHOR",
        ),
        (("kind" in given) != ("ordinal" in given), "--kind and --ordinal go together"),
        ("kind" in given and "step" not in given, "--kind and --ordinal need --step ANCHOR"),
        (verb == "accept_all" and "step" in given, "--accept-all goes without --step"),
        (verb == "retry" and "kind" in given, "--retry goes without --kind and --ordinal"),
        (
            verb == "reject" and not (call.text("note") or "").strip(),
            "--reject needs --note TEXT: the next worker has to know why",
        ),
    )
    problem = next((text for wrong, text in rules if wrong), None)
    if problem:
        raise Usage(problem, command="state review")
    return verb


def _judged(call: Call, *, accepting: bool) -> Answer:
    space = call.workspace()
    kind, note = call.text("kind"), call.text("note")
    which = (space.store, _plan(call, space), call.anchor())
    by, ordinal = space.person(), _ordinal(call)
    if accepting:
        data = state.accept(*which, by=by, kind=kind, ordinal=ordinal, note=note)
        word = "accepted before:" if data["already"] else "accepted"
        lost = "; the note is not recorded" if note and data["note"] is None else ""
    else:
        data = state.reject(*which, by=by, kind=kind, ordinal=ordinal, note=note or "")
        word, lost = "rejected", ""
    again = "; the step is to be done again" if data["reopened"] else ""
    return answer(data, f"{word} {_names(data['items'])}{again}{lost}")


def _names(items: Any) -> str:
    return ", ".join(_name(each) for each in items)


def _name(each: Any) -> str:
    anchor: str = each["step_anchor"]
    return f"{anchor} {each['kind']} {each['ordinal']}" if "kind" in each else anchor


def _plan(call: Call, space: Workspace) -> str:
    """The plan that was named; or the only one of which something waits."""
    name = call.text("plan")
    waiting = review.plans_waiting(space) if name is None else []
    if len(waiting) > 1:
        raise PlanAmbiguous("", candidates=waiting)
    return waiting[0] if waiting else space.plan(name)


def _accepted(call: Call) -> Answer:
    space, name = call.workspace(), call.text("plan")
    plans = review.plans_waiting(space) if name is None else [space.plan(name)]
    data = review.accept_all(space, plans, call.text("note"), _asker(call, "Accept", "item"))
    if not data["items"] and not data["passed_over"]:
        whose = f" of {plan_name(plans[0])}" if len(plans) == 1 else ""
        return answer(data, f"no item{whose} waits for you")
    if not data["confirmed"]:
        return Answer(data, lambda: "nothing was accepted\n", status=1)
    items = {plan: [e for e in data["items"] if e["plan_path"] == plan] for plan in plans}
    lines = [
        f"accepted {many(len(own), 'item')} of {plan_name(plan)}: {_names(own)}"
        for plan, own in items.items()
        if own
    ]
    return Answer(data, lambda: _said(lines, data))


def _retried(call: Call) -> Answer:
    space = call.workspace()
    plan = _plan(call, space)
    ask = _asker(call, "Free", "step")
    data, issues = review.retry(space, plan, call.anchor(), call.text("note"), ask)
    name = plan_name(plan)
    if not data["steps"] and not data["passed_over"]:
        return answer(data, f"no step of {name} is parked")
    if not data["confirmed"]:
        return Answer(data, lambda: "nothing was freed\n", status=1)
    lines = [f"freed {many(len(data['steps']), 'step')} of {name}: {_names(data['steps'])}"]
    lines.append(f"next: tugcode implement {quoted(name)}")
    return Answer(data, lambda: _said(lines, data), issues=issues)


def _said(lines: list[str], data: schemas.StateReview) -> str:
    passed = _names(data["passed_over"])
    lines = [*lines, *([f"changed meanwhile, and left alone: {passed}"] if passed else [])]
    return "".join(f"{clean(line)}\n" for line in lines)


def _asker(call: Call, verb: str, noun: str) -> Callable[[list[Any]], bool]:
    """A function that lists the changes and asks the user; --yes skips the question."""

    def ask(listed: list[Any]) -> bool:
        from tugtool.cli.draw import canvas as canvases

        if call.flag("yes") or (len(listed) == 1 and call.anchor() == listed[0]["step_anchor"]):
            return True
        if not on_terminal(sys.stdin, sys.stderr):
            problem = f"no terminal to ask on: --yes does it; tugcode {call.path} lists them"
            raise Usage(problem, command=call.path)
        canvas = canvases.for_output()
        kinds = {True: "deferred_items", False: "parked_steps"}
        _table(canvas, [_row(canvas, kinds["kind" in each], each) for each in listed])
        mention(canvas.text())
        return agreed(f"{verb} {many(len(listed), noun)}?")

    return ask


def _waiting(data: Any) -> list[tuple[str, Any]]:
    """All entries in the order of the page, plan by plan."""
    every = [(name, each) for name in review.LISTS for each in data[name]]
    return sorted(every, key=lambda pair: str(pair[1]["plan_path"]))


def _picture(data: schemas.StateReview, root: str, *, alone: bool) -> str:
    from tugtool.cli.draw.canvas import drawn

    return drawn(lambda canvas: draw_review(canvas, data, root, alone=alone))


def draw_review(canvas: Canvas, data: schemas.StateReview, root: str, *, alone: bool) -> None:
    """A page for each thing that waits; if many wait, a line each, unless a step is named."""
    waiting = _waiting(data)
    if not waiting:
        canvas.write(("done", "Nothing waits for you."))
    elif alone or len(waiting) <= MOST_PAGES:
        for number, (name, each) in enumerate(waiting):
            if number:
                canvas.write()
            _Page(canvas, each, root, data.get("as_of") or "").draw(name)
    else:
        _list(canvas, data, waiting)
    if not alone and (data.get("stale_steps") or data.get("died_runs")):
        from tugtool.cli.draw import status

        status.write_stopped(canvas, data)


def _list(canvas: Canvas, data: Any, waiting: list[tuple[str, Any]]) -> None:
    counts = [many(len(data[name]), *words[1:]) for name, words in _KINDS.items() if data[name]]
    canvas.facts(
        *(("", each) for each in counts), lead=[("bold", f"{len(waiting)} wait for you: ")]
    )
    for plan in dict.fromkeys(each["plan_path"] for _, each in waiting):
        own = [(name, each) for name, each in waiting if each["plan_path"] == plan]
        canvas.write()
        canvas.write(("bold", canvas.said(plan_name(plan))))
        _table(canvas, [_row(canvas, name, each) for name, each in own])
        canvas.write()
        ways = [(("dim", label), ("bold", canvas.said(command))) for label, command in _ways(own)]
        canvas.table(ways)


def _ways(own: list[tuple[str, Any]]) -> Iterator[tuple[str, str]]:
    """The next commands."""
    first = own[0][1]
    command = f"tugcode review {plan_argument(first['plan_path'])}"
    yield "see one", first["show_command"]
    if any("kind" in each for _, each in own):
        yield "accept every item", f"{command} --accept-all"
    parked = [each for name, each in own if name == "parked_steps"]
    causes = {each["cause"]: each for each in reversed(parked)}
    for each in reversed(causes.values()):
        steps = ", ".join(each["same_cause"])
        one = f"{command} --retry" if len(causes) == 1 else each["retry_command"]
        yield f"free {steps}", one


def _table(canvas: Canvas, rows: list[tuple[Span, Span]]) -> None:
    """One line for each thing, if the terminal is wide enough."""
    from tugtool.cli.draw import canvas as canvases

    room = canvas.width - max(canvases.cells(name) for (_, name), _ in rows) - 4
    if room >= _SHORTEST:
        rows = [(name, (style, canvas.cut(text, room))) for name, (style, text) in rows]
    canvas.table(rows)


def _row(canvas: Canvas, name: str, each: Any) -> tuple[Span, Span]:
    """One thing in a line: its sign, its name and its most important text."""
    style, sign = canvas.sign(_KINDS[name][0])
    text = each.get("text") or each.get("reason") or each.get("summary") or ""
    return (style, f"{sign} {canvas.said(_name(each))}"), ("", canvas.said(text))


class _Page:
    """A page with everything that a person needs for one decision."""

    def __init__(self, canvas: Canvas, each: Any, root: str, now: str) -> None:
        self.canvas, self.each, self.root, self.now = canvas, each, root, now
        self.slug = plan_name(each["plan_path"])

    def draw(self, name: str) -> None:
        """Draw the page, from its title to its commands."""
        canvas, each = self.canvas, self.each
        style, sign = canvas.sign(_KINDS[name][0])
        what, more = f"{_name(each)} of {self.slug}", ""
        if name == "audits":
            what, more = self.slug, ": every step is done, and the whole is not approved"
        canvas.write(
            (style, f"{sign} "),
            ("bold", canvas.said(what)),
            ("you", f" waits for you{more}"),
            hang=2,
        )
        title = each.get("text") or each.get("step_title") or each.get("summary") or ""
        canvas.write(("", f"  {canvas.said(title)}"), hang=2)
        canvas.write()
        getattr(self, f"_{name}")()

    def _items(self, why: str) -> None:
        each = self.each
        self._field("why", why)
        self._field("step", f"{each['step_title']}, {each['step_status'].replace('_', ' ')}")
        self._evidence(each["evidence"])
        self._commit()
        self._field("transcript", each["transcript_command"], "bold")
        self.canvas.write()
        self._command("yes", each["accept_command"])
        self._command("no", each["reject_command"])
        names = ", ".join(each["built_on"])
        self._field("", names and f"built on it, and left alone: {names}")

    def _deferred_items(self) -> None:
        each = self.each
        by = f" by {short_name(each['deferred_by'], self.root)}" if each["deferred_by"] else ""
        because = each["reason"] or "no reason was given"
        self._items(f"deferred {self._since(each['deferred_at'])}{by}: {because}")

    def _unproven_items(self) -> None:
        each = self.each
        lacks = {"command": "no passing run shows it", "person": "no person has accepted it"}
        because = f" ({each['reason']})" if each["reason"] else ""
        self._items(f"completed{because}, but {lacks[each['checkpoint_kind']]}")

    def _parked_steps(self) -> None:
        each, last = self.each, self.each["last_attempt"]
        self._field("why", f"parked {self._since(each['parked_at'])}: {each['reason']}")
        who = f"by {short_name(last['worktree'], self.root)}"
        ended = f"ended as {last['outcome']}" if last["outcome"] else "is stale"
        times = many(each["attempts"], "attempt")
        self._field("attempts", f"{times}; the last, {who}, {ended}")
        failure = each["last_failure"]
        if failure is not None and failure["reason"] not in each["reason"]:
            self._field("failed", f"attempt {failure['attempt']}: {failure['reason']}")
        for left in last["left"]:
            if left["summary"] not in each["reason"]:
                self._field(left["kind"], left["summary"])
        for failed in each["failed_checkpoints"]:
            self._field("checkpoint", f"`{failed['command']}` failed; the end of its output:")
            for line in self.canvas.last_lines(failed["output_tail"]):
                self._field(" ", f"  {line}")
        if each["salvage_ref"]:
            name = each["salvage_ref"].removeprefix("refs/tug/salvage/")
            self._field("saved", f"tugcode worktree salvage show {quoted(name)}", "bold")
        self._field("transcript", each["transcript_command"], "bold")
        self.canvas.write()
        others = [name for name in each["same_cause"] if name != each["step_anchor"]]
        self._command("free it", each["retry_command"])
        if others:
            self._field("", f"and {', '.join(others)}, parked for the same reason")
        self._field("leave it", "type nothing: no worker gets a parked step")

    def _questions(self) -> None:
        each = self.each
        where = short_name(each["claimed_by"], self.root)
        self._field("asks", each["reason"])
        self._field("since", f"{self._since(each['asked_at'])}; its work is in {where}")
        self._field("transcript", each["transcript_command"], "bold")
        self.canvas.write()
        self._field("answer", "on the terminal of the run; without an answer it is parked")

    def _audits(self) -> None:
        each = self.each
        self._field("said", f"{self._since(each['recorded_at'])}, kept with {each['step_anchor']}")
        self.canvas.write()
        self._command("settled", each["implement_command"])

    def _since(self, at: str) -> str:
        from tugtool.cli.draw import canvas as canvases

        ago = clock.duration(clock.seconds_between(at, self.now))
        return f"{canvases.local(at)} ({ago} ago)"

    def _field(self, label: str, text: str | None, style: str = "") -> None:
        if text:
            lead = f"  {label}".ljust(_LABEL)
            self.canvas.write(("dim", lead), (style, self.canvas.said(text)), hang=_LABEL)

    def _evidence(self, proof: Any) -> None:
        if proof is None:
            self._field("evidence", "none")
            return
        if proof["judged"] is not None:
            because = f": {proof['judged']['reason']}" if proof["judged"]["reason"] else ""
            self._field("evidence", f"the {proof['judged']['role']} says so{because}")
            return
        stale = ", stale: about another commit" if proof["stale"] else ""
        for number, ran in enumerate(proof["commands"]):
            text = f"`{ran['command']}` {completion.ended(ran)}{stale}"
            self._field("" if number else "evidence", text)

    def _commit(self) -> None:
        commit, stat = self.each["commit"], self.each["diffstat"]
        if commit is None:
            done = self.each["step_status"] == "completed"
            self._field("commit", "none recorded" if done else "none yet")
            return
        title = self.each["commit_title"] or review.where_commit(self.each)
        self._field("commit", f"{commit[:10]} {title}")
        if stat is None:
            return
        files = stat["files"]
        total = f"{many(len(files), 'file')}, +{stat['insertions']}/-{stat['deletions']}"
        self._field("", f"{total}: git show {commit[:10]}")
        for file in files[:_MOST_FILES]:
            size = f"+{file['insertions']}/-{file['deletions']}"
            size = "binary" if file["insertions"] is None else size
            self._field("", f"  {file['path']}  {size}")
        if len(files) > _MOST_FILES:
            self._field("", f"  and {len(files) - _MOST_FILES} more")

    def _command(self, label: str, command: str) -> None:
        self.canvas.command(("dim", f"  {label}".ljust(_LABEL)), self.canvas.said(command))


COMMANDS = (
    Command(
        "state review",
        state_review,
        """\
Shows deferred items, completed checkpoints without proof, parked steps and questions, of one plan
or of all that are not archived. Each has a page with the reason, the evidence, the commit, and
the commands for yes and for no. If more than three wait, each has one line; --step shows the
pages of one step. --accept completes items under your name; --reject reopens them, and a
completed step with them. With --step alone both take all waiting items of the step and its
substeps. --retry frees the steps that are parked for one reason: that of --step, or the only
one. Reasons that differ only in numbers or in the step's own name are the same. A worker
(TUGCODE_ATTEMPT is set) may only look.""",
        (
            EVERY_PLAN,
            Option("--accept", "accept the items as they are"),
            Option("--reject", "send the items back; needs --note"),
            Option("--accept-all", "accept every waiting item; lists them and asks"),
            Option("--retry", "free the steps that are parked for one reason; lists them and asks"),
            Option("--step ANCHOR", "the step or substep to show or judge"),
            Option("--kind KIND", "one item: its kind", choices=("task", "test", "checkpoint")),
            Option("--ordinal N", "one item: its number within its kind", kind="text"),
            Option("--note TEXT", "the reason, which is recorded and shown"),
            Option("--yes", "with --accept-all or --retry: do not ask"),
            WORKTREE,
        ),
        examples="""\
tugcode review  # what waits for me
tugcode review parser --step step-3  # all about one step
tugcode review parser --accept --step step-3 --kind checkpoint --ordinal 0\
  # I have looked: it is good
tugcode review parser --reject --step step-3 --note "too slow"\
  # all that was deferred there has to be done
tugcode review parser --accept-all --note "read it all"  # after a look at the list
tugcode review parser --retry --note "the proxy is up"  # parked by one outage""",
    ),
)
