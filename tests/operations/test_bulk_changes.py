"""Bulk changes: one action for all jobs that match a filter."""

import asyncio
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.workers import one
from treadle import InvalidArgument, JobQueue, Retries, Status, Treadle
from treadle.db.queries import listing as listing_queries
from treadle.operations import bulk
from treadle.operations.bulk import Change, Confirmed, Counts, acount_to_confirm, count, count_to_confirm
from treadle.words.changes import Action
from treadle.words.listing import JobFilter
from treadle.words.overview import Total

RETRY, CANCEL, DELETE, RUN_NOW, PRIORITY = Action


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "CHUNK", 10)


def change(app: Treadle, action: Action, priority: int | None = None, **filters: Any) -> Counts:
    *_, last = Change(app.database, JobFilter(**filters), action, "ada", "because", priority)
    return last


def add_failed_jobs(queue: JobQueue, number: int, job_type: str = "a") -> list[uuid.UUID]:
    made = queue.enqueue_many(job_type, [{"n": n} for n in range(number)], retry=Retries(0))
    for job in queue.claim([job_type], number):
        queue.fail(job, "no")
    return made


def statuses(connection: Connection[Any]) -> dict[str, int]:
    return dict(connection.execute("select status, count(*) from jobs group by status").fetchall())


def add_jobs_in_every_status(connection: Connection[Any]) -> None:
    """Add three jobs in each status, three blocked ones and three delayed ones."""
    connection.execute(
        """insert into jobs (job_type, status, worker_id, claimed_at)
        select 'a', status, case when status in ('claimed', 'running') then 'w' end, now()
        from unnest('{pending,claimed,running,completed,failed,cancelled}'::text[]) as status, generate_series(1, 3)"""
    )
    connection.execute("insert into jobs (job_type, holds) select 'a', 4 from generate_series(1, 3)")
    connection.execute("insert into jobs (job_type, run_at) select 'a', now() + '1 h' from generate_series(1, 3)")


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (RETRY, {"completed": 3, "claimed": 3, "running": 3, "pending": 15}),
        (CANCEL, {"completed": 3, "failed": 3, "cancelled": 18}),
        (DELETE, {"claimed": 3, "running": 3}),
    ],
)
def test_without_a_status_an_action_applies_to_all_suitable_jobs(
    app: Treadle, connection: Connection[Any], action: Action, expected: dict[str, int]
) -> None:
    add_jobs_in_every_status(connection)
    before = count(app.database, JobFilter(), action)
    counts = change(app, action)
    assert statuses(connection) == expected
    assert before == Total(counts.done, exact=True)
    assert counts == (counts.done, 0, 0, 0)
    assert one(connection, "select count(*) from audit where actor = 'ada' and reason = 'because'") == counts.done


def test_run_now_and_priority_apply_to_pending_jobs(app: Treadle, connection: Connection[Any]) -> None:
    add_jobs_in_every_status(connection)
    assert count(app.database, JobFilter(), RUN_NOW) == Total(3, exact=True)
    assert change(app, RUN_NOW) == Counts(done=3)
    assert one(connection, "select count(*) from jobs where run_at > clock_timestamp()") == 0
    assert count(app.database, JobFilter(), PRIORITY) == Total(9, exact=True)
    assert change(app, PRIORITY, 7) == Counts(done=9)
    assert one(connection, "select count(*) from jobs where priority = 7 and status = 'pending'") == 9
    assert one(connection, "select count(*) from jobs where priority = 7") == 9


def test_with_a_status_only_its_jobs_are_changed(app: Treadle, connection: Connection[Any]) -> None:
    add_jobs_in_every_status(connection)
    assert change(app, RETRY, status="completed") == Counts(done=3)
    assert change(app, CANCEL, status="running") == Counts(done=3)
    assert change(app, CANCEL, status="later") == Counts(done=3)
    assert change(app, DELETE, status="blocked") == Counts(done=3)
    assert statuses(connection) == {"claimed": 3, "failed": 3, "cancelled": 9, "pending": 6}


@pytest.mark.parametrize(
    ("action", "status"),
    [(RETRY, "pending"), (CANCEL, "failed"), (DELETE, "running"), (RUN_NOW, "running"), (PRIORITY, "completed")],
)
def test_a_status_that_does_not_fit_the_action_is_refused(app: Treadle, action: Action, status: str) -> None:
    with pytest.raises(InvalidArgument, match=f"to {action.value.replace('_', ' ')} jobs, .*, got '{status}'"):
        Change(app.database, JobFilter(status=status), action, "ada")
    with pytest.raises(InvalidArgument, match="their status must be one of"):
        count(app.database, JobFilter(status=status), action)


def test_invalid_arguments_are_refused_before_anything_is_changed(app: Treadle) -> None:
    with pytest.raises(InvalidArgument, match="a priority is required for the action priority"):
        Change(app.database, JobFilter(), PRIORITY, "ada")
    with pytest.raises(InvalidArgument, match="actor must be"):
        Change(app.database, JobFilter(), CANCEL, "")


def test_only_matching_jobs_are_changed(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    add_failed_jobs(queue, 25, "a")
    add_failed_jobs(queue, 25, "b")
    assert count(app.database, JobFilter(job_type="b"), RETRY) == Total(25, exact=True)
    assert change(app, RETRY, job_type="b") == Counts(done=25)
    assert connection.execute("select distinct job_type from jobs where status = 'pending'").fetchall() == [("b",)]
    assert change(app, RETRY, search='"n": 7') == Counts(done=1)


def test_a_search_for_an_id_changes_one_job(app: Treadle, queue: JobQueue) -> None:
    made = add_failed_jobs(queue, 30)
    assert count(app.database, JobFilter(search=str(made[0])), RETRY) == Total(1, exact=True)
    assert change(app, RETRY, search=str(made[0])) == Counts(done=1)
    assert queue.get(made[0]).status == Status.PENDING


def test_a_change_is_made_in_chunks_and_reports_its_progress(
    app: Treadle, queue: JobQueue, connection: Connection[Any]
) -> None:
    add_failed_jobs(queue, 25)
    progress = [
        (counts.done, counts.total) for counts in Change(app.database, JobFilter(status="failed"), RETRY, "ada")
    ]
    assert progress == [(10, 10), (20, 20), (25, 25)]
    sizes = connection.execute("select count(*) from audit group by xmin::text order by 1").fetchall()
    assert sizes == [(5,), (10,), (10,)], "one transaction per chunk"


def test_a_change_that_is_stopped_keeps_what_it_has_done(
    app: Treadle, queue: JobQueue, connection: Connection[Any]
) -> None:
    add_failed_jobs(queue, 25)
    assert next(iter(Change(app.database, JobFilter(), RETRY, "ada"))).done == 10
    assert statuses(connection) == {"failed": 15, "pending": 10}
    assert change(app, RETRY).done == 15


@pytest.mark.parametrize("again", ["fail", "cancel"])
def test_a_retried_job_that_finishes_during_the_change_is_not_retried_again(
    app: Treadle, queue: JobQueue, connection: Connection[Any], again: str
) -> None:
    add_failed_jobs(queue, 35)
    counted = []
    for counts in Change(app.database, JobFilter(), RETRY, "ada"):
        counted.append(counts)
        assert len(counted) < 20, "the change does not end"
        for job in queue.claim(["a"], 100):
            if again == "fail":
                queue.fail(job, "again", final=True)
            else:
                queue.cancel(job)
    assert counted[-1] == Counts(done=35)
    assert one(connection, "select max(attempts) from jobs") == 2


def test_a_priority_that_moves_jobs_ahead_is_set_once(app: Treadle, queue: JobQueue) -> None:
    queue.enqueue_many("a", [{}] * 25, priority=150)
    queue.enqueue_many("a", [{}] * 5, priority=30)
    assert change(app, PRIORITY, 30) == Counts(done=25)
    assert change(app, PRIORITY, 20, job_type="a") == Counts(done=30)


def test_jobs_enqueued_during_the_change_are_not_changed(
    app: Treadle, queue: JobQueue, connection: Connection[Any]
) -> None:
    """Otherwise a fast producer would keep the change busy for ever."""
    queue.enqueue_many("a", [{}] * 25)
    connection.execute("insert into jobs (job_type, created_at) values ('a', now() + '2 hours')")
    connection.execute("insert into jobs (id, job_type) values (%s, 'a')", [uuid.UUID(int=2**128 - 2)])
    counted = []
    for counts in Change(app.database, JobFilter(), CANCEL, "ada"):
        counted.append(counts)
        if len(counted) < 10:
            queue.enqueue_many("a", [{}] * 20)
    assert counted[-1] == Counts(done=27)
    assert set(statuses(connection)) == {"cancelled", "pending"}


def test_all_jobs_of_a_key_are_cancelled(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    for _ in range(25):
        queue.enqueue("a", key="k")
    queue.enqueue("a", key="other", priority=200)
    assert change(app, CANCEL) == Counts(done=26)
    assert statuses(connection) == {"cancelled": 26}


def test_locked_changed_and_deleted_jobs_are_counted(app: Treadle, queue: JobQueue, connect: Connect) -> None:
    made = add_failed_jobs(queue, 4)
    other = connect(autocommit=False)
    other.execute("select from jobs where id = %s for update", [made[0]])
    script = Change(app.database, JobFilter(status="failed"), RETRY, "ada")._script()
    answer: Any = None
    for _ in range(2):
        asked = script.send(answer)
        assert not isinstance(asked, Counts)
        answer = app.database.run(asked)
    # Between the query and the change.
    connect().execute("delete from jobs where id = %s", [made[1]])
    queue.retry(made[2])
    asked = script.send(answer)
    assert not isinstance(asked, Counts)
    assert script.send(app.database.run(asked)) == Counts(done=1, unfit=1, busy=1, missing=1)
    other.rollback()


def test_a_change_can_be_made_asynchronously(app: Treadle, queue: JobQueue) -> None:
    add_failed_jobs(queue, 25)

    async def both() -> tuple[Any, list[Counts]]:
        try:
            counted, _ = await acount_to_confirm(app.database, JobFilter(), RETRY)
            return counted, [counts async for counts in Change(app.database, JobFilter(status="failed"), RETRY, "ada")]
        finally:
            await app.aclose()

    assert asyncio.run(both()) == (Total(25, exact=True), [Counts(10), Counts(20), Counts(25)])


@pytest.mark.parametrize("status", ["pending", "failed", None])
def test_what_came_after_somebody_looked_is_not_changed(app: Treadle, queue: JobQueue, status: str | None) -> None:
    def add(number: int) -> None:
        if status == "failed":
            add_failed_jobs(queue, number)
        else:
            queue.enqueue_many("a", [{}] * number)

    add(25)
    total, seen = count_to_confirm(app.database, JobFilter(status=status), DELETE)
    assert (total, seen.jobs) == (Total(25, exact=True), 25)
    add(15)
    deletion = Change(app.database, JobFilter(status=status), DELETE, "ada")
    deletion.confirmed = seen._replace(jobs=None)
    *_, done = deletion
    assert done == Counts(25)


def test_no_more_jobs_are_changed_than_somebody_confirmed(app: Treadle, queue: JobQueue) -> None:
    add_failed_jobs(queue, 15)
    queue.enqueue_many("a", [{}] * 12)
    _, seen = count_to_confirm(app.database, JobFilter(status="pending"), DELETE)
    change(app, RETRY, status="failed")
    deletion = Change(app.database, JobFilter(status="pending"), DELETE, "ada")
    deletion.confirmed = seen
    *_, done = deletion
    assert (done, queue.counts()[Status.PENDING]) == (Counts(12), 15)


def test_a_cursor_remembers_how_many_jobs_may_be_changed(app: Treadle, queue: JobQueue) -> None:
    queue.enqueue_many("a", [{}] * 30)

    async def chunks() -> list[int]:
        done: list[int] = []
        after = None
        while after is not None or not done:
            given = app.database, JobFilter(status="pending"), CANCEL, "ada", None, None, after
            counts, after = await bulk.achange_chunk(*given, None if after else uuid.uuid4(), Confirmed(None, 17))
            done.append(counts.done)
        await app.aclose()
        return done

    assert asyncio.run(chunks()) == [10, 7]


@pytest.fixture
def set_limits(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    def set_both(look: int, most: int) -> None:
        monkeypatch.setattr(listing_queries, "EXAMINED_LIMIT", look)
        monkeypatch.setattr(bulk, "COUNT_LIMIT", most)

    return set_both


@pytest.mark.parametrize("status", ["failed", "pending", None])
def test_a_count_stops_at_its_limit(
    app: Treadle,
    queue: JobQueue,
    set_limits: Callable[[int, int], None],
    monkeypatch: pytest.MonkeyPatch,
    status: str | None,
) -> None:
    for name in ("a", "b"):
        if status == "failed":
            add_failed_jobs(queue, 50, name)
        else:
            queue.enqueue_many(name, [{}] * 50)
    set_limits(10, 40)
    assert count(app.database, JobFilter(status=status)) == Total(40, exact=False)
    set_limits(10, 1000)
    assert count(app.database, JobFilter(status=status)) == Total(100, exact=True)
    monkeypatch.setattr(listing_queries, "SEARCH_TIME", timedelta(0))
    set_limits(1000, 1000)
    assert app.database.run(listing_queries.count_matching_jobs(JobFilter(status=status))).examined < 100, (
        "one query is short, too"
    )
    assert count(app.database, JobFilter(status=status)) == Total(100, exact=True)
    monkeypatch.setattr(listing_queries, "SEARCH_TIME", None)
    assert count(app.database, JobFilter(status=status, search="nothing")) == Total(0, exact=True)
    assert count(app.database, JobFilter(status=status, job_type="b")) == Total(50, exact=True)
