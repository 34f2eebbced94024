"""The picture of a plan, held against files that people have looked at.

`TUG_PICTURES=write make test` writes tests/pictures/ anew; look at the difference before
committing it. In files with colours an escape is written as `^[`, so that they can be read.
"""

import os
from pathlib import Path

import pytest

from picture_scenes import AGREED, FOUND, ROOT, SCENES, drift
from tugtool.cli import picture
from tugtool.cli.canvas import Canvas, cells
from tugtool.cli.picture import Look
from tugtool.cli.sight import Seen

PICTURES = Path(__file__).parent / "pictures"

#: file -> scene, width, and how it is drawn
VIEWS: dict[str, tuple[str, int, dict]] = {
    **{f"{scene}-80": (scene, 80, {}) for scene in SCENES},
    "at_work-120": ("at_work", 120, {}),
    "at_work-40": ("at_work", 40, {}),
    "at_work-unbounded": ("at_work", 100_000, {}),
    "at_work-80-colour": ("at_work", 80, {"colour": True}),
    "at_work-40-colour": ("at_work", 40, {"colour": True}),
    "at_work-80-ascii": ("at_work", 80, {"encoding": "ascii"}),
    "at_work-80-checklist": ("at_work", 80, {"every_item": True}),
    "at_work-40-checklist": ("at_work", 40, {"every_item": True}),
    "at_work-80-drift": ("at_work", 80, {"warning": drift()}),
    "at_work-40-drift": ("at_work", 40, {"warning": drift()}),
    "fresh-80-gone": ("fresh", 80, {"warning": drift(None)}),
    "forced-80-checklist": ("forced", 80, {"every_item": True}),
    "forced-120-colour": ("forced", 120, {"colour": True}),
    "parked-40": ("parked", 40, {}),
    "parked-80-colour": ("parked", 80, {"colour": True}),
    "expired-80-colour": ("expired", 80, {"colour": True}),
    "wide-120": ("wide", 120, {}),
    "wide-40": ("wide", 40, {}),
    "wide-40-checklist": ("wide", 40, {"every_item": True}),
    "wide-40-ascii": ("wide", 40, {"encoding": "ascii"}),
    "sixty-120": ("sixty", 120, {}),
    "sixty-40": ("sixty", 40, {}),
}


def drawn(plan: dict, width: int, **how: object) -> Canvas:
    look = Look(root=ROOT, every_item=bool(how.pop("every_item", False)))
    warning = how.pop("warning", ())
    canvas = Canvas(width, **how)
    picture.draw(canvas, plan, look, warning)
    return canvas


@pytest.fixture
def scene(tmp_path_factory):
    return lambda name: SCENES[name](tmp_path_factory.mktemp("scene"))


def kept(name: str, text: str) -> str:
    """What the file has; written first if that is wanted."""
    file = PICTURES / f"{name}.txt"
    text = text.replace("\x1b", "^[")
    if os.environ.get("TUG_PICTURES") == "write":
        file.write_text(text)
    return file.read_text().replace("^[", "\x1b")


@pytest.mark.parametrize("name", VIEWS)
def test_a_picture_is_the_one_that_was_looked_at(scene, name):
    which, width, how = VIEWS[name]
    canvas = drawn(scene(which), width, **how)
    assert canvas.text() == kept(name, canvas.text())
    if not how.get("colour"):
        assert max(map(cells, canvas.lines)) <= width


def test_every_picture_is_of_a_view_and_a_changed_one_is_noticed(scene, monkeypatch):
    monkeypatch.delenv("TUG_PICTURES", raising=False)
    mine = {file.stem for file in PICTURES.iterdir() if not file.stem.startswith("status-")}
    assert mine == set(VIEWS)
    plan = scene("at_work")
    plan["steps"][0]["title"] = "Create API klient"
    assert drawn(plan, 80).text() != kept("at_work-80", "")


def test_every_fact_of_the_documents_is_shown(scene):
    text = drawn(scene("at_work"), 80).text()
    for fact in (
        "Plan: .tugtool/tugplan-work.md [active]",
        "✓ step-0 - Create API client [completed]",
        "  Tasks:       2/2  ████████████ 100%",
        "  Checkpoints: 2/2  ████████████ 100%",
        "  Commit: abc123d\n",
        "→ step-1 - Add caching layer [in_progress] (claimed by tugplan__cache-1)",
        "    [ ] Add cache invalidation    ← in_progress",
        "    [ ] Wire up to API client",
        "  Tests:       1/3  ████░░░░░░░░  33%",
        "  Lease: expires in 1h 45m",
        "  ✓ step-1-1 - Cache store implementation [completed]",
        "    Tasks:       2/2  ████████████ 100%",
        "  → step-1-2 - Cache invalidation [in_progress]",
        "    Tests:       0/1  ░░░░░░░░░░░░   0%",
        "· step-2 - Add monitoring [pending] (blocked by: step-1)",
        "Overall: 1/3 steps complete (33%)",
    ):
        assert fact in text, fact
    assert "[x]" not in text  # the summary lists what is unfinished


def test_a_step_s_counts_include_those_of_its_substeps(scene):
    step = scene("at_work")["steps"][1]
    assert step["counts"]["task"]["completed"] == 1
    assert "  Tasks:       3/7  █████░░░░░░░  42%" in drawn(scene("at_work"), 80).text()


def test_deferred_items_count_apart_and_carry_their_reason(scene):
    text = drawn(scene("at_work"), 120, every_item=True).text()
    assert "  Checkpoints: 0/2 +2 deferred  ▒▒▒▒▒▒▒▒▒▒▒▒   0%" in text
    assert "[~] `make test` passes    (deferred)\n" in text
    reason = '(deferred) "needs eyes on the log of the staging server"\n'
    assert f"[~] Look at the log: one request, not two    {reason}" in text
    assert "[x] Implement cache store\n" in text


def test_a_forced_completion_carries_its_reason_for_ever(scene):
    text = drawn(scene("forced"), 120).text()
    assert '[completed] (forced: "reviewer approved with minor caveats")' in text
    assert "Overall: 3/3 steps complete (100%)" in text


def test_an_expired_lease_and_a_holder_that_is_gone_say_so(scene):
    assert "  Lease: expired 5m ago\n" in drawn(scene("expired"), 80).text()
    assert "  Holder: its process 4242 is gone\n" in drawn(scene("gone"), 80).text()


def test_what_is_parked_and_paused_says_so(scene):
    text = drawn(scene("parked"), 120).text()
    assert "[active, paused]" in text
    assert "Paused 1d 2h ago: nothing new is claimed." in text
    assert '[pending] (parked: "the staging server is down until Monday")' in text


def test_a_holder_on_its_last_attempt_is_at_work_until_it_is_lost(scene):
    plan = scene("at_work")
    step = plan["steps"][1]
    step["parked_at"], step["park_reason"] = plan["as_of"], "5 claims without progress"
    text = drawn(plan, 120).text()
    assert "→ step-1 - " in text
    assert '(claimed by tugplan__cache-1; parked: "5 claims without progress")' in text
    step["lease_expired"] = True
    assert "‖ step-1 - " in drawn(plan, 120).text()


def test_the_reader_of_a_file_gets_every_name_and_whole_lines(scene):
    plan = scene("sixty")
    blockers = ", ".join(f"step-{n}" for n in range(31, 60))
    assert f"(blocked by: {blockers})\n" in drawn(plan, 100_000).text()
    assert ", step-36 and 23 more)\n" in drawn(plan, 200).text()


def test_drift_is_said_in_the_documents_words_with_short_hashes(scene):
    text = drawn(scene("fresh"), 80, warning=drift()).text()
    assert (
        "⚠ Plan file has been modified since state was initialized.\n"
        f"  State tracks execution of the original plan (hash: {AGREED[:12]}...).\n"
        f"  Current file hash: {FOUND[:12]}...\n"
    ) in text
    plan = {"plan_path": "x", "plan_hash": AGREED}
    assert Seen({"plans": [plan]}, {}).warning(plan) == []


@pytest.mark.parametrize(
    ("worktree", "name"),
    [
        (ROOT, "the main worktree"),
        (f"{ROOT}/.tugtree/red", "red"),
        (f"{ROOT}/deep/red", "deep/red"),
        ("/home/ann/red", "../red"),
        ("/srv/red", "/srv/red"),
    ],
)
def test_a_holder_is_named_as_shortly_as_can_be(scene, worktree, name):
    plan = scene("at_work")
    plan["steps"][1]["claimed_by"] = worktree
    assert f"(claimed by {name})" in drawn(plan, 80).text()


def test_a_later_attempt_is_counted(scene):
    text = drawn(scene("taken_over"), 80).text()
    assert "(claimed by tugplan__cache-2, attempt 2)" in text
    assert "Lease: expires in 42s" in text


def test_a_bar_is_full_only_when_all_is_done_and_never_empty_when_something_is():
    canvas = Canvas(80)
    assert "".join(picture.bar(canvas, 999, 0, 1000, 12)) == "█" * 11 + "░"
    assert "".join(picture.bar(canvas, 1, 1, 1000, 12)) == "█▒" + "░" * 10
    assert "".join(picture.bar(canvas, 1, 1, 2, 12)) == "██████▒▒▒▒▒▒"
    assert "".join(picture.bar(canvas, 0, 0, 0, 12)) == "░" * 12
    assert (picture.percent(999, 1000), picture.percent(0, 0)) == (99, 100)


def test_hostile_text_acts_on_nothing(scene):
    plan = scene("at_work")
    for step in plan["steps"]:
        step["title"] = "a\x1b[31m\nb\u202ec\x00" + "x" * 5000
    plan["plan_path"] = "\x1b]0;owned\x07plan"
    for item in plan["checklist_items"]:
        item["text"] = item["reason"] = "\x9b2J" + "\u200b" * 9000
    for width in (40, 100_000):
        for every_item in (False, True):
            text = drawn(plan, width, every_item=every_item).text()
            assert all(line.isprintable() for line in text.split("\n"))
