"""DBOS: durable workflows with a queue. A job is an async workflow without steps, enqueued by a DBOSClient.

Settings: the queue is polled every 10 ms (`polling_interval_sec`, 1 s by default), `worker_concurrency` 100 (unlimited
for no-op jobs), a pool of 20. There is no call that enqueues many workflows: they are enqueued from 16 threads. The
workflows of a lost process are recovered when a process with the same executor id starts, or by its commercial
Conductor.
"""

import asyncio
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path

import psycopg
from dbos import DBOS, DBOSClient

sys.path.insert(0, str(Path(__file__).parent.parent))
import peer

URL = os.environ.get("BENCH_URL", "")
THREADS = 16
CONFIG = {
    "name": "bench",
    "system_database_url": URL,
    "sys_db_pool_size": 20,
    "application_version": "1",
    "executor_id": f"bench-{os.getpid()}",
    "log_level": "ERROR",
}


@DBOS.workflow(name="noop")
async def noop(n: int) -> None:
    peer.ran.one()


@DBOS.workflow(name="wait5")
async def wait5(n: int) -> None:
    await asyncio.sleep(0.005)
    peer.ran.one()


@DBOS.workflow(name="stamp")
async def stamp(at: float) -> None:
    peer.ran.stamp(at)


@DBOS.workflow(name="large")
async def large(data: str) -> None:
    peer.ran.large(data)


def another_noop(name: str) -> None:
    @DBOS.workflow(name=name)
    async def function(n: int) -> None:
        peer.ran.one()


for name in peer.TEN:
    another_noop(name)


@DBOS.workflow(name="hold")
async def held(n: int) -> None:
    peer.ran.held(n)
    await asyncio.sleep(600)


def about() -> dict:
    return {
        "name": "dbos",
        "version": version("dbos"),
        "language": "Python",
        "store": "postgresql",
        "history": True,
        "settings": ["polling every 10 ms", "worker_concurrency 100, unlimited for no-op jobs", "pool of 20"],
        "processes": 2,
        "recovery": "when a process with the same executor id starts, or by Conductor (commercial)",
    }


def launch() -> None:
    DBOS(config=CONFIG)
    DBOS.launch()


def setup() -> None:
    launch()
    DBOS.register_queue("default", polling_interval_sec=0.01)
    DBOS.destroy()


def client(connections: int) -> DBOSClient:
    return DBOSClient(system_database_url=URL, system_database_pool_size=connections)


def put(to: DBOSClient, name: str, argument: float | str) -> None:
    to.enqueue({"workflow_name": name, "queue_name": "default", "app_version": "1"}, argument)


def bulk(jobs: int, name: str) -> dict:
    to, rest = client(THREADS), iter(range(jobs))
    to.list_workflows(limit=1)
    began = time.monotonic()

    def all_of_them() -> int:
        done = 0
        for n in rest:  # the iterator of a range is thread-safe
            put(to, peer.type_of(name, n), n)
            done += 1
        return done

    return peer.timed(peer._on_threads(all_of_them, THREADS), began)


def single(seconds: float, clients: int, name: str) -> dict:
    to = client(clients)
    to.list_workflows(limit=1)
    return peer.repeat_on_threads(seconds, clients, lambda n: put(to, name, n))


def produce(rate: float, seconds: float, name: str) -> dict:
    to = client(peer.PRODUCERS)
    to.list_workflows(limit=1)
    return peer.pace_on_threads(rate, seconds, lambda at: put(to, name, *peer.payload_of(name, at).values()))


async def work(kind: str, concurrency: int) -> None:
    launch()
    limit = None if peer.is_noop(kind) else concurrency
    await DBOS.register_queue_async(
        "default", polling_interval_sec=0.01, worker_concurrency=limit, on_conflict="always_update"
    )
    with peer.stopping() as stop:
        peer.ready()
        await stop.wait()
    peer.ran.end()
    os._exit(0)  # a normal exit would wait for running workflows


def left() -> int:
    with psycopg.connect(URL) as connection:
        return connection.execute(
            "select count(*) from dbos.workflow_status where status in ('PENDING', 'ENQUEUED', 'DELAYED')"
        ).fetchone()[0]


def finished(jobs: int) -> None:
    with psycopg.connect(URL) as connection:
        # A workflow of {"args": (0,), "kwargs": {}} that returned None, each value pickled as DBOS does.
        connection.execute(
            """with done as (
              insert into dbos.workflow_status (workflow_uuid, status, name, executor_id, application_version,
                recovery_attempts, queue_name, started_at_epoch_ms, completed_at, serialization, application_name)
              select gen_random_uuid()::text, 'SUCCESS', 'noop', 'bench', '1', 1, 'default',
                extract(epoch from now()) * 1000, extract(epoch from now()) * 1000, 'py_pickle', 'bench'
              from generate_series(1, %s)
              returning workflow_uuid, created_at
            ), given as (
              insert into dbos.workflow_input (workflow_uuid, inputs, retention_timestamp)
              select workflow_uuid, 'gASVGwAAAAAAAAB9lCiMBGFyZ3OUSwCFlIwGa3dhcmdzlH2UdS4=', created_at from done
            )
            insert into dbos.workflow_output (workflow_uuid, output, retention_timestamp)
            select workflow_uuid, 'gAROLg==', created_at from done""",
            [jobs],
        )


def hold(jobs: int) -> None:
    to = client(1)
    for n in range(jobs):
        put(to, "hold", n)


if __name__ == "__main__":
    peer.main(sys.modules[__name__])
