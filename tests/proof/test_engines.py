"""Random histories on both engines at once: every answer, row and event is the same."""

import io
import itertools
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from weave_deeds import ADDRESS, BY_NAME, DEEDS, SCENES, Hand

from support import engines
from support.state import KEY, NOON, Lab, sorted_rows
from support.state_walk import OPERATIONS, OWNERS, Walk
from tugtool import state
from tugtool.errors import TugError
from tugtool.state.claims import Request
from tugtool.store import NO_PLAN, open_store, sql
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
NUMBERS = ("id", "artifact_id", "dash_id")
#: What both can do: only a file is restored.
BOTH = [name for name in BY_NAME if name != "restore"]
#: All tables, but for what one machine knows of its files, and what each database has of its own.
COMPARED = [name for name in engines.TABLES if name not in ("plan_copies", "epoch")]
#: For `make proof ONLY=history MINUTES=...`, and for whoever asks for a number.
HISTORIES = int(os.environ.get("TUG_HISTORIES") or 20)


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


def _pair(directory: Path, make: Callable[[Path], Lab]) -> Iterator[Lab]:
    """The same in PostgreSQL and in a file."""
    yield make(directory)
    with engines.in_file():
        yield make(directory)


def _difference(directory: Path, seed: int, steps: int) -> str | None:
    """Carry one history out on both engines; where they differ, in words."""
    return (_of_deeds if seed % 2 else _of_walks)(directory, random.Random(seed), steps)


def _of_walks(directory: Path, chance: random.Random, steps: int) -> str | None:
    """What workers do, on a plan of some shape."""
    lines = chance.choice(PLANS)
    labs = list(_pair(directory, lambda path: Lab(path, *lines, max_attempts=3)))
    told = [Told(lab) for lab in labs]
    walks = [Walk(lab) for lab in labs]
    for _ in range(steps):
        operation = (chance.choice(OPERATIONS), chance.choice(OWNERS))
        where = (chance.randrange(9), chance.randrange(5))
        for walk in walks:
            walk.act(*operation, *where)
        if told[0].answers != told[1].answers:
            return f"{operation}: {told[0].answers[-1]} and {told[1].answers[-1]}"
    return _end(directory, *labs)


def _of_deeds(directory: Path, chance: random.Random, steps: int) -> str | None:
    """Every operation that writes, in any order, from one of the scenes on."""
    scene = chance.choice(list(SCENES))
    hands = []
    for name in engines.ENGINES:
        hands.append(_hand(directory / name, name))
        SCENES[scene](hands[-1])
    for _ in range(steps):
        deed, later = chance.choice(BOTH), chance.choice((0, 1, 61, 3600, 8000))
        answers = [_done(hand, deed) for hand in hands]
        if answers[0] != answers[1]:
            return f"{scene}, {deed}: {answers[0]} and {answers[1]}"
        for hand in hands:
            hand.clock.advance(later)
    return _end(directory, *hands)


def _hand(directory: Path, engine: str) -> Hand:
    directory.mkdir()
    if engine == "postgres":
        (directory / ADDRESS).write_text(engines.url_in(directory))
    hand = Hand(directory, NOON)
    hand.begin()
    return hand


def _done(hand: Hand, deed: str) -> object:
    """What a deed is answered with, or refused; paths of one engine are those of the other."""
    try:
        answer = json.dumps(_without_numbers(BY_NAME[deed](hand)), default=str)
    except TugError as error:
        # An engine that refuses itself does so in its own words.
        return error.code if error.code == "E047" else (error.code, error.message)
    return answer.replace(str(hand.directory), "")


def _end(directory: Path, *labs: Lab) -> str | None:
    try:
        return _rows_differ(*labs)
    finally:
        for lab in labs:
            lab.store.close()


def _rows_differ(one: Lab, other: Lab) -> str | None:
    for table in COMPARED:
        rows = [sorted_rows(lab.rows(f"select * from {table}")) for lab in (one, other)]
        if _without_numbers(rows[0]) != _without_numbers(rows[1]):
            return f"rows of {table}"
    for view in (state.show, state.ready, state.stats):
        said = [_looked(lab, view) for lab in (one, other)]
        if said[0] != said[1]:
            return view.__name__
    # Whatever the numbers are, they say in which order things happened.
    exports = [list(map(_without_number, state.export(lab.store))) for lab in (one, other)]
    apart = [pair for pair in itertools.zip_longest(*exports) if pair[0] != pair[1]]
    return f"exports: {apart[0][0]} and {apart[0][1]}" if apart else None


def _looked(lab: Lab, view: Callable[..., object]) -> object:
    try:
        return _without_numbers(view(lab.store, KEY))
    except TugError as error:
        # It was pruned.
        return error.code


def _without_number(line: str) -> str:
    return json.dumps([_without_numbers(json.loads(each)) for each in line.splitlines()])


@pytest.mark.proof
def test_a_history_comes_to_the_same_on_both_engines(server, spell, tmp_path):
    for seed in spell.seeds(least=HISTORIES):
        (tmp_path / str(seed)).mkdir()
        assert _difference(tmp_path / str(seed), seed, steps=40) is None
        shutil.rmtree(tmp_path / str(seed))
    spell.tell(f"{spell.rounds} histories of {len(BOTH)} deeds of {len(DEEDS)} operations")


def test_a_few_histories_come_to_the_same(server, tmp_path):
    for seed in range(2):
        (tmp_path / str(seed)).mkdir()
        assert _difference(tmp_path / str(seed), seed, steps=25) is None


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("lost", [sql.START_STEP, sql.RENEW, sql.SHIFT_OPEN_DEPS, sql.PROGRESS])
def test_the_comparison_notices_an_engine_that_forgets_a_statement(
    server, tmp_path, monkeypatch, lost
):
    def forgetful(name: str) -> Callable[..., int]:
        run = getattr(PostgresTransaction, name)

        def running(self: PostgresTransaction, statement: str, **values: object) -> int:
            return 1 if statement == lost else run(self, statement, **values)

        return running

    for name in ("run", "later"):
        monkeypatch.setattr(PostgresTransaction, name, forgetful(name))
    for seed in range(20):
        (tmp_path / str(seed)).mkdir()
        if _difference(tmp_path / str(seed), seed, steps=40) is not None:
            return
    pytest.fail("nothing was noticed")


@pytest.mark.parametrize("scene", SCENES)
def test_a_state_moves_into_a_server_and_back_and_no_byte_differs(server, tmp_path, scene):
    with engines.in_file():
        here = _hand(tmp_path / "here", "sqlite")
    SCENES[scene](here)
    for deed in ("round", "set ref", "red reports", "accept", "pause"):
        _done(here, deed)
    with here.store.write(NO_PLAN) as tx:
        # Deeds have commits that git would not know.
        tx.run("update dashes set base_commit = :hash", hash="c" * 40)
        tx.run("update dash_rounds set commit_hash = :hash", hash="d" * 40)
    first = _exported(here.store)
    there = open_store(engines.url_in(tmp_path / "there"), clock=here.clock)
    assert not state.import_(there, io.BytesIO(first))["renumbered"]
    second = _exported(there)
    back = open_store(f"sqlite://{tmp_path}/back.db", clock=here.clock)
    assert not state.import_(back, io.BytesIO(second))["renumbered"]
    assert _exported(back) == second == first
    # The next numbers are those that would have come in a file.
    stores = (here.store, there, back)
    claims = [state.claim(each, KEY, Request("green"), copy=here.copy) for each in stores]
    assert claims[0] == claims[1] == claims[2]
    assert _exported(there) == _exported(back) == _exported(here.store)
    for store in stores:
        store.close()


def _exported(store) -> bytes:
    """All but the first line, which says when it was written and by which version."""
    head, *rest = "".join(state.export(store)).encode().splitlines(keepends=True)
    assert json.loads(head)["format"] == "tugtool-state"
    return head.replace(_time(head), b"") + b"".join(rest)


def _time(head: bytes) -> bytes:
    return str(json.loads(head).get("exported_at")).encode()
