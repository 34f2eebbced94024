"""A plan's text as plain dicts, and what a new text makes of the old ones."""

from collections import Counter

from support.plan_drafts import KINDS, Part

HELD = ("claimed", "in_progress")
CLOSED = ("completed", "deferred")


def blank(text: str) -> dict:
    """An item on which nothing was done."""
    return {"text": text, "status": "open", "reason": None, "evidence": None}


def fresh(parent: str | None, needs: tuple[str, ...], items: dict[tuple, dict]) -> dict:
    """A step or substep that nobody has touched."""
    return {
        "parent": parent,
        "needs": needs,
        "items": items,
        "status": "pending",
        "owner": None,
        "until": None,
        "attempt": 0,
        "claims": 0,
        "parked": False,
        "started": False,
        "by": None,
        "commit": None,
    }


def steps_of(parts: list[Part]) -> dict[str, dict]:
    """Step -> what the text says of it; each item by its kind and its place among its kind."""
    steps: dict[str, dict] = {}
    top = ""
    for part in parts:
        top = top if part.is_substep else part.anchor
        items = {}
        for kind in KINDS.values():
            texts = [text for its, text in part.items if its == kind]
            items.update({(kind, n): blank(text) for n, text in enumerate(texts)})
        steps[part.anchor] = fresh(top if part.is_substep else None, part.needs, items)
    return steps


def family(steps: dict[str, dict], anchor: str) -> list[str]:
    """The step and its substeps; of a substep, itself."""
    return [anchor, *(each for each, step in steps.items() if step["parent"] == anchor)]


class Revision:
    """What becomes of every step when the plan has another text."""

    def __init__(self, old: dict[str, dict], new: dict[str, dict]) -> None:
        self.old, self.new = old, new
        self.kept = {a for a, step in new.items() if step["parent"] is None and self._is_kept(a)}
        self.over = {a for a in new if a in old and self._starts_over(a)}

    def home(self, anchor: str) -> str:
        return self.new[anchor]["parent"] or anchor

    def _same_items(self, anchor: str) -> bool:
        def texts(step: dict) -> Counter:
            return Counter((kind, item["text"]) for (kind, _), item in step["items"].items())

        return texts(self.old[anchor]) == texts(self.new[anchor])

    def _in_place(self, anchor: str) -> bool:
        def texts(step: dict) -> dict:
            return {key: item["text"] for key, item in step["items"].items()}

        return texts(self.old[anchor]) == texts(self.new[anchor])

    def _is_kept(self, top: str) -> bool:
        """The same substeps with the same items; for a holder also in the same places."""
        if top not in self.old or self.old[top]["parent"] is not None:
            return False
        now = family(self.new, top)
        if set(now) != set(family(self.old, top)):
            return False
        held = self.old[top]["status"] in HELD
        return all(self._in_place(a) if held else self._same_items(a) for a in now)

    def _starts_over(self, anchor: str) -> bool:
        if self.home(anchor) in self.kept:
            return False
        was, now = self.old[anchor], self.new[anchor]
        stays = was["parent"] and now["parent"] and was["status"] == "completed"
        return not (stays and self._same_items(anchor))

    def refusals(self) -> set[str]:
        """The flags without which this may not happen."""
        wanted = set()
        for anchor, step in self.old.items():
            gone, done = anchor not in self.new, step["status"] == "completed"
            if gone and (done or self._lost(anchor)):
                wanted.add("drop_completed")
            if done and anchor in self.over:
                wanted.add("reopen_changed")
            if step["parent"] is None and step["status"] in HELD and anchor not in self.kept:
                wanted.add("drop_claimed")
        return wanted

    def _lost(self, anchor: str) -> bool:
        lost = [each for each in family(self.old, anchor) if each not in self.new]
        items = [item for each in lost for item in self.old[each]["items"].values()]
        return any(item["status"] in CLOSED for item in items)

    def items(self, anchor: str) -> dict[tuple, dict]:
        """The items of the new text; those that are alike are what the old ones were."""
        now = {key: dict(item) for key, item in self.new[anchor]["items"].items()}
        known: dict[tuple, list[dict]] = {}
        for (kind, _), item in sorted(self.old.get(anchor, {"items": {}})["items"].items()):
            known.setdefault((kind, item["text"]), []).append(item)
        for (kind, _), item in now.items():
            alike = known.get((kind, item["text"]))
            was = alike.pop(0) if alike else blank(item["text"])
            restarts = was["status"] == "in_progress" and self.home(anchor) not in self.kept
            item.update(blank(item["text"]) if restarts else was)
        return now

    def step(self, anchor: str) -> dict:
        now = {key: self.new[anchor][key] for key in ("parent", "needs")}
        if anchor not in self.old:
            return {**self.new[anchor]}
        if anchor in self.over:
            untouched = fresh(None, (), {})
            return {**untouched, **now, "attempt": self.old[anchor]["attempt"]}
        return {**self.old[anchor], **now}


def revise(model, parts: list[Part], text: str, flags: set[str]) -> set[str]:
    """Take the new text into the model, or say which flags are missing for that."""
    change = Revision(model.steps, steps_of(parts))
    missing = change.refusals() - flags
    if missing:
        return missing
    old, known = model.steps, _fences(model)
    for anchor, step in old.items():
        if step["owner"] is not None and step["parent"] is None and anchor not in change.kept:
            model.end_attempt(anchor, "reset")
    steps = {a: {**change.step(a), "items": change.items(a)} for a in change.new}
    for top in [a for a, step in steps.items() if step["parent"] is None and a not in change.kept]:
        # No number that was ever handed out for any of them may count again.
        numbers = [known.get(each, model.least) for each in family(steps, top)]
        steps[top]["attempt"] = max(numbers)
    gone = [anchor for anchor in old if anchor not in steps]
    model.fences.update({anchor: known[anchor] for anchor in gone})
    for table in (model.attempts, model.artifacts):
        for anchor in gone:
            del table[anchor]
    for anchor in steps:
        model.attempts.setdefault(anchor, {})
        model.artifacts.setdefault(anchor, 0)
    model.steps, model.text = steps, text
    model.settle()
    return set()


def _fences(model) -> dict[str, int]:
    """Step or substep -> the highest attempt under which anybody could write to it."""
    fences = dict(model.fences)
    for anchor, step in model.steps.items():
        fences[anchor] = max(step["attempt"], model.steps[model.top_of(anchor)]["attempt"])
    return fences
