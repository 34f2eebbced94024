"""Killed at any point of any command, and run again: everything ends as without the crash."""

import os
import re
import sqlite3
import subprocess
from pathlib import Path

import pytest

from conftest import DATES, Repo, git
from support.state import markdown
from support.worktree import IDENTITY, Yard, fsck, process
from tugtool.system import crash

#: A whole story for every point; each command alone is tried in the tests of its crashes.
pytestmark = pytest.mark.proof(share=0)

STEPS = ("1 t", "2 t", "3 t < 1 2", "4 t")
TIME = re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d[:-]\d\d[:-]\d\d[.-]\d{3}Z?|20\d{6}T\d{9}Z?")
HASH = re.compile(r"(?<![0-9a-f])[0-9a-f]{40}(?![0-9a-f])")
#: Each repository has its own epoch, drawn by lot when its tables are made.
EPOCH = re.compile(r"(?<=\(1, ')[0-9a-f]{32}(?=')")
#: What is known of a file by its inode and times.
STAMP = re.compile(r"\d+(\.\d+){4}")
#: What a stopped run did before it died is history too; and copies are only a memory of files.
OTHERS = ("events", "sqlite_sequence", "plan_copies")
#: What happens once, however often it is tried.
ONCE = ("claim", "complete", "complete_item", "release", "merge")


#: Of the commands in the story.
POINTS = [
    name
    for name in crash.POINTS
    if name.partition(".")[0] in ("create", "remove", "sync", "commit", "merge")
]


class Story(Yard):
    """A plan from its first worktree to its merge; one command of it may be killed."""

    def __init__(self, repo: Repo, tugcode, point: str = "") -> None:
        super().__init__(repo, tugcode, *STEPS)
        self.point, self.crashed = point, False

    def tell(self, *words: object, at: Path | None = None) -> dict:
        """A command; if the point is one of its own, it is killed there first."""
        command = self.point.partition(".")[0]
        if not self.crashed and command in words[:2]:
            dying = process(at or self.root, *words, TUGCODE_CRASH_AT=self.point, **DATES)
            dying.communicate()
            self.crashed = dying.returncode == -9
            if not self.crashed:
                assert dying.returncode == 0
                return {}
        return self.ok(*words, at=at)

    def work(self, tree: Path, step: str) -> None:
        self.ok("state", "claim", "work", "--step", step, at=tree)
        self.tell("worktree", "sync", at=tree)
        (tree / f"{step}.txt").write_text(f"{step}\n")
        self.ok("state", "update", "work", step, "--all", "completed", at=tree)
        self.tell("commit", "--plan=work", f"--step={step}", f"--message={step}", at=tree)

    def whole(self, *how: str) -> None:
        self.ok("init")
        checks = "[log]\nmax_lines = 3\n[merge]\ncheck = ['true']\n"
        self.repo.write({".tugtool/config.toml": checks})
        self.repo.commit({})
        self.repo.plan("late", markdown("1"))
        self.tell("worktree", "create", "late", "--commit-plan")
        one, two, three = (self._tree(f"-{n}" if n > 1 else "") for n in (1, 2, 3))
        self.work(one, "step-1")
        self.work(two, "step-2")
        self.work(one, "step-3")
        self.ok("state", "claim", "work", "--step", "step-4", at=three)
        (three / "loose").write_text("x\n")
        self.tell("worktree", "remove", three.name, "--force")
        self.work(two, "step-4")
        self.tell("merge", "work", *how)
        assert self.crashed == bool(self.point), f"{self.point} was not reached"

    def _tree(self, number: str) -> Path:
        self.tell("worktree", "create", "work", "--new")
        found = [each for each in (self.root / ".tugtree").iterdir() if "__work" in each.name]
        date = found[0].name.split("-")[1]
        return self.root / ".tugtree" / f"tugplan__work-{date}{number}"


def picture(story: Story) -> dict[str, object]:
    """Everything that can be seen, in words that are the same in every repository."""
    fsck(story.root)
    trees = [line[9:] for line in story.repo.git("worktree", "list", "--porcelain").splitlines()
             if line.startswith("worktree ")]  # fmt: skip
    seen: dict[str, object] = {
        "refs": {name: _tip(story, name) for name in story.refs()},
        "worktrees": trees,
        "indexes": [git("ls-files", "--stage", cwd=Path(tree)) for tree in trees],
        "status": [git("status", "--porcelain", "--ignored", cwd=Path(tree)) for tree in trees],
        "files": {tree: _files(Path(tree)) for tree in trees},
        "inside": sorted(_inside(story.root / ".git")),
        "tables": _tables(story.root / ".tugtool" / "state.db"),
        "history": story.repo.git("log", "--format=%s %T", "--topo-order", "main"),
    }
    return {name: _plain(story, str(value)) for name, value in seen.items()}


def _tip(story: Story, name: str) -> str:
    return story.repo.git("log", "-1", "--format=%B%n%P", name)


def _files(tree: Path) -> dict[str, str]:
    paths = [path for path in tree.rglob("*") if path.is_file()]
    inner = [path.relative_to(tree) for path in paths]
    kept = [name for name in inner if name.parts[0] not in (".git", ".tugtree")]
    return {
        TIME.sub("TIME", str(name)): (tree / name).read_text()
        for name in sorted(kept)
        if not name.name.startswith("state.")
    }


def _inside(directory: Path) -> list[str]:
    """Names in git's directory; objects and logs grow with every try."""
    names = []
    for where, _, files in os.walk(directory):
        inner = os.path.relpath(where, directory)
        if inner.split(os.sep)[0] not in ("objects", "logs", "hooks"):
            names += [os.path.join(inner, name) for name in files]
    return [name for name in names if "backup" not in name]


def _tables(path: Path) -> dict[str, list[str]]:
    database = sqlite3.connect(path)
    names = database.execute("select name from sqlite_master where type = 'table'").fetchall()
    rows = {name: database.execute(f"select * from {name}").fetchall() for (name,) in names}
    once = database.execute("select plan_path, kind, step_anchor, attempt from events").fetchall()
    database.close()
    kept = {name: sorted(map(repr, rows[name])) for name in sorted(rows) if name not in OTHERS}
    return {**kept, "once": [repr(event) for event in once if event[1] in ONCE]}


def _plain(story: Story, text: str) -> str:
    text = text.replace(str(story.root), "ROOT")
    text = EPOCH.sub("EPOCH", STAMP.sub("STAMP", TIME.sub("TIME", text)))
    return HASH.sub(lambda found: _named(story, found[0]), text)


def _named(story: Story, name: str) -> str:
    """What a hash stands for, bar times: a commit by its words, a blob by its text."""
    kind = subprocess.run(["git", "cat-file", "-t", name], cwd=story.root, capture_output=True)
    if kind.stdout.strip() == b"commit":
        return repr(TIME.sub("TIME", story.repo.git("log", "-1", "--format=%s", name)))
    if kind.stdout.strip() == b"blob":
        return repr(TIME.sub("TIME", story.repo.git("cat-file", "blob", name)))
    return "TREE"


@pytest.fixture
def story(tmp_path, tugcode, monkeypatch):
    """Make the story in a repository of its own, and look at what has come of it."""
    for name, value in {**IDENTITY, **DATES}.items():
        monkeypatch.setenv(name, value)

    def make(name: str, point: str, *how: str) -> dict[str, object]:
        repo = Repo.init(tmp_path / name / "repo")
        repo.commit()
        made = Story(repo, tugcode, point)
        made.whole(*how)
        return picture(made)

    return make


@pytest.mark.parametrize("point", POINTS)
def test_everything_ends_as_without_the_crash(story, point):
    how = ("--squash",) if point in ("merge.advanced", "merge.recorded") else ()
    expected = story("plain", "", *how)
    found = story("killed", point, *how)
    for name, value in expected.items():
        assert found[name] == value, name


def _forget_commit(path: Path) -> None:
    database = sqlite3.connect(path)
    with database:
        database.execute("update steps set commit_hash = null where anchor = 'step-1'")
    database.close()


#: Where a difference shows -> how one is planted.
PLANTED = {
    "refs": lambda story: story.repo.git("branch", "stray"),
    "indexes": lambda story: story.repo.git("rm", "--quiet", "--cached", "step-1.txt"),
    "status": lambda story: (story.root / "loose").write_text("x"),
    "files": lambda story: (story.root / "step-1.txt").write_text("half"),
    "inside": lambda story: (story.root / ".git" / "index.lock").touch(),
    "tables": lambda story: _forget_commit(story.root / ".tugtool" / "state.db"),
    "history": lambda story: story.repo.git("commit", "--quiet", "--allow-empty", "-m", "again"),
}


def test_whatever_differs_in_the_end_is_seen(tmp_path, tugcode, monkeypatch):
    for name, value in {**IDENTITY, **DATES}.items():
        monkeypatch.setenv(name, value)
    repo = Repo.init(tmp_path / "repo")
    repo.commit()
    story = Story(repo, tugcode)
    story.whole()
    before = picture(story)
    assert picture(story) == before
    # The lock last: git does nothing more after it.
    for name in sorted(PLANTED, key=lambda each: each == "inside"):
        PLANTED[name](story)
        after = picture(story)
        assert after[name] != before[name], name
        before = after
