"""Record and compare the answers of every command on a fixed history.

    python scripts/recording.py record FILE [TUGCODE]
    python scripts/recording.py compare FILE FILE

`record` plays the history in throw-away repositories with that `tugcode` (default: the one on the
path), once with `--json` and once as text, and records every exit status and output. Times,
hashes, process ids and paths become words, so that two recordings of the same product are equal.
Every command has to take part. `compare` prints each difference; exit status 1 if there is one.
"""

import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "tugplan-bookshelf.md"
SMALL = """\
# Greeter

### Step 1: Say hello
- [ ] print a greeting

**Checkpoints:**
- [ ] `true` succeeds

#### Step 1.1: In a loud voice
- [ ] shout

### Step 2: Say it in French
**Depends on:** #step-1
- [ ] bonjour

**Checkpoints:**
- [ ] a French speaker smiles
- [ ] `false` succeeds
"""
BROKEN = "# Broken\n\n### Step 1: One\n**Depends on:** #step-9\n- [ ] x\n"
AGENTS = """\
[agents.default]
command = ["{python}", "-P", "-m", "tugtool.agents.scripted", "{script}"]
timeout_seconds = 60
"""
SCRIPT = {
    "rule": [{"role": "coder", "do": [{"write": "{step}.txt", "text": "done by {role}\n"}]}],
}
#: What differs between two runs of the same product, and the words for it.
VARYING = (
    (r"\d{4}-\d\d-\d\dT\d\d:?\d\d:?\d\d(\.\d+)?Z", "<time>"),
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?", "<time>"),
    (r"\b[0-9a-f]{64}\b", "<sha256>"),
    (r"\b[0-9a-f]{40}\b", "<hash>"),
    (r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,12}\b", "<short>"),
    (r"\bat [0-9a-f]{7,12}\b", "at <short>"),
    (r"(-|__|%2F)20\d{6}\b", r"\1<day>"),
    (r"\b20\d\d-\d\d-\d\d\b", "<day>"),
    (r"\b\d+(\.\d+)? ?(ms|s|seconds?|minutes?|m|h)( \d+ ?(s|m))?\b", "<duration>"),
    (r'"(duration\w*|\w*seconds|\w*_ms|elapsed\w*|bare|usual)": [\d.]+', r'"\1": 0'),
    (r"\b20\d{6}T\d{9}Z", "<time>"),
    (r"parallelism\W+[\d.]+", "parallelism <n>"),
    (r'("?(?:pid|process|holder_pid)"?:? )\d+', r"\1<pid>"),
)


class Player:
    """Runs commands in one throw-away home, and records their answers."""

    def __init__(self, tugcode: str, home: Path, *, as_json: bool) -> None:
        self.tugcode, self.home, self.as_json = tugcode, home, as_json
        self.rows: list[dict[str, object]] = []
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home / "nobody"),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "COLUMNS": "80",
            "LC_ALL": "C.UTF-8",
        }
        for who in ("AUTHOR", "COMMITTER"):
            self.env |= {f"GIT_{who}_NAME": "Ada", f"GIT_{who}_EMAIL": "ada@example.invalid"}

    def git(self, at: Path, *words: str) -> str:
        line = ["git", *words]
        done = subprocess.run(
            line, cwd=at, env=self.env, check=True, capture_output=True, text=True
        )
        return done.stdout

    def run(self, at: Path, *words: str, given: str = "") -> str:
        """Run and record one command; return its standard output."""
        flags = ["--json"] if self.as_json else []
        # The words after `--` are not ours.
        cut = words.index("--") if "--" in words else len(words)
        line = [*words[:cut], *flags, *words[cut:]]
        done = subprocess.run(
            [self.tugcode, *line], cwd=at, env=self.env, input=given, capture_output=True, text=True
        )
        self.rows.append(
            {
                "line": self._plain(" ".join(line)),
                "status": done.returncode,
                "out": self._plain(done.stdout),
                "err": self._plain(done.stderr),
            }
        )
        return done.stdout

    def data(self, at: Path, *words: str) -> dict:
        """Return the data of a command without recording it."""
        done = subprocess.run(
            [self.tugcode, *words, "--json"], cwd=at, env=self.env, capture_output=True, text=True
        )
        found: dict = json.loads(done.stdout)["data"]
        return found

    def _plain(self, text: str) -> str:
        text = text.replace(str(self.home), "<home>")
        text = text.replace(str(Path(self.tugcode).parent), "<bin>")
        for pattern, word in VARYING:
            text = re.sub(pattern, word, text)
        return text

    def repository(self, name: str) -> Path:
        root = self.home / name
        root.mkdir()
        self.git(root, "init", "--quiet", "--initial-branch=main", "--template=")
        (root / "code.txt").write_text("one\ntwo\nthree\n")
        self.git(root, "add", "--all")
        self.git(root, "commit", "--quiet", "--message", "first")
        return root

    def plan(self, root: Path, name: str, text: str) -> None:
        (root / ".tugtool").mkdir(exist_ok=True)
        (root / ".tugtool" / f"tugplan-{name}.md").write_text(text)
        self.git(root, "add", "--all")
        self.git(root, "commit", "--quiet", "--message", f"plan {name}")


def setting_up(player: Player) -> None:
    """Play the commands about the repository and its plans."""
    run, root = player.run, player.repository("setup")
    run(player.home, "status")
    for words in ("version", "init", "init", "config", "list", "status", "validate"):
        run(root, words)
    run(root, "plan", "new", "garden")
    shutil.copy(EXAMPLE, root / ".tugtool" / EXAMPLE.name)
    player.plan(root, "broken", BROKEN)
    for level in ("lenient", "normal", "strict"):
        run(root, "validate", "--level", level)
    run(root, "list")
    for words in (("plan", "show"), ("plan", "graph")):
        run(root, *words, "bookshelf")
        run(root, *words, "nobody")
    run(root, "state", "init", "broken")
    run(root, "state", "init", "bookshelf", "--nonsense")
    run(root, "nonsense")
    run(root, "state")
    run(root, "completion", "bash")
    run(root, "plugin", "path")
    run(root, "plugin", "install", "claude")
    call = {"tool_name": "Bash", "tool_input": {"command": "git commit -m x"}, "cwd": str(root)}
    run(root, "hook", "pre-tool-use", given=json.dumps(call))
    run(root, "status")


def working(player: Player) -> None:
    """Play a small plan through every state command."""
    run, root = player.run, player.repository("work")
    player.plan(root, "greeter", SMALL)
    run(root, "state", "claim", "greeter")
    run(root, "state", "init", "greeter")
    run(root, "state", "init", "greeter")
    run(root, "doctor")
    looks = (("show",), ("show", "--checklist"), ("ready",), ("log",), ("stats",), ("review",))
    _look(run, root, looks)
    run(root, "state", "claim", "--request-id", "r1")
    run(root, "state", "claim", "--request-id", "r1")
    run(root, "state", "claim", "greeter", "--worktree", "/elsewhere")
    run(root, "state", "claim", "greeter", "--step", "step-2", "--worktree", "/elsewhere")
    run(root, "state", "why", "greeter", "step-1")
    run(root, "state", "why", "greeter", "step-2")
    run(root, "state", "start", "greeter", "step-1")
    run(root, "state", "start", "greeter", "step-1", "--attempt", "7")
    run(root, "state", "start", "greeter", "step-1", "--worktree", "/elsewhere")
    run(root, "state", "heartbeat", "greeter", "step-1", "--lease-duration", "600")
    run(root, "state", "update", "greeter", "step-1", "--task", "0", "completed")
    run(root, "state", "update", "greeter", "step-1", "--task", "9", "completed")
    run(root, "state", "update", "greeter", "step-1-1", "--all", "completed")
    run(root, "state", "artifact", "greeter", "step-1", "--kind", "note", "--summary", "hello")
    _look(run, root, looks)
    run(root, "state", "complete", "greeter", "step-1")
    run(root, "state", "verify", "greeter", "step-1", "--yes")
    run(root, "state", "complete", "greeter", "step-1")
    run(root, "state", "complete", "greeter", "step-1")
    run(root, "state", "exec", "greeter", "--", "false")
    run(root, "state", "exec", "greeter", "--", "true")
    entries = [{"kind": "checkpoint", "ordinal": 0, "status": "deferred", "reason": "nobody here"}]
    run(root, "state", "update", "greeter", "step-2", "--batch", given=json.dumps(entries))
    run(root, "state", "update", "greeter", "step-2", "--batch", given="[]")
    run(root, "state", "verify", "greeter", "step-2", "--yes")
    run(root, "state", "release", "greeter", "step-2")
    run(root, "state", "release", "greeter", "step-2")
    run(root, "state", "pause", "greeter")
    run(root, "state", "claim", "greeter")
    run(root, "state", "resume", "greeter")
    run(root, "state", "claim", "greeter")
    run(root, "state", "reset", "greeter", "step-2")
    run(root, "state", "claim", "greeter")
    run(root, "state", "release", "greeter", "step-2", "--park", "too hard")
    run(root, "state", "claim", "greeter")
    _look(run, root, (*looks, ("why", "greeter", "step-2")))
    run(root, "state", "reset", "greeter", "step-2")
    run(root, "state", "claim", "greeter")
    batch = json.dumps(entries)
    run(root, "state", "update", "greeter", "step-2", "--batch", given=batch)
    run(root, "state", "complete", "greeter", "step-2", "--force", "--reason", "enough")
    _look(run, root, looks)
    run(root, "state", "review", "greeter", "--accept", "--step", "step-2", "--note", "fine")
    run(root, "state", "reopen", "greeter", "step-2", "--reason", "not fine")
    run(root, "state", "claim", "greeter")
    run(root, "status")


def revising(player: Player) -> None:
    """Play revisions, exports, archives and lost databases."""
    run, root = player.run, player.repository("records")
    player.plan(root, "greeter", SMALL)
    run(root, "state", "init", "greeter")
    run(root, "state", "claim", "greeter")
    plan = root / ".tugtool" / "tugplan-greeter.md"
    plan.write_text(SMALL.replace("bonjour", "bonjour, twice") + "\n### Step 3: Rest\n- [ ] rest\n")
    run(root, "state", "diff", "greeter")
    run(root, "state", "show", "greeter")
    run(root, "state", "update", "greeter", "step-1", "--all", "completed")
    run(root, "state", "init", "greeter")
    run(root, "state", "init", "greeter", "--force", "--dry-run")
    run(root, "state", "init", "greeter", "--force")
    run(root, "state", "diff", "greeter")
    exported = run(root, "state", "export")
    other = player.repository("copy")
    (other / "export.jsonl").write_text(exported)
    run(other, "state", "import", "export.jsonl")
    run(other, "state", "import", "export.jsonl")
    run(other, "state", "show")
    run(other, "state", "prune", "--dry-run")
    run(other, "state", "archive", "greeter")
    run(root, "state", "archive", "greeter")
    run(root, "state", "reconcile", "greeter", "--dry-run")
    run(root, "state", "reset", "greeter", "step-1")
    run(root, "state", "archive", "greeter")
    run(root, "state", "restore", "--dry-run")
    (root / ".tugtool" / "state.db").unlink()
    for each in root.glob(".tugtool/state.db-*"):
        each.unlink()
    run(root, "state", "show")
    run(root, "state", "restore")


def branching(player: Player) -> None:
    """Play worktrees, commits, saved work, the merge, and dashes."""
    run, root = player.run, player.repository("git")
    player.plan(root, "greeter", SMALL)
    run(root, "worktree", "list")
    run(root, "worktree", "create", "greeter", "--claim")
    first = Path(player.data(root, "worktree", "list")["worktrees"][0]["worktree_path"])
    run(root, "worktree", "list")
    (first / "half.txt").write_text("half\n")
    run(root, "state", "reset", "greeter", "step-1")
    run(root, "worktree", "salvage", "list")
    saved = player.data(root, "worktree", "salvage", "list")["salvages"]
    ref = str(saved[0]["salvage_ref"]) if saved else "none"
    run(root, "worktree", "salvage", "show", ref)
    run(first, "state", "claim", "greeter")
    run(first, "worktree", "salvage", "apply", ref)
    (first / "hello.txt").write_text("hello\n")
    words = ("--plan", "greeter", "--step", "step-1", "--message", "feat: hello")
    run(first, "commit", *words)
    run(first, "state", "update", "greeter", "step-1", "--all", "completed")
    run(first, "state", "update", "greeter", "step-1-1", "--all", "completed")
    run(first, "commit", *words)
    run(first, "commit", *words)
    run(root, "commit", *words)
    run(root, "worktree", "create", "greeter", "--new", "--claim")
    second = next(p for p in sorted((root / ".tugtree").iterdir()) if p != first)
    run(second, "worktree", "sync", "greeter")
    run(second, "worktree", "sync", "greeter")
    run(root, "merge", "greeter")
    run(second, "state", "update", "greeter", "step-2", "--all", "completed")
    (second / "bonjour.txt").write_text("bonjour\n")
    run(second, "commit", "--plan", "greeter", "--step", "step-2", "--message", "feat: bonjour")
    run(root, "state", "reconcile", "greeter")
    run(root, "worktree", "cleanup", "--dry-run")
    run(root, "merge", "greeter", "--dry-run")
    run(root, "merge", "greeter")
    run(root, "merge", "greeter")
    run(root, "worktree", "salvage", "prune", "--dry-run")
    run(root, "worktree", "remove", "nowhere")
    run(root, "state", "show", "greeter")
    run(root, "doctor")
    run(root, "dash", "create", "tidy")
    dash = root / ".tugtree" / "tugdash__tidy"
    (dash / "tidy.txt").write_text("tidy\n")
    run(dash, "dash", "commit", "tidy", "--message", "tidy up", "--instruction", "tidy up")
    run(root, "dash", "list")
    run(root, "dash", "show", "tidy")
    run(root, "dash", "join", "tidy")
    run(root, "dash", "create", "idle")
    run(root, "dash", "release", "idle")
    run(root, "dash", "list")
    run(root, "state", "prune", "--done", "--dry-run")


def implementing(player: Player) -> None:
    """Play a whole plan with scripted agents."""
    run, root = player.run, player.repository("run")
    player.plan(root, "greeter", SMALL)
    run(root, "implement", "greeter")
    script = player.home / "script.json"
    script.write_text(json.dumps(SCRIPT))
    python = str(Path(player.tugcode).with_name("python"))
    (root / ".tugtool" / "config.toml").write_text(AGENTS.format(python=python, script=script))
    run(root, "implement", "greeter", "--dry-run")
    run(root, "implement", "greeter")
    run(root, "state", "show", "greeter")
    run(root, "state", "stats", "greeter")
    run(root, "state", "log", "greeter")
    run(root, "status")


def _look(run: object, root: Path, looks: Iterable[tuple[str, ...]]) -> None:
    assert callable(run)
    for words in looks:
        run(root, "state", *words)


SCENES = (setting_up, working, revising, branching, implementing)


def helped(player: Player) -> list[str]:
    """Record the help of every command, and all their names."""
    player.as_json = False
    text = player.run(player.home, "--help")
    listed = re.findall(r"^  ([a-z][a-z -]*?)  +\S", text.split("options:")[0], re.MULTILINE)
    for name in listed:
        player.run(player.home, *name.split(), "--help")
    return listed


def schemas(tugcode: str) -> dict[str, object]:
    """Return every schema of the package."""
    code = "import tugtool, os; print(os.path.dirname(tugtool.__file__))"
    line = [str(Path(tugcode).with_name("python")), "-c", code]
    done = subprocess.run(line, check=True, capture_output=True, text=True)
    found = sorted((Path(done.stdout.strip()) / "schemas").glob("*.json"))
    return {path.name: json.loads(path.read_text()) for path in found}


def record(file: Path, tugcode: str) -> int:
    """Play all scenes both ways. Return 1 if a command took no part."""
    recording: dict[str, object] = {"schemas": schemas(tugcode)}
    played: list[str] = []
    with tempfile.TemporaryDirectory() as directory:
        for as_json in (True, False):
            for scene in SCENES:
                home = Path(directory).resolve() / f"{scene.__name__}-{as_json}"
                home.mkdir()
                player = Player(tugcode, home, as_json=as_json)
                scene(player)
                recording[home.name] = player.rows
                played += [str(row["line"]) for row in player.rows]
        player = Player(tugcode, Path(directory).resolve(), as_json=False)
        names = helped(player)
        recording["help"] = player.rows
    missing = [name for name in names if not any(line.startswith(name) for line in played)]
    file.write_text(json.dumps(recording, indent=1, sort_keys=True))
    print(f"{len(played)} commands recorded; without a part in it: {', '.join(missing) or 'none'}")
    return 1 if missing else 0


def compare(old: Path, new: Path) -> int:
    """Print the differences. Return 1 if there are any."""
    one, two = (json.loads(path.read_text()) for path in (old, new))
    number = 0
    for scene in sorted({*one, *two}):
        if scene == "schemas":
            number += _print_difference(scene, one[scene], two.get(scene))
            continue
        left, right = one.get(scene, []), two.get(scene, [])
        number += _print_difference(f"{scene}: commands", len(left), len(right))
        for before, after in zip(left, right, strict=False):
            number += _print_difference(f"{scene}: tugcode {before['line']}", before, after)
    print(f"{number} differences")
    return 1 if number else 0


def _print_difference(name: str, before: object, after: object) -> int:
    if before == after:
        return 0
    texts = [
        json.dumps(each, indent=1, sort_keys=True).replace("\\n", "\n") for each in (before, after)
    ]
    print(f"== {name}")
    lines = difflib.unified_diff(*(text.splitlines() for text in texts), lineterm="", n=0)
    print("\n".join(list(lines)[2:40]))
    return 1


def main(words: list[str]) -> int:
    if words[:1] == ["record"] and len(words) in (2, 3):
        found = words[2] if len(words) == 3 else shutil.which("tugcode")
        return record(Path(words[1]), str(Path(found or "tugcode").absolute()))
    if words[:1] == ["compare"] and len(words) == 3:
        return compare(Path(words[1]), Path(words[2]))
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
