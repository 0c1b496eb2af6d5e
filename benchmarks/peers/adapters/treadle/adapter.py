"""Treadle, from this clone: `treadle worker` as in docs/worker.md, `enqueue_many` for many jobs, `aenqueue` for one.

Settings: concurrency 100, everything else has its default (lease 10 s, LISTEN on, a poll every second). The producer
runs on uvloop, like those of pgqueuer, oban and arq; the worker does not.
"""

import asyncio
import contextlib
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path
from uuid import uuid4

import psycopg
import uvloop

sys.path.insert(0, str(Path(__file__).parent.parent))
import peer

from treadle import Connections, JobNotFound, Treadle, events, migrate

URL = os.environ.get("BENCH_URL", "")
loop_factory = uvloop.new_event_loop
app = Treadle(URL or None, connections=Connections(pool_size=48))


@app.job
async def noop(n: int) -> None:
    peer.ran.one()


@app.job
async def wait5(n: int) -> None:
    await asyncio.sleep(0.005)
    peer.ran.one()


@app.job
async def stamp(at: float) -> None:
    peer.ran.stamp(at)


@app.job
async def large(data: str) -> None:
    peer.ran.large(data)


@app.job
async def hold(n: int) -> None:
    peer.ran.held(n)
    await asyncio.sleep(600)


JOBS = {"noop": noop, "wait5": wait5, "stamp": stamp, "large": large}
JOBS |= {name: app.job(name=name)(noop.function) for name in peer.TEN}


def about() -> dict:
    return {
        "name": "treadle",
        "version": version("treadle"),
        "language": "Python",
        "store": "postgresql",
        "history": True,
        "settings": ["treadle worker, concurrency 100", "enqueues on uvloop"],
        "processes": 1,
        "supervises": True,
        "eight_processes": "`treadle worker --processes 8`",
        "lease": 10,
        "recovery": "a lease of 10 s; 15 s at most",
    }


@app.on(events.WorkerStarted)
def _(event: events.WorkerStarted) -> None:
    peer.ready()


def setup() -> None:
    migrate(URL)


async def connect(clients: int) -> None:
    async def one() -> None:
        with contextlib.suppress(JobNotFound):
            await app.queue.aget(uuid4())

    await asyncio.gather(*(one() for _ in range(clients)))


def bulk(jobs: int, name: str) -> dict:
    with contextlib.suppress(JobNotFound):
        app.queue.get(uuid4())
    began = time.monotonic()
    for job_type, numbers in peer.batches(name, jobs, jobs):
        JOBS[job_type].enqueue_many({"n": n} for n in numbers)
    return peer.timed(jobs, began)


async def single(seconds: float, clients: int, name: str) -> dict:
    await connect(clients)
    return await peer.repeat(seconds, clients, lambda n: JOBS[name].aenqueue(n=n))


async def produce(rate: float, seconds: float, name: str) -> dict:
    await connect(peer.PRODUCERS)
    return await peer.pace(rate, seconds, lambda at: JOBS[name].aenqueue(**peer.payload_of(name, at)))


def work(kind: str, concurrency: int) -> None:
    os.chdir(Path(__file__).parent)
    command = [str(Path(sys.executable).with_name("treadle")), "worker", "adapter:app"]
    options = ["--concurrency", str(concurrency), "--processes", os.environ["BENCH_PROCESSES"]]
    os.execv(command[0], [*command, *options, "--log-level", "warning"])


def left() -> int:
    with psycopg.connect(URL) as connection:
        return connection.execute(
            "select count(*) from treadle.jobs where status in ('pending', 'claimed', 'running')"
        ).fetchone()[0]


def finished(jobs: int) -> None:
    with psycopg.connect(URL) as connection:
        # Like in benchmarks/many_jobs.py. The triggers only handle rows that are written by hand.
        connection.execute("set session_replication_role = replica")
        connection.execute(
            """insert into treadle.jobs (job_type, status, data, progress, attempts, lease, worker_id, claimed_at,
            started_at, completed_at, finished_at, run_at)
            select 'noop', 'completed', jsonb_build_object('n', n), 100, 1, 1, 'bench', now(), now(), now(), now(),
            now() from generate_series(1, %s) n""",
            [jobs],
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["hold"]:
        hold.enqueue_many({"n": n} for n in range(int(sys.argv[2])))
    else:
        peer.main(sys.modules[__name__])
