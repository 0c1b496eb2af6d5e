"""The cost of `why` does not depend on the rest of the table. It is counted in buffers, not in time."""

from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from tests.support.buffers import buffers
from tests.support.why import register_worker
from treadle import JobQueue
from treadle.db.query import in_schema
from treadle.db.runner import read_settings
from treadle.why.queries import get_job_facts

pytestmark = pytest.mark.fresh_database

MANY = 20_000

OBSTACLES = {
    "finished": "insert into jobs (job_type, status, key) select 'mail', 'completed', 'k' from generate_series(1, %s)",
    "other types": "insert into jobs (job_type, priority) select 'foreign', 150 from generate_series(1, %s)",
    "due later": "select enqueue_jobs('mail', array_fill('{}'::text, array[%s]), p_delay => '1 day')",
    "behind it": "insert into jobs (job_type) select 'mail' from generate_series(1, %s)",
    "blocked by its key": "insert into jobs (job_type, key, holds) select 'mail', 'k', 1 from generate_series(1, %s)",
    "claimed by other workers": """insert into jobs (job_type, status, worker_id)
        select 'foreign', 'running', 'another' from generate_series(1, %s)""",
    "errors of other jobs": """insert into errors (job_id, attempt, error)
        select new_id(), 1, '' from generate_series(1, %s)""",
    "audit of other jobs": """insert into audit (actor, action, job_id)
        select 'ada', 'cancel', new_id() from generate_series(1, %s)""",
    "past minutes": """insert into minutes (minute, queue, job_type, completed)
        select now() - n * interval '10 minutes', '', 'mail', 1 from generate_series(1, %s) as n""",
}


def cost(connection: Connection[Any], job_id: UUID) -> int:
    text = in_schema(get_job_facts(UUID(int=0)).text, "treadle")
    with connection.transaction(force_rollback=True):
        connection.execute(read_settings(60))
        return buffers(connection, text, {"id": job_id})


@pytest.mark.parametrize("what", OBSTACLES)
def test_the_cost_is_the_same_with(queue: JobQueue, connection: Connection[Any], what: str) -> None:
    register_worker(connection)
    connection.execute("analyze jobs, errors, audit, minutes")
    queue.enqueue_many("mail", [{}] * 100)
    queue.enqueue("mail", key="k")
    pending = queue.enqueue("mail", key="k")
    finished = queue.enqueue("mail")
    queue.cancel(finished)
    before = [cost(connection, each) for each in (pending, finished)]
    connection.execute(OBSTACLES[what], [MANY])
    # Autovacuum can run at any time: the other tables have statistics, and the jobs are tested with and without.
    for statistics in ("errors, audit, minutes", "jobs"):
        connection.execute(f"analyze {statistics}")
        after = [cost(connection, each) for each in (pending, finished)]
        for few, many in zip(before, after, strict=True):
            assert many < few * 1.5 + 50, (what, statistics, before, after)


def test_jobs_beyond_the_counting_limit_are_not_read(queue: JobQueue, connection: Connection[Any]) -> None:
    register_worker(connection)
    queue.enqueue_many("mail", [{}] * 12_000)
    made = queue.enqueue("mail")
    before = cost(connection, made)
    connection.execute(
        """insert into jobs (job_type, run_at)
        select 'mail', now() - interval '1 day' from generate_series(1, %s)""",
        [MANY],
    )
    assert cost(connection, made) < before * 1.5


def test_the_cost_is_the_same_with_many_keys_of_its_limit(queue: JobQueue, connection: Connection[Any]) -> None:
    register_worker(connection)
    connection.execute("select set_limit('mail', 2, p_job_type => 'mail', p_per => 'tenant')")
    connection.execute("analyze jobs, lanes, limit_keys, limit_holders")
    queue.enqueue_many("mail", [{"tenant": "acme"}] * 5)
    for _ in range(2):
        queue.claim(["mail"])
    waits = queue.enqueue("mail", {"tenant": "acme"})
    before = cost(connection, waits)
    connection.execute(
        "insert into limit_keys (name, key) select 'mail', 't' || n from generate_series(1, %s) as n", [MANY]
    )
    connection.execute(
        """insert into limit_holders (name, key, version, jobs, leases, weights, weight)
        select 'mail', 't' || n, 1, '{}', '{}', '{}', 0 from generate_series(1, %s) as n""",
        [MANY],
    )
    for statistics in ("errors", "limit_keys, limit_holders"):
        connection.execute(f"analyze {statistics}")
        assert cost(connection, waits) < before * 1.5 + 50


def test_the_cost_does_not_grow_with_the_lanes(queue: JobQueue, connection: Connection[Any]) -> None:
    """Each key of a limit has a lane of its own; those that wait for the limit are not counted."""
    register_worker(connection)
    made = queue.enqueue("mail")
    few = cost(connection, made)
    connection.execute("set session_replication_role = replica")
    lanes = """insert into lanes (queue, job_type, priority, partition, limit_name, limit_key, dormant_xid)
        select 'default', 'mail', 100, format('{"tenant": "%%s"}', n), %s, %s, '3' from generate_series(1, %s) as n"""
    connection.execute(lanes, ["mail", "acme", MANY])
    connection.execute("analyze lanes")
    assert cost(connection, made) < few * 1.5 + 50
    connection.execute("update lanes set dormant_xid = null, limit_name = null, limit_key = null")
    connection.execute("vacuum analyze lanes")
    assert cost(connection, made) < 10_000
