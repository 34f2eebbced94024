"""The numbers in `worktree list`, `dash list` and `doctor` are those of their JSON.

Random data of the promised shape are drawn at every width and read back as a person would; so
are random repositories, whose numbers git itself counts. Planted faults are noticed.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Repo, git, schema
from support import count_pages
from support.dash import Field
from support.picture_rules import WIDTHS
from support.proving import examined
from support.state import KEY, NOON
from tugtool.cli import dash, repo
from tugtool.cli.draw import status
from tugtool.cli.output import UNBOUNDED
from tugtool.system import clock

NOW = clock.text(NOON)
EVERY_WIDTH = (*WIDTHS, UNBOUNDED)
NUMBERS = st.integers(0, 2000)
TIMES = st.integers(-400_000_000, 400_000_000).map(lambda away: clock.text(NOON + away))
LATER = st.integers(0, 400_000_000).map(lambda away: clock.text(NOON + away))
NAMES = st.text("abc", min_size=1, max_size=8)
COMMITS = st.text("0123456789abcdef", min_size=40, max_size=40)

HELD = st.fixed_dictionaries(
    {
        "plan_path": st.sampled_from((KEY, "plans/tugplan-other.md")),
        "step_anchor": st.integers(1, 60).map(lambda number: f"step-{number}"),
        "attempt": st.integers(1, 9),
        "lease_expires_at": LATER,
        "lease": st.sampled_from(("live", "live", "expired", "gone")),
    }
)


@st.composite
def worktrees(draw) -> dict:
    """An answer of `worktree list`."""
    trees = []
    for number in range(draw(st.integers(0, 4))):
        known, there, changed = draw(st.booleans()), draw(st.booleans()), draw(NUMBERS)
        name = f"tugplan__{draw(NAMES)}-{number}"
        apart = draw(st.booleans())
        trees.append(
            {
                "worktree_path": f"{count_pages.ROOT}/.tugtree/{name}",
                "name": name,
                "machine": None,
                "branch_name": f"tugplan/{name}",
                "base_branch": "main",
                "plan_path": KEY if known else None,
                "recorded": known,
                "exists": there,
                "locked": draw(st.booleans()),
                "clean": changed == 0 if there else None,
                "changed_files": changed if there else None,
                "ahead": draw(NUMBERS) if apart else None,
                "behind": draw(NUMBERS) if apart else None,
                "held_steps": draw(st.lists(HELD, max_size=3)),
                "reserved_until": draw(st.none() | TIMES),
            }
        )
    branches = draw(st.lists(NAMES, max_size=2, unique=True))
    lost = [{"branch_name": f"tugplan/{name}", "commit": draw(COMMITS)} for name in branches]
    return {"worktrees": trees, "branches": lost}


@st.composite
def dashes(draw) -> dict:
    """An answer of `dash list --all`."""
    made = []
    for number in range(draw(st.integers(0, 4))):
        name = f"{draw(NAMES)}-{number}"
        how = draw(st.sampled_from(("active", "active", "joined", "released")))
        active, there = how == "active", draw(st.booleans())
        tip = draw(st.none() | COMMITS) if active else None
        made.append(
            {
                "name": name,
                "description": draw(st.none() | NAMES),
                "status": how,
                "base_branch": "main",
                "base_commit": draw(COMMITS),
                "rounds": draw(NUMBERS),
                "created_at": NOW,
                "updated_at": draw(TIMES),
                "ended_at": None if active else draw(TIMES),
                "joined_commit": draw(COMMITS) if how == "joined" else None,
                "salvage_ref": "refs/tug/salvage/x" if how == "released" else None,
                "branch_name": f"tugdash/{name}",
                "worktree_path": f"{count_pages.ROOT}/.tugtree/tugdash__{name}",
                "exists": there if active else None,
                "on_branch": draw(st.booleans()) if active and there else None,
                "changed_files": draw(NUMBERS) if active and there else None,
                "ahead": draw(NUMBERS) if tip else None,
                "behind": draw(NUMBERS) if tip else None,
                "tip": tip,
                "releasing": draw(st.booleans()) if active else None,
            }
        )
    return {"dashes": made, "unrecorded": draw(st.lists(NAMES, max_size=2, unique=True))}


def _worst(findings: list[dict]) -> str:
    kinds = {"fixed" if each["fixed"] else each["severity"] for each in findings}
    return next((kind for kind in ("error", "warning", "fixed") if kind in kinds), "ok")


@st.composite
def found(draw) -> dict:
    """A finding of a check."""
    severity = draw(st.sampled_from(("error", "warning", "warning", "note")))
    fixed = severity != "note" and draw(st.booleans())
    return {
        "severity": severity,
        "message": f"{draw(NAMES)} is not as it should be",
        "hint": draw(st.none() | st.just("tugcode list")),
        "fixable": fixed,
        "fixed": fixed,
        "outcome": "removed it" if fixed else None,
    }


@st.composite
def diagnoses(draw) -> dict:
    """An answer of `doctor`."""
    checks = []
    for number in range(draw(st.integers(1, 6))):
        reason = draw(st.none() | st.just("there is no database"))
        findings = [] if reason else draw(st.lists(found(), max_size=15))
        how = "skipped" if reason else _worst(findings)
        name = f"check-{number}"
        checks.append({"name": name, "status": how, "reason": reason, "findings": findings})
    kinds = Counter(check["status"] for check in checks)
    return {
        "healthy": not kinds["error"] and not kinds["warning"],
        "fix": False,
        "counts": {kind: kinds[kind] for kind in ("ok", "fixed", "warning", "error", "skipped")},
        "checks": checks,
        "versions": {
            **{name: "3.11.2" for name in ("tugtool", "python", "sqlite", "git")},
            "sqlite_wal_reset_bug": False,
        },
        "start_up_ms": {"bare": 8.0, "usual": 9.0},
    }


def hold_trees(data: dict) -> None:
    schema("worktree-list").validate(data)
    for width in EVERY_WIDTH:
        count_pages.worktrees(data, NOW, width)


def hold_dashes(data: dict) -> None:
    schema("dash-list").validate(data)
    for width in EVERY_WIDTH:
        count_pages.dashes(data, width)


def hold_doctor(data: dict) -> None:
    schema("doctor").validate(data)
    for width in EVERY_WIDTH:
        count_pages.doctor(data, width)


@examined(short=60)
@given(worktrees(), dashes(), diagnoses())
def test_lists_of_worktrees_dashes_and_findings_have_the_numbers_of_their_data(trees, some, told):
    hold_trees(trees)
    hold_dashes(some)
    hold_doctor(told)


# -- planted faults --------------------------------------------------------------------

TREE = {
    "worktree_path": f"{count_pages.ROOT}/.tugtree/tugplan__work-1",
    "name": "tugplan__work-1",
    "machine": None,
    "branch_name": "tugplan/work-1",
    "base_branch": "main",
    "plan_path": KEY,
    "recorded": True,
    "exists": True,
    "locked": False,
    "clean": False,
    "changed_files": 12,
    "ahead": 3,
    "behind": 4,
    "held_steps": [
        {
            "plan_path": KEY,
            "step_anchor": f"step-{number}",
            "attempt": 1,
            "lease_expires_at": clock.text(NOON + 90_000),
            "lease": lease,
        }
        for number, lease in ((1, "live"), (2, "expired"))
    ],
    "reserved_until": NOW,
}
TREES = {"worktrees": [TREE], "branches": [{"branch_name": "tugplan/old", "commit": "1" * 40}]}
DASH = {
    "name": "fix",
    "description": None,
    "status": "active",
    "base_branch": "main",
    "base_commit": "1" * 40,
    "rounds": 12,
    "created_at": NOW,
    "updated_at": NOW,
    "ended_at": None,
    "joined_commit": None,
    "salvage_ref": None,
    "branch_name": "tugdash/fix",
    "worktree_path": f"{count_pages.ROOT}/.tugtree/tugdash__fix",
    "exists": True,
    "on_branch": True,
    "changed_files": 5,
    "ahead": 3,
    "behind": 4,
    "tip": "1" * 40,
    "releasing": False,
}
DASHES = {"dashes": [DASH], "unrecorded": ["stray"]}
FOUND = {
    "severity": "warning",
    "message": "a lock was left",
    "hint": None,
    "fixable": True,
    "fixed": False,
    "outcome": None,
}
MENDED = {**FOUND, "fixed": True, "outcome": "removed it"}
LOCKS = [*12 * [FOUND], MENDED, {**FOUND, "severity": "note"}]
DIAGNOSIS = {
    "healthy": False,
    "fix": True,
    "counts": {"ok": 0, "fixed": 0, "warning": 1, "error": 0, "skipped": 1},
    "checks": [
        {"name": "locks", "status": "warning", "reason": None, "findings": LOCKS},
        {"name": "dashes", "status": "skipped", "reason": "there is no database", "findings": []},
    ],
    "versions": {
        **{name: "3.11.2" for name in ("tugtool", "python", "sqlite", "git")},
        "sqlite_wal_reset_bug": False,
    },
    "start_up_ms": {"bare": 8.0, "usual": 9.0},
}


def test_data_with_everything_in_them_have_their_numbers():
    hold_trees(TREES)
    hold_dashes(DASHES)
    hold_doctor(DIAGNOSIS)


def _facts_of(draw: Callable[..., Iterator], **wrong: int) -> Callable[..., Iterator]:
    """The facts of data with another number."""
    return lambda canvas, each, *rest: draw(canvas, {**each, **wrong}, *rest)


def _less(count: int, *words: str) -> str:
    return f"{count - 1} {words[0]}s"


def _made_all(canvas, data, *, every, verdict=repo._verdict) -> None:
    verdict(canvas, {**data, "counts": {**data["counts"], "skipped": 0}}, every=every)


FAULTS = {
    "worktree list swaps ahead and behind": (
        *(status, "_tree_facts", _facts_of(status._tree_facts, ahead=4, behind=3)),
        *(hold_trees, TREES),
    ),
    "worktree list counts changed files from zero": (status, "many", _less, hold_trees, TREES),
    "worktree list calls every tree clean": (
        *(status, "_tree_facts", _facts_of(status._tree_facts, clean=True)),
        *(hold_trees, TREES),
    ),
    "worktree list counts leases in hours": (
        *(status, "duration", lambda seconds: f"{seconds // 3600:.0f}h"),
        *(hold_trees, TREES),
    ),
    "dash list counts rounds from zero": (dash, "many", _less, hold_dashes, DASHES),
    "dash list swaps ahead and behind": (
        *(dash, "_facts", _facts_of(dash._facts, ahead=4, behind=3)),
        *(hold_dashes, DASHES),
    ),
    "dash list forgets changed files": (
        *(dash, "_facts", _facts_of(dash._facts, changed_files=0)),
        *(hold_dashes, DASHES),
    ),
    "doctor counts checks instead of findings": (
        *(repo, "_found", lambda data: iter(["1 warning"])),
        *(hold_doctor, DIAGNOSIS),
    ),
    "doctor counts a check that was skipped as made": (
        *(repo, "_verdict", _made_all),
        *(hold_doctor, DIAGNOSIS),
    ),
    "doctor shows a finding less": (
        *(repo, "_finding", lambda canvas, name, finding, *_, **__: None),
        *(hold_doctor, DIAGNOSIS),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_number_that_is_wrong_is_noticed(monkeypatch, fault):
    home, name, wrong, hold, data = FAULTS[fault]
    monkeypatch.setattr(home, name, wrong)
    with pytest.raises(AssertionError):
        hold(data)


# -- random repositories ---------------------------------------------------------------


class Rambler:
    """Does things in a repository by chance, and sees what the three lists say of them."""

    def __init__(self, field: Field, dice: random.Random) -> None:
        self.field, self.dice = field, dice

    def act(self) -> None:
        getattr(self, self.dice.choice([name for name in dir(self) if name.startswith("do_")]))()

    def _places(self, prefix: str) -> list[Path]:
        home = self.field.root / ".tugtree"
        return sorted(home.glob(f"{prefix}__*")) if home.exists() else []

    def do_make_a_worktree(self) -> None:
        if len(self._places("tugplan")) < 3:
            self.field.create("--new")

    def do_claim(self) -> None:
        for place in self._places("tugplan")[: self.dice.randrange(2)]:
            lease = self.dice.choice(("0.001", "500", "7200"))
            self.field.run("state", "claim", "work", "--lease-duration", lease, at=place)

    def do_write(self) -> None:
        for place in (*self._places("tugplan"), *self._places("tugdash")):
            for number in range(self.dice.randrange(3)):
                (place / f"new-{number}.txt").write_text(str(self.dice.random()))

    def do_commit(self) -> None:
        for place in self._places("tugplan"):
            if self.dice.random() < 0.5:
                self.field.commit(place, {"done.txt": str(self.dice.random())})

    def do_move_main(self) -> None:
        self.field.commit(self.field.root, {"main.txt": str(self.dice.random())})

    def do_begin_a_dash(self) -> None:
        self.field.run("dash", "create", self.dice.choice(("fix", "try", "odd")))

    def do_end_a_round(self) -> None:
        for place in self._places("tugdash")[: self.dice.randrange(2)]:
            name = place.name.removeprefix("tugdash__")
            (place / "round.txt").write_text(str(self.dice.random()))
            self.field.run("dash", "commit", name, "--message", "a round")

    def do_join_a_dash(self) -> None:
        self.field.run("dash", "join", self.dice.choice(("fix", "try")), "--message", "joined")

    def do_leave_a_branch(self) -> None:
        """Make a branch that no worktree has: a finding for doctor."""
        for place in self._places("tugplan")[: self.dice.randrange(2)]:
            self.field.repo.git("branch", "--force", f"tugplan/lost-{place.name}")

    def look(self) -> None:
        field = self.field
        trees = field.ok("worktree", "list")
        for tree in trees["worktrees"]:
            self._is_what_git_counts(tree, Path(tree["worktree_path"]))
        now = clock.text(clock.system_milliseconds())
        some = field.ok("dash", "list", "--all")
        for each in some["dashes"]:
            if each["status"] == "active":
                self._is_what_git_counts(each, Path(each["worktree_path"]))
        told = field.run("doctor").data
        for width in EVERY_WIDTH:
            count_pages.worktrees(trees, now, width)
            count_pages.dashes(some, width)
            count_pages.doctor(told, width)

    def _is_what_git_counts(self, row: dict, place: Path) -> None:
        between = ("rev-list", "--left-right", "--count", f"{row['branch_name']}...main")
        counted = tuple(map(int, self.field.repo.git(*between).split()))
        assert (row["ahead"], row["behind"]) == counted
        changed = git("status", "--porcelain", "--untracked-files=all", cwd=place).splitlines()
        assert row["changed_files"] == len(changed)


@pytest.mark.proof
def test_lists_of_random_repositories_have_the_numbers_that_git_counts(
    tmp_path, tugcode, monkeypatch, spell
):
    from support.worktree import IDENTITY

    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    for seed in spell.seeds(least=2):
        field = Field(Repo.init(tmp_path / str(seed)), tugcode, "1 t", "2 t", "3 t < 1", "4 t")
        rambler = Rambler(field, random.Random(seed))
        for _ in range(4):
            for _ in range(5):
                rambler.act()
            rambler.look()
