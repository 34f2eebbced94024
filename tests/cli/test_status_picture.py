"""The picture of `tugcode status`, held against files that people have looked at.

They are written, and shown to whoever changes them, as those of test_picture.py.
"""

from pathlib import Path

import pytest

from cli.test_picture import PICTURES, kept
from support.picture_rules import WIDTHS, check
from support.picture_scenes import BLUE, CACHE, RED, ROOT, WIDE
from support.state import Lab, entry, markdown
from support.state_walk import NOBODY
from tugtool import state
from tugtool.cli.draw import status
from tugtool.cli.draw.canvas import Canvas
from tugtool.workflow import needs as workflow_needs
from tugtool.workflow import overview

ELSEWHERE = "/srv/agents/green"
#: Done, at work, expired, gone, parked by somebody, ready, blocked.
EVERY = ("1 te", "2 ttc", "2.1 t", "3 t < 1", "4 t", "5 t", "6 t", "7 t < 2 3")


def every_state(lab: Lab) -> None:
    lab.finish("step-1", RED)
    lab.claim(BLUE, "step-3", lease_seconds=300)
    lab.claim(ELSEWHERE, "step-4", holder_pid=NOBODY)
    lab.claim(RED, "step-5")
    lab.release("step-5", RED, park_reason="the staging server is down until Monday")
    lab.clock.advance(900)
    lab.claim(RED, "step-2")
    lab.update("step-2", entry("c0", "deferred", reason="needs eyes"), owner=RED)
    lab.tick("step-2-1", "t0", status="deferred", owner=RED)
    lab.clock.advance(60)


def on_hold(lab: Lab) -> None:
    """Paused, with one item put off and one on its last attempt."""
    lab.clock.advance(900)
    lab.claim(RED, "step-0", max_attempts=1)
    lab.update("step-0", entry("c1", "deferred", reason="later"), owner=RED)
    lab.pause()
    lab.clock.advance(60)


def finished(lab: Lab) -> None:
    lab.finish("step-1", RED)
    lab.clock.advance(960)


def crowded(lab: Lab) -> None:
    """More claims and parked steps than are listed."""
    for number in range(1, 11):
        lab.claim(f"{ROOT}/.tugtree/crowd-{number}", f"step-{number}")
    for number in range(11, 21):
        lab.claim(RED, f"step-{number}")
        lab.release(f"step-{number}", RED, park_reason=f"reason {number}")
    lab.clock.advance(960)


def set_aside(lab: Lab) -> None:
    lab.archive()
    lab.clock.advance(960)


def unusual(lab: Lab) -> None:
    lab.clock.advance(960)
    lab.claim(RED)


#: Slug -> its text, what happened, and how it is with its file.
PLANS = {
    "cache": (markdown(*EVERY), every_state, "present"),
    "client": (CACHE, on_hold, "changed"),
    "crowd": (markdown(*(f"{n} t" for n in range(1, 22))), crowded, "gone"),
    "done": (markdown("1 t"), finished, "gone"),
    "given-up": (markdown("1 t", "2 t < 1"), set_aside, "present"),
    "キャッシュ層を追加する計画-in-many-words": (WIDE, unusual, "present"),
}


def recorded(directory: Path, *slugs: str) -> tuple[str, list[dict]]:
    """What `state.status` says of the plans, each in a database of its own, at one moment."""
    plans, times = [], set()
    for number, slug in enumerate(slugs):
        text, happen, file = PLANS[slug]
        (directory / str(number)).mkdir()
        lab = Lab(directory / str(number), text=text)
        happen(lab)
        told = state.status(lab.store)
        lab.store.close()
        times.add(told["as_of"])
        key = f".tugtool/tugplan-{slug}.md"
        facts = {"recorded": True, "file": file, **told["plans"][0], "plan_path": key}
        plans.append({**overview._names(key), "renamed_to": None, **facts})
    (as_of,) = times
    return as_of, plans


def unrecorded(slug: str, total: int, completed: int, *, file: str) -> dict:
    """A plan that is only a text."""
    steps = dict.fromkeys(("total", "completed", "held", "ready", "blocked", "parked"), 0)
    items = {"total": total, "completed": completed, "deferred": 0}
    facts = {"recorded": False, "status": None, "paused_at": None, "file": file}
    facts |= {"merged_commit": None, "commits": 0, "last_run": None, "changed_outside": 0}
    facts |= {"run_since": None}
    facts["renamed_to"] = None
    lists = {"steps": steps, "items": items, "claims": [], "parked": [], "audit": None}
    title = "A plan for later" if file == "present" else None
    return {**overview._names(f".tugtool/tugplan-{slug}.md"), **facts, "title": title, **lists}


def worktree(path: str, branch: str | None, *holds: str, **facts: bool) -> dict:
    held = [{"plan_path": "x", "anchor": anchor, "stale": None} for anchor in holds]
    usual = {"main": path == ROOT, "registered": branch is not None, "exists": True}
    return {"path": path, "branch": branch, **usual, **facts, "holds": held}


def dash(name: str, rounds: int, as_of: str, description: str | None = None) -> dict:
    facts = {"name": name, "rounds": rounds, "description": description, "base_branch": "main"}
    names = {"branch_name": f"tugdash/{name}", "worktree_path": f"{ROOT}/.tugtree/tugdash__{name}"}
    return {**facts, **names, "updated_at": as_of}


def answer(as_of: str | None, plans: list[dict], *worktrees: dict, archived: int = 0) -> dict:
    needs = [need for plan in plans for need in workflow_needs.recorded(plan)]
    data = {"root": ROOT, "as_of": as_of, "plans": plans, "worktrees": list(worktrees)}
    data["dashes"] = []
    return {**data, "needs_you": needs, "archived": archived, "server": None}


def busy(directory: Path) -> dict:
    """Every state that a plan, a step, a claim, a file and a worktree can be in."""
    as_of, plans = recorded(directory, *PLANS)
    plans += [unrecorded("later", 7, 3, file="present"), unrecorded("odd", 0, 0, file="unreadable")]
    trees = (
        worktree(ROOT, "main"),
        worktree(RED, "tugplan/cache-1", "step-2", "step-0"),
        worktree(BLUE, "tugplan/cache-2", "step-3", exists=False),
        worktree(f"{ROOT}/.tugtree/idle", "idle"),
        worktree(ELSEWHERE, None, "step-4", exists=False),
        worktree(f"{ROOT}/.tugtree/tugdash__fix-typo", "tugdash/fix-typo"),
        worktree(f"{ROOT}/.tugtree/tugdash__lost", "tugdash/lost", exists=False),
    )
    dashes = [
        dash("fix-typo", 1, as_of),
        dash(
            "lost",
            12,
            "2026-02-23T09:00:00.000Z",
            "Why is \x1b[31mthe cache of the client so cold?",
        ),
    ]
    return {**answer(as_of, plans, *trees, archived=2), "dashes": dashes}


def calm(directory: Path) -> dict:
    """Nothing to do."""
    return answer(*recorded(directory, "done"), worktree(ROOT, "main"))


def empty(directory: Path) -> dict:
    """Nothing at all."""
    return answer(None, [], worktree(ROOT, "main"))


#: file -> scene, width, and how it is drawn
VIEWS: dict[str, tuple] = {
    **{f"status-{width}": (busy, width, {}) for width in WIDTHS},
    **{f"status-{width}-colour": (busy, width, {"colour": True}) for width in WIDTHS},
    "status-unbounded": (busy, 100_000, {}),
    "status-80-ascii": (busy, 80, {"encoding": "ascii"}),
    "status-40-ascii": (busy, 40, {"encoding": "ascii"}),
    **{f"status-calm-{width}": (calm, width, {}) for width in WIDTHS},
    "status-empty-40": (empty, 40, {}),
}


def drawn(data: dict, width: int, **how: object) -> str:
    canvas = Canvas(width, **how)
    status.draw(canvas, data)
    return canvas.text()


@pytest.mark.parametrize("name", VIEWS)
def test_a_picture_of_everything_is_the_one_that_was_looked_at(tmp_path, name):
    scene, width, how = VIEWS[name]
    data = scene(tmp_path)
    text = check(lambda canvas: status.draw(canvas, data), width, **how)
    assert text == kept(name, text)
    if "encoding" in how:
        assert text.isascii()


def test_every_picture_of_the_status_is_of_a_view_and_a_changed_one_is_noticed(
    tmp_path, monkeypatch
):
    monkeypatch.delenv("TUG_PICTURES", raising=False)
    assert {file.stem for file in PICTURES.glob("status-*")} == set(VIEWS)
    data = busy(tmp_path)
    data["plans"][0]["steps"]["ready"] += 1
    assert drawn(data, 80) != kept("status-80", "")


def test_what_is_not_listed_is_counted(tmp_path):
    data = answer(*recorded(tmp_path, "crowd"))
    text = drawn(data, 80)
    assert (text.count("  → "), text.count("  ‖ ")) == (8, 8)
    assert "  … 2 more at work\n  … 2 more parked\n" in text
    whole = drawn(data, 100_000)
    assert (whole.count("  → "), whole.count("  ‖ ")) == (10, 10)


def test_a_run_tells_its_roles_and_why_it_stopped(tmp_path):
    as_of, plans = recorded(tmp_path, "cache")
    (plan,) = plans
    plan["claims"][0] |= {"role": "reviewer", "role_since": plan["claims"][0]["claimed_at"]}
    plan["last_run"] = {"ended_at": as_of, "status": "stopped", "reason": "it is 07:00"}
    text = drawn(answer(as_of, plans), 80)
    assert "  → 2  Part 2  reviewer 1m, tugplan__cache-1\n" in text
    assert "The last run" not in text  # somebody is at work again
    plan["claims"] = plan["claims"][1:]
    assert "  The last run stopped at 2026-02-23 12:16:00: it is 07:00\n" in drawn(
        answer(as_of, plans), 80
    )


def test_a_done_plan_that_is_not_merged_waits_for_you(tmp_path):
    as_of, plans = recorded(tmp_path, "done")
    plans[0]["commits"] = 1
    text = drawn(answer(as_of, plans), 80)
    assert text.endswith("Needs you\n  done: done, but not merged  tugcode merge done\n")
    plans[0]["merged_commit"] = "abc"
    assert drawn(answer(as_of, plans), 80).endswith("merged  Work\n\nNothing needs you.\n")


def test_hostile_names_act_on_nothing(tmp_path):
    data = busy(tmp_path)
    evil = "\x1b]0;owned\x07\u202e\n" + "x" * 3000
    for plan in data["plans"]:
        plan["slug"] = plan["title"] = evil
        for row in (*plan["claims"], *plan["parked"]):
            row.update(dict.fromkeys(row.keys() & {"title", "park_reason", "claimed_by"}, evil))
    for tree in data["worktrees"]:
        tree["path"] = tree["branch"] = evil
    for width in (40, 100_000):
        assert all(line.isprintable() for line in drawn(data, width).split("\n"))
