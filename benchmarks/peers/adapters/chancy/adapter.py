"""Chancy with its AsyncExecutor, "useful for running large numbers of IO-bound jobs", and `eager_polling`.

Settings: a queue with concurrency 100 (1,000 for no-op jobs, because it fetches as many as it has room for), its
default plugins, and psycopg's C build. `push_many` for many jobs, `push` for one. Held jobs have three attempts;
otherwise none would run again.

A worker without a heartbeat for `heartbeat_timeout` is lost. The leader checks for lost workers, and may itself be the
lost one. All of these intervals are settings (Worker, Recovery, Leadership) with defaults of a minute or more; here the
timeout is 10 s, checked every 5 s.
"""

import asyncio
import logging
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path

import psycopg
from chancy import Chancy, Job, Queue, Worker
from chancy.plugins.leadership import Leadership
from chancy.plugins.recovery import Recovery

sys.path.insert(0, str(Path(__file__).parent.parent))
import peer

URL = os.environ.get("BENCH_URL", "")


async def noop(*, n: int) -> None:
    peer.ran.one()


async def wait5(*, n: int) -> None:
    await asyncio.sleep(0.005)
    peer.ran.one()


async def stamp(*, at: float) -> None:
    peer.ran.stamp(at)


async def held(*, n: int) -> None:
    peer.ran.held(n)
    await asyncio.sleep(600)


async def large(*, data: str) -> None:
    peer.ran.large(data)


FUNCTIONS = {"noop": noop, "wait5": wait5, "stamp": stamp, "large": large}


def another_noop(name: str):
    """Return a function of its own, because a job names its function."""

    async def function(*, n: int) -> None:
        peer.ran.one()

    function.__name__ = function.__qualname__ = name
    return function


for name in peer.TEN:
    globals()[name] = FUNCTIONS[name] = another_noop(name)


def about() -> dict:
    return {
        "name": "chancy",
        "version": version("chancy"),
        "language": "Python",
        "store": "postgresql",
        "history": True,
        "settings": [
            "AsyncExecutor, eager_polling, psycopg's C build",
            "concurrency 100, 1,000 for no-op jobs",
            "heartbeat_poll_interval 3 s, heartbeat_timeout 10 s, Leadership and Recovery every 5 s",
        ],
        "processes": 2,
        "lease": 10,
        "recovery": "heartbeat_timeout 10 s (90 s by default), Recovery every 5 s (60 s), if attempts are left",
    }


def chancy(connections: int = 10) -> Chancy:
    log = logging.getLogger("chancy")
    log.setLevel(logging.WARNING)
    return Chancy(
        URL,
        min_connection_pool_size=connections,
        max_connection_pool_size=connections,
        log=log,
        plugins=[Leadership(poll_interval=5, timeout=10), Recovery(poll_interval=5)],
    )


def queue(concurrency: int) -> Queue:
    return Queue(
        "default", concurrency=concurrency, executor=Chancy.Executor.Async, polling_interval=1, eager_polling=True
    )


def job(function, attempts: int = 1, **arguments: float | str) -> Job:
    return Job.from_func(function, max_attempts=attempts).with_kwargs(**arguments)


async def setup() -> None:
    async with chancy(1) as app:
        await app.migrate()
        await app.declare(queue(100))


async def bulk(jobs: int, name: str) -> dict:
    async with chancy(1) as app:
        await app.pool.wait()
        rows = [job(FUNCTIONS[peer.type_of(name, n)], n=n) for n in range(jobs)]
        began = time.monotonic()
        async for _ in app.push_many(rows):
            pass
        return peer.timed(jobs, began)


async def single(seconds: float, clients: int, name: str) -> dict:
    async with chancy(clients) as app:
        await app.pool.wait()
        return await peer.repeat(seconds, clients, lambda n: app.push(job(FUNCTIONS[name], n=n)))


async def produce(rate: float, seconds: float, name: str) -> dict:
    async with chancy(peer.PRODUCERS) as app:
        await app.pool.wait()
        return await peer.pace(rate, seconds, lambda at: app.push(job(FUNCTIONS[name], **peer.payload_of(name, at))))


async def work(kind: str, concurrency: int) -> None:
    async with chancy() as app:
        await app.declare(queue(1000 if peer.is_noop(kind) else concurrency), upsert=True)
        with peer.stopping() as stop:
            async with Worker(
                app,
                register_signal_handlers=False,
                shutdown_timeout=2,
                heartbeat_poll_interval=3,
                heartbeat_timeout=10,
            ):
                peer.ready()
                await stop.wait()


def left() -> int:
    with psycopg.connect(URL) as connection:
        return connection.execute(
            "select count(*) from chancy_jobs where state not in ('succeeded', 'failed')"
        ).fetchone()[0]


def finished(jobs: int) -> None:
    with psycopg.connect(URL) as connection:
        connection.execute(
            """insert into chancy_jobs (id, queue, func, kwargs, state, attempts, started_at, completed_at)
            select gen_random_uuid(), 'default', '__main__.noop', json_build_object('n', n), 'succeeded', 1, now(),
            now()
            from generate_series(1, %s) n""",
            [jobs],
        )


async def hold(jobs: int) -> None:
    async with chancy(1) as app:
        for n in range(jobs):
            await app.push(job(held, attempts=3, n=n))


if __name__ == "__main__":
    peer.main(sys.modules[__name__])
