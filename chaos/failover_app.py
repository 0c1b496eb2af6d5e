"""The application of chaos/failover.py. Its handlers and event listeners write to a file outside of the database."""

import asyncio
import json
import os
from typing import Any

from treadle import Job, Retries, Treadle, events
from treadle.words.clock import now

app = Treadle()


def note(what: str, **more: Any) -> None:
    """Append a line with a single write, so that a killed process leaves no partial line."""
    entry = {"what": what, "at": now(), "pid": os.getpid(), **more}
    descriptor = os.open(os.environ["TREADLE_FAILOVER_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, json.dumps(entry).encode() + b"\n")
    finally:
        os.close(descriptor)


@app.job(retry=Retries(0))
async def wait_and_return(job: Job, n: int, seconds: float) -> int:
    """Return the lease number. It is never retried, because an interrupted run must not use up an attempt."""
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
    """The database accepted the outcome."""
    note("accepted", id=str(event.job_id), worker=event.worker_id)


@app.on(events.WorkerStarted)
def started(event: events.WorkerStarted) -> None:
    note("worker", worker=event.worker_id)


if __name__ == "__main__":
    # A worker inside a program, without a supervisor. Imported by its module name instead of __main__, so that child
    # processes can import it too.
    from chaos.failover_app import app as imported

    imported.run_worker()
