"""What starting a Python costs here; the only other module that starts a process is `git`.

Processor time of the process, not time that passed: a busy machine must not look slow.
"""

from __future__ import annotations

import os

from tugtool import config


def milliseconds(*words: str, times: int = 3) -> float | None:
    """The least processor time of so many runs of a command; None if it cannot be run."""
    found = [_one(words) for _ in range(times)]
    return min((each for each in found if each is not None), default=None)


def _one(words: tuple[str, ...]) -> float | None:
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    try:
        child = os.posix_spawn(words[0], words, dict(config.environment()), file_actions=nowhere)
    except (OSError, ValueError):
        return None
    _, status, usage = os.wait4(child, 0)
    return None if status else (usage.ru_utime + usage.ru_stime) * 1000


def output(*words: str) -> str:
    """What a small command of the system's prints; nothing if it cannot be run."""
    reading, writing = os.pipe()
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, writing, 1),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    try:
        child = os.posix_spawnp(words[0], words, dict(config.environment()), file_actions=actions)
    except (OSError, ValueError):
        os.close(reading)
        return ""
    finally:
        os.close(writing)
    with open(reading, "rb") as file:
        told = file.read()
    os.waitpid(child, 0)
    return os.fsdecode(told)
