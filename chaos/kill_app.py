"""The application of chaos/kills.py: jobs whose effects in the database must happen exactly once."""

import os
import random
import time
from pathlib import Path
from typing import Any

from psycopg import Connection

from treadle import Backoff, Job, Retries, Treadle

app = Treadle()
STEPS = 10
TABLES = """
create table if not exists public.effects (job_id uuid, step int);
create table if not exists public.accounts (id int primary key, balance int not null);
create table if not exists public.bookings (job_id uuid, account int, amount int);
create table if not exists public.rows (n int);
"""


def effect(connection: Connection[Any], job_id: str, step: int) -> int:
    connection.execute("insert into public.effects values (%s, %s)", [job_id, step])
    time.sleep(random.uniform(0, 0.02))
    return step


@app.job(process=True, retry=Retries(backoff=Backoff(first="10ms", limit="10ms")))
def ten_steps(job: Job) -> int:
    return sum(job.transact(f"step {n}", effect, str(job.id), n) for n in range(STEPS))


@app.job(process=True, retry=Retries(backoff=Backoff(first="10ms", limit="10ms")))
def debit(job: Job, account: int, amount: int) -> None:
    time.sleep(random.uniform(0, 0.05))
    with job.transaction() as connection:
        connection.execute("update public.accounts set balance = balance - %s where id = %s", [amount, account])
        time.sleep(random.uniform(0, 0.02))
        connection.execute("insert into public.bookings values (%s, %s, %s)", [job.id, account, amount])
        job.complete()
    time.sleep(random.uniform(0, 0.02))


@app.job(process=True, retry=Retries(backoff=Backoff(first="10ms", limit="10ms")))
def import_rows(job: Job, rows: int, seconds: float, count_file: Path) -> int:
    """Import rows. Appends a byte to `count_file` for each row processed, including rows whose work was lost."""
    done = job.checkpoint or 0
    worked = []
    count = os.open(count_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for n in job.track(range(done, rows), rows, stage="importing", done=done):
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass
        os.write(count, b".")
        worked.append(n)
        if len(worked) == 200:
            with app.database.transaction() as connection:
                connection.execute("insert into public.rows select unnest(%s::int[])", [worked])
            worked.clear()
            job.save(n + 1)
    os.close(count)
    return rows
