"""The next call: what a caller with its tools, in its worktree, can do now."""

from __future__ import annotations

from tugtool.system import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Data = Mapping[str, Any]


#: An update names so many items.
_MOST_ENTRIES = 12
#: The tools of a worker that holds a step, all of which take its worktree.
OF_HOLDERS = ("update", "verify", "complete", "release", "note")
#: Tool -> the arguments that it needs besides step and attempt.
_NEEDED: dict[str, dict[str, object]] = {
    "update": {"entries": [{"kind": "task", "ordinal": 0, "status": "completed"}]},
    "release": {"reason": "..."},
    "note": {"summary": "..."},
    "steer": {"plan": "...", "action": "pause", "reason": "..."},
}


def spelled(tool: str, **arguments: object) -> str:
    """A call as it stands in a text: `show(plan="parser", view="log")`."""
    given = {name: value for name, value in arguments.items() if value is not None}
    said = f"{tool}({', '.join(f'{name}={text.encode(each)}' for name, each in given.items())})"
    # The number of an attempt that is not known here.
    return said.replace('attempt="N"', "attempt=N")


class Guide:
    """Writes calls that its caller can make."""

    def __init__(
        self,
        tools: Sequence[str],
        *,
        commits: bool = True,
        worktree: str | None = None,
        only_plan: str | None = None,
    ) -> None:
        self.tools = tools
        #: The one plan that the caller may see, if there is such a limit.
        self.only_plan = only_plan
        #: True if `complete` can commit for the caller; False on another machine.
        self.commits = commits
        self._worktree = worktree

    def call(self, tool: str, **arguments: object) -> str:
        """A call, with the worktree if the caller named one."""
        mine = self._worktree if tool in ("claim", *OF_HOLDERS) else None
        return spelled(tool, **arguments, **({} if "worktree" in arguments else {"worktree": mine}))

    def complete(self, step: object, attempt: object) -> str:
        """The call that completes a step."""
        how = {"message": "..."} if self.commits else {"commit": "HASH"}
        return self.call("complete", step=step, attempt=attempt, **how)

    def example(self, tool: str, given: Data, known: Data) -> str:
        """A call of the tool that is right, with what is right in the arguments that were given.

        `known`: the step and the attempt that the caller holds.
        """
        if tool not in OF_HOLDERS:
            right = {**_NEEDED.get(tool, {}), **_texts(given, "plan", "step", "view", "action")}
            return self.call(tool, **right)
        step = _texts(given, "step").get("step") or known.get("step") or "..."
        number = given.get("attempt")
        attempt: object = number if type(number) is int else known.get("attempt") or "N"
        if tool == "complete":
            return self.complete(step, attempt)
        return self.call(tool, step=step, attempt=attempt, **_NEEDED.get(tool, {}))

    def last_line(self, anchor: str, attempt: int, *, in_main: bool) -> str:
        """The calls that follow once a step is done."""
        held: dict[str, object] = {"step": anchor, "attempt": attempt}
        end = self.call("complete", **held) if in_main else self.complete(anchor, attempt)
        made = f"when it is done: {self.call('update', **held)[:-1]}, entries=[...])"
        checks = "then verify if checkpoints name commands"
        if "verify" not in self.tools:
            checks = "with the checkpoints whose commands passed in your worktree"
        push = "" if self.commits else ", once the server's repository has that commit"
        return f"{made}, {checks}, then {end}{push}"

    def for_open(
        self, items: Sequence[Data], anchor: str, attempt: object, *, has_failed: bool = False
    ) -> list[str]:
        """The calls that settle open items; a command of theirs may just have failed."""
        from tugtool.plan import checkpoints
        from tugtool.state.checklists import KINDS

        items = sorted(items, key=lambda each: KINDS.index(each["kind"]))
        kinds = {_proved_by(each) for each in items}
        runs = checkpoints.COMMAND in kinds and "verify" in self.tools
        entries = [
            _entry(each, anchor)
            for each in items
            if _proved_by(each) != checkpoints.COMMAND or not runs
        ]
        held = {"step": anchor, "attempt": attempt}
        failed = "mend what failed, then " if has_failed else ""
        lines = []
        if entries:
            made = self.call("update", **held, entries=entries[:_MOST_ENTRIES])
            lines.append(f"next, for what is done: {made}")
        if checkpoints.JUDGEMENT in kinds:
            lines.append('what you cannot judge: status="deferred", with a reason')
        if runs:
            call = self.call("verify", **held)
            lines.append(f"next, for checkpoints that name commands: {failed}{call}")
        elif checkpoints.COMMAND in kinds:
            lines.append("run the commands of checkpoints in your worktree, and tick what passed")
        return lines


def _texts(given: Data, *names: str) -> dict[str, Any]:
    return {name: given[name] for name in names if isinstance(given.get(name), str)}


def _proved_by(item: Data) -> str:
    from tugtool.plan import checkpoints

    return checkpoints.kind_of(item["text"]) if item["kind"] == "checkpoint" else ""


def _entry(item: Data, anchor: str) -> dict[str, Any]:
    """The entry for `update` that settles an item."""
    from tugtool.plan import checkpoints

    entry = {"kind": item["kind"], "ordinal": item["ordinal"], "status": "completed"}
    if _proved_by(item) == checkpoints.PERSON:
        entry |= {"status": "deferred", "reason": "it waits for a person"}
    if item["step_anchor"] != anchor:
        entry["step"] = item["step_anchor"]
    return entry
