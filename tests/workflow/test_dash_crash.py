"""A process killed at each point of the commands about dashes: the next run mends it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Repo, git
from support.proving import sampled
from support.racing import kill_all
from support.worktree import crashed, fsck, process
from tugtool.system import crash

pytestmark = pytest.mark.proof(share=0)


def points(command: str) -> list[str]:
    return [name for name in crash.POINTS if name.startswith(f"{command}.")]


def end(field) -> dict:
    """What is there in the end; times, and hashes that have them, aside."""
    rounds = "select number, instruction, summary, files, commit_hash is null as empty"
    place = field.root / ".tugtree"
    trees = field.repo.git("worktree", "list", "--porcelain").splitlines()
    return {
        "refs": sorted(field.refs()),
        "trees": {name: field.content(name) for name in field.refs()},
        "git": [Path(line[9:]).name for line in trees if line.startswith("worktree ")],
        "files": sorted(os.listdir(place)) if place.exists() else [],
        "dashes": field.rows("select name, status, base_branch, base_commit from dashes"),
        "rounds": field.rows(f"{rounds} from dash_rounds order by id"),
        "intents": field.rows("select * from intents"),
        "main": field.repo.git("status", "--porcelain"),
        "subjects": field.repo.git("log", "--format=%s", "main"),
    }


# -- create ----------------------------------------------------------------------------


@pytest.mark.parametrize("point", sampled(points("dash"), 2))
def test_create_again_ends_as_if_nothing_had_happened(field, point):
    crashed(field.root, point, "dash", "create", "fix", "--description", "d")
    data = field.ok("dash", "create", "fix", "--description", "d")
    assert data["created"] == (point != "dash.recorded")
    assert (data["adopted"], data["repaired"], data["description"]) == (False, False, "d")
    found = end(field)
    assert found["refs"] == ["refs/heads/main", "refs/heads/tugdash/fix"]
    assert (found["git"], found["files"]) == ([field.root.name, "tugdash__fix"], ["tugdash__fix"])
    assert (len(found["dashes"]), found["intents"]) == (1, [])
    assert field.round()["committed"] is True
    fsck(field.root)


@pytest.mark.parametrize("point", sampled(points("dash")[:-1], 1))
@pytest.mark.parametrize("other", [("dash", "create", "other"), ("worktree", "create", "work")])
def test_another_creation_takes_away_what_nobody_was_told_of(field, point, other):
    crashed(field.root, point, "dash", "create", "fix")
    field.ok(*other)
    assert not field.place().exists()
    assert "refs/heads/tugdash/fix" not in field.refs()
    assert end(field)["intents"] == []


def test_a_worktree_of_a_plan_that_was_half_made_is_mended_by_a_dash(field):
    crashed(field.root, "create.worktree", "worktree", "create", "work")
    field.dash("fix")
    assert end(field)["files"] == ["tugdash__fix"]


def test_what_somebody_did_in_a_dash_that_was_never_answered_for_is_kept(field):
    crashed(field.root, "dash.worktree", "dash", "create", "fix")
    tip = field.commit(field.place(), {"found": "it"})
    data = field.ok("dash", "create", "fix")
    assert (data["adopted"], field.head("tugdash/fix")) == (True, tip)
    assert end(field)["intents"] == []


# -- commit ----------------------------------------------------------------------------

COMMIT = ("dash", "commit", "fix", "--message", "Do it", "--instruction", "please", "--summary")


def _work(field) -> None:
    field.shared("work", make=_first)
    Repo(field.place()).write({"second": "2", "code.txt": "changed\n"})


def _first(field) -> None:
    field.dash("fix")
    field.round("fix", {"first": "1"})


@pytest.mark.parametrize("point", sampled(points("round"), 2))
def test_the_same_commit_again_ends_as_without_the_crash(field, point):
    _work(field)
    crashed(field.root, point, *COMMIT, "did")
    data = field.ok(*COMMIT, "did")
    assert (data["committed"], data["round"]["number"]) == (True, 2)
    assert data["recovered"] == (point in ("round.committed", "round.recorded"))
    assert data["round"]["instruction"] == "please"
    assert [each["path"] for each in data["round"]["files"]] == ["code.txt", "second"]
    assert field.repo.git("rev-list", "--count", "main..tugdash/fix").strip() == "2"
    found = end(field)
    assert (len(found["rounds"]), found["intents"]) == (2, [])
    assert git("status", "--porcelain", cwd=field.place()) == ""
    git_dir = field.root / ".git" / "worktrees" / "tugdash__fix"
    assert "tugtool-index" not in os.listdir(git_dir)
    fsck(field.root)


@pytest.mark.parametrize("point", sampled(points("round"), 2))
def test_another_commit_after_the_crash_records_both(field, point):
    _work(field)
    crashed(field.root, point, *COMMIT, "did")
    Repo(field.place()).write({"third": "3"})
    field.ok("dash", "commit", "fix", "--message", "More")
    told = [(each["instruction"], each["summary"]) for each in field.show()["history"][1:]]
    made = point in ("round.committed", "round.recorded")
    assert told == ([("please", "did"), (None, "More")] if made else [(None, "More")])
    tree = field.content("tugdash/fix")
    assert (tree["second"], tree["third"], tree["code.txt"]) == ("2", "3", "changed\n")
    assert end(field)["intents"] == []


@pytest.mark.parametrize("point", sampled(points("round"), 1))
@pytest.mark.parametrize("last", ["join", "release"])
def test_after_a_crash_of_commit_nothing_is_lost_at_the_end(field, point, last):
    _work(field)
    crashed(field.root, point, *COMMIT, "did")
    made = point in ("round.committed", "round.recorded")
    if last == "join" and not made:
        assert field.run("dash", "join", "fix").codes == ["E057"]
        field.ok(*COMMIT, "did")
    data = field.ok("dash", last, "fix", *(["--force"] if last == "release" else []))
    tree = field.content(data["joined_commit" if last == "join" else "salvage_ref"])
    assert (tree["first"], tree["second"], tree["code.txt"]) == ("1", "2", "changed\n")
    assert len(field.show()["history"]) == (2 if made or last == "join" else 1)
    assert end(field)["intents"] == []


def test_a_commit_that_was_killed_while_it_added_leaves_no_lock_behind(field):
    field.dash()
    Repo(field.place()).write({"new.txt": "new\n"})
    words = ("dash", "commit", "fix", "--message", "x")
    crashed(field.root, "round.intent", *words)
    git_dir = field.root / ".git" / "worktrees" / "tugdash__fix"
    code = (
        "import os, sys\n"
        "from tugtool.git import index\n"
        "assert index.staging(sys.argv[1]).lock()\n"
        "os._exit(9)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, git_dir]).returncode == 9
    assert (git_dir / "index.lock").exists()
    assert field.ok(*words)["committed"] is True
    assert not (git_dir / "index.lock").exists()


# -- join ------------------------------------------------------------------------------


@pytest.fixture
def uncrashed(tmp_path, tugcode, templates):
    """The same without a crash, in a repository of its own."""
    from support.dash import Field

    def run(prepare, *words: str) -> dict:
        repo = Repo.of(templates, tmp_path / "uncrashed" / "repo")
        field = Field(repo, tugcode, "1", "2 < 1")
        prepare(field)
        field.ok(*words)
        return end(field)

    return run


def _two_rounds(field) -> None:
    field.shared("two rounds", make=_rounds)


def _rounds(field) -> None:
    field.dash("fix", "--description", "Fix it")
    field.round("fix", {"first": "1"})
    field.round("fix", {"second": "2"}, "--message", "Second")
    field.dash("other")
    field.round("other", {"other": "o"})


def _same(found: dict, wanted: dict) -> None:
    for each in (found, wanted):
        for row in each["dashes"]:
            del row["base_commit"]
    assert found == wanted


@pytest.mark.parametrize(
    ("point", "words"),
    sampled([(point, words) for words in ([], ["--no-squash"]) for point in points("join")], 2),
)
def test_join_again_ends_as_if_nothing_had_happened(field, uncrashed, point, words):
    _two_rounds(field)
    crashed(field.root, point, "dash", "join", "fix", *words)
    data = field.ok("dash", "join", "fix", *words)
    assert data["resumed"] == (point not in ("join.intent", "join.locked"))
    assert (data["joined_commit"], data["commits"]) == (field.head("main"), 2)
    _same(end(field), uncrashed(_two_rounds, "dash", "join", "fix", *words))
    assert field.show()["joined_commit"] == data["joined_commit"]
    field.refused("E056", "dash", "join", "fix")
    fsck(field.root)


CHANGING = ("create fix", "commit fix --message m", "join other", "release fix --force")


@pytest.mark.parametrize(
    ("point", "line"), sampled([(point, line) for line in CHANGING for point in points("join")], 3)
)
def test_any_command_that_changes_dashes_mends_a_join(field, point, line):
    command = line.split()
    _two_rounds(field)
    crashed(field.root, point, "dash", "join", "fix")
    done = field.run("dash", *command)
    moved = point not in ("join.intent", "join.locked")
    assert end(field)["intents"] == []
    if command[0] in ("commit", "release"):
        ended = "E056" if moved else None
        assert done.codes == ([ended] if ended else [])
    else:
        assert done.status == 0, done.out
    if moved:
        assert field.content("main")["second"] == "2"
        assert field.ok("dash", "list", "--all")["dashes"][0]["status"] == "joined"
    if command[0] == "create":
        assert done.data["created"] == moved
    assert field.repo.git("status", "--porcelain") == ""
    fsck(field.root)


@pytest.fixture
def stopped(field):
    """A join that is killed with its git in the middle of a checkout."""
    _two_rounds(field)
    inner = field.root / ".git"
    field.round(files={"slow.txt": "slow\n"})
    (inner / "info" / "attributes").write_text("slow.txt filter=slow\n")
    os.mkfifo(inner / "reached")
    wait = f"mkdir {inner}/first 2>/dev/null && echo > {inner}/reached && tail -f /dev/null"
    field.repo.git("config", "filter.slow.smudge", f"{wait}; cat")
    busy = process(field.root, "dash", "join", "fix", apart=True)
    (inner / "reached").read_text()
    kill_all(busy)
    assert field.repo.git("status", "--porcelain") != ""
    return field


@pytest.mark.parametrize("command", [("dash", "join", "fix"), ("dash", "join", "other")])
def test_a_git_that_is_killed_while_it_changes_files_is_gone_on_with(stopped, command):
    start = stopped.head("main")
    stopped.ok(*command)
    found = end(stopped)
    assert (found["main"], found["intents"]) == ("", [])
    assert stopped.head("main~1") == start
    stopped.ok("dash", "join", "other" if "fix" in command else "fix")
    assert (stopped.root / "slow.txt").read_text() == "slow\n"
    fsck(stopped.root)


def test_what_a_person_does_to_a_file_of_git_s_after_a_crash_is_not_taken_for_git_s(stopped):
    names = stopped.repo.git("status", "--porcelain", "--untracked-files=all").splitlines()
    (stopped.root / names[0][3:]).write_text("mine\n")
    message = stopped.refused("E057", "dash", "join", "fix")
    assert names[0][3:] in str(message)
    assert (stopped.root / names[0][3:]).read_text() == "mine\n"


def test_a_join_whose_commit_was_taken_back_starts_over(field):
    _two_rounds(field)
    crashed(field.root, "join.moved", "dash", "join", "fix")
    field.repo.git("reset", "--quiet", "--hard", field.start)
    data = field.ok("dash", "join", "fix")
    assert (data["resumed"], data["joined_commit"]) == (False, field.head("main"))
    assert end(field)["intents"] == []


def test_what_was_begun_after_a_join_that_was_stopped_is_left_and_can_be_gone_on_with(field):
    _two_rounds(field)
    crashed(field.root, "join.recorded", "dash", "join", "fix")
    field.repo.git("config", "status.showUntrackedFiles", "no")
    Repo(field.place()).write({"late": "x"})
    assert field.run("dash", "commit", "fix", "--message", "m").codes == ["E056"]
    assert (field.place() / "late").read_text() == "x"
    assert field.ok("dash", "create", "fix")["adopted"] is True
    assert field.ok("dash", "commit", "fix", "--message", "m")["committed"] is True
    field.ok("dash", "join", "fix")
    assert field.content("main")["late"] == "x"


# -- release ---------------------------------------------------------------------------


def _dirty(field) -> None:
    field.dash("fix")
    field.round("fix", {"first": "1"})
    Repo(field.place()).write({"loose": "x"})


@pytest.mark.parametrize("point", sampled(points("remove"), 2))
def test_release_again_ends_as_if_nothing_had_happened(field, point):
    _dirty(field)
    tip = field.head("tugdash/fix")
    crashed(field.root, point, "dash", "release", "fix", "--force")
    data = field.ok("dash", "release", "fix", "--force")
    assert field.saved() == [data["salvage_ref"]]
    tree = field.content(data["salvage_ref"])
    assert (tree["first"], tree["loose"]) == ("1", "x")
    field.repo.git("merge-base", "--is-ancestor", tip, data["salvage_ref"])
    found = end(field)
    assert (found["files"], found["intents"], found["git"]) == ([], [], [field.root.name])
    assert found["dashes"][0]["status"] == "released"
    assert field.show()["salvage_ref"] == data["salvage_ref"]
    fsck(field.root)


@pytest.mark.parametrize("point", sampled(points("remove"), 1))
@pytest.mark.parametrize("command", ["create", "commit", "join"])
def test_a_dash_goes_on_if_its_release_had_taken_nothing_away(field, point, command):
    _dirty(field)
    crashed(field.root, point, "dash", "release", "fix", "--force")
    words = ("--message", "m") if command == "commit" else ()
    done = field.run("dash", command, "fix", *words)
    if point not in ("remove.intent", "remove.salvaged"):
        assert done.codes == ["E056"]
        assert "release was interrupted" in done.out
        field.ok("dash", "release", "fix", "--force")
        return
    assert done.codes == (["E057"] if command == "join" else [])
    assert end(field)["intents"] == []
    field.ok("dash", "commit", "fix", "--message", "rest")
    field.ok("dash", "join", "fix")
    assert field.content("main")["loose"] == "x"
