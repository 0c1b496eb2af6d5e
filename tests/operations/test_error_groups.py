"""Groups of failed attempts: what is one group, that each failure is counted once, and that their number is bounded."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from psycopg import Connection

from tests.conftest import Connect
from tests.support.error_groups import count_now, fail, groups
from tests.support.waiting import until_waiting_for_lock
from tests.support.workers import drain
from treadle import JobQueue, Retries, Treadle
from treadle.operations.error_groups import get_details, get_groups
from treadle.words.status import Status


def test_messages_that_differ_in_an_id_are_one_group_and_two_exceptions_are_two(app: Treadle, queue: JobQueue) -> None:
    fail(queue, ["ValueError: order 17 is gone", "ValueError: order 18 is gone", "TypeError: order 17 is gone"])
    fail(queue, ["ValueError: order 17 is gone"], "b")
    assert count_now(app) == 4
    found = get_groups(app.database)
    assert [(each.job_type, each.title, each.failures) for each in found.groups] == [
        ("b", "ValueError: order <number> is gone", 1),
        ("a", "TypeError: order <number> is gone", 1),
        ("a", "ValueError: order <number> is gone", 2),
    ]
    assert found.groups[2].trend[-2:] in ([0, 2], [1, 1], [2, 0])  # an hour may just have begun
    assert found.groups[2].first_seen < found.groups[2].last_seen


def test_retried_attempts_count_as_well(app: Treadle, queue: JobQueue) -> None:
    queue.enqueue("a", retry=Retries(2))
    for _ in range(3):
        queue.fail(queue.claim(["a"])[0], "ValueError: no", delay=0)
    assert count_now(app) == 3
    assert groups(app)["ValueError: no"].failures == 3


def test_real_workers_count_exceptions_timeouts_and_versions(url: str) -> None:
    app = Treadle(url, version="v7")

    @app.job(retry=Retries(0))
    async def broken(n: int) -> None:
        raise ValueError(f"order {n} is gone")

    @app.job(retry=Retries(0), timeout=0.05)
    async def slow() -> None:
        await asyncio.sleep(10)

    for n in range(5):
        broken.enqueue(n)
    slow.enqueue()
    drain(app)
    found = groups(app)
    assert found["ValueError: order <number> is gone"].failures == 5
    assert found["ValueError: order <number> is gone"].versions == ["v7"]
    assert found["timed out after <number> seconds"].failures == 1
    details = get_details(app.database, found["ValueError: order <number> is gone"].id)
    assert details.example is not None
    assert "raise ValueError" in (details.example.traceback or "")
    assert [(each.version, each.failures) for each in details.versions] == [("v7", 5)]
    assert {each.status for each in details.failed.jobs} == {Status.FAILED}
    assert len(details.failed.jobs) == 5
    app.close()


def test_the_worker_that_was_lost_is_not_part_of_the_message(
    app: Treadle, url: str, connection: Connection[Any]
) -> None:
    for name in ("web-one:17:abc", "web-two:18:def"):
        with JobQueue(url, name) as queue:
            queue.enqueue("a")
            (job,) = queue.claim(["a"])
        reason = f"worker {name} did not renew its lease"
        connection.execute(
            "select settle_jobs(%s, array[%s], array[%s::bigint], '{lost}', array[%s])",
            [name, job.id, job.lease, reason],
        )
        connection.execute("update jobs set status = 'cancelled' where status = 'pending'")
    count_now(app)
    assert groups(app)["worker <worker> did not renew its lease"].failures == 2


def test_a_failure_that_is_committed_late_is_counted_once(app: Treadle, queue: JobQueue, connect: Connect) -> None:
    fail(queue, ["ValueError: early"])
    queue.enqueue("a")
    late = connect(autocommit=False)
    late.execute("select fail_job(id, 'ValueError: late', p_final => true) from jobs where status = 'pending'")
    assert count_now(app) == 1
    late.commit()
    assert count_now(app) == 0  # its time is before what was reached
    late.execute("update error_meter set late_reached = now() - interval '1 minute'")
    late.execute("select * from group_errors('0', 2000, '0', '0')")
    late.execute("update error_meter set late_reached = now() - interval '1 minute'")
    late.execute("select * from group_errors('0', 2000, '0', '0')")
    late.commit()
    assert {title: each.failures for title, each in groups(app).items()} == {
        "ValueError: early": 1,
        "ValueError: late": 1,
    }


def test_two_at_once_count_nothing_twice_and_do_not_wait(app: Treadle, queue: JobQueue, connect: Connect) -> None:
    fail(queue, ["ValueError: no"] * 20)
    one, other = connect(autocommit=False), connect(autocommit=False)
    assert one.execute("select * from group_errors('0', p_pause => '0')").fetchone() == (20, False)
    other.execute("set local lock_timeout = '1s'")
    assert other.execute("select * from group_errors('0', p_pause => '0')").fetchone() == (0, False)
    one.commit()
    other.commit()
    assert count_now(app) == 0
    assert groups(app)["ValueError: no"].failures == 20


def test_two_at_once_count_nothing_twice_without_the_lock(app: Treadle, queue: JobQueue, connect: Connect) -> None:
    """Of two that have found the same failures, one counts them: here without the lock that keeps them apart."""
    fail(queue, ["ValueError: no"] * 5)
    span = "select * from group_errors_between(now() - interval '1 minute', clock_timestamp(), 100)"
    one, other = connect(autocommit=False), connect()
    assert one.execute(span).fetchone()[0] == 5  # type: ignore[index]
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(lambda: other.execute(span).fetchone())
        until_waiting_for_lock(connect())
        one.commit()
        assert waiting.result()[0] == 0  # type: ignore[index]
    assert groups(app)["ValueError: no"].failures == 5


def test_concurrent_counts_are_exact(app: Treadle, url: str, queue: JobQueue, connect: Connect) -> None:
    """Threads count while others fail jobs; the sum is what failed."""
    queue.enqueue_many("a", [{}] * 200)
    stop = threading.Event()

    def failing(nth: int) -> None:
        with JobQueue(url, f"w{nth}") as own:
            while claimed := own.claim(["a"], batch_size=5):
                for job in claimed:
                    own.fail(job, f"ValueError: {job.id}", final=True)

    def counting() -> None:
        connection = connect()
        while not stop.is_set():
            connection.execute("select * from group_errors('5 milliseconds', 7, '20 milliseconds', '0')")

    failers = [threading.Thread(target=failing, args=[nth]) for nth in range(2)]
    counters = [threading.Thread(target=counting) for _ in range(2)]
    for each in failers + counters:
        each.start()
    for each in failers:
        each.join()
    stop.set()
    for each in counters:
        each.join()
    connection = connect()
    connection.execute("update error_meter set late_reached = now() - interval '1 hour'")
    while connection.execute("select * from group_errors('0', 7, '0', '0')").fetchone() != (0, False):
        pass
    assert {title: each.failures for title, each in groups(app).items()} == {"ValueError: <id>": 200}
    assert connection.execute("select sum(failures), count(*) from error_group_hours").fetchone() == (200, 1)


def test_a_flood_of_distinct_messages_stays_bounded(app: Treadle, connection: Connection[Any]) -> None:
    connection.execute("insert into jobs (job_type, status) select 'a', 'pending' from generate_series(1, 10000)")
    connection.execute(
        """insert into errors (job_id, attempt, error, failed_at)
        select id, 1, 'ValueError: ' || translate(row_number() over ()::text, '0123456789', 'abcdefghij'),
            clock_timestamp() from jobs"""
    )
    assert count_now(app) == 10_000
    found = get_groups(app.database, limit=500).groups
    assert len(found) == 51
    other = next(each for each in found if each.message == "(other messages)")
    assert (other.exception, other.failures) == ("ValueError", 9_950)


def test_a_flood_of_distinct_exceptions_stays_bounded(app: Treadle, connection: Connection[Any]) -> None:
    connection.execute("insert into jobs (job_type, status) select 'a', 'pending' from generate_series(1, 3000)")
    connection.execute(
        """insert into errors (job_id, attempt, error)
        select id, 1, 'E' || translate(row_number() over ()::text, '0123456789', 'abcdefghij') || 'Error: no'
        from jobs"""
    )
    assert count_now(app) == 3000
    found = get_groups(app.database, limit=500).groups
    assert len(found) == 401
    assert sum(each.failures for each in found) == 3000
    assert next(each for each in found if not each.exception).failures == 3000 - 400


def test_known_messages_are_found_during_a_flood(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    fail(queue, ["TypeError: known"])
    count_now(app)
    fail(queue, [f"ValueError: {chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(60)])
    fail(queue, ["TypeError: known", "TypeError: new"])
    count_now(app)
    found = groups(app)
    assert found["TypeError: known"].failures == 2
    assert found["TypeError: new"].failures == 1
    assert found["ValueError: (other messages)"].failures == 10


def test_a_deleted_job_takes_its_failures_along_and_the_group_stays(
    app: Treadle, queue: JobQueue, connection: Connection[Any]
) -> None:
    fail(queue, ["ValueError: no"] * 2)
    count_now(app)
    connection.execute("delete from jobs where id = (select min(id::text)::uuid from jobs)")
    assert connection.execute("select count(*) from grouped_errors").fetchone() == (1,)
    assert groups(app)["ValueError: no"].failures == 2


def test_a_clock_that_was_set_back_counts_nothing_twice(
    app: Treadle, queue: JobQueue, connection: Connection[Any]
) -> None:
    fail(queue, ["ValueError: no"])
    count_now(app)
    connection.execute("update error_meter set reached = now() + interval '1 hour', late_reached = now()")
    fail(queue, ["ValueError: no"])
    assert count_now(app) == 0  # it starts again from here
    fail(queue, ["ValueError: no"])
    connection.execute("update error_meter set late_reached = now() - interval '1 minute'")
    connection.execute("select * from group_errors('0', 2000, '0', '0')")
    assert groups(app)["ValueError: no"].failures == 3


def test_versions_are_counted_and_bounded(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    for nth in range(25):
        connection.execute("insert into worker_versions (worker_id, version) values ('worker-1', %s)", [f"v{nth:02}"])
        fail(queue, ["ValueError: no"] * 2)
    count_now(app)
    group = groups(app)["ValueError: no"]
    assert group.versions == ["v24", "v23", "v22", "v21", "v20"]
    versions = get_details(app.database, group.id).versions
    assert [(each.version, each.failures) for each in versions] == [(f"v{nth:02}", 2) for nth in range(24, 4, -1)]


def test_the_example_is_replaced_at_most_every_ten_minutes(
    app: Treadle, queue: JobQueue, connection: Connection[Any]
) -> None:
    fail(queue, ["ValueError: 1"])
    count_now(app)
    fail(queue, ["ValueError: 2"])
    count_now(app)
    group = groups(app)["ValueError: <number>"]
    example = get_details(app.database, group.id).example
    assert example is not None
    assert example.error == "ValueError: 1"
    connection.execute("update error_groups set example_at = now() - interval '11 minutes'")
    fail(queue, ["ValueError: 3"])
    count_now(app)
    example = get_details(app.database, group.id).example
    assert example is not None
    assert example.error == "ValueError: 3"


def test_the_first_count_is_of_the_failures_of_the_last_day(
    app: Treadle, queue: JobQueue, connection: Connection[Any]
) -> None:
    fail(queue, ["ValueError: old", "ValueError: new"])
    connection.execute(
        """update errors set failed_at
            = failed_at - case when error like '%old' then interval '25 hours' else '23 hours' end"""
    )
    connection.execute("delete from error_meter")
    assert count_now(app) == 1
    assert list(groups(app)) == ["ValueError: new"]


def test_the_list_is_filtered_and_ordered(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    fail(queue, ["ValueError: often"] * 3)
    fail(queue, ["TypeError: late"])
    fail(queue, ["KeyError: other"], "b")
    count_now(app)
    connection.execute("update error_groups set queues = '{slow}' where exception = 'KeyError'")
    assert next(iter(groups(app, order="failures"))) == "ValueError: often"
    assert list(groups(app, order="first_seen")) == ["KeyError: other", "TypeError: late", "ValueError: often"]
    assert list(groups(app, job_type="b")) == ["KeyError: other"]
    assert list(groups(app, queue="slow")) == ["KeyError: other"]
    connection.execute("select mute_errors(id) from error_groups where exception = 'KeyError'")
    assert list(groups(app, muted=True)) == ["KeyError: other"]
    found = get_groups(app.database, limit=1)
    assert (len(found.groups), found.more, found.muted) == (1, True, 1)
