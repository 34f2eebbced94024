"""Look at the server for `doctor`: rights, clock, standbys, and locks that are kept too long."""

from __future__ import annotations

from tugtool.system import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tugtool.store.postgres import PostgresStore

#: Leases use the server's clock alone; people compare its times with their own clock.
CLOCK_SECONDS = 30
#: A standby that is further behind would lose what was acknowledged, if it took over.
BEHIND_BYTES = 16 << 20

#: What the role may not do that every worker must: the right and what it is about.
_RIGHTS = b"""
select 'usage', 'schema ' || n.nspname
  from pg_namespace n
 where n.nspname = $1 and not has_schema_privilege(n.oid, 'usage')
 union all
select p.name, 'table ' || c.relname
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
       cross join (values ('select'), ('insert'), ('update'), ('delete')) as p (name)
 where n.nspname = $1 and c.relkind = 'r' and not has_table_privilege(c.oid, p.name)
 union all
select 'usage', 'sequence ' || c.relname
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where n.nspname = $1
   and case c.relkind when 'S' then not has_sequence_privilege(c.oid, 'usage') else false end
 union all
select 'execute', 'function ' || proname
  from pg_proc
 where proname = 'pg_logical_emit_message' and proargtypes[2] = 'text'::regtype
   and not has_function_privilege(oid, 'execute')
 order by 1, 2
"""
_CLOCK = b"select floor(extract(epoch from clock_timestamp()) * 1000)::bigint"
_IS_STANDBY = b"select pg_is_in_recovery()"
#: A role without the right to see it gets no numbers.
_STANDBYS = b"""
select application_name, pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::bigint
  from pg_stat_replication where replay_lsn is not null order by 1
"""
#: Transactions that have held the lock of a plan for so many seconds.
_LOCKED = """
select p.plan_path, a.pid, a.application_name, coalesce(a.client_hostname, a.client_addr::text)
  from (select plan_path from {schema}.plans union all select '') as p
  join pg_locks l on (l.classid::bigint << 32) | l.objid::bigint
                     = hashtextextended($1 || chr(10) || p.plan_path, 0)
  join pg_stat_activity a on a.pid = l.pid
 where l.locktype = 'advisory' and l.granted and l.objsubid = 1
   and l.database = (select oid from pg_database where datname = current_database())
   and clock_timestamp() - a.xact_start > make_interval(secs => $2::double precision)
 order by 1
"""


def missing_rights(store: PostgresStore) -> list[str]:
    """Return what the role lacks, as `insert on table steps`."""
    rows = store.ask(_RIGHTS, store.address.schema).rows
    return [f"{right} on {what}" for right, what in rows]


def clock_ahead(store: PostgresStore) -> float:
    """Return by how many seconds the server's clock is ahead of this machine's, or behind."""
    # The first question makes the connection.
    store.ask(_CLOCK)
    before = clock.system_milliseconds()
    server: int = store.ask(_CLOCK).rows[0][0]
    after = clock.system_milliseconds()
    between = min(max(server, before), after)
    return (server - between) / 1000


def is_standby(store: PostgresStore) -> bool:
    """Return whether the server only follows another, and takes no changes."""
    return bool(store.ask(_IS_STANDBY).rows[0][0])


def standbys_behind(store: PostgresStore) -> Iterator[tuple[str, int]]:
    """Yield the standbys that are far behind, with how many bytes they lack."""
    for name, size in store.ask(_STANDBYS).rows:
        if size is not None and size > BEHIND_BYTES:
            yield str(name), int(size)


def kept_locks(store: PostgresStore, seconds: float) -> Iterator[tuple[str, str]]:
    """Yield the plans that have been locked for so long, and who locks them."""
    statement = _LOCKED.format(schema=store.address.quoted_schema()).encode()
    for plan, pid, name, host in store.ask(statement, store.address.schema, seconds).rows:
        where = host or "the server's machine"
        yield str(plan), f"{name or 'a program'} at {where} (the server's process {pid})"
