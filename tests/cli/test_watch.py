"""`state show --watch` as a real process: on a terminal that is given back whole, and elsewhere."""

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator

import pytest

from conftest import hold_against_schemas
from support.terminals import MAIN, OTHER, PATIENCE_SECONDS, Terminal, tugcode
from tugtool.cli import output, parse
from tugtool.cli.draw import live as draw_live
from tugtool.cli.draw.screen import Screen
from tugtool.cli.state_show import PlanView

SHOW = ("state", "show", "work", "--watch")


@pytest.fixture
def place(desk):
    """A plan of three steps, the first at work in the worktree `red`."""
    desk = desk("1 tt", "2 t < 1", "3 t < 2")
    desk.ok("claim", "work")
    return desk


@pytest.fixture
def terminal():
    made: list[Terminal] = []

    def start(words: list[str], **how) -> Terminal:
        made.append(Terminal(words, **how))
        return made[-1]

    yield start
    for each in made:
        each.close()


@pytest.fixture
def watching(place, terminal):
    """Somebody who watches the plan and has seen the first picture."""

    def start(*words: object, **how) -> Terminal:
        started = terminal(tugcode(*SHOW, *words, at=place.repo.path), **how)
        started.until_text("1 at work")
        return started

    return start


def other_process(place, *words: object) -> None:
    command = tugcode("state", *words, at=place.red)
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_SECONDS)


@contextlib.contextmanager
def database_away(place) -> Iterator[None]:
    """Inside, the database is not where it belongs."""
    home, away = place.repo.path / ".tugtool", place.repo.path / "away"
    away.mkdir()
    names = sorted(file.name for file in home.glob("state.db*"))
    # The database goes first and comes last: without its log it must not be opened.
    for name in names:
        (home / name).rename(away / name)
    yield
    for name in reversed(names):
        (away / name).rename(home / name)


def test_a_change_by_another_process_is_seen_and_no_frame_is_ever_blank(place, watching):
    seen = watching()
    assert seen.display.shown == OTHER
    assert seen.display.cursor.hidden
    first = len(seen.frames)
    other_process(place, "update", "work", "step-1", "--task", 0, "completed")
    seen.until_text("1/2 tasks")
    other_process(place, "update", "work", "step-1", "--task", 1, "completed")
    other_process(place, "complete", "work", "step-1")
    seen.until_text("1/3 steps 33%")
    for frame in seen.frames[first - 1 :]:
        assert frame.startswith("work  Work\n")
        assert " steps " in frame
    assert seen.blanks == 0


def test_a_plan_that_is_done_is_watched_on(place, watching):
    seen = watching()
    for step in ("step-1", "step-2", "step-3"):
        place.ok("claim", "work")
        place.ok("complete", "work", step, "--force", "--reason", "enough")
    seen.until_text("3/3 steps 100%")
    place.ok("reopen", "work", "step-3", "--reason", "again")
    seen.until_text("2/3 steps")


@pytest.mark.parametrize(("key", "status"), [("q", 0), ("Q", 0), ("\x03", 130)])
def test_a_key_ends_it_and_the_terminal_is_as_it_was(watching, key, status):
    seen = watching()
    assert not seen.is_as_it_was()
    seen.press(f"xyz{key}")
    assert seen.end() == status
    assert seen.is_as_it_was()
    assert seen.display.text == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_it_and_the_terminal_is_as_it_was(watching, number):
    seen = watching()
    seen.process.send_signal(number)
    assert seen.end() == (130 if number == signal.SIGINT else -number)
    assert seen.is_as_it_was()


def test_a_failure_gives_the_terminal_back_before_it_is_reported(place, terminal):
    program = (
        "import sys\n"
        "from tugtool.cli import main\n"
        "from tugtool.cli.draw import live\n"
        "def frame(*a, **k): raise RuntimeError('broken picture')\n"
        "live.draw_frame = frame\n"
        "sys.exit(main.main(sys.argv[1:]))\n"
    )
    words = ["-C", str(place.repo.path), *SHOW]
    seen = terminal([sys.executable, "-c", program, *words], lines=50)
    assert seen.end() == 3
    assert seen.is_as_it_was()
    assert "broken picture" in seen.display.text


def test_another_size_is_another_picture(watching):
    seen = watching()
    assert "→ 1  Part 1  at work " in seen.display.text
    seen.resize(24, 40)
    narrow = re.compile(r"→ 1  Part 1\n       at work \w+ · red")
    seen.until(lambda terminal: narrow.search(terminal.display.text) is not None)
    seen.resize(80, 8)
    seen.until_text("… 2 waiting steps")
    assert seen.display.text.startswith("work  ")


def test_stopped_with_ctrl_z_it_gives_the_terminal_back_and_takes_it_again(
    place, terminal, tmp_path
):
    shell = terminal(["sh", "-i"], PS1="ready> ", ENV="")
    shell.until_text("ready>")

    def run(line: str) -> None:
        shell.press(f"{line}; echo the ''end\n")
        shell.until_text("the end")
        shell.press("clear 2>/dev/null || printf '\\033[2J\\033[H'\n")
        shell.until(lambda terminal: terminal.display.text.strip() == "ready>")

    run(f"stty -g >{tmp_path}/before")
    command = " ".join(f"'{word}'" for word in tugcode(*SHOW, at=place.repo.path))
    shell.press(f"{command}\n")
    shell.until_text("1 at work")
    shell.press("\x1a")
    shell.until_text("ready>")
    assert (shell.display.shown, shell.display.cursor.hidden) == (MAIN, False)
    run(f"stty -g >{tmp_path}/stopped")
    place.ok("update", "work", "step-1", "--task", 0, "completed")
    shell.press("fg\n")
    shell.until_text("1/2 tasks")
    assert (shell.display.shown, shell.display.cursor.hidden) == (OTHER, True)
    shell.press("q")
    shell.until_text("ready>")
    run(f"stty -g >{tmp_path}/after")
    settings = [(tmp_path / name).read_text() for name in ("before", "stopped", "after")]
    assert settings[0] == settings[1] == settings[2]


def test_stopped_by_force_it_takes_the_terminal_again_and_still_gives_it_back(watching):
    seen = watching()
    seen.process.send_signal(signal.SIGSTOP)
    os.waitpid(seen.process.pid, os.WUNTRACED)
    termios.tcsetattr(seen.slave, termios.TCSANOW, seen.settings)  # as a shell does
    seen.stream.feed(b"\x1b[?1049l\x1b[?25hshell> ")
    seen.process.send_signal(signal.SIGCONT)
    seen.until_text("1 at work")
    assert (seen.display.shown, seen.display.cursor.hidden) == (OTHER, True)
    seen.press("q")  # a line that has not ended, unless keys come one by one
    assert seen.end() == 0
    assert seen.is_as_it_was()


def _is_in_trouble(terminal: Terminal) -> bool:
    # Where the lines are folded depends on how long the path is.
    return "watching on" in " ".join(terminal.display.text.split())


def test_a_database_that_is_away_for_a_while_is_said_and_watched_on(place, watching):
    seen = watching()
    with database_away(place):
        seen.until(_is_in_trouble)
        assert "0/3 steps" in seen.display.text
    seen.until(lambda terminal: not _is_in_trouble(terminal))
    other_process(place, "update", "work", "step-1", "--task", 0, "completed")
    seen.until_text("1/2 tasks")


def test_it_may_be_watched_before_there_is_a_plan(desk, terminal):
    desk = desk("1 t", init=False)
    seen = terminal(tugcode("state", "show", "--watch", at=desk.repo.path))
    seen.until_text("no plan has a state yet")
    desk.ok("init", "work")
    seen.until_text("0/1 step 0%")


def test_a_plan_that_is_not_there_is_refused_before_the_screen_is_taken(desk, terminal):
    desk = desk("1 t", init=False)
    seen = terminal(tugcode(*SHOW, at=desk.repo.path))
    assert seen.end() == 1
    assert "E063" in seen.display.text
    assert b"\x1b[?1049h" not in seen.raw


def test_without_colours_wanted_there_are_none_but_the_screen_is_still_its_own(watching):
    seen = watching(NO_COLOR="1")
    assert re.search(rb"\x1b\[[0-9;]*m", seen.raw) is None
    assert seen.display.shown == OTHER


def test_whoever_works_comes_first(watching):
    seen = watching()
    assert os.getpriority(os.PRIO_PROCESS, seen.process.pid) == 19


def test_a_frame_is_one_write_and_none_if_nothing_changed(monkeypatch):
    reader, writer = os.pipe()
    with open(writer, "w") as stdout, open(reader, "rb", buffering=0) as written:
        monkeypatch.setattr(sys, "stdout", stdout)
        screen = Screen()
        screen.show(["one", "two"])
        screen.show(["one", "two"])
        frame = written.read(1000)
        screen.show(["one", "three"])
        assert written.read(1000) == frame.replace(b"two", b"three")
    assert frame == b"\x1b[?2026h\x1b[Hone\x1b[K\r\ntwo\x1b[K\x1b[J\x1b[?2026l"


# -- not on a terminal -------------------------------------------------------------------


class Piped:
    """A process whose output is a pipe, read line by line as it comes."""

    def __init__(self, words: list[str], **env: str) -> None:
        surroundings = {**os.environ, **env}
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, env=surroundings)
        self.read = b""

    def until(self, text: str) -> str:
        """Everything up to the end of the line with this text; what follows is kept."""
        while text.encode() not in self.read:
            ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE_SECONDS)
            assert ready, f"not written in time: {self.read!r}"
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            assert data, f"ended: {self.read!r}"
            self.read += data
        before, _, after = self.read.partition(text.encode())
        line, end, self.read = after.partition(b"\n")
        return (before + text.encode() + line + end).decode()


@pytest.fixture
def piped(place):
    made: list[Piped] = []

    def start(*words: object, **env: str) -> Piped:
        made.append(Piped(tugcode(*SHOW, *words, at=place.repo.path), **env))
        return made[-1]

    yield start
    for each in made:
        each.process.kill()
        each.process.wait()
        each.process.stdout.close()


def test_in_a_pipe_the_picture_comes_anew_under_the_time_whenever_it_changes(place, piped):
    reader = piped()
    first = reader.until("1 at work")
    assert re.match(r"--- \d{4}-\d\d-\d\d \d\d:\d\d:\d\d ---\nwork  ", first)
    place.ok("update", "work", "step-1", "--task", 0, "completed")
    second = reader.until("1/2 tasks")
    assert second.count("--- ") == 1
    assert "\x1b" not in first + second


def test_for_programs_each_change_is_an_envelope_on_a_line(place, piped):
    reader = piped("--json")
    first = json.loads(reader.until("\n"))
    place.ok("update", "work", "step-1", "--task", 0, "completed")
    second = json.loads(reader.until("\n"))
    for envelope in (first, second):
        hold_against_schemas(envelope)
        assert envelope["command"] == "state show"
    statuses = [e["data"]["checklist_items"][0]["status"] for e in (first, second)]
    assert statuses == ["open", "completed"]


def test_for_programs_trouble_is_an_envelope_too_and_then_it_goes_on(place, piped):
    reader = piped("--json")
    first = json.loads(reader.until("\n"))
    database = place.repo.path / ".tugtool" / "state.db"
    away = database.with_name("away.db")
    os.rename(database, away)
    second = json.loads(reader.until("\n"))
    os.rename(away, database)
    third = json.loads(reader.until("\n"))
    for envelope in (first, second, third):
        hold_against_schemas(envelope)
    assert (second["status"], [each["code"] for each in second["issues"]]) == ("error", ["E046"])
    assert third["data"]["steps"] == first["data"]["steps"]


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_it_ends_when_nobody_reads_any_more(piped, words):
    reader = piped(*words)
    reader.until("Part 3")
    reader.process.stdout.close()
    assert reader.process.wait(PATIENCE_SECONDS) == 0


def test_interrupted_in_a_pipe_it_ends_with_130(piped):
    reader = piped()
    reader.until("1 at work")
    reader.process.send_signal(signal.SIGINT)
    assert reader.process.wait(PATIENCE_SECONDS) == 130


def test_a_dumb_terminal_gets_lines_and_nothing_else(watching):
    seen = watching(TERM="dumb")
    assert b"\x1b" not in seen.raw
    assert "> 1  Part 1  at work" in seen.display.text


def test_trouble_is_told_once_in_a_pipe_and_then_it_goes_on(place, piped):
    reader = piped()
    reader.until("1 at work")
    with database_away(place):
        assert "! " in reader.until("state.db")
    place.ok("reset", "work", "step-1")
    assert reader.until("1 ready").count("! ") == 0


# -- how often ---------------------------------------------------------------------------


class Hands:
    """Time that is moved by hand."""

    strftime = time.strftime

    def __init__(self) -> None:
        self.now = self.spent = 100.0

    def monotonic(self) -> float:
        return self.now

    def process_time(self) -> float:
        return self.spent


@pytest.fixture
def live(place, monkeypatch):
    """Somebody who watches, in this process, with a clock set by hand."""
    hands = Hands()
    monkeypatch.setattr(draw_live, "time", hands)
    sight = PlanView(_call(place))
    made = draw_live.Live(sight, sight.viewer.read())
    made.hands = hands
    yield made
    sight.viewer.space.store.close()


def _call(place) -> parse.Call:
    call = parse.parse(["state", "show", "work", "--watch"])
    call.cwd = str(place.repo.path)
    return call


def test_it_looks_at_most_once_a_second_and_only_if_something_may_have_changed(live, place):
    assert not live.refreshed()
    live.hands.now += 1
    assert live.refreshed()  # what happened before the first change was noticed
    live.hands.now += 4
    assert not live.refreshed()
    place.ok("heartbeat", "work", "step-1")
    assert live.refreshed()
    place.ok("heartbeat", "work", "step-1")
    live.hands.now += 0.9
    assert not live.refreshed()
    live.hands.now += 0.1
    assert live.refreshed()
    live.hands.now += 5
    assert live.refreshed()  # time alone may have changed something


def test_it_rests_fifty_times_as_long_as_its_last_look_and_picture_took(live, place):
    live.hands.now += 1
    assert live.refreshed()
    live.spent(0.15)
    live.spent(0.05)
    live.hands.now += 9.9
    assert not live.refreshed()
    live.hands.now += 0.1
    assert live.refreshed()


class Script:
    """A screen that somebody sits at who does one thing after the other."""

    def __init__(self, hands: Hands, *events: str, pace: float = 0.25) -> None:
        self.hands, self.events, self.pace = hands, iter(events), pace
        self.drawn = 0

    def size(self) -> tuple[int, int]:
        return 80, 24

    def show(self, lines: list[str]) -> None:
        self.drawn += 1

    def wait(self, seconds: float) -> str:
        self.hands.now += self.pace
        return next(self.events)


@pytest.mark.parametrize(
    ("events", "drawn"), [(["quit"], 1), (["", "", "quit"], 1), (["resized", "interrupt"], 2)]
)
def test_it_draws_anew_when_there_is_something_new_or_the_size_has_changed(live, events, drawn):
    screen = Script(live.hands, *events)
    assert draw_live._watched(live, screen) == events[-1]
    assert screen.drawn == drawn


def test_it_draws_at_most_ten_times_a_second(live, monkeypatch):
    """Somebody pulls at the window for a second, and it is resized a hundred times."""
    screen = Script(live.hands, *["resized"] * 100, "quit", pace=0.01)
    draw_live._watched(live, screen)
    assert 9 <= screen.drawn <= 11
    monkeypatch.setattr(draw_live, "DRAW_SECONDS", 0)
    restless = Script(live.hands, *["resized"] * 100, "quit", pace=0.01)
    draw_live._watched(live, restless)
    assert restless.drawn == 101


def _while(live, monkeypatch, *acts) -> None:
    """Let somebody do one thing after the other, with a look after each."""
    things = iter(acts)

    def listening(seconds: float) -> bool:
        live.hands.now += 6
        act = next(things, None)
        if act is not None:
            act()
        return act is not None

    monkeypatch.setattr(output, "listening", listening)


def test_in_a_pipe_nothing_is_said_of_leases_that_are_renewed(live, place, monkeypatch):
    beat = ("heartbeat", "work", "step-1", "--lease-duration", 60)
    tick = ("update", "work", "step-1", "--task", 0, "completed")
    _while(live, monkeypatch, lambda: place.ok(*beat), lambda: place.ok(*tick), lambda: None)
    first, second = draw_live._pictures(live)
    assert "lease 1h" in first
    assert "lease 5" in second


def test_for_programs_the_mere_passing_of_time_is_no_change(live, place, monkeypatch):
    _while(live, monkeypatch, lambda: None, lambda: place.ok("pause", "work"), lambda: None)
    first, second = draw_live._documents(live)
    assert (first.data["paused_at"], bool(second.data["paused_at"])) == (None, True)
