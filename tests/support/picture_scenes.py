"""Plans in every state that people meet, for the pictures; made by the real operations."""

from collections.abc import Callable
from pathlib import Path

from support.state import KEY, Lab, entry
from tugtool.cli import state_show
from tugtool.state import attempts
from tugtool.system import clock
from tugtool.workflow.overview import Snapshot

#: Where the scenes' worktrees would lie.
ROOT = "/home/ann/bookshelf"
RED, BLUE = f"{ROOT}/.tugtree/tugplan__cache-1", f"{ROOT}/.tugtree/tugplan__cache-2"
COMMIT = "abc123d" + "0" * 33

CACHE = """\
## Phase 1.0: A cache for the API client {#phase-1}

#### Step 0: Create API client {#step-0}

**Tasks:**
- [ ] Write the client
- [ ] Write its errors

**Tests:**
- [ ] Unit test: a request is sent

**Checkpoint:**
- [ ] `make test` passes
- [ ] `make check` passes

#### Step 1: Add caching layer {#step-1}

**Depends on:** #step-0

**Tasks:**
- [ ] Implement cache store
- [ ] Add cache invalidation
- [ ] Wire up to API client

**Tests:**
- [ ] Integration test: a second request is answered from the cache

**Checkpoint:**
- [ ] `make test` passes
- [ ] Look at the log: one request, not two

##### Step 1.1: Cache store implementation {#step-1-1}

**Tasks:**
- [ ] Keep entries in memory
- [ ] Drop the oldest beyond the limit

**Tests:**
- [ ] Unit test: the oldest goes first

##### Step 1.2: Cache invalidation {#step-1-2}

**Depends on:** #step-1-1

**Tasks:**
- [ ] Forget an entry on write
- [ ] Forget everything on a new version

**Tests:**
- [ ] Unit test: a write is seen at once

#### Step 2: Add monitoring {#step-2}

**Depends on:** #step-1

**Tasks:**
- [ ] Count hits
- [ ] Count misses

**Tests:**
- [ ] Unit test: the counts add up

**Checkpoint:**
- [ ] The dashboard shows both
"""


def lab(directory: Path, text: str) -> Lab:
    return Lab(directory, text=text)


def fresh(directory: Path) -> dict:
    """Nothing done yet."""
    return lab(directory, CACHE).show()


def at_work(directory: Path) -> dict:
    """One step done, one at work with a substep done, one blocked: as the documents show it."""
    scene = _at_work(directory)
    scene.clock.advance(15 * 60)
    return scene.show()


def _at_work(directory: Path) -> Lab:
    scene = lab(directory, CACHE)
    scene.claim(RED)
    scene.close("step-0", RED)
    scene.complete("step-0", RED, commit=COMMIT)
    scene.claim(RED)
    scene.start("step-1-1", RED)
    scene.close("step-1-1", RED)
    scene.start("step-1-2", RED)
    scene.tick("step-1", "t0", owner=RED)
    scene.tick("step-1", "t1", status="in_progress", owner=RED)
    reason = "needs eyes on the log of the staging server"
    scene.update("step-1", entry("c1", "deferred", reason=reason), owner=RED)
    scene.update("step-1", entry("c0", "deferred"), owner=RED)
    return scene


def expired(directory: Path) -> dict:
    """The holder has not been heard of for longer than its lease."""
    scene = _at_work(directory)
    scene.clock.advance(2 * 3600 + 5 * 60)
    return scene.show()


def gone(directory: Path) -> dict:
    """The holder's process no longer runs."""
    shown = at_work(directory)
    step = shown["steps"][1]
    step["holder_gone"], step["attempts"][-1]["holder_pid"] = True, 4242
    return shown


def parked(directory: Path) -> dict:
    """Put aside by a person, in a plan that is paused."""
    scene = _at_work(directory)
    scene.release("step-1", RED, park_reason="the staging server is down until Monday")
    scene.pause()
    scene.clock.advance(26 * 3600)
    return scene.show()


def taken_over(directory: Path) -> dict:
    """Reclaimed by another worktree after its lease had run out; the lease is nearly over."""
    scene = _at_work(directory)
    scene.clock.advance(3 * 3600)
    scene.claim(BLUE, lease_seconds=60)
    scene.clock.advance(18)
    return scene.show()


def forced(directory: Path) -> dict:
    """Everything is done; one step was forced, with items put off before."""
    scene = _at_work(directory)
    scene.complete("step-1", RED, force_reason="reviewer approved with minor caveats")
    scene.claim(RED)
    scene.close("step-2", RED)
    scene.complete("step-2", RED, commit=COMMIT)
    return scene.show()


def running(directory: Path) -> dict:
    """A run is at it: its coder has been called a while ago."""
    shown = at_work(directory)
    now = clock.milliseconds(shown["as_of"])
    since = clock.text(now - 42_000)
    shown["steps"][1] |= {"role": "coder", "role_since": since}
    return {**shown, "tokens": 1_234_567, "cost_microdollars": 1_500_000}


def asked(directory: Path) -> dict:
    """A worker waits for an answer."""
    shown = at_work(directory)
    shown["steps"][1]["question"] = "Which server?"
    return shown


def stopped(directory: Path) -> dict:
    """A run has ended before the plan was done, and nobody goes on."""
    scene = _at_work(directory)
    scene.accept("step-1")
    scene.release("step-1", RED)
    scene.clock.advance(15 * 60)
    why = "the budget of 9 tokens is used up"
    attempts.note_run(scene.store, KEY, "finished", status="budget", reason=why)
    return scene.show()


def done(directory: Path) -> dict:
    """Every step is completed, and nothing merged."""
    scene = lab(directory, CACHE)
    for step in ("step-0", "step-1", "step-2"):
        scene.claim(RED)
        scene.clock.advance(600)
        scene.close(step, RED)
        scene.complete(step, RED, commit=COMMIT)
    return scene.show()


def noted(directory: Path) -> dict:
    """A worker has left a note, and a command its evidence, with a step that is done."""
    scene = lab(directory, CACHE)
    scene.claim(RED)
    scene.artifact("step-0", RED, summary="the staging key is in the vault")
    scene.close("step-0", RED)
    scene.complete("step-0", RED, commit=COMMIT)
    return scene.show()


def archived(directory: Path) -> dict:
    """Abandoned before it was begun."""
    shown = fresh(directory)
    return {**shown, "status": "archived"}


WIDE = """\
# キャッシュ層を追加する計画 🚀 with a title that goes on and on

### Step 1: クライアントを書く、最初の要求から最後の応答まで、すべてのエラーを含めて、丁寧に

**Tasks:**
- [ ] エラーの種類をすべて列挙し、それぞれに再試行の方針を決めて、ドキュメントに書く
- [ ] 👩‍👩‍👧‍👦 family emoji, flags 🇩🇪🇯🇵, ❤️ hearts and keycaps 1️⃣ 2️⃣
- [ ] Zu\u0308rich, nai\u0308ve, cafe\u0301: letters that combine

### Step 2: Internationalization-and-localization-of-every-single-user-visible-string-no-space

**Depends on:** #step-1

**Tasks:**
- [ ] supercalifragilisticexpialidocious_supercalifragilisticexpialidocious_supercalifragilistic
- [ ] Short one
"""


def wide(directory: Path) -> dict:
    """Long titles, wide characters, emoji."""
    scene = lab(directory, WIDE)
    scene.claim(RED)
    scene.start("step-1", RED)
    reason = "文字幅が端末によって異なるため、実機で確認する必要がある 👀"
    scene.update("step-1", entry("t1", "deferred", reason=reason), owner=RED)
    return scene.show()


def sixty_text() -> str:
    parts = ["# Sixty steps to a compiler\n"]
    for n in range(1, 61):
        parts.append(f"\n### Step {n}: Translate construct number {n}\n")
        needs = ", ".join(f"#step-{m}" for m in range(1, n) if n == 60 or m == n - 4)
        parts += [f"\n**Depends on:** {needs}\n"] if needs else []
        boxes = "".join(f"- [ ] Do part {m} of construct {n}\n" for m in range(n % 4 + 1))
        parts += ["\n**Tasks:**\n", boxes, "\n**Tests:**\n- [ ] It compiles\n"]
    return "".join(parts)


def sixty(directory: Path) -> dict:
    """A long plan, half done, four workers."""
    scene = lab(directory, sixty_text())
    for n in range(1, 31):
        worktree = f"{ROOT}/.tugtree/tugplan__compiler-{n % 4}"
        scene.claim(worktree, f"step-{n}")
        scene.close(f"step-{n}", worktree)
        scene.complete(f"step-{n}", worktree, commit=COMMIT)
        scene.clock.advance(60)
    for n in range(31, 34):
        worktree = f"{ROOT}/.tugtree/tugplan__compiler-{n % 4}"
        scene.claim(worktree, f"step-{n}")
        scene.tick(f"step-{n}", "t0", owner=worktree)
        scene.clock.advance(600)
    return scene.show()


SCENES: dict[str, Callable[[Path], dict]] = {
    scene.__name__: scene
    for scene in (
        fresh,
        at_work,
        expired,
        gone,
        parked,
        taken_over,
        forced,
        running,
        asked,
        stopped,
        done,
        noted,
        archived,
        wide,
        sixty,
    )
}

AGREED, FOUND = "5f2c8a90b1d34e7f" * 4, "0c11dd22ee33ff44" * 4


def drift(found: str | None = FOUND) -> list[str]:
    """The warning of a plan whose file has changed."""
    plan = {"plan_path": "x", "plan_hash": AGREED}
    return state_show.warning(Snapshot({"plans": [plan]}, {"x": found}), plan)
