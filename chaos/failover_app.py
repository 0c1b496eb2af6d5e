"""The application of the failover: its handlers, and events of its workers, write to a file outside the database."""

import asyncio
import json
import os
from typing import Any

from treadle import Job, Treadle, events
from treadle.words.clock import now

app = Treadle()


def note(what: str, **more: Any) -> None:
    """One line in one write, so that it is whole however the process ends."""
    entry = {"what": what, "at": now(), "pid": os.getpid(), **more}
    descriptor = os.open(os.environ["TREADLE_FAILOVER_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, json.dumps(entry).encode() + b"\n")
    finally:
        os.close(descriptor)


@app.job(max_attempts=1)
async def carry(job: Job, n: int, seconds: float) -> int:
    """Its result is the lease under which it was done. One attempt: what a failover interrupts must not cost it."""
    note("start", id=str(job.id), n=n, lease=job.fence)
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        note("stopped", id=str(job.id), n=n, lease=job.fence)
        raise
    note("end", id=str(job.id), n=n, lease=job.fence)
    return job.fence


@app.on(events.JobCompleted)
def accepted(event: events.JobCompleted) -> None:
    """The database has said so."""
    note("accepted", id=str(event.job_id), worker=event.worker_id)


@app.on(events.WorkerStarted)
def started(event: events.WorkerStarted) -> None:
    note("worker", worker=event.worker_id)


if __name__ == "__main__":
    # A worker inside a program, with a keeper of its own. By its other name, so that children would find it.
    from chaos.failover_app import app as same

    same.run_worker()
