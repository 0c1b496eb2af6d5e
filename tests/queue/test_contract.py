"""The SQL statements of the specification, run unchanged with our schema on the search path."""

from datetime import timedelta
from typing import Any

import pytest
from psycopg import Connection, errors

from tests.support.waiting import until_floors_pass
from treadle import JobQueue, Priority

COLUMNS = {
    "id": ("uuid", "NO"),
    "job_type": ("character varying(50)", "NO"),
    "priority": ("integer", "NO"),
    "status": ("character varying(20)", "NO"),
    "data": ("jsonb", "NO"),
    "progress": ("integer", "YES"),
    "current_stage": ("character varying(100)", "YES"),
    "events_count": ("integer", "YES"),
    "worker_id": ("character varying(100)", "YES"),
    "claimed_at": ("timestamp with time zone", "YES"),
    "created_at": ("timestamp with time zone", "YES"),
    "started_at": ("timestamp with time zone", "YES"),
    "completed_at": ("timestamp with time zone", "YES"),
    "attempts": ("integer", "YES"),
    "max_attempts": ("integer", "YES"),
    "last_error": ("text", "YES"),
}


def insert(connection: Connection[Any], job_type: str = "resize", **columns: object) -> Any:
    names = ", ".join(["job_type", *columns])
    marks = ", ".join(["%s"] * (len(columns) + 1))
    row = connection.execute(
        f"insert into jobs ({names}) values ({marks}) returning id", [job_type, *columns.values()]
    ).fetchone()
    assert row
    return row[0]


def claim(connection: Connection[Any], types: str = "{resize}", size: int = 10, worker: str = "w") -> list[Any]:
    rows = connection.execute("select id from claim_job_batch(%s, %s, %s)", [worker, types, size]).fetchall()
    return [row[0] for row in rows]


def job(connection: Connection[Any], job_id: object) -> dict[str, Any]:
    cursor = connection.execute("select * from jobs where id = %s", [job_id])
    row = cursor.fetchone()
    assert row
    assert cursor.description
    return dict(zip([column.name for column in cursor.description], row, strict=True))


def test_the_table_has_the_specified_columns(connection: Connection[Any]) -> None:
    rows = connection.execute(
        """select a.attname, format_type(a.atttypid, a.atttypmod), case when a.attnotnull then 'NO' else 'YES' end
        from pg_attribute as a where a.attrelid = 'jobs'::regclass and a.attnum > 0"""
    ).fetchall()
    found = {name: (kind, nullable) for name, kind, nullable in rows}
    assert {name: found.get(name) for name in COLUMNS} == COLUMNS


def test_a_plain_insert_gets_the_specified_defaults(connection: Connection[Any]) -> None:
    row = job(connection, insert(connection))
    assert (row["priority"], row["status"], row["data"], row["progress"]) == (100, "pending", {}, 0)
    assert (row["events_count"], row["attempts"], row["max_attempts"]) == (0, 0, 3)
    assert row["created_at"] is not None
    assert row["current_stage"] is row["worker_id"] is row["claimed_at"] is row["last_error"] is None


def test_the_status_is_checked_by_a_constraint_named_valid_status(connection: Connection[Any]) -> None:
    for status in ("pending", "claimed", "running", "completed", "failed", "cancelled"):
        insert(connection, status=status)
    with pytest.raises(errors.CheckViolation) as refused:
        insert(connection, status="sleeping")
    assert refused.value.diag.constraint_name == "valid_status"


def test_the_two_partial_indexes_exist(connection: Connection[Any]) -> None:
    rows = connection.execute("select indexname, indexdef from pg_indexes where schemaname = 'treadle'").fetchall()
    indexes = dict(rows)
    assert "priority DESC" in indexes["idx_jobs_claimable"]
    assert "'pending'" in indexes["idx_jobs_claimable"].split("WHERE")[1]
    assert "(worker_id)" in indexes["idx_jobs_worker"]
    assert all(status in indexes["idx_jobs_worker"].split("WHERE")[1] for status in ("'claimed'", "'running'"))


def test_the_claim_function_has_the_specified_signature(connection: Connection[Any]) -> None:
    row = connection.execute(
        """select pg_get_function_arguments(oid), pg_get_function_result(oid)
        from pg_proc where proname = 'claim_job_batch'"""
    ).fetchone()
    assert row == (
        "p_worker_id character varying, p_job_types character varying[], p_batch_size integer DEFAULT 10",
        "SETOF jobs",
    )


def test_a_plain_insert_can_be_claimed_at_once(connection: Connection[Any]) -> None:
    job_id = insert(connection)
    assert claim(connection) == [job_id]
    row = job(connection, job_id)
    assert (row["status"], row["worker_id"], row["attempts"]) == ("claimed", "w", 1)
    assert row["claimed_at"] is not None


def test_a_claim_takes_ten_by_default_and_only_the_given_types(connection: Connection[Any]) -> None:
    connection.execute("insert into jobs (job_type) select 'resize' from generate_series(1, 15)")
    insert(connection, "other")
    rows = connection.execute("select job_type from claim_job_batch('w', array['resize'])").fetchall()
    assert rows == [("resize",)] * 10
    assert len(claim(connection, "{resize,unknown}")) == 5
    assert claim(connection) == []


def test_a_claim_takes_the_highest_priority_then_the_oldest_job(connection: Connection[Any]) -> None:
    old = insert(connection, created_at="2020-01-01")
    urgent = insert(connection, priority=150)
    older = insert(connection, created_at="2019-01-01")
    backfill = insert(connection, priority=30, created_at="2018-01-01")
    now = insert(connection)
    assert claim(connection) == [urgent, older, old, now, backfill]


def test_a_job_with_a_created_at_below_the_floor_is_claimed(connection: Connection[Any]) -> None:
    connection.execute("insert into jobs (job_type) select 'resize' from generate_series(1, 20)")
    done = claim(connection, size=100)
    connection.execute("update jobs set status = 'completed' where id = any (%s)", [done])
    until_floors_pass(connection, job(connection, done[-1])["run_at"], touch=True)
    dated_back = insert(connection, created_at="2019-01-01")
    assert claim(connection) == [dated_back]


def test_a_job_without_attempts_left_is_not_claimed(connection: Connection[Any]) -> None:
    insert(connection, attempts=3)
    insert(connection, max_attempts=0)
    assert claim(connection) == []


def test_a_job_is_completed_by_a_plain_update(connection: Connection[Any]) -> None:
    job_id = insert(connection)
    claim(connection)
    connection.execute(
        "update jobs set status = 'completed', progress = 100, completed_at = now() where id = %s", [job_id]
    )
    row = job(connection, job_id)
    assert (row["status"], row["progress"], row["worker_id"]) == ("completed", 100, "w")
    assert row["completed_at"] is not None
    assert row["finished_at"] is not None
    assert claim(connection) == []


FAIL = """
    update jobs set
        status = case when attempts >= max_attempts then 'failed' else 'pending' end,
        last_error = %s, worker_id = null, claimed_at = null
    where id = %s
"""


def test_a_job_fails_by_plain_updates_until_no_attempts_are_left(connection: Connection[Any]) -> None:
    job_id = insert(connection)
    for attempt in (1, 2, 3):
        assert claim(connection) == [job_id]
        connection.execute(FAIL, [f"error {attempt}", job_id])
        row = job(connection, job_id)
        assert row["status"] == ("failed" if attempt == 3 else "pending")
        assert (row["last_error"], row["worker_id"], row["claimed_at"]) == (f"error {attempt}", None, None)
    assert claim(connection) == []
    assert job(connection, job_id)["finished_at"] is not None


def test_a_stale_job_is_recovered_by_a_plain_update(connection: Connection[Any]) -> None:
    job_id = insert(connection)
    claim(connection)
    connection.execute("update jobs set claimed_at = now() - interval '10 minutes' where id = %s", [job_id])
    connection.execute(
        """update jobs set status = 'pending', worker_id = null, claimed_at = null
        where status in ('claimed', 'running') and claimed_at < now() - interval '5 minutes'"""
    )
    assert claim(connection, worker="x") == [job_id]
    assert job(connection, job_id)["attempts"] == 2


def test_a_job_made_pending_by_a_plain_update_is_claimed(connection: Connection[Any]) -> None:
    first, second = insert(connection), insert(connection)
    assert claim(connection) == [first, second]
    connection.execute("update jobs set status = 'completed' where id = %s", [second])
    until_floors_pass(connection, job(connection, first)["run_at"], touch=True)
    connection.execute("update jobs set status = 'pending' where id = %s", [first])
    assert claim(connection) == [first]


def test_a_plain_update_of_priority_or_type_moves_the_job_to_another_lane(connection: Connection[Any]) -> None:
    first, second = insert(connection), insert(connection)
    connection.execute("update jobs set priority = 7000 where id = %s", [second])
    connection.execute("update jobs set job_type = 'brand-new' where id = %s", [first])
    assert claim(connection) == [second]
    assert claim(connection, "{brand-new}") == [first]


def test_job_queue_is_the_client_of_the_specification(queue: JobQueue, connection: Connection[Any]) -> None:
    first, second = queue.enqueue("resize", {"n": 1}), queue.enqueue("resize", priority=Priority.EXPLICIT)
    claimed = queue.claim(["resize"], batch_size=5)
    assert [row.id for row in claimed] == [second, first]
    queue.complete(second)
    queue.fail(first, "no disk")
    done, failed = job(connection, second), job(connection, first)
    assert (done["status"], done["progress"], done["completed_at"] is not None) == ("completed", 100, True)
    assert (failed["status"], failed["last_error"], failed["worker_id"]) == ("pending", "no disk", None)


def test_without_heartbeats_a_job_is_stale_by_the_age_of_its_claim(
    queue: JobQueue, connection: Connection[Any]
) -> None:
    job_id = queue.enqueue("resize")
    assert queue.recover_stale_jobs(timedelta(minutes=5)) == 0
    queue.claim(["resize"])
    assert queue.recover_stale_jobs(timedelta(minutes=5)) == 0
    connection.execute("update jobs set claimed_at = now() - interval '10 minutes' where id = %s", [job_id])
    assert queue.recover_stale_jobs(timedelta(minutes=5)) == 1
    assert queue.get(job_id).status == "pending"


def test_the_priority_names_have_the_specified_values() -> None:
    assert (Priority.EXPLICIT, Priority.DISCOVERED, Priority.BACKFILL) == (150, 100, 30)
