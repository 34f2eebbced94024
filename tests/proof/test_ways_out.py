"""Thirty ways out of a worktree, tried by a confined agent and by a free one.

Confined, nothing outside changes. Free, each way works: so a confinement that does nothing
fails here, and so does a way that never worked.
"""

import os
import pty
import resource
import select
import signal
import socket
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

from conftest import Repo
from tugtool.agents.confinement import ConfinedPlace
from tugtool.git import discover
from tugtool.system import command, config, process
from tugtool.system.agent_config import Agent
from tugtool.system.command import Streams
from tugtool.workflow import trust, verify

pytestmark = pytest.mark.proof(share=0)

PYTHON = sys.executable
#: Name -> a shell line. $OUT is a directory outside, $VICTIM a file there, $REC the record, $ROOT
#: the main worktree, $OTHER another worktree, $PID a process of the same user, $SOCKET the abstract
#: name of a socket.
WAYS = {
    "a redirection": 'echo x >"$VICTIM"',
    "an addition": 'echo x >>"$VICTIM"',
    "a new file": 'touch "$OUT/new"',
    "a removal": 'rm -f "$VICTIM"',
    "a directory": 'mkdir "$OUT/new"',
    "the removal of a directory": 'rmdir "$OUT/empty"',
    "dots": "echo x >../../../outside/victim",
    "a link": 'ln -s "$OUT" link && echo x >link/victim',
    "a link in the temporary directory": 'ln -s "$VICTIM" "$TMPDIR/l" && echo x >"$TMPDIR/l"',
    "a link made outside": 'ln -s /etc/passwd "$OUT/link"',
    "a hard link in": 'ln "$VICTIM" hard && echo x >hard',
    "a hard link out": 'ln code.txt "$OUT/hard"',
    "a move out": 'cp code.txt moved && mv moved "$OUT/moved"',
    "a move in": 'mv "$VICTIM" taken',
    "a renaming outside": 'mv "$VICTIM" "$OUT/renamed"',
    "an exchange": f'{PYTHON} -c "import os; os.replace(\\"code.txt\\", \\"$VICTIM\\")"',
    "a copy of git": 'cp "$(command -v git)" ./g && ./g -C "$ROOT" -c user.name=x '
    "-c user.email=x@x commit --quiet --allow-empty -m x",
    "git": 'git -C "$ROOT" config x.y z',
    "a commit in the worktree": "git -c user.name=x -c user.email=x@x commit --quiet "
    "--allow-empty -m x",
    "a branch": "git update-ref refs/heads/x HEAD",
    "a hook": 'mkdir -p "$ROOT/.git/hooks" && echo x >"$ROOT/.git/hooks/pre-commit"',
    "Python": f"{PYTHON} -c \"open('$VICTIM', 'w').write('x')\"",
    "Python's truncate": f"{PYTHON} -c \"import os; os.truncate('$VICTIM', 0)\"",
    "Perl": 'perl -e \'open F, ">", $ENV{VICTIM}; print F "x"\'',
    "an archive": "tar -xPf archive.tar",
    "a zip": f'cd "$OUT" && {PYTHON} -m zipfile -e "$OLDPWD/archive.zip" .',
    "a patch": 'cd "$OUT" && patch --quiet -p0 <"$OLDPWD/change.patch"',
    "dd": 'dd if=code.txt of="$VICTIM" conv=notrunc 2>/dev/null',
    "a script with a hash-bang": "./script",
    "a process of its own session": "setsid sh -c 'echo x >\"$VICTIM\"'; sleep 0.2",
    "the record": 'echo x >"$REC"',
    "the record's removal": 'rm -f "$REC"',
    "the record by SQLite": f"{PYTHON} -c \"import sqlite3; c = sqlite3.connect('$REC'); "
    "c.execute('create table x (y)'); c.commit()\"",
    "the main worktree": 'echo x >"$ROOT/code.txt"',
    "another worktree": 'echo x >"$OTHER/code.txt"',
    "the settings": 'echo "[notify]" >"$ROOT/.tugtool/config.toml"',
    "the home": 'echo x >"$HOME/.profile"',
    "a process's open file": 'echo x >"/proc/$PID/cwd/victim"',
    "a signal": 'kill -TERM "$PID"',
    "a FIFO": 'mkfifo "$OUT/fifo"',
    "a tracer that ends with its process": f"{PYTHON} -c 'import ctypes, os; "
    'ctypes.CDLL(None).ptrace(0x4206, int(os.environ["PID"]), 0, 1 << 20)\'',
    "a limit of another process": 'prlimit --pid "$PID" --nofile=5',
    "an abstract socket": f'{PYTHON} -c "import socket; s = socket.socket(socket.AF_UNIX); '
    "s.connect('\\x00$SOCKET'); s.send(b'x')\"",
}
#: These end the process in their own time.
ENDING = (WAYS["a signal"], WAYS["a tracer that ends with its process"])


class Ground(NamedTuple):
    """A repository with two worktrees, and what lies outside of the agent's own."""

    root: Path
    tree: Path
    outside: Path
    env: dict[str, str]
    victim: subprocess.Popen
    listening: socket.socket

    def state(self) -> object:
        """All that may not change: every file outside, the process, git's refs, the socket."""
        found = {}
        for top in (self.root, self.outside, Path(self.env["HOME"])):
            for path in sorted(top.rglob("*")):
                if not path.is_relative_to(self.tree):
                    status = path.lstat()
                    read = path.is_file() and not path.is_symlink()
                    kept = path.read_bytes() if read else b""
                    found[str(path)] = (status.st_mode, status.st_nlink, kept)
        ended = self.victim.poll()
        limits = ended is None and resource.prlimit(self.victim.pid, resource.RLIMIT_NOFILE)
        return found, ended, limits, bool(select.select([self.listening], [], [], 0)[0])


@pytest.fixture
def ground(tmp_path, monkeypatch):
    made: list[Ground] = []

    def make(name: str) -> Ground:
        place = tmp_path / name
        root = Repo.init(place / "repo")
        root.commit({"code.txt": "code\n", ".tugtool/config.toml": ""})
        (root.path / ".tugtool" / "state.db").write_bytes(b"")
        trees = [root.linked(root.path / ".tugtree" / each, each) for each in ("own", "other")]
        for each in ("outside/empty", "home", "temporary"):
            (place / each).mkdir(parents=True)
        (place / "outside" / "victim").write_text("keep\n")
        _furnish(trees[0], place / "outside")
        victim = subprocess.Popen(["sleep", "600"], cwd=place / "outside")
        listening = socket.socket(socket.AF_UNIX)
        # The kernel chooses a free name.
        listening.bind("")
        listening.listen()
        env = {
            **config.command_environment(),
            "OUT": str(place / "outside"),
            "VICTIM": str(place / "outside" / "victim"),
            "ROOT": str(root.path),
            "REC": str(root.path / ".tugtool" / "state.db"),
            "OTHER": str(trees[1]),
            "HOME": str(place / "home"),
            "PID": str(victim.pid),
            "SOCKET": listening.getsockname()[1:].decode(),
            "TMPDIR": str(place / "temporary"),
        }
        made.append(Ground(root.path, trees[0], place / "outside", env, victim, listening))
        return made[-1]

    yield make
    for each in made:
        each.victim.kill()
        each.victim.wait()
        each.listening.close()


def _furnish(tree: Path, outside: Path) -> None:
    """What some ways need: archives, a patch, a script."""
    with tarfile.open(tree / "archive.tar", "w") as archive:
        entry = tarfile.TarInfo(str(outside / "from-archive"))
        archive.addfile(entry)
    with zipfile.ZipFile(tree / "archive.zip", "w") as archive:
        archive.writestr("from-zip", "x")
    (tree / "change.patch").write_text("--- victim\n+++ victim\n@@ -1 +1 @@\n-keep\n+changed\n")
    (tree / "script").write_text('#!/bin/sh\necho x >"$VICTIM"\n')
    (tree / "script").chmod(0o755)


def attempt(place: Ground, line: str, *, confined: bool) -> bool:
    """Try one way as the coder's agent; return whether anything outside has changed."""
    agent = Agent("coder", {"command": ["sh"], "confine": "worktree"})
    before = place.state()
    corner = ConfinedPlace(agent, str(place.tree), place.env)
    streams = Streams.keep(merged=True)
    how = corner.how if confined else None
    env = corner.environment(place.env) if confined else place.env
    argv = ["/bin/sh", "-c", line]
    with command.start(argv, cwd=str(place.tree), env=env, streams=streams, confined=how) as child:
        child.wait()
    corner.close()
    if line in ENDING and not confined:
        place.victim.wait()
    return place.state() != before


def test_there_are_thirty_ways():
    assert len(WAYS) >= 30


@pytest.mark.parametrize("way", WAYS)
def test_a_way_out_works_for_a_free_agent_and_not_for_a_confined_one(ground, way):
    assert not attempt(ground("confined"), WAYS[way], confined=True)
    assert attempt(ground("free"), WAYS[way], confined=False)


#: The ways for code of the coder's that a checkpoint runs: each kind of place once.
BY_CHECKPOINT = (
    *("a redirection", "a hook", "git", "the record", "the main worktree", "another worktree"),
    *("the settings", "the home", "a process of its own session", "a signal"),
    "a limit of another process",
)


def checkpoint(place: Ground, line: str, *, confine: str) -> bool:
    """Run one way as a checkpoint, over files of the coder's; return whether it got outside."""
    settings = f'[agents.coder]\ncommand = ["sh"]\nconfine = "{confine}"\n'
    (place.root / ".tugtool" / "config.toml").write_text(settings)
    (place.tree / "check.sh").write_text(line)
    here = discover(str(place.tree))
    permit = trust.permit(here, config.load(here.root), "a checkpoint")
    before = place.state()
    verify.run_line(permit, "sh check.sh", str(place.tree), place.env, 60)
    if line in ENDING and confine == "none":
        place.victim.wait()
    return place.state() != before


@pytest.mark.parametrize("way", BY_CHECKPOINT)
def test_code_of_a_confined_coder_gets_out_by_no_checkpoint(ground, way):
    assert not checkpoint(ground("confined"), WAYS[way], confine="worktree")
    assert checkpoint(ground("free"), WAYS[way], confine="none")


@pytest.mark.parametrize(
    "line",
    [
        'mount --bind "$TMPDIR" "$OUT"',
        'unshare --mount sh -c \'mount --bind . "$OUT" && echo x >"$OUT/x"\'',
        "unshare --user --map-root-user --mount sh -c 'mount -t tmpfs x \"$OUT\"'",
        "mount -o remount,rw /",
    ],
)
def test_mounts_are_refused(ground, line):
    place = ground("confined")
    before = Path("/proc/mounts").read_text()
    assert not attempt(place, f"{line} && exit 1", confined=True)
    assert Path("/proc/mounts").read_text() == before


def test_inside_everything_works(ground):
    place = ground("confined")
    line = (
        "echo x >new && mkdir -p a/b && mv new a/b/ && ln a/b/new hard && ln -s a soft && rm hard "
        "&& git status --short >/dev/null && git diff >/dev/null && git log --oneline >/dev/null "
        f'&& chmod +x a/b/new && echo t >"$TMPDIR/t" && {PYTHON} -c "import tempfile as t; '
        't.TemporaryFile()" && kill -0 $$ && echo fine >said'
    )
    assert not attempt(place, line, confined=True)
    assert (place.tree / "said").read_text() == "fine\n"


def test_a_role_that_changes_nothing_has_only_a_temporary_directory(ground):
    place = ground("confined")
    agent = Agent("reviewer", {"command": ["sh"], "confine": "worktree"})
    corner = ConfinedPlace(agent, str(place.tree), place.env)
    streams = Streams.keep(merged=True)
    argv = ["/bin/sh", "-c", 'echo x >new; echo x >code.txt; echo x >"$TMPDIR/x" && echo fine']
    env = corner.environment(place.env)
    with command.start(
        argv, cwd=str(place.tree), env=env, streams=streams, confined=corner.how
    ) as child:
        child.wait()
    corner.close()
    assert child.out.text().endswith("fine\n")
    assert not (place.tree / "new").exists()
    assert (place.tree / "code.txt").read_text() == "code\n"


def reviewed(place: Ground, line: str, writable: list[str]) -> None:
    """Run a shell line as a confined reviewer."""
    table = {"command": ["sh"], "confine": "worktree", "writable": writable}
    corner = ConfinedPlace(Agent("reviewer", table), str(place.tree), place.env)
    argv = ["/bin/sh", "-c", line]
    env, streams = corner.environment(place.env), Streams.keep()
    with command.start(
        argv, cwd=str(place.tree), env=env, streams=streams, confined=corner.how
    ) as child:
        child.wait()
    corner.close()


@pytest.mark.parametrize("name", ["target", "a/target", "./a/../target"])
def test_a_link_that_the_coder_left_opens_no_place_to_another_agent(ground, name):
    place = ground("confined")
    (place.tree / "a").mkdir()
    for each in ("target", "a/target"):
        (place.tree / each).symlink_to(place.outside)
    before = place.state()
    reviewed(place, f'echo x >{name}/x; echo x >"$VICTIM"', [name])
    assert place.state() == before
    # A directory there, or a place outside that the settings name, is for the reviewer.
    (place.tree / "target").unlink()
    (place.tree / "target").mkdir()
    reviewed(place, 'echo x >target/x; echo x >"$VICTIM"', ["target", place.env["OUT"]])
    assert (place.tree / "target" / "x").exists()
    assert (place.outside / "victim").read_text() == "x\n"


#: Types a line into the terminal, as if its user had.
TYPE = """import fcntl, os, termios
terminal = os.open("/dev/tty", os.O_RDONLY)
for each in b"typed\\n":
    fcntl.ioctl(terminal, termios.TIOCSTI, bytes([each]))
"""
#: Runs that on a terminal, confined or not, and then reads a line from there.
ON_TERMINAL = """import sys
from tugtool.system import command
from tugtool.system.confinement import Confinement
how = Confinement("coder", ()) if sys.argv[1] == "confined" else None
argv = [sys.executable, "-c", sys.argv[2]]
with command.start(argv, cwd="/", streams=command.Streams.keep(merged=True), confined=how) as child:
    child.wait()
print("it said:", child.out.text().splitlines()[-1:], flush=True)
print("heard:", sys.stdin.readline(), flush=True)
"""


def can_type() -> bool:
    """Whether this kernel lets a program type into its terminal; newer ones may not."""
    setting = Path("/proc/sys/dev/tty/legacy_tiocsti")
    return os.geteuid() == 0 or not setting.exists() or setting.read_text() == "1\n"


@pytest.mark.parametrize("how", ["confined", "free"])
def test_a_confined_agent_types_nothing_into_the_users_terminal(how):
    child, terminal = pty.fork()
    if child == 0:
        os.execv(PYTHON, [PYTHON, "-c", ON_TERMINAL, how, TYPE])
    heard = b""
    while b"it said:" not in heard or not heard.partition(b"it said:")[2].endswith(b"\n"):
        heard += os.read(terminal, 4096)
    os.write(terminal, b"by hand\n")
    while b"heard: " not in heard or not heard.partition(b"heard: ")[2].endswith(b"\n"):
        heard += os.read(terminal, 4096)
    os.close(terminal)
    os.waitpid(child, 0)
    assert (b"PermissionError" in heard) == (how == "confined")
    assert (b"heard: typed" in heard) == (how == "free" and can_type())


def test_the_group_of_a_confined_agent_is_ended_from_outside(ground):
    place = ground("confined")
    agent = Agent("coder", {"command": ["sh"], "confine": "worktree"})
    corner = ConfinedPlace(agent, str(place.tree), place.env)
    argv = ["/bin/sh", "-c", "sleep 600 & echo $! >pid; wait"]
    env = corner.environment(place.env)
    child = command.start(
        argv, cwd=str(place.tree), env=env, streams=Streams.keep(), marks=True, confined=corner.how
    )
    with child:
        while not child.wait(0.05):
            if (place.tree / "pid").exists() and (place.tree / "pid").read_text().strip():
                break
        pid = int((place.tree / "pid").read_text())
        child.stop()
    corner.close()
    assert process.start_time(pid) is None
    assert child.killed_by == signal.SIGTERM
