"""Repositories for the page: plans of a given length in which every standing occurs."""

import importlib.util
import subprocess
from pathlib import Path

from tugtool import state
from tugtool.state.claims import Request

ROOT = Path(__file__).parents[2]
SIZES = (0, 7, 25, 60, 300)
TITLES = (
    "Read the tokens of a line as a stream, and never twice",
    "Expressions",
    "Blocks have a scope, and names in them end with it",
    "Say what was expected, where, and what came instead of it, in one sentence that fits",
    "Types",
)


def _night():
    """The module of the script that makes a night."""
    spec = importlib.util.spec_from_file_location("night", ROOT / "scripts" / "night.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make(root: Path, size: int) -> Path:
    """A repository with a plan of so many steps, some of them done; 0: no plan at all."""
    if not size:
        root.mkdir(parents=True)
        subprocess.run(["git", "init", "--quiet", "--initial-branch=main", root], check=True)
        return root
    night = _night()
    needs = ["", *(str(max(1, n - 1 - n % 3)) for n in range(2, size + 1))]
    steps = [
        (TITLES[n % len(TITLES)], needs[n], [f"Task {n}", "Another one"], 2 - n % 2)
        for n in range(size)
    ]
    night.PLANS = {"long": (f"A plan of {size} steps", steps)}
    made = night.Night(root)
    made.play(_history(made, size))
    made.store.close()
    return root


def _history(night, size: int):
    """Three in five steps completed; then one that is parked, stale, deferred and at work."""
    quick = size * 3 // 5
    #: An odd one, because only these have something to defer, on which nothing was built.
    last = quick - 1 + quick % 2
    for step in range(1, quick + 1):
        if step in (2, 3, last):
            yield from night.done("long", step, "worker-1", 9, *(["needs eyes"] * (step % 2)))
        else:
            yield from _plainly(night, step)
    held = [step for step in range(quick + 1, size + 1) if _is_ready(night, step)]
    if held:
        yield from night.failed("long", held[0], "worker-2", 5, "coder failed twice")
    held = [step for step in range(quick + 1, size + 1) if _is_ready(night, step)]
    for number, step in enumerate(held[:2], 3):
        attempt = night.claim("long", step, f"worker-{number}", lease_seconds=600)
        night.role("long", step, f"worker-{number}", "coder", attempt)
        if number == 3:
            yield 15


def _is_ready(night, step: int) -> bool:
    found = state.show(night.store, night.key("long"))["steps"][step - 1]
    return found["standing"] == "ready"


def _plainly(night, step: int):
    """Completed without a commit: git would take most of the time of a long plan."""
    owner = str(night.root / ".tugtree" / "worker-1")
    plan, anchor = night.key("long"), f"step-{step}"
    copy = night.copy("long")
    state.claim(night.store, plan, Request(owner, also=True), copy=copy, step=anchor)
    yield 2
    own = {"owner": owner, "copy": copy}
    state.update(night.store, plan, anchor, [], complete_remaining=True, **own)
    state.complete(night.store, plan, anchor, **own)
