"""Connections of Django in handlers, on threads, the event loop and in child processes: they recover and are closed."""

import asyncio
from uuid import UUID

import pytest

from tests.contrib.django.conftest import Project
from tests.support.workers import auntil
from treadle import JobQueue, JobRow, Status

KEPT = {"PROJECT_CONN_MAX_AGE": "null", "PROJECT_OPTIONS": '{"application_name": "orm"}'}
CLOSED = {"PROJECT_CONN_MAX_AGE": "0", "PROJECT_OPTIONS": '{"application_name": "orm"}'}
POOLED = {"PROJECT_HEALTH_CHECKS": "1", "PROJECT_OPTIONS": '{"application_name": "orm", "pool": {"min_size": 1}}'}
SESSIONS = "select pid from pg_stat_activity where application_name = 'orm' and datname = current_database()"


def run(queue: JobQueue, *job_types: str) -> list[JobRow]:
    """Enqueue these, and wait for them."""
    return finished(queue, [queue.enqueue(each, {"order": 1}) for each in job_types])


def finished(queue: JobQueue, jobs: list[UUID]) -> list[JobRow]:
    rows: list[JobRow] = []

    def have_finished() -> bool:
        rows[:] = map(queue.get, jobs)
        return all(row.status.finished for row in rows)

    asyncio.run(auntil(have_finished))
    return rows


@pytest.mark.parametrize("environment", [KEPT, CLOSED, POOLED], ids=["kept", "closed", "pooled"])
def test_the_next_job_works_after_connections_were_lost(project: Project, environment: dict[str, str]) -> None:
    with project.worker("--concurrency", "1", "--children", "1", **environment):
        for job_type in ("pay", "apay", "pay_in_a_process", "apay_in_a_process"):
            for _ in range(2):
                project.execute("update shop_order set paid = false")
                (row,) = run(project.queue, job_type)
                assert (row.status, row.attempts) == (Status.COMPLETED, 1), row.last_error
                assert project.execute("select paid from shop_order") == [(True,)]
                project.execute(f"select pg_terminate_backend(pid, 10000) from ({SESSIONS}) as sessions")


def test_connections_are_kept_if_the_settings_say_so(project: Project) -> None:
    with project.worker("--concurrency", "1", "--children", "1", **KEPT):
        for job_type in ("pay", "pay_in_a_process"):
            first, second = (run(project.queue, job_type)[0].result for _ in range(2))
            assert first == second


def test_a_job_whose_connection_is_lost_while_it_runs_is_retried_on_another(project: Project) -> None:
    with project.worker("--concurrency", "1", **KEPT):
        (row,) = run(project.queue, "lose_its_connection")
    assert (row.status, row.attempts) == (Status.COMPLETED, 2)


def test_a_job_that_leaves_an_atomic_block_open_does_not_harm_the_next(project: Project) -> None:
    with project.worker("--concurrency", "1", **KEPT):
        left, after = run(project.queue, "leave_a_block_open", "pay")
    assert (left.status, after.status) == (Status.COMPLETED, Status.COMPLETED), after.last_error


def test_many_small_jobs_leave_no_connections(project: Project) -> None:
    """By default Django closes a connection at the end of a request, and so at the end of a job."""
    most = 0
    with project.worker("--processes", "2", "--concurrency", "10", "--children", "1", **CLOSED):
        types = ["pay", "apay"] * 195 + ["pay_in_a_process", "apay_in_a_process"] * 5
        jobs = [project.queue.enqueue(each, {"order": 1}) for each in types]
        while project.execute("select 1 from treadle.jobs where finished_at is null limit 1"):
            most = max(most, len(project.execute(SESSIONS)))
        assert all(row.status == Status.COMPLETED for row in finished(project.queue, jobs))
        asyncio.run(auntil(lambda: not project.execute(SESSIONS)))
    assert 0 < most <= 2 * (10 + 1) + 2, "one for each job at once, and those that are being closed"


def test_async_jobs_do_not_wait_for_the_queries_of_others(project: Project) -> None:
    """With one thread for all of them, as outside of a request, both would wait for the first for ever."""
    with project.worker("--concurrency", "2", **CLOSED):
        rows = run(project.queue, "meet", "meet")
    assert [row.status for row in rows] == [Status.COMPLETED] * 2
