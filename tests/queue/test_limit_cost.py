"""Jobs that wait for a limit cost claims nothing, counted in buffers."""

import json
import time
from typing import Any

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.queue.test_limits import limit
from tests.support.buffers import buffers
from tests.support.waiting import wait_for_floor_margin

pytestmark = pytest.mark.fresh_database

CLAIM = "select from claim_jobs('w', '{sync,other}', 10)"


def cost(connection: Connection[Any]) -> int:
    """How many buffers a claim of 10 others touches."""
    return buffers(connection, CLAIM, rows=10, tick=True)


def enqueue(connection: Connection[Any], keys: int, each: int) -> None:
    data = [json.dumps({"tenant": f"t{nth % keys}"}) for nth in range(keys * each)]
    connection.execute("select enqueue_jobs('sync', %s, p_priority => 150)", [data])


def reach_limits(connection: Connection[Any], keys: int) -> None:
    """Claim until every lane waits for its limit, and what was noted about openings is used up."""
    end = time.monotonic() + 60
    while connection.execute("select count(*) from lanes where limit_name is not null").fetchone() != (keys,):
        assert time.monotonic() < end, "not every lane waits"
        connection.execute("select count(*) from claim_jobs('w', '{sync}', 1000)")
    while connection.execute("select exists (select from limit_openings)").fetchone() != (False,):
        assert time.monotonic() < end, "there are still openings"
        connection.execute("select tick('0')")
        time.sleep(0.05)


@pytest.mark.parametrize("keys", [1, pytest.param(700, marks=pytest.mark.long)])
def test_jobs_that_wait_for_a_limit_cost_claims_nothing(connect: Connect, keys: int) -> None:
    connection, reader = connect(), connect()
    connection.execute("select enqueue_jobs('other', array_fill('{}'::text, '{500}'))")
    wait_for_floor_margin(connection)
    before = cost(connection)
    limit(connection, 1, per="tenant")
    enqueue(connection, keys, 2000 // keys)
    reach_limits(connection, keys)
    connection.execute("vacuum lanes")
    assert cost(connection) <= 1.5 * before
    # And while a snapshot is open, which keeps what the claims and ticks leave behind.
    with reader.transaction():
        reader.execute("set transaction isolation level repeatable read")
        reader.execute("select count(*) from jobs")
        for _ in range(50):
            connection.execute("select count(*) from claim_jobs('w', '{sync}', 10)")
            connection.execute("select tick('0')")
        assert cost(connection) <= 1.5 * before


def test_a_claim_does_not_read_jobs_whose_limits_another_one_has_locked(connect: Connect) -> None:
    connection, other = connect(), connect()
    limit(connection, 50, per="tenant")
    enqueue(connection, 20, 50)
    connection.execute("select enqueue_jobs('other', array_fill('{}'::text, '{500}'))")
    wait_for_floor_margin(connection)
    read = "select pg_stat_get_xact_tuples_returned('idx_jobs_claimable'::regclass)"

    def claim() -> tuple[int, int]:
        with connection.transaction(force_rollback=True):
            (before,) = connection.execute(read).fetchone() or (0,)
            found = connection.execute("select from claim_jobs('w', '{sync,other}', 100)").rowcount
            (after,) = connection.execute(read).fetchone() or (0,)
        return found, after - before

    found, entries = claim()
    assert found == 100
    assert entries < 400
    connection.execute("select from claim_jobs('w', '{sync}', 20)")
    with other.transaction():
        other.execute("select from limit_keys where key <> 't0' for no key update")
        found, entries = claim()
    # Those of the other type.
    assert found == 100
    assert entries < 250
