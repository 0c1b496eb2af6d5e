"""What follows when a job ends, and that an ordinary job pays nothing for it."""

import re
from typing import Any

import pytest
from psycopg import Connection, errors

from tests.queue.test_limits import limit
from tests.support.flags import Flag
from treadle import JobQueue

TRIGGERS = ("job_ended", "change_job", "check_identity")


def calls(connection: Connection[Any], statement: str, params: Any = None) -> dict[str, int]:
    """How often the statement calls each trigger of UPDATEs."""
    with connection.transaction():
        connection.execute("set local track_functions = 'all'")
        connection.execute(statement, params)
        counts = connection.execute(
            "select name, pg_stat_get_xact_function_calls(name::regproc) from unnest(%s::text[]) as name",
            [list(TRIGGERS)],
        ).fetchall()
    return {name: count for name, count in counts if count}


def test_each_flag_has_one_name(connection: Connection[Any]) -> None:
    names = connection.execute(
        "select proname from pg_proc where proname like 'flag\\_%' and pronamespace = 'treadle'::regnamespace"
    ).fetchall()
    values = {
        name.removeprefix("flag_").upper(): connection.execute(f"select {name}()").fetchone() for (name,) in names
    }
    assert values == {flag.name: (flag.value,) for flag in Flag}


def test_the_flags_of_what_follows_are_the_highest(connection: Connection[Any]) -> None:
    """The conditions of the triggers compare once."""
    conditions = connection.execute(
        "select pg_get_triggerdef(oid) from pg_trigger where tgfoid = 'job_ended'::regproc"
    ).fetchall()
    assert len(conditions) == 2
    for (condition,) in conditions:
        (bound,) = re.findall(r"flags >= (\d+)", condition)
        assert {flag for flag in Flag if flag >= int(bound)} == {Flag.OPENING, Flag.COUNTING, Flag.WATCHED}


def test_a_claim_and_a_completion_call_no_trigger_for_the_job(connection: Connection[Any], queue: JobQueue) -> None:
    queue.enqueue_many("a", [{}] * 3)
    assert calls(connection, "select claim_jobs('w', '{a}', 3)") == {}
    rows = connection.execute("select id, lease from jobs order by id").fetchall()
    assert calls(connection, "select report_jobs('w', %s, %s, '{1}')", [[rows[0][0]], [rows[0][1]]]) == {}
    complete = "select complete_jobs(%s, %s, %s)"
    assert calls(connection, complete, [[rows[0][0]], [rows[0][1]], ["w"]]) == {}
    assert calls(connection, "select complete_job(%s)", [rows[1][0]]) == {}
    update = "update jobs set status = 'completed', finished_at = now() where id = %s"
    assert calls(connection, update, [rows[2][0]]) == {}
    assert connection.execute("select count(*) from jobs where status = 'completed'").fetchone() == (3,)


def test_completions_note_the_openings_of_their_limits_together(connection: Connection[Any], queue: JobQueue) -> None:
    limit(connection, 10, per="tenant")
    queue.enqueue_many("sync", [{"tenant": tenant} for tenant in "ab"] * 20)
    rows = queue.claim(["sync"], 40)
    assert len(rows) == 20
    assert queue.claim(["sync"], 40) == []
    assert connection.execute("select count(*) from lanes where limit_name is not null").fetchone() == (2,)
    connection.execute("delete from limit_openings")
    complete = "select complete_jobs(%s, %s, %s)"
    params = [[row.id for row in rows], [row.lease for row in rows], [row.worker_id for row in rows]]
    assert calls(connection, complete, params) == {}
    assert connection.execute("select key from limit_openings order by key").fetchall() == [("a",), ("b",)]


@pytest.mark.parametrize("outcome", ["retry", "failed", "cancelled", "released", "crashed"])
def test_other_ends_note_the_openings_of_their_limits_together(
    connection: Connection[Any], queue: JobQueue, outcome: str
) -> None:
    limit(connection, 10, per="tenant")
    queue.enqueue_many("sync", [{"tenant": tenant} for tenant in "ab"] * 20)
    rows = queue.claim(["sync"], 40)
    assert len(rows) == 20
    assert queue.claim(["sync"], 40) == []
    assert connection.execute("select count(*) from lanes where limit_name is not null").fetchone() == (2,)
    connection.execute("delete from limit_openings")
    settle = "select count(*) from settle_jobs(%s, %s, %s, array_fill(%s::varchar, '{20}'), p_errors => null)"
    connection.execute(settle, [rows[0].worker_id, [row.id for row in rows], [row.lease for row in rows], outcome])
    # One for each limit, not for each job.
    assert connection.execute("select key from limit_openings order by key").fetchall() == [("a",), ("b",)]
    assert len(queue.claim(["sync"], 40)) == 20


def test_only_a_job_that_has_ended_has_finished_at(connection: Connection[Any], queue: JobQueue) -> None:
    job = queue.enqueue("a")
    with pytest.raises(errors.CheckViolation) as refused:
        connection.execute("update jobs set status = 'running', lease = lease + 1, finished_at = now()")
    assert refused.value.diag.constraint_name == "valid_status"
    # A statement that only says how the job ended.
    connection.execute("update jobs set status = 'cancelled', lease = lease + 1")
    assert connection.execute("select finished_at is not null from jobs").fetchone() == (True,)
    connection.execute("update jobs set status = 'pending', lease = lease + 1")
    assert connection.execute("select finished_at is null from jobs").fetchone() == (True,)
    assert [row.id for row in queue.claim(["a"])] == [job]


@pytest.mark.parametrize("partition", ["[1]", "acme"])
def test_a_partition_is_an_object(connection: Connection[Any], queue: JobQueue, partition: str) -> None:
    queue.enqueue("a")
    queue.claim(["a"])
    invalid = (errors.CheckViolation, errors.InvalidTextRepresentation)
    with pytest.raises(invalid):
        connection.execute("update jobs set partition = %s", [partition])
    with pytest.raises(invalid):
        connection.execute("insert into jobs (job_type, partition) values ('a', %s)", [partition])


def test_a_job_of_a_workflow_is_counted_each_time_that_it_ends(connection: Connection[Any], queue: JobQueue) -> None:
    row = connection.execute("select id from enqueue_workflow('batch', '[]', '{\"is_open\": true}')").fetchone()
    assert row
    queue.enqueue_many("a", [{}] * 3, workflow=row[0])

    def counts() -> Any:
        connection.execute("select roll_up_workflows('-infinity')")
        return connection.execute("select completed, failed, cancelled from workflows").fetchone()

    claimed = queue.claim(["a"], 3)
    queue.complete_many(claimed[:2])
    connection.execute("update jobs set status = 'completed' where id = %s", [claimed[2].id])
    assert counts() == (3, 0, 0)
    for each in claimed:
        connection.execute("update jobs set status = 'failed' where id = %s", [each.id])
    assert counts() == (0, 3, 0)
    for each in claimed:
        assert connection.execute("select retry_job(%s)", [each.id]).fetchone() == (True,)
    assert counts() == (0, 0, 0)
    queue.complete_many(queue.claim(["a"], 3))
    assert counts() == (3, 0, 0)
