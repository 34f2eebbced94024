"""What people read of list, ready, plan show, plan graph, validate, next and done.

Each picture is held against the rules of pictures and against a file that was looked at, and
its numbers against the data of random plans.
"""

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given

from conftest import Repo
from state.test_events import plans as random_plans
from support import count_checks as checks
from support.picture_rules import WIDTHS, check_page
from support.picture_scenes import CACHE, COMMIT, RED, ROOT, WIDE, sixty_text
from support.proving import examined
from support.state import KEY, Lab, markdown
from tugtool import state
from tugtool.cli import next as next_command
from tugtool.cli.draw import tables
from tugtool.cli.draw.canvas import Canvas
from tugtool.cli.output import UNBOUNDED
from tugtool.git import discover
from tugtool.workflow import overview, plans

PAGES = Path(__file__).with_name("plan_pages")
SAMPLE = (Path(__file__).parents[2] / "examples" / "tugplan-bookshelf.md").read_text()
#: Names instead of numbers, and a step that waits for many.
NAMED = """\
# Names instead of numbers
### Step 1: Write down what the parser has to understand {#what-it-understands}
### Step 2: Read {#reading-every-digit}
**Depends on:** #what-it-understands
### Step 3: Report {#errors}
**Depends on:** #reading-every-digit, #what-it-understands
"""
FAULTY = """\
# Round and round, with <a placeholder that nobody has filled in>
### Step 1: One {#step-1}
**Depends on:** #step-3
### Step 2: Two {#step-2}
**Depends on:** #step-1, #step-1O
### Step 3: Three {#step-3}
**Depends on:** #step-2
"""
TEXTS = {
    "bookshelf": SAMPLE,
    "cache": CACHE,
    "faulty": FAULTY,
    "named": NAMED,
    "sixty": sixty_text(),
    "キャッシュ": WIDE,
}
Draw = Callable[[Canvas], None]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory) -> Repo:
    """A repository with every kind of plan, also one that cannot be read."""
    made = Repo.init(tmp_path_factory.mktemp("shelf"))
    for slug, text in TEXTS.items():
        made.plan(slug, text)
    made.write({".tugtool/tugplan-odd.md": b"# x\n\xff\n"})
    return made


def of_list(repo: Repo, directory: Path) -> Draw:
    data, _ = overview.list_plans(discover(str(repo.path)))
    return lambda canvas: tables.draw_plans(canvas, data)


def of_nothing(repo: Repo, directory: Path) -> Draw:
    return lambda canvas: tables.draw_plans(canvas, {"plans": []})


def of_graph(slug: str) -> Callable[[Repo, Path], Draw]:
    def scene(repo: Repo, directory: Path) -> Draw:
        data = overview.plan_graph(discover(str(repo.path)), slug, cwd=str(repo.path))
        return lambda canvas: tables.draw_graph(canvas, data)

    return scene


def of_plan(slug: str, step: str | None = None) -> Callable[[Repo, Path], Draw]:
    def scene(repo: Repo, directory: Path) -> Draw:
        place = {"cwd": str(repo.path), "step": step}
        data, issues = overview.show_plan(discover(str(repo.path)), slug, **place)
        if step:
            return lambda canvas: tables.draw_step(canvas, data)
        return lambda canvas: tables.draw_plan(canvas, data, issues)

    return scene


def of_validate(*slugs: str) -> Callable[[Repo, Path], Draw]:
    def scene(repo: Repo, directory: Path) -> Draw:
        place = {"cwd": str(repo.path), "level": "normal"}
        data, issues = plans.validate(discover(str(repo.path)), slugs, **place)
        return lambda canvas: tables.draw_findings(canvas, data, issues)

    return scene


def of_ready(repo: Repo, directory: Path) -> Draw:
    lab = Lab(directory, text=sixty_text())
    for number in range(1, 5):
        lab.finish(f"step-{number}", RED)
    lab.claim(RED, "step-5", lease_seconds=60)
    lab.clock.advance(120)
    lab.claim(RED, "step-6")
    lab.claim(RED, "step-7")
    lab.release("step-7", RED, park_reason="no access")
    data = state.ready(lab.store, KEY)
    lab.store.close()
    return lambda canvas: tables.draw_ready(canvas, data)


STEP = {
    "claimed": True,
    "worktree_path": RED,
    "plan_path": KEY,
    "resumed": False,
    "anchor": "step-1",
    "attempt": 2,
    "text": CACHE[CACHE.index("#### Step 1") : CACHE.index("#### Step 2")].rstrip(),
    "checklist": [
        {
            "step_anchor": "step-1",
            "kind": "checkpoint",
            "ordinal": 1,
            "status": "deferred",
            "text": "Look at the log: one request, not two",
            "reason": "needs eyes on the log of the staging server",
        },
        {
            "step_anchor": "step-1-1",
            "kind": "task",
            "ordinal": 0,
            "status": "open",
            "text": "Keep entries in memory",
            "reason": None,
        },
    ],
    "merged": [{"step_anchor": "step-0"}],
    "previous_attempt": {
        "number": 1,
        "outcome": "expired",
        "reopened": {
            "at": "2026-02-23T12:00:00.000Z",
            "by": ROOT,
            "reason": "it answers too slowly when the shelf is full",
        },
        "artifacts": [{"kind": "note", "summary": "the staging key is in the vault, on page two"}],
        "recover": ["tugcode worktree salvage apply work/20260223T120215000Z-step-1-attempt-1"],
    },
    "next": "tugcode done",
}
DONE = {
    "plan_path": KEY,
    "anchor": "step-1",
    "step_title": "Add caching layer",
    "completed": True,
    "deferred": 1,
    "checkpoints": [{"outcome": "passed"}, {"outcome": "passed"}],
    "commit": {"recovered": False, "commit_hash": COMMIT, "remaining_steps": 1},
    "next": "tugcode next",
}
LOST = {"recovered": True, "commit_hash": COMMIT, "state_failure_reason": "drift"}
NOT_DONE = {**DONE, "completed": False, "checkpoints": [], "commit": LOST}

SCENES: dict[str, Callable[[Repo, Path], Draw]] = {
    "list": of_list,
    "list-nothing": of_nothing,
    "graph": of_graph("bookshelf"),
    "graph-named": of_graph("named"),
    "graph-sixty": of_graph("sixty"),
    "graph-wide": of_graph("キャッシュ"),
    "plan": of_plan("bookshelf"),
    "plan-wide": of_plan("キャッシュ"),
    "step": of_plan("bookshelf", "step-2"),
    "validate": of_validate("bookshelf", "faulty", "odd"),
    "validate-sound": of_validate("bookshelf"),
    "ready": of_ready,
    "next": lambda *_: lambda canvas: next_command.draw_next(canvas, STEP, ROOT),
    "done": lambda *_: lambda canvas: next_command.draw_done(canvas, DONE),
    "done-not": lambda *_: lambda canvas: next_command.draw_done(canvas, NOT_DONE),
}


@pytest.mark.parametrize("colour", [False, True], ids=["plain", "colour"])
@pytest.mark.parametrize("name", SCENES)
def test_a_page_is_the_one_that_was_looked_at_and_keeps_the_rules(shelf, tmp_path, name, colour):
    check_page(PAGES, name, SCENES[name](shelf, tmp_path), colour=colour)


def test_there_is_a_file_for_each_page_and_no_other():
    files = {file.stem for file in PAGES.iterdir()}
    assert files == {f"{name}{end}" for name in SCENES for end in ("", "-colour")}


def test_the_first_line_of_next_leads_to_the_worktree_from_where_the_person_is():
    for here, where in ((ROOT, ".tugtree/tugplan__cache-1"), (RED, "."), ("/srv/else/where", RED)):
        canvas = Canvas(80)
        next_command.draw_next(canvas, STEP, here)
        assert canvas.lines[0] == f"cd {where}"
    whole = Canvas(UNBOUNDED)
    next_command.draw_next(whole, STEP, ROOT)
    assert whole.lines[0] == f"cd {RED}"


@functools.cache
def _desk() -> tuple[tempfile.TemporaryDirectory, Repo]:
    """One repository for all random plans; its directory goes with the process."""
    directory = tempfile.TemporaryDirectory()
    return directory, Repo.init(Path(directory.name))


def hold(lines: list[str]) -> None:
    """The numbers of `list` and `plan graph` are those of their data, at every width."""
    _, repo = _desk()
    repo.plan("work", markdown(*lines))
    repo.write({".tugtool/tugplan-odd.md": b"# x\n\xff\n"})
    place = discover(str(repo.path))
    listed, _ = overview.list_plans(place)
    graph = overview.plan_graph(place, "work", cwd=str(repo.path))
    for width in (*WIDTHS, UNBOUNDED):
        checks.list_text(listed, width)
        checks.graph_text(graph, width)


FAN = ["1 t", "1.1 tt < 1", *(f"{n} te < 1" for n in range(2, 14)), "14 < 1.1 2 3 4 5 6 7 8 9 10"]


def test_a_wide_plan_is_counted_right():
    hold(FAN)


@examined(short=40)
@given(random_plans())
def test_list_and_plan_graph_count_right(lines):
    hold(lines)


WRONG = {
    "graph counts from zero": ("many", lambda count, *names: f"{count - 1} {names[0]}s"),
    "graph forgets what a step needs": (
        "_node",
        lambda canvas, step, *how, node=tables._node: node(
            canvas, {**step, "needs": step["needs"][1:]}, *how
        ),
    ),
    "graph marks every step": (
        "_node",
        lambda canvas, step, wave, critical, node=tables._node: node(canvas, step, wave, True),
    ),
    "list forgets checkpoints and tests": ("_KIND_NAMES", {"task": "tasks"}),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_count_that_is_wrong_is_noticed(monkeypatch, fault):
    monkeypatch.setattr(tables, *WRONG[fault])
    with pytest.raises(AssertionError):
        hold(FAN)
