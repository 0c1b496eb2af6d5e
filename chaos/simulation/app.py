"""The jobs of a simulation. What a run does is in its arguments, so that it is part of the plan."""

import asyncio
from datetime import datetime
from typing import Any

from chaos.simulation.database import SCHEMA
from chaos.simulation.loop import running_in
from chaos.simulation.record import Record
from treadle import Backoff, Every, Job, Limit, Retries, Snooze, Treadle, events

# How many jobs of a type may run at once: in all, and per tenant.
LIMITS = {"limited": 2}
TENANT_LIMITS = {"tenanted": 1}
RETRIES, FIRST_RETRY = 3, 0.1
CRASH_LIMIT = 3
SCHEDULES = {"every two seconds": 2.0, "every five seconds": 5.0}
EPOCH = datetime.fromisoformat("2026-01-01T00:00:00+00:00")


class RequestedFailure(Exception):
    """A run fails because its plan says so."""


def make_app(url: str, record: Record) -> Treadle:
    app = Treadle(url, schema=SCHEMA)
    app.database.use(url)

    async def work(
        job: Job, n: int, seconds: float, tenant: str = "", fails: int = 0, snoozes: int = 0, dies: str = ""
    ) -> None:
        process = running_in.get()
        assert process is not None
        run = {"n": n, "fence": job.fence, "process": process.name}
        record.note("start", **run, type=job.type, tenant=tenant, key=job.key, attempt=job.attempt)
        how = "cancelled"
        try:
            await asyncio.sleep(seconds)
            if dies == "running":
                process.crash()
                await asyncio.Event().wait()
            elif dies == "returned":
                asyncio.get_running_loop().call_soon(process.crash)
            elif job.attempt <= fails:
                how = "failed"
                raise RequestedFailure
            elif job.fence <= fails + snoozes:
                how = "snoozed"
                raise Snooze(FIRST_RETRY)
            how = "returned"
        finally:
            record.note("end", **run, how=how)

    retry = Retries(RETRIES, backoff=Backoff(first=FIRST_RETRY, limit=1, jitter=0.5))
    for name in ("plain", "keyed", *LIMITS, *TENANT_LIMITS):
        limits: list[Any] = [Limit(LIMITS[name])] if name in LIMITS else []
        limits += [Limit(TENANT_LIMITS[name], per="tenant")] if name in TENANT_LIMITS else []
        app.job(name=name, retry=retry, limits=limits)(work)

    @app.job(name="beat")
    async def beat(job: Job, schedule: str) -> None:
        assert job.scheduled_for is not None
        record.note("beat", schedule=schedule, job=str(job.id), time=(job.scheduled_for - EPOCH).total_seconds())

    for name, seconds in SCHEDULES.items():
        app.schedule(name, Every(f"{seconds:g}s", missed="all", missed_limit=1000), beat, {"schedule": name})

    def report(event: Any) -> None:
        record.note("outcome", job=str(event.job_id), how=type(event).__name__, worker=event.worker_id)

    for kind in (events.JobCompleted, events.JobFailed):
        app.on(kind)(report)
    return app
