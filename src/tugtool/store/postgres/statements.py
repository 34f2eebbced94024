"""The engine's own statements: how a transaction begins, reads the clock, ends and is proved.

The statements about rows are those of every engine, in `store.sql`.
"""

from __future__ import annotations

BEGIN_WRITING = b"begin isolation level read committed"
BEGIN_READING = b"begin isolation level repeatable read read only"
#: READ COMMITTED: a stricter level would keep a snapshot from before the wait.
LOCK = b"pg_advisory_xact_lock(hashtextextended($1, 0))"
#: Which tables these are, who answers, and the time: as a number, and as text for statements
#: that are sent along.
CLOCK = b"""
select version, identity, pg_backend_pid() as process,
       floor(extract(epoch from t) * 1000)::bigint as milliseconds,
       set_config('tugtool.now',
                  to_char(t at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), true)
  from (select %s as t offset 0) as clock, repository
"""
READ_CLOCK = CLOCK % b"clock_timestamp()"
LOCK_THEN_CLOCK = CLOCK % (b"case when %s::text is not null then clock_timestamp() end" % LOCK)
SET_NOW = b"select set_config('tugtool.now', $1, true)"
NOW = b"current_setting('tugtool.now')"
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
