"""Random histories on both engines at once: every answer, row and event is the same."""

import random
from pathlib import Path

import pytest

from support import engines
from support.state import KEY, Lab
from support.state_walk import OPERATIONS, OWNERS, Walk
from tugtool import state
from tugtool.errors import TugError
from tugtool.store import sql
from tugtool.store.postgres.transaction import PostgresTransaction

PLANS = (
    ("1 tt", "2 t < 1", "3 te < 1", "4 c < 2 3"),
    ("1 t", "1.1 tt", "1.2 e", "2 t < 1.1", "3 < 1"),
    ("1", "2", "3", "4 < 1 2 3", "5 tec"),
)
ANSWERING = (
    *("claim", "start", "beat", "update", "artifact", "complete", "release", "reset", "reopen"),
    *("pause", "resume"),
)
#: Given out by each engine in its own way; nothing refers to them but rows of the same engine.
NUMBERS = ("id",)


class Told:
    """Writes down what every operation of a lab answers, or refuses with."""

    def __init__(self, lab: Lab) -> None:
        self.answers: list[object] = []
        for name in ANSWERING:
            setattr(lab, name, self._telling(getattr(lab, name)))

    def _telling(self, operation):
        def telling(*words: object, **how: object) -> dict:
            try:
                answer = operation(*words, **how)
            except TugError as error:
                self.answers.append((error.code, error.message))
                raise
            self.answers.append(_without_numbers(answer))
            return answer

        return telling


def _without_numbers(value: object) -> object:
    if isinstance(value, dict):
        return {k: _without_numbers(v) for k, v in value.items() if k not in NUMBERS}
    return [_without_numbers(each) for each in value] if isinstance(value, list) else value


def _difference(directory: Path, seed: int, steps: int) -> str | None:
    """Carry one history out on both engines; where they differ, in words."""
    chance = random.Random(seed)
    lines = chance.choice(PLANS)
    labs = [Lab(directory, *lines, max_attempts=3)]
    with engines.in_file():
        labs.append(Lab(directory, *lines, max_attempts=3))
    told = [Told(lab) for lab in labs]
    walks = [Walk(lab) for lab in labs]
    operations = [
        (chance.choice(OPERATIONS), chance.choice(OWNERS), chance.randrange(9), chance.randrange(5))
        for _ in range(steps)
    ]
    try:
        for operation in operations:
            for walk in walks:
                walk.act(*operation)
            if told[0].answers != told[1].answers:
                return f"{operation}: {told[0].answers[-1]} and {told[1].answers[-1]}"
        return _rows_differ(*labs)
    finally:
        for lab in labs:
            lab.store.close()


def _rows_differ(one: Lab, other: Lab) -> str | None:
    for table, rows in one.dump().items():
        if _without_numbers(rows) != _without_numbers(other.dump()[table]):
            return f"rows of {table}"
    for view in (state.show, state.ready, state.stats):
        if _without_numbers(view(one.store, KEY)) != _without_numbers(view(other.store, KEY)):
            return view.__name__
    return None


@pytest.fixture
def server(tmp_path_factory):
    with engines.on("postgres", engines.session_root(tmp_path_factory)):
        yield


@pytest.mark.proof
def test_a_history_comes_to_the_same_on_both_engines(server, spell, tmp_path):
    for seed in spell.seeds(least=20):
        (tmp_path / str(seed)).mkdir()
        assert _difference(tmp_path / str(seed), seed, steps=40) is None
    spell.tell(f"{spell.rounds} histories")


def test_a_few_histories_come_to_the_same(server, tmp_path):
    for seed in range(2):
        (tmp_path / str(seed)).mkdir()
        assert _difference(tmp_path / str(seed), seed, steps=25) is None


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("lost", [sql.START_STEP, sql.RENEW, sql.SHIFT_OPEN_DEPS, sql.PROGRESS])
def test_the_comparison_notices_an_engine_that_forgets_a_statement(
    server, tmp_path, monkeypatch, lost
):
    run = PostgresTransaction.run

    def forgetful(self: PostgresTransaction, statement: str, **values: object) -> int:
        return 1 if statement == lost else run(self, statement, **values)

    monkeypatch.setattr(PostgresTransaction, "run", forgetful)
    for seed in range(20):
        (tmp_path / str(seed)).mkdir()
        if _difference(tmp_path / str(seed), seed, steps=40) is not None:
            return
    pytest.fail("nothing was noticed")
