"""Connections of Django that are kept after a job, with one worker for all tests: they recover if they are lost."""

from collections.abc import Iterator

import pytest

from tests.contrib.django.conftest import Project
from tests.support.workers import until
from treadle import Status

KEPT = {"PROJECT_CONN_MAX_AGE": "null", "PROJECT_OPTIONS": '{"application_name": "orm"}'}


@pytest.fixture(scope="module")
def sessions_before_jobs(migrated: Project) -> Iterator[list[int]]:
    """The connections of Django that a worker has before its first job. The worker then runs the jobs of the tests."""
    migrated.reset()
    migrated.execute("truncate treadle.workers")
    with migrated.worker("--concurrency", "1", "--children", "1", **KEPT):
        until(lambda: bool(migrated.execute("select 1 from treadle.workers where lost_at is null")))
        yield migrated.sessions()


@pytest.fixture
def project(migrated: Project, sessions_before_jobs: object) -> Project:
    return migrated


@pytest.mark.long
def test_the_supervisor_of_a_worker_has_no_connection_of_django(sessions_before_jobs: list[int]) -> None:
    assert sessions_before_jobs == []


def test_the_next_job_works_after_connections_were_lost(project: Project) -> None:
    project.pay_and_lose_connections()


def test_connections_are_kept_if_the_settings_say_so(project: Project) -> None:
    for job_type in ("pay", "pay_in_a_process"):
        first, second = (project.run(job_type)[0].result for _ in range(2))
        assert first == second


def test_a_job_whose_connection_is_lost_while_it_runs_is_retried_on_another(project: Project) -> None:
    (row,) = project.run("lose_its_connection")
    assert (row.status, row.attempts) == (Status.COMPLETED, 2)


def test_a_job_that_leaves_an_atomic_block_open_does_not_harm_the_next(project: Project) -> None:
    project.execute("update shop_order set paid = false")
    left, after = project.run("leave_a_block_open", "pay")
    assert (left.status, after.status) == (Status.COMPLETED, Status.COMPLETED), after.last_error
    assert project.execute("select paid from shop_order") == [(True,)], "the next job has committed"
