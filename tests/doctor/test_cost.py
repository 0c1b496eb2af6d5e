"""The cost of an examination, counted in buffers with many jobs in the table, with and without statistics."""

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import Connection

from tests.support.doctor import connected
from treadle.db.examination import _settings
from treadle.db.query import Query
from treadle.doctor import Limits
from treadle.doctor.queries import schema_queries, server_queries

FINISHED, PENDING, CLAIMED = 30_000, 15_000, 3_000


@pytest.fixture(scope="module")
def many_jobs(small_server_url: str) -> Iterator[Connection[Any]]:
    """A connection to a table with many finished, failed, pending and claimed jobs, some of them with keys."""
    with connected(small_server_url) as connection:
        connection.execute("alter table jobs set (autovacuum_enabled = off)")
        connection.execute(
            """insert into jobs (job_type, status, finished_at, crashes)
            select 'a', case when n %% 3 = 0 then 'failed' else 'completed' end, now() - n * interval '1 second', n %% 4
            from generate_series(1, %s) as n""",
            [FINISHED],
        )
        connection.execute(
            """insert into jobs (job_type, priority, key, run_at, attempts, last_error, max_attempts)
            select 'type' || n %% 20, n %% 5, case when n %% 10 = 0 then 'k' || n %% 100 end,
                now() + (n - %(number)s / 2) * interval '1 minute', n %% 3, 'broken', 9
            from generate_series(1, %(number)s) as n""",
            {"number": PENDING},
        )
        connection.execute(
            """insert into jobs (job_type, status, worker_id, claimed_at)
            select 'a', 'running', 'w' || n %% 100, now() - interval '1 day' from generate_series(1, %s) as n""",
            [CLAIMED],
        )
        connection.execute(
            """insert into workers (worker_id, lease, job_types, concurrency, version, started_at)
            select 'w' || n, interval '1 day', array(select 'type' || m from generate_series(0, 19) as m), 50, '0.1',
                now() - interval '1 day'
            from generate_series(1, 300) as n"""
        )
        connection.execute("insert into errors (job_id, attempt, error) select id, 1, 'x' from jobs where attempts > 0")
        yield connection
        connection.execute("truncate jobs, lanes, workers, errors")
        connection.execute("alter table jobs reset (autovacuum_enabled)")


def explained(connection: Connection[Any], query: Query[Any]) -> dict[str, Any]:
    for _ in range(2):  # the first run in a session reads the catalog
        with connection.transaction(force_rollback=True):
            connection.execute(_settings(30))
            text = b"explain (analyze, buffers, format json) " + query.bound("treadle")
            row = connection.execute(text, query.params).fetchone()
    assert row
    top: dict[str, Any] = row[0][0]["Plan"]
    return top


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for each in plan.get("Plans", ()):
        yield from nodes(each)


@pytest.mark.parametrize("analyzed", [False, True])
def test_no_check_scans_the_table_of_jobs(many_jobs: Connection[Any], analyzed: bool) -> None:
    if analyzed:
        many_jobs.execute("analyze jobs")
    for name, query in {**server_queries(), **schema_queries(Limits())}.items():
        plan = explained(many_jobs, query)
        for node in nodes(plan):
            if node.get("Relation Name") == "jobs":
                assert node["Node Type"] in ("Index Scan", "Index Only Scan"), (name, node)
                # At most a thousand claimed jobs, some hundred failed ones, and ten of a lane.
                assert node["Actual Rows"] <= 1000, (name, node)
        cost = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        assert cost < 10_000, (name, cost)
