"""What `state show` sees at one moment: the record, and whether the plan files still agree."""

from __future__ import annotations

from tugtool import state
from tugtool.cli.output import Answer
from tugtool.cli.place import Place
from tugtool.errors import Unreadable, Usage, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tugtool.cli.canvas import Canvas
    from tugtool.cli.parse import Call
    from tugtool.cli.picture import Look

    Data = dict[str, Any]

#: What of a hash people compare.
_SHOWN_OF_HASH = 12


class Seen:
    """One look: the data, and for each plan what its file says now, if that is something else."""

    __slots__ = ("changed", "data")

    def __init__(self, data: Data, changed: dict[str, str | None]) -> None:
        self.data = data
        #: Plan -> the hash of its file, which is not the agreed one; None if there is no file.
        self.changed = changed

    @property
    def plans(self) -> list[Data]:
        """The plans, however many were asked for."""
        plans: list[Data] = self.data.get("plans", [self.data])
        return plans

    def issues(self) -> list[dict[str, object]]:
        """A warning for each plan whose file is not the one whose execution is shown."""
        return [
            {
                "code": "W102",
                "severity": "warning",
                "message": "\n".join(_words(plan["plan_hash"], self.changed[plan["plan_path"]])),
                "hint": f"tugcode state diff {quoted(plan['plan_path'])}",
                "file": plan["plan_path"],
            }
            for plan in self.plans
            if plan["plan_path"] in self.changed
        ]

    def warning(self, plan: Data) -> list[str]:
        """The same for the picture of one plan, with hashes as long as people read them."""
        if plan["plan_path"] not in self.changed:
            return []
        now = self.changed[plan["plan_path"]]
        look = f"What differs: tugcode state diff {quoted(plan['plan_path'])}"
        return [*_words(_shortened(plan["plan_hash"]), now and _shortened(now)), look]


class Sight:
    """Looks at one plan or all of them, as often as wanted."""

    def __init__(self, call: Call) -> None:
        if call.flag("summary") and call.flag("checklist"):
            raise Usage("--summary and --checklist exclude each other", command=call.path)
        if call.flag("all") and call.text("plan") is not None:
            raise Usage("--all goes without a plan", command=call.path)
        if call.text("step") is not None and call.text("plan") is None:
            raise Usage("--step goes with a plan", command=call.path)
        self.place = Place(call)
        self.archived = call.flag("all")
        self.every_item = call.flag("checklist")
        self.plan = self.place.plan() if call.text("plan") is not None else None
        #: A file that has not been touched need not be read again.
        self._hashes: dict[str, tuple[str, str | None]] = {}

    def look(self) -> Seen:
        """What is the case now."""
        store = self.place.store
        if self.plan is None and not store.exists():
            return Seen({"plans": []}, {})
        data = state.show(store, self.plan, archived=self.archived, step=self.place.step())
        seen = Seen(data, {})
        for plan in seen.plans:
            _mark_stale(plan)
            found = self._hash(plan["plan_path"])
            if found != plan["plan_hash"]:
                seen.changed[plan["plan_path"]] = found
        return seen

    def answer(self, seen: Seen) -> Answer:
        """For programs the data, for people the picture."""
        return Answer(seen.data, lambda: self.text(seen), issues=seen.issues())

    def text(self, seen: Seen) -> str:
        """The picture, for standard output as it is."""
        from tugtool.cli import canvas as canvases

        canvas = canvases.for_output()
        self.draw(canvas, seen, self.wanted())
        return canvas.text()

    def draw(self, canvas: Canvas, seen: Seen, look: Look) -> None:
        """All plans, one below the other."""
        from tugtool.cli import picture

        for number, plan in enumerate(seen.plans):
            if number:
                canvas.write()
            picture.draw(canvas, plan, look, seen.warning(plan))
        if not seen.plans:
            canvas.write(("", self.nothing()))

    def nothing(self) -> str:
        """What to say where there is no plan to show."""
        if self.archived or not self.place.store.exists():
            return "no plan has a state yet"
        return "no plan to show; archived ones: tugcode state show --all"

    def wanted(self, *, leases: bool = True) -> Look:
        """The picture that was asked for."""
        from tugtool.cli.picture import Look

        return Look(root=self.place.repo.root, every_item=self.every_item, leases=leases)

    def _hash(self, plan: str) -> str | None:
        copy = self.place.copy(plan)
        signature, found = self._hashes.get(copy.file, ("", None))
        if copy.signature is not None and copy.signature == signature:
            return found
        try:
            found = copy.now()
        except Unreadable:
            found = None
        self._hashes[copy.file] = (copy.signature or "", found)
        return found


def _mark_stale(plan: Data) -> None:
    """Evidence speaks of one commit; say where the worktree of its step stands now."""
    items = [item for item in plan["checklist_items"] if item["evidence"] is not None]
    if not items:
        return
    # Only here: most plans have no evidence, and their pictures pay nothing.
    from tugtool import heads

    steps = [(each, step) for step in plan["steps"] for each in (step, *step["substeps"])]
    homes = {each["anchor"]: top["claimed_by"] or top["completed_by"] for each, top in steps}
    commits: dict[str, str | None] = {}
    for item in items:
        evidence = item["evidence"]
        # A step that was given back is nobody's; its evidence is still about a worktree.
        home = homes[item["step_anchor"]] or evidence["worktree"]
        if home not in commits:
            commits[home] = heads.commit_of(home)
        evidence["worktree_commit"] = commits[home]
        if commits[home] is not None:
            evidence["stale"] = commits[home] != evidence["commit"]


def _words(agreed: str, now: str | None) -> list[str]:
    return [
        f"Plan file has {'been modified' if now else 'gone'} since state was initialized.",
        f"State tracks execution of the original plan (hash: {agreed}).",
        f"Current file hash: {now or 'none, it cannot be read'}",
    ]


def _shortened(hash: str) -> str:
    return f"{hash[:_SHOWN_OF_HASH]}..."
