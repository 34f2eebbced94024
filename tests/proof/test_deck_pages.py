"""The page in a real Chromium: every view, theme and width, with plans of every length.

axe finds nothing, the console is silent, the policy is not breached, no other origin is asked,
and nothing scrolls sideways. What a reader of the screen hears is kept as text. A short round
takes a random share of the table; TUG_MINUTES of 30 and more takes all of it.
"""

import os
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from support import deck_scenes
from support.browser import Eye, chromium, heard
from support.deck_scenes import SIZES
from support.proving import MINUTES
from support.server import Process

pytestmark = pytest.mark.proof(share=0)

KEPT = Path(__file__).parent / "deck_pages"
WIDTHS, THEMES = (1280, 390, 320), ("light", "dark")
VIEWS = {
    "now": "/",
    "rail": "/p/long",
    "panel": "/p/long?s=step-3",
    "step": "/p/long/s/step-3",
    "parked": "/p/long/s/{parked}",
    "map": "/p/long/map",
    "text": "/p/long/text",
    "timeline": "/p/long/time",
    "log": "/p/long/log",
    "figures": "/p/long/figures",
    "review": "/review",
    "workers": "/workers",
    "events": "/log",
    "about": "/about",
}
#: Without a plan there is no page of one.
EMPTY = ("now", "review", "workers", "events", "about")
TABLE = [(size, view) for size in SIZES for view in VIEWS if size or view in EMPTY]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as made:
        yield made


@pytest.fixture(scope="module")
def servers(tmp_path_factory) -> Iterator[dict[int, Process]]:
    """A server for each length, started when it is first needed."""
    made = _Servers(tmp_path_factory.mktemp("deck"))
    yield made
    for each in made.values():
        with each:
            pass


class _Servers(dict):
    def __init__(self, place: Path) -> None:
        super().__init__()
        self.place = place

    def __missing__(self, size: int) -> Process:
        root = deck_scenes.make(self.place / str(size), size)
        self[size] = Process(root)
        return self[size]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory) -> Iterator[Process]:
    """A server whose night has just ended: pages say how long ago everything was."""
    with Process(deck_scenes.make(tmp_path_factory.mktemp("fresh") / "25", 25)) as server:
        yield server


def path_of(view: str, size: int) -> str:
    return VIEWS[view].format(parked=f"step-{size * 3 // 5 + 1}")


def chosen(size: int, view: str) -> list[tuple[str, int]]:
    """The themes and widths to look at: in a short round, one of the six for each view."""
    every = [(theme, width) for theme in THEMES for width in WIDTHS]
    if MINUTES >= 30:
        return every
    chance = random.Random(f"{os.environ.get('TUG_SEED', '')}{size}{view}")
    return [chance.choice(every)]


@pytest.mark.parametrize(("size", "view"), TABLE, ids=[f"{view}-{size}" for size, view in TABLE])
def test_a_view_is_clean_in_every_theme_and_width(browser, servers, size, view):
    for theme, width in chosen(size, view):
        eye = Eye(browser, servers[size], width, color_scheme=theme, has_touch=width < 500)
        try:
            eye.open(path_of(view, size))
            assert (eye.violations(), eye.wrongs()) == ([], []), (theme, width)
        finally:
            eye.close()


@pytest.mark.parametrize("view", VIEWS)
def test_a_reader_of_the_screen_hears_what_is_kept(browser, fresh, view):
    # Where it is early in the afternoon, so that the whole night was today.
    east = 14 - datetime.now(UTC).hour
    eye = Eye(browser, fresh, timezone_id=f"Etc/GMT{-east:+d}" if east else "UTC")
    try:
        said = heard(eye.open(path_of(view, 25)))
    finally:
        eye.close()
    file = KEPT / f"{view}.yaml"
    if os.environ.get("TUG_PICTURES") == "write":
        file.parent.mkdir(exist_ok=True)
        file.write_text(said)
    assert said == file.read_text()


PLANTED = {
    "an image of another origin": (
        "const i = new Image(); i.src = 'http://other.invalid/x.png'; document.body.append(i);"
        " await new Promise((done) => { i.onerror = done; })",
        "policy img-src",
    ),
    "a message": ("console.warn('so')", "console warning: so"),
    "a line that is too wide": (
        "const p = document.createElement('p'); p.textContent = 'x'.repeat(900);"
        " document.body.append(p)",
        "px too wide",
    ),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_breach_is_noticed(browser, servers, fault):
    script, found = PLANTED[fault]
    eye = Eye(browser, servers[7], 390)
    try:
        eye.open("/").evaluate(f"async () => {{ {script} }}")
        assert any(found in each for each in eye.wrongs())
    finally:
        eye.close()


def test_axe_and_the_reader_notice_what_is_missing(browser, servers):
    eye = Eye(browser, servers[7])
    try:
        page = eye.open("/p/long")
        before = heard(page)
        page.evaluate("document.querySelector('[data-theme-button]').removeAttribute('aria-label')")
        page.evaluate("document.querySelector('.search').setAttribute('role', 'meter')")
        page.evaluate("document.querySelector('[data-row] .title').textContent = ''")
        assert eye.violations()
        assert heard(page) != before
    finally:
        eye.close()


def test_what_is_shown_does_not_move_while_it_is_frozen(browser, servers):
    """Three pictures of one tab are the same to the pixel; a row that changes moves no row."""
    eye = Eye(browser, servers[60])
    try:
        page = eye.open("/p/long")
        page.keyboard.press("z")
        page.locator("[data-banner=frozen]").wait_for()
        shots = {page.screenshot() for _ in range(3)}
        assert len(shots) == 1
        page.keyboard.press("z")
        page.locator("[data-banner=frozen]").wait_for(state="detached")
        boxes = "() => [...document.querySelectorAll('[data-row]')].map((e) => e.offsetTop)"
        before = page.evaluate(boxes)
        body = b'{"plan": "long", "reason": "to look", "step": "step-37"}'
        answer = eye.server.request("POST", "/api/v1/state/reset", body)
        assert answer.status == 200, answer.body
        eye.wait_seq(int(answer.headers["tug-seq"]))
        assert page.evaluate(boxes) == before
    finally:
        eye.close()


def test_an_item_is_not_offered_for_rejection_while_steps_are_built_on_it(browser, servers):
    """And no page suggests a forced command."""
    eye = Eye(browser, servers[25])
    try:
        page = eye.open("/review")
        case = page.locator(".case")
        page.locator(".queue [data-need=deferred]").last.click()
        case.locator("[data-action=reject]").wait_for()
        assert "--reject --step step-15" in case.inner_text()
        page.locator("[aria-label='Not proven'] a").first.click()
        case.locator(".notice").wait_for()
        assert "while steps are built on it: step-2." in case.inner_text()
        assert case.locator("[data-action=reject]").count() == 0
        assert case.locator("[data-action=accept]").count() == 1
        assert "--force" not in page.locator("main").inner_text()
    finally:
        eye.close()


@pytest.mark.parametrize("tab", ["map", "time"])
def test_on_a_narrow_screen_a_tap_on_a_step_opens_its_page(browser, servers, tab):
    """There is no room for a panel beside the map or the timeline."""
    eye = Eye(browser, servers[25], 390, has_touch=True)
    try:
        page = eye.open(f"/p/long/{tab}")
        page.locator("[data-row][href*='s=step-3']").first.click()
        page.locator(".step-page").wait_for()
        assert "step-3" in page.locator(".step-head").inner_text()
    finally:
        eye.close()


def test_a_step_that_an_address_selects_is_in_view(browser, servers):
    eye = Eye(browser, servers[60])
    try:
        page = eye.open("/p/long?s=step-50")
        page.wait_for_function(
            "() => { const row = document.querySelector('.row[aria-current]');"
            " const { top, bottom } = row.getBoundingClientRect();"
            " return top > 44 && bottom < innerHeight; }"
        )
    finally:
        eye.close()


def test_the_map_begins_where_the_work_is_and_the_log_marks_only_what_failed(browser, servers):
    eye = Eye(browser, servers[60], 390)
    try:
        page = eye.open("/p/long/map")
        box = page.locator("[data-step=step-37]").bounding_box()
        assert box is not None
        assert 0 <= box["x"] < 390
        assert 0 <= box["y"] < 860
        # Three steps a wave are three boxes high, however many waves come before.
        boxes = "() => [...document.querySelectorAll('.map .box')]"
        every = page.evaluate(f"{boxes}.map((each) => each.getBoundingClientRect().y)")
        assert len(every) == 60
        assert max(every) - min(every) < 3 * 66
        failed = eye.open("/p/long/log").locator("li.failed .said").all_inner_texts()
        assert failed
        assert [said for said in failed if "passed" in said] == []
    finally:
        eye.close()


def test_the_timeline_ends_a_lost_worker_with_its_lease_and_has_the_plans_figures(browser, servers):
    eye = Eye(browser, servers[25])
    try:
        worked = eye.open("/p/long/figures").locator("[data-figure=worked] dd").inner_text()
        page = eye.open("/p/long/time")
        lost = page.locator("[data-attempt='step-17/1']")
        assert lost.get_attribute("data-outcome") == "stale"
        assert "stale, 10m" in (lost.get_attribute("aria-label") or "")
        assert f"worked {worked}" in page.locator("p.legend").first.inner_text()
        assert eye.open("/").locator(".plans [data-standing=stale]").count() == 1
    finally:
        eye.close()


def test_what_is_nearly_level_is_level(browser, servers):
    """Boxes of the map stand on common lines; on a phone, what is for you beside the name."""
    eye = Eye(browser, servers[7], 390)
    try:
        name, you = (
            eye.open("/").locator(f".plans {each}").bounding_box() for each in ("th a", "td.you")
        )
        assert name is not None
        assert you is not None
        assert abs(name["y"] - you["y"]) < 8
        page = eye.open("/p/long/map")
        tops = "[...document.querySelectorAll('.map .box')].map((e) => e.getBoundingClientRect().y)"
        found = page.evaluate(f"() => {tops}")
        assert len(found) == 7
        # A third of a box with the gap below it.
        assert {round(each - min(found), 3) % 22 for each in found} == {0}
    finally:
        eye.close()


def test_paper_is_light_also_for_those_who_chose_dark(browser, servers):
    eye = Eye(browser, servers[7], color_scheme="dark")
    try:
        page = eye.open("/p/long/figures")
        ground = "() => getComputedStyle(document.documentElement).getPropertyValue('--ground')"
        assert page.evaluate(ground) == "#14171c"
        page.emulate_media(media="print", color_scheme="dark")
        for _ in ("system", "light", "dark"):
            assert page.evaluate(ground) == "#ffffff"
            page.keyboard.press("t")
    finally:
        eye.close()
