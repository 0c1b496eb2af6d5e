"""The baseline, without a queue: the table and the two indexes of the contract, and a psycopg loop that claims 1,000
rows, calls a function for each, and marks them completed in one statement. No retries, no leases, no notifications.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

import psycopg

sys.path.insert(0, str(Path(__file__).parent.parent))
import peer

URL = os.environ.get("BENCH_URL", "")
BATCH = 1000
TABLE = """
create table jobs (
  id uuid primary key default {new_id}(), job_type varchar(50) not null, priority int not null default 100,
  status varchar(20) not null default 'pending', data jsonb not null default '{{}}', progress int default 0,
  current_stage varchar(100), events_count int default 0, worker_id varchar(100), claimed_at timestamptz,
  created_at timestamptz default now(), started_at timestamptz, completed_at timestamptz, attempts int default 0,
  max_attempts int default 3, last_error text,
  constraint valid_status check (status in ('pending', 'claimed', 'running', 'completed', 'failed', 'cancelled'))
);
create index idx_jobs_claimable on jobs (priority desc, created_at) where status = 'pending';
create index idx_jobs_worker on jobs (worker_id) where status in ('claimed', 'running');
"""
CLAIM = """
with chosen as materialized (
  select id from jobs where status = 'pending' and attempts < max_attempts
  order by priority desc, created_at limit %s for update skip locked
)
update jobs set status = 'claimed', worker_id = %s, claimed_at = now(), attempts = attempts + 1
from chosen where jobs.id = chosen.id
returning jobs.id, jobs.job_type, jobs.data
"""
COMPLETE = "update jobs set status = 'completed', progress = 100, completed_at = now() where id = any(%s)"
INSERT = "insert into jobs (job_type, data) values (%s, %s)"


def about() -> dict:
    return {
        "name": "bare SQL",
        "version": f"psycopg {psycopg.__version__}",
        "language": "Python",
        "store": "postgresql",
        "history": True,
        "settings": ["one loop that claims 1,000 jobs at a time", "COPY to enqueue", "polls every 5 ms when idle"],
        "processes": 1,
        "recovery": "nothing recovers them",
    }


def connect() -> psycopg.Connection:
    return psycopg.connect(URL, autocommit=True)


def setup() -> None:
    with connect() as connection:
        has_uuidv7 = connection.info.server_version >= 180000
        connection.execute(TABLE.format(new_id="uuidv7" if has_uuidv7 else "gen_random_uuid"))


def bulk(jobs: int, name: str) -> dict:
    with connect() as connection:
        began = time.monotonic()
        with connection.cursor().copy("copy jobs (job_type, data) from stdin") as copy:
            for n in range(jobs):
                copy.write(f'{peer.type_of(name, n)}\t{{"n": {n}}}\n')
        return peer.timed(jobs, began)


async def single(seconds: float, clients: int, name: str) -> dict:
    free = [await psycopg.AsyncConnection.connect(URL, autocommit=True) for _ in range(clients)]

    async def call(n: int) -> None:
        connection = free.pop()
        await connection.execute(INSERT, [name, f'{{"n": {n}}}'])
        free.append(connection)

    return await peer.repeat(seconds, clients, call)


async def produce(rate: float, seconds: float, name: str) -> dict:
    free = [await psycopg.AsyncConnection.connect(URL, autocommit=True) for _ in range(peer.PRODUCERS)]

    async def call(at: float) -> None:
        connection = free.pop()
        await connection.execute(INSERT, [name, json.dumps(peer.payload_of(name, at))])
        free.append(connection)

    return await peer.pace(rate, seconds, call)


async def run(name: str, data: dict) -> None:
    if name.startswith("noop"):
        peer.ran.one()
    elif name == "wait5":
        await asyncio.sleep(0.005)
        peer.ran.one()
    elif name == "stamp":
        peer.ran.stamp(data["at"])
    elif name == "large":
        peer.ran.large(data["data"])
    else:
        peer.ran.held(data["n"])
        await asyncio.sleep(600)


async def work(kind: str, concurrency: int) -> None:
    batch = BATCH if peer.is_noop(kind) else concurrency
    connection = await psycopg.AsyncConnection.connect(URL, autocommit=True)
    holding: list[asyncio.Task] = []
    with peer.stopping() as stop:
        peer.ready()
        while not stop.is_set():
            cursor = await connection.execute(CLAIM, [batch, "bare"])
            rows = await cursor.fetchall()
            if not rows:
                await asyncio.sleep(0.005)
                continue
            if kind == "hold":
                holding += [asyncio.create_task(run(name, data)) for _, name, data in rows]
                continue
            if kind == "wait5":
                await asyncio.gather(*(run(name, data) for _, name, data in rows))
            else:
                for _, name, data in rows:
                    await run(name, data)
            await connection.execute(COMPLETE, [[row[0] for row in rows]])


def left() -> int:
    with connect() as connection:
        return connection.execute("select count(*) from jobs where status in ('pending', 'claimed')").fetchone()[0]


def finished(jobs: int) -> None:
    with connect() as connection:
        connection.execute(
            """insert into jobs (job_type, data, status, progress, attempts, claimed_at, completed_at)
            select 'noop', jsonb_build_object('n', n), 'completed', 100, 1, now(), now()
            from generate_series(1, %s) n""",
            [jobs],
        )


def hold(jobs: int) -> None:
    with connect() as connection:
        for n in range(jobs):
            connection.execute(INSERT, ["hold", f'{{"n": {n}}}'])


if __name__ == "__main__":
    peer.main(sys.modules[__name__])
