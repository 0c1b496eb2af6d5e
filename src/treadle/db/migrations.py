"""Brings a schema up to date: numbered migrations once, functions whenever their text has changed. Functions whose file
is gone are dropped, with the triggers that call them. Sequences that logical replication has left behind are advanced.

All of it is one transaction, except what is prepared beforehand: see preparation.py. An advisory lock lets one run at a
time, and the others find nothing left to do. First it takes the strongest lock on every table that it changes, so that
it waits for nothing afterwards. It does not wait for long, but tries again: see table_locks.py. Most changes are to
functions, which need no lock.
"""

import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import psycopg
from psycopg import Connection

from treadle.db.function_settings import PINNED_LOCALLY, function_sql
from treadle.db.preparation import BEFORE, Preparation, check_sql, preparation_sql, preparations, prepare
from treadle.db.query import in_schema, sql_names, sql_text
from treadle.db.setup_connection import connect
from treadle.db.table_locks import LOCK_TIMEOUT, LONGEST_TIMEOUT, lock_sql, retried, settings_sql
from treadle.settings import chosen_schema
from treadle.words.errors import NotAllowed, SchemaError
from treadle.words.naming import schema_name

# How the file name of a migration ends that versions without it can live with: it only adds, with defaults, and every
# function still accepts what the version before it sends. Older versions read the name in the migration records.
COMPATIBLE = ".compatible.sql"

# The folders of sql/functions, in the order in which they are applied. Triggers come last: they lock the table of jobs
# until the commit, and their conditions call functions that must exist.
FOLDERS = ("parts", "public", "triggers")

# The records of functions have a second entry, with this before its name, for the trigger that calls the function.
TRIGGER = "trigger "

# The migration records. Not a migration itself: they have to exist before the first one.
RECORDS = """\
create schema if not exists {schema};

create table if not exists treadle.migrations (
    version    int primary key,
    name       text not null,
    applied_at timestamptz not null default now()
);

comment on table treadle.migrations is 'The migrations that were applied.';

create table if not exists treadle.functions (
    name       text primary key,
    digest     text not null,
    applied_at timestamptz not null default now()
);

comment on table treadle.functions is 'The functions as they were last applied: a changed file is applied again.';
"""


# No CASCADE: a view or function of the user that depends on one of ours is the user's to change first.
RETIRE = """\
do $$
declare
    v_schema constant oid := (select relnamespace from pg_class where oid = 'treadle.jobs'::regclass);
    v_trigger record;
    v_function regprocedure;
begin
    for v_trigger in
        select trigger.tgname as name, trigger.tgrelid::regclass as on_table
        from pg_trigger as trigger
        join pg_proc as function on function.oid = trigger.tgfoid
        where function.pronamespace = v_schema
          and function.proname = '{name}'
          and not trigger.tgisinternal
    loop
        execute format('drop trigger %I on %s', v_trigger.name, v_trigger.on_table);
    end loop;
    for v_function in select oid from pg_proc where pronamespace = v_schema and proname = '{name}' loop
        execute format('drop function %s', v_function);
    end loop;
end
$$;"""

# The columns with generated numbers, as far as the role may advance them.
GENERATED = """\
select attribute.attrelid::regclass::text, attribute.attname::text, sequence.name
from pg_attribute as attribute
cross join lateral pg_get_serial_sequence(attribute.attrelid::regclass::text, attribute.attname) as sequence (name)
where attribute.attrelid in (select oid from pg_class where relnamespace = to_regnamespace(%s) and relkind = 'r')
  and attribute.attidentity <> ''
  and has_table_privilege(attribute.attrelid, 'select')
  and has_sequence_privilege(sequence.name, 'update')
"""


class Step(NamedTuple):
    """A piece of SQL that is to run, and how it is recorded."""

    name: str
    sql: str
    entry: str
    tables: frozenset[str] = frozenset()
    """The tables that it locks, if they exist."""


class State(NamedTuple):
    """What the migration records say."""

    names: dict[int, str]
    functions: dict[str, str]

    @property
    def version(self) -> int:
        return max(self.names, default=0)


def migrate(url: str, schema: str | None = None) -> list[str]:
    """Apply what is missing; return the names of what was applied."""
    schema = chosen_schema(schema)
    with connect(url) as connection:
        # A pooler in transaction mode may not know a statement that was prepared on another session.
        connection.prepare_threshold = None
        prepare(connection, url, schema, _preparations(connection, schema))
        return retried(schema, lambda timeout: _apply(connection, schema, timeout))


def migration_sql(url: str, schema: str | None = None) -> str:
    """What migrate would run, as a script."""
    schema = chosen_schema(schema)
    with connect(url) as connection:
        steps = _pending(connection, schema)
        before = preparation_sql(connection, schema, _preparations(connection, schema))
        lock = lock_sql(connection, schema, _tables(steps), LONGEST_TIMEOUT)
        begin = f"begin;\n{PINNED_LOCALLY};\n{settings_sql(connection)}"
    if not steps:
        return ""
    parts = [*before, begin, *([lock] if lock else []), _records(schema)]
    parts += [f"-- {step.name}\n{step.sql}\n{step.entry}" for step in steps]
    return "\n\n".join([*parts, "commit;"]) + "\n"


def check_schema(connection: Connection[Any], schema: str) -> None:
    """Raise SchemaError, with what to do, unless the schema fits this version of Treadle."""
    try:
        state = _state(connection, schema)
    except psycopg.errors.InsufficientPrivilege as error:
        raise not_allowed(error.diag.message_primary, schema) from None
    needed = max(number for number, _ in migration_files())
    if state is None:
        raise no_schema(schema)
    _refuse_newer(state, schema, needed)
    missing = {name for name, _ in function_files(connection.info.server_version)} - state.functions.keys()
    if missing and state.version > needed:
        raise _newer(state, schema, needed)
    if state.version < needed or missing:
        at = f"is at {state.version} but this version needs {needed}" if state.version < needed else "lacks functions"
        raise SchemaError(f"schema {schema} {at}; run: treadle migrate")


def no_schema(schema: str) -> SchemaError:
    return SchemaError(f"there is no schema {schema} in this database; run: treadle migrate")


def schema_problem(url: str, schema: str) -> str | None:
    """Why the schema does not fit this version of Treadle, with what to do; None if it does."""
    try:
        with connect(url) as connection:
            check_schema(connection, schema)
    except (SchemaError, NotAllowed) as error:
        return str(error)
    return None


def not_allowed(message: str | None, schema: str) -> NotAllowed:
    return NotAllowed(
        f"the database role may not do this in schema {schema} ({message}); "
        "grant it one of the groups of: treadle roles (treadle_viewer reads all but payloads, treadle_operator also "
        "reads payloads and makes changes, treadle_worker enqueues and runs jobs)"
    )


@cache
def migration_files() -> list[tuple[int, str]]:
    """Number and file name of each migration, in order."""
    return [(int(name.split("_", 1)[0]), name) for name in sql_names("migrations") if not name.endswith(BEFORE)]


@cache
def function_files(server_version: int) -> list[tuple[str, str]]:
    """Name and file (folder/file.sql) of each function, in the order of FOLDERS, then of names; name.pg18.sql replaces
    name.sql from PostgreSQL 18 on."""
    chosen: dict[str, str] = {}
    for folder in FOLDERS:
        for file_name in sql_names("functions", folder):
            match = re.fullmatch(r"(\w+)(?:\.pg(\d+))?\.sql", file_name)
            if match and (
                (match[2] is None and match[1] not in chosen) or (match[2] and server_version >= int(match[2]) * 10000)
            ):
                chosen[match[1]] = f"{folder}/{file_name}"
    return list(chosen.items())


def _apply(connection: Connection[Any], schema: str, timeout: int) -> list[str]:
    if not _pending(connection, schema):
        return []
    with connection.transaction():
        connection.execute(PINNED_LOCALLY)
        connection.execute(settings_sql(connection).encode())
        connection.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"treadle migrate {schema}"])
        steps = _pending(connection, schema)
        if lock := lock_sql(connection, schema, _tables(steps), timeout):
            connection.execute(lock.encode())
        if steps:
            connection.execute(_records(schema).encode())
        for step in steps:
            connection.execute(step.sql.encode())
            connection.execute(step.entry.encode())
    return [step.name for step in steps]


def _preparations(connection: Connection[Any], schema: str) -> list[Preparation]:
    """Those of the pending migrations. A new schema has no rows for which they would be needed."""
    state = _state(connection, schema)
    if state is None or state.version == 0:
        return []
    pending = [(number, name) for number, name in migration_files() if number > state.version]
    return [each for number, name in pending for each in preparations(number, name)]


def _pending(connection: Connection[Any], schema: str) -> list[Step]:
    state = _state(connection, schema) or State({}, {})
    migrations = migration_files()
    known = max(number for number, _ in migrations)
    _refuse_newer(state, schema, known)
    if state.version > known:  # and compatible: the functions of the newer version stay
        return []
    missing = [_migration(number, name, schema) for number, name in migrations if number > state.version]
    server_version = connection.info.server_version
    return [
        *missing,
        *_changed_functions(state, server_version, schema),
        *_retired_functions(state, server_version, schema),
        *_sequences_behind(connection, schema),
    ]


def _tables(steps: list[Step]) -> set[str]:
    return {table for step in steps for table in step.tables}


def _migration(number: int, name: str, schema: str) -> Step:
    entry = f"insert into treadle.migrations (version, name) values ({number}, '{name}');"
    sql = check_sql(preparations(number, name)) + sql_text("migrations", name)
    tables = frozenset(re.findall(r"\btreadle\.(\w+)", re.sub("--.*", "", sql)))
    return Step(name, in_schema(sql, schema), in_schema(entry, schema), tables)


def _changed_functions(state: State, server_version: int, schema: str) -> Iterator[Step]:
    for name, file_name in function_files(server_version):
        sql = function_sql(file_name)
        if state.functions.get(name) == _digest(sql):
            continue
        entry = _entry(name, _digest(sql))
        tables = frozenset(re.findall(r"^alter table treadle\.(\w+)", sql, re.MULTILINE))
        function, trigger = _split(sql)
        if trigger:
            # The trigger itself needs a lock. It is left alone if it is known to be as in the file.
            if name in state.functions and state.functions.get(f"{TRIGGER}{name}") == _digest(trigger):
                sql = function
            else:
                entry += "\n" + _entry(f"{TRIGGER}{name}", _digest(trigger))
                tables = frozenset(re.findall(r"\bon treadle\.(\w+)", trigger))
        yield Step(f"{name}()", in_schema(sql, schema), in_schema(entry, schema), tables)


def _split(sql: str) -> tuple[str, str]:
    """A function, and the statements that make it a trigger, or a default, of a table; empty if there are none."""
    found = re.search(r"^(--.*\n)*(drop trigger|create (or replace )?(constraint )?trigger)", sql, re.MULTILINE)
    return (sql[: found.start()], sql[found.start() :]) if found else (sql, "")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _entry(name: str, digest: str) -> str:
    return (
        f"insert into treadle.functions (name, digest) values ('{name}', '{digest}')\n"
        "on conflict (name) do update set digest = excluded.digest, applied_at = excluded.applied_at;"
    )


def _retired_functions(state: State, server_version: int, schema: str) -> Iterator[Step]:
    """Drop functions that the records name and no file defines. This comes last: nothing of ours calls them by then."""
    kept = {name for name, _ in function_files(server_version)}
    for name in sorted(state.functions):
        if name not in kept and not name.startswith(TRIGGER):
            entry = f"delete from treadle.functions where name in ('{name}', '{TRIGGER}{name}');"
            sql = in_schema(RETIRE.format(name=name), schema)
            yield Step(f"drop {name}()", sql, in_schema(entry, schema), frozenset({"jobs"}))


def _sequences_behind(connection: Connection[Any], schema: str) -> list[Step]:
    """Logical replication copies rows, and not the sequences from which their numbers come. A table that somebody has
    locked is left out."""
    steps = []
    with connection.transaction():
        connection.execute(PINNED_LOCALLY)
        for table, column, sequence in connection.execute(GENERATED.encode(), [f'"{schema}"']).fetchall():
            highest, last = f"(select max({column}) from {table})", f"coalesce(pg_sequence_last_value('{sequence}'), 0)"
            # In one statement: what its snapshot sees was numbered before the last number is read, so that rows which
            # are added meanwhile do not look like copies.
            is_behind = f"select {highest} > {last}"
            with suppress(psycopg.errors.LockNotAvailable), connection.transaction():
                connection.execute(f"set local lock_timeout = {LOCK_TIMEOUT}".encode())
                if connection.execute(is_behind.encode()).fetchone() == (True,):
                    advance = f"select setval('{sequence}', greatest({highest}, {last}));"
                    steps.append(Step(f"numbers of {table}", advance, ""))
                connection.execute("set local lock_timeout = 0")
    return steps


def _state(connection: Connection[Any], schema: str) -> State | None:
    """None if there are no migration records."""
    # From the rows of the catalog, not with to_regclass: that may answer from the session's cache, which may not
    # contain yet what another migration committed while this one waited for the lock.
    found = connection.execute(
        """
        select
        from pg_catalog.pg_tables
        where schemaname operator(pg_catalog.=) %s
          and tablename operator(pg_catalog.=) any (array['migrations', 'functions'])
        """,
        [schema_name(schema)],
    ).fetchall()
    if len(found) < 2:
        return None
    versions = connection.execute(in_schema("select version, name from treadle.migrations", schema).encode())
    functions = connection.execute(in_schema("select name, digest from treadle.functions", schema).encode())
    return State(dict(versions.fetchall()), dict(functions.fetchall()))


def _refuse_newer(state: State, schema: str, known: int) -> None:
    """Raise SchemaError, unless every newer migration says that it is compatible with versions that do not know it."""
    if not all(name.endswith(COMPATIBLE) for version, name in state.names.items() if version > known):
        raise _newer(state, schema, known)


def _newer(state: State, schema: str, known: int) -> SchemaError:
    return SchemaError(
        f"schema {schema} is at {state.version} but this version of Treadle supports only {known}; "
        "upgrade the treadle package"
    )


def _records(schema: str) -> str:
    return in_schema(RECORDS.format(schema=f'"{schema}"'), schema)
