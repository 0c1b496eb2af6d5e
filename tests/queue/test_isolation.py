"""Enqueueing in REPEATABLE READ and SERIALIZABLE costs and does the same as in READ COMMITTED."""

from typing import Any

import pytest
from psycopg import Connection, IsolationLevel, errors

from tests.conftest import Connect
from tests.support.buffers import claim_buffers
from treadle import JobQueue

OLDER = [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE]
ENQUEUE = [
    "select enqueue('a')",
    "insert into jobs (job_type) values ('a')",
    "select enqueue('a', p_key => gen_random_uuid()::text)",
    "select enqueue_unique('a', gen_random_uuid()::text)",
]


def count_lanes(connection: Connection[Any]) -> int:
    ((count,),) = connection.execute("select count(*) from lanes").fetchall()
    return int(count)


@pytest.mark.parametrize("level", OLDER)
def test_a_transaction_adds_a_lane_once(queue: JobQueue, connect: Connect, level: IsolationLevel) -> None:
    connection, old = connect(), connect(autocommit=False)
    old.isolation_level = level
    for _ in range(5):
        old.execute("select enqueue('a')")
        old.execute("select enqueue('b', p_queue => 'with, \"signs')")
    old.execute("savepoint before")
    old.execute("select enqueue('c')")
    old.execute("rollback to savepoint before")
    old.execute("select enqueue('c')")
    old.commit()
    assert count_lanes(connection) == 3
    assert len(queue.claim(["a", "b", "c"], 100)) == 11


@pytest.mark.parametrize("statement", ENQUEUE)
def test_serializable_enqueuers_do_not_abort_each_other(queue: JobQueue, connect: Connect, statement: str) -> None:
    """All of them overlap, which is the worst case."""
    queue.enqueue("a")
    open_ones = [connect(autocommit=False) for _ in range(8)]
    for _ in range(5):
        for each in open_ones:
            each.isolation_level = IsolationLevel.SERIALIZABLE
            each.execute(statement)
        for each in open_ones:
            each.execute(statement)
        for each in open_ones:
            each.commit()
    assert len(queue.claim(["a"], 100)) == 81


def test_the_conflicts_of_the_caller_are_still_found(connect: Connect) -> None:
    """A serializable transaction that enqueues is still serializable."""
    owner = connect()
    owner.execute("create table if not exists public.plain (id int primary key, value int)")
    owner.execute("insert into public.plain values (1, 0), (2, 0)")
    try:
        first, second = connect(autocommit=False), connect(autocommit=False)
        for each, read, written in ((first, 1, 2), (second, 2, 1)):
            each.isolation_level = IsolationLevel.SERIALIZABLE
            each.execute("select value from public.plain where id = %s", [read])
            each.execute("select enqueue('a')")
            each.execute("update public.plain set value = 1 where id = %s", [written])
        first.commit()
        with pytest.raises(errors.SerializationFailure):
            second.commit()
    finally:
        first.close()
        second.close()
        owner.execute("drop table public.plain")


def test_to_skip_a_job_of_a_key_costs_a_claim_three_buffers(queue: JobQueue, connect: Connect) -> None:
    """In SERIALIZABLE no job is blocked behind others of its key: claims skip it, and find what lies behind."""
    connection, enqueuing = connect(), connect(autocommit=False)
    enqueuing.isolation_level = IsolationLevel.SERIALIZABLE
    costs: list[int] = []
    for _ in range(2):
        enqueuing.execute("select enqueue('mine', p_key => 'k') from generate_series(1, 400)")
        enqueuing.commit()
        queue.enqueue_many("mine", [{}] * 10)
        if not costs:
            assert len(queue.claim(["mine"], 1)) == 1  # the first of the key runs
        costs.append(claim_buffers(connection, 10, tick=True))
    assert costs[1] - costs[0] < 4 * 400


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_the_oldest_job_is_claimed_first_however_it_was_enqueued(connect: Connect, isolation: str) -> None:
    """Each of these transactions adds a row for its lane, because it cannot know whether the lane is active."""
    connection, other = connect(), connect()
    connection.execute("select enqueue('a')")
    connection.execute("select tick('0')")
    for nth in range(120):
        other.execute("reset all")
        other.execute(f"begin isolation level {isolation}".encode())
        other.execute("select treadle.enqueue(%s)", ["a" if nth < 60 else "b"])
        other.execute("commit")
    row = connection.execute("select count(*) from lanes").fetchone()
    assert row == (121,)
    claimed = [
        connection.execute("select job_type from claim_jobs('w', '{a,b}', 1)").fetchall()[0][0] for _ in range(121)
    ]
    assert claimed == ["a"] * 61 + ["b"] * 60
