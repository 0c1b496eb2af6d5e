"""What the tests of the application share: kinds of values, and a worker's part."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict

from tests.support.workers import kept
from treadle import (
    Handle,
    JobQueue,
    JobRow,
    Status,
    Treadle,
)
from treadle.app.backend import Backend
from treadle.db.database import Database
from treadle.watching.watch import Watch

T = TypeVar("T")


def move(app: Treadle, url: str, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """Let an application that is imported once, and its functions, use the test's database."""
    database = Database(url, "treadle")
    backend = Backend(database, Watch(database), app.payload_limit)
    monkeypatch.setattr(app, "database", database)
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
    """Nothing that can be JSON."""


def heavy() -> None:
    """At the top of a module, so that another process can find it."""


def run(app: Treadle, main: Coroutine[Any, Any, T]) -> T:
    async def closing() -> T:
        try:
            return await main
        finally:
            await app.aclose()

    return asyncio.run(closing())


def work(app: Treadle, *handles: Handle[Any]) -> list[Any]:
    """The results of these jobs, run by a worker."""

    async def results() -> list[Any]:
        async with kept(app):
            return [await handle.aresult(timeout=30) for handle in handles]

    return run(app, results())


def complete(queue: JobQueue, job_type: str, result: Any = None) -> None:
    """Do the worker's part by hand."""
    (job,) = queue.claim([job_type])
    queue.complete(job, result)


def held(queue: JobQueue, job_type: str = "films", **options: Any) -> JobRow:
    """A job that runs as long as the test likes."""
    queue.enqueue(job_type, {}, **options)
    (job,) = queue.claim([job_type])
    queue.start(job)
    return job


def pending(queue: JobQueue) -> int:
    return queue.counts()[Status.PENDING]
