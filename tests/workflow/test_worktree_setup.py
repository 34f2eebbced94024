"""A new worktree is made ready: ignored files come along, and the project's own commands run."""

import json
import os
import stat
import sys

import pytest

from conftest import git
from support.worktree import Yard, process


def configure(yard: Yard, setup: object = (), copy: object = (), **more: int) -> None:
    lines = [f"setup = {json.dumps(setup)}", f"copy = {json.dumps(copy)}"]
    lines += [f"{name} = {value}" for name, value in more.items()]
    (yard.root / ".tugtool" / "config.toml").write_text("\n".join(["[worktree]", *lines]) + "\n")


def nothing(yard: Yard) -> dict:
    """What there must be nothing of, where no worktree could be made."""
    return {
        "branches": [name for name in yard.refs() if "tugplan/" in name],
        "git": git("worktree", "list", "--porcelain", cwd=yard.root).count("worktree "),
        "directories": os.listdir(yard.root / ".tugtree"),
        "rows": yard.rows("select * from worktrees"),
        "intents": yard.rows("select * from intents"),
    }


NOTHING = {"branches": [], "git": 1, "directories": [], "rows": [], "intents": []}


def sh(line: str) -> list[str]:
    return ["sh", "-c", line]


def test_commands_run_once_in_order_and_are_timed(yard):
    yard = yard()
    yard.repo.commit({".gitignore": "/made\n"})
    configure(yard, [sh("echo one >> made"), sh("pwd >> made; echo said")])
    data = yard.ok("worktree", "create", "work")
    path = data["worktree_path"]
    with open(f"{path}/made", encoding="utf-8") as made:
        assert made.read() == f"one\n{path}\n"
    assert [each["command"][2] for each in data["setup"]] == [
        "echo one >> made",
        "pwd >> made; echo said",
    ]
    assert all(each["seconds"] >= 0 for each in data["setup"])
    yard.free(path)
    again = yard.ok("worktree", "create", "work")
    assert (again["reused"], again["setup"], again["copied"]) == (True, [], [])
    told = yard._tugcode("-C", yard.root, "worktree", "create", "work", "--new")
    assert "setup: sh -c 'echo one >> made'" in told.out
    name = os.path.basename(f"{path}-2")
    assert told.err.startswith(f"setup in {name}: sh -c 'echo one >> made'\n")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (sh("echo first; echo the last words; exit 3"), "the last words"),
        (sh("kill -9 $$"), "was killed by signal 9"),
        (["./is-not-there"], "./is-not-there"),
        (sh("mkdir -p deep/er; touch deep/er/x; chmod 500 deep/er deep; exit 1"), "status 1"),
    ],
)
def test_a_setup_that_fails_leaves_nothing_behind(yard, command, said):
    yard = yard()
    configure(yard, [sh("touch made"), command])
    message = yard.refused("E033", "worktree", "create", "work")
    assert said in message
    assert nothing(yard) == NOTHING


def test_a_setup_that_takes_too_long_is_stopped(yard):
    yard = yard()
    configure(yard, [sh("sleep 600")], setup_seconds=1)
    assert "took longer than 1 s" in yard.refused("E033", "worktree", "create", "work")
    assert nothing(yard) == NOTHING


def test_a_creation_that_is_killed_during_its_setup_is_cleared_by_the_next(yard):
    yard = yard()
    # What lies there by then is not work.
    configure(yard, [sh("echo x > junk; echo x >> code.txt; kill -9 $PPID; sleep 600")])
    killed = process(yard.root, "worktree", "create", "work")
    killed.communicate(timeout=60)
    assert killed.returncode == -9
    [left] = os.listdir(yard.root / ".tugtree")
    configure(yard)
    path = yard.create()
    assert path.name == left
    assert not (path / "junk").exists()
    assert len(yard.rows("select * from worktrees")) == 1
    assert yard.rows("select * from intents") == []


def test_config_shows_the_commands(yard):
    yard = yard()
    configure(yard, [["uv", "sync"], ["make", "all"]], [".env"])
    shown = {each["key"]: each["value"] for each in yard.ok("config")["settings"]}
    assert shown["worktree.setup"] == [["uv", "sync"], ["make", "all"]]
    assert "uv sync; make all" in yard.said("config")


def test_a_creation_that_is_interrupted_during_its_setup_leaves_nothing(yard):
    yard = yard()
    configure(yard, [sh("kill -INT $PPID; sleep 600")])
    stopped = process(yard.root, "worktree", "create", "work")
    stopped.communicate(timeout=60)
    assert stopped.returncode == 130
    assert nothing(yard) == NOTHING


def test_a_new_dash_is_made_ready_too(yard):
    yard = yard()
    yard.repo.commit({".gitignore": ".env\n"})
    yard.repo.write({".env": "A=1\n"})
    configure(yard, [sh("cp .env made")], [".env"])
    path = yard.ok("dash", "create", "fix")["worktree_path"]
    assert sorted(os.listdir(path))[:2] == [".env", ".git"]
    configure(yard, [sh("exit 1")])
    yard.refused("E033", "dash", "create", "other")


def test_ignored_files_are_copied_with_their_modes(yard):
    yard = yard()
    yard.repo.commit({".gitignore": ".env\n*.local\n/data/\n", "data.txt": "x"})
    yard.repo.write({".env": "A=1\n", "conf/a.local": "a", "conf/seen": "", "data/deep/b": "b"})
    os.chmod(yard.root / ".env", 0o600)
    os.chmod(yard.root / "data/deep/b", 0o755)
    configure(yard, copy=[".env", "conf", "data"])
    data = yard.ok("worktree", "create", "work")
    path = yard.root / ".tugtree" / os.path.basename(data["worktree_path"])
    assert data["copied"] == [".env", "conf/a.local", "data/deep/b"]
    assert data["not_copied"] == []
    assert (path / ".env").read_text() == "A=1\n"
    assert not (path / "conf/seen").exists()
    modes = [stat.S_IMODE((path / name).stat().st_mode) for name in (".env", "data/deep/b")]
    assert modes == [0o600, 0o755]
    assert git("status", "--porcelain", cwd=path) == ""
    assert "copied .env" in yard.said("worktree", "create", "work", "--new")


def test_what_cannot_be_copied_is_told_and_nothing_leads_out_of_the_repository(yard, tmp_path):
    yard = yard()
    (tmp_path / "secret").write_text("s")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_text("x")
    yard.repo.commit({".gitignore": "/out*\n/link\n/pipe\n", "code.txt": "tracked\n"})
    os.symlink(tmp_path / "secret", yard.root / "link")
    os.symlink(tmp_path / "outside", yard.root / "out-dir")
    os.mkfifo(yard.root / "pipe")
    yard.repo.write({"code.txt": "changed\n", "seen.txt": "not ignored\n"})
    names = ["gone", "link", "out-dir", "out-dir/x", "../secret", str(tmp_path / "secret")]
    names += ["code.txt", "seen.txt", "pipe", ".git/config", ""]
    configure(yard, copy=names)
    done = yard.run("worktree", "create", "work")
    assert done.status == 0
    assert done.data["copied"] == []
    assert [each["path"] for each in done.data["not_copied"]] == names
    reasons = {each["path"]: each["reason"] for each in done.data["not_copied"]}
    assert reasons["gone"] == "it is not there"
    assert reasons["link"] == "it leads out of the repository"
    assert reasons["code.txt"] == reasons["seen.txt"] == "git does not ignore it"
    assert done.codes == ["W165"] * len(names)
    path = yard.root / ".tugtree" / os.path.basename(done.data["worktree_path"])
    assert (path / "code.txt").read_text() == "tracked\n"
    assert sorted(os.listdir(path)) == [".git", ".gitignore", ".tugtool", "code.txt", "file"]


def test_what_another_base_does_not_ignore_is_not_copied(yard):
    yard = yard()
    yard.repo.git("branch", "old")
    yard.repo.commit({".gitignore": ".env\n"})
    yard.repo.write({".env": "A=1\n"})
    configure(yard, copy=[".env"])
    data = yard.ok("worktree", "create", "work", "--base", "old")
    assert (data["copied"], len(data["not_copied"])) == ([], 1)


def test_files_that_setup_made_do_not_keep_the_worktree(yard):
    yard = yard()
    hides = sh("mkdir tools; echo '*' > tools/.gitignore; echo x > tools/x")
    configure(yard, [hides])
    data = yard.ok("worktree", "create", "work")
    assert os.path.exists(f"{data['worktree_path']}/tools/x")
    yard.ok("worktree", "remove", data["worktree_path"])
    assert nothing(yard) == NOTHING


def test_what_setup_leaves_uncommitted_is_told(yard):
    yard = yard()
    configure(yard, [sh("echo lock > lock.file")])
    done = yard.run("worktree", "create", "work")
    assert (done.status, done.codes) == (0, ["W166"])
    assert "lock.file" in done.out


PYTHON = {
    ".gitignore": "/.venv/\n__pycache__/\n.env\n",
    "adder.py": "def add(a, b):\n    return a - b\n",
    "check.py": "import sys\nassert sys.prefix != sys.base_prefix\n"
    "assert open('.env').read() == 'MODE=test\\n'\n"
    "import adder\nassert adder.add(2, 2) == 4\n",
}


@pytest.mark.proof(share=0)
def test_a_plan_on_a_python_project_whose_tests_need_a_virtual_environment_runs(play):
    play = play("1 t", "2 t", "3 t < 1 2")
    play.cast("coder", "reviewer", workers=2)
    made = json.dumps([[sys.executable, "-m", "venv", "--without-pip", ".venv"]])
    with open(play.root / ".tugtool" / "config.toml", "a", encoding="utf-8") as settings:
        settings.write(f'[worktree]\nsetup = {made}\ncopy = [".env"]\n')
    play.repo.commit(PYTHON)
    play.repo.write({".env": "MODE=test\n"})
    fix = "echo 'def add(a, b): return a + b' > adder.py; echo {step} > {step}.txt"
    check = ".venv/bin/python -B check.py"
    # One worker alone would be fast enough to do both.
    both = [{"touch": "../../../{step}-here"}]
    both += [{"wait_for": f"../../../step-{n}-here"} for n in (1, 2)]
    work = [{"run": fix}, {"run": check}]
    play.rules(
        {"role": "coder", "step": ["step-1", "step-2"], "do": [*both, *work]},
        {"role": "coder", "do": work},
        {"role": "reviewer", "do": [{"run": check}]},
    )
    status, told = play.run()
    assert status == 0, told[-1]
    made = [each for each in told if each["event"] == "worktree"]
    assert len(made) == 2
    assert all(each["copied"] == [".env"] and len(each["setup"]) == 1 for each in made)
    notes = [note["summary"] for note in play.artifacts("note")]
    assert notes == []
    assert play.ok("merge", "work")["left"] == []
    assert play.trees() == []


def test_of_several_setups_the_one_that_fails_is_told_and_the_others_end(play):
    play = play("1 t", "2 t")
    play.cast("coder", "reviewer", workers=2)
    line = "case $PWD in *-2) echo the second; exit 1;; esac; sleep 600"
    with open(play.root / ".tugtool" / "config.toml", "a", encoding="utf-8") as settings:
        settings.write(f'[worktree]\nsetup = [["sh", "-c", "{line}"]]\n')
    done = play.tugcode("implement", "work")
    assert (done.status, done.codes) == (1, ["E033"])
    assert "the second" in done.out
    assert play.trees() == []


def test_a_failing_setup_ends_a_run_before_an_agent_is_paid(play):
    play = play("1 t", "2 t")
    play.cast("coder", "reviewer", workers=2)
    with open(play.root / ".tugtool" / "config.toml", "a", encoding="utf-8") as settings:
        settings.write('[worktree]\nsetup = [["sh", "-c", "echo no such package; exit 1"]]\n')
    done = play.tugcode("implement", "work")
    assert (done.status, done.codes) == (1, ["E033"])
    assert "no such package" in done.out
    assert (play.trees(), play.calls(), play.held()) == ([], [], [])
    assert play.rows("select * from worktrees") == []
