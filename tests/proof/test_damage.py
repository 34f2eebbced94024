"""A database that is damaged: noticed and refused, or the truth as far as anybody can know it.

No command fails as if it were its own fault, none says what the next who looks does not find,
and the way back works without opening what is broken. What SQLite does not protect by a
checksum, a letter in the middle of a text, nobody can notice.
"""

import json
import os
import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from damaging import Wreck, tables
from faulting import Server, Wrong, in_memory

from support.proving import Spell
from support.state import KEY
from tugtool.store import schema

#: All but what is random here has an end of its own.
pytestmark = pytest.mark.proof(share=0)

#: By default; with time to spend it goes on.
BITS, CUTS, LENGTHS = 70, 25, 8


@pytest.fixture
def wreck() -> Iterator[Wreck]:
    """A database with a known history."""
    server = Server()
    with in_memory() as directory:
        yield Wreck(Path(directory), server)
        server.end()


def _forgetting(wreck: Wreck, chance: random.Random) -> None:
    """Half of the time nobody knows how far it had got, or that somebody wrote to it."""
    if chance.random() < 0.5:
        wreck.forget()
    elif chance.random() < 0.5:
        wreck.as_if_untouched()


def _rounds(spell: Spell, least: int) -> Iterator[random.Random]:
    for seed in spell.seeds(least):
        yield random.Random(seed)


def _damaged(wreck: Wreck, chance: random.Random) -> str:
    """One bit turned over, or one page overwritten, in the database or in its log."""
    wreck.put()
    path = chance.choice((wreck.database, wreck.database, wreck.log))
    if path == wreck.database and chance.random() < 0.7:
        wreck.move()
    how = wreck.scribble if chance.random() < 0.2 else wreck.flip
    damage = how(path, chance)
    _forgetting(wreck, chance)
    return damage


@pytest.mark.proof(share=3)
def test_a_bit_or_a_page_that_changed_makes_nobody_lie(spell, wreck):
    seen = Counter(wreck.examine(_damaged(wreck, each)) for each in _rounds(spell, BITS))
    spell.tell(f"{seen.total()} damaged: {dict(seen)}")
    assert seen["refused"]


@pytest.mark.proof(share=1)
def test_a_log_that_was_cut_off_holds_the_first_of_what_was_acknowledged(spell, wreck):
    seen: Counter[str] = Counter()
    for chance in _rounds(spell, CUTS):
        wreck.put()
        damage = wreck.cut(wreck.log, chance.randrange(len(wreck.whole[wreck.log])))
        if tables(wreck.database) not in wreck.states:
            raise Wrong(damage)
        if chance.random() < 0.5:
            # Nobody knows better then.
            wreck.forget()
            wanted = ("behind", "unnoticed")
        else:
            wanted = ("refused",)
        found = wreck.examine(damage)
        assert found in wanted, damage
        seen[found] += 1
    spell.tell(f"{seen.total()} cuts: {dict(seen)}")
    assert len(seen) > 1


@pytest.mark.proof(share=1)
def test_a_database_that_was_cut_off_is_refused_or_whole(spell, wreck):
    seen: Counter[str] = Counter()
    for n, chance in enumerate(_rounds(spell, LENGTHS)):
        wreck.put()
        wreck.move()
        size = wreck.database.stat().st_size
        # First what is special, then anything.
        lengths = [0, 1, 15, 16, 99, 100, 512, 4095, 4096, 4097, 8192, size - 4096, size - 1]
        length = lengths[n] if n < len(lengths) else chance.randrange(size)
        damage = wreck.cut(wreck.database, length)
        _forgetting(wreck, chance)
        seen[wreck.examine(damage)] += 1
    spell.tell(f"{seen.total()} lengths: {dict(seen)}")
    # What was empty is not missed.
    assert set(seen) <= {"refused", "unnoticed"}
    assert seen["refused"]


HEADERS = {
    "nothing": bytes(100),
    "another word": b"SQLite format 4\0",
    "a page size that cannot be": b"SQLite format 3\0\x00\x03",
    "a version that nobody writes": b"SQLite format 3\0\x10\x00\x09\x09",
}


def test_a_header_that_was_overwritten_is_named_by_the_doctor_and_mended_by_a_restore(wreck):
    for name, content in HEADERS.items():
        wreck.put()
        wreck.move()
        with wreck.database.open("r+b") as file:
            file.write(content)
        told = wreck.command("doctor")
        assert (told["status"], told["err"]) == (1, "")
        checks = {
            check["name"]: check["findings"] for check in json.loads(told["out"])["data"]["checks"]
        }
        (finding,) = checks["database"]
        assert str(wreck.database) in finding["message"]
        assert finding["hint"] == "tugcode restore --dry-run"
        assert wreck.examine(name) == "refused"


def test_a_database_of_a_later_version_is_refused_and_left_as_it_is(wreck):
    for ahead in (1, 1000):
        wreck.put()
        wreck.move()
        connection = sqlite3.connect(wreck.database)
        connection.execute(f"pragma user_version = {schema.VERSION + ahead}")
        connection.close()
        before = wreck.database.read_bytes()
        for words in (["show", "work"], ["claim", "work"], ["init", "work"], ["restore"]):
            refused = wreck.command("state", *words)
            assert (refused["status"], refused["err"]) == (1, "")
            assert '"E065"' in refused["out"]
        assert wreck.database.read_bytes() == before
        assert not wreck.log.exists() or not wreck.log.stat().st_size


def test_an_index_that_passes_over_steps_is_named_by_the_doctor(wreck):
    wreck.put()
    wreck.move()
    content = wreck.database.read_bytes()
    # As it stands in an index: the key, and the number of its row.
    entry = KEY.encode() + b"step-2\x02"
    assert entry in content
    wreck.database.write_bytes(content.replace(entry, entry.replace(b"work", b"wo\xf2k")))
    wreck.as_if_untouched()
    assert wreck.examine("an index") == "changed"
    assert wreck.is_named("an index")
    # As if another program had written to it, it is not even read.
    os.utime(wreck.database, (0, 0))
    assert wreck.examine("an index") == "refused"


#: Planted fault -> what is damaged.
FAULTS = {"untranslated": "anything", "forgetful": "anything", "believing": "log"}


def _examined(wreck: Wreck, what: str) -> None:
    """Forty wrecks, always the same ones."""
    for chance in map(random.Random, range(40)):
        if what == "anything":
            wreck.examine(_damaged(wreck, chance))
            continue
        wreck.put()
        wreck.forget()
        wreck.examine(wreck.scribble(wreck.log, chance))


def test_the_proof_notices_a_fault(wreck):
    for fault, what in FAULTS.items():
        wreck.planted = fault
        with pytest.raises(Wrong):
            _examined(wreck, what)
