"""Events and log lines of jobs: on their way to the database, and as they are stored."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from treadle.words.json import Json


class OutgoingEvent(NamedTuple):
    """An event on its way to the database."""

    sequence: int
    """Counts the events of one attempt, from 1."""
    at: float
    """By the clock of the machine, see words/clock.py."""
    name: str
    data: str
    """JSON."""


class OutgoingLogLine(NamedTuple):
    """A log line on its way to the database."""

    sequence: int
    at: float
    level: int
    logger: str
    message: str


class RecordedEvent(NamedTuple):
    """An event of a job: published by its handler (then it has a number), or by the queue itself."""

    job_id: UUID
    job_type: str
    name: str
    """What the handler called it; or enqueued, claimed, started, retried, completed, failed, cancelled."""
    data: dict[str, Json]
    at: datetime
    attempt: int
    number: int | None
    """From 1 for the events of a handler; None for those of the queue."""
    cursor: str
    """To continue after this one: `events(after=cursor)`."""


class LogLine(NamedTuple):
    """One line that a handler logged."""

    number: int
    at: datetime
    attempt: int
    level: str
    logger: str
    message: str
