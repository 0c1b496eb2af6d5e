"""What the tests of the application share: types of arguments, and ways to run jobs."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from datetime import date, datetime
from enum import Enum
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict

from tests.support.workers import running_worker
from treadle import (
    Handle,
    JobQueue,
    JobRow,
    Status,
    Treadle,
)
from treadle.db.database import Database
from treadle.jobs.backend import Backend
from treadle.watching.watch import Watch

T = TypeVar("T")


def use_database(app: Treadle, url: str, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """Make an imported application and its functions use the test's database."""
    database = Database(url, "treadle")
    backend = replace(app.backend, database=database, watch=Watch(database), pools=None)
    monkeypatch.setattr(app, "database", database)
    monkeypatch.setattr(app.workload, "database", database)
    monkeypatch.setattr(app, "queue", JobQueue(database))
    monkeypatch.setattr(app, "watch", backend.watch)
    monkeypatch.setattr(app, "backend", backend)
    for job_type in app.job_types:
        monkeypatch.setattr(app.function(job_type), "backend", backend)
    return backend


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: float


class Pair(NamedTuple):
    left: int
    right: date


class Order(BaseModel):
    id: UUID
    points: list[Point]
    placed_at: datetime
    colour: Colour = Colour.RED


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    moment: datetime
    colour: Colour


class Opaque:
    """A value that cannot be converted to JSON."""


def heavy() -> None:
    """At the top level of a module, so that another process can import it."""


def run(app: Treadle, main: Coroutine[Any, Any, T]) -> T:
    async def closing() -> T:
        try:
            return await main
        finally:
            await app.aclose()

    return asyncio.run(closing())


def run_jobs(app: Treadle, *handles: Handle[Any]) -> list[Any]:
    """Run these jobs with a worker and return their results."""

    async def results() -> list[Any]:
        async with running_worker(app):
            return [await handle.aresult(timeout=30) for handle in handles]

    return run(app, results())


def claim_and_complete(queue: JobQueue, job_type: str, result: Any = None) -> None:
    """Claim and complete the next job of this type, as a worker would."""
    (job,) = queue.claim([job_type])
    queue.complete(job, result)


def claim_and_start(queue: JobQueue, job_type: str = "films", **options: Any) -> JobRow:
    """Enqueue a job, claim and start it. It runs until the test finishes it."""
    queue.enqueue(job_type, {}, **options)
    (job,) = queue.claim([job_type])
    queue.start(job)
    return job


def count_pending(queue: JobQueue) -> int:
    return queue.counts()[Status.PENDING]
