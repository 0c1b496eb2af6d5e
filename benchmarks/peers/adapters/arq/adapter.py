"""arq on Redis (arq-docs.helpmanual.io): one event loop, `max_jobs` concurrent jobs, uvloop, results not kept.

A worker polls for jobs every `poll_delay`, 0.5 s by default; here every 1 ms, so an idle worker polls 1,000 times per
second. There is no call that enqueues many jobs: they are enqueued concurrently, on 50 connections.

A job stays in the queue until it has run, and a key marks it as in progress, so a crash loses no job: other workers
take it when that key expires, `job_timeout` + 10 s after the start. The timeout must be longer than the longest job.
"""

import asyncio
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

import uvloop
from arq import create_pool
from arq.connections import ArqRedis, RedisSettings
from arq.constants import default_queue_name
from arq.version import VERSION
from arq.worker import Worker, func

sys.path.insert(0, str(Path(__file__).parent.parent))
import peer

URL = os.environ.get("BENCH_REDIS", "redis://")
ENQUEUERS = 50
loop_factory = uvloop.new_event_loop


def about() -> dict:
    return {
        "name": "arq",
        "version": str(VERSION),
        "language": "Python",
        "store": "redis",
        "history": False,
        "settings": [
            "max_jobs 100, poll_delay 1 ms, keep_result 0, log_results off",
            "hiredis and uvloop",
            "bulk: 50 concurrent calls, there is no bulk call",
        ],
        # Two workers would read the same head of the queue, and each job would cost nearly twice as much.
        "processes": 1,
        "recovery": "job_timeout (300 s by default, must be longer than the longest job) + 10 s",
    }


async def connect(connections: int) -> ArqRedis:
    settings = RedisSettings.from_dsn(URL)
    settings.max_connections = connections
    pool = await create_pool(settings)
    await asyncio.gather(*(pool.ping() for _ in range(connections)))
    return pool


def setup() -> None:
    pass


async def bulk(jobs: int, name: str) -> dict:
    pool = await connect(ENQUEUERS)
    numbers = iter(range(jobs))

    async def enqueuer() -> None:
        for n in numbers:
            await pool.enqueue_job(peer.type_of(name, n), n=n)

    began = time.monotonic()
    await asyncio.gather(*(enqueuer() for _ in range(ENQUEUERS)))
    return peer.timed(jobs, began)


async def single(seconds: float, clients: int, name: str) -> dict:
    pool = await connect(clients)
    return await peer.repeat(seconds, clients, lambda n: pool.enqueue_job(name, n=n))


async def produce(rate: float, seconds: float, name: str) -> dict:
    pool = await connect(peer.PRODUCERS)
    return await peer.pace(rate, seconds, lambda at: pool.enqueue_job(name, **peer.payload_of(name, at)))


async def hold(jobs: int) -> None:
    pool = await connect(1)
    for n in range(jobs):
        await pool.enqueue_job("hold", n=n)


async def noop(ctx: dict, n: int) -> None:
    peer.ran.one()


async def wait5(ctx: dict, n: int) -> None:
    await asyncio.sleep(0.005)
    peer.ran.one()


async def stamp(ctx: dict, at: float) -> None:
    peer.ran.stamp(at)


async def large(ctx: dict, data: str) -> None:
    peer.ran.large(data)


async def held(ctx: dict, n: int) -> None:
    peer.ran.held(n)
    await asyncio.sleep(600)


held.__qualname__ = "hold"


async def work(kind: str, concurrency: int) -> None:
    logging.disable()
    worker = Worker(
        [noop, wait5, stamp, large, held, *(func(noop, name=name) for name in peer.TEN)],
        redis_settings=RedisSettings.from_dsn(URL),
        max_jobs=concurrency,
        poll_delay=0.001,
        keep_result=0,
        log_results=False,
        handle_signals=False,
    )
    with peer.stopping() as stop:
        running = asyncio.ensure_future(worker.async_run())
        peer.ready()
        stopped: Any = asyncio.ensure_future(stop.wait())
        await asyncio.wait([running, stopped], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        running.cancel()
        for task in worker.tasks.values():
            task.cancel()


async def left() -> int:
    pool = await create_pool(RedisSettings.from_dsn(URL))
    found = await pool.zcard(default_queue_name)
    await pool.aclose()
    return int(found)


if __name__ == "__main__":
    peer.main(sys.modules[__name__])
