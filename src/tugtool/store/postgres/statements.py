"""The engine's own statements: how a transaction begins, reads the clock, ends and is proved.

The statements about rows are those of every engine, in `store.sql`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.store.postgres.round_trips import Statement

#: Nobody asks for a receipt after this time; one transaction in 64, by its token, removes old ones.
KEPT_SECONDS, _FORGETFUL = 24 * 3600, b"04"

#: Notices are at least so far apart. A watcher that gets one looks again after this time.
NOTICE_SECONDS = 0.15

BEGIN_WRITING = b"begin isolation level read committed"
BEGIN_READING = b"begin isolation level repeatable read read only"
#: READ COMMITTED: a stricter level would keep a snapshot from before the wait.
LOCK = b"pg_advisory_xact_lock(hashtextextended($1, 0))"
#: Which tables these are, who answers, and the time: as a number, and as text for statements
#: that are sent along. Also whether a process waits for a notice and has had none just now.
CLOCK = b"""
select version, identity, pg_backend_pid() as process, milliseconds,
       set_config('tugtool.now',
                  to_char(t at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), true),
       watched_until > milliseconds
       and noticed_at not between milliseconds - %d and milliseconds as is_awaited
  from (select t, floor(extract(epoch from t) * 1000)::bigint as milliseconds
          from (select %%s as t offset 0) as moment offset 0) as clock, repository
""" % (NOTICE_SECONDS * 1000)
READ_CLOCK = CLOCK % b"clock_timestamp()"
LOCK_THEN_CLOCK = CLOCK % (b"case when %s::text is not null then clock_timestamp() end" % LOCK)
SET_NOW = b"select set_config('tugtool.now', $1, true)"
NOW = b"current_setting('tugtool.now')"
NOTICED = b"update repository set noticed_at = floor(extract(epoch from clock_timestamp()) * 1000)"
# After the commit: a notice inside it would make all commits of the server queue at one lock.
NOTIFY = b"select set_config('synchronous_commit', 'off', true), pg_notify($1, %s)"
# A receipt proves that a commit happened, to any server that has its rows: after a restart, behind
# a pooler, and on a standby that took over. Transaction ids and equal events do not.
RECEIPT = b"insert into receipts (at, token) values ($1, $2)"
#: An update, so that its own commit waits until the receipt is as safe as an answered commit.
RECEIVED = b"update receipts set token = token where at = $1 and token = $2"
FORGET = (
    b"delete from receipts where (at, token) in (select at, token from receipts where at < $1"
    b" order by at, token limit 1000 for update skip locked)"
)


def clean_up(token: bytes, milliseconds: int) -> list[Statement]:
    """Return the statement that removes old receipts, now and then; else none."""
    if token >= _FORGETFUL:
        return []
    return [(FORGET, (b"%d" % (milliseconds - KEPT_SECONDS * 1000),))]
