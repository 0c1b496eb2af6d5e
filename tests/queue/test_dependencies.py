"""Jobs that wait for others: using(after=…), in SQL and through JobQueue."""

import json
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import Connection

from tests.conftest import Connect
from treadle import InvalidArgument, JobNotFound, JobQueue, JobRow, ok_to_fail
from treadle.words.status import Status

Rows = Connection[Any]


def claim(queue: JobQueue, batch: int = 100) -> list[JobRow]:
    """After a tick, which decides what could not be decided at commit."""
    tick(queue)
    return queue.claim(["a", "b"], batch)


def tick(queue: JobQueue) -> None:
    with psycopg.connect(queue._database.url, autocommit=True) as connection:
        connection.execute("select treadle.tick('0')")


def run(queue: JobQueue, *expected: UUID, result: Any = None) -> None:
    """Claim these jobs, and no others, and complete them."""
    rows = claim(queue)
    assert {row.id for row in rows} == set(expected)
    for row in rows:
        queue.complete(row, result)


def status(queue: JobQueue, job_id: UUID) -> Status:
    return queue.get(job_id).status


def left(connection: Rows) -> int:
    """How much is left to be decided."""
    row = connection.execute("select count(*) from dependency_checks").fetchone()
    assert row
    return int(row[0])


def test_a_job_runs_after_another(queue: JobQueue, connection: Rows) -> None:
    first = queue.enqueue("a")
    second = queue.enqueue("b", after=first)
    run(queue, first)
    run(queue, second)
    assert left(connection) == 0


def test_a_job_runs_after_several_others(queue: JobQueue, connection: Rows) -> None:
    first = queue.enqueue_many("a", [{}] * 5)
    last = queue.enqueue("b", after=first)
    rows = claim(queue)
    for row in rows[::-1]:
        assert claim(queue) == []
        queue.complete(row)
    run(queue, last)
    assert left(connection) == 0


def test_several_jobs_run_after_one(queue: JobQueue) -> None:
    first = queue.enqueue("a")
    others = queue.enqueue_many("b", [{}] * 5, after=[first])
    run(queue, first)
    run(queue, *others)


def test_jobs_run_in_a_chain(queue: JobQueue) -> None:
    ids = [queue.enqueue("a")]
    for _ in range(5):
        ids.append(queue.enqueue("a", after=ids[-1]))
    for each in ids:
        run(queue, each)


def test_a_job_after_one_that_has_completed_runs_at_once(queue: JobQueue) -> None:
    first = queue.enqueue("a")
    run(queue, first)
    run(queue, queue.enqueue("b", after=first))


def test_a_job_after_one_that_has_failed_is_cancelled_at_once(queue: JobQueue) -> None:
    first = queue.enqueue("a")
    queue.fail(claim(queue)[0], "card declined", final=True)
    second = queue.get(queue.enqueue("b", after=first))
    assert second.status == Status.CANCELLED
    assert second.last_error == f"job {first} (a), which it waits for, failed: card declined"


def test_what_comes_after_a_failure_is_cancelled_and_names_the_cause(queue: JobQueue, connection: Rows) -> None:
    first = queue.enqueue("a")
    second = queue.enqueue("b", after=first)
    third = queue.enqueue("b", after=second)
    queue.fail(claim(queue)[0], "card declined", final=True)
    for each in (second, third):
        row = queue.get(each)
        assert row.status == Status.CANCELLED
        assert row.last_error == f"job {first} (a), which it waits for, failed: card declined"
    assert claim(queue) == []
    assert left(connection) == 0


def test_the_failure_of_one_of_several_is_noticed_at_once(queue: JobQueue) -> None:
    first = queue.enqueue_many("a", [{}] * 5)
    last = queue.enqueue("b", after=first)
    rows = claim(queue)
    queue.fail(rows[3], "no", final=True)
    assert status(queue, last) == Status.CANCELLED


@pytest.mark.parametrize("how", ["cancel", "delete"])
def test_what_comes_after_a_cancelled_or_deleted_job_is_cancelled(queue: JobQueue, connection: Rows, how: str) -> None:
    first = queue.enqueue("a")
    second = queue.enqueue("b", after=first)
    if how == "cancel":
        queue.cancel(first, "not needed")
    else:
        connection.execute("delete from jobs where id = %s", [first])
    row = queue.get(second)
    assert row.status == Status.CANCELLED
    ended = (
        "(a), which it waits for, was cancelled: not needed" if how == "cancel" else "which it waits for, was deleted"
    )
    assert row.last_error
    assert row.last_error.endswith(ended)


@pytest.mark.parametrize("how", ["fail", "cancel", "delete"])
def test_a_job_may_be_allowed_to_fail(queue: JobQueue, connection: Rows, how: str) -> None:
    first = queue.enqueue_many("a", [{}] * 2)
    last = queue.enqueue("b", after=[first[0], ok_to_fail(first[1])])
    rows = {row.id: row for row in claim(queue)}
    if how == "fail":
        queue.fail(rows[first[1]], "no", final=True)
    elif how == "cancel":
        queue.cancel(first[1])
    else:
        connection.execute("delete from jobs where id = %s", [first[1]])
    assert status(queue, last) == Status.PENDING
    assert claim(queue) == []
    queue.complete(rows[first[0]])
    run(queue, last)


def test_a_failure_that_is_retried_makes_the_rest_go_on(queue: JobQueue, connection: Rows) -> None:
    first = queue.enqueue("a")
    second = queue.enqueue("b", after=first)
    third = queue.enqueue("b", after=second)
    queue.fail(claim(queue)[0], "no", final=True)
    assert status(queue, third) == Status.CANCELLED
    queue.retry(first)
    assert {status(queue, each) for each in (second, third)} == {Status.PENDING}
    run(queue, first)
    run(queue, second)
    run(queue, third)
    assert left(connection) == 0


def test_a_job_that_was_stopped_waits_again_when_it_is_retried(queue: JobQueue) -> None:
    first = queue.enqueue("a")
    second, third = queue.enqueue_many("b", [{}] * 2, after=first)
    for each in (second, third):
        queue.cancel(each, "later")
    queue.retry(second)
    run(queue, first)
    run(queue, second)
    queue.retry(third)
    run(queue, third)


def test_a_stopped_job_that_is_retried_is_stopped_again_while_its_cause_is_failed(queue: JobQueue) -> None:
    first = queue.enqueue("a")
    second = queue.enqueue("b", after=first)
    queue.fail(claim(queue)[0], "no", final=True)
    queue.retry(second)
    assert status(queue, second) == Status.CANCELLED


def test_an_attempt_that_fails_is_not_an_end(queue: JobQueue) -> None:
    first = queue.enqueue("a")
    second = queue.enqueue("b", after=first)
    queue.fail(claim(queue)[0], "no", delay=0)
    assert status(queue, second) == Status.PENDING
    run(queue, first)
    run(queue, second)


def test_results_become_arguments(queue: JobQueue, connection: Rows) -> None:
    first, other = queue.enqueue("a"), queue.enqueue("a")
    after = [
        {"id": str(first), "arguments": ["one", "same"]},
        {"id": str(other), "arguments": ["many"], "nth": 0},
    ]
    (second,) = connection.execute(
        """select id from enqueue_with_options('b', '{"{\\"own\\": 1}"}', jsonb_build_object('after', %s::jsonb))""",
        [json.dumps(after)],
    ).fetchone() or (None,)
    for row in claim(queue):
        queue.complete(row, {"n": 1} if row.id == first else None)
    (row,) = claim(queue)
    assert row.id == second
    assert row.data == {"own": 1, "one": {"n": 1}, "same": {"n": 1}, "many": [None]}


def test_a_result_that_is_computed_again_is_waited_for(queue: JobQueue, connection: Rows) -> None:
    first, other = queue.enqueue("a"), queue.enqueue("a")
    after = json.dumps([{"id": str(first), "arguments": ["n"]}, {"id": str(other)}])
    connection.execute("select enqueue_with_options('b', array['{}'], jsonb_build_object('after', %s::jsonb))", [after])
    rows = {row.id: row for row in claim(queue)}
    queue.complete(rows[first], 1)
    queue.retry(first)
    queue.complete(rows[other])
    (again,) = claim(queue)
    assert again.id == first
    queue.complete(again, 2)
    (row,) = claim(queue)
    assert row.data == {"n": 2}


def test_a_job_that_does_not_exist_is_refused_and_the_transaction_goes_on(connect: Connect) -> None:
    connection = connect(autocommit=False)
    queue = JobQueue(connection, "w")
    first = queue.enqueue("a")
    missing = uuid4()
    with pytest.raises(JobNotFound) as raised:
        queue.enqueue("b", after=[first, missing])
    assert raised.value.job_id == missing
    queue.enqueue("b", after=[first])
    connection.commit()
    assert sum(queue.counts().values()) == 2


@pytest.mark.parametrize("after", [7, "first", [None]])
def test_what_is_no_job_is_refused(queue: JobQueue, after: Any) -> None:
    with pytest.raises(InvalidArgument, match="after must be a job"):
        queue.enqueue("b", after=after)


def test_a_job_of_an_open_transaction_is_not_found(connect: Connect, queue: JobQueue) -> None:
    connection = connect(autocommit=False)
    first = JobQueue(connection, "w").enqueue("a")
    with pytest.raises(JobNotFound):
        queue.enqueue("b", after=first)
    connection.rollback()
    assert sum(queue.counts().values()) == 0


def test_a_job_of_the_same_transaction(connect: Connect, queue: JobQueue) -> None:
    connection = connect(autocommit=False)
    own = JobQueue(connection, "w")
    first = own.enqueue("a")
    second = own.enqueue("b", after=first)
    connection.commit()
    run(queue, first)
    run(queue, second)


def test_jobs_with_a_key_wait_for_both(queue: JobQueue) -> None:
    first = queue.enqueue("a")
    before = queue.enqueue("a", key="k")
    second = queue.enqueue("b", after=first, key="k")
    rows = {row.id: row for row in claim(queue)}
    queue.complete(rows[first])
    assert claim(queue) == []
    queue.complete(rows[before])
    run(queue, second)


def test_a_job_is_kept_while_others_wait_for_it(queue: JobQueue) -> None:
    first, other = queue.enqueue("a"), queue.enqueue("a")
    last = queue.enqueue("b", after=[first, other])
    rows = {row.id: row for row in claim(queue)}
    queue.complete(rows[first])
    assert queue.prune("completed", 0) == 0
    queue.complete(rows[other])
    run(queue, last)
    assert queue.prune("completed", 0) == 3


def test_dependencies_are_deleted_with_the_job_that_waits(queue: JobQueue, connection: Rows) -> None:
    first = queue.enqueue("a")
    second = queue.enqueue("b", after=first)
    run(queue, first)
    run(queue, second)
    queue.prune("completed", 0)
    assert connection.execute("select count(*) from dependencies").fetchone() == (0,)


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_what_ends_on_an_older_snapshot_is_noticed_by_the_next_tick(
    queue: JobQueue, connect: Connect, level: str
) -> None:
    first = queue.enqueue_many("a", [{}] * 2)
    last = queue.enqueue("b", after=first)
    connection = connect(autocommit=False)
    connection.execute(f"set transaction isolation level {level}")
    own = JobQueue(connection, "w")
    (row,) = own.claim(["a"], 1)
    queue.complete(queue.claim(["a"])[0])  # which the older snapshot does not see
    own.complete(row)
    connection.commit()
    run(queue, last)


def test_more_than_are_freed_at_commit_follow_with_the_next_claims_of_a_worker(
    queue: JobQueue, connection: Rows
) -> None:
    first = queue.enqueue("a")
    queue.enqueue_many("b", [{}] * 3000, after=first)
    queue.complete(queue.claim(["a"])[0])
    total = 0
    while rows := connection.execute("select from claim_work('w', '{b}', 1000, null)").fetchall():
        total += len(rows)
    assert total == 3000
    assert left(connection) == 0


def test_a_tick_decides_what_is_older(queue: JobQueue, connect: Connect, connection: Rows) -> None:
    """Claims look only at what is new, so that they need not read what an open snapshot keeps."""
    first = queue.enqueue("a")
    second = queue.enqueue("b", after=first)
    ending = connect(autocommit=False)
    ending.execute("set transaction isolation level repeatable read")
    own = JobQueue(ending, "w")
    own.complete(own.claim(["a"])[0])
    ending.commit()
    connection.execute("update dependency_checks set noted_at = noted_at - interval '1 minute'")
    connection.execute("select tick('0')")
    run(queue, second)
