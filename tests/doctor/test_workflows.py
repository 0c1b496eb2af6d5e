"""Workflows that do not go on."""

from typing import Any

from psycopg import Connection

from tests.conftest import Connect
from tests.support.doctor import assert_ok, get_finding
from treadle import JobQueue, Treadle
from treadle.doctor import Limits, Severity

AT_ONCE = Limits(undecided=(0, 300), forgotten_batch=(0, 3600))


def test_jobs_about_which_nothing_is_decided(url: str, queue: JobQueue, connect: Connect) -> None:
    first = queue.enqueue("a")
    second = queue.enqueue("b", after=first)
    locking = connect(autocommit=False)
    locking.execute("select from jobs where id = %s for update", [second])
    queue.complete(queue.claim(["a"])[0])
    assert_ok(url, "undecided_jobs")  # not for long
    found = get_finding(url, "undecided_jobs", AT_ONCE)
    assert found.level is Severity.NOTE
    assert found.detail.startswith(f"job {second}: for ")
    assert found.remedy.endswith(f"treadle why {second}")
    locking.rollback()
    queue.claim(["a"])
    connect().execute("select tick('0')")
    assert_ok(url, "undecided_jobs", AT_ONCE)


def test_batches_that_were_left_open(app: Treadle, url: str, connection: Connection[Any]) -> None:
    batch = app.batch("import 7")
    job_id = app.queue.enqueue("a", workflow=batch)
    connection.execute("select roll_up_workflows('-infinity')")
    assert_ok(url, "forgotten_batches", AT_ONCE)  # a job is left
    app.queue.complete(app.queue.claim(["a"])[0])
    connection.execute("update jobs set finished_at = finished_at - interval '2 hours' where id = %s", [job_id])
    connection.execute("select roll_up_workflows('-infinity')")
    assert_ok(url, "forgotten_batches")  # it ended not long ago
    found = get_finding(url, "forgotten_batches", AT_ONCE)
    assert found.level is Severity.WARNING
    assert found.detail == f"{batch.id}: 1 job, the last ended 2h 00m ago"
    statement = found.remedy.split("close them: ")[1].split(";")[0]
    connection.execute(statement)
    assert_ok(url, "forgotten_batches", AT_ONCE)
