"""How many jobs there are: exact up to a limit, beyond it counted by workers, the same wherever it is shown, and at a
bounded cost."""

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.buffers import buffers
from tests.support.workers import one, until
from treadle import JobQueue, Status, Treadle
from treadle.db.queries.operations import count_depths
from treadle.db.queries.overview import get_depths
from treadle.db.queries.snapshots import find_failed_jobs
from treadle.db.query import Query
from treadle.operations.metrics import metrics
from treadle.operations.overview import STEPS, overview
from treadle.words.overview import Backlog, Total

pytestmark = pytest.mark.fresh_database


def add(connection: Connection[Any], job_type: str, jobs: int, batch: int = 1000, **values: str) -> None:
    """Waiting jobs, each batch with another time, as enqueue_jobs() adds them but faster."""
    columns = {"run_at": f"now() - interval '1 hour' + n / {batch} * interval '1 ms'", **values}
    connection.execute("set session_replication_role = replica")
    connection.execute(
        f"""insert into jobs (id, job_type, {", ".join(columns)})
        select new_id(), '{job_type}', {", ".join(columns.values())} from generate_series(1, {jobs}) as n"""
    )
    connection.execute("set session_replication_role = origin")
    connection.execute("insert into lanes (queue, job_type, priority) values ('default', %s, 100)", [job_type])


def add_finished(connection: Connection[Any], jobs: int, status: str = "completed") -> None:
    moment = "clock_timestamp() - interval '1 hour' + n * interval '1 ms'"
    add(connection, "done", jobs, status=f"'{status}'", finished_at=moment)


def count(connection: Connection[Any], times: int = 1) -> None:
    """What workers do every few seconds, without the wait in between."""
    for _ in range(times):
        connection.execute("select setval('depth_clock', 0)")
        connection.execute("select count_depths(p_time => '1 minute')")


def lane(app: Treadle, job_type: str) -> Backlog:
    return next(each for each in overview(app.database).lanes if each.job_type == job_type)


def test_a_lane_of_7000_among_60_others_is_exact_every_time(app: Treadle, connection: Connection[Any]) -> None:
    for nth in range(60):
        add(connection, f"t{nth}", 20)
    add(connection, "many", 7000)
    add_finished(connection, 25_000)
    seen = [overview(app.database) for _ in range(10)]
    depths = [{each.job_type: (each.depth, each.exact) for each in looked.lanes} for looked in seen]
    assert [each["many"] for each in depths] == [(7000, True)] * 10
    assert {looked.totals[Status.PENDING] for looked in seen} == {Total(7000 + 60 * 20, exact=True)}


def test_the_budget_goes_to_the_lanes_that_need_it(connection: Connection[Any]) -> None:
    for nth in range(20):
        add(connection, f"t{nth}", 10)
    add(connection, "some", 900)
    add(connection, "many", 5000)
    found = {
        row[0]: row[1:]
        for row in connection.execute("select job_type, depth, depth < counted_to from find_lanes(3000)").fetchall()
    }
    assert found["some"] == (900, True)
    assert found["t7"] == (10, True)
    assert 1500 <= found["many"][0] < 2800
    assert not found["many"][1]


def test_without_a_worker_there_are_at_least_so_many(app: Treadle, connection: Connection[Any]) -> None:
    add(connection, "many", 60_000)
    add_finished(connection, 30_000)
    seen = overview(app.database)
    assert lane(app, "many") == lane(app, "many")
    assert (seen.lanes[0].depth, seen.lanes[0].exact, seen.lanes[0].counted_at) == (50_000, False, None)
    assert seen.totals[Status.PENDING] == Total(50_000, exact=False)
    assert seen.totals[Status.COMPLETED] == Total(20_000, exact=False)


def test_workers_count_the_rest(app: Treadle, connection: Connection[Any]) -> None:
    add(connection, "many", 35_000)
    add(connection, "few", 3)
    add_finished(connection, 45_000)
    add(connection, "bad", 2, status="'failed'", finished_at="clock_timestamp()")
    count(connection)
    looks = [overview(app.database) for _ in range(3)]
    assert {(looked.lanes[0].depth, looked.lanes[0].exact) for looked in looks} == {(35_000, False)}
    assert looks[0].lanes[0].counted_at is not None
    assert (looks[0].at - looks[0].lanes[0].counted_at) < timedelta(minutes=1)
    totals = looks[0].totals
    assert totals[Status.PENDING][:2] == (35_003, False)
    assert totals[Status.PENDING].counted_at == looks[0].lanes[0].counted_at
    assert totals[Status.COMPLETED][:2] == (45_000, False)
    assert totals[Status.FAILED] == Total(2, exact=True)


def test_an_estimate_follows_what_is_claimed_enqueued_and_pruned(
    app: Treadle, queue: JobQueue, connection: Connection[Any]
) -> None:
    add(connection, "many", 32_000)
    add_finished(connection, 37_000)
    count(connection)
    queue.claim(["many"], batch_size=3000)
    queue.enqueue_many("many", [{}] * 1500)
    connection.execute("select prune_jobs('completed', '0', 12345)")
    count(connection)
    seen = overview(app.database)
    assert seen.lanes[0].depth == 30_500
    assert seen.totals[Status.COMPLETED].jobs == 37_000 - 12_345
    assert seen.totals[Status.CLAIMED] == Total(3000, exact=True)


def test_a_change_in_the_middle_is_noticed_after_some_calls(app: Treadle, connection: Connection[Any]) -> None:
    add(connection, "many", 45_000)
    count(connection)
    connection.execute("delete from jobs where id in (select id from jobs order by run_at offset 22000 limit 300)")
    connection.execute("update depths set counted_at = counted_at - interval '11 seconds'")
    count(connection, times=5)
    assert lane(app, "many").depth == 44_700


def test_jobs_with_the_same_time_are_counted_together(app: Treadle, connection: Connection[Any]) -> None:
    add(connection, "many", 31_000, batch=25_000)
    count(connection)
    assert lane(app, "many").depth == 31_000
    assert one(connection, "select count(*) from depths where jobs > 20000") == 1


def test_jobs_that_are_due_later_are_counted_too(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    add(connection, "many", 25_000, run_at="clock_timestamp() + n * interval '1 minute'")
    count(connection)
    queue.enqueue_many("many", [{}] * 12_000)
    count(connection)
    assert lane(app, "many").depth == 37_000


def test_counting_continues_where_the_last_call_ended(app: Treadle, connection: Connection[Any]) -> None:
    add(connection, "many", 60_000)
    seen = []
    for _ in range(8):
        connection.execute("select setval('depth_clock', 0)")
        connection.execute("select count_depths(10000, '1 minute')")
        seen.append(overview(app.database).totals[Status.PENDING])
    assert [(each.jobs, each.counted_at) for each in seen[:4]] == [(50_000, None)] * 4, "at least: not all were counted"
    assert seen[7].jobs == 60_000
    assert seen[7].counted_at is not None


def test_a_lane_that_is_no_longer_deep_is_counted_again_by_who_looks(
    app: Treadle, queue: JobQueue, connection: Connection[Any]
) -> None:
    add(connection, "many", 26_000)
    count(connection)
    assert not lane(app, "many").exact
    queue.claim(["many"], batch_size=6000)
    assert lane(app, "many").depth == 26_000, "an estimate, until a worker counts again"
    count(connection)
    assert lane(app, "many")[3:5] == (20_000, True), "the estimate of a lane that is hardly deep is soon wrong"
    queue.claim(["many"], batch_size=5000)
    count(connection)
    assert lane(app, "many")[3:5] == (15_000, True)
    assert one(connection, "select count(*) from depths") == 0


def test_an_old_count_is_used_only_if_there_is_no_better_one(app: Treadle, connection: Connection[Any]) -> None:
    """Nobody works for a minute: a lane that can be counted is counted, the number of another shows its age."""
    add(connection, "some", 24_000)
    add(connection, "many", 60_000)
    count(connection)
    connection.execute("update depths set counted_at = counted_at - interval '31 seconds'")
    connection.execute("delete from jobs where id in (select id from jobs where job_type = 'some' limit 1000)")
    seen = overview(app.database)
    many, some = seen.lanes
    assert (some.depth, some.exact) == (23_000, True)
    assert (many.depth, many.exact) == (60_000, False)
    assert many.counted_at is not None
    assert seen.at - many.counted_at > timedelta(seconds=30)


def test_counting_waits_for_ten_times_as_long_as_it_took(connection: Connection[Any]) -> None:
    add(connection, "many", 30_000)
    wait = one(connection, "select count_depths()")
    assert 1 <= wait <= 12
    assert one(connection, "select count_depths()") < wait, "it was not due"
    connection.execute("select setval('depth_clock', 0)")
    assert one(connection, "select count_depths(p_time => '1 minute')") >= 2
    connection.execute("delete from jobs")
    connection.execute("select setval('depth_clock', 0)")
    assert one(connection, "select count_depths()") >= 5, "there is nothing to count"


def test_only_one_worker_counts_at_a_time(connect: Connect) -> None:
    connection, other = connect(), connect()
    add(connection, "many", 30_000)
    with connection.transaction():
        connection.execute("select count_depths()")
        other.execute("select setval('depth_clock', 0)")
        other.execute("select count_depths()")
        assert one(other, "select count(*) from depths") == 0


def test_page_metrics_and_command_line_show_the_same_numbers(app: Treadle, connection: Connection[Any]) -> None:
    add(connection, "many", 35_000)
    add(connection, "some", 7000)
    add_finished(connection, 30_000)
    count(connection)
    seen = overview(app.database)
    found = {each.name: each.samples for each in metrics(app.database)}
    waiting = {each.labels["job_type"]: each.value for each in found["treadle_jobs_waiting"] if each.value}
    assert waiting == {each.job_type: each.depth for each in seen.lanes if each.depth} == {"many": 35_000, "some": 7000}
    estimated = {each.labels["job_type"]: each.value for each in found["treadle_jobs_waiting_is_estimated"]}
    assert estimated == {each.job_type: int(not each.exact) for each in seen.lanes}
    assert {each.labels["status"]: each.value for each in found["treadle_jobs"]} == {
        status.value: total.jobs for status, total in seen.totals.items()
    }


def test_the_cost_is_bounded(connection: Connection[Any]) -> None:
    """In buffers: with four times as many jobs, it is about the same."""
    reads = ("select * from find_depths()", "select * from count_statuses()")

    def costs() -> list[int]:
        connection.execute("vacuum analyze jobs, depths, lanes")
        count(connection, times=2)
        call = "select count_depths() from setval('depth_clock', 0)"
        return [buffers(connection, each) for each in (*reads, call)]

    add(connection, "a", 30_000)
    add_finished(connection, 30_000)
    before = costs()
    add(connection, "a", 90_000)
    add_finished(connection, 90_000)
    after = costs()
    assert after[0] < before[0] + 100
    assert after[1] < before[1] + 200, "as many segments as there are tens of thousands of jobs"
    assert after[2] < 2 * before[2] + 500


def test_recent_failures_are_found_without_the_older_ones(connection: Connection[Any]) -> None:
    add_finished(connection, 10_000, "failed")
    connection.execute("update jobs set finished_at = finished_at - interval '1 day' where finished_at < now()")
    connection.execute("vacuum analyze jobs")
    query = find_failed_jobs(3600, 500)
    assert buffers(connection, query.bound("treadle"), query.params) < 20


def test_an_open_snapshot_does_not_make_counting_slower(connect: Connect, queue: JobQueue) -> None:
    """It keeps the index entries of claimed jobs: counting begins at the floor of the lane."""
    connection, old = connect(), connect()
    queue.enqueue_many("a", [{}] * 21_000)
    count(connection)
    reads = ("select * from find_depths()", "select count_depths() from setval('depth_clock', 0)")
    connection.execute("select tick('0')")
    before = [buffers(connection, each) for each in reads]
    old.execute("begin isolation level repeatable read")
    old.execute("select 1 from jobs limit 1")
    for _ in range(4):  # less than a segment
        queue.enqueue_many("a", [{}] * 2000)
        queue.claim(["a"], batch_size=2000)
        connection.execute("delete from jobs where status = 'claimed'")

    def costs_as_before() -> bool:
        connection.execute("select tick('0')")
        count(connection, times=2)
        return all(buffers(connection, each) < cost + 120 for each, cost in zip(reads, before, strict=True))

    # A floor also waits for the open transactions of other tests, in other databases of the server.
    until(costs_as_before)
    old.execute("rollback")


def test_the_depth_of_each_minute_is_kept(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    queue.enqueue_many("a", [{}] * 3)
    queue.enqueue_many("b", [{}] * 4, queue="slow")
    queue.enqueue("b", priority=150)
    count(connection, times=2)
    rows = connection.execute("select queue, job_type, jobs from depth_history order by 1, 2").fetchall()
    assert rows == [("", "", 8), ("default", "a", 3), ("default", "b", 1), ("slow", "b", 4)]
    connection.execute("update depth_history set minute = minute - interval '7 minutes', jobs = jobs * 2")
    count(connection)
    found = app.database.read(get_depths(900, 60))
    assert [each.jobs for each in found if each.jobs is not None] == [16, 8]
    assert found[0].jobs is None
    assert [each.jobs for each in app.database.read(get_depths(900, 60, "b")) if each.jobs is not None] == [10, 5]
    assert max(each.jobs or 0 for each in app.database.read(get_depths(86_400, 900, "b", "slow"))) == 8
    assert {each.jobs for each in app.database.read(get_depths(3600, 60, "never"))} == {0, None}
    connection.execute("update depth_history set minute = minute - interval '8 days'")
    count(connection)
    assert one(connection, "select count(distinct minute) from depth_history") == 1


def test_throughput_does_not_depend_on_the_window_of_the_charts(app: Treadle, connection: Connection[Any]) -> None:
    connection.execute(
        """insert into minutes (minute, queue, job_type, completed)
        select date_trunc('minute', clock_timestamp()) - n * interval '1 minute', '', '', 600 / n
        from generate_series(1, 30) as n"""
    )
    connection.execute("update meter set reached = date_trunc('minute', clock_timestamp()) - interval '1 second'")
    rates = {overview(app.database, window).rate for window in STEPS}
    assert len(rates) == 1
    assert rates.pop() == pytest.approx(600 / 59)


@pytest.mark.parametrize("method", ["read_together", "aread_together"])
def test_what_is_read_together_is_of_one_moment(app: Treadle, connect: Connect, method: str) -> None:
    """Otherwise one job runs by the totals, and none in the list below them."""
    other = connect()
    other.execute("select pg_advisory_lock(77)")
    number: Query[Any] = Query("select pg_catalog.count(*) from treadle.jobs", {}, lambda rows: rows[0][0])
    wait: Query[Any] = Query("select pg_catalog.pg_advisory_xact_lock_shared(77)", {}, lambda rows: None)
    found: list[Any] = []

    def read() -> None:
        if method == "read_together":
            found.extend(app.database.read_together([number, wait, number]))
            return

        async def aread() -> None:
            found.extend(await app.database.aread_together([number, wait, number]))
            await app.aclose()

        asyncio.run(aread())

    reader = threading.Thread(target=read)
    reader.start()
    waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
    while one(other, waiting) == 0:
        pass
    other.execute("select enqueue('a')")
    other.execute("select pg_advisory_unlock(77)")
    reader.join()
    assert found == [0, None, 0]


def test_the_running_jobs_are_read_with_the_totals(app: Treadle, queue: JobQueue) -> None:
    queue.enqueue_many("a", [{}] * 3)
    claimed = queue.claim(["a"])
    queue.start(claimed[1])
    queue.start(claimed[0])
    seen = overview(app.database, running=10)
    assert [each.id for each in seen.running] == [claimed[1].id, claimed[0].id]
    assert seen.totals[Status.RUNNING].jobs == 2
    assert seen.totals[Status.CLAIMED].jobs == 1
    assert len(overview(app.database, running=1).running) == 1
    assert overview(app.database).running == []


def test_blocked_jobs_are_pending(app: Treadle, queue: JobQueue) -> None:
    queue.enqueue("a", key="k")
    queue.enqueue("a", key="k")
    seen = overview(app.database)
    assert lane(app, "a").depth == 1
    assert seen.totals[Status.PENDING] == Total(2, exact=True)


def test_the_query_of_workers_counts(app: Treadle, connection: Connection[Any]) -> None:
    add(connection, "many", 21_000)
    assert app.database.run(count_depths()) > 0
    assert one(connection, "select count(*) from depths") > 0
