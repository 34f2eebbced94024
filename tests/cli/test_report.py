"""`tugcode report`: one account in four formats, whatever the plan and the agents wrote."""

import functools
import json
import re
import subprocess
import tempfile
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from state.test_counts_property import WALKS, LongWalk
from state.test_events import plans
from support.proving import examined
from support.state import Lab, entry
from tugtool.cli.draw import document
from tugtool.cli.draw import report as draw_report
from tugtool.cli.draw.canvas import Canvas, cells
from tugtool.cli.output import clean
from tugtool.state import attempts, views
from tugtool.state.completion import Finding
from tugtool.system import clock, process
from tugtool.workflow import report

KEY = ".tugtool/tugplan-work.md"
ROOT = "/repo"
HASH = "0123456789abcdef0123456789abcdef01234567"
WIDTHS = (40, 80, 120)
FORMATS = ("text", "md", "html")


def evidence(passed: bool = True, **more: object) -> dict:
    ran = {"command": "make", "exit_status": int(not passed), "timed_out": False}
    ran |= {"duration_seconds": 1.5, "output_tail": "", "output_bytes": 0}
    facts = {"passed": passed, "commands": [ran], "commit": HASH, "dirty": False}
    facts |= {"worktree": "red", "attempt": 1, "at": "", "note": None, "tree": None}
    return {**facts, "judged": None, **more}


def verified(lab: Lab, step: str, ordinal: int, *, passed: bool = True) -> None:
    from tugtool import state

    finding = Finding(step, ordinal, passed=passed, evidence=evidence(passed))
    how = {"owner": "red", "attempt": lab.row(step)["attempt"], "copy": lab.copy}
    state.verify(lab.store, KEY, step, [finding], plan_hash=lab.hash, summary="ran", **how)


def eventful(lab: Lab) -> None:
    """Every way in which a checkpoint can stand, and most of what can go wrong."""
    lab.claim("red", "step-1")
    verified(lab, "step-1", 0, passed=False)
    lab.clock.advance(600)
    verified(lab, "step-1", 0)
    lab.update("step-1", entry("c1", "deferred", reason="no printer"))
    lab.tick("step-1", "t0", "c2")
    lab.update("step-1", entry("c3", "deferred", reason="for Ada"))
    lab.complete("step-1", commit=HASH)
    lab.accept("step-1", "c1", note="it printed")
    lab.claim("blue", "step-2", lease_seconds=60)
    lab.clock.advance(3600)
    lab.claim("red", "step-2")
    lab.artifact("step-2", kind="reviewer_verdict", summary="REVISE: too slow")
    lab.artifact("step-2", kind="recovery", summary="found the commit")
    lab.complete("step-2", force_reason="the server is gone")
    lab.claim("red", "step-3")
    verified(lab, "step-3", 0, passed=False)
    lab.artifact("step-3", kind="escalation", summary="which database?")
    lab.release("step-3", park_reason="which database?")
    lab.claim("blue", "step-4")


EVENTFUL = (
    "1 tcccc | `make` passes | it prints | it is plain | it is liked (person)",
    "2 tc < 1 | `make all` passes",
    "3 c | `make` passes",
    "4 tc | `make` passes",
    "5 t < 3",
)


def told(lab: Lab, **how: bool) -> dict:
    return report.compose(views.everything(lab.store, KEY), **how)


@pytest.fixture
def story(lab):
    there = lab(*EVENTFUL)
    eventful(there)
    return told(there)


def written(data: dict, format: str, width: int = 80, **how: object) -> str:
    story = draw_report.Story(
        data, root=ROOT, brief=format == "text", titled=format == "html"
    ).document()
    if format == "md":
        return document.write_markdown(story)
    if format == "html":
        return document.write_html(story)
    canvas = Canvas(width, **how)
    document.write_text(canvas, story)
    return canvas.text()


# -- what it says ----------------------------------------------------------------------


def test_every_checkpoint_says_whose_word_it_rests_on(story):
    found = {(c["step_anchor"], c["ordinal"]): c["standing"] for c in story["checkpoints"]}
    assert found == {
        ("step-1", 0): "proved",
        ("step-1", 1): "accepted",
        ("step-1", 2): "ticked",
        ("step-1", 3): "deferred",
        ("step-2", 0): "forced",
        ("step-3", 0): "failed",
        ("step-4", 0): "open",
    }
    proved = story["checkpoints"][0]
    assert proved["commit"] == HASH
    assert proved["commands"][0]["exit_status"] == 0


def test_a_reviewers_word_is_told_with_its_reason(lab):
    there = lab("1 c | it reads well")
    there.claim("red", "step-1")
    judged = evidence(commands=[], judged={"role": "reviewer", "reason": "short sentences"})
    from tugtool import state

    finding = Finding("step-1", 0, passed=True, evidence=judged)
    how = {"owner": "red", "attempt": 1, "copy": there.copy, "plan_hash": there.hash}
    state.verify(there.store, KEY, "step-1", [finding], summary="read", **how)
    data = told(there)
    assert data["checkpoints"][0]["standing"] == "judged"
    assert "judged by the reviewer: short sentences" in written(data, "text")


def test_steps_stand_as_they_do_everywhere(story):
    steps = {step["step_anchor"]: step["standing"] for step in story["steps"]}
    assert steps == {
        "step-1": "deferred",
        "step-2": "completed",
        "step-3": "parked",
        "step-4": "at_work",
        "step-5": "blocked",
    }
    # An hour passed before the lease of blue was taken over; blue was last seen at the claim.
    assert story["steps"][1]["working_seconds"] == 0
    assert story["steps"][0]["working_seconds"] == 600
    assert story["steps"][1]["rounds"] == 1


def test_what_went_wrong_is_told_with_what_mended_it(story):
    found = [(each["step_anchor"], each["what"], each["reason"]) for each in story["incidents"]]
    assert found == [
        ("step-1", "checkpoint_failed", "`make` passes"),
        ("step-2", "taken_over_expired", "blue"),
        ("step-2", "revised", "too slow"),
        ("step-2", "recovery", "found the commit"),
        ("step-3", "checkpoint_failed", "`make` passes"),
        ("step-3", "escalation", "which database?"),
        ("step-3", "released", None),
        # The reason was told with the escalation.
        ("step-3", "parked", None),
    ]


def test_what_waits_names_the_command_that_settles_it(story):
    found = [(each["what"], each["command"]) for each in story["waits"]]
    accept = "tugcode review work --accept --step {} --kind checkpoint --ordinal {}"
    assert found == [
        ("deferred", accept.format("step-1", 3)),
        ("unproven", accept.format("step-2", 0)),
        ("parked", "tugcode review work --retry --step step-3"),
    ]
    reject = 'tugcode review work --reject --step {} --kind checkpoint --ordinal {} --note "WHY"'
    # Step 2 was built on step 1, so a rejection of step 1 would be refused.
    reopen = 'tugcode reopen work step-1 --force --reason "WHY"'
    assert [each["reject"] for each in story["waits"]] == [reopen, reject.format("step-2", 0), None]
    assert reopen in written(story, "text", 1000)
    assert story["summary"]["next"] == "tugcode review work"


def test_what_was_deferred_is_told_with_what_a_person_said(story):
    found = [(each["text"], each["verdict"], each["note"]) for each in story["judgements"]]
    assert found == [
        ("it prints", "accepted", "it printed"),
        ("it is liked (person)", "waits", None),
    ]
    assert story["judgements"][0]["deferred_because"] == "no printer"


def test_the_first_three_lines_say_it_all(story):
    first = written(story, "text", 1000).split("\n")[:3]
    assert first == [
        "‖ work is not done yet: 2 of 5 steps completed, 1 at work, 1 parked, "
        "1 waiting for other steps.",
        "Proved: 1 of 7 checkpoints by a command that passed; 1 accepted by a person, "
        "1 on the word of the worker alone, 1 forced, 1 deferred, 1 failing, 1 open.",
        "Waits for you: 1 deferred item, 1 checkpoint without proof, 1 parked step. "
        "Next: tugcode review work",
    ]


@pytest.mark.parametrize(
    ("happen", "line", "next"),
    [
        (lambda lab: None, "○ work is not done yet: 0 of 1 steps completed, 1 ready.", "implement"),
        (
            lambda lab: lab.finish("step-1"),
            "✓ work is done: all 1 step completed, not merged yet.",
            "merge",
        ),
        (
            lambda lab: lab.pause(),
            "○ work is not done yet: 0 of 1 steps completed, 1 ready, paused.",
            "resume",
        ),
        (lambda lab: lab.archive(), "· work is archived: 0 of 1 steps completed, 1 ready.", None),
    ],
    ids=["fresh", "done", "paused", "archived"],
)
def test_a_report_says_where_the_plan_is_and_what_comes_next(lab, happen, line, next):
    there = lab("1 t")
    happen(there)
    data = told(there)
    assert written(data, "text", 1000).split("\n")[0] == line
    assert data["summary"]["next"] == (next and f"tugcode {next} work")


def test_why_the_last_run_ended_is_told_until_the_next_claim(lab):
    there = lab("1 t")
    how = {"status": "budget", "reason": "the budget of 5 tokens is used up"}
    attempts.note_run(there.store, KEY, "cooling_down", reason="busy")
    attempts.note_run(there.store, KEY, "finished", **how)
    data = told(there)
    stopped = written(data, "text", 1000).split("\n")[2]
    assert stopped == "Stopped: the budget of 5 tokens is used up, 2026-02-23 12:00:00."
    assert [each["what"] for each in data["incidents"]] == ["cooling_down"]
    there.claim("red", "step-1")
    assert told(there)["last_run"] is None


@pytest.fixture
def worker():
    """A process that runs, and its identity."""
    with subprocess.Popen(["sleep", "600"]) as child:
        yield child, process.process(child.pid)
        child.kill()


def test_a_run_whose_process_is_gone_has_died(lab, worker):
    there = lab("1 t", "2 t")
    child, identity = worker
    begin = {"process": identity}
    attempts.note_run(there.store, KEY, "started", **begin)
    there.claim("red", "step-1")
    data = told(there)
    assert (data["last_run"], data["run_since"]) == (None, "2026-02-23T12:00:00.000Z")
    line = "At work: a run, since 2026-02-23 12:00:00."
    assert written(data, "text", 1000).split("\n")[2] == line
    child.kill()
    child.wait()
    data = told(there)
    assert data["last_run"]["status"] == "died"
    line = "Stopped: the run died about 2026-02-23 12:00 (its process is gone). "
    line += "Go on: tugcode implement work"
    for format in FORMATS:
        assert "the run died about" in written(data, format), format
    head = written(data, "text", 1000).split("\n")
    assert head[2:4] == [line, "Waits for you: nothing."]
    assert data["summary"]["next"] == "tugcode implement work"
    assert [each["what"] for each in data["incidents"]] == []
    # What goes on comes first, and what waits for a person after it.
    there.update("step-1", entry("t0", "deferred", reason="later"))
    data = told(there)
    waits = "Waits for you: 1 deferred item. Next: tugcode review work"
    assert written(data, "text", 1000).split("\n")[2:4] == [line, waits]
    assert data["summary"]["next"] == "tugcode implement work"
    # A run that was ended did not die, and of two runs each has its own end.
    attempts.note_run(there.store, KEY, "finished", status="stopped", reason="why", **begin)
    assert told(there)["last_run"]["reason"] == "why"


def test_a_run_of_another_machine_is_neither_dead_nor_alive(lab, worker):
    there = lab("1 t")
    elsewhere = {**worker[1], "boot": "another", "host": "another"}
    attempts.note_run(there.store, KEY, "started", process=elsewhere)
    data = told(there)
    assert (data["last_run"], data["run_since"]) == (None, None)


def test_the_same_trouble_is_told_once_and_counted(lab):
    there = lab("1 t")
    for _ in range(3):
        there.claim("red", "step-1")
        number = there.row("step-1")["attempt"]
        how = {"owner": "red", "attempt": number, "role": "coder", "reason": "it was killed"}
        attempts.note_retry(there.store, KEY, "step-1", **how)
        there.release("step-1")
    text = written(told(there), "text", 1000)
    line = "attempts 1, 2, 3: an agent failed in red and was tried again: coder: it was killed"
    assert f"    {line} (3 times)\n" in text


def test_one_reason_is_not_told_three_times(lab):
    there = lab("1 t")
    there.claim("red", "step-1")
    there.artifact("step-1", kind="reviewer_verdict", summary="ESCALATE: which database?")
    there.artifact("step-1", kind="escalation", summary="which database?")
    there.release("step-1", park_reason="which database?")
    data = told(there)
    found = [(each["what"], each["reason"]) for each in data["incidents"]]
    assert found == [("escalation", "which database?"), ("released", None), ("parked", None)]
    text = written(data, "text", 1000)
    # Once with what waits, once with what went wrong, and once in the timeline.
    assert text.count("which database?") == 3
    assert "the reviewer wanted changes" not in text


def test_a_worker_that_goes_on_after_a_dead_run_is_told(lab):
    there = lab("1 t")
    there.claim("red", "step-1", lease_seconds=60)
    there.clock.advance(3600)
    there.claim("red", "step-1")
    (each,) = told(there)["incidents"]
    assert (each["what"], each["reason"]) == ("taken_over_expired", "red")
    line = "attempt 2: a later run went on with it in red: the lease had run out"
    assert line in written(told(there), "text", 1000)


def test_a_command_with_a_pipe_is_readable_in_markdown():
    cell = [("code", "cat x | sort")]
    table = document.Table(("Checkpoint", "Rests on"), [[cell, [("", "exit 0")]]], 1)
    section = document.Section("Proofs", [table, cell])
    text = document.write_markdown(document.Document("work", [], [section], []))
    assert "| `cat x \\| sort` | exit 0 |" in text
    assert "\n`cat x | sort`\n" in text
    found = [
        each.content
        for each in MarkdownIt("commonmark").enable("table").parse(text)
        if each.type == "inline"
    ]
    assert found[-3:] == ["`cat x | sort`", "exit 0", "`cat x | sort`"]


def test_a_command_is_folded_so_that_it_can_be_pasted(story):
    text = written(story, "text", 40)
    assert "    tugcode review work --accept \\\n      --step step-1 --kind checkpoint \\\n" in text


def test_a_run_that_proves_nothing_is_named_at_the_end(lab):
    there = lab("1 t")
    for format in FORMATS:
        assert "verify = false" in written(told(there, verify=False), format), format
        assert "verify = false" not in written(told(there), format), format


def test_long_lists_are_counted_in_text_and_kept_elsewhere(lab):
    there = lab(*(f"{n} c | `make` passes" for n in range(1, 61)))
    for n in range(1, 61):
        there.claim("red", f"step-{n}")
        verified(there, f"step-{n}", 0)
        there.complete(f"step-{n}", commit=HASH)
    text = written(told(there), "text")
    assert "60 more are proved by a command that passed." in text
    assert "97 earlier ones: tugcode log work" in text
    assert written(told(there), "md").count("exit 0") == 60
    assert text.count("\n") < 170


def test_the_page_about_the_state_shows_the_first_lines_of_a_report(story):
    page = (Path(__file__).parents[2] / "docs" / "reference" / "state.md").read_text()
    shown = re.search(r"<!-- report -->\n```text\n(.*?)```", page, re.DOTALL)[1]
    assert shown == written(story, "text", 88).split("\n\n")[0] + "\n"


# -- the command -----------------------------------------------------------------------


def test_every_format_comes_from_the_command(desk, tugcode):
    there = desk("1 tc | `make` passes")
    shown = {
        format: tugcode("-C", there.red, "report", "work", "--format", format) for format in FORMATS
    }
    assert all(result.status == 0 for result in shown.values())
    assert shown["text"].out.startswith("○ work is not done yet")
    assert shown["md"].out.startswith("- ○ **work is not done yet**")
    assert shown["html"].out.startswith("<!DOCTYPE html>")
    plain = json.loads(tugcode("-C", there.red, "report", "--format", "json").out)
    data = tugcode("-C", there.red, "report", "work", "--json").data
    assert {**plain, "as_of": None, "spent": None, "steps": None} == {
        **data,
        "as_of": None,
        "spent": None,
        "steps": None,
    }


def test_a_file_gets_the_format_of_its_ending_and_is_never_replaced(desk, tugcode, tmp_path):
    there = desk("1 t")
    for ending, start in (("html", "<!DOCTYPE"), ("md", "- ○"), ("json", "{"), ("txt", "○")):
        file = tmp_path / f"report.{ending}"
        done = tugcode("-C", there.red, "report", "work", "--output", file, "--json")
        assert done.status == 0
        assert done.data["written_to"] == str(file)
        assert file.read_text().startswith(start)
    again = tugcode("-C", there.red, "report", "work", "--output", file, "--json")
    assert again.status != 0
    assert "there already" in again.out


def test_json_goes_with_another_format_only_into_a_file(desk, tugcode):
    there = desk("1 t")
    done = tugcode("-C", there.red, "report", "work", "--format", "md", "--json")
    assert (done.status, done.envelope()["issues"][0]["code"]) == (2, "E070")


def test_without_a_record_the_report_is_refused(desk, tugcode):
    there = desk("1 t", init=False)
    done = tugcode("-C", there.repo.path, "report", "work", "--json")
    assert done.envelope()["issues"][0]["code"] == "E063"


def test_the_report_says_why_a_run_stopped(play):
    play = play("1 t")
    play.rules({"role": "coder", "do": [{"exit": 3}]})
    status, _ = play.run("--unattended")
    data = play.ok("report", "work")
    assert status == 1
    assert data["last_run"]["status"] == "unfinished"
    assert data["last_run"]["reason"] == "what is left waits for a person"
    assert [each["what"] for each in data["waits"]] == ["parked"]
    found = [(each["attempt"], each["what"]) for each in data["incidents"]]
    first = [(1, "agent_failed"), (1, "failed")]
    second = [(2, "agent_failed"), (2, "escalation"), (2, "failed"), (2, "parked")]
    assert found == first + second


def test_an_archived_plan_and_one_without_its_file_have_a_report(desk, tugcode):
    there = desk("1 t")
    there.ok("archive", "work")
    assert "work is archived" in tugcode("-C", there.red, "report", "work").out
    there.plan.unlink()
    assert "work is archived" in tugcode("-C", there.repo.path, "report", "work").out


# -- the page ---------------------------------------------------------------------------


def brightness(colour: str) -> float:
    """Relative luminance, as WCAG defines it."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * each for each in colour[1:])
    shares = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    parts = [
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in shares
    ]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((brightness(one), brightness(other)))
    return (light + 0.05) / (dark + 0.05)


def test_every_text_of_the_page_can_be_read_in_light_and_dark_and_print():
    themes = re.findall(r":root\{(.*?)\}", document._STYLE, re.DOTALL)
    assert len(themes) == 3
    for theme in themes:
        colours = dict(re.findall(r"--(\w+):(#\w+)", theme))
        for text in ("text", "soft", "done", "work", "you", "wrong"):
            for ground in ("page", "card"):
                assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)


def test_the_page_needs_nothing_from_elsewhere(story):
    page = written(story, "html")
    assert not re.search(r"<(script|link|img|iframe|a|base|form)\b|url\(|@import", page)
    assert "default-src 'none'" in page


# -- every format has the same numbers -------------------------------------------------


def plain(text: str, format: str) -> str:
    """What a reader sees of a report, on one line."""
    if format == "html":
        text = Elements(text).text
    elif format == "md":
        text = Marks(text).text
    return " ".join(text.replace("`", "").replace("**", "").split())


def same_numbers(data: dict) -> None:
    summary, spent = data["summary"], data["spent"]
    by, proofs = summary["steps_by_standing"], summary["checkpoints_by_standing"]
    done = by["completed"] + by["deferred"]
    for format, width in [("md", 80), ("html", 80), *(("text", width) for width in WIDTHS)]:
        seen = plain(written(data, format, width), format)
        all_done = f"all {done} step" if done == summary["steps"] else ""
        assert (all_done or f"{done} of {summary['steps']} steps completed") in seen
        if summary["checkpoints"]:
            assert re.search(rf"Proved: {proofs['proved']} of {summary['checkpoints']} chec", seen)
        for kind, words in draw_report._PROOF_WORDS.items():
            assert (words.format(proofs[kind]) in seen) or not proofs[kind], kind
        for kind, words in draw_report._STEP_WORDS.items():
            assert (words.format(by[kind]) in seen) or not by[kind], kind
        assert f"in {spent['attempts']} attempt" in seen
        assert f"{clock.duration(spent['working_seconds'])} of work" in seen
        assert f"{clock.duration(spent['waiting_seconds'])} of waiting" in seen
        for kind in ("task", "test"):
            total = sum(data["items"][kind].values())
            ticked = f"{data['items'][kind]['completed']} of {total} {kind}"
            assert (ticked in seen) == bool(total)
        counted = re.search(r"Waits for you: (.*?)\. ?", seen)[1]
        assert sum(map(int, re.findall(r"\d+", counted))) == summary["waits"]
        events = re.search(r"Timeline \((\d+) event", seen)[1]
        assert int(events) == len(data["timeline"])


def narrow_enough(data: dict) -> None:
    for width in WIDTHS:
        for line in written(data, "text", width).split("\n"):
            assert cells(line) <= width, (width, line)


def test_every_format_has_the_numbers_of_the_data(story):
    same_numbers(story)
    narrow_enough(story)


@examined(short=25)
@given(plans(), WALKS)
def test_reports_of_any_history_agree_in_every_format(lines, operations):
    with tempfile.TemporaryDirectory() as directory:
        there = Lab(Path(directory), *lines, max_attempts=3)
        walk = LongWalk(there)
        for operation in operations:
            walk.act(*operation)
        data = told(there)
        same_numbers(data)
        narrow_enough(data)
        there.store.close()


# -- nothing that anybody wrote becomes more than text ---------------------------------

#: Fields whose words are ours; and times.
OURS = {
    *("status", "standing", "what", "kind", "verdict", "checkpoint_kind", "event", "outcome"),
    *("at", "as_of", "created_at", "completed_at", "paused_at", "because"),
}


def replaced(data: object, word: str, key: str = "") -> object:
    """The data with one text in the place of every other."""
    if isinstance(data, dict):
        return {name: replaced(value, word, name) for name, value in data.items()}
    if isinstance(data, list):
        return [replaced(each, word, key) for each in data]
    return word if isinstance(data, str) and key not in OURS else data


class Elements(HTMLParser):
    """The tags of a page, in order, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple] = []
        self.text = ""
        self._within: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        if tag == "code":
            assert dict(attrs).keys() == {"class"}
            assert dict(attrs)["class"] in ("code", "hash", "type")
        else:
            self.tags.append((tag, tuple(attrs)))
        self._within.append(tag)

    def handle_endtag(self, tag):
        if tag != "code":
            self.tags.append(("/", tag))
        self.text += " " if tag in ("p", "td", "li", "summary", "h2") else ""

    def handle_data(self, data):
        if "style" not in self._within[-1:]:
            self.text += data

    def handle_comment(self, data):
        self.tags.append(("comment", data))

    def handle_decl(self, decl):
        self.tags.append(("decl", decl))

    def handle_pi(self, data):
        self.tags.append(("pi", data))

    def unknown_decl(self, data):
        self.tags.append(("unknown", data))


class Marks:
    """The structure of a Markdown document as GitHub's dialect has it, and its text."""

    def __init__(self, text: str) -> None:
        reader = MarkdownIt("commonmark").enable(["table", "strikethrough"])
        self.shape: list[str] = []
        self.words: list[str] = []
        self._code = False
        for token in reader.parse(text.replace("<span>$</span>", "&#36;")):
            self._read(token)
        self.text = " ".join(self.words).replace("\u200b", "")

    def _read(self, token) -> None:
        if token.type == "inline":
            begin = len(self.words)
            for child in token.children:
                self._read(child)
            self.words[begin:] = ["".join(self.words[begin:])]
        elif token.type == "html_inline" and token.content in ("<code>", "</code>"):
            self._code = token.content == "<code>"
        elif token.type == "html_block":
            self.words.append(re.sub("<[^>]*>", "", token.content))
            self.shape.append(token.content)
        elif token.type in ("text", "code_inline"):
            if token.type == "text" and not self._code:
                linked = re.search(r"@\w|#\w|://|(?i:www\.)|(?i:gh-)\d", token.content)
                assert linked is None, token.content
            self.words.append(token.content)
        else:
            own = token.content if token.type.startswith("html") else ""
            self.shape.append(f"{token.type} {token.tag} {own}")


def spoken(data: dict, format: str) -> str:
    """All texts of a document, one after the other, without blanks."""
    made = draw_report.Story(data, root=ROOT, brief=False, titled=format == "html").document()
    texts = 2 * [clean(made.title)] if format == "html" else []
    texts += [joined(line) for line in made.head]
    for section in made.sections:
        texts += [section.title, *(text for block in section.blocks for text in within(block))]
    texts += [joined(line) for line in made.foot]
    return squeezed("".join(texts))


def within(block: object) -> list[str]:
    if isinstance(block, document.Table):
        return [*block.head, *(joined(cell) for row in block.rows for cell in row)]
    if isinstance(block, document.Listing):
        return [joined(each) for line, below in block.entries for each in (line, *below)]
    return [joined(block)]


def joined(line: list[tuple[str, str]]) -> str:
    return "".join(clean(text) for _, text in line)


def squeezed(text: str) -> str:
    return "".join(text.split())


def harmless(data: dict, word: str) -> None:
    """With this text everywhere, each format has the shape that it has with a harmless one."""
    word = f"x{word}"  # A text that is left empty is not written at all.
    usual, unusual = replaced(data, "word"), replaced(data, word)
    before, after = (Elements(written(each, "html")) for each in (usual, unusual))
    assert after.tags == before.tags
    assert squeezed(after.text) == spoken(unusual, "html")
    before, after = (Marks(written(each, "md")) for each in (usual, unusual))
    assert after.shape == before.shape
    assert squeezed(after.text) == spoken(unusual, "md")
    for width in WIDTHS:
        for line in written(unusual, "text", width).split("\n"):
            assert line == "" or clean(line) == line, repr(line)
            assert cells(line) <= width, (width, line)


HOSTILE = (
    "</td></table><script>alert(1)</script>",
    '" onload="x',
    "' & < > &lt; &#60;",
    "--> <!-- <img src=x> ]]>",
    "| a | b |\n|---|---|\n| c | d |",
    "# heading\n\n## another\n===\n---",
    "```\nfence\n```",
    "~~~ a ~~~ **b** __c__ ~~d~~ *e* _f_",
    "[a](http://example.invalid) ![b](c) <http://example.invalid> [d]: e",
    "@ada #12 GH-34 http://example.invalid www.example.invalid ada@example.invalid",
    "- [ ] item\n1. one\n> quote\n    code",
    "a ` b `` c \\` d \\| e | f \\",
    "$x$ $$y$$ :tada: &copy; [^1]",
    "</details></summary><details open>",
    "\x1b[31mred\x1b[0m \x07 \r\n\x9b2J \u202eright\u2066 \u200bnothing",
    "日本語の題名 🏳️‍🌈 e\u0301 " * 5,
    "a" * 300,
)


@pytest.mark.parametrize("word", HOSTILE, ids=range(len(HOSTILE)))
def test_what_people_and_agents_write_stays_text(story, word):
    harmless(story, word)


@functools.cache
def eventful_story() -> dict:
    with tempfile.TemporaryDirectory() as directory:
        there = Lab(Path(directory), *EVENTFUL)
        eventful(there)
        data = told(there)
        there.store.close()
    return data


PIECES = st.sampled_from((*HOSTILE, *"`|\\<>&*_[]()#@$~-+=.!\n\t:/ ax1")) | st.text(max_size=8)


@examined(short=60)
@given(st.lists(PIECES, max_size=8))
@example(["1", ".", " "])
@example(["`", "|", "`"])
def test_no_text_of_any_kind_becomes_markup(pieces):
    harmless(eventful_story(), "".join(pieces))


def unescaped(monkeypatch, where: str) -> None:
    if where == "html":
        monkeypatch.setattr("html.escape", lambda text: text)
    elif where == "md":
        monkeypatch.setattr(document, "_md_text", lambda text: text)
    elif where == "md code":
        monkeypatch.setattr(document, "_md_code", lambda text, in_table: f"`{text}`")
    else:
        monkeypatch.setattr(Canvas, "said", lambda self, text: str(text))


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("where", ["html", "md", "md code", "text"])
def test_a_missing_escape_is_noticed(story, monkeypatch, where):
    unescaped(monkeypatch, where)
    assert any(_does_harm(story, word) for word in HOSTILE)


def _does_harm(story: dict, word: str) -> bool:
    try:
        harmless(story, word)
    except AssertionError:
        return True
    return False
