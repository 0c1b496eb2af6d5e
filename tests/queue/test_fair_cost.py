"""What a claim reads of lanes that take turns is its own share, however many lanes, keys and weights there are."""

import json
from typing import Any

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.queue.test_limits import limit, take_turns
from tests.support.buffers import buffers
from tests.support.waiting import wait_for_floor_margin

pytestmark = pytest.mark.fresh_database

READ = "select pg_stat_get_xact_tuples_returned('idx_jobs_claimable'::regclass)"


def enqueue(connection: Connection[Any], tenants: int, each: int = 10) -> None:
    data = [json.dumps({"tenant": f"t{nth % tenants}"}) for nth in range(tenants * each)]
    connection.execute("select enqueue_jobs('sync', %s)", [data])
    wait_for_floor_margin(connection)
    connection.execute("select tick('0')")


def cost(connection: Connection[Any], count: int) -> int:
    return buffers(connection, f"select from claim_jobs('w', '{{sync}}', {count})", rows=count, tick=True)


def entries_read(connection: Connection[Any], count: int) -> int:
    connection.execute("select tick('0')")
    with connection.transaction(force_rollback=True):
        (before,) = connection.execute(READ).fetchone() or (0,)
        assert connection.execute("select from claim_jobs('w', '{sync}', %s)", [count]).rowcount == count
        (after,) = connection.execute(READ).fetchone() or (0,)
    return int(after - before)


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("count", [1, 10, 100])
def test_a_fair_claim_reads_the_jobs_that_it_takes(connect: Connect, limited: bool, count: int) -> None:
    connection = connect()
    take_turns(connection)
    if limited:
        limit(connection, 50, per="tenant")
    enqueue(connection, 100)
    entries_read(connection, count)
    # Under limits, it reads them before it locks what others wait for.
    assert entries_read(connection, count) == (2 * count if limited else count)


def test_lanes_without_jobs_are_not_locked_for_other_claims(connect: Connect) -> None:
    connection, other = connect(), connect(autocommit=False)
    take_turns(connection)
    limit(connection, 50, per="tenant")
    enqueue(connection, 100, each=1)
    assert connection.execute("select from claim_jobs('w', '{sync}', 100)").rowcount == 100
    connection.execute("update jobs set status = 'completed'")
    connection.execute("select enqueue_jobs('sync', array_fill('{\"tenant\": \"t7\"}'::text, '{5}'))")
    assert connection.execute("select count(*) from lanes where dormant_xid is null").fetchone() == (100,)
    assert other.execute("select from claim_jobs('w', '{sync}', 100)").rowcount == 5
    with connection.transaction():
        free = connection.execute("select key from limit_keys for no key update skip locked").rowcount
    assert free == 99


def test_keys_of_limits_and_weights_that_are_not_used_cost_claims_nothing(connect: Connect) -> None:
    connection = connect()
    take_turns(connection)
    limit(connection, 50, per="tenant")
    enqueue(connection, 100)
    connection.execute("select set_limit('sync fair', 3, p_key => 't1')")
    connection.execute("select from claim_jobs('w', '{sync}', 100)")
    before = cost(connection, 100)
    others = "select 'sync', 'other-' || nth from generate_series(1, 2000) as nth"
    connection.execute(f"insert into limit_keys (name, key) {others}")
    connection.execute(f"insert into fair_weights select *, 2, 'ann', now() from ({others})")
    # The indexes may be a level higher.
    assert cost(connection, 100) <= 1.2 * before


def test_a_claim_does_not_read_all_lanes_to_choose_where_it_begins(connect: Connect) -> None:
    connection = connect()
    take_turns(connection)
    enqueue(connection, 300, each=2)
    few = cost(connection, 10)
    enqueue(connection, 3000, each=2)
    assert cost(connection, 10) <= 1.2 * few + 20
