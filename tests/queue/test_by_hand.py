"""Statements that somebody types, and calls of functions whose answer others rely on."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.waiting import until_waiting_for_lock, wait_for_floor_margin
from treadle import JobQueue, LeaseLost


def test_a_claim_by_hand_under_the_same_name_moves_the_lease(queue: JobQueue, connection: Connection[Any]) -> None:
    """Otherwise the writes of the earlier claim would be accepted."""
    queue.enqueue("a")
    (first,) = queue.claim(["a"])
    queue.release(first)
    connection.execute("update jobs set status = 'claimed', worker_id = %s", [first.worker_id])
    with pytest.raises(LeaseLost):
        queue.complete(first)
    connection.execute("update jobs set status = 'running'")
    assert queue.get(first).lease == first.lease + 1


def test_jobs_dated_back_below_the_floor_keep_their_order(queue: JobQueue, connection: Connection[Any]) -> None:
    floor = "insert into floors (queue, job_type, priority, floor, xid) values ('default', 'a', 100, now(), '5')"
    connection.execute(floor)
    connection.execute(
        "insert into jobs (job_type, created_at, data)"
        " select 'a', now() - day * interval '1 day', to_jsonb(day) from unnest('{3, 9, 1, 7}'::int[]) as day"
    )
    assert [job.data for job in queue.claim(["a"], 10)] == [9, 7, 3, 1]


def test_one_job_dated_back_below_the_floor_is_claimed(queue: JobQueue, connection: Connection[Any]) -> None:
    queue.enqueue("a")
    (last,) = queue.claim(["a"])
    queue.complete(last)
    connection.execute(
        "insert into floors (queue, job_type, priority, floor, xid) values ('default', 'a', 100, now(), '5')"
    )
    connection.execute("insert into jobs (job_type, run_at) values ('a', now() - interval '1 second')")
    assert len(queue.claim(["a"], 10)) == 1


def test_jobs_of_new_types_are_found_when_inserted_with_one_of_a_known_type(
    queue: JobQueue, connection: Connection[Any]
) -> None:
    queue.enqueue("a")
    connection.execute("insert into jobs (job_type) values ('a'), ('b'), ('c')")
    assert [job.job_type for job in queue.claim(["b", "c"], 10)] == ["b", "c"]


def test_a_job_that_is_completed_while_it_is_cancelled_stays_completed(queue: JobQueue, connect: Connect) -> None:
    """The job was completed while the cancellation waited for its row."""
    job_id = queue.enqueue("a")
    other, observer = connect(autocommit=False), connect()
    other.execute("select complete_job(%s)", [job_id])
    with ThreadPoolExecutor() as threads:
        cancelled = threads.submit(queue.cancel, job_id)
        until_waiting_for_lock(observer)
        other.commit()
        assert cancelled.result(30) is False


@pytest.mark.fresh_database  # a session that another test has used still counts what that test has written
def test_the_rows_of_a_long_insert_into_a_busy_lane_are_written_once(connect: Connect) -> None:
    """Floors pass rows that are not committed yet. They are not moved above the floor: the next tick lowers it."""
    inserter, other = connect(autocommit=False), connect()
    inserter.execute("insert into jobs (job_type) values ('a')")
    (began,) = inserter.execute("select now()").fetchone() or (None,)
    for _ in range(3):  # others enqueue, claim and move the floor meanwhile
        other.execute("select enqueue_jobs('a', '{\"{}\"}')")
        wait_for_floor_margin(other)
        other.execute("select complete_jobs(array[id], array[lease], array['w']) from claim_jobs('w', '{a}', 10)")
        other.execute("select tick('0')")
    inserter.execute("insert into jobs (job_type, created_at) select 'a', %s from generate_series(1, 50)", [began])
    written = "select n_tup_ins, n_tup_upd from pg_stat_xact_user_tables where relid = 'jobs'::regclass"
    assert inserter.execute(written).fetchone() == (51, 0)
    inserter.commit()
    other.execute("select tick('0')")
    assert len(other.execute("select from claim_jobs('w', '{a}', 100)").fetchall()) == 51


@pytest.mark.parametrize("end", ["completed", "pending"])
def test_a_blocked_job_that_was_claimed_by_hand_unblocks_the_next(
    queue: JobQueue, connection: Connection[Any], end: str
) -> None:
    first, blocked = queue.enqueue("a", key="k"), queue.enqueue("a", key="k")
    connection.execute("update jobs set status = 'running', worker_id = 'me' where id = %s", [blocked])
    queue.cancel(first)
    later = queue.enqueue("a", key="k")  # behind the one that runs
    connection.execute("update jobs set status = %s, worker_id = null where id = %s", [end, blocked])
    ids: list[UUID] = []
    while jobs := queue.claim(["a"]):
        ids.extend(job.id for job in jobs)
        queue.complete_many(jobs)
    assert ids == ([later] if end == "completed" else [blocked, later])


def test_a_job_without_a_number_of_attempts_gets_the_default(queue: JobQueue, connection: Connection[Any]) -> None:
    connection.execute("select enqueue('a', p_max_attempts => null)")
    connection.execute("select enqueue_jobs('a', '{\"{}\"}', p_max_attempts => null)")
    connection.execute("select enqueue_unique('a', 'u', p_max_attempts => null)")
    connection.execute("insert into jobs (job_type, attempts, max_attempts) values ('a', null, null)")
    rows = connection.execute("select distinct attempts, max_attempts from jobs").fetchall()
    assert rows == [(0, 3)]
    assert len(queue.claim(["a"], batch_size=10)) == 4


@pytest.mark.parametrize(
    "call", ["enqueue('a'", "enqueue_jobs('a', '{\"{}\"}'", "enqueue_unique('a', 'u'"], ids=["one", "many", "unique"]
)
def test_a_job_that_could_never_run_is_refused(connection: Connection[Any], call: str) -> None:
    for number in (0, -1):
        with pytest.raises(
            psycopg.errors.InvalidParameterValue, match=f"p_max_attempts must be 1 or more, got {number}"
        ):
            connection.execute(f"select {call}, p_max_attempts => {number})")


@pytest.mark.parametrize("run_at", ["infinity", "-infinity"])
def test_a_job_that_is_never_due_breaks_nothing(connection: Connection[Any], run_at: str) -> None:
    connection.execute("insert into jobs (job_type, run_at) values ('a', %s)", [run_at])
    (seconds,) = connection.execute("select next_due('{a}')").fetchone() or (0.0,)
    assert seconds > 10_000_000 if run_at == "infinity" else seconds < 0


def test_a_waiting_job_that_was_claimed_by_hand_and_comes_back_waits_no_longer_than_it_has_to(
    queue: JobQueue, connection: Connection[Any]
) -> None:
    """What it waits for ended while it did not wait."""
    first = queue.enqueue("a")
    second = queue.enqueue("b", after=first)
    connection.execute("update jobs set status = 'claimed' where id = %s", [second])
    queue.complete(queue.claim(["a"])[0])
    connection.execute("select fail_job(%s, 'no', p_delay => '0')", [second])
    assert [row.id for row in queue.claim(["b"])] == [second]


def test_it_waits_again_for_what_has_not_ended(queue: JobQueue, connection: Connection[Any]) -> None:
    first = queue.enqueue("a")
    second = queue.enqueue("b", after=first)
    connection.execute("update jobs set status = 'claimed' where id = %s", [second])
    connection.execute("select release_job(%s)", [second])
    assert queue.claim(["b"]) == []
    queue.complete(queue.claim(["a"])[0])
    assert [row.id for row in queue.claim(["b"])] == [second]


@pytest.mark.parametrize("status", ["claimed", "failed"])
def test_a_signal_that_is_waited_for_again_has_its_time_again(connection: Connection[Any], status: str) -> None:
    block = {"job_type": "a", "data": ['{"signal": "go", "timeout": 3600}'], "signal": True, "part": 0}
    connection.execute("select enqueue_workflow('w', %s)", [json.dumps([block])])
    step = "flags & flag_signal() <> 0"
    connection.execute(f"update jobs set status = '{status}', expires_at = null where {step}")
    connection.execute("delete from expiries")
    connection.execute(f"update jobs set status = 'pending' where {step}")
    left = connection.execute(f"select expires_at - now() > interval '50 minutes', holds from jobs where {step}")
    assert left.fetchone() == (True, 4)
    assert connection.execute("select count(*) from expiries").fetchone() == (1,)


@pytest.mark.parametrize("status", ["claimed", "running", "pending"])
def test_a_finished_job_of_a_workflow_that_starts_again_has_not_ended(
    queue: JobQueue, connection: Connection[Any], status: str
) -> None:
    block = {"job_type": "a", "data": ["{}", "{}"], "part": 0}
    *_, (workflow,) = connection.execute("select id from enqueue_workflow('w', %s) order by nth", [json.dumps([block])])
    first, second = queue.claim(["a"])
    queue.complete(first)
    connection.execute(f"update jobs set status = '{status}' where id = %s", [first.id])
    queue.complete(second)
    connection.execute("select tick('0')")
    counted = "select completed, done from workflows where id = %s"
    assert connection.execute(counted, [workflow]).fetchone() == (1, 1)
    connection.execute("update jobs set status = 'completed' where id = %s", [first.id])
    assert queue.get(workflow).status == "completed"


def test_a_job_that_was_not_needed_and_is_revived_by_hand_may_be_cancelled(
    queue: JobQueue, connection: Connection[Any]
) -> None:
    block = {"job_type": "a", "data": ["{}"], "part": 0}
    handler = {"job_type": "b", "data": ["{}"], "part": 0, "after": [{"nth": 0, "if_failed": True}]}
    rows = connection.execute("select id from enqueue_workflow('w', %s) order by nth", [json.dumps([block, handler])])
    _, unneeded, workflow = (row[0] for row in rows)
    queue.complete(queue.claim(["a"])[0])
    assert queue.get(workflow).status == "completed"
    connection.execute("update jobs set status = 'pending', holds = 0 where id = %s", [unneeded])
    connection.execute("update jobs set status = 'cancelled' where id = %s", [unneeded])
    connection.execute("select tick('0')")
    assert connection.execute("select completed, cancelled from workflows").fetchone() == (1, 1)
