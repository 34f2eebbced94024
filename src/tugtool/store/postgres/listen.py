"""Wait for a change: LISTEN and NOTIFY, and a look now and then in case they do not arrive."""

from __future__ import annotations

import time

from tugtool.store.postgres import libpq, translate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.store.postgres import PostgresStore

#: How often to look at the log's last number: a pooler may swallow every notice. Rarely, once
#: a notice has arrived.
LOOK_SECONDS, SELDOM_SECONDS = 1.0, 10.0


class Listener:
    """A separate connection that gets notices of commits."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._connection: libpq.Connection | None = None
        self._seen = 0
        self._look_seconds = LOOK_SECONDS
        self._listen = f"listen {store.address.quoted_schema()}".encode()

    def wait(self, seconds: float) -> bool:
        """Return after a commit since the last call, or after so many seconds."""
        deadline = time.monotonic() + seconds
        if self._connection is None:
            self._seen = self._begin()
        try:
            return self._wait(deadline)
        except libpq.ConnectionLost:
            self.close()
            # Notices from meanwhile did not arrive.
            before, self._seen = self._seen, self._begin()
            return before != self._seen

    def _wait(self, deadline: float) -> bool:
        connection = self._connection
        assert connection is not None
        while True:
            left = deadline - time.monotonic()
            notices = connection.notices(min(left, self._look_seconds))
            self._look_seconds = SELDOM_SECONDS if notices else self._look_seconds
            newest = max((int(each) for each in notices if each), default=0)
            if newest > self._seen:
                self._seen = newest
                return True
            # A notice can arrive after this process has read what it reports.
            before, self._seen = self._seen, self._number()
            if "" in notices or self._seen != before:
                return True
            if left <= 0:
                return False

    def _begin(self) -> int:
        self._connection = self._store.connect()
        self._ask(self._listen)
        return self._number()

    def _number(self) -> int:
        rows = self._ask(self._store.last_event).rows
        return int(rows[0][0])

    def _ask(self, statement: bytes) -> libpq.Outcome:
        assert self._connection is not None
        self._connection.send(statement)
        self._connection.flush()
        outcome = self._connection.receive(1)[0]
        if isinstance(outcome, libpq.StatementFailed):
            raise translate.refusal(self._store.address, outcome)
        return outcome

    def close(self) -> None:
        """Stop listening."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
