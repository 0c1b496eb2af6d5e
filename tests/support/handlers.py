"""The application that the tests' worker processes run. Its handlers record their starts and ends in a ledger outside
the database (chaos/ledger.py)."""

import asyncio
import ctypes
import fcntl
import logging
import os
import re
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import psycopg
from chaos.ledger import FOLDER, Ledger
from pydantic import BeforeValidator
from pydantic_core import core_schema

from treadle import Job, Retries, TimedOut, Treadle, group

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


@app.job(retry=Retries(0))
async def nap(job: Job, seconds: float) -> int:
    """Returns the lease number under which it ran, as most of these handlers do."""
    note("start", job)
    await asyncio.sleep(seconds)
    note("end", job)
    return job.fence


@app.job(retry=Retries(0))
async def keep(job: Job, text: str) -> int:
    """With a long text, no second version of its row fits on the page of the first."""
    note("start", job)
    note("end", job)
    return job.fence


@app.job(retry=Retries(0))
def nap_on_thread(job: Job, seconds: float) -> int:
    """On a thread, and never checks whether it should stop."""
    note("start", job)
    time.sleep(seconds)
    note("end", job)
    return job.fence


@app.job(retry=Retries(0))
def nap_and_check(job: Job, seconds: float) -> int:
    """On a thread, and checks every 10 ms whether it should stop."""
    note("start", job)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        job.check()
        time.sleep(0.01)
    note("end", job)
    return job.fence


@app.job(delivery="at_most_once")
async def pay_once(job: Job) -> None:
    note("start", job)
    await asyncio.sleep(600)


@app.job(delivery="at_most_once", process=True)
def pay_once_in_child(job: Job) -> None:
    note("start", job)
    time.sleep(600)


@app.job(retry=Retries(0), process=True)
def nap_in_child(job: Job, seconds: float) -> int:
    note("start", job)
    time.sleep(seconds)
    note("end", job)
    return job.fence


@app.job(retry=Retries(0))
async def block_the_loop(job: Job, lock: str) -> int:
    """Until nobody else has a lock on the file."""
    note("start", job)
    with Path(lock).open() as file:  # noqa: ASYNC230 - a common mistake, made here on purpose
        fcntl.flock(file, fcntl.LOCK_SH)
    note("end", job)
    return job.fence


@app.job(retry=Retries(0))
def block_the_interpreter(job: Job, lock: str) -> int:
    """As a C extension that holds the GIL, until nobody else has a lock on the file."""
    note("start", job)
    with Path(lock).open() as file:
        ctypes.PyDLL(None).flock(file.fileno(), fcntl.LOCK_SH)
    note("end", job)
    return job.fence


@app.job(retry=Retries(0))
async def search_endlessly(job: Job) -> None:
    """For years, in one call of the regular expressions, which holds the GIL."""
    note("start", job)
    re.match("(a|aa)+$", "a" * 200 + "b")


@app.job(retry=Retries(0))
def wait_for_lock(job: Job, lock: str) -> int:
    """Until nobody else has a lock on the file."""
    note("start", job)
    with Path(lock).open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
    note("end", job)
    return job.fence


@app.job(retry=Retries(0))
def exit_at_once(job: Job) -> None:
    note("start", job)
    os._exit(17)


@app.job(retry=Retries(0))
def segfault(job: Job) -> None:
    note("start", job)
    ctypes.string_at(0)


@app.job(retry=Retries(0))
async def cancel_all_tasks(job: Job) -> None:
    """Those of its worker, too."""
    note("start", job)
    for task in asyncio.all_tasks():
        task.cancel()


@app.job(retry=Retries(0))
async def stop_the_event_loop(job: Job) -> None:
    note("start", job)
    asyncio.get_running_loop().stop()


@app.job(retry=Retries(0))
async def stop_the_event_loop_in_silence(job: Job) -> None:
    """With standard error closed, so that nothing can be printed."""
    note("start", job)
    sys.stderr.close()
    asyncio.get_running_loop().stop()


@app.job(retry=Retries(0))
async def exit_late(job: Job, code: int) -> None:
    """When it has returned, and before its outcome can be stored."""
    note("start", job)
    asyncio.get_running_loop().call_soon(os._exit, code)


@app.job(retry=Retries(1), process=True, memory_limit="200MB")
def exhaust_memory(job: Job) -> None:
    note("start", job)
    kept = []
    while True:
        kept.append(bytearray(10_000_000))
        time.sleep(0.005)


_leaked: list[bytearray] = []


@app.job(retry=Retries(0))
def leak_memory(megabytes: int) -> None:
    _leaked.append(bytearray(b"x") * (megabytes * 2**20))


@app.job(retry=Retries(0), timeout=(0.2, 0.6))
def ignore_the_deadline(job: Job, seconds: float) -> None:
    note("start", job)
    time.sleep(seconds)
    note("end", job)


@app.job(retry=Retries(0), timeout=(0.2, 0.6))
async def block_past_the_deadline(job: Job, seconds: float) -> None:
    note("start", job)
    time.sleep(seconds)  # noqa: ASYNC251
    note("end", job)


@app.job(retry=Retries(0))
def exit_with_code_0(job: Job) -> None:
    """An exit with code 0 is a crash, too."""
    note("start", job)
    os._exit(0)


@app.job(retry=Retries(0))
async def leave_a_task_that_exits(job: Job) -> None:
    """Starts a task that stops the event loop while the handler still runs."""

    async def exits() -> None:
        await asyncio.sleep(0.05)
        raise SystemExit(0)

    note("start", job)
    job_task = asyncio.get_running_loop().create_task(exits())
    await asyncio.sleep(60)
    await job_task


@app.job(retry=Retries(0), process=True, timeout=(None, 0.5))
def report_forever(job: Job) -> None:
    """Reports progress until its deadline."""
    note("start", job)
    while True:
        job.progress(int(time.monotonic() * 100) % 100)
        time.sleep(0.01)


class SlowToSerialize:
    """Takes some time to convert to JSON, after the handler's event loop has finished."""

    def __init__(self, job: Job) -> None:
        self.job = job

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return core_schema.any_schema(serialization=core_schema.plain_serializer_function_ser_schema(cls._serialize))

    @staticmethod
    def _serialize(value: "SlowToSerialize") -> str:
        note("serializes", value.job)
        time.sleep(0.7)
        return "at last"


@app.job(retry=Retries(0), process=True)
async def return_slow_result(job: Job) -> SlowToSerialize:
    note("start", job)
    return SlowToSerialize(job)


@app.job(retry=Retries(0), process=True, timeout=0.1)
def sleep_in_child(job: Job) -> None:
    note("start", job)
    try:
        time.sleep(600)
    except TimedOut:
        note("timed out", job)
        raise


@app.job(retry=Retries(0), process=True, timeout=(1, 1))
def nap_with_deadline(job: Job, seconds: float) -> int:
    note("start", job)
    time.sleep(seconds)
    return job.fence


@app.job(retry=Retries(0), process=True, timeout=0.2)
def tidy_up(job: Job, seconds: float) -> str:
    while not job.cancelled:
        time.sleep(0.01)
    time.sleep(seconds)
    return "tidy"


def _slowly(value: Any) -> Any:
    time.sleep(0.2)
    return value


@app.job(retry=Retries(0), process=True)
async def load_slowly_in_child(value: Annotated[int, BeforeValidator(_slowly)]) -> None:
    """It is interrupted while its arguments are read."""
    await asyncio.sleep(600)


@app.job(retry=Retries(0), process=True)
def replace_in_child(job: Job, words: list[str]) -> list[str]:
    return job.replace_with(group(*(repeat.call(word) for word in words)))


@app.job
async def repeat(word: str) -> str:
    return 2 * word


@app.job(retry=Retries(0), process=True)
def publish_events(job: Job, events: int) -> None:
    for n in range(events):
        job.event("published", n=n)


@app.job(retry=Retries(0), process=True, prints=True)
def log_and_print(lines: int) -> None:
    for n in range(lines):
        logging.getLogger(__name__).warning("logged %s", n)
        print(f"printed {n}")
    print("without an end", end="")


@app.job(retry=Retries(0), process=True)
def transfer(job: Job) -> str:
    job.event("before")
    with job.transaction() as transaction:
        transaction.execute("insert into public.effects values ('a')")
        job.complete("done")
    return "not this"


@app.job(retry=Retries(0), process=True)
def pay_in_child(job: Job, url: str) -> str:
    """The worker's connections are terminated before the completion is committed."""
    with job.transaction() as transaction, psycopg.connect(url, autocommit=True) as connection:
        transaction.execute("insert into public.effects values ('a')")
        job.event("paid")
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and application_name like 'treadle %'"
        )
        job.complete("done")
    return "not this"


@app.job(retry=Retries(0), process=True)
async def exit_in_child(how: str) -> None:
    async def leave() -> None:
        raise SystemExit(7)

    await asyncio.sleep(0.01)
    if how == "task":
        await asyncio.create_task(leave())
    raise KeyboardInterrupt if how == "interrupt" else SystemExit(7)


@app.job(retry=Retries(0), process=True)
async def nap_on_loop_of_child(seconds: float) -> int:
    await asyncio.sleep(seconds)
    return os.getpid()


@app.job
async def enqueue_later(seconds: float) -> None:
    await asyncio.sleep(seconds)
    await noop.aenqueue(n=7)
