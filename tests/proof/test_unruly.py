"""Coders and reviewers that do things at random: no work is lost, nothing is stuck.

`make proof MINUTES=20 ONLY=unruly` goes on with it for so long.
"""

import functools
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from unruly_git import DEEDS
from unruly_judge import Before, kind, names, problems
from unruly_repairs import REPAIRS
from unruly_scene import PLANS, Story, fixed_story, random_story, short, smaller, staged

#: All but what is random here has an end of its own.
pytestmark = pytest.mark.proof(share=0)

#: Plans of a short round; after so many, every deed must have been done.
FEW, MANY = 8, 300
#: As coders and reviewers should be.
GOOD = fixed_story(coder=("write", "change", "move", "chmod", "link"), reviewer=("write_out",))
#: Letter -> what a problem says that its fault makes, and stories that provoke it.
KNOWN: dict[str, tuple[str, tuple[Story, ...]]] = {
    "D": (
        "out/made-coder-step-1-1.txt is in no commit",
        (
            fixed_story(coder=("write_out",), reviewer=("ignore_out",)),
            fixed_story(coder=("write_out",), reviewer=("ignore_top",)),
            fixed_story(coder=("write_out", "ignore_out")),
        ),
    ),
    "E": (
        "app/main.txt is in no commit",
        (fixed_story(coder=("nested",)), fixed_story(coder=("write", "nested"))),
    ),
    "F": (
        "the main checkout has another",
        (
            fixed_story(coder=("main_write",)),
            fixed_story(coder=("main_restore",)),
            fixed_story(coder=("main_commit",)),
            fixed_story(coder=("main_moved",)),
            fixed_story(reviewer=("main_delete",)),
        ),
    ),
    "K": (
        "step-1 is parked",
        tuple(
            fixed_story(coder=("write_out", deed))
            for deed in ("merge", "merge_conflict", "cherry_pick", "revert", "mail")
        ),
    ),
    "Y": (
        "the shared git directory has another",
        tuple(
            fixed_story(coder=("write_out", deed))
            for deed in ("bare", "elsewhere", "hooks_path", "hook", "ignore_shared")
        ),
    ),
    "HEAD": ("on no branch of the plan", ({"coder step-2": [["switch", 1]]},)),
    "files": (
        "is in no commit",
        (fixed_story(coder=("write_out",), reviewer=("delete", "delete", "delete", "delete")),),
    ),
}
#: Letter -> more stories that have to end well, of which the judge finds several things.
OTHERS: dict[str, tuple[Story, ...]] = {
    "C": (
        fixed_story(reviewer=("read_only",)),
        fixed_story(coder=("read_only", "switch")),
    ),
    "E": (
        fixed_story(coder=("nested_empty",)),
        fixed_story(reviewer=("nested",)),
        fixed_story(reviewer=("nested_empty",)),
    ),
    "K": tuple(
        fixed_story(coder=("write",), reviewer=(deed,))
        for deed in ("merge", "merge_conflict", "cherry_pick", "revert", "mail", "stash_conflict")
    ),
    "W": (fixed_story(coder=("write_out", "sparse")), fixed_story(reviewer=("sparse",))),
    "Y": (fixed_story(reviewer=("replace_object", "hook")),),
    "Z": (fixed_story(coder=("unreadable",)), fixed_story(coder=("unreadable", "switch"))),
}
CASES = [
    *((letter, each) for letter, (_, stories) in KNOWN.items() for each in stories),
    *((letter, each) for letter, stories in OTHERS.items() for each in stories),
]


class Judged:
    """Plans that are carried out and judged, and which deeds were done in them."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.done: Counter[str] = Counter()

    def __call__(
        self, lines: tuple[str, ...], story: Story, seed: int = 0, *, without: str = ""
    ) -> list[str]:
        with staged(self.place / "scene", lines, story, seed) as scene:
            before = Before(scene.root)
            told = scene.run(without)
            deeds = [deed for call in scene.calls() for deed in call["deeds"]]
            self.done.update(name for name, hindered in deeds if not hindered)
            return problems(scene, before, told)


@pytest.fixture
def judged(tmp_path) -> Judged:
    """What is wrong after a plan: `judged(lines, story, seed)`."""
    return Judged(tmp_path)


@pytest.mark.proof(share=4)
def test_random_agents_lose_no_work_and_leave_main_alone(judged, spell):
    for seed in spell.seeds(FEW):
        lines, story = random_story(seed)
        wrong = judged(lines, story, seed)
        if wrong:
            pytest.fail(_smallest(functools.partial(judged, lines, seed=seed), story, wrong))
    assert spell.rounds < MANY or set(judged.done) == set(DEEDS)
    spell.tell(f"{judged.done.total()} deeds, {len(judged.done)} kinds of {len(DEEDS)}")


def _smallest(play: Callable[[Story], list[str]], story: Story, wrong: list[str]) -> str:
    """The fewest deeds that end in the same kind of problem, and what the judge says of them."""
    kinds = {kind(each) for each in wrong}
    least = smaller(story, lambda less: bool(kinds & {kind(each) for each in play(less)}))
    return "\n".join([short(story), f"as with: {short(least)}", *play(least)])


@pytest.mark.parametrize(("letter", "story"), CASES, ids=[f"{x}: {short(y)}" for x, y in CASES])
def test_a_known_accident_of_agents_is_settled(judged, letter, story):
    assert judged(PLANS[0], story) == []


@pytest.mark.parametrize("letter", KNOWN)
def test_the_judge_finds_what_a_missing_repair_lets_through(judged, spell, letter):
    sign, stories = KNOWN[letter]
    wrong = judged(PLANS[0], stories[0], without=letter)
    signed = [each for each in wrong if sign in each]
    assert signed, (f"REPAIRS of unruly_repairs.py says of {letter}", REPAIRS[letter], wrong)
    spell.tell(signed[0])


def test_the_judge_finds_nothing_where_agents_behave(judged):
    assert judged(PLANS[0], GOOD) == []
    assert judged.done.total() == sum(map(len, GOOD.values()))


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("app is a repository of its own", "app", True),
        ("app/ is a repository of its own", "app", True),
        ("kept: 'out/a b.txt', src", "out/a b.txt", True),
        ('kept: "tab\\there.txt"', "tab\there.txt", True),
        ("the application failed", "app", False),
        ("new-app.txt was left out", "app.txt", False),
        ("an app-like thing", "app", False),
    ],
)
def test_a_warning_names_a_path_only_as_a_whole(text, path, expected):
    assert names(text, path) is expected
