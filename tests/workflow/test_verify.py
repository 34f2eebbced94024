"""`state verify` with real commands: what is run, how, and what is recorded of it."""

import json
import resource
import signal
import sqlite3

import pytest

from conftest import Repo, git
from support.state import KEY
from support.terminals import PATIENCE_SECONDS, Terminal
from support.verify import PYTHON, Fifo, Stand, plan
from tugtool.errors.state import QueryFailed
from tugtool.plan import fingerprint
from tugtool.system import clock
from tugtool.workflow import verify
from tugtool.workflow.workspace import Workspace


@pytest.fixture
def stand(repo, tugcode):
    """Make one whose step has these checkpoints."""

    def make(*checkpoints: str, below: tuple[str, ...] = (), claim: tuple = ()) -> Stand:
        return Stand(repo, tugcode, plan(*checkpoints, below=below), *claim)

    return make


# -- what is ticked ---------------------------------------------------------------------


def test_exactly_what_passed_is_ticked(stand):
    stand = stand("`true` passes", "`exit 3`", "It looks good", "`test -f code.py`")
    done = stand.verify()
    assert done.status == 1
    assert [each["outcome"] for each in done.data["checkpoints"]] == [
        "passed",
        "failed",
        "not_run",
        "passed",
    ]
    assert stand.statuses() == ["completed", "open", "open", "completed"]
    numbers = ("passed", "failed", "refused", "not_run", "ticked")
    assert [done.data[name] for name in numbers] == [2, 1, 0, 1, 2]
    assert done.codes == ["W130"]


def test_where_all_passes_the_exit_status_is_zero_also_with_prose_beside(stand):
    stand = stand("`true`", "It looks good")
    done = stand.verify()
    assert (done.status, done.codes) == (0, [])
    assert stand.statuses() == ["completed", "open"]


@pytest.mark.parametrize(
    ("command", "status"),
    [("exit 3", 3), ("kill -9 $$", 137), ("no-such-command --x", 127), ("false || false", 1)],
)
def test_the_exit_status_is_the_shells(stand, command, status):
    stand = stand(f"`{command}` passes")
    assert stand.verify().status == 1
    (told,) = stand.evidence()
    assert told["commands"][0]["exit_status"] == status
    assert (told["passed"], stand.statuses()) == (False, ["open"])


def test_quotes_pipes_and_redirections_are_the_shells(stand):
    stand = stand(
        "`printf '%s\\n' 'a  b' \"c\" | grep 'a  b' > found.out && test -s found.out`",
        '`` test "`echo x`" = x && test "$(cat found.out)" = \'a  b\' ``',
        "`! grep nothing code.py 2>/dev/null; exit $?`",
        "`cd .tugtool && ls *.md | wc -l | grep -q 1`",
    )
    assert stand.outcomes() == ["passed"] * 4
    assert (stand.red / "found.out").read_text() == "a  b\n"


def test_all_commands_of_a_checkpoint_have_to_pass_and_the_first_failure_ends_it(stand):
    stand = stand(
        "`echo one >> a.out` and `echo two >> a.out` pass",
        "`echo three >> a.out`, `false x` and `echo four >> a.out` pass",
    )
    assert stand.outcomes() == ["passed", "failed"]
    assert (stand.red / "a.out").read_text() == "one\ntwo\nthree\n"
    first, second = stand.evidence()
    assert [len(told["commands"]) for told in (first, second)] == [2, 2]


def test_a_command_knows_its_step_and_runs_in_the_worktree_without_input(stand):
    stand = stand(
        f'`test "$TUGCODE_PLAN" = {KEY} && test "$TUGCODE_STEP" = step-1`',
        '`test "$TUGCODE_ATTEMPT" = 1 && test "$TUGCODE_WORKTREE" = "$(pwd -P)"`',
        '`test -z "$(cat)"`',
        below=('`test "$TUGCODE_STEP" = step-1`',),
    )
    assert stand.outcomes() == ["passed"] * 4
    assert stand.outcomes(step="step-1-1") == ["passed"]


def test_words_that_ask_for_no_output_are_heeded(stand):
    stand = stand(
        "`grep pass code.py` returns no matches",
        "`grep absent code.py` returns no matches",
        "`! grep absent code.py` returns no matches",
        "`echo x` fails",
    )
    assert stand.outcomes() == ["failed", "failed", "passed", "failed"]
    assert stand.statuses() == ["open", "open", "completed", "open"]
    first, _, third, fourth = stand.evidence()
    assert first["commands"][0]["exit_status"] == 0
    assert "no output" in first["note"]
    assert third["note"] is None
    assert "failure" in fourth["note"]


def test_a_failure_later_is_told_but_takes_no_tick_away(stand):
    stand = stand("`test -f code.py`")
    assert stand.verify().status == 0
    (stand.red / "code.py").unlink()
    again = stand.verify()
    assert (again.status, again.data["checkpoints"][0]["status"]) == (1, "completed")
    assert again.data["ticked"] == 0
    assert stand.statuses() == ["completed"]
    box, result = "[x] `test -f code.py`\n", "failed: `test -f code.py` exit 1, "
    assert f"         {box}             {result}" in stand.pictured()


def test_a_step_is_verified_with_its_substeps_and_a_substep_alone(stand):
    stand = stand("`echo top >> ran.out`", below=("`echo sub >> ran.out`", "prose"))
    assert stand.outcomes(step="step-1-1") == ["passed", "not_run"]
    assert (stand.red / "ran.out").read_text() == "sub\n"
    done = stand.verify()
    assert [(each["step_anchor"], each["ordinal"]) for each in done.data["checkpoints"]] == [
        ("step-1", 0),
        ("step-1-1", 0),
        ("step-1-1", 1),
    ]
    assert (stand.red / "ran.out").read_text() == "sub\ntop\nsub\n"
    text = stand.run("verify", "work", "step-1", "--yes").out
    assert "[x] step-1-1 checkpoint 0: `echo sub >> ran.out` exit 0" in text


def test_single_checkpoints_can_be_chosen(stand):
    stand = stand("`echo 0 >> r.out`", "`echo 1 >> r.out`", "`echo 2 >> r.out`")
    assert stand.verify("--ordinal", 2, "--ordinal", 0).data["passed"] == 2
    assert (stand.red / "r.out").read_text() == "0\n2\n"
    before = stand.dump()
    for bad, valid in (("3", "0 to 2"), ("x", "0 to 2"), ("-1", "0 to 2")):
        refused = stand.verify(f"--ordinal={bad}")
        assert (refused.status, refused.codes) == (1, ["E066"])
        assert valid in refused.envelope()["issues"][0]["message"]
    assert stand.dump() == before


def test_a_step_without_checkpoints_has_none_to_choose(stand):
    stand = stand(below=("`true`",))
    refused = stand.verify("--ordinal", 0)
    assert "step-1 has no checkpoint" in refused.envelope()["issues"][0]["message"]


def test_where_nothing_can_be_run_nobody_is_asked_and_nothing_changes(stand):
    stand = stand("It looks good", "`code.py` exists")
    before = stand.dump()
    done = stand.json("verify", "work", "step-1")
    assert (done.status, done.data["not_run"], done.data["confirmed"]) == (0, 2, False)
    text = stand.run("verify", "work", "step-1").out
    assert text.endswith("no checkpoint of step-1 names a command that can be run\n")
    assert stand.dump() == before


# -- what is not run --------------------------------------------------------------------


def test_without_a_terminal_nothing_is_run_unless_somebody_said_yes(stand):
    stand = stand("`touch ran.out`")
    before = stand.dump()
    refused = stand.json("verify", "work", "step-1")
    assert (refused.status, refused.codes) == (2, ["E070"])
    assert not (stand.red / "ran.out").exists()
    assert stand.dump() == before


def test_a_dry_run_lists_and_changes_nothing(stand):
    stand = stand("`touch a.out` and `touch b.out` pass", "prose")
    before = stand.dump()
    data = stand.ok("verify", "work", "step-1", "--dry-run", "--yes")
    assert (data["dry_run"], data["confirmed"]) == (True, False)
    assert data["checkpoints"][0]["commands"] == ["touch a.out", "touch b.out"]
    text = stand.run("verify", "work", "step-1", "--dry-run").out
    assert "[ ] checkpoint 0: would run: touch a.out\n" in text
    assert "[ ] checkpoint 0: would run: touch b.out\n" in text
    assert "[ ] checkpoint 1: not run: it names no command\nnothing was run\n" in text
    assert stand.dump() == before
    assert not list(stand.red.glob("*.out"))


def test_a_plan_that_was_changed_is_refused_and_none_of_it_is_run(stand):
    stand = stand("`touch ran.out`")
    copy = stand.red / KEY
    copy.write_text(copy.read_text() + "- [ ] `touch forged.out`\n")
    before = stand.dump()
    refused = stand.verify()
    assert (refused.status, refused.codes) == (1, ["E048"])
    assert stand.dump() == before
    assert not list(stand.red.glob("*.out"))


def test_what_is_run_comes_from_the_record_and_not_from_any_file(stand):
    stand = stand("`touch ran.out`")
    # Not the copy that red works from, which is still the agreed one.
    stand.plan.write_text(stand.plan.read_text().replace("ran.out", "forged.out"))
    assert stand.outcomes() == ["passed"]
    assert [path.name for path in stand.red.glob("*.out")] == ["ran.out"]


def test_a_plan_that_a_command_changes_is_not_ticked(stand):
    stand = stand(f"`echo >> {KEY}`")
    refused = stand.verify()
    assert (refused.status, refused.codes) == (1, ["E048"])
    assert stand.statuses() == ["open"]


def test_another_text_that_was_agreed_meanwhile_is_not_ticked(repo, tugcode):
    red = repo.path / ".tugtree" / "red"
    accept = f"echo >> {KEY} && {PYTHON} -m tugtool -C {red} state init work --force"
    stand = Stand(repo, tugcode, plan(f"`{accept}`"))
    refused = stand.verify()
    assert (refused.status, refused.codes) == (1, ["E048"])
    assert stand.statuses() == ["open"]
    (row,) = stand.rows("select plan_hash from plans")
    assert row["plan_hash"] == fingerprint.of((red / KEY).read_bytes())


@pytest.mark.parametrize("hidden", ["\x1b[2K\x1b[1A", "\u202e", "\x07", "\u200b"])
def test_a_command_that_cannot_be_shown_as_it_is_is_refused(stand, hidden):
    stand = stand(f"`touch {hidden}ran.out`", "`true`")
    done = stand.verify()
    assert (done.status, done.codes) == (1, ["W130"])
    assert [each["outcome"] for each in done.data["checkpoints"]] == ["refused", "passed"]
    assert done.data["checkpoints"][0]["reason"] == "unprintable"
    assert not list(stand.red.glob("*ran.out"))
    assert (
        "not run: a command has a control character"
        in stand.run("verify", "work", "step-1", "--yes").out
    )


@pytest.mark.parametrize(
    ("words", "code", "status"),
    [
        (("--worktree", ".tugtree/blue"), "E049", 4),
        (("--attempt", 7), "E060", 4),
    ],
)
def test_whoever_does_not_hold_the_step_runs_nothing(stand, words, code, status):
    stand = stand("`touch ran.out`")
    refused = stand.verify(*words)
    assert (refused.codes, refused.status) == ([code], status)
    assert not list(stand.repo.path.rglob("ran.out"))


def test_commands_run_in_a_worktree_that_is_there(stand):
    stand = stand("`touch ran.out`")
    stand.ok("release", "work", "step-1")
    stand.ok("claim", "work", "--worktree", "gone")
    refused = stand.verify("--worktree", "gone")
    assert (refused.status, refused.codes) == (1, ["E030"])
    assert not list(stand.repo.path.rglob("ran.out"))


# -- asking -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "ran", "status"), [("y", True, 0), ("YES", True, 0), ("n", False, 1), ("", False, 1)]
)
def test_on_a_terminal_it_lists_everything_and_asks(stand, answer, ran, status):
    stand = stand("`touch 'a b.out'` passes", "prose", below=("`true # comment`",))
    terminal = Terminal(stand.line(), columns=200)
    try:
        terminal.until_text("Run this? [y/N]")
        shown = terminal.display.text
        assert not (stand.red / "a b.out").exists()
        terminal.press(f"{answer}\n")
        assert terminal.end() == status
    finally:
        terminal.close()
    assert "  checkpoint 0: touch 'a b.out'\n  step-1-1 checkpoint 0: true # comment\n" in shown
    assert f"In {stand.red}, for step-1:" in shown
    assert (stand.red / "a b.out").exists() == ran
    assert stand.statuses()[0] == ("completed" if ran else "open")
    if not ran:
        assert "nothing was run" in terminal.display.text


def test_an_interrupt_on_the_terminal_ends_the_question_or_the_command(stand):
    stand = stand("`exec 3> h.fifo; echo x >&3; sleep 999`")
    held = Fifo(stand.red / "h.fifo")
    for agree in (False, True):
        terminal = Terminal(stand.line())
        try:
            terminal.until_text("Run this? [y/N]")
            if agree:
                terminal.press("y\n")
                held.until_written()
            terminal.press("\x03")
            assert terminal.end() == 130
        finally:
            terminal.close()
    held.until_ended()
    assert stand.evidence() == [None]


def test_a_claim_that_is_lost_while_the_question_stands_runs_nothing(stand):
    stand = stand("`touch ran.out`")
    terminal = Terminal(stand.line())
    try:
        terminal.until_text("Run this? [y/N]")
        stand.ok("claim", "work", "--step", "step-1", "--force", at=stand.blue)
        terminal.press("y\n")
        assert terminal.end() == 4
    finally:
        terminal.close()
    assert not (stand.red / "ran.out").exists()


# -- limits -----------------------------------------------------------------------------


def test_a_command_whose_time_is_up_is_stopped_with_all_its_children(stand):
    stand = stand("`exec 3> h.fifo; echo x >&3; trap '' TERM; sleep 999 & sleep 999`", "`true`")
    held = Fifo(stand.red / "h.fifo")
    done = stand.verify("--timeout", 0.5)
    held.until_ended()
    assert [each["outcome"] for each in done.data["checkpoints"]] == ["failed", "passed"]
    (ran,) = done.data["checkpoints"][0]["evidence"]["commands"]
    assert ran["timed_out"] is True
    assert stand.statuses() == ["open", "completed"]
    assert "timed out, " in stand.pictured()


def test_a_command_that_ends_well_only_because_it_was_stopped_has_not_passed(stand):
    stand = stand("`trap 'exit 0' TERM; sleep 999 & wait`")
    done = stand.verify("--timeout", 0.5)
    (ran,) = done.data["checkpoints"][0]["evidence"]["commands"]
    assert (ran["exit_status"], ran["timed_out"], done.status) == (0, True, 1)
    assert stand.statuses() == ["open"]


def test_nothing_that_a_command_leaves_behind_goes_on(stand):
    stand = stand("`exec 3> h.fifo; sleep 999 & true` passes")
    held = Fifo(stand.red / "h.fifo")
    assert stand.outcomes() == ["passed"]
    held.until_ended()


def test_a_hundred_megabytes_of_output_are_counted_and_not_kept(stand):
    stand = stand("`yes 0123456789 | head -c 100000000; echo; echo the end; exit 1`")

    def little_memory() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (160 << 20, 160 << 20))

    running = stand.process(preexec_fn=little_memory)
    out, err = running.communicate()
    assert (running.returncode, err) == (1, "")
    (ran,) = json.loads(out)["data"]["checkpoints"][0]["evidence"]["commands"]
    assert ran["output_bytes"] == 100_000_009
    assert ran["output_tail"].endswith("\n0123456789\n0\nthe end")
    assert len(ran["output_tail"]) <= 2000
    assert ran["output_tail"].count("\n") < 40


def test_output_is_kept_without_anything_that_could_act_on_a_terminal(stand):
    stand = stand(
        r"`printf '\033[31mred\033[0m\tx\007\000\377\n\033]0;t\007 10%%\r100%%\r\n\342\202\254'`",
        "`head -c 5000 /dev/urandom; exit 1`",
    )
    stand.verify()
    first, second = (told["commands"][0]["output_tail"] for told in stand.evidence())
    assert first == "red     x\ufffd\n100%\n€"
    assert all(line.isprintable() for line in second.split("\n"))
    said = stand.run("verify", "work", "step-1", "--yes")
    assert "\x1b" not in said.out + said.err


# -- the claim --------------------------------------------------------------------------


def test_a_claim_that_was_lost_meanwhile_ticks_nothing(repo, tugcode):
    blue = repo.path / ".tugtree" / "blue"
    take = f"{PYTHON} -m tugtool -C {blue} state claim work --step step-1 --force"
    stand = Stand(repo, tugcode, plan("`true`", f"`{take}`"))
    refused = stand.verify()
    assert (refused.status, refused.codes) == (4, ["E060"])
    assert stand.statuses() == ["open", "open"]
    assert stand.evidence() == [None, None]


def test_a_second_attempt_of_the_same_worktree_fences_off_the_first(repo, tugcode):
    red = repo.path / ".tugtree" / "red"
    again = f"{PYTHON} -m tugtool -C {red} state claim work"
    stand = Stand(repo, tugcode, plan(f"`{again}`"))
    refused = stand.verify()
    assert (refused.status, refused.codes) == (4, ["E060"])
    assert stand.statuses() == ["open"]


HANGING = "`exec 3> h.fifo; echo x >&3; sleep 999`"


@pytest.fixture
def hanging(stand):
    """A `state verify` that runs a command which does not end; and the pipe it holds."""
    stand = stand("`true`", HANGING, "`touch later.out`")
    held = Fifo(stand.red / "h.fifo")
    running = stand.process()
    held.until_written()
    yield stand, running, held
    if running.poll() is None:
        running.kill()
    running.communicate()


def nothing_came_of_it(stand: Stand, held: Fifo) -> None:
    held.until_ended()
    assert stand.statuses() == ["open"] * 3
    assert stand.evidence() == [None] * 3
    assert not (stand.red / "later.out").exists()


def test_a_command_is_stopped_when_the_claim_is_lost(hanging):
    stand, running, held = hanging
    stand.ok("claim", "work", "--step", "step-1", "--force", at=stand.blue)
    out, _ = running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == 4
    assert json.loads(out)["issues"][0]["code"] == "E060"
    nothing_came_of_it(stand, held)


def test_an_interrupt_stops_the_command_and_records_nothing(hanging):
    stand, running, held = hanging
    running.send_signal(signal.SIGINT)
    running.communicate()
    assert running.returncode == 130
    nothing_came_of_it(stand, held)
    assert stand.rows("select claimed_by from steps")[0]["claimed_by"] == str(stand.red)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_whoever_is_killed_leaves_no_command_behind(hanging, number):
    stand, running, held = hanging
    running.send_signal(number)
    running.communicate()
    assert running.returncode == -number
    nothing_came_of_it(stand, held)


@pytest.mark.proof(share=0)
def test_the_lease_is_renewed_while_a_command_runs(stand):
    stand = stand("`echo x > h.fifo; cat go.fifo` passes", claim=("--lease-duration", 2))
    held = Fifo(stand.red / "h.fifo")
    go = stand.red / "go.fifo"
    Fifo(go)
    running = stand.process()
    held.until_written()
    beats = "select count(*) as n from events where kind = 'heartbeat'"
    before = stand.rows(beats)[0]["n"]
    while stand.rows(beats)[0]["n"] < before + 4:
        assert running.poll() is None
    go.write_text("on\n")
    out, _ = running.communicate()
    assert running.returncode == 0, out
    assert stand.statuses() == ["completed"]


# -- what people see --------------------------------------------------------------------


def test_evidence_says_what_was_run_where_and_when(stand):
    stand = stand("`echo hello`")
    (stand.red / "new").write_text("x")
    answered = stand.verify().data["checkpoints"][0]["evidence"]
    (told,) = stand.evidence()
    head = git("rev-parse", "HEAD", cwd=stand.red).strip()
    assert {key: told[key] for key in answered} == answered
    assert (told["commit"], told["dirty"], told["worktree"]) == (head, True, str(stand.red))
    assert (told["attempt"], told["stale"], told["worktree_commit"]) == (1, False, head)
    (ran,) = told["commands"]
    assert (ran["command"], ran["output_tail"], ran["output_bytes"]) == ("echo hello", "hello", 6)
    line = f"        verified: `echo hello` exit 0, {ran['duration_seconds']:.1f} s, at {head[:7]}"
    assert f"{line} with uncommitted changes\n" in stand.pictured()


def test_evidence_goes_stale_when_the_commit_of_the_worktree_moves_on(stand):
    stand = stand("`true`", "`false`")
    stand.verify()
    first = git("rev-parse", "HEAD", cwd=stand.red).strip()
    assert [told["stale"] for told in stand.evidence()] == [False, False]
    assert "stale" not in stand.pictured()
    git("commit", "--quiet", "--allow-empty", "--message=x", cwd=stand.blue)
    assert [told["stale"] for told in stand.evidence()] == [False, False]
    git("commit", "--quiet", "--allow-empty", "--message=y", cwd=stand.red)
    now = git("rev-parse", "HEAD", cwd=stand.red).strip()
    assert [told["stale"] for told in stand.evidence()] == [True, True]
    assert [told["worktree_commit"] for told in stand.evidence()] == [now, now]
    assert f"        stale: verified at {first[:7]}, now at {now[:7]}\n" in stand.pictured()
    assert f"        stale: failed at {first[:7]}, now at {now[:7]}\n" in stand.pictured()
    stand.verify()
    assert [told["stale"] for told in stand.evidence()] == [False, False]


def test_staleness_is_that_of_whoever_holds_or_completed_the_step(stand):
    stand = stand("`true`", below=("`true`",))
    stand.verify()
    git("commit", "--quiet", "--allow-empty", "--message=x", cwd=stand.blue)
    stand.ok("release", "work", "step-1")
    assert [told["stale"] for told in stand.evidence()] == [False, False]
    stand.ok("claim", "work", at=stand.blue)
    assert [told["stale"] for told in stand.evidence()] == [True, True]
    stand.ok("verify", "work", "step-1", "--yes", at=stand.blue)
    stand.ok("complete", "work", "step-1", at=stand.blue)
    assert [told["stale"] for told in stand.evidence()] == [False, False]
    git("commit", "--quiet", "--allow-empty", "--message=y", cwd=stand.blue)
    assert [told["stale"] for told in stand.evidence()] == [True, True]
    stand.repo.git("worktree", "remove", "--force", str(stand.blue))
    assert [told["stale"] for told in stand.evidence()] == [None, None]
    assert "stale" not in stand.pictured()


def test_the_summary_stays_short(stand):
    stand = stand("`false`")
    stand.verify()
    assert "failed:" not in stand.run("show", "work").out


def test_a_failure_is_shown_with_the_end_of_its_output(stand):
    stand = stand("`seq 30; exit 1`", "`true`")
    said = stand.run("verify", "work", "step-1", "--yes")
    assert "[ ] checkpoint 0: `seq 30; exit 1` exit 1, " in said.out
    assert "\n      21\n" in said.out
    assert "\n      20\n" not in said.out
    assert said.out.endswith("verified 1 of 2 of step-1, 1 ticked\n")
    assert said.err == "tugcode: running seq 30; exit 1\ntugcode: running true\n"


def test_the_log_tells_of_it_and_a_note_is_left(stand):
    stand = stand("`true`", "`false`")
    stand.verify()
    brief = stand.run("log").out
    assert "step-1  verified by red: checkpoint 1 failed\n" in brief
    assert "step-1  so far: 1 item completed\n" in brief
    every = stand.run("log", "--all").out
    assert "verified by red: checkpoint 0 passed; checkpoint 1 failed\n" in every
    (step,) = stand.ok("show", "work")["steps"]
    (note,) = step["artifacts"]
    assert note["kind"] == "verification"
    assert note["summary"].startswith("1 of 2 checkpoints verified: `false` exit 1, ")


def test_evidence_survives_export_and_import(stand, tmp_path):
    stand = stand("`true`")
    stand.verify()
    before = stand.evidence()
    file = tmp_path / "all.jsonl"
    stand.ok("export", "--output", file)
    for name in ("state.db", "state.db-wal", "state.db-shm"):
        (stand.repo.path / ".tugtool" / name).unlink(missing_ok=True)
    for path in (stand.repo.path / ".git" / "tugtool").glob("*"):
        path.unlink()
    stand.ok("import", file)
    assert stand.evidence() == before


def test_before_the_first_commit_there_is_none_to_name(tmp_path, tugcode):
    repo = Repo.init(tmp_path / "new")
    repo.plan("work", plan("`true`"))
    for words in (["init", "work"], ["claim", "work"], ["verify", "work", "step-1", "--yes"]):
        assert tugcode("-C", repo.path, "state", *words, "--json").status == 0
    shown = tugcode("-C", repo.path, "state", "show", "work", "--json").data
    (item,) = shown["checklist_items"]
    assert (item["evidence"]["commit"], item["evidence"]["stale"]) == (None, None)
    assert ", at no commit" in tugcode("-C", repo.path, "state", "show", "--checklist").out


def test_a_database_that_is_busy_for_a_while_stops_no_command(stand, monkeypatch):
    stand = stand("`true`")
    url = f"sqlite://{stand.repo.path / '.tugtool' / 'state.db'}"
    space = Workspace(str(stand.red))
    space.store = space.open_store(0.05)
    keeper = verify.keeper_of(space, verify.prepare(space, KEY, "step-1", attempt=1))
    began = clock.ticks()
    # All of its lease is over, so that it is high time.
    monkeypatch.setattr(clock, "ticks", lambda: began + 100_000)
    other = sqlite3.connect(url.removeprefix("sqlite://"), isolation_level=None)
    other.execute("begin immediate")
    with pytest.raises(QueryFailed):
        keeper.renew()
    assert keeper.holds()
    other.execute("rollback")
    other.close()
    before = stand.rows("select * from events")
    assert keeper.holds()
    assert len(stand.rows("select * from events")) == len(before) + 1
    space.store.close()
