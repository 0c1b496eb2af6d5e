"""Prepares a large table for a migration: adds a column and builds an index while the table stays in use.

Building an index in the transaction of the migration would block writers for as long as that takes. So a migration
NNNN_name.sql may have a file NNNN_name.before.sql. Its statements are run before that transaction, each in one of its
own: columns are added with the same locks and retries as a migration, and indexes are built concurrently. Such a build
waits for older transactions to end; the log says for which.

One run at a time prepares a schema, under an advisory lock in an open transaction of a second connection: behind a
pooler in transaction mode, a lock of the session would belong to whoever uses the session next. The other runs poll: a
statement that waits for the lock has a snapshot, and the build would wait for that, a deadlock. The open transaction is
"read committed" and sends its statements with the simple protocol, so it has no snapshot between them; the extended one
keeps that of the last statement.

Because of poolers, no setting of a session is changed either. The search path is not pinned while an index is built, so
its statement names the schema of each operator.
"""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import psycopg
from psycopg import Connection
from psycopg.conninfo import make_conninfo

from treadle.db.function_settings import PINNED_LOCALLY
from treadle.db.query import in_schema, sql_names, sql_text
from treadle.db.setup_connection import connect
from treadle.db.table_locks import LONGEST_TIMEOUT, lock_sql, retried, settings_sql
from treadle.db.url import parts_of
from treadle.text.log import log
from treadle.words.errors import DatabaseUnreachable, SchemaError
from treadle.words.naming import schema_name

BEFORE = ".before.sql"
POLL_SECONDS = 0.5
# After this time the log says what the build waits for.
LONG_SECONDS = 2.0

COLUMN_EXISTS = """
select
from pg_catalog.pg_attribute as attribute
join pg_catalog.pg_class as class on class.oid operator(pg_catalog.=) attribute.attrelid
join pg_catalog.pg_namespace as namespace on namespace.oid operator(pg_catalog.=) class.relnamespace
where namespace.nspname operator(pg_catalog.=) %s
  and class.relname operator(pg_catalog.=) %s
  and attribute.attname operator(pg_catalog.=) %s
"""
# Both from one snapshot: a migration may rename its index, and it would look as if it had not been built.
INDEX_STATE = """
select
    (select pg_catalog.max(version) from treadle.migrations),
    (
        select index.indisvalid
        from pg_catalog.pg_index as index
        join pg_catalog.pg_class as class on class.oid operator(pg_catalog.=) index.indexrelid
        join pg_catalog.pg_namespace as namespace on namespace.oid operator(pg_catalog.=) class.relnamespace
        where namespace.nspname operator(pg_catalog.=) %s
          and class.relname operator(pg_catalog.=) %s
    )
"""
# The table is known from the lock: pg_stat_progress_create_index does not show that of another role.
BUILDS = """
select build.pid
from pg_catalog.pg_stat_progress_create_index as build
join pg_catalog.pg_locks as held on held.pid operator(pg_catalog.=) build.pid
join pg_catalog.pg_class as class on class.oid operator(pg_catalog.=) held.relation
join pg_catalog.pg_namespace as namespace on namespace.oid operator(pg_catalog.=) class.relnamespace
where build.datname operator(pg_catalog.=) pg_catalog.current_database()
  and namespace.nspname operator(pg_catalog.=) %s
  and class.relname operator(pg_catalog.=) %s
  and held.mode operator(pg_catalog.=) 'ShareUpdateExclusiveLock'
"""
# The session is found by its statement, because a pooler does not tell its pid. A long statement is shown shortened.
BLOCKERS = """
select blocker.pid, activity.state, extract(epoch from clock_timestamp() - activity.state_change)::float8
from pg_stat_activity as build
cross join unnest(pg_blocking_pids(build.pid)) as blocker (pid)
left join pg_stat_activity as activity on activity.pid = blocker.pid
where build.datname = current_database()
  and build.state = 'active'
  and build.query <> ''
  and starts_with(%s, build.query)
"""
# A plan that calls a function is not made again when the rows that the function returns get a column, and every call
# fails: "structure of query does not match function result type". It is made again when the function changes. The
# migration does that, but may come much later than the column.
REPLAN = """\
do $$
declare
    v_function record;
begin
    for v_function in
        select function.oid::regprocedure as name, function.procost as cost
        from pg_proc as function
        join pg_class as class on class.reltype = function.prorettype
        where class.oid = 'treadle.{table}'::regclass
          and function.pronamespace = class.relnamespace
    loop
        execute format('alter function %s cost %s', v_function.name, v_function.cost);
    end loop;
end
$$;"""
CHECK = """\
do $$
begin
    if exists (
        select from pg_catalog.pg_index where indexrelid = pg_catalog.to_regclass('treadle.{name}') and not indisvalid
    ) then
        raise exception 'index {name} was not built completely; run: treadle migrate';
    end if;
end
$$;

"""
SCRIPT = """\
-- For psql. These statements run before the transaction of the migration, and the index is built outside of any
-- transaction. If the role has timeouts, set PGOPTIONS='-c statement_timeout=0 -c lock_timeout=0'.
\\set ON_ERROR_STOP on"""


class Column(NamedTuple):
    migration: int
    table: str
    name: str
    sql: str


class Index(NamedTuple):
    migration: int
    table: str
    name: str
    sql: str


Preparation: TypeAlias = Column | Index

KINDS: list[tuple[type[Column | Index], re.Pattern[str]]] = [
    (Column, re.compile(r"alter table treadle\.(?P<table>\w+)\s+add column if not exists (?P<name>\w+) [^;]+")),
    (
        Index,
        re.compile(
            r"create (?:unique )?index concurrently if not exists (?P<name>\w+)\s+on treadle\.(?P<table>\w+) [^;]+"
        ),
    ),
]


@cache
def preparations(migration: int, file_name: str) -> tuple[Preparation, ...]:
    """The statements of the file that belongs to a migration; none if there is no such file."""
    name = file_name.removesuffix(".sql") + BEFORE
    if name not in sql_names("migrations"):
        return ()
    text = re.sub("--.*", "", sql_text("migrations", name))
    return tuple(_parsed(migration, each.strip()) for each in text.split(";") if each.strip())


def _parsed(migration: int, sql: str) -> Preparation:
    for kind, pattern in KINDS:
        if found := pattern.fullmatch(sql):
            return kind(migration, found["table"], found["name"], f"{sql};")
    raise ValueError(f"expected a column or an index that is built concurrently, each if not exists; got: {sql}")


def prepare(connection: Connection[Any], url: str, schema: str, steps: list[Preparation]) -> None:
    """Run the steps that are missing."""
    if all(_state(connection, schema, step) for step in steps):
        return
    with _alone(url, schema) as guard, _without_timeouts(connection, url) as builder:
        for step in steps:
            _prepare(builder, guard, schema, step)


def preparation_sql(connection: Connection[Any], schema: str, steps: list[Preparation]) -> list[str]:
    """What prepare would run, as parts of a script."""
    parts: list[str] = []
    for step in steps:
        state = _state(connection, schema, step)
        if state:
            continue
        if isinstance(step, Column):
            parts.append("\n".join(["begin;", *_column_sql(connection, schema, step, LONGEST_TIMEOUT), "commit;"]))
        else:
            parts += [_drop(schema, step)] if state is False else []
            parts.append(in_schema(step.sql, schema))
    return [SCRIPT, *parts] if parts else []


def check_sql(steps: tuple[Preparation, ...]) -> str:
    """Refuse an index that is not valid: `create index if not exists` in a script would accept it."""
    return "".join(CHECK.format(name=step.name) for step in steps if isinstance(step, Index))


def _state(connection: Connection[Any], schema: str, step: Preparation) -> bool | None:
    """True: there is nothing to do. None: it is missing. False: a build was interrupted and left an invalid index."""
    if isinstance(step, Column):
        found = connection.execute(COLUMN_EXISTS, [schema_name(schema), step.table, step.name]).fetchall()
        return True if found else None
    query = in_schema(INDEX_STATE, schema).encode()
    ((version, valid),) = connection.execute(query, [schema_name(schema), step.name]).fetchall()
    return True if version >= step.migration else valid


def _prepare(builder: Connection[Any], guard: Connection[Any], schema: str, step: Preparation) -> None:
    if isinstance(step, Column):
        retried(schema, lambda timeout: _add_column(builder, schema, step, timeout))
    else:
        retried(schema, lambda _: _build_index(builder, guard, schema, step))


def _add_column(connection: Connection[Any], schema: str, step: Column, timeout: int) -> None:
    # A table that has the column is not locked.
    if _state(connection, schema, step):
        return
    with connection.transaction():
        for statement in _column_sql(connection, schema, step, timeout):
            connection.execute(statement.encode())


def _column_sql(connection: Connection[Any], schema: str, step: Column, timeout: int) -> list[str]:
    lock = lock_sql(connection, schema, {step.table}, timeout)
    replan = in_schema(REPLAN.format(table=step.table), schema)
    return [f"{PINNED_LOCALLY};", settings_sql(connection), lock, in_schema(step.sql, schema), replan]


def _build_index(builder: Connection[Any], guard: Connection[Any], schema: str, step: Index) -> None:
    while True:
        # Before the state is read: if nobody builds an index and then it is not valid, it never will be.
        _wait_for_builds(builder, schema, step)
        state = _state(builder, schema, step)
        if state:
            return
        if state is False:
            _run(builder, guard, step, _drop(schema, step))
        _run(builder, guard, step, in_schema(step.sql, schema))


def _wait_for_builds(connection: Connection[Any], schema: str, step: Index) -> None:
    """Wait until no index of the table is being built: by a run that was killed, whose statement goes on, or by
    somebody else. Two builds on one table wait for each other's snapshots."""
    waiting = _Waiting(f"waiting for another session that builds an index on {schema}.{step.table}")
    while builds := connection.execute(BUILDS, [schema_name(schema), step.table]).fetchall():
        waiting.go_on(", ".join(f"pid {pid}" for (pid,) in builds))


def _drop(schema: str, step: Index) -> str:
    return in_schema(f"drop index concurrently if exists treadle.{step.name};", schema)


def _run(builder: Connection[Any], guard: Connection[Any], step: Index, statement: str) -> None:
    over = threading.Event()
    reporter = threading.Thread(target=_report_blockers, args=(guard, step, statement, over), daemon=True)
    reporter.start()
    try:
        builder.execute(statement.encode())
    except (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable):
        if limits := _timeouts(builder):
            raise SchemaError(
                f"index {step.name} was not built within {' and '.join(limits)} of the role, which cannot be changed "
                "through a pooler; run treadle migrate with a URL that leads directly to the server"
            ) from None
        raise
    finally:
        over.set()
        reporter.join()


def _report_blockers(guard: Connection[Any], step: Index, statement: str, over: threading.Event) -> None:
    """Log, once for each, which transactions the statement waits for."""
    since: dict[int, float] = {}
    reported: set[int] = set()
    with suppress(psycopg.Error):  # it is only a message
        while not over.wait(POLL_SECONDS):
            guard.execute("select pg_stat_clear_snapshot()")
            blockers = guard.execute(BLOCKERS, [statement]).fetchall()
            now = time.monotonic()
            since = {pid: since.get(pid, now) for pid, _, _ in blockers}
            late = [each for each in blockers if now - since[each[0]] >= LONG_SECONDS and each[0] not in reported]
            reported.update(pid for pid, _, _ in late)
            if late:
                names = ", ".join(_described(*each) for each in late)
                log.warning("waiting for transactions that are older than the new index %s: %s", step.name, names)


def _described(pid: int, state: str | None, seconds: float | None) -> str:
    if pid == 0:
        return "a prepared transaction (see pg_prepared_xacts)"
    # Those of other roles are hidden.
    return f"pid {pid}" if state is None or seconds is None else f"pid {pid} ({state} for {seconds:.0f} s)"


@contextmanager
def _alone(url: str, schema: str) -> Iterator[Connection[Any]]:
    """Wait until no other run prepares this schema; yields the connection that holds the lock."""
    waiting = _Waiting("waiting for another run of treadle migrate")
    with connect(url) as guard:
        guard.cursor_factory = psycopg.ClientCursor  # the simple protocol
        while True:
            with guard.transaction():
                guard.execute(PINNED_LOCALLY)
                guard.execute(settings_sql(guard).encode())
                lock = "select pg_try_advisory_xact_lock(hashtextextended(%s, 0))"
                ((taken,),) = guard.execute(lock, [f"treadle prepare {schema}"]).fetchall()
                if taken:
                    yield guard
                    return
            waiting.go_on()


class _Waiting:
    """Pauses between looks, and logs once if it takes long."""

    def __init__(self, message: str) -> None:
        self._message = message
        self._began = time.monotonic()
        self._logged = False

    def go_on(self, details: str = "") -> None:
        if not self._logged and time.monotonic() - self._began >= LONG_SECONDS:
            self._logged = True
            log.warning("%s", f"{self._message}: {details}" if details else self._message)
        time.sleep(POLL_SECONDS)


@contextmanager
def _without_timeouts(connection: Connection[Any], url: str) -> Iterator[Connection[Any]]:
    """The connection, or a new one without the timeouts of the role. A pooler refuses that: then with them."""
    unlimited: Connection[Any] | None = None
    if limits := _timeouts(connection):
        options = " ".join([parts_of(url).get("options", ""), *(f"-c {name}=0" for name in limits)]).strip()
        with suppress(DatabaseUnreachable):
            unlimited = connect(make_conninfo(url, options=options))
            unlimited.prepare_threshold = None
    try:
        yield unlimited or connection
    finally:
        if unlimited:
            unlimited.close()


def _timeouts(connection: Connection[Any]) -> list[str]:
    """The names of the timeouts that would end a long statement."""
    names = ["statement_timeout", "lock_timeout"]
    names += ["transaction_timeout"] if connection.info.server_version >= 170000 else []
    columns = ", ".join(f"pg_catalog.current_setting('{name}')" for name in names)
    (values,) = connection.execute(f"select {columns}".encode()).fetchall()
    return [name for name, value in zip(names, values, strict=True) if value != "0"]
