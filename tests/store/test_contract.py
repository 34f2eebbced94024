"""What operations ask of an engine: six verbs, and a name for each plan that they change."""

import io
import os

import pytest

from state.test_transfer import add
from support.state import KEY
from tugtool import state
from tugtool.errors.state import DatabaseUnavailable, OnlyForFiles
from tugtool.state import dashes, intents, upkeep
from tugtool.store import NO_PLAN, back_up, file_store, open_store
from tugtool.store.sqlite import SqliteStore

OTHER = ".tugtool/tugplan-other.md"


class SixVerbs:
    """A store that is no file, as far as anybody can tell."""

    def __init__(self, store: SqliteStore) -> None:
        self.exists, self.create, self.close = store.exists, store.create, store.close
        self.write, self.read = store.write, store.read
        self.wait_for_change = store.wait_for_change


def _dash(store) -> dict:
    base, path = ("main", "a" * 40), "/r/fix"
    intents.add(store, NO_PLAN, "create", path, head=None, detail={})
    dashes.add(store, "fix", path=path, base=base, description=None)
    return dict(dashes.require(store, "fix"))


def _use(lab, there) -> None:
    """Two plans and a dash: carried out, exported, imported into another store, and dropped."""
    add(lab, OTHER, "1 t", "2 < 1")
    lab.claim("red", "step-1", begins=True)
    lab.tick("step-1", "t0")
    lab.artifact("step-1")
    lab.complete("step-1", force_reason="enough")
    lab.reopen("step-1")
    lab.claim("blue", "step-1")
    lab.claim("green", "step-1", force=True)
    lab.release("step-1", "green")
    state.pause(lab.store, OTHER)
    state.archive(lab.store, OTHER)
    dash = _dash(lab.store)
    dashes.join(lab.store, dash["id"], "b" * 40)
    text = "".join(state.export(lab.store))
    assert state.import_(there, io.BytesIO(text.encode()), name="x")["plans"] == [OTHER, KEY]
    assert upkeep.drop(there, {key: _last(there, key) for key in (KEY, OTHER)})
    assert state.show(there)["plans"] == []


def _last(store, plan: str) -> int:
    with store.read(plan) as tx:
        return tx.value("select max(seq) from events where plan_path = :plan")


@pytest.fixture
def there(tmp_path):
    """Another store, which is empty."""
    (tmp_path / "there").mkdir()
    store = open_store(f"sqlite://{tmp_path}/there/state.db")
    yield store
    store.close()


def test_operations_need_six_verbs_of_a_store(lab, there):
    lab = lab("1 tt", "2 < 1")
    lab.store = SixVerbs(lab.store)
    _use(lab, SixVerbs(there))


def test_what_is_no_file_is_neither_backed_up_nor_restored(lab):
    store = SixVerbs(lab("1").store)
    assert file_store(store) is None
    assert back_up(store) is None
    with pytest.raises(OnlyForFiles, match="the server's own backups"):
        state.restore(store)


def test_a_lost_file_comes_back_only_for_whoever_says_how(tmp_path):
    store = open_store(f"sqlite://{tmp_path}/state.db", copies=str(tmp_path / "copies"))
    assert store.create() is None
    assert back_up(store) is None
    store.close()
    os.unlink(tmp_path / "state.db")
    with pytest.raises(DatabaseUnavailable, match="is gone; a backup is there"):
        store.create()
    assert store.create(upkeep.put_back)["restored"]
    assert store.create(upkeep.put_back) is None
    store.close()


def test_a_file_that_another_process_makes_meanwhile_is_not_taken_for_a_lost_one(tmp_path):
    store, other = (
        open_store(f"sqlite://{tmp_path}/state.db", copies=str(tmp_path / "copies"))
        for _ in range(2)
    )
    size, made = store.size, []

    def overtaken() -> int:
        found = size()
        if not made:
            # Between two looks of this one: the file, its tables, and a backup.
            made.append(other.create())
            back_up(other)
            other.close()
        return found

    store.size = overtaken
    assert store.exists()
    store.close()


# -- every write names what it changes -------------------------------------------------


def test_operations_name_every_plan_whose_rows_they_change(named_writes, lab, there):
    _use(lab("1 tt", "2 < 1"), there)


def test_a_row_of_a_plan_that_was_not_named_is_noticed(named_writes, lab):
    lab = lab("1")
    add(lab, OTHER, "1")
    with lab.store.write(KEY) as tx:
        tx.run("update steps set title = 'x'")
    assert named_writes == [("steps", OTHER)]
    named_writes.clear()
    _dash(lab.store)
    with lab.store.write(KEY) as tx:
        tx.run("delete from dashes")
    assert named_writes == [("dashes", NO_PLAN)]
    named_writes.clear()


def test_the_lock_of_the_first_plan_alone_would_be_noticed(named_writes, lab, there, monkeypatch):
    """As prune and import once had it."""
    write = SqliteStore.write
    monkeypatch.setattr(
        SqliteStore, "write", lambda self, *plans, **how: write(self, plans[0], **how)
    )
    _use(lab("1 tt", "2 < 1"), there)
    assert {("steps", KEY), ("events", KEY), ("dashes", NO_PLAN)} <= set(named_writes)
    named_writes.clear()
