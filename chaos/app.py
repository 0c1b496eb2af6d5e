"""The application of the workers. A job's payload says what its handler has to do; what it did goes to the ledger.

Under a previous version of Treadle too, for the upgrade: nothing here may need the newest.
"""

import asyncio
import os
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from chaos.ledger import Ledger, Seats
from treadle import Backoff, Cancel, Job, Snooze, Treadle, events

app = Treadle(pool_size=4)
ledger = Ledger.of_environment()
seats = Seats(ledger.folder)
NOT_STARTED = Backoff(first="50ms", limit="400ms")


if "FAKETIME_TIMESTAMP_FILE" in os.environ:
    # Since 3.11 Python sleeps until a moment of the uptime; libfaketime takes that for a time of day, and refuses it.
    def sleep(seconds: Any) -> None:
        select.select([], [], [], seconds)

    time.sleep = sleep


class Asked(Exception):
    """The payload asked for a failure."""


@contextmanager
def run(job: Job, token: str, alone: list[str]) -> Iterator[list[int]]:
    """Sits where nobody else may, and notes beginning and end."""
    who = {"id": str(job.id), "lease": job.fence}
    taken, beside = seats.sit_down([f"job {job.id}", *alone], {**who, "pid": os.getpid()})
    ledger.note("start", **who, token=token, worker=job.worker_id, attempt=job.attempt, beside=beside)
    how = "stopped"
    try:
        yield taken
        how = "returned"
    except Exception as error:
        how = {Snooze: "snoozed", Cancel: "cancelled"}.get(type(error), "raised")
        raise
    finally:
        ledger.note("end", **who, how=how)
        seats.stand_up(taken)


def decide(job: Job, snoozes: int = 0, fails: int = 0, crashes: int = 0, cancels: bool = False) -> dict[str, int]:
    """The lease counts the claims, the attempt only those that used one."""
    if job.fence <= snoozes:
        raise Snooze(0.05)
    if job.attempt <= fails:
        raise Asked(f"attempt {job.attempt} of {fails} that fail")
    if crashes:
        os._exit(3)
    if cancels:
        raise Cancel("the payload says so")
    return {"lease": job.fence}


@app.job(backoff=NOT_STARTED)
async def on_the_loop(job: Job, token: str, seconds: float, alone: list[str], then: dict[str, Any]) -> dict[str, int]:
    with run(job, token, alone):
        if seconds:
            await asyncio.sleep(seconds)
        return decide(job, **then)


@app.job(backoff=NOT_STARTED)
def on_a_thread(job: Job, token: str, seconds: float, alone: list[str], then: dict[str, Any]) -> dict[str, int]:
    with run(job, token, alone):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            job.check()
            time.sleep(0.02)
        return decide(job, **then)


@app.job(backoff=NOT_STARTED)
def stubborn(job: Job, token: str, seconds: float, alone: list[str], then: dict[str, Any]) -> dict[str, int]:
    """On a thread that never looks whether it should stop."""
    with run(job, token, alone):
        time.sleep(seconds)
        return decide(job, **then)


@app.job(backoff=NOT_STARTED, process=True)
def apart(job: Job, token: str, seconds: float, alone: list[str], then: dict[str, Any]) -> dict[str, int]:
    with run(job, token, alone):
        time.sleep(seconds)
        return decide(job, **then)


@app.job(backoff=NOT_STARTED)
def pay(job: Job, token: str, seconds: float, alone: list[str], then: dict[str, Any]) -> dict[str, int] | None:
    """Its effect and its end are one commit."""
    with run(job, token, alone) as taken:
        decide(job, **then)
        with job.transaction() as connection:
            connection.execute("insert into public.effects values (%s, %s)", [job.id, job.fence])
            time.sleep(seconds)
            # With the commit the job has ended, a moment before its handler: the next of its key may begin.
            seats.stand_up(taken)
            job.complete({"lease": job.fence})
        return None


ACCEPTED: dict[type[events.JobEvent], str] = {
    events.JobCompleted: "completed",
    events.JobFailed: "failed",
    events.JobRetried: "retried",
    events.JobCancelled: "cancelled",
    events.JobReleased: "released",
}


@app.on(events.JobEvent)
def note_outcome(event: events.JobEvent) -> None:
    known = {"id": str(event.job_id), "lease": getattr(event, "lease", None), "worker": event.worker_id}
    if type(event) in ACCEPTED:
        ledger.note("accepted", **known, outcome=ACCEPTED[type(event)])
    elif isinstance(event, events.LeaseWasLost):
        ledger.note("refused", **known)
