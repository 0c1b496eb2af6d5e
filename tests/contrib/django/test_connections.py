"""Connections of Django in handlers, on threads, the event loop and in child processes: they recover and are closed."""

import time

import pytest

from tests.contrib.django.conftest import Project
from tests.support.workers import until
from treadle import Status

CLOSED = {"PROJECT_CONN_MAX_AGE": "0", "PROJECT_OPTIONS": '{"application_name": "orm"}'}
POOLED = {"PROJECT_HEALTH_CHECKS": "1", "PROJECT_OPTIONS": '{"application_name": "orm", "pool": {"min_size": 1}}'}


@pytest.mark.parametrize(
    "environment", [CLOSED, pytest.param(POOLED, marks=pytest.mark.long)], ids=["closed", "pooled"]
)
def test_the_next_job_works_after_connections_were_lost(project: Project, environment: dict[str, str]) -> None:
    with project.worker("--concurrency", "1", "--children", "1", **environment):
        project.pay_and_lose_connections()


@pytest.mark.long
def test_many_small_jobs_leave_no_connections(project: Project) -> None:
    """By default Django closes a connection at the end of a request, and so at the end of a job."""
    most = 0
    with project.worker("--processes", "2", "--concurrency", "10", "--children", "1", **CLOSED):
        types = ["pay", "apay"] * 75 + ["pay_in_a_process", "apay_in_a_process"] * 5
        jobs = [project.queue.enqueue(each, {"order": 1}) for each in types]
        while project.execute("select 1 from treadle.jobs where finished_at is null limit 1"):
            most = max(most, len(project.sessions()))
            time.sleep(0.01)
        assert all(row.status == Status.COMPLETED for row in project.finished(jobs))
        until(lambda: not project.sessions())
    assert 0 < most <= 2 * (10 + 1) + 2, "one for each job at once, and those that are being closed"


@pytest.mark.long
def test_async_jobs_do_not_wait_for_the_queries_of_others(project: Project) -> None:
    """With one thread for all of them, as outside of a request, both would wait for the first for ever."""
    with project.worker("--concurrency", "2", **CLOSED):
        rows = project.run("meet", "meet")
    assert [row.status for row in rows] == [Status.COMPLETED] * 2
