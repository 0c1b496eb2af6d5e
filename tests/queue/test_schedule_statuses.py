"""What people see of schedules: their state, their next and last times, and what became of the latest ones."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import Connection

from treadle import JobQueue, Treadle
from treadle.db.queries import schedules as schedule_queries
from treadle.db.queries.schedules import COUNT_LIMIT
from treadle.db.query import in_schema, statement
from treadle.db.runner import read_settings
from treadle.words.errors import InvalidArgument
from treadle.words.schedule_status import ScheduleStatus

TEN = datetime(2026, 6, 1, 10, tzinfo=UTC)


def put(connection: Connection[Any], name: str = "nightly", expression: str = "0 3 * * *", **options: Any) -> None:
    connection.execute(
        "select put_schedule(%s, 'report', %s, p_timezone => 'Europe/Oslo', p_options => %s)",
        [name, expression, json.dumps(options)],
    )


def run_now(connection: Connection[Any], name: str = "nightly") -> None:
    connection.execute("select operate_schedule('run', %s)", [name])


def statuses(app: Treadle, **options: Any) -> dict[str, ScheduleStatus]:
    return {each.name: each for each in app.database.read(schedule_queries.find_statuses(**options)).schedules}


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for each in plan.get("Plans", ()):
        yield from nodes(each)


def test_the_history_has_the_outcome_of_each_time(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    put(connection)
    outcomes = ["completed", "failed", "cancelled", "running", "pending"]
    for _ in (*outcomes, "deleted"):
        run_now(connection)
    jobs = [row[0] for row in connection.execute("select job_id from occurrences order by scheduled_for").fetchall()]
    for job, outcome in zip(jobs, outcomes, strict=False):
        connection.execute("update jobs set status = %s, worker_id = 'w' where id = %s", [outcome, job])
    connection.execute("delete from jobs where id = %s", [jobs[-1]])
    connection.execute(
        """insert into occurrences (schedule, scheduled_for, skipped)
        values ('nightly', %s, 'missed'), ('nightly', %s, 'overlap')""",
        [TEN, TEN + timedelta(hours=1)],
    )
    found = statuses(app)["nightly"]
    assert [each.outcome for each in found.history] == ["missed", "skipped", *outcomes, "deleted"]
    assert [each.job_id for each in found.history] == [None, None, *jobs]
    assert (found.history[0].scheduled_for, found.last_job, found.last_outcome) == (TEN, jobs[-1], "deleted")
    assert found.description == "At 03:00 every day, Europe/Oslo time"
    assert [each.outcome for each in statuses(app, history=2)["nightly"].history] == ["pending", "deleted"]


def test_each_state(app: Treadle, connection: Connection[Any]) -> None:
    for name in ("active", "paused", "retired", "ended", "error"):
        put(connection, name, "61 * * * *" if name == "error" else "0 3 * * *")
    connection.execute("select operate_schedule('pause', 'paused')")
    connection.execute(
        """update schedules set
            next_at = case name when 'ended' then 'infinity' when 'active' then now() + interval '1 hour' end,
            error = case name when 'error' then 'the minute is wrong' end,
            retired_at = case name when 'retired' then now() end"""
    )
    found = statuses(app)
    assert {name: each.state for name, each in found.items()} == {name: name for name in found}
    assert len(found) == 5
    assert {name for name, each in found.items() if each.next_at} == {"active"}
    assert (found["error"].error, found["error"].description) == ("the minute is wrong", None)
    for name in found:
        assert list(statuses(app, state=name)) == [name]
    with pytest.raises(InvalidArgument, match="state must be one of active, paused"):
        statuses(app, state="lost")


def test_pages_and_searches(app: Treadle, connection: Connection[Any]) -> None:
    for nth in range(5):
        put(connection, f"Sales {nth}")
    names, after, pages = [], None, 0
    while pages == 0 or after is not None:
        page = app.database.read(schedule_queries.find_statuses(after, 2))
        names += [each.name for each in page.schedules]
        after, pages = page.next, pages + 1
        assert (page.total, page.exact) == (5, True)
    assert (names, pages) == ([f"Sales {nth}" for nth in range(5)], 3)
    assert list(statuses(app, search="sALES 3")) == ["Sales 3"]
    assert len(statuses(app, search="REP")) == 5  # the job type
    nothing = app.database.read(schedule_queries.find_statuses(search="%"))
    assert (nothing.schedules, nothing.next, nothing.total) == ([], None, 0)


@pytest.mark.fresh_database
def test_ten_thousand_schedules_cost_as_much_as_one_page(app: Treadle, connection: Connection[Any]) -> None:
    connection.execute(
        """insert into schedules (name, job_type, expression, next_at, last_job)
        select 's' || to_char(n, 'fm00000'), 'report', '0 0 * * *', now() + n * interval '1 second', new_id()
        from generate_series(1, 10000) as n;
        insert into jobs (job_type, status) select 'report', 'completed' from generate_series(1, 20000);
        insert into occurrences (schedule, scheduled_for, job_id)
        select 's' || to_char(n, 'fm00000'), now() - m * interval '1 hour', new_id()
        from generate_series(1, 1000) as n, generate_series(1, 50) as m"""
    )
    query = schedule_queries.find_statuses("s00500", 50)
    text = in_schema(statement("find_schedule_statuses"), "treadle")
    for tables in ("", "schedules, occurrences, jobs"):
        if tables:
            connection.execute(f"analyze {tables}")
        with connection.transaction(force_rollback=True):
            connection.execute(read_settings(60))
            for _ in range(2):  # the first run reads the catalog
                row = connection.execute(f"explain (analyze, buffers, format json) {text}", query.params).fetchone()
        assert row
        plan = row[0][0]["Plan"]
        # The count stops after 1,000. Of each schedule 20 occurrences are read, and their jobs by id.
        limits = {"schedules": COUNT_LIMIT + 1, "occurrences": 20, "jobs": 1}
        read = {node["Relation Name"]: node for node in nodes(plan) if "Relation Name" in node}
        assert all(node["Actual Rows"] <= limits[name] for name, node in read.items()), read
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 5000, plan
    page = app.database.read(query)
    assert (page.schedules[0].name, len(page.schedules[0].history), page.next) == ("s00501", 20, "s00550")
    assert (page.total, page.exact) == (1000, False)
