"""What jobs that wait for others cost: claims beside them, and a fan-out and fan-in against a plain drain."""

import json
import time
from collections.abc import Iterator
from typing import Any

from psycopg import Connection

from benchmarks.lanes.server import connect
from benchmarks.lanes.statements import buffers, claim_cost, settle, tick_cost
from benchmarks.lanes.workers import drain_enqueued
from treadle.db.queries import workflows as queries

ENQUEUE = """
    select array_agg(id)
    from treadle.enqueue_with_options(
        %s, array_fill('{}'::text, array[%s::int]), jsonb_build_object('after', %s::jsonb)
    )"""


ADD = """
    select count(*)
    from treadle.enqueue_with_options(
        %s, array_fill('{}'::text, array[%s::int]), jsonb_build_object('workflow', %s::jsonb)
    )"""


def fan(url: str, jobs: int, processes: int, waits: bool) -> dict[str, float]:
    """One job, all others after it, and one after all of them; or the same jobs, and none of them waits."""

    def enqueue_all(connection: Connection[Any]) -> None:
        with connection.transaction():
            first = _enqueue(connection, 1)
            others = []
            for begin in range(0, jobs - 2, 5000):
                others += _enqueue(connection, min(5000, jobs - 2 - begin), first if waits else None)
            _enqueue(connection, 1, others if waits else None)

    return drain_enqueued(url, jobs, processes, enqueue_all)


def batch(url: str, jobs: int, processes: int) -> dict[str, float]:
    """A batch with a callback: how fast it is enqueued and drained, how long after its last job the callback starts,
    and what its counts cost when all is done."""
    times: dict[str, float] = {}

    def enqueue_all(connection: Connection[Any]) -> None:
        block = {"job_type": "type1", "data": ["{}"], "after": [{"nth": -1}]}
        row = connection.execute(
            "select id from treadle.enqueue_workflow('batch', %s, '{\"is_open\": true}') order by nth desc limit 1",
            [json.dumps([block])],
        ).fetchone()
        assert row
        begin = time.perf_counter()
        for first in range(0, jobs, 5000):
            connection.execute(ADD, ["type0", min(5000, jobs - first), json.dumps({"id": str(row[0])})])
        times["enqueued/s"] = jobs / (time.perf_counter() - begin)
        connection.execute("select treadle.close_workflow(%s)", [row[0]])

    found = drain_enqueued(url, jobs, processes, enqueue_all, more=2)
    with connect(url) as connection:
        times["callback ms"] = _one(
            connection,
            """select extract(epoch from callback.claimed_at - (
                select max(finished_at) from treadle.jobs where job_type = 'type0'
            )) * 1000 from treadle.jobs as callback where job_type = 'type1'""",
        )
        workflow = connection.execute("select id from treadle.workflows").fetchone()
        assert workflow
        query = queries.count_members(workflow[0])
        times["counts buffers"] = buffers(connection, query.text, query.params)
    return {**found, **times}


def _one(connection: Connection[Any], question: str) -> float:
    row = connection.execute(question).fetchone()
    assert row
    return float(row[0])


def waiting_jobs(url: str, jobs: int) -> Iterator[tuple[str, dict[str, float]]]:
    """A claim of 10 other jobs without these, and beside them: each waits for a job that is due in an hour."""
    with connect(url) as connection:
        connection.execute("select treadle.enqueue_jobs('type0', array_fill('{}'::text, '{2000}'))")
        settle(connection)
        alone = claim_cost(connection, ["sync", "type0"], tick=True)
        yield "without", {**alone, **tick_cost(connection), "to without": 1.0}
        row = connection.execute("select treadle.enqueue('sync', p_delay => '1 hour')").fetchone()
        assert row
        for begin in range(0, jobs, 5000):
            _enqueue(connection, min(5000, jobs - begin), [row[0]], "sync")
        settle(connection)
        cost = claim_cost(connection, ["sync", "type0"], tick=True)
        ratio = cost["claim buffers"] / alone["claim buffers"]
        yield f"{jobs:,} wait", {**cost, **tick_cost(connection), "to without": ratio}


def _enqueue(
    connection: Connection[Any], count: int, after: list[Any] | None = None, job_type: str = "type0"
) -> list[Any]:
    records = None if after is None else json.dumps([{"id": str(each)} for each in after])
    row = connection.execute(ENQUEUE, [job_type, count, records]).fetchone()
    assert row
    ids: list[Any] = row[0]
    return ids
