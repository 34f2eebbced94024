"""Count the modules that the work of a command passes through.

    python scripts/crossings.py [FLOW...]

Runs the main flows in a throw-away repository, in this process, and watches which functions of
the package are called: modules that take part (importing one does not count), functions, calls,
calls that cross from one module into another, and the deepest chain of calls.
Exit status 1 if a flow passes through more modules than LIMITS allows.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType

import tugtool
from tugtool.cli.main import main as tugcode

PACKAGE = str(Path(tugtool.__file__).parent) + os.sep
#: The most modules that a flow may pass through.
LIMITS = {
    "state claim": 19,
    "commit": 28,
    "worktree create": 34,
    "merge": 37,
    "doctor": 34,
    "implement": 75,
}
#: Not counted, as in the limit of modules: what watches over programs that a repository names, and
#: what looks for a server and a shared record.
APART = (
    *("agents/confinement.py", "git/safe_view.py", "store/owners.py", "system/secrets.py"),
    *("system/toml.py", "workflow/server_note.py", "workflow/shared_record.py"),
    "workflow/trust.py",
    # A look at a database that a process may have left in the middle: it comes and goes here, where
    # commands end and their process does not.
    *("store/sqlite/create.py", "store/sqlite/health.py"),
)
PLAN = """\
# Greeter

### Step 1: Say hello
- [ ] print a greeting
"""
ROLES = ("architect", "coder", "reviewer")
CODER = {"role": "coder", "do": [{"write": "hello.txt", "text": "hello\n"}]}


class Watch:
    """Counts the calls within the package, of every thread."""

    def __init__(self) -> None:
        self.functions: set[CodeType] = set()
        self.calls = self.crossings = self.depth = 0
        self._stacks = threading.local()
        self._imports = 0

    def __enter__(self) -> "Watch":
        threading.setprofile(self._event)
        sys.setprofile(self._event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    @property
    def modules(self) -> set[str]:
        found = {code.co_filename for code in self.functions}
        return found - {PACKAGE + name for name in APART}

    def _event(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE):
            return
        if code.co_name == "__getattr__":
            # The look-up of an operation by its name.
            return
        if code.co_name == "<module>":
            # An import runs class bodies and package lookups, which do not count.
            self._imports += {"call": 1, "return": -1}.get(event, 0)
            return
        if self._imports or "importlib" in str(frame.f_back and frame.f_back.f_code.co_filename):
            return
        stack: list[CodeType] = self._stacks.__dict__.setdefault("stack", [])
        if event == "call":
            self.functions.add(code)
            self.calls += 1
            self.crossings += bool(stack) and stack[-1].co_filename != code.co_filename
            stack.append(code)
            self.depth = max(self.depth, len(stack))
        elif event == "return" and stack:
            stack.pop()


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)


def call(root: Path, *words: str) -> dict:
    """Run one command in this process, and return its data."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        status = tugcode(["-C", str(root), *words, "--json"])
    lines = out.getvalue().splitlines()
    if status:
        sys.exit(f"tugcode {' '.join(words)}: {lines[-1]}")
    data: dict = json.loads(lines[-1])["data"]
    return data


def prepare(root: Path) -> None:
    """Make a repository with a committed plan of one step."""
    git(root, "init", "--quiet", "--initial-branch=main", "--template=")
    call(root, "init")
    (root / ".tugtool" / "tugplan-greeter.md").write_text(PLAN)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "plan")


def hire(root: Path) -> None:
    """Configure scripted agents."""
    script = root / ".git" / "script.json"
    script.write_text(json.dumps({"rule": [CODER]}))
    command = json.dumps([sys.executable, "-m", "tugtool.agents.scripted", str(script)])
    tables = "".join(f"[agents.{role}]\ncommand = {command}\n" for role in ROLES)
    (root / ".tugtool" / "config.toml").write_text(tables)


def claimed(root: Path) -> Path:
    """Make a worktree that has claimed the step, with work to commit."""
    made = call(root, "worktree", "create", "greeter", "--claim")
    tree = Path(made["worktree_path"])
    (tree / "hello.txt").write_text("hello\n")
    call(tree, "state", "update", "greeter", "step-1", "--all", "completed")
    return tree


def commit(tree: Path) -> dict:
    return call(tree, "commit", "--plan", "greeter", "--step", "step-1", "--message", "hello")


def flow(name: str, root: Path) -> Callable[[], object]:
    """Prepare a flow, and watch it."""
    if name == "state claim":
        call(root, "state", "init", "greeter")
        return lambda: call(root, "state", "claim", "greeter")
    if name == "state update":
        tree = claimed(root)
        words = ("state", "update", "greeter", "step-1", "--all", "open")
        return lambda: call(tree, *words)
    if name == "commit":
        tree = claimed(root)
        return lambda: commit(tree)
    if name == "merge":
        commit(claimed(root))
        return lambda: call(root, "merge", "greeter")
    if name == "worktree create":
        call(root, "state", "init", "greeter")
        return lambda: call(root, "worktree", "create", "greeter")
    if name == "implement":
        hire(root)
        call(root, "state", "init", "greeter")
        return lambda: call(root, "implement", "greeter")
    return lambda: call(root, *name.split())


def watched(name: str) -> Watch:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        prepare(root)
        run = flow(name, root)
        with Watch() as watch:
            run()
    return watch


def main(names: list[str]) -> int:
    """Print a line per flow, and return the exit status."""
    os.environ |= {
        f"GIT_{who}_{what}": "tug@example.invalid"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    os.environ |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    # The repository is ours.
    os.environ["TUGCODE_TRUST"] = "1"
    over = 0
    print(
        f"{'flow':18} {'modules':>8} {'limit':>6} {'functions':>10} {'calls':>7} "
        f"{'crossings':>10} {'depth':>6}"
    )
    for name in names or ["state claim", "state update", *list(LIMITS)[1:]]:
        seen = watched(name)
        limit = LIMITS.get(name)
        over += limit is not None and len(seen.modules) > limit
        print(
            f"{name:18} {len(seen.modules):8} {limit or '':>6} {len(seen.functions):10} "
            f"{seen.calls:7} {seen.crossings:10} {seen.depth:6}"
        )
        if os.environ.get("TUG_LIST"):
            print(*sorted(path.removeprefix(PACKAGE) for path in seen.modules), sep="\n")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
