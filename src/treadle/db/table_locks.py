"""How a change of the schema locks tables that are in use.

While it waits for a busy table, other transactions queue up behind it. So the lock timeout is short, and the change is
retried after a pause that grows.
"""

import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
from psycopg import Connection

from treadle.db.query import in_schema
from treadle.words.errors import SchemaError
from treadle.words.naming import schema_name

Result = TypeVar("Result")

TRIES = 20
# Milliseconds for which a try waits, and claims with it. It grows, because transactions may take that long.
LOCK_TIMEOUT, LONGEST_TIMEOUT = 100, 500
# How much longer the pause before the next try is: for at least 0.85 of the time, nobody waits.
PAUSE = 8
# Autovacuum gives way to a lock that waits for deadlock_timeout, which is 1 s by default.
VACUUM_TIMEOUT = "3s"

# Taken before anything is changed. After a weaker lock, the strongest one would deadlock with transactions that wait
# for the weaker: a claim locks the table twice, to read and then to write. And some lock jobs first, others lanes: so
# this does not wait for a second table while it has locked the first. The first lock only makes autovacuum give way; no
# claim waits for it.
LOCK = """\
set local lock_timeout = '{vacuum_timeout}';
lock table {tables} in share update exclusive mode;
set local lock_timeout = '{timeout}';
do $$
declare
    v_end constant timestamptz := clock_timestamp() + interval '{timeout}';
begin
    loop
        begin
            lock table {first} in access exclusive mode;
            lock table {tables} in access exclusive mode nowait;
            return;
        exception when lock_not_available then
            if clock_timestamp() > v_end then
                raise;
            end if;
        end;
        perform pg_sleep(0.01);
    end loop;
end
$$;"""
# The limits of the role are for its other statements.
SETTINGS = """\
set local statement_timeout = 0;
set local idle_in_transaction_session_timeout = 0;
set local lock_timeout = 0;
set local check_function_bodies = off;"""  # a function may name one that comes later


def retried(schema: str, attempt: Callable[[int], Result]) -> Result:
    """Call `attempt` with a lock timeout in milliseconds until it has got its locks."""
    for tried in range(TRIES):
        timeout = min(LOCK_TIMEOUT * 1.15**tried, max(LOCK_TIMEOUT, LONGEST_TIMEOUT))
        try:
            return attempt(round(timeout))
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            if tried == TRIES - 1:
                raise SchemaError(
                    f"the tables of schema {schema} were locked during all {TRIES} attempts; no migration was applied: "
                    "run treadle migrate again when long transactions on them have ended"
                ) from None
            time.sleep(PAUSE * timeout / 1000 * random.uniform(0.9, 1.3))  # noqa: S311 - jitter, not a secret
    raise AssertionError("unreachable")


def settings_sql(connection: Connection[Any]) -> str:
    newer = "\nset local transaction_timeout = 0;" if connection.info.server_version >= 170000 else ""
    return SETTINGS + newer


def lock_sql(connection: Connection[Any], schema: str, tables: set[str], timeout: int) -> str:
    """Lock those of the tables that exist; empty if none does."""
    rows = connection.execute(
        "select tablename from pg_catalog.pg_tables where schemaname operator(pg_catalog.=) %s", [schema_name(schema)]
    ).fetchall()
    found = tables.intersection(name for (name,) in rows)
    # Jobs first: it is the busiest, and the one for which it may have to wait.
    names = [f"treadle.{name}" for name in sorted(found, key=lambda name: (name != "jobs", name))]
    if not names:
        return ""
    text = LOCK.format(first=names[0], tables=", ".join(names), timeout=f"{timeout}ms", vacuum_timeout=VACUUM_TIMEOUT)
    return in_schema(text, schema)
