"""K: an agent leaves a merge or the like under way on its own branch: put back, told, run again."""

import pytest

from conftest import git
from support.implement_aftermath import aftermath
from support.proving import sampled

IDENTITY = "-c user.name=x -c user.email=x@example.invalid"
GIT = f"git {IDENTITY}"
#: A branch whose last commit does not apply here.
CLASH = f"""
{GIT} stash push -q --include-untracked
base=$(git rev-parse HEAD)
git switch -q --detach
for text in one two; do echo $text > code.txt && {GIT} commit -qam $text; done
git branch -f clash && git switch -q - && git reset -q --hard $base
"""
#: What is left, in words, and how.
DEEDS = {
    "a merge under way": f"{CLASH} {GIT} merge -q --no-commit --no-ff clash",
    "a cherry-pick under way": f"{CLASH} {GIT} cherry-pick clash",
    "a revert under way": f"{GIT} revert --no-commit HEAD",
    "a rebase under way": f"{CLASH} git format-patch -q --stdout -1 clash > ../patch; "
    f"{GIT} am -q ../patch",
    "unmerged files": f"echo mine > code.txt; {GIT} stash push -q; echo other > code.txt; "
    f"git add code.txt; {GIT} stash pop -q",
}


@pytest.mark.parametrize(
    ("role", "deed"),
    sampled(
        [
            *(("coder", deed) for deed in DEEDS),
            ("reviewer", "a merge under way"),
            ("reviewer", "unmerged files"),
        ],
        3,
    ),
)
def test_what_is_under_way_is_put_back_told_and_run_again(play, role, deed):
    play = play("1 t")
    play.repo.commit({"other.txt": "so that the last commit can be reverted\n"})
    work = [{"write": "lost.txt", "text": "what the first try made\n"}] if role == "coder" else []
    line = f"({DEEDS[deed]}) >/dev/null 2>&1 || true"
    play.rules(
        {"role": role, "try": 1, "do": [*work, {"run": line}]},
        {"role": "coder", "do": [{"write": "work.txt", "text": "work\n"}]},
    )
    status, told = play.run()
    [reason] = [each["reason"] for each in told if each["event"] == "agent_failed"]
    assert f"it left {deed}, and no agent may" in reason
    assert status == 0
    [commit] = play.commits("step-1")
    names = git("ls-tree", "-r", "--name-only", commit, cwd=play.root).split()
    assert "work.txt" in names
    assert "lost.txt" not in names
    assert git("show", f"{commit}:code.txt", cwd=play.root).startswith("line 0\n")
    refs = git("for-each-ref", "--format=%(refname)", "refs/tug/salvage", cwd=play.root).split()
    assert any(ref in reason for ref in refs)
    aftermath(play, told)


@pytest.mark.parametrize("mode", sampled(["555", "000"], 1))
def test_a_closed_directory_beside_a_moved_head_is_kept_and_put_back(play, mode):
    play = play("1 t")
    line = f"mkdir -p shut; echo x > shut/file.txt; chmod {mode} shut; git switch -qc other"
    play.rules({"role": "coder", "try": 1, "do": [{"run": line}]})
    process = play.start(as_root=False)
    out, err = process.communicate()
    assert process.returncode == 0, out + err
    refs = git("for-each-ref", "--format=%(refname)", "refs/tug/salvage", cwd=play.root).split()
    assert any(git("ls-tree", ref, "shut/file.txt", cwd=play.root) for ref in refs)
    [commit] = play.commits("step-1")
    assert not git("ls-tree", commit, "shut", cwd=play.root)
    play.finished()
