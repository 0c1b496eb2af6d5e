"""A session that has seen a lane active does not look it up again until a lane has become dormant or was deleted."""

from typing import Any

import pytest
from psycopg import Connection, DatabaseError, IsolationLevel

from tests.conftest import Connect
from tests.queue.test_races import assert_found
from tests.support.workers import one

Rows = Connection[Any]
READS = """
    select coalesce(sum(seq_scan + idx_scan), 0) from pg_stat_xact_user_tables
    where schemaname = 'treadle' and relname in ('lanes', 'floors')"""
ACTIVE = "select count(*) from lanes where dormant_xid is null"


def see(connection: Rows) -> None:
    """Enqueue and remove a job: the lane was listed by the first one, and is remembered."""
    connection.execute("select enqueue('a')")
    connection.execute("delete from jobs")


def make_dormant(connection: Rows) -> None:
    connection.execute("update lanes set changed_at = changed_at - interval '1 hour'")
    connection.execute("select make_dormant(array(select id from lanes), clock_timestamp())")


def tick(connection: Rows, times: int = 3) -> None:
    for _ in range(times):
        connection.execute("select tick('0')")


def trigger_calls(connection: Rows) -> int:
    """How often an enqueue calls the trigger that looks for lanes."""
    calls = "select coalesce(sum(calls), 0) from pg_stat_xact_user_functions where funcname = 'register_lanes'"
    with connection.transaction(force_rollback=True):
        connection.execute("set local track_functions = 'all'")
        before = one(connection, calls)
        connection.execute("select enqueue('a')")
        return int(one(connection, calls) - before)


def reads(connection: Rows, statement: str = "select enqueue('a')") -> int:
    """How often the statement searches the tables of lanes."""
    with connection.transaction(force_rollback=True):
        before = one(connection, READS)
        connection.execute(statement.encode())
        return int(one(connection, READS) - before)


def test_a_lane_that_was_seen_is_not_looked_up(connect: Connect) -> None:
    connection = connect()
    assert reads(connection) > 0
    assert reads(connection) > 0, "what was rolled back was not seen"
    assert trigger_calls(connection) == 1
    see(connection)
    assert trigger_calls(connection) == 0
    assert reads(connection) == 0
    assert reads(connection, "insert into jobs (job_type) values ('a')") == 0
    assert reads(connection, "select enqueue('a', p_delay => '1 hour')") == 0
    assert reads(connection, "select enqueue('a', p_priority => 7)") > 0, "that is another lane"
    assert reads(connection, "insert into jobs (job_type, run_at) values ('a', now() - interval '1 hour')") > 0
    make_dormant(connection)
    assert reads(connection) > 0


@pytest.mark.parametrize(
    "statement",
    [
        "update lanes set dormant_xid = pg_current_xact_id()",
        "delete from lanes",
        "truncate lanes",
        "select make_dormant(array(select id from lanes), clock_timestamp())",
    ],
)
def test_a_lane_that_is_no_longer_active_is_listed_again(connect: Connect, statement: str) -> None:
    connection, other = connect(), connect()
    see(connection)
    other.execute("update lanes set changed_at = changed_at - interval '1 hour'")
    other.execute(statement.encode())
    assert one(other, ACTIVE) == 0
    connection.execute("select enqueue('a')")
    assert one(other, ACTIVE) == 1
    assert_found(other)


def test_a_lane_that_is_becoming_idle_is_not_remembered(connect: Connect) -> None:
    """The epoch has moved, and the lane still looks active, until the other transaction commits."""
    connection, idling = connect(), connect(autocommit=False)
    see(connect())
    make_dormant(idling)
    see(connection)
    idling.commit()
    tick(idling)
    idling.commit()
    connection.execute("select enqueue('a')")
    assert one(connection, ACTIVE) == 1
    assert_found(connection)


def test_a_job_whose_lane_becomes_idle_before_its_commit_is_found(connect: Connect) -> None:
    connection, late = connect(), connect(autocommit=False)
    see(late)
    late.commit()
    late.execute("select enqueue('a')")
    make_dormant(connection)
    tick(connection)
    assert one(connection, ACTIVE) == 0
    late.commit()
    assert_found(connection)


def test_a_lane_that_two_sessions_have_listed_is_remembered_when_the_tick_has_merged_it(connect: Connect) -> None:
    connection, other = connect(), connect(autocommit=False)
    other.execute("select enqueue('a')")
    see(connection)
    other.commit()
    tick(connection)
    assert one(connection, "select count(*) from lanes") == 1
    see(connection)
    assert reads(connection) == 0


def test_a_forged_memory_loses_no_job(connect: Connect) -> None:
    """The tick finds lanes that nobody has listed."""
    connection = connect()
    see(connection)
    connection.execute("set session_replication_role = replica; delete from lanes; reset session_replication_role")
    connection.execute("select enqueue('a')")
    connection.execute("select set_config('treadle.listed', 'on', false)")
    connection.execute("insert into jobs (job_type) values ('b')")
    assert one(connection, "select count(*) from lanes") == 0
    tick(connection, 5)
    assert len(connection.execute("select from claim_job_batch('w', '{a, b}')").fetchall()) == 2


def test_an_insert_after_an_enqueue_lists_its_lane(connect: Connect) -> None:
    connection = connect()
    see(connection)
    with connection.transaction():
        connection.execute("select enqueue('a')")
        connection.execute("insert into jobs (job_type) values ('b')")
    assert one(connection, ACTIVE) == 2


@pytest.mark.parametrize("partition", ["[]", "acme", '"acme"'])
def test_a_forged_memory_admits_no_invalid_partition(connect: Connect, partition: str) -> None:
    """Claims and ticks that read it would fail."""
    connection = connect()
    connection.execute("select set_config('treadle.listed', 'on', false)")
    with pytest.raises(DatabaseError, match=r"(?i)json"):
        connection.execute("insert into jobs (job_type, run_at, partition) values ('a', now(), %s)", [partition])
    connection.execute("insert into jobs (job_type, partition) values ('a', '{\"tenant\": \"acme\"}')")


@pytest.mark.parametrize("level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE])
def test_a_session_with_older_snapshots_adds_a_lane_once(connect: Connect, level: IsolationLevel) -> None:
    connection = connect(autocommit=False)
    connection.isolation_level = level
    for _ in range(5):
        connection.execute("select enqueue('a')")
        connection.commit()
    assert one(connection, "select count(*) from lanes") == 1
