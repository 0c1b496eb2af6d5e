"""The overview: lanes, workers, charts and throughput. For the numbers of jobs, see test_depths.py."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from psycopg import Connection

from tests.queue.test_limits import enqueue, limit
from tests.support.workers import one
from treadle import JobQueue, Priority, Status, Treadle
from treadle.db.queries.overview import get_throughput
from treadle.operations.overview import STEPS, aoverview, overview
from treadle.words.overview import Total


def test_a_small_queue_is_counted_exactly(app: Treadle, queue: JobQueue) -> None:
    queue.enqueue_many("mail", [{}] * 5)
    queue.enqueue("mail", delay="1h", priority=Priority.EXPLICIT)
    queue.enqueue("other", queue="slow")
    queue.start(queue.claim(["other"])[0])
    queue.fail(queue.claim(["mail"], batch_size=1)[0], "no", final=True)
    seen = overview(app.database)
    assert [(lane.job_type, lane.priority, lane.depth, lane.exact) for lane in seen.lanes] == [
        ("mail", 100, 4, True),
        ("mail", 150, 1, True),
        ("other", 100, 0, True),
    ]
    due, later, _ = seen.lanes
    assert due.due_since is not None
    assert due.due_since <= seen.at
    assert due.due_next is None
    assert later.due_since is None
    assert later.due_next is not None
    assert later.due_next > seen.at + timedelta(minutes=59)
    expected = dict.fromkeys(Status, Total(0, exact=True)) | {
        Status.PENDING: Total(5, exact=True),
        Status.RUNNING: Total(1, exact=True),
        Status.FAILED: Total(1, exact=True),
    }
    assert seen.totals == expected


def test_sync_and_async_overviews_are_the_same(app: Treadle, queue: JobQueue) -> None:
    queue.enqueue("a")

    async def aget() -> Any:
        try:
            return await aoverview(app.database)
        finally:
            await app.aclose()

    assert overview(app.database).lanes == asyncio.run(aget()).lanes


def test_the_overview_shows_served_and_paused_lanes(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    connection.execute("select register_worker('w', '1 minute', '{a,b}', '{default}', 5, 'here', 7, '0.1')")
    connection.execute("select register_worker('gone', '1 minute', '{c}')")
    connection.execute("update workers set seen_at = seen_at - interval '2 minutes' where worker_id = 'gone'")
    for job_type, where in (("a", "default"), ("a", "slow"), ("b", "default"), ("c", "default")):
        queue.enqueue(job_type, queue=where)
    queue.pause("b")
    queue.claim(["a"], batch_size=1)
    connection.execute("update jobs set worker_id = 'w' where status = 'claimed'")
    seen = overview(app.database)
    served = {(lane.job_type, lane.queue): (lane.served, lane.paused) for lane in seen.lanes}
    assert served == {
        ("a", "default"): (True, False),
        ("a", "slow"): (False, False),
        ("b", "default"): (True, True),
        ("c", "default"): (False, False),
    }
    gone, worker = seen.workers
    assert (worker.worker_id, worker.alive, worker.holds, worker.concurrency) == ("w", True, 1, 5)
    assert (worker.host, worker.pid, worker.version) == ("here", 7, "0.1")
    assert (gone.worker_id, gone.alive) == ("gone", False)
    assert [pause.job_type for pause in seen.pauses] == ["b"]


@pytest.mark.parametrize("window", STEPS)
def test_a_chart_has_all_of_its_intervals(app: Treadle, connection: Connection[Any], window: int) -> None:
    connection.execute("""
        insert into minutes (minute, queue, job_type, completed, failed, errors, waited, waited_most, ran, ran_most)
        select date_trunc('minute', clock_timestamp()) - interval '30 minutes', name, 'a', 3, 1, 2, 6, 4, 30, 20
        from unnest(array['x', 'y']) as name""")
    seen = overview(app.database, window)
    step = timedelta(seconds=seen.step)
    assert [later.at - span.at for span, later in zip(seen.spans, seen.spans[1:], strict=False)] == [step] * (
        len(seen.spans) - 1
    )
    assert seen.spans[-1].at <= seen.at < seen.spans[-1].at + step
    assert seen.spans[0].at <= seen.at - timedelta(seconds=window)
    (busy,) = [span for span in seen.spans if span.completed]
    assert busy[1:9] == (6, 2, 0, 4, 2.0, 4.0, 10.0, 20.0)


def test_a_chart_of_an_hour_reads_only_that_hour(app: Treadle, connection: Connection[Any]) -> None:
    connection.execute("""
        insert into minutes (minute, queue, job_type)
        select date_trunc('minute', clock_timestamp()) - n * interval '1 minute', 'default', 'a'
        from generate_series(0, 10000) as n""")
    connection.execute("vacuum analyze minutes")
    query = get_throughput(3600, 60)
    rows = connection.execute(b"explain " + query.bound("treadle"), query.params).fetchall()
    plan = "\n".join(line for (line,) in rows)
    assert "minutes_pkey" in plan
    assert "Seq Scan on minutes" not in plan


def test_the_rate_is_that_of_the_last_counted_interval(app: Treadle, connection: Connection[Any]) -> None:
    minute = one(connection, "select date_trunc('minute', clock_timestamp())")
    connection.execute(
        """insert into minutes (minute, queue, job_type, completed)
        select %s - n * interval '1 minute', '', '', 600 * n from generate_series(1, 3) as n""",
        [minute],
    )
    # Half of the minute before the last was counted, and nothing after it.
    connection.execute("update meter set reached = %s", [minute - timedelta(seconds=90)])
    assert overview(app.database).rate == pytest.approx(2 * 600 / 30)
    # Too little of that minute was counted, so the minute before it is used.
    connection.execute("update meter set reached = %s", [minute - timedelta(seconds=119)])
    assert overview(app.database).rate == pytest.approx(3 * 600 / 60)


def test_of_too_many_lanes_the_most_recently_used_are_shown(connection: Connection[Any]) -> None:
    connection.execute("""
        insert into lanes (queue, job_type, priority, changed_at)
        select 'default', 'a' || n, 100, clock_timestamp() - n * interval '1 hour'
        from generate_series(1, 1100) as n""")
    # These were opened long ago but claimed from just now.
    connection.execute(
        """insert into floors (queue, job_type, priority, floor, xid)
        select queue, job_type, priority, clock_timestamp(), pg_current_xact_id()
        from lanes where job_type in ('a1050', 'a1100')"""
    )
    shown = {row[0] for row in connection.execute("select job_type from find_lanes()")}
    assert shown == {f"a{n}" for n in (*range(1, 999), 1050, 1100)}


def test_the_lanes_of_different_partitions_are_added_up(app: Treadle, connection: Connection[Any]) -> None:
    limit(connection, 1, per="tenant")
    for nth, tenant in enumerate(("acme", "globex", "zed")):
        enqueue(connection, nth + 1, tenant)
    oldest = connection.execute("select min(run_at) from jobs").fetchone()
    (lane,) = overview(app.database).lanes
    assert (lane.job_type, lane.depth, lane.exact, (lane.due_since,)) == ("sync", 6, True, oldest)
