"""What a command loads. Imports are most of what a command costs, so they are counted.

Every probe is a real process of its own that starts the way the installed launcher does.
When a test here complains, first ask whether the new import can wait until it is needed;
only then raise the limit.
"""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.commands import plainest
from support.proving import sampled
from support.worktree import IDENTITY
from tugtool.cli.parse import CHANGING_NOTHING, FAMILIES, access

LAUNCHER = (Path(__file__).parents[2] / "scripts" / "tugcode-python").read_text()
PACKAGES = Path(find_spec("tugtool").origin).parents[1]
ON_PATH = f"import sys\nsys.path.insert(0, {str(PACKAGES)!r})"

HEAVY = {
    "argparse",
    "asyncio",
    "contextlib",
    "dataclasses",
    "enum",
    "functools",
    "hashlib",
    "importlib.metadata",
    "inspect",
    "json",
    "jsonschema",
    "logging",
    "pathlib",
    "re",
    "shutil",
    "subprocess",
    "tempfile",
    "tomllib",
    "typing",
}
#: All that a cheap command may load of the standard library, beyond a bare interpreter.
LIGHT = {
    "__future__",
    "_functools",
    "_json",
    "_sha256" if sys.version_info < (3, 12) else "_sha2",
    "_sqlite3",
    "fcntl",
    "gc",
    "select",
}
#: What a step's holder pays for only when it needs it.
NOT_FOR_HOLDERS = {
    "_json",
    "tugtool.git.command",
    "tugtool.errors.git",
    "tugtool.system.process",
    "tugtool.store.schema",
}
#: What only commands pay for that run something of the repository's.
OF_TRUST = {
    "ctypes",
    "tugtool.agents.confinement",
    "tugtool.errors.safety",
    "tugtool.git.safe_view",
    "tugtool.system.confinement",
    "tugtool.system.landlock",
    "tugtool.system.secrets",
    "tugtool.workflow.trust",
}
CONFINED = '[agents.default]\ncommand = ["sh"]\nconfine = "worktree"\nnetwork = false\n'
#: How many of our own files a command may load, and how many lines they may have together.
LIMITS = {
    "config --json": (15, 3040),
    "--help": (11, 2350),
    # Its module has room for further commands that look.
    "validate --help": (13, 2925),
    "plan --help --json": (11, 2350),
    "version": (19, 4570),
    "--version --json": (19, 4570),
    "complete-words -- state cl": (11, 2350),
    "hook pre-tool-use": (20, 4350),
    "state claim small --json": (25, 5840),
    "state claim --json": (25, 5840),
    "state start small step-1 --json": (25, 5690),
    "state heartbeat small step-1 --json": (25, 5690),
    "state update small step-1 --all completed --json": (26, 5990),
    "state complete small step-1 --force x --json": (25, 5840),
    "commit --plan small --step step-1 --message x --worktree .tugtree/side --json": (40, 9790),
}
#: Commands whose processes have no need of `os`, which `tugtool.system` stands in for.
WITHOUT_OS = [line for line in LIMITS if line.startswith(("state ", "--help", "config", "hook"))]

INIT = ["state", "init", "small"]
CLAIM = ["state", "claim", "small"]
FORCED = ["state", "complete", "small", "step-1", "--force", "--reason", "x"]
HELD = [INIT, CLAIM]
#: Stands for the worktree that CREATE made.
MADE = "MADE"
CREATE = ["worktree", "create", "small", "--commit-plan"]
#: What has to be done first, where that is not what every state command needs: a claim.
SIDE = ["--worktree", ".tugtree/side"]
CLOSE = ["state", "update", "small", "step-1", "--all", "completed", *SIDE]
#: Of the step's holder, the main worktree with its uncommitted plan; saved.
TAKEN = [INIT, CLAIM, ["state", "reset", "small", "step-1"]]
DASH = ["dash", "create", "fix"]
WORK = ["dash", "commit", "fix", "--message", "x"]
BEFORE = {
    "plan accept": [INIT],
    "next": [INIT],
    "done": [INIT, [*CLAIM, *SIDE]],
    "implement": [CREATE],
    "transcript": [INIT],
    "report": [INIT],
    "state init": [],
    "state claim": [INIT],
    "state reopen": [*HELD, FORCED],
    "state archive": [INIT],
    "state exec": [INIT],
    "state move": [INIT],
    "state import": [],
    "state export": [INIT],
    "serve token revoke": [["serve", "token", "add", "anna", "--role", "viewer"]],
    "worktree list": [CREATE],
    "worktree remove": [CREATE],
    "worktree cleanup": [CREATE],
    "worktree publish": [INIT],
    "worktree sync": [CREATE],
    "worktree clean": [CREATE],
    "worktree salvage show": TAKEN,
    "worktree salvage apply": TAKEN,
    "commit": [INIT, [*CLAIM, *SIDE], CLOSE],
    "merge": [*HELD, FORCED],
    "doctor": [["init"]],
    "dash commit": [DASH],
    "dash join": [["dash", "create", "ready"]],
    "dash release": [DASH],
    "dash show": [DASH],
}
#: The call that a client asks about.
GIVEN = """\
{"tool_name": "Bash", "tool_input": {"command": "ls"}, "agent_type": "tugplug:coder-agent"}
"""
#: Without these, `implement` does not even say what it would do.
AGENTS = '[agents.default]\ncommand = ["sh"]\n'
#: These run until they are stopped; tests/server/test_process.py has theirs.
SERVING = ("serve", "open")
#: How to run each command once with success, where its plan and its step do not suffice.
RUNS = {
    **{path: plainest(path, plan="small") for path in FAMILIES if path not in SERVING},
    "state claim": ["state", "claim", "small", *SIDE],
    "next": ["next", "small", *SIDE],
    "done": ["done", "--all", *SIDE],
    "validate": ["validate"],
    "plan new": ["plan", "new", "fresh"],
    "plan import": ["plan", "import", "--from", "beads", "beads.jsonl"],
    "state update": ["state", "update", "small", "step-1", "--all", "completed"],
    "state artifact": ["state", "artifact", "small", "step-1", "--kind", "note", "--summary", "x"],
    "state complete": FORCED,
    "state verify": ["state", "verify", "small", "step-1", "--yes"],
    # With --json its standard output is ours for errors, which has to stay empty here.
    "state exec": [
        "state",
        "exec",
        "small",
        "--",
        "sh",
        "-c",
        "test /dev/fd/1 -ef /dev/fd/2 || echo hi",
    ],
    "state restore": ["state", "restore", "--dry-run"],
    "state export": ["state", "export", "--output", "x"],
    "state import": ["state", "import", "x.jsonl"],
    "state move": ["state", "move", "small", "small"],
    "worktree create": CREATE,
    "worktree remove": ["worktree", "remove", MADE],
    "worktree sync": ["worktree", "sync", "--worktree", MADE],
    "worktree clean": ["worktree", "clean", "--worktree", MADE],
    "worktree salvage list": ["worktree", "salvage", "list"],
    "worktree salvage show": ["worktree", "salvage", "show", "small"],
    "worktree salvage apply": ["worktree", "salvage", "apply", "small", *SIDE],
    "commit": ["commit", "--plan", "small", "--step", "step-1", "--message", "x", *SIDE],
    "implement": ["implement", "small", "--dry-run"],
    "dash create": DASH,
    "dash commit": WORK,
    "dash join": ["dash", "join", "ready"],
    "dash release": ["dash", "release", "fix"],
    "dash show": ["dash", "show", "fix"],
    "plugin install": ["plugin", "install", "--dry-run"],
    "serve token add": ["serve", "token", "add", "anna", "--role", "viewer"],
    "serve token list": ["serve", "token", "list"],
    "serve token revoke": ["serve", "token", "revoke", "anna"],
    "completion": ["completion", "bash"],
    "complete-words": ["complete-words", "--", "plan", "sh"],
}
#: Modules of other commands that a command may load beside its own.
BESIDES = {
    "init": {"mcp"},
    "implement": {"worktree"},
    "state exec": {"state"},
}
#: Commands that look, and draw nothing.
PLAIN = {"config", "version", "transcript", "state diff", "state export", "plugin path"}
PLAIN |= {"completion", "complete-words", "hook pre-tool-use"}
DRAWN = {path for path in FAMILIES if access(path) in CHANGING_NOTHING} - PLAIN
#: These have a picture of their own instead of a table.
PICTURES = {"report", "state log", "state review", "state revisions", "state show", "status"}
PICTURES |= {"dash list", "dash show", "doctor"}
OF_WORKTREES = {"worktree list", "worktree salvage list", "worktree salvage show"}
#: The modules that draw for people, and the commands whose text may load them.
DRAWING = {
    "draw.canvas": DRAWN | {"done", "next"},
    "draw.document": {"report"},
    "draw.events": {"state log", "state show"},
    "draw.live": set(),
    "draw.plan": {"state show"},
    "draw.report": {"report"},
    "draw.screen": set(),
    "draw.status": {"state show", "status"} | OF_WORKTREES,
    "draw.tables": DRAWN - PICTURES - OF_WORKTREES,
}

PLAN = """\
## Phase 1.0: Small {#phase-small}

### Plan Metadata {#plan-metadata}

| Field | Value |
|-------|-------|
| Owner | somebody |
| Status | active |
| Last updated | 2026-01-01 |

### Phase Overview {#phase-overview}

### Execution Steps {#execution-steps}

#### Step 1: Only {#step-1}

**References:** (#phase-overview)

**Tasks:**
- [ ] Do it
"""

#: An export of a state without plans.
NO_ROWS = """\
{"format": "tugtool-state", "format_version": 1, "schema_version": 11}
{"end": true, "rows": 0}
"""


@pytest.fixture
def place(repo, monkeypatch) -> Path:
    """A repository with one plan, a linked worktree, and no configuration file."""
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    repo.git("checkout", "--quiet", "-b", "tugdash/ready")
    repo.commit({"ready": "x"})
    repo.git("checkout", "--quiet", "main")
    repo.linked(repo.path / ".tugtree" / "side")
    repo.plan("small", PLAN)
    repo.write({"x.jsonl": NO_ROWS, "beads.jsonl": '{"id": "a", "title": "Only"}'})
    return repo.path


def _probe(code: str, *words: str, cwd: Path) -> tuple[set[str], str]:
    """What a process loads beyond a bare interpreter, and what it prints."""
    code = f"{ON_PATH}\n{code}"
    loaded, out = _imports(code, *words, cwd=cwd)
    bare, _ = _imports("pass", cwd=cwd)
    return loaded - bare, out


def _imports(
    code: str, *words: str, cwd: Path, before: str = "import site"
) -> tuple[set[str], str]:
    # -S and `import site`: all that a start loads, but no .pth file of the machine's, which
    # could load something heavy first and so hide that we do.
    command = [sys.executable, "-I", "-B", "-S", "-X", "importtime", "-c", f"{before}\n{code}"]
    done = subprocess.run(
        [*command, *words], cwd=cwd, capture_output=True, text=True, check=False, input=GIVEN
    )
    told = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    said = [line for line in done.stderr.splitlines() if not line.startswith("import time:")]
    assert (done.returncode, said) == (0, [])
    return {line.rpartition("|")[2].strip() for line in told[1:]}, done.stdout


def _prepare(tugcode, place: Path, lines: list[list[str]]) -> None:
    for line in lines:
        assert tugcode("-C", place, *line).status == 0


def _complaints(loaded: set[str], files: int, lines: int) -> list[str]:
    """What is wrong with the imports of a cheap command, in words."""
    own = {name for name in loaded if name.partition(".")[0] == "tugtool"}
    long = sum(Path(find_spec(name).origin).read_text().count("\n") for name in own)
    # A new command may have its line in the table.
    long -= len(FAMILIES)
    return [
        *(f"{name} is heavy and may never be loaded here" for name in sorted(loaded & HEAVY)),
        *(f"{name} is loaded now; can it wait?" for name in sorted(loaded - own - HEAVY - LIGHT)),
        *([f"{len(own)} files of ours are loaded, {files} may be"] if len(own) > files else []),
        *([f"they have {long} lines, {lines} may be"] if long > lines else []),
    ]


def _cli(loaded: set[str]) -> set[str]:
    prefix = "tugtool.cli."
    return {name.removeprefix(prefix) for name in loaded if name.startswith(prefix)}


def _ready(tugcode, place: Path, line: str) -> None:
    """Whatever the line needs has been done."""
    command = "commit" if line.startswith("commit ") else " ".join(line.split()[:2])
    _prepare(tugcode, place, _before(command))


@pytest.mark.parametrize("line", LIMITS)
def test_a_cheap_command_loads_no_more_than_it_may(place, tugcode, line):
    _ready(tugcode, place, line)
    loaded, _ = _probe(LAUNCHER, *line.split(), cwd=place)
    assert _complaints(loaded, *LIMITS[line]) == []


@pytest.mark.parametrize("line", [line for line in LIMITS if line.startswith("state ")])
def test_a_holder_pays_for_nothing_that_it_does_not_use(place, tugcode, line):
    _ready(tugcode, place, line)
    loaded, _ = _probe(LAUNCHER, *line.split(), cwd=place)
    assert loaded & NOT_FOR_HOLDERS == set()


@pytest.mark.parametrize("line", WITHOUT_OS)
def test_the_most_frequent_commands_do_not_load_os(place, tugcode, line):
    _ready(tugcode, place, line)
    loaded, _ = _imports(LAUNCHER, *line.split(), cwd=place, before=ON_PATH)
    assert "tugtool.system" in loaded
    assert loaded & {"os", "_collections_abc"} == set()
    # With it, so that this can fail.
    loaded, _ = _imports(LAUNCHER, *line.split(), cwd=place, before=f"{ON_PATH}\nimport os")
    assert {"os", "_collections_abc"} <= loaded


@pytest.mark.parametrize("line", [line for line in LIMITS if line.startswith("state ")])
def test_a_state_command_pays_for_neither_trust_nor_confinement(place, tugcode, line):
    _ready(tugcode, place, line)
    (place / ".tugtool" / "config.toml").write_text(CONFINED)
    loaded, _ = _probe(LAUNCHER, *line.split(), cwd=place)
    assert "tugtool.system.config" in loaded
    assert loaded & OF_TRUST == set()
    # A command that runs something does, so that this can fail.
    loaded, _ = _probe(LAUNCHER, "implement", "small", "--dry-run", cwd=place)
    assert loaded & OF_TRUST != set()


def test_a_claim_after_another_attempt_loads_what_tells_of_it_and_nothing_heavy(place, tugcode):
    _prepare(tugcode, place, HELD)
    loaded, out = _probe(LAUNCHER, *CLAIM, "--json", cwd=place)
    assert '"previous_attempt": {' in out
    assert loaded & HEAVY == set()
    assert {"tugtool.workflow.salvage.catch_up", "tugtool.state.claims"} <= loaded


@pytest.mark.parametrize("line", ["state show small --json", "status --json"])
def test_looking_at_a_plan_that_is_worked_on_loads_nothing_heavy(place, tugcode, line):
    _prepare(tugcode, place, HELD)
    loaded, _ = _probe(LAUNCHER, *line.split(), cwd=place)
    assert loaded & HEAVY == set()


def test_the_guard_answers_as_it_is_measured(place):
    _, out = _probe(LAUNCHER, *RUNS["hook pre-tool-use"], cwd=place)
    assert out.startswith('{"hookSpecificOutput": ')


def test_finding_a_plan_by_name_loads_nothing_heavy(place):
    code = (
        "from tugtool import git\n"
        "from tugtool.plan import catalog\n"
        "print(catalog.resolve(git.discover('.'), 'sma', cwd='.').key)\n"
    )
    loaded, out = _probe(code, cwd=place)
    assert out == ".tugtool/tugplan-small.md\n"
    assert loaded & HEAVY == set()


def test_the_check_notices_an_import_at_the_very_start(place):
    planted = f"import json, colorsys, tugtool.plan.parser\n{LAUNCHER}"
    loaded, _ = _probe(planted, "config", "--json", cwd=place)
    complaints = "\n".join(_complaints(loaded, *LIMITS["config --json"]))
    assert "json is heavy" in complaints
    assert "re is heavy" in complaints
    assert "colorsys is loaded now" in complaints
    assert "json.decoder is loaded now" in complaints
    assert "files of ours are loaded" in complaints
    assert "lines, " in complaints


def test_the_limits_are_not_higher_than_they_have_to_be(place, tugcode):
    loaded, _ = _probe(LAUNCHER, "config", "--json", cwd=place)
    files, lines = LIMITS["config --json"]
    assert len(_complaints(loaded, files - 1, lines - 50)) == 2


def _before(command: str) -> list[list[str]]:
    return BEFORE.get(command, HELD if command.startswith("state ") else [])


def _run(command: str, place: Path) -> list[str]:
    made = [str(path) for path in place.glob(".tugtree/*")]
    if command == "implement":
        (place / ".tugtool" / "config.toml").write_text(AGENTS)
    return [made[0] if word == MADE else word for word in RUNS[command]]


def _strangers(command: str, loaded: set[str]) -> set[str]:
    """The modules of other commands that were loaded for one that does not need them."""
    families = {path: place.split()[0] for path, (place, _) in FAMILIES.items()}
    strangers = _cli(loaded) & set(families.values())
    return strangers - {families[command]} - BESIDES.get(command, set())


@pytest.mark.parametrize("command", sampled(RUNS, 9))
def test_json_loads_only_the_module_of_its_command_and_nothing_that_draws(place, tugcode, command):
    _prepare(tugcode, place, _before(command))
    loaded, out = _probe(LAUNCHER, "--json", *_run(command, place), cwd=place)
    assert out.startswith('{"schema_version": ')
    assert _strangers(command, loaded) == set()
    assert _cli(loaded) & DRAWING.keys() == set()


@pytest.mark.parametrize("command", sampled(RUNS, 8))
def test_text_loads_only_the_module_of_its_command_and_what_draws_it(place, tugcode, command):
    _prepare(tugcode, place, _before(command))
    loaded, out = _probe(LAUNCHER, *_run(command, place), cwd=place)
    assert out
    assert _strangers(command, loaded) == set()
    drawing = {module for module, commands in DRAWING.items() if command in commands}
    assert _cli(loaded) & DRAWING.keys() <= drawing


@pytest.mark.parametrize("shape", ["mermaid", "dot"])
def test_a_diagram_in_json_loads_nothing_that_draws_for_people(place, shape):
    words = ["plan", "graph", "small", "--json", "--format", shape]
    loaded, _ = _probe(LAUNCHER, *words, cwd=place)
    assert _cli(loaded) & DRAWING.keys() == set()


def test_only_text_that_could_disturb_a_terminal_loads_what_cleans_it(repo, tugcode):
    for slug, title, loads in (("plain", "Only", False), ("red", "Only \x1b[31mred", True)):
        repo.plan(slug, PLAN.replace("Only", title))
        _prepare(tugcode, repo.path, [["state", "init", slug]])
        # Elsewhere than in the main worktree, which is warned of.
        there = ["--worktree", "elsewhere"]
        text, out = _probe(LAUNCHER, "state", "claim", slug, *there, cwd=repo.path)
        _prepare(tugcode, repo.path, [["state", "release", slug, "step-1", *there]])
        json, _ = _probe(LAUNCHER, "state", "claim", slug, "--json", cwd=repo.path)
        assert "Only" in out
        assert "\x1b" not in out
        assert ("re" in text) == loads
        assert "re" not in json


def test_a_picture_loads_unicode_data_only_for_characters_of_unknown_width(repo, tugcode):
    for slug, title, loads in (("plain", "Only", False), ("broad", "Nur 中", True)):
        repo.plan(slug, PLAN.replace("Only", title))
        _prepare(tugcode, repo.path, [["state", "init", slug]])
        loaded, out = _probe(LAUNCHER, "state", "show", slug, cwd=repo.path)
        assert title in out
        assert ("unicodedata" in loaded) == loads


def test_only_a_configuration_file_that_is_not_plain_loads_the_full_toml_reader(place):
    without, _ = _probe(LAUNCHER, "config", "--json", cwd=place)
    file = place / ".tugtool" / "config.toml"
    file.write_text("[state]\nmax_attempts = 7\n")
    plain, _ = _probe(LAUNCHER, "config", "--json", cwd=place)
    file.write_text("[state]\nmax_attempts = 0x7\n")
    present, out = _probe(LAUNCHER, "config", "--json", cwd=place)
    assert "tugtool.system.toml" not in without
    assert "tomllib" not in plain
    assert "tomllib" in present
    assert '"value": 7' in out
