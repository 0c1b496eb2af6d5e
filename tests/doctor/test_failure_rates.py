"""Job types that fail more often than they used to: compared with their own past."""

from typing import Any

import pytest
from psycopg import Connection

from tests.support.doctor import assert_ok, get_finding
from treadle import JobQueue
from treadle.doctor import Severity
from treadle.doctor.facts import FailureRate
from treadle.doctor.rules.failures import failure_severity

NAME = "failure_rates"


def count(connection: Connection[Any], ago: int, completed: int, errors: int, job_type: str = "mail") -> None:
    """What finished in a minute, that many minutes ago."""
    connection.execute(
        """insert into minutes (minute, queue, job_type, completed, errors, failed)
        values (date_trunc('minute', clock_timestamp()) - %s * interval '1 minute', 'default', %s, %s, %s, %s)""",
        [ago, job_type, completed, errors, errors // 3],
    )


def test_a_type_that_fails_more_than_before_is_found(url: str, connection: Connection[Any]) -> None:
    for ago in range(20, 200):
        count(connection, ago, 100, 1)
        count(connection, ago, 50, 50, "flaky")
    for ago in range(1, 10):
        count(connection, ago, 20, 80)
        count(connection, ago, 48, 52, "flaky")
        count(connection, ago, 0, 1, "rare")
    found = get_finding(url, NAME)
    assert found.level is Severity.WARNING
    assert found.detail == "mail: 80% of 900 attempts failed, before that 1.0% of 18,180 (in 1d 0h)"
    assert "treadle jobs --status failed --type mail\n" in found.remedy
    statement = found.remedy[found.remedy.index("select ") :]
    connection.execute(statement.encode())
    assert connection.execute("select job_type from pauses").fetchall() == [("mail",)]
    # It is over.
    connection.execute("update minutes set minute = minute - interval '6 hours'")
    assert_ok(url, NAME)


def test_failures_of_muted_groups_do_not_count(url: str, connection: Connection[Any]) -> None:
    for ago in range(20, 200):
        count(connection, ago, 100, 1)
    count(connection, 5, 20, 80)
    connection.execute(
        """with known as (
            insert into error_groups (job_type, exception, message, first_seen, last_seen, muted_at)
            values ('mail', 'ValueError', 'no', now(), now(), now())
            returning id
        )
        insert into grouped_errors (job_id, failed_at, group_id)
        select gen_random_uuid(), clock_timestamp(), known.id from known, generate_series(1, 79)"""
    )
    assert_ok(url, NAME)
    connection.execute("update error_groups set muted_at = null")
    assert get_finding(url, NAME).level is Severity.WARNING


def test_the_counts_of_real_jobs_are_compared(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    count(connection, 60, 1000, 0)
    connection.execute("update meter set reached = clock_timestamp()")
    for number in range(30):
        queue.enqueue("mail")
        (job,) = queue.claim(["mail"])
        if number < 5:
            queue.complete(job)
        else:
            queue.fail(job, "the relay is down", final=True)
    connection.execute("select count_minutes('-1 second')")
    found = get_finding(url, NAME)
    assert found.detail.startswith("mail: 83% of 30 attempts failed, before that 0% of 1,000")


def rate(completed: int, errors: int, past_completed: int, past_errors: int) -> FailureRate:
    return FailureRate("mail", completed, errors, 0, past_completed, past_errors)


@pytest.mark.parametrize(
    ("counted", "expected"),
    [
        (rate(50, 50, 10_000, 0), Severity.WARNING),
        (rate(90, 10, 10_000, 0), Severity.WARNING),
        # It always fails a bit, or mostly.
        (rate(90, 10, 10_000, 1_000), Severity.OK),
        (rate(75, 25, 10_000, 2_000), Severity.OK),
        (rate(30, 70, 4_000, 6_000), Severity.OK),
        # It fails completely, though it used to fail mostly.
        (rate(0, 100, 4_000, 6_000), Severity.WARNING),
        # The rise is small, or the numbers are.
        (rate(96_000, 4_000, 10_000, 100), Severity.OK),
        (rate(9, 9, 10_000, 0), Severity.OK),
        (rate(11, 9, 10_000, 0), Severity.OK),
        (rate(15, 10, 40, 10), Severity.OK),
        # Without a past.
        (rate(0, 30, 0, 0), Severity.WARNING),
        (rate(20, 10, 0, 0), Severity.OK),
        # It always fails.
        (rate(0, 100, 0, 1_000), Severity.NOTE),
    ],
)
def test_only_a_clear_rise_is_reported(counted: FailureRate, expected: Severity) -> None:
    assert failure_severity(counted) is expected
