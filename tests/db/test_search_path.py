"""What a role creates in the schema public is never called by Treadle, whatever the search path is."""

import asyncio
import logging
import os
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.conftest import SERVER
from tests.support.databases import create_database
from tests.support.graphs import fan, insert_workflow
from tests.support.strangers import create_lookalikes, drop_stranger, was_called
from tests.support.workers import run
from treadle import Job, JobFailed, JobQueue, Once, Retries, Status, Treadle, migrate
from treadle.db.database import Database
from treadle.db.migrations import migration_sql
from treadle.db.queries import events as event_queries
from treadle.db.queries import listing as listing_queries
from treadle.db.queries import snapshots as snapshot_queries
from treadle.db.queries.workflows import find_graph_jobs, find_neighbours, find_nested_edges
from treadle.doctor.examine import examine
from treadle.operations.graph import get_graph
from treadle.operations.overview import overview
from treadle.why.explain import why
from treadle.words.listing import JobFilter
from treadle.worker.worker import Worker

PATHS = {"preferred": "public, pg_catalog", "default": '"$user", public', "empty": "''"}
# Functions in SQL that the planner must inline, and that read tables: their names are resolved when they are called, by
# functions with a pinned path and by our own reads. (A body that is parsed when the function is created would make
# migrations of those tables fail.)
INLINED = {
    "count_outcomes",
    "kept_depth",
    "key_head",
    "lane_entry",
    "lane_floor",
    "lane_head",
    "lane_jobs",
    "lanes_to_display",
    "lanes_to_search",
    "limit_room",
    "limits_and_settings",
    "limits_of",
    "limits_of_job",
    "pauses_of",
    "safe_floor",
    "sample_jobs",
    "slots_in_use",
    "waiting_limits",
}


@pytest.fixture(scope="module", params=PATHS)
def lookalikes_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database with lookalikes, which the first test migrates."""
    for url in create_database(os.environ[SERVER], "template0"):
        with psycopg.connect(url, autocommit=True) as owner:
            assert create_lookalikes(owner) > 1000
            name = sql.Identifier(owner.info.dbname)
            owner.execute(sql.SQL("alter database {} set search_path = " + PATHS[request.param]).format(name))
        yield url
        with psycopg.connect(url, autocommit=True) as owner:
            drop_stranger(owner)


@pytest.fixture
def strange_url(lookalikes_url: str) -> str:
    migrate(lookalikes_url)
    with psycopg.connect(lookalikes_url, autocommit=True) as owner:
        owner.execute("delete from treadle.jobs")
    return lookalikes_url


def test_every_function_has_a_pinned_search_path_or_a_parsed_body(connection: psycopg.Connection[Any]) -> None:
    rows = connection.execute(
        """
        select proname
        from pg_proc
        where pronamespace = 'treadle'::regnamespace
          and prosqlbody is null
          and coalesce('search_path=pg_catalog, pg_temp' = any (proconfig), false) is not true
        """
    ).fetchall()
    assert {name for (name,) in rows} == INLINED


def test_a_migration_runs_no_code_of_a_stranger(lookalikes_url: str) -> None:
    migrate(lookalikes_url)
    assert migration_sql(lookalikes_url) == ""
    assert not was_called(lookalikes_url)


@pytest.mark.parametrize("schema", ["treadle", "own"])
def test_no_call_of_the_queue_runs_the_code_of_a_stranger(strange_url: str, schema: str) -> None:
    migrate(strange_url, schema)
    with JobQueue(strange_url, "worker-1", schema=schema) as queue:
        for key in ("a", "a", None, None, None):
            queue.enqueue("strange", {"a": 1}, key=key)
        ids = [*queue.enqueue_many("strange", [{}, {}]), queue.enqueue("strange", unique=Once(key="once"))]
        assert queue.enqueue("strange", unique=Once(key="once")) == ids[-1]
        first, second, third, *others = queue.claim(["strange"], 6)
        queue.start(first)
        queue.progress(first, 10, "stage")
        queue.event(first, "event", a=1)
        queue.complete(first, {"a": 1})
        queue.fail(second, "reason")
        queue.snooze(third, "1h")
        assert queue.complete_many(others[:1]) == []
        queue.release(others[1])
        queue.cancel(others[2], "reason")
        queue.retry(others[2].id)
        queue.heartbeat()
        queue.pause("strange")
        assert len(queue.pauses()) == 1
        queue.resume("strange")
        queue.claim(["strange"], 100, queues=["default"])
        assert queue.recover_stale_jobs("0s") > 0
        assert queue.get(second).status == "pending"
        assert len(queue.errors(second)) == 1
        assert queue.list(status="completed", job_type="strange", after=None).jobs
        assert queue.counts()[Status.COMPLETED] == 2
        assert queue.prune("completed", "0s") == 2
    assert not was_called(strange_url)


def test_no_statement_of_a_worker_runs_the_code_of_a_stranger(strange_url: str) -> None:
    app = Treadle(strange_url)

    @app.job(retry=Retries(0))
    async def strange(job: Job, number: int) -> int:
        logging.getLogger(__name__).warning("a line")
        job.progress(50, "half")
        job.event("event", number=number)
        await job.asave({"number": number})
        await job.astep("step", asyncio.sleep, 0)
        async with job.atransaction() as connection:
            await connection.execute("select 1")
        await asyncio.sleep(0.4)
        if number == 2:
            raise ValueError("failed")
        return number

    async def body(worker: Worker) -> None:
        handles = [await strange.aenqueue(number) for number in range(3)]
        assert [await each.aresult(30) for each in handles[:2]] == [0, 1]
        with pytest.raises(JobFailed):
            await handles[2].aresult(30)
        assert len(await handles[0].alogs()) == 1
        assert [event.name async for event in handles[0].events(follow=False)][-1] == "completed"

    run(app, body)
    assert not was_called(strange_url)


def test_a_statement_by_hand_runs_the_code_of_a_stranger_only_if_it_names_it(strange_url: str) -> None:
    """The triggers run as whoever inserts or updates."""
    with psycopg.connect(strange_url, autocommit=True) as owner:
        owner.execute("insert into treadle.jobs (job_type, key) values ('a', 'k'), ('a', 'k'), ('b', null)")
        owner.execute("update treadle.jobs set status = 'completed' where job_type operator(pg_catalog.=) 'a'")
        owner.execute("update treadle.jobs set status = 'pending', priority = 5")
        owner.execute("insert into treadle.jobs (job_type, run_at) values ('b', '2020-01-01')")
        owner.execute("select treadle.tick()")
        owner.execute("delete from treadle.jobs")
    assert not was_called(strange_url)


def test_no_read_runs_the_code_of_a_stranger(strange_url: str) -> None:
    database = Database(strange_url, "treadle")
    with JobQueue(database) as queue:
        job_id = queue.enqueue("strange", key="k")
        why(database, job_id)
        overview(database)
        examine(database)
        database.run(listing_queries.find_jobs(JobFilter(job_type="strange")))
        database.run(snapshot_queries.find_snapshots([job_id], 10))
        database.run(event_queries.find_newest_events({job_id: 0}, 10))
        with psycopg.connect(strange_url, autocommit=True, options="-c search_path=pg_catalog") as owner:
            workflow, jobs = insert_workflow(owner, fan(3))
        get_graph(database, workflow)
        database.run(find_neighbours(jobs[0], 20))
        database.run(find_graph_jobs(jobs))
        database.run(find_nested_edges(workflow, jobs))
    assert not was_called(strange_url)
