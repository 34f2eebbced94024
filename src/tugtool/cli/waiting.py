"""Waiting until something can be claimed."""

from __future__ import annotations

import time

from tugtool.state_errors import NotReady

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from tugtool.store import Store

    Data = dict[str, object]

#: A lease may run out, or a holder die, without anybody writing anything.
LONGEST_NAP_SECONDS = 1.0


def claim(store: Store, attempt: Callable[[], Data], seconds: float) -> Data:
    """Try until something is claimed, everything is done, or the time is up."""
    deadline = time.monotonic() + seconds
    while True:
        left = deadline - time.monotonic()
        try:
            answer = attempt()
            if answer["claimed"] or answer["all_completed"] or left <= 0:
                return answer
        except NotReady:
            # The one step that was asked for is held or blocked; that can change.
            if left <= 0:
                raise
        store.wait_for_change(min(left, LONGEST_NAP_SECONDS))
