"""`state diff` and `state init --force` as people and programs meet them."""

import json
import os
import pty
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from support.plan_drafts import draw
from support.proving import sampled
from support.racing import command
from support.state import KEY, Desk

BEFORE = "1: a b", "2 < 1: c", "3: d"
AFTER = "0: z", "1=First: a B", "3: d e"
FORCE = ("init", "work", "--force")
ALL = ("--reopen-changed", "--drop-completed", "--drop-claimed")


@pytest.fixture
def half(desk, repo):
    """Step 1 is completed by red, step 2 held by it, step 3 by blue; every copy is the same."""
    desk = desk("1 t", init=False)
    write(desk, draw(*BEFORE))
    desk.ok("init", "work")
    desk.ok("claim", "work")
    desk.ok("update", "work", "step-1", "--all", "completed")
    desk.ok("complete", "work", "step-1")
    desk.ok("claim", "work")
    desk.ok("claim", "work", at=desk.blue)
    return desk


def write(desk: Desk, text: str) -> None:
    for top in (desk.repo.path, desk.red, desk.blue):
        (top / KEY).parent.mkdir(exist_ok=True)
        (top / KEY).write_text(text)


# -- diff -------------------------------------------------------------------------------


def test_a_file_that_is_what_was_agreed_is_said_to_be_so(half):
    copy = half.red / KEY
    copy.write_bytes(copy.read_bytes().replace(b"\n", b"\r\n"))
    assert half.text("diff", "work").out == f"{copy} is what was agreed\n"
    data = half.ok("diff")
    assert (data["changed"], data["diff"], data["valid"]) == (False, "", True)
    assert data["agreed_hash"] == data["found_hash"]
    assert data["revision"]["kept"] == ["step-1", "step-2", "step-3"]
    assert half.json("diff", "work", "--exit-code").status == 0


def test_a_difference_is_told_for_the_steps_and_then_line_by_line(half):
    write(half, draw(*AFTER))
    said = half.text("diff", "work")
    assert (said.status, said.err) == (0, "")
    assert said.out.split("\n\n--- ")[0].split("\n") == [
        f"{half.red / KEY} is not what was agreed",
        "  added                  step-0",
        "  removed                step-2 (claimed)",
        "  changed                step-1 (completed), step-3 (claimed)",
        "  to be done again       step-1 (completed)",
        "  new title              step-1 (completed)",
        "  claims ended           step-2 (claimed), step-3 (claimed)",
        "  kept                   0 steps, 0 completed; 1 completed or deferred item",
        "  items lost             step-1 task 1, completed: b",
        "in the way (tugcode state init --help lists what allows it):",
        "  step-1: it is completed, and its checklist changed",
        f"  step-2: it is held by {half.red}, and is gone from the plan",
        f"  step-3: it is held by {half.blue}, and its checklist changed",
        "what accepting it would do: tugcode plan accept work --dry-run",
    ]
    assert "\n-- [ ] b\n" in said.out
    assert "\n+- [ ] B\n" in said.out
    assert "\x1b" not in said.out


def test_the_same_for_a_program(half):
    write(half, draw(*AFTER))
    data = half.ok("diff", "work")
    assert data["changed"]
    assert data["diff"].startswith(f"--- agreed/{KEY}\n+++ file/{KEY}\n@@ ")
    told = half.ok(*FORCE, "--dry-run")
    assert data["revision"] == {key: told[key] for key in data["revision"]}


def test_the_exit_status_tells_a_difference_where_that_is_asked(half):
    write(half, draw(*AFTER))
    assert half.text("diff", "work").status == 0
    assert half.text("diff", "work", "--exit-code").status == 1
    assert half.json("diff", "work", "--exit-code").status == 1


def test_the_copy_that_the_caller_works_from_counts(half):
    (half.blue / KEY).write_text(draw(*AFTER))
    assert not half.ok("diff", "work")["changed"]
    assert half.ok("diff", "work", at=half.blue)["file"] == str(half.blue / KEY)
    assert half.ok("diff", "work", "--worktree", half.blue)["changed"]
    (half.red / KEY).unlink()
    assert half.ok("diff", "work")["file"] == str(half.plan)


def test_a_file_that_is_gone_is_said_to_be_gone(half):
    for top in (half.repo.path, half.red):
        (top / KEY).unlink()
    said = half.text("diff", "work")
    assert said.out.startswith(f"{half.plan} is gone; this was agreed:\n\n--- agreed/{KEY}\n")
    data = half.ok("diff", "work")
    assert (data["changed"], data["found_hash"], data["valid"]) == (True, None, False)
    # All that was agreed can be had back from it.
    head, *lines = data["diff"].split("\n@@ ")[1].split("\n")
    assert (head, "\n".join(line[1:] for line in lines)) == ("-1,19 +0,0 @@", draw(*BEFORE))
    assert data["problem"] == f"{half.plan} is gone"
    assert data["revision"] is None


@pytest.mark.parametrize("content", [b"caf\xe9\n", b"x" * 9_000_000], ids=["no UTF-8", "too large"])
def test_a_file_that_cannot_be_read_is_said_to_be_so(half, content):
    (half.red / KEY).write_bytes(content)
    data = half.ok("diff", "work")
    assert data["changed"]
    assert data["problem"].startswith(str(half.red / KEY))
    assert half.text("diff", "work").out.startswith(data["problem"])


def test_a_directory_in_its_place_is_said_to_be_one(half):
    (half.red / KEY).unlink()
    (half.red / KEY).mkdir()
    assert "is a directory" in half.ok("diff", "work")["problem"]


def test_a_text_that_is_no_sound_plan_is_compared_and_said_to_be_none(half):
    write(half, draw("1 < 2: a b", "2 < 1: c", "3: d"))
    said = half.text("diff", "work")
    assert "it would not be accepted, because it is not a sound plan:\n" in said.out
    assert "E011" in said.out
    assert "+**Depends on:** #step-2" in said.out
    found = half.json("diff", "work")
    assert (found.status, found.data["valid"], found.data["revision"]) == (0, False, None)
    assert "E011" in found.codes
    before = half.dump()
    assert half.json(*FORCE, *ALL).status == 1
    assert half.dump() == before


def test_hostile_text_is_harmless(half):
    write(half, draw("1: a b", "2 < 1: c", "3: d") + "\n\x1b]0;title\x07\x1b[31mred \x9b2J\n")
    said = half.text("diff", "work").out
    assert "\x1b" not in said
    assert "\x9b" not in said
    assert "+red" in said
    assert "\\u001b]0;title" in half.json("diff", "work").out


def test_a_terminal_gets_colours(half):
    write(half, draw(*AFTER))
    main, other = pty.openpty()
    words = [sys.executable, "-m", "tugtool", "state", "diff", "work"]
    environment = {**os.environ, "TERM": "xterm-256color"}
    process = subprocess.Popen(words, cwd=half.red, stdout=other, stdin=other, env=environment)
    os.close(other)
    out = b""
    try:
        while chunk := os.read(main, 65536):
            out += chunk
    except OSError:
        pass  # the other end is closed
    assert process.wait() == 0
    os.close(main)
    lines = out.decode().split("\r\n")
    assert "\x1b[32m+- [ ] B\x1b[m" in lines
    assert "\x1b[31m-- [ ] b\x1b[m" in lines
    assert f"\x1b[1m--- agreed/{KEY}\x1b[m" in lines
    assert any(line.startswith("\x1b[36m@@ ") for line in lines)


def test_a_plan_without_a_state_has_nothing_to_compare_with(desk):
    assert desk("1 t", init=False).json("diff", "work").codes == ["E063"]


def test_drift_points_at_the_difference(half):
    write(half, draw(*AFTER))
    hint = "tugcode diff work"
    refused = half.json("claim", "work", "--worktree", half.repo.path)
    assert (refused.codes, refused.envelope()["issues"][0]["hint"]) == (["E048"], hint)
    shown = half.json("show", "work")
    assert (shown.codes, shown.envelope()["issues"][0]["hint"]) == (["W102"], hint)
    again = half.text("init", "work")
    assert again.out == (f"{KEY} was recorded before; its file has changed since ({hint})\n")
    assert half.ok("init", "work")["drift"]


def test_drift_in_a_worktree_points_at_the_copy_that_was_changed(half):
    (half.red / KEY).parent.mkdir(exist_ok=True)
    (half.red / KEY).write_text(draw(*AFTER))
    for words in (["claim", "work"], ["complete", "work", "step-2"]):
        refused = half.json(*words, "--worktree", half.red, at=half.repo.path)
        [issue] = refused.envelope()["issues"]
        assert (issue["code"], issue["hint"]) == (
            "E048",
            f"tugcode diff work --worktree {half.red}",
        )
    # Typed at the top it shows what was changed there, and not the main one's copy.
    assert half.ok("diff", "work", "--worktree", half.red, at=half.repo.path)["changed"]
    assert not half.ok("diff", "work", at=half.repo.path)["changed"]


# -- init --force -----------------------------------------------------------------------


@pytest.mark.parametrize("word", [*ALL, "--dry-run"])
def test_what_says_how_to_force_means_nothing_without_it(half, word):
    refused = half.json("init", "work", word)
    assert (refused.status, refused.codes) == (2, ["E070"])
    assert f"{word} goes with --force" in refused.envelope()["issues"][0]["message"]


def test_without_a_word_about_it_nothing_is_undone(half):
    write(half, draw(*AFTER))
    before = half.dump()
    said = half.text(*FORCE)
    assert (said.status, said.out) == (1, "")
    assert said.err.split("\n") == [
        "tugcode: E044: the new text undoes work (tugcode state init --help lists what allows it)",
        "  step-1: it is completed, and its checklist changed",
        f"  step-2: it is held by {half.red}, and is gone from the plan",
        f"  step-3: it is held by {half.blue}, and its checklist changed",
        "  next: tugcode diff work",
        "",
    ]
    issue = half.json(*FORCE).envelope()["issues"][0]
    assert [each["flag"] for each in issue["facts"]["refusals"]] == [
        *("--reopen-changed", "--drop-claimed", "--drop-claimed")
    ]
    assert half.dump() == before


def test_a_dry_run_only_tells(half):
    write(half, draw(*AFTER))
    before = half.dump()
    said = half.text(*FORCE, "--dry-run")
    assert said.status == 0
    assert said.out.startswith(f"{KEY}: the new text would be refused; nothing is changed\n")
    said = half.text(*FORCE, "--dry-run", *ALL)
    assert said.out.startswith(f"{KEY}: the new text would be accepted; nothing is changed\n")
    assert "in the way" not in said.out
    data = half.ok(*FORCE, "--dry-run")
    assert (data["dry_run"], data["revised"], data["drift"]) == (True, False, True)
    assert half.dump() == before


def test_accepted_is_what_is_carried_out_from_then_on(half):
    write(half, draw(*AFTER))
    said = half.text(*FORCE, *ALL)
    assert (said.status, said.err) == (0, "")
    assert said.out.startswith(f"{KEY}: the new text is what is carried out from now on\n")
    assert half.ok("claim", "work")["anchor"] == "step-0"
    assert not half.ok("diff", "work")["changed"]
    assert half.text(*FORCE).out == f"{KEY} is what was agreed; nothing is changed\n"
    again = half.ok(*FORCE)
    assert (again["already_initialized"], again["revised"]) == (True, False)
    assert half.rows("select actor from events where kind = 'revise'") == [{"actor": str(half.red)}]


def test_force_on_a_plan_without_a_state_records_it(desk):
    desk = desk("1 t", "1.1 t", init=False)
    assert desk.text(*FORCE, "--dry-run").out == f"{KEY} would be recorded: 2 steps\n"
    told = desk.ok(*FORCE, "--dry-run")
    assert (told["steps_created"], told["dry_run"]) == (2, True)
    assert not (desk.repo.path / ".tugtool" / "state.db").exists()
    assert desk.text(*FORCE).out == f"{KEY} is recorded: 2 steps\n"
    desk.repo.plan("other", draw("1: a"))
    other = desk.ok("init", "other", "--force", "--dry-run", at=desk.repo.path)
    assert (other["already_initialized"], other["dry_run"]) == (False, True)


def test_long_lists_are_cut_for_people_and_whole_for_programs(desk):
    desk = desk("1 t", init=False)
    write(desk, draw(*(f"{n}: a{n}" for n in range(30))))
    desk.ok("init", "work")
    for n in range(30):
        desk.ok("claim", "work")
        desk.ok("update", "work", f"step-{n}", "--all", "completed")
        desk.ok("complete", "work", f"step-{n}")
    write(desk, draw("99: z"))
    said = desk.text("diff", "work").out
    assert "step-11 (completed) and 18 more\n" in said
    assert "  items lost             and 18 more\n" in said
    assert "  and 18 more\n" in said
    assert len(desk.ok("diff", "work")["revision"]["dropped_items"]) == 30


def test_two_at_once_revise_once(half):
    write(half, draw(*AFTER))
    words = ("state", *FORCE, *ALL)
    running = [command(half.red, *words) for _ in range(6)]
    answers = [json.loads(process.communicate()[0])["data"] for process in running]
    assert sorted(answer["revised"] for answer in answers) == [False] * 5 + [True]
    assert all(answer["already_initialized"] for answer in answers)
    assert len(half.rows("select * from plan_revisions")) == 1


KILLED = """
import os, signal, sqlite3, sys
from tugtool.cli.main import main
from tugtool.store.sqlite import file

class Killed(sqlite3.Connection):
    left = int(sys.argv[1])

    def count(self, text):
        if text.lstrip().startswith(("insert", "update", "delete", "commit")):
            Killed.left -= 1
        if Killed.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def execute(self, text, *values):
        self.count(text)
        return super().execute(text, *values)

    def executemany(self, text, *values):
        self.count(text)
        return super().executemany(text, *values)

file.connect = lambda *words, **options: sqlite3.connect(*words, factory=Killed, **options)
sys.exit(main(["state", "init", "work", "--force", *sys.argv[2:]]))
"""


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("each", sampled([6, 1], 1))
def test_killed_at_any_statement_it_has_happened_or_not_at_all(half, each):
    write(half, draw(*AFTER))
    before, statement = half.dump(), 0
    while True:
        words = [sys.executable, "-c", KILLED, str(statement), *ALL]
        done = subprocess.run(words, cwd=half.red, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            break
        assert done.returncode == -9
        assert half.dump() == before
        statement += each
    assert statement > 15
    assert [row["anchor"] for row in half.rows("select anchor from steps order by step_index")] == [
        *("step-0", "step-1", "step-3")
    ]
    with sqlite3.connect(Path(half.repo.path, ".tugtool", "state.db")) as connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
        assert connection.execute("pragma foreign_key_check").fetchall() == []


def test_a_worker_goes_on_under_its_claim_or_is_told_to_stop(half):
    write(half, draw("0: z", "1: a b", "2=Second: c", "3: d e"))
    half.ok(*FORCE, "--drop-claimed")
    half.ok("update", "work", "step-2", "--attempt", 1, "--task", 0, "completed")
    half.ok("complete", "work", "step-2", "--attempt", 1)
    stopped = half.json(
        "update", "work", "step-3", "--attempt", 1, "--task", 0, "open", at=half.blue
    )
    assert stopped.codes == ["E050"]
    half.ok("claim", "work", "--step", "step-3", at=half.blue)
    late = half.json("heartbeat", "work", "step-3", "--attempt", 1, at=half.blue)
    assert (late.status, late.codes) == (4, ["E060"])
    write(half, draw("0: z", "1: a b", "2=Second: c"))
    half.ok(*FORCE, "--drop-claimed")
    assert half.json("heartbeat", "work", "step-3", "--attempt", 2, at=half.blue).codes == ["E059"]
