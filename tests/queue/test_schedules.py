"""Schedules in the database: each time is enqueued once, whoever tries, and versions of the code do not fight."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.buffers import buffers
from treadle import Cron, JobQueue, Treadle, UnknownSchedule
from treadle.words.errors import InvalidArgument

TEN = datetime(2026, 6, 1, 10, tzinfo=UTC)
ELEVEN, TWELVE = TEN + timedelta(hours=1), TEN + timedelta(hours=2)

Put = Callable[..., None]


@pytest.fixture
def put(connection: Connection[Any]) -> Put:
    def put(name: str = "hourly", next_at: datetime | None = TEN, **options: Any) -> None:
        connection.execute(
            "select put_schedule(%s, 'report', '0 * * * *', p_options => %s)", [name, json.dumps(options)]
        )
        connection.execute("update schedules set next_at = %s where name = %s", [next_at, name])

    return put


def enqueue(
    connection: Connection[Any],
    *times: datetime,
    expected: datetime | None = TEN,
    following: datetime | None = TWELVE,
    name: str = "hourly",
    missed: tuple[datetime, ...] = (),
) -> list[tuple[Any, ...]]:
    order = {
        "name": name,
        "expected": expected and expected.isoformat(),
        "times": [each.isoformat() for each in times],
        "missed": [each.isoformat() for each in missed],
        "next": following and following.isoformat(),
    }
    return connection.execute("select * from enqueue_occurrences(%s)", [json.dumps([order])]).fetchall()


def scheduled(connection: Connection[Any]) -> list[tuple[Any, ...]]:
    return connection.execute("select origin ->> 'for', status from jobs order by id").fetchall()


def test_a_time_is_enqueued_once(put: Put, connection: Connection[Any]) -> None:
    put()
    assert enqueue(connection, TEN) == [("hourly", 1, None)]
    assert enqueue(connection, TEN) == []  # the next time is another one now
    rows = connection.execute("select next_at, last_at, last_job = (select id from jobs) from schedules").fetchall()
    assert rows == [(TWELVE, TEN, True)]


def test_whoever_expects_another_time_does_nothing(put: Put, connection: Connection[Any]) -> None:
    put(next_at=TWELVE)
    assert enqueue(connection, ELEVEN, expected=TEN) == []
    assert scheduled(connection) == []


def test_what_is_due_together_is_enqueued_together(put: Put, connection: Connection[Any]) -> None:
    def updates() -> int:
        statement = "select n_tup_upd from pg_stat_xact_user_tables where relid = 'schedules'::regclass"
        row = connection.execute(statement).fetchone()
        assert row
        return int(row[0])

    orders = []
    for number in range(10):
        put(f"schedule {number}")
        orders.append(
            {"name": f"schedule {number}", "expected": str(TEN), "times": [str(TEN)], "missed": [], "next": None}
        )
    with connection.transaction():
        before = updates()
        connection.execute("select enqueue_occurrences(%s)", [json.dumps(orders)])
        assert updates() - before == 10  # one by one, each is changed twice
    rows = connection.execute("select count(*), count(distinct run_at), max(run_at) <= now() from jobs").fetchall()
    assert rows == [(10, 10, True)]  # so that a floor can lie between any two
    assert connection.execute("select count(*) from schedules where last_job is not null").fetchone() == (10,)


def test_whoever_comes_second_does_nothing_and_does_not_wait(put: Put, connect: Connect) -> None:
    put()
    first, second = connect(autocommit=False), connect()
    assert enqueue(first, TEN) == [("hourly", 1, None)]
    second.execute("set statement_timeout = '2s'")
    assert enqueue(second, TEN) == []
    first.commit()
    assert enqueue(second, TEN) == []
    assert len(scheduled(second)) == 1


def test_no_time_is_enqueued_twice_even_if_the_schedule_forgets_it(put: Put, connection: Connection[Any]) -> None:
    put()
    enqueue(connection, TEN)
    connection.execute("delete from schedules")
    put()
    assert enqueue(connection, TEN, ELEVEN) == [("hourly", 1, None)]
    assert len(scheduled(connection)) == 2
    with pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute("insert into occurrences (schedule, scheduled_for) values ('hourly', %s)", [TEN])


def test_a_job_knows_its_time_and_the_one_before(put: Put, queue: JobQueue, connection: Connection[Any]) -> None:
    put()
    enqueue(connection, TEN, ELEVEN)
    found = connection.execute("select origin ->> 'schedule', origin ->> 'before' from jobs order by id").fetchall()
    assert found[0] == ("hourly", None)
    assert datetime.fromisoformat(found[1][1]) == TEN
    assert [job.job_type for job in queue.claim(["report"], batch_size=10)] == ["report", "report"]


def test_missed_times_are_noted(put: Put, connection: Connection[Any]) -> None:
    put()
    enqueue(connection, ELEVEN, missed=(TEN,))
    rows = connection.execute("select scheduled_for, skipped, job_id is null from occurrences order by 1").fetchall()
    assert rows == [(TEN, "missed", True), (ELEVEN, None, False)]


def test_a_time_is_skipped_while_the_job_before_has_not_finished(
    put: Put, queue: JobQueue, connection: Connection[Any]
) -> None:
    put(overlap="skip")
    enqueue(connection, TEN, following=ELEVEN)
    assert enqueue(connection, ELEVEN, expected=ELEVEN) == [("hourly", 0, None)]
    (job,) = queue.claim(["report"])
    queue.complete(job)
    assert enqueue(connection, TWELVE, expected=TWELVE) == [("hourly", 1, None)]
    rows = connection.execute("select scheduled_for, skipped from occurrences order by 1").fetchall()
    assert rows == [(TEN, None), (ELEVEN, "overlap"), (TWELVE, None)]


def test_jobs_wait_for_each_other_on_request(put: Put, queue: JobQueue, connection: Connection[Any]) -> None:
    put(overlap="wait")
    enqueue(connection, TEN, ELEVEN)
    (first,) = queue.claim(["report"], batch_size=10)
    queue.complete(first)
    assert len(queue.claim(["report"], batch_size=10)) == 1


def test_one_that_fails_holds_up_no_other_and_is_tried_again(put: Put, connection: Connection[Any]) -> None:
    put("bad")
    put("good")
    connection.execute("alter table jobs add constraint no_bad check (origin ->> 'schedule' <> 'bad')")
    try:
        orders = [
            {"name": name, "expected": TEN.isoformat(), "times": [TEN.isoformat()], "missed": [], "next": None}
            for name in ("bad", "good")
        ]
        statement = "select name, enqueued, error from enqueue_occurrences(%s)"
        (bad, good) = connection.execute(statement, [json.dumps(orders)]).fetchall()
        assert good == ("good", 1, None)
        assert bad[:2] == ("bad", 0)
        assert "no_bad" in bad[2]
        due = connection.execute("select name from find_due_schedules(10)").fetchall()
        assert due == []  # not at once
    finally:
        connection.execute("alter table jobs drop constraint no_bad")
    connection.execute("update schedules set retry_at = now() where name = 'bad'")
    assert connection.execute("select name from find_due_schedules(10)").fetchall() == [("bad",)]
    assert enqueue(connection, TEN, name="bad") == [("bad", 1, None)]
    assert connection.execute("select error, retry_at from schedules where name = 'bad'").fetchone() == (None, None)


def test_only_what_is_due_and_the_next_one_are_found(put: Put, connection: Connection[Any]) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    put("new", None)
    put("due")
    put("next", later)
    put("after that", later + timedelta(hours=1))
    put("over", None)
    connection.execute("update schedules set next_at = 'infinity' where name = 'over'")
    put("paused")
    connection.execute("select operate_schedule('pause', 'paused')")
    rows = connection.execute("select name, seconds from find_due_schedules(10)").fetchall()
    assert [name for name, _ in rows] == ["new", "due", "next"]
    assert rows[0][1] is None
    assert rows[1][1] < 0
    assert 3590 < rows[2][1] <= 3600


@pytest.mark.fresh_database
@pytest.mark.parametrize("due", [0, 10])
def test_a_look_costs_the_same_however_many_schedules_there_are(connection: Connection[Any], due: int) -> None:
    connection.execute(
        """insert into schedules (name, job_type, expression, digest, next_at)
        select 's' || n, 'report', '@daily', md5(n::text), now() + case when n > %s then 1 else -1 end * '1 h'::interval
        from generate_series(1, 10000) as n""",
        [due],
    )
    connection.execute("analyze schedules")
    rows = connection.execute("select name from find_due_schedules(20)").fetchall()
    assert len(rows) == due + 1
    assert buffers(connection, "select * from find_due_schedules(20)") < 10


# Operators


def test_a_schedule_that_was_paused_goes_on_with_its_next_time(put: Put, connection: Connection[Any]) -> None:
    put()
    assert connection.execute("select operate_schedule('pause', 'hourly')").fetchone() == ("done",)
    assert connection.execute("select operate_schedule('pause', 'hourly')").fetchone() == ("unchanged",)
    assert enqueue(connection, TEN) == []
    assert connection.execute("select operate_schedule('resume', 'hourly')").fetchone() == ("done",)
    assert connection.execute("select next_at from schedules").fetchone() == (None,)
    rows = connection.execute("select action, details ->> 'schedule' from audit order by id").fetchall()
    assert rows == [("put schedule", "hourly"), ("pause schedule", "hourly"), ("resume schedule", "hourly")]


def test_a_job_is_enqueued_on_request_although_the_last_one_runs(put: Put, connection: Connection[Any]) -> None:
    put(overlap="skip")
    enqueue(connection, TEN)
    connection.execute("select operate_schedule('run', 'hourly')")
    assert len(scheduled(connection)) == 2


def test_the_jobs_of_a_schedule_may_be_unique_and_expire(put: Put, connection: Connection[Any]) -> None:
    unique = {"unique_keys": ["report"], "expires": "9 minutes", "headers": {"token": "t"}, "weight": 2}
    put(options=unique)
    assert enqueue(connection, TEN, following=ELEVEN) == [("hourly", 1, None)]
    (row,) = connection.execute("select unique_key, expires_at - run_at, headers, weight, origin from jobs").fetchall()
    assert row[:4] == ("report", timedelta(minutes=9), {"token": "t"}, 2)
    assert row[4]["schedule"] == "hourly"

    assert enqueue(connection, ELEVEN, expected=ELEVEN) == [("hourly", 0, None)]  # the first one is unfinished
    connection.execute("select cancel_job(id) from jobs")
    assert enqueue(connection, TWELVE, expected=TWELVE, following=None) == [("hourly", 1, None)]
    rows = connection.execute("select skipped, job_id is null from occurrences order by scheduled_for").fetchall()
    assert rows == [(None, False), ("unique", True), (None, False)]
    ((before,),) = connection.execute("select origin ->> 'before' from jobs order by id desc limit 1").fetchall()
    assert datetime.fromisoformat(before) == TEN  # the last time that had a job

    ((details,),) = connection.execute("select details from audit").fetchall()
    del unique["headers"]  # they may be secret
    assert details["options"] == unique


def test_a_debounced_schedule_is_due_later_and_a_throttled_one_has_fewer_jobs(
    put: Put, connection: Connection[Any]
) -> None:
    put("later", options={"delay": 30, "unique_keys": ["a"], "unique_while": "pending", "on_conflict": ["replace"]})
    put("fewer", options={"unique_keys": ["b"], "period": "1 hour"})
    for name in ("later", "fewer"):
        assert enqueue(connection, TEN, name=name) == [(name, 1, None)]
        assert enqueue(connection, ELEVEN, expected=TWELVE, name=name) == [(name, 0, None)]
    rows = connection.execute(
        "select unique_key, run_at - created_at > interval '20 seconds' from jobs order by id"
    ).fetchall()
    assert rows == [("a", True), (None, False)]


def test_changed_times_are_computed_anew_and_others_are_kept(put: Put, connection: Connection[Any]) -> None:
    put()
    connection.execute("""select put_schedule('hourly', p_options => '{"priority": 5}')""")
    assert connection.execute("select next_at, priority from schedules").fetchone() == (TEN, 5)
    connection.execute("select put_schedule('hourly', p_expression => '5 * * * *')")
    assert connection.execute("select next_at, priority from schedules").fetchone() == (None, 5)


def test_wrong_options_are_refused(connection: Connection[Any]) -> None:
    for options, message in (
        ('{"colour": "red"}', "unknown options of a schedule: colour"),
        ('{"missed": "x"}', "missed"),
        ('{"options": {"expire": "9m"}}', "unknown options of the jobs of a schedule: expire"),
        ('{"options": {"expires": "-1 s"}}', "expires must not be negative"),
        ('{"options": 7}', "options must be an object"),
    ):
        with pytest.raises(psycopg.Error, match=message):
            connection.execute("select put_schedule('s', 'report', '* * * * *', p_options => %s)", [options])
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="needs p_job_type and p_expression"):
        connection.execute("select put_schedule('s', 'report')")
    assert connection.execute("select count(*) from schedules").fetchone() == (0,)


# Versions of the code


def declare(connection: Connection[Any], digest: str, expression: str = "0 * * * *", name: str = "hourly") -> list[str]:
    row = {
        "name": name, "job_type": "report", "data": {}, "priority": 100, "queue": "default", "max_attempts": 3,
        "expression": expression, "timezone": "UTC", "clocks_forward": "run_late", "clocks_back": "run_once",
        "missed": "latest", "missed_limit": 100, "overlap": "allow", "jitter": "0", "digest": digest,
    }  # fmt: skip
    found = connection.execute("select declare_schedules(%s)", [json.dumps([row])]).fetchone()
    assert found
    return list(found[0])


def test_schedules_of_workers_that_sleep_are_not_retired(connection: Connection[Any]) -> None:
    connection.execute("select register_worker('w', '10 s', '{a}'), renew_workers('{w}', '2 hours', true)")
    declare(connection, "one")
    connection.execute("update schedules set declared_at = declared_at - interval '20 minutes'")
    connection.execute("update workers set asleep_at = asleep_at - interval '19 minutes'")
    declare(connection, "two", name="other")
    assert connection.execute("select count(*) from schedules where retired_at is null").fetchone() == (2,)
    connection.execute("select renew_workers('{w}', '10 s')")
    declare(connection, "two", name="other")
    assert connection.execute("select name from schedules where retired_at is null").fetchall() == [("other",)]


def renew(connection: Connection[Any], digest: str) -> list[str]:
    rows = json.dumps([{"name": "hourly", "digest": digest}])
    found = connection.execute("select declare_schedules(%s)", [rows]).fetchone()
    assert found
    return list(found[0])


def declared_ago(connection: Connection[Any], ago: str) -> None:
    connection.execute("update schedules set declared_at = clock_timestamp() - %s::interval", [ago])


def in_force(connection: Connection[Any]) -> str:
    row = connection.execute("select digest from schedules").fetchone()
    assert row
    return str(row[0])


def test_the_newer_of_two_versions_is_in_force_however_often_both_declare(connection: Connection[Any]) -> None:
    for _ in range(2):
        assert declare(connection, "old") == ["hourly"]
    for _ in range(3):
        assert declare(connection, "new", "5 * * * *") == ["hourly"]
        assert declare(connection, "old") == []
    assert in_force(connection) == "new"


def test_after_a_rollback_the_older_version_is_in_force(connection: Connection[Any]) -> None:
    declare(connection, "old")
    declare(connection, "new")
    declared_ago(connection, "3 minutes")
    assert declare(connection, "old") == ["hourly"]
    assert declare(connection, "new") == []


def test_what_an_operator_paused_stays_paused(connection: Connection[Any]) -> None:
    declare(connection, "old")
    connection.execute("select operate_schedule('pause', 'hourly')")
    declare(connection, "new")
    assert connection.execute("select paused_at is not null from schedules").fetchone() == (True,)


def test_a_new_version_keeps_the_next_time_unless_its_times_differ(connection: Connection[Any]) -> None:
    declare(connection, "one")
    connection.execute("update schedules set next_at = %s", [TEN])
    declare(connection, "two")
    assert connection.execute("select next_at from schedules").fetchone() == (TEN,)
    declare(connection, "three", "5 * * * *")
    assert connection.execute("select next_at from schedules").fetchone() == (None,)


@pytest.mark.parametrize(("away", "next_at"), [("1 hour", TEN), ("2 days", None)])
def test_what_nobody_declares_is_retired_until_it_is_declared_again(
    connection: Connection[Any], away: str, next_at: datetime | None
) -> None:
    declare(connection, "one")
    connection.execute("update schedules set next_at = %s", [TEN])
    assert connection.execute("select name from find_due_schedules(10, '{one}')").fetchall() == [("hourly",)]
    assert connection.execute("select name from find_due_schedules(10, '{other}')").fetchall() == []
    declared_ago(connection, away)
    connection.execute("select declare_schedules('[]')")
    assert connection.execute("select retired_at is not null from schedules").fetchone() == (True,)
    assert connection.execute("select name from find_due_schedules(10, '{one}')").fetchall() == []
    declare(connection, "one")
    assert connection.execute("select retired_at, next_at from schedules").fetchone() == (None, next_at)


def test_what_is_just_being_enqueued_is_renewed_later(connect: Connect) -> None:
    enqueuer, declarer = connect(autocommit=False), connect()
    declare(declarer, "one")
    declared_ago(declarer, "1 minute")
    enqueuer.execute("select from schedules for update")
    declarer.execute("set lock_timeout = '2s'")
    assert renew(declarer, "one") == ["hourly"]
    enqueuer.rollback()
    statement = "select declared_at > now() - interval '30 seconds' from schedules"
    assert declarer.execute(statement).fetchone() == (False,)
    assert renew(declarer, "one") == ["hourly"]
    assert declarer.execute(statement).fetchone() == (True,)


def test_name_and_digest_are_enough_only_for_what_is_known_as_declared(connection: Connection[Any]) -> None:
    assert renew(connection, "one") == []
    assert connection.execute("select count(*) from schedules").fetchone() == (0,)
    declare(connection, "one")
    assert renew(connection, "two") == []
    assert in_force(connection) == "one"


def test_what_code_declares_is_changed_and_deleted_only_there(app: Treadle, connection: Connection[Any]) -> None:
    declare(connection, "one")
    with pytest.raises(InvalidArgument, match="schedule 'hourly' is declared in code: change the code, or pause"):
        app.schedules.change("hourly", Cron("5 * * * *"))
    with pytest.raises(InvalidArgument, match="is declared in code"):
        app.schedules.delete("hourly")
    connection.execute("update schedules set retired_at = now()")
    app.schedules.delete("hourly")
    assert app.schedules() == []


def test_code_does_not_replace_what_was_added_at_run_time(put: Put, connection: Connection[Any]) -> None:
    put()
    assert declare(connection, "one", "5 * * * *") == []
    assert connection.execute("select expression, digest from schedules").fetchone() == ("0 * * * *", None)


def test_an_unknown_schedule_is_refused(app: Treadle) -> None:
    for method in (app.schedules.pause, app.schedules.resume, app.schedules.run_now, app.schedules.delete):
        with pytest.raises(UnknownSchedule, match="there is no schedule 'nope'; `treadle schedules` lists them"):
            method("nope")
    with pytest.raises(UnknownSchedule):
        app.schedules.change("nope", Cron("* * * * *"))


def test_every_call_has_an_async_twin(app: Treadle, connection: Connection[Any]) -> None:
    @app.job
    async def report() -> None: ...

    async def body() -> None:
        await app.schedules.aadd("hourly", Cron("@hourly"), report)
        await app.schedules.achange("hourly", Cron("@daily", timezone="Europe/Oslo"))
        assert await app.schedules.apause("hourly")
        assert await app.schedules.aresume("hourly")
        await app.schedules.arun_now("hourly")
        (row,) = await app.schedules.alist()
        assert (row.expression, row.timezone) == ("@daily", "Europe/Oslo")
        await app.schedules.adelete("hourly")
        await app.aclose()

    asyncio.run(body())
    assert app.schedules() == []
    assert len(scheduled(connection)) == 1
