"""A repository in the morning after a night of work: for the pictures of the page, and to look at.

    python scripts/night.py DIRECTORY

The history is always the same, and ends now: plans, workers, commits, evidence, a worker that
died, steps that wait for a person. The operations are those of the package; only their clock is
set by hand.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tugtool import state
from tugtool.plan import fingerprint, parser
from tugtool.state import attempts, worktrees
from tugtool.state.claims import Request
from tugtool.state.record import PlanCopy
from tugtool.store import locate, open_store

#: A part of the night, as the minutes until it goes on.
Minutes = Iterator[float]
IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.invalid",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.invalid",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}
MINUTE = 60
#: The night began so many minutes ago; the machine slept for a part of it.
NIGHT, ASLEEP = 352, 190

#: Slug -> title, and its steps: title, needs, tasks, checkpoints.
PLANS = {
    "parser": (
        "Rewrite the parser",
        [
            ("Tokens as a stream", "", ["Read the source in pieces", "Keep line and column"], 1),
            ("Expressions by precedence", "1", ["Climb by binding power", "Unary operators"], 1),
            ("Statements and blocks", "1", ["If, while and return", "Blocks have a scope"], 1),
            ("Messages that a person understands", "1", ["Say what was expected"], 2),
            ("Types of literals", "2", ["Numbers, strings, lists"], 1),
            ("Functions and closures", "2 3", ["Parameters and defaults", "Free names"], 1),
            ("Modules and imports", "3", ["One file is one module", "Refuse import cycles"], 1),
            ("Swap the lexer without a flag day", "1 4", ["Both behind one interface"], 2),
            ("Recover from errors and go on", "3 4", ["Resync at `;` and `}`", "One report"], 2),
            ("Source maps for the debugger", "5", ["Spans in the tree", "Write the map"], 1),
            ("Comments survive formatting", "5 6", ["Attach them to the nearest node"], 1),
            ("Format a file in place", "11", ["Write only what changed"], 1),
            ("Read ten thousand lines in 50 ms", "6 7", ["Measure", "No copies of text"], 1),
            ("Replace the old parser", "8 9 10 13", ["Delete it", "Rename the module"], 1),
            ("Tell users what changed", "12 14", ["A page with before and after"], 1),
        ],
    ),
    "billing": (
        "Ledger and invoices",
        [
            ("Double entry for every booking", "", ["Debit equals credit"], 1),
            ("Currencies with their own digits", "", ["Cents, yen, dinars"], 1),
            ("Ledger export as a spreadsheet", "1", ["One sheet a month"], 1),
            ("Invoices as PDF", "1 2", ["Numbers without gaps"], 2),
            ("Reminders after 14 days", "4", ["At most three"], 1),
            ("Close a month", "3 4", ["Nothing changes afterwards"], 1),
        ],
    ),
    "docs": (
        "One site for all manuals",
        [
            ("Collect the pages", "", ["List them by age"], 1),
            ("One navigation", "1", ["Three levels at most"], 1),
            ("Search that works offline", "1", ["An index below 200 kB"], 1),
            ("Redirect the old addresses", "2", ["No link breaks"], 1),
        ],
    ),
}


def markdown(title: str, steps: list) -> str:
    """The text of a plan."""
    parts = [f"# {title}\n"]
    for number, (name, needs, tasks, checks) in enumerate(steps, 1):
        parts.append(f"\n### Step {number}: {name}\n")
        if needs:
            wanted = ", ".join(f"#step-{need}" for need in needs.split())
            parts.append(f"\n**Depends on:** {wanted}\n")
        parts.append("\n**Tasks:**\n" + "".join(f"- [ ] {task}\n" for task in tasks))
        parts.append("\n**Tests:**\n" + f"- [ ] Unit test: {tasks[0].lower()}\n")
        commands = ["- [ ] `make test` passes\n", "- [ ] A person finds it easy to read\n"]
        parts.append("\n**Checkpoint:**\n" + "".join(commands[:checks]))
    return "".join(parts)


class Night:
    """The repository, its record, and the hand on the clock."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.end = int(time.time() * 1000)
        self.now = self.end - NIGHT * MINUTE * 1000
        root.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.name", "Ada")
        (root / ".tugtool").mkdir()
        for slug, (title, steps) in PLANS.items():
            (root / self.key(slug)).write_text(markdown(title, steps))
        (root / ".gitignore").write_text("/.tugtree/\n/.tugtool/state.db*\n")
        (root / "src").mkdir()
        (root / "src" / "parser.py").write_text("def parse(text):\n    raise NotImplementedError\n")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "plans for the night")
        url, copies, _ = locate(str(root), str(root / ".git"))
        self.store = open_store(url, clock=lambda: self.now, copies=copies)
        for slug in PLANS:
            text = (root / self.key(slug)).read_text()
            plan, found = parser.parse(text), fingerprint.of(text.encode())
            state.init(self.store, self.key(slug), plan, text=text, hash=found)

    def key(self, slug: str) -> str:
        return f".tugtool/tugplan-{slug}.md"

    def git(self, *words: str, cwd: Path | None = None) -> str:
        found = {**os.environ, **IDENTITY}
        place = cwd or self.root
        done = subprocess.run(
            ["git", *words], cwd=place, env=found, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def tree(self, slug: str, name: str) -> str:
        """The worktree of a worker; made the first time."""
        path = self.root / ".tugtree" / name
        if not path.exists():
            branch = f"tugplan/{slug}-{name}"
            self.git("worktree", "add", "--quiet", "-b", branch, str(path), "main")
            base = {"base_branch": "main", "base_commit": self.git("rev-parse", "main")}
            worktrees.add(self.store, self.key(slug), [(str(path), branch, None)], **base)
        return str(path)

    def copy(self, slug: str) -> PlanCopy:
        text = (self.root / self.key(slug)).read_bytes()
        return PlanCopy(str(self.root / self.key(slug)), fingerprint.of(text))

    def claim(self, slug: str, step: int, name: str, **how: object) -> int:
        request = Request(self.tree(slug, name), also=True, **how)
        anchor = f"step-{step}"
        got = state.claim(self.store, self.key(slug), request, copy=self.copy(slug), step=anchor)
        owner = {"owner": self.tree(slug, name)}
        state.start(self.store, self.key(slug), anchor, **owner, attempt=got["attempt"])
        return got["attempt"]

    def role(self, slug: str, step: int, name: str, role: str, attempt: int = 1) -> None:
        who = {"owner": self.tree(slug, name), "attempt": attempt, "role": role}
        attempts.begin_role(self.store, self.key(slug), f"step-{step}", **who)

    def report(self, slug: str, step: int, name: str, role: str, tokens: int, **how) -> None:
        who = {"owner": self.tree(slug, name), "attempt": how.pop("attempt", 1), "role": role}
        used = {"tokens": tokens, "cost_microdollars": tokens * 3}
        attempts.report(self.store, self.key(slug), f"step-{step}", **who, **used, **how)

    def tick(self, slug: str, step: int, name: str, *items: tuple, **how: object) -> None:
        entries = [
            {"kind": kind, "ordinal": ordinal, "status": status, "reason": reason}
            for kind, ordinal, status, reason in items
        ]
        own = {"owner": self.tree(slug, name), "copy": self.copy(slug), **how}
        state.update(self.store, self.key(slug), f"step-{step}", entries, **own)

    def verify(self, slug: str, step: int, name: str, *, attempt: int = 1, status: int = 0) -> None:
        """Keep what `make test` printed."""
        tree = self.tree(slug, name)
        said = "........................\n24 passed in 3.21s\n"
        if status:
            said = "FAILED tests/test_lexer.py::test_swap - timed out after 60 s\n1 failed\n"
        ran = {
            "command": "make test",
            "exit_status": status,
            "timed_out": False,
            "duration_seconds": 3.2,
            "output_tail": said,
            "output_bytes": len(said),
        }
        evidence = {"passed": not status, "commands": [ran], "worktree": tree, "attempt": attempt}
        evidence |= {"commit": self.git("rev-parse", "HEAD", cwd=Path(tree)), "dirty": True}
        evidence |= {"at": _text(self.now), "note": None, "tree": None, "judged": None}
        copy = self.copy(slug)
        finding = state.Finding(f"step-{step}", 0, passed=not status, evidence=evidence)
        state.verify(
            *(self.store, self.key(slug), f"step-{step}", [finding]),
            owner=tree,
            attempt=attempt,
            copy=copy,
            plan_hash=copy.now(),
            summary="make test",
        )

    def complete(self, slug: str, step: int, name: str) -> None:
        """Commit something, and complete the step."""
        tree = Path(self.tree(slug, name))
        title = PLANS[slug][1][step - 1][0]
        body = title.lower()
        (tree / "src").mkdir(exist_ok=True)
        (tree / "src" / f"{slug}_{step}.py").write_text(
            f'"""{title}."""\n\n\ndef step_{step}(text):\n    """{title}."""\n    return text\n'
        )
        with (tree / "src" / "parser.py").open("a") as file:
            file.write(f"\n# step {step}: {body}\n")
        self.git("add", "--all", cwd=tree)
        self.git("commit", "--quiet", "--message", title, cwd=tree)
        commit = self.git("rev-parse", "HEAD", cwd=tree)
        own = {"owner": str(tree), "copy": self.copy(slug)}
        state.complete(self.store, self.key(slug), f"step-{step}", commit=commit, **own)

    def done(self, slug: str, step: int, name: str, minutes: float, *deferred: str) -> Minutes:
        """A step from its claim to its commit, by three roles."""
        yield from self.ready(slug, step)
        attempt = self.claim(slug, step, name)
        for role, share in (("architect", 0.15), ("coder", 0.6), ("reviewer", 0.25)):
            self.role(slug, step, name, role, attempt)
            yield minutes * share
            used = round(90_000 * share * minutes / 10)
            self.report(slug, step, name, role, used, attempt=attempt)
        self.verify(slug, step, name, attempt=attempt)
        items = [("checkpoint", 1, "deferred", reason) for reason in deferred]
        self.tick(slug, step, name, *items, complete_remaining=True)
        self.complete(slug, step, name)

    def failed(self, slug: str, step: int, name: str, minutes: float, park: str = "") -> Minutes:
        """An attempt that does not pass its checkpoint."""
        yield from self.ready(slug, step)
        attempt = self.claim(slug, step, name)
        self.role(slug, step, name, "coder", attempt)
        yield minutes
        self.verify(slug, step, name, attempt=attempt, status=2)
        self.report(slug, step, name, "coder", round(11_000 * minutes), attempt=attempt)
        own = {"owner": self.tree(slug, name)}
        where = (self.store, self.key(slug), f"step-{step}")
        if park:
            said = "Both lexers disagree about CRLF; a person has to decide which one is right."
            state.artifact(*where, **own, kind="escalation", summary=said)
        failure = "coder failed: tests time out"
        state.release(*where, **own, failure=failure, park_reason=park or None)

    def ready(self, slug: str, step: int) -> Minutes:
        """Wait until all that the step needs is completed."""
        while True:
            steps = state.show(self.store, self.key(slug))["steps"]
            (found,) = (each for each in steps if each["anchor"] == f"step-{step}")
            if not found["waiting_for"]:
                return
            yield 1

    def begun(self, slug: str, step: int, name: str, ago: float, *ticks: tuple) -> Minutes:
        """A step that is at work when the night ends."""
        yield self.left() - ago
        at = self.claim(slug, step, name)
        self.role(slug, step, name, "architect", at)
        yield ago / 3
        self.report(slug, step, name, "architect", 41_000, attempt=at)
        self.role(slug, step, name, "coder", at)
        if ticks:
            self.tick(slug, step, name, *ticks)

    def left(self) -> float:
        """The minutes until the night ends."""
        return (self.end - self.now) / 1000 / MINUTE

    def play(self, *parts: Minutes) -> None:
        """Let all go on at the same time."""
        waiting = [(self.now, number, part) for number, part in enumerate(parts)]
        while waiting:
            at, number, part = min(waiting, key=lambda each: each[:2])
            waiting.remove((at, number, part))
            self.now = max(self.now, at)
            minutes = next(part, None)
            if minutes is not None:
                waiting.append((self.now + round(minutes * MINUTE * 1000), number, part))
        self.now = self.end


def _text(milliseconds: int) -> str:
    from tugtool.system import clock

    return clock.text(milliseconds)


def worker_1(night: Night) -> Minutes:
    yield from night.done("parser", 1, "worker-1", 22)
    yield from night.done("parser", 2, "worker-1", 18)
    yield from night.done("parser", 5, "worker-1", 14)
    yield ASLEEP
    yield from night.done("parser", 11, "worker-1", 38)
    yield from night.begun("parser", 9, "worker-1", 12, ("task", 0, "completed", None))


def worker_2(night: Night) -> Minutes:
    yield from night.done("parser", 3, "worker-2", 25)
    yield ASLEEP
    yield from night.done("parser", 6, "worker-2", 31)
    yield from night.done("parser", 7, "worker-2", 44)
    yield from night.begun("parser", 10, "worker-2", 3)


def worker_3(night: Night) -> Minutes:
    why = "needs a person who has never seen the parser"
    yield from night.done("parser", 4, "worker-3", 16, why)
    yield ASLEEP
    yield from night.failed("parser", 8, "worker-3", 41)
    yield 2
    yield from night.failed("parser", 8, "worker-3", 26, "coder failed twice: tests time out")


def worker_4(night: Night) -> Minutes:
    yield from night.done("billing", 2, "worker-4", 21)
    yield ASLEEP
    why = "the logo is 2 mm too far left, or is it?"
    yield from night.done("billing", 4, "worker-4", 57, why)
    yield night.left() - 1
    request = Request(night.tree("billing", "worker-4"), also=True)
    copy = night.copy("billing")
    state.claim(night.store, night.key("billing"), request, copy=copy, step="step-5")


def worker_5(night: Night) -> Minutes:
    yield from night.done("billing", 1, "worker-5", 19)
    yield night.left() - 34
    lost = night.claim("billing", 3, "worker-5", lease_seconds=600)
    night.role("billing", 3, "worker-5", "coder", lost)
    night.tick("billing", 3, "worker-5", ("task", 0, "in_progress", None))


def person(night: Night) -> Minutes:
    yield 40
    state.pause(night.store, night.key("docs"), actor="Ada", reason="after the release")


def make(root: Path) -> None:
    """Make the repository; its last event is of now."""
    night = Night(root)
    workers = (worker_1, worker_2, worker_3, worker_4, worker_5, person)
    night.play(*(each(night) for each in workers))
    night.store.close()


def main() -> None:
    """Make it where the caller says."""
    if len(sys.argv) != 2:
        sys.exit("usage: python scripts/night.py DIRECTORY")
    make(Path(sys.argv[1]).resolve())


if __name__ == "__main__":
    main()
