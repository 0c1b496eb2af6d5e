"""Databases for tests: made from a template, and emptied instead of made anew where nobody can have stayed behind."""

from collections.abc import Iterator
from uuid import uuid4

import psycopg
from psycopg.conninfo import make_conninfo

# A truncation costs 3 ms a table with its indexes, and most tests write to few of them: only what was written to, or
# counted by ANALYZE, is truncated. Sequences go on even where nothing was written in the end.
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


def made(server_url: str, template: str) -> Iterator[str]:
    """A database, for as long as it is wanted."""
    name = f"treadle_test_{uuid4().hex[:12]}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        # Half the work of the other strategy, which writes every page to the log as well.
        strategy = "strategy file_copy" if connection.info.server_version >= 150000 else ""
        connection.execute(f"create database {name} template {template} {strategy}")
    yield make_conninfo(server_url, dbname=name)
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"drop database {name} with (force)")


def empty(url: str) -> None:
    """As it was when it was made."""
    with psycopg.connect(url, autocommit=True) as connection:
        # What a failed test left open would hold locks.
        connection.execute(
            """select pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"""
        )
        connection.execute(EMPTY)
