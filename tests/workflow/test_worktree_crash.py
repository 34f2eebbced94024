"""A process killed at each point of create, remove and sync: the next run ends the same."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Repo, git
from support.proving import sampled
from support.state import KEY, markdown
from support.worktree import Yard, crashed, fsck, process
from tugtool.system import crash
from tugtool.workflow.worktree import build

pytestmark = pytest.mark.proof(share=0)


def points(command: str) -> list[str]:
    return [name for name in crash.POINTS if name.startswith(f"{command}.")]


def end(yard: Yard) -> dict:
    """What is there in the end; times aside."""
    return {
        "refs": sorted(name for name in yard.refs() if "salvage" not in name),
        "saved": [_tree(yard, name) for name in yard.refs() if "salvage" in name],
        "git": [Path(line[9:]).name for line in _lines(yard) if line.startswith("worktree ")],
        "files": sorted(os.listdir(yard.root / ".tugtree")),
        "rows": [(row["path"], row["branch"]) for row in yard.rows("select * from worktrees")],
        "intents": yard.rows("select * from intents"),
        "held": yard.rows("select anchor, claimed_by from steps where claimed_by is not null"),
        "plans": [row["plan_path"] for row in yard.rows("select * from plans")],
        "main": yard.repo.git("status", "--porcelain"),
    }


def _lines(yard: Yard) -> list[str]:
    return yard.repo.git("worktree", "list", "--porcelain").splitlines()


def _tree(yard: Yard, ref: str) -> str:
    return yard.repo.git("rev-parse", f"{ref}^{{tree}}").strip()


CREATE = ("worktree", "create", "fresh", "--commit-plan")


@pytest.mark.parametrize(
    ("point", "words"),
    sampled(
        [(point, how) for how in ("", "--new", "--request-id r") for point in points("create")], 4
    ),
)
def test_create_again_ends_as_if_nothing_had_happened(yard, point, words):
    yard, words = yard(), words.split()
    yard.repo.plan("fresh", markdown("1", "2 < 1"))
    crashed(yard.root, point, *CREATE, *words)
    data = yard.ok(*CREATE, *words)
    path = Path(data["worktree_path"])
    found = end(yard)
    assert found == {
        "refs": ["refs/heads/main", f"refs/heads/{data['branch_name']}"],
        "saved": [],
        "git": [yard.root.name, path.name],
        "files": [path.name],
        "rows": [(str(path), data["branch_name"])],
        "intents": [],
        "held": [],
        "plans": [".tugtool/tugplan-fresh.md"],
        "main": "",
    }
    assert not path.name.endswith("-2")
    assert data["reused"] is False
    assert yard.ok("state", "claim", "fresh", at=path)["claimed"] is True
    fsck(yard.root)


@pytest.mark.parametrize("point", sampled(points("create")[1:], 2))
def test_a_creation_for_another_plan_mends_it_too(yard, point):
    yard = yard()
    yard.repo.commit({".tugtool/tugplan-other.md": markdown("1")})
    crashed(yard.root, point, "worktree", "create", "work")
    path = yard.create(plan="other")
    assert end(yard)["git"] == [yard.root.name, path.name]
    assert end(yard)["intents"] == []


def test_what_somebody_did_in_a_worktree_that_was_never_answered_for_is_kept(yard):
    yard = yard()
    crashed(yard.root, "create.worktree", "worktree", "create", "work")
    place = yard.root / ".tugtree"
    path = place / os.listdir(place)[0]
    tip = yard.commit(path, {"found": "it"})
    assert yard.create() != path
    assert git("rev-parse", "HEAD", cwd=path).strip() == tip
    assert yard.rows("select * from intents") == []


@pytest.mark.parametrize(
    "state", sampled(["no marker", "initializing", "no directory", "no metadata"], 2)
)
def test_a_worktree_that_git_itself_left_half_made_is_taken_away(yard, state):
    yard = yard()
    crashed(yard.root, "create.worktree", "worktree", "create", "work")
    path = next((yard.root / ".tugtree").iterdir())
    inner = yard.root / ".git" / "worktrees" / path.name
    if state == "no marker":
        (path / ".git").unlink()
    elif state == "initializing":
        (inner / "locked").write_text("initializing\n")
        (path / "code.txt").unlink()
    elif state == "no directory":
        for child in (path / ".tugtool", path):
            for name in [each for each in child.iterdir() if each.is_file()]:
                name.unlink()
            child.rmdir()
    else:
        for name in [each for each in inner.rglob("*") if each.is_file()]:
            name.unlink()
    assert yard.create() == path
    assert end(yard)["git"] == [yard.root.name, path.name]


def test_a_git_that_outlives_its_command_is_waited_for(yard, monkeypatch):
    """It would take away what it could not finish, and that may be somebody else's by then."""
    yard = yard()
    yard.repo.commit({".gitattributes": "*.x filter=slow\n", "a.x": "x\n"})
    reached, go = yard.root / ".git" / "reached", yard.root / ".git" / "go"
    os.mkfifo(reached)
    os.mkfifo(go)
    first = f"mkdir {yard.root}/.git/first 2>/dev/null"
    yard.repo.git("config", "filter.slow.required", "true")
    yard.repo.git("config", "filter.slow.clean", "cat")
    slow = f"sh -c '! {first} && cat || {{ echo $PPID > {reached}; cat {go}; exit 1; }}'"
    yard.repo.git("config", "filter.slow.smudge", slow)
    dying = process(yard.root, "worktree", "create", "work")
    reached.read_text()
    dying.kill()
    dying.communicate()
    monkeypatch.setattr(build, "LINGER_SECONDS", 0)
    said = yard.refused("E033", "worktree", "create", "work")
    assert "still runs, process" in said
    go.write_text("go")
    monkeypatch.setattr(build, "LINGER_SECONDS", 60)
    path = yard.create()
    assert (path / "a.x").read_text() == "x\n"
    assert end(yard)["git"] == [yard.root.name, path.name]
    assert end(yard)["intents"] == []
    fsck(yard.root)


def _landed(yard: Yard) -> tuple[Path, tuple[str, ...]]:
    path = yard.create()
    yard.do(path, "step-1", {"one": "1"})
    yard.repo.git("merge", "--quiet", git("rev-parse", "HEAD", cwd=path).strip())
    yard.ok("state", "claim", "work", "--lease-duration", "0.001", at=path)
    return path, ()


def _forced(yard: Yard) -> tuple[Path, tuple[str, ...]]:
    path = yard.create("--claim")
    yard.commit(path, {"one": "1"})
    Repo(path).write({"loose": "x"})
    return path, ("--force",)


@pytest.mark.parametrize(
    ("point", "prepare"),
    sampled([(point, how) for how in (_landed, _forced) for point in points("remove")], 3),
)
def test_remove_again_ends_as_if_nothing_had_happened(
    yard, point, prepare: Callable[[Yard], tuple[Path, tuple[str, ...]]]
):
    yard = yard()
    path, words = prepare(yard)
    if point == "remove.salvaged" and not words:
        return
    files = sorted([*os.listdir(path)])
    crashed(yard.root, point, "worktree", "remove", path.name, *words)
    data = yard.ok("worktree", "remove", path.name, *words)
    found = end(yard)
    saved = found.pop("saved")
    assert found == {
        "refs": ["refs/heads/main"],
        "git": [yard.root.name],
        "files": [],
        "rows": [],
        "intents": [],
        "held": [],
        "plans": [KEY],
        "main": "",
    }
    assert len(saved) == len(words)
    if words:
        kept = yard.repo.git("ls-tree", "--name-only", data["salvage_ref"]).split()
        assert sorted([*kept, ".git"]) == files
        assert yard.repo.git("show", f"{data['salvage_ref']}^:one") == "1"
        refs = {row["salvage_ref"] for row in yard.rows("select salvage_ref from attempts")}
        assert refs == {data["salvage_ref"]}
    fsck(yard.root)


@pytest.mark.parametrize(
    ("point", "command"),
    sampled(
        [
            *(("remove.worktree", "doctor --fix"), ("remove.released", "doctor --fix")),
            ("remove.released", "worktree remove mine --force"),
            ("remove.worktree", "worktree remove mine --force"),
        ],
        2,
    ),
)
def test_a_worktree_that_is_not_recorded_is_removed_to_the_end_too(yard, point, command):
    yard = yard()
    path = yard.repo.linked(yard.root / ".tugtree" / "mine", "mine")
    yard.ok("state", "init", "work")
    yard.ok("state", "claim", "work", at=path)
    Repo(path).write({"loose": "x"})
    crashed(yard.root, point, "worktree", "remove", "mine", "--force")
    yard.ok(*command.split())
    found = end(yard)
    assert (found["intents"], found["held"], len(found["saved"])) == ([], [], 1)
    refs = {row["salvage_ref"] for row in yard.rows("select salvage_ref from attempts")}
    assert refs == {name for name in yard.refs() if "salvage" in name}


def test_work_done_between_a_crash_and_the_next_try_is_saved_too(yard):
    yard = yard()
    path, _ = _forced(yard)
    crashed(yard.root, "remove.salvaged", "worktree", "remove", path.name, "--force")
    Repo(path).write({"later": "y"})
    second = yard.ok("worktree", "remove", path.name, "--force")["salvage_ref"]
    first = second.removesuffix("-2")
    assert "later" not in yard.repo.git("ls-tree", "--name-only", first).split()
    assert {"later", "loose"} <= set(yard.repo.git("ls-tree", "--name-only", second).split())
    yard.repo.git("merge-base", "--is-ancestor", first, second)


@pytest.mark.parametrize(
    ("command", "prepare"),
    sampled(
        [
            *(("cleanup", _landed), ("cleanup", _forced)),
            *(("remove", _forced), ("remove", _landed)),
        ],
        2,
    ),
)
def test_a_git_that_was_killed_while_it_deleted_files_is_gone_on_with(yard, prepare, command):
    yard = yard()
    path, words = prepare(yard)
    crashed(yard.root, "remove.salvaged" if words else "remove.intent", "worktree", "remove",
            path.name, *words)  # fmt: skip
    for name in (".git", "code.txt"):
        (path / name).unlink()
    if command == "cleanup" and not words:
        yard.ok("worktree", "cleanup")
    else:
        (path / "mine").write_text("x")
        assert "does not know" in yard.refused("E034", "worktree", "remove", path.name, *words)
        (path / "mine").unlink()
        yard.ok("worktree", "remove", path.name, *words)
    found = end(yard)
    assert (found["refs"], found["git"]) == (["refs/heads/main"], [yard.root.name])
    assert found["files"] == found["rows"] == found["intents"] == found["held"] == []
    fsck(yard.root)


def test_cleanup_finishes_a_removal_that_was_cut_short(yard):
    yard = yard()
    path, _ = _landed(yard)
    crashed(yard.root, "remove.worktree", "worktree", "remove", path.name)
    yard.ok("worktree", "cleanup")
    assert end(yard)["rows"] == end(yard)["intents"] == []
    assert end(yard)["refs"] == ["refs/heads/main"]


@pytest.mark.parametrize("point", sampled(points("sync"), 2))
def test_sync_again_ends_as_if_nothing_had_happened(yard, point):
    yard = yard()
    paths = [yard.create("--new") for _ in range(3)]
    commits = [yard.do(paths[n], f"step-{n + 1}", {f"{n}": "x"}) for n in range(2)]
    yard.ok("state", "claim", "work", at=paths[2])
    yard.commit(paths[2], {"own": "x"})
    crashed(paths[2], point, "worktree", "sync")
    yard.ok("worktree", "sync", at=paths[2])
    log = git("log", "--format=%H %P", "--first-parent", f"{yard.start}..HEAD", cwd=paths[2])
    merged = {line.split()[2] for line in log.splitlines() if len(line.split()) == 3}
    assert merged == set(commits)
    assert git("status", "--porcelain", cwd=paths[2]) == ""
    assert yard.ok("state", "show", "work")["steps"][2]["claimed_by"] == str(paths[2])
    fsck(yard.root)


# -- the tests notice ------------------------------------------------------------------


def test_without_mending_a_crash_would_leave_something(yard, monkeypatch):
    monkeypatch.setattr(build, "repair_creations", lambda repo, store: None)
    yard = yard()
    crashed(yard.root, "create.branch", "worktree", "create", "work")
    yard.create()
    assert len(yard.rows("select * from intents")) == 1
    assert len(yard.refs()) == 3
