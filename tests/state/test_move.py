"""A plan's record follows its file to another name, with all that belongs to it."""

import os

from support.state import KEY, TABLES, markdown, sorted_rows
from tugtool import state
from tugtool.plan import fingerprint, parser
from tugtool.state import proofs, standings
from tugtool.state.claims import Request
from tugtool.state.record import PlanCopy
from tugtool.system import process

NEW = ".tugtool/tugplan-other.md"


def busy(lab):
    """A plan with everything that a record can have."""
    lab = lab("1 t", "2 te < 1", "2.1 t", "3 c < 2")
    lab.finish("step-1")
    lab.claim("red", "step-2")
    lab.artifact("step-2")
    lab.revise(lab.text + "\nMore.\n")
    add(lab, ".tugtree/one")
    with lab.store.write(KEY) as tx:
        tx.run(
            "insert into unsaved values (:plan, 'step-2', 1, 'red', :now)",
        )
    return lab


def add(lab, path: str, stamp: str | None = None) -> None:
    with lab.store.write(KEY) as tx:
        tx.run(
            "insert into worktrees values (:path, 'b', 'main', 'c', :plan, :now, null, :stamp)",
            path=path,
            stamp=stamp,
        )


def move(lab, plan: str = KEY, to: str = NEW) -> dict:
    return state.move(lab.store, plan, to, actor="person")


def test_every_row_goes_along_and_nothing_else_changes(lab):
    lab = busy(lab)
    tables = (*TABLES, "worktrees", "unsaved")
    before = {table: lab.rows(f"select * from {table}") for table in tables}
    answer = move(lab)
    assert (answer["changed"], answer["completed_steps"], answer["total_steps"]) == (True, 1, 3)
    after = {table: sorted_rows(lab.rows(f"select * from {table}")) for table in tables}
    last = after["events"].pop()
    assert (last["kind"], last["actor"], last["detail"]) == (
        "move",
        "person",
        f'{{"name": "{KEY}"}}',
    )
    for table in tables:
        assert before[table], table
        wanted = [{**row, "plan_path": NEW} for row in before[table]]
        assert sorted(map(str, after[table])) == sorted(map(str, wanted)), table


def test_a_moved_plan_is_carried_on_under_its_new_name_only(lab):
    lab = busy(lab)
    move(lab)
    with lab.refuses("E063"):
        lab.show()
    state.update(lab.store, NEW, "step-2", [], owner="red", copy=lab.copy, complete_remaining=True)
    assert state.complete(lab.store, NEW, "step-2", owner="red", copy=lab.copy)["completed"]
    assert state.claim(lab.store, NEW, Request("red"), copy=lab.copy)["anchor"] == "step-3"


def test_its_earlier_names_are_remembered(lab):
    lab = lab("1 t")
    move(lab)
    with lab.unchanged():
        assert move(lab, NEW, NEW)["changed"] is False
    move(lab, NEW, KEY)
    move(lab)
    other = markdown("1 t", "2 t")
    hash = fingerprint.of(other.encode())
    state.init(lab.store, "other.md", parser.parse(other), text=other, hash=hash)
    move(lab, "other.md", "another.md")
    with lab.store.read(NEW) as tx:
        assert proofs.earlier_names(tx) == [KEY, NEW, KEY]
    others = {"other.md": "another.md", "another.md": "another.md"}
    assert proofs.every_name(lab.store) == {KEY: NEW, NEW: NEW, **others}
    assert standings.with_text(lab.store, lab.hash) == [NEW]


def test_no_record_is_moved_over_another_or_from_nowhere(lab):
    lab = lab("1 t")
    with lab.refuses("E063", "has no state yet"):
        move(lab, "nothing.md")
    with lab.store.write(KEY, NEW) as tx:
        tx.run(
            "insert into plans select :to, plan_hash, phase_title, status, created_at,"
            " updated_at, base_commit, paused_at, merged_commit, plan_text from plans",
            to=NEW,
        )
        tx.run(
            "insert into plan_counts select :to, steps_total, steps_done, steps_ready,"
            " changed_at from plan_counts",
            to=NEW,
        )
    with lab.refuses("E064", "nothing was moved"):
        move(lab)


def test_nothing_is_moved_under_a_process_or_an_unfinished_deed(lab):
    lab = lab("1 t", "2 t")
    lab.claim("red", "step-1", holder_pid=os.getpid())
    with lab.refuses("E050", "carried out by a process"):
        move(lab)
    lab.release("step-1")
    add(lab, ".tugtree/one", process.stamp("implement 0.1"))
    with lab.refuses("E050", "carried out by a process"):
        move(lab)
    with lab.store.write(KEY) as tx:
        tx.run("delete from worktrees")
        tx.run("insert into intents values ('commit', 'red', :plan, 'step-1', 1, null, '{}', :now)")
    with lab.refuses("E050", "in the middle of a commit"):
        move(lab)


def test_a_copy_that_is_gone_names_the_file_with_its_text(lab):
    lab = lab("1 t")
    copy = PlanCopy("/the/plan.md")
    copy.renamed = lambda row: NEW if row["plan_hash"] == lab.hash else None
    with lab.refuses("E048", f"is gone since the plan was initialised; {NEW} has its text"):
        lab.claim(copy=copy)
