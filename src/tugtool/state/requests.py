"""Requests to a server: answers by idempotency key, and a plan file that several share.

A caller that lost an answer sends its request again, and gets the same answer. That is stored with
what the request changed, in one commit, so the second request cannot change it again.
"""

from __future__ import annotations

from tugtool import errors
from tugtool.state.record import PlanCopy
from tugtool.store import NO_PLAN
from tugtool.store.sql import records as sql_records
from tugtool.system import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.store import Store, Transaction


#: After this time a key may be used for another request.
KEPT_SECONDS = 86_400


def recall(store: Store, who: str, key: str, *, command: str, request_hash: str) -> str | None:
    """Return the answer that this request got before, or None.

    Refuse a key that the caller has used for another request.
    """
    if not store.exists():
        return None
    with store.read() as tx:
        row = tx.first(sql_records.REQUEST, who=who, key=key, since=_oldest(tx))
    if row is None:
        return None
    if (row["command"], row["request_hash"]) != (command, request_hash):
        problem = f'the idempotency key "{key}" was used for another request, {row["command"]}'
        raise errors.Usage(problem, command=command)
    return str(row["answer"])


def remember(
    store: Store, who: str, key: str, *, command: str, request_hash: str, answer: str
) -> None:
    """Keep the answer to a request, and forget those that are too old."""
    with store.write(NO_PLAN) as tx:
        tx.run(sql_records.DROP_OLD_REQUESTS, until=_oldest(tx))
        tx.run(
            sql_records.ADD_REQUEST,
            who=who,
            key=key,
            command=command,
            request_hash=request_hash,
            answer=answer,
        )


def _oldest(tx: Transaction) -> str:
    return clock.text(clock.milliseconds(tx.now) - KEPT_SECONDS * 1000)


class SharedCopy(PlanCopy):
    """The main worktree's plan file, for several requests: its hash is looked up once."""

    __slots__ = ("_found",)

    def __init__(self, own: PlanCopy) -> None:
        super().__init__(own.file, own.hash, signature=own.signature, read=own.read)
        self._found: str | None = None

    def hash_in(self, tx: Transaction) -> str | None:
        """Return the hash."""
        self._found = self._found or super().hash_in(tx)
        return self._found
