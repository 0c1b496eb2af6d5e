"""A database whose clock, ids and randomness belong to the simulation.

It starts as a database for tests (treadle.testing), whose functions already read a clock that can be moved. Here they
read it from a file: a statement that moves it would double the number of round trips.
"""

import os
from pathlib import Path
from typing import Any

import psycopg
from psycopg import Connection, waiting
from psycopg.conninfo import make_conninfo
from psycopg.generators import connect
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGconn

from treadle.db.query import TestSchema
from treadle.testing.databases import Emptied, prepare

SCHEMA = TestSchema("treadle")

# Notifications are passed on by the simulation: their way through the server takes a different time each time.
# statement_timestamp() and transaction_timestamp() say how old a transaction is.
OWNED = """
create sequence treadle.simulated_ids;

create or replace function treadle.test_clock() returns timestamptz language sql volatile
return timestamptz '2026-01-01 00:00:00+00' + pg_read_file('{clock}')::bigint * interval '1 microsecond';

create or replace function treadle.test_now() returns timestamptz language sql volatile
return timestamptz '2026-01-01 00:00:00+00'
    + coalesce(nullif(current_setting('simulation.began', true), ''), pg_read_file('{clock}'))::bigint
    * interval '1 microsecond';

create or replace function treadle.new_id() returns uuid language sql volatile
return (
    lpad(to_hex((extract(epoch from treadle.test_clock()) * 1000)::bigint), 12, '0')
    || '70008000' || lpad(to_hex(nextval('treadle.simulated_ids')), 12, '0')
)::uuid;

alter function pg_catalog.pg_notify(text, text) rename to pg_notify_of_the_server;

create function pg_catalog.pg_notify(channel text, payload text) returns void language plpgsql as $$
begin
    raise notice using message = 'simulated notification', detail = channel, hint = payload;
end
$$;

do $$
declare
    v_text text;
begin
    for v_text in
        select pg_get_functiondef(function.oid)
        from pg_proc as function
        where function.pronamespace = 'treadle'::regnamespace
          and function.prokind = 'f'
          and function.prosrc ~ 'statement_timestamp|pg_notify'
    loop
        v_text := replace(v_text, 'statement_timestamp()', 'treadle.test_clock()');
        execute replace(v_text, 'transaction_timestamp()', 'treadle.test_now()');
    end loop;
end
$$;
"""
# Before a session serves another connection.
FORGET = (b"reset all", b"deallocate all", b"unlisten *", b"select pg_advisory_unlock_all()")
# Not deleted: where rows are put must not depend on what was there before.
EMPTIED = """
do $$
begin
    execute (
        select 'truncate ' || string_agg(oid::regclass::text, ', ')
        from pg_class
        where relnamespace = 'treadle'::regnamespace
          and relkind = 'r'
          and relname not in ('migrations', 'functions', 'meter', 'seal')
    );
end
$$
"""
START_AGAIN = "alter sequence treadle.simulated_ids restart"


class SimulatedDatabase:
    """The connection that stands outside of the simulation, too."""

    def __init__(self, server: str, folder: Path) -> None:
        """`folder`: where the server can read."""
        clock = folder / "clock"
        self._clock = os.open(clock, os.O_CREAT | os.O_RDWR, 0o644)
        self.move(0.0)
        name = f"simulation_test_{os.getpid()}"
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"drop database if exists {name}")
            connection.execute(f"create database {name}")
            # A connection that must wait for a lock gets it never: whoever has it cannot go on meanwhile.
            connection.execute(f"alter database {name} set lock_timeout = '20ms'")
        self.url = make_conninfo(server, dbname=name)
        prepare(self.url)
        self._connection: Connection[Any] = psycopg.connect(self.url, autocommit=True)
        self._connection.execute(OWNED.replace("{clock}", str(clock)))
        self._emptied = Emptied(self.url, "treadle")
        self._sessions: list[PGconn] = []

    def empty(self) -> None:
        self._connection.execute(EMPTIED)
        self._emptied.empty()
        self._connection.execute(START_AGAIN)
        self.move(0.0)

    def move(self, elapsed: float) -> None:
        """Set the clock."""
        os.pwrite(self._clock, b"%020d" % round(elapsed * 1_000_000), 0)

    def open(self, seed: float) -> PGconn:
        """A session of the server: a used one if there is one, because a new one compiles all functions again."""
        options = "-c client_min_messages=notice"
        session = (
            self._sessions.pop() if self._sessions else waiting.wait_conn(connect(f"{self.url} options='{options}'"))
        )
        session.exec_(b"select setseed(%f)" % seed)
        return session

    def close(self, session: PGconn) -> None:
        """Its connection is closed, or broken."""
        if session.transaction_status != TransactionStatus.IDLE:
            session.exec_(b"rollback")
        for each in FORGET:
            session.exec_(each)
        self._sessions.append(session)

    def jobs(self) -> list[tuple[str, str, str, Any]]:
        """Id, type, status and arguments of all jobs."""
        text = "select id::text, job_type, status, data from treadle.jobs order by id"
        return self._connection.execute(text).fetchall()

    def leave(self) -> None:
        os.close(self._clock)
        self._emptied.close()
        self._connection.close()
