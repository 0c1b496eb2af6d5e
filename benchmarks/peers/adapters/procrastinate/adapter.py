"""procrastinate: async tasks, `run_worker_async(concurrency=100)`, `batch_defer_async` for many, `defer_async` for one.

Settings, from its documentation ("Launch many jobs in parallel", "PsycopgConnector"): concurrency 100, a pool of 20 in
the worker, psycopg's C build. `delete_jobs` has its default, "never".

Nothing retries the jobs of a lost worker automatically. Its guide "Retry stalled jobs" uses a periodic task, so the
worker with the held jobs has that task, every 5 s, for workers without a heartbeat for 10 s.
"""

import asyncio
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path

import procrastinate
import psycopg

sys.path.insert(0, str(Path(__file__).parent.parent))
import peer

URL = os.environ.get("BENCH_URL", "")
BATCH = 1000
RETRY = "retry_stalled"


def app_with(connections: int) -> procrastinate.App:
    connector = procrastinate.PsycopgConnector(conninfo=URL, min_size=connections, max_size=connections)
    app = procrastinate.App(connector=connector)
    for function in (noop, wait5, stamp, large, held):
        app.task(function, name=function.__name__)
    for name in peer.TEN:
        app.task(noop, name=name)
    return app


async def noop(n: int) -> None:
    peer.ran.one()


async def wait5(n: int) -> None:
    await asyncio.sleep(0.005)
    peer.ran.one()


async def stamp(at: float) -> None:
    peer.ran.stamp(at)


async def large(data: str) -> None:
    peer.ran.large(data)


async def held(n: int) -> None:
    peer.ran.held(n)
    await asyncio.sleep(600)


async def retry_stalled(context, timestamp: int) -> None:
    manager = context.app.job_manager
    for job in await manager.get_stalled_jobs(seconds_since_heartbeat=10):
        await manager.retry_job(job)


def about() -> dict:
    return {
        "name": "procrastinate",
        "version": version("procrastinate"),
        "language": "Python",
        "store": "postgresql",
        "history": True,
        "settings": [
            "concurrency 100, pool of 20, psycopg's C build",
            "after a kill: update_heartbeat_interval 3 s, stalled_worker_timeout 10 s, a periodic task every 5 s",
        ],
        "processes": 2,
        "lease": 10,
        "recovery": "nothing automatic; here the periodic task of its guide, every 5 s, after 10 s without heartbeat",
    }


async def setup() -> None:
    async with app_with(1).open_async() as app:
        await app.schema_manager.apply_schema_async()


async def bulk(jobs: int, name: str) -> dict:
    async with app_with(1).open_async() as app:
        await app.check_connection_async()
        began = time.monotonic()
        for job_type, numbers in peer.batches(name, jobs, BATCH):
            await app.tasks[job_type].batch_defer_async(*({"n": n} for n in numbers))
        return peer.timed(jobs, began)


async def single(seconds: float, clients: int, name: str) -> dict:
    async with app_with(clients).open_async() as app:
        return await peer.repeat(seconds, clients, lambda n: app.tasks[name].defer_async(n=n))


async def produce(rate: float, seconds: float, name: str) -> dict:
    async with app_with(peer.PRODUCERS).open_async() as app:
        return await peer.pace(rate, seconds, lambda at: app.tasks[name].defer_async(**peer.payload_of(name, at)))


async def work(kind: str, concurrency: int) -> None:
    app = app_with(20)
    heartbeat = {}
    if kind == "hold":
        app.periodic(cron="* * * * * */5")(app.task(retry_stalled, name=RETRY, pass_context=True))
        heartbeat = {"update_heartbeat_interval": 3, "stalled_worker_timeout": 10}
    async with app.open_async():
        working = asyncio.create_task(
            app.run_worker_async(concurrency=concurrency, shutdown_graceful_timeout=1, **heartbeat)
        )
        await asyncio.sleep(0.2)
        peer.ready()
        await working


def left() -> int:
    with psycopg.connect(URL) as connection:
        return connection.execute(
            "select count(*) from procrastinate_jobs where status in ('todo', 'doing') and task_name <> %s", [RETRY]
        ).fetchone()[0]


def finished(jobs: int) -> None:
    with psycopg.connect(URL) as connection:
        connection.execute(
            """with done as (
              insert into procrastinate_jobs (queue_name, task_name, args, status, attempts)
              select 'default', 'noop', jsonb_build_object('n', n), 'succeeded', 1 from generate_series(1, %s) n
              returning id
            )
            insert into procrastinate_events (job_id, type) select id, kind::procrastinate_job_event_type
            from done, unnest(array['started', 'succeeded']) kind""",
            [jobs],
        )


async def hold(jobs: int) -> None:
    async with app_with(1).open_async() as app:
        await app.tasks["held"].batch_defer_async(*({"n": n} for n in range(jobs)))


if __name__ == "__main__":
    peer.main(sys.modules[__name__])
