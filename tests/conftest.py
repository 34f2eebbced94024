"""Real repositories in temporary directories, cut off from the person's own settings."""

import functools
import gc
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

import tugtool
from support.templates import Template, Templates
from tugtool.cli.main import main, wants_json
from tugtool.workflow.doctor import guard, machine

pytest_plugins = [
    f"support.{name}" for name in ("covering", "leaks", "named_writes", "proving", "compiled")
]

#: What only Linux offers: to watch system calls, to have a disk of one's own.
if sys.platform != "linux":
    collect_ignore = [f"proof/test_{name}.py" for name in ("damage", "disk", "power", "syscalls")]

DATES = {"GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z"}

#: For commits that tests make themselves: git would start a second process to look for litter.
QUICKLY = ("-c", "maintenance.auto=false")

#: Variables that change what git or we do begin so.
OURS = ("GIT_", "TUGCODE_")

# Thousands of processes are started here, and each would compile all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Python starts as fast in one test as in the next, and to measure it takes doctor six processes.
machine.milliseconds = functools.cache(machine.milliseconds)


def _asked_once(problem: Callable[[tuple[str, ...], str], str | None]) -> Callable:
    """The installation's own guard answers in one test as in the next; tests of it ask anew."""
    known: dict[tuple[str, ...], str | None] = {}

    @functools.wraps(problem)
    def asked(argv: tuple[str, ...], cwd: str) -> str | None:
        if argv[0] != sys.executable:
            return problem(argv, cwd)
        if argv not in known:
            known[argv] = problem(argv, cwd)
        return known[argv]

    return asked


guard._problem = _asked_once(guard._problem)
guard._mcp_problem = _asked_once(guard._mcp_problem)

# Memory, if there is enough of it to write files to: few tests are about disks, and they say so.
MEMORY = "/dev/shm"
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 1 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)

# Whoever runs the tests in the background has them ignore interrupts, and all they start.
USUAL = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGQUIT: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
    signal.SIGTERM: signal.SIG_DFL,
}


def heed_signals() -> list[str]:
    """Ignore no signal that ends a process: its children would too. Return those that were."""
    # A library may have asked for it, of which Python knows nothing.
    status = Path("/proc/self/status")
    found = re.search(r"^SigIgn:\s*(\w+)", status.read_text(), re.M) if status.exists() else None
    known = int(found[1], 16) if found else 0
    ignored = [
        each
        for each in USUAL
        if known >> (each - 1) & 1 or signal.getsignal(each) is signal.SIG_IGN
    ]
    for each in ignored:
        signal.signal(each, USUAL[each])
    blocked = [each for each in signal.pthread_sigmask(signal.SIG_UNBLOCK, USUAL) if each in USUAL]
    return [signal.Signals(each).name for each in (*ignored, *blocked)]


heed_signals()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """A test that leaves signals ignored would make later ones wait for ever."""
    ignored = heed_signals()
    assert not ignored, f"{item.nodeid} left these ignored or blocked: {ignored}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two more than there are cores: many tests wait for processes, some for time to pass."""
    return (os.cpu_count() or 1) + 2


def pytest_collection_finish() -> None:
    """What thousands of tests are made of stays anyway: nobody has to look it through again."""
    gc.freeze()


#: Tests make their repositories themselves; test_trust.py is about those of others.
TRUST = {"TUGCODE_TRUST": "1", "XDG_STATE_HOME": f"{os.devnull}/state"}
# Also for what a whole module shares.
os.environ.update(TRUST)


def _isolate(monkeypatch: pytest.MonkeyPatch) -> None:
    """No home, no global git configuration, no variables that change what git or we do."""
    for name in list(os.environ):
        if name.startswith(OURS) or name in ("NO_COLOR", "COLUMNS"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", "/nonexistent")
    for name, value in TRUST.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture(autouse=True)
def _isolated(monkeypatch, tmp_path_factory):
    _isolate(monkeypatch)
    # Nothing above the temporary directory may be taken for a repository.
    assert not (tmp_path_factory.getbasetemp() / ".git").exists()


@pytest.fixture
def uncollected():
    """What other tests left open is closed before, or stays: nothing is closed in between."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Repo:
    """A real repository at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._templates: Templates | None = None
        self._template: Template | None = None
        #: All that was done to come here.
        self._key: tuple = ()

    @classmethod
    def of(cls, templates: Templates, path: Path) -> "Repo":
        """A repository with one commit, at a new place."""
        repo = cls(path)
        repo._templates = templates
        repo._template = templates.get((), None, _with_one_commit)
        repo._template.write(path)
        return repo

    def live(self) -> None:
        """From now on everything is made here: what processes leave beside a database counts."""
        self._template = None

    def become(self, *key: object, make: Callable[["Repo"], object]) -> object:
        """Do what `make` does and return that; its outcome is copied if it was made before."""
        before = self._template
        if not (self._templates and before and before.is_at(self.path)):
            return make(self)
        outside = {name: value for name, value in os.environ.items() if name.startswith(OURS)}
        whole = (self._key, *key, *sorted(outside.items()))
        template = self._templates.get(whole, before, lambda path: make(Repo(path)))
        shutil.rmtree(self.path)
        template.write(self.path)
        self._template, self._key = template, whole
        return template.memory

    @classmethod
    def init(cls, path: Path, *options: str) -> "Repo":
        path.mkdir(parents=True, exist_ok=True)
        git("init", "--quiet", "--initial-branch=main", "--template=", *options, cwd=path)
        return cls(path)

    def git(self, *arguments: str) -> str:
        return git(*arguments, cwd=self.path)

    def write(self, files: dict[str, str | bytes]) -> None:
        for name, content in files.items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def commit(self, files: dict[str, str | bytes] | None = None) -> str:
        self.write(files or {"file": "x\n"})
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=work")
        return head(self.path)

    def plan(self, slug: str, text: str) -> Path:
        self.write({f".tugtool/tugplan-{slug}.md": text})
        return self.path / ".tugtool" / f"tugplan-{slug}.md"

    def linked(self, path: Path, branch: str = "side") -> Path:
        self.git("worktree", "add", "--quiet", "-b", branch, str(path))
        return path


def git(*arguments: str, cwd: Path) -> str:
    """Git itself, with a fixed identity and fixed dates."""
    identity = ["-c", "user.name=Tug", "-c", "user.email=tug@example.invalid"]
    identity += ["-c", "protocol.file.allow=always"]
    done = subprocess.run(
        ["git", *QUICKLY, *identity, *arguments],
        cwd=cwd,
        env={**os.environ, **DATES},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def head(at: Path) -> str:
    """The commit that is checked out, out of git's own files, for this is asked very often."""
    link = at / ".git"
    place = at / link.read_text().removeprefix("gitdir: ").strip() if link.is_file() else link
    found = place / "HEAD"
    if found.exists() and (name := found.read_text().strip()).startswith("ref: "):
        shared = place / "commondir"
        found = place / (shared.read_text().strip() if shared.exists() else "") / name[5:]
    # Where it does not lie open: in packed refs, in a directory inside.
    return found.read_text().strip() if found.exists() else git("rev-parse", "HEAD", cwd=at).strip()


def _with_one_commit(path: Path) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        _isolate(monkeypatch)
        Repo.init(path).commit()


@pytest.fixture(scope="session")
def templates(tmp_path_factory) -> Templates:
    """What was made once, to be copied."""
    return Templates(tmp_path_factory.mktemp("templates"))


@pytest.fixture
def repo(tmp_path, templates) -> Repo:
    """A repository with one commit."""
    return Repo.of(templates, tmp_path / "repo")


class Result:
    """What a command did: exit status, standard output, standard error."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    def envelope(self) -> dict:
        """The one JSON document on standard output."""
        return json.loads(self.out)

    @property
    def data(self) -> dict:
        return self.envelope()["data"]

    @property
    def codes(self) -> list[str]:
        return [issue["code"] for issue in self.envelope()["issues"]]


def hold_against_schemas(envelope: dict) -> None:
    """Every JSON answer in the tests has the shape that the package promises."""
    schema("envelope").validate(envelope)
    data = envelope["data"]
    if data or envelope["status"] == "ok":
        name = "help" if set(data) == {"help"} else envelope["command"].replace(" ", "-")
        schema(name).validate(data)


@functools.cache
def schema(name: str) -> jsonschema.Draft202012Validator:
    """A schema of the package, ready to be held against an answer."""
    path = Path(tugtool.__file__).parent / "schemas" / f"{name}.json"
    return jsonschema.Draft202012Validator(json.loads(path.read_text()))


@pytest.fixture
def tugcode(capsys):
    """Run a command line in this process: `tugcode("-C", path, "list", "--json")`."""

    def run(*words: object) -> Result:
        line = [str(word) for word in words]
        result = Result(main(line), *capsys.readouterr())
        if wants_json(line):
            hold_against_schemas(result.envelope())
        return result

    return run


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    from support import engines

    engines.parametrise(metafunc)


@pytest.fixture
def engine(request, tmp_path_factory):
    """The engine on which the test's states lie; see `support.engines`."""
    from support import engines

    with engines.on(request.param, engines.session_root(tmp_path_factory)):
        yield request.param


@pytest.fixture
def server(tmp_path_factory):
    """States lie in PostgreSQL; for a test that is about that engine alone, or about both."""
    from support import engines

    with engines.on("postgres", engines.session_root(tmp_path_factory)):
        yield


@pytest.fixture
def lab(tmp_path):
    """Make a plan's state with a clock set by hand: `lab("1 tt", "2 t < 1")`."""
    from support.state import Lab

    made: list[Lab] = []

    def make(*lines: str, **how: int | str) -> Lab:
        made.append(Lab(tmp_path, *lines, **how))
        return made[-1]

    yield make
    for each in made:
        each.store.close()


@pytest.fixture
def desk(repo, tugcode, monkeypatch):
    """Make a repository with the plan `work` and two linked worktrees, and record the plan."""
    from support.state import Desk

    def make(*lines: str, init: bool = True) -> Desk:
        return Desk(repo, tugcode, monkeypatch, *lines, init=init)

    return make


@pytest.fixture
def yard(repo, tugcode, monkeypatch):
    """Make a repository with the plan `work` committed, for worktrees: `yard("1 t", "2 t < 1")`."""
    from support.worktree import IDENTITY, Yard

    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    return lambda *lines: Yard(repo, tugcode, *(lines or ("1", "2", "3 < 1 2")))


@pytest.fixture
def bench(repo, tugcode, monkeypatch):
    """As `desk`, for commits: red and blue have a name that git takes."""
    from support.commit import IDENTITY, Bench

    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)

    def make(*lines: str) -> Bench:
        return Bench(repo, tugcode, monkeypatch, *lines, init=True)

    return make


@pytest.fixture
def work(repo, tugcode, monkeypatch):
    """Make a repository with the plan `work` on main, recorded: `work("1 t", "2 t < 1")`."""
    from support.work import IDENTITY, Work

    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)

    def make(*lines: str, **how: str) -> Work:
        return Work(repo, tugcode, *lines, **how)

    return make


@pytest.fixture
def play(repo, tugcode, capsys, monkeypatch):
    """Make a repository with the plan `work` and scripted agents: `play("1 t", "2 t < 1")`."""
    from support.implement import IDENTITY, Play

    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    made: list[Play] = []

    def make(*lines: str) -> Play:
        made.append(Play(repo, tugcode, capsys, *(lines or ("1 tec", "2 t < 1"))))
        monkeypatch.setattr("tugtool.implement.cooling.Timer", lambda: made[-1].timer)
        return made[-1]

    yield make
    for each in made:
        each.end()


@pytest.fixture
def clinic(repo, tugcode, monkeypatch):
    """Make a healthy repository with the plan `work` and a worktree: `clinic("1 t", "2 t < 1")`."""
    from support.doctor import Clinic
    from support.worktree import IDENTITY

    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    return lambda *lines: Clinic(repo, tugcode, *(lines or ("1 t", "2 t < 1", "3 < 1")))


@pytest.fixture
def field(repo, tugcode, monkeypatch):
    """A repository with the plan `work` committed, for dashes."""
    from support.dash import Field
    from support.worktree import IDENTITY

    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    return Field(repo, tugcode, "1", "2 < 1")
