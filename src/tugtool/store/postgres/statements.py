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
#: For one transaction: its commit does not wait for the disk, and releases its locks before.
_AHEAD = b"set_config('synchronous_commit', 'off', true)"
#: Behind every position in the server's log.
LAST = b"FFFFFFFF/FFFFFFFF"
#: Up to where the log must be synced before a caller may rely on what it read; null if it is.
#: Evaluated after the snapshot, so every commit that the snapshot shows lies before it. Standbys
#: replay only what is synced. How far they are, an ordinary role cannot see.
_UNSYNCED = (
    b"""
       case when pg_is_in_recovery() then null
            when current_setting('synchronous_standby_names') <> '' then '%s'
            when pg_current_wal_flush_lsn() < pg_current_wal_insert_lsn()
            then pg_current_wal_insert_lsn()::text end as unsynced,
       """
    % LAST
)
#: The time as text, also for statements that are sent along; which tables these are; who answers;
#: whether a process waits for a notice, and when the last one was sent. From left to right, so what
#: comes after the time comes after the lock.
_CLOCK = b"""
select %sset_config('tugtool.now',
                  to_char(%s at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), true) as moment,
       %sversion, identity, pg_backend_pid() as process, watched_until, noticed_at
  from repository
"""
READ_CLOCK = _CLOCK % (b"", b"clock_timestamp()", _UNSYNCED)
LOCK_THEN_CLOCK = _CLOCK % (
    _AHEAD + b",\n       ",
    b"case when %s::text is not null then clock_timestamp() end" % LOCK,
    _UNSYNCED,
)
SET_NOW = b"select set_config('tugtool.now', $1, true)"
NOW = b"current_setting('tugtool.now')"
NOTICED = b"update repository set noticed_at = floor(extract(epoch from clock_timestamp()) * 1000)"
# In a transaction of its own: in one that syncs, all commits of the server would queue at one lock.
NOTIFY = b"select %s, pg_notify($1, %%s)" % _AHEAD
#: In a transaction of its own: wait until the log is synced up to a position, on the disk and at
#: the standbys that the server waits for. It has a message that nobody reads, so that its commit
#: waits, together with all others that wait at this moment. If the server is set not to wait, it
#: waits all the same.
SYNC = b"""
select set_config('synchronous_commit', case current_setting('synchronous_commit')
                  when 'off' then 'on' else current_setting('synchronous_commit') end, true),
       case when pg_current_wal_flush_lsn() < $1::pg_lsn
            then pg_logical_emit_message(true, 'tugtool', '') end
"""
# A receipt proves that a commit happened, to any server that has its rows: after a restart, behind
# a pooler, and on a standby that took over. Transaction ids and equal events do not.
RECEIPT = b"insert into receipts (at, token) values ($1, $2)"
#: An update: a standby that has not yet taken over refuses it.
RECEIVED = b"update receipts set token = token where at = $1 and token = $2"
FORGET = (
    b"delete from receipts where (at, token) in (select at, token from receipts where at < $1"
    b" order by at, token limit 1000 for update skip locked)"
)

#: The seconds of the last few times, without their fractions.
_seconds: dict[str, int] = {}


def milliseconds(moment: str) -> int:
    """Return the time that the server tells. By hand: `datetime` would cost every claim's start."""
    second = _seconds.get(moment[:19])
    if second is None:
        if len(_seconds) > 10:
            _seconds.clear()
        year, month, day = int(moment[:4]), int(moment[5:7]), int(moment[8:10])
        # Years that begin in March end with the day that only some of them have.
        year, month = (year - 1, month + 9) if month < 3 else (year, month - 3)
        days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day
        hours = int(moment[11:13]) + 24 * (days - 719469)
        second = int(moment[17:19]) + 60 * (int(moment[14:16]) + 60 * hours)
        _seconds[moment[:19]] = second
    return 1000 * second + int(moment[20:23])


def clean_up(token: bytes, milliseconds: int) -> list[Statement]:
    """Return the statement that removes old receipts, now and then; else none."""
    if token >= _FORGETFUL:
        return []
    return [(FORGET, (b"%d" % (milliseconds - KEPT_SECONDS * 1000),))]
