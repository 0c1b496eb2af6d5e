"""What finished, summed over minutes and longer spans."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import Connection

from tests.support.buffers import buffers
from treadle import JobQueue, Treadle
from treadle.db.queries.throughput import find_finished_places, find_slowest_jobs, get_throughput
from treadle.db.query import Query
from treadle.operations.overview import STEPS

WINDOWS = list(STEPS.items())


def add_minutes(connection: Connection[Any], minutes: int, types: int = 3, queues: int = 2) -> None:
    """Different numbers in each minute, up to the one before the current."""
    connection.execute(
        """insert into minutes (
            minute, queue, job_type, completed, failed, cancelled, errors, waited, waited_most, ran, ran_most,
            waited_counts, ran_counts, slowest_id
        )
        select
            date_trunc('minute', now()) - n * interval '1 minute', 'queue' || q, 'type' || t, n %% 7 + t, n %% 3, 1,
            n %% 5, n %% 11, n %% 13, n %% 17, n %% 19,
            array_fill((n %% 2)::bigint, array[22]), array_fill((t + q)::bigint, array[22]), gen_random_uuid()
        from generate_series(1, %s) n, generate_series(1, %s) t, generate_series(1, %s) q""",
        [minutes, types, queues],
    )
    connection.execute("update meter set reached = date_trunc('minute', now()), summed_to = null")


def _minute(connection: Connection[Any]) -> Any:
    return connection.execute("select date_trunc('minute', clock_timestamp())").fetchone()


def sum_up(connection: Connection[Any]) -> int:
    """Sums all minutes, as workers do with each count; returns how many calls that took."""
    calls = 0
    while True:
        before = connection.execute("select summed_to from meter").fetchone()
        connection.execute("select sum_minutes(reached) from meter")
        if connection.execute("select summed_to from meter").fetchone() == before:
            return calls
        calls += 1


def read_all(app: Treadle, window: int, step: int) -> list[Any]:
    queries: list[Query[Any]] = [
        *(get_throughput(window, step, *of) for of in ((), ("type2",), (None, "queue1"), ("type1", "queue2"))),
        find_finished_places(window, step),
        find_finished_places(window, step, "type3"),
    ]
    charts = [app.database.read(each) for each in queries]
    return [sorted(each) if isinstance(each, list) else each.spans for each in charts]


@pytest.mark.parametrize(
    ("window", "step"), [WINDOWS[0], *(pytest.param(*each, marks=pytest.mark.long) for each in WINDOWS[1:])]
)
def test_sums_of_spans_are_those_of_their_minutes(
    app: Treadle, connection: Connection[Any], window: int, step: int
) -> None:
    begun = _minute(connection)
    add_minutes(connection, 1_000)
    exact = read_all(app, window, step)
    sum_up(connection)
    summed = read_all(app, window, step)
    # What was read is there only once: spans, or the minutes of them.
    connection.execute("delete from minutes where minute < (select summed_to from meter) and %s > 60", [step])
    without_minutes = read_all(app, window, step)
    if _minute(connection) == begun:  # otherwise the window has moved
        assert exact == summed == without_minutes


@pytest.mark.long
def test_sums_are_right_while_a_week_of_minutes_is_being_summed(app: Treadle, connection: Connection[Any]) -> None:
    add_minutes(connection, 700, types=2, queues=1)
    exact = [read_all(app, *each) for each in WINDOWS]
    for _ in range(5):
        connection.execute("select sum_minutes(reached) from meter")
        assert [read_all(app, *each) for each in WINDOWS] == exact


def test_a_call_sums_at_most_an_hour(connection: Connection[Any]) -> None:
    add_minutes(connection, 600, types=1, queues=1)
    assert 10 <= sum_up(connection) <= 13
    kept = connection.execute("select step, count(*) from spans group by step order by step").fetchall()
    assert dict(kept)[300] <= 7 * 12 + 1


def test_nothing_is_counted_twice_after_the_clock_was_set_back(app: Treadle, connection: Connection[Any]) -> None:
    add_minutes(connection, 200)
    sum_up(connection)
    exact = [read_all(app, *each) for each in WINDOWS]
    connection.execute("update meter set summed_to = reached + interval '1 hour'")
    sum_up(connection)
    assert [read_all(app, *each) for each in WINDOWS] == exact


def test_old_spans_are_deleted(connection: Connection[Any]) -> None:
    add_minutes(connection, 700, types=1, queues=1)
    sum_up(connection)
    connection.execute(
        """update meter set reached = reached + interval '10 days',
            summed_to = reached + interval '10 days' - interval '2 hours'"""
    )
    connection.execute("select sum_minutes(reached) from meter")
    connection.execute("select sum_minutes(reached) from meter")
    assert connection.execute("select count(*) from spans").fetchone() == (0,)


def test_jobs_are_counted_with_the_slowest_of_them(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    ids = queue.enqueue_many("films", [{}] * 20)
    now = datetime.now(UTC)
    for nth, each in enumerate(ids):
        connection.execute(
            """update jobs set status = 'completed', claimed_at = run_at,
                started_at = %(end)s - %(ran)s * interval '1 s', finished_at = %(end)s where id = %(id)s""",
            {"end": now - timedelta(seconds=10 + nth), "ran": (nth * 7) % 20, "id": each},
        )
    connection.execute("update meter set reached = now() - interval '1 hour'")
    connection.execute("select count_minutes('0')")
    found = app.database.read(find_slowest_jobs(3600, 60, 5, "films"))
    assert found[0].ran == pytest.approx(19.0)
    assert found[0].id == max(ids, key=lambda each: (ids.index(each) * 7) % 20)
    assert found[0].exists
    connection.execute("delete from jobs")
    assert not app.database.read(find_slowest_jobs(3600, 60, 5, "films"))[0].exists
    (place,) = app.database.read(find_finished_places(3600, 60))
    assert (place.job_type, place.queue, place.finished.completed) == ("films", "default", 20)
    times = place.finished.ran.times(20)
    assert 5.0 <= (times.p50 or 0) <= 10.0
    assert 10.0 <= (times.p99 or 0) <= 20.0
    assert times.most == pytest.approx(19.0)


def test_later_counts_of_a_minute_keep_the_slowest(queue: JobQueue, connection: Connection[Any]) -> None:
    one, two, three = queue.enqueue_many("films", [{}] * 3)
    connection.execute("update meter set reached = now() - interval '1 hour'")
    for each, ran in ((one, 5), (two, 9), (three, 7)):
        connection.execute(
            """update jobs set status = 'completed', claimed_at = run_at,
                started_at = date_trunc('minute', now()) - %s * interval '1 s',
                finished_at = date_trunc('minute', now()) where id = %s""",
            [ran, each],
        )
        connection.execute("update meter set reached = date_trunc('minute', now())")
        connection.execute("select count_minutes('0')")
        connection.execute("delete from jobs where id = %s", [each])
    assert connection.execute("select slowest_id, ran_most from minutes").fetchone() == (two, 9.0)


@pytest.mark.fresh_database
@pytest.mark.long
def test_the_cost_of_a_week_of_one_type_does_not_depend_on_others(connection: Connection[Any]) -> None:
    def cost(query: Query[Any]) -> int:
        return buffers(connection, query.bound("treadle"), query.params)

    add_minutes(connection, 600, types=2, queues=2)
    sum_up(connection)
    connection.execute("analyze spans, minutes")
    queries = [
        each(604_800, 7200, *of) for each, of in ((get_throughput, ("type1",)), (find_slowest_jobs, (5, "type1")))
    ]
    before = [cost(each) for each in queries]
    connection.execute("delete from minutes; delete from spans")
    add_minutes(connection, 600, types=20, queues=2)
    sum_up(connection)
    connection.execute("vacuum analyze spans, minutes")
    after = [cost(each) for each in queries]
    # The minutes that no span has yet are of all types.
    assert all(more <= less + 200 for less, more in zip(before, after, strict=True)), (before, after)


def test_a_week_reads_few_rows(connection: Connection[Any]) -> None:
    """At most 100 spans of each type and queue, in each window."""
    add_minutes(connection, 1_500, types=1, queues=1)
    sum_up(connection)
    for _, step in WINDOWS[1:]:
        row = connection.execute("select count(*) from spans where step = %s", [step]).fetchone()
        assert row is not None
        assert row[0] <= 101
