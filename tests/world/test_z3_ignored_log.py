"""Z3: a log that git ignores is in no commit, and that is said."""


def test_a_log_that_git_ignores_is_named_in_a_warning(yard, tmp_path):
    yard = yard("1", "2")
    ignored = tmp_path / "ignored"
    ignored.write_text("*.md\n")
    yard.repo.git("config", "core.excludesFile", str(ignored))
    tree = yard.create("--claim")
    (tree / "new.txt").write_text("work\n")
    words = ("commit", "--plan", "work", "--step", "step-1", "--message", "Work")
    done = yard.run(*words, at=tree)
    assert (done.status, done.codes) == (0, ["W152"]), done.out
    assert done.data["log_updated"] is False
    issue = done.envelope()["issues"][0]
    assert f"{ignored}:1: *.md" in issue["message"]
    assert issue["hint"].startswith("git -C ")


def test_nothing_is_said_of_a_log_that_is_committed(yard):
    yard = yard("1", "2")
    tree = yard.create("--claim")
    (tree / "new.txt").write_text("work\n")
    words = ("commit", "--plan", "work", "--step", "step-1", "--message", "Work")
    assert yard.run(*words, at=tree).codes == []
