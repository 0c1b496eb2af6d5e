"""Workers enqueue the jobs of schedules: once, in time, and told their times."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from psycopg import Connection

from tests.support.workers import auntil, run, running_worker
from treadle import (
    Cron,
    Every,
    InvalidArgument,
    InvalidJob,
    InvalidPayload,
    Job,
    JobGroup,
    Once,
    Retries,
    Stored,
    Treadle,
)
from treadle.db.query import Query, Result
from treadle.db.reconnecting import ReconnectingConnection
from treadle.worker.scheduler import PAUSE_SECONDS, Scheduler
from treadle.worker.worker import Worker

SECOND = timedelta(seconds=1)


def test_several_workers_enqueue_each_time_once(app: Treadle, connection: Connection[Any]) -> None:
    seen: list[tuple[datetime | None, datetime | None]] = []

    @app.job(schedule=Every("1s"))
    async def beat(job: Job) -> None:
        seen.append((job.scheduled_for, job.previously_scheduled_for))

    async def body() -> None:
        async with running_worker(app), running_worker(app), running_worker(app):
            await auntil(lambda: len(seen) >= 3)

    asyncio.run(body())
    seen.sort()
    times = [moment for moment, _ in seen if moment is not None]
    # On a busy machine, times that were missed are skipped.
    assert all(later - earlier >= SECOND for earlier, later in pairwise(times))
    assert [before for _, before in seen] == [None, *times[:-1]]
    assert all(moment.microsecond == 0 and moment.tzinfo is UTC for moment in times)
    late = connection.execute("select max(created_at - (origin ->> 'for')::timestamptz) from jobs").fetchone()
    assert late
    assert timedelta() <= late[0] < 10 * SECOND  # how soon it is exactly is measured by a benchmark


def test_a_schedule_that_is_added_at_run_time_is_followed_at_once(app: Treadle, connection: Connection[Any]) -> None:
    seen: list[str] = []

    @app.job
    async def report(job: Job, kind: str) -> None:
        assert job.scheduled_for
        seen.append(kind)

    @app.job
    async def other(job: Job) -> None:
        assert (job.scheduled_for, job.previously_scheduled_for) == (None, None)

    async def body(worker: Worker) -> None:
        await (await other.aenqueue()).aresult(30)
        await asyncio.to_thread(app.schedules.add, "often", Cron("* * * * * *"), report, {"kind": "full"}, actor="ada")
        await auntil(lambda: seen)
        await asyncio.to_thread(app.schedules.pause, "often")
        await asyncio.to_thread(app.schedules.run_now, "often")
        await auntil(lambda: len(seen) >= 2)

    run(app, body)
    assert set(seen) == {"full"}
    (row,) = app.schedules()
    assert (row.name, row.job_type, row.expression, row.in_code) == ("often", "report", "* * * * * *", False)
    assert row.paused_at
    actions = connection.execute("select action, actor from audit order by id").fetchall()
    assert [action for action, _ in actions] == ["put schedule", "pause schedule", "run schedule"]
    assert actions[0][1] == "ada"


def test_an_expression_that_nobody_understands_is_reported_and_holds_up_no_other(
    app: Treadle, connection: Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Job] = []

    @app.job(schedule=Cron("* * * * * *"))
    async def beat(job: Job) -> None:
        seen.append(job)

    connection.execute("select put_schedule('bad', 'beat', '61 * * * *')")

    async def body(worker: Worker) -> None:
        await auntil(lambda: seen)

    run(app, body)
    row = {each.name: each for each in app.schedules()}["bad"]
    assert row.error
    assert "61 * * * *" in row.error
    assert "schedule bad:" in caplog.text


def test_code_declares_its_schedules(app: Treadle, connection: Connection[Any]) -> None:
    @app.job(schedule=Cron("0 9 * * mon", timezone="Europe/Oslo"), priority=7, queue="slow")
    async def weekly() -> None: ...

    @app.job
    async def report(kind: str, count: int = 1) -> None: ...

    end = datetime(2031, 1, 1, tzinfo=UTC)
    app.schedule("nightly", Cron("0 3 * * *", overlap="skip", jitter="30s", end=end), report, {"kind": "full"}, key="k")

    async def body(worker: Worker) -> None:
        await auntil(lambda: all(each.next_at for each in app.schedules()))

    run(app, body)
    rows = connection.execute(
        """select name, job_type, data, priority, queue, expression, timezone, overlap, jitter, ends_at, key
        from schedules order by name"""
    ).fetchall()
    assert rows == [
        ("nightly", "report", {"kind": "full"}, 100, "default", "0 3 * * *", "UTC", "skip", 30 * SECOND, end, "k"),
        ("weekly", "weekly", {}, 7, "slow", "0 9 * * mon", "Europe/Oslo", "allow", timedelta(), None, None),
    ]  # fmt: skip


def test_bad_schedules_are_refused(app: Treadle) -> None:
    @app.job
    async def report(kind: str) -> None: ...

    @app.job
    async def use(file: Stored) -> None: ...

    with pytest.raises(InvalidArgument, match=r'such as Cron\("0 9 \* \* mon"\) or Every\("90s"\), got None'):
        app.schedule("none", None, report, {"kind": "x"})  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"such as Cron\('@hourly'\) or"):
        app.schedules.add("text", "@hourly", report, {"kind": "x"})  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r'for an interval use Every\("5m"\)'):
        app.schedule("interval", Cron("every 5m"), report, {"kind": "x"})
    with pytest.raises(InvalidArgument, match="61"):
        app.schedule("bad", Cron("61 * * * *"), report, {"kind": "x"})
    with pytest.raises(InvalidArgument, match="missed must be skip, latest or all, got 'never'"):
        app.schedules.add("bad", Cron("* * * * *", missed="never"), report, {"kind": "x"})  # type: ignore[arg-type]
    with pytest.raises(InvalidPayload, match="kind"):
        app.schedules.add("bad", Cron("* * * * *"), report)
    with pytest.raises(InvalidArgument, match="end must be a datetime with a time zone"):
        app.schedules.add("bad", Cron("* * * * *", end=datetime(2030, 1, 1)), report, {"kind": "x"})
    with pytest.raises(InvalidArgument, match="a schedule needs a job function"):
        app.schedules.add("bad", Cron("* * * * *"), print)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="has stored content as an argument"):
        app.schedules.add("bad", Cron("* * * * *"), use, {"file": app.store(b"content")})
    app.schedule("twice", Cron("* * * * *"), report, {"kind": "x"})
    with pytest.raises(InvalidJob, match="there are two schedules called 'twice'"):
        app.schedule("twice", Cron("* * * * *"), report, {"kind": "x"})
    assert app.schedules() == []


def test_the_arguments_of_a_schedule_are_checked_where_it_is_declared(app: Treadle) -> None:
    def report(kind: str = "full", *, of: "Later | None" = None) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    def needs(kind: str) -> None: ...

    group = JobGroup()
    for jobs in (app, group):
        with pytest.raises(InvalidPayload, match="needs: missing: kind; it takes"):
            jobs.job(schedule=Cron("@hourly"))(needs)
        assert jobs.job_types == []
    made = app.job(needs)
    with pytest.raises(InvalidPayload, match=r"needs\.kind: Input should be a valid string"):
        app.schedule("number", Cron("@hourly"), made, {"kind": 7})
    with pytest.raises(InvalidArgument, match="must be a mapping"):
        app.schedule("list", Cron("@hourly"), made, ["kind"])  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="a schedule needs a job function"):
        app.schedule("function", Cron("@hourly"), needs)  # type: ignore[arg-type]
    assert app.schedules.declared() == []

    # What its annotations name is defined later, or never: then the worker does not start.
    app.job(schedule=Cron("@hourly"))(report)

    async def body(worker: Worker) -> None: ...

    with pytest.raises(InvalidJob, match="the annotations of report cannot be read: name 'Later' is not defined"):
        run(app, body)


def test_the_jobs_of_a_schedule_have_its_options_or_those_of_the_function(
    app: Treadle, connection: Connection[Any]
) -> None:
    @app.job(schedule=Cron("@daily"), expires="9m", unique=Once(), weight=3, queue="slow", retry=Retries(0))
    async def beat(size: int = 1) -> None: ...

    others = {"size": 3}
    app.schedule("nightly", Cron("@daily"), beat, others, expires=None, unique=Once("size"), headers={"by": "me"})
    app.schedules.add("plain", Cron("@daily"), beat, {"size": 2}, expires=None, unique=None, weight=None)

    async def body(worker: Worker) -> None: ...

    connection.execute("select treadle.pause('beat')")
    run(app, body)
    found = [app.schedules.run_now(name) for name in ("beat", "nightly", "nightly", "plain")]
    assert found == [True, True, False, True]
    rows = connection.execute(
        """select origin ->> 'schedule', expires_at - run_at, unique_key is not null, weight, headers, queue,
            max_attempts
        from jobs order by id"""
    ).fetchall()
    assert rows == [
        ("beat", timedelta(minutes=9), True, 3, None, "slow", 1),
        ("nightly", None, True, 3, {"by": "me"}, "slow", 1),
        ("plain", None, False, None, None, "slow", 1),
    ]


@pytest.mark.parametrize(("every", "expression"), [("90s", "every 90s"), ("2w", "every 1209600s"), (1.5, "every 1.5s")])
def test_an_interval_keeps_all_of_its_digits(app: Treadle, every: Any, expression: str) -> None:
    @app.job(schedule=Every(every))
    async def beat() -> None: ...

    assert [each.expression for each in app.schedules.declared()] == [expression]


def test_a_worker_says_which_of_its_schedules_are_not_in_force(
    app: Treadle, connection: Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    @app.job(schedule=Cron("@hourly"))
    async def beat() -> None: ...

    connection.execute("select put_schedule('beat', 'beat', '@daily')")

    async def body(worker: Worker) -> None: ...

    run(app, body)
    assert "schedules that are not enqueued as declared here: beat;" in caplog.text


def test_a_scheduler_that_fails_is_quiet_and_does_not_stop_the_worker(
    app: Treadle, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """For example, the rights on new tables were not granted yet."""

    @app.job
    async def hello() -> str:
        return "hello"

    def fail(*_: object) -> None:
        raise PermissionError("denied")

    monkeypatch.setattr("treadle.db.queries.schedules.find_due", fail)

    async def body(worker: Worker) -> None:
        await asyncio.sleep(1.5)
        assert await (await hello.aenqueue()).aresult(30) == "hello"

    run(app, body)
    assert caplog.text.count("schedules cannot be enqueued by this worker") == 1


class Counting(ReconnectingConnection):
    """Remembers the parameters of the statements that it has run."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "treadle", "test")
        self.ran: list[Any] = []

    async def run(self, query: Query[Result]) -> Result:
        self.ran.append(query.params)
        return await super().run(query)


def looks(app: Treadle, url: str, body: Callable[[Scheduler, Counting], Awaitable[None]]) -> None:
    async def looks() -> None:
        connection = Counting(url)
        try:
            await body(Scheduler(connection, app.schedules, lambda _: None), connection)
        finally:
            await connection.close()

    asyncio.run(looks())


def test_a_look_is_one_statement_and_what_is_due_one_more(app: Treadle, url: str, connection: Connection[Any]) -> None:
    connection.execute(
        """insert into schedules (name, job_type, expression, next_at)
        select 's' || n, 'beat', '@yearly', now() + case when n <= 10 then -1 else 2 end * interval '1 second'
        from generate_series(1, 30) as n"""
    )

    async def body(scheduler: Scheduler, ran: Counting) -> None:
        delay = await scheduler.enqueue_due()
        assert len(ran.ran) == 2
        assert 0.05 <= delay <= 2  # the next time is known without another look
        assert 0 < await scheduler.enqueue_due() <= 2
        assert len(ran.ran) == 3
        connection.execute("update schedules set next_at = now() - interval '1 second'")
        assert await scheduler.enqueue_due() == 0.0
        assert await scheduler.enqueue_due() > 1
        assert len(ran.ran) == 7  # 20 at a time

    looks(app, url, body)
    assert connection.execute("select count(*) from jobs").fetchone() == (40,)


def test_many_moments_need_few_statements(app: Treadle, url: str, connection: Connection[Any]) -> None:
    connection.execute(
        """insert into schedules (name, job_type, expression, next_at)
        values ('now', 'beat', '@yearly', now()), ('soon', 'beat', '@yearly', now() + interval '1 second')"""
    )

    async def body(scheduler: Scheduler, ran: Counting) -> None:
        connection.execute("update schedules set next_at = clock_timestamp() + interval '1 ms' where name = 'soon'")
        assert await scheduler.enqueue_due() >= PAUSE_SECONDS

    looks(app, url, body)


def test_a_declaration_that_is_known_is_renewed_by_its_digest(
    app: Treadle, url: str, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.worker.scheduler.DECLARE_LIMIT", 10)

    @app.job
    async def beat() -> None: ...

    for number in range(25):
        app.schedule(f"schedule {number}", Cron("@yearly"), beat)

    def sent(ran: Counting) -> list[int]:
        """How many schedules each statement named, and with how many fields."""
        rows = [json.loads(each["schedules"]) for each in ran.ran]
        ran.ran.clear()
        return [len(each) * (1 if set(each[0]) == {"name", "digest"} else 1000) for each in rows]

    async def body(scheduler: Scheduler, ran: Counting) -> None:
        await scheduler.declare()
        assert sent(ran) == [10, 10, 5, 10_000, 10_000, 5_000]
        connection.execute("update schedules set declared_at = now() - interval '1 minute'")
        connection.execute("update schedules set digest = 'of a newer version' where name = 'schedule 3'")
        await scheduler.declare()
        assert sent(ran) == [10, 10, 5, 1_000]

    looks(app, url, body)
    row = connection.execute(
        "select count(*), min(declared_at) > now() - interval '30 seconds' from schedules"
    ).fetchone()
    assert row == (25, True)


@pytest.mark.parametrize("others", [1, 50])
def test_schedules_that_others_declare_are_not_enqueued_and_not_in_the_way(
    app: Treadle, url: str, connection: Connection[Any], others: int
) -> None:
    @app.job(schedule=Cron("@yearly"))
    async def mine() -> None: ...

    async def body(scheduler: Scheduler, ran: Counting) -> None:
        await scheduler.declare()
        connection.execute(
            """insert into schedules (name, job_type, expression, digest, declared_at, next_at)
            select 'other ' || n, 'other', '@yearly', 'other', now(), now() - interval '1 minute'
            from generate_series(1, %s) as n""",
            [others],
        )
        connection.execute("update schedules set next_at = now() - interval '1 second' where name = 'mine'")
        assert await scheduler.enqueue_due() > 1  # not at once again because of the others

    looks(app, url, body)
    assert connection.execute("select job_type from jobs").fetchall() == [("mine",)]
