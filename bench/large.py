"""Measure large repositories beside git's own cost there: many files, many commits.

    python bench/large.py [--quick] [--rounds N] [--self-test] [--results FILE]

`state init` among 100,000 files may cost a little more than among 1,000, plus git's cost to find
the commit that added the plan. With 12 worktrees and a base 400 commits ahead, the check whether
work has landed may cost half as much again as git's own answers. CPU time of whole processes; exit
status 1 if a gate is broken. `--self-test` makes each slow, and fails unless all are caught.
"""

import argparse
import json
import resource
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import budgets
import harness
from reconcile import KEY, commit, data, run
from results import Results

FEW, MANY, MOST_INIT = 1_000, 100_000, 1.2
TREES, AHEAD, MOST_LANDED = 12, 400, 1.5
NOTE = (
    f"CPU time of whole processes, git's included. `state init` among {MANY:,} files, without what "
    f"git needs there to name the commit that brought the plan, beside `state init` among {FEW:,}. "
    f"The others with {TREES} worktrees of one commit each and a base that is {AHEAD} commits "
    "ahead, each with an entry of the log, beside what git takes to say the same of all worktrees: "
    "`status`, `cherry` and `merge-tree`."
)
LOG = ".tugtool/log.md"
PLAN = "# Work\n\n### Step 1: Part\n"
TUGCODE = (sys.executable, "-m", "tugtool")


def seconds(*commands: tuple[str, ...], cwd: Path) -> float:
    """Return the CPU seconds of some commands and their children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for words in commands:
        run(*words, cwd=cwd)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def with_files(place: Path, number: int) -> Path:
    """Make a repository with the plan and so many files, which only git's index has."""
    place.mkdir()
    run("git", "init", "--quiet", "--initial-branch=main", ".", cwd=place)
    files = "".join(f"M 644 inline d{n % 100}/f{n}\n{data(str(n))}" for n in range(number))
    plan = f"M 644 inline {KEY}\n{data(PLAN)}"
    history = commit("main", 0, "plan") + plan + files + commit("main", 1, "later")
    run("git", "fast-import", "--quiet", cwd=place, given=history)
    run("git", "read-tree", "HEAD", cwd=place)
    run("git", "checkout-index", "--", KEY, cwd=place)
    return place


def init(place: Path, *, plant: bool) -> float:
    """Return the cost of `state init` without a record."""
    for path in (*(place / ".tugtool").glob("state.*"), *(place / ".git" / "tugtool").glob("*")):
        path.unlink()
    planted = [("git", "diff", "--quiet", "HEAD", "--", KEY)] if plant else []
    return seconds((*TUGCODE, "state", "init", "work"), *planted, cwd=place)


def many_files(place: Path, options: argparse.Namespace) -> float:
    """Compare `state init` among many files with git's own part of it."""
    few, many = (with_files(place / str(number), number) for number in (FEW, MANY))
    plant = options.self_test
    # By turns, so that other load on the machine hits both alike.
    times = [(init(few, plant=plant), init(many, plant=plant)) for _ in range(2 * options.rounds)]
    small, large = (min(each) for each in zip(*times, strict=True))
    asked = ("git", "log", "-1", "--format=%H", "HEAD", "--", KEY)
    own = min(seconds(asked, cwd=many) for _ in range(options.rounds))
    print(f"state init: {small:.3f} s, {large:.3f} s among {MANY:,} files, git's own {own:.3f} s")
    return (large - own) / small


def with_worktrees(place: Path) -> Path:
    """Make worktrees with a commit each, and a base that has moved on; all commits are logged."""
    place.mkdir()
    run("git", "init", "--quiet", "--initial-branch=main", ".", cwd=place)
    run("git", "config", "user.name", "bench", cwd=place)
    run("git", "config", "user.email", "bench@example.invalid", cwd=place)
    plan = "# Work\n" + "".join(f"\n### Step {n}: Part\n" for n in range(2 * TREES))
    run(
        "git",
        "fast-import",
        "--quiet",
        cwd=place,
        given=commit("main", 0, "plan") + entry(KEY, plan),
    )
    run("git", "reset", "--quiet", "--hard", cwd=place)
    for number in range(TREES):
        made = run(*TUGCODE, "worktree", "create", "work", "--new", "--json", cwd=place)
        tree = Path(json.loads(made)["data"]["worktree_path"])
        (tree / f"new-{number}").write_text("work\n" * 100)
        (tree / LOG).write_text(f"## step-{number}\n")
        run("git", "add", "--all", cwd=tree)
        run("git", "commit", "--quiet", "--message=work", cwd=tree)
    log = "".join(f"## {n}\n" for n in range(AHEAD))
    ahead = [
        commit("main", n + 1, "merged")
        + "from refs/heads/main^0\n" * (not n)
        + entry(LOG, log[: len(log) * (n + 1) // AHEAD])
        + entry(f"other-{n}", str(n))
        for n in range(AHEAD)
    ]
    run("git", "fast-import", "--quiet", cwd=place, given="".join(ahead))
    run("git", "reset", "--quiet", "--hard", cwd=place)
    database = sqlite3.connect(place / ".tugtool" / "state.db")
    with database:
        database.execute("update worktrees set reserved_until = null, reserved_for = null")
    database.close()
    return place


def landed(place: Path, options: argparse.Namespace) -> Iterator[tuple[str, float, float]]:
    """Compare three commands with git's own answers to the same questions."""
    home = with_worktrees(place / "worktrees")
    (home / ".tugtool" / "config.toml").write_text('[agents.default]\ncommand = ["sh"]\n')
    asked = [line for tree in sorted((home / ".tugtree").iterdir()) for line in _own(str(tree))]
    planted = [("git", "log", "--patch", "main")] * 20 if options.self_test else []
    own = min(seconds(*asked, cwd=home) for _ in range(options.rounds))
    for words in (
        ("worktree", "create", "work"),
        ("implement", "work", "--dry-run"),
        ("worktree", "cleanup", "--dry-run"),
    ):
        took = min(seconds((*TUGCODE, *words), *planted, cwd=home) for _ in range(options.rounds))
        print(f"{' '.join(words)}: {took:.3f} s, git's own {own:.3f} s")
        yield f"`{' '.join(words)}` / git's own", took / own, MOST_LANDED


def _own(tree: str) -> list[tuple[str, ...]]:
    """Return the git commands for whether a worktree is clean, and its commits are on main."""
    here = ("git", "-C", tree)
    return [
        (*here, "status", "--porcelain"),
        (*here, "cherry", "main", "HEAD"),
        (*here, "merge-tree", "--write-tree", "main", "HEAD"),
    ]


def entry(path: str, text: str) -> str:
    return f"M 644 inline {path}\n{data(text)}"


def main() -> int:
    options, results = harness.options(__doc__, rounds=5, quick=1), Results()
    with tempfile.TemporaryDirectory() as name:
        ratio = many_files(Path(name), options)
        what = f"`state init` among {MANY:,} files / among {FEW:,}"
        found = [(what, ratio, MOST_INIT), *landed(Path(name), options)]
    rows = [(what, ratio, gate, budgets.verdict(ratio, gate)) for what, ratio, gate in found]
    for what, ratio, _, verdict in rows:
        print(f"{what}: {ratio:.2f}, {verdict}")
    columns = ("what", "x", "gate", "verdict")
    results.table("large", "Large repositories", NOTE, columns, rows)
    if not options.self_test:
        results.save(options.results)
    is_over = [ratio > gate for _, ratio, gate in found]
    return int(not all(is_over) if options.self_test else any(is_over))


if __name__ == "__main__":
    sys.exit(main())
