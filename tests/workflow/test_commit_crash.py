"""tugcode commit killed at every point: the next run ends as if nothing had happened."""

import itertools
import os
import random
import shutil
import subprocess
import sys

import pytest

from conftest import Repo
from support.commit import LOG, Bench
from support.proving import sampled
from support.racing import kill_all, until
from support.state_walk import NOBODY
from tugtool.system import crash
from tugtool.system.process import ProcessNote

POINTS = [name for name in crash.POINTS if name.startswith("commit.")]
#: From these on, git has the commit.
COMMITTED = ("commit.committed", "commit.completed")
#: There the step is completed and its intent gone, all at once.
LAST = "commit.completed"
UNFINISHED = [name for name in POINTS if name != LAST]
LIMITS = {"plain": "", "rotating": "[log]\nmax_lines = 2\n"}


def ended(b: Bench) -> dict:
    """Everything that can be seen, hashes and times aside."""
    tree = b.git("ls-files", "--", ":!.tugtool/log.md", ":!.tugtool/archive").split()
    archive = b.red / ".tugtool" / "archive"
    archived = sorted(path.read_text() for path in archive.glob("*")) if archive.exists() else []
    timeless = {"claimed_at", "started_at", "completed_at", "heartbeat_at", "lease_expires_at"}
    steps = b.rows("select * from steps")
    for step in steps:
        step["commit_hash"] = step["commit_hash"] and b.trailers(step["commit_hash"])
        step.update(dict.fromkeys(timeless & set(step)))
    return {
        "files": {name: b.git("show", f"HEAD:{name}") for name in tree},
        "status": b.git("status", "--porcelain"),
        "entries": b.entries(),
        "archived": [text.count("- 20") for text in archived],
        "commits": [b.trailers(each) for each in b.commits()],
        "steps": steps,
        "items": b.rows("select step_anchor, kind, ordinal, status from checklist_items"),
        "intents": b.intents(),
    }


def begun(bench, limits: str) -> Bench:
    b = bench("1 t", "2 t", "3 t")
    b.shared("begun", limits, make=lambda there: _begin(there, limits))
    b.write({"two": "x\n", "code.py": "changed\n"})
    return b


def _begin(b: Bench, limits: str) -> None:
    if LIMITS[limits]:
        b.repo.write({".tugtool/config.toml": LIMITS[limits]})
    b.hold("step-1", "step-2", "step-3")
    b.write({"one": "x\n"})
    b.done("step-1")


@pytest.fixture
def uncrashed(tmp_path, tugcode, monkeypatch):
    """The same without a crash, in a repository of its own."""

    def make(limits: str) -> dict:
        repo = Repo.init(tmp_path / "uncrashed")
        repo.commit()

        def another(*lines: str) -> Bench:
            made = Bench(repo, tugcode, monkeypatch, *lines)
            made.ok("init", "work")
            return made

        b = begun(another, limits)
        b.done("step-2")
        return ended(b)

    return make


def same(found: dict, expected: dict, here: str, there: str) -> None:
    """Equal, where each speaks of its own directory."""
    assert repr(found).replace(here, "REPO") == repr(expected).replace(there, "REPO")


@pytest.mark.parametrize(
    ("point", "limits"), sampled([(point, limits) for limits in LIMITS for point in POINTS], 5)
)
def test_the_same_command_again_ends_as_without_the_crash(
    bench, uncrashed, point, limits, tmp_path
):
    b = begun(bench, limits)
    b.crash(point, "step-2")
    assert len(b.intents()) == (point != LAST)
    again = b.commit_json("step-2")
    assert again.status == 0
    same(ended(b), uncrashed(limits), str(b.repo.path), str(tmp_path / "uncrashed"))
    assert b.step("step-2")["commit_hash"] == b.head()
    assert again.data["commit_hash"] == b.head()
    assert again.data["recovered"] == (point == "commit.committed")
    assert not (b.repo.path / ".git/worktrees/red/tugtool-index").exists()


@pytest.mark.parametrize("point", sampled(UNFINISHED, 2))
def test_a_commit_for_another_step_first_brings_the_earlier_one_to_its_end(bench, point):
    b = begun(bench, "rotating")
    b.crash(point, "step-2")
    done = b.commit_json("step-3")
    assert done.codes == ["W113"]
    assert not done.data["state_update_failed"]
    word = "finished" if point in COMMITTED else "undone"
    assert f"an earlier commit for step-2 was {word}" in done.data["warnings"][0]
    assert (b.step("step-2")["status"] == "completed") == (point in COMMITTED)
    assert len(b.commits()) == (3 if point in COMMITTED else 2)
    assert b.intents() == []
    b.done("step-2")
    archive = "".join(path.read_text() for path in (b.red / ".tugtool/archive").iterdir())
    text = archive + b.log.read_text()
    for step in ("step-1", "step-2", "step-3"):
        assert text.count(f"**{step}: Part") == 1


def test_a_crash_after_the_step_is_completed_leaves_nothing_to_mend(bench):
    b = begun(bench, "rotating")
    b.crash(LAST, "step-2")
    assert (b.step("step-2")["status"], b.intents()) == ("completed", [])
    assert b.step("step-2")["commit_hash"] == b.head()
    assert b.commit_json("step-3").codes == []
    assert len(b.commits()) == 3


@pytest.mark.parametrize(
    ("first", "second"),
    sampled([*zip(POINTS, POINTS, strict=True), *itertools.pairwise(POINTS)], 4),
)
def test_a_crash_after_a_crash_is_mended_too(bench, first, second):
    b = begun(bench, "plain")
    b.crash(first, "step-2")
    b.process(*b.words("step-2"), TUGCODE_CRASH_AT=second)
    assert b.commit_json("step-2").data["completed"]
    assert b.entries() == ["step-2: Part 2", "step-1: Part 1"]
    assert (len(b.commits()), b.intents()) == (2, [])


@pytest.mark.parametrize("point", UNFINISHED)
def test_settle_finishes_or_undoes_without_another_commit(bench, point):
    """What other commands call to mend what they find."""
    from tugtool.state.record import PlanCopy
    from tugtool.store import open_store
    from tugtool.workflow import commit
    from tugtool.workflow.commit.intent import CommitSite

    b = begun(bench, "rotating")
    before = b.log.read_bytes()
    b.crash(point, "step-2")
    store = open_store(b.url)
    hash_ = b.rows("select plan_hash from plans")[0]["plan_hash"]
    site = CommitSite(
        store,
        top=str(b.red),
        root=str(b.repo.path),
        owner=str(b.red),
        copy=lambda plan: PlanCopy(plan, hash_),
    )
    done = commit.finish_interrupted(site)
    assert done["anchor"] == "step-2"
    assert (b.step("step-2")["status"] == "completed") == (point in COMMITTED)
    assert (b.log.read_bytes() == before) == (point not in COMMITTED)
    assert b.intents() == []
    assert commit.finish_interrupted(site) is None
    store.close()


def test_a_step_that_was_taken_after_the_crash_is_not_completed_with_the_commit(bench):
    b = begun(bench, "plain")
    b.crash("commit.committed", "step-2")
    b.ok("reset", "work", "step-2")
    b.hold("step-2", at=b.blue)
    assert b.commit_json("step-2").codes == ["E049"]
    done = b.commit_json("step-3")
    assert "was left: its claim is over" in done.data["warnings"][0]
    assert b.step("step-2")["claimed_by"] == str(b.blue)
    assert b.intents() == []


def test_a_plan_whose_state_is_gone_leaves_nothing_to_finish(bench):
    b = begun(bench, "plain")
    b.crash("commit.committed", "step-2")
    from tugtool.store import open_store

    store = open_store(b.url)
    with store.write("") as tx:
        tx.run("update intents set step_anchor = 'step-99'")
    store.close()
    assert b.commit_json("step-3").codes == ["W113"]


def test_work_done_by_hand_after_the_crash_is_kept(bench):
    b = begun(bench, "plain")
    b.crash("commit.added", "step-2")
    b.git("commit", "--quiet", "--all", "--message=by hand")
    b.write({"three": "x\n"})
    data = b.done("step-2")
    assert sorted(data["files_staged"]) == [LOG, "three"]
    assert b.entries() == ["step-2: Part 2", "step-1: Part 1"]


def test_a_branch_thrown_back_after_the_crash_is_committed_anew(bench):
    b = begun(bench, "plain")
    b.crash("commit.committed", "step-2")
    b.git("reset", "--quiet", "--hard", "HEAD~1")
    data = b.done("step-2")
    assert not data["recovered"]
    assert b.entries() == ["step-2: Part 2", "step-1: Part 1"]


def test_a_commit_at_work_is_waited_for_and_its_log_left_alone(bench):
    """Its process lives, so nobody mends what is not broken; when it is killed, somebody does."""
    b = begun(bench, "plain")
    reached, go = b.repo.path / "reached", b.repo.path / "go"
    os.mkfifo(reached)
    os.mkfifo(go)
    b.hook("pre-commit", f"echo > {reached}; cat {go}; exit 1")
    busy = subprocess.Popen(
        [sys.executable, "-m", "tugtool", *b.words("step-2")],
        cwd=b.red,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        reached.read_text()
        log = b.log.read_bytes()
        for step in ("step-2", "step-3"):
            refused = b.commit_json(step)
            assert refused.codes == ["E080"]
            issue = refused.envelope()["issues"][0]
            assert "another commit under way, for step-2" in issue["message"]
            assert issue["facts"]["pid"] == busy.pid
        assert b.log.read_bytes() == log
    finally:
        kill_all(busy)
    (b.hooks / "pre-commit").unlink()
    b.done("step-2")
    assert b.entries() == ["step-2: Part 2", "step-1: Part 1"]


def test_a_git_that_outlives_its_command_is_waited_for_and_its_commit_used(bench):
    """Killed is only the command; git goes on, and commits when its hook lets it."""
    b = begun(bench, "plain")
    reached, go, ended = (b.repo.path / name for name in ("reached", "go", "ended"))
    for fifo in (reached, go, ended):
        os.mkfifo(fifo)
    b.hook("pre-commit", f"echo $PPID > {reached}; cat {go} > /dev/null")
    b.hook("post-commit", f"echo > {ended}")
    busy = subprocess.Popen(
        [sys.executable, "-m", "tugtool", *b.words("step-2")],
        cwd=b.red,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    git = int(reached.read_text())
    note = b.repo.path / ".git" / "worktrees" / "red" / "tugtool-git"
    # A moment after it has started git, the command writes down which process that is.
    until(lambda: note.exists() and note.read_text().endswith("}"))
    busy.kill()
    busy.wait()
    log = b.log.read_bytes()
    for step in ("step-2", "step-3"):
        refused = b.commit_json(step)
        assert refused.codes == ["E080"]
        assert refused.envelope()["issues"][0]["facts"]["pid"] == git
    assert b.log.read_bytes() == log
    (b.hooks / "pre-commit").unlink()
    go.write_text("go")
    ended.read_text()
    (b.hooks / "post-commit").unlink()
    until(lambda: not os.path.exists(f"/proc/{git}") or b.commit_json("step-2").status == 0)
    done = b.done("step-2")
    assert (len(b.commits()), b.step("step-2")["commit_hash"]) == (2, b.head())
    assert done["commit_hash"] == b.head()
    assert b.entries() == ["step-2: Part 2", "step-1: Part 1"]
    assert (b.intents(), b.git("status", "--porcelain")) == ([], "")


def test_a_git_that_is_killed_with_its_command_while_it_adds_leaves_no_lock(bench):
    b = begun(bench, "plain")
    reached = b.repo.path / "reached"
    os.mkfifo(reached)
    wait = f"mkdir {b.repo.path}/first 2>/dev/null && echo > {reached} && tail -f /dev/null"
    b.git("config", "filter.slow.clean", f"{wait}; cat")
    b.write({".gitattributes": "two filter=slow\n"})
    # To be looked at anew.
    os.utime(b.red / "two", (1, 1))
    before = b.git("ls-files", "--stage")
    busy = subprocess.Popen(
        [sys.executable, "-m", "tugtool", *b.words("step-2")],
        cwd=b.red,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    reached.read_text()
    assert b.commit_json("step-2").codes == ["E080"]
    kill_all(busy)
    assert b.git("ls-files", "--stage") == before
    b.done("step-2")
    assert b.entries() == ["step-2: Part 2", "step-1: Part 1"]
    assert (b.intents(), b.git("status", "--porcelain")) == ([], "")
    inside = [each.name for each in (b.repo.path / ".git/worktrees/red").iterdir()]
    assert [name for name in inside if "tugtool" in name or "lock" in name] == []


def test_a_commit_that_nobody_could_look_for_is_found_by_the_next(bench, monkeypatch):
    bench = bench("1 t")
    bench.hold("step-1")
    bench.write({"new": "x"})
    home = bench.repo.path.parent / "git"
    home.mkdir()
    # As by Ctrl-C, which also ends the git that looks for what the one before has committed.
    dies = f"test -e {home}/made && rm {home}/made && kill -INT $$"
    script = f'case " $* " in *" commit "*) touch {home}/made;; *" log "*) {dies};; esac'
    (home / "git").write_text(f'#!/bin/sh\n{script}\nexec {shutil.which("git")} "$@"\n')
    (home / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{home}{os.pathsep}{os.environ['PATH']}")
    done = bench.commit_json("step-1")
    assert (done.status, done.codes) == (1, ["E076"])
    assert bench.rows("select * from steps")[0]["commit_hash"] is None
    made = bench.git("log", "--format=%H", "-1").strip()
    assert bench.git("status", "--porcelain") == ""
    again = bench.commit_json("step-1").data
    assert (again["commit_hash"], again["recovered"], again["completed"]) == (made, True, True)
    assert bench.entries() == ["step-1: Part 1"]
    assert (bench.intents(), len(bench.commits())) == ([], 1)


def test_a_commit_whose_trailers_a_hook_took_away_is_known_by_its_entry(bench):
    b = begun(bench, "plain")
    b.hook("commit-msg", "echo nothing of yours > $1")
    b.crash("commit.committed", "step-2")
    made = b.head()
    done = b.commit_json("step-2")
    assert done.codes == ["W111"]
    assert (done.data["recovered"], done.data["commit_hash"]) == (True, made)
    assert (len(b.commits()), b.step("step-2")["commit_hash"]) == (2, made)
    assert b.entries() == ["step-2: Part 2", "step-1: Part 1"]


def test_what_is_committed_by_hand_on_top_of_it_is_not_taken_for_it(bench):
    """Though the log that is in there has its entry as well."""
    b = begun(bench, "plain")
    b.hook("commit-msg", "echo nothing of yours > $1")
    b.crash("commit.committed", "step-2")
    made = b.head()
    b.log.write_text(b.log.read_text() + "\nMine.\n")
    b.git("commit", "--quiet", "--all", "--message=by hand")
    assert b.commit_json("step-2").data["commit_hash"] == made


def _note(b: Bench) -> ProcessNote:
    return ProcessNote(
        os.path.join(b.git("rev-parse", "--absolute-git-dir").strip(), "tugtool-git")
    )


def test_a_commit_is_known_by_its_trailers_though_nobody_knows_which_git_made_it(bench):
    b = begun(bench, "plain")
    b.crash("commit.committed", "step-2")
    made = b.head()
    # It is not forced to the disk: a power cut may have taken it.
    _note(b).drop()
    assert (b.done("step-2")["commit_hash"], len(b.commits())) == (made, 2)


def test_a_commit_without_a_log_is_not_taken_for_ours(bench):
    """Though a git of ours was about to commit, and this is the next commit."""
    b = bench("1 t")
    b.hold("step-1")
    b.crash("commit.intent", "step-1")
    _note(b).write(NOBODY)
    b.write({"other": "x\n"})
    b.git("add", "other")
    b.git("commit", "--quiet", "--message=by hand")
    by_hand = b.head()
    assert b.done("step-1")["commit_hash"] != by_hand
    assert len(b.commits()) == 2


def test_completing_by_hand_what_was_never_committed_leaves_the_rest_to_the_next_commit(bench):
    b = begun(bench, "plain")
    b.crash("commit.logged", "step-2")
    b.ok("complete", "work", "step-2")
    assert len(b.intents()) == 1
    assert b.commit_json("step-3").codes == ["W113"]
    assert (b.entries(), b.intents()) == (["step-3: Part 3", "step-1: Part 1"], [])


def test_a_commit_of_somebody_else_after_a_crash_is_not_taken_for_ours(bench):
    b = begun(bench, "plain")
    b.crash("commit.intent", "step-2")
    b.write({"other": "x\n", LOG: "# Mine\n"})
    b.git("add", "other", LOG)
    b.git("commit", "--quiet", "--message=by hand")
    by_hand = b.head()
    assert b.done("step-2")["commit_hash"] != by_hand
    assert len(b.commits()) == 3


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("seed", sampled(range(4), 1))
def test_no_entry_is_ever_lost_or_doubled(bench, seed):
    """Random commits, refusals and crashes; every completed step has one entry and one commit."""
    chance = random.Random(seed)
    names = [f"step-{number}" for number in range(1, 9)]
    b = bench(*(f"{number} t" for number in range(1, 9)))
    b.repo.write({".tugtool/config.toml": "[log]\nmax_lines = 4\n"})
    for step in names:
        b.hold(step)
    for number, step in enumerate(names):
        b.write({f"file-{number}": "x\n"})
        for _ in range(chance.randrange(3)):
            if chance.random() < 0.3:
                b.hook("pre-commit", "exit 1")
                assert b.commit_json(step).status == 1 or b.step(step)["status"] == "completed"
                (b.hooks / "pre-commit").unlink()
            else:
                point = chance.choice(POINTS)
                b.process(*b.words(step), TUGCODE_CRASH_AT=point)
        assert b.commit_json(step).data["completed"]
        archive = b.red / ".tugtool" / "archive"
        archived = list(archive.iterdir()) if archive.exists() else []
        text = "".join(path.read_text() for path in (*archived, b.log))
        for each in names:
            assert text.count(f"**{each}: Part") == (each in names[: number + 1])
        assert len(b.commits()) == number + 1
        assert (b.intents(), b.git("status", "--porcelain")) == ([], "")
    assert b.rows("select status from plans")[0]["status"] == "done"
    assert b.git("fsck", "--strict", "--no-dangling") == ""
