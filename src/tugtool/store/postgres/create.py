"""Make and migrate a repository's schema; refuse one that is not for this program.

The tables are those of `store.schema` with the dialect's words. What SQLite does by itself is
added: row numbers, which an import may also set, and event numbers in the order of their
commits.
"""

from __future__ import annotations

import re

from tugtool.errors.state import DatabaseUnavailable, NewerDatabase
from tugtool.store import schema
from tugtool.store.owners import IN_DETAIL
from tugtool.store.postgres import libpq, translate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tugtool.store.owners import Machine
    from tugtool.store.postgres import PostgresStore

DIALECT = {
    "int64": "bigint",
    "real": "double precision",
    "serial": "bigint primary key",
    "strict": "",
    "random": "replace(gen_random_uuid()::text, '-', '')",
}

#: Text is compared byte by byte, as in SQLite, in every database.
_TEXT = re.compile(r"(?<=\w) text(?=[ ,\n])")
_TABLE = re.compile(r"create table (\w+)")
#: From this schema on, an owner is a machine and a path.
_WITH_MACHINES = 14
#: The columns that had a path alone.
_OWNERS = (
    *(("steps", "claimed_by"), ("steps", "completed_by"), ("attempts", "worktree")),
    *(("worktrees", "path"), ("unsaved", "worktree"), ("intents", "worktree")),
    *(("dashes", "worktree"), ("events", "actor")),
)
_NUMBERED = re.compile(r"create table (\w+) \(\n  (\w+) \{serial\}")

#: One row. It has the number of the last event: changing it is the lock that makes events wait
#: for the commit of those before. The last two are for `listen`, in milliseconds.
_REPOSITORY = """
create table repository (
  only_row boolean primary key default true check (only_row),
  version bigint not null,
  identity text not null,
  roots text not null,
  last_event bigint not null default 0,
  watched_until bigint not null default 0,
  noticed_at bigint not null default 0
)
"""

#: A random row per recent transaction, which proves its commit to a caller that got no answer.
_RECEIPTS = """
create table if not exists receipts (
  at {int64} not null,
  token text not null,
  primary key (at, token)
)
"""

# A row from an export may have its number; no later row gets the same. The lock is for those who
# wait: they would wait for the row twice, to be the next and then for its last change.
_NUMBER_EVENT = """
create or replace function number_event() returns trigger language plpgsql as $$
begin
  perform pg_advisory_xact_lock(hashtextextended({key}, 2));
  if new.seq is null then
    update {schema}.repository set last_event = last_event + 1 returning last_event into new.seq;
  else
    update {schema}.repository set last_event = greatest(last_event, new.seq);
  end if;
  return new;
end $$
"""
_NUMBER_ROW = """
create function number_{table}() returns trigger language plpgsql as $$
declare last bigint;
begin
  if new.{column} is null then
    new.{column} := nextval('{schema}.{table}_number');
  else
    select case when is_called then last_value else 0 end into last from {schema}.{table}_number;
    perform nextval('{schema}.{table}_number') from generate_series(last + 1, new.{column});
  end if;
  return new;
end $$
"""
_TRIGGER = """
create trigger number before insert on {table} for each row execute function {function}()
"""

# For every statement the server parses each check of its table anew, which takes a tenth of its
# time where every claim and completion writes. So these tables keep what must never be wrong: holds
# and counts. The rule of a step is a function, which is parsed once per connection. The rest is
# checked in files, where the same statements run.
_FACTS = (
    "status text, claimed_by text, claimed_at text, lease_expires_at text, heartbeat_at text,"
    " completed_at text, open_deps bigint"
)
_TIME = "____-__-__T__:__:__.___Z"
_RULES = {
    "steps": (
        f"""
create or replace function is_right({_FACTS}) returns boolean language plpgsql immutable as $$
begin
  return case when claimed_by is null
              then status in ('pending', 'completed')
                   and num_nonnulls(claimed_at, lease_expires_at, heartbeat_at) = 0
              else status in ('claimed', 'in_progress')
                   and (claimed_at || lease_expires_at || heartbeat_at like '{_TIME * 3}') is true
         end
     and (status = 'completed') = (completed_at is not null) and open_deps >= 0;
end $$
""",
        """
alter table steps add constraint steps_check check (
  is_right(status, claimed_by, claimed_at, lease_expires_at, heartbeat_at, completed_at, open_deps))
""",
    ),
    "attempts": (),
    "plan_counts": (
        """
alter table plan_counts add constraint plan_counts_check check (
  steps_ready >= 0 and steps_done between 0 and steps_total)
""",
    ),
    "events": (),
}
_CHECK = " check ("
# A query for every attempt, and a lock on its step, which the same transaction has just changed:
# the plan's lock keeps others from removing it.
_REFERENCES = {
    "attempts": "  foreign key (plan_path, step_anchor) references steps (plan_path, anchor),\n",
}

# A step that needs all others is rare, but statistics would count it: the planner would then take
# either index of `step_deps` for either column, and read every dependency of the plan.
_UNCOUNTED = """
alter table step_deps alter step_anchor set statistics 0, alter depends_on set statistics 0
"""
_TUNED = 16
# What brings older tables into this form.
_TUNE = (
    """
do $$
declare found record;
begin
  for found in
    select conrelid::regclass as name, conname
      from pg_constraint
     where contype = 'c' and conrelid in ('steps'::regclass, 'attempts'::regclass,
                                          'plan_counts'::regclass, 'events'::regclass)
        or contype = 'f' and conrelid = 'attempts'::regclass
  loop
    execute format('alter table %s drop constraint %I', found.name, found.conname);
  end loop;
  for found in
    select oid::regprocedure as name from pg_proc
     where pronamespace = current_schema()::regnamespace
       and proname in ('valid_steps', 'valid_attempts', 'valid_plan_counts')
  loop
    execute format('drop function %s', found.name);
  end loop;
end $$
""",
    "alter table repository add if not exists watched_until bigint not null default 0",
    "alter table repository add if not exists noticed_at bigint not null default 0",
)

# Roles that may use the older tables may use the new ones.
_GRANT = """
do $$
declare grant_ record;
begin
  for grant_ in
    select grantee, string_agg(privilege_type, ', ') as rights
      from information_schema.role_table_grants
     where table_schema = {schema} and table_name = 'plans' and grantee <> current_user
     group by grantee
  loop
    execute format('grant %s on all tables in schema %I to %s', grant_.rights, {schema},
      case grant_.grantee when 'PUBLIC' then 'public' else quote_ident(grant_.grantee) end);
  end loop;
end $$
"""

_NAMES = """
select n.nspname
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where c.relname = 'repository' and has_table_privilege(c.oid, 'select')
   and has_schema_privilege(n.oid, 'usage')
   and starts_with(n.nspname::text, $1)
   and exists (select 1 from pg_attribute a where a.attrelid = c.oid and a.attname = 'last_event')
"""


def translated(statement: str) -> str:
    """Translate a statement of `store.schema` for PostgreSQL."""
    return _TEXT.sub(' text collate "C"', statement.format(**DIALECT))


def statements(name: str) -> Iterator[str]:
    """Return the statements that make the tables in the schema with that quoted name."""
    yield translated(_REPOSITORY)
    yield translated(_RECEIPTS)
    for statement in schema.TABLES:
        yield from _table(translated(statement))
        numbered = _NUMBERED.search(statement)
        if numbered:
            yield from _numbering(name, *numbered.groups())
    yield _UNCOUNTED


def _table(statement: str) -> Iterator[str]:
    """Yield a table's statement; of a busy one without its rules, and then those that it keeps."""
    table = _TABLE.search(statement)
    name = table[1] if table else ""
    if name not in _RULES:
        yield statement
        return
    yield _without_checks(statement.replace(_REFERENCES.get(name, "\0"), ""))
    yield from _RULES[name]


def _without_checks(statement: str) -> str:
    first, *others = statement.split(_CHECK)
    parts = [first]
    for other in others:
        depth, end = 1, 0
        while depth:
            depth += {"(": 1, ")": -1}.get(other[end], 0)
            end += 1
        parts.append(other[end:])
    # A rule about several columns had its own line.
    lines = [line for line in "".join(parts).split("\n") if line.strip(" ,")]
    return "\n".join((*lines[:-2], lines[-2].rstrip(","), lines[-1]))


def _tuning(name: str) -> Iterator[str]:
    """Return what brings older tables into the form of new ones."""
    yield from _TUNE
    yield _number_event(name)
    for rules in _RULES.values():
        yield from rules
    yield _UNCOUNTED


def _numbering(name: str, table: str, column: str) -> Iterator[str]:
    if table == "events":
        yield _number_event(name)
        yield _TRIGGER.format(table=table, function="number_event")
        return
    yield f"create sequence {table}_number"
    yield _NUMBER_ROW.format(schema=name, table=table, column=column)
    yield _TRIGGER.format(table=table, function=f"number_{table}")


def _number_event(name: str) -> str:
    return _NUMBER_EVENT.format(schema=name, key=_literal(name))


def make(store: PostgresStore, *, roots: str = "") -> bool:
    """Make the schema and its tables, all or none. Return whether there were none."""
    address = store.address
    name = address.quoted_schema()
    if store.exists():
        return False
    if store.repository is not None and roots:
        refuse_second(store, roots)
    begin = ["begin", _locking(store), f"create schema if not exists {name}", _path(name)]
    there = f"select to_regclass({_literal(name + '.repository')}) is not null"
    connection = store.take()
    try:
        if _run(store, connection, (*begin, there)).rows[0][0]:
            _run(store, connection, ("rollback",))
            return False
        identity = _literal(store.repository or address.schema)
        row = f"values ({schema.VERSION}, {identity}, {_literal(roots)})"
        mark = f"insert into repository (version, identity, roots) {row}"
        _run(store, connection, (*statements(name), mark, "commit"))
    finally:
        connection.close()
    return True


def migrate(store: PostgresStore) -> int | None:
    """Migrate an older schema in one transaction under a lock. Return its former version."""
    name = store.address.quoted_schema()
    connection = store.take()
    begin = ("begin", _locking(store), _path(name), "select version from repository for update")
    try:
        version = _run(store, connection, begin).rows[0][0]
        if version > schema.VERSION:
            raise NewerDatabase(store.address.shown, found=version, known=schema.VERSION)
        if version == schema.VERSION:
            return None
        due = [each for leads_to, all_ in schema.MIGRATIONS if leads_to > version for each in all_]
        mark = f"update repository set version = {schema.VERSION}"
        grant = _GRANT.format(schema=_literal(store.address.schema))
        adopt = _adoption(store.owners.machine) if version < _WITH_MACHINES and store.owners else ()
        tuning = _tuning(name) if version < _TUNED else ()
        changes = (*map(translated, (_RECEIPTS, *due)), *adopt, *tuning, grant, mark, "commit")
        _run(store, connection, changes)
    finally:
        connection.close()
    return int(version)


def _adoption(machine: Machine) -> Iterator[str]:
    """Return the statements that give rows without a machine to the one that migrates them."""
    own = _literal(f"{machine.id}:")
    yield f"insert into machines values ({_literal(machine.id)}, {_literal(machine.name)})"
    for table, column in _OWNERS:
        path = f"where substr({column}, 1, 1) in ('/', '.')"
        yield f"update {table} set {column} = {own} || {column} {path}"
    for mark in IN_DETAIL:
        yield f"update events set detail = replace(detail, '{mark}/', '{mark}' || {own} || '/')"
    # It is faster to read the files again.
    yield "delete from plan_copies"


def refuse(store: PostgresStore, *, version: int, identity: str) -> None:
    """Refuse a schema of another version or another repository."""
    address = store.address
    if version > schema.VERSION:
        raise NewerDatabase(address.shown, found=version, known=schema.VERSION)
    if version < schema.VERSION:
        reason = f"has the older schema {version} (this program knows {schema.VERSION})"
        hint, name = "tugcode migrate", "OLDER"
    else:
        reason = f"has the state of {identity} in the schema {address.schema}, not this one's"
        hint, name = "tugcode config", None
    raise DatabaseUnavailable(address.shown, reason=reason, name=name, hint=hint, engine="postgres")


def refuse_second(store: PostgresStore, roots: str) -> None:
    """Refuse a second state of the same repository: it would be a mistake."""
    for row in store.ask(_NAMES.encode(), f"{store.address.base}_").rows:
        name = '"' + row[0].replace('"', '""') + '"'
        found = store.ask(f"select identity, roots from {name}.repository".encode()).rows
        if found and found[0]["roots"] == roots and found[0]["identity"] != store.repository:
            identity = found[0]["identity"]
            reason = (
                f"has a state of the same history under another name, {identity};"
                f" this clone calls itself {store.repository}"
            )
            hint = f'say state.repository = "{identity}" in .tugtool/config.toml to share it'
            raise DatabaseUnavailable(
                store.address.shown, reason=reason, hint=hint, engine="postgres"
            )


def _locking(store: PostgresStore) -> str:
    key = _literal(f"{store.address.schema}\n")
    return f"select pg_advisory_xact_lock(hashtextextended({key}, 1))"


def _path(name: str) -> str:
    return f"select set_config('search_path', {_literal(name)}, true)"


def _literal(text: str) -> str:
    """Return a string literal; the server does not interpret backslashes."""
    return "'" + text.replace("'", "''") + "'"


def _run(store: PostgresStore, connection: libpq.Connection, texts: Iterable[str]) -> libpq.Outcome:
    """Run statements in one transaction. Return the last result."""
    sent = [each.encode() for each in texts]
    try:
        for each in sent:
            connection.send(each)
        connection.flush()
        outcomes = connection.receive(len(sent))
    except libpq.ConnectionLost as error:
        raise translate.lost(store.address, "nothing was made") from error
    for outcome in outcomes:
        if isinstance(outcome, libpq.StatementFailed):
            refusal = translate.refusal(store.address, outcome)
            if outcome.state == translate.NO_RIGHT:
                refusal.hint = "the same with the owner's address in TUGCODE_STATE_URL"
            raise refusal
    last = outcomes[-1]
    assert isinstance(last, libpq.Outcome)
    return last
