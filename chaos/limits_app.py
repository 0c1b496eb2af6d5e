"""The application of chaos/limits.py: a job type for each kind of limit. Handlers note when they begin and end."""

import asyncio
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from chaos.ledger import Ledger
from chaos.limit_checker import RULES
from treadle import Backoff, Job, Limit, Rate, RateLimited, Retries, Snooze, Treadle

app = Treadle()
ledger = Ledger.of_environment()

TOLD = 0.5  # seconds for which a handler is told to wait
LIMITED = {name for rule in RULES for name in rule.job_types}


class RequestedFailure(Exception):
    """Some attempts fail."""


def options(job_type: str) -> dict[str, Any]:
    limits: list[Limit | Rate] = []
    for rule in RULES:
        per = "tenant" if rule.per_tenant else None
        if job_type in rule.job_types and rule.per_second:
            limits.append(Rate(rule.amount, "1s", per=per, burst=rule.burst, name=rule.name))
        elif job_type in rule.job_types:
            limits.append(Limit(rule.amount, per=per, name=rule.name))
    return {"limits": limits, "retry": Retries(49, backoff=Backoff(first="50ms", limit="200ms"))}


@contextmanager
def noted(job: Job, tenant: str, weight: int, last: bool) -> Iterator[None]:
    """One run in ten fails, is put off, or is told to wait; none of the last round."""
    run = {"id": str(job.id), "lease": job.fence, "type": job.type, "tenant": tenant}
    ledger.note("start", **run, weight=weight, last=last)
    told = 0.0
    try:
        yield
        chance = 1.0 if last else random.random()
        if chance < 0.05:
            raise RequestedFailure
        if chance < 0.09:
            raise Snooze(random.choice([0, 0.05, 0.3]))
        if chance < 0.095 and job.type in ("rated", "tenant_rated"):
            told = TOLD
            raise RateLimited(TOLD)
    finally:
        ledger.note("end", **run, told=told)


def declare(job_type: str, **more: Any) -> None:
    @app.job(name=job_type, **options(job_type), **more)
    async def work(job: Job, tenant: str, seconds: float, weight: int = 1, last: bool = False) -> None:
        with noted(job, tenant, weight, last):
            await asyncio.sleep(seconds)


for each in sorted(LIMITED - {"both"}):
    declare(each)
declare("fair", fair_by="tenant")


@app.job(**options("both"))
def both(job: Job, tenant: str, seconds: float, weight: int = 1, last: bool = False) -> None:
    """On a thread."""
    with noted(job, tenant, weight, last):
        time.sleep(seconds)
