"""A repository whose every file is hostile: commands that look run nothing of it.

Every system call that starts a program or writes a file is watched (`notified.py`): commands
that only look start git and nothing else, and write nothing outside of the repository.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from notified import Call, answer, supervise

from conftest import Repo, git
from support.commands import looking
from support.worktree import Yard

pytestmark = pytest.mark.proof(share=0)

#: What is watched: the start of programs, and all that makes, changes or removes a name.
WATCHED = (
    *("execve", "execveat", "openat", "open", "creat", "mkdir", "mkdirat", "unlink", "unlinkat"),
    *("rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat"),
    *("truncate", "mknod", "mknodat", "connect"),
)
LOOKING = (
    *looking("work", "step-2", dash_show="fix", worktree_salvage_show="work"),
    *("state show work --checklist", "worktree cleanup --dry-run", "merge work --dry-run"),
    *("worktree salvage prune --dry-run", "state verify work step-2 --dry-run"),
    *("state reconcile work --dry-run", "state prune --dry-run", "state restore --dry-run"),
    *("implement work --dry-run", "init --check"),
)
#: Setting -> value; {} is the program.
SETTINGS = {
    "core.fsmonitor": "{}",
    "core.pager": "{}",
    "core.editor": "{}",
    "core.sshCommand": "{}",
    "core.askPass": "{}",
    "core.alternateRefsCommand": "{}",
    "credential.helper": "!{}",
    "commit.gpgSign": "true",
    "gpg.program": "{}",
    "gpg.ssh.program": "{}",
    "diff.external": "{}",
    "diff.x.command": "{}",
    "diff.x.textconv": "{}",
    "filter.x.clean": "{}",
    "filter.x.smudge": "{}",
    "filter.x.process": "{}",
    "filter.x.required": "true",
    "merge.x.driver": "{} %A",
    "hook.x.command": "{}",
    "hook.x.event": "post-index-change",
    "trailer.tug-step.command": "{}",
    "alias.status": "!{}",
    "alias.worktree": "!{}",
    "protocol.ext.allow": "always",
    "remote.origin.url": "ext::{} remote",
    "remote.origin.promisor": "true",
    "remote.origin.partialclonefilter": "blob:none",
    "status.submoduleSummary": "true",
    "log.showSignature": "true",
    "pager.log": "true",
    "core.attributesFile": "attributes",
    "core.gitProxy": "{} for 127.0.0.1",
    "sequence.editor": "{}",
    "interactive.diffFilter": "{}",
    "diff.tool": "x",
    "difftool.x.cmd": "{}",
    "mergetool.x.cmd": "{}",
    "web.browser": "x",
    "browser.x.cmd": "{}",
    "pager.status": "{}",
    "gc.auto": "1",
    "gc.recentObjectsHook": "{}",
    "submodule.lib.update": "!{}",
    "url.ext::{} x.insteadOf": "https://",
    "remote.origin.uploadpack": "{}",
    "remote.origin.receivepack": "{}",
    "uploadpack.packObjectsHook": "{}",
    "credential.https://example.org.helper": "!{}",
    "gpg.ssh.defaultKeyCommand": "{}",
    "include.path": "../included",
    "includeIf.gitdir:**.path": "../included",
}
#: In a file that the settings include.
INCLUDED = """\
[filter "y"]
    clean = {0} included
    smudge = {0} included
[core]
    fsmonitor = {0} included
"""
#: Names that a careless command line takes for something else.
NAMES = ("--output=x", "-c", "a\nb", "\x1b[31mred", ":(top)x", "$(touch ran)", "`touch ran`")
HOOKS = (
    *("pre-commit", "post-commit", "post-checkout", "post-merge", "post-index-change"),
    *("reference-transaction", "pre-auto-gc", "fsmonitor-watchman", "push-to-checkout"),
)
CONFIG = """\
[agents.default]
command = ["{0}", "agent"]
[worktree]
setup = [["{0}", "setup"]]
[merge]
check = ["{0} check"]
[notify]
command = ["{0}", "notify"]
[remote]
name = "origin"
"""
#: Addresses of a stranger's choosing; nothing listens there.
ADDRESSES = (
    "postgresql://127.0.0.1:1/x",
    "http://127.0.0.1:1/",
    "https://127.0.0.1:1/",
    "http+unix:///nowhere/socket",
)
#: These commands do not need the state.
WITHOUT_STATE = ("list", "config", "validate work", "plan show work", "plan graph work", "version")
PLAN = """\
## Work {{#work}}
#### Step 1: One {{#step-1}}
**Tasks:**
- [ ] do it
#### Step 2: Two {{#step-2}}
**Depends on:** #step-1
**Checkpoint:**
- [ ] `{0} checkpoint`
"""


class Scene(NamedTuple):
    """The repository, the program that leaves a mark, and the mark."""

    yard: Yard
    program: Path
    mark: Path

    @property
    def root(self) -> Path:
        return self.yard.root


@pytest.fixture
def scene(yard, monkeypatch, tmp_path):
    """A repository with work to look at, made by its hostile owner."""
    y = yard("1 t", "2 t < 1")
    program, mark = y.root.parent / "program", y.root.parent / "ran"
    # Not a filter that stays: git and `cat` would wait for each other for ever.
    program.write_text(f'#!/bin/sh\necho "$@" >>"{mark}"\n[ "$1" = filter.x.process ] || cat\n')
    program.chmod(0o755)
    y.repo.commit({".tugtool/tugplan-work.md": PLAN.format(program)})
    tree = y.create("--new")
    y.ok("dash", "create", "fix")
    y.do(tree, "step-1", {"code.txt": "ours\n"})
    y.repo.commit({"code.txt": "theirs\n", ".gitattributes": "* filter=x diff=x merge=x\n"})
    library = Repo.init(y.root / "lib")
    library.commit({"code.txt": "x\n", ".gitattributes": "* filter=x diff=x merge=x\n"})
    y.repo.commit({name: "x\n" for name in NAMES})
    for each in (y.root, tree, library.path):
        os.utime(each / "code.txt", (0, 0))
    _arm(y, tree, program)
    for name, value in _programs(program).items():
        library.git("config", name, value)
    monkeypatch.delenv("TUGCODE_TRUST")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    for name in ("home", "temporary"):
        (tmp_path / name).mkdir()
    return Scene(y, program, mark)


def _arm(y: Yard, tree: Path, program: Path) -> None:
    """All that git or tugcode could run, named by the repository."""
    for name, value in _programs(program).items():
        y.repo.git("config", name, value)
    (y.root / "included").write_text(INCLUDED.format(program))
    y.repo.git("config", "extensions.worktreeConfig", "true")
    git("config", "--worktree", "filter.own.clean", f"{program} own", cwd=tree)
    (y.root / ".git" / "info" / "attributes").write_text("* filter=x diff=x merge=x\n")
    (y.root / "hooks").mkdir()
    for home in (y.root / ".git" / "hooks", y.root / "hooks"):
        home.mkdir(exist_ok=True)
        for name in HOOKS:
            (home / name).write_text(f"#!/bin/sh\nexec {program} {name}\n")
            (home / name).chmod(0o755)
    y.repo.git("config", "core.hooksPath", "hooks")
    (y.root / ".tugtool" / "config.toml").write_text(CONFIG.format(program))


def _programs(program: Path) -> dict[str, str]:
    """The settings, each with the program and its name."""
    return {
        name.format(program): value.format(f"{program} {name.partition('{')[0]}")
        for name, value in SETTINGS.items()
    }


TUGCODE = (sys.executable, "-P", "-m", "tugtool")


def watched(root: Path, *argv: str, **files: Path) -> tuple[int, list[Call]]:
    """The command's exit status, and the calls that it made; see `supervise` for `files`."""
    calls: list[Call] = []

    def note(listener: int, call: Call) -> None:
        calls.append(call)
        answer(listener, call)

    return supervise(argv, WATCHED, note, cwd=root, **files), calls


def started(calls: list[Call]) -> set[str]:
    """The programs that were started, by name."""
    return {os.path.basename(call.path) for call in calls if call.name.startswith("execve")}


def written(calls: list[Call]) -> set[str]:
    """The names that were made, opened for writing, or removed."""
    found = set()
    for call in calls:
        if call.name.startswith("execve") or call.name == "connect":
            continue
        if call.name in ("openat", "open"):
            flags = call.words[2 if call.name == "openat" else 1]
            if flags & (os.O_ACCMODE | os.O_CREAT) == os.O_RDONLY:
                continue
        found.add(os.path.normpath(call.path))
    return found


#: What `doctor` starts beside git: its own guard, in a group with a shell, and a bare Python.
OF_DOCTOR = {"sh"}
#: What may be started: Python is `tugcode` itself, and `false` stands in for a merge driver.
PLUMBING = {"git", "false", os.path.basename(sys.executable)}
#: Devices, pipes, and compiled code of our own package.
HARMLESS = ("/dev/null", "/dev/tty", "/dev/fd/", "/proc/", str(Path(__file__).parents[2] / "src"))


def test_commands_that_look_start_git_alone_and_write_nothing_outside(scene):
    for line in LOOKING:
        status, calls = watched(scene.root, *TUGCODE, *line.split())
        assert status in (0, 1), line
        assert not scene.mark.exists(), (line, scene.mark.read_text())
        assert started(calls) <= PLUMBING | (OF_DOCTOR if line == "doctor" else set()), line
        # `doctor` tries itself out in a temporary directory of its own, and removes it.
        own = [str(scene.root.parent / "temporary")] * (line == "doctor")
        assert outside(scene, calls, *own) == set(), line
        assert not [call for call in calls if call.name == "connect"], line


def outside(scene: Scene, calls: list[Call], *own: str) -> set[str]:
    """The names outside of the repository, and of a place of one's own, that were written."""
    inside = (*HARMLESS, os.path.join(scene.root, ""), *own)
    return {path for path in written(calls) if not path.startswith(inside) and path != "."}


#: Tools of MCP that look, and what they are asked.
ASKED = (
    ("status", {}),
    ("show", {"plan": "work"}),
    ("show", {"plan": "work", "what": "log"}),
    ("show", {"plan": "work", "what": "diff"}),
    ("show", {"plan": "work", "step": "step-2", "what": "why"}),
)


def test_tools_of_mcp_that_look_start_git_alone_too(scene):
    about = {"protocolVersion": "2025-06-18", "capabilities": {}}
    client = {"clientInfo": {"name": "x", "version": "1"}}
    lines = [{"id": 0, "method": "initialize", "params": about | client}]
    for number, (name, given) in enumerate(ASKED, 1):
        call = {"name": name, "arguments": given}
        lines.append({"id": number, "method": "tools/call", "params": call})
    lines += [{"id": 99, "method": "resources/list"}, {"id": 100, "method": "tools/list"}]
    said = scene.root.parent / "said"
    said.write_text("".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines))
    answers = scene.root.parent / "answers"
    status, calls = watched(scene.root, *TUGCODE, "mcp", given=said, out=answers)
    told = [json.loads(line) for line in answers.read_text().splitlines() if line[:1] == "{"]
    assert (status, len([each for each in told if "result" in each])) == (0, len(lines))
    assert not scene.mark.exists()
    assert started(calls) <= PLUMBING
    assert outside(scene, calls) == set()
    assert not connected(calls)


def connected(calls: list[Call]) -> bool:
    return any(call.name == "connect" for call in calls)


def test_commands_that_look_ask_no_remote(yard, monkeypatch):
    """A step waits to be pushed, and the branches of the plan would be fetched."""
    y = yard("1 t", "2 t")
    tree = y.create("--new")
    (y.root / ".tugtool" / "config.toml").write_text('[remote]\nname = "origin"\n')
    y.repo.git("remote", "add", "origin", "git://127.0.0.1:1/x")
    y.ok("dash", "create", "fix")
    monkeypatch.delenv("TUGCODE_TRUST")
    for number in (1, 2):
        y.do(tree, f"step-{number}", {f"{number}.txt": "x\n"})
    for line in LOOKING:
        _, calls = watched(y.root, *TUGCODE, *line.split())
        assert not connected(calls), line
    # With trust it does, so that this can fail.
    monkeypatch.setenv("TUGCODE_TRUST", "1")
    _, calls = watched(y.root, *TUGCODE, "merge", "work", "--dry-run")
    assert connected(calls)


@pytest.mark.parametrize("address", ADDRESSES)
def test_commands_that_look_connect_to_no_address_of_the_settings(scene, address, monkeypatch):
    config = scene.root / ".tugtool" / "config.toml"
    config.write_text(f'[state]\nurl = "{address}"\nrepository = "x"\nbusy_seconds = 1\n')
    lines = (*LOOKING, *CHANGING) if address == ADDRESSES[0] else ("status", "doctor", "next work")
    for line in lines:
        status, calls = watched(scene.root, *TUGCODE, *line.split())
        assert status in (0, 1), line
        assert status or line in (*WITHOUT_STATE, "init --check"), line
        assert not connected(calls), line
        assert not scene.mark.exists(), line
    done = subprocess.run(
        [*TUGCODE, "status", "--json"], cwd=scene.root, capture_output=True, check=False
    )
    (issue,) = json.loads(done.stdout)["issues"]
    assert (issue["code"], issue["hint"]) == ("E110", "tugcode trust")
    assert f"state.url would have tugcode connect to {address}" in issue["message"]
    # With trust it does, so that this can fail.
    monkeypatch.setenv("TUGCODE_TRUST", "1")
    _, calls = watched(scene.root, *TUGCODE, "status")
    assert connected(calls)


def test_the_harness_sees_a_program_that_runs_and_a_file_that_is_written(scene):
    """The same repository, looked at with git alone."""
    line = "git status; git log -p; echo x >../outside"
    _, calls = watched(scene.root, "/bin/sh", "-c", line)
    assert scene.mark.exists()
    assert "program" in started(calls)
    assert str(scene.root.parent / "outside") in written(calls)


def _linked(path: Path, outside: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(outside)


def _fifo(path: Path, outside: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def _moved(path: Path, outside: Path) -> None:
    path.rename(outside)
    path.symlink_to(outside)


#: What stands in place of which file.
ODD = {
    "the state as a FIFO": (".tugtool/state.db", _fifo),
    "the state as a link": (".tugtool/state.db", _linked),
    "the lock as a FIFO": (".tugtool/state.lock", _fifo),
    "the settings as a FIFO": (".tugtool/config.toml", _fifo),
    "the settings as a link to a device": (".tugtool/config.toml", lambda p, o: _linked(p, ZERO)),
    "a plan as a FIFO": (".tugtool/tugplan-work.md", _fifo),
    "all of it as a link": (".tugtool", _moved),
}
ZERO = Path("/dev/zero")
CHANGING = ("state init work", "state claim work", "next work", "worktree create work --new")


@pytest.mark.parametrize("odd", ODD)
def test_odd_files_are_refused_at_once_and_never_followed(scene, odd):
    name, put = ODD[odd]
    outside = scene.root.parent / "outside"
    outside.mkdir()
    put(scene.root / name, outside / "file")
    before = set(outside.rglob("*"))
    for line in (*LOOKING, *CHANGING):
        argv = [*TUGCODE, *line.split(), "--json"]
        # A command that waited for a FIFO would run into the limit.
        done = subprocess.run(
            argv, cwd=scene.root, stdin=subprocess.DEVNULL, capture_output=True, timeout=30
        )
        assert done.returncode in (0, 1), (line, done.stderr)
        after = set(outside.rglob("*"))
        assert not after - before, line
        # The command that made the state may only now close its log.
        assert all(path.name.startswith("state.db-") for path in before - after), line
        assert line in CHANGING or not scene.mark.exists(), line
        if line in CHANGING[:2] and "lock" not in odd:
            (issue,) = json.loads(done.stdout)["issues"]
            assert issue["code"] in ("E046", "E071", "E072", "E073"), issue


#: Starts the server, asks for its page and for all that it answers to GET, and ends it.
CLIENT = """import json, subprocess, sys, urllib.error, urllib.request
words = [sys.executable, "-P", "-m", "tugtool", "serve", "--port", "0", "--json"]
server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
address, _, token = json.loads(server.stdout.readline())["data"]["url"].partition("/#t=")
def get(path):
    given = {"Authorization": f"Bearer {token}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(address + path, headers=given)) as done:
            return done.status, done.read()
    except urllib.error.HTTPError as error:
        return error.code, b""
paths = json.loads(get("/api/v1/openapi.json")[1])["paths"]
values = {"plan": "work", "step": "step-2", "name": "fix"}
for path, methods in {"/": {"get": {}}, **paths}.items():
    if "get" in methods and not path.endswith(("/live", "/events")):
        names = [each["name"] for each in methods["get"].get("parameters", [])]
        query = "&".join(f"{name}={values[name]}" for name in names if name in values)
        print(path, get(f"{path}?{query}")[0], flush=True)
server.terminate()
server.wait()
"""


def test_the_page_and_every_question_to_the_server_start_git_alone_too(scene):
    answers = scene.root.parent / "answers"
    status, calls = watched(scene.root, sys.executable, "-c", CLIENT, out=answers)
    asked = [line.split() for line in answers.read_text().splitlines() if line.startswith("/")]
    assert status == 0, answers.read_text()
    assert ["/", "200"] in asked
    assert len([path for path, answered in asked if answered == "200"]) > 25, asked
    assert not scene.mark.exists(), scene.mark.read_text()
    # `doctor` is among the questions.
    assert started(calls) <= PLUMBING | OF_DOCTOR
    assert outside(scene, calls, str(scene.root.parent / "temporary")) == set()
