"""Databases for tests: created from a template, and emptied between the tests of a process."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import Connection
from psycopg.conninfo import make_conninfo

from tests.support.sessions import Sessions

# Truncating a table takes 3 ms, and all sessions then plan their statements again, which takes 10 ms or more. So the
# rows of a small table are deleted, without its triggers. Small means up to 10 pages: the planner assumes 10 for any
# smaller table that was never analyzed, so dead rows change no plan. A test that counts what statements cost gets
# truncated tables. Sequences are reset, because a rolled back transaction advances them too.
EMPTY = """
do $$ declare
    most_pages constant int := {most_pages};
    page_size constant int := current_setting('block_size');
    written regclass;
    large text;
begin
    -- This also resets the statistics.
    select string_agg(oid::regclass::text, ', ') into large
    from pg_class
    where relnamespace = 'treadle'::regnamespace and relkind = 'r'
        and relname not in ('migrations', 'functions', 'meter', 'seal')
        and (pg_relation_size(oid) > most_pages * page_size or reltuples <> -1
            or reltoastrelid <> 0 and pg_relation_size(reltoastrelid) > most_pages * page_size);
    if large is not null then
        execute format('truncate %s cascade', large);
    end if;
    if most_pages > 0 then
        set local session_replication_role = replica;
        for written in
            select oid from pg_class
            where relnamespace = 'treadle'::regnamespace and relkind = 'r'
                and relname not in ('migrations', 'functions', 'meter', 'seal') and pg_relation_size(oid) > 0
        loop
            execute format('delete from %s', written);
        end loop;
    end if;
    perform setval(seqrelid, seqstart, false) from pg_sequence join pg_class on oid = seqrelid
    where relnamespace = 'treadle'::regnamespace
      and relname not in ('tick_clock', 'wake_clock', 'awaited', 'watched', 'lane_epoch');
    perform nextval('treadle.lane_epoch'); -- some lanes were deleted without their trigger
    perform setval(name, 0)
    from unnest('{{treadle.tick_clock, treadle.wake_clock, treadle.awaited, treadle.watched}}'::text[]) as name;
    update treadle.meter set reached = clock_timestamp(), summed_to = null;
end $$
"""
SMALL_PAGES = 10


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
    """The database of a test process. Its sessions stay open: see tests/support/sessions.py."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.sessions = Sessions(url)
        self._connection: Connection[Any] | None = None
        self._may_delete = False

    def empty(self, *, fresh: bool = False) -> None:
        """Reset the database to the state of the template. Fresh means without dead rows and idle sessions."""
        self.sessions.reuse = not fresh
        if fresh:
            self.sessions.close()
        try:
            self._empty(0 if fresh else SMALL_PAGES)
        except psycopg.OperationalError:  # a test has closed the connections of the database, or restarted the server
            self.close()
            self._empty(0)

    def close(self) -> None:
        self.sessions.close()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _empty(self, most_pages: int) -> None:
        if self._connection is None:
            self._connection = psycopg.connect(self.url, autocommit=True)
            # Only a superuser may delete rows without their triggers.
            self._may_delete = self._connection.info.parameter_status("is_superuser") == "on"
        # Connections that a failed test left open may hold locks.
        self._connection.execute(
            """select pg_terminate_backend(pid, 10000) from pg_stat_activity
            where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
                and pid <> all(%s)""",
            [self.sessions.pids()],
        )
        self._connection.execute(EMPTY.format(most_pages=most_pages if self._may_delete else 0))
        if most_pages == 0 and self._may_delete:
            # Statistics of what another test had in the tables, if it analyzed them: plans would depend on them.
            self._connection.execute(
                """delete from pg_statistic where starelid in (
                    select oid from pg_class where relnamespace = 'treadle'::regnamespace
                )"""
            )
