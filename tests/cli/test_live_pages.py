"""The live frames of `show --watch` and `implement`, on a real terminal of every width.

One process is looked at while its terminal is pulled to each width: as a person would do it.
What time alone changes is masked before a frame is held against the file that was looked at.
"""

import os
import re
from pathlib import Path

import pytest

from support.picture_rules import WIDTHS, broken_rules
from support.terminals import Terminal, tugcode

PAGES = Path(__file__).with_name("live_pages")
CYAN_BOLD = ("cyan", True)
TITLES = {
    "Part 1": "Read digits in every script that there is",
    "Part 2": "Report each error with its line and column",
}


@pytest.fixture
def started():
    made: list[Terminal] = []

    def start(*words: object, at: Path, **env: str) -> Terminal:
        made.append(Terminal(tugcode(*words, at=at), columns=120, lines=30, **env))
        return made[-1]

    yield start
    for each in made:
        each.close()


def masked(text: str) -> str:
    """A frame without what differs from one moment, day or machine to the next."""
    for pattern, same in (
        (r"\d\d:\d\d:\d\d", "12:00:00"),
        (r"\b[0-9]{1,2}s\b", "0s"),
        (r"lease [\dhms ]+", "lease 2h"),
        (r"(tugplan__work)-\d{8}", r"\1-20260223"),
    ):
        text = re.sub(pattern, same, text)
    return text


def read(name: str) -> dict[int, str]:
    """The frames that were looked at: width -> what the terminal shows."""
    found = re.split(r"(?m)^(\d+)\n", (PAGES / f"{name}.txt").read_text())[1:]
    return {int(width): text[:-1] for width, text in zip(found[::2], found[1::2], strict=True)}


def hold(name: str, terminal: Terminal) -> None:
    """At each width the terminal comes to show the frame that was looked at."""
    if os.environ.get("TUG_PICTURES") == "write":
        PAGES.mkdir(exist_ok=True)
        said = "".join(f"{width}\n{_settled(terminal, width)}\n" for width in WIDTHS)
        (PAGES / f"{name}.txt").write_text(said)
    for width, frame in read(name).items():
        terminal.resize(width, 30)
        terminal.until(lambda seen, frame=frame: masked(seen.display.text) == frame)


def _settled(terminal: Terminal, width: int) -> str:
    terminal.resize(width, 30)
    before = terminal.raw.count(b"\x1b[H")
    # The first may have been under way when the size changed.
    terminal.until(lambda seen: seen.raw.count(b"\x1b[H") >= before + 2)
    return masked(terminal.display.text)


def complaints(found: dict[int, str]) -> list[str]:
    """The rules that frames break; no line of the widest is folded."""
    return [each for width in found for each in broken_rules(found[width], found[120], width)]


def colours(terminal: Terminal) -> set[tuple[str, bool]]:
    """Every colour on the screen, and whether it is bold."""
    rows = terminal.display.buffer.values()
    return {(cell.fg, cell.bold) for row in rows for cell in row.values() if cell.data.strip()}


def rename(plan: Path) -> None:
    text = plan.read_text()
    for short, title in TITLES.items():
        text = text.replace(short, title)
    plan.write_text(text)


@pytest.mark.parametrize("env", [{}, {"NO_COLOR": "1"}], ids=["colour", "plain"])
def test_the_frames_of_watch_are_those_that_were_looked_at(desk, started, env):
    desk = desk("1 tt", "2 t < 1", "3 t < 2", init=False)
    rename(desk.plan)
    rename(desk.red / desk.plan.relative_to(desk.repo.path))
    desk.ok("init", "work")
    desk.ok("claim", "work")
    desk.ok("update", "work", "step-1", "--task", 0, "deferred", "--reason", "needs eyes")
    seen = started("show", "work", "--watch", at=desk.repo.path, **env)
    seen.until_text("1 at work")
    hold("watch", seen)
    assert (CYAN_BOLD in colours(seen)) == (not env)
    if env:
        assert {colour for colour, _ in colours(seen)} == {"default"}


@pytest.mark.parametrize("env", [{}, {"NO_COLOR": "1"}], ids=["colour", "plain"])
def test_the_frames_of_implement_are_those_that_were_looked_at(play, started, env):
    play = play("1 t", "2 t < 1")
    play.rules({"role": "coder", "do": [{"wait_for": "../../go"}]})
    seen = started("implement", "work", at=play.root, **env)
    seen.until_text("→ 1  Part 1  coder ")
    hold("implement", seen)
    assert (CYAN_BOLD in colours(seen)) == (not env)
    (play.root / "go").touch()
    assert seen.end() == 0
    assert "done: 2 of 2 steps" in seen.display.text


@pytest.mark.parametrize("name", ["watch", "implement"])
def test_every_frame_keeps_the_rules_and_one_that_does_not_is_noticed(name):
    found = read(name)
    assert list(found) == list(WIDTHS)
    assert complaints(found) == []
    assert complaints({**found, 40: found[40].replace("\n  1 at work", "\n1 at work")})
    assert complaints({**found, 40: found[80]})
