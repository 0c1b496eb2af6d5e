"""The clock of a test database: it can be moved, and everything follows it."""

import asyncio
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from treadle import Cron, InvalidArgument, Job, Status, Treadle
from treadle.testing import Harness


def test_no_function_and_no_default_reads_the_real_clock(prepared_url: str) -> None:
    with psycopg.connect(prepared_url) as connection:
        functions = connection.execute(
            r"""select proname from pg_proc where pronamespace = 'treadle'::regnamespace and prokind = 'f'
            and pg_get_functiondef(oid) ~ '\m(clock_timestamp|now)\(\)' order by 1"""
        ).fetchall()
        defaults = connection.execute(
            r"""select adrelid::regclass::text from pg_attrdef join pg_class on pg_class.oid = adrelid
            where relnamespace = 'treadle'::regnamespace
            and pg_get_expr(adbin, adrelid) ~ '\m(clock_timestamp|now)\(\)'"""
        ).fetchall()
    assert (functions, defaults) == ([("test_clock",), ("test_now",)], [])


def test_travelling_moves_created_at_why_and_what_is_due(app: Treadle, harness: Harness) -> None:
    @app.job
    def later() -> None: ...

    harness.travel("10d")
    handle = later.using(delay="2h").enqueue()
    created = app.queue.get(handle.id).created_at
    assert timedelta(days=9, hours=23) < created - datetime.now(UTC) < timedelta(days=10, hours=1)
    assert abs(harness.now() - created) < timedelta(minutes=1)
    assert "due in 2h 00m" in str(handle.why()) or "due in 1h 59m" in str(handle.why())
    harness.travel("2h")
    assert harness.drain().completed == 1
    assert app.queue.get(handle.id).completed_at is not None


def test_a_test_begins_at_the_real_time(harness: Harness) -> None:
    assert abs(harness.now() - datetime.now(UTC)) < timedelta(seconds=30)


def test_the_clock_can_be_set_back_before_the_first_job_and_schedules_begin_anew(
    app: Treadle, harness: Harness
) -> None:
    times = []

    @app.job(schedule=Cron("0 9 * * mon"))
    def report(job: Job) -> None:
        times.append(job.scheduled_for)

    harness.declare()
    moment = datetime(2020, 5, 4, 8, 59, 50, tzinfo=UTC)
    harness.travel_to(moment)
    assert timedelta(0) <= harness.now() - moment < timedelta(seconds=30)
    assert harness.drain(until="13d").completed == 2
    assert times == [datetime(2020, 5, day, 9, tzinfo=UTC) for day in (4, 11)]


def test_the_clock_can_be_set_ahead_to_the_time_of_a_schedule(app: Treadle, harness: Harness) -> None:
    times = []

    @app.job(schedule=Cron("0 9 * * mon"))
    def report(job: Job) -> None:
        times.append(job.scheduled_for)

    harness.declare()
    moment = datetime(2090, 5, 1, 9, tzinfo=UTC)
    assert moment.weekday() == 0
    harness.travel_to(moment)
    assert harness.drain().completed == 1
    assert times == [moment]


def test_the_clock_cannot_be_set_back_under_jobs(app: Treadle, harness: Harness) -> None:
    @app.job
    def now() -> None: ...

    handle = now.enqueue()
    with pytest.raises(InvalidArgument, match="can be set back only before the first job is enqueued"):
        harness.travel_to(datetime(2020, 1, 1, tzinfo=UTC))
    with pytest.raises(InvalidArgument, match="travel must not be negative"):
        harness.travel(-3600)
    with pytest.raises(InvalidArgument, match="a datetime with a time zone"):
        harness.travel_to(datetime(2099, 1, 1))
    assert harness.drain().completed == 1
    assert handle.status() is Status.COMPLETED


def test_until_takes_a_datetime(app: Treadle, harness: Harness) -> None:
    @app.job
    def later() -> None: ...

    later.using(delay="1h").enqueue()
    later.using(delay="3h").enqueue()
    assert harness.drain(until=harness.now() + timedelta(hours=2)).completed == 1
    with pytest.raises(InvalidArgument, match="either until or follow"):
        harness.drain(until="1h", follow=True)


def test_async_twins(app: Treadle, harness: Harness) -> None:
    async def main() -> None:
        before = await harness.anow()
        await harness.atravel("1d")
        assert await harness.anow() - before > timedelta(hours=23)
        await harness.atravel_to(datetime(2020, 1, 1, tzinfo=UTC))
        assert (await harness.anow()).year == 2020
        await harness.areset_clock()
        assert (await harness.anow()).year > 2020
        await harness.adeclare()

    asyncio.run(main())
