"""Paths that lead elsewhere, never end or are no files: for every word of a line that is a path.

The table of commands says which words those are, so a new one is tried without being named here.
"""

import os
import random
import signal
import threading

import pytest
import wordings

from conftest import Repo
from support.state import Desk, markdown
from support.worktree import IDENTITY
from tugtool.cli import parse

#: All but what is random here has an end of its own.
pytestmark = pytest.mark.proof(share=0)

SECRET = "swordfish"
KINDS = ("plan", "file", "directory")
#: Waits, or starts programs; what it does with a plan's name is what others do.
LEFT_OUT = ("implement", "state exec", "plugin install", "hook pre-tool-use")
#: What commands need besides, so that the path is looked at.
NEEDED = {
    "step": "step-1",
    "kind": "note",
    "summary": "x",
    "message": "x",
    "reason": "x",
    "plan": "work",
    "all": "completed",
    "name": "red",
    "ref": "work",
    "file": "none",
    "output": "none",
    "role": "viewer",
}
ALWAYS = {
    "state artifact": ("kind", "summary"),
    "state reopen": ("reason",),
    "state update": ("all",),
    "commit": ("plan", "step", "message"),
    "serve token add": ("role",),
}


#: In how many places each attack is tried by default.
SOME = 5
#: Codes of what may be said before a plan is looked at: it has no state, this is no place for it.
BEFORE = {"E063", "E035"}


class Stuck(BaseException):
    """A command that waits for a path to say something."""


def _outside(home):
    return home.parent / "outside"


def _link(target: str):
    def make(root, name: str) -> str:
        path = root / ".tugtool" / f"tugplan-{name}.md"
        path.unlink(missing_ok=True)
        path.symlink_to(target.format(outside=_outside(root), root=root))
        return str(path)

    return make


def _named(name: str):
    def make(root, _: str) -> str:
        return name.format(outside=_outside(root), root=root)

    return make


def _fifo(root, name: str) -> str:
    path = root / f"{name}.md"
    if not path.exists():
        os.mkfifo(path)
    return str(path)


def _raw(root, name: str) -> str:
    path = os.fsencode(root) + b"/.tugtool/tugplan-caf\xe9.md"
    with open(path, "w") as file:
        file.write(markdown("1 t"))
    return os.fsdecode(path)


#: Attack -> how to make it, and the codes with which a plan of that name is refused.
ATTACKS = {
    "up and out": (_named("../outside/secret.md"), {"E073"}),
    "absolute and out": (_named("{outside}/secret.md"), {"E073"}),
    "in and out again": (_named(".tugtool/../../outside/secret.md"), {"E073"}),
    "a link out": (_link("{outside}/secret.md"), {"E073"}),
    "a link to a link out": (_link("{outside}/link.md"), {"E073"}),
    "a link to itself": (_link("{root}/.tugtool/tugplan-loop.md"), {"E041", "E072", "E073"}),
    "a link to nothing": (_link("{root}/nothing.md"), {"E041", "E072"}),
    "a FIFO": (_fifo, {"E072"}),
    "a link to a device": (_link("/dev/zero"), {"E072", "E073"}),
    "a device": (_named("/dev/zero"), {"E072", "E073"}),
    "the process's own memory": (_named("/proc/self/mem"), {"E072", "E073"}),
    "a directory": (_named("{root}/.tugtool"), {"E041", "E072"}),
    "a name of 4096 bytes": (_named("x" * 4096), {"E041", "E072"}),
    "a path of 40 kB": (_named("x/" * 20_000), {"E041", "E072"}),
    "a name with lines": (_named("a\nb\x1b[2J"), {"E041"}),
    "a name that is an option": (_named("--upload-pack=x"), {"E070"}),
    "a home": (_named("~root/secret.md"), {"E041"}),
    "the other case": (_named(".TUGTOOL/TUGPLAN-WORK.MD"), {"E041"}),
    "git's own": (_named(".git/config"), {"E013", "E041", "E043", "E063", "E073"}),
}


def places() -> list[tuple[str, str, str]]:
    """Command, word and kind of everything that is a path, as the table has it."""
    found = []
    for command in map(parse.find, parse.FAMILIES):
        if command.path in LEFT_OUT:
            continue
        words = [(each.name, each.kind) for each in command.arguments]
        words += [(each.name, each.kind) for each in command.options]
        found += [(command.path, name, kind) for name, kind in words if kind in KINDS]
    return found


def line(path: str, name: str, value: str) -> list[str]:
    """The command with the value there, and with what else it needs."""
    command = parse.find(path)
    words = path.split()
    for each in command.arguments:
        if each.name == name:
            words.append(value)
        elif not each.optional or each.kind in ("plan", "step"):
            words.append(NEEDED.get(each.name, "x"))
    for key in ALWAYS.get(path, ()):
        if f"--{key}" != name:
            words += [f"--{key}", NEEDED[key]]
    return [*words, name, value] if name.startswith("--") else words


class Yard:
    """A repository with a plan in hand, and a secret beside it."""

    def __init__(self, home, capsys, monkeypatch, tugcode) -> None:
        for name, value in IDENTITY.items():
            monkeypatch.setenv(name, value)
        self.root, self.capsys, self.monkeypatch = home / "repo", capsys, monkeypatch
        outside = home / "outside"
        outside.mkdir(parents=True)
        (outside / "secret.md").write_text(f"# {SECRET}\n\n### Step 1: {SECRET}\n\n- [ ] x\n")
        (outside / "link.md").symlink_to(outside / "secret.md")
        desk = Desk(Repo.init(self.root), tugcode, monkeypatch, "1 tt", "2 t")
        desk.ok("init", "work")
        desk.ok("claim", "work", "--lease-duration", 10**8)
        self.outside = self.beside()
        self.inside = set(self.root.rglob("*"))

    def tidy(self) -> None:
        """Take away what a command wrote: to the next one the path is what it is called here."""
        for path in set(self.root.rglob("*")) - self.inside:
            is_ours = {".git", ".tugtree"} & set(path.parts) or path.name.startswith("state.")
            if not is_ours and (path.is_symlink() or not path.is_dir()):
                path.unlink()

    def beside(self) -> list:
        top = self.root.parent
        kept = [path for path in top.rglob("*") if self.root not in (path, *path.parents)]
        return sorted((str(path), path.is_file() and path.read_text()) for path in kept)

    def type(self, words: list[str]):
        signal.signal(signal.SIGALRM, _stuck)
        signal.alarm(60)
        try:
            return wordings.run(["-C", str(self.root), *words], self.capsys, self.monkeypatch)
        finally:
            signal.alarm(0)


def _stuck(*_: object) -> None:
    raise Stuck


@pytest.fixture
def yard(tmp_path, capsys, monkeypatch, tugcode):
    return Yard(tmp_path, capsys, monkeypatch, tugcode)


#: What was saved stays when its plan has gone: a name that no plan has any more is no mistake.
#: `mcp` and tokens keep the name for later; without a remote there is nothing to publish.
LOOKS_BACK = ("worktree salvage list", "worktree publish", "mcp", "serve token add")


def try_all(yard: Yard, attack: str, chosen: list[tuple[str, str, str]]) -> None:
    """The attack in every one of these places."""
    make, codes = ATTACKS[attack]
    for command, name, kind in chosen:
        yard.tidy()
        words = line(command, name, make(yard.root, "evil"))
        done = yard.type([*words, "--json"])
        told = (attack, words[:8], done.status, done.out[:600], done.err[-2000:])
        assert done.status in (0, 1, 2, 4), told
        assert "Traceback" not in done.err, told
        assert SECRET not in done.out + done.err, told
        assert yard.beside() == yard.outside, told
        if kind == "plan" and command not in LOOKS_BACK:
            assert done.status in (1, 2), told
            # What stands behind an option is its value, whatever it looks like.
            # And a plan may have been moved from any name to one that is there.
            value = {"E041"} if name.startswith("--") or command == "state move" else set()
            assert set(done.codes) <= codes | value | BEFORE, told


@pytest.mark.proof(share=1)
def test_a_path_is_refused_or_harmless_wherever_one_may_stand(yard, spell):
    """Every attack in some places, and in all of them where there is time."""
    dice = random.Random(spell.seed)
    left = {attack: dice.sample(places(), len(places())) for attack in ATTACKS}
    whole, tried = sum(map(len, left.values())), 0
    for attack, where in left.items():
        # In any order: nothing may depend on what another command has done before.
        try_all(yard, attack, where[:SOME])
        tried, left[attack] = tried + SOME, where[SOME:]
    rest = [(attack, place) for attack, where in left.items() for place in where]
    dice.shuffle(rest)
    while rest and spell.goes_on():
        attack, place = rest.pop()
        try_all(yard, attack, [place])
        tried += 1
    told = f"{len(ATTACKS)} attacks at {len(places())} places for a path"
    spell.tell(f"{tried} of {whole} tried: {told}")


def test_the_table_of_commands_has_places_for_paths():
    commands = {command for command, _, _ in places()}
    assert {"plan show", "state import", "commit", "state artifact"} <= commands
    assert len(places()) > 50


def test_a_plan_whose_name_is_no_text_is_shown_and_not_recorded(yard):
    name = _raw(yard.root, "")
    assert yard.type(["plan", "show", name, "--json"]).status == 0
    for command in ("state init", "state show", "state claim", "worktree create", "merge"):
        done = yard.type([*command.split(), name, "--json"])
        assert (done.status, set(done.codes) <= {"E072", "E063", "E045"}) == (1, True), done.out


def test_a_link_inside_means_what_it_leads_to(yard):
    (yard.root / "here.md").symlink_to(yard.root / ".tugtool" / "tugplan-work.md")
    assert yard.type(["state", "show", "here.md", "--json"]).data["plan_path"].endswith("-work.md")


def test_twins_that_differ_by_case_are_two_plans(yard):
    twin = yard.root / ".tugtool" / "tugplan-WORK.md"
    twin.write_text(markdown("1 t", "2 t", "3 t"))
    if twin.samefile(yard.root / ".tugtool" / "tugplan-work.md"):
        return  # One file, on a file system that does not tell them apart.
    assert yard.type(["state", "init", "WORK", "--json"]).data["steps_created"] == 3
    assert len(yard.type(["state", "show", "work", "--json"]).data["steps"]) == 2


def test_a_link_that_is_turned_around_meanwhile_never_leads_out(yard):
    """Between the look at where it leads and the reading of it."""
    swapped = yard.root / ".tugtool" / "tugplan-swap.md"
    goals = [yard.root / ".tugtool" / "tugplan-work.md", yard.root.parent / "outside" / "secret.md"]
    ended = threading.Event()

    def swap() -> None:
        while not ended.is_set():
            for goal in goals:
                (yard.root / "next").symlink_to(goal)
                os.replace(yard.root / "next", swapped)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        answers = [yard.type(["plan", "show", str(swapped), "--json"]) for _ in range(60)]
    finally:
        ended.set()
        thread.join()
    assert not [done.out for done in answers if SECRET in done.out + done.err]
    assert {done.status for done in answers} <= {0, 1}


def test_a_place_that_looks_nowhere_is_noticed(yard, monkeypatch):
    from tugtool.plan import catalog

    monkeypatch.setattr(catalog.errors, "OutsideRepository", catalog.errors.PlanNotFound)
    with pytest.raises((AssertionError, TypeError)):
        try_all(yard, "a link out", [("plan show", "plan", "plan")])
