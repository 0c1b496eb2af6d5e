"""SAQ on PostgreSQL: `Worker(concurrency=100)`, LISTEN (its default), a pool of up to 20 connections (its default).

It has no call that enqueues many jobs: `enqueue` is called concurrently on all connections of the pool. A finished job
is kept for 10 minutes (its `ttl`), then a sweep deletes it. A job runs again only if it has `retries`, which the held
jobs do: after it has been running for longer than its `timeout`, 10 s by default, at the next sweep, here every 5 s
instead of every 60 s (`timers`).
"""

import asyncio
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path

import psycopg
from saq import Worker
from saq.queue.postgres import PostgresQueue

sys.path.insert(0, str(Path(__file__).parent.parent))
import peer

URL = os.environ.get("BENCH_URL", "")


async def noop(ctx, *, n: int) -> None:
    peer.ran.one()


async def wait5(ctx, *, n: int) -> None:
    await asyncio.sleep(0.005)
    peer.ran.one()


async def stamp(ctx, *, at: float) -> None:
    peer.ran.stamp(at)


async def large(ctx, *, data: str) -> None:
    peer.ran.large(data)


async def held(ctx, *, n: int) -> None:
    peer.ran.held(n)
    await asyncio.sleep(600)


def about() -> dict:
    return {
        "name": "saq",
        "version": version("saq"),
        "language": "Python",
        "store": "postgresql",
        "history": True,
        "settings": ["concurrency 100", "pool of 20", "psycopg's C build", "LISTEN", "a sweep every 5 s"],
        "processes": 2,
        "recovery": "the job's timeout (10 s, must exceed the longest job), then a sweep every 5 s (60 s by default)",
    }


async def queue(connections: int) -> PostgresQueue:
    found = PostgresQueue.from_url(URL, min_size=connections, max_size=connections)
    await found.connect()
    await found.pool.wait()
    return found


async def setup() -> None:
    await (await queue(1)).disconnect()


async def bulk(jobs: int, name: str) -> dict:
    to, rest = await queue(20), iter(range(jobs))
    began = time.monotonic()

    async def client() -> None:
        for n in rest:
            await to.enqueue(peer.type_of(name, n), n=n)

    await asyncio.gather(*(client() for _ in range(20)))
    return peer.timed(jobs, began)


async def single(seconds: float, clients: int, name: str) -> dict:
    to = await queue(clients)
    return await peer.repeat(seconds, clients, lambda n: to.enqueue(name, n=n))


async def produce(rate: float, seconds: float, name: str) -> dict:
    to = await queue(peer.PRODUCERS)
    return await peer.pace(rate, seconds, lambda at: to.enqueue(name, **peer.payload_of(name, at)))


async def work(kind: str, concurrency: int) -> None:
    worker = Worker(
        await queue(20),
        functions=[noop, wait5, stamp, large, held, *((name, noop) for name in peer.TEN)],
        concurrency=concurrency,
        startup=lambda ctx: peer.ready(),
        shutdown_grace_period_s=1,
        timers={"sweep": 5},
    )
    await worker.start()


def left() -> int:
    with psycopg.connect(URL) as connection:
        return connection.execute(
            "select count(*) from saq_jobs where status in ('new', 'deferred', 'queued', 'active')"
        ).fetchone()[0]


def finished(jobs: int) -> None:
    with psycopg.connect(URL) as connection:
        connection.execute(
            """insert into saq_jobs (key, job, queue, status, expire_at)
            select 'saq:job:default:' || n, convert_to(json_build_object('function', 'noop', 'kwargs',
              json_build_object('n', n), 'queue', 'default', 'key', n::text,
              'status', 'complete', 'attempts', 1)::text, 'UTF8'),
              'default', 'complete', extract(epoch from now())::bigint + 86400
            from generate_series(1, %s) n""",
            [jobs],
        )


async def hold(jobs: int) -> None:
    to = await queue(1)
    for n in range(jobs):
        await to.enqueue("held", n=n, retries=10)


if __name__ == "__main__":
    peer.main(sys.modules[__name__])
