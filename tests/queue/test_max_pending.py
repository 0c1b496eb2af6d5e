"""How many jobs may wait, in SQL: refused, or the oldest dropped, without breaking the caller's transaction."""

import json
from typing import Any

import pytest
from psycopg import Connection, IsolationLevel

from tests.conftest import Connect
from tests.queue.test_limits import claim, enqueue, limit
from tests.support.buffers import buffers
from tests.support.waiting import wait_for_floor_margin
from tests.support.workers import one
from treadle import JobQueue, Once, QueueFull, Throttle

Rows = Connection[Any]


def bound(connection: Rows, amount: int | None, when_full: str = "refuse", **values: Any) -> None:
    limit(connection, amount, when_full=when_full, **values)


def pending(connection: Rows, tenant: str | None = None) -> list[Any]:
    rows = connection.execute(
        """select (data ->> 'nth')::int from jobs
        where status = 'pending' and (%(tenant)s::text is null or data ->> 'tenant' = %(tenant)s) order by run_at""",
        {"tenant": tenant},
    )
    return [row[0] for row in rows]


def test_no_more_jobs_wait_than_allowed(queue: JobQueue, connection: Rows) -> None:
    bound(connection, 3)
    queue.enqueue_many("sync", [{}, {}])
    queue.enqueue("sync", delay="1h")  # those that are due later wait, too
    with pytest.raises(QueueFull, match=r"^sync was not enqueued: as many jobs wait as max_pending allows"):
        queue.enqueue("sync")
    with pytest.raises(QueueFull, match=r"^2 jobs of type sync were not enqueued"):
        queue.enqueue_many("sync", [{}, {}])
    with pytest.raises(QueueFull):
        queue.enqueue("sync", expires="1h")
    queue.enqueue("other")
    assert len(pending(connection)) == 4
    queue.claim(["sync"], 1)
    queue.enqueue("sync")
    with pytest.raises(QueueFull):
        queue.enqueue("sync")


def test_a_list_is_enqueued_as_a_whole_or_not_at_all(queue: JobQueue, connection: Rows) -> None:
    bound(connection, 3)
    with pytest.raises(QueueFull):
        queue.enqueue_many("sync", [{}] * 4)
    assert pending(connection) == []
    assert len(queue.enqueue_many("sync", [{}] * 3)) == 3


def test_the_callers_transaction_goes_on(connection: Rows) -> None:
    bound(connection, 1)
    with connection.transaction(), JobQueue(connection) as queue:
        queue.enqueue("sync")
        with pytest.raises(QueueFull):
            queue.enqueue("sync")
        with pytest.raises(QueueFull):
            queue.enqueue("sync", expires="1h")
        queue.enqueue("other")
    assert len(pending(connection)) == 2


def test_jobs_that_wait_for_their_key_count(queue: JobQueue, connection: Rows) -> None:
    bound(connection, 3)
    for _ in range(3):
        queue.enqueue("sync", key="k")
    with pytest.raises(QueueFull):
        queue.enqueue("sync", key="k")


def test_each_value_has_its_own(connection: Rows) -> None:
    bound(connection, 2, per="tenant")
    for tenant in ("acme", "acme", "acme", "zeta"):
        enqueue(connection, tenant=tenant)
    assert (len(pending(connection, "acme")), len(pending(connection, "zeta"))) == (2, 1)
    # Whatever the priority and the queue.
    enqueue(connection, tenant="acme", priority=500, queue="other")
    assert len(pending(connection, "acme")) == 2
    # In one call, none is enqueued if one does not fit.
    data = [json.dumps({"tenant": tenant}) for tenant in ("new", "acme")]
    assert connection.execute("select enqueue_jobs('sync', %s)", [data]).fetchall() == []
    assert pending(connection, "new") == []


def test_partitions_of_several_parts_are_counted_together(connection: Rows) -> None:
    bound(connection, 2, per="tenant")
    limit(connection, 10, name="regions", per="region")
    for region in ("north", "south", "west"):
        connection.execute("select enqueue('sync', %s)", [json.dumps({"tenant": "acme", "region": region})])
    assert len(pending(connection, "acme")) == 2


def test_a_bound_of_a_queue_counts_all_types(connection: Rows) -> None:
    bound(connection, 3, job_types=[], queues=["mail"])
    for job_type in ("a", "b", "c", "d"):
        connection.execute("select enqueue(%s, p_queue => 'mail')", [job_type])
        connection.execute("select enqueue(%s)", [job_type])
    assert one(connection, "select count(*) from jobs where queue = 'mail'") == 3
    assert one(connection, "select count(*) from jobs where queue <> 'mail'") == 4


def test_a_bound_of_several_types_is_theirs_together(connection: Rows) -> None:
    bound(connection, 3, job_types=["sync", "load"])
    for _ in range(2):
        for job_type in ("sync", "load"):
            connection.execute("select enqueue(%s)", [job_type])
    assert len(pending(connection)) == 3


def test_a_bound_is_changed_for_one_value_and_for_all(connection: Rows) -> None:
    bound(connection, 1, per="tenant")
    connection.execute("select set_limit('sync', 3, p_key => 'acme')")
    for tenant in ("acme", "zeta"):
        enqueue(connection, tenant=tenant)
        enqueue(connection, tenant=tenant)
    assert (len(pending(connection, "acme")), len(pending(connection, "zeta"))) == (2, 1)
    connection.execute("select set_limit('sync', null)")
    enqueue(connection, 5, tenant="zeta")
    assert len(pending(connection, "zeta")) == 6


@pytest.mark.parametrize("beside", [None, 100])
def test_it_does_not_limit_what_runs(connection: Rows, beside: int | None) -> None:
    bound(connection, 5)
    if beside:
        limit(connection, beside, name="beside")
    enqueue(connection, 5)
    assert len(claim(connection)) == 5
    enqueue(connection, 5)
    assert len(claim(connection)) == 5
    assert one(connection, "select count(*) from limit_holders where name = 'sync'") == 0


def test_the_oldest_of_the_lowest_priority_are_dropped(connection: Rows) -> None:
    bound(connection, 4, "drop")
    enqueue(connection, 2, priority=50)
    connection.execute("select enqueue('sync', '{\"nth\": 7}')")
    connection.execute("select enqueue('sync', '{\"nth\": 8}', 200)")
    for nth in (20, 21, 22):
        connection.execute("select enqueue('sync', %s)", [json.dumps({"nth": nth})])
    assert sorted(pending(connection)) == [8, 20, 21, 22]
    dropped = connection.execute("select data ->> 'nth', last_error from jobs where status = 'cancelled' order by id")
    assert dropped.fetchall() == [(each, "dropped: sync allows no more jobs to wait") for each in "017"]
    # None of a higher priority.
    assert one(connection, "select enqueue('sync', p_priority => 50)") is None
    assert len(pending(connection)) == 4
    # And none at all, if there are not enough.
    assert connection.execute("select enqueue_jobs('sync', array_fill('{}'::text, '{4}'))").fetchall() == []
    assert len(pending(connection)) == 4
    assert one(connection, "select enqueue('sync', p_priority => 300)") is not None
    assert sorted(pending(connection), key=str) == [21, 22, 8, None]


def test_dropped_jobs_are_back_if_the_transaction_is_rolled_back(connection: Rows) -> None:
    bound(connection, 2, "drop")
    enqueue(connection, 2)
    with connection.transaction(force_rollback=True):
        enqueue(connection, 2)
        assert len(pending(connection)) == 2
    assert pending(connection) == [0, 1]


def test_a_job_that_is_being_claimed_is_not_dropped(connect: Connect) -> None:
    connection, claimer = connect(), connect()
    bound(connection, 2, "drop")
    enqueue(connection, 2)
    with claimer.transaction():
        ((claimed, *_),) = claim(claimer, 1)
        connection.execute("set lock_timeout = '5s'")
        enqueue(connection)
    states = dict(
        connection.execute("select (data ->> 'nth')::int, status from jobs where id <> %s", [claimed]).fetchall()
    )
    assert states == {1: "cancelled", 0: "pending"}


def test_a_unique_job_that_exists_is_returned_although_it_is_full(queue: JobQueue, connection: Rows) -> None:
    bound(connection, 1)
    first = queue.enqueue("sync", unique=Once(key="once"))
    assert queue.enqueue("sync", unique=Once(key="once")) == first
    with pytest.raises(QueueFull):
        queue.enqueue("sync", unique=Once(key="other"))


def test_calls_that_add_no_job_need_no_room(queue: JobQueue, connection: Rows) -> None:
    bound(connection, 2)
    throttled = [queue.enqueue("sync", unique=Throttle(1, "1h", key="t")) for _ in range(3)]
    assert len(set(throttled)) == 1
    assert len(set(queue.enqueue_many("sync", [{}] * 3, unique=Once(key="u")))) == 1, "three calls, one job"
    assert queue.enqueue("sync", unique=Throttle(1, "1h", key="t")) == throttled[0]
    with pytest.raises(QueueFull):
        queue.enqueue("sync", unique=Throttle(1, "1h", key="other"))
    assert len(pending(connection)) == 2


def test_nothing_is_dropped_for_calls_that_add_no_job(queue: JobQueue, connection: Rows) -> None:
    bound(connection, 3, "drop")
    ids = [queue.enqueue("sync", unique=Throttle(1, "1h", key=name)) for name in "abc"]
    assert queue.enqueue("sync", unique=Throttle(1, "1h", key="c")) == ids[2]
    assert queue.enqueue_many("sync", [{"n": 1}, {"n": 1}], unique=Once("n"))
    assert [queue.get(each).status for each in ids] == ["cancelled", "pending", "pending"]


def test_a_job_that_a_call_returns_is_not_dropped_by_it(queue: JobQueue, connection: Rows) -> None:
    bound(connection, 3, "drop")
    oldest, second, _ = (queue.enqueue("sync", {"n": n}, unique=Once("n")) for n in range(3))
    assert queue.enqueue_many("sync", [{"n": 0}, {"n": 9}], unique=Once("n"))[0] == oldest
    assert [queue.get(each).status for each in (oldest, second)] == ["pending", "cancelled"]
    assert len(pending(connection)) == 3


def test_nothing_is_dropped_if_another_bound_refuses(connection: Rows) -> None:
    bound(connection, 2, "drop", per="tenant")
    enqueue(connection, 2, tenant="a")
    data = [json.dumps({"tenant": tenant}) for tenant in "abbb"]
    assert connection.execute("select enqueue_jobs('sync', %s)", [data]).fetchall() == []
    assert pending(connection, "a") == [0, 1]


@pytest.mark.parametrize("value", ["", None, "x" * 201, "null"])
def test_unusual_values_have_a_bound_as_well(connection: Rows, value: str | None) -> None:
    bound(connection, 2, per="tenant")
    for _ in range(4):
        connection.execute("select enqueue('sync', %s)", [json.dumps({"tenant": value})])
    assert len(pending(connection)) == 2


@pytest.mark.parametrize("level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE])
def test_other_isolation_levels(connect: Connect, level: IsolationLevel) -> None:
    """In SERIALIZABLE it is not checked: enqueuers would abort each other."""
    connection, other = connect(), connect()
    bound(connection, 2)
    for each in (connection, other):
        each.autocommit = False
        each.isolation_level = level
    for each in (connection, other):
        enqueue(each, 2)
    connection.commit()
    other.commit()  # no serialization failure
    enqueue(connection)
    connection.commit()
    assert len(pending(connection)) == (4 if level == IsolationLevel.REPEATABLE_READ else 5)


def test_a_large_bound_is_not_counted_for_each_job(connect: Connect) -> None:
    connection, other = connect(), connect()
    bound(connection, 4000)
    connection.execute("select enqueue_jobs('sync', array_fill('{}'::text, '{3998}'))")
    wait_for_floor_margin(connection)
    few = buffers(connection, "select enqueue('other')")
    one(connection, "select enqueue('sync')")
    assert buffers(connection, "select enqueue('sync')") < few + 60
    # What the session itself enqueues counts at once; what it enqueued before a rollback does not.
    with connection.transaction(force_rollback=True):
        assert one(connection, "select enqueue('sync')") is not None
        assert one(connection, "select enqueue('sync')") is None
    assert one(connection, "select enqueue('sync')") is not None
    assert one(connection, "select enqueue('sync')") is None
    # Another session counts for itself.
    assert one(other, "select enqueue('sync')") is None


def test_a_full_bound_is_counted_again_soon(connection: Rows) -> None:
    bound(connection, 2000)
    connection.execute("select enqueue_jobs('sync', array_fill('{}'::text, '{2000}'))")
    assert one(connection, "select enqueue('sync')") is None
    claim(connection, 10)
    connection.execute("select pg_sleep(0.011)")
    assert one(connection, "select enqueue('sync')") is not None


@pytest.mark.fresh_database
def test_the_cost_of_one_of_many_values_does_not_grow_with_the_others(connection: Rows) -> None:
    bound(connection, 5, per="tenant")
    statement = """select enqueue('sync', '{"tenant": "acme"}')"""
    connection.execute(statement)
    wait_for_floor_margin(connection)
    few = buffers(connection, statement, tick=True)
    data = [json.dumps({"tenant": f"t{nth}"}) for nth in range(5000)]
    connection.execute("select enqueue_jobs('sync', %s)", [data])
    wait_for_floor_margin(connection)
    assert buffers(connection, statement, tick=True) < few * 1.5 + 20
