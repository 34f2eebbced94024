"""A plan as values, each with its line; and the dependencies between steps.

A substep counts as its step. All functions are linear in the size of the plan.
"""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

KINDS = ("task", "test", "checkpoint")
#: Each cycle may be as long as the plan, and a repair of one often repairs the next.
MOST_CYCLES = 20


class Diagnostic(NamedTuple):
    """A message about the plan's text, for a person."""

    code: str
    line: int
    message: str
    #: The way to correct it.
    suggestion: str = ""
    anchor: str | None = None


class Anchor(NamedTuple):
    """`{#name}` in the text, or a step's name made from its number."""

    name: str
    line: int
    on_heading: bool
    on_step: bool = False


class Passage(NamedTuple):
    """The text after a label."""

    text: str
    line: int


class Item(NamedTuple):
    """One box of a checklist."""

    kind: str
    #: 0-based within the kind, in document order.
    ordinal: int
    text: str
    line: int
    #: True if the box is ticked in the file; the state ignores it.
    ticked: bool


class Need(NamedTuple):
    """A dependency: the anchor of the step that must be done before."""

    anchor: str
    line: int


class Step(NamedTuple):
    """A step or, with `parent`, a substep."""

    anchor: str
    number: str
    title: str
    level: int
    line: int
    #: Document order over steps and substeps together, 0-based.
    step_index: int
    parent: str | None
    needs: tuple[Need, ...]
    #: The text of `Depends on`, as written.
    depends_on: Passage | None
    commit: Passage | None
    references: Passage | None
    artifacts: Passage | None
    rollback: Passage | None
    items: tuple[Item, ...]
    substeps: tuple[Step, ...]

    def family(self) -> tuple[Step, ...]:
        """The step and its substeps."""
        return (self, *self.substeps)

    @property
    def verification_only(self) -> bool:
        """True if the step only verifies other steps: its commit is `N/A`."""
        return self.commit is not None and self.commit.text.lstrip("`*_ ").upper().startswith("N/A")

    @property
    def commit_message(self) -> str:
        """The plan's message for the step's commit; without one, its anchor and title."""
        lines = self.commit.text.replace("`", "").strip() if self.commit is not None else ""
        return f"{self.anchor}: {self.title}" if not lines or self.verification_only else lines


class Decision(NamedTuple):
    """`[D01] Title (DECIDED)` or `[Q01] Title (OPEN)`."""

    name: str
    title: str
    status: str | None
    anchor: str | None
    line: int

    @property
    def is_question(self) -> bool:
        """True if it is a question, not a decision."""
        return self.name.startswith("Q")


class Plan(NamedTuple):
    """A whole plan, and the parser's messages about its text."""

    title: str | None
    purpose: Passage | None
    #: Rows of the table in the section `plan-metadata`, by lower-case field name.
    metadata: dict[str, Passage]
    decisions: tuple[Decision, ...]
    anchors: tuple[Anchor, ...]
    steps: tuple[Step, ...]
    line_count: int
    #: Near misses and placeholders; the rules add theirs.
    diagnostics: tuple[Diagnostic, ...]

    def every_step(self) -> Iterator[Step]:
        """Steps and substeps in document order."""
        found = [each for step in self.steps for each in step.family()]
        return iter(sorted(found, key=lambda step: step.step_index))


class Graph(NamedTuple):
    """The dependencies between top-level steps, their waves and their critical path."""

    steps: tuple[Step, ...]
    #: Anchor -> the anchors that it waits for, each once, in their order.
    needs: dict[str, tuple[str, ...]]
    #: Wave by wave, the steps that can run at the same time.
    waves: tuple[tuple[str, ...], ...]
    #: The longest chain.
    critical_path: tuple[str, ...]

    @property
    def widest(self) -> int:
        """Index of the wave with the most steps; the first of several."""
        return max(range(len(self.waves)), key=lambda wave: (len(self.waves[wave]), -wave))


def homes(plan: Plan) -> dict[str, str]:
    """Step or substep -> the step it belongs to."""
    return {each.anchor: step.anchor for step in plan.steps for each in step.family()}


def open_needs(plan: Plan, status: Mapping[str, str]) -> dict[str, int]:
    """Step -> the number of its family's dependencies on other steps that are not completed."""
    home = homes(plan)
    return {
        step.anchor: sum(
            home[need.anchor] != step.anchor and status.get(need.anchor) != "completed"
            for each in step.family()
            for need in each.needs
        )
        for step in plan.steps
    }


def folded(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Step -> the steps it needs; a substep counts as its step, unknown anchors do not count."""
    home = homes(plan)
    needs: dict[str, dict[str, None]] = {step.anchor: {} for step in plan.steps}
    for step in plan.steps:
        for each in step.family():
            for need in each.needs:
                target = home.get(need.anchor)
                # A need inside one step is not a cycle, but a step's need of itself is.
                inside = target == step.anchor and not (need.anchor == each.anchor and each is step)
                if target is not None and not inside:
                    needs[step.anchor][target] = None
    return {anchor: tuple(targets) for anchor, targets in needs.items()}


def among_substeps(step: Step) -> dict[str, tuple[str, ...]]:
    """Substep -> substeps of the same step it needs."""
    siblings = {substep.anchor for substep in step.substeps}
    return {
        substep.anchor: tuple(need.anchor for need in substep.needs if need.anchor in siblings)
        for substep in step.substeps
    }


def cycles(needs: dict[str, tuple[str, ...]]) -> list[list[str]]:
    """The first cycles of steps that wait for each other."""
    found: list[list[str]] = []
    # Report each cycle once, not every path back into it.
    told: set[str] = set()
    state: dict[str, int] = {}  # 1 while on the path, 2 when finished
    for start in needs:
        if start in state:
            continue
        path, branches = [start], [iter(needs[start])]
        state[start] = 1
        place = {start: 0}
        while branches:
            target = next(branches[-1], None)
            if target is None:
                branches.pop()
                done = path.pop()
                state[done] = 2
                del place[done]
            elif target not in state:
                state[target] = 1
                place[target] = len(path)
                path.append(target)
                branches.append(iter(needs[target]))
            elif state[target] == 1 and target not in told and len(found) < MOST_CYCLES:
                found.append([*path[place[target] :], target])
                told.update(found[-1])
    return found


def build_graph(plan: Plan) -> Graph:
    """Compute waves and critical path; the plan must not have cycles or repeated anchors."""
    needs = folded(plan)
    waiting = {anchor: len(targets) for anchor, targets in needs.items()}
    unblocks: dict[str, list[str]] = {anchor: [] for anchor in needs}
    for anchor, targets in needs.items():
        for target in targets:
            unblocks[target].append(anchor)
    order = {step.anchor: step.step_index for step in plan.steps}
    waves: list[tuple[str, ...]] = []
    behind: dict[str, str] = {}
    wave = [anchor for anchor, count in waiting.items() if not count]
    while wave:
        waves.append(tuple(wave))
        following: list[str] = []
        for anchor in wave:
            for blocked in unblocks[anchor]:
                waiting[blocked] -= 1
                if not waiting[blocked]:
                    following.append(blocked)
                    behind[blocked] = anchor
        wave = sorted(following, key=order.__getitem__)
    return Graph(plan.steps, needs, tuple(waves), _chain(waves, behind))


def _chain(waves: list[tuple[str, ...]], behind: dict[str, str]) -> tuple[str, ...]:
    if not waves:
        return ()
    chain = [waves[-1][0]]
    while chain[-1] in behind:
        chain.append(behind[chain[-1]])
    return tuple(reversed(chain))
