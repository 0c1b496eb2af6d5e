"""Databases for tests: created from a template, and emptied between the tests of a process."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import Connection
from psycopg.conninfo import make_conninfo

# Truncating a table with its indexes takes 3 ms, and most tests write to few tables: only tables that were written to
# or analyzed are truncated. All sequences are reset, because a rolled back transaction advances them too.
EMPTY = """
do $$ declare
    written text;
begin
    select string_agg(oid::regclass::text, ', ') into written
    from pg_class
    where relnamespace = 'treadle'::regnamespace and relkind = 'r'
        and relname not in ('migrations', 'functions', 'horizon', 'meter')
        and (pg_relation_size(oid) > 0 or reltuples <> -1);
    if written is not null then
        execute format('truncate %s cascade', written);
    end if;
    perform setval(seqrelid, seqstart, false) from pg_sequence join pg_class on oid = seqrelid
    where relnamespace = 'treadle'::regnamespace and relname not in ('tick_clock', 'wake_clock', 'awaited', 'watched');
    perform setval(name, 0)
    from unnest('{treadle.tick_clock, treadle.wake_clock, treadle.awaited, treadle.watched}'::text[]) as name;
    update treadle.meter set reached = clock_timestamp();
end $$
"""


def create_database(server_url: str, template: str) -> Iterator[str]:
    """Create a database, yield its URL, and drop it."""
    name = f"treadle_test_{uuid4().hex[:12]}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        # Half the work of the default strategy, which also writes every page to the WAL.
        strategy = "strategy file_copy" if connection.info.server_version >= 150000 else ""
        connection.execute(f"create database {name} template {template} {strategy}")
    yield make_conninfo(server_url, dbname=name)
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"drop database {name} with (force)")


class SharedDatabase:
    """The database of a test process. The connection that empties it stays open: connecting again, and reading the
    system catalogs again, would take longer than the rest."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._connection: Connection[Any] | None = None

    def empty(self) -> None:
        """Reset the database to the state of the template."""
        try:
            self._empty()
        except psycopg.OperationalError:  # a test has closed the connections of the database, or restarted the server
            self.close()
            self._empty()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _empty(self) -> None:
        if self._connection is None:
            self._connection = psycopg.connect(self.url, autocommit=True)
        # Connections that a failed test left open may hold locks.
        self._connection.execute(
            """select pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"""
        )
        self._connection.execute(EMPTY)
