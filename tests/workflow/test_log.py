"""The implementation log: its entries, its rotation, and how branches of it come together."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import Repo
from support.commit import LOG
from tugtool.git import merge_tree
from tugtool.workflow.commit import log

NOW = "2026-02-23T12:00:00.000Z"


def entry(number: int = 1, **how: object) -> str:
    said = {
        "anchor": f"step-{number}",
        "title": "Part",
        "summary": "all is well",
        "plan": ".tugtool/tugplan-work.md",
        "attempt": 1,
        "worktree": ".tugtree/red",
        "claim": f"0123456789ab/step-{number}/1",
        "now": NOW,
    }
    return log.entry(**{**said, **how})


def test_an_entry_is_one_line_with_all_that_matters():
    assert entry() == (
        "- 2026-02-23T12:00:00.000Z **step-1: Part** all is well"
        " (plan .tugtool/tugplan-work.md, attempt 1, worktree .tugtree/red,"
        " 0123456789ab/step-1/1)\n"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\nlines", "two lines"),
        ("  much \t\r\n space ", "much space"),
        ("\x1b[31mred\x07", "[31mred"),
        ("\n\n- 2026 **step-9: forged**", "- 2026 **step-9: forged**"),
        ("right\u202eleft", "right left"),
        ("ünï 🚀", "ünï 🚀"),
        ("y" * 5000, "y" * 1999 + "…"),
    ],
)
def test_a_summary_is_harmless(text, shown):
    assert f"** {shown} (plan" in entry(summary=text)


@given(st.text(max_size=60), st.text(max_size=60))
def test_an_entry_stays_one_line_whatever_it_says(title, summary):
    text = entry(title=title, summary=summary)
    assert text.count("\n") == len(text.splitlines()) == 1
    assert text.encode()


# -- where the entry goes --------------------------------------------------------------


def prepared(
    top, text: str = "", *, max_lines: int = 500, max_bytes: int = 102400
) -> log.LogChange:
    change = log.prepare(str(top), max_lines=max_lines, max_bytes=max_bytes, now=NOW)
    change.entry = text or entry()
    return change


def recorded(top, change: log.LogChange) -> log.LogChange:
    """The change as somebody finds it after a crash."""
    return log.LogChange(str(top), **change.detail())


def put(top, content: bytes | None) -> None:
    if content is not None:
        (top / ".tugtool").mkdir(exist_ok=True)
        (top / LOG).write_bytes(content)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, "# Implementation log\n\nENTRY"),
        (b"", "ENTRY"),
        (b"# Implementation log\n\n- old\n", "# Implementation log\n\nENTRY- old\n"),
        (b"# Mine\n- old\n", "# Mine\nENTRY- old\n"),
        (b"# Mine\n\n\n\n- old\n", "# Mine\n\n\n\nENTRY- old\n"),
        (b"- old\n", "ENTRY- old\n"),
        (b"prose\n", "ENTRYprose\n"),
        (b"# No end", "ENTRY# No end"),
    ],
)
def test_the_newest_entry_stands_first_and_the_heading_stays(tmp_path, before, after):
    put(tmp_path, before)
    prepared(tmp_path).write()
    assert (tmp_path / LOG).read_text() == after.replace("ENTRY", entry())


LOGS = [None, b"", b"# Log\n\n", b"# Log\n\n- old\n", b"prose", b"\xff\xfe\n"]
LOGS += [b"# A\r\n\r\n- b\r\n", b"# A\n- b\n- c\n"]


@pytest.mark.parametrize("before", LOGS)
@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("done", [0, 1, 2])
@pytest.mark.parametrize("limit", [500, 1])
def test_what_was_done_to_the_log_is_undone_byte_for_byte(tmp_path, before, at_once, done, limit):
    put(tmp_path, before)
    change = prepared(tmp_path, max_lines=limit)
    for step in (change.rotate, change.write)[:done]:
        step()
    undo = change if at_once else recorded(tmp_path, change)
    undo.undo(at_once=at_once)
    path = tmp_path / LOG
    assert (path.read_bytes() if path.exists() else None) == before
    assert not (tmp_path / ".tugtool" / "archive").exists()
    assert [p.name for p in tmp_path.rglob("*.md")] == ([] if before is None else ["log.md"])
    undo.undo(at_once=at_once)
    assert (path.read_bytes() if path.exists() else None) == before


def test_what_others_wrote_after_a_crash_is_kept(tmp_path):
    put(tmp_path, b"# Log\n\n" + b"line\n" * 9)
    for limit in (500, 1):
        change = prepared(tmp_path, max_lines=limit)
        change.rotate()
        change.write()
        with (tmp_path / LOG).open("ab") as file:
            file.write(b"by hand\n")
        recorded(tmp_path, change).undo()
        text = (tmp_path / LOG).read_text()
        assert "by hand\n" in text
        assert entry() not in text


def test_a_rotation_that_fails_loses_nothing(tmp_path):
    before = b"# Log\n\n" + b"line\n" * 9
    put(tmp_path, before)
    (tmp_path / ".tugtool" / "archive").write_text("in the way")
    change = prepared(tmp_path, max_lines=1)
    with pytest.raises(Exception, match="not a directory"):
        change.rotate()
    change.undo(at_once=True)
    assert (tmp_path / LOG).read_bytes() == before


def test_the_mode_of_the_log_stays(tmp_path):
    put(tmp_path, b"# Log\n")
    (tmp_path / LOG).chmod(0o600)
    prepared(tmp_path).write()
    assert (tmp_path / LOG).stat().st_mode & 0o777 == 0o600


# -- rotation --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "rotated"),
    [
        (b"x\n" * 10, False),
        (b"x\n" * 11, True),
        (b"y" * 100, False),
        (b"y" * 101, True),
        (b"y" * 5_000_000, True),
    ],
)
def test_the_log_is_rotated_just_beyond_its_limits(tmp_path, content, rotated):
    put(tmp_path, content)
    change = prepared(tmp_path, max_lines=10, max_bytes=100)
    assert (change.archive is not None) == rotated


def test_a_rotated_log_is_whole_in_the_archive_and_the_new_one_keeps_its_heading(tmp_path):
    old = b"# Our own log\n\n" + b"- old\n" * 20
    put(tmp_path, old)
    change = prepared(tmp_path, max_lines=10)
    change.rotate()
    change.write()
    assert change.archive == ".tugtool/archive/log-2026-02-23T12-00-00-000Z.md"
    assert (tmp_path / change.archive).read_bytes() == old
    assert (tmp_path / LOG).read_text() == "# Our own log\n\n" + entry()


def test_two_rotations_at_one_time_have_two_names(tmp_path):
    for number in (1, 2, 3):
        put(tmp_path, b"%d\n" % number * 20)
        change = prepared(tmp_path, max_lines=10)
        change.rotate()
        change.write()
    names = sorted(os.listdir(tmp_path / ".tugtool" / "archive"))
    assert [name.removeprefix("log-2026-02-23T12-00-00-000Z") for name in names] == [
        "-2.md",
        "-3.md",
        ".md",
    ]


def test_commit_rotates_by_the_configured_limits_and_says_where_it_went(bench):
    b = bench("1", "2", "3")
    b.repo.write({".tugtool/config.toml": "[log]\nmax_lines = 2\n"})
    b.hold("step-1", "step-2", "step-3")
    assert not b.done("step-1")["log_rotated"]
    second = b.done("step-2")
    assert second["log_rotated"]
    assert second["archived_path"] in second["files_staged"]
    archived = b.red / second["archived_path"]
    assert "step-1: Part 1" in archived.read_text()
    assert b.entries() == ["step-2: Part 2"]
    third = b.done("step-3")
    assert third["archived_path"] not in (None, second["archived_path"])
    assert b.git("status", "--porcelain") == ""


# -- branches come together ------------------------------------------------------------


def merged(repo: Repo, base: str | None, ours: str, theirs: str) -> str:
    repo.git("checkout", "--quiet", "-B", "base", "start")
    if base is not None:
        repo.commit({LOG: base})
    repo.git("checkout", "--quiet", "-B", "theirs")
    repo.commit({LOG: theirs})
    repo.git("checkout", "--quiet", "-B", "ours", "base")
    repo.commit({LOG: ours})
    repo.git("merge", "--quiet", "--no-edit", "theirs")
    return (repo.path / LOG).read_text()


@pytest.fixture
def logged(repo, tugcode):
    """A repository that `tugcode init` has prepared."""
    tugcode("-C", repo.path, "init")
    repo.git("add", "--all")
    repo.git("commit", "--quiet", "--message=init")
    repo.git("tag", "start")
    return repo


def late(number: int, **how: object) -> str:
    return entry(number, now=f"2026-02-23T12:00:{number:02}.000Z", **how)


def test_entries_of_two_branches_stay_whole_when_they_merge(logged):
    head = log.HEADING
    text = merged(logged, head + late(1), head + late(2) + late(1), head + late(3) + late(1))
    assert text == head + late(2) + late(3) + late(1)


def test_the_first_entries_of_two_branches_stay_whole_when_they_merge(logged):
    text = merged(logged, None, log.HEADING + late(1), log.HEADING + late(2))
    assert text == log.HEADING + late(1) + late(2)


@pytest.mark.proof(share=0)
@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.sampled_from(["same", "other", "x"]), min_size=1, max_size=4),
    st.lists(st.sampled_from(["same", "other", "x"]), min_size=1, max_size=4),
)
def test_no_entry_is_torn_or_lost_by_a_merge(tmp_path_factory, ours, theirs):
    """Whatever the entries of both sides have in common."""
    from tugtool import git
    from tugtool.workflow import plans

    repo = Repo.init(tmp_path_factory.mktemp("merge"))
    plans.init_repository(git.discover(str(repo.path)))
    repo.commit()
    repo.git("tag", "start")
    base = log.HEADING + late(1)
    lefts = [late(10 + n, anchor="step-1", summary=text) for n, text in enumerate(ours)]
    rights = [late(20 + n, anchor="step-1", summary=text) for n, text in enumerate(theirs)]
    text = merged(
        repo,
        base,
        log.HEADING + "".join(lefts) + late(1),
        log.HEADING + "".join(rights) + late(1),
    )
    for each in (*lefts, *rights, late(1)):
        assert text.count(each) == 1, text
    assert text.count("\n") == log.HEADING.count("\n") + len(lefts) + len(rights) + 1


def test_an_entry_beside_a_rotated_log_is_kept(logged):
    old = log.HEADING + "".join(late(n) for n in range(9, 0, -1))
    rotated, added = log.HEADING + late(10), log.HEADING + late(11) + old[len(log.HEADING) :]
    text = merged(logged, old, rotated, added)
    assert all(text.count(late(n)) == 1 for n in range(1, 12))


def test_a_branch_without_the_committed_rule_merges_too(repo, tugcode):
    """An old branch has no .tugtool/.gitattributes; git's own info/attributes speaks for it."""
    tugcode("-C", repo.path, "init")
    repo.git("tag", "start")
    (repo.path / ".tugtool" / ".gitattributes").unlink()
    text = merged(repo, None, log.HEADING + late(1), log.HEADING + late(2))
    assert text == log.HEADING + late(1) + late(2)
    assert ".gitattributes" not in repo.git("ls-tree", "-r", "--name-only", "HEAD")


def test_somebody_else_s_clone_merges_by_the_committed_rule(logged, tmp_path):
    logged.git("clone", "--quiet", str(logged.path), str(tmp_path / "clone"))
    clone = Repo(tmp_path / "clone")
    text = merged(clone, None, log.HEADING + late(1), log.HEADING + late(2))
    assert text == log.HEADING + late(1) + late(2)


def test_a_person_s_own_rule_for_the_log_is_left_alone(repo, tugcode):
    rules = repo.path / ".git" / "info" / "attributes"
    rules.parent.mkdir(exist_ok=True)
    rules.write_text("*.x text\n/.tugtool/log.md merge=binary")
    assert "git's info/attributes" in tugcode("-C", repo.path, "init", "--json").data["kept"]
    assert rules.read_text() == "*.x text\n/.tugtool/log.md merge=binary"


def test_a_state_brings_the_rule_along(bench):
    b = bench("1")
    rules = (b.repo.path / ".git" / "info" / "attributes").read_text()
    assert "/.tugtool/log.md merge=union -text" in rules.splitlines()


def crossed(b) -> None:
    """Two branches that have each taken the other in, in another order, as people may do."""
    b.hold("step-1")
    b.hold("step-2", at=b.blue)
    b.done("step-1")
    b.done("step-2", at=b.blue)
    red, blue = (b.git("rev-parse", "HEAD", at=at).strip() for at in (b.red, b.blue))
    b.git("merge", "--quiet", "--no-edit", blue)
    b.git("merge", "--quiet", "--no-edit", red, at=b.blue)
    b.hold("step-3")
    b.hold("step-4", at=b.blue)
    b.done("step-3")
    b.done("step-4", at=b.blue)


def test_branches_that_took_each_other_in_tell_nothing_twice(bench):
    b = bench("1", "2", "3", "4")
    crossed(b)
    done = merge_tree.commits(str(b.repo.path), "red", "blue", log.repaired)
    text = b.repo.git("show", f"{done.tree}:{LOG}")
    assert sorted(each.split("**")[1] for each in text.splitlines() if each[:2] == "- ") == [
        f"step-{number}: Part {number}" for number in (1, 2, 3, 4)
    ]
    by_git = merge_tree.commits(str(b.repo.path), "red", "blue").tree
    assert b.repo.git("show", f"{by_git}:{LOG}").count("\n- ") > 4  # or it shows nothing
    sides = ("red", "blue")
    assert not merge_tree.differ(str(b.repo.path), by_git, sides, done.tree, log.repaired)
    assert b.repo.git("diff-tree", "-r", "--name-only", by_git, done.tree).split() == [LOG]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_merge_keeps_an_entry_that_its_base_has_twice(logged, end):
    """Each side has kept another one of the two, so that git takes both away."""

    def text(*numbers: int) -> str:
        return (log.HEADING + "".join(late(n) for n in numbers)).replace("\n", end)

    by_git = merged(logged, text(1, 4, 3, 2, 1), text(1, 4, 3, 2), text(4, 3, 2, 1))
    assert "step-1" not in by_git  # or it shows nothing
    top, sides = str(logged.path), ("ours^1", "theirs")
    done = merge_tree.commits(top, *sides, log.repaired)
    made = logged.git("show", f"{done.tree}:{LOG}")
    assert made.splitlines() == text(4, 3, 2, 1).splitlines()
    tree = logged.git("rev-parse", "ours^{tree}").strip()
    assert not merge_tree.differ(top, tree, sides, done.tree, log.repaired)


def test_the_next_commit_tells_once_what_a_foreign_merge_told_twice(bench):
    b = bench("1", "2", "3", "4", "5")
    crossed(b)
    b.git("merge", "--quiet", "--no-edit", "blue")
    assert len(b.entries()) > 4  # or it shows nothing
    b.hold("step-5")
    b.done("step-5")
    assert sorted(b.entries()) == [f"step-{number}: Part {number}" for number in range(1, 6)]


def test_what_a_person_wrote_twice_stays_twice():
    text = (log.HEADING + "\nmine\n" + late(1) + "mine\n" + late(1)).encode()
    assert log.once_each(text) == (log.HEADING + "\nmine\n" + late(1) + "mine\n").encode()
    assert log.once_each(b"\r\n- a\r\n\r\n- a\r\n") == b"\r\n- a\r\n\r\n"


def test_two_worktrees_commit_and_their_branches_merge_without_conflict(bench):
    b = bench("1", "2", "3")
    b.hold("step-1")
    b.hold("step-2", at=b.blue)
    b.done("step-1")
    b.done("step-2", at=b.blue)
    b.repo.git("merge", "--quiet", "--no-edit", "red")
    b.repo.git("merge", "--quiet", "--no-edit", "blue")
    assert sorted(b.entries(at=b.repo.path)) == ["step-1: Part 1", "step-2: Part 2"]
    b.git("merge", "--quiet", "--no-edit", "main")
    b.hold("step-3")
    b.done("step-3")
    assert b.entries()[0] == "step-3: Part 3"
    assert len(b.entries()) == 3
