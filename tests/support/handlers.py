"""The application that the tests' worker processes run. What its handlers do is written to a ledger outside the
database (chaos/ledger.py)."""

import asyncio
import ctypes
import logging
import os
import time
from pathlib import Path
from typing import Any

import psycopg
from chaos.ledger import FOLDER, Ledger
from pydantic_core import core_schema

from treadle import Job, Treadle

app = Treadle(schema=os.environ.get("TREADLE_TEST_SCHEMA", "treadle"))
_ledgers: dict[str, Ledger] = {}


def note(what: str, job: Job) -> None:
    folder = os.environ.get(FOLDER)
    if folder:
        ledger = _ledgers.setdefault(folder, Ledger(Path(folder)))
        ledger.note(what, id=str(job.id), lease=job.fence)


@app.job
async def noop(n: int = 0) -> None:
    pass


@app.job(max_attempts=1)
async def nap(job: Job, seconds: float) -> int:
    """Its result is the lease under which it was done."""
    note("start", job)
    await asyncio.sleep(seconds)
    note("end", job)
    return job.fence


@app.job(max_attempts=1)
def doze(job: Job, seconds: float) -> int:
    """The same on a thread, which does not look whether it should stop."""
    note("start", job)
    time.sleep(seconds)
    note("end", job)
    return job.fence


@app.job(max_attempts=1)
def attentive(job: Job, seconds: float) -> int:
    """On a thread that does look."""
    note("start", job)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        job.check()
        time.sleep(0.01)
    note("end", job)
    return job.fence


@app.job(max_attempts=1, process=True)
def apart(job: Job, seconds: float) -> int:
    note("start", job)
    time.sleep(seconds)
    note("end", job)
    return job.fence


@app.job(max_attempts=1)
async def block_the_loop(job: Job, seconds: float) -> int:
    note("start", job)
    time.sleep(seconds)  # noqa: ASYNC251 - what people do
    note("end", job)
    return job.fence


@app.job(max_attempts=1)
def block_the_interpreter(job: Job, seconds: int) -> int:
    """A C extension that holds the GIL."""
    note("start", job)
    ctypes.PyDLL(None).sleep(seconds)
    note("end", job)
    return job.fence


@app.job(max_attempts=1)
def leave_at_once(job: Job) -> None:
    note("start", job)
    os._exit(17)


@app.job(max_attempts=1)
def touch_nothing(job: Job) -> None:
    note("start", job)
    ctypes.string_at(0)


@app.job(max_attempts=2, process=True, memory_limit="200MB")
def hoard(job: Job) -> None:
    note("start", job)
    kept = []
    while True:
        kept.append(bytearray(10_000_000))
        time.sleep(0.005)


@app.job(max_attempts=1, timeout=0.2, deadline=0.6)
def ignore_the_deadline(job: Job, seconds: float) -> None:
    note("start", job)
    time.sleep(seconds)
    note("end", job)


@app.job(max_attempts=1, timeout=0.2, deadline=0.6)
async def block_past_the_deadline(job: Job, seconds: float) -> None:
    note("start", job)
    time.sleep(seconds)  # noqa: ASYNC251
    note("end", job)


@app.job(max_attempts=1)
def leave_politely(job: Job) -> None:
    """An exit code of 0 is a crash, too."""
    note("start", job)
    os._exit(0)


@app.job(max_attempts=1)
async def leave_behind(job: Job) -> None:
    """A task that outlives its handler, and takes the event loop down."""

    async def exits() -> None:
        await asyncio.sleep(0.05)
        raise SystemExit(0)

    note("start", job)
    job_task = asyncio.get_running_loop().create_task(exits())
    await asyncio.sleep(60)
    await job_task


@app.job(max_attempts=1, process=True, deadline=1)
def chatter(job: Job) -> None:
    """Reports without end."""
    note("start", job)
    while True:
        job.progress(int(time.monotonic() * 100) % 100)
        time.sleep(0.01)


class SlowToTell:
    """Takes its time to be made JSON: by then the handler's event loop has ended."""

    def __init__(self, job: Job) -> None:
        self.job = job

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return core_schema.any_schema(serialization=core_schema.plain_serializer_function_ser_schema(cls._tell))

    @staticmethod
    def _tell(value: "SlowToTell") -> str:
        note("tells", value.job)
        time.sleep(1)
        return "at last"


@app.job(max_attempts=1, process=True)
async def slow_to_tell(job: Job) -> SlowToTell:
    note("start", job)
    return SlowToTell(job)


@app.job(max_attempts=1, process=True, timeout=5, deadline=6)
def punctual(job: Job, seconds: float) -> int:
    note("start", job)
    time.sleep(seconds)
    return job.fence


@app.job(max_attempts=1, process=True)
def tell(job: Job, events: int) -> None:
    for n in range(events):
        job.event("told", n=n)


@app.job(max_attempts=1, process=True, prints=True)
def shout(lines: int) -> None:
    for n in range(lines):
        logging.getLogger(__name__).warning("logged %s", n)
        print(f"printed {n}")
    print("without an end", end="")


@app.job(max_attempts=1, process=True)
def transfer(job: Job) -> str:
    job.event("before")
    with job.transaction() as transaction:
        transaction.execute("insert into public.effects values ('a')")
        job.complete("done")
    return "not this"


@app.job(max_attempts=1, process=True)
def pay_apart(job: Job, url: str) -> str:
    """The connections of the worker die before the end is committed."""
    with job.transaction() as transaction, psycopg.connect(url, autocommit=True) as connection:
        transaction.execute("insert into public.effects values ('a')")
        job.event("paid")
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and application_name like 'treadle %'"
        )
        job.complete("done")
    return "not this"
