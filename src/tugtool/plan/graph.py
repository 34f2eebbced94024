"""Which steps wait for which, with substeps folded into their steps. Linear in the plan."""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.plan.model import Plan, Step


#: Each may be as long as the plan, and mending one often mends the next.
MOST_CYCLES = 20


class Graph(NamedTuple):
    """The dependencies between top-level steps, and what follows from them."""

    steps: tuple[Step, ...]
    #: Anchor -> anchors it waits for, each once, in the order they are named.
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


def folded(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Step -> steps it needs, substeps standing for their steps; unknown anchors left out."""
    home = homes(plan)
    needs: dict[str, dict[str, None]] = {step.anchor: {} for step in plan.steps}
    for step in plan.steps:
        for each in step.family():
            for need in each.needs:
                target = home.get(need.anchor)
                # Inside one step, or of a step on itself: only the latter is a cycle.
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
    """The first closed paths along which steps wait for each other."""
    found: list[list[str]] = []
    # Every further way back into the same circle is the same news.
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


def build(plan: Plan) -> Graph:
    """Waves and critical path; the plan must have neither cycles nor repeated anchors."""
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
