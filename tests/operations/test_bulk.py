"""Changes of many jobs by filter."""

import asyncio
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.workers import one
from treadle import InvalidArgument, JobQueue, Status, Treadle
from treadle.db.queries import listing as listing_queries
from treadle.operations import bulk
from treadle.operations.bulk import Change, Counts, acount, count
from treadle.words.changes import Action
from treadle.words.listing import Wanted

RETRY, CANCEL, DELETE, RUN_NOW, PRIORITY = Action


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "CHUNK", 10)
    # Where a look stops is up to the number of jobs then.
    monkeypatch.setattr(listing_queries, "PATIENCE", None)


def change(app: Treadle, action: Action, priority: int | None = None, **wanted: Any) -> Counts:
    *_, last = Change(app.database, Wanted(**wanted), action, "ada", "because", priority)
    return last


def failed(queue: JobQueue, number: int, job_type: str = "a") -> list[uuid.UUID]:
    made = queue.enqueue_many(job_type, [{"n": n} for n in range(number)], max_attempts=1)
    for job in queue.claim([job_type], number):
        queue.fail(job, "no")
    return made


def statuses(connection: Connection[Any]) -> dict[str, int]:
    return dict(connection.execute("select status, count(*) from jobs group by status").fetchall())


def in_every_status(connection: Connection[Any]) -> None:
    """Three in each, three that are held, and three that are due later."""
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
def test_which_jobs_an_action_means_if_no_status_is_given(
    app: Treadle, connection: Connection[Any], action: Action, expected: dict[str, int]
) -> None:
    in_every_status(connection)
    before = count(app.database, Wanted(), action)
    counts = change(app, action)
    assert statuses(connection) == expected
    assert before == (counts.done, True)
    assert counts == (counts.done, 0, 0, 0)
    assert one(connection, "select count(*) from audit where actor = 'ada' and reason = 'because'") == counts.done


def test_run_now_and_priority_mean_what_waits(app: Treadle, connection: Connection[Any]) -> None:
    in_every_status(connection)
    assert count(app.database, Wanted(), RUN_NOW) == (3, True)
    assert change(app, RUN_NOW) == Counts(done=3)
    assert one(connection, "select count(*) from jobs where run_at > clock_timestamp()") == 0
    assert count(app.database, Wanted(), PRIORITY) == (9, True)
    assert change(app, PRIORITY, 7) == Counts(done=9)
    assert one(connection, "select count(*) from jobs where priority = 7 and status = 'pending'") == 9
    assert one(connection, "select count(*) from jobs where priority = 7") == 9


def test_a_status_that_is_given_is_meant(app: Treadle, connection: Connection[Any]) -> None:
    in_every_status(connection)
    assert change(app, RETRY, status="completed") == Counts(done=3)
    assert change(app, CANCEL, status="running") == Counts(done=3)
    assert change(app, CANCEL, status="later") == Counts(done=3)
    assert change(app, DELETE, status="held") == Counts(done=3)
    assert statuses(connection) == {"claimed": 3, "failed": 3, "cancelled": 9, "pending": 6}


@pytest.mark.parametrize(
    ("action", "status"),
    [(RETRY, "pending"), (CANCEL, "failed"), (DELETE, "running"), (RUN_NOW, "running"), (PRIORITY, "completed")],
)
def test_a_status_that_does_not_fit_is_a_sentence(app: Treadle, action: Action, status: str) -> None:
    with pytest.raises(InvalidArgument, match=f"to {action.value.replace('_', ' ')} jobs, .*, got '{status}'"):
        Change(app.database, Wanted(status=status), action, "ada")
    with pytest.raises(InvalidArgument, match="their status must be one of"):
        count(app.database, Wanted(status=status), action)


def test_a_mistake_is_told_before_anything_is_changed(app: Treadle) -> None:
    with pytest.raises(InvalidArgument, match="a priority is required for the action priority"):
        Change(app.database, Wanted(), PRIORITY, "ada")
    with pytest.raises(InvalidArgument, match="actor must be"):
        Change(app.database, Wanted(), CANCEL, "")


def test_only_what_is_wanted_is_changed(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    failed(queue, 25, "a")
    failed(queue, 25, "b")
    assert count(app.database, Wanted(job_type="b"), RETRY) == (25, True)
    assert change(app, RETRY, job_type="b") == Counts(done=25)
    assert connection.execute("select distinct job_type from jobs where status = 'pending'").fetchall() == [("b",)]
    assert change(app, RETRY, search='"n": 7') == Counts(done=1)


def test_an_id_can_be_meant(app: Treadle, queue: JobQueue) -> None:
    made = failed(queue, 30)
    assert count(app.database, Wanted(search=str(made[0])), RETRY) == (1, True)
    assert change(app, RETRY, search=str(made[0])) == Counts(done=1)
    assert queue.get(made[0]).status == Status.PENDING


def test_it_goes_in_chunks_and_tells_how_far_it_is(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    failed(queue, 25)
    told = [(counts.done, counts.total) for counts in Change(app.database, Wanted(status="failed"), RETRY, "ada")]
    assert told == [(10, 10), (20, 20), (25, 25)]
    sizes = connection.execute("select count(*) from audit group by xmin::text order by 1").fetchall()
    assert sizes == [(5,), (10,), (10,)], "a transaction each"


def test_stopping_in_the_middle_leaves_what_is_done(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    failed(queue, 25)
    assert next(iter(Change(app.database, Wanted(), RETRY, "ada"))).done == 10
    assert statuses(connection) == {"failed": 15, "pending": 10}
    assert change(app, RETRY).done == 15


@pytest.mark.parametrize("again", ["fail", "cancel"])
def test_a_job_that_is_retried_and_ends_again_meanwhile_is_not_met_twice(
    app: Treadle, queue: JobQueue, connection: Connection[Any], again: str
) -> None:
    failed(queue, 35)
    counted = []
    for counts in Change(app.database, Wanted(), RETRY, "ada"):
        counted.append(counts)
        assert len(counted) < 20, "it goes on and on"
        for job in queue.claim(["a"], 100):
            if again == "fail":
                queue.fail(job, "again", final=True)
            else:
                queue.cancel(job)
    assert counted[-1] == Counts(done=35)
    assert one(connection, "select max(attempts) from jobs") == 2


def test_a_priority_that_moves_jobs_ahead_of_the_walk_is_set_once(app: Treadle, queue: JobQueue) -> None:
    queue.enqueue_many("a", [{}] * 25, priority=150)
    queue.enqueue_many("a", [{}] * 5, priority=30)
    assert change(app, PRIORITY, 30) == Counts(done=25)
    assert change(app, PRIORITY, 20, job_type="a") == Counts(done=30)


def test_what_is_enqueued_meanwhile_is_not_meant(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    """Else whoever enqueues faster would keep it busy for ever."""
    queue.enqueue_many("a", [{}] * 25)
    connection.execute("insert into jobs (job_type, created_at) values ('a', now() + '2 hours')")
    connection.execute("insert into jobs (id, job_type) values (%s, 'a')", [uuid.UUID(int=2**128 - 2)])
    counted = []
    for counts in Change(app.database, Wanted(), CANCEL, "ada"):
        counted.append(counts)
        if len(counted) < 10:
            queue.enqueue_many("a", [{}] * 20)
    assert counted[-1] == Counts(done=27)
    assert set(statuses(connection)) == {"cancelled", "pending"}


def test_a_whole_chain_of_a_key_is_cancelled(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    for _ in range(25):
        queue.enqueue("a", key="k")
    queue.enqueue("a", key="other", priority=200)
    assert change(app, CANCEL) == Counts(done=26)
    assert statuses(connection) == {"cancelled": 26}


def test_what_others_hold_or_took_is_counted(app: Treadle, queue: JobQueue, connect: Connect) -> None:
    made = failed(queue, 4)
    other = connect(autocommit=False)
    other.execute("select from jobs where id = %s for update", [made[0]])
    script = Change(app.database, Wanted(status="failed"), RETRY, "ada")._script()
    answer: Any = None
    for _ in range(2):
        asked = script.send(answer)
        assert not isinstance(asked, Counts)
        answer = app.database.run(asked)
    # Between the look and the change.
    connect().execute("delete from jobs where id = %s", [made[1]])
    queue.retry(made[2])
    asked = script.send(answer)
    assert not isinstance(asked, Counts)
    assert script.send(app.database.run(asked)) == Counts(done=1, unfit=1, busy=1, missing=1)
    other.rollback()


def test_the_async_twin_does_the_same(app: Treadle, queue: JobQueue) -> None:
    failed(queue, 25)

    async def both() -> tuple[Any, list[Counts]]:
        try:
            counted = await acount(app.database, Wanted(), RETRY)
            return counted, [counts async for counts in Change(app.database, Wanted(status="failed"), RETRY, "ada")]
        finally:
            await app.aclose()

    assert asyncio.run(both()) == ((25, True), [Counts(10), Counts(20), Counts(25)])


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    def set_both(look: int, most: int) -> None:
        monkeypatch.setattr(listing_queries, "EXAMINED_LIMIT", look)
        monkeypatch.setattr(bulk, "COUNT_LIMIT", most)

    return set_both


@pytest.mark.parametrize("status", ["failed", "pending", None])
def test_a_count_stops_where_it_would_take_long(
    app: Treadle,
    queue: JobQueue,
    looks: Callable[[int, int], None],
    monkeypatch: pytest.MonkeyPatch,
    status: str | None,
) -> None:
    for name in ("a", "b"):
        if status == "failed":
            failed(queue, 50, name)
        else:
            queue.enqueue_many(name, [{}] * 50)
    looks(10, 40)
    assert count(app.database, Wanted(status=status)) == (40, False)
    looks(10, 1000)
    assert count(app.database, Wanted(status=status)) == (100, True)
    monkeypatch.setattr(listing_queries, "PATIENCE", timedelta(0))
    looks(1000, 1000)
    assert app.database.run(listing_queries.count_matching_jobs(Wanted(status=status))).looked < 100, (
        "nor for long at once"
    )
    assert count(app.database, Wanted(status=status)) == (100, True)
    monkeypatch.setattr(listing_queries, "PATIENCE", None)
    assert count(app.database, Wanted(status=status, search="nothing")) == (0, True)
    assert count(app.database, Wanted(status=status, job_type="b")) == (50, True)
