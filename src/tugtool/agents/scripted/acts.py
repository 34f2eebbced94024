"""What a scripted agent does before it answers, good or bad, in the worktree it was given."""

from __future__ import annotations

import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from tugtool.agents.scripted.script import Call, Rule

#: What is waited for is a file that another process makes, so it has to be looked for.
NAP_SECONDS = 0.005


class Failed(Exception):
    """Something the script says could not be done."""


class Played:
    """What was done, for the report."""

    def __init__(self, worktree: str) -> None:
        self.worktree = worktree
        self.created: list[str] = []
        self.modified: list[str] = []

    def path(self, name: str) -> str:
        return os.path.join(self.worktree, name)

    def touches(self, name: str) -> str:
        """The path to write to; remembers whether it was there before."""
        path = self.path(name)
        known = name in self.created or name in self.modified
        if not known:
            (self.modified if os.path.lexists(path) else self.created).append(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path


def play(rule: Rule, call: Call) -> Played:
    """Everything that the rule says to do, in order."""
    played = Played(str(call.given.get("worktree_path") or os.getcwd()))
    todo = rule.get("do")
    if todo is None and call.facts["role"] == "coder":
        # So that a step has something to commit without a word in the script.
        todo = [{"write": "scripted/{step}.txt", "text": "{step}, round {round}\n"}]
    for act in todo if isinstance(todo, list) else []:
        verb = next(name for name in act if name in _VERBS)
        _VERBS[verb](played, call, act, act[verb])
    return played


Act = dict[str, object]


def _write(played: Played, call: Call, act: Act, name: object) -> None:
    _put(played, call, act, name, "wb")


def _append(played: Played, call: Call, act: Act, name: object) -> None:
    _put(played, call, act, name, "ab")


def _put(played: Played, call: Call, act: Act, name: object, mode: str) -> None:
    path = played.touches(call.filled(str(name)))
    with open(path, mode) as file:
        file.write(call.filled(str(act.get("text", ""))).encode())


def _delete(played: Played, call: Call, act: Act, name: object) -> None:
    os.unlink(played.touches(call.filled(str(name))))


def _touch(played: Played, call: Call, act: Act, name: object) -> None:
    # Whoever waits for the file must find it whole, so it has no content.
    open(played.path(call.filled(str(name))), "ab").close()


def _run(played: Played, call: Call, act: Act, line: object) -> None:
    import subprocess

    command = ["sh", "-c", call.filled(str(line))]
    done = subprocess.run(command, cwd=played.worktree, stdin=subprocess.DEVNULL, check=False)
    if done.returncode and not act.get("may_fail"):
        raise Failed(f"{command[2]} ended with status {done.returncode}")


def _spawn(played: Played, call: Call, act: Act, line: object) -> None:
    import subprocess

    subprocess.Popen(
        ["sh", "-c", call.filled(str(line))],
        cwd=played.worktree,
        stdin=subprocess.DEVNULL,
        start_new_session=bool(act.get("own_group")),
    )


def _edit_plan(played: Played, call: Call, act: Act, text: object) -> None:
    with open(played.path(str(call.given["plan_path"])), "ab") as file:
        file.write(call.filled(str(text)).encode())


def _commit(played: Played, call: Call, act: Act, message: object) -> None:
    import subprocess

    identity = ["-c", "user.name=Scripted", "-c", "user.email=scripted@example.invalid"]
    words = (["add", "--all"], [*identity, "commit", "--quiet", "-m", call.filled(str(message))])
    for each in words:
        done = subprocess.run(["git", *each], cwd=played.worktree, stdin=subprocess.DEVNULL)
        if done.returncode:
            # Git has said why.
            raise Failed(f"git {'add' if each[0] == 'add' else 'commit'} failed")


def _noise(played: Played, call: Call, act: Act, text: object) -> None:
    _print(call.filled(str(text)).encode())


def _noise_bytes(played: Played, call: Call, act: Act, size: object) -> None:
    left = _number(size)
    while left > 0:
        part = (b"noise " * 682 + b"mark\n")[: min(left, 4097)]
        _print(part)
        left -= len(part)


def _noise_hex(played: Played, call: Call, act: Act, digits: object) -> None:
    _print(bytes.fromhex(str(digits)))


def _print(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _complain(played: Played, call: Call, act: Act, text: object) -> None:
    print(call.filled(str(text)), file=sys.stderr, flush=True)


def _take_ms(played: Played, call: Call, act: Act, milliseconds: object) -> None:
    # To take this long is what the script asks for.
    time.sleep(_number(milliseconds) / 1000)


def _wait_for(played: Played, call: Call, act: Act, name: object) -> None:
    path = played.path(call.filled(str(name)))
    while not os.path.lexists(path):
        # A file that is not there tells nobody when it comes.
        time.sleep(NAP_SECONDS)


def _tell(played: Played, call: Call, act: Act, name: object) -> None:
    # Opening a FIFO to write waits for somebody who reads.
    with open(played.path(call.filled(str(name))), "wb") as fifo:
        fifo.write(call.filled("{role} {step} {try}\n").encode())


def _hear(played: Played, call: Call, act: Act, name: object) -> None:
    # And this for somebody who writes, and until they are done.
    with open(played.path(call.filled(str(name))), "rb") as fifo:
        fifo.read()


def _ignore(played: Played, call: Call, act: Act, names: object) -> None:
    for name in names if isinstance(names, list) else [names]:
        signal.signal(_signal(name), signal.SIG_IGN)


def _hang(played: Played, call: Call, act: Act, value: object) -> None:
    while value:
        signal.pause()


def _exit(played: Played, call: Call, act: Act, status: object) -> None:
    sys.stderr.flush()
    os._exit(_number(status))


def _die(played: Played, call: Call, act: Act, name: object) -> None:
    number = _signal(name)
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _signal(name: object) -> int:
    try:
        return signal.Signals[f"SIG{str(name).removeprefix('SIG')}"]
    except KeyError:
        raise Failed(f"there is no signal {name}") from None


def _number(value: object) -> int:
    if isinstance(value, int):
        return value
    raise Failed(f"{value} is not a whole number")


_VERBS: dict[str, Callable[[Played, Call, Act, object], None]] = {
    "write": _write,
    "append": _append,
    "delete": _delete,
    "touch": _touch,
    "run": _run,
    "spawn": _spawn,
    "edit_plan": _edit_plan,
    "commit": _commit,
    "noise": _noise,
    "noise_bytes": _noise_bytes,
    "noise_hex": _noise_hex,
    "complain": _complain,
    "take_ms": _take_ms,
    "wait_for": _wait_for,
    "tell": _tell,
    "hear": _hear,
    "ignore": _ignore,
    "hang": _hang,
    "exit": _exit,
    "die": _die,
}
