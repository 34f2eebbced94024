"""tugcode doctor as a whole: silent where all is well, and it changes nothing by looking."""

import os
import re
import shutil
import stat
import tempfile
from pathlib import Path

import pytest

from conftest import Repo
from support.doctor import MACHINE
from tugtool import git
from tugtool.errors import Usage
from tugtool.workflow.doctor import Subject, checks, error, note, warning

COUNT = len(checks.CHECKS)
DOCS = Path(__file__).parents[2] / "docs"


def quiet(text: str) -> str:
    """Without what the machine of the tests has to be told."""
    lines = text.splitlines(keepends=True)
    about = [n for n, line in enumerate(lines) if re.match(f"! \\w+ ({'|'.join(MACHINE)}):", line)]
    return "".join(line for n, line in enumerate(lines) if not {n, n - 1} & set(about))


@pytest.mark.proof(share=0)
def test_a_healthy_repository_is_told_of_in_one_line(clinic):
    c = clinic()
    done = c.text()
    assert (done.status, done.err) == (0, "")
    assert re.fullmatch(
        rf"all is well: {COUNT} checks · .*SQLite \S+.* · git \S+\n", quiet(done.out)
    )
    assert "bug" not in done.out
    data = c.doctor().data
    assert data["healthy"]
    assert data["counts"] == {"ok": COUNT, "fixed": 0, "warning": 0, "error": 0, "skipped": 0}
    assert c.findings() == {}


def test_a_repository_at_work_is_healthy_too(clinic):
    c = clinic()
    c.ok("state", "claim", "work", at=c.tree)
    Repo(c.tree).write({"new": "x"})
    assert c.findings() == {}
    other = c.create("--new")
    assert c.findings(at=other) == {}


def test_without_fix_nothing_at_all_is_changed(clinic):
    c = clinic()
    c.ok("state", "claim", "work", at=c.tree)
    shutil.rmtree(c.tree)
    c.sql("update steps set open_deps = 7")
    for in_use in (True, False):
        if not in_use:
            c.rest()
        before = c.snapshot()
        assert len(c.findings()) >= 3
        assert c.text().status == 1
        assert c.snapshot() == before


def test_without_a_database_none_is_made(clinic):
    c = clinic()
    for path in [*c.db.parent.glob("state.*"), *c.copies.glob("*")]:
        path.unlink()
    before = c.snapshot()
    assert c.doctor().data["counts"]["skipped"] > 10
    counts = c.doctor().data["counts"]
    made = COUNT - counts["skipped"]
    said = f"{made} of {COUNT} checks made · skipped: nothing is recorded yet"
    assert f"all is well: {said} · " in c.text().out
    assert c.snapshot() == before


def test_fix_changes_nothing_where_all_is_well(clinic):
    c = clinic()
    rows, before = c.dump(), c.snapshot()
    assert c.doctor("--fix").status == 0
    assert c.dump() == rows
    assert c.snapshot() == before


def test_it_works_where_nothing_may_be_written(clinic):
    c = clinic()
    c.sql("update steps set open_deps = 7")
    c.rest()
    places = [c.db.parent, c.copies, c.root / ".git"]
    for place in places:
        os.chmod(place, 0o555)
    try:
        assert "counts" in c.findings()
        if os.getuid():
            assert "not done" in c.one("counts", "--fix")["outcome"]
    finally:
        for place in places:
            os.chmod(place, 0o755)


def test_it_works_where_sqlite_cannot_write_beside_the_database(clinic):
    c = clinic()
    c.sql("update steps set open_deps = 7")
    c.rest()
    (c.db.parent / "state.db-wal").touch()
    # Shared memory cannot be made of this.
    os.mkfifo(c.db.parent / "state.db-shm")
    assert "counts" in c.findings()
    (finding,) = c.findings("--fix")["counts"]
    assert finding["outcome"].startswith(f"not done: {c.db} ")
    assert not finding["fixed"]


def test_a_copy_that_was_looked_at_is_not_left_behind(clinic, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    c = clinic()
    c.rest()
    assert c.findings() == {}
    assert not list(tmp_path.glob("tugcode-doctor-*"))
    assert not list(c.db.parent.glob("state.db-*"))


def test_a_check_that_breaks_stops_no_other(clinic):
    c = clinic()

    def broken(patient):
        yield warning("seen before")
        raise ZeroDivisionError("odd")

    def refused(patient):
        raise Usage("no such thing")
        yield

    def fine(patient):
        yield note("all well")

    names = {"a": broken, "b": refused, "c": fine}
    found = examined(c, *(checks.Check(name, each) for name, each in names.items()))
    assert [[each.message for each in report.findings] for report in found] == [
        ["seen before", "cannot be looked at: ZeroDivisionError('odd')"],
        ["cannot be looked at: no such thing"],
        ["all well"],
    ]
    assert [report.status for report in found] == ["error", "error", "ok"]


def examined(c, *given: checks.Check, fix: bool = False) -> list[checks.Report]:
    patient = Subject(git.discover(str(c.root)), cwd=str(c.root), fix=fix)
    found = checks.examine(patient, given)
    patient.close()
    return found


def test_what_others_are_just_changing_counts_only_if_it_is_found_twice(clinic):
    c = clinic()
    looks = iter([["passing", "staying"], ["staying", "new"]])

    def look(patient):
        yield from map(warning, next(looks))

    (report,) = examined(c, checks.Check("x", look, moving=True))
    assert [each.message for each in report.findings] == ["staying"]


def test_a_repair_is_believed_only_if_a_second_look_finds_nothing(clinic):
    c = clinic()
    wrong = {"mends", "does not", "cannot", "breaks"}

    def mend() -> str:
        wrong.discard("mends")
        return "done"

    def fail() -> str:
        raise PermissionError(1, "Operation not permitted")

    acts = {
        "mends": mend,
        "does not": lambda: "done",
        "cannot": fail,
        "breaks": lambda: str(1 // 0),
    }

    def look(patient):
        for each in sorted(wrong):
            yield error(each, repair=acts[each])

    (report,) = examined(c, checks.Check("x", look), fix=True)
    assert [each.message for each in report.mended] == ["mends"]
    told = {each.message: each.outcome for each in report.findings}
    assert told == {
        "breaks": "not done: ZeroDivisionError('integer division or modulo by zero')",
        "does not": "done",
        "cannot": "not done: Operation not permitted",
    }
    assert report.status == "error"


def test_text_names_what_is_wrong_what_to_do_and_what_was_done(clinic):
    c = clinic()
    c.sql("update plan_counts set steps_ready = 9")
    (c.root / ".tugtree" / "empty").mkdir()
    done = c.text()
    assert done.status == 1
    out = quiet(done.out)
    assert "error counts: .tugtool/tugplan-work.md: steps_ready is 9 and should be 1\n" in out
    assert "    next: tugcode doctor --fix\n" in out
    assert "warning directories: " in out
    assert f"not healthy: {COUNT} checks · 1 error · 1 warning · " in out
    mended = c.text("--fix")
    assert mended.status == 0
    assert "fixed counts: .tugtool/tugplan-work.md: steps_ready is 9" in mended.out
    assert "    counted anew\n" in mended.out
    assert f"all is well: {COUNT} checks · 2 fixed · " in mended.out


def test_what_is_left_to_look_at_is_also_among_the_issues(clinic):
    c = clinic()
    (c.root / ".tugtree" / "empty").mkdir()
    envelope = c.doctor().envelope()
    (issue,) = envelope["issues"]
    assert issue["code"] == "W150"
    assert issue["message"].startswith("directories: ")
    assert c.doctor("--fix").envelope()["issues"] == []


def test_of_many_findings_people_see_ten_and_programs_all(clinic):
    c = clinic()
    for number in range(12):
        (c.root / ".tugtree" / f"empty{number}").mkdir()
    out = c.text().out
    assert out.count("warning directories: ") == 10
    assert "  directories: and 2 more (--all lists them)\n" in out
    assert c.text("--all").out.count("warning directories: .tugtree/empty") == 12
    assert len(c.only("directories")) == 12
    assert f"not healthy: {COUNT} checks · 12 warnings · " in out


def test_names_that_could_act_on_a_terminal_are_harmless(clinic):
    c = clinic()
    (c.root / ".tugtree" / "odd\x1b[31m\n --force").mkdir()
    out = c.text().out
    assert "\x1b" not in out
    assert c.only("directories")
    c.mends("directories")


def test_it_runs_in_a_linked_worktree_and_before_the_first_commit(clinic, tugcode, tmp_path):
    c = clinic()
    assert c.findings(at=c.tree) == {}
    fresh = Repo.init(tmp_path / "fresh")
    assert tugcode("-C", fresh.path, "init").status == 0
    assert tugcode("-C", fresh.path, "doctor").status == 0


def test_every_check_is_in_the_page_and_the_page_has_no_others():
    page = (DOCS / "reference" / "doctor.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)
    assert rows == [check.name for check in checks.CHECKS]


def test_the_state_s_files_keep_their_modes(clinic):
    c = clinic()
    os.chmod(c.db, 0o600)
    c.sql("update plan_counts set steps_ready = 9")
    c.mends("counts")
    assert stat.S_IMODE(os.stat(c.db).st_mode) == 0o600


@pytest.mark.parametrize("words", [["--fix"], []])
def test_outside_a_repository_it_is_refused(tugcode, tmp_path, words):
    done = tugcode("-C", tmp_path, "doctor", *words, "--json")
    assert (done.status, done.codes) == (1, ["E030"])
