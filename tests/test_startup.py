"""What a command loads. Imports are most of what a command costs, so they are counted.

Every probe is a real process of its own that starts the way the installed launcher does.
When a test here complains, first ask whether the new import can wait until it is needed;
only then add it to the list of what the command may load.
"""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tugtool.cli.table import COMMANDS
from worktree_fixtures import IDENTITY

LAUNCHER = (Path(__file__).parent.parent / "scripts" / "tugcode").read_text()

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
    "rich",
    "shutil",
    "subprocess",
    "tempfile",
    "tomllib",
    "typing",
}

#: Read by every command: the way in, the way out, and the vocabulary.
EVERY_COMMAND = {
    "__future__",
    "_json",
    "gc",
    "tugtool",
    "tugtool.cli",
    "tugtool.cli.main",
    "tugtool.cli.output",
    "tugtool.cli.parse",
    "tugtool.cli.grammar",
    "tugtool.cli.table",
    "tugtool.config",
    "tugtool.errors",
    "tugtool.files",
    "tugtool.jsontext",
}
IN_A_REPOSITORY = {"tugtool.git", "tugtool.repository"}
TABLE_REPO = {"tugtool.cli.table_repo"}
#: Help speaks of everything, and so does whatever is looked for in every list.
TABLES = TABLE_REPO | {
    "tugtool.cli.table_git",
    "tugtool.cli.table_hook",
    "tugtool.cli.table_implement",
    "tugtool.cli.table_commit",
    "tugtool.cli.table_dash",
    "tugtool.cli.table_look",
    "tugtool.cli.table_merge",
    "tugtool.cli.table_people",
    "tugtool.cli.table_plan",
    "tugtool.cli.table_plugin",
    "tugtool.cli.table_run",
    "tugtool.cli.table_state",
    "tugtool.cli.table_verify",
}
CONFIG = EVERY_COMMAND | IN_A_REPOSITORY | TABLE_REPO | {"tugtool.cli.repo"}
HELP = EVERY_COMMAND | TABLES | {"tugtool.cli.help"}
#: SQLite's C module, without what it usually brings along.
SQLITE = {"_functools", "_sqlite3", "tugtool.store", "tugtool.store.linked"}
VERSION = CONFIG | SQLITE | {"select"}
SHA_256 = "_sha256" if sys.version_info < (3, 12) else "_sha2"
#: What every command of whoever holds a step needs; all of it is used.
STATE = (
    EVERY_COMMAND
    | IN_A_REPOSITORY
    | SQLITE
    | {
        "fcntl",
        "tugtool.cli.place",
        "tugtool.cli.state",
        "tugtool.cli.table_state",
        "tugtool.clock",
        "tugtool.holder",
        "tugtool.plan",
        "tugtool.plan.catalog",
        "tugtool.plan.fingerprint",
        "tugtool.state",
        "tugtool.state.record",
        "tugtool.state_errors",
        "tugtool.store.mark",
        "tugtool.store.queue",
        "tugtool.store.schema",
        "tugtool.store.sql",
        "tugtool.store.sqlite",
        "tugtool.store.transaction",
    }
)
#: And what one of them needs beyond.
CLAIMING = {SHA_256, "tugtool.state.claiming"}
HOLDING = {
    "state claim small --json": CLAIMING,
    "state claim --json": CLAIMING,
    "state heartbeat small step-1 --json": {"tugtool.state.holding", "tugtool.state.ripple"},
}
#: A step's commit, which has more to do; what it loads is all used.
COMMIT = (STATE - {"tugtool.cli.state"}) | {
    SHA_256,
    "select",
    "tugtool.cli.commit",
    "tugtool.cli.table_commit",
    "tugtool.commit",
    "tugtool.crash",
    "tugtool.git_errors",
    "tugtool.index",
    "tugtool.intent",
    "tugtool.lingering",
    "tugtool.log",
    "tugtool.message",
    "tugtool.state.finishing",
    "tugtool.state.holding",
    "tugtool.state.ripple",
    "tugtool.store.sql_commit",
    "tugtool.trailers",
    "tugtool.tree",
}
#: Commands that must be cheap, and exactly what each loads beyond a bare interpreter.
CHEAP = {
    "config --json": CONFIG,
    "--help": HELP,
    "validate --help": HELP,
    "plan --help --json": HELP,
    "version": VERSION,
    "--version --json": VERSION,
}
#: What it takes to find the plan that a name means.
RESOLVE = {
    "__future__",
    "tugtool",
    "tugtool.config",
    "tugtool.errors",
    "tugtool.files",
    "tugtool.git",
    "tugtool.plan",
    "tugtool.plan.catalog",
    "tugtool.repository",
}

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
    "implement": [CREATE],
    "state init": [],
    "state claim": [INIT],
    "state reopen": [*HELD, FORCED],
    "state archive": [INIT],
    "state exec": [INIT],
    "state import": [],
    "worktree list": [CREATE],
    "worktree remove": [CREATE],
    "worktree cleanup": [CREATE],
    "worktree sync": [CREATE],
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
#: What the guard loads, which a client pays before every single tool call.
GUARD = {
    "__future__",
    "_json",
    "gc",
    "select",
    "tugtool",
    "tugtool.cli",
    "tugtool.cli.grammar",
    "tugtool.cli.hook",
    "tugtool.cli.main",
    "tugtool.cli.output",
    "tugtool.cli.parse",
    "tugtool.cli.table",
    "tugtool.config",
    "tugtool.errors",
    "tugtool.files",
    "tugtool.guard",
    "tugtool.guard.calls",
    "tugtool.guard.files",
    "tugtool.guard.gitlook",
    "tugtool.guard.judge",
    "tugtool.guard.line",
    "tugtool.guard.looking",
    "tugtool.guard.options",
    "tugtool.guard.paths",
    "tugtool.guard.place",
    "tugtool.guard.programs",
    "tugtool.guard.refused",
    "tugtool.guard.rules",
    "tugtool.guard.sed",
    "tugtool.guard.shell",
    "tugtool.guard.targets",
    "tugtool.guard.variables",
    "tugtool.guard.wild",
    "tugtool.guard.words",
    "tugtool.jsontext",
}
#: Without these, `implement` does not even say what it would do.
AGENTS = '[agents.default]\ncommand = ["sh"]\n'
#: How to run each command once with success; of the cli, only these may be loaded for JSON.
RUNS = {
    "init": (["init"], {"repo"}),
    "status": (["status"], {"place", "status"}),
    "validate": (["validate"], {"plan"}),
    "list": (["list"], {"plan"}),
    "plan new": (["plan", "new", "fresh"], {"plan"}),
    "plan show": (["plan", "show", "small"], {"plan"}),
    "plan graph": (["plan", "graph", "small"], {"plan"}),
    "state init": (["state", "init", "small"], {"place", "plan", "state_admin"}),
    "state claim": (["state", "claim", "small"], {"place", "state"}),
    "state start": (["state", "start", "small", "step-1"], {"place", "state"}),
    "state heartbeat": (["state", "heartbeat", "small", "step-1"], {"place", "state"}),
    "state update": (
        ["state", "update", "small", "step-1", "--all", "completed"],
        {"batch", "place", "state"},
    ),
    "state artifact": (
        ["state", "artifact", "small", "step-1", "--kind", "note", "--summary", "x"],
        {"place", "state"},
    ),
    "state complete": (FORCED, {"place", "state"}),
    "state verify": (
        ["state", "verify", "small", "step-1", "--yes"],
        {"batch", "place", "state_verify"},
    ),
    # With --json its standard output is ours for errors, which has to stay empty here.
    "state exec": (
        ["state", "exec", "small", "--", "sh", "-c", "test /dev/fd/1 -ef /dev/fd/2 || echo hi"],
        {"foreground", "place", "state", "state_exec", "tending"},
    ),
    "state ready": (["state", "ready", "small"], {"place", "state_look"}),
    "state why": (["state", "why", "small", "step-1"], {"place", "state_history"}),
    "state log": (["state", "log", "small"], {"place", "state_history"}),
    "state stats": (["state", "stats", "small"], {"place", "state_history"}),
    "state show": (["state", "show", "small"], {"place", "sight", "state_look"}),
    "state diff": (["state", "diff", "small"], {"place", "plan", "state_revise"}),
    "state release": (["state", "release", "small", "step-1"], {"place", "state_admin"}),
    "state reset": (["state", "reset", "small", "step-1"], {"place", "state_admin"}),
    "state reopen": (
        ["state", "reopen", "small", "step-1", "--reason", "x"],
        {"place", "state_admin"},
    ),
    "state pause": (["state", "pause", "small"], {"place", "state_admin"}),
    "state resume": (["state", "resume", "small"], {"place", "state_admin"}),
    "state restore": (["state", "restore", "--dry-run"], {"place", "state_restore"}),
    "state review": (["state", "review", "small"], {"naming", "place", "state_review"}),
    "state archive": (["state", "archive", "small"], {"place", "state_records"}),
    "state prune": (["state", "prune"], {"place", "state_records"}),
    "state export": (["state", "export", "--output", "x"], {"place", "state_records"}),
    "state import": (["state", "import", "x.jsonl"], {"place", "state_records"}),
    "worktree create": (CREATE, {"place", "plan", "worktree"}),
    "worktree list": (["worktree", "list"], {"place", "worktree"}),
    "worktree remove": (["worktree", "remove", MADE], {"place", "worktree"}),
    "worktree cleanup": (["worktree", "cleanup"], {"place", "worktree"}),
    "worktree sync": (["worktree", "sync", "--worktree", MADE], {"place", "worktree"}),
    "worktree salvage list": (["worktree", "salvage", "list"], {"place", "salvage"}),
    "worktree salvage show": (["worktree", "salvage", "show", "small"], {"place", "salvage"}),
    "worktree salvage apply": (
        ["worktree", "salvage", "apply", "small", *SIDE],
        {"place", "salvage"},
    ),
    "worktree salvage prune": (["worktree", "salvage", "prune"], {"place", "salvage"}),
    "commit": (
        ["commit", "--plan", "small", "--step", "step-1", "--message", "x", *SIDE],
        {"commit", "place"},
    ),
    "state reconcile": (["state", "reconcile", "small"], {"place", "state_reconcile"}),
    "merge": (["merge", "small"], {"merge", "place"}),
    "implement": (
        ["implement", "small", "--dry-run"],
        {"implement", "place", "plan", "worktree"},
    ),
    "doctor": (["doctor"], {"doctor"}),
    "dash create": (DASH, {"dash", "place"}),
    "dash commit": (WORK, {"dash", "place"}),
    "dash join": (["dash", "join", "ready"], {"dash", "place"}),
    "dash release": (["dash", "release", "fix"], {"dash", "place"}),
    "dash list": (["dash", "list"], {"dash", "place"}),
    "dash show": (["dash", "show", "fix"], {"dash", "place"}),
    "hook pre-tool-use": (["hook", "pre-tool-use"], {"hook"}),
    "plugin path": (["plugin", "path"], {"place", "plugin"}),
    "plugin install": (["plugin", "install", "--dry-run"], {"place", "plugin"}),
    "config": (["config"], {"repo"}),
    "version": (["version"], {"repo"}),
    "completion": (["completion", "bash"], {"completion"}),
    "complete-words": (["complete-words", "--", "plan", "sh"], {"completion"}),
}
FRAME = {
    "grammar",
    "main",
    "output",
    "parse",
    "table",
}
#: What people's output may load on top; nothing else does.
FOR_PEOPLE = {
    "validate": {"render"},
    "list": {"render"},
    "plan show": {"render"},
    "plan graph": {"diagram", "render"},
    "status": {"canvas", "naming", "picture", "survey"},
    "state log": {"naming", "telling"},
    "state stats": {"figures"},
    "state why": {"naming"},
    "state show": {"canvas", "naming", "picture"},
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
    repo.write({"x.jsonl": NO_ROWS})
    return repo.path


def _probe(code: str, *words: str, cwd: Path) -> tuple[set[str], str]:
    """What a process loads beyond a bare interpreter, and what it prints."""
    places = [str(Path(find_spec(name).origin).parent.parent) for name in ("tugtool", "rich")]
    code = f"import sys\nsys.path[:0] = {places!r}\n{code}"
    loaded, out = _imports(code, *words, cwd=cwd)
    bare, _ = _imports("pass", cwd=cwd)
    return loaded - bare, out


def _imports(code: str, *words: str, cwd: Path) -> tuple[set[str], str]:
    # -S and `import site`: all that a start loads, but no .pth file of the machine's, which
    # could load something heavy first and so hide that we do.
    command = [sys.executable, "-I", "-B", "-S", "-X", "importtime", "-c", f"import site\n{code}"]
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


def _complaints(loaded: set[str], allowed: set[str]) -> list[str]:
    """What is wrong with the imports of a command, in words."""
    heavy = sorted(loaded & HEAVY)
    new = sorted(loaded - allowed - HEAVY)
    gone = sorted(allowed - loaded)
    return [
        *(f"{name} is heavy and may never be loaded here" for name in heavy),
        *(f"{name} is loaded now; can it wait? If not, allow it here" for name in new),
        *(f"{name} is no longer loaded; take it off the list" for name in gone),
    ]


def _cli(loaded: set[str]) -> set[str]:
    """The modules of the cli; of the table, whichever lists were searched is beside the point."""
    prefix = "tugtool.cli."
    names = {name.removeprefix(prefix) for name in loaded if name.startswith(prefix)}
    return {name for name in names if not name.startswith("table_")}


@pytest.mark.parametrize("line", CHEAP)
def test_a_cheap_command_loads_just_what_it_needs(place, line):
    loaded, _ = _probe(LAUNCHER, *line.split(), cwd=place)
    assert _complaints(loaded, CHEAP[line]) == []


@pytest.mark.parametrize("line", HOLDING)
def test_a_state_command_loads_just_what_it_needs(place, tugcode, line):
    _prepare(tugcode, place, [INIT] if " claim " in line else HELD)
    loaded, _ = _probe(LAUNCHER, *line.split(), cwd=place)
    assert _complaints(loaded, STATE | HOLDING[line]) == []


def test_a_claim_after_another_attempt_loads_what_tells_of_it_and_nothing_heavy(place, tugcode):
    _prepare(tugcode, place, HELD)
    loaded, out = _probe(LAUNCHER, *CLAIM, "--json", cwd=place)
    assert '"previous_attempt": {' in out
    assert loaded & HEAVY == set()
    assert {"tugtool.salvaging", "tugtool.state.resuming"} <= loaded


def test_a_commit_loads_just_what_it_needs(place, tugcode):
    _prepare(tugcode, place, BEFORE["commit"])
    loaded, _ = _probe(LAUNCHER, *RUNS["commit"][0], "--json", cwd=place)
    assert _complaints(loaded, COMMIT) == []


def test_the_guard_loads_just_what_it_needs(place):
    loaded, out = _probe(LAUNCHER, *RUNS["hook pre-tool-use"][0], cwd=place)
    assert out.startswith('{"hookSpecificOutput": ')
    assert _complaints(loaded, GUARD) == []


def test_finding_a_plan_by_name_loads_nothing_heavy(place):
    code = (
        "from tugtool import repository\n"
        "from tugtool.plan import catalog\n"
        "print(catalog.resolve(repository.discover('.'), 'sma', cwd='.').key)\n"
    )
    loaded, out = _probe(code, cwd=place)
    assert out == ".tugtool/tugplan-small.md\n"
    assert _complaints(loaded, RESOLVE) == []


def test_the_check_notices_an_import_at_the_very_start(place):
    loaded, _ = _probe(f"import json, colorsys\n{LAUNCHER}", "config", "--json", cwd=place)
    complaints = "\n".join(_complaints(loaded, CONFIG))
    assert "json is heavy" in complaints
    assert "re is heavy" in complaints
    assert "colorsys is loaded now" in complaints
    assert "json.decoder is loaded now" in complaints


def test_the_check_notices_what_is_allowed_for_nothing(place):
    loaded, _ = _probe(LAUNCHER, "config", "--json", cwd=place)
    assert _complaints(loaded, {*CONFIG, "colorsys"}) == [
        "colorsys is no longer loaded; take it off the list"
    ]


def _before(command: str) -> list[list[str]]:
    return BEFORE.get(command, HELD if command.startswith("state ") else [])


def _run(command: str, place: Path) -> tuple[list[str], set[str]]:
    words, own = RUNS[command]
    made = [str(path) for path in place.glob(".tugtree/*")]
    if command == "implement":
        (place / ".tugtool" / "config.toml").write_text(AGENTS)
    return [made[0] if word == MADE else word for word in words], own


def test_every_command_is_tried():
    assert set(RUNS) == set(COMMANDS), "add how to run the new command to RUNS"


@pytest.mark.parametrize("command", RUNS)
def test_json_loads_only_the_module_of_its_command_and_never_rich(place, tugcode, command):
    _prepare(tugcode, place, _before(command))
    words, own = _run(command, place)
    loaded, out = _probe(LAUNCHER, "--json", *words, cwd=place)
    assert out.startswith('{"schema_version": ')
    assert _cli(loaded) == FRAME | own
    assert "rich" not in loaded


@pytest.mark.parametrize("command", RUNS)
def test_text_loads_only_the_module_of_its_command_and_what_draws_it(place, tugcode, command):
    _prepare(tugcode, place, _before(command))
    words, own = _run(command, place)
    loaded, out = _probe(LAUNCHER, *words, cwd=place)
    assert out
    drawing = FOR_PEOPLE.get(command, set())
    assert FRAME | own <= _cli(loaded) <= FRAME | own | drawing
    assert ("rich" in loaded) == ("render" in _cli(loaded))


@pytest.mark.parametrize("shape", ["mermaid", "dot"])
def test_a_diagram_in_json_loads_what_draws_diagrams_and_not_rich(place, shape):
    words = ["plan", "graph", "small", "--json", "--format", shape]
    loaded, _ = _probe(LAUNCHER, *words, cwd=place)
    assert _cli(loaded) == {*FRAME, "plan", "diagram"}
    assert "rich" not in loaded


def test_only_text_that_could_disturb_a_terminal_loads_what_cleans_it(repo):
    repo.plan("small", PLAN.replace("Only", "Only \x1b[31mred"))
    json, _ = _probe(LAUNCHER, "plan", "show", "--json", cwd=repo.path)
    text, _ = _probe(LAUNCHER, "plan", "show", cwd=repo.path)
    assert _cli(json) == {*FRAME, "plan"}
    assert _cli(text) == {*FRAME, "plan", "render", "terminal"}


def test_a_picture_loads_rich_only_for_characters_of_unknown_width(repo, tugcode):
    for slug, title, loads in (("plain", "Only", False), ("broad", "Nur 中", True)):
        repo.plan(slug, PLAN.replace("Only", title))
        _prepare(tugcode, repo.path, [["state", "init", slug]])
        loaded, out = _probe(LAUNCHER, "state", "show", slug, cwd=repo.path)
        assert title in out
        assert ("rich.cells" in loaded) == loads
        assert "rich.text" not in loaded


def test_only_a_configuration_file_loads_the_toml_reader(place):
    without, _ = _probe(LAUNCHER, "config", "--json", cwd=place)
    (place / ".tugtool" / "config.toml").write_text("[state]\nmax_attempts = 7\n")
    present, out = _probe(LAUNCHER, "config", "--json", cwd=place)
    assert "tomllib" not in without
    assert "tomllib" in present
    assert '"value": 7' in out
