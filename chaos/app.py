"""The application that the workers run. The payload tells a handler what to do; the handler records what it did."""

import asyncio
import json
import os
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import treadle
from chaos.ledger import Ledger, RunLocks
from treadle import Backoff, Cancel, Connections, Every, Job, Limit, Retries, Snooze, Treadle, events

app = Treadle(connections=Connections(pool_size=4))
ledger = Ledger.of_environment()
run_locks = RunLocks(ledger.folder)
SHORT_BACKOFF = Backoff(first="50ms", limit="400ms")


if "FAKETIME_TIMESTAMP_FILE" in os.environ:
    # Since Python 3.11, time.sleep() passes an absolute monotonic time to the kernel. libfaketime mistakes it for a
    # time of day and fails. select() takes a relative time.
    def sleep(seconds: Any) -> None:
        select.select([], [], [], seconds)

    time.sleep = sleep


class RequestedFailure(Exception):
    """The payload requested a failure."""


@contextmanager
def recorded_run(job: Job, token: str, exclusive: list[str], breaks: bool = False, **more: Any) -> Iterator[list[int]]:
    """Record the start and end of a run, and detect runs that overlap with it."""
    run = {"id": str(job.id), "lease": job.fence}
    acquired, others = run_locks.acquire([f"job {job.id}", *exclusive], {**run, "pid": os.getpid()})
    ledger.note("start", **run, token=token, worker=job.worker_id, attempt=job.attempt, others=others, **more)
    how = "stopped"
    try:
        yield acquired
        how = "broke" if breaks else "returned"
    except Exception as error:
        how = {Snooze: "snoozed", Cancel: "cancelled"}.get(type(error), "raised")
        raise
    finally:
        ledger.note("end", **run, how=how)
        run_locks.release(acquired)


def decide(
    job: Job, snoozes: int = 0, fails: int = 0, crashes: int = 0, cancels: bool = False, ends_loop: str = ""
) -> dict[str, int]:
    """End the run as the payload requests. The lease number counts all claims; the attempt skips snoozed ones."""
    if job.fence <= snoozes:
        raise Snooze(0.05)
    if job.attempt <= fails:
        raise RequestedFailure(f"attempt {job.attempt} of {fails} that should fail")
    if crashes:
        os._exit(3)
    if cancels:
        raise Cancel("requested by the payload")
    if ends_loop:
        _end_loop(ends_loop)
    return {"lease": job.fence}


def _end_loop(how: str) -> None:
    if how == "cancel all tasks":
        for task in asyncio.all_tasks():
            task.cancel()
    elif how == "stop the loop":
        asyncio.get_running_loop().stop()
    else:
        asyncio.get_running_loop().call_soon(os._exit, 0)


@app.job(retry=Retries(backoff=SHORT_BACKOFF))
async def on_event_loop(
    job: Job, token: str, seconds: float, exclusive: list[str], ending: dict[str, Any]
) -> dict[str, int]:
    with recorded_run(job, token, exclusive, breaks="ends_loop" in ending):
        if seconds:
            await asyncio.sleep(seconds)
        return decide(job, **ending)


@app.job(retry=Retries(backoff=SHORT_BACKOFF))
def on_thread(job: Job, token: str, seconds: float, exclusive: list[str], ending: dict[str, Any]) -> dict[str, int]:
    with recorded_run(job, token, exclusive):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            job.check()
            time.sleep(0.02)
        return decide(job, **ending)


@app.job(retry=Retries(backoff=SHORT_BACKOFF))
def never_checks(job: Job, token: str, seconds: float, exclusive: list[str], ending: dict[str, Any]) -> dict[str, int]:
    """Runs on a thread and never checks whether it should stop."""
    with recorded_run(job, token, exclusive):
        time.sleep(seconds)
        return decide(job, **ending)


@app.job(retry=Retries(backoff=SHORT_BACKOFF), process=True)
def in_child_process(
    job: Job, token: str, seconds: float, exclusive: list[str], ending: dict[str, Any]
) -> dict[str, int]:
    with recorded_run(job, token, exclusive):
        time.sleep(seconds)
        return decide(job, **ending)


@app.job(retry=Retries(backoff=SHORT_BACKOFF))
def pay(job: Job, token: str, seconds: float, exclusive: list[str], ending: dict[str, Any]) -> dict[str, int] | None:
    """Commits its effect and its completion in one transaction."""
    with recorded_run(job, token, exclusive) as acquired:
        decide(job, **ending)
        with job.transaction() as connection:
            left = connection.execute("select current_setting('app.tenant', true)").fetchone()
            if left and left[0]:
                ledger.note("leaked", text=f"job {job.id} found what job {left[0]} had set in its session")
            connection.execute("select set_config('app.tenant', %s, false)", [str(job.id)])
            connection.execute("insert into public.effects values (%s, %s)", [job.id, job.fence])
            time.sleep(seconds)
            # The commit finishes the job shortly before its handler returns, and the next job with its key may start.
            run_locks.release(acquired)
            ledger.note("finishing", id=str(job.id), lease=job.fence)
            job.complete({"lease": job.fence})
        return None


@app.job(retry=Retries(backoff=SHORT_BACKOFF), limits=treadle.Limit(1, per="tenant"), fair_by="tenant")
async def limited(
    job: Job, tenant: str, token: str, seconds: float, exclusive: list[str], ending: dict[str, Any]
) -> dict[str, int]:
    """One at a time of each tenant, in any order."""
    with recorded_run(job, token, [*exclusive, f"limit {tenant}"]):
        await asyncio.sleep(seconds)
        return decide(job, **ending)


def deployed_limits() -> list[Limit]:
    """Those that this version of the code declares: see storms/deploys.py."""
    file = os.environ.get("TREADLE_CHAOS_LIMIT")
    if file is None:
        return []
    limit = json.loads(Path(file).read_text())
    return [Limit(limit["amount"], name=limit["name"], per=limit["per"] or None)]


@app.job(retry=Retries(backoff=SHORT_BACKOFF), limits=deployed_limits())
async def deployed(
    job: Job, tenant: str, token: str, seconds: float, exclusive: list[str], ending: dict[str, Any]
) -> dict[str, int]:
    with recorded_run(job, token, exclusive, limits=[["deployed", "", 1], ["tenant", tenant, 1]]):
        await asyncio.sleep(seconds)
        return decide(job, **ending)


@app.job
async def beat(job: Job, schedule: str) -> None:
    with recorded_run(job, f"{schedule} {job.scheduled_for}", [], schedule=schedule, scheduled_for=job.scheduled_for):
        pass


for name in "first", "second":
    app.schedule(name, Every("1s", missed="all"), beat, {"schedule": name})


def _other(name: str) -> Any:
    @app.job(name=name, retry=Retries(backoff=SHORT_BACKOFF))
    async def other(
        job: Job, token: str, seconds: float, exclusive: list[str], ending: dict[str, Any]
    ) -> dict[str, int]:
        with recorded_run(job, token, exclusive):
            await asyncio.sleep(seconds)
            return decide(job, **ending)

    return other


# With those above, twelve job types.
OTHERS = [_other(f"other_{n}") for n in range(4)]


ACCEPTED: dict[type[events.JobEvent], str] = {
    events.JobCompleted: "completed",
    events.JobFailed: "failed",
    events.JobRetried: "retried",
    events.JobCancelled: "cancelled",
    events.JobReleased: "released",
}


@app.on(events.JobEvent)
def note_outcome(event: events.JobEvent) -> None:
    known = {"id": str(event.job_id), "lease": event.lease, "worker": event.worker_id}
    if type(event) in ACCEPTED:
        ledger.note("accepted", **known, outcome=ACCEPTED[type(event)])
    elif isinstance(event, events.LeaseWasLost):
        ledger.note("refused", **known)
