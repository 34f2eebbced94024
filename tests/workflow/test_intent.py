"""What a commit has written down: who may go on with it, and whose it is."""

import os

import pytest

from support.state import KEY
from tugtool.errors.git import CommitRefused
from tugtool.store.sql import git as sql_git
from tugtool.system import process, text
from tugtool.workflow import commit
from tugtool.workflow.commit import log
from tugtool.workflow.commit.intent import CommitSite, Intent, ends_with

#: A process that runs as long as any of this does.
INIT_PROCESS = 1


class Trees:
    """Worktrees in which somebody was about to commit; there is no git in them."""

    def __init__(self, lab, directory) -> None:
        self.lab, self.directory = lab, directory

    def site(self, owner: str) -> CommitSite:
        place = self.directory / owner
        (place / ".git").mkdir(parents=True, exist_ok=True)
        where = {"top": str(place), "root": str(self.directory)}
        return CommitSite(self.lab.store, **where, owner=owner, copy=lambda plan: self.lab.copy)

    def begin(self, owner: str, pid: int | None = None) -> CommitSite:
        """Write down that the owner is about to commit: we, unless another process is named."""
        site = self.site(owner)
        intent = Intent(KEY, "step-1", 1, claim="x", head=None, change=log.LogChange(site.top))
        intent._seen = intent._detail(process.process(os.getpid()))
        what = {"anchor": intent.anchor, "attempt": 1, "head": None, "detail": intent._seen}
        with site.store.write(KEY) as tx:
            intent.created_at = tx.now
            tx.run(sql_git.ADD_COMMIT_INTENT, owner=owner, **what)
        if pid is not None:
            assert intent._change(site, process.process(pid))
        return site

    def row(self, site: CommitSite) -> dict:
        with site.store.read() as tx:
            return tx.first(sql_git.INTENT, kind="commit", path=site.owner)

    def rows(self) -> list[dict]:
        return self.lab.rows("select * from intents order by kind, worktree")


@pytest.fixture
def trees(lab, tmp_path):
    return Trees(lab("1 t", "2 t"), tmp_path)


def test_each_worktree_has_its_own_and_it_is_no_other_kind_of_intent(trees):
    for owner in ("a", "m", "z"):
        trees.begin(owner)
    with trees.lab.store.write(KEY) as tx:
        for path in ("m", "other"):
            tx.run(sql_git.ADD_INTENT, kind="sync", path=path, head=None, detail="{}")
    for owner in ("a", "m", "z"):
        row = trees.row(trees.site(owner))
        assert (row["kind"], row["worktree"]) == ("commit", owner)
    assert trees.row(trees.site("other")) is None


def test_a_second_commit_is_not_written_over_the_first(trees):
    trees.lab.claim("red")
    site = trees.site("red")
    for head in (None, "c1"):
        intent = Intent(KEY, "step-1", 1, claim="x", head=head, change=log.LogChange(site.top))
        if head is None:
            intent.record(site, lambda now: None)
            before = trees.rows()
            continue
        site.note.write(INIT_PROCESS)
        with pytest.raises(CommitRefused, match="another commit under way"):
            intent.record(site, lambda now: None)
    assert trees.rows() == before
    assert site.note.is_there(), "it is the first one's"


def test_of_two_who_find_it_one_takes_it_over(trees):
    site = trees.begin("red")
    # As the one who died left it: another process, which has ended since.
    Intent.recorded(site, trees.row(site)).leave(site)
    seen = trees.row(site)
    Intent.taken_over(site, seen)
    before = trees.rows()
    with pytest.raises(CommitRefused, match="another commit under way, for step-1"):
        Intent.taken_over(site, seen)
    assert trees.rows() == before


def test_what_was_written_down_anew_since_is_another_one(trees):
    """Though it says the same: the first came to its end, and somebody begins again."""
    site = trees.begin("red")
    seen = trees.row(site)
    Intent.recorded(site, seen).drop(site)
    trees.lab.clock.advance(1)
    trees.begin("red")
    assert trees.row(site)["detail"] == seen["detail"]
    with pytest.raises(CommitRefused, match="another commit under way"):
        Intent.taken_over(site, seen)
    Intent.recorded(site, seen).drop(site)
    assert len(trees.rows()) == 1


def test_taking_one_over_leaves_all_others_as_they_are(trees):
    """The same is said of another worktree, and in another kind of intent."""
    site = trees.begin("red")
    trees.begin("blue")
    detail = trees.row(site)["detail"]
    with trees.lab.store.write(KEY) as tx:
        tx.run(sql_git.ADD_INTENT, kind="sync", path="red", head=None, detail=detail)
    Intent.recorded(site, trees.row(site)).leave(site)
    changed = [(row["kind"], row["worktree"]) for row in trees.rows() if row["detail"] != detail]
    assert changed == [("commit", "red")]


@pytest.mark.parametrize("where", ["written down", "git's note", "git's index"])
def test_while_its_process_runs_nobody_takes_it_over(trees, where):
    site = trees.begin("red", pid=INIT_PROCESS if where == "written down" else None)
    running = process.process(INIT_PROCESS)
    if where == "git's note":
        site.note.write(INIT_PROCESS)
    elif where == "git's index":
        lock = os.path.join(site.git_dir, "index.lock")
        facts = {"tugtool": {}, "own": "tugtool-add", "process": running}
        with open(lock, "w", encoding="utf-8") as file:
            file.write(text.encode(facts))
    before = trees.rows()
    with pytest.raises(CommitRefused) as refused:
        Intent.taken_over(site, trees.row(site))
    assert refused.value.facts["pid"] == INIT_PROCESS
    # Nor does it end with its step.
    assert not ends_with(site, trees.row(site), None)
    assert trees.rows() == before


def test_where_nothing_was_written_down_there_is_nothing_to_settle(trees):
    trees.begin("blue")
    before = trees.rows()
    assert commit.finish_interrupted(trees.site("red")) is None
    assert trees.rows() == before
