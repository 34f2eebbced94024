"""A whole plan: four processes, four worktrees, ten steps, one merge, and nothing left over."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import git

WORKER = str(Path(__file__).parents[1] / "support" / "plan_worker.py")
#: Four may begin; what follows joins what different worktrees did.
TEN = (
    *("1 t", "2 t", "3 tc", "4 t"),
    *("5 t < 1 2", "6 te < 3 4", "7 t < 5", "8 t < 5 6", "9 t < 6", "10 t < 7 8 9"),
)
STEPS = [f"step-{number}" for number in range(1, 11)]


@pytest.fixture
def crew(yard):
    """The repository, and four processes that each have a worktree and a step, and wait."""
    yard = yard(*TEN)
    yard.ok("init")
    yard.repo.commit({})
    workers = [
        subprocess.Popen(
            [sys.executable, WORKER, str(yard.root), "work"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    yield yard, workers
    for each in workers:
        each.kill()
        each.communicate()


def results(workers: list[subprocess.Popen]) -> list[dict]:
    """Let them go at once, and wait for what each says last."""
    for each in workers:
        assert each.stdout.readline() == "ready\n", each.stderr.read()
    for each in workers:
        each.stdin.write("go\n")
        each.stdin.flush()
    said = [each.communicate() for each in workers]
    assert [each.returncode for each in workers] == [0] * 4, said
    return [json.loads(out.splitlines()[-1]) for out, _ in said]


def commits(yard) -> dict[str, str]:
    rows = yard.rows("select anchor, commit_hash from steps where status = 'completed'")
    return {row["anchor"]: row["commit_hash"] for row in rows}


def trailers(yard, key: str) -> list[str]:
    out = yard.repo.git("log", "main", f"--format=%(trailers:key={key},valueonly,unfold)")
    return sorted(line for line in out.splitlines() if line)


def all_paragraphs(yard, key: str) -> list[str]:
    """The trailers in every paragraph, as a squashed commit has them."""
    lines = yard.repo.git("log", "-1", "--format=%B", "main").splitlines()
    return sorted(line.split(": ")[1] for line in lines if line.startswith(f"{key}: "))


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("squash", [False, True])
def test_a_plan_of_ten_steps_is_carried_out_by_four_and_merged(crew, squash):
    yard, workers = crew
    did = results(workers)
    assert len({each["worktree"] for each in did}) == 4
    assert all(each["steps"] for each in did)
    assert sorted(step for each in did for step in each["steps"]) == sorted(STEPS)
    # Step 10 needs what at least two of them did; whoever did it had to fetch the rest.
    assert any(each["brought"] for each in did)

    made = commits(yard)
    told = yard.ok("merge", "work", *(["--squash"] if squash else []))
    assert (told["merged"], told["left"], len(told["removed_worktrees"])) == (True, [], 4)

    on_main = set(yard.repo.git("rev-list", "main").split())
    now = commits(yard)
    assert sorted(now) == sorted(STEPS)
    assert set(now.values()) <= on_main
    assert set(now.values()) == ({told["merged_commit"]} if squash else set(made.values()))
    read = all_paragraphs if squash else trailers
    assert read(yard, "Tug-Step") == sorted(STEPS)
    assert read(yard, "Tug-Plan") == [".tugtool/tugplan-work.md"] * 10
    assert [each.split("/")[1:] for each in read(yard, "Tug-Claim")] == [
        [step, "1"] for step in sorted(STEPS)
    ]
    for step in STEPS:
        assert (yard.root / f"{step}.txt").read_text() == f"{step}\n"
    log = (yard.root / ".tugtool" / "log.md").read_text()
    # None is missing, and none told twice, though branches had taken each other in.
    assert sorted(line.split("**")[1].split(":")[0] for line in entries(log)) == sorted(STEPS)

    nothing_is_left(yard)
    shown = yard.ok("state", "show", "work")
    assert (shown["status"], shown["merged_commit"]) == ("done", told["merged_commit"])

    lose(yard)
    assert yard.ok("state", "reconcile", "work")["reconciled_count"] == 10
    assert commits(yard) == now


def entries(log: str) -> list[str]:
    return [line for line in log.splitlines() if line.startswith("- ")]


def nothing_is_left(yard) -> None:
    assert set(yard.refs()) == {"refs/heads/main"}
    assert yard.repo.git("worktree", "list", "--porcelain").count("worktree ") == 1
    assert list((yard.root / ".tugtree").iterdir()) == []
    assert yard.repo.git("status", "--porcelain") == ""
    assert yard.rows("select * from worktrees") == []
    assert yard.rows("select * from intents") == []
    assert git("fsck", "--full", "--strict", "--no-dangling", cwd=yard.root) == ""


def lose(yard) -> None:
    """The database is gone, and so is its backup."""
    for path in (yard.root / ".tugtool").glob("state.*"):
        path.unlink()
    shutil.rmtree(yard.root / ".git" / "tugtool")
    yard.ok("state", "init", "work")
