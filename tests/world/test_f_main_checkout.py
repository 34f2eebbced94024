"""F: an agent works in the main checkout, or reports what its commit has not: it is told."""

import pytest

from conftest import git
from support.implement_aftermath import aftermath
from support.proving import sampled
from tugtool.agents import confinement
from tugtool.system.agent_config import Agent

DRAFT = "a person's work\n"
IDENTITY = "-c user.name=Stray -c user.email=stray@example.invalid"
#: What an agent does in the main checkout, and what a warning says of it.
STRAY = {
    "a new file": ("echo x > stray.txt", "stray.txt"),
    "a changed file": ("echo x > code.txt", "code.txt"),
    "a deleted file": ("rm code.txt", "code.txt"),
    "a person's change, thrown away": ("git restore .", "file"),
    "a person's change, written over": ("echo other > file", "file"),
    "a commit": (
        f"echo x > new.txt && git add new.txt && git {IDENTITY} commit -qm x",
        "main of the main checkout moved from",
    ),
    "another commit for its branch": (
        f"git update-ref refs/heads/main $(git {IDENTITY} commit-tree -p HEAD -m x HEAD^{{tree}})",
        "main of the main checkout moved from",
    ),
    "another branch": (
        "git switch -qc stray",
        "HEAD of the main checkout is on stray, and was on main",
    ),
}


def warnings(told: list[dict]) -> list[str]:
    return [each["message"] for each in told if each["event"] == "warning"]


@pytest.mark.parametrize(
    ("role", "deed"),
    sampled(
        [
            *(("coder", deed) for deed in STRAY),
            ("reviewer", "a deleted file"),
            ("reviewer", "a commit"),
        ],
        4,
    ),
)
def test_what_changes_in_the_main_checkout_is_told(play, role, deed):
    play = play("1 t", "2 t < 1")
    line, said = STRAY[deed]
    (play.root / "file").write_text(DRAFT)
    acts = [{"run": f"cd '{play.root}' && {line}"}, {"write": "work-{role}.txt", "text": "x\n"}]
    play.rules({"role": role, "step": "step-1", "do": acts})
    status, told = play.run()
    assert status == 0
    assert any(said in each and f"while the {role} ran" in each for each in warnings(told))
    # Each change once: nothing is said of it at the second step.
    notes = [note for note in play.artifacts("note") if "main checkout" in note["summary"]]
    assert {note["step_anchor"] for note in notes} == {"step-1"}


def test_a_commit_in_the_main_checkout_is_told_with_its_files(play):
    play = play("1 t")
    line, _ = STRAY["a commit"]
    play.rules({"role": "coder", "do": [{"run": f"cd '{play.root}' && {line}"}]})
    _, told = play.run()
    assert any("has changed: new.txt" in each for each in warnings(told))


def test_what_changed_outside_is_told_in_the_morning_until_the_merge(play):
    play = play("1 t")
    hook = f"mkdir -p '{play.root}/.git/hooks' && echo x > '{play.root}/.git/hooks/post-commit'"
    acts = [{"run": f"cd '{play.root}' && echo x > code.txt && {hook}"}]
    play.rules({"role": "coder", "do": [*acts, {"write": "own.txt", "text": "x\n"}]})
    assert play.run()[0] == 0

    def data(*words: str) -> dict:
        return play._tugcode("-C", play.root, *words, "--json").data

    needs = {each["what"]: each for each in data("status")["needs_you"]}
    assert needs["changed_outside"]["count"] == 2
    assert needs["changed_outside"]["command"] == "tugcode report work"
    waits = data("report", "work")["waits"]
    assert [each["what"] for each in waits] == ["changed_outside"] * 2
    assert "git's hooks/post-commit was changed" in waits[0]["reason"]
    assert "has changed: code.txt" in waits[1]["reason"]
    for words in (("report", "work"), ("log", "work"), ("status",)):
        said = " ".join(play._tugcode("-C", play.root, *words).out.split())
        assert "outside" in said, words
    refused = play._tugcode("-C", play.root, "merge", "work", "--json")
    assert refused.codes == ["E062"]
    (issue,) = refused.envelope()["issues"]
    assert "while the coder ran, the main checkout" in issue["message"]
    assert issue["hint"] == "tugcode report work"
    git("restore", "code.txt", cwd=play.root)
    assert play._tugcode("-C", play.root, "merge", "work", "--json").status == 0
    assert data("status")["needs_you"] == []
    assert data("report", "work")["waits"] == []


def test_agents_that_are_all_confined_changed_nothing_outside(play):
    play = play("1 t")
    play.log.touch()
    counts = play.log.with_name(f"{play.log.name}.counts")
    counts.mkdir()
    more = f'confine = "worktree"\nwritable = ["{play.log}", "{counts}"]'
    play.cast("coder", "reviewer", more=more)
    stray = play.root / "code.txt"
    acts = [{"run": f"echo x > '{stray}' || true"}, {"write": "own.txt", "text": "x\n"}]
    play.rules({"role": "coder", "do": acts})
    status, told = play.run()
    assert (status, warnings(told)) == (0, [])
    assert stray.read_text() != "x\n"
    # Where `writable` reaches the repository, they may have done it.
    wide = Agent("coder", {"command": ["x"], "confine": "worktree", "writable": [".."]})
    narrow = Agent("coder", {"command": ["x"], "confine": "worktree", "writable": ["~/.cache"]})
    free = Agent("coder", {"command": ["x"]})
    tree = str(play.root / ".tugtree" / "x")
    found = [confinement.reaches(each, str(play.root), tree) for each in (wide, narrow, free)]
    assert found == [True, False, True]


def test_a_main_checkout_that_was_changed_before_is_not_told(play):
    play = play("1 t")
    (play.root / "file").write_text(DRAFT)
    (play.root / "new.txt").write_text(DRAFT)
    status, told = play.run()
    assert (status, warnings(told)) == (0, [])
    aftermath(play, told)


def test_a_step_whose_commit_has_nothing_but_the_log_says_so(play):
    play = play("1 t")
    acts = [{"run": f"echo work > '{play.root}/code.txt'"}]
    answer = {"files_created": [], "files_modified": ["code.txt"]}
    play.rules({"role": "coder", "do": acts, "answer": answer})
    status, told = play.run()
    assert status == 0
    said = "not in the commit, which has nothing but the log: code.txt"
    assert any(said in each for each in warnings(told))
    assert any(said in note["summary"] for note in play.artifacts("note"))


def test_a_reported_file_outside_the_worktree_is_told(play):
    play = play("1 t")
    stray = play.root / "stray.txt"
    acts = [{"run": f"echo work > '{stray}'"}, {"write": "inside.txt", "text": "x\n"}]
    answer = {"files_created": [str(stray), "inside.txt"], "files_modified": []}
    play.rules({"role": "coder", "do": acts, "answer": answer})
    _, told = play.run()
    said = f"step-1: reported by the coder, and outside its worktree: {stray}"
    assert said in warnings(told)


def test_what_a_coder_reports_rightly_is_not_told(play):
    play = play("1 t")
    acts = [
        {"write": "src/new.txt", "text": "x\n"},
        {"append": "code.txt", "text": "x\n"},
        {"delete": "file"},
        {"run": "ln -s /nowhere link"},
    ]
    answer = {"files_created": ["src/new.txt", "./link"], "files_modified": ["code.txt", "file"]}
    play.rules({"role": "coder", "do": acts, "answer": answer})
    status, told = play.run()
    assert (status, warnings(told)) == (0, [])
    [commit] = play.commits("step-1")
    assert "src/new.txt" in git("ls-tree", "-r", "--name-only", commit, cwd=play.root)
