"""Named points at which a process can be made to die, so that recovery can be shown.

Set TUGCODE_CRASH_AT to a name, and the process kills itself there as `kill -9` would: no
clean-up, no answer. Each name is listed in docs/crash-points.md, and each is tested.
"""

from __future__ import annotations

import os

from tugtool import config

#: Every point: what has happened when it is reached. A name is its command and a word.
POINTS: dict[str, str] = {}

_SIGKILL = 9


def point(name: str) -> None:
    """Die here, if that is what was asked for."""
    if config.crash_point() == name:
        os.kill(os.getpid(), _SIGKILL)
