"""Which call this is, counted safely across processes, and the log of all calls."""

from __future__ import annotations

import json
import os

from tugtool import config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.agents.scripted.script import Call


class Ledger:
    """The counts and the log; beside the script if TUGCODE_SCRIPT_LOG names no other place."""

    def __init__(self, script: str) -> None:
        self.log = config.script_log() or f"{os.path.abspath(script)}.log"
        self.directory = f"{self.log}.counts"
        os.makedirs(self.directory, exist_ok=True)

    def counted(self, call: Call) -> Call:
        """`call`, which now knows its `try` (at the same work) and its `call` (at the step)."""
        role, step, attempt, round_ = (
            call.facts[name] for name in ("role", "step", "attempt", "round")
        )
        call.facts["try"] = self._next(f"try-{role}-{step}-{attempt}-{round_}")
        call.facts["call"] = self._next(f"call-{role}-{step}")
        return call

    def may_play(self, number: int, times: object) -> bool:
        """Whether rule `number` may be played once more, of so many times; then it counts."""
        if not isinstance(times, int):
            return True
        return any(self._take(f"rule-{number}", place) for place in range(1, times + 1))

    def write(self, call: Call, rule: int | None) -> None:
        """One line for this call, written at once: many write to one log."""
        line = json.dumps({**call.facts, "rule": rule, "pid": os.getpid()}) + "\n"
        log = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            os.write(log, line.encode())
        finally:
            os.close(log)

    def _next(self, key: str) -> int:
        place = 1
        while not self._take(key, place):
            place += 1
        return place

    def _take(self, key: str, place: int) -> bool:
        name = "".join(c if c.isalnum() or c in "-_" else f"%{ord(c):x}" for c in key)
        path = os.path.join(self.directory, f"{name}.{place}")
        try:
            # Of all that try, the system lets one make the file.
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
        except FileExistsError:
            return False
        return True


def calls(log: str) -> list[dict[str, object]]:
    """Every call that a log tells of, in order."""
    with open(log, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
