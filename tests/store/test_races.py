"""Many processes at one database: who gets what, in which order, and what survives.

Every judgement is a function of what the processes reported, and is shown to find a fault
that was planted in them. What depends on who comes first is tried again and again by
`make proof ONLY=races`. Killed processes: `tests/proof/test_chaos.py`.
"""

import contextlib
import itertools
import json
from collections import Counter
from pathlib import Path

import pytest

from support import engines
from support.racing import Crew, command, plan_of, prepared
from support.workers import PLAN
from tugtool import state
from tugtool.store import open_store, sql
from tugtool.store.sqlite import LONG_LOG_BYTES, LONGEST_LOG_BYTES, STAYING_COMMITS, SqliteStore

#: The promise of fair waiting: nobody is refused, nobody starves.
SMALLEST_SHARE = 0.25
#: Everybody else comes once in between, and more often while who asks is not let run at all.
LONGEST_WAIT_TURNS = 15 * 32


@pytest.fixture
def crew():
    """Processes that end with the test."""
    with Crew() as crew:
        yield crew


def _place(tmp_path: Path, seed: int) -> Path:
    """Where one round has its database."""
    (tmp_path / str(seed)).mkdir()
    return tmp_path / str(seed) / "state.db"


def _claimed_by(crew: Crew, url: str, processes: int, fault: str = "") -> list[str]:
    for n in range(processes):
        crew.add("claim_all", url=url, owner=f"owner-{n}", fault=fault)
    crew.open()
    return [anchor for got in crew.results() for anchor in got]


@pytest.mark.proof
def test_64_processes_claim_200_steps_and_each_step_goes_to_one(engine, tmp_path, spell):
    for seed in spell.seeds():
        store, url = prepared(_place(tmp_path, seed), 200)
        with Crew() as crew:
            claimed = _claimed_by(crew, url, 64)
        store.close()
        assert Counter(claimed) == Counter(f"step-{n}" for n in range(200))


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("fault", ["no transaction", "plain begin, no queue"])
def test_the_count_of_claims_notices_claims_that_are_not_alone(engine, crew, tmp_path, fault):
    _, url = prepared(tmp_path / "state.db", 200)
    for n in range(8):
        crew.add("claim_all", url=url, owner=f"owner-{n}", fault=fault)
    crew.open()
    texts = [process.communicate()[0] for process in crew.processes]
    broken = [process.returncode for process in crew.processes if process.returncode]
    claimed = [each for text in texts if text for each in json.loads(text)]
    assert broken or Counter(claimed) != Counter(f"step-{n}" for n in range(200))


@pytest.mark.proof(share=0)
def test_16_commands_at_once_claim_16_steps(repo):
    repo.plan("race", plan_of(16))
    command(repo.path, "state", "init", "race").communicate()
    words = ("state", "claim", "race", "--worktree")
    running = [command(repo.path, *words, f"wt-{n}") for n in range(16)]
    answers = [json.loads(process.communicate()[0]) for process in running]
    assert [process.returncode for process in running] == [0] * 16
    claimed = Counter(answer["data"]["anchor"] for answer in answers)
    assert claimed == Counter(f"step-{n}" for n in range(16))


def _unfair(results: list[dict]) -> list[str]:
    """What is wrong with how a lock went round."""
    counts = [result["count"] for result in results]
    share = min(counts) / max(counts)
    longest = max(result["longest"] for result in results)
    errors = [error for result in results for error in result["errors"]]
    return [
        *errors,
        *([f"smallest to largest share {share:.2f}"] if share < SMALLEST_SHARE else []),
        *([f"somebody waited for {longest} others"] if longest > LONGEST_WAIT_TURNS else []),
    ]


def _hold(crew: Crew, place: Path, turns: int, fault: str = "") -> list[dict]:
    store, url = prepared(place, 1)
    store.close()
    for _ in range(32):
        crew.add("hold", url=url, log=f"{place}.turns", turns=turns, fault=fault)
    crew.open()
    return crew.results()


@pytest.mark.proof
def test_32_writers_wait_fairly_and_nobody_is_refused(engine, tmp_path, spell):
    for seed in spell.seeds():
        with Crew() as crew:
            assert _unfair(_hold(crew, _place(tmp_path, seed), 32 * 30)) == []


@pytest.mark.proof(share=0)
def test_the_measure_of_fairness_notices_that_there_is_no_queue(crew, tmp_path):
    assert _unfair(_hold(crew, tmp_path / "state.db", 32 * 15, fault="no queue")) != []


def _create(crew: Crew, url: str, fault: str = "") -> list[str]:
    for _ in range(16):
        crew.add("create", url=url, fault=fault)
    crew.open()
    return [problem for problem in crew.results() if problem]


@pytest.mark.proof
def test_16_processes_create_one_database_and_none_fails(tmp_path, spell):
    for seed in spell.seeds(least=10):
        path = _place(tmp_path, seed)
        with Crew() as crew:
            assert _create(crew, f"sqlite://{path}") == []
        store = open_store(f"sqlite://{path}")
        with store.read() as tx:
            assert tx.all(sql.PLANS) == []
            assert tx.value("pragma integrity_check") == "ok"
        store.close()


@pytest.mark.proof
def test_16_processes_make_the_tables_of_one_schema_and_none_fails(server, tmp_path, spell):
    for seed in spell.seeds(least=3):
        url = f"{engines.url_in(tmp_path)}_{seed}"
        with Crew() as crew:
            assert _create(crew, url) == []
        store = open_store(url)
        with store.read() as tx:
            assert tx.all(sql.PLANS) == []
        store.close()


@pytest.mark.proof(share=0)
def test_tables_made_without_a_lock_are_in_each_others_way(server, tmp_path):
    def problems(number: int) -> list[str]:
        url = f"{engines.url_in(tmp_path)}_unlocked_{number}"
        with Crew() as crew:
            return _create(crew, url, fault="no lock for tables")

    # They meet by chance: on a busy machine not each time.
    assert any(problems(number) for number in range(20))


def _overlaps(spans: list[tuple[int, int, str]]) -> list[tuple]:
    """Commits and closes of writers that ran at the same time."""
    ordered = sorted(spans)
    pairs = itertools.pairwise(ordered)
    return [(earlier, later) for earlier, later in pairs if later[0] < earlier[1]]


def _spans(
    crew: Crew, path: Path, fault: str = "", *, workers: int = 4, rounds: int = 100
) -> list[tuple[int, int, str]]:
    store, url = prepared(path, 1)
    store.close()
    for _ in range(workers):
        crew.add("trace", url=url, rounds=rounds, fault=fault)
    crew.open()
    return [tuple(span) for result in crew.results() for span in result]


@pytest.mark.proof
def test_a_checkpoint_never_meets_a_commit(tmp_path, spell):
    for seed in spell.seeds():
        with Crew() as crew:
            spans = _spans(crew, _place(tmp_path, seed))
        assert Counter(kind for _, _, kind in spans) == {"commit": 400, "close": 400}
        assert _overlaps(spans) == []


@pytest.mark.proof(share=0)
def test_the_trace_notices_that_there_is_no_queue(crew, tmp_path):
    # More of them: without the queue they meet by chance only, and must be seen to.
    spans = _spans(crew, tmp_path / "state.db", fault="no queue", workers=8, rounds=400)
    assert _overlaps(spans) != []


def _log_length(crew: Crew, tmp_path: Path, longest: int = 0) -> int:
    store, url = prepared(tmp_path / "state.db", 200)
    store.close()
    crew.add("leave", url=url, count=150, longest=longest)
    crew.open()
    return crew.results()[0]


@pytest.mark.proof(share=0)
def test_the_log_stays_short_though_every_command_leaves_without_closing(crew, tmp_path):
    one_more = 1 << 18
    assert _log_length(crew, tmp_path) < LONG_LOG_BYTES + one_more


@pytest.mark.proof(share=0)
def test_left_to_itself_sqlite_lets_the_log_grow(crew, tmp_path):
    """Whoever opens it first forgets what had been moved, so it never starts over."""
    assert _log_length(crew, tmp_path, longest=1 << 40) > 1 << 22


def test_whoever_reads_does_not_hold_up_who_shortens_the_log(tmp_path):
    _, url = prepared(tmp_path / "state.db", 3000)
    writer, reader = open_store(url, busy_seconds=600), open_store(url)
    with reader.read(PLAN) as reading:
        assert reading.one(sql.PLAN)["steps_total"] == 3000
        for _ in range(2):
            with writer.write(PLAN) as tx:
                # All pages of a large table: the log is long at once.
                tx.run("update steps set title = title || :more", more="!" * 200)
        assert (tmp_path / "state.db-wal").stat().st_size > LONG_LOG_BYTES
    state.pause(writer, PLAN)
    assert (tmp_path / "state.db-wal").stat().st_size == 0


def test_whoever_stays_lets_the_log_grow_and_whoever_leaves_shortens_it(tmp_path):
    _, url = prepared(tmp_path / "state.db", 3000)
    log = tmp_path / "state.db-wal"
    with (
        contextlib.closing(open_store(url)) as stays,
        contextlib.closing(open_store(url)) as leaves,
    ):
        for _ in range(STAYING_COMMITS):
            _turn_over(stays, "update plans set phase_title = phase_title")
        sizes = []
        for _ in range(12):
            _turn_over(stays, "update steps set title = substr(title, 2) || 'x'")
            sizes.append(log.stat().st_size)
        assert LONG_LOG_BYTES < max(sizes) < LONGEST_LOG_BYTES + (1 << 20)
        _turn_over(leaves, "update plans set phase_title = phase_title")
        assert log.stat().st_size == 0


def _turn_over(store: SqliteStore, statement: str) -> None:
    with store.write(PLAN) as tx:
        tx.run(statement)
