"""Oban, the Python port, free edition. Bulk inserts, bulk acknowledgements and several processes need Oban Pro.

Settings: one queue with a limit of 100 (500 for no-op jobs, because a queue fetches and acknowledges as many at a time
as it has room for), a pool of 10, and uvloop, which its command line also uses. `enqueue_many` for many jobs, `enqueue`
for one.
"""

import asyncio
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path

import psycopg
import uvloop
from oban import Oban, worker
from oban.schema import install

sys.path.insert(0, str(Path(__file__).parent.parent))
import peer

URL = os.environ.get("BENCH_URL", "")
BATCH = 1000
loop_factory = uvloop.new_event_loop


@worker(queue="default")
class Noop:
    async def process(self, job) -> None:
        peer.ran.one()


@worker(queue="default")
class Wait5:
    async def process(self, job) -> None:
        await asyncio.sleep(0.005)
        peer.ran.one()


@worker(queue="default")
class Stamp:
    async def process(self, job) -> None:
        peer.ran.stamp(job.args["at"])


@worker(queue="default")
class Large:
    async def process(self, job) -> None:
        peer.ran.large(job.args["data"])


@worker(queue="default")
class Hold:
    async def process(self, job) -> None:
        peer.ran.held(job.args["n"])
        await asyncio.sleep(600)


WORKERS = {"noop": Noop, "wait5": Wait5, "stamp": Stamp, "large": Large, "hold": Hold}
# A job names its class, so each of the ten types is one.
for nth, name in enumerate(peer.TEN):
    WORKERS[name] = worker(queue="default")(type(f"Noop{nth}", (), {"process": Noop.process, "__module__": __name__}))
    globals()[f"Noop{nth}"] = WORKERS[name]


def about() -> dict:
    return {
        "name": "oban",
        "version": version("oban"),
        "language": "Python",
        "store": "postgresql",
        "history": True,
        "settings": ["a queue with a limit of 100, or 500 for no-op jobs", "uvloop", "the free edition"],
        "processes": 2,
        "recovery": "jobs that have been running for 300 s, checked every 60 s",
    }


async def client(connections: int) -> Oban:
    pool = await Oban.create_pool(URL, min_size=connections, max_size=connections)
    await pool.wait()
    return Oban(pool=pool)


async def setup() -> None:
    pool = await Oban.create_pool(URL)
    await install(pool)
    await pool.close()


async def bulk(jobs: int, name: str) -> dict:
    oban = await client(1)
    began = time.monotonic()
    for job_type, numbers in peer.batches(name, jobs, BATCH):
        await oban.enqueue_many(WORKERS[job_type].new({"n": n}) for n in numbers)
    return peer.timed(jobs, began)


async def single(seconds: float, clients: int, name: str) -> dict:
    oban = await client(clients)
    return await peer.repeat(seconds, clients, lambda n: oban.enqueue(WORKERS[name].new({"n": n})))


async def produce(rate: float, seconds: float, name: str) -> dict:
    oban = await client(peer.PRODUCERS)
    return await peer.pace(rate, seconds, lambda at: oban.enqueue(WORKERS[name].new(peer.payload_of(name, at))))


async def work(kind: str, concurrency: int) -> None:
    pool = await Oban.create_pool(URL, min_size=4, max_size=10)
    limit = 500 if peer.is_noop(kind) else concurrency
    with peer.stopping() as stop:
        async with Oban(pool=pool, queues={"default": limit}, shutdown_grace_period=1.0):
            peer.ready()
            await stop.wait()
    await pool.close()


def left() -> int:
    with psycopg.connect(URL) as connection:
        return connection.execute(
            "select count(*) from oban_jobs where state not in ('completed', 'cancelled', 'discarded')"
        ).fetchone()[0]


def finished(jobs: int) -> None:
    with psycopg.connect(URL) as connection:
        connection.execute(
            """insert into oban_jobs (state, worker, attempt, args, attempted_at, completed_at)
            select 'completed', '__main__.Noop', 1, jsonb_build_object('n', n), timezone('UTC', now()),
            timezone('UTC', now()) from generate_series(1, %s) n""",
            [jobs],
        )


async def hold(jobs: int) -> None:
    await (await client(1)).enqueue_many(Hold.new({"n": n}) for n in range(jobs))


if __name__ == "__main__":
    peer.main(sys.modules[__name__])
