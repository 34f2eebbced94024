"""Random histories, and a model that decides by itself which commits count.

Commits, reverts (also of reverts and of whole merges), cherry-picks and merges on the base
branch and two branches of the plan; real git, real trailers. The harness is shown to notice
planted faults.
"""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from support.proving import examined
from support.state import KEY, markdown
from support.work import IDENTITY
from tugtool import git, state
from tugtool.git import history, trailers
from tugtool.plan import fingerprint, parser
from tugtool.store import open_store
from tugtool.workflow.merge import reconcile

LINES = ("main", "tugplan/work-20260221", "tugplan/work-20260222")
STEPS = ("step-1", "step-2", "step-3")
TEXT = markdown("1 t", "2 t < 1", "3")
HASH = fingerprint.of(TEXT.encode())
#: How a commit says which step it is: (message, does it count?).
FORMS = {
    "last": ("Work\n\n{set}", True),
    "paragraph": ("Work\n\n{set}\nand the rest.\n", True),
    "bare": ("Work\n\nTug-Step: {step}\nTug-Plan: {key}\n", True),
    "quoted": ("Work\n\n> {set}", False),
    "older": ("Work\n\n{old}", False),
    "none": ("Work\n", False),
}


class Made:
    """One commit as the model knows it."""

    def __init__(self, name: str, parents: list[int], step: str | None, attempt: int) -> None:
        self.name, self.parents, self.step, self.attempt = name, parents, step, attempt
        self.undoes: list[int] = []


class World:
    """A history in git, and the same as plain values."""

    def __init__(self, directory: Path) -> None:
        self.path = directory
        self._git("init", "--quiet", "--initial-branch=main", "--template=")
        (directory / ".tugtool").mkdir()
        (directory / KEY).write_text(TEXT)
        self._git("add", KEY)
        self.tree = self._git("write-tree")
        root = self._git("commit-tree", "-m", "plan", self.tree)
        self.made: list[Made] = []
        self.root = root
        self.tips: dict[str, int | None] = dict.fromkeys(LINES)
        self._git("update-ref", "HEAD", root)
        self.store = open_store(f"sqlite://{directory / '.tugtool' / 'state.db'}")
        state.init(self.store, KEY, parser.parse(TEXT), text=TEXT, hash=HASH)

    def _git(self, *words: str, given: str = "", when: int = 0) -> str:
        date = f"{1_700_000_000 + when} +0000"
        env = {**os.environ, **IDENTITY, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        done = subprocess.run(
            ["git", *words], cwd=self.path, env=env, input=given, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        return done.stdout.strip()

    def act(self, kind: str, line: str, place: int, step: str, form: str) -> None:
        getattr(self, kind)(line, place, step, form)

    def commit(self, line: str, place: int, step: str, form: str) -> None:
        text, counts = FORMS[form]
        attempt = 1 + place % 2
        sets = {
            "set": trailers.written(KEY, step, plan_hash=HASH, attempt=attempt),
            "old": trailers.written(KEY, step, plan_hash="0" * 64, attempt=attempt),
        }
        message = text.format(step=step, key=KEY, **sets)
        named = attempt if form in ("last", "paragraph") else 0
        self._add(line, [self.tips[line]], message, step if counts else None, named)

    def revert(self, line: str, place: int, step: str, form: str) -> None:
        """One of the last commits; if this line does not have it, that undoes nothing."""
        if self.made:
            self._undo(line, len(self.made) - 1 - place % min(4, len(self.made)))

    def unmerge(self, line: str, place: int, step: str, form: str) -> None:
        """The last merge that this line has."""
        own = self.tips[line]
        merges = [n for n in self.behind(own) if len(self.made[n].parents) > 1] if own else []
        if merges:
            self._undo(line, max(merges))

    def _undo(self, line: str, target: int) -> None:
        what, undoes = self.made[target], [target]
        said = f"This reverts commit {what.name}."
        if len(what.parents) > 1:
            kept = what.parents[0]
            said = (
                f"This reverts commit {what.name}, reversing\n"
                f"changes made to {self.made[kept].name}."
            )
            undoes = sorted(self.behind(target) - self.behind(kept))
        self._add(line, [self.tips[line]], f"Revert\n\n{said}\n", None, 0)
        if target in self.behind(len(self.made) - 1):
            self.made[-1].undoes = undoes

    def pick(self, line: str, place: int, step: str, form: str) -> None:
        steps = [each for each in self.made if each.step]
        if steps:
            what = steps[place % len(steps)]
            message = self._git("log", "-1", "--format=%B", what.name)
            self._add(line, [self.tips[line]], message, what.step, what.attempt)

    def join(self, line: str, place: int, step: str, form: str) -> None:
        other = self.tips[LINES[place % len(LINES)]]
        own = self.tips[line]
        if other is not None and own is not None and other not in self.behind(own):
            self._add(line, [own, other], "Merge\n", None, 0)

    def _add(
        self, line: str, parents: list[int | None], message: str, step: str | None, attempt: int
    ) -> None:
        known = [each for each in parents if each is not None]
        names = [self.made[each].name for each in known] or [self.root]
        words = [word for name in names for word in ("-p", name)]
        # The number makes twins different; each is a second younger than the one before.
        when = len(self.made) + 1
        name = self._git("commit-tree", *words, "-F", "-", self.tree, given=message, when=when)
        self.made.append(Made(name, known, step, attempt))
        self.tips[line] = len(self.made) - 1

    def behind(self, place: int) -> set[int]:
        found, pending = set(), [place]
        while pending:
            each = pending.pop()
            found.add(each)
            pending += self.made[each].parents
        return found

    def expected(self) -> dict[str, str]:
        """Step -> commit, by the plainest reading of the rules."""
        tips = {line: tip for line, tip in self.tips.items() if tip is not None}
        there = set().union(*(self.behind(tip) for tip in tips.values()))
        base = self.behind(tips["main"]) if "main" in tips else set()
        undone = {
            each
            for each in sorted(there, reverse=True)
            if any(each in self.made[by].undoes for by in self._standing(there))
        }
        found: dict[str, str] = {}
        for step in STEPS:
            carrying = [n for n in sorted(there - undone) if self.made[n].step == step]
            carrying.sort(key=lambda n: (n not in base, -self.made[n].attempt, n))
            if carrying:
                found[step] = self.made[carrying[0]].name
        return found

    def _standing(self, there: set[int]) -> set[int]:
        """The reverts that are not undone themselves, from the youngest on."""
        standing: set[int] = set()
        for each in sorted(there, reverse=True):
            if self.made[each].undoes and not any(each in self.made[s].undoes for s in standing):
                standing.add(each)
        return standing

    def reconciled(self) -> dict[str, str]:
        for line, tip in self.tips.items():
            if tip is not None:
                self._git("update-ref", f"refs/heads/{line}", self.made[tip].name)
        repo = git.discover(str(self.path))
        data = reconcile.reconcile(repo, self.store, KEY)
        return {each["step_anchor"]: each["commit_hash"] for each in data["reconciled"]}


OPERATIONS = ("commit", "commit", "commit", "revert", "revert", "pick", "join", "unmerge")
HISTORIES = st.lists(
    st.tuples(
        st.sampled_from(
            ("commit", "commit", "commit", "revert", "revert", "pick", "join", "unmerge")
        ),
        st.sampled_from(LINES),
        st.integers(0, 9),
        st.sampled_from(STEPS),
        st.sampled_from(("last", "last", *FORMS)),
    ),
    min_size=3,
    max_size=14,
)
QUIET = (HealthCheck.too_slow, HealthCheck.data_too_large)


def hold(operations: list[tuple[str, str, int, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory))
        for operation in operations:
            world.act(*operation)
        got = world.reconciled()
        world.store.close()
        assert got == world.expected()


@examined(short=25)
@given(HISTORIES)
def test_the_steps_that_count_are_those_of_the_model(operations):
    hold(operations)


def _first_wins(self):
    return {anchor: proofs[0] for anchor, proofs in self.all_proofs.items()}


def _once(commits):
    """Reverts, but none of reverts."""
    inside = {commit.hash: commit for commit in commits}
    return {
        target
        for commit in commits
        for target, _ in commit.reverts()
        if target in history.reachable(inside, [commit.hash])
    }


FAULTS = {
    "reverts are not seen": (history, "reverted", lambda commits: set()),
    "a revert of a revert is none": (history, "reverted", _once),
    "reverts elsewhere count": (history, "_ancestors", lambda c, bits: dict.fromkeys(
        (each.hash for each in c), (1 << len(bits)) - 1)),
    "a reverted merge undoes itself alone": (history, "_brought", lambda i, merge, kept: {merge}),
    "the base branch has no precedence": (reconcile.Evidence, "_winners", _first_wins),
    "paragraphs do not count": (trailers, "_paragraphs", lambda *words: iter(())),
    "any text of the plan will do": (reconcile.Evidence, "_misfit", lambda self, found: None),
}  # fmt: skip


#: Where a search comes upon each fault soon; elsewhere it may take a minute.
SEEDS = {fault: 0 for fault in FAULTS} | {"any text of the plan will do": 3}


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_harness_notices_a_planted_fault(monkeypatch, fault):
    home, name, wrong = FAULTS[fault]
    monkeypatch.setattr(home, name, wrong)
    search = settings(
        max_examples=400,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=QUIET,
    )
    with pytest.raises(AssertionError):
        seed(SEEDS[fault])(search(given(HISTORIES)(hold)))()
