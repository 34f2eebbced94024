"""Y: what an agent changes in the shared git directory is put back, and told."""

import pytest

from conftest import git
from support.implement_aftermath import aftermath
from support.proving import sampled

HOOK = "#!/bin/sh\nexit 1\n"
SET = "git config --file ../../.git/config"
#: What an agent does, and what a warning names.
DEEDS = {
    "core.bare": (f"{SET} core.bare true", "core.bare"),
    "core.worktree": (f"{SET} core.worktree /nowhere", "core.worktree"),
    "core.hooksPath": (f"{SET} core.hooksPath /nowhere", "core.hookspath"),
    "two values": (
        f"{SET} --add core.hooksPath /a; {SET} --add core.hooksPath /b",
        "core.hookspath",
    ),
    "one that was set": (f"{SET} --unset core.abbrev", "core.abbrev"),
    "no settings at all": ("rm ../../.git/config", "git's config was spoilt"),
    "settings that git cannot read": ("echo '[' > ../../.git/config", "git's config was spoilt"),
    "a hook": (
        f"mkdir -p ../../.git/hooks && printf '{HOOK!r}' > ../../.git/hooks/pre-commit && "
        "chmod +x ../../.git/hooks/pre-commit",
        "hooks/pre-commit",
    ),
    "a hook that was there": ("rm ../../.git/hooks/post-commit", "hooks/post-commit"),
    "a hook as a link": ("ln -sf /nowhere ../../.git/hooks/post-commit", "hooks/post-commit"),
    "ignored names": (
        "mkdir -p ../../.git/info; echo '*' >> ../../.git/info/exclude",
        "info/exclude",
    ),
    "a replaced object": (
        "git replace HEAD $(git -c user.name=x -c user.email=x commit-tree -m x HEAD^{tree})",
        "refs/replace/",
    ),
    "a replaced object, packed": (
        "git replace HEAD $(git -c user.name=x -c user.email=x commit-tree -m x HEAD^{tree}) && "
        "git pack-refs --all",
        "refs/replace/",
    ),
}


def shared(play) -> dict[str, object]:
    """Settings, hooks, ignored names and replaced objects."""
    home = play.root / ".git"
    files = [*sorted((home / "hooks").glob("*")), home / "info" / "exclude"]
    found: dict[str, object] = {
        path.name: (path.is_symlink(), path.stat().st_mode, path.read_text())
        for path in files
        if path.is_symlink() or path.exists()
    }
    found["settings"] = sorted(git("config", "--local", "--list", cwd=play.root).splitlines())
    found["replaced"] = git("for-each-ref", "refs/replace", cwd=play.root)
    return found


@pytest.mark.parametrize(
    ("role", "deed"),
    sampled(
        [
            *(("coder", deed) for deed in DEEDS),
            ("reviewer", "a hook"),
            ("reviewer", "ignored names"),
        ],
        6,
    ),
)
def test_the_shared_git_directory_is_put_back_and_told(play, role, deed):
    play = play("1 t", "2 t < 1")
    play.ok("init")
    play.repo.git("config", "core.abbrev", "12")
    (play.root / ".git" / "hooks").mkdir(exist_ok=True)
    hook = play.root / ".git" / "hooks" / "post-commit"
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    before = shared(play)
    line, said = DEEDS[deed]
    acts = [{"write": "out/{step}.txt", "text": "work\n"}] if role == "coder" else []
    play.rules({"role": role, "step": "step-1", "do": [*acts, {"run": line}]})
    status, told = play.run()
    assert status == 0
    assert shared(play) == before
    named = [each for each in told if each["event"] == "warning" and said in each["message"]]
    assert all(f"while the {role} ran" in each["message"] for each in named)
    assert named
    [commit] = play.commits("step-1")
    name = "out/step-1.txt" if role == "coder" else "scripted/step-1.txt"
    assert git("show", f"{commit}:{name}", cwd=play.root)
    aftermath(play, told)


def test_another_setting_stays_and_is_told_once(play):
    play = play("1 t", "2 t < 1")
    line = "git config --file ../../.git/config user.email agent@example.invalid"
    play.rules({"role": "coder", "do": [{"run": line}]})
    status, told = play.run()
    assert status == 0
    assert git("config", "--local", "user.email", cwd=play.root) == "agent@example.invalid\n"
    said = [each["message"] for each in told if each["event"] == "warning"]
    assert said == ["while the coder ran, the setting user.email of git's config was changed"]


def test_what_git_itself_writes_is_not_told(play):
    play = play("1 t")
    line = "git config branch.main.description x; git sparse-checkout disable"
    play.rules({"role": "coder", "do": [{"run": line}, {"write": "new.txt", "text": "x\n"}]})
    status, told = play.run()
    assert (status, [each for each in told if each["event"] == "warning"]) == (0, [])
    assert git("config", "branch.main.description", cwd=play.root) == "x\n"
