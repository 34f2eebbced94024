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
_PAUSE_SECONDS = 0.05


class Listener:
    """A separate connection that gets notices of commits."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._connection: libpq.Connection | None = None
        self._seen: int | None = None
        self._look_seconds = LOOK_SECONDS
        self._listen = f"listen {store.address.quoted_schema()}".encode()

    def wait(self, seconds: float) -> bool:
        """Return after a commit since the last call, or after so many seconds."""
        deadline = time.monotonic() + seconds
        try:
            if self._connection is not None:
                return self._wait(deadline)
        except libpq.ConnectionLost:
            self.close()
        # Notices from meanwhile did not arrive.
        before, self._seen = self._seen, self._begin()
        return before not in (None, self._seen) or self._wait_on(deadline)

    def _wait_on(self, deadline: float) -> bool:
        """Wait on a new connection; if that is lost too, the caller should look."""
        try:
            return self._wait(deadline)
        except libpq.ConnectionLost:
            self.close()
            return True

    def _wait(self, deadline: float) -> bool:
        connection = self._connection
        assert connection is not None
        while True:
            left = deadline - time.monotonic()
            notices = connection.notices(min(left, self._look_seconds))
            self._look_seconds = SELDOM_SECONDS if notices else self._look_seconds
            newest = max((int(each) for each in notices if each), default=0)
            if newest > (self._seen or 0):
                self._seen = newest
                return True
            # A notice can arrive after this process has read what it reports.
            before, self._seen = self._seen, self._number()
            if "" in notices or self._seen != before:
                return True
            if left <= 0:
                return False

    def _begin(self) -> int:
        """Connect and listen; a new connection that is lost is made again."""
        deadline = time.monotonic() + self._store.busy_seconds
        while True:
            self._connection = self._store.connect()
            try:
                self._ask(self._listen)
                return self._number()
            except libpq.ConnectionLost as error:
                self.close()
                if time.monotonic() > deadline:
                    raise translate.lost(self._store.address, "nothing was written") from error
                time.sleep(_PAUSE_SECONDS)

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
