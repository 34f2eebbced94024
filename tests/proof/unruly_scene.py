"""A small repository with a plan, and a story: what its coder and its reviewer will do.

A story is data, so a failure can be told, played again and made smaller.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from unruly_git import DEEDS

import tugtool
from conftest import DATES, Repo
from support.implement import IDENTITY, unprivileged
from support.state import markdown
from tugtool.git import discover
from tugtool.workflow import plans

AGENT, PRODUCT = (
    str(Path(__file__).with_name(f"unruly_{name}.py")) for name in ("agent", "repairs")
)
PLANS = (("1 t", "2 t < 1"), ("1 tc", "2 t"), ("1 t", "2 t < 1", "3 t < 2"))
#: Far more than a plan takes on a busy machine.
MOST_SECONDS = 120
#: Deeds that others see at once: two workers would take each other's for their own agent's.
SHARED = frozenset(
    (
        *("ignore_shared", "bare", "elsewhere", "hooks_path", "hook", "replace_object", "sparse"),
        *("stash", "stash_pop", "stash_conflict"),
        *(name for name in DEEDS if name.startswith("main_")),
    )
)
#: A person's change that is committed nowhere.
DRAFT = "draft.txt"

NAMES = tuple(DEEDS)
Story = dict[str, list[list[object]]]


class Told(NamedTuple):
    """How a run ended, and all that it told."""

    status: int
    events: list[dict]
    issues: list[dict]
    err: str


def random_story(seed: int, names: Sequence[str] = NAMES) -> tuple[tuple[str, ...], Story]:
    """A plan, and for each step what its coder does, and perhaps its reviewer."""
    chance = random.Random(seed)
    lines = chance.choice(PLANS)
    story: Story = {}
    for number in range(1, len(lines) + 1):
        few = chance.randint(0, 3), chance.choices((0, 1, 2), (3, 4, 2))[0]
        coder, reviewer = (chance.choices(names, k=each) for each in few)
        coder.insert(chance.randint(0, len(coder)), "write")
        story[f"coder step-{number}"] = _seeded(chance, coder)
        story[f"reviewer step-{number}"] = _seeded(chance, reviewer)
    return lines, story


def _seeded(chance: random.Random, names: list[str]) -> list[list[object]]:
    return [[name, chance.randrange(10**6)] for name in names]


def fixed_story(*, coder: tuple[str, ...] = (), reviewer: tuple[str, ...] = ()) -> Story:
    """What is done at the first step; the second goes well."""
    return {
        "coder step-1": [[name, 1] for name in coder],
        "reviewer step-1": [[name, 1] for name in reviewer],
    }


class Scene:
    """One plan and one story, at a place of their own."""

    def __init__(self, place: Path, lines: tuple[str, ...], story: Story, seed: int = 0) -> None:
        self.place, self.root, self.lines = place, place / "repo", lines
        done = {name for deeds in story.values() for name, _ in deeds}
        self.workers = "1" if done & SHARED else "2"
        _make(self.root, lines)
        path = place / "story.json"
        path.write_text(json.dumps({"root": str(self.root), "seed": seed, "deeds": story}))
        command = json.dumps([sys.executable, AGENT, str(path)])
        roles = [f"[agents.{role}]\ncommand = {command}\n" for role in ("coder", "reviewer")]
        # Whoever waits for a worker that is gone should not wait for long; no agent needs rest.
        settings = ["[implement]\nlease_seconds = 30\nretry_seconds = [0]\n", *roles]
        (self.root / ".tugtool" / "config.toml").write_text("".join(settings))

    def run(self, without: str = "") -> Told:
        """Carry the plan out, with the repair of that letter taken out."""
        words = [sys.executable, PRODUCT, without, "-C", str(self.root)]
        path = str(Path(tugtool.__file__).parent.parent)
        process = subprocess.Popen(
            [*words, "implement", "work", "--workers", self.workers, "--json"],
            env={**os.environ, **IDENTITY, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=unprivileged,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            err += "it was stopped: it hangs"
        envelopes = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        issues = [issue for each in envelopes for issue in each["issues"]]
        return Told(process.returncode, [each["data"] for each in envelopes], issues, err)

    def calls(self) -> list[dict]:
        """What each call of an agent did, in order."""
        found = sorted((self.place / "calls").glob("*.json"))
        return [json.loads(path.read_text()) for path in found]

    def remove(self) -> None:
        """Nothing stays, also where agents have changed modes."""
        for directory, names, _ in os.walk(self.place):
            for name in names:
                path = Path(directory) / name
                if not path.is_symlink():
                    path.chmod(0o700)
        shutil.rmtree(self.place)


def _make(root: Path, lines: tuple[str, ...]) -> None:
    """Main, and two branches beside it: `side` adds a file, `clash` changes the same line."""
    repo = Repo.init(root)
    plans.init_repository(discover(str(root)))
    code = "".join(f"line {number}\n" for number in range(9))
    repo.commit({"code.txt": code, "src/lib.txt": "lib\n", "src/run.sh": "run\n", DRAFT: "old\n"})
    # One process instead of many: a plan should take seconds.
    stream = "".join(_branch(*each) for each in (("side", "side.txt"), ("clash", "code.txt")))
    subprocess.run(
        ["git", "fast-import", "--quiet"],
        cwd=root,
        input=stream,
        env={**os.environ, **DATES},
        text=True,
        check=True,
    )
    repo.plan("work", markdown(*lines))
    repo.commit({"code.txt": code.replace("line 0", "main 0")})
    (root / DRAFT).write_text("a person's work\n")


def _branch(name: str, file: str) -> str:
    text = f"{name} 0\n"
    return (
        f"commit refs/heads/{name}\ncommitter Tug <tug@example.invalid> 1767225600 +0000\n"
        f"data {len(name)}\n{name}\nfrom refs/heads/main^0\nM 100644 inline {file}\n"
        f"data {len(text)}\n{text}\n"
    )


@contextlib.contextmanager
def staged(place: Path, lines: tuple[str, ...], story: Story, seed: int = 0) -> Iterator[Scene]:
    """A scene that is gone afterwards."""
    scene = Scene(place, lines, story, seed)
    try:
        yield scene
    finally:
        scene.remove()


def smaller(story: Story, fails: Callable[[Story], bool]) -> Story:
    """The story without every deed that it does not need to fail."""
    for who, deeds in story.items():
        for deed in list(deeds):
            less = {**story, who: [each for each in story[who] if each is not deed]}
            if fails(less):
                story = less
    return {who: deeds for who, deeds in story.items() if deeds}


def short(story: Story) -> str:
    """A story for people: who does what."""
    told = [f"{who}: {', '.join(str(name) for name, _ in deeds)}" for who, deeds in story.items()]
    return "; ".join(each for each in told if not each.endswith(": "))
