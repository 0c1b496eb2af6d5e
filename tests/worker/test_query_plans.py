"""The plans of statements that a worker keeps prepared while the table grows."""

from typing import Any

import pytest
from psycopg import Connection

from tests.support.workers import one
from treadle import JobQueue

pytestmark = pytest.mark.fresh_database


@pytest.mark.parametrize(
    "question",
    [
        "find_finished(%(ids)s::uuid[])",
        "find_lost_claims(%(ids)s::uuid[], %(leases)s::bigint[])",
        "find_claimed_jobs('worker-1')",
        "is_child_free_elsewhere('worker-2', '{a}', '{default}')",
        "find_unbegun('worker-1', '{}', 0, 0, 0)",
        "enqueue_unique('a', 'one')",
    ],
)
def test_a_plan_made_for_a_small_table_does_not_read_a_large_one(
    queue: JobQueue, connection: Connection[Any], question: str
) -> None:
    """A connection keeps its plans, and the table may grow meanwhile."""
    queue.enqueue_many("a", range(3))
    jobs = queue.claim(["a"], 3)
    params = {"ids": [job.id for job in jobs], "leases": [job.lease for job in jobs]}
    ask = f"select {question}".encode()
    connection.execute("vacuum analyze jobs")  # the planner believes that all of it is one page
    for _ in range(10):
        connection.execute(ask, params)
    connection.execute("insert into jobs (job_type) select 'foreign' from generate_series(1, 5000)")
    read = "select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables where relid = 'jobs'::regclass"
    with connection.transaction():
        before = one(connection, read)
        connection.execute(ask, params)
        assert one(connection, read) - before <= 10
