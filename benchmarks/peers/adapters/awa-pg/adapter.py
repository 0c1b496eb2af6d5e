"""Awa: a Rust core with Python handlers. `enqueue_many_copy` for many jobs, `insert` for one.

Settings, from its README and the docstring of `start`: 100 workers (500 for no-op jobs), two claimers, claims of up to
500 jobs, its default queue storage, and a pool of 20 connections. A job is recovered when its heartbeat is older than
`heartbeat_staleness_ms`, here 10 s; the leader checks for such jobs.
"""

import asyncio
import os
import sys
import time
from dataclasses import dataclass, make_dataclass
from importlib.metadata import version
from pathlib import Path

import awa

sys.path.insert(0, str(Path(__file__).parent.parent))
import peer

URL = os.environ.get("BENCH_URL", "")
BATCH = 5000


@dataclass
class Noop:
    n: int


@dataclass
class Wait5:
    n: int


@dataclass
class Stamp:
    at: float


@dataclass
class Large:
    data: str


@dataclass
class Hold:
    n: int


RESCUE = {
    "heartbeat_interval_ms": 3000,
    "heartbeat_staleness_ms": 10_000,
    "heartbeat_rescue_interval_ms": 5000,
    "leader_election_interval_ms": 2000,
}
RESCUE_TEXT = "heartbeats every 3 s, lost after 10 s, checked every 5 s"
KINDS = {"noop": Noop, "wait5": Wait5, "stamp": Stamp, "large": Large}
KINDS |= {name: make_dataclass(f"Noop{nth}", [("n", int)]) for nth, name in enumerate(peer.TEN)}


def about() -> dict:
    return {
        "name": "awa",
        "version": version("awa-pg"),
        "language": "Python on Rust",
        "store": "postgresql",
        "history": True,
        "settings": ["100 workers, 500 for no-op jobs", "2 claimers, claims of up to 500, pool of 20", RESCUE_TEXT],
        "processes": 1,
        "lease": 10,
        "recovery": "a heartbeat older than 10 s (90 s by default), checked every 5 s",
    }


async def setup() -> None:
    async with awa.AsyncClient(URL) as client:
        await client.migrate()
        # Otherwise it starts with its older tables, and switches when it has seen a worker.
        await client.install_queue_storage()


async def bulk(jobs: int, name: str) -> dict:
    async with awa.AsyncClient(URL) as client:
        await client.queue_stats()
        rows = [KINDS[peer.type_of(name, n)](n) for n in range(jobs)]
        began = time.monotonic()
        for first in range(0, jobs, BATCH):
            await client.enqueue_many_copy(rows[first : first + BATCH])
        return peer.timed(jobs, began)


async def single(seconds: float, clients: int, name: str) -> dict:
    async with awa.AsyncClient(URL, max_connections=clients) as client:
        await client.queue_stats()
        return await peer.repeat(seconds, clients, lambda n: client.insert(KINDS[name](n)))


async def produce(rate: float, seconds: float, name: str) -> dict:
    async with awa.AsyncClient(URL, max_connections=peer.PRODUCERS) as client:
        await client.queue_stats()
        return await peer.pace(rate, seconds, lambda at: client.insert(KINDS[name](**peer.payload_of(name, at))))


async def work(kind: str, concurrency: int) -> None:
    client = awa.AsyncClient(URL, max_connections=20)

    async def noop(job) -> None:
        peer.ran.one()

    for name in ("noop", *peer.TEN):
        client.task(KINDS[name])(noop)

    @client.task(Wait5)
    async def wait5(job) -> None:
        await asyncio.sleep(0.005)
        peer.ran.one()

    @client.task(Stamp)
    async def stamp(job) -> None:
        peer.ran.stamp(job.args.at)

    @client.task(Large)
    async def large(job) -> None:
        peer.ran.large(job.args.data)

    @client.task(Hold)
    async def held(job) -> None:
        peer.ran.held(job.args.n)
        await asyncio.sleep(600)

    workers = 500 if peer.is_noop(kind) else concurrency
    with peer.stopping() as stop:
        queue = {"name": "default", "max_workers": workers, "claimers": 2, "claim_batch_size": 500}
        await client.start([queue], **RESCUE)
        peer.ready()
        await stop.wait()
        await client.shutdown(1000)
        await client.close()


analyzed: list[bool] = []


async def left() -> int:
    async with awa.AsyncClient(URL) as client:
        # Its count joins new tables that autovacuum has not analyzed yet. Without this, it takes 1 min for 10,000 jobs.
        if not analyzed:
            async with await client.transaction() as transaction:
                await transaction.execute("analyze awa.ready_entries, awa.lease_claims, awa.receipt_completion_batches")
                await transaction.execute("analyze awa.lease_claim_closure_batches, awa.ready_claim_attempt_batches")
            analyzed.append(True)
        stats = await client.queue_stats()
        return sum(each.available + each.scheduled + each.retryable + each.running for each in stats)


def finished(jobs: int) -> None:
    raise NotImplementedError("it keeps finished jobs in rotating segments, which cannot be filled from outside")


async def hold(jobs: int) -> None:
    async with awa.AsyncClient(URL) as client:
        for n in range(jobs):
            await client.insert(Hold(n))


if __name__ == "__main__":
    peer.main(sys.modules[__name__])
