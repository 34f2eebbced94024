"""The actions of a scripted agent in its worktree before it answers, good or bad."""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from tugtool.agents.scripted import Rule, ScriptCall


#: The pause between two looks for a file that another process makes.
NAP_SECONDS = 0.005


class ActFailed(Exception):
    """An action of the script failed."""


class Played:
    """The files that the actions changed, for the report."""

    def __init__(self, call: ScriptCall) -> None:
        self.call = call
        self.worktree = str(call.given.get("worktree_path") or os.getcwd())
        self.created: list[str] = []
        self.modified: list[str] = []

    def path(self, name: str) -> str:
        return os.path.join(self.worktree, name)

    def touches(self, name: str) -> str:
        """The path to write to; records whether the file is new."""
        path = self.path(name)
        known = name in self.created or name in self.modified
        if not known:
            (self.modified if os.path.lexists(path) else self.created).append(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def write(self, path: str, mode: str, text: object) -> None:
        """Write a text of the script to a file."""
        with open(path, mode) as file:
            file.write(self.call.filled(str(text)).encode())

    def run(self, *words: str) -> int:
        """Run a command; its exit status."""
        import subprocess

        return subprocess.run(words, cwd=self.worktree, stdin=subprocess.DEVNULL).returncode


def play(rule: Rule, call: ScriptCall) -> Played:
    """Run all actions of the rule, in order."""
    played = Played(call)
    todo = rule.get("do")
    if todo is None and call.facts["role"] == "coder":
        # A default change, so that the step has something to commit.
        todo = [{"write": "scripted/{step}.txt", "text": "{step}, round {round}\n"}]
    for act in todo if isinstance(todo, list) else []:
        verb = next(name for name in act if name in VERBS)
        VERBS[verb](played, act, call.filled(str(act[verb])))
    return played


Act = dict[str, object]


def _write(played: Played, act: Act, name: str) -> None:
    played.write(played.touches(name), "wb", act.get("text", ""))


def _append(played: Played, act: Act, name: str) -> None:
    played.write(played.touches(name), "ab", act.get("text", ""))


def _delete(played: Played, act: Act, name: str) -> None:
    os.unlink(played.touches(name))


def _touch(played: Played, act: Act, name: str) -> None:
    # No content, so that a waiting process never finds a half-written file.
    open(played.path(name), "ab").close()


def _run(played: Played, act: Act, line: str) -> None:
    status = played.run("sh", "-c", line)
    if status and not act.get("may_fail"):
        raise ActFailed(f"{line} ended with status {status}")


def _spawn(played: Played, act: Act, line: str) -> None:
    import subprocess

    subprocess.Popen(
        ["sh", "-c", line],
        cwd=played.worktree,
        stdin=subprocess.DEVNULL,
        start_new_session=bool(act.get("own_group")),
    )


def _edit_plan(played: Played, act: Act, text: str) -> None:
    played.write(played.path(str(played.call.given["plan_path"])), "ab", act["edit_plan"])


def _commit(played: Played, act: Act, message: str) -> None:
    identity = ("-c", "user.name=Scripted", "-c", "user.email=scripted@example.invalid")
    for words in (("add", "--all"), ("commit", "--quiet", "-m", message)):
        if played.run("git", *identity, *words):
            # Git has printed the reason.
            raise ActFailed(f"git {words[0]} failed")


def _noise(played: Played, act: Act, text: str) -> None:
    _print(text.encode())


def _noise_bytes(played: Played, act: Act, size: str) -> None:
    left = _number(act["noise_bytes"])
    while left > 0:
        part = (b"noise " * 682 + b"mark\n")[: min(left, 4097)]
        _print(part)
        left -= len(part)


def _noise_hex(played: Played, act: Act, digits: str) -> None:
    _print(bytes.fromhex(digits))


def _print(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _complain(played: Played, act: Act, text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _take_ms(played: Played, act: Act, milliseconds: str) -> None:
    # The script asks for this delay.
    time.sleep(_number(act["take_ms"]) / 1000)


def _wait_for(played: Played, act: Act, name: str) -> None:
    path = played.path(name)
    while not os.path.lexists(path):
        # The system cannot wait for a file to appear.
        time.sleep(NAP_SECONDS)


def _tell(played: Played, act: Act, name: str) -> None:
    # Opening a FIFO for writing waits for a reader.
    played.write(played.path(name), "wb", "{role} {step} {try}\n")


def _hear(played: Played, act: Act, name: str) -> None:
    # Reading a FIFO waits until its writer has closed it.
    with open(played.path(name), "rb") as fifo:
        fifo.read()


def _ignore(played: Played, act: Act, name: str) -> None:
    import signal

    names = act["ignore"]
    for each in names if isinstance(names, list) else [names]:
        signal.signal(_signal(each), signal.SIG_IGN)


def _hang(played: Played, act: Act, value: str) -> None:
    import signal

    while act["hang"]:
        signal.pause()


def _exit(played: Played, act: Act, status: str) -> None:
    sys.stderr.flush()
    os._exit(_number(act["exit"]))


def _die(played: Played, act: Act, name: str) -> None:
    import signal

    number = _signal(name)
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _signal(name: object) -> int:
    import signal

    try:
        return signal.Signals[f"SIG{str(name).removeprefix('SIG')}"]
    except KeyError:
        raise ActFailed(f"there is no signal {name}") from None


def _number(value: object) -> int:
    if isinstance(value, int):
        return value
    raise ActFailed(f"{value} is not a whole number")


_ALL: tuple[Callable[[Played, Act, str], None], ...] = (
    *(_write, _append, _delete, _touch, _run, _spawn, _edit_plan, _commit),
    *(_noise, _noise_bytes, _noise_hex, _complain, _take_ms, _wait_for),
    *(_tell, _hear, _ignore, _hang, _exit, _die),
)
#: The actions, by their names in a script.
VERBS = {each.__name__[1:]: each for each in _ALL}
