"""PGQueuer on asyncpg and uvloop, the fastest of its drivers according to its "Benchmark" page.

Settings: `batch_size` 1,000 for no-op jobs and 50 (with `max_concurrent_tasks` 100) for others, lists to `enqueue`.
Durability "durable", its default: a finished job is removed from the queue, and its log rows stay. LISTEN wakes the
worker; otherwise it waits for `dequeue_timeout`, and only then notices heartbeats that are older than
`heartbeat_timeout`: 5 s and 10 s here, 30 s each by default.
"""

import asyncio
import json
import os
import sys
import time
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

import asyncpg
import uvloop
from pgqueuer import PgQueuer, Queries
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver

sys.path.insert(0, str(Path(__file__).parent.parent))
import peer

URL = os.environ.get("BENCH_URL", "")
BATCH = 1000
loop_factory = uvloop.new_event_loop


def about() -> dict:
    return {
        "name": "pgqueuer",
        "version": version("pgqueuer"),
        "language": "Python",
        "store": "postgresql",
        "history": True,
        "settings": [
            "asyncpg and uvloop",
            "batches of 1,000 for no-op jobs, 50 for others",
            "heartbeat_timeout 10 s, dequeue_timeout 5 s instead of 30 s each",
        ],
        "processes": 2,
        "lease": 10,
        "recovery": "heartbeat_timeout 10 s, then the next check, every dequeue_timeout of 5 s (30 s each by default)",
    }


async def setup() -> None:
    await Queries(AsyncpgDriver(await asyncpg.connect(URL))).install()


def payload(**fields: float | str) -> bytes:
    return json.dumps(fields).encode()


async def bulk(jobs: int, name: str) -> dict:
    queries = Queries(AsyncpgDriver(await asyncpg.connect(URL)))
    began = time.monotonic()
    for job_type, numbers in peer.batches(name, jobs, BATCH):
        rows = [payload(n=n) for n in numbers]
        await queries.enqueue([job_type] * len(rows), rows, [0] * len(rows))
    return peer.timed(jobs, began)


async def pool(connections: int) -> Queries:
    return Queries(AsyncpgPoolDriver(await asyncpg.create_pool(URL, min_size=connections, max_size=connections)))


async def single(seconds: float, clients: int, name: str) -> dict:
    queries = await pool(clients)
    return await peer.repeat(seconds, clients, lambda n: queries.enqueue(name, payload(n=n)))


async def produce(rate: float, seconds: float, name: str) -> dict:
    queries = await pool(peer.PRODUCERS)
    return await peer.pace(rate, seconds, lambda at: queries.enqueue(name, payload(**peer.payload_of(name, at))))


async def work(kind: str, concurrency: int) -> None:
    pgq = PgQueuer.from_asyncpg_connection(await asyncpg.connect(URL))

    async def noop(job) -> None:
        peer.ran.one()

    for name in ("noop", *peer.TEN):
        pgq.entrypoint(name)(noop)

    @pgq.entrypoint("wait5")
    async def wait5(job) -> None:
        await asyncio.sleep(0.005)
        peer.ran.one()

    @pgq.entrypoint("stamp")
    async def stamp(job) -> None:
        peer.ran.stamp(json.loads(job.payload)["at"])

    @pgq.entrypoint("large")
    async def large(job) -> None:
        peer.ran.large(json.loads(job.payload)["data"])

    @pgq.entrypoint("hold")
    async def held(job) -> None:
        peer.ran.held(json.loads(job.payload)["n"])
        await asyncio.sleep(600)

    batch = {"batch_size": BATCH} if peer.is_noop(kind) else {"batch_size": 50, "max_concurrent_tasks": concurrency}
    lost = {"heartbeat_timeout": timedelta(seconds=10), "dequeue_timeout": timedelta(seconds=5)}
    with peer.stopping() as stop:
        working = asyncio.create_task(pgq.run(**batch, **lost))
        await asyncio.sleep(0.2)
        peer.ready()
        await stop.wait()
        pgq.shutdown.set()
        await asyncio.wait([working], timeout=2)
        working.cancel()


async def left() -> int:
    connection = await asyncpg.connect(URL)
    found = await connection.fetchval("select count(*) from pgqueuer where status in ('queued', 'picked')")
    await connection.close()
    return found


async def finished(jobs: int) -> None:
    connection = await asyncpg.connect(URL)
    await connection.execute(
        f"""insert into pgqueuer_log (job_id, status, entrypoint, priority)
        select n, kind::pgqueuer_status, 'noop', 0
        from generate_series(1, {jobs}) n, unnest(array['queued', 'picked', 'successful']) kind"""
    )
    await connection.execute("select setval(pg_get_serial_sequence('pgqueuer', 'id'), $1)", jobs + 1)


async def hold(jobs: int) -> None:
    queries = Queries(AsyncpgDriver(await asyncpg.connect(URL)))
    await queries.enqueue(["hold"] * jobs, [payload(n=n) for n in range(jobs)], [0] * jobs)


if __name__ == "__main__":
    peer.main(sys.modules[__name__])
