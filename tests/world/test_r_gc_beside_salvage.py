"""R: `git gc --prune=now` beside a salvage: what is answered as saved is whole."""

import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Repo
from support.proving import sampled
from support.racing import until
from support.worktree import Yard, answered, fsck, process


def _object(yard: Yard, name: str) -> Path:
    """The file of a loose object."""
    hash_ = yard.repo.git("rev-parse", name).strip()
    return yard.root / ".git" / "objects" / hash_[:2] / hash_[2:]


def _salvages(yard: Yard) -> list[str]:
    return [ref for ref in yard.refs() if ref.startswith("refs/tug/salvage/")]


def _saved(yard: Yard, text: str) -> str:
    """Work that was saved by a reset; its ref."""
    tree = yard.create("--new", "--claim", "--step", "step-1")
    Repo(tree).write({"new": text})
    ref = yard.ok("state", "reset", "work", "step-1")["salvage_ref"]
    (tree / "new").unlink()
    yard.ok("worktree", "remove", tree.name)
    assert ref is not None
    return ref


@pytest.fixture
def gc(yard):
    """A process that git takes for a `git gc` at work, until it is told to end."""
    made = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True)
    yield made
    made.communicate()


def test_what_a_gc_took_while_it_was_saved_is_saved_again(yard, gc):
    place = yard()
    tree = place.create("--claim", "--step", "step-1")
    Repo(tree).write({"new": "hours of work\n"})
    host = subprocess.run(["uname", "-n"], capture_output=True, text=True).stdout.strip()
    (place.root / ".git" / "gc.pid").write_text(f"{gc.pid} {host}")
    reset = process(place.root, "state", "reset", "work", "step-1")
    until(lambda: len(_salvages(place)) == 1)
    # What a gc does that had looked for refs before this one was there.
    _object(place, f"{_salvages(place)[0]}:new").unlink()
    gc.communicate("\n")
    ref = answered(reset)["salvage_ref"]
    assert place.repo.git("show", f"{ref}:new") == "hours of work\n"
    fsck(place.root)


@pytest.mark.parametrize("lost", ["^{commit}", ":new"])
def test_one_broken_ref_does_not_hide_the_others(yard, lost):
    place = yard()
    broken, sound = _saved(place, "one\n"), _saved(place, "two\n")
    _object(place, f"{broken}{lost}").unlink()
    listed = place.run("worktree", "salvage", "list")
    assert listed.status == 0, listed.out
    assert sound in [each["salvage_ref"] for each in listed.data["salvages"]]
    pruned = place.run("worktree", "salvage", "prune")
    assert pruned.status == 0, pruned.out
    assert sound in [each["salvage_ref"] for each in pruned.data["kept"]]
    assert place.repo.git("show", f"{sound}:new") == "two\n"
    if lost == "^{commit}":
        assert listed.codes == pruned.codes == ["W114"]
        (issue,) = listed.envelope()["issues"]
        assert broken in issue["message"]
        assert issue["hint"] == f"git update-ref -d {broken}"


@pytest.mark.parametrize("lost", sampled(["^{commit}", "^{tree}", ":new"], 1))
def test_doctor_finds_a_broken_ref_and_names_it(clinic, lost):
    place = clinic()
    broken, sound = _saved(place, "one\n"), _saved(place, "two\n")
    _object(place, f"{broken}{lost}").unlink()
    finding = place.one("salvages")
    assert broken in finding["message"]
    assert sound not in finding["message"]
    place.repo.git("update-ref", "-d", broken)
    assert place.findings() == {}


def test_a_broken_ref_is_replaced_when_the_work_is_saved_again(yard):
    """Its name is taken, and yet the work has to be saved under it."""
    from tugtool.workflow import salvage

    place = yard()
    ref = _saved(place, "one\n")
    _object(place, f"{ref}^{{commit}}").unlink()
    salvage.keep(str(place.root), ref=ref, commit=place.start)
    assert place.refs()[ref] == place.start
