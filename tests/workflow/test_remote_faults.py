"""A remote that refuses: the reason, the next command, nothing lost, and the next try succeeds."""

import contextlib
import http.server
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.machines import SETTINGS, Fleet, Machine
from support.proving import sampled
from tugtool.git import remote
from workflow.test_remote import fleet
from workflow.test_shared_record import url

__all__ = ["fleet", "url"]

#: What no login may run, wherever it is named: it would wait for a person.
ASKS = '#!/bin/sh\ntouch "$0.was-asked"\nexec sleep 600\n'
#: An ssh that refuses this user, and that asks at the terminal unless it must not.
SSH = """#!/bin/sh
case "$*" in *BatchMode=yes*) ;; *) touch "$0.was-asked"; exec sleep 600 ;; esac
echo "git@example.invalid: Permission denied (publickey,password)." >&2
exit 255
"""


def _program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@contextlib.contextmanager
def _answering(status: int) -> Iterator[str]:
    """An HTTP server that answers everything with one status."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("WWW-Authenticate", 'Basic realm="shop"')
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *words: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://ada@127.0.0.1:{server.server_port}/shop.git"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def _at(address: str, till: Machine) -> Iterator[dict[str, str]]:
    """The remote is at another address for a while, and programs that ask are at hand."""
    there = till.git("remote", "get-url", "origin").strip()
    till.git("remote", "set-url", "origin", address)
    asks = _program(till.path.parent / "bin" / "asks", ASKS)
    _program(asks.with_name("ssh"), SSH)
    names = ("GIT_ASKPASS", "SSH_ASKPASS")
    path = {"PATH": f"{asks.parent}{os.pathsep}{os.environ['PATH']}", "DISPLAY": ":0"}
    yield {**dict.fromkeys(names, str(asks)), **path}
    assert [each.name for each in asks.parent.glob("*.was-asked")] == []
    till.git("remote", "set-url", "origin", there)


@contextlib.contextmanager
def _login(status: int, team: Fleet, till: Machine) -> Iterator[dict[str, str]]:
    with _answering(status) as address, _at(address, till) as env:
        yield env


@contextlib.contextmanager
def _hook(team: Fleet, till: Machine) -> Iterator[dict[str, str]]:
    path = _program(till.path / ".git" / "hooks" / "pre-push", "#!/bin/sh\necho no >&2\nexit 1\n")
    yield {}
    path.unlink()


@contextlib.contextmanager
def _plain_ssh(team: Fleet, till: Machine) -> Iterator[dict[str, str]]:
    till.git("config", "core.sshCommand", "ssh -p 1")
    with _at("ssh://git@example.invalid/shop.git", till) as env:
        yield env


#: Case -> how the remote refuses, what is said, the next command.
REFUSED = ("it does not let this user in", "git ls-remote origin")
CASES = {
    "a refused login": (lambda *who: _login(401, *who), *REFUSED),
    "a login without rights": (lambda *who: _login(403, *who), *REFUSED),
    "ssh that would ask": (
        lambda team, till: _at("ssh://git@example.invalid/shop.git", till),
        *REFUSED,
    ),
    "ssh with options of the repository": (_plain_ssh, *REFUSED),
    "a port without a server": (
        lambda team, till: _at("http://127.0.0.1:1/shop.git", till),
        "it cannot be reached",
        "tugcode worktree publish",
    ),
    "a hook of this clone": (
        _hook,
        "a hook refused it (the pre-push hook of this repository fails: no",
        "tugcode worktree publish",
    ),
}


@pytest.mark.parametrize("case", sampled(CASES, 2))
def test_a_refusal_has_a_reason_and_a_next_command_loses_nothing_and_ends(fleet, case):
    refuse, said, hint = CASES[case]
    team = fleet("1 t", "2 t < 1")
    (till,) = team.start("till")
    with refuse(team, till) as env:
        path, _, done = till.step(**env) if not env else _step(till, env)
        (issue,) = done.envelope()["issues"]
        assert (done.status, done.data["completed"], issue["code"]) == (0, True, "W170")
        assert said in issue["message"]
        assert issue["hint"] == hint
        again = till.run("worktree", "publish", "--json", **env)
        assert (again.status, again.codes) == (1, ["E038"])
        merge = till.run("merge", "work", "--push", "--json", **env)
        assert merge.codes == ["E062"]
    # The next command in the worktree pushes it.
    assert till.data("claim", "work", at=path)["anchor"] == "step-2"
    branch = till.git("branch", "--show-current", at=path).strip()
    assert team.tip(branch) == done.data["commit_hash"]


def _step(till: Machine, env: dict[str, str]):
    """A step that is begun with the remote as it was, and committed with it refusing."""
    made = till.data("worktree", "create", "work", "--new", "--claim", **env)
    path = Path(made["worktree_path"])
    (path / "step-1.txt").write_text("done\n")
    till.data("state", "update", "work", "step-1", "--all", "completed", at=path)
    words = ("commit", "--plan", "work", "--step", "step-1", "--message", "feat: 1", "--json")
    return path, "step-1", till.run(*words, at=path, **env)


def test_a_program_that_asks_at_the_terminal_is_stopped(fleet):
    team = fleet("1 t", "2 t < 1")
    (till,) = team.start("till")
    till.step()
    asks = _program(till.path.parent / "bin" / "plink", "#!/bin/sh\nread word < /dev/tty\n")
    till.git("remote", "set-url", "origin", "ssh://git@example.invalid/shop.git")
    env = {**os.environ, **till.environment, "GIT_SSH": str(asks)}
    words = [sys.executable, "-m", "tugtool", "-C", str(till.path), "worktree", "publish"]
    main, side = pty.openpty()
    with subprocess.Popen(
        ["setsid", "--ctty", "--wait", *words], env=env, stdin=side, stdout=side, stderr=side
    ) as child:
        os.close(side)
        said = b""
        with contextlib.suppress(OSError):
            while part := os.read(main, 4096):
                said += part
    os.close(main)
    assert child.returncode == 1, said
    assert b"it asks for a password" in b" ".join(said.split())
    till.git("remote", "set-url", "origin", str(team.bare))
    assert till.data("worktree", "publish")["unpublished_steps"] == []


@pytest.mark.proof
def test_the_cases_notice_a_push_that_asks(fleet, monkeypatch):
    team = fleet("1 t", settings=SETTINGS.replace("seconds = 20", "seconds = 1"))
    (till,) = team.start("till")
    monkeypatch.delitem(remote._NO_QUESTIONS, "GIT_ASKPASS")
    told = []

    def story() -> None:
        with _login(401, team, till) as env:
            told.append(_step(till, env)[2].out)

    with pytest.raises(AssertionError, match=r"asks\.was-asked"):
        story()
    # It ends all the same.
    assert "no answer within 1 s" in told[0]
