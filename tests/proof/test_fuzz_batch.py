"""Whatever comes on standard input of `state update --batch`: done as it says, or refused whole.

What a batch says is read here by other means, from what the documents promise.
"""

import json
import random

import pytest
from snapshots import Record

from tugtool.cli import checklist_input

#: All but what is random here has an end of its own.
pytestmark = pytest.mark.proof(share=0)

KINDS = ("task", "test", "checkpoint")
STATUSES = ("open", "in_progress", "completed", "deferred")
FIELDS = {"kind", "ordinal", "status", "reason", "step"}
LINES = ("1 ttec", "1.1 te", "2 t")
PLACES = [
    *(("step-1", "task", 0), ("step-1", "task", 1), ("step-1", "test", 0)),
    *(("step-1", "checkpoint", 0), ("step-1-1", "task", 0), ("step-1-1", "test", 0)),
]
NO_ORDINALS = ("true", "false", "0.0", "-1", '"0"', "2", "null", "[0]")

#: What may stand anywhere instead of what is meant, as JSON.
ODD = [
    *("null", "true", "false", "0", "1", "-1", "0.0", "1e400", "-0", "NaN", "-Infinity", '""'),
    *("[]", "{}", '"task"', '"0"', '"open"', "9" * 25, "9" * 4299, "9" * 5000, '"\\ud800"'),
    *('"\\u0000"', '"\\u001b[2J\\u202e"', '"' + "x" * 5000 + '"', "[1", '"', "\ufeff", "'a'"),
    *('"step-1-1"', '"#step-1-1"', '"step-2"', '"step-1"', "{" * 30, '{"a":' * 20 + "1" + "}" * 20),
]


def document(dice: random.Random) -> bytes:
    """A batch that is nearly right, then something in it is not."""
    places = dice.sample(PLACES, dice.choice([0, 1, 1, 2, 3, 6]))
    entries = [_entry(dice, *place) for place in places]
    if dice.random() < 0.1:
        entries.append(dice.choice([*ODD, *entries]))
    text = "[" + ", ".join(entries) + "]"
    data = text.encode("utf-8", "surrogatepass")
    for _ in range(dice.choice([0, 0, 0, 0, 0, 1, 3])):
        data = _broken(dice, data)
    if dice.random() < 0.03:
        # About as deep as Python reads, and deeper than it shows.
        deep = dice.randint(100, 1100)
        data = b'[{"kind": "task", "ordinal": %b%b, "status": "open"}]' % (b"[" * deep, b"]" * deep)
    if dice.random() < 0.01:
        data = data.replace(
            b",", b"," + b" " * dice.choice([10_000_000, checklist_input.MOST_BYTES]), 1
        )
    return data


def _entry(dice: random.Random, step: str, kind: str, ordinal: int) -> str:
    fields = [
        ("kind", json.dumps(kind)),
        ("ordinal", str(ordinal) if dice.random() < 0.95 else dice.choice(NO_ORDINALS)),
        ("status", json.dumps(dice.choice(STATUSES))),
    ]
    if dice.random() < 0.4:
        fields.append(
            ("reason", json.dumps(dice.choice(["why", "", " ", "ü\U0001f600\x1b", "\0"])))
        )
    if step != "step-1" or dice.random() < 0.1:
        fields.append(("step", json.dumps(dice.choice([step, f"#{step}"]))))
    if dice.random() < 0.05:
        at = dice.randrange(len(fields))
        fields[at] = (fields[at][0], dice.choice(ODD))
    if dice.random() < 0.05:
        fields.append((dice.choice([*FIELDS, "x", "Kind"]), dice.choice(['"why"', "1", '"task"'])))
    dice.shuffle(fields)
    return "{" + ", ".join(f'"{name}": {value}' for name, value in fields) + "}"


def _broken(dice: random.Random, data: bytes) -> bytes:
    at = dice.randint(0, len(data))
    new = dice.choice([b"", b"\xff", b"\x00", dice.randbytes(1), dice.choice(ODD).encode(), b'"'])
    return data[:at] + new + data[at + dice.choice([0, 1, 1, 5]) :]


class Twins(ValueError):
    """The same name twice in one object."""


def _object(pairs: list[tuple[str, object]]) -> dict:
    if len(dict(pairs)) < len(pairs):
        raise Twins
    return dict(pairs)


def meant(data: bytes, items: dict) -> dict | None:
    """Item -> what it is to become, or None if this is no batch for these items."""
    try:
        entries = json.loads(data, object_pairs_hook=_object) if len(data) < 1 << 24 else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(entries, list) or not entries:
        return None
    wanted: dict = {}
    for entry in entries:
        key = _item(entry)
        if key not in items or key in wanted:
            return None
        wanted[key] = (entry["status"], entry.get("reason"))
    return wanted


def _item(entry: object) -> tuple | None:
    if not isinstance(entry, dict) or set(entry) - FIELDS or entry.get("status") not in STATUSES:
        return None
    if not isinstance(entry.get("reason"), str | None) or not isinstance(
        entry.get("step"), str | None
    ):
        return None
    ordinal, step = entry.get("ordinal"), entry.get("step")
    if type(ordinal) is not int or not isinstance(entry.get("kind"), str):
        return None
    return ("step-1" if step is None else step.removeprefix("#"), entry["kind"], ordinal)


def items_of(record: Record) -> dict:
    return {tuple(row[:3]): tuple(row[3:]) for row in record.items() if row[0] != "step-2"}


def after(before: tuple, wanted: tuple) -> tuple:
    """Status and reason of an item once it was set."""
    status, reason = wanted
    kept = reason if reason and reason.strip() and status in ("completed", "deferred") else None
    if kept is not None:
        kept = kept.encode("utf-8", "backslashreplace").decode().replace("\0", "\u2400")
    return (status, before[1] if status == before[0] and kept is None else kept)


def try_one(desk, record: Record, data: bytes) -> bool:
    """Whether the batch was taken; whichever it was, rightly."""
    before = record.rows()
    items = items_of(record)
    wanted = meant(data, items)
    done = desk.batch("step-1", data)
    told = (data[:2000], done.out[:2000])
    if wanted is None:
        assert (done.status, done.codes) == (1, ["E066"]), told
        assert record.rows() == before, told
        assert len(done.out) < 20_000, told
        return False
    assert done.status == 0, told
    expected = {
        key: after(was, wanted[key]) if key in wanted else was for key, was in items.items()
    }
    assert items_of(record) == expected, told
    assert done.data["updated"] == sum(expected[key][0] != items[key][0] for key in items), told
    return True


@pytest.fixture
def claimed(desk):
    """A desk with a step in hand, and its record."""
    made = desk(*LINES)
    made.ok("claim", "work", "--lease-duration", 10**8)
    record = Record(made.repo.path)
    yield made, record
    record.close()


@pytest.mark.proof(share=1)
def test_a_batch_is_done_as_it_says_or_refused_and_changes_nothing(claimed, spell):
    taken = 0
    for seed in spell.seeds(least=200):
        taken += try_one(*claimed, document(random.Random(seed)))
    spell.tell(f"{taken} batches done, {spell.rounds - taken} refused")


def _last_twin(data: bytes) -> object:
    return json.loads(data)


def _without_rubbish(data: bytes) -> object:
    found = batch_loaded(data)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else found


def _false_is_zero(data: bytes) -> object:
    return json.loads(
        data.replace(b"false", b"0"), object_pairs_hook=checklist_input._without_duplicates
    )


batch_loaded = checklist_input._loaded


@pytest.mark.parametrize("fault", [_last_twin, _without_rubbish, _false_is_zero])
def test_a_reader_that_is_too_kind_is_noticed(claimed, monkeypatch, fault):
    monkeypatch.setattr(checklist_input, "_loaded", fault)
    documents = (document(random.Random(seed)) for seed in range(800))
    with pytest.raises(AssertionError):
        all(try_one(*claimed, data) in (True, False) for data in documents)
