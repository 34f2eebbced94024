"""Wait for a change: LISTEN and NOTIFY, and a look now and then in case they do not arrive."""

from __future__ import annotations

import time

from tugtool.store.postgres import libpq, translate
from tugtool.store.postgres.statements import NOTICE_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.store.postgres import PostgresStore

#: How often at least to look at the log's last number: a pooler may swallow every notice. Rarely,
#: once a notice has arrived.
LOOK_SECONDS, SELDOM_SECONDS = 1.0, 10.0
_PAUSE_SECONDS = 0.05
#: A commit sends a notice only while a process says that it waits, and says so again.
_WATCHED_SECONDS = 60
_WATCH = b"""
update %s.repository
   set watched_until = floor(extract(epoch from clock_timestamp()) * 1000) + 1000 * $1
 where watched_until < floor(extract(epoch from clock_timestamp()) * 1000) + 500 * $1
"""
# If that is lost in a crash, the process looks now and then.
_LAZILY = b"select set_config('synchronous_commit', 'off', true)"


class Listener:
    """A separate connection that gets notices of commits."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._connection: libpq.Connection | None = None
        self._seen: int | None = None
        #: After so many seconds to look, next time and at most.
        self._look_seconds, self._seldom_seconds = NOTICE_SECONDS, LOOK_SECONDS
        #: When to say again that this process waits.
        self._watched_until = 0.0
        self._listen = f"listen {store.address.quoted_schema()}".encode()
        self._watch = _WATCH % store.address.quoted_schema().encode()

    def wait(self, seconds: float) -> bool:
        """Return after a commit since the last call, or after so many seconds."""
        deadline = time.monotonic() + seconds
        try:
            if self._connection is not None:
                return self._wait(deadline)
        except libpq.ConnectionLost:
            self.close()
        # Notices from meanwhile did not arrive. The number may be the same and the event another: a
        # server that crashed forgets what was not synced, and gives its numbers out again.
        before, self._seen = self._seen, self._begin()
        return before is not None or self._wait_on(deadline)

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
            look = self._look_seconds
            notices = connection.notices(min(left, look))
            newest = max((int(each) for each in notices if each), default=0)
            if notices:
                self._seldom_seconds = SELDOM_SECONDS
            if newest > (self._seen or 0):
                self._seen = newest
                return self._changed()
            # A notice can arrive after this process has read what it reports.
            before, self._seen = self._seen, self._number()
            if "" in notices or self._seen != before:
                return self._changed()
            if left >= look:
                self._look_seconds = min(2 * look, self._seldom_seconds)
            if left <= 0:
                return False

    def _changed(self) -> bool:
        """Look soon again: a commit right after a notice sends none."""
        self._look_seconds = 1.1 * NOTICE_SECONDS
        return True

    def _begin(self) -> int:
        """Connect and listen; a new connection that is lost is made again."""
        deadline = time.monotonic() + self._store.busy_seconds
        while True:
            self._connection = self._store.connect()
            try:
                self._ask(self._listen)
                self._watched_until = 0.0
                self._look_seconds = NOTICE_SECONDS
                return self._number()
            except libpq.ConnectionLost as error:
                self.close()
                if time.monotonic() > deadline:
                    raise translate.lost(self._store.address, "nothing was written") from error
                time.sleep(_PAUSE_SECONDS)

    def _number(self) -> int:
        if time.monotonic() > self._watched_until:
            self._say()
        rows = self._ask(self._store.last_event).rows
        return int(rows[0][0])

    def _say(self) -> None:
        """Say that this process waits, unless another one has just said so."""
        assert self._connection is not None
        self._watched_until = time.monotonic() + _WATCHED_SECONDS / 2
        self._connection.send(_LAZILY)
        self._connection.send(self._watch, (b"%d" % _WATCHED_SECONDS,))
        self._connection.flush()
        # A role that may only read looks now and then.
        self._connection.receive(2)

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
