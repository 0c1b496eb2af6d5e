"""What a job tells while it runs: on its way, and as it is kept."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from treadle.words.json import Json


class Told(NamedTuple):
    """An event on its way to the database."""

    sequence: int
    """The how-manieth of its claim."""
    at: float
    """By the clock of the machine: words/clock.py."""
    name: str
    data: str
    """JSON."""


class Logged(NamedTuple):
    """A log line on its way."""

    sequence: int
    at: float
    level: int
    logger: str
    message: str


class RecordedEvent(NamedTuple):
    """One event of a job's life: told by its handler (then it has a number), or by the queue itself."""

    job_id: UUID
    job_type: str
    name: str
    """What the handler called it; or enqueued, claimed, started, retried, completed, failed, cancelled."""
    data: dict[str, Json]
    at: datetime
    attempt: int
    number: int | None
    """The first event of a job is 1; None for the queue's own."""
    cursor: str
    """To go on after this one: `events(after=cursor)`."""


class LogLine(NamedTuple):
    """One line that a handler logged."""

    number: int
    at: datetime
    attempt: int
    level: str
    logger: str
    message: str
