"""Kernels with an older Landlock, or with none: confinement is refused, never left out.

The answers of such a kernel are planted where the system call is made: its version, and errors
for rights that this version does not know.
"""

import errno
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from notified import Call, answer, memory, supervise

from support.worktree import Yard

pytestmark = pytest.mark.proof(share=0)

TUGCODE = (sys.executable, "-P", "-m", "tugtool")
#: How many rights to files each version knows, and how long its description of them is.
RIGHTS = {1: (13, 8), 2: (14, 8), 3: (15, 8), 4: (15, 16), 5: (16, 16), 6: (16, 24), 7: (16, 24)}
CONFIG = """\
[agents.default]
command = ["sh", "-c", "touch {outside}/agent"]
confine = "worktree"
{more}
[merge]
check = ["touch checked"]
"""
PLAN = """\
## Work {#work}
#### Step 1: One {#step-1}
**Tasks:**
- [ ] do it
**Checkpoint:**
- [ ] `sh check.sh`
"""
#: What the checkpoint tries; each way that works leaves a word in `said`.
WAYS = """\
touch ran
touch "{outside}/new" && echo new >>said
python3 -c "import os; os.truncate('{outside}/victim', 0)" && echo truncate >>said
kill -0 {pid} && echo signal >>said
python3 -c "import socket; socket.socket()" && echo socket >>said
python3 -c "import socket as s; s.socket(s.AF_UNIX).connect('\\\\0{name}')" && echo abstract >>said
true
"""

Decide = Callable[[int, Call], None]


def kernel(version: int, missing: int = errno.ENOSYS) -> Decide:
    """Answer as a kernel of this version; 0 has no Landlock, and says so by `missing`."""

    def decide(listener: int, call: Call) -> None:
        place, size, flags = call.words[:3]
        if not version:
            answer(listener, call, missing)
        elif flags:
            answer(listener, call, value=version)
        else:
            given = memory(call.pid, place, size)
            known, length = RIGHTS[version]
            strange = int.from_bytes(given[:8], sys.byteorder) >> known
            wrong = errno.E2BIG if any(given[length:]) else errno.EINVAL if strange else 0
            answer(listener, call, wrong)

    return decide


def without_rules(listener: int, call: Call) -> None:
    """Answer as a kernel whose Landlock is there, and which lets nobody use it."""
    answer(listener, call, 0 if call.words[2] else errno.EPERM)


class Ground:
    """A worktree with a step whose checkpoint tries to get out."""

    def __init__(self, yard: Callable[..., Yard], place: Path) -> None:
        self.y, self.outside, self.place = yard("1 t"), place / "outside", place
        self.outside.mkdir()
        self.y.repo.commit({".tugtool/tugplan-work.md": PLAN})
        self.tree = self.y.create("--new")
        self.y.ok("state", "claim", "work", at=self.tree)
        self.settle()

    def settle(self, more: str = "") -> None:
        text = CONFIG.format(outside=self.outside, more=more)
        (self.y.root / ".tugtool" / "config.toml").write_text(text)

    def run(self, decide: Decide, line: str, *before: str, at: Path | None = None) -> list[dict]:
        """Run a command on such a kernel; return what it complains of."""
        out = self.place / "out"
        argv = (*before, *TUGCODE, *line.split(), "--json")
        supervise(argv, ["landlock_create_ruleset"], decide, cwd=at or self.tree, out=out)
        answer = json.loads(out.read_text().splitlines()[-1])
        checks = (answer["data"] or {}).get("checks", [])
        return [*answer["issues"], *(found for each in checks for found in each["findings"])]

    def nothing_ran(self) -> bool:
        checked = [self.tree / "checked", self.y.root / "checked", self.tree / "ran"]
        return not any(map(os.path.exists, checked)) and not os.listdir(self.outside)

    def tried(self, decide: Decide) -> set[str]:
        """The ways out that work for the checkpoint on such a kernel."""
        (self.outside / "victim").write_text("keep\n")
        name = f"tugtool-{self.place.name}-{os.getpid()}"
        with (
            subprocess.Popen(["sleep", "600"]) as victim,
            socket.socket(socket.AF_UNIX) as listening,
        ):
            listening.bind(f"\0{name}")
            listening.listen()
            text = WAYS.format(outside=self.outside, pid=victim.pid, name=name)
            (self.tree / "check.sh").write_text(text)
            assert self.run(decide, "state verify work step-1 --yes") == []
            victim.kill()
        assert (self.tree / "ran").exists()
        said = self.tree / "said"
        return set(said.read_text().split()) if said.exists() else set()


@pytest.fixture
def ground(yard, tmp_path):
    return Ground(yard, tmp_path)


#: Kernels that cannot confine, and the reason that is given.
UNFIT = {
    "none": (kernel(0), "this kernel has none"),
    "switched off": (kernel(0, errno.EOPNOTSUPP), "this kernel has none"),
    "the first": (kernel(1), "this kernel has version 1"),
    "forbidden": (without_rules, "operation not permitted"),
}


@pytest.mark.parametrize("which", UNFIT)
def test_without_the_means_everything_that_would_be_confined_is_refused(ground, which):
    decide, reason = UNFIT[which]
    (ground.tree / "check.sh").write_text("touch ran\n")
    for line in ("state verify work step-1 --yes", "done --all"):
        (issue, *_) = [each for each in ground.run(decide, line) if each["code"] == "E111"]
        assert reason in issue["message"], line
        assert "it was not started" in issue["message"]
        assert issue["hint"] == "tugcode doctor"
        assert ground.nothing_ran(), line
    ground.y.ok("state", "release", "work", "step-1", at=ground.tree)
    ground.run(decide, "implement work", at=ground.y.root)
    # Found beforehand, or by the first agent: then the step waits for a person.
    assert f"{reason}; it was not started" in (ground.place / "out").read_text()
    assert ground.nothing_ran()
    found = [each for each in ground.run(decide, "doctor") if each["severity"] == "error"]
    assert [reason in each["message"] for each in found] == [True]


def test_so_is_the_check_of_a_merge(ground):
    ground.y.ok("state", "release", "work", "step-1", at=ground.tree)
    ground.y.do(ground.tree, "step-1", {"code.txt": "x\n"})
    found = ground.run(kernel(0), "merge work --unproven", at=ground.y.root)
    assert [each["code"] for each in found if each["severity"] == "error"] == ["E111"]
    assert ground.nothing_ran()


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6, 7])
def test_an_older_landlock_confines_and_doctor_says_what_it_does_not_stop(ground, version):
    unstopped = {"signal", "abstract"} if version < 6 else set()
    assert ground.tried(kernel(version)) == {"socket", *unstopped}
    messages = [each["message"] for each in ground.run(kernel(version), "doctor")]
    told = {word for word in ("signal", "abstract") if any(word in said for said in messages)}
    assert told == unstopped


@pytest.mark.parametrize("version", [2, 4])
def test_the_network_is_taken_away_with_an_older_landlock_too(ground, version):
    ground.settle("network = false")
    assert ground.tried(kernel(version)) == {"signal", "abstract"}


def test_on_another_machine_what_no_filter_can_do_is_refused(ground):
    """A program under `setarch i686` is told that the machine is another one."""
    other = ("setarch", "i686")
    (ground.tree / "check.sh").write_text("touch ran\n")
    line = "state verify work step-1 --yes"
    (issue,) = ground.run(kernel(2), line, *other)
    assert "on i686 it needs Landlock, version 3" in issue["message"]
    ground.settle("network = false")
    (issue,) = ground.run(kernel(7), line, *other)
    assert (issue["code"], issue["message"].split(": ")[1]) == (
        "E111",
        "the network cannot be refused on i686; it was not started",
    )
    assert ground.nothing_ran()
    ground.settle()
    assert ground.run(kernel(7), line, *other) == []
    assert any("type into" in each["message"] for each in ground.run(kernel(7), "doctor", *other))


def test_the_harness_sees_a_command_that_is_not_confined(ground):
    ground.settle('[agents.coder]\nconfine = "none"\ncommand = ["true"]')
    assert ground.tried(kernel(0)) == {"new", "truncate", "signal", "socket", "abstract"}
