"""Findings about schedules: late, with an error, or with a job type that nobody serves."""

from typing import Any

import pytest
from psycopg import Connection

from tests.support.doctor import AT_ONCE, assert_ok, get_finding
from treadle import Treadle
from treadle.db.query import Query
from treadle.db.runner import read_settings
from treadle.doctor import Limits, Severity, queries
from treadle.doctor.facts import LateSchedule, ScheduledType, Worker
from treadle.doctor.finding import Context
from treadle.doctor.rules.schedules import check_scheduled_types, check_schedules

CONTEXT = Context("treadle", Limits(), "0.1.0")
WORKER = Worker("w-1", "host", 7, 100.0, 1.0, 10.0, None, ["report"], None, "0.1.0", False, False)
CLIENT = WORKER._replace(lease=None, job_types=None)
DUE = LateSchedule("nightly", False, None, 20.0, None, None)
SCHEDULED = ScheduledType("report", "default", 1, "nightly", 60.0)


def put(connection: Connection[Any], name: str = "nightly", after: str | None = "-1 hour") -> None:
    connection.execute("select put_schedule(%s, 'report', '0 3 * * *')", [name])
    connection.execute("update schedules set next_at = now() + %s::interval where name = %s", [after, name])


def register(connection: Connection[Any], types: str = "{report}", queues: str | None = None) -> None:
    connection.execute("select register_worker('live', '1 hour', %s, %s)", [types, queues])


def test_a_late_schedule_is_found(url: str, app: Treadle, connection: Connection[Any]) -> None:
    put(connection, after="1 hour")
    assert_ok(url, "late_schedules", AT_ONCE)
    connection.execute("update schedules set next_at = now() - interval '2 minutes'")
    found = get_finding(url, "late_schedules")
    assert (found.level, found.title) == (Severity.WARNING, "Schedules are due, but there are no live workers.")
    assert found.detail.startswith("nightly: due for 2m 0")
    register(connection)
    found = get_finding(url, "late_schedules")
    assert found.title == "Schedules are due, but no worker enqueues them."
    assert found.remedy.endswith("treadle schedules why nightly")
    connection.execute("update schedules set digest = 'd', declared_at = now() - interval '3 minutes'")
    found = get_finding(url, "late_schedules")
    assert found.title == "Schedules are due, but no live worker declares them."
    assert ", last declared 3m 0" in found.detail
    app.schedules.pause("nightly")
    assert_ok(url, "late_schedules", AT_ONCE)
    connection.execute("update schedules set paused_at = null, retired_at = now()")
    assert_ok(url, "late_schedules", AT_ONCE)
    connection.execute("update schedules set retired_at = null, next_at = 'infinity'")
    assert_ok(url, "late_schedules", AT_ONCE)


def test_a_schedule_without_a_next_time_is_late_some_time_after_it_was_changed(
    url: str, app: Treadle, connection: Connection[Any]
) -> None:
    put(connection, after=None)
    assert_ok(url, "late_schedules")
    connection.execute("update schedules set changed_at = now() - interval '1 hour'")
    assert get_finding(url, "late_schedules").detail == "nightly: due for 1h 00m"
    app.schedules.pause("nightly")
    app.schedules.resume("nightly")
    assert_ok(url, "late_schedules")  # a worker has some time to compute it


def test_a_schedule_with_an_error_is_found(url: str, connection: Connection[Any]) -> None:
    put(connection)
    assert_ok(url, "failing_schedules")
    connection.execute(
        "update schedules set error = 'the minute\nis wrong', retry_at = clock_timestamp() + interval '1 hour'"
    )
    found = get_finding(url, "failing_schedules")
    assert found.level is Severity.WARNING
    assert found.detail in (
        f"nightly: the minute is wrong; the next try is in {each}" for each in ("59m 59s", "1h 00m")
    )
    assert_ok(url, "late_schedules")  # it is reported once


def test_a_schedule_whose_type_nobody_serves_is_found(url: str, connection: Connection[Any]) -> None:
    put(connection, after="10 hours 20 seconds")  # with some time for the test
    put(connection, "weekly", after="20 hours")
    found = get_finding(url, "unserved_schedules")
    assert (found.level, found.title) == (Severity.NOTE, "There are no live workers for the jobs of schedules.")
    register(connection, "{other}")
    found = get_finding(url, "unserved_schedules")
    assert (found.level, found.title) == (Severity.WARNING, "No live worker serves the jobs of some schedules.")
    assert found.detail.splitlines() == [
        "report, of schedule nightly and 1 more: due in 10h 00m",
        "job types of the live workers: other",
    ]
    assert "defines report" in found.remedy
    register(connection, "{other, report}", "{slow}")
    assert get_finding(url, "unserved_schedules").level is Severity.WARNING
    register(connection)
    assert_ok(url, "unserved_schedules")
    register(connection, "{other}")
    connection.execute("update schedules set paused_at = now()")
    assert_ok(url, "unserved_schedules")


@pytest.mark.parametrize(
    ("due", "levels"),
    [
        ({"late": 14.0}, (Severity.OK, Severity.OK)),
        ({"late": 15.0}, (Severity.NOTE, Severity.OK)),
        ({"late": 60.0}, (Severity.WARNING, Severity.OK)),
        ({"late": 60.0, "error": "e"}, (Severity.OK, Severity.WARNING)),
        ({"late": 0.0, "error": "e", "retry": 3.0}, (Severity.OK, Severity.WARNING)),
    ],
)
def test_severity_by_lateness(due: dict[str, Any], levels: tuple[Severity, ...]) -> None:
    found = check_schedules(CONTEXT, [WORKER], [DUE._replace(**due)])
    assert tuple(each.level for each in found) == levels


def test_clients_without_a_worker_process() -> None:
    late, _ = check_schedules(CONTEXT, [CLIENT], [DUE])
    assert late.title == "Schedules are due, but there are no live workers."
    (found,) = check_scheduled_types(CONTEXT, [CLIENT], [SCHEDULED])
    assert found.level is Severity.NOTE
    assert "a client that claims without a worker process may claim them" in found.detail


def test_names_cannot_add_a_line() -> None:
    late, failing = check_schedules(CONTEXT, [], [DUE._replace(name="a\nb"), DUE._replace(name="c", error="d\ne")])
    (unserved,) = check_scheduled_types(CONTEXT, [], [SCHEDULED._replace(name="a\nb", job_type="c\nd", queue="e\nf")])
    assert (late.detail, failing.detail) == ("a b: due for 20s", "c: d e")
    assert unserved.detail == "c d in queue e f, of schedule a b: due in 1m 00s"


@pytest.mark.fresh_database
def test_ten_thousand_schedules_are_not_all_read(connection: Connection[Any]) -> None:
    connection.execute(
        """insert into schedules (name, job_type, expression, next_at)
        select 's' || n, 'report' || n % 7, '0 0 * * *', now() + (n - 5000) * interval '1 second'
        from generate_series(1, 10000) as n;
        analyze schedules"""
    )

    def rows_read(query: Query[Any]) -> int:
        with connection.transaction(force_rollback=True):
            connection.execute(read_settings(60))
            row = connection.execute(b"explain (analyze, format json) " + query.bound("treadle")).fetchone()
        assert row
        return _most_rows(row[0][0]["Plan"])

    assert rows_read(queries.schema_queries(Limits())["late_schedules"]) <= 1000
    assert rows_read(queries.schema_queries(Limits())["scheduled_types"]) <= 2000


def _most_rows(plan: dict[str, Any]) -> int:
    return max([int(plan["Actual Rows"]), *map(_most_rows, plan.get("Plans", ()))])
